//! Path 10/13: under congestion.rs, the smoothed round trip. From acknowledgements, to the meter,
//! to the age of what is remembered, and to the window that quinn's pacer is told. Knows times;
//! never the smallest round trip, which delay.rs has.

use std::time::Duration;

/// Largest growth of the smoothed round trip with one batch of acknowledgements: one that a
/// suspended viewer sends late says nothing about its path.
const RTT_GROWTH: u32 = 2;

/// Means of round trips, with RFC 9002's weight of an eighth for the newest.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    /// Zero before the first sample.
    smooth: Duration,
    /// Largest sample that is accepted in this batch of acknowledgements.
    sample_max: Duration,
    /// quinn's own smoothed round trip, which its pacer uses. One acknowledgement after a
    /// suspension of 10 s inflates it for thirty more; without the correction in
    /// `Controller::window` the pacer would send at a thirtieth of the path's rate meanwhile.
    pacers: Duration,
}

impl RoundTrip {
    /// Of a path without a sample.
    pub(super) fn new() -> RoundTrip {
        RoundTrip { smooth: Duration::ZERO, sample_max: Duration::MAX, pacers: Duration::ZERO }
    }

    pub(super) fn smooth(&self) -> Duration {
        self.smooth
    }

    /// What quinn's pacer takes for the round trip.
    pub(super) fn pacers(&self) -> Duration {
        self.pacers
    }

    pub(super) fn add(&mut self, rtt: Duration) {
        self.smooth = if self.smooth.is_zero() {
            rtt
        } else {
            (self.smooth * 7 + rtt.min(self.sample_max)) / 8
        };
    }

    /// A batch of acknowledgements has ended.
    pub(super) fn end_batch(&mut self) {
        self.sample_max = RTT_GROWTH * self.smooth;
    }

    /// `smooth`: quinn's estimate before this batch of acknowledgements; quinn adds the newest
    /// sample once the whole batch was reported here.
    pub(super) fn set_pacers(&mut self, smooth: Duration, newest: Duration) {
        self.pacers = (smooth * 7 + newest) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_first_sample_counts_whole_and_later_ones_an_eighth() {
        let mut rtt = RoundTrip::new();
        rtt.add(ms(80));
        assert_eq!(rtt.smooth(), ms(80));
        rtt.add(ms(160));
        assert_eq!(rtt.smooth(), ms(90));
    }

    #[test]
    fn a_suspension_changes_the_mean_a_little_and_the_pacers_a_lot() {
        let mut rtt = RoundTrip::new();
        rtt.add(ms(40));
        rtt.end_batch();
        rtt.add(ms(10_000));
        assert_eq!(rtt.smooth(), ms(45), "it counts as twice the mean");
        rtt.set_pacers(ms(40), ms(10_000));
        assert_eq!(rtt.pacers(), ms(1_285));
    }
}
