//! The process for figures. Beside the path: from the helper, the front and agents, to the port. It
//! enters the front's sandbox before the first byte from anybody. Figures are asked for when
//! somebody reads them, so a broker that nobody watches does nothing for it. Knows figures; never
//! a login.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use thinc_protocol::limits::SCREEN_EDGE_MAX;
use thinc_session_server::figures::{SessionFigures, VIEWERS_TOLD_MAX};
use thinc_session_server::log::{self, Process};
use thinc_session_server::monitor::{self, BrokerFigures, ROWS_MAX, Row, Snapshot, Source};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{timeout, timeout_at};
use tracing::warn;

use super::totals::Totals;
use super::{
    AGENT, AGENTS_MAX, COLLECT, FIGURES, FRONT, FRONT_BYTES_MAX, FrontFigures, HelperFigures,
    PACKET_BYTES_MAX, REASONS, RESOURCES, START, TRANSPORTS,
};
use crate::BrokerError;
use crate::agent::{ANSWER_BYTES_MAX, AgentAnswer, DesktopFigures, FIGURES_MAX, is_session_name};
use crate::front::sandbox;
use crate::message::USER_BYTES_MAX;
use crate::packets::{self, Channel, Packet};

/// Who reads again so soon gets the same figures.
const FRESH: Duration = Duration::from_secs(2);
/// How long the helper may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the front and agents may take, all together; whose answer is late is left out.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest round trip that is shown.
const ROUND_TRIP_US_MAX: u64 = 60_000_000;

/// Runs until the helper ends.
pub(crate) fn main(socket: OwnedFd) -> Result<(), BrokerError> {
    log::start(Process { part: "monitor", ..Process::default() });
    let failed = |error| BrokerError::System("receive the port for figures", error);
    let packet = packets::receive(&socket, PACKET_BYTES_MAX).map_err(failed)?;
    let listener = packet.descriptors.into_iter().next();
    let listener = listener.filter(|_| packet.bytes == START);
    let listener = listener.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    let listener = TcpListener::from(listener);
    listener.set_nonblocking(true).map_err(failed)?;
    crate::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BrokerError::System("start the event loop", error))?;
    sandbox::enter()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let helper = Arc::new(Channel::new(socket).map_err(failed)?);
        let (sender, packets) = mpsc::channel(AGENTS_MAX + 2);
        let round = Round { packets, number: 0, totals: Totals::default(), last: None };
        let broker = Broker { helper: helper.clone(), round: Mutex::new(round) };
        tokio::select! {
            () = receive(&helper, sender) => Ok(()),
            () = monitor::serve(listener, Arc::new(broker)) => Ok(()),
        }
    })
}

/// Until the helper ends.
async fn receive(helper: &Channel, packets: mpsc::Sender<Packet>) {
    while let Ok(packet) = helper.receive(PACKET_BYTES_MAX).await {
        if packet.bytes.is_empty() || packets.send(packet).await.is_err() {
            return;
        }
    }
}

struct Broker {
    helper: Arc<Channel>,
    /// Held while figures are asked for.
    round: Mutex<Round>,
}

struct Round {
    packets: mpsc::Receiver<Packet>,
    number: u32,
    totals: Totals,
    last: Option<(Instant, Arc<Snapshot>)>,
}

impl Source for Broker {
    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let mut round = self.round.lock().await;
        if let Some((at, snapshot)) = &round.last
            && at.elapsed() < FRESH
        {
            return Some(snapshot.clone());
        }
        match round.ask(&self.helper).await {
            Ok(snapshot) => {
                let snapshot = Arc::new(snapshot);
                round.last = Some((Instant::now(), snapshot.clone()));
                Some(snapshot)
            }
            Err(error) => {
                warn!("no figures of the helper: {error}");
                None
            }
        }
    }
}

/// Who is asked.
enum From {
    Front,
    Agent(String),
}

/// What has come; nothing if it was late, or not valid.
enum Answer {
    Front(Option<FrontFigures>),
    Agent(String, Option<Vec<DesktopFigures>>),
}

impl Round {
    async fn ask(&mut self, helper: &Channel) -> io::Result<Snapshot> {
        self.number = self.number.wrapping_add(1);
        let mut request = vec![COLLECT];
        request.extend(self.number.to_le_bytes());
        helper.send(&request, &[]).await?;
        let (figures, sources) = timeout(HELPER_TIMEOUT, self.sources()).await??;
        let until = tokio::time::Instant::now() + ANSWERS_TIMEOUT;
        let answers = sources.into_iter().map(|(from, socket)| answer(from, socket, until));
        Ok(self.snapshot(figures, join_all(answers).await))
    }

    /// The helper's own figures, and where the others' come: nowhere from who has still to answer
    /// an earlier round.
    async fn sources(&mut self) -> io::Result<(HelperFigures, Vec<(From, Option<OwnedFd>)>)> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "an invalid packet");
        let (kind, json, _) = self.packet().await?;
        let figures: HelperFigures = serde_json::from_slice(&json)?;
        if kind != FIGURES || figures.sources > AGENTS_MAX + 1 {
            return Err(invalid());
        }
        let mut sources = Vec::new();
        for _ in 0..figures.sources {
            let (kind, user, socket) = self.packet().await?;
            let user = String::from_utf8(user).map_err(|_| invalid())?;
            let from = match kind {
                FRONT => From::Front,
                AGENT if user.len() <= USER_BYTES_MAX => From::Agent(user),
                _ => return Err(invalid()),
            };
            sources.push((from, socket));
        }
        Ok((figures, sources))
    }

    /// The next one of this round: one before may have taken too long.
    async fn packet(&mut self) -> io::Result<(u8, Vec<u8>, Option<OwnedFd>)> {
        loop {
            let packet = self.packets.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?;
            let Some((round, [kind, rest @ ..])) = packet.bytes.split_first_chunk() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            if u32::from_le_bytes(*round) == self.number {
                let socket = packet.descriptors.into_iter().next();
                return Ok((*kind, rest.to_vec(), socket));
            }
        }
    }

    fn snapshot(&mut self, figures: HelperFigures, answers: Vec<Answer>) -> Snapshot {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut front = FrontFigures::default();
        let (mut agents, mut rows) = (HashMap::new(), Vec::new());
        for answer in answers {
            match answer {
                Answer::Front(figures) => front = figures.unwrap_or_default(),
                Answer::Agent(user, desktops) => {
                    let said = desktops.map(|desktops| sessions(desktops, now));
                    let told = said.iter().flatten();
                    rows.extend(told.map(|(name, (age, figures))| row(&user, name, *age, figures)));
                    let counts = |(name, (age, figures)): (String, (Duration, Option<_>))| {
                        (name, (age, figures.map(|figures: SessionFigures| figures.counts)))
                    };
                    agents.insert(user, said.map(|said| said.into_iter().map(counts).collect()));
                }
            }
        }
        self.totals.add_round(&agents, Instant::now());
        rows.sort_by(|a, b| (&a.user, &a.name).cmp(&(&b.user, &b.name)));
        rows.truncate(ROWS_MAX);
        let (memory, admission) = (&figures.memory, &figures.admission);
        Snapshot {
            sessions: memory.session_count,
            viewed_sessions: figures.viewed,
            viewers: TRANSPORTS.into_iter().zip(front.viewers).collect(),
            counts: self.totals.counts,
            memory: vec![
                ("helper", memory.helper),
                ("front", memory.front),
                ("parts", memory.parts),
                ("sessions", memory.sessions),
            ],
            broker: Some(BrokerFigures {
                open_logins: figures.open_logins,
                logins: figures.logins,
                refusals: REASONS.into_iter().zip(figures.refusals).collect(),
                unauthenticated: front.unauthenticated,
                is_draining: figures.is_draining,
                waiting: admission.waiting,
                refused_starts: admission.refused,
                waited_starts: admission.waited,
                pressure_percent: RESOURCES.into_iter().zip(admission.pressure_percent).collect(),
                implausible: self.totals.implausible,
            }),
            rows,
        }
    }
}

/// The age of each session and what it says, by its name: an agent may name one twice.
fn sessions(
    desktops: Vec<DesktopFigures>,
    now: Duration,
) -> HashMap<String, (Duration, Option<SessionFigures>)> {
    let age = |started_s| now.saturating_sub(Duration::from_secs(started_s));
    desktops.into_iter().map(|one| (one.name, (age(one.started_s), one.figures))).collect()
}

fn row(user: &str, name: &str, age: Duration, figures: &Option<SessionFigures>) -> Row {
    let viewers = figures.as_ref().map_or(&[][..], |figures| &figures.viewers);
    let guests = viewers.iter().filter(|viewer| viewer.is_guest).count();
    let round_trips = viewers.iter().map(|viewer| viewer.round_trip_us.min(ROUND_TRIP_US_MAX));
    Row {
        user: user.to_owned(),
        name: name.to_owned(),
        age_s: age.as_secs(),
        screen: figures.as_ref().map(|figures| figures.screen),
        viewers: viewers.len() - guests,
        guests,
        round_trip_us: round_trips.max(),
    }
}

/// One answer, whose every length is checked.
async fn answer(from: From, socket: Option<OwnedFd>, until: tokio::time::Instant) -> Answer {
    let bytes_max = match from {
        From::Front => FRONT_BYTES_MAX,
        From::Agent(_) => ANSWER_BYTES_MAX,
    };
    let packet = async { Channel::new(socket?).ok()?.receive(bytes_max).await.ok() };
    let packet = timeout_at(until, packet).await.ok().flatten();
    let bytes = packet.map(|packet| packet.bytes);
    match from {
        From::Front => Answer::Front(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())),
        From::Agent(user) => Answer::Agent(user, bytes.and_then(|bytes| desktops(&bytes))),
    }
}

/// What an agent says, which is its person's.
pub fn desktops(bytes: &[u8]) -> Option<Vec<DesktopFigures>> {
    let Ok(AgentAnswer::Figures(desktops)) = serde_json::from_slice(bytes) else { return None };
    let is_valid = |desktop: &DesktopFigures| {
        is_session_name(&desktop.name)
            && desktop.figures.as_ref().is_none_or(|figures| {
                figures.viewers.len() <= VIEWERS_TOLD_MAX
                    && figures.screen.0.max(figures.screen.1) <= SCREEN_EDGE_MAX
            })
    };
    (desktops.len() <= FIGURES_MAX && desktops.iter().all(is_valid)).then_some(desktops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(desktops: &[DesktopFigures]) -> Vec<u8> {
        serde_json::to_vec(&AgentAnswer::Figures(desktops.to_vec())).unwrap()
    }

    fn desktop(name: &str) -> DesktopFigures {
        let figures = Some(SessionFigures::default());
        DesktopFigures { name: name.to_owned(), started_s: 0, figures }
    }

    #[test]
    fn an_agents_answer_is_taken_only_within_every_limit() {
        assert_eq!(desktops(&said(&[desktop("a")])).unwrap().len(), 1);
        assert!(desktops(&said(&vec![desktop("a"); FIGURES_MAX + 1])).is_none());
        assert!(desktops(&said(&[desktop("../a")])).is_none());
        assert!(desktops(b"\"ended\"").is_none());
        let mut large = desktop("a");
        large.figures.as_mut().unwrap().screen = (SCREEN_EDGE_MAX + 1, 1);
        assert!(desktops(&said(&[large])).is_none());
        let viewer =
            thinc_session_server::figures::ViewerFigures { is_guest: false, round_trip_us: 1 };
        let mut crowded = desktop("a");
        crowded.figures.as_mut().unwrap().viewers = vec![viewer; VIEWERS_TOLD_MAX + 1];
        assert!(desktops(&said(&[crowded])).is_none());
    }

    #[test]
    fn the_longest_answer_of_an_agent_fits() {
        let mut longest = desktop(&"n".repeat(64));
        longest.started_s = u64::MAX;
        let figures = longest.figures.as_mut().unwrap();
        figures.screen = (SCREEN_EDGE_MAX, SCREEN_EDGE_MAX);
        let viewer = thinc_session_server::figures::ViewerFigures {
            is_guest: false,
            round_trip_us: ROUND_TRIP_US_MAX,
        };
        figures.viewers = vec![viewer; VIEWERS_TOLD_MAX];
        // A session that has sent 4 TiB in a year of updates.
        let times =
            thinc_session_server::figures::Times { counts: [4_000_000_000; 15], sum_us: 1 << 45 };
        figures.counts = thinc_session_server::figures::Counts {
            echo: times,
            round_trip: times,
            encode: times,
            command_bytes: [1 << 42; 9],
            sent_bytes: 1 << 42,
            updates: 4_000_000_000,
        };
        let bytes = said(&vec![longest; FIGURES_MAX]);
        assert!(bytes.len() <= ANSWER_BYTES_MAX, "{} bytes", bytes.len());
    }
}
