//! The five display commands, as they lie in an update.
//! Path 10/13 and 11/13: written by session-core and codec-enc, read by viewer-core/decode.rs.
//! No command but COPY reads what the viewer shows.

use thinc_region::{Rect, Region};

/// One display command; borrowed from the update that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Every pixel of `region` becomes what was at its place minus the vector, all read before any is written.
    Copy {
        /// Destination.
        region: Region,
        /// Destination x minus source x.
        dx: i32,
        /// Destination y minus source y.
        dy: i32,
    },
    /// One colour, 0xRRGGBB.
    Sfill {
        /// Destination.
        region: Region,
        /// 0xRRGGBB.
        color: u32,
    },
    /// A tile repeated; the tile's pixel (0, 0) lies at the corner of `rect`.
    Pfill {
        /// Destination.
        rect: Rect,
        /// Tile width in pixels.
        tile_width: u16,
        /// Tile height in pixels.
        tile_height: u16,
        /// How `data` is encoded; decodes to tile_width × tile_height pixels.
        encoding: Encoding,
        /// The tile.
        data: &'a [u8],
    },
    /// Two colours: 1-bit choice or 8-bit coverage of `fg` over `bg`.
    Bitmap {
        /// Destination.
        rect: Rect,
        /// Bits of a pixel in `data`.
        depth: BitmapDepth,
        /// 0xRRGGBB where a bit is 1, or coverage is 255.
        fg: u32,
        /// 0xRRGGBB where a bit is 0, or coverage is 0.
        bg: u32,
        /// How `data` is packed.
        packing: Packing,
        /// Rows padded to whole bytes, first pixel in the highest bit; or one byte a pixel.
        data: &'a [u8],
    },
    /// Pixels.
    Raw {
        /// Destination.
        rect: Rect,
        /// How `data` is encoded.
        encoding: Encoding,
        /// The pixels.
        data: &'a [u8],
    },
}

/// Bits of a BITMAP's pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BitmapDepth {
    /// `fg` or `bg`.
    One = 1,
    /// `bg + (fg - bg) × coverage / 255`, each channel rounded to nearest.
    Eight = 8,
}

/// How bytes of a BITMAP are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Packing {
    /// As they are.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
}

/// How pixels of a RAW or of a tile are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// 3 bytes a pixel: B, G, R.
    Plain = 0,
    /// The byte operations of `doc/protocol.md`: runs, rows above, a cache of colours, predicted differences.
    Predicted = 1,
    /// `Predicted`, then one zstd frame.
    PredictedZstd = 2,
}
