//! What the sound server and the session process say to each other, byte by byte. From the mixer
//! (server.rs), by a Unix socket, to session-server/src/sound.rs, and back. Knows bytes; no sockets
//! and no clock.
//!
//! ```text
//! both          version u8                       first, and once
//! sound server  marks u8 | time u64 | 960 × f32  marks: 1 silence follows, 2 discontinuity
//!               4 u8 | count u8 | count × (length u8 | name)    who plays, once that changes
//!               5 u8 | blocks u8                 so many blocks of the microphone are recorded
//!                                                next; 0: no program records it any more
//! session       0 u8 | listening u8 | latency u32      whenever one of them changes
//!               1 u8 | 240 × f32                 a block of the microphone, for each of `blocks`
//! ```
//! All numbers are little-endian. A session that has no microphone brings no blocks, or silent
//! ones. The sound server and a restarted session process may be of
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
/// Bytes of a wish.
pub const WISH_BYTES: usize = 6;
/// Samples of a block of the microphone: 5 ms of one channel.
pub const MICROPHONE_SAMPLES: usize = 240;
/// Bytes of one on the socket.
pub const MICROPHONE_BYTES: usize = 1 + MICROPHONE_SAMPLES * 4;
/// A block of the microphone, from -1 to 1.
pub type MicrophoneBlock = Box<[f32; MICROPHONE_SAMPLES]>;
/// Most blocks of the microphone for which the session process is asked at once.
pub const MICROPHONE_BLOCKS_MAX: u8 = 8;
/// First byte of both sides.
pub const LINK_VERSION: u8 = 3;
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
const MICROPHONE: u8 = 5;

/// First bytes of what the session process says.
const WISH: u8 = 0;
const BLOCK: u8 = 1;

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
            *sample = limited(f32::from_le_bytes(*bytes));
        }
        Frame {
            time: Micros::from_le_bytes(time.try_into().expect("it was split at 8")),
            silence_follows: marks[0] & SILENCE_FOLLOWS != 0,
            discontinuity: marks[0] & DISCONTINUITY != 0,
            samples,
        }
    }
}

/// A sample that can be played.
fn limited(sample: f32) -> f32 {
    if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 }
}

/// What the sound server tells the session process.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Sound.
    Frame(Frame),
    /// Names of the programs that play now; valid UTF-8, or what is left of it.
    Players(Vec<String>),
    /// So many blocks of the microphone are recorded next; 0: no program records it any more.
    Microphone(u8),
}

/// Bytes that are no message: the other side is of another build, or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Its first byte.
    #[error("byte {0} begins no message of the link")]
    Unknown(u8),
    /// Beyond `MICROPHONE_BLOCKS_MAX`.
    #[error(
        "the sound server asks for {0} blocks of the microphone, {MICROPHONE_BLOCKS_MAX} at most"
    )]
    Microphone(u8),
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

    /// Appends for how many blocks of the microphone the session process is asked.
    pub fn encode_microphone(blocks: u8, bytes: &mut Vec<u8>) {
        bytes.extend([MICROPHONE, blocks.min(MICROPHONE_BLOCKS_MAX)]);
    }

    /// Reads the first message and how long it is; None: not all of it is there.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, MessageError> {
        match bytes.first() {
            None => Ok(None),
            Some(&PLAYERS) => decode_players(bytes),
            Some(&MICROPHONE) => match bytes.get(1) {
                Some(&blocks) if blocks > MICROPHONE_BLOCKS_MAX => {
                    Err(MessageError::Microphone(blocks))
                }
                blocks => Ok(blocks.map(|&blocks| (Message::Microphone(blocks), 2))),
            },
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

/// What the session process tells the sound server.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionMessage {
    /// What it wants.
    Wish(Wish),
    /// A block of the microphone.
    Microphone(MicrophoneBlock),
}

impl SessionMessage {
    /// Appends a block of the microphone.
    pub fn encode_microphone(block: &[f32; MICROPHONE_SAMPLES], bytes: &mut Vec<u8>) {
        bytes.push(BLOCK);
        bytes.extend(block.iter().flat_map(|sample| sample.to_le_bytes()));
    }

    /// Reads the first message and how long it is; None: not all of it is there. Samples out of
    /// range are limited.
    pub fn decode(bytes: &[u8]) -> Result<Option<(SessionMessage, usize)>, MessageError> {
        match bytes.first() {
            None => Ok(None),
            Some(&WISH) => Ok(bytes
                .first_chunk()
                .map(|&wish| (SessionMessage::Wish(Wish::decode(wish)), WISH_BYTES))),
            Some(&BLOCK) => {
                let Some(samples) = bytes.get(1..MICROPHONE_BYTES) else { return Ok(None) };
                let mut block = Box::new([0.0; MICROPHONE_SAMPLES]);
                for (sample, bytes) in block.iter_mut().zip(samples.as_chunks::<4>().0) {
                    *sample = limited(f32::from_le_bytes(*bytes));
                }
                Ok(Some((SessionMessage::Microphone(block), MICROPHONE_BYTES)))
            }
            Some(&other) => Err(MessageError::Unknown(other)),
        }
    }
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
        [WISH, u8::from(self.listening), a, b, c, d]
    }

    /// Reads it.
    pub fn decode([_, listening, a, b, c, d]: [u8; WISH_BYTES]) -> Wish {
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
        assert_eq!(Message::decode(&[6]), Err(MessageError::Unknown(6)));
        // A longer message would not fit the reader's buffer.
        assert_eq!(Message::decode(&[4, 17]), Err(MessageError::Players(17)));
        assert_eq!(Message::decode(&[4, 1, 65]), Err(MessageError::Name(65)));
    }

    #[test]
    fn a_wish_is_limited_at_both_ends() {
        let wish = Wish { listening: true, latency: 150_000 };
        assert_eq!(wish.encode(), [0, 1, 0xf0, 0x49, 2, 0]);
        assert_eq!(Wish::decode(wish.encode()), wish);
        let long = Wish { listening: false, latency: Micros::MAX };
        assert_eq!(Wish::decode(long.encode()).latency, LATENCY_MAX);
        assert_eq!(Wish::decode([0, 0, 255, 255, 255, 255]).latency, LATENCY_MAX);
    }

    #[test]
    fn the_microphone_is_asked_for_and_brought_in_blocks() {
        let mut bytes = Vec::new();
        Message::encode_microphone(3, &mut bytes);
        assert_eq!(bytes, [5, 3]);
        assert_eq!(Message::decode(&bytes), Ok(Some((Message::Microphone(3), 2))));
        assert_eq!(Message::decode(&bytes[..1]), Ok(None));
        assert_eq!(Message::decode(&[5, 9]), Err(MessageError::Microphone(9)));
        let mut block = [0.0; MICROPHONE_SAMPLES];
        (block[0], block[1], block[239]) = (0.5, f32::INFINITY, -7.0);
        bytes.clear();
        SessionMessage::encode_microphone(&block, &mut bytes);
        bytes.extend(Wish { listening: true, latency: 9 }.encode());
        assert_eq!(bytes[..5], [1, 0, 0, 0, 0x3f]);
        for cut in 0..MICROPHONE_BYTES {
            assert_eq!(SessionMessage::decode(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
        let Ok(Some((SessionMessage::Microphone(read), MICROPHONE_BYTES))) =
            SessionMessage::decode(&bytes)
        else {
            panic!("it is whole")
        };
        assert_eq!((read[0], read[1], read[239]), (0.5, 0.0, -1.0));
        let wish = SessionMessage::Wish(Wish { listening: true, latency: 9 });
        let read = SessionMessage::decode(&bytes[MICROPHONE_BYTES..]);
        assert_eq!(read, Ok(Some((wish, WISH_BYTES))));
        assert_eq!(SessionMessage::decode(&[2]), Err(MessageError::Unknown(2)));
    }
}
