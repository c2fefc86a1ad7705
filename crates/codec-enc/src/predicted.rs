//! Path 9/13: from encoder.rs, for RAW and PFILL; the inverse of codec-dec/predicted.rs, which has
//! the layout.
//! Encodes pixels in reading order as byte operations: the longest run, otherwise the cache,
//! otherwise the shortest difference.
//! Knows 24-bit pixels without a stride; never where the rectangle lies.

use thinc_codec_dec::OPAQUE;
use thinc_codec_dec::context::{Contexts, Key, Neighbours, padding_len, right_step};
use thinc_codec_dec::predicted::{CACHE_LEN, hash, median, op};

/// Pixels that are compared at once if all their neighbours have one colour.
const BLOCK: usize = 16;

/// Encodes pixels as operations; it reuses its memory.
#[derive(Debug, Default)]
pub struct Predictor {
    contexts: Contexts,
    /// One bit per pixel: whether it equals the expected pixel, the previous one, the one above. A
    /// word of zeros follows.
    expected: Vec<u64>,
    left: Vec<u64>,
    above: Vec<u64>,
}

impl Predictor {
    /// Replaces `out` with the operations for `pixels`: rows of `width`, 0xFFRRGGBB, after
    /// `padding_len(width)` black ones.
    pub fn encode(&mut self, pixels: &[u32], width: usize, out: &mut Vec<u8>) {
        self.compare(pixels, width);
        // A local value, so that the buffer's pointer and length stay in registers.
        let mut writer = Writer { bytes: std::mem::take(out), at: 0 };
        let mut cache = [OPAQUE; CACHE_LEN];
        let mut at = padding_len(width);
        while at < pixels.len() {
            writer.make_room();
            let i = at - padding_len(width);
            let (expected, left, above) =
                (ones(&self.expected, i), ones(&self.left, i), ones(&self.above, i));
            let len = expected.max(left).max(above);
            if len > 0 {
                // Of two runs of equal length always the same kind, so that repeated content has
                // equal operations.
                if expected == len {
                    writer.run(len, op::EXPECTED_MAX, op::EXPECTED, op::EXPECTED_LONG);
                } else if left == len {
                    writer.run(len, op::LEFT_MAX, op::LEFT, op::LEFT_LONG);
                } else {
                    writer.run(len, op::ABOVE_MAX, op::ABOVE, op::ABOVE_LONG);
                }
                at += len;
                continue;
            }
            let pixel = pixels[at];
            let slot = hash(pixel);
            if cache[slot] == pixel {
                writer.byte(slot as u8);
            } else {
                cache[slot] = pixel;
                writer.difference(
                    pixel,
                    median(pixels[at - 1], pixels[at - width], pixels[at - width - 1]),
                );
            }
            at += 1;
        }
        *out = writer.bytes;
        out.truncate(writer.at);
    }

    /// Compares each pixel with those that a run could copy. The contexts do not depend on which
    /// run is chosen.
    fn compare(&mut self, pixels: &[u32], width: usize) {
        let start = padding_len(width);
        let area = pixels.len() - start;
        self.contexts.begin(area);
        for bits in [&mut self.expected, &mut self.left, &mut self.above] {
            bits.clear();
            bits.resize(area.div_ceil(64) + 1, 0);
        }
        for i in (0..area).step_by(BLOCK) {
            let at = start + i;
            let len = (area - i).min(BLOCK);
            let (expected, left, above) = if len == BLOCK && is_flat(pixels, at, width) {
                (FLAT, FLAT, FLAT)
            } else {
                self.block(pixels, at, len, width)
            };
            let (word, shift) = (i / 64, i % 64);
            self.expected[word] |= expected << shift;
            self.left[word] |= left << shift;
            self.above[word] |= above << shift;
        }
    }

    fn block(&mut self, pixels: &[u32], start: usize, len: usize, width: usize) -> (u64, u64, u64) {
        let (left, above, flat) = if len == BLOCK {
            masks(pixels, start, width)
        } else {
            let bit = |i: usize, is: bool| u64::from(is) << i;
            (0..len).fold((0, 0, 0), |(left, above, flat), i| {
                let (pixel, around) = (pixels[start + i], Neighbours::at(pixels, start + i, width));
                (
                    left | bit(i, around.left == pixel),
                    above | bit(i, around.above == pixel),
                    flat | bit(i, around.are_flat()),
                )
            })
        };
        // Where the neighbours have one colour, that is expected.
        let mut expected = left & flat;
        let mut others = !flat & ((1 << len) - 1);
        while others != 0 {
            let i = others.trailing_zeros() as usize;
            others &= others - 1;
            let pixel = pixels[start + i];
            let around = Neighbours::at(pixels, start + i, width);
            let key = Key::new(&around);
            let guess = self.contexts.expect(key, &around);
            self.contexts.learn(key, pixel);
            expected |= u64::from(guess == pixel) << i;
        }
        (expected, left, above)
    }
}

/// Which pixels of a whole block equal the previous one, which the one above, and which have four
/// neighbours of one colour, as `Neighbours::are_flat` says: a bit each.
#[inline(always)]
fn masks(pixels: &[u32], start: usize, width: usize) -> (u64, u64, u64) {
    let block = |from: usize| &pixels[from..].as_chunks::<BLOCK>().0[0];
    let (row, left) = (block(start), block(start - 1));
    let (above, corner) = (block(start - width), block(start - width - 1));
    let right = block(start - width + right_step(width));
    let mut masks = [0u32; 3];
    for i in 0..BLOCK {
        let bit = |differs: u32| if differs == 0 { 1u32 << i } else { 0 };
        masks[0] |= bit(left[i] ^ row[i]);
        masks[1] |= bit(above[i] ^ row[i]);
        masks[2] |= bit((left[i] ^ above[i]) | (corner[i] ^ above[i]) | (right[i] ^ above[i]));
    }
    let [left, above, flat] = masks.map(u64::from);
    (left, above, flat)
}

/// Every pixel of a block equals all three candidates.
const FLAT: u64 = (1 << BLOCK) - 1;

/// True if a whole block and all neighbours of its pixels have one colour.
#[inline(always)]
fn is_flat(pixels: &[u32], at: usize, width: usize) -> bool {
    // In narrower rectangles the block would overlap the row above.
    if width <= BLOCK {
        return false;
    }
    let color = pixels[at - 1];
    let (row, _) = pixels[at..].as_chunks::<BLOCK>();
    let (above, beyond) = pixels[at - width..].split_at(BLOCK);
    let other = row[0].iter().zip(above).fold(0, |other, (a, b)| other | (a ^ color) | (b ^ color));
    other | (pixels[at - width - 1] ^ color) | (beyond[0] ^ color) == 0
}

/// Number of consecutive ones from bit `i` on; a zero follows them.
#[inline(always)]
fn ones(bits: &[u64], i: usize) -> usize {
    let (mut word, shift) = (i / 64, i % 64);
    let first = (!(bits[word] >> shift)).trailing_zeros() as usize;
    if first < 64 - shift {
        return first;
    }
    let mut len = 64 - shift;
    word += 1;
    while bits[word] == u64::MAX {
        len += 64;
        word += 1;
    }
    len + (!bits[word]).trailing_zeros() as usize
}

/// Most bytes of an operation: a long run's code and four groups of its length, at most 2^28
/// pixels.
const OPERATION_BYTES_MAX: usize = 5;

struct Writer {
    bytes: Vec<u8>,
    at: usize,
}

impl Writer {
    /// The buffer is extended with zeros before it is written; a page of text needs a fortieth of
    /// the worst case.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.bytes.len() < self.at + OPERATION_BYTES_MAX {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(self.at * 2 + 4096, 0);
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    fn run(&mut self, len: usize, short_max: usize, short: u8, long: u8) {
        if len <= short_max {
            return self.byte(short + (len - 1) as u8);
        }
        self.byte(long);
        let mut value = len - short_max - 1;
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline(always)]
    fn difference(&mut self, pixel: u32, predicted: [u8; 4]) {
        let pixel = pixel.to_le_bytes();
        let [blue, green, red] = [0, 1, 2].map(|i| pixel[i].wrapping_sub(predicted[i]) as i8);
        let (red_more, blue_more) = (red.wrapping_sub(green), blue.wrapping_sub(green));
        let small = |d: i8| (-2..2).contains(&d);
        let near = |d: i8| (-8..8).contains(&d);
        if small(red) && small(green) && small(blue) {
            self.byte(op::SMALL | ((red + 2) << 4 | (green + 2) << 2 | (blue + 2)) as u8);
        } else if (-32..32).contains(&green) && near(red_more) && near(blue_more) {
            self.byte(op::MIDDLE | (green + 32) as u8);
            self.byte(((red_more + 8) as u8) << 4 | (blue_more + 8) as u8);
        } else {
            self.byte(op::FULL);
            self.byte(green as u8);
            self.byte(red_more as u8);
            self.byte(blue_more as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_counted_to_the_first_zero() {
        for start in 0..200 {
            for len in 0..200 {
                let mut bits = vec![0u64; 8];
                (start..start + len).for_each(|i| bits[i / 64] |= 1 << (i % 64));
                assert_eq!(ones(&bits, start), len, "{len} from {start}");
                bits[(start + len + 1) / 64] |= 1 << ((start + len + 1) % 64);
                assert_eq!(ones(&bits, start), len, "{len} from {start}, and more after a zero");
            }
        }
    }

    #[test]
    fn the_masks_of_a_block_are_those_of_its_pixels() {
        // Two colours in runs, so that each mask has bits of both kinds.
        let pixel = |i: usize| OPAQUE | [0, 0xff_ffff][(i / 7 * i / 5) % 3 % 2];
        for width in [1, 2, 15, 16, 17, 50] {
            let pixels: Vec<u32> = (0..padding_len(width) + 700).map(pixel).collect();
            let mut seen = [0u64; 3];
            for start in padding_len(width)..pixels.len() - BLOCK {
                let (left, above, flat) = masks(&pixels, start, width);
                for i in 0..BLOCK {
                    let around = Neighbours::at(&pixels, start + i, width);
                    let is = [around.left, around.above].map(|other| other == pixels[start + i]);
                    let wanted = [is[0], is[1], around.are_flat()];
                    let found = [left, above, flat].map(|mask| mask >> i & 1 == 1);
                    assert_eq!(found, wanted, "pixel {i} of the block at {start}, width {width}");
                    seen.iter_mut().zip(found).for_each(|(seen, is)| *seen |= 1 << u64::from(is));
                }
            }
            assert_eq!(seen, [3; 3], "width {width}: every mask has ones and zeros");
        }
    }

    /// A second equal line of text is expected, except where its glyphs begin.
    #[test]
    fn repeated_lines_are_cheap() {
        let (width, height) = (200, 60);
        // Shades as in antialiased glyphs.
        let glyph = |x: usize, y: usize| ((x * 7 + y * 13 + x * y) % 11 * 23) as u32 * 0x01_0101;
        let page = |lines: usize| {
            let mut pixels = vec![OPAQUE; padding_len(width)];
            pixels.extend((0..width * height).map(|i| {
                let (x, y) = (i % width, i / width);
                let inked = y / 12 < lines && x % 9 < 7 && y % 12 < 9;
                OPAQUE | if inked { glyph(x % 9, y % 12) } else { 0xff_ffff }
            }));
            pixels
        };
        let len = |lines| {
            let mut out = Vec::new();
            Predictor::default().encode(&page(lines), width, &mut out);
            out.len()
        };
        let (one, two, five) = (len(1), len(2), len(5));
        assert!(one > 60, "{one} bytes");
        assert!((two - one) * 2 < one, "{one} bytes for a line, {two} for two");
        assert!(five - two <= (two - one) * 3 + 10, "{two} bytes for two lines, {five} for five");
    }
}
