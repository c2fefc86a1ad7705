//! Path 9/13 and 11/13: beside command.rs, written by codec-enc and session-core, read by viewer-core/video.rs.
//! The commands of a video (THINC §2.5): a stream of pictures at their own size, which the viewer scales into a rectangle.
//! Knows fields and limits; what coded pictures hold is for encoders and decoders.

use thinc_region::{Rect, Region, Size};

use crate::limits::{RECTS_MAX, VIDEO_EDGE_MAX, VIDEO_STREAMS_MAX};
use crate::wire::{Reader, WireError, put_varint, put_zigzag};

/// Longest edge and farthest place of a video's rectangle, which may lie half outside of the screen.
const PLACE_MAX: i64 = 32768;

/// One command about a video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoCommand<'a> {
    /// A stream begins: the viewer makes its decoder ready and says so; no NEXT comes before.
    Init {
        /// Names the stream; one that ended may be named anew.
        id: u16,
        /// What its coded pictures are.
        codec: Codec,
        /// Its pictures.
        source: Source,
        /// Where they are shown: the source is scaled to all of it.
        place: Rect,
    },
    /// A picture, shown in place of the one before.
    Next {
        /// Which stream.
        id: u16,
        /// When it was drawn, in microseconds from a moment that is the same for all streams of a connection.
        time: u64,
        /// Which pixels of the place it is seen in.
        clip: Region,
        /// The picture.
        picture: Picture<'a>,
    },
    /// The place's corner is here now; shows nothing by itself.
    Move {
        /// Which stream.
        id: u16,
        /// Pixels from the left.
        x: i32,
        /// Pixels from the top.
        y: i32,
    },
    /// Pictures are of another size from here on, or another part of them is shown; the next one leans on none before it.
    SourceSize {
        /// Which stream.
        id: u16,
        /// Its pictures.
        source: Source,
    },
    /// The place has this size now; shows nothing by itself.
    PlaceSize {
        /// Which stream.
        id: u16,
        /// Pixels.
        size: Size,
    },
    /// The stream is over; what it showed stays until something is drawn there.
    End {
        /// Which stream.
        id: u16,
    },
}

/// The pictures of a stream, and which part of each is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Of a picture in samples of luma.
    pub size: Size,
    /// The part that is shown, inside of it.
    pub crop: Rect,
}

/// What a stream's coded pictures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// There are none: plain samples only.
    None = 0,
    /// H.264 (ITU-T H.264, Annex B), constrained baseline profile, 4:2:0, one access unit a picture, no reordering.
    H264 = 1,
}

/// How plain samples lie: planes one after another, luma, blue, red, rows without gaps, 8 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Colour at half the width and half the height, rounded up.
    Yuv420 = 0,
    /// Colour at half the width, rounded up.
    Yuv422 = 1,
}

impl Layout {
    /// Samples of each colour plane of a picture of this size.
    pub const fn chroma(self, size: Size) -> Size {
        match self {
            Layout::Yuv420 => Size { width: size.width.div_ceil(2), height: size.height.div_ceil(2) },
            Layout::Yuv422 => Size { width: size.width.div_ceil(2), height: size.height },
        }
    }

    /// Bytes of all three planes.
    pub const fn bytes(self, size: Size) -> u64 {
        size.area() + 2 * self.chroma(size).area()
    }
}

/// A picture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture<'a> {
    /// Samples as they are: what a viewer makes of them is exact (`doc/protocol.md`, section 9).
    Plain {
        /// How they lie.
        layout: Layout,
        /// All of them.
        data: &'a [u8],
    },
    /// As the stream's codec has it: what it shows is not exact.
    Coded {
        /// It leans on no picture before it.
        key: bool,
        /// One access unit.
        data: &'a [u8],
    },
}

impl Picture<'_> {
    /// What it shows is what the session's screen shows.
    pub const fn is_exact(&self) -> bool {
        matches!(self, Picture::Plain { .. })
    }
}

/// What a viewer says of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoState {
    /// Which stream.
    pub id: u16,
    /// How it stands.
    pub readiness: Readiness,
}

/// How a viewer's decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Readiness {
    /// Pictures may come: the answer to INIT.
    Ready = 0,
    /// It cannot show the stream, now or any more; the session ends it.
    Refused = 1,
    /// It lost track: the next picture that is coded must lean on none before it.
    Lost = 2,
}

impl VideoState {
    pub(crate) fn encode_body(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        out.push(self.readiness as u8);
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<VideoState, WireError> {
        let id = read_id(reader)?;
        let readiness = match reader.u8("a stream's readiness")? {
            0 => Readiness::Ready,
            1 => Readiness::Refused,
            2 => Readiness::Lost,
            other => return Err(WireError::Unknown { what: "a stream's readiness", value: u64::from(other) }),
        };
        Ok(VideoState { id, readiness })
    }
}

/// The bits of a VIDEO's head above its kind.
mod op {
    pub(super) const INIT: u8 = 0;
    pub(super) const PLAIN: u8 = 1;
    pub(super) const CODED: u8 = 2;
    pub(super) const MOVE: u8 = 3;
    pub(super) const SOURCE_SIZE: u8 = 4;
    pub(super) const PLACE_SIZE: u8 = 5;
    pub(super) const END: u8 = 6;
    pub(super) const KEY: u8 = 7;
}

impl VideoCommand<'_> {
    /// Which stream it is about.
    pub const fn id(&self) -> u16 {
        match *self {
            VideoCommand::Init { id, .. }
            | VideoCommand::Next { id, .. }
            | VideoCommand::Move { id, .. }
            | VideoCommand::SourceSize { id, .. }
            | VideoCommand::PlaceSize { id, .. }
            | VideoCommand::End { id } => id,
        }
    }

    /// Appends the command behind a head whose highest bits say which it is.
    pub(crate) fn encode(&self, kind: u8, out: &mut Vec<u8>) {
        let mut begin = |op: u8| {
            out.push(kind | op << OP_SHIFT);
            put_varint(out, u64::from(self.id()));
        };
        match self {
            VideoCommand::Init { codec, source, place, .. } => {
                begin(op::INIT);
                out.push(*codec as u8);
                put_source(out, source);
                put_zigzag(out, i64::from(place.x1));
                put_zigzag(out, i64::from(place.y1));
                put_varint(out, place.width() as u64);
                put_varint(out, place.height() as u64);
            }
            VideoCommand::Next { time, clip, picture, .. } => {
                begin(match picture {
                    Picture::Plain { .. } => op::PLAIN,
                    Picture::Coded { key: false, .. } => op::CODED,
                    Picture::Coded { key: true, .. } => op::KEY,
                });
                put_varint(out, *time);
                put_clip(out, clip);
                let data = match picture {
                    Picture::Plain { layout, data } => {
                        out.push(*layout as u8);
                        data
                    }
                    Picture::Coded { data, .. } => data,
                };
                put_varint(out, data.len() as u64);
                out.extend_from_slice(data);
            }
            VideoCommand::Move { x, y, .. } => {
                begin(op::MOVE);
                put_zigzag(out, i64::from(*x));
                put_zigzag(out, i64::from(*y));
            }
            VideoCommand::SourceSize { source, .. } => {
                begin(op::SOURCE_SIZE);
                put_source(out, source);
            }
            VideoCommand::PlaceSize { size, .. } => {
                begin(op::PLACE_SIZE);
                put_varint(out, u64::from(size.width));
                put_varint(out, u64::from(size.height));
            }
            VideoCommand::End { .. } => begin(op::END),
        }
    }
}

/// Where the head says which command it is.
pub(crate) const OP_SHIFT: u8 = 4;
/// All bits that say it.
pub(crate) const OP_MASK: u8 = 0b0111_0000;

/// Reads what follows a head; `screen` is where clips must lie.
pub(crate) fn read<'a>(op: u8, reader: &mut Reader<'a>, screen: &Rect) -> Result<VideoCommand<'a>, WireError> {
    let id = read_id(reader)?;
    Ok(match op {
        op::INIT => {
            let codec = match reader.u8("a stream's codec")? {
                0 => Codec::None,
                1 => Codec::H264,
                other => return Err(WireError::Unknown { what: "a stream's codec", value: u64::from(other) }),
            };
            let source = read_source(reader)?;
            let (x, y) = read_corner(reader)?;
            let size = read_place_size(reader)?;
            let place = Rect::at(x, y, size.width as i32, size.height as i32);
            VideoCommand::Init { id, codec, source, place }
        }
        op::PLAIN | op::CODED | op::KEY => {
            let time = reader.varint("a picture's time")?;
            let clip = read_clip(reader, screen)?;
            let layout = match op {
                op::PLAIN => Some(match reader.u8("a picture's layout")? {
                    0 => Layout::Yuv420,
                    1 => Layout::Yuv422,
                    other => return Err(WireError::Unknown { what: "a picture's layout", value: u64::from(other) }),
                }),
                _ => None,
            };
            let len = reader.varint("a picture's length")?;
            let len = usize::try_from(len).map_err(|_| WireError::Truncated("a picture"))?;
            let data = reader.take("a picture", len)?;
            let picture =
                layout.map_or(Picture::Coded { key: op == op::KEY, data }, |layout| Picture::Plain { layout, data });
            VideoCommand::Next { id, time, clip, picture }
        }
        op::MOVE => {
            let (x, y) = read_corner(reader)?;
            VideoCommand::Move { id, x, y }
        }
        op::SOURCE_SIZE => VideoCommand::SourceSize { id, source: read_source(reader)? },
        op::PLACE_SIZE => VideoCommand::PlaceSize { id, size: read_place_size(reader)? },
        op::END => VideoCommand::End { id },
        other => return Err(WireError::Unknown { what: "a video's command", value: u64::from(other) }),
    })
}

fn read_id(reader: &mut Reader<'_>) -> Result<u16, WireError> {
    Ok(reader.at_most("a stream's number", u64::from(VIDEO_STREAMS_MAX) - 1)? as u16)
}

fn put_source(out: &mut Vec<u8>, source: &Source) {
    for edge in [source.size.width, source.size.height] {
        put_varint(out, u64::from(edge));
    }
    for edge in [source.crop.x1, source.crop.y1, source.crop.width(), source.crop.height()] {
        put_varint(out, edge as u64);
    }
}

fn read_source(reader: &mut Reader<'_>) -> Result<Source, WireError> {
    let mut edge = |what| reader.at_most(what, u64::from(VIDEO_EDGE_MAX)).map(|edge| edge as i32);
    let (width, height) = (edge("a picture's width")?, edge("a picture's height")?);
    let (x, y) = (edge("a crop's x")?, edge("a crop's y")?);
    let (crop_width, crop_height) = (edge("a crop's width")?, edge("a crop's height")?);
    let inside = crop_width > 0 && crop_height > 0 && x <= width - crop_width && y <= height - crop_height;
    if !inside {
        return Err(WireError::Outside("a picture's crop"));
    }
    let size = Size { width: width as u32, height: height as u32 };
    Ok(Source { size, crop: Rect::at(x, y, crop_width, crop_height) })
}

fn read_corner(reader: &mut Reader<'_>) -> Result<(i32, i32), WireError> {
    let mut edge = |what| {
        let value = i64::from(reader.zigzag(what)?);
        if value.abs() > PLACE_MAX {
            return Err(WireError::TooMuch { what, value: value.unsigned_abs(), limit: PLACE_MAX as u64 });
        }
        Ok(value as i32)
    };
    Ok((edge("a video's x")?, edge("a video's y")?))
}

fn read_place_size(reader: &mut Reader<'_>) -> Result<Size, WireError> {
    let width = reader.at_most("a video's width", PLACE_MAX as u64)? as u32;
    let height = reader.at_most("a video's height", PLACE_MAX as u64)? as u32;
    if width == 0 || height == 0 {
        return Err(WireError::Outside("a video's place"));
    }
    Ok(Size { width, height })
}

/// Banded rectangles, each corner as a distance from the one before.
fn put_clip(out: &mut Vec<u8>, clip: &Region) {
    assert!(clip.rect_count() <= RECTS_MAX, "a clip has at most {RECTS_MAX} rectangles, not {}", clip.rect_count());
    put_varint(out, clip.rect_count() as u64);
    let mut base = (0, 0);
    for rect in clip.rects() {
        put_zigzag(out, i64::from(rect.x1 - base.0));
        put_zigzag(out, i64::from(rect.y1 - base.1));
        put_varint(out, rect.width() as u64);
        put_varint(out, rect.height() as u64);
        base = (rect.x1, rect.y1);
    }
}

fn read_clip(reader: &mut Reader<'_>, screen: &Rect) -> Result<Region, WireError> {
    let count = reader.at_most("a clip's count of rectangles", RECTS_MAX as u64)? as usize;
    let mut rects: Vec<Rect> = Vec::with_capacity(count.min(reader.rest_len() / 4 + 1));
    for _ in 0..count {
        let base = rects.last().map_or((0, 0), |rect| (rect.x1, rect.y1));
        rects.push(crate::command::read_rect(reader, base, screen)?);
    }
    if rects.is_empty() {
        return Err(WireError::Outside("a clip of no rectangles"));
    }
    Region::from_banded(rects).ok_or(WireError::NotBanded("a clip"))
}
