//! All that is played, as one: volume, clipping, and frames for viewers. From playback.rs, to
//! record.rs and link.rs. Knows samples and when they are due; no streams, sockets or clock.

use pulseaudio::protocol::ChannelVolume;

use crate::link::{CHANNELS, FRAME_SAMPLES, Frame, Micros};
use crate::resample::{BLOCK, Block};

/// Above this the mix is bent towards full scale, while it is too loud.
const KNEE: f32 = 0.9;
/// Blocks after the last that was too loud for which the mix stays bent: 0.5 s, so that it does not
/// change from block to block.
const BENT_BLOCKS: u32 = 100;
/// Silent frames that are sent before "silence follows": 100 ms. A codec's filters end within them.
const SILENT_FRAMES: u32 = 10;

/// The volume of everything, and soft clipping.
#[derive(Debug)]
pub(crate) struct Output {
    volume: ChannelVolume,
    muted: bool,
    bent: u32,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { volume: ChannelVolume::norm(CHANNELS as u8), muted: false, bent: 0 }
    }

    pub(crate) fn volume(&self) -> ChannelVolume {
        self.volume
    }

    pub(crate) fn set_volume(&mut self, volume: ChannelVolume) {
        self.volume = volume;
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.muted
    }

    pub(crate) fn set_muted(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Turns a sum of streams into what is heard. What does not exceed full scale is not changed
    /// but for the volume.
    pub(crate) fn finish(&mut self, block: &mut Block) {
        if self.muted {
            block.fill(0.0);
            return;
        }
        let volumes = self.volume.channels();
        let gain = |channel: usize| {
            volumes.get(channel).or(volumes.first()).map_or(1.0, |volume| volume.to_linear())
        };
        let gains = [gain(0), gain(1)];
        if gains != [1.0, 1.0] {
            for frame in block.as_chunks_mut::<CHANNELS>().0 {
                frame[0] *= gains[0];
                frame[1] *= gains[1];
            }
        }
        let peak = block.iter().fold(0.0f32, |peak, sample| peak.max(sample.abs()));
        self.bent = if peak > 1.0 { BENT_BLOCKS } else { self.bent.saturating_sub(1) };
        if self.bent > 0 {
            block.iter_mut().for_each(|sample| *sample = bend(*sample));
        }
    }
}

/// The identity below the knee, then smoothly towards 1.
fn bend(sample: f32) -> f32 {
    let over = sample.abs() - KNEE;
    if over <= 0.0 {
        return sample;
    }
    (KNEE + (1.0 - KNEE) * (over / (1.0 - KNEE)).tanh()).copysign(sample)
}

/// Puts blocks together to frames; silence is left out.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// When the first of `samples` is due.
    time: Micros,
    samples: Vec<f32>,
    /// Frames are sent: something can be heard, or was heard lately.
    is_sending: bool,
    silent: u32,
    has_gap: bool,
}

impl Frames {
    /// Frames have to be made of what follows, even if it is silent.
    pub(crate) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Time was left out.
    pub(crate) fn skip(&mut self) {
        self.samples.clear();
        self.has_gap |= self.is_sending;
    }

    /// Nobody listens any more.
    pub(crate) fn stop(&mut self) {
        self.skip();
        self.is_sending = false;
    }

    /// Adds a block that is due at `time`, right after the last one.
    pub(crate) fn push(&mut self, block: &Block, time: Micros, frames: &mut Vec<Frame>) {
        if self.samples.is_empty() {
            self.time = time;
        }
        self.samples.extend(block);
        if block.iter().any(|&sample| sample != 0.0) {
            self.is_sending = true;
            self.silent = 0;
        }
        if self.samples.len() < FRAME_SAMPLES * CHANNELS {
            return;
        }
        if !self.is_sending {
            self.samples.clear();
            return;
        }
        let next = Vec::with_capacity(FRAME_SAMPLES * CHANNELS);
        let samples = std::mem::replace(&mut self.samples, next);
        if samples.iter().all(|&sample| sample == 0.0) {
            self.silent += 1;
        }
        let silence_follows = self.silent == SILENT_FRAMES;
        self.is_sending = !silence_follows;
        let samples = samples.into_boxed_slice().try_into().expect("it has the size of a frame");
        let discontinuity = std::mem::take(&mut self.has_gap);
        frames.push(Frame { time: self.time, silence_follows, discontinuity, samples });
    }
}

const _: () = assert!(FRAME_SAMPLES.is_multiple_of(BLOCK), "frames consist of blocks");

#[cfg(test)]
mod tests {
    use pulseaudio::protocol::Volume;

    use super::*;

    #[test]
    fn what_fits_is_not_changed_and_what_does_not_is_bent() {
        let mut output = Output::new();
        let mut block = [1.0; BLOCK * 2];
        block[3] = -0.97;
        let before = block;
        output.finish(&mut block);
        assert_eq!(block, before);
        block[0] = 1.7;
        block[1] = -40.0;
        block[2] = 0.5;
        output.finish(&mut block);
        assert!(block.iter().all(|sample| sample.abs() <= 1.0));
        assert_eq!((block[1], block[2]), (-1.0, 0.5));
        assert!(block[0] > 0.99);
        // A larger sample stays larger, and the next blocks are bent alike.
        let bent: Vec<f32> = (0..100).map(|n| bend(n as f32 * 0.02)).collect();
        assert!(bent.is_sorted() && bend(KNEE + 0.001) < KNEE + 0.001);
        let mut block = [0.95; BLOCK * 2];
        output.finish(&mut block);
        assert_eq!(block[0], bend(0.95));
        (0..BENT_BLOCKS).for_each(|_| output.finish(&mut [0.0; BLOCK * 2]));
        let mut block = [0.95; BLOCK * 2];
        output.finish(&mut block);
        assert_eq!(block[0], 0.95);
    }

    #[test]
    fn the_volume_of_everything_is_applied() {
        let mut output = Output::new();
        let mut volume = ChannelVolume::empty();
        volume.push(Volume::NORM);
        volume.push(Volume::from_u32_clamped(0x8000));
        output.set_volume(volume);
        let mut block = [0.8; BLOCK * 2];
        output.finish(&mut block);
        assert_eq!(block[..2], [0.8, 0.1]);
        output.set_muted(true);
        output.finish(&mut block);
        assert!(block.iter().all(|&sample| sample == 0.0));
    }

    #[test]
    fn silence_is_announced_and_not_sent() {
        let (mut made, mut frames) = (Frames::default(), Vec::new());
        let (sound, silence) = ([0.5; BLOCK * 2], [0.0; BLOCK * 2]);
        let mut time = 0;
        let mut push = |made: &mut Frames, frames: &mut Vec<Frame>, block: &Block| {
            made.push(block, time, frames);
            time += 5_000;
        };
        (0..10).for_each(|_| push(&mut made, &mut frames, &silence));
        assert!(frames.is_empty() && !made.is_sending());
        // Sound that begins within a frame.
        push(&mut made, &mut frames, &silence);
        push(&mut made, &mut frames, &sound);
        assert_eq!((frames.len(), frames[0].time), (1, 50_000));
        assert_eq!((frames[0].samples[479], frames[0].samples[480]), (0.0, 0.5));
        (0..2 * SILENT_FRAMES).for_each(|_| push(&mut made, &mut frames, &silence));
        assert_eq!(frames.len(), 11);
        assert!(frames[..10].iter().all(|frame| !frame.silence_follows));
        assert!(frames[10].silence_follows && !made.is_sending());
        assert!(frames.windows(2).all(|pair| pair[1].time - pair[0].time == 10_000));
        (0..10).for_each(|_| push(&mut made, &mut frames, &silence));
        assert_eq!(frames.len(), 11);
        assert!(frames.iter().all(|frame| !frame.discontinuity));
        (0..2).for_each(|_| push(&mut made, &mut frames, &sound));
        made.skip();
        (0..2).for_each(|_| push(&mut made, &mut frames, &sound));
        assert!(!frames[11].discontinuity && frames[12].discontinuity);
    }
}
