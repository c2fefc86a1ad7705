//! Path 10/13: beside connection.rs; a session behind ssh, and its way from the tunnel to QUIC.
//! While the tunnel is served, the offered UDP port is tried; once it answers, a connection there
//! takes the tunnel's place, and ssh ends. After a loss, both are tried. Knows attempts and times;
//! never messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use thinc_transport::offer::Offer;
use thinc_transport::{ConnectError, ConnectOptions, Established, Link, Scheme, TransportChoice};
use thinc_viewer_core::REPLACEMENT_FAILURES_MAX;

use super::connection::{ANSWER_WAIT, Beside, Opened, Session};
use super::rechoose::Replaced;
use super::transports::Transports;
use super::{Shared, State, Status};
use crate::error::{ViewError, is_unanswered};
use crate::ssh::{Attempt, Greeted, Login, SshError, SshTarget, SshTransport};
use crate::wire::{Reader, Writer};

/// 1 s: after a loss, how long QUIC is tried before ssh logs in beside it. A login costs the host
/// more, and may ask for a password.
const HEAD_START: Duration = Duration::from_secs(1);
/// How a session behind ssh was found after a loss.
enum Found {
    Direct(Established),
    Tunnel(Greeted),
}

/// What has happened in the search.
enum Progress {
    Direct(Result<Established, ConnectError>),
    Tunnel(Result<Greeted, SshError>),
}

impl Shared {
    /// Opens a session behind ssh: over QUIC where that was reached before, else by a login.
    pub(super) fn open_ssh(
        self: &Arc<Self>,
        target: &SshTarget,
        session: &mut Session,
    ) -> Result<Opened, ViewError> {
        let (rescue, direct, switching) = {
            let mut state = self.lock();
            let transports = &mut state.transports;
            let rescue = transports.take_replacement();
            (rescue, transports.direct().cloned(), transports.is_switching())
        };
        let mut greeted = None;
        if let Some(link) = direct {
            let found = match rescue {
                Some(reached) => Found::Direct(reached),
                None => self.find_again(target, &link, session)?,
            };
            match found {
                Found::Direct(reached) => {
                    let options = self.direct_options(session);
                    let limit = if switching {
                        ANSWER_WAIT.min(options.timeout)
                    } else {
                        self.slow_answer_timeout(&options)
                    };
                    match self.open_direct(&link, reached, limit, session) {
                        Ok(opened) => return Ok(opened),
                        Err(error) => self.forget_direct(session, &error.to_string()),
                    }
                }
                Found::Tunnel(tunnel) => {
                    self.forget_direct(session, "its UDP port does not answer any more");
                    greeted = Some(tunnel);
                }
            }
        }
        let greeted = match greeted {
            Some(greeted) => greeted,
            None => {
                let login = Login::start(target, attempt(target, session))?;
                // The user may close the viewer instead of logging in.
                self.lock().served.log_in(Writer::Ssh(login.writer()));
                login.greet(&|held| self.lock().lifecycle.hold(held, Instant::now()))?
            }
        };
        let offered = match greeted.offer {
            Some(Ok(offer)) => Ok(self.offered(offer, greeted.direct_host)),
            Some(Err(reason)) => Err(Some(reason)),
            None => Err(None),
        };
        self.open_cache(&self.config.target.cache_name(None));
        if target.transport == SshTransport::Quic {
            let (link, options) = offered.map_err(|reason| {
                ViewError::NoQuic(reason.unwrap_or_else(|| "it failed before".to_owned()))
            })?;
            let reached = thinc_transport::establish(&link, &options)?;
            let opened = self.open_direct(&link, reached, options.timeout, session);
            greeted.writer.close();
            return opened;
        }
        self.begin(false);
        let mut state = self.lock();
        let beside = match offered {
            Ok((link, options)) => {
                state.transports.handle_tunnel(Ok(()));
                Beside::Switch(link, options)
            }
            Err(reason) => {
                state.transports.handle_tunnel(Err(reason));
                Beside::Nothing
            }
        };
        drop(state);
        let (reader, writer) = (Reader::Ssh(greeted.reader), Writer::Ssh(greeted.writer));
        Ok(Opened { reader, writer, beside })
    }

    /// Authenticates over QUIC.
    fn open_direct(
        &self,
        link: &Link,
        reached: Established,
        limit: Duration,
        session: &mut Session,
    ) -> Result<Opened, ViewError> {
        let peer = reached.peer();
        let (reader, writer) = self.open_link(link, reached, limit, session)?;
        // The address that answered, of those that were tried.
        session.peer = Some(peer);
        let link = Link { token: None, ..link.clone() };
        self.lock().transports.handle_direct(link.clone());
        let beside = Beside::Rescue(link, self.direct_options(session));
        Ok(Opened { reader, writer, beside })
    }

    /// The UDP port does not open the session: from now on it is reached through ssh.
    fn forget_direct(&self, session: &mut Session, why: &str) {
        session.session_credential = None;
        session.peer = None;
        let mut state = self.lock();
        if state.transports.handle_direct_failure(why) {
            session.quic_failures += 1;
            state.status = Status::Lost { why: why.to_owned(), attempts: 0 };
            state.news.status = true;
            drop(state);
            self.announce();
        }
    }

    /// The offered port as a link, and how to connect to it.
    fn offered(&self, offer: Offer, direct_host: Option<String>) -> (Link, ConnectOptions) {
        let link = Link {
            scheme: Scheme::Thinc,
            // Behind an address translator the host knows another address than this machine uses.
            host: direct_host.unwrap_or_else(|| offer.address.ip().to_string()),
            port: offer.address.port(),
            base_path: "/".to_owned(),
            token: Some(offer.token),
            pin: Some(offer.pin),
            guest: None,
        };
        let options = ConnectOptions {
            timeout: self.config.connect_timeout,
            transport: TransportChoice::Quic,
            also: Some(offer.address),
            ..ConnectOptions::default()
        };
        (link, options)
    }

    /// How to connect to a UDP port that was reached before.
    fn direct_options(&self, session: &Session) -> ConnectOptions {
        ConnectOptions {
            timeout: self.config.connect_timeout,
            transport: TransportChoice::Quic,
            address: session.peer,
            session_credential: session.session_credential.clone(),
            ..ConnectOptions::default()
        }
    }

    /// Tries the offered port while the tunnel is served.
    pub(super) fn start_switch(self: &Arc<Self>, link: Link, options: ConnectOptions) {
        let (shared, connection_number) = (self.clone(), self.lock().served.number());
        // Nobody joins the thread. Without it, the tunnel stays.
        let _ = Builder::new()
            .name("thinc-switch".into())
            .spawn(move || shared.switch(connection_number, link, &options));
    }

    fn switch(&self, connection_number: u64, link: Link, options: &ConnectOptions) {
        loop {
            let reached = match thinc_transport::establish(&link, options) {
                Ok(reached) => reached,
                Err(error) => {
                    let mut state = self.lock();
                    if state.serves(connection_number) {
                        state.transports.handle_quic_failure(error.to_string());
                        drop(state);
                        self.announce();
                    }
                    return;
                }
            };
            let direct = link.clone();
            let note = |transports: &mut Transports| transports.set_direct(direct);
            match self.replace(connection_number, reached, note) {
                Replaced::Yes | Replaced::Over => return,
                // The session does not wait for so long: it is connected to again.
                Replaced::Held => {}
            }
            let mut state = self.lock();
            state.transports.set_awaits_release(true);
            state = self
                .changed
                .wait_while(state, |state| {
                    state.serves(connection_number) && state.viewers.shown.holds_input()
                })
                .expect("no holder of this lock can panic");
            state.transports.set_awaits_release(false);
            if !state.serves(connection_number) {
                return;
            }
        }
    }

    /// After a loss: tries QUIC, and a while later ssh beside it. The first that answers is taken;
    /// if both fail, ssh's error is the reason.
    fn find_again(
        self: &Arc<Self>,
        target: &SshTarget,
        link: &Link,
        session: &Session,
    ) -> Result<Found, ViewError> {
        let (send, receive) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let failed = |error| ViewError::Connect(ConnectError::Connect(link.authority(), error));
        Builder::new()
            .name("thinc-again".into())
            .spawn({
                let (shared, send, over) = (self.clone(), send.clone(), over.clone());
                let (link, options) = (link.clone(), self.direct_options(session));
                move || {
                    let is_wanted = |state: &State| {
                        !state.lifecycle.is_stopped() && !over.load(Ordering::Acquire)
                    };
                    let found = shared.reconnect(&link, &options, is_wanted);
                    // Nobody receives a connection that is found too late, and it is closed.
                    let _ = send.send(Progress::Direct(found));
                }
            })
            .map_err(failed)?;
        let login_at = Instant::now() + HEAD_START;
        let (mut login, mut login_error, mut direct_error) = (None, None, None);
        let found = loop {
            if login.is_none() && (direct_error.is_some() || Instant::now() >= login_at) {
                let started = match Login::start(target, attempt(target, session)) {
                    Ok(started) => started,
                    Err(error) => break Err(error.into()),
                };
                self.lock().served.log_in(Writer::Ssh(started.writer()));
                login = Some(started.writer());
                let send = send.clone();
                if let Err(error) = Builder::new()
                    .name("thinc-login".into())
                    .spawn(move || drop(send.send(Progress::Tunnel(started.greet(&|_| ())))))
                {
                    break Err(failed(error));
                }
            }
            let wait = match login {
                None => login_at.saturating_duration_since(Instant::now()),
                // Both report their end, at the latest after their own time-outs.
                Some(_) => HEAD_START,
            };
            match receive.recv_timeout(wait) {
                Ok(Progress::Direct(Ok(reached))) => break Ok(Found::Direct(reached)),
                Ok(Progress::Tunnel(Ok(greeted))) => {
                    over.store(true, Ordering::Release);
                    return Ok(Found::Tunnel(greeted));
                }
                Ok(Progress::Direct(Err(error))) => direct_error = Some(error),
                Ok(Progress::Tunnel(Err(error))) => login_error = Some(error),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.lock().lifecycle.is_stopped() {
                break Err(ViewError::Lost("the viewer was closed".into()));
            }
            if let Some(direct_error) = &direct_error
                && let Some(login_error) = login_error.take()
            {
                if !is_unanswered(direct_error) {
                    // Something else answers there: only ssh can tell where the session is.
                    self.lock().transports.forget_direct();
                }
                break Err(login_error.into());
            }
        };
        over.store(true, Ordering::Release);
        if let Some(login) = login {
            login.close();
        }
        found
    }
}

/// How ssh is started.
fn attempt(target: &SshTarget, session: &Session) -> Attempt {
    Attempt {
        is_reconnect: session.was_connected,
        unshared: session.was_unresponsive,
        wants_offer: target.transport != SshTransport::Tunnel
            && session.quic_failures < REPLACEMENT_FAILURES_MAX,
    }
}
