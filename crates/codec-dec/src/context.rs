//! Path 9/13 and 11/13: contexts, shared by codec-enc/predicted.rs and predicted.rs.
//! The expected pixel is the last one that had the same neighbours: the same six, otherwise the
//! same three. Both ends update their tables from the same pixels, so nothing of them is sent.
//! Knows pixels in reading order; never operations.

use crate::{OPAQUE, RGB};

/// 2^16 entries per table: more than the contexts of a dense page; two tables take half a MiB.
const TABLE_BITS_MAX: u32 = 16;
/// 2^8: clearing it costs less than coding a glyph's pixels.
const TABLE_BITS_MIN: u32 = 8;

/// Number of black pixels before the first, so that every pixel has neighbours.
pub const fn padding_len(width: usize) -> usize {
    2 * width + 2
}

/// The neighbours of a pixel among those before it in reading order. They continue across row ends:
/// `left` of a row's first pixel is the last pixel of the previous row.
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
    /// Right of `above`; `above` itself if rows are one pixel wide.
    pub right: u32,
    /// Two rows up.
    pub higher: u32,
}

impl Neighbours {
    /// The neighbours of the pixel at index `at`, which includes the padding.
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

    /// True if four of them have one colour: that is most of a screen, and not worth an entry.
    #[inline(always)]
    pub fn are_flat(&self) -> bool {
        (self.left ^ self.above) | (self.corner ^ self.above) | (self.right ^ self.above) == 0
    }

    /// Advances to the next pixel, except for `right` and `higher`, after this one is known.
    #[inline(always)]
    pub(crate) fn step(&mut self, pixel: u32) {
        (self.second, self.left, self.corner, self.above) =
            (self.left, pixel, self.above, self.right);
    }
}

/// Offset from `above` to `right`.
#[inline(always)]
pub const fn right_step(width: usize) -> usize {
    (width > 1) as usize
}

/// Hashes of a pixel's neighbours: of three of them, and of all six.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    near: u32,
    wide: u32,
}

impl Key {
    /// The multiplications are independent, so that only one depends on the previous pixel.
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

/// The contexts of one rectangle.
///
/// An entry has a pixel's 24 bits and, above them, a tag of 8 bits of the hash that did not select
/// it.
#[derive(Debug, Default)]
pub struct Contexts {
    near: Vec<u32>,
    wide: Vec<u32>,
    shift: u32,
}

impl Contexts {
    /// Clears the tables, and sizes them for `area` pixels.
    pub fn begin(&mut self, area: usize) {
        let bits = (usize::BITS - area.saturating_sub(1).leading_zeros())
            .clamp(TABLE_BITS_MIN, TABLE_BITS_MAX);
        self.shift = 32 - bits;
        for table in [&mut self.near, &mut self.wide] {
            table.clear();
            table.resize(1 << bits, 0);
        }
    }

    /// The expected pixel.
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

    /// Enters the actual pixel.
    #[inline(always)]
    pub fn learn(&mut self, key: Key, pixel: u32) {
        let (wide, near) =
            (self.place(key.wide, self.wide.len()), self.place(key.near, self.near.len()));
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
    fn the_last_pixel_with_the_same_six_neighbours_is_expected_then_with_three() {
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
        let expected =
            |contexts: &Contexts, around: &Neighbours| contexts.expect(Key::new(around), around);
        let (first, other) = (around(1, 4), around(1, 6));
        assert_eq!(expected(&contexts, &first), first.left, "the tables are empty");
        let like_a_row = around(3, 4);
        assert_eq!(
            expected(&contexts, &like_a_row),
            like_a_row.above,
            "the row above repeats from its corner on"
        );
        contexts.learn(Key::new(&first), pixel(0x12_3456));
        assert_eq!(expected(&contexts, &first), pixel(0x12_3456));
        assert_eq!(
            expected(&contexts, &other),
            pixel(0x12_3456),
            "three of six neighbours are the same"
        );
        contexts.learn(Key::new(&other), pixel(7));
        assert_eq!(expected(&contexts, &first), pixel(0x12_3456));
        assert_eq!(expected(&contexts, &other), pixel(7));
        contexts.begin(4096);
        assert_eq!(expected(&contexts, &first), first.left, "the tables are cleared");
    }

    #[test]
    fn the_size_of_the_tables_depends_on_the_rectangle_and_is_bounded() {
        let mut contexts = Contexts::default();
        for (area, len) in
            [(0, 1 << 8), (1, 1 << 8), (257, 1 << 9), (1 << 16, 1 << 16), (1 << 26, 1 << 16)]
        {
            contexts.begin(area);
            assert_eq!((contexts.near.len(), contexts.wide.len()), (len, len), "{area} pixels");
        }
    }
}
