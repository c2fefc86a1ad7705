//! Beside mod.rs and process.rs: the messages between the viewer and its decoder process, and the
//! layout of the memory they share. Both are the same program, so there is no version; but the
//! process reads a session's bytes and may have been taken over, so the viewer believes no length
//! from it. Knows bytes; never sockets or decoders.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

/// 8 MiB: the longest access unit that a decoder takes.
pub(super) const UNIT_BYTES_MAX: usize = 8 << 20;
/// Samples of the largest frame, 3840 × 2160, from the memory's start; the access unit is behind
/// them. Pages that no frame or unit has reached take no memory.
pub(super) const UNIT_AT: u64 = SampleLayout::Yuv420.bytes(Size { width: 3840, height: 2160 });
/// Size of the shared memory, which is sealed.
pub(super) const MEMORY_BYTES: u64 = UNIT_AT + UNIT_BYTES_MAX as u64;

/// Length of a request.
pub(super) const REQUEST_BYTES: usize = 21;

/// From the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A stream starts; answered.
    Start {
        /// The stream.
        stream: u64,
        /// Size of its frames.
        size: Size,
    },
    /// The stream's next access unit is in the memory; answered.
    Decode {
        /// The stream.
        stream: u64,
        /// The frame's size.
        size: Size,
        /// The unit's length.
        bytes: u32,
    },
    /// The stream has ended; not answered.
    End {
        /// The stream.
        stream: u64,
    },
}

impl Request {
    pub(super) fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, stream, size, bytes) = match self {
            Request::Start { stream, size } => (0, stream, size, 0),
            Request::Decode { stream, size, bytes } => (1, stream, size, bytes),
            Request::End { stream } => (2, stream, Size::default(), 0),
        };
        let mut message = [0; REQUEST_BYTES];
        message[0] = kind;
        message[1..9].copy_from_slice(&stream.to_le_bytes());
        message[9..13].copy_from_slice(&size.width.to_le_bytes());
        message[13..17].copy_from_slice(&size.height.to_le_bytes());
        message[17..].copy_from_slice(&bytes.to_le_bytes());
        message
    }

    pub(super) fn decode(message: &[u8]) -> Option<Request> {
        let message: &[u8; REQUEST_BYTES] = message.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("4 bytes"));
        let stream = u64::from_le_bytes(message[1..9].try_into().expect("8 bytes"));
        let size = Size { width: word(9), height: word(13) };
        match message[0] {
            0 => Some(Request::Start { stream, size }),
            1 => Some(Request::Decode { stream, size, bytes: word(17) }),
            2 => Some(Request::End { stream }),
            _ => None,
        }
    }
}

/// From the decoder process, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The stream can be decoded; or the frame is in the memory, planes without padding.
    Done = 1,
    /// The access unit cannot be decoded.
    Failed = 2,
    /// The stream cannot be decoded here.
    Refused = 3,
}

impl Answer {
    pub(super) fn decode(message: &[u8]) -> Option<Answer> {
        match message {
            [1] => Some(Answer::Done),
            [2] => Some(Answer::Failed),
            [3] => Some(Answer::Refused),
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
        for request in [
            Request::Start { stream, size },
            Request::Decode { stream, size, bytes: 70_000 },
            Request::End { stream },
        ] {
            let message = request.encode();
            assert_eq!(Request::decode(&message), Some(request));
            assert_eq!(Request::decode(&message[1..]), None);
        }
        assert_eq!(Request::decode(&[3; REQUEST_BYTES]), None);
        for answer in [Answer::Done, Answer::Failed, Answer::Refused] {
            assert_eq!(Answer::decode(&[answer as u8]), Some(answer));
        }
        for message in [&[][..], &[0], &[4], &[1, 1]] {
            assert_eq!(Answer::decode(message), None);
        }
    }
}
