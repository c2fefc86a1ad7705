//! Path 4/13: under mod.rs.
//! One drawable: what its tiles were drawn as, where its pixels are as well, and where it changed lately.
//! Knows itself; mod.rs knows the others.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawableId, Drawn};

use super::changes::{Changes, Stamp};
use super::equal::Equalities;
use super::grid::{Grid, Pool};
use super::opacity::Translucent;
use super::tile::Brush;
use super::video::Videos;
use crate::mutation::{Broken, Mutation};

/// What is known of one drawable.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) id: DrawableId,
    pub(super) grid: Grid,
    pub(super) translucent: Translucent,
    pub(super) videos: Videos,
    /// Where on the screen its pixels are.
    pub(super) shown: Equalities<()>,
    /// In which other pixmaps they are.
    pub(super) twins: Equalities<DrawableId>,
    pub(super) changes: Changes,
    /// Drawn on or copied from since the last look for one to forget.
    pub(super) used: bool,
}

impl Map {
    pub(super) fn new(id: DrawableId, size: Size, opaque: bool, now: Stamp) -> Map {
        Map {
            id,
            grid: Grid::new(size),
            translucent: Translucent::new(size.rect(), opaque),
            videos: Videos::new(),
            shown: Equalities::new(),
            twins: Equalities::new(),
            changes: Changes::new(now),
            used: true,
        }
    }

    /// Becomes the map of another drawable, in the same memory.
    pub(super) fn renew(&mut self, id: DrawableId, size: Size, opaque: bool, now: Stamp, pool: &mut Pool) {
        self.grid.forget(pool);
        self.id = id;
        self.grid = Grid::new(size);
        self.translucent.renew(size.rect(), opaque);
        self.videos.clear();
        self.shown.clear();
        self.twins.clear();
        self.changes.forget(now);
        self.used = true;
    }

    pub(super) fn bounds(&self) -> Rect {
        self.grid.bounds()
    }

    /// A drawing in `rect`, which lies inside.
    pub(super) fn draw(&mut self, rect: &Rect, what: Drawn, alpha: Alpha, now: Stamp, pool: &mut Pool, broken: Broken) {
        let brush = Brush::new(what, alpha);
        if !broken.is(Mutation::SolidSurvivesDrawing) || brush.replaces().is_some() {
            self.grid.draw(rect, brush, pool);
        }
        self.translucent.draw(rect, alpha);
        match what {
            Drawn::Video { port, .. } => self.videos.add(rect, port),
            _ => self.videos.cut(rect),
        }
        self.changed_here(rect, broken);
        self.changed_there(rect, now, broken);
    }

    /// What was equal to these pixels, as this map knows it, is not any more.
    pub(super) fn changed_here(&mut self, rect: &Rect, broken: Broken) {
        if !broken.is(Mutation::EqualityIgnoresChangesHere) {
            self.shown.cut(rect);
            self.twins.cut(rect);
        }
    }

    /// What was equal to these pixels, as other maps know it, is not any more.
    pub(super) fn changed_there(&mut self, rect: &Rect, now: Stamp, broken: Broken) {
        if !broken.is(Mutation::EqualityIgnoresChangesThere) {
            self.changes.note(rect, now);
        }
    }

    pub(super) fn check_invariants(&self) {
        self.grid.check_invariants();
        self.translucent.check_invariants();
        self.shown.check_invariants();
        self.twins.check_invariants();
        self.changes.check_invariants();
    }
}
