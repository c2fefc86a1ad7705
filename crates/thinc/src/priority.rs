//! Beside supervisor.rs: gives the processor to what answers the session's person before what
//! computes. From the session process, which says who is there and which program they type into
//! (news), and from /proc, through thinc-priority, which decides, to groups.rs, which moves
//! processes. Knows when to measure; never how the kernel divides its time.

mod groups;
pub(crate) mod prefetch;
mod processes;
pub(crate) mod status;

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use thinc_priority::{Group, Input, Memory, Move, Plan, Reason, Table};
use thinc_session_server::{NEWS_BYTES_MAX, SessionNews};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::cli::Switch;
use crate::terminal::print_error;

pub(crate) use status::PriorityStatus;

use groups::{Answer, Groups};
use prefetch::{Prefetch, machine};
use processes::Processes;
use status::{Moved, Waits};

/// While a person is there, and up to `MEASURE_SPREAD_MS` more: what computes is found after 5 s
/// (thinc-priority). Intervals differ, so that no program is in step with them.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
const MEASURE_SPREAD_MS: u64 = 2000;
/// Well within the 10 s for which the login process lets threads be real-time, and in which it
/// measures memory once: each question wakes four threads. With the first table after it, so 3 s
/// later at most.
const ASK_INTERVAL: Duration = Duration::from_secs(3);
/// At first with each table: an X server that has read no input has no thread to be real-time.
const ASKED_AT_ONCE: u32 = 5;
/// A session that nobody has opened so long after its process has started goes behind others.
const UNOPENED: Duration = Duration::from_secs(60);
/// Another program may be typed into this often; the table of processes is read no more often.
const MEASURE_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Moves that `thinc top` shows.
const MOVES_KEPT: usize = 24;
/// News that may wait; the session process waits for more room.
const NEWS_QUEUED_MAX: usize = 16;

/// What happens to it.
pub(crate) enum Event {
    /// The session process says so.
    News(SessionNews),
    /// A process was moved, or not.
    Answer(Answer),
}

/// Processes that answer everybody, whatever program is used.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) all: Vec<u32>,
    /// Of them the X server.
    pub(crate) xorg: Option<u32>,
    /// Of them the session process.
    pub(crate) session: Option<u32>,
}

/// Who is there, and what belongs where.
pub(crate) struct Priority {
    groups: Groups,
    processes: Processes,
    plan: Plan,
    waits: Waits,
    prefetch: Prefetch,
    /// Somebody has come back, and the table has not been read since.
    is_prefetch_due: bool,
    is_present: bool,
    /// All of the session is behind others.
    is_behind: bool,
    typed: Option<u32>,
    /// The window manager, where it is the desktop's own.
    manager: Option<u32>,
    /// What was typed into before: programs of which a person knows that they are slow.
    was_typed: HashSet<u32>,
    measured_at: Option<Instant>,
    measure_at: Option<Instant>,
    /// How many were made, wrapping.
    measurements: u32,
    /// When the login process is asked about memory and real-time threads again; `None`: with the
    /// next table.
    ask_at: Option<Instant>,
    /// Times that it was asked since somebody came.
    asked: u32,
    began: Instant,
    news: Option<mpsc::Receiver<SessionNews>>,
    moved: VecDeque<Moved>,
    /// Whether the memory of what answers is protected, or why not; `None` until that was asked.
    memory: Option<Result<(), String>>,
    /// The same of what is real-time, while somebody is there.
    real_time: Option<Result<(), String>>,
    /// A refusal of the kernel's was told: the next ones are as good as the same.
    has_told: bool,
}

impl Default for Priority {
    /// As with `--priority off`.
    fn default() -> Priority {
        Priority {
            groups: Groups::Off,
            processes: Processes::default(),
            plan: Plan::new(processes::TICKS_PER_SECOND),
            waits: Waits::default(),
            prefetch: Prefetch::default(),
            is_prefetch_due: false,
            is_present: false,
            is_behind: false,
            typed: None,
            manager: None,
            was_typed: HashSet::new(),
            measured_at: None,
            measure_at: None,
            measurements: 0,
            ask_at: None,
            asked: 0,
            began: Instant::now(),
            news: None,
            moved: VecDeque::new(),
            memory: None,
            real_time: None,
            has_told: false,
        }
    }
}

impl Priority {
    /// Finds what this process may do. `socket`: to the login process, if that has made control
    /// groups for this session.
    pub(crate) fn open(switch: Switch, socket: Option<OwnedFd>) -> Priority {
        match switch {
            Switch::Off => Priority::default(),
            Switch::On => Priority { groups: Groups::open(socket), ..Priority::default() },
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.groups, Groups::Off)
    }

    /// What the person works with has been started, by this process, whose group is that of what
    /// answers: it belongs to the rest, with all that it starts, before it has used much memory.
    pub(crate) fn begin(&mut self, command: u32) {
        self.groups.leave_answers(command);
    }

    /// Reads what a session process says after it is ready; it must never have to wait for a
    /// reader, nor find none.
    pub(crate) fn listen(&mut self, mut out: BufReader<ChildStdout>) {
        let (sender, receiver) = mpsc::channel(NEWS_QUEUED_MAX);
        self.news = Some(receiver);
        // One that was restarted knows of nobody until they are back.
        self.is_present = false;
        (self.typed, self.manager, self.ask_at, self.asked) = (None, None, None, 0);
        self.measure_at = self.is_on().then(|| Instant::now() + UNOPENED);
        tokio::spawn(async move {
            let mut line = String::new();
            loop {
                line.clear();
                match (&mut out).take(NEWS_BYTES_MAX).read_line(&mut line).await {
                    Ok(1..) => {}
                    _ => break,
                }
                if let Ok(news) = serde_json::from_str(&line) {
                    // Without a receiver another session process has taken over.
                    let _ = sender.send(news).await;
                }
            }
        });
    }

    /// What [`Priority::handle`] takes; never anything without a session process.
    pub(crate) async fn event(&mut self) -> Event {
        tokio::select! {
            news = next(&mut self.news) => Event::News(news),
            answer = self.groups.answered() => Event::Answer(answer),
        }
    }

    /// Until [`Priority::measure`] is due.
    pub(crate) fn due(&self) -> impl Future<Output = ()> + use<> {
        let at = self.measure_at;
        async move {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        }
    }

    /// What happened.
    pub(crate) fn handle(&mut self, event: Event, servers: &Servers) {
        match event {
            Event::News(SessionNews::Present(true)) => {
                self.is_present = true;
                self.is_behind = false;
                (self.ask_at, self.asked) = (None, 0);
            }
            Event::News(SessionNews::Present(false)) => {
                (self.is_present, self.is_prefetch_due) = (false, false);
                return self.leave();
            }
            Event::News(SessionNews::Returned) => {
                self.is_prefetch_due = true;
                return self.bring_back();
            }
            Event::News(SessionNews::Typed(pid)) => {
                self.typed = Some(pid);
                self.was_typed.insert(pid);
            }
            Event::News(SessionNews::Manager(pid)) => self.manager = Some(pid),
            Event::Answer(Answer::Moved(pid, Err(error))) => return self.refused(pid, &error),
            Event::Answer(Answer::Left(Err(error))) => {
                return self.tell_once(&format!("thinc: the session keeps its priority: {error}"));
            }
            Event::Answer(Answer::Ended(error)) => {
                groups::end_real_time(&servers.all);
                self.real_time = None;
                return self.tell_once(&format!("thinc: the session keeps its priority: {error}"));
            }
            Event::Answer(Answer::Left(Ok(()))) => {
                self.is_behind = !self.is_present;
                return;
            }
            Event::Answer(Answer::Memory(result)) => {
                self.memory = Some(result);
                return;
            }
            Event::Answer(Answer::RealTime(result)) => {
                self.real_time = self.is_present.then_some(result);
                return;
            }
            Event::Answer(Answer::Moved(_, Ok(()))) => return,
        }
        if !self.is_present {
            // It counts once somebody is there: all of the session is or goes behind others.
            return;
        }
        match self.measured_at.map(|at| at + MEASURE_INTERVAL_MIN) {
            Some(at) if at > Instant::now() => self.measure_at = Some(at),
            _ => self.measure(servers),
        }
    }

    /// Moves what belongs elsewhere now.
    pub(crate) fn measure(&mut self, servers: &Servers) {
        if !self.is_present {
            return self.leave();
        }
        if self.groups.is_busy() {
            self.measure_at = Some(Instant::now() + MEASURE_INTERVAL_MIN);
            return;
        }
        let table = self.processes.table();
        self.was_typed.retain(|&pid| table.get(pid).is_some());
        self.groups.retain(&table);
        let answering: Vec<u32> = servers.all.iter().copied().chain(self.manager).collect();
        // What is nice pages out no less, and where nothing can be held, it would only be slow.
        let memory = (self.groups.moves_all() && matches!(self.memory, Some(Ok(()))))
            .then(|| Memory { machine: machine(), page_bytes: rustix::param::page_size() as u64 });
        let mut moves = self.plan.update(&Input {
            table: &table,
            root: std::process::id(),
            servers: &answering,
            typed: self.typed,
            memory,
            now_us: self.began.elapsed().as_micros() as u64,
            idle_us: processes::idle_us(),
        });
        self.bring_back();
        // What a person waits for first.
        moves.sort_by_key(|one| one.to != Group::Answers);
        for one in moves {
            self.carry_out(one, &table);
        }
        let now = Instant::now();
        if self.ask_at.is_none_or(|at| at <= now) {
            self.asked = self.asked.saturating_add(1);
            self.ask_at = (self.asked >= ASKED_AT_ONCE).then_some(now + ASK_INTERVAL);
            self.groups.measure_memory();
            self.groups.ask_real_time(servers.xorg, servers.session);
        }
        self.waits.measure(self.plan.placed().filter(|placed| placed.group == Group::Answers));
        self.measured_at = Some(Instant::now());
        self.measurements = self.measurements.wrapping_add(1);
        let interval = interval(self.measurements);
        self.measure_at = self.measured_at.map(|at| at + interval);
    }

    /// What answers by the last table, which is 3 s old at most: the next one may be due only after
    /// the key.
    fn bring_back(&mut self) {
        let answering = self.plan.answering();
        // Empty until the table was read.
        if !answering.is_empty() && std::mem::take(&mut self.is_prefetch_due) {
            self.prefetch.begin(answering);
        }
    }

    fn carry_out(&mut self, one: Move, table: &Table) {
        let is_all = self.groups.moves_all();
        // A program with windows, and what draws them, would stay nice when it is typed into again,
        // where the kernel does not let a user take that back.
        let would_stay = !is_all && one.to == Group::Computes;
        if would_stay && table.is_part_of(one.pid, &self.was_typed) {
            return self.plan.refused(one.pid);
        }
        let error = self.groups.move_to(&one).and_then(Result::err);
        if let Some(error) = &error {
            self.plan.refused(one.pid);
            if processes::runs(one.pid, one.started_ticks) {
                let (name, pid) = (&one.name, one.pid);
                self.tell_once(&format!("thinc: the priority of {name} ({pid}) stays: {error}"));
            }
        }
        let is_shown = match one.reason {
            Reason::Computes { .. }
            | Reason::Waits { .. }
            | Reason::ComputesNoMore
            | Reason::TakesMemory { .. } => true,
            Reason::Server | Reason::Other => false,
            _ => is_all,
        };
        if is_shown || error.is_some() {
            if self.moved.len() == MOVES_KEPT {
                self.moved.pop_front();
            }
            self.moved.push_back(Moved::new(one, error));
        }
    }

    /// The login process has not moved this one.
    fn refused(&mut self, pid: u32, error: &str) {
        self.plan.refused(pid);
        if let Some(moved) = self.moved.iter_mut().rev().find(|moved| moved.pid == pid) {
            moved.error = Some(error.to_owned());
        }
        // One that has ended meanwhile is nothing to tell.
        if std::path::Path::new("/proc").join(pid.to_string()).exists() {
            self.tell_once(&format!("thinc: the priority of process {pid} stays: {error}"));
        }
    }

    /// Nobody is there: everything of the session goes behind what others wait for.
    fn leave(&mut self) {
        (self.measure_at, self.real_time) = (None, None);
        // Hours may pass, in which numbers of processes are given again.
        self.processes = Processes::default();
        self.plan.forget_places();
        self.groups.leave();
    }

    fn tell_once(&mut self, text: &str) {
        if !std::mem::replace(&mut self.has_told, true) {
            print_error(text);
        }
    }

    /// For `thinc top`.
    pub(crate) fn status(&self) -> PriorityStatus {
        PriorityStatus {
            is_on: self.is_on(),
            how: self.groups.describe(),
            is_present: self.is_present,
            is_behind: self.is_behind,
            typed: self.typed,
            processes: status::processes(&self.plan, &self.waits),
            memory: self.memory.as_ref().map(|memory| match memory {
                Ok(()) => "The memory of what answers is protected".to_owned(),
                Err(why) => format!("No memory is protected: {why}"),
            }),
            real_time: self.real_time.as_ref().map(|real_time| match real_time {
                Ok(()) => {
                    "Real-time: the X server's input thread and the session's thread".to_owned()
                }
                Err(why) => format!("Real-time: {why}"),
            }),
            brought_back: self.prefetch.last(),
            moved: self.moved.iter().cloned().collect(),
        }
    }
}

/// From this measurement to the next one, as if by chance.
fn interval(measurement: u32) -> Duration {
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(measurement);
    MEASURE_INTERVAL + Duration::from_millis(hasher.finish() % MEASURE_SPREAD_MS)
}

async fn next(news: &mut Option<mpsc::Receiver<SessionNews>>) -> SessionNews {
    if let Some(receiver) = news {
        if let Some(one) = receiver.recv().await {
            return one;
        }
        *news = None;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Pid, Signal, getpriority_process, kill_process_group};

    use super::*;

    #[test]
    fn no_program_is_in_step_with_the_measurements() {
        // In ms: how long a program's period is, of which it works for one half; and its start.
        let periods = [500, 1000, 2000, 2012, 4000];
        let starts = |period: u64| (0..4).map(move |quarter| (period, quarter * period / 4));
        for (period, start) in periods.into_iter().flat_map(starts) {
            let (mut at, mut in_a_row, mut found) = (start, 0, 0);
            for measurement in 0..100_000 {
                at += interval(measurement).as_millis() as u64;
                in_a_row = if at % period < period / 2 { in_a_row + 1 } else { 0 };
                if in_a_row == 15 {
                    (in_a_row, found) = (0, found + 1);
                }
            }
            // By chance 1.5 times.
            assert!(found <= 8, "{period} ms from {start} ms on: {found} times 15 in a row");
        }
    }

    #[test]
    fn what_is_typed_into_counts_once_somebody_is_there() {
        let mut priority = Priority::open(Switch::On, None);
        let unopened = Some(Instant::now() + UNOPENED);
        priority.measure_at = unopened;
        priority.handle(Event::News(SessionNews::Typed(1)), &Servers::default());
        assert_eq!((priority.measure_at, priority.measured_at), (unopened, None));
        priority.handle(Event::News(SessionNews::Present(true)), &Servers::default());
        assert!(priority.measured_at.is_some() && priority.typed == Some(1));
        priority.handle(Event::News(SessionNews::Returned), &Servers::default());
        assert!(!priority.is_prefetch_due, "it does not wait for the next table");
        priority.handle(Event::News(SessionNews::Present(false)), &Servers::default());
        assert_eq!(priority.measure_at, None, "nothing wakes up for it");
        priority.handle(Event::News(SessionNews::Returned), &Servers::default());
        assert!(priority.is_prefetch_due, "nobody knows yet what answers");
        priority.handle(Event::News(SessionNews::Present(true)), &Servers::default());
        priority.measure(&Servers::default());
        assert!(!priority.is_prefetch_due);
    }

    #[test]
    fn without_groups_a_program_that_was_typed_into_is_spared_with_its_children() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let parent = Pid::from_child(&shell);
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let table = Processes::default().table();
        let nice = || getpriority_process(Pid::from_raw(child.cast_signed())).unwrap();
        let before = nice();
        let computes = Move {
            pid: child,
            started_ticks: table.get(child).unwrap().started_ticks,
            name: "sleep".to_owned(),
            to: Group::Computes,
            reason: Reason::Computes { percent: 90 },
        };
        let mut priority = Priority::open(Switch::On, None);
        for typed in [child, shell.id()] {
            priority.was_typed = HashSet::from([typed]);
            priority.carry_out(computes.clone(), &table);
            assert_eq!((nice(), priority.moved.len()), (before, 0));
        }
        priority.was_typed = HashSet::from([std::process::id()]);
        priority.carry_out(computes, &table);
        assert_eq!((nice(), priority.moved.len()), (19, 1));
        kill_process_group(parent, Signal::KILL).unwrap();
        shell.wait().unwrap();
    }
}
