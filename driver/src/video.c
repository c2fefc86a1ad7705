/* Path 1/13: from X clients' XVideo requests, to op.c.
 * An adaptor with 16 ports for YV12, I420, YUY2 and UYVY: each frame is scaled and converted into the framebuffer (BT.601,
 * limited range), clipped as X says, and recorded as VIDEO. Knows pixel formats; never codecs. */
#include "thinc.h"

#include <string.h>

#include <X11/extensions/Xv.h>

#include <damage.h>
#include <fourcc.h>
#include <xf86xv.h>

#define PORTS 16
/* 8192: twice the width of 4K; larger frames are no video. */
#define FRAME_MAX 8192

/* ---- one frame in memory ---------------------------------------------------------------------------------------------------- */
/* Where sample x, y of a plane lies: base[y * stride + x * step]. */
struct plane {
    const uint8_t *base;
    int stride, step;
    int width, height; /* samples */
};
struct frame {
    struct plane y, u, v;
};

static int query_image(ScrnInfoPtr scrn, int id, unsigned short *w, unsigned short *h, int *pitches, int *offsets) {
    int width = *w < FRAME_MAX ? *w : FRAME_MAX, height = *h < FRAME_MAX ? *h : FRAME_MAX;
    width = (width + 1) & ~1;
    if (offsets)
        offsets[0] = 0;
    int size;
    if (id == FOURCC_YV12 || id == FOURCC_I420) {
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

static struct frame frame_of(int id, const uint8_t *buffer, unsigned short width, unsigned short height) {
    int pitches[3] = {0}, offsets[3] = {0};
    int shown_width = width, shown_height = height;
    query_image(NULL, id, &width, &height, pitches, offsets);
    struct frame f = {.y = {.width = shown_width, .height = shown_height}};
    f.u.width = f.v.width = (shown_width + 1) / 2;
    if (id == FOURCC_YV12 || id == FOURCC_I420) {
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

/* ---- scaling ------------------------------------------------------------------------------------------------------------------ */
/* A place between two samples: the first one's index and the second one's weight of 256. */
struct tap {
    uint16_t first;
    uint16_t weight;
};

/* Centre of target pixel i of `target`, mapped to samples [start, start + count) of a plane with `samples` of them, where one
 * sample covers 1 / `density` of a luma pixel. Clamped into the plane: a client may name a source outside of its image. */
static struct tap tap_at(int64_t i, int64_t target, int64_t start, int64_t count, int density, int samples) {
    /* In 1/256 of a sample: (start + (i + 1/2) * count / target) / density - 1/2. */
    int64_t at = (256 * (2 * start * target + (2 * i + 1) * count)) / (2 * target * density) - 128;
    int64_t low = start / density * 256, high = ((start + count + density - 1) / density - 1) * 256, last = (int64_t)(samples - 1) * 256;
    high = high < last ? high : last;
    low = low < 0 ? 0 : low > last ? last : low;
    at = at > high ? high : at;
    at = at < low ? low : at;
    return (struct tap){(uint16_t)(at / 256), (uint16_t)(at % 256)};
}

/* Blends two rows of a plane into 16-bit values of 8.8, samples [from, to]. */
static void blend_rows(const struct plane *plane, struct tap tap, int from, int to, uint16_t *restrict out) {
    const uint8_t *restrict a = plane->base + (ptrdiff_t)tap.first * plane->stride;
    int second = tap.weight ? tap.first + 1 : tap.first;
    const uint8_t *restrict b = plane->base + (ptrdiff_t)second * plane->stride;
    int step = plane->step, wb = tap.weight, wa = 256 - wb;
    if (step == 1) {
        for (int x = from; x <= to; x++)
            out[x] = (uint16_t)(a[x] * wa + b[x] * wb);
        return;
    }
    for (int x = from; x <= to; x++)
        out[x] = (uint16_t)(a[x * step] * wa + b[x * step] * wb);
}

/* Between two samples of 8.8, to 8 bits, rounded. */
static int blend(const uint16_t *row, struct tap tap) {
    int second = tap.weight ? tap.first + 1 : tap.first;
    return (int)(((uint32_t)row[tap.first] * (256u - tap.weight) + (uint32_t)row[second] * tap.weight + 32768u) >> 16);
}

static int clamp8(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* BT.601, limited range: luma 16 to 235, chroma 16 to 240; coefficients in 1/256. */
static void convert(const int16_t *restrict y, const int16_t *restrict u, const int16_t *restrict v, int n, uint32_t *restrict out) {
    for (int i = 0; i < n; i++) {
        int c = 298 * (y[i] - 16) + 128, d = u[i] - 128, e = v[i] - 128;
        int r = clamp8((c + 409 * e) >> 8), g = clamp8((c - 100 * d - 208 * e) >> 8), b = clamp8((c + 516 * d) >> 8);
        out[i] = 0xff000000u | (uint32_t)r << 16 | (uint32_t)g << 8 | (uint32_t)b;
    }
}

/* Work space for one row, X's main thread only: no allocation for a frame. */
static uint16_t row_y[FRAME_MAX], row_u[FRAME_MAX], row_v[FRAME_MAX];
static struct tap luma_taps[THINC_SCREEN_MAX], chroma_taps[THINC_SCREEN_MAX];
static int16_t line_y[THINC_SCREEN_MAX], line_u[THINC_SCREEN_MAX], line_v[THINC_SCREEN_MAX];

struct place {
    int x, y, width, height;
};

/* Pixels [x1, x2) of row y of the drawable's coordinates; taps are indexed from x0. */
static void convert_row(const struct frame *f, struct place src, struct place dst, int x0, int x1, int x2, int y, uint32_t *out) {
    int n = x2 - x1, chroma_rows = f->u.height == f->y.height ? 1 : 2;
    const struct tap *lt = luma_taps + (x1 - x0), *ct = chroma_taps + (x1 - x0);
    struct tap luma = tap_at(y - dst.y, dst.height, src.y, src.height, 1, f->y.height);
    struct tap chroma = tap_at(y - dst.y, dst.height, src.y, src.height, chroma_rows, f->u.height);
    int luma_to = lt[n - 1].first + (lt[n - 1].weight > 0), chroma_to = ct[n - 1].first + (ct[n - 1].weight > 0);
    blend_rows(&f->y, luma, lt[0].first, luma_to, row_y);
    blend_rows(&f->u, chroma, ct[0].first, chroma_to, row_u);
    blend_rows(&f->v, chroma, ct[0].first, chroma_to, row_v);
    for (int i = 0; i < n; i++) {
        line_y[i] = (int16_t)blend(row_y, lt[i]);
        line_u[i] = (int16_t)blend(row_u, ct[i]);
        line_v[i] = (int16_t)blend(row_v, ct[i]);
    }
    convert(line_y, line_u, line_v, n, out);
}

/* ---- the adaptor ---------------------------------------------------------------------------------------------------------------- */
static int put_image(ScrnInfoPtr scrn, short src_x, short src_y, short drw_x, short drw_y, short src_w, short src_h, short drw_w,
                     short drw_h, int id, unsigned char *buffer, short width, short height, Bool sync, RegionPtr clip, void *data,
                     DrawablePtr drawable) {
    if (width < 1 || height < 1 || width > FRAME_MAX || height > FRAME_MAX || src_w < 1 || src_h < 1 || drw_w < 1 || drw_h < 1)
        return Success;
    struct target target;
    drawable_target(drawable, &target);
    PixmapPtr pixmap = target.pixmap;
    int off_x = target.off_x, off_y = target.off_y;
    struct frame frame = frame_of(id, buffer, (unsigned short)width, (unsigned short)height);
    struct place src = {src_x, src_y, src_w, src_h}, dst = {drw_x, drw_y, drw_w, drw_h};

    struct op *op = op_open(drawable);
    if (op) {
        op->what = THINC_VIDEO;
        op->arg[0] = (uint32_t)(uintptr_t)data;
        op->arg[1] = (uint32_t)id;
        op->arg[2] = (uint32_t)(uint16_t)src_w | (uint32_t)(uint16_t)src_h << 16;
        op->arg[3] = (uint32_t)(uint16_t)drw_w | (uint32_t)(uint16_t)drw_h << 16;
        op_add(op, dst.x, dst.y, dst.x + dst.width, dst.y + dst.height);
        op = op_ready(op, clip);
    }
    BoxRec all = *RegionExtents(clip);
    int x0 = all.x1 > dst.x ? all.x1 : dst.x, x_end = all.x2 < dst.x + dst.width ? all.x2 : dst.x + dst.width;
    if (x_end - x0 > (int)THINC_SCREEN_MAX)
        x_end = x0 + (int)THINC_SCREEN_MAX;
    for (int x = x0; x < x_end; x++) {
        luma_taps[x - x0] = tap_at(x - dst.x, dst.width, src.x, src.width, 1, frame.y.width);
        chroma_taps[x - x0] = tap_at(x - dst.x, dst.width, src.x, src.width, 2, frame.u.width);
    }
    int count = RegionNumRects(clip);
    const BoxRec *rects = RegionRects(clip);
    for (int i = 0; i < count; i++) {
        /* The clip is X's, but the target is memory: nothing outside of the pixmap, whatever the clip says. */
        int x1 = rects[i].x1 > x0 ? rects[i].x1 : x0, x2 = rects[i].x2 < x_end ? rects[i].x2 : x_end;
        int y1 = rects[i].y1 > dst.y ? rects[i].y1 : dst.y, y2 = rects[i].y2 < dst.y + dst.height ? rects[i].y2 : dst.y + dst.height;
        x1 = x1 > -off_x ? x1 : -off_x;
        y1 = y1 > -off_y ? y1 : -off_y;
        x2 = x2 < pixmap->drawable.width - off_x ? x2 : pixmap->drawable.width - off_x;
        y2 = y2 < pixmap->drawable.height - off_y ? y2 : pixmap->drawable.height - off_y;
        if (x1 >= x2)
            continue;
        for (int y = y1; y < y2; y++) {
            uint8_t *row = (uint8_t *)pixmap->devPrivate.ptr + (ptrdiff_t)(y + off_y) * pixmap->devKind;
            convert_row(&frame, src, dst, x0, x1, x2, y, (uint32_t *)row + x1 + off_x);
        }
    }
    if (op)
        op_publish(op);
    /* Compositors and screen readers learn of it as of any drawing. */
    DamageDamageRegion(drawable, clip);
    return Success;
}

static void stop_video(ScrnInfoPtr scrn, void *data, Bool cleanup) {}
static int set_attribute(ScrnInfoPtr scrn, Atom attribute, INT32 value, void *data) { return BadMatch; }
static int get_attribute(ScrnInfoPtr scrn, Atom attribute, INT32 *value, void *data) { return BadMatch; }

static void best_size(ScrnInfoPtr scrn, Bool motion, short vid_w, short vid_h, short drw_w, short drw_h, unsigned *w, unsigned *h,
                      void *data) {
    *w = (unsigned)(drw_w > 0 ? drw_w : 0);
    *h = (unsigned)(drw_h > 0 ? drw_h : 0);
}

static XF86ImageRec images[] = {XVIMAGE_YV12, XVIMAGE_I420, XVIMAGE_YUY2, XVIMAGE_UYVY};
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
    adaptor->flags = 0;
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
    /* Copied by xf86XVScreenInit. */
    xf86XVFreeVideoAdaptorRec(adaptor);
    return ok;
}
