//! The progress of a run: one line a trial, with the time that the rest of the plan takes; on a
//! terminal also the trial that runs. Goes to standard error. Knows labels, estimates and outcomes;
//! never what a trial does.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use crate::results::Outcome;

/// Seconds of the plan that weigh as much as what was observed: the first short trial must not turn
/// an estimate of an hour into one of ten minutes.
const PRIOR_SECONDS: f64 = 60.0;
/// Erases a line of a terminal and returns to its beginning.
const ERASE: &str = "\r\x1b[2K";

/// Seconds as a person says them: "8 s", "3 min", "1 h 05 min".
pub fn spoken(seconds: f64) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0).round() as u64 } else { 0 };
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", (seconds + 30) / 60),
        _ => {
            let minutes = (seconds + 30) / 60;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}

/// How long the rest of a plan takes, learned from the trials that are done.
struct Estimate {
    /// Planned seconds of the trials that are not done, together.
    planned_left: f64,
    /// Planned and real seconds of the trials that were measured.
    planned_done: f64,
    took_done: f64,
}

impl Estimate {
    /// A trial is over. One that was skipped or failed says nothing of how long others take.
    fn end(&mut self, planned: f64, took: Option<f64>) {
        self.planned_left -= planned;
        if let Some(took) = took {
            self.planned_done += planned;
            self.took_done += took;
        }
    }

    fn seconds_left(&self) -> f64 {
        let scale = (self.took_done + PRIOR_SECONDS) / (self.planned_done + PRIOR_SECONDS);
        self.planned_left * scale
    }
}

/// The progress of a plan.
pub struct Progress {
    /// Label and planned seconds of each trial.
    plan: Vec<(String, f64)>,
    estimate: Estimate,
    begun: Instant,
    out: Box<dyn Write + Send>,
    is_terminal: bool,
}

impl Progress {
    /// Shows the progress of these trials on standard error.
    pub fn new(plan: &[(String, f64)]) -> Progress {
        let stderr = std::io::stderr();
        let is_terminal = stderr.is_terminal();
        Progress::to(plan, Box::new(stderr), is_terminal)
    }

    fn to(plan: &[(String, f64)], out: Box<dyn Write + Send>, is_terminal: bool) -> Progress {
        let planned_left = plan.iter().map(|(_, seconds)| seconds).sum();
        let estimate = Estimate { planned_left, planned_done: 0.0, took_done: 0.0 };
        Progress { plan: plan.to_vec(), estimate, begun: Instant::now(), out, is_terminal }
    }

    /// A trial begins.
    pub fn begin(&mut self, index: usize) {
        self.begun = Instant::now();
        if self.is_terminal {
            let left = spoken(self.estimate.seconds_left());
            let label = &self.plan[index].0;
            self.write(&format!("[{}/{}] {label} …; {left} left", index + 1, self.plan.len()));
        }
    }

    /// The trial that was begun is over.
    pub fn end(&mut self, index: usize, outcome: &Outcome) {
        let took = self.begun.elapsed().as_secs_f64();
        let (label, planned) = &self.plan[index];
        let measured = matches!(outcome, Outcome::Measured(_));
        self.estimate.end(*planned, measured.then_some(took));
        let mut line = String::from(if self.is_terminal { ERASE } else { "" });
        let _ = write!(line, "[{}/{}] {label}: ", index + 1, self.plan.len());
        let _ = match outcome {
            Outcome::Measured(found) => {
                write!(line, "{} measures in {}", found.len(), spoken(took))
            }
            Outcome::Skipped(why) => write!(line, "skipped: {why}"),
            Outcome::Failed(why) => write!(line, "FAILED after {}: {why}", spoken(took)),
        };
        if index + 1 < self.plan.len() {
            let _ = write!(line, "; about {} left", spoken(self.estimate.seconds_left()));
        }
        line.push('\n');
        self.write(&line);
    }

    /// A terminal or pipe that is closed must not end a run of an hour.
    fn write(&mut self, text: &str) {
        drop(self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_estimate_learns_from_what_was_measured_alone() {
        let mut estimate = Estimate { planned_left: 600.0, planned_done: 0.0, took_done: 0.0 };
        assert_eq!(estimate.seconds_left(), 600.0);
        for _ in 0..5 {
            estimate.end(60.0, Some(120.0));
        }
        // 5 × 120 s for 5 × 60 s, with the prior of 60 s: (600 + 60) / (300 + 60).
        assert!((estimate.seconds_left() - 300.0 * 660.0 / 360.0).abs() < 1e-9);
        estimate.end(100.0, None);
        assert!((estimate.seconds_left() - 200.0 * 660.0 / 360.0).abs() < 1e-9);
        let mut short = Estimate { planned_left: 1201.0, planned_done: 0.0, took_done: 0.0 };
        short.end(1.0, Some(0.01));
        assert!(short.seconds_left() > 1100.0, "one short trial does not overturn the plan");
    }

    #[test]
    fn times_are_spoken() {
        let said: Vec<String> =
            [0.4, 99.4, 100.0, 3570.0, 6000.0, 7500.0, f64::NAN].map(spoken).into();
        assert_eq!(said, ["0 s", "99 s", "2 min", "60 min", "1 h 40 min", "2 h 05 min", "0 s"]);
    }

    /// What was written, for reading while the writer holds the other end.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_pipe_gets_one_line_for_each_trial() {
        let out = Shared::default();
        let plan: Vec<(String, f64)> =
            ["thinc lan web", "xpra lan web", "x lan web"].map(|l| (l.to_owned(), 30.0)).into();
        let mut progress = Progress::to(&plan, Box::new(out.clone()), false);
        for (index, outcome) in [
            Outcome::Measured(Vec::new()),
            Outcome::Failed("the viewer ended".into()),
            Outcome::Skipped("no browser".into()),
        ]
        .iter()
        .enumerate()
        {
            progress.begin(index);
            progress.end(index, outcome);
        }
        drop(progress);
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("[1/3] thinc lan web: 0 measures in 0 s; about "), "{text}");
        assert!(lines[1].contains("FAILED after 0 s: the viewer ended; about "), "{text}");
        assert_eq!(lines[2], "[3/3] x lan web: skipped: no browser");
    }
}
