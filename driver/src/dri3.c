/* Path 1/13: from the GPU's buffers of X clients, to gc.c and render.c.
 * DRI3: a client gives X descriptors of buffers that its GPU draws, and gets those of pixmaps that
 * X draws, so that OpenGL and Vulkan run on the GPU. X has no GPU here: it maps a buffer through
 * GBM for as long as one op reads or writes it. Windows that compositors show are the reverse: X
 * draws into its own memory, and what was drawn is copied into the buffer before any client can
 * know of it. Present shows frames by CopyArea, so they are recorded like other drawing. Knows
 * pixmaps and buffers; never what is in them. */
#include "thinc.h"

#include "gbm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dri3.h>
#include <list.h>
#include <misync.h>
#include <misyncshm.h>
#include <misyncstr.h>
#include <os.h>

/* Of all clients: each takes up to two mappings, and the kernel gives a process 65530. A program
 * has about four for each of its windows. */
#define BUFFERS_MAX 4096
/* How long X waits for a GPU until it serves other clients again, in microseconds. The kernel
 * resets a GPU that hangs after some seconds: once X has waited for that long in vain, it does not
 * wait at all for the pause, because a client can make it read without end. */
#define GPU_WAIT_US 1000000
#define GPU_PAUSE_US 10000000
/* How soon X looks again after a buffer that a GPU still uses, in milliseconds. */
#define RETRY_MS 4
/* Of all layouts that a kernel driver keeps by itself (Intel's tiling "Y"). */
#define TILE_ROWS_MAX 32

/* A pixmap that a GPU can read or write: the private data of that pixmap. */
struct buffer {
    PixmapPtr pixmap;
    struct gbm_bo *bo;
    uint64_t modifier;
    /* X's own memory, to which the pixmap points while no op uses it, because any request may read
     * or write any pixmap. Of a window's pixmap it has the contents. Of all others the buffer has
     * them: there it is a spare, which no wrapped op sees unless mapping the buffer has failed. */
    uint8_t *memory;
    int stride;
    size_t bytes; /* 0: the memory is the pixmap's own */
    /* While one op uses the buffer. */
    bool is_mapped;
    void *map_data;
    struct xorg_list mapped;
    /* A redirected window's pixmap. `changed` is what X has drawn since the last upload; it is not
     * empty if and only if the buffer is in the list of those. */
    bool is_window;
    struct box changed;
    struct xorg_list uploads;
};

static struct {
    int fd; /* of the render node; -1: no DRI3 */
    char *node;
    struct gbm_device *device;
    int windows; /* buffers that are a window's */
    struct xorg_list mapped, uploads;
    bool is_uploading;
    CARD64 waited;     /* for GPUs, since the last BlockHandler */
    CARD64 waits_from; /* GetTimeInMicros() before which X does not wait */
    int probe;         /* memory to write one byte to; -1: none */
    PixmapPtr drawn;   /* by the outermost op; only to compare */
} dri3 = {.fd = -1, .probe = -1};

static DevPrivateKeyRec buffer_key;
static DestroyPixmapProcPtr wrapped_DestroyPixmap;
static SourceValidateProcPtr wrapped_SourceValidate;
static GetImageProcPtr wrapped_GetImage;
static SyncScreenCreateFenceFunc wrapped_CreateFence;
static SyncFenceSetTriggeredFunc wrapped_SetTriggered;

static struct buffer *buffer_of(PixmapPtr pixmap) {
    return dixGetPrivate(&pixmap->devPrivates, &buffer_key);
}

bool dri3_is_buffer(PixmapPtr pixmap) { return buffer_of(pixmap) != NULL; }

/* Once for each cause: a client could fill the log. */
#define SAY_ONCE(...)                                                                              \
    do {                                                                                           \
        static bool is_said;                                                                       \
        if (!is_said)                                                                              \
            LogMessageVerb(X_WARNING, 0, "thinc: DRI3: " __VA_ARGS__);                             \
        is_said = true;                                                                            \
    } while (0)

/* ---- mapping --------------------------------------------------------------------------------- */

/* A dmabuf can be read when everything that the kernel knows to write to it has ended, and written
 * when what reads it has ended too. GBM waits for the same, but without limit. */
static bool is_drawn(struct gbm_bo *bo, uint32_t flags, bool may_wait) {
    int fd = gbm.bo_get_fd(bo);
    if (fd < 0) {
        SAY_ONCE("cannot see whether a GPU has finished a picture: %s\n", strerror(errno));
        return false;
    }
    struct pollfd ready = {.fd = fd, .events = flags & GBM_BO_TRANSFER_WRITE ? POLLOUT : POLLIN};
    CARD64 began = GetTimeInMicros();
    may_wait = may_wait && began >= dri3.waits_from;
    CARD64 limit = may_wait && dri3.waited < GPU_WAIT_US ? GPU_WAIT_US - dri3.waited : 0;
    int count;
    do { /* X's timer interrupts it every 5 ms */
        CARD64 past = GetTimeInMicros() - began;
        count = poll(&ready, 1, past < limit ? (int)((limit - past) / 1000) : 0);
    } while (count < 0 && errno == EINTR);
    close(fd);
    CARD64 ended = GetTimeInMicros();
    dri3.waited += ended - began;
    if (count == 0 && may_wait) {
        dri3.waits_from = ended + GPU_PAUSE_US;
        SAY_ONCE("a GPU has not finished a picture within %d ms; it is not shown\n",
                 GPU_WAIT_US / 1000);
    }
    return count > 0;
}

/* Some kernel drivers map buffers of other devices, and end who touches them by SIGBUS. A system
 * call gets an error instead. */
static bool is_readable(const uint8_t *byte) { return pwrite(dri3.probe, byte, 1, 0) == 1; }

/* Where it fails, nothing is mapped: NULL. */
static uint8_t *map_box(struct gbm_bo *bo, struct box box, uint32_t flags, int *stride,
                        void **map_data) {
    uint32_t row = 0;
    *map_data = NULL;
    int width = box.x2 - box.x1, height = box.y2 - box.y1;
    uint8_t *pixels = gbm.bo_map(bo, (uint32_t)box.x1, (uint32_t)box.y1, (uint32_t)width,
                                 (uint32_t)height, flags, &row, map_data);
    if (!pixels || pixels == MAP_FAILED) {
        SAY_ONCE("cannot map a buffer of %s: %s\n", dri3.node, strerror(errno));
        return NULL;
    }
    /* fb counts rows in whole words. */
    if (row % 4 != 0 || row < (uint32_t)width * 4 || row > INT32_MAX) {
        gbm.bo_unmap(bo, *map_data);
        SAY_ONCE("%s maps a buffer with rows of %u bytes, which X cannot use\n", dri3.node, row);
        return NULL;
    }
    if (!is_readable(pixels) ||
        !is_readable(pixels + (size_t)row * (size_t)(height - 1) + (size_t)width * 4 - 1)) {
        SAY_ONCE("%s maps a buffer that X cannot read: %s\n", dri3.node, strerror(errno));
        gbm.bo_unmap(bo, *map_data);
        return NULL;
    }
    *stride = (int)row;
    return pixels;
}

static struct box whole(PixmapPtr pixmap) {
    return (struct box){0, 0, pixmap->drawable.width, pixmap->drawable.height};
}

/* Points the pixmap to the buffer until unmap_all(), at least where `box` is. Mapped again for each
 * op, because the GPU may have drawn since the last one. */
static void map_part(struct buffer *buffer, struct box box, uint32_t flags) {
    if (buffer->is_window || buffer->is_mapped || box_empty(box) ||
        !is_drawn(buffer->bo, flags, true))
        return;
    PixmapPtr pixmap = buffer->pixmap;
    int stride;
    uint8_t *pixels = map_box(buffer->bo, box, flags, &stride, &buffer->map_data);
    if (!pixels)
        return;
    pixmap->devPrivate.ptr = pixels - (size_t)box.y1 * (size_t)stride - (size_t)box.x1 * 4;
    pixmap->devKind = stride;
    buffer->is_mapped = true;
    xorg_list_add(&buffer->mapped, &dri3.mapped);
    thinc.mapped = true;
}

static void map(struct buffer *buffer, uint32_t flags) {
    if (buffer)
        map_part(buffer, whole(buffer->pixmap), flags);
}

/* What X has written is in the buffer afterwards: GBM flushes it at once. */
static void unmap(struct buffer *buffer) {
    buffer->pixmap->devPrivate.ptr = buffer->memory;
    buffer->pixmap->devKind = buffer->stride;
    buffer->is_mapped = false;
    xorg_list_del(&buffer->mapped);
    gbm.bo_unmap(buffer->bo, buffer->map_data);
}

static void unmap_all(void) {
    struct buffer *buffer, *next;
    xorg_list_for_each_entry_safe(buffer, next, &dri3.mapped, mapped) unmap(buffer);
    thinc.mapped = false;
}

/* Also of an op within an op: where a copy's source is hidden, it paints the background. */
void dri3_map_op(DrawablePtr dst, GCPtr gc) {
    if (dst->type == DRAWABLE_PIXMAP)
        map(buffer_of((PixmapPtr)dst), GBM_BO_TRANSFER_READ_WRITE);
    /* X validates the sources of copies and blends, but not tiles. */
    if (gc && gc->fillStyle == FillTiled && !gc->tileIsPixel)
        map(buffer_of(gc->tile.pixmap), GBM_BO_TRANSFER_READ);
}

void dri3_unmap_op(void) {
    if (thinc.nesting == 0)
        unmap_all();
}

/* X calls it in the middle of an op, before it reads the source. Outside of one, nobody reads but
 * GetImage. */
static void source_validate(DrawablePtr src, int x, int y, int width, int height,
                            unsigned sub_window_mode) {
    ScreenPtr screen = src->pScreen;
    if (thinc.buffers > 0 && thinc.nesting > 0 && src->type == DRAWABLE_PIXMAP)
        map(buffer_of((PixmapPtr)src), GBM_BO_TRANSFER_READ);
    screen->SourceValidate = wrapped_SourceValidate;
    screen->SourceValidate(src, x, y, width, height, sub_window_mode);
    screen->SourceValidate = source_validate;
}

/* X calls it for each 64 KiB of one request: only those are mapped. */
static void get_image(DrawablePtr src, int x, int y, int width, int height, unsigned format,
                      unsigned long planes, char *image) {
    ScreenPtr screen = src->pScreen;
    PixmapPtr pixmap = src->type == DRAWABLE_PIXMAP ? (PixmapPtr)src : NULL;
    struct buffer *buffer = thinc.buffers > 0 && pixmap ? buffer_of(pixmap) : NULL;
    if (buffer) {
        struct box box = {x, y, x + width, y + height};
        map_part(buffer, box_intersect(box, whole(pixmap)), GBM_BO_TRANSFER_READ);
    }
    screen->GetImage = wrapped_GetImage;
    screen->GetImage(src, x, y, width, height, format, planes, image);
    screen->GetImage = get_image;
    if (thinc.mapped)
        dri3_unmap_op();
}

/* ---- uploading what X has drawn into windows ------------------------------------------------- */

static void mark(struct buffer *buffer, struct box box) {
    box = box_intersect(box, whole(buffer->pixmap));
    if (box_empty(box))
        return;
    struct box *all = &buffer->changed;
    if (box_empty(*all)) {
        *all = box;
        xorg_list_add(&buffer->uploads, &dri3.uploads);
        return;
    }
    all->x1 = box.x1 < all->x1 ? box.x1 : all->x1;
    all->y1 = box.y1 < all->y1 ? box.y1 : all->y1;
    all->x2 = box.x2 > all->x2 ? box.x2 : all->x2;
    all->y2 = box.y2 > all->y2 ? box.y2 : all->y2;
}

static struct buffer *window_buffer(PixmapPtr pixmap) {
    struct buffer *buffer = buffer_of(pixmap);
    return buffer && buffer->is_window ? buffer : NULL;
}

void dri3_mark_op(const struct op *op) {
    struct buffer *buffer = dri3.windows > 0 ? window_buffer(op->pixmap) : NULL;
    if (!buffer)
        return;
    const struct boxes *parts[] = {&op->drawn, &op->copied};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < parts[p]->count; i++) {
            const struct box *b = &parts[p]->box[i];
            mark(buffer, (struct box){b->x1 + op->off_x, b->y1 + op->off_y, b->x2 + op->off_x,
                                      b->y2 + op->off_y});
        }
}

void dri3_open_op(DrawablePtr dst, bool is_recorded) {
    if (dri3.windows == 0)
        return;
    PixmapPtr pixmap = dst->type == DRAWABLE_PIXMAP ? (PixmapPtr)dst
                                                    : dst->pScreen->GetWindowPixmap((WindowPtr)dst);
    /* What an op within an op draws in the same pixmap is marked with the outer one. */
    if (thinc.nesting > 0 && pixmap == dri3.drawn)
        return;
    if (thinc.nesting == 0)
        dri3.drawn = pixmap;
    struct buffer *buffer = is_recorded ? NULL : window_buffer(pixmap);
    if (buffer)
        mark(buffer, whole(pixmap));
}

/* Copies a part of X's memory. */
static bool fill(struct gbm_bo *bo, struct box box, const uint8_t *memory, int memory_stride) {
    int stride;
    void *map_data;
    uint8_t *to = map_box(bo, box, GBM_BO_TRANSFER_WRITE, &stride, &map_data);
    if (!to)
        return false;
    const uint8_t *from = memory + (size_t)box.y1 * (size_t)memory_stride + (size_t)box.x1 * 4;
    for (int y = box.y1; y < box.y2; y++) {
        memcpy(to, from, (size_t)(box.x2 - box.x1) * 4);
        to += stride;
        from += memory_stride;
    }
    gbm.bo_unmap(bo, map_data);
    return true;
}

/* In the middle of an op nothing is uploaded: the op is marked, and what tells of it follows. What
 * cannot be uploaded stays marked. False: a GPU still uses some. */
static bool upload(bool may_wait) {
    if (thinc.buffers == 0 || thinc.nesting > 0 || dri3.is_uploading)
        return true;
    dri3.is_uploading = true;
    bool is_done = true;
    struct buffer *buffer, *next;
    xorg_list_for_each_entry_safe(buffer, next, &dri3.uploads, uploads) {
        if (!is_drawn(buffer->bo, GBM_BO_TRANSFER_WRITE, may_wait)) {
            is_done = false;
        } else if (fill(buffer->bo, buffer->changed, buffer->memory, buffer->stride)) {
            buffer->changed = (struct box){0, 0, 0, 0};
            xorg_list_del(&buffer->uploads);
        }
    }
    dri3.is_uploading = false;
    return is_done;
}

/* Nobody is told of anything yet, so X need not wait. */
void dri3_block(void *timeout) {
    dri3.waited = 0;
    if (!upload(false))
        AdjustWaitForDelay(timeout, RETRY_MS);
}

/* Before X writes to its clients. */
static void flushed(CallbackListPtr *list, void *closure, void *data) { upload(true); }

/* A fence is in memory that the client reads by itself. */
static void set_triggered(SyncFence *fence) {
    upload(true);
    wrapped_SetTriggered(fence);
}

static void create_fence(ScreenPtr screen, SyncFence *fence, Bool triggered) {
    SyncScreenFuncsPtr funcs = miSyncGetScreenFuncs(screen);
    funcs->CreateFence = wrapped_CreateFence;
    funcs->CreateFence(screen, fence, triggered);
    funcs->CreateFence = create_fence;
    /* The same function for all fences. */
    wrapped_SetTriggered = fence->funcs.SetTriggered;
    fence->funcs.SetTriggered = set_triggered;
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* Takes the buffer object. NULL: no memory. */
static struct buffer *attach(PixmapPtr pixmap, struct gbm_bo *bo, uint64_t modifier) {
    struct buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        gbm.bo_destroy(bo);
        return NULL;
    }
    buffer->pixmap = pixmap;
    buffer->bo = bo;
    buffer->modifier = modifier;
    buffer->memory = pixmap->devPrivate.ptr;
    buffer->stride = pixmap->devKind;
    xorg_list_init(&buffer->mapped);
    xorg_list_init(&buffer->uploads);
    dixSetPrivate(&pixmap->devPrivates, &buffer_key, buffer);
    thinc.buffers++;
    return buffer;
}

static Bool destroy_pixmap(PixmapPtr pixmap) {
    ScreenPtr screen = pixmap->drawable.pScreen;
    struct buffer *buffer = pixmap->refcnt == 1 ? buffer_of(pixmap) : NULL;
    if (buffer) {
        if (buffer->is_mapped)
            unmap(buffer);
        xorg_list_del(&buffer->uploads);
        dixSetPrivate(&pixmap->devPrivates, &buffer_key, NULL);
        gbm.bo_destroy(buffer->bo);
        /* Not of those that dri3_close() has left behind. */
        if (thinc.buffers > 0)
            thinc.buffers--;
        if (buffer->is_window && dri3.windows > 0)
            dri3.windows--;
    }
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    Bool ok = screen->DestroyPixmap(pixmap);
    screen->DestroyPixmap = destroy_pixmap;
    if (buffer && buffer->bytes > 0)
        munmap(buffer->memory, buffer->bytes);
    free(buffer);
    return ok;
}

static bool is_size_allowed(uint32_t width, uint32_t height) {
    return width >= 1 && height >= 1 && width <= THINC_SCREEN_MAX && height <= THINC_SCREEN_MAX &&
           (uint64_t)width * height <= THINC_SCREEN_AREA_MAX;
}

static uint32_t format_of(int depth) { return depth == 32 ? FORMAT_ARGB8888 : FORMAT_XRGB8888; }

/* By the size that the kernel gives the buffer, which nobody can change: a dmabuf is never
 * truncated. Only of one: a client's file may answer never. */
static bool is_inside(struct gbm_bo *bo, int fd, uint32_t width, uint32_t height, uint32_t stride) {
    off_t bytes = lseek(fd, 0, SEEK_END);
    uint64_t end = (uint64_t)stride * (height - 1) + (uint64_t)width * 4;
    /* Without a modifier the kernel may know a layout of tiles, all of which are read. */
    uint64_t modifier = gbm.bo_get_modifier(bo);
    if (modifier != MODIFIER_LINEAR && modifier != MODIFIER_INVALID)
        end = (uint64_t)stride * ((height + TILE_ROWS_MAX - 1) / TILE_ROWS_MAX * TILE_ROWS_MAX);
    return bytes > 0 && end <= (uint64_t)bytes;
}

/* One that a GPU still uses is not waited for: each later mapping is tried in the same way. */
static bool is_usable(struct gbm_bo *bo, uint32_t width, uint32_t height, uint32_t flags) {
    int stride;
    void *map_data;
    if (!is_drawn(bo, flags, false))
        return true;
    if (!map_box(bo, (struct box){0, 0, (int)width, (int)height}, flags, &stride, &map_data))
        return false;
    gbm.bo_unmap(bo, map_data);
    return true;
}

static struct gbm_bo *import_fd(int fd, uint32_t width, uint32_t height, uint32_t stride,
                                uint32_t format, uint64_t modifier) {
    if (modifier == MODIFIER_INVALID) {
        struct gbm_import_fd_data data = {fd, width, height, stride, format};
        return gbm.bo_import(dri3.device, GBM_BO_IMPORT_FD, &data, GBM_BO_USE_RENDERING);
    }
    struct gbm_import_fd_modifier_data data = {
        .width = width,
        .height = height,
        .format = format,
        .num_fds = 1,
        .fds = {fd, -1, -1, -1},
        .strides = {(int)stride},
        .modifier = modifier,
    };
    return gbm.bo_import(dri3.device, GBM_BO_IMPORT_FD_MODIFIER, &data, GBM_BO_USE_RENDERING);
}

/* What is no dmabuf fails first, before anything else is asked of it. */
static struct gbm_bo *import(int fd, uint32_t width, uint32_t height, uint32_t stride,
                             uint32_t format, uint64_t modifier) {
    struct gbm_bo *bo = import_fd(fd, width, height, stride, format, modifier);
    if (!bo)
        return NULL;
    if (!is_inside(bo, fd, width, height, stride) ||
        !is_usable(bo, width, height, GBM_BO_TRANSFER_READ)) {
        gbm.bo_destroy(bo);
        return NULL;
    }
    return bo;
}

/* ---- what X asks for ------------------------------------------------------------------------- */

static int open_node(ScreenPtr screen, RRProviderPtr provider, int *fd) {
    /* Its own open file, so that the kernel tells clients apart. */
    *fd = open(dri3.node, O_RDWR | O_CLOEXEC);
    return *fd < 0 ? BadAlloc : Success;
}

/* NULL becomes BadAlloc, the only error that DRI3 has here. X closes the descriptors. */
static PixmapPtr pixmap_from_fds(ScreenPtr screen, CARD8 num_fds, const int *fds, CARD16 width,
                                 CARD16 height, const CARD32 *strides, const CARD32 *offsets,
                                 CARD8 depth, CARD8 bpp, CARD64 modifier) {
    if (num_fds != 1 || bpp != 32 || (depth != 24 && depth != 32) ||
        (modifier != MODIFIER_LINEAR && modifier != MODIFIER_INVALID) ||
        !is_size_allowed(width, height) || thinc.buffers >= BUFFERS_MAX)
        return NULL;
    uint32_t stride = strides[0];
    /* Some of Mesa's drivers map a buffer without its offset (virgl); none needs one for pixels in
     * rows. */
    if (stride % 4 != 0 || stride < (uint32_t)width * 4 || stride > INT32_MAX || offsets[0] != 0)
        return NULL;
    struct gbm_bo *bo = import(fds[0], width, height, stride, format_of(depth), modifier);
    if (!bo)
        return NULL;
    int spare_stride = width * 4;
    size_t bytes = (size_t)spare_stride * height;
    /* Takes memory only where something is written by chance. */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        gbm.bo_destroy(bo);
        return NULL;
    }
    /* Created empty, so that pixmap.c does not track it: the client draws there without records. */
    PixmapPtr pixmap = screen->CreatePixmap(screen, 0, 0, depth, 0);
    if (!pixmap ||
        !screen->ModifyPixmapHeader(pixmap, width, height, depth, bpp, spare_stride, memory)) {
        gbm.bo_destroy(bo);
        munmap(memory, bytes);
        if (pixmap)
            screen->DestroyPixmap(pixmap);
        return NULL;
    }
    struct buffer *buffer = attach(pixmap, bo, modifier);
    if (!buffer) {
        screen->DestroyPixmap(pixmap);
        munmap(memory, bytes);
        return NULL;
    }
    buffer->bytes = bytes;
    return pixmap;
}

static PixmapPtr pixmap_from_fd(ScreenPtr screen, int fd, CARD16 width, CARD16 height,
                                CARD16 stride, CARD8 depth, CARD8 bpp) {
    const CARD32 strides[1] = {stride}, offsets[1] = {0};
    return pixmap_from_fds(screen, 1, &fd, width, height, strides, offsets, depth, bpp,
                           MODIFIER_INVALID);
}

/* A new buffer, imported again: drivers assume of one that they have made that nobody else draws
 * there, and may read a copy of their own (virgl). */
static struct gbm_bo *create(uint32_t width, uint32_t height, uint32_t format) {
    struct gbm_bo *made =
        gbm.bo_create(dri3.device, width, height, format, GBM_BO_USE_LINEAR | GBM_BO_USE_RENDERING);
    if (!made)
        return NULL;
    int fd = gbm.bo_get_offset(made, 0) == 0 ? gbm.bo_get_fd(made) : -1;
    struct gbm_bo *bo =
        fd < 0 ? NULL
               : import_fd(fd, width, height, gbm.bo_get_stride(made), format, MODIFIER_LINEAR);
    gbm.bo_destroy(made);
    if (fd >= 0)
        close(fd);
    return bo;
}

/* Gives a pixmap of X's memory a buffer with the same contents. A redirected window's pixmap is
 * only shown by others: X goes on drawing in its memory. Into any other pixmap the client may draw
 * with its GPU: the buffer has its contents from now on, as if it were imported. */
static struct buffer *export(ScreenPtr screen, PixmapPtr pixmap) {
    const DrawableRec *d = &pixmap->drawable;
    if (pixmap == screen->GetScreenPixmap(screen) || d->bitsPerPixel != 32 ||
        (d->depth != 24 && d->depth != 32) || !is_size_allowed(d->width, d->height) ||
        !pixmap->devPrivate.ptr || thinc.buffers >= BUFFERS_MAX)
        return NULL;
    struct gbm_bo *bo = create(d->width, d->height, format_of(d->depth));
    if (bo && !fill(bo, whole(pixmap), pixmap->devPrivate.ptr, pixmap->devKind)) {
        gbm.bo_destroy(bo);
        bo = NULL;
    }
    struct buffer *buffer = bo ? attach(pixmap, bo, MODIFIER_LINEAR) : NULL;
    if (!buffer)
        return NULL;
    buffer->is_window = pixmap->usage_hint == CREATE_PIXMAP_USAGE_BACKING_PIXMAP;
    if (buffer->is_window)
        dri3.windows++;
    else
        pixmap_untrack(pixmap);
    return buffer;
}

static int fds_from_pixmap(ScreenPtr screen, PixmapPtr pixmap, int *fds, uint32_t *strides,
                           uint32_t *offsets, uint64_t *modifier) {
    struct buffer *buffer = buffer_of(pixmap);
    if (!buffer)
        buffer = export(screen, pixmap);
    if (!buffer)
        return 0;
    upload(true);
    fds[0] = gbm.bo_get_fd(buffer->bo);
    if (fds[0] < 0)
        return 0;
    strides[0] = gbm.bo_get_stride(buffer->bo);
    offsets[0] = gbm.bo_get_offset(buffer->bo, 0);
    *modifier = buffer->modifier;
    return 1;
}

static int fd_from_pixmap(ScreenPtr screen, PixmapPtr pixmap, CARD16 *stride, CARD32 *size) {
    int fd;
    uint32_t row, offset;
    uint64_t modifier;
    if (fds_from_pixmap(screen, pixmap, &fd, &row, &offset, &modifier) == 0)
        return -1;
    uint64_t bytes = (uint64_t)row * pixmap->drawable.height;
    if (offset != 0 || row > UINT16_MAX || bytes > UINT32_MAX) {
        close(fd);
        return -1;
    }
    *stride = (CARD16)row;
    *size = (CARD32)bytes;
    return fd;
}

static const uint32_t formats[] = {FORMAT_XRGB8888, FORMAT_ARGB8888};

static Bool get_formats(ScreenPtr screen, CARD32 *count, CARD32 **list) {
    *list = malloc(sizeof formats);
    if (!*list)
        return FALSE;
    memcpy(*list, formats, sizeof formats);
    *count = sizeof formats / sizeof formats[0];
    return TRUE;
}

/* Rows of pixels and nothing else: other layouts are the GPU's own, and X would read them through
 * one more copy. */
static Bool get_modifiers(ScreenPtr screen, uint32_t format, uint32_t *count, uint64_t **list) {
    *count = 0;
    *list = NULL;
    if (format != FORMAT_XRGB8888 && format != FORMAT_ARGB8888)
        return TRUE;
    *list = malloc(sizeof **list);
    if (!*list)
        return FALSE;
    (*list)[0] = MODIFIER_LINEAR;
    *count = 1;
    return TRUE;
}

static Bool get_drawable_modifiers(DrawablePtr drawable, uint32_t format, uint32_t *count,
                                   uint64_t **list) {
    return get_modifiers(drawable->pScreen, format, count, list);
}

static const dri3_screen_info_rec info = {
    .version = 2,
    .open = open_node,
    .pixmap_from_fd = pixmap_from_fd,
    .fd_from_pixmap = fd_from_pixmap,
    .pixmap_from_fds = pixmap_from_fds,
    .fds_from_pixmap = fds_from_pixmap,
    .get_formats = get_formats,
    .get_modifiers = get_modifiers,
    .get_drawable_modifiers = get_drawable_modifiers,
};

/* ---- start and end --------------------------------------------------------------------------- */

/* Where GBM finds no driver for the node it takes Mesa's software instead, whose buffers no other
 * process can have. NULL if buffers can be shared. */
static const char *try_buffer(void) {
    struct gbm_bo *bo = create(64, 64, FORMAT_XRGB8888);
    if (!bo)
        return "GBM has no buffers to share there; is Mesa's driver for it installed "
               "(libgl1-mesa-dri)?";
    bool is_mapped = is_usable(bo, 64, 64, GBM_BO_TRANSFER_READ_WRITE);
    gbm.bo_destroy(bo);
    return is_mapped ? NULL : "X cannot map its buffers";
}

static const char *open_device(const char *node) {
    struct stat status;
    dri3.fd = open(node, O_RDWR | O_CLOEXEC);
    if (dri3.fd < 0)
        return strerror(errno);
    if (fstat(dri3.fd, &status) != 0 || !S_ISCHR(status.st_mode))
        return "it is no device";
    const char *error = gbm_load();
    if (error)
        return error;
    dri3.probe = thinc_memfd("thinc-probe", 1, 0);
    if (dri3.probe < 0)
        return strerror(errno);
    dri3.device = gbm.create_device(dri3.fd);
    return dri3.device ? try_buffer() : "GBM knows no such device";
}

static void close_device(void) {
    /* With pixmaps that outlive their screen, and nobody frees their buffers, the device stays. */
    if (dri3.device && thinc.buffers == 0)
        gbm.device_destroy(dri3.device);
    if (dri3.fd >= 0 && thinc.buffers == 0)
        close(dri3.fd);
    if (dri3.probe >= 0)
        close(dri3.probe);
    thinc.buffers = dri3.windows = 0;
    dri3.device = NULL;
    dri3.fd = dri3.probe = -1;
    free(dri3.node);
    dri3.node = NULL;
}

bool dri3_init(ScreenPtr screen, const char *node) {
    if (!node)
        return true;
    dri3.node = strdup(node);
    if (!dri3.node)
        return false;
    const char *error = open_device(node);
    if (error) {
        LogMessageVerb(X_WARNING, 0,
                       "thinc: no DRI3, cannot use Option \"RenderNode\" \"%s\": %s\n", node,
                       error);
        close_device();
        return true;
    }
    xorg_list_init(&dri3.mapped);
    xorg_list_init(&dri3.uploads);
    if (!dixRegisterPrivateKey(&buffer_key, PRIVATE_PIXMAP, 0) || !miSyncShmScreenInit(screen) ||
        !AddCallback(&FlushCallback, flushed, NULL) || !dri3_screen_init(screen, &info)) {
        close_device();
        return false;
    }
    SyncScreenFuncsPtr fences = miSyncGetScreenFuncs(screen);
    wrapped_CreateFence = fences->CreateFence;
    fences->CreateFence = create_fence;
    wrapped_DestroyPixmap = screen->DestroyPixmap;
    wrapped_SourceValidate = screen->SourceValidate;
    wrapped_GetImage = screen->GetImage;
    screen->DestroyPixmap = destroy_pixmap;
    screen->SourceValidate = source_validate;
    screen->GetImage = get_image;
    LogMessageVerb(X_INFO, 0, "thinc: DRI3 on %s\n", node);
    return true;
}

/* X has destroyed its clients' pixmaps, and forgets callbacks by itself. */
void dri3_close(ScreenPtr screen) {
    if (!dri3.device)
        return;
    screen->DestroyPixmap = wrapped_DestroyPixmap;
    screen->SourceValidate = wrapped_SourceValidate;
    screen->GetImage = wrapped_GetImage;
    close_device();
}
