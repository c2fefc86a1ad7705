/* Path 1/13: what video.c, which takes frames, video_convert.c, which draws them, and video_slot.c, which keeps them, share.
 * Knows where samples lie in memory; never what is done with them. */
#ifndef THINC_VIDEO_H
#define THINC_VIDEO_H

#include "thinc.h"

/* Where sample x, y of a plane lies: base[y * stride + x * step]. */
struct plane {
    const uint8_t *base;
    int stride, step;
    int width, height; /* samples */
};
struct frame {
    struct plane y, u, v;
};

struct place {
    int x, y, width, height;
};

/* For the rows of one frame: the crop `src` of it, scaled to `dst`, of which pixels [x0, x_end) are drawn. */
void convert_prepare(const struct frame *frame, struct place src, struct place dst, int x0, int x_end);
/* `n` pixels of row y, from the one `at` pixels right of x0. */
void convert_row(const struct frame *frame, struct place src, struct place dst, int at, int n, int y, uint32_t *out);

/* Called once for each frame that is recorded as VIDEO, after the op was announced. Where the session wants frames, copies the
 * samples to shared memory and lets the frame point at that copy: what is drawn is then what the session has, even while the client
 * goes on writing its own. False: there is no memory for it. */
bool slot_put(uint32_t port, const struct op *op, struct frame *frame);
/* No frame is shown at the port any more. */
void slot_stop(uint32_t port);

#endif
