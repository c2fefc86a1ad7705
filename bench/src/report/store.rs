//! Results on disk: read with clear errors, and replaced in one step, so that a kill or a full disk
//! never damages the old file. From the runner after every trial, to report, compare and a resumed
//! run. Knows files and the keys of trials; never what a figure means.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::results::{Form, Outcome, Results, SCHEMA, Trial};

/// Longest file that is read: a full run of every peer stays below a hundredth of it.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Digits that the small form keeps; no measure here is repeatable to more than three.
const DIGITS: i32 = 4;

/// Identity of a trial: peer, link, workload, form.
pub type Key = (String, String, String, Form);

/// The key of a trial.
pub fn key(trial: &Trial) -> Key {
    (trial.peer.clone(), trial.link.clone(), trial.workload.clone(), trial.form)
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every sample as it was measured.
    Whole,
    /// Samples to four significant digits, for a folder that is kept in a repository.
    Small,
}

/// The part that says whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    schema: Option<u32>,
}

/// Reads results, and checks that every trial's peer and link are described.
///
/// # Errors
/// Each names the path: no such file, a file that ends in the middle, another schema, no results at
/// all.
pub fn load(path: &Path) -> Result<Results, Error> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| format!("cannot read results {shown}: {e}"))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("cannot read results {shown}: {e}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "{shown} is longer than {} MiB: it is no file of results",
            FILE_BYTES_MAX >> 20
        )
        .into());
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(format!(
            "{shown} is empty: the run that should have written it did not end its first trial"
        )
        .into());
    }
    let begins_as_object = bytes.trim_ascii_start().starts_with(b"{");
    let explain = |e: serde_json::Error| {
        // The parser does not report a number that is cut behind its point as an end.
        if e.is_eof() || (begins_as_object && !bytes.trim_ascii_end().ends_with(b"}")) {
            format!(
                "{shown} ends in the middle (line {}): it was cut short; copy it again, or run \
                    again",
                e.line()
            )
        } else {
            format!("{shown} holds no results of thinc-bench: {e}")
        }
    };
    let head: Head = serde_json::from_slice(&bytes).map_err(explain)?;
    match head.schema {
        Some(SCHEMA) => {}
        Some(other) => {
            return Err(format!(
                "{shown} is of schema {other} and this thinc-bench reads {SCHEMA}: use the \
                    version that wrote it, or run again"
            )
            .into());
        }
        None => {
            return Err(
                format!("{shown} names no schema: it holds no results of thinc-bench").into()
            );
        }
    }
    let results: Results = serde_json::from_slice(&bytes).map_err(explain)?;
    for trial in &results.trials {
        for (what, name, known) in [
            ("peer", &trial.peer, results.peers.contains_key(&trial.peer)),
            ("link", &trial.link, results.links.contains_key(&trial.link)),
        ] {
            if !known {
                return Err(format!(
                    "{shown}: a trial of {} names the {what} \"{name}\", which the file does not \
                        describe",
                    trial.workload
                )
                .into());
            }
        }
    }
    Ok(results)
}

/// Replaces the results at `path` in one step.
///
/// # Errors
/// In words, with the path; the file that was there is then untouched.
pub fn save(path: &Path, results: &Results, shape: Shape) -> Result<(), Error> {
    let mut text = String::new();
    print(&without_bad_samples(results), shape, &mut text)?;
    replace(path, text.as_bytes())
}

/// Replaces any file in one step.
///
/// # Errors
/// In words, with the path; the file that was there is then untouched.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    // Follows a symbolic link, so that the link survives.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path
        .file_name()
        .ok_or_else(|| format!("cannot write {}: it names no file", path.display()))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // In the same folder: only there a rename is atomic.
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let draft = folder.join(hidden);
    let file =
        File::create(&draft).map_err(|e| format!("cannot write in {}: {e}", folder.display()))?;
    let written = fill(file, bytes).and_then(|()| fs::rename(&draft, &path));
    written.map_err(|e| {
        // The draft is useless now, and the first error is the one to report.
        let _ = fs::remove_file(&draft);
        format!("cannot write {}: {e}; what it held before is untouched", path.display()).into()
    })
}

fn fill(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// A sample that is NaN or infinite is a bug of the harness. The run must not end for it and the
/// report must not print it, so its trial becomes a failed one.
fn without_bad_samples(results: &Results) -> Results {
    let mut results = results.clone();
    for trial in &mut results.trials {
        let Outcome::Measured(measures) = &trial.outcome else { continue };
        let wrong = measures.iter().find(|m| m.samples.iter().any(|s| !s.is_finite()));
        if let Some(measure) = wrong {
            let why = format!(
                "thinc-bench measured {} {} as something that is no number: a bug of the harness",
                measure.quantity, measure.part
            );
            trial.outcome = Outcome::Failed(why);
        }
    }
    results
}

/// One line for each field and one for each trial, so that versions of a kept file can be compared
/// line by line.
fn print(results: &Results, shape: Shape, out: &mut String) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        trial: &'a Trial,
    }
    let Value::Object(mut fields) =
        serde_json::to_value(Results { trials: Vec::new(), ..results.clone() })?
    else {
        unreachable!("a struct is an object");
    };
    fields.remove("trials");
    // First, so that the reader of a newer file sees it before fields that it does not know.
    let schema = fields.remove("schema").unwrap_or(Value::Null);
    out.push_str(&format!("{{\"schema\":{schema}"));
    for (name, value) in &fields {
        out.push_str(&format!(",\n{}:{value}", Value::String(name.clone())));
    }
    out.push_str(",\n\"trials\":[");
    for (index, trial) in results.trials.iter().enumerate() {
        let mut trial = trial.clone();
        if shape == Shape::Small {
            shrink(&mut trial);
        }
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&serde_json::to_string(&Line { trial: &trial })?);
    }
    out.push_str("\n]}\n");
    Ok(())
}

fn shrink(trial: &mut Trial) {
    trial.seconds = rounded(trial.seconds);
    trial.other_load = rounded(trial.other_load);
    if let Outcome::Measured(measures) = &mut trial.outcome {
        for sample in measures.iter_mut().flat_map(|m| &mut m.samples) {
            *sample = rounded(*sample);
        }
    }
}

/// To [`DIGITS`] significant digits. Through the decimal form, since a product with a power of ten
/// would leave the digits of its rounding error in the file.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", (DIGITS - 1) as usize).parse().unwrap_or(value)
}

/// Merges files of one run, or of runs that may be in one report: later trials replace earlier
/// ones.
///
/// # Errors
/// The runs differ in screen or machine, or a link or a peer of the same name has other settings or
/// another version.
pub fn merge(earlier: Results, later: Results) -> Result<Results, Error> {
    let clash = |what: &str, a: &str, b: &str| -> Error {
        format!(
            "these results do not belong in one report: {what} is \"{a}\" in one and \"{b}\" in \
                the other; use compare"
        )
        .into()
    };
    let (a, b) = (&earlier.machine, &later.machine);
    for (what, one, other) in [
        ("the kernel", a.kernel.clone(), b.kernel.clone()),
        ("the processor", a.processor.clone(), b.processor.clone()),
        ("the number of processors", a.cores.to_string(), b.cores.to_string()),
        ("the accounting", a.accounting.clone(), b.accounting.clone()),
        ("the screen", format!("{:?}", earlier.screen), format!("{:?}", later.screen)),
    ] {
        if one != other {
            return Err(clash(what, &one, &other));
        }
    }
    let mut merged = earlier;
    for (name, link) in later.links {
        if let Some(known) = merged.links.get(&name) {
            let (one, other) = (serde_json::to_string(known)?, serde_json::to_string(&link)?);
            if one != other {
                return Err(clash(&format!("the link {name}"), &one, &other));
            }
        }
        merged.links.insert(name, link);
    }
    for (name, peer) in later.peers {
        match merged.peers.get(&name) {
            // Installed since, or removed since with its figures kept.
            Some(known) if known.missing.is_some() => drop(merged.peers.insert(name, peer)),
            Some(_) if peer.missing.is_some() => {}
            Some(known) if (&known.version, &known.settings) != (&peer.version, &peer.settings) => {
                let show =
                    |p: &crate::results::PeerRecord| format!("{} ({})", p.version, p.settings);
                return Err(clash(&format!("the version of {name}"), &show(known), &show(&peer)));
            }
            _ => drop(merged.peers.insert(name, peer)),
        }
    }
    for (name, version) in later.machine.applications {
        if let Some(known) =
            merged.machine.applications.get(&name).filter(|known| **known != version)
        {
            return Err(clash(&format!("the version of {name}"), known, &version));
        }
        merged.machine.applications.insert(name, version);
    }
    if !merged.machine.bench.split("; ").any(|bench| bench == later.machine.bench) {
        merged.machine.bench = format!("{}; {}", merged.machine.bench, later.machine.bench);
    }
    if merged.command != later.command {
        merged.command.push(";".into());
        merged.command.extend(later.command);
    }
    if later.begun < merged.begun {
        merged.begun = later.begun;
    }
    let mut places: HashMap<Key, usize> =
        merged.trials.iter().enumerate().map(|(i, t)| (key(t), i)).collect();
    for trial in later.trials {
        match places.get(&key(&trial)) {
            Some(&place) => merged.trials[place] = trial,
            None => {
                places.insert(key(&trial), merged.trials.len());
                merged.trials.push(trial);
            }
        }
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    fn folder(name: &str) -> crate::process::Folder {
        crate::process::Folder::new(&format!("store-{name}")).unwrap()
    }

    fn same(a: &Results, b: &Results) {
        // Not assert_eq: it would print both, a megabyte each.
        assert!(
            serde_json::to_value(a).unwrap() == serde_json::to_value(b).unwrap(),
            "the results differ"
        );
    }

    #[test]
    fn what_is_saved_is_what_is_loaded() {
        let folder = folder("round");
        let path = folder.path().join("a.json");
        let results = synthetic::results(7);
        save(&path, &results, Shape::Whole).unwrap();
        same(&load(&path).unwrap(), &results);
        save(&path, &synthetic::results(8), Shape::Whole).unwrap();
        same(&load(&path).unwrap(), &synthetic::results(8));
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["a.json"], "no draft stays");
    }

    #[test]
    fn the_small_form_keeps_four_digits_and_is_smaller() {
        let folder = folder("small");
        let (whole, small) = (folder.path().join("w.json"), folder.path().join("s.json"));
        let results = synthetic::results(3);
        save(&whole, &results, Shape::Whole).unwrap();
        save(&small, &results, Shape::Small).unwrap();
        assert!(fs::metadata(&small).unwrap().len() * 3 < fs::metadata(&whole).unwrap().len() * 2);
        for (a, b) in results.trials.iter().zip(&load(&small).unwrap().trials) {
            let (Outcome::Measured(a), Outcome::Measured(b)) = (&a.outcome, &b.outcome) else {
                continue;
            };
            for (a, b) in a.iter().flat_map(|m| &m.samples).zip(b.iter().flat_map(|m| &m.samples)) {
                assert!((a - b).abs() <= a.abs() * 5.01e-4, "{a} became {b}");
            }
        }
        assert_eq!(
            [rounded(0.1 + 0.2), rounded(123_456.0), rounded(0.0), rounded(-9.9996)],
            [0.3, 123_500.0, 0.0, -10.0]
        );
    }

    #[test]
    fn a_cut_file_is_called_a_cut_file_wherever_it_is_cut() {
        let folder = folder("cut");
        let path = folder.path().join("a.json");
        save(&path, &synthetic::results(1), Shape::Small).unwrap();
        let bytes = fs::read(&path).unwrap();
        for part in 1..40 {
            let cut = bytes.len() * part / 40;
            fs::write(&path, &bytes[..cut]).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(
                error.contains("ends in the middle") && error.contains("a.json"),
                "cut at {cut}: {error}"
            );
        }
        fs::write(&path, b"").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("is empty"));
    }

    #[test]
    fn other_schemas_and_other_files_are_refused_by_name() {
        let folder = folder("schema");
        let path = folder.path().join("a.json");
        let cases = [
            (r#"{"schema":99,"trials":"whatever"}"#, "schema 99"),
            (r#"{"trials":[]}"#, "names no schema"),
            (r#"[1,2]"#, "holds no results"),
            ("\u{7f}ELF", "holds no results"),
            (r#"{"schema":1}"#, "holds no results"),
        ];
        for (text, word) in cases {
            fs::write(&path, text).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(
            load(&folder.path().join("none.json")).unwrap_err().to_string().contains("none.json")
        );
        let mut results = synthetic::results(1);
        results.peers.remove("xpra");
        save(&path, &results, Shape::Small).unwrap();
        assert!(
            load(&path)
                .unwrap_err()
                .to_string()
                .contains("\"xpra\", which the file does not describe")
        );
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_file() {
        let folder = folder("full");
        let path = folder.path().join("a.json");
        save(&path, &synthetic::results(1), Shape::Small).unwrap();
        let before = fs::read(&path).unwrap();
        // Where the draft would go lies a folder: the write fails before the rename, as on a full
        // disk.
        let draft = folder.path().join(format!(".a.json.{}", std::process::id()));
        fs::create_dir(&draft).unwrap();
        let error = save(&path, &synthetic::results(2), Shape::Small).unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        // And the disk that is always full says so.
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(fill(full, b"x").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_sample_that_is_no_number_fails_its_trial_and_not_the_run() {
        let folder = folder("nan");
        let path = folder.path().join("a.json");
        let mut results = synthetic::results(1);
        let place =
            results.trials.iter().position(|t| matches!(t.outcome, Outcome::Measured(_))).unwrap();
        let Outcome::Measured(measures) = &mut results.trials[place].outcome else {
            unreachable!()
        };
        measures[0].samples[0] = f64::NAN;
        let name = measures[0].quantity.clone();
        save(&path, &results, Shape::Whole).unwrap();
        match &load(&path).unwrap().trials[place].outcome {
            Outcome::Failed(why) => assert!(why.contains(&name), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn merging_keeps_the_later_of_two_and_refuses_another_machine() {
        let earlier = synthetic::results(1);
        let mut later = synthetic::results(1);
        later.trials.truncate(2);
        later.trials[1].outcome = Outcome::Failed("this time".into());
        let merged = merge(earlier.clone(), later.clone()).unwrap();
        assert_eq!(merged.trials.len(), earlier.trials.len());
        assert!(matches!(&merged.trials[1].outcome, Outcome::Failed(why) if why == "this time"));
        same(&merge(earlier.clone(), earlier.clone()).unwrap(), &earlier);

        later.machine.kernel = "Linux 7".into();
        assert!(merge(earlier.clone(), later).unwrap_err().to_string().contains("Linux 7"));
        let mut other = synthetic::results(1);
        other.links.get_mut("lan").unwrap().congestion = "bbr".into();
        assert!(merge(earlier.clone(), other).unwrap_err().to_string().contains("the link lan"));
        let mut other = synthetic::results(1);
        other.peers.get_mut("xpra").unwrap().version = "99".into();
        assert!(merge(earlier, other).unwrap_err().to_string().contains("xpra"));
    }
}
