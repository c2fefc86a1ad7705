//! Which pixels of one row, or column, those of a row of another length are made of: a scaled picture, one axis at a time.
//! Stands beside rect.rs; session-core maps regions by it, pixels resamples by it, viewers map the pointer back by it.
//! Knows places; never what pixels weigh, nor which command made them.

/// From a stretch of one row to another of any length.
///
/// Shrunk, a pixel is made of all that it covers: of pixel *i* of *t*, which covers *i n / t* to *(i + 1) n / t* of *n*. Magnified, it
/// is made of the two pixels whose centres its own lies between. At the ends, where there is one, of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    start: i32,
    source: i64,
    target: i64,
}

impl Scale {
    /// From the `source` pixels that begin at `start`, to `target` pixels that begin at 0.
    ///
    /// # Panics
    /// Where one of them has none, or more than an `i32` counts.
    pub fn new(start: i32, source: u32, target: u32) -> Scale {
        let edge = 1..=1 << 24;
        assert!(edge.contains(&source) && edge.contains(&target), "{source} pixels cannot be {target}");
        Scale { start, source: i64::from(source), target: i64::from(target) }
    }

    /// Pixels of the target.
    pub const fn target(&self) -> u32 {
        self.target as u32
    }

    /// Pixels of the source.
    pub const fn source(&self) -> u32 {
        self.source as u32
    }

    /// The first pixel of the source.
    pub const fn start(&self) -> i32 {
        self.start
    }

    /// Pixels stay as they are.
    pub const fn is_whole(&self) -> bool {
        self.source == self.target
    }

    /// The source is shown larger than it is.
    pub const fn magnifies(&self) -> bool {
        self.source < self.target
    }

    /// Of a magnified pixel's centre, counted from that of the source's first pixel: source pixels, and what is more in parts of
    /// twice the target's length.
    pub const fn centre(&self, pixel: i32) -> (i64, i64) {
        let at = (2 * pixel as i64 + 1) * self.source - self.target;
        (at.div_euclid(2 * self.target), at.rem_euclid(2 * self.target))
    }

    /// The source pixels that a target pixel is made of, the first of them and the one behind the last.
    pub fn support(&self, pixel: i32) -> (i32, i32) {
        let (first, end) = if self.magnifies() {
            let (first, more) = self.centre(pixel);
            let last = first + i64::from(more > 0);
            (first.max(0), last.min(self.source - 1) + 1)
        } else {
            let i = i64::from(pixel);
            (i * self.source / self.target, div_ceil((i + 1) * self.source, self.target))
        };
        (self.start + first as i32, self.start + end as i32)
    }

    /// The target pixels that are made of any of the source pixels from `first` to before `end`: from the first to before the last;
    /// none where that is not after it.
    pub fn touched(&self, first: i32, end: i32) -> (i32, i32) {
        let (n, t) = (self.source, self.target);
        let (first, end) = (i64::from(first - self.start).max(0), i64::from(end - self.start).min(n));
        if first >= end {
            return (0, 0);
        }
        if !self.magnifies() {
            return ((first * t / n) as i32, div_ceil(end * t, n) as i32);
        }
        // Its two centres lie before `end`, and not before `first`; at the ends one of them is not there.
        let from = if first == 0 { 0 } else { (t * (2 * first - 1) - n).div_euclid(2 * n) + 1 };
        let to = if end == n { t } else { div_ceil(t * (2 * end + 1) - n, 2 * n) };
        (from as i32, to as i32)
    }

    /// The target pixels that would be the same if the source went on at both ends, from the first to before the last.
    pub fn inner(&self) -> (i32, i32) {
        let (n, t) = (self.source, self.target);
        if !self.magnifies() {
            return (0, t as i32);
        }
        (div_ceil(t - n, 2 * n) as i32, ((t * (2 * n - 1) - n).div_euclid(2 * n) + 1) as i32)
    }

    /// So many source pixels as target pixels, where that is a whole number of them. Then all that was made of source pixels so far
    /// apart is made alike.
    pub const fn vector(&self, source: i32) -> Option<i32> {
        let moved = source as i64 * self.target;
        if moved % self.source == 0 { Some((moved / self.source) as i32) } else { None }
    }

    /// The target's edge that is nearest to an edge of the source, which may lie outside of it.
    pub const fn nearest_edge(&self, edge: i32) -> i32 {
        (2 * (edge - self.start) as i64 * self.target + self.source).div_euclid(2 * self.source) as i32
    }

    /// The source pixel in which the centre of a target pixel lies, which may lie outside: where a click on it goes.
    pub const fn source_under(&self, pixel: i32) -> i32 {
        self.start + ((2 * pixel as i64 + 1) * self.source).div_euclid(2 * self.target) as i32
    }

    /// The target pixel in which the centre of a source pixel lies, which may lie outside.
    pub const fn target_over(&self, pixel: i32) -> i32 {
        ((2 * (pixel - self.start) as i64 + 1) * self.target).div_euclid(2 * self.source) as i32
    }
}

/// The quotient, rounded up.
const fn div_ceil(of: i64, by: i64) -> i64 {
    -(-of).div_euclid(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scales() -> impl Iterator<Item = Scale> {
        (1..=24).flat_map(|source| (1..=24).map(move |target| Scale::new(5, source, target)))
    }

    /// What a target pixel is made of, said as the type's comment says it.
    fn made_of(scale: &Scale, pixel: i32) -> Vec<i32> {
        let (n, t) = (scale.source as f64, scale.target as f64);
        let i = f64::from(pixel);
        let made: Vec<i32> = if scale.magnifies() {
            let at = (i + 0.5) * n / t - 0.5;
            let near = |s: &i32| (f64::from(*s) - at).abs() < 1.0 - 1e-9;
            let near: Vec<i32> = (0..n as i32).filter(near).collect();
            if at < 0.0 || at > n - 1.0 { near.into_iter().take(1).collect() } else { near }
        } else {
            let covers = |s: &i32| f64::from(*s) < (i + 1.0) * n / t - 1e-9 && f64::from(*s) + 1.0 > i * n / t + 1e-9;
            (0..n as i32).filter(covers).collect()
        };
        made.into_iter().map(|s| s + 5).collect()
    }

    #[test]
    fn a_pixel_is_made_of_what_it_covers_or_lies_between() {
        for scale in scales() {
            for pixel in 0..scale.target() as i32 {
                let (first, end) = scale.support(pixel);
                assert_eq!((first..end).collect::<Vec<_>>(), made_of(&scale, pixel), "{pixel} of {scale:?}");
            }
        }
    }

    #[test]
    fn touched_are_those_that_are_made_of_some() {
        for scale in scales() {
            for first in 3..=31 {
                for end in first..=31 {
                    let made = |&pixel: &i32| made_of(&scale, pixel).iter().any(|s| (first..end).contains(s));
                    let expected: Vec<i32> = (0..scale.target() as i32).filter(made).collect();
                    let (from, to) = scale.touched(first, end);
                    assert_eq!((from..to).collect::<Vec<_>>(), expected, "{first}..{end} of {scale:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_moved_by_whole_pixels_is_made_alike_but_for_the_ends() {
        for scale in scales() {
            let (from, to) = scale.inner();
            for source in -24..=24 {
                let Some(moved) = scale.vector(source) else { continue };
                for pixel in (from..to).filter(|pixel| (from..to).contains(&(pixel + moved))) {
                    let there: Vec<i32> = made_of(&scale, pixel).into_iter().map(|s| s + source).collect();
                    assert_eq!(made_of(&scale, pixel + moved), there, "{pixel} by {moved} of {scale:?}");
                    assert_eq!(scale.centre(pixel).1, scale.centre(pixel + moved).1);
                }
            }
        }
    }

    #[test]
    fn a_click_arrives_where_it_was_made() {
        for scale in scales() {
            for pixel in 0..scale.target() as i32 {
                let (first, end) = scale.support(pixel);
                let under = scale.source_under(pixel);
                assert!((first..end).contains(&under), "{pixel} of {scale:?} goes to {under}");
            }
            for pixel in (5..5 + scale.source() as i32).filter(|_| scale.magnifies() || scale.is_whole()) {
                assert_eq!(scale.source_under(scale.target_over(pixel)), pixel, "every pixel can be met in {scale:?}");
            }
        }
    }

    #[test]
    fn an_edge_goes_to_the_nearest() {
        let scale = Scale::new(10, 16, 5);
        assert_eq!([10, 11, 12, 26, 42, 7].map(|edge| scale.nearest_edge(edge)), [0, 0, 1, 5, 10, -1]);
    }
}
