/* Path 1/13: from X clients' core drawing requests, to op.c.
 * Wraps every GC: all 7 funcs, so that the wrapping survives, and all 20 ops, each in the same
 * order: collect the boxes, unwrap, let fb draw, wrap, publish. Knows what an op can touch; never
 * how it is drawn. */
#include "thinc.h"

#include <dixfontstr.h>

static DevPrivateKeyRec gc_key;
static CreateGCProcPtr wrapped_CreateGC;

/* The funcs and ops of the layer below (fb). */
struct gc_below {
    const GCFuncs *funcs;
    const GCOps *ops;
};

static struct gc_below *below(GCPtr gc) { return dixLookupPrivate(&gc->devPrivates, &gc_key); }

static const GCFuncs our_funcs;
static const GCOps our_ops;

static void unwrap(GCPtr gc) {
    const struct gc_below *b = below(gc);
    gc->funcs = b->funcs;
    gc->ops = b->ops;
}

/* fb may have chosen other ops while it was unwrapped. */
static void wrap(GCPtr gc) {
    struct gc_below *b = below(gc);
    b->funcs = gc->funcs;
    b->ops = gc->ops;
    gc->funcs = &our_funcs;
    gc->ops = &our_ops;
}

/* ---- funcs: unwrap, call, wrap --------------------------------------------------------------- */
#define GC_FUNC(name, gc, params, args)                                                            \
    static void gc_##name params {                                                                 \
        unwrap(gc);                                                                                \
        gc->funcs->name args;                                                                      \
        wrap(gc);                                                                                  \
    }

GC_FUNC(ValidateGC, gc, (GCPtr gc, unsigned long changes, DrawablePtr drawable),
        (gc, changes, drawable))
GC_FUNC(ChangeGC, gc, (GCPtr gc, unsigned long mask), (gc, mask))
GC_FUNC(CopyGC, dst, (GCPtr src, unsigned long mask, GCPtr dst), (src, mask, dst))
GC_FUNC(ChangeClip, gc, (GCPtr gc, int type, void *value, int count), (gc, type, value, count))
GC_FUNC(DestroyClip, gc, (GCPtr gc), (gc))
GC_FUNC(CopyClip, dst, (GCPtr dst, GCPtr src), (dst, src))
GC_FUNC(DestroyGC, gc, (GCPtr gc), (gc))

static const GCFuncs our_funcs = {
    gc_ValidateGC, gc_ChangeGC, gc_CopyGC, gc_DestroyGC, gc_ChangeClip, gc_DestroyClip, gc_CopyClip,
};

/* ---- hints and alpha of fills ---------------------------------------------------------------- */
static uint32_t depth_planes(DrawablePtr d) {
    return d->depth >= 32 ? UINT32_MAX : ((uint32_t)1 << d->depth) - 1;
}

/* As in fb: a plane mask with all planes of the depth counts as all 32 bits. */
static bool whole_planes(DrawablePtr d, GCPtr gc) {
    return (gc->planemask & depth_planes(d)) == depth_planes(d);
}

static bool colour_planes(GCPtr gc) { return (gc->planemask & 0x00ffffff) == 0x00ffffff; }

/* What an op may draw with: the union of the pixels' ones, and of their zeros. */
struct ink {
    uint32_t ones, zeros;
};
static const struct ink any_ink = {UINT32_MAX, UINT32_MAX};

static void add_pixel(struct ink *ink, unsigned long pixel) {
    ink->ones |= (uint32_t)pixel;
    ink->zeros |= ~(uint32_t)pixel;
}

static struct ink fill_ink(GCPtr gc) {
    struct ink ink = {0, 0};
    if (gc->fillStyle == FillTiled && !gc->tileIsPixel)
        return any_ink;
    add_pixel(&ink, gc->fillStyle == FillTiled ? gc->tile.pixel : gc->fgPixel);
    if (gc->fillStyle == FillOpaqueStippled)
        add_pixel(&ink, gc->bgPixel);
    return ink;
}

/* A raster function is its own truth table: bit 0 is the result of one over one, bit 1 of one over
 * zero, bit 2 of zero over one, bit 3 of zero over zero. */
static void set_raster_alpha(struct op *op, DrawablePtr d, GCPtr gc, unsigned alu, struct ink ink,
                             bool every_pixel) {
    if (!op->has_alpha)
        return;
    uint32_t planes = whole_planes(d, gc) ? UINT32_MAX : (uint32_t)gc->planemask;
    uint32_t lost = (alu & 1 ? 0 : ink.ones) | (alu & 4 ? 0 : ink.zeros);
    uint32_t left = (alu & 2 ? 0 : ink.ones) | (alu & 8 ? 0 : ink.zeros);
    if ((lost & planes) >> 24)
        return;
    bool opaque = every_pixel && planes >> 24 == 0xff && left >> 24 == 0;
    op_set_alpha(op, opaque ? THINC_FLAG_OPAQUE : THINC_FLAG_KEEPS_ALPHA);
}

/* True if no colour that was there before remains. */
static bool replaces(GCPtr gc) { return gc->alu == GXcopy && colour_planes(gc); }

/* For ops that fill every pixel of their boxes. */
static void set_fill_hint(struct op *op, DrawablePtr d, GCPtr gc) {
    set_raster_alpha(op, d, gc, gc->alu, fill_ink(gc), gc->fillStyle != FillStippled);
    if (gc->fillStyle != FillSolid && !(gc->fillStyle == FillTiled && gc->tileIsPixel)) {
        /* A transparent stipple leaves the pixels between its own as they were. */
        if (gc->fillStyle != FillStippled && replaces(gc))
            op->hint = THINC_PATTERN;
        return;
    }
    if (!colour_planes(gc))
        return;
    unsigned long pixel = gc->fillStyle == FillSolid ? gc->fgPixel : gc->tile.pixel;
    switch (gc->alu) {
    case GXcopy: break;
    case GXclear: pixel = 0; break;
    case GXset: pixel = 0x00ffffff; break;
    default: return;
    }
    op->hint = THINC_SOLID;
    op->arg[0] = (uint32_t)pixel & 0x00ffffff;
}

static void set_image_hint(struct op *op, GCPtr gc) {
    op->hint = replaces(gc) ? THINC_IMAGE : THINC_OTHER;
}

static void set_plane_hint(struct op *op, GCPtr gc) {
    op->hint = replaces(gc) ? THINC_PATTERN : THINC_OTHER;
}

static void set_shape_alpha(struct op *op, DrawablePtr d, GCPtr gc) {
    struct ink ink = fill_ink(gc);
    /* Points ignore the fill style, and the odd dashes of a line have the background colour. */
    add_pixel(&ink, gc->fgPixel);
    if (gc->lineStyle == LineDoubleDash)
        add_pixel(&ink, gc->bgPixel);
    set_raster_alpha(op, d, gc, gc->alu, ink, false);
}

/* ---- collecting boxes ------------------------------------------------------------------------ */
static void add_spans(struct op *op, DrawablePtr d, GCPtr gc, int n, const DDXPointRec *points,
                      const int *widths) {
    /* With miTranslate (set by fb) spans are in the root's coordinates already. */
    int x = gc->miTranslate ? 0 : d->x, y = gc->miTranslate ? 0 : d->y;
    for (int i = 0; i < n; i++)
        op_add(op, points[i].x + x, points[i].y + y, points[i].x + x + widths[i],
               points[i].y + y + 1);
}

/* A long request is split into as many pieces as there are boxes, with one bound each: neighbours
 * in a request are neighbours on the screen, and a bound costs less than a box for every item.
 * Short requests keep every box. */
static int piece_length(struct op *op, int n) {
    if (n <= 4 * OP_BOXES)
        return 1;
    op->drawn.coarse = true;
    return (n + OP_BOXES - 1) / OP_BOXES;
}

static void add_points(struct op *op, DrawablePtr d, int mode, int n, const DDXPointRec *points) {
    int x = d->x, y = d->y, piece = piece_length(op, n);
    for (int start = 0; start < n; start += piece) {
        int end = start + piece < n ? start + piece : n, x1 = INT32_MAX, y1 = INT32_MAX,
            x2 = INT32_MIN, y2 = INT32_MIN;
        for (int i = start; i < end; i++) {
            bool relative = mode == CoordModePrevious && i > 0;
            x = (relative ? x : d->x) + points[i].x;
            y = (relative ? y : d->y) + points[i].y;
            x1 = x < x1 ? x : x1;
            y1 = y < y1 ? y : y1;
            x2 = x > x2 ? x : x2;
            y2 = y > y2 ? y : y2;
        }
        op_add(op, x1, y1, x2 + 1, y2 + 1);
    }
}

/* How far a line extends beyond the box around its end points. X cuts mitres off at 11 degrees,
 * where they are 10.4 half-widths long. */
static int line_reach(GCPtr gc, bool joins) {
    int width = gc->lineWidth;
    if (width == 0)
        return 0;
    int reach = (width + 1) / 2 + 1;
    if (joins && gc->joinStyle == JoinMiter)
        reach = 6 * width;
    else if (gc->capStyle == CapProjecting)
        reach = width + 1;
    return reach;
}

static void add_line(struct op *op, int x1, int y1, int x2, int y2, int reach) {
    op_add(op, (x1 < x2 ? x1 : x2) - reach, (y1 < y2 ? y1 : y2) - reach,
           (x1 > x2 ? x1 : x2) + reach + 1, (y1 > y2 ? y1 : y2) + reach + 1);
}

static void add_lines(struct op *op, DrawablePtr d, GCPtr gc, int mode, int n,
                      const DDXPointRec *points) {
    int reach = line_reach(gc, n > 2), x = 0, y = 0;
    for (int i = 0; i < n; i++) {
        bool relative = mode == CoordModePrevious && i > 0;
        int to_x = (relative ? x : d->x) + points[i].x, to_y = (relative ? y : d->y) + points[i].y;
        if (i > 0 || n == 1)
            add_line(op, i > 0 ? x : to_x, i > 0 ? y : to_y, to_x, to_y, reach);
        x = to_x;
        y = to_y;
    }
}

static void add_segments(struct op *op, DrawablePtr d, GCPtr gc, int n, const xSegment *segments) {
    int reach = line_reach(gc, false), piece = piece_length(op, n);
    for (int start = 0; start < n; start += piece) {
        int end = start + piece < n ? start + piece : n, x1 = INT16_MAX, y1 = INT16_MAX,
            x2 = INT16_MIN, y2 = INT16_MIN;
        for (int i = start; i < end; i++) {
            const xSegment *s = &segments[i];
            x1 = s->x1 < x1 ? s->x1 : x1;
            x1 = s->x2 < x1 ? s->x2 : x1;
            y1 = s->y1 < y1 ? s->y1 : y1;
            y1 = s->y2 < y1 ? s->y2 : y1;
            x2 = s->x1 > x2 ? s->x1 : x2;
            x2 = s->x2 > x2 ? s->x2 : x2;
            y2 = s->y1 > y2 ? s->y1 : y2;
            y2 = s->y2 > y2 ? s->y2 : y2;
        }
        add_line(op, d->x + x1, d->y + y1, d->x + x2, d->y + y2, reach);
    }
}

static void add_outlines(struct op *op, DrawablePtr d, GCPtr gc, int n, const xRectangle *rects) {
    /* The joins of a rectangle are right angles: a mitre extends no further than a projecting
     * cap. */
    int reach = gc->lineWidth ? (gc->lineWidth + 1) / 2 + 1 : 0;
    for (int i = 0; i < n; i++) {
        int x1 = d->x + rects[i].x, y1 = d->y + rects[i].y, x2 = x1 + rects[i].width,
            y2 = y1 + rects[i].height;
        add_line(op, x1, y1, x2, y1, reach);
        add_line(op, x1, y1, x1, y2, reach);
        add_line(op, x2, y1, x2, y2, reach);
        add_line(op, x1, y2, x2, y2, reach);
    }
}

static void add_arcs(struct op *op, DrawablePtr d, GCPtr gc, int n, const xArc *arcs, bool filled) {
    /* Consecutive arcs may be joined. */
    int reach = filled ? 0 : line_reach(gc, n > 1);
    for (int i = 0; i < n; i++) {
        int x = d->x + arcs[i].x, y = d->y + arcs[i].y;
        add_line(op, x, y, x + arcs[i].width, y + arcs[i].height, reach);
    }
}

static void add_polygon(struct op *op, DrawablePtr d, int mode, int n, const DDXPointRec *points) {
    int x = d->x, y = d->y, x1 = INT32_MAX, y1 = INT32_MAX, x2 = INT32_MIN, y2 = INT32_MIN;
    for (int i = 0; i < n; i++) {
        bool relative = mode == CoordModePrevious && i > 0;
        x = (relative ? x : d->x) + points[i].x;
        y = (relative ? y : d->y) + points[i].y;
        x1 = x < x1 ? x : x1;
        y1 = y < y1 ? y : y1;
        x2 = x > x2 ? x : x2;
        y2 = y > y2 ? y : y2;
    }
    if (n > 0)
        op_add(op, x1, y1, x2 + 1, y2 + 1);
}

static void add_rects(struct op *op, DrawablePtr d, int n, const xRectangle *rects) {
    int piece = piece_length(op, n);
    for (int start = 0; start < n; start += piece) {
        int end = start + piece < n ? start + piece : n, x1 = INT16_MAX, y1 = INT16_MAX,
            x2 = INT16_MIN, y2 = INT16_MIN;
        for (int i = start; i < end; i++) {
            int right = rects[i].x + rects[i].width, bottom = rects[i].y + rects[i].height;
            x1 = rects[i].x < x1 ? rects[i].x : x1;
            y1 = rects[i].y < y1 ? rects[i].y : y1;
            x2 = right > x2 ? right : x2;
            y2 = bottom > y2 ? bottom : y2;
        }
        op_add(op, d->x + x1, d->y + y1, d->x + x2, d->y + y2);
    }
}

static void add_pushed(struct op *op, DrawablePtr d, GCPtr gc, int w, int h, int x, int y) {
    x += gc->miTranslate ? 0 : d->x;
    y += gc->miTranslate ? 0 : d->y;
    op_add(op, x, y, x + w, y + h);
    set_shape_alpha(op, d, gc);
}

/* The ink box of a run of glyphs; for image text also the font's background box. */
static void add_chars(struct op *op, DrawablePtr d, GCPtr gc, int x, int y, unsigned n,
                      CharInfoPtr *chars, bool image) {
    x += d->x;
    y += d->y;
    int left = x, x1 = x, x2 = x, y1 = INT32_MAX, y2 = INT32_MIN;
    if (image) {
        y1 = y - FONTASCENT(gc->font);
        y2 = y + FONTDESCENT(gc->font);
    }
    bool any = image;
    for (unsigned i = 0; i < n; i++) {
        const xCharInfo *m = &chars[i]->metrics;
        int gx1 = left + m->leftSideBearing, gx2 = left + m->rightSideBearing, gy1 = y - m->ascent,
            gy2 = y + m->descent;
        left += m->characterWidth;
        if (image) {
            x1 = left < x1 ? left : x1;
            x2 = left > x2 ? left : x2;
        }
        if (gx1 >= gx2 || gy1 >= gy2)
            continue;
        if (!any) {
            any = true;
            x1 = gx1;
            x2 = gx2;
        }
        x1 = gx1 < x1 ? gx1 : x1;
        x2 = gx2 > x2 ? gx2 : x2;
        y1 = gy1 < y1 ? gy1 : y1;
        y2 = gy2 > y2 ? gy2 : y2;
    }
    struct ink ink = image ? (struct ink){0, 0} : fill_ink(gc);
    add_pixel(&ink, gc->fgPixel);
    if (image)
        add_pixel(&ink, gc->bgPixel);
    set_raster_alpha(op, d, gc, image ? GXcopy : gc->alu, ink, false);
    op->hint = THINC_GLYPHS;
    if (any)
        op_add(op, x1, y1, x2, y2);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Which part of the source X copies, as decided by miDoCopy. */
enum source_clip { SOURCE_BOX, SOURCE_REGION, SOURCE_UNKNOWN };

static enum source_clip source_clip(DrawablePtr src, DrawablePtr dst, GCPtr gc, RegionPtr *region) {
    if (src->type == DRAWABLE_PIXMAP)
        return SOURCE_BOX;
    WindowPtr window = (WindowPtr)src;
    if (gc->subWindowMode != IncludeInferiors) {
        *region = &window->clipList;
        return SOURCE_REGION;
    }
    if (!window->parent && RegionNotEmpty(&window->borderClip))
        return SOURCE_BOX;
    if (src == dst && !gc->clientClip) {
        *region = gc->pCompositeClip;
        return SOURCE_REGION;
    }
    /* NotClippedByChildren is the intersection of both of these; with a shape winSize is not one
     * box. */
    if (RegionNumRects(&window->winSize) == 1) {
        const BoxRec *in = RegionExtents(&window->winSize);
        if (in->x1 == src->x && in->y1 == src->y && in->x2 == src->x + src->width &&
            in->y2 == src->y + src->height) {
            *region = &window->borderClip;
            return SOURCE_REGION;
        }
    }
    return SOURCE_UNKNOWN;
}

/* True if all bits are copied and mean the same in the destination. The alpha bits of a source
 * without alpha may be anything. */
static bool copies_pixels(const struct op *op, const struct target *from, DrawablePtr dst,
                          GCPtr gc) {
    if (gc->alu != GXcopy || from->pixmap->drawable.bitsPerPixel != 32)
        return false;
    return op->has_alpha ? whole_planes(dst, gc) && from->pixmap->drawable.depth == 32
                         : colour_planes(gc);
}

static void add_copy(struct op *op, DrawablePtr src, DrawablePtr dst, GCPtr gc, int sx, int sy,
                     int w, int h, int x, int y) {
    struct target from;
    struct box to = {dst->x + x, dst->y + y, dst->x + x + w, dst->y + y + h};
    op_add(op, to.x1, to.y1, to.x2, to.y2);
    if (!drawable_target(src, &from)) {
        set_image_hint(op, gc); /* ShmPutImage and Present copy from an X client's memory */
        return;
    }
    RegionPtr region = NULL;
    enum source_clip part = source_clip(src, dst, gc, &region);
    if (!copies_pixels(op, &from, dst, gc) || src->depth != dst->depth || part == SOURCE_UNKNOWN ||
        !gc->pCompositeClip)
        return;

    int dx = (dst->x + x) - (src->x + sx), dy = (dst->y + y) - (src->y + sy);
    struct box there = {src->x + dx, src->y + dy, src->x + src->width + dx,
                        src->y + src->height + dy};
    to.x1 = to.x1 > there.x1 ? to.x1 : there.x1;
    to.y1 = to.y1 > there.y1 ? to.y1 : there.y1;
    to.x2 = to.x2 < there.x2 ? to.x2 : there.x2;
    to.y2 = to.y2 < there.y2 ? to.y2 : there.y2;
    if (to.x1 >= to.x2 || to.y1 >= to.y2)
        return;
    if (part == SOURCE_BOX) {
        boxes_add_clipped(&op->copied, &to, gc->pCompositeClip);
    } else {
        int count = RegionNumRects(region);
        const BoxRec *rects = RegionRects(region);
        for (int i = 0; i < count && rects[i].y1 + dy < to.y2; i++) {
            struct box visible = {rects[i].x1 + dx, rects[i].y1 + dy, rects[i].x2 + dx,
                                  rects[i].y2 + dy};
            visible.x1 = visible.x1 > to.x1 ? visible.x1 : to.x1;
            visible.y1 = visible.y1 > to.y1 ? visible.y1 : to.y1;
            visible.x2 = visible.x2 < to.x2 ? visible.x2 : to.x2;
            visible.y2 = visible.y2 < to.y2 ? visible.y2 : to.y2;
            if (visible.x1 < visible.x2 && visible.y1 < visible.y2)
                boxes_add_clipped(&op->copied, &visible, gc->pCompositeClip);
        }
    }
    if (op->copied.coarse) {
        /* Too many boxes for exact copies. */
        op->copied.count = 0;
        return;
    }
    op->src = from.serial;
    /* In pixmap coordinates. */
    op->dx = dx + op->off_x - from.off_x;
    op->dy = dy + op->off_y - from.off_y;
    if (from.serial != 0)
        pixmap_track(from.pixmap);
}

/* Where the source was hidden, X may have painted the background in the same op: that part is
 * recorded as DRAW. */
static struct op *begin_copy(struct op *op, GCPtr gc) {
    if (op->copied.count == 0)
        return op_begin(op, gc->pCompositeClip);
    const struct box whole = op->drawn.box[0];
    op->drawn.count = 0;
    const BoxRec *clip = RegionExtents(gc->pCompositeClip);
    const struct box reached =
        box_intersect(whole, (struct box){clip->x1, clip->y1, clip->x2, clip->y2});
    if (op->copied.count == 1 && box_equal(op->copied.box[0], reached))
        return op_begin_clipped(
            op); /* the usual case: one rectangle, whose source was fully visible */
    boxes_add_clipped(&op->drawn, &whole, gc->pCompositeClip);
    if (op->drawn.coarse) {
        op->copied.count = 0;
        return op_begin_clipped(op);
    }
    boxes_subtract(&op->drawn, &op->copied);
    if (op->drawn.count + op->copied.count > OP_BOXES) {
        for (int i = 0; i < op->copied.count; i++)
            boxes_add(&op->drawn, op->copied.box[i].x1, op->copied.box[i].y1, op->copied.box[i].x2,
                      op->copied.box[i].y2);
        op->copied.count = 0;
    }
    return op_begin_clipped(op);
}

/* ---- ops: collect, unwrap, draw, wrap, publish ----------------------------------------------- */
#define GC_OP_(before, result_decl, result_is, result_return, type, name, drawable, gc, params,    \
               args, collect, ready, after)                                                        \
    static type gc_##name params {                                                                 \
        result_decl;                                                                               \
        before;                                                                                    \
        if (thinc.buffers > 0)                                                                     \
            dri3_map_op(drawable, gc);                                                             \
        struct op *op = op_open(drawable);                                                         \
        if (op) {                                                                                  \
            collect;                                                                               \
            op = ready;                                                                            \
        }                                                                                          \
        unwrap(gc);                                                                                \
        thinc.nesting++;                                                                           \
        result_is gc->ops->name args;                                                              \
        thinc.nesting--;                                                                           \
        wrap(gc);                                                                                  \
        if (thinc.mapped)                                                                          \
            dri3_unmap_op();                                                                       \
        if (op)                                                                                    \
            op_publish(op);                                                                        \
        after;                                                                                     \
        result_return;                                                                             \
    }
#define GC_OP_THEN(name, params, args, collect, after)                                             \
    GC_OP_(, , , return, void, name, d, gc, params, args, collect,                                 \
           op_begin(op, gc->pCompositeClip), after)
#define GC_OP(name, params, args, collect) GC_OP_THEN(name, params, args, collect, )
#define GC_COPY(name, params, args, collect, after)                                                \
    GC_OP_(op_validate_source(src, gc->subWindowMode), RegionPtr exposed, exposed =,               \
           return exposed, RegionPtr, name, dst, gc, params, args, collect, begin_copy(op, gc),    \
           after)

GC_OP(FillSpans, (DrawablePtr d, GCPtr gc, int n, DDXPointPtr points, int *widths, int sorted),
      (d, gc, n, points, widths, sorted),
      (add_spans(op, d, gc, n, points, widths), set_fill_hint(op, d, gc)))
GC_OP(SetSpans,
      (DrawablePtr d, GCPtr gc, char *pixels, DDXPointPtr points, int *widths, int n, int sorted),
      (d, gc, pixels, points, widths, n, sorted),
      (add_spans(op, d, gc, n, points, widths), set_image_hint(op, gc)))
GC_OP_THEN(PutImage,
           (DrawablePtr d, GCPtr gc, int depth, int x, int y, int w, int h, int left_pad,
            int format, char *bits),
           (d, gc, depth, x, y, w, h, left_pad, format, bits),
           (op_add(op, d->x + x, d->y + y, d->x + x + w, d->y + y + h), set_image_hint(op, gc)),
           pace_image(d, x, y, w, h))
GC_COPY(CopyArea,
        (DrawablePtr src, DrawablePtr dst, GCPtr gc, int sx, int sy, int w, int h, int x, int y),
        (src, dst, gc, sx, sy, w, h, x, y), add_copy(op, src, dst, gc, sx, sy, w, h, x, y),
        pace_copy(src, dst, x, y, w, h))
GC_COPY(CopyPlane,
        (DrawablePtr src, DrawablePtr dst, GCPtr gc, int sx, int sy, int w, int h, int x, int y,
         unsigned long plane),
        (src, dst, gc, sx, sy, w, h, x, y, plane),
        (op_add(op, dst->x + x, dst->y + y, dst->x + x + w, dst->y + y + h),
         set_plane_hint(op, gc)), )
GC_OP(PolyPoint, (DrawablePtr d, GCPtr gc, int mode, int n, DDXPointPtr points),
      (d, gc, mode, n, points), (add_points(op, d, mode, n, points), set_shape_alpha(op, d, gc)))
GC_OP(Polylines, (DrawablePtr d, GCPtr gc, int mode, int n, DDXPointPtr points),
      (d, gc, mode, n, points), (add_lines(op, d, gc, mode, n, points), set_shape_alpha(op, d, gc)))
GC_OP(PolySegment, (DrawablePtr d, GCPtr gc, int n, xSegment *segments), (d, gc, n, segments),
      (add_segments(op, d, gc, n, segments), set_shape_alpha(op, d, gc)))
GC_OP(PolyRectangle, (DrawablePtr d, GCPtr gc, int n, xRectangle *rects), (d, gc, n, rects),
      (add_outlines(op, d, gc, n, rects), set_shape_alpha(op, d, gc)))
GC_OP(PolyArc, (DrawablePtr d, GCPtr gc, int n, xArc *arcs), (d, gc, n, arcs),
      (add_arcs(op, d, gc, n, arcs, false), set_shape_alpha(op, d, gc)))
GC_OP(FillPolygon, (DrawablePtr d, GCPtr gc, int shape, int mode, int n, DDXPointPtr points),
      (d, gc, shape, mode, n, points),
      (add_polygon(op, d, mode, n, points), set_shape_alpha(op, d, gc)))
GC_OP(PolyFillRect, (DrawablePtr d, GCPtr gc, int n, xRectangle *rects), (d, gc, n, rects),
      (add_rects(op, d, n, rects), set_fill_hint(op, d, gc)))
GC_OP(PolyFillArc, (DrawablePtr d, GCPtr gc, int n, xArc *arcs), (d, gc, n, arcs),
      (add_arcs(op, d, gc, n, arcs, true), set_shape_alpha(op, d, gc)))
GC_OP(ImageGlyphBlt,
      (DrawablePtr d, GCPtr gc, int x, int y, unsigned n, CharInfoPtr *chars, void *base),
      (d, gc, x, y, n, chars, base), add_chars(op, d, gc, x, y, n, chars, true))
GC_OP(PolyGlyphBlt,
      (DrawablePtr d, GCPtr gc, int x, int y, unsigned n, CharInfoPtr *chars, void *base),
      (d, gc, x, y, n, chars, base), add_chars(op, d, gc, x, y, n, chars, false))
GC_OP(PushPixels, (GCPtr gc, PixmapPtr bitmap, DrawablePtr d, int w, int h, int x, int y),
      (gc, bitmap, d, w, h, x, y), add_pushed(op, d, gc, w, h, x, y))

/* Text requests only look up glyphs and call PolyGlyphBlt or ImageGlyphBlt of this GC. These record
 * them, with the metrics at hand, so the GC stays wrapped here. */
#define GC_TEXT(type, name, char_type)                                                             \
    static type gc_##name(DrawablePtr d, GCPtr gc, int x, int y, int n, char_type *chars) {        \
        return below(gc)->ops->name(d, gc, x, y, n, chars);                                        \
    }
GC_TEXT(int, PolyText8, char)
GC_TEXT(int, PolyText16, unsigned short)
GC_TEXT(void, ImageText8, char)
GC_TEXT(void, ImageText16, unsigned short)

static const GCOps our_ops = {
    gc_FillSpans,   gc_SetSpans,     gc_PutImage,      gc_CopyArea,      gc_CopyPlane,
    gc_PolyPoint,   gc_Polylines,    gc_PolySegment,   gc_PolyRectangle, gc_PolyArc,
    gc_FillPolygon, gc_PolyFillRect, gc_PolyFillArc,   gc_PolyText8,     gc_PolyText16,
    gc_ImageText8,  gc_ImageText16,  gc_ImageGlyphBlt, gc_PolyGlyphBlt,  gc_PushPixels,
};

static Bool create_gc(GCPtr gc) {
    ScreenPtr screen = gc->pScreen;
    screen->CreateGC = wrapped_CreateGC;
    Bool ok = screen->CreateGC(gc);
    screen->CreateGC = create_gc;
    if (ok)
        wrap(gc);
    return ok;
}

bool gc_init(ScreenPtr screen) {
    if (!dixRegisterPrivateKey(&gc_key, PRIVATE_GC, sizeof(struct gc_below)))
        return false;
    wrapped_CreateGC = screen->CreateGC;
    screen->CreateGC = create_gc;
    return true;
}

void gc_close(ScreenPtr screen) { screen->CreateGC = wrapped_CreateGC; }
