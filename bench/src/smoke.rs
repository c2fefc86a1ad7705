//! The quick test for every change of the tree, some three minutes: a few operations of the
//! central workloads, with thinc and on a local screen. It fails on lost frames, on wrong pixels,
//! and on a harness that measured nothing. Knows what must hold; never how fast anything was.

use std::path::PathBuf;

use crate::Error;
use crate::net;
use crate::process::Folder;
use crate::results::{Form, Measure, Outcome, Results, Trial, quantity};
use crate::run::{self, Plan, first_line, label};
use crate::workloads::{self, Effort};

/// Options of `smoke`.
#[derive(clap::Args)]
pub struct Options {
    /// The systems; thinc and local have to pass.
    #[arg(long, value_delimiter = ',', default_value = "local,thinc")]
    peers: Vec<String>,
    /// Where the results are written; nowhere by default.
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// Peers that must pass.
const MUST_PASS: [&str; 2] = ["local", "thinc"];

/// Runs it; an error if any check fails.
pub fn run(options: &Options) -> Result<(), Error> {
    net::as_user_namespace()?;
    let folder = Folder::new("smoke")?;
    let output = options.output.clone().unwrap_or_else(|| folder.path().join("smoke.json"));
    let plan = |link: &str, peers: &[String], names: &[&str], form, again| {
        let common = run::Options {
            peers: peers.to_vec(),
            links: vec![link.into()],
            form,
            effort: Effort::Smoke,
            size: (1024, 768),
            congestion: None,
            output: Some(output.clone()),
            pcap: None,
            made_by: None,
            again,
        };
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let chosen = run::choose("workload", workloads::all(), &names, |workload| workload.name())?;
        Plan::new(&common, chosen)
    };
    // Delay changes what a transport does, and not what a local screen shows: thinc alone runs on
    // the wan, and briefly.
    let remote: Vec<String> =
        options.peers.iter().filter(|&peer| peer != "local").cloned().collect();
    let mut results = None;
    if !options.peers.is_empty() {
        let names = ["latency", "web", "video", "type", "3d-gl"];
        results = Some(plan("lan", &options.peers, &names, None, true)?.carry_out()?);
    }
    if !remote.is_empty() {
        let form = Some(Form::SlowMotion);
        results = Some(plan("wan", &remote, &["latency", "type"], form, false)?.carry_out()?);
    }
    let results = results.ok_or("no peer was named")?;
    let (checked, wrong) = verdict(&results);
    for line in &wrong {
        eprintln!("wrong: {line}");
    }
    println!("{} passed, {} failed", checked - wrong.len(), wrong.len());
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} of {checked} checks failed", wrong.len()).into())
    }
}

/// How many checks were made, and those that failed.
fn verdict(results: &Results) -> (usize, Vec<String>) {
    let mut all: Vec<(bool, String)> = Vec::new();
    for trial in results.trials.iter().filter(|trial| MUST_PASS.contains(&trial.peer.as_str())) {
        let name = label(trial);
        let found = match &trial.outcome {
            Outcome::Measured(measures) => facts(trial, measures),
            Outcome::Skipped(why) | Outcome::Failed(why) => {
                vec![(false, format!("nothing was measured: {}", first_line(why)))]
            }
        };
        all.extend(found.into_iter().map(|(holds, fact)| (holds, format!("{name}: {fact}"))));
    }
    all.push((!all.is_empty(), "no trial ran at all".into()));
    (all.len(), all.into_iter().filter_map(|(holds, fact)| (!holds).then_some(fact)).collect())
}

/// Every check of a trial of a peer that must pass, and whether it holds.
fn facts(trial: &Trial, measures: &[Measure]) -> Vec<(bool, String)> {
    let mut facts = Vec::new();
    let of = |name: &'static str| measures.iter().filter(move |measure| measure.quantity == name);
    for measure in of(quantity::EXACT_SHARE) {
        let least = measure.samples.iter().copied().fold(f64::INFINITY, f64::min);
        facts.push((
            least == 1.0,
            format!("{}: a share of {least} of the pixels is right, not all", measure.part),
        ));
    }
    // A video that plays at speed may lose frames on a busy machine; one that steps may not.
    if trial.form == Form::SlowMotion {
        for measure in of("frames_arrived") {
            let least = measure.samples.iter().copied().fold(f64::INFINITY, f64::min);
            facts
                .push((least == 1.0, format!("a share of {least} of the frames arrived, not all")));
        }
    }
    for measure in of("pages_shown") {
        let least = measure.samples.iter().copied().fold(f64::INFINITY, f64::min);
        facts.push((least == 1.0, format!("a share of {least} of the pages was shown, not all")));
    }
    for measure in of("lost_keys") {
        let lost: f64 = measure.samples.iter().sum();
        facts.push((lost == 0.0, format!("{}: {lost} keys changed nothing", measure.part)));
    }
    for measure in of("lost_motions") {
        let lost: f64 = measure.samples.iter().sum();
        facts.push((lost == 0.0, format!("{}: {lost} motions changed nothing", measure.part)));
    }
    for measure in of(quantity::FRAME_RATE).filter(|measure| measure.part.starts_with("study")) {
        let seen = !measure.samples.is_empty() && measure.samples.iter().all(|&fps| fps > 0.0);
        facts.push((seen, format!("{}: no frame of OpenGL was seen", measure.part)));
    }
    for measure in of(quantity::PHOTON_MS) {
        let seen = !measure.samples.is_empty() && measure.samples.iter().all(|&ms| ms > 0.0);
        facts.push((seen, format!("{}: no change was seen on the client's screen", measure.part)));
    }
    let bytes: f64 = of(quantity::BYTES_DOWN).flat_map(|measure| &measure.samples).sum();
    let local = trial.peer == "local";
    // A remote system that sends nothing passes its pixels outside the link.
    facts.push(((bytes == 0.0) == local, format!("{bytes} bytes crossed the link")));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(peer: &str, form: Form, measures: &[(&str, f64)]) -> Trial {
        let measure = |&(quantity, value): &(&str, f64)| Measure::fact(quantity, "", "", value);
        Trial {
            peer: peer.into(),
            link: "lan".into(),
            workload: "web".into(),
            form,
            begun: String::new(),
            seconds: 0.0,
            other_load: 0.0,
            outcome: Outcome::Measured(measures.iter().map(measure).collect()),
        }
    }

    fn wrong(trial: &Trial) -> usize {
        let Outcome::Measured(measures) = &trial.outcome else { unreachable!("made above") };
        facts(trial, measures).iter().filter(|(holds, _)| !holds).count()
    }

    #[test]
    fn wrong_pixels_lost_frames_and_nothing_measured_are_found() {
        let good = [
            ("exact_share", 1.0),
            ("frames_arrived", 1.0),
            ("lost_keys", 0.0),
            ("lost_motions", 0.0),
            ("photon_ms", 1.5),
            ("bytes_down", 700.0),
        ];
        assert_eq!(wrong(&trial("thinc", Form::SlowMotion, &good)), 0);
        for (name, value) in [
            ("exact_share", 0.999),
            ("frames_arrived", 0.9),
            ("lost_keys", 1.0),
            ("lost_motions", 1.0),
            ("photon_ms", 0.0),
            ("bytes_down", 0.0),
        ] {
            let changed = good
                .map(|(quantity, held)| (quantity, if quantity == name { value } else { held }));
            assert_eq!(wrong(&trial("thinc", Form::SlowMotion, &changed)), 1, "{name}");
        }
    }

    #[test]
    fn a_video_at_speed_may_lose_frames_and_local_sends_none() {
        assert_eq!(
            wrong(&trial("thinc", Form::Normal, &[("frames_arrived", 0.7), ("bytes_down", 1.0)])),
            0
        );
        assert_eq!(wrong(&trial("local", Form::Normal, &[("bytes_down", 0.0)])), 0);
        assert_eq!(wrong(&trial("local", Form::Normal, &[("bytes_down", 40.0)])), 1);
    }
}
