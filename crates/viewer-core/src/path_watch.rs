//! Path 11/13: beside viewer.rs; whether the path of a connection over TCP became one for QUIC.
//! From pongs, and losses that the shell counts, to the shell, which then tries QUIC beside the
//! connection. Knows durations and counts; never transports, nor a clock.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// 5 ms: a longer round trip is none of a near session's. A native viewer keeps TCP at first if the
/// kernel at the other end answers within 1 ms (transport's `NEAR_RTT_MAX`); a pong also waits for
/// the session's work and behind its updates, hence five times as much. Such a wait may last longer
/// now and then, which is why there have to be several, and why a native viewer asks the kernel at
/// the other end before it moves.
const LONG_RTT_MIN: Micros = 5_000;
/// 4: so many round trips in a row have to be long.
const LONG_RUN: u32 = 4;
/// 0.2 s: interval of pings once a round trip was long, so that four take less than a second, and
/// a picture that is on its way delays no more than the first.
const PING_INTERVAL: Micros = 200_000;
/// 3 times in 30 s a packet of the viewer's was lost: 1 % of what it sends while the screen
/// changes. One outage, however many packets it takes, is one time.
const LOSSES_MIN: usize = 3;
const LOSS_WINDOW: Micros = 30_000_000;
/// 30 s after an attempt that led to nothing, doubled with each up to 15 min. A blocked port stays
/// blocked, and each attempt is a few packets and a handshake.
const RETRY_MIN: Micros = 30_000_000;
const RETRY_MAX: Micros = 900_000_000;

/// 3 s: how long a new connection that is complete waits to take the place of the old one: for a
/// picture that is on its way there and would be sent twice, and until nothing is held down, which
/// the change would release. A session waits 10 s for a connection's first message.
pub const REPLACEMENT_WAIT_MAX: Micros = 3_000_000;
/// 3: so often another transport took the place of one that worked, and the session did not answer
/// there; then the old one stays.
pub const REPLACEMENT_FAILURES_MAX: u32 = 3;

/// How a path changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// The round trip takes at least so many microseconds now.
    Long(Micros),
    /// It loses packets.
    Lossy,
}

/// For people: why another transport was taken.
impl std::fmt::Display for PathChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PathChange::Long(micros) => {
                write!(f, "the round trip grew to {}.{} ms", micros / 1000, micros % 1000 / 100)
            }
            PathChange::Lossy => f.write_str("packets were lost"),
        }
    }
}

/// What is known of the path, and of attempts to use another transport.
#[derive(Debug, Default)]
pub(crate) struct PathWatch {
    is_on: bool,
    /// When the last round trip ended.
    measured_at: Micros,
    /// Count of long round trips in a row, and the shortest of them.
    long: Option<(u32, Micros)>,
    /// Losses that the shell has counted so far.
    lost: Option<u64>,
    /// When that grew, within [`LOSS_WINDOW`].
    losses: VecDeque<Micros>,
    /// A round trip was measured since the shell last counted.
    wants_losses: bool,
    /// An attempt is made now.
    is_trying: bool,
    /// Attempts that led to nothing, and when the next may follow.
    failures: u32,
    retry_at: Micros,
}

impl PathWatch {
    /// Watches from now on.
    pub(crate) fn start(&mut self) {
        self.is_on = true;
    }

    /// A ping was answered now, after so long. One that was sent before the last answer tells
    /// nothing new: an outage delays all that are in flight.
    pub(crate) fn handle_round_trip(&mut self, micros: Micros, now: Micros) {
        if now.saturating_sub(micros) < self.measured_at {
            return;
        }
        self.measured_at = now;
        self.wants_losses = self.is_on;
        self.long = (self.is_on && micros >= LONG_RTT_MIN).then(|| match self.long {
            Some((count, least)) => (count.saturating_add(1), least.min(micros)),
            None => (1, micros),
        });
    }

    /// The shell should count losses now.
    pub(crate) fn wants_losses(&self) -> bool {
        self.wants_losses
    }

    /// Packets of the viewer's that were lost since the connection began.
    pub(crate) fn handle_losses(&mut self, lost: u64, now: Micros) {
        self.wants_losses = false;
        // Before the first count the path may have been another one.
        if self.lost.replace(lost).is_some_and(|before| before < lost) {
            if self.losses.len() == LOSSES_MIN {
                self.losses.pop_front();
            }
            self.losses.push_back(now);
        }
        self.losses.retain(|at| now.saturating_sub(*at) <= LOSS_WINDOW);
    }

    /// The longest interval until the next ping, if it is shorter than usual.
    pub(crate) fn ping_interval(&self, now: Micros) -> Option<Micros> {
        let is_suspect = self.long.is_some_and(|(count, _)| count < LONG_RUN);
        (is_suspect && !self.is_trying && now >= self.retry_at).then_some(PING_INTERVAL)
    }

    /// Why an attempt is due.
    pub(crate) fn due(&self, now: Micros) -> Option<PathChange> {
        if !self.is_on || self.is_trying || now < self.retry_at {
            return None;
        }
        if self.losses.len() == LOSSES_MIN {
            return Some(PathChange::Lossy);
        }
        let (_, least) = self.long.filter(|(count, _)| *count >= LONG_RUN)?;
        Some(PathChange::Long(least))
    }

    /// An attempt is made.
    pub(crate) fn handle_attempt(&mut self) {
        self.is_trying = true;
    }

    /// It led to nothing: what spoke for it counts no longer.
    pub(crate) fn handle_failure(&mut self, now: Micros) {
        let wait = RETRY_MAX.min(RETRY_MIN << self.failures.min(16));
        *self = PathWatch {
            is_on: self.is_on,
            measured_at: self.measured_at,
            lost: self.lost,
            failures: self.failures.saturating_add(1),
            retry_at: now + wait,
            ..PathWatch::default()
        };
    }

    /// It could be used, but not now: it may be repeated at once.
    pub(crate) fn handle_postponed(&mut self) {
        self.is_trying = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn started() -> PathWatch {
        let mut watch = PathWatch::default();
        watch.start();
        watch
    }

    fn measure(watch: &mut PathWatch, millis: &[u64]) {
        for millis in millis {
            let now = watch.measured_at + millis * 1000;
            watch.handle_round_trip(millis * 1000, now);
        }
    }

    #[test]
    fn four_long_round_trips_in_a_row_make_a_path_long() {
        let mut watch = started();
        measure(&mut watch, &[1, 70, 66, 300, 4, 67, 66, 70]);
        assert_eq!(watch.due(9), None, "the session was busy, and is again");
        measure(&mut watch, &[68]);
        assert_eq!(watch.due(9), Some(PathChange::Long(66_000)));
        measure(&mut watch, &[1]);
        assert_eq!(watch.due(9), None, "it is near again");
    }

    #[test]
    fn pings_that_an_outage_delayed_together_count_once() {
        let mut watch = started();
        for sent in (0..5).map(|number| number * 200_000) {
            watch.handle_round_trip(2 * SECOND - sent, 2 * SECOND);
        }
        assert_eq!(watch.due(2 * SECOND), None);
        measure(&mut watch, &[70; 3]);
        assert_eq!(watch.due(3 * SECOND), Some(PathChange::Long(70_000)));
    }

    #[test]
    fn a_path_that_is_not_watched_never_changes() {
        let mut watch = PathWatch::default();
        measure(&mut watch, &[70; 9]);
        (1..9).for_each(|lost| watch.handle_losses(lost, lost));
        assert_eq!((watch.due(9), watch.ping_interval(9)), (None, None));
        assert!(!watch.wants_losses());
    }

    #[test]
    fn after_a_long_round_trip_the_next_are_measured_soon() {
        let mut watch = started();
        assert_eq!(watch.ping_interval(0), None);
        measure(&mut watch, &[66]);
        assert_eq!(watch.ping_interval(0), Some(PING_INTERVAL));
        measure(&mut watch, &[66; 3]);
        assert_eq!(watch.ping_interval(0), None, "it is known");
        watch.handle_attempt();
        watch.handle_failure(0);
        measure(&mut watch, &[66]);
        assert_eq!(watch.ping_interval(RETRY_MIN - 1), None, "nothing would follow from it");
        assert_eq!(watch.ping_interval(RETRY_MIN), Some(PING_INTERVAL));
    }

    #[test]
    fn losses_at_three_times_within_half_a_minute_count() {
        let mut watch = started();
        watch.handle_losses(40, 0);
        assert_eq!(watch.due(0), None, "they were lost before");
        for (lost, at, due) in [
            (46, 1, None), // an outage
            (46, 2, None),
            (47, 29, None),
            (48, 32, None), // the outage is too long ago
            (48, 33, None),
            (49, 34, Some(PathChange::Lossy)),
            (49, 60, None),
        ] {
            watch.handle_losses(lost, at * SECOND);
            assert_eq!(watch.due(at * SECOND), due, "at {at} s");
        }
    }

    #[test]
    fn losses_are_asked_for_once_after_each_round_trip() {
        let mut watch = started();
        assert!(!watch.wants_losses());
        measure(&mut watch, &[1]);
        assert!(watch.wants_losses());
        watch.handle_losses(0, 0);
        assert!(!watch.wants_losses());
    }

    #[test]
    fn attempts_without_success_become_rare() {
        let mut watch = started();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..8 {
            measure(&mut watch, &[66; 4]);
            assert!(watch.due(now).is_some());
            watch.handle_attempt();
            assert_eq!(watch.due(now), None, "one at a time");
            watch.handle_failure(now);
            measure(&mut watch, &[66; 4]);
            let at = watch.retry_at;
            assert_eq!(watch.due(at - 1), None);
            waits.push((at - now) / SECOND);
            now = at;
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900, 900]);
    }

    #[test]
    fn a_failure_needs_new_evidence() {
        let mut watch = started();
        measure(&mut watch, &[66; 4]);
        (0..4).for_each(|lost| watch.handle_losses(lost, 0));
        watch.handle_attempt();
        watch.handle_failure(0);
        assert_eq!(watch.due(RETRY_MAX), None);
        measure(&mut watch, &[66; 4]);
        assert_eq!(watch.due(RETRY_MAX), Some(PathChange::Long(66_000)));
    }

    #[test]
    fn an_attempt_that_is_postponed_may_follow_at_once() {
        let mut watch = started();
        measure(&mut watch, &[66; 4]);
        watch.handle_attempt();
        watch.handle_postponed();
        assert_eq!(watch.due(0), Some(PathChange::Long(66_000)));
    }

    #[test]
    fn a_change_is_said_in_words() {
        assert_eq!(PathChange::Long(66_340).to_string(), "the round trip grew to 66.3 ms");
        assert_eq!(PathChange::Lossy.to_string(), "packets were lost");
    }
}
