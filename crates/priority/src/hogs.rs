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
/// On a crowded machine none may get that much. There a job computes that was ready to run at each
/// of so many measurements, over so long, in which the machine's processors were idle for so little
/// of the time, in percent, that it had to wait; and which got so much of a processor at least:
/// what wakes for a moment together with each measurement gets less. One that is ready for half of
/// the time is so at all of them once in 30 000 times, and for four fifths once in 30.
const WAITS_MEASUREMENTS: u32 = 15;
pub(crate) const WAITS_US: u64 = 30_000_000;
const CROWDED_IDLE_PERCENT: u64 = 10;
const WAITS_PERCENT: u32 = 10;
/// One that was not found like this again for so long computes no more.
const WAITED_US: u64 = 120_000_000;
/// Nothing is known of the time between two measurements that are this far apart.
const GAP_US: u64 = 6_000_000;
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
    /// It would if the machine were less crowded.
    Waits { percent: u32 },
    /// It did either until this measurement.
    Ceased,
}

/// When a measurement is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// A clock that never goes backwards.
    pub(crate) us: u64,
    /// For how long one processor was idle since some moment, as the mean of all. None: unknown.
    pub(crate) idle_us: Option<u64>,
}

/// What a job had used in all at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_us: u64,
    ticks: u64,
    /// As in [`Now`].
    idle_us: Option<u64>,
}

/// Measurements in a row at which a member of a job was ready to run.
#[derive(Clone, Copy, Debug)]
struct Ready {
    first: Sample,
    measurements: u32,
}

/// What one job used. A window is the time since the newest sample that is at least as old as the
/// window is long: longer than that if measurements are rarer, and unknown for a younger job.
#[derive(Debug)]
struct Usage {
    /// From old to new, never empty, at most `SAMPLES_MAX`.
    samples: VecDeque<Sample>,
    /// None: no member was at the last measurement.
    ready: Option<Ready>,
    /// When it was last found to wait.
    waited_us: u64,
    load: Load,
}

impl Usage {
    /// A job that has used nothing yet.
    fn new(at_us: u64) -> Usage {
        let samples = VecDeque::from([Sample { at_us, ticks: 0, idle_us: None }]);
        Usage { samples, ready: None, waited_us: 0, load: Load::Ordinary }
    }

    fn newest(&self) -> Sample {
        self.samples[self.samples.len() - 1]
    }

    /// `used` ticks more were used until now. `wants_more`: a member is ready to run.
    fn add(&mut self, at: Now, used: u64, wants_more: bool, ticks_per_second: u64) {
        let Now { us: at_us, idle_us } = at;
        let ticks = self.newest().ticks.saturating_add(used);
        self.samples.push_back(Sample { at_us, ticks, idle_us });
        while self.samples.len() > 1 && self.samples[1].at_us + COMPUTES_US <= at_us {
            self.samples.pop_front();
        }
        assert!(self.samples.len() <= SAMPLES_MAX, "a job keeps a bounded number of samples");
        self.judge(wants_more, ticks_per_second);
    }

    fn judge(&mut self, wants_more: bool, ticks_per_second: u64) {
        let waits = self.waits(wants_more, ticks_per_second);
        let waited = self.newest().at_us.saturating_sub(self.waited_us) < WAITED_US;
        let long = self.percent(COMPUTES_US, ticks_per_second);
        let rests = self.percent(CEASES_US, ticks_per_second).is_some_and(|p| p < CEASES_PERCENT);
        self.load = match (self.load, long) {
            // On a crowded machine one that computes gets little, because it computes: it is ready
            // to run all the same.
            (Load::Computes { .. } | Load::Waits { .. }, _) if rests && !wants_more => self.cease(),
            (Load::Computes { percent }, long) => {
                Load::Computes { percent: long.unwrap_or(percent) }
            }
            (_, Some(percent)) if percent >= COMPUTES_PERCENT && !rests => {
                Load::Computes { percent }
            }
            (Load::Waits { .. }, _) if !waited => self.cease(),
            (Load::Waits { percent }, _) => Load::Waits { percent: waits.unwrap_or(percent) },
            _ => waits.map_or(Load::Ordinary, |percent| Load::Waits { percent }),
        };
    }

    /// The windows begin again: what the job used before it ceased would make it compute again at
    /// once.
    fn cease(&mut self) -> Load {
        self.samples.drain(..self.samples.len() - 1);
        Load::Ceased
    }

    /// What a job used that was ready to run all the time on a crowded machine, once it was for
    /// long enough; then its measurements begin again.
    fn waits(&mut self, wants_more: bool, ticks_per_second: u64) -> Option<u32> {
        let newest = self.newest();
        let before = self.samples.iter().rev().nth(1).map_or(0, |sample| sample.at_us);
        let is_known = newest.at_us - before <= GAP_US;
        let known = self.ready.take().filter(|_| is_known);
        if !wants_more {
            return None;
        }
        let mut ready = known.unwrap_or(Ready { first: newest, measurements: 0 });
        ready.measurements += 1;
        let elapsed_us = newest.at_us - ready.first.at_us;
        if ready.measurements < WAITS_MEASUREMENTS || elapsed_us < WAITS_US {
            self.ready = Some(ready);
            return None;
        }
        let idle_us = newest.idle_us?.saturating_sub(ready.first.idle_us?);
        let used = percent(newest.ticks - ready.first.ticks, elapsed_us, ticks_per_second);
        if idle_us > elapsed_us / 100 * CROWDED_IDLE_PERCENT || used < WAITS_PERCENT {
            return None;
        }
        self.waited_us = newest.at_us;
        Some(used)
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
    pub(crate) fn measure(&mut self, table: &Table, now: Now) {
        let now_us = now.us;
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
                usage.add(now, used, wants_more, self.ticks_per_second);
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

    /// The job answers the person: that it was ready to run until now does not count.
    pub(crate) fn begin_again(&mut self, job: Job) {
        if let Some(usage) = self.jobs.get_mut(&job) {
            usage.ready = None;
            if let Load::Waits { .. } = usage.load {
                usage.load = Load::Ordinary;
            }
        }
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

    impl Meter {
        /// On a machine that is never idle.
        fn busy(&mut self, table: &Table, us: u64) {
            self.measure(table, Now { us, idle_us: Some(0) });
        }
    }

    /// A meter, and one process of a job whose ticks are told.
    struct Alone(Meter);

    impl Alone {
        fn new() -> Alone {
            Alone(Meter::new(100))
        }

        fn at(&mut self, us: u64, ticks: u64) -> Load {
            self.0.busy(&Table::new([Process::new(1, 0).in_job(7, 8).used(ticks)]), us);
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
            meter.busy(&Table::new([Process { wants_processor, ..process }]), second * SECOND);
            meter.load(job())
        };
        (0..6).for_each(|second| _ = at(second, second * 100, true));
        for second in 6..60 {
            let load = at(second, 500 + second, true);
            assert!(matches!(load, Load::Computes { .. }), "{second}: {load:?}");
        }
        assert_eq!(at(60, 560, false), Load::Ceased);
    }

    /// Of one that gets so much, on a machine that is idle for so much.
    fn first_that_waits(
        [percent, idle]: [u64; 2],
        interval_ms: u64,
        is_ready: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let mut meter = Meter::new(100);
        for step in 0..200 {
            let now_ms = step * interval_ms;
            let process = Process::new(1, 0).in_job(7, 8).used(now_ms * percent / 1000);
            let process = Process { wants_processor: is_ready(step), ..process };
            let now = Now { us: now_ms * 1000, idle_us: Some(now_ms * 10 * idle) };
            meter.measure(&Table::new([process]), now);
            match meter.load(job()) {
                Load::Ordinary => {}
                load => {
                    assert_eq!(load, Load::Waits { percent: percent as u32 });
                    return Some(now_ms);
                }
            }
        }
        None
    }

    #[test]
    fn one_that_is_always_ready_to_run_waits_for_a_crowded_machine() {
        // The first measurement tells nothing of the time before it.
        assert_eq!(first_that_waits([40, 0], 2000, |_| true), Some(32_000));
        assert_eq!(first_that_waits([10, 0], 250, |_| true), Some(30_250));
        assert_eq!(first_that_waits([79, 0], 6000, |_| true), Some(15 * 6000));
        assert_eq!(first_that_waits([79, 0], 6001, |_| true), None, "too much is unknown");
        assert_eq!(first_that_waits([40, 0], 2000, |step| step != 10), Some(52_000));
        // Once in 30 s it was not, or it wakes only for the measurement.
        assert_eq!(first_that_waits([79, 0], 2000, |step| step % 15 != 0), None);
        assert_eq!(first_that_waits([9, 0], 2000, |_| true), None);
        // It need not have waited: it was ready by chance.
        assert_eq!(first_that_waits([79, 11], 2000, |_| true), None);
        assert_eq!(first_that_waits([40, 10], 2000, |_| true), Some(32_000));
    }

    #[test]
    fn one_that_was_ready_on_an_idle_machine_waits_once_it_is_crowded() {
        let mut meter = Meter::new(100);
        let mut idle_us = 0;
        let found = (0..100).find(|second| {
            let process = Process::new(1, 0).in_job(7, 8).used(second * 50);
            let process = Process { wants_processor: true, ..process };
            idle_us += if *second < 20 { SECOND / 5 } else { 0 };
            let now = Now { us: second * SECOND, idle_us: Some(idle_us) };
            meter.measure(&Table::new([process]), now);
            meter.load(job()) != Load::Ordinary
        });
        // From second 1 to 31 the machine was idle for 12 %; what is measured begins again then.
        assert_eq!(found, Some(62));
        assert_eq!(meter.load(job()), Load::Waits { percent: 50 });
    }

    #[test]
    fn one_that_waits_computes_or_ceases() {
        let mut meter = Meter::new(100);
        let mut ticks = 0;
        let mut second = 0;
        let mut run = |seconds: u64, percent: u64, wants_processor: bool| {
            for _ in 0..seconds {
                let process = Process::new(1, 0).in_job(7, 8).used(ticks);
                let process = Process { wants_processor, ..process };
                meter.busy(&Table::new([process]), second * SECOND);
                (ticks, second) = (ticks + percent, second + 1);
            }
            meter.load(job())
        };
        assert_eq!(run(40, 40, true), Load::Waits { percent: 40 });
        assert_eq!(run(2, 40, false), Load::Waits { percent: 40 });
        assert_eq!(run(7, 100, true), Load::Computes { percent: 100 });
        assert_eq!(run(3, 10, false), Load::Ceased);
        assert_eq!(run(30, 40, true), Load::Ordinary, "from the beginning");
        assert_eq!(run(2, 40, true), Load::Waits { percent: 40 });
        assert_eq!(run(2, 10, false), Load::Ceased);
    }

    #[test]
    fn nothing_waits_where_nobody_knows_how_idle_the_machine_is() {
        let mut meter = Meter::new(100);
        for second in 0..200 {
            let process = Process::new(1, 0).in_job(7, 8).used(second * 50);
            let process = Process { wants_processor: true, ..process };
            let now = Now { us: second * SECOND, idle_us: None };
            meter.measure(&Table::new([process]), now);
            assert_eq!(meter.load(job()), Load::Ordinary, "{second}");
        }
    }

    #[test]
    fn one_that_waited_ceases_once_the_machine_is_no_longer_crowded() {
        let mut meter = Meter::new(100);
        let mut at = |second: u64, is_crowded: bool| {
            let process = Process::new(1, 0).in_job(7, 8).used(second * 50);
            let process = Process { wants_processor: true, ..process };
            let idle_us = Some(if is_crowded { 0 } else { second * SECOND });
            meter.measure(&Table::new([process]), Now { us: second * SECOND, idle_us });
            meter.load(job())
        };
        (0..200).for_each(|second| _ = at(second, true));
        // Found at the seconds 31, 62, and so on to 186.
        for second in 200..301 {
            assert_eq!(at(second, false), Load::Waits { percent: 50 }, "{second}");
        }
        let ceased = (301..400).find(|&second| at(second, false) == Load::Ceased);
        assert_eq!(ceased, Some(306));
        assert_eq!(at(307, false), Load::Ordinary);
    }

    #[test]
    fn one_that_answered_waits_only_from_then_on() {
        let mut meter = Meter::new(100);
        let mut found = None;
        for second in 0..100 {
            let process = Process::new(1, 0).in_job(7, 8).used(second * 50);
            meter
                .busy(&Table::new([Process { wants_processor: true, ..process }]), second * SECOND);
            match meter.load(job()) {
                Load::Waits { .. } if second > 50 => found = found.or(Some(second)),
                _ => {}
            }
            if second <= 50 {
                meter.begin_again(job());
                assert_eq!(meter.load(job()), Load::Ordinary);
            }
        }
        assert_eq!(found, Some(81));
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
            meter.busy(&table, u64::from(second) * SECOND);
        }
        assert_eq!(meter.load(job()), Load::Computes { percent: 160 });
    }

    #[test]
    fn a_member_that_ends_takes_nothing_away_from_the_others() {
        let mut meter = Meter::new(100);
        let member = |pid, ticks| Process::new(pid, 0).in_job(7, 8).used(ticks);
        meter.busy(&Table::new([member(1, 500), member(2, 90_000)]), 0);
        // The sum of their ticks falls from 90 500 to 1000.
        meter.busy(&Table::new([member(1, 1000)]), 5 * SECOND);
        assert_eq!(meter.load(job()), Load::Computes { percent: 100 });
        // A process's own ticks go backwards: nothing is counted, and nothing twice.
        meter.busy(&Table::new([member(1, 900)]), 6 * SECOND);
        meter.busy(&Table::new([member(1, 1000)]), 7 * SECOND);
        assert_eq!(meter.load(job()), Load::Ceased);
    }

    #[test]
    fn a_number_that_was_given_away_is_another_process() {
        let mut meter = Meter::new(100);
        let member = |started, ticks| {
            Table::new([Process::new(1, 0).in_job(7, 8).started(started).used(ticks)])
        };
        meter.busy(&member(1, 100), 0);
        // Since it started, and not the difference of both.
        meter.busy(&member(2, 90), SECOND);
        assert_eq!(meter.percent(1), 90);
        meter.busy(&member(3, 110), 2 * SECOND);
        assert_eq!(meter.percent(1), 110);
    }

    #[test]
    fn a_job_without_members_is_forgotten() {
        let mut alone = Alone::new();
        (0..6).for_each(|second| _ = alone.at(second * SECOND, second * 100));
        assert_ne!(alone.0.load(job()), Load::Ordinary);
        alone.0.busy(&Table::new([]), 6 * SECOND);
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
        meter.busy(&child(7, 1000), 0);
        (1..=5).for_each(|second| meter.busy(&child(8, 1000 + second * 90), second * SECOND));
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
