//! How long to wait before the viewer tries again to reach a session it has lost.
//! At once, then 0.1 s, doubled up to 1 s, or up to 5 s where each attempt is a login. Knows numbers of attempts; the client's thread waits.

use std::time::Duration;

/// 0.1 s: about what a restarted session process needs to listen again.
const FIRST: Duration = Duration::from_millis(100);
/// 1 s: a machine that has no network says so at once, and a person who has got it back should not wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);
/// 5 s: a program is started for each attempt, and servers count logins.
pub(crate) const LONGEST_BY_SSH: Duration = Duration::from_secs(5);

/// Attempts since the connection was last good.
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

    /// Counts an attempt that took its time; the next need not wait.
    pub(crate) fn count(&mut self) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        Duration::ZERO
    }

    /// Attempts made since the connection was last good.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The session answered: the next loss is tried at once again.
    pub(crate) fn handle_good(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_try_is_at_once_and_the_rest_double_up_to_a_second() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next_wait(LONGEST).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.next_wait(LONGEST_BY_SSH).as_millis(), 5000);
        backoff.handle_good();
        assert_eq!(backoff.next_wait(LONGEST), Duration::ZERO);
        let mut old = Backoff { attempts: u32::MAX };
        assert_eq!(old.next_wait(LONGEST), LONGEST, "a night without a network");
        assert_eq!(old.next_wait(LONGEST), LONGEST);
    }
}
