/* Path 1/13: from randr.c, which knows the outputs, to the gamma block of the ring.
 * RandR's ramps, and XF86VidMode's, which X multiplies into them, are tables of 16 bits of each
 * CRTC. The framebuffer is not changed by them: viewers apply them to what they show. X keeps them
 * for CRTCs that are off, and over changes of the size, so they are read when the block is written.
 * Knows tables and places; never who sets them, or why. */
#include "thinc.h"

#include <string.h>

#include <xf86cmap.h>

/* The upper 8 bits of X's 16: X writes i << 8 for a table that changes nothing, and others write
 * i * 257. */
static void take_channel(uint8_t *to, const CARD16 *from, int size) {
    for (uint32_t i = 0; i < THINC_GAMMA_ENTRIES; i++)
        to[i] = from && size > 0 ? (uint8_t)(from[i * (uint32_t)size / THINC_GAMMA_ENTRIES] >> 8)
                                 : (uint8_t)i;
}

static bool changes_colors(const struct thinc_gamma_table *table) {
    for (uint32_t i = 0; i < THINC_GAMMA_ENTRIES; i++)
        if (table->red[i] != i || table->green[i] != i || table->blue[i] != i)
            return true;
    return false;
}

void gamma_publish(const struct thinc_output *outputs, const xf86CrtcPtr *crtcs, uint32_t count) {
    struct thinc_gamma *shared = ring_gamma();
    static struct thinc_gamma now; /* too large for the stack of every change of a size */
    /* X clients that change a mode switch its CRTC off, set the size and switch it on again:
     * without this, viewers would flash in plain colours. */
    if (!shared || count == 0)
        return;
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        struct thinc_gamma_table *table = &now.tables[i];
        const xf86CrtcPtr crtc = crtcs[i];
        table->x = outputs[i].x;
        table->y = outputs[i].y;
        table->width = outputs[i].width;
        table->height = outputs[i].height;
        take_channel(table->red, crtc->gamma_red, crtc->gamma_size);
        take_channel(table->green, crtc->gamma_green, crtc->gamma_size);
        take_channel(table->blue, crtc->gamma_blue, crtc->gamma_size);
        any |= changes_colors(table);
    }
    now.count = any ? count : 0;
    size_t bytes = now.count * sizeof now.tables[0];
    if (now.count == shared->count && memcmp(now.tables, shared->tables, bytes) == 0)
        return;
    block_begin(&shared->seq);
    shared->serial++;
    shared->count = now.count;
    memcpy(shared->tables, now.tables, bytes);
    block_end(&shared->seq);
    ring_publish_event(THINC_GAMMA, 0, NULL, 0);
}

/* X's own table for colormaps and for XF86VidMode (xgamma, xcalib, games): X applies it before each
 * CRTC's. Without this, xgamma would overwrite the ramps of the first output only. */
bool gamma_init(ScreenPtr screen) {
    return xf86HandleColormaps(screen, THINC_GAMMA_ENTRIES, 8, NULL, NULL,
                               CMAP_PALETTED_TRUECOLOR | CMAP_RELOAD_ON_MODE_SWITCH);
}
