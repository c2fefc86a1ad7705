//! IPP messages as bytes (RFC 8010). From an HTTP body, to printer.rs, and back. Values keep their
//! bytes, so that what another server answers is passed on as it is. Knows lengths and limits;
//! never what an attribute means.
//!
//! ```text
//! message    version 2 × u8 | operation or status u16 | request u32 | group … | 3
//! group      tag u8 (1 operation, 2 job, 4 printer, 5 unsupported, …) | value …
//! value      tag u8 (16 and more) | length u16 | name | length u16 | bytes
//! ```
//! All numbers are big-endian. A value without a name is a further one of the attribute before it,
//! as are the members of a collection.

/// Limits of one message.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes before the document.
    pub bytes: usize,
    /// Values of all attributes.
    pub values: usize,
}

/// Limits of a program's request: the longest that was seen has 60 values in 3 KiB.
pub const REQUEST_LIMITS: Limits = Limits { bytes: 64 << 10, values: 512 };
/// Limits of another server's answer, which lists its printers: 40 of them have 200 KiB.
pub const ANSWER_LIMITS: Limits = Limits { bytes: 4 << 20, values: 100_000 };

/// Tags of groups.
pub mod group {
    /// What the request is about.
    pub const OPERATION: u8 = 1;
    /// A job.
    pub const JOB: u8 = 2;
    /// The end of all groups.
    pub const END: u8 = 3;
    /// A printer.
    pub const PRINTER: u8 = 4;
    /// What was asked for and is not done.
    pub const UNSUPPORTED: u8 = 5;
}

/// Tags of values.
pub mod tag {
    /// In place of the values of an attribute that is not supported.
    pub const UNSUPPORTED: u8 = 0x10;
    /// There is none yet.
    pub const NO_VALUE: u8 = 0x13;
    /// A number.
    pub const INTEGER: u8 = 0x21;
    /// True or false.
    pub const BOOLEAN: u8 = 0x22;
    /// A number with a list of meanings.
    pub const ENUM: u8 = 0x23;
    /// Two numbers.
    pub const RANGE: u8 = 0x33;
    /// Text for people.
    pub const TEXT: u8 = 0x41;
    /// A name.
    pub const NAME: u8 = 0x42;
    /// A word with a meaning.
    pub const KEYWORD: u8 = 0x44;
    /// An address.
    pub const URI: u8 = 0x45;
    /// The scheme of an address.
    pub const URI_SCHEME: u8 = 0x46;
    /// A character set.
    pub const CHARSET: u8 = 0x47;
    /// A language.
    pub const LANGUAGE: u8 = 0x48;
    /// The type of a document.
    pub const MIME_TYPE: u8 = 0x49;
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IppError {
    /// It does not end within the limit.
    #[error("the attributes of an IPP message have more than {0} bytes")]
    Bytes(usize),
    /// It has too many values.
    #[error("an IPP message has more than {0} values")]
    Values(usize),
    /// A value before the first group.
    #[error("a value of an IPP message belongs to no group")]
    NoGroup,
    /// A value without a name before the first attribute of its group.
    #[error("a value of an IPP message has no name")]
    NoName,
    /// A name that no attribute has.
    #[error("the name of an IPP attribute is not printable ASCII")]
    Name,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// One of `tag`, or another.
    pub tag: u8,
    /// At most 65,535.
    pub bytes: Vec<u8>,
}

/// An attribute, with at least one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Printable ASCII.
    pub name: String,
    /// In their order.
    pub values: Vec<Value>,
}

/// Attributes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// One of `group`, or another below 16.
    pub tag: u8,
    /// In their order.
    pub attributes: Vec<Attribute>,
}

/// A request or an answer, without a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Major and minor.
    pub version: [u8; 2],
    /// The operation of a request, the status of an answer.
    pub code: u16,
    /// Number of the request.
    pub request: u32,
    /// In their order.
    pub groups: Vec<Group>,
}

impl Value {
    /// A text, which is cut off at the limit of its length.
    pub fn text(tag: u8, text: &str) -> Value {
        let text = &text[..text.floor_char_boundary(1023)];
        Value { tag, bytes: text.as_bytes().to_vec() }
    }

    /// A number.
    pub fn number(tag: u8, number: u32) -> Value {
        Value { tag, bytes: number.to_be_bytes().to_vec() }
    }

    /// True or false.
    pub fn boolean(yes: bool) -> Value {
        Value { tag: tag::BOOLEAN, bytes: vec![u8::from(yes)] }
    }

    /// The text, if it is valid UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<u32> {
        let is_number = matches!(self.tag, tag::INTEGER | tag::ENUM);
        let bytes = self.bytes.as_slice().try_into().ok().filter(|_| is_number)?;
        Some(u32::from_be_bytes(bytes))
    }
}

impl Group {
    /// The attribute of this name.
    pub fn find(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Its first value as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name)?.values.first()?.as_text()
    }

    /// Its first value as a number.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.find(name)?.values.first()?.as_number()
    }
}

impl Message {
    /// The first group with this tag.
    pub fn group(&self, tag: u8) -> Option<&Group> {
        self.groups.iter().find(|group| group.tag == tag)
    }

    /// An attribute of the request itself.
    pub fn operation(&self, name: &str) -> Option<&Attribute> {
        self.group(group::OPERATION)?.find(name)
    }

    /// Reads a message from the beginning of a body, and tells where the document begins. None: the
    /// message does not end in these bytes.
    ///
    /// # Errors
    /// They are no message, or exceed a limit.
    pub fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Message, usize)>, IppError> {
        let is_cut = bytes.len() > limits.bytes;
        let mut reader = Reader { bytes: &bytes[..bytes.len().min(limits.bytes)], at: 0 };
        match read(&mut reader, limits.values)? {
            Some(message) => Ok(Some((message, reader.at))),
            None if is_cut => Err(IppError::Bytes(limits.bytes)),
            None => Ok(None),
        }
    }

    /// The bytes of it.
    ///
    /// # Panics
    /// If a name or a value is longer than 65,535 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_vec();
        out.extend(self.code.to_be_bytes());
        out.extend(self.request.to_be_bytes());
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            let length = u16::try_from(bytes.len()).expect("names and values are short");
            out.extend(length.to_be_bytes());
            out.extend_from_slice(bytes);
        };
        for group in &self.groups {
            out.push(group.tag);
            for attribute in &group.attributes {
                for (at, value) in attribute.values.iter().enumerate() {
                    out.push(value.tag);
                    let name = if at == 0 { attribute.name.as_str() } else { "" };
                    put(&mut out, name.as_bytes());
                    put(&mut out, &value.bytes);
                }
            }
        }
        out.push(group::END);
        out
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_be_bytes(self.array()?);
        self.take(length.into())
    }
}

/// None: the bytes end first.
fn read(reader: &mut Reader<'_>, values_max: usize) -> Result<Option<Message>, IppError> {
    let head: Option<[u8; 8]> = reader.array();
    let Some([major, minor, high, low, a, b, c, d]) = head else { return Ok(None) };
    let mut groups: Vec<Group> = Vec::new();
    let mut count = 0;
    loop {
        let Some([tag]) = reader.array() else { return Ok(None) };
        match tag {
            group::END => break,
            0..=15 => groups.push(Group { tag, attributes: Vec::new() }),
            _ => {
                let Some(name) = reader.counted() else { return Ok(None) };
                let Some(bytes) = reader.counted() else { return Ok(None) };
                count += 1;
                if count > values_max {
                    return Err(IppError::Values(values_max));
                }
                let group = groups.last_mut().ok_or(IppError::NoGroup)?;
                let value = Value { tag, bytes: bytes.to_vec() };
                if name.is_empty() {
                    let attribute = group.attributes.last_mut().ok_or(IppError::NoName)?;
                    attribute.values.push(value);
                    continue;
                }
                if !name.iter().all(|byte| (0x20..0x7f).contains(byte)) {
                    return Err(IppError::Name);
                }
                let name = String::from_utf8_lossy(name).into_owned();
                group.attributes.push(Attribute { name, values: vec![value] });
            }
        }
    }
    let (code, request) = (u16::from_be_bytes([high, low]), u32::from_be_bytes([a, b, c, d]));
    Ok(Some(Message { version: [major, minor], code, request, groups }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let value = |tag, text: &str| Value::text(tag, text);
        let attribute = |name: &str, values| Attribute { name: name.to_owned(), values };
        Message {
            version: [2, 0],
            code: 0x0002,
            request: 7,
            groups: vec![
                Group {
                    tag: group::OPERATION,
                    attributes: vec![
                        attribute("attributes-charset", vec![value(tag::CHARSET, "utf-8")]),
                        attribute(
                            "requested-attributes",
                            vec![value(tag::KEYWORD, "copies"), value(tag::KEYWORD, "media")],
                        ),
                    ],
                },
                Group {
                    tag: group::JOB,
                    attributes: vec![attribute("copies", vec![Value::number(tag::INTEGER, 3)])],
                },
            ],
        }
    }

    #[test]
    fn a_message_is_read_as_it_was_written_and_the_document_follows() {
        let mut bytes = message().encode();
        assert_eq!(bytes[..9], [2, 0, 0, 2, 0, 0, 0, 7, 1]);
        let length = bytes.len();
        for cut in 0..length {
            assert_eq!(Message::decode(&bytes[..cut], REQUEST_LIMITS), Ok(None), "cut at {cut}");
        }
        bytes.extend(b"%PDF");
        assert_eq!(Message::decode(&bytes, REQUEST_LIMITS), Ok(Some((message(), length))));
        assert_eq!(message().group(group::JOB).unwrap().number("copies"), Some(3));
        assert_eq!(message().operation("requested-attributes").unwrap().values.len(), 2);
    }

    #[test]
    fn what_is_no_message_is_refused_in_words() {
        let with = |rest: &[u8]| [&[2, 0, 0, 2, 0, 0, 0, 7], rest].concat();
        let decode = |bytes: &[u8]| Message::decode(bytes, REQUEST_LIMITS);
        assert_eq!(decode(&with(&[0x44, 0, 1, b'a', 0, 0])), Err(IppError::NoGroup));
        assert_eq!(decode(&with(&[1, 0x44, 0, 0, 0, 0])), Err(IppError::NoName));
        assert_eq!(decode(&with(&[1, 0x44, 0, 1, 7, 0, 0])), Err(IppError::Name));
        let mut long = with(&[1]);
        for _ in 0..3 {
            long.extend([0x41, 0, 1, b'a', 0x7f, 0xff]);
            long.extend([b'x'; 0x7fff]);
        }
        assert_eq!(decode(&long), Err(IppError::Bytes(64 << 10)));
        let mut many = with(&[1]);
        for _ in 0..513 {
            many.extend([0x21, 0, 1, b'a', 0, 0]);
        }
        assert_eq!(decode(&many), Err(IppError::Values(512)));
        // A length beyond the end is a message that has not arrived.
        assert_eq!(decode(&with(&[1, 0x44, 0xff, 0xff])), Ok(None));
    }
}
