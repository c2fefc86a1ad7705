//! Path 10/13 and 11/13: messages into frames before transport, and frames out of a stream after it.
//! How messages lie in a byte stream, and cutting a stream back into them; the same over TLS and in a WebSocket.
//! Knows lengths and their limits; no message's meaning.

use crate::wire::{Reader, VARINT_BYTES_MAX, WireError, put_varint, varint_len};

/// One message as it lies on the wire.
///
/// ```text
/// +------+----------------+----------------------+
/// | kind | body length    | body                 |
/// | u8   | varint, u32    | that many bytes      |
/// +------+----------------+----------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message; viewer and session count theirs apart.
    pub kind: u8,
    /// The message's fields.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The one frame that these bytes are, as a datagram holds it.
    ///
    /// # Errors
    /// They are less than a frame, or more.
    pub fn whole(bytes: &'a [u8]) -> Result<Frame<'a>, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("a frame's kind")?;
        let len = reader.u32("a frame's length")? as usize;
        let body = reader.take("a frame's body", len)?;
        reader.end("a frame")?;
        Ok(Frame { kind, body })
    }
}

/// Appends a frame whose body `write` appends; a short body costs no move.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    // One byte holds the length of every little message; a longer body is moved once by the bytes missing.
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

/// Appends a frame whose body is known to be `head` and then `tail`.
pub(crate) fn put_frame_of(out: &mut Vec<u8>, kind: u8, head: &[u8], tail: &[u8]) {
    out.push(kind);
    put_varint(out, (head.len() + tail.len()) as u64);
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

/// Cuts a stream into frames.
///
/// Bytes come in through [`push`](Deframer::push) as they arrive; [`next`](Deframer::next) lends each whole frame from
/// the buffer. A frame longer than the limit is refused as soon as its length is read, so the buffer never holds more
/// than one frame and one chunk as long as `next` is called until it gives `None` after each `push`.
#[derive(Debug)]
pub struct Deframer {
    buffer: Vec<u8>,
    /// Bytes of `buffer` already lent out.
    read: usize,
    frame_bytes_max: usize,
}

impl Deframer {
    /// Refuses frames whose body is longer than `frame_bytes_max`.
    pub const fn new(frame_bytes_max: usize) -> Deframer {
        Deframer { buffer: Vec::new(), read: 0, frame_bytes_max }
    }

    /// Another limit from the next frame on: authentication raises it.
    pub fn set_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.buffer.drain(..self.read);
            self.read = 0;
        }
        // A large frame once in a while must not hold its memory for ever.
        if self.buffer.is_empty() && self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` until more bytes come.
    ///
    /// # Errors
    /// A length beyond the limit or beyond 32 bits; the stream is useless from then on and every call says so again.
    #[expect(clippy::should_implement_trait, reason = "a frame is lent from the buffer, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let bytes = &self.buffer[self.read..];
        let Some((&kind, after_kind)) = bytes.split_first() else {
            return Ok(None);
        };
        let mut reader = Reader::new(after_kind);
        let len = match reader.u32("a frame's length") {
            Ok(len) => len as usize,
            Err(WireError::Truncated(_)) if after_kind.len() < VARINT_BYTES_MAX => return Ok(None),
            Err(error) => return Err(error),
        };
        if len > self.frame_bytes_max {
            let limit = self.frame_bytes_max as u64;
            return Err(WireError::TooMuch { what: "a frame's length", value: len as u64, limit });
        }
        let Ok(body) = reader.take("a frame's body", len) else {
            return Ok(None);
        };
        self.read = self.buffer.len() - reader.rest_len();
        Ok(Some(Frame { kind, body }))
    }

    /// Bytes held and not yet lent out.
    pub fn buffered_len(&self) -> usize {
        self.buffer.len() - self.read
    }
}

/// 256 KiB: most memory an empty buffer keeps; a usual chunk is far smaller, a full screen larger.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_kind_length_body() {
        let mut out = Vec::new();
        put_frame(&mut out, 7, |out| out.extend_from_slice(b"abc"));
        assert_eq!(out, [7, 3, b'a', b'b', b'c']);
        out.clear();
        put_frame_of(&mut out, 7, b"a", b"bc");
        assert_eq!(out, [7, 3, b'a', b'b', b'c']);
    }

    #[test]
    fn bodies_of_every_length_class_come_back_byte_by_byte() {
        let lens = [0usize, 1, 127, 128, 129, 16383, 16384, 40000];
        let mut stream = Vec::new();
        for (i, &len) in lens.iter().enumerate() {
            put_frame(&mut stream, i as u8, |out| out.resize(out.len() + len, 0x55));
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
            assert_eq!(seen, lens.into_iter().enumerate().collect::<Vec<_>>(), "in chunks of {chunk}");
            assert_eq!(deframer.buffered_len(), 0);
        }
    }

    #[test]
    fn a_frame_too_long_is_refused_before_its_body_comes() {
        let mut deframer = Deframer::new(100);
        deframer.push(&[1, 101]);
        let refused = Err(WireError::TooMuch { what: "a frame's length", value: 101, limit: 100 });
        assert_eq!(deframer.next(), refused);
        deframer.push(&[0; 200]);
        assert_eq!(deframer.next(), refused, "the stream stays useless");
        let mut deframer = Deframer::new(usize::MAX);
        deframer.push(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(deframer.next(), Err(WireError::Overflow("a frame's length")));
    }

    #[test]
    fn a_datagram_is_one_frame_and_nothing_else() {
        let mut out = Vec::new();
        put_frame(&mut out, 7, |out| out.extend_from_slice(b"abc"));
        assert_eq!(Frame::whole(&out), Ok(Frame { kind: 7, body: b"abc" }));
        for cut in 0..out.len() {
            assert!(Frame::whole(&out[..cut]).is_err(), "cut to {cut}");
        }
        out.push(0);
        assert!(Frame::whole(&out).is_err(), "one byte too many");
    }

    #[test]
    fn the_limit_can_be_raised() {
        let mut deframer = Deframer::new(4);
        deframer.push(&[1, 5, 0, 0, 0, 0, 0]);
        assert!(deframer.next().is_err());
        deframer.set_max(5);
        assert_eq!(deframer.next(), Ok(Some(Frame { kind: 1, body: &[0; 5] })));
    }
}
