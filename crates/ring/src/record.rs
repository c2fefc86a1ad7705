//! Path 3/13: from ring.rs, to session-core's translate.rs.
//! One record: 64 bytes, copied out of shared memory and validated once; no later code validates
//! again. Knows the layout in driver/include/ring_abi.h; never memory maps, pixels or viewers.

use thinc_region::{Rect, Size};

use crate::abi::{RECORD_BYTES, SCREEN_MAX, VIDEO_EDGE_MAX, VIDEO_PORTS};

/// A drawable: 0 is the screen, any other number a pixmap's serial, which is never reused in one X
/// server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DrawableId(pub u32);

impl DrawableId {
    /// The screen with all windows that are not redirected.
    pub const SCREEN: DrawableId = DrawableId(0);
}

/// What was drawn into a rectangle: a hint, to be verified against the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawHint {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A tile or an opaque stipple; every pixel of the rectangle comes from it.
    Pattern,
    /// Text: glyphs over existing pixels or over their own background.
    Glyphs,
    /// Pixels sent by an X client (PutImage and the like), in every pixel of the rectangle.
    Image,
    /// A RENDER operation other than glyphs and solid fills.
    Composite,
    /// A frame of XVideo, converted into the rectangle, which is the visible part of its place. All
    /// records of the op have the same values.
    Video {
        /// Xv port, 0 to 15.
        port: u16,
        /// The layout of its samples in shared memory.
        layout: VideoLayout,
        /// Size of the whole image in luma samples, 1 to 8192 each.
        size: Size,
        /// The part of the image that is scaled to the place; it lies inside the image.
        crop: Rect,
        /// Where all of the crop would be shown, in the drawable; it may extend beyond the
        /// drawable.
        place: Rect,
    },
    /// As [`DrawHint::Image`], for the left eye. The right eye's picture, of the same place and
    /// size, is the port's frame in shared memory. All records of the op have the same values.
    Stereo {
        /// Xv port, 0 to 15.
        port: u16,
        /// Size of one eye's image in pixels, at most 8192 x 4096.
        size: Size,
        /// The part of the image that is shown; it lies inside the image.
        crop: Rect,
        /// Where all of the crop would be shown, in the drawable, in the size it has; it may extend
        /// beyond the drawable.
        place: Rect,
    },
    /// Lines, arcs, raster functions other than copy, and all other changes of pixels.
    Other,
}

/// The planes are luma, blue and red, one after another, in rows without gaps, one byte per sample;
/// but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoLayout {
    /// Colour at half the width and half the height, rounded up.
    Yuv420,
    /// Colour at half the width, rounded up.
    Yuv422,
    /// The right eye's picture of a stereo frame: 4 bytes a pixel, blue, green, red and one that is
    /// undefined.
    RightEye,
}

impl VideoLayout {
    /// None if the driver never writes this word.
    pub(crate) fn from_word(word: u32) -> Option<VideoLayout> {
        match word {
            0 => Some(VideoLayout::Yuv420),
            1 => Some(VideoLayout::Yuv422),
            2 => Some(VideoLayout::RightEye),
            _ => None,
        }
    }

    /// Bytes of all planes, or pixels, of an image of this size.
    pub const fn bytes(self, size: Size) -> usize {
        let (across, down) = (size.width.div_ceil(2) as usize, size.height.div_ceil(2) as usize);
        let luma = size.width as usize * size.height as usize;
        match self {
            VideoLayout::Yuv420 => luma + 2 * across * down,
            VideoLayout::Yuv422 => luma + 2 * across * size.height as usize,
            VideoLayout::RightEye => 4 * luma,
        }
    }
}

/// What a drawing does to the alpha of its pixels. In a drawable without alpha all pixels are
/// opaque in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpha {
    /// Every pixel of the rectangle is opaque now.
    Opaque,
    /// Opaque pixels stay opaque: text and blends over them.
    Kept,
    /// Unknown.
    Unknown,
}

/// One record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawRecord {
    /// Number of the drawing op; all records of one op have the same. Compare it with
    /// [`crate::Ring::begin`].
    pub op: u64,
    /// True if the next record belongs to the same op.
    pub more: bool,
    /// XID of the top-level window drawn in, 0 if unknown.
    pub window: u32,
    /// What happened.
    pub kind: RecordKind,
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Pixels of `rect` changed.
    Draw {
        /// The drawable.
        dst: DrawableId,
        /// The changed pixels, clipped to what the op could touch.
        rect: Rect,
        /// What was drawn.
        hint: DrawHint,
        /// What happened to the alpha of `rect`.
        alpha: Alpha,
    },
    /// `rect` of `dst` holds what `rect - (dx, dy)` of `src` held **before the op**. The records of
    /// one op are one region with one vector, and none of them reads what another wrote.
    Copy {
        /// The source.
        src: DrawableId,
        /// The destination.
        dst: DrawableId,
        /// In `dst`.
        rect: Rect,
        /// Pixels moved right.
        dx: i32,
        /// Pixels moved down.
        dy: i32,
        /// Blended over the destination: a copy where the source is opaque, a drawing elsewhere.
        over: bool,
    },
    /// A pixmap of depth 24 or 32 is recorded from here on; its present contents are unknown.
    /// Repeated for a pixmap that was announced before the reader had to drop all pixmaps.
    PixmapCreate {
        /// Its serial.
        id: DrawableId,
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// True if it has no alpha.
        opaque: bool,
    },
    /// The pixmap was freed.
    PixmapDestroy {
        /// Its serial.
        id: DrawableId,
    },
    /// The cursor block changed: the image, the visibility, or the position, if an application set
    /// it.
    Cursor,
    /// The geometry block changed. If `generation` is new, the framebuffer was sent on the control
    /// socket before this record.
    Geometry {
        /// Of the framebuffer.
        generation: u32,
    },
    /// The gamma block changed: outputs show other colours, or moved.
    Gamma,
    /// The port shows no frame until the next one: its window is gone or hidden, or its X
    /// client stopped it.
    VideoStopped {
        /// Xv port, 0 to 15.
        port: u16,
    },
    /// X is about to sleep: flush.
    Idle,
    /// X turns to other requests: flush if the oldest record is old.
    Yield,
    /// Records are missing before this one: [`crate::Ring::take_dirty_tiles`] has the changed parts
    /// of the screen.
    Overflow,
    /// X drew everything before this record before it read this barrier's request.
    Barrier {
        /// From [`crate::Control::barrier`].
        id: u32,
    },
    /// A key or button press was delivered to a window.
    InputDelivered {
        /// From the [`crate::InputMessage`].
        seq: u32,
        /// XID of the top-level window that received it, or of the root; 0 if X does not say.
        window: u32,
    },
}

/// Why 64 bytes are not a record: the driver has another version, or memory is corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No such kind.
    #[error("a record has the unknown kind {0}")]
    Kind(u8),
    /// No such hint.
    #[error("a record has the unknown drawing hint {0}")]
    Hint(u16),
    /// The rectangle is empty, negative or too large.
    #[error("a record has the rectangle {0:?}, which is empty or outside its drawable")]
    Rect(Rect),
    /// X makes no pixmap of this size.
    #[error("a record creates a pixmap of {0}x{1} pixels; each must be 1 to {DRAWABLE_MAX}")]
    PixmapSize(u32, u32),
    /// The COPY goes further than any drawable is wide.
    #[error("a COPY moves pixels by ({0}, {1}); each must be at most {DRAWABLE_MAX}")]
    Vector(i32, i32),
    /// The frame has no valid port, size, crop or place.
    #[error("a record has an invalid video frame or port (port {0})")]
    Video(u32),
}

/// Largest coordinate in a pixmap (X's limit).
const DRAWABLE_MAX: i32 = 32767;

const KIND_DRAW: u8 = 1;
const KIND_COPY: u8 = 2;
const KIND_PIXMAP_CREATE: u8 = 3;
const KIND_PIXMAP_DESTROY: u8 = 4;
const KIND_CURSOR: u8 = 5;
const KIND_GEOMETRY: u8 = 6;
const KIND_IDLE: u8 = 7;
const KIND_YIELD: u8 = 8;
const KIND_OVERFLOW: u8 = 9;
const KIND_BARRIER: u8 = 10;
const KIND_INPUT: u8 = 11;
const KIND_VIDEO_STOPPED: u8 = 12;
const KIND_GAMMA: u8 = 13;

const FLAG_MORE: u8 = 1;
const FLAG_OVER: u8 = 2;
const FLAG_OPAQUE: u8 = 4;
const FLAG_KEEPS_ALPHA: u8 = 8;

impl DrawRecord {
    /// Parses one record, in the byte order of this machine, which is the driver's too.
    ///
    /// ```text
    ///  0  op      u64 | 8 kind u8 | 9 flags u8 | 10 hint u16 | 12 window u32
    /// 16  dst u32 | 20 src u32 | 24 x1 i32 | 28 y1 i32 | 32 x2 i32 | 36 y2 i32
    /// 40  dx i32  | 44 dy i32  | 48 arg [u32; 4]
    /// ```
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Result<DrawRecord, RecordError> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let int = |at: usize| word(at).cast_signed();
        let arg = |i: usize| word(48 + 4 * i);
        let mut op = [0; 8];
        op.copy_from_slice(&bytes[..8]);
        let dst = DrawableId(word(16));
        let rect = Rect { x1: int(24), y1: int(28), x2: int(32), y2: int(36) };
        let (dx, dy) = (int(40), int(44));

        let checked_rect = || {
            let max =
                if dst == DrawableId::SCREEN { SCREEN_MAX.cast_signed() } else { DRAWABLE_MAX };
            if rect.x1 < 0
                || rect.y1 < 0
                || rect.x2 > max
                || rect.y2 > max
                || rect.x1 >= rect.x2
                || rect.y1 >= rect.y2
            {
                return Err(RecordError::Rect(rect));
            }
            Ok(rect)
        };
        let kind = match bytes[8] {
            KIND_DRAW => {
                let hint = match u16::from_ne_bytes([bytes[10], bytes[11]]) {
                    0 => DrawHint::Other,
                    1 => DrawHint::Solid(arg(0) & 0x00ff_ffff),
                    2 => DrawHint::Pattern,
                    3 => DrawHint::Glyphs,
                    4 => DrawHint::Image,
                    5 => DrawHint::Composite,
                    hint @ (6 | 7) => video([arg(0), arg(1), word(20), arg(2), arg(3)], (dx, dy))
                        .filter(|frame| matches!(frame, DrawHint::Video { .. }) == (hint == 6))
                        .ok_or(RecordError::Video(arg(0) & 0xff))?,
                    other => return Err(RecordError::Hint(other)),
                };
                let alpha = match bytes[9] {
                    flags if flags & FLAG_OPAQUE != 0 => Alpha::Opaque,
                    flags if flags & FLAG_KEEPS_ALPHA != 0 => Alpha::Kept,
                    _ => Alpha::Unknown,
                };
                RecordKind::Draw { dst, rect: checked_rect()?, hint, alpha }
            }
            KIND_COPY => {
                let reach = -DRAWABLE_MAX..=DRAWABLE_MAX;
                if !reach.contains(&dx) || !reach.contains(&dy) {
                    return Err(RecordError::Vector(dx, dy));
                }
                let rect = checked_rect()?;
                let from =
                    Rect { x1: rect.x1 - dx, y1: rect.y1 - dy, x2: rect.x2 - dx, y2: rect.y2 - dy };
                if from.x1 < 0 || from.y1 < 0 || from.x2 > DRAWABLE_MAX || from.y2 > DRAWABLE_MAX {
                    return Err(RecordError::Rect(from));
                }
                let over = bytes[9] & FLAG_OVER != 0;
                RecordKind::Copy { src: DrawableId(word(20)), dst, rect, dx, dy, over }
            }
            KIND_PIXMAP_CREATE => {
                let edge = 1..=DRAWABLE_MAX.unsigned_abs();
                if !edge.contains(&arg(0)) || !edge.contains(&arg(1)) {
                    return Err(RecordError::PixmapSize(arg(0), arg(1)));
                }
                let opaque = bytes[9] & FLAG_OPAQUE != 0;
                RecordKind::PixmapCreate { id: dst, width: arg(0), height: arg(1), opaque }
            }
            KIND_PIXMAP_DESTROY => RecordKind::PixmapDestroy { id: dst },
            KIND_CURSOR => RecordKind::Cursor,
            KIND_GEOMETRY => RecordKind::Geometry { generation: arg(0) },
            KIND_GAMMA => RecordKind::Gamma,
            KIND_IDLE => RecordKind::Idle,
            KIND_YIELD => RecordKind::Yield,
            KIND_OVERFLOW => RecordKind::Overflow,
            KIND_BARRIER => RecordKind::Barrier { id: arg(0) },
            KIND_VIDEO_STOPPED if arg(0) < VIDEO_PORTS => {
                RecordKind::VideoStopped { port: arg(0) as u16 }
            }
            KIND_VIDEO_STOPPED => return Err(RecordError::Video(arg(0))),
            KIND_INPUT => RecordKind::InputDelivered { seq: arg(0), window: word(12) },
            other => return Err(RecordError::Kind(other)),
        };
        Ok(DrawRecord {
            op: u64::from_ne_bytes(op),
            more: bytes[9] & FLAG_MORE != 0,
            window: word(12),
            kind,
        })
    }
}

/// Largest distance of a frame's place from the origin, and its longest edge.
const PLACE_MAX: i32 = 32768;
/// Most rows of one eye's picture: half as many as an image has.
const STEREO_HEIGHT_MAX: u32 = VIDEO_EDGE_MAX / 2;

/// Parses a video frame, or a stereo frame, from its words: port and layout, image, crop's corner,
/// crop's size, place's size; then the place's corner.
pub(crate) fn video(words: [u32; 5], (x, y): (i32, i32)) -> Option<DrawHint> {
    let [port_layout, image, crop_at, crop_size, place_size] = words;
    let pair = |word: u32| ((word & 0xffff).cast_signed(), (word >> 16).cast_signed());
    let size = Size { width: image & 0xffff, height: image >> 16 };
    let rect = |x, y, (width, height)| Rect::at(x, y, width, height);
    let (crop_x, crop_y) = pair(crop_at);
    let crop = rect(crop_x, crop_y, pair(crop_size));
    let reach = -PLACE_MAX..=PLACE_MAX;
    if !reach.contains(&x) || !reach.contains(&y) {
        return None;
    }
    let place = rect(x, y, pair(place_size));
    let port = port_layout & 0xff;
    let valid = port < VIDEO_PORTS
        && (1..=VIDEO_EDGE_MAX).contains(&size.width)
        && (1..=VIDEO_EDGE_MAX).contains(&size.height)
        && !crop.is_empty()
        && size.rect().contains(&crop)
        && !place.is_empty()
        && place.width() <= PLACE_MAX
        && place.height() <= PLACE_MAX;
    let (layout, port) = (VideoLayout::from_word(port_layout >> 8)?, port as u16);
    if layout == VideoLayout::RightEye {
        let fits = crop_size == place_size && size.height <= STEREO_HEIGHT_MAX;
        return (valid && fits).then_some(DrawHint::Stereo { port, size, crop, place });
    }
    valid.then_some(DrawHint::Video { port, layout, size, crop, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(
        kind: u8,
        hint: u16,
        rect: [i32; 4],
        vector: [i32; 2],
        arg: [u32; 4],
    ) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&7u64.to_ne_bytes());
        out[8] = kind;
        out[9] = FLAG_MORE;
        out[10..12].copy_from_slice(&hint.to_ne_bytes());
        out[12..16].copy_from_slice(&0x20_0001u32.to_ne_bytes());
        for (i, value) in rect.into_iter().chain(vector).enumerate() {
            out[24 + 4 * i..28 + 4 * i].copy_from_slice(&value.to_ne_bytes());
        }
        for (i, value) in arg.into_iter().enumerate() {
            out[48 + 4 * i..52 + 4 * i].copy_from_slice(&value.to_ne_bytes());
        }
        out
    }

    #[test]
    fn a_solid_drawing_is_parsed() {
        let record =
            DrawRecord::parse(&bytes(1, 1, [1, 2, 3, 4], [0, 0], [0xff12_3456, 0, 0, 0])).unwrap();
        assert_eq!(
            record,
            DrawRecord {
                op: 7,
                more: true,
                window: 0x20_0001,
                kind: RecordKind::Draw {
                    dst: DrawableId::SCREEN,
                    rect: Rect { x1: 1, y1: 2, x2: 3, y2: 4 },
                    hint: DrawHint::Solid(0x12_3456),
                    alpha: Alpha::Unknown
                }
            }
        );
    }

    #[test]
    fn invalid_records_are_refused() {
        for rect in
            [[3, 0, 3, 4], [-1, 0, 3, 4], [0, 0, 16385, 4], [0, 5, 3, 4], [0, 0, 3, i32::MAX]]
        {
            assert!(matches!(
                DrawRecord::parse(&bytes(1, 0, rect, [0, 0], [0; 4])),
                Err(RecordError::Rect(_))
            ));
        }
        assert_eq!(
            DrawRecord::parse(&bytes(1, 8, [0, 0, 1, 1], [0, 0], [0; 4])),
            Err(RecordError::Hint(8))
        );
        assert_eq!(
            DrawRecord::parse(&bytes(0, 0, [0; 4], [0, 0], [0; 4])),
            Err(RecordError::Kind(0))
        );
        assert_eq!(
            DrawRecord::parse(&bytes(14, 0, [0; 4], [0, 0], [0; 4])),
            Err(RecordError::Kind(14))
        );
        assert_eq!(
            DrawRecord::parse(&bytes(12, 0, [0; 4], [0, 0], [16, 0, 0, 0])),
            Err(RecordError::Video(16))
        );
        assert_eq!(
            DrawRecord::parse(&bytes(2, 0, [0, 0, 1, 1], [i32::MIN, 0], [0; 4])),
            Err(RecordError::Vector(i32::MIN, 0))
        );
        for (width, height) in [(0, 5), (5, 0), (32768, 5), (5, u32::MAX)] {
            let created = bytes(3, 0, [0; 4], [0, 0], [width, height, 0, 0]);
            assert_eq!(DrawRecord::parse(&created), Err(RecordError::PixmapSize(width, height)));
        }
        // The source lies left of the drawable.
        assert!(matches!(
            DrawRecord::parse(&bytes(2, 0, [0, 0, 1, 1], [1, 0], [0; 4])),
            Err(RecordError::Rect(_))
        ));
    }

    #[test]
    fn a_frame_with_an_invalid_size_crop_or_place_is_refused() {
        let (rect, at) = ([10, 10, 20, 20], [-5, 7]);
        let record = |arg: [u32; 4], crop_at: u32, at: [i32; 2]| {
            let mut bytes = bytes(1, 6, rect, at, arg);
            bytes[20..24].copy_from_slice(&crop_at.to_ne_bytes());
            DrawRecord::parse(&bytes).map(|record| match record.kind {
                RecordKind::Draw { hint, .. } => hint,
                other => panic!("{other:?}"),
            })
        };
        let valid = [3 | 1 << 8, 64 | 48 << 16, 60 | 40 << 16, 1000 | 700 << 16];
        let size = Size { width: 64, height: 48 };
        let (crop, place) = (Rect::at(4, 8, 60, 40), Rect::at(-5, 7, 1000, 700));
        let frame = DrawHint::Video { port: 3, layout: VideoLayout::Yuv422, size, crop, place };
        assert_eq!(record(valid, 4 | 8 << 16, at), Ok(frame));
        let with = |index: usize, value: u32| {
            let mut arg = valid;
            arg[index] = value;
            arg
        };
        for (arg, crop_at, at) in [
            (with(0, 16), 4 | 8 << 16, at),
            (with(0, 3 | 2 << 8), 4 | 8 << 16, at),
            (with(1, 64), 0, at),
            (with(1, 8193 | 48 << 16), 0, at),
            (valid, 5 | 8 << 16, at),
            (valid, 4 | 9 << 16, at),
            (with(2, 60), 4 | 8 << 16, at),
            (with(3, 700 << 16), 4 | 8 << 16, at),
            (with(3, 40000 | 700 << 16), 4 | 8 << 16, at),
            (valid, 4 | 8 << 16, [-32769, 0]),
            (valid, 4 | 8 << 16, [0, i32::MAX]),
        ] {
            assert_eq!(
                record(arg, crop_at, at),
                Err(RecordError::Video(arg[0] & 0xff)),
                "{arg:?} {crop_at:x} {at:?}"
            );
        }
    }

    #[test]
    fn a_stereo_frame_is_shown_in_its_own_size_and_is_no_video() {
        let record = |hint: u16, arg: [u32; 4]| {
            DrawRecord::parse(&bytes(1, hint, [10, 10, 20, 20], [-5, 7], arg)).map(|record| {
                match record.kind {
                    RecordKind::Draw { hint, .. } => hint,
                    other => panic!("{other:?}"),
                }
            })
        };
        let valid = [3 | 2 << 8, 64 | 48 << 16, 60 | 40 << 16, 60 | 40 << 16];
        let frame = DrawHint::Stereo {
            port: 3,
            size: Size { width: 64, height: 48 },
            crop: Rect::at(0, 0, 60, 40),
            place: Rect::at(-5, 7, 60, 40),
        };
        assert_eq!(record(7, valid), Ok(frame));
        assert_eq!(record(6, valid), Err(RecordError::Video(3)), "a video has samples");
        let with = |index: usize, value: u32| {
            let mut arg = valid;
            arg[index] = value;
            arg
        };
        for arg in [with(0, 3 | 1 << 8), with(3, 61 | 40 << 16), with(1, 64 | 4097 << 16)] {
            assert_eq!(record(7, arg), Err(RecordError::Video(3)), "{arg:?}");
        }
        let largest = Size { width: VIDEO_EDGE_MAX, height: STEREO_HEIGHT_MAX };
        assert!(VideoLayout::RightEye.bytes(largest) <= crate::abi::VIDEO_BUFFER_BYTES);
    }

    /// Every kind byte, with random contents: parsing returns a value and never panics.
    #[test]
    fn any_64_bytes_are_parsed_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..200_000u32 {
            let mut bytes = [0; RECORD_BYTES];
            for chunk in bytes.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_ne_bytes());
            }
            bytes[8] = (round % 15) as u8;
            if let Ok(DrawRecord { kind: RecordKind::Draw { rect, .. }, .. }) =
                DrawRecord::parse(&bytes)
            {
                assert!(!rect.is_empty());
            }
        }
    }
}
