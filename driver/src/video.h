/* Path 1/13: shared by video.c, which receives frames, video_convert.c, which draws them, and
 * video_slot.c, which keeps them.
 * Knows where samples lie in memory; never what is done with them. */
#ifndef THINC_VIDEO_H
#define THINC_VIDEO_H

#include "thinc.h"

/* Sample (x, y) of a plane is base[y * stride + x * step]. */
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

/* Prepares the rows of one frame: the crop `src`, scaled to `dst`, of which pixels [x0, x_end) are
 * drawn. */
void convert_prepare(const struct frame *frame, struct place src, struct place dst, int x0,
                     int x_end);
/* Draws `n` pixels of row y, from the one `at` pixels right of x0. */
void convert_row(const struct frame *frame, struct place src, struct place dst, int at, int n,
                 int y, uint32_t *out);

/* Called once for each frame that is recorded as VIDEO, after the op has begun. If the session
 * requests frames, copies the samples to shared memory and points the frame at that copy: the drawn
 * pixels then agree with the session's samples even if the client overwrites its own meanwhile.
 * False: there is no memory for it. */
bool slot_put(uint32_t port, const struct op *op, struct frame *frame);
/* The port shows a frame already, and the session has its samples if it requests them. Only while a
 * ring is attached. */
bool slot_goes_on(uint32_t port);
/* The port shows no frame any more. */
void slot_stop(uint32_t port);

#endif
