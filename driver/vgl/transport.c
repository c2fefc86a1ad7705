/* Path 1/13: from VirtualGL, in the process of a 3D program, to the X server (gc.c, video.c).
 * libvgltrans_thinc.so, an image transport plugin of VirtualGL: it puts what a program has rendered
 * on a GPU into the program's window. A frame of one picture is an image in shared memory. A frame
 * for two eyes is one image of XVideo with both pictures (video_stereo.c); another X server than
 * thinc's shows its left eye. It has an X connection of its own, by XCB, so that no error of X
 * reaches the program's error handler. Knows one window and its frames; never OpenGL. */
#include "rrtrans.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <xcb/shm.h>
#include <xcb/xcb.h>
#include <xcb/xv.h>

#define EXPORT __attribute__((visibility("default")))

/* One that X reads, one that VirtualGL reads back into, and one between them. */
#define BUFFERS 3
#define PIXEL_BYTES 4
/* Rows and columns of an image that X takes. */
#define EDGE_MAX 32767
/* What thinc's adaptor of XVideo takes: both pictures, one above the other. */
#define STEREO_EDGE_MAX 8192
#define FOURCC_STEREO 0x30525354u /* "TSR0" */

/* From a refusal of two pictures to the next try: a port may be free again, or memory. */
#define AGAIN_AFTER_S 2

enum owner { FREE, VIRTUALGL, X_SERVER };

struct buffer {
    RRFrame frame;
    enum owner owner;
    uint8_t *memory; /* NULL: none yet */
    size_t bytes;
    xcb_shm_seg_t segment;
    uint32_t sequence; /* of the request that shows it */
    bool both;         /* that one shows both pictures */
};

struct transport {
    pthread_mutex_t lock;
    xcb_connection_t *x;
    xcb_window_t window, root;
    xcb_gcontext_t gc;
    uint8_t depth;
    uint8_t completion; /* type of the event that says that X has read an image */
    enum { UNKNOWN, TWO_EYES, ONE_EYE } shows;
    time_t ask_at;      /* while ONE_EYE: when it is UNKNOWN again, in seconds of seconds_now() */
    xcb_xv_port_t port; /* 0: none was grabbed yet */
    struct buffer *newest; /* of those sent */
    struct buffer buffers[BUFFERS];
};

/* ---- errors ---------------------------------------------------------------------------------- */
static __thread char error_text[256] = "no error";

static int fail(const char *text) {
    snprintf(error_text, sizeof error_text, "thinc: %s", text);
    return -1;
}

/* VirtualGL's, if this process has it: X calls between them are X's own, and not VirtualGL's. */
extern void _vgl_disableFaker(void) __attribute__((weak));
extern void _vgl_enableFaker(void) __attribute__((weak));

static void enter(struct transport *t) {
    if (_vgl_disableFaker)
        _vgl_disableFaker();
    if (t)
        pthread_mutex_lock(&t->lock);
}

static void leave(struct transport *t) {
    if (t)
        pthread_mutex_unlock(&t->lock);
    if (_vgl_enableFaker)
        _vgl_enableFaker();
}

/* ---- the program's signals ------------------------------------------------------------------- */
/* A program with interval timers is interrupted again and again. What the kernel would break off
 * then, and only that, runs with this thread's signals blocked; it takes milliseconds. XCB's own
 * reads, writes and waits are repeated by XCB. */
static sigset_t block_signals(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static void unblock_signals(sigset_t before) { pthread_sigmask(SIG_SETMASK, &before, NULL); }

/* ---- what X says ----------------------------------------------------------------------------- */
static time_t seconds_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void show_one(struct transport *t, struct buffer *buffer);

static void show_one_eye_for_now(struct transport *t) {
    t->shows = ONE_EYE;
    t->ask_at = seconds_now() + AGAIN_AFTER_S;
}

static void handle_event(struct transport *t, const xcb_generic_event_t *event) {
    if ((event->response_type & 0x7f) == t->completion) {
        const xcb_shm_completion_event_t *done = (const void *)event;
        for (int i = 0; i < BUFFERS; i++)
            if (t->buffers[i].owner == X_SERVER && t->buffers[i].segment == done->shmseg)
                t->buffers[i].owner = FREE;
        return;
    }
    if (event->response_type != 0)
        return;
    const xcb_generic_error_t *error = (const void *)event;
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = &t->buffers[i];
        if (buffer->owner != X_SERVER || buffer->sequence != error->full_sequence)
            continue;
        /* No event follows. The window may be gone, which ends the program's frames anyway; if X
         * refused a frame of two pictures, the next ones have one, and so has this one if it is
         * the newest: the program may rest now. */
        buffer->owner = FREE;
        if (!buffer->both || error->error_code == XCB_DRAWABLE || error->error_code == XCB_WINDOW)
            continue;
        show_one_eye_for_now(t);
        if (buffer == t->newest)
            show_one(t, buffer);
    }
}

/* Takes what X has said; -1: the connection has ended. */
static int take_events(struct transport *t) {
    xcb_generic_event_t *event;
    while ((event = xcb_poll_for_event(t->x))) {
        handle_event(t, event);
        free(event);
    }
    return xcb_connection_has_error(t->x) ? fail("the X server has ended the connection") : 0;
}

static int wait_for_event(struct transport *t) {
    xcb_generic_event_t *event = xcb_wait_for_event(t->x);
    if (!event)
        return fail("the X server has ended the connection");
    handle_event(t, event);
    free(event);
    return 0;
}

static bool x_has_any(const struct transport *t) {
    for (int i = 0; i < BUFFERS; i++)
        if (t->buffers[i].owner == X_SERVER)
            return true;
    return false;
}

/* ---- shared memory --------------------------------------------------------------------------- */
static void release(struct transport *t, struct buffer *buffer) {
    if (!buffer->memory)
        return;
    xcb_shm_detach(t->x, buffer->segment);
    munmap(buffer->memory, buffer->bytes);
    buffer->memory = NULL;
    buffer->bytes = 0;
}

/* Allocates the pages too: a write to one that the system cannot supply would kill the program. */
static int reserve(struct transport *t, struct buffer *buffer, size_t bytes) {
    if (bytes <= buffer->bytes)
        return 0;
    release(t, buffer);
    int fd = memfd_create("thinc-vgl", MFD_CLOEXEC);
    if (fd < 0)
        return fail("there is no memory for a frame");
    void *memory = MAP_FAILED;
    sigset_t signals = block_signals();
    int failed;
    do /* what stops a process, as a debugger does, cannot be blocked */
        failed = posix_fallocate(fd, 0, (off_t)bytes);
    while (failed == EINTR);
    unblock_signals(signals);
    if (!failed)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        close(fd);
        return fail("there is no memory for a frame");
    }
    if (buffer->segment == 0)
        buffer->segment = xcb_generate_id(t->x);
    /* XCB closes the descriptor. */
    xcb_void_cookie_t cookie = xcb_shm_attach_fd_checked(t->x, buffer->segment, fd, 1);
    xcb_generic_error_t *error = xcb_request_check(t->x, cookie);
    if (error || xcb_connection_has_error(t->x)) {
        free(error);
        munmap(memory, bytes);
        return fail("the X server does not take the memory of a frame");
    }
    buffer->memory = memory;
    buffer->bytes = bytes;
    return 0;
}

/* ---- two eyes -------------------------------------------------------------------------------- */
static bool is_thinc(const xcb_xv_adaptor_info_t *adaptor) {
    const char name[] = "thinc";
    return xcb_xv_adaptor_info_name_length(adaptor) == (int)strlen(name) &&
           memcmp(xcb_xv_adaptor_info_name(adaptor), name, strlen(name)) == 0;
}

static bool takes_stereo(struct transport *t, xcb_xv_port_t port) {
    xcb_xv_list_image_formats_reply_t *formats =
        xcb_xv_list_image_formats_reply(t->x, xcb_xv_list_image_formats(t->x, port), NULL);
    if (!formats)
        return false;
    const xcb_xv_image_format_info_t *format = xcb_xv_list_image_formats_format(formats);
    bool found = false;
    for (int i = 0; i < xcb_xv_list_image_formats_format_length(formats); i++)
        found = found || format[i].id == FOURCC_STEREO;
    free(formats);
    return found;
}

/* A port that nobody else uses, for as long as the connection lasts. */
static bool grab_port(struct transport *t, const xcb_xv_adaptor_info_t *adaptor) {
    for (xcb_xv_port_t i = 0; i < adaptor->num_ports; i++) {
        xcb_xv_port_t port = adaptor->base_id + i;
        xcb_xv_grab_port_reply_t *grab =
            xcb_xv_grab_port_reply(t->x, xcb_xv_grab_port(t->x, port, XCB_CURRENT_TIME), NULL);
        bool grabbed = grab && grab->result == XCB_XV_GRAB_PORT_STATUS_SUCCESS;
        free(grab);
        if (grabbed) {
            t->port = port;
            return true;
        }
    }
    return false;
}

static bool find_port(struct transport *t) {
    const xcb_query_extension_reply_t *xv = xcb_get_extension_data(t->x, &xcb_xv_id);
    if (!xv || !xv->present)
        return false;
    xcb_xv_query_adaptors_reply_t *adaptors =
        xcb_xv_query_adaptors_reply(t->x, xcb_xv_query_adaptors(t->x, t->root), NULL);
    if (!adaptors)
        return false;
    bool found = false;
    xcb_xv_adaptor_info_iterator_t it = xcb_xv_query_adaptors_info_iterator(adaptors);
    for (; it.rem > 0 && !found; xcb_xv_adaptor_info_next(&it))
        found = is_thinc(it.data) && takes_stereo(t, it.data->base_id) && grab_port(t, it.data);
    free(adaptors);
    return found;
}

/* X has a way for both pictures of this frame. */
static bool can_show_both(struct transport *t, const RRFrame *frame) {
    if (t->shows == ONE_EYE && seconds_now() >= t->ask_at)
        t->shows = UNKNOWN;
    if (t->shows == UNKNOWN) {
        if (t->port != 0 || find_port(t))
            t->shows = TWO_EYES;
        else
            show_one_eye_for_now(t);
    }
    return t->shows == TWO_EYES && frame->w <= STEREO_EDGE_MAX && frame->h <= STEREO_EDGE_MAX / 2;
}

/* ---- sending --------------------------------------------------------------------------------- */
/* VirtualGL has read the bottom row first; X shows the top one first. */
static void flip(uint8_t *picture, size_t pitch, int rows) {
    uint8_t line[16384];
    for (int top = 0, bottom = rows - 1; top < bottom; top++, bottom--)
        for (size_t at = 0; at < pitch; at += sizeof line) {
            size_t n = pitch - at < sizeof line ? pitch - at : sizeof line;
            uint8_t *a = picture + (size_t)top * pitch + at,
                    *b = picture + (size_t)bottom * pitch + at;
            memcpy(line, a, n);
            memcpy(a, b, n);
            memcpy(b, line, n);
        }
}

static void sent(struct transport *t, struct buffer *buffer, xcb_void_cookie_t cookie, bool both) {
    buffer->sequence = cookie.sequence;
    buffer->both = both;
    buffer->owner = X_SERVER;
    t->newest = buffer;
    xcb_flush(t->x);
}

/* The picture, or the left eye's, which has its top row first. */
static void show_one(struct transport *t, struct buffer *buffer) {
    uint16_t w = (uint16_t)buffer->frame.w, h = (uint16_t)buffer->frame.h;
    sent(t, buffer,
         xcb_shm_put_image(t->x, t->window, t->gc, w, h, 0, 0, w, h, 0, 0, t->depth,
                           XCB_IMAGE_FORMAT_Z_PIXMAP, 1, buffer->segment, 0),
         false);
}

static void show(struct transport *t, struct buffer *buffer) {
    RRFrame *frame = &buffer->frame;
    uint16_t w = (uint16_t)frame->w, h = (uint16_t)frame->h;
    flip(frame->bits, (size_t)frame->pitch, frame->h);
    if (!frame->rbits || !can_show_both(t, frame)) {
        show_one(t, buffer);
        return;
    }
    flip(frame->rbits, (size_t)frame->pitch, frame->h);
    sent(t, buffer,
         xcb_xv_shm_put_image(t->x, t->port, t->window, t->gc, buffer->segment, FOURCC_STEREO, 0, 0,
                              0, w, h, 0, 0, w, h, w, (uint16_t)(2 * h), 1),
         true);
}

/* ---- the plugin ------------------------------------------------------------------------------ */
/* X connection, window and extensions; -1 and a reason. */
static int open_window(struct transport *t, const char *display) {
    /* A signal ends connect() while the server has a queue of clients; XCB does not repeat it. */
    sigset_t signals = block_signals();
    t->x = xcb_connect(display, NULL);
    unblock_signals(signals);
    if (xcb_connection_has_error(t->x))
        return fail("cannot connect to the X server");
    const xcb_setup_t *setup = xcb_get_setup(t->x);
    const xcb_query_extension_reply_t *shm = xcb_get_extension_data(t->x, &xcb_shm_id);
    xcb_shm_query_version_reply_t *version =
        shm && shm->present ? xcb_shm_query_version_reply(t->x, xcb_shm_query_version(t->x), NULL)
                            : NULL;
    /* From 1.2 on memory is passed as a descriptor, which only a local server can take. */
    bool shares = version && (version->major_version > 1 || version->minor_version >= 2);
    free(version);
    if (!shares)
        return fail("the X server shares no memory with this program (MIT-SHM 1.2)");
    t->completion = (uint8_t)(shm->first_event + XCB_SHM_COMPLETION);
    xcb_get_geometry_reply_t *window =
        xcb_get_geometry_reply(t->x, xcb_get_geometry(t->x, t->window), NULL);
    if (!window)
        return fail("there is no such window");
    t->root = window->root;
    t->depth = window->depth;
    free(window);
    if ((t->depth != 24 && t->depth != 32) || setup->image_byte_order != XCB_IMAGE_ORDER_LSB_FIRST)
        return fail("the window does not have 8 bits of red, green and blue in 32 bits");
    t->gc = xcb_generate_id(t->x);
    xcb_create_gc(t->x, t->gc, t->window, XCB_GC_GRAPHICS_EXPOSURES, (uint32_t[]){0});
    return 0;
}

static void destroy(struct transport *t) {
    for (int i = 0; i < BUFFERS; i++)
        release(t, &t->buffers[i]);
    if (t->port != 0)
        xcb_xv_stop_video(t->x, t->port, t->window);
    if (t->x) {
        xcb_flush(t->x);
        xcb_disconnect(t->x);
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

EXPORT void *RRTransInit(Display *dpy, Window win, void *config) {
    (void)config;
    struct transport *t = calloc(1, sizeof *t);
    if (!t || !dpy || pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        fail("there is no memory for a window's transport");
        return NULL;
    }
    enter(NULL);
    t->window = (xcb_window_t)win;
    if (open_window(t, DisplayString(dpy)) < 0) {
        destroy(t);
        t = NULL;
    }
    leave(NULL);
    return t;
}

/* The receiver is always the X server of the window. */
EXPORT int RRTransConnect(void *handle, char *receiver, int port) {
    (void)receiver;
    (void)port;
    return handle ? 0 : fail("there is no transport");
}

static struct buffer *free_buffer(struct transport *t) {
    if (take_events(t) < 0)
        return NULL;
    for (;;) {
        for (int i = 0; i < BUFFERS; i++)
            if (t->buffers[i].owner == FREE)
                return &t->buffers[i];
        if (!x_has_any(t)) {
            fail("all frames are being rendered, and none was sent");
            return NULL;
        }
        if (wait_for_event(t) < 0)
            return NULL;
    }
}

static RRFrame *get_frame(struct transport *t, int width, int height, bool stereo) {
    if (width < 1 || height < 1 || width > EDGE_MAX || height > EDGE_MAX) {
        fail("a frame of such a size cannot be shown");
        return NULL;
    }
    struct buffer *buffer = free_buffer(t);
    size_t pitch = (size_t)width * PIXEL_BYTES, picture = pitch * (size_t)height;
    if (!buffer || reserve(t, buffer, stereo ? 2 * picture : picture) < 0)
        return NULL;
    buffer->owner = VIRTUALGL;
    buffer->frame = (RRFrame){.bits = buffer->memory,
                              .rbits = stereo ? buffer->memory + picture : NULL,
                              .format = RRTRANS_BGRA,
                              .w = width,
                              .h = height,
                              .pitch = (int)pitch,
                              .opaque = buffer};
    return &buffer->frame;
}

EXPORT RRFrame *RRTransGetFrame(void *handle, int width, int height, int format, int stereo) {
    (void)format; /* X takes one only */
    struct transport *t = handle;
    if (!t) {
        fail("there is no transport");
        return NULL;
    }
    enter(t);
    RRFrame *frame = get_frame(t, width, height, stereo != 0);
    leave(t);
    return frame;
}

EXPORT int RRTransReady(void *handle) {
    struct transport *t = handle;
    if (!t)
        return fail("there is no transport");
    enter(t);
    int ready = take_events(t) < 0 ? -1 : !x_has_any(t);
    leave(t);
    return ready;
}

EXPORT int RRTransSynchronize(void *handle) {
    struct transport *t = handle;
    if (!t)
        return fail("there is no transport");
    enter(t);
    int result = take_events(t);
    while (result == 0 && x_has_any(t))
        result = wait_for_event(t);
    leave(t);
    return result;
}

static int send_frame(struct transport *t, RRFrame *frame, bool sync) {
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = &t->buffers[i];
        if (frame != &buffer->frame || buffer->owner != VIRTUALGL)
            continue;
        show(t, buffer);
        int result = take_events(t);
        while (result == 0 && sync && buffer->owner == X_SERVER)
            result = wait_for_event(t);
        return result;
    }
    return fail("this frame was not asked for");
}

EXPORT int RRTransSendFrame(void *handle, RRFrame *frame, int sync) {
    struct transport *t = handle;
    if (!t)
        return fail("there is no transport");
    enter(t);
    int result = send_frame(t, frame, sync != 0);
    leave(t);
    return result;
}

EXPORT int RRTransDestroy(void *handle) {
    if (!handle)
        return fail("there is no transport");
    enter(NULL);
    destroy(handle);
    leave(NULL);
    return 0;
}

EXPORT const char *RRTransGetError(void) { return error_text; }
