/* Path 2/13: from op.c, to crates/ring/src/ring.rs.
 * Publishes records in shared memory and never waits: while the ring is full, records become dirty
 * tiles until OVERFLOW can be written. One writer, X's main thread; one reader, the session. Knows
 * positions and words; never why a record is made. */
#include "thinc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* 16: barriers that may wait for an overflowed ring. The session sends one at a time; past the
 * limit the oldest is dropped. */
#define BARRIERS 16

static struct {
    uint8_t *base; /* NULL: no session is attached */
    struct thinc_header *header;
    struct thinc_record *records;
    uint64_t *dirty;
    int memfd, eventfd;
    uint64_t head;
    uint64_t tail; /* as last read */
    bool overflowed;
    bool since_idle, since_yield; /* something was recorded since the last IDLE, YIELD */
    /* Counts rings, overflows and framebuffers: at each the reader drops all pixmaps. */
    uint32_t epoch;
    uint32_t generation; /* of the framebuffer, as last published */
    uint32_t barriers[BARRIERS];
    int barrier_count;
} ring = {.memfd = -1, .eventfd = -1, .epoch = 1};

/* Outlives every ring, so that an op's number is unique in the life of the server. */
static uint64_t op_serial;

int thinc_memfd(const char *name, size_t bytes, int seals) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    /* The reader maps it and would die of SIGBUS if it shrank. */
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | seals) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Every pixmap has to be announced again. After 2^32 overflows a pixmap that was unused all that
 * time may count as announced; its contents are then unknown to the reader. */
static void forget_pixmaps(void) { ring.epoch = ring.epoch == UINT32_MAX ? 1 : ring.epoch + 1; }

bool ring_create(void) {
    ring_destroy();
    ring.memfd = thinc_memfd("thinc-ring", THINC_RING_BYTES, F_SEAL_SEAL);
    ring.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    void *base = MAP_FAILED;
    if (ring.memfd >= 0 && ring.eventfd >= 0 && slots_create())
        /* Populated: a page fault inside a drawing op would cost more than the record. */
        base = mmap(NULL, THINC_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    ring.memfd, 0);
    if (base == MAP_FAILED) {
        ring_destroy();
        return false;
    }
    ring.base = base;
    ring.header = base;
    ring.records = (struct thinc_record *)(ring.base + THINC_RECORDS_OFFSET);
    ring.dirty = (uint64_t *)(ring.base + THINC_DIRTY_OFFSET);
    ring.head = ring.tail = 0;
    forget_pixmaps();
    ring.overflowed = ring.since_idle = ring.since_yield = false;
    ring.barrier_count = 0;
    *ring.header = (struct thinc_header){
        .magic = THINC_ABI_MAGIC,
        .abi_version = THINC_ABI_VERSION,
        .ring_bytes = THINC_RING_BYTES,
        .record_count = THINC_RECORDS,
        .record_bytes = THINC_RECORD_BYTES,
        .records_offset = THINC_RECORDS_OFFSET,
        .dirty_offset = THINC_DIRTY_OFFSET,
        .cursor_offset = THINC_CURSOR_OFFSET,
        .begin = op_serial,
    };
    return true;
}

void ring_destroy(void) {
    if (ring.base)
        munmap(ring.base, THINC_RING_BYTES);
    if (ring.memfd >= 0)
        close(ring.memfd);
    if (ring.eventfd >= 0)
        close(ring.eventfd);
    slots_destroy();
    ring.base = NULL;
    ring.header = NULL;
    ring.memfd = ring.eventfd = -1;
}

uint32_t ring_epoch(void) { return ring.epoch; }
int ring_memfd(void) { return ring.memfd; }
int ring_eventfd(void) { return ring.eventfd; }
bool ring_attached(void) { return ring.base != NULL; }
struct thinc_header *ring_header(void) {
    /* NULL while no session is attached. */
    return ring.header;
}
struct thinc_geometry *ring_geometry(void) {
    if (!ring.base)
        return NULL;
    return &ring.header->geometry;
}
struct thinc_cursor *ring_cursor(void) {
    return ring.base ? (struct thinc_cursor *)(ring.base + THINC_CURSOR_OFFSET) : NULL;
}
struct thinc_gamma *ring_gamma(void) {
    return ring.base ? (struct thinc_gamma *)(ring.base + THINC_GAMMA_OFFSET) : NULL;
}

bool ring_wants_offscreen(void) {
    return __atomic_load_n(&ring.header->want_offscreen, __ATOMIC_RELAXED) != 0;
}

uint64_t ring_begin_op(void) {
    __atomic_store_n(&ring.header->begin, ++op_serial, __ATOMIC_RELAXED);
    /* A reader that sees a pixel of this op also sees `begin`. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return op_serial;
}

/* Wakes the reader only if it is asleep. The fence pairs with the one in prepare_sleep: either we
 * see `reader_sleeping`, or the reader sees the head stored before. */
static void wake(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring.header->reader_sleeping, __ATOMIC_RELAXED) == 0)
        return;
    __atomic_store_n(&ring.header->reader_sleeping, 0, __ATOMIC_RELAXED);
    uint64_t one = 1;
    /* EAGAIN: the counter is full, so the reader has been woken already. */
    if (write(ring.eventfd, &one, sizeof one) < 0 && errno != EAGAIN)
        LogMessageVerb(X_WARNING, 1, "thinc: cannot wake the session (eventfd): %s\n",
                       strerror(errno));
}

static uint64_t read_tail(void) {
    uint64_t tail = __atomic_load_n(&ring.header->tail, __ATOMIC_ACQUIRE);
    /* A bad reader harms only itself: an impossible tail counts as a full ring. */
    if (ring.head - tail > THINC_RECORDS)
        tail = ring.head - THINC_RECORDS;
    return ring.tail = tail;
}

static uint64_t room(uint64_t wanted) {
    if (THINC_RECORDS - (ring.head - ring.tail) < wanted)
        read_tail();
    return THINC_RECORDS - (ring.head - ring.tail);
}

static inline struct thinc_record *slot(uint64_t position) {
    return &ring.records[position % THINC_RECORDS];
}

static void set_head(uint64_t head) {
    ring.head = head;
    __atomic_store_n(&ring.header->head, head, __ATOMIC_RELEASE);
}

/* If a quarter of the ring is unread, the reader is woken although X has not paused. No fence here:
 * the next op makes up for a missed flag. */
static void wake_at_quarter(void) {
    if (ring.head - ring.tail < THINC_RECORDS / 4 || ring.head - read_tail() < THINC_RECORDS / 4)
        return;
    if (__atomic_load_n(&ring.header->reader_sleeping, __ATOMIC_RELAXED) != 0)
        wake();
}

static void set_dirty(int x1, int y1, int x2, int y2) {
    int max = THINC_SCREEN_MAX;
    x2 = x2 < max ? x2 : max;
    y2 = y2 < max ? y2 : max;
    if (x1 < 0 || y1 < 0 || x1 >= x2 || y1 >= y2)
        return;
    for (int row = y1 / (int)THINC_TILE; row <= (y2 - 1) / (int)THINC_TILE; row++) {
        int first = x1 / (int)THINC_TILE, last = (x2 - 1) / (int)THINC_TILE;
        for (int word = first / 64; word <= last / 64; word++) {
            int from = first > word * 64 ? first - word * 64 : 0;
            int to = last < word * 64 + 63 ? last - word * 64 : 63;
            uint64_t bits = (~(uint64_t)0 >> (63 - (to - from))) << from;
            __atomic_fetch_or(
                &ring.dirty[(unsigned)row * (THINC_TILES_ACROSS / 64) + (unsigned)word], bits,
                __ATOMIC_RELAXED);
        }
    }
    __atomic_store_n(&ring.header->dirty_any, 1, __ATOMIC_RELEASE);
}

static void publish_plain(enum thinc_kind kind, uint32_t arg) {
    *slot(ring.head) = (struct thinc_record){.op = op_serial, .kind = (uint8_t)kind, .arg = {arg}};
    set_head(ring.head + 1);
}

/* Writes OVERFLOW and the waiting barriers once half of the ring is free: earlier it would soon be
 * full again. */
static bool try_resume(void) {
    if (ring.head - read_tail() > THINC_RECORDS / 2)
        return false;
    ring.overflowed = false;
    __atomic_store_n(&ring.header->overflow_pending, 0, __ATOMIC_RELAXED);
    publish_plain(THINC_OVERFLOW, 0);
    forget_pixmaps();
    for (int i = 0; i < ring.barrier_count; i++)
        publish_plain(THINC_BARRIER, ring.barriers[i]);
    ring.barrier_count = 0;
    ring.since_idle = ring.since_yield = true;
    wake();
    return true;
}

static void overflow(uint64_t count) {
    if (!ring.overflowed) {
        ring.overflowed = true;
        __atomic_store_n(&ring.header->overflows, ring.header->overflows + 1, __ATOMIC_RELAXED);
        /* Pairs with release_tail: either the reader sees the flag and sends RESUME, or the next op
         * sees its tail. */
        __atomic_store_n(&ring.header->overflow_pending, 1, __ATOMIC_RELAXED);
        wake();
    }
    __atomic_store_n(&ring.header->dropped, ring.header->dropped + count, __ATOMIC_RELAXED);
}

static bool may_publish(uint64_t count) {
    if (ring.overflowed && !try_resume())
        return false;
    return room(count) >= count;
}

void ring_resume(void) {
    if (ring.base && ring.overflowed)
        try_resume();
}

static void publish_boxes(const struct op *op, const struct boxes *boxes, enum thinc_kind kind,
                          uint64_t *position, uint64_t end) {
    uint8_t flags = kind == THINC_DRAW ? op->alpha : op->copy_flags;
    for (int i = 0; i < boxes->count; i++) {
        const struct box *box = &boxes->box[i];
        struct thinc_record *record = slot((*position)++);
        record->op = op->serial;
        record->kind = (uint8_t)kind;
        record->flags = flags | (*position == end ? 0 : THINC_FLAG_MORE);
        record->hint = kind == THINC_DRAW ? op->hint : 0;
        record->window = op->window;
        record->dst = op->dst;
        record->src = op->src;
        record->x1 = box->x1 + op->off_x;
        record->y1 = box->y1 + op->off_y;
        record->x2 = box->x2 + op->off_x;
        record->y2 = box->y2 + op->off_y;
        record->dx = op->dx;
        record->dy = op->dy;
        memcpy(record->arg, op->arg, sizeof record->arg);
    }
}

static void dirty_boxes(const struct op *op, const struct boxes *boxes) {
    for (int i = 0; i < boxes->count; i++) {
        const struct box *box = &boxes->box[i];
        set_dirty(box->x1 + op->off_x, box->y1 + op->off_y, box->x2 + op->off_x,
                  box->y2 + op->off_y);
    }
}

void ring_publish(const struct op *op) {
    uint64_t count = (uint64_t)(op->copied.count + op->drawn.count);
    /* While the op ran, the session may have detached and another attached; a whole op fits into a
     * fresh ring. */
    if (!ring.base || count == 0)
        return;
    if (!may_publish(count)) {
        if (op->dst == 0) {
            dirty_boxes(op, &op->copied);
            dirty_boxes(op, &op->drawn);
        }
        overflow(count);
        return;
    }
    uint64_t position = ring.head, end = position + count;
    publish_boxes(op, &op->copied, THINC_COPY, &position, end);
    publish_boxes(op, &op->drawn, THINC_DRAW, &position, end);
    ring.since_idle = ring.since_yield = true;
    set_head(end);
    wake_at_quarter();
}

static void publish_event(struct thinc_record record) {
    if (!ring.base)
        return;
    if (!may_publish(1)) {
        /* Only the record is lost: cursor, geometry, gamma and input state are in blocks, and
         * pixmaps are announced again. */
        overflow(1);
        return;
    }
    record.op = op_serial;
    *slot(ring.head) = record;
    ring.since_idle = ring.since_yield = true;
    set_head(ring.head + 1);
    wake_at_quarter();
}

void ring_publish_event(enum thinc_kind kind, uint32_t window, const uint32_t arg[2],
                        uint32_t drawable) {
    publish_event((struct thinc_record){.kind = (uint8_t)kind,
                                        .window = window,
                                        .dst = drawable,
                                        .arg = {arg ? arg[0] : 0, arg ? arg[1] : 0}});
    if (kind == THINC_GEOMETRY && arg && arg[0] != ring.generation) {
        ring.generation = arg[0];
        forget_pixmaps();
    }
}

void ring_pixmap(enum thinc_kind kind, uint32_t serial, PixmapPtr pixmap) {
    uint8_t flags = pixmap->drawable.depth == 32 ? 0 : THINC_FLAG_OPAQUE;
    publish_event((struct thinc_record){.kind = (uint8_t)kind,
                                        .flags = flags,
                                        .dst = serial,
                                        .arg = {pixmap->drawable.width, pixmap->drawable.height}});
}

void ring_barrier(uint32_t id) {
    if (!ring.base)
        return;
    if (!may_publish(1)) {
        overflow(0);
        if (ring.barrier_count == BARRIERS)
            memmove(ring.barriers, ring.barriers + 1,
                    sizeof ring.barriers[0] * --ring.barrier_count);
        ring.barriers[ring.barrier_count++] = id;
        return;
    }
    publish_plain(THINC_BARRIER, id);
    wake();
}

void ring_block(bool will_sleep) {
    if (!ring.base || !(will_sleep ? ring.since_idle : ring.since_yield))
        return;
    if (!may_publish(1)) {
        overflow(0);
        return;
    }
    ring.since_yield = false;
    if (will_sleep)
        ring.since_idle = false;
    publish_plain(will_sleep ? THINC_IDLE : THINC_YIELD, 0);
    wake();
}
