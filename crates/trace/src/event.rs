//! The events of a trace and their bytes, encoding next to decoding. From session-server's
//! recorder, to file.rs; and back, to replay.rs, redact.rs and summary.rs. Knows bytes and
//! validity; never compression, files or the effect of an event.

use thinc_protocol::Micros;
use thinc_protocol::limits::{CURSOR_EDGE_MAX, SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
use thinc_region::{Rect, Size};
use thinc_ring::{CursorImage, CursorPixel, CursorState, DrawRecord, RECORD_BYTES, RecordError};

/// One record as the driver published it.
pub type RecordBytes = [u8; RECORD_BYTES];

/// Kind and length before an event's body.
pub(crate) const EVENT_HEAD_BYTES: usize = 5;
/// 1 MiB: longest body. Writers split runs of records and pixels to it, so that the size of a chunk
/// is bounded.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Most records in one event.
pub const EVENT_RECORDS_MAX: usize = BODY_BYTES_MAX / RECORD_BYTES;
/// Most pixels in one event: with their rectangle they fill a body. The longest row of a screen
/// fits.
pub(crate) const EVENT_PIXELS_MAX: usize = (BODY_BYTES_MAX - RECT_BYTES) / 4;
/// Most rectangles in one event; a writer simplifies a region with more.
pub const EVENT_RECTS_MAX: usize = 4096;

const RECT_BYTES: usize = 16;
const CURSOR_BYTES: usize = 40;

const POLL: u8 = 1;
const RECORDS: u8 = 2;
const GEOMETRY: u8 = 3;
const CURSOR: u8 = 4;
const DIRTY: u8 = 5;
const PIXELS: u8 = 6;
const READ: u8 = 7;
const GAP: u8 = 8;
const END: u8 = 9;

/// One event, in the order in which the session saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session polls the ring; the following events belong to this poll. Microseconds since the
    /// trace began.
    Poll(Micros),
    /// Records as published.
    Records(Vec<RecordBytes>),
    /// From here on records refer to a framebuffer of this size, which is black until `Pixels`.
    Geometry {
        /// Its generation.
        generation: u32,
        /// Its size.
        size: Size,
    },
    /// The cursor, after the records of this poll.
    Cursor(Cursor),
    /// The dirty tiles taken at the preceding OVERFLOW record.
    Dirty(Vec<Rect>),
    /// Changed pixels: 0x00RRGGBB, rows without gaps.
    Pixels(Rect, Vec<u32>),
    /// All pixels of this poll have been read: `Ring::begin`, loaded after that. The session serves
    /// its viewers now.
    Read(u64),
    /// Data was lost: so many records are missing, and they may have changed these rectangles.
    Gap {
        /// How many.
        records: u64,
        /// Places that they may have changed.
        rects: Vec<Rect>,
    },
    /// The last event.
    End(End),
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The recording was stopped on request.
    Requested,
    /// The session ended.
    Session,
}

/// The cursor block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Counts images; 0: there is none yet.
    pub serial: u32,
    /// Counts positions set by a program.
    pub warps: u32,
    /// X's last position of the hot spot.
    pub at: (i32, i32),
    /// Hot spot in the image.
    pub hot: (u16, u16),
    /// Size of the image.
    pub size: Size,
    /// False while an application hides it.
    pub visible: bool,
    /// Foreground and background of an image of two colours, 0x00RRGGBB.
    pub two_colors: Option<(u32, u32)>,
    /// Premultiplied 0xAARRGGBB; of two colours: 0 outside, 1 background, 2 foreground.
    pub pixels: Vec<u32>,
}

impl From<&CursorState> for Cursor {
    fn from(state: &CursorState) -> Cursor {
        let (two_colors, pixels) = match &state.image {
            CursorImage::Argb(pixels) => (None, pixels.clone()),
            CursorImage::TwoColors { fore, back, pixels } => {
                let word = |pixel: &CursorPixel| match pixel {
                    CursorPixel::Outside => 0,
                    CursorPixel::Back => 1,
                    CursorPixel::Fore => 2,
                };
                (Some((*fore, *back)), pixels.iter().map(word).collect())
            }
        };
        Cursor {
            serial: state.serial,
            warps: state.warps,
            at: (state.x, state.y),
            hot: (state.hot_x, state.hot_y),
            size: Size { width: u32::from(state.width), height: u32::from(state.height) },
            visible: state.visible,
            two_colors,
            pixels,
        }
    }
}

/// Why bytes are not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The bytes end in the middle.
    #[error("an event is truncated")]
    Cut,
    /// No such kind.
    #[error("an event has the unknown kind {0}")]
    Kind(u8),
    /// This kind cannot have this length.
    #[error("an event of kind {kind} cannot have a body of {bytes} bytes")]
    Length {
        /// The kind.
        kind: u8,
        /// How many.
        bytes: usize,
    },
    /// A record is invalid.
    #[error("record {index} of a run: {error}")]
    Record {
        /// From 0.
        index: usize,
        /// Why.
        error: RecordError,
    },
    /// A value is out of range.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Event {
    /// Appends the event's bytes.
    ///
    /// # Panics If it is larger than an event may be: a bug of the writer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.kind(), 0, 0, 0, 0]);
        match self {
            Event::Poll(at) => out.extend_from_slice(&at.to_le_bytes()),
            Event::Records(records) => {
                records.iter().for_each(|record| out.extend_from_slice(record))
            }
            Event::Geometry { generation, size } => {
                put_words(out, &[*generation, size.width, size.height])
            }
            Event::Cursor(cursor) => cursor.encode(out),
            Event::Dirty(rects) => rects.iter().for_each(|rect| put_rect(out, rect)),
            Event::Pixels(rect, pixels) => {
                assert_eq!(pixels.len() as u64, rect.area(), "pixels fill their rectangle");
                put_rect(out, rect);
                put_words(out, pixels);
            }
            Event::Read(begin) => out.extend_from_slice(&begin.to_le_bytes()),
            Event::Gap { records, rects } => {
                out.extend_from_slice(&records.to_le_bytes());
                rects.iter().for_each(|rect| put_rect(out, rect));
            }
            Event::End(end) => out.push(*end as u8),
        }
        let body = out.len() - start - EVENT_HEAD_BYTES;
        assert!(
            body <= BODY_BYTES_MAX,
            "an event of {body} bytes exceeds the limit of {BODY_BYTES_MAX}"
        );
        out[start + 1..start + EVENT_HEAD_BYTES].copy_from_slice(&(body as u32).to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Event::Poll(_) => POLL,
            Event::Records(_) => RECORDS,
            Event::Geometry { .. } => GEOMETRY,
            Event::Cursor(_) => CURSOR,
            Event::Dirty(_) => DIRTY,
            Event::Pixels(..) => PIXELS,
            Event::Read(_) => READ,
            Event::Gap { .. } => GAP,
            Event::End(_) => END,
        }
    }
}

impl Cursor {
    fn encode(&self, out: &mut Vec<u8>) {
        let (x, y) = self.at;
        let hot = u32::from(self.hot.0) | u32::from(self.hot.1) << 16;
        let flags = u32::from(self.visible) | u32::from(self.two_colors.is_some()) << 1;
        let (fore, back) = self.two_colors.unwrap_or_default();
        put_words(out, &[self.serial, self.warps, x.cast_unsigned(), y.cast_unsigned(), hot]);
        put_words(out, &[self.size.width, self.size.height, flags, fore, back]);
        put_words(out, &self.pixels);
    }

    fn decode(body: &[u8]) -> Result<Cursor, EventError> {
        let length = EventError::Length { kind: CURSOR, bytes: body.len() };
        if body.len() < CURSOR_BYTES || !body.len().is_multiple_of(4) {
            return Err(length);
        }
        let word = |index: usize| word(body, index * 4);
        let size = Size { width: word(5), height: word(6) };
        if size.width > CURSOR_EDGE_MAX || size.height > CURSOR_EDGE_MAX {
            return Err(EventError::Invalid("a cursor is too large"));
        }
        if body.len() as u64 != CURSOR_BYTES as u64 + size.area() * 4 {
            return Err(length);
        }
        let hot = (word(4) as u16, (word(4) >> 16) as u16);
        if u32::from(hot.0) > size.width || u32::from(hot.1) > size.height {
            return Err(EventError::Invalid("a cursor's hot spot lies outside its image"));
        }
        let flags = word(7);
        Ok(Cursor {
            serial: word(0),
            warps: word(1),
            at: (word(2).cast_signed(), word(3).cast_signed()),
            hot,
            size,
            visible: flags & 1 != 0,
            two_colors: (flags & 2 != 0).then(|| (word(8), word(9))),
            pixels: words(&body[CURSOR_BYTES..]).collect(),
        })
    }
}

/// Decodes events, and validates each in the context of the earlier ones.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    size: Size,
    at: Micros,
    ended: bool,
    /// Records of video frames have version 2, which named another image size: they are read as
    /// pixels.
    pub(crate) frames_are_pixels: bool,
}

/// Bytes of a record, as in driver/include/ring_abi.h: a kind and two hints.
const DRAW: u8 = 1;
const IMAGE: [u8; 2] = [4, 0];
const VIDEO: [u8; 2] = [6, 0];

impl EventReader {
    /// The next event and its length in bytes; None at the end of the bytes.
    ///
    /// # Errors Why it is invalid; nothing after it can be decoded.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<(Event, usize)>, EventError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() < EVENT_HEAD_BYTES {
            return Err(EventError::Cut);
        }
        if self.ended {
            return Err(EventError::Invalid("an event follows the end"));
        }
        let (kind, length) = (bytes[0], word(bytes, 1) as usize);
        if length > BODY_BYTES_MAX {
            return Err(EventError::Length { kind, bytes: length });
        }
        let body = bytes[EVENT_HEAD_BYTES..].get(..length).ok_or(EventError::Cut)?;
        let event = self.decode(kind, body)?;
        Ok(Some((event, EVENT_HEAD_BYTES + length)))
    }

    fn decode(&mut self, kind: u8, body: &[u8]) -> Result<Event, EventError> {
        let length = EventError::Length { kind, bytes: body.len() };
        let long = || <[u8; 8]>::try_from(body).map(u64::from_le_bytes).map_err(|_| length.clone());
        match kind {
            POLL => {
                let at = long()?;
                if at < self.at {
                    return Err(EventError::Invalid("a poll is earlier than the one before"));
                }
                self.at = at;
                Ok(Event::Poll(at))
            }
            RECORDS => {
                let (records, []) = body.as_chunks::<RECORD_BYTES>() else { return Err(length) };
                let mut records = records.to_vec();
                for (index, record) in records.iter_mut().enumerate() {
                    if self.frames_are_pixels && record[8] == DRAW && record[10..12] == VIDEO {
                        record[10..12].copy_from_slice(&IMAGE);
                    }
                    DrawRecord::parse(record)
                        .map_err(|error| EventError::Record { index, error })?;
                }
                Ok(Event::Records(records))
            }
            GEOMETRY if body.len() == 12 => {
                let size = Size { width: word(body, 4), height: word(body, 8) };
                let edge = 1..=SCREEN_EDGE_MAX;
                if !edge.contains(&size.width)
                    || !edge.contains(&size.height)
                    || size.area() > SCREEN_AREA_MAX
                {
                    return Err(EventError::Invalid("a screen's size is out of range"));
                }
                self.size = size;
                Ok(Event::Geometry { generation: word(body, 0), size })
            }
            CURSOR => Ok(Event::Cursor(Cursor::decode(body)?)),
            DIRTY => Ok(Event::Dirty(self.rects(body, &length)?)),
            PIXELS if body.len() >= RECT_BYTES => {
                let rect = self.rect(&body[..RECT_BYTES])?;
                if body.len() as u64 != RECT_BYTES as u64 + rect.area() * 4 {
                    return Err(length);
                }
                Ok(Event::Pixels(
                    rect,
                    words(&body[RECT_BYTES..]).map(|pixel| pixel & 0x00ff_ffff).collect(),
                ))
            }
            READ => Ok(Event::Read(long()?)),
            GAP if body.len() >= 8 => {
                let (records, rects) = body.split_at(8);
                let records =
                    u64::from_le_bytes(records.try_into().expect("the slice has 8 bytes"));
                Ok(Event::Gap { records, rects: self.rects(rects, &length)? })
            }
            END if body.len() == 1 => {
                self.ended = true;
                match body[0] {
                    0 => Ok(Event::End(End::Requested)),
                    1 => Ok(Event::End(End::Session)),
                    _ => Err(EventError::Invalid("the reason of the end is unknown")),
                }
            }
            GEOMETRY | PIXELS | GAP | END => Err(length),
            kind => Err(EventError::Kind(kind)),
        }
    }

    fn rects(&self, bytes: &[u8], length: &EventError) -> Result<Vec<Rect>, EventError> {
        let (rects, []) = bytes.as_chunks::<RECT_BYTES>() else { return Err(length.clone()) };
        if rects.len() > EVENT_RECTS_MAX {
            return Err(EventError::Invalid("an event has too many rectangles"));
        }
        rects.iter().map(|rect| self.rect(rect)).collect()
    }

    fn rect(&self, bytes: &[u8]) -> Result<Rect, EventError> {
        let edge = |index: usize| word(bytes, index * 4).cast_signed();
        let rect = Rect { x1: edge(0), y1: edge(1), x2: edge(2), y2: edge(3) };
        if rect.x1 >= rect.x2 || rect.y1 >= rect.y2 || !self.size.rect().contains(&rect) {
            return Err(EventError::Invalid("a rectangle is empty or outside the screen"));
        }
        Ok(rect)
    }
}

fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn put_rect(out: &mut Vec<u8>, rect: &Rect) {
    put_words(out, &[rect.x1, rect.y1, rect.x2, rect.y2].map(i32::cast_unsigned));
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word))
}
