//! Numbers and texts as bytes: the writer and the bounded reader that all messages share.
//! Beneath framing.rs, viewer.rs, session.rs and command.rs; `doc/protocol.md` calls these forms
//! `varint`, `zigzag` and `text`.
//! Knows no message, and copies nothing that it reads.

use std::borrow::Cow;
use std::fmt;

use crate::file::PathError;

/// Longest varint in bytes: ten groups of seven bits hold a `u64`.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Why bytes from the peer are invalid: the field, its value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("{0} is cut off")]
    Truncated(&'static str),
    /// A number does not fit its field.
    #[error("{0} is a number too large for its field")]
    Overflow(&'static str),
    /// A count, length or size exceeds its limit.
    #[error("{what} is {value}; the limit is {limit}")]
    OverLimit {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest value allowed.
        limit: u64,
    },
    /// A value that this version does not define.
    #[error("{what} {value:#04x} is not defined in protocol version 1")]
    Unknown {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bytes follow the last field.
    #[error("{count} bytes follow the end of {what}")]
    Trailing {
        /// The message.
        what: &'static str,
        /// Number of bytes.
        count: usize,
    },
    /// A text is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// A text contains characters that control a terminal or break a log line.
    #[error("{0} contains characters that control a terminal or the direction of writing")]
    ControlCharacter(&'static str),
    /// A rectangle is empty or not inside the screen.
    #[error("{0} is empty or not inside the screen")]
    Outside(&'static str),
    /// Rectangles of a region are not in banded order.
    #[error("{0} has rectangles that are not sorted into bands")]
    NotBanded(&'static str),
    /// A path that no file may have.
    #[error("a file's path {0}")]
    FilePath(#[from] PathError),
    /// A command refers to a previous one, and there is none.
    #[error("{0} refers to a previous command, and there is none")]
    NoPredecessor(&'static str),
}

/// Appends a LEB128 varint: seven bits per byte, lowest first, the high bit set on all but the
/// last.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number as the varint of its zigzag form: 0, -1, 1, -2 … become 0, 1, 2, 3 …
#[inline]
pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// True for characters that could make a terminal or a line of text show something else than what
/// is written: control characters, line separators, and those that change the direction of writing
/// (Unicode's `Bidi_Control`).
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}')
}

/// A text from anywhere, fit for a terminal: line breaks and tabs stay, and other characters that
/// no text of the protocol may contain become U+FFFD.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_wrong = |character| is_deceptive(character) && !matches!(character, '\n' | '\t');
    if text.contains(is_wrong) {
        Cow::Owned(text.replace(is_wrong, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Appends a text: its length in bytes as a varint, then UTF-8. It is truncated at a character
/// boundary to `bytes_max`, and the characters that no text may contain become spaces.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let replaced;
    let text = if text.contains(is_deceptive) {
        replaced = text.replace(is_deceptive, " ");
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
pub(crate) fn put_color(out: &mut Vec<u8>, color: u32) {
    out.extend_from_slice(&color.to_le_bytes()[..3]);
}

/// Length of the varint of this value, in bytes.
pub(crate) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Reads fields from the front of a slice; the caller names each field for the error.
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
    /// Starts at the beginning of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Bytes not yet read.
    pub const fn rest_len(&self) -> usize {
        self.bytes.len()
    }

    /// True if all bytes are read.
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
            // The tenth group holds only the 64th bit.
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

    /// A varint that must not exceed `limit`.
    #[inline]
    pub fn at_most(&mut self, what: &'static str, limit: u64) -> Result<u64, WireError> {
        let value = self.varint(what)?;
        if value > limit {
            return Err(WireError::OverLimit { what, value, limit });
        }
        Ok(value)
    }

    /// A zigzag number of up to 32 bits.
    #[inline]
    pub(crate) fn zigzag(&mut self, what: &'static str) -> Result<i32, WireError> {
        let value = self.u32(what)?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zigzag number of up to 16 bits.
    pub(crate) fn zigzag16(&mut self, what: &'static str) -> Result<i16, WireError> {
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

    /// All remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// A text of at most `bytes_max` bytes without [deceptive](is_deceptive) characters: texts are
    /// printed on terminals and into logs, and are the titles of windows.
    pub fn text(&mut self, what: &'static str, bytes_max: usize) -> Result<&'a str, WireError> {
        let len = self.at_most(what, bytes_max as u64)?;
        let text = std::str::from_utf8(self.take(what, len as usize)?)
            .map_err(|_| WireError::NotUtf8(what))?;
        if text.contains(is_deceptive) { Err(WireError::ControlCharacter(what)) } else { Ok(text) }
    }

    /// Fails if bytes remain after the last field of `what`.
    pub fn end(&self, what: &'static str) -> Result<(), WireError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing { what, count: self.bytes.len() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_their_shortest_length() {
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
        for (value, bytes) in
            [(0, &[0][..]), (-1, &[1]), (1, &[2]), (63, &[126]), (-64, &[127]), (64, &[0x80, 1])]
        {
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
    fn truncated_and_oversized_numbers_are_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).varint("n"), Err(WireError::Overflow("n")));
        assert_eq!(Reader::new(&[0x80; 3]).varint("n"), Err(WireError::Truncated("n")));
        assert_eq!(Reader::new(&[0x80, 0x80, 0x04]).u16("n"), Err(WireError::Overflow("n")));
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).u32("n"),
            Err(WireError::Overflow("n"))
        );
        assert_eq!(
            Reader::new(&[9]).at_most("n", 8),
            Err(WireError::OverLimit { what: "n", value: 9, limit: 8 })
        );
    }

    #[test]
    fn a_text_contains_no_control_characters() {
        let terminals = ["\u{1b}]0;mine\u{7}", "two\nlines", "\u{9b}31m", "\u{7f}", "\0"];
        let directions = ["\u{202e}gnp.exe", "a\u{2066}b", "\u{200f}", "\u{61c}", "a\u{2028}b"];
        for control in terminals.into_iter().chain(directions) {
            let bytes: Vec<u8> =
                std::iter::once(control.len() as u8).chain(control.bytes()).collect();
            assert_eq!(
                Reader::new(&bytes).text("name", 64),
                Err(WireError::ControlCharacter("name")),
                "{control:?}"
            );
            let mut out = Vec::new();
            put_text(&mut out, control, 64);
            assert!(
                Reader::new(&out).text("name", 64).is_ok_and(|text| text.contains(' ')),
                "{control:?}"
            );
        }
    }

    #[test]
    fn what_is_printed_controls_no_terminal() {
        assert_eq!(printable("a\tb\n\u{1b}[2J\u{202e}c"), "a\tb\n\u{fffd}[2J\u{fffd}c");
        assert!(matches!(printable("día, 日本, שלום"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_long_text_is_truncated_at_a_character() {
        let mut out = Vec::new();
        put_text(&mut out, "aéé", 4);
        assert_eq!(Reader::new(&out).text("name", 4), Ok("aé"));
        assert_eq!(Reader::new(&[2, 0xff, 0xff]).text("name", 4), Err(WireError::NotUtf8("name")));
    }
}
