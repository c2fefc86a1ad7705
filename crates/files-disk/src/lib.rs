//! Path beside the pixels, in both directions: under the shells of session and viewer, at both ends
//! of a transfer of files.
//! Reads the files that a person sends, and writes received ones where they can do no harm: beneath
//! one folder, through no link, never in place of another file, never executable. Knows paths and
//! the kernel's checks; never messages.
#![forbid(unsafe_code)]

mod copied;
mod downloads;
mod error;
mod inbox;
mod names;
mod source;
#[cfg(test)]
mod test_folder;
mod worker;

pub use copied::{CopyError, pack, unpack};
pub use downloads::downloads_folder;
pub use error::{DiskError, LeftOut};
pub use inbox::{Inbox, InboxLimits, Writer};
pub use source::Source;
pub use worker::{Disk, DiskAnswer, DiskTask, Folders, Key};
