//! Logins outlive the helper: each login process keeps what opens its login, and waits on a socket
//! for the next helper, which asks all of them before it starts a front. Beside the path: between
//! login.rs and helper.rs. What the kernel says counts: a file without a process refuses to be
//! connected to, and both ends answer only root. Knows hashes of secrets; never a password.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use rustix::process::geteuid;
use tracing::warn;

use crate::BrokerError;
use crate::helper::LOGIN_LIFE;
use crate::message::{Kept, MESSAGE_BYTES_MAX, Reply, Request};
use crate::packets;

/// In the state folder: one socket for each login process, named by its process ID.
const FOLDER: &str = "logins";
/// How long a login waits for the next helper: an upgrade that installs many packages takes
/// minutes. Then it ends; its desktop goes on.
const ABSENCE_MAX: Duration = Duration::from_secs(300);
/// How long a new helper waits for all login processes together. Each answers from a thread that
/// does nothing else.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
/// Login processes that a new helper asks. More would be logins that have ended, of desktops that
/// go on: these only tell the audit log when they end.
const PROCESSES_MAX: usize = 4096;

/// Where a login process waits for the next helper.
pub(crate) struct Door {
    listener: OwnedFd,
    path: PathBuf,
}

impl Door {
    pub(crate) fn open(state: &Path) -> io::Result<Door> {
        let path = state.join(FOLDER).join(std::process::id().to_string());
        // Of a process that was killed and had the same ID: this one is alive.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = socket(SocketFlags::CLOEXEC)?;
        bind(&listener, &SocketAddrUnix::new(&path)?)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        listen(&listener, 1)?;
        Ok(Door { listener, path })
    }

    /// For the thread that waits; `self` stays with the process, and ends with it.
    pub(crate) fn listener(&self) -> io::Result<OwnedFd> {
        self.listener.try_clone()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// True if root was at the other end when it connected, or began to listen.
fn is_root(socket: &OwnedFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid.is_root())
}

/// Waits until the socket can be read; false if that has not happened by `until`.
fn wait(socket: &OwnedFd, until: Option<Instant>) -> io::Result<bool> {
    loop {
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// A login in its login process.
pub(crate) struct Login {
    user: String,
    since: Instant,
    open: Option<Open>,
    /// The login's number, once it is known; also after it has ended.
    number: Option<u64>,
    absence_max: Duration,
}

struct Open {
    agent: OwnedFd,
    /// `None` until the helper has said it.
    kept: Option<Kept>,
}

impl Login {
    pub(crate) fn new(user: String, agent: OwnedFd) -> Login {
        let open = Some(Open { agent, kept: None });
        let since = Instant::now();
        Login { user, since, open, number: None, absence_max: ABSENCE_MAX }
    }

    /// Listens to this helper and to those after it, without end, or until no helper can ever come.
    pub(crate) fn keep(mut self, helper: OwnedFd, door: Option<OwnedFd>) {
        let mut helper = Some(helper);
        let ends = self.since + LOGIN_LIFE;
        loop {
            helper = match helper {
                Some(socket) => self.listen_to(&socket, ends).then_some(socket),
                None => {
                    // What the helper had no time to say, nobody knows.
                    if self.open.as_ref().is_some_and(|open| open.kept.is_none()) {
                        self.open = None;
                    }
                    let Some(door) = &door else { return };
                    match self.wait_for_helper(door, ends.min(Instant::now() + self.absence_max)) {
                        Ok(helper) => helper,
                        Err(error) => {
                            return warn!(
                                user = self.user,
                                "a login of {} cannot wait for the broker: {error}", self.user
                            );
                        }
                    }
                }
            };
        }
    }

    /// Handles one message; false if the helper has ended, or says what it must not.
    fn listen_to(&mut self, helper: &OwnedFd, ends: Instant) -> bool {
        match wait(helper, self.open.is_some().then_some(ends)) {
            Ok(true) => {}
            Ok(false) => {
                self.open = None;
                return true;
            }
            Err(_) => return false,
        }
        let Ok(packet) = packets::receive(helper, MESSAGE_BYTES_MAX) else { return false };
        match Request::decode(&packet.bytes) {
            Ok(Request::Keep(kept)) => {
                self.number = Some(kept.login);
                if let Some(open) = &mut self.open {
                    open.kept = Some(kept);
                }
                true
            }
            Ok(Request::Forget) => {
                self.open = None;
                true
            }
            _ => false,
        }
    }

    /// Returns the next helper, once it has been told of this login; `None` if there is another
    /// reason to go on.
    fn wait_for_helper(&mut self, door: &OwnedFd, until: Instant) -> io::Result<Option<OwnedFd>> {
        if !wait(door, self.open.is_some().then_some(until))? {
            self.open = None;
            return Ok(None);
        }
        let helper = accept_with(door, SocketFlags::CLOEXEC)?;
        if !is_root(&helper) {
            return Ok(None);
        }
        let Some(login) = self.number else { return Ok(None) };
        let open = self.open.as_ref().and_then(|open| Some((open.kept?, &open.agent)));
        let told = Reply::Kept {
            login,
            age_ms: self.since.elapsed().as_millis() as u64,
            user: self.user.clone(),
            kept: open.map(|(kept, _)| kept),
        };
        let agent: Vec<_> = open.iter().map(|(_, agent)| agent.as_fd()).collect();
        Ok(packets::send(&helper, &told.encode(), &agent).is_ok().then_some(helper))
    }
}

/// A login that was there before this helper.
pub(crate) struct Found {
    pub(crate) login: u64,
    pub(crate) since: Instant,
    pub(crate) user: String,
    /// With the agent's socket; `None` if it has ended, and only its desktops go on.
    pub(crate) open: Option<(Kept, OwnedFd)>,
    /// To its login process.
    pub(crate) process: OwnedFd,
}

/// Asks each login process; the oldest login comes first. Those that do not answer in time are left
/// out, and end by themselves.
pub(crate) fn find(state: &Path) -> Result<Vec<Found>, BrokerError> {
    let folder = state.join(FOLDER);
    let failed = |error| BrokerError::Logins(folder.clone(), error);
    prepare(&folder).map_err(failed)?;
    let mut asked = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)?.take(PROCESSES_MAX) {
        let name = entry.map_err(failed)?.file_name();
        match ask(&folder, &name) {
            Ok(socket) => asked.push((name, socket)),
            // Its process has ended without removing it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(folder.join(&name));
            }
            Err(error) => report(&folder, &name, &error),
        }
    }
    let until = Instant::now() + ANSWERS_TIMEOUT;
    let mut found = Vec::new();
    for (name, socket) in asked {
        match answer(socket, until) {
            Ok(login) => found.push(login),
            // It was just ending, or has nothing to say, now or later.
            Err(error) if is_end(&error) => {
                let _ = fs::remove_file(folder.join(&name));
            }
            Err(error) => report(&folder, &name, &error),
        }
    }
    found.sort_by_key(|login| login.since);
    Ok(found)
}

fn report(folder: &Path, name: &OsStr, error: &io::Error) {
    warn!("{} is no login: {error}", folder.join(name).display());
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// A folder of this process's user, which is root in a helper, that nobody else can enter.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let what = fs::symlink_metadata(folder)?;
    if !what.is_dir() || what.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it is no folder of the broker's own user: remove it"));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

fn ask(folder: &Path, name: &OsStr) -> io::Result<OwnedFd> {
    // Never waits: a process with one helper that waits already is busy.
    let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    connect(&socket, &SocketAddrUnix::new(folder.join(name))?)?;
    if is_root(&socket) {
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"))
    }
}

fn answer(socket: OwnedFd, until: Instant) -> io::Result<Found> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !wait(&socket, Some(until))? {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
    }
    let packet = packets::receive(&socket, MESSAGE_BYTES_MAX)?;
    if packet.bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let reply = Reply::decode(&packet.bytes).map_err(|error| invalid(error.to_string()))?;
    let Reply::Kept { login, age_ms, user, kept } = reply else {
        return Err(invalid(format!("it says {reply:?}")));
    };
    let age = Duration::from_millis(age_ms);
    let since = Instant::now().checked_sub(age).ok_or_else(|| invalid("its age".to_owned()))?;
    let agent = packet.descriptors.into_iter().next();
    let open = kept.zip(agent).filter(|_| age < LOGIN_LIFE);
    Ok(Found { login, since, user, open, process: socket })
}

/// Ends every login of a broker that has ended; returns how many there were.
pub fn end_logins(state: &Path) -> Result<usize, BrokerError> {
    let open = find(state)?.into_iter().filter(|login| login.open.is_some());
    Ok(open
        .filter(|login| packets::send(&login.process, &Request::Forget.encode(), &[]).is_ok())
        .count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep() -> Request {
        let (cookie_hash, origin_secret_hash) = ([1; 32], [2; 32]);
        Request::Keep(Kept { login: 1, cookie_hash, origin_secret_hash, device: None })
    }

    /// A login that is kept by a thread: its helper, and its agent, as it sees the socket.
    fn kept(change: impl FnOnce(&mut Login), name: &str) -> (OwnedFd, OwnedFd, PathBuf) {
        let state = std::env::temp_dir().join(format!("thinc-keep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        fs::create_dir_all(state.join(FOLDER)).unwrap();
        let door = Door::open(&state).unwrap().listener().unwrap();
        let (helper, far) = packets::pair().unwrap();
        let (agent, its_agent) = packets::pair().unwrap();
        let mut login = Login::new("anna".to_owned(), its_agent);
        change(&mut login);
        std::thread::spawn(move || login.keep(far, Some(door)));
        (helper, agent, state)
    }

    fn ends_within(agent: &OwnedFd, time: Duration) -> bool {
        wait(agent, Some(Instant::now() + time)).unwrap()
            && packets::receive(agent, 1).unwrap().bytes.is_empty()
    }

    #[test]
    fn a_login_ends_with_its_helper_unless_that_has_said_what_opens_it() {
        let (helper, agent, state) = kept(|_| (), "silent");
        drop(helper);
        assert!(ends_within(&agent, Duration::from_secs(20)));
        let _ = fs::remove_dir_all(state);

        let (helper, agent, state) = kept(|_| (), "kept");
        packets::send(&helper, &keep().encode(), &[]).unwrap();
        drop(helper);
        assert!(!ends_within(&agent, Duration::from_millis(200)));
        let _ = fs::remove_dir_all(state);
    }

    #[test]
    fn a_login_ends_when_it_is_forgotten_too_old_or_too_long_without_a_helper() {
        let (helper, agent, state) = kept(|_| (), "forgotten");
        packets::send(&helper, &keep().encode(), &[]).unwrap();
        packets::send(&helper, &Request::Forget.encode(), &[]).unwrap();
        assert!(ends_within(&agent, Duration::from_secs(20)));
        let _ = fs::remove_dir_all(state);

        let make_old = |login: &mut Login| login.since -= LOGIN_LIFE - Duration::from_millis(300);
        let (helper, agent, state) = kept(make_old, "old");
        packets::send(&helper, &keep().encode(), &[]).unwrap();
        assert!(ends_within(&agent, Duration::from_secs(20)));
        drop(helper);
        let _ = fs::remove_dir_all(state);

        let (helper, agent, state) =
            kept(|login| login.absence_max = Duration::from_millis(300), "absent");
        packets::send(&helper, &keep().encode(), &[]).unwrap();
        assert!(!ends_within(&agent, Duration::from_millis(600)), "a helper is there");
        drop(helper);
        assert!(ends_within(&agent, Duration::from_secs(20)));
        let _ = fs::remove_dir_all(state);
    }
}
