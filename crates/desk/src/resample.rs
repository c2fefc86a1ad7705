//! Between the rates of programs and that of the mix. From playback.rs, to the mixer, and from it
//! to record.rs. Knows samples and rates; `rubato` has the filters.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Indexing, Resampler as _, SincInterpolationParameters,
    SincInterpolationType, WindowFunction,
};

use crate::link::{CHANNELS, RATE};

/// Samples of each channel that are mixed at a time: 5 ms.
pub(crate) const BLOCK: usize = 240;
/// What is mixed at a time.
pub(crate) type Block = [f32; BLOCK * CHANNELS];

/// 128 points: 1.5 ms of delay at 44.1 kHz, and -0.1 dB at 18 kHz.
fn filter(ratio: f64, fixed: FixedAsync) -> Async<f32> {
    let parameters = SincInterpolationParameters::new(128, WindowFunction::BlackmanHarris2)
        .oversampling_factor(256)
        .interpolation(SincInterpolationType::Linear);
    // The arguments are constants but for the ratio, which is one of two checked rates.
    Async::new_sinc(ratio, 1.0, &parameters, BLOCK, CHANNELS, fixed)
        .expect("the ratio is finite and positive")
}

/// From a program's rate to that of the mix.
#[derive(Debug)]
pub(crate) struct ToMix(Async<f32>);

impl ToMix {
    /// `None` if there is nothing to do.
    pub(crate) fn new(rate: u32) -> Option<ToMix> {
        let ratio = f64::from(RATE) / f64::from(rate);
        (rate != RATE).then(|| ToMix(filter(ratio, FixedAsync::Output)))
    }

    /// Samples of each channel that the next block is made of.
    pub(crate) fn needed(&self) -> usize {
        self.0.input_frames_next()
    }

    /// Makes a block of them; fewer are followed by silence.
    pub(crate) fn process(&mut self, samples: &[f32], block: &mut Block) {
        let needed = self.needed();
        let frames = (samples.len() / CHANNELS).min(needed);
        let input = InterleavedSlice::new(samples, CHANNELS, samples.len() / CHANNELS);
        let output = InterleavedSlice::new_mut(&mut block[..], CHANNELS, BLOCK);
        let (input, mut output) = (input.expect("it has this size"), output.expect("so has it"));
        let part = Indexing::new().partial_len(frames);
        let part = (frames < needed).then_some(&part);
        self.0.process_into_buffer(&input, &mut output, part).expect("both are long enough");
    }
}

/// From the rate of the mix to a program's.
#[derive(Debug)]
pub(crate) enum FromMix {
    /// The same rate.
    Same,
    /// Another one.
    Filter(Box<Async<f32>>),
    /// The largest sample of each interval: level meters ask for a few a second.
    Peaks { rate: u32, phase: u32, peak: [f32; CHANNELS] },
}

impl FromMix {
    pub(crate) fn new(rate: u32, peaks: bool) -> FromMix {
        match rate {
            _ if peaks => FromMix::Peaks { rate, phase: 0, peak: [0.0; CHANNELS] },
            RATE => FromMix::Same,
            _ => {
                let ratio = f64::from(rate) / f64::from(RATE);
                FromMix::Filter(Box::new(filter(ratio, FixedAsync::Input)))
            }
        }
    }

    /// Appends what a block becomes.
    pub(crate) fn process(&mut self, block: &Block, out: &mut Vec<f32>) {
        match self {
            FromMix::Same => out.extend(block),
            FromMix::Filter(filter) => {
                let start = out.len();
                out.resize(start + filter.output_frames_next() * CHANNELS, 0.0);
                let room = &mut out[start..];
                let frames = room.len() / CHANNELS;
                let input = InterleavedSlice::new(&block[..], CHANNELS, BLOCK);
                let output = InterleavedSlice::new_mut(room, CHANNELS, frames);
                let (input, mut output) =
                    (input.expect("it has this size"), output.expect("so has it"));
                let (_, made) = filter
                    .process_into_buffer(&input, &mut output, None)
                    .expect("both are long enough");
                out.truncate(start + made * CHANNELS);
            }
            FromMix::Peaks { rate, phase, peak } => {
                for frame in block.as_chunks::<CHANNELS>().0 {
                    for (peak, sample) in peak.iter_mut().zip(frame) {
                        *peak = peak.max(sample.abs());
                    }
                    *phase += *rate;
                    if *phase >= RATE {
                        // Meters have fewer samples than the mix, never more.
                        *phase %= RATE;
                        out.extend(*peak);
                        *peak = [0.0; CHANNELS];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest of |x(n) − 2 cos ω x(n−1) + x(n−2)|, which is 0 for a sine.
    pub(crate) fn roughness(samples: &[f32], hz: f64, rate: u32) -> f32 {
        let factor = 2.0 * (std::f64::consts::TAU * hz / f64::from(rate)).cos();
        samples
            .windows(3)
            .map(|x| (f64::from(x[2]) - factor * f64::from(x[1]) + f64::from(x[0])).abs() as f32)
            .fold(0.0, f32::max)
    }

    fn sine(hz: f64, rate: u32, frames: usize) -> Vec<f32> {
        (0..frames)
            .flat_map(|n| {
                let t = n as f64 / f64::from(rate);
                [(std::f64::consts::TAU * hz * t).sin() as f32 * 0.5; 2]
            })
            .collect()
    }

    fn left(samples: &[f32]) -> Vec<f32> {
        samples.iter().step_by(2).copied().collect()
    }

    #[test]
    fn a_sine_stays_one_at_each_rate() {
        for rate in [8_000, 22_050, 44_100, 96_000, 192_000] {
            let mut to = ToMix::new(rate).unwrap();
            let input = sine(440.0, rate, rate as usize);
            let (mut at, mut output) = (0, Vec::new());
            while at + to.needed() * 2 <= input.len() {
                let (mut block, needed) = ([0.0; BLOCK * 2], to.needed() * 2);
                to.process(&input[at..at + needed], &mut block);
                at += needed;
                output.extend(block);
            }
            let output = left(&output);
            assert!(output.len() > 45_000, "{rate}: {}", output.len());
            let rough = roughness(&output[2000..], 440.0, RATE);
            assert!(rough < 0.001, "{rate}: {rough}");
            let peak = output[2000..].iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
            assert!((0.495..0.505).contains(&peak), "{rate}: {peak}");

            let mut from = FromMix::new(rate, false);
            let mut output = Vec::new();
            for block in sine(440.0, RATE, 48_000).as_chunks::<{ BLOCK * 2 }>().0 {
                from.process(block, &mut output);
            }
            let output = left(&output);
            let lacks = rate as usize - output.len();
            assert!(lacks < rate as usize / 20, "{rate}: {lacks} samples lack");
            let rough = roughness(&output[rate as usize / 20..], 440.0, rate);
            assert!(rough < 0.001, "{rate}: {rough}");
        }
    }

    #[test]
    fn silence_stays_exactly_silent_and_less_than_needed_is_followed_by_it() {
        let mut to = ToMix::new(44_100).unwrap();
        let mut block = [1.0; BLOCK * 2];
        to.process(&[0.0; 100], &mut block);
        assert!(block.iter().all(|&sample| sample == 0.0));
        to.process(&[], &mut block);
        assert!(block.iter().all(|&sample| sample == 0.0));
        assert!(ToMix::new(RATE).is_none());
    }

    #[test]
    fn meters_get_the_largest_sample_of_each_interval() {
        let mut from = FromMix::new(25, true);
        let mut block = [0.0; BLOCK * 2];
        block[7] = -0.5;
        block[8] = 0.25;
        let mut out = Vec::new();
        from.process(&block, &mut out);
        block.fill(0.0);
        for _ in 0..199 {
            from.process(&block, &mut out);
        }
        assert_eq!(out.len(), 25 * 2);
        assert_eq!(out[..4], [0.25, 0.5, 0.0, 0.0]);
    }
}
