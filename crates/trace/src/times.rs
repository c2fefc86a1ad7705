//! Beside replay.rs, which times one record in so many with it. How long single records took, less
//! the cost of reading the clock: percentiles show what a mean hides. Knows durations only; nothing
//! but the report reads them.

use std::time::{Duration, Instant};

/// One record in 64 is timed: reading the clock costs as much as a record.
const TIMED_ONE_IN: u64 = 64;
/// 65 us: longer times are counted in the last bucket. They tell how often the machine was busy
/// with other work.
const NANOSECONDS_MAX: usize = 1 << 16;
/// With fewer samples the 99th percentile rests on fewer than ten values.
const SAMPLES_MIN: u64 = 1000;

/// Percentiles of the time of single records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTimes {
    /// Records that were timed.
    pub samples: u64,
    /// Half of them took at most this long.
    pub median: Duration,
    /// 95 of a hundred took at most this long.
    pub p95: Duration,
    /// 99 of a hundred took at most this long.
    pub p99: Duration,
    /// Median time to read the clock, already subtracted.
    pub clock: Duration,
}

/// Measured times, each with a measurement of nothing next to it.
pub(crate) struct Times {
    records: Histogram,
    nothing: Histogram,
    seen: u64,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times { records: Histogram::new(), nothing: Histogram::new(), seen: 0 }
    }

    /// Does the work of one record, and times it if it is selected.
    #[inline]
    pub(crate) fn record<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.seen += 1;
        // Multiples of the golden ratio are spread evenly, whatever the length of a trace that is
        // repeated.
        if self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) > u64::MAX / TIMED_ONE_IN {
            return work();
        }
        let before = Instant::now();
        let start = Instant::now();
        let done = work();
        let end = Instant::now();
        self.nothing.add(start - before);
        self.records.add(end - start);
        done
    }

    /// None if too few were timed.
    pub(crate) fn of_records(&self) -> Option<RecordTimes> {
        let clock = self.nothing.quantile(50);
        let less = |percent| self.records.quantile(percent).saturating_sub(clock);
        let samples = self.records.count;
        (samples >= SAMPLES_MIN).then(|| RecordTimes {
            samples,
            median: less(50),
            p95: less(95),
            p99: less(99),
            clock,
        })
    }
}

/// Counts of times in nanoseconds.
struct Histogram {
    counts: Vec<u32>,
    count: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { counts: vec![0; NANOSECONDS_MAX], count: 0 }
    }

    fn add(&mut self, time: Duration) {
        let at = usize::try_from(time.as_nanos())
            .map_or(NANOSECONDS_MAX - 1, |at| at.min(NANOSECONDS_MAX - 1));
        self.counts[at] = self.counts[at].saturating_add(1);
        self.count += 1;
    }

    /// The time that so many of a hundred did not exceed.
    fn quantile(&self, percent: u64) -> Duration {
        let wanted = (self.count * percent).div_ceil(100);
        let mut count = 0;
        let at = self.counts.iter().position(|&here| {
            count += u64::from(here);
            count >= wanted
        });
        Duration::from_nanos(at.unwrap_or(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_added_times() {
        let mut histogram = Histogram::new();
        (1..=200).for_each(|time| histogram.add(Duration::from_nanos(time)));
        let [median, p95, p99, all] =
            [50, 95, 99, 100].map(|percent| histogram.quantile(percent).as_nanos());
        assert_eq!([median, p95, p99, all], [100, 190, 198, 200]);
        histogram.add(Duration::from_secs(1));
        assert_eq!(
            histogram.quantile(100).as_nanos(),
            NANOSECONDS_MAX as u128 - 1,
            "longer times are counted in the last bucket"
        );
    }

    /// Every record of a trace that is replayed often enough is timed, whatever divisors its length
    /// has.
    #[test]
    fn records_at_every_position_of_a_trace_are_timed() {
        for length in [64, 96, 1445] {
            let mut times = Times::new();
            let mut timed = vec![false; length];
            for _round in 0..64 * 8 {
                for timed in &mut timed {
                    let before = times.records.count;
                    times.record(|| ());
                    *timed |= times.records.count > before;
                }
            }
            assert!(timed.iter().all(|&timed| timed), "a position among {length} is never timed");
        }
    }
}
