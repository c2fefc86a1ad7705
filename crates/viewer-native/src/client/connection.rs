//! Path 10/13 and 11/13: beside client.rs; from transport's bytes, to viewer-core, and its messages
//! back to transport.
//! One thread connects, reads, and reconnects after a loss; one per connection writes. Knows
//! transports and when a connection has ended; never what is shown, nor by whom.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_protocol::Micros;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerCaps;
use thinc_transport::{
    ConnectError, ConnectOptions, Established, Link, Received, SpkiPin, TransportChoice,
    TransportKind,
};
use thinc_viewer_core::{AttemptMeans, Attempts, Cache, REPLACED_HELLO_MAX};

use super::liveness::UNRESPONSIVE;
use super::{
    LINGER, NewKeys, Opening, Reconnect, Shared, State, Status, new_viewer, random_number,
};
use crate::desktops::{self, Account};
use crate::device_key::has_key;
use crate::error::{ViewError, report};
use crate::question::{self, Echo};
use crate::saved::CacheFile;
use crate::target::Target;
use crate::wire::{Reader, Writer};

/// Told to who cannot be asked.
const SHOWN_ELSEWHERE: &str =
    "This session is shown elsewhere, too; with --take-over it is shown here only.";

/// Bytes received from a session.
enum Incoming<'a> {
    Stream(&'a [u8]),
    Datagram(&'a [u8]),
}

/// 64 KiB: read from the connection at once; the framebuffer is locked while so much is applied.
const READ_BYTES: usize = 64 * 1024;
/// 20 ms, in microseconds: after the framebuffer was locked for longer, at once or in many short
/// times, other threads get a turn.
const LOCK_HELD_MAX: Micros = 20_000;
/// 200 µs, in microseconds: how long that turn is at least.
const LOCK_PAUSE: Micros = 200;

/// How this thread held the framebuffer's lock.
#[derive(Default)]
struct Held {
    /// How long since other threads had a turn.
    time: Micros,
    /// When it was released last.
    released: Micros,
}

/// Longest wait for the session's answer on a connection over QUIC that replaces another; the other
/// is closed by then.
pub(super) const ANSWER_WAIT: Duration = Duration::from_micros(REPLACED_HELLO_MAX);

/// State that one connection leaves to the next.
#[derive(Default)]
pub(super) struct Session {
    /// Authenticates the next connection to the same port.
    pub(super) session_credential: Option<Vec<u8>>,
    /// One that a server where people log in does not know any more: names the desktop.
    pub(super) earlier_credential: Option<Vec<u8>>,
    /// The session's last address, if the link names a host.
    pub(super) peer: Option<SocketAddr>,
    /// A connection has succeeded before.
    pub(super) was_connected: bool,
    /// The last connection ended because the session was unresponsive.
    pub(super) was_unresponsive: bool,
    /// Times that another transport was left for QUIC, and the session could not be opened there.
    pub(super) quic_failures: u32,
}

/// An open connection.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// What is done beside it.
    pub(super) beside: Beside,
}

/// What is done while a connection is served.
pub(super) enum Beside {
    /// Nothing.
    Nothing,
    /// If the session does not answer, another connection is sought.
    Rescue(Link, ConnectOptions),
    /// The same, and if the path changes, QUIC is tried.
    RescueAndRechoose(Link, ConnectOptions),
    /// A connection over QUIC is tried, which takes this one's place.
    Switch(Link, ConnectOptions),
}

impl Shared {
    /// The network thread: connects, serves, and reconnects.
    pub(super) fn run(self: &Arc<Self>) {
        let mut session = Session::default();
        let mut attempts = Attempts::new();
        loop {
            let error = match self.open(&mut session) {
                Ok(opened) => {
                    self.lock().lifecycle.take_retry();
                    self.serve(opened, &mut attempts)
                }
                Err(error) => error,
            };
            let mut state = self.lock();
            // A login that has failed.
            state.served.end();
            if state.lifecycle.is_stopped() {
                return;
            }
            session.was_unresponsive = state.watch.take_aborted();
            if state.transports.has_replacement() {
                continue;
            }
            state.transports.end_switch();
            let is_login = state.transports.direct().is_none();
            drop(state);
            if self.may_open_again(&error) {
                continue;
            }
            let reconnects = self.config.reconnect == Reconnect::Always
                && session.was_connected
                && error.is_transient();
            if !reconnects {
                self.set_status(Status::Ended(error));
                return;
            }
            let means = match self.config.target {
                Target::Ssh(_) if is_login => AttemptMeans::Login,
                Target::Link(_) | Target::Ssh(_) => AttemptMeans::Sockets,
            };
            let wait = if error.is_unanswered() {
                // Other attempts ran all the while.
                attempts.begin();
                Duration::ZERO
            } else {
                let random = u32::from_le_bytes(random_number());
                Duration::from_micros(attempts.next_wait(means, random))
            };
            let why = match error {
                // The message that shows it says already that it is lost.
                ViewError::Lost(why) => why,
                error => error.to_string(),
            };
            self.set_status(Status::Lost { why, attempts: attempts.count() });
            if !self.back_off(wait) {
                return;
            }
        }
    }

    /// True if the session is shown elsewhere, and the person has said what happens: of a session
    /// that is just opened, on the terminal; of one that was taken over, in the window.
    fn may_open_again(&self, error: &ViewError) -> bool {
        let ViewError::Closed { code, .. } = error else { return false };
        if self.config.reconnect != Reconnect::Always {
            return false;
        }
        match code {
            CloseCode::Elsewhere => {
                let can_ask = question::can_ask();
                self.lock().lifecycle.hold(true, Instant::now());
                let takes_over = can_ask
                    && question::ask(
                        "This session is shown elsewhere. Take it over? (No: see it in both)",
                    );
                let mut state = self.lock();
                state.lifecycle.hold(false, Instant::now());
                if !can_ask {
                    report(SHOWN_ELSEWHERE);
                    state.news.tell(Some(SHOWN_ELSEWHERE.to_owned()));
                }
                let opening = if takes_over { Opening::TakeOver } else { Opening::Join };
                state.hello.set_opening(opening);
                !state.lifecycle.is_stopped()
            }
            CloseCode::Replaced => {
                self.lock().lifecycle.take_retry();
                self.set_status(Status::TakenOver);
                let mut state = self.lock();
                while !state.lifecycle.is_stopped() && !state.lifecycle.take_retry() {
                    state = self.changed.wait(state).expect("no holder of this lock can panic");
                }
                state.hello.set_opening(Opening::TakeOver);
                !state.lifecycle.is_stopped()
            }
            _ => false,
        }
    }

    /// Connects to the configured target.
    fn open(self: &Arc<Self>, session: &mut Session) -> Result<Opened, ViewError> {
        let opened = match &self.config.target {
            Target::Link(link) => self.open_by_link(link, session)?,
            Target::Ssh(target) => self.open_ssh(target, session)?,
        };
        session.was_connected = true;
        Ok(opened)
    }

    /// Opens a session that a link names. Where the login has ended and the server remembers this
    /// device, it signs in, and nobody is asked.
    fn open_by_link(
        self: &Arc<Self>,
        link: &Link,
        session: &mut Session,
    ) -> Result<Opened, ViewError> {
        match self.open_once(link, session) {
            Err(refusal) if session.was_connected => {
                self.sign_in_again(link, session, refusal)?;
                self.open_once(link, session)
            }
            other => other,
        }
    }

    /// The same, on a connection that was found already, or on a new one.
    fn open_once(
        self: &Arc<Self>,
        link: &Link,
        session: &mut Session,
    ) -> Result<Opened, ViewError> {
        let options = self.options(session);
        let needs_login = link.token.is_none() && session.session_credential.is_none();
        if needs_login {
            self.delete_unwanted_key(link);
        }
        let has_key = has_key(&self.config.devices, &link.authority());
        if needs_login && !has_key && !question::can_ask() {
            return Err(ConnectError::NoToken.into());
        }
        let (rescue, switching) = {
            let mut state = self.lock();
            (state.transports.take_replacement(), state.transports.is_switching())
        };
        let mut reached = match rescue {
            Some(reached) => reached,
            None if session.was_connected => {
                self.reconnect(link, &options, |state| !state.lifecycle.is_stopped())?
            }
            None => self.first_contact(link, &options)?,
        };
        if reached.needs_login() {
            reached = self.log_in(link, reached, session)?;
        }
        let mut kind = reached.kind();
        let (reader, writer) = if switching {
            match self.open_link(link, reached, ANSWER_WAIT.min(options.timeout), session) {
                Ok(opened) => opened,
                Err(error) => {
                    // UDP passes, but not for long: TCP does, which was in use until now.
                    self.forget_replacement(session, &error.to_string());
                    let options = ConnectOptions { transport: TransportChoice::Tcp, ..options };
                    reached =
                        self.reconnect(link, &options, |state| !state.lifecycle.is_stopped())?;
                    kind = reached.kind();
                    let limit = self.slow_answer_timeout(&options);
                    self.open_link(link, reached, limit, session)?
                }
            }
        } else {
            // An answer time-out for a session that is unresponsive again; a session on first
            // contact may just be busy.
            let limit = if session.was_connected {
                self.slow_answer_timeout(&options)
            } else {
                options.timeout
            };
            self.open_link(link, reached, limit, session)?
        };
        let options = self.options(session);
        let beside = if self.may_choose_again(kind, session) {
            Beside::RescueAndRechoose(link.clone(), options)
        } else {
            Beside::Rescue(link.clone(), options)
        };
        Ok(Opened { reader, writer, beside })
    }

    /// Connects for the first time. A key that is new here is confirmed before anything is sent, or
    /// the person is told that nobody has.
    fn first_contact(
        &self,
        link: &Link,
        options: &ConnectOptions,
    ) -> Result<Established, ViewError> {
        let reached = thinc_transport::establish(link, options)?;
        if !reached.has_new_key() {
            return Ok(reached);
        }
        let authority = link.authority();
        let key: String = reached.pin().0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut output = io::stderr();
        if self.config.new_keys == NewKeys::Ask && question::can_ask() {
            let _ = writeln!(
                output,
                "The link names no key of {authority}, and no key is remembered for it. It shows \
                 the public key with the SHA-256\n  {key}\nwhich thinc serve has printed there."
            );
            if !question::ask("Is it the same?") {
                return Err(ConnectError::NotConfirmed(authority).into());
            }
            // The session has not waited for the answer; it has to show this key again.
            reached.remember_key()?;
            return Ok(thinc_transport::establish(link, options)?);
        }
        let words = format!(
            "Nobody has confirmed the key of {authority}, which is new here; another one will be \
             refused from now on."
        );
        let _ = writeln!(output, "thinc-view: {words} Its SHA-256: {key}");
        self.lock().news.tell(Some(words));
        Ok(reached)
    }

    /// Has the person choose among their desktops, as far as the command line leaves a choice.
    pub(super) fn choose_desktop(
        &self,
        link: &Link,
        pin: SpkiPin,
        credential: Vec<u8>,
        session: &Session,
    ) -> Result<Vec<u8>, ViewError> {
        let options = self.options(session);
        let Some(account) = Account::new(link, &options, pin, &credential, |text| report(text))
        else {
            return Ok(credential);
        };
        let name = account.choose(&self.config.desktop, question::can_ask(), &mut |text| {
            let (list, last) = text.rsplit_once('\n').unwrap_or(("", text));
            let _ = writeln!(io::stderr(), "{list}");
            question::read_line(last, Echo::On)
        })?;
        Ok(desktops::with_desktop(&credential, &name))
    }

    /// Authenticates on a connection whose key was checked, and sends the hello.
    pub(super) fn open_link(
        &self,
        link: &Link,
        reached: Established,
        limit: Duration,
        session: &mut Session,
    ) -> Result<(Reader, Writer), ViewError> {
        self.open_cache(&self.config.target.cache_name(Some(&reached.pin())));
        self.begin(reached.supports_datagrams());
        let mut first = Vec::new();
        {
            let is_watched = self.may_choose_again(reached.kind(), session);
            let mut state = self.lock();
            if is_watched {
                state.active().watch_path();
            }
            state.active().poll_transmit(&mut first);
        }
        let connection =
            reached.authenticate(&first, limit).inspect_err(|_| self.lock().end_connection())?;
        session.session_credential = Some(connection.session_credential.clone());
        session.peer = link.host.parse::<IpAddr>().is_err().then_some(connection.peer);
        let mut state = self.lock();
        let is_quic = connection.transport == TransportKind::Quic;
        state.transports.handle_opened(connection.transport.name(), is_quic);
        drop(state);
        let (reader, writer) = connection.split();
        Ok((Reader::Link(Box::new(reader)), Writer::Link(writer)))
    }

    pub(super) fn options(&self, session: &Session) -> ConnectOptions {
        ConnectOptions {
            timeout: self.config.connect_timeout,
            known_hosts: self.config.known_hosts.clone(),
            address: session.peer,
            session_credential: session.session_credential.clone(),
            transport: self.config.transport,
            ..ConnectOptions::default()
        }
    }

    /// Loads the cache saved under this name, at the first connection.
    pub(super) fn open_cache(&self, name: &str) {
        let options = &self.config.cache;
        let is_first = options.bytes > 0 && self.lock().viewers.lacks_cache();
        if is_first {
            let file = CacheFile::new(options, name);
            let cache = file.as_ref().map_or_else(|| Cache::new(options.bytes), CacheFile::load);
            self.lock().viewers.set_cache(cache, file);
        }
    }

    /// Waits out a backoff; false if the viewer was closed meanwhile.
    fn back_off(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        while !state.lifecycle.is_stopped() {
            if state.lifecycle.take_retry() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state =
                self.changed.wait_timeout(state, left).expect("no holder of this lock can panic").0;
        }
        false
    }

    /// Creates the viewer of the next connection, which continues from the last.
    pub(super) fn begin(&self, takes_datagrams: bool) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let caps = if takes_datagrams { ViewerCaps::DATAGRAMS | ViewerCaps::PARITY } else { 0 };
        let caps = caps | state.hello.caps() | state.sound.caps();
        let caps = caps | state.files.caps() | state.microphone.caps();
        let mut viewer = new_viewer(state.screen.window(), self.config.clipboard, caps);
        viewer.want_sound(state.sound.want());
        state.clipboard.begin(&mut viewer);
        viewer.set_instance(state.hello.instance());
        state.viewers.begin(viewer, random_number());
        let viewer = state.viewers.active();
        if let Some(view) = state.screen.view() {
            viewer.set_view(view);
        }
        viewer.choose_quality(state.hello.quality());
        viewer.choose_stereo(state.stereo.mode());
        if let Some(layout) = state.hello.layout() {
            viewer.set_layout(layout.clone());
        }
    }

    /// Serves one connection until it ends; returns the reason.
    fn serve(self: &Arc<Self>, opened: Opened, attempts: &mut Attempts) -> ViewError {
        let Opened { mut reader, writer: mut closer, beside } = opened;
        {
            let mut state = self.lock();
            state.watch.begin(closer.local_address());
            state.served.begin(closer.clone());
        }
        let writing = std::thread::Builder::new().name("thinc-send".into()).spawn({
            let (shared, writer) = (self.clone(), closer.clone());
            move || shared.write_out(writer)
        });
        if let Beside::RescueAndRechoose(link, options) = &beside {
            self.start_rechoosing(link, options);
        }
        match beside {
            Beside::Rescue(link, options) | Beside::RescueAndRechoose(link, options)
                if self.config.reconnect == Reconnect::Always =>
            {
                self.start_rescue(&link, options);
            }
            Beside::Switch(link, options) => self.start_switch(link, options),
            Beside::Rescue(..) | Beside::RescueAndRechoose(..) | Beside::Nothing => {}
        }
        let error = match &writing {
            Ok(_) => self.read_in(&mut reader, attempts),
            Err(error) => {
                self.lock().served.handle_writer_ended();
                ViewError::Lost(format!("cannot start the writer thread: {error}"))
            }
        };
        let mut state = self.lock();
        if state.lifecycle.is_stopped() || matches!(error, ViewError::Protocol(_)) {
            // viewer-core still has a close message to send: sent before the end.
            state.served.leave();
            state = self
                .changed
                .wait_timeout_while(state, LINGER, |state| state.served.is_writing())
                .expect("no holder of this lock can panic")
                .0;
        }
        state.end_served();
        drop(state);
        self.changed.notify_all();
        // An unresponsive connection has been aborted already.
        closer.close();
        if let Ok(thread) = writing {
            assert!(thread.join().is_ok(), "the writer's thread panicked");
        }
        error
    }

    /// Passes bytes to the new connection's viewer, which replaces the old one once it has a screen
    /// to show.
    fn read_in(&self, reader: &mut Reader, attempts: &mut Attempts) -> ViewError {
        let mut buffer = vec![0; READ_BYTES];
        let mut datagram;
        let mut held = Held::default();
        loop {
            let mut incoming = match reader.next(&mut buffer) {
                Ok(Received::Bytes(count @ 1..)) => Incoming::Stream(&buffer[..count]),
                Ok(Received::Datagram(bytes)) => {
                    datagram = bytes;
                    Incoming::Datagram(&datagram)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(Received::Bytes(0)) => return self.why_lost(Ok(())),
                Err(error) => return self.why_lost(Err(error)),
            };
            let repaired = reader.take_repaired();
            if repaired > 0 {
                self.lock().served.count_repaired(repaired);
            }
            loop {
                let bytes = std::mem::replace(&mut incoming, Incoming::Stream(&[]));
                match self.apply(bytes, attempts, &mut held) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return error,
                }
            }
        }
    }

    /// Applies received bytes up to the end of a drawing burst; true if there may be more.
    fn apply(
        &self,
        incoming: Incoming<'_>,
        attempts: &mut Attempts,
        held: &mut Held,
    ) -> Result<bool, ViewError> {
        let mut state = self.lock_for_next();
        if state.lifecycle.is_stopped() {
            return Err(ViewError::Lost("the viewer was closed".into()));
        }
        let now = state.clock.now();
        if now.saturating_sub(held.released) >= LOCK_PAUSE {
            held.time = 0;
        }
        let handled = match incoming {
            Incoming::Stream(bytes) => state.active().handle_bytes_until_frame_end(bytes, now),
            Incoming::Datagram(bytes) => state.active().handle_datagram(bytes, now).map(|()| false),
        };
        if state.viewers.show_pending() {
            state.become_connected();
            attempts.handle_success();
        }
        state.follow_liveness();
        let closed = if state.viewers.is_pending() {
            state.viewers.refusal()
        } else {
            state.take_sound();
            state.take_events()
        };
        state.flush();
        #[cfg(feature = "h264")]
        state.wake_decoding();
        let (wake, goes_on) = (state.news.is_worth_waking(), state.watch_path());
        held.released = state.clock.now();
        held.time += held.released - now;
        drop(state);
        if held.time > LOCK_HELD_MAX {
            // The lock is not fair: taken again at once, it would keep the thread out that watches
            // the time.
            std::thread::sleep(Duration::from_micros(LOCK_PAUSE));
        }
        if wake {
            self.announce();
        } else if goes_on {
            self.changed.notify_all();
        }
        match closed {
            Some(closed) => Err(closed),
            None => handled.map_err(|error| ViewError::Protocol(error.to_string())),
        }
    }

    /// Why the connection ended.
    fn why_lost(&self, ended: io::Result<()>) -> ViewError {
        ViewError::Lost(match ended {
            _ if self.lock().watch.is_aborted() => UNRESPONSIVE.to_owned(),
            Ok(()) => "the session closed the connection without a reason".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the connection broke".to_owned()
            }
            Err(error) => error.to_string(),
        })
    }

    /// The writer thread: sends viewer-core's bytes until the connection is over.
    fn write_out(&self, mut writer: Writer) {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        while self.next_bytes(&mut bytes, &mut datagram) {
            if !datagram.is_empty() {
                writer.send_datagram(&datagram);
                datagram.clear();
            }
            if writer.write_all(&bytes).is_err() {
                break;
            }
            bytes.clear();
        }
        // However it ended, the reader must not wait forever.
        writer.close();
        self.lock().served.handle_writer_ended();
        self.changed.notify_all();
    }

    /// Waits for bytes to send; false if the connection is over, or the viewer is closing and has
    /// sent everything.
    fn next_bytes(&self, into: &mut Vec<u8>, datagram: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        let unsent = state.served.writer_waits_for();
        while state.served.is_open() {
            let has_datagram = state.active().poll_datagram(datagram);
            if state.active().poll_transmit(into) || has_datagram {
                return true;
            }
            if state.lifecycle.is_stopped() || state.served.is_leaving() {
                return false;
            }
            if state.check_liveness() {
                if state.watch.is_aborted() {
                    return false;
                }
                if state.news.is_worth_waking() {
                    drop(state);
                    self.announce();
                    state = self.lock();
                }
                continue;
            }
            let now = state.clock.now();
            let address_at = state.watch.machine_deadline();
            let deadline = state.active().poll_deadline();
            state = match deadline.into_iter().chain(address_at).min() {
                None => unsent.wait(state).expect("no holder of this lock can panic"),
                Some(at) if at <= now => {
                    state.handle_timeout(now);
                    if state.news.is_worth_waking() {
                        drop(state);
                        self.announce();
                        self.lock()
                    } else {
                        state
                    }
                }
                Some(at) => {
                    let left = Duration::from_micros(at - now);
                    unsent.wait_timeout(state, left).expect("no holder of this lock can panic").0
                }
            };
        }
        false
    }
}

impl State {
    /// The new connection has a screen: from now on it is shown.
    fn become_connected(&mut self) {
        self.status = Status::Connected;
        self.hello.handle_opened();
        self.transports.end_switch();
        self.news.status = true;
        self.sound.begin_connection();
        self.end_microphone();
        self.session.begin_connection();
        self.screen.begin_connection(&mut self.viewers.shown);
    }

    /// Keeps what the next connection continues from.
    fn end_connection(&mut self) {
        self.end_microphone();
        self.viewers.end();
    }

    /// The served connection has ended.
    fn end_served(&mut self) {
        self.end_connection();
        self.served.end();
        self.screen.end_connection();
    }
}
