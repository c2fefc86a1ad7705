//! Under player.rs: plays samples a little faster or slower.
//! A windowed sinc between the samples, whose table is made once. Knows two channels of samples and
//! a position; never why the rate changes.
//!
//! 16 taps with a Kaiser window keep everything below 18 kHz within 0.1 dB at any position, so that
//! a slow drift modulates nothing. At a whole position the filter gives the sample itself.

use crate::CHANNELS;

/// Samples on both sides that one output sample is made of.
const TAPS: usize = 16;
/// Positions between two samples in the table; between them the taps are interpolated.
const PHASES: usize = 128;
/// Of the Kaiser window: 70 dB of stop band.
const BETA: f64 = 7.0;

/// Sound that waits to be played, and the position in it.
#[derive(Debug)]
pub(crate) struct Resampler {
    table: Vec<[f32; TAPS]>,
    /// Interleaved; the first `TAPS` frames are what was played before.
    samples: Vec<f32>,
    /// The next sample, as a number of frames in `samples`, and between that one and the next.
    at: usize,
    fraction: f64,
}

/// The modified Bessel function of order 0, as a series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..32 {
        term *= (x / 2.0 / f64::from(n)).powi(2);
        sum += term;
    }
    sum
}

fn tap(distance: f64) -> f64 {
    let half = TAPS as f64 / 2.0;
    if distance.abs() >= half {
        return 0.0;
    }
    let window = bessel(BETA * (1.0 - (distance / half).powi(2)).sqrt()) / bessel(BETA);
    let sinc = if distance == 0.0 {
        1.0
    } else {
        (std::f64::consts::PI * distance).sin() / (std::f64::consts::PI * distance)
    };
    window * sinc
}

impl Resampler {
    pub(crate) fn new() -> Resampler {
        let table = (0..=PHASES)
            .map(|phase| {
                let fraction = phase as f64 / PHASES as f64;
                let mut taps = [0.0; TAPS];
                for (k, value) in taps.iter_mut().enumerate() {
                    // At whole positions all others are 0, and not only nearly.
                    let distance = k as f64 - (TAPS as f64 / 2.0 - 1.0) - fraction;
                    *value = if distance == distance.trunc() && distance != 0.0 {
                        0.0
                    } else {
                        tap(distance) as f32
                    };
                }
                taps
            })
            .collect();
        let before = TAPS / 2 - 1;
        Resampler { table, samples: vec![0.0; before * CHANNELS], at: before, fraction: 0.0 }
    }

    /// Frames that can be played with what is here.
    fn ready(&self) -> usize {
        (self.samples.len() / CHANNELS).saturating_sub(self.at + TAPS / 2)
    }

    /// Frames that were appended and not played.
    pub(crate) fn waiting(&self) -> usize {
        self.samples.len() / CHANNELS - self.at
    }

    /// Appends samples, interleaved.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        let before = TAPS / 2 - 1;
        if self.at > 4096 {
            self.samples.drain(..(self.at - before) * CHANNELS);
            self.at = before;
        }
        self.samples.extend_from_slice(samples);
    }

    /// Fills `out` from the front at this rate, as far as there is sound; returns how many of its
    /// samples it has written.
    pub(crate) fn pull(&mut self, out: &mut [f32], rate: f64) -> usize {
        let mut written = 0;
        for out in out.as_chunks_mut::<CHANNELS>().0 {
            if self.ready() == 0 {
                break;
            }
            let phase = self.fraction * PHASES as f64;
            let (low, between) = (phase as usize, (phase - phase.floor()) as f32);
            let (low, high) = (&self.table[low], &self.table[(low + 1).min(PHASES)]);
            let first = (self.at + 1 - TAPS / 2) * CHANNELS;
            let window = &self.samples[first..first + TAPS * CHANNELS];
            *out = [0.0; CHANNELS];
            for ((samples, low), high) in window.as_chunks::<CHANNELS>().0.iter().zip(low).zip(high)
            {
                let tap = low + (high - low) * between;
                for (out, sample) in out.iter_mut().zip(samples) {
                    *out += sample * tap;
                }
            }
            let position = self.fraction + rate;
            self.at += position as usize;
            self.fraction = position.fract();
            written += CHANNELS;
        }
        written
    }

    /// At rate 1 and after silence: play whole samples again, which the filter leaves as they are.
    pub(crate) fn settle(&mut self) {
        self.fraction = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(hertz: f64, frames: usize) -> Vec<f32> {
        (0..frames)
            .flat_map(|n| {
                let value = (std::f64::consts::TAU * hertz * n as f64 / 48_000.0).sin() as f32;
                [value, -value]
            })
            .collect()
    }

    #[test]
    fn at_rate_1_samples_are_unchanged() {
        let mut resampler = Resampler::new();
        let input = tone(997.0, 960);
        resampler.push(&input);
        let mut out = vec![9.0; 2000];
        let written = resampler.pull(&mut out, 1.0);
        assert_eq!(out[..written], input[..written]);
        assert!(written >= input.len() - 2 * TAPS);
    }

    #[test]
    fn a_tone_keeps_its_shape_at_other_rates() {
        for hertz in [440.0, 5000.0, 15_000.0] {
            let mut resampler = Resampler::new();
            resampler.push(&tone(hertz, 9600));
            let mut out = vec![0.0; 9000];
            let rate = 1.003;
            assert_eq!(resampler.pull(&mut out, rate), out.len());
            let mut worst: f64 = 0.0;
            for (n, frame) in out.chunks(2).enumerate().skip(TAPS) {
                let at = n as f64 * rate / 48_000.0;
                let want = (std::f64::consts::TAU * hertz * at).sin();
                worst = worst.max((f64::from(frame[0]) - want).abs());
                assert_eq!(frame[0], -frame[1]);
            }
            assert!(worst < 0.003, "{hertz} Hz: {worst}");
        }
    }

    #[test]
    fn it_plays_as_much_as_the_rate_says() {
        let mut resampler = Resampler::new();
        let mut played = 0;
        let mut pushed = 0;
        for _ in 0..500 {
            resampler.push(&[0.5; 960]);
            pushed += 480;
            let mut out = [0.0; 4000];
            played += resampler.pull(&mut out, 0.95) / 2;
        }
        let want = (pushed - resampler.waiting()) as f64 / 0.95;
        assert!((played as f64 - want).abs() < 2.0, "{played} of {want}");
        assert!(resampler.samples.len() < 40_000, "played sound is forgotten");
    }
}
