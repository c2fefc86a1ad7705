//! `thinc broker`: logs people in to their desktops on this machine. Beside the path: from browsers
//! to the session process of the person, which the user's agent starts or finds. Three kinds of
//! process: the helper (root) keeps the port and decides who is who; the front (an account without
//! privileges, in a sandbox) speaks with the network; for each login a login process (root) holds
//! the PAM session, and an agent runs as the user. No byte of a display passes through root.
#![forbid(unsafe_code)]

pub mod acme;
pub mod admin;
pub mod admission;
pub mod agent;
mod attempt;
mod audit;
pub mod banner;
mod certificate;
mod cgroup;
pub mod config;
mod device_requests;
pub mod devices;
mod front;
mod helper;
mod keep;
pub mod limits;
mod login;
mod memory;
pub mod message;
pub mod monitor;
mod options;
mod packets;
pub mod port;
pub mod priority_groups;
mod privileges;
mod processes;
pub mod proxy;
mod realtime;
mod reservations;
mod session_groups;
mod session_memory;
mod systemd_scope;
mod throttle;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use limits::Limits;
use nix::unistd::User;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thinc_session_server::log;
use tokio::process::Child;

pub use helper::{check, serve};
pub use keep::end_logins;
pub use options::{BrokerError, BrokerOptions, DEFAULT_OPENING, OPENING_VARIABLE};

/// The process of the front; its standard input is the socket to the helper.
pub fn front() -> Result<(), BrokerError> {
    front::main(take_socket()?)
}

/// The process that gets certificates; its standard input is the socket to the helper.
pub fn acme() -> Result<(), BrokerError> {
    acme::process::main(take_socket()?)
}

/// The process that serves figures; its standard input is the socket to the helper.
pub fn monitor() -> Result<(), BrokerError> {
    monitor::main(take_socket()?)
}

/// The process of one login, by the rules of this PAM service; its standard input is the socket to
/// the helper, the folder that of the broker's state, and the limits those of each desktop.
pub fn login(service: &str, state: &Path, limits: &Limits) -> Result<(), BrokerError> {
    login::main(take_socket()?, service, state, limits)
}

/// This program, for another role: by its path, so that process lists name it, unless an upgrade
/// has replaced the file; then by the kernel's link to what runs. All parts are of one version.
pub(crate) fn own_program() -> PathBuf {
    let path = std::env::current_exe().ok().filter(|path| path.exists());
    path.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Starts a part without privileges, as this user without other groups, with this socket as its
/// standard input. It is ended when the result is dropped.
pub(crate) fn spawn_part(name: &str, user: &User, socket: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(own_program());
    command
        .args(["broker-part", name])
        .env_clear()
        .envs(std::env::var_os(log::LEVEL).map(|level| (log::LEVEL, level)))
        .env(log::FORMAT, log::format().name())
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        // The standard library removes the other groups.
        .gid(user.gid.as_raw())
        .uid(user.uid.as_raw());
    tokio::process::Command::from(command).kill_on_drop(true).spawn()
}

/// The socket on standard input, in whose place comes /dev/null: children inherit standard input.
pub(crate) fn take_socket() -> Result<OwnedFd, BrokerError> {
    let take = || -> io::Result<OwnedFd> {
        let socket = rustix::stdio::stdin().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?.as_fd())?;
        Ok(socket)
    };
    take().map_err(|error| BrokerError::System("use standard input", error))
}

/// Allows as many open descriptors as the administrator permits: logins and connections have some.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without it there are fewer logins.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
