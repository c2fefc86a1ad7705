//! Path 12/13: beside framebuffer.rs, to statistics and overlays.
//! Which pixels are only nearly what X shows: a bit for each, so that no bound ever has to round, in neither direction.
//! Knows rectangles of the screen; never pixels, nor when the exact ones will come.

use std::ops::Range;

use thinc_region::{Rect, Region, Size};

/// 1024: rectangles that a shell is given to draw; what has more is a picture that nobody could read.
const RECTS_MAX: usize = 1024;
/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// The pixels that were shown lossy and not written exactly since.
///
/// Rectangles would have to be bounded, and a set rounded up at its bound would never become empty again: the session
/// sends exactly what it knows to be inexact, and no more. Bits cannot grow: 260 KB at 1920 × 1080, and none before the
/// first lossy pixel.
#[derive(Clone, Debug, Default)]
pub struct Inexact {
    size: Size,
    /// Rows of `row_len` words, the first pixel lowest; none before the first inexact pixel.
    bits: Vec<u64>,
    row_len: usize,
    pixels: u64,
    /// A row on its way to another place.
    moving: Vec<u64>,
}

impl Inexact {
    /// All of a screen of this size is exact.
    pub fn new(size: Size) -> Inexact {
        Inexact { size, row_len: (size.width as usize).div_ceil(BITS), ..Inexact::default() }
    }

    /// How many pixels are not exact.
    pub const fn pixels(&self) -> u64 {
        self.pixels
    }

    /// True when every pixel is exact.
    pub const fn is_empty(&self) -> bool {
        self.pixels == 0
    }

    /// True when this pixel of the screen is not exact.
    pub fn contains(&self, x: usize, y: usize) -> bool {
        self.pixels > 0 && self.bits[y * self.row_len + x / BITS] >> (x % BITS) & 1 == 1
    }

    /// True when some pixel of a rectangle of the screen is not exact.
    pub fn overlaps(&self, rect: &Rect) -> bool {
        let (at, columns) = (self.row_len, columns(rect));
        self.pixels > 0 && rows(rect).any(|y| masks(&columns).any(|(word, mask)| self.bits[y * at + word] & mask != 0))
    }

    /// Rectangles that hold all that is not exact, for a person to see: at most 1024, which is why they may hold exact
    /// pixels too.
    pub fn region(&self) -> Region {
        let mut region = Region::new();
        if self.pixels == 0 {
            return region;
        }
        for (y, row) in (0..).zip(self.bits.chunks_exact(self.row_len)) {
            let runs = Runs { row, at: 0 }.map(|run| Rect::new(run.start as i32, y, run.end as i32, y + 1)).collect();
            region.add(&Region::from_banded(runs).expect("runs come from left to right and do not touch"));
            if region.rect_count() > 2 * RECTS_MAX {
                region = region.simplified(RECTS_MAX);
            }
        }
        region.simplified(RECTS_MAX)
    }

    /// Lossy pixels were written.
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

    /// Exact pixels were written.
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

    /// Pixels were moved by (dx, dy) into the region, and what was known of them goes with them.
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

    /// One row of a COPY; source and destination may be the same row, so all is read before any is written.
    fn copy_row(&mut self, columns: &Range<usize>, to: usize, from: usize, dx: i32) {
        let source = &self.bits[from * self.row_len..][..self.row_len];
        self.moving.clear();
        self.moving.extend(masks(columns).map(|(word, _)| word_at(source, (word * BITS) as i64 - i64::from(dx))));
        let target = &mut self.bits[to * self.row_len..][..self.row_len];
        for ((word, mask), moved) in masks(columns).zip(&self.moving) {
            let bits = (target[word] & !mask) | (moved & mask);
            self.pixels = self.pixels + u64::from(bits.count_ones()) - u64::from(target[word].count_ones());
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

/// The words that hold these columns, and which of their bits do.
fn masks(columns: &Range<usize>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *columns;
    (start / BITS..end.div_ceil(BITS)).map(move |word| {
        let first = start.saturating_sub(word * BITS);
        let beyond = ((word + 1) * BITS).saturating_sub(end);
        (word, (u64::MAX << first) & (u64::MAX >> beyond))
    })
}

/// The 64 pixels from column `at` on; those beyond the row are exact.
fn word_at(row: &[u64], at: i64) -> u64 {
    let word = |index: i64| usize::try_from(index).ok().and_then(|index| row.get(index)).copied().unwrap_or(0);
    let (index, shift) = (at.div_euclid(BITS as i64), at.rem_euclid(BITS as i64));
    match shift {
        0 => word(index),
        shift => word(index) >> shift | word(index + 1) << (BITS as i64 - shift),
    }
}

/// Stretches of pixels that are not exact, from left to right.
struct Runs<'a> {
    row: &'a [u64],
    at: usize,
}

impl Runs<'_> {
    /// The first column from `at` on whose bit is `inexact`, or the row's end.
    fn edge(&self, inexact: bool) -> usize {
        let mut at = self.at;
        while let Some(&word) = self.row.get(at / BITS) {
            let rest = if inexact { word } else { !word } >> (at % BITS);
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
        (0..width, 0..height)
            .prop_flat_map(move |(x, y)| (1..=width - x, 1..=height - y).prop_map(move |(w, h)| Rect::at(x, y, w, h)))
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
        region.rects().iter().flat_map(|rect| rows(rect).flat_map(|y| columns(rect).map(move |x| (x, y))))
    }

    proptest! {
        #[test]
        fn bits_are_a_set_of_pixels(ops in proptest::collection::vec(op(), 1..30)) {
            let mut inexact = Inexact::new(SIZE);
            let at = |(x, y): (usize, usize)| y * SIZE.width as usize + x;
            let mut mask = vec![false; SIZE.area() as usize];
            for op in ops {
                match op {
                    Op::Add(rect) => {
                        inexact.add(&rect);
                        points(&rect.into()).for_each(|point| mask[at(point)] = true);
                    }
                    Op::Subtract(rect) => {
                        inexact.subtract(&rect);
                        points(&rect.into()).for_each(|point| mask[at(point)] = false);
                    }
                    Op::Copy(rects, dx, dy) => {
                        let mut region: Region = rects.into_iter().collect();
                        region.intersect_rect(&SIZE.rect().translate(dx, dy));
                        inexact.copy(&region, dx, dy);
                        let before = mask.clone();
                        for (x, y) in points(&region) {
                            mask[at((x, y))] = before[at(((x as i32 - dx) as usize, (y as i32 - dy) as usize))];
                        }
                    }
                }
                prop_assert_eq!(inexact.pixels(), mask.iter().filter(|&&is| is).count() as u64);
                prop_assert_eq!(inexact.is_empty(), !mask.contains(&true));
            }
            let region = inexact.region();
            region.check_invariants();
            prop_assert_eq!(region.area(), inexact.pixels(), "few rectangles are told as they are");
            for (x, y) in points(&SIZE.rect().into()) {
                prop_assert_eq!(inexact.contains(x, y), mask[at((x, y))]);
                prop_assert_eq!(region.contains_point(x as i32, y as i32), mask[at((x, y))]);
                prop_assert_eq!(inexact.overlaps(&Rect::at(x as i32, y as i32, 1, 1)), mask[at((x, y))]);
            }
        }
    }

    #[test]
    fn what_has_too_many_rectangles_is_told_more_coarsely_and_counted_exactly() {
        let size = Size { width: 300, height: 200 };
        let mut inexact = Inexact::new(size);
        for (x, y) in points(&size.rect().into()).filter(|(x, y)| (x + y) % 2 == 0) {
            inexact.add(&Rect::at(x as i32, y as i32, 1, 1));
        }
        assert_eq!(inexact.pixels(), size.area() / 2);
        let region = inexact.region();
        assert!(region.rect_count() <= RECTS_MAX);
        assert!(
            points(&size.rect().into())
                .all(|(x, y)| !inexact.contains(x, y) || region.contains_point(x as i32, y as i32))
        );
        inexact.subtract(&size.rect());
        assert!(inexact.is_empty() && inexact.region().is_empty());
    }
}
