//! Path 8/13: under plan.rs, if a video area is sent as a video.
//! Separates the changed pixels of a video from text in front of it, which stays lossless.
//! Knows one area, and for how many frames each of its pixels has not changed; in doubt it decides
//! for text, which costs bytes.
//!
//! Two criteria decide for each cell. The pixels of text do not change while the video behind them
//! does, and contrast with it: an edge next to an unchanged pixel is not the video's. A menu or a
//! dialog that has just opened over a video has not been unchanged for long, but it has edges on a
//! background of one colour, which camera images never have within a cell.
//!
//! On a path that does not carry it, text that moves is the video's too. The second criterion then
//! only decides until the first can: a cell that had edges beside no unchanged pixel in four plans
//! has none that is at rest.
//!
//! Both need an edge. Most cells of a video have none, and are decided by one fast pass over their
//! pixels.

use thinc_region::{Rect, Region};

use crate::changes::Changes;
use crate::hint::{Claim, Hints};
use crate::{RGB, Snapshot};

/// 24 levels in one channel: an edge, as in `photo.rs`.
pub(crate) const EDGE: u8 = 24;
/// A third of a cell's pairs of neighbours: if more are equal, its edges are those of text and
/// lines.
const EQUAL: (u32, u32) = (1, 3);
/// 4 frames: a pixel that did not change in so many frames in which its cell did is unchanged.
const UNCHANGED_MIN: u8 = 4;
/// 4 of the last 16 plans: in so many a cell had text without an unchanged pixel beside its edges,
/// until it is text that moves. What is new then is unchanged by the first criterion if it rests.
/// Between two lines of credits there may be none for some plans.
const MOVING_MIN: u32 = UNCHANGED_MIN as u32;
/// 8 of the last 16 plans: a cell that changed in fewer did so seldom. Those of a video change in
/// most plans, and where one is typed into there are two or three glyphs.
const CHANGES_MIN: u32 = 8;
const CELL: usize = crate::changes::CELL as usize;
/// Most rectangles of a frame's clip, and most partial cells in it; cells beyond it stay lossless,
/// partial ones first.
const CLIP_RECTS_MAX: usize = 1024;

/// The mask of a video area that is sent as a video; it lives as long as the video stream.
#[derive(Debug)]
pub struct VideoMask {
    area: Rect,
    /// For each pixel, row by row: frames in which its cell changed and it did not.
    unchanged: Vec<u8>,
    /// For each cell that the area meets, row by row: in which of the last 16 plans it had such
    /// text; the newest is the lowest bit.
    moving: Vec<u16>,
    /// Likewise, in which of them it changed.
    changed: Vec<u16>,
    /// Text that moves is in the clip.
    takes_text: bool,
    /// Text that moves in the current frame.
    text: Vec<Rect>,
    /// Whole and partial cells of the current frame.
    cells: Vec<Rect>,
    clip: Region,
}

/// What the pixels of a cell have in common.
#[derive(Clone, Copy, Debug, Default)]
struct CellContent {
    /// An edge lies next to an unchanged pixel.
    overlaid: bool,
    edges: bool,
    equal: u32,
    pairs: u32,
}

impl CellContent {
    fn has_text(&self) -> bool {
        self.edges && self.equal * EQUAL.1 > self.pairs * EQUAL.0
    }

    fn is_video(&self) -> bool {
        !(self.overlaid || self.has_text())
    }
}

impl VideoMask {
    /// Of an area all of whose pixels count as unchanged until they change.
    pub fn new(area: Rect) -> VideoMask {
        let cells = columns(&area) * (at_cell(area.y2 - 1) - at_cell(area.y1) + 1) as usize;
        VideoMask {
            area,
            unchanged: vec![u8::MAX; area.area() as usize],
            moving: vec![0; cells],
            changed: vec![0; cells],
            takes_text: false,
            text: Vec::new(),
            cells: Vec::new(),
            clip: Region::new(),
        }
    }

    /// The area.
    pub fn area(&self) -> Rect {
        self.area
    }

    /// The video's pixels in the last plan: they are not among the planned pixels.
    pub fn clip(&self) -> &Region {
        &self.clip
    }

    /// From the next plan on, text that moves is in the clip, or not.
    pub fn set_takes_text(&mut self, takes_text: bool) {
        self.takes_text = takes_text;
    }

    /// Text that moved in the last plan, whether it is in the clip or not.
    pub fn moving_text(&self) -> Region {
        self.text.iter().copied().collect()
    }

    /// Records what changed, before the shadow (`old`) is updated.
    pub(crate) fn record<'a>(
        &mut self,
        changes: &Changes,
        snapshot: &Snapshot,
        old: impl Fn(i32, i32, i32) -> &'a [u32],
    ) {
        let (stride, area) = (self.area.width() as usize, self.area);
        for (at, bounds) in changes.cells.iter().enumerate() {
            if bounds.is_empty() || !bounds.overlaps(&area) {
                continue;
            }
            let cell = changes
                .grid
                .cell(at % changes.grid.columns, at / changes.grid.columns)
                .intersect(&area);
            for y in cell.y1..cell.y2 {
                let start = (y - area.y1) as usize * stride + (cell.x1 - area.x1) as usize;
                let unchanged = &mut self.unchanged[start..][..cell.width() as usize];
                unchanged.iter_mut().for_each(|frames| *frames = frames.saturating_add(1));
                if y < bounds.y1 || y >= bounds.y2 {
                    continue;
                }
                let part = bounds.intersect(&cell);
                if part.is_empty() || !snapshot.contains(&Rect { y1: y, y2: y + 1, ..part }) {
                    continue;
                }
                let new = snapshot.row(part.x1, part.x2, y);
                let unchanged = &mut unchanged[(part.x1 - cell.x1) as usize..];
                for ((frames, new), old) in
                    unchanged.iter_mut().zip(new).zip(old(part.x1, part.x2, y))
                {
                    *frames = if (new ^ old) & RGB == 0 { *frames } else { 0 };
                }
            }
        }
    }

    /// Finds the clip among the changes; `shown`: the shadow, updated.
    pub(crate) fn find<'a>(
        &mut self,
        changes: &Changes,
        snapshot: &Snapshot,
        hints: &Hints<'_>,
        shown: impl Fn(i32, i32, i32) -> &'a [u32],
    ) -> &Region {
        let area = self.area;
        self.cells.clear();
        self.text.clear();
        self.moving.iter_mut().chain(&mut self.changed).for_each(|plans| *plans <<= 1);
        let text = |rect: &Rect| {
            hints.parts.iter().any(|hint| hint.claim == Claim::Text && hint.rect.overlaps(rect))
        };
        for (at, bounds) in changes.cells.iter().enumerate() {
            let bounds = bounds.intersect(&area);
            if bounds.is_empty() {
                continue;
            }
            let cell = changes
                .grid
                .cell(at % changes.grid.columns, at / changes.grid.columns)
                .intersect(&area);
            // If the whole cell has no edge, its unchanged pixels are the video's too: whole cells
            // join to few rectangles. Otherwise the bounds of the changes may be the video's part
            // of a cell that a window's straight edge divides.
            let contained = |part: &Rect| snapshot.contains(part) && !text(part);
            let index = self.index(&cell);
            self.changed[index] |= 1;
            let seldom = self.changed[index].count_ones() < CHANGES_MIN;
            let part = if contained(&cell) && is_smooth(&cell, snapshot) {
                Some(cell)
            } else {
                Some(bounds).filter(|part| {
                    if !contained(part) {
                        return false;
                    }
                    let content = self.content(part, snapshot.rows(part));
                    if content.is_video() {
                        return !(seldom && self.is_text(&cell, &shown));
                    }
                    !content.overlaid && self.moves(index, part)
                })
            };
            self.cells.extend(part);
        }
        // Whole cells join within bands; each partial one splits a band, so their number is
        // bounded.
        let whole = |rect: &Rect| rect.area() as usize == CELL * CELL;
        self.clip = self.cells.iter().filter(|rect| whole(rect)).copied().collect();
        self.cells
            .iter()
            .filter(|rect| !whole(rect))
            .take(CLIP_RECTS_MAX)
            .for_each(|rect| self.clip.add_rect(*rect));
        if self.clip.rect_count() > CLIP_RECTS_MAX {
            // Too many rectangles with the partial cells.
            self.clip = self.cells.iter().filter(|rect| whole(rect)).copied().collect();
        }
        if self.clip.rect_count() > CLIP_RECTS_MAX {
            // A chessboard: the rectangles at the bottom stay lossless.
            self.clip = self.clip.rects()[..CLIP_RECTS_MAX].iter().copied().collect();
        }
        &self.clip
    }

    /// Counts a plan in which this part of a cell has text with no unchanged pixel beside it; true
    /// if it is text that moves and belongs to the clip.
    fn moves(&mut self, index: usize, part: &Rect) -> bool {
        let plans = &mut self.moving[index];
        *plans |= 1;
        if plans.count_ones() < MOVING_MIN {
            return false;
        }
        self.text.push(*part);
        self.takes_text
    }

    /// Of a cell, in `moving` and `changed`.
    fn index(&self, cell: &Rect) -> usize {
        let row = (at_cell(cell.y1) - at_cell(self.area.y1)) as usize;
        let column = (at_cell(cell.x1) - at_cell(self.area.x1)) as usize;
        row * columns(&self.area) + column
    }

    /// All of a cell looks like text.
    fn is_text<'a>(&self, cell: &Rect, shown: &impl Fn(i32, i32, i32) -> &'a [u32]) -> bool {
        let rows = (cell.y1..cell.y2).map(|y| shown(cell.x1, cell.x2, y));
        self.content(cell, rows).has_text()
    }

    fn content<'a>(&self, rect: &Rect, rows: impl Iterator<Item = &'a [u32]>) -> CellContent {
        let (stride, width) = (self.area.width() as usize, rect.width() as usize);
        let mut content = CellContent::default();
        let mut above: Option<(&[u32], &[u8])> = None;
        for (y, row) in (rect.y1..).zip(rows) {
            let start = (y - self.area.y1) as usize * stride + (rect.x1 - self.area.x1) as usize;
            let unchanged = &self.unchanged[start..][..width];
            content.pairs(&row[1..], &row[..width - 1], &unchanged[1..], &unchanged[..width - 1]);
            if let Some((pixels, frames)) = above {
                content.pairs(row, pixels, unchanged, frames);
            }
            above = Some((row, unchanged));
        }
        content
    }
}

/// Row or column of the cell with this edge.
fn at_cell(edge: i32) -> i32 {
    edge.div_euclid(crate::changes::CELL)
}

/// Columns of the cells that an area meets.
fn columns(area: &Rect) -> usize {
    (at_cell(area.x2 - 1) - at_cell(area.x1) + 1) as usize
}

/// True if no two neighbours in a rectangle of at most a cell differ by an edge.
pub(crate) fn is_smooth(rect: &Rect, snapshot: &Snapshot) -> bool {
    // Differences of bytes, in rows of one length, are what the compiler vectorizes best. All rows
    // are copied first: a load that overlaps two recent stores waits for both. The last pixel of a
    // row repeats.
    const BYTES: usize = CELL * 4;
    let mut rows = [[0; BYTES + 4]; CELL];
    for (bytes, row) in rows.iter_mut().zip(snapshot.rows(rect)) {
        let (pixels, _) = bytes.as_chunks_mut::<4>();
        for (bytes, pixel) in pixels.iter_mut().zip(row) {
            *bytes = pixel.to_le_bytes();
        }
        pixels[row.len()..].fill(row[row.len() - 1].to_le_bytes());
    }
    let rows = &rows[..rect.height() as usize];
    let mut worst = [0; BYTES];
    for (y, bytes) in rows.iter().enumerate() {
        let above = &rows[y.saturating_sub(1)];
        for i in 0..BYTES {
            let differs = bytes[i].abs_diff(bytes[i + 4]).max(bytes[i].abs_diff(above[i]));
            worst[i] = differs.max(worst[i]);
        }
    }
    let (worst, _) = worst.as_chunks::<4>();
    worst
        .iter()
        .all(|&worst| u32::from_le_bytes(worst.map(|byte| u8::from(byte >= EDGE))) & RGB == 0)
}

impl CellContent {
    /// Compares pixels with their neighbours, without a branch.
    fn pairs(&mut self, a: &[u32], b: &[u32], unchanged_a: &[u8], unchanged_b: &[u8]) {
        let (mut edges, mut overlaid, mut equal) = (0u8, 0u8, 0u32);
        for (((&a, &b), &unchanged_a), &unchanged_b) in
            a.iter().zip(b).zip(unchanged_a).zip(unchanged_b)
        {
            let (p, q) = ((a & RGB).to_le_bytes(), (b & RGB).to_le_bytes());
            let differs = p[0].abs_diff(q[0]).max(p[1].abs_diff(q[1])).max(p[2].abs_diff(q[2]));
            let edge = u8::from(differs >= EDGE);
            edges |= edge;
            overlaid |= edge & u8::from(unchanged_a.max(unchanged_b) >= UNCHANGED_MIN);
            equal += u32::from(differs == 0);
        }
        self.edges |= edges != 0;
        self.overlaid |= overlaid != 0;
        self.equal += equal;
        self.pairs += a.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_region::Size;

    use super::*;

    const SIZE: Size = Size { width: 32, height: 32 };

    proptest! {
        /// The fast pass finds the same edges as the comparison of pairs, in cells of any size, and
        /// the fourth byte of a pixel is none.
        #[test]
        fn a_smooth_cell_is_one_without_an_edge(
            (x, y, width, height) in (0..16i32, 0..16i32, 1..=CELL as i32, 1..=CELL as i32),
            noise in 0..16u32,
            at in 0..SIZE.area() as usize,
            channel in 0..4u32,
            by in 0..40u32,
            seed in any::<u32>(),
        ) {
            let mut pixels: Vec<u32> = (0..SIZE.area() as u32)
                .map(|i| {
                    let level = |salt: u32| {
                        100 + ((i ^ seed).wrapping_mul(0x9e37_79b9 ^ salt) >> 16) % (noise + 1)
                    };
                    level(0) | level(6) << 8 | level(34) << 16 | i.wrapping_mul(seed) << 24
                })
                .collect();
            pixels[at] = pixels[at].wrapping_add(by << (8 * channel));
            let mut snapshot = Snapshot::new();
            snapshot.fill(&SIZE.rect().into(), |_, to, _| to.copy_from_slice(&pixels));
            let cell = Rect::at(x, y, width, height);
            let edges = VideoMask::new(SIZE.rect()).content(&cell, snapshot.rows(&cell)).edges;
            prop_assert_eq!(is_smooth(&cell, &snapshot), !edges);
        }
    }
}
