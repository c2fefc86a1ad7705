//! What the front knows of people: attempts to log in that wait for the helper or for an answer,
//! and logins with the socket of each person's agent. Beside the path: between http.rs, the helper
//! and agents. Knows secrets as hashes; never sessions.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thinc_session_server::gate::{AUTH_TIMEOUT, BrowserConnections};
use thinc_transport::token::random;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::certificates::Certificates;
use super::uplink::Uplink;
use super::viewers::{ShownAt, Viewers};
use crate::admission::waiting_line::ASK_MS;
use crate::agent::{ANSWER_BYTES_MAX, AgentAnswer, AgentRequest, Chosen};
use crate::helper::{LOGIN_LIFE, hash};
use crate::message::{
    Deed, DeviceReply, DeviceRequest, MESSAGE_BYTES_MAX, Reply, Request, Secret, TEXT_BYTES_MAX,
    are_answers,
};
use crate::packets::{self, Channel};

/// Starting a desktop may take as long as `thinc serve` waits for an X server and a session.
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than the helper lets an attempt take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(150);
/// Replies that wait for a request of the person: one at a time is answered.
const REPLIES_MAX: usize = 4;
/// Logins that have ended before this front has added them: it takes milliseconds for that.
const ENDED_EARLY_MAX: usize = 64;
/// Requests to the agent of one login at the same time.
const AGENT_REQUESTS_MAX: usize = 32;
/// Those that are made for guests; more wait for their turn, as long as a stranger may take.
const GUEST_REQUESTS_MAX: usize = 2;

/// How long an answer is held back from who knows already that they wait: with the start itself it
/// takes less time than a viewer waits for it.
const WAIT_HELD_MAX: Duration = Duration::from_secs(10);

/// Told to who has no desktop while the broker is drained.
const DRAINING: &str = "this server starts no new desktops at this moment: its administrator is \
                        preparing maintenance";

type Arrived = (Reply, Option<OwnedFd>);

/// A person who has logged in.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    number: [u8; 16],
    cookie: Secret,
    origin_secret_hash: Secret,
    agent: Channel,
    ends: Instant,
    /// This login's connections that are not viewers.
    pub(crate) browsers: BrowserConnections,
    /// True once it has ended, to wake its viewers.
    ended: watch::Sender<bool>,
    requests: tokio::sync::Semaphore,
    /// Requests of guests to their owner's agent, which are fewer.
    guest_requests: tokio::sync::Semaphore,
}

/// An attempt that waits for answers of the person.
struct Waiting {
    source: IpAddr,
    replies: mpsc::Receiver<Arrived>,
}

/// All of them.
pub(crate) struct Logins {
    helper: Channel,
    /// To whom a reply of the helper goes, by attempt.
    replies: Mutex<HashMap<u64, mpsc::Sender<Arrived>>>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// By the cookie's hash.
    logins: Mutex<HashMap<Secret, Arc<Login>>>,
    /// Cookies' hashes of those that have ended before they were added here; the oldest first.
    ended_early: Mutex<VecDeque<Secret>>,
    /// No desktop is started.
    is_draining: AtomicBool,
    /// Who is connected with which desktop.
    pub(super) viewers: Viewers,
    /// What all desktops share; none without a limit.
    pub(super) uplink: Option<Arc<Uplink>>,
}

/// An attempt whose request is being served.
pub(crate) struct Attempt {
    pub(crate) number: u64,
    source: IpAddr,
    replies: mpsc::Receiver<Arrived>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock can panic")
}

pub(super) fn mapped(source: IpAddr) -> Ipv6Addr {
    match source.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The packet of a request. One that the helper cannot read ends with an error here: the helper
/// would end this front, and with it the connections of everybody.
fn readable(request: &Request) -> io::Result<Vec<u8>> {
    let packet = request.encode();
    match Request::decode(&packet) {
        Ok(_) => Ok(packet),
        Err(error) => {
            warn!("a request is not sent to the helper, which cannot read it: {error}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, error))
        }
    }
}

impl Logins {
    pub(crate) fn new(helper: Channel, uplink: Option<Arc<Uplink>>) -> Logins {
        Logins {
            helper,
            replies: Mutex::default(),
            waiting: Mutex::default(),
            logins: Mutex::default(),
            ended_early: Mutex::default(),
            is_draining: AtomicBool::new(false),
            viewers: Viewers::default(),
            uplink,
        }
    }

    /// Passes the helper's replies to those who wait for them, until the helper ends; its
    /// certificates to `certificates`, and where figures go to `send_figures`.
    pub(crate) async fn dispatch(
        &self,
        certificates: &Certificates,
        send_figures: impl Fn(&OwnedFd),
    ) {
        loop {
            let packet = match self.helper.receive(MESSAGE_BYTES_MAX).await {
                Ok(packet) if !packet.bytes.is_empty() => packet,
                _ => return warn!("the helper has ended"),
            };
            let reply = match Reply::decode(&packet.bytes) {
                Ok(reply) => reply,
                Err(error) => return warn!("an invalid reply of the helper: {error}"),
            };
            let attempt = match reply {
                Reply::Drain { is_draining } => {
                    self.is_draining.store(is_draining, Ordering::Relaxed);
                    continue;
                }
                Reply::Certificate => {
                    match packet.descriptors.into_iter().next().map(super::read_identity) {
                        Some(Ok((new, _))) => certificates.identity.replace(&new),
                        Some(Err(error)) => warn!("the helper's certificate: {error}"),
                        None => warn!("the helper's certificate did not come along"),
                    }
                    continue;
                }
                Reply::Challenge { name } => {
                    match packet.descriptors.into_iter().next() {
                        Some(pem) => match certificates.answer(&name, pem) {
                            Ok(()) => drop(self.send(&Request::Answering { name }).await),
                            Err(error) => warn!("a challenge of ACME: {error}"),
                        },
                        None => warn!("the helper's challenge did not come along"),
                    }
                    continue;
                }
                // A device that has opened it was forgotten.
                Reply::Device(DeviceReply::Ended { cookie_hash }) => {
                    self.end_of(cookie_hash);
                    continue;
                }
                Reply::Device(ref device) => match device.attempt() {
                    Some(attempt) => attempt,
                    None => return warn!("a reply of the helper to nobody"),
                },
                Reply::Figures => {
                    if let Some(to) = packet.descriptors.first() {
                        send_figures(to);
                    }
                    continue;
                }
                Reply::Prompts { attempt, .. }
                | Reply::Refused { attempt, .. }
                | Reply::Admitted { attempt, .. }
                | Reply::Ended { attempt } => attempt,
                Reply::Kept { .. } => return warn!("a reply of the helper for itself"),
            };
            let is_last = !matches!(
                reply,
                Reply::Prompts { .. } | Reply::Device(DeviceReply::Challenge { .. })
            );
            let mut replies = lock(&self.replies);
            let to =
                if is_last { replies.remove(&attempt) } else { replies.get(&attempt).cloned() };
            // Who does not wait any more does not need it.
            if let Some(to) = to {
                let _ = to.try_send((reply, packet.descriptors.into_iter().next()));
            }
        }
    }

    /// Begins an attempt.
    pub(crate) async fn begin(&self, source: IpAddr, user: String) -> io::Result<Attempt> {
        let attempt = self.register(source);
        let source = mapped(source);
        self.send(&Request::Begin { attempt: attempt.number, source, user }).await?;
        Ok(attempt)
    }

    pub(super) fn register(&self, source: IpAddr) -> Attempt {
        // Not guessable: nobody answers for somebody else.
        let number = u64::from_ne_bytes(random());
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        lock(&self.replies).insert(number, sender);
        // Those that were given up: the helper's last reply has come.
        lock(&self.waiting).retain(|_, waiting| !waiting.replies.is_closed());
        Attempt { number, source, replies }
    }

    /// Goes on with an attempt of this source.
    pub(crate) fn resume_attempt(&self, number: u64, source: IpAddr) -> Option<Attempt> {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&number).is_none_or(|waiting| waiting.source != source) {
            return None;
        }
        waiting.remove(&number).map(|Waiting { source, replies }| Attempt {
            number,
            source,
            replies,
        })
    }

    /// Keeps an attempt until its person has answered. The helper ends it after two minutes.
    pub(crate) fn keep_waiting(&self, attempt: Attempt) {
        let Attempt { number, source, replies } = attempt;
        lock(&self.waiting).insert(number, Waiting { source, replies });
    }

    /// Passes answers on; an attempt ends with those that are too long, or too many.
    pub(crate) async fn answer(&self, attempt: &Attempt, answers: Vec<Vec<u8>>) -> io::Result<()> {
        if !are_answers(&answers) {
            self.give_up(attempt).await?;
            let what = format!("an answer has at most {TEXT_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.send(&Request::Answers { attempt: attempt.number, answers }).await
    }

    /// The person has gone.
    pub(crate) async fn give_up(&self, attempt: &Attempt) -> io::Result<()> {
        self.send(&Request::Cancel { attempt: attempt.number }).await
    }

    /// The next reply; `None` if there is none in time.
    pub(crate) async fn next(&self, attempt: &mut Attempt) -> Option<Arrived> {
        timeout(REPLY_TIMEOUT, attempt.replies.recv()).await.ok().flatten()
    }

    /// About remembered devices.
    pub(super) async fn send_device(&self, request: DeviceRequest) -> io::Result<()> {
        self.send(&Request::Device(request)).await
    }

    async fn send(&self, request: &Request) -> io::Result<()> {
        self.helper.send(&readable(request)?, &[]).await
    }

    /// Adds the login of an `Admitted` reply.
    pub(crate) fn admit(&self, reply: Reply, agent: Option<OwnedFd>) -> Option<Arc<Login>> {
        let Reply::Admitted { cookie, origin_secret, user, .. } = reply else { return None };
        let agent = match Channel::new(agent?) {
            Ok(agent) => agent,
            Err(error) => {
                warn!("cannot listen to an agent: {error}");
                return None;
            }
        };
        let login = Arc::new(Login {
            user,
            number: random(),
            cookie,
            origin_secret_hash: hash(&origin_secret),
            agent,
            ends: Instant::now() + LOGIN_LIFE,
            browsers: BrowserConnections::default(),
            ended: watch::Sender::new(false),
            requests: tokio::sync::Semaphore::new(AGENT_REQUESTS_MAX),
            guest_requests: tokio::sync::Semaphore::new(GUEST_REQUESTS_MAX),
        });
        let mut logins = lock(&self.logins);
        // Between the helper's reply and now its device was forgotten.
        if lock(&self.ended_early).contains(&hash(&cookie)) {
            return None;
        }
        let now = Instant::now();
        logins.retain(|_, login| login.ends > now);
        // Of two requests that resumed the same login at once, one adds it.
        let login = logins.entry(hash(&cookie)).or_insert(login);
        Some(login.clone())
    }

    /// The helper has ended a login.
    fn end_of(&self, cookie_hash: Secret) {
        let mut logins = lock(&self.logins);
        match logins.remove(&cookie_hash) {
            Some(login) => drop(login.ended.send_replace(true)),
            None => {
                let mut early = lock(&self.ended_early);
                if early.len() >= ENDED_EARLY_MAX {
                    early.pop_front();
                }
                early.push_back(cookie_hash);
            }
        }
    }

    /// The login of a cookie, if this front knows it.
    pub(crate) fn of_cookie(&self, cookie: &Secret) -> Option<Arc<Login>> {
        let logins = lock(&self.logins);
        logins.get(&hash(cookie)).filter(|login| login.ends > Instant::now()).cloned()
    }

    /// The login of this number.
    pub(crate) fn of_number(&self, number: [u8; 16]) -> Option<Arc<Login>> {
        let logins = lock(&self.logins);
        let is_it = |login: &&Arc<Login>| login.number == number && login.ends > Instant::now();
        logins.values().find(is_it).cloned()
    }

    /// A login of this user.
    pub(crate) fn of_user(&self, user: &str) -> Option<Arc<Login>> {
        let logins = lock(&self.logins);
        let is_it = |login: &&Arc<Login>| login.user == user && login.ends > Instant::now();
        logins.values().find(is_it).cloned()
    }

    /// The login of both secrets; asks the helper if this front was started after it.
    pub(crate) async fn of_secrets(
        &self,
        cookie: &Secret,
        origin_secret: &Secret,
        source: IpAddr,
    ) -> Option<Arc<Login>> {
        if let Some(login) = self.of_cookie(cookie) {
            // Of random bits, hashed: how long comparing takes tells nothing of use.
            return (login.origin_secret_hash == hash(origin_secret)).then_some(login);
        }
        let mut attempt = self.register(source);
        let (cookie, origin_secret) = (*cookie, *origin_secret);
        let request = Request::Resume { attempt: attempt.number, cookie, origin_secret };
        self.send(&request).await.ok()?;
        let (reply, agent) = self.next(&mut attempt).await?;
        self.admit(reply, agent)
    }

    /// The administrator wants no new logins and desktops.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Asks a person's agent for their desktop, which is started unless it runs, or the broker is
    /// drained.
    pub(crate) async fn start(&self, login: &Login) -> io::Result<AgentAnswer> {
        if !self.is_draining() {
            return Ok(login.ask(&AgentRequest::Start).await?.0);
        }
        Ok(match login.ask(&AgentRequest::List).await?.0 {
            AgentAnswer::Sessions(sessions) => match sessions.into_iter().next() {
                Some(session) => AgentAnswer::Started { name: session.name, is_new: false },
                None => AgentAnswer::Error(DRAINING.to_owned()),
            },
            other => other,
        })
    }

    /// Asks a person's agent to start what `ask` does, until there is something new for who knows
    /// how many wait before them. Who has gone drops this, and loses their place by not asking.
    pub(crate) async fn start_after<F: Future<Output = io::Result<AgentAnswer>>>(
        &self,
        known: Option<u32>,
        ask: impl Fn() -> F,
    ) -> io::Result<AgentAnswer> {
        let until = Instant::now() + WAIT_HELD_MAX;
        loop {
            match ask().await {
                Ok(AgentAnswer::Waiting(waiting))
                    if known == Some(waiting.ahead) && Instant::now() < until =>
                {
                    sleep(Duration::from_millis(ASK_MS)).await;
                }
                other => return other,
            }
        }
    }

    /// Asks a person's agent for another desktop, unless the broker is drained.
    pub(crate) async fn start_chosen(
        &self,
        login: &Login,
        what: Chosen,
        name: Option<String>,
    ) -> io::Result<AgentAnswer> {
        if self.is_draining() {
            return Ok(AgentAnswer::Error(DRAINING.to_owned()));
        }
        Ok(login.ask(&AgentRequest::StartChosen { what, name }).await?.0)
    }

    /// Where a desktop of this user is shown now, the longest first.
    pub(crate) fn shown(&self, user: &str, session: &str) -> Vec<ShownAt> {
        self.viewers.of(user, session)
    }

    /// Tells the helper something that it does not answer: without a helper this front ends.
    pub(super) async fn tell(&self, request: &Request) {
        let _ = self.send(request).await;
    }

    /// The same at once; false if the helper is busy.
    pub(super) fn try_tell(&self, request: &Request) -> bool {
        readable(request).and_then(|packet| self.helper.try_send(&packet)).is_ok()
    }

    /// Tells the helper what a person has done with a session, for the audit log.
    pub(crate) async fn note(
        &self,
        login: &Login,
        source: IpAddr,
        viewer: u64,
        deed: Deed,
        session: &str,
    ) {
        self.tell(&login.note(source, viewer, deed, session)).await;
    }

    /// Ends a login, and with it the connections of its pages; true once no helper will open it
    /// any more. Its sessions go on.
    pub(crate) async fn end(&self, login: &Login, source: IpAddr) -> bool {
        lock(&self.logins).remove(&hash(&login.cookie));
        login.ended.send_replace(true);
        let mut attempt = self.register(source);
        let request = Request::End { attempt: attempt.number, cookie: login.cookie };
        self.send(&request).await.is_ok()
            && matches!(self.next(&mut attempt).await, Some((Reply::Ended { .. }, _)))
    }
}

impl Login {
    /// Names it to the helper.
    pub(super) fn cookie(&self) -> &Secret {
        &self.cookie
    }

    /// Names it to this front, and to nobody else.
    pub(crate) fn number(&self) -> [u8; 16] {
        self.number
    }

    /// What this person has done with a session, for the audit log.
    pub(super) fn note(&self, source: IpAddr, viewer: u64, deed: Deed, session: &str) -> Request {
        let (cookie, source, session) = (self.cookie, mapped(source), session.to_owned());
        Request::Note { cookie, source, viewer, deed, session }
    }

    /// Waits until it has ended.
    pub(crate) async fn has_ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// As [`Login::ask`], for a guest: strangers keep nobody from their own desktop.
    pub(crate) async fn ask_for_guest(
        &self,
        request: &AgentRequest,
    ) -> io::Result<(AgentAnswer, Option<OwnedFd>)> {
        let turn = timeout(AUTH_TIMEOUT, self.guest_requests.acquire()).await?;
        let _turn = turn.map_err(io::Error::other)?;
        self.ask(request).await
    }

    /// The agent's answer, with the descriptor that came along.
    pub(crate) async fn ask(
        &self,
        request: &AgentRequest,
    ) -> io::Result<(AgentAnswer, Option<OwnedFd>)> {
        let _permit = self
            .requests
            .try_acquire()
            .map_err(|_| io::Error::new(io::ErrorKind::QuotaExceeded, "too many requests"))?;
        let (near, far) = packets::pair()?;
        let near = Channel::new(near)?;
        let text = serde_json::to_vec(request)?;
        let asked = async {
            self.agent.send(&text, &[far.as_fd()]).await?;
            // What the agent has is the only other end: it closes if the agent ends.
            drop(far);
            near.receive(ANSWER_BYTES_MAX).await
        };
        // An agent that its user has stopped reads nothing either.
        let packet = timeout(AGENT_TIMEOUT, asked).await??;
        if packet.bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = serde_json::from_slice(&packet.bytes)?;
        Ok((answer, packet.descriptors.into_iter().next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_ends_though_this_is_known_before_it_was_added() {
        let logins = Logins::new(Channel::new(packets::pair().unwrap().0).unwrap(), None);
        let admit = |number: u8| {
            let (cookie, origin_secret, user) = ([number; 32], [9; 32], "anna".to_owned());
            let admitted = Reply::Admitted { attempt: 1, cookie, origin_secret, user };
            logins.admit(admitted, Some(packets::pair().unwrap().0))
        };
        logins.end_of(hash(&[1; 32]));
        assert!(admit(1).is_none() && logins.of_cookie(&[1; 32]).is_none());
        let other = admit(2).unwrap();
        logins.end_of(hash(&[2; 32]));
        assert!(logins.of_cookie(&[2; 32]).is_none());
        other.has_ended().await;
        (0..200).for_each(|number| logins.end_of([number; 32]));
        assert_eq!(lock(&logins.ended_early).len(), ENDED_EARLY_MAX);
    }
}
