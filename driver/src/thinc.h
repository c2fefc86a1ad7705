/* Path 1/13: shared by the driver's files: the one screen, the op being drawn, and each file's
 * functions.
 * X clients → {gc,render,window,video}.c → op.c → ring.c → the session. All of it runs in X's main
 * thread, except the reading of input, which runs in X's input thread. Knows the X server's
 * headers; never codecs, networks or policy. */
#ifndef THINC_H
#define THINC_H

#include <xorg-server.h>

#include <stdbool.h>
#include <stdint.h>

#include <xf86.h>
#include <xf86Module.h>
#include <xf86Crtc.h>
#include <fb.h>
#include <fbpict.h>
#include <gcstruct.h>
#include <mi.h>
#include <picturestr.h>
#include <pixmapstr.h>
#include <regionstr.h>
#include <windowstr.h>

#include "../include/ring_abi.h"

/* One screen per server: the socket, the input devices and the ring belong to it. */
struct thinc {
    ScrnInfoPtr scrn;
    ScreenPtr screen; /* NULL between two server generations */
    bool oracle;      /* Option "Oracle" */
    bool pace;        /* Option "Pace" */

    /* The current framebuffer. It stays mapped until the next one has replaced it. */
    int fb_fd;
    uint8_t *fb;
    size_t fb_bytes;
    uint32_t fb_stride;
    uint32_t fb_width, fb_height;
    uint32_t fb_generation;

    /* Above 0 while a wrapped op runs: what mi and fb draw for it belongs to that op and is not
     * recorded again. */
    int nesting;

    int stereo_ports; /* ports of XVideo whose stereo frame is whole (video_stereo.c) */

    int buffers; /* pixmaps that a GPU can read or write (dri3.c) */
    bool mapped; /* one of them is, for the op that runs */
};
extern struct thinc thinc;

/* ---- op.c: one drawing op, from its arguments to records ----------------------------------------
 * op_open → op_add… → op_ready → (fb draws) → op_publish. Ops do not nest, so there is one, and
 * nothing is allocated. */

/* 64: rectangles of one op. Further ones are merged in pairs: more would not help a session, and
 * every record costs. */
#define OP_BOXES 64

struct box {
    int x1, y1, x2, y2;
};

struct boxes {
    int count;
    bool coarse; /* some were merged: the boxes cover more than was added */
    struct box box[OP_BOXES];
};

/* The pixmap behind a drawable. */
struct target {
    PixmapPtr pixmap;
    uint32_t serial;  /* 0: the screen */
    int off_x, off_y; /* offset from the drawable's coordinates to the pixmap's */
};

struct op {
    uint32_t dst, window;
    PixmapPtr pixmap; /* the pixmap behind the drawable */
    int off_x, off_y; /* as in struct target; added at publish */
    bool has_alpha;   /* the pixmap has alpha; if not, everything drawn there is opaque */
    uint16_t hint;
    uint8_t alpha; /* of the drawn boxes: THINC_FLAG_OPAQUE, THINC_FLAG_KEEPS_ALPHA or 0 */
    uint32_t arg[4];
    uint32_t src;        /* of the copied boxes */
    int dx, dy;          /* of the copied boxes, in pixmap coordinates */
    uint8_t copy_flags;  /* of the copied boxes: THINC_FLAG_OVER or 0 */
    struct boxes drawn;  /* recorded as DRAW */
    struct boxes copied; /* recorded as COPY, before the drawn ones */
    uint64_t serial;
};

static inline struct box box_intersect(struct box a, struct box b) {
    return (struct box){a.x1 > b.x1 ? a.x1 : b.x1, a.y1 > b.y1 ? a.y1 : b.y1,
                        a.x2 < b.x2 ? a.x2 : b.x2, a.y2 < b.y2 ? a.y2 : b.y2};
}
static inline bool box_equal(struct box a, struct box b) {
    return a.x1 == b.x1 && a.y1 == b.y1 && a.x2 == b.x2 && a.y2 == b.y2;
}
static inline bool box_empty(struct box b) { return b.x1 >= b.x2 || b.y1 >= b.y2; }

void boxes_add(struct boxes *boxes, int x1, int y1, int x2, int y2);
void boxes_subtract(struct boxes *from, const struct boxes *holes);

/* Call it before an op that reads a window together with its children. X then first composes the
 * redirected children into the window, with ops of their own, which would be neither recorded nor
 * marked for a GPU inside this op. */
void op_validate_source(DrawablePtr src, unsigned sub_window_mode);
/* NULL if this op is not recorded: no session is attached, it belongs to another op, or its target
 * is not tracked. */
struct op *op_open(DrawablePtr dst);
/* Coordinates: those of the root for a window, the pixmap's own for a pixmap. */
static inline void op_add(struct op *op, int x1, int y1, int x2, int y2) {
    boxes_add(&op->drawn, x1, y1, x2, y2);
}
/* Clips the boxes and stores the op's number in `begin`. NULL if nothing is left. */
struct op *op_begin(struct op *op, RegionPtr clip);
/* As op_begin, for a copy by (dx, dy) whose `copied` and `drawn` boxes are already clipped. */
struct op *op_begin_clipped(struct op *op);
void op_publish(const struct op *op);

/* Adds box ∩ clip to out. */
void boxes_add_clipped(struct boxes *out, const struct box *box, RegionPtr clip);
/* False: the drawable's memory is not tracked. */
bool drawable_target(DrawablePtr drawable, struct target *target);
/* Sets what the drawing does to alpha, if the pixmap has alpha. */
static inline void op_set_alpha(struct op *op, uint8_t flag) {
    if (op->has_alpha)
        op->alpha = flag;
}

/* ---- ring.c: shared memory ------------------------------------------------------------------- */
bool ring_create(void); /* a fresh ring for a new session; false: no memory */
void ring_destroy(void);
int ring_memfd(void);
int ring_eventfd(void);
bool ring_attached(void);
bool ring_wants_offscreen(void);
uint64_t ring_begin_op(void); /* stores the next op's number, before its pixels are drawn */
void ring_publish(const struct op *op);
void ring_publish_event(enum thinc_kind kind, uint32_t window, const uint32_t arg[2],
                        uint32_t drawable);
void ring_pixmap(enum thinc_kind kind, uint32_t serial,
                 PixmapPtr pixmap); /* PIXMAP_CREATE or PIXMAP_DESTROY */
uint32_t ring_epoch(void); /* changes whenever the reader has dropped all pixmaps; never 0 */
void ring_barrier(uint32_t id);
void ring_resume(void);           /* the reader has made room */
void ring_block(bool will_sleep); /* from the BlockHandler */
struct thinc_cursor *
ring_cursor(void); /* the block in shared memory; NULL while no session is attached */
struct thinc_geometry *ring_geometry(void);
struct thinc_gamma *ring_gamma(void);
struct thinc_header *ring_header(void);
/* Sealed against resizing, and with these seals; -1 and errno. */
int thinc_memfd(const char *name, size_t bytes, int seals);

/* Writes a versioned block. Only stores to that block may stand between these two. */
static inline void block_begin(uint32_t *seq) {
    __atomic_store_n(seq, *seq + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}
static inline void block_end(uint32_t *seq) { __atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE); }

/* ---- the hooks, each set up in ScreenInit right after fbPictureInit, so that damage and composite
 * lie above  */
bool gc_init(ScreenPtr screen);
bool render_init(ScreenPtr screen);
bool window_init(ScreenPtr screen);
bool pixmap_init(ScreenPtr screen);
void gc_close(ScreenPtr screen);
void render_close(ScreenPtr screen);
void window_close(ScreenPtr screen);
void pixmap_close(ScreenPtr screen);
/* 0: an X client may write this memory without a request */
uint32_t pixmap_serial(PixmapPtr pixmap);
/* announces it to the reader once; false: what is drawn there is not recorded */
bool pixmap_track(PixmapPtr pixmap);
/* From now on an X client may write its memory without a request. */
void pixmap_untrack(PixmapPtr pixmap);
uint32_t window_top_level(WindowPtr window);

/* ---- dri3.c: pixmaps that a GPU reads or writes -------------------------------------------------
 * If thinc.buffers is 0, nothing below dri3_block may be called. */
/* With the render node's path, or NULL for no DRI3. If the node cannot be used, the log says why
 * and the server goes on without DRI3. */
bool dri3_init(ScreenPtr screen, const char *node);
void dri3_close(ScreenPtr screen);
/* From the BlockHandler: copies to GPUs what X has drawn; may shorten the timeout. */
void dri3_block(void *timeout);
/* Round each op, outside of its nesting: the op reads and writes the buffers themselves, until the
 * outermost one ends. A copy's and a blend's sources are mapped when X validates them. `gc` may be
 * NULL. */
void dri3_map_op(DrawablePtr dst, GCPtr gc);
void dri3_unmap_op(void); /* if thinc.mapped */
/* What an op draws, before it does: everything where it is not recorded, else its boxes. */
void dri3_open_op(DrawablePtr dst, bool is_recorded);
void dri3_mark_op(const struct op *op);
bool dri3_is_buffer(PixmapPtr pixmap);

/* ---- pace.c: X clients that put frames are held to a clock ----------------------------------- */
/* Call them after an image was drawn that an X client has put, by PutImage or ShmPutImage. */
void pace_image(DrawablePtr d, int x, int y, int w, int h);
/* The same if the copy was an image, and not from a pixmap. */
void pace_copy(DrawablePtr src, DrawablePtr dst, int x, int y, int w, int h);
bool pace_init(bool on); /* once X has reset its callbacks */

bool cursor_init(ScreenPtr screen);
void cursor_attach(void); /* fills the cursor block of a fresh ring */
/* From the BlockHandler: publishes a position that a program has set by a device of its own, and
 * what X clients do with the pointer. */
void cursor_block(void);
bool video_init(ScreenPtr screen);
/* An op that is published draws over some part of a stereo frame: only if thinc.stereo_ports. */
void stereo_drawn_over(const struct op *op);
bool slots_create(void); /* video_slot.c: memory for the frames of a new session */
void slots_destroy(void);
int slots_memfd(void);
/* From the BlockHandler: releases the frames' memory if the session no longer requests frames. A
 * paused client shows none, so slot_put() would not notice. */
void slots_block(void);

bool randr_pre_init(ScrnInfoPtr scrn, uint32_t width, uint32_t height);
bool randr_init(void); /* once X has reset its callbacks */
/* NULL if applied, otherwise an error message. */
const char *randr_apply(const struct thinc_output *outputs, uint32_t count);
void randr_changed(void);        /* outputs or LEDs: published at the next BlockHandler */
void randr_publish(bool always); /* writes the geometry and gamma blocks and their records */
void randr_set_leds(uint32_t leds);

bool gamma_init(ScreenPtr screen); /* once there is a default colormap */
/* Writes the gamma block and its record if the tables of these outputs, or their places, have
 * changed; nothing without an output. */
void gamma_publish(const struct thinc_output *outputs, const xf86CrtcPtr *crtcs, uint32_t count);

bool screen_framebuffer(
    uint32_t width,
    uint32_t height);             /* A new one with the old contents; false: the old one stays. */
void screen_barrier(uint32_t id); /* a BARRIER record, with the oracle's areas */

bool control_listen(const char *path);
void control_close(void);
void control_framebuffer(void); /* sends the new one to the session */

void input_register(void *module);
void input_init(void);   /* creates the devices once X is running */
int input_attach(void);  /* a new socket pair; returns the session's end, or -1 and errno */
void input_detach(void); /* closes it and releases everything that is held */
bool input_is_ours(DeviceIntPtr device); /* whether it is one of the session's devices */
/* A button of one of them was pressed by the input with this number. Input thread. */
void input_queue_press(uint32_t seq, uint32_t button);

/* pen.c */
bool pen_init(DeviceIntPtr device, bool eraser);
void pen_enable(DeviceIntPtr device, bool eraser); /* NULL: it is off */
void pen_post(const struct thinc_input *in);       /* input thread, or under input_lock */
void pen_release(void);                            /* likewise: it leaves */
void pen_report(void); /* before X sleeps: clients hear that the pen has left */

void realtime_init(void);              /* in place of X's own handler, which ends it */
void realtime_name_input_thread(void); /* called by the thread that reads input */

#endif
