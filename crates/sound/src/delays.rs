//! Under jitter.rs: how late frames arrive, by their own times.
//! A minimum and a quantile over the last seconds. Knows differences between two clocks, which may
//! be of any size and drift; never what is played.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// The minimum is that of so many seconds: a path that has become slower is known by then (BBR: 10
/// s), and clocks that drift apart by 200 ppm do so by 6 ms.
const LEAST_SECONDS: u64 = 30;
/// The quantile is that of so long. With frames of 10 ms, 25 of 5000 are later than the 99.5 %.
const WINDOW: Micros = 50_000_000;
/// Most samples kept: frames of 5 ms over the window.
const SAMPLES_MAX: usize = 10_000;
/// A delay that differs by more is no delay: one of the clocks was set, or stood still.
const CLOCK_STEP: u64 = 2_000_000;
/// Width of a bin, and how many there are: delays up to half a second are told apart.
const BIN: i64 = 500;
const BINS: usize = 1024;
/// Bins kept free beneath the first delay, for delays that turn out to be shorter.
const BINS_BELOW: i64 = 64;

/// Delays (arrival − time) of the last frames.
#[derive(Debug)]
pub(crate) struct Delays {
    /// The delay at the lower edge of bin 0.
    base: i64,
    /// When each frame arrived, in ms, and its bin.
    samples: VecDeque<(u64, u16)>,
    counts: Vec<u16>,
    /// The least delay of each second, the oldest first.
    least: VecDeque<(u64, i64)>,
}

impl Delays {
    pub(crate) fn new() -> Delays {
        Delays { base: 0, samples: VecDeque::new(), counts: vec![0; BINS], least: VecDeque::new() }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
        self.least.clear();
        self.counts.fill(0);
    }

    /// A frame of this time arrived.
    pub(crate) fn add(&mut self, time: Micros, arrived: Micros) {
        let delay = arrived.wrapping_sub(time) as i64;
        let second = arrived / 1_000_000;
        if self.least().is_some_and(|least| delay.abs_diff(least) > CLOCK_STEP) {
            self.clear();
        }
        while self.least.front().is_some_and(|&(old, _)| old + LEAST_SECONDS <= second) {
            self.least.pop_front();
        }
        match self.least.back_mut() {
            Some((last, least)) if *last == second => *least = (*least).min(delay),
            _ => self.least.push_back((second, delay)),
        }
        let oldest = arrived.saturating_sub(WINDOW) / 1000;
        while self.samples.front().is_some_and(|&(at, _)| at < oldest)
            || self.samples.len() >= SAMPLES_MAX
        {
            if let Some((_, bin)) = self.samples.pop_front() {
                self.counts[usize::from(bin)] -= 1;
            }
        }
        if self.samples.is_empty() {
            self.base = delay.saturating_sub(BINS_BELOW * BIN);
        }
        let bin = self.bin(delay);
        if bin < 0 || bin >= BINS as i64 && self.may_rise() {
            self.rebase();
        }
        let bin = self.bin(delay).clamp(0, BINS as i64 - 1) as u16;
        self.samples.push_back((arrived / 1000, bin));
        self.counts[usize::from(bin)] += 1;
    }

    fn bin(&self, delay: i64) -> i64 {
        delay.saturating_sub(self.base).div_euclid(BIN)
    }

    /// The bins beneath the recent minimum are no longer needed.
    fn may_rise(&self) -> bool {
        self.least().is_some_and(|least| self.bin(least) > 2 * BINS_BELOW)
    }

    /// Moves the bins so that they begin a little beneath the minimum.
    fn rebase(&mut self) {
        let Some(least) = self.least() else { return };
        let base = least.saturating_sub(BINS_BELOW * BIN);
        let shift = self.base.saturating_sub(base).div_euclid(BIN);
        self.base = base;
        self.counts.fill(0);
        for (_, bin) in &mut self.samples {
            *bin = i64::from(*bin).saturating_add(shift).clamp(0, BINS as i64 - 1) as u16;
            self.counts[usize::from(*bin)] += 1;
        }
    }

    /// The least delay of the last seconds; None before the first frame.
    pub(crate) fn least(&self) -> Option<i64> {
        self.least.iter().map(|&(_, least)| least).min()
    }

    /// By how much more than the least a frame is delayed that only `share` of all frames exceed,
    /// in parts of 1000.
    pub(crate) fn beyond_least(&self, share: usize) -> Micros {
        let Some(least) = self.least() else { return 0 };
        let mut later = self.samples.len() * share / 1000;
        for (bin, &count) in self.counts.iter().enumerate().rev() {
            let count = usize::from(count);
            if count > later {
                // The upper edge.
                let delay = self.base.saturating_add((bin as i64 + 1) * BIN);
                return delay.saturating_sub(least).max(0) as Micros;
            }
            later -= count;
        }
        0
    }

    /// How many frames it knows.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_leaves_its_share_of_the_frames_above() {
        let mut delays = Delays::new();
        for n in 0..4000_u64 {
            // One of a hundred is 40 ms late, the others up to 3 ms.
            let late = if n % 100 == 7 { 40_000 } else { n % 7 * 500 };
            delays.add(n * 10_000, 1_000_000_000 + n * 10_000 + late);
        }
        assert_eq!(delays.least(), Some(1_000_000_000));
        assert!((40_000..=41_000).contains(&delays.beyond_least(5)), "{}", delays.beyond_least(5));
        assert!((3000..=4000).contains(&delays.beyond_least(10)), "{}", delays.beyond_least(10));
    }

    #[test]
    fn a_changed_path_is_known_after_the_window() {
        let mut delays = Delays::new();
        let add = |delays: &mut Delays, from: u64, to: u64, delay: i64| {
            for n in from..to {
                delays.add(n * 10_000, (n as i64 * 10_000 + delay) as u64);
            }
        };
        add(&mut delays, 0, 3000, 300_000);
        add(&mut delays, 3000, 4000, 20_000);
        assert_eq!(delays.least(), Some(20_000));
        assert!(delays.beyond_least(5) > 250_000, "the old path still counts");
        add(&mut delays, 4000, 10_000, 900_000);
        assert_eq!(delays.least(), Some(900_000));
        assert!(delays.beyond_least(5) <= 1000, "{}", delays.beyond_least(5));
    }

    #[test]
    fn any_clocks_will_do() {
        let mut delays = Delays::new();
        for n in 0..2000_u64 {
            delays.add(u64::MAX - n, n * 10_000);
            delays.add(n, u64::MAX - 50_000_000 + n * 10_000);
            assert!(delays.beyond_least(1) <= BINS as u64 * BIN as u64);
        }
    }
}
