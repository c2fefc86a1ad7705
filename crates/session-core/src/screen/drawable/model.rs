//! Tests of the drawable maps: drawables with pixels, to check every claim of the maps. Each op
//! draws pixels and records, and every claim of the maps must hold after it: equalities, tiles,
//! videos, and what a viewer that relies on them shows.

use std::collections::BTreeMap;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};

use super::map::DrawableMap;
use super::tile::{TILE, Tile};
use super::{Part, Proposal};
use crate::screen::translate::{Drawing, Translator};

pub(super) const SCREEN: DrawableId = DrawableId::SCREEN;

/// A pixel, and what it was drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pixel {
    pub(super) argb: u32,
    /// Kinds that a tile with this pixel must have; a fill is `FILLS`.
    kinds: Tile,
    port: Option<u16>,
}

impl Pixel {
    fn rgb(self) -> u32 {
        self.argb & 0x00ff_ffff
    }

    fn alpha(self) -> u32 {
        self.argb >> 24
    }
}

#[derive(Clone, Debug)]
pub(super) struct Canvas {
    pub(super) size: Size,
    opaque: bool,
    pub(super) pixels: Vec<Pixel>,
    /// The driver reported it.
    reported: bool,
}

impl Canvas {
    fn new(size: Size, opaque: bool) -> Canvas {
        // Its initial content was there before.
        let argb = if opaque { 0xff00_0000 } else { 0 };
        let pixel = Pixel { argb, kinds: Tile::NOTHING, port: None };
        Canvas { size, opaque, pixels: vec![pixel; size.area() as usize], reported: false }
    }

    fn at(&self, x: i32, y: i32) -> usize {
        assert!(self.size.rect().contains_point(x, y), "({x}, {y}) lies in the drawable");
        (y * self.size.width as i32 + x) as usize
    }

    pub(super) fn pixel(&self, x: i32, y: i32) -> Pixel {
        self.pixels[self.at(x, y)]
    }

    fn put(&mut self, x: i32, y: i32, pixel: Pixel) {
        let at = self.at(x, y);
        self.pixels[at] =
            Pixel { argb: pixel.argb | if self.opaque { 0xff00_0000 } else { 0 }, ..pixel };
    }
}

pub(super) fn points(rect: Rect) -> impl Iterator<Item = (i32, i32)> {
    (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
}

/// What an op did to the screen, according to the translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeTotals {
    /// Pixels moved by derived COPYs.
    pub(super) moved: u64,
    pub(super) unchanged: u64,
    pub(super) drawn: u64,
}

/// An X server of a few drawables, the translator that reads its records, and a viewer that relies
/// on it.
pub(super) struct DrawableModel {
    pub(super) drawables: BTreeMap<DrawableId, Canvas>,
    pub(super) translator: Translator,
    viewer: Canvas,
    /// Changes of the screen that the viewer has not executed.
    drawn: Vec<Drawing>,
    op: u64,
    pub(super) next_id: u32,
    next_color: u32,
    pub(super) all: ChangeTotals,
}

impl DrawableModel {
    pub(super) fn new(size: Size) -> DrawableModel {
        let screen = Canvas { reported: true, ..Canvas::new(size, true) };
        DrawableModel {
            drawables: BTreeMap::from([(SCREEN, screen.clone())]),
            translator: Translator::new(size, true),
            viewer: screen,
            drawn: Vec::new(),
            op: 0,
            next_id: 1,
            next_color: 1,
            all: ChangeTotals::default(),
        }
    }

    pub(super) fn canvas(&self, id: DrawableId) -> &Canvas {
        &self.drawables[&id]
    }

    pub(super) fn create(&mut self, width: u32, height: u32, opaque: bool) -> DrawableId {
        let id = DrawableId(self.next_id);
        self.next_id += 1;
        self.drawables.insert(id, Canvas::new(Size { width, height }, opaque));
        id
    }

    pub(super) fn destroy(&mut self, id: DrawableId) {
        if self.drawables.remove(&id).is_some_and(|canvas| canvas.reported) {
            self.record(RecordKind::PixmapDestroy { id }, false);
        }
    }

    /// Another pixmap with a number that was used before, which no X server makes.
    pub(super) fn reuse(&mut self, id: DrawableId, width: u32, height: u32, opaque: bool) {
        self.drawables.insert(id, Canvas::new(Size { width, height }, opaque));
    }

    /// Like the driver: reports a pixmap at its first use.
    pub(super) fn tell(&mut self, id: DrawableId) {
        let Some(canvas) = self.drawables.get_mut(&id).filter(|canvas| !canvas.reported) else {
            return;
        };
        canvas.reported = true;
        let Canvas { size: Size { width, height }, opaque, .. } = *canvas;
        self.record(RecordKind::PixmapCreate { id, width, height, opaque }, false);
    }

    fn record(&mut self, kind: RecordKind, more: bool) {
        let drawn = self.translator.record(&DrawRecord { op: self.op, more, window: 1, kind });
        // It comes after the ops that ended before it.
        self.drawn.extend(
            std::iter::from_fn(|| self.translator.poll_drawing()).map(|(drawing, _)| drawing),
        );
        self.drawn.extend(drawn.map(|(rect, kinds)| Drawing::Draw { rect, kinds }));
    }

    /// A drawing of every rectangle, in one op. `seed` chooses among the pixels that need not
    /// change.
    pub(super) fn draw(
        &mut self,
        id: DrawableId,
        rects: &[Rect],
        what: DrawHint,
        alpha: Alpha,
    ) -> ChangeTotals {
        self.tell(id);
        self.op += 1;
        self.paint(id, rects, what, alpha);
        for (i, &rect) in rects.iter().enumerate() {
            self.record(RecordKind::Draw { dst: id, rect, hint: what, alpha }, i + 1 < rects.len());
        }
        self.check()
    }

    /// The pixels of a drawing, without its records.
    pub(super) fn paint(&mut self, id: DrawableId, rects: &[Rect], what: DrawHint, alpha: Alpha) {
        let Some(canvas) = self.drawables.get_mut(&id) else { return };
        for (x, y) in rects.iter().copied().flat_map(points) {
            self.next_color = (self.next_color + 1) & 0xff_ffff;
            let before = canvas.pixel(x, y);
            let sparse = self.next_color.is_multiple_of(3);
            let opacity = match alpha {
                Alpha::Opaque => 255,
                Alpha::Kept => before.alpha(),
                Alpha::Unknown => self.next_color % 2 * 100,
            };
            let own = |kinds| Pixel { argb: self.next_color | opacity << 24, kinds, port: None };
            let after = match what {
                DrawHint::Solid(rgb) => {
                    Pixel { argb: rgb | opacity << 24, kinds: Tile::FILLS, port: None }
                }
                DrawHint::Pattern if alpha == Alpha::Opaque || sparse => own(Tile::PATTERN),
                DrawHint::Glyphs if sparse => own(Tile::GLYPHS),
                DrawHint::Image | DrawHint::Stereo { .. } => own(Tile::IMAGE),
                // The earlier content shows through.
                DrawHint::Composite => {
                    Pixel { kinds: before.kinds | Tile::OTHER, ..own(Tile::OTHER) }
                }
                DrawHint::Video { port, .. } => Pixel { port: Some(port), ..own(Tile::VIDEO) },
                DrawHint::Other if sparse => own(Tile::OTHER),
                DrawHint::Pattern | DrawHint::Glyphs | DrawHint::Other
                    if alpha == Alpha::Opaque =>
                {
                    Pixel { argb: before.argb | 0xff00_0000, ..before }
                }
                DrawHint::Pattern | DrawHint::Glyphs | DrawHint::Other => before,
            };
            canvas.put(x, y, after);
        }
    }

    /// One op's copy; the rectangles lie in `dst`.
    pub(super) fn copy(
        &mut self,
        src: DrawableId,
        dst: DrawableId,
        rects: &[Rect],
        by: (i32, i32),
        over: bool,
    ) -> ChangeTotals {
        self.tell(src);
        self.tell(dst);
        self.op += 1;
        self.move_pixels(src, dst, rects, by, over);
        for (i, &rect) in rects.iter().enumerate() {
            let kind = RecordKind::Copy { src, dst, rect, dx: by.0, dy: by.1, over };
            self.record(kind, i + 1 < rects.len());
        }
        self.check()
    }

    fn move_pixels(
        &mut self,
        src: DrawableId,
        dst: DrawableId,
        rects: &[Rect],
        by: (i32, i32),
        over: bool,
    ) {
        let source = self.drawables[&src].clone();
        let Some(canvas) = self.drawables.get_mut(&dst) else { return };
        for (x, y) in rects.iter().copied().flat_map(points) {
            let from = source.pixel(x - by.0, y - by.1);
            let before = canvas.pixel(x, y);
            let after = match from.alpha() {
                255 => from,
                _ if !over => from,
                0 => before,
                alpha => Pixel {
                    argb: (before.rgb() ^ from.rgb().rotate_left(3)) & 0xff_ffff
                        | before.alpha().max(alpha) << 24,
                    kinds: before.kinds | from.kinds | Tile::OTHER,
                    port: None,
                },
            };
            canvas.put(x, y, after);
        }
    }

    /// Ops without records, then the Overflow record.
    pub(super) fn overflow(&mut self, lost: impl FnOnce(&mut DrawableModel)) {
        lost(self);
        for (&id, canvas) in &mut self.drawables {
            canvas.reported = id == SCREEN;
            canvas.pixels.iter_mut().for_each(|pixel| pixel.kinds = Tile::NOTHING);
        }
        self.op += 10;
        self.record(RecordKind::Overflow, false);
        // The dirty tiles bring the viewer up to date.
        self.drawn.clear();
        self.viewer = self.drawables[&SCREEN].clone();
        self.check();
    }

    pub(super) fn resize(&mut self, size: Size) {
        let screen = Canvas { reported: true, ..Canvas::new(size, true) };
        self.drawables.insert(SCREEN, screen.clone());
        for (&id, canvas) in &mut self.drawables {
            canvas.reported = id == SCREEN;
            canvas.pixels.iter_mut().for_each(|pixel| pixel.kinds = Tile::NOTHING);
        }
        self.viewer = screen;
        self.translator.reset(size);
        self.check();
    }

    /// Checks every claim against the pixels.
    ///
    /// # Panics
    /// If a claim is wrong.
    fn check(&mut self) -> ChangeTotals {
        let totals = self.show();
        self.all.moved += totals.moved;
        self.all.unchanged += totals.unchanged;
        self.all.drawn += totals.drawn;
        self.translator.drawables().check_invariants();
        for (&id, canvas) in self.drawables.iter().filter(|(_, canvas)| canvas.reported) {
            let maps = self.translator.drawables();
            let place = maps.place(id).expect("a pixmap that was reported is known");
            self.check_tiles(&maps.maps[place], canvas);
            self.check_equalities(id, &maps.maps[place], canvas);
        }
        self.check_parts();
        totals
    }

    /// A viewer that executes the changes shows the screen.
    fn show(&mut self) -> ChangeTotals {
        let mut totals = ChangeTotals::default();
        let screen = &self.drawables[&SCREEN];
        for drawing in self.drawn.drain(..) {
            match drawing {
                Drawing::Draw { rect, .. } => {
                    totals.drawn += rect.area();
                    points(rect).for_each(|(x, y)| self.viewer.put(x, y, screen.pixel(x, y)));
                }
                Drawing::Many(region) => {
                    totals.drawn += region.area();
                    for (x, y) in region.rects().iter().copied().flat_map(points) {
                        self.viewer.put(x, y, screen.pixel(x, y));
                    }
                }
                Drawing::Unchanged(rect) => totals.unchanged += rect.area(),
                Drawing::Copy { copy, proof, .. } => {
                    if proof == crate::queue::copies::Proof::Derived {
                        totals.moved += copy.region.area();
                    }
                    let before = self.viewer.clone();
                    for (x, y) in copy.region.rects().iter().copied().flat_map(points) {
                        self.viewer.put(x, y, before.pixel(x - copy.dx, y - copy.dy));
                    }
                }
            }
        }
        for (x, y) in points(screen.size.rect()) {
            assert_eq!(
                self.viewer.pixel(x, y).rgb(),
                screen.pixel(x, y).rgb(),
                "a viewer that executes the changes shows the screen at ({x}, {y}) after op {}",
                self.op
            );
        }
        totals
    }

    fn check_tiles(&self, map: &DrawableMap, canvas: &Canvas) {
        for (x, y) in points(canvas.size.rect()) {
            let (tile, pixel) =
                (map.grid.at((x / TILE) as usize, (y / TILE) as usize), canvas.pixel(x, y));
            let fault = |fault: &str| {
                panic!("{fault}: {:?} at ({x}, {y}), {tile:?}, {pixel:?}, op {}", map.id, self.op)
            };
            let kinds = if tile.has(Tile::SOLID) { tile | Tile::FILLS } else { tile };
            if pixel.kinds.without(kinds) != Tile::NOTHING {
                fault("a tile has its pixels' kinds");
            }
            if pixel.kinds == Tile::NOTHING && !tile.has(Tile::OTHER) {
                fault("a tile with unreported content is OTHER");
            }
            if matches!(tile.proposal(), Some(Proposal::Solid(rgb)) if rgb != pixel.rgb()) {
                fault("every pixel of a solid tile has its colour");
            }
            if pixel.alpha() != 255
                && !map.translucent.rects().iter().any(|rect| rect.contains_point(x, y))
            {
                fault("pixels outside the translucent rectangles are opaque");
            }
        }
        for (rect, port) in map.videos.iter() {
            assert!(
                points(rect).all(|(x, y)| canvas.pixel(x, y).port == Some(port)),
                "every pixel of a video rectangle is the port's, op {}",
                self.op
            );
        }
    }

    fn check_equalities(&self, id: DrawableId, map: &DrawableMap, canvas: &Canvas) {
        let maps = self.translator.drawables();
        let shown = map
            .on_screen
            .iter()
            .map(|equality| (SCREEN, equality.rect, equality.dx, equality.dy, equality.at));
        let in_pixmaps =
            map.in_pixmaps.iter().map(|twin| (twin.other, twin.rect, twin.dx, twin.dy, twin.at));
        let mut unchanged_rects = Vec::new();
        for (other, rect, dx, dy, at) in shown.chain(in_pixmaps) {
            assert!(canvas.size.rect().contains(&rect), "an equality lies in its drawable");
            // Equalities with destroyed drawables are ignored.
            let Some(place) = maps.place(other) else { continue };
            maps.maps[place].changes.unchanged_since(
                &rect.translate(dx, dy),
                at,
                &mut unchanged_rects,
            );
            for (x, y) in unchanged_rects.iter().copied().flat_map(points) {
                assert_eq!(
                    self.drawables[&other].pixel(x, y).rgb(),
                    canvas.pixel(x - dx, y - dy).rgb(),
                    "({x}, {y}) of {other:?} equals {rect:?} of {id:?}, op {}",
                    self.op
                );
            }
        }
    }

    fn check_parts(&self) {
        let screen = &self.drawables[&SCREEN];
        let mut parts = Vec::new();
        let region = Region::from(screen.size.rect());
        self.translator.drawables().parts(&region.extents(), &mut parts);
        let mut seen = Region::new();
        for Part { rect, what } in parts {
            assert!(
                !rect.is_empty() && screen.size.rect().contains(&rect),
                "a part lies in its region: {rect:?}"
            );
            assert!(!seen.overlaps_rect(&rect), "parts are disjoint: {rect:?}");
            seen.add_rect(rect);
            if let Proposal::Solid(rgb) = what {
                assert!(
                    points(rect).all(|(x, y)| screen.pixel(x, y).rgb() == rgb),
                    "every pixel of a solid part has its colour"
                );
            }
        }
    }
}
