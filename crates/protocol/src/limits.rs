//! Every limit of the protocol in one place. Exceeding one is a protocol error: the receiver sends
//! `Close` and ends the connection, unless the limit says otherwise. Two exceptions: a WebSocket
//! message past [`VIEWER_MESSAGE_BYTES_MAX`] ends the connection without `Close`, because the
//! WebSocket library refuses it first; and a viewer may lower [`SESSION_MESSAGE_BYTES_MAX`] in its
//! HELLO, so the session cancels a job whose commands exceed it and makes smaller ones.

/// Longest message before a viewer is authenticated, in bytes.
pub const PREAUTH_MESSAGE_BYTES_MAX: usize = 4096;
/// Longest message from a viewer, in bytes.
pub const VIEWER_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Longest message from a session, in bytes.
pub const SESSION_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Shortest edge of a screen or display that a viewer may ask for, in pixels; smaller ones get it.
/// Window managers fail below it.
pub const SCREEN_EDGE_MIN: u32 = 64;
/// Longest edge of a screen, in pixels.
pub const SCREEN_EDGE_MAX: u32 = 16384;
/// Largest screen, in pixels (256 MiB of framebuffer).
pub const SCREEN_AREA_MAX: u64 = 64 * 1024 * 1024;
/// Most commands in one update.
pub const COMMANDS_MAX: usize = 4096;
/// Most rectangles in one COPY or SFILL.
pub const RECTS_MAX: usize = 4096;
/// Most pixels that the commands of one update may write and keep, in areas of the viewer's
/// framebuffer. A session needs at most 8 for COPYs, 1 for KEEPs, and 1 each for other commands and
/// a video; moves of what the right eye sees count too. Of the simulator's seeds with the real
/// encoders, the most is 4.3.
pub const UPDATE_SCREENS_MAX: u64 = 16;
/// Most pixels that the COPYs of one update may write, in areas of the viewer's framebuffer; for
/// more, a session sends pixels.
pub const COPIES_SCREENS_MAX: u64 = 8;
/// Longest edge of a PFILL tile, in pixels.
pub(crate) const TILE_EDGE_MAX: u32 = 256;
/// Longest edge of a cursor, in pixels.
pub const CURSOR_EDGE_MAX: u32 = 256;
/// Longest name or reason, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 512;
/// Most bytes of a session's stream that one group of parities covers: what a path of 100 Mbit/s
/// and 20 ms holds.
pub const PARITY_GROUP_BYTES_MAX: u32 = 256 * 1024;
/// Most parities of a group: a third of its symbols.
pub const PARITIES_MAX: u16 = 682;
/// Slots of a viewer's cache.
pub const CACHE_SLOTS_MAX: u32 = 65536;
/// Most memory a viewer may offer for its cache, in bytes at 4 bytes per pixel.
pub const CACHE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Length of the token that identifies the contents of a viewer's cache, in bytes.
pub const CACHE_TOKEN_BYTES: usize = 16;

/// Shortest edge of a retained tile, as a base-2 logarithm of pixels.
pub(crate) const RETAINED_EDGE_LOG_MIN: u8 = 3;
/// Longest edge of a retained tile, as a base-2 logarithm of pixels.
pub(crate) const RETAINED_EDGE_LOG_MAX: u8 = 10;
/// Most retained tiles: their hashes fit into one message, and tiles of 512 pixels cover the
/// largest screen.
pub(crate) const RETAINED_TILES_MAX: u64 = 4096;
/// Length of the key of the retained tiles' hashes, in bytes.
pub const RETAINED_KEY_BYTES: usize = 32;
/// Length of the number that identifies a viewer across its connections, in bytes.
pub const INSTANCE_BYTES: usize = 16;
/// Longest commands of an update after unpacking, in bytes.
pub const UNPACKED_BYTES_MAX: usize = SESSION_MESSAGE_BYTES_MAX;
/// Window of the zstd stream that updates are packed in, as a base-2 logarithm of bytes: the memory
/// that unpacking needs.
pub const PACKED_WINDOW_LOG_MAX: u32 = 22;
/// Longest chunk of a clipboard's content in one message, in bytes.
pub const CLIP_DATA_BYTES_MAX: usize = 16 * 1024;
/// Most clipboard transfers in progress, for each side that requests them.
pub const CLIP_TRANSFERS_MAX: usize = 8;
/// Longest content of a clipboard, in bytes; a side may accept less. A longer one ends its transfer
/// and not the connection.
pub const CLIP_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Longest name in a keyboard layout, in bytes.
pub const LAYOUT_NAME_BYTES_MAX: usize = 128;
/// Most unanswered pings of one viewer: half a minute of a held key on a path that returns nothing.
/// Beyond it the oldest get no answer.
pub const PINGS_MAX: usize = 64;
/// Most input events a viewer may send in a second.
pub const INPUT_EVENTS_PER_SECOND_MAX: u32 = 4000;
/// Most messages a viewer may send in a second, without the chunks of a clipboard's content; six
/// seconds of them may come at once.
pub const MESSAGES_PER_SECOND_MAX: u32 = 20_000;
/// Most questions and texts of one message before authentication.
pub const AUTH_PROMPTS_MAX: usize = 6;
/// Longest token or session credential, in bytes.
pub(crate) const CREDENTIAL_BYTES_MAX: usize = 128;
/// Longest link in an answer to a request to share, or reason of a refusal, in bytes.
pub const LINK_BYTES_MAX: usize = 2048;
/// Most people that a viewer is told of; a session has fewer viewers.
pub const PEOPLE_MAX: usize = 64;
/// Most invitations that an owner's viewer is told of: the newest, as many as a menu can show.
pub const INVITATIONS_TOLD_MAX: usize = 32;
/// Longest password of an invitation, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Longest notice for people, in bytes: what fits a panel.
pub const NOTICE_BYTES_MAX: usize = 1000;
/// Longest name of a session, of a viewer's program or of a guest, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Number of touch points a viewer may distinguish.
pub(crate) const TOUCH_IDS_MAX: u8 = 16;
/// Most video streams of one viewer at a time; their numbers are below this.
pub const VIDEO_STREAMS_MAX: u16 = 16;
/// Longest edge of a video's frame, in samples.
pub const VIDEO_EDGE_MAX: u32 = 8192;
/// Most runs of updates in one ARRIVED: with one update in ten lost, they span the last 300.
pub const ARRIVED_RUNS_MAX: usize = 32;
/// Most discarded updates in one ARRIVED.
pub const ARRIVED_DISCARDED_MAX: usize = 32;
/// Most bytes of a viewer's stream that one datagram repeats: a second of input.
pub const EARLY_BYTES_MAX: usize = 256;
/// Most monitors a viewer may have.
pub const DISPLAYS_MAX: usize = 16;
/// Longest SOUND, in bytes with its kind and length: one datagram on any path that QUIC accepts.
pub const SOUND_BYTES_MAX: usize = 1200;
/// Most frames of one SOUND: its own and two repeats.
pub const SOUND_FRAMES_MAX: usize = 3;
/// Furthest repeat in a SOUND, in frames.
pub const SOUND_BACK_MAX: u8 = 8;
/// Most programs in one SOUND PLAYERS; their names have at most `NAME_BYTES_MAX`.
pub const SOUND_PLAYERS_MAX: usize = 16;
/// Lengths that a frame of sound may have, in samples at 48 kHz: 2.5, 5, 10 and 20 ms.
pub const SOUND_FRAME_SAMPLES: [u16; 4] = [120, 240, 480, 960];
/// Most packets of a viewer's microphone in a second: frames of 5 ms, and a tenth more.
pub const MICROPHONE_PACKETS_PER_SECOND_MAX: u32 = 220;
/// Most entries in an offer of files.
pub const FILE_ENTRIES_MAX: usize = 10_000;
/// Most components of an offered path.
pub const FILE_DEPTH_MAX: usize = 32;
/// Longest component of an offered path, in bytes: what Linux's file systems can name.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Longest offered path, in bytes.
pub const FILE_PATH_BYTES_MAX: usize = 1024;
/// Longest paths of one offer, in bytes: a bound on the memory that it takes.
pub const FILE_PATHS_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes of all files of one offer; a side may accept less.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Longest chunk of a file in one message, in bytes.
pub const FILE_DATA_BYTES_MAX: usize = 16 * 1024;
/// What an entry and a chunk count in `FileMessage::Taken` beside path and bytes: about what their
/// other fields take.
pub const FILE_OVERHEAD_BYTES: u64 = 64;
/// Most transfers of files that are offered, wait for an answer or are in progress, for each side
/// that offers; a further offer is answered with `FileAnswer::Busy`.
pub const FILE_TRANSFERS_MAX: usize = 8;
/// Most bytes of one transfer that are sent and not taken, as `FileMessage::Taken` counts them.
pub const FILE_UNTAKEN_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Longest title of a printed document, in bytes.
pub const PRINT_TITLE_BYTES_MAX: usize = 255;
/// Longest name of a paper, in bytes.
pub const PRINT_MEDIA_BYTES_MAX: usize = 64;
/// Most copies of a printed document.
pub const PRINT_COPIES_MAX: u16 = 999;
/// 256 MiB: largest printed document.
pub const PRINT_BYTES_MAX: u64 = 256 * 1024 * 1024;
