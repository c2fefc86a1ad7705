//! Path 8/13: beside plan.rs, in each viewer's shadow.
//! Which parts of the screen change like a video: much of them, in nearly every plan; browsers and GL say no more of theirs.
//! Knows how much changed in each plan, not when: a plan is made when the one before has left, so a video is in every one.

use thinc_region::{Rect, Size};

/// 64 pixels: edge of the tiles that are followed; 6 bytes each, so that a screen of 1920 x 1080 is 3 KiB.
const TILE: i32 = 64;
/// A tile changes in a plan where at least this share of it does: a caret, a clock and a line of text do not.
const SHARE: u32 = 2;
/// Of the last 16 plans this many have to change a tile: frames are left out where the link is slow.
const CHANGES_MIN: u32 = 12;

#[derive(Clone, Copy, Debug, Default)]
struct Tile {
    /// The plan of the newest change.
    plan: u32,
    /// That one and the 15 before it, the newest lowest: in which the tile changed.
    history: u16,
}

impl Tile {
    /// The history as of a plan.
    fn history_at(self, plan: u32) -> u16 {
        self.history.checked_shl(plan.wrapping_sub(self.plan)).unwrap_or(0)
    }
}

/// What has changed in the last plans.
#[derive(Debug)]
pub(crate) struct Motion {
    columns: usize,
    tiles: Vec<Tile>,
    /// Pixels of each tile that changed in the plan at hand.
    changed: Vec<u32>,
    plan: u32,
}

impl Motion {
    /// Of a screen on which nothing has moved.
    pub(crate) fn new(size: Size) -> Motion {
        let tiles = |edge: u32| edge.div_ceil(TILE as u32) as usize;
        let count = tiles(size.width) * tiles(size.height);
        Motion { columns: tiles(size.width), tiles: vec![Tile::default(); count], changed: vec![0; count], plan: 0 }
    }

    /// A plan begins that sends these.
    pub(crate) fn note(&mut self, rects: &[Rect]) {
        self.plan = self.plan.wrapping_add(1);
        let columns = self.columns;
        for rect in rects {
            for (tile, part) in tiles(rect, columns) {
                self.changed[tile] += part.area() as u32;
            }
        }
        for rect in rects {
            for (tile, _) in tiles(rect, columns) {
                // The first rectangle that meets a tile takes it all.
                if std::mem::take(&mut self.changed[tile]) * SHARE >= (TILE * TILE) as u32 {
                    let history = self.tiles[tile].history_at(self.plan) | 1;
                    self.tiles[tile] = Tile { plan: self.plan, history };
                }
            }
        }
    }

    /// Whether all of a rectangle changes like a video.
    pub(crate) fn is_video(&self, rect: &Rect) -> bool {
        let mut tiles = tiles(rect, self.columns).peekable();
        tiles.peek().is_some()
            && tiles.all(|(tile, _)| self.tiles[tile].history_at(self.plan).count_ones() >= CHANGES_MIN)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 300, height: 200 };
    const PLAYER: Rect = Rect::new(64, 64, 256, 192);

    #[test]
    fn what_changes_in_nearly_every_plan_is_a_video_and_soon_no_more() {
        let mut motion = Motion::new(SIZE);
        for frame in 0..16 {
            assert_eq!(motion.is_video(&PLAYER), frame >= CHANGES_MIN, "after {frame} frames");
            motion.note(&[PLAYER]);
        }
        assert!(!motion.is_video(&Rect { x1: 0, ..PLAYER }) && !motion.is_video(&Rect::default()));
        // Three plans of sixteen without it, here and there, and it still is one.
        for frame in 0..32 {
            motion.note(if frame % 5 == 0 { &[] } else { &[PLAYER] });
            assert!(motion.is_video(&PLAYER), "frame {frame}");
        }
        for _ in 0..16 - CHANGES_MIN + 4 {
            motion.note(&[Rect::at(0, 0, 9, 9)]);
        }
        assert!(!motion.is_video(&PLAYER), "it was paused");
        for _ in 0..70_000 {
            motion.note(&[]);
        }
        motion.note(&[PLAYER]);
        assert!(!motion.is_video(&PLAYER));
    }

    #[test]
    fn small_changes_are_none() {
        let mut motion = Motion::new(SIZE);
        for _ in 0..40 {
            // A caret and a clock; a change as large as half a tile, but in four of them.
            motion.note(&[Rect::at(70, 70, 2, 16), Rect::at(200, 100, 60, 20), Rect::at(96, 32, 64, 32)]);
        }
        assert!((0..3).all(|y| (0..4).all(|x| !motion.is_video(&Rect::at(x * 64, y * 64, 44, 44)))));
    }
}
