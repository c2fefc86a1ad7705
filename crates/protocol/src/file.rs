//! Beside the path, in both directions: files, between session-core and viewer-core. The messages
//! have the same bytes in both directions: offers, answers, and content in small chunks.
//! Knows fields, limits and which paths are safe; never a file system.

use crate::framing::{MessageFrame, put_message};
use crate::limits::{
    FILE_BYTES_MAX, FILE_DATA_BYTES_MAX, FILE_DEPTH_MAX, FILE_ENTRIES_MAX, FILE_NAME_BYTES_MAX,
    FILE_PATH_BYTES_MAX,
};
use crate::print::PrintTicket;
use crate::wire::{Reader, WireError, is_deceptive, put_text, put_varint};

/// Length of a SHA-256 hash, in bytes.
pub const FILE_HASH_BYTES: usize = 32;

/// What the offered files are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePurpose {
    /// A person sends them: they belong into a folder of received files.
    Sent,
    /// A person dropped them here, in pixels of the session's screen; only from a viewer.
    Dropped {
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// A program prints it: one PDF document, which the viewer prints; only from a session.
    Printed(Box<PrintTicket>),
}

/// A file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder; what it contains has entries of its own.
    Folder,
}

/// One entry of an offer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileEntry {
    /// A file, or a folder.
    pub kind: FileKind,
    /// Bytes; 0 for a folder.
    pub size: u64,
    /// When it was modified, in milliseconds since 1970; 0 if unknown.
    pub modified_ms: u64,
    /// Relative path with `/` between its components; [`check_path`] accepts it.
    pub path: String,
}

/// Why a path is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is too long.
    #[error("has {bytes} bytes; the limit is {FILE_PATH_BYTES_MAX}")]
    Long {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has too many components.
    #[error("has {depth} components; the limit is {FILE_DEPTH_MAX}")]
    Deep {
        /// Their number.
        depth: usize,
    },
    /// A component is too long.
    #[error("has a component of {bytes} bytes; the limit is {FILE_NAME_BYTES_MAX}")]
    Component {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It is absolute, ends with `/`, is empty or contains `//`.
    #[error("has an empty component")]
    Empty,
    /// A component is `.` or `..`.
    #[error("has the component . or ..")]
    Dots,
    /// It would be hidden from the person who receives it.
    #[error("begins with a dot, so that it would be hidden")]
    Hidden,
    /// Programs would take it for an option.
    #[error("has a component that begins with -, which programs take for an option")]
    Option,
    /// A character that no text of the protocol contains, or a backslash, which separates
    /// components on other systems.
    #[error("contains a character that file names may not contain")]
    Character,
}

/// Accepts a path that can be created beneath a folder and means the same to every program: not
/// absolute, no `..`, no hidden first component, no option, nothing invisible.
///
/// # Errors
/// Why it is not accepted.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.len() > FILE_PATH_BYTES_MAX {
        return Err(PathError::Long { bytes: path.len() });
    }
    let depth = path.split('/').count();
    if depth > FILE_DEPTH_MAX {
        return Err(PathError::Deep { depth });
    }
    for component in path.split('/') {
        if component.is_empty() {
            return Err(PathError::Empty);
        }
        if component.len() > FILE_NAME_BYTES_MAX {
            return Err(PathError::Component { bytes: component.len() });
        }
        if component == "." || component == ".." {
            return Err(PathError::Dots);
        }
        if component.starts_with('-') {
            return Err(PathError::Option);
        }
    }
    if path.starts_with('.') {
        return Err(PathError::Hidden);
    }
    if path.contains(|character| is_deceptive(character) || character == '\\') {
        return Err(PathError::Character);
    }
    Ok(())
}

/// Entries of an offer; an offer that is too long for one message continues in the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOffer {
    /// Number of the transfer, chosen by the side that offers; not that of one in progress.
    pub id: u32,
    /// Number of the first entry in this message; 0 begins an offer.
    pub first: u32,
    /// Entries of the whole offer, 1 to `FILE_ENTRIES_MAX`.
    pub count: u32,
    /// Bytes of all its files.
    pub total: u64,
    /// What they are for.
    pub purpose: FilePurpose,
    /// At least one; they follow those of the offer's earlier messages.
    pub entries: Vec<FileEntry>,
}

/// Answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAnswer {
    /// They are not wanted.
    No,
    /// They are; what precedes this position is there already, from an earlier connection.
    Yes {
        /// The entry to begin with; the number of entries if all of them are there.
        entry: u32,
        /// The byte of it to begin with.
        offset: u64,
    },
    /// A person is asked; another answer follows.
    Asking,
    /// The receiving side takes no files, or not from this side.
    Policy,
    /// There is not enough room for them.
    Space {
        /// Bytes that there is room for.
        free: u64,
    },
    /// They are larger than the receiving side accepts.
    TooLarge {
        /// Bytes that it accepts.
        limit: u64,
    },
    /// Too many transfers are in progress or wait for an answer.
    Busy,
}

/// Why a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// All of it is stored; only from the receiver.
    Done,
    /// A person cancelled it.
    Cancelled,
    /// A file was changed while it was read.
    Changed,
    /// The receiver's disk is full.
    Space,
    /// It could not be read or written, or made no progress.
    Failed,
    /// It is not allowed any more.
    Policy,
    /// What arrived has another hash than what was read.
    Mismatch,
}

/// A file message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileMessage {
    /// Offers files.
    Offer(FileOffer),
    /// Answers an offer.
    Answer {
        /// The offer.
        id: u32,
        /// The answer.
        answer: FileAnswer,
    },
    /// The next chunk of a file; chunks are in order.
    Data {
        /// The transfer.
        id: u32,
        /// Number of the entry, a file.
        entry: u32,
        /// Position of the first byte in the file.
        offset: u64,
        /// With the last chunk of a file: the SHA-256 hash of all of it.
        hash: Option<[u8; FILE_HASH_BYTES]>,
        /// At most `FILE_DATA_BYTES_MAX`.
        bytes: Vec<u8>,
    },
    /// Flow control: so much of a transfer has been taken, so more may be sent.
    Taken {
        /// The transfer.
        id: u32,
        /// Since the offer on this connection. An entry counts as its path and
        /// `FILE_OVERHEAD_BYTES`, a chunk as its bytes and `FILE_OVERHEAD_BYTES`.
        bytes: u64,
    },
    /// Ends a transfer or an offer; either side may send it, and it is not answered.
    End {
        /// The transfer.
        id: u32,
        /// True if the receiver ended it, false if the side that offered did.
        by_receiver: bool,
        /// Why.
        why: FileEnd,
    },
}

/// Kinds of these messages, the same in both directions.
mod kind {
    pub(super) const OFFER: u8 = 0x28;
    pub(super) const ANSWER: u8 = 0x29;
    pub(super) const DATA: u8 = 0x2a;
    pub(super) const TAKEN: u8 = 0x2b;
    pub(super) const END: u8 = 0x2c;
}

impl FilePurpose {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FilePurpose::Sent => out.push(0),
            &FilePurpose::Dropped { x, y } => {
                out.push(1);
                put_varint(out, u64::from(x));
                put_varint(out, u64::from(y));
            }
            FilePurpose::Printed(ticket) => {
                out.push(3);
                ticket.encode(out);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<FilePurpose, WireError> {
        match reader.u8("what files are for")? {
            0 => Ok(FilePurpose::Sent),
            1 => Ok(FilePurpose::Dropped {
                x: reader.u16("a drop's x")?,
                y: reader.u16("a drop's y")?,
            }),
            3 => Ok(FilePurpose::Printed(Box::new(PrintTicket::read(reader)?))),
            other => {
                Err(WireError::Unknown { what: "what files are for", value: u64::from(other) })
            }
        }
    }
}

impl FileEntry {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert_eq!(check_path(&self.path), Ok(()), "an offered path is a valid one");
        out.push(self.kind as u8);
        put_varint(out, self.size);
        put_varint(out, self.modified_ms);
        put_text(out, &self.path, FILE_PATH_BYTES_MAX);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<FileEntry, WireError> {
        let kind = match reader.u8("an entry's kind")? {
            0 => FileKind::File,
            1 => FileKind::Folder,
            other => {
                return Err(WireError::Unknown {
                    what: "an entry's kind",
                    value: u64::from(other),
                });
            }
        };
        let limit = if kind == FileKind::File { FILE_BYTES_MAX } else { 0 };
        let size = reader.at_most("an entry's size", limit)?;
        let modified_ms = reader.varint("an entry's time")?;
        let path = reader.text("an entry's path", FILE_PATH_BYTES_MAX)?;
        check_path(path)?;
        Ok(FileEntry { kind, size, modified_ms, path: path.to_owned() })
    }
}

impl FileOffer {
    fn encode_body(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        put_varint(out, u64::from(self.first));
        put_varint(out, u64::from(self.count));
        put_varint(out, self.total);
        self.purpose.encode(out);
        put_varint(out, self.entries.len() as u64);
        self.entries.iter().for_each(|entry| entry.encode(out));
    }

    fn decode_body(reader: &mut Reader<'_>) -> Result<FileOffer, WireError> {
        let id = reader.u32("a transfer's number")?;
        let first = reader.at_most("an offer's position", FILE_ENTRIES_MAX as u64)? as u32;
        let count = reader.at_most("a count of files", FILE_ENTRIES_MAX as u64)? as u32;
        let total = reader.at_most("an offer's bytes", FILE_BYTES_MAX)?;
        let purpose = FilePurpose::read(reader)?;
        let left = count.saturating_sub(first);
        let here = reader.at_most("a count of entries", u64::from(left))?;
        if here == 0 {
            return Err(WireError::Truncated("an offer of files"));
        }
        // No memory is reserved for entries that are only announced.
        let entries = (0..here).map(|_| FileEntry::read(reader)).collect::<Result<_, _>>()?;
        Ok(FileOffer { id, first, count, total, purpose, entries })
    }
}

impl FileAnswer {
    fn encode(self, out: &mut Vec<u8>) {
        match self {
            FileAnswer::No => out.push(0),
            FileAnswer::Yes { entry, offset } => {
                out.push(1);
                put_varint(out, u64::from(entry));
                put_varint(out, offset);
            }
            FileAnswer::Asking => out.push(2),
            FileAnswer::Policy => out.push(3),
            FileAnswer::Space { free } => {
                out.push(4);
                put_varint(out, free);
            }
            FileAnswer::TooLarge { limit } => {
                out.push(5);
                put_varint(out, limit);
            }
            FileAnswer::Busy => out.push(6),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<FileAnswer, WireError> {
        Ok(match reader.u8("an answer to files")? {
            0 => FileAnswer::No,
            1 => FileAnswer::Yes {
                entry: reader.at_most("an entry", FILE_ENTRIES_MAX as u64)? as u32,
                offset: reader.at_most("a position in a file", FILE_BYTES_MAX)?,
            },
            2 => FileAnswer::Asking,
            3 => FileAnswer::Policy,
            4 => FileAnswer::Space { free: reader.varint("the room for files")? },
            5 => FileAnswer::TooLarge { limit: reader.varint("a limit of files")? },
            6 => FileAnswer::Busy,
            other => {
                let value = u64::from(other);
                return Err(WireError::Unknown { what: "an answer to files", value });
            }
        })
    }
}

impl FileEnd {
    /// Every reason, in the order of their numbers.
    pub const ALL: [FileEnd; 7] = [
        FileEnd::Done,
        FileEnd::Cancelled,
        FileEnd::Changed,
        FileEnd::Space,
        FileEnd::Failed,
        FileEnd::Policy,
        FileEnd::Mismatch,
    ];

    fn read(reader: &mut Reader<'_>) -> Result<FileEnd, WireError> {
        let number = reader.u8("why files end")?;
        let unknown = WireError::Unknown { what: "why files end", value: u64::from(number) };
        FileEnd::ALL.get(usize::from(number)).copied().ok_or(unknown)
    }
}

impl FileMessage {
    /// True for the kinds that [`FileMessage::decode`] reads.
    pub(crate) const fn is_kind(kind: u8) -> bool {
        matches!(kind, kind::OFFER..=kind::END)
    }

    /// Appends the message.
    ///
    /// ```text
    /// 0x28 FILE OFFER    id varint | first varint | count varint | total varint | purpose u8
    ///                    [ | fields by purpose ] | entries varint | for each: kind u8
    ///                    (0 file, 1 folder) | size varint | modified varint | path text
    /// 0x29 FILE ANSWER   id varint | answer u8 [ | fields by answer ]
    /// 0x2a FILE DATA     id varint | entry varint | offset varint | last u8 [ | hash 32 bytes ]
    ///                    | bytes
    /// 0x2b FILE TAKEN    id varint | bytes varint
    /// 0x2c FILE END      id varint | by_receiver u8 | why u8
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FileMessage::Offer(offer) => {
                put_message(out, kind::OFFER, |out| offer.encode_body(out));
            }
            FileMessage::Answer { id, answer } => put_message(out, kind::ANSWER, |out| {
                put_varint(out, u64::from(*id));
                answer.encode(out);
            }),
            FileMessage::Data { id, entry, offset, hash, bytes } => {
                put_message(out, kind::DATA, |out| {
                    assert!(
                        bytes.len() <= FILE_DATA_BYTES_MAX,
                        "a chunk of a file must have at most {FILE_DATA_BYTES_MAX} bytes"
                    );
                    put_varint(out, u64::from(*id));
                    put_varint(out, u64::from(*entry));
                    put_varint(out, *offset);
                    out.push(u8::from(hash.is_some()));
                    out.extend(hash.iter().flatten());
                    out.extend_from_slice(bytes);
                });
            }
            FileMessage::Taken { id, bytes } => put_message(out, kind::TAKEN, |out| {
                put_varint(out, u64::from(*id));
                put_varint(out, *bytes);
            }),
            FileMessage::End { id, by_receiver, why } => put_message(out, kind::END, |out| {
                put_varint(out, u64::from(*id));
                out.push(u8::from(*by_receiver));
                out.push(*why as u8);
            }),
        }
    }

    /// Reads a message of one of these kinds.
    pub(crate) fn decode(frame: &MessageFrame<'_>) -> Result<FileMessage, WireError> {
        let mut reader = Reader::new(frame.body);
        let reader = &mut reader;
        let (message, what) = match frame.kind {
            kind::OFFER => {
                (FileMessage::Offer(FileOffer::decode_body(reader)?), "an offer of files")
            }
            kind::ANSWER => {
                let id = reader.u32("a transfer's number")?;
                let answer = FileAnswer::read(reader)?;
                (FileMessage::Answer { id, answer }, "an answer to files")
            }
            kind::DATA => {
                let id = reader.u32("a transfer's number")?;
                let entry = reader.at_most("an entry", FILE_ENTRIES_MAX as u64)? as u32;
                let offset = reader.at_most("a position in a file", FILE_BYTES_MAX)?;
                let hash = if read_bool(reader, "a file's last chunk")? {
                    let hash = reader.take("a file's hash", FILE_HASH_BYTES)?;
                    Some(hash.try_into().expect("as many bytes were taken"))
                } else {
                    None
                };
                let bytes = reader.rest();
                if bytes.len() > FILE_DATA_BYTES_MAX {
                    let (value, limit) = (bytes.len() as u64, FILE_DATA_BYTES_MAX as u64);
                    return Err(WireError::OverLimit { what: "a chunk of a file", value, limit });
                }
                let bytes = bytes.to_vec();
                (FileMessage::Data { id, entry, offset, hash, bytes }, "a chunk of a file")
            }
            kind::TAKEN => {
                let id = reader.u32("a transfer's number")?;
                let bytes = reader.varint("a transfer's bytes")?;
                (FileMessage::Taken { id, bytes }, "a transfer's progress")
            }
            kind::END => {
                let id = reader.u32("a transfer's number")?;
                let by_receiver = read_bool(reader, "who ends files")?;
                let why = FileEnd::read(reader)?;
                (FileMessage::End { id, by_receiver, why }, "an end of files")
            }
            other => {
                return Err(WireError::Unknown {
                    what: "a file message of kind",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_beneath_a_folder_are_accepted() {
        for good in ["a", "report.pdf", "photos/2026/día 1.jpg", "project/.git/HEAD", "a-b", "日本"]
        {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", PathError::Empty),
            ("/etc/passwd", PathError::Empty),
            ("a//b", PathError::Empty),
            ("a/", PathError::Empty),
            ("..", PathError::Dots),
            ("a/../../b", PathError::Dots),
            ("./a", PathError::Dots),
            (".bashrc", PathError::Hidden),
            (".ssh/authorized_keys", PathError::Hidden),
            ("-rf", PathError::Option),
            ("a/--checkpoint", PathError::Option),
            ("a\nb", PathError::Character),
            ("a\0b", PathError::Character),
            ("gpj.\u{202e}exe", PathError::Character),
            ("..\\..\\a", PathError::Hidden),
            ("a\\b", PathError::Character),
        ] {
            assert_eq!(check_path(bad), Err(why), "{bad:?}");
        }
        let name = "n".repeat(FILE_NAME_BYTES_MAX);
        assert_eq!(check_path(&name), Ok(()));
        let bytes = name.len() + 1;
        assert_eq!(check_path(&format!("{name}n")), Err(PathError::Component { bytes }));
        let deep = ["d"; FILE_DEPTH_MAX].join("/");
        assert_eq!(check_path(&deep), Ok(()));
        let depth = FILE_DEPTH_MAX + 1;
        assert_eq!(check_path(&format!("{deep}/d")), Err(PathError::Deep { depth }));
        let long = [name.as_str(); 4].join("/") + "/nnn";
        assert_eq!(check_path(&long), Err(PathError::Long { bytes: long.len() }));
    }
}
