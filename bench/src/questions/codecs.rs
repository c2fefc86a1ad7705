//! Question: what do thinc's codec and others make of the screens of a corpus, in bytes, speed and memory?
//! Each codec runs in processes of its own (`thinc-bench-codecs`), on the same whole screens and rectangles; streams see them in the
//! order of the index. Bytes are exact; speed is processor time of one thread, and ratios are of one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::trial::{Claim, quantile, short};
use crate::Error;
use crate::corpus;
use crate::process::{binary, interrupted};
use crate::results::Machine;
use crate::run;

/// How `codecs` runs.
#[derive(Args)]
pub struct Options {
    /// The folder that `thinc-bench corpus` has made.
    #[arg(long, value_name = "FOLDER")]
    corpus: PathBuf,
    /// Only these codecs; all without it.
    #[arg(long, value_delimiter = ',')]
    codecs: Vec<String>,
    /// How often everything is encoded and decoded, for the medians.
    #[arg(long, default_value_t = 5)]
    passes: u32,
    /// Where the samples go; nowhere without it.
    #[arg(long, short)]
    output: Option<PathBuf>,
}

const PROGRAM: &str = "thinc-bench-codecs";
/// What others are held against.
const ZLIB: &str = "zlib-1-stream";
const TIGHT: &str = "tight-like";
/// The setting that most links get, and the one of slow links.
const OURS: [&str; 2] = ["thinc-stream-1", "thinc-stream-3"];

/// One set of pictures, as `thinc-bench-codecs` says it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    set: String,
    samples: usize,
    raw_bytes: u64,
    bytes: u64,
    encode_mb_s: Vec<f64>,
    decode_mb_s: Vec<f64>,
}

#[derive(Deserialize)]
struct Memory {
    peak_bytes: u64,
}

/// One codec.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    about: String,
    sets: Vec<Found>,
    peak_encode_bytes: u64,
    peak_decode_bytes: u64,
}

/// The file.
#[derive(Serialize)]
struct Results<'a> {
    schema: u32,
    command: Vec<String>,
    begun: String,
    machine: Machine,
    corpus: corpus::Index,
    codecs: &'a [Row],
    /// What was to be shown, and whether it held.
    claims: BTreeMap<&'a str, bool>,
}

/// Measures and prints.
///
/// # Errors
/// No corpus, a codec that fails, or one that gives back other pixels.
pub fn run(options: &Options) -> Result<(), Error> {
    let (index, _) = corpus::load(&options.corpus)?;
    let begun = run::now();
    let mut rows = Vec::new();
    for (name, about) in choose(&options.codecs)? {
        if interrupted() {
            return Err("interrupted".into());
        }
        eprintln!("{name} ...");
        let passes = options.passes.to_string();
        let memory = |side: &str| ask::<Memory>(&options.corpus, &name, &["--memory", side]);
        rows.push(Row {
            sets: ask(&options.corpus, &name, &["--passes", &passes])?,
            peak_encode_bytes: memory("encode")?.peak_bytes,
            peak_decode_bytes: memory("decode")?.peak_bytes,
            name,
            about,
        });
    }
    print(&index, &rows);
    let claims = claims(&rows);
    for claim in &claims {
        claim.print();
    }
    if let Some(output) = &options.output {
        let results = Results {
            schema: 1,
            command: std::iter::once("thinc-bench".to_owned()).chain(std::env::args().skip(1)).collect(),
            begun,
            machine: run::machine()?,
            corpus: index,
            codecs: &rows,
            claims: claims.iter().map(|claim| (claim.words.as_str(), claim.holds)).collect(),
        };
        std::fs::write(output, serde_json::to_vec_pretty(&results)?)
            .map_err(|error| format!("{}: {error}", output.display()))?;
        println!("samples are in {}", output.display());
    }
    Ok(())
}

/// The codecs of these names, or all, with what each is.
fn choose(names: &[String]) -> Result<Vec<(String, String)>, Error> {
    let text = output_of(Command::new(binary(PROGRAM)?).arg("--list"))?;
    let known = text.lines().filter_map(|line| line.split_once('\t'));
    let known: Vec<(String, String)> = known.map(|(name, about)| (name.to_owned(), about.to_owned())).collect();
    if let Some(wrong) = names.iter().find(|name| !known.iter().any(|(known, _)| known == *name)) {
        let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("there is no codec {wrong}; there are {}", known.join(", ")).into());
    }
    Ok(known.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name)).collect())
}

fn ask<T: DeserializeOwned>(folder: &Path, codec: &str, more: &[&str]) -> Result<T, Error> {
    let mut command = Command::new(binary(PROGRAM)?);
    command.arg("--corpus").arg(folder).args(["--codec", codec]).args(more);
    Ok(serde_json::from_str(&output_of(&mut command)?)?)
}

fn output_of(command: &mut Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{PROGRAM}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
    }
}

impl Row {
    fn set(&self, name: &str) -> Option<&Found> {
        self.sets.iter().find(|found| found.set == name)
    }
}

fn row<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}

/// `bytes` of one codec over those of another, on one set.
fn ratio(rows: &[Row], ours: &str, other: &str, set: &str) -> Option<f64> {
    Some(row(rows, ours)?.set(set)?.bytes as f64 / row(rows, other)?.set(set)?.bytes as f64)
}

const NAME_WIDTH: usize = 20;
const BYTES_WIDTH: usize = 14;
const SPEED_WIDTH: usize = 14;

fn print(index: &corpus::Index, rows: &[Row]) {
    let captures = index.captures.len();
    println!(
        "{captures} screens of {}x{}, and rectangles of them that are not of one colour",
        index.width, index.height
    );
    let Some(first) = rows.first() else { return };
    println!("bytes, KB (10^3), over {ZLIB}'s");
    print!("{:NAME_WIDTH$}", "");
    for found in &first.sets {
        print!("{:>BYTES_WIDTH$}", found.set);
    }
    println!();
    print!("{:NAME_WIDTH$}", "  pictures");
    for found in &first.sets {
        print!("{:>BYTES_WIDTH$}", found.samples);
    }
    println!();
    for row in rows {
        print!("  {:<width$}", row.name, width = NAME_WIDTH - 2);
        for found in &row.sets {
            let over = ratio(rows, &row.name, ZLIB, &found.set).map_or(String::new(), |over| format!(" {over:.2}"));
            print!("{:>BYTES_WIDTH$}", format!("{}{over}", short(found.bytes as f64 / 1e3)));
        }
        println!();
    }
    println!("encode / decode, MB/s (10^6 bytes of four a pixel, one core), medians; memory at its highest, MB");
    print!("{:NAME_WIDTH$}", "");
    for found in &first.sets {
        print!("{:>SPEED_WIDTH$}", found.set);
    }
    println!("{:>SPEED_WIDTH$}", "memory");
    for row in rows {
        print!("  {:<width$}", row.name, width = NAME_WIDTH - 2);
        for found in &row.sets {
            let [encode, decode] = [&found.encode_mb_s, &found.decode_mb_s].map(|samples| quantile(samples, 0.5));
            print!("{:>SPEED_WIDTH$}", format!("{:.0} / {:.0}", encode.unwrap_or(0.0), decode.unwrap_or(0.0)));
        }
        let memory = [row.peak_encode_bytes, row.peak_decode_bytes].map(|bytes| bytes as f64 / 1e6);
        println!("{:>SPEED_WIDTH$}", format!("{:.1} / {:.1}", memory[0], memory[1]));
    }
    for row in rows {
        println!("  {:<width$}{}", row.name, row.about, width = NAME_WIDTH - 2);
    }
}

/// What the codec is to reach, where what it is held against was measured too.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut at_most = |name, ours, other, set, limit: f64| {
        if let Some(ratio) = ratio(rows, ours, other, set) {
            claims.push(Claim::at_most(name, ratio, limit, &format!("of {other}'s bytes ({ours})")));
        }
    };
    for ours in OURS {
        at_most("all screens", ours, ZLIB, "all", 0.50);
        at_most("screens of pure UI", ours, ZLIB, "ui", 0.38);
        at_most("lines of text, 400x18", ours, TIGHT, "400x18", 0.70);
        at_most("letters, 16x20", ours, TIGHT, "16x20", 0.70);
    }
    if let Some(found) = row(rows, OURS[0]).and_then(|row| row.set("all")) {
        for (name, samples, limit) in
            [("encoding all screens", &found.encode_mb_s, 400.0), ("decoding all screens", &found.decode_mb_s, 600.0)]
        {
            let speed = quantile(samples, 0.5).unwrap_or(0.0);
            claims.push(Claim::at_least(name, speed, limit, &format!("MB/s ({})", OURS[0])));
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(name: &str, bytes: &[(&str, u64)], encode: f64) -> Row {
        let found = |&(set, bytes): &(&str, u64)| Found {
            set: set.into(),
            samples: 1,
            raw_bytes: 1000,
            bytes,
            encode_mb_s: vec![encode],
            decode_mb_s: vec![601.0],
        };
        let sets = bytes.iter().map(found).collect();
        Row { name: name.into(), about: String::new(), sets, peak_encode_bytes: 0, peak_decode_bytes: 0 }
    }

    #[test]
    fn claims_compare_with_what_was_measured_beside() {
        let ours = codec(OURS[0], &[("all", 49), ("ui", 39), ("16x20", 70)], 399.0);
        let zlib = codec(ZLIB, &[("all", 100), ("ui", 100), ("16x20", 1)], 1.0);
        let tight = codec(TIGHT, &[("16x20", 100)], 1.0);
        let found = claims(&[ours, zlib, tight]);
        let holds: Vec<(&str, bool)> = found.iter().map(|claim| (claim.name, claim.holds)).collect();
        assert_eq!(
            holds,
            [
                ("all screens", true),
                ("screens of pure UI", false),
                ("letters, 16x20", true),
                ("encoding all screens", false),
                ("decoding all screens", true)
            ]
        );
        assert!(claims(&[codec("qoi", &[("all", 5)], 1.0)]).is_empty(), "nothing of ours, nothing to be shown");
    }
}
