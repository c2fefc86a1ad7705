//! Path 10/13: under congestion.rs, the rate that a path carries: the best of the last rounds, and
//! whether the path was ever full. From samples of deliveries.rs, to the window. Knows bytes, rates
//! and rounds; never times.

use thinc_path_model::{BestRate, RATE_ROUNDS, Rounds, Startup};

/// Rounds over which the best rate is remembered while there is a standing queue: the path has
/// become slower, or is shared.
const RATE_ROUNDS_WITH_QUEUE: u64 = 3;

/// The rate of a path, round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    /// In bytes a second.
    rates: BestRate,
    rounds: Rounds,
    startup: Startup,
    /// The application had nothing more to send in this round.
    round_was_limited: bool,
}

impl Bandwidth {
    /// In bytes a second; 0 before the first measurement.
    pub(super) fn rate(&self) -> f64 {
        self.rates.best()
    }

    /// The number of the round that goes on.
    pub(super) fn round(&self) -> u64 {
        self.rounds.number()
    }

    /// The path was never full, as far as is known.
    pub(super) fn is_searched(&self) -> bool {
        self.startup.is_open()
    }

    /// The path is another one: its rate is searched as that of a new connection.
    pub(super) fn search_again(&mut self) {
        self.startup.begin(0.0);
    }

    /// The path is full.
    pub(super) fn end_search(&mut self) {
        self.startup.end();
    }

    /// The application has nothing more to send in this round.
    pub(super) fn set_limited(&mut self) {
        self.round_was_limited = true;
    }

    /// Bytes were acknowledged that were sent when `delivered_before` had been delivered; now
    /// `delivered` are. True if that ends a round.
    pub(super) fn handle_acked(&mut self, delivered_before: u64, delivered: u64) -> bool {
        self.rounds.acknowledged(delivered_before, delivered)
    }

    /// A round has ended. `window_is_limited`: by something else than what is known of the path, so
    /// that its rate says nothing about it.
    pub(super) fn end_round(&mut self, window_is_limited: bool, has_standing_queue: bool) {
        let was_limited = std::mem::take(&mut self.round_was_limited);
        if self.startup.is_open() && !was_limited && !window_is_limited {
            self.startup.round_ended(self.rates.best());
            // While the rate grows, a longer round trip is jitter and not a queue.
            if !self.startup.grows() && has_standing_queue {
                self.startup.end();
            }
        }
    }

    /// A rate was measured.
    pub(super) fn add(&mut self, rate: f64, has_standing_queue: bool) {
        let rounds = if has_standing_queue { RATE_ROUNDS_WITH_QUEUE } else { RATE_ROUNDS };
        self.rates.add(rate, self.rounds.number(), rounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends so many rounds, each with this rate.
    fn rounds(bandwidth: &mut Bandwidth, count: u64, rate: f64, has_standing_queue: bool) {
        for _ in 0..count {
            bandwidth.add(rate, has_standing_queue);
            let delivered = bandwidth.round() * 1_000;
            assert!(bandwidth.handle_acked(delivered, delivered + 1_000));
            bandwidth.end_round(false, has_standing_queue);
        }
    }

    #[test]
    fn a_queue_shortens_the_memory_of_the_best_rate() {
        for (has_standing_queue, kept) in [(false, RATE_ROUNDS), (true, RATE_ROUNDS_WITH_QUEUE)] {
            let mut bandwidth = Bandwidth::default();
            rounds(&mut bandwidth, 1, 9.0, has_standing_queue);
            rounds(&mut bandwidth, kept, 5.0, has_standing_queue);
            assert_eq!(bandwidth.rate(), 9.0);
            rounds(&mut bandwidth, 1, 5.0, has_standing_queue);
            assert_eq!(bandwidth.rate(), 5.0);
        }
    }

    #[test]
    fn a_queue_ends_the_search_only_while_the_rate_does_not_grow() {
        let mut bandwidth = Bandwidth::default();
        for rate in [1.0, 2.0, 4.0] {
            rounds(&mut bandwidth, 1, rate, true);
            assert!(bandwidth.is_searched(), "it is jitter");
        }
        rounds(&mut bandwidth, 1, 4.0, true);
        assert!(!bandwidth.is_searched());
        bandwidth.search_again();
        assert!(bandwidth.is_searched());
    }

    #[test]
    fn rounds_that_something_else_limits_show_no_full_path() {
        let mut bandwidth = Bandwidth::default();
        rounds(&mut bandwidth, 1, 4.0, false);
        for _ in 0..20 {
            bandwidth.set_limited();
            bandwidth.end_round(false, true);
            bandwidth.end_round(true, true);
        }
        assert!(bandwidth.is_searched());
        bandwidth.end_round(false, true);
        assert!(!bandwidth.is_searched(), "each round is limited for itself");
    }
}
