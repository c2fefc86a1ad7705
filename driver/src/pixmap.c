/* Path 1/13: from pixmaps that X makes and frees, to ring.c.
 * Gives each pixmap a serial that is never used twice, and none to memory that a client can write without a request.
 * Knows when a pixmap lives; never what is in it. */
#include "thinc.h"

static DevPrivateKeyRec pixmap_key;
static CreatePixmapProcPtr wrapped_CreatePixmap;
static DestroyPixmapProcPtr wrapped_DestroyPixmap;
static ModifyPixmapHeaderProcPtr wrapped_ModifyPixmapHeader;

/* Wraps after four thousand million pixmaps; 0 is the screen and never given. */
static uint32_t last_serial;

static uint32_t *serial_of(PixmapPtr pixmap) { return dixLookupPrivate(&pixmap->devPrivates, &pixmap_key); }

uint32_t pixmap_serial(PixmapPtr pixmap) { return *serial_of(pixmap); }

static bool worth_a_record(PixmapPtr pixmap) {
    return ring_attached() && ring_wants_offscreen() && *serial_of(pixmap) != 0 && pixmap->drawable.bitsPerPixel == 32;
}

static PixmapPtr create_pixmap(ScreenPtr screen, int width, int height, int depth, unsigned usage) {
    screen->CreatePixmap = wrapped_CreatePixmap;
    PixmapPtr pixmap = screen->CreatePixmap(screen, width, height, depth, usage);
    screen->CreatePixmap = create_pixmap;
    /* An empty one is a header that will point to somebody else's memory. */
    if (pixmap && width > 0 && height > 0) {
        last_serial = last_serial == UINT32_MAX ? 1 : last_serial + 1;
        *serial_of(pixmap) = last_serial;
        if (worth_a_record(pixmap))
            ring_note(THINC_PIXMAP_CREATE, 0, (uint32_t[2]){(uint32_t)width, (uint32_t)height}, last_serial);
    }
    return pixmap;
}

static Bool destroy_pixmap(PixmapPtr pixmap) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    if (pixmap->refcnt == 1 && worth_a_record(pixmap))
        ring_note(THINC_PIXMAP_DESTROY, 0, NULL, *serial_of(pixmap));
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    Bool ok = screen->DestroyPixmap(pixmap);
    screen->DestroyPixmap = destroy_pixmap;
    return ok;
}

static Bool modify_pixmap_header(PixmapPtr pixmap, int width, int height, int depth, int bpp, int stride, void *data) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    if (data)
        *serial_of(pixmap) = 0;
    screen->ModifyPixmapHeader = wrapped_ModifyPixmapHeader;
    Bool ok = screen->ModifyPixmapHeader(pixmap, width, height, depth, bpp, stride, data);
    screen->ModifyPixmapHeader = modify_pixmap_header;
    return ok;
}

bool pixmap_init(ScreenPtr screen) {
    if (!dixRegisterPrivateKey(&pixmap_key, PRIVATE_PIXMAP, sizeof(uint32_t)))
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
