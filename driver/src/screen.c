/* Path 1/13: from Xorg's start, resizes and end, to the hooks.
 * Owns the one screen: its framebuffer memfd (a new one for every size), the order in which hooks
 * are installed, and the BlockHandler that tells the session when X sleeps. Knows no drawing op. */
#include "thinc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <damage.h>
#include <dixstruct.h>
#include <micmap.h>
#include <shmint.h>
#include <xf86Opt.h>

struct thinc thinc = {.fb_fd = -1};

Bool screen_pre_init(ScrnInfoPtr scrn, int flags);
Bool screen_init(ScreenPtr screen, int argc, char **argv);
void screen_free(ScrnInfoPtr scrn);
Bool screen_enter_vt(ScrnInfoPtr scrn);
void screen_leave_vt(ScrnInfoPtr scrn);
Bool screen_switch_mode(ScrnInfoPtr scrn, DisplayModePtr mode);
void screen_adjust_frame(ScrnInfoPtr scrn, int x, int y);

enum { OPTION_SOCKET, OPTION_SIZE, OPTION_ORACLE, OPTION_PACE, OPTION_RENDER_NODE };
static const OptionInfoRec known_options[] = {
    {OPTION_SOCKET, "Socket", OPTV_STRING, {0}, FALSE},
    {OPTION_SIZE, "Size", OPTV_STRING, {0}, FALSE},
    {OPTION_ORACLE, "Oracle", OPTV_BOOLEAN, {0}, FALSE},
    {OPTION_PACE, "Pace", OPTV_BOOLEAN, {0}, FALSE},
    {OPTION_RENDER_NODE, "RenderNode", OPTV_STRING, {0}, FALSE},
    {-1, NULL, OPTV_NONE, {0}, FALSE},
};
static OptionInfoRec options[sizeof known_options / sizeof known_options[0]];

static CloseScreenProcPtr wrapped_CloseScreen;
static CreateScreenResourcesProcPtr wrapped_CreateScreenResources;
static ScreenBlockHandlerProcPtr wrapped_BlockHandler;

/* ---- the framebuffer ------------------------------------------------------------------------- */
bool screen_framebuffer(uint32_t width, uint32_t height) {
    /* Rows are aligned to cache lines, so that a viewer's tiles are too. */
    uint32_t stride = (width * 4 + 63) & ~63u;
    size_t bytes = (size_t)stride * height;
    int fd = thinc_memfd("thinc-framebuffer", bytes, 0);
    uint8_t *fb =
        fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fb == MAP_FAILED) {
        LogMessageVerb(X_ERROR, 0, "thinc: cannot allocate a framebuffer of %ux%u: %s\n", width,
                       height, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    /* From now on the session process, which gets the descriptor, can neither map it for writing
     * nor write to it. Linux before 5.1 does not know this seal. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        LogMessageVerb(X_WARNING, 1, "thinc: cannot seal the framebuffer against writing: %s\n",
                       strerror(errno));
    if (thinc.fb) {
        uint32_t rows = height < thinc.fb_height ? height : thinc.fb_height;
        uint32_t columns = width < thinc.fb_width ? width : thinc.fb_width;
        for (uint32_t y = 0; y < rows; y++)
            memcpy(fb + (size_t)y * stride, thinc.fb + (size_t)y * thinc.fb_stride,
                   (size_t)columns * 4);
    }
    uint8_t *old = thinc.fb;
    size_t old_bytes = thinc.fb_bytes;
    int old_fd = thinc.fb_fd;
    thinc.fb = fb;
    thinc.fb_fd = fd;
    thinc.fb_bytes = bytes;
    thinc.fb_stride = stride;
    thinc.fb_width = width;
    thinc.fb_height = height;
    thinc.fb_generation++;
    PixmapPtr pixmap = thinc.screen ? thinc.screen->GetScreenPixmap(thinc.screen) : NULL;
    if (pixmap)
        thinc.screen->ModifyPixmapHeader(pixmap, (int)width, (int)height, -1, -1, (int)stride, fb);
    if (old)
        munmap(old, old_bytes);
    if (old_fd >= 0)
        close(old_fd);
    control_framebuffer();
    return true;
}

/* ---- the oracle of the tests ----------------------------------------------------------------- */
/* miext/damage on the screen pixmap sees what every layer reports; tests compare our records with
 * it. */
static DamagePtr oracle;
static RegionRec oracle_region;
static uint64_t oracle_area;

static uint64_t region_area(RegionPtr region) {
    uint64_t sum = 0;
    for (int i = 0; i < RegionNumRects(region); i++) {
        const BoxRec *b = &RegionRects(region)[i];
        sum += (uint64_t)(b->x2 - b->x1) * (uint64_t)(b->y2 - b->y1);
    }
    return sum;
}

static void oracle_report(DamagePtr damage, RegionPtr region, void *closure) {
    oracle_area += region_area(region);
    RegionUnion(&oracle_region, &oracle_region, region);
}

static void oracle_publish(void) {
    struct thinc_header *header = ring_header();
    if (!oracle || !header)
        return;
    __atomic_store_n(&header->oracle_area, oracle_area, __ATOMIC_RELAXED);
    __atomic_store_n(&header->oracle_union, region_area(&oracle_region), __ATOMIC_RELAXED);
    oracle_area = 0;
    RegionEmpty(&oracle_region);
}

void screen_barrier(uint32_t id) {
    oracle_publish();
    ring_barrier(id);
}

static CloseScreenProcPtr oracle_wrapped_CloseScreen;

/* Runs before miext/damage's own CloseScreen, which frees what DamageDestroy reads. */
static Bool oracle_close_screen(ScreenPtr screen) {
    DamageUnregister(oracle);
    DamageDestroy(oracle);
    oracle = NULL;
    RegionUninit(&oracle_region);
    screen->CloseScreen = oracle_wrapped_CloseScreen;
    return screen->CloseScreen(screen);
}

/* miext/damage has wrapped CloseScreen by the time the screen's resources are created: a wrapper
 * made now is called before it. */
static bool oracle_start(ScreenPtr screen, PixmapPtr pixmap) {
    RegionNull(&oracle_region);
    oracle = DamageCreate(oracle_report, NULL, DamageReportRawRegion, TRUE, screen, NULL);
    if (!oracle)
        return false;
    DamageRegister(&pixmap->drawable, oracle);
    oracle_wrapped_CloseScreen = screen->CloseScreen;
    screen->CloseScreen = oracle_close_screen;
    return true;
}

/* ---- creating and closing the screen --------------------------------------------------------- */
static Bool create_screen_resources(ScreenPtr screen) {
    screen->CreateScreenResources = wrapped_CreateScreenResources;
    Bool ok = screen->CreateScreenResources(screen);
    if (!ok)
        return FALSE;
    /* fb created the pixmap with the size given to ScreenInit. */
    PixmapPtr pixmap = screen->GetScreenPixmap(screen);
    screen->ModifyPixmapHeader(pixmap, (int)thinc.fb_width, (int)thinc.fb_height, -1, -1,
                               (int)thinc.fb_stride, thinc.fb);
    return !thinc.oracle || oracle_start(screen, pixmap);
}

static void block_handler(ScreenPtr screen, void *timeout) {
    screen->BlockHandler = wrapped_BlockHandler;
    screen->BlockHandler(screen, timeout);
    wrapped_BlockHandler = screen->BlockHandler;
    screen->BlockHandler = block_handler;
    randr_publish(false);
    pen_report();
    cursor_block();
    slots_block();
    dri3_block(timeout);
    /* A timeout of 0: X polls for more work and does not sleep. */
    ring_block(*(int *)timeout != 0);
}

static Bool close_screen(ScreenPtr screen) {
    ScrnInfoPtr scrn = xf86ScreenToScrn(screen);
    dri3_close(screen);
    render_close(screen);
    gc_close(screen);
    window_close(screen);
    pixmap_close(screen);
    screen->BlockHandler = wrapped_BlockHandler;
    screen->CloseScreen = wrapped_CloseScreen;
    /* The framebuffer, the ring and the socket stay for the next server generation. */
    thinc.screen = NULL;
    scrn->vtSema = FALSE;
    if (dispatchException & DE_TERMINATE)
        control_close();
    return screen->CloseScreen(screen);
}

static Bool save_screen(ScreenPtr screen, int mode) { return TRUE; }

/* Xorg would terminate or regenerate on SIGHUP; a closed terminal must not do that. */
static void ignore_hangup(void) { signal(SIGHUP, SIG_IGN); }

Bool screen_init(ScreenPtr screen, int argc, char **argv) {
    static const char *failed = "thinc: out of memory while starting\n";
    ScrnInfoPtr scrn = xf86ScreenToScrn(screen);
    thinc.scrn = scrn;
    thinc.screen = NULL;
    ignore_hangup();
    /* Every server generation gets a new framebuffer with the old contents, if the size is the
     * same. */
    if (!screen_framebuffer((uint32_t)scrn->virtualX, (uint32_t)scrn->virtualY))
        return FALSE;
    scrn->displayWidth = (int)(thinc.fb_stride / 4);

    miClearVisualTypes();
    if (!miSetVisualTypes(24, TrueColorMask, 8, TrueColor) || !miSetPixmapDepths())
        return FALSE;
    if (!fbScreenInit(screen, thinc.fb, scrn->virtualX, scrn->virtualY, scrn->xDpi, scrn->yDpi,
                      scrn->displayWidth, 32))
        return FALSE;
    for (int i = 0; i < screen->numVisuals; i++) {
        VisualPtr visual = &screen->visuals[i];
        if ((visual->class | DynamicClass) != DirectColor)
            continue;
        visual->offsetRed = scrn->offset.red;
        visual->offsetGreen = scrn->offset.green;
        visual->offsetBlue = scrn->offset.blue;
        visual->redMask = scrn->mask.red;
        visual->greenMask = scrn->mask.green;
        visual->blueMask = scrn->mask.blue;
    }
    if (!fbPictureInit(screen, NULL, 0))
        return FALSE;

    /* Here and not later: damage and composite must lie above, so that we see what they pass on to
     * real pixmaps. */
    if (!gc_init(screen) || !render_init(screen) || !window_init(screen) || !pixmap_init(screen) ||
        !dri3_init(screen, xf86GetOptValString(options, OPTION_RENDER_NODE))) {
        LogMessageVerb(X_ERROR, 0, "%s", failed);
        return FALSE;
    }
    /* X clients would write into SHM pixmaps without a request that we could record. ShmPutImage
     * stays. */
    static ShmFuncs no_shm_pixmaps = {NULL, NULL};
    ShmRegisterFuncs(screen, &no_shm_pixmaps);

    xf86SetBlackWhitePixels(screen);
    xf86SetBackingStore(screen);
    if (!cursor_init(screen) || !xf86CrtcScreenInit(screen) || !miCreateDefColormap(screen) ||
        !gamma_init(screen) || !video_init(screen) || !randr_init() || !pace_init(thinc.pace)) {
        LogMessageVerb(X_ERROR, 0, "%s", failed);
        return FALSE;
    }
    screen->SaveScreen = save_screen;
    wrapped_CloseScreen = screen->CloseScreen;
    screen->CloseScreen = close_screen;
    wrapped_CreateScreenResources = screen->CreateScreenResources;
    screen->CreateScreenResources = create_screen_resources;
    wrapped_BlockHandler = screen->BlockHandler;
    screen->BlockHandler = block_handler;

    scrn->vtSema = TRUE;
    if (!xf86SetDesiredModes(scrn))
        return FALSE;
    thinc.screen = screen;
    input_init();
    return TRUE;
}

Bool screen_pre_init(ScrnInfoPtr scrn, int flags) {
    if (flags & PROBE_DETECT)
        return TRUE;
    if (scrn->numEntities != 1)
        return FALSE;
    scrn->monitor = scrn->confScreen->monitor;
    /* Only 24 bits in 32: every application draws for it, and it is the only pixel format that the
     * session reads. */
    if (!xf86SetDepthBpp(scrn, 24, 0, 32, Support32bppFb) || scrn->depth != 24) {
        xf86DrvMsg(scrn->scrnIndex, X_ERROR,
                   "depth %d is not supported: use depth 24 with 32 bits per pixel\n", scrn->depth);
        return FALSE;
    }
    xf86PrintDepthBpp(scrn);
    rgb weight = {8, 8, 8}, masks = {0xff0000, 0x00ff00, 0x0000ff};
    Gamma gamma = {1.0, 1.0, 1.0};
    if (!xf86SetWeight(scrn, weight, masks) || !xf86SetDefaultVisual(scrn, TrueColor) ||
        !xf86SetGamma(scrn, gamma))
        return FALSE;

    xf86CollectOptions(scrn, NULL);
    memcpy(options, known_options, sizeof options);
    xf86ProcessOptions(scrn->scrnIndex, scrn->options, options);
    uint32_t width = 1024, height = 768;
    const char *size = xf86GetOptValString(options, OPTION_SIZE);
    if (size && (sscanf(size, "%ux%u", &width, &height) != 2 || width < 1 || height < 1 ||
                 width > THINC_SCREEN_MAX || height > THINC_SCREEN_MAX ||
                 (uint64_t)width * height > THINC_SCREEN_AREA_MAX)) {
        xf86DrvMsg(
            scrn->scrnIndex, X_ERROR,
            "Option \"Size\" \"%s\" must be WIDTHxHEIGHT, each 1 to 16384, at most 64 Mi pixels\n",
            size);
        return FALSE;
    }
    thinc.oracle = xf86ReturnOptValBool(options, OPTION_ORACLE, FALSE);
    thinc.pace = xf86ReturnOptValBool(options, OPTION_PACE, TRUE);
    const char *socket = xf86GetOptValString(options, OPTION_SOCKET);
    if (!socket) {
        xf86DrvMsg(scrn->scrnIndex, X_ERROR,
                   "Option \"Socket\" is missing: set it to the path where the session attaches\n");
        return FALSE;
    }
    /* Also refuses a path that is too long, or on which another server listens, before anything is
     * drawn. */
    if (!control_listen(socket))
        return FALSE;

    scrn->progClock = TRUE;
    if (!randr_pre_init(scrn, width, height) || !scrn->modes) {
        xf86DrvMsg(scrn->scrnIndex, X_ERROR, "RandR has no mode for %ux%u\n", width, height);
        return FALSE;
    }
    scrn->currentMode = scrn->modes;
    xf86SetDpi(scrn, 96, 96);
    return TRUE;
}

void screen_free(ScrnInfoPtr scrn) { control_close(); /* in case the start failed */ }

/* Without a console these are called only at the start and at the end. */
Bool screen_enter_vt(ScrnInfoPtr scrn) { return TRUE; }
void screen_leave_vt(ScrnInfoPtr scrn) {}
Bool screen_switch_mode(ScrnInfoPtr scrn, DisplayModePtr mode) {
    return xf86SetSingleMode(scrn, mode, RR_Rotate_0);
}
void screen_adjust_frame(ScrnInfoPtr scrn, int x, int y) {}
