/* Beside pace.c, and path back: from the session's word in the ring, to pace.c and to X's Present.
 * The clock of frames: it ticks as often as the session says that the fastest viewer takes frames.
 * Present's clients wait for its ticks, so that swap intervals follow the viewer. Knows times and
 * counts; never what is drawn. */
#include "thinc.h"

#include <stdlib.h>

#include <os.h>
#include <present.h>

/* Present's client waits for the tick `msc`. */
struct waiting {
    struct waiting *next;
    uint64_t event_id, msc;
};

static struct {
    uint64_t msc; /* number of the newest tick */
    uint64_t ust; /* when it was, in microseconds of X's clock */
    uint32_t period_us;
    OsTimerPtr timer; /* runs while somebody waits */
    /* Unsorted. Each is a request of a client, for which Present keeps more memory than this. */
    struct waiting *waiting;
} ticks = {.period_us = 1000000 / THINC_FRAME_RATE_MAX};

/* Ticks a second, whatever the session wrote. */
static uint32_t rate(void) {
    struct thinc_header *header = ring_header();
    uint32_t word = header ? __atomic_load_n(&header->frame_rate, __ATOMIC_RELAXED) : 0;
    if (word == 0 || word > THINC_FRAME_RATE_MAX)
        return THINC_FRAME_RATE_MAX;
    return word < THINC_FRAME_RATE_MIN ? THINC_FRAME_RATE_MIN : word;
}

/* A new rate counts from the newest tick, so that `msc` and `ust` only grow. */
static void advance(void) {
    uint64_t now = GetTimeInMicros();
    if (now > ticks.ust) {
        uint64_t passed = (now - ticks.ust) / ticks.period_us;
        ticks.msc += passed;
        ticks.ust += passed * ticks.period_us;
    }
    ticks.period_us = 1000000 / rate();
}

uint32_t clock_period_us(void) {
    advance();
    return ticks.period_us;
}

/* ---- Present --------------------------------------------------------------------------------- */
/* All outputs have this one clock, so it makes no difference which is named, nor whether it is on.
 * Without any, Present would use a clock of its own. */
static RRCrtcPtr get_crtc(WindowPtr window) {
    return XF86_CRTC_CONFIG_PTR(thinc.scrn)->crtc[0]->randr_crtc;
}

static int get_ust_msc(RRCrtcPtr crtc, uint64_t *ust, uint64_t *msc) {
    advance();
    *ust = ticks.ust;
    *msc = ticks.msc;
    return Success;
}

static CARD32 ticked(OsTimerPtr timer, CARD32 now, void *closure);

/* At the next tick, not at the one that is waited for: the rate may change until then. */
static bool set_timer(void) {
    uint64_t now = GetTimeInMicros(), next = ticks.ust + ticks.period_us;
    CARD32 delay_ms = next > now ? (CARD32)((next - now + 999) / 1000) : 1;
    OsTimerPtr timer = TimerSet(ticks.timer, 0, delay_ms, ticked, NULL);
    if (timer)
        ticks.timer = timer;
    return timer != NULL;
}

static struct waiting *take_due(void) {
    for (struct waiting **at = &ticks.waiting; *at; at = &(*at)->next) {
        struct waiting *found = *at;
        if (found->msc <= ticks.msc) {
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

static CARD32 ticked(OsTimerPtr timer, CARD32 now, void *closure) {
    advance();
    /* What is told may queue and abort others: the list is searched again each time. */
    for (struct waiting *due; (due = take_due());) {
        uint64_t id = due->event_id;
        free(due);
        present_event_notify(id, ticks.ust, ticks.msc);
    }
    if (ticks.waiting)
        set_timer();
    return 0;
}

/* Present compares the result with Success, whatever its type and its header's comment say. */
static Bool queue_vblank(RRCrtcPtr crtc, uint64_t event_id, uint64_t msc) {
    struct waiting *waiting = malloc(sizeof *waiting);
    if (!waiting)
        return BadAlloc;
    /* A timer that runs already fires at the next tick. */
    if (!ticks.waiting && !set_timer()) {
        free(waiting);
        return BadAlloc;
    }
    *waiting = (struct waiting){.next = ticks.waiting, .event_id = event_id, .msc = msc};
    ticks.waiting = waiting;
    return Success;
}

static void abort_vblank(RRCrtcPtr crtc, uint64_t event_id, uint64_t msc) {
    for (struct waiting **at = &ticks.waiting; *at; at = &(*at)->next) {
        struct waiting *found = *at;
        if (found->event_id == event_id) {
            *at = found->next;
            free(found);
            return;
        }
    }
}

/* Drawing is never deferred. */
static void flush(WindowPtr window) {}

static present_screen_info_rec present_info = {
    .version = PRESENT_SCREEN_INFO_VERSION,
    .get_crtc = get_crtc,
    .get_ust_msc = get_ust_msc,
    .queue_vblank = queue_vblank,
    .abort_vblank = abort_vblank,
    .flush = flush,
    .capabilities = PresentCapabilityNone,
};

bool clock_init(ScreenPtr screen) { return present_screen_init(screen, &present_info); }

void clock_close(void) {
    TimerFree(ticks.timer);
    ticks.timer = NULL;
    while (ticks.waiting) {
        struct waiting *next = ticks.waiting->next;
        free(ticks.waiting);
        ticks.waiting = next;
    }
}
