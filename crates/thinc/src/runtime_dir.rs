//! Where a running session keeps its sockets and secrets, and how another process knows that it runs.
//! From supervisor.rs (which owns one) and clients.rs (which look), to the file system.
//! Knows owners, modes and locks; a process id in a file is never trusted, the lock the kernel keeps is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use thiserror::Error;

/// Longest path of a Unix socket, in bytes, without its closing zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The longest name of a socket in a session's folder, with its slash.
const SOCKET_NAME_BYTES_MAX: usize = "/control.sock".len();

/// Where viewers of this machine come in.
const VIEWER_SOCKET: &str = "viewer.sock";

/// Where the session process gives traces to those who ask.
pub(crate) const TRACE_SOCKET: &str = "trace.sock";

/// Why a runtime folder cannot be used.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The system said no.
    #[error("cannot {what} {}: {error}{hint}", .path.display())]
    File {
        /// "make", "read", …
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// What to do about it, or nothing.
        hint: &'static str,
    },
    /// Somebody else could read or change it.
    #[error("{} belongs to user {owner} with mode {mode:o}; it must be yours alone (mode 700)", .path.display())]
    NotPrivate {
        /// Which.
        path: PathBuf,
        /// Whose.
        owner: u32,
        /// Permissions.
        mode: u32,
    },
    /// Sockets could not be made there.
    #[error("{} is too long for a socket, or holds a quote or a line break; set XDG_RUNTIME_DIR to another folder", .0.display())]
    Path(PathBuf),
    /// The name is taken.
    #[error(
        "a session called {0} is running already: `thinc link {0}` prints a link to it, --name chooses another name"
    )]
    Running(String),
}

const HINT: &str = "; set XDG_RUNTIME_DIR to a folder that you can write to";

/// The folder that holds all sessions of this user: `$XDG_RUNTIME_DIR/thinc`, or `/tmp/thinc-UID`.
pub(crate) fn base() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => Path::new(&dir).join("thinc"),
        None => PathBuf::from(format!("/tmp/thinc-{}", geteuid().as_raw())),
    }
}

/// Makes a folder for this user alone; one that is there already must be just that.
fn make_private(path: &Path) -> Result<(), RuntimeError> {
    let file = |what, error| RuntimeError::File { what, path: path.to_owned(), error, hint: HINT };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(file("make", error)),
    }
    // Not metadata(): in /tmp somebody else may have put a link here first.
    let found = fs::symlink_metadata(path).map_err(|error| file("read", error))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(RuntimeError::NotPrivate {
            path: path.to_owned(),
            owner: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    Ok(())
}

/// The folder of one session, owned by its supervisor as long as this value lives.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl RuntimeDir {
    /// Takes the name, clearing away what a session of that name left behind when it was killed, and opens the door for
    /// viewers of this machine: from now on whoever finds the session waits for it.
    pub(crate) fn take(name: &str) -> Result<(RuntimeDir, UnixListener), RuntimeError> {
        let base = base();
        make_private(&base)?;
        let path = base.join(name);
        let text = path.to_string_lossy();
        if text.len() + SOCKET_NAME_BYTES_MAX > SOCKET_PATH_BYTES_MAX || text.contains(['"', '\n', '\r']) {
            return Err(RuntimeError::Path(path));
        }
        let Some(lock) = lock(&base, name)? else {
            return Err(RuntimeError::Running(name.to_owned()));
        };
        let file = |what, error| RuntimeError::File { what, path: path.clone(), error, hint: "" };
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file("clear", error)),
            _ => {}
        }
        make_private(&path)?;
        let folder = RuntimeDir { path, lock_path: lock_path(&base, name), _lock: lock };
        let socket = folder.join(VIEWER_SOCKET);
        let file = |error| RuntimeError::File { what: "make", path: socket.clone(), error, hint: "" };
        let listener = UnixListener::bind(&socket).map_err(file)?;
        // Others are kept out by the folder's mode; this file's own says the same.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(file)?;
        Ok((folder, listener))
    }

    /// No viewer of this machine finds the session any more.
    pub(crate) fn close_viewer_socket(&self) {
        let _ = fs::remove_file(self.join(VIEWER_SOCKET));
    }

    /// A file in it.
    pub(crate) fn join(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }
}

impl Drop for RuntimeDir {
    /// Nothing of an ended session stays. The lock goes last, still held: see `lock`.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

fn lock_path(base: &Path, name: &str) -> PathBuf {
    // Outside the session's folder, which is emptied; a leading dot, which no name has.
    base.join(format!(".{name}.lock"))
}

/// The lock of a name, or `None` while a supervisor holds it. The kernel drops it with the process, however that ends.
///
/// Whoever holds the lock may remove its file. So a lock counts only on the file that still has the name: on another
/// one, which was removed between opening and locking, it is tried again.
fn lock(base: &Path, name: &str) -> Result<Option<File>, RuntimeError> {
    let path = lock_path(base, name);
    let file = |what, error| RuntimeError::File { what, path: path.clone(), error, hint: HINT };
    loop {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(|error| file("make", error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(file("lock", error.into())),
        }
        let held = lock.metadata().map_err(|error| file("read", error))?;
        if fs::symlink_metadata(&path).is_ok_and(|named| named.ino() == held.ino() && named.dev() == held.dev()) {
            return Ok(Some(lock));
        }
    }
}

/// Names of the sessions that run now, sorted. Folders without a living supervisor are not sessions.
pub(crate) fn running() -> Result<Vec<String>, RuntimeError> {
    let base = base();
    let entries = match fs::read_dir(&base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| RuntimeError::File { what: "read", path: base.clone(), error, hint: "" })?,
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // Where somebody listens there is a session; only otherwise the lock is tried, because a supervisor that
        // starts at this moment would find it taken.
        if connect(&control_socket(&name)).is_ok() {
            names.push(name);
            continue;
        }
        match lock(&base, &name)? {
            None => names.push(name),
            Some(_lock) => {
                let _ = fs::remove_dir_all(base.join(&name));
                let _ = fs::remove_file(lock_path(&base, &name));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Reaches a socket in a session's folder. The kernel says who listens: where the folders lie in /tmp because there is no
/// `XDG_RUNTIME_DIR`, somebody else may have made ours first, and would be shown and told everything.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    let listener = socket_peercred(&stream)?.uid;
    if listener != geteuid() {
        let words = format!("it belongs to the user with the number {}", listener.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
    }
    Ok(stream)
}

/// The control socket of a session that may or may not run.
pub(crate) fn control_socket(name: &str) -> PathBuf {
    base().join(name).join("control.sock")
}

/// Where viewers of this machine come into a session that may or may not run.
pub(crate) fn viewer_socket(name: &str) -> PathBuf {
    base().join(name).join(VIEWER_SOCKET)
}

/// True while a supervisor holds this name: it starts, runs or ends.
pub(crate) fn is_taken(name: &str) -> Result<bool, RuntimeError> {
    let base = base();
    Ok(lock_path(&base, name).exists() && lock(&base, name)?.is_none())
}

/// Where the session process of a session gives traces.
pub(crate) fn trace_socket(name: &str) -> PathBuf {
    base().join(name).join(TRACE_SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_name_and_a_lock_on_a_removed_file_does_not_count() {
        let base = std::env::temp_dir().join(format!("thinc-lock-{}", std::process::id()));
        make_private(&base).unwrap();
        let first = lock(&base, "n").unwrap().expect("nobody holds it");
        assert!(lock(&base, "n").unwrap().is_none(), "it is held");
        // As an ending supervisor does: the file goes while the lock is held, and the name is free at once.
        fs::remove_file(lock_path(&base, "n")).unwrap();
        let second = lock(&base, "n").unwrap().expect("a new file, which nobody holds");
        drop(first);
        assert!(lock(&base, "n").unwrap().is_none(), "the second holds it");
        drop(second);
        fs::remove_dir_all(&base).unwrap();
    }
}
