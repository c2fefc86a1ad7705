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

use thinc_protocol::file::FilePurpose;
use thinc_protocol::limits::{FILE_BYTES_MAX, PRINT_BYTES_MAX};

/// How one side takes part in the transfer of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesPolicy {
    /// This side receives files.
    pub take: bool,
    /// This side sends files.
    pub give: bool,
    /// Its share in printing.
    pub printing: Printing,
    /// Most bytes of one transfer in either direction; at most `FILE_BYTES_MAX`, or
    /// `PRINT_BYTES_MAX` of a printed document.
    pub bytes_max: u64,
}

/// How one side takes part in printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Printing {
    /// Not at all.
    #[default]
    Off,
    /// It sends what its programs print.
    Sends,
    /// It prints what it receives.
    Receives,
}

impl FilesPolicy {
    /// No files in either direction, and no printing.
    pub const OFF: FilesPolicy =
        FilesPolicy { take: false, give: false, printing: Printing::Off, bytes_max: 0 };

    fn bytes_max(&self, purpose: &FilePurpose) -> u64 {
        match purpose {
            FilePurpose::Printed(_) => PRINT_BYTES_MAX,
            FilePurpose::Sent | FilePurpose::Dropped { .. } => self.bytes_max.min(FILE_BYTES_MAX),
        }
    }

    fn gives(&self, purpose: &FilePurpose) -> bool {
        match purpose {
            FilePurpose::Printed(_) => self.printing == Printing::Sends,
            FilePurpose::Sent | FilePurpose::Dropped { .. } => self.give,
        }
    }

    fn takes(&self, purpose: &FilePurpose) -> bool {
        match purpose {
            FilePurpose::Printed(_) => self.printing == Printing::Receives,
            FilePurpose::Sent | FilePurpose::Dropped { .. } => self.take,
        }
    }
}

impl Default for FilesPolicy {
    fn default() -> FilesPolicy {
        let printing = Printing::Off;
        FilesPolicy { take: true, give: true, printing, bytes_max: FILE_BYTES_MAX }
    }
}
