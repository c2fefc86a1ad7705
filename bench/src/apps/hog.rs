//! An application that wants a processor and never gives it back: the `sink` of Wong and Seltzer (section 4).
//! Beside the others on the server; what it takes, the display system and the application being typed into lack.
//! Knows nothing of X.

use std::time::{Duration, Instant};

use crate::Error;

/// How it runs.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Seconds until it ends by itself, so that none outlives a run that was killed.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

/// Between two looks at the clock, so that nearly all of it is work in user mode.
const ROUND: u64 = 1 << 22;

/// Uses one processor.
pub fn run(options: &Options) -> Result<(), Error> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut state = 1_u64;
    while Instant::now() < end {
        for _ in 0..ROUND {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(())
}
