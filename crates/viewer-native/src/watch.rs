//! Whether the path still lives: a session answers in a round trip, so long silence is the end of a connection that the
//! network forgot to mention. And whether this machine slept meanwhile, after which every connection is in doubt.
//! From client.rs. Knows durations; the clocks it reads are arguments, but for the one that sleep stops.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thinc_protocol::Micros;

/// 0.17 s beyond two round trips: what a path that drops a packet takes to bring the answer after all; and a person should read of it
/// after 0.2 s.
const QUIET: Micros = 170_000;
/// 1 s: a round trip that is not measured yet, and the longest that is believed: an answer that came after an outage tells nothing.
const ROUND_TRIP_MAX: Micros = 1_000_000;
/// 0.2 s: while nothing is heard, the session is asked again this often.
const ASK_INTERVAL: Micros = 200_000;
/// 0.5 s: a path that has said nothing for so long is sought another way beside, …
const RESCUE_AFTER: Micros = 500_000;
/// … or 2 s, where each question goes by itself and is not held up by those before: that way comes back as soon as a new one would.
const RESCUE_AFTER_BY_QUIC: Micros = 2_000_000;
/// 5 s: longer than a change of networks takes, and than the pauses that a path recovers from by itself; short enough that
/// nobody types a sentence into nothing.
const SILENCE_MAX: Micros = 5_000_000;
/// 2 s, where the machine has slept: the connection has most likely gone, and a person sits there waiting.
const SILENCE_MAX_AFTER_SLEEP: Micros = 2_000_000;
/// Less is no sleep, but two clocks that are read one after the other.
const SLEEP_MIN: Duration = Duration::from_secs(1);

/// Patience with one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// How long this machine has slept in all, when that was last looked at.
    slept: Duration,
    in_doubt: bool,
    /// Nothing is heard since then, and the session was asked then for the last time.
    quiet: Option<(Micros, Micros)>,
}

impl Watch {
    /// A new connection.
    pub(crate) fn new(slept: Duration) -> Watch {
        Watch { slept, in_doubt: false, quiet: None }
    }

    /// True when the machine has slept since this was last asked: whether the session is still there should be asked now.
    pub(crate) fn has_slept(&mut self, slept: Duration) -> bool {
        let sleep = slept.saturating_sub(self.slept);
        self.slept = slept;
        self.in_doubt |= sleep >= SLEEP_MIN;
        sleep >= SLEEP_MIN
    }

    /// The session said something. True: it had not for too long.
    pub(crate) fn handle_heard(&mut self) -> bool {
        self.in_doubt = false;
        self.quiet.take().is_some()
    }

    /// Nothing is heard though an answer is due; the path may be gone.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.is_some()
    }

    /// When [`Watch::handle_quiet`] is due, while that answer is owed; `round_trip` is the shortest there was: what waits behind a
    /// picture in a queue is not silence.
    pub(crate) fn quiet_at(&self, unanswered_since: Option<Micros>, round_trip: Option<Micros>) -> Option<Micros> {
        let round_trip = round_trip.unwrap_or(ROUND_TRIP_MAX).min(ROUND_TRIP_MAX);
        let begins = unanswered_since? + 2 * round_trip + QUIET;
        Some(self.quiet.map_or(begins, |(_, asked)| asked + ASK_INTERVAL))
    }

    /// When another way is sought, where nothing is heard.
    pub(crate) fn rescue_at(&self, by_quic: bool) -> Option<Micros> {
        let (since, _) = self.quiet?;
        Some(since + if by_quic { RESCUE_AFTER_BY_QUIC } else { RESCUE_AFTER })
    }

    /// It is due: the session is to be asked again. True: nothing is heard from now on.
    pub(crate) fn handle_quiet(&mut self, now: Micros) -> bool {
        let since = self.quiet.map_or(now, |(since, _)| since);
        self.quiet.replace((since, now)).is_none()
    }

    /// When silence since then is the end.
    pub(crate) fn ends_at(&self, unanswered_since: Option<Micros>) -> Option<Micros> {
        let patience = if self.in_doubt { SILENCE_MAX_AFTER_SLEEP } else { SILENCE_MAX };
        unanswered_since.map(|since| since + patience)
    }
}

/// How long this machine has slept since it was started: one clock goes on meanwhile, the other stands still.
pub(crate) fn slept() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_a_connection_sooner_once_the_machine_has_slept() {
        let mut watch = Watch::new(Duration::from_secs(100));
        assert_eq!(watch.ends_at(None), None, "nothing was asked");
        assert_eq!(watch.ends_at(Some(7)), Some(7 + SILENCE_MAX));
        assert!(!watch.has_slept(Duration::from_millis(100_300)), "two clocks are never read at once");
        assert!(watch.has_slept(Duration::from_secs(130)));
        assert!(!watch.has_slept(Duration::from_secs(130)), "it is said once");
        assert_eq!(watch.ends_at(Some(7)), Some(7 + SILENCE_MAX_AFTER_SLEEP));
        watch.handle_heard();
        assert_eq!(watch.ends_at(Some(7)), Some(7 + SILENCE_MAX));
    }

    #[test]
    fn what_is_not_answered_within_two_round_trips_and_a_bit_is_quiet_until_something_is_heard() {
        let mut watch = Watch::new(Duration::ZERO);
        assert_eq!(watch.quiet_at(None, Some(66_000)), None, "nothing was asked");
        assert_eq!(watch.quiet_at(Some(7), Some(66_000)), Some(7 + 302_000));
        assert_eq!(watch.quiet_at(Some(7), None), Some(7 + 2_170_000), "who knows how long the path is");
        assert_eq!(watch.quiet_at(Some(7), Some(30_000_000)), Some(7 + 2_170_000), "the answer came out of a tunnel");
        assert!(watch.handle_quiet(302_007));
        assert_eq!(watch.quiet_at(Some(7), Some(66_000)), Some(502_007));
        assert!(!watch.handle_quiet(502_007), "it is said once");
        assert_eq!(watch.rescue_at(false), Some(302_007 + RESCUE_AFTER), "and from when it was said");
        assert_eq!(watch.rescue_at(true), Some(302_007 + RESCUE_AFTER_BY_QUIC));
        assert!(watch.is_quiet());
        assert!(watch.handle_heard());
        assert!(!watch.is_quiet() && !watch.handle_heard() && watch.rescue_at(false).is_none());
    }

    #[test]
    fn a_machine_that_runs_this_does_not_sleep_meanwhile() {
        let before = slept();
        assert!(slept().saturating_sub(before) < SLEEP_MIN);
    }
}
