//! Path 9/13: from encoder.rs, for RAW; the twin of codec-dec/columns.rs, where the bytes are pictured.
//! Cuts out lines of text, and what stands beside each other in them, and says each column by column in codes of colours.
//! Knows 24-bit pixels without a stride; never rectangles.

use std::ops::Range;

use thinc_codec_dec::columns::{LEVELS, LONG_LEN, LONG_MAX, SHORT_LEN, free_code, part, short_code};
use thinc_protocol::wire::put_varint;

/// 12 pixels: narrower gaps are between words, and the string goes on.
const GAP_MIN: usize = 12;
/// 4: a line with more changes of colour is not taken for a border, even where its neighbour is like it.
const CHANGES_MAX: u32 = 4;
/// Four places for each colour that there may be: short ways in the table.
const PLACES: usize = LONG_MAX * 4;
/// What leaves as many bits of a hash as a place has.
const PLACE_SHIFT: u32 = u32::BITS - PLACES.ilog2();
const _: () = assert!(PLACES.is_power_of_two(), "every place of a table, and no other, is what a hash's bits say");

/// Turns text into codes; its memory is used again from call to call.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Parts and their pixels, in the order in which they are sent.
    parts: Vec<Piece>,
    /// Of each pixel its colour's number.
    numbers: Vec<u16>,
    colors: Colors,
    /// The areas at hand, each inside the one before.
    levels: [Level; LEVELS],
    /// Codes by number; the second byte is that of a long one.
    codes: Vec<[u8; 2]>,
    /// Numbers in the order in which the palette says their colours.
    order: Vec<u16>,
    /// Which long codes are given away.
    used: Vec<bool>,
}

/// How an area is cut.
#[derive(Debug, Default)]
struct Level {
    lines: Vec<Line>,
    /// What lies between two cuts, and its lines.
    runs: Vec<(u8, Range<usize>)>,
}

/// What is sent one after the other.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Number(u64),
    /// So many of the pixels.
    Pixels(usize),
}

/// A line across a cut.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Changes of colour within it.
    changes: u32,
    /// Is like the one before.
    again: bool,
}

/// A part of the rectangle, in columns and rows.
#[derive(Clone, Copy, Debug)]
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// What parts lines from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Into {
    Columns,
    Rows,
}

impl Columns {
    /// Replaces `out` with the encoding of `pixels`, rows of `width` without gaps; or gives up, where there are too many
    /// colours.
    pub(crate) fn encode(&mut self, pixels: &[u32], width: usize, out: &mut Vec<u8>) -> bool {
        self.parts.clear();
        self.numbers.clear();
        self.colors.begin();
        let area = Area { x: 0, y: 0, width, height: pixels.len() / width };
        if !self.cut(pixels, width, area, LEVELS) {
            return false;
        }
        out.clear();
        self.palette(out);
        let mut numbers = &self.numbers[..];
        for piece in &self.parts {
            match *piece {
                Piece::Number(value) => put_varint(out, value),
                Piece::Pixels(count) => {
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

    /// Cuts an area and takes its pixels; false where there are too many colours.
    fn cut(&mut self, pixels: &[u32], stride: usize, area: Area, levels: usize) -> bool {
        let into = if levels % 2 == LEVELS % 2 { Into::Columns } else { Into::Rows };
        let mut level = std::mem::take(&mut self.levels[levels - 1]);
        look(pixels, stride, area, into, &mut level.lines);
        find_runs(&level.lines, into, &mut level.runs);
        put(&mut self.parts, level.runs.len() as u64);
        let fits = level.runs.iter().all(|(kind, range)| {
            let inside = match into {
                Into::Columns => Area { x: area.x + range.start, width: range.len(), ..area },
                Into::Rows => Area { y: area.y + range.start, height: range.len(), ..area },
            };
            // A part that would not be cut is said in one word.
            let kind = if *kind == part::CUT && levels == 1 { part::PIXELS } else { *kind };
            put(&mut self.parts, (range.len() as u64) << 2 | u64::from(kind));
            match (kind, into) {
                (part::PLAIN, _) => self.take(pixels, stride, Area { width: 1, height: 1, ..inside }),
                (part::ALIKE, Into::Columns) => self.take(pixels, stride, Area { width: 1, ..inside }),
                (part::ALIKE, Into::Rows) => self.take(pixels, stride, Area { height: 1, ..inside }),
                (part::PIXELS, _) => self.take(pixels, stride, inside),
                _ => self.cut(pixels, stride, inside, levels - 1),
            }
        });
        self.levels[levels - 1] = level;
        fits
    }

    /// Notes an area's pixels, column by column; false where there are too many colours.
    fn take(&mut self, pixels: &[u32], stride: usize, area: Area) -> bool {
        self.parts.push(Piece::Pixels(area.width * area.height));
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

    /// Gives each colour its code, and writes which there are.
    fn palette(&mut self, out: &mut Vec<u8>) {
        let Columns { colors: Colors { all: colors, .. }, codes, order, used, .. } = self;
        let mut owners = [None::<u16>; SHORT_LEN];
        for (number, &(color, count)) in (0u16..).zip(&*colors) {
            let owner = &mut owners[short_code(color)];
            // Of colours as frequent as each other the smaller, so that what looks the same is said the same.
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
        // Neighbours in green differ little in the others too.
        order.sort_unstable_by_key(|&number| {
            let color = colors[usize::from(number)].0;
            (is_long(number), color >> 8 & 0xff, color)
        });
        let short = order.partition_point(|&number| !is_long(number));
        let long = order.len() - short;
        debug_assert!(long <= LONG_MAX, "no more colours are numbered, long and short together");
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

fn put(parts: &mut Vec<Piece>, value: u64) {
    parts.push(Piece::Number(value));
}

/// Looks at an area's lines: how often their colour changes, and which are like the one before.
fn look(pixels: &[u32], stride: usize, area: Area, into: Into, lines: &mut Vec<Line>) {
    lines.clear();
    let rows = (area.y..area.y + area.height).map(|y| &pixels[y * stride + area.x..][..area.width]);
    match into {
        Into::Rows => {
            let mut above: &[u32] = &[];
            for row in rows {
                let changes = row[1..].iter().zip(row).map(|(a, b)| u32::from(a != b)).sum();
                lines.push(Line { changes, again: row == above });
                above = row;
            }
        }
        Into::Columns => {
            lines.resize(area.width, Line { changes: 0, again: true });
            lines[0].again = false;
            let mut above: Option<&[u32]> = None;
            for row in rows {
                for (line, pair) in lines[1..].iter_mut().zip(row.windows(2)) {
                    line.again &= pair[0] == pair[1];
                }
                if let Some(above) = above {
                    for (line, (a, b)) in lines.iter_mut().zip(row.iter().zip(above)) {
                        line.changes += u32::from(a != b);
                    }
                }
                above = Some(row);
            }
        }
    }
}

/// The parts that lines make: what is of one colour or alike, and what is to be cut again between it.
fn find_runs(lines: &[Line], into: Into, runs: &mut Vec<(u8, Range<usize>)>) {
    runs.clear();
    let mut at = 0;
    while at < lines.len() {
        let again = lines[at + 1..].iter().take_while(|line| line.again).count();
        let end = at + 1 + again;
        let changes = lines[at].changes;
        let kind = match changes {
            0 => part::PLAIN,
            1..=CHANGES_MAX if again > 0 => part::ALIKE,
            _ => part::CUT,
        };
        // Between letters and words of a line the string goes on.
        let inside = into == Into::Columns && at > 0 && end < lines.len() && end - at < GAP_MIN;
        let kind = if inside { part::CUT } else { kind };
        match runs.last_mut() {
            Some((part::CUT, range)) if kind == part::CUT => range.end = end,
            _ => runs.push((kind, at..end)),
        }
        at = end;
    }
}

/// Colours and how often each came up.
#[derive(Debug, Default)]
struct Colors {
    /// Numbers by hash, one more than they are; 0: none.
    places: Vec<u16>,
    all: Vec<(u32, u32)>,
    /// The newest, which most often comes again.
    last: Option<(u32, u16)>,
}

impl Colors {
    fn begin(&mut self) {
        self.places.clear();
        self.places.resize(PLACES, 0);
        self.all.clear();
        self.last = None;
    }

    /// A colour's number; none where it would be one too many.
    #[inline(always)]
    fn number(&mut self, color: u32) -> Option<u16> {
        if let Some((last, number)) = self.last
            && last == color
        {
            self.all[usize::from(number)].1 += 1;
            return Some(number);
        }
        let mut place = (color.wrapping_mul(0x9e37_79b1) >> PLACE_SHIFT) as usize;
        let number = loop {
            match self.places[place] {
                0 if self.all.len() == LONG_MAX => return None,
                0 => {
                    self.all.push((color, 0));
                    self.places[place] = self.all.len() as u16;
                    break self.all.len() as u16 - 1;
                }
                taken if self.all[usize::from(taken) - 1].0 == color => break taken - 1,
                _ => place = (place + 1) % PLACES,
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

    /// Encodes, and decodes as a viewer does: none where the encoder gives up.
    fn there_and_back(pixels: &[u32], width: usize) -> Option<usize> {
        let (mut columns, mut codes) = (Columns::default(), vec![1, 2, 3]);
        if !columns.encode(pixels, width, &mut codes) {
            return None;
        }
        let mut shown = vec![7; pixels.len()];
        let height = pixels.len() / width;
        Decoder::new().raw(Encoding::Columns, &codes, (width, height), &mut shown, width).unwrap();
        assert!(shown == pixels, "{width}x{height} came back otherwise");
        for cut in (0..codes.len()).rev().step_by(codes.len() / 40 + 1) {
            let decoded = Decoder::new().raw(Encoding::Columns, &codes[..cut], (width, height), &mut shown, width);
            assert!(decoded.is_err(), "{cut} of {} bytes are taken for all", codes.len());
        }
        codes.push(codes[codes.len() - 1]);
        let decoded = Decoder::new().raw(Encoding::Columns, &codes, (width, height), &mut shown, width);
        assert!(decoded.is_err(), "a byte more is not seen");
        Some(codes.len() - 1)
    }

    /// Letters in lines of 12 rows, the text of a line chosen by its seed.
    fn text(width: usize, lines: &[u32]) -> Vec<u32> {
        let shade = |letter: u32, x: usize, y: usize| noise(letter, x * 13 + y) % 9 * 28;
        let mut pixels = vec![WHITE; width * 12 * lines.len()];
        for (i, pixel) in pixels.iter_mut().enumerate() {
            let (x, y) = (i % width, i / width);
            let letter = noise(lines[y / 12], x / 8) % 20;
            if x % 8 < 7 && (1..11).contains(&(y % 12)) && x + 20 < width {
                *pixel = OPAQUE | (shade(letter, x % 8, y % 12) * 0x01_0101);
            }
        }
        pixels
    }

    #[test]
    fn a_letter_is_the_same_string_wherever_it_stands() {
        let codes_of = |lines: &[u32]| {
            let (mut columns, mut codes) = (Columns::default(), Vec::new());
            assert!(columns.encode(&text(400, lines), 400, &mut codes));
            codes
        };
        // The same line below two others, and beside other colours.
        let (one, three) = (codes_of(&[7]), codes_of(&[3, 4, 7]));
        let line = &one[one.len() - 3000..one.len() - 100];
        assert!(three.windows(line.len()).any(|codes| codes == line), "the line's codes are not found again");
    }

    #[test]
    fn what_is_empty_takes_next_to_nothing() {
        assert!(there_and_back(&[WHITE; 300 * 200], 300).unwrap() < 16);
        // Margins, lines between and to the right of text.
        let lines: Vec<u32> = (0..10).collect();
        let mut pixels = vec![WHITE; 1000 * 200];
        for (row, text) in pixels.chunks_mut(1000).skip(40).zip(text(300, &lines).chunks(300)) {
            row[100..400].copy_from_slice(text);
        }
        let len = there_and_back(&pixels, 1000).unwrap();
        assert!(len < 280 * 120, "{len} bytes for {} pixels of letters", 280 * 100);
    }

    #[test]
    fn more_colours_than_codes_are_given_up() {
        let few: Vec<u32> = (0..4000).map(|i| OPAQUE | (i * 67)).collect();
        assert!(there_and_back(&few, 50).is_some());
        let many: Vec<u32> = (0..8000).map(|i| OPAQUE | (i * 67)).collect();
        assert_eq!(there_and_back(&many, 50), None);
    }

    #[test]
    fn all_sizes_come_back() {
        for (width, height) in [(1, 1), (1, 40), (40, 1), (2, 2), (3, 50), (50, 3), (13, 12), (64, 64)] {
            let noise: Vec<u32> = (0..width * height).map(|i| OPAQUE | noise(9, i) & 0x0f_0f0f).collect();
            assert!(there_and_back(&noise, width).is_some(), "{width}x{height}");
        }
    }

    proptest! {
        #[test]
        fn boxes_and_text_come_back(
            width in 1usize..200,
            height in 1usize..120,
            boxes in proptest::collection::vec((0usize..200, 0usize..120, 1usize..200, 1usize..120, 0u8..4, any::<u32>()), 0..8),
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
            prop_assert!(there_and_back(&pixels, width).is_some());
        }
    }
}
