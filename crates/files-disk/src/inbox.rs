//! Path beside the pixels: from thinc-files, to a folder of received files.
//! Writes exactly what was accepted, first into a private folder beside its destination, and moves
//! it there once all of it is there and right. Knows the kernel's checks of a path; never messages.
//!
//! What has arrived before a connection was lost stays in that folder, whose name is the offer's
//! identity, so that the same offer goes on there:
//!
//! ```text
//! Downloads/.thinc-0123…/tree/…   files that are complete, under their names
//! Downloads/.thinc-0123…/part     the one that is not
//! ```

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Timespec,
    Timestamps, UTIME_NOW, flock, fstat, fstatvfs, futimens, linkat, mkdirat, open, openat2,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use thinc_files::{EntryHash, Offer, Start};
use thinc_protocol::file::{FileEntry, FileKind};

use crate::DiskError;
use crate::names::numbered;

/// Beginning of the names of private folders; the first half of the identity follows, in hex.
const PRIVATE_PREFIX: &str = ".thinc-";
const IDENTITY_DIGITS: usize = 32;
const TREE: &str = "tree";
const PART: &str = "part";
/// 999: the last variant of a name that is tried.
const NUMBER_MAX: u32 = 999;
/// 16 MiB: bytes written between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 16 * 1024 * 1024;
/// 256 KiB: read at once to hash what is there.
const HASHED_BYTES: usize = 256 * 1024;

/// Nobody but the user reads or writes it; never executable.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;

/// Paths are beneath an open folder and lead through no link.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What a folder of received files may take.
#[derive(Clone, Copy, Debug)]
pub struct InboxLimits {
    /// Bytes of the disk that stay free.
    pub reserve: u64,
    /// Unfinished transfers that are kept.
    pub unfinished: usize,
    /// For how long.
    pub age: Duration,
}

impl Default for InboxLimits {
    fn default() -> InboxLimits {
        InboxLimits {
            // 1 GiB: programs fail in odd ways on a full disk.
            reserve: 1 << 30,
            unfinished: 8,
            // A day: who comes back the next morning need not begin again.
            age: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// A folder of received files.
#[derive(Debug)]
pub struct Inbox {
    path: PathBuf,
    folder: OwnedFd,
    limits: InboxLimits,
}

impl Inbox {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    /// It cannot be opened, or it is the home folder.
    pub fn open(path: &Path, home: &Path, limits: InboxLimits) -> Result<Inbox, DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdir(path, FOLDER_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(DiskError::io("made", path)(error)),
                }
                open(path, flags, Mode::empty())
            }
            opened => opened,
        };
        let folder = folder.map_err(DiskError::io("opened", path))?;
        let stat = fstat(&folder).map_err(DiskError::io("examined", path))?;
        // Compared as folders: a link may lead there.
        let is_home = rustix::fs::stat(home)
            .is_ok_and(|home| (home.st_dev, home.st_ino) == (stat.st_dev, stat.st_ino));
        if is_home {
            return Err(DiskError::Home(path.to_owned()));
        }
        Ok(Inbox { path: path.to_owned(), folder, limits })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes unfinished transfers that are too old or too many, the oldest first. Those that are
    /// being received are left.
    pub fn sweep(&self, now: SystemTime) {
        let Ok(names) = std::fs::read_dir(&self.path) else { return };
        let mut unfinished: Vec<(SystemTime, PathBuf)> = names
            .flatten()
            .filter(|entry| is_private_name(&entry.file_name().to_string_lossy()))
            // Not through a link.
            .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
            .filter(|(metadata, _)| metadata.is_dir())
            .filter_map(|(metadata, path)| Some((metadata.modified().ok()?, path)))
            .collect();
        unfinished.sort();
        let surplus = unfinished.len().saturating_sub(self.limits.unfinished);
        for (index, (modified, path)) in unfinished.iter().enumerate() {
            let age = now.duration_since(*modified).unwrap_or_default();
            if index >= surplus && age < self.limits.age {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(folder) = open(path, flags, Mode::empty()) else { continue };
            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // What cannot be removed is found by the next sweep.
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }

    /// Prepares to write these files, or to go on where an earlier connection ended.
    ///
    /// # Errors
    /// There is no room for them, they are being received already, or the folder cannot be written.
    pub fn receive(&self, offer: Arc<Offer>) -> Result<Writer, DiskError> {
        let name = private_name(&offer);
        let path = self.path.join(&name);
        match mkdirat(&self.folder, &name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(DiskError::Io { what: "made", path, error }),
        }
        let private = open_folder(&self.folder, &name).map_err(DiskError::io("opened", &path))?;
        let stat = fstat(&private).map_err(DiskError::io("examined", &path))?;
        if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
            return Err(DiskError::NotPrivate(path));
        }
        flock(&private, FlockOperation::NonBlockingLockExclusive).map_err(|_| DiskError::Twice)?;
        match mkdirat(&private, TREE, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(DiskError::Io { what: "made", path, error }),
        }
        let tree = open_folder(&private, TREE).map_err(DiskError::io("opened", &path))?;
        let mut writer = Writer {
            inbox: self.path.clone(),
            destination: self.folder.try_clone().map_err(|error| {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                DiskError::Io { what: "opened", path: self.path.clone(), error }
            })?,
            reserve: self.limits.reserve,
            path,
            name,
            private,
            tree,
            offer,
            entry: 0,
            offset: 0,
            folders: 0,
            part: None,
            hashed: 0,
            hash: EntryHash::default(),
            unchecked: 0,
        };
        let start = writer.find_start()?;
        let done = writer.offer.bytes_before(start.entry as usize, start.offset);
        writer.check_space(writer.offer.total() - done)?;
        (writer.entry, writer.offset) = (start.entry as usize, start.offset);
        Ok(writer)
    }
}

/// Files that are being received. Dropped before [`Writer::finish`], it leaves what has arrived, so
/// that the same offer goes on there later.
#[derive(Debug)]
pub struct Writer {
    /// For errors and results.
    inbox: PathBuf,
    destination: OwnedFd,
    reserve: u64,
    /// The private folder; it is locked while this exists.
    path: PathBuf,
    name: String,
    private: OwnedFd,
    tree: OwnedFd,
    offer: Arc<Offer>,
    /// The next byte to write.
    entry: usize,
    offset: u64,
    /// The folders among the entries before this one exist.
    folders: usize,
    part: Option<File>,
    /// Bytes that an earlier connection has brought of the first file, as far as they were read,
    /// and their hash.
    hashed: u64,
    hash: EntryHash,
    /// Bytes written since the free space was looked at.
    unchecked: u64,
}

impl Writer {
    /// What is received.
    pub fn offer(&self) -> &Arc<Offer> {
        &self.offer
    }

    /// Where the transfer begins, once what is there of an unfinished file was read; each call
    /// reads at most `bytes_max` of it, since gigabytes take seconds. None: there is more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn poll_start(&mut self, bytes_max: u64) -> Result<Option<Start>, DiskError> {
        if self.hashed < self.offset {
            let path = self.path.join(PART);
            let error = |error: std::io::Error| {
                let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                DiskError::Io { what: "read", path: path.clone(), error }
            };
            let mut part = match self.part.take() {
                Some(part) => part,
                None => self.open_part()?,
            };
            let end = self.offset.min(self.hashed.saturating_add(bytes_max));
            part.seek(SeekFrom::Start(self.hashed)).map_err(error)?;
            let mut buffer = vec![0; HASHED_BYTES];
            while self.hashed < end {
                let most = (end - self.hashed).min(HASHED_BYTES as u64) as usize;
                part.read_exact(&mut buffer[..most]).map_err(error)?;
                self.hash.update(&buffer[..most]);
                self.hashed += most as u64;
            }
            self.part = Some(part);
        }
        let start = Start { hash: self.hash.clone(), ..self.position() };
        Ok((self.hashed == self.offset).then_some(start))
    }

    /// Writes the next bytes of a file; with `last` it is complete, and its hash was right.
    ///
    /// # Errors
    /// They cannot be written, or are not the next bytes. The writer is of no use any more then.
    pub fn write(
        &mut self,
        entry: u32,
        offset: u64,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), DiskError> {
        let at = entry as usize;
        let end = offset.saturating_add(bytes.len() as u64);
        let misplaced = || DiskError::Position { path: self.path.clone(), entry, offset, end };
        let file = self.offer.entries().get(at).filter(|file| file.kind == FileKind::File);
        let size = file.ok_or_else(misplaced)?.size;
        let is_next =
            offset == self.offset && (at == self.entry || (at > self.entry && offset == 0));
        if !is_next || end > size || last != (end == size) {
            return Err(misplaced());
        }
        self.entry = at;
        if self.unchecked + bytes.len() as u64 > SPACE_CHECK_BYTES {
            self.check_space(bytes.len() as u64)?;
            self.unchecked = 0;
        }
        self.unchecked += bytes.len() as u64;
        let mut part = match self.part.take() {
            Some(part) => part,
            None => self.open_part()?,
        };
        let path = self.path.join(PART);
        let error = |error: std::io::Error| {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            DiskError::Io { what: "written", path: path.clone(), error }
        };
        part.seek(SeekFrom::Start(offset)).map_err(error)?;
        part.write_all(bytes).map_err(error)?;
        self.offset += bytes.len() as u64;
        if !last {
            self.part = Some(part);
            return Ok(());
        }
        self.make_folders(at)?;
        let file = &self.offer.entries()[at];
        set_time(&part, file.modified_ms);
        let (parent, name) = self.parent(file)?;
        let place = || self.path.join(TREE).join(&file.path);
        rename_new(&self.private, PART, &parent, name, FileKind::File)
            .map_err(|error| DiskError::io("stored", place())(error))?;
        (self.entry, self.offset) = (at + 1, 0);
        Ok(())
    }

    /// Moves everything to its destination: a name that exists there gets a number. Returns the new
    /// paths of what the offer has at its top level.
    ///
    /// # Errors
    /// It cannot be moved; what was moved before stays there.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, DiskError> {
        self.make_folders(self.offer.entries().len())?;
        let moved = self.offer.top_level().map(|entry| self.move_out(entry));
        let paths = moved.collect::<Result<Vec<PathBuf>, DiskError>>()?;
        self.discard();
        Ok(paths)
    }

    fn move_out(&self, entry: &FileEntry) -> Result<PathBuf, DiskError> {
        let mut name = entry.path.clone();
        for number in 2..=NUMBER_MAX {
            match rename_new(&self.tree, &entry.path, &self.destination, &name, entry.kind) {
                Ok(()) => return Ok(self.inbox.join(name)),
                Err(Errno::EXIST | Errno::NOTEMPTY) => {
                    name = numbered(&entry.path, number, entry.kind == FileKind::File);
                }
                Err(error) => return Err(DiskError::io("stored", self.inbox.join(name))(error)),
            }
        }
        Err(DiskError::Names { path: self.inbox.join(&entry.path), last: NUMBER_MAX })
    }

    /// Removes what has arrived.
    pub fn discard(self) {
        // What cannot be removed is found by the next sweep.
        let _ = std::fs::remove_dir_all(self.inbox.join(&self.name));
    }

    fn position(&self) -> Start {
        Start { entry: self.entry as u32, offset: self.offset, hash: EntryHash::default() }
    }

    /// The first file that is missing, and how many bytes of it are there.
    fn find_start(&mut self) -> Result<Start, DiskError> {
        let entries = self.offer.entries();
        let is_missing = |entry: &FileEntry| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = openat2(&self.tree, &entry.path, flags, Mode::empty(), BENEATH);
            let stat = found.and_then(|file| fstat(&file));
            !stat.is_ok_and(|stat| {
                FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                    && stat.st_size as u64 == entry.size
            })
        };
        let mut files = entries.iter().filter(|entry| entry.kind == FileKind::File);
        let Some(file) = files.find(|entry| is_missing(entry)) else {
            return Ok(Start { entry: entries.len() as u32, ..Start::default() });
        };
        let at = entries.iter().position(|entry| entry.path == file.path);
        let entry = at.expect("it is one of the entries") as u32;
        let mut start = Start { entry, ..Start::default() };
        if let Ok(stat) = statat(&self.private, PART, AtFlags::SYMLINK_NOFOLLOW) {
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && stat.st_size as u64 <= file.size {
                start.offset = stat.st_size as u64;
            } else {
                // Longer than it may be, or no file: it begins again.
                unlinkat(&self.private, PART, AtFlags::empty())
                    .map_err(DiskError::io("removed", self.path.join(PART)))?;
            }
        }
        Ok(start)
    }

    fn open_part(&self) -> Result<File, DiskError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let part = openat2(&self.private, PART, flags, FILE_MODE, BENEATH)
            .map_err(DiskError::io("opened", self.path.join(PART)))?;
        Ok(File::from(part))
    }

    /// Makes the folders among the entries before this one.
    fn make_folders(&mut self, before: usize) -> Result<(), DiskError> {
        for at in self.folders..before {
            let entry = &self.offer.entries()[at];
            if entry.kind != FileKind::Folder {
                continue;
            }
            let (parent, name) = self.parent(entry)?;
            match mkdirat(&parent, name, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => {
                    let path = self.path.join(TREE).join(&entry.path);
                    return Err(DiskError::Io { what: "made", path, error });
                }
            }
        }
        self.folders = self.folders.max(before);
        Ok(())
    }

    /// The open folder that an entry belongs in, and its name there.
    fn parent<'a>(&self, entry: &'a FileEntry) -> Result<(OwnedFd, &'a str), DiskError> {
        let (folder, name) = entry.path.rsplit_once('/').unwrap_or((".", &entry.path));
        let opened = open_folder(&self.tree, folder)
            .map_err(|error| DiskError::io("opened", self.path.join(TREE).join(folder))(error))?;
        Ok((opened, name))
    }

    fn check_space(&self, needed: u64) -> Result<(), DiskError> {
        let path = || self.inbox.clone();
        let disk =
            fstatvfs(&self.private).map_err(|error| DiskError::io("examined", path())(error))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(self.reserve);
        if needed <= free {
            return Ok(());
        }
        Err(DiskError::Space { path: path(), needed, free, reserve: self.reserve })
    }
}

/// The private folder's name: half of the identity is enough to tell a person's transfers apart.
fn private_name(offer: &Offer) -> String {
    let digits: String =
        offer.identity()[..IDENTITY_DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PRIVATE_PREFIX}{digits}")
}

fn is_private_name(name: &str) -> bool {
    name.strip_prefix(PRIVATE_PREFIX).is_some_and(|digits| {
        digits.len() == IDENTITY_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn open_folder(beneath: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(beneath, path, flags, Mode::empty(), BENEATH)
}

/// Renames without replacing anything.
fn rename_new(
    from: &OwnedFd,
    old: &str,
    to: &OwnedFd,
    new: &str,
    kind: FileKind,
) -> rustix::io::Result<()> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Some file systems (NFS, some of FUSE) do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_old(from, old, to, new, kind),
        renamed => renamed,
    }
}

/// Without the kernel's flag: a link is never made over a file, and only an empty folder is
/// replaced, which is new.
fn rename_old(
    from: &OwnedFd,
    old: &str,
    to: &OwnedFd,
    new: &str,
    kind: FileKind,
) -> rustix::io::Result<()> {
    match kind {
        FileKind::File => {
            linkat(from, old, to, new, AtFlags::empty())?;
            unlinkat(from, old, AtFlags::empty())
        }
        FileKind::Folder => {
            mkdirat(to, new, FOLDER_MODE)?;
            renameat(from, old, to, new)
        }
    }
}

/// The time at which the sender's file was modified; without one, and where the file system keeps
/// none, it is that of its arrival.
fn set_time(file: &File, modified_ms: u64) {
    if modified_ms == 0 {
        return;
    }
    let Ok(seconds) = i64::try_from(modified_ms / 1000) else { return };
    let nanoseconds = (modified_ms % 1000) as i64 * 1_000_000;
    let _ = futimens(
        file,
        &Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds },
        },
    );
}

#[cfg(test)]
mod tests;
