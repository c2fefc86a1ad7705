//! thinc as a server for many people, measured: how soon after a login the desktop is seen, what a
//! desktop takes, and what happens when many viewers come back at once. Needs root, which gives
//! sessions to other users; the machine's own accounts are not changed. Knows logins and processes;
//! never pixels of an application.

mod capacity;
mod census;
mod columns;
mod compulsory;
mod desktops;
mod front_cost;
mod logins;
mod memory_group;
mod paging;
mod people;
mod seat;
mod servers;
mod session;
mod stalls;
mod typist;
mod uplink;

use std::time::Duration;

use clap::Subcommand;

use crate::net::link::Link;
use crate::observe::account::Accounts as CpuAccounts;
use crate::process::wait_for;
use crate::{Error, net};

/// What to measure.
#[derive(Subcommand)]
pub enum Question {
    /// How long from starting the viewer, with name and password at hand, to the whole first
    /// screen? For a new desktop and for one that runs; thinc and xrdp, on emulated links.
    Logins(logins::Options),
    /// What does each of many desktops on one server take, and how soon are all viewers back after
    /// a restart of the process that holds their connections?
    Desktops(desktops::Options),
    /// Does a key's echo stay immediate beside programs that compute, of the same person and of
    /// others? thinc with and without priority, xrdp and TigerVNC.
    Stalls(stalls::Options),
    /// What does a desktop cost in which nothing happens, with a viewer and without one? thinc,
    /// xrdp and TigerVNC.
    Compulsory(compulsory::Options),
    /// Does typing stay immediate while another person's video fills the uplink that everybody
    /// shares? thinc, also with an uplink configured, xrdp and TigerVNC.
    Uplink(uplink::Options),
    /// How many people of mixed work fit until echoes are late, and what runs out? thinc with and
    /// without priority, xrdp and TigerVNC.
    Capacity(capacity::Options),
    /// How late is the first key of an editor after a memory hog? Needs swap. thinc with and
    /// without priority, xrdp and TigerVNC.
    Paging(paging::Options),
    /// What does the process that holds all connections cost for each gigabit, beside the session?
    Front(front_cost::Options),
}

/// Measures and prints.
pub fn run(question: &Question) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may give sessions to other users: run as root".into());
    }
    net::as_user_namespace()?;
    match question {
        Question::Logins(options) => logins::run(options),
        Question::Desktops(options) => desktops::run(options),
        Question::Stalls(options) => stalls::run(options),
        Question::Compulsory(options) => compulsory::run(options),
        Question::Uplink(options) => uplink::run(options),
        Question::Capacity(options) => capacity::run(options),
        Question::Paging(options) => paging::run(options),
        Question::Front(options) => front_cost::run(options),
    }
}

/// Of each desktop, pixels.
const SIZE: (u32, u32) = (1024, 768);
/// Of all accounts.
const PASSWORD: &str = "correct horse 8";
/// A crowded machine starts an X server in seconds.
const SHOWN_MAX: Duration = Duration::from_secs(90);

fn accounts(name: &str) -> Result<std::sync::Arc<CpuAccounts>, Error> {
    Ok(std::sync::Arc::new(CpuAccounts::new(name)?))
}

fn link(name: &str) -> Result<Link, Error> {
    name.parse()
}

/// The processes of a user, each with the name of its program.
fn processes_of(uid: u32) -> Result<Vec<(u32, String)>, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        // A process may end meanwhile.
        let is_theirs = entry.metadata().is_ok_and(|folder| folder.uid() == uid);
        if let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm"))
            && is_theirs
        {
            found.push((pid, name.trim().to_owned()));
        }
    }
    Ok(found)
}

/// Ends the application of a user's desktop, and with it the desktop.
fn end_desktop(uid: u32, application: &str) -> Result<(), Error> {
    use rustix::process::{Pid, Signal, kill_process};
    for (pid, name) in processes_of(uid)? {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            && name == application
        {
            kill_process(pid, Signal::TERM)?;
        }
    }
    let is_gone = || {
        let left = processes_of(uid).ok()?;
        (!left.iter().any(|(_, name)| name == "Xorg" || name == application)).then_some(())
    };
    wait_for("the desktop ends", Duration::from_secs(20), is_gone)
}

/// The broker's process that is not root.
fn front(cpu: &CpuAccounts) -> Result<u32, Error> {
    use std::os::unix::fs::MetadataExt;
    let is_front = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let owner = std::fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
        name.trim() == "thinc" && owner.is_ok_and(|uid| uid == NOBODY)
    };
    let found = cpu.pids(crate::observe::account::Group::Server)?.into_iter().find(is_front);
    found.ok_or_else(|| "the broker has no front".into())
}

/// Debian's account nobody.
const NOBODY: u32 = 65_534;
