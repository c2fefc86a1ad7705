/* Path 2/13: from ring.c (the X server's main thread), to crates/ring (the session).
 * The bytes that driver and session share: a ring memfd, a framebuffer memfd, a memfd of video
 * frames, control messages and input messages. Knows offsets and sizes only; crates/ring/src/abi.rs
 * has the same numbers, and both sides assert them. */
#ifndef THINC_RING_ABI_H
#define THINC_RING_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Raise the version with any change of a size, an offset or a meaning below. The driver refuses
 * every other version with an error message. */
#define THINC_ABI_MAGIC 0x434e4854u /* "THNC" read as little-endian */
#define THINC_ABI_VERSION 8u

/* ---- the ring memfd -----------------------------------------------------------------------------
 *      0  header: constants, positions, counters, geometry, video ports   one page
 *   4096  cursor block: 64 bytes, then 256 x 256 premultiplied ARGB, or pixels of two colours
 * 270336  gamma block: 16 bytes, then one table for each output
 * 286720  dirty tiles: one bit per 64 x 64 tile, 256 rows of 256 bits
 * 294912  records: 32768 of 64 bytes
 * 2392064 end
 * The driver writes all fields except `tail`, `reader_sleeping`, `want_offscreen`, `want_video` and
 * `frame_rate`, which the reader writes; of these the driver clears only `reader_sleeping`. The
 * reader also clears the dirty bits that it takes. */
#define THINC_RECORDS 32768u
#define THINC_RECORD_BYTES 64u
#define THINC_TILE 64u
#define THINC_TILES_ACROSS 256u /* 16384 / 64 */
#define THINC_SCREEN_MAX 16384u
/* Pixels. No viewer accepts a larger screen (doc/protocol.md, limits). */
#define THINC_SCREEN_AREA_MAX (64u * 1024u * 1024u)
#define THINC_OUTPUTS 16u
#define THINC_CURSOR_MAX 256u
#define THINC_GAMMA_ENTRIES 256u /* of each channel's table: as many as it has values */
/* Frames a second, of the clock that whole images in a row are held to. */
#define THINC_FRAME_RATE_MIN 10u
#define THINC_FRAME_RATE_MAX 60u
#define THINC_CURSOR_OFFSET 4096u
#define THINC_GAMMA_OFFSET 270336u
#define THINC_DIRTY_OFFSET 286720u
#define THINC_RECORDS_OFFSET 294912u
#define THINC_RING_BYTES 2392064u

/* ---- the video memfd: two buffers for each port, frame n in buffer n % 2 ------------------------
 * Planes as in section 9 of doc/protocol.md: luma, blue, red, one after another, rows without gaps,
 * whatever format the X client sent. The right eye's picture of a stereo frame: 4 bytes a pixel
 * (blue, green, red, undefined), rows without gaps. The file is sparse: only ports that play take
 * memory. */
#define THINC_VIDEO_PORTS 16u
#define THINC_VIDEO_EDGE_MAX 8192u
/* Largest distance of a place's corner from the origin, and its longest edge. */
#define THINC_VIDEO_PLACE_MAX 32768
#define THINC_VIDEO_BUFFERS 2u
#define THINC_VIDEO_BUFFER_BYTES 134217728u /* 8192 x 8192 of 4:2:2, or 8192 x 4096 pixels */

struct thinc_output {
    int32_t x, y;           /* in the screen */
    uint32_t width, height; /* 0 x 0: off */
    uint32_t mm_width, mm_height;
};

/* A versioned block (seqlock): the writer makes `seq` odd, writes, and makes it even. A reader that
 * saw an odd or a changed `seq` reads again. */
struct thinc_geometry {
    uint32_t seq;
    uint32_t generation; /* of the framebuffer; outputs may change within one generation */
    uint32_t width, height;
    uint32_t stride_bytes;
    uint32_t output_count; /* entries of outputs[] in use */
    uint32_t leds;         /* lock keys of the X keyboard: bit 0 caps, 1 num, 2 scroll */
    uint32_t serial;       /* counts changes of this block */
    struct thinc_output outputs[THINC_OUTPUTS];
};

/* The newest complete frame of a port in the video memfd. `writing` tells a reader whether the
 * frame was replaced while it was read. */
struct thinc_video {
    uint32_t seq;    /* as in thinc_geometry; it covers all fields except `writing` */
    uint32_t serial; /* number of the frame, from 1; 0: there is none */
    uint64_t op;     /* the op that drew the frame */
    uint32_t dst;    /* drawable: 0 is the screen, otherwise a pixmap's serial */
    uint32_t layout; /* enum thinc_video_layout */
    uint32_t size;   /* width | height << 16; the other sizes too */
    uint32_t crop_at, crop_size;
    int32_t place_x, place_y; /* in dst */
    uint32_t place_size;
    /* The frame whose samples are being written, or were written last. Buffer writing % 2 holds no
     * other. */
    uint32_t writing;
    uint32_t
        playing; /* 1: a frame was shown since the port last stopped, in the framebuffer at least */
    uint32_t reserved[2];
};

enum thinc_video_layout {
    THINC_VIDEO_420 = 0, /* colour at half the width and height, rounded up */
    THINC_VIDEO_422 = 1, /* colour at half the width */
    /* The right eye's pixels; the framebuffer has the left eye's. The image is that of one eye. */
    THINC_VIDEO_RIGHT_EYE = 2,
};

struct thinc_header {
    /* 0: constants, written before the memfd is sent */
    uint32_t magic, abi_version;
    uint32_t ring_bytes, record_count, record_bytes, records_offset, dirty_offset, cursor_offset;
    uint32_t reserved0[8];
    /* 64: records published since attach; released by the driver */
    uint64_t head;
    uint64_t reserved1[7];
    /* 128: records consumed; released by the reader. The driver clamps it to [head - THINC_RECORDS,
     * head]. */
    uint64_t tail;
    uint64_t reserved2[7];
    /* 192: the newest op that may have changed pixels; stored before they change */
    uint64_t begin;
    uint64_t reserved3[7];
    /* 256: what the reader requests */
    /* 1: write the eventfd at the next IDLE, at the next YIELD, or when a quarter of the ring is
     * unread. The driver resets it. */
    uint32_t reader_sleeping;
    /* 1: also publish ops on pixmaps, and PIXMAP_CREATE and PIXMAP_DESTROY */
    uint32_t want_offscreen;
    /* 1: also copy the samples of recorded XVideo frames, and the right eye's pixels of stereo
     * frames, to the video memfd */
    uint32_t want_video;
    /* Ticks a second of the clock of frames, THINC_FRAME_RATE_MIN to _MAX; 0 counts as the most.
     * Other values count as the nearest of these. */
    uint32_t frame_rate;
    uint32_t reserved4[12];
    /* 320: counters and overflow. Nothing here changes with every record: the reader loads this
     * cache line whenever it releases some. */
    uint64_t overflows; /* times that the ring was full */
    uint64_t dropped;   /* records replaced by dirty tiles */
    /* 1: OVERFLOW waits for room; the reader sends RESUME once there is some */
    uint32_t overflow_pending;
    uint32_t dirty_any; /* 1: a dirty bit may be set */
    /* With Option "Oracle": sum of the areas that miext/damage reported up to the last BARRIER. */
    uint64_t oracle_area;
    uint64_t oracle_union; /* the area of their union */
    uint64_t holds;        /* times that a client was held to the clock of frames */
    uint64_t reserved5[2];
    /* 384 */
    struct thinc_geometry geometry;
    uint8_t reserved6[1024 - 384 - sizeof(struct thinc_geometry)];
    /* 1024 */
    struct thinc_video video[THINC_VIDEO_PORTS];
    uint8_t reserved7[4096 - 1024 - THINC_VIDEO_PORTS * sizeof(struct thinc_video)];
};

struct thinc_cursor {
    uint32_t seq;    /* as in thinc_geometry */
    uint32_t serial; /* counts images; 0: there is none yet */
    uint32_t visible;
    int32_t x, y; /* position of the hot spot on the screen when this block was written */
    uint32_t hot_x, hot_y, width, height;
    uint32_t warps; /* counts positions set by a program or RandR, not by the user */
    /* 1: an X core cursor: `argb` holds enum thinc_cursor_pixel, `fore` and `back` the colours. */
    uint32_t two_colors;
    uint32_t fore, back; /* 0xRRGGBB; they may change while the image stays (RecolorCursor) */
    uint32_t use;        /* bits of enum thinc_pointer_use */
    uint32_t reserved[2];
    uint32_t argb[THINC_CURSOR_MAX * THINC_CURSOR_MAX]; /* premultiplied, rows of `width` */
};

enum thinc_cursor_pixel {
    THINC_CURSOR_OUTSIDE = 0, /* not in the mask */
    THINC_CURSOR_BACK = 1,
    THINC_CURSOR_FORE = 2,
};

/* What the pixels of one output become when they are shown, as RandR's ramps say: the upper 8 bits
 * of their 16. */
struct thinc_gamma_table {
    int32_t x, y; /* of the output, in the screen */
    uint32_t width, height;
    uint8_t red[THINC_GAMMA_ENTRIES], green[THINC_GAMMA_ENTRIES], blue[THINC_GAMMA_ENTRIES];
};

struct thinc_gamma {
    uint32_t seq;    /* as in thinc_geometry */
    uint32_t serial; /* counts changes of this block */
    /* Entries of tables[] in use, one for each enabled output; 0: no output changes any colour. */
    uint32_t count;
    uint32_t reserved;
    struct thinc_gamma_table tables[THINC_OUTPUTS];
};

/* What X clients do with the pointer. From this the session concludes whether one of them wants
 * relative motion. */
enum thinc_pointer_use {
    THINC_POINTER_HIDDEN = 1,   /* the cursor is hidden, or all of its image is transparent */
    THINC_POINTER_GRABBED = 2,  /* an X client grabs it, and not by a button that is pressed */
    THINC_POINTER_CONFINED = 4, /* that grab confines it to a window other than the root */
    THINC_POINTER_RAW = 8,      /* that X client has selected raw motion */
};

/* ---- records --------------------------------------------------------------------------------- */
enum thinc_kind {
    THINC_DRAW = 1,
    /* The rect of dst holds what rect - (dx, dy) of src held before the op. One op is one region
     * with one vector. */
    THINC_COPY = 2,
    THINC_PIXMAP_CREATE = 3,
    THINC_PIXMAP_DESTROY = 4,
    THINC_CURSOR = 5,
    THINC_GEOMETRY = 6,
    THINC_IDLE = 7,  /* X is about to sleep: flush */
    THINC_YIELD = 8, /* X turns to other requests: flush if the oldest record is old */
    /* Records are missing before this one. Dirty tiles say where on the screen; the contents of all
     * pixmaps are unknown. */
    THINC_OVERFLOW = 9,
    THINC_BARRIER = 10,
    THINC_INPUT = 11,         /* a key or button press was delivered */
    THINC_VIDEO_STOPPED = 12, /* port arg[0] shows no frame until the next one */
    THINC_GAMMA = 13,         /* the gamma block changed */
};

enum thinc_hint {
    THINC_OTHER = 0,
    THINC_SOLID = 1,   /* arg[0] = 0xRRGGBB in every pixel of the rect */
    THINC_PATTERN = 2, /* every pixel of the rect comes from a tile or an opaque stipple */
    THINC_GLYPHS = 3,
    THINC_IMAGE = 4, /* every pixel of the rect was sent by an X client */
    THINC_COMPOSITE = 5,
    THINC_VIDEO = 6, /* every pixel of the rect belongs to the frame: see thinc_record */
    /* As THINC_IMAGE, and the picture for the left eye. The right eye's, of the same place, is the
     * port's frame: see thinc_record. */
    THINC_STEREO = 7,
};

/* The next record belongs to the same op. */
#define THINC_FLAG_MORE 1u
/* COPY: blended over the destination; a copy only where the source is opaque. */
#define THINC_FLAG_OVER 2u
/* DRAW: every pixel of the rect is opaque now. PIXMAP_CREATE: the pixmap has no alpha. */
#define THINC_FLAG_OPAQUE 4u
/* DRAW: opaque pixels stay opaque. */
#define THINC_FLAG_KEEPS_ALPHA 8u

struct thinc_record {
    uint64_t op; /* number of the drawing op; all records of one op have the same */
    uint8_t kind;
    uint8_t flags;
    uint16_t hint;
    /* XID of the top-level window drawn in, or that received the input; 0: none or unknown. */
    uint32_t window;
    uint32_t dst; /* drawable: 0 is the screen, otherwise a pixmap's serial */
    uint32_t src;
    int32_t x1, y1, x2, y2; /* half-open, in dst */
    int32_t dx, dy;
    /* DRAW: see thinc_hint. PIXMAP_CREATE: width, height. GEOMETRY: generation. BARRIER: id. INPUT:
     * seq. VIDEO_STOPPED: port. DRAW with THINC_VIDEO: port | enum thinc_video_layout << 8; then
     * width | height << 16 of the image, of the crop (which is inside the image), and of the place,
     * to all of which the crop is scaled. `src` is the crop's corner, x | y << 16; dx and dy are
     * the place's corner in dst. DRAW with THINC_STEREO: the same of each eye's image, with
     * THINC_VIDEO_RIGHT_EYE and a place as large as the crop. */
    uint32_t arg[4];
};

/* ---- control: SOCK_SEQPACKET, little-endian, each packet is one struct ----------------------- */
enum thinc_message_type {
    /* session to driver */
    THINC_ATTACH = 1,       /* struct thinc_attach */
    THINC_SET_OUTPUTS = 2,  /* struct thinc_set_outputs */
    THINC_SEND_BARRIER = 3, /* struct thinc_word: value = id */
    THINC_RESUME = 4,       /* struct thinc_word: there is room in the ring */
    /* driver to session */
    /* struct thinc_hello, with descriptors: ring, framebuffer, eventfd, input socket, video. */
    THINC_HELLO = 16,
    /* struct thinc_framebuffer, with one descriptor; sent before the GEOMETRY record that names
     * its generation. */
    THINC_FRAMEBUFFER = 17,
    THINC_OUTPUTS_APPLIED = 18, /* struct thinc_word: value = the request's serial */
    THINC_ERROR = 19,           /* struct thinc_error */
};

struct thinc_attach {
    uint32_t type, magic, abi_version, ring_bytes;
};

struct thinc_word {
    uint32_t type, value;
};

struct thinc_set_outputs {
    uint32_t type, serial;
    uint32_t count, reserved;
    struct thinc_output outputs[THINC_OUTPUTS]; /* the message always has all of them */
};

struct thinc_framebuffer {
    uint32_t type, generation;
    uint32_t width, height, stride_bytes;
    uint32_t reserved;
    uint64_t bytes; /* size of the memfd, which is sealed against shrinking */
};

struct thinc_hello {
    uint32_t type, magic, abi_version, ring_bytes;
    struct thinc_framebuffer framebuffer;
};

struct thinc_error {
    uint32_t type, serial; /* serial of the request, 0: none */
    char text[248];        /* UTF-8, ends with a zero */
};

/* ---- input: a SOCK_SEQPACKET pair, one message a packet, read by X's input thread ------------ */
enum thinc_input_type {
    THINC_POINTER_MOVE = 1, /* x, y: screen pixels */
    THINC_BUTTON = 2,       /* code: X button, state: 1 down, 0 up */
    THINC_SCROLL = 3,       /* x, y: 1/120 of a notch, right and down positive */
    THINC_KEY = 4,          /* code: X keycode (evdev + 8), state: 1 down, 0 up, 2 is still held */
    THINC_TOUCH = 5, /* code: touch id; state: 0 end, 1 begin, 2 update; x, y: screen pixels */
    THINC_RELEASE_ALL = 6,
    THINC_POINTER_MOVE_BY = 7, /* x, y: how far the user has moved it, in screen pixels */
    /* One sample of a pen. state: enum thinc_pen_state; x, y: 1/THINC_PEN_FRACTION of a screen
     * pixel; pressure, tilt */
    THINC_PEN = 8,
};

#define THINC_PEN_FRACTION 64
#define THINC_PEN_PRESSURE_MAX 65535u

enum thinc_pen_state {
    THINC_PEN_BUTTONS = 7, /* bit 0: the tip touches, X button 1; then X buttons 2 and 3 */
    THINC_PEN_NEAR = 8,    /* else it has left, and nothing is pressed */
    THINC_PEN_ERASER = 16, /* the other end of the pen */
};

struct thinc_input {
    uint32_t type, seq;
    uint32_t code, state;
    int32_t x, y;
    uint32_t pressure;      /* 0 to THINC_PEN_PRESSURE_MAX */
    int16_t tilt_x, tilt_y; /* degrees from upright, positive to the right and towards the user */
};

#define THINC_AT(type, field, at)                                                                  \
    _Static_assert(offsetof(struct type, field) == (at), #type "." #field)
#define THINC_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
THINC_SIZE(thinc_output, 24);
THINC_SIZE(thinc_geometry, 416);
THINC_AT(thinc_header, head, 64);
THINC_AT(thinc_header, tail, 128);
THINC_AT(thinc_header, begin, 192);
THINC_AT(thinc_header, reader_sleeping, 256);
THINC_AT(thinc_header, want_offscreen, 260);
THINC_AT(thinc_header, want_video, 264);
THINC_AT(thinc_header, frame_rate, 268);
THINC_AT(thinc_header, overflows, 320);
THINC_AT(thinc_header, overflow_pending, 336);
THINC_AT(thinc_header, dirty_any, 340);
THINC_AT(thinc_header, oracle_area, 344);
THINC_AT(thinc_header, holds, 360);
THINC_AT(thinc_header, geometry, 384);
THINC_AT(thinc_header, video, 1024);
THINC_AT(thinc_geometry, outputs, 32);
THINC_SIZE(thinc_header, 4096);
THINC_SIZE(thinc_video, 64);
THINC_AT(thinc_video, writing, 48);
THINC_AT(thinc_cursor, two_colors, 40);
THINC_AT(thinc_cursor, use, 52);
THINC_AT(thinc_cursor, argb, 64);
THINC_SIZE(thinc_cursor, 64 + THINC_CURSOR_MAX * THINC_CURSOR_MAX * 4);
THINC_AT(thinc_gamma, tables, 16);
THINC_AT(thinc_gamma_table, red, 16);
THINC_SIZE(thinc_gamma_table, 16 + 3 * THINC_GAMMA_ENTRIES);
THINC_AT(thinc_record, window, 12);
THINC_AT(thinc_record, x1, 24);
THINC_AT(thinc_record, dx, 40);
THINC_AT(thinc_record, arg, 48);
THINC_SIZE(thinc_record, THINC_RECORD_BYTES);
THINC_SIZE(thinc_attach, 16);
THINC_SIZE(thinc_word, 8);
THINC_SIZE(thinc_set_outputs, 400);
THINC_SIZE(thinc_framebuffer, 32);
THINC_SIZE(thinc_hello, 48);
THINC_SIZE(thinc_error, 256);
THINC_SIZE(thinc_input, 32);
THINC_AT(thinc_input, pressure, 24);
THINC_AT(thinc_input, tilt_y, 30);
_Static_assert(THINC_CURSOR_OFFSET + sizeof(struct thinc_cursor) <= THINC_GAMMA_OFFSET,
               "cursor block");
_Static_assert(THINC_GAMMA_OFFSET + sizeof(struct thinc_gamma) <= THINC_DIRTY_OFFSET,
               "gamma block");
_Static_assert(THINC_DIRTY_OFFSET + THINC_TILES_ACROSS * THINC_TILES_ACROSS / 8 ==
                   THINC_RECORDS_OFFSET,
               "dirty tiles");
_Static_assert(THINC_RECORDS_OFFSET + THINC_RECORDS * THINC_RECORD_BYTES == THINC_RING_BYTES,
               "records");
#undef THINC_AT
#undef THINC_SIZE

#endif
