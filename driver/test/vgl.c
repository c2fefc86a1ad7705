/* Calls VirtualGL's transport plugin as VirtualGL does: looks up its eight functions by name, and
 * fills its frames with the bottom row first. Used by tests that have no VirtualGL.
 *   vgl PLUGIN X Y WIDTH HEIGHT     opens a window there, and obeys lines of its standard input:
 *   mono SEED, stereo SEED          a frame of one picture, or of two, of colours by SEED and, for
 *                                   the right eye, SEED + 1; sent with `sync`
 *   queue SEED                      a stereo frame, not waited for
 *   ready                           waits until the next frame would be sent at once
 *   size WIDTH HEIGHT               the next frames have this size, and the window
 *   image SEED                      whether the window shows the picture of SEED
 *   timer MICROSECONDS              SIGALRM as often as that, from now on
 *   interrupt COUNT                 the next allocations of memory are interrupted, as some
 *                                   kernels do at a signal
 *   destroy                         the window
 * Each is answered by one line that begins with "ok" or "error". */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <X11/Xutil.h>

#include "../vgl/rrtrans.h"

static struct {
    __typeof__(&RRTransInit) init;
    __typeof__(&RRTransConnect) connect;
    __typeof__(&RRTransGetFrame) get_frame;
    __typeof__(&RRTransReady) ready;
    __typeof__(&RRTransSynchronize) synchronize;
    __typeof__(&RRTransSendFrame) send_frame;
    __typeof__(&RRTransDestroy) destroy;
    __typeof__(&RRTransGetError) get_error;
} plugin;

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void load(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    plugin.init = symbol(library, "RRTransInit");
    plugin.connect = symbol(library, "RRTransConnect");
    plugin.get_frame = symbol(library, "RRTransGetFrame");
    plugin.ready = symbol(library, "RRTransReady");
    plugin.synchronize = symbol(library, "RRTransSynchronize");
    plugin.send_frame = symbol(library, "RRTransSendFrame");
    plugin.destroy = symbol(library, "RRTransDestroy");
    plugin.get_error = symbol(library, "RRTransGetError");
}

/* The tests compute the same: crates/ring/tests/vgl.rs, tests/tests/stereo.rs. */
static uint32_t color(uint32_t seed, uint32_t x, uint32_t y) {
    return ((x / 4) * 0x010305u + (y / 4) * 0x050100u + seed * 0x2b1d47u) & 0xffffffu;
}

static void fill(unsigned char *bits, const RRFrame *frame, uint32_t seed) {
    for (int row = 0; row < frame->h; row++) {
        unsigned char *out = bits + (size_t)row * (size_t)frame->pitch;
        for (int x = 0; x < frame->w; x++) {
            uint32_t rgb = color(seed, (uint32_t)x, (uint32_t)(frame->h - 1 - row));
            out[4 * x] = (unsigned char)rgb;
            out[4 * x + 1] = (unsigned char)(rgb >> 8);
            out[4 * x + 2] = (unsigned char)(rgb >> 16);
            out[4 * x + 3] = 0xff;
        }
    }
}

static bool put(void *handle, int w, int h, bool stereo, bool sync, uint32_t seed) {
    RRFrame *frame = plugin.get_frame(handle, w, h, RRTRANS_RGB, stereo);
    if (!frame)
        return false;
    if (frame->format != RRTRANS_BGRA || frame->w != w || frame->h != h || !frame->bits ||
        stereo != (frame->rbits != NULL))
        exit(2);
    fill(frame->bits, frame, seed);
    if (stereo)
        fill(frame->rbits, frame, seed + 1);
    return plugin.send_frame(handle, frame, sync) == 0;
}

static bool shows(Display *display, Window window, int w, int h, uint32_t seed) {
    XImage *image = XGetImage(display, window, 0, 0, (unsigned)w, (unsigned)h, AllPlanes, ZPixmap);
    if (!image)
        return false;
    bool same = true;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            same = same &&
                   (XGetPixel(image, x, y) & 0xffffff) == color(seed, (uint32_t)x, (uint32_t)y);
    XDestroyImage(image);
    return same;
}

static unsigned interruptions;

/* In place of glibc's, for the plugin. */
int posix_fallocate(int fd, off_t at, off_t bytes) {
    if (interruptions > 0) {
        interruptions--;
        return EINTR;
    }
    return fallocate(fd, 0, at, bytes) == 0 ? 0 : errno;
}

static void do_nothing(int number) { (void)number; }

/* The program's own reads and writes are restarted; what the kernel never restarts breaks off. */
static bool start_timer(unsigned us) {
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    struct itimerval every = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
    return sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0;
}

int main(int argc, char **argv) {
    Display *display = argc == 6 ? XOpenDisplay(NULL) : NULL;
    if (!display)
        return 1;
    load(argv[1]);
    int w = atoi(argv[4]), h = atoi(argv[5]);
    XSetWindowAttributes attributes = {.override_redirect = True, .event_mask = ExposureMask};
    Window window = XCreateWindow(display, DefaultRootWindow(display), atoi(argv[2]), atoi(argv[3]),
                                  (unsigned)w, (unsigned)h, 0, CopyFromParent, InputOutput,
                                  CopyFromParent, CWOverrideRedirect | CWEventMask, &attributes);
    XMapRaised(display, window);
    XEvent event;
    XWindowEvent(display, window, ExposureMask, &event);
    char receiver[] = ":0";
    void *handle = plugin.init(display, window, NULL);
    if (!handle || plugin.connect(handle, receiver, 4242) < 0) {
        printf("error %s\n", plugin.get_error());
        return 1;
    }
    printf("ok 0x%lx\n", window);
    char line[128], word[16];
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
        unsigned a = 0, b = 0;
        bool done = false;
        if (sscanf(line, "%15s %u %u", word, &a, &b) < 1)
            continue;
        if (strcmp(word, "mono") == 0 || strcmp(word, "stereo") == 0) {
            /* As VirtualGL does: with spoiling, a frame that would wait is not rendered. */
            done = plugin.synchronize(handle) == 0 && plugin.ready(handle) == 1 &&
                   put(handle, w, h, word[0] == 's', true, a);
        } else if (strcmp(word, "queue") == 0) {
            done = put(handle, w, h, true, false, a);
        } else if (strcmp(word, "ready") == 0) {
            done = plugin.synchronize(handle) == 0 && plugin.ready(handle) == 1;
        } else if (strcmp(word, "size") == 0) {
            w = (int)a;
            h = (int)b;
            XResizeWindow(display, window, a, b);
            XSync(display, False);
            done = true;
        } else if (strcmp(word, "image") == 0) {
            done = shows(display, window, w, h, a);
        } else if (strcmp(word, "timer") == 0) {
            done = start_timer(a);
        } else if (strcmp(word, "interrupt") == 0) {
            done = interruptions == 0;
            interruptions = a;
        } else if (strcmp(word, "destroy") == 0) {
            XDestroyWindow(display, window);
            XSync(display, False);
            done = true;
        }
        printf("%s %s\n", done ? "ok" : "error", done ? word : plugin.get_error());
    }
    if (plugin.destroy(handle) < 0)
        return 1;
    XCloseDisplay(display);
    return 0;
}
