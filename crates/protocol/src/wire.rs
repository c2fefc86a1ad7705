//! Numbers and texts as bytes: the one writer and the one bounded reader all messages use.
//! Under frame.rs, viewer.rs, session.rs and command.rs; `doc/protocol.md` calls these forms `varint`, `zigzag`, `text`.
//! Knows no message; allocates only for a text that has been checked against its limit.

use std::fmt;

/// Longest varint in bytes: ten groups of seven bits hold a `u64`.
pub const VARINT_BYTES_MAX: usize = 10;

/// What is wrong with bytes from the other side; each says what, which value and which limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("{0} is cut off")]
    Truncated(&'static str),
    /// A number does not fit its field.
    #[error("{0} is a number too large for its field")]
    Overflow(&'static str),
    /// A count, length or size passes its limit.
    #[error("{what} is {value}, more than {limit}")]
    TooMuch {
        /// The field.
        what: &'static str,
        /// What it said.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A value this version gives no meaning.
    #[error("{what} {value:#04x} has no meaning in protocol version 1")]
    Unknown {
        /// The field.
        what: &'static str,
        /// What it said.
        value: u64,
    },
    /// Bytes are left after the last field.
    #[error("{count} bytes are left after {what}")]
    Trailing {
        /// The message.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// A text that is not UTF-8.
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// A text with characters that mean something to a terminal or break a line of a log.
    #[error("{0} holds control characters")]
    Control(&'static str),
    /// A rectangle that is empty or lies outside the screen.
    #[error("{0} is empty or not inside the screen")]
    Outside(&'static str),
    /// Rectangles of a region that are not in banded order.
    #[error("{0} has rectangles that are not sorted into bands")]
    NotBanded(&'static str),
    /// A frame or command leans on something before it that was not there.
    #[error("{0} refers to a command before it, and there is none")]
    NoPredecessor(&'static str),
}

/// Appends a LEB128 varint: seven bits a byte, lowest first, the high bit set on all but the last.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number as the varint of its zigzag form: 0, -1, 1, -2 … become 0, 1, 2, 3 ….
#[inline]
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a text: its length in bytes as a varint, then UTF-8, cut at a character so that it keeps `bytes_max`; spaces
/// stand for control characters, which no text may hold.
pub fn put_text(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let replaced;
    let text = if text.contains(char::is_control) {
        replaced = text.replace(char::is_control, " ");
        &replaced
    } else {
        text
    };
    let text = &text[..text.floor_char_boundary(bytes_max)];
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a colour as three bytes: blue, green, red.
#[inline]
pub fn put_color(out: &mut Vec<u8>, color: u32) {
    out.extend_from_slice(&color.to_le_bytes()[..3]);
}

/// Bytes a varint of this value takes.
pub const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Reads fields off the front of a slice; every method names the field for its error.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({} bytes left)", self.bytes.len())
    }
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Bytes not yet read.
    pub const fn rest_len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        let (&first, rest) = self.bytes.split_first().ok_or(WireError::Truncated(what))?;
        self.bytes = rest;
        Ok(first)
    }

    /// A varint of up to 64 bits.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (i, &byte) in self.bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth group holds the 64th bit alone.
            if i == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(WireError::Overflow(what));
            }
            value |= bits << (7 * i);
            if byte < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(WireError::Truncated(what))
    }

    /// A varint of up to 32 bits.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        u32::try_from(self.varint(what)?).map_err(|_| WireError::Overflow(what))
    }

    /// A varint of up to 16 bits.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        u16::try_from(self.varint(what)?).map_err(|_| WireError::Overflow(what))
    }

    /// A varint that may not pass `limit`.
    #[inline]
    pub fn at_most(&mut self, what: &'static str, limit: u64) -> Result<u64, WireError> {
        let value = self.varint(what)?;
        if value > limit {
            return Err(WireError::TooMuch { what, value, limit });
        }
        Ok(value)
    }

    /// A zigzag number of up to 32 bits.
    #[inline]
    pub fn zigzag(&mut self, what: &'static str) -> Result<i32, WireError> {
        let value = self.u32(what)?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zigzag number of up to 16 bits.
    pub fn zigzag16(&mut self, what: &'static str) -> Result<i16, WireError> {
        i16::try_from(self.zigzag(what)?).map_err(|_| WireError::Overflow(what))
    }

    /// Three bytes of a colour, as 0xRRGGBB.
    #[inline]
    pub fn color(&mut self, what: &'static str) -> Result<u32, WireError> {
        let bytes = self.take(what, 3)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(WireError::Truncated(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// A text of at most `bytes_max` bytes, without control characters: texts end up on terminals and in logs.
    pub fn text(&mut self, what: &'static str, bytes_max: usize) -> Result<&'a str, WireError> {
        let len = self.at_most(what, bytes_max as u64)?;
        let text = std::str::from_utf8(self.take(what, len as usize)?).map_err(|_| WireError::Text(what))?;
        if text.contains(char::is_control) { Err(WireError::Control(what)) } else { Ok(text) }
    }

    /// Says that nothing may be left.
    pub fn end(&self, what: &'static str) -> Result<(), WireError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(WireError::Trailing { what, count: self.bytes.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_one_length_and_come_back() {
        let mut edges = vec![0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        edges.extend((0..64).map(|bit| 1 << bit));
        for value in edges {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "length of {value}");
            assert_eq!(Reader::new(&out).varint("value"), Ok(value));
        }
        let mut out = Vec::new();
        put_varint(&mut out, 300);
        assert_eq!(out, [0xac, 0x02]);
    }

    #[test]
    fn zigzag_keeps_small_numbers_small() {
        for (value, bytes) in [(0, &[0][..]), (-1, &[1]), (1, &[2]), (63, &[126]), (-64, &[127]), (64, &[0x80, 1])] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(Reader::new(&out).zigzag("value"), Ok(value as i32));
        }
        for value in [i32::MIN, i32::MAX] {
            let mut out = Vec::new();
            put_zigzag(&mut out, i64::from(value));
            assert_eq!(Reader::new(&out).zigzag("value"), Ok(value));
        }
    }

    #[test]
    fn numbers_too_large_or_cut_off_are_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).varint("n"), Err(WireError::Overflow("n")));
        assert_eq!(Reader::new(&[0x80; 3]).varint("n"), Err(WireError::Truncated("n")));
        assert_eq!(Reader::new(&[0x80, 0x80, 0x04]).u16("n"), Err(WireError::Overflow("n")));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).u32("n"), Err(WireError::Overflow("n")));
        assert_eq!(Reader::new(&[9]).at_most("n", 8), Err(WireError::TooMuch { what: "n", value: 9, limit: 8 }));
    }

    #[test]
    fn a_text_cannot_speak_to_a_terminal() {
        for control in ["\u{1b}]0;mine\u{7}", "two\nlines", "\u{9b}31m", "\u{7f}", "\0"] {
            let bytes: Vec<u8> = std::iter::once(control.len() as u8).chain(control.bytes()).collect();
            assert_eq!(Reader::new(&bytes).text("name", 64), Err(WireError::Control("name")), "{control:?}");
            let mut out = Vec::new();
            put_text(&mut out, control, 64);
            assert!(Reader::new(&out).text("name", 64).is_ok_and(|text| text.contains(' ')), "{control:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let mut out = Vec::new();
        put_text(&mut out, "aéé", 4);
        assert_eq!(Reader::new(&out).text("name", 4), Ok("aé"));
        assert_eq!(Reader::new(&[2, 0xff, 0xff]).text("name", 4), Err(WireError::Text("name")));
    }
}
