//! Path 9/13 and 11/13: written by codec-enc and session-core/delivery/ledger.rs, read by
//! viewer-core/decode.rs.
//! The display commands and their bytes in an update. Only COPY and KEEP read the viewer's
//! framebuffer.
//! Knows rectangles, colours and limits; never what encoded data contains.

use thinc_region::{Rect, Region, Size};

use crate::commands::{Commands, Extent};
use crate::limits::{CACHE_SLOTS_MAX, COMMANDS_MAX, RECTS_MAX, SCREEN_EDGE_MAX, TILE_EDGE_MAX};
use crate::video::{self, VideoCommand};
use crate::wire::{Reader, WireError, put_color, put_varint, put_zigzag, varint_len};

/// One display command; it borrows its data from the update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Copies pixels of the framebuffer: each pixel of `region` takes the value of the pixel at its
    /// position minus (`dx`, `dy`). All pixels are read before any is written.
    Copy {
        /// Destination.
        region: Region,
        /// Destination x minus source x.
        dx: i32,
        /// Destination y minus source y.
        dy: i32,
    },
    /// Fills with one colour.
    Sfill {
        /// Destination.
        region: Region,
        /// 0xRRGGBB.
        color: u32,
    },
    /// Repeats a tile, whose pixel (0, 0) lies at the upper left corner of `rect`.
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
    /// Two colours: each pixel chooses one, or blends `fg` over `bg` by 8-bit coverage.
    Bitmap {
        /// Destination.
        rect: Rect,
        /// Bits per pixel in `data`.
        depth: BitmapDepth,
        /// Colour of bit 1 or coverage 255, 0xRRGGBB.
        fg: u32,
        /// Colour of bit 0 or coverage 0, 0xRRGGBB.
        bg: u32,
        /// How `data` is compressed.
        compression: Compression,
        /// Rows padded to whole bytes, the first pixel in the highest bit; or one byte per pixel.
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
    /// Copies pixels of the framebuffer to a slot of the cache, after all previous commands have
    /// been applied. It replaces the slot's contents.
    Keep {
        /// The pixels.
        rect: Rect,
        /// The slot.
        slot: u32,
    },
    /// Copies the pixels of a slot to the framebuffer.
    Recall {
        /// Destination; its size must be the slot's.
        rect: Rect,
        /// The slot.
        slot: u32,
    },
    /// A command of a video stream.
    Video(VideoCommand<'a>),
}

/// Bits per pixel of a BITMAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BitmapDepth {
    /// `fg` or `bg`.
    One = 1,
    /// `bg + (fg - bg) × coverage / 255`, each channel rounded to nearest.
    Eight = 8,
}

/// How the bytes of a BITMAP are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
}

/// How pixels of a RAW or of a tile are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// 3 bytes per pixel: B, G, R.
    Plain = 0,
    /// Byte operations (`doc/protocol.md`, section 7.1): runs, copies of the row above, a cache of
    /// colours, differences from a prediction.
    Predicted = 1,
    /// `Predicted`, then one zstd frame.
    PredictedZstd = 2,
    /// One baseline JPEG image, RAW only: lossy. A refresh follows when the area is at rest.
    Jpeg = 3,
    /// For photographs: differences from a prediction, grouped by local activity, in one zstd
    /// frame.
    Residuals = 4,
    /// For text: colour codes column by column within each line, so that the connection's zstd
    /// stream finds repeated glyphs.
    Columns = 5,
}

/// Layout of a command's first byte: three bits of kind, one that makes its position relative to
/// the previous command's, four that depend on the kind.
mod head {
    pub(super) const KIND: u8 = 0b0000_0111;
    pub(super) const COPY: u8 = 0;
    pub(super) const SFILL: u8 = 1;
    pub(super) const PFILL: u8 = 2;
    pub(super) const BITMAP: u8 = 3;
    pub(super) const RAW: u8 = 4;
    pub(super) const KEEP: u8 = 5;
    pub(super) const RECALL: u8 = 6;
    pub(super) const VIDEO: u8 = 7;
    /// The first rectangle's corner is relative to that of the previous command.
    pub(super) const RELATIVE: u8 = 1 << 3;
    /// COPY, SFILL: more than one rectangle; their count comes first.
    pub(super) const MANY: u8 = 1 << 4;
    /// PFILL, RAW: four bits of encoding.
    pub(super) const ENCODING_SHIFT: u8 = 4;
    /// BITMAP: 8-bit coverage; otherwise 1 bit.
    pub(super) const EIGHT: u8 = 1 << 4;
    /// BITMAP: one zstd frame; otherwise plain.
    pub(super) const ZSTD: u8 = 1 << 5;
    /// BITMAP: the colours of the previous BITMAP.
    pub(super) const SAME_COLORS: u8 = 1 << 6;
}

impl Command<'_> {
    /// Appends one command that refers to no previous one, so it may follow any other.
    pub fn encode(&self, out: &mut Vec<u8>) {
        CommandWriter::new(out).put(self);
    }

    /// The same, beside its extent.
    pub fn append_to(&self, commands: &mut Commands) {
        commands.writer().put(self);
    }
}

/// Writes consecutive commands and omits what the previous command implies.
///
/// The first command of a writer refers to no previous one, so its output may be appended to any
/// commands.
///
/// ```text
/// COPY     head | [count varint] | rects | dx zigzag | dy zigzag
/// SFILL    head | [count varint] | rects | color
/// PFILL    head | rect | tile width varint | tile height varint | data
/// BITMAP   head | rect | [fg color | bg color] | data
/// RAW      head | rect | data
/// KEEP     head | rect | slot varint
/// RECALL   head | rect | slot varint
/// VIDEO    head | fields, see `VideoCommand`
///
/// head     bits 0-2 kind (0 COPY, 1 SFILL, 2 PFILL, 3 BITMAP, 4 RAW, 5 KEEP, 6 RECALL, 7 VIDEO),
///          bit 3 relative, bits 4-7 by kind:
///          COPY, SFILL  bit 4: more than one rect, count is present
///          PFILL, RAW   bits 4-7: encoding (0 plain, 1 predicted, 2 predicted and zstd,
///                       3 JPEG: RAW only, 4 residuals, 5 columns)
///          BITMAP       bit 4: 8-bit coverage; bit 5: zstd; bit 6: colours of the previous BITMAP,
///                       none here
///          VIDEO        bits 4-6: command (`video.rs`); bit 7, with INIT only: the right eye's
/// rect     x zigzag | y zigzag | width varint | height varint; x, y relative to the corner of the
///          previous rectangle of the command; for the first one: to the corner of the previous
///          command's first rectangle if bit 3 is set, otherwise to (0, 0)
/// color    blue u8 | green u8 | red u8
/// data     plain: as many bytes as the rectangle needs; otherwise length varint | so many bytes
/// ```
#[derive(Debug)]
pub struct CommandWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Of the commands that it writes, if somebody wants them.
    extents: Option<&'o mut Vec<Extent>>,
    previous: Previous,
}

/// What a command may refer to: the corner of the previous command's first rectangle, and the
/// colours of the previous BITMAP.
#[derive(Clone, Copy, Debug, Default)]
struct Previous {
    corner: Option<(i32, i32)>,
    colors: Option<(u32, u32)>,
}

impl<'o> CommandWriter<'o> {
    /// Appends to `out`; refers to nothing that it already contains.
    pub fn new(out: &'o mut Vec<u8>) -> CommandWriter<'o> {
        CommandWriter { out, extents: None, previous: Previous::default() }
    }

    /// The same, and appends the extent of each command to `extents`.
    pub(crate) fn with_extents(
        out: &'o mut Vec<u8>,
        extents: &'o mut Vec<Extent>,
    ) -> CommandWriter<'o> {
        CommandWriter { out, extents: Some(extents), previous: Previous::default() }
    }

    /// A command was written, whose last bytes are its data.
    fn note(&mut self, data: &[u8], command: impl FnOnce() -> Command<'static>) {
        if let Some(extents) = &mut self.extents {
            extents.push(Extent::new(command(), data.len(), self.out.len()));
        }
    }

    /// Length of the buffer in bytes, including what preceded this writer.
    #[expect(clippy::len_without_is_empty, reason = "a position in a buffer, not a collection")]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Appends any command.
    ///
    /// # Panics
    /// If a region is empty, or plain data does not have the length that the rectangle needs: both
    /// are bugs of the caller.
    pub fn put(&mut self, command: &Command<'_>) {
        match command {
            Command::Copy { region, dx, dy } => self.copy(region, *dx, *dy),
            Command::Sfill { region, color } => self.sfill(region, *color),
            Command::Pfill { rect, tile_width, tile_height, encoding, data } => {
                self.pfill(*rect, *tile_width, *tile_height, *encoding, data);
            }
            Command::Bitmap { rect, depth, fg, bg, compression, data } => {
                self.bitmap(*rect, *depth, (*fg, *bg), *compression, data);
            }
            Command::Raw { rect, encoding, data } => self.raw(*rect, *encoding, data),
            Command::Keep { rect, slot } => self.keep(*rect, *slot),
            Command::Recall { rect, slot } => self.recall(*rect, *slot),
            Command::Video(video) => self.video(video),
        }
    }

    /// Appends a COPY.
    pub fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        self.region(head::COPY, region);
        put_zigzag(self.out, i64::from(dx));
        put_zigzag(self.out, i64::from(dy));
        self.note(&[], || Command::Copy { region: region.clone(), dx, dy });
    }

    /// Appends an SFILL.
    pub fn sfill(&mut self, region: &Region, color: u32) {
        self.region(head::SFILL, region);
        put_color(self.out, color);
        let color = color & 0x00ff_ffff;
        self.note(&[], || Command::Sfill { region: region.clone(), color });
    }

    /// Appends a PFILL.
    pub fn pfill(
        &mut self,
        rect: Rect,
        tile_width: u16,
        tile_height: u16,
        encoding: Encoding,
        data: &[u8],
    ) {
        self.first_rect(head::PFILL | (encoding as u8) << head::ENCODING_SHIFT, &rect);
        put_varint(self.out, u64::from(tile_width));
        put_varint(self.out, u64::from(tile_height));
        let area = u64::from(tile_width) * u64::from(tile_height);
        self.data((encoding == Encoding::Plain).then_some(area * 3), data);
        self.note(data, || {
            let data = &[];
            Command::Pfill { rect, tile_width, tile_height, encoding, data }
        });
    }

    /// Appends a BITMAP; `colors` are foreground and background.
    pub fn bitmap(
        &mut self,
        rect: Rect,
        depth: BitmapDepth,
        colors: (u32, u32),
        compression: Compression,
        data: &[u8],
    ) {
        let colors = (colors.0 & 0x00ff_ffff, colors.1 & 0x00ff_ffff);
        let same = self.previous.colors == Some(colors);
        let mut kind = head::BITMAP;
        for (set, bit) in [
            (depth == BitmapDepth::Eight, head::EIGHT),
            (compression == Compression::Zstd, head::ZSTD),
            (same, head::SAME_COLORS),
        ] {
            kind |= if set { bit } else { 0 };
        }
        self.first_rect(kind, &rect);
        if !same {
            put_color(self.out, colors.0);
            put_color(self.out, colors.1);
            self.previous.colors = Some(colors);
        }
        self.data((compression == Compression::Plain).then_some(depth.plain_len(&rect)), data);
        let (fg, bg) = colors;
        self.note(data, || Command::Bitmap { rect, depth, fg, bg, compression, data: &[] });
    }

    /// Appends a RAW.
    pub fn raw(&mut self, rect: Rect, encoding: Encoding, data: &[u8]) {
        self.first_rect(head::RAW | (encoding as u8) << head::ENCODING_SHIFT, &rect);
        self.data((encoding == Encoding::Plain).then_some(rect.area() * 3), data);
        self.note(data, || Command::Raw { rect, encoding, data: &[] });
    }

    /// Appends a KEEP.
    pub fn keep(&mut self, rect: Rect, slot: u32) {
        self.first_rect(head::KEEP, &rect);
        put_varint(self.out, u64::from(slot));
        self.note(&[], || Command::Keep { rect, slot });
    }

    /// Appends a RECALL.
    pub fn recall(&mut self, rect: Rect, slot: u32) {
        self.first_rect(head::RECALL, &rect);
        put_varint(self.out, u64::from(slot));
        self.note(&[], || Command::Recall { rect, slot });
    }

    /// Appends a command of a video stream; it refers to no previous command, and none refers to
    /// it.
    pub fn video(&mut self, video: &VideoCommand<'_>) {
        video.encode(head::VIDEO, self.out);
        let data = match video {
            VideoCommand::Next { frame, .. } => frame.data(),
            _ => &[][..],
        };
        self.note(data, || Command::Video(video.without_data()));
    }

    fn data(&mut self, plain_len: Option<u64>, data: &[u8]) {
        match plain_len {
            Some(len) => {
                assert_eq!(
                    len,
                    data.len() as u64,
                    "plain data must have the length that its rectangle needs"
                )
            }
            None => put_varint(self.out, data.len() as u64),
        }
        self.out.extend_from_slice(data);
    }

    fn region(&mut self, kind: u8, region: &Region) {
        let rects = region.rects();
        assert!(!rects.is_empty(), "a command must have at least one rectangle");
        assert!(
            rects.len() <= RECTS_MAX,
            "a command must have at most {RECTS_MAX} rectangles; it has {}",
            rects.len()
        );
        let many = rects.len() > 1;
        let (relative, base) = self.base(&rects[0]);
        self.out.push(kind | relative | if many { head::MANY } else { 0 });
        if many {
            put_varint(self.out, rects.len() as u64);
        }
        put_rect(self.out, &rects[0], base);
        for pair in rects.windows(2) {
            put_rect(self.out, &pair[1], (pair[0].x1, pair[0].y1));
        }
    }

    fn first_rect(&mut self, kind: u8, rect: &Rect) {
        assert!(!rect.is_empty(), "a command's rectangle must not be empty");
        let (relative, base) = self.base(rect);
        self.out.push(kind | relative);
        put_rect(self.out, rect, base);
    }

    /// The base from which this corner takes fewer bytes, and the bit that says which it is.
    fn base(&mut self, rect: &Rect) -> (u8, (i32, i32)) {
        let previous = self.previous.corner.replace((rect.x1, rect.y1));
        match previous {
            Some((x, y)) if corner_len(rect, (x, y)) < corner_len(rect, (0, 0)) => {
                (head::RELATIVE, (x, y))
            }
            _ => (0, (0, 0)),
        }
    }
}

fn zigzag_len(value: i32) -> usize {
    varint_len(((i64::from(value) << 1) ^ (i64::from(value) >> 63)) as u64)
}

fn corner_len(rect: &Rect, base: (i32, i32)) -> usize {
    zigzag_len(rect.x1 - base.0) + zigzag_len(rect.y1 - base.1)
}

fn put_rect(out: &mut Vec<u8>, rect: &Rect, base: (i32, i32)) {
    put_zigzag(out, i64::from(rect.x1 - base.0));
    put_zigzag(out, i64::from(rect.y1 - base.1));
    put_varint(out, rect.width() as u64);
    put_varint(out, rect.height() as u64);
}

impl BitmapDepth {
    /// Bytes of a rectangle's data before compression.
    pub const fn plain_len(self, rect: &Rect) -> u64 {
        match self {
            BitmapDepth::One => (rect.width() as u64).div_ceil(8) * rect.height() as u64,
            BitmapDepth::Eight => rect.area(),
        }
    }
}

/// Reads the commands of one update.
///
/// Checks that every rectangle lies inside the screen (a COPY's source too) and that every count is
/// within its limit; returns nothing more after an error. codec-dec checks the encoded data.
#[derive(Debug)]
pub struct CommandReader<'a> {
    reader: Reader<'a>,
    screen: Rect,
    previous: Previous,
    count: usize,
    failed: bool,
}

impl<'a> CommandReader<'a> {
    /// Reads `commands` for a framebuffer of this size.
    pub fn new(commands: &'a [u8], screen: Size) -> CommandReader<'a> {
        CommandReader {
            reader: Reader::new(commands),
            screen: screen.rect(),
            previous: Previous::default(),
            count: 0,
            failed: false,
        }
    }

    /// Length of the commands that were not yet read, in bytes.
    pub const fn rest_len(&self) -> usize {
        self.reader.rest_len()
    }

    fn command(&mut self) -> Result<Command<'a>, WireError> {
        if self.count == COMMANDS_MAX {
            let limit = COMMANDS_MAX as u64;
            return Err(WireError::OverLimit {
                what: "an update's count of commands",
                value: limit + 1,
                limit,
            });
        }
        self.count += 1;
        let first = self.reader.u8("a command's head")?;
        let own = first & !(head::KIND | head::RELATIVE);
        let unknown = || WireError::Unknown { what: "a command's head", value: u64::from(first) };
        let base = if first & head::RELATIVE == 0 {
            (0, 0)
        } else {
            self.previous.corner.ok_or(WireError::NoPredecessor("a rectangle"))?
        };
        match first & head::KIND {
            kind @ (head::COPY | head::SFILL) => {
                if own & !head::MANY != 0 {
                    return Err(unknown());
                }
                let region = self.region(own & head::MANY != 0, base)?;
                if kind == head::SFILL {
                    return Ok(Command::Sfill {
                        region,
                        color: self.reader.color("a fill's colour")?,
                    });
                }
                let dx = self.reader.zigzag("a copy's dx")?;
                let dy = self.reader.zigzag("a copy's dy")?;
                let e = region.extents();
                let inside = |edge: i32, delta: i32, limit: i32| {
                    edge.checked_sub(delta).is_some_and(|source| (0..=limit).contains(&source))
                };
                if !(inside(e.x1, dx, self.screen.x2)
                    && inside(e.x2, dx, self.screen.x2)
                    && inside(e.y1, dy, self.screen.y2)
                    && inside(e.y2, dy, self.screen.y2))
                {
                    return Err(WireError::Outside("a copy's source"));
                }
                Ok(Command::Copy { region, dx, dy })
            }
            head::PFILL => {
                let encoding = Encoding::from_bits(own >> head::ENCODING_SHIFT)
                    .filter(|&encoding| encoding != Encoding::Jpeg)
                    .ok_or_else(unknown)?;
                let rect = self.first_rect(base)?;
                let edge = u64::from(TILE_EDGE_MAX);
                let tile_width = self.reader.at_most("a tile's width", edge)? as u16;
                let tile_height = self.reader.at_most("a tile's height", edge)? as u16;
                if tile_width == 0 || tile_height == 0 {
                    return Err(WireError::Outside("a tile"));
                }
                let area = u64::from(tile_width) * u64::from(tile_height);
                let data =
                    self.data("a tile", (encoding == Encoding::Plain).then_some(area * 3))?;
                Ok(Command::Pfill { rect, tile_width, tile_height, encoding, data })
            }
            head::BITMAP => {
                if own & !(head::EIGHT | head::ZSTD | head::SAME_COLORS) != 0 {
                    return Err(unknown());
                }
                let depth =
                    if own & head::EIGHT != 0 { BitmapDepth::Eight } else { BitmapDepth::One };
                let compression =
                    if own & head::ZSTD != 0 { Compression::Zstd } else { Compression::Plain };
                let rect = self.first_rect(base)?;
                let (fg, bg) = if own & head::SAME_COLORS != 0 {
                    self.previous.colors.ok_or(WireError::NoPredecessor("a bitmap's colours"))?
                } else {
                    (
                        self.reader.color("a bitmap's foreground")?,
                        self.reader.color("a bitmap's background")?,
                    )
                };
                self.previous.colors = Some((fg, bg));
                let data = self.data(
                    "a bitmap",
                    (compression == Compression::Plain).then_some(depth.plain_len(&rect)),
                )?;
                Ok(Command::Bitmap { rect, depth, fg, bg, compression, data })
            }
            head::RAW => {
                let encoding =
                    Encoding::from_bits(own >> head::ENCODING_SHIFT).ok_or_else(unknown)?;
                let rect = self.first_rect(base)?;
                let data = self
                    .data("raw pixels", (encoding == Encoding::Plain).then_some(rect.area() * 3))?;
                Ok(Command::Raw { rect, encoding, data })
            }
            kind @ (head::KEEP | head::RECALL) => {
                if own != 0 {
                    return Err(unknown());
                }
                let rect = self.first_rect(base)?;
                let slot =
                    self.reader.at_most("a slot of the cache", u64::from(CACHE_SLOTS_MAX) - 1)?
                        as u32;
                Ok(if kind == head::KEEP {
                    Command::Keep { rect, slot }
                } else {
                    Command::Recall { rect, slot }
                })
            }
            head::VIDEO => {
                if first & !(head::KIND | video::OP_MASK) != 0 {
                    return Err(unknown());
                }
                video::read(first >> video::OP_SHIFT, &mut self.reader, &self.screen)
                    .map(Command::Video)
            }
            _ => Err(unknown()),
        }
    }

    fn data(&mut self, what: &'static str, plain_len: Option<u64>) -> Result<&'a [u8], WireError> {
        let len = match plain_len {
            Some(len) => len,
            None => self.reader.varint(what)?,
        };
        let len = usize::try_from(len).map_err(|_| WireError::Truncated(what))?;
        self.reader.take(what, len)
    }

    fn first_rect(&mut self, base: (i32, i32)) -> Result<Rect, WireError> {
        let rect = read_rect(&mut self.reader, base, &self.screen)?;
        self.previous.corner = Some((rect.x1, rect.y1));
        Ok(rect)
    }

    fn region(&mut self, many: bool, base: (i32, i32)) -> Result<Region, WireError> {
        if !many {
            return Ok(Region::from(self.first_rect(base)?));
        }
        let count =
            self.reader.at_most("a region's count of rectangles", RECTS_MAX as u64)? as usize;
        // A rectangle takes at least four bytes, so a short message cannot reserve much memory.
        let mut rects = Vec::with_capacity(count.min(self.reader.rest_len() / 4 + 1));
        for _ in 0..count {
            let base = rects.last().map_or(base, |r: &Rect| (r.x1, r.y1));
            rects.push(read_rect(&mut self.reader, base, &self.screen)?);
        }
        let first = rects.first().ok_or(WireError::Outside("a region of no rectangles"))?;
        self.previous.corner = Some((first.x1, first.y1));
        Region::from_banded(rects).ok_or(WireError::NotBanded("a region"))
    }
}

pub(crate) fn read_rect(
    reader: &mut Reader<'_>,
    base: (i32, i32),
    screen: &Rect,
) -> Result<Rect, WireError> {
    let outside = WireError::Outside("a rectangle");
    let x = reader.zigzag("a rectangle's x")?.checked_add(base.0);
    let y = reader.zigzag("a rectangle's y")?.checked_add(base.1);
    let width = reader.at_most("a rectangle's width", u64::from(SCREEN_EDGE_MAX))? as i32;
    let height = reader.at_most("a rectangle's height", u64::from(SCREEN_EDGE_MAX))? as i32;
    let (Some(x), Some(y)) = (x, y) else {
        return Err(outside);
    };
    let within =
        |edge: i32, extent: i32, limit: i32| edge >= 0 && extent > 0 && edge <= limit - extent;
    if !within(x, width, screen.x2) || !within(y, height, screen.y2) {
        return Err(outside);
    }
    Ok(Rect::at(x, y, width, height))
}

impl<'a> Iterator for CommandReader<'a> {
    type Item = Result<Command<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let command = self.command();
        self.failed = command.is_err();
        Some(command)
    }
}

impl Encoding {
    const fn from_bits(bits: u8) -> Option<Encoding> {
        match bits {
            0 => Some(Encoding::Plain),
            1 => Some(Encoding::Predicted),
            2 => Some(Encoding::PredictedZstd),
            3 => Some(Encoding::Jpeg),
            4 => Some(Encoding::Residuals),
            5 => Some(Encoding::Columns),
            _ => None,
        }
    }
}
