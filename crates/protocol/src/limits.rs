//! Every limit of the protocol in one place; the policy on reaching one is always: say so, and close.

/// Longest frame before a viewer has proved who it is, in bytes.
pub const PREAUTH_FRAME_BYTES_MAX: usize = 4096;
/// Longest frame from a viewer, in bytes.
pub const VIEWER_FRAME_BYTES_MAX: usize = 64 * 1024;
/// Longest frame from a session, in bytes.
pub const SESSION_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest edge of a screen, in pixels.
pub const SCREEN_EDGE_MAX: u32 = 16384;
/// Largest screen, in pixels (256 MiB of framebuffer).
pub const SCREEN_AREA_MAX: u64 = 64 * 1024 * 1024;
/// Most commands in one update.
pub const COMMANDS_MAX: usize = 4096;
/// Most rectangles in one COPY or SFILL.
pub const RECTS_MAX: usize = 4096;
/// Longest edge of a PFILL tile, in pixels.
pub const TILE_EDGE_MAX: u32 = 256;
/// Longest edge of a cursor, in pixels.
pub const CURSOR_EDGE_MAX: u32 = 256;
/// Longest name or reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Slots of a viewer's cache.
pub const CACHE_SLOTS_MAX: u32 = 65536;
/// Most memory a viewer may offer for its cache, in bytes of 4 a pixel.
pub const CACHE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Length of the token that names what a viewer has kept, in bytes.
pub const CACHE_TOKEN_BYTES: usize = 16;
/// Longest commands of an update once unpacked, in bytes.
pub const UNPACKED_BYTES_MAX: usize = SESSION_FRAME_BYTES_MAX;
/// Window of the stream that updates are packed in, as a power of two of bytes: what a viewer remembers of it.
pub const PACKED_WINDOW_LOG_MAX: u32 = 22;
/// Most input events a viewer may send in a second.
pub const INPUT_EVENTS_PER_SECOND_MAX: u32 = 4000;
/// Longest token or session key, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 128;
/// Longest name of a session or of a viewer's program, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Fingers a viewer may tell apart.
pub const TOUCH_IDS_MAX: u8 = 16;
