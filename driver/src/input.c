/* Path back: from the session's input socket, to X clients.
 * Five devices, created at run time by the video driver's own module: a pointer with smooth
 * scrolling, a keyboard, a touch screen, and a pen with its eraser (pen.c). X's input thread reads
 * one socket for all of them, so that a click never overtakes a key. They are there from the start:
 * many programs look for devices only then. Knows X's devices; never viewers. */
#include "thinc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <X11/Xatom.h>
#include <X11/extensions/XI2.h>
#include <X11/extensions/XI2proto.h>

#include <exevents.h>
#include <extnsionst.h>
#include <inputstr.h>
#include <mipointer.h>
#include <xf86Xinput.h>
#include <xkbsrv.h>
#include <xserver-properties.h>

#define DRIVER_NAME "thinc"

/* 16 simultaneous touches; further ones are ignored. */
#define TOUCHES 16
/* 9 buttons have labels: left, middle, right, four wheel directions (emulated by scrolling), back,
 * forward. Up to 32 are passed on. */
#define BUTTONS 32
/* 120 units per notch, as in evdev and libinput. */
#define NOTCH 120
/* 64 messages per call: then X's input thread releases its lock. */
#define BATCH 64

enum kind { POINTER, KEYBOARD, TOUCH, PEN, ERASER, KINDS };
/* GTK, Qt and SDL know a pen and an eraser by these words. */
static const char *const names[KINDS] = {"thinc pointer", "thinc keyboard", "thinc touch",
                                         "thinc pen", "thinc eraser"};

static InputInfoPtr devices[KINDS];
static bool enabled[KINDS];
/* Our end of the pair. Owned by this file; the pointer device reads it while enabled. -1: no
 * session is attached. */
static int socket_fd = -1;
static ValuatorMask *mask; /* input thread, or main thread under input_lock */

/* Pressed keys, buttons and touches: they are released when the session detaches, and so is a pen.
 * Under input_lock. */
static uint8_t keys[32];

/* 300 ms: X repeats a key only so long after the session last said that its viewer holds it. The
 * session says so when it hears from that viewer, which sends something every 100 ms (protocol,
 * section 4.1). So nothing repeats while a path or a process stalls, and the repeat goes on with
 * the next message. */
#define HELD_MS 300u
/* By keycode, X's clock. Under input_lock. */
static uint32_t held_ms[256];

static bool is_down(uint32_t code) { return code < 256 && keys[code / 8] & 1u << code % 8; }

/* X asks in the main thread, before each repeat. Keys of other devices, of XTEST for example, are
 * not judged. */
static Bool may_repeat(DeviceIntPtr device, XkbSrvInfoPtr xkb, unsigned code) {
    input_lock();
    bool may = !is_down(code) || GetTimeInMillis() - held_ms[code] <= HELD_MS;
    input_unlock();
    return may;
}

static uint32_t buttons;
static struct {
    bool down;
    uint32_t id, x, y;
} touches[TOUCHES];

/* ---- which window received which press ----------------------------------------------------------
 * The input thread queues presses as it posts them; the main thread removes them when X delivers
 * them. X may drop events, so an entry is matched by its key or button, and older ones are
 * discarded. */
#define PRESSES 64u
static struct {
    uint32_t seq;
    uint16_t detail;
    bool key;
} presses[PRESSES];
static uint32_t press_head, press_tail; /* head: input thread, tail: main thread */

static void queue_press(uint32_t seq, uint32_t detail, bool key) {
    uint32_t head = press_head;
    if (head - __atomic_load_n(&press_tail, __ATOMIC_ACQUIRE) == PRESSES)
        return; /* the session will not see where this press is delivered */
    presses[head % PRESSES].seq = seq;
    presses[head % PRESSES].detail = (uint16_t)detail;
    presses[head % PRESSES].key = key;
    __atomic_store_n(&press_head, head + 1, __ATOMIC_RELEASE);
}

void input_queue_press(uint32_t seq, uint32_t button) { queue_press(seq, button, false); }

static bool take_press(uint32_t detail, bool key, uint32_t *seq) {
    uint32_t head = __atomic_load_n(&press_head, __ATOMIC_ACQUIRE);
    for (uint32_t at = press_tail; at != head; at++) {
        if (presses[at % PRESSES].detail != detail || presses[at % PRESSES].key != key)
            continue;
        *seq = presses[at % PRESSES].seq;
        __atomic_store_n(&press_tail, at + 1, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

/* The major opcode of XInput, which its events carry. */
static int xinput_opcode;

/* X calls this in the main thread for every batch of events that it writes to a client. The first
 * client that gets a press counts, with core events or with XInput 2 events (used by toolkits). */
static void event_written(CallbackListPtr *list, void *closure, void *data) {
    const EventInfoRec *info = data;
    if (!ring_attached() || info->count < 1 ||
        press_tail == __atomic_load_n(&press_head, __ATOMIC_ACQUIRE))
        return;
    const xEvent *event = info->events;
    int type = event->u.u.type & 0x7f;
    bool key = type == KeyPress;
    uint32_t detail = event->u.u.detail, seq;
    XID window = event->u.keyButtonPointer.event;
    if (type == GenericEvent) {
        const xXIDeviceEvent *xi2 = (const xXIDeviceEvent *)event;
        if (xi2->extension != xinput_opcode ||
            (xi2->evtype != XI_KeyPress && xi2->evtype != XI_ButtonPress))
            return;
        key = xi2->evtype == XI_KeyPress;
        detail = xi2->detail;
        window = xi2->event;
    } else if (type != KeyPress && type != ButtonPress) {
        return;
    }
    if (!take_press(detail, key, &seq))
        return;
    WindowPtr target = NULL;
    if (dixLookupWindow(&target, window, serverClient, DixGetAttrAccess) != Success)
        target = NULL;
    ring_publish_event(THINC_INPUT, target ? window_top_level(target) : 0, (uint32_t[2]){seq, 0},
                       0);
}

bool input_is_ours(DeviceIntPtr device) {
    for (int kind = 0; kind < KINDS; kind++)
        if (devices[kind] && devices[kind]->dev == device)
            return true;
    return false;
}

/* ---- posting: on X's input thread, or under input_lock --------------------------------------- */
static bool ready(enum kind kind) { return devices[kind] && enabled[kind]; }

static void post_key(uint32_t code, bool down, uint32_t seq) {
    if (code < 8 || code > 255 || !ready(KEYBOARD))
        return;
    uint8_t bit = (uint8_t)(1u << code % 8);
    /* A second press without a release comes from key repeat at the viewer; X repeats keys
     * itself. */
    if (((keys[code / 8] & bit) != 0) == down)
        return;
    keys[code / 8] ^= bit;
    if (down) {
        held_ms[code] = GetTimeInMillis();
        queue_press(seq, code, true);
    }
    xf86PostKeyboardEvent(devices[KEYBOARD]->dev, code, down);
}

static void still_held(uint32_t code) {
    if (is_down(code))
        held_ms[code] = GetTimeInMillis();
}

static void post_button(uint32_t button, bool down, uint32_t seq) {
    if (button < 1 || button > BUTTONS || !ready(POINTER))
        return;
    uint32_t bit = 1u << (button - 1);
    if (((buttons & bit) != 0) == down)
        return;
    buttons ^= bit;
    if (down)
        queue_press(seq, button, false);
    xf86PostButtonEvent(devices[POINTER]->dev, Relative, (int)button, down, 0, 0);
}

static void post_touch(uint32_t id, uint32_t state, int x, int y) {
    static const uint16_t types[] = {XI_TouchEnd, XI_TouchBegin, XI_TouchUpdate};
    if (state > 2 || !ready(TOUCH))
        return;
    int slot = -1;
    for (int i = 0; i < TOUCHES; i++) {
        bool same = touches[i].down && touches[i].id == id;
        if (same || (state == 1 && slot < 0 && !touches[i].down))
            slot = i;
        if (same)
            break;
    }
    if (slot < 0 || touches[slot].down == (state == 1))
        return;
    touches[slot].down = state != 0;
    touches[slot].id = id;
    touches[slot].x = (uint32_t)x;
    touches[slot].y = (uint32_t)y;
    valuator_mask_zero(mask);
    valuator_mask_set(mask, 0, x);
    valuator_mask_set(mask, 1, y);
    xf86PostTouchEvent(devices[TOUCH]->dev, id, types[state], 0, mask);
}

static void release_all(void) {
    for (uint32_t code = 8; code < 256; code++)
        if (keys[code / 8] & 1u << code % 8)
            post_key(code, false, 0);
    for (uint32_t button = 1; button <= BUTTONS; button++)
        if (buttons & 1u << (button - 1))
            post_button(button, false, 0);
    for (int i = 0; i < TOUCHES; i++)
        if (touches[i].down)
            post_touch(touches[i].id, 0, (int)touches[i].x, (int)touches[i].y);
    pen_release();
}

/* The position of the last absolute motion. */
static struct { int x, y; } asked;

static void post_motion(int flags, int x, int y) {
    valuator_mask_zero(mask);
    valuator_mask_set(mask, 0, x);
    valuator_mask_set(mask, 1, y);
    QueuePointerEvents(devices[POINTER]->dev, MotionNotify, 0, flags, mask);
}

/* A distance, with its raw event. SDL 2 drops a raw event that has the distance and the millisecond
 * of the one before it, since X delivers some twice. Motion that the network has held up arrives
 * in one millisecond, so a raw event of no distance is posted between two that are equal. */
static void post_distance(int flags, int dx, int dy) {
    static struct {
        CARD32 ms;
        int dx, dy;
    } last;
    if (dx == last.dx && dy == last.dy && GetTimeInMillis() == last.ms)
        post_motion(POINTER_RELATIVE | POINTER_RAWONLY, 0, 0);
    post_motion(POINTER_RELATIVE | flags, dx, dy);
    last.ms = GetTimeInMillis();
    last.dx = dx;
    last.dy = dy;
}

/* The axes are those of a mouse: raw events carry how far the user has moved it, whether the
 * session knows that or only a position, and nothing accelerates it. A position is posted without
 * a raw event of its own, which would carry the position; XTEST's does, and SDL 2 and others that
 * read raw events would take it for a distance.
 * The distance to a position is that from the previous one, or from where the pointer is, whichever
 * is nearer: programs and other viewers move the pointer as well, a grab holds it back, and viewers
 * may have heard of that or not. */
static void post_position(int x, int y) {
    const DeviceIntPtr master = GetMaster(devices[POINTER]->dev, MASTER_POINTER);
    int dx = x - asked.x, dy = y - asked.y;
    if (master) {
        int from_x = x - (int)master->last.valuators[0];
        int from_y = y - (int)master->last.valuators[1];
        if (abs(from_x) + abs(from_y) < abs(dx) + abs(dy)) {
            dx = from_x;
            dy = from_y;
        }
    }
    asked.x = x;
    asked.y = y;
    if (dx || dy)
        post_distance(POINTER_RAWONLY, dx, dy);
    post_motion(POINTER_ABSOLUTE | POINTER_NORAW, x, y);
}

static void post(const struct thinc_input *in) {
    switch (in->type) {
    case THINC_POINTER_MOVE:
        if (ready(POINTER))
            post_position(in->x, in->y);
        return;
    case THINC_POINTER_MOVE_BY:
        if (ready(POINTER) && (in->x || in->y))
            post_distance(0, in->x, in->y);
        return;
    case THINC_SCROLL:
        if (!ready(POINTER))
            return;
        valuator_mask_zero(mask);
        if (in->y)
            valuator_mask_set_double(mask, 2, in->y);
        if (in->x)
            valuator_mask_set_double(mask, 3, in->x);
        if (in->x || in->y)
            xf86PostMotionEventM(devices[POINTER]->dev, Relative, mask);
        return;
    case THINC_BUTTON: post_button(in->code, in->state != 0, in->seq); return;
    case THINC_KEY:
        if (in->state == 2)
            still_held(in->code);
        else
            post_key(in->code, in->state != 0, in->seq);
        return;
    case THINC_TOUCH: post_touch(in->code, in->state, in->x, in->y); return;
    case THINC_PEN: pen_post(in); return;
    case THINC_RELEASE_ALL: release_all(); return;
    default: return; /* unknown: only from a newer session, which the ABI version excludes */
    }
}

static void read_input(InputInfoPtr device) {
    realtime_name_input_thread();
    for (int i = 0; i < BATCH; i++) {
        struct thinc_input in;
        ssize_t bytes = recv(device->fd, &in, sizeof in, MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes == (ssize_t)sizeof in) {
            post(&in);
            continue;
        }
        if (bytes == 0) {
            /* The session is gone; the main thread will see it on the control socket and close this
             * one. Stop polling the closed socket, or this thread would spin. */
            release_all();
            xf86RemoveEnabledDevice(device);
        }
        return;
    }
}

static void read_nothing(InputInfoPtr device) {}

/* ---- the devices ----------------------------------------------------------------------------- */
static void pointer_control(DeviceIntPtr device, PtrCtrl *control) {}
static void bell(int percent, DeviceIntPtr device, void *control, int feedback) {}
static void keyboard_control(DeviceIntPtr device, KeybdCtrl *control) {
    randr_set_leds((uint32_t)control->leds);
}

static Atom label(const char *name) { return XIGetKnownProperty(name); }

static bool init_pointer(DeviceIntPtr device) {
    CARD8 map[BUTTONS + 1];
    Atom labels[BUTTONS] = {0}, axes[4];
    for (int i = 0; i <= BUTTONS; i++)
        map[i] = (CARD8)i;
    labels[0] = label(BTN_LABEL_PROP_BTN_LEFT);
    labels[1] = label(BTN_LABEL_PROP_BTN_MIDDLE);
    labels[2] = label(BTN_LABEL_PROP_BTN_RIGHT);
    labels[3] = label(BTN_LABEL_PROP_BTN_WHEEL_UP);
    labels[4] = label(BTN_LABEL_PROP_BTN_WHEEL_DOWN);
    labels[5] = label(BTN_LABEL_PROP_BTN_HWHEEL_LEFT);
    labels[6] = label(BTN_LABEL_PROP_BTN_HWHEEL_RIGHT);
    labels[7] = label(BTN_LABEL_PROP_BTN_BACK);
    labels[8] = label(BTN_LABEL_PROP_BTN_FORWARD);
    /* Positions are posted as well (post_position), but an X client that reads raw motion has to
     * see a mouse: it keeps the mode of an axis that it has seen first. */
    axes[0] = label(AXIS_LABEL_PROP_REL_X);
    axes[1] = label(AXIS_LABEL_PROP_REL_Y);
    axes[2] = label(AXIS_LABEL_PROP_REL_VSCROLL);
    axes[3] = label(AXIS_LABEL_PROP_REL_HSCROLL);
    if (!InitPointerDeviceStruct(&device->public, map, BUTTONS, labels, pointer_control,
                                 GetMotionHistorySize(), 4, axes))
        return false;
    /* No limits: X then takes the values as screen pixels, whatever size the screen gets. */
    for (int i = 0; i < 4; i++)
        if (!InitValuatorAxisStruct(device, i, axes[i], NO_AXIS_LIMITS, NO_AXIS_LIMITS, 0, 0, 0,
                                    Relative))
            return false;
    return SetScrollValuator(device, 2, SCROLL_TYPE_VERTICAL, NOTCH, SCROLL_FLAG_PREFERRED) &&
           SetScrollValuator(device, 3, SCROLL_TYPE_HORIZONTAL, NOTCH, SCROLL_FLAG_NONE);
}

static XkbRMLVOSet keymap = {.rules = (char *)"evdev",
                             .model = (char *)"pc105",
                             .layout = (char *)"us",
                             .variant = (char *)"",
                             .options = (char *)""};

static bool init_keyboard(DeviceIntPtr device) {
    return InitKeyboardDeviceStruct(device, &keymap, bell, keyboard_control);
}

static bool init_touch(DeviceIntPtr device) {
    CARD8 map[2] = {0, 1};
    Atom labels[1] = {label(BTN_LABEL_PROP_BTN_LEFT)};
    Atom axes[2] = {label(AXIS_LABEL_PROP_ABS_MT_POSITION_X),
                    label(AXIS_LABEL_PROP_ABS_MT_POSITION_Y)};
    if (!InitPointerDeviceStruct(&device->public, map, 1, labels, pointer_control,
                                 GetMotionHistorySize(), 2, axes))
        return false;
    for (int i = 0; i < 2; i++)
        if (!InitValuatorAxisStruct(device, i, axes[i], NO_AXIS_LIMITS, NO_AXIS_LIMITS, 0, 0, 0,
                                    Absolute))
            return false;
    return InitTouchClassDeviceStruct(device, TOUCHES, XIDirectTouch, 2);
}

static bool init_pen(DeviceIntPtr device) { return pen_init(device, false); }
static bool init_eraser(DeviceIntPtr device) { return pen_init(device, true); }

static enum kind kind_of(InputInfoPtr device) {
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(device->name, names[kind]) == 0)
            return (enum kind)kind;
    return KINDS;
}

static int device_control(DeviceIntPtr device, int what) {
    static bool (*const init[KINDS])(DeviceIntPtr) = {init_pointer, init_keyboard, init_touch,
                                                      init_pen, init_eraser};
    InputInfoPtr info = device->public.devicePrivate;
    enum kind kind = kind_of(info);
    if (kind == KINDS)
        return BadValue;
    switch (what) {
    case DEVICE_INIT: return init[kind](device) ? Success : BadAlloc;
    case DEVICE_ON:
        device->public.on = TRUE;
        enabled[kind] = true;
        if (kind == PEN || kind == ERASER)
            pen_enable(device, kind == ERASER);
        if (kind == POINTER && socket_fd >= 0) {
            info->fd = socket_fd;
            xf86AddEnabledDevice(info);
        }
        return Success;
    case DEVICE_OFF:
    case DEVICE_CLOSE:
        if (kind == POINTER && info->fd >= 0) {
            xf86RemoveEnabledDevice(info);
            info->fd = -1;
        }
        if (kind == PEN || kind == ERASER)
            pen_enable(NULL, kind == ERASER);
        device->public.on = FALSE;
        enabled[kind] = false;
        return Success;
    default: return BadValue;
    }
}

static int pre_init(InputDriverPtr driver, InputInfoPtr info, int flags) {
    enum kind kind = kind_of(info);
    if (kind == KINDS)
        return BadValue;
    /* The last two are those of the wacom driver. */
    static char *types[KINDS] = {XI_MOUSE, XI_KEYBOARD, XI_TOUCHSCREEN, "STYLUS", "ERASER"};
    info->type_name = types[kind];
    info->device_control = device_control;
    info->read_input = kind == POINTER ? read_input : read_nothing;
    info->fd = -1;
    info->private = NULL; /* freed by X */
    devices[kind] = info;
    return Success;
}

static void un_init(InputDriverPtr driver, InputInfoPtr info, int flags) {
    input_lock();
    for (int kind = 0; kind < KINDS; kind++) {
        if (devices[kind] == info) {
            devices[kind] = NULL;
            enabled[kind] = false;
        }
    }
    input_unlock();
    xf86DeleteInput(info, flags);
}

static InputDriverRec driver = {1, DRIVER_NAME, NULL, pre_init, un_init, NULL, NULL, 0};

void input_register(void *module) { xf86AddInputDriver(&driver, module, 0); }

static Bool create_devices(ClientPtr client, void *closure) {
    /* Not earlier: X assigns the opcodes of extensions after the screens exist. */
    ExtensionEntry *xinput = CheckExtension("XInputExtension");
    xinput_opcode = xinput ? xinput->base : -1;
    for (int kind = 0; kind < KINDS; kind++) {
        InputOption *options = input_option_new(NULL, "identifier", names[kind]);
        options = input_option_new(options, "driver", DRIVER_NAME);
        /* Positions and scroll distances are exact: no acceleration. */
        options = input_option_new(options, "AccelerationScheme", "none");
        DeviceIntPtr device = NULL;
        input_lock();
        int error = NewInputDeviceRequest(options, NULL, &device);
        input_unlock();
        input_option_free_list(&options);
        /* Each repeats on its own: the master keyboard for most clients, ours for clients of XInput
         * that listen to it alone. */
        DeviceIntPtr master = device ? GetMaster(device, MASTER_KEYBOARD) : NULL;
        for (int i = 0; kind == KEYBOARD && i < 2; i++) {
            DeviceIntPtr keyboard = i ? master : device;
            if (keyboard && keyboard->key)
                keyboard->key->xkbInfo->checkRepeat = may_repeat;
        }
        if (error != Success)
            LogMessageVerb(X_ERROR, 0, "thinc: cannot create the input device \"%s\": X error %d\n",
                           names[kind], error);
    }
    return TRUE;
}

void input_init(void) {
    /* Until our keyboard's first event, the master keyboard has its own keymap. With another one, a
     * session that reads it early would find Page Down in place of Right Control. */
    XkbSetRulesDflts(&keymap);
    memset(keys, 0, sizeof keys);
    memset(touches, 0, sizeof touches);
    buttons = 0;
    if (!mask)
        mask = valuator_mask_new(4);
    DeleteCallback(&EventCallback, event_written, NULL);
    AddCallback(&EventCallback, event_written, NULL);
    /* X creates its own devices after this; ours are added at the first iteration of the main loop,
     * as if plugged in. */
    QueueWorkProc(create_devices, NULL, NULL);
}

/* ---- attaching ------------------------------------------------------------------------------- */
int input_attach(void) {
    int pair[2];
    input_detach();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;
    input_lock();
    socket_fd = pair[0];
    press_tail = press_head;
    if (ready(POINTER)) {
        devices[POINTER]->fd = socket_fd;
        xf86AddEnabledDevice(devices[POINTER]);
    }
    input_unlock();
    return pair[1];
}

void input_detach(void) {
    if (socket_fd < 0)
        return;
    input_lock();
    if (devices[POINTER] && devices[POINTER]->fd == socket_fd) {
        xf86RemoveEnabledDevice(devices[POINTER]);
        devices[POINTER]->fd = -1;
    }
    release_all();
    input_unlock();
    close(socket_fd);
    socket_fd = -1;
}
