//! From an encoder to one connection's messages, of a session's sound or of a viewer's microphone:
//! frames wait here for the path, a few at most, and leave with repeats of those before them.
//! Knows coded frames and how many bytes they may take; never samples or sockets.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::limits::{SOUND_BYTES_MAX, SOUND_FRAMES_MAX};
use thinc_protocol::microphone::MicrophonePacket;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::{SoundFormat, SoundFrame, SoundPacket};
use thinc_protocol::viewer::ViewerMessage;

use crate::quality::{Carriage, Quality};
use crate::samples_us;

/// Packets that wait for a path that takes datagrams: the newest is 20 to 40 ms old.
const WAITING_MAX: usize = 2;
/// Sound that waits for the stream: a stall costs its own length, and never becomes delay.
const STREAM_WAIT_MAX: Micros = 60_000;
/// Sound may take so much of the path's rate, over so long: behind it an input response waits 3 ms
/// at 1 Mbit/s.
const SHARE_PERCENT: u64 = 15;
const SHARE_TIME: Micros = 100_000;
/// Least that it may take over that time: one packet. 96 kbit/s with everything are beneath any
/// path that shows a desktop.
const SHARE_BYTES_MIN: u64 = SOUND_BYTES_MAX as u64;
/// Frames kept for repeats: as far back as one may be.
const HISTORY: usize = 3;

/// A coded frame, which all viewers of one quality share.
#[derive(Clone, Debug)]
pub struct CodedFrame {
    /// How it is coded.
    pub quality: Quality,
    /// When its first sample was played, on the session's clock.
    pub time: Micros,
    /// Not empty, and no longer than a packet takes.
    pub bytes: Arc<[u8]>,
    /// Nothing follows for now.
    pub last: bool,
    /// It does not continue the frame before it.
    pub discontinuity: bool,
}

/// What the path takes now.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Longest message.
    pub bytes: usize,
    /// The path's rate in bytes a second, once it is measured.
    pub rate: Option<u64>,
}

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    /// A session, what its programs play.
    #[default]
    Session,
    /// A viewer, what its microphone hears.
    Viewer,
}

/// The packets of one connection.
#[derive(Debug, Default)]
pub struct Sender {
    from: From,
    /// That of the first format.
    generation: u8,
    format: Option<SoundFormat>,
    /// The viewer was not told of it yet.
    is_format_new: bool,
    number: u32,
    waiting: VecDeque<CodedFrame>,
    /// The newest packets' numbers and frames, as far as they continue one another.
    history: VecDeque<(u32, Arc<[u8]>)>,
    /// Frames were dropped, or none were wanted: the next continues nothing.
    is_broken: bool,
    /// Bytes that were sent and still count against the share, at `spent_at`.
    spent: u64,
    spent_at: Micros,
    dropped: u64,
}

impl Sender {
    /// The packets of a viewer's microphone that answer the want of this generation.
    pub fn of_microphone(generation: u8) -> Sender {
        Sender { from: From::Viewer, generation, ..Sender::default() }
    }

    /// A frame to be sent. What waits for too long is dropped, the oldest first.
    pub fn push(&mut self, frame: CodedFrame, carriage: Carriage) {
        let length = samples_us(u64::from(frame.quality.frame));
        self.waiting.push_back(frame);
        let most = match carriage {
            Carriage::Datagrams => WAITING_MAX,
            Carriage::Stream => (STREAM_WAIT_MAX / length.max(1)).max(1) as usize,
        };
        while self.waiting.len() > most {
            self.waiting.pop_front();
            self.dropped += 1;
            self.is_broken = true;
        }
    }

    /// The viewer wants no sound for now.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.is_broken = true;
    }

    /// Something waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Frames that were dropped because the path took none.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The format of what is sent next, if the viewer does not know it; it belongs on the stream.
    pub fn poll_format(&mut self) -> Option<SoundFormat> {
        self.wants_format();
        std::mem::take(&mut self.is_format_new).then_some(self.format).flatten()
    }

    /// The viewer is to be told of the format first ([`Sender::poll_format`]).
    pub fn wants_format(&mut self) -> bool {
        if let Some(frame) = self.waiting.front() {
            let quality = frame.quality;
            self.set_format(&quality);
        }
        self.is_format_new
    }

    fn set_format(&mut self, quality: &Quality) {
        let same = |format: &SoundFormat| {
            (format.codec, format.channels, format.frame)
                == (quality.codec(), quality.channels, quality.frame)
        };
        if self.format.as_ref().is_some_and(same) {
            return;
        }
        self.format = Some(SoundFormat {
            generation: self
                .format
                .map_or(self.generation, |format| format.generation.wrapping_add(1)),
            codec: quality.codec(),
            channels: quality.channels,
            frame: quality.frame,
        });
        self.is_format_new = true;
        // A repeat has the length of its packet's own frame.
        self.history.clear();
    }

    fn share(rate: u64) -> u64 {
        (rate * SHARE_PERCENT / 100 * SHARE_TIME / 1_000_000).max(SHARE_BYTES_MIN)
    }

    /// What of the share is left, in bytes.
    fn left(&mut self, rate: Option<u64>, now: Micros) -> usize {
        let Some(rate) = rate else { return usize::MAX };
        let share = Self::share(rate);
        let over = now.saturating_sub(self.spent_at);
        let back = share.saturating_mul(over) / SHARE_TIME;
        self.spent = self.spent.saturating_sub(back).min(share);
        self.spent_at = now;
        (share - self.spent) as usize
    }

    /// When there is room again for what waits, if only the share is in the way.
    pub fn deadline(&self, rate: Option<u64>) -> Option<Micros> {
        let (frame, rate) = (self.waiting.front()?, rate?);
        let share = Self::share(rate);
        let least = SoundPacket::frame_overhead(frame.bytes.len()) + frame.bytes.len();
        let missing = (self.spent + least as u64 + HEAD_BYTES_MAX as u64).saturating_sub(share);
        (missing > 0).then(|| self.spent_at + missing * SHARE_TIME / share + 1)
    }

    /// Appends the next packet, with repeats of the frames that are `backs` before it as far as
    /// there is room; returns its length, or None: nothing waits, or the path takes nothing now.
    /// Nothing is sent before its format was polled.
    pub fn poll(
        &mut self,
        room: Room,
        backs: &[u8],
        now: Micros,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        if self.wants_format() {
            return None;
        }
        let generation = self.format?.generation;
        let left = self.left(room.rate, now).min(room.bytes).min(SOUND_BYTES_MAX);
        let frame = self.waiting.front()?;
        let mut bytes =
            HEAD_BYTES_MAX + SoundPacket::frame_overhead(frame.bytes.len()) + frame.bytes.len();
        if bytes > left {
            return None;
        }
        let frame = self.waiting.pop_front()?;
        let discontinuity = frame.discontinuity || std::mem::take(&mut self.is_broken);
        if discontinuity {
            self.history.clear();
        }
        let number = self.number;
        let mut frames = vec![SoundFrame { back: 0, bytes: &frame.bytes }];
        for &back in backs.iter().take(SOUND_FRAMES_MAX - 1) {
            let earlier =
                self.history.iter().find(|&&(at, _)| number.checked_sub(at) == Some(back.into()));
            let Some((_, earlier)) = earlier else { continue };
            let more = SoundPacket::frame_overhead(earlier.len()) + earlier.len();
            if bytes + more <= left {
                bytes += more;
                frames.push(SoundFrame { back, bytes: earlier });
            }
        }
        let before = out.len();
        let packet = SoundPacket {
            generation,
            number,
            time: frame.time,
            silence_follows: frame.last,
            discontinuity,
            frames,
        };
        match self.from {
            From::Session => SessionMessage::Sound(packet).encode(out),
            From::Viewer => {
                ViewerMessage::Microphone(MicrophonePacket::new(&packet)).encode(out);
            }
        }
        let length = out.len() - before;
        self.spent += length as u64;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((number, frame.bytes));
        self.number = self.number.wrapping_add(1);
        if frame.last {
            // What comes after silence continues nothing.
            self.is_broken = true;
        }
        Some(length)
    }
}

/// Kind, length, and the fields before the frames.
const HEAD_BYTES_MAX: usize = SOUND_BYTES_MAX - SoundPacket::FRAMES_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_protocol::framing::MessageFrame;

    const QUALITY: Quality = Quality { plain: false, frame: 480, bitrate: 96_000, channels: 2 };
    const ROOM: Room = Room { bytes: 1200, rate: None };

    fn frame(n: u64, bytes: usize) -> CodedFrame {
        let (time, bytes) = (n * 10_000, vec![n as u8; bytes].into());
        CodedFrame { quality: QUALITY, time, bytes, last: false, discontinuity: false }
    }

    fn poll(sender: &mut Sender, room: Room, backs: &[u8], now: Micros) -> Option<String> {
        let mut out = Vec::new();
        sender.poll_format();
        let length = sender.poll(room, backs, now, &mut out)?;
        assert_eq!(length, out.len());
        assert!(out.len() <= room.bytes);
        let message = SessionMessage::decode(&MessageFrame::from_datagram(&out).unwrap()).unwrap();
        let SessionMessage::Sound(packet) = message else { panic!("{message:?}") };
        let frames: Vec<String> = packet
            .frames
            .iter()
            .map(|frame| format!("{}:{}", frame.back, frame.bytes[0]))
            .collect();
        let broken = if packet.discontinuity { " broken" } else { "" };
        Some(format!("{} {}{broken}", packet.number, frames.join(" ")))
    }

    #[test]
    fn packets_repeat_what_continues_and_fits() {
        let mut sender = Sender::default();
        let mut next = |n: u64, bytes: usize, backs: &[u8], room: usize| {
            sender.push(frame(n, bytes), Carriage::Datagrams);
            poll(&mut sender, Room { bytes: room, rate: None }, backs, 0).unwrap()
        };
        assert_eq!(next(0, 100, &[1], 1200), "0 0:0");
        assert_eq!(next(1, 100, &[1], 1200), "1 0:1 1:0");
        assert_eq!(next(2, 100, &[1, 3], 1200), "2 0:2 1:1");
        assert_eq!(next(3, 100, &[1, 3], 1200), "3 0:3 1:2 3:0");
        assert_eq!(next(4, 500, &[1, 3], 700), "4 0:4 1:3");
        assert_eq!(next(5, 100, &[1, 3], 500), "5 0:5 3:2");
    }

    #[test]
    fn what_waits_too_long_is_dropped_and_said_to_be() {
        let mut sender = Sender::default();
        for n in 0..5 {
            sender.push(frame(n, 100), Carriage::Datagrams);
        }
        assert_eq!(sender.dropped(), 3);
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "0 0:3 broken");
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "1 0:4 1:3");
        assert_eq!(poll(&mut sender, ROOM, &[1], 0), None);
        for n in 5..20 {
            sender.push(frame(n, 100), Carriage::Stream);
        }
        assert_eq!(poll(&mut sender, ROOM, &[], 0).unwrap(), "2 0:14 broken");
    }

    #[test]
    fn it_takes_its_share_of_a_slow_path_and_no_more() {
        let mut sender = Sender::default();
        // 1 Mbit/s: 18.75 kB a second.
        let room = Room { bytes: 1200, rate: Some(125_000) };
        let (mut bytes, mut now) = (0, 0);
        for n in 0..1000 {
            now = n * 10_000;
            sender.push(frame(n, 300), Carriage::Datagrams);
            let mut out = Vec::new();
            sender.poll_format();
            while let Some(length) = sender.poll(room, &[1], now, &mut out) {
                bytes += length as u64;
            }
            let due = sender.deadline(room.rate);
            assert_eq!(due.is_some(), sender.has_waiting(), "{n}");
            assert!(due.is_none_or(|due| due > now && due < now + SHARE_TIME));
        }
        let most = (now + SHARE_TIME) * 18_750 / 1_000_000;
        assert!((most * 9 / 10..=most).contains(&bytes), "{bytes} of {most}");
    }

    #[test]
    fn a_microphone_answers_the_want_of_its_generation() {
        let mut sender = Sender::of_microphone(255);
        for n in 0..2 {
            sender.push(frame(n, 100), Carriage::Datagrams);
            let mut out = Vec::new();
            let _ = sender.poll_format();
            assert_eq!(sender.poll(ROOM, &[1], 0, &mut out), Some(out.len()));
            let frame = MessageFrame::from_datagram(&out).unwrap();
            let Ok(ViewerMessage::Microphone(sent)) = ViewerMessage::decode(&frame) else {
                panic!("it is a viewer's message")
            };
            let packet = sent.packet();
            assert_eq!((packet.generation, packet.number), (255, n as u32));
            assert_eq!(packet.frames.len(), 1 + n as usize);
        }
    }

    #[test]
    fn another_quality_has_another_format() {
        let mut sender = Sender::default();
        assert_eq!(sender.poll_format(), None);
        sender.push(frame(0, 100), Carriage::Datagrams);
        let first = sender.poll_format().unwrap();
        assert_eq!((first.generation, first.frame), (0, 480));
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "0 0:0");
        let quality = Quality { frame: 960, ..QUALITY };
        sender.push(CodedFrame { quality, ..frame(1, 100) }, Carriage::Datagrams);
        let second = sender.poll_format().unwrap();
        assert_eq!((second.generation, second.frame), (1, 960));
        assert_eq!(sender.poll_format(), None);
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "1 0:1");
        sender.push(CodedFrame { last: true, quality, ..frame(3, 100) }, Carriage::Datagrams);
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "2 0:3 1:1");
        sender.push(CodedFrame { quality, ..frame(90, 100) }, Carriage::Datagrams);
        assert_eq!(poll(&mut sender, ROOM, &[1], 0).unwrap(), "3 0:90 broken");
    }
}
