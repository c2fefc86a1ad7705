//! Path 10/13, and path back, beside the pixels: what programs of the session play, between
//! session-core and thinc-sound's player, and what a viewer wants and reports of it.
//! Knows fields and limits; never samples.

use crate::limits::{
    NAME_BYTES_MAX, SOUND_BACK_MAX, SOUND_BYTES_MAX, SOUND_FRAME_SAMPLES, SOUND_FRAMES_MAX,
    SOUND_PLAYERS_MAX,
};
use crate::wire::{Reader, WireError, put_text, put_varint, put_zigzag, varint_len};

/// How the samples of a frame are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SoundCodec {
    /// Signed 16-bit samples, little-endian, channels interleaved.
    S16 = 0,
    /// One Opus packet (RFC 6716) of one frame.
    Opus = 1,
}

impl SoundCodec {
    /// Its bit in [`SoundWant::codecs`].
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// How the frames of a generation are coded; on the stream only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundFormat {
    /// The packets of this format carry it; each format has the next one, modulo 256.
    pub generation: u8,
    /// The codec.
    pub codec: SoundCodec,
    /// 1 or 2.
    pub channels: u8,
    /// Samples of a frame for each channel at 48 kHz, one of `SOUND_FRAME_SAMPLES`.
    pub frame: u16,
}

/// One coded frame of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundFrame<'a> {
    /// How many frames before the packet's own: 0 is that of the packet's number.
    pub back: u8,
    /// What the codec made of it; not empty.
    pub bytes: &'a [u8],
}

/// A frame, and repeats of earlier ones, in a datagram or on the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundPacket<'a> {
    /// The format's.
    pub generation: u8,
    /// Number of its own frame; the next packet has the next number, whatever the format.
    pub number: u32,
    /// When that frame's first sample was played in the session, in microseconds on the clock of
    /// the video streams' frames.
    pub time: u64,
    /// Nothing follows for now: what comes later is no loss.
    pub silence_follows: bool,
    /// The frame does not continue the one before it.
    pub discontinuity: bool,
    /// Its own frame first, then earlier ones, each once; from 1 to `SOUND_FRAMES_MAX`.
    pub frames: Vec<SoundFrame<'a>>,
}

/// What a viewer wants to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundWant {
    /// The codecs that it decodes, as bits ([`SoundCodec::bit`]); 0: it wants no sound.
    pub codecs: u32,
    /// The shortest frame that it wants, in samples at 48 kHz; 0: any.
    pub frame_min: u16,
    /// The highest rate that it wants, in bits a second; 0: the session chooses.
    pub bitrate_max: u32,
    /// Nobody listens: nothing is sent until this changes.
    pub muted: bool,
}

/// What a viewer tells of the sound it plays. Counts are of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundState {
    /// The time of the sample that is heard now, on the clock of [`SoundPacket::time`].
    pub heard: u64,
    /// Microseconds from a frame's arrival until it is heard.
    pub delay_us: u32,
    /// Packets that arrived, each counted once.
    pub received: u32,
    /// Packets that did not.
    pub lost: u32,
    /// Frames that were concealed.
    pub concealed: u32,
    /// Times that two or more packets in a row were lost.
    pub runs: u32,
    /// Microseconds by which sound is heard later than the picture of the same moment is seen;
    /// negative: earlier. None if unknown.
    pub lag_us: Option<i32>,
}

mod flag {
    pub(super) const SILENCE_FOLLOWS: u8 = 1 << 0;
    pub(super) const DISCONTINUITY: u8 = 1 << 1;
    pub(super) const ALL: u8 = SILENCE_FOLLOWS | DISCONTINUITY;
}

impl SoundFormat {
    /// ```text
    /// generation u8 | codec u8 (0 s16le, 1 Opus) | channels u8 | frame varint16
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.generation, self.codec as u8, self.channels]);
        put_varint(out, u64::from(self.frame));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<SoundFormat, WireError> {
        let unknown = |what, value| Err(WireError::Unknown { what, value });
        let generation = reader.u8("a sound format's generation")?;
        let codec = match reader.u8("a sound's codec")? {
            0 => SoundCodec::S16,
            1 => SoundCodec::Opus,
            other => return unknown("a sound's codec", u64::from(other)),
        };
        let channels = match reader.u8("a count of a sound's channels")? {
            channels @ 1..=2 => channels,
            other => return unknown("a count of a sound's channels", u64::from(other)),
        };
        let frame = reader.u16("the length of a sound's frame")?;
        if !SOUND_FRAME_SAMPLES.contains(&frame) {
            return unknown("the length of a sound's frame", u64::from(frame));
        }
        let format = SoundFormat { generation, codec, channels, frame };
        if codec == SoundCodec::S16 && format.pcm_bytes() > SOUND_BYTES_MAX {
            return unknown("the length of a plain sound's frame", u64::from(frame));
        }
        Ok(format)
    }

    /// Length of a frame of plain samples, in bytes.
    pub fn pcm_bytes(&self) -> usize {
        2 * usize::from(self.channels) * usize::from(self.frame)
    }

    /// Microseconds of a frame.
    pub fn frame_us(&self) -> u64 {
        u64::from(self.frame) * 1000 / 48
    }
}

impl<'a> SoundPacket<'a> {
    /// Length of the message before its frames at most, in bytes: kind, length, and the fields.
    const HEAD_BYTES_MAX: usize = 1 + 2 + 1 + 5 + 10 + 1 + 1;

    /// Longest bytes of frames, with [`SoundPacket::frame_overhead`] of each, that fit into a
    /// message.
    pub const FRAMES_BYTES_MAX: usize = SOUND_BYTES_MAX - Self::HEAD_BYTES_MAX;

    /// Bytes of a frame beside its own.
    pub fn frame_overhead(bytes: usize) -> usize {
        1 + varint_len(bytes as u64)
    }

    /// ```text
    /// generation u8 | number varint32 | time varint64 | flags u8 (1 silence follows,
    /// 2 discontinuity) | count u8 | count × (back u8 | length varint16 | bytes)
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        out.push(self.generation);
        put_varint(out, u64::from(self.number));
        put_varint(out, self.time);
        out.push(
            if self.silence_follows { flag::SILENCE_FOLLOWS } else { 0 }
                | if self.discontinuity { flag::DISCONTINUITY } else { 0 },
        );
        out.push(self.frames.len() as u8);
        for frame in &self.frames {
            out.push(frame.back);
            put_varint(out, frame.bytes.len() as u64);
            out.extend_from_slice(frame.bytes);
        }
    }

    pub(crate) fn decode_body(reader: &mut Reader<'a>) -> Result<SoundPacket<'a>, WireError> {
        // Beside the body: the kind, and a length of two bytes.
        let (what, limit) = ("a sound's bytes", SOUND_BYTES_MAX as u64 - 3);
        if reader.rest_len() as u64 > limit {
            return Err(WireError::OverLimit { what, value: reader.rest_len() as u64, limit });
        }
        let generation = reader.u8("a sound's generation")?;
        let number = reader.u32("a sound's number")?;
        let time = reader.varint("a sound's time")?;
        let flags = reader.u8("a sound's flags")?;
        if flags & !flag::ALL != 0 {
            return Err(WireError::Unknown { what: "a sound's flags", value: u64::from(flags) });
        }
        let count = reader.u8("a count of a sound's frames")?;
        if count == 0 || usize::from(count) > SOUND_FRAMES_MAX {
            let (what, value) = ("a count of a sound's frames", u64::from(count));
            return Err(WireError::OverLimit { what, value, limit: SOUND_FRAMES_MAX as u64 });
        }
        let mut frames: Vec<SoundFrame<'a>> = Vec::with_capacity(usize::from(count));
        for at in 0..count {
            let back = reader.u8("a frame's distance")?;
            let follows = frames.last().is_none_or(|before| back > before.back);
            if (back == 0) != (at == 0) || !follows || back > SOUND_BACK_MAX {
                let (what, value) = ("a frame's distance", u64::from(back));
                return Err(WireError::Unknown { what, value });
            }
            if u32::from(back) > number {
                return Err(WireError::NoPredecessor("a sound's frame"));
            }
            let len = reader.at_most("the length of a sound's frame", limit)?;
            let bytes = reader.take("a sound's frame", len as usize)?;
            if bytes.is_empty() {
                return Err(WireError::Truncated("a sound's frame"));
            }
            frames.push(SoundFrame { back, bytes });
        }
        Ok(SoundPacket {
            generation,
            number,
            time,
            silence_follows: flags & flag::SILENCE_FOLLOWS != 0,
            discontinuity: flags & flag::DISCONTINUITY != 0,
            frames,
        })
    }
}

impl SoundWant {
    /// ```text
    /// codecs varint32 | frame_min varint16 | bitrate_max varint32 | muted u8 (0, 1)
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.codecs));
        put_varint(out, u64::from(self.frame_min));
        put_varint(out, u64::from(self.bitrate_max));
        out.push(u8::from(self.muted));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<SoundWant, WireError> {
        Ok(SoundWant {
            codecs: reader.u32("a sound's codecs")?,
            frame_min: reader.u16("a sound's shortest frame")?,
            bitrate_max: reader.u32("a sound's highest rate")?,
            muted: match reader.u8("whether sound is muted")? {
                muted @ 0..=1 => muted == 1,
                other => {
                    let (what, value) = ("whether sound is muted", u64::from(other));
                    return Err(WireError::Unknown { what, value });
                }
            },
        })
    }
}

impl SoundState {
    /// ```text
    /// heard varint64 | delay_us varint32 | received varint32 | lost varint32 |
    /// concealed varint32 | runs varint32 [ | lag_us zigzag ]
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, self.heard);
        for count in [self.delay_us, self.received, self.lost, self.concealed, self.runs] {
            put_varint(out, u64::from(count));
        }
        if let Some(lag_us) = self.lag_us {
            put_zigzag(out, i64::from(lag_us));
        }
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<SoundState, WireError> {
        Ok(SoundState {
            heard: reader.varint("the time of what is heard")?,
            delay_us: reader.u32("a sound's delay")?,
            received: reader.u32("a count of received sounds")?,
            lost: reader.u32("a count of lost sounds")?,
            concealed: reader.u32("a count of concealed frames")?,
            runs: reader.u32("a count of runs of lost sounds")?,
            lag_us: if reader.is_empty() { None } else { Some(reader.zigzag("a sound's lag")?) },
        })
    }
}

/// ```text
/// count varint | count × name text
/// ```
pub(crate) fn put_players(out: &mut Vec<u8>, players: &[String]) {
    put_varint(out, players.len() as u64);
    players.iter().for_each(|name| put_text(out, name, NAME_BYTES_MAX));
}

pub(crate) fn read_players(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = reader.at_most("a number of programs that play", SOUND_PLAYERS_MAX as u64)?;
    (0..count).map(|_| Ok(reader.text("a program's name", NAME_BYTES_MAX)?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::MessageFrame;
    use crate::session::SessionMessage;

    #[test]
    fn the_longest_packet_fits_the_limit() {
        let frame = vec![7; SoundPacket::FRAMES_BYTES_MAX - SoundPacket::frame_overhead(1000)];
        let packet = SoundPacket {
            generation: 255,
            number: u32::MAX,
            time: u64::MAX,
            silence_follows: true,
            discontinuity: true,
            frames: vec![SoundFrame { back: 0, bytes: &frame }],
        };
        let mut out = Vec::new();
        SessionMessage::Sound(packet.clone()).encode(&mut out);
        assert_eq!(out.len(), SOUND_BYTES_MAX);
        let frame = MessageFrame::from_datagram(&out).expect("one message");
        assert_eq!(SessionMessage::decode(&frame), Ok(SessionMessage::Sound(packet)));
    }

    #[test]
    fn plain_frames_are_those_that_fit_a_packet() {
        let format = |frame, channels| {
            let mut body = Vec::new();
            let codec = SoundCodec::S16;
            SoundFormat { generation: 1, codec, channels, frame }.encode_body(&mut body);
            SoundFormat::decode_body(&mut Reader::new(&body))
        };
        assert!(format(240, 2).is_ok() && format(480, 1).is_ok());
        assert!(format(480, 2).is_err() && format(960, 1).is_err() && format(100, 2).is_err());
    }
}
