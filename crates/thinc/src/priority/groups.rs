//! How processes are given the processor first, or last: control groups, which root makes and a
//! login process moves processes between on request; where there are none, a lower priority for
//! what computes. From priority.rs, to the kernel. Knows what is allowed; decides nothing.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use thinc_broker::priority_groups::{self, GroupRequest, PriorityGroup};
use thinc_priority::{Group, Move, Table};
use thinc_realtime::{Policy, policy_of, set_policy};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The lowest priority of ordinary scheduling.
const NICE_COMPUTES: i32 = 19;

/// By which means.
pub(super) enum Groups {
    /// `--priority off`.
    Off,
    /// By requests to the login process, which has made the groups.
    Control(Control),
    /// What a user may do alone: what computes is nice.
    Nice(Nice),
}

/// The way to a thread that asks the login process and waits for it: the kernel may take
/// milliseconds for each move, and longer on a crowded machine.
pub(super) struct Control {
    requests: Sender<GroupRequest>,
    answers: UnboundedReceiver<Answer>,
    /// Requests without an answer.
    waiting: usize,
    /// Why there will be no further answer.
    ended: Option<String>,
}

/// What became of a request.
pub(crate) enum Answer {
    /// Of a move of this process.
    Moved(u32, Result<(), String>),
    /// All of the session is in the background, or not all.
    Left(Result<(), String>),
    /// What answers keeps its memory, or why not.
    Memory(Result<(), String>),
    /// What passes input on is real-time, or why not all of it.
    RealTime(Result<(), String>),
    /// The login process has ended.
    Ended(String),
}

/// What was made nice: what each process had before, by process ID and start.
#[derive(Default)]
pub(super) struct Nice {
    before: HashMap<(u32, u64), i32>,
}

impl Groups {
    /// `socket`: from the login process that let this session start.
    pub(super) fn open(socket: Option<OwnedFd>) -> Groups {
        let Some(socket) = socket else { return Groups::Nice(Nice::default()) };
        let (requests, asked) = channel();
        let (answers, answered) = unbounded_channel();
        thread::spawn(move || carry_out(&socket, &asked, &answers));
        Groups::Control(Control { requests, answers: answered, waiting: 0, ended: None })
    }

    /// The error is for a log; none yet if it follows as an answer.
    pub(super) fn move_to(&mut self, one: &Move) -> Option<Result<(), String>> {
        match self {
            Groups::Off => Some(Ok(())),
            Groups::Control(control) => {
                let group = match one.to {
                    Group::Answers => PriorityGroup::Answers,
                    Group::Rest => PriorityGroup::Rest,
                    Group::Computes => PriorityGroup::Computes,
                };
                control.request(GroupRequest::Move { group, pid: one.pid });
                None
            }
            Groups::Nice(nice) => Some(nice.move_to(one)),
        }
    }

    /// Nobody uses the session: all of it goes behind what others wait for. Alone, a user has
    /// nothing that could do so and be undone.
    pub(super) fn leave(&mut self) {
        if let Groups::Control(control) = self {
            control.request(GroupRequest::Background);
        }
    }

    /// A process that was born in the group of what answers, and does not belong there.
    pub(super) fn leave_answers(&mut self, pid: u32) {
        if let Groups::Control(control) = self {
            control.request(GroupRequest::Move { group: PriorityGroup::Rest, pid });
        }
    }

    /// What answers may have more or less memory by now, and so may what takes it. A user alone can
    /// protect none.
    pub(super) fn measure_memory(&mut self) {
        if let Groups::Control(control) = self {
            control.request(GroupRequest::Memory);
        }
    }

    /// The desktop is used: what passes input on in its X server and its session process may be
    /// real-time. A user alone can make nothing so.
    pub(super) fn ask_real_time(&mut self, server: Option<u32>, session: Option<u32>) {
        if let Groups::Control(control) = self {
            let [server, session] = [server, session].map(Option::unwrap_or_default);
            control.request(GroupRequest::RealTime { server, session });
        }
    }

    /// The next answer; never one if none is to come.
    pub(super) async fn answered(&mut self) -> Answer {
        let Groups::Control(control) = self else { return std::future::pending().await };
        match control.answers.recv().await {
            Some(answer) => {
                control.waiting = control.waiting.saturating_sub(1);
                if let Answer::Ended(why) = &answer {
                    control.ended = Some(why.clone());
                    control.waiting = 0;
                }
                answer
            }
            None => std::future::pending().await,
        }
    }

    /// Whether requests are still being carried out: more of them would only wait.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Groups::Control(control) if control.waiting > 0)
    }

    /// Whether a move to this group has any effect.
    pub(super) fn moves_all(&self) -> bool {
        matches!(self, Groups::Control(_))
    }

    /// Forgets processes that have ended.
    pub(super) fn retain(&mut self, table: &Table) {
        if let Groups::Nice(nice) = self {
            nice.before.retain(|&(pid, started_ticks), _| {
                table.get(pid).is_some_and(|process| process.started_ticks == started_ticks)
            });
        }
    }

    /// In words, for `thinc top`.
    pub(super) fn describe(&self) -> String {
        match self {
            Groups::Off => String::new(),
            Groups::Control(Control { ended: Some(why), .. }) => {
                format!("Nothing is moved any more: {why}")
            }
            Groups::Control(_) => "Processes are moved between control groups".to_owned(),
            Groups::Nice(_) => "What computes is made nice, as no thinc broker has made control \
                                groups"
                .to_owned(),
        }
    }
}

impl Control {
    fn request(&mut self, request: GroupRequest) {
        if self.ended.is_none() && self.requests.send(request).is_ok() {
            self.waiting += 1;
        }
    }
}

/// Until the session or the login process ends.
fn carry_out(
    socket: &OwnedFd,
    requests: &Receiver<GroupRequest>,
    answers: &UnboundedSender<Answer>,
) {
    for request in requests {
        let (answer, is_last) = match (priority_groups::ask(socket, &request), request) {
            (Ok(result), GroupRequest::Move { pid, .. }) => (Answer::Moved(pid, result), false),
            (Ok(result), GroupRequest::Background) => (Answer::Left(result), false),
            (Ok(result), GroupRequest::Memory) => (Answer::Memory(result), false),
            (Ok(result), GroupRequest::RealTime { .. }) => (Answer::RealTime(result), false),
            (Err(error), _) => {
                (Answer::Ended(format!("the login process has ended ({error})")), true)
            }
        };
        if answers.send(answer).is_err() || is_last {
            return;
        }
    }
}

/// Nobody measures any more what real-time threads of these processes use: they are ordinary from
/// now on. Their user may do that.
pub(super) fn end_real_time(processes: &[u32]) {
    for &process in processes {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let id = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(id) = id else { continue };
            if matches!(policy_of(process, id), Some(Policy::RealTime(_))) {
                // One that has ended meanwhile has no policy.
                let _ = set_policy(Pid::from_raw(id.cast_signed()), Policy::Ordinary);
            }
        }
    }
}

impl Nice {
    fn move_to(&mut self, one: &Move) -> Result<(), String> {
        let (pid, computes, id) =
            (one.pid, one.to == Group::Computes, (one.pid, one.started_ticks));
        let nice = match (computes, self.before.get(&id)) {
            (true, _) => NICE_COMPUTES,
            (false, Some(&before)) => before,
            (false, None) => return Ok(()),
        };
        if computes {
            let own = Pid::from_raw(pid.cast_signed());
            let before = getpriority_process(own).map_err(|error| error.to_string())?;
            if before >= NICE_COMPUTES {
                return Ok(());
            }
            self.before.insert(id, before);
        }
        // Each thread has a priority of its own (setpriority(2)).
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| error.to_string())?;
        for task in tasks.flatten() {
            let id = task.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.and_then(Pid::from_raw) else { continue };
            match setpriority_process(Some(id), nice) {
                // It has ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
                    let words = "the kernel gives a user no higher priority again (RLIMIT_NICE)";
                    return Err(words.to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        if !computes {
            self.before.remove(&id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use thinc_priority::Reason;

    use super::*;

    #[test]
    fn what_computes_is_nice_and_others_stay_as_they_are() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let nice = || getpriority_process(Pid::from_raw(pid.cast_signed())).unwrap();
        let before = nice();
        let to = |to| Move {
            pid,
            started_ticks: 1,
            name: "sleep".to_owned(),
            to,
            reason: Reason::Other,
        };
        let mut own = Nice::default();
        own.move_to(&to(Group::Rest)).unwrap();
        assert_eq!(nice(), before);
        own.move_to(&to(Group::Computes)).unwrap();
        assert_eq!(nice(), NICE_COMPUTES);
        match own.move_to(&to(Group::Answers)) {
            Ok(()) => assert_eq!((nice(), own.before.len()), (before, 0)),
            Err(words) => assert!(words.contains("RLIMIT_NICE"), "{words}"),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // With the directory of its threads, the process is gone.
        assert!(own.move_to(&to(Group::Computes)).is_err());
    }
}
