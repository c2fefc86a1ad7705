//! Beside the path: what a program wants of a document that it prints, from session-server, in an
//! offer of files, to the viewer's printer. Knows fields and limits; never a printer.

use crate::limits::{PRINT_COPIES_MAX, PRINT_MEDIA_BYTES_MAX, PRINT_TITLE_BYTES_MAX};
use crate::wire::{Reader, WireError, put_text, put_varint};

/// Which sides of the paper are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrintSides {
    /// One.
    #[default]
    One,
    /// Both, to be turned over the long edge.
    LongEdge,
    /// Both, to be turned over the short edge.
    ShortEdge,
}

/// What a program wants of a document that it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintTicket {
    /// The document's title, for people; at most `PRINT_TITLE_BYTES_MAX`.
    pub title: String,
    /// From 1 to `PRINT_COPIES_MAX`.
    pub copies: u16,
    /// Sides of the paper.
    pub sides: PrintSides,
    /// In colour, or in shades of grey.
    pub colour: bool,
    /// The paper as PWG 5101.1 names it (`iso_a4_210x297mm`); empty if the program names none. At
    /// most `PRINT_MEDIA_BYTES_MAX` of a-z, 0-9, `_`, `.` and `-`.
    pub media: String,
}

impl PrintTicket {
    /// ```text
    /// title text | copies varint | sides u8 (0 one, 1 long edge, 2 short edge)
    /// | colour u8 (0 grey, 1 colour) | media text
    /// ```
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(is_media(&self.media), "paper has a name of PWG 5101.1");
        put_text(out, &self.title, PRINT_TITLE_BYTES_MAX);
        put_varint(out, u64::from(self.copies));
        out.extend([self.sides as u8, u8::from(self.colour)]);
        put_text(out, &self.media, PRINT_MEDIA_BYTES_MAX);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<PrintTicket, WireError> {
        let title = reader.text("a printed document's title", PRINT_TITLE_BYTES_MAX)?.to_owned();
        let copies = reader.at_most("copies", u64::from(PRINT_COPIES_MAX))? as u16;
        let unknown = |what, value| Err(WireError::Unknown { what, value: u64::from(value) });
        if copies == 0 {
            return unknown("copies", 0);
        }
        let sides = match reader.u8("the sides of paper")? {
            0 => PrintSides::One,
            1 => PrintSides::LongEdge,
            2 => PrintSides::ShortEdge,
            other => return unknown("the sides of paper", other),
        };
        let colour = match reader.u8("a document's colour")? {
            byte @ 0..=1 => byte == 1,
            other => return unknown("a document's colour", other),
        };
        let media = reader.text("a paper's name", PRINT_MEDIA_BYTES_MAX)?;
        if !is_media(media) {
            return unknown("a paper's name", 0);
        }
        Ok(PrintTicket { title, copies, sides, colour, media: media.to_owned() })
    }
}

/// Nothing in it can be taken for an option by a program.
fn is_media(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    name.bytes().all(is_plain) && !name.starts_with('-')
}
