/* Path 1/13: shared by transport.c and by its test, which calls it as VirtualGL does.
 * The binary interface of VirtualGL's image transport plugins: eight functions that VirtualGL looks
 * up by name in libvgltrans_NAME.so, and the frame that they pass. Written from its documentation;
 * VirtualGL's own header is server/rrtransport.h. */
#ifndef THINC_VGL_RRTRANS_H
#define THINC_VGL_RRTRANS_H

#include <X11/Xlib.h>

enum rrtrans_format {
    RRTRANS_RGB,
    RRTRANS_RGBA,
    RRTRANS_BGR,
    RRTRANS_BGRA,
    RRTRANS_ABGR,
    RRTRANS_ARGB,
};

/* The plugin's memory, into which VirtualGL reads a rendered frame back, the bottom row first. */
typedef struct __attribute__((packed)) {
    unsigned char *bits;  /* the left eye's picture, or the only one */
    unsigned char *rbits; /* the right eye's; NULL: there is one picture */
    int format;           /* enum rrtrans_format */
    int w, h;
    int pitch; /* bytes of a row */
    void *opaque;
} RRFrame;

/* An instance for one window; NULL: RRTransGetError() says why. `config` is VirtualGL's. */
void *RRTransInit(Display *dpy, Window win, void *config);
/* All of these return -1 if they fail. `receiver` and `port` are where VGL_CLIENT and VGL_PORT say,
 * else the display and a default. */
int RRTransConnect(void *handle, char *receiver, int port);
/* A frame of this size to read back into, for two eyes if `stereo`; NULL if it fails. Waits until
 * one is free. `format` is what the GPU reads back fastest. */
RRFrame *RRTransGetFrame(void *handle, int width, int height, int format, int stereo);
/* 1: the next frame would be sent at once; 0: VirtualGL drops it. */
int RRTransReady(void *handle);
/* Waits until the next frame would be sent at once. Called if VirtualGL may drop none. */
int RRTransSynchronize(void *handle);
/* `sync`: return once it is shown. */
int RRTransSendFrame(void *handle, RRFrame *frame, int sync);
int RRTransDestroy(void *handle);
/* Why the last of these calls in this thread failed. */
const char *RRTransGetError(void);

#endif
