//! What the sound server and the session process say to each other, byte by byte. From the mixer
//! (server.rs), by a Unix socket, to session-server/src/sound.rs, and back. Knows bytes; no sockets
//! and no clock.
//!
//! ```text
//! both          version u8                       first, and once
//! sound server  marks u8 | time u64 | 960 × f32  marks: 1 silence follows, 2 discontinuity
//!               4 u8 | count u8 | count × (length u8 | name)    who plays, once that changes
//! session       listening u8 | latency u32       whenever one of them changes
//! ```
//! All numbers are little-endian. The sound server and a restarted session process may be of
//! different builds, so the version says whether they understand each other.

/// Microseconds; of CLOCK_MONOTONIC where a moment is meant.
pub type Micros = u64;

/// Samples a second of each channel.
pub const RATE: u32 = 48_000;
/// Left and right.
pub const CHANNELS: usize = 2;
/// Samples of each channel in a frame: 10 ms.
pub const FRAME_SAMPLES: usize = 480;
/// Duration of a frame.
pub const FRAME_TIME: Micros = 10_000;
/// Bytes of a frame on the socket.
pub const FRAME_BYTES: usize = 1 + 8 + FRAME_SAMPLES * CHANNELS * 4;
/// Bytes of what the session process says.
pub const WISH_BYTES: usize = 5;
/// First byte of both sides.
pub const LINK_VERSION: u8 = 2;
/// Longest latency that is reported to programs: 1 s. Players delay their pictures by it.
pub const LATENCY_MAX: Micros = 1_000_000;

/// Most programs of which the session process is told, and the longest name.
pub const PLAYERS_MAX: usize = 16;
/// In bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest message of the sound server.
pub const MESSAGE_BYTES_MAX: usize = FRAME_BYTES;

const SILENCE_FOLLOWS: u8 = 1;
const DISCONTINUITY: u8 = 2;
const PLAYERS: u8 = 4;

const _: () = assert!(2 + PLAYERS_MAX * (1 + NAME_BYTES_MAX) <= MESSAGE_BYTES_MAX);

/// 10 ms of what programs play, mixed: 48 kHz, left and right interleaved, from -1 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// When the first sample was due, by CLOCK_MONOTONIC. Frames that follow each other without a
    /// mark are exactly 10 ms apart.
    pub time: Micros,
    /// No frame follows until something can be heard again; this one is silent.
    pub silence_follows: bool,
    /// Samples are missing between the last frame and this one.
    pub discontinuity: bool,
    /// The samples.
    pub samples: Box<[f32; FRAME_SAMPLES * CHANNELS]>,
}

impl Frame {
    /// Appends the frame's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let marks = u8::from(self.silence_follows) * SILENCE_FOLLOWS
            + u8::from(self.discontinuity) * DISCONTINUITY;
        bytes.push(marks);
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.samples.iter().flat_map(|sample| sample.to_le_bytes()));
    }

    /// Reads a frame. Samples out of range are limited.
    pub fn decode(bytes: &[u8; FRAME_BYTES]) -> Frame {
        let (marks, rest) = bytes.split_at(1);
        let (time, rest) = rest.split_at(8);
        let mut samples = Box::new([0.0; FRAME_SAMPLES * CHANNELS]);
        for (sample, bytes) in samples.iter_mut().zip(rest.as_chunks::<4>().0) {
            let value = f32::from_le_bytes(*bytes);
            *sample = if value.is_finite() { value.clamp(-1.0, 1.0) } else { 0.0 };
        }
        Frame {
            time: Micros::from_le_bytes(time.try_into().expect("it was split at 8")),
            silence_follows: marks[0] & SILENCE_FOLLOWS != 0,
            discontinuity: marks[0] & DISCONTINUITY != 0,
            samples,
        }
    }
}

/// What the sound server tells the session process.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Sound.
    Frame(Frame),
    /// Names of the programs that play now; valid UTF-8, or what is left of it.
    Players(Vec<String>),
}

/// Bytes that are no message: the sound server is of another build, or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Its first byte.
    #[error("byte {0} begins no message of the sound server")]
    Unknown(u8),
    /// Beyond `PLAYERS_MAX`.
    #[error("the sound server tells of {0} programs that play, {PLAYERS_MAX} at most")]
    Players(u8),
    /// Beyond `NAME_BYTES_MAX`.
    #[error("a program's name has {0} bytes, {NAME_BYTES_MAX} at most")]
    Name(u8),
}

impl Message {
    /// Appends the names of the programs that play; those beyond the limits are cut off.
    pub fn encode_players(players: &[String], bytes: &mut Vec<u8>) {
        let players = &players[..players.len().min(PLAYERS_MAX)];
        bytes.extend([PLAYERS, players.len() as u8]);
        for name in players {
            let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
    }

    /// Reads the first message and how long it is; None: not all of it is there.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, MessageError> {
        match bytes.first() {
            None => Ok(None),
            Some(&PLAYERS) => decode_players(bytes),
            Some(&marks) if marks < PLAYERS => {
                let frame = bytes.first_chunk().map(Frame::decode);
                Ok(frame.map(|frame| (Message::Frame(frame), FRAME_BYTES)))
            }
            Some(&other) => Err(MessageError::Unknown(other)),
        }
    }
}

fn decode_players(bytes: &[u8]) -> Result<Option<(Message, usize)>, MessageError> {
    let Some(&count) = bytes.get(1) else { return Ok(None) };
    if usize::from(count) > PLAYERS_MAX {
        return Err(MessageError::Players(count));
    }
    let (mut players, mut at) = (Vec::new(), 2);
    for _ in 0..count {
        let Some(&length) = bytes.get(at) else { return Ok(None) };
        if usize::from(length) > NAME_BYTES_MAX {
            return Err(MessageError::Name(length));
        }
        let end = at + 1 + usize::from(length);
        let Some(name) = bytes.get(at + 1..end) else { return Ok(None) };
        players.push(String::from_utf8_lossy(name).into_owned());
        at = end;
    }
    Ok(Some((Message::Players(players), at)))
}

/// What the session process wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// A viewer listens: frames are sent.
    pub listening: bool,
    /// How much later the sound of a moment is heard than its picture is seen; at most
    /// `LATENCY_MAX`. Programs are told.
    pub latency: Micros,
}

impl Wish {
    /// The bytes of it.
    pub fn encode(self) -> [u8; WISH_BYTES] {
        let latency = self.latency.min(LATENCY_MAX) as u32;
        let [a, b, c, d] = latency.to_le_bytes();
        [u8::from(self.listening), a, b, c, d]
    }

    /// Reads it.
    pub fn decode([listening, a, b, c, d]: [u8; WISH_BYTES]) -> Wish {
        let latency = Micros::from(u32::from_le_bytes([a, b, c, d]));
        Wish { listening: listening != 0, latency: latency.min(LATENCY_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_frame_are_fixed() {
        let mut samples = Box::new([0.0; FRAME_SAMPLES * CHANNELS]);
        samples[0] = 0.5;
        samples[959] = -1.0;
        let frame =
            Frame { time: 0x0102_0304, silence_follows: true, discontinuity: true, samples };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert_eq!(bytes.len(), FRAME_BYTES);
        assert_eq!(bytes[..13], [3, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0x3f]);
        assert_eq!(bytes[FRAME_BYTES - 4..], [0, 0, 0x80, 0xbf]);
        assert_eq!(Frame::decode(bytes.as_slice().try_into().unwrap()), frame);
    }

    #[test]
    fn samples_that_are_no_numbers_or_too_large_are_not_passed_on() {
        let mut bytes = [0; FRAME_BYTES];
        bytes[9..13].copy_from_slice(&f32::NAN.to_le_bytes());
        bytes[13..17].copy_from_slice(&7.5f32.to_le_bytes());
        let frame = Frame::decode(&bytes);
        assert_eq!(frame.samples[..3], [0.0, 1.0, 0.0]);
        assert!(!frame.silence_follows && !frame.discontinuity);
    }

    #[test]
    fn programs_that_play_are_told_within_limits() {
        let names: Vec<String> = (0..20).map(|n| format!("{n}{}", "ü".repeat(40))).collect();
        let mut bytes = Vec::new();
        Message::encode_players(&names, &mut bytes);
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        for cut in 0..bytes.len() {
            assert_eq!(Message::decode(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
        let Ok(Some((Message::Players(players), length))) = Message::decode(&bytes) else {
            panic!("it is whole")
        };
        assert_eq!((players.len(), length), (PLAYERS_MAX, bytes.len()));
        assert!(players.iter().zip(&names).all(|(told, name)| name.starts_with(told.as_str())));
        bytes.clear();
        Message::encode_players(&["mpv".into()], &mut bytes);
        assert_eq!(bytes, [4, 1, 3, b'm', b'p', b'v']);
        assert_eq!(Message::decode(&[5]), Err(MessageError::Unknown(5)));
        // A longer message would not fit the reader's buffer.
        assert_eq!(Message::decode(&[4, 17]), Err(MessageError::Players(17)));
        assert_eq!(Message::decode(&[4, 1, 65]), Err(MessageError::Name(65)));
    }

    #[test]
    fn a_wish_is_limited_at_both_ends() {
        let wish = Wish { listening: true, latency: 150_000 };
        assert_eq!(wish.encode(), [1, 0xf0, 0x49, 2, 0]);
        assert_eq!(Wish::decode(wish.encode()), wish);
        let long = Wish { listening: false, latency: Micros::MAX };
        assert_eq!(Wish::decode(long.encode()).latency, LATENCY_MAX);
        assert_eq!(Wish::decode([0, 255, 255, 255, 255]).latency, LATENCY_MAX);
    }
}
