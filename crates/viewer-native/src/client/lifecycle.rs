//! Path 10/13: under client.rs; what its owner wants of its threads, and whether they go on.
//! The end of the client, attempts that do not wait, and the time in which a person is asked. Knows
//! no connection; the lock's holders wake each other.

use std::time::{Duration, Instant};

/// Whether the client's threads go on, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// The owner closes the client.
    is_stopped: bool,
    /// The network thread has ended.
    has_ended: bool,
    /// The owner does not wait for the next attempt.
    retries: bool,
    /// Since when the user is asked whether to copy thinc to a host, or it is copied; and how long
    /// that has taken before. No wait counts this time.
    held_since: Option<Instant>,
    held: Duration,
}

impl Lifecycle {
    /// The owner closes the client.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The network thread has ended.
    pub(super) fn handle_end(&mut self) {
        self.has_ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The owner wants the next attempt at once.
    pub(super) fn retry(&mut self) {
        self.retries = true;
    }

    /// True once after the owner wanted that; the network thread waits no longer.
    pub(super) fn take_retry(&mut self) -> bool {
        std::mem::take(&mut self.retries)
    }

    /// A question and a copy begin, or have ended.
    pub(super) fn hold(&mut self, begins: bool, now: Instant) {
        if let Some(since) = std::mem::replace(&mut self.held_since, begins.then_some(now)) {
            self.held += now - since;
        }
    }

    /// Time that no wait counts.
    pub(super) fn held(&self, now: Instant) -> Duration {
        self.held + self.held_since.map_or(Duration::ZERO, |since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_questions_is_added_up() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut lifecycle = Lifecycle::default();
        lifecycle.hold(false, at(0));
        assert_eq!(lifecycle.held(at(1)), Duration::ZERO);
        lifecycle.hold(true, at(1));
        assert_eq!(lifecycle.held(at(4)), Duration::from_secs(3), "it is still asked");
        // A copy follows the question.
        lifecycle.hold(true, at(4));
        lifecycle.hold(false, at(6));
        assert_eq!(lifecycle.held(at(100)), Duration::from_secs(5));
        lifecycle.hold(true, at(100));
        assert_eq!(lifecycle.held(at(101)), Duration::from_secs(6));
    }

    #[test]
    fn a_retry_is_taken_once_and_an_end_stays() {
        let mut lifecycle = Lifecycle::default();
        lifecycle.retry();
        assert!(lifecycle.take_retry() && !lifecycle.take_retry());
        lifecycle.stop();
        assert!(lifecycle.is_stopped() && !lifecycle.has_ended(), "the thread has to notice");
        lifecycle.handle_end();
        assert!(lifecycle.has_ended());
    }
}
