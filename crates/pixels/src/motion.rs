//! Path 8/13: beside plan.rs, in each viewer's shadow; to areas.rs with what it has seen.
//! Which parts of the screen change like a video: nearly all of their pixels, again and again; browsers and GL say no more of theirs.
//! Knows how many pixels changed in each plan, when, and whether they have more than two colours; never what they show.
//!
//! Text leaves most pixels of its ground as they were, however fast it comes, so that no terminal is a video. What scrolls is
//! found as such (`shift.rs`) and begins anew, and so does what rests for a moment, as a slideshow does. What has two colours takes a
//! bit a pixel and less exactly, which no coded picture of noise or bars does.

use thinc_region::{Rect, Size};

use crate::areas::Areas;
use crate::kind::{self, Colors};
use crate::{Planned, RGB, Snapshot};

/// 64 pixels: edge of the tiles that are followed; 40 bytes each, so that a screen of 1920 x 1080 is 20 KiB.
pub(crate) const TILE: i32 = 64;
/// 16 pixels: edge of the cells in which changed pixels are counted.
pub(crate) const CELL: i32 = 16;
const CELLS: usize = (TILE / CELL) as usize;
/// Of what was drawn of a tile at least this share of the pixels changes: of text an eighth to a third does.
const SHARE: u32 = 2;
/// 512 pixels, an eighth of a tile: what is drawn of less tells nothing of it. A caret, a glyph, a clock's hand.
const LOOKED_MIN: u32 = 512;
/// A sixteenth of a tile: where so much changes beside a video it is a part of it, as the ground behind a head.
const STIRRED_MIN: u32 = (TILE * TILE / 16) as u32;
/// Of the last 16 plans in which something of a tile changed this many changed most of it.
const CHANGES_MIN: u32 = 12;
/// The same where it is a video already.
const CHANGES_KEPT: u32 = 4;
/// What moves is as large as its last 5 to 10 changes: fewer than it takes to be a video, so that the picture before it is forgotten.
const BOUNDS_KEPT: u8 = 5;
/// 0.4 s: a video changes more often, on a slow link too. A blinking banner does not.
const GAP_MAX: u64 = 400_000;
/// Three quarters: where so much of what was looked at in a rectangle is new at once, all of it is, if that was half of the rectangle.
const NEW: (u64, u64) = (3, 4);
const NEW_PART: u64 = 2;
/// 0.7 s: what changes for a shorter time is a menu that opens, a window that comes or a desk that is changed.
const LASTS_MIN: u64 = 700_000;
/// 0.4 s without a change, and 0.6 s more without an area that is found: a video that stutters for a second is over.
pub(crate) const REST: u64 = 600_000;

#[derive(Clone, Copy, Debug, Default)]
struct Tile {
    /// The last 16 plans in which something of it changed, the newest lowest: where most of it did, and where much did.
    most: u16,
    much: u16,
    /// When most of it changed for the first time of these, and for the last.
    since: u64,
    last: u64,
    /// When anything of it changed.
    seen: u64,
    /// What changed since these were taken last, and in the 5 changes before that.
    bounds: Rect,
    bounds_before: Rect,
    /// Changes until they are taken next.
    fresh: u8,
}

impl Tile {
    /// `most`: most of it is new, in more than two colours, which is given back. `goes_on`: it was drawn again and again since it was
    /// seen last, and only the path made a pause.
    fn note(&mut self, most: bool, changed: u32, bounds: Rect, goes_on: bool, now: u64) -> bool {
        let first = !goes_on && now.saturating_sub(self.seen) > GAP_MAX;
        if first {
            *self = Tile::default();
        }
        self.seen = now;
        if most {
            self.since = if self.most == 0 { now } else { self.since };
            self.last = now;
        }
        self.most = self.most << 1 | u16::from(most);
        self.much = self.much << 1 | u16::from(most || changed >= STIRRED_MIN);
        if self.fresh == 0 {
            self.bounds_before = std::mem::take(&mut self.bounds);
            self.fresh = BOUNDS_KEPT;
        }
        self.fresh -= 1;
        if !first {
            // What a video begins with is the page or the window round it.
            self.bounds = self.bounds.bound(&bounds);
        }
        most
    }

    fn is_video(&self, now: u64) -> bool {
        self.most.count_ones() >= CHANGES_MIN
            && now.saturating_sub(self.last) <= GAP_MAX
            && self.last.saturating_sub(self.since) >= LASTS_MIN
    }
}

/// What has changed in the last plans.
#[derive(Debug, Default)]
pub(crate) struct Motion {
    columns: usize,
    rows: usize,
    tiles: Vec<Tile>,
    /// Changed pixels of each cell in the plan at hand; cells of a tile lie together, row by row.
    changed: Vec<u16>,
    /// Pixels of each tile that the plan at hand looks at.
    looked: Vec<u32>,
    now: u64,
    /// Nearly all of this was new in the last plan.
    new: Option<Rect>,
    pub(crate) areas: Areas,
}

impl Motion {
    /// Of a screen on which nothing has moved.
    pub(crate) fn new(size: Size) -> Motion {
        let tiles = |edge: u32| edge.div_ceil(TILE as u32) as usize;
        let (columns, rows) = (tiles(size.width), tiles(size.height));
        Motion {
            columns,
            rows,
            tiles: vec![Tile::default(); columns * rows],
            changed: vec![0; columns * rows * CELLS * CELLS],
            looked: vec![0; columns * rows],
            now: 0,
            new: None,
            areas: Areas::default(),
        }
    }

    /// Counts the pixels of a row in which two differ.
    pub(crate) fn count(&mut self, x: i32, y: i32, new: &[u32], old: &[u32]) {
        let head = ((CELL - x % CELL) as usize).min(new.len());
        let mut enter = |x: i32, new: &[u32], old: &[u32]| {
            let changed = new.iter().zip(old).map(|(new, old)| u16::from((new ^ old) & RGB != 0)).sum::<u16>();
            self.changed[cell(x, y, self.columns)] += changed;
        };
        enter(x, &new[..head], &old[..head]);
        let (mut x, new, old) = (x + head as i32, &new[head..], &old[head..]);
        let (whole_new, new_tail) = new.as_chunks::<{ CELL as usize }>();
        let (whole_old, old_tail) = old.as_chunks::<{ CELL as usize }>();
        for (new, old) in whole_new.iter().zip(whole_old) {
            enter(x, new, old);
            x += CELL;
        }
        if !new_tail.is_empty() {
            enter(x, new_tail, old_tail);
        }
    }

    /// A plan has found these changes, once `shifts` were applied, and counted their pixels; `film` is a moving area whose frame it is.
    pub(crate) fn note(
        &mut self,
        snapshot: &Snapshot,
        changes: &[Rect],
        shifts: &[Planned],
        film: Option<Rect>,
        now: u64,
    ) {
        let region = snapshot.region();
        self.now = self.now.max(now);
        let (mut new, mut new_area) = (Rect::default(), 0);
        self.forget_scrolled(shifts);
        let columns = self.columns;
        if !changes.is_empty() {
            for rect in region.rects() {
                for (tile, part) in tiles(rect, columns) {
                    self.looked[tile] += part.area() as u32;
                }
            }
        }
        for rect in changes {
            for (tile, _) in tiles(rect, columns) {
                // The first change that meets a tile takes it all.
                let looked = std::mem::take(&mut self.looked[tile]);
                if looked == 0 {
                    continue;
                }
                let cells = &mut self.changed[tile * CELLS * CELLS..][..CELLS * CELLS];
                let changed = cells.iter().map(|&cell| u32::from(cell)).sum();
                if changed > 0 {
                    let whole = tile_rect(tile, columns);
                    let meets = changes.iter().map(|rect| rect.intersect(&whole)).filter(|part| !part.is_empty());
                    let bounds = meets.clone().fold(Rect::default(), |all, part| all.bound(&part));
                    let goes_on = film.is_some_and(|film| film.overlaps(&whole));
                    let most = looked >= LOOKED_MIN
                        && changed * SHARE >= looked
                        && meets.into_iter().any(|part| kind::colors(snapshot, &part) == Colors::More);
                    if self.tiles[tile].note(most, changed, bounds, goes_on, self.now) {
                        new = new.bound(&bounds);
                        new_area += bounds.area();
                    }
                }
            }
        }
        if !changes.is_empty() {
            region.rects().iter().for_each(|rect| tiles(rect, columns).for_each(|(tile, _)| self.looked[tile] = 0));
        }
        for rect in changes {
            for (tile, _) in tiles(rect, columns) {
                self.changed[tile * CELLS * CELLS..][..CELLS * CELLS].fill(0);
            }
        }
        // What has scrolled is not new. A frame of which a part was taken back is looked at but for that part.
        let parts = region.rects().iter().map(|rect| rect.intersect(&new)).filter(|part| !part.is_empty());
        let looked: u64 = parts.map(|part| part.area()).sum();
        let all = new_area * NEW.1 >= looked * NEW.0 && new_area * NEW_PART >= new.area();
        let all = shifts.is_empty() && new_area > 0 && all;
        self.new = all.then_some(new);
        self.find_areas();
    }

    /// Nearly all of this was new in the last plan, and none of it had scrolled.
    pub(crate) fn new_at_once(&self) -> Option<Rect> {
        self.new
    }

    /// What changes with a scroll, above or below it and beside it, changes because of it.
    fn forget_scrolled(&mut self, shifts: &[Planned]) {
        for shift in shifts {
            let Planned::Shift { region, dx, dy } = shift else { continue };
            let (to, width, height) = (region.extents(), i32::MAX / 4, i32::MAX / 4);
            // A small part of a video may be found elsewhere by chance.
            if region.area() < u64::from(2 * LOOKED_MIN * 16) {
                continue;
            }
            let across = Rect::new(-width, to.y1, width, to.y2);
            let down = Rect::new(to.x1, -height, to.x2, height);
            for (at, tile) in self.tiles.iter_mut().enumerate().filter(|(_, tile)| tile.most != 0) {
                let rect = tile_rect(at, self.columns);
                if *dx != 0 && rect.overlaps(&across) || *dy != 0 && rect.overlaps(&down) {
                    *tile = Tile::default();
                }
            }
        }
    }

    /// Whether all of a rectangle changes like a video.
    pub(crate) fn is_video(&self, rect: &Rect) -> bool {
        let mut tiles = tiles(rect, self.columns).peekable();
        tiles.peek().is_some() && tiles.all(|(tile, _)| self.tiles[tile].is_video(self.now))
    }

    /// Tiles that are videos, and those beside them that stir too, to rectangles.
    fn find_areas(&mut self) {
        let (columns, rows, now) = (self.columns, self.rows, self.now);
        let known = |at: usize| self.areas.overlap(&tile_rect(at, columns));
        let hot = |at: usize| {
            let tile = &self.tiles[at];
            tile.is_video(now)
                || tile.most.count_ones() >= CHANGES_KEPT && now.saturating_sub(tile.last) <= GAP_MAX && known(at)
        };
        let stirs = |at: usize| {
            let tile = &self.tiles[at];
            tile.much.count_ones() >= CHANGES_KEPT && now.saturating_sub(tile.seen) <= GAP_MAX
        };
        let mut found: Vec<Rect> = Vec::new();
        let mut seen: Vec<bool> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for first in 0..self.tiles.len() {
            if self.tiles[first].most == 0 || seen.get(first).is_some_and(|&seen| seen) || !hot(first) {
                continue;
            }
            seen.resize(self.tiles.len(), false);
            seen[first] = true;
            open.push(first);
            let mut all = Rect::default();
            while let Some(at) = open.pop() {
                let tile = &self.tiles[at];
                all = all.bound(&tile.bounds).bound(&tile.bounds_before);
                let (x, y) = (at % columns, at / columns);
                let beside = [
                    (x > 0).then(|| at - 1),
                    (x + 1 < columns).then(|| at + 1),
                    (y > 0).then(|| at - columns),
                    (y + 1 < rows).then(|| at + columns),
                ];
                for next in beside.into_iter().flatten() {
                    if !seen[next] && (stirs(next) || hot(next)) {
                        seen[next] = true;
                        open.push(next);
                    }
                }
            }
            found.push(all);
        }
        self.areas.follow(found, now);
    }
}

/// Where the cell of a pixel is counted.
fn cell(x: i32, y: i32, columns: usize) -> usize {
    let tile = (y / TILE) as usize * columns + (x / TILE) as usize;
    (tile * CELLS + (y % TILE / CELL) as usize) * CELLS + (x % TILE / CELL) as usize
}

fn tile_rect(tile: usize, columns: usize) -> Rect {
    Rect::at((tile % columns) as i32 * TILE, (tile / columns) as i32 * TILE, TILE, TILE)
}

/// The tiles that a rectangle meets, and with which part of it.
fn tiles(rect: &Rect, columns: usize) -> impl Iterator<Item = (usize, Rect)> + use<> {
    let rect = *rect;
    let first = |edge: i32| edge / TILE * TILE;
    (first(rect.y1)..rect.y2).step_by(TILE as usize).flat_map(move |y| {
        (first(rect.x1)..rect.x2).step_by(TILE as usize).map(move |x| {
            let tile = (y / TILE) as usize * columns + (x / TILE) as usize;
            (tile, Rect::at(x, y, TILE, TILE).intersect(&rect))
        })
    })
}
