//! Every limit of the protocol in one place; the policy on reaching one is to say so and close, but where it is
//! said otherwise.

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

/// Least and longest edge of the tiles of which a viewer says what it still shows, as powers of two of pixels.
pub const HELD_EDGE_LOG_MIN: u8 = 3;
/// See there.
pub const HELD_EDGE_LOG_MAX: u8 = 10;
/// Most of them: their hashes fit a frame, and no screen is so large that tiles of 512 pixels would be more.
pub const HELD_TILES_MAX: u64 = 4096;
/// Bytes of the key of their hashes.
pub const HELD_KEY_BYTES: usize = 32;
/// Bytes of the number by which a viewer that comes back is known.
pub const INSTANCE_BYTES: usize = 16;
/// Longest commands of an update once unpacked, in bytes.
pub const UNPACKED_BYTES_MAX: usize = SESSION_FRAME_BYTES_MAX;
/// Window of the stream that updates are packed in, as a power of two of bytes: what a viewer remembers of it.
pub const PACKED_WINDOW_LOG_MAX: u32 = 22;
/// Longest piece of a clipboard's content in one frame, in bytes.
pub const CLIP_DATA_BYTES_MAX: usize = 16 * 1024;
/// Transfers of clipboard contents under way at a time, for each side that asks.
pub const CLIP_TRANSFERS_MAX: usize = 8;
/// Longest content of a clipboard, in bytes; a side may take less. A longer one ends its transfer.
pub const CLIP_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Longest of each name in a keyboard layout, in bytes.
pub const LAYOUT_NAME_BYTES_MAX: usize = 128;
/// Pings of one viewer on their way at a time: half a minute of a held key on a path that brings nothing back. Past it the
/// oldest stay without an answer.
pub const PINGS_MAX: usize = 64;
/// Most input events a viewer may send in a second.
pub const INPUT_EVENTS_PER_SECOND_MAX: u32 = 4000;
/// Longest token or session key, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 128;
/// Longest name of a session or of a viewer's program, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Fingers a viewer may tell apart.
pub const TOUCH_IDS_MAX: u8 = 16;
/// Streams of video of one viewer at a time; their numbers are below it.
pub const VIDEO_STREAMS_MAX: u16 = 16;
/// Longest edge of a video's picture, in samples.
pub const VIDEO_EDGE_MAX: u32 = 8192;
/// Runs of updates in one word of what has arrived: at one lost in ten, the last 300 updates.
pub const ARRIVED_RUNS_MAX: usize = 32;
/// Updates in it that were discarded.
pub const ARRIVED_DISCARDED_MAX: usize = 32;
/// Bytes of a viewer's stream that a datagram says once more: what a hand does in a second.
pub const EARLY_BYTES_MAX: usize = 256;
/// Displays a viewer may have.
pub const DISPLAYS_MAX: usize = 16;
