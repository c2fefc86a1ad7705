//! `thinc admin`: lists and ends the desktops of everybody on this machine, for root. From the
//! administrator's shell, to supervisors. Finds them as the kernel knows them, by the lock that a
//! living supervisor has open, so these need no broker and no file that may be stale; `drain`
//! asks the broker's helper, `logout` login processes. Knows processes; never what a session shows.

pub(crate) mod devices;
mod viewers;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use thinc_broker::admin::{AdminRequest, AdminStatus, Named, ask};
use thinc_broker::config::Config;
use thinc_broker::{BrokerOptions, end_logins};
use thinc_session_server::{ShareAnswer, ShareRequest};

use crate::MainError;
use crate::cli::{AdminBroker, AdminDrain, AdminEnd, AdminMessage, AdminSessions};
use crate::clients::age_text;
use crate::terminal::print;
use crate::{runtime_dir, share};

use viewers::ViewerOf;

/// proc(5) gives times in these, USER_HZ: 100 a second on x86-64 and arm64.
const TICKS_PER_SECOND: u64 = 100;
/// A supervisor's own time-outs for all that it ends are shorter.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A desktop on this machine.
#[derive(Debug, Serialize)]
struct Desktop {
    /// The account's name, or its number if it has none any more.
    user: String,
    uid: u32,
    name: String,
    age_s: u64,
    /// Of all its processes; memory that several share is divided among them.
    memory_bytes: u64,
    processes: usize,
    /// Who shows it; `None` if it does not answer.
    viewers: Option<Vec<ViewerOf>>,
    /// The private folder of the desktop, where its sockets are.
    #[serde(skip)]
    folder: PathBuf,
    /// The supervisor.
    pid: i32,
    /// Tells this process from a later one with the same ID.
    #[serde(skip)]
    started_ticks: u64,
}

/// A process, from /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    started_ticks: u64,
}

/// `thinc admin sessions`.
pub(crate) fn sessions(options: &AdminSessions) -> Result<ExitCode, MainError> {
    let mut found = desktops()?;
    let through = viewers::through_broker(&state_of(options.broker.clone())?);
    for desktop in &mut found {
        desktop.viewers = viewers::of(desktop, &through);
    }
    if options.json {
        print(&serde_json::to_string_pretty(&found)?);
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        print("No desktop is running on this machine.");
        return Ok(ExitCode::SUCCESS);
    }
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0).max(4);
    let users = width(&mut found.iter().map(|desktop| desktop.user.chars().count()));
    let names = width(&mut found.iter().map(|desktop| desktop.name.len()));
    print(&format!(
        "{:users$}  {:names$}  {:>8}  {:>9}  {:>9}  VIEWERS",
        "USER", "NAME", "AGE", "MEMORY", "PROCESSES"
    ));
    for Desktop { user, name, age_s, memory_bytes, processes, viewers, .. } in found {
        let (age, memory) = (age_text(age_s), format!("{} MiB", memory_bytes >> 20));
        let viewers = viewers::text(viewers.as_deref());
        print(&format!(
            "{user:users$}  {name:names$}  {age:>8}  {memory:>9}  {processes:>9}  {viewers}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells the broker, for its audit log. Desktops go on while it is stopped, and on machines without
/// one; where it has a folder and does not answer, the administrator learns of the gap.
fn record(broker: &AdminBroker, request: &AdminRequest) {
    let state = match state_of(broker.clone()) {
        Ok(state) => state,
        Err(error) => return crate::terminal::print_error(&format!("thinc: {error}")),
    };
    if state.exists()
        && let Err(error) = ask(&state, request)
    {
        crate::terminal::print_error(&format!("thinc: the audit log does not have this: {error}"));
    }
}

/// `thinc admin end`.
pub(crate) fn end(options: &AdminEnd) -> Result<ExitCode, MainError> {
    let AdminEnd { user, name, broker } = options;
    let of_user: Vec<Desktop> =
        desktops()?.into_iter().filter(|desktop| desktop.user == *user).collect();
    let Some(desktop) = of_user.iter().find(|desktop| desktop.name == *name) else {
        let others: Vec<&str> = of_user.iter().map(|desktop| desktop.name.as_str()).collect();
        return Err(match others.as_slice() {
            [] => format!("{user} has no desktop on this machine"),
            _ => format!("{user} has no desktop called {name}; there is {}", others.join(", ")),
        }
        .into());
    };
    let process = open(desktop)?.ok_or_else(|| format!("{name} of {user} has just ended"))?;
    pidfd_send_signal(&process, Signal::TERM)
        .map_err(|error| format!("cannot end {name} of {user}: {}", io::Error::from(error)))?;
    if has_ended_within(&process, END_TIMEOUT)? {
        let named = Named { user: user.clone(), session: name.clone() };
        record(broker, &AdminRequest::Ended(named));
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!(
        "{name} of {user} has not ended within {END_TIMEOUT:?}: its supervisor is process {}",
        desktop.pid
    )
    .into())
}

/// `thinc admin message`.
pub(crate) fn message(options: &AdminMessage) -> Result<ExitCode, MainError> {
    let AdminMessage { user, session, text, broker } = options;
    let is_meant = |desktop: &Desktop| {
        user.as_ref().is_none_or(|user| desktop.user == *user)
            && session.as_ref().is_none_or(|session| desktop.name == *session)
    };
    let meant: Vec<Desktop> = desktops()?.into_iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(match (user, session) {
            (Some(user), Some(session)) => format!("{user} has no desktop called {session}"),
            (Some(user), None) => format!("{user} has no desktop on this machine"),
            (None, _) => "no desktop is running on this machine".to_owned(),
        }
        .into());
    }
    let mut failed = 0;
    for desktop in &meant {
        let path = desktop.folder.join(runtime_dir::SHARE_SOCKET);
        let of_user = rustix::process::Uid::from_raw(desktop.uid);
        let sent = share::send_to(&path, of_user, &ShareRequest::Notice(text.clone()));
        let name = format!("{} of {}", desktop.name, desktop.user);
        if matches!(sent, Ok(ShareAnswer::Noticed(_))) {
            let named = Named { user: desktop.user.clone(), session: desktop.name.clone() };
            record(broker, &AdminRequest::Told(named));
        }
        match sent {
            Ok(ShareAnswer::Noticed(0)) => {
                print(&format!("{name}: nobody is there; it is shown at the next connection"));
            }
            Ok(ShareAnswer::Noticed(viewers)) => {
                let s = if viewers == 1 { "" } else { "s" };
                print(&format!("{name}: shown at {viewers} viewer{s}"));
            }
            Ok(ShareAnswer::Error(error)) => return Err(error.into()),
            // One that is just ending, or of another version, keeps it from nobody else.
            Ok(_) => failed += 1,
            Err(error) => {
                crate::terminal::print_error(&format!("thinc: {name}: {error}"));
                failed += 1;
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `thinc admin drain`.
pub(crate) fn drain(options: AdminDrain) -> Result<ExitCode, MainError> {
    let state = state_of(options.broker)?;
    let request = if options.off { AdminRequest::Resume } else { AdminRequest::Drain };
    let AdminStatus { is_draining, logins, viewers } = ask(&state, &request)?;
    let what = if is_draining { "takes no new logins" } else { "takes logins" };
    print(&format!("The broker {what}. It has {logins} logins and {viewers} viewers."));
    let count = desktops()?.len();
    if is_draining && count == 0 {
        print("No desktop is running on this machine.");
    } else {
        print(&format!("Desktops on this machine: {count}."));
    }
    Ok(ExitCode::SUCCESS)
}

/// `thinc admin logout`.
pub(crate) fn logout(broker: AdminBroker) -> Result<ExitCode, MainError> {
    if !rustix::process::geteuid().is_root() {
        return Err("thinc admin needs root".into());
    }
    let state = state_of(broker)?;
    if ask(&state, &AdminRequest::Status).is_ok() {
        return Err("the broker is running: stop it first (systemctl stop thinc-broker)".into());
    }
    let count = end_logins(&state)?;
    print(&format!("{count} logins have ended. Desktops on this machine: {}.", desktops()?.len()));
    Ok(ExitCode::SUCCESS)
}

fn state_of(broker: AdminBroker) -> Result<PathBuf, MainError> {
    let file = Config::load(broker.config.as_deref())?;
    let command_line = Config { state: broker.state, ..Config::default() };
    Ok(BrokerOptions::new(command_line, file).state)
}

/// The supervisor, unless another process has its ID by now; `None` if it has ended.
fn open(desktop: &Desktop) -> Result<Option<OwnedFd>, MainError> {
    let Some(pid) = Pid::from_raw(desktop.pid) else { return Ok(None) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    // Read after it was opened: if this is still the same process, so is what was opened.
    let same = read_stat(desktop.pid).is_some_and(|now| now.started_ticks == desktop.started_ticks);
    Ok(same.then_some(process))
}

fn has_ended_within(process: &OwnedFd, time: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: 0 };
    let mut wanted = [PollFd::new(process, PollFlags::IN)];
    Ok(poll(&mut wanted, Some(&timeout))? > 0)
}

/// Every desktop, by user and name.
fn desktops() -> Result<Vec<Desktop>, MainError> {
    if !rustix::process::geteuid().is_root() {
        return Err("thinc admin needs root; `thinc list` shows your own sessions".into());
    }
    let processes: HashMap<i32, Process> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read_stat(pid)?)))
        .collect();
    let uptime = fs::read_to_string("/proc/uptime")?;
    let uptime_s: u64 = uptime.split('.').next().unwrap_or_default().parse()?;
    let mut found = Vec::new();
    for (&pid, process) in &processes {
        let Some((uid, folder)) = supervised_by(pid) else { continue };
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        let family = with_descendants(&processes, pid);
        let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
        found.push(Desktop {
            user: user.map_or_else(|| uid.to_string(), |user| user.name),
            uid,
            name: name.to_owned(),
            folder,
            age_s: uptime_s.saturating_sub(process.started_ticks / TICKS_PER_SECOND),
            memory_bytes: family.iter().filter_map(|&pid| memory_bytes(pid)).sum(),
            processes: family.len(),
            viewers: None,
            pid,
            started_ticks: process.started_ticks,
        });
    }
    found.sort_by(|a, b| (&a.user, &a.name).cmp(&(&b.user, &b.name)));
    Ok(found)
}

fn read_stat(pid: i32) -> Option<Process> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The process's name, in parentheses, may contain anything, also a parenthesis.
fn parse_stat(text: &str) -> Option<Process> {
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(1);
    let parent = fields.next()?.parse().ok()?;
    // Field 22; the parent is field 4.
    let started_ticks = fields.nth(17)?.parse().ok()?;
    Some(Process { parent, started_ticks })
}

/// The user and the session's folder, whose last part is its name, if this process is a supervisor:
/// `thinc serve` that has the lock of a name open. A person who imitates that adds an entry of
/// their own, and no other.
fn supervised_by(pid: i32) -> Option<(u32, PathBuf)> {
    use std::os::unix::fs::MetadataExt as _;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    if arguments.split(|&byte| byte == 0).nth(1)? != b"serve" {
        return None;
    }
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let folder =
        open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).find_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".lock")?;
            thinc_broker::agent::is_session_name(name).then(|| path.with_file_name(name))
        })?;
    Some((uid, folder))
}

/// A process and all that descend from it: a supervisor adopts orphans.
fn with_descendants(processes: &HashMap<i32, Process>, of: i32) -> HashSet<i32> {
    let mut found = HashSet::from([of]);
    loop {
        let before = found.len();
        for (&pid, process) in processes {
            if found.contains(&process.parent) {
                found.insert(pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Its share of the memory that it uses, without swap.
fn memory_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_hides_no_field() {
        let rest: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let text = format!("7 (a) b) {}", rest.join(" "));
        assert_eq!(parse_stat(&text), Some(Process { parent: 4, started_ticks: 22 }));
        assert_eq!(parse_stat("7 (a) S 1 2"), None);
    }

    #[test]
    fn a_process_is_opened_only_if_it_is_still_the_same() {
        let me = rustix::process::getpid().as_raw_pid();
        let started_ticks = read_stat(me).unwrap().started_ticks;
        let desktop = |started_ticks| Desktop {
            user: String::new(),
            uid: 0,
            name: String::new(),
            folder: PathBuf::new(),
            age_s: 0,
            memory_bytes: 0,
            processes: 1,
            viewers: None,
            pid: me,
            started_ticks,
        };
        let open = |started_ticks| open(&desktop(started_ticks)).unwrap();
        let process = open(started_ticks).unwrap();
        assert!(!has_ended_within(&process, Duration::ZERO).unwrap());
        assert!(open(started_ticks + 1).is_none(), "its ID was reused");
        assert!(memory_bytes(me).unwrap() > 0);
    }

    #[test]
    fn grandchildren_belong_to_a_desktop() {
        let process = |parent| Process { parent, started_ticks: 0 };
        let all =
            HashMap::from([(2, process(1)), (3, process(2)), (4, process(3)), (5, process(1))]);
        assert_eq!(with_descendants(&all, 2), HashSet::from([2, 3, 4]));
    }
}
