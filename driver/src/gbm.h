/* Beside the path: libgbm, which Mesa brings, as dri3.c uses it. Only the part of its ABI that is
 * called is declared here; it has been the same since Mesa 17.1. Loaded at run time: a server
 * without Option "RenderNode" loads nothing, and one without libgbm starts. */
#ifndef THINC_GBM_H
#define THINC_GBM_H

#include <stdbool.h>
#include <stdint.h>

struct gbm_device;
struct gbm_bo;

#define GBM_BO_IMPORT_FD 0x5503
#define GBM_BO_IMPORT_FD_MODIFIER 0x5504
#define GBM_BO_USE_RENDERING (1u << 2)
#define GBM_BO_USE_LINEAR (1u << 4)
#define GBM_BO_TRANSFER_READ (1u << 0)
#define GBM_BO_TRANSFER_WRITE (1u << 1)
#define GBM_BO_TRANSFER_READ_WRITE (GBM_BO_TRANSFER_READ | GBM_BO_TRANSFER_WRITE)

/* Names of pixel formats and layouts, as in the kernel's drm_fourcc.h. */
#define FORMAT_XRGB8888 0x34325258u
#define FORMAT_ARGB8888 0x34325241u
#define MODIFIER_LINEAR UINT64_C(0)
#define MODIFIER_INVALID ((UINT64_C(1) << 56) - 1)

struct gbm_import_fd_data {
    int fd;
    uint32_t width, height, stride, format;
};

struct gbm_import_fd_modifier_data {
    uint32_t width, height, format, num_fds;
    int fds[4], strides[4], offsets[4];
    uint64_t modifier;
};

struct gbm {
    struct gbm_device *(*create_device)(int fd);
    void (*device_destroy)(struct gbm_device *device);
    struct gbm_bo *(*bo_create)(struct gbm_device *device, uint32_t width, uint32_t height,
                                uint32_t format, uint32_t flags);
    struct gbm_bo *(*bo_import)(struct gbm_device *device, uint32_t type, void *buffer,
                                uint32_t flags);
    void (*bo_destroy)(struct gbm_bo *bo);
    /* NULL or MAP_FAILED: not mapped. Waits for the GPU. */
    void *(*bo_map)(struct gbm_bo *bo, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                    uint32_t flags, uint32_t *stride, void **map_data);
    void (*bo_unmap)(struct gbm_bo *bo, void *map_data);
    int (*bo_get_fd)(struct gbm_bo *bo);
    uint32_t (*bo_get_stride)(struct gbm_bo *bo);
    uint32_t (*bo_get_offset)(struct gbm_bo *bo, int plane);
    uint64_t (*bo_get_modifier)(struct gbm_bo *bo);
};
extern struct gbm gbm;

/* NULL if all functions are there, otherwise an error message. */
const char *gbm_load(void);

#endif
