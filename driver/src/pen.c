/* Path back: beside input.c, from pen samples, to X clients.
 * Two devices, a pen and its eraser, since toolkits know tools by their device: by its name (GTK,
 * Qt, SDL), by its axes' labels, and by the properties of the wacom driver, which say which tool is
 * near the tablet. Knows X's devices and one pen; never viewers. */
#include "thinc.h"

#include <X11/Xatom.h>
#include <X11/extensions/XI.h>

#include <exevents.h>
#include <inputstr.h>
#include <xf86Xinput.h>
#include <xserver-properties.h>

/* Positions along each edge of the screen. X scales them to its size, and so does Qt, which needs
 * an axis with limits: 1/64 of a pixel where the screen is widest. */
#define POSITIONS (THINC_SCREEN_MAX * THINC_PEN_FRACTION)
/* Degrees, as the drivers wacom and libinput have them. */
#define TILT_MIN (-64)
#define TILT_MAX 63
#define BUTTONS 3

enum { X_AXIS, Y_AXIS, PRESSURE, TILT_X, TILT_Y, AXES };

static struct tool {
    DeviceIntPtr device; /* NULL: off */
    bool near;           /* input thread */
    uint32_t buttons;
    struct thinc_input last;
    /* What the property says. Main thread. */
    bool shown_near;
} tools[2]; /* the pen, and its eraser */

static ValuatorMask *mask; /* input thread, or main thread under input_lock */

/* ---- which tool is near: main thread --------------------------------------------------------- */
/* As the wacom driver numbers tools that have no number of their own. */
static const uint32_t tool_ids[2] = {0x02, 0x0a};
#define TOOL_SERIAL 1

/* The wacom driver's property: the tablet, the last tool and the one that is near, each with serial
 * number and ID. Qt and SDL take it for proximity. GTK has a GdkDeviceTool from it, without which
 * its GtkGestureStylus ignores a pen. */
static void show_near(struct tool *tool, bool near, bool send) {
    uint32_t id = tool_ids[tool - tools];
    uint32_t ids[5] = {0, TOOL_SERIAL, id, near ? TOOL_SERIAL : 0, near ? id : 0};
    tool->shown_near = near;
    Atom property = MakeAtom("Wacom Serial IDs", 16, TRUE);
    XIChangeDeviceProperty(tool->device, property, XA_INTEGER, 32, PropModeReplace, 5, ids, send);
    if (!send)
        XISetDevicePropertyDeletable(tool->device, property, FALSE);
}

/* X calls this before it delivers an event of any device. An event of a tool means that it was
 * near, and clients hear of that before they get the event. That it has left, they hear once X has
 * processed that too: the input thread may be far ahead. */
static void event_processed(CallbackListPtr *list, void *closure, void *data) {
    const DeviceEventInfoRec *info = data;
    for (int i = 0; i < 2; i++) {
        if (tools[i].device != info->device || !info->device || tools[i].shown_near)
            continue;
        if (tools[!i].device && tools[!i].shown_near)
            show_near(&tools[!i], false, true);
        show_near(&tools[i], true, true);
    }
}

void pen_report(void) {
    for (int i = 0; i < 2; i++) {
        DeviceIntPtr device = tools[i].device;
        /* While a client has the device frozen, X keeps its events for later. */
        if (device && tools[i].shown_near && !device->proximity->in_proximity &&
            !device->deviceGrab.sync.frozen)
            show_near(&tools[i], false, true);
    }
}

/* ---- posting: on X's input thread, or under input_lock --------------------------------------- */
/* Every event has all axes: SDL takes one that is missing for 0. */
static void fill_mask(const struct thinc_input *in) {
    double scale = POSITIONS / (double)THINC_PEN_FRACTION;
    /* A whole pixel that X scales back is never a little less: X would take the one before. */
    double above = 1e-4;
    valuator_mask_zero(mask);
    valuator_mask_set_double(mask, X_AXIS, (in->x + above) * scale / screenInfo.width);
    valuator_mask_set_double(mask, Y_AXIS, (in->y + above) * scale / screenInfo.height);
    valuator_mask_set(mask, PRESSURE, (int)min(in->pressure, THINC_PEN_PRESSURE_MAX));
    valuator_mask_set(mask, TILT_X, max(TILT_MIN, min(TILT_MAX, in->tilt_x)));
    valuator_mask_set(mask, TILT_Y, max(TILT_MIN, min(TILT_MAX, in->tilt_y)));
}

static void post_buttons(struct tool *tool, uint32_t buttons, uint32_t seq) {
    for (int button = 1; button <= BUTTONS; button++) {
        uint32_t bit = 1u << (button - 1);
        if (((buttons ^ tool->buttons) & bit) == 0)
            continue;
        if (buttons & bit)
            input_queue_press(seq, (uint32_t)button);
        xf86PostButtonEventM(tool->device, Absolute, button, (buttons & bit) != 0, mask);
    }
    tool->buttons = buttons;
}

static void post_proximity(struct tool *tool, bool near) {
    tool->near = near;
    xf86PostProximityEventM(tool->device, near, mask);
}

/* The tool leaves where it was seen last. */
static void leave(struct tool *tool) {
    if (!tool->device || !tool->near)
        return;
    tool->last.pressure = 0;
    fill_mask(&tool->last);
    if (tool->buttons) {
        xf86PostMotionEventM(tool->device, Absolute, mask);
        post_buttons(tool, 0, 0);
    }
    post_proximity(tool, false);
}

void pen_post(const struct thinc_input *in) {
    bool eraser = (in->state & THINC_PEN_ERASER) != 0;
    struct tool *tool = &tools[eraser];
    leave(&tools[!eraser]);
    if (!(in->state & THINC_PEN_NEAR)) {
        leave(tool);
        return;
    }
    if (!tool->device)
        return;
    tool->last = *in;
    fill_mask(in);
    if (!tool->near)
        post_proximity(tool, true);
    /* X merges no motions that have raw events between them: clients get every sample. */
    xf86PostMotionEventM(tool->device, Absolute, mask);
    post_buttons(tool, in->state & THINC_PEN_BUTTONS, in->seq);
}

void pen_release(void) {
    for (int i = 0; i < 2; i++)
        leave(&tools[i]);
}

/* ---- the devices: main thread ---------------------------------------------------------------- */
static void pen_control(DeviceIntPtr device, PtrCtrl *control) {}

static Atom label(const char *name) { return XIGetKnownProperty(name); }

bool pen_init(DeviceIntPtr device, bool eraser) {
    CARD8 map[BUTTONS + 1] = {0, 1, 2, 3};
    Atom labels[BUTTONS] = {label(BTN_LABEL_PROP_BTN_TOUCH), label(BTN_LABEL_PROP_BTN_STYLUS),
                            label(BTN_LABEL_PROP_BTN_STYLUS2)};
    Atom axes[AXES] = {label(AXIS_LABEL_PROP_ABS_X), label(AXIS_LABEL_PROP_ABS_Y),
                       label(AXIS_LABEL_PROP_ABS_PRESSURE), label(AXIS_LABEL_PROP_ABS_TILT_X),
                       label(AXIS_LABEL_PROP_ABS_TILT_Y)};
    static const struct {
        int min, max;
    } limits[AXES] = {{0, POSITIONS - 1},
                      {0, POSITIONS - 1},
                      {0, THINC_PEN_PRESSURE_MAX},
                      {TILT_MIN, TILT_MAX},
                      {TILT_MIN, TILT_MAX}};
    if (!InitPointerDeviceStruct(&device->public, map, BUTTONS, labels, pen_control,
                                 GetMotionHistorySize(), AXES, axes))
        return false;
    for (int i = 0; i < AXES; i++)
        if (!InitValuatorAxisStruct(device, i, axes[i], limits[i].min, limits[i].max, 1, 1, 1,
                                    Absolute))
            return false;
    /* For clients of XInput 1, such as GTK 2. */
    if (!InitProximityClassDeviceStruct(device))
        return false;
    Atom property = MakeAtom("Wacom Tool Type", 15, TRUE);
    Atom type = eraser ? MakeAtom("ERASER", 6, TRUE) : MakeAtom("STYLUS", 6, TRUE);
    XIChangeDeviceProperty(device, property, XA_ATOM, 32, PropModeReplace, 1, &type, FALSE);
    XISetDevicePropertyDeletable(device, property, FALSE);
    tools[eraser].device = device;
    show_near(&tools[eraser], false, false);
    tools[eraser].device = NULL;
    return true;
}

void pen_enable(DeviceIntPtr device, bool eraser) {
    if (!mask)
        mask = valuator_mask_new(AXES);
    DeleteCallback(&DeviceEventCallback, event_processed, NULL);
    AddCallback(&DeviceEventCallback, event_processed, NULL);
    input_lock();
    tools[eraser] = (struct tool){.device = device};
    input_unlock();
}
