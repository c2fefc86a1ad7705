/* Path 1/13: from Xorg's loader, to screen.c, input.c and realtime.c.
 * One module for an unmodified Xorg: a video driver that needs no hardware and no console, and the
 * driver of the input devices. Knows Xorg's loader; never drawing. */
#include "thinc.h"

#define DRIVER_NAME "thinc"
#define DRIVER_VERSION 1

Bool screen_pre_init(ScrnInfoPtr scrn, int flags);
Bool screen_init(ScreenPtr screen, int argc, char **argv);
void screen_free(ScrnInfoPtr scrn);
Bool screen_enter_vt(ScrnInfoPtr scrn);
void screen_leave_vt(ScrnInfoPtr scrn);
Bool screen_switch_mode(ScrnInfoPtr scrn, DisplayModePtr mode);
void screen_adjust_frame(ScrnInfoPtr scrn, int x, int y);

static void identify(int flags) {
    xf86Msg(X_INFO, DRIVER_NAME ": virtual display for thinc sessions\n");
}

static Bool probe(DriverPtr driver, int flags) {
    GDevPtr *sections;
    int count = xf86MatchDevice(DRIVER_NAME, &sections);
    if (count <= 0)
        return FALSE;
    if (flags & PROBE_DETECT) {
        free(sections);
        return TRUE;
    }
    if (count > 1)
        xf86Msg(X_WARNING,
                DRIVER_NAME ": one screen per server; the other Device sections are ignored\n");
    ScrnInfoPtr scrn = xf86AllocateScreen(driver, 0);
    if (scrn) {
        int entity = xf86ClaimNoSlot(driver, 0, sections[0], TRUE);
        xf86AddEntityToScreen(scrn, entity);
        scrn->driverVersion = DRIVER_VERSION;
        scrn->driverName = DRIVER_NAME;
        scrn->name = DRIVER_NAME;
        scrn->Probe = probe;
        scrn->PreInit = screen_pre_init;
        scrn->ScreenInit = screen_init;
        scrn->SwitchMode = screen_switch_mode;
        scrn->AdjustFrame = screen_adjust_frame;
        scrn->EnterVT = screen_enter_vt;
        scrn->LeaveVT = screen_leave_vt;
        scrn->FreeScreen = screen_free;
    }
    free(sections);
    return scrn != NULL;
}

static const OptionInfoRec *available_options(int chip, int bus) {
    static const OptionInfoRec none[] = {{-1, NULL, OPTV_NONE, {0}, FALSE}};
    return none;
}

static Bool driver_func(ScrnInfoPtr scrn, xorgDriverFuncOp op, void *data) {
    switch (op) {
    case GET_REQUIRED_HW_INTERFACES:
        /* No console: an ordinary user may start this server without a VT. */
        *(xorgHWFlags *)data = HW_SKIP_CONSOLE;
        return TRUE;
    default: return FALSE;
    }
}

static DriverRec driver = {
    .driverVersion = DRIVER_VERSION,
    .driverName = DRIVER_NAME,
    .Identify = identify,
    .Probe = probe,
    .AvailableOptions = available_options,
    .driverFunc = driver_func,
};

static void *setup(void *module, void *options, int *error_major, int *error_minor) {
    static Bool done = FALSE;
    if (done) {
        *error_major = LDR_ONCEONLY;
        return NULL;
    }
    done = TRUE;
    xf86AddDriver(&driver, module, HaveDriverFuncs);
    input_register(module);
    realtime_init();
    /* Any value except NULL means success. */
    return (void *)1;
}

static XF86ModuleVersionInfo version = {
    DRIVER_NAME,
    "thinc",
    MODINFOSTRING1,
    MODINFOSTRING2,
    XORG_VERSION_CURRENT,
    0,
    1,
    0,
    ABI_CLASS_VIDEODRV,
    ABI_VIDEODRV_VERSION,
    MOD_CLASS_VIDEODRV,
    {0, 0, 0, 0},
};

_X_EXPORT XF86ModuleData thincModuleData = {&version, setup, NULL};
