/* Path 1/13: from X's sprite, to the cursor block of the ring.
 * The framebuffer never holds the cursor: its image and place are told to the session, whose viewers draw it themselves.
 * Runs in X's main thread (waitForUpdate). Knows cursors; never the devices that move them. */
#include "thinc.h"

#include <string.h>

#include <cursorstr.h>
#include <inputstr.h>
#include <mipointer.h>
#include <mipointrst.h>

/* Ours outlives every ring; a fresh ring gets a copy. Written by X's main thread only. */
static struct thinc_cursor cursor;
static Bool (*wrapped_SetCursorPosition)(DeviceIntPtr, ScreenPtr, int, int, Bool);

static void tell(bool with_image) {
    struct thinc_cursor *shared = ring_cursor();
    if (!shared)
        return;
    block_begin(&shared->seq);
    shared->serial = cursor.serial;
    shared->visible = cursor.visible;
    shared->x = cursor.x;
    shared->y = cursor.y;
    shared->hot_x = cursor.hot_x;
    shared->hot_y = cursor.hot_y;
    shared->width = cursor.width;
    shared->height = cursor.height;
    shared->warps = cursor.warps;
    if (with_image)
        memcpy(shared->argb, cursor.argb, (size_t)cursor.width * cursor.height * 4);
    block_end(&shared->seq);
}

void cursor_attach(void) { tell(true); }

static bool bit(const unsigned char *bits, int stride, int x, int y) {
    /* Server bitmaps are in the byte and bit order of the machine, least significant first. */
    return bits[y * stride + x / 8] >> (x % 8) & 1;
}

static uint32_t opaque(unsigned short red, unsigned short green, unsigned short blue) {
    return 0xff000000u | (uint32_t)(red >> 8) << 16 | (uint32_t)(green >> 8) << 8 | blue >> 8;
}

static void take_image(CursorPtr from) {
    const CursorBits *bits = from->bits;
    /* Larger cursors are cut at the right and bottom; the hot spot stays inside. */
    cursor.width = bits->width < THINC_CURSOR_MAX ? bits->width : THINC_CURSOR_MAX;
    cursor.height = bits->height < THINC_CURSOR_MAX ? bits->height : THINC_CURSOR_MAX;
    cursor.hot_x = bits->xhot < cursor.width ? bits->xhot : cursor.width - (cursor.width > 0);
    cursor.hot_y = bits->yhot < cursor.height ? bits->yhot : cursor.height - (cursor.height > 0);
    uint32_t fore = opaque(from->foreRed, from->foreGreen, from->foreBlue);
    uint32_t back = opaque(from->backRed, from->backGreen, from->backBlue);
    int stride = BitmapBytePad(bits->width);
    for (int y = 0; y < (int)cursor.height; y++) {
        for (int x = 0; x < (int)cursor.width; x++) {
            uint32_t *pixel = &cursor.argb[y * (int)cursor.width + x];
            if (bits->argb)
                *pixel = bits->argb[y * bits->width + x];
            else if (!bit(bits->mask, stride, x, y))
                *pixel = 0;
            else
                *pixel = bit(bits->source, stride, x, y) ? fore : back;
        }
    }
    cursor.serial++;
}

static Bool realize(DeviceIntPtr device, ScreenPtr screen, CursorPtr c) { return TRUE; }
static Bool unrealize(DeviceIntPtr device, ScreenPtr screen, CursorPtr c) { return TRUE; }

/* Only the core pointer has a cursor that viewers show. */
static bool is_core(DeviceIntPtr device) { return device == inputInfo.pointer; }

static void set_cursor(DeviceIntPtr device, ScreenPtr screen, CursorPtr c, int x, int y) {
    if (!is_core(device))
        return;
    bool shown = c != NULL;
    if (!shown && !cursor.visible)
        return;
    if (shown)
        take_image(c);
    cursor.visible = shown;
    cursor.x = x;
    cursor.y = y;
    tell(shown);
    ring_note(THINC_CURSOR, 0, NULL, 0);
}

/* The user's own moves change only the block: viewers drew them before X heard of them. */
static void move_cursor(DeviceIntPtr device, ScreenPtr screen, int x, int y) {
    if (!is_core(device))
        return;
    cursor.x = x;
    cursor.y = y;
    tell(false);
}

static Bool device_initialize(DeviceIntPtr device, ScreenPtr screen) { return TRUE; }
static void device_cleanup(DeviceIntPtr device, ScreenPtr screen) {}

static miPointerSpriteFuncRec sprite = {realize, unrealize, set_cursor, move_cursor, device_initialize, device_cleanup};

/* A place that an application, a grab or RandR chose: viewers must follow. */
static Bool set_cursor_position(DeviceIntPtr device, ScreenPtr screen, int x, int y, Bool event) {
    screen->SetCursorPosition = wrapped_SetCursorPosition;
    Bool ok = screen->SetCursorPosition(device, screen, x, y, event);
    screen->SetCursorPosition = set_cursor_position;
    if (is_core(device) && (x != cursor.x || y != cursor.y)) {
        cursor.x = x;
        cursor.y = y;
        cursor.warps++;
        tell(false);
        ring_note(THINC_CURSOR, 0, NULL, 0);
    }
    return ok;
}

bool cursor_init(ScreenPtr screen) {
    /* waitForUpdate TRUE: the sprite moves in the main thread, or the input thread would be a second writer of the ring. */
    if (!miPointerInitialize(screen, &sprite, xf86GetPointerScreenFuncs(), TRUE))
        return false;
    wrapped_SetCursorPosition = screen->SetCursorPosition;
    screen->SetCursorPosition = set_cursor_position;
    return true;
}
