/* Path 1/13: from pixmaps that X makes, draws on and frees, to ring.c.
 * Gives each pixmap a serial that is never used twice, and none to memory that a client can write without a request; tells the
 * reader of it when it is first drawn on or copied from. Knows when a pixmap lives; never what is in it. */
#include "thinc.h"

static DevPrivateKeyRec pixmap_key;
static CreatePixmapProcPtr wrapped_CreatePixmap;
static DestroyPixmapProcPtr wrapped_DestroyPixmap;
static ModifyPixmapHeaderProcPtr wrapped_ModifyPixmapHeader;

/* Wraps after four thousand million pixmaps; 0 is the screen and never given. */
static uint32_t last_serial;

/* 64 pixels: what toolkits make to read one pixel, or to have a colour as a picture. A copy from so few costs nothing to send. */
#define AREA_MIN 65

struct followed {
    uint32_t serial; /* 0: not to be followed */
    uint32_t told;   /* ring_epoch() when the reader was told of it; all that was drawn since is recorded */
};

static struct followed *followed(PixmapPtr pixmap) { return dixLookupPrivate(&pixmap->devPrivates, &pixmap_key); }

static uint32_t next_serial(void) { return last_serial = last_serial == UINT32_MAX ? 1 : last_serial + 1; }

uint32_t pixmap_serial(PixmapPtr pixmap) { return followed(pixmap)->serial; }

/* At its first use and not when it is made: most of all because those that were there before the session attached, or before
 * records were lost, are told of in the same way, with nothing to walk through. */
bool pixmap_follow(PixmapPtr pixmap) {
    struct followed *f = followed(pixmap);
    if (!ring_wants_offscreen()) {
        f->told = 0;
        return false;
    }
    if (f->told == ring_epoch())
        return true;
    const DrawableRec *d = &pixmap->drawable;
    if (f->serial == 0 || d->bitsPerPixel != 32 || (d->depth != 24 && d->depth != 32) || d->width * d->height < AREA_MIN)
        return false;
    ring_pixmap(THINC_PIXMAP_CREATE, f->serial, pixmap);
    /* Only now: an overflow may have ended meanwhile. */
    f->told = ring_epoch();
    return true;
}

static void forget(PixmapPtr pixmap) {
    const struct followed *f = followed(pixmap);
    if (ring_attached() && f->told == ring_epoch())
        ring_pixmap(THINC_PIXMAP_DESTROY, f->serial, pixmap);
}

static PixmapPtr create_pixmap(ScreenPtr screen, int width, int height, int depth, unsigned usage) {
    screen->CreatePixmap = wrapped_CreatePixmap;
    PixmapPtr pixmap = screen->CreatePixmap(screen, width, height, depth, usage);
    screen->CreatePixmap = create_pixmap;
    /* An empty one is a header that will point to somebody else's memory. */
    if (pixmap)
        *followed(pixmap) = (struct followed){.serial = width > 0 && height > 0 ? next_serial() : 0};
    return pixmap;
}

static Bool destroy_pixmap(PixmapPtr pixmap) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    if (pixmap->refcnt == 1)
        forget(pixmap);
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    Bool ok = screen->DestroyPixmap(pixmap);
    screen->DestroyPixmap = destroy_pixmap;
    return ok;
}

static Bool modify_pixmap_header(PixmapPtr pixmap, int width, int height, int depth, int bpp, int stride, void *data) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    struct followed *f = followed(pixmap);
    if (f->serial != 0) {
        /* Other memory, or the same with other rows: not what was told of. */
        forget(pixmap);
        *f = (struct followed){.serial = data ? 0 : next_serial()};
    }
    screen->ModifyPixmapHeader = wrapped_ModifyPixmapHeader;
    Bool ok = screen->ModifyPixmapHeader(pixmap, width, height, depth, bpp, stride, data);
    screen->ModifyPixmapHeader = modify_pixmap_header;
    return ok;
}

bool pixmap_init(ScreenPtr screen) {
    if (!dixRegisterPrivateKey(&pixmap_key, PRIVATE_PIXMAP, sizeof(struct followed)))
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
