//! What do thinc's hot functions cost, each against something measured in the same run? From the
//! samples that the criterion benches of the crates leave behind, to a table: median, p95, p99,
//! ratio. Knows criterion's files; never what was measured. A case whose name ends in "(reference)"
//! is its group's 1.00.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Error;
use crate::stats::{quantile_sorted, sorted};

/// Options of `functions`.
#[derive(clap::Args)]
pub struct Options {
    /// Where criterion left its samples.
    #[arg(long, default_value = "target/criterion")]
    folder: PathBuf,
}

/// One bench function.
struct Case {
    name: String,
    /// Nanoseconds of one call; where calls are short, criterion's samples are means of many.
    times: Vec<f64>,
    bytes: Option<f64>,
}

const REFERENCE: &str = " (reference)";

/// Prints the table.
///
/// # Errors
/// No samples, or files that are not criterion's.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut groups: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    collect(&options.folder, &mut groups)?;
    if groups.is_empty() {
        return Err(format!(
            "{} holds no samples: run ./dev bench functions",
            options.folder.display()
        )
        .into());
    }
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>8} {:>10}",
        "", "median", "p95", "p99", "ratio", "MB/s"
    );
    for (group, cases) in &mut groups {
        let middle = |case: &Case| quantile_sorted(&case.times, 0.5);
        cases.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
        let reference = cases.iter().find(|case| case.name.ends_with(REFERENCE)).map(middle);
        println!("{group}");
        for case in cases {
            let median = middle(case);
            let ratio =
                reference.map_or(String::new(), |reference| format!("{:.2}", median / reference));
            // Bytes a nanosecond are thousands of megabytes a second.
            let speed =
                case.bytes.map_or(String::new(), |bytes| format!("{:.0}", bytes / median * 1e3));
            let [middle, p95, p99] =
                [0.5, 0.95, 0.99].map(|share| duration(quantile_sorted(&case.times, share)));
            println!("  {:<42} {middle:>10} {p95:>10} {p99:>10} {ratio:>8} {speed:>10}", case.name);
        }
    }
    Ok(())
}

/// Adds every case below a folder to its group.
fn collect(folder: &Path, groups: &mut BTreeMap<String, Vec<Case>>) -> Result<(), Error> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name == "new") {
            let (group, case) = read_case(&path)?;
            groups.entry(group).or_default().push(case);
        } else if path.is_dir() {
            collect(&path, groups)?;
        }
    }
    Ok(())
}

fn read_case(folder: &Path) -> Result<(String, Case), Error> {
    let [about, sample] =
        ["benchmark.json", "sample.json"].map(|name| read_json(&folder.join(name)));
    let (about, sample) = (about?, sample?);
    let broken = || format!("{}: not as criterion writes it", folder.display());
    let numbers = |name: &str| -> Result<Vec<f64>, Error> {
        let values = sample[name].as_array().ok_or_else(broken)?;
        Ok(values.iter().map(Value::as_f64).collect::<Option<_>>().ok_or_else(broken)?)
    };
    let (times, calls) = (numbers("times")?, numbers("iters")?);
    let each: Vec<f64> = times.into_iter().zip(calls).map(|(time, calls)| time / calls).collect();
    let times = sorted(&each);
    if times.is_empty() {
        return Err(broken().into());
    }
    let text = |name: &str| about[name].as_str().map(str::to_owned).ok_or_else(broken);
    let bytes = about["throughput"]["Bytes"].as_f64();
    Ok((text("group_id")?, Case { name: text("function_id")?, times, bytes }))
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Nanoseconds as a person reads them.
fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.1} ns"),
        n if n < 1e6 => format!("{:.2} us", n / 1e3),
        n => format!("{:.2} ms", n / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterions_files_are_read() {
        let root =
            std::env::temp_dir().join(format!("thinc-bench-functions-{}", std::process::id()));
        let new = root.join("group").join("case").join("new");
        std::fs::create_dir_all(&new).unwrap();
        let about =
            r#"{"group_id":"copy","function_id":"memcpy (reference)","throughput":{"Bytes":4096}}"#;
        std::fs::write(new.join("benchmark.json"), about).unwrap();
        std::fs::write(
            new.join("sample.json"),
            r#"{"iters":[2.0,4.0,2.0],"times":[10.0,24.0,20.0]}"#,
        )
        .unwrap();
        let mut groups = BTreeMap::new();
        let read = collect(&root, &mut groups);
        std::fs::write(new.join("sample.json"), r#"{"iters":[],"times":[]}"#).unwrap();
        let empty = collect(&root, &mut BTreeMap::new());
        std::fs::remove_dir_all(&root).unwrap();
        read.unwrap();
        let case = &groups["copy"][0];
        assert_eq!(
            (quantile_sorted(&case.times, 0.5), quantile_sorted(&case.times, 1.0), case.bytes),
            (6.0, 10.0, Some(4096.0))
        );
        assert!(empty.is_err(), "a figure of nothing must not be printed");
    }
}
