//! Path 9/13: from lib.rs.
//! Chooses a command and an encoding for what was planned, and writes it behind what is already there.
//! Knows snapshots, commands and sizes; its memory is used again from call to call.

use thinc_codec_dec::OPAQUE;
use thinc_codec_dec::context::lead;
use thinc_pixels::{Planned, Snapshot};
use thinc_protocol::command::{BitmapDepth, CommandWriter, Encoding, Packing};
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

/// 96 bytes: below it a zstd frame, which takes 11 µs and has a head of 9 bytes, saves next to nothing.
const ZSTD_PREDICTED_MIN: usize = 96;
/// 48 bytes: bits of a bitmap are less dense than operations, so a frame's 9 bytes are won back earlier.
const ZSTD_BITS_MIN: usize = 48;
/// 1 Mi pixels: larger RAWs are cut, so that scratch memory stays at 8 MiB. Each part has to learn anew what it looks like:
/// in parts of half as many pixels, screens of text take a tenth more bytes.
const RAW_AREA_MAX: u64 = 1024 * 1024;
/// 512 Ki pixels: the same for JPEG, which learns nothing, and whose first part shows the earlier.
const JPEG_AREA_MAX: u64 = 512 * 1024;
/// 16 Ki pixels: up to it two colours and coverage are tried both as a BITMAP and as a RAW. Beyond it pages of text have
/// shown that a bit a pixel is smaller than a RAW (8.3 against 10.6 KB for an xterm), and eight bits are larger.
const BOTH_AREA_MAX: u64 = 16 * 1024;
/// 32 bytes: so many bits are smaller than any other way to say two colours.
const BITS_ALONE_MAX: usize = 32;

/// 16 Ki pixels: a few lines of text. In less, and in what is cut without regard to lines, colours have to be named again for
/// too little (up to two fifths more bytes in rectangles of 400x18).
const COLUMNS_AREA_MIN: usize = 16 * 1024;

/// Whether a RAW is worth trying.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    MayBeSmaller,
    IsLarger,
}

/// A byte a pixel: operations of text need a tenth, those of photographs 1.3 and more.
const PHOTOGRAPH_BYTES_PER_PIXEL: usize = 1;
/// 4 Ki pixels: less of a photograph costs the stream's thread little.
const PHOTOGRAPH_AREA_MIN: usize = 64 * 64;

/// 2: lossy pixels are sent a second time, exactly, so they have to be there much earlier.
const LOSSY_GAIN_MIN: u64 = 2;
/// 8 Ki pixels: encoding all of them twice costs less than a wrong guess.
const SAMPLED_AREA_MIN: u64 = 8 * 1024;

/// How a rectangle's pixels are most likely smallest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Operations,
    Residuals,
}

/// Encodes planned pixels.
pub struct Encoder {
    zstd: CCtx<'static>,
    settings: EncodeSettings,
    /// A rectangle's pixels without a stride, behind the black ones that operations begin with.
    pixels: Vec<u32>,
    parts: Parts,
    predictor: Predictor,
    residuals: Residuals,
    columns: Columns,
    /// Columns of them, as codes.
    codes: Vec<u8>,
    /// Operations for them, and those in a zstd frame.
    ops: Vec<u8>,
    packed_ops: Vec<u8>,
    /// Bits or coverage, and those in a zstd frame.
    bits: Vec<u8>,
    packed_bits: Vec<u8>,
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
    /// With no scratch yet.
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
            packed_ops: Vec::new(),
            bits: Vec::new(),
            packed_bits: Vec::new(),
            photographs: Photographs::default(),
            jpeg: Vec::new(),
        }
    }

    /// Appends commands that make a viewer show what was planned from this snapshot; no field leans on a command before them.
    pub fn encode(&mut self, planned: &[Planned], snapshot: &Snapshot, out: &mut Vec<u8>) {
        self.encode_with(planned, snapshot, &EncodeSettings::default(), out);
    }

    /// The same for the link at hand.
    pub fn encode_with(
        &mut self,
        planned: &[Planned],
        snapshot: &Snapshot,
        settings: &EncodeSettings,
        out: &mut Vec<u8>,
    ) {
        self.settings = *settings;
        let mut writer = CommandWriter::new(out);
        for planned in planned {
            match planned {
                Planned::Shift { region, dx, dy } => writer.copy(region, *dx, *dy),
                Planned::Solid { region, color } => solid(region, *color, &mut writer),
                Planned::Pattern { rect, tile_width, tile_height } => {
                    self.pattern(*rect, (*tile_width, *tile_height), snapshot, &mut writer);
                }
                Planned::TwoColor { rect, fg, bg } => {
                    bitmap::bits(snapshot, rect, *fg, &mut self.bits);
                    let few = self.bits.len() <= BITS_ALONE_MAX || rect.area() > BOTH_AREA_MAX;
                    let raw = if few { Raw::IsLarger } else { Raw::MayBeSmaller };
                    self.bitmap(*rect, BitmapDepth::One, (*fg, *bg), raw, snapshot, &mut writer);
                }
                Planned::Coverage { rect, .. } if rect.area() > BOTH_AREA_MAX => self.raw(*rect, snapshot, &mut writer),
                Planned::Coverage { rect, fg, bg } => {
                    bitmap::coverage(snapshot, rect, *fg, *bg, &mut self.bits);
                    self.bitmap(*rect, BitmapDepth::Eight, (*fg, *bg), Raw::MayBeSmaller, snapshot, &mut writer);
                }
                Planned::Recall { rect, slot } => writer.recall(*rect, *slot),
                Planned::Keep { rect, slot } => writer.keep(*rect, *slot),
                Planned::Pixels { rect, .. } => self.raw(*rect, snapshot, &mut writer),
                Planned::Photo { rect } => match settings.jpeg {
                    Some(profile) => self.photo(*rect, profile, snapshot, &mut writer),
                    None => self.raw(*rect, snapshot, &mut writer),
                },
            }
        }
    }

    /// Appends a cursor's image as `CursorImage::pixels` wants it: premultiplied ARGB in one zstd frame.
    pub fn cursor(&mut self, argb: &[u32], out: &mut Vec<u8>) {
        self.bits.clear();
        self.bits.extend(argb.iter().flat_map(|pixel| pixel.to_le_bytes()));
        compress(&mut self.zstd, BLOCK_LEVEL, &self.bits, &mut self.packed_bits);
        out.extend_from_slice(&self.packed_bits);
    }

    /// Appends the planes of a cursor of two colours as `CursorBits::planes` wants them, and says how they are packed:
    /// where its foreground is, and where it is at all, row by row.
    pub fn cursor_planes(&mut self, width: usize, fore: &[bool], inside: &[bool], out: &mut Vec<u8>) -> Packing {
        cursor::planes(width, fore, inside, &mut self.bits);
        // No update carries them, so no stream packs them.
        self.settings.entropy = Entropy::Block { level: BLOCK_LEVEL };
        let (packing, planes) = self.pack_bits();
        out.extend_from_slice(planes);
        packing
    }

    /// Any pixels: photographs apart from all else, because they need another encoding.
    fn raw(&mut self, rect: Rect, snapshot: &Snapshot, writer: &mut CommandWriter<'_>) {
        let photographs = self.parts.photographs(snapshot, &rect).to_vec();
        if photographs.is_empty() {
            // Text ends here: a region would be allocated for nothing.
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
    fn pieces(&mut self, rect: Rect, kind: Kind, snapshot: &Snapshot, writer: &mut CommandWriter<'_>) {
        let rows = (RAW_AREA_MAX / rect.width() as u64).max(1) as usize;
        for y in (rect.y1..rect.y2).step_by(rows) {
            let part = Rect { y1: y, y2: rect.y2.min(y + rows as i32), ..rect };
            self.take(snapshot, &part);
            let encoding = self.encode_pixels(part.width() as usize, kind);
            writer.raw(part, encoding, self.data(encoding));
        }
    }

    /// A photograph, lossy where that is much smaller.
    fn photo(&mut self, rect: Rect, profile: JpegProfile, snapshot: &Snapshot, writer: &mut CommandWriter<'_>) {
        // Whole rows of the blocks that share samples of colour.
        let rows = (JPEG_AREA_MAX / rect.width() as u64).max(16) as usize / 16 * 16;
        for y in (rect.y1..rect.y2).step_by(rows) {
            let part = Rect { y1: y, y2: rect.y2.min(y + rows as i32), ..rect };
            let mut jpeg = std::mem::take(&mut self.jpeg);
            let worth = self.photographs.encode(&part, snapshot, profile, &mut jpeg)
                && jpeg.len() as u64 * LOSSY_GAIN_MIN <= self.exact_len(&part, snapshot);
            if worth {
                writer.raw(part, Encoding::Jpeg, &jpeg);
            } else {
                self.raw(part, snapshot, writer);
            }
            self.jpeg = jpeg;
        }
    }

    /// About how many bytes a rectangle needs exactly: measured on three bands of it, all of a small one.
    fn exact_len(&mut self, rect: &Rect, snapshot: &Snapshot) -> u64 {
        let height = if rect.area() <= SAMPLED_AREA_MIN { rect.height() } else { (rect.height() / 24).max(4) };
        let (mut len, mut area) = (0, 0);
        for third in 0..3 {
            let y = (rect.y1 + rect.height() * (third * 2 + 1) / 6 - height / 2).max(rect.y1);
            let band = Rect { y1: y, y2: (y + height).min(rect.y2), ..*rect };
            self.take(snapshot, &band);
            let encoding = self.encode_pixels(band.width() as usize, Kind::Residuals);
            len += self.data(encoding).len() as u64;
            area += band.area();
            if band == *rect {
                break;
            }
        }
        len * rect.area() / area
    }

    fn pattern(&mut self, rect: Rect, tile: (u16, u16), snapshot: &Snapshot, writer: &mut CommandWriter<'_>) {
        self.take(snapshot, &Rect::at(rect.x1, rect.y1, tile.0.into(), tile.1.into()));
        let encoding = self.encode_pixels(tile.0.into(), Kind::Operations);
        writer.pfill(rect, tile.0, tile.1, encoding, self.data(encoding));
    }

    /// `bits` as a BITMAP, or the same pixels as a RAW where that is smaller.
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
            let (packing, data) = self.pack_bits();
            return writer.bitmap(rect, depth, colors, packing, data);
        }
        self.take(snapshot, &rect);
        let encoding = self.encode_pixels(rect.width() as usize, Kind::Operations);
        let raw_len = self.data(encoding).len();
        let (packing, data) = self.pack_bits();
        // A BITMAP names its two colours, six bytes more than a RAW.
        if data.len() + 6 <= raw_len {
            writer.bitmap(rect, depth, colors, packing, data);
        } else {
            writer.raw(rect, encoding, self.data(encoding));
        }
    }

    /// Copies a rectangle's pixels together. Their top bytes mean nothing, and cost nothing from here on.
    fn take(&mut self, snapshot: &Snapshot, rect: &Rect) {
        self.pixels.clear();
        self.pixels.resize(lead(rect.width() as usize), OPAQUE);
        for row in snapshot.rows(rect) {
            self.pixels.extend(row.iter().map(|pixel| pixel | OPAQUE));
        }
    }

    /// Encodes `pixels`; `data` lends what came out.
    fn encode_pixels(&mut self, width: usize, kind: Kind) -> Encoding {
        let pixels = &self.pixels[lead(width)..];
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
            compress(&mut self.zstd, level, &self.ops, &mut self.packed_ops);
            if self.packed_ops.len() < self.ops.len().min(plain_len) {
                return Encoding::PredictedZstd;
            }
        }
        if self.settings.entropy == Entropy::Stream && area >= COLUMNS_AREA_MIN && self.columns_are_smaller(width) {
            return Encoding::Columns;
        }
        if self.ops.len() < plain_len {
            return Encoding::Predicted;
        }
        self.ops.clear();
        let pixels = &self.pixels[lead(width)..];
        self.ops.extend(pixels.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3)));
        Encoding::Plain
    }

    /// Whether `pixels` take fewer bytes as columns than as operations; `codes` holds them then. The stream will find more in
    /// both than each has by itself, and more again in columns.
    fn columns_are_smaller(&mut self, width: usize) -> bool {
        let pixels = &self.pixels[lead(width)..];
        if !self.columns.encode(pixels, width, &mut self.codes) || self.codes.len() >= pixels.len() * 3 {
            return false;
        }
        compress(&mut self.zstd, BLOCK_LEVEL, &self.ops, &mut self.packed_ops);
        let ops_len = self.packed_ops.len();
        compress(&mut self.zstd, BLOCK_LEVEL, &self.codes, &mut self.packed_ops);
        self.packed_ops.len() < ops_len
    }

    fn data(&self, encoding: Encoding) -> &[u8] {
        match encoding {
            Encoding::Plain | Encoding::Predicted | Encoding::Residuals => &self.ops,
            Encoding::PredictedZstd | Encoding::Jpeg => &self.packed_ops,
            Encoding::Columns => &self.codes,
        }
    }

    /// `bits` in the smaller packing.
    fn pack_bits(&mut self) -> (Packing, &[u8]) {
        if let Entropy::Block { level } = self.settings.entropy
            && self.bits.len() >= ZSTD_BITS_MIN
        {
            compress(&mut self.zstd, level, &self.bits, &mut self.packed_bits);
            // Packed data carry their length too, two bytes or more.
            if self.packed_bits.len() + 2 < self.bits.len() {
                return (Packing::Zstd, &self.packed_bits);
            }
        }
        (Packing::Plain, &self.bits)
    }
}

/// One colour; a region of more rectangles than a command takes becomes several commands.
fn solid(region: &Region, color: u32, writer: &mut CommandWriter<'_>) {
    if region.rect_count() <= RECTS_MAX {
        return writer.sfill(region, color);
    }
    for rects in region.rects().chunks(RECTS_MAX) {
        let part = Region::from_banded(rects.to_vec()).expect("a stretch of a region's rectangles is a region");
        writer.sfill(&part, color);
    }
}

/// Whether the stream's context would find nothing in operations of this many bytes.
fn is_photograph(ops_len: usize, area: usize) -> bool {
    area >= PHOTOGRAPH_AREA_MIN && ops_len >= area * PHOTOGRAPH_BYTES_PER_PIXEL
}

/// Replaces `out` with one zstd frame that says how much it holds.
fn compress(zstd: &mut CCtx<'_>, level: i32, bytes: &[u8], out: &mut Vec<u8>) {
    zstd.set_parameter(CParameter::CompressionLevel(level)).expect("between frames any level can be set");
    out.resize(zstd_safe::compress_bound(bytes.len()), 0);
    let len = zstd.compress2(&mut out[..], bytes).expect("a frame fits the bound zstd gives for it");
    out.truncate(len);
}
