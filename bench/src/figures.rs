//! Samples to the figures that are printed: median, p95, p99, and ratios of medians.

use std::fmt;

/// A set of samples of one quantity.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which this share of the samples lies.
    ///
    /// # Panics
    /// Without samples: a figure of nothing must not be printed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        assert!(!self.0.is_empty(), "a figure needs samples");
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }

    /// The middle.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {:.2}  p95 {:.2}  p99 {:.2}  min {:.2}  ({} samples)",
            self.median(),
            self.quantile(0.95),
            self.quantile(0.99),
            self.quantile(0.0),
            self.len()
        )
    }
}
