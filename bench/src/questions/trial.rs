//! What the questions that compare variants of thinc and peers on an emulated link have in common: a stage for each variant,
//! a table with ratios, what was to be shown and whether it held, and a file of results that `compare` reads.
//! Knows peers, links and figures; never which question it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Error;
use crate::net::link::Link;
use crate::net::testbed::Testbed;
use crate::observe::account::Accounts;
use crate::peers::{self, Peer};
use crate::process::interrupted;
use crate::report::stats;
use crate::report::store::{self, Shape};
use crate::results::{Better, Form, Measure, Outcome, Results, SCHEMA, Trial};
use crate::run::{self, choose, first_line};
use crate::stage::Stage;
use crate::workloads::Effort;

/// What was found, trial by trial.
pub(super) struct Notebook {
    results: Results,
    output: Option<PathBuf>,
    failed: Vec<String>,
}

impl Notebook {
    /// An empty one, on disk after each trial if `output` names a file.
    pub(super) fn new(effort: Effort, size: (u32, u32), output: Option<PathBuf>) -> Result<Notebook, Error> {
        let results = Results {
            schema: SCHEMA,
            command: std::iter::once("thinc-bench".to_owned()).chain(std::env::args().skip(1)).collect(),
            begun: run::now(),
            machine: run::machine()?,
            screen: size,
            effort,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
            trials: Vec::new(),
        };
        Ok(Notebook { results, output, failed: Vec::new() })
    }

    /// The peers of these names that are here; which are not is said.
    pub(super) fn peers(&mut self, names: &[String]) -> Result<Vec<Box<dyn Peer>>, Error> {
        let mut chosen = choose("peer", peers::all(), names, |peer| peer.name())?;
        chosen.retain(|peer| {
            let record = peer.record();
            let here = record.missing.is_none();
            if let Some(why) = &record.missing {
                eprintln!("{} is left out: {why}", peer.name());
            }
            self.results.peers.insert(peer.name().into(), record);
            here
        });
        if chosen.is_empty() { Err("none of the systems that were named can be measured".into()) } else { Ok(chosen) }
    }

    /// Notes what was found on one stage, or how it failed; what was found comes back.
    pub(super) fn note<T>(
        &mut self,
        peer: &'static str,
        link: &Link,
        workload: &str,
        began: Began,
        found: Result<(T, Vec<Measure>), Error>,
    ) -> Result<Option<T>, Error> {
        if interrupted() {
            return Err("interrupted".into());
        }
        let (found, outcome) = match found {
            Ok((found, measures)) => (Some(found), Outcome::Measured(measures)),
            Err(error) => {
                let words = format!("{peer}, {workload}, {}: {error}", link.name);
                eprintln!("failed: {words}");
                self.failed.push(first_line(&words).to_owned());
                (None, Outcome::Failed(error.to_string()))
            }
        };
        self.results.trials.push(Trial {
            peer: peer.into(),
            link: link.name.clone(),
            workload: workload.into(),
            form: Form::Normal,
            begun: began.utc,
            seconds: began.at.elapsed().as_secs_f64(),
            other_load: 0.0,
            outcome,
        });
        self.save()?;
        Ok(found)
    }

    fn save(&self) -> Result<(), Error> {
        self.output.as_ref().map_or(Ok(()), |output| store::save(output, &self.results, Shape::Whole))
    }

    /// Adds the claims to the results of a peer, and prints them.
    pub(super) fn judge(&mut self, peer: &str, claims: &[Claim]) -> Result<(), Error> {
        println!("{peer}");
        claims.iter().for_each(Claim::print);
        let trial = self.results.trials.iter_mut().rev().find(|trial| trial.peer == peer);
        if let Some(Outcome::Measured(measures)) = trial.map(|trial| &mut trial.outcome) {
            measures.extend(claims.iter().map(|claim| Measure {
                quantity: "holds".into(),
                part: claim.name.into(),
                unit: "yes".into(),
                better: Better::Higher,
                samples: vec![f64::from(u8::from(claim.holds))],
            }));
        }
        self.save()
    }

    /// Takes down what is in force on a link.
    pub(super) fn heard_of(&mut self, bed: &Testbed) {
        self.results.links.insert(bed.link().name.clone(), bed.record());
    }

    /// The last words; an error where a trial failed.
    pub(super) fn end(self) -> Result<(), Error> {
        if let Some(output) = &self.output {
            println!("samples are in {}", output.display());
        }
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => Err(format!("{} of {} trials failed", failed.len(), self.results.trials.len()).into()),
        }
    }
}

/// When a trial began.
pub(super) struct Began {
    at: Instant,
    utc: String,
}

impl Began {
    /// Now.
    pub(super) fn now() -> Began {
        Began { at: Instant::now(), utc: run::now() }
    }
}

/// A stage with a link of its own.
pub(super) fn stage(peer: &dyn Peer, link: &Link, size: (u32, u32), congestion: Option<&str>) -> Result<Stage, Error> {
    let accounts = Arc::new(Accounts::new(peer.name())?);
    let bed = Arc::new(Testbed::start(link, congestion)?);
    Stage::start(peer, &bed, &accounts, size)
}

/// Something that was to be shown.
pub(super) struct Claim {
    pub(super) name: &'static str,
    pub(super) words: String,
    pub(super) holds: bool,
}

impl Claim {
    /// One line: whether it holds, and what it is.
    pub(super) fn print(&self) {
        println!("  {}  {}", if self.holds { "pass" } else { "FAIL" }, self.words);
    }

    /// That `value` is at most `limit`.
    pub(super) fn at_most(name: &'static str, value: f64, limit: f64, unit: &str) -> Claim {
        let words = format!("{name}: {} {unit}, at most {} wanted", short(value), short(limit));
        Claim { name, words, holds: value <= limit }
    }

    /// That `value` is at least `limit`.
    pub(super) fn at_least(name: &'static str, value: f64, limit: f64, unit: &str) -> Claim {
        let words = format!("{name}: {} {unit}, at least {} wanted", short(value), short(limit));
        Claim { name, words, holds: value >= limit }
    }

    /// That something came that did not.
    pub(super) fn missed(name: &'static str, words: &str) -> Claim {
        Claim { name, words: format!("{name}: {words}"), holds: false }
    }
}

/// A figure for each column, beside its ratio to the first column's.
pub(super) struct Table {
    columns: Vec<String>,
}

const LABEL_WIDTH: usize = 44;
const COLUMN_WIDTH: usize = 22;

impl Table {
    /// Begins one.
    pub(super) fn new(columns: &[&str]) -> Table {
        let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
        print!("{:LABEL_WIDTH$}", "");
        for column in &columns {
            print!("{column:>COLUMN_WIDTH$}");
        }
        println!();
        Table { columns }
    }

    /// Prints one row; nothing where a column has none.
    pub(super) fn row(&self, label: &str, values: &[Option<f64>]) {
        assert_eq!(values.len(), self.columns.len(), "each column has its place in a row");
        print!("  {label:<width$}", width = LABEL_WIDTH - 2);
        let first = values.first().copied().flatten();
        for (index, value) in values.iter().enumerate() {
            let text = match (value, first) {
                (None, _) => "-".to_owned(),
                (Some(value), Some(first)) if index > 0 && first != 0.0 => {
                    format!("{} ({:.2}x)", short(*value), value / first)
                }
                (Some(value), _) => short(*value),
            };
            print!("{text:>COLUMN_WIDTH$}");
        }
        println!();
    }
}

/// Four digits that say something.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The value below which this share of samples lies; nothing where there are none.
pub(super) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = stats::sorted(samples);
    (!sorted.is_empty()).then(|| stats::quantile(&sorted, share))
}

/// A measure for the file.
pub(super) fn measure(quantity: &str, part: &str, unit: &str, better: Better, samples: Vec<f64>) -> Measure {
    Measure { quantity: quantity.into(), part: part.into(), unit: unit.into(), better, samples }
}

/// Waits, and hears somebody who interrupts.
pub(super) fn pause(time: Duration) -> Result<(), Error> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if interrupted() {
            return Err("interrupted".into());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_hold_up_to_their_limits() {
        assert!(Claim::at_most("age", 100.0, 100.0, "ms").holds && !Claim::at_most("age", 100.1, 100.0, "ms").holds);
        assert!(Claim::at_least("use", 0.85, 0.85, "").holds && !Claim::at_least("use", 0.84, 0.85, "").holds);
        assert!(!Claim::missed("whole", "never").holds);
        assert_eq!(Claim::at_most("age", 12.345, 100.0, "ms").words, "age: 12.35 ms, at most 100.0 wanted");
    }

    #[test]
    fn figures_have_digits_that_say_something() {
        assert_eq!([0.0, 0.0123, 1.5, 123.46, 12345.6].map(short), ["0.00", "0.012", "1.50", "123.5", "12346"]);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
    }
}
