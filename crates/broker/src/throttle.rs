//! How long a login waits, and how many there may be. Beside the path: asked by helper.rs before
//! each login. Knows sources, accounts and times, which are arguments; never passwords.
//!
//! Failures delay later attempts of their source and, much less, of their account: who attacks an
//! account delays its owner by a second, and never locks them out.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Logins in progress, in all and from one source. Each is a process that waits for a person.
pub(crate) const ATTEMPTS_MAX: usize = 48;
/// See [`ATTEMPTS_MAX`].
pub(crate) const ATTEMPTS_PER_SOURCE_MAX: usize = 6;
/// A refusal is answered a whole number of these after the attempt's last message, and not at once:
/// PAM takes 1 ms for an unknown user and 45 ms for a wrong password, and a slow directory more.
pub(crate) const REFUSAL_STEP: Duration = Duration::from_secs(1);
/// Failures without a delay, and the longest delay.
const SOURCE: Penalty = Penalty { free: 4, max: Duration::from_secs(8) };
const ACCOUNT: Penalty = Penalty { free: 8, max: Duration::from_secs(1) };
/// Delay of the first attempt that has one; doubled by each further failure.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Every such time halves the failures that count.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Sources and accounts that are remembered; past it, the one that failed longest ago is forgotten.
const REMEMBERED_MAX: usize = 4096;

struct Penalty {
    free: u32,
    max: Duration,
}

impl Penalty {
    fn delay(&self, failures: u32) -> Duration {
        match failures.checked_sub(self.free + 1) {
            None => Duration::ZERO,
            Some(over) => (FIRST_DELAY * 2u32.saturating_pow(over.min(16))).min(self.max),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn at(&self, now: Instant) -> u32 {
        let halvings = now.saturating_duration_since(self.last).as_secs() / HALF_LIFE.as_secs();
        self.count.checked_shr(halvings.min(32) as u32).unwrap_or(0)
    }
}

#[derive(Debug)]
struct Table<K>(HashMap<K, Failures>);

impl<K: Hash + Eq + Clone> Table<K> {
    fn failures(&self, key: &K, now: Instant) -> u32 {
        self.0.get(key).map_or(0, |failures| failures.at(now))
    }

    fn add(&mut self, key: K, now: Instant) {
        let count = self.failures(&key, now).saturating_add(1);
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, failures)| failures.last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(key, Failures { count, last: now });
    }
}

/// Remembers failures.
#[derive(Debug)]
pub(crate) struct Throttle {
    sources: Table<IpAddr>,
    accounts: Table<String>,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle { sources: Table(HashMap::new()), accounts: Table(HashMap::new()) }
    }
}

/// The source that an address belongs to: an IPv6 subscriber has a whole /64.
pub(crate) fn source(address: Ipv6Addr) -> IpAddr {
    thinc_session_server::gate::source(IpAddr::V6(address))
}

impl Throttle {
    /// How long an attempt that begins now waits.
    pub(crate) fn delay(&self, source: IpAddr, user: &str, now: Instant) -> Duration {
        let account = self.accounts.failures(&user.to_owned(), now);
        SOURCE.delay(self.sources.failures(&source, now)).max(ACCOUNT.delay(account))
    }

    /// An attempt was refused.
    pub(crate) fn record_failure(&mut self, source: IpAddr, user: &str, now: Instant) {
        self.sources.add(source, now);
        self.accounts.add(user.to_owned(), now);
    }
}

/// When a refusal is answered, for an attempt whose last message came at `asked`.
pub(crate) fn refusal_time(asked: Instant, now: Instant) -> Instant {
    let steps = now.saturating_duration_since(asked).as_millis() / REFUSAL_STEP.as_millis() + 1;
    asked + REFUSAL_STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

/// Which attempt makes room for one from `source`, by its place in this list of the sources of all
/// attempts, the oldest first; `None` while there is room. The source with the most attempts gives
/// one up: its oldest.
pub(crate) fn displaced(sources: &[IpAddr], source: IpAddr) -> Option<usize> {
    let of = |source: IpAddr| sources.iter().filter(move |&&other| other == source).count();
    let from = if of(source) >= ATTEMPTS_PER_SOURCE_MAX {
        source
    } else if sources.len() >= ATTEMPTS_MAX {
        // Of several, the one with the oldest attempt: an honest one takes a second.
        *sources.iter().rev().max_by_key(|&&source| of(source))?
    } else {
        return None;
    };
    sources.iter().position(|&other| other == from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    #[test]
    fn a_source_waits_longer_and_an_honest_one_at_most_a_second() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.delay(address(1), "anna", start), Duration::ZERO);
        let mut delays = Vec::new();
        for _ in 0..200 {
            delays.push(throttle.delay(address(1), "anna", start));
            throttle.record_failure(address(1), "anna", start);
        }
        assert!(delays[..5].iter().all(Duration::is_zero) && delays.is_sorted());
        assert_eq!((delays[5], delays[199]), (FIRST_DELAY, Duration::from_secs(8)));
        for other in 2..52 {
            (0..4).for_each(|_| throttle.record_failure(address(other), "anna", start));
        }
        assert_eq!(throttle.delay(address(99), "anna", start), Duration::from_secs(1));
        assert_eq!(throttle.delay(address(99), "otto", start), Duration::ZERO);
        let later = start + Duration::from_secs(60 * 10);
        assert_eq!(throttle.delay(address(1), "anna", later), Duration::ZERO);
    }

    #[test]
    fn a_table_stays_small_and_forgets_what_is_old() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        for last in 0..REMEMBERED_MAX as u16 + 100 {
            let now = start + Duration::from_millis(u64::from(last));
            throttle.record_failure(address(last), &last.to_string(), now);
        }
        assert_eq!(throttle.sources.0.len(), REMEMBERED_MAX);
        assert!(!throttle.sources.0.contains_key(&address(0)));
        assert!(throttle.sources.0.contains_key(&address(REMEMBERED_MAX as u16 + 99)));
    }

    #[test]
    fn a_refusal_takes_a_whole_number_of_steps() {
        let asked = Instant::now();
        let after = |ms| refusal_time(asked, asked + Duration::from_millis(ms)) - asked;
        assert_eq!(after(0), REFUSAL_STEP);
        assert_eq!(after(999), REFUSAL_STEP);
        assert_eq!(after(1000), REFUSAL_STEP * 2);
    }

    #[test]
    fn a_crowd_displaces_its_own() {
        let one = address(1);
        let mut open = vec![address(2)];
        open.extend([one; ATTEMPTS_PER_SOURCE_MAX]);
        assert_eq!(displaced(&open, one), Some(1), "its own oldest");
        assert_eq!(displaced(&open, address(3)), None);
        let mut full: Vec<IpAddr> = (10..10 + ATTEMPTS_MAX as u16 - 3).map(address).collect();
        full.extend([one; 3]);
        let crowded = displaced(&full, address(3)).unwrap();
        assert_eq!(full[crowded], one);
        let all_different: Vec<IpAddr> = (10..10 + ATTEMPTS_MAX as u16).map(address).collect();
        assert_eq!(displaced(&all_different, address(3)), Some(0), "the oldest of all");
    }
}
