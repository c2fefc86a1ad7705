//! Questions with one answer each. Most are workloads with claims: the runner measures them like
//! any other workload, and a table with ratios and a verdict follow. The others measure thinc
//! alone, without an emulated link. Knows results and claims; never how a trial runs.

pub mod awareness;
pub mod changing_paths;
pub(crate) mod direct;
pub mod echo_under_load;
pub mod files;
pub mod functions;
pub mod key_to_photon;
pub mod loops;
pub mod memory;
pub mod outages;
pub mod overwrite;
pub mod page_down;
pub mod pages;
pub mod photographs;
pub mod sound;
pub mod threed;
pub mod video_rate;
pub mod views;

use std::time::{Duration, Instant};

use crate::net::link::Link;
use crate::process::interrupted;
use crate::report::words::{form_name, quantity_name};
use crate::results::{Form, LinkRecord, Measure, Outcome, Results, Trial};
use crate::run::{Options, Plan, failures};
use crate::workloads::Workload;
use crate::{Error, net, stats};

/// One question: options of its own, and the workloads that they make.
pub trait Question: clap::Args {
    /// The subcommand.
    const NAME: &'static str;
    /// Peers that are measured by default, separated by commas.
    const PEERS: &'static str;
    /// Links by default.
    const LINKS: &'static [&'static str];
    /// Screen by default.
    const SIZE: &'static str = "1024x768";

    /// What is run on each peer and link.
    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error>;
}

/// The options of a question beside those that every run has.
#[derive(clap::Args)]
pub struct Asked<Q: Question> {
    #[command(flatten)]
    common: Options,
    #[command(flatten)]
    question: Q,
}

/// Measures, prints the tables, and judges the claims.
///
/// # Errors
/// Trials that failed, in words; a claim that does not hold is no error.
pub fn ask<Q: Question>(asked: &Asked<Q>) -> Result<(), Error> {
    net::as_user_namespace()?;
    let plan = Plan::new(&asked.common, asked.question.workloads()?)?;
    let mut results = plan.carry_out()?;
    for link in &plan.links {
        let mut table = Vec::new();
        for (workload, forms) in &plan.workloads {
            for &form in forms {
                table.extend(judge(&mut results, link, workload.as_ref(), form));
            }
        }
        print_summary(&table);
    }
    plan.save(&results)?;
    match failures(&results).as_slice() {
        [] => Ok(()),
        failed => {
            failed.iter().for_each(|line| eprintln!("failed: {line}"));
            Err(format!("{} of {} trials failed", failed.len(), results.trials.len()).into())
        }
    }
}

/// Prints one table, then every peer's claims, which become measures of its trial. Returns the
/// workload's line of the summary and its head.
fn judge(
    results: &mut Results,
    link: &Link,
    workload: &dyn Workload,
    form: Form,
) -> Option<(String, String)> {
    let of_this = |trial: &Trial| {
        (trial.link.as_str(), trial.workload.as_str(), trial.form)
            == (link.name.as_str(), workload.name(), form)
    };
    let measured: Vec<(String, Vec<Measure>)> = results
        .trials
        .iter()
        .filter(|trial| of_this(trial))
        .filter_map(|trial| match &trial.outcome {
            Outcome::Measured(measures) => {
                let measures = measures.iter().filter(|m| m.quantity != "holds").cloned();
                Some((trial.peer.clone(), measures.collect()))
            }
            _ => None,
        })
        .collect();
    let tcp = results.links.get(&link.name).map(LinkRecord::tcp_about).unwrap_or_default();
    let (name, form) = (workload.name(), form_name(form));
    println!("{name}, {form}: {}: {}; TCP {tcp}", link.name, link.about());
    print_table(&measured);
    let found = Found { link, peers: &measured };
    for (peer, _) in &measured {
        let claims = workload.claims(&found, peer);
        if !claims.is_empty() {
            println!("{peer}");
        }
        claims.iter().for_each(Claim::print);
        let trial = results.trials.iter_mut().find(|trial| of_this(trial) && trial.peer == *peer);
        if let Some(Outcome::Measured(measures)) = trial.map(|trial| &mut trial.outcome) {
            measures.retain(|measure| measure.quantity != "holds");
            measures.extend(claims.iter().map(|claim| {
                Measure::higher("holds", claim.name, "yes", [f64::from(u8::from(claim.holds))])
            }));
        }
    }
    workload.summary(&found)
}

/// A table in Markdown; heads that differ, as peers failed, are repeated.
fn print_summary(lines: &[(String, String)]) {
    let mut last = "";
    for (head, line) in lines {
        if head != last {
            let columns = head.matches('|').count().saturating_sub(2);
            println!("\n{head}\n|---|{}", "--:|".repeat(columns));
            last = head;
        }
        println!("{line}");
    }
}

/// What was measured of one workload on one link.
pub struct Found<'a> {
    /// The link.
    pub link: &'a Link,
    /// The measures of each peer that has some.
    pub peers: &'a [(String, Vec<Measure>)],
}

impl Found<'_> {
    /// Samples of a measure; none where the peer has no such measure.
    pub fn samples(&self, peer: &str, quantity: &str, part: &str) -> &[f64] {
        let of_peer = self.peers.iter().find(|(name, _)| name == peer);
        of_peer.map_or(&[], |(_, measures)| samples(measures, quantity, part))
    }

    /// Whether a peer was measured.
    pub fn has(&self, peer: &str) -> bool {
        self.peers.iter().any(|(name, _)| name == peer)
    }

    /// Round trip of the link, ms.
    pub fn rtt_ms(&self) -> f64 {
        self.link.rtt.as_secs_f64() * 1e3
    }

    /// How long the link takes to send so many bytes, ms; nothing at all without a rate.
    pub fn sending_ms(&self, bytes: f64) -> f64 {
        self.link.rate_bps.map_or(0.0, |rate| bytes * 8e3 / rate as f64)
    }
}

/// Samples of one of the measures; none if it is not there.
fn samples<'m>(measures: &'m [Measure], quantity: &str, part: &str) -> &'m [f64] {
    let found = measures.iter().find(|m| m.quantity == quantity && m.part == part);
    found.map_or(&[], |measure| &measure.samples)
}

/// A statement about the results, and whether it holds.
pub struct Claim {
    name: &'static str,
    words: String,
    pub(crate) holds: bool,
}

impl Claim {
    /// One line: whether it holds, and what it is.
    fn print(&self) {
        println!("  {}  {}", if self.holds { "pass" } else { "FAIL" }, self.words);
    }

    /// That `value` is at most `limit`; without a value it does not hold.
    pub(crate) fn at_most(name: &'static str, value: Option<f64>, limit: f64, unit: &str) -> Claim {
        Claim::new(name, value, limit, unit, "at most", |value| value <= limit)
    }

    /// That `value` is at least `limit`; without a value it does not hold.
    pub(crate) fn at_least(
        name: &'static str,
        value: Option<f64>,
        limit: f64,
        unit: &str,
    ) -> Claim {
        Claim::new(name, value, limit, unit, "at least", |value| value >= limit)
    }

    fn new(
        name: &'static str,
        value: Option<f64>,
        limit: f64,
        unit: &str,
        relation: &str,
        holds: impl Fn(f64) -> bool,
    ) -> Claim {
        let (value, is) = match value {
            Some(value) => (format!("{} {unit}", short(value)), holds(value)),
            None => ("not measured".to_owned(), false),
        };
        let words = format!("{name}: {value}; target: {relation} {} {unit}", short(limit));
        Claim { name, words: words.trim_end().to_owned(), holds: is }
    }
}

/// Of labels, at least.
const LABEL_WIDTH: usize = 52;
const COLUMN_WIDTH: usize = 34;
/// Fewer samples than this are printed themselves.
const PERCENTILES_FROM: usize = 5;

/// Every measure of each column: median, p95, p99, and the ratio of its median to the first
/// column's.
pub(crate) fn print_table(columns: &[(String, Vec<Measure>)]) {
    let mut rows: Vec<(&str, &str, &str)> = Vec::new();
    for measure in columns.iter().flat_map(|(_, measures)| measures) {
        let row = (measure.quantity.as_str(), measure.part.as_str(), measure.unit.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let label = |&(quantity, part, unit): &(&str, &str, &str)| {
        let of_what = if part.is_empty() { String::new() } else { format!("{part}: ") };
        format!("  {of_what}{}, {unit}", quantity_name(quantity))
    };
    let widest = rows.iter().map(|row| label(row).chars().count()).max();
    let width = LABEL_WIDTH.max(widest.unwrap_or(0));
    print!("{:width$}", "median / p95 / p99 (ratio of medians)");
    columns.iter().for_each(|(name, _)| print!("{name:>COLUMN_WIDTH$}"));
    println!();
    for row in rows {
        let (quantity, part, _) = row;
        print!("{:width$}", label(&row));
        let first = columns.first();
        let first = first.and_then(|(_, m)| stats::median(samples(m, quantity, part)));
        for (index, (_, measures)) in columns.iter().enumerate() {
            let text = cell(samples(measures, quantity, part), first.filter(|_| index > 0));
            print!("{text:>COLUMN_WIDTH$}");
        }
        println!();
    }
}

fn cell(samples: &[f64], first: Option<f64>) -> String {
    let Some(median) = stats::median(samples) else { return "-".to_owned() };
    let shown: Vec<f64> = if samples.len() < PERCENTILES_FROM {
        samples.to_vec()
    } else {
        [0.5, 0.95, 0.99].iter().filter_map(|&share| stats::quantile(samples, share)).collect()
    };
    let mut text = shown.into_iter().map(short).collect::<Vec<String>>().join(" / ");
    if let Some(first) = first.filter(|first| *first != 0.0) {
        text.push_str(&format!(" ({:.2}x)", median / first));
    }
    text
}

/// Three or four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Sleeps, and ends with an error when somebody interrupts.
pub(crate) fn pause(time: Duration) -> Result<(), Error> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        if interrupted() {
            return Err("interrupted".into());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(())
}

fn ms_since(at: Instant, since: Instant) -> f64 {
    at.saturating_duration_since(since).as_secs_f64() * 1e3
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Which claims of a workload hold for `peer`, on measures that a test makes up.
    pub(crate) fn holds(
        workload: &dyn Workload,
        link: &str,
        peers: Vec<(&str, Vec<Measure>)>,
        peer: &str,
    ) -> Vec<bool> {
        let link: Link = link.parse().unwrap();
        let peers: Vec<_> = peers.into_iter().map(|(name, m)| (name.to_owned(), m)).collect();
        let found = Found { link: &link, peers: &peers };
        workload.claims(&found, peer).iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn claims_hold_up_to_their_limits() {
        assert!(Claim::at_most("age", Some(100.0), 100.0, "ms").holds);
        assert!(!Claim::at_most("age", Some(100.1), 100.0, "ms").holds);
        assert!(Claim::at_least("use", Some(0.85), 0.85, "").holds);
        assert!(!Claim::at_least("use", Some(0.84), 0.85, "").holds);
        assert!(!Claim::at_most("whole", None, 1.0, "ms").holds);
        assert_eq!(
            Claim::at_most("age", Some(12.345), 100.0, "ms").words,
            "age: 12.35 ms; target: at most 100.0 ms"
        );
    }

    #[test]
    fn cells_name_percentiles_and_ratios_where_there_are_any() {
        assert_eq!(
            [0.0, 0.0123, 1.5, 123.46, 12345.6].map(short),
            ["0.00", "0.012", "1.50", "123.5", "12346"]
        );
        assert_eq!(cell(&[], Some(1.0)), "-");
        assert_eq!(cell(&[3.0], Some(2.0)), "3.00 (1.50x)");
        assert_eq!(cell(&[3.0, 1.0], None), "3.00 / 1.00");
        assert_eq!(cell(&[1.0, 2.0, 3.0, 4.0, 5.0], None), "3.00 / 4.80 / 4.96");
    }
}
