//! Path 12/13: beside framebuffer.rs, at each change of geometry.
//! Resamples the old framebuffer to the new geometry, so that nothing flashes until the session's
//! pixels arrive. Knows sizes and parts of the screen; never which pixels are lossless.

use thinc_codec_dec::OPAQUE;
use thinc_region::{Rect, Size};

/// Maps each column and row of the new framebuffer to the one of the old framebuffer that showed
/// the same point of the screen.
#[derive(Debug)]
pub(crate) struct Underlay {
    size: Size,
    old_width: usize,
    columns: Axis,
    rows: Axis,
}

/// Old indices for consecutive new ones from `first` on; new ones outside that run were not shown.
#[derive(Debug)]
struct Axis {
    first: usize,
    old: Vec<usize>,
}

impl Axis {
    /// One axis: the new framebuffer has `new` pixels that show `len` screen pixels from `from` on;
    /// the old one likewise.
    fn new((old, old_from, old_len): (u32, i32, i32), (new, from, len): (u32, i32, i32)) -> Axis {
        let (old, old_from, old_len) = (i64::from(old), i64::from(old_from), i64::from(old_len));
        let (new, from, len) = (i64::from(new), i64::from(from), i64::from(len));
        // Centre of a new pixel relative to the old framebuffer's origin, in units of 1 / (2 × new)
        // screen pixels.
        let middle = |at: i64| 2 * new * (from - old_from) + (2 * at + 1) * len;
        let source = |at: i64| (middle(at) * old).div_euclid(2 * new * old_len.max(1));
        let shown = |at: &i64| (0..old).contains(&source(*at));
        let first = (0..new).find(shown).unwrap_or(new);
        let old = (first..new).take_while(shown).map(|at| source(at) as usize).collect();
        Axis { first: first as usize, old }
    }
}

impl Underlay {
    /// Maps a framebuffer of one size, which shows one part of the screen, to another.
    pub(crate) fn new((old, old_part): (Size, Rect), (size, part): (Size, Rect)) -> Underlay {
        Underlay {
            size,
            old_width: old.width as usize,
            columns: Axis::new(
                (old.width, old_part.x1, old_part.width()),
                (size.width, part.x1, part.width()),
            ),
            rows: Axis::new(
                (old.height, old_part.y1, old_part.height()),
                (size.height, part.y1, part.height()),
            ),
        }
    }

    /// The new framebuffer's pixels; black where the old one showed nothing.
    pub(crate) fn draw(&self, old: &[u32]) -> Vec<u32> {
        let width = self.size.width as usize;
        let mut pixels = vec![OPAQUE; self.size.area() as usize];
        let rows = pixels.chunks_exact_mut(width).skip(self.rows.first);
        for (row, &y) in rows.zip(&self.rows.old) {
            let old_row = &old[y * self.old_width..][..self.old_width];
            for (pixel, &x) in row[self.columns.first..].iter_mut().zip(&self.columns.old) {
                *pixel = old_row[x];
            }
        }
        pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// Each pixel encodes its own position.
    fn numbered(size: Size) -> Vec<u32> {
        (0..size.height).flat_map(|y| (0..size.width).map(move |x| OPAQUE | x << 12 | y)).collect()
    }

    fn drawn(old: (Size, Rect), new: (Size, Rect)) -> impl Fn(u32, u32) -> Option<(u32, u32)> {
        let pixels = Underlay::new(old, new).draw(&numbered(old.0));
        assert_eq!(pixels.len() as u64, new.0.area());
        let shown = Rect::at(0, 0, old.0.width as i32, old.0.height as i32);
        move |x, y| {
            let pixel = pixels[(y * new.0.width + x) as usize];
            // The pixel at (0, 0) has the same value as one that was not shown.
            let at = (pixel >> 12 & 0xfff, pixel & 0xfff);
            assert!(shown.contains_point(at.0 as i32, at.1 as i32));
            (pixel != OPAQUE).then_some(at)
        }
    }

    #[test]
    fn a_resized_screen_keeps_the_common_part() {
        let (old, new) = (size(60, 40), size(80, 30));
        let at = drawn((old, old.rect()), (new, new.rect()));
        for (x, y) in [(1, 0), (59, 29), (7, 3)] {
            assert_eq!(at(x, y), Some((x, y)));
        }
        assert_eq!((at(60, 5), at(79, 29)), (None, None));
    }

    #[test]
    fn zooming_magnifies_and_panning_moves_pixels() {
        let screen = size(60, 40);
        let part = Rect::at(20, 10, 30, 20);
        let at = drawn((screen, screen.rect()), (screen, part));
        assert_eq!(
            (at(0, 0), at(1, 1), at(2, 3), at(59, 39)),
            (Some((20, 10)), Some((20, 10)), Some((21, 11)), Some((49, 29)))
        );
        let at = drawn((screen, part), (screen, part.translate(3, -2)));
        assert_eq!(
            (at(0, 4), at(53, 39), at(54, 4), at(3, 3)),
            (Some((6, 0)), Some((59, 35)), None, None)
        );
        let at = drawn((screen, part), (screen, screen.rect()));
        assert_eq!(
            (at(20, 10), at(49, 29), at(19, 12), at(50, 12)),
            (Some((1, 1)), Some((59, 39)), None, None)
        );
    }

    #[test]
    fn parts_never_shown_before_are_black() {
        let (old, new) = (size(60, 40), size(30, 20));
        let at = drawn((old, Rect::at(100, 100, 60, 40)), (new, new.rect()));
        assert!((0..20).all(|y| (0..30).all(|x| at(x, y).is_none())));
        let first = Underlay::new((Size::default(), Rect::default()), (new, new.rect())).draw(&[]);
        assert!(first.iter().all(|&pixel| pixel == OPAQUE));
    }
}
