/* Beside the path: to thinc-view's install/files.rs, which copies a driver to the hosts whose Xorg
 * can load it.
 * What this module was compiled for, as text in the file. Knows Xorg's version numbers only. */
#include <xorg-server.h>

#include "xf86Module.h"

/* Xorg's own macro packs the two numbers into one; here they are text. */
#undef SET_ABI_VERSION
#define SET_ABI_VERSION(major, minor) #major "." #minor

/* Nothing refers to it: "used" keeps it in the file. */
static const char abi[] __attribute__((used)) =
    "thinc_drv for video ABI " ABI_VIDEODRV_VERSION " and input ABI " ABI_XINPUT_VERSION;
