//! `cargo run -p thinc-sim --release -- --seeds N`: more seeds than a test has time for, or one that failed.
//! From a person, to lib.rs.
//! Knows arguments and a number of threads; every run is its seed's alone.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use thinc_sim::{Full, Ids, run_seed};

const USAGE: &str = "usage: thinc-sim [--full] [--seeds N] [--first SEED] [--operations N]
  --full: real encoders and viewer-core instead of numbers for pixels";

fn main() -> ExitCode {
    let (mut seeds, mut first, mut operations, mut full) = (2_000u64, 0u64, 800u64, false);
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
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        };
        let Some(value) = arguments.next().and_then(|value| value.parse().ok()) else {
            eprintln!("{argument} wants a number\n{USAGE}");
            return ExitCode::from(2);
        };
        *slot = value;
    }
    let next = AtomicU64::new(first);
    let (failed, barriers) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    let run = || match full {
                        true => run_seed::<Full>(seed, operations as usize, None),
                        false => run_seed::<Ids>(seed, operations as usize, None),
                    };
                    match std::panic::catch_unwind(run) {
                        Ok(Ok(checked)) => {
                            barriers.fetch_add(checked, Ordering::Relaxed);
                        }
                        Ok(Err(divergence)) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            eprintln!("seed {seed}: {}", divergence.0);
                        }
                        Err(_) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            eprintln!("seed {seed}: an invariant is broken, see above");
                        }
                    }
                }
            });
        }
    });
    let (failed, barriers) = (failed.into_inner(), barriers.into_inner());
    println!("{seeds} seeds of {operations} operations, {failed} failed, {barriers} barriers checked");
    ExitCode::from(u8::from(failed > 0))
}
