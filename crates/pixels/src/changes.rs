//! Path 8/13: under plan.rs.
//! Finds where a snapshot differs from a shadow, as few tight rectangles.
//! Knows equality of pixels; never of what kind they are.

use thinc_region::{Rect, Region};

use crate::{Lossy, RGB, Shadow, Snapshot};

/// 16 pixels: edge of the cells in which changes are located; about a glyph, so that one glyph's
/// change does not grow to its line.
pub(crate) const CELL: i32 = 16;
/// Rectangles are joined if that adds at most a quarter of their area plus this many pixels, about
/// the cost of another command's fields.
const JOIN_PIXELS: u64 = 64;
/// Most rectangles of one plan; beyond it they are joined more coarsely.
pub(crate) const RECTS_MAX: usize = 1024;

/// The empty rectangle whose union with any other, by `grown`, is the other.
const NONE: Rect = Rect::new(i32::MAX, i32::MAX, i32::MIN, i32::MIN);

/// Finds changed rectangles; it reuses its working memory.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) grid: Grid,
    /// Bounds of the differences in each cell of the grid, row by row.
    pub(crate) cells: Vec<Rect>,
    /// Rectangles that the next row of cells may extend.
    open: Vec<Rect>,
    /// Rectangles of the current row of cells.
    next: Vec<Rect>,
    /// The changed rectangles.
    pub(crate) rects: Vec<Rect>,
}

impl Changes {
    /// Sets `rects` to rectangles that contain every pixel in which snapshot and shadow differ or
    /// that the shadow does not know. All lie in the snapshot; two may overlap a little.
    pub(crate) fn find(&mut self, snapshot: &Snapshot, shadow: &Shadow, lossy: Lossy) {
        self.grid = Grid::new(&snapshot.region().extents());
        self.cells.clear();
        self.cells.resize(self.grid.columns * self.grid.rows, NONE);
        for rect in snapshot.region().rects() {
            self.compare(rect, snapshot, shadow, lossy);
        }
        self.join(snapshot);
    }

    /// The same after the shadow has changed only within a region of the snapshot.
    pub(crate) fn find_again(
        &mut self,
        within: &Region,
        snapshot: &Snapshot,
        shadow: &Shadow,
        lossy: Lossy,
    ) {
        // A cell stores only the bounds of its change, so touched cells are compared completely.
        let touched: Region = within.rects().iter().map(|rect| self.grid.cover(rect)).collect();
        for rect in touched.rects() {
            for row in self.grid.row(rect.y1)..=self.grid.row(rect.y2 - 1) {
                let first = row * self.grid.columns;
                self.cells
                    [first + self.grid.column(rect.x1)..=first + self.grid.column(rect.x2 - 1)]
                    .fill(NONE);
            }
        }
        // By the snapshot's rectangles, because each may lie in its own plane.
        for rect in snapshot.region().rects() {
            for part in touched
                .rects()
                .iter()
                .map(|touched| touched.intersect(rect))
                .filter(|part| !part.is_empty())
            {
                self.compare(&part, snapshot, shadow, lossy);
            }
        }
        self.join(snapshot);
    }

    /// Pixels in the changed rectangles.
    pub(crate) fn area(&self) -> u64 {
        self.rects.iter().map(Rect::area).sum()
    }

    /// Enters the differences in a rectangle of the snapshot.
    fn compare(&mut self, rect: &Rect, snapshot: &Snapshot, shadow: &Shadow, lossy: Lossy) {
        if shadow.is_certain(rect, lossy) {
            return self.compare_certain(rect, snapshot, shadow);
        }
        let mut lost = Region::from(*rect);
        let certain = shadow.certain_within(&lost, lossy);
        for rect in certain.rects() {
            self.compare_certain(rect, snapshot, shadow);
        }
        lost.subtract(&certain);
        for rect in lost.rects() {
            for part in self.grid.parts(rect) {
                let cell = &mut self.cells[self.grid.index(part.x1, part.y1)];
                *cell = grown(cell, &part);
            }
        }
    }

    fn compare_certain(&mut self, rect: &Rect, snapshot: &Snapshot, shadow: &Shadow) {
        for (y, new) in (rect.y1..).zip(snapshot.rows(rect)) {
            let old = shadow.row(rect.x1, rect.x2, y);
            if differ(new, old) {
                let cells = &mut self.cells;
                self.grid.each_differing(rect.x1, y, new, old, |cell, x, new, old| {
                    enter(&mut cells[cell], x, y, new, old);
                });
            }
        }
    }

    /// Joins cells to rectangles, few and large if that wastes little.
    fn join(&mut self, snapshot: &Snapshot) {
        self.rects.clear();
        self.join_neighbours(snapshot);
        if self.rects.len() > RECTS_MAX {
            self.coarsen(snapshot);
        }
        self.absorb(snapshot);
    }

    /// Joins neighbours in a row to spans, and spans of successive rows to rectangles.
    fn join_neighbours(&mut self, snapshot: &Snapshot) {
        self.open.clear();
        for cells in self.cells.chunks_exact(self.grid.columns.max(1)) {
            self.next.clear();
            let mut span = NONE;
            for cell in cells {
                if cell.is_empty() {
                    continue;
                }
                if !snapshot.contains(cell) {
                    // The bounds exceed the snapshot: only their parts inside it are taken.
                    let rects = snapshot.region().rects();
                    let rects = &rects[rects.partition_point(|r| r.y2 <= cell.y1)..];
                    let parts =
                        rects.iter().take_while(|r| r.y1 < cell.y2).map(|r| r.intersect(cell));
                    self.next.extend(parts.filter(|part| !part.is_empty()));
                    continue;
                }
                match joined(&span, cell, snapshot) {
                    Some(both) => span = both,
                    None => {
                        self.next.extend((!span.is_empty()).then_some(span));
                        span = *cell;
                    }
                }
            }
            self.next.extend((!span.is_empty()).then_some(span));
            // A rectangle above that this row extends stays open; the others are complete.
            for span in &mut self.next {
                let above =
                    self.open.iter().position(|above| joined(above, span, snapshot).is_some());
                if let Some(both) =
                    above.and_then(|i| joined(&self.open.swap_remove(i), span, snapshot))
                {
                    *span = both;
                }
            }
            self.rects.append(&mut self.open);
            std::mem::swap(&mut self.open, &mut self.next);
        }
        self.rects.append(&mut self.open);
    }

    /// Joined rectangles may overlap others. One inside a larger one is dropped; one that extends
    /// beyond it is joined if that wastes little, or trimmed if the rest is a rectangle.
    fn absorb(&mut self, snapshot: &Snapshot) {
        self.rects.sort_unstable_by_key(|rect| std::cmp::Reverse(rect.area()));
        self.next.clear();
        'rects: for mut rect in self.rects.drain(..) {
            for larger in &mut self.next {
                if !larger.overlaps(&rect) {
                    continue;
                }
                if let Some(both) = joined(larger, &rect, snapshot) {
                    *larger = both;
                    continue 'rects;
                }
                rect = trimmed(&rect, larger);
            }
            self.next.extend((!rect.is_empty()).then_some(rect));
        }
        std::mem::swap(&mut self.rects, &mut self.next);
    }

    /// One rectangle for all changes within each rectangle of the snapshot's region, whose count
    /// the caller bounds.
    fn coarsen(&mut self, snapshot: &Snapshot) {
        self.rects.clear();
        for rect in snapshot.region().rects() {
            let cell = |part: Rect| self.cells[self.grid.index(part.x1, part.y1)].intersect(rect);
            let parts = self.grid.parts(rect).map(cell);
            let bounds =
                parts.filter(|part| !part.is_empty()).fold(NONE, |all, part| grown(&all, &part));
            self.rects.extend((!bounds.is_empty()).then_some(bounds));
        }
    }
}

/// Extends a cell's bounds by the differences in a row's part in it.
fn enter(cell: &mut Rect, x: i32, y: i32, new: &[u32], old: &[u32]) {
    if cell.x1 == x && cell.x2 == x + new.len() as i32 {
        // It already has its full width, as most cells do if much changes: only its height matters.
        if differ(new, old) {
            cell.y2 = y + 1;
        }
        return;
    }
    let differs = |(a, b): (&u32, &u32)| (a ^ b) & RGB != 0;
    let Some(first) = new.iter().zip(old).position(differs) else { return };
    let last = new.iter().zip(old).rposition(differs).unwrap_or(first);
    *cell = grown(cell, &Rect::new(x + first as i32, y, x + last as i32 + 1, y + 1));
}

/// The union of both, if that wastes little and lies in the snapshot.
fn joined(a: &Rect, b: &Rect, snapshot: &Snapshot) -> Option<Rect> {
    if a.is_empty() {
        return Some(*b);
    }
    let both = a.bound(b);
    let apart = a.area() + b.area();
    let little = both.area() <= apart + apart / 4 + JOIN_PIXELS;
    (little && snapshot.contains(&both)).then_some(both)
}

/// The part of `rect` outside `other`, if that is one rectangle; otherwise `rect`.
fn trimmed(rect: &Rect, other: &Rect) -> Rect {
    let both = rect.intersect(other);
    if both.x1 == rect.x1 && both.x2 == rect.x2 {
        if both.y1 == rect.y1 {
            return Rect { y1: both.y2, ..*rect };
        }
        if both.y2 == rect.y2 {
            return Rect { y2: both.y1, ..*rect };
        }
    }
    if both.y1 == rect.y1 && both.y2 == rect.y2 {
        if both.x1 == rect.x1 {
            return Rect { x1: both.x2, ..*rect };
        }
        if both.x2 == rect.x2 {
            return Rect { x2: both.x1, ..*rect };
        }
    }
    *rect
}

fn grown(a: &Rect, b: &Rect) -> Rect {
    Rect::new(a.x1.min(b.x1), a.y1.min(b.y1), a.x2.max(b.x2), a.y2.max(b.y2))
}

/// True if two rows differ in a significant bit; folds without branches, so that it runs at memory
/// speed.
///
/// Compiled for baseline x86-64 (SSE2) it takes 0.3 instructions per byte of one row, and reaches
/// 35 GB/s from the cache and 20 GB/s from memory (`benches/plan.rs`). AVX2 needs less than half
/// the instructions and the same time, so there is no handwritten kernel.
#[inline]
pub(crate) fn differ(a: &[u32], b: &[u32]) -> bool {
    let fold =
        |a: &[u32], b: &[u32]| a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) & RGB != 0;
    let mut a = a.chunks_exact(64);
    let mut b = b.chunks_exact(64);
    a.by_ref().zip(b.by_ref()).any(|(a, b)| fold(a, b)) || fold(a.remainder(), b.remainder())
}

/// True if a row has only this colour, 0xRRGGBB; in steps of 64 pixels, because most other rows
/// differ early.
#[inline]
pub(crate) fn uniform(row: &[u32], color: u32) -> bool {
    row.chunks(64).all(|part| part.iter().fold(0, |all, pixel| all | (pixel ^ color)) & RGB == 0)
}

/// Cells over the snapshot's extents, aligned to the screen so that they do not depend on the
/// region.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grid {
    x: i32,
    y: i32,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Grid {
    fn new(extents: &Rect) -> Grid {
        let x = extents.x1 - extents.x1.rem_euclid(CELL);
        let y = extents.y1 - extents.y1.rem_euclid(CELL);
        let cells = |from: i32, to: i32| ((to - from) as usize).div_ceil(CELL as usize);
        Grid { x, y, columns: cells(x, extents.x2), rows: cells(y, extents.y2) }
    }

    fn column(&self, x: i32) -> usize {
        ((x - self.x) / CELL) as usize
    }

    fn row(&self, y: i32) -> usize {
        ((y - self.y) / CELL) as usize
    }

    pub(crate) fn index(&self, x: i32, y: i32) -> usize {
        self.row(y) * self.columns + self.column(x)
    }

    /// The pixels of a cell; some may lie outside the extents.
    pub(crate) fn cell(&self, column: usize, row: usize) -> Rect {
        Rect::at(self.x + column as i32 * CELL, self.y + row as i32 * CELL, CELL, CELL)
    }

    /// Calls `take(cell, x, new, old)` for the parts of two rows from `x1` that lie in one cell and
    /// differ; for the first and last part, which may be narrower than a cell, in any case.
    #[inline]
    pub(crate) fn each_differing<'a>(
        &self,
        x1: i32,
        y: i32,
        new: &'a [u32],
        old: &'a [u32],
        mut take: impl FnMut(usize, i32, &'a [u32], &'a [u32]),
    ) {
        let first = self.index(x1, y);
        let head = ((CELL - (x1 - self.x) % CELL) as usize).min(new.len());
        take(first, x1, &new[..head], &old[..head]);
        let x1 = x1 + head as i32;
        let (new, new_tail) = new[head..].as_chunks::<{ CELL as usize }>();
        let (old, old_tail) = old[head..].as_chunks::<{ CELL as usize }>();
        for (((new, old), cell), x) in
            new.iter().zip(old).zip(first + 1..).zip((x1..).step_by(CELL as usize))
        {
            // The constant length lets the compiler unroll the comparison.
            if new.iter().zip(old).fold(0, |all, (a, b)| all | (a ^ b)) & RGB != 0 {
                take(cell, x, new, old);
            }
        }
        if !new_tail.is_empty() {
            take(first + 1 + new.len(), x1 + (new.len() as i32) * CELL, new_tail, old_tail);
        }
    }

    /// The cells that a rectangle touches, as one rectangle.
    fn cover(&self, rect: &Rect) -> Rect {
        let first = self.cell(self.column(rect.x1), self.row(rect.y1));
        first.bound(&self.cell(self.column(rect.x2 - 1), self.row(rect.y2 - 1)))
    }

    /// The rectangle split at the edges of cells.
    pub(crate) fn parts(&self, rect: &Rect) -> impl Iterator<Item = Rect> + use<> {
        let rect = *rect;
        let first = self.cover(&rect);
        (first.y1..rect.y2).step_by(CELL as usize).flat_map(move |y| {
            (first.x1..rect.x2)
                .step_by(CELL as usize)
                .map(move |x| Rect::at(x, y, CELL, CELL).intersect(&rect))
        })
    }
}
