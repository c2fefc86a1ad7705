//! Statistics of samples: median, spread, and the confidence of a ratio of two medians. The report,
//! compare and the questions use them alike. Knows numbers; never what they measure.

use crate::results::Better;

/// From this many samples on, the spread is given as 5th to 95th percentile.
pub const PERCENTILES_FROM: usize = 20;
/// From this many samples on, the spread is given as quartiles, and a ratio gets an interval.
pub const QUARTILES_FROM: usize = 5;
/// Resamples of a bootstrap: the 1 % and 99 % tails then rest on ten values each.
const RESAMPLES: usize = 1000;
/// Most draws of a resample: an interval that is a little too wide is the safe side.
const RESAMPLED_MAX: usize = 200;

/// Middle and spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many samples.
    pub count: usize,
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// Lower end of the spread.
    pub low: f64,
    /// Upper end of the spread.
    pub high: f64,
}

impl Summary {
    /// None if no sample is a finite number.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let sorted = sorted(samples);
        let count = sorted.len();
        let shares = match count {
            0 => return None,
            PERCENTILES_FROM.. => (0.05, 0.95),
            QUARTILES_FROM.. => (0.25, 0.75),
            _ => (0.0, 1.0),
        };
        Some(Summary {
            count,
            median: quantile_sorted(&sorted, 0.5),
            low: quantile_sorted(&sorted, shares.0),
            high: quantile_sorted(&sorted, shares.1),
        })
    }
}

/// How the ends of [`Summary`] are chosen, for captions.
pub const SPREAD_IN_WORDS: &str = "whiskers run from the 5th to the 95th percentile with 20 \
    samples or more, over the \
     quartiles with 5 to 19, and from the least to the greatest with fewer";

/// The same for a figure whose cells have from `least` to `most` samples.
pub fn spread_in_words(least: usize, most: usize) -> String {
    let spread = |count| match count {
        PERCENTILES_FROM.. => "; whiskers from the 5th to the 95th percentile",
        QUARTILES_FROM.. => "; whiskers over the quartiles",
        2.. => "; whiskers from the least to the greatest",
        _ => "",
    };
    if spread(least) == spread(most) {
        spread(most).to_owned()
    } else {
        format!("; {SPREAD_IN_WORDS}")
    }
}

/// The samples that are numbers, in order.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value below which this share of samples lies; nothing without samples.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(samples);
    (!sorted.is_empty()).then(|| quantile_sorted(&sorted, share))
}

/// The middle of samples; nothing without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// The value below which this share of sorted samples lies, between neighbours in proportion.
///
/// # Panics
/// Without samples: a figure of nothing must not be printed.
pub fn quantile_sorted(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "a figure needs samples");
    let place = (sorted.len() - 1) as f64 * share.clamp(0.0, 1.0);
    let (below, part) = (place.floor() as usize, place.fract());
    match sorted.get(below + 1) {
        Some(above) if part > 0.0 => sorted[below] + (above - sorted[below]) * part,
        _ => sorted[below],
    }
}

/// The second of two sets of samples against the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Median of the second over median of the first.
    pub ratio: f64,
    /// The 98 % interval of the ratio; none if a side has fewer samples than [`QUARTILES_FROM`].
    pub interval: Option<(f64, f64)>,
    /// Whether the samples of the two sides overlap.
    pub overlap: bool,
}

impl Change {
    /// Compares two sets of samples; none if one of them is empty.
    pub fn between(first: &[f64], second: &[f64]) -> Option<Change> {
        let (first, second) = (sorted(first), sorted(second));
        if first.is_empty() || second.is_empty() {
            return None;
        }
        let overlap = first[0] <= second[second.len() - 1] && second[0] <= first[first.len() - 1];
        let interval =
            (first.len().min(second.len()) >= QUARTILES_FROM).then(|| interval(&first, &second));
        Some(Change {
            ratio: divide(quantile_sorted(&second, 0.5), quantile_sorted(&first, 0.5)),
            interval,
            overlap,
        })
    }

    /// Worse by this factor: the ratio turned so that above one is worse.
    pub fn worse_by(&self, better: Better) -> f64 {
        match better {
            Better::Higher => divide(1.0, self.ratio),
            Better::Lower | Better::Neither => self.ratio,
        }
    }

    /// Whether the difference is more than chance: the interval does not contain one; with too few
    /// samples for an interval, the two sets do not overlap.
    pub fn is_clear(&self) -> bool {
        match self.interval {
            Some((low, high)) => low > 1.0 || high < 1.0,
            None => !self.overlap,
        }
    }
}

/// A ratio that is one if both are zero, and infinite if only the lower is.
fn divide(upper: f64, lower: f64) -> f64 {
    if upper == lower { 1.0 } else { upper / lower }
}

/// Percentile bootstrap of the ratio of medians (Efron, "Bootstrap methods", 1979), 98 %. The seed
/// is constant, so that the same files always get the same verdict.
fn interval(first: &[f64], second: &[f64]) -> (f64, f64) {
    let mut seed = 0x7468_696e_6362_6e63_u64;
    let (below, above) = (median_ranks(first.len()), median_ranks(second.len()));
    let mut draw = |samples: &[f64], ranks: &[f64]| {
        let share = random(&mut seed);
        samples[ranks.partition_point(|up_to| *up_to < share).min(samples.len() - 1)]
    };
    let mut ratios: Vec<f64> =
        (0..RESAMPLES).map(|_| divide(draw(second, &above), draw(first, &below))).collect();
    ratios.retain(|ratio| !ratio.is_nan());
    ratios.sort_by(f64::total_cmp);
    if ratios.is_empty() {
        return (0.0, f64::INFINITY);
    }
    // By rank and not between ranks: infinite ratios have no middle.
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    (at(0.01), at(0.99))
}

/// How likely the median of a resample lies at or below each of `count` sorted samples: more than
/// half of an odd number of draws have to, each with the chance of the rank over the count (Maritz
/// and Jarrett, 1978). One look here replaces drawing and sorting a resample.
fn median_ranks(count: usize) -> Vec<f64> {
    let draws = (count.min(RESAMPLED_MAX) - 1) | 1;
    let half = draws.div_ceil(2);
    let mut log_factorials = vec![0.0f64];
    for number in 1..=draws {
        log_factorials.push(log_factorials[number - 1] + (number as f64).ln());
    }
    let chance = |rank: usize| {
        let share = rank as f64 / count as f64;
        if rank == count {
            return 1.0;
        }
        let (yes, no) = (share.ln(), (1.0 - share).ln());
        let ways = |hits: usize| {
            log_factorials[draws] - log_factorials[hits] - log_factorials[draws - hits]
        };
        (half..=draws)
            .map(|hits| (ways(hits) + hits as f64 * yes + (draws - hits) as f64 * no).exp())
            .sum()
    };
    (1..=count).map(chance).collect()
}

/// From 0 to below 1 (xorshift of Marsaglia, 2003, times a constant of Vigna's): a bootstrap asks
/// no more of a generator.
fn random(seed: &mut u64) -> f64 {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_spreads() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN]), None);
        let one = Summary::of(&[4.0]).unwrap();
        assert_eq!((one.count, one.median, one.low, one.high), (1, 4.0, 4.0, 4.0));
        let two = Summary::of(&[3.0, 1.0]).unwrap();
        assert_eq!((two.median, two.low, two.high), (2.0, 1.0, 3.0));
        let five = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.median, five.low, five.high), (3.0, 2.0, 4.0));
        let many: Vec<f64> = (0..=100).map(f64::from).collect();
        let many = Summary::of(&many).unwrap();
        assert_eq!((many.median, many.low, many.high), (50.0, 5.0, 95.0));
    }

    #[test]
    fn a_real_difference_is_clear_and_none_is_not() {
        let first: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 7)).collect();
        let slower: Vec<f64> = first.iter().map(|s| s * 1.3).collect();
        let change = Change::between(&first, &slower).unwrap();
        assert!((change.ratio - 1.3).abs() < 1e-9 && change.is_clear());
        let (low, high) = change.interval.unwrap();
        assert!(low > 1.2 && high < 1.4, "{low} {high}");
        assert!((change.worse_by(Better::Higher) - 1.0 / 1.3).abs() < 1e-9);
        let same = Change::between(&first, &first).unwrap();
        assert!(same.ratio == 1.0 && !same.is_clear());
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // Two sets from one distribution: with 98 % confidence a difference is seen in about 2 of
        // 100.
        let mut seed = 99;
        let wrong = (0..300)
            .filter(|_| {
                let mut draw =
                    || (0..20).map(|_| 50.0 + 10.0 * random(&mut seed)).collect::<Vec<f64>>();
                let (a, b) = (draw(), draw());
                Change::between(&a, &b).unwrap().is_clear()
            })
            .count();
        assert!(wrong <= 15, "{wrong} of 300 pairs of the same distribution were called different");
    }

    #[test]
    fn ranks_of_medians_are_those_of_real_resamples() {
        let (count, mut seed) = (9, 5);
        let mut seen = vec![0u32; count];
        for _ in 0..20_000 {
            let mut ranks: Vec<usize> =
                (0..count).map(|_| (random(&mut seed) * count as f64) as usize).collect();
            ranks.sort_unstable();
            seen[ranks[count / 2]] += 1;
        }
        let mut sum = 0.0;
        for (rank, up_to) in median_ranks(count).into_iter().enumerate() {
            sum += f64::from(seen[rank]) / 20_000.0;
            assert!((sum - up_to).abs() < 0.012, "rank {rank}: drawn {sum}, calculated {up_to}");
        }
        for count in [5, 6, 200, 1000] {
            let ranks = median_ranks(count);
            assert!(
                ranks.windows(2).all(|w| w[0] <= w[1] + 1e-9)
                    && ranks[count - 1] == 1.0
                    && ranks[0] >= 0.0
            );
        }
    }

    #[test]
    fn few_samples_are_clear_only_when_they_lie_apart() {
        assert!(Change::between(&[1.0], &[2.0]).unwrap().is_clear());
        assert!(!Change::between(&[1.0, 3.0], &[2.0]).unwrap().is_clear());
        assert_eq!(Change::between(&[], &[2.0]), None);
    }

    #[test]
    fn nothing_over_nothing_is_no_change() {
        assert_eq!(Change::between(&[0.0; 9], &[0.0; 9]).unwrap().ratio, 1.0);
        assert!(Change::between(&[0.0; 9], &[1.0; 9]).unwrap().ratio.is_infinite());
        assert!(Change::between(&[0.0; 9], &[1.0; 9]).unwrap().is_clear());
        assert_eq!(
            Change::between(&[1.0; 9], &[0.0; 9]).unwrap().worse_by(Better::Higher),
            f64::INFINITY
        );
    }
}
