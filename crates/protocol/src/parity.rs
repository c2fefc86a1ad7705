//! `PARITY`: redundancy for the last bytes of a session's stream, sent only as datagrams, so that
//! a viewer repairs lost packets without waiting for their retransmission.
//! Knows the layout and the limits; the code itself is in transport's `parity.rs`.

use crate::framing::{MessageFrame, put_message};
use crate::limits::{PARITIES_MAX, PARITY_GROUP_BYTES_MAX};
use crate::wire::{Reader, WireError, put_varint};

/// The message's kind among those of a session.
pub const KIND: u8 = 0x15;
/// Bytes of one symbol of the code. A lost packet takes all symbols that it touches: small ones
/// waste little at its edges.
pub const SYMBOL_BYTES: usize = 128;

/// QUIC's limit of a stream (RFC 9000, 4.5).
const STREAM_BYTES_MAX: u64 = (1 << 62) - 1;

/// Some parities of a group: of consecutive bytes of the stream, cut into symbols of
/// [`SYMBOL_BYTES`], the last filled up with zeros. The group's symbols can be computed from any so
/// many of its symbols and parities as it has symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// Position of the group's first byte in the stream, where the hello begins at 0.
    pub start: u64,
    /// Bytes of the group, 1 to `PARITY_GROUP_BYTES_MAX`.
    pub bytes: u32,
    /// Parities that the group has in all, 1 to `PARITIES_MAX`.
    pub parities: u16,
    /// Number of the first one here, below `parities`.
    pub first: u16,
    /// The parities from `first` on, [`SYMBOL_BYTES`] each; at least one.
    pub symbols: &'a [u8],
}

impl<'a> Parity<'a> {
    /// Appends the message.
    ///
    /// 0x15 PARITY  start varint64 | bytes varint | parities varint | first varint | symbols
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_message(out, KIND, |out| {
            put_varint(out, self.start);
            put_varint(out, u64::from(self.bytes));
            put_varint(out, u64::from(self.parities));
            put_varint(out, u64::from(self.first));
            out.extend_from_slice(self.symbols);
        });
    }

    /// Reads the message.
    ///
    /// # Errors
    /// It is another message, or a field is beyond its limit.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<Parity<'a>, WireError> {
        if frame.kind != KIND {
            let (what, value) = ("a message of parities, of kind", u64::from(frame.kind));
            return Err(WireError::Unknown { what, value });
        }
        let mut reader = Reader::new(frame.body);
        let start = reader.varint("a group's start")?;
        let bytes = reader.at_most("a group's bytes", u64::from(PARITY_GROUP_BYTES_MAX))? as u32;
        let parities = reader.at_most("a count of parities", u64::from(PARITIES_MAX))? as u16;
        let first = reader.at_most("a parity's number", u64::from(PARITIES_MAX))? as u16;
        let symbols = reader.rest();
        let count = symbols.len() / SYMBOL_BYTES;
        if bytes == 0 || count == 0 || !symbols.len().is_multiple_of(SYMBOL_BYTES) {
            return Err(WireError::Truncated("a group of parities"));
        }
        if start > STREAM_BYTES_MAX - u64::from(bytes) {
            return Err(WireError::Overflow("a group's end"));
        }
        let (what, limit) = ("the number behind the last parity", u64::from(parities));
        let value = u64::from(first) + count as u64;
        if value > limit {
            return Err(WireError::OverLimit { what, value, limit });
        }
        Ok(Parity { start, bytes, parities, first, symbols })
    }

    /// Symbols of the group.
    pub fn originals(&self) -> usize {
        (self.bytes as usize).div_ceil(SYMBOL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let symbols = [7; 2 * SYMBOL_BYTES];
        let parity = Parity { start: 300, bytes: 1000, parities: 5, first: 3, symbols: &symbols };
        let mut out = Vec::new();
        parity.encode(&mut out);
        assert_eq!(out[..9], [0x15, 0x86, 0x02, 0xac, 0x02, 0xe8, 0x07, 5, 3]);
        assert_eq!(out[9..], symbols);
        assert_eq!(Parity::decode(&MessageFrame::from_datagram(&out).unwrap()), Ok(parity));
        assert_eq!(parity.originals(), 8);
    }

    #[test]
    fn groups_beyond_their_limits_are_refused() {
        let symbols = [7; 2 * SYMBOL_BYTES];
        let good = Parity { start: 0, bytes: 1000, parities: 5, first: 3, symbols: &symbols };
        for bad in [
            Parity { bytes: 0, ..good },
            Parity { bytes: PARITY_GROUP_BYTES_MAX + 1, ..good },
            Parity { parities: PARITIES_MAX + 1, ..good },
            Parity { parities: 0, ..good },
            Parity { first: 4, ..good },
            Parity { first: u16::MAX, ..good },
            Parity { start: u64::MAX, ..good },
            Parity { start: u64::MAX - 10, bytes: 10, parities: 5, ..good },
            Parity { start: STREAM_BYTES_MAX - 999, ..good },
            Parity { symbols: &[], ..good },
            Parity { symbols: &symbols[1..], ..good },
        ] {
            let mut out = Vec::new();
            bad.encode(&mut out);
            let frame = MessageFrame::from_datagram(&out).unwrap();
            assert!(Parity::decode(&frame).is_err(), "{bad:?}");
        }
    }
}
