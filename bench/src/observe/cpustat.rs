//! How busy a server's processors are, as CPUStat of the VirtualGL study measures it.
//! From /proc or a control group to the mean and the peak over some time: of the machine, or of some processes alone.
//! Knows CPU time; never what it was spent on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::account::{Machine, Trees, usage_of};
use crate::Error;

/// How `cpustat` runs.
#[derive(Args)]
pub struct Options {
    /// A process to watch, with all that it starts; may be given more than once
    #[arg(long, conflicts_with = "cgroup")]
    pid: Vec<u32>,
    /// A control group to watch: its folder, or its path below /sys/fs/cgroup
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// How long, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Between two readings, in milliseconds: the peak is of one such stretch
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..=60_000))]
    interval: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was used. Shares are of all processors together, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was watched.
    pub of: String,
    /// Processors that there are.
    pub processors: usize,
    /// How long, seconds.
    pub seconds: f64,
    /// CPU time that was used, milliseconds.
    pub cpu_ms: f64,
    /// Over all the time.
    pub mean: f64,
    /// Over the busiest stretch between two readings.
    pub peak: f64,
    /// Each stretch.
    pub samples: Vec<f64>,
    /// Whether all watched processes had ended before the time was over.
    pub ended: bool,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let report = measure(options)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let (one, seconds) = (report.processors as f64, report.seconds);
    println!("CPU of {}, {seconds:.1} s, {} processors", report.of, report.processors);
    println!("  mean  {:6.2} % of all  {:6.1} % of one", report.mean * 100.0, report.mean * one * 100.0);
    println!("  peak  {:6.2} % of all  {:6.1} % of one", report.peak * 100.0, report.peak * one * 100.0);
    if report.ended {
        println!("  All of these processes ended before the {} s were over.", options.seconds);
    }
    Ok(())
}

/// Measures.
pub fn measure(options: &Options) -> Result<Report, Error> {
    let mut source = Source::new(options)?;
    let processors = processors()?;
    let (length, between) =
        (Duration::from_secs(options.seconds.into()), Duration::from_millis(options.interval.into()));
    let began = Instant::now();
    let mut series = Series::new(processors, source.read()?.ok_or("all of these processes have ended")?);
    let mut ended = false;
    while began.elapsed() < length && !ended {
        let next = (began.elapsed() + between).min(length);
        std::thread::sleep(next.saturating_sub(began.elapsed()));
        match source.read()? {
            Some(cpu_ms) => series.handle_reading(began.elapsed(), cpu_ms),
            None => ended = true,
        }
    }
    series.finish(source.name(), ended)
}

/// Where CPU time is read.
enum Source {
    Machine,
    Trees(Vec<u32>, Trees),
    Cgroup(PathBuf),
}

impl Source {
    fn new(options: &Options) -> Result<Source, Error> {
        if let Some(path) = &options.cgroup {
            let folder = if path.is_dir() { path.clone() } else { Path::new("/sys/fs/cgroup").join(path) };
            return Ok(Source::Cgroup(folder));
        }
        match options.pid.as_slice() {
            [] => Ok(Source::Machine),
            pids => Ok(Source::Trees(pids.to_vec(), Trees::new(pids)?)),
        }
    }

    fn name(&self) -> String {
        match self {
            Source::Machine => "the whole machine".into(),
            Source::Trees(pids, _) => format!("process trees {pids:?}"),
            Source::Cgroup(folder) => format!("control group {}", folder.display()),
        }
    }

    /// CPU time until now, milliseconds; nothing when there is nobody left to use any.
    fn read(&mut self) -> Result<Option<f64>, Error> {
        match self {
            Source::Machine => Ok(Some(Machine::now()?.busy_ms)),
            Source::Trees(_, trees) => trees.cpu_ms(),
            Source::Cgroup(folder) => usage_of(folder).map(Some),
        }
    }
}

/// Processors that there are: those of /proc/stat, which the time of the whole machine is of, whatever this process may
/// use of them.
fn processors() -> Result<usize, Error> {
    let text = std::fs::read_to_string("/proc/stat").map_err(|error| format!("cannot read /proc/stat: {error}"))?;
    let is_one =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Ok(text.lines().filter(is_one).count().max(1))
}

/// Readings of a growing sum.
#[derive(Debug)]
struct Series {
    processors: usize,
    first_ms: f64,
    last: (Duration, f64),
    samples: Vec<f64>,
}

impl Series {
    fn new(processors: usize, first_ms: f64) -> Series {
        Series { processors, first_ms, last: (Duration::ZERO, first_ms), samples: Vec::new() }
    }

    fn share(&self, cpu_ms: f64, time: Duration) -> f64 {
        cpu_ms / (time.as_secs_f64() * 1e3 * self.processors as f64)
    }

    fn handle_reading(&mut self, at: Duration, cpu_ms: f64) {
        let time = at.saturating_sub(self.last.0);
        if !time.is_zero() {
            self.samples.push(self.share(cpu_ms - self.last.1, time));
            self.last = (at, cpu_ms);
        }
    }

    fn finish(self, of: String, ended: bool) -> Result<Report, Error> {
        let (time, last_ms) = self.last;
        let peak = self.samples.iter().copied().reduce(f64::max);
        let peak = peak.ok_or_else(|| format!("{of}: ended before the first reading; take a shorter --interval"))?;
        let cpu_ms = last_ms - self.first_ms;
        let mean = self.share(cpu_ms, time);
        let (processors, seconds) = (self.processors, time.as_secs_f64());
        Ok(Report { of, processors, seconds, cpu_ms, mean, peak, samples: self.samples, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_peak_are_shares_of_all_processors() {
        let mut series = Series::new(2, 1000.0);
        series.handle_reading(Duration::from_secs(1), 1500.0);
        series.handle_reading(Duration::from_secs(3), 3500.0);
        series.handle_reading(Duration::from_secs(4), 3500.0);
        let report = series.finish("these".into(), false).unwrap();
        assert_eq!(report.samples, [0.25, 0.5, 0.0]);
        assert_eq!((report.cpu_ms, report.mean, report.peak), (2500.0, 0.3125, 0.5));
        assert!(Series::new(2, 0.0).finish("these".into(), true).is_err(), "no figure of nothing");
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        // Above the kernel's highest process id.
        assert!(Trees::new(&[4_194_305]).is_err());
        assert!(processors().unwrap() >= 1);
    }
}
