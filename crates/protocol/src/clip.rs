//! Beside the path, in both directions: the clipboard, between session-core and viewer-core. The
//! messages have the same bytes in both directions: offers, requests, and content in small chunks.
//! Knows fields and limits; never which program owns a selection.

use crate::framing::{MessageFrame, put_message};
use crate::limits::CLIP_DATA_BYTES_MAX;
use crate::wire::{Reader, WireError, put_varint};

/// One of X's selections; Wayland has the same two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selection {
    /// Copied content (`CLIPBOARD`).
    Clipboard,
    /// Selected content (`PRIMARY`).
    Primary,
}

/// Format of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClipFormat {
    /// UTF-8 without a byte order mark; lines end with LF.
    Text,
    /// UTF-8, `text/html`.
    Html,
    /// `image/png`.
    Png,
    /// Files and folders, as file_bundle.rs describes.
    Files,
}

/// A set of formats as bits, `1 << format`; undefined bits are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClipFormats(u32);

/// Why a transfer ended before its content was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipEnd {
    /// The requester no longer wants it.
    Cancelled,
    /// The offer is no longer the newest one, or its owner has exited.
    Unavailable,
    /// The content is longer than one side accepts.
    TooLarge {
        /// Its length in bytes, or what is known of it; 0 if unknown.
        bytes: u64,
        /// What is accepted, in bytes.
        limit: u64,
    },
    /// The owner did not deliver it in time, or delivered another format.
    Failed,
}

/// A clipboard message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipMessage {
    /// A program on this side owns the selection now, or none does any more.
    Offer {
        /// Which.
        selection: Selection,
        /// Number of this offer, from 1 upwards for each side, counted over both selections.
        serial: u32,
        /// The peer's newest offer that had been received when this one was made; 0 for none. It
        /// detects offers that cross.
        seen: u32,
        /// Available formats; none: the selection has no owner.
        formats: ClipFormats,
    },
    /// Requests the content of the peer's offer.
    Request {
        /// Number of the transfer, chosen by the requester; not that of one in progress.
        id: u32,
        /// The selection.
        selection: Selection,
        /// The offer's number.
        serial: u32,
        /// The wanted format.
        format: ClipFormat,
    },
    /// The next chunk of a content.
    Data {
        /// The transfer.
        id: u32,
        /// True for the last chunk.
        last: bool,
        /// At most `CLIP_DATA_BYTES_MAX`.
        bytes: Vec<u8>,
    },
    /// Flow control: so many bytes of a transfer have been received, so the owner may send more.
    Received {
        /// The transfer.
        id: u32,
        /// Counted from the beginning of the content.
        bytes: u64,
    },
    /// Ends a transfer early; either side may send it, and it is not answered.
    End {
        /// The transfer.
        id: u32,
        /// True if the requester ended it, false if the owner did.
        by_requester: bool,
        /// Why.
        why: ClipEnd,
    },
}

/// Kinds of these messages, the same in both directions.
mod kind {
    pub(super) const OFFER: u8 = 0x10;
    pub(super) const REQUEST: u8 = 0x11;
    pub(super) const DATA: u8 = 0x12;
    pub(super) const RECEIVED: u8 = 0x13;
    pub(super) const END: u8 = 0x14;
}

impl Selection {
    /// Both selections.
    pub const ALL: [Selection; 2] = [Selection::Clipboard, Selection::Primary];

    fn read(reader: &mut Reader<'_>) -> Result<Selection, WireError> {
        match reader.u8("a selection")? {
            0 => Ok(Selection::Clipboard),
            1 => Ok(Selection::Primary),
            other => Err(WireError::Unknown { what: "a selection", value: u64::from(other) }),
        }
    }
}

impl ClipFormat {
    /// All formats, in the order of their numbers.
    pub const ALL: [ClipFormat; 4] =
        [ClipFormat::Text, ClipFormat::Html, ClipFormat::Png, ClipFormat::Files];

    fn read(reader: &mut Reader<'_>) -> Result<ClipFormat, WireError> {
        let number = reader.u8("a clipboard's format")?;
        let unknown = WireError::Unknown { what: "a clipboard's format", value: u64::from(number) };
        ClipFormat::ALL.get(usize::from(number)).copied().ok_or(unknown)
    }
}

impl ClipFormats {
    /// The empty set.
    pub const NONE: ClipFormats = ClipFormats(0);

    /// This set and `format`.
    pub const fn with(self, format: ClipFormat) -> ClipFormats {
        ClipFormats(self.0 | 1 << format as u32)
    }

    /// This set without `format`.
    #[must_use]
    pub const fn without(self, format: ClipFormat) -> ClipFormats {
        ClipFormats(self.0 & !(1 << format as u32))
    }

    /// True if the set contains `format`.
    pub const fn has(self, format: ClipFormat) -> bool {
        self.0 & 1 << format as u32 != 0
    }

    /// True if the set contains no format that this version knows.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// The formats that this version knows.
    pub fn iter(self) -> impl Iterator<Item = ClipFormat> {
        ClipFormat::ALL.into_iter().filter(move |&format| self.has(format))
    }
}

impl FromIterator<ClipFormat> for ClipFormats {
    fn from_iter<I: IntoIterator<Item = ClipFormat>>(formats: I) -> ClipFormats {
        formats.into_iter().fold(ClipFormats::NONE, ClipFormats::with)
    }
}

impl ClipMessage {
    /// True for the kinds that [`ClipMessage::decode`] reads.
    pub(crate) const fn is_kind(kind: u8) -> bool {
        matches!(kind, kind::OFFER..=kind::END)
    }

    /// Appends the message.
    ///
    /// ```text
    /// 0x10 CLIP OFFER    selection u8 | serial varint | seen varint | formats varint
    /// 0x11 CLIP REQUEST  id varint | selection u8 | serial varint | format u8
    /// 0x12 CLIP DATA     id varint | last u8 | bytes
    /// 0x13 CLIP RECEIVED id varint | bytes varint
    /// 0x14 CLIP END      id varint | by_requester u8 | why u8 [ | bytes varint | limit varint ]
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ClipMessage::Offer { selection, serial, seen, formats } => {
                put_message(out, kind::OFFER, |out| {
                    out.push(*selection as u8);
                    put_varint(out, u64::from(*serial));
                    put_varint(out, u64::from(*seen));
                    put_varint(out, u64::from(formats.0));
                })
            }
            ClipMessage::Request { id, selection, serial, format } => {
                put_message(out, kind::REQUEST, |out| {
                    put_varint(out, u64::from(*id));
                    out.push(*selection as u8);
                    put_varint(out, u64::from(*serial));
                    out.push(*format as u8);
                })
            }
            ClipMessage::Data { id, last, bytes } => put_message(out, kind::DATA, |out| {
                assert!(
                    bytes.len() <= CLIP_DATA_BYTES_MAX,
                    "a chunk of a clipboard must have at most {CLIP_DATA_BYTES_MAX} bytes"
                );
                put_varint(out, u64::from(*id));
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
            }),
            ClipMessage::Received { id, bytes } => put_message(out, kind::RECEIVED, |out| {
                put_varint(out, u64::from(*id));
                put_varint(out, *bytes);
            }),
            ClipMessage::End { id, by_requester, why } => put_message(out, kind::END, |out| {
                put_varint(out, u64::from(*id));
                out.push(u8::from(*by_requester));
                match why {
                    ClipEnd::Cancelled => out.push(0),
                    ClipEnd::Unavailable => out.push(1),
                    ClipEnd::TooLarge { bytes, limit } => {
                        out.push(2);
                        put_varint(out, *bytes);
                        put_varint(out, *limit);
                    }
                    ClipEnd::Failed => out.push(3),
                }
            }),
        }
    }

    /// Reads a message of one of these kinds.
    pub(crate) fn decode(frame: &MessageFrame<'_>) -> Result<ClipMessage, WireError> {
        let mut reader = Reader::new(frame.body);
        let reader = &mut reader;
        let (message, what) = match frame.kind {
            kind::OFFER => {
                let (selection, serial) =
                    (Selection::read(reader)?, reader.u32("an offer's number")?);
                let seen = reader.u32("the offer seen")?;
                let formats = ClipFormats(reader.u32("an offer's formats")?);
                (ClipMessage::Offer { selection, serial, seen, formats }, "a clipboard's offer")
            }
            kind::REQUEST => {
                let id = reader.u32("a transfer's number")?;
                let (selection, serial) =
                    (Selection::read(reader)?, reader.u32("an offer's number")?);
                let format = ClipFormat::read(reader)?;
                (ClipMessage::Request { id, selection, serial, format }, "a clipboard's request")
            }
            kind::DATA => {
                let (id, last) =
                    (reader.u32("a transfer's number")?, read_bool(reader, "a transfer's last")?);
                let bytes = reader.rest();
                if bytes.len() > CLIP_DATA_BYTES_MAX {
                    let (value, limit) = (bytes.len() as u64, CLIP_DATA_BYTES_MAX as u64);
                    return Err(WireError::OverLimit {
                        what: "a chunk of a clipboard",
                        value,
                        limit,
                    });
                }
                (ClipMessage::Data { id, last, bytes: bytes.to_vec() }, "a chunk of a clipboard")
            }
            kind::RECEIVED => {
                let (id, bytes) =
                    (reader.u32("a transfer's number")?, reader.varint("a transfer's bytes")?);
                (ClipMessage::Received { id, bytes }, "a transfer's progress")
            }
            kind::END => {
                let (id, by_requester) =
                    (reader.u32("a transfer's number")?, read_bool(reader, "who ends a transfer")?);
                let why = match reader.u8("why a transfer ends")? {
                    0 => ClipEnd::Cancelled,
                    1 => ClipEnd::Unavailable,
                    2 => ClipEnd::TooLarge {
                        bytes: reader.varint("a clipboard's length")?,
                        limit: reader.varint("a clipboard's limit")?,
                    },
                    3 => ClipEnd::Failed,
                    other => {
                        return Err(WireError::Unknown {
                            what: "why a transfer ends",
                            value: u64::from(other),
                        });
                    }
                };
                (ClipMessage::End { id, by_requester, why }, "a transfer's end")
            }
            other => {
                return Err(WireError::Unknown {
                    what: "a clipboard message of kind",
                    value: u64::from(other),
                });
            }
        };
        reader.end(what)?;
        Ok(message)
    }
}

fn read_bool(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, WireError> {
    match reader.u8(what)? {
        byte @ 0..=1 => Ok(byte == 1),
        other => Err(WireError::Unknown { what, value: u64::from(other) }),
    }
}
