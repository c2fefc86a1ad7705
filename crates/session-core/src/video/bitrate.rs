//! Path 6/13: under video.rs, which asks how many bits its frames may take.
//! Follows the path's rate, within a second in both directions: down at once when frames have to
//! wait, up step by step while they do not. Knows rates and times; never which frames.
//!
//! The encoder's bitrate limits what can be measured: a path that is sent little shows a low rate.
//! So the measured rate is a bound only if the path was full, and even then the bitrate probes
//! gently beyond it.

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;

use crate::quality::RateEstimate;

/// Share of the path's rate for all videos: the rest is for everything else, and for frames that
/// come out larger.
const VIDEO_SHARE: f64 = 0.85;
/// Interval between updates of the bitrate.
const UPDATE_INTERVAL: Micros = 100_000;
/// Bits a second before anything is measured, and the least that is worth coding.
const BITS_INITIAL: f64 = 2e6;
const BITS_MIN: f64 = 100e3;
/// Bits per luma sample above which nobody sees a difference, and the least that a stream wants:
/// small frames need more of them.
const BITS_PER_SAMPLE: f64 = 0.25;
const BITS_WANTED_MIN: f64 = 1e6;
/// Shares of these bits at the qualities that a person chooses: as the bytes of a photograph at the
/// profiles of JPEG with these names, 0.46, 0.18 and 0.07 MB at 1024 × 768.
const MEDIUM_SHARE: f64 = 0.4;
const LOW_SHARE: f64 = 0.15;
/// Growth per update: below the path's measured rate, or if it was never full; and beyond the
/// measured rate.
const GROWTH: f64 = 1.5;
const PROBE_GROWTH: f64 = 1.05;
/// After so many probes beyond the measured rate without a delay, the path has changed.
const PROBES_PROVEN: u32 = 8;
/// The share that remains after frames had to wait, the time that earlier frames at the higher rate
/// take to pass, and the time without growth.
const DECREASE: f64 = 0.8;
const DECREASE_INTERVAL_MIN: Micros = 300_000;
const GROWTH_PAUSE: Micros = 500_000;
/// A measured rate below this share of the bitrate is used at once. Above it the measurement may be
/// low because frames are sent one by one, with pauses.
const MUCH_SLOWER: f64 = 0.5;
/// For so long after a frame several times as large as others, waiting frames are expected.
const LARGE_FRAME_TIME: Micros = 400_000;
/// A keyframe is coded for this part of the rate: it comes out two or three times as large as
/// others, which would all wait behind it. The next few frames restore its quality.
const KEYFRAME_PART: f64 = 0.5;
/// Share of the rate of the transport's window that may be coded while the window is small.
const WINDOW_SHARE: f64 = 1.2;

/// Bits a second that a stream with so many samples a frame is worth.
pub(super) fn bits_wanted(samples: u64, pictures_per_second: f64) -> f64 {
    (samples as f64 * pictures_per_second * BITS_PER_SAMPLE).max(BITS_WANTED_MIN)
}

/// The share of its bits that a stream takes at this quality.
pub(super) fn share_of(quality: PictureQuality) -> f64 {
    match quality {
        PictureQuality::Auto | PictureQuality::Exact | PictureQuality::High => 1.0,
        PictureQuality::Medium => MEDIUM_SHARE,
        PictureQuality::Low => LOW_SHARE,
    }
}

/// The bitrate of one viewer's videos together.
#[derive(Debug)]
pub(super) struct BitrateControl {
    bits: f64,
    /// The most that they would take.
    wanted: f64,
    updated_at: Option<Micros>,
    /// Their share of the path's rate, as measured while it was full.
    measured: Option<f64>,
    decreased_at: Micros,
    grows_from: Micros,
    large_until: Micros,
    /// A frame was sent since the bitrate fell: otherwise a lower one is no help.
    frame_sent: bool,
    /// Updates in a row beyond the measured rate.
    probes: u32,
}

impl Default for BitrateControl {
    fn default() -> BitrateControl {
        BitrateControl {
            bits: BITS_INITIAL,
            wanted: BITS_WANTED_MIN,
            updated_at: None,
            measured: None,
            decreased_at: 0,
            grows_from: 0,
            large_until: 0,
            frame_sent: false,
            probes: 0,
        }
    }
}

impl BitrateControl {
    /// A frame is sent.
    pub(super) fn frame_sent(&mut self) {
        self.frame_sent = true;
    }

    /// A frame had to wait for the path: lowers the bitrate from the next one on.
    pub(super) fn delayed(&mut self, now: Micros) {
        let much_slower = self.measured.filter(|&known| known < self.bits * MUCH_SLOWER);
        let pause = if much_slower.is_some() { UPDATE_INTERVAL } else { DECREASE_INTERVAL_MIN };
        if now < self.large_until
            || now < self.decreased_at + pause
            || !std::mem::take(&mut self.frame_sent)
        {
            return;
        }
        self.bits = much_slower.unwrap_or(self.bits * DECREASE).max(BITS_MIN);
        self.decreased_at = now;
        self.grows_from = now + GROWTH_PAUSE;
        self.probes = 0;
    }

    /// A frame is sent that is several times as large as others, as keyframes and new scenes are.
    pub(super) fn large_frame(&mut self, now: Micros) {
        // If one follows the other, they no longer explain that frames wait.
        if now >= self.large_until + LARGE_FRAME_TIME || self.large_until == 0 {
            self.large_until = now + LARGE_FRAME_TIME;
        }
    }

    /// The path has this `rate`; all moving streams want `wanted` bits a second.
    pub(super) fn update(&mut self, rate: RateEstimate, wanted: f64, now: Micros) {
        if wanted == 0.0 && self.updated_at.is_some() {
            // All streams are at rest: their bitrate stays for when they continue.
            return;
        }
        self.wanted = if wanted > 0.0 { wanted } else { BITS_WANTED_MIN };
        let share = |rate: u64| rate as f64 * 8.0 * VIDEO_SHARE;
        let Some(updated_at) = self.updated_at else {
            self.updated_at = Some(now);
            self.bits = match rate {
                RateEstimate::Unknown => BITS_INITIAL,
                RateEstimate::AtLeast(rate) => share(rate).max(BITS_INITIAL),
                RateEstimate::Measured(rate) => share(rate),
            }
            .clamp(BITS_MIN, self.wanted.max(BITS_MIN));
            return;
        };
        if now < updated_at + UPDATE_INTERVAL {
            return;
        }
        self.updated_at = Some(now);
        self.measured = match rate {
            RateEstimate::Measured(rate) => Some(share(rate)),
            RateEstimate::Unknown | RateEstimate::AtLeast(_) => None,
        };
        if now >= self.grows_from {
            let growth = match self.measured {
                Some(known) if self.bits * PROBE_GROWTH > known && self.probes < PROBES_PROVEN => {
                    self.probes += 1;
                    PROBE_GROWTH
                }
                Some(known) if self.probes < PROBES_PROVEN => GROWTH.min(known / self.bits),
                _ => GROWTH,
            };
            self.bits *= growth;
        }
        self.bits = self.bits.clamp(BITS_MIN, self.wanted.max(BITS_MIN));
    }

    /// Bits a second of all streams.
    pub(super) fn bits(&self) -> u64 {
        self.bits as u64
    }

    /// The bitrate for a frame of a stream that wants so much; the transport's window allows
    /// `window` bytes a second.
    pub(super) fn share(&self, wanted: f64, window: u64, keyframe: bool) -> u64 {
        let bits = self.bits.min(window as f64 * 8.0 * WINDOW_SHARE).max(BITS_MIN);
        let part = if keyframe { KEYFRAME_PART } else { 1.0 };
        (bits * (wanted / self.wanted).min(1.0) * part) as u64
    }
}
