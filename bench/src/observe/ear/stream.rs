//! One stream that a program plays into the ear: its queue, by PulseAudio's rules, and what was
//! fetched of it. From program.rs, to ear.rs. Knows bytes and samples; no sockets and no clock.

use std::collections::VecDeque;

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{FormatEncoding, FormatInfo, Prop, SampleFormat, SampleSpec};

use super::{LOUD, PERIOD_NS, Piece};

/// PulseAudio's own limit of a queue.
pub(super) const QUEUE_BYTES_MAX: usize = 4 << 20;
/// What PulseAudio takes where a program leaves it to the server.
const TARGET_DEFAULT_MS: usize = 2000;
const REQUEST_DEFAULT_MS: usize = 20;

/// Sizes of a queue, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    /// The program keeps so much in the queue.
    target: usize,
    /// Playing begins with so much, and again after an underrun.
    prebuffer: usize,
    /// The program is asked for so much at least.
    request: usize,
}

/// What became of a period.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) has_started: bool,
    pub(super) has_underrun: bool,
    /// Requests to be told of the end, which is reached.
    pub(super) drained: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) owner: u32,
    pub(super) spec: SampleSpec,
    sizes: Sizes,
    queue: VecDeque<u8>,
    /// What the program is to be asked for: what was fetched or thrown away. Credit and not the
    /// level of the queue, because programs write whole buffers whatever they were asked for.
    owed: usize,
    is_corked: bool,
    is_prebuffering: bool,
    is_playing: bool,
    read: u64,
    loud: u64,
    drains: Vec<u32>,
    pieces: Vec<Piece>,
}

impl Stream {
    pub(super) fn new(
        owner: u32,
        spec: SampleSpec,
        wish: &BufferAttr,
        is_corked: bool,
    ) -> Option<Stream> {
        let is_known = sample_at(spec.format, &[0; 4]).is_some()
            && (1..=32).contains(&spec.channels)
            && (4_000..=384_000).contains(&spec.sample_rate);
        if !is_known {
            return None;
        }
        let sizes = Sizes::new(wish, &spec);
        Some(Stream {
            owner,
            spec,
            sizes,
            queue: VecDeque::new(),
            owed: sizes.target,
            is_corked,
            is_prebuffering: sizes.prebuffer > 0,
            is_playing: false,
            read: 0,
            loud: 0,
            drains: Vec::new(),
            pieces: Vec::new(),
        })
    }

    pub(super) fn attributes(&self) -> BufferAttr {
        BufferAttr {
            max_length: QUEUE_BYTES_MAX as u32,
            target_length: self.sizes.target as u32,
            pre_buffering: self.sizes.prebuffer as u32,
            minimum_request_length: self.sizes.request as u32,
            fragment_size: 0,
        }
    }

    pub(super) fn set_attributes(&mut self, wish: &BufferAttr) {
        let sizes = Sizes::new(wish, &self.spec);
        self.owed = (self.owed + sizes.target).saturating_sub(self.sizes.target);
        self.sizes = sizes;
        self.is_prebuffering &= sizes.prebuffer > 0;
    }

    pub(super) fn is_corked(&self) -> bool {
        self.is_corked
    }

    pub(super) fn is_playing(&self) -> bool {
        self.is_playing
    }

    pub(super) fn read_offset(&self) -> i64 {
        self.read.cast_signed()
    }

    pub(super) fn write_offset(&self) -> i64 {
        (self.read + self.queue.len() as u64).cast_signed()
    }

    /// Microseconds of sound in so many bytes.
    pub(super) fn duration_us(&self, bytes: usize) -> u64 {
        bytes as u64 * 1_000_000 / bytes_per_s(&self.spec) as u64
    }

    /// Whether a period has to be fetched.
    pub(super) fn plays(&mut self) -> bool {
        let has_sound = self.readable() > 0 || self.is_playing || !self.drains.is_empty();
        !self.is_corked && has_sound
    }

    /// Adds what the program has written; what exceeds the queue is dropped. `back` bytes that were
    /// written and not fetched yet are replaced.
    pub(super) fn write(&mut self, bytes: &[u8], back: usize) {
        self.queue.truncate(self.queue.len().saturating_sub(back));
        let room = QUEUE_BYTES_MAX.saturating_sub(self.queue.len());
        self.queue.extend(&bytes[..bytes.len().min(room)]);
    }

    pub(super) fn cork(&mut self, cork: bool) {
        self.is_corked = cork;
        if cork {
            self.is_playing = false;
            self.prebuffer();
        }
    }

    pub(super) fn flush(&mut self) {
        self.owed += self.queue.len();
        self.read += self.queue.len() as u64;
        self.queue.clear();
        self.is_playing = false;
        self.prebuffer();
    }

    pub(super) fn prebuffer(&mut self) {
        self.is_prebuffering = self.sizes.prebuffer > 0 && self.drains.is_empty();
    }

    /// Plays what there is, however little.
    pub(super) fn trigger(&mut self) {
        self.is_prebuffering = false;
    }

    /// Plays the rest; true if there is none.
    pub(super) fn drain(&mut self, number: u32) -> bool {
        self.trigger();
        let is_done = self.readable() == 0 && !self.is_playing;
        if !is_done {
            self.drains.push(number);
        }
        is_done
    }

    pub(super) fn take_request(&mut self) -> Option<u32> {
        let least = if self.is_prebuffering { 1 } else { self.sizes.request };
        let bytes = self.owed.min(QUEUE_BYTES_MAX);
        (bytes >= least.max(1)).then(|| {
            self.owed -= bytes;
            bytes as u32
        })
    }

    fn readable(&mut self) -> usize {
        if self.is_prebuffering && self.queue.len() < self.sizes.prebuffer {
            return 0;
        }
        self.is_prebuffering = false;
        self.queue.len() - self.queue.len() % frame_bytes(&self.spec)
    }

    /// Fetches what the card plays in its period with this number, heard from `heard_ns` on.
    pub(super) fn fetch(&mut self, heard_ns: u64, period: u64) -> Fetched {
        let mut fetched = Fetched::default();
        if self.is_corked {
            return fetched;
        }
        let frame = frame_bytes(&self.spec);
        let rate = u64::from(self.spec.sample_rate);
        let until = |period: u64| period * PERIOD_NS * rate / 1_000_000_000;
        let wanted = (until(period + 1) - until(period)) as usize;
        let available = (self.readable() / frame).min(wanted);
        if available > 0 {
            if !self.is_playing {
                fetched.has_started = true;
                let rate = self.spec.sample_rate;
                self.pieces.push(Piece { start_ns: heard_ns, rate, samples: Vec::new() });
            }
            let bytes: Vec<u8> = self.queue.drain(..available * frame).collect();
            self.read += bytes.len() as u64;
            self.owed += bytes.len();
            if let Some(piece) = self.pieces.last_mut() {
                let sample = |frame: &[u8]| sample_at(self.spec.format, frame).unwrap_or(0.0);
                let played = piece.samples.len();
                piece.samples.extend(bytes.chunks_exact(frame).map(sample));
                let new = piece.samples[played..].iter();
                self.loud += new.filter(|sample| sample.abs() > LOUD).count() as u64;
            }
        }
        let was_playing = self.is_playing || fetched.has_started;
        self.is_playing = available == wanted;
        if !self.is_playing {
            if was_playing {
                fetched.has_underrun = self.drains.is_empty();
                self.prebuffer();
            }
            fetched.drained = std::mem::take(&mut self.drains);
        }
        fetched
    }

    /// Since it began.
    pub(super) fn loud_samples(&self) -> u64 {
        self.loud
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }

    /// Forgets what was heard; a piece that goes on begins with what is heard next.
    pub(super) fn clear(&mut self) {
        let going_on = self.pieces.pop().filter(|_| self.is_playing);
        self.pieces.clear();
        self.pieces.extend(going_on.map(|piece| Piece {
            start_ns: piece.time_ns(piece.samples.len()),
            rate: piece.rate,
            samples: Vec::new(),
        }));
    }
}

impl Sizes {
    /// What a program wishes, within limits.
    fn new(wish: &BufferAttr, spec: &SampleSpec) -> Sizes {
        let frame = frame_bytes(spec);
        let ms = |ms: usize| bytes_per_s(spec) * ms / 1000;
        let whole = |bytes: usize| bytes - bytes % frame;
        let wanted = |bytes: u32| (bytes != u32::MAX).then_some(bytes as usize);
        let period = ms(PERIOD_NS as usize / 1_000_000) + frame;
        let target = wanted(wish.target_length).unwrap_or(ms(TARGET_DEFAULT_MS));
        let request = wanted(wish.minimum_request_length)
            .unwrap_or(ms(REQUEST_DEFAULT_MS).min(target / 4))
            .clamp(frame, QUEUE_BYTES_MAX / 4);
        let request = whole(request);
        // With less the queue would be empty before what was asked for can be there.
        let least = (2 * period).max(request + period);
        let target = whole(target.max(least).min(QUEUE_BYTES_MAX / 2)).max(frame);
        let prebuffer_max = (target + frame).saturating_sub(request);
        let prebuffer = wanted(wish.pre_buffering).map_or(prebuffer_max, whole).min(prebuffer_max);
        Sizes { target, prebuffer, request }
    }
}

pub(super) fn frame_bytes(spec: &SampleSpec) -> usize {
    spec.format.bytes_per_sample() * usize::from(spec.channels)
}

fn bytes_per_s(spec: &SampleSpec) -> usize {
    frame_bytes(spec) * spec.sample_rate as usize
}

/// The sample at the beginning of a frame; None of formats that no viewer plays.
fn sample_at(format: SampleFormat, frame: &[u8]) -> Option<f32> {
    let bytes = |count: usize| frame.get(..count);
    let s32 = |value: i32| value as f32 / 2_147_483_648.0;
    Some(match (format, frame) {
        (SampleFormat::U8, [a, ..]) => (f32::from(*a) - 128.0) / 128.0,
        (SampleFormat::S16Le, _) => {
            f32::from(i16::from_le_bytes(bytes(2)?.try_into().ok()?)) / 32_768.0
        }
        (SampleFormat::Float32Le, _) => f32::from_le_bytes(bytes(4)?.try_into().ok()?),
        (SampleFormat::S32Le, _) => s32(i32::from_le_bytes(bytes(4)?.try_into().ok()?)),
        (SampleFormat::S24Le, [a, b, c, ..]) => s32(i32::from_le_bytes([0, *a, *b, *c])),
        (SampleFormat::S24In32Le, _) => s32(i32::from_le_bytes(bytes(4)?.try_into().ok()?) << 8),
        _ => return None,
    })
}

const NAMES: [(SampleFormat, &str); 6] = [
    (SampleFormat::U8, "u8"),
    (SampleFormat::S16Le, "s16le"),
    (SampleFormat::Float32Le, "float32le"),
    (SampleFormat::S32Le, "s32le"),
    (SampleFormat::S24Le, "s24le"),
    (SampleFormat::S24In32Le, "s24-32le"),
];

/// The format that a program offers by properties instead of a sample specification, as GStreamer
/// does: the first that is plain PCM.
pub(super) fn from_offer(offers: &[FormatInfo]) -> Option<SampleSpec> {
    let offer = offers.iter().find(|offer| offer.encoding == FormatEncoding::Pcm)?;
    let text = |prop| {
        let bytes = offer.props.get(prop)?.strip_suffix(b"\0")?;
        std::str::from_utf8(bytes).ok()
    };
    let name = text(Prop::FormatSampleFormat).and_then(|value| value.split('"').nth(1));
    let format = match name {
        Some(name) => NAMES.iter().find(|(_, known)| *known == name)?.0,
        None => SampleFormat::Float32Le,
    };
    // A number, or a list or a range of them.
    let number = |prop, or: u32| -> Option<u32> {
        let Some(value) = text(prop) else { return Some(or) };
        let digits = &value[value.find(|c: char| c.is_ascii_digit())?..];
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let sample_rate = number(Prop::FormatRate, 48_000)?;
    let channels = u8::try_from(number(Prop::FormatChannels, 2)?).ok()?;
    Some(SampleSpec { format, channels, sample_rate })
}

/// A format as programs are told of it.
pub(super) fn to_info(spec: &SampleSpec) -> FormatInfo {
    let mut info = FormatInfo::new(FormatEncoding::Pcm);
    let name = NAMES.iter().find(|(format, _)| *format == spec.format).map_or("", |(_, name)| name);
    let mut set = |prop: Prop, value: String| {
        info.props.set_bytes(prop.to_c_str(), [value.as_bytes(), b"\0"].concat());
    };
    set(Prop::FormatSampleFormat, format!("\"{name}\""));
    set(Prop::FormatRate, spec.sample_rate.to_string());
    set(Prop::FormatChannels, spec.channels.to_string());
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(sample_rate: u32) -> SampleSpec {
        SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate }
    }

    fn stream(rate: u32, prebuffer: u32) -> Stream {
        let wish = BufferAttr {
            target_length: 3840,
            pre_buffering: prebuffer,
            minimum_request_length: 960,
            ..Default::default()
        };
        Stream::new(1, spec(rate), &wish, false).unwrap()
    }

    fn half(frames: usize) -> Vec<u8> {
        [0x00, 0x40].repeat(2 * frames)
    }

    #[test]
    fn a_card_of_another_rate_takes_all_samples_of_each_second() {
        let mut played = stream(44_100, 0);
        played.write(&half(44_100), 0);
        for period in 0..200 {
            played.fetch(1000 + period * PERIOD_NS, period);
        }
        let [piece] = played.pieces() else { panic!("it has no gap") };
        assert_eq!((piece.start_ns, piece.samples.len()), (1000, 44_100));
        assert!(piece.samples.iter().all(|&sample| sample == 0.5));
        assert_eq!(piece.time_ns(44_100), 1000 + 1_000_000_000);
    }

    #[test]
    fn an_underrun_is_a_gap_in_time_and_begins_a_new_piece() {
        let mut played = stream(48_000, 1920);
        assert_eq!(played.take_request(), Some(3840));
        played.write(&half(400), 0);
        assert!(!played.plays(), "it prebuffers");
        played.write(&half(200), 0);
        assert!(played.plays());
        assert!(played.fetch(0, 0).has_started);
        assert!(!played.fetch(PERIOD_NS, 1).has_underrun);
        let fetched = played.fetch(2 * PERIOD_NS, 2);
        assert!(fetched.has_underrun && !played.plays());
        assert_eq!(played.take_request(), Some(2400), "what was fetched, as it prebuffers again");
        played.write(&half(600), 0);
        assert!(played.fetch(9 * PERIOD_NS, 9).has_started);
        let starts: Vec<u64> = played.pieces().iter().map(|piece| piece.start_ns).collect();
        assert_eq!(starts, [0, 9 * PERIOD_NS]);
        assert_eq!(played.pieces()[0].samples.len(), 600);
    }

    #[test]
    fn the_program_is_asked_for_what_was_fetched_and_what_a_flush_has_lost() {
        let mut played = stream(48_000, 0);
        assert_eq!(played.take_request(), Some(3840));
        played.write(&half(1200), 0);
        played.fetch(0, 0);
        assert_eq!(played.take_request(), Some(960));
        assert_eq!(played.take_request(), None);
        played.flush();
        assert_eq!(played.take_request(), Some(3840));
        assert_eq!((played.read_offset(), played.write_offset()), (4800, 4800));
    }

    #[test]
    fn a_drain_ends_once_all_was_fetched() {
        let mut played = stream(48_000, 1920);
        played.write(&half(250), 0);
        assert!(!played.drain(7));
        assert!(played.fetch(0, 0).drained.is_empty());
        let fetched = played.fetch(PERIOD_NS, 1);
        assert_eq!((fetched.drained, fetched.has_underrun), (vec![7], false));
        assert!(played.drain(8) && !played.plays());
    }

    #[test]
    fn a_piece_that_goes_on_keeps_its_time_when_the_past_is_forgotten() {
        let mut played = stream(48_000, 0);
        played.write(&half(720), 0);
        played.fetch(0, 0);
        played.clear();
        played.fetch(PERIOD_NS, 1);
        let [piece] = played.pieces() else { panic!("it goes on") };
        assert_eq!((piece.start_ns, piece.samples.len()), (PERIOD_NS, 240));
    }

    #[test]
    fn what_nobody_can_play_is_refused() {
        let none = BufferAttr::default();
        let refused = |format, channels, sample_rate| {
            Stream::new(1, SampleSpec { format, channels, sample_rate }, &none, false).is_none()
        };
        assert!(refused(SampleFormat::Ulaw, 1, 8000));
        assert!(refused(SampleFormat::S16Le, 0, 48_000));
        assert!(refused(SampleFormat::S16Le, 2, 0));
        assert!(!refused(SampleFormat::Float32Le, 1, 96_000));
        let mut offer = to_info(&spec(44_100));
        assert_eq!(from_offer(&[offer.clone()]), Some(spec(44_100)));
        offer.props.set_bytes(Prop::FormatRate.to_c_str(), b"[ 44100, 48000 ]\0");
        assert_eq!(from_offer(&[offer]), Some(spec(44_100)));
    }
}
