//! `cargo run -p thinc-sim --release -- --seeds N`: runs more seeds than a test has time for, or
//! one that failed. From a person or `./dev fuzz nightly`, to run.rs. Knows arguments, and the
//! clock if a duration is given.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use thinc_sim::{Full, Ids, Tally, run_seeds};

const USAGE: &str =
    "usage: thinc-sim [--full] [--seeds N] [--first SEED] [--operations N] [--minutes N]
  --full: use the real encoders and viewer-core instead of numbers for pixels
  --minutes: continue with further seeds until so many minutes have passed";

fn main() -> ExitCode {
    let (mut seeds, mut first, mut operations, mut minutes, mut full) =
        (2_000u64, 0u64, 800u64, 0u64, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let slot = match argument.as_str() {
            "--full" => {
                full = true;
                continue;
            }
            "--seeds" => &mut seeds,
            "--first" => &mut first,
            "--operations" => &mut operations,
            "--minutes" => &mut minutes,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        };
        let Some(value) = arguments.next().and_then(|value| value.parse().ok()) else {
            eprintln!("{argument} needs a number\n{USAGE}");
            return ExitCode::from(2);
        };
        *slot = value;
    }
    // A panic is printed with its seed; its location is shown by the example `trace`.
    std::panic::set_hook(Box::new(|_| {}));
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let (mut from, mut failures, mut all) = (first, 0, Tally::default());
    loop {
        let range = from..from + seeds;
        let run = if full { run_seeds::<Full> } else { run_seeds::<Ids> };
        let (tally, failed) = run(range.clone(), operations as usize);
        for (seed, message) in &failed {
            println!("seed {seed}: {message}");
        }
        all.add(&tally);
        failures += failed.len();
        from = range.end;
        if Instant::now() >= end {
            break;
        }
    }
    println!("{} seeds of {operations} operations, {failures} failed; {all:?}", from - first);
    ExitCode::from(u8::from(failures > 0))
}
