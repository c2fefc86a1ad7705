//! Accounts from /proc: processes by ancestry or by a mark in their environment, and the machine as
//! a whole. For machines on which this user may make no control group, and for processes that
//! somebody else started. Knows process tables; never what the processes do.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::Group;
use crate::Error;

/// Clock ticks of /proc: USER_HZ is 100 on every Linux that thinc runs on.
const TICK_MS: f64 = 10.0;
/// In the environment of what is accounted for, with the account as its value.
const MARK: &str = "THINC_BENCH_ACCOUNT";

/// What the process table says of one process.
#[derive(Clone, Debug, PartialEq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Ticks since boot: tells two apart that had the same id.
    started: u64,
    /// CPU time with that of children that it has waited for.
    cpu_ms: f64,
}

impl Process {
    /// From `/proc/PID/stat`; the name in brackets may hold anything.
    fn parse(text: &str) -> Option<Process> {
        let (pid, rest) = text.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_whitespace().collect();
        // Field numbers of proc_pid_stat(5), less the three before.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = (14..=17).map(field).sum::<Option<u64>>()?;
        Some(Process {
            pid: pid.parse().ok()?,
            parent: u32::try_from(field(4)?).ok()?,
            started: field(22)?,
            cpu_ms: ticks as f64 * TICK_MS,
        })
    }

    fn read(pid: u32) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

fn table() -> Result<Vec<Process>, Error> {
    let entries = fs::read_dir("/proc").map_err(|error| format!("cannot read /proc: {error}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(Process::read).collect())
}

/// How often the threads of a process have left the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// To sleep: as often they were woken.
    pub voluntary: u64,
    /// For another one, before they wanted to.
    pub involuntary: u64,
}

impl Switches {
    /// Of a process, by its threads that live; none of a process that has ended.
    pub fn of(pid: u32) -> Switches {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let statuses =
            threads.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        statuses.filter_map(|status| Switches::parse(&status)).fold(
            Switches::default(),
            |sum, thread| Switches {
                voluntary: sum.voluntary + thread.voluntary,
                involuntary: sum.involuntary + thread.involuntary,
            },
        )
    }

    /// From `/proc/PID/task/TID/status`.
    fn parse(status: &str) -> Option<Switches> {
        let count = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        Some(Switches {
            voluntary: count("voluntary_ctxt_switches:")?,
            involuntary: count("nonvoluntary_ctxt_switches:")?,
        })
    }
}

/// CPU time of processes that come and go.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    seen: HashMap<(u32, u64), Process>,
    /// Of processes that are gone and that no parent in the ledger has waited for.
    gone_ms: f64,
}

impl Ledger {
    /// Takes in the processes that are there now. Gives the sum.
    fn handle_members(&mut self, members: Vec<Process>) -> f64 {
        let now: HashMap<(u32, u64), Process> =
            members.into_iter().map(|process| ((process.pid, process.started), process)).collect();
        let pids: HashSet<u32> = self.seen.values().map(|process| process.pid).collect();
        for (key, process) in &self.seen {
            // A parent in the ledger has it among its own children's time now.
            if !now.contains_key(key) && !pids.contains(&process.parent) {
                self.gone_ms += process.cpu_ms;
            }
        }
        self.seen = now;
        self.gone_ms + self.seen.values().map(|process| process.cpu_ms).sum::<f64>()
    }
}

/// Accounts of processes by a mark in their environment.
pub(super) struct Marked {
    name: String,
    ledgers: [Mutex<Ledger>; 3],
}

impl Marked {
    pub(super) fn new(name: &str) -> Marked {
        Marked { name: format!("{}-{name}", std::process::id()), ledgers: Default::default() }
    }

    fn value(&self, group: Group) -> String {
        format!("{}/{}", self.name, group.name())
    }

    pub(super) fn wrap(&self, group: Group, mut command: Command) -> Command {
        command.env(MARK, self.value(group));
        command
    }

    fn members(&self, group: Group) -> Result<Vec<Process>, Error> {
        let mark = format!("{MARK}={}", self.value(group));
        let marked = |process: &Process| {
            let environment =
                fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
        };
        let table = table()?;
        let roots: HashSet<u32> =
            table.iter().filter(|process| marked(process)).map(|process| process.pid).collect();
        Ok(descendants(table, roots))
    }

    pub(super) fn pids(&self, group: Group) -> Result<Vec<u32>, Error> {
        let own = std::process::id();
        let members = self.members(group)?;
        let alive = |pid: &u32| *pid != own && !is_zombie(*pid);
        Ok(members.iter().map(|process| process.pid).filter(alive).collect())
    }

    pub(super) fn cpu_ms(&self, group: Group) -> Result<f64, Error> {
        let members = self.members(group)?;
        Ok(self.ledgers[group as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .handle_members(members))
    }

    pub(super) fn own_ms(&self) -> f64 {
        // This process, its children that have ended, and those that live.
        let own = Process::read(std::process::id()).map_or(0.0, |process| process.cpu_ms);
        let members =
            Group::ALL.into_iter().flat_map(|group| self.members(group).unwrap_or_default());
        own + members.map(|process| process.cpu_ms).sum::<f64>()
    }
}

/// The processes with these ids and all below them.
fn descendants(table: Vec<Process>, mut ids: HashSet<u32>) -> Vec<Process> {
    loop {
        let before = ids.len();
        ids.extend(
            table
                .iter()
                .filter(|process| ids.contains(&process.parent))
                .map(|p| p.pid)
                .collect::<Vec<_>>(),
        );
        if ids.len() == before {
            return table.into_iter().filter(|process| ids.contains(&process.pid)).collect();
        }
    }
}

fn is_zombie(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Anonymous and shared memory of processes, bytes; what several share is divided among them.
pub(super) fn memory_bytes(pids: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let kib = |name: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok()
            })
        };
        (kib("Pss_Anon:").unwrap_or(0) + kib("Pss_Shmem:").unwrap_or(0)) * 1024
    };
    pids.iter().map(of).sum()
}

/// CPU time of the threads of one process, milliseconds. Exact to the nanosecond, unlike the ticks
/// of `/proc/PID/stat`, but without threads that have ended.
pub fn cpu_ms_of(pid: u32) -> Result<f64, Error> {
    let mut total_ms = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let on_cpu_ns: f64 = text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
        total_ms += on_cpu_ns / 1e6;
    }
    Ok(total_ms)
}

/// How busy all processors have been since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Machine {
    /// Time that was used, with what a hypervisor gave to others.
    pub(super) busy_ms: f64,
    /// All time, of all processors.
    pub(super) all_ms: f64,
}

impl Machine {
    /// Until now.
    pub(super) fn now() -> Result<Machine, Error> {
        let text = fs::read_to_string("/proc/stat")
            .map_err(|error| format!("cannot read /proc/stat: {error}"))?;
        Ok(Machine::parse(&text).ok_or("/proc/stat has no line `cpu`")?)
    }

    fn parse(text: &str) -> Option<Machine> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guests are in user already.
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
            return None;
        };
        let busy = user + nice + system + irq + softirq + steal;
        Some(Machine {
            busy_ms: busy as f64 * TICK_MS,
            all_ms: (busy + idle + iowait) as f64 * TICK_MS,
        })
    }

    /// What lies between.
    pub(super) fn since(&self, earlier: &Machine) -> Machine {
        Machine { busy_ms: self.busy_ms - earlier.busy_ms, all_ms: self.all_ms - earlier.all_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, cpu_ms: f64) -> Process {
        Process { pid, parent, started: 7, cpu_ms }
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 5 6 7 8 20 0 1 0 12345 1000 10";
        assert_eq!(
            Process::parse(text),
            Some(Process { pid: 42, parent: 1, started: 12345, cpu_ms: 260.0 })
        );
        assert_eq!(Process::parse("42 (short) S 1"), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn sleeps_are_told_from_being_displaced() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        let found = Switches { voluntary: 150, involuntary: 7 };
        assert_eq!(Switches::parse(status), Some(found));
        assert_eq!(Switches::parse("Name:\tx\nvoluntary_ctxt_switches:\t150\n"), None);
        let own = Switches::of(std::process::id());
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(Switches::of(std::process::id()).voluntary > own.voluntary, "{own:?}");
    }

    #[test]
    fn trees_are_found_from_their_roots() {
        let table =
            vec![process(4, 3, 0.0), process(3, 2, 0.0), process(2, 1, 0.0), process(9, 1, 0.0)];
        let pids: Vec<u32> =
            descendants(table, HashSet::from([2])).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [4, 3, 2]);
    }

    #[test]
    fn what_has_ended_is_counted_once() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.handle_members(vec![process(2, 1, 10.0), process(3, 2, 30.0)]), 40.0);
        // 3 has ended, and its parent 2 has waited for it.
        assert_eq!(ledger.handle_members(vec![process(2, 1, 40.0), process(4, 1, 5.0)]), 45.0);
        // 2 and 4 have ended, and who waited for them is not in the ledger.
        assert_eq!(ledger.handle_members(vec![process(5, 1, 1.0)]), 46.0);
        // A process with the same id that started later is another one.
        assert_eq!(ledger.handle_members(vec![Process { started: 8, ..process(5, 1, 2.0) }]), 48.0);
    }

    #[test]
    fn the_machine_is_busy_with_everything_but_idling() {
        let machine = Machine::parse("cpu  1 2 3 40 5 6 7 8 9 9\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(machine, Machine { busy_ms: 270.0, all_ms: 720.0 });
        assert_eq!(Machine::parse("intr 5"), None);
    }
}
