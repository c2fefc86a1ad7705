//! Path 4/13: under mod.rs.
//! One drawable: what its tiles were drawn as, where else its pixels are, and where it changed
//! recently. Knows itself; mod.rs knows the others.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawableId};

use super::changes::{Changes, Stamp};
use super::equal::KnownCopies;
use super::grid::{Grid, TilePool};
use super::tile::Brush;
use super::translucency::Translucent;
use super::video::VideoRects;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;

/// The contents of one drawable, as far as they are known.
#[derive(Debug)]
pub(super) struct DrawableMap {
    pub(super) id: DrawableId,
    pub(super) grid: Grid,
    pub(super) translucent: Translucent,
    pub(super) videos: VideoRects,
    /// Where on the screen its pixels are.
    pub(super) on_screen: KnownCopies<()>,
    /// Where in other pixmaps its pixels are.
    pub(super) in_pixmaps: KnownCopies<DrawableId>,
    pub(super) changes: Changes,
    /// Reference bit of the clock algorithm: drawn on or copied from since the last search for a
    /// map to evict.
    pub(super) used: bool,
    #[cfg(feature = "mutations")]
    pub(super) mutation: Option<Mutation>,
}

impl DrawableMap {
    pub(super) fn new(id: DrawableId, size: Size, opaque: bool, now: Stamp) -> DrawableMap {
        DrawableMap {
            id,
            grid: Grid::new(size),
            translucent: Translucent::new(size.rect(), opaque),
            videos: VideoRects::new(),
            on_screen: KnownCopies::new(),
            in_pixmaps: KnownCopies::new(),
            changes: Changes::new(now),
            used: true,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// Becomes the map of another drawable, in the same memory.
    pub(super) fn reuse(
        &mut self,
        id: DrawableId,
        size: Size,
        opaque: bool,
        now: Stamp,
        pool: &mut TilePool,
    ) {
        self.grid.forget(pool);
        self.id = id;
        self.grid = Grid::new(size);
        self.translucent.reuse(size.rect(), opaque);
        self.videos.clear();
        self.on_screen.clear();
        self.in_pixmaps.clear();
        self.changes.forget(now);
        self.used = true;
    }

    pub(super) fn bounds(&self) -> Rect {
        self.grid.bounds()
    }

    /// A drawing in `rect`, which lies inside.
    pub(super) fn draw(
        &mut self,
        rect: &Rect,
        what: DrawHint,
        alpha: Alpha,
        now: Stamp,
        pool: &mut TilePool,
    ) {
        let brush = Brush::new(what, alpha);
        if !mutated!(self.mutation, SolidSurvivesDrawing) || brush.replaces().is_some() {
            self.grid.draw(rect, brush, pool);
        }
        self.translucent.draw(rect, alpha);
        match what {
            DrawHint::Video { port, .. } => self.videos.add(rect, port),
            _ => self.videos.cut(rect),
        }
        self.invalidate_own_copies(rect);
        self.record_change(rect, now);
    }

    /// Removes the equalities of these pixels from this map.
    pub(super) fn invalidate_own_copies(&mut self, rect: &Rect) {
        if !mutated!(self.mutation, EqualityIgnoresChangesHere) {
            self.on_screen.cut(rect);
            self.in_pixmaps.cut(rect);
        }
    }

    /// Records a change of these pixels, which ends the equalities that other maps have with them.
    pub(super) fn record_change(&mut self, rect: &Rect, now: Stamp) {
        if !mutated!(self.mutation, EqualityIgnoresChangesThere) {
            self.changes.note(rect, now);
        }
    }

    pub(super) fn check_invariants(&self) {
        self.grid.check_invariants();
        self.translucent.check_invariants();
        self.on_screen.check_invariants();
        self.in_pixmaps.check_invariants();
        self.changes.check_invariants();
    }
}
