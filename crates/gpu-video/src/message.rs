//! Beside process.rs: the messages to the codec process, and the layout of the memory shared with
//! it. Both ends are of one build; but the process runs libraries in C, and may have been taken
//! over by what it decodes, so no length from it is believed. Knows bytes; never sockets or codecs.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

/// 8 MiB: the longest access unit.
pub const UNIT_BYTES_MAX: usize = 8 << 20;
/// 3840 and 2160: the longest and the shorter edge of a frame.
pub const EDGES_MAX: (u32, u32) = (3840, 2160);
/// Samples of the largest frame, from the memory's start; the access unit is behind them. Pages
/// that no frame or unit has reached take no memory.
pub const UNIT_AT: u64 =
    SampleLayout::Yuv444.bytes(Size { width: EDGES_MAX.0, height: EDGES_MAX.1 });
/// Size of the shared memory, which is sealed.
pub const MEMORY_BYTES: u64 = UNIT_AT + UNIT_BYTES_MAX as u64;
/// Length of a request.
pub const REQUEST_BYTES: usize = 34;
/// Longest answer: a byte and a text.
pub const ANSWER_BYTES_MAX: usize = 1 + TEXT_BYTES_MAX;
/// Longest text of an answer; longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 400;

/// True if a frame of this size, with even edges, has a place in the memory.
pub fn fits(size: Size) -> bool {
    let (shorter, longer) = (size.width.min(size.height), size.width.max(size.height));
    shorter > 0 && (shorter | longer) & 1 == 0 && longer <= EDGES_MAX.0 && shorter <= EDGES_MAX.1
}

/// Rates of a stream that is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bits a second.
    pub bits_per_second: u64,
    /// Approximate frames a second.
    pub frames_per_second: u32,
}

/// To the codec process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A stream starts; answered.
    Start {
        /// The stream.
        stream: u64,
        /// Size of its frames, with even edges.
        size: Size,
        /// If it is encoded.
        rates: Rates,
    },
    /// The next frame of an encoded stream, or the next access unit of a decoded one, is in the
    /// memory; answered.
    Next {
        /// The stream.
        stream: u64,
        /// The frame's size.
        size: Size,
        /// The unit's length, if it is decoded.
        bytes: u32,
        /// If it is encoded.
        rates: Rates,
        /// If it is encoded: as a keyframe.
        keyframe: bool,
    },
    /// The stream has ended; not answered.
    End {
        /// The stream.
        stream: u64,
    },
}

impl Request {
    /// As bytes.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let none = Rates::default();
        let (kind, stream, size, bytes, rates, keyframe) = match self {
            Request::Start { stream, size, rates } => (0, stream, size, 0, rates, false),
            Request::Next { stream, size, bytes, rates, keyframe } => {
                (1, stream, size, bytes, rates, keyframe)
            }
            Request::End { stream } => (2, stream, Size::default(), 0, none, false),
        };
        let mut message = [0; REQUEST_BYTES];
        message[0] = kind;
        message[1] = u8::from(keyframe);
        message[2..10].copy_from_slice(&stream.to_le_bytes());
        message[10..14].copy_from_slice(&size.width.to_le_bytes());
        message[14..18].copy_from_slice(&size.height.to_le_bytes());
        message[18..22].copy_from_slice(&bytes.to_le_bytes());
        message[22..26].copy_from_slice(&rates.frames_per_second.to_le_bytes());
        message[26..34].copy_from_slice(&rates.bits_per_second.to_le_bytes());
        message
    }

    /// Of bytes; None if they are no request.
    pub fn decode(message: &[u8]) -> Option<Request> {
        let message: &[u8; REQUEST_BYTES] = message.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("8 bytes"));
        let (stream, size) = (long(2), Size { width: word(10), height: word(14) });
        let rates = Rates { frames_per_second: word(22), bits_per_second: long(26) };
        let keyframe = match message[1] {
            0 => false,
            1 => true,
            _ => return None,
        };
        match message[0] {
            0 => Some(Request::Start { stream, size, rates }),
            1 => Some(Request::Next { stream, size, bytes: word(18), rates, keyframe }),
            2 => Some(Request::End { stream }),
            _ => None,
        }
    }
}

/// From the codec process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The stream has started; or the frame is in the memory, planes without padding; or the access
    /// unit, of so many bytes.
    Done {
        /// Length of the access unit.
        bytes: u32,
        /// It is a keyframe.
        keyframe: bool,
    },
    /// The access unit cannot be decoded, or the frame not encoded.
    Failed,
    /// The stream cannot be coded here.
    Refused,
    /// The first message: what codes.
    Ready(String),
    /// The first message: nothing here codes, and why. The process ends.
    Nothing(String),
}

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let text = |kind: u8, text: &str| {
            let end = text.floor_char_boundary(TEXT_BYTES_MAX);
            [&[kind], &text.as_bytes()[..end]].concat()
        };
        match self {
            Answer::Done { bytes, keyframe } => {
                let mut message = vec![1, u8::from(*keyframe)];
                message.extend(bytes.to_le_bytes());
                message
            }
            Answer::Failed => vec![2],
            Answer::Refused => vec![3],
            Answer::Ready(name) => text(4, name),
            Answer::Nothing(reason) => text(5, reason),
        }
    }

    /// Of bytes; None if they are no answer.
    pub fn decode(message: &[u8]) -> Option<Answer> {
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).ok()?;
            let shown = !text.chars().any(char::is_control);
            (bytes.len() <= TEXT_BYTES_MAX && shown).then(|| text.to_owned())
        };
        match message {
            [1, keyframe @ (0 | 1), bytes @ ..] => {
                let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
                let fits = bytes as usize <= UNIT_BYTES_MAX;
                fits.then_some(Answer::Done { bytes, keyframe: *keyframe == 1 })
            }
            [2] => Some(Answer::Failed),
            [3] => Some(Answer::Refused),
            [4, name @ ..] => text(name).map(Answer::Ready),
            [5, reason @ ..] => text(reason).map(Answer::Nothing),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_others_are_none() {
        let (stream, size) = (u64::MAX - 7, Size { width: 1920, height: 1080 });
        let rates = Rates { bits_per_second: 5_000_000_000, frames_per_second: 60 };
        for request in [
            Request::Start { stream, size, rates },
            Request::Next { stream, size, bytes: 70_000, rates, keyframe: true },
            Request::End { stream },
        ] {
            let message = request.encode();
            assert_eq!(Request::decode(&message), Some(request));
            assert_eq!(Request::decode(&message[1..]), None);
        }
        assert_eq!(Request::decode(&[3; REQUEST_BYTES]), None);
        for answer in [
            Answer::Done { bytes: 0, keyframe: false },
            Answer::Done { bytes: UNIT_BYTES_MAX as u32, keyframe: true },
            Answer::Failed,
            Answer::Refused,
            Answer::Ready("vah264enc".to_owned()),
            Answer::Nothing("no GPU".to_owned()),
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let too_long = Answer::Done { bytes: UNIT_BYTES_MAX as u32 + 1, keyframe: false }.encode();
        let controls = Answer::Ready("a\u{1b}[2J".to_owned()).encode();
        for message in
            [&[][..], &[0], &[6], &[1, 1], &[1, 2, 0, 0, 0, 0], &[2, 0], &too_long, &controls]
        {
            assert_eq!(Answer::decode(message), None, "{message:?}");
        }
        let long = Answer::Nothing("é".repeat(TEXT_BYTES_MAX)).encode();
        assert_eq!(long.len(), ANSWER_BYTES_MAX);
        assert!(Answer::decode(&long).is_some());
    }

    #[test]
    fn frames_that_fit_have_even_edges_within_the_memory() {
        for (width, height, fit) in [
            (3840, 2160, true),
            (2160, 3840, true),
            (3840, 2162, false),
            (16, 16, true),
            (17, 16, false),
            (0, 16, false),
        ] {
            assert_eq!(fits(Size { width, height }), fit, "{width} x {height}");
        }
    }
}
