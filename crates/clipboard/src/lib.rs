//! Path beside the pixels, both ways: under session-core and viewer-core, between the wire and whoever owns a clipboard.
//! One end of the clipboard's channel: offers, requests, contents in small pieces, and how many of them may be under way.
//! Knows messages, limits and time as an argument; never a screen, a socket or a program that copies.
#![forbid(unsafe_code)]

mod content;
mod end;
mod window;

pub use end::{ClipError, ClipEvent, End, Side};

use thinc_protocol::limits::CLIP_BYTES_MAX;

/// How one side takes part in the clipboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipboardPolicy {
    /// What the other side owns may be had here.
    pub take: bool,
    /// What is owned here may be had there.
    pub give: bool,
    /// Longest content given or taken, in bytes; never more than `CLIP_BYTES_MAX`.
    pub bytes_max: u64,
}

impl ClipboardPolicy {
    /// 16 MiB: a photograph of a large screen as PNG, or a book; what eight contents at once may cost each side in memory is
    /// eight times as much.
    pub const BYTES_MAX_DEFAULT: u64 = 16 * 1024 * 1024;
    /// No clipboard at all.
    pub const OFF: ClipboardPolicy = ClipboardPolicy { take: false, give: false, bytes_max: 0 };

    fn bytes_max(&self) -> usize {
        self.bytes_max.min(CLIP_BYTES_MAX) as usize
    }
}

impl Default for ClipboardPolicy {
    fn default() -> ClipboardPolicy {
        ClipboardPolicy { take: true, give: true, bytes_max: ClipboardPolicy::BYTES_MAX_DEFAULT }
    }
}
