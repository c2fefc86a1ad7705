//! Path 12/13: beside framebuffer.rs, to statistics and overlays.
//! Which pixels of the framebuffer are not lossless yet, one bit each, so that the set is exact and
//! bounded. Knows rectangles of the framebuffer; never pixels, nor when their refresh will arrive.

use std::ops::Range;

use thinc_region::{Rect, Region, Size};

/// 1024: most rectangles that a shell is given to draw; more would not be readable on the screen.
const RECTS_MAX: usize = 1024;
/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// The pixels that were written lossy and not replaced losslessly since, and those that no update
/// has written since the last geometry.
///
/// A bounded list of rectangles would have to be rounded up at its bound and might then never
/// become empty: the session refreshes only the pixels that are really lossy. Bits need no bound:
/// 260 KB at 1920 × 1080, allocated at the first lossy pixel.
#[derive(Clone, Debug, Default)]
pub struct LossyMask {
    size: Size,
    /// Rows of `row_len` words, leftmost pixel in the lowest bit; empty before the first lossy
    /// pixel.
    bits: Vec<u64>,
    row_len: usize,
    pixels: u64,
    /// Scratch: the bits of a row that is copied.
    copied_row: Vec<u64>,
}

impl LossyMask {
    /// A mask for a framebuffer of this size without lossy pixels.
    pub fn new(size: Size) -> LossyMask {
        LossyMask { size, row_len: (size.width as usize).div_ceil(BITS), ..LossyMask::default() }
    }

    /// Count of lossy pixels.
    pub const fn pixels(&self) -> u64 {
        self.pixels
    }

    /// True if every pixel is lossless.
    pub const fn is_empty(&self) -> bool {
        self.pixels == 0
    }

    /// True if this pixel is lossy.
    pub fn contains(&self, x: usize, y: usize) -> bool {
        self.pixels > 0 && self.bits[y * self.row_len + x / BITS] >> (x % BITS) & 1 == 1
    }

    /// True if the rectangle, inside the framebuffer, has a lossy pixel.
    pub fn overlaps(&self, rect: &Rect) -> bool {
        let (at, columns) = (self.row_len, columns(rect));
        self.pixels > 0
            && rows(rect)
                .any(|y| masks(&columns).any(|(word, mask)| self.bits[y * at + word] & mask != 0))
    }

    /// At most 1024 rectangles that cover all lossy pixels, to be shown to a person; the bound is
    /// why they may also cover lossless pixels.
    pub fn region(&self) -> Region {
        let mut region = Region::new();
        if self.pixels == 0 {
            return region;
        }
        for (y, row) in (0..).zip(self.bits.chunks_exact(self.row_len)) {
            let runs = Runs { row, at: 0 }
                .map(|run| Rect::new(run.start as i32, y, run.end as i32, y + 1))
                .collect();
            region.add(
                &Region::from_banded(runs).expect("runs come from left to right and do not touch"),
            );
            if region.rect_count() > 2 * RECTS_MAX {
                region = region.simplified(RECTS_MAX);
            }
        }
        region.simplified(RECTS_MAX)
    }

    /// Marks the rectangle lossy.
    pub fn add(&mut self, rect: &Rect) {
        if self.bits.is_empty() {
            self.bits.resize(self.row_len * self.size.height as usize, 0);
        }
        let columns = columns(rect);
        for y in rows(rect) {
            for (word, mask) in masks(&columns) {
                let bits = &mut self.bits[y * self.row_len + word];
                self.pixels += u64::from((mask & !*bits).count_ones());
                *bits |= mask;
            }
        }
    }

    /// Marks the rectangle lossless.
    pub(crate) fn subtract(&mut self, rect: &Rect) {
        if self.pixels == 0 {
            return;
        }
        let columns = columns(rect);
        for y in rows(rect) {
            for (word, mask) in masks(&columns) {
                let bits = &mut self.bits[y * self.row_len + word];
                self.pixels -= u64::from((mask & *bits).count_ones());
                *bits &= !mask;
            }
        }
    }

    /// A COPY wrote the region from (-dx, -dy): copies the source's bits.
    pub(crate) fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        if self.pixels == 0 {
            return;
        }
        for rect in region.copy_order(dx, dy) {
            for i in 0..rect.height() {
                let y = if dy > 0 { rect.y2 - 1 - i } else { rect.y1 + i };
                self.copy_row(&columns(&rect), y as usize, (y - dy) as usize, dx);
            }
        }
    }

    /// Copies one row. Source and destination may be the same row, so all words are read before any
    /// is written.
    fn copy_row(&mut self, columns: &Range<usize>, to: usize, from: usize, dx: i32) {
        let source = &self.bits[from * self.row_len..][..self.row_len];
        self.copied_row.clear();
        self.copied_row.extend(
            masks(columns).map(|(word, _)| word_at(source, (word * BITS) as i64 - i64::from(dx))),
        );
        let target = &mut self.bits[to * self.row_len..][..self.row_len];
        for ((word, mask), moved) in masks(columns).zip(&self.copied_row) {
            let bits = (target[word] & !mask) | (moved & mask);
            self.pixels =
                self.pixels + u64::from(bits.count_ones()) - u64::from(target[word].count_ones());
            target[word] = bits;
        }
    }
}

fn columns(rect: &Rect) -> Range<usize> {
    rect.x1 as usize..rect.x2 as usize
}

fn rows(rect: &Rect) -> Range<usize> {
    rect.y1 as usize..rect.y2 as usize
}

/// Indices of the words that hold these columns, each with the mask of its bits.
fn masks(columns: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *columns;
    (start / BITS..end.div_ceil(BITS)).map(move |word| {
        let first = start.saturating_sub(word * BITS);
        let beyond = ((word + 1) * BITS).saturating_sub(end);
        (word, (u64::MAX << first) & (u64::MAX >> beyond))
    })
}

/// The bits of 64 columns from column `at` on; 0 beyond the row.
fn word_at(row: &[u64], at: i64) -> u64 {
    let word = |index: i64| {
        usize::try_from(index).ok().and_then(|index| row.get(index)).copied().unwrap_or(0)
    };
    let (index, shift) = (at.div_euclid(BITS as i64), at.rem_euclid(BITS as i64));
    match shift {
        0 => word(index),
        shift => word(index) >> shift | word(index + 1) << (BITS as i64 - shift),
    }
}

/// Runs of lossy pixels, from left to right.
struct Runs<'a> {
    row: &'a [u64],
    at: usize,
}

impl Runs<'_> {
    /// The first column from `at` on whose bit equals `lossy`, or the row's end.
    fn edge(&self, lossy: bool) -> usize {
        let mut at = self.at;
        while let Some(&word) = self.row.get(at / BITS) {
            let rest = if lossy { word } else { !word } >> (at % BITS);
            if rest != 0 {
                return at + rest.trailing_zeros() as usize;
            }
            at = (at / BITS + 1) * BITS;
        }
        at
    }
}

impl Iterator for Runs<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.edge(true);
        self.at = start;
        self.at = self.edge(false);
        (start < self.at).then_some(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: Size = Size { width: 150, height: 12 };

    #[derive(Clone, Debug)]
    enum Op {
        Add(Rect),
        Subtract(Rect),
        Copy(Vec<Rect>, i32, i32),
    }

    fn rect() -> impl Strategy<Value = Rect> {
        let (width, height) = (SIZE.width as i32, SIZE.height as i32);
        (0..width, 0..height).prop_flat_map(move |(x, y)| {
            (1..=width - x, 1..=height - y).prop_map(move |(w, h)| Rect::at(x, y, w, h))
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            rect().prop_map(Op::Add),
            rect().prop_map(Op::Subtract),
            (proptest::collection::vec(rect(), 1..4), -140i32..140, -9i32..9)
                .prop_map(|(r, dx, dy)| Op::Copy(r, dx, dy)),
        ]
    }

    fn points(region: &Region) -> impl Iterator<Item = (usize, usize)> {
        region
            .rects()
            .iter()
            .flat_map(|rect| rows(rect).flat_map(|y| columns(rect).map(move |x| (x, y))))
    }

    proptest! {
        #[test]
        fn the_mask_equals_a_set_of_pixels(ops in proptest::collection::vec(op(), 1..30)) {
            let mut lossy = LossyMask::new(SIZE);
            let at = |(x, y): (usize, usize)| y * SIZE.width as usize + x;
            let mut mask = vec![false; SIZE.area() as usize];
            for op in ops {
                match op {
                    Op::Add(rect) => {
                        lossy.add(&rect);
                        points(&rect.into()).for_each(|point| mask[at(point)] = true);
                    }
                    Op::Subtract(rect) => {
                        lossy.subtract(&rect);
                        points(&rect.into()).for_each(|point| mask[at(point)] = false);
                    }
                    Op::Copy(rects, dx, dy) => {
                        let mut region: Region = rects.into_iter().collect();
                        region.intersect_rect(&SIZE.rect().translate(dx, dy));
                        lossy.copy(&region, dx, dy);
                        let before = mask.clone();
                        for (x, y) in points(&region) {
                            let from = ((x as i32 - dx) as usize, (y as i32 - dy) as usize);
                            mask[at((x, y))] = before[at(from)];
                        }
                    }
                }
                prop_assert_eq!(lossy.pixels(), mask.iter().filter(|&&is| is).count() as u64);
                prop_assert_eq!(lossy.is_empty(), !mask.contains(&true));
            }
            let region = lossy.region();
            region.check_invariants();
            prop_assert_eq!(region.area(), lossy.pixels(), "few rectangles are exact");
            for (x, y) in points(&SIZE.rect().into()) {
                prop_assert_eq!(lossy.contains(x, y), mask[at((x, y))]);
                prop_assert_eq!(region.contains_point(x as i32, y as i32), mask[at((x, y))]);
                let pixel = Rect::at(x as i32, y as i32, 1, 1);
                prop_assert_eq!(lossy.overlaps(&pixel), mask[at((x, y))]);
            }
        }
    }

    #[test]
    fn too_many_rectangles_are_simplified_but_counted_exactly() {
        let size = Size { width: 300, height: 200 };
        let mut lossy = LossyMask::new(size);
        for (x, y) in points(&size.rect().into()).filter(|(x, y)| (x + y) % 2 == 0) {
            lossy.add(&Rect::at(x as i32, y as i32, 1, 1));
        }
        assert_eq!(lossy.pixels(), size.area() / 2);
        let region = lossy.region();
        assert!(region.rect_count() <= RECTS_MAX);
        assert!(
            points(&size.rect().into())
                .all(|(x, y)| !lossy.contains(x, y) || region.contains_point(x as i32, y as i32))
        );
        lossy.subtract(&size.rect());
        assert!(lossy.is_empty() && lossy.region().is_empty());
    }
}
