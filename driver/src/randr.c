/* Path 1/13: from the session's SET_OUTPUTS and X clients' RandR requests, to the geometry block.
 * A fixed pool of 16 outputs that are connected and disconnected but never destroyed (X clients
 * would die of BadRROutput), each of any size from 1x1 to 16384x16384. What an X client changes is
 * made whole or undone. Knows monitors; never viewers. */
#include "thinc.h"

#include <stdio.h>
#include <string.h>

#include <X11/Xatom.h>
#include <X11/Xproto.h>
#include <dixstruct.h>
#include <randrstr.h>
#include <xf86RandR12.h>

/* The session's request for each output; 0 x 0: disconnected. */
static struct thinc_output wanted[THINC_OUTPUTS];
static bool changed;
static uint32_t leds;

/* Sizes that X clients may choose besides the session's: settings dialogs expect them. */
static const struct {
    uint16_t width, height;
} common_sizes[] = {
    {3840, 2160}, {2560, 1600}, {2560, 1440}, {1920, 1200}, {1920, 1080}, {1680, 1050},
    {1600, 1200}, {1600, 900},  {1440, 900},  {1366, 768},  {1280, 1024}, {1280, 800},
    {1280, 720},  {1024, 768},  {800, 600},   {640, 480},
};

void randr_changed(void) { changed = true; }

void randr_set_leds(uint32_t state) {
    if (state != leds) {
        leds = state;
        changed = true;
    }
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* There is no video signal: blanking is nominal, and the refresh rate is only informative. */
static DisplayModePtr new_mode(uint32_t width, uint32_t height, bool preferred) {
    DisplayModePtr mode = XNFcallocarray(1, sizeof *mode);
    mode->HDisplay = (int)width;
    mode->HSyncStart = mode->HDisplay + 8;
    mode->HSyncEnd = mode->HDisplay + 16;
    mode->HTotal = mode->HDisplay + 24;
    mode->VDisplay = (int)height;
    mode->VSyncStart = mode->VDisplay + 2;
    mode->VSyncEnd = mode->VDisplay + 4;
    mode->VTotal = mode->VDisplay + 8;
    /* 60 Hz, or less if the dot clock in Hz would exceed RandR's 32 bits. */
    int64_t khz = (int64_t)mode->HTotal * mode->VTotal * 60 / 1000;
    mode->Clock = khz > 4000000 ? 4000000 : khz < 1 ? 1 : (int)khz;
    mode->type = M_T_DRIVER | (preferred ? M_T_PREFERRED : 0);
    xf86SetModeDefaultName(mode);
    xf86SetModeCrtc(mode, 0);
    return mode;
}

/* ---- CRTCs: a mode and a position ------------------------------------------------------------ */
static void crtc_dpms(xf86CrtcPtr crtc, int mode) { changed = true; }

static Bool crtc_set_mode(xf86CrtcPtr crtc, DisplayModePtr mode, Rotation rotation, int x, int y) {
    if (rotation != RR_Rotate_0)
        return FALSE;
    crtc->mode = *mode;
    crtc->x = x;
    crtc->y = y;
    crtc->rotation = rotation;
    changed = true;
    return TRUE;
}

static void crtc_set_origin(xf86CrtcPtr crtc, int x, int y) {
    crtc->x = x;
    crtc->y = y;
    changed = true;
}

static Bool crtc_nothing(xf86CrtcPtr crtc) { return FALSE; }

/* X has stored the ramps in the CRTC. */
static void crtc_gamma(xf86CrtcPtr crtc, CARD16 *red, CARD16 *green, CARD16 *blue, int size) {
    changed = true;
}

static void crtc_destroy(xf86CrtcPtr crtc) {}

static const xf86CrtcFuncsRec crtc_funcs = {
    .dpms = crtc_dpms,
    .lock = crtc_nothing,
    .gamma_set = crtc_gamma,
    .set_mode_major = crtc_set_mode,
    .set_origin = crtc_set_origin,
    .destroy = crtc_destroy,
};

/* ---- outputs: connected if requested --------------------------------------------------------- */
static size_t output_index(xf86OutputPtr output) {
    return (size_t)(uintptr_t)output->driver_private;
}

static xf86OutputStatus output_detect(xf86OutputPtr output) {
    return wanted[output_index(output)].width ? XF86OutputStatusConnected
                                              : XF86OutputStatusDisconnected;
}

static DisplayModePtr output_get_modes(xf86OutputPtr output) {
    const struct thinc_output *want = &wanted[output_index(output)];
    if (!want->width)
        return NULL;
    DisplayModePtr modes = new_mode(want->width, want->height, true);
    for (size_t i = 0; i < sizeof common_sizes / sizeof common_sizes[0]; i++)
        if (common_sizes[i].width != want->width || common_sizes[i].height != want->height)
            modes =
                xf86ModesAdd(modes, new_mode(common_sizes[i].width, common_sizes[i].height, false));
    output->mm_width = (int)want->mm_width;
    output->mm_height = (int)want->mm_height;
    return modes;
}

static int output_mode_valid(xf86OutputPtr output, DisplayModePtr mode) {
    return mode->HDisplay <= (int)THINC_SCREEN_MAX && mode->VDisplay <= (int)THINC_SCREEN_MAX
               ? MODE_OK
               : MODE_BAD;
}

/* ---- what desktops read from an output ------------------------------------------------------- */
/* GNOME's window manager (mutter, and those made from it) takes a changed list of modes for another
 * monitor, and applies the configuration again that it has stored for it, unless the output is a
 * virtual machine's: `hotplug_mode_update` says that the preferred mode is the size that is wanted
 * now, `suggested X` and `suggested Y` where the output belongs. Set before any X client connects:
 * mutter looks when it starts. */
static void set_property(RROutputPtr output, const char *name, int32_t value) {
    Atom atom = MakeAtom(name, (unsigned)strlen(name), TRUE);
    RRChangeOutputProperty(output, atom, XA_INTEGER, 32, PropModeReplace, 1, &value, TRUE, FALSE);
}

static void output_create_resources(xf86OutputPtr output) {
    const struct thinc_output *want = &wanted[output_index(output)];
    set_property(output->randr_output, "hotplug_mode_update", 1);
    set_property(output->randr_output, "suggested X", want->x);
    set_property(output->randr_output, "suggested Y", want->y);
}

static void output_dpms(xf86OutputPtr output, int mode) {}
static void output_destroy(xf86OutputPtr output) {}
static Bool output_set_property(xf86OutputPtr output, Atom property, RRPropertyValuePtr value) {
    return TRUE;
}
static Bool output_get_property(xf86OutputPtr output, Atom property) { return TRUE; }

static const xf86OutputFuncsRec output_funcs = {
    .create_resources = output_create_resources,
    .dpms = output_dpms,
    .mode_valid = output_mode_valid,
    .detect = output_detect,
    .get_modes = output_get_modes,
    .set_property = output_set_property,
    .get_property = output_get_property,
    .destroy = output_destroy,
};

/* ---- the screen ------------------------------------------------------------------------------ */
static Bool resize(ScrnInfoPtr scrn, int width, int height) {
    if (width < 1 || height < 1 || width > (int)THINC_SCREEN_MAX || height > (int)THINC_SCREEN_MAX)
        return FALSE;
    /* xrandr can request 16384x16384, which no viewer accepts. */
    if ((uint64_t)width * (uint64_t)height > THINC_SCREEN_AREA_MAX)
        return FALSE;
    if (width == scrn->virtualX && height == scrn->virtualY)
        return TRUE;
    ScreenPtr screen = thinc.screen;
    if (!screen || !screen_framebuffer((uint32_t)width, (uint32_t)height))
        return FALSE;
    scrn->virtualX = width;
    scrn->virtualY = height;
    scrn->displayWidth = (int)(thinc.fb_stride / 4);
    randr_publish(true);
    return TRUE;
}

static uint32_t mm_of(uint32_t pixels) { return (uint32_t)(pixels * 25.4 / 96 + 0.5); }

/* Millimetres of `pixels` if `mm` millimetres are `of` pixels; at most 100 metres, as for an
 * output. */
static uint32_t scaled_mm(int pixels, uint32_t mm, uint32_t of) {
    uint64_t scaled = ((uint64_t)pixels * mm + of / 2) / of;
    return scaled < 1 ? 1 : scaled > 100000 ? 100000 : (uint32_t)scaled;
}

/* 96 dots per inch if the session does not know the size. */
static void default_size_mm(struct thinc_output *output) {
    if (!output->mm_width)
        output->mm_width = mm_of(output->width);
    if (!output->mm_height)
        output->mm_height = mm_of(output->height);
}

static const xf86CrtcConfigFuncsRec config_funcs = {.resize = resize};

bool randr_pre_init(ScrnInfoPtr scrn, uint32_t width, uint32_t height) {
    xf86CrtcConfigInit(scrn, &config_funcs);
    xf86CrtcSetSizeRange(scrn, 1, 1, THINC_SCREEN_MAX, THINC_SCREEN_MAX);
    memset(wanted, 0, sizeof wanted);
    wanted[0] = (struct thinc_output){.width = width, .height = height};
    default_size_mm(&wanted[0]);
    for (uintptr_t i = 0; i < THINC_OUTPUTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "THINC-%d", (int)i);
        xf86CrtcPtr crtc = xf86CrtcCreate(scrn, &crtc_funcs);
        xf86OutputPtr output = xf86OutputCreate(scrn, &output_funcs, name);
        if (!crtc || !output)
            return false;
        output->driver_private = (void *)i;
        output->possible_crtcs = 1u << i;
        output->possible_clones = 0;
        output->subpixel_order = SubPixelHorizontalRGB;
    }
    return xf86InitialConfiguration(scrn, TRUE);
}

static void publish_geometry(struct thinc_geometry *shared, struct thinc_geometry now,
                             bool always) {
    now.seq = shared->seq;
    now.serial = shared->serial;
    if (!always && memcmp(&now, shared, sizeof now) == 0)
        return;
    block_begin(&shared->seq);
    now.seq = shared->seq;
    now.serial++;
    *shared = now;
    block_end(&shared->seq);
    ring_publish_event(THINC_GEOMETRY, 0, (uint32_t[2]){thinc.fb_generation, 0}, 0);
}

/* Writes the geometry and gamma blocks from X's state, so that changes by X clients count as
 * well. */
void randr_publish(bool always) {
    struct thinc_geometry *shared = ring_geometry();
    if (!shared || !thinc.scrn ||
        (!always && !changed && shared->generation == thinc.fb_generation))
        return;
    changed = false;
    xf86CrtcConfigPtr config = XF86_CRTC_CONFIG_PTR(thinc.scrn);
    struct thinc_geometry now = {
        .generation = thinc.fb_generation,
        .width = thinc.fb_width,
        .height = thinc.fb_height,
        .stride_bytes = thinc.fb_stride,
        .leds = leds,
    };
    xf86CrtcPtr enabled[THINC_OUTPUTS];
    for (int i = 0; i < config->num_crtc && i < (int)THINC_OUTPUTS; i++) {
        xf86CrtcPtr crtc = config->crtc[i];
        if (!crtc->enabled)
            continue;
        /* A monitor that pans over an area is that area to X clients. */
        const BoxRec *area = &crtc->panningTotalArea;
        bool pans = area->x2 > area->x1 && area->y2 > area->y1;
        enabled[now.output_count] = crtc;
        now.outputs[now.output_count++] = (struct thinc_output){
            .x = pans ? area->x1 : crtc->x,
            .y = pans ? area->y1 : crtc->y,
            .width = (uint32_t)(pans ? area->x2 - area->x1 : crtc->mode.HDisplay),
            .height = (uint32_t)(pans ? area->y2 - area->y1 : crtc->mode.VDisplay),
            .mm_width = wanted[i].mm_width,
            .mm_height = wanted[i].mm_height,
        };
    }
    publish_geometry(shared, now, always);
    gamma_publish(now.outputs, enabled, now.output_count);
}

/* ---- the whole configuration of the screen --------------------------------------------------- */
struct layout {
    int width, height, mm_width, mm_height;
    struct {
        RRMode mode; /* 0: off */
        int x, y;
    } outputs[THINC_OUTPUTS];
};

static RRMode find_mode(RROutputPtr output, uint32_t width, uint32_t height) {
    for (int i = 0; output && i < output->numModes; i++)
        if (output->modes[i]->mode.width == width && output->modes[i]->mode.height == height)
            return output->modes[i]->mode.id;
    return 0;
}

/* By its ID: X clients may have destroyed the mode meanwhile. */
static RRModePtr mode_of(RROutputPtr output, RRMode id) {
    for (int i = 0; output && i < output->numModes; i++)
        if (output->modes[i]->mode.id == id)
            return output->modes[i];
    for (int i = 0; output && i < output->numUserModes; i++)
        if (output->userModes[i]->mode.id == id)
            return output->userModes[i];
    return NULL;
}

static struct layout current_layout(void) {
    ScreenPtr screen = thinc.screen;
    xf86CrtcConfigPtr config = XF86_CRTC_CONFIG_PTR(thinc.scrn);
    struct layout layout = {screen->width, screen->height, screen->mmWidth, screen->mmHeight, {}};
    for (int i = 0; i < (int)THINC_OUTPUTS; i++) {
        RRCrtcPtr crtc = config->crtc[i]->randr_crtc;
        if (!crtc || !crtc->mode)
            continue;
        layout.outputs[i].mode = crtc->mode->mode.id;
        layout.outputs[i].x = crtc->x;
        layout.outputs[i].y = crtc->y;
    }
    return layout;
}

static bool has_monitor(const struct layout *layout) {
    for (int i = 0; i < (int)THINC_OUTPUTS; i++)
        if (layout->outputs[i].mode)
            return true;
    return false;
}

/* NULL if X has it now, otherwise an error message. */
static const char *set_layout(const struct layout *to) {
    ScreenPtr screen = thinc.screen;
    xf86CrtcConfigPtr config = XF86_CRTC_CONFIG_PTR(thinc.scrn);
    for (int i = 0; i < (int)THINC_OUTPUTS; i++) {
        RRCrtcPtr crtc = config->crtc[i]->randr_crtc;
        if (!to->outputs[i].mode && crtc && crtc->mode &&
            !RRCrtcSet(crtc, NULL, 0, 0, RR_Rotate_0, 0, NULL))
            return "RandR cannot switch an output off";
    }
    if ((screen->width != to->width || screen->height != to->height ||
         screen->mmWidth != to->mm_width || screen->mmHeight != to->mm_height) &&
        !RRScreenSizeSet(screen, (CARD16)to->width, (CARD16)to->height, (CARD32)to->mm_width,
                         (CARD32)to->mm_height))
        return "no memory for a framebuffer of that size";
    for (int i = 0; i < (int)THINC_OUTPUTS; i++) {
        if (!to->outputs[i].mode)
            continue;
        RRCrtcPtr crtc = config->crtc[i]->randr_crtc;
        RROutputPtr output = config->output[i]->randr_output;
        RRModePtr mode = mode_of(output, to->outputs[i].mode);
        if (!crtc || !mode)
            return "RandR does not know the mode of an output";
        if (!RRCrtcSet(crtc, mode, to->outputs[i].x, to->outputs[i].y, RR_Rotate_0, 1, &output))
            return "RandR cannot set the mode of an output";
    }
    return NULL;
}

/* ---- changes by X clients are made whole or not at all --------------------------------------- */
/* A change of the screen takes several requests, and each tool grabs the server for them. If a
 * request fails, the tool often ends at once (xrandr at any X error), which leaves a screen of
 * another size, or no monitor. What a client has changed when it ends within its grab is undone; so
 * is a change that leaves no monitor: nobody could see how to get one back. */
static struct layout before_grab;
static bool grabbed;
static enum undo { UNDO_NOTHING, UNDO_GRAB, UNDO_ALL } undo;

static Bool undo_change(ClientPtr client, void *closure) {
    bool all = undo == UNDO_ALL;
    if (undo == UNDO_NOTHING || !thinc.screen || !thinc.scrn)
        return TRUE;
    undo = UNDO_NOTHING;
    const char *error = all ? "no monitor" : set_layout(&before_grab);
    /* What the session asked for last. */
    if (error) {
        struct thinc_output outputs[THINC_OUTPUTS];
        memcpy(outputs, wanted, sizeof outputs);
        uint32_t count = 0;
        while (count < THINC_OUTPUTS && outputs[count].width)
            count++;
        error = randr_apply(outputs, count);
    }
    if (error)
        LogMessageVerb(X_WARNING, 0, "thinc: cannot undo a change of the monitors: %s\n", error);
    RRTellChanged(thinc.screen);
    changed = true;
    return TRUE;
}

/* Not within the callback: the client is being closed. */
static void queue_undo(enum undo what) {
    if (undo == UNDO_NOTHING && QueueWorkProc(undo_change, NULL, NULL))
        undo = what;
}

static void server_grab(CallbackListPtr *list, void *closure, void *data) {
    const ServerGrabInfoRec *info = data;
    if (!thinc.screen || !thinc.scrn)
        return;
    if (info->grabstate == SERVER_GRABBED && !grabbed) {
        undo_change(NULL, NULL);
        before_grab = current_layout();
        grabbed = true;
    } else if (info->grabstate == SERVER_UNGRABBED && grabbed) {
        grabbed = false;
        struct layout now = current_layout();
        /* X ungrabs also for a client that ends. */
        bool ended = info->client->majorOp != X_UngrabServer;
        if (has_monitor(&before_grab) && memcmp(&now, &before_grab, sizeof now) != 0 &&
            (ended || !has_monitor(&now)))
            queue_undo(UNDO_GRAB);
    }
}

static void client_state(CallbackListPtr *list, void *closure, void *data) {
    const NewClientInfoRec *info = data;
    if (!thinc.screen || !thinc.scrn || grabbed || info->client->clientState != ClientStateGone)
        return;
    struct layout now = current_layout();
    if (!has_monitor(&now))
        queue_undo(UNDO_ALL);
}

static RRSetPanningProcPtr wrapped_SetPanning;

/* Panning over an area changes no CRTC. */
static Bool set_panning(ScreenPtr screen, RRCrtcPtr crtc, BoxPtr total, BoxPtr tracking,
                        INT16 *border) {
    changed = true;
    return wrapped_SetPanning(screen, crtc, total, tracking, border);
}

/* X forgets callbacks and RandR's private when it regenerates. */
bool randr_init(void) {
    rrScrPrivPtr private = rrGetScrPriv(thinc.scrn->pScreen);
    wrapped_SetPanning = private->rrSetPanning;
    private->rrSetPanning = set_panning;
    grabbed = false;
    undo = UNDO_NOTHING;
    return AddCallback(&ServerGrabCallback, server_grab, NULL) &&
           AddCallback(&ClientStateCallback, client_state, NULL);
}

/* ---- requests of the session ----------------------------------------------------------------- */
const char *randr_apply(const struct thinc_output *outputs, uint32_t count) {
    int width = 0, height = 0;
    if (!thinc.screen || !thinc.scrn)
        return "the X server is regenerating: try again";
    if (count == 0 || count > THINC_OUTPUTS)
        return "SET_OUTPUTS needs 1 to 16 outputs";
    for (uint32_t i = 0; i < count; i++) {
        const struct thinc_output *o = &outputs[i];
        if (o->width < 1 || o->height < 1 || o->width > THINC_SCREEN_MAX ||
            o->height > THINC_SCREEN_MAX)
            return "an output must be 1 to 16384 pixels wide and high";
        if (o->x < 0 || o->y < 0 || (uint32_t)o->x > THINC_SCREEN_MAX - o->width ||
            (uint32_t)o->y > THINC_SCREEN_MAX - o->height)
            return "an output lies outside the largest possible screen, 16384x16384";
        if (o->mm_width > 100000 || o->mm_height > 100000)
            return "an output must be at most 100 metres wide and high";
        width = o->x + (int)o->width > width ? o->x + (int)o->width : width;
        height = o->y + (int)o->height > height ? o->y + (int)o->height : height;
    }
    if ((uint64_t)width * (uint64_t)height > THINC_SCREEN_AREA_MAX)
        return "the screen must have at most 64 Mi pixels";
    ScreenPtr screen = thinc.screen;
    xf86CrtcConfigPtr config = XF86_CRTC_CONFIG_PTR(thinc.scrn);
    for (uint32_t i = 0; i < THINC_OUTPUTS; i++) {
        RROutputPtr output = config->output[i]->randr_output;
        if (i < count && output && outputs[i].x != wanted[i].x)
            set_property(output, "suggested X", outputs[i].x);
        if (i < count && output && outputs[i].y != wanted[i].y)
            set_property(output, "suggested Y", outputs[i].y);
        wanted[i] = i < count ? outputs[i] : (struct thinc_output){0};
        default_size_mm(&wanted[i]);
    }
    /* It replaces what a client is changing. */
    grabbed = false;
    if (!RRGetInfo(screen, TRUE))
        return "RandR cannot list the outputs";
    /* The first output's dots per inch apply to the whole screen, for X clients that read only the
     * screen's size. */
    struct layout layout = {
        .width = width,
        .height = height,
        .mm_width = (int)scaled_mm(width, wanted[0].mm_width, wanted[0].width),
        .mm_height = (int)scaled_mm(height, wanted[0].mm_height, wanted[0].height),
    };
    for (uint32_t i = 0; i < count; i++) {
        layout.outputs[i].x = wanted[i].x;
        layout.outputs[i].y = wanted[i].y;
        layout.outputs[i].mode =
            find_mode(config->output[i]->randr_output, wanted[i].width, wanted[i].height);
        if (!layout.outputs[i].mode)
            return "RandR does not know the mode of an output";
    }
    const char *error = set_layout(&layout);
    if (error)
        return error;
    /* Desktops put their panel on the primary output, which is the first. RandR offers this only to
     * X clients, so its private fields are set. */
    rrScrPrivPtr private = rrGetScrPriv(screen);
    if (private->primaryOutput != config->output[0]->randr_output) {
        private->primaryOutput = config->output[0]->randr_output;
        private->layoutChanged = TRUE;
    }
    RRTellChanged(screen);
    randr_publish(false);
    return NULL;
}
