//! How many desktops there may be, and what each may use. Beside the path: from config.rs, to
//! login.rs, whose thread here answers the agent before and after it starts a desktop. The agent is
//! the person's: its word is two fixed bytes, and the process that is moved is the agent itself, of
//! which the desktop is a child. With the answer that a desktop may be started it gets the socket
//! over which the desktop's supervisor asks session_groups.rs. Knows processes and numbers;
//! cgroup.rs knows the kernel's files.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard};

use tracing::{info, warn};

use crate::admission::system::Admits;
use crate::admission::waiting_line::Decision;
use crate::admission::{Admission, Policy, Waiting};
use crate::agent::SESSIONS_MAX;
use crate::cgroup::Places;
use crate::packets;
use crate::processes::{self, Process};
use crate::reservations::{Reservation, Reservations};
use crate::session_groups::Desktops;

/// Most desktops on a machine that a configuration may allow.
pub const SESSIONS_ALLOWED_MAX: u32 = 10_000;
/// Most desktops of one person: their list has no more.
pub const SESSIONS_PER_USER_MAX: u32 = SESSIONS_MAX as u32;
/// Least and most memory of a desktop: below it not even the X server starts.
pub const MEMORY_MIN: u64 = 128 << 20;
/// See [`MEMORY_MIN`].
pub const MEMORY_MAX: u64 = 16 << 40;
/// Least and most time of processors for a desktop, in hundredths of one processor.
pub const PROCESSOR_PERCENT_MIN: u32 = 10;
/// See [`PROCESSOR_PERCENT_MIN`].
pub const PROCESSOR_PERCENT_MAX: u32 = 102_400;

/// Longest answer of a login process to its agent, in bytes.
const ANSWER_BYTES_MAX: usize = 1024;
/// The agent asks whether it may start a desktop, and says that it has tried.
const BEGIN: &[u8] = &[1];
/// See [`BEGIN`].
const DONE: &[u8] = &[2];
/// First byte of an answer; the text of a refusal follows it, or who waits and why, as JSON.
const ALLOWED: u8 = 0;
/// See [`ALLOWED`].
const REFUSED: u8 = 1;
/// See [`ALLOWED`].
const WAITS: u8 = 2;

/// What may be sent to viewers, in bytes a second, headers included; `None` where there is no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// To those of all desktops together.
    pub uplink: Option<u64>,
    /// To those of each.
    pub session: Option<u64>,
}

/// What the administrator allows; `None` where there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Desktops on this machine.
    pub sessions: Option<u32>,
    /// Desktops of one person.
    pub sessions_per_user: Option<u32>,
    /// Bytes of one desktop.
    pub memory: Option<u64>,
    /// Time of processors of one desktop, in hundredths of one processor.
    pub processor_percent: Option<u32>,
    /// Processor time follows the person, within these limits.
    pub priority: bool,
    /// Threads that pass input on are real-time while their desktop is used; needs `priority`.
    pub real_time: bool,
    /// When another desktop would hurt those that run.
    pub admission: Admission,
}

/// Why a desktop does not start now.
enum NotNow {
    /// In words for the person.
    Refused(String),
    Waits(Waiting),
}

impl Limits {
    /// Where the system enforces them; the error says in words why it cannot.
    pub(crate) fn check(&self) -> Result<Places, String> {
        if self.sessions.is_some() || self.sessions_per_user.is_some() {
            let mounts = fs::read_to_string("/proc/self/mountinfo")
                .map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
            if hides_processes(&mounts) {
                return Err("desktops cannot be counted: /proc is mounted with hidepid. Mount it \
                            without, or remove sessions-max and sessions-per-user"
                    .to_owned());
            }
        }
        Places::find(self)
    }

    /// Why this user may start no further desktop.
    fn refusal(&self, of_machine: u32, of_user: u32) -> Option<String> {
        match (self.sessions_per_user, self.sessions) {
            (Some(max), _) if of_user >= max => Some(format!(
                "You have {}, and this server allows {max} at a time. Open or end one.",
                desktops(of_user)
            )),
            (_, Some(max)) if of_machine >= max => Some(format!(
                "This server has {}, and allows {max}. Try again later, or ask its administrator.",
                desktops(of_machine)
            )),
            _ => None,
        }
    }

    /// Desktops of the machine, and those of this user, of the numbers by user. Others count as
    /// many as one person may have, so that nobody uses the machine's limit up by processes that
    /// imitate a desktop.
    fn count(&self, owners: &HashMap<u32, u32>, uid: u32) -> (u32, u32) {
        let per_user = self.sessions_per_user.unwrap_or(u32::MAX);
        let of_machine = owners.values().map(|&count| count.min(per_user)).sum();
        (of_machine, owners.get(&uid).copied().unwrap_or(0))
    }

    /// Lets this user start a desktop, which counts from now on.
    fn reserve(
        &self,
        reservations: &Reservations,
        admits: &mut Admits,
        uid: u32,
    ) -> Result<Option<Reservation>, NotNow> {
        if let Some(waiting) = admits.behind() {
            return Err(NotNow::Waits(waiting));
        }
        if self.sessions.is_none() && self.sessions_per_user.is_none() && admits.is_off() {
            return Ok(None);
        }
        // Limits first: nobody waits for what they are then refused.
        let refuse = |owners: &HashMap<u32, u32>| {
            let (of_machine, of_user) = self.count(owners, uid);
            if let Some(text) = self.refusal(of_machine, of_user) {
                return Some(NotNow::Refused(text));
            }
            match admits.ask(uid, of_machine > 0) {
                Decision::Admit => None,
                Decision::Refuse(text) => Some(NotNow::Refused(text)),
                Decision::Wait(waiting) => Some(NotNow::Waits(waiting)),
            }
        };
        match reservations.reserve(uid, running, refuse) {
            Ok(reserved) => reserved.map(Some),
            Err(error) => {
                warn!("desktops cannot be counted: {error}");
                Err(NotNow::Refused(
                    "This server cannot count its desktops, and starts none. Its log says why: ask \
                     the administrator."
                        .to_owned(),
                ))
            }
        }
    }
}

/// The desktops that run, by user.
fn running() -> HashMap<u32, u32> {
    let mut owners = HashMap::<u32, u32>::new();
    let supervisors = processes::all().filter(Process::is_supervisor);
    for owner in supervisors.filter_map(|process| process.owner()) {
        *owners.entry(owner).or_default() += 1;
    }
    owners
}

fn desktops(count: u32) -> String {
    format!("{count} desktop{}", if count == 1 { "" } else { "s" })
}

/// Whether this mountinfo (proc(5)) says that a user cannot see others' processes.
pub(crate) fn hides_processes(mounts: &str) -> bool {
    mounts.lines().any(|line| {
        let Some((fields, source)) = line.split_once(" - ") else { return false };
        let hides = |options: &str| {
            options.split(',').any(|option| {
                option.strip_prefix("hidepid=").is_some_and(|how| !["0", "off"].contains(&how))
            })
        };
        fields.split(' ').nth(4) == Some("/proc") && source.split(' ').any(hides)
    })
}

/// For the command line of a login process.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut put = |name, value: Option<u64>| match value {
            Some(value) => write!(text, "{name}={value},"),
            None => Ok(()),
        };
        put("sessions", self.sessions.map(u64::from))?;
        put("sessions-per-user", self.sessions_per_user.map(u64::from))?;
        put("memory", self.memory)?;
        put("processor-percent", self.processor_percent.map(u64::from))?;
        put("priority", self.priority.then_some(1))?;
        put("real-time", self.real_time.then_some(1))?;
        put(
            "admission",
            match self.admission.policy {
                Policy::Off => None,
                Policy::Refuse => Some(1),
                Policy::Queue => Some(2),
            },
        )?;
        put("admission-memory", self.admission.memory)?;
        f.write_str(text.trim_end_matches(','))
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || format!("{part:?} is no limit");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let value: u64 = value.parse().map_err(|_| wrong())?;
            let count = || u32::try_from(value).map(Some).map_err(|_| wrong());
            match name {
                "sessions" => limits.sessions = count()?,
                "sessions-per-user" => limits.sessions_per_user = count()?,
                "memory" => limits.memory = Some(value),
                "processor-percent" => limits.processor_percent = count()?,
                "priority" if value <= 1 => limits.priority = value == 1,
                "real-time" if value <= 1 => limits.real_time = value == 1,
                "admission" => {
                    limits.admission.policy = match value {
                        1 => Policy::Refuse,
                        2 => Policy::Queue,
                        _ => return Err(wrong()),
                    }
                }
                "admission-memory" => limits.admission.memory = Some(value),
                _ => return Err(wrong()),
            }
        }
        Ok(limits)
    }
}

/// A number of bytes with a unit of 1024: 512M, 4G or 1T.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[number.len()..] {
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    Some(bytes).filter(|bytes| (MEMORY_MIN..=MEMORY_MAX).contains(bytes))
}

/// Answers an agent until it ends: in a thread of its login process.
pub(crate) fn answer(
    socket: &OwnedFd,
    limits: &Limits,
    places: &Places,
    reservations: &Reservations,
    admits: &mut Admits,
    uid: u32,
    agent: u32,
) {
    let mut desktops = Desktops::new(places.clone(), uid);
    // Of the desktop that is being started; the agent starts one at a time.
    let mut reserved = None;
    while let Ok(packet) = packets::receive(socket, BEGIN.len()) {
        // One that asks again has given up what it asked for before.
        drop(reserved.take());
        match packet.bytes.as_slice() {
            BEGIN => {
                let begun = limits.reserve(reservations, admits, uid).and_then(|reservation| {
                    let supervisors = desktops.begin(agent).map_err(|error| {
                        warn!(uid, "a desktop of user {uid} is not started: {error}");
                        NotNow::Refused(
                            "This server cannot limit what the desktop uses, and starts none. Its \
                             log says why: ask the administrator."
                                .to_owned(),
                        )
                    })?;
                    Ok((reservation, supervisors))
                });
                let sent = match begun {
                    Ok((reservation, supervisors)) => {
                        reserved = reservation;
                        let descriptors: Vec<BorrowedFd<'_>> =
                            supervisors.iter().map(|socket| socket.as_fd()).collect();
                        packets::send(socket, &[ALLOWED], &descriptors)
                    }
                    Err(NotNow::Refused(text)) => {
                        info!(uid, "user {uid} starts no desktop: {text}");
                        packets::send(socket, &[&[REFUSED], text.as_bytes()].concat(), &[])
                    }
                    Err(NotNow::Waits(waiting)) => {
                        let text = serde_json::to_vec(&waiting).expect("it has a JSON form");
                        packets::send(socket, &[&[WAITS], text.as_slice()].concat(), &[])
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
            DONE => {
                if let Err(error) = desktops.leave(agent) {
                    warn!(uid, "the agent of user {uid} stays in a desktop's: {error}");
                }
            }
            _ => return,
        }
    }
}

/// The agent's side.
pub struct Starts(Mutex<OwnedFd>);

impl Starts {
    pub(crate) fn new(socket: OwnedFd) -> Starts {
        Starts(Mutex::new(socket))
    }

    /// Two pages of a person that open at once start one desktop: the second one waits here.
    pub fn one_at_a_time(&self) -> Result<Starting<'_>, String> {
        self.0.lock().map(Starting).map_err(|_| "an earlier start failed".to_owned())
    }
}

/// Somebody who may ask.
pub struct Starting<'a>(MutexGuard<'a, OwnedFd>);

/// What they are told.
pub enum Begin<'a> {
    /// A desktop may be started.
    Begun(Begun<'a>),
    /// Not yet: they ask again, until then or until they have gone.
    Waits(Waiting),
}

impl<'a> Starting<'a> {
    /// Whether a desktop may be started: until the result is dropped, every child of this process
    /// belongs to that desktop. The error is for the person.
    pub fn begin(self) -> Result<Begin<'a>, String> {
        let ended = |_| "this login has ended: log in again".to_owned();
        packets::send(&*self.0, BEGIN, &[]).map_err(ended)?;
        let answer = packets::receive(&*self.0, ANSWER_BYTES_MAX).map_err(ended)?;
        match answer.bytes.split_first() {
            Some((&ALLOWED, [])) => {
                let priority = answer.descriptors.into_iter().next();
                Ok(Begin::Begun(Begun { login: self.0, priority }))
            }
            Some((&REFUSED, text)) => Err(String::from_utf8_lossy(text).into_owned()),
            Some((&WAITS, text)) => serde_json::from_slice(text)
                .map(Begin::Waits)
                .map_err(|_| "an answer of another version of thinc".to_owned()),
            _ => Err("this login has ended: log in again".to_owned()),
        }
    }
}

/// A desktop is being started.
pub struct Begun<'a> {
    login: MutexGuard<'a, OwnedFd>,
    priority: Option<OwnedFd>,
}

impl Begun<'_> {
    /// For the desktop's supervisor alone: the socket over which it asks for what
    /// [`crate::priority_groups`] describes; `None` where there are no groups.
    pub fn priority(&self) -> Option<BorrowedFd<'_>> {
        self.priority.as_ref().map(|socket| socket.as_fd())
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // A login process that has ended moves nobody any more.
        let _ = packets::send(&*self.login, DONE, &[]);
    }
}

/// For errors of a path.
pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Shortage;

    #[test]
    fn limits_survive_the_command_line() {
        let all = Limits {
            sessions: Some(40),
            sessions_per_user: Some(1),
            memory: Some(4 << 30),
            processor_percent: Some(150),
            priority: true,
            real_time: true,
            admission: Admission { policy: Policy::Queue, memory: Some(2 << 30) },
        };
        let one = Limits { memory: Some(1), ..Limits::default() };
        for limits in [all, one, Limits::default()] {
            assert_eq!(limits.to_string().parse(), Ok(limits));
        }
        let bad = [
            "sessions",
            "sessions=x",
            "sessions=4294967296",
            "else=1",
            "memory=-1",
            "priority=2",
            "real-time=2",
            "admission=3",
            "admission=queue",
        ];
        for bad in bad {
            assert!(bad.parse::<Limits>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_has_a_unit_and_limits() {
        assert_eq!(parse_memory("128M"), Some(128 << 20));
        assert_eq!(parse_memory("4G"), Some(4 << 30));
        assert_eq!(parse_memory("16T"), Some(16 << 40));
        let bad =
            ["", "4", "G", "127M", "17T", "4g", "-4G", "1.5G", "4GB", "99999999999999999999G"];
        assert!(bad.iter().all(|text| parse_memory(text).is_none()));
    }

    #[test]
    fn a_refusal_tells_the_person_what_to_do() {
        let limits = Limits { sessions: Some(3), sessions_per_user: Some(1), ..Limits::default() };
        assert_eq!(limits.refusal(2, 0), None);
        assert!(limits.refusal(2, 1).unwrap().starts_with("You have 1 desktop, "));
        assert!(limits.refusal(3, 0).unwrap().starts_with("This server has 3 desktops, "));
        assert_eq!(Limits::default().refusal(1000, 1000), None);
    }

    #[test]
    fn a_hidden_proc_is_noticed() {
        let mount = |options: &str| format!("22 1 0:5 / /proc rw,nosuid - proc proc {options}\n");
        assert!(hides_processes(&mount("rw,hidepid=2")));
        assert!(hides_processes(&mount("rw,hidepid=invisible")));
        assert!(!hides_processes(&mount("rw,hidepid=off")) && !hides_processes(&mount("rw")));
    }

    /// Whether an agent may start a desktop; `None` if it has to wait.
    fn may(starts: &Starts) -> Option<bool> {
        match starts.one_at_a_time().unwrap().begin() {
            Ok(Begin::Begun(_)) => Some(true),
            Ok(Begin::Waits(_)) => None,
            Err(_) => Some(false),
        }
    }

    #[test]
    fn an_agent_is_answered_and_one_that_says_anything_else_is_not() {
        let (near, far) = packets::pair().unwrap();
        let limits = Limits { sessions_per_user: Some(0), ..Limits::default() };
        let (me, uid) = (std::process::id(), rustix::process::getuid().as_raw());
        let state = std::env::temp_dir().join(format!("thinc-answer-{me}"));
        std::fs::create_dir(&state).unwrap();
        let reservations = Reservations::of(&state);
        let queues = Admission { policy: Policy::Queue, memory: Some(u64::MAX) };
        let queues = Limits { admission: queues, ..Limits::default() };
        let in_state = state.clone();
        let login = std::thread::spawn(move || {
            let places = Places::default();
            for limits in [limits, Limits::default(), queues] {
                let mut admits = Admits::of(&in_state, limits.admission, &places);
                answer(&near, &limits, &places, &reservations, &mut admits, uid, me);
            }
        });
        let starts = Starts::new(far);
        let refused = starts.one_at_a_time().unwrap().begin().err().unwrap();
        assert!(refused.contains("this server allows 0"), "{refused}");
        packets::send(&*starts.0.lock().unwrap(), &[7], &[]).unwrap();
        assert_eq!((may(&starts), may(&starts)), (Some(true), Some(true)));
        packets::send(&*starts.0.lock().unwrap(), &[7], &[]).unwrap();
        // No machine has so much memory.
        let Begin::Waits(waiting) = starts.one_at_a_time().unwrap().begin().unwrap() else {
            panic!("it starts")
        };
        assert_eq!(waiting, Waiting { ahead: 0, short_of: Some(Shortage::Memory) });
        assert_eq!(may(&starts), None, "who asks again has the same place");
        drop(starts);
        login.join().unwrap();
        std::fs::remove_dir_all(state).unwrap();
    }
}
