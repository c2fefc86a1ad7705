//! Desktops and the memory of processes, as the kernel tells them to everybody (proc(5)). Beside
//! the path: for helper/monitor.rs. Knows processes; a person can only add to what is counted, by
//! processes that imitate a desktop.

use std::collections::{HashMap, HashSet};

use thinc_session_server::monitor::anonymous_memory;

use crate::monitor::Memory;
use crate::processes;

/// What is known of a process.
struct Known {
    parent: u32,
    bytes: u64,
}

/// Of this process, of the front with this ID, and of all others: in a thread, as it reads several
/// files of each process of the machine.
pub(crate) fn measure(front: Option<u32>) -> Memory {
    let (mut known, mut desktops, mut parts) = (HashMap::new(), Vec::new(), Vec::new());
    for process in processes::all() {
        let Some(status) = process.status() else { continue };
        let Some(one) = read(&status) else { continue };
        known.insert(process.pid, one);
        if process.is_supervisor() {
            desktops.push(process.pid);
        } else if is_part(&process.arguments, process.owner() == Some(0)) {
            parts.push(process.pid);
        }
    }
    let bytes = |pid: u32| known.get(&pid).map_or(0, |process| process.bytes);
    let session_count = desktops.len() as u64;
    let of_desktops = with_descendants(&known, desktops);
    Memory {
        helper: bytes(std::process::id()),
        front: front.map_or(0, bytes),
        parts: parts.into_iter().filter(|pid| Some(*pid) != front).map(bytes).sum(),
        sessions: of_desktops.into_iter().map(bytes).sum(),
        session_count,
    }
}

/// What the broker starts for itself; a person's agent is the person's.
fn is_part(arguments: &[u8], is_root: bool) -> bool {
    let mut arguments = arguments.split(|&byte| byte == 0).skip(1);
    arguments.next() == Some(b"broker-part")
        && match arguments.next() {
            Some(b"login") => is_root,
            Some(b"front" | b"acme" | b"monitor") => true,
            _ => false,
        }
}

fn read(status: &str) -> Option<Known> {
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    Some(Known { parent, bytes: anonymous_memory(status).unwrap_or(0) })
}

/// A supervisor adopts orphans, so all that descends from it belongs to its desktop.
fn with_descendants(processes: &HashMap<u32, Known>, of: Vec<u32>) -> HashSet<u32> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for (&pid, process) in processes {
        children.entry(process.parent).or_default().push(pid);
    }
    let (mut found, mut left) = (HashSet::new(), of);
    while let Some(pid) = left.pop() {
        if found.insert(pid) {
            left.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_people_who_imitate_them() {
        assert!(is_part(b"/usr/bin/thinc\0broker-part\0login\0--state\0", true));
        assert!(!is_part(b"/usr/bin/thinc\0broker-part\0login\0--state\0", false));
        assert!(is_part(b"thinc\0broker-part\0front\0", false));
        assert!(!is_part(b"thinc\0broker-part\0agent\0", false) && !is_part(b"", true));
    }

    #[test]
    fn memory_is_counted_with_all_descendants() {
        let process = |parent, bytes| Known { parent, bytes };
        let all = HashMap::from([
            (2, process(1, 10)),
            (3, process(2, 20)),
            (4, process(3, 40)),
            (5, process(1, 80)),
        ]);
        assert_eq!(with_descendants(&all, vec![2]), HashSet::from([2, 3, 4]));
        let own = measure(None);
        assert!(own.helper > 64 * 1024, "{own:?}");
    }
}
