//! Path 10/13: beside connection.rs; a way back to a session that has been reached before.
//! Where nothing answers, attempts set out one after the other, without waiting for those before: a network that is back should not
//! have to wait for a packet that was lost long ago to be sent again. Knows attempts and times; never what is said.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use thinc_transport::{ConnectError, ConnectOptions, Link, Reached};

use super::{Shared, State};
use crate::error::is_unanswered;

/// 75 ms: how long a path that carries again may stay unused, …
const SPACING: Duration = Duration::from_millis(75);
/// … for 0.3 s, or four round trips where those are longer: what has not answered by then is not on its way back any more …
const REACH_MIN: Duration = Duration::from_millis(300);
/// … unless the network is another one now, and the way longer than it was: one attempt at a time waits for so many times as long.
const PATIENCE: u32 = 4;
/// Attempts to which an answer may be on its way: a session soon makes strangers from one address prove it, which costs a round trip.
const UNDER_WAY: u32 = 4;
/// The same with those that a busy session has accepted and not shaken hands with yet: it takes twelve strangers at a time from one
/// address, and each attempt may make two of them.
const ATTEMPTS_MAX: usize = 6;
/// 20 ms: a session that was only busy answers by its old connection as soon as it shakes hands by the new one.
const GRACE: Duration = Duration::from_millis(20);

impl Shared {
    /// How long an answer may take at most where nobody has answered for a while.
    pub(super) fn patience(&self, options: &ConnectOptions) -> Duration {
        PATIENCE * self.reach(options)
    }

    fn reach(&self, options: &ConnectOptions) -> Duration {
        let round_trip = Duration::from_micros(self.lock().viewer.stats().rtt_us.unwrap_or_default());
        (4 * round_trip).max(REACH_MIN).min(options.timeout)
    }

    /// Tries until one attempt has shaken hands, one has met somebody else, or the time for connecting is over; and no longer than it is
    /// `wanted`. None of them says who comes: of a viewer that came twice, the session would keep the second alone. Where the
    /// session's address is known, one attempt at a time asks for it again, which may take long or find it elsewhere; and one waits for
    /// longer than the way took that was known.
    pub(super) fn seek(
        &self,
        link: &Link,
        options: &ConnectOptions,
        wanted: impl Fn(&State) -> bool,
    ) -> Result<Reached, ConnectError> {
        let reach = self.reach(options);
        let spacing = SPACING.max(reach / UNDER_WAY);
        // Without a network a name has no address; the session may be where it was all the same, or another machine there by now.
        let is_no_answer = |address: Option<_>, error: &_| {
            is_unanswered(error)
                || address.is_some()
                || options.address.is_some() && matches!(error, ConnectError::Resolve(..))
        };
        let (send, receive) = channel();
        let until = Instant::now() + options.timeout;
        let (mut begun, mut under_way, mut asks, mut waits) = (0_usize, 0, false, false);
        let mut failure = None;
        loop {
            if under_way < ATTEMPTS_MAX {
                // The first goes where it was, the next asks where it is.
                let address = options.address.filter(|_| asks || begun == 0);
                asks |= address.is_none();
                begun += 1;
                let is_patient = !std::mem::replace(&mut waits, true);
                let attempt = Builder::new().name("thinc-attempt".into()).spawn({
                    let reach = if is_patient { PATIENCE * reach } else { reach };
                    let options = ConnectOptions { reach, address, ..options.clone() };
                    let (send, link) = (send.clone(), link.clone());
                    // Where another was there first nobody listens, and this one is closed.
                    move || drop(send.send((address, is_patient, thinc_transport::reach(&link, &options))))
                });
                match attempt {
                    Ok(_) => under_way += 1,
                    Err(error) if under_way == 0 => return Err(ConnectError::Connect(link.authority(), error)),
                    Err(_) => {}
                }
            }
            let next = Instant::now() + spacing;
            loop {
                match receive.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok((address, was_patient, Err(error))) if is_no_answer(address, &error) => {
                        under_way -= 1;
                        asks &= address.is_some();
                        waits &= !was_patient;
                        failure = Some(error);
                    }
                    Ok((_, _, result)) => return result,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            if Instant::now() >= until || !wanted(&self.lock()) {
                let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "nothing came back");
                return Err(failure.unwrap_or_else(|| ConnectError::Connect(link.authority(), late())));
            }
        }
    }

    /// Beside a connection that is served: while nothing is heard by it, another is sought, which takes its place.
    pub(super) fn stand_by(self: &Arc<Self>, link: &Link, options: ConnectOptions) {
        let (shared, link, serving) = (self.clone(), link.clone(), self.lock().serving);
        // Nobody waits for its end. Without it a silent connection ends when that has lasted for long enough.
        let _ = Builder::new().name("thinc-rescue".into()).spawn(move || shared.rescue(serving, &link, &options));
    }

    fn rescue(&self, serving: u64, link: &Link, options: &ConnectOptions) {
        let serves = |state: &State| state.serving == serving && state.closer.is_some() && !state.stop;
        let is_lost = |state: &State| serves(state) && state.rescue_in().is_some_and(|left| left.is_zero());
        loop {
            let mut state = self.lock();
            while serves(&state) && !is_lost(&state) {
                state = match state.rescue_in() {
                    None => self.changed.wait(state).expect("no holder of this lock can panic"),
                    Some(left) => self.changed.wait_timeout(state, left).expect("no holder of this lock can panic").0,
                };
            }
            if !serves(&state) {
                return;
            }
            drop(state);
            let Ok(reached) = self.seek(link, options, is_lost) else {
                // It said no, or nobody said anything: the connection that is served ends in its own time.
                let (state, rest) = (self.lock(), SPACING);
                drop(self.changed.wait_timeout_while(state, rest, |state| is_lost(state)));
                continue;
            };
            let state = self.lock();
            let (mut state, _) = self
                .changed
                .wait_timeout_while(state, GRACE, |state| is_lost(state))
                .expect("no holder of this lock can panic");
            if is_lost(&state) {
                state.rescue = Some(reached);
                state.give_up();
                drop(state);
                self.announce();
                return;
            }
        }
    }
}
