/* Path 1/13: from X clients' RENDER requests, to op.c.
 * Wraps the drawing ops of PictureScreen in the same order as gc.c. Knows which pixels an operator
 * can change, which it copies and which it leaves opaque; never how they are blended. */
#include "thinc.h"

#include <glyphstr.h>

static struct {
    CompositeProcPtr Composite;
    GlyphsProcPtr Glyphs;
    CompositeRectsProcPtr CompositeRects;
    TrapezoidsProcPtr Trapezoids;
    TrianglesProcPtr Triangles;
    TriStripProcPtr TriStrip;
    TriFanProcPtr TriFan;
    AddTrapsProcPtr AddTraps;
    AddTrianglesProcPtr AddTriangles;
} wrapped;

/* True if a transparent source leaves the destination unchanged, so that a shape changes only
 * pixels inside it. For the other operators pixman composes whole destinations (pixman-trap.c,
 * zero_src_has_no_effect). */
static bool bounded(CARD8 op) {
    switch (op) {
    case PictOpDst:
    case PictOpOver:
    case PictOpOverReverse:
    case PictOpOutReverse:
    case PictOpAtop:
    case PictOpXor:
    case PictOpAdd: return true;
    default: return false;
    }
}

static void add_clip(struct op *op, PicturePtr dst) {
    BoxRec all = dst->pCompositeClip->extents;
    op_add(op, all.x1, all.y1, all.x2, all.y2);
}

/* ---- properties of pictures ------------------------------------------------------------------ */
/* The colour of a single-coloured picture: a solid fill, or a repeating pixmap of one pixel, which
 * older clients use. */
static bool only_color(PicturePtr p, uint32_t *argb) {
    if (!p->pDrawable) {
        if (!p->pSourcePict || p->pSourcePict->type != SourcePictTypeSolidFill)
            return false;
        *argb = (uint32_t)p->pSourcePict->solidFill.color;
        return true;
    }
    if (p->pDrawable->type != DRAWABLE_PIXMAP || p->pDrawable->width != 1 ||
        p->pDrawable->height != 1 || p->repeatType == RepeatNone || p->alphaMap || p->transform ||
        p->filter == PictFilterConvolution ||
        (thinc.buffers > 0 && dri3_is_buffer((PixmapPtr)p->pDrawable)))
        return false;
    const void *pixel = ((PixmapPtr)p->pDrawable)->devPrivate.ptr;
    switch ((uint32_t)p->format) {
    case PICT_a8r8g8b8: *argb = *(const uint32_t *)pixel; return true;
    case PICT_x8r8g8b8: *argb = *(const uint32_t *)pixel | 0xff000000; return true;
    case PICT_a8: *argb = (uint32_t)(*(const uint8_t *)pixel) << 24; return true;
    default: return false;
    }
}

static bool opaque_color(PicturePtr src) {
    uint32_t argb;
    return only_color(src, &argb) && argb >> 24 == 0xff;
}

/* True if the mask hides nothing. */
static bool no_mask(PicturePtr mask) {
    uint32_t argb;
    return !mask || (only_color(mask, &argb) &&
                     (mask->componentAlpha ? argb == 0xffffffff : argb >> 24 == 0xff));
}

static bool plain_format(PicturePtr p) {
    return p->format == PICT_x8r8g8b8 || p->format == PICT_a8r8g8b8;
}

/* The whole pixels by which a picture is shifted before it is drawn; false if it is rotated, scaled
 * or filtered. */
static bool whole_shift(PicturePtr p, int *x, int *y) {
    *x = *y = 0;
    if (p->filter == PictFilterConvolution)
        return false;
    if (!p->transform)
        return true;
    const PictTransform *t = p->transform;
    const xFixed one = IntToxFixed(1);
    *x = xFixedToInt(t->matrix[0][2]);
    *y = xFixedToInt(t->matrix[1][2]);
    return t->matrix[0][0] == one && t->matrix[1][1] == one && t->matrix[2][2] == one &&
           t->matrix[0][1] == 0 && t->matrix[1][0] == 0 && t->matrix[2][0] == 0 &&
           t->matrix[2][1] == 0 && IntToxFixed(*x) == t->matrix[0][2] &&
           IntToxFixed(*y) == t->matrix[1][2];
}

/* ---- alpha ----------------------------------------------------------------------------------- */
/* Sets what the operator does to an opaque destination. `opaque`: every pixel is drawn, with an
 * opaque colour. */
static void set_blend_alpha(struct op *op, CARD8 pict_op, PicturePtr dst, bool opaque) {
    /* Other formats keep alpha elsewhere, or leave it undefined. */
    if (!op->has_alpha || dst->format != PICT_a8r8g8b8 || dst->alphaMap)
        return;
    switch (pict_op) {
    case PictOpSrc: op_set_alpha(op, opaque ? THINC_FLAG_OPAQUE : 0); return;
    case PictOpOver: op_set_alpha(op, opaque ? THINC_FLAG_OPAQUE : THINC_FLAG_KEEPS_ALPHA); return;
    case PictOpDst:
    case PictOpOverReverse:
    case PictOpAtop:
    case PictOpAdd:
    case PictOpSaturate: op_set_alpha(op, THINC_FLAG_KEEPS_ALPHA); return;
    default:
        /* a + b - ab, which is 1 if either is. */
        if (pict_op >= PictOpMultiply && pict_op <= PictOpHSLLuminosity)
            op_set_alpha(op, THINC_FLAG_KEEPS_ALPHA);
        return;
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */
/* True if opaque source pixels are copied bit by bit. */
static bool copies_pixels(const struct op *op, CARD8 pict_op, PicturePtr src, PicturePtr dst,
                          const struct target *from) {
    if ((pict_op != PictOpSrc && pict_op != PictOpOver) || !plain_format(src) ||
        !plain_format(dst) || src->alphaMap || dst->alphaMap)
        return false;
    if (!op->has_alpha)
        return true;
    /* If the destination has alpha, alpha must be copied too. A source whose memory has no alpha is
     * opaque, and so is the copy. */
    int depth = from->pixmap->drawable.depth;
    return dst->format == PICT_a8r8g8b8 &&
           (src->format == PICT_a8r8g8b8 ? depth == 32 : depth == 24);
}

static bool overlap(struct box a, struct box b) {
    return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2;
}

/* Collects a composite that is a copy; false if it is not. The source's clip does not matter: fb
 * ignores it. */
static bool add_copy(struct op *op, CARD8 pict_op, PicturePtr src, PicturePtr dst, int sx, int sy,
                     struct box to) {
    struct target from;
    int shift_x, shift_y;
    if (!src->pDrawable || !drawable_target(src->pDrawable, &from) ||
        !copies_pixels(op, pict_op, src, dst, &from) || !whole_shift(src, &shift_x, &shift_y))
        return false;
    /* pixman reads the whole pixmap, whatever part of it a window covers. (dx, dy) is the pixmap's
     * origin in the destination's coordinates. */
    int dx = to.x1 - (sx + shift_x + src->pDrawable->x + from.off_x),
        dy = to.y1 - (sy + shift_y + src->pDrawable->y + from.off_y);
    struct box there = {dx, dy, dx + from.pixmap->drawable.width,
                        dy + from.pixmap->drawable.height};
    const BoxRec *clip = RegionExtents(dst->pCompositeClip);
    struct box drawn = box_intersect(to, (struct box){clip->x1, clip->y1, clip->x2, clip->y2});
    struct box copied = box_intersect(drawn, there);
    bool whole = box_equal(copied, drawn);
    if (box_empty(copied) || (!whole && src->repeatType != RepeatNone))
        return false;
    /* pixman reads and writes in no particular order. */
    if (from.serial == op->dst) {
        int x = dx + op->off_x, y = dy + op->off_y;
        if (overlap(copied,
                    (struct box){copied.x1 - x, copied.y1 - y, copied.x2 - x, copied.y2 - y}))
            return false;
    }
    boxes_add_clipped(&op->copied, &copied, dst->pCompositeClip);
    if (!whole && pict_op == PictOpSrc) {
        /* Outside its pixmap a source is transparent black. */
        boxes_add_clipped(&op->drawn, &drawn, dst->pCompositeClip);
        boxes_subtract(&op->drawn, &op->copied);
        op->hint = THINC_SOLID;
    }
    if (op->copied.coarse || op->drawn.coarse || op->copied.count + op->drawn.count > OP_BOXES) {
        op->copied.count = op->drawn.count = 0;
        op->copied.coarse = op->drawn.coarse = false;
        return false;
    }
    op->src = from.serial;
    op->dx = dx + op->off_x;
    op->dy = dy + op->off_y;
    op->copy_flags = pict_op == PictOpOver && src->format == PICT_a8r8g8b8 ? THINC_FLAG_OVER : 0;
    if (from.serial != 0)
        pixmap_track(from.pixmap);
    return true;
}

/* ---- collecting boxes ------------------------------------------------------------------------ */
static struct op *begin_composite(struct op *op, CARD8 pict_op, PicturePtr src, PicturePtr mask,
                                  PicturePtr dst, int sx, int sy, int x, int y, int w, int h) {
    struct box to = {dst->pDrawable->x + x, dst->pDrawable->y + y, dst->pDrawable->x + x + w,
                     dst->pDrawable->y + y + h};
    bool unmasked = no_mask(mask);
    if (unmasked && add_copy(op, pict_op, src, dst, sx, sy, to))
        return op_begin_clipped(op);
    op->hint = THINC_COMPOSITE;
    uint32_t color;
    if (unmasked && plain_format(dst) && only_color(src, &color) &&
        (pict_op == PictOpSrc || (pict_op == PictOpOver && color >> 24 == 0xff))) {
        op->hint = THINC_SOLID;
        op->arg[0] = color & 0x00ffffff;
    }
    set_blend_alpha(op, pict_op, dst, unmasked && opaque_color(src));
    op_add(op, to.x1, to.y1, to.x2, to.y2);
    return op_begin(op, dst->pCompositeClip);
}

/* Adds the ink box of each run of glyphs; one box around all if the operator also changes pixels
 * between them. */
static void add_glyphs(struct op *op, CARD8 pict_op, PicturePtr dst, int nlists, GlyphListPtr lists,
                       GlyphPtr *glyphs) {
    int x = dst->pDrawable->x, y = dst->pDrawable->y;
    struct box all = {INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN};
    for (int l = 0; l < nlists; l++) {
        struct box run = {INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN};
        x += lists[l].xOff;
        y += lists[l].yOff;
        for (int i = 0; i < lists[l].len; i++) {
            const xGlyphInfo *info = &(*glyphs++)->info;
            int x1 = x - info->x, y1 = y - info->y, x2 = x1 + info->width, y2 = y1 + info->height;
            x += info->xOff;
            y += info->yOff;
            if (x1 >= x2 || y1 >= y2)
                continue;
            run.x1 = x1 < run.x1 ? x1 : run.x1;
            run.y1 = y1 < run.y1 ? y1 : run.y1;
            run.x2 = x2 > run.x2 ? x2 : run.x2;
            run.y2 = y2 > run.y2 ? y2 : run.y2;
        }
        if (bounded(pict_op)) {
            op_add(op, run.x1, run.y1, run.x2, run.y2);
        } else if (run.x1 < run.x2) {
            all.x1 = run.x1 < all.x1 ? run.x1 : all.x1;
            all.y1 = run.y1 < all.y1 ? run.y1 : all.y1;
            all.x2 = run.x2 > all.x2 ? run.x2 : all.x2;
            all.y2 = run.y2 > all.y2 ? run.y2 : all.y2;
        }
    }
    op_add(op, all.x1, all.y1, all.x2, all.y2);
    op->hint = THINC_GLYPHS;
    set_blend_alpha(op, pict_op, dst, false);
}

static void add_rects(struct op *op, CARD8 pict_op, PicturePtr dst, const xRenderColor *color,
                      int n, const xRectangle *rects) {
    for (int i = 0; i < n; i++) {
        int x = dst->pDrawable->x + rects[i].x, y = dst->pDrawable->y + rects[i].y;
        op_add(op, x, y, x + rects[i].width, y + rects[i].height);
    }
    op->hint = THINC_COMPOSITE;
    bool opaque = color->alpha >= 0xff00;
    set_blend_alpha(op, pict_op, dst, opaque);
    if (!plain_format(dst))
        return;
    if (pict_op == PictOpClear) {
        op->hint = THINC_SOLID;
    } else if (pict_op == PictOpSrc || (pict_op == PictOpOver && opaque)) {
        op->hint = THINC_SOLID;
        op->arg[0] = (uint32_t)(color->red >> 8) << 16 | (uint32_t)(color->green >> 8) << 8 |
                     color->blue >> 8;
    }
}

/* Bounds of points in 16.16 fixed point, relative to the drawable. */
struct bounds {
    int64_t x1, y1, x2, y2;
};
static const struct bounds no_bounds = {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN};

static void add_point(struct bounds *b, xPointFixed p) {
    b->x1 = p.x < b->x1 ? p.x : b->x1;
    b->y1 = p.y < b->y1 ? p.y : b->y1;
    b->x2 = p.x > b->x2 ? p.x : b->x2;
    b->y2 = p.y > b->y2 ? p.y : b->y2;
}

static int clamp_coordinate(int64_t v) {
    return (int)(v < -65536 ? -65536 : v > 65536 ? 65536 : v);
}

static void add_bounds(struct op *op, CARD8 pict_op, PicturePtr dst, struct bounds b) {
    op->hint = THINC_COMPOSITE;
    set_blend_alpha(op, pict_op, dst, false);
    if (!bounded(pict_op)) {
        add_clip(op, dst);
        return;
    }
    if (b.x1 > b.x2)
        return;
    int x = dst->pDrawable->x, y = dst->pDrawable->y;
    op_add(op, x + clamp_coordinate(b.x1 >> 16), y + clamp_coordinate(b.y1 >> 16),
           x + clamp_coordinate((b.x2 >> 16) + 1), y + clamp_coordinate((b.y2 >> 16) + 1));
}

static struct bounds trapezoid_bounds(int n, const xTrapezoid *t) {
    struct bounds b = no_bounds;
    for (int i = 0; i < n; i++) {
        /* The side lines extend beyond top and bottom; in between they lie between their end
         * points. */
        struct bounds sides = no_bounds;
        add_point(&sides, t[i].left.p1);
        add_point(&sides, t[i].left.p2);
        add_point(&sides, t[i].right.p1);
        add_point(&sides, t[i].right.p2);
        add_point(&b, (xPointFixed){(xFixed)sides.x1, t[i].top});
        add_point(&b, (xPointFixed){(xFixed)sides.x2, t[i].bottom});
    }
    return b;
}

static struct bounds triangle_bounds(int n, const xTriangle *t) {
    struct bounds b = no_bounds;
    for (int i = 0; i < n; i++) {
        add_point(&b, t[i].p1);
        add_point(&b, t[i].p2);
        add_point(&b, t[i].p3);
    }
    return b;
}

static struct bounds point_bounds(int n, const xPointFixed *p) {
    struct bounds b = no_bounds;
    for (int i = 0; i < n; i++)
        add_point(&b, p[i]);
    return b;
}

static void validate_source(PicturePtr src) {
    if (src && src->pDrawable)
        op_validate_source(src->pDrawable, src->subWindowMode);
}

#define RENDER_OP(name, before, params, args, ready)                                               \
    static void render_##name params {                                                             \
        PictureScreenPtr ps = GetPictureScreen(dst->pDrawable->pScreen);                           \
        before;                                                                                    \
        if (thinc.buffers > 0)                                                                     \
            dri3_map_op(dst->pDrawable, NULL);                                                     \
        struct op *rec = dst->pCompositeClip ? op_open(dst->pDrawable) : NULL;                     \
        if (rec)                                                                                   \
            rec = ready;                                                                           \
        ps->name = wrapped.name;                                                                   \
        thinc.nesting++;                                                                           \
        ps->name args;                                                                             \
        thinc.nesting--;                                                                           \
        ps->name = render_##name;                                                                  \
        if (thinc.mapped)                                                                          \
            dri3_unmap_op();                                                                       \
        if (rec)                                                                                   \
            op_publish(rec);                                                                       \
    }
#define COLLECT(collect) (collect, op_begin(rec, dst->pCompositeClip))

RENDER_OP(Composite, (validate_source(src), validate_source(mask)),
          (CARD8 op, PicturePtr src, PicturePtr mask, PicturePtr dst, INT16 sx, INT16 sy, INT16 mx,
           INT16 my, INT16 x, INT16 y, CARD16 w, CARD16 h),
          (op, src, mask, dst, sx, sy, mx, my, x, y, w, h),
          begin_composite(rec, op, src, mask, dst, sx, sy, x, y, w, h))
RENDER_OP(Glyphs, validate_source(src),
          (CARD8 op, PicturePtr src, PicturePtr dst, PictFormatPtr format, INT16 sx, INT16 sy,
           int n, GlyphListPtr lists, GlyphPtr *glyphs),
          (op, src, dst, format, sx, sy, n, lists, glyphs),
          COLLECT(add_glyphs(rec, op, dst, n, lists, glyphs)))
RENDER_OP(CompositeRects, ,
          (CARD8 op, PicturePtr dst, xRenderColor *color, int n, xRectangle *rects),
          (op, dst, color, n, rects), COLLECT(add_rects(rec, op, dst, color, n, rects)))
RENDER_OP(Trapezoids, validate_source(src),
          (CARD8 op, PicturePtr src, PicturePtr dst, PictFormatPtr format, INT16 sx, INT16 sy,
           int n, xTrapezoid *traps),
          (op, src, dst, format, sx, sy, n, traps),
          COLLECT(add_bounds(rec, op, dst, trapezoid_bounds(n, traps))))
RENDER_OP(Triangles, validate_source(src),
          (CARD8 op, PicturePtr src, PicturePtr dst, PictFormatPtr format, INT16 sx, INT16 sy,
           int n, xTriangle *tris),
          (op, src, dst, format, sx, sy, n, tris),
          COLLECT(add_bounds(rec, op, dst, triangle_bounds(n, tris))))
RENDER_OP(TriStrip, validate_source(src),
          (CARD8 op, PicturePtr src, PicturePtr dst, PictFormatPtr format, INT16 sx, INT16 sy,
           int n, xPointFixed *points),
          (op, src, dst, format, sx, sy, n, points),
          COLLECT(add_bounds(rec, op, dst, point_bounds(n, points))))
RENDER_OP(TriFan, validate_source(src),
          (CARD8 op, PicturePtr src, PicturePtr dst, PictFormatPtr format, INT16 sx, INT16 sy,
           int n, xPointFixed *points),
          (op, src, dst, format, sx, sy, n, points),
          COLLECT(add_bounds(rec, op, dst, point_bounds(n, points))))
/* These two add coverage to alpha masks. Nobody uses them on a screen, so the clip is a good enough
 * bound. */
RENDER_OP(AddTraps, , (PicturePtr dst, INT16 x, INT16 y, int n, xTrap *traps),
          (dst, x, y, n, traps), COLLECT(add_clip(rec, dst)))
RENDER_OP(AddTriangles, , (PicturePtr dst, INT16 x, INT16 y, int n, xTriangle *tris),
          (dst, x, y, n, tris), COLLECT(add_clip(rec, dst)))

#define EACH_OP(each)                                                                              \
    each(Composite) each(Glyphs) each(CompositeRects) each(Trapezoids) each(Triangles)             \
        each(TriStrip) each(TriFan) each(AddTraps) each(AddTriangles)

bool render_init(ScreenPtr screen) {
    PictureScreenPtr ps = GetPictureScreenIfSet(screen);
    if (!ps)
        return false;
#define WRAP(name)                                                                                 \
    wrapped.name = ps->name;                                                                       \
    ps->name = render_##name;
    EACH_OP(WRAP)
    return true;
}

void render_close(ScreenPtr screen) {
    PictureScreenPtr ps = GetPictureScreenIfSet(screen);
    if (!ps)
        return;
#define UNWRAP(name) ps->name = wrapped.name;
    EACH_OP(UNWRAP)
}
