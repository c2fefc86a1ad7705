//! Path 8/13: beside plan.rs, in each viewer's shadow; to video_areas.rs with the areas it detects.
//! Detects which parts of the screen change like a video: most of their pixels, repeatedly.
//! Browsers and GL applications give no other sign of their videos.
//! Knows how many pixels changed in each plan, when, and whether they have more than two colours.
//!
//! Text, however fast, leaves most pixels of its background unchanged, so a terminal is no video.
//! Scrolling is detected as such (`shift.rs`) and resets its tiles, as does a pause, for example of
//! a slideshow. Two colours cost at most a bit per pixel losslessly, less than a coded frame of
//! noise or bars.

use thinc_region::{Rect, Size};

use crate::kind::{self, Colors};
use crate::video_areas::VideoAreas;
use crate::{Planned, RGB, Snapshot};

/// 64 pixels: edge of the tiles that are tracked. A tile takes 40 bytes, a screen of 1920 x 1080
/// 20 KiB.
pub(crate) const TILE: i32 = 64;
/// 16 pixels: edge of the cells in which changed pixels are counted.
pub(crate) const CELL: i32 = 16;
const CELLS: usize = (TILE / CELL) as usize;
/// Half of a tile's examined pixels must change; of text an eighth to a third do.
const CHANGED_SHARE: u32 = 2;
/// 512 pixels, an eighth of a tile: smaller drawings (a caret, a glyph, a clock) are no evidence.
const EXAMINED_MIN: u32 = 512;
/// A sixteenth of a tile: so much change next to a video belongs to it, as the background behind a
/// head does.
const MUCH_MIN: u32 = (TILE * TILE / 16) as u32;
/// 12 of the last 16 plans in which a tile changed must have changed most of it.
const CHANGES_MIN: u32 = 12;
/// The same for a tile that is a video already.
const CHANGES_KEPT: u32 = 4;
/// A video's bounds are those of its last 5 to 10 changes: fewer than its detection takes, so that
/// the page before it is not included.
const BOUNDS_CHANGES: u8 = 5;
/// 0.4 s: longest time between two changes of a video, on a slow link too; a blinking banner's is
/// longer.
const GAP_MAX: u64 = 400_000;
/// Three quarters: if so many of the examined pixels of a rectangle are new in one plan, and they
/// are half of the rectangle, it counts as fully changed.
const FULLY_CHANGED: (u64, u64) = (3, 4);
const FULLY_CHANGED_PART: u64 = 2;
/// 0.7 s: shorter changes are an opening menu, a new window or a switched workspace.
const DURATION_MIN: u64 = 700_000;
/// 0.6 s without a detected area, after GAP_MAX without a change: a video that pauses for a second
/// is over.
pub(crate) const REST_MAX: u64 = 600_000;

#[derive(Clone, Copy, Debug, Default)]
struct Tile {
    /// One bit for each of the last 16 plans in which it changed, the newest lowest: whether most
    /// of it changed, and whether much did.
    most: u16,
    much: u16,
    /// When most of it changed for the first and the last time among these.
    since: u64,
    last: u64,
    /// When it last changed.
    seen: u64,
    /// Bounds of the changes in the current group of 5, and in the group before it.
    bounds: Rect,
    bounds_before: Rect,
    /// Changes until the current group is complete.
    group_left: u8,
}

impl Tile {
    /// Records a change and returns `most`: whether most of it changed, in more than two colours.
    /// `continues`: it belongs to a video, so a pause since the last change was the path's.
    fn record(
        &mut self,
        most: bool,
        changed: u32,
        bounds: Rect,
        continues: bool,
        now: u64,
    ) -> bool {
        let first = !continues && now.saturating_sub(self.seen) > GAP_MAX;
        if first {
            *self = Tile::default();
        }
        self.seen = now;
        if most {
            self.since = if self.most == 0 { now } else { self.since };
            self.last = now;
        }
        self.most = self.most << 1 | u16::from(most);
        self.much = self.much << 1 | u16::from(most || changed >= MUCH_MIN);
        if self.group_left == 0 {
            self.bounds_before = std::mem::take(&mut self.bounds);
            self.group_left = BOUNDS_CHANGES;
        }
        self.group_left -= 1;
        if !first {
            // The first change of a video is the page or the window around it.
            self.bounds = self.bounds.bound(&bounds);
        }
        most
    }

    fn is_video(&self, now: u64) -> bool {
        self.most.count_ones() >= CHANGES_MIN
            && now.saturating_sub(self.last) <= GAP_MAX
            && self.last.saturating_sub(self.since) >= DURATION_MIN
    }
}

/// Detects what changes like a video, from plan to plan.
#[derive(Debug, Default)]
pub(crate) struct Motion {
    columns: usize,
    rows: usize,
    tiles: Vec<Tile>,
    /// Changed pixels of each cell in the current plan; cells of a tile are adjacent, row by row.
    changed: Vec<u16>,
    /// Pixels of each tile that the current plan examines.
    examined: Vec<u32>,
    now: u64,
    /// What the last plan changed fully.
    fully_changed: Option<Rect>,
    pub(crate) areas: VideoAreas,
}

impl Motion {
    /// Of a screen that has not changed yet.
    pub(crate) fn new(size: Size) -> Motion {
        let tiles = |edge: u32| edge.div_ceil(TILE as u32) as usize;
        let (columns, rows) = (tiles(size.width), tiles(size.height));
        Motion {
            columns,
            rows,
            tiles: vec![Tile::default(); columns * rows],
            changed: vec![0; columns * rows * CELLS * CELLS],
            examined: vec![0; columns * rows],
            now: 0,
            fully_changed: None,
            areas: VideoAreas::default(),
        }
    }

    /// Counts the pixels in which two rows differ.
    pub(crate) fn count(&mut self, x: i32, y: i32, new: &[u32], old: &[u32]) {
        let head = ((CELL - x % CELL) as usize).min(new.len());
        let mut enter = |x: i32, new: &[u32], old: &[u32]| {
            let changed = new
                .iter()
                .zip(old)
                .map(|(new, old)| u16::from((new ^ old) & RGB != 0))
                .sum::<u16>();
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

    /// Evaluates a plan, whose changed pixels were counted after `shifts` were applied; `video` is
    /// the video area whose frame it is.
    pub(crate) fn record(
        &mut self,
        snapshot: &Snapshot,
        changes: &[Rect],
        shifts: &[Planned],
        video: Option<Rect>,
        now: u64,
    ) {
        let region = snapshot.region();
        self.now = self.now.max(now);
        let (mut new, mut new_area) = (Rect::default(), 0);
        self.reset_scrolled(shifts);
        let columns = self.columns;
        if !changes.is_empty() {
            for rect in region.rects() {
                for (tile, part) in tiles(rect, columns) {
                    self.examined[tile] += part.area() as u32;
                }
            }
        }
        for rect in changes {
            for (tile, _) in tiles(rect, columns) {
                // Each tile is evaluated once, with the first change that overlaps it.
                let examined = std::mem::take(&mut self.examined[tile]);
                if examined == 0 {
                    continue;
                }
                let cells = &mut self.changed[tile * CELLS * CELLS..][..CELLS * CELLS];
                let changed = cells.iter().map(|&cell| u32::from(cell)).sum();
                if changed > 0 {
                    let whole = tile_rect(tile, columns);
                    let overlaps = changes
                        .iter()
                        .map(|rect| rect.intersect(&whole))
                        .filter(|part| !part.is_empty());
                    let bounds =
                        overlaps.clone().fold(Rect::default(), |all, part| all.bound(&part));
                    let continues = video.is_some_and(|video| video.overlaps(&whole));
                    let most = examined >= EXAMINED_MIN
                        && changed * CHANGED_SHARE >= examined
                        && overlaps
                            .into_iter()
                            .any(|part| kind::colors(snapshot, &part) == Colors::More);
                    if self.tiles[tile].record(most, changed, bounds, continues, self.now) {
                        new = new.bound(&bounds);
                        new_area += bounds.area();
                    }
                }
            }
        }
        if !changes.is_empty() {
            region.rects().iter().for_each(|rect| {
                tiles(rect, columns).for_each(|(tile, _)| self.examined[tile] = 0)
            });
        }
        for rect in changes {
            for (tile, _) in tiles(rect, columns) {
                self.changed[tile * CELLS * CELLS..][..CELLS * CELLS].fill(0);
            }
        }
        // Scrolled pixels are not new. Parts of a frame that are not in the snapshot are not
        // counted.
        let parts =
            region.rects().iter().map(|rect| rect.intersect(&new)).filter(|part| !part.is_empty());
        let examined: u64 = parts.map(|part| part.area()).sum();
        let all = new_area * FULLY_CHANGED.1 >= examined * FULLY_CHANGED.0
            && new_area * FULLY_CHANGED_PART >= new.area();
        let all = shifts.is_empty() && new_area > 0 && all;
        self.fully_changed = all.then_some(new);
        self.find_areas();
    }

    /// A rectangle of which nearly all pixels were new in the last plan, and none had scrolled.
    pub(crate) fn fully_changed(&self) -> Option<Rect> {
        self.fully_changed
    }

    /// Resets tiles in line with a scrolled region: their changes are part of the scrolling.
    fn reset_scrolled(&mut self, shifts: &[Planned]) {
        for shift in shifts {
            let Planned::Shift { region, dx, dy } = shift else { continue };
            let (to, width, height) = (region.extents(), i32::MAX / 4, i32::MAX / 4);
            // A small part of a video may match another place by chance.
            if region.area() < u64::from(2 * EXAMINED_MIN * 16) {
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

    /// True if all of a rectangle changes like a video.
    pub(crate) fn is_video(&self, rect: &Rect) -> bool {
        let mut tiles = tiles(rect, self.columns).peekable();
        tiles.peek().is_some() && tiles.all(|(tile, _)| self.tiles[tile].is_video(self.now))
    }

    /// Joins the tiles of videos, and changing tiles next to them, to rectangles.
    fn find_areas(&mut self) {
        let (columns, rows, now) = (self.columns, self.rows, self.now);
        let known = |at: usize| self.areas.overlap(&tile_rect(at, columns));
        let is_video = |at: usize| {
            let tile = &self.tiles[at];
            tile.is_video(now)
                || tile.most.count_ones() >= CHANGES_KEPT
                    && now.saturating_sub(tile.last) <= GAP_MAX
                    && known(at)
        };
        let changes_much = |at: usize| {
            let tile = &self.tiles[at];
            tile.much.count_ones() >= CHANGES_KEPT && now.saturating_sub(tile.seen) <= GAP_MAX
        };
        let mut found: Vec<Rect> = Vec::new();
        let mut seen: Vec<bool> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for first in 0..self.tiles.len() {
            if self.tiles[first].most == 0
                || seen.get(first).is_some_and(|&seen| seen)
                || !is_video(first)
            {
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
                    if !seen[next] && (changes_much(next) || is_video(next)) {
                        seen[next] = true;
                        open.push(next);
                    }
                }
            }
            found.push(all);
        }
        self.areas.update(found, now);
    }
}

/// Index in `changed` of a pixel's cell.
fn cell(x: i32, y: i32, columns: usize) -> usize {
    let tile = (y / TILE) as usize * columns + (x / TILE) as usize;
    (tile * CELLS + (y % TILE / CELL) as usize) * CELLS + (x % TILE / CELL) as usize
}

fn tile_rect(tile: usize, columns: usize) -> Rect {
    Rect::at((tile % columns) as i32 * TILE, (tile / columns) as i32 * TILE, TILE, TILE)
}

/// The tiles that a rectangle overlaps, and its part in each.
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
