//! Path 9/13: from lib.rs.
//! Chooses a command and an encoding for each planned item, and appends it.
//! Knows snapshots, commands and sizes; it reuses its memory.

use thinc_codec_dec::OPAQUE;
use thinc_codec_dec::context::padding_len;
use thinc_pixels::{Planned, Snapshot};
use thinc_protocol::command::{BitmapDepth, CommandWriter, Compression, Encoding};
use thinc_protocol::limits::RECTS_MAX;
use thinc_region::{Rect, Region};
use zstd_safe::{CCtx, CParameter};

use crate::columns::Columns;
use crate::jpeg::Photographs;
use crate::parts::Parts;
use crate::predicted::Predictor;
use crate::residuals::Residuals;
use crate::settings::{BLOCK_LEVEL, EncodeSettings, Entropy, JpegProfile};
use crate::{bitmap, cursor};

/// 96 bytes: for fewer, a zstd frame, which takes 11 µs and has 9 bytes of headers, saves almost
/// nothing.
const ZSTD_PREDICTED_MIN: usize = 96;
/// 48 bytes: bits of a bitmap are less dense than operations, so a frame pays off earlier.
const ZSTD_BITS_MIN: usize = 48;
/// 1 Mi pixels: larger RAWs are split, which bounds the scratch memory to 8 MiB. Each part starts
/// with empty contexts: with half as many pixels, screens of text take a tenth more bytes.
const RAW_AREA_MAX: u64 = 1024 * 1024;
/// 512 Ki pixels: the same for JPEG, which has no contexts, and whose first part then arrives
/// earlier.
const JPEG_AREA_MAX: u64 = 512 * 1024;
/// 16 Ki pixels: up to it two colours and coverage are tried both as BITMAP and as RAW. Above it,
/// on pages of text, one bit per pixel is smaller than a RAW (8.3 and 10.6 KB for an xterm), and
/// eight bits are larger.
const BOTH_AREA_MAX: u64 = 16 * 1024;
/// 32 bytes: a BITMAP of at most so many is smaller than any other encoding of two colours.
const BITS_ONLY_MAX: usize = 32;

/// 16 Ki pixels: a few lines of text. For less the palette costs too much (up to two fifths more
/// bytes in rectangles of 400x18).
const COLUMNS_AREA_MIN: usize = 16 * 1024;

/// Whether a RAW is tried too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    MayBeSmaller,
    IsLarger,
}

/// One byte per pixel: operations of text take a tenth, those of photographs 1.3 and more.
const PHOTOGRAPH_BYTES_PER_PIXEL: usize = 1;
/// 4 Ki pixels: smaller photographs cost the packer's thread little.
const PHOTOGRAPH_AREA_MIN: usize = 64 * 64;

/// 2: lossy pixels are later refreshed, so a photograph has to become at least twice as small.
const LOSSY_GAIN_MIN: u64 = 2;
/// 8 Ki pixels: encoding a rectangle of at most this size twice costs less than a wrong estimate.
const SAMPLED_AREA_MIN: u64 = 8 * 1024;

/// The encoding by which a rectangle is probably smallest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Operations,
    Residuals,
}

/// Encodes planned pixels.
pub struct Encoder {
    zstd: CCtx<'static>,
    settings: EncodeSettings,
    /// A rectangle's pixels without a stride, after the black ones before the first pixel.
    pixels: Vec<u32>,
    parts: Parts,
    predictor: Predictor,
    residuals: Residuals,
    columns: Columns,
    /// Their encoding by columns.
    codes: Vec<u8>,
    /// Their operations or residuals, and the same in a zstd frame.
    ops: Vec<u8>,
    zstd_ops: Vec<u8>,
    /// Bits or coverage, and the same in a zstd frame.
    bits: Vec<u8>,
    zstd_bits: Vec<u8>,
    photographs: Photographs,
    /// A photograph, lossy.
    jpeg: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder({} pixels of scratch)", self.pixels.capacity())
    }
}

impl Encoder {
    /// Allocates no scratch memory yet.
    pub fn new() -> Encoder {
        Encoder {
            zstd: CCtx::create(),
            settings: EncodeSettings::default(),
            pixels: Vec::new(),
            parts: Parts::default(),
            predictor: Predictor::default(),
            residuals: Residuals::new(),
            columns: Columns::default(),
            codes: Vec::new(),
            ops: Vec::new(),
            zstd_ops: Vec::new(),
            bits: Vec::new(),
            zstd_bits: Vec::new(),
            photographs: Photographs::default(),
            jpeg: Vec::new(),
        }
    }

    /// Appends commands for what was planned from this snapshot, with the default settings; they
    /// refer to no command before them.
    pub fn encode(&mut self, planned: &[Planned], snapshot: &Snapshot, out: &mut Vec<u8>) {
        self.encode_with(planned, snapshot, &EncodeSettings::default(), out);
    }

    /// The same with these settings.
    pub fn encode_with(
        &mut self,
        planned: &[Planned],
        snapshot: &Snapshot,
        settings: &EncodeSettings,
        out: &mut Vec<u8>,
    ) {
        self.write(planned, snapshot, settings, &mut CommandWriter::new(out));
    }

    /// The same to a writer, which may note the extents of the commands.
    pub fn write(
        &mut self,
        planned: &[Planned],
        snapshot: &Snapshot,
        settings: &EncodeSettings,
        writer: &mut CommandWriter<'_>,
    ) {
        self.settings = *settings;
        for planned in planned {
            match planned {
                Planned::Shift { region, dx, dy } => writer.copy(region, *dx, *dy),
                Planned::Solid { region, color } => solid(region, *color, writer),
                Planned::Pattern { rect, tile_width, tile_height } => {
                    self.pattern(*rect, (*tile_width, *tile_height), snapshot, writer);
                }
                Planned::TwoColor { rect, fg, bg } => {
                    bitmap::bits(snapshot, rect, *fg, &mut self.bits);
                    let few = self.bits.len() <= BITS_ONLY_MAX || rect.area() > BOTH_AREA_MAX;
                    let raw = if few { Raw::IsLarger } else { Raw::MayBeSmaller };
                    self.bitmap(*rect, BitmapDepth::One, (*fg, *bg), raw, snapshot, writer);
                }
                Planned::Coverage { rect, .. } if rect.area() > BOTH_AREA_MAX => {
                    self.raw(*rect, snapshot, writer)
                }
                Planned::Coverage { rect, fg, bg } => {
                    bitmap::coverage(snapshot, rect, *fg, *bg, &mut self.bits);
                    self.bitmap(
                        *rect,
                        BitmapDepth::Eight,
                        (*fg, *bg),
                        Raw::MayBeSmaller,
                        snapshot,
                        writer,
                    );
                }
                Planned::Recall { rect, slot } => writer.recall(*rect, *slot),
                Planned::Keep { rect, slot } => writer.keep(*rect, *slot),
                Planned::Pixels { rect, .. } => self.raw(*rect, snapshot, writer),
                Planned::Photo { rect } => match settings.jpeg {
                    Some(profile) => self.photo(*rect, (profile, LOSSY_GAIN_MIN), snapshot, writer),
                    None => self.raw(*rect, snapshot, writer),
                },
                // Lossy in any case: comparing takes as long as sending it lossless.
                Planned::Frame { rect } => match settings.frames {
                    Some(profile) => self.photo(*rect, (profile, 0), snapshot, writer),
                    None => self.raw(*rect, snapshot, writer),
                },
            }
        }
    }

    /// Appends a cursor's image for `CursorImage::pixels`: premultiplied ARGB in one zstd frame.
    pub fn cursor(&mut self, argb: &[u32], out: &mut Vec<u8>) {
        self.bits.clear();
        self.bits.extend(argb.iter().flat_map(|pixel| pixel.to_le_bytes()));
        compress(&mut self.zstd, BLOCK_LEVEL, &self.bits, &mut self.zstd_bits);
        out.extend_from_slice(&self.zstd_bits);
    }

    /// Appends the planes of a two-colour cursor for `CursorBits::planes`, and returns their
    /// compression. `fore` is the foreground and `inside` the mask, row by row.
    pub fn cursor_planes(
        &mut self,
        width: usize,
        fore: &[bool],
        inside: &[bool],
        out: &mut Vec<u8>,
    ) -> Compression {
        cursor::planes(width, fore, inside, &mut self.bits);
        // They are not part of an update, so the packer does not see them.
        self.settings.entropy = Entropy::Block { level: BLOCK_LEVEL };
        let (compression, planes) = self.compress_bits();
        out.extend_from_slice(planes);
        compression
    }

    /// Encodes any pixels; photographs separately, because they need another encoding.
    fn raw(&mut self, rect: Rect, snapshot: &Snapshot, writer: &mut CommandWriter<'_>) {
        let photographs = self.parts.photographs(snapshot, &rect).to_vec();
        if photographs.is_empty() {
            // The common case, without the allocation of a region.
            return self.pieces(rect, Kind::Operations, snapshot, writer);
        }
        let mut rest = Region::from(rect);
        for photograph in photographs {
            rest.subtract_rect(&photograph);
            self.pieces(photograph, Kind::Residuals, snapshot, writer);
        }
        for rect in rest.rects() {
            self.pieces(*rect, Kind::Operations, snapshot, writer);
        }
    }

    /// Encodes a rectangle in parts of at most `RAW_AREA_MAX`.
    fn pieces(
        &mut self,
        rect: Rect,
        kind: Kind,
        snapshot: &Snapshot,
        writer: &mut CommandWriter<'_>,
    ) {
        let rows = (RAW_AREA_MAX / rect.width() as u64).max(1) as usize;
        for y in (rect.y1..rect.y2).step_by(rows) {
            let part = Rect { y1: y, y2: rect.y2.min(y + rows as i32), ..rect };
            self.load(snapshot, &part);
            let encoding = self.encode_pixels(part.width() as usize, kind);
            writer.raw(part, encoding, self.data(encoding));
        }
    }

    /// Encodes a photograph: lossy, unless lossless bytes are fewer than `gain` times as many.
    fn photo(
        &mut self,
        rect: Rect,
        (profile, gain): (JpegProfile, u64),
        snapshot: &Snapshot,
        writer: &mut CommandWriter<'_>,
    ) {
        // Whole rows of the 16 x 16 blocks of JPEG's chroma subsampling.
        let rows = (JPEG_AREA_MAX / rect.width() as u64).max(16) as usize / 16 * 16;
        for y in (rect.y1..rect.y2).step_by(rows) {
            let part = Rect { y1: y, y2: rect.y2.min(y + rows as i32), ..rect };
            let mut jpeg = std::mem::take(&mut self.jpeg);
            let worth = self.photographs.encode(&part, snapshot, profile, &mut jpeg)
                && (gain == 0 || jpeg.len() as u64 * gain <= self.lossless_len(&part, snapshot));
            if worth {
                writer.raw(part, Encoding::Jpeg, &jpeg);
            } else {
                self.raw(part, snapshot, writer);
            }
            self.jpeg = jpeg;
        }
    }

    /// Estimates the lossless length of a rectangle in bytes from three bands of it, or from all of
    /// a small one.
    fn lossless_len(&mut self, rect: &Rect, snapshot: &Snapshot) -> u64 {
        let height = if rect.area() <= SAMPLED_AREA_MIN {
            rect.height()
        } else {
            (rect.height() / 24).max(4)
        };
        let (mut len, mut area) = (0, 0);
        for third in 0..3 {
            let y = (rect.y1 + rect.height() * (third * 2 + 1) / 6 - height / 2).max(rect.y1);
            let band = Rect { y1: y, y2: (y + height).min(rect.y2), ..*rect };
            self.load(snapshot, &band);
            let encoding = self.encode_pixels(band.width() as usize, Kind::Residuals);
            len += self.data(encoding).len() as u64;
            area += band.area();
            if band == *rect {
                break;
            }
        }
        len * rect.area() / area
    }

    fn pattern(
        &mut self,
        rect: Rect,
        tile: (u16, u16),
        snapshot: &Snapshot,
        writer: &mut CommandWriter<'_>,
    ) {
        self.load(snapshot, &Rect::at(rect.x1, rect.y1, tile.0.into(), tile.1.into()));
        let encoding = self.encode_pixels(tile.0.into(), Kind::Operations);
        writer.pfill(rect, tile.0, tile.1, encoding, self.data(encoding));
    }

    /// Encodes `bits` as a BITMAP, or the same pixels as a RAW if that is smaller.
    fn bitmap(
        &mut self,
        rect: Rect,
        depth: BitmapDepth,
        colors: (u32, u32),
        raw: Raw,
        snapshot: &Snapshot,
        writer: &mut CommandWriter<'_>,
    ) {
        if raw == Raw::IsLarger {
            let (compression, data) = self.compress_bits();
            return writer.bitmap(rect, depth, colors, compression, data);
        }
        self.load(snapshot, &rect);
        let encoding = self.encode_pixels(rect.width() as usize, Kind::Operations);
        let raw_len = self.data(encoding).len();
        let (compression, data) = self.compress_bits();
        // A BITMAP has two colours, six bytes more than a RAW.
        if data.len() + 6 <= raw_len {
            writer.bitmap(rect, depth, colors, compression, data);
        } else {
            writer.raw(rect, encoding, self.data(encoding));
        }
    }

    /// Copies a rectangle's pixels to `pixels` without a stride, and sets their insignificant top
    /// bytes.
    fn load(&mut self, snapshot: &Snapshot, rect: &Rect) {
        self.pixels.clear();
        self.pixels.resize(padding_len(rect.width() as usize), OPAQUE);
        for row in snapshot.rows(rect) {
            self.pixels.extend(row.iter().map(|pixel| pixel | OPAQUE));
        }
    }

    /// Encodes `pixels`; `data` lends the result.
    fn encode_pixels(&mut self, width: usize, kind: Kind) -> Encoding {
        let pixels = &self.pixels[padding_len(width)..];
        let (area, plain_len) = (pixels.len(), pixels.len() * 3);
        if kind == Kind::Residuals {
            self.residuals.encode(pixels, width, &mut self.ops);
            if self.ops.len() < plain_len {
                return Encoding::Residuals;
            }
        }
        self.predictor.encode(&self.pixels, width, &mut self.ops);
        let level = match self.settings.entropy {
            Entropy::Block { level } if self.ops.len() >= ZSTD_PREDICTED_MIN => Some(level),
            Entropy::Stream if is_photograph(self.ops.len(), area) => Some(BLOCK_LEVEL),
            _ => None,
        };
        if let Some(level) = level {
            compress(&mut self.zstd, level, &self.ops, &mut self.zstd_ops);
            if self.zstd_ops.len() < self.ops.len().min(plain_len) {
                return Encoding::PredictedZstd;
            }
        }
        if self.settings.entropy == Entropy::Stream
            && area >= COLUMNS_AREA_MIN
            && self.columns_are_smaller(width)
        {
            return Encoding::Columns;
        }
        if self.ops.len() < plain_len {
            return Encoding::Predicted;
        }
        self.ops.clear();
        let pixels = &self.pixels[padding_len(width)..];
        self.ops.extend(pixels.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3)));
        Encoding::Plain
    }

    /// True if `pixels` take fewer bytes as columns than as operations; they are in `codes` then.
    /// The packed stream's window shortens both, columns more.
    fn columns_are_smaller(&mut self, width: usize) -> bool {
        let pixels = &self.pixels[padding_len(width)..];
        if !self.columns.encode(pixels, width, &mut self.codes)
            || self.codes.len() >= pixels.len() * 3
        {
            return false;
        }
        compress(&mut self.zstd, BLOCK_LEVEL, &self.ops, &mut self.zstd_ops);
        let ops_len = self.zstd_ops.len();
        compress(&mut self.zstd, BLOCK_LEVEL, &self.codes, &mut self.zstd_ops);
        self.zstd_ops.len() < ops_len
    }

    fn data(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Plain | Encoding::Predicted | Encoding::Residuals => &self.ops,
            Encoding::PredictedZstd | Encoding::Jpeg => &self.zstd_ops,
            Encoding::Columns => &self.codes,
        }
    }

    /// `bits`, compressed if that is smaller.
    fn compress_bits(&mut self) -> (Compression, &[u8]) {
        if let Entropy::Block { level } = self.settings.entropy
            && self.bits.len() >= ZSTD_BITS_MIN
        {
            compress(&mut self.zstd, level, &self.bits, &mut self.zstd_bits);
            // Compressed data has a length field, of two bytes or more.
            if self.zstd_bits.len() + 2 < self.bits.len() {
                return (Compression::Zstd, &self.zstd_bits);
            }
        }
        (Compression::Plain, &self.bits)
    }
}

/// Encodes one colour; a region with too many rectangles for one command becomes several.
fn solid(region: &Region, color: u32, writer: &mut CommandWriter<'_>) {
    if region.rect_count() <= RECTS_MAX {
        return writer.sfill(region, color);
    }
    for rects in region.rects().chunks(RECTS_MAX) {
        let part = Region::from_banded(rects.to_vec())
            .expect("consecutive rectangles of a region must be banded");
        writer.sfill(&part, color);
    }
}

/// True if operations of this many bytes have nothing that the packed stream's window could match.
fn is_photograph(ops_len: usize, area: usize) -> bool {
    area >= PHOTOGRAPH_AREA_MIN && ops_len >= area * PHOTOGRAPH_BYTES_PER_PIXEL
}

/// Replaces `out` with one zstd frame that declares its content size.
fn compress(zstd: &mut CCtx<'_>, level: i32, bytes: &[u8], out: &mut Vec<u8>) {
    zstd.set_parameter(CParameter::CompressionLevel(level))
        .expect("any level can be set between frames");
    out.resize(zstd_safe::compress_bound(bytes.len()), 0);
    let len =
        zstd.compress2(&mut out[..], bytes).expect("a frame must fit into its compress_bound");
    out.truncate(len);
}
