//! Path beside the pixels, both ways: the clipboard, between session-core and viewer-core.
//! Messages that both sides say in the same bytes: what is offered, what is asked for, and its content in small pieces.
//! Knows fields and limits; never which program copied something.

use crate::frame::{Frame, put_frame};
use crate::limits::CLIP_DATA_BYTES_MAX;
use crate::wire::{Reader, WireError, put_varint};

/// Which of X's selections; the same two elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selection {
    /// What was copied (`CLIPBOARD`).
    Clipboard,
    /// What is marked (`PRIMARY`).
    Primary,
}

/// What a content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClipFormat {
    /// UTF-8 without a byte order mark; lines end in LF.
    Text,
    /// UTF-8, `text/html`.
    Html,
    /// `image/png`.
    Png,
}

/// Formats as bits, `1 << format`; bits without a meaning are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClipFormats(u32);

/// Why a transfer ended before its content was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipEnd {
    /// The one who asked no longer wants it.
    Cancelled,
    /// The offer is not the newest, or its owner has gone.
    Gone,
    /// The content is longer than a side takes.
    TooLarge {
        /// Its length as far as it is known, in bytes; 0 where it is not.
        bytes: u64,
        /// What is taken, in bytes.
        limit: u64,
    },
    /// The owner did not give it in time, or gave something else.
    Failed,
}

/// What either side says about a clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipMessage {
    /// Something on this side owns the selection now, or nothing does any more.
    Offer {
        /// Which.
        selection: Selection,
        /// Names this offer; grows from 1 with each of this side, whatever the selection.
        serial: u32,
        /// The newest offer of the other side that had come when this was made; 0 where none had. Tells offers that cross.
        seen: u32,
        /// What there is to have; none: nothing.
        formats: ClipFormats,
    },
    /// Asks for the content of the other side's offer.
    Request {
        /// Names the transfer, chosen by who asks; not one that is under way.
        id: u32,
        /// Of which selection.
        selection: Selection,
        /// Of which offer.
        serial: u32,
        /// In which form.
        format: ClipFormat,
    },
    /// The next bytes of a content.
    Data {
        /// The transfer.
        id: u32,
        /// Nothing comes after these.
        last: bool,
        /// At most `CLIP_DATA_BYTES_MAX`.
        bytes: Vec<u8>,
    },
    /// These bytes of a transfer have arrived, counted from its beginning: who sends may send more.
    Taken {
        /// The transfer.
        id: u32,
        /// In bytes.
        bytes: u64,
    },
    /// A transfer ends here; said by whoever gives up, and answered by nothing.
    End {
        /// The transfer.
        id: u32,
        /// By whom: true where the one who asked for it says so.
        asker: bool,
        /// Why.
        why: ClipEnd,
    },
}

/// Kinds of these frames, the same in both directions.
mod kind {
    pub(super) const OFFER: u8 = 0x10;
    pub(super) const REQUEST: u8 = 0x11;
    pub(super) const DATA: u8 = 0x12;
    pub(super) const TAKEN: u8 = 0x13;
    pub(super) const END: u8 = 0x14;
}

impl Selection {
    /// Both.
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
    /// All of them, in the order of their numbers.
    pub const ALL: [ClipFormat; 3] = [ClipFormat::Text, ClipFormat::Html, ClipFormat::Png];

    fn read(reader: &mut Reader<'_>) -> Result<ClipFormat, WireError> {
        let number = reader.u8("a clipboard's format")?;
        let unknown = WireError::Unknown { what: "a clipboard's format", value: u64::from(number) };
        ClipFormat::ALL.get(usize::from(number)).copied().ok_or(unknown)
    }
}

impl ClipFormats {
    /// None.
    pub const NONE: ClipFormats = ClipFormats(0);

    /// The same and this one.
    pub const fn with(self, format: ClipFormat) -> ClipFormats {
        ClipFormats(self.0 | 1 << format as u32)
    }

    /// It is among them.
    pub const fn has(self, format: ClipFormat) -> bool {
        self.0 & 1 << format as u32 != 0
    }

    /// There are none that this version knows.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// Those that this version knows.
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
    /// True for kinds that [`ClipMessage::decode`] reads.
    pub(crate) const fn is_kind(kind: u8) -> bool {
        matches!(kind, kind::OFFER..=kind::END)
    }

    /// Appends the frame.
    ///
    /// ```text
    /// 0x10 CLIP OFFER    selection u8 | serial varint | seen varint | formats varint
    /// 0x11 CLIP REQUEST  id varint | selection u8 | serial varint | format u8
    /// 0x12 CLIP DATA     id varint | last u8 | bytes
    /// 0x13 CLIP TAKEN    id varint | bytes varint
    /// 0x14 CLIP END      id varint | asker u8 | why u8 [ | bytes varint | limit varint ]
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ClipMessage::Offer { selection, serial, seen, formats } => put_frame(out, kind::OFFER, |out| {
                out.push(*selection as u8);
                put_varint(out, u64::from(*serial));
                put_varint(out, u64::from(*seen));
                put_varint(out, u64::from(formats.0));
            }),
            ClipMessage::Request { id, selection, serial, format } => put_frame(out, kind::REQUEST, |out| {
                put_varint(out, u64::from(*id));
                out.push(*selection as u8);
                put_varint(out, u64::from(*serial));
                out.push(*format as u8);
            }),
            ClipMessage::Data { id, last, bytes } => put_frame(out, kind::DATA, |out| {
                assert!(bytes.len() <= CLIP_DATA_BYTES_MAX, "a piece of a clipboard is at most {CLIP_DATA_BYTES_MAX}");
                put_varint(out, u64::from(*id));
                out.push(u8::from(*last));
                out.extend_from_slice(bytes);
            }),
            ClipMessage::Taken { id, bytes } => put_frame(out, kind::TAKEN, |out| {
                put_varint(out, u64::from(*id));
                put_varint(out, *bytes);
            }),
            ClipMessage::End { id, asker, why } => put_frame(out, kind::END, |out| {
                put_varint(out, u64::from(*id));
                out.push(u8::from(*asker));
                match why {
                    ClipEnd::Cancelled => out.push(0),
                    ClipEnd::Gone => out.push(1),
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

    /// Reads a frame of one of these kinds.
    pub(crate) fn decode(frame: &Frame<'_>) -> Result<ClipMessage, WireError> {
        let mut reader = Reader::new(frame.body);
        let reader = &mut reader;
        let (message, what) = match frame.kind {
            kind::OFFER => {
                let (selection, serial) = (Selection::read(reader)?, reader.u32("an offer's number")?);
                let seen = reader.u32("the offer seen")?;
                let formats = ClipFormats(reader.u32("an offer's formats")?);
                (ClipMessage::Offer { selection, serial, seen, formats }, "a clipboard's offer")
            }
            kind::REQUEST => {
                let id = reader.u32("a transfer's number")?;
                let (selection, serial) = (Selection::read(reader)?, reader.u32("an offer's number")?);
                let format = ClipFormat::read(reader)?;
                (ClipMessage::Request { id, selection, serial, format }, "a clipboard's request")
            }
            kind::DATA => {
                let (id, last) = (reader.u32("a transfer's number")?, read_bool(reader, "a transfer's last")?);
                let bytes = reader.rest();
                if bytes.len() > CLIP_DATA_BYTES_MAX {
                    let (value, limit) = (bytes.len() as u64, CLIP_DATA_BYTES_MAX as u64);
                    return Err(WireError::TooMuch { what: "a piece of a clipboard", value, limit });
                }
                (ClipMessage::Data { id, last, bytes: bytes.to_vec() }, "a piece of a clipboard")
            }
            kind::TAKEN => {
                let (id, bytes) = (reader.u32("a transfer's number")?, reader.varint("a transfer's bytes")?);
                (ClipMessage::Taken { id, bytes }, "a transfer's state")
            }
            kind::END => {
                let (id, asker) = (reader.u32("a transfer's number")?, read_bool(reader, "who ends a transfer")?);
                let why = match reader.u8("why a transfer ends")? {
                    0 => ClipEnd::Cancelled,
                    1 => ClipEnd::Gone,
                    2 => ClipEnd::TooLarge {
                        bytes: reader.varint("a clipboard's length")?,
                        limit: reader.varint("a clipboard's limit")?,
                    },
                    3 => ClipEnd::Failed,
                    other => {
                        return Err(WireError::Unknown { what: "why a transfer ends", value: u64::from(other) });
                    }
                };
                (ClipMessage::End { id, asker, why }, "a transfer's end")
            }
            other => return Err(WireError::Unknown { what: "a clipboard's frame of kind", value: u64::from(other) }),
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
