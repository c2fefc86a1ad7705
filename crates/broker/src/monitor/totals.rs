//! What all sessions have counted, together, since this process was started. Beside the path: under
//! process.rs. Each session says what it has counted itself; what has come to it since it was heard
//! last is added, if one session could have done that in the time. So a session that ends takes
//! nothing away, and a person who invents figures counts as the busy sessions that an agent may
//! tell of (`FIGURES_MAX`) at most. Knows counts; never where they come from.

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
/// Added to each time: what is asked at one moment is answered at another.
const SLACK: Duration = Duration::from_secs(5);

/// What a user's agent says of each session, by its name: its age, and what it has counted, unless
/// it has not answered. `None`: the agent itself has not.
pub(super) type Said = Option<HashMap<String, (Duration, Option<Counts>)>>;

/// A user whose login is open.
#[derive(Debug)]
struct User {
    /// When their agent was heard last; until then, the round before they logged in.
    heard: Instant,
    /// What each session had counted when it was heard last, and when that was.
    sessions: HashMap<String, (Counts, Instant)>,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) counts: Counts,
    /// Times that figures were impossible.
    pub(super) implausible: u64,
    users: HashMap<String, User>,
    last_round: Option<Instant>,
}

impl Totals {
    /// Adds what has come to the sessions of these users, who are all whose login is open. What
    /// was not heard in this round is added in a later one.
    pub(super) fn add_round(&mut self, agents: &HashMap<String, Said>, now: Instant) {
        self.users.retain(|user, _| agents.contains_key(user));
        let known_since = self.last_round.unwrap_or(now);
        for (user, said) in agents {
            let user = self
                .users
                .entry(user.clone())
                .or_insert_with(|| User { heard: known_since, sessions: HashMap::new() });
            let Some(said) = said else { continue };
            user.sessions.retain(|session, _| said.contains_key(session));
            let since_heard = now.duration_since(user.heard) + SLACK;
            user.heard = now;
            for (session, (age, counts)) in said {
                let Some(counts) = counts else { continue };
                let (before, time) = match user.sessions.insert(session.clone(), (*counts, now)) {
                    Some((before, at)) => {
                        // One that has counted less was restarted, and counts again.
                        let before =
                            if is_later(counts, &before) { before } else { Counts::default() };
                        (before, now.duration_since(at) + SLACK)
                    }
                    None if *age <= since_heard => (Counts::default(), since_heard),
                    // What it counted before this process knew it is no part of any time.
                    None => continue,
                };
                let more = difference(counts, &before);
                if is_plausible(&more, time) {
                    add(&mut self.counts, &more);
                } else {
                    self.implausible += 1;
                }
            }
        }
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

    /// Of one session: its name, its age, and what it has counted.
    type Told<'a> = (&'a str, Duration, Option<Counts>);

    /// What the agents of these users say.
    fn said<'a>(users: &[(&str, Option<&[Told<'a>]>)]) -> HashMap<String, Said> {
        let of_agent = |told: &[Told<'a>]| {
            told.iter().map(|&(name, age, counts)| (name.to_owned(), (age, counts))).collect()
        };
        users.iter().map(|(user, told)| ((*user).to_owned(), told.map(of_agent))).collect()
    }

    /// Anna's agent, alone.
    fn annas<'a>(told: &[Told<'a>]) -> HashMap<String, Said> {
        said(&[("anna", Some(told))])
    }

    #[test]
    fn what_comes_to_each_session_is_added_and_an_end_takes_nothing_away() {
        let (mut totals, start) = (Totals::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let told = |name, age, updates| (name, age, Some(counted(updates)));
        // Before the first round nobody knows when that was counted.
        totals.add_round(&annas(&[told("old", 10 * MINUTE, 5000)]), at(0));
        assert_eq!(totals.counts.updates, 0);
        let new = told("new", Duration::from_secs(10), 7);
        totals.add_round(&annas(&[told("old", 10 * MINUTE, 5010), new]), at(15));
        assert_eq!(totals.counts.updates, 17);
        // One ends; the other's process was restarted; a third was not known before.
        let late = told("late", 60 * MINUTE, 100_000);
        totals.add_round(&annas(&[told("new", MINUTE, 3), late]), at(30));
        assert_eq!(totals.counts, counted(20));
        totals.add_round(&annas(&[told("late", 60 * MINUTE, 100_001)]), at(45));
        assert_eq!((totals.counts, totals.implausible), (counted(21), 0));
        assert_eq!(totals.users["anna"].sessions.len(), 1, "what has ended is forgotten");
        totals.add_round(&said(&[]), at(60));
        assert!(totals.users.is_empty(), "and who has logged out");
    }

    #[test]
    fn what_is_heard_a_round_late_is_added_then() {
        let (mut totals, start) = (Totals::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let told = |name, age, updates| (name, age, Some(counted(updates)));
        totals.add_round(&annas(&[told("desk", 10 * MINUTE, 100)]), at(0));
        // Her agent does not answer; then her session does not, which has a new one beside it.
        totals.add_round(&said(&[("anna", None)]), at(15));
        let silent = ("desk", 10 * MINUTE, None);
        let new = told("new", Duration::from_secs(25), 4);
        totals.add_round(&annas(&[silent, new]), at(30));
        assert_eq!(totals.counts, counted(4));
        totals.add_round(&annas(&[told("desk", 11 * MINUTE, 170), new]), at(45));
        assert_eq!(totals.counts, counted(74));
        // As many as 45 s allow, which 15 s would not.
        totals.add_round(&said(&[("anna", None), ("otto", None)]), at(60));
        let busy = told("desk", 12 * MINUTE, 170 + 45 * TIMES_PER_SECOND_MAX);
        // Otto has logged in since the round at 45, and started a session.
        let his = [told("his", Duration::from_secs(40), 9)];
        totals.add_round(&said(&[("anna", Some(&[busy])), ("otto", Some(&his))]), at(90));
        assert_eq!(totals.counts.updates, 74 + 45 * TIMES_PER_SECOND_MAX + 9);
        assert_eq!(totals.implausible, 0);
    }

    #[test]
    fn figures_that_one_session_cannot_have_are_left_out() {
        let (mut totals, start) = (Totals::default(), Instant::now());
        let told = |name, counts| (name, MINUTE, Some(counts));
        totals.add_round(&annas(&[told("x", counted(0)), told("y", counted(0))]), start);
        let invented = Counts { sent_bytes: u64::MAX, ..Counts::default() };
        let at = start + Duration::from_secs(15);
        totals.add_round(&annas(&[told("x", invented), told("y", counted(4))]), at);
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
