//! Path beside the pixels, in both directions: under session-core and viewer-core, from messages,
//! to the owner of a clipboard.
//! One end of the clipboard channel: offers, requests, contents in small chunks, and how many bytes
//! of them may be in flight. Knows messages, limits and time as an argument; never a screen, a
//! socket or an application.
#![forbid(unsafe_code)]

mod content;
mod endpoint;
mod window;

pub use endpoint::{ClipError, ClipEvent, Endpoint, Side};
pub use window::{Sent, Window};

use thinc_protocol::clip::{ClipFormat, ClipFormats};
use thinc_protocol::limits::CLIP_BYTES_MAX;

/// How one side takes part in the clipboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipboardPolicy {
    /// This side may paste what the other side copied.
    pub take: bool,
    /// The other side may paste what this side copied.
    pub give: bool,
    /// Copied files are taken as well; only with `take`.
    pub take_files: bool,
    /// They are given as well; only with `give`.
    pub give_files: bool,
    /// Longest content in either direction, in bytes; at most `CLIP_BYTES_MAX`.
    pub bytes_max: u64,
}

impl ClipboardPolicy {
    /// 16 MiB: a large screenshot as PNG, or a book. Eight transfers at once may cost each side
    /// eight times as much memory.
    pub(crate) const BYTES_MAX_DEFAULT: u64 = 16 * 1024 * 1024;
    /// No clipboard in either direction.
    pub const OFF: ClipboardPolicy = ClipboardPolicy {
        take: false,
        give: false,
        take_files: false,
        give_files: false,
        bytes_max: 0,
    };

    /// The formats that this side may offer.
    fn given(&self, formats: ClipFormats) -> ClipFormats {
        if self.give_files { formats } else { formats.without(ClipFormat::Files) }
    }

    /// The formats that this side may request.
    fn taken(&self, formats: ClipFormats) -> ClipFormats {
        if self.take_files { formats } else { formats.without(ClipFormat::Files) }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.min(CLIP_BYTES_MAX) as usize
    }
}

impl Default for ClipboardPolicy {
    fn default() -> ClipboardPolicy {
        ClipboardPolicy {
            take: true,
            give: true,
            take_files: true,
            give_files: true,
            bytes_max: ClipboardPolicy::BYTES_MAX_DEFAULT,
        }
    }
}
