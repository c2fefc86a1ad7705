//! Scaling along one axis: from which source pixels each target pixel is computed.
//! Beside rect.rs. session-core maps regions with it, pixels resamples with it, and viewers map the
//! pointer back with it.
//! Knows positions; never weights or pixels.

/// A mapping from a range of pixels to another of any length.
///
/// Downscaled, a pixel is computed from all source pixels that it covers: pixel *i* of *t* covers
/// *i n / t* to *(i + 1) n / t* of *n*. Upscaled, it is computed from the two source pixels between
/// whose centres its own lies, or from one at the ends.
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
    /// If one of them is 0 or exceeds an `i32`.
    pub fn new(start: i32, source: u32, target: u32) -> Scale {
        let edge = 1..=1 << 24;
        assert!(
            edge.contains(&source) && edge.contains(&target),
            "{source} pixels cannot be {target}"
        );
        Scale { start, source: i64::from(source), target: i64::from(target) }
    }

    /// Number of target pixels.
    pub const fn target(&self) -> u32 {
        self.target as u32
    }

    /// Number of source pixels.
    pub const fn source(&self) -> u32 {
        self.source as u32
    }

    /// The first source pixel.
    pub const fn start(&self) -> i32 {
        self.start
    }

    /// True if it does not scale.
    pub const fn is_whole(&self) -> bool {
        self.source == self.target
    }

    /// True if the target is larger than the source.
    pub const fn magnifies(&self) -> bool {
        self.source < self.target
    }

    /// Position of an upscaled pixel's centre relative to that of the first source pixel: whole
    /// source pixels, and the remainder in units of 1 / (2 × target).
    pub const fn centre(&self, pixel: i32) -> (i64, i64) {
        let at = (2 * pixel as i64 + 1) * self.source - self.target;
        (at.div_euclid(2 * self.target), at.rem_euclid(2 * self.target))
    }

    /// The source pixels from which a target pixel is computed: the first one, and the one after
    /// the last.
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

    /// The target pixels that depend on any source pixel in `first..end`, as a half-open range;
    /// empty if its end is not after its start.
    pub fn touched(&self, first: i32, end: i32) -> (i32, i32) {
        let (n, t) = (self.source, self.target);
        let (first, end) =
            (i64::from(first - self.start).max(0), i64::from(end - self.start).min(n));
        if first >= end {
            return (0, 0);
        }
        if !self.magnifies() {
            return ((first * t / n) as i32, div_ceil(end * t, n) as i32);
        }
        // One of its two source pixels is in the range; at the ends there is only one.
        let from = if first == 0 { 0 } else { (t * (2 * first - 1) - n).div_euclid(2 * n) + 1 };
        let to = if end == n { t } else { div_ceil(t * (2 * end + 1) - n, 2 * n) };
        (from as i32, to as i32)
    }

    /// The target pixels that would be the same if the source continued at both ends, as a
    /// half-open range.
    pub fn inner(&self) -> (i32, i32) {
        let (n, t) = (self.source, self.target);
        if !self.magnifies() {
            return (0, t as i32);
        }
        (div_ceil(t - n, 2 * n) as i32, ((t * (2 * n - 1) - n).div_euclid(2 * n) + 1) as i32)
    }

    /// The distance of `source` source pixels in target pixels, if it is a whole number. Then
    /// shifting the source by it shifts the target exactly.
    pub const fn vector(&self, source: i32) -> Option<i32> {
        let moved = source as i64 * self.target;
        if moved % self.source == 0 { Some((moved / self.source) as i32) } else { None }
    }

    /// The target's edge nearest to an edge of the source, which may lie outside the range.
    pub const fn nearest_edge(&self, edge: i32) -> i32 {
        (2 * (edge - self.start) as i64 * self.target + self.source).div_euclid(2 * self.source)
            as i32
    }

    /// The source pixel that contains the centre of a target pixel, to which a click on it maps; it
    /// may lie outside the range.
    pub const fn source_under(&self, pixel: i32) -> i32 {
        self.start + ((2 * pixel as i64 + 1) * self.source).div_euclid(2 * self.target) as i32
    }

    /// The target pixel that contains the centre of a source pixel; it may lie outside the range.
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

    /// The support of a target pixel, computed as in the type's documentation.
    fn made_of(scale: &Scale, pixel: i32) -> Vec<i32> {
        let (n, t) = (scale.source as f64, scale.target as f64);
        let i = f64::from(pixel);
        let made: Vec<i32> = if scale.magnifies() {
            let at = (i + 0.5) * n / t - 0.5;
            let near = |s: &i32| (f64::from(*s) - at).abs() < 1.0 - 1e-9;
            let near: Vec<i32> = (0..n as i32).filter(near).collect();
            if at < 0.0 || at > n - 1.0 { near.into_iter().take(1).collect() } else { near }
        } else {
            let covers = |s: &i32| {
                f64::from(*s) < (i + 1.0) * n / t - 1e-9 && f64::from(*s) + 1.0 > i * n / t + 1e-9
            };
            (0..n as i32).filter(covers).collect()
        };
        made.into_iter().map(|s| s + 5).collect()
    }

    #[test]
    fn the_support_is_what_a_pixel_covers_or_lies_between() {
        for scale in scales() {
            for pixel in 0..scale.target() as i32 {
                let (first, end) = scale.support(pixel);
                assert_eq!(
                    (first..end).collect::<Vec<_>>(),
                    made_of(&scale, pixel),
                    "{pixel} of {scale:?}"
                );
            }
        }
    }

    #[test]
    fn touched_pixels_are_those_that_depend_on_the_range() {
        for scale in scales() {
            for first in 3..=31 {
                for end in first..=31 {
                    let made = |&pixel: &i32| {
                        made_of(&scale, pixel).iter().any(|s| (first..end).contains(s))
                    };
                    let expected: Vec<i32> = (0..scale.target() as i32).filter(made).collect();
                    let (from, to) = scale.touched(first, end);
                    assert_eq!(
                        (from..to).collect::<Vec<_>>(),
                        expected,
                        "{first}..{end} of {scale:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn whole_shifts_preserve_the_support_except_at_the_ends() {
        for scale in scales() {
            let (from, to) = scale.inner();
            for source in -24..=24 {
                let Some(moved) = scale.vector(source) else { continue };
                for pixel in (from..to).filter(|pixel| (from..to).contains(&(pixel + moved))) {
                    let there: Vec<i32> =
                        made_of(&scale, pixel).into_iter().map(|s| s + source).collect();
                    assert_eq!(
                        made_of(&scale, pixel + moved),
                        there,
                        "{pixel} by {moved} of {scale:?}"
                    );
                    assert_eq!(scale.centre(pixel).1, scale.centre(pixel + moved).1);
                }
            }
        }
    }

    #[test]
    fn a_click_maps_to_a_pixel_of_the_support() {
        for scale in scales() {
            for pixel in 0..scale.target() as i32 {
                let (first, end) = scale.support(pixel);
                let under = scale.source_under(pixel);
                assert!((first..end).contains(&under), "{pixel} of {scale:?} maps to {under}");
            }
            for pixel in
                (5..5 + scale.source() as i32).filter(|_| scale.magnifies() || scale.is_whole())
            {
                assert_eq!(
                    scale.source_under(scale.target_over(pixel)),
                    pixel,
                    "every pixel can be met in {scale:?}"
                );
            }
        }
    }

    #[test]
    fn an_edge_maps_to_the_nearest_one() {
        let scale = Scale::new(10, 16, 5);
        assert_eq!(
            [10, 11, 12, 26, 42, 7].map(|edge| scale.nearest_edge(edge)),
            [0, 0, 1, 5, 10, -1]
        );
    }
}
