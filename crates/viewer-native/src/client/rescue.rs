//! Path 10/13: beside connection.rs; a replacement connection to a session reached before.
//! While nothing answers, attempts are started one after the other without waiting for earlier
//! ones: once the network recovers, no attempt waits for the retransmission of a packet lost long
//! ago. Knows attempts and times; never messages.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use thinc_transport::{ConnectError, ConnectOptions, Established, Link};

use super::{Shared, State};
use crate::error::is_unanswered;

/// 75 ms between attempts: how long a recovered path may stay unused.
const SPACING: Duration = Duration::from_millis(75);
/// 0.3 s, or four round trips if that is longer: an attempt without an answer by then will not get
/// one.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_millis(300);
/// 4: the network may have changed and its round trip be longer, so one attempt at a time waits
/// this many times as long.
const SLOW_ATTEMPT_FACTOR: u32 = 4;
/// 4: attempts whose answer may still be in flight; a session soon asks unknown peers at one
/// address to validate it, which costs a round trip.
const ATTEMPTS_IN_FLIGHT: u32 = 4;
/// 6: attempts in all, including those that a busy session has accepted without a handshake yet: it
/// takes twelve unauthenticated connections at a time from one address, and each attempt may open
/// two.
const ATTEMPTS_MAX: usize = 6;
/// 20 ms: a session that was only busy answers on its old connection as soon as it completes the
/// handshake of the new one.
const OLD_CONNECTION_GRACE: Duration = Duration::from_millis(20);

impl Shared {
    /// Longest time-out for an answer after an outage.
    pub(super) fn slow_answer_timeout(&self, options: &ConnectOptions) -> Duration {
        SLOW_ATTEMPT_FACTOR * self.answer_timeout(options)
    }

    fn answer_timeout(&self, options: &ConnectOptions) -> Duration {
        let round_trip =
            Duration::from_micros(self.lock().viewer.stats().rtt_us.unwrap_or_default());
        (4 * round_trip).max(ANSWER_TIMEOUT_MIN).min(options.timeout)
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
        let spacing = SPACING.max(answer_timeout / ATTEMPTS_IN_FLIGHT);
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
            (self.clone(), link.clone(), self.lock().connection_number);
        // Nobody joins the thread. Without it, an unresponsive connection ends by its own time-out.
        let _ = Builder::new()
            .name("thinc-rescue".into())
            .spawn(move || shared.rescue(connection_number, &link, &options));
    }

    fn rescue(&self, connection_number: u64, link: &Link, options: &ConnectOptions) {
        let serves = |state: &State| {
            state.connection_number == connection_number && state.closer.is_some() && !state.stop
        };
        let is_unresponsive =
            |state: &State| serves(state) && state.rescue_in().is_some_and(|left| left.is_zero());
        loop {
            let mut state = self.lock();
            while serves(&state) && !is_unresponsive(&state) {
                state = match state.rescue_in() {
                    None => self.changed.wait(state).expect("no holder of this lock can panic"),
                    Some(left) => {
                        self.changed
                            .wait_timeout(state, left)
                            .expect("no holder of this lock can panic")
                            .0
                    }
                };
            }
            if !serves(&state) {
                return;
            }
            drop(state);
            let Ok(established) = self.reconnect(link, options, is_unresponsive) else {
                // The attempts were refused or not answered: the served connection ends by its own
                // time-out.
                let (state, pause) = (self.lock(), SPACING);
                drop(self.changed.wait_timeout_while(state, pause, |state| is_unresponsive(state)));
                continue;
            };
            let state = self.lock();
            let (mut state, _) = self
                .changed
                .wait_timeout_while(state, OLD_CONNECTION_GRACE, |state| is_unresponsive(state))
                .expect("no holder of this lock can panic");
            if is_unresponsive(&state) {
                state.rescue = Some(established);
                state.abort_connection();
                drop(state);
                self.announce();
                return;
            }
        }
    }
}
