//! Path back: beside viewer.rs, for the time in which no connection works: when a shell tries again
//! to connect. From losses and failures that it reports, to its waits. Knows times and counts;
//! never addresses, nor a clock.

use thinc_protocol::Micros;

/// 0.1 s: about the time until a restarted session process listens again. Doubled after each failed
/// attempt but the first, which follows a loss at once.
const WAIT_MIN: Micros = 100_000;
/// 75 ms between attempts that may overlap: how long a path that works again may stay unused.
const SPACING_MIN: Micros = 75_000;
/// 0.3 s, or four round trips if that is longer: an attempt without an answer by then will not get
/// one.
const ANSWER_TIMEOUT_MIN: Micros = 300_000;
const ANSWER_ROUND_TRIPS: u64 = 4;
/// 4: attempts whose answer may still be in flight; a session soon asks unknown peers at one
/// address to validate it, which costs a round trip.
const ATTEMPTS_IN_FLIGHT: u64 = 4;
/// Intervals of a browser's attempts, of which each replaces the one before, by the time since the
/// session became unresponsive. They grow, because a browser opens one WebSocket to a host at a
/// time and delays each by up to 1.25 s after 14 recent failures, and by up to 5 s after 16; the
/// kernel repeats a SYN once a second at first (doc/experiments/034).
const BROWSER_INTERVALS: [(Micros, Micros); 4] =
    [(2_000_000, 300_000), (4_000_000, 500_000), (30_000_000, 4_900_000), (Micros::MAX, 7_400_000)];
/// Round trips of a browser's handshake, with one to spare for a busy machine, and its processing.
const BROWSER_HANDSHAKE_ROUND_TRIPS: u64 = 5;
const BROWSER_HANDSHAKE: Micros = 200_000;
/// The most that counts of a round trip in a browser: that of a satellite. One that is unknown does
/// not count; the intervals grow beyond any.
const BROWSER_ROUND_TRIP_MAX: Micros = 700_000;

/// 4: the network may have changed and its round trip be longer, so of attempts that overlap one at
/// a time waits this many times as long.
pub const SLOW_ATTEMPT_FACTOR: u32 = 4;
/// 6: attempts that overlap in all, including those that a busy session has accepted without a
/// handshake yet: it takes twelve unauthenticated connections at a time from one address, and each
/// attempt may open two.
pub const ATTEMPTS_MAX: usize = 6;

/// What an attempt to connect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptMeans {
    /// Sockets of the viewer's own: attempts may overlap.
    Sockets,
    /// A program that logs in; servers limit logins.
    Login,
    /// A browser's WebSocket.
    Browser,
}

impl AttemptMeans {
    /// The longest wait after a failed attempt.
    const fn wait_max(self) -> Micros {
        match self {
            // Without a network, attempts fail at once; a person whose network is back should not
            // wait long.
            AttemptMeans::Sockets => 1_000_000,
            AttemptMeans::Login => 5_000_000,
            // Browsers delay pages that fail more often.
            AttemptMeans::Browser => 8_000_000,
        }
    }
}

/// Attempts since a connection last worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts that were begun because of a loss.
    begun: u32,
    /// Since when no connection works.
    since: Option<Micros>,
}

impl Attempts {
    /// None yet.
    pub const fn new() -> Attempts {
        Attempts { begun: 0, since: None }
    }

    /// The session is unresponsive, or the connection is lost.
    pub fn handle_loss(&mut self, now: Micros) {
        self.since.get_or_insert(now);
    }

    /// Something arrived on the connection that was unresponsive.
    pub const fn handle_received(&mut self) {
        self.since = None;
    }

    /// The session has answered: the next loss is followed by an attempt at once.
    pub const fn handle_success(&mut self) {
        *self = Attempts::new();
    }

    /// Attempts begun since a connection last worked.
    pub const fn count(&self) -> u32 {
        self.begun
    }

    /// Counts an attempt that follows one which waited for its own time-out: it need not wait.
    pub const fn begin(&mut self) {
        self.begun = self.begun.saturating_add(1);
    }

    /// The wait until the next attempt, after the connection was lost or an attempt failed. Between
    /// half of the delay and all of it by `random`, so that many viewers do not reconnect at once.
    pub fn next_wait(&mut self, means: AttemptMeans, random: u32) -> Micros {
        let before = self.begun;
        self.begin();
        let Some(doublings) = before.checked_sub(1) else { return 0 };
        let delay = (WAIT_MIN << doublings.min(16)).min(means.wait_max());
        delay / 2 + ((delay / 2 * u64::from(random)) >> 32)
    }

    /// How long an attempt over sockets waits for an answer.
    pub fn answer_timeout(round_trip: Option<Micros>) -> Micros {
        (ANSWER_ROUND_TRIPS * round_trip.unwrap_or(0)).max(ANSWER_TIMEOUT_MIN)
    }

    /// After how long an attempt over sockets is followed by the next, while it is unanswered.
    pub fn spacing(round_trip: Option<Micros>) -> Micros {
        SPACING_MIN.max(Attempts::answer_timeout(round_trip) / ATTEMPTS_IN_FLIGHT)
    }

    /// After how long a browser's attempt is given up for the next, while it is unanswered; None:
    /// it is not, as no connection was lost. `round_trip` is the shortest that was measured.
    pub fn browser_interval(&self, round_trip: Option<Micros>, now: Micros) -> Option<Micros> {
        let lost = now.saturating_sub(self.since?);
        let round_trip = round_trip.unwrap_or(0).min(BROWSER_ROUND_TRIP_MAX);
        let (_, interval) = BROWSER_INTERVALS.into_iter().find(|&(until, _)| lost < until)?;
        Some(interval.max(BROWSER_HANDSHAKE_ROUND_TRIPS * round_trip + BROWSER_HANDSHAKE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(means: AttemptMeans, random: u32, count: usize) -> Vec<Micros> {
        let mut attempts = Attempts::new();
        (0..count).map(|_| attempts.next_wait(means, random) / 1_000).collect()
    }

    #[test]
    fn the_first_attempt_is_at_once_and_later_waits_double() {
        let last = |means| *waits(means, u32::MAX, 12).last().expect("there are 12");
        assert_eq!(
            waits(AttemptMeans::Sockets, u32::MAX, 7),
            [0, 99, 199, 399, 799, 999, 999],
            "a random number is less than 1"
        );
        assert_eq!(waits(AttemptMeans::Sockets, 0, 7), [0, 50, 100, 200, 400, 500, 500]);
        assert_eq!([last(AttemptMeans::Login), last(AttemptMeans::Browser)], [4_999, 7_999]);
    }

    #[test]
    fn a_success_begins_again_and_a_night_without_a_network_does_not_overflow() {
        let mut attempts = Attempts { begun: u32::MAX, since: None };
        assert_eq!(attempts.next_wait(AttemptMeans::Sockets, 0), 500_000);
        assert_eq!(attempts.count(), u32::MAX);
        attempts.handle_success();
        assert_eq!(attempts.next_wait(AttemptMeans::Sockets, 0), 0);
    }

    #[test]
    fn attempts_over_sockets_overlap_by_the_round_trip() {
        assert_eq!([None, Some(2_000), Some(66_000)].map(Attempts::spacing), [75_000; 3]);
        assert_eq!(Attempts::spacing(Some(600_000)), 600_000);
        assert_eq!(Attempts::answer_timeout(Some(600_000)), 2_400_000);
    }

    #[test]
    fn a_browsers_attempts_are_frequent_at_first_and_wait_for_a_handshake() {
        let mut attempts = Attempts::new();
        assert_eq!(attempts.browser_interval(Some(2_000), 0), None, "the first takes its time");
        attempts.handle_loss(5_000_000);
        attempts.handle_loss(6_000_000);
        let at = |seconds: u64, round_trip| {
            let interval = attempts.browser_interval(Some(round_trip), seconds * 1_000_000);
            interval.expect("a connection was lost") / 1_000
        };
        assert_eq!(
            [5, 7, 9, 34, 35].map(|seconds| at(seconds, 2_000)),
            [300, 500, 4_900, 4_900, 7_400]
        );
        assert_eq!(at(5, 100_000), 700, "a handshake takes longer");
        attempts.handle_received();
        attempts.handle_loss(60_000_000);
        let again = attempts.browser_interval(Some(2_000), 60_000_000);
        assert_eq!(again, Some(300_000), "it is another outage");
    }
}
