//! A set of pixels as banded rectangles: sorted, disjoint, and with a unique form for each set, as
//! in X. A pixel-mask oracle in the tests defines each operation.
//! Knows only rectangles. The owner bounds their number (`rect_count`, `simplified`).

use crate::Rect;

/// A set of pixels.
///
/// The rectangles form bands: all rectangles of a band share `y1` and `y2`, are sorted by `x1` and
/// do not touch; bands are sorted and do not overlap; adjacent bands with the same spans are one
/// band. So equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    rects: Vec<Rect>,
}

impl From<Rect> for Region {
    fn from(rect: Rect) -> Region {
        let mut region = Region::new();
        if !rect.is_empty() {
            region.rects.push(rect);
        }
        region
    }
}

impl FromIterator<Rect> for Region {
    fn from_iter<I: IntoIterator<Item = Rect>>(iter: I) -> Region {
        let mut region = Region::new();
        for rect in iter {
            region.add_rect(rect);
        }
        region
    }
}

impl Region {
    /// The empty set; allocates nothing.
    pub const fn new() -> Region {
        Region { rects: Vec::new() }
    }

    /// The set of these rectangles if they form bands that do not overlap, in the order of
    /// `rects()`; rectangles and bands that touch are joined. `None` for any other order, because
    /// rectangles from the network are checked.
    pub fn from_banded(rects: Vec<Rect>) -> Option<Region> {
        let banded = rects.iter().all(|r| !r.is_empty())
            && rects.windows(2).all(|pair| {
                let (a, b) = (pair[0], pair[1]);
                (a.y1 == b.y1 && a.y2 == b.y2 && a.x2 <= b.x1) || a.y2 <= b.y1
            });
        if !banded {
            return None;
        }
        let mut out: Vec<Rect> = Vec::with_capacity(rects.len());
        let mut band_before = 0..0;
        for band in rects.chunk_by(|a, b| a.y1 == b.y1) {
            let start = out.len();
            for rect in band {
                match out[start..].last_mut() {
                    Some(last) if last.x2 == rect.x1 => last.x2 = rect.x2,
                    _ => out.push(*rect),
                }
            }
            band_before = join_band(&mut out, band_before, start);
        }
        Some(Region { rects: out })
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.rects.is_empty()
    }

    /// The rectangles, top to bottom and left to right.
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Number of rectangles.
    pub fn rect_count(&self) -> usize {
        self.rects.len()
    }

    /// Number of pixels.
    pub fn area(&self) -> u64 {
        self.rects.iter().map(Rect::area).sum()
    }

    /// The smallest rectangle that contains the set; empty for an empty set.
    pub fn extents(&self) -> Rect {
        let (Some(first), Some(last)) = (self.rects.first(), self.rects.last()) else {
            return Rect::default();
        };
        let mut extents = Rect::new(first.x1, first.y1, first.x2, last.y2);
        for rect in &self.rects {
            extents.x1 = extents.x1.min(rect.x1);
            extents.x2 = extents.x2.max(rect.x2);
        }
        extents
    }

    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.rects.clear();
    }

    /// Takes the set out and leaves the empty set.
    pub fn take(&mut self) -> Region {
        std::mem::take(self)
    }

    /// True if the pixel is in the set.
    pub fn contains_point(&self, x: i32, y: i32) -> bool {
        self.band_at_or_below(y).iter().take_while(|r| r.y1 <= y).any(|r| r.contains_point(x, y))
    }

    /// True if every pixel of `rect` is in the set.
    pub fn contains_rect(&self, rect: &Rect) -> bool {
        if rect.is_empty() {
            return true;
        }
        let mut y = rect.y1;
        for r in self.band_at_or_below(rect.y1) {
            if r.y1 > y {
                return false;
            }
            if r.x1 <= rect.x1 && rect.x2 <= r.x2 && r.y2 > y {
                y = r.y2;
                if y >= rect.y2 {
                    return true;
                }
            }
        }
        false
    }

    /// True if some pixel of `rect` is in the set.
    pub fn overlaps_rect(&self, rect: &Rect) -> bool {
        !rect.is_empty()
            && self
                .band_at_or_below(rect.y1)
                .iter()
                .take_while(|r| r.y1 < rect.y2)
                .any(|r| r.overlaps(rect))
    }

    /// True if both sets have a pixel in common.
    pub fn overlaps(&self, other: &Region) -> bool {
        let (few, many) =
            if self.rects.len() < other.rects.len() { (self, other) } else { (other, self) };
        few.rects.iter().any(|r| many.overlaps_rect(r))
    }

    /// The rectangles from the first band that ends below `y`.
    fn band_at_or_below(&self, y: i32) -> &[Rect] {
        &self.rects[self.rects.partition_point(|r| r.y2 <= y)..]
    }

    /// Adds the pixels of `rect`.
    pub fn add_rect(&mut self, rect: Rect) {
        if rect.is_empty() {
            return;
        }
        match self.rects.last_mut() {
            None => return self.rects.push(rect),
            // Below the whole set, and not adjacent to the last band: the usual order of a repaint.
            Some(last) if last.y2 < rect.y1 => return self.rects.push(rect),
            Some(last) if last.contains(&rect) => return,
            Some(_) => {}
        }
        if self.extend_last(&rect) {
            return;
        }
        if self.contains_rect(&rect) {
            return;
        }
        self.combine_within(&[rect], |a, b| a | b);
    }

    /// Extends the last rectangle to the right or down if that keeps the bands, as for consecutive
    /// glyphs and fills.
    fn extend_last(&mut self, rect: &Rect) -> bool {
        let above = self.rects.len().checked_sub(2).map(|i| self.rects[i]);
        let Some(last) = self.rects.last_mut() else { return false };
        let alone = above.is_none_or(|above| above.y1 != last.y1);
        // The extended last band must not get the spans of the adjacent one.
        let free = above.is_none_or(|above| above.y2 < last.y1);
        if free
            && (rect.y1, rect.y2) == (last.y1, last.y2)
            && last.x1 <= rect.x1
            && rect.x1 <= last.x2
        {
            last.x2 = last.x2.max(rect.x2);
            return true;
        }
        if alone
            && (rect.x1, rect.x2) == (last.x1, last.x2)
            && last.y1 <= rect.y1
            && rect.y1 <= last.y2
        {
            last.y2 = last.y2.max(rect.y2);
            return true;
        }
        false
    }

    /// Adds the pixels of `other`.
    pub fn add(&mut self, other: &Region) {
        match other.rects.as_slice() {
            [] => {}
            [rect] => self.add_rect(*rect),
            rects if self.is_empty() => self.rects.extend_from_slice(rects),
            rects => self.combine_within(rects, |a, b| a | b),
        }
    }

    /// Removes the pixels of `rect`.
    pub fn subtract_rect(&mut self, rect: &Rect) {
        if self.overlaps_rect(rect) {
            self.combine_within(&[*rect], |a, b| a & !b);
        }
    }

    /// Removes the pixels of `other`.
    pub fn subtract(&mut self, other: &Region) {
        if self.overlaps(other) {
            self.combine_within(&other.rects, |a, b| a & !b);
        }
    }

    /// Keeps the pixels that are also in `rect`.
    pub fn intersect_rect(&mut self, rect: &Rect) {
        if rect.is_empty() {
            return self.clear();
        }
        if !rect.contains(&self.extents()) {
            self.rects = common(&self.rects, &[*rect]);
        }
    }

    /// Keeps the pixels that are also in `other`.
    pub fn intersect(&mut self, other: &Region) {
        if other.is_empty() {
            return self.clear();
        }
        self.rects = common(&self.rects, &other.rects);
    }

    /// Moves every pixel by a vector.
    pub fn translate(&mut self, dx: i32, dy: i32) {
        for rect in &mut self.rects {
            *rect = rect.translate(dx, dy);
        }
    }

    /// The set moved by a vector.
    pub fn translated(&self, dx: i32, dy: i32) -> Region {
        let mut region = self.clone();
        region.translate(dx, dy);
        region
    }

    /// The pixels in both sets.
    pub fn intersection(&self, other: &Region) -> Region {
        Region { rects: common(&self.rects, &other.rects) }
    }

    /// Number of pixels in both sets; allocates nothing.
    pub fn overlap_area(&self, other: &Region) -> u64 {
        let (few, many) =
            if self.rects.len() < other.rects.len() { (self, other) } else { (other, self) };
        let mut area = 0;
        for rect in &few.rects {
            let near = many.band_at_or_below(rect.y1).iter().take_while(|r| r.y1 < rect.y2);
            area += near.map(|r| r.intersect(rect).area()).sum::<u64>();
        }
        area
    }

    /// The pixels in `self` and not in `other`.
    pub fn difference(&self, other: &Region) -> Region {
        let mut region = self.clone();
        region.subtract(other);
        region
    }

    /// A superset with at most `rects_max` rectangles (at least one), for callers that can afford
    /// extra pixels but not many rectangles.
    #[must_use]
    pub fn simplified(&self, rects_max: usize) -> Region {
        if self.rects.len() <= rects_max.max(1) {
            return self.clone();
        }
        // First one rectangle per band; then adjacent bands are joined until they are few.
        let mut bands: Vec<Rect> = self
            .rects
            .chunk_by(|a, b| a.y1 == b.y1)
            .map(|band| Rect { x2: band[band.len() - 1].x2, ..band[0] })
            .collect();
        while bands.len() > rects_max.max(1) {
            bands = bands.chunks(2).map(|pair| pair[0].bound(&pair[pair.len() - 1])).collect();
        }
        bands.into_iter().collect()
    }

    /// Combines with a set that changes nothing above and below itself: a glyph in a page of text
    /// costs only the bands that it touches, and moving the rectangles after them.
    ///
    /// Bands that touch `other` are included, so that they can be joined with the result. The parts
    /// of an included band beyond `other` keep their spans, so they cannot equal an excluded band.
    fn combine_within(&mut self, other: &[Rect], keep: fn(bool, bool) -> bool) {
        let (Some(first), Some(last)) = (other.first(), other.last()) else { return };
        let from = self.rects.partition_point(|r| r.y2 < first.y1);
        let to = from + self.rects[from..].partition_point(|r| r.y1 <= last.y2);
        let out = combined(&self.rects[from..to], other, keep);
        self.rects.splice(from..to, out);
    }

    /// Checks the invariants of a region; for tests.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        for r in &self.rects {
            assert!(!r.is_empty(), "a region must not have an empty rectangle: {r:?}");
        }
        for pair in self.rects.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let same_band = a.y1 == b.y1 && a.y2 == b.y2 && a.x2 < b.x1;
            assert!(
                same_band || a.y2 <= b.y1,
                "rectangles are banded and do not touch in a band: {a:?} {b:?}"
            );
        }
        let bands: Vec<&[Rect]> = self.rects.chunk_by(|a, b| a.y1 == b.y1).collect();
        for pair in bands.windows(2) {
            let same_spans = pair[0].len() == pair[1].len()
                && pair[0].iter().zip(pair[1]).all(|(a, b)| a.x1 == b.x1 && a.x2 == b.x2);
            assert!(
                !same_spans || pair[0][0].y2 < pair[1][0].y1,
                "bands that meet with equal spans are one band"
            );
        }
    }
}

/// The intersection: only rows that both may have are swept.
fn common(a: &[Rect], b: &[Rect]) -> Vec<Rect> {
    let (a, b) = (rows_shared(a, b), rows_shared(b, a));
    if a.is_empty() || b.is_empty() { Vec::new() } else { combined(a, b, |a, b| a & b) }
}

/// The bands of `rects` from the first row of `other` to its last.
fn rows_shared<'a>(rects: &'a [Rect], other: &[Rect]) -> &'a [Rect] {
    let (Some(first), Some(last)) = (other.first(), other.last()) else { return &[] };
    let below = &rects[rects.partition_point(|r| r.y2 <= first.y1)..];
    &below[..below.partition_point(|r| r.y1 < last.y2)]
}

/// Sweeps two sets from top to bottom; `keep(in a, in b)` decides which pixels the result has.
fn combined(a: &[Rect], b: &[Rect], keep: fn(bool, bool) -> bool) -> Vec<Rect> {
    let mut out = Vec::with_capacity(a.len() + b.len() * 2 + 2);
    let (mut ia, mut ib) = (0, 0);
    let mut y = i32::MIN;
    let mut band_before = 0..0;
    loop {
        while ia < a.len() && a[ia].y2 <= y {
            ia += 1;
        }
        while ib < b.len() && b[ib].y2 <= y {
            ib += 1;
        }
        if ia == a.len() && ib == b.len() {
            break;
        }
        // The next strip begins at the next band, and ends where any band begins or ends.
        let top_a = a.get(ia).map_or(i32::MAX, |r| r.y1.max(y));
        let top_b = b.get(ib).map_or(i32::MAX, |r| r.y1.max(y));
        let y1 = top_a.min(top_b);
        let mut y2 = i32::MAX;
        for (band, top) in [(a.get(ia), top_a), (b.get(ib), top_b)] {
            if let Some(r) = band {
                y2 = y2.min(if top > y1 { top } else { r.y2 });
            }
        }
        let start = out.len();
        merge_spans(band_of(&a[ia..], y1), band_of(&b[ib..], y1), keep, y1, y2, &mut out);
        band_before = join_band(&mut out, band_before, start);
        y = y2;
    }
    out
}

/// The rectangles of the first band, if that band covers row `y`.
fn band_of(rects: &[Rect], y: i32) -> &[Rect] {
    match rects.first() {
        Some(first) if first.y1 <= y => {
            let len = rects.iter().take_while(|r| r.y1 == first.y1).count();
            &rects[..len]
        }
        _ => &[],
    }
}

/// Writes the spans of one strip for which `keep` holds.
fn merge_spans(
    a: &[Rect],
    b: &[Rect],
    keep: fn(bool, bool) -> bool,
    y1: i32,
    y2: i32,
    out: &mut Vec<Rect>,
) {
    let (mut ia, mut ib) = (0, 0);
    let (mut in_a, mut in_b) = (false, false);
    let mut open: Option<i32> = None;
    let edge = |band: &[Rect], i: usize, inside: bool| {
        band.get(i).map_or(i32::MAX, |r| if inside { r.x2 } else { r.x1 })
    };
    loop {
        let (edge_a, edge_b) = (edge(a, ia, in_a), edge(b, ib, in_b));
        let x = edge_a.min(edge_b);
        if x == i32::MAX {
            break;
        }
        if edge_a == x {
            ia += usize::from(in_a);
            in_a = !in_a;
        }
        if edge_b == x {
            ib += usize::from(in_b);
            in_b = !in_b;
        }
        match (open, keep(in_a, in_b)) {
            (None, true) => open = Some(x),
            (Some(x1), false) => {
                out.push(Rect::new(x1, y1, x, y2));
                open = None;
            }
            _ => {}
        }
    }
}

/// Joins the band at `start..` with the previous one if they are adjacent and have the same spans;
/// returns the last band.
fn join_band(
    out: &mut Vec<Rect>,
    before: std::ops::Range<usize>,
    start: usize,
) -> std::ops::Range<usize> {
    let len = out.len() - start;
    if len == 0 {
        return before;
    }
    let joins = before.len() == len
        && out[before.start].y2 == out[start].y1
        && (0..len).all(|i| {
            out[before.start + i].x1 == out[start + i].x1
                && out[before.start + i].x2 == out[start + i].x2
        });
    if joins {
        let y2 = out[start].y2;
        out.truncate(start);
        for rect in &mut out[before.clone()] {
            rect.y2 = y2;
        }
        before
    } else {
        start..start + len
    }
}

#[cfg(test)]
mod banded_tests {
    use super::*;

    #[test]
    fn rectangles_in_banded_order_are_a_region_and_others_are_not() {
        let region: Region = [Rect::at(0, 0, 4, 4), Rect::at(8, 0, 4, 4), Rect::at(2, 6, 4, 4)]
            .into_iter()
            .collect();
        assert_eq!(Region::from_banded(region.rects().to_vec()), Some(region));
        let touching = vec![Rect::at(0, 0, 4, 4), Rect::at(4, 0, 4, 4), Rect::at(0, 4, 8, 2)];
        assert_eq!(Region::from_banded(touching), Some(Rect::at(0, 0, 8, 6).into()));
        for wrong in [
            vec![Rect::at(8, 0, 4, 4), Rect::at(0, 0, 4, 4)],
            vec![Rect::at(0, 0, 4, 4), Rect::at(3, 0, 4, 4)],
            vec![Rect::at(0, 0, 4, 4), Rect::at(8, 0, 4, 5)],
            vec![Rect::at(0, 4, 4, 4), Rect::at(0, 0, 4, 4)],
            vec![Rect::at(0, 0, 4, 4), Rect::at(8, 3, 4, 4)],
            vec![Rect::at(0, 0, 0, 4)],
        ] {
            assert_eq!(Region::from_banded(wrong.clone()), None, "{wrong:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle: a set as a bit mask.
    const EDGE: i32 = 24;

    #[derive(Clone, PartialEq, Eq, Debug)]
    struct Mask(Vec<bool>);

    impl Mask {
        fn of(region: &Region) -> Mask {
            region.check_invariants();
            let mut mask = Mask(vec![false; (EDGE * EDGE) as usize]);
            for rect in region.rects() {
                for (x, y) in pixels(rect) {
                    let at = &mut mask.0[(y * EDGE + x) as usize];
                    assert!(!*at, "no pixel may lie in two rectangles");
                    *at = true;
                }
            }
            mask
        }

        fn with(&self, other: &Mask, keep: impl Fn(bool, bool) -> bool) -> Mask {
            Mask(self.0.iter().zip(&other.0).map(|(&a, &b)| keep(a, b)).collect())
        }

        fn at(&self, x: i32, y: i32) -> bool {
            self.0[(y * EDGE + x) as usize]
        }
    }

    fn pixels(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
        let rect = *rect;
        (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
    }

    /// xorshift64*: the same numbers in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: i32) -> i32 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64) as i32
        }

        fn rect(&mut self) -> Rect {
            let (x1, y1) = (self.below(EDGE), self.below(EDGE));
            // Including empty ones.
            Rect::new(x1, y1, x1 + self.below(EDGE - x1 + 1), y1 + self.below(EDGE - y1 + 1))
        }

        fn region(&mut self) -> Region {
            let n = self.below(7);
            let mut region: Region = (0..n).map(|_| self.rect()).collect();
            for _ in 0..self.below(4) {
                region.subtract_rect(&self.rect());
            }
            region
        }
    }

    #[test]
    fn rectangles_in_the_order_of_text_and_fills_are_added() {
        for seed in 1..=2000u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut region = if random.below(2) == 0 { Region::new() } else { random.region() };
            let mut want = Mask::of(&region);
            let mut pen = random.rect();
            for _ in 0..8 {
                region.add_rect(pen);
                want = want.with(&Mask::of(&Region::from(pen)), |a, b| a | b);
                assert_eq!(Mask::of(&region), want, "seed {seed}");
                let (right, down) = (random.below(3) != 0, random.below(3) == 0);
                let (dx, dy) = (random.below(pen.width() + 2), random.below(pen.height() + 2));
                let next = pen.translate(if right { dx } else { 0 }, if down { dy } else { 0 });
                pen = next.intersect(&Rect::new(0, 0, EDGE, EDGE));
            }
        }
    }

    #[test]
    fn every_operation_equals_the_mask() {
        for seed in 1..=3000u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (a, b, rect) = (random.region(), random.region(), random.rect());
            let (ma, mb, mr) = (Mask::of(&a), Mask::of(&b), Mask::of(&Region::from(rect)));
            let check = |what: &str, got: &Region, want: &Mask| {
                assert_eq!(&Mask::of(got), want, "{what}, seed {seed}: {a:?} {b:?} {rect:?}");
            };
            let changed = |change: &dyn Fn(&mut Region)| {
                let mut region = a.clone();
                change(&mut region);
                region
            };
            check("add", &changed(&|r| r.add(&b)), &ma.with(&mb, |a, b| a | b));
            check("add_rect", &changed(&|r| r.add_rect(rect)), &ma.with(&mr, |a, b| a | b));
            check("subtract", &changed(&|r| r.subtract(&b)), &ma.with(&mb, |a, b| a & !b));
            check(
                "subtract_rect",
                &changed(&|r| r.subtract_rect(&rect)),
                &ma.with(&mr, |a, b| a & !b),
            );
            check("intersect", &changed(&|r| r.intersect(&b)), &ma.with(&mb, |a, b| a & b));
            check(
                "intersect_rect",
                &changed(&|r| r.intersect_rect(&rect)),
                &ma.with(&mr, |a, b| a & b),
            );
            assert_eq!(
                a.overlaps(&b),
                ma.with(&mb, |a, b| a & b).0.contains(&true),
                "overlaps, seed {seed}"
            );
            assert_eq!(
                a.overlaps_rect(&rect),
                ma.with(&mr, |a, b| a & b).0.contains(&true),
                "seed {seed}"
            );
            assert_eq!(
                a.contains_rect(&rect),
                !mr.with(&ma, |a, b| a & !b).0.contains(&true),
                "seed {seed}"
            );
            let (x, y) = (random.below(EDGE), random.below(EDGE));
            assert_eq!(a.contains_point(x, y), ma.at(x, y), "contains_point, seed {seed}");
            let both = ma.with(&mb, |a, b| a & b).0.iter().filter(|&&inside| inside).count() as u64;
            assert_eq!(a.overlap_area(&b), both, "overlap_area, seed {seed}");
            assert_eq!(
                a.area(),
                ma.0.iter().filter(|&&inside| inside).count() as u64,
                "area, seed {seed}"
            );
            let extents = a.rects().iter().fold(Rect::default(), |all, rect| all.bound(rect));
            assert_eq!(a.extents(), extents, "extents, seed {seed}");
            // Equal sets are equal values, however they were computed.
            let mut way = b.clone();
            way.add(&a);
            assert_eq!(way, changed(&|r| r.add(&b)), "a set has a unique form, seed {seed}");
            let rects_max = 1 + random.below(5) as usize;
            let simple = a.simplified(rects_max);
            assert!(simple.rect_count() <= rects_max, "simplified, seed {seed}");
            assert!(
                !ma.with(&Mask::of(&simple), |a, b| a & !b).0.contains(&true),
                "simplified, seed {seed}"
            );
            let moved = a.translated(5, -3);
            assert!(
                a.rects().iter().zip(moved.rects()).all(|(a, b)| a.translate(5, -3) == *b),
                "seed {seed}"
            );
        }
    }
}
