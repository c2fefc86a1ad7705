//! Path 11/13: from lib.rs, for RAW and PFILL; the inverse of codec-enc/columns.rs, which shares
//! the rules below.
//! Text: a rectangle is split into lines, each encoded column by column as codes of colours, so
//! that a glyph is always the same bytes.
//! Knows 24-bit pixels and a width; every index is checked, and no input panics.
//!
//! ```text
//! palette   count of short colours varint | count of long colours varint | for the short and then
//!           the long colours: differences of green from the previous colour's; then those of
//!           red - green; then those of blue - green
//! parts     the rectangle is split into columns, these into rows, and so on, at most LEVELS deep:
//!           count varint, then for each part, whose length is measured across the split
//!             length varint * 4 + 0   code              one colour
//!             length varint * 4 + 1   codes of a line   equal lines
//!             length varint * 4 + 2   codes             any pixels, column by column
//!             length varint * 4 + 3   parts             split in the other direction
//! ```
//!
//! A colour's code derives from its hash, so it is the same in every rectangle: one byte for the
//! most frequent colour of each short hash, two for others. The connection's zstd stream then finds
//! repeated text, whatever else the screen shows.

use thinc_protocol::wire::{Reader, WireError};

use crate::{DecodeError, OPAQUE};

/// Depth of splitting: columns, lines of text, runs within a line, and lines within those.
pub const LEVELS: usize = 4;
/// Number of codes of one byte.
pub const SHORT_LEN: usize = 224;
/// Number of codes of two bytes: the first byte is from SHORT_LEN to 254.
pub const LONG_LEN: usize = (255 - SHORT_LEN) << 8;
/// 4096 long colours at most: half of the codes stay free, so most colours get the code of their
/// hash.
pub const LONG_MAX: usize = 4096;

/// Kinds of a part; see above.
pub mod part {
    /// One colour.
    pub const PLAIN: u8 = 0;
    /// Lines across the split that are equal.
    pub const EQUAL_LINES: u8 = 1;
    /// Any pixels.
    pub const PIXELS: u8 = 2;
    /// Split again.
    pub const SPLIT: u8 = 3;
}

/// The code of a colour if it is a short one.
#[inline(always)]
pub fn short_code(color: u32) -> usize {
    ((hash(color) >> 24) as usize * SHORT_LEN) >> 8
}

/// The preferred code of a colour if it is a long one.
#[inline(always)]
fn long_code(color: u32) -> usize {
    ((hash(color) >> 16) as usize * LONG_LEN) >> 16
}

fn hash(color: u32) -> u32 {
    (color & crate::RGB).wrapping_mul(0x9e37_79b1)
}

/// Colours by code; 0 for a code without a colour.
#[derive(Debug)]
pub(crate) struct Tables {
    short: [u32; SHORT_LEN],
    long: Vec<u32>,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { short: [0; SHORT_LEN], long: Vec::new() }
    }
}

impl Tables {
    /// Fills `pixels`, rows of `width` without padding.
    ///
    /// # Errors
    /// If the palette, parts or codes are not exactly those of a rectangle of this size.
    pub(crate) fn decode(
        &mut self,
        data: &[u8],
        width: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(data);
        self.palette(&mut reader)?;
        let area =
            Area { at: 0, across: 1, width, down: width, height: pixels.len() / width.max(1) };
        self.parts(&mut reader, area, LEVELS, pixels)?;
        if reader.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }

    /// Fills an area, which is split in the other direction than the one around it.
    fn parts(
        &self,
        reader: &mut Reader<'_>,
        around: Area,
        levels: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        let area = around.turned();
        let count = reader.varint("parts").map_err(truncated)?;
        let mut top = 0;
        for _ in 0..count {
            let value = reader.varint("a part").map_err(truncated)?;
            let height =
                usize::try_from(value >> 2).ok().filter(|&len| len > 0 && len <= area.height - top);
            let height = height.ok_or(DecodeError::Run)?;
            let inside = Area { at: area.at + top * area.down, height, ..area };
            top += height;
            match value as u8 & 3 {
                part::PLAIN => {
                    let color = self.color(reader)?;
                    (0..height).for_each(|y| inside.line(y).for_each(|at| pixels[at] = color));
                }
                part::EQUAL_LINES => {
                    self.line(reader, inside, 0, pixels)?;
                    for y in 1..height {
                        inside
                            .line(0)
                            .zip(inside.line(y))
                            .for_each(|(from, to)| pixels[to] = pixels[from]);
                    }
                }
                part::PIXELS => {
                    // The lines of a part among columns are columns already.
                    let upright = if levels % 2 == LEVELS % 2 { inside } else { inside.turned() };
                    (0..upright.height).try_for_each(|y| self.line(reader, upright, y, pixels))?;
                }
                _ if levels > 1 => self.parts(reader, inside, levels - 1, pixels)?,
                _ => return Err(DecodeError::Operation(value as u8)),
            }
        }
        if top == area.height { Ok(()) } else { Err(DecodeError::Truncated) }
    }

    /// Reads the codes of a line.
    fn line(
        &self,
        reader: &mut Reader<'_>,
        area: Area,
        y: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        area.line(y).try_for_each(|at| {
            pixels[at] = self.color(reader)?;
            Ok(())
        })
    }

    /// Reads a code.
    #[inline(always)]
    fn color(&self, reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
        let first = reader.u8("a code").map_err(truncated)?;
        let color = match self.short.get(usize::from(first)) {
            Some(&color) => color,
            None => {
                let second = reader.u8("a code").map_err(truncated)?;
                let code = (usize::from(first) - SHORT_LEN) << 8 | usize::from(second);
                self.long.get(code).copied().unwrap_or(0)
            }
        };
        // A colour's top byte is never 0.
        if color == 0 { Err(DecodeError::Operation(first)) } else { Ok(color) }
    }

    fn palette(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let short = reader.varint("short colours").map_err(truncated)?;
        let long = reader.varint("long colours").map_err(truncated)?;
        if short > SHORT_LEN as u64 || long > LONG_MAX as u64 {
            return Err(DecodeError::Run);
        }
        let (short, count) = (short as usize, (short + long) as usize);
        let planes = reader.take("a palette", count * 3).map_err(truncated)?;
        self.short.fill(0);
        self.long.clear();
        self.long.resize(if long > 0 { LONG_LEN } else { 0 }, 0);
        let [mut green, mut red_more, mut blue_more] = [0u8; 3];
        for i in 0..count {
            green = green.wrapping_add(planes[i]);
            red_more = red_more.wrapping_add(planes[count + i]);
            blue_more = blue_more.wrapping_add(planes[2 * count + i]);
            let color = OPAQUE
                | u32::from_le_bytes([
                    blue_more.wrapping_add(green),
                    green,
                    red_more.wrapping_add(green),
                    0,
                ]);
            if i < short {
                self.short[short_code(color)] = color;
            } else {
                let code = free_code(color, |code| self.long[code] == 0);
                self.long[code] = color;
            }
        }
        Ok(())
    }
}

fn truncated(_: WireError) -> DecodeError {
    DecodeError::Truncated
}

/// The long code for the next colour of a palette: that of its hash, or the next free one.
pub fn free_code(color: u32, is_free: impl Fn(usize) -> bool) -> usize {
    let first = long_code(color);
    let free = (first..LONG_LEN).chain(0..first).find(|&code| is_free(code));
    free.expect("there must be more codes than colours")
}

/// A rectangle within the rectangle, seen in the direction of its split.
#[derive(Clone, Copy, Debug)]
struct Area {
    at: usize,
    /// Distance between pixels of a line, and their number.
    across: usize,
    width: usize,
    /// Distance between lines, and their number.
    down: usize,
    height: usize,
}

impl Area {
    fn turned(self) -> Area {
        Area {
            across: self.down,
            width: self.height,
            down: self.across,
            height: self.width,
            ..self
        }
    }

    fn line(self, y: usize) -> impl Iterator<Item = usize> {
        let at = self.at + y * self.down;
        (0..self.width).map(move |x| at + x * self.across)
    }
}
