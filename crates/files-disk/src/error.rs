//! Beside the path: what can go wrong with files, in words for a person, and as the reason that the
//! other side is told. Knows paths; a message that leaves this side contains none.

use std::path::PathBuf;

use rustix::io::Errno;
use thinc_files::OfferError;
use thinc_protocol::file::{FileAnswer, FileEnd};

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A call failed.
    #[error("{path}: cannot be {what}: {error}", path = path.display())]
    Io {
        /// What was to be done: "opened", …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: Errno,
    },
    /// The disk is full, or would be.
    #[error(
        "{path}: {needed} bytes do not fit: {free} are free beside the {reserve} that stay free; \
            make room and send again",
        path = path.display()
    )]
    Space {
        /// The folder.
        path: PathBuf,
        /// What is still to be written.
        needed: u64,
        /// What there is room for.
        free: u64,
        /// What stays free.
        reserve: u64,
    },
    /// It is a link, a device, a pipe or a socket.
    #[error("{path}: is neither a file nor a folder; links, devices and pipes are not sent",
        path = .0.display())]
    Special(PathBuf),
    /// Named files lie in too many folders.
    #[error("the files lie in more than {0} different folders; send them in several turns")]
    Folders(usize),
    /// It changed while it was read.
    #[error("{path}: was changed while it was read; send it again", path = .0.display())]
    Changed(PathBuf),
    /// Bytes that are not the next of what is received, or not within what was listed.
    #[error("{path}: bytes {offset} to {end} of entry {entry} do not follow what is there; send \
        the files again", path = path.display())]
    Position {
        /// Where the files are.
        path: PathBuf,
        /// The entry of the offer.
        entry: u32,
        /// The first byte.
        offset: u64,
        /// The byte after the last.
        end: u64,
    },
    /// It is the home folder, where files would become settings of programs.
    #[error("{path}: is the home folder; received files need a folder of their own",
        path = .0.display())]
    Home(PathBuf),
    /// The folder of an unfinished transfer belongs to somebody else.
    #[error("{path}: is not private to this user; remove it", path = .0.display())]
    NotPrivate(PathBuf),
    /// The same files are being received already.
    #[error("the same files are being received already")]
    Twice,
    /// A name and all its numbered variants exist.
    #[error("{path}: exists, as do all its numbered variants up to {last}", path = path.display())]
    Names {
        /// The name.
        path: PathBuf,
        /// The last number that was tried.
        last: u32,
    },
    /// The files are no offer.
    #[error(transparent)]
    Offer(#[from] OfferError),
}

/// What is in folders that are sent, and is not sent itself: links, pipes and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(pub usize);

impl LeftOut {
    /// For a person; None if there is nothing.
    pub fn words(self) -> Option<String> {
        match self.0 {
            0 => None,
            1 => Some("1 link or device in it is left out".to_owned()),
            more => Some(format!("{more} links or devices in it are left out")),
        }
    }
}

impl DiskError {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(Errno) -> DiskError {
        move |error| DiskError::Io { what, path: path.into(), error }
    }

    /// Why a transfer ends, for the other side.
    pub fn end(&self) -> FileEnd {
        match self {
            DiskError::Changed(_) => FileEnd::Changed,
            DiskError::Space { .. } => FileEnd::Space,
            DiskError::Io { error, .. } if matches!(*error, Errno::NOSPC | Errno::DQUOT) => {
                FileEnd::Space
            }
            _ => FileEnd::Failed,
        }
    }

    /// Why an offer is refused, for the other side.
    pub fn answer(&self) -> FileAnswer {
        match self {
            DiskError::Space { free, .. } => FileAnswer::Space { free: *free },
            DiskError::Twice => FileAnswer::Busy,
            _ => FileAnswer::No,
        }
    }
}
