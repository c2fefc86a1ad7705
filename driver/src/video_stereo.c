/* Path 1/13: from video.c, to op.c.
 * A frame of a program that draws for two eyes, as one request, so that both pictures always belong
 * together. The left eye's is an image like any other: the framebuffer shows it to every viewer.
 * The right eye's goes to the session only (video_slot.c). Knows pixels of 32 bits; never how a
 * viewer shows them to two eyes. */
#include "video.h"

#include <string.h>

#include <damage.h>

#define ALPHA 0xff000000u

/* In the client's memory, at any address. */
typedef uint32_t __attribute__((aligned(1), may_alias)) client_pixel;

/* What the left eye sees in row y of dst, from pixel x on. */
static const client_pixel *source_row(const struct stereo_frame *s, int x, int y) {
    ptrdiff_t row = s->src.y + (y - s->dst.y);
    return (const client_pixel *)(const void *)s->pixels + row * s->width + s->src.x +
           (x - s->dst.x);
}

static bool differs(const uint32_t *row, const client_pixel *from, int n) {
    uint32_t changed = 0;
    for (int i = 0; i < n; i++)
        changed |= row[i] ^ (from[i] | ALPHA);
    return changed != 0;
}

static void draw_row(uint32_t *row, const client_pixel *from, int n) {
    for (int i = 0; i < n; i++)
        row[i] = from[i] | ALPHA;
}

/* Whether the clip shows the left eye's picture; otherwise, with `draw`, makes it so. The clip
 * comes from X, but the target is memory: nothing outside the pixmap is touched. */
static bool left_eye(const struct stereo_frame *s, const struct target *target, RegionPtr clip,
                     bool draw) {
    PixmapPtr pixmap = target->pixmap;
    int off_x = target->off_x, off_y = target->off_y;
    const BoxRec *rects = RegionRects(clip);
    for (int i = 0; i < RegionNumRects(clip); i++) {
        struct box in = box_intersect(
            (struct box){rects[i].x1, rects[i].y1, rects[i].x2, rects[i].y2},
            (struct box){s->dst.x, s->dst.y, s->dst.x + s->dst.width, s->dst.y + s->dst.height});
        in = box_intersect(in, (struct box){-off_x, -off_y, pixmap->drawable.width - off_x,
                                            pixmap->drawable.height - off_y});
        if (box_empty(in))
            continue;
        for (int y = in.y1; y < in.y2; y++) {
            uint32_t *row = (uint32_t *)((uint8_t *)pixmap->devPrivate.ptr +
                                         (ptrdiff_t)(y + off_y) * pixmap->devKind) +
                            in.x1 + off_x;
            const client_pixel *from = source_row(s, in.x1, y);
            if (draw)
                draw_row(row, from, in.x2 - in.x1);
            else if (differs(row, from, in.x2 - in.x1))
                return false;
        }
    }
    return true;
}

/* ---- what the session has -------------------------------------------------------------------- */
/* Whatever is drawn over a stereo frame hides the right eye's picture there, even if its pixels
 * are the left eye's: the session learns from records alone, and so does this. Of each port the
 * last frame, while all that was recorded of it is still seen by both eyes. */
static struct whole {
    bool is_whole;
    uint32_t epoch; /* of the ring, see ring_epoch() */
    uint32_t dst;   /* drawable, as in a record */
    int width, height;
    struct place src;
    struct box place; /* in dst */
    RegionRec clip;   /* the drawable's; valid after the first frame */
    bool has_clip;
} wholes[THINC_VIDEO_PORTS];

static struct box place_of(const struct stereo_frame *s, const struct target *target) {
    int x = s->dst.x + target->off_x, y = s->dst.y + target->off_y;
    return (struct box){x, y, x + s->dst.width, y + s->dst.height};
}

static void forget(struct whole *whole) {
    thinc.stereo_ports -= whole->is_whole;
    whole->is_whole = false;
}

static void remember(const struct stereo_frame *s, const struct target *target, RegionPtr clip) {
    struct whole *whole = &wholes[s->port];
    forget(whole);
    if (!whole->has_clip)
        RegionNull(&whole->clip);
    whole->has_clip = true;
    /* Allocates only if the clip has more rectangles than ever before. */
    if (!RegionCopy(&whole->clip, clip)) {
        RegionUninit(&whole->clip);
        whole->has_clip = false;
        return;
    }
    whole->epoch = ring_epoch();
    whole->dst = target->serial;
    whole->width = s->width;
    whole->height = s->height;
    whole->src = s->src;
    whole->place = place_of(s, target);
    whole->is_whole = true;
    thinc.stereo_ports++;
}

static bool is_whole(const struct stereo_frame *s, const struct target *target, RegionPtr clip) {
    const struct whole *whole = &wholes[s->port];
    return whole->is_whole && whole->epoch == ring_epoch() && whole->dst == target->serial &&
           whole->width == s->width && whole->height == s->height && whole->src.x == s->src.x &&
           whole->src.y == s->src.y && box_equal(whole->place, place_of(s, target)) &&
           RegionEqual((RegionPtr)&whole->clip, clip);
}

/* In the drawable's own coordinates, moved by (x, y). */
static bool any_meets(const struct boxes *boxes, int x, int y, struct box place) {
    for (int i = 0; i < boxes->count; i++) {
        struct box b = boxes->box[i];
        if (!box_empty(box_intersect((struct box){b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y}, place)))
            return true;
    }
    return false;
}

void stereo_drawn_over(const struct op *op) {
    for (uint32_t port = 0; port < THINC_VIDEO_PORTS; port++) {
        struct whole *whole = &wholes[port];
        if (!whole->is_whole)
            continue;
        int x = op->off_x, y = op->off_y;
        struct box place = whole->place;
        /* The session takes the picture along if all of it is copied elsewhere. */
        if ((op->dst == whole->dst &&
             (any_meets(&op->drawn, x, y, place) || any_meets(&op->copied, x, y, place))) ||
            (op->copied.count > 0 && op->src == whole->dst &&
             any_meets(&op->copied, x - op->dx, y - op->dy, place)))
            forget(whole);
    }
}

void stereo_stopped(uint32_t port) { forget(&wholes[port]); }

/* The session has this picture of the right eye. */
static bool right_eye_is_known(const struct stereo_frame *s) {
    size_t bytes = (size_t)s->width * (size_t)s->height * 4;
    const uint8_t *known = slot_pixels(s->port, bytes);
    return known && memcmp(known, s->pixels + bytes, bytes) == 0;
}

/* The right eye's picture as rows of bytes, for video_slot.c. */
static struct frame right_eye(const struct stereo_frame *s) {
    int row = s->width * 4;
    return (struct frame){.y = {.base = s->pixels + (ptrdiff_t)row * s->height,
                                .stride = row,
                                .step = 1,
                                .width = row,
                                .height = s->height}};
}

void stereo_put(const struct stereo_frame *s, RegionPtr clip, DrawablePtr drawable) {
    struct target target;
    drawable_target(drawable, &target);
    /* A program that draws the same again is at rest: it is recorded once. */
    if (s->goes_on && is_whole(s, &target, clip) && right_eye_is_known(s) &&
        left_eye(s, &target, clip, false)) {
        pace_image(drawable, s->dst.x, s->dst.y, s->dst.width, s->dst.height);
        return;
    }
    struct op *op = op_open(drawable);
    if (op) {
        op->hint = THINC_STEREO;
        op->arg[0] = s->port | THINC_VIDEO_RIGHT_EYE << 8;
        op->arg[1] = video_pair(s->width, s->height);
        op->arg[2] = op->arg[3] = video_pair(s->src.width, s->src.height);
        op->src = video_pair(s->src.x, s->src.y);
        op->dx = s->dst.x + op->off_x;
        op->dy = s->dst.y + op->off_y;
        if (op->dx < -THINC_VIDEO_PLACE_MAX || op->dx > THINC_VIDEO_PLACE_MAX ||
            op->dy < -THINC_VIDEO_PLACE_MAX || op->dy > THINC_VIDEO_PLACE_MAX)
            op->hint = THINC_IMAGE;
        op_set_alpha(op, THINC_FLAG_OPAQUE);
        op_add(op, s->dst.x, s->dst.y, s->dst.x + s->dst.width, s->dst.y + s->dst.height);
        op = op_begin(op, clip);
    }
    struct frame right = right_eye(s);
    if (op && op->hint == THINC_STEREO && !slot_put(s->port, op, &right))
        op->hint = THINC_IMAGE; /* no memory for what the session requests: one picture is left */
    left_eye(s, &target, clip, true);
    if (op) {
        op_publish(op);
        if (op->hint == THINC_STEREO &&
            slot_pixels(s->port, (size_t)right.y.width * (size_t)s->height))
            remember(s, &target, clip);
        else
            forget(&wholes[s->port]);
    }
    DamageDamageRegion(drawable, clip);
    pace_image(drawable, s->dst.x, s->dst.y, s->dst.width, s->dst.height);
}
