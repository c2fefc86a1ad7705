//! Control groups by which processor time follows the person: all desktops that are in use have one
//! parent, all others another, so that two groups compete, however many desktops there are; their
//! memory is session_memory.rs's, and real-time threads are realtime.rs's. Beside the path: from
//! limits.rs, when a desktop starts, and from its supervisor, whose requests of priority_groups.rs
//! are served here, to the files of cgroups(7). The supervisor is the person's: each request is
//! checked against what the kernel says of the process. Knows processes; never what a person does.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tracing::warn;

use crate::agent::SESSIONS_MAX;
use crate::cgroup::{Ended, GROUP, Group, Home, Places, Version, enter, make, write};
use crate::limits::{at, hides_processes};
use crate::packets;
use crate::priority_groups::{
    GroupAnswer, GroupRequest, PriorityGroup, REQUEST_BYTES_MAX, encode_answer,
};
use crate::realtime::{Named, RealTime, Rules};
use crate::session_memory::{self, DesktopMemory, Machine, MemoryTree, needs};
use crate::systemd_scope::{Scope, Weights};

/// The controller of processor time.
const CONTROLLER: &str = "cpu";
/// The parents of all desktops that are in use, and of all others.
const FOREGROUND: &str = "fg";
/// See [`FOREGROUND`].
const BACKGROUND: &str = "bg";
/// The groups within a desktop's.
const ANSWERS: &str = "answers";
/// See [`ANSWERS`].
const REST: &str = "rest";
/// See [`ANSWERS`]; only where one group holds the whole desktop.
const COMPUTES: &str = "computes";

/// Supervisors of one login that are served at a time, each by a thread: as many as a person has
/// desktops in their list. Further desktops start in the foreground and stay there.
const SERVED_MAX: usize = SESSIONS_MAX;
/// 16: how often the groups of a desktop are read until no process is left in them. Processes that
/// are forked while others are moved take a second time; a desktop whose processes fork faster than
/// they are moved is not moved as a whole.
const PASSES_MAX: usize = 16;
/// 64 KiB of a list of processes are read at a time: 8000 of them, or more.
const LIST_BYTES_MAX: u64 = 64 * 1024;

/// What a group has beside its siblings, in the units of version 1 and of version 2. Siblings that
/// nobody writes to have 1024 and 100.
struct Weight {
    shares: u32,
    weight: u32,
}

/// 20 : 1 for those in use: the others go on with a twenty-first of the time where it is short.
const OF_FOREGROUND: Weight = Weight { shares: 20_480, weight: 1000 };
/// See [`OF_FOREGROUND`].
const OF_BACKGROUND: Weight = Weight { shares: 1024, weight: 50 };
/// 10 : 1 within a desktop.
const OF_ANSWERS: Weight = Weight { shares: 10_240, weight: 1000 };
/// See [`OF_ANSWERS`]; also of a desktop beside others.
const USUAL: Weight = Weight { shares: 1024, weight: 100 };
/// The kernel's smallest: of what computes, beside the rest of its own desktop.
const LEAST: Weight = Weight { shares: 2, weight: 1 };
/// 1 : 20 to [`USUAL`], as the background to the foreground: of a whole desktop that nobody uses.
/// Its person's programs go on with it, which [`LEAST`] would nearly stop.
const OF_UNUSED: Weight = Weight { shares: 51, weight: 5 };
/// Where systemd owns the groups: of desktops in use and of others, among what else their user
/// runs; and of the user's slice among those of others, who have 100.
const BY_SYSTEMD: [Weights; 2] = [
    Weights { scope: USUAL.weight, slice: OF_FOREGROUND.weight },
    Weights { scope: OF_UNUSED.weight, slice: OF_BACKGROUND.weight },
];
/// systemd is not asked more often for a weight that it has refused.
const WEIGH_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Nothing is kept where systemd owns the groups: what a group keeps counts only as far as all
/// those above it keep it, and those are systemd's.
const WITHOUT_MEMORY: &str = "systemd owns the control groups of this system";
/// Where the administrator has not said so.
const WITHOUT_REAL_TIME: &str = "off: the broker's configuration has no real-time = true";
/// What all desktops together count as on each processor, in single processes beside them in the
/// broker's own group: services of the system, and logins.
const ALL_AS_PROCESSES: u32 = 4;
/// The largest that the kernel takes.
const LARGEST: Weight = Weight { shares: 262_144, weight: 10_000 };

/// Where groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    home: Home,
    /// Those in the same hierarchy: the group of a desktop in the foreground then has the limits,
    /// and holds the desktop in the background too.
    limits: Vec<Group>,
    /// By which memory is kept for what answers, or why not.
    memory: Result<MemoryTree, String>,
    /// systemd owns the hierarchy, and starts a scope with these properties for each desktop.
    properties: Option<Vec<String>>,
    /// Processes are moved between the groups of a desktop.
    moves: bool,
}

impl Tree {
    /// On this system; takes the limits that it has to set. The error says in words why there is
    /// none. `mounts` and `own` are the texts of mountinfo and cgroup in /proc/self.
    pub(crate) fn find(
        mounts: &str,
        own: &str,
        by_systemd: bool,
        limits: &mut Vec<Group>,
    ) -> Result<Tree, String> {
        if hides_processes(mounts) {
            return Err(
                "/proc is mounted with hidepid, so that nobody can tell whose a process is"
                    .to_owned(),
            );
        }
        let home = Home::find(mounts, own, CONTROLLER, by_systemd).ok_or(
            "no control group of this system has the controller \"cpu\" (cgroups(7)): mount or \
             enable it",
        )?;
        if home.version == Version::V2 {
            if by_systemd {
                return Tree::of_systemd(mounts, own, Vec::new(), true);
            }
            home.check_divisible(CONTROLLER)?;
        }
        let limits = limits.extract_if(.., |limit| limit.home == home).collect();
        let memory = MemoryTree::find(mounts, own, by_systemd, &home);
        Ok(Tree { home, limits, memory, properties: None, moves: true })
    }

    /// Where systemd owns version 2, and has to set limits, by these properties of a scope.
    pub(crate) fn of_systemd(
        mounts: &str,
        own: &str,
        properties: Vec<String>,
        moves: bool,
    ) -> Result<Tree, String> {
        let home = Home::find(mounts, own, CONTROLLER, true).ok_or(
            "limits cannot be enforced: no control group of this system has the controller \
             \"cpu\" (cgroups(7)). Enable it, or remove session-memory and session-processors",
        )?;
        let moves = moves && !hides_processes(mounts);
        let memory = Err(WITHOUT_MEMORY.to_owned());
        Ok(Tree { home, limits: Vec::new(), memory, properties: Some(properties), moves })
    }

    /// The groups of all hierarchies to which a process goes back from those of a desktop; `origin`
    /// is that of [`Tree::origin_of`].
    pub(crate) fn leave_for<'a>(
        &'a self,
        origin: Option<&'a Path>,
    ) -> impl Iterator<Item = &'a Path> {
        let memory = self.memory.iter().map(|memory| memory.home().folder.as_path());
        std::iter::once(origin.unwrap_or(&self.home.folder)).chain(memory)
    }

    /// Why memory is not kept for what answers.
    pub(crate) fn without_memory(&self) -> Option<&String> {
        self.memory.as_ref().err()
    }

    #[cfg(test)]
    pub(crate) fn properties(&self) -> Option<&[String]> {
        self.properties.as_deref()
    }

    /// The group of a process that enters the groups of a desktop and comes back; `None` where that
    /// is the broker's own.
    pub(crate) fn origin_of(&self, process: u32) -> Option<PathBuf> {
        self.properties.as_ref()?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        self.home.folder_of(&groups, CONTROLLER)
    }

    /// The file that says how much those in use wait for a processor, once there are any; only
    /// version 2 has one, where they have one group.
    pub(crate) fn pressure(&self) -> Option<PathBuf> {
        let file = || self.home.folder.join(GROUP).join(FOREGROUND).join("cpu.pressure");
        (self.home.version == Version::V2 && self.properties.is_none()).then(file)
    }

    /// Whether a desktop must not start without its groups.
    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty() || self.properties.iter().any(|properties| !properties.is_empty())
    }

    /// Whether processes are moved between the groups of a desktop.
    pub(crate) fn moves(&self) -> bool {
        self.moves
    }

    /// Moves a process to new groups of a desktop of this user.
    pub(crate) fn enter(
        &self,
        name: &str,
        uid: u32,
        process: u32,
    ) -> Result<SessionGroups, String> {
        if let Some(properties) = &self.properties {
            return self.enter_scope(name, uid, process, properties);
        }
        let home = &self.home;
        let memory = self.memory.as_ref().ok().filter(|memory| memory.is_shared());
        let divided: Vec<&str> =
            [CONTROLLER].into_iter().chain(memory.map(|_| session_memory::CONTROLLER)).collect();
        let mut controllers = divided.clone();
        for limit in &self.limits {
            if !controllers.contains(&limit.controller) {
                controllers.push(limit.controller);
            }
        }
        let all = home.folder.join(GROUP);
        home.divide(&home.folder, &controllers)?;
        make(&all)?;
        set(home, &all, &of_all(processors()))?;
        home.divide(&all, &controllers)?;
        let parent = |name: &str, weight: &Weight, controllers: &[&str]| {
            let folder = all.join(name);
            make(&folder)?;
            set(home, &folder, weight)?;
            home.divide(&folder, controllers)?;
            Ok::<_, String>(folder)
        };
        let desktop = parent(FOREGROUND, &OF_FOREGROUND, &controllers)?.join(name);
        make(&desktop)?;
        for (file, value) in self.limits.iter().flat_map(|limit| &limit.settings) {
            write(&desktop.join(file), value)?;
        }
        home.divide(&desktop, &divided)?;
        let (answers, rest) = self.make_parts(&desktop)?;
        let computes = if self.has_limits() {
            self.make_computes(&desktop)?
        } else {
            let folder = parent(BACKGROUND, &OF_BACKGROUND, &divided)?.join(name);
            make(&folder)?;
            folder
        };
        // Where the X server is born: memory stays in the group where it was used first.
        enter(&answers, process)?;
        let memory = self.enter_memory(name, process, [&desktop, &answers, &rest, &computes]);
        let (home, is_whole) = (home.clone(), self.has_limits());
        Ok(SessionGroups {
            home,
            uid,
            desktop,
            answers,
            rest,
            computes,
            memory,
            is_whole,
            scope: None,
            is_background: false,
            weigh_again_at: None,
            real_time: Err(WITHOUT_REAL_TIME.to_owned()),
            has_told: Cell::new(false),
        })
    }

    /// The same in a scope that systemd starts.
    fn enter_scope(
        &self,
        name: &str,
        uid: u32,
        process: u32,
        properties: &[String],
    ) -> Result<SessionGroups, String> {
        let (scope, holder) = Scope::start(&self.home, name, uid, properties)?;
        let desktop = scope.folder.clone();
        let rest = desktop.join(REST);
        make(&rest)?;
        // A group with processes is not divided.
        enter(&rest, holder.process)?;
        self.home.divide(&desktop, &[CONTROLLER])?;
        let (answers, rest) = self.make_parts(&desktop)?;
        let computes = self.make_computes(&desktop)?;
        enter(&answers, process)?;
        Ok(SessionGroups {
            home: self.home.clone(),
            uid,
            desktop,
            answers,
            rest,
            computes,
            memory: Err(WITHOUT_MEMORY.to_owned()),
            is_whole: true,
            scope: Some(scope),
            is_background: false,
            weigh_again_at: None,
            real_time: Err(WITHOUT_REAL_TIME.to_owned()),
            has_told: Cell::new(false),
        })
    }

    /// The groups of what answers and of the rest, in that of a desktop.
    fn make_parts(&self, desktop: &Path) -> Result<(PathBuf, PathBuf), String> {
        let (answers, rest) = (desktop.join(ANSWERS), desktop.join(REST));
        for (group, weight) in [(&answers, &OF_ANSWERS), (&rest, &USUAL)] {
            make(group)?;
            set(&self.home, group, weight)?;
        }
        Ok((answers, rest))
    }

    /// That of what computes, if it has to be there too.
    fn make_computes(&self, desktop: &Path) -> Result<PathBuf, String> {
        let computes = desktop.join(COMPUTES);
        make(&computes)?;
        let idle = computes.join("cpu.idle");
        // Since Linux 5.15. It includes the smallest weight, which then cannot be written.
        if idle.exists() {
            write(&idle, "1")?;
        } else {
            set(&self.home, &computes, &LEAST)?;
        }
        Ok(computes)
    }

    /// `groups`: the desktop's, those that answer, the rest, and what computes.
    fn enter_memory(
        &self,
        name: &str,
        process: u32,
        groups: [&Path; 4],
    ) -> Result<DesktopMemory, String> {
        let memory = self.memory.as_ref().map_err(String::clone)?;
        if !memory.is_shared() {
            return memory.enter(name, process);
        }
        let all = self.home.folder.join(GROUP);
        memory.bound(&[&all, &all.join(FOREGROUND)], &Machine::read()?)?;
        let [desktop, answers, rest, computes] = groups.map(Path::to_owned);
        Ok(DesktopMemory::new(self.home.clone(), desktop, answers, rest, computes))
    }

    pub(crate) fn remove_empty(&self, ended: Ended<'_>) {
        if self.properties.is_some() {
            // systemd removes a scope that has no process left.
            return;
        }
        self.memory.iter().for_each(|memory| memory.remove_empty(ended));
        let all = self.home.folder.join(GROUP);
        for desktop in ended.among(&all.join(FOREGROUND)) {
            // The kernel refuses each while a process is there.
            for group in [ANSWERS, REST, COMPUTES] {
                let _ = fs::remove_dir(desktop.join(group));
            }
            let _ = fs::remove_dir(desktop);
        }
        for group in ended.among(&all.join(BACKGROUND)) {
            let _ = fs::remove_dir(group);
        }
    }
}

/// Those that this process may run on; one if the kernel does not say.
fn processors() -> u32 {
    thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// The weight of the group of all desktops. The kernel divides a group's weight among the
/// processors on which its processes run, and gives a single process all of its own on the one
/// where it runs: with the usual weight all desktops of N processors would count as one process.
fn of_all(processors: u32) -> Weight {
    let times = ALL_AS_PROCESSES.saturating_mul(processors);
    Weight {
        shares: USUAL.shares.saturating_mul(times).min(LARGEST.shares),
        weight: USUAL.weight.saturating_mul(times).min(LARGEST.weight),
    }
}

fn set(home: &Home, group: &Path, weight: &Weight) -> Result<(), String> {
    match home.version {
        Version::V1 => write(&group.join("cpu.shares"), &weight.shares.to_string()),
        Version::V2 => write(&group.join("cpu.weight"), &weight.weight.to_string()),
    }
}

/// Those of one desktop.
pub(crate) struct SessionGroups {
    home: Home,
    /// Of its user.
    uid: u32,
    /// Contains all but `computes`, and that too if it is whole.
    desktop: PathBuf,
    answers: PathBuf,
    rest: PathBuf,
    computes: PathBuf,
    /// Or why none is kept.
    memory: Result<DesktopMemory, String>,
    /// One group holds the whole desktop, in the background too.
    is_whole: bool,
    /// That group is systemd's.
    scope: Option<Scope>,
    /// Nobody has used it since it was moved there, or since the weight of `desktop` became small.
    is_background: bool,
    /// It has become used, and has its small weight still.
    weigh_again_at: Option<Instant>,
    /// Or why none of its threads are.
    real_time: Result<RealTime, String>,
    /// A line of the log is written once for each desktop.
    has_told: Cell<bool>,
}

/// Whose processes a request may move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The user's alone: their supervisor has named it.
    TheUsers,
    /// The kernel has listed it in a group of the desktop. A person may have become another user in
    /// a terminal there: that belongs to the desktop.
    Anybodys,
}

impl SessionGroups {
    /// Threads that pass input on may be real-time while it is used.
    pub(crate) fn allow_real_time(&mut self) {
        self.real_time = Ok(RealTime::new(Rules::new(self.uid, &self.answers)));
    }

    /// Answers a supervisor until it ends: in a thread of its own.
    fn serve(mut self, socket: &OwnedFd) {
        self.begin();
        self.answer_all(socket);
        self.end();
    }

    /// Somebody decides from now on which desktop is in use.
    fn begin(&self) {
        if let Some(Err(why)) = self.scope.as_ref().map(|scope| scope.weigh_slice(&BY_SYSTEMD)) {
            self.tell_once(&why);
        }
    }

    /// The desktop has ended.
    fn end(&self) {
        if let Some(Err(why)) = self.scope.as_ref().map(|scope| scope.leave_slice(&BY_SYSTEMD)) {
            self.tell_once(&why);
        }
    }

    fn tell_once(&self, why: &str) {
        if !self.has_told.replace(true) {
            warn!(uid = self.uid, "a desktop of user {} keeps its weight: {why}", self.uid);
        }
    }

    fn answer_all(&mut self, socket: &OwnedFd) {
        loop {
            let received = packets::receive(socket, REQUEST_BYTES_MAX);
            let began = Instant::now();
            let answer = match received {
                Ok(packet) if packet.bytes.is_empty() => return,
                Ok(packet) => GroupRequest::decode(&packet.bytes)
                    .ok_or_else(|| "there is no such request".to_owned())
                    .and_then(|request| self.handle(&request)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    Err("a request is longer than any".to_owned())
                }
                Err(_) => return,
            };
            // It waits for a supervisor that reads no answer, and nobody else does.
            if packets::send(socket, &encode_answer(&answer), &[]).is_err() {
                return;
            }
            // Half of the time at most: while a process is moved, the kernel starts and ends none.
            thread::sleep(began.elapsed());
        }
    }

    fn handle(&mut self, request: &GroupRequest) -> GroupAnswer {
        match *request {
            GroupRequest::Background => {
                self.real_time.iter_mut().for_each(RealTime::take_back);
                // Where that fails, the next request to measure says why.
                self.memory.iter_mut().for_each(|memory| _ = memory.give_up());
            }
            // No other group of this desktop may have real-time threads.
            GroupRequest::Move { group, pid } if group != PriorityGroup::Answers => {
                self.real_time.iter_mut().for_each(|real_time| real_time.take_back_of(pid));
            }
            _ => {}
        }
        match *request {
            GroupRequest::Move { group, pid } => {
                let to = match group {
                    PriorityGroup::Answers => &self.answers,
                    PriorityGroup::Rest => &self.rest,
                    PriorityGroup::Computes => &self.computes,
                };
                let memory = self.memory.as_ref().ok().and_then(|memory| memory.group(group));
                let is_back = self.is_background && group != PriorityGroup::Computes;
                if is_back && !self.is_whole {
                    // The supervisor asks only for its user's own: others come back here or never.
                    let back = self.move_all(&[&self.computes], &self.rest);
                    let moved = self.move_process(pid, to, Whose::TheUsers, memory);
                    // Tried once: a later try would take along what computes by then.
                    self.is_background = false;
                    return moved
                        .and(back.map_err(|why| format!("a part stays in the background: {why}")));
                }
                self.move_process(pid, to, Whose::TheUsers, memory)?;
                if is_back {
                    self.is_background = false;
                    self.weigh_again_at = Some(Instant::now());
                    self.weigh_again();
                }
                Ok(())
            }
            GroupRequest::Memory => {
                self.weigh_again();
                self.measure_memory()
            }
            GroupRequest::RealTime { server, session } => {
                self.ask_real_time(Named { server, session })
            }
            GroupRequest::Background if self.is_whole => {
                self.weigh_again_at = None;
                self.weigh(&OF_UNUSED)?;
                self.is_background = true;
                Ok(())
            }
            GroupRequest::Background => {
                // Also if only a part of it gets there.
                self.is_background = true;
                self.move_all(&[&self.answers, &self.rest], &self.computes)
                    .map_err(|why| format!("the desktop is not in the background: {why}"))
            }
        }
    }

    /// A desktop that is in use again gets the usual weight. Its processes have moved all the same
    /// where that fails; systemd is asked again later.
    fn weigh_again(&mut self) {
        if self.weigh_again_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        let weighed = self.weigh(&USUAL);
        self.weigh_again_at = weighed.is_err().then(|| Instant::now() + WEIGH_AGAIN_AFTER);
        if let Err(why) = weighed {
            self.tell_once(&why);
        }
    }

    /// The whole desktop.
    fn weigh(&self, weight: &Weight) -> Result<(), String> {
        match &self.scope {
            Some(scope) => scope.weigh(weight.weight, &BY_SYSTEMD),
            None => set(&self.home, &self.desktop, weight),
        }
    }

    /// Keeps the memory of the processes that answer by now.
    fn measure_memory(&mut self) -> GroupAnswer {
        let memory = self.memory.as_mut().map_err(|why| why.clone())?;
        if self.is_background || !memory.is_due() {
            return Ok(());
        }
        let (mut needed, mut files_most) = (0_u64, 0);
        for pid in members(&self.answers)? {
            // One that has ended needs nothing.
            let (own, files) = needs(&status_of(pid).unwrap_or_default());
            needed = needed.saturating_add(own);
            files_most = files.max(files_most);
        }
        memory.measure(needed.saturating_add(files_most), &Machine::read()?)
    }

    fn ask_real_time(&mut self, named: Named) -> GroupAnswer {
        let home = &self.home;
        let real_time = self.real_time.as_mut().map_err(|why| why.clone())?;
        if self.is_background {
            return Err("nobody uses the desktop".to_owned());
        }
        real_time.ask(named, &|pid| home.folder_of(&groups_of(pid)?, CONTROLLER))
    }

    /// Moves a process of this desktop, by its number: no other call of the kernel does it. To
    /// `memory` too, a group of the controller's own hierarchy, if there is one.
    fn move_process(
        &self,
        pid: u32,
        to: &Path,
        whose: Whose,
        memory: Option<&Path>,
    ) -> Result<(), String> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // Zero would be this process.
        let number = number.ok_or_else(|| format!("{pid} is no number of a process"))?;
        let failed = |error: rustix::io::Errno| format!("process {pid}: {error}");
        // As long as the process that this refers to lives, no other has its number.
        let process = pidfd_open(number, PidfdFlags::empty()).map_err(failed)?;
        if whose == Whose::TheUsers && !is_of(self.uid, &status_of(pid)?) {
            return Err(format!("process {pid} is another user's"));
        }
        let groups = groups_of(pid).unwrap_or_default();
        if !self.home.folder_of(&groups, CONTROLLER).is_some_and(|folder| self.contains(&folder)) {
            return Err(format!("process {pid} is in no group of this desktop"));
        }
        enter(to, pid)?;
        let memory = memory.filter(|_| self.has_memory(&groups));
        // Else it goes on using that of the group where it was.
        memory.iter().for_each(|group| _ = enter(group, pid));
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_err(failed)? {
            0 => Ok(()),
            _ => {
                self.put_back(pid, to);
                memory.iter().for_each(|group| self.put_memory_back(pid, group));
                Err(format!("process {pid} has ended"))
            }
        }
    }

    /// After a process has ended while it was moved, another one may have got its number, and have
    /// been moved instead. That goes back to where it was born.
    fn put_back(&self, pid: u32, to: &Path) {
        let folder_of = |groups: &str| self.home.folder_of(groups, CONTROLLER);
        self.put_back_in(pid, to, &self.home, &folder_of, &|folder, _| self.contains(folder));
    }

    /// See [`SessionGroups::put_back`]: in the hierarchy of the controller of memory.
    fn put_memory_back(&self, pid: u32, to: &Path) {
        let Ok(memory) = &self.memory else { return };
        let folder_of = |groups: &str| memory.folder_of(groups);
        let is_own = |_: &Path, groups: &str| memory.contains(groups);
        self.put_back_in(pid, to, memory.home(), &folder_of, &is_own);
    }

    fn put_back_in(
        &self,
        pid: u32,
        to: &Path,
        home: &Home,
        folder_of: &dyn Fn(&str) -> Option<PathBuf>,
        is_own: &dyn Fn(&Path, &str) -> bool,
    ) {
        if groups_of(pid).and_then(|groups| folder_of(&groups)).as_deref() != Some(to) {
            return;
        }
        let status = status_of(pid).unwrap_or_default();
        let parent = value_of(&status, "PPid:").and_then(|pid| pid.trim().parse().ok());
        let groups = parent.and_then(groups_of).unwrap_or_default();
        let folder = folder_of(&groups).unwrap_or_else(|| home.folder.clone());
        // One of this desktop, which a process of it has started.
        if is_own(&folder, &groups) {
            return;
        }
        let put = enter(&folder, pid);
        if !self.has_told.replace(true) {
            warn!(uid = self.uid, "process {pid} got the number of one that was moved: {put:?}");
        }
    }

    /// What is in some groups of this desktop is moved to another one until nothing is left there.
    fn move_all(&self, from: &[&Path], to: &Path) -> Result<(), String> {
        let mut why = "its processes fork faster than they are moved".to_owned();
        for _ in 0..PASSES_MAX {
            let mut found = false;
            for group in from {
                for pid in members(group)? {
                    found = true;
                    // One that has ended is not listed again.
                    if let Err(error) = self.move_process(pid, to, Whose::Anybodys, None) {
                        why = error;
                    }
                }
            }
            if !found {
                return Ok(());
            }
        }
        Err(why)
    }

    fn contains(&self, group: &Path) -> bool {
        [&self.answers, &self.rest, &self.computes].iter().any(|own| *own == group)
    }

    /// Whether a process with these groups has its memory in one of this desktop.
    fn has_memory(&self, groups: &str) -> bool {
        self.memory.as_ref().is_ok_and(|memory| memory.contains(groups))
    }
}

/// The file "cgroup" in /proc.
fn groups_of(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

/// Some of the processes in a group, and each of them if there are few.
fn members(group: &Path) -> Result<Vec<u32>, String> {
    let path = group.join("cgroup.procs");
    let mut text = String::new();
    let file = fs::File::open(&path).map_err(at(&path))?;
    file.take(LIST_BYTES_MAX).read_to_string(&mut text).map_err(at(&path))?;
    // The last line may be cut.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    Ok(whole.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The file "status" in /proc. The name of a process in it is any bytes: the kernel cuts it after
/// 15, inside a character too.
pub(crate) fn status_of(pid: u32) -> Result<String, String> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let bytes = fs::read(&path).map_err(at(&path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rest of the line that starts so, of a file "status" in /proc.
pub(crate) fn value_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

/// Whether a process is this user's in every way: real, effective, saved and of its files.
pub(crate) fn is_of(uid: u32, status: &str) -> bool {
    let of_process = value_of(status, "Uid:").map(|ids| ids.split_whitespace().map(str::parse));
    of_process.is_some_and(|ids| {
        let ids: Vec<Result<u32, _>> = ids.collect();
        ids.len() == 4 && ids.iter().all(|id| *id == Ok(uid))
    })
}

/// The desktops that one login has let start.
pub(crate) struct Desktops {
    places: Places,
    uid: u32,
    count: u32,
    /// The agent's group while it starts none.
    origin: Option<PathBuf>,
    /// Those whose supervisors are served, by name.
    served: Vec<(String, JoinHandle<()>)>,
}

impl Desktops {
    pub(crate) fn new(places: Places, uid: u32) -> Desktops {
        Desktops { places, uid, count: 0, origin: None, served: Vec::new() }
    }

    /// Moves the agent to new groups for a desktop. Returns the supervisor's end of a socket over
    /// which it can move the desktop's processes, if anybody can. An error: a limit cannot be set.
    pub(crate) fn begin(&mut self, agent: u32) -> Result<Option<OwnedFd>, String> {
        self.count += 1;
        let name = format!("{}-{}-{}", self.uid, std::process::id(), self.count);
        self.served.retain(|(_, thread)| !thread.is_finished());
        // A desktop that is not served can lose the empty ones of its groups: nobody moves there.
        let living: Vec<&str> = self.served.iter().map(|(name, _)| name.as_str()).collect();
        self.places.remove_empty(Ended::Except(&living));
        if self.origin.is_none() {
            self.origin = self.places.origin_of(agent);
        }
        self.places.enter(&name, agent)?;
        let Some(groups) = self.places.enter_tree(&name, self.uid, agent)? else {
            return Ok(None);
        };
        if self.served.len() >= SERVED_MAX {
            return Ok(None);
        }
        match start_serving(groups) {
            Ok((thread, supervisors)) => {
                self.served.push((name, thread));
                Ok(Some(supervisors))
            }
            // At a limit of the system: the desktop stays in the foreground.
            Err(_) => Ok(None),
        }
    }

    /// Moves the agent back.
    pub(crate) fn leave(&self, agent: u32) -> Result<(), String> {
        self.places.leave(agent, self.origin.as_deref())
    }
}

/// The thread, and the supervisor's end of the socket.
fn start_serving(groups: SessionGroups) -> io::Result<(JoinHandle<()>, OwnedFd)> {
    let (near, far) = packets::pair()?;
    Ok((thread::Builder::new().spawn(move || groups.serve(&near))?, far))
}

#[cfg(test)]
pub(crate) mod tests;
