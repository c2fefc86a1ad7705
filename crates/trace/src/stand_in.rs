//! Pixels for a trace that has none: drawn from its records, the same each time.
//! From replay.rs with a redacted trace, record by record, as the X server drew; to the pixels that viewers get.
//! Knows what a record says. Copies are copies to the pixel, through pixmaps too: what moved moves here as well.

use std::collections::HashMap;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, DrawableId, Drawn, RecordKind};

use crate::canvas::Canvas;

/// 64 Mi pixels, 256 MiB: of all pixmaps together. A pixmap past it is drawn anew whenever it is copied from.
const PIXMAPS_AREA_MAX: u64 = 64 * 1024 * 1024;
/// A letter of pseudo text and the space around it.
const LETTER: (i32, i32) = (7, 14);

/// A COPY whose records are coming: one region and one vector, all read before any is written.
#[derive(Debug)]
struct Moving {
    op: u64,
    src: DrawableId,
    dst: DrawableId,
    region: Region,
    vector: (i32, i32),
}

/// The screen and the pixmaps, as strangers may see them.
#[derive(Debug, Default)]
pub(crate) struct StandIn {
    pub(crate) screen: Canvas,
    pixmaps: HashMap<DrawableId, Canvas>,
    area: u64,
    moving: Option<Moving>,
}

impl StandIn {
    /// Another framebuffer.
    pub(crate) fn geometry(&mut self, size: Size) {
        self.moving = None;
        self.screen = Canvas::new(size);
    }

    /// Draws what a record tells.
    pub(crate) fn record(&mut self, record: &DrawRecord) {
        if let RecordKind::Copy { src, dst, rect, dx, dy, .. } = record.kind {
            let same =
                |moving: &Moving| (moving.op, moving.src, moving.dst, moving.vector) == (record.op, src, dst, (dx, dy));
            if !self.moving.as_ref().is_some_and(same) {
                self.end_copy();
                self.moving = Some(Moving { op: record.op, src, dst, region: Region::new(), vector: (dx, dy) });
            }
            self.moving.as_mut().expect("it was just made").region.add_rect(rect);
            if !record.more {
                self.end_copy();
            }
            return;
        }
        self.end_copy();
        match record.kind {
            RecordKind::Draw { dst, rect, what, .. } => {
                if let Some(canvas) = self.canvas(dst) {
                    draw(canvas, rect, what, record.op, record.window);
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

    /// What was drawn while no records were written is anything.
    pub(crate) fn lost(&mut self, rects: &[Rect], seed: u64) {
        self.end_copy();
        rects.iter().for_each(|rect| draw(&mut self.screen, *rect, Drawn::Other, seed, 0));
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
        let Some(Moving { op, src, dst, region, vector: (dx, dy) }) = self.moving.take() else { return };
        if src == dst {
            if let Some(canvas) = self.canvas(dst) {
                canvas.move_within(&region, dx, dy);
            }
            return;
        }
        // Out of its place, so that both can be held at once.
        let source =
            if src == DrawableId::SCREEN { Some(std::mem::take(&mut self.screen)) } else { self.pixmaps.remove(&src) };
        if let Some(target) = self.canvas(dst) {
            for rect in region.rects() {
                match &source {
                    Some(source) => target.copy_from(source, *rect, dx, dy),
                    None => draw(target, *rect, Drawn::Image, op, src.0),
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

fn draw(canvas: &mut Canvas, rect: Rect, what: Drawn, op: u64, window: u32) {
    let seed = mix(op);
    match what {
        Drawn::Solid(color) => canvas.paint(rect, |_, _, _| color),
        // The same wherever the same window is painted, as a tile is.
        Drawn::Pattern => {
            let pair = [mix(u64::from(window)) as u32, mix(u64::from(window) + 1) as u32];
            canvas.paint(rect, |x, y, _| pair[((x ^ y) >> 2 & 1) as usize]);
        }
        Drawn::Glyphs => {
            let inside = rect.intersect(&canvas.size.rect());
            let below = if inside.is_empty() { 0 } else { canvas.row(inside.x1, inside.x1 + 1, inside.y1)[0] };
            // Dark on light, light on dark.
            let ink = if below & 0x0080_8080 == 0 { 0x00e0_e0e0 } else { 0x0020_2020 };
            canvas.paint(rect, |x, y, pixel| {
                let (column, line) = ((x - rect.x1) / LETTER.0, (y - rect.y1) / LETTER.1);
                let (in_x, in_y) = ((x - rect.x1) % LETTER.0, (y - rect.y1) % LETTER.1);
                let letter = mix(seed ^ (column as u64) << 32 ^ line as u64);
                let margin = in_x == LETTER.0 - 1 || !(2..12).contains(&in_y);
                let stroke = letter >> (in_x / 2 + in_y / 3 * 3) & 1 != 0;
                if !margin && stroke { ink } else { pixel }
            });
        }
        Drawn::Image | Drawn::Video { .. } => canvas.paint(rect, |x, y, _| {
            let cell = mix(seed ^ ((x >> 3) as u64) << 32 ^ (y >> 3) as u64) as u32;
            let grain = mix(seed ^ (x as u64) << 32 ^ y as u64) as u32 & 0x0007_0707;
            (cell & 0x00f8_f8f8) | grain
        }),
        Drawn::Composite => {
            let color = seed as u32 & 0x00c0_c0c0;
            canvas.paint(rect, |_, y, _| color + ((y - rect.y1) as u32 & 0x3f) * 0x0001_0101);
        }
        Drawn::Other => canvas.paint(rect, |x, y, pixel| if (x + y) & 3 == 0 { seed as u32 } else { pixel }),
    }
}

/// splitmix64: every bit of the answer leans on every bit of the question.
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
        RecordKind::Draw { dst, rect, what: Drawn::Image, alpha: Alpha::Opaque }
    }

    fn copy(src: DrawableId, dst: DrawableId, rect: Rect, dy: i32) -> RecordKind {
        RecordKind::Copy { src, dst, rect, dx: 0, dy, over: false }
    }

    #[test]
    fn what_is_scrolled_in_a_pixmap_is_scrolled_on_the_screen() {
        let (screen, pixmap) = (DrawableId::SCREEN, DrawableId(5));
        let mut stand_in = StandIn::default();
        stand_in.geometry(Size { width: 64, height: 64 });
        let all = Rect::new(0, 0, 64, 64);
        let create = RecordKind::PixmapCreate { id: pixmap, width: 64, height: 64, opaque: true };
        stand_in.record(&record(0, false, create));
        stand_in.record(&record(1, false, image(pixmap, all)));
        stand_in.record(&record(2, false, copy(pixmap, screen, all, 0)));
        let before = stand_in.screen.pixels.clone();
        // Two records, one op: the second reads what the first has written over.
        stand_in.record(&record(3, true, copy(pixmap, pixmap, Rect::new(0, 10, 64, 30), 10)));
        stand_in.record(&record(3, false, copy(pixmap, pixmap, Rect::new(0, 30, 64, 64), 10)));
        stand_in.record(&record(4, false, copy(pixmap, screen, all, 0)));
        assert_eq!(stand_in.screen.pixels[10 * 64..], before[..54 * 64], "ten rows further down");
        assert_eq!(stand_in.screen.pixels[..10 * 64], before[..10 * 64]);
        assert!(before.iter().any(|&pixel| pixel != before[0]), "an image has more than one colour");
    }
}
