//! Beside supervisor.rs: all processes that a session has started, also those that left their
//! parent (daemons), because the kernel gives orphans to the supervisor. So nothing of a session
//! stays when it ends. Knows process IDs and parents, from /proc.

use std::collections::HashSet;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitpid,
};

/// A process: its parent, and whether it has ended and waits to be reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    pid: i32,
    parent: i32,
    is_zombie: bool,
    /// Tells this process from a later one with the same ID.
    started_ticks: u64,
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
    for &entry in &all {
        send(entry, signal);
    }
    all.len()
}

/// Never to another process that has got the ID since /proc was read: only our own children keep
/// theirs until we wait for them.
fn send(entry: Entry, signal: Signal) {
    let Some(pid) = Pid::from_raw(entry.pid) else { return };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // Read after it was opened: if this is still the same process, so is what was opened.
        Ok(process) if read(entry.pid).is_some_and(|now| now.is_same(entry)) => {
            let _ = pidfd_send_signal(&process, signal);
        }
        Ok(_) | Err(rustix::io::Errno::SRCH) => {}
        // Without a free descriptor it must end all the same.
        Err(_) if read(entry.pid).is_some_and(|now| now.is_same(entry)) => {
            let _ = kill_process(pid, signal);
        }
        Err(_) => {}
    }
}

impl Entry {
    fn is_same(self, other: Entry) -> bool {
        (self.pid, self.started_ticks) == (other.pid, other.started_ticks)
    }
}

fn descendants(processes: &[Entry], of: i32, except: &[i32]) -> Vec<Entry> {
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
                found.push(*entry);
            }
        }
        if parents.len() == before {
            return found;
        }
    }
}

fn processes() -> Vec<Entry> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn read(pid: i32) -> Option<Entry> {
    // A name has any bytes.
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat))
}

/// "pid (any name) state ppid …", proc_pid_stat(5).
fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    let parent = fields.next()?.parse().ok()?;
    // Field 22; the parent is field 4.
    let started_ticks = fields.nth(17)?.parse().ok()?;
    Some(Entry { pid, parent, is_zombie, started_ticks })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn descendants_are_found_in_any_order_and_exceptions_with_theirs_are_not() {
        let entry = |pid, parent| Entry { pid, parent, is_zombie: false, started_ticks: 0 };
        let all = [
            entry(9, 8),
            entry(8, 1),
            entry(7, 1),
            entry(6, 7),
            entry(5, 4),
            entry(1, 0),
            Entry { is_zombie: true, ..entry(3, 8) },
        ];
        let mut found: Vec<i32> =
            descendants(&all, 1, &[7]).iter().map(|entry| entry.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [8, 9]);
        assert!(descendants(&all, 5, &[]).is_empty());
    }

    #[test]
    fn a_child_is_found_until_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (me, pid) = (getpid().as_raw_pid(), child.id().cast_signed());
        let has = |except: &[i32]| {
            descendants(&processes(), me, except).iter().any(|entry| entry.pid == pid)
        };
        assert!(has(&[]) && !has(&[pid]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has(&[]));
    }

    #[test]
    fn a_process_that_has_got_the_id_of_another_gets_no_signal() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let found = read(child.id().cast_signed()).unwrap();
        // As if it had been found earlier, when the ID was another process's.
        send(Entry { started_ticks: found.started_ticks - 1, ..found }, Signal::KILL);
        send(found, Signal::TERM);
        let ended_by = child.wait().unwrap().signal();
        assert_eq!(ended_by, Some(Signal::TERM.as_raw()), "the first one did not arrive");
    }

    #[test]
    fn a_process_with_a_name_of_any_bytes_is_found() {
        let script = "printf '\\377x' > /proc/$$/comm; echo named; exec 3<&0; read line <&3";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut named = [0; 6];
        std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut named).unwrap();
        let pid = child.id();
        assert_eq!(std::fs::read(format!("/proc/{pid}/comm")).unwrap(), b"\xffx\n");
        assert!(read(pid.cast_signed()).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_with_parentheses_and_blanks_are_parsed() {
        let stat = "12 (a) b (c)) Z 34 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5678 0 0";
        let entry = Entry { pid: 12, parent: 34, is_zombie: true, started_ticks: 5678 };
        assert_eq!(parse(12, stat), Some(entry));
        assert_eq!(parse(12, "12 (sh"), None);
    }
}
