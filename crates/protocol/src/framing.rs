//! Path 10/13 and 11/13: frames messages before transport, and splits the byte stream into messages
//! after it.
//! video, so the framed unit is a message.
//! Knows lengths and their limits; no message's meaning.

use crate::wire::{Reader, VARINT_BYTES_MAX, WireError, put_varint, varint_len};

/// One message as it is framed on the wire: its kind, and its fields still encoded.
///
/// ```text
/// +------+----------------+----------------------+
/// | kind | body length    | body                 |
/// | u8   | varint, u32    | that many bytes      |
/// +------+----------------+----------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageFrame<'a> {
    /// Which message it is; the two directions number theirs independently.
    pub kind: u8,
    /// The message's encoded fields.
    pub body: &'a [u8],
}

impl<'a> MessageFrame<'a> {
    /// Reads the one message that a datagram holds.
    ///
    /// # Errors
    /// If the bytes are shorter or longer than that message.
    pub fn from_datagram(bytes: &'a [u8]) -> Result<MessageFrame<'a>, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("a message's kind")?;
        let len = reader.u32("a message's length")? as usize;
        let body = reader.take("a message's body", len)?;
        reader.end("a message")?;
        Ok(MessageFrame { kind, body })
    }
}

/// Appends a message whose body `write` appends. A body below 128 bytes is never moved.
pub fn put_message(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    // One byte holds the length of a short body; a longer body is moved once to make room for more.
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    let len_bytes = varint_len(len as u64);
    if len_bytes > 1 {
        out.splice(at + 1..at + 1, std::iter::repeat_n(0, len_bytes - 1));
    }
    let mut value = len;
    for byte in &mut out[at..at + len_bytes - 1] {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    out[at + len_bytes - 1] = value as u8;
}

/// Appends a message whose body is `head` followed by `tail`.
pub(crate) fn put_message_parts(out: &mut Vec<u8>, kind: u8, head: &[u8], tail: &[u8]) {
    out.push(kind);
    put_varint(out, (head.len() + tail.len()) as u64);
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

/// Splits a byte stream into messages.
///
/// [`push`](Deframer::push) takes bytes as they arrive; [`next`](Deframer::next) lends each
/// complete message from the buffer. A message longer than the limit is refused as soon as its
/// length is read, so the buffer never holds more than one message and one chunk, if the caller
/// calls `next` until it returns `None` after each `push`.
#[derive(Debug)]
pub struct Deframer {
    buffer: Vec<u8>,
    /// Bytes of `buffer` already lent out.
    read: usize,
    message_bytes_max: usize,
}

impl Deframer {
    /// Refuses messages whose body is longer than `message_bytes_max`.
    pub const fn new(message_bytes_max: usize) -> Deframer {
        Deframer { buffer: Vec::new(), read: 0, message_bytes_max }
    }

    /// Changes the limit from the next message on: authentication raises it.
    pub fn set_max(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.buffer.drain(..self.read);
            self.read = 0;
        }
        // An occasional large message must not keep its memory allocated.
        if self.buffer.is_empty() && self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// If a length exceeds the limit or 32 bits. The stream cannot be read from then on: every
    /// later call returns the same error.
    #[expect(
        clippy::should_implement_trait,
        reason = "a message is lent from the buffer, which Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<MessageFrame<'_>>, WireError> {
        let bytes = &self.buffer[self.read..];
        let Some((&kind, after_kind)) = bytes.split_first() else {
            return Ok(None);
        };
        let mut reader = Reader::new(after_kind);
        let len = match reader.u32("a message's length") {
            Ok(len) => len as usize,
            Err(WireError::Truncated(_)) if after_kind.len() < VARINT_BYTES_MAX => return Ok(None),
            Err(error) => return Err(error),
        };
        if len > self.message_bytes_max {
            let limit = self.message_bytes_max as u64;
            return Err(WireError::OverLimit {
                what: "a message's length",
                value: len as u64,
                limit,
            });
        }
        let Ok(body) = reader.take("a message's body", len) else {
            return Ok(None);
        };
        self.read = self.buffer.len() - reader.rest_len();
        Ok(Some(MessageFrame { kind, body }))
    }

    /// Buffered bytes that were not yet lent out.
    pub fn buffered_len(&self) -> usize {
        self.buffer.len() - self.read
    }
}

/// 256 KiB: most memory that an empty buffer keeps. Typical chunks are far smaller; a full screen's
/// update is larger.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_kind_length_body() {
        let mut out = Vec::new();
        put_message(&mut out, 7, |out| out.extend_from_slice(b"abc"));
        assert_eq!(out, [7, 3, b'a', b'b', b'c']);
        out.clear();
        put_message_parts(&mut out, 7, b"a", b"bc");
        assert_eq!(out, [7, 3, b'a', b'b', b'c']);
    }

    #[test]
    fn bodies_of_every_length_class_survive_any_chunking() {
        let lens = [0usize, 1, 127, 128, 129, 16383, 16384, 40000];
        let mut stream = Vec::new();
        for (i, &len) in lens.iter().enumerate() {
            put_message(&mut stream, i as u8, |out| out.resize(out.len() + len, 0x55));
        }
        for chunk in [1usize, 2, 3, 1000, stream.len()] {
            let mut deframer = Deframer::new(40000);
            let mut seen = Vec::new();
            for bytes in stream.chunks(chunk) {
                deframer.push(bytes);
                while let Some(frame) = deframer.next().unwrap() {
                    assert!(frame.body.iter().all(|&b| b == 0x55));
                    seen.push((frame.kind as usize, frame.body.len()));
                }
            }
            assert_eq!(
                seen,
                lens.into_iter().enumerate().collect::<Vec<_>>(),
                "in chunks of {chunk}"
            );
            assert_eq!(deframer.buffered_len(), 0);
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_its_body_arrives() {
        let mut deframer = Deframer::new(100);
        deframer.push(&[1, 101]);
        let refused =
            Err(WireError::OverLimit { what: "a message's length", value: 101, limit: 100 });
        assert_eq!(deframer.next(), refused);
        deframer.push(&[0; 200]);
        assert_eq!(deframer.next(), refused, "the stream stays unreadable");
        let mut deframer = Deframer::new(usize::MAX);
        deframer.push(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(deframer.next(), Err(WireError::Overflow("a message's length")));
    }

    #[test]
    fn a_datagram_is_one_message_and_nothing_else() {
        let mut out = Vec::new();
        put_message(&mut out, 7, |out| out.extend_from_slice(b"abc"));
        assert_eq!(MessageFrame::from_datagram(&out), Ok(MessageFrame { kind: 7, body: b"abc" }));
        for cut in 0..out.len() {
            assert!(MessageFrame::from_datagram(&out[..cut]).is_err(), "cut to {cut}");
        }
        out.push(0);
        assert!(MessageFrame::from_datagram(&out).is_err(), "one byte too many");
    }

    #[test]
    fn the_limit_can_be_raised() {
        let mut deframer = Deframer::new(4);
        deframer.push(&[1, 5, 0, 0, 0, 0, 0]);
        assert!(deframer.next().is_err());
        deframer.set_max(5);
        assert_eq!(deframer.next(), Ok(Some(MessageFrame { kind: 1, body: &[0; 5] })));
    }
}
