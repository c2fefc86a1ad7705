//! Path beside the pixels, in both directions: under session-core and viewer-core, from messages,
//! to the shell that reads and writes the files.
//! One end of the files channel: offers, answers, contents in small chunks, their hashes, and how
//! many bytes may be in flight. Knows messages, limits and time as an argument; never a disk, a
//! socket or a person.
#![forbid(unsafe_code)]

mod endpoint;
mod incoming;
mod offer;
mod outgoing;

pub use endpoint::{Endpoint, FileError, FileEvent, Progress};
pub use incoming::Start;
pub use offer::{EntryHash, Offer, OfferError};

use thinc_protocol::limits::FILE_BYTES_MAX;

/// How one side takes part in the transfer of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesPolicy {
    /// This side receives files.
    pub take: bool,
    /// This side sends files.
    pub give: bool,
    /// Most bytes of one transfer in either direction; at most `FILE_BYTES_MAX`.
    pub bytes_max: u64,
}

impl FilesPolicy {
    /// No files in either direction.
    pub const OFF: FilesPolicy = FilesPolicy { take: false, give: false, bytes_max: 0 };

    fn bytes_max(&self) -> u64 {
        self.bytes_max.min(FILE_BYTES_MAX)
    }
}

impl Default for FilesPolicy {
    fn default() -> FilesPolicy {
        FilesPolicy { take: true, give: true, bytes_max: FILE_BYTES_MAX }
    }
}
