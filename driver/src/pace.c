/* Path 1/13: from gc.c's images, and from the session's word in the ring, to X's scheduling of
 * one client. Holds an X client that puts whole images of a window in a row to the clock of
 * frames, which ticks as often as the session says that the fastest viewer takes frames: after an
 * image X reads no further request of it until its next one may come, at most a tick later.
 * Nobody else waits. Software OpenGL waits for X after each frame and would otherwise draw as
 * fast as it can, more than any viewer takes. Knows clients, rectangles and times; never pixels. */
#include "thinc.h"

#include <dixstruct.h>
#include <globals.h>
#include <os.h>

/* Pixels of an image that may be a whole frame: 256 x 256. */
#define FRAME_AREA_MIN (64 * 1024)
/* Images in a row before the client is held. What answers the user's input is seldom so many. */
#define FRAMES_MIN 8
/* A longer time between two images ends the row; the time held does not count. */
#define FRAME_GAP_US 100000

/* What was put into a window last. */
struct row {
    ClientPtr client; /* compared only: it may be gone */
    int x, y, w, h;   /* the same for all images of the row */
    int frames;
    uint64_t last_us; /* when the newest came */
    /* When the newest was due: a tick after the one before, or when it came if that was later. */
    uint64_t due_us;
};

struct hold {
    OsTimerPtr timer;
    bool is_held;
    uint64_t until_us;
    uint64_t attended_us; /* when it was held last, until then */
};

static DevPrivateKeyRec row_key, hold_key;
static bool is_on;

static struct row *row_of(WindowPtr window) {
    return dixLookupPrivate(&window->devPrivates, &row_key);
}
static struct hold *hold_of(ClientPtr client) {
    return dixLookupPrivate(&client->devPrivates, &hold_key);
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static CARD32 ms_until(uint64_t us, uint64_t now) { return (CARD32)((us - now + 999) / 1000); }

/* Of the clock of frames, whatever the session wrote. */
static uint32_t period_us(void) {
    struct thinc_header *header = ring_header();
    uint32_t rate = header ? __atomic_load_n(&header->frame_rate, __ATOMIC_RELAXED) : 0;
    if (rate == 0 || rate > THINC_FRAME_RATE_MAX)
        rate = THINC_FRAME_RATE_MAX;
    else if (rate < THINC_FRAME_RATE_MIN)
        rate = THINC_FRAME_RATE_MIN;
    return 1000000 / rate;
}

/* X's timers count in milliseconds, so it may be early. */
static CARD32 held_long_enough(OsTimerPtr timer, CARD32 ms, void *closure) {
    ClientPtr client = closure;
    struct hold *hold = hold_of(client);
    uint64_t now = GetTimeInMicros();
    if (!hold->is_held)
        return 0;
    if (now < hold->until_us)
        return ms_until(hold->until_us, now);
    hold->is_held = false;
    hold->attended_us = now;
    AttendClient(client);
    return 0;
}

static void hold_until(ClientPtr client, uint64_t until, uint64_t now) {
    struct hold *hold = hold_of(client);
    if (hold->is_held)
        return;
    OsTimerPtr timer = TimerSet(hold->timer, 0, ms_until(until, now), held_long_enough, client);
    if (!timer)
        return;
    hold->timer = timer;
    hold->is_held = true;
    hold->until_us = until;
    IgnoreClient(client);
    struct thinc_header *header = ring_header();
    if (header)
        __atomic_store_n(&header->holds, header->holds + 1, __ATOMIC_RELAXED);
}

/* Takes an image into the window's row. Returns until when its client is to be held; 0: not. */
static uint64_t next_frame(struct row *row, uint64_t attended_us, uint64_t now) {
    bool in_row = now - later(row->last_us, attended_us) < FRAME_GAP_US;
    row->frames = in_row ? row->frames + 1 : 1;
    row->last_us = now;
    if (row->frames < FRAMES_MIN) {
        row->due_us = now;
        return 0;
    }
    row->frames = FRAMES_MIN;
    uint32_t period = period_us();
    row->due_us = later(row->due_us + period, now);
    /* Half a tick early: a client that keeps to the rate by a clock of its own is never held,
     * unless its clock is that irregular. On the average an image still takes a tick. */
    uint64_t until = row->due_us - period / 2;
    if (until <= now)
        return 0;
    if (until > now + period) {
        /* The rate has grown. */
        until = now + period;
        row->due_us = until + period / 2;
    }
    return until;
}

void pace_image(DrawablePtr d, int x, int y, int w, int h) {
    if (!is_on || w <= 0 || h <= 0 || (int64_t)w * h < FRAME_AREA_MIN || thinc.nesting > 0 ||
        d->type != DRAWABLE_WINDOW || !ring_attached())
        return;
    ClientPtr client = GetCurrentClient();
    /* During a server grab every other client waits for the one that holds it. */
    if (!client || client == serverClient || GrabInProgress)
        return;
    struct row *row = row_of((WindowPtr)d);
    if (row->client != client || row->x != x || row->y != y || row->w != w || row->h != h)
        *row = (struct row){.client = client, .x = x, .y = y, .w = w, .h = h};
    uint64_t now = GetTimeInMicros();
    uint64_t until = next_frame(row, hold_of(client)->attended_us, now);
    if (until > 0)
        hold_until(client, until, now);
}

void pace_copy(DrawablePtr src, DrawablePtr dst, int x, int y, int w, int h) {
    struct target from;
    /* ShmPutImage copies from a pixmap that X makes round the client's memory. */
    if (is_on && (int64_t)w * h >= FRAME_AREA_MIN && src->type == DRAWABLE_PIXMAP &&
        !drawable_target(src, &from))
        pace_image(dst, x, y, w, h);
}

/* A client that is held may end: X must not attend it again. */
static void client_state(CallbackListPtr *list, void *closure, void *data) {
    ClientPtr client = ((NewClientInfoRec *)data)->client;
    if (client->clientState != ClientStateGone && client->clientState != ClientStateRetained)
        return;
    struct hold *hold = hold_of(client);
    TimerFree(hold->timer);
    hold->timer = NULL;
    hold->is_held = false;
}

/* X forgets privates and callbacks when it regenerates; no client survives that. */
bool pace_init(bool on) {
    is_on = on;
    return !on || (dixRegisterPrivateKey(&row_key, PRIVATE_WINDOW, sizeof(struct row)) &&
                   dixRegisterPrivateKey(&hold_key, PRIVATE_CLIENT, sizeof(struct hold)) &&
                   AddCallback(&ClientStateCallback, client_state, NULL));
}
