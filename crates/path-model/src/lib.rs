//! Path 6/13 and 10/13: under session-core/delivery/flow.rs, which measures by a viewer's
//! acknowledgements of updates, and transport/congestion.rs, which does by QUIC's of packets.
//! The part of BBR's model of a path (Cardwell et al. 2016) that both share: rounds, the best rate
//! of the last of them, start-up, and when a long path is probed. Each keeps its own measure of
//! delay, since an update is acknowledged by a program and a packet by a kernel.
//! Knows numbers in any unit; never what was sent, nor a clock. Rates that are set and not measured
//! are beside it: virtual_queue.rs, shares.rs.
#![forbid(unsafe_code)]

mod shares;
mod virtual_queue;

use std::collections::VecDeque;

pub use shares::Shares;
pub use virtual_queue::{VirtualQueue, wire_bytes};

/// Rounds over which the best rate is remembered (BBR: 10).
pub const RATE_ROUNDS: u64 = 10;
/// Growth of the rate in one round below which the path counts as full (BBR: 1.25).
pub const STARTUP_GROWTH: f64 = 1.25;
/// For how many rounds in a row (BBR: 3).
const STARTUP_ROUNDS: u32 = 3;
/// One round in so many sends a quarter more, to find new capacity of a long path. On a short one,
/// whose delay is at most so many times the queue that is allowed, the queue alone finds it.
const PROBE_ROUNDS: u64 = 8;
/// How much such a round sends.
pub const PROBE_GAIN: f64 = 1.25;

/// Round trips, counted: one ends when something is acknowledged that was sent after it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    number: u64,
    ends_at_delivered: u64,
}

impl Rounds {
    /// The number of the round that goes on.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Something was acknowledged that was sent when `delivered_before` bytes had been delivered,
    /// and now `delivered` are. True if that ends a round.
    pub fn acknowledged(&mut self, delivered_before: u64, delivered: u64) -> bool {
        let ends = delivered_before >= self.ends_at_delivered;
        if ends {
            self.number += 1;
            self.ends_at_delivered = delivered;
        }
        ends
    }

    /// A round of this number sends more than the path is known to carry, on a path with this delay
    /// and a queue of at most this, in one unit.
    pub fn probes(number: u64, delay: u64, queue_max: u64) -> bool {
        number.is_multiple_of(PROBE_ROUNDS) && delay > PROBE_ROUNDS * queue_max
    }
}

/// The best rate of the last rounds.
#[derive(Clone, Debug, Default)]
pub struct BestRate {
    /// Rounds and their rates, falling from front to back: at most one a round.
    entries: VecDeque<(u64, f64)>,
}

impl BestRate {
    /// 0 before one was measured.
    pub fn best(&self) -> f64 {
        self.entries.front().map_or(0.0, |&(_, rate)| rate)
    }

    /// Adds a rate of this round, and forgets those that are older than so many rounds.
    pub fn add(&mut self, rate: f64, round: u64, rounds: u64) {
        while self.entries.back().is_some_and(|&(_, worse)| worse <= rate) {
            self.entries.pop_back();
        }
        // A worse rate of the same round would never become the best.
        if self.entries.back().is_none_or(|&(last, _)| last != round) {
            self.entries.push_back((round, rate));
        }
        while self.entries.len() > 1 && self.entries[0].0 + rounds < round {
            self.entries.pop_front();
        }
    }

    /// Whether the best rate is in front, for tests.
    pub fn is_falling(&self) -> bool {
        self.entries.iter().zip(self.entries.iter().skip(1)).all(|(a, b)| a.1 > b.1)
    }
}

/// The search for the rate of a path that was never full.
#[derive(Clone, Copy, Debug)]
pub struct Startup {
    is_open: bool,
    best: f64,
    flat_rounds: u32,
}

impl Default for Startup {
    /// A path of which nothing is known.
    fn default() -> Startup {
        Startup { is_open: true, best: 0.0, flat_rounds: 0 }
    }
}

impl Startup {
    /// The path was never full, as far as is known.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The rate has grown in the last round.
    pub fn grows(&self) -> bool {
        self.flat_rounds == 0
    }

    /// Searches again, for more than this rate.
    pub fn begin(&mut self, rate: f64) {
        *self = Startup { is_open: true, best: rate, flat_rounds: 0 };
    }

    /// The path is full.
    pub fn end(&mut self) {
        self.is_open = false;
    }

    /// A round has ended, with this best rate; it was limited by nothing but the path. Three in a
    /// row without growth show that the path is full.
    pub fn round_ended(&mut self, rate: f64) {
        if rate >= self.best * STARTUP_GROWTH {
            self.best = rate;
            self.flat_rounds = 0;
        } else {
            self.flat_rounds += 1;
            self.is_open &= self.flat_rounds < STARTUP_ROUNDS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_round_trip_whatever_is_acknowledged_meanwhile() {
        let mut rounds = Rounds::default();
        assert!(rounds.acknowledged(0, 1_000));
        assert!(!rounds.acknowledged(0, 2_000), "it was sent before the round began");
        assert!(rounds.acknowledged(1_000, 3_000));
        assert_eq!(rounds.number(), 2);
    }

    #[test]
    fn the_best_rate_is_forgotten_after_its_rounds() {
        let mut rates = BestRate::default();
        assert_eq!(rates.best(), 0.0);
        rates.add(5.0, 0, RATE_ROUNDS);
        for round in 1..=RATE_ROUNDS {
            rates.add(3.0, round, RATE_ROUNDS);
            rates.add(2.0, round, RATE_ROUNDS);
            assert_eq!(rates.best(), 5.0);
        }
        rates.add(2.0, RATE_ROUNDS + 1, RATE_ROUNDS);
        assert!(rates.best() == 3.0 && rates.is_falling());
        rates.add(2.5, RATE_ROUNDS + 2, 1);
        assert_eq!(rates.best(), 2.5, "a queue shows that the path has become slower");
    }

    #[test]
    fn the_best_rate_takes_one_entry_a_round() {
        let mut rates = BestRate::default();
        for round in 0..100 {
            for rate in (1..50).rev() {
                rates.add(f64::from(rate), round, RATE_ROUNDS);
            }
        }
        assert!(rates.is_falling() && rates.entries.len() as u64 <= RATE_ROUNDS + 1);
    }

    #[test]
    fn three_rounds_without_growth_end_the_search() {
        let mut startup = Startup::default();
        for rate in [1.0, 2.0, 4.0, 4.5, 4.9] {
            startup.round_ended(rate);
        }
        assert!(startup.is_open() && !startup.grows());
        startup.round_ended(5.0);
        assert!(startup.is_open() && startup.grows(), "a quarter more than the best");
        (0..STARTUP_ROUNDS).for_each(|_| startup.round_ended(6.0));
        assert!(!startup.is_open());
        startup.round_ended(60.0);
        assert!(!startup.is_open(), "only a probe that finds more begins again");
        startup.begin(60.0);
        startup.round_ended(70.0);
        assert!(startup.is_open() && !startup.grows());
    }

    #[test]
    fn only_a_long_path_is_probed() {
        let probed = |delay| (0..32).filter(|&round| Rounds::probes(round, delay, 6_000)).count();
        assert_eq!((probed(66_000), probed(40_000)), (4, 0));
    }
}
