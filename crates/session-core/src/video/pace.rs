//! Path 6/13: under video.rs, which asks how many bits its pictures may take.
//! Follows what the path carries, within a second both ways: at once down when pictures have to wait, step by step up while they do not.
//! Knows rates and times; never which pictures.
//!
//! What an encoder is told to make decides what the path is seen to carry: who sends little measures little. So the measured rate
//! is a bound only where the path was full, and even then it is tried, gently, whether the path has become faster.

use thinc_protocol::Micros;

use crate::quality::Rate;

/// Share of what the path carries that all videos may take: the rest is for everything else, and for pictures that come out larger.
const SHARE: f64 = 0.85;
/// How often it looks.
const LOOK: Micros = 100_000;
/// Bits a second before anything is known, and the least that is worth coding.
const BITS_INITIAL: f64 = 2e6;
const BITS_MIN: f64 = 100e3;
/// Bits of a sample of luma above which nobody sees a difference, and the least that a stream wants: small pictures need more of them.
const BITS_PER_SAMPLE: f64 = 0.25;
const BITS_WANTED_MIN: f64 = 1e6;
/// Growth from look to look: below what the path is known to carry, where it was never full, and beyond it, where it was.
const GROWTH: f64 = 1.5;
const GROWTH_BEYOND: f64 = 1.05;
/// After so many looks beyond it that held nothing up, the path is another one.
const BEYOND_PROVEN: u32 = 8;
/// What remains where pictures had to wait, how long those before take to pass that were coded for more, and how long nothing grows.
const FALL: f64 = 0.8;
const FALL_PASSES: Micros = 300_000;
const HOLD: Micros = 500_000;
/// What the path is known to carry is believed where it is less than so much of what is coded: pictures come one by one, and the time
/// between them makes it look slower than it is.
const MUCH_LESS: f64 = 0.5;
/// For so long after a picture that is several times as large as others, it is no wonder that others wait.
const LARGE_PASSES: Micros = 400_000;
/// A picture that leans on none is coded for this part of the rate: it comes out two or three times as large as others, and what it lacks the
/// next few bring, which would else all wait behind it.
const KEY_PART: f64 = 0.5;
/// Share of what the transport's window lets through that may be coded while it is small.
const WINDOW_SHARE: f64 = 1.2;

/// Bits a second that a stream of so many samples a picture is worth.
pub(super) fn bits_wanted(samples: u64, pictures_per_second: f64) -> f64 {
    (samples as f64 * pictures_per_second * BITS_PER_SAMPLE).max(BITS_WANTED_MIN)
}

/// What one viewer's videos may take, together.
#[derive(Debug)]
pub(super) struct Pace {
    bits: f64,
    /// What they would take at most.
    wanted: f64,
    looked_at: Option<Micros>,
    /// Of what the path was seen to carry while it was full.
    known: Option<f64>,
    fell_at: Micros,
    grows_from: Micros,
    large_until: Micros,
    /// A picture went since the rate fell: where none does, less of them is no help.
    went: bool,
    /// Looks in a row that went beyond what the path is known to carry.
    beyond: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            bits: BITS_INITIAL,
            wanted: BITS_WANTED_MIN,
            looked_at: None,
            known: None,
            fell_at: 0,
            grows_from: 0,
            large_until: 0,
            went: false,
            beyond: 0,
        }
    }
}

impl Pace {
    /// A picture goes.
    pub(super) fn went(&mut self) {
        self.went = true;
    }

    /// A frame had to wait for the path: less from the next one on.
    pub(super) fn held(&mut self, now: Micros) {
        let much_less = self.known.filter(|&known| known < self.bits * MUCH_LESS);
        let pause = if much_less.is_some() { LOOK } else { FALL_PASSES };
        if now < self.large_until || now < self.fell_at + pause || !std::mem::take(&mut self.went) {
            return;
        }
        self.bits = much_less.unwrap_or(self.bits * FALL).max(BITS_MIN);
        self.fell_at = now;
        self.grows_from = now + HOLD;
        self.beyond = 0;
    }

    /// A picture goes that is several times as large as others, as those are that lean on none, or on another scene.
    pub(super) fn large(&mut self, now: Micros) {
        // Where one follows the other, that pictures wait is no longer for one of them.
        if now >= self.large_until + LARGE_PASSES || self.large_until == 0 {
            self.large_until = now + LARGE_PASSES;
        }
    }

    /// The path carries `rate`; all streams that move want `wanted` bits a second.
    pub(super) fn look(&mut self, rate: Rate, wanted: f64, now: Micros) {
        if wanted == 0.0 && self.looked_at.is_some() {
            // All rest: what they took is worth as much when they go on.
            return;
        }
        self.wanted = wanted.max(BITS_WANTED_MIN);
        let share = |rate: u64| rate as f64 * 8.0 * SHARE;
        let Some(looked_at) = self.looked_at else {
            self.looked_at = Some(now);
            self.bits = match rate {
                Rate::Unknown => BITS_INITIAL,
                Rate::AtLeast(rate) => share(rate).max(BITS_INITIAL),
                Rate::Measured(rate) => share(rate),
            }
            .clamp(BITS_MIN, self.wanted.max(BITS_MIN));
            return;
        };
        if now < looked_at + LOOK {
            return;
        }
        self.looked_at = Some(now);
        self.known = match rate {
            Rate::Measured(rate) => Some(share(rate)),
            Rate::Unknown | Rate::AtLeast(_) => None,
        };
        if now >= self.grows_from {
            let growth = match self.known {
                Some(known) if self.bits * GROWTH_BEYOND > known && self.beyond < BEYOND_PROVEN => {
                    self.beyond += 1;
                    GROWTH_BEYOND
                }
                Some(known) if self.beyond < BEYOND_PROVEN => GROWTH.min(known / self.bits),
                _ => GROWTH,
            };
            self.bits *= growth;
        }
        self.bits = self.bits.clamp(BITS_MIN, self.wanted);
    }

    /// Bits a second of all of them.
    pub(super) fn bits(&self) -> u64 {
        self.bits as u64
    }

    /// What a picture is coded for, of a stream that wants so much; the transport's window lets `window` bytes a second through.
    pub(super) fn share(&self, wanted: f64, window: u64, key: bool) -> u64 {
        let bits = self.bits.min(window as f64 * 8.0 * WINDOW_SHARE).max(BITS_MIN);
        let part = if key { KEY_PART } else { 1.0 };
        (bits * (wanted / self.wanted).min(1.0) * part) as u64
    }
}
