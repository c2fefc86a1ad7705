//! Beside supervisor.rs: all processes that a session has started, also those that left their
//! parent (daemons), because the kernel gives orphans to the supervisor. So nothing of a session
//! stays when it ends. Knows process IDs and parents, from /proc.

use std::collections::HashSet;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// A process: its parent, and whether it has ended and waits to be reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    pid: i32,
    parent: i32,
    is_zombie: bool,
}

/// From now on orphans among this process's descendants become its children.
pub(crate) fn adopt() {
    // Fails on no kernel since 3.4; without it daemons stay.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Reaps children that were adopted and have ended; those in `own` are waited for elsewhere.
pub(crate) fn reap(own: &[Option<u32>]) {
    let me = getpid().as_raw_pid();
    for entry in processes() {
        let is_own = own.contains(&u32::try_from(entry.pid).ok());
        if entry.is_zombie && entry.parent == me && !is_own {
            let _ = waitpid(Pid::from_raw(entry.pid), WaitOptions::NOHANG);
        }
    }
}

/// Sends a signal to all descendants but these and theirs; returns how many there are.
pub(crate) fn signal(signal: Signal, except: &[Option<u32>]) -> usize {
    let except: Vec<i32> = except.iter().flatten().map(|&pid| pid.cast_signed()).collect();
    let all = descendants(&processes(), getpid().as_raw_pid(), &except);
    for &pid in &all {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, signal);
        }
    }
    all.len()
}

fn descendants(processes: &[Entry], of: i32, except: &[i32]) -> Vec<i32> {
    let mut found = Vec::new();
    let mut parents = HashSet::from([of]);
    // Until a pass finds no more: a child may stand before its parent.
    loop {
        let before = parents.len();
        for entry in processes {
            if parents.contains(&entry.parent)
                && !except.contains(&entry.pid)
                && parents.insert(entry.pid)
                && !entry.is_zombie
            {
                found.push(entry.pid);
            }
        }
        if parents.len() == before {
            return found;
        }
    }
}

fn processes() -> Vec<Entry> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            parse(pid, &std::fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .collect()
}

/// "pid (any name) state ppid …", proc_pid_stat(5).
fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    Some(Entry { pid, parent: fields.next()?.parse().ok()?, is_zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order_and_exceptions_with_theirs_are_not() {
        let entry = |pid, parent| Entry { pid, parent, is_zombie: false };
        let all = [
            entry(9, 8),
            entry(8, 1),
            entry(7, 1),
            entry(6, 7),
            entry(5, 4),
            entry(1, 0),
            Entry { pid: 3, parent: 8, is_zombie: true },
        ];
        let mut found = descendants(&all, 1, &[7]);
        found.sort_unstable();
        assert_eq!(found, [8, 9]);
        assert!(descendants(&all, 5, &[]).is_empty());
    }

    #[test]
    fn a_child_is_found_until_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (me, pid) = (getpid().as_raw_pid(), child.id().cast_signed());
        assert!(descendants(&processes(), me, &[]).contains(&pid));
        assert!(!descendants(&processes(), me, &[pid]).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(&processes(), me, &[]).contains(&pid));
    }

    #[test]
    fn names_with_parentheses_and_blanks_are_parsed() {
        let entry = parse(12, "12 (a) b (c)) Z 34 12 12 0");
        assert_eq!(entry, Some(Entry { pid: 12, parent: 34, is_zombie: true }));
        assert_eq!(parse(12, "12 (sh"), None);
    }
}
