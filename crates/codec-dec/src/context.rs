//! Path 9/13 and 11/13: rules that codec-enc/predicted.rs and predicted.rs share.
//! What a pixel is expected to be: whatever came last amid the same neighbours, first of six, then of three.
//! Knows pixels in reading order; never operations. Both sides learn from the same pixels, so nothing of it is sent.

use crate::{OPAQUE, RGB};

/// 2^16 entries a table: more than a dense page has contexts; two tables are half a MiB.
const TABLE_BITS_MAX: u32 = 16;
/// 2^8: clearing it costs less than a glyph's pixels.
const TABLE_BITS_MIN: u32 = 8;

/// Black pixels before the first, so that every pixel has neighbours.
pub const fn lead(width: usize) -> usize {
    2 * width + 2
}

/// The pixels around one, of those before it in reading order: over row ends, so that `left` of a row's first pixel is
/// the last of the row before.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours {
    /// One to the left.
    pub left: u32,
    /// Two to the left.
    pub second: u32,
    /// One row up.
    pub above: u32,
    /// Left of `above`.
    pub corner: u32,
    /// Right of `above`; `above` itself where rows are one pixel wide.
    pub right: u32,
    /// Two rows up.
    pub higher: u32,
}

impl Neighbours {
    /// Those of the pixel at `at`, which counts the `lead`.
    #[inline(always)]
    pub fn at(pixels: &[u32], at: usize, width: usize) -> Neighbours {
        Neighbours {
            left: pixels[at - 1],
            second: pixels[at - 2],
            above: pixels[at - width],
            corner: pixels[at - width - 1],
            right: pixels[at - width + right_step(width)],
            higher: pixels[at - 2 * width],
        }
    }

    /// Four of one colour: such places are most of a screen, and not worth an entry.
    #[inline(always)]
    pub fn are_flat(&self) -> bool {
        (self.left ^ self.above) | (self.corner ^ self.above) | (self.right ^ self.above) == 0
    }

    /// The next pixel's, `right` and `higher` apart, once this one is known.
    #[inline(always)]
    pub(crate) fn step(&mut self, pixel: u32) {
        (self.second, self.left, self.corner, self.above) = (self.left, pixel, self.above, self.right);
    }
}

/// From `above` to `right`.
#[inline(always)]
pub(crate) const fn right_step(width: usize) -> usize {
    (width > 1) as usize
}

/// Where a pixel's neighbours lead: a hash of three of them, and of all six.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    near: u32,
    wide: u32,
}

impl Key {
    /// Multiplications are apart from each other, so that only one waits for the pixel on the left.
    #[inline(always)]
    pub fn new(around: &Neighbours) -> Key {
        let near = around
            .above
            .wrapping_mul(0x85eb_ca6b)
            .wrapping_add(around.corner.wrapping_mul(0xc2b2_ae35))
            .wrapping_add(around.left.wrapping_mul(0x9e37_79b1));
        let more = around
            .right
            .wrapping_mul(0x27d4_eb2f)
            .wrapping_add(around.second.wrapping_mul(0x1656_67b1))
            .wrapping_add(around.higher.wrapping_mul(0xd3a2_646d));
        Key { near, wide: near.wrapping_add(more) }
    }
}

/// What was seen in one rectangle.
///
/// An entry is a pixel's 24 bits and, above them, 8 of the hash that did not choose the place.
#[derive(Debug, Default)]
pub struct Contexts {
    near: Vec<u32>,
    wide: Vec<u32>,
    shift: u32,
}

impl Contexts {
    /// Forgets all, and takes tables that suit `area` pixels.
    pub fn begin(&mut self, area: usize) {
        let bits = (usize::BITS - area.saturating_sub(1).leading_zeros()).clamp(TABLE_BITS_MIN, TABLE_BITS_MAX);
        self.shift = 32 - bits;
        for table in [&mut self.near, &mut self.wide] {
            table.clear();
            table.resize(1 << bits, 0);
        }
    }

    /// What the pixel should be, if it is like those seen before.
    #[inline(always)]
    pub fn expect(&self, key: Key, around: &Neighbours) -> u32 {
        let wide = self.wide[self.place(key.wide, self.wide.len())];
        let near = self.near[self.place(key.near, self.near.len())];
        let found = if wide >> 24 == self.tag(key.wide) {
            wide
        } else if near >> 24 == self.tag(key.near) {
            near
        } else if around.left == around.corner {
            around.above
        } else {
            around.left
        };
        found | OPAQUE
    }

    /// Remembers the pixel that was there.
    #[inline(always)]
    pub fn learn(&mut self, key: Key, pixel: u32) {
        let (wide, near) = (self.place(key.wide, self.wide.len()), self.place(key.near, self.near.len()));
        self.wide[wide] = self.tag(key.wide) << 24 | pixel & RGB;
        self.near[near] = self.tag(key.near) << 24 | pixel & RGB;
    }

    #[inline(always)]
    fn place(&self, hash: u32, len: usize) -> usize {
        (hash >> self.shift) as usize & (len - 1)
    }

    #[inline(always)]
    fn tag(&self, hash: u32) -> u32 {
        hash >> (self.shift - 8) & 0xff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pixel_amid_the_same_six_is_expected_then_of_the_same_three() {
        let mut contexts = Contexts::default();
        contexts.begin(4096);
        let pixel = |value: u32| OPAQUE | value;
        let around = |left: u32, right: u32| Neighbours {
            left: pixel(left),
            second: pixel(9),
            above: pixel(2),
            corner: pixel(3),
            right: pixel(right),
            higher: pixel(5),
        };
        let expected = |contexts: &Contexts, around: &Neighbours| contexts.expect(Key::new(around), around);
        let (first, other) = (around(1, 4), around(1, 6));
        assert_eq!(expected(&contexts, &first), first.left, "nothing was seen");
        let like_a_row = around(3, 4);
        assert_eq!(expected(&contexts, &like_a_row), like_a_row.above, "the row above repeats from its corner on");
        contexts.learn(Key::new(&first), pixel(0x12_3456));
        assert_eq!(expected(&contexts, &first), pixel(0x12_3456));
        assert_eq!(expected(&contexts, &other), pixel(0x12_3456), "three of six are the same");
        contexts.learn(Key::new(&other), pixel(7));
        assert_eq!(expected(&contexts, &first), pixel(0x12_3456));
        assert_eq!(expected(&contexts, &other), pixel(7));
        contexts.begin(4096);
        assert_eq!(expected(&contexts, &first), first.left, "all is forgotten");
    }

    #[test]
    fn tables_grow_with_the_rectangle_and_no_further() {
        let mut contexts = Contexts::default();
        for (area, len) in [(0, 1 << 8), (1, 1 << 8), (257, 1 << 9), (1 << 16, 1 << 16), (1 << 26, 1 << 16)] {
            contexts.begin(area);
            assert_eq!((contexts.near.len(), contexts.wide.len()), (len, len), "{area} pixels");
        }
    }
}
