//! What the printer (thinc-desk) and the session process say to each other, byte by byte. From
//! printer.rs, by a Unix socket, to session-server, and back. Knows bytes; no sockets and no clock.
//!
//! ```text
//! both      version u8                                           first, and once
//! printer   1 | number u32 | copies u16 | sides u8 | colour u8 | title text | file text
//!           | media text                                         a job whose document is there
//!           2 | number u32                                       it is not wanted any more
//! session   3 | number u32 | state u8 | words text               state: 0 it waits, 1 it is sent,
//!                                                  2 done, 3 not wanted, 4 failed
//! text      length u16 | bytes of UTF-8
//! ```
//! All numbers are little-endian. `file` is the document's name in the folder `number` of the
//! spool. Jobs that have not ended are told again on each connection, since both processes may be
//! restarted, and be of different builds: the version says whether they understand each other.

use crate::job::{COPIES_MAX, MEDIA_BYTES_MAX, Sides, TITLE_BYTES_MAX, Ticket, one_line};
use crate::name::file_name;

/// First byte of both sides.
pub const LINK_VERSION: u8 = 1;
/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Longest words about a job, in bytes.
pub const WORDS_BYTES_MAX: usize = 255;
/// Longest name of a document, in bytes.
const FILE_BYTES_MAX: usize = 255;

const JOB: u8 = 1;
const CANCEL: u8 = 2;
const STATE: u8 = 3;

const _: () = assert!(
    9 + 6 + TITLE_BYTES_MAX + FILE_BYTES_MAX + MEDIA_BYTES_MAX <= MESSAGE_BYTES_MAX
        && 6 + 2 + WORDS_BYTES_MAX <= MESSAGE_BYTES_MAX
);

/// A job whose document is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its number, unique in a session.
    pub number: u32,
    /// What the program wants.
    pub ticket: Ticket,
    /// The document's name as a file: one component, as `file_name` makes it.
    pub file: String,
}

/// How far the session is with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for a viewer.
    Waiting,
    /// It is sent to one.
    Sending,
    /// A viewer has it.
    Done,
    /// The person at the viewer does not want it.
    Unwanted,
    /// It failed.
    Failed,
}

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A job for a viewer.
    Job(Document),
    /// A job that is not wanted any more.
    Cancel(u32),
    /// What becomes of a job.
    State {
        /// The job.
        number: u32,
        /// How far it is.
        state: State,
        /// Why, for people; at most `WORDS_BYTES_MAX`.
        words: String,
    },
}

/// Bytes that are no message: the other side is of another build, or broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Its first byte.
    #[error("byte {0} begins no message about print jobs")]
    Unknown(u8),
    /// A text beyond its limit.
    #[error("the {what} of a print job has {bytes} bytes, {limit} at most")]
    Text {
        /// "title", …
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A text that is not UTF-8, or is not as it was made.
    #[error("the {0} of a print job is not valid")]
    Invalid(&'static str),
    /// A number that has no meaning.
    #[error("{value} is not possible as the {what} of a print job")]
    Value {
        /// "copies", …
        what: &'static str,
        /// What was received.
        value: u16,
    },
}

impl Message {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, text: &str, limit: usize| {
            let text = &text[..text.floor_char_boundary(limit)];
            out.extend((text.len() as u16).to_le_bytes());
            out.extend(text.as_bytes());
        };
        match self {
            Message::Job(Document { number, ticket, file }) => {
                out.push(JOB);
                out.extend(number.to_le_bytes());
                out.extend(ticket.copies.to_le_bytes());
                out.extend([ticket.sides as u8, u8::from(ticket.colour)]);
                text(out, &ticket.title, TITLE_BYTES_MAX);
                text(out, file, FILE_BYTES_MAX);
                text(out, &ticket.media, MEDIA_BYTES_MAX);
            }
            Message::Cancel(number) => {
                out.push(CANCEL);
                out.extend(number.to_le_bytes());
            }
            Message::State { number, state, words } => {
                out.push(STATE);
                out.extend(number.to_le_bytes());
                out.push(*state as u8);
                text(out, &one_line(words, WORDS_BYTES_MAX), WORDS_BYTES_MAX);
            }
        }
    }

    /// Reads the first message and how long it is; None: not all of it is there.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, LinkError> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
        let mut reader = Reader { rest };
        let message = match kind {
            JOB => reader.job()?,
            CANCEL => reader.u32().map(Message::Cancel),
            STATE => reader.state()?,
            other => return Err(LinkError::Unknown(other)),
        };
        Ok(message.map(|message| (message, bytes.len() - reader.rest.len())))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// None: not all of it is there.
    fn text(&mut self, what: &'static str, limit: usize) -> Result<Option<String>, LinkError> {
        let Some(bytes) = self.u16().map(usize::from) else { return Ok(None) };
        if bytes > limit {
            return Err(LinkError::Text { what, bytes, limit });
        }
        let Some(text) = self.take(bytes) else { return Ok(None) };
        let text = std::str::from_utf8(text).map_err(|_| LinkError::Invalid(what))?;
        if one_line(text, limit) != text {
            return Err(LinkError::Invalid(what));
        }
        Ok(Some(text.to_owned()))
    }

    fn job(&mut self) -> Result<Option<Message>, LinkError> {
        let (Some(number), Some(copies), Some(sides), Some(colour)) =
            (self.u32(), self.u16(), self.u8(), self.u8())
        else {
            return Ok(None);
        };
        if copies == 0 || copies > COPIES_MAX {
            return Err(LinkError::Value { what: "copies", value: copies });
        }
        let sides = match sides {
            0 => Sides::One,
            1 => Sides::LongEdge,
            2 => Sides::ShortEdge,
            other => return Err(LinkError::Value { what: "sides", value: other.into() }),
        };
        let Some(title) = self.text("title", TITLE_BYTES_MAX)? else { return Ok(None) };
        let Some(file) = self.text("file", FILE_BYTES_MAX)? else { return Ok(None) };
        if file_name(&file) != file {
            return Err(LinkError::Invalid("file"));
        }
        let Some(media) = self.text("media", MEDIA_BYTES_MAX)? else { return Ok(None) };
        let ticket = Ticket { title, copies, sides, colour: colour != 0, media };
        Ok(Some(Message::Job(Document { number, ticket, file })))
    }

    fn state(&mut self) -> Result<Option<Message>, LinkError> {
        let (Some(number), Some(state)) = (self.u32(), self.u8()) else { return Ok(None) };
        let state = match state {
            0 => State::Waiting,
            1 => State::Sending,
            2 => State::Done,
            3 => State::Unwanted,
            4 => State::Failed,
            other => return Err(LinkError::Value { what: "state", value: other.into() }),
        };
        let words = self.text("words", WORDS_BYTES_MAX)?;
        Ok(words.map(|words| Message::State { number, state, words }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(title: &str, file: &str) -> Message {
        let ticket = Ticket {
            title: title.to_owned(),
            copies: 2,
            sides: Sides::ShortEdge,
            colour: true,
            media: "iso_a4_210x297mm".to_owned(),
        };
        Message::Job(Document { number: 7, ticket, file: file.to_owned() })
    }

    fn bytes(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let words = "No viewer".to_owned();
        for message in [
            document("Report", "Report.pdf"),
            Message::Cancel(9),
            Message::State { number: 3, state: State::Failed, words },
        ] {
            let mut encoded = bytes(&message);
            let length = encoded.len();
            for cut in 0..length {
                assert_eq!(Message::decode(&encoded[..cut]), Ok(None), "cut at {cut}");
            }
            encoded.push(9);
            assert_eq!(Message::decode(&encoded), Ok(Some((message, length))));
        }
        let encoded = bytes(&document("R", "R.pdf"));
        assert_eq!(encoded[..15], [1, 7, 0, 0, 0, 2, 0, 2, 1, 1, 0, b'R', 5, 0, b'R']);
        assert_eq!(bytes(&Message::Cancel(9)), [2, 9, 0, 0, 0]);
    }

    #[test]
    fn what_leads_out_of_the_spool_is_no_message() {
        for file in ["../x.pdf", "a/b.pdf", ".pdf", "-x.pdf", "x", "", "a\n.pdf"] {
            let decoded = Message::decode(&bytes(&document("t", file)));
            assert_eq!(decoded, Err(LinkError::Invalid("file")), "{file:?}");
        }
        let decoded = Message::decode(&bytes(&document("a\u{202e}b", "a.pdf")));
        assert_eq!(decoded, Err(LinkError::Invalid("title")));
        assert_eq!(Message::decode(&[4]), Err(LinkError::Unknown(4)));
        let copies = [1, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Message::decode(&copies), Err(LinkError::Value { what: "copies", value: 0 }));
        let long = [1, 7, 0, 0, 0, 1, 0, 0, 0, 0, 1];
        let (what, bytes, limit) = ("title", 256, 255);
        assert_eq!(Message::decode(&long), Err(LinkError::Text { what, bytes, limit }));
    }
}
