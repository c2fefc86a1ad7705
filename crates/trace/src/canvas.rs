//! Pixels of one drawable, and operations on them. From replay.rs, which keeps the traced screen in
//! one, and synthetic.rs, which also keeps pixmaps. Knows rectangles within it; parts outside are
//! clipped.

use thinc_region::{Rect, Region, Size};

/// 0x00RRGGBB, rows without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas {
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u32>,
}

impl Canvas {
    /// All black.
    pub(crate) fn new(size: Size) -> Canvas {
        Canvas { size, pixels: vec![0; size.area() as usize] }
    }

    fn offset(&self, x: i32, y: i32) -> usize {
        y as usize * self.size.width as usize + x as usize
    }

    pub(crate) fn row(&self, x1: i32, x2: i32, y: i32) -> &[u32] {
        &self.pixels[self.offset(x1, y)..self.offset(x2, y)]
    }

    /// Sets every pixel to the result of `color`.
    pub(crate) fn paint(&mut self, rect: Rect, mut color: impl FnMut(i32, i32, u32) -> u32) {
        let rect = rect.intersect(&self.size.rect());
        for y in rect.y1..rect.y2 {
            let at = self.offset(rect.x1, y);
            for (x, pixel) in (rect.x1..rect.x2).zip(&mut self.pixels[at..]) {
                *pixel = color(x, y, *pixel) & 0x00ff_ffff;
            }
        }
    }

    /// Writes the rows of a rectangle; `rows` has no gaps.
    pub(crate) fn put(&mut self, rect: Rect, rows: &[u32]) {
        if rect.is_empty() {
            return;
        }
        for (y, row) in (rect.y1..rect.y2).zip(rows.chunks_exact(rect.width() as usize)) {
            let at = self.offset(rect.x1, y);
            self.pixels[at..at + row.len()].copy_from_slice(row);
        }
    }

    /// Copies pixels within the canvas, all read before any is written; a source outside leaves the
    /// destination unchanged.
    pub(crate) fn move_within(&mut self, region: &Region, dx: i32, dy: i32) {
        let mut region = region.clone();
        region.intersect_rect(&self.size.rect());
        region.intersect_rect(&self.size.rect().translate(dx, dy));
        for rect in region.copy_order(dx, dy) {
            let width = rect.width() as usize;
            for i in 0..rect.height() {
                let y = if dy > 0 { rect.y2 - 1 - i } else { rect.y1 + i };
                let (from, to) = (self.offset(rect.x1 - dx, y - dy), self.offset(rect.x1, y));
                self.pixels.copy_within(from..from + width, to);
            }
        }
    }

    /// Copies from another canvas; a source outside leaves the destination unchanged.
    pub(crate) fn copy_from(&mut self, source: &Canvas, rect: Rect, dx: i32, dy: i32) {
        let rect =
            rect.intersect(&self.size.rect()).intersect(&source.size.rect().translate(dx, dy));
        if rect.is_empty() {
            return;
        }
        for y in rect.y1..rect.y2 {
            let at = self.offset(rect.x1, y);
            let row = source.row(rect.x1 - dx, rect.x2 - dx, y - dy);
            self.pixels[at..at + row.len()].copy_from_slice(row);
        }
    }
}
