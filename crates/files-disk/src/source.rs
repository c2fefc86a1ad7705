//! Path beside the pixels: from files that a person sends, to thinc-files' offers.
//! Lists files and folders, and reads them later as they were listed, or says that they changed.
//! Knows the kernel's checks of a path; never what is in a file.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2, statat,
};
use rustix::io::{Errno, pread};
use thinc_files::{Offer, OfferError};
use thinc_protocol::file::{FileEntry, FileKind, FilePurpose, check_path};
use thinc_protocol::limits::FILE_ENTRIES_MAX;

use crate::names::{numbered, wire_name};
use crate::{DiskError, LeftOut};

/// 64: named files and folders may lie in so many different folders, which stay open.
const FOLDERS_MAX: usize = 64;

/// Paths are beneath the folder that was opened when they were listed, and lead through no link.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What identifies a file and its content at the time when it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
}

impl Version {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    fn of(stat: &Stat) -> Version {
        Version {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        }
    }

    fn modified_ms(&self) -> u64 {
        let (seconds, nanoseconds) = self.modified;
        u64::try_from(seconds).unwrap_or(0).saturating_mul(1000) + nanoseconds / 1_000_000
    }
}

/// Where an entry is read.
#[derive(Debug)]
struct Place {
    /// Which of the open folders.
    folder: usize,
    /// The path beneath it.
    path: PathBuf,
    version: Version,
}

/// Files and folders that a person sends.
#[derive(Debug)]
pub struct Source {
    /// The folders that contain what was named, each once.
    folders: Vec<(PathBuf, OwnedFd)>,
    places: Vec<Place>,
    offer: Offer,
    skipped: usize,
    /// The file that was read last.
    open: Option<(usize, OwnedFd)>,
}

impl Source {
    /// Lists these files, and folders with all that they contain. Links within a folder, and what
    /// is neither a file nor a folder, are left out.
    ///
    /// # Errors
    /// A named file cannot be read, or is a link, a pipe or a device; there is too much.
    pub fn list(paths: &[PathBuf], purpose: FilePurpose) -> Result<Source, DiskError> {
        let mut lister = Lister::default();
        for path in paths {
            lister.add_named(path)?;
        }
        let Lister { folders, places, entries, skipped, .. } = lister;
        let offer = Offer::new(purpose, entries)?;
        Ok(Source { folders, places, offer, skipped, open: None })
    }

    /// What is offered.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Links, pipes and the like that were left out.
    pub fn left_out(&self) -> LeftOut {
        LeftOut(self.skipped)
    }

    /// Reads these bytes of an entry, a file.
    ///
    /// # Errors
    /// It cannot be read, or it is not what was listed: with its last bytes, its size and time are
    /// compared again.
    pub fn read(&mut self, entry: u32, offset: u64, bytes: u64) -> Result<Vec<u8>, DiskError> {
        let at = entry as usize;
        let end = offset.saturating_add(bytes);
        let listed = self.offer.entries().get(at);
        if listed.is_none_or(|file| file.kind != FileKind::File || end > file.size) {
            let path = self.folders[0].0.clone();
            return Err(DiskError::Position { path, entry, offset, end });
        }
        let place = &self.places[at];
        let (folder, handle) = &self.folders[place.folder];
        let name = || folder.join(&place.path);
        if self.open.as_ref().is_none_or(|(open, _)| *open != at) {
            // NONBLOCK: a pipe that has taken the file's name must not stop this process.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file =
                openat2(handle, &place.path, flags, Mode::empty(), BENEATH).map_err(|error| {
                    match error {
                        Errno::NOENT | Errno::LOOP | Errno::NXIO => DiskError::Changed(name()),
                        error => DiskError::Io { what: "opened", path: name(), error },
                    }
                })?;
            if !self.is_unchanged(at, &file)? {
                return Err(DiskError::Changed(name()));
            }
            self.open = Some((at, file));
        }
        let Some((_, file)) = &self.open else { unreachable!("it was opened above") };
        let mut content = vec![0; usize::try_from(bytes).expect("a read fits memory")];
        let mut filled = 0;
        while filled < content.len() {
            match pread(file, &mut content[filled..], offset + filled as u64) {
                Ok(0) => return Err(DiskError::Changed(name())),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(DiskError::Io { what: "read", path: name(), error }),
            }
        }
        if offset + bytes == place.version.size && !self.is_unchanged(at, file)? {
            return Err(DiskError::Changed(name()));
        }
        Ok(content)
    }

    fn is_unchanged(&self, at: usize, file: &OwnedFd) -> Result<bool, DiskError> {
        let place = &self.places[at];
        let path = || self.folders[place.folder].0.join(&place.path);
        let stat = fstat(file).map_err(|error| DiskError::io("examined", path())(error))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file && Version::of(&stat) == place.version)
    }
}

#[derive(Default)]
struct Lister {
    folders: Vec<(PathBuf, OwnedFd)>,
    places: Vec<Place>,
    entries: Vec<FileEntry>,
    /// Paths on the wire, which differ though two names became equal.
    taken: HashSet<String>,
    skipped: usize,
}

impl Lister {
    fn add_named(&mut self, path: &Path) -> Result<(), DiskError> {
        let absolute = std::path::absolute(path).map_err(|error| {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::INVAL);
            DiskError::Io { what: "opened", path: path.to_owned(), error }
        })?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(DiskError::Special(path.to_owned()));
        };
        let known = self.folders.iter().position(|(folder, _)| folder == parent);
        let folder = match known {
            Some(folder) => folder,
            None if self.folders.len() >= FOLDERS_MAX => {
                return Err(DiskError::Folders(FOLDERS_MAX));
            }
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let handle =
                    open(parent, flags, Mode::empty()).map_err(DiskError::io("opened", parent))?;
                self.folders.push((parent.to_owned(), handle));
                self.folders.len() - 1
            }
        };
        let stat = statat(&self.folders[folder].1, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(DiskError::io("opened", absolute.clone()))?;
        let wire = self.free_path(wire_name(name, true), &stat);
        if !self.add(folder, PathBuf::from(name), wire, &stat)? {
            return Err(DiskError::Special(absolute));
        }
        Ok(())
    }

    /// This path on the wire, or a numbered one if it is taken.
    fn free_path(&mut self, path: String, stat: &Stat) -> String {
        let has_ending = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let (folder, name) = match path.rsplit_once('/') {
            Some((folder, name)) => (format!("{folder}/"), name),
            None => (String::new(), path.as_str()),
        };
        let mut free = path.clone();
        let mut number = 2;
        while !self.taken.insert(free.clone()) {
            free = format!("{folder}{}", numbered(name, number, has_ending));
            number += 1;
        }
        free
    }

    /// Adds a file, or a folder with its content; false if it is neither.
    fn add(
        &mut self,
        folder: usize,
        path: PathBuf,
        wire: String,
        stat: &Stat,
    ) -> Result<bool, DiskError> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            _ => return Ok(false),
        };
        if self.entries.len() >= FILE_ENTRIES_MAX {
            // A larger tree is not listed to its end.
            return Err(OfferError::Entries { count: self.entries.len() + 1 }.into());
        }
        // A tree that is too deep is not followed to its end.
        check_path(&wire).map_err(|why| OfferError::Path { path: wire.clone(), why })?;
        let version = Version::of(stat);
        self.entries.push(FileEntry {
            kind,
            size: if kind == FileKind::File { version.size } else { 0 },
            // That of a folder changes with its content.
            modified_ms: if kind == FileKind::File { version.modified_ms() } else { 0 },
            path: wire.clone(),
        });
        self.places.push(Place { folder, path: path.clone(), version });
        if kind == FileKind::Folder {
            self.add_content(folder, &path, &wire)?;
        }
        Ok(true)
    }

    fn add_content(&mut self, folder: usize, path: &Path, wire: &str) -> Result<(), DiskError> {
        let (parent, handle) = &self.folders[folder];
        let full = parent.join(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat2(handle, path, flags, Mode::empty(), BENEATH)
            .map_err(|error| DiskError::io("opened", full.clone())(error))?;
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&opened).map_err(DiskError::io("listed", full.clone()))? {
            let entry = entry.map_err(|error| DiskError::io("listed", full.clone())(error))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
            if names.len() > FILE_ENTRIES_MAX {
                return Err(OfferError::Entries { count: names.len() }.into());
            }
        }
        // In order, so that the same folder is the same offer.
        names.sort();
        for name in names {
            let inner = path.join(&name);
            let stat = statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(DiskError::io("opened", full.join(&name)))?;
            let named = format!("{wire}/{}", wire_name(&name, false));
            let named = self.free_path(named, &stat);
            if !self.add(folder, inner, named, &stat)? {
                self.skipped += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test_folder::TestFolder;

    fn list(paths: &[PathBuf]) -> Result<Source, DiskError> {
        Source::list(paths, FilePurpose::Sent)
    }

    fn paths(source: &Source) -> Vec<&str> {
        source.offer().entries().iter().map(|entry| entry.path.as_str()).collect()
    }

    #[test]
    fn a_folder_is_listed_in_order_without_links_and_pipes() {
        let folder = TestFolder::new();
        folder.write("d/b/two", b"22");
        folder.write("d/a", b"1");
        folder.write("d/.hidden", b"");
        folder.write("secret", b"not sent");
        symlink(folder.path().join("secret"), folder.path().join("d/link")).unwrap();
        symlink("/", folder.path().join("d/root")).unwrap();
        let pipe = folder.path().join("d/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        let mut source = list(&[folder.path().join("d")]).unwrap();
        assert_eq!(paths(&source), ["d", "d/.hidden", "d/a", "d/b", "d/b/two"]);
        assert_eq!(source.left_out(), LeftOut(3));
        assert_eq!(source.offer().total(), 3);
        assert_eq!(source.read(4, 0, 2).unwrap(), b"22");
        assert_eq!(source.read(1, 0, 0).unwrap(), b"");
        assert_eq!(source.read(4, 1, 1).unwrap(), b"2");
        let again = list(&[folder.path().join("d")]).unwrap();
        assert_eq!(again.offer().identity(), source.offer().identity());
    }

    #[test]
    fn what_is_no_file_is_not_sent() {
        let folder = TestFolder::new();
        folder.write("f", b"1");
        let link = folder.path().join("link");
        symlink(folder.path().join("f"), &link).unwrap();
        assert!(matches!(list(&[link]), Err(DiskError::Special(_))));
        assert!(matches!(list(&["/dev/null".into()]), Err(DiskError::Special(_))));
        assert!(matches!(list(&["/".into()]), Err(DiskError::Special(_))));
        let none = list(&[folder.path().join("none")]).unwrap_err();
        assert!(none.to_string().contains("/none: cannot be opened"), "{none}");
        assert!(matches!(list(&[]), Err(DiskError::Offer(OfferError::Empty))));
    }

    #[test]
    fn files_of_one_name_are_numbered() {
        let folder = TestFolder::new();
        let files = [folder.write("a/f.txt", b"1"), folder.write("b/f.txt", b"2")];
        let mut source = list(&files).unwrap();
        assert_eq!(paths(&source), ["f.txt", "f (2).txt"]);
        assert_eq!(source.read(1, 0, 1).unwrap(), b"2");
        let hidden = list(&[folder.write(".bashrc", b"")]).unwrap();
        assert_eq!(paths(&hidden), ["_bashrc"], "what would be hidden is shown");
    }

    #[test]
    fn a_file_that_changes_is_not_sent() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 5] = [
            ("longer", |path| std::fs::write(path, b"123456789").unwrap()),
            ("shorter", |path| std::fs::write(path, b"1").unwrap()),
            ("gone", |path| std::fs::remove_file(path).unwrap()),
            ("another of this name", |path| {
                std::fs::remove_file(path).unwrap();
                std::fs::write(path, b"12345678").unwrap();
            }),
            ("a link", |path| {
                std::fs::remove_file(path).unwrap();
                symlink("/etc/hostname", path).unwrap();
            }),
        ];
        for (what, change) in changes {
            // Before it is opened, and after its first bytes were read.
            for bytes in [0, 4] {
                let folder = TestFolder::new();
                let path = folder.write("f", b"abcdefgh");
                let mut source = list(std::slice::from_ref(&path)).unwrap();
                if bytes > 0 {
                    assert_eq!(source.read(0, 0, bytes).unwrap(), b"abcd");
                }
                change(&path);
                let read = source.read(0, bytes, 8 - bytes);
                // What was opened is still what was listed, if only its name is gone.
                let is_same = bytes > 0 && !matches!(what, "longer" | "shorter");
                match read {
                    Ok(content) => assert!(is_same && content == b"efgh", "{what}"),
                    Err(error) => assert!(
                        !is_same && matches!(error, DiskError::Changed(_)),
                        "{what}: {error}"
                    ),
                }
            }
        }
    }

    #[test]
    fn a_pipe_in_place_of_a_file_stops_nobody() {
        let folder = TestFolder::new();
        let path = folder.write("f", b"abcdefgh");
        let mut source = list(std::slice::from_ref(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(source.read(0, 0, 8), Err(DiskError::Changed(_))));
    }

    #[test]
    fn a_folder_that_became_a_link_is_not_followed() {
        let folder = TestFolder::new();
        folder.write("d/f", b"public");
        let outside = TestFolder::new();
        outside.write("f", b"secret");
        let mut source = list(&[folder.path().join("d")]).unwrap();
        std::fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
        symlink(outside.path(), folder.path().join("d")).unwrap();
        assert!(matches!(source.read(1, 0, 6), Err(DiskError::Changed(_))));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_refused() {
        let folder = TestFolder::new();
        folder.write(&(["d"; 40].join("/") + "/f"), b"");
        let refused = list(&[folder.path().join("d")]).unwrap_err();
        assert!(refused.to_string().contains("has 33 components; the limit is 32"), "{refused}");
    }
}
