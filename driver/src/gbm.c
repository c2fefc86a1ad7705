/* Beside the path: finds libgbm's functions for dri3.c. Knows their names; never what they are used
 * for. */
#include "gbm.h"

#include <dlfcn.h>
#include <stddef.h>

struct gbm gbm;

#define EACH_FUNCTION(each)                                                                        \
    each(create_device) each(device_destroy) each(bo_create) each(bo_import) each(bo_destroy)      \
        each(bo_map) each(bo_unmap) each(bo_get_fd) each(bo_get_stride) each(bo_get_offset)        \
            each(bo_get_modifier)

const char *gbm_load(void) {
    /* Never unloaded: Mesa's drivers, which it loads, keep threads. */
    static void *library;
    if (!library)
        library = dlopen("libgbm.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return dlerror();
#define FIND(name)                                                                                 \
    *(void **)&gbm.name = dlsym(library, "gbm_" #name);                                            \
    if (!gbm.name)                                                                                 \
        return "libgbm.so.1 has no gbm_" #name;
    EACH_FUNCTION(FIND)
    return NULL;
}
