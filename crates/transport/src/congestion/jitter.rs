//! Path 10/13: under congestion.rs, how much round trips vary. From what a sample exceeds an
//! explained round trip by, to the window. Knows times only.

use std::time::Duration;

/// Most of a round trip's variation that the window makes up for, and the weight of a new round in
/// its mean (RFC 9002's for the variation is the same). A radio link delays packets by as much; a
/// queue that another flow keeps is not to be doubled.
const JITTER_MAX: Duration = Duration::from_millis(24);
const JITTER_WEIGHT: f64 = 0.25;

/// Mean of the time by which round trips exceed both the smallest one and what our own packets in
/// flight explain.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    mean: Duration,
    /// The samples of this round, summed, and their number.
    sum: Duration,
    samples: u32,
}

impl Jitter {
    /// At most [`JITTER_MAX`].
    pub(super) fn mean(&self) -> Duration {
        self.mean
    }

    /// A round trip was longer than explained by so much.
    pub(super) fn add(&mut self, excess: Duration) {
        self.sum += excess.min(JITTER_MAX);
        self.samples += 1;
    }

    /// The mean of a round counts once, however many packets it has.
    pub(super) fn end_round(&mut self) {
        let (sum, samples) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.samples));
        if samples > 0 {
            let round = sum / samples;
            self.mean = self.mean.mul_f64(1.0 - JITTER_WEIGHT) + round.mul_f64(JITTER_WEIGHT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_round_counts_a_quarter_whatever_its_packets() {
        let mut jitter = Jitter::default();
        (0..100).for_each(|_| jitter.add(ms(8)));
        assert_eq!(jitter.mean(), ms(0), "the round goes on");
        jitter.end_round();
        assert_eq!(jitter.mean(), ms(2));
        jitter.end_round();
        assert_eq!(jitter.mean(), ms(2), "a round without a sample says nothing");
        jitter.add(ms(0));
        jitter.end_round();
        assert_eq!(jitter.mean(), Duration::from_micros(1_500));
    }

    #[test]
    fn a_foreign_queue_counts_as_the_largest_jitter() {
        let mut jitter = Jitter::default();
        for _ in 0..50 {
            jitter.add(ms(500));
            jitter.end_round();
        }
        assert!((ms(23)..=JITTER_MAX).contains(&jitter.mean()), "{:?}", jitter.mean());
    }
}
