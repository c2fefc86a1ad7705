/* What does a frame of XVideo cost the X server after its client has sent it? Scaling and
 * conversion only, best of 15, in CPU time:
 *   make -C driver test/convert && driver/build/convert
 * The hash covers all pixels: an optimisation must not change it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../src/video_convert.c"

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void draw(const struct frame *f, struct place src, struct place dst, uint32_t *out) {
    convert_prepare(f, src, dst, 0, dst.width);
    for (int y = 0; y < dst.height; y++)
        convert_row(f, src, dst, 0, dst.width, y, out + (size_t)y * (size_t)dst.width);
}

int main(void) {
    static const struct {
        int width, height, to_width, to_height;
        bool packed;
    } cases[] = {
        {352, 240, 1024, 768, false},    {352, 240, 1024, 768, true},
        {640, 360, 1280, 720, false},    {1280, 720, 1280, 720, false},
        {1280, 720, 1024, 768, false},   {1280, 720, 1280, 720, true},
        {1920, 1080, 1920, 1080, false}, {1920, 1080, 1280, 720, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int w = cases[c].width, h = cases[c].height, cw = (w + 1) / 2;
        size_t luma = (size_t)w * (size_t)h, bytes = 2 * luma + 64;
        uint8_t *data = malloc(bytes);
        uint32_t seed = 1;
        for (size_t i = 0; i < bytes; i++)
            data[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
        struct frame planar = {{data, w, 1, w, h},
                               {data + luma, cw, 1, cw, (h + 1) / 2},
                               {data + luma + luma / 4, cw, 1, cw, (h + 1) / 2}};
        struct frame packed = {
            {data, 2 * w, 2, w, h}, {data + 1, 2 * w, 4, cw, h}, {data + 3, 2 * w, 4, cw, h}};
        const struct frame *f = cases[c].packed ? &packed : &planar;
        struct place src = {0, 0, w, h}, dst = {0, 0, cases[c].to_width, cases[c].to_height};
        size_t pixels = (size_t)dst.width * (size_t)dst.height;
        uint32_t *out = malloc(pixels * 4);
        double best = 1e9;
        for (int round = 0; round < 15; round++) {
            double start = now_ms();
            draw(f, src, dst, out);
            double took = now_ms() - start;
            best = took < best ? took : best;
        }
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t i = 0; i < pixels; i++)
            hash = (hash ^ out[i]) * 0x100000001b3u;
        printf("%4dx%-4d to %4dx%-4d %-6s %6.2f ms %5.2f ns/pixel %016llx\n", w, h, dst.width,
               dst.height, cases[c].packed ? "packed" : "planar", best, best * 1e6 / (double)pixels,
               (unsigned long long)hash);
        free(out);
        free(data);
    }
    return 0;
}
