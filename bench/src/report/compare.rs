//! Two runs against each other: what became worse, what became better, and what only one of them
//! has. From two files of results to a verdict for a person or a script. Knows measures by their
//! keys; never what they mean.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::{store, words};
use crate::Error;
use crate::results::{Better, Measure, Outcome, Results, Trial};
use crate::stats::{Change, Summary};

/// With too few samples for an interval, a change counts only beyond this many times the threshold.
const FEW_TIMES: f64 = 3.0;

/// Options of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = RULE)]
pub struct Options {
    /// The earlier run.
    #[arg(value_name = "A.json")]
    first: PathBuf,
    /// The later run.
    #[arg(value_name = "B.json")]
    second: PathBuf,
    /// How much worse a median may get before it counts: "10%" or "0.1".
    #[arg(long, default_value = "10%", value_parser = threshold)]
    threshold: f64,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

const RULE: &str = "\
Measures are matched by peer, link, workload, form, quantity and part; those without a better
direction are left out. A change counts when the median is worse (or better) by more than the
threshold, and
  with 5 samples or more on both sides: the 98 % bootstrap interval of the ratio of medians leaves
  out 1;
  with fewer on either: the samples of the two do not overlap and the change exceeds three times the
  threshold.
A trial that was measured in A and failed in B is a regression, whatever its figures were.
The random numbers of the bootstrap have a constant seed: the same files always give the same
verdict.

Exit status: 0 no regression, 1 at least one, 2 a file that cannot be read.";

fn threshold(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text.trim(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value / unit),
        _ => Err(format!("\"{text}\" is no share: write \"10%\" or \"0.1\"")),
    }
}

/// Which measure of which trial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Of which peer.
    pub peer: String,
    /// On which link.
    pub link: String,
    /// The workload.
    pub workload: String,
    /// In which form, as results.rs spells it in words.
    pub form: String,
    /// The quantity; empty for the trial as a whole.
    pub quantity: String,
    /// The part.
    pub part: String,
}

/// One measure that both runs have.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    pub place: Place,
    /// Its unit.
    pub unit: String,
    /// Medians of A and B.
    pub medians: (f64, f64),
    /// Samples of A and B.
    pub samples: (usize, usize),
    /// Median of B over that of A; none if A's is zero.
    pub ratio: Option<f64>,
    /// The 98 % interval of that ratio, if there are enough samples.
    pub interval: Option<(f64, f64)>,
    /// Worse by this share of A; negative is better. None if A or B is zero.
    pub worse: Option<f64>,
}

/// What two runs differ in.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Worse, beyond the threshold and clearly; the worst first.
    pub regressions: Vec<Finding>,
    /// Better, likewise; the best first.
    pub improvements: Vec<Finding>,
    /// Trials that were measured in A and failed in B, with the reason.
    pub broken: Vec<(Place, String)>,
    /// Trials that failed in A and were measured in B.
    pub repaired: Vec<Place>,
    /// Measured in A and not in B: gone, skipped, or without a sample.
    pub only_first: Vec<Place>,
    /// Measured in B and not in A.
    pub only_second: Vec<Place>,
    /// Measures that were compared.
    pub compared: usize,
    /// Differences that make the two runs hard to compare: machines, links or versions.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Whether anything became worse.
    pub fn has_regression(&self) -> bool {
        !self.regressions.is_empty() || !self.broken.is_empty()
    }
}

/// Prints what two runs differ in; the exit status says whether anything became worse.
///
/// # Errors
/// The findings cannot be printed.
pub fn run(options: &Options) -> Result<ExitCode, Error> {
    let (first, second) = match (store::load(&options.first), store::load(&options.second)) {
        (Ok(first), Ok(second)) => (first, second),
        (first, second) => {
            for error in [first.err(), second.err()].into_iter().flatten() {
                eprintln!("thinc-bench: {error}");
            }
            return Ok(ExitCode::from(2));
        }
    };
    let findings = compare(&first, &second, options.threshold);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        print!("{}", in_words(&findings, options.threshold));
    }
    Ok(if findings.has_regression() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Compares `second` with `first`.
pub fn compare(first: &Results, second: &Results, threshold: f64) -> Findings {
    let mut findings = Findings { warnings: warnings(first, second), ..Findings::default() };
    let index = |results: &'_ Results| -> BTreeMap<store::Key, Trial> {
        results.trials.iter().map(|trial| (store::key(trial), trial.clone())).collect()
    };
    let (before, after) = (index(first), index(second));
    for (key, trial) in &before {
        match after.get(key) {
            Some(later) => compare_trials(trial, later, threshold, &mut findings),
            None => findings.only_first.extend(measured(trial).then(|| place(trial, None))),
        }
    }
    let new = after.iter().filter(|(key, trial)| !before.contains_key(*key) && measured(trial));
    findings.only_second.extend(new.map(|(_, trial)| place(trial, None)));
    let worst = |f: &Finding| f.worse.unwrap_or(f64::INFINITY);
    findings.regressions.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    findings.improvements.sort_by(|a, b| worst(a).total_cmp(&worst(b)));
    findings
}

fn measured(trial: &Trial) -> bool {
    matches!(trial.outcome, Outcome::Measured(_))
}

fn place(trial: &Trial, measure: Option<&Measure>) -> Place {
    Place {
        peer: trial.peer.clone(),
        link: trial.link.clone(),
        workload: trial.workload.clone(),
        form: words::form_name(trial.form).to_owned(),
        quantity: measure.map_or(String::new(), |m| m.quantity.clone()),
        part: measure.map_or(String::new(), |m| m.part.clone()),
    }
}

fn compare_trials(first: &Trial, second: &Trial, threshold: f64, findings: &mut Findings) {
    let (before, after) = match (&first.outcome, &second.outcome) {
        (Outcome::Measured(before), Outcome::Measured(after)) => (before, after),
        (Outcome::Measured(_), Outcome::Failed(why)) => {
            findings.broken.push((place(first, None), why.clone()));
            return;
        }
        (Outcome::Measured(_), Outcome::Skipped(_)) => {
            findings.only_first.push(place(first, None));
            return;
        }
        (Outcome::Failed(_), Outcome::Measured(_)) => {
            findings.repaired.push(place(second, None));
            return;
        }
        (Outcome::Skipped(_), Outcome::Measured(_)) => {
            findings.only_second.push(place(second, None));
            return;
        }
        _ => return,
    };
    let same = |a: &Measure, b: &Measure| a.quantity == b.quantity && a.part == b.part;
    for measure in before.iter().filter(|m| m.better != Better::Neither) {
        let Some(earlier) = Summary::of(&measure.samples) else { continue };
        let later = after.iter().find(|m| same(m, measure) && m.unit == measure.unit);
        match later.and_then(|m| Summary::of(&m.samples).map(|summary| (m, summary))) {
            Some((other, later)) => compare_measures(
                place(first, Some(measure)),
                (measure, earlier),
                (other, later),
                threshold,
                findings,
            ),
            None => findings.only_first.push(place(first, Some(measure))),
        }
    }
    for measure in
        after.iter().filter(|m| m.better != Better::Neither && Summary::of(&m.samples).is_some())
    {
        let known = before.iter().any(|m| {
            same(m, measure) && m.unit == measure.unit && Summary::of(&m.samples).is_some()
        });
        if !known {
            findings.only_second.push(place(second, Some(measure)));
        }
    }
}

fn compare_measures(
    place: Place,
    (first, earlier): (&Measure, Summary),
    (second, later): (&Measure, Summary),
    threshold: f64,
    findings: &mut Findings,
) {
    findings.compared += 1;
    let Some(change) = Change::between(&first.samples, &second.samples) else { return };
    let finite = |value: f64| value.is_finite().then_some(value);
    let worse_by = change.worse_by(first.better);
    let finding = Finding {
        place,
        unit: first.unit.clone(),
        medians: (earlier.median, later.median),
        samples: (earlier.count, later.count),
        ratio: finite(change.ratio),
        interval: change.interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
        worse: finite(worse_by - 1.0),
    };
    let limit = 1.0 + if change.interval.is_some() { threshold } else { threshold * FEW_TIMES };
    if !change.is_clear() {
    } else if worse_by > limit {
        findings.regressions.push(finding);
    } else if worse_by < 1.0 / limit {
        findings.improvements.push(finding);
    }
}

fn warnings(first: &Results, second: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: String, a: &str, b: &str| {
        if a != b {
            warnings.push(format!("{what} differs: \"{a}\" and \"{b}\""));
        }
    };
    let (a, b) = (&first.machine, &second.machine);
    differ("the processor".into(), &a.processor, &b.processor);
    differ("the number of processors".into(), &a.cores.to_string(), &b.cores.to_string());
    differ("the kernel".into(), &a.kernel, &b.kernel);
    differ("the accounting".into(), &a.accounting, &b.accounting);
    differ("the screen".into(), &format!("{:?}", first.screen), &format!("{:?}", second.screen));
    differ("the effort".into(), &format!("{:?}", first.effort), &format!("{:?}", second.effort));
    for (name, peer) in &first.peers {
        if let Some(other) =
            second.peers.get(name).filter(|other| other.missing.is_none() && peer.missing.is_none())
        {
            differ(format!("the version of {name}"), &peer.version, &other.version);
            differ(format!("a setting of {name}"), &peer.settings, &other.settings);
        }
    }
    for (name, link) in &first.links {
        if let Some(other) = second.links.get(name) {
            let shown = |l: &crate::results::LinkRecord| {
                format!(
                    "{} ms, {:?} bit/s, {} lost, {}, {}",
                    l.rtt_ms, l.rate_bps, l.loss, l.congestion, l.emulator
                )
            };
            differ(format!("the link {name}"), &shown(link), &shown(other));
        }
    }
    for (name, version) in &a.applications {
        if let Some(other) = b.applications.get(name) {
            differ(format!("the version of {name}"), version, other);
        }
    }
    warnings
}

/// The findings as a person reads them.
fn in_words(findings: &Findings, threshold: f64) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    for warning in &findings.warnings {
        say(format!("Careful: {warning}."));
    }
    for (title, list) in [("Worse", &findings.regressions), ("Better", &findings.improvements)] {
        if !list.is_empty() {
            say(format!("{title} ({}):", list.len()));
        }
        for finding in list {
            say(format!("  {}", finding_in_words(finding)));
        }
    }
    if !findings.broken.is_empty() {
        say(format!("Measured before and failing now ({}):", findings.broken.len()));
    }
    for (place, why) in &findings.broken {
        say(format!("  {}: {}", place_in_words(place), words::reason(why).0));
    }
    for (title, list) in [
        ("Failing before and measured now", &findings.repaired),
        ("Only in the first", &findings.only_first),
        ("Only in the second", &findings.only_second),
    ] {
        if !list.is_empty() {
            say(format!("{title} ({}):", list.len()));
        }
        for place in list {
            say(format!("  {}", place_in_words(place)));
        }
    }
    say(format!(
        "{} compared: {} worse, {} better by more than {}, {} broken.",
        words::count(findings.compared, "measure"),
        findings.regressions.len(),
        findings.improvements.len(),
        words::value(threshold, "share"),
        findings.broken.len()
    ));
    out
}

fn place_in_words(place: &Place) -> String {
    let mut text = format!("{} on {}, {}, {}", place.peer, place.link, place.workload, place.form);
    if !place.quantity.is_empty() {
        let part = if place.part.is_empty() { String::new() } else { format!(" ({})", place.part) };
        text.push_str(&format!(": {}{part}", words::quantity_name(&place.quantity)));
    }
    text
}

fn finding_in_words(finding: &Finding) -> String {
    let (a, b) = (
        words::value(finding.medians.0, &finding.unit),
        words::value(finding.medians.1, &finding.unit),
    );
    let ratio = finding
        .ratio
        .map_or("from nothing or to nothing".to_owned(), |r| format!("× {}", words::factor(r)));
    let sure = match finding.interval {
        Some((low, high)) => {
            format!("98 % sure between {} and {}", words::factor(low), words::factor(high))
        }
        None => format!("{} and {} samples, apart", finding.samples.0, finding.samples.1),
    };
    format!("{}: {a} → {b} ({ratio}; {sure})", place_in_words(&finding.place))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::synthetic;

    fn all_samples(results: &mut Results, mut change: impl FnMut(&Measure, f64) -> f64) {
        for trial in &mut results.trials {
            if let Outcome::Measured(measures) = &mut trial.outcome {
                for measure in measures {
                    let before = measure.clone();
                    measure.samples.iter_mut().for_each(|s| *s = change(&before, *s));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn a_run_against_itself_finds_nothing(seed: u64, threshold in 0.0..0.5f64) {
            let results = synthetic::results(seed);
            let findings = compare(&results, &results, threshold);
            prop_assert!(findings.compared > 100);
            prop_assert!(!findings.has_regression() && findings.improvements.is_empty());
            prop_assert!(findings.repaired.is_empty());
            prop_assert!(findings.only_first.is_empty() && findings.only_second.is_empty());
            prop_assert!(findings.warnings.is_empty());
        }
    }

    #[test]
    fn what_is_worse_one_way_is_better_the_other() {
        let first = synthetic::results(11);
        let mut second = first.clone();
        all_samples(&mut second, |measure, sample| match measure.better {
            Better::Lower => sample * 1.5,
            Better::Higher => sample / 1.5,
            Better::Neither => sample * 9.0,
        });
        let there = compare(&first, &second, 0.1);
        let back = compare(&second, &first, 0.1);
        assert!(there.improvements.is_empty() && back.regressions.is_empty());
        assert_eq!(there.regressions.len(), back.improvements.len());
        // Zeros (the bytes of no remoting) cannot get worse; nearly all the rest did.
        assert!(
            there.regressions.len() * 10 > there.compared * 8,
            "{} of {}",
            there.regressions.len(),
            there.compared
        );
        let text = in_words(&there, 0.1);
        assert!(
            text.contains("× 1.50") && text.contains("98 % sure between") && !text.contains("NaN"),
            "{}",
            &text[..2000]
        );
        assert!(
            there
                .regressions
                .windows(2)
                .all(|w| w[0].worse.unwrap_or(f64::INFINITY) >= w[1].worse.unwrap_or(0.0))
        );
    }

    #[test]
    fn changes_below_the_threshold_do_not_count() {
        let first = synthetic::results(12);
        let mut second = first.clone();
        all_samples(&mut second, |_, sample| sample * 1.05);
        let findings = compare(&first, &second, 0.1);
        assert!(!findings.has_regression() && findings.improvements.is_empty());
        assert!(compare(&first, &second, 0.01).has_regression());
    }

    #[test]
    fn one_sample_counts_only_far_beyond_the_threshold() {
        let first = synthetic::results(13);
        let change = |factor: f64| {
            let mut second = first.clone();
            all_samples(
                &mut second,
                |m, s| if m.quantity == "memory_client" { s * factor } else { s },
            );
            compare(&first, &second, 0.1).regressions.len()
        };
        assert_eq!(change(1.25), 0);
        assert!(change(1.35) > 10);
    }

    #[test]
    fn trials_that_broke_or_are_gone_are_told() {
        let first = synthetic::results(14);
        let mut second = first.clone();
        let broken =
            second.trials.iter().position(|t| matches!(t.outcome, Outcome::Measured(_))).unwrap();
        second.trials[broken].outcome = Outcome::Failed("it fell over".into());
        let gone = second.trials.remove(broken + 1);
        let findings = compare(&first, &second, 0.1);
        assert!(findings.has_regression() && findings.regressions.is_empty());
        assert_eq!(findings.broken.len(), 1);
        assert_eq!(findings.only_first, [place(&gone, None)]);
        let text = in_words(&findings, 0.1);
        assert!(text.contains("it fell over") && text.contains("Only in the first (1)"), "{text}");
        let back = compare(&second, &first, 0.1);
        assert!(!back.has_regression());
        assert_eq!((back.repaired.len(), back.only_second.len()), (1, 1));
    }

    #[test]
    fn other_machines_and_links_are_warned_of() {
        let first = synthetic::results(15);
        let mut second = first.clone();
        second.machine.kernel = "Linux 7".into();
        second.links.get_mut("wan").unwrap().congestion = "bbr".into();
        second.peers.get_mut("xpra").unwrap().version = "9".into();
        let warnings = compare(&first, &second, 0.1).warnings;
        for word in ["kernel", "wan", "bbr", "xpra"] {
            assert!(warnings.iter().any(|w| w.contains(word)), "{word}: {warnings:?}");
        }
    }

    #[test]
    fn the_exit_status_says_what_was_found() {
        let folder = crate::process::Folder::new("compare").unwrap();
        let path = |name: &str| folder.path().join(name);
        let first = synthetic::results(16);
        let mut worse = first.clone();
        all_samples(&mut worse, |m, s| if m.better == Better::Lower { s * 2.0 } else { s });
        store::save(&path("a.json"), &first, store::Shape::Whole).unwrap();
        store::save(&path("b.json"), &worse, store::Shape::Whole).unwrap();
        std::fs::write(path("cut.json"), "{\"schema\":1,\"trials\":[{").unwrap();
        let status = |a: &str, b: &str| {
            let options = Options { first: path(a), second: path(b), threshold: 0.1, json: true };
            format!("{:?}", run(&options).unwrap())
        };
        assert_eq!(status("a.json", "a.json"), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(status("a.json", "b.json"), format!("{:?}", ExitCode::from(1)));
        assert_eq!(status("a.json", "cut.json"), format!("{:?}", ExitCode::from(2)));
        assert_eq!(status("none.json", "a.json"), format!("{:?}", ExitCode::from(2)));
    }

    #[test]
    fn thresholds_are_shares() {
        assert_eq!(
            [threshold("10%"), threshold("0.1"), threshold(" 5 % ")],
            [Ok(0.1), Ok(0.1), Ok(0.05)]
        );
        for wrong in ["-1%", "ten", "", "NaN", "inf%"] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }
}
