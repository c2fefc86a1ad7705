//! Sound over a network: what a session sends of what its programs play, and what a viewer plays
//! when. From session-server's encoder through sender.rs and the network, to player.rs, which an
//! audio device pulls.
//! Knows frames, times and counts; never a clock, a socket, a device or a thread: `now` is an
//! argument.
#![forbid(unsafe_code)]

pub mod decode;
mod delays;
pub mod jitter;
pub mod player;
pub mod quality;
pub mod redundancy;
mod resample;
pub mod sender;

pub use player::{Player, Report};
pub use quality::Quality;

/// Samples a second for each channel, everywhere.
pub const RATE: u32 = 48_000;
/// Channels of what a viewer plays.
pub const CHANNELS: usize = 2;

/// Microseconds of so many samples.
pub(crate) const fn samples_us(samples: u64) -> u64 {
    samples * 1000 / 48
}

/// Samples in so many microseconds, rounded down.
pub(crate) const fn us_samples(us: u64) -> u64 {
    us * 48 / 1000
}
