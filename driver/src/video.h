/* Path 1/13: shared by video.c, which receives frames, video_convert.c and video_stereo.c, which
 * draw them, and video_slot.c, which keeps them.
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

/* ---- a frame of two pictures ----------------------------------------------------------------- */
/* 32 bits a pixel (blue, green, red, unused); the image is the left eye's picture, and the right
 * eye's of the same size below it. */
#define FOURCC_STEREO 0x30525354 /* "TSR0" */

/* One request to draw a stereo frame: the crop `src` of both eyes at `dst`, in the size it has. */
struct stereo_frame {
    uint32_t port;
    const uint8_t *pixels;
    int width, height; /* of one eye's picture */
    struct place src, dst;
    bool goes_on; /* the port shows a frame, in this window, that the session has */
};

static inline uint32_t video_pair(int low, int high) {
    return (uint32_t)low | (uint32_t)high << 16;
}

/* Draws the left eye's picture and keeps the right eye's for the session. */
void stereo_put(const struct stereo_frame *stereo, RegionPtr clip, DrawablePtr drawable);
/* The port shows no frame any more. */
void stereo_stopped(uint32_t port);

/* Called once for each frame that is recorded as VIDEO or STEREO, after the op has begun. If the
 * session requests frames, copies the samples to shared memory and points the frame at that copy:
 * the drawn pixels then agree with the session's samples even if the client overwrites its own
 * meanwhile. False: there is no memory for it. */
bool slot_put(uint32_t port, const struct op *op, struct frame *frame);
/* The port shows a frame already, and the session has its samples if it requests them. Only while a
 * ring is attached. */
bool slot_goes_on(uint32_t port);
/* The port's newest frame in shared memory, of this many bytes; NULL if the session has none. */
const uint8_t *slot_pixels(uint32_t port, size_t bytes);
/* The port shows no frame any more. */
void slot_stop(uint32_t port);

#endif
