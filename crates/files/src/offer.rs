//! Path beside the pixels, in both directions: under endpoint.rs, and used by both ends' shells.
//! A complete offer whose entries form a tree, and what it is recognised by after a connection was
//! lost. Knows names, sizes and times; never a file.

use std::collections::HashMap;
use std::fmt;

use sha2::{Digest as _, Sha256};
use thinc_protocol::file::{
    FILE_HASH_BYTES, FileEntry, FileKind, FilePurpose, PathError, check_path,
};
use thinc_protocol::limits::{FILE_BYTES_MAX, FILE_ENTRIES_MAX, FILE_PATHS_BYTES_MAX};

/// Why entries are no offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// No entries.
    #[error("there are no files to send")]
    Empty,
    /// Too many entries.
    #[error("{count} files and folders; at most {FILE_ENTRIES_MAX} are sent at a time")]
    Entries {
        /// Their number.
        count: usize,
    },
    /// Too many bytes.
    #[error("{bytes} bytes; at most {limit} are sent at a time")]
    Bytes {
        /// The sum of the sizes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The paths together are too long.
    #[error("paths of {bytes} bytes; at most {FILE_PATHS_BYTES_MAX} are sent at a time")]
    Paths {
        /// Their length.
        bytes: usize,
    },
    /// A path is not accepted.
    #[error("the path {path:?} {why}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        why: PathError,
    },
    /// Two entries have one path.
    #[error("{0:?} is offered twice")]
    Twice(String),
    /// An entry's folder is not among the entries before it.
    #[error("{0:?} is offered without its folder")]
    Folder(String),
    /// Too many transfers.
    #[error("{0} transfers are in progress or wait for an answer; try again when one has ended")]
    Busy(usize),
    /// This side sends no files.
    #[error("sending files is switched off here")]
    Policy,
    /// What is printed is not one document.
    #[error("what is printed must be one file whose name ends with .pdf")]
    Printed,
}

/// Files and folders that are sent together. Each folder precedes what it contains, and no path
/// occurs twice, so that writing them in order never replaces anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    purpose: FilePurpose,
    entries: Vec<FileEntry>,
    total: u64,
}

impl Offer {
    /// An offer of these entries.
    ///
    /// # Errors
    /// Why they are none.
    pub fn new(purpose: FilePurpose, entries: Vec<FileEntry>) -> Result<Offer, OfferError> {
        if entries.is_empty() {
            return Err(OfferError::Empty);
        }
        if entries.len() > FILE_ENTRIES_MAX {
            return Err(OfferError::Entries { count: entries.len() });
        }
        let paths = entries.iter().map(|entry| entry.path.len()).sum();
        if paths > FILE_PATHS_BYTES_MAX {
            return Err(OfferError::Paths { bytes: paths });
        }
        let total = entries.iter().fold(0_u64, |total, entry| total.saturating_add(entry.size));
        if total > FILE_BYTES_MAX {
            return Err(OfferError::Bytes { bytes: total, limit: FILE_BYTES_MAX });
        }
        // The viewer's system chooses a program by the name.
        let is_document = |entries: &[FileEntry]| match entries {
            [FileEntry { kind: FileKind::File, path, .. }] => {
                !path.contains('/') && path.ends_with(".pdf")
            }
            _ => false,
        };
        if matches!(purpose, FilePurpose::Printed(_)) && !is_document(&entries) {
            return Err(OfferError::Printed);
        }
        let mut kinds: HashMap<&str, FileKind> = HashMap::with_capacity(entries.len());
        for entry in &entries {
            let path = entry.path.as_str();
            check_path(path).map_err(|why| OfferError::Path { path: path.to_owned(), why })?;
            if let Some((folder, _)) = path.rsplit_once('/')
                && kinds.get(folder) != Some(&FileKind::Folder)
            {
                return Err(OfferError::Folder(path.to_owned()));
            }
            if kinds.insert(path, entry.kind).is_some() {
                return Err(OfferError::Twice(path.to_owned()));
            }
        }
        Ok(Offer { purpose, entries, total })
    }

    /// What it is for.
    pub fn purpose(&self) -> &FilePurpose {
        &self.purpose
    }

    /// Its entries, at least one.
    pub fn entries(&self) -> &[FileEntry] {
        &self.entries
    }

    /// Bytes of all files.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Names without a folder: what a person sees of the offer.
    pub fn top_level(&self) -> impl Iterator<Item = &FileEntry> {
        self.entries.iter().filter(|entry| !entry.path.contains('/'))
    }

    /// Bytes of the files before this position.
    pub fn bytes_before(&self, entry: usize, offset: u64) -> u64 {
        self.entries[..entry].iter().map(|entry| entry.size).sum::<u64>() + offset
    }

    /// The first file from this entry on; the number of entries if there is none.
    pub(crate) fn file_from(&self, entry: usize) -> usize {
        let files = self.entries[entry..].iter().position(|entry| entry.kind == FileKind::File);
        files.map_or(self.entries.len(), |ahead| entry + ahead)
    }

    /// A hash of all names, sizes and times, and of how they are printed: the same files,
    /// unchanged, have it again when they are offered over another connection. Who has agreed to
    /// receive a file has not agreed to open it.
    pub fn identity(&self) -> [u8; FILE_HASH_BYTES] {
        let mut hash = Sha256::new();
        if let FilePurpose::Printed(ticket) = &self.purpose {
            hash.update(b"printed");
            hash.update(ticket.copies.to_le_bytes());
            hash.update([ticket.sides as u8, u8::from(ticket.colour)]);
            for text in [&ticket.title, &ticket.media] {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
        }
        for entry in &self.entries {
            // Each field has its length, so that no two lists have the same bytes.
            hash.update([entry.kind as u8]);
            hash.update(entry.size.to_le_bytes());
            hash.update(entry.modified_ms.to_le_bytes());
            hash.update((entry.path.len() as u64).to_le_bytes());
            hash.update(&entry.path);
        }
        hash.finalize().into()
    }
}

/// The hash of a file, of which a part may have arrived over an earlier connection.
#[derive(Clone, Default)]
pub struct EntryHash(Sha256);

impl fmt::Debug for EntryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntryHash")
    }
}

impl EntryHash {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash, ready for the next file.
    pub(crate) fn take(&mut self) -> [u8; FILE_HASH_BYTES] {
        self.0.finalize_reset().into()
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::print::{PrintSides, PrintTicket};

    use super::*;

    fn entry(kind: FileKind, size: u64, path: &str) -> FileEntry {
        FileEntry { kind, size, modified_ms: 0, path: path.to_owned() }
    }

    fn offer(entries: &[(FileKind, &str)]) -> Result<Offer, OfferError> {
        let entries = entries.iter().map(|&(kind, path)| entry(kind, 0, path)).collect();
        Offer::new(FilePurpose::Sent, entries)
    }

    #[test]
    fn entries_form_a_tree() {
        use FileKind::{File, Folder};
        let tree = offer(&[(Folder, "d"), (File, "d/f"), (File, "f")]).unwrap();
        let top: Vec<&str> = tree.top_level().map(|entry| entry.path.as_str()).collect();
        assert_eq!(top, ["d", "f"]);
        assert_eq!(tree.file_from(0), 1);
        assert_eq!(tree.file_from(3), 3);
        assert_eq!(offer(&[]), Err(OfferError::Empty));
        assert_eq!(offer(&[(File, "f"), (File, "f")]), Err(OfferError::Twice("f".into())));
        assert_eq!(offer(&[(File, "d/f")]), Err(OfferError::Folder("d/f".into())));
        assert_eq!(offer(&[(File, "d"), (File, "d/f")]), Err(OfferError::Folder("d/f".into())));
        assert_eq!(offer(&[(File, "d/f"), (Folder, "d")]), Err(OfferError::Folder("d/f".into())));
        let why = PathError::Dots;
        assert_eq!(offer(&[(File, "..")]), Err(OfferError::Path { path: "..".into(), why }));
    }

    #[test]
    fn an_offer_is_bounded() {
        let files = |count| {
            let files = (0..count).map(|n| entry(FileKind::File, 0, &n.to_string())).collect();
            Offer::new(FilePurpose::Sent, files)
        };
        assert!(files(FILE_ENTRIES_MAX).is_ok());
        let count = FILE_ENTRIES_MAX + 1;
        assert_eq!(files(count), Err(OfferError::Entries { count }));
        let sized = |sizes: &[u64]| {
            let files = (0..).zip(sizes);
            let files = files.map(|(n, &size)| entry(FileKind::File, size, &format!("{n}")));
            Offer::new(FilePurpose::Sent, files.collect())
        };
        assert_eq!(sized(&[FILE_BYTES_MAX]).unwrap().total(), FILE_BYTES_MAX);
        let (bytes, limit) = (FILE_BYTES_MAX + 1, FILE_BYTES_MAX);
        assert_eq!(sized(&[FILE_BYTES_MAX, 1]), Err(OfferError::Bytes { bytes, limit }));
        assert!(matches!(sized(&[u64::MAX, 2]), Err(OfferError::Bytes { .. })));
        let long = (0..5000).map(|n| entry(FileKind::File, 0, &format!("{n:0>250}")));
        assert!(matches!(
            Offer::new(FilePurpose::Sent, long.collect()),
            Err(OfferError::Paths { bytes: 1_250_000 })
        ));
    }

    #[test]
    fn an_offer_is_recognised_unless_something_changed() {
        let offer = |size, modified_ms, path: &str| {
            let entry = FileEntry { kind: FileKind::File, size, modified_ms, path: path.into() };
            Offer::new(FilePurpose::Sent, vec![entry]).unwrap().identity()
        };
        let first = offer(1, 2, "f");
        assert_eq!(offer(1, 2, "f"), first);
        for other in [offer(2, 2, "f"), offer(1, 3, "f"), offer(1, 2, "g")] {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn who_agreed_to_receive_a_file_has_not_agreed_to_print_it() {
        let offer = |purpose, path: &str| Offer::new(purpose, vec![entry(FileKind::File, 1, path)]);
        let printed = |title: &str| {
            FilePurpose::Printed(Box::new(PrintTicket {
                title: title.to_owned(),
                copies: 1,
                sides: PrintSides::One,
                colour: true,
                media: String::new(),
            }))
        };
        let identity = |purpose| offer(purpose, "f.pdf").unwrap().identity();
        assert_ne!(identity(FilePurpose::Sent), identity(printed("a")));
        assert_ne!(identity(printed("a")), identity(printed("b")));
        assert_eq!(identity(printed("a")), identity(printed("a")));
        for path in ["f.html", "f.desktop", "f", "f.pdf.exe"] {
            assert_eq!(offer(printed("a"), path), Err(OfferError::Printed), "{path}");
        }
    }
}
