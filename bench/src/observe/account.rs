//! CPU time and memory of three groups of processes, including those that daemonise. From control
//! groups (version 2, else 1), else from sums over /proc, to milliseconds and bytes. Knows
//! processes; never what they do.

mod cgroup;
mod tree;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Error;

use tree::Machine;
pub use tree::{Switches, cpu_ms_of};

/// Processes that were asked to end and have not are killed after this.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Rounds of killing; a process that forks faster than it can be killed is named in the error.
const END_ROUNDS: u32 = 10;

/// The group that a process is accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The display system on the server: X server, proxy, encoder.
    Server,
    /// The applications, which every peer runs alike.
    Apps,
    /// The viewer with its X server.
    Client,
}

impl Group {
    const ALL: [Group; 3] = [Group::Server, Group::Apps, Group::Client];

    fn name(self) -> &'static str {
        match self {
            Group::Server => "server",
            Group::Apps => "apps",
            Group::Client => "client",
        }
    }
}

/// The method of accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Control groups, version 2; memory of each process from /proc if the memory controller is not
    /// available.
    CgroupV2,
    /// Control groups, version 1: cpuacct and memory.
    CgroupV1,
    /// Sums over /proc. Processes are recognised by their environment, so that those that daemonise
    /// are found. The CPU time of a process that ended between two readings is lost if its parent
    /// is not in the group.
    Proc,
}

/// The accounts of one stage. Dropping this ends the processes that still run in them and removes
/// them.
pub struct Accounts {
    kind: Kind,
    books: Backend,
}

enum Backend {
    Cgroups(cgroup::Cgroups),
    Trees(tree::Marked),
}

/// The start of a measurement of [`Accounts::other_load`].
#[derive(Clone, Debug)]
pub struct LoadMark {
    machine: Machine,
    own_ms: f64,
}

impl Accounts {
    /// Opens three accounts with the best method available to this user on this machine. With
    /// control groups, this process gets a high CPU weight while any of its accounts are open;
    /// processes started through [`Accounts::wrap`] do not.
    pub fn new(name: &str) -> Result<Accounts, Error> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in [Kind::CgroupV2, Kind::CgroupV1] {
            if let Ok(accounts) = Accounts::of_kind(name, kind)
                && accounts.counts_memory()
            {
                return Ok(accounts);
            }
        }
        // Version 2 always counts CPU time, whichever controllers are enabled.
        let accounts = Accounts::of_kind(name, Kind::CgroupV2);
        accounts.or_else(|_| Accounts::of_kind(name, Kind::Proc))
    }

    /// Opens them with this method; the error says why it is not available.
    pub fn of_kind(name: &str, kind: Kind) -> Result<Accounts, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(40).collect();
        let name = format!("{}-{name}", NEXT.fetch_add(1, Ordering::Relaxed));
        let books = match kind {
            Kind::CgroupV2 | Kind::CgroupV1 => {
                Backend::Cgroups(cgroup::Cgroups::open(&name, kind)?)
            }
            Kind::Proc => Backend::Trees(tree::Marked::new(&name)),
        };
        Ok(Accounts { kind, books })
    }

    fn counts_memory(&self) -> bool {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.counts_memory(),
            Backend::Trees(_) => false,
        }
    }

    /// The same command, accounted to `group`. Redirect its input and output afterwards: earlier
    /// redirections are lost, and so is a cleared environment.
    pub fn wrap(&self, group: Group, command: Command) -> Command {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.wrap(group, &command),
            Backend::Trees(marked) => marked.wrap(group, command),
        }
    }

    /// CPU time of the group, milliseconds.
    pub fn cpu_ms(&self, group: Group) -> Result<f64, Error> {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.cpu_ms(group),
            Backend::Trees(marked) => marked.cpu_ms(group),
        }
    }

    /// Current memory of the group, bytes: anonymous and shared memory, without the page cache.
    pub fn memory_bytes(&self, group: Group) -> Result<u64, Error> {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.memory_bytes(group),
            Backend::Trees(marked) => Ok(tree::memory_bytes(&marked.pids(group)?)),
        }
    }

    /// Process ids of the group.
    pub fn pids(&self, group: Group) -> Result<Vec<u32>, Error> {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.pids(group),
            Backend::Trees(marked) => marked.pids(group),
        }
    }

    /// How often the group's threads have slept and been woken since they began.
    pub fn wakeups(&self, group: Group) -> Result<u64, Error> {
        Ok(self.pids(group)?.into_iter().map(|pid| Switches::of(pid).voluntary).sum())
    }

    /// "cgroup v2", "cgroup v1" or "/proc".
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::CgroupV2 => "cgroup v2",
            Kind::CgroupV1 => "cgroup v1",
            Kind::Proc => "/proc",
        }
    }

    /// Ends all processes of the group by process id: SIGTERM first, SIGKILL after two seconds.
    pub fn end(&self, group: Group) -> Result<(), Error> {
        for round in 0..END_ROUNDS {
            let pids = self.pids(group)?;
            if pids.is_empty() {
                return Ok(());
            }
            end_processes(&pids, if round == 0 { Signal::TERM } else { Signal::KILL })?;
        }
        let left = self.pids(group)?;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("processes {left:?} of {group:?} do not end").into())
        }
    }

    /// Now.
    pub fn mark(&self) -> LoadMark {
        LoadMark { machine: Machine::now().unwrap_or_default(), own_ms: self.own_ms() }
    }

    /// Share of the machine, 0 to 1, used since `mark` by processes outside of this run, steal time
    /// included.
    pub fn other_load(&self, mark: &LoadMark) -> f64 {
        let spent = Machine::now().unwrap_or_default().since(&mark.machine);
        let others_ms = spent.busy_ms - (self.own_ms() - mark.own_ms);
        if spent.all_ms > 0.0 { (others_ms / spent.all_ms).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// CPU time of this process, its groups and its other children.
    fn own_ms(&self) -> f64 {
        match &self.books {
            Backend::Cgroups(cgroups) => cgroups.own_ms(),
            Backend::Trees(marked) => marked.own_ms(),
        }
    }
}

impl Drop for Accounts {
    fn drop(&mut self) {
        for group in Group::ALL {
            if let Err(error) = self.end(group) {
                eprintln!("thinc-bench: accounts: {error}");
            }
        }
    }
}

/// Sends `signal` to each and waits until all have ended, at most [`END_LIMIT`].
fn end_processes(pids: &[u32], signal: Signal) -> Result<(), Error> {
    let open =
        |&pid: &u32| pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok();
    let mut left: Vec<_> = pids.iter().filter_map(open).collect();
    for process in &left {
        // A process that has ended meanwhile needs no signal.
        let _ = pidfd_send_signal(process, signal);
    }
    let asked = Instant::now();
    while !left.is_empty() {
        let rest = END_LIMIT.saturating_sub(asked.elapsed());
        if rest.is_zero() {
            break;
        }
        let timeout =
            Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) };
        let mut polled: Vec<PollFd<'_>> =
            left.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
        poll(&mut polled, Some(&timeout))?;
        // A process handle is readable once the process has ended.
        let mut ended =
            polled.iter().map(|poll| !poll.revents().is_empty()).collect::<Vec<_>>().into_iter();
        left.retain(|_| !ended.next().unwrap_or(true));
    }
    Ok(())
}

/// `command` with a prefix of other words. Its environment and working directory are kept.
fn prefixed(
    program: &str,
    words: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
    command: &Command,
) -> Command {
    let mut outer = Command::new(program);
    outer.args(words).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}
