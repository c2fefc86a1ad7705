//! Beside the path, in both directions: copied files as a content of the clipboard channel
//! (`ClipFormat::Files`), whole, because the program that pastes them waits.
//! Knows fields and limits, as file.rs; never a file system.
//!
//! ```text
//! bundle  entries varint | for each: kind u8 | size varint | modified varint | path text
//!         | the bytes of each file, in that order
//! ```

use crate::file::{FileEntry, FileKind};
use crate::limits::FILE_ENTRIES_MAX;
use crate::wire::{Reader, WireError, put_varint};

/// Appends the head of a bundle; the bytes of its files follow.
pub fn encode_head(out: &mut Vec<u8>, entries: &[FileEntry]) {
    put_varint(out, entries.len() as u64);
    entries.iter().for_each(|entry| entry.encode(out));
}

/// Reads a whole bundle: its entries, each with its bytes, of which a folder has none.
///
/// # Errors
/// A field, path or limit is violated, or bytes are missing or left over.
pub fn decode(bundle: &[u8]) -> Result<Vec<(FileEntry, &[u8])>, WireError> {
    let mut reader = Reader::new(bundle);
    let count = reader.at_most("entries of a bundle", FILE_ENTRIES_MAX as u64)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(FileEntry::read(&mut reader)?);
    }
    let mut whole = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = match entry.kind {
            FileKind::File => {
                let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
                reader.take("a file of a bundle", size)?
            }
            FileKind::Folder => &[],
        };
        whole.push((entry, bytes));
    }
    reader.end("a bundle of files")?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: FileKind, path: &str, size: u64) -> FileEntry {
        FileEntry { kind, size, modified_ms: 7, path: path.to_owned() }
    }

    #[test]
    fn a_bundle_has_the_bytes_of_its_files_in_order() {
        let entries = [
            entry(FileKind::Folder, "a", 0),
            entry(FileKind::File, "a/b", 3),
            entry(FileKind::File, "c", 0),
            entry(FileKind::File, "d", 1),
        ];
        let mut bundle = Vec::new();
        encode_head(&mut bundle, &entries);
        assert_eq!(bundle[..6], [4, 1, 0, 7, 1, b'a'], "as described");
        bundle.extend_from_slice(b"xyz!");
        let whole = decode(&bundle).unwrap();
        let bytes: Vec<&[u8]> = whole.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [&b""[..], b"xyz", b"", b"!"]);
        assert!(whole.iter().map(|(entry, _)| entry).eq(&entries));
        for cut in 0..bundle.len() {
            assert!(decode(&bundle[..cut]).is_err(), "cut at {cut}");
        }
        bundle.push(0);
        assert!(decode(&bundle).is_err(), "a byte is left over");
    }

    #[test]
    fn no_bundle_leads_outside() {
        for path in ["../x", "/x", ".profile", "a/../b", "-rf"] {
            let mut bundle = Vec::new();
            encode_head(&mut bundle, &[entry(FileKind::File, &"x".repeat(path.len()), 0)]);
            assert!(decode(&bundle).is_ok(), "another name of this length is accepted");
            let name = bundle.len() - path.len();
            bundle[name..].copy_from_slice(path.as_bytes());
            assert!(decode(&bundle).is_err(), "{path}");
        }
    }
}
