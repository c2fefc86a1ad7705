//! What all sessions have counted, together, since this process was started. Beside the path: under
//! process.rs. Each session says what it has counted itself; what has come to it since the last
//! time is added, if one session could have done that in the time. So a session that ends takes
//! nothing away, and a person who invents figures counts as one busy session at most. Knows
//! counts; never where they come from.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thinc_session_server::figures::{Counts, Times};

/// Most in a second of one session: updates and jobs are bounded by what a core can encode, echoes
/// by the limit of 2000 inputs.
const TIMES_PER_SECOND_MAX: u64 = 20_000;
/// Longest of one time: a viewer that applies nothing for so long is disconnected.
const TIME_US_MAX: u64 = 60_000_000;
/// 40 Gbit/s.
const BYTES_PER_SECOND_MAX: u64 = 5_000_000_000;
/// Added to the time since the last round: what is asked at one moment is answered at another.
const SLACK: Duration = Duration::from_secs(5);

/// A session, by its user and name.
pub(super) type SessionKey = (String, String);

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    /// Times that figures were impossible.
    pub(super) implausible: u64,
    /// What each session had counted in the last round.
    last: HashMap<SessionKey, Counts>,
    last_round: Option<Instant>,
}

impl Totals {
    /// Adds what has come to these sessions; each has its age.
    pub(super) fn add_round(
        &mut self,
        sessions: impl IntoIterator<Item = (SessionKey, Duration, Counts)>,
        now: Instant,
    ) {
        let since = self.last_round.map(|last| now.duration_since(last) + SLACK);
        let mut seen = HashMap::new();
        for (key, age, counts) in sessions {
            let before = match self.last.get(&key) {
                Some(before) if is_later(&counts, before) => Some(*before),
                // Its process was restarted, and counts again.
                Some(_) => Some(Counts::default()),
                // It has been started since the last round; else what it counted before this
                // process knew it is no part of any time.
                None => since.filter(|since| age <= *since).map(|_| Counts::default()),
            };
            if let (Some(before), Some(since)) = (before, since) {
                let more = difference(&counts, &before);
                if is_plausible(&more, since) {
                    add(&mut self.counts, &more);
                } else {
                    self.implausible += 1;
                }
            }
            seen.insert(key, counts);
        }
        self.last = seen;
        self.last_round = Some(now);
    }
}

/// All numbers, in one order.
fn numbers(counts: &Counts) -> impl Iterator<Item = u64> {
    let Counts { echo, round_trip, encode, command_bytes, sent_bytes, updates } = *counts;
    let times = [echo, round_trip, encode].into_iter();
    times
        .flat_map(|Times { counts, sum_us }| counts.into_iter().chain([sum_us]))
        .chain(command_bytes)
        .chain([sent_bytes, updates])
}

fn is_later(counts: &Counts, before: &Counts) -> bool {
    numbers(counts).zip(numbers(before)).all(|(now, before)| now >= before)
}

fn combine(one: &Counts, other: &Counts, with: impl Fn(u64, u64) -> u64) -> Counts {
    fn each<const N: usize>(a: [u64; N], b: [u64; N], with: &impl Fn(u64, u64) -> u64) -> [u64; N] {
        std::array::from_fn(|at| with(a[at], b[at]))
    }
    let times = |a: Times, b: Times| Times {
        counts: each(a.counts, b.counts, &with),
        sum_us: with(a.sum_us, b.sum_us),
    };
    Counts {
        echo: times(one.echo, other.echo),
        round_trip: times(one.round_trip, other.round_trip),
        encode: times(one.encode, other.encode),
        command_bytes: each(one.command_bytes, other.command_bytes, &with),
        sent_bytes: with(one.sent_bytes, other.sent_bytes),
        updates: with(one.updates, other.updates),
    }
}

fn difference(counts: &Counts, before: &Counts) -> Counts {
    combine(counts, before, u64::saturating_sub)
}

fn add(sum: &mut Counts, more: &Counts) {
    // No sum of plausible differences comes near the limit.
    *sum = combine(sum, more, u64::saturating_add);
}

/// Whether one session can have done this in the time.
fn is_plausible(more: &Counts, time: Duration) -> bool {
    let most = |per_second: u64| per_second.saturating_mul(time.as_secs() + 1);
    let times = |times: &Times| {
        let count = times.counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        count <= most(TIMES_PER_SECOND_MAX) && times.sum_us <= count.saturating_mul(TIME_US_MAX)
    };
    let bytes = more.command_bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    times(&more.echo)
        && times(&more.round_trip)
        && times(&more.encode)
        && bytes <= most(BYTES_PER_SECOND_MAX)
        && more.sent_bytes <= most(BYTES_PER_SECOND_MAX)
        && more.updates <= most(TIMES_PER_SECOND_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn counted(updates: u64) -> Counts {
        let mut counts = Counts { updates, sent_bytes: updates * 100, ..Counts::default() };
        counts.echo.counts[2] = updates;
        counts.echo.sum_us = updates * 300;
        counts
    }

    fn session(name: &str, age: Duration, updates: u64) -> (SessionKey, Duration, Counts) {
        (("anna".to_owned(), name.to_owned()), age, counted(updates))
    }

    #[test]
    fn what_comes_to_each_session_is_added_and_an_end_takes_nothing_away() {
        let (mut totals, start) = (Totals::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        // Before the first round nobody knows when that was counted.
        totals.add_round([session("old", 10 * MINUTE, 5000)], at(0));
        assert_eq!(totals.counts.updates, 0);
        let new = session("new", Duration::from_secs(10), 7);
        totals.add_round([session("old", 10 * MINUTE, 5010), new], at(15));
        assert_eq!(totals.counts.updates, 17);
        // One ends; the other's process was restarted; a third was not seen for a while.
        totals
            .add_round([session("new", MINUTE, 3), session("late", 60 * MINUTE, 100_000)], at(30));
        assert_eq!(totals.counts, counted(20));
        totals.add_round([session("late", 60 * MINUTE, 100_001)], at(45));
        assert_eq!((totals.counts, totals.implausible), (counted(21), 0));
        assert_eq!(totals.last.len(), 1, "what has ended is forgotten");
    }

    #[test]
    fn figures_that_one_session_cannot_have_are_left_out() {
        let (mut totals, start) = (Totals::default(), Instant::now());
        totals.add_round([session("x", MINUTE, 0), session("y", MINUTE, 0)], start);
        let mut invented = session("x", MINUTE, 0);
        invented.2.sent_bytes = u64::MAX;
        let at = start + Duration::from_secs(15);
        totals.add_round([invented, session("y", MINUTE, 4)], at);
        assert_eq!((totals.counts, totals.implausible), (counted(4), 1));
        for wrong in [
            |counts: &mut Counts| counts.echo.counts = [u64::MAX; 15],
            |counts: &mut Counts| counts.round_trip.sum_us = 1,
            |counts: &mut Counts| counts.encode.counts[0] = 1_000_000,
            |counts: &mut Counts| counts.command_bytes = [u64::MAX; 9],
            |counts: &mut Counts| counts.updates = 1 << 40,
        ] {
            let mut counts = Counts::default();
            wrong(&mut counts);
            assert!(!is_plausible(&counts, Duration::from_secs(20)), "{counts:?}");
        }
    }
}
