//! Messages from a session to a viewer.
//! Path 10/13: from session-core/update.rs through transport, to viewer-core.

use thinc_region::Size;

/// Everything a session may say. Commands of an update are read with `command::CommandReader`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionMessage<'a> {
    /// Answer to the viewer's hello.
    Hello(SessionHello),
    /// The screen has this size from now on; what the viewer shows is void (black) until updates of this epoch fill it.
    Geometry(Geometry),
    /// Commands that belong together.
    Update(Update<'a>),
    /// The cursor's image, as premultiplied ARGB; width or height 0 with no pixels hides it.
    Cursor(CursorImage<'a>),
    /// An application moved the pointer.
    CursorMove {
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// The cursor is shown or hidden; its image stays.
    CursorShow(bool),
    /// Answer to a ping.
    Pong(u32),
    /// Everything drawn before the viewer's barrier of this number has been sent before this message.
    Barrier(u32),
    /// The session ends the connection.
    Close(Close<'a>),
}

/// What the session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHello {
    /// Version both will speak.
    pub version: u16,
    /// Reserved for capabilities; 0 in version 1.
    pub caps: u32,
    /// The session's name, at most 64 bytes.
    pub name: String,
    /// Longest frame the session takes, in bytes.
    pub frame_bytes_max: u32,
}

/// Size of the screen and the epoch that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Grows by one with every change; updates name it.
    pub epoch: u32,
    /// Pixels.
    pub size: Size,
}

/// Commands put on the wire together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Its number; grows from 1.
    pub seq: u64,
    /// Newest earlier update it overlaps (COPY sources count), 0 for none: it must have been applied before.
    pub after: u64,
    /// Geometry it was made for; a viewer drops updates of another epoch (and acknowledges them).
    pub epoch: u32,
    /// Input whose effect this update is the first to show.
    pub echo: Option<u32>,
    /// It completes what was drawn at its time: a good moment to present.
    pub end_of_frame: bool,
    /// Commands, back to back.
    pub commands: &'a [u8],
}

/// An ARGB cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorImage<'a> {
    /// Pixels.
    pub size: Size,
    /// Pixel of the image that is the pointer's position.
    pub hot_x: u16,
    /// Pixel of the image that is the pointer's position.
    pub hot_y: u16,
    /// Premultiplied ARGB, 4 bytes a pixel little-endian (B, G, R, A), zstd-compressed.
    pub pixels: &'a [u8],
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// For programs.
    pub code: CloseCode,
    /// For people: names the thing, the value and the limit.
    pub reason: &'a str,
}

/// Reasons a program can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CloseCode {
    /// The session ended.
    SessionEnded = 1,
    /// No common version.
    Version = 2,
    /// The token was wrong, used or too old.
    Unauthorized = 3,
    /// A message broke the protocol or a limit.
    Protocol = 4,
    /// The viewer did not read for too long.
    TooSlow = 5,
    /// Another viewer took its place.
    Replaced = 6,
    /// The session process is going to restart; come back at once.
    Restart = 7,
}
