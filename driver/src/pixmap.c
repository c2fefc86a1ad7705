/* Path 1/13: from pixmaps that X creates, draws on and frees, to ring.c.
 * Gives each pixmap a serial that is never reused, and none to memory that an X client can write
 * without a request. Announces a pixmap to the reader when it is first drawn on or copied from.
 * Knows when a pixmap exists; never what is in it. */
#include "thinc.h"

static DevPrivateKeyRec pixmap_key;
static CreatePixmapProcPtr wrapped_CreatePixmap;
static DestroyPixmapProcPtr wrapped_DestroyPixmap;
static ModifyPixmapHeaderProcPtr wrapped_ModifyPixmapHeader;

/* Wraps after 2^32 pixmaps. 0 is the screen and never given. */
static uint32_t last_serial;

/* Pixmaps of up to 64 pixels are not tracked: toolkits make them to read one pixel or as a colour
 * source. A copy from so few costs nothing to send. */
#define AREA_MIN 65

struct tracked {
    uint32_t serial;    /* 0: not tracked */
    uint32_t announced; /* ring_epoch() when it was announced; everything drawn since is recorded */
};

static struct tracked *tracked(PixmapPtr pixmap) {
    return dixLookupPrivate(&pixmap->devPrivates, &pixmap_key);
}

static uint32_t next_serial(void) {
    return last_serial = last_serial == UINT32_MAX ? 1 : last_serial + 1;
}

uint32_t pixmap_serial(PixmapPtr pixmap) { return tracked(pixmap)->serial; }

/* Announced at its first use and not at its creation: pixmaps that existed before the session
 * attached, or before records were lost, are announced in the same way, and no list has to be
 * walked. */
bool pixmap_track(PixmapPtr pixmap) {
    struct tracked *f = tracked(pixmap);
    if (!ring_wants_offscreen()) {
        f->announced = 0;
        return false;
    }
    if (f->announced == ring_epoch())
        return true;
    const DrawableRec *d = &pixmap->drawable;
    if (f->serial == 0 || d->bitsPerPixel != 32 || (d->depth != 24 && d->depth != 32) ||
        d->width * d->height < AREA_MIN)
        return false;
    ring_pixmap(THINC_PIXMAP_CREATE, f->serial, pixmap);
    /* Only now: publishing may have ended an overflow. */
    f->announced = ring_epoch();
    return true;
}

static void withdraw(PixmapPtr pixmap) {
    const struct tracked *f = tracked(pixmap);
    if (ring_attached() && f->announced == ring_epoch())
        ring_pixmap(THINC_PIXMAP_DESTROY, f->serial, pixmap);
}

void pixmap_untrack(PixmapPtr pixmap) {
    withdraw(pixmap);
    *tracked(pixmap) = (struct tracked){.serial = 0};
}

static PixmapPtr create_pixmap(ScreenPtr screen, int width, int height, int depth, unsigned usage) {
    screen->CreatePixmap = wrapped_CreatePixmap;
    PixmapPtr pixmap = screen->CreatePixmap(screen, width, height, depth, usage);
    screen->CreatePixmap = create_pixmap;
    /* An empty one is a header that will point to other memory. */
    if (pixmap)
        *tracked(pixmap) = (struct tracked){.serial = width > 0 && height > 0 ? next_serial() : 0};
    return pixmap;
}

static Bool destroy_pixmap(PixmapPtr pixmap) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    if (pixmap->refcnt == 1)
        withdraw(pixmap);
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    Bool ok = screen->DestroyPixmap(pixmap);
    screen->DestroyPixmap = destroy_pixmap;
    return ok;
}

static Bool modify_pixmap_header(PixmapPtr pixmap, int width, int height, int depth, int bpp,
                                 int stride, void *data) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    struct tracked *f = tracked(pixmap);
    if (f->serial != 0) {
        /* Other memory, or the same with other rows: not what was announced. */
        withdraw(pixmap);
        *f = (struct tracked){.serial = data ? 0 : next_serial()};
    }
    screen->ModifyPixmapHeader = wrapped_ModifyPixmapHeader;
    Bool ok = screen->ModifyPixmapHeader(pixmap, width, height, depth, bpp, stride, data);
    screen->ModifyPixmapHeader = modify_pixmap_header;
    return ok;
}

bool pixmap_init(ScreenPtr screen) {
    if (!dixRegisterPrivateKey(&pixmap_key, PRIVATE_PIXMAP, sizeof(struct tracked)))
        return false;
    wrapped_CreatePixmap = screen->CreatePixmap;
    wrapped_DestroyPixmap = screen->DestroyPixmap;
    wrapped_ModifyPixmapHeader = screen->ModifyPixmapHeader;
    screen->CreatePixmap = create_pixmap;
    screen->DestroyPixmap = destroy_pixmap;
    screen->ModifyPixmapHeader = modify_pixmap_header;
    return true;
}

void pixmap_close(ScreenPtr screen) {
    screen->CreatePixmap = wrapped_CreatePixmap;
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    screen->ModifyPixmapHeader = wrapped_ModifyPixmapHeader;
}
