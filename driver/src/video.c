/* Path 1/13: from X clients' XVideo requests, to op.c.
 * An adaptor with 16 ports for YV12, I420, NV12, YUY2 and UYVY. Each frame is drawn into the
 * framebuffer by video_convert.c, clipped by X, and recorded as VIDEO; video_slot.c passes its
 * samples to the session if the session requests them. A sixth format is a frame of a program that
 * draws for two eyes (video_stereo.c). Knows pixel formats; never codecs. */
#include "video.h"

#include <stdlib.h>
#include <string.h>

#include <X11/extensions/Xv.h>

#include <damage.h>
#include <fourcc.h>
#include <xf86xv.h>

#define PORTS ((int)THINC_VIDEO_PORTS)
/* 8192: twice the width of 4K; no video has larger frames. */
#define FRAME_MAX ((int)THINC_VIDEO_EDGE_MAX)

/* ---- one frame in memory --------------------------------------------------------------------- */
static int query_image(ScrnInfoPtr scrn, int id, unsigned short *w, unsigned short *h, int *pitches,
                       int *offsets) {
    int width = *w < FRAME_MAX ? *w : FRAME_MAX, height = *h < FRAME_MAX ? *h : FRAME_MAX;
    if (id != FOURCC_STEREO)
        width = (width + 1) & ~1;
    if (offsets)
        offsets[0] = 0;
    int size;
    if (id == FOURCC_STEREO) {
        height = (height + 1) & ~1;
        if (pitches)
            pitches[0] = width * 4;
        size = width * 4 * height;
    } else if (id == FOURCC_NV12) {
        height = (height + 1) & ~1;
        int row = (width + 3) & ~3;
        if (pitches)
            pitches[0] = pitches[1] = row;
        if (offsets)
            offsets[1] = row * height;
        size = row * height + row * (height / 2);
    } else if (id == FOURCC_YV12 || id == FOURCC_I420) {
        height = (height + 1) & ~1;
        int luma = (width + 3) & ~3, chroma = (width / 2 + 3) & ~3;
        if (pitches) {
            pitches[0] = luma;
            pitches[1] = pitches[2] = chroma;
        }
        if (offsets) {
            offsets[1] = luma * height;
            offsets[2] = offsets[1] + chroma * (height / 2);
        }
        size = luma * height + chroma * height;
    } else {
        if (pitches)
            pitches[0] = width * 2;
        size = width * 2 * height;
    }
    *w = (unsigned short)width;
    *h = (unsigned short)height;
    return size;
}

static struct frame frame_of(int id, const uint8_t *buffer, unsigned short width,
                             unsigned short height) {
    int pitches[3] = {0}, offsets[3] = {0};
    int shown_width = width, shown_height = height;
    query_image(NULL, id, &width, &height, pitches, offsets);
    struct frame f = {.y = {.width = shown_width, .height = shown_height}};
    f.u.width = f.v.width = (shown_width + 1) / 2;
    if (id == FOURCC_NV12) {
        f.y.base = buffer;
        f.u.base = buffer + offsets[1];
        f.v.base = f.u.base + 1;
        f.y.stride = pitches[0];
        f.u.stride = f.v.stride = pitches[1];
        f.y.step = 1;
        f.u.step = f.v.step = 2;
        f.u.height = f.v.height = (shown_height + 1) / 2;
    } else if (id == FOURCC_YV12 || id == FOURCC_I420) {
        const uint8_t *second = buffer + offsets[1], *third = buffer + offsets[2];
        f.y.base = buffer;
        f.u.base = id == FOURCC_I420 ? second : third;
        f.v.base = id == FOURCC_I420 ? third : second;
        f.y.stride = pitches[0];
        f.u.stride = f.v.stride = pitches[1];
        f.y.step = f.u.step = f.v.step = 1;
        f.u.height = f.v.height = (shown_height + 1) / 2;
    } else {
        int luma = id == FOURCC_YUY2 ? 0 : 1, chroma = id == FOURCC_YUY2 ? 1 : 0;
        f.y.base = buffer + luma;
        f.u.base = buffer + chroma;
        f.v.base = buffer + chroma + 2;
        f.y.stride = f.u.stride = f.v.stride = pitches[0];
        f.y.step = 2;
        f.u.step = f.v.step = 4;
        f.u.height = f.v.height = shown_height;
    }
    return f;
}

/* ---- records --------------------------------------------------------------------------------- */
/* The window of each port's last frame; 0: none yet. */
static XID windows[PORTS];

static uint32_t layout_of(const struct frame *f) {
    return f->u.height == f->y.height && f->y.height > 1 ? THINC_VIDEO_422 : THINC_VIDEO_420;
}

/* True if a viewer can show the frame: the crop is inside the image, and the place is in range. */
static bool is_presentable(const struct frame *f, struct place crop, int place_x, int place_y) {
    return crop.x >= 0 && crop.y >= 0 && crop.width <= f->y.width - crop.x &&
           crop.height <= f->y.height - crop.y && abs(place_x) <= THINC_VIDEO_PLACE_MAX &&
           abs(place_y) <= THINC_VIDEO_PLACE_MAX;
}

/* ---- drawing --------------------------------------------------------------------------------- */
/* What is drawn of a frame: the crop `src`, scaled to `dst`, inside a clip. */
struct picture {
    struct frame frame;
    struct place src, dst;
    struct target target;
    int x0, x_end; /* pixels inside the clip's extents */
    int count;
    const BoxRec *rects;
};

static void prepare(struct picture *p, RegionPtr clip) {
    const BoxRec *all = RegionExtents(clip);
    p->x0 = all->x1 > p->dst.x ? all->x1 : p->dst.x;
    p->x_end = all->x2 < p->dst.x + p->dst.width ? all->x2 : p->dst.x + p->dst.width;
    if (p->x_end - p->x0 > (int)THINC_SCREEN_MAX)
        p->x_end = p->x0 + (int)THINC_SCREEN_MAX;
    p->count = RegionNumRects(clip);
    p->rects = RegionRects(clip);
}

/* Whether each pixel is what the picture would make of it; otherwise draws it with `draw`. */
static bool convert(const struct picture *p, bool draw) {
    static uint32_t line[THINC_SCREEN_MAX]; /* X's main thread only */
    PixmapPtr pixmap = p->target.pixmap;
    int off_x = p->target.off_x, off_y = p->target.off_y;
    if (p->x0 < p->x_end)
        convert_prepare(&p->frame, p->src, p->dst, p->x0, p->x_end);
    for (int i = 0; i < p->count; i++) {
        /* The clip comes from X, but the target is memory: draw nothing outside the pixmap,
         * whatever the clip is. */
        const BoxRec *rect = &p->rects[i];
        int x1 = rect->x1 > p->x0 ? rect->x1 : p->x0,
            x2 = rect->x2 < p->x_end ? rect->x2 : p->x_end;
        int y1 = rect->y1 > p->dst.y ? rect->y1 : p->dst.y,
            y2 = rect->y2 < p->dst.y + p->dst.height ? rect->y2 : p->dst.y + p->dst.height;
        x1 = x1 > -off_x ? x1 : -off_x;
        y1 = y1 > -off_y ? y1 : -off_y;
        x2 = x2 < pixmap->drawable.width - off_x ? x2 : pixmap->drawable.width - off_x;
        y2 = y2 < pixmap->drawable.height - off_y ? y2 : pixmap->drawable.height - off_y;
        if (x1 >= x2)
            continue;
        for (int y = y1; y < y2; y++) {
            uint32_t *row = (uint32_t *)((uint8_t *)pixmap->devPrivate.ptr +
                                         (ptrdiff_t)(y + off_y) * pixmap->devKind) +
                            x1 + off_x;
            uint32_t *out = draw ? row : line;
            convert_row(&p->frame, p->src, p->dst, x1 - p->x0, x2 - x1, y, out);
            if (!draw && memcmp(row, line, (size_t)(x2 - x1) * sizeof *line) != 0)
                return false;
        }
    }
    return true;
}

/* The port shows a frame in this window already, as slot_goes_on() says. From now on it does. */
static bool continues(uint32_t port, DrawablePtr drawable) {
    bool goes_on = windows[port] == drawable->id && ring_attached() && slot_goes_on(port);
    windows[port] = drawable->id;
    return goes_on;
}

/* Both eyes' pictures are drawn in the size they have, and no pixel is outside them. */
static int put_stereo(struct stereo_frame *stereo, RegionPtr clip, DrawablePtr drawable) {
    struct place src = stereo->src, dst = stereo->dst;
    if (src.width != dst.width || src.height != dst.height || src.x < 0 || src.y < 0 ||
        src.width > stereo->width - src.x || src.height > stereo->height - src.y)
        return BadMatch;
    stereo->goes_on = continues(stereo->port, drawable);
    stereo_put(stereo, clip, drawable);
    return Success;
}

/* ---- the adaptor ----------------------------------------------------------------------------- */
static int put_image(ScrnInfoPtr scrn, short src_x, short src_y, short drw_x, short drw_y,
                     short src_w, short src_h, short drw_w, short drw_h, int id,
                     unsigned char *buffer, short width, short height, Bool sync, RegionPtr clip,
                     void *data, DrawablePtr drawable) {
    if (width < 1 || height < 1 || width > FRAME_MAX || height > FRAME_MAX || src_w < 1 ||
        src_h < 1 || drw_w < 1 || drw_h < 1)
        return Success;
    struct place src = {src_x, src_y, src_w, src_h}, dst = {drw_x, drw_y, drw_w, drw_h};
    if (id == FOURCC_STEREO) {
        struct stereo_frame stereo = {.port = (uint32_t)(uintptr_t)data,
                                      .pixels = buffer,
                                      .width = width,
                                      .height = height / 2,
                                      .src = src,
                                      .dst = dst};
        return put_stereo(&stereo, clip, drawable);
    }
    struct picture picture = {.src = src, .dst = dst};
    struct frame *frame = &picture.frame;
    *frame = frame_of(id, buffer, (unsigned short)width, (unsigned short)height);
    drawable_target(drawable, &picture.target);
    prepare(&picture, clip);

    uint32_t port = (uint32_t)(uintptr_t)data;
    bool goes_on = continues(port, drawable);
    /* A paused player draws its picture again and again. That is rest: it is recorded once, and
     * viewers get it exactly. Of a picture that differs only the part above the first difference
     * is converted twice. */
    if (goes_on && convert(&picture, false))
        return Success;
    struct op *op = op_open(drawable);
    if (op) {
        if (is_presentable(frame, src, dst.x + op->off_x, dst.y + op->off_y)) {
            op->hint = THINC_VIDEO;
            op->arg[0] = port | layout_of(frame) << 8;
            op->arg[1] = video_pair(width, height);
            op->arg[2] = video_pair(src.width, src.height);
            op->arg[3] = video_pair(dst.width, dst.height);
            op->src = video_pair(src.x, src.y);
            op->dx = dst.x + op->off_x;
            op->dy = dst.y + op->off_y;
        } else {
            /* Beyond the image its edge pixels are repeated, which no viewer supports. */
            op->hint = THINC_IMAGE;
        }
        op_set_alpha(op, THINC_FLAG_OPAQUE);
        op_add(op, dst.x, dst.y, dst.x + dst.width, dst.y + dst.height);
        op = op_begin(op, clip);
    }
    if (op && op->hint == THINC_VIDEO && !slot_put(port, op, frame))
        /* No memory for the samples that the session requests: it gets pixels. */
        op->hint = THINC_IMAGE;
    convert(&picture, true);
    if (op)
        op_publish(op);
    /* Report the damage to compositors and screen readers, as for any drawing. */
    DamageDamageRegion(drawable, clip);
    return Success;
}

/* The adaptor claims to be an overlay so that X calls this. X stops overlaid images if the client
 * requests it, if the window is destroyed or unmapped, if a frame arrives while it is fully
 * obscured, and also if something over it moved. The last does not end the video. */
static void stop_video(ScrnInfoPtr scrn, void *data, Bool cleanup) {
    uint32_t port = (uint32_t)(uintptr_t)data;
    WindowPtr window;
    if (!cleanup &&
        dixLookupWindow(&window, windows[port], serverClient, DixGetAttrAccess) == Success &&
        (window->visibility == VisibilityUnobscured ||
         window->visibility == VisibilityPartiallyObscured))
        return;
    slot_stop(port);
    stereo_stopped(port);
}

static int set_attribute(ScrnInfoPtr scrn, Atom attribute, INT32 value, void *data) {
    return BadMatch;
}
static int get_attribute(ScrnInfoPtr scrn, Atom attribute, INT32 *value, void *data) {
    return BadMatch;
}

static void best_size(ScrnInfoPtr scrn, Bool motion, short vid_w, short vid_h, short drw_w,
                      short drw_h, unsigned *w, unsigned *h, void *data) {
    *w = (unsigned)(drw_w > 0 ? drw_w : 0);
    *h = (unsigned)(drw_h > 0 ? drw_h : 0);
}

static XF86ImageRec images[] = {
    XVIMAGE_YV12,
    XVIMAGE_I420,
    XVIMAGE_NV12,
    XVIMAGE_YUY2,
    XVIMAGE_UYVY,
    {
        .id = FOURCC_STEREO,
        .type = XvRGB,
        .byte_order = LSBFirst,
        .guid = {'T', 'S', 'R', '0'},
        .bits_per_pixel = 32,
        .format = XvPacked,
        .num_planes = 1,
        .depth = 24,
        .red_mask = 0xff0000,
        .green_mask = 0xff00,
        .blue_mask = 0xff,
        .component_order = {'B', 'G', 'R', 'X'},
        .scanline_order = XvTopToBottom,
    },
};
static XF86VideoEncodingRec encoding = {0, "XV_IMAGE", FRAME_MAX, FRAME_MAX, {1, 1}};
static XF86VideoFormatRec formats[] = {{24, TrueColor}, {32, TrueColor}};

bool video_init(ScreenPtr screen) {
    static DevUnion ports[PORTS];
    for (int i = 0; i < PORTS; i++)
        ports[i].ptr = (void *)(uintptr_t)i;
    XF86VideoAdaptorPtr adaptor = xf86XVAllocateVideoAdaptorRec(xf86ScreenToScrn(screen));
    if (!adaptor)
        return false;
    adaptor->type = XvWindowMask | XvInputMask | XvImageMask;
    adaptor->flags = VIDEO_OVERLAID_IMAGES; /* see stop_video */
    adaptor->name = "thinc";
    adaptor->nEncodings = 1;
    adaptor->pEncodings = &encoding;
    adaptor->nFormats = sizeof formats / sizeof formats[0];
    adaptor->pFormats = formats;
    adaptor->nPorts = PORTS;
    adaptor->pPortPrivates = ports;
    adaptor->nImages = sizeof images / sizeof images[0];
    adaptor->pImages = images;
    adaptor->StopVideo = stop_video;
    adaptor->SetPortAttribute = set_attribute;
    adaptor->GetPortAttribute = get_attribute;
    adaptor->QueryBestSize = best_size;
    adaptor->PutImage = put_image;
    adaptor->QueryImageAttributes = query_image;
    bool ok = xf86XVScreenInit(screen, &adaptor, 1);
    /* xf86XVScreenInit has copied it. */
    xf86XVFreeVideoAdaptorRec(adaptor);
    return ok;
}
