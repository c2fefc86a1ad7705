//! Path 9/13: from encoder.rs, for RAW; the inverse of codec-dec/columns.rs, which has the layout.
//! Splits a rectangle into lines of text and the runs within them, and encodes each column by
//! column as codes of colours.
//! Knows 24-bit pixels without a stride; never where the rectangle lies.

use std::ops::Range;

use thinc_codec_dec::columns::{
    LEVELS, LONG_LEN, LONG_MAX, SHORT_LEN, free_code, part, short_code,
};
use thinc_protocol::wire::put_varint;

/// 12 pixels: narrower gaps lie between words and do not split a line.
const GAP_MIN: usize = 12;
/// 4: a line with more changes of colour is not a border, even if the next one equals it.
const CHANGES_MAX: u32 = 4;
/// Four buckets per possible colour: short probe sequences.
const BUCKETS: usize = LONG_MAX * 4;
/// Shift that leaves the bits of a bucket's index in a hash.
const BUCKET_SHIFT: u32 = u32::BITS - BUCKETS.ilog2();
const _: () = assert!(BUCKETS.is_power_of_two(), "a hash's upper bits must index every bucket");

/// Encodes text by columns; it reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Parts and their pixels, in the order of the encoding.
    parts: Vec<Element>,
    /// The colour's number of each pixel.
    numbers: Vec<u16>,
    colors: Colors,
    /// Working memory of each level of splitting.
    levels: [Level; LEVELS],
    /// Codes by number; only long ones use the second byte.
    codes: Vec<[u8; 2]>,
    /// Numbers in the order of the palette.
    order: Vec<u16>,
    /// Assigned long codes.
    used: Vec<bool>,
}

/// Working memory for splitting an area.
#[derive(Debug, Default)]
struct Level {
    lines: Lines,
    /// Kind and range of lines of each part.
    runs: Vec<(u8, Range<usize>)>,
}

/// Elements of the encoding, in order.
#[derive(Clone, Copy, Debug)]
enum Element {
    Number(u64),
    /// The next so many pixels.
    Pixels(usize),
}

/// The lines across the split. An array for each property, so that columns are measured by vector
/// instructions, a row at a time.
#[derive(Debug, Default)]
struct Lines {
    /// Changes of colour within each.
    changes: Vec<u32>,
    /// Bits that differ between each and the previous line: 0 if they are equal.
    differs: Vec<u32>,
}

/// A part of the rectangle.
#[derive(Clone, Copy, Debug)]
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// Direction of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Columns,
    Rows,
}

impl Columns {
    /// Replaces `out` with the encoding of `pixels`, rows of `width` without padding; false if
    /// there are too many colours.
    pub(crate) fn encode(&mut self, pixels: &[u32], width: usize, out: &mut Vec<u8>) -> bool {
        self.parts.clear();
        self.numbers.clear();
        self.colors.begin();
        let area = Area { x: 0, y: 0, width, height: pixels.len() / width };
        if !self.split(pixels, width, area, LEVELS) {
            return false;
        }
        out.clear();
        self.palette(out);
        let mut numbers = &self.numbers[..];
        for element in &self.parts {
            match *element {
                Element::Number(value) => put_varint(out, value),
                Element::Pixels(count) => {
                    let (taken, rest) = numbers.split_at(count);
                    numbers = rest;
                    self.put(taken, out);
                }
            }
        }
        true
    }

    fn put(&self, numbers: &[u16], out: &mut Vec<u8>) {
        for &number in numbers {
            let [first, second] = self.codes[usize::from(number)];
            out.push(first);
            if usize::from(first) >= SHORT_LEN {
                out.push(second);
            }
        }
    }

    /// Splits an area and records its pixels; false if there are too many colours.
    fn split(&mut self, pixels: &[u32], stride: usize, area: Area, levels: usize) -> bool {
        let direction = if levels % 2 == LEVELS % 2 { Direction::Columns } else { Direction::Rows };
        let mut level = std::mem::take(&mut self.levels[levels - 1]);
        measure(pixels, stride, area, direction, &mut level.lines);
        find_runs(&level.lines, direction, &mut level.runs);
        put(&mut self.parts, level.runs.len() as u64);
        let fits = level.runs.iter().all(|(kind, range)| {
            let inside = match direction {
                Direction::Columns => Area { x: area.x + range.start, width: range.len(), ..area },
                Direction::Rows => Area { y: area.y + range.start, height: range.len(), ..area },
            };
            // The deepest level is not split further.
            let kind = if *kind == part::SPLIT && levels == 1 { part::PIXELS } else { *kind };
            put(&mut self.parts, (range.len() as u64) << 2 | u64::from(kind));
            match (kind, direction) {
                (part::PLAIN, _) => {
                    self.record(pixels, stride, Area { width: 1, height: 1, ..inside })
                }
                (part::EQUAL_LINES, Direction::Columns) => {
                    self.record(pixels, stride, Area { width: 1, ..inside })
                }
                (part::EQUAL_LINES, Direction::Rows) => {
                    self.record(pixels, stride, Area { height: 1, ..inside })
                }
                (part::PIXELS, _) => self.record(pixels, stride, inside),
                _ => self.split(pixels, stride, inside, levels - 1),
            }
        });
        self.levels[levels - 1] = level;
        fits
    }

    /// Records an area's pixels, column by column; false if there are too many colours.
    fn record(&mut self, pixels: &[u32], stride: usize, area: Area) -> bool {
        self.parts.push(Element::Pixels(area.width * area.height));
        for x in area.x..area.x + area.width {
            for y in area.y..area.y + area.height {
                match self.colors.number(pixels[y * stride + x]) {
                    Some(number) => self.numbers.push(number),
                    None => return false,
                }
            }
        }
        true
    }

    /// Assigns codes to the colours and writes the palette.
    fn palette(&mut self, out: &mut Vec<u8>) {
        let Columns { colors: Colors { all: colors, .. }, codes, order, used, .. } = self;
        let mut owners = [None::<u16>; SHORT_LEN];
        for (number, &(color, count)) in (0u16..).zip(&*colors) {
            let owner = &mut owners[short_code(color)];
            // Of equally frequent colours the smaller one, so that equal pixels get equal codes.
            let key = |number: u16| {
                let (color, count) = colors[usize::from(number)];
                (count, u32::MAX - color)
            };
            if owner.is_none_or(|owner| key(owner) < (count, u32::MAX - color)) {
                *owner = Some(number);
            }
        }
        codes.clear();
        codes.resize(colors.len(), [0xff; 2]);
        for (code, owner) in (0u8..).zip(owners) {
            if let Some(owner) = owner {
                codes[usize::from(owner)] = [code, 0];
            }
        }
        let is_long = |number: u16| codes[usize::from(number)] == [0xff; 2];
        order.clear();
        order.extend(0..colors.len() as u16);
        // Colours sorted by green also differ little in the other channels.
        order.sort_unstable_by_key(|&number| {
            let color = colors[usize::from(number)].0;
            (is_long(number), color >> 8 & 0xff, color)
        });
        let short = order.partition_point(|&number| !is_long(number));
        let long = order.len() - short;
        debug_assert!(
            long <= LONG_MAX,
            "more colours must not be numbered, long and short together"
        );
        used.clear();
        used.resize(if long > 0 { LONG_LEN } else { 0 }, false);
        for &number in &order[short..] {
            let code = free_code(colors[usize::from(number)].0, |code| !used[code]);
            used[code] = true;
            codes[usize::from(number)] = [(SHORT_LEN + (code >> 8)) as u8, code as u8];
        }
        put_varint(out, short as u64);
        put_varint(out, long as u64);
        let planes: [fn([u8; 3]) -> u8; 3] =
            [|[_, g, _]| g, |[_, g, r]| r.wrapping_sub(g), |[b, g, _]| b.wrapping_sub(g)];
        for plane in planes {
            let mut before = 0u8;
            for &number in &*order {
                let [b, g, r, _] = colors[usize::from(number)].0.to_le_bytes();
                let value = plane([b, g, r]);
                out.push(value.wrapping_sub(before));
                before = value;
            }
        }
    }
}

fn put(parts: &mut Vec<Element>, value: u64) {
    parts.push(Element::Number(value));
}

/// Measures an area's lines: their changes of colour, and whether they equal the previous one.
fn measure(pixels: &[u32], stride: usize, area: Area, direction: Direction, lines: &mut Lines) {
    let Lines { changes, differs } = lines;
    changes.clear();
    differs.clear();
    let rows = (area.y..area.y + area.height).map(|y| &pixels[y * stride + area.x..][..area.width]);
    match direction {
        Direction::Rows => {
            let mut above: &[u32] = &[];
            for row in rows {
                changes.push(row[1..].iter().zip(row).map(|(a, b)| u32::from(a != b)).sum());
                differs.push(u32::from(row != above));
                above = row;
            }
        }
        Direction::Columns => {
            changes.resize(area.width, 0);
            differs.resize(area.width, 0);
            differs[0] = 1;
            let mut above: Option<&[u32]> = None;
            for row in rows {
                for ((differs, a), b) in differs[1..].iter_mut().zip(&row[1..]).zip(row) {
                    *differs |= a ^ b;
                }
                if let Some(above) = above {
                    for ((changes, a), b) in changes.iter_mut().zip(row).zip(above) {
                        *changes += u32::from(a != b);
                    }
                }
                above = Some(row);
            }
        }
    }
}

/// Groups lines to parts: of one colour, of equal lines, and parts between them to split again.
fn find_runs(lines: &Lines, direction: Direction, runs: &mut Vec<(u8, Range<usize>)>) {
    runs.clear();
    let count = lines.changes.len();
    let mut at = 0;
    while at < count {
        let again = lines.differs[at + 1..].iter().take_while(|&&differs| differs == 0).count();
        let end = at + 1 + again;
        let changes = lines.changes[at];
        let kind = match changes {
            0 => part::PLAIN,
            1..=CHANGES_MAX if again > 0 => part::EQUAL_LINES,
            _ => part::SPLIT,
        };
        // Gaps between glyphs and words do not split a line.
        let inside = direction == Direction::Columns && at > 0 && end < count && end - at < GAP_MIN;
        let kind = if inside { part::SPLIT } else { kind };
        match runs.last_mut() {
            Some((part::SPLIT, range)) if kind == part::SPLIT => range.end = end,
            _ => runs.push((kind, at..end)),
        }
        at = end;
    }
}

/// Colours and their frequencies.
#[derive(Debug, Default)]
struct Colors {
    /// Hash table of numbers plus one; 0: empty.
    buckets: Vec<u16>,
    all: Vec<(u32, u32)>,
    /// The last colour, which is the most likely next one.
    last: Option<(u32, u16)>,
}

impl Colors {
    fn begin(&mut self) {
        self.buckets.clear();
        self.buckets.resize(BUCKETS, 0);
        self.all.clear();
        self.last = None;
    }

    /// A colour's number; none if there are too many colours.
    #[inline(always)]
    fn number(&mut self, color: u32) -> Option<u16> {
        if let Some((last, number)) = self.last
            && last == color
        {
            self.all[usize::from(number)].1 += 1;
            return Some(number);
        }
        let mut bucket = (color.wrapping_mul(0x9e37_79b1) >> BUCKET_SHIFT) as usize;
        let number = loop {
            match self.buckets[bucket] {
                0 if self.all.len() == LONG_MAX => return None,
                0 => {
                    self.all.push((color, 0));
                    self.buckets[bucket] = self.all.len() as u16;
                    break self.all.len() as u16 - 1;
                }
                taken if self.all[usize::from(taken) - 1].0 == color => break taken - 1,
                _ => bucket = (bucket + 1) % BUCKETS,
            }
        };
        self.all[usize::from(number)].1 += 1;
        self.last = Some((color, number));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_codec_dec::{Decoder, OPAQUE};
    use thinc_protocol::command::Encoding;

    use super::*;

    const WHITE: u32 = 0xffff_ffff;

    fn noise(seed: u32, n: usize) -> u32 {
        let mut n = seed ^ (n as u32).wrapping_mul(0x9e37_79b1);
        n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
        n ^ (n >> 12)
    }

    /// Encodes, decodes and compares; returns the length, or none if there are too many colours.
    fn round_trip(pixels: &[u32], width: usize) -> Option<usize> {
        let (mut columns, mut codes) = (Columns::default(), vec![1, 2, 3]);
        if !columns.encode(pixels, width, &mut codes) {
            return None;
        }
        let mut shown = vec![7; pixels.len()];
        let height = pixels.len() / width;
        Decoder::new().raw(Encoding::Columns, &codes, (width, height), &mut shown, width).unwrap();
        assert!(shown == pixels, "{width}x{height} decodes to other pixels");
        for cut in (0..codes.len()).rev().step_by(codes.len() / 40 + 1) {
            let decoded = Decoder::new().raw(
                Encoding::Columns,
                &codes[..cut],
                (width, height),
                &mut shown,
                width,
            );
            assert!(decoded.is_err(), "{cut} of {} bytes must not decode", codes.len());
        }
        codes.push(codes[codes.len() - 1]);
        let decoded =
            Decoder::new().raw(Encoding::Columns, &codes, (width, height), &mut shown, width);
        assert!(decoded.is_err(), "a surplus byte must not decode");
        Some(codes.len() - 1)
    }

    /// Glyphs in lines of 12 rows; a seed selects the text of a line.
    fn text(width: usize, lines: &[u32]) -> Vec<u32> {
        let shade = |glyph: u32, x: usize, y: usize| noise(glyph, x * 13 + y) % 9 * 28;
        let mut pixels = vec![WHITE; width * 12 * lines.len()];
        for (i, pixel) in pixels.iter_mut().enumerate() {
            let (x, y) = (i % width, i / width);
            let glyph = noise(lines[y / 12], x / 8) % 20;
            if x % 8 < 7 && (1..11).contains(&(y % 12)) && x + 20 < width {
                *pixel = OPAQUE | (shade(glyph, x % 8, y % 12) * 0x01_0101);
            }
        }
        pixels
    }

    #[test]
    fn a_glyph_has_the_same_codes_at_any_position() {
        let codes_of = |lines: &[u32]| {
            let (mut columns, mut codes) = (Columns::default(), Vec::new());
            assert!(columns.encode(&text(400, lines), 400, &mut codes));
            codes
        };
        // The same line below two others, and beside other colours.
        let (one, three) = (codes_of(&[7]), codes_of(&[3, 4, 7]));
        let line = &one[one.len() - 3000..one.len() - 100];
        assert!(
            three.windows(line.len()).any(|codes| codes == line),
            "the line's codes must recur"
        );
    }

    #[test]
    fn empty_areas_take_almost_no_bytes() {
        assert!(round_trip(&[WHITE; 300 * 200], 300).unwrap() < 16);
        // Margins, lines between and to the right of text.
        let lines: Vec<u32> = (0..10).collect();
        let mut pixels = vec![WHITE; 1000 * 200];
        for (row, text) in pixels.chunks_mut(1000).skip(40).zip(text(300, &lines).chunks(300)) {
            row[100..400].copy_from_slice(text);
        }
        let len = round_trip(&pixels, 1000).unwrap();
        assert!(len < 280 * 120, "{len} bytes for {} pixels of text", 280 * 100);
    }

    #[test]
    fn more_colours_than_codes_are_not_encoded() {
        let few: Vec<u32> = (0..4000).map(|i| OPAQUE | (i * 67)).collect();
        assert!(round_trip(&few, 50).is_some());
        let many: Vec<u32> = (0..8000).map(|i| OPAQUE | (i * 67)).collect();
        assert_eq!(round_trip(&many, 50), None);
    }

    #[test]
    fn all_sizes_round_trip() {
        for (width, height) in
            [(1, 1), (1, 40), (40, 1), (2, 2), (3, 50), (50, 3), (13, 12), (64, 64)]
        {
            let noise: Vec<u32> =
                (0..width * height).map(|i| OPAQUE | noise(9, i) & 0x0f_0f0f).collect();
            assert!(round_trip(&noise, width).is_some(), "{width}x{height}");
        }
    }

    proptest! {
        #[test]
        fn boxes_and_text_round_trip(
            width in 1usize..200,
            height in 1usize..120,
            boxes in proptest::collection::vec(
                (0usize..200, 0usize..120, 1usize..200, 1usize..120, 0u8..4, any::<u32>()),
                0..8,
            ),
        ) {
            let mut pixels = vec![WHITE; width * height];
            for (left, top, across, down, kind, seed) in boxes {
                for (y, row) in pixels.chunks_mut(width).enumerate().skip(top).take(down) {
                    for (x, pixel) in row.iter_mut().enumerate().skip(left).take(across) {
                        let color = match kind {
                            0 => seed,
                            1 => noise(seed, y),
                            2 => noise(seed, x),
                            _ => [seed, !seed][(noise(seed, x % 7 + y * 31) & 1) as usize],
                        };
                        *pixel = OPAQUE | color;
                    }
                }
            }
            prop_assert!(round_trip(&pixels, width).is_some());
        }
    }
}
