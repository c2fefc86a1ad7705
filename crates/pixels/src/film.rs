//! Path 8/13: from plan.rs and back, where a moving area is sent as a video.
//! Which changed pixels of the area are the video's, and which are text before it, that stays exact.
//! Knows one area, and how long each of its pixels has stood still; in doubt it says text, which costs bytes.
//!
//! Cells are told by two signs. A letter's pixels stand still while the video changes behind them, and differ much from it: an edge beside a pixel
//! that stands still is not the video's. What opens over a video, a menu or a dialog, has not stood there yet; but it has edges on ground of one
//! colour, which pictures from a camera never have in one cell.

use thinc_region::{Rect, Region};

use crate::changes::Changes;
use crate::hint::{Claim, Hints};
use crate::{RGB, Snapshot};

/// 24 levels in one channel, as photographs have it (`photo.rs`).
const EDGE: u8 = 24;
/// A third of the neighbours in a cell: where more are equal, edges are those of letters and lines.
const EQUAL: (u32, u32) = (1, 3);
/// Of the frames in which a cell changed so many without it, and a pixel stands still.
const STILL_MIN: u8 = 4;
const CELL: usize = crate::changes::CELL as usize;
/// Most rectangles of a frame's clip, and most cells in part; past it cells stay exact, those in part first.
const CLIP_RECTS_MAX: usize = 1024;

/// A moving area that is sent as a video, for as long as its stream lasts.
#[derive(Debug)]
pub struct Film {
    place: Rect,
    /// Frames in which its cell changed since each pixel did, row by row.
    still: Vec<u8>,
    /// Whole cells, and parts of cells, of the frame at hand.
    cells: Vec<Rect>,
    clip: Region,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// An edge lies beside a pixel that stands still.
    overlaid: bool,
    edges: bool,
    equal: u32,
    pairs: u32,
}

impl Look {
    fn is_video(&self) -> bool {
        let letters = self.edges && self.equal * EQUAL.1 > self.pairs * EQUAL.0;
        !(self.overlaid || letters)
    }
}

impl Film {
    /// Of an area, each pixel of which is taken for still until it has changed.
    pub fn new(place: Rect) -> Film {
        Film { place, still: vec![u8::MAX; place.area() as usize], cells: Vec::new(), clip: Region::new() }
    }

    /// The area.
    pub fn place(&self) -> Rect {
        self.place
    }

    /// What of the last plan was the video's: none of it is among what was planned.
    pub fn clip(&self) -> &Region {
        &self.clip
    }

    /// Looks at what changed, before the shadow (`old`) shows it.
    pub(crate) fn note<'a>(
        &mut self,
        changes: &Changes,
        snapshot: &Snapshot,
        old: impl Fn(i32, i32, i32) -> &'a [u32],
    ) {
        let (stride, place) = (self.place.width() as usize, self.place);
        for (at, bounds) in changes.cells.iter().enumerate() {
            if bounds.is_empty() || !bounds.overlaps(&place) {
                continue;
            }
            let cell = changes.grid.cell(at % changes.grid.columns, at / changes.grid.columns).intersect(&place);
            for y in cell.y1..cell.y2 {
                let start = (y - place.y1) as usize * stride + (cell.x1 - place.x1) as usize;
                let still = &mut self.still[start..][..cell.width() as usize];
                still.iter_mut().for_each(|frames| *frames = frames.saturating_add(1));
                if y < bounds.y1 || y >= bounds.y2 {
                    continue;
                }
                let part = bounds.intersect(&cell);
                if part.is_empty() || !snapshot.holds(&Rect { y1: y, y2: y + 1, ..part }) {
                    continue;
                }
                let new = snapshot.row(part.x1, part.x2, y);
                let still = &mut still[(part.x1 - cell.x1) as usize..];
                for ((frames, new), old) in still.iter_mut().zip(new).zip(old(part.x1, part.x2, y)) {
                    *frames = if (new ^ old) & RGB == 0 { *frames } else { 0 };
                }
            }
        }
    }

    /// Finds the clip in what changed.
    pub(crate) fn find(&mut self, changes: &Changes, snapshot: &Snapshot, hints: &Hints<'_>) -> &Region {
        let place = self.place;
        self.cells.clear();
        let text = |rect: &Rect| hints.parts.iter().any(|hint| hint.claim == Claim::Text && hint.rect.overlaps(rect));
        for (at, bounds) in changes.cells.iter().enumerate() {
            let bounds = bounds.intersect(&place);
            if bounds.is_empty() {
                continue;
            }
            let cell = changes.grid.cell(at % changes.grid.columns, at / changes.grid.columns).intersect(&place);
            // Where there is no edge in all of the cell, what did not change is the video's too: few rectangles, in bands. Else a window's
            // straight edge before the video leaves a part of the cell that is the video's alone.
            let held = |part: &Rect| snapshot.holds(part) && !text(part);
            let part = if bounds != cell && held(&cell) && !self.look(&cell, snapshot).edges {
                Some(cell)
            } else {
                Some(bounds).filter(|part| held(part) && self.look(part, snapshot).is_video())
            };
            self.cells.extend(part);
        }
        // Whole cells come in bands and join; each ragged one is fitted in between, so only so many of them are worth it.
        let whole = |rect: &Rect| rect.area() as usize == CELL * CELL;
        self.clip = self.cells.iter().filter(|rect| whole(rect)).copied().collect();
        self.cells.iter().filter(|rect| !whole(rect)).take(CLIP_RECTS_MAX).for_each(|rect| self.clip.add_rect(*rect));
        if self.clip.rect_count() > CLIP_RECTS_MAX {
            // Ragged beyond use.
            self.clip = self.cells.iter().filter(|rect| whole(rect)).copied().collect();
        }
        if self.clip.rect_count() > CLIP_RECTS_MAX {
            // A chessboard: what is below stays exact.
            self.clip = self.clip.rects()[..CLIP_RECTS_MAX].iter().copied().collect();
        }
        &self.clip
    }

    fn look(&self, rect: &Rect, snapshot: &Snapshot) -> Look {
        let (stride, width) = (self.place.width() as usize, rect.width() as usize);
        let mut look = Look::default();
        let mut above: Option<(&[u32], &[u8])> = None;
        for (y, row) in (rect.y1..).zip(snapshot.rows(rect)) {
            let start = (y - self.place.y1) as usize * stride + (rect.x1 - self.place.x1) as usize;
            let still = &self.still[start..][..width];
            look.pairs(&row[1..], &row[..width - 1], &still[1..], &still[..width - 1]);
            if let Some((pixels, frames)) = above {
                look.pairs(row, pixels, still, frames);
            }
            above = Some((row, still));
        }
        look
    }
}

impl Look {
    /// Compares pixels with those beside them, without a branch.
    fn pairs(&mut self, a: &[u32], b: &[u32], still_a: &[u8], still_b: &[u8]) {
        let (mut edges, mut overlaid, mut equal) = (0u8, 0u8, 0u32);
        for (((&a, &b), &still_a), &still_b) in a.iter().zip(b).zip(still_a).zip(still_b) {
            let (p, q) = ((a & RGB).to_le_bytes(), (b & RGB).to_le_bytes());
            let differs = p[0].abs_diff(q[0]).max(p[1].abs_diff(q[1])).max(p[2].abs_diff(q[2]));
            let edge = u8::from(differs >= EDGE);
            edges |= edge;
            overlaid |= edge & u8::from(still_a.max(still_b) >= STILL_MIN);
            equal += u32::from(differs == 0);
        }
        self.edges |= edges != 0;
        self.overlaid |= overlaid != 0;
        self.equal += equal;
        self.pairs += a.len() as u32;
    }
}
