//! How long to wait before the viewer retries a lost session: at once, then 0.1 s, doubled up to 1
//! s, or up to 5 s if each attempt is a login. Knows numbers of attempts; the client's thread
//! waits.

use std::time::Duration;

/// 0.1 s: about the time until a restarted session process listens again.
const FIRST: Duration = Duration::from_millis(100);
/// 1 s: without a network, attempts fail at once; a user whose network is back should not wait
/// long.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);
/// 5 s: each attempt starts a program, and servers limit logins.
pub(crate) const WAIT_MAX_SSH: Duration = Duration::from_secs(5);

/// Attempts since the last successful connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The wait before the next attempt.
    pub(crate) fn next_wait(&mut self, longest: Duration) -> Duration {
        let attempt = self.attempts;
        self.count();
        match attempt {
            0 => Duration::ZERO,
            n => FIRST.saturating_mul(1 << (n - 1).min(16)).min(longest),
        }
    }

    /// Counts an attempt that waited for its own time-out; the next need not wait.
    pub(crate) fn count(&mut self) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        Duration::ZERO
    }

    /// Attempts made since the last successful connection.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The session answered: the next loss is retried at once.
    pub(crate) fn handle_success(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_at_once_and_later_waits_double_up_to_a_second() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next_wait(WAIT_MAX).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.next_wait(WAIT_MAX_SSH).as_millis(), 5000);
        backoff.handle_success();
        assert_eq!(backoff.next_wait(WAIT_MAX), Duration::ZERO);
        let mut old = Backoff { attempts: u32::MAX };
        assert_eq!(old.next_wait(WAIT_MAX), WAIT_MAX, "a night without a network");
        assert_eq!(old.next_wait(WAIT_MAX), WAIT_MAX);
    }
}
