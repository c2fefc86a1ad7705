//! Path 8/13: under plan.rs, if lossy encodings are allowed.
//! Detects which parts of a rectangle are photographs and nothing else: never a glyph, whatever
//! lies behind or beside it.
//! Knows one rectangle's pixels; in doubt it decides against a photograph, which costs bytes.
//!
//! Neighbouring pixels of a photograph almost always differ, but rarely by much. Legible text has
//! edges of the height of its contrast, within a pixel or two. So a part belongs to a photograph if
//! it is busy, and if no edge in it or next to it is high (`EDGE`), or high relative to its part
//! (`EDGE_SOFT`, `EDGE_ROUGH`). A photograph's own high edges stay lossless too.

use thinc_region::Rect;

use crate::hint::{Claim, Hints};
use crate::{RGB, Snapshot};

/// 4 pixels: edge of the cells in which edges are detected, and the distance from an edge within
/// which all pixels of a glyph lie.
const CELL: usize = 4;
/// 8 pixels: edge of the blocks of four cells, the unit of the decision.
const BLOCK: usize = 2 * CELL;
/// 32 pixels: edge of the tiles of which a few rows are sampled first; they rule out most content.
const TILE: usize = 32;
/// Every eighth row.
const SAMPLED: usize = 8;
/// 16 pixels: photographs begin and end at multiples of it from their rectangle's top, as JPEG's
/// chroma blocks do.
const BAND: usize = 2 * BLOCK;

/// 24 levels in one channel: antialiased glyphs reach their contrast within two or three pixels.
/// With 48, one in 700 random screens had a pixel of text in a photograph; with 24 none of 6000,
/// and a twelfth fewer photographs are detected.
const EDGE: u32 = 24;
/// 7 levels plus four times the mean difference of neighbours: text of low contrast to its
/// background.
const EDGE_SOFT: u32 = 7;
const EDGE_ROUGH: u32 = 4;
/// Two thirds: if more neighbours are equal, it is no photograph, or one so smooth that it is cheap
/// losslessly.
const EQUAL: (u32, u32) = (2, 3);
/// 24 x 32 pixels: smaller parts cost more as separate commands than they save.
const BLOCKS_MIN: usize = 3;
const AREA_MIN: u64 = 24 * 32;
/// Most photographs of one rectangle, the largest; others stay lossless.
const PHOTOS_MAX: usize = 256;

/// Measures of a cell of 4 x 4 pixels, each compared with its left and upper neighbour.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Largest difference in a channel.
    edge: u8,
    /// Equal pairs, of 32.
    equal: u8,
    /// Sum of all differences: 32 pairs of three channels.
    sum: u16,
}

/// Pairs of neighbours in a block.
const PAIRS: u32 = 4 * 32;

/// Not measured, or known to be something else.
const NONE: Cell = Cell { edge: u8::MAX, equal: 32, sum: 0 };

/// Finds photographs; it reuses its working memory.
#[derive(Debug, Default)]
pub(crate) struct Photos {
    /// Row by row; both numbers of cells are even.
    cells: Vec<Cell>,
    columns: usize,
    /// Busy tiles, row by row, in units of cells from the corner.
    busy: Vec<Rect>,
    /// Which cells have no high edge.
    soft: Vec<bool>,
    /// Rectangles that the next band may extend.
    open: Vec<Rect>,
    next: Vec<Rect>,
    /// Which blocks of a band are parts of a photograph.
    band: Vec<bool>,
    /// The photographs.
    pub(crate) rects: Vec<Rect>,
}

impl Photos {
    /// Sets `rects` to the parts of a rectangle that are photographs; they do not overlap.
    pub(crate) fn find(&mut self, snapshot: &Snapshot, rect: &Rect, hints: &Hints<'_>) {
        self.rects.clear();
        let (width, height) =
            (rect.width() as usize / BLOCK * BLOCK, rect.height() as usize / BAND * BAND);
        let whole = Rect::at(rect.x1, rect.y1, width as i32, height as i32);
        if whole.area() < AREA_MIN || !self.measure(snapshot, &whole) {
            return;
        }
        for hint in hints.parts.iter().filter(|hint| hint.claim == Claim::Text) {
            self.exclude(&hint.rect.intersect(&whole), &whole);
        }
        self.find_soft();
        self.check_edges(snapshot, &whole);
        self.join(&whole);
    }

    /// Measures the cells of busy tiles; false if there is none.
    fn measure(&mut self, snapshot: &Snapshot, whole: &Rect) -> bool {
        self.columns = whole.width() as usize / CELL;
        self.cells.clear();
        self.cells.resize(self.columns * (whole.height() as usize / CELL), NONE);
        self.busy.clear();
        for y in (whole.y1..whole.y2).step_by(TILE) {
            for x in (whole.x1..whole.x2).step_by(TILE) {
                let tile = Rect::at(x, y, TILE as i32, TILE as i32).intersect(whole);
                if is_busy(snapshot, &tile) {
                    self.measure_tile(snapshot, &tile, whole);
                    let [x1, y1, x2, y2] =
                        [x - whole.x1, y - whole.y1, tile.x2 - whole.x1, tile.y2 - whole.y1];
                    let cell = CELL as i32;
                    self.busy.push(Rect::new(x1 / cell, y1 / cell, x2 / cell, y2 / cell));
                }
            }
        }
        !self.busy.is_empty()
    }

    fn measure_tile(&mut self, snapshot: &Snapshot, tile: &Rect, whole: &Rect) {
        // With the pixels to the left and above, or the tile's own at the rectangle's edges.
        let left = if tile.x1 > whole.x1 { tile.x1 - 1 } else { tile.x1 };
        let mut rows = [Row([0; LANES + 4]), Row([0; LANES + 4])];
        let [mut row, mut above] = rows.each_mut();
        above.fill(snapshot, left, tile, tile.y1.max(whole.y1 + 1) - 1);
        let first = (tile.x1 - whole.x1) as usize / CELL;
        for y in (tile.y1..tile.y2).step_by(CELL) {
            let mut totals = Totals::NONE;
            for y in y..y + CELL as i32 {
                row.fill(snapshot, left, tile, y);
                totals.add(row, above);
                std::mem::swap(&mut row, &mut above);
            }
            let at = (y - whole.y1) as usize / CELL * self.columns + first;
            totals.cells(&mut self.cells[at..][..tile.width() as usize / CELL]);
        }
    }

    /// Excludes what is known to be something else.
    fn exclude(&mut self, known: &Rect, whole: &Rect) {
        let cells = |from: i32, to: i32| from as usize / CELL..(to as usize).div_ceil(CELL);
        if known.is_empty() {
            return;
        }
        for row in cells(known.y1 - whole.y1, known.y2 - whole.y1) {
            self.cells[row * self.columns..][cells(known.x1 - whole.x1, known.x2 - whole.x1)]
                .fill(NONE);
        }
    }

    /// Decides which cells are soft.
    fn find_soft(&mut self) {
        let columns = self.columns;
        self.soft.clear();
        self.soft.resize(self.cells.len(), false);
        for tile in &self.busy {
            for at in tile_cells(tile, columns, 2) {
                let block = [at, at + 1, at + columns, at + columns + 1];
                let equal: u32 = block.iter().map(|&i| u32::from(self.cells[i].equal)).sum();
                if equal * EQUAL.1 > PAIRS * EQUAL.0 {
                    continue;
                }
                let sum: u32 = block.iter().map(|&i| u32::from(self.cells[i].sum)).sum();
                // The mean includes the three channels.
                let edge = (EDGE_SOFT + EDGE_ROUGH * sum / (PAIRS * 3)).min(EDGE);
                block.iter().for_each(|&i| self.soft[i] = u32::from(self.cells[i].edge) < edge);
            }
        }
    }

    /// Text may adjoin the rectangle: a cell at its edge is soft only if the pixels beyond are in
    /// the snapshot and differ little.
    fn check_edges(&mut self, snapshot: &Snapshot, whole: &Rect) {
        let (columns, rows) = (self.columns, self.soft.len() / self.columns);
        let last = columns * (rows - 1);
        let cell = CELL as i32;
        for x in 0..columns {
            let x1 = whole.x1 + x as i32 * cell;
            let across = |y: i32| Rect::at(x1, y, cell, 1);
            self.check_edge_cell(x, snapshot, &across(whole.y1), &across(whole.y1 - 1));
            self.check_edge_cell(last + x, snapshot, &across(whole.y2 - 1), &across(whole.y2));
        }
        for y in 0..rows {
            let y1 = whole.y1 + y as i32 * cell;
            let down = |x: i32| Rect::at(x, y1, 1, cell);
            self.check_edge_cell(y * columns, snapshot, &down(whole.x1), &down(whole.x1 - 1));
            self.check_edge_cell(
                (y + 1) * columns - 1,
                snapshot,
                &down(whole.x2 - 1),
                &down(whole.x2),
            );
        }
    }

    fn check_edge_cell(&mut self, at: usize, snapshot: &Snapshot, inside: &Rect, beyond: &Rect) {
        if !self.soft[at] {
            return;
        }
        let differs = |(a, b): (&u32, &u32)| {
            let (a, b) = ((a & RGB).to_le_bytes(), (b & RGB).to_le_bytes());
            a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b))).max().unwrap_or(0)
        };
        let pairs = || snapshot.rows(inside).flatten().zip(snapshot.rows(beyond).flatten());
        let edge =
            (EDGE_SOFT + EDGE_ROUGH * u32::from(self.cells[at].sum) / (PAIRS / 4 * 3)).min(EDGE);
        self.soft[at] = snapshot.contains(beyond) && pairs().all(|pair| differs(pair) < edge);
    }

    /// Joins soft blocks to spans of a band, and equal spans of successive bands to rectangles.
    fn join(&mut self, whole: &Rect) {
        self.open.clear();
        let bands = self.soft.len() / self.columns * CELL / BAND;
        for band in 0..bands {
            self.find_blocks(band);
            let y1 = whole.y1 + (band * BAND) as i32;
            let across = |rect: &Rect| {
                let column = |x: i32| (x - whole.x1) as usize / BLOCK;
                column(rect.x1)..column(rect.x2)
            };
            self.next.clear();
            for above in &self.open {
                let blocks = &mut self.band[across(above)];
                if blocks.iter().all(|&block| block) {
                    blocks.fill(false);
                    self.next.push(Rect { y2: y1 + BAND as i32, ..*above });
                } else if above.area() >= AREA_MIN {
                    self.rects.push(*above);
                }
            }
            let mut x = 0;
            for span in self.band.chunk_by(|a, b| a == b) {
                if span[0] && span.len() >= BLOCKS_MIN {
                    let x1 = whole.x1 + (x * BLOCK) as i32;
                    self.next.push(Rect::at(x1, y1, (span.len() * BLOCK) as i32, BAND as i32));
                }
                x += span.len();
            }
            std::mem::swap(&mut self.open, &mut self.next);
        }
        self.rects.extend(self.open.iter().filter(|rect| rect.area() >= AREA_MIN));
        if self.rects.len() > PHOTOS_MAX {
            self.rects.sort_unstable_by_key(|rect| std::cmp::Reverse(rect.area()));
            self.rects.truncate(PHOTOS_MAX);
        }
    }

    /// Sets `band` to the blocks with only soft cells in and around them.
    fn find_blocks(&mut self, band: usize) {
        let (first, rows) = (band * BAND / CELL, self.soft.len() / self.columns);
        let near = first.saturating_sub(1)..(first + BAND / CELL + 1).min(rows);
        self.band.clear();
        self.band.resize(self.columns * CELL / BLOCK, false);
        let below = &self.busy[self.busy.partition_point(|tile| tile.y2 as usize <= first)..];
        for tile in below.iter().take_while(|tile| tile.y1 as usize <= first) {
            for x in (tile.x1 as usize..tile.x2 as usize).step_by(BLOCK / CELL) {
                let across = x.saturating_sub(1)..(x + BLOCK / CELL + 1).min(self.columns);
                let row = |y: usize| &self.soft[y * self.columns..][across.clone()];
                self.band[x * CELL / BLOCK] = near.clone().all(|y| row(y).iter().all(|&soft| soft));
            }
        }
    }
}

/// Indices of a tile's cells, or of every `step`th one in both directions.
fn tile_cells(tile: &Rect, columns: usize, step: usize) -> impl Iterator<Item = usize> + use<> {
    let (across, down) = (tile.x1 as usize..tile.x2 as usize, tile.y1 as usize..tile.y2 as usize);
    down.step_by(step).flat_map(move |y| across.clone().step_by(step).map(move |x| y * columns + x))
}

/// Lanes of a tile's row, one per byte of a pixel: arrays of constant length are compared without a
/// branch.
const LANES: usize = TILE * 4;

/// One row of a tile as bytes, preceded by the pixel to its left; if the tile is narrower, the rest
/// is unused.
struct Row([u8; LANES + 4]);

impl Row {
    #[inline(always)]
    fn fill(&mut self, snapshot: &Snapshot, left: i32, tile: &Rect, y: i32) {
        let pixels = snapshot.row(left, tile.x2, y);
        let (first, rest) = self.0.as_chunks_mut::<4>().0.split_at_mut(1);
        first[0] = (pixels[0] & RGB).to_le_bytes();
        for (to, pixel) in rest.iter_mut().zip(&pixels[(tile.x1 - left) as usize..]) {
            *to = (pixel & RGB).to_le_bytes();
        }
    }
}

/// Accumulated differences in a row of cells.
struct Totals {
    edge: [u8; LANES],
    sum: [u16; TILE / CELL],
    equal: [u8; TILE],
}

impl Totals {
    const NONE: Totals = Totals { edge: [0; LANES], sum: [0; TILE / CELL], equal: [0; TILE] };

    #[inline(always)]
    fn add(&mut self, row: &Row, above: &Row) {
        let own: &[u8; LANES] = row.0.last_chunk().expect("a row is longer than a chunk");
        let left: &[u8; LANES] = row.0.first_chunk().expect("a row is longer than a chunk");
        let above: &[u8; LANES] = above.0.last_chunk().expect("a row is longer than a chunk");
        let (mut across, mut down) = ([0; LANES], [0; LANES]);
        for i in 0..LANES {
            across[i] = own[i].abs_diff(left[i]);
            down[i] = own[i].abs_diff(above[i]);
            self.edge[i] = self.edge[i].max(across[i]).max(down[i]);
        }
        let cells =
            across.as_chunks::<{ CELL * 4 }>().0.iter().zip(down.as_chunks::<{ CELL * 4 }>().0);
        for (sum, (across, down)) in self.sum.iter_mut().zip(cells) {
            let total = |differences: &[u8; CELL * 4]| {
                differences.iter().map(|&byte| u16::from(byte)).sum::<u16>()
            };
            *sum += total(across) + total(down);
        }
        let is_zero = |bytes: &[u8; 4]| u8::from(u32::from_le_bytes(*bytes) == 0);
        for ((equal, across), down) in
            self.equal.iter_mut().zip(across.as_chunks().0).zip(down.as_chunks().0)
        {
            *equal += is_zero(across) + is_zero(down);
        }
    }

    /// Converts the totals to cells.
    #[inline(always)]
    fn cells(&self, cells: &mut [Cell]) {
        let edges =
            self.edge.as_chunks::<{ CELL * 4 }>().0.iter().zip(self.equal.as_chunks::<CELL>().0);
        for ((cell, &sum), (edges, equal)) in cells.iter_mut().zip(&self.sum).zip(edges) {
            let edge = edges.iter().fold(0, |all, &edge| all.max(edge));
            *cell = Cell { edge, sum, equal: equal.iter().sum() };
        }
    }
}

/// True if few enough neighbours in the sampled rows are equal.
fn is_busy(snapshot: &Snapshot, tile: &Rect) -> bool {
    let (mut equal, mut pairs) = (0, 0);
    for row in snapshot.rows(tile).skip(SAMPLED / 2).step_by(SAMPLED) {
        equal +=
            row[1..].iter().zip(row).fold(0, |equal, (a, b)| equal + u32::from((a ^ b) & RGB == 0));
        pairs += row.len() as u32 - 1;
    }
    equal * EQUAL.1 <= pairs * EQUAL.0
}
