/* Path 1/13: from video.c, to the pixmap that a frame is drawn into.
 * Scales between samples and converts to pixels (BT.601, limited range) in the integer arithmetic
 * of doc/protocol.md, section 9, which viewers repeat to the bit. It runs in X for every frame, in
 * loops that the compiler vectorises. Knows samples and pixels only. */
#include "video.h"

/* AVX2 if the machine has it: 1.4 to 2.3 times as fast. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define KERNEL static __attribute__((noinline, target_clones("avx2", "default")))
#else
#define KERNEL static
#endif

#define FRAME_MAX ((int)THINC_VIDEO_EDGE_MAX)

/* A position between two samples: the index of the first, and the weight of the second in 1/256. */
struct tap {
    uint16_t first;
    uint16_t weight;
};

/* The taps of a row, laid out for vector loads. */
struct taps {
    uint16_t first[THINC_SCREEN_MAX], weight[THINC_SCREEN_MAX];
    /* The pattern of all taps, or of all but the first two and the last, which are clamped. */
    enum { ANY, ONE_EACH, TWO_A_SAMPLE } kind;
};

/* Scratch memory for one row, used by X's main thread only: no allocation per frame. A tap with
 * weight 0 may name the sample past the last. */
static struct taps luma_taps, chroma_taps;
static uint16_t row[FRAME_MAX + 1];
static uint16_t left[THINC_SCREEN_MAX], right[THINC_SCREEN_MAX];
static int16_t line_y[THINC_SCREEN_MAX], line_u[THINC_SCREEN_MAX], line_v[THINC_SCREEN_MAX];

/* Maps the centre of target pixel i of `target` to samples [start, start + count) of a plane with
 * `samples` of them; one sample covers 1 / `density` of a luma pixel. Clamped to the plane: a
 * client may name a source outside its image. */
static struct tap tap_at(int64_t i, int64_t target, int64_t start, int64_t count, int density,
                         int samples) {
    /* In 1/256 of a sample: (start + (i + 1/2) * count / target) / density - 1/2. */
    int64_t at = (256 * (2 * start * target + (2 * i + 1) * count)) / (2 * target * density) - 128;
    int64_t low = start / density * 256, high = ((start + count + density - 1) / density - 1) * 256,
            last = (int64_t)(samples - 1) * 256;
    high = high < last ? high : last;
    low = low < 0 ? 0 : low > last ? last : low;
    at = at > high ? high : at;
    at = at < low ? low : at;
    return (struct tap){(uint16_t)(at / 256), (uint16_t)(at % 256)};
}

static bool follows(const struct taps *taps, int from, int to, int step, uint16_t weight) {
    for (int i = from + step; i < to; i++)
        if (taps->first[i] != taps->first[i - step] + 1 ||
            taps->weight[i] != (weight ? taps->weight[i - step] : 0))
            return false;
    return true;
}

static void set_taps(struct taps *taps, struct place src, struct place dst, int x0, int n,
                     int density, int samples) {
    for (int i = 0; i < n; i++) {
        struct tap tap = tap_at(x0 + i - dst.x, dst.width, src.x, src.width, density, samples);
        taps->first[i] = tap.first;
        taps->weight[i] = tap.weight;
    }
    taps->kind = ANY;
    if (density == 1 && taps->weight[0] == 0 && follows(taps, 0, n, 1, 0))
        taps->kind = ONE_EACH;
    else if (density == 2 && src.width == dst.width && follows(taps, 2, n - 2, 2, 1))
        taps->kind = TWO_A_SAMPLE;
}

void convert_prepare(const struct frame *f, struct place src, struct place dst, int x0, int x_end) {
    set_taps(&luma_taps, src, dst, x0, x_end - x0, 1, f->y.width);
    set_taps(&chroma_taps, src, dst, x0, x_end - x0, 2, f->u.width);
}

/* ---- between two rows: 8.8 fixed point ------------------------------------------------------- */
KERNEL void widen_row(const uint8_t *restrict a, int n, uint16_t *restrict out) {
    for (int x = 0; x < n; x++)
        out[x] = (uint16_t)(a[x] << 8);
}

KERNEL void blend_rows(const uint8_t *restrict a, const uint8_t *restrict b, uint16_t wb, int n,
                       uint16_t *restrict out) {
    uint16_t wa = (uint16_t)(256 - wb);
    for (int x = 0; x < n; x++)
        out[x] = (uint16_t)(a[x] * wa + b[x] * wb);
}

static void blend_rows_apart(const uint8_t *restrict a, const uint8_t *restrict b, uint16_t wb,
                             int step, int n, uint16_t *restrict out) {
    uint16_t wa = (uint16_t)(256 - wb);
    for (int x = 0; x < n; x++)
        out[x] = (uint16_t)(a[x * step] * wa + b[x * step] * wb);
}

/* Reads samples [from, to] into `row`. */
static void take_rows(const struct plane *plane, struct tap tap, int from, int to) {
    const uint8_t *a =
        plane->base + (ptrdiff_t)tap.first * plane->stride + (ptrdiff_t)from * plane->step;
    const uint8_t *b = tap.weight ? a + plane->stride : a;
    int n = to - from + 1;
    if (plane->step != 1)
        blend_rows_apart(a, b, tap.weight, plane->step, n, row + from);
    else if (tap.weight)
        blend_rows(a, b, tap.weight, n, row + from);
    else
        widen_row(a, n, row + from);
    row[to + 1] = 0;
}

/* ---- between two samples of a row: rounded to 8 bits ----------------------------------------- */
KERNEL void round_columns(const uint16_t *restrict in, int n, int16_t *restrict out) {
    for (int i = 0; i < n; i++)
        out[i] = (int16_t)((in[i] + 128u) >> 8);
}

/* Pixels 2k lie between samples k and k + 1 of `a`, all with one weight; pixels 2k + 1 between
 * those of `b`, with another. */
KERNEL void blend_pairs(const uint16_t *restrict a, uint16_t weight_a, const uint16_t *restrict b,
                        uint16_t weight_b, int n, int16_t *restrict out) {
    uint16_t rest_a = (uint16_t)(256 - weight_a), rest_b = (uint16_t)(256 - weight_b);
    for (int k = 0; k < n; k++) {
        out[2 * k] =
            (int16_t)(((uint32_t)a[k] * rest_a + (uint32_t)a[k + 1] * weight_a + 32768u) >> 16);
        out[2 * k + 1] =
            (int16_t)(((uint32_t)b[k] * rest_b + (uint32_t)b[k + 1] * weight_b + 32768u) >> 16);
    }
}

KERNEL void blend_columns(const uint16_t *restrict in, const uint16_t *restrict first,
                          const uint16_t *restrict weight, int n, int16_t *restrict out) {
    for (int i = 0; i < n; i++) {
        left[i] = in[first[i]];
        right[i] = in[first[i] + 1];
    }
    for (int i = 0; i < n; i++) {
        uint16_t wb = weight[i], wa = (uint16_t)(256 - wb);
        out[i] = (int16_t)(((uint32_t)left[i] * wa + (uint32_t)right[i] * wb + 32768u) >> 16);
    }
}

/* Interpolates pixels [at, at + n) of the prepared row, for one plane. */
static void take_line(const struct plane *plane, struct tap down, const struct taps *taps, int at,
                      int n, int16_t *line) {
    const uint16_t *first = taps->first + at, *weight = taps->weight + at;
    take_rows(plane, down, first[0], first[n - 1] + (weight[n - 1] > 0));
    if (taps->kind == ONE_EACH) {
        round_columns(row + first[0], n, line);
        return;
    }
    int done = 0;
    if (taps->kind == TWO_A_SAMPLE && n > 6) {
        int pairs = (n - 4) / 2;
        blend_columns(row, first, weight, 2, line);
        blend_pairs(row + first[2], weight[2], row + first[3], weight[3], pairs, line + 2);
        done = 2 + 2 * pairs;
    }
    blend_columns(row, first + done, weight + done, n - done, line + done);
}

/* ---- to pixels ------------------------------------------------------------------------------- */
static inline int clamp8(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* Luma is 16 to 235, chroma 16 to 240; coefficients are in 1/256. The factors have 16 bits: every
 * vector instruction set can multiply them. */
KERNEL void convert_line(const int16_t *restrict y, const int16_t *restrict u,
                         const int16_t *restrict v, int n, uint32_t *restrict out) {
    for (int i = 0; i < n; i++) {
        int16_t luma = (int16_t)(y[i] - 16), d = (int16_t)(u[i] - 128), e = (int16_t)(v[i] - 128);
        int c = luma * (int16_t)298 + 128;
        int r = clamp8((c + e * (int16_t)409) >> 8);
        int g = clamp8((c - d * (int16_t)100 - e * (int16_t)208) >> 8);
        int b = clamp8((c + d * (int16_t)516) >> 8);
        out[i] = 0xff000000u | (uint32_t)r << 16 | (uint32_t)g << 8 | (uint32_t)b;
    }
}

void convert_row(const struct frame *f, struct place src, struct place dst, int at, int n, int y,
                 uint32_t *out) {
    int chroma_rows = f->u.height == f->y.height ? 1 : 2;
    struct tap luma = tap_at(y - dst.y, dst.height, src.y, src.height, 1, f->y.height);
    struct tap chroma = tap_at(y - dst.y, dst.height, src.y, src.height, chroma_rows, f->u.height);
    take_line(&f->y, luma, &luma_taps, at, n, line_y);
    take_line(&f->u, chroma, &chroma_taps, at, n, line_u);
    take_line(&f->v, chroma, &chroma_taps, at, n, line_v);
    convert_line(line_y, line_u, line_v, n, out);
}
