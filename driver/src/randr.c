/* Path 1/13: from the session's SET_OUTPUTS and X clients' RandR requests, to the geometry block.
 * A fixed pool of 16 outputs that are plugged and unplugged but never destroyed (clients die with BadRROutput otherwise),
 * any size from 1x1 to 16384x16384. Knows monitors; never who looks at them. */
#include "thinc.h"

#include <stdio.h>
#include <string.h>

#include <randrstr.h>
#include <xf86RandR12.h>

/* What the session wants each output to be; 0 x 0: unplugged. */
static struct thinc_output wanted[THINC_OUTPUTS];
static bool changed;
static uint32_t leds;

/* Sizes that X clients may choose besides the session's: what their settings dialogs expect to offer. */
static const struct {
    uint16_t width, height;
} common_sizes[] = {
    {3840, 2160}, {2560, 1600}, {2560, 1440}, {1920, 1200}, {1920, 1080}, {1680, 1050}, {1600, 1200}, {1600, 900},
    {1440, 900},  {1366, 768},  {1280, 1024}, {1280, 800},  {1280, 720},  {1024, 768},  {800, 600},   {640, 480},
};

void randr_changed(void) { changed = true; }

void randr_set_leds(uint32_t state) {
    if (state != leds) {
        leds = state;
        changed = true;
    }
}

/* ---- modes -------------------------------------------------------------------------------------------------------- */

/* No signal leaves this machine: blanking is a token, and the rate only informs. */
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
    /* 60 Hz, or less where the dot clock in Hz would not fit RandR's 32 bits. */
    int64_t khz = (int64_t)mode->HTotal * mode->VTotal * 60 / 1000;
    mode->Clock = khz > 4000000 ? 4000000 : khz < 1 ? 1 : (int)khz;
    mode->type = M_T_DRIVER | (preferred ? M_T_PREFERRED : 0);
    xf86SetModeDefaultName(mode);
    xf86SetModeCrtc(mode, 0);
    return mode;
}

/* ---- crtcs: hold a mode and a place --------------------------------------------------------------------------------- */
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
static void crtc_gamma(xf86CrtcPtr crtc, CARD16 *red, CARD16 *green, CARD16 *blue, int size) {}
static void crtc_destroy(xf86CrtcPtr crtc) {}

static const xf86CrtcFuncsRec crtc_funcs = {
    .dpms = crtc_dpms,
    .lock = crtc_nothing,
    .gamma_set = crtc_gamma,
    .set_mode_major = crtc_set_mode,
    .set_origin = crtc_set_origin,
    .destroy = crtc_destroy,
};

/* ---- outputs: plugged when wanted ----------------------------------------------------------------------------------- */
static size_t output_index(xf86OutputPtr output) { return (size_t)(uintptr_t)output->driver_private; }

static xf86OutputStatus output_detect(xf86OutputPtr output) {
    return wanted[output_index(output)].width ? XF86OutputStatusConnected : XF86OutputStatusDisconnected;
}

static DisplayModePtr output_get_modes(xf86OutputPtr output) {
    const struct thinc_output *want = &wanted[output_index(output)];
    if (!want->width)
        return NULL;
    DisplayModePtr modes = new_mode(want->width, want->height, true);
    for (size_t i = 0; i < sizeof common_sizes / sizeof common_sizes[0]; i++)
        if (common_sizes[i].width != want->width || common_sizes[i].height != want->height)
            modes = xf86ModesAdd(modes, new_mode(common_sizes[i].width, common_sizes[i].height, false));
    output->mm_width = (int)want->mm_width;
    output->mm_height = (int)want->mm_height;
    return modes;
}

static int output_mode_valid(xf86OutputPtr output, DisplayModePtr mode) {
    return mode->HDisplay <= (int)THINC_SCREEN_MAX && mode->VDisplay <= (int)THINC_SCREEN_MAX ? MODE_OK : MODE_BAD;
}

static void output_dpms(xf86OutputPtr output, int mode) {}
static void output_destroy(xf86OutputPtr output) {}
static Bool output_set_property(xf86OutputPtr output, Atom property, RRPropertyValuePtr value) { return TRUE; }
static Bool output_get_property(xf86OutputPtr output, Atom property) { return TRUE; }

static const xf86OutputFuncsRec output_funcs = {
    .dpms = output_dpms,
    .mode_valid = output_mode_valid,
    .detect = output_detect,
    .get_modes = output_get_modes,
    .set_property = output_set_property,
    .get_property = output_get_property,
    .destroy = output_destroy,
};

/* ---- the screen ------------------------------------------------------------------------------------------------------ */
static Bool resize(ScrnInfoPtr scrn, int width, int height) {
    if (width < 1 || height < 1 || width > (int)THINC_SCREEN_MAX || height > (int)THINC_SCREEN_MAX)
        return FALSE;
    /* xrandr can ask for 16384x16384, and every viewer would have to leave. */
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

/* Of `pixels` where so many millimetres are so many pixels; at most 100 metres, as of an output. */
static uint32_t scaled_mm(int pixels, uint32_t mm, uint32_t of) {
    uint64_t scaled = ((uint64_t)pixels * mm + of / 2) / of;
    return scaled < 1 ? 1 : scaled > 100000 ? 100000 : (uint32_t)scaled;
}

/* 96 dots an inch where the session does not know. */
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

/* The geometry block, from what X holds, so that clients' changes count as much as the session's. */
void randr_publish(bool always) {
    struct thinc_geometry *shared = ring_geometry();
    if (!shared || !thinc.scrn || (!always && !changed && shared->generation == thinc.fb_generation))
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
    for (int i = 0; i < config->num_crtc && i < (int)THINC_OUTPUTS; i++) {
        xf86CrtcPtr crtc = config->crtc[i];
        if (!crtc->enabled)
            continue;
        now.outputs[now.output_count++] = (struct thinc_output){
            .x = crtc->x,
            .y = crtc->y,
            .width = (uint32_t)crtc->mode.HDisplay,
            .height = (uint32_t)crtc->mode.VDisplay,
            .mm_width = wanted[i].mm_width,
            .mm_height = wanted[i].mm_height,
        };
    }
    now.seq = shared->seq;
    now.serial = shared->serial;
    if (!always && memcmp(&now, shared, sizeof now) == 0)
        return;
    block_begin(&shared->seq);
    now.seq = shared->seq;
    now.serial++;
    *shared = now;
    block_end(&shared->seq);
    ring_note(THINC_GEOMETRY, 0, (uint32_t[2]){thinc.fb_generation, 0}, 0);
}

static RRModePtr find_mode(RROutputPtr output, uint32_t width, uint32_t height) {
    for (int i = 0; i < output->numModes; i++)
        if (output->modes[i]->mode.width == width && output->modes[i]->mode.height == height)
            return output->modes[i];
    return NULL;
}

const char *randr_apply(const struct thinc_output *outputs, uint32_t count) {
    int width = 0, height = 0;
    if (!thinc.screen || !thinc.scrn)
        return "the X server is between two generations";
    if (count == 0 || count > THINC_OUTPUTS)
        return "a screen has 1 to 16 outputs";
    for (uint32_t i = 0; i < count; i++) {
        const struct thinc_output *o = &outputs[i];
        if (o->width < 1 || o->height < 1 || o->width > THINC_SCREEN_MAX || o->height > THINC_SCREEN_MAX)
            return "an output is 1 to 16384 pixels wide and high";
        if (o->x < 0 || o->y < 0 || (uint32_t)o->x > THINC_SCREEN_MAX - o->width || (uint32_t)o->y > THINC_SCREEN_MAX - o->height)
            return "an output lies outside of the largest screen, 16384x16384";
        if (o->mm_width > 100000 || o->mm_height > 100000)
            return "an output is at most 100 metres wide and high";
        width = o->x + (int)o->width > width ? o->x + (int)o->width : width;
        height = o->y + (int)o->height > height ? o->y + (int)o->height : height;
    }
    if ((uint64_t)width * (uint64_t)height > THINC_SCREEN_AREA_MAX)
        return "a screen has at most 64 Mi pixels";
    ScreenPtr screen = thinc.screen;
    xf86CrtcConfigPtr config = XF86_CRTC_CONFIG_PTR(thinc.scrn);
    for (uint32_t i = 0; i < THINC_OUTPUTS; i++) {
        wanted[i] = i < count ? outputs[i] : (struct thinc_output){0};
        default_size_mm(&wanted[i]);
    }
    if (!RRGetInfo(screen, TRUE))
        return "RandR cannot list the outputs";
    for (uint32_t i = count; i < THINC_OUTPUTS; i++) {
        RRCrtcPtr crtc = config->crtc[i]->randr_crtc;
        if (crtc && crtc->mode && !RRCrtcSet(crtc, NULL, 0, 0, RR_Rotate_0, 0, NULL))
            return "RandR cannot switch an output off";
    }
    /* As many dots an inch as the first output has: what clients see that look no further. */
    uint32_t mm_width = scaled_mm(width, wanted[0].mm_width, wanted[0].width);
    uint32_t mm_height = scaled_mm(height, wanted[0].mm_height, wanted[0].height);
    if (screen->width != width || screen->height != height || screen->mmWidth != (int)mm_width || screen->mmHeight != (int)mm_height) {
        if (!RRScreenSizeSet(screen, (CARD16)width, (CARD16)height, mm_width, mm_height))
            return "there is no memory for a framebuffer of that size";
    }
    for (uint32_t i = 0; i < count; i++) {
        RRCrtcPtr crtc = config->crtc[i]->randr_crtc;
        RROutputPtr output = config->output[i]->randr_output;
        RRModePtr mode = output ? find_mode(output, wanted[i].width, wanted[i].height) : NULL;
        if (!crtc || !mode)
            return "RandR does not know the mode of an output";
        if (!RRCrtcSet(crtc, mode, wanted[i].x, wanted[i].y, RR_Rotate_0, 1, &output))
            return "RandR cannot set the mode of an output";
    }
    /* The first is where desktops put their panel. RandR has no call for it but its clients'. */
    rrScrPrivPtr private = rrGetScrPriv(screen);
    if (private->primaryOutput != config->output[0]->randr_output) {
        private->primaryOutput = config->output[0]->randr_output;
        private->layoutChanged = TRUE;
    }
    RRTellChanged(screen);
    randr_publish(false);
    return NULL;
}
