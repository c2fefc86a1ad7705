/* Path 2/13: from video.c, to crates/ring/src/video.rs.
 * Each port's newest frame in shared memory, in two alternating buffers: a reader copies one while
 * the next is written. Memory is allocated at a port's first frame, grows with the largest, and is
 * released when the port stops or the session no longer requests frames. Knows samples; never
 * pixels. */
#include "video.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)THINC_VIDEO_BUFFER_BYTES)
#define PORT_BYTES (THINC_VIDEO_BUFFERS * BUFFER_BYTES)
/* 512 MiB: two of the largest frames, or forty of 1080p, in both buffers. Beyond it an X client's
 * frames are only drawn. */
#define USED_MAX ((size_t)512 << 20)

static struct {
    int memfd;
    size_t used; /* by all ports */
    struct {
        uint8_t *base; /* NULL: not mapped yet */
        size_t room;   /* allocated bytes of each buffer */
    } port[THINC_VIDEO_PORTS];
} slots = {.memfd = -1};

bool slots_create(void) {
    slots.memfd = thinc_memfd("thinc-video", THINC_VIDEO_PORTS * PORT_BYTES, F_SEAL_SEAL);
    return slots.memfd >= 0;
}

void slots_destroy(void) {
    for (uint32_t port = 0; port < THINC_VIDEO_PORTS; port++) {
        if (slots.port[port].base)
            munmap(slots.port[port].base, PORT_BYTES);
        slots.port[port].base = NULL;
        slots.port[port].room = 0;
    }
    if (slots.memfd >= 0)
        close(slots.memfd);
    slots.memfd = -1;
    slots.used = 0;
}

int slots_memfd(void) { return slots.memfd; }

/* A reader that still reads it gets zeros. */
static void release(uint32_t port) {
    if (slots.port[port].room == 0)
        return;
    if (fallocate(slots.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(port * PORT_BYTES), (off_t)PORT_BYTES) != 0)
        LogMessageVerb(X_WARNING, 1, "thinc: cannot release the memory of video frames: %s\n",
                       strerror(errno));
    slots.used -= THINC_VIDEO_BUFFERS * slots.port[port].room;
    slots.port[port].room = 0;
}

static struct thinc_video *block_of(uint32_t port) { return &ring_header()->video[port]; }

/* The port has no readable frame any more; a reader in progress notices the change. */
static void invalidate(struct thinc_video *block, bool playing) {
    __atomic_store_n(&block->writing, block->writing + THINC_VIDEO_BUFFERS, __ATOMIC_RELAXED);
    block_begin(&block->seq);
    block->serial = 0;
    block->playing = playing;
    block_end(&block->seq);
}

/* Allocate before writing: a write to a page that the system cannot supply would kill X
 * (SIGBUS). */
static bool reserve(uint32_t port, size_t bytes) {
    size_t room = slots.port[port].room;
    if (bytes <= room)
        return true;
    bytes = (bytes + 0xffff) & ~(size_t)0xffff;
    if (slots.used + THINC_VIDEO_BUFFERS * (bytes - room) > USED_MAX)
        return false;
    if (!slots.port[port].base) {
        void *base = mmap(NULL, PORT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                          slots.memfd, (off_t)(port * PORT_BYTES));
        if (base == MAP_FAILED)
            return false;
        slots.port[port].base = base;
    }
    slots.port[port].room = bytes;
    slots.used += THINC_VIDEO_BUFFERS * (bytes - room);
    for (size_t buffer = 0; buffer < THINC_VIDEO_BUFFERS; buffer++) {
        off_t at = (off_t)(port * PORT_BYTES + buffer * BUFFER_BYTES);
        int failed;
        do
            failed = fallocate(slots.memfd, 0, at, (off_t)bytes);
        while (failed && errno == EINTR);
        if (failed) {
            /* Before the samples vanish: a reader of the previous frame must notice. */
            invalidate(block_of(port), false);
            release(port);
            return false;
        }
    }
    return true;
}

/* Copies the plane without gaps, and points it at the copy. */
static uint8_t *copy_plane(struct plane *plane, uint8_t *to) {
    uint8_t *out = to;
    int width = plane->width, step = plane->step;
    for (int y = 0; y < plane->height; y++, out += width) {
        const uint8_t *restrict row = plane->base + (ptrdiff_t)y * plane->stride;
        if (step == 1) {
            memcpy(out, row, (size_t)width);
            continue;
        }
        uint8_t *restrict line = out;
        if (step == 2)
            for (int x = 0; x < width; x++)
                line[x] = row[2 * x];
        else
            for (int x = 0; x < width; x++)
                line[x] = row[4 * x];
    }
    plane->base = to;
    plane->stride = width;
    plane->step = 1;
    return out;
}

static bool wanted(void) {
    return __atomic_load_n(&ring_header()->want_video, __ATOMIC_RELAXED) != 0;
}

void slots_block(void) {
    if (slots.used == 0 || !ring_attached() || wanted())
        return;
    for (uint32_t port = 0; port < THINC_VIDEO_PORTS; port++) {
        if (slots.port[port].room == 0)
            continue;
        invalidate(block_of(port), block_of(port)->playing);
        release(port);
    }
}

bool slot_put(uint32_t port, const struct op *op, struct frame *frame) {
    struct thinc_video *block = block_of(port);
    if (!wanted()) {
        if (block->serial != 0 || !block->playing)
            invalidate(block, true);
        release(port);
        return true;
    }
    size_t luma = (size_t)frame->y.width * (size_t)frame->y.height,
           chroma = (size_t)frame->u.width * (size_t)frame->u.height;
    if (!reserve(port, luma + 2 * chroma)) {
        if (block->serial != 0 || block->playing)
            invalidate(block, false);
        return false;
    }
    uint32_t serial = block->writing + 1;
    if (serial == 0)
        serial = THINC_VIDEO_BUFFERS; /* 0 means no frame; the buffers keep alternating */
    /* A reader that sees a sample of this frame also sees `writing`. */
    __atomic_store_n(&block->writing, serial, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint8_t *to = slots.port[port].base + serial % THINC_VIDEO_BUFFERS * BUFFER_BYTES;
    to = copy_plane(&frame->y, to);
    to = copy_plane(&frame->u, to);
    copy_plane(&frame->v, to);
    block_begin(&block->seq);
    block->serial = serial;
    block->op = op->serial;
    block->dst = op->dst;
    block->layout = op->arg[0] >> 8;
    block->size = op->arg[1];
    block->crop_at = op->src;
    block->crop_size = op->arg[2];
    block->place_x = op->dx;
    block->place_y = op->dy;
    block->place_size = op->arg[3];
    block->playing = 1;
    block_end(&block->seq);
    return true;
}

bool slot_goes_on(uint32_t port) {
    const struct thinc_video *block = block_of(port);
    return block->playing && (wanted() ? block->serial != 0 : slots.port[port].room == 0);
}

const uint8_t *slot_pixels(uint32_t port, size_t bytes) {
    uint32_t serial = block_of(port)->serial;
    if (serial == 0 || bytes > slots.port[port].room)
        return NULL;
    return slots.port[port].base + serial % THINC_VIDEO_BUFFERS * BUFFER_BYTES;
}

void slot_stop(uint32_t port) {
    if (!ring_attached())
        return;
    struct thinc_video *block = block_of(port);
    if (!block->playing)
        return;
    invalidate(block, false);
    release(port);
    ring_publish_event(THINC_VIDEO_STOPPED, 0, (uint32_t[2]){port, 0}, 0);
}
