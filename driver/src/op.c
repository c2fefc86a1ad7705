/* Path 1/13: from gc.c, render.c, window.c and video.c, to ring.c.
 * One drawing op: the boxes it may touch, clipped to what X lets it touch, at most 64. Knows
 * drawables and clips; never what the op draws. */
#include "thinc.h"

static int lesser(int a, int b) { return a < b ? a : b; }
static int greater(int a, int b) { return a > b ? a : b; }

static struct box bound(struct box a, struct box b) {
    return (struct box){lesser(a.x1, b.x1), lesser(a.y1, b.y1), greater(a.x2, b.x2),
                        greater(a.y2, b.y2)};
}

static int64_t area(struct box b) { return (int64_t)(b.x2 - b.x1) * (b.y2 - b.y1); }

void boxes_add(struct boxes *boxes, int x1, int y1, int x2, int y2) {
    if (x1 >= x2 || y1 >= y2)
        return;
    struct box add = {x1, y1, x2, y2};
    if (boxes->count > 0) {
        /* Consecutive spans of a rectangle, dots of a line and runs of text merge into one box
         * exactly. */
        struct box *last = &boxes->box[boxes->count - 1];
        bool row = last->y1 == y1 && last->y2 == y2 && x1 <= last->x2 && x2 >= last->x1;
        bool column = last->x1 == x1 && last->x2 == x2 && y1 <= last->y2 && y2 >= last->y1;
        if (row || column) {
            *last = bound(*last, add);
            return;
        }
    }
    if (boxes->count == OP_BOXES) {
        /* Boxes that follow each other in drawing order are mostly neighbours on the screen. */
        for (int i = 0; i < OP_BOXES / 2; i++)
            boxes->box[i] = bound(boxes->box[2 * i], boxes->box[2 * i + 1]);
        boxes->count = OP_BOXES / 2;
        boxes->coarse = true;
    }
    boxes->box[boxes->count++] = add;
}

/* Boxes may overlap: if the bounding box is no larger than their sum, it replaces them. Boxes of
 * one solid colour stay apart while they cover at most 1.2 times the bounding box, because they
 * tell the session more. 1.2 is what the tests allow over miext/damage, which bounds a whole
 * request. */
static void merge_overlapping(struct boxes *boxes, uint16_t hint) {
    if (boxes->count < 2)
        return;
    struct box all = boxes->box[0];
    int64_t sum = area(all), largest = sum;
    for (int i = 1; i < boxes->count; i++) {
        int64_t one = area(boxes->box[i]);
        all = bound(all, boxes->box[i]);
        sum += one;
        largest = one > largest ? one : largest;
    }
    int64_t whole = area(all);
    bool solid = hint == THINC_SOLID && !boxes->coarse;
    if (sum < whole || (solid && largest < whole && sum <= whole + whole / 5))
        return;
    boxes->box[0] = all;
    boxes->count = 1;
    /* If one box contains all others, its colour is still known. */
    if (largest < whole)
        boxes->coarse = true;
}

/* Subtracts `holes`. A box that can no longer be split for lack of room stays whole, and the result
 * is coarse. */
void boxes_subtract(struct boxes *from, const struct boxes *holes) {
    for (int w = 0; w < holes->count; w++) {
        struct box cut = holes->box[w];
        int count = from->count; /* boxes appended below no longer overlap `cut` */
        for (int i = 0; i < count; i++) {
            struct box whole = from->box[i], hit = box_intersect(whole, cut);
            if (box_empty(hit))
                continue;
            struct box parts[4] = {
                {whole.x1, whole.y1, whole.x2, hit.y1},
                {whole.x1, hit.y2, whole.x2, whole.y2},
                {whole.x1, hit.y1, hit.x1, hit.y2},
                {hit.x2, hit.y1, whole.x2, hit.y2},
            };
            int kept = 0;
            for (int p = 0; p < 4; p++)
                if (!box_empty(parts[p]))
                    parts[kept++] = parts[p];
            if (from->count + kept - 1 > OP_BOXES) {
                from->coarse = true;
                continue;
            }
            if (kept == 0) {
                /* Appended boxes must stay behind `count`: fill the gap from the unexamined part
                 * first. */
                from->box[i] = from->box[count - 1];
                from->box[count - 1] = from->box[--from->count];
                count--;
                i--;
                continue;
            }
            from->box[i] = parts[0];
            for (int p = 1; p < kept; p++)
                from->box[from->count++] = parts[p];
        }
    }
}

void boxes_add_clipped(struct boxes *out, const struct box *box, RegionPtr clip) {
    if (!clip)
        return;
    struct box in = box_intersect(
        *box, (struct box){clip->extents.x1, clip->extents.y1, clip->extents.x2, clip->extents.y2});
    if (box_empty(in))
        return;
    int count = RegionNumRects(clip);
    const BoxRec *rects = RegionRects(clip);
    for (int i = 0; i < count && rects[i].y1 < in.y2; i++) {
        struct box part =
            box_intersect(in, (struct box){rects[i].x1, rects[i].y1, rects[i].x2, rects[i].y2});
        boxes_add(out, part.x1, part.y1, part.x2, part.y2);
    }
}

bool drawable_target(DrawablePtr drawable, struct target *target) {
    ScreenPtr screen = drawable->pScreen;
    /* Asked for every op: windows of depth 32 are redirected even without a compositor, and any
     * window may be redirected at any time. */
    PixmapPtr pixmap = drawable->type == DRAWABLE_PIXMAP
                           ? (PixmapPtr)drawable
                           : screen->GetWindowPixmap((WindowPtr)drawable);
    target->pixmap = pixmap;
    target->serial = pixmap_serial(pixmap);
    target->off_x = target->off_y = 0;
    /* The screen's pixmap is a header for the framebuffer and has no serial either. */
    if (target->serial == 0)
        return pixmap == screen->GetScreenPixmap(screen);
    if (drawable->type != DRAWABLE_PIXMAP) {
        target->off_x = -pixmap->screen_x;
        target->off_y = -pixmap->screen_y;
    }
    return true;
}

static struct op current;

void op_validate_source(DrawablePtr src, unsigned sub_window_mode) {
    if ((!ring_attached() && thinc.buffers == 0) || thinc.nesting > 0 ||
        src->type != DRAWABLE_WINDOW || sub_window_mode != IncludeInferiors)
        return;
    src->pScreen->SourceValidate(src, 0, 0, src->width, src->height, sub_window_mode);
}

static struct op *open_recorded(DrawablePtr dst) {
    if (!ring_attached() || thinc.nesting > 0)
        return NULL;
    struct target target;
    if (!drawable_target(dst, &target) || (target.serial != 0 && !pixmap_track(target.pixmap)))
        return NULL;
    struct op *op = &current;
    op->dst = target.serial;
    op->pixmap = target.pixmap;
    op->off_x = target.off_x;
    op->off_y = target.off_y;
    op->window = dst->type == DRAWABLE_PIXMAP ? 0 : window_top_level((WindowPtr)dst);
    /* Alpha belongs to the pixmap. X redirects a window whose depth differs from its parent's, so
     * window and pixmap agree. */
    op->has_alpha = target.pixmap->drawable.depth == 32;
    op->hint = THINC_OTHER;
    op->alpha = op->has_alpha ? 0 : THINC_FLAG_OPAQUE;
    op->arg[0] = op->arg[1] = op->arg[2] = op->arg[3] = 0;
    op->src = 0;
    op->dx = op->dy = 0;
    op->copy_flags = 0;
    op->drawn.count = op->copied.count = 0;
    op->drawn.coarse = op->copied.coarse = false;
    return op;
}

struct op *op_open(DrawablePtr dst) {
    struct op *op = open_recorded(dst);
    if (thinc.buffers > 0)
        dri3_open_op(dst, op != NULL);
    return op;
}

struct op *op_begin(struct op *op, RegionPtr clip) {
    merge_overlapping(&op->drawn, op->hint);
    if (!clip)
        return NULL;
    if (RegionNumRects(clip) == 1 && !clip->data) {
        struct box in = {clip->extents.x1, clip->extents.y1, clip->extents.x2, clip->extents.y2};
        int kept = 0;
        for (int i = 0; i < op->drawn.count; i++) {
            struct box part = box_intersect(op->drawn.box[i], in);
            if (!box_empty(part))
                op->drawn.box[kept++] = part;
        }
        op->drawn.count = kept;
    } else {
        static struct boxes out;
        out.count = 0;
        out.coarse = op->drawn.coarse;
        for (int i = 0; i < op->drawn.count; i++)
            boxes_add_clipped(&out, &op->drawn.box[i], clip);
        merge_overlapping(&out, op->hint);
        op->drawn.count = out.count;
        op->drawn.coarse = out.coarse;
        for (int i = 0; i < out.count; i++)
            op->drawn.box[i] = out.box[i];
    }
    return op_begin_clipped(op);
}

/* Clips to the pixmap: nothing outside is drawn, and no record may name it. */
static void keep_inside(const struct op *op, struct boxes *boxes) {
    if (boxes->count == 0)
        return;
    struct box in = {-op->off_x, -op->off_y, op->pixmap->drawable.width - op->off_x,
                     op->pixmap->drawable.height - op->off_y};
    int kept = 0;
    for (int i = 0; i < boxes->count; i++) {
        struct box part = box_intersect(boxes->box[i], in);
        if (!box_empty(part))
            boxes->box[kept++] = part;
    }
    boxes->count = kept;
}

struct op *op_begin_clipped(struct op *op) {
    keep_inside(op, &op->drawn);
    keep_inside(op, &op->copied);
    if (op->drawn.count + op->copied.count == 0)
        return NULL;
    if (op->drawn.coarse) {
        /* The boxes include pixels that were not drawn. */
        if (op->hint == THINC_SOLID || op->hint == THINC_PATTERN || op->hint == THINC_IMAGE ||
            op->hint == THINC_VIDEO || op->hint == THINC_STEREO)
            op->hint = THINC_OTHER;
        if (op->alpha == THINC_FLAG_OPAQUE)
            op_set_alpha(op, THINC_FLAG_KEEPS_ALPHA);
    }
    if (thinc.buffers > 0)
        dri3_mark_op(op);
    op->serial = ring_begin_op();
    return op;
}

void op_publish(const struct op *op) {
    if (thinc.stereo_ports > 0)
        stereo_drawn_over(op);
    ring_publish(op);
}
