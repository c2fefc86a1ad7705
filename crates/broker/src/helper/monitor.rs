//! Figures for monitoring, the helper's part: keeps the process that serves them, tells it what the
//! helper counts, and lets it have the answers of the front and of people's agents, unread. Beside
//! the path: under ../helper.rs, to ../monitor. Knows counts and sockets; never an answer.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::process::Child;
use tokio::time::sleep;
use tracing::warn;

use super::{Helper, RESTART_DELAY_MAX, State};
use crate::admission::Pressure;
use crate::admission::system::{LineFile, Sources};
use crate::agent::AgentRequest;
use crate::memory;
use crate::message::Reply;
use crate::monitor::{
    AGENT, AGENTS_MAX, AdmissionFigures, COLLECT, FIGURES, FRONT, HelperFigures, Memory, REASONS,
    START,
};
use crate::packets::{self, Channel};

/// What the helper counts.
#[derive(Default)]
pub(crate) struct Tally {
    logins: u64,
    refusals: [u64; REASONS.len()],
    /// The front that runs.
    front: Option<(Rc<Channel>, Option<u32>)>,
}

/// Why somebody was not admitted; the place in [`REASONS`].
#[derive(Clone, Copy)]
pub(crate) enum Refused {
    ByPam,
    NotAsked,
    Busy,
    Draining,
}

impl Tally {
    pub(crate) fn count_login(&mut self) {
        self.logins += 1;
    }

    pub(crate) fn count_refusal(&mut self, why: Refused) {
        self.refusals[why as usize] += 1;
    }

    pub(super) fn set_front(&mut self, front: Option<(Rc<Channel>, Option<u32>)>) {
        self.front = front;
    }
}

/// Keeps the process, without end.
pub(super) async fn keep(helper: Rc<Helper>, state: Rc<RefCell<State>>, listener: TcpListener) {
    loop {
        match run(&helper, &state, &listener).await {
            Ok(()) => warn!("the process for figures has ended; restarting it"),
            Err(error) => warn!("the process for figures: {error}; restarting it"),
        }
        sleep(RESTART_DELAY_MAX).await;
    }
}

async fn run(
    helper: &Helper,
    state: &Rc<RefCell<State>>,
    listener: &TcpListener,
) -> io::Result<()> {
    let (_process, channel) = spawn(helper, listener)?;
    let mut asked = HashMap::new();
    loop {
        let packet = channel.receive(5).await?;
        match packet.bytes.split_first() {
            None => return Ok(()),
            Some((&COLLECT, round)) if round.len() == 4 => {
                collect(helper, state, &mut asked, &channel, round).await?;
            }
            _ => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it sent what it must not"));
            }
        }
    }
}

fn spawn(helper: &Helper, listener: &TcpListener) -> io::Result<(Child, Channel)> {
    let (near, far) = packets::pair()?;
    packets::send(&near, START, &[listener.as_fd()])?;
    let child = crate::spawn_part("monitor", &helper.front_user, far)?;
    Ok((child, Channel::new(near)?))
}

/// Who is asked: the front, or a login by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Asked {
    Front,
    Login(u64),
}

/// Who waits for a desktop, and for what processes of the machine wait.
fn admission_figures(pressure: &Sources, waiting: &LineFile) -> AdmissionFigures {
    let (waiting, refused, waited) = waiting.counts().unwrap_or_else(|error| {
        warn!("who waits for a desktop cannot be counted: {error}");
        (0, 0, 0)
    });
    let reading = pressure.read();
    // Hundredths of a percent; a kernel that does not tell has no pressure.
    let percent = |pressure: Option<Pressure>| {
        pressure.map_or(0, |pressure| u64::from(pressure.some.ten) / 100)
    };
    let processors = reading.processors.map(|(_, pressure)| pressure);
    let pressure_percent = [processors, reading.memory, reading.disks].map(percent);
    AdmissionFigures { waiting, refused, waited, pressure_percent }
}

/// Sends the helper's figures, and the sockets that the others' will come over.
async fn collect(
    helper: &Helper,
    state: &Rc<RefCell<State>>,
    asked: &mut HashMap<Asked, OwnedFd>,
    channel: &Channel,
    round: &[u8],
) -> io::Result<()> {
    let front = state.borrow().tally.front.as_ref().and_then(|(_, pid)| *pid);
    let (pressure, waiting) = (helper.pressure.clone(), helper.waiting.clone());
    let measure = move || (memory::measure(front), admission_figures(&pressure, &waiting));
    let (memory, admission) = tokio::task::spawn_blocking(measure).await.unwrap_or_default();
    let (mut figures, answers) = state.borrow_mut().ask_all(asked, memory);
    figures.admission = admission;
    figures.sources = answers.len();
    let packet = |kind: u8, text: &[u8]| [round, &[kind], text].concat();
    channel.send(&packet(FIGURES, &serde_json::to_vec(&figures)?), &[]).await?;
    for (kind, user, socket) in answers {
        let descriptors: Vec<_> = socket.iter().map(OwnedFd::as_fd).collect();
        channel.send(&packet(kind, user.as_bytes()), &descriptors).await?;
    }
    Ok(())
}

impl State {
    /// Asks all who have no question left; returns where each answer comes, and who has to answer
    /// an earlier question.
    fn ask_all(
        &mut self,
        asked: &mut HashMap<Asked, OwnedFd>,
        memory: Memory,
    ) -> (HelperFigures, Vec<(u8, String, Option<OwnedFd>)>) {
        self.expire(Instant::now());
        let known: HashSet<Asked> = self
            .logins
            .iter()
            .map(|login| Asked::Login(login.number))
            .chain([Asked::Front])
            .collect();
        asked.retain(|who, _| known.contains(who));
        let mut answers = Vec::new();
        let mut ask = |who, kind, user: &str, send: &dyn Fn(OwnedFd) -> io::Result<()>| {
            let open = || {
                let (near, far) = packets::pair()?;
                let kept = near.try_clone()?;
                send(far)?;
                Ok::<_, io::Error>((near, kept))
            };
            let is_waiting = asked.get(&who).is_some_and(|before| !is_answered(before));
            // One that takes no request has no figures, and nobody waits for it.
            let opened = if is_waiting { None } else { open().ok() };
            let answer = opened.map(|(near, kept)| {
                asked.insert(who, kept);
                near
            });
            answers.push((kind, user.to_owned(), answer));
        };
        if let Some((front, _)) = &self.tally.front {
            let bytes = Reply::Figures.encode();
            ask(Asked::Front, FRONT, "", &|far| packets::try_send(front, &bytes, &[far.as_fd()]));
        }
        let request = serde_json::to_vec(&AgentRequest::Figures).expect("it has a JSON form");
        // A person's logins lead to the same desktops: the newest one's agent is of the newest
        // version.
        let mut people = HashSet::new();
        for login in self.logins.iter().rev() {
            if people.len() < AGENTS_MAX && people.insert(&login.user) {
                ask(Asked::Login(login.number), AGENT, &login.user, &|far| {
                    packets::try_send(&*login.agent, &request, &[far.as_fd()])
                });
            }
        }
        let viewed: HashSet<_> =
            self.viewers.values().map(|viewer| (&viewer.user, &viewer.session)).collect();
        let figures = HelperFigures {
            open_logins: self.logins.len() as u64,
            logins: self.tally.logins,
            refusals: self.tally.refusals,
            viewed: viewed.len() as u64,
            is_draining: *self.draining.borrow(),
            memory,
            admission: AdmissionFigures::default(),
            sources: 0,
        };
        (figures, answers)
    }
}

/// Whether nobody has the other end of this socket any more. While somebody has, what was sent to
/// them counts among the descriptors in flight, of which the kernel allows only so many: a person
/// whose agent reads nothing is asked once.
fn is_answered(socket: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut wanted = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut wanted, Some(&now)).is_ok() && wanted[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_reads_nothing_is_asked_once() {
        let (near, far) = packets::pair().unwrap();
        assert!(!is_answered(&near));
        drop(far);
        assert!(is_answered(&near));
        // What was sent in answer is still there.
        let (near, far) = packets::pair().unwrap();
        packets::send(&far, b"answer", &[]).unwrap();
        drop(far);
        assert!(is_answered(&near));
        assert_eq!(packets::receive(&near, 16).unwrap().bytes, b"answer");
    }
}
