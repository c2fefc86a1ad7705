//! Real-time policy for the few threads of a desktop that only pass input on, while it is used.
//! Beside the path: from session_groups.rs, for which the supervisor of the desktop asks and names
//! its X server and its session process, to the kernel. The supervisor is the person's: whose each
//! process is, where it is and how it is called is checked here, and in any case a budget bounds
//! what its threads take, whatever they do (budget.rs). A thread of this process, with a priority
//! above theirs, measures them and takes it back. Knows threads; never what a person does.

mod budget;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit};
use thinc_realtime::{Policy, policy_of, set_policy};

use crate::priority_groups::GroupAnswer;
use crate::processes::command_line;
use crate::session_groups::{is_of, status_of, value_of};

use budget::{Budget, INTERVAL, Over, PERCENT_MAX, RUN_MAX, Role};

/// The lowest real-time priority, of a desktop's threads.
const PRIORITY: u8 = 1;
/// Of the thread that measures them: it runs whatever they do.
const PRIORITY_OF_WATCH: u8 = PRIORITY + 1;
/// A supervisor asks every 3 to 6 s while its desktop is used; after so long without, its threads
/// are ordinary again.
const LEASE: Duration = Duration::from_secs(10);
/// A request that comes sooner gets the answer of the one before: nobody keeps root busy by asking.
const REQUEST_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Of the machine's processors the part that all desktops together may use by this. Each has up to
/// [`PERCENT_MAX`] of one, so that many desktops have it at a time.
const ALL_PERCENT_MAX: u32 = 50;
/// After so long without a pause the kernel kills the process of a thread that was neither stopped
/// by the signal that came after [`RUN_MAX`] nor by the thread that measures it.
const KILLED_AFTER: Duration = Duration::from_secs(2);
/// Each desktop that has it holds one of these files, by number: only root makes any there.
const SLOT: &str = "/run/thinc-real-time-";
/// As the driver calls the X server's thread, once it has read input; that driver handles SIGXCPU.
const INPUT_THREAD: &str = "thinc-input";
/// What an X server is called.
const SERVER: &str = "Xorg";

/// Processes that a supervisor names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The X server.
    pub(crate) server: u32,
    /// The session process.
    pub(crate) session: u32,
}

/// Whose threads they have to be.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    uid: u32,
    /// The group of the processes that answer.
    answers: PathBuf,
}

/// A thread, and its process, so that no other one gets that number.
#[derive(Debug)]
struct Candidate {
    role: Role,
    pid: u32,
    thread: u32,
    process: OwnedFd,
}

impl Rules {
    /// For a desktop of this user whose answering processes are in this group.
    pub(crate) fn new(uid: u32, answers: &Path) -> Rules {
        Rules { uid, answers: answers.to_owned() }
    }

    /// The threads of named processes that may be real-time, where `folder_of` finds the group of a
    /// process.
    fn find(
        &self,
        named: Named,
        folder_of: &dyn Fn(u32) -> Option<PathBuf>,
    ) -> Result<Vec<Candidate>, String> {
        [(Role::Input, named.server), (Role::Session, named.session)]
            .into_iter()
            .filter(|(_, pid)| *pid != 0)
            .map(|(role, pid)| self.check(role, pid, folder_of))
            .collect()
    }

    fn check(
        &self,
        role: Role,
        pid: u32,
        folder_of: &dyn Fn(u32) -> Option<PathBuf>,
    ) -> Result<Candidate, String> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| format!("{pid} is no number of a process"))?;
        let process = pidfd_open(number, PidfdFlags::empty())
            .map_err(|error| format!("process {pid}: {error}"))?;
        let status = status_of(pid)?;
        if !is_of(self.uid, &status) {
            return Err(format!("process {pid} is another user's"));
        }
        if folder_of(pid).as_ref() != Some(&self.answers) {
            return Err(format!("process {pid} is not in the group of what answers"));
        }
        if !is_called(role, pid) {
            return Err(match role {
                Role::Input => format!("process {pid} is no X server"),
                Role::Session => format!("process {pid} is no session process"),
            });
        }
        if !has_xcpu_handler(&status) {
            return Err(format!("process {pid} would end where the kernel ends a long run"));
        }
        let thread = match role {
            Role::Session => pid,
            Role::Input => thread_named(pid, INPUT_THREAD)
                .ok_or_else(|| format!("the X server {pid} has read no input yet"))?,
        };
        Ok(Candidate { role, pid, thread, process })
    }
}

/// By its command line: the file that it runs is not told without CAP_SYS_PTRACE, which a login
/// process has given up. A person can make a process of theirs be called and do anything, so this
/// is no more than a check that a supervisor names the right ones.
fn is_called(role: Role, pid: u32) -> bool {
    let arguments = command_line(Path::new(&format!("/proc/{pid}")));
    let mut arguments = arguments.split(|&byte| byte == 0);
    let program = arguments.next().and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    match role {
        Role::Input => program == Some(SERVER.as_bytes()),
        Role::Session => arguments.next() == Some(b"session"),
    }
}

/// Whether a process with this file "status" in /proc does something, or nothing, upon SIGXCPU;
/// else it would end.
fn has_xcpu_handler(status: &str) -> bool {
    let bit = 1_u64 << (rustix::process::Signal::XCPU.as_raw() - 1);
    ["SigCgt:", "SigIgn:"].iter().any(|name| {
        let mask =
            value_of(status, name).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & bit != 0)
    })
}

/// The first thread of a process with this name.
fn thread_named(pid: u32, name: &str) -> Option<u32> {
    fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().find_map(|task| {
        let found = fs::read(task.path().join("comm")).ok()?;
        let thread = task.file_name().to_str()?.parse().ok()?;
        (found.trim_ascii_end() == name.as_bytes()).then_some(thread)
    })
}

/// That of one desktop.
pub(crate) struct RealTime {
    rules: Rules,
    watch: Option<(Sender<Order>, JoinHandle<()>)>,
    slots: Slots,
    answered: Option<(Instant, GroupAnswer)>,
    /// What was real-time, or may be.
    named: Option<Named>,
}

impl RealTime {
    pub(crate) fn new(rules: Rules) -> RealTime {
        RealTime { rules, watch: None, slots: Slots::of_machine(), answered: None, named: None }
    }

    /// The desktop is used: the threads of these processes are real-time for a while. The error
    /// says why not all of them are.
    pub(crate) fn ask(
        &mut self,
        named: Named,
        folder_of: &dyn Fn(u32) -> Option<PathBuf>,
    ) -> GroupAnswer {
        if let Some((at, answer)) = &self.answered
            && at.elapsed() < REQUEST_INTERVAL_MIN
        {
            return answer.clone();
        }
        let answer = self.ask_watch(named, folder_of);
        self.answered = Some((Instant::now(), answer.clone()));
        answer
    }

    fn ask_watch(
        &mut self,
        named: Named,
        folder_of: &dyn Fn(u32) -> Option<PathBuf>,
    ) -> GroupAnswer {
        let candidates = match self.rules.find(named, folder_of) {
            Ok(candidates) => candidates,
            Err(why) => {
                self.take_back();
                return Err(why);
            }
        };
        self.named = Some(named);
        let words = |error: io::Error| format!("a thread that measures cannot start: {error}");
        let (answer, answered) = channel();
        let sent = self.watch().map_err(words)?.send(Order::Grant(candidates, answer));
        // One that has ended has panicked: its threads are ordinary by then.
        sent.ok().and_then(|()| answered.recv().ok()).unwrap_or_else(|| {
            self.watch = None;
            Err("the thread that measures has ended".to_owned())
        })
    }

    fn watch(&mut self) -> io::Result<&Sender<Order>> {
        let (orders, _) = match self.watch.take() {
            Some(watch) => self.watch.insert(watch),
            None => {
                let (orders, ordered) = channel();
                let slots = self.slots.clone();
                let thread = thread::Builder::new().name("real-time".to_owned());
                let thread = thread.spawn(move || Watch::new(slots).run(&ordered))?;
                self.watch.insert((orders, thread))
            }
        };
        Ok(orders)
    }

    /// The desktop is not used any more: returns once all of its threads are ordinary.
    pub(crate) fn take_back(&mut self) {
        (self.answered, self.named) = (None, None);
        if let Some((orders, _)) = &self.watch {
            let (answer, answered) = channel();
            let _ = orders.send(Order::TakeBack(answer));
            let _ = answered.recv();
        }
    }

    /// Before this process moves elsewhere.
    pub(crate) fn take_back_of(&mut self, pid: u32) {
        // 0: none was named.
        if pid != 0 && self.named.is_some_and(|named| [named.server, named.session].contains(&pid))
        {
            self.take_back();
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Some((orders, thread)) = self.watch.take() {
            drop(orders);
            let _ = thread.join();
        }
    }
}

/// To the thread that measures.
enum Order {
    Grant(Vec<Candidate>, Sender<GroupAnswer>),
    TakeBack(Sender<()>),
}

/// What the thread that measures knows. When this is dropped, all threads are ordinary.
struct Watch {
    began: Instant,
    granted: Vec<Candidate>,
    budget: Budget,
    slots: Slots,
    slot: Option<Slot>,
    leased_until: Instant,
}

impl Watch {
    fn new(slots: Slots) -> Watch {
        let now = Instant::now();
        let budget = Budget::default();
        Watch { began: now, granted: Vec::new(), budget, slots, slot: None, leased_until: now }
    }

    /// Until its desktop has ended. It wakes up by itself only while a thread is real-time.
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let order = match self.granted.is_empty() {
                true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => orders.recv_timeout(INTERVAL),
            };
            // Whatever comes between two measurements: what was used until now counts.
            if order.is_ok() && !self.granted.is_empty() {
                self.measure();
            }
            match order {
                Ok(Order::Grant(candidates, answer)) => {
                    let _ = answer.send(self.grant(candidates));
                }
                Ok(Order::TakeBack(answer)) => {
                    self.take_back_all();
                    let _ = answer.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.measure(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Exactly these are real-time from now on.
    fn grant(&mut self, candidates: Vec<Candidate>) -> GroupAnswer {
        self.leased_until = Instant::now() + LEASE;
        self.take_back(|granted| !candidates.iter().any(|candidate| candidate.is_same(granted)));
        let mut answer = Ok(());
        for candidate in candidates {
            if let Err(why) = self.grant_one(candidate) {
                answer = answer.and(Err(why));
            }
        }
        self.end_if_none();
        answer
    }

    fn grant_one(&mut self, candidate: Candidate) -> Result<(), String> {
        let (role, now) = (candidate.role, self.now());
        if !candidate.lives() {
            return Err(candidate.has_ended());
        }
        if self.granted.iter().any(|granted| granted.is_same(&candidate)) {
            if policy_of(candidate.pid, candidate.thread) == Some(Policy::RealTime(PRIORITY)) {
                return Ok(());
            }
            // It has made itself ordinary, upon the kernel's signal.
            self.budget.pause(role, Over::Run(millis(RUN_MAX)), now);
            self.granted.retain(|granted| !granted.is_same(&candidate));
        }
        self.budget.check(role, now).map_err(|(over, left)| paused_words(role, over, left))?;
        if self.slot.is_none() {
            self.slot = Some(self.slots.take()?);
            // Before any of them.
            set_policy(None, Policy::RealTime(PRIORITY_OF_WATCH)).map_err(refusal)?;
        }
        candidate.limit_run()?;
        let used = candidate.used_ns().ok_or_else(|| candidate.has_ended())?;
        self.budget.begin(role, candidate.thread, used, now);
        candidate.set(Policy::RealTime(PRIORITY)).map_err(refusal)?;
        // Another thread may have got its number just before.
        if !candidate.lives() {
            let _ = set_policy(pid_of(candidate.thread), Policy::Ordinary);
            candidate.make_ordinary();
            self.budget.end(role);
            return Err(candidate.has_ended());
        }
        self.granted.push(candidate);
        Ok(())
    }

    fn measure(&mut self) {
        if Instant::now() >= self.leased_until {
            return self.take_back_all();
        }
        self.take_back(|granted| granted.used_ns().is_none());
        let used = |granted: &Candidate| Some((granted.role, granted.used_ns()?));
        let totals: Vec<_> = self.granted.iter().filter_map(used).collect();
        let over = self.budget.measure(&totals, self.now());
        self.take_back(|granted| over.iter().any(|(role, _)| *role == granted.role));
        self.end_if_none();
    }

    fn take_back(&mut self, is_meant: impl Fn(&Candidate) -> bool) {
        for granted in self.granted.extract_if(.., |granted| is_meant(granted)) {
            granted.make_ordinary();
            self.budget.end(granted.role);
        }
    }

    fn take_back_all(&mut self) {
        self.take_back(|_| true);
        self.end_if_none();
    }

    fn end_if_none(&mut self) {
        if self.granted.is_empty() && self.slot.take().is_some() {
            let _ = set_policy(None, Policy::Ordinary);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.take_back_all();
    }
}

impl Candidate {
    fn is_same(&self, other: &Candidate) -> bool {
        (self.role, self.pid, self.thread) == (other.role, other.pid, other.thread)
    }

    /// Of the process and the thread.
    fn lives(&self) -> bool {
        let task = format!("/proc/{}/task/{}", self.pid, self.thread);
        self.process_lives() && Path::new(&task).exists()
    }

    /// The number of a process that this refers to is no other's.
    fn process_lives(&self) -> bool {
        let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ended, Some(&now)) == Ok(0)
    }

    /// Of a process that ends meanwhile nothing is left.
    fn make_ordinary(&self) {
        if self.lives() {
            let _ = self.set(Policy::Ordinary);
        }
        // A thread that executes a program gets the number of the process, and keeps its policy.
        if self.thread != self.pid && self.process_lives() {
            let _ = set_policy(pid_of(self.pid), Policy::Ordinary);
        }
    }

    fn has_ended(&self) -> String {
        format!("{} has ended", self.role.words())
    }

    fn set(&self, policy: Policy) -> io::Result<()> {
        set_policy(pid_of(self.thread), policy)
    }

    /// Nanoseconds on a processor, in all; `None` if it has ended.
    fn used_ns(&self) -> Option<u64> {
        let path = format!("/proc/{}/task/{}/schedstat", self.pid, self.thread);
        fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok()
    }

    /// The kernel says so after a long run without a pause, and ends the process after a much
    /// longer one, if nobody else does anything: the process cannot take that back. It has done so
    /// itself already; in a container root may not do it (CAP_SYS_RESOURCE).
    fn limit_run(&self) -> Result<(), String> {
        let limit = Rlimit { current: Some(micros(RUN_MAX)), maximum: Some(micros(KILLED_AFTER)) };
        match prlimit(pid_of(self.pid), Resource::Rttime, limit) {
            Ok(_) => Ok(()),
            Err(Errno::PERM) if self.is_limited() => Ok(()),
            Err(error) => Err(format!("process {}: RLIMIT_RTTIME: {error}", self.pid)),
        }
    }

    /// Whether it is killed as soon as it has to be, whatever it does.
    fn is_limited(&self) -> bool {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid)).unwrap_or_default();
        hard_run_limit(&limits).is_some_and(|limit| limit <= micros(KILLED_AFTER))
    }
}

/// By a file "limits" in /proc (proc(5)), in microseconds; `None` where there is none.
fn hard_run_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn pid_of(number: u32) -> Option<Pid> {
    // Zero would be this thread; no candidate has it.
    Pid::from_raw(number.cast_signed())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why the kernel refuses a policy.
fn refusal(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(number) if number == Errno::PERM.raw_os_error() => {
            "not allowed by this kernel's control groups, or to this system's root (EPERM)"
                .to_owned()
        }
        _ => format!("the kernel refuses it: {error}"),
    }
}

fn paused_words(role: Role, over: Over, left: Duration) -> String {
    let why = match over {
        Over::Run(ms) => format!("used {ms} ms of a processor in one go"),
        Over::Share(percent) => format!(
            "used {percent} % of a processor over 2 s, and a desktop has {PERCENT_MAX} % in all"
        ),
    };
    format!("{} {why}: again in {} s", role.words(), left.as_millis().div_ceil(1000))
}

/// Places for desktops whose threads are real-time, of the whole machine. Each login process takes
/// them for its desktops; the kernel frees those of one that has ended.
#[derive(Clone, Debug)]
struct Slots {
    prefix: PathBuf,
    count: u32,
}

/// One of them, until it is dropped.
#[derive(Debug)]
struct Slot(File);

impl Drop for Slot {
    fn drop(&mut self) {
        // What is being started has the file too until it runs, and would hold the lock.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Slots {
    fn of_machine() -> Slots {
        let processors = thread::available_parallelism().map_or(1, |count| count.get() as u32);
        Slots { prefix: SLOT.into(), count: slots_for(processors) }
    }

    fn take(&self) -> Result<Slot, String> {
        for number in 0..self.count {
            let mut path = self.prefix.clone().into_os_string();
            path.push(number.to_string());
            let path = PathBuf::from(path);
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
            let file = options.open(&path).map_err(crate::limits::at(&path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Slot(file)),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(crate::limits::at(&path)(error.into())),
            }
        }
        Err(format!("{} other desktops of this machine have it, and that is the most", self.count))
    }
}

/// How many desktops may have it at a time.
fn slots_for(processors: u32) -> u32 {
    (processors.saturating_mul(ALL_PERCENT_MAX) / PERCENT_MAX).max(1)
}

#[cfg(test)]
pub(crate) mod tests;
