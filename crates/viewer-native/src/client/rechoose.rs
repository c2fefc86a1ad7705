//! Path 10/13: beside connection.rs; the transport is chosen again while a connection is served.
//! When viewer-core says that the path of a connection over TCP has changed, QUIC is tried beside
//! it; a connection that has answered takes its place, also that of ssh's tunnel (switch.rs). Knows
//! attempts and times; never messages.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use thinc_transport::{ConnectOptions, Established, Link, TransportChoice, TransportKind};
use thinc_viewer_core::{PathChange, REPLACEMENT_FAILURES_MAX, REPLACEMENT_WAIT_MAX};

use super::connection::Session;
use super::transports::Transports;
use super::{Shared, State, Status};

/// 10 s: limit of one attempt: that of the session.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// What became of a connection that has answered.
pub(super) enum Replaced {
    /// It takes the other's place.
    Yes,
    /// Something was held down all the while.
    Held,
    /// The other connection has ended.
    Over,
}

impl Shared {
    /// Whether this connection over TCP is watched: QUIC may be used, and did not fail too often.
    pub(super) fn may_choose_again(&self, kind: TransportKind, session: &Session) -> bool {
        kind == TransportKind::Tcp
            && self.config.transport == TransportChoice::Auto
            && session.quic_failures < REPLACEMENT_FAILURES_MAX
    }

    /// Tries QUIC whenever the path of the served connection has changed.
    pub(super) fn start_rechoosing(self: &Arc<Self>, link: &Link, options: &ConnectOptions) {
        let (shared, link, connection_number) =
            (self.clone(), link.clone(), self.lock().served.number());
        let options = ConnectOptions {
            transport: TransportChoice::Quic,
            timeout: options.timeout.min(ATTEMPT_MAX),
            ..options.clone()
        };
        // Nobody joins the thread. Without it, TCP stays.
        let _ = Builder::new()
            .name("thinc-rechoose".into())
            .spawn(move || shared.rechoose(connection_number, &link, &options));
    }

    fn rechoose(&self, connection_number: u64, link: &Link, options: &ConnectOptions) {
        let mut state = self.lock();
        while state.serves(connection_number) {
            let Some(change) = state.path_change() else {
                state = self.changed.wait(state).expect("no holder of this lock can panic");
                continue;
            };
            state.viewers.shown.handle_transport_attempt();
            drop(state);
            let reached = try_quic(change, link, options);
            state = self.lock();
            if !state.serves(connection_number) {
                return;
            }
            let now = state.clock.now();
            match reached {
                Ok(reached) => {
                    drop(state);
                    let why = change.to_string();
                    let note = |transports: &mut Transports| transports.set_next_reason(why);
                    match self.replace(connection_number, reached, note) {
                        Replaced::Yes | Replaced::Over => return,
                        Replaced::Held => {}
                    }
                    state = self.lock();
                    // The viewer may be that of the next connection, which has an attempt of its
                    // own.
                    if state.serves(connection_number) {
                        state.viewers.shown.handle_transport_postponed();
                    }
                }
                Err(why) => {
                    state.viewers.shown.handle_transport_failure(now);
                    state.transports.handle_quic_failure(why);
                }
            }
        }
    }

    /// Closes the served connection for one that has completed its handshake.
    pub(super) fn replace(
        &self,
        connection_number: u64,
        reached: Established,
        note: impl FnOnce(&mut Transports),
    ) -> Replaced {
        let mut state = self.lock();
        state.transports.set_awaits_release(true);
        (state, _) = self
            .changed
            .wait_timeout_while(state, Duration::from_micros(REPLACEMENT_WAIT_MAX), |state| {
                state.serves(connection_number)
                    && !(state.served.has_picture() && state.viewers.shown.may_be_replaced())
            })
            .expect("no holder of this lock can panic");
        state.transports.set_awaits_release(false);
        if !state.serves(connection_number) {
            return Replaced::Over;
        }
        if state.viewers.shown.holds_input() {
            return Replaced::Held;
        }
        let still_serves = state.is_connected();
        state.transports.replace(reached, still_serves);
        note(&mut state.transports);
        // What was written arrives, or the next connection sends it again: the session says which
        // input it has received.
        state.served.close();
        drop(state);
        self.announce();
        Replaced::Yes
    }

    /// A connection over QUIC was reached and did not open the session.
    pub(super) fn forget_replacement(&self, session: &mut Session, why: &str) {
        session.quic_failures += 1;
        let mut state = self.lock();
        state.transports.handle_replacement_failure(why);
        state.status = Status::Lost { why: why.to_owned(), attempts: 0 };
        state.news.status = true;
        drop(state);
        self.announce();
    }
}

impl State {
    /// This connection is served, and no other takes its place yet.
    pub(super) fn serves(&self, connection_number: u64) -> bool {
        self.served.is(connection_number)
            && !self.transports.has_replacement()
            && !self.watch.is_aborted()
            && !self.lifecycle.is_stopped()
    }

    /// Why another transport is to be tried.
    fn path_change(&self) -> Option<PathChange> {
        self.is_connected().then(|| self.viewers.shown.path_change(self.clock.now()))?
    }

    /// After bytes were handled: counts losses if viewer-core wants them. True if a thread that
    /// waits to change the transport may go on.
    pub(super) fn watch_path(&mut self) -> bool {
        if !self.is_connected() {
            return false;
        }
        if self.viewers.shown.wants_losses() {
            let lost = self.served.lost_segments();
            self.viewers.shown.handle_losses(lost.unwrap_or_default(), self.clock.now());
        }
        self.path_change().is_some()
            || self.transports.awaits_release() && self.viewers.shown.may_be_replaced()
    }
}

/// Connects over QUIC, unless a path that seemed long is short by the kernel at the other end.
fn try_quic(
    change: PathChange,
    link: &Link,
    options: &ConnectOptions,
) -> Result<Established, String> {
    let is_near = match change {
        // Where nothing answers over TCP now, QUIC may.
        PathChange::Long(_) => thinc_transport::is_near(link, options, options.timeout),
        PathChange::Lossy => Ok(false),
    };
    if is_near.unwrap_or(false) {
        return Err("the session is near".to_owned());
    }
    thinc_transport::establish(link, options).map_err(|error| error.to_string())
}
