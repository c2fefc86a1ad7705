//! The folder in which a running session keeps its sockets and secrets, and how another process
//! finds out that it runs. From supervisor.rs (which owns one) and clients.rs (which search), to
//! the file system. Knows owners, modes and locks; trusts only the kernel's lock, never a process
//! ID in a file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
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
const SOCKET_NAME_BYTES_MAX: usize = 1 + PULSE_SOCKET.len();

/// The socket for viewers on this machine.
const VIEWER_SOCKET: &str = "viewer.sock";

/// The socket on which UDP ports are requested for viewers that come through ssh.
const PORT_SOCKET: &str = "port.sock";

/// The socket on which the session process sends traces.
pub(crate) const TRACE_SOCKET: &str = "trace.sock";

/// The socket on which the session process takes requests of `thinc share`.
pub(crate) const SHARE_SOCKET: &str = "share.sock";

/// The socket of the sound server for programs: in their own runtime folder, where they look by
/// themselves.
pub(crate) const PULSE_SOCKET: &str = "xdg/pulse/native";

/// PipeWire's, in the same folder for the same reason.
pub(crate) const PIPEWIRE_SOCKET: &str = "xdg/pipewire-0";

/// The socket of the sound server for the session process.
pub(crate) const DESK_SOCKET: &str = "desk.sock";

/// The socket of the printer for programs.
pub(crate) const IPP_SOCKET: &str = "ipp.sock";

/// The socket of the printer for the session process.
pub(crate) const PRINT_SOCKET: &str = "print.sock";

/// Why a runtime folder cannot be used.
#[derive(Debug, Error)]
pub(crate) enum RuntimeError {
    /// A system call failed.
    #[error("cannot {what} {}: {error}{hint}", .path.display())]
    File {
        /// "create", "read", …
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// What to do about it, or empty.
        hint: &'static str,
    },
    /// Other users could read or change it.
    #[error(
        "{} belongs to user {owner} with mode {mode:o}; it must be yours alone (mode 700)",
        .path.display()
    )]
    NotPrivate {
        /// Which.
        path: PathBuf,
        /// Whose.
        owner: u32,
        /// Permissions.
        mode: u32,
    },
    /// The path is not usable for sockets.
    #[error(
        "{} is too long for a socket, or contains a quote or a line break; set XDG_RUNTIME_DIR \
            to another folder",
        .0.display()
    )]
    Path(PathBuf),
    /// The name is taken.
    #[error(
        "a session called {0} is running already: `thinc link {0}` prints a link to it, --name \
            chooses another name"
    )]
    Running(String),
}

const PERMISSION_HINT: &str = "; set XDG_RUNTIME_DIR to a folder that you can write to";

/// The folder that holds all sessions of this user: `$XDG_RUNTIME_DIR/thinc`, or `/tmp/thinc-UID`.
pub(crate) fn base() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => Path::new(&dir).join("thinc"),
        None => PathBuf::from(format!("/tmp/thinc-{}", geteuid().as_raw())),
    }
}

/// Creates a folder for this user only; an existing one must have the same owner and mode.
fn create_private(path: &Path) -> Result<(), RuntimeError> {
    let file = |what, error| RuntimeError::File {
        what,
        path: path.to_owned(),
        error,
        hint: PERMISSION_HINT,
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(file("create", error)),
    }
    // Not metadata(): in /tmp another user may have created a link here first.
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
    /// Locks the name, removes what a killed session of that name has left, and creates the sockets
    /// for viewers on this machine and for their requests of UDP ports: from now on a viewer that
    /// finds the session waits for it.
    pub(crate) fn claim(
        name: &str,
    ) -> Result<(RuntimeDir, UnixListener, UnixListener), RuntimeError> {
        let base = base();
        create_private(&base)?;
        let path = base.join(name);
        let text = path.to_string_lossy();
        if text.len() + SOCKET_NAME_BYTES_MAX > SOCKET_PATH_BYTES_MAX
            || text.contains(['"', '\n', '\r'])
        {
            return Err(RuntimeError::Path(path));
        }
        let Some(lock) = lock(&base, name)? else {
            return Err(RuntimeError::Running(name.to_owned()));
        };
        let file = |what, error| RuntimeError::File { what, path: path.clone(), error, hint: "" };
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file("clear", error));
            }
            _ => {}
        }
        create_private(&path)?;
        let folder = RuntimeDir { path, lock_path: lock_path(&base, name), _lock: lock };
        // Viewers look for the second one; the first is there by then.
        let port_requests = folder.listen(PORT_SOCKET)?;
        let viewers = folder.listen(VIEWER_SOCKET)?;
        Ok((folder, viewers, port_requests))
    }

    /// What went wrong in the folder.
    pub(crate) fn error(&self, what: &'static str, path: &Path, error: io::Error) -> RuntimeError {
        RuntimeError::File { what, path: path.to_owned(), error, hint: "" }
    }

    /// Creates a socket in the folder.
    pub(crate) fn listen(&self, name: &str) -> Result<UnixListener, RuntimeError> {
        let socket = self.join(name);
        let file = |error| self.error("create", &socket, error);
        let listener = UnixListener::bind(&socket).map_err(file)?;
        // The folder's mode keeps other users out; this mode does so again.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(file)?;
        Ok(listener)
    }

    /// From now on viewers on this machine do not find the session.
    pub(crate) fn close_viewer_socket(&self) {
        let _ = fs::remove_file(self.join(VIEWER_SOCKET));
    }

    /// The path of a file in the folder.
    pub(crate) fn join(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }
}

impl Drop for RuntimeDir {
    /// Removes everything of an ended session, the lock last, while it is held: see `lock`.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

fn lock_path(base: &Path, name: &str) -> PathBuf {
    // Outside the session's folder, which is emptied; session names have no leading dot.
    base.join(format!(".{name}.lock"))
}

/// The lock of a name, or `None` while a supervisor holds it. The kernel releases it when the
/// process ends.
///
/// The holder of the lock may remove its file. So a lock counts only if its file still has the
/// name: if that was removed between opening and locking, try again.
fn lock(base: &Path, name: &str) -> Result<Option<File>, RuntimeError> {
    let path = lock_path(base, name);
    let file =
        |what, error| RuntimeError::File { what, path: path.clone(), error, hint: PERMISSION_HINT };
    loop {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(|error| file("create", error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(file("lock", error.into())),
        }
        let locked = lock.metadata().map_err(|error| file("read", error))?;
        if fs::symlink_metadata(&path)
            .is_ok_and(|named| named.ino() == locked.ino() && named.dev() == locked.dev())
        {
            return Ok(Some(lock));
        }
    }
}

/// Held while a session of this user is given a title, so that no two get the same.
pub(crate) fn lock_titles() -> Result<File, RuntimeError> {
    let base = base();
    create_private(&base)?;
    // Session names have no leading dot.
    let path = base.join(".titles");
    let file =
        |what, error| RuntimeError::File { what, path: path.clone(), error, hint: PERMISSION_HINT };
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&path)
        .map_err(|error| file("create", error))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| file("lock", error.into()))?;
    Ok(lock)
}

/// Names of the running sessions, sorted. Folders without a living supervisor are removed.
pub(crate) fn running() -> Result<Vec<String>, RuntimeError> {
    let base = base();
    let entries = match fs::read_dir(&base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| RuntimeError::File {
            what: "read",
            path: base.clone(),
            error,
            hint: "",
        })?,
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // A session whose control socket accepts connections is running. Only otherwise try the
        // lock: a supervisor that starts at this moment would find it locked.
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

/// Connects to a socket in a session's folder, and checks who listens: if the folders are in /tmp,
/// because there is no `XDG_RUNTIME_DIR`, another user may have created ours first, and would see
/// everything.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    connect_of(path, geteuid())
}

/// The same for root, which asks the sessions of another user.
pub(crate) fn connect_of(path: &Path, user: rustix::process::Uid) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    let listener = socket_peercred(&stream)?.uid;
    if listener != user {
        let reason = format!("the socket belongs to another user (ID {})", listener.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(stream)
}

/// Path of a session's control socket.
pub(crate) fn control_socket(name: &str) -> PathBuf {
    base().join(name).join("control.sock")
}

/// Path of a session's socket for viewers on this machine.
pub(crate) fn viewer_socket(name: &str) -> PathBuf {
    base().join(name).join(VIEWER_SOCKET)
}

/// Path of a session's socket for requests of UDP ports.
pub(crate) fn port_socket(name: &str) -> PathBuf {
    base().join(name).join(PORT_SOCKET)
}

/// True while a supervisor holds the lock of this name: it starts, runs or ends.
pub(crate) fn is_taken(name: &str) -> Result<bool, RuntimeError> {
    let base = base();
    Ok(lock_path(&base, name).exists() && lock(&base, name)?.is_none())
}

/// Path of a session's trace socket.
pub(crate) fn trace_socket(name: &str) -> PathBuf {
    base().join(name).join(TRACE_SOCKET)
}

/// Path of the socket on which a session is shared.
pub(crate) fn share_socket(name: &str) -> PathBuf {
    base().join(name).join(SHARE_SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_owner_and_a_lock_on_a_removed_file_does_not_count() {
        let base = std::env::temp_dir().join(format!("thinc-lock-{}", std::process::id()));
        create_private(&base).unwrap();
        let first = lock(&base, "n").unwrap().expect("it is free");
        assert!(lock(&base, "n").unwrap().is_none(), "it is locked");
        // Like an ending supervisor: the file is removed while the lock is held, and the name is
        // free at once.
        fs::remove_file(lock_path(&base, "n")).unwrap();
        let second = lock(&base, "n").unwrap().expect("the new file is not locked");
        drop(first);
        assert!(lock(&base, "n").unwrap().is_none(), "the second holds it");
        drop(second);
        fs::remove_dir_all(&base).unwrap();
    }
}
