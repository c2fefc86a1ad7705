//! A memory hog (Wong and Seltzer 2000, section 5): `thinc-bench app fill` takes memory and touches
//! all of it again and again. Beside the others on the server; knows nothing of X.

use std::time::{Duration, Instant};

use super::editor::Memory;
use crate::Error;

/// Options of `thinc-bench app fill`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Its memory, MB (10^6 bytes).
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u32).range(1..=65536))]
    megabytes: u32,
    /// Seconds until it ends by itself, so that it does not outlive a run that was killed.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

/// Fills memory.
pub fn run(options: &Options) -> Result<(), Error> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut memory = Memory::of(options.megabytes);
    while Instant::now() < end {
        memory.touch(0, memory.pages());
    }
    Ok(())
}
