//! What processes use: processor time, wake-ups and memory of all processes of a server and its
//! desktops. From /proc to sums. Knows process tables; never what the processes do.

use std::collections::HashMap;
use std::fs;

use crate::Error;
use crate::observe::account::{Accounts, Group, Switches, cpu_ms_of};
use crate::process::pss_mb;

/// Processor time and switches of processes at one moment.
pub(super) struct Census(HashMap<u32, Counts>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    cpu_ms: f64,
    switches: Switches,
}

/// What processes used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Of all processors, ms.
    pub(super) cpu_ms: f64,
    pub(super) voluntary: f64,
    pub(super) involuntary: f64,
}

/// Memory of processes, MB (10^6 bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Proportional set size: what several processes share is divided among them.
    pub(super) pss_mb: f64,
    /// Resident and anonymous, which no file holds.
    pub(super) anon_mb: f64,
}

/// Ids of the server's processes and of the desktops'.
pub(super) fn of_server(accounts: &Accounts) -> Result<Vec<u32>, Error> {
    let mut pids = accounts.pids(Group::Server)?;
    pids.extend(accounts.pids(Group::Apps)?);
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

impl Census {
    /// Of these processes, now. One that ends meanwhile is left out.
    pub(super) fn of(pids: &[u32]) -> Census {
        let counts = |&pid: &u32| {
            let cpu_ms = cpu_ms_of(pid).ok()?;
            Some((pid, Counts { cpu_ms, switches: Switches::of(pid) }))
        };
        Census(pids.iter().filter_map(counts).collect())
    }

    /// What was used since `earlier` by the processes that live now; threads that have ended since
    /// then do not count.
    pub(super) fn since(&self, earlier: &Census) -> Used {
        let mut used = Used::default();
        for (pid, now) in &self.0 {
            let before = earlier.0.get(pid).copied().unwrap_or_default();
            let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
            used.cpu_ms += (now.cpu_ms - before.cpu_ms).max(0.0);
            used.voluntary += more(now.switches.voluntary, before.switches.voluntary);
            used.involuntary += more(now.switches.involuntary, before.switches.involuntary);
        }
        used
    }
}

impl Memory {
    /// Of these processes, now. One that ends meanwhile is left out.
    pub(super) fn of(pids: &[u32]) -> Memory {
        let mut memory = Memory::default();
        for pid in pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            memory.pss_mb += pss_mb(*pid).unwrap_or_default();
            memory.anon_mb += field_mb(&status, "RssAnon").unwrap_or_default();
        }
        memory
    }

    /// More than `earlier`.
    pub(super) fn above(&self, earlier: &Memory) -> Memory {
        Memory { pss_mb: self.pss_mb - earlier.pss_mb, anon_mb: self.anon_mb - earlier.anon_mb }
    }
}

/// A figure of `/proc/PID/status` or `/proc/meminfo`, which are in units of 1024 bytes; in MB.
pub(super) fn field_mb(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// A figure of /proc/meminfo now, MB.
pub(super) fn machine_mb(name: &str) -> Result<f64, Error> {
    let text = fs::read_to_string("/proc/meminfo")
        .map_err(|error| format!("cannot read /proc/meminfo: {error}"))?;
    Ok(field_mb(&text, name).ok_or_else(|| format!("/proc/meminfo has no {name}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_by_their_whole_name_and_in_megabytes() {
        let text = "MemTotal:       24684000 kB\nVmSwap:\t    1000 kB\nVmSwapX:\t 7 kB\nSwap: 5\n";
        assert_eq!(field_mb(text, "VmSwap"), Some(1.024));
        assert_eq!(field_mb(text, "MemTotal"), Some(25_276.416));
        assert_eq!(field_mb(text, "VmSwa"), None);
        assert_eq!(field_mb(text, "Swap"), None, "it has no unit");
    }

    #[test]
    fn processes_that_began_count_from_nothing_and_those_that_ended_not_at_all() {
        let counts = |cpu_ms, voluntary, involuntary| Counts {
            cpu_ms,
            switches: Switches { voluntary, involuntary },
        };
        let before = Census(HashMap::from([(1, counts(5.0, 10, 1)), (2, counts(9.0, 9, 9))]));
        let after = Census(HashMap::from([(1, counts(7.5, 14, 1)), (3, counts(1.0, 2, 3))]));
        let used = after.since(&before);
        assert_eq!(used, Used { cpu_ms: 3.5, voluntary: 6.0, involuntary: 3.0 });
        // A thread that has ended takes its counts with it.
        assert_eq!(before.since(&after).voluntary, 9.0);
    }

    #[test]
    fn this_process_has_memory_and_a_dead_one_none() {
        let own = Memory::of(&[std::process::id()]);
        assert!(own.pss_mb > 0.5 && own.anon_mb > 0.1, "{own:?}");
        assert_eq!(Memory::of(&[u32::MAX]), Memory::default());
        assert!(machine_mb("MemTotal").is_ok_and(|all| all > own.pss_mb));
    }
}
