//! A stream that a program plays. From queue.rs, to the mixer. Knows its samples, its volume and
//! whether it plays; not who asked for it, and no clock.

use std::ffi::CString;
use std::time::Duration;

use pulseaudio::protocol::{ChannelMap, ChannelVolume, Props, SampleSpec};

use crate::format::{self, Stereo};
use crate::link::{CHANNELS, RATE};
use crate::queue::Queue;
use crate::resample::{BLOCK, Block, ToMix};

/// What a program has said of a stream, and may change.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) name: CString,
    pub(crate) props: Props,
    pub(crate) spec: SampleSpec,
    pub(crate) map: ChannelMap,
    pub(crate) volume: ChannelVolume,
    pub(crate) muted: bool,
    pub(crate) corked: bool,
}

/// What became of a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// It has sound, or silence that the program wrote.
    pub(crate) is_filled: bool,
    /// The stream begins to play with it.
    pub(crate) has_started: bool,
    /// The program was too late for part of it, and does not drain.
    pub(crate) has_underrun: bool,
    /// Everything was played: the requests to be told are answered now.
    pub(crate) drained: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Playback {
    pub(crate) described: Described,
    pub(crate) queue: Queue,
    gains: Vec<Stereo>,
    resampler: Option<ToMix>,
    /// The resampler holds the end of what was played.
    has_tail: bool,
    is_playing: bool,
    /// It has played, and was not paused or flushed since.
    is_heard: bool,
    /// Bytes since it began to play.
    played: u64,
    /// Bytes that it has played on without sound since an underrun.
    late: usize,
    /// Numbers of the requests to be told once everything was played.
    drains: Vec<u32>,
    // Kept for their memory.
    bytes: Vec<u8>,
    samples: Vec<f32>,
}

/// Requests at a time to be told that a stream has drained; libpulse makes one.
const DRAINS_MAX: usize = 16;
/// A stream whose program prebuffers nothing plays on after an underrun: GStreamer waits until the
/// time that it reads there has reached its end, which the greatest latency (`link::LATENCY_MAX`,
/// 1 s) delays. PulseAudio plays on without end; here a program that has stopped must not keep the
/// timer.
const PLAY_ON_MAX: Duration = Duration::from_secs(2);

impl Playback {
    /// The format was checked.
    pub(crate) fn new(described: Described, queue: Queue) -> Playback {
        let mut playback = Playback {
            gains: Vec::new(),
            resampler: ToMix::new(described.spec.sample_rate),
            described,
            queue,
            has_tail: false,
            is_playing: false,
            is_heard: false,
            played: 0,
            late: 0,
            drains: Vec::new(),
            bytes: Vec::new(),
            samples: Vec::new(),
        };
        playback.update_gains();
        playback
    }

    fn update_gains(&mut self) {
        self.gains = format::gains(&self.described.map, &self.described.volume);
    }

    pub(crate) fn set_volume(&mut self, volume: ChannelVolume) {
        self.described.volume = volume;
        self.update_gains();
    }

    /// The rate was checked.
    pub(crate) fn set_rate(&mut self, rate: u32) {
        self.described.spec.sample_rate = rate;
        self.resampler = ToMix::new(rate);
        self.has_tail = false;
    }

    pub(crate) fn set_corked(&mut self, corked: bool) {
        self.described.corked = corked;
        if corked {
            (self.is_playing, self.is_heard) = (false, false);
            // The program writes no more while it drains: the rest is to be played however short.
            if self.drains.is_empty() {
                self.queue.prebuffer();
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.queue.flush();
        (self.is_playing, self.is_heard) = (false, false);
        self.has_tail = false;
    }

    /// True if the end is reached already.
    pub(crate) fn drain(&mut self, number: u32) -> bool {
        self.queue.trigger();
        let is_done = self.queue.readable() == 0 && !self.has_tail && !self.is_playing;
        if !is_done && self.drains.len() < DRAINS_MAX {
            self.drains.push(number);
        }
        is_done
    }

    pub(crate) fn is_playing(&self) -> bool {
        self.is_playing
    }

    /// Whether a person would say that it plays: also while its program is too late.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard
    }

    pub(crate) fn played(&self) -> u64 {
        self.played
    }

    /// Whether a block has to be made of it.
    pub(crate) fn needs_tick(&mut self) -> bool {
        // A drain is answered by a block, also if a flush has left nothing to play.
        let is_busy = self.is_playing || self.has_tail || !self.drains.is_empty();
        !self.described.corked && (is_busy || self.queue.readable() > 0)
    }

    /// Microseconds of sound in so many of its bytes.
    pub(crate) fn duration(&self, bytes: usize) -> u64 {
        bytes as u64 * 1_000_000 / format::bytes_per_s(&self.described.spec) as u64
    }

    /// Makes the next block; it is changed only if there is something to hear.
    pub(crate) fn render(&mut self, block: &mut Block) -> Rendered {
        let mut rendered = Rendered::default();
        if self.described.corked {
            return rendered;
        }
        let frame = format::frame_bytes(&self.described.spec);
        let needed = self.resampler.as_ref().map_or(BLOCK, ToMix::needed);
        let available = (self.queue.readable() / frame).min(needed);
        if available > 0 {
            rendered.has_started = !self.is_playing;
            if rendered.has_started {
                (self.played, self.is_heard) = (0, true);
            }
            self.bytes.clear();
            self.queue.read(available * frame, &mut self.bytes);
            self.played += self.bytes.len() as u64;
            self.late = 0;
            self.samples.clear();
            format::to_stereo(
                self.described.spec.format,
                &self.gains,
                &self.bytes,
                &mut self.samples,
            );
            self.fill(block);
            rendered.is_filled = true;
            self.has_tail = self.resampler.is_some();
        } else if std::mem::take(&mut self.has_tail) {
            self.samples.clear();
            self.fill(block);
            rendered.is_filled = true;
        }
        let was_playing = self.is_playing || rendered.has_started;
        self.is_playing = available == needed;
        if !self.is_playing {
            if was_playing {
                rendered.has_underrun = self.late == 0 && self.drains.is_empty();
                self.is_playing = self.play_on((needed - available) * frame);
            }
            if was_playing && !self.is_playing {
                self.queue.underrun();
            }
            if !self.has_tail {
                rendered.drained = std::mem::take(&mut self.drains);
                self.is_heard &= rendered.drained.is_empty();
            }
        }
        rendered
    }

    /// Whether an underrun does not end playing.
    fn play_on(&mut self, bytes: usize) -> bool {
        let most = PLAY_ON_MAX.as_secs() as usize * format::bytes_per_s(&self.described.spec);
        if !self.drains.is_empty() || self.late >= most || !self.queue.play_on(bytes) {
            return false;
        }
        self.late += bytes;
        self.played += bytes as u64;
        true
    }

    /// Makes a block of `samples`.
    fn fill(&mut self, block: &mut Block) {
        match &mut self.resampler {
            Some(resampler) => resampler.process(&self.samples, block),
            None => {
                let (filled, rest) = block.split_at_mut(self.samples.len());
                filled.copy_from_slice(&self.samples);
                rest.fill(0.0);
            }
        }
        if self.described.muted {
            block.fill(0.0);
        }
    }
}

/// Bytes that `ticks` blocks are made of.
pub(crate) fn block_bytes(spec: &SampleSpec, blocks: usize) -> usize {
    let frames = (blocks * BLOCK * spec.sample_rate as usize).div_ceil(RATE as usize);
    frames * format::frame_bytes(spec)
}

const _: () = assert!(CHANNELS == 2, "samples without a resampler are copied as they are");

#[cfg(test)]
mod tests {
    use pulseaudio::protocol::SampleFormat;

    use super::*;
    use crate::message::Seek;
    use crate::queue::Sizes;

    fn playback(rate: u32, prebuffer: usize) -> Playback {
        let spec = SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate: rate };
        let sizes = Sizes { most: 1 << 20, target: 19_200, prebuffer, request: 960 };
        let described = Described {
            name: c"test".into(),
            props: Props::new(),
            spec,
            map: ChannelMap::stereo(),
            volume: ChannelVolume::norm(2),
            muted: false,
            corked: false,
        };
        Playback::new(described, Queue::new(sizes, 4, 0))
    }

    fn write(playback: &mut Playback, frames: usize) {
        let bytes = [0x00, 0x40].repeat(frames * 2);
        playback.queue.write(Seek::Relative, 0, &bytes).unwrap();
    }

    #[test]
    fn a_stream_starts_plays_and_runs_dry() {
        let mut stream = playback(RATE, 4);
        let mut block = [0.0; BLOCK * 2];
        assert!(!stream.needs_tick());
        write(&mut stream, BLOCK + 10);
        assert!(stream.needs_tick());
        let rendered = stream.render(&mut block);
        assert!(rendered.is_filled && rendered.has_started && !rendered.has_underrun);
        assert!(block.iter().all(|&sample| sample == 0.5));
        let rendered = stream.render(&mut block);
        assert!(rendered.is_filled && !rendered.has_started && rendered.has_underrun);
        assert_eq!((block[19], block[20]), (0.5, 0.0));
        // Silent and asleep, until something is written.
        assert!(!stream.needs_tick());
        assert_eq!(stream.render(&mut block), Rendered::default());
        write(&mut stream, 1);
        assert!(stream.render(&mut block).has_started);
    }

    #[test]
    fn without_prebuffering_time_goes_on_after_an_underrun_for_as_long_as_a_clock_may_need_it() {
        let mut stream = playback(RATE, 0);
        let mut block = [0.0; BLOCK * 2];
        write(&mut stream, BLOCK + 10);
        assert!(stream.render(&mut block).has_started);
        assert!(stream.render(&mut block).has_underrun);
        for blocks in 3..=200 {
            assert!(stream.needs_tick());
            assert_eq!(stream.render(&mut block), Rendered::default(), "it is told once");
            assert_eq!(stream.queue.read_offset(), blocks * BLOCK as i64 * 4);
        }
        assert_eq!(stream.played(), 200 * BLOCK as u64 * 4);
        // What belonged before is too late; what follows is heard, and is no new start.
        write(&mut stream, 200 * BLOCK);
        let rendered = stream.render(&mut block);
        assert!(rendered.is_filled && !rendered.has_started);
        let asked = std::iter::from_fn(|| stream.queue.take_request()).sum::<u32>();
        assert!(asked as usize >= 200 * BLOCK * 4);
        let blocks = std::iter::from_fn(|| {
            let is_awake = stream.needs_tick();
            stream.render(&mut block);
            is_awake.then_some(())
        });
        assert!((400..420).contains(&blocks.count()), "2 s, then it sleeps");
        // A drain ends at once.
        write(&mut stream, 700 * BLOCK);
        while !stream.render(&mut block).has_underrun {}
        assert!(!stream.drain(1));
        assert_eq!(stream.render(&mut block).drained, [1]);
        assert!(!stream.needs_tick());
    }

    #[test]
    fn an_underrun_prebuffers_again_and_a_drain_does_not_wait_for_it() {
        let mut stream = playback(RATE, 4 * BLOCK * 4);
        let mut block = [0.0; BLOCK * 2];
        write(&mut stream, 4 * BLOCK);
        (0..4).for_each(|_| assert!(stream.render(&mut block).is_filled));
        assert!(stream.render(&mut block).has_underrun);
        write(&mut stream, BLOCK);
        assert!(!stream.needs_tick() && !stream.render(&mut block).is_filled);
        assert!(!stream.drain(7));
        let rendered = stream.render(&mut block);
        assert!(rendered.is_filled && rendered.drained.is_empty());
        let rendered = stream.render(&mut block);
        assert_eq!((rendered.drained, rendered.has_underrun), (vec![7], false));
        assert!(stream.drain(8), "there is nothing left");
    }

    #[test]
    fn a_drain_ends_also_if_the_stream_is_paused_or_flushed_meanwhile() {
        let mut stream = playback(RATE, 4 * BLOCK * 4);
        let mut block = [0.0; BLOCK * 2];
        write(&mut stream, 5 * BLOCK);
        assert!(stream.render(&mut block).has_started);
        assert!(!stream.drain(1));
        (0..2).for_each(|_| assert!(stream.render(&mut block).is_filled));
        stream.set_corked(true);
        assert!(!stream.needs_tick());
        stream.set_corked(false);
        (0..2).for_each(|_| assert!(stream.needs_tick() && stream.render(&mut block).is_filled));
        assert_eq!(stream.render(&mut block).drained, [1]);
        write(&mut stream, 5 * BLOCK);
        assert!(!stream.drain(2));
        stream.flush();
        assert!(stream.needs_tick());
        assert_eq!(stream.render(&mut block).drained, [2]);
        assert!(!stream.needs_tick());
    }

    #[test]
    fn what_a_resampler_holds_is_played_before_a_drain_ends() {
        let mut stream = playback(44_100, 0);
        let mut block = [0.0; BLOCK * 2];
        write(&mut stream, 4410);
        assert!(!stream.drain(1));
        let (mut sum, mut blocks) = (0.0, 0);
        loop {
            let rendered = stream.render(&mut block);
            blocks += 1;
            sum += block.iter().sum::<f32>() / 2.0;
            if !rendered.drained.is_empty() {
                break;
            }
            assert!(blocks < 50);
        }
        // 0.1 s at 0.5.
        assert!((2390.0..2410.0).contains(&sum), "{sum}");
        assert!(!stream.needs_tick());
    }

    #[test]
    fn a_corked_stream_keeps_its_sound_and_a_muted_one_plays_silence() {
        let mut stream = playback(RATE, 0);
        let mut block = [0.0; BLOCK * 2];
        write(&mut stream, 2 * BLOCK);
        stream.set_corked(true);
        assert!(!stream.needs_tick());
        assert!(!stream.render(&mut block).is_filled);
        stream.set_corked(false);
        stream.described.muted = true;
        assert!(stream.render(&mut block).is_filled);
        assert!(block.iter().all(|&sample| sample == 0.0));
        stream.described.muted = false;
        stream.set_volume(ChannelVolume::muted(2));
        assert!(stream.render(&mut block).is_filled);
        assert!(block.iter().all(|&sample| sample == 0.0));
    }
}
