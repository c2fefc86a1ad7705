//! What each process and each job uses of the processors, and which jobs compute. Beside the path:
//! from plan.rs, and back to it. Knows clock ticks and time as an argument; never who types.
//!
//! A job is measured and not a process: a build is hundreds of processes of one job, few of which
//! live for a second. A process takes its ticks away when it ends, so a job's use is the sum, over
//! its living members, of what each has used since the last measurement, or since it started if it
//! was not there yet. Missed is what a process used after the last measurement that saw it, and so
//! all the time of a process that started and ended between two. If one processor is always busy
//! with processes that take L seconds each, measurements every T > L seconds find L / 2T of it.

use std::collections::{BTreeMap, VecDeque};

use crate::table::{Job, Process, Table};

/// A job computes that used so much of one processor, in percent, over so long. A browser that
/// opens a page, or an editor that checks a file, is done by then.
const COMPUTES_PERCENT: u32 = 80;
pub(crate) const COMPUTES_US: u64 = 5_000_000;
/// It does so no more once it used less than this over so long: far enough below, and long enough,
/// that a build which waits for a disk stays.
const CEASES_PERCENT: u32 = 30;
pub(crate) const CEASES_US: u64 = 2_000_000;
/// Shortest time between two measurements, however often a plan is updated: 25 ticks of 10 ms, so
/// that one tick is 4 %. It also bounds the samples of a window.
const INTERVAL_MIN_US: u64 = 250_000;
/// Those within the longer window, and the one before it.
const SAMPLES_MAX: usize = (COMPUTES_US / INTERVAL_MIN_US) as usize + 1;

/// What is known of a job after a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// It does not compute.
    Ordinary,
    /// It computes.
    Computes { percent: u32 },
    /// It did until this measurement.
    Ceased,
}

/// What a job had used in all at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_us: u64,
    ticks: u64,
}

/// What one job used. A window is the time since the newest sample that is at least as old as the
/// window is long: longer than that if measurements are rarer, and unknown for a younger job.
#[derive(Debug)]
struct Usage {
    /// From old to new, never empty, at most `SAMPLES_MAX`.
    samples: VecDeque<Sample>,
    load: Load,
}

impl Usage {
    /// A job that has used nothing yet.
    fn new(at_us: u64) -> Usage {
        Usage { samples: VecDeque::from([Sample { at_us, ticks: 0 }]), load: Load::Ordinary }
    }

    fn newest(&self) -> Sample {
        self.samples[self.samples.len() - 1]
    }

    /// `ticks` more were used until `at_us`. `wants_more`: a member is ready to run at this moment.
    fn add(&mut self, at_us: u64, ticks: u64, wants_more: bool, ticks_per_second: u64) {
        let newest = self.newest();
        self.samples.push_back(Sample { at_us, ticks: newest.ticks.saturating_add(ticks) });
        while self.samples.len() > 1 && self.samples[1].at_us + COMPUTES_US <= at_us {
            self.samples.pop_front();
        }
        assert!(self.samples.len() <= SAMPLES_MAX, "a job keeps a bounded number of samples");
        self.judge(wants_more, ticks_per_second);
    }

    fn judge(&mut self, wants_more: bool, ticks_per_second: u64) {
        let long = self.percent(COMPUTES_US, ticks_per_second);
        let rests = self.percent(CEASES_US, ticks_per_second).is_some_and(|p| p < CEASES_PERCENT);
        self.load = match (self.load, long) {
            // On a crowded machine one that computes gets little, because it computes: it is ready
            // to run all the same.
            (Load::Computes { .. }, _) if rests && !wants_more => {
                // The windows begin again: what the job used before it ceased would make it compute
                // again at once.
                self.samples.drain(..self.samples.len() - 1);
                Load::Ceased
            }
            (Load::Computes { percent }, long) => {
                Load::Computes { percent: long.unwrap_or(percent) }
            }
            (_, Some(percent)) if percent >= COMPUTES_PERCENT && !rests => {
                Load::Computes { percent }
            }
            _ => Load::Ordinary,
        };
    }

    /// What the job used over a window, in percent of one processor. None: it is too young.
    fn percent(&self, window_us: u64, ticks_per_second: u64) -> Option<u32> {
        let newest = self.newest();
        let is_old = |sample: &&Sample| sample.at_us + window_us <= newest.at_us;
        let base = self.samples.iter().rev().find(is_old)?;
        Some(percent(newest.ticks - base.ticks, newest.at_us - base.at_us, ticks_per_second))
    }
}

/// Rounded down, in percent of one processor; `elapsed_us` is not 0.
fn percent(ticks: u64, elapsed_us: u64, ticks_per_second: u64) -> u32 {
    let used_us = u128::from(ticks) * 1_000_000 / u128::from(ticks_per_second);
    u32::try_from(used_us * 100 / u128::from(elapsed_us)).unwrap_or(u32::MAX)
}

/// A process when it was last measured.
#[derive(Debug)]
struct Seen {
    started_ticks: u64,
    cpu_ticks: u64,
    percent: u32,
}

/// Measures processes and jobs. Its memory follows the last table: what is not in it is forgotten.
#[derive(Debug)]
pub(crate) struct Meter {
    ticks_per_second: u64,
    measured_us: Option<u64>,
    processes: BTreeMap<u32, Seen>,
    jobs: BTreeMap<Job, Usage>,
}

impl Meter {
    pub(crate) fn new(ticks_per_second: u64) -> Meter {
        assert!(ticks_per_second > 0, "a clock that counts ticks has some each second");
        Meter {
            ticks_per_second,
            measured_us: None,
            processes: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }
    }

    /// Measures what was used since the last measurement; too soon after it, the next one does. The
    /// first one only remembers what was used before it.
    pub(crate) fn measure(&mut self, table: &Table, now_us: u64) {
        let is_due = |measured_us: u64| now_us.saturating_sub(measured_us) >= INTERVAL_MIN_US;
        if !self.measured_us.is_none_or(is_due) {
            return;
        }
        let mut processes = BTreeMap::new();
        let mut used_by: BTreeMap<Job, (u64, bool)> = BTreeMap::new();
        for process in table.iter() {
            let (seen, used) = self.see(process, now_us);
            processes.insert(process.pid, seen);
            let (sum, wants_more) = used_by.entry(process.job()).or_default();
            *sum = sum.saturating_add(used);
            *wants_more |= process.wants_processor;
        }
        let since_us = self.measured_us.unwrap_or(now_us);
        self.jobs.retain(|job, _| used_by.contains_key(job));
        for (job, (used, wants_more)) in used_by {
            let usage = self.jobs.entry(job).or_insert_with(|| Usage::new(since_us));
            if self.measured_us.is_some() {
                usage.add(now_us, used, wants_more, self.ticks_per_second);
            }
        }
        self.processes = processes;
        self.measured_us = Some(now_us);
    }

    /// What a process is after this measurement, and what it used since the last one.
    fn see(&self, process: &Process, now_us: u64) -> (Seen, u64) {
        let &Process { started_ticks, cpu_ticks, .. } = process;
        let Some(since_us) = self.measured_us else {
            return (Seen { started_ticks, cpu_ticks, percent: 0 }, 0);
        };
        let known = self.processes.get(&process.pid).filter(|seen| process.is(seen.started_ticks));
        let before = known.map_or(0, |seen| seen.cpu_ticks);
        // A sum that the kernel scales may be less than one before; it is not counted twice.
        let cpu_ticks = cpu_ticks.max(before);
        let used = cpu_ticks - before;
        let percent = percent(used, now_us - since_us, self.ticks_per_second);
        (Seen { started_ticks, cpu_ticks, percent }, used)
    }

    /// Of the job, as it was last measured.
    pub(crate) fn load(&self, job: Job) -> Load {
        self.jobs.get(&job).map_or(Load::Ordinary, |usage| usage.load)
    }

    /// What a process used between the last two measurements, in percent of one processor; 0 before
    /// the second one.
    pub(crate) fn percent(&self, pid: u32) -> u32 {
        self.processes.get(&pid).map_or(0, |seen| seen.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn job() -> Job {
        Process::new(1, 0).in_job(7, 8).job()
    }

    /// A meter, and one process of a job whose ticks are told.
    struct Alone(Meter);

    impl Alone {
        fn new() -> Alone {
            Alone(Meter::new(100))
        }

        fn at(&mut self, us: u64, ticks: u64) -> Load {
            self.0.measure(&Table::new([Process::new(1, 0).in_job(7, 8).used(ticks)]), us);
            self.0.load(job())
        }
    }

    #[test]
    fn a_job_computes_after_5_seconds_and_no_more_after_2() {
        let mut alone = Alone::new();
        let mut ticks = 1_000_000;
        for second in 0..5 {
            assert_eq!(alone.at(second * SECOND, ticks), Load::Ordinary, "{second}");
            ticks += 80;
        }
        assert_eq!(alone.at(5 * SECOND, ticks), Load::Computes { percent: 80 });
        ticks += 29;
        assert_eq!(alone.at(6 * SECOND, ticks), Load::Computes { percent: 69 });
        ticks += 29;
        assert_eq!(alone.at(7 * SECOND, ticks), Load::Ceased);
        assert_eq!(alone.at(8 * SECOND, ticks), Load::Ordinary);
    }

    #[test]
    fn one_that_computes_and_gets_little_still_computes() {
        let mut meter = Meter::new(100);
        let mut at = |second: u64, ticks: u64, wants_processor: bool| {
            let process = Process::new(1, 0).in_job(7, 8).used(ticks);
            meter.measure(&Table::new([Process { wants_processor, ..process }]), second * SECOND);
            meter.load(job())
        };
        (0..6).for_each(|second| _ = at(second, second * 100, true));
        for second in 6..60 {
            let load = at(second, 500 + second, true);
            assert!(matches!(load, Load::Computes { .. }), "{second}: {load:?}");
        }
        assert_eq!(at(60, 560, false), Load::Ceased);
    }

    #[test]
    fn less_than_80_percent_does_not_compute_and_30_percent_goes_on() {
        let mut alone = Alone::new();
        for second in 0..60 {
            assert_eq!(alone.at(second * SECOND, second * 79), Load::Ordinary);
        }
        let start = 60 * 79;
        for second in 0..5 {
            alone.at((60 + second) * SECOND, start + second * 200);
        }
        for second in 5..60 {
            let load = alone.at((60 + second) * SECOND, start + 800 + (second - 4) * 30);
            assert!(matches!(load, Load::Computes { .. }), "{second}: {load:?}");
        }
    }

    #[test]
    fn a_burst_that_has_ended_is_not_a_job_that_computes() {
        let mut alone = Alone::new();
        // Three seconds on eight processors, then nothing: 480 % over 5 s.
        for (second, ticks) in [0, 800, 1600, 2400, 2400, 2400, 2400].into_iter().enumerate() {
            assert_eq!(alone.at(second as u64 * SECOND, ticks), Load::Ordinary, "{second}");
        }
    }

    #[test]
    fn a_job_that_has_ceased_computes_again_after_5_seconds() {
        let mut alone = Alone::new();
        (0..6).for_each(|second| _ = alone.at(second * SECOND, second * 800));
        assert!(matches!(alone.0.load(job()), Load::Computes { percent: 800 }));
        alone.at(6 * SECOND, 4000);
        assert_eq!(alone.at(7 * SECOND, 4000), Load::Ceased);
        for second in 8..12 {
            let ticks = 4000 + (second - 7) * 800;
            assert_eq!(alone.at(second * SECOND, ticks), Load::Ordinary, "{second}");
        }
        assert_eq!(alone.at(12 * SECOND, 8000), Load::Computes { percent: 800 });
    }

    #[test]
    fn windows_are_of_time_whatever_the_intervals() {
        // Intervals in ms, over and over; the first measurement after 5 s, in ms.
        for (intervals, computes_ms) in [
            (&[1000][..], 5000),
            (&[5000], 5000),
            (&[4900], 9800),
            (&[100], 5100),
            (&[1], 5000),
            (&[300, 1700, 50, 2500], 6550),
            (&[60_000], 60_000),
        ] {
            let mut alone = Alone::new();
            let mut now_ms = 0;
            let mut next = intervals.iter().cycle();
            while alone.at(now_ms * 1000, now_ms / 10) == Load::Ordinary {
                now_ms += next.next().expect("a cycle");
            }
            assert_eq!(now_ms, computes_ms, "{intervals:?}");
        }
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let mut alone = Alone::new();
        let mut most = 0;
        for step in 0..60_000 {
            // From 4 to 11 ms apart.
            let at_us = step * SECOND / 100 + step % 7 * 1000;
            alone.at(at_us, step);
            most = most.max(alone.0.jobs[&job()].samples.len());
        }
        assert!((SAMPLES_MAX - 2..=SAMPLES_MAX).contains(&most), "{most}");
    }

    #[test]
    fn what_was_used_before_the_first_measurement_does_not_count() {
        let mut alone = Alone::new();
        assert_eq!(alone.at(100 * SECOND, 360_000), Load::Ordinary);
        assert_eq!(alone.at(105 * SECOND, 360_000), Load::Ordinary);
        assert_eq!(alone.0.percent(1), 0);
        alone.at(106 * SECOND, 360_050);
        assert_eq!(alone.0.percent(1), 50);
    }

    #[test]
    fn a_build_of_short_processes_computes() {
        let mut meter = Meter::new(100);
        for second in 0..=5 {
            // make itself uses nothing; each second there are four other compilers, 0.4 s old.
            let compilers = (0..4).map(|slot| 100 + second * 4 + slot);
            let compilers = compilers.map(|pid| Process::new(pid, 1).in_job(7, 8).used(40));
            let make = Process::new(1, 0).in_job(7, 8).used(3);
            let table = Table::new(compilers.chain([make]));
            assert_eq!(meter.load(job()), Load::Ordinary);
            meter.measure(&table, u64::from(second) * SECOND);
        }
        assert_eq!(meter.load(job()), Load::Computes { percent: 160 });
    }

    #[test]
    fn a_member_that_ends_takes_nothing_away_from_the_others() {
        let mut meter = Meter::new(100);
        let member = |pid, ticks| Process::new(pid, 0).in_job(7, 8).used(ticks);
        meter.measure(&Table::new([member(1, 500), member(2, 90_000)]), 0);
        // The sum of their ticks falls from 90 500 to 1000.
        meter.measure(&Table::new([member(1, 1000)]), 5 * SECOND);
        assert_eq!(meter.load(job()), Load::Computes { percent: 100 });
        // A process's own ticks go backwards: nothing is counted, and nothing twice.
        meter.measure(&Table::new([member(1, 900)]), 6 * SECOND);
        meter.measure(&Table::new([member(1, 1000)]), 7 * SECOND);
        assert_eq!(meter.load(job()), Load::Ceased);
    }

    #[test]
    fn a_number_that_was_given_away_is_another_process() {
        let mut meter = Meter::new(100);
        let member = |started, ticks| {
            Table::new([Process::new(1, 0).in_job(7, 8).started(started).used(ticks)])
        };
        meter.measure(&member(1, 100), 0);
        // Since it started, and not the difference of both.
        meter.measure(&member(2, 90), SECOND);
        assert_eq!(meter.percent(1), 90);
        meter.measure(&member(3, 110), 2 * SECOND);
        assert_eq!(meter.percent(1), 110);
    }

    #[test]
    fn a_job_without_members_is_forgotten() {
        let mut alone = Alone::new();
        (0..6).for_each(|second| _ = alone.at(second * SECOND, second * 100));
        assert_ne!(alone.0.load(job()), Load::Ordinary);
        alone.0.measure(&Table::new([]), 6 * SECOND);
        assert!(alone.0.jobs.is_empty() && alone.0.processes.is_empty());
        assert_eq!(alone.at(7 * SECOND, 700), Load::Ordinary);
    }

    #[test]
    fn no_time_too_little_and_time_that_goes_backwards_measure_nothing() {
        let mut alone = Alone::new();
        alone.at(10 * SECOND, 0);
        alone.at(11 * SECOND, 50);
        for at in [11 * SECOND, 11 * SECOND + INTERVAL_MIN_US - 1, 9 * SECOND, 0] {
            alone.at(at, 60);
            assert_eq!(alone.0.percent(1), 50);
        }
        // What was used meanwhile counts in the next interval.
        alone.at(12 * SECOND, 70);
        assert_eq!(alone.0.percent(1), 20);
    }

    #[test]
    fn a_process_that_changes_its_job_is_counted_once() {
        let mut meter = Meter::new(100);
        let child = |group, ticks| Table::new([Process::new(1, 0).in_job(7, group).used(ticks)]);
        meter.measure(&child(7, 1000), 0);
        (1..=5).for_each(|second| meter.measure(&child(8, 1000 + second * 90), second * SECOND));
        assert_eq!(meter.load(job()), Load::Computes { percent: 90 });
        assert_eq!(meter.jobs.len(), 1);
    }

    #[test]
    fn numbers_at_their_limits_do_not_overflow() {
        let mut alone = Alone::new();
        alone.at(0, 0);
        assert_eq!(alone.at(5 * SECOND, u64::MAX), Load::Computes { percent: u32::MAX });
        alone.at(u64::MAX / 2, u64::MAX);
    }
}
