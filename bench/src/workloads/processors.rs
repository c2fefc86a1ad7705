//! Divides the processors of a machine between the server's processes and the client's, as if they
//! were two machines. For workloads that load the server: CPU hogs on a real server do not take the
//! client's processor. Knows processes and processors; never the programs.

use std::fs;

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::Error;
use crate::observe::account::{Accounts, Group};

/// Pins the server's processes to its processors and the client's to the client's; their later
/// children inherit that. False if there is only one processor, which both share.
pub(crate) fn divide(accounts: &Accounts) -> Result<bool, Error> {
    let Some((server, client)) = halves(&sched_getaffinity(None)?) else { return Ok(false) };
    for (group, set) in [(Group::Server, &server), (Group::Apps, &server), (Group::Client, &client)]
    {
        for pid in accounts.pids(group)? {
            confine(pid, set)?;
        }
    }
    Ok(true)
}

/// The processors that this process may use, divided: for programs that take theirs from who starts
/// them. None if there is only one.
pub(crate) struct Division {
    server: CpuSet,
    client: CpuSet,
}

impl Division {
    /// As this thread may use them now.
    pub(crate) fn find() -> Result<Option<Division>, Error> {
        let halves = halves(&sched_getaffinity(None)?);
        Ok(halves.map(|(server, client)| Division { server, client }))
    }

    /// Processors of the server, and of the client.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.server.count(), self.client.count())
    }

    /// What this thread starts from now on runs on the server's processors.
    pub(crate) fn start_on_server(&self) -> Result<(), Error> {
        Ok(sched_setaffinity(None, &self.server)?)
    }

    /// This thread, and what it starts from now on, runs on the client's processors.
    pub(crate) fn start_on_client(&self) -> Result<(), Error> {
        Ok(sched_setaffinity(None, &self.client)?)
    }
}

/// All but the last quarter (at least one) for the server, the rest for the client, which only
/// shows.
fn halves(allowed: &CpuSet) -> Option<(CpuSet, CpuSet)> {
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if all.len() < 2 {
        return None;
    }
    let (mut server, mut client) = (CpuSet::new(), CpuSet::new());
    let (theirs, ours) = all.split_at(all.len() - (all.len() / 4).max(1));
    theirs.iter().for_each(|&cpu| server.set(cpu));
    ours.iter().for_each(|&cpu| client.set(cpu));
    Some((server, client))
}

/// Every thread of a process; a thread that has ended meanwhile is ignored.
fn confine(pid: u32, set: &CpuSet) -> Result<(), Error> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Ok(()) };
    for task in tasks.flatten() {
        let id =
            task.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match id.map(|id| sched_setaffinity(Some(id), set)) {
            None | Some(Ok(()) | Err(Errno::SRCH)) => {}
            Some(Err(error)) => {
                return Err(format!("process {pid} cannot be given its processors: {error}").into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        set
    }

    #[test]
    fn no_processor_belongs_to_both() {
        assert!(halves(&set(&[3])).is_none());
        assert_eq!(halves(&set(&[0, 1])), Some((set(&[0]), set(&[1]))));
        assert_eq!(
            halves(&set(&[0, 2, 4, 6, 8, 10, 12, 14])),
            Some((set(&[0, 2, 4, 6, 8, 10]), set(&[12, 14])))
        );
    }

    #[test]
    fn a_process_stays_where_it_was_put() -> Result<(), Error> {
        let first = (0..CpuSet::MAX_CPU)
            .find(|&cpu| sched_getaffinity(None).is_ok_and(|all| all.is_set(cpu)));
        let one = set(&[first.ok_or("this process may run nowhere")?]);
        let mut child = Command::new("sleep").arg("60").spawn()?;
        let confined = confine(child.id(), &one);
        let found = Pid::from_raw(child.id().try_into()?).map(|pid| sched_getaffinity(Some(pid)));
        child.kill()?;
        child.wait()?;
        confined?;
        assert_eq!(found.transpose()?, Some(one));
        // It has ended: nothing to confine, and no error.
        confine(child.id(), &one)
    }
}
