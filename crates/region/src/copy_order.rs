//! The order in which the rectangles of a COPY can be moved one by one, each as a memmove, with the
//! result of reading all pixels before writing any.
//! Used by everything that applies a COPY: the shadow, the simulator and viewer-core.
//! Knows rectangles and a vector; never pixels.

use crate::{Rect, Region};

impl Region {
    /// The rectangles in an order in which no source is overwritten before it is read, if every
    /// pixel of the region takes the value of the pixel at its position minus `(dx, dy)`.
    ///
    /// Bands, and rectangles within a band, are ordered against the vector's direction. The caller
    /// moves the rows of a rectangle each as a memmove, from the bottom if `dy > 0`.
    pub fn copy_order(&self, dx: i32, dy: i32) -> impl Iterator<Item = Rect> + '_ {
        let rects = self.rects();
        let right_first = dx > 0;
        // Without a vertical component bands are independent, so one direction serves both.
        let bottom_first = if dy == 0 { right_first } else { dy > 0 };
        let mut rest = rects.len();
        let mut taken = 0;
        let mut band = 0..0;
        std::iter::from_fn(move || {
            if band.is_empty() {
                if taken == rects.len() {
                    return None;
                }
                if bottom_first {
                    let y1 = rects[rest - 1].y1;
                    let start = rects[..rest].iter().rposition(|r| r.y1 != y1).map_or(0, |i| i + 1);
                    band = start..rest;
                    rest = start;
                } else {
                    let y1 = rects[taken].y1;
                    let len = rects[taken..].iter().take_while(|r| r.y1 == y1).count();
                    band = taken..taken + len;
                }
            }
            taken += 1;
            let index = if right_first { band.next_back() } else { band.next() };
            index.map(|i| rects[i])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distinct pixels copied through a second buffer, and rectangle by rectangle in this order.
    #[test]
    fn this_order_equals_reading_all_pixels_before_writing_any() {
        const EDGE: i32 = 24;
        let at = |x: i32, y: i32| (y * EDGE + x) as usize;
        let shapes: [&[Rect]; 4] = [
            &[Rect::at(6, 6, 12, 12)],
            &[Rect::at(6, 6, 4, 10), Rect::at(12, 8, 5, 10)],
            &[
                Rect::at(6, 6, 3, 2),
                Rect::at(10, 6, 3, 2),
                Rect::at(14, 6, 3, 2),
                Rect::at(8, 9, 6, 6),
            ],
            &[
                Rect::at(7, 6, 2, 12),
                Rect::at(10, 6, 2, 12),
                Rect::at(13, 6, 2, 3),
                Rect::at(13, 11, 4, 4),
            ],
        ];
        for shape in shapes {
            let region: Region = shape.iter().copied().collect();
            for (dx, dy) in (-6..=6).flat_map(|dx| (-6..=6).map(move |dy| (dx, dy))) {
                let before: Vec<i32> = (0..EDGE * EDGE).collect();
                let mut want = before.clone();
                for rect in region.rects() {
                    for (x, y) in
                        (rect.y1..rect.y2).flat_map(|y| (rect.x1..rect.x2).map(move |x| (x, y)))
                    {
                        want[at(x, y)] = before[at(x - dx, y - dy)];
                    }
                }
                let mut got = before;
                let mut count = 0;
                for rect in region.copy_order(dx, dy) {
                    count += 1;
                    for i in 0..rect.height() {
                        let y = if dy > 0 { rect.y2 - 1 - i } else { rect.y1 + i };
                        let source = at(rect.x1 - dx, y - dy);
                        got.copy_within(source..source + rect.width() as usize, at(rect.x1, y));
                    }
                }
                assert_eq!(count, region.rect_count());
                assert_eq!(got, want, "{region:?} by ({dx}, {dy})");
            }
        }
    }
}
