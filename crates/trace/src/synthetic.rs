//! Pixels for a trace without any: drawn from its records, reproducibly. From replay.rs with a
//! redacted trace, record by record, as X drew; to the pixels sent to viewers. Knows what a record
//! says. Copies are exact, through pixmaps too: what scrolled in the original scrolls here.

use std::collections::HashMap;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawHint, DrawRecord, DrawableId, RecordKind};

use crate::canvas::Canvas;

/// 64 Mi pixels, 256 MiB: limit of all pixmaps together. A pixmap beyond it is drawn again whenever
/// it is copied from.
const PIXMAPS_AREA_MAX: u64 = 64 * 1024 * 1024;
/// A glyph of pseudo text with its spacing.
const GLYPH: (i32, i32) = (7, 14);

/// A COPY whose records are still being read: one region and one vector, all read before any is
/// written.
#[derive(Debug)]
struct PendingCopy {
    op: u64,
    src: DrawableId,
    dst: DrawableId,
    region: Region,
    vector: (i32, i32),
}

/// The synthetic screen and pixmaps.
#[derive(Debug, Default)]
pub(crate) struct SyntheticScreen {
    pub(crate) screen: Canvas,
    pixmaps: HashMap<DrawableId, Canvas>,
    area: u64,
    pending: Option<PendingCopy>,
}

impl SyntheticScreen {
    /// A new framebuffer.
    pub(crate) fn geometry(&mut self, size: Size) {
        self.pending = None;
        self.screen = Canvas::new(size);
    }

    /// Executes a record.
    pub(crate) fn record(&mut self, record: &DrawRecord) {
        if let RecordKind::Copy { src, dst, rect, dx, dy, .. } = record.kind {
            let same = |pending: &PendingCopy| {
                (pending.op, pending.src, pending.dst, pending.vector)
                    == (record.op, src, dst, (dx, dy))
            };
            if !self.pending.as_ref().is_some_and(same) {
                self.end_copy();
                self.pending = Some(PendingCopy {
                    op: record.op,
                    src,
                    dst,
                    region: Region::new(),
                    vector: (dx, dy),
                });
            }
            self.pending.as_mut().expect("it was just set").region.add_rect(rect);
            if !record.more {
                self.end_copy();
            }
            return;
        }
        self.end_copy();
        match record.kind {
            RecordKind::Draw { dst, rect, hint, .. } => {
                if let Some(canvas) = self.canvas(dst) {
                    draw(canvas, rect, hint, record.op, record.window);
                }
            }
            RecordKind::PixmapCreate { id, width, height, .. } => {
                self.destroy(id);
                let size = Size { width, height };
                if self.area + size.area() <= PIXMAPS_AREA_MAX {
                    self.area += size.area();
                    self.pixmaps.insert(id, Canvas::new(size));
                }
            }
            RecordKind::PixmapDestroy { id } => self.destroy(id),
            _ => {}
        }
    }

    /// Draws something where records were lost.
    pub(crate) fn lost(&mut self, rects: &[Rect], seed: u64) {
        self.end_copy();
        rects.iter().for_each(|rect| draw(&mut self.screen, *rect, DrawHint::Other, seed, 0));
    }

    fn destroy(&mut self, id: DrawableId) {
        if let Some(canvas) = self.pixmaps.remove(&id) {
            self.area -= canvas.size.area();
        }
    }

    fn canvas(&mut self, id: DrawableId) -> Option<&mut Canvas> {
        if id == DrawableId::SCREEN { Some(&mut self.screen) } else { self.pixmaps.get_mut(&id) }
    }

    fn end_copy(&mut self) {
        let Some(PendingCopy { op, src, dst, region, vector: (dx, dy) }) = self.pending.take()
        else {
            return;
        };
        if src == dst {
            if let Some(canvas) = self.canvas(dst) {
                canvas.move_within(&region, dx, dy);
            }
            return;
        }
        // Taken out, so that source and target can be borrowed together.
        let source = if src == DrawableId::SCREEN {
            Some(std::mem::take(&mut self.screen))
        } else {
            self.pixmaps.remove(&src)
        };
        if let Some(target) = self.canvas(dst) {
            for rect in region.rects() {
                match &source {
                    Some(source) => target.copy_from(source, *rect, dx, dy),
                    None => draw(target, *rect, DrawHint::Image, op, src.0),
                }
            }
        }
        match source {
            Some(source) if src == DrawableId::SCREEN => self.screen = source,
            Some(source) => drop(self.pixmaps.insert(src, source)),
            None => {}
        }
    }
}

fn draw(canvas: &mut Canvas, rect: Rect, hint: DrawHint, op: u64, window: u32) {
    let seed = mix(op);
    match hint {
        DrawHint::Solid(color) => canvas.paint(rect, |_, _, _| color),
        // The same for all of a window, as a tile is.
        DrawHint::Pattern => {
            let pair = [mix(u64::from(window)) as u32, mix(u64::from(window) + 1) as u32];
            canvas.paint(rect, |x, y, _| pair[((x ^ y) >> 2 & 1) as usize]);
        }
        DrawHint::Glyphs => {
            let inside = rect.intersect(&canvas.size.rect());
            let below = if inside.is_empty() {
                0
            } else {
                canvas.row(inside.x1, inside.x1 + 1, inside.y1)[0]
            };
            // Dark on light, or light on dark.
            let ink = if below & 0x0080_8080 == 0 { 0x00e0_e0e0 } else { 0x0020_2020 };
            canvas.paint(rect, |x, y, pixel| {
                let (column, line) = ((x - rect.x1) / GLYPH.0, (y - rect.y1) / GLYPH.1);
                let (in_x, in_y) = ((x - rect.x1) % GLYPH.0, (y - rect.y1) % GLYPH.1);
                let glyph = mix(seed ^ (column as u64) << 32 ^ line as u64);
                let margin = in_x == GLYPH.0 - 1 || !(2..12).contains(&in_y);
                let stroke = glyph >> (in_x / 2 + in_y / 3 * 3) & 1 != 0;
                if !margin && stroke { ink } else { pixel }
            });
        }
        DrawHint::Image | DrawHint::Stereo { .. } | DrawHint::Video { .. } => {
            canvas.paint(rect, |x, y, _| {
                let cell = mix(seed ^ ((x >> 3) as u64) << 32 ^ (y >> 3) as u64) as u32;
                let grain = mix(seed ^ (x as u64) << 32 ^ y as u64) as u32 & 0x0007_0707;
                (cell & 0x00f8_f8f8) | grain
            })
        }
        DrawHint::Composite => {
            let color = seed as u32 & 0x00c0_c0c0;
            canvas.paint(rect, |_, y, _| color + ((y - rect.y1) as u32 & 0x3f) * 0x0001_0101);
        }
        DrawHint::Other => {
            canvas.paint(rect, |x, y, pixel| if (x + y) & 3 == 0 { seed as u32 } else { pixel })
        }
    }
}

/// splitmix64: every bit of the result depends on every bit of the input.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use thinc_ring::Alpha;

    use super::*;

    fn record(op: u64, more: bool, kind: RecordKind) -> DrawRecord {
        DrawRecord { op, more, window: 1, kind }
    }

    fn image(dst: DrawableId, rect: Rect) -> RecordKind {
        RecordKind::Draw { dst, rect, hint: DrawHint::Image, alpha: Alpha::Opaque }
    }

    fn copy(src: DrawableId, dst: DrawableId, rect: Rect, dy: i32) -> RecordKind {
        RecordKind::Copy { src, dst, rect, dx: 0, dy, over: false }
    }

    #[test]
    fn a_scroll_in_a_pixmap_is_a_scroll_on_the_screen() {
        let (screen, pixmap) = (DrawableId::SCREEN, DrawableId(5));
        let mut synthetic = SyntheticScreen::default();
        synthetic.geometry(Size { width: 64, height: 64 });
        let all = Rect::new(0, 0, 64, 64);
        let create = RecordKind::PixmapCreate { id: pixmap, width: 64, height: 64, opaque: true };
        synthetic.record(&record(0, false, create));
        synthetic.record(&record(1, false, image(pixmap, all)));
        synthetic.record(&record(2, false, copy(pixmap, screen, all, 0)));
        let before = synthetic.screen.pixels.clone();
        // Two records of one op: the second reads what the first has overwritten.
        synthetic.record(&record(3, true, copy(pixmap, pixmap, Rect::new(0, 10, 64, 30), 10)));
        synthetic.record(&record(3, false, copy(pixmap, pixmap, Rect::new(0, 30, 64, 64), 10)));
        synthetic.record(&record(4, false, copy(pixmap, screen, all, 0)));
        assert_eq!(synthetic.screen.pixels[10 * 64..], before[..54 * 64], "ten rows further down");
        assert_eq!(synthetic.screen.pixels[..10 * 64], before[..10 * 64]);
        assert!(
            before.iter().any(|&pixel| pixel != before[0]),
            "an image has more than one colour"
        );
    }
}
