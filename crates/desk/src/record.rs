//! A stream that a program records. From the mixer, or from the microphone, to the program. Knows
//! samples and pieces; not who asked for it, and no clock.

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{ChannelVolume, SampleFormat};

use crate::format;
use crate::playback::Described;
use crate::resample::{Block, FromMix};

/// Longest piece in which sound is sent.
const FRAGMENT_BYTES_MAX: usize = 64 << 10;
/// The piece if a program leaves it to the server.
const FRAGMENT_DEFAULT_MS: usize = 20;

/// Where sound comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Everything that is played.
    Monitor,
    /// The viewer's microphone.
    Microphone,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) described: Described,
    pub(crate) source: Source,
    /// Only this stream of those that are played.
    pub(crate) only: Option<u32>,
    fragment: usize,
    /// It shows how loud it is, and keeps nothing: mixers open such streams of each device.
    is_meter: bool,
    resampler: FromMix,
    gains: Vec<f32>,
    pending: Vec<u8>,
    /// Bytes that were sent.
    sent: i64,
    samples: Vec<f32>,
}

/// The size of pieces that a program wishes, within limits; whole frames.
pub(crate) fn fragment(wish: &BufferAttr, frame: usize, bytes_per_s: usize) -> usize {
    let bytes = match wish.fragment_size {
        u32::MAX => bytes_per_s * FRAGMENT_DEFAULT_MS / 1000,
        bytes => bytes as usize,
    };
    let bytes = bytes.clamp(frame, FRAGMENT_BYTES_MAX);
    bytes - bytes % frame
}

impl Record {
    /// The format was checked.
    pub(crate) fn new(
        described: Described,
        source: Source,
        only: Option<u32>,
        fragment: usize,
        peaks: bool,
    ) -> Record {
        let mut record = Record {
            resampler: FromMix::new(described.spec.sample_rate, peaks),
            described,
            source,
            only,
            fragment,
            is_meter: peaks,
            gains: Vec::new(),
            pending: Vec::new(),
            sent: 0,
            samples: Vec::new(),
        };
        record.update_gains();
        record
    }

    fn update_gains(&mut self) {
        let muted = self.described.muted;
        let gain = |volume: &pulseaudio::protocol::Volume| volume.to_linear();
        self.gains = self.described.volume.channels().iter().map(gain).collect();
        if muted {
            self.gains = vec![0.0];
        }
    }

    pub(crate) fn set_volume(&mut self, volume: ChannelVolume) {
        self.described.volume = volume;
        self.update_gains();
    }

    pub(crate) fn set_muted(&mut self, muted: bool) {
        self.described.muted = muted;
        self.update_gains();
    }

    /// The rate was checked.
    pub(crate) fn set_rate(&mut self, rate: u32) {
        self.described.spec.sample_rate = rate;
        self.resampler = FromMix::new(rate, self.is_meter);
    }

    pub(crate) fn set_fragment(&mut self, bytes: usize) {
        self.fragment = bytes;
    }

    pub(crate) fn fragment(&self) -> usize {
        self.fragment
    }

    pub(crate) fn set_corked(&mut self, corked: bool) {
        self.described.corked = corked;
    }

    pub(crate) fn flush(&mut self) {
        self.pending.clear();
    }

    pub(crate) fn sent(&self) -> i64 {
        self.sent
    }

    /// Bytes that wait for a piece to be full.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn needs_tick(&self) -> bool {
        !self.described.corked
    }

    /// It is a reason to open the viewer's microphone.
    pub(crate) fn needs_microphone(&self) -> bool {
        let is_recording = !self.described.corked && !self.is_meter;
        is_recording && self.source == Source::Microphone && self.only.is_none()
    }

    /// Microseconds of sound in so many of its bytes.
    pub(crate) fn duration(&self, bytes: usize) -> u64 {
        bytes as u64 * 1_000_000 / format::bytes_per_s(&self.described.spec) as u64
    }

    /// Records a block.
    pub(crate) fn push(&mut self, block: &Block) {
        if self.described.corked {
            return;
        }
        self.samples.clear();
        self.resampler.process(block, &mut self.samples);
        format::from_stereo(&self.described.spec, &self.gains, &self.samples, &mut self.pending);
    }

    /// Passes on each full piece.
    pub(crate) fn take_fragments(&mut self, mut send: impl FnMut(&[u8])) {
        let whole = self.pending.len() - self.pending.len() % self.fragment;
        self.pending[..whole].chunks(self.fragment).for_each(&mut send);
        self.pending.drain(..whole);
        self.sent += whole as i64;
    }
}

/// Formats that programs can record in.
pub(crate) fn is_recordable(format: SampleFormat) -> bool {
    !matches!(format, SampleFormat::Alaw | SampleFormat::Ulaw | SampleFormat::Invalid)
}

#[cfg(test)]
mod tests {
    use pulseaudio::protocol::{Props, SampleSpec};

    use super::*;
    use crate::link::RATE;
    use crate::resample::BLOCK;

    fn record(channels: u8, fragment: usize) -> Record {
        let described = Described {
            name: c"test".into(),
            props: Props::new(),
            spec: SampleSpec { format: SampleFormat::S16Le, channels, sample_rate: RATE },
            map: format::default_map(channels),
            volume: ChannelVolume::norm(channels),
            muted: false,
            corked: false,
        };
        Record::new(described, Source::Monitor, None, fragment, false)
    }

    #[test]
    fn sound_is_passed_on_in_pieces_of_the_wished_size() {
        let mut record = record(1, 700);
        let mut pieces = Vec::new();
        for _ in 0..4 {
            record.push(&[0.5; BLOCK * 2]);
            record.take_fragments(|piece| pieces.push(piece.to_vec()));
        }
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|piece| *piece == [0x00, 0x40].repeat(350)));
        assert_eq!((record.sent(), record.pending()), (1400, 520));
        record.set_muted(true);
        record.flush();
        record.push(&[0.5; BLOCK * 2]);
        record.set_corked(true);
        record.push(&[0.5; BLOCK * 2]);
        record.set_fragment(2);
        record.take_fragments(|piece| assert_eq!(piece, [0, 0]));
        assert_eq!(record.sent(), 1400 + 480);
    }

    #[test]
    fn pieces_have_limits() {
        let fragment = |bytes| {
            let wish = BufferAttr { fragment_size: bytes, ..Default::default() };
            fragment(&wish, 6, 288_000)
        };
        assert_eq!(fragment(u32::MAX), 5760);
        assert_eq!((fragment(0), fragment(13), fragment(1 << 30)), (6, 12, 65_532));
    }
}
