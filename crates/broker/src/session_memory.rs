//! Memory of a desktop, kept for what answers its person, and what takes the memory of others held,
//! by control groups with the controller "memory". Beside the path: from session_groups.rs, which
//! makes the groups of version 2 and knows who answers, to the files of cgroups(7).
//!
//! Memory belongs to the group in which a process was when it used it first, and stays there when
//! the process moves. So the X server and thinc's own processes are born in the group that answers,
//! and a program keeps in `rest` what it had when it was typed into first: both are protected. How
//! much is decided here, by what the kernel counts, and never by what a person asks for.
//! Knows groups and bytes; never which process is which.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cgroup::{Ended, GROUP, Home, Version, enter, make, write};
use crate::limits::at;
use crate::priority_groups::PriorityGroup;

/// The controller of memory.
pub(crate) const CONTROLLER: &str = "memory";
/// The groups of version 1 within a desktop's, where the controller has a hierarchy of its own.
const ANSWERS: &str = "answers";
/// See [`ANSWERS`].
const REST: &str = "rest";
/// See [`ANSWERS`].
const COMPUTES: &str = "computes";

/// 512 MiB: most that is kept for one desktop, an X server with a large screen, thinc's processes
/// and a program.
const PROTECTED_MAX: u64 = 512 << 20;
/// Of the machine's memory the part that is kept for all desktops together, at most.
const PROTECTED_PART: u64 = 2;
/// A supervisor asks every 3 to 6 s. Memory is measured again after so long, as it changes slowly
/// and each measurement reads some files of each process that answers.
const INTERVAL: Duration = Duration::from_secs(10);
/// What computes is held while less than this is available, in percent of all memory, as
/// thinc-priority finds who takes it; and let go once [`ENOUGH_PERCENT`] are.
const SHORT_PERCENT: u64 = 10;
/// See [`SHORT_PERCENT`].
const ENOUGH_PERCENT: u64 = 20;
/// While it is held it loses this part of its memory at each measurement, as long as there is swap
/// for it, until it has [`HELD_MIN_PART`] of all memory.
const HELD_LOSES_PART: u64 = 8;
/// See [`HELD_LOSES_PART`].
const HELD_MIN_PART: u64 = 8;
/// Of all swap the part that what computes in one desktop may have while it is held.
const SWAP_PART: u64 = 2;

/// What /proc/meminfo says, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    total: u64,
    available: u64,
    swap_total: u64,
    swap_free: u64,
}

impl Machine {
    pub(crate) fn read() -> Result<Machine, String> {
        let path = Path::new("/proc/meminfo");
        Ok(Machine::parse(&fs::read_to_string(path).map_err(at(path))?))
    }

    fn parse(meminfo: &str) -> Machine {
        let of = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(kilobytes).unwrap_or(0)
        };
        Machine {
            total: of("MemTotal:"),
            available: of("MemAvailable:"),
            swap_total: of("SwapTotal:"),
            swap_free: of("SwapFree:"),
        }
    }

    fn has_less_than(&self, percent: u64) -> bool {
        u128::from(self.available) * 100 < u128::from(self.total) * u128::from(percent)
    }
}

/// A number of the kernel's with its unit, in bytes.
fn kilobytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix(" kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// What a process needs to have in memory, by its file "status" in /proc: its own memory, in swap
/// too, and by a count of its own the files that it has mapped, which others may have mapped too.
pub(crate) fn needs(status: &str) -> (u64, u64) {
    let (mut own, mut files) = (0, 0_u64);
    for line in status.lines() {
        let of = |name: &str| line.strip_prefix(name).and_then(kilobytes);
        if let Some(bytes) = of("RssAnon:").or(of("RssShmem:")).or(of("VmSwap:")) {
            own = bytes.saturating_add(own);
        } else if let Some(bytes) = of("RssFile:") {
            files = bytes;
        }
    }
    (own, files)
}

/// How memory of a group in which nothing is kept is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    answers: u64,
    rest: u64,
}

/// What is kept of both groups: all that is charged to the first one, and of the other one what the
/// processes that answer need beyond that.
fn kept(of_answers: u64, needed: u64) -> Kept {
    let answers = of_answers.min(PROTECTED_MAX);
    let rest = needed.saturating_sub(of_answers).min(PROTECTED_MAX - answers);
    Kept { answers, rest }
}

/// How much what computes may have (memory.high), by what it has; `None`: as much as it likes.
/// `held` is what was returned before.
fn held(current: u64, machine: &Machine, held: Option<u64>) -> Option<u64> {
    let is_held = match held {
        None => machine.has_less_than(SHORT_PERCENT),
        Some(_) => machine.has_less_than(ENOUGH_PERCENT),
    };
    let loses = if machine.swap_free > 0 { current / HELD_LOSES_PART } else { 0 };
    // Without swap it only grows no more: there is nowhere for what it has.
    is_held
        .then(|| (current - loses).max(machine.total / HELD_MIN_PART).min(held.unwrap_or(u64::MAX)))
}

/// Where memory is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryTree {
    home: Home,
}

impl MemoryTree {
    /// On this system, beside the groups of this home. The error says in words why there is none.
    pub(crate) fn find(
        mounts: &str,
        own: &str,
        by_systemd: bool,
        groups: &Home,
    ) -> Result<MemoryTree, String> {
        let home = Home::find(mounts, own, CONTROLLER, by_systemd).ok_or(
            "no control group of this system has the controller \"memory\" (cgroups(7)): mount or \
             enable it",
        )?;
        if home.version == Version::V2 {
            if home != *groups {
                return Err("the controller \"memory\" is in version 2 of the control groups and \
                            \"cpu\" in version 1"
                    .to_owned());
            }
            home.check_divisible(CONTROLLER)?;
        }
        Ok(MemoryTree { home })
    }

    /// The groups of processor time have the controller too.
    pub(crate) fn is_shared(&self) -> bool {
        self.home.version == Version::V2
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Version 2: below these folders, from the outermost, no more than a part of all memory is
    /// kept, however much the desktops in them have: the kernel divides it among them.
    pub(crate) fn bound(&self, parents: &[&Path], machine: &Machine) -> Result<(), String> {
        let most = (machine.total / PROTECTED_PART).to_string();
        parents.iter().try_for_each(|folder| write(&folder.join("memory.low"), &most))
    }

    /// Version 1: moves a process to new groups of a desktop in the controller's own hierarchy.
    pub(crate) fn enter(&self, name: &str, process: u32) -> Result<DesktopMemory, String> {
        let all = self.home.folder.join(GROUP);
        let desktop = all.join(name);
        let groups = [ANSWERS, REST, COMPUTES].map(|group| desktop.join(group));
        make(&all)?;
        let hierarchy = all.join("memory.use_hierarchy");
        // Before Linux 5.11: a limit holds for the groups within.
        if number(&hierarchy) == Ok(0) {
            write(&hierarchy, "1")?;
        }
        for group in [&desktop].into_iter().chain(&groups) {
            make(group)?;
        }
        let [answers, rest, computes] = groups;
        // Above this much the kernel takes memory from a group first where all have too little;
        // real-time kernels refuse it (PREEMPT_RT), and the rest works without.
        let _ = write(&computes.join("memory.soft_limit_in_bytes"), "0");
        enter(&answers, process)?;
        Ok(DesktopMemory::new(self.home.clone(), desktop, answers, rest, computes))
    }

    pub(crate) fn remove_empty(&self, ended: Ended<'_>) {
        if self.is_shared() {
            return;
        }
        for desktop in ended.among(&self.home.folder.join(GROUP)) {
            // The kernel refuses each while a process is there.
            for group in [ANSWERS, REST, COMPUTES] {
                let _ = fs::remove_dir(desktop.join(group));
            }
            let _ = fs::remove_dir(desktop);
        }
    }
}

/// That of one desktop.
pub(crate) struct DesktopMemory {
    home: Home,
    /// Contains the others; what computes may be elsewhere in version 2.
    desktop: PathBuf,
    answers: PathBuf,
    rest: PathBuf,
    computes: PathBuf,
    measured_at: Option<Instant>,
    /// What computes may have.
    held: Option<u64>,
}

impl DesktopMemory {
    pub(crate) fn new(
        home: Home,
        desktop: PathBuf,
        answers: PathBuf,
        rest: PathBuf,
        computes: PathBuf,
    ) -> DesktopMemory {
        DesktopMemory { home, desktop, answers, rest, computes, measured_at: None, held: None }
    }

    /// Version 1: where a process moves in the controller's own hierarchy.
    pub(crate) fn group(&self, group: PriorityGroup) -> Option<&Path> {
        if self.home.version == Version::V2 {
            return None;
        }
        Some(match group {
            PriorityGroup::Answers => &self.answers,
            PriorityGroup::Rest => &self.rest,
            PriorityGroup::Computes => &self.computes,
        })
    }

    /// Version 1: whether a process with these groups (its file "cgroup" in /proc) is in one of
    /// this desktop.
    pub(crate) fn contains(&self, cgroup: &str) -> bool {
        let folder = self.home.folder_of(cgroup, CONTROLLER);
        folder.is_some_and(|folder| folder.starts_with(&self.desktop))
    }

    /// See [`DesktopMemory::contains`]: the folder.
    pub(crate) fn folder_of(&self, cgroup: &str) -> Option<PathBuf> {
        self.home.folder_of(cgroup, CONTROLLER)
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Whether it is time for [`DesktopMemory::measure`].
    pub(crate) fn is_due(&self) -> bool {
        self.measured_at.is_none_or(|at| at.elapsed() >= INTERVAL)
    }

    /// Keeps what the groups have by now, and holds what computes if memory is short. `needed` are
    /// the bytes that the processes which answer need.
    pub(crate) fn measure(&mut self, needed: u64, machine: &Machine) -> Result<(), String> {
        self.measured_at = Some(Instant::now());
        match self.home.version {
            Version::V1 => self.keep_by_swappiness(needed, machine),
            Version::V2 => {
                let swapped = number(&self.answers.join("memory.swap.current")).unwrap_or(0);
                let used = number(&self.answers.join("memory.current"))?.saturating_add(swapped);
                self.keep(&kept(used, needed))?;
                self.hold(machine)
            }
        }
    }

    /// Nobody uses the desktop: nothing is kept for it.
    pub(crate) fn give_up(&mut self) -> Result<(), String> {
        self.measured_at = None;
        match self.home.version {
            Version::V1 => {
                let usual = self.usual_swappiness()?;
                let groups = [&self.answers, &self.rest];
                groups.iter().try_for_each(|group| write(&swappiness(group), &usual))
            }
            Version::V2 => {
                self.keep(&Kept { answers: 0, rest: 0 })?;
                // All of the desktop is where what computes was held, and nobody measures it.
                self.set_hold(None, 0)
            }
        }
    }

    fn keep(&self, kept: &Kept) -> Result<(), String> {
        let low = |group: &Path, bytes: u64| write(&group.join("memory.low"), &bytes.to_string());
        low(&self.desktop, kept.answers + kept.rest)?;
        low(&self.answers, kept.answers)?;
        low(&self.rest, kept.rest)
    }

    /// Version 2: what computes takes its memory from itself.
    fn hold(&mut self, machine: &Machine) -> Result<(), String> {
        let current = number(&self.computes.join("memory.current"))?;
        self.set_hold(held(current, machine, self.held), machine.swap_total / SWAP_PART)
    }

    fn set_hold(&mut self, held: Option<u64>, swap_most: u64) -> Result<(), String> {
        if held == self.held {
            return Ok(());
        }
        let text = |most: Option<u64>| most.map_or("max".to_owned(), |most| most.to_string());
        // Absent where the kernel does not count swap.
        let swap = self.computes.join("memory.swap.max");
        if held.is_some() != self.held.is_some() && swap.exists() {
            write(&swap, &text(held.map(|_| swap_most)))?;
        }
        write(&self.computes.join("memory.high"), &text(held))?;
        self.held = held;
        Ok(())
    }

    /// Version 1 can keep a group out of swap as a whole, or not at all: it does so for each of the
    /// two groups that has no more than may be kept.
    fn keep_by_swappiness(&self, needed: u64, machine: &Machine) -> Result<(), String> {
        let [of_answers, of_rest] = [own(&self.answers)?, own(&self.rest)?];
        let usual = self.usual_swappiness()?;
        let mut left = (machine.total / PROTECTED_PART).saturating_sub(self.kept_of_others());
        left = left.min(PROTECTED_MAX);
        // With nobody to answer there is nothing to keep of the rest.
        let is_rest_needed = needed > of_answers;
        for (group, bytes, is_needed) in
            [(&self.answers, of_answers, true), (&self.rest, of_rest, is_rest_needed)]
        {
            let is_kept = is_needed && bytes <= left;
            write(&swappiness(group), if is_kept { "0" } else { &usual })?;
            left -= if is_kept { bytes } else { 0 };
        }
        Ok(())
    }

    fn usual_swappiness(&self) -> Result<String, String> {
        let all = self.home.folder.join(GROUP);
        Ok(number(&swappiness(&all))?.to_string())
    }

    /// Version 1: what is kept out of swap of all other desktops.
    fn kept_of_others(&self) -> u64 {
        let all = fs::read_dir(self.home.folder.join(GROUP)).into_iter().flatten().flatten();
        let others = all.map(|entry| entry.path()).filter(|desktop| *desktop != self.desktop);
        let groups = others.flat_map(|desktop| [desktop.join(ANSWERS), desktop.join(REST)]);
        let kept = groups.filter(|group| number(&swappiness(group)) == Ok(0));
        // One that ends meanwhile has none.
        kept.filter_map(|group| own(&group).ok()).fold(0, u64::saturating_add)
    }
}

fn swappiness(group: &Path) -> PathBuf {
    group.join("memory.swappiness")
}

/// A file that holds one number.
fn number(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    let text = text.trim();
    text.parse().map_err(|_| format!("{}: {text:?} is no number", path.display()))
}

/// Version 1: memory of a group that could be in swap, and what is there.
fn own(group: &Path) -> Result<u64, String> {
    let path = group.join("memory.stat");
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0)
    };
    Ok(["rss", "shmem", "swap"].into_iter().map(of).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests;
