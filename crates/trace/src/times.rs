//! Beside replay.rs, which lets it time one record in so many.
//! How long single records took by the clock, less what the clock itself takes: what a mean hides.
//! Knows durations alone; nothing but the report reads them.

use std::time::{Duration, Instant};

/// One record in so many is timed: reading the clock costs as much as a record does.
const TIMED_ONE_IN: u64 = 64;
/// 65 us: longer ones are counted there. The longest say how often the machine did something else.
const NANOSECONDS_MAX: usize = 1 << 16;
/// With fewer samples the longest of a hundred are ten, which say nothing.
const SAMPLES_MIN: u64 = 1000;

/// How long single records took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTimes {
    /// Records that were timed.
    pub samples: u64,
    /// Half of them took no longer.
    pub median: Duration,
    /// 95 of a hundred took no longer.
    pub p95: Duration,
    /// 99 of a hundred.
    pub p99: Duration,
    /// What reading the clock takes (median), which is not in those.
    pub clock: Duration,
}

/// Times that were taken, and beside each one of nothing.
pub(crate) struct Times {
    records: Histogram,
    nothing: Histogram,
    seen: u64,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times { records: Histogram::new(), nothing: Histogram::new(), seen: 0 }
    }

    /// Does the work of one record, and times it where it is one of those.
    #[inline]
    pub(crate) fn record<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.seen += 1;
        // Multiples of the golden ratio are spread evenly, whatever the length of the trace that comes again and again.
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

    /// None where too few were timed.
    pub(crate) fn of_records(&self) -> Option<RecordTimes> {
        let clock = self.nothing.quantile(50);
        let less = |percent| self.records.quantile(percent).saturating_sub(clock);
        let samples = self.records.count;
        (samples >= SAMPLES_MIN).then(|| RecordTimes { samples, median: less(50), p95: less(95), p99: less(99), clock })
    }
}

/// How many took so many nanoseconds.
struct Histogram {
    counts: Vec<u32>,
    count: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { counts: vec![0; NANOSECONDS_MAX], count: 0 }
    }

    fn add(&mut self, time: Duration) {
        let at = usize::try_from(time.as_nanos()).map_or(NANOSECONDS_MAX - 1, |at| at.min(NANOSECONDS_MAX - 1));
        self.counts[at] = self.counts[at].saturating_add(1);
        self.count += 1;
    }

    /// So many of a hundred took no longer.
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
    fn quantiles_are_of_what_was_added() {
        let mut histogram = Histogram::new();
        (1..=200).for_each(|time| histogram.add(Duration::from_nanos(time)));
        let [median, p95, p99, all] = [50, 95, 99, 100].map(|percent| histogram.quantile(percent).as_nanos());
        assert_eq!([median, p95, p99, all], [100, 190, 198, 200]);
        histogram.add(Duration::from_secs(1));
        assert_eq!(histogram.quantile(100).as_nanos(), NANOSECONDS_MAX as u128 - 1, "the longest are counted");
    }

    /// Every record of a trace that is replayed often enough, whatever its length has for divisors.
    #[test]
    fn records_at_every_place_of_a_trace_are_timed() {
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
            assert!(timed.iter().all(|&timed| timed), "a place among {length} is never timed");
        }
    }
}
