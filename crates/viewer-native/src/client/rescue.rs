//! Path 10/13: beside connection.rs; a replacement connection to a session reached before.
//! While nothing answers, attempts are started one after the other without waiting for earlier
//! ones: once the network recovers, no attempt waits for the retransmission of a packet lost long
//! ago (viewer-core's attempts.rs). Knows threads and connections; never messages.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use thinc_transport::{ConnectError, ConnectOptions, Established, Link};
use thinc_viewer_core::{ATTEMPTS_MAX, Attempts, Liveness, SLOW_ATTEMPT_FACTOR};

use super::{Shared, State};
use crate::error::is_unanswered;

/// 20 ms: a session that was only busy answers on its old connection as soon as it completes the
/// handshake of the new one.
const OLD_CONNECTION_GRACE: Duration = Duration::from_millis(20);

impl Shared {
    /// Longest time-out for an answer after an outage.
    pub(super) fn slow_answer_timeout(&self, options: &ConnectOptions) -> Duration {
        SLOW_ATTEMPT_FACTOR * self.answer_timeout(options)
    }

    fn answer_timeout(&self, options: &ConnectOptions) -> Duration {
        let round_trip = self.lock().viewers.shown.stats().rtt_us;
        Duration::from_micros(Attempts::answer_timeout(round_trip)).min(options.timeout)
    }

    /// Time between attempts.
    fn spacing(&self) -> Duration {
        Duration::from_micros(Attempts::spacing(self.lock().viewers.shown.stats().rtt_us))
    }

    /// Starts attempts until one completes its handshake, one is refused or reaches another server,
    /// `options.timeout` is over, or `wanted` returns false. No attempt authenticates: of two
    /// connections of one viewer, the session would keep only the second. If the session's address
    /// is known, one attempt at a time resolves it again, which may take long or find it elsewhere;
    /// and one waits longer than the known round trip suggests.
    pub(super) fn reconnect(
        &self,
        link: &Link,
        options: &ConnectOptions,
        wanted: impl Fn(&State) -> bool,
    ) -> Result<Established, ConnectError> {
        let answer_timeout = self.answer_timeout(options);
        let spacing = self.spacing();
        // Without a network the name cannot be resolved; the session may be at its old address all
        // the same, or another machine there by now.
        let is_no_answer = |address: Option<_>, error: &_| {
            is_unanswered(error)
                || address.is_some()
                || options.address.is_some() && matches!(error, ConnectError::Resolve(..))
        };
        let (send, receive) = channel();
        let until = Instant::now() + options.timeout;
        let (mut started, mut in_flight, mut resolving, mut has_slow) = (0_usize, 0, false, false);
        let mut failure = None;
        loop {
            if in_flight < ATTEMPTS_MAX {
                // The first attempt uses the old address, the next one resolves the name.
                let address = options.address.filter(|_| resolving || started == 0);
                resolving |= address.is_none();
                started += 1;
                let is_slow = !std::mem::replace(&mut has_slow, true);
                let attempt = Builder::new().name("thinc-attempt".into()).spawn({
                    let answer_timeout =
                        if is_slow { SLOW_ATTEMPT_FACTOR * answer_timeout } else { answer_timeout };
                    let options = ConnectOptions { answer_timeout, address, ..options.clone() };
                    let (send, link) = (send.clone(), link.clone());
                    // If another attempt was faster, nobody receives this one, and it is closed.
                    move || {
                        drop(send.send((
                            address,
                            is_slow,
                            thinc_transport::establish(&link, &options),
                        )))
                    }
                });
                match attempt {
                    Ok(_) => in_flight += 1,
                    Err(error) if in_flight == 0 => {
                        return Err(ConnectError::Connect(link.authority(), error));
                    }
                    Err(_) => {}
                }
            }
            let next = Instant::now() + spacing;
            loop {
                match receive.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok((address, was_slow, Err(error))) if is_no_answer(address, &error) => {
                        in_flight -= 1;
                        resolving &= address.is_some();
                        has_slow &= !was_slow;
                        failure = Some(error);
                    }
                    Ok((_, _, result)) => return result,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            if Instant::now() >= until || !wanted(&self.lock()) {
                let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer");
                return Err(
                    failure.unwrap_or_else(|| ConnectError::Connect(link.authority(), late()))
                );
            }
        }
    }

    /// Watches a connection that is served: while it is unresponsive, a replacement is sought,
    /// which takes its place.
    pub(super) fn start_rescue(self: &Arc<Self>, link: &Link, options: ConnectOptions) {
        let (shared, link, connection_number) =
            (self.clone(), link.clone(), self.lock().served.number());
        // Nobody joins the thread. Without it, an unresponsive connection ends by its own time-out.
        let _ = Builder::new()
            .name("thinc-rescue".into())
            .spawn(move || shared.rescue(connection_number, &link, &options));
    }

    fn rescue(&self, connection_number: u64, link: &Link, options: &ConnectOptions) {
        let serves =
            |state: &State| state.served.is(connection_number) && !state.lifecycle.is_stopped();
        let is_replaceable =
            |state: &State| serves(state) && state.watch.liveness() >= Liveness::Replaceable;
        loop {
            let mut state = self.lock();
            while serves(&state) && !is_replaceable(&state) {
                state = match state.liveness_in() {
                    None => self.changed.wait(state).expect("no holder of this lock can panic"),
                    Some(left) => {
                        self.changed
                            .wait_timeout(state, left)
                            .expect("no holder of this lock can panic")
                            .0
                    }
                };
                // The writer may be waiting for the network.
                if state.check_liveness() {
                    drop(state);
                    self.announce();
                    state = self.lock();
                }
            }
            if !serves(&state) {
                return;
            }
            drop(state);
            let Ok(established) = self.reconnect(link, options, is_replaceable) else {
                // The attempts were refused or not answered: the served connection ends by its own
                // time-out.
                let (pause, state) = (self.spacing(), self.lock());
                drop(self.changed.wait_timeout_while(state, pause, |state| is_replaceable(state)));
                continue;
            };
            let state = self.lock();
            let (mut state, _) = self
                .changed
                .wait_timeout_while(state, OLD_CONNECTION_GRACE, |state| is_replaceable(state))
                .expect("no holder of this lock can panic");
            if is_replaceable(&state) {
                state.transports.rescue(established);
                state.abort_connection();
                drop(state);
                self.announce();
                return;
            }
        }
    }
}
