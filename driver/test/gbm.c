/* In place of libgbm, for tests without a GPU: a buffer is a memfd, and its permissions say how the
 * GPU would be. crates/ring/tests/dri3.rs sets them.
 *   make -C driver test/gbm
 * X finds it as libgbm.so.1 in a folder of LD_LIBRARY_PATH. */
#include "../src/gbm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IS_WRITTEN = 1,   /* the GPU writes, and does not finish */
    IS_READ = 2,      /* the GPU reads, and does not finish */
    IS_TILED = 4,     /* its layout is the kernel driver's own */
    HAS_NO_PAGES = 8, /* it is mapped, but who touches it gets SIGBUS */
    IS_UNMAPPABLE = 16,
};

/* A new buffer of this width cannot be mapped. */
#define WIDTH_UNMAPPABLE 13
#define ROW 64 /* rows of new buffers are aligned to as many bytes */

struct gbm_bo {
    int fd;
    uint32_t stride;
    uint64_t modifier;
};

struct mapping {
    void *memory;
    size_t bytes;
};

struct gbm_device *gbm_create_device(int fd);
void gbm_device_destroy(struct gbm_device *device);
struct gbm_bo *gbm_bo_create(struct gbm_device *device, uint32_t width, uint32_t height,
                             uint32_t format, uint32_t flags);
struct gbm_bo *gbm_bo_import(struct gbm_device *device, uint32_t type, void *buffer,
                             uint32_t flags);
void gbm_bo_destroy(struct gbm_bo *bo);
void *gbm_bo_map(struct gbm_bo *bo, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                 uint32_t flags, uint32_t *stride, void **map_data);
void gbm_bo_unmap(struct gbm_bo *bo, void *map_data);
int gbm_bo_get_fd(struct gbm_bo *bo);
uint32_t gbm_bo_get_stride(struct gbm_bo *bo);
uint32_t gbm_bo_get_offset(struct gbm_bo *bo, int plane);
uint64_t gbm_bo_get_modifier(struct gbm_bo *bo);

static mode_t state(const struct gbm_bo *bo) {
    struct stat status = {0};
    fstat(bo->fd, &status);
    return status.st_mode;
}

struct gbm_device *gbm_create_device(int fd) {
    static int device;
    return (struct gbm_device *)&device;
}

void gbm_device_destroy(struct gbm_device *device) {}

static struct gbm_bo *take(int fd, uint32_t stride, uint64_t modifier) {
    struct gbm_bo *bo = calloc(1, sizeof *bo);
    *bo = (struct gbm_bo){.fd = fd, .stride = stride, .modifier = modifier};
    return bo;
}

struct gbm_bo *gbm_bo_create(struct gbm_device *device, uint32_t width, uint32_t height,
                             uint32_t format, uint32_t flags) {
    uint32_t stride = (width * 4 + ROW - 1) / ROW * ROW;
    int fd = memfd_create("buffer", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)stride * height) != 0 ||
        fchmod(fd, width == WIDTH_UNMAPPABLE ? IS_UNMAPPABLE : 0) != 0)
        abort();
    return take(fd, stride, MODIFIER_LINEAR);
}

struct gbm_bo *gbm_bo_import(struct gbm_device *device, uint32_t type, void *buffer,
                             uint32_t flags) {
    const struct gbm_import_fd_data *plain = buffer;
    const struct gbm_import_fd_modifier_data *data = buffer;
    bool has_modifier = type == GBM_BO_IMPORT_FD_MODIFIER;
    struct gbm_bo *bo =
        take(dup(has_modifier ? data->fds[0] : plain->fd),
             has_modifier ? (uint32_t)data->strides[0] : plain->stride, MODIFIER_LINEAR);
    /* Intel's tiling "Y". */
    if (!has_modifier && state(bo) & IS_TILED)
        bo->modifier = UINT64_C(1) << 56 | 2;
    return bo;
}

void gbm_bo_destroy(struct gbm_bo *bo) {
    close(bo->fd);
    free(bo);
}

/* Always all of it. */
void *gbm_bo_map(struct gbm_bo *bo, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                 uint32_t flags, uint32_t *stride, void **map_data) {
    mode_t mode = state(bo);
    if (mode & IS_UNMAPPABLE) {
        errno = EIO;
        return MAP_FAILED;
    }
    struct mapping *mapping = malloc(sizeof *mapping);
    mapping->bytes = (size_t)bo->stride * (y + height);
    mapping->memory = mmap(NULL, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bo->fd,
                           mode & HAS_NO_PAGES ? (off_t)1 << 32 : 0);
    if (mapping->memory == MAP_FAILED)
        abort();
    *map_data = mapping;
    *stride = bo->stride;
    return (uint8_t *)mapping->memory + (size_t)y * bo->stride + (size_t)x * 4;
}

void gbm_bo_unmap(struct gbm_bo *bo, void *map_data) {
    struct mapping *mapping = map_data;
    munmap(mapping->memory, mapping->bytes);
    free(mapping);
}

/* What is waited for is what a dmabuf would tell. */
int gbm_bo_get_fd(struct gbm_bo *bo) {
    mode_t mode = state(bo);
    if (mode & IS_WRITTEN)
        return epoll_create1(EPOLL_CLOEXEC); /* never ready */
    if (!(mode & IS_READ))
        return dup(bo->fd);
    uint64_t full = UINT64_MAX - 1;
    int fd = eventfd(0, EFD_CLOEXEC); /* can be read, not written */
    if (write(fd, &full, sizeof full) < 0)
        abort();
    return fd;
}

uint32_t gbm_bo_get_stride(struct gbm_bo *bo) { return bo->stride; }
uint32_t gbm_bo_get_offset(struct gbm_bo *bo, int plane) { return 0; }
uint64_t gbm_bo_get_modifier(struct gbm_bo *bo) { return bo->modifier; }
