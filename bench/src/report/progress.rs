//! What a person sees while a run goes on: which trial, how far, and how long still.
//! From the runner's plan to a terminal's bars, or to one plain line a trial where the output is no terminal.
//! Knows labels, estimates and how trials ended; never what a trial does.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::results::Outcome;

/// Seconds of the plan's own estimate that weigh as much as what was observed: the first short trial must not turn
/// an estimate of an hour into one of ten minutes.
const PRIOR_SECONDS: f64 = 60.0;
/// Share of its estimate that a trial is thought to need still once it has overrun it.
const OVERRUN_SHARE: f64 = 0.1;
/// How often the time left is drawn anew.
const TICK: Duration = Duration::from_millis(500);

/// How long the rest of a plan takes, learnt from the part that is done.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Seconds of each trial as they were planned.
    planned: Vec<f64>,
    done: Vec<bool>,
    /// Sums over the trials that ran to their end: planned and real seconds.
    planned_done: f64,
    took_done: f64,
}

impl Estimate {
    /// A plan of which nothing is done. Estimates that are no positive number count as one second.
    pub fn new(seconds: impl IntoIterator<Item = f64>) -> Estimate {
        let planned: Vec<f64> = seconds.into_iter().map(|s| if s.is_finite() && s > 0.0 { s } else { 1.0 }).collect();
        Estimate { done: vec![false; planned.len()], planned, planned_done: 0.0, took_done: 0.0 }
    }

    /// A trial ran to its end in so many seconds: it is done, and says how good the estimates are.
    pub fn measured(&mut self, index: usize, took: f64) {
        if !self.pass(index) {
            return;
        }
        self.planned_done += self.planned[index];
        self.took_done += took.max(0.0);
    }

    /// A trial is over and teaches nothing: skipped, broken half-way, or found in an older file.
    /// False where it was over already.
    pub fn pass(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.done[index], true)
    }

    /// Real seconds for one planned second.
    pub fn scale(&self) -> f64 {
        (self.took_done + PRIOR_SECONDS) / (self.planned_done + PRIOR_SECONDS)
    }

    /// Seconds until the last trial ends, where `current` is the trial that runs and how long it has been running.
    pub fn left(&self, current: Option<(usize, f64)>) -> f64 {
        let scale = self.scale();
        let open = self.planned.iter().zip(&self.done).enumerate().filter(|(_, (_, done))| !**done);
        open.map(|(index, (planned, _))| {
            let whole = planned * scale;
            match current {
                Some((running, elapsed)) if running == index => (whole - elapsed).max(whole * OVERRUN_SHARE),
                _ => whole,
            }
        })
        .sum()
    }

    /// How many trials are over.
    pub fn count_done(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }
}

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

/// What bars and runner share; behind one lock, held for no longer than a few additions.
struct State {
    estimate: Estimate,
    current: Option<(usize, Instant)>,
}

impl State {
    fn left(&self) -> f64 {
        self.estimate.left(self.current.map(|(index, begun)| (index, begun.elapsed().as_secs_f64())))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A count of seconds stays meaningful after a panic elsewhere.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Face {
    Bars { all: MultiProgress, whole: ProgressBar, trial: ProgressBar },
    Lines(Box<dyn Write + Send>),
}

/// The progress of one run; it says its last word when it goes out of scope.
pub struct Progress {
    labels: Vec<String>,
    state: Arc<Mutex<State>>,
    face: Face,
    notes: Vec<String>,
}

impl Progress {
    /// Bars on the terminal behind standard error, or plain lines where that is a pipe or a file.
    pub fn new(plan: &[(String, f64)]) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::lines(plan, Box::new(std::io::stderr()));
        }
        let state = Progress::state(plan);
        let all = MultiProgress::new();
        let shared = Arc::clone(&state);
        let whole = all.add(ProgressBar::new(plan.len() as u64)).with_style(
            ProgressStyle::with_template("{bar:30.green} {pos}/{len} trials  {left}")
                .expect("the template is a constant")
                .progress_chars("━━ ")
                .with_key("left", move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                    // What the terminal does not take is lost and nothing else.
                    let _ = write!(out, "about {} left", spoken(lock(&shared).left()));
                }),
        );
        let trial = all.add(ProgressBar::new_spinner()).with_style(
            ProgressStyle::with_template("{spinner} {prefix:.bold}  {elapsed}  {wide_msg:.dim}")
                .expect("the template is a constant"),
        );
        whole.enable_steady_tick(TICK);
        trial.enable_steady_tick(TICK);
        Progress { labels: Progress::labels(plan), state, face: Face::Bars { all, whole, trial }, notes: Vec::new() }
    }

    /// Plain lines to `out`.
    pub fn lines(plan: &[(String, f64)], out: Box<dyn Write + Send>) -> Progress {
        Progress {
            labels: Progress::labels(plan),
            state: Progress::state(plan),
            face: Face::Lines(out),
            notes: Vec::new(),
        }
    }

    fn labels(plan: &[(String, f64)]) -> Vec<String> {
        plan.iter().map(|(label, _)| label.clone()).collect()
    }

    fn state(plan: &[(String, f64)]) -> Arc<Mutex<State>> {
        let estimate = Estimate::new(plan.iter().map(|(_, seconds)| *seconds));
        Arc::new(Mutex::new(State { estimate, current: None }))
    }

    /// The trial of an older file that a resumed run takes over: `seconds` is what it took then, and teaches.
    pub fn already(&mut self, index: usize, seconds: f64) {
        lock(&self.state).estimate.measured(index, seconds);
        let done = lock(&self.state).estimate.count_done();
        let label = self.labels[index].clone();
        match &mut self.face {
            Face::Bars { whole, .. } => whole.set_position(done as u64),
            Face::Lines(_) => self.say(&format!("[{done}/{}] {label}: measured before", self.labels.len())),
        }
    }

    /// A trial begins.
    pub fn begin(&mut self, index: usize) {
        assert!(index < self.labels.len(), "trial {index} is not in a plan of {}", self.labels.len());
        lock(&self.state).current = Some((index, Instant::now()));
        self.notes.clear();
        if let Face::Bars { trial, .. } = &self.face {
            trial.set_prefix(self.labels[index].clone());
            trial.set_message("");
            trial.reset_elapsed();
        }
    }

    /// What the trial is at: shown beside its bar. On a pipe only the last note of a trial that fails is printed.
    pub fn note(&mut self, text: &str) {
        match &self.face {
            Face::Bars { trial, .. } => trial.set_message(text.to_owned()),
            Face::Lines(_) => self.notes = vec![text.to_owned()],
        }
    }

    /// A line that stays: printed above the bars, or as it is.
    pub fn say(&mut self, text: &str) {
        // A terminal or pipe that is gone must not end a run of an hour.
        match &mut self.face {
            Face::Bars { all, .. } => drop(all.println(text)),
            Face::Lines(out) => drop(writeln!(out, "{text}").and_then(|()| out.flush())),
        }
    }

    /// The trial that was begun is over.
    pub fn end(&mut self, index: usize, outcome: &Outcome) {
        let (took, left, done) = {
            let mut state = lock(&self.state);
            let took = match state.current.take() {
                Some((running, begun)) if running == index => begun.elapsed().as_secs_f64(),
                _ => 0.0,
            };
            match outcome {
                Outcome::Measured(_) => state.estimate.measured(index, took),
                Outcome::Skipped(_) | Outcome::Failed(_) => drop(state.estimate.pass(index)),
            }
            (took, state.left(), state.estimate.count_done())
        };
        let mut line = format!("[{done}/{}] {}: ", self.labels.len(), self.labels[index]);
        let _ = match outcome {
            Outcome::Measured(measures) => write!(line, "{} measures in {}", measures.len(), spoken(took)),
            Outcome::Skipped(why) => write!(line, "skipped: {why}"),
            Outcome::Failed(why) => {
                let at = self.notes.last().map(|note| format!(" (at: {note})")).unwrap_or_default();
                write!(line, "FAILED after {}: {why}{at}", spoken(took))
            }
        };
        match &self.face {
            Face::Bars { whole, trial, .. } => {
                whole.set_position(done as u64);
                trial.set_message("");
                // What was measured stands in the results; what was not is news.
                if !matches!(outcome, Outcome::Measured(_)) {
                    self.say(&line);
                }
            }
            Face::Lines(_) => {
                if done < self.labels.len() {
                    let _ = write!(line, "; about {} left", spoken(left));
                }
                self.say(&line);
            }
        }
    }

    /// Seconds until the last trial ends.
    pub fn seconds_left(&self) -> f64 {
        lock(&self.state).left()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Face::Bars { whole, trial, .. } = &self.face {
            trial.finish_and_clear();
            whole.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_learns_the_scale_and_counts_only_what_is_open() {
        let mut estimate = Estimate::new([60.0; 10]);
        assert_eq!(estimate.left(None), 600.0);
        for index in 0..5 {
            estimate.measured(index, 120.0);
        }
        // 5 × 120 s for 5 × 60 s, with the prior of 60 s: (600 + 60) / (300 + 60).
        assert!((estimate.scale() - 660.0 / 360.0).abs() < 1e-9);
        assert!((estimate.left(None) - 300.0 * 660.0 / 360.0).abs() < 1e-9);
        assert_eq!(estimate.count_done(), 5);
    }

    #[test]
    fn one_short_trial_does_not_overturn_the_plan() {
        let mut estimate = Estimate::new([1.0, 600.0, 600.0]);
        estimate.measured(0, 0.01);
        assert!(estimate.left(None) > 1100.0);
    }

    #[test]
    fn what_was_skipped_teaches_nothing_and_counts_once() {
        let mut estimate = Estimate::new([100.0, 100.0, 100.0]);
        assert!(estimate.pass(0));
        assert!(!estimate.pass(0));
        estimate.measured(0, 9000.0);
        assert_eq!(estimate.scale(), 1.0);
        assert_eq!(estimate.left(None), 200.0);
    }

    #[test]
    fn the_trial_that_runs_shrinks_and_never_reaches_nothing() {
        let estimate = Estimate::new([100.0, 50.0]);
        assert_eq!(estimate.left(Some((0, 30.0))), 120.0);
        assert_eq!(estimate.left(Some((0, 1e6))), 60.0);
    }

    #[test]
    fn estimates_that_are_no_numbers_stay_finite() {
        let estimate = Estimate::new([f64::NAN, f64::INFINITY, -4.0, 0.0]);
        assert_eq!(estimate.left(None), 4.0);
    }

    #[test]
    fn times_are_spoken() {
        let said: Vec<String> = [0.4, 99.4, 100.0, 3570.0, 6000.0, 7500.0, f64::NAN].map(spoken).into();
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
            ["thinc lan web", "xpra lan web", "x lan web", "xrdp lan web"].map(|l| (l.to_owned(), 30.0)).into();
        let mut progress = Progress::lines(&plan, Box::new(out.clone()));
        progress.already(3, 31.0);
        progress.begin(0);
        progress.note("page 3 of 54");
        progress.end(0, &Outcome::Measured(Vec::new()));
        progress.begin(1);
        progress.note("starting the viewer");
        progress.end(1, &Outcome::Failed("the viewer ended".into()));
        progress.begin(2);
        progress.end(2, &Outcome::Skipped("no browser".into()));
        assert_eq!(progress.seconds_left(), 0.0);
        drop(progress);
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], "[1/4] xrdp lan web: measured before");
        assert!(lines[1].starts_with("[2/4] thinc lan web: 0 measures in 0 s; about "), "{text}");
        assert!(lines[2].contains("FAILED after 0 s: the viewer ended (at: starting the viewer)"), "{text}");
        assert_eq!(lines[3], "[4/4] x lan web: skipped: no browser");
    }
}
