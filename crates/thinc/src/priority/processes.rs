//! The processes of this user, as the kernel tells them (proc_pid_stat(5)). From /proc, to
//! priority.rs. Knows files; the decisions are thinc-priority's.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use thinc_priority::{Process, Table};

/// proc(5) gives times in these, USER_HZ: 100 a second on x86-64 and arm64.
pub(super) const TICKS_PER_SECOND: u64 = 100;

/// After so many tables everybody's owner is asked for again: a process of root's may become this
/// user's.
const ASK_AGAIN: u32 = 16;

/// What was found, so that the next table costs little: on a server of many people nearly all
/// processes are others', and each of their desktops reads a table about every 2 s.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Of other users, in the newest table.
    others: HashSet<u32>,
    tables: u32,
}

impl Processes {
    /// The processes of the session: this one, its supervisor, and all that descend from it, since
    /// the kernel gives orphans to it. Those of other users are left out, and what descends from
    /// them: a program that becomes somebody else is for root alone to move.
    pub(super) fn table(&mut self) -> Table {
        let all = self.own();
        Table::new(descendants(all, std::process::id()))
    }

    /// The processes of this user.
    fn own(&mut self) -> Vec<Process> {
        let own = rustix::process::geteuid().as_raw();
        let mut before = std::mem::take(&mut self.others);
        if self.tables.is_multiple_of(ASK_AGAIN) {
            before.clear();
        }
        self.tables = self.tables.wrapping_add(1);
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Asking for the owner costs a third of reading the file. No number of a process is
            // given again within a table's time.
            let is_own = !before.contains(&pid)
                && entry.metadata().is_ok_and(|metadata| metadata.uid() == own);
            if is_own {
                all.extend(read(pid));
            } else {
                self.others.insert(pid);
            }
        }
        all
    }
}

fn descendants(mut all: Vec<Process>, of: u32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    all.sort_unstable_by_key(|process| process.parent);
    while let Some(parent) = parents.pop() {
        let first = all.partition_point(|process| process.parent < parent);
        let children = all[first..].iter().take_while(|process| process.parent == parent);
        parents.extend(children.map(|child| child.pid).filter(|&child| child != of));
        found.push(parent);
        if found.len() > all.len() {
            // Files that are read one after the other may tell of a cycle.
            break;
        }
    }
    found.sort_unstable();
    all.retain(|process| found.binary_search(&process.pid).is_ok());
    all
}

fn read(pid: u32) -> Option<Process> {
    // A name has any bytes.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Process::parse(&String::from_utf8_lossy(&stat))
}

/// Whether this process runs, and not another one that has got its number.
pub(super) fn runs(pid: u32, started_ticks: u64) -> bool {
    read(pid).is_some_and(|process| process.started_ticks == started_ticks)
}

/// How long a process's first thread has waited for a processor since it began, in nanoseconds:
/// /proc/PID/schedstat. None where the kernel does not count it.
pub(super) fn waited_ns(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// For how long a processor of this machine was idle since it started, in microseconds, as the mean
/// of all. None where the kernel does not tell.
pub(super) fn idle_us() -> Option<u64> {
    idle_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// The same by the text of proc_stat(5). A processor whose programs wait for a disk is idle too: it
/// would run others.
fn idle_of(stat: &str) -> Option<u64> {
    let (mut ticks, mut processors) = (0, 0);
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        // The first line is of all of them, and its times begin at once.
        if line.starts_with(' ') || fields.next().is_none() {
            continue;
        }
        let mut time = fields.skip(3).map(str::parse::<u64>);
        let (idle, waits) = (time.next()?.ok()?, time.next()?.ok()?);
        ticks = idle.checked_add(waits)?.checked_add(ticks)?;
        processors += 1;
    }
    ticks.checked_mul(1_000_000 / TICKS_PER_SECOND)?.checked_div(processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_waits_for_a_disk_is_idle() {
        let stat = "cpu  11 12 13 999 999 16 17 18 0 0\ncpu0 1 2 3 100 20 6 7 8 0 0\n\
                    cpu3 1 2 3 200 40 6 7 8 0 0\nintr 5 6\nctxt 7\n";
        assert_eq!(idle_of(stat), Some(1_800_000));
        assert!(idle_us().is_some());
        for stat in ["", "cpu  1 2 3 4 5 6\n", "cpu0 1 2 3 4\n", "cpu0 1 2 3 x 5\n", "cpufreq 1\n"]
        {
            assert_eq!(idle_of(stat), None, "{stat:?}");
        }
        let largest = format!("cpu0 1 2 3 {} 1 2\n", u64::MAX);
        assert_eq!(idle_of(&largest), None);
    }

    #[test]
    fn only_descendants_are_of_the_session_and_a_cycle_ends() {
        let process = |pid, parent| {
            let stat = format!("{pid} (p) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0");
            Process::parse(&stat).unwrap()
        };
        let all = vec![process(9, 8), process(8, 7), process(7, 1), process(6, 1), process(5, 6)];
        let pids = |of| -> Vec<u32> {
            let mut pids: Vec<u32> =
                descendants(all.clone(), of).iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(7), [7, 8, 9]);
        assert_eq!(pids(5), [5]);
        let cycle = vec![process(2, 3), process(3, 2)];
        assert!(descendants(cycle, 2).len() <= 2);
    }

    #[test]
    fn this_process_is_in_the_table_and_waits_now_and_then() {
        let me = std::process::id();
        let table = Processes::default().table();
        let own = table.get(me).unwrap();
        assert!(runs(me, own.started_ticks) && !runs(me, own.started_ticks + 1));
        assert!(waited_ns(me).is_none_or(|waited| waited < u64::MAX / 2));
    }

    #[test]
    fn others_are_asked_for_once_in_a_while_and_new_processes_are_found_at_once() {
        let mut processes = Processes::default();
        let is_there = |all: &[Process], pid| all.iter().any(|process| process.pid == pid);
        let me = std::process::id();
        assert!(is_there(&processes.own(), me));
        assert!(!processes.others.contains(&me));
        // As if it had been another user's, and became this one's.
        processes.others.insert(me);
        assert!(!is_there(&processes.own(), me));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_there(&processes.own(), child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let again = (0..=ASK_AGAIN).any(|_| is_there(&processes.own(), me));
        assert!(again);
    }
}
