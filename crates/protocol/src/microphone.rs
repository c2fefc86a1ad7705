//! Path back, beside the pixels: what a viewer's microphone hears, from viewer-core to
//! session-core, and whether a program of the session wants it.
//! Knows fields and limits; never samples.

use crate::limits::SOUND_FRAME_SAMPLES;
use crate::sound::{SoundCodec, SoundFormat, SoundPacket};
use crate::wire::{Reader, WireError, put_varint};

/// Whether the session wants the viewer's microphone; to a viewer with `ViewerCaps::MICROPHONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicrophoneWant {
    /// The packets that answer it carry it; each want has the next one, modulo 256.
    pub generation: u8,
    /// A program records. If not, the viewer closes its microphone.
    pub wanted: bool,
    /// 1 or 2.
    pub channels: u8,
    /// Samples of a frame for each channel at 48 kHz, one of `SOUND_FRAME_SAMPLES`.
    pub frame: u16,
}

/// Whether the viewer gives its microphone; answers [`MicrophoneWant`], and follows when its person
/// changes their mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicrophoneState {
    /// That of the newest want.
    pub generation: u8,
    /// The microphone is open. If not, there is none, or the person does not give it.
    pub given: bool,
}

/// A [`SoundPacket`] of a microphone: as a datagram, or on the stream. Its time is on the viewer's
/// own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicrophonePacket {
    /// Its body, which is valid.
    body: Vec<u8>,
}

impl MicrophoneWant {
    /// ```text
    /// generation u8 | wanted u8 (0, 1) | channels u8 | frame varint16
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.generation, u8::from(self.wanted), self.channels]);
        put_varint(out, u64::from(self.frame));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<MicrophoneWant, WireError> {
        let generation = reader.u8("a wanted microphone's generation")?;
        let wanted = read_bool(reader, "whether a microphone is wanted")?;
        let what = "a count of a microphone's channels";
        let channels = match reader.u8(what)? {
            channels @ 1..=2 => channels,
            other => return Err(WireError::Unknown { what, value: u64::from(other) }),
        };
        let what = "the length of a microphone's frame";
        let frame = reader.u16(what)?;
        if !SOUND_FRAME_SAMPLES.contains(&frame) {
            return Err(WireError::Unknown { what, value: u64::from(frame) });
        }
        Ok(MicrophoneWant { generation, wanted, channels, frame })
    }

    /// How the packets are coded that answer it.
    pub fn format(&self) -> SoundFormat {
        let MicrophoneWant { generation, channels, frame, .. } = *self;
        SoundFormat { generation, codec: SoundCodec::Opus, channels, frame }
    }
}

impl MicrophoneState {
    /// ```text
    /// generation u8 | given u8 (0, 1)
    /// ```
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.generation, u8::from(self.given)]);
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<MicrophoneState, WireError> {
        let generation = reader.u8("a microphone's generation")?;
        let given = read_bool(reader, "whether a microphone is given")?;
        Ok(MicrophoneState { generation, given })
    }
}

impl MicrophonePacket {
    /// A message with this packet.
    pub fn new(packet: &SoundPacket<'_>) -> MicrophonePacket {
        let mut body = Vec::new();
        packet.encode_body(&mut body);
        MicrophonePacket { body }
    }

    /// What it carries.
    pub fn packet(&self) -> SoundPacket<'_> {
        SoundPacket::decode_body(&mut Reader::new(&self.body)).expect("it was checked")
    }

    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.body);
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<MicrophonePacket, WireError> {
        let packet = SoundPacket::decode_body(reader)?;
        Ok(MicrophonePacket::new(&packet))
    }
}

fn read_bool(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, WireError> {
    match reader.u8(what)? {
        value @ 0..=1 => Ok(value == 1),
        other => Err(WireError::Unknown { what, value: u64::from(other) }),
    }
}
