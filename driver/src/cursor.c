/* Path 1/13: from X's sprite, to the cursor block of the ring.
 * The framebuffer never contains the cursor: its image and position are published to the session,
 * and viewers draw it themselves. Runs in X's main thread (waitForUpdate). Knows cursors; never the
 * devices that move them. */
#include "thinc.h"

#include <string.h>

#include <cursorstr.h>
#include <inputstr.h>
#include <mipointer.h>
#include <mipointrst.h>

#include <X11/extensions/XI2.h>

/* Our copy outlives every ring; a fresh ring gets a copy of it. Written by X's main thread only. */
static struct thinc_cursor cursor;
static Bool (*wrapped_SetCursorPosition)(DeviceIntPtr, ScreenPtr, int, int, Bool);
static RecolorCursorProcPtr wrapped_RecolorCursor;

enum image { WITHOUT_IMAGE, WITH_IMAGE };
/* No pixel of the image is visible: toolkits hide a cursor by such an image. */
static bool transparent;

/* An X client selects raw motion on the root, for all masters or the core pointer. */
static bool selects_raw_motion(CARD32 client) {
    const OtherInputMasks *masks = wOtherInputMasks(thinc.screen->root);
    const InputClients *at = masks ? masks->inputClients : NULL;
    while (at && CLIENT_BITS(at->resource) != client)
        at = at->next;
    if (!at || !at->xi2mask || at->xi2mask->mask_size <= XI_RawMotion / 8)
        return false;
    const size_t devices[] = {XIAllDevices, XIAllMasterDevices, (size_t)inputInfo.pointer->id};
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
        if (devices[i] < at->xi2mask->nmasks &&
            BitIsOn(at->xi2mask->masks[devices[i]], XI_RawMotion))
            return true;
    }
    return false;
}

static uint32_t pointer_use(void) {
    uint32_t use = !cursor.visible || transparent ? THINC_POINTER_HIDDEN : 0;
    const GrabInfoRec *info = &inputInfo.pointer->deviceGrab;
    const GrabPtr grab = info->grab;
    if (!grab || info->fromPassiveGrab || info->implicitGrab)
        return use;
    use |= THINC_POINTER_GRABBED;
    if (grab->confineTo && grab->confineTo != thinc.screen->root)
        use |= THINC_POINTER_CONFINED;
    if (selects_raw_motion(CLIENT_BITS(grab->resource)))
        use |= THINC_POINTER_RAW;
    return use;
}

static void publish(enum image mode) {
    struct thinc_cursor *shared = ring_cursor();
    if (!shared)
        return;
    /* Ask X for the position: it does not report every move to a sprite. */
    miPointerGetPosition(inputInfo.pointer, &cursor.x, &cursor.y);
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
    shared->two_colors = cursor.two_colors;
    shared->fore = cursor.fore;
    shared->back = cursor.back;
    cursor.use = pointer_use();
    shared->use = cursor.use;
    if (mode == WITH_IMAGE)
        memcpy(shared->argb, cursor.argb, (size_t)cursor.width * cursor.height * 4);
    block_end(&shared->seq);
}

void cursor_attach(void) { publish(WITH_IMAGE); }

static bool bit(const unsigned char *bits, int stride, int x, int y) {
    /* Server bitmaps have the byte and bit order of the machine, least significant bit first. */
    return bits[y * stride + x / 8] >> (x % 8) & 1;
}

static uint32_t color_of(unsigned short red, unsigned short green, unsigned short blue) {
    return (uint32_t)(red >> 8) << 16 | (uint32_t)(green >> 8) << 8 | blue >> 8;
}

/* True if the value changed. */
static bool set(uint32_t *field, uint32_t value) {
    bool changed = *field != value;
    *field = value;
    return changed;
}

/* True if a colour changed. */
static bool take_colors(CursorPtr from) {
    bool changed = set(&cursor.fore, color_of(from->foreRed, from->foreGreen, from->foreBlue));
    return set(&cursor.back, color_of(from->backRed, from->backGreen, from->backBlue)) || changed;
}

/* The first pixel that is kept of an edge longer than THINC_CURSOR_MAX, chosen so that the hot spot
 * is kept. */
static int first_kept(int hot, int edge) {
    int last = edge - (int)THINC_CURSOR_MAX;
    int wanted = hot - (int)THINC_CURSOR_MAX / 2;
    return last <= 0 || wanted <= 0 ? 0 : wanted < last ? wanted : last;
}

static uint32_t pixel_of(const CursorBits *bits, int stride, int x, int y) {
    if (bits->argb)
        return bits->argb[y * bits->width + x];
    if (!bit(bits->mask, stride, x, y))
        return THINC_CURSOR_OUTSIDE;
    return bit(bits->source, stride, x, y) ? THINC_CURSOR_FORE : THINC_CURSOR_BACK;
}

static uint32_t at_most(uint32_t value, uint32_t limit) { return value < limit ? value : limit; }

/* True if the image changed: toolkits often set the same image again under another cursor name. */
static bool take_image(const CursorBits *bits) {
    int x1 = first_kept(bits->xhot, bits->width), y1 = first_kept(bits->yhot, bits->height);
    bool changed = cursor.serial == 0;
    changed |= set(&cursor.width, at_most(bits->width, THINC_CURSOR_MAX));
    changed |= set(&cursor.height, at_most(bits->height, THINC_CURSOR_MAX));
    changed |=
        set(&cursor.hot_x, at_most((uint32_t)(bits->xhot - x1), cursor.width - (cursor.width > 0)));
    changed |= set(&cursor.hot_y,
                   at_most((uint32_t)(bits->yhot - y1), cursor.height - (cursor.height > 0)));
    changed |= set(&cursor.two_colors, !bits->argb);
    int stride = BitmapBytePad(bits->width);
    uint32_t *to = cursor.argb, seen = 0;
    for (int y = 0; y < (int)cursor.height; y++) {
        for (int x = 0; x < (int)cursor.width; x++) {
            uint32_t pixel = pixel_of(bits, stride, x1 + x, y1 + y);
            seen |= pixel;
            changed |= set(to++, pixel);
        }
    }
    transparent = (cursor.two_colors ? seen : seen >> 24) == 0;
    if (changed)
        cursor.serial++;
    return changed;
}

static Bool realize(DeviceIntPtr device, ScreenPtr screen, CursorPtr c) { return TRUE; }
static Bool unrealize(DeviceIntPtr device, ScreenPtr screen, CursorPtr c) { return TRUE; }

/* Viewers show only the core pointer's cursor. Once the user has moved it, X warps the slave device
 * instead. */
static bool is_core(DeviceIntPtr device) {
    return GetMaster(device, MASTER_POINTER) == inputInfo.pointer;
}

static void set_cursor(DeviceIntPtr device, ScreenPtr screen, CursorPtr c, int x, int y) {
    if (!is_core(device))
        return;
    bool shown = c != NULL;
    bool image = shown && take_image(c->bits);
    bool colors = shown && take_colors(c);
    bool changed = image || (colors && cursor.two_colors) || shown != (cursor.visible != 0);
    cursor.visible = shown;
    publish(image ? WITH_IMAGE : WITHOUT_IMAGE);
    if (changed)
        ring_publish_event(THINC_CURSOR, 0, NULL, 0);
}

/* The same cursor in other colours: X realizes it again but does not set it again. */
static void recolor_cursor(DeviceIntPtr device, ScreenPtr screen, CursorPtr c, Bool displayed) {
    screen->RecolorCursor = wrapped_RecolorCursor;
    screen->RecolorCursor(device, screen, c, displayed);
    screen->RecolorCursor = recolor_cursor;
    if (!displayed || !is_core(device) || !cursor.two_colors || !take_colors(c))
        return;
    publish(WITHOUT_IMAGE);
    ring_publish_event(THINC_CURSOR, 0, NULL, 0);
}

/* Moves by the user are not published: viewers have drawn them before X received them. */
static void move_cursor(DeviceIntPtr device, ScreenPtr screen, int x, int y) {}

static Bool device_initialize(DeviceIntPtr device, ScreenPtr screen) { return TRUE; }
static void device_cleanup(DeviceIntPtr device, ScreenPtr screen) {}

static miPointerSpriteFuncRec sprite = {realize,     unrealize,         set_cursor,
                                        move_cursor, device_initialize, device_cleanup};

/* Programs move the pointer by XTEST too, which has a device of its own. X tells of an event before
 * the pointer has moved by it, so each event is judged when X processes the next one, or sleeps. */
static struct {
    /* The event that is to be judged, and where the pointer was before it. */
    enum { NO_EVENT, EVENT_OF_OURS, EVENT_OF_OTHERS } source;
    int x, y;
    /* Where a program has put the pointer, if the user has not moved it since. */
    bool set;
    int set_x, set_y;
} moves;

/* A position that no user chose: viewers must follow. The event that X makes of it is not news. */
static void publish_set(int x, int y) {
    moves.set = true;
    moves.set_x = x;
    moves.set_y = y;
    cursor.warps++;
    publish(WITHOUT_IMAGE);
    ring_publish_event(THINC_CURSOR, 0, NULL, 0);
}

static void judge_moves(void) {
    int x, y;
    if (moves.source == NO_EVENT)
        return;
    GetSpritePosition(inputInfo.pointer, &x, &y);
    bool moved = x != moves.x || y != moves.y;
    bool known = moves.set && x == moves.set_x && y == moves.set_y;
    if (moved && moves.source == EVENT_OF_OURS) {
        moves.set = false;
    } else if (moved && !known) {
        publish_set(x, y);
    }
    moves.source = NO_EVENT;
}

/* X calls this in the main thread for each event of each device, masters included. */
static void event_processed(CallbackListPtr *list, void *closure, void *data) {
    DeviceIntPtr device = ((const DeviceEventInfoRec *)data)->device;
    if (IsMaster(device) || !IsPointerDevice(device) || !is_core(device))
        return;
    judge_moves();
    moves.source = input_is_ours(device) ? EVENT_OF_OURS : EVENT_OF_OTHERS;
    GetSpritePosition(inputInfo.pointer, &moves.x, &moves.y);
}

/* A position set by an application, a grab or RandR. */
static Bool set_cursor_position(DeviceIntPtr device, ScreenPtr screen, int x, int y, Bool event) {
    int old_x, old_y;
    judge_moves();
    miPointerGetPosition(device, &old_x, &old_y);
    screen->SetCursorPosition = wrapped_SetCursorPosition;
    Bool ok = screen->SetCursorPosition(device, screen, x, y, event);
    screen->SetCursorPosition = set_cursor_position;
    /* X centres the pointer on the screen before there is a visible cursor, without an event. */
    if (is_core(device) && (cursor.serial != 0 || event) && (x != old_x || y != old_y))
        publish_set(x, y);
    return ok;
}

void cursor_block(void) {
    judge_moves();
    /* X tells nobody of a grab, so it is looked at before X sleeps. */
    if (!ring_attached() || pointer_use() == cursor.use)
        return;
    publish(WITHOUT_IMAGE);
    ring_publish_event(THINC_CURSOR, 0, NULL, 0);
}

bool cursor_init(ScreenPtr screen) {
    /* waitForUpdate is TRUE so that the sprite moves in the main thread; otherwise the input thread
     * would be a second writer of the ring. */
    if (!miPointerInitialize(screen, &sprite, xf86GetPointerScreenFuncs(), TRUE))
        return false;
    wrapped_SetCursorPosition = screen->SetCursorPosition;
    screen->SetCursorPosition = set_cursor_position;
    wrapped_RecolorCursor = screen->RecolorCursor;
    screen->RecolorCursor = recolor_cursor;
    AddCallback(&DeviceEventCallback, event_processed, NULL);
    return true;
}
