//! Path 9/13 and 11/13: beside command.rs, written by codec-enc and session-core, read by
//! viewer-core/video.rs.
//! The commands of a video stream (THINC §2.5): frames at their own size, which the viewer scales
//! into a rectangle of the screen, the video's place.
//! Knows fields and limits; never what coded frames contain.

use thinc_region::{Rect, Region, Size};

use crate::limits::{RECTS_MAX, VIDEO_EDGE_MAX, VIDEO_STREAMS_MAX};
use crate::wire::{Reader, WireError, put_varint, put_zigzag};

/// Longest edge and greatest coordinate of a video's place, which may lie partly outside the
/// screen.
const PLACE_MAX: i64 = 32768;

/// One command of a video stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoCommand<'a> {
    /// Starts a stream. The viewer prepares its decoder and answers with its state; no NEXT
    /// precedes that answer.
    Init {
        /// The stream's number; it may be reused after END.
        id: u16,
        /// Codec of its coded frames.
        codec: Codec,
        /// Whose picture it is.
        eye: Eye,
        /// Geometry of its frames.
        source: Source,
        /// The rectangle of the screen to which the source's crop is scaled.
        place: Rect,
    },
    /// A frame, which replaces the previous one.
    Next {
        /// Which stream.
        id: u16,
        /// When it was drawn, in microseconds since an instant that all streams of a connection
        /// share.
        time: u64,
        /// The pixels of the place in which it is visible.
        clip: Region,
        /// The frame.
        frame: FrameData<'a>,
    },
    /// Moves the place's upper left corner; changes no pixels.
    Move {
        /// Which stream.
        id: u16,
        /// Pixels from the left.
        x: i32,
        /// Pixels from the top.
        y: i32,
    },
    /// Changes the size or the crop of the frames from here on; the next coded one is a keyframe.
    SourceSize {
        /// Which stream.
        id: u16,
        /// Geometry of its frames.
        source: Source,
    },
    /// Resizes the place; changes no pixels.
    PlaceSize {
        /// Which stream.
        id: u16,
        /// Pixels.
        size: Size,
    },
    /// Ends the stream; its last frame stays until something else is drawn there.
    End {
        /// Which stream.
        id: u16,
    },
}

/// Size of a stream's frames, and the part of each that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Size of a frame in luma samples.
    pub size: Size,
    /// The part that is shown, inside `size`.
    pub crop: Rect,
}

/// Which eye sees a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eye {
    /// The left one, whose picture is the framebuffer: every stream but those of stereo programs.
    #[default]
    Left,
    /// The right one: its frames never become pixels of the framebuffer. Only for a viewer that has
    /// sent `ViewerMessage::Stereo(true)`.
    Right,
}

/// Codec of a stream's coded frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// None: plain samples only.
    None = 0,
    /// H.264, and by keyframes that say so another one.
    H264 = 1,
}

/// Codec of a keyframe, and of the coded frames that refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameCodec {
    /// H.264 (ITU-T H.264, Annex B), constrained baseline profile, 4:2:0, one access unit per
    /// frame, no reordering.
    H264 = 1,
    /// AV1 (its low-overhead bitstream format), main profile, 8 bits, 4:2:0, one temporal unit per
    /// frame, which shows exactly one frame. Only for a viewer whose newest
    /// `ViewerMessage::VideoCodecs` has its bit.
    Av1 = 2,
    /// H.264, its High 4:4:4 Predictive profile, 8 bits, 4:4:4: chroma of full resolution. Only for
    /// a viewer whose newest `ViewerMessage::VideoCodecs` has its bit.
    H264Yuv444 = 3,
}

impl FrameCodec {
    /// Layout of its frames' samples.
    pub const fn layout(self) -> SampleLayout {
        match self {
            FrameCodec::H264 | FrameCodec::Av1 => SampleLayout::Yuv420,
            FrameCodec::H264Yuv444 => SampleLayout::Yuv444,
        }
    }

    /// Its bit in `ViewerMessage::VideoCodecs`.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Layout of samples: the planes Y, Cb and Cr one after another, rows without padding, 8 bits per
/// sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SampleLayout {
    /// Chroma at half the width and half the height, rounded up.
    Yuv420 = 0,
    /// Chroma at half the width, rounded up.
    Yuv422 = 1,
    /// Chroma at full resolution: of coded frames only, no plain frame has it.
    Yuv444 = 3,
}

impl SampleLayout {
    /// Size of each chroma plane of a frame of this size.
    pub const fn chroma(self, size: Size) -> Size {
        match self {
            SampleLayout::Yuv420 => {
                Size { width: size.width.div_ceil(2), height: size.height.div_ceil(2) }
            }
            SampleLayout::Yuv422 => Size { width: size.width.div_ceil(2), height: size.height },
            SampleLayout::Yuv444 => size,
        }
    }

    /// Length of all three planes in bytes.
    pub const fn bytes(self, size: Size) -> u64 {
        size.area() + 2 * self.chroma(size).area()
    }
}

/// Bytes of a frame of pixels: 4 for each.
pub const fn pixel_bytes(size: Size) -> u64 {
    size.area() * 4
}

/// A frame's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameData<'a> {
    /// Samples, whose conversion to pixels is lossless (`doc/protocol.md`, section 9).
    Plain {
        /// Their layout.
        layout: SampleLayout,
        /// The samples.
        data: &'a [u8],
    },
    /// Pixels, 4 bytes each (blue, green, red, 0), rows without padding: layout 2 on the wire. Only
    /// for the right eye; the place has the size of the source's crop. Lossless.
    Pixels {
        /// [`pixel_bytes`] of the source's size.
        data: &'a [u8],
    },
    /// Encoded with the codec of the newest keyframe: lossy.
    Coded {
        /// For a keyframe, which refers to no previous frame, its codec.
        keyframe: Option<FrameCodec>,
        /// One access unit, or temporal unit.
        data: &'a [u8],
    },
}

impl<'a> FrameData<'a> {
    /// An access unit of H.264.
    pub const fn h264(keyframe: bool, data: &'a [u8]) -> FrameData<'a> {
        let keyframe = if keyframe { Some(FrameCodec::H264) } else { None };
        FrameData::Coded { keyframe, data }
    }

    /// Its samples, pixels or access unit.
    pub const fn data(&self) -> &'a [u8] {
        match *self {
            FrameData::Plain { data, .. }
            | FrameData::Pixels { data }
            | FrameData::Coded { data, .. } => data,
        }
    }

    /// The frame with these data.
    pub const fn with_data<'b>(self, data: &'b [u8]) -> FrameData<'b> {
        match self {
            FrameData::Plain { layout, .. } => FrameData::Plain { layout, data },
            FrameData::Pixels { .. } => FrameData::Pixels { data },
            FrameData::Coded { keyframe, .. } => FrameData::Coded { keyframe, data },
        }
    }

    /// True if its pixels equal those that were drawn.
    pub const fn is_lossless(&self) -> bool {
        matches!(self, FrameData::Plain { .. } | FrameData::Pixels { .. })
    }
}

/// A viewer's report on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoStatus {
    /// Which stream.
    pub id: u16,
    /// The state of its decoder.
    pub decoder: DecoderState,
}

/// State of a viewer's decoder for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DecoderState {
    /// It accepts frames: the answer to INIT.
    Ready = 0,
    /// It cannot decode the stream, or no longer; the session ends the stream.
    Refused = 1,
    /// It has lost a reference frame: the next coded frame must be a keyframe.
    NeedsKeyframe = 2,
}

impl VideoStatus {
    pub(crate) fn encode_body(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id));
        out.push(self.decoder as u8);
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<VideoStatus, WireError> {
        let id = read_id(reader)?;
        let decoder = match reader.u8("a stream's decoder state")? {
            0 => DecoderState::Ready,
            1 => DecoderState::Refused,
            2 => DecoderState::NeedsKeyframe,
            other => {
                return Err(WireError::Unknown {
                    what: "a stream's decoder state",
                    value: u64::from(other),
                });
            }
        };
        Ok(VideoStatus { id, decoder })
    }
}

/// The bits of a VIDEO command's head above its kind.
mod op {
    pub(super) const INIT: u8 = 0;
    pub(super) const PLAIN: u8 = 1;
    pub(super) const CODED: u8 = 2;
    pub(super) const MOVE: u8 = 3;
    pub(super) const SOURCE_SIZE: u8 = 4;
    pub(super) const PLACE_SIZE: u8 = 5;
    pub(super) const END: u8 = 6;
    pub(super) const KEYFRAME: u8 = 7;
    /// With INIT: the stream is for the right eye.
    pub(super) const RIGHT_EYE: u8 = 8;
    /// A keyframe that says of which codec it is.
    pub(super) const KEYFRAME_OF: u8 = 9;
}

/// The layout of a frame of pixels, after those of [`SampleLayout`].
const LAYOUT_PIXELS: u8 = 2;

impl VideoCommand<'_> {
    /// Its stream.
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

    /// The command, with no data in its frame.
    pub(crate) fn without_data(&self) -> VideoCommand<'static> {
        match *self {
            VideoCommand::Init { id, codec, eye, source, place } => {
                VideoCommand::Init { id, codec, eye, source, place }
            }
            VideoCommand::Next { id, time, ref clip, frame } => {
                VideoCommand::Next { id, time, clip: clip.clone(), frame: frame.with_data(&[]) }
            }
            VideoCommand::Move { id, x, y } => VideoCommand::Move { id, x, y },
            VideoCommand::SourceSize { id, source } => VideoCommand::SourceSize { id, source },
            VideoCommand::PlaceSize { id, size } => VideoCommand::PlaceSize { id, size },
            VideoCommand::End { id } => VideoCommand::End { id },
        }
    }

    /// Appends the command; the high bits of its head are the operation.
    pub(crate) fn encode(&self, kind: u8, out: &mut Vec<u8>) {
        let mut begin = |op: u8| {
            out.push(kind | op << OP_SHIFT);
            put_varint(out, u64::from(self.id()));
        };
        match self {
            VideoCommand::Init { codec, eye, source, place, .. } => {
                begin(match eye {
                    Eye::Left => op::INIT,
                    Eye::Right => op::INIT | op::RIGHT_EYE,
                });
                out.push(*codec as u8);
                put_source(out, source);
                put_zigzag(out, i64::from(place.x1));
                put_zigzag(out, i64::from(place.y1));
                put_varint(out, place.width() as u64);
                put_varint(out, place.height() as u64);
            }
            VideoCommand::Next { time, clip, frame, .. } => {
                begin(match frame {
                    FrameData::Plain { .. } | FrameData::Pixels { .. } => op::PLAIN,
                    FrameData::Coded { keyframe: None, .. } => op::CODED,
                    FrameData::Coded { keyframe: Some(FrameCodec::H264), .. } => op::KEYFRAME,
                    FrameData::Coded { keyframe: Some(_), .. } => op::KEYFRAME_OF,
                });
                put_varint(out, *time);
                put_clip(out, clip);
                match frame {
                    FrameData::Plain { layout, .. } => out.push(*layout as u8),
                    FrameData::Pixels { .. } => out.push(LAYOUT_PIXELS),
                    FrameData::Coded { keyframe: None | Some(FrameCodec::H264), .. } => {}
                    FrameData::Coded { keyframe: Some(codec), .. } => out.push(*codec as u8),
                }
                put_varint(out, frame.data().len() as u64);
                out.extend_from_slice(frame.data());
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

/// Position of the operation in the head.
pub(crate) const OP_SHIFT: u8 = 4;
/// Bits of the operation in the head.
pub(crate) const OP_MASK: u8 = 0b1111_0000;

/// Reads the fields after a head; clips must lie inside `screen`.
pub(crate) fn read<'a>(
    op: u8,
    reader: &mut Reader<'a>,
    screen: &Rect,
) -> Result<VideoCommand<'a>, WireError> {
    const INIT_RIGHT: u8 = op::INIT | op::RIGHT_EYE;
    let id = read_id(reader)?;
    Ok(match op {
        op::INIT | INIT_RIGHT => {
            let eye = if op == op::INIT { Eye::Left } else { Eye::Right };
            let codec = match reader.u8("a stream's codec")? {
                0 => Codec::None,
                1 => Codec::H264,
                other => {
                    return Err(WireError::Unknown {
                        what: "a stream's codec",
                        value: u64::from(other),
                    });
                }
            };
            let source = read_source(reader)?;
            let (x, y) = read_corner(reader)?;
            let size = read_place_size(reader)?;
            let place = Rect::at(x, y, size.width as i32, size.height as i32);
            VideoCommand::Init { id, codec, eye, source, place }
        }
        op::PLAIN | op::CODED | op::KEYFRAME | op::KEYFRAME_OF => {
            let time = reader.varint("a frame's time")?;
            let clip = read_clip(reader, screen)?;
            let kind = match op {
                op::PLAIN => match reader.u8("a frame's layout")? {
                    0 => FrameData::Plain { layout: SampleLayout::Yuv420, data: &[] },
                    1 => FrameData::Plain { layout: SampleLayout::Yuv422, data: &[] },
                    LAYOUT_PIXELS => FrameData::Pixels { data: &[] },
                    other => {
                        return Err(WireError::Unknown {
                            what: "a frame's layout",
                            value: u64::from(other),
                        });
                    }
                },
                op::KEYFRAME_OF => match reader.u8("a keyframe's codec")? {
                    // H.264 has an operation of its own.
                    2 => FrameData::Coded { keyframe: Some(FrameCodec::Av1), data: &[] },
                    3 => FrameData::Coded { keyframe: Some(FrameCodec::H264Yuv444), data: &[] },
                    other => {
                        return Err(WireError::Unknown {
                            what: "a keyframe's codec",
                            value: u64::from(other),
                        });
                    }
                },
                _ => {
                    let keyframe = (op == op::KEYFRAME).then_some(FrameCodec::H264);
                    FrameData::Coded { keyframe, data: &[] }
                }
            };
            let len = reader.varint("a frame's length")?;
            let len = usize::try_from(len).map_err(|_| WireError::Truncated("a frame"))?;
            let frame = kind.with_data(reader.take("a frame", len)?);
            VideoCommand::Next { id, time, clip, frame }
        }
        op::MOVE => {
            let (x, y) = read_corner(reader)?;
            VideoCommand::Move { id, x, y }
        }
        op::SOURCE_SIZE => VideoCommand::SourceSize { id, source: read_source(reader)? },
        op::PLACE_SIZE => VideoCommand::PlaceSize { id, size: read_place_size(reader)? },
        op::END => VideoCommand::End { id },
        other => {
            return Err(WireError::Unknown { what: "a video's command", value: u64::from(other) });
        }
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
    let (width, height) = (edge("a frame's width")?, edge("a frame's height")?);
    let (x, y) = (edge("a crop's x")?, edge("a crop's y")?);
    let (crop_width, crop_height) = (edge("a crop's width")?, edge("a crop's height")?);
    let inside =
        crop_width > 0 && crop_height > 0 && x <= width - crop_width && y <= height - crop_height;
    if !inside {
        return Err(WireError::Outside("a frame's crop"));
    }
    let size = Size { width: width as u32, height: height as u32 };
    Ok(Source { size, crop: Rect::at(x, y, crop_width, crop_height) })
}

fn read_corner(reader: &mut Reader<'_>) -> Result<(i32, i32), WireError> {
    let mut edge = |what| {
        let value = i64::from(reader.zigzag(what)?);
        if value.abs() > PLACE_MAX {
            return Err(WireError::OverLimit {
                what,
                value: value.unsigned_abs(),
                limit: PLACE_MAX as u64,
            });
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

/// Appends banded rectangles, each corner relative to the previous one.
fn put_clip(out: &mut Vec<u8>, clip: &Region) {
    assert!(
        clip.rect_count() <= RECTS_MAX,
        "a clip must have at most {RECTS_MAX} rectangles; it has {}",
        clip.rect_count()
    );
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
