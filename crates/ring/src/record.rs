//! Path 3/13: from ring.rs, to session-core's translate.rs.
//! One record: 64 bytes, copied out of shared memory and checked once, so that nothing behind this file checks again.
//! Knows the layout in driver/include/ring_abi.h; never memory maps, pixels or viewers.

use thinc_region::Rect;

use crate::abi::{RECORD_BYTES, SCREEN_MAX};

/// What was drawn on: 0 is the screen, anything else a pixmap's serial (never used twice in one X server).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DrawableId(pub u32);

impl DrawableId {
    /// The screen, with every window that is not redirected.
    pub const SCREEN: DrawableId = DrawableId(0);
}

/// What a drawing put into its rectangle: a hint to be verified against the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A tile or an opaque stipple; every pixel of the rectangle comes from it.
    Pattern,
    /// Text: glyphs over what was there or over their own background.
    Glyphs,
    /// Pixels that a client made: PutImage and its kin; every pixel of the rectangle.
    Image,
    /// A RENDER operation other than glyphs and solid fills.
    Composite,
    /// A frame of XVideo, converted into the rectangle.
    Video {
        /// Xv port, 0 to 15.
        port: u16,
        /// Format as in the Xv protocol, such as `YV12`.
        fourcc: u32,
        /// Width of the part of the frame that is shown, in its own pixels.
        src_w: u16,
        /// Height of the part of the frame that is shown.
        src_h: u16,
    },
    /// Lines, arcs, rasters with other functions than copy, and whatever else changes pixels.
    Other,
}

/// What a drawing does to the alpha of the pixels it touches; a drawable without alpha is opaque whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpha {
    /// Every pixel of the rectangle is opaque now.
    Opaque,
    /// What was opaque still is: text and blends over it.
    Kept,
    /// Anything.
    Unknown,
}

/// One record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawRecord {
    /// Counts drawing ops; all records of one op carry the same. Compare with [`crate::Ring::begin`].
    pub op: u64,
    /// True when the next record belongs to the same op.
    pub more: bool,
    /// XID of the top-level window drawn in, 0 when unknown.
    pub window: u32,
    /// What happened.
    pub kind: RecordKind,
}

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Pixels of `rect` changed.
    Draw {
        /// Where.
        dst: DrawableId,
        /// Clipped to what the op could touch.
        rect: Rect,
        /// Hint.
        what: Drawn,
        /// Of all of `rect`.
        alpha: Alpha,
    },
    /// `rect` of `dst` holds what `rect - (dx, dy)` of `src` held **before the op**: records of one op are one region
    /// with one vector, and none of them reads what another wrote.
    Copy {
        /// Where from.
        src: DrawableId,
        /// Where to.
        dst: DrawableId,
        /// In `dst`.
        rect: Rect,
        /// Pixels moved right.
        dx: i32,
        /// Pixels moved down.
        dy: i32,
        /// Blended over what was there: a copy where the source is opaque, and any drawing where it is not.
        over: bool,
    },
    /// A pixmap of depth 24 or 32 is followed from here on; what it holds by now is not told. Again for one that was told of
    /// before the reader had to forget all pixmaps.
    PixmapCreate {
        /// Its serial.
        id: DrawableId,
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// It has no alpha.
        opaque: bool,
    },
    /// The pixmap is gone.
    PixmapDestroy {
        /// Its serial.
        id: DrawableId,
    },
    /// The cursor block changed: image, visibility, or a position that an application chose.
    Cursor,
    /// The geometry block changed. Where `generation` is new, the control socket holds the framebuffer already.
    Geometry {
        /// Of the framebuffer.
        generation: u32,
    },
    /// X goes to sleep: flush.
    Idle,
    /// X turns to other work: flush when the oldest record is old.
    Yield,
    /// Records are missing before this one: [`crate::Ring::take_dirty_tiles`] says where on the screen.
    Overflow,
    /// Everything before the request of this barrier is before this record.
    Barrier {
        /// From [`crate::Control::barrier`].
        id: u32,
    },
    /// A key or button press was delivered to a window.
    InputDelivered {
        /// From the [`crate::InputMessage`].
        seq: u32,
        /// XID of the top-level window that got it, or of the root; 0 where X does not tell.
        window: u32,
    },
}

/// Why 64 bytes are no record: the driver is another version, or memory is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No such kind.
    #[error("record kind {0} is unknown")]
    Kind(u8),
    /// No such hint.
    #[error("drawing hint {0} is unknown")]
    What(u16),
    /// Empty, negative or too large.
    #[error("record has an impossible rectangle {0:?}")]
    Rect(Rect),
    /// A pixmap that X does not make.
    #[error("record has a pixmap of {0} x {1} pixels; 1 to {DRAWABLE_MAX} are possible")]
    PixmapSize(u32, u32),
    /// A COPY further than any drawable is wide.
    #[error("record has an impossible vector ({0}, {1})")]
    Vector(i32, i32),
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

const FLAG_MORE: u8 = 1;
const FLAG_OVER: u8 = 2;
const FLAG_OPAQUE: u8 = 4;
const FLAG_KEEPS_ALPHA: u8 = 8;

impl DrawRecord {
    /// Reads one record, in the byte order of this machine, which is the driver's.
    ///
    /// ```text
    ///  0  op      u64 | 8 kind u8 | 9 flags u8 | 10 what u16 | 12 window u32
    /// 16  dst u32 | 20 src u32 | 24 x1 i32 | 28 y1 i32 | 32 x2 i32 | 36 y2 i32
    /// 40  dx i32  | 44 dy i32  | 48 arg [u32; 4]
    /// ```
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Result<DrawRecord, RecordError> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let int = |at: usize| word(at).cast_signed();
        let arg = |i: usize| word(48 + 4 * i);
        let mut op = [0; 8];
        op.copy_from_slice(&bytes[..8]);
        let dst = DrawableId(word(16));
        let rect = Rect { x1: int(24), y1: int(28), x2: int(32), y2: int(36) };
        let (dx, dy) = (int(40), int(44));

        let checked_rect = || {
            let max = if dst == DrawableId::SCREEN { SCREEN_MAX.cast_signed() } else { DRAWABLE_MAX };
            if rect.x1 < 0 || rect.y1 < 0 || rect.x2 > max || rect.y2 > max || rect.x1 >= rect.x2 || rect.y1 >= rect.y2
            {
                return Err(RecordError::Rect(rect));
            }
            Ok(rect)
        };
        let kind = match bytes[8] {
            KIND_DRAW => {
                let what = match u16::from_ne_bytes([bytes[10], bytes[11]]) {
                    0 => Drawn::Other,
                    1 => Drawn::Solid(arg(0) & 0x00ff_ffff),
                    2 => Drawn::Pattern,
                    3 => Drawn::Glyphs,
                    4 => Drawn::Image,
                    5 => Drawn::Composite,
                    6 => Drawn::Video {
                        port: arg(0) as u16,
                        fourcc: arg(1),
                        src_w: arg(2) as u16,
                        src_h: (arg(2) >> 16) as u16,
                    },
                    other => return Err(RecordError::What(other)),
                };
                let alpha = match bytes[9] {
                    flags if flags & FLAG_OPAQUE != 0 => Alpha::Opaque,
                    flags if flags & FLAG_KEEPS_ALPHA != 0 => Alpha::Kept,
                    _ => Alpha::Unknown,
                };
                RecordKind::Draw { dst, rect: checked_rect()?, what, alpha }
            }
            KIND_COPY => {
                let reach = -DRAWABLE_MAX..=DRAWABLE_MAX;
                if !reach.contains(&dx) || !reach.contains(&dy) {
                    return Err(RecordError::Vector(dx, dy));
                }
                let rect = checked_rect()?;
                let from = Rect { x1: rect.x1 - dx, y1: rect.y1 - dy, x2: rect.x2 - dx, y2: rect.y2 - dy };
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
            KIND_IDLE => RecordKind::Idle,
            KIND_YIELD => RecordKind::Yield,
            KIND_OVERFLOW => RecordKind::Overflow,
            KIND_BARRIER => RecordKind::Barrier { id: arg(0) },
            KIND_INPUT => RecordKind::InputDelivered { seq: arg(0), window: word(12) },
            other => return Err(RecordError::Kind(other)),
        };
        Ok(DrawRecord { op: u64::from_ne_bytes(op), more: bytes[9] & FLAG_MORE != 0, window: word(12), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u8, what: u16, rect: [i32; 4], vector: [i32; 2], arg: [u32; 4]) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&7u64.to_ne_bytes());
        out[8] = kind;
        out[9] = FLAG_MORE;
        out[10..12].copy_from_slice(&what.to_ne_bytes());
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
    fn solid_draw() {
        let record = DrawRecord::parse(&bytes(1, 1, [1, 2, 3, 4], [0, 0], [0xff12_3456, 0, 0, 0])).unwrap();
        assert_eq!(
            record,
            DrawRecord {
                op: 7,
                more: true,
                window: 0x20_0001,
                kind: RecordKind::Draw {
                    dst: DrawableId::SCREEN,
                    rect: Rect { x1: 1, y1: 2, x2: 3, y2: 4 },
                    what: Drawn::Solid(0x12_3456),
                    alpha: Alpha::Unknown
                }
            }
        );
    }

    #[test]
    fn impossible_records_are_refused() {
        for rect in [[3, 0, 3, 4], [-1, 0, 3, 4], [0, 0, 16385, 4], [0, 5, 3, 4], [0, 0, 3, i32::MAX]] {
            assert!(matches!(DrawRecord::parse(&bytes(1, 0, rect, [0, 0], [0; 4])), Err(RecordError::Rect(_))));
        }
        assert_eq!(DrawRecord::parse(&bytes(1, 7, [0, 0, 1, 1], [0, 0], [0; 4])), Err(RecordError::What(7)));
        assert_eq!(DrawRecord::parse(&bytes(0, 0, [0; 4], [0, 0], [0; 4])), Err(RecordError::Kind(0)));
        assert_eq!(DrawRecord::parse(&bytes(12, 0, [0; 4], [0, 0], [0; 4])), Err(RecordError::Kind(12)));
        assert_eq!(
            DrawRecord::parse(&bytes(2, 0, [0, 0, 1, 1], [i32::MIN, 0], [0; 4])),
            Err(RecordError::Vector(i32::MIN, 0))
        );
        for (width, height) in [(0, 5), (5, 0), (32768, 5), (5, u32::MAX)] {
            let created = bytes(3, 0, [0; 4], [0, 0], [width, height, 0, 0]);
            assert_eq!(DrawRecord::parse(&created), Err(RecordError::PixmapSize(width, height)));
        }
        // A source left of the drawable.
        assert!(matches!(DrawRecord::parse(&bytes(2, 0, [0, 0, 1, 1], [1, 0], [0; 4])), Err(RecordError::Rect(_))));
    }

    /// Whatever the bytes are, the answer is a value: every kind byte with random contents.
    #[test]
    fn any_bytes_give_an_answer() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..200_000u32 {
            let mut bytes = [0; RECORD_BYTES];
            for chunk in bytes.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_ne_bytes());
            }
            bytes[8] = (round % 14) as u8;
            if let Ok(DrawRecord { kind: RecordKind::Draw { rect, .. }, .. }) = DrawRecord::parse(&bytes) {
                assert!(!rect.is_empty());
            }
        }
    }
}
