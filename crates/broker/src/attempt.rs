//! One attempt to log in, as the helper sees it: its delay, its login process, and when a refusal
//! is answered. Beside the path: from helper.rs, between the front and login.rs. Knows who asks,
//! from where, and when; never a password longer than it takes to pass it on.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::User;
use thinc_session_server::log;
use thinc_transport::device::DeviceId;
use thinc_transport::token::random;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tracing::warn;

use crate::audit::{Entry, Event};
use crate::device_requests::By;
use crate::devices::now_s;
use crate::helper::monitor::Refused;
use crate::helper::{Helper, LOGIN_LIFE, Login, State, hash, send, watch};
use crate::message::{
    DeviceReply, DeviceRequest, MESSAGE_BYTES_MAX, Reason, Reply, Request, Secret, Verify,
};
use crate::packets::{self, Channel};
use crate::throttle;

/// How long a person may take for one attempt, as with sshd's `LoginGraceTime`: a new password has
/// to be thought of.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(120);
/// The same for a device, which signs without its person.
const SIGN_TIME_MAX: Duration = Duration::from_secs(20);

/// Who has asked.
pub(crate) struct Begin {
    pub(crate) attempt: u64,
    pub(crate) source: IpAddr,
    pub(crate) address: Ipv6Addr,
    /// As it was typed; of a device that of its person, and empty if nobody knows it.
    pub(crate) user: String,
    /// A remembered device, and the server as it knows it; else a person.
    pub(crate) device: Option<(DeviceId, String)>,
}

impl Begin {
    /// Whose failures delay this attempt. Each device counts for itself, whether or not it is
    /// remembered: so no delay tells that, nor whose it is. Nobody can guess a signature.
    fn account(&self) -> String {
        match &self.device {
            Some((device, _)) => device.to_string(),
            None => self.user.clone(),
        }
    }
}

/// Runs the attempt.
pub(crate) struct Task {
    pub(crate) helper: Rc<Helper>,
    pub(crate) state: Rc<RefCell<State>>,
    pub(crate) begin: Begin,
    pub(crate) inbox: mpsc::Receiver<Request>,
}

/// Why nobody was admitted.
#[derive(Clone, Copy)]
enum Failure {
    /// By PAM, or the time has passed.
    Refused,
    /// The person has gone, or had to make room.
    Abandoned,
}

/// Ends a login process that has admitted nobody. One that was ended by something else has told
/// nobody why: it may have been killed, or have crashed in a module of PAM.
fn end(mut process: Child) {
    if let Ok(Some(status)) = process.try_wait()
        && !status.success()
    {
        warn!("a login process ended by itself ({status}), and nobody was admitted");
    }
    let _ = process.start_kill();
    tokio::task::spawn_local(async move { process.wait().await });
}

impl Task {
    /// Runs the attempt; returns the last reply, with the agent's socket.
    pub(crate) async fn run(mut self, front: &Channel) -> (Reply, Option<Rc<OwnedFd>>) {
        let Begin { attempt, source, .. } = self.begin;
        let account = self.begin.account();
        let delay = self.state.borrow().throttle.delay(source, &account, Instant::now());
        tokio::select! {
            () = sleep(delay) => {}
            // Nothing is to be answered yet: they have gone.
            _ = self.inbox.recv() => {
                self.state.borrow_mut().tally.count_refusal(Refused::Busy);
                return (Reply::Refused { attempt, reason: Reason::Busy }, None);
            }
        }
        // When the person's last message came, and whether a password may have been tried.
        let (mut asked, mut tried) = (Instant::now(), false);
        let failure = match self.start_login() {
            Ok((process, channel)) => {
                match self.converse(front, &channel, &mut asked, &mut tried).await {
                    Ok((user, agent)) => {
                        let (reply, agent) = self.admit(user, agent, process, channel);
                        return (reply, Some(agent));
                    }
                    Err(failure) => {
                        end(process);
                        failure
                    }
                }
            }
            Err(error) => {
                warn!("cannot start a login: {error}");
                Failure::Abandoned
            }
        };
        let is_failure = match failure {
            Failure::Refused => true,
            // Who leaves before the answer has tried a password all the same.
            Failure::Abandoned => tried,
        };
        let now = Instant::now();
        let why = match (is_failure, tried) {
            (false, _) => Refused::Busy,
            (true, true) => Refused::ByPam,
            (true, false) => Refused::NotAsked,
        };
        self.state.borrow_mut().tally.count_refusal(why);
        if is_failure {
            self.state.borrow_mut().throttle.record_failure(source, &account, now);
            self.record_refusal(match (&self.begin.device, tried) {
                (None, true) => "refused",
                (None, false) => "refused without a password",
                (Some(_), true) => "a remembered device was refused",
                (Some(_), false) => "a remembered device has not signed",
            });
        }
        let reason = match failure {
            Failure::Abandoned => Reason::Busy,
            Failure::Refused => Reason::Refused,
        };
        sleep_until(throttle::refusal_time(asked, now).into()).await;
        (Reply::Refused { attempt, reason }, None)
    }

    fn admit(
        &self,
        user: String,
        agent: OwnedFd,
        process: Child,
        channel: Channel,
    ) -> (Reply, Rc<OwnedFd>) {
        let (cookie, origin_secret): (Secret, Secret) = (random(), random());
        let (cookie_hash, origin_secret_hash) = (hash(&cookie), hash(&origin_secret));
        let (agent, channel, since) = (Rc::new(agent), Rc::new(channel), Instant::now());
        let mut state = self.state.borrow_mut();
        state.tally.count_login();
        state.login_count += 1;
        let number = state.login_count;
        let device = self.begin.device.as_ref().map(|(device, _)| *device);
        if let Some(device) = device {
            state.devices.set_used(device, now_s());
        }
        let shown = device.map(|device| device.to_string());
        state.audit.record(&Entry {
            login: Some(number),
            user: Some(&user),
            from: Some(self.begin.address.to_canonical()),
            how: device.map(|_| "remembered"),
            device: shown.as_deref(),
            ..Entry::new(Event::Login)
        });
        let login = Login {
            number,
            since,
            cookie_hash,
            origin_secret_hash,
            user: user.clone(),
            agent: agent.clone(),
            ends: since + LOGIN_LIFE,
            process: channel.clone(),
            device,
            may_remember: device.is_none(),
        };
        // Before the front knows the secrets: from now on any helper finds this login.
        login.keep();
        state.add(login);
        drop(state);
        watch(self.state.clone(), number, since, user.clone(), channel, Some(process));
        let attempt = self.begin.attempt;
        (Reply::Admitted { attempt, cookie, origin_secret, user }, agent)
    }

    fn is_known(&self, device: DeviceId) -> bool {
        self.state.borrow().devices.known(device, now_s()).is_some()
    }

    /// In a task of its own: whether an account has the name may be asked of a slow directory.
    fn record_refusal(&self, reason: &'static str) {
        let (state, user) = (self.state.clone(), self.begin.user.clone());
        let from = self.begin.address.to_canonical();
        let device = self.begin.device.as_ref().map(|(device, _)| device.to_string());
        tokio::task::spawn_local(async move {
            let asked = user.clone();
            let is_known = tokio::task::spawn_blocking(move || User::from_name(&asked)).await;
            let is_known = matches!(is_known, Ok(Ok(Some(_))));
            state.borrow_mut().audit.record(&Entry {
                user: is_known.then_some(user.as_str()),
                from: Some(from),
                how: device.as_ref().map(|_| "remembered"),
                device: device.as_deref(),
                reason: Some(reason),
                ..Entry::new(Event::Refusal)
            });
        });
    }

    fn start_login(&self) -> io::Result<(Child, Channel)> {
        let (near, far) = packets::pair()?;
        let child = Command::new(crate::own_program())
            .args(["broker-part", "login", "--pam-service", &self.helper.service, "--state"])
            .arg(&self.helper.state)
            .arg(format!("--limits={}", self.helper.limits))
            .envs(self.helper.for_sessions.iter().map(|(name, value)| (name, value)))
            .env(log::FORMAT, log::format().name())
            .stdin(Stdio::from(far))
            .stdout(Stdio::null())
            .spawn()?;
        Ok((child, Channel::new(near)?))
    }

    /// Passes messages between the front and the login process.
    async fn converse(
        &mut self,
        front: &Channel,
        process: &Channel,
        asked: &mut Instant,
        tried: &mut bool,
    ) -> Result<(String, OwnedFd), Failure> {
        let Begin { attempt, address, ref user, .. } = self.begin;
        let (device, time_max) = match self.begin.device {
            Some((device, _)) => (Some(device), SIGN_TIME_MAX),
            None => (None, ATTEMPT_TIME_MAX),
        };
        let begin = match self.begin.device.clone() {
            None => Request::Begin { attempt, source: address, user: user.clone() },
            Some((device, place)) => {
                let known = self.state.borrow().devices.known(device, now_s());
                let source = address;
                let verify = Verify { attempt, source, device, place, known };
                Request::Device(DeviceRequest::Verify(verify))
            }
        };
        if process.send(&begin.encode(), &[]).await.is_err() {
            return Err(Failure::Refused);
        }
        let deadline = tokio::time::Instant::now() + time_max;
        loop {
            tokio::select! {
                packet = process.receive(MESSAGE_BYTES_MAX) => {
                    let Ok(packet) = packet else { return Err(Failure::Refused) };
                    match Reply::decode(&packet.bytes) {
                        Ok(
                            reply @ (Reply::Prompts { .. }
                            | Reply::Device(DeviceReply::Challenge { .. })),
                        ) => send(front, &reply, None).await,
                        Ok(Reply::Admitted { user, .. }) => {
                            // It may have been forgotten meanwhile.
                            if device.is_some_and(|device| !self.is_known(device)) {
                                return Err(Failure::Refused);
                            }
                            let agent = packet.descriptors.into_iter().next();
                            return agent.map(|agent| (user, agent)).ok_or(Failure::Refused);
                        }
                        Ok(Reply::Device(DeviceReply::Changed { .. })) => {
                            if let Some(device) = device {
                                let reason = "the account has changed";
                                let by = By { reason, ..By::default() };
                                self.state.borrow_mut().forget_device(device, by, None);
                            }
                            return Err(Failure::Refused);
                        }
                        // It has ended without a word, or with one that it must not send.
                        Ok(
                            Reply::Refused { .. }
                            | Reply::Drain { .. }
                            | Reply::Kept { .. }
                            | Reply::Ended { .. }
                            | Reply::Certificate
                            | Reply::Challenge { .. }
                            | Reply::Device(_)
                            | Reply::Figures,
                        )
                        | Err(_) => {
                            return Err(Failure::Refused);
                        }
                    }
                }
                request = self.inbox.recv() => match request {
                    Some(
                        answers @ (Request::Answers { .. }
                        | Request::Device(DeviceRequest::Signed { .. })),
                    ) => {
                        (*asked, *tried) = (Instant::now(), true);
                        if process.send(&answers.encode(), &[]).await.is_err() {
                            return Err(Failure::Refused);
                        }
                    }
                    _ => return Err(Failure::Abandoned),
                },
                () = sleep_until(deadline) => return Err(Failure::Refused),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_tells_nothing_of_whether_a_device_is_remembered() {
        let begin = |user: &str, device: Option<u8>| Begin {
            attempt: 1,
            source: Ipv6Addr::LOCALHOST.into(),
            address: Ipv6Addr::LOCALHOST,
            user: user.to_owned(),
            device: device.map(|number| (DeviceId([number; 16]), "https://a".to_owned())),
        };
        let known = begin("anna", Some(1)).account();
        assert_eq!(known, begin("", Some(1)).account());
        assert_ne!(known, begin("", Some(2)).account());
        assert_ne!(known, begin("anna", None).account());
    }
}
