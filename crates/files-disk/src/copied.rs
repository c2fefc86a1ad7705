//! Path beside the pixels, in both directions: under x-selection, between copied files and a
//! content of the clipboard (`thinc_protocol::file_bundle`).
//! Packs files that a program has copied, and writes received ones into a folder for pasted files.
//! Knows paths and contents; never selections.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags, openat};
use thinc_files::Offer;
use thinc_protocol::file::{FileKind, FilePurpose};
use thinc_protocol::file_bundle;
use thinc_protocol::wire::WireError;

use crate::{DiskError, Inbox, InboxLimits, Source};

/// 256 KiB: read at once.
const READ_BYTES: u64 = 256 * 1024;
/// 8: pastes whose files are kept; programs copy them at once.
const PASTES_MAX: usize = 8;
/// 16: whatever their age; a program that reads what is copied again and again fills no disk.
const PASTES_YOUNG_MAX: usize = 16;
/// An hour: time until the files of a paste may be removed, whatever comes after it.
const PASTE_AGE_MIN: Duration = Duration::from_secs(60 * 60);

/// Why copied files cannot be transferred.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// They cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The content is no bundle.
    #[error("the copied files are damaged: {0}")]
    Wire(#[from] WireError),
    /// They are too long for the clipboard.
    #[error("the copied files have {bytes} bytes; the clipboard's limit is {limit}")]
    TooLarge {
        /// Their length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The folder for pasted files cannot be made.
    #[error("{}: {error}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The content of these files and folders, of at most `bytes_max`.
///
/// # Errors
/// One cannot be read, or they are too long.
pub fn pack(paths: &[PathBuf], bytes_max: u64) -> Result<Vec<u8>, CopyError> {
    let mut source = Source::list(paths, FilePurpose::Sent)?;
    let offer = source.offer().clone();
    let mut bundle = Vec::new();
    file_bundle::encode_head(&mut bundle, offer.entries());
    let bytes = bundle.len() as u64 + offer.total();
    if bytes > bytes_max {
        return Err(CopyError::TooLarge { bytes, limit: bytes_max });
    }
    bundle.reserve_exact(offer.total() as usize);
    for (at, entry) in offer.entries().iter().enumerate() {
        let (mut offset, is_file) = (0, entry.kind == FileKind::File);
        while is_file && offset < entry.size {
            let wanted = READ_BYTES.min(entry.size - offset);
            bundle.extend_from_slice(&source.read(at as u32, offset, wanted)?);
            offset += wanted;
        }
    }
    Ok(bundle)
}

/// Writes the files of a bundle into a new folder beneath `folder`, which is made private. Returns
/// the paths of what has no folder in the bundle. Files of earlier pastes are removed.
///
/// # Errors
/// It is no bundle, or its files cannot be written.
pub fn unpack(bundle: &[u8], folder: &Path, home: &Path) -> Result<Vec<PathBuf>, CopyError> {
    let whole = file_bundle::decode(bundle)?;
    let entries = whole.iter().map(|(entry, _)| entry.clone()).collect();
    let offer = Offer::new(FilePurpose::Sent, entries).map_err(DiskError::from)?;
    let error = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| CopyError::Folder { path, error }
    };
    fs::create_dir_all(folder).map_err(error(folder))?;
    sweep(folder, SystemTime::now());
    let paste = new_folder(folder).map_err(error(folder))?;
    let inbox = Inbox::open(&paste, home, InboxLimits::default())?;
    let mut writer = inbox.receive(Arc::new(offer))?;
    for (at, (entry, bytes)) in whole.iter().enumerate() {
        if entry.kind == FileKind::File {
            writer.write(at as u32, 0, bytes, true)?;
        }
    }
    Ok(writer.finish()?)
}

/// A folder with a new name, which only this user reads.
fn new_folder(folder: &Path) -> io::Result<PathBuf> {
    let handle = openat(
        rustix::fs::CWD,
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut number = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    loop {
        let name = format!("paste-{number:016x}");
        match rustix::fs::mkdirat(&handle, &name, Mode::RWXU) {
            Ok(()) => return Ok(folder.join(name)),
            Err(rustix::io::Errno::EXIST) => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the files of all but the newest pastes.
fn sweep(folder: &Path, now: SystemTime) {
    let Ok(found) = fs::read_dir(folder) else { return };
    let mut pastes: Vec<(SystemTime, PathBuf)> = found
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("paste-"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    pastes.sort();
    let count = pastes.len();
    let surplus = count.saturating_sub(PASTES_MAX - 1);
    for (at, (modified, path)) in pastes.into_iter().enumerate().take(surplus) {
        let is_old = now.duration_since(modified).is_ok_and(|age| age >= PASTE_AGE_MIN);
        if is_old || count - at >= PASTES_YOUNG_MAX {
            // What cannot be removed is found by the next sweep.
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn copied_files_are_pasted_with_their_names_and_contents() {
        let home = TestFolder::new();
        let file = home.write("from/report.txt", b"what it says");
        home.write("from/folder/inner/x", b"x");
        let folder = home.path().join("from/folder");
        let bundle = pack(&[file.clone(), folder], 1000).unwrap();
        let pasted = home.path().join("cache/pasted");
        let unpacked = unpack(&bundle, &pasted, home.path());
        if let Err(CopyError::Disk(DiskError::Space { .. })) = unpacked {
            // A gigabyte stays free, which this machine has not.
            return;
        }
        let first = unpacked.unwrap();
        let again = unpack(&bundle, &pasted, home.path()).unwrap();
        for paths in [&first, &again] {
            let [report, folder] = &paths[..] else { panic!("{paths:?}") };
            assert!(report.ends_with("report.txt") && folder.ends_with("folder"), "{paths:?}");
            assert_eq!(fs::read(report).unwrap(), b"what it says");
            assert_eq!(fs::read(folder.join("inner/x")).unwrap(), b"x");
        }
        assert_ne!(first, again, "a paste replaces nothing");
        let error = pack(&[file], 20).unwrap_err();
        assert!(matches!(error, CopyError::TooLarge { limit: 20, bytes } if bytes > 20), "{error}");
    }

    #[test]
    fn what_is_no_bundle_writes_nothing() {
        let home = TestFolder::new();
        let pasted = home.path().join("pasted");
        for bytes in [&b"\x01\x00\x05\x00\x01xabc"[..], b"", b"\x01\x00\x01\x00\x02..x"] {
            assert!(unpack(bytes, &pasted, home.path()).is_err());
        }
        assert!(!pasted.exists());
    }

    #[test]
    fn files_of_earlier_pastes_are_removed_after_an_hour() {
        let home = TestFolder::new();
        for _ in 0..PASTES_MAX + 2 {
            new_folder(home.path()).unwrap();
        }
        home.write("mine", b"");
        let count = || fs::read_dir(home.path()).unwrap().count();
        sweep(home.path(), SystemTime::now());
        assert_eq!(count(), PASTES_MAX + 3, "programs may still copy them");
        sweep(home.path(), SystemTime::now() + PASTE_AGE_MIN + Duration::from_secs(60));
        assert_eq!(count(), PASTES_MAX, "seven and what is not ours");
        for _ in 0..2 * PASTES_YOUNG_MAX {
            sweep(home.path(), SystemTime::now());
            new_folder(home.path()).unwrap();
        }
        assert_eq!(count(), PASTES_YOUNG_MAX + 1);
    }
}
