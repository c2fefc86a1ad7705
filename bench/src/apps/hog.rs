//! A CPU hog: the `sink` of Wong and Seltzer (section 4). Beside the others on the server; it takes
//! CPU time from the display system and the application. Knows nothing of X.

use std::time::{Duration, Instant};

use crate::Error;

/// Options of `thinc-bench app hog`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Seconds until it ends by itself, so that it does not outlive a run that was killed.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

/// Iterations between two readings of the clock, so that most of the time is spent in user mode.
const ITERATIONS_PER_CHECK: u64 = 1 << 22;

/// Uses one processor.
pub fn run(options: &Options) -> Result<(), Error> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut state = 1_u64;
    while Instant::now() < end {
        for _ in 0..ITERATIONS_PER_CHECK {
            state =
                std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(())
}
