//! Path 8/13: under plan.rs.
//! Finds moved pixels by comparison: where the snapshot has what the viewer shows elsewhere. Each
//! move becomes a COPY at once.
//! Knows cells of changed pixels and vectors. A wrong vector costs bytes, never correctness: the
//! result is compared with the snapshot again.

use thinc_region::{Rect, Region};

use crate::changes::{CELL, Changes, differ, uniform};
use crate::vector_candidates::{Vector, VectorCandidates};
use crate::{Lossy, Planned, RGB, Shadow, Snapshot};

/// 12288 pixels in changed rectangles: fewer are encoded faster than searched.
const AREA_MIN: u64 = 128 * 96;
/// Most COPYs that one plan finds by comparison.
const SHIFTS_MAX: usize = 8;
/// Weight of a cell with more than one colour; a cell of one colour, which is cheap to send, weighs
/// 1.
const DETAIL: i8 = 4;
/// 16 cells of detail, or 64 x 64 pixels: least gain of a vector, about the cost of a line of text.
const GAIN_MIN: i32 = 16 * DETAIL as i32;
/// 3 cells of detail: least gain of each of its rectangles.
const BLOCK_GAIN_MIN: i32 = 3 * DETAIL as i32;
/// Moved cells join over a gap of so many unchanged cells: between words, lines and paragraphs.
const GAP_COLUMNS: usize = 3;
const GAP_ROWS: usize = 3;
/// Most rectangles of one COPY.
const BLOCKS_MAX: usize = 32;
/// Most pairs of rectangles, of the writable region and of the snapshot: in regions with more
/// nothing large has moved.
const RECT_PAIRS_MAX: usize = 4096;
/// A vector is first tested on 128 of the changed cells, and 2 of them must have moved by it.
const TESTED_CELLS: usize = 128;
const AGREED_MIN: usize = 2;

/// Finds moves; it reuses its working memory.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    candidates: VectorCandidates,
    vectors: Vec<Vector>,
    /// For each cell of the grid, its state after a COPY by the current vector, and the gain.
    after: Vec<After>,
    gains: Vec<i8>,
    blocks: Vec<Block>,
    sums: Vec<i32>,
}

/// State of a cell after a COPY.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// Pixels that the COPY may write.
    pixels: i16,
    /// At least one of them differs from the snapshot.
    wrong: bool,
}

/// A rectangle of cells that moved together.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// In columns and rows of the grid.
    cells: Rect,
    gain: i32,
}

/// Vectors of recent COPYs, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    vectors: [Option<Vector>; 4],
}

impl Recent {
    pub(crate) fn add(&mut self, vector: Vector) {
        let oldest = self.vectors.len() - 1;
        let place = self.vectors.iter().position(|&known| known == Some(vector)).unwrap_or(oldest);
        self.vectors[..=place].rotate_right(1);
        self.vectors[0] = Some(vector);
    }
}

/// A snapshot, the viewer's shadow, and their differences.
struct Scene<'a> {
    snapshot: &'a Snapshot,
    shadow: &'a mut Shadow,
    changes: &'a mut Changes,
    lossy: Lossy,
    /// Pixels of the snapshot's region that the viewer certainly shows as in the shadow. Sources
    /// lie in it, so the update with the COPY overlaps every update that it depends on.
    certain: Region,
}

impl Shifts {
    /// Finds moves among the changes, appends each to `out` and applies it to the shadow; `changes`
    /// then has the remaining differences.
    pub(crate) fn find(
        &mut self,
        changes: &mut Changes,
        snapshot: &Snapshot,
        shadow: &mut Shadow,
        lossy: Lossy,
        out: &mut Vec<Planned>,
    ) {
        if changes.area() < AREA_MIN {
            return;
        }
        let certain = shadow.certain_within(snapshot.region(), lossy);
        if certain.is_empty() {
            return;
        }
        let mut scene = Scene { snapshot, shadow, changes, lossy, certain };
        let before = out.len();
        for vector in scene.shadow.recent.vectors.into_iter().flatten() {
            out.extend(self.find_one(vector, &mut scene));
        }
        if scene.changes.area() < AREA_MIN {
            return;
        }
        let mut vectors = std::mem::take(&mut self.vectors);
        self.candidates.find(
            &scene.changes.rects,
            &scene.certain,
            snapshot,
            scene.shadow,
            &mut vectors,
        );
        for &vector in &vectors {
            if out.len() - before >= SHIFTS_MAX || scene.changes.area() < AREA_MIN {
                break;
            }
            out.extend(self.find_one(vector, &mut scene));
        }
        self.vectors = vectors;
    }

    /// Makes a COPY by the vector if its gain suffices.
    fn find_one(&mut self, vector: Vector, scene: &mut Scene<'_>) -> Option<Planned> {
        let region = self.weigh(vector, scene)?;
        let Vector { dx, dy } = vector;
        scene.shadow.copy(&region, dx, dy);
        scene.changes.find_again(&region, scene.snapshot, scene.shadow, scene.lossy);
        Some(Planned::Shift { region, dx, dy })
    }

    /// The region that the vector explains, if its gain suffices.
    fn weigh(&mut self, vector: Vector, scene: &Scene<'_>) -> Option<Region> {
        if !scene.is_plausible(vector) {
            return None;
        }
        let mut target = scene.certain.translated(vector.dx, vector.dy);
        target.intersect(scene.snapshot.region());
        // There is no gain outside the changes.
        target.intersect_rect(
            &scene.changes.rects.iter().fold(Rect::default(), |all, rect| all.bound(rect)),
        );
        if target.rect_count() * scene.snapshot.region().rect_count() > RECT_PAIRS_MAX {
            return None;
        }
        self.preview(&target, vector, scene);
        if self.compute_gains(vector, scene) < GAIN_MIN {
            return None;
        }
        self.find_blocks(scene.changes.grid.columns);
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut region = Region::new();
        let mut gain = 0;
        for block in &blocks {
            let Some((rect, gained)) = self.trim(block, scene) else { continue };
            region.add_rect(scene.grown(&rect, vector));
            gain += gained;
        }
        blocks.clear();
        self.blocks = blocks;
        // Blocks are rectangles; the readable and writable regions need not be.
        region.intersect(&target);
        (gain >= GAIN_MIN && region.rect_count() <= BLOCKS_MAX * 2).then_some(region)
    }

    /// Compares the snapshot with the shadow as it would be after a COPY to all of `target`.
    fn preview(&mut self, target: &Region, vector: Vector, scene: &Scene<'_>) {
        self.after.clear();
        self.after.resize(scene.changes.cells.len(), After::default());
        let after = &mut self.after;
        // By the snapshot's rectangles, because each may lie in its own plane.
        for rect in scene.snapshot.region().rects() {
            for rect in target
                .rects()
                .iter()
                .map(|target| target.intersect(rect))
                .filter(|rect| !rect.is_empty())
            {
                for part in scene.changes.grid.parts(&rect) {
                    after[scene.changes.grid.index(part.x1, part.y1)].pixels += part.area() as i16;
                }
                let source = rect.translate(-vector.dx, -vector.dy);
                for (y, (new, old)) in
                    (rect.y1..).zip(scene.snapshot.rows(&rect).zip(scene.shadow.rows(&source)))
                {
                    if differ(new, old) {
                        scene.changes.grid.each_differing(
                            rect.x1,
                            y,
                            new,
                            old,
                            |cell, _, new, old| {
                                after[cell].wrong |= differ(new, old);
                            },
                        );
                    }
                }
            }
        }
    }

    /// Computes which changed cells the vector explains; returns the total gain.
    fn compute_gains(&mut self, vector: Vector, scene: &Scene<'_>) -> i32 {
        const WHOLE: i16 = (CELL * CELL) as i16;
        self.gains.clear();
        self.gains.extend(scene.changes.cells.iter().zip(&self.after).map(|(cell, after)| {
            // At the edges of the move, only the changed part of a cell has to match.
            let moved = !cell.is_empty()
                && (after.pixels == WHOLE && !after.wrong || scene.is_explained(cell, vector));
            if moved { scene.weight(cell) } else { 0 }
        }));
        self.gains.iter().map(|&gain| i32::from(gain)).sum()
    }

    /// Joins the cells that the vector explains to blocks, from the top row of cells to the bottom.
    fn find_blocks(&mut self, columns: usize) {
        for (row, gains) in (0i32..).zip(self.gains.chunks_exact(columns)) {
            let mut column = 0;
            while let Some(start) =
                gains[column..].iter().position(|&gain| gain == DETAIL).map(|next| column + next)
            {
                let (mut end, mut gain) = (start, 0);
                while let Some(next) = gains[end..columns.min(end + GAP_COLUMNS + 1)]
                    .iter()
                    .position(|&gain| gain == DETAIL)
                {
                    gain += i32::from(gains[end + next]);
                    end += next + 1;
                }
                column = end;
                let mut span =
                    Block { cells: Rect::new(start as i32, row, end as i32, row + 1), gain };
                // It absorbs all blocks within reach.
                self.blocks.retain(|block| {
                    let reach = Rect { y2: block.cells.y2 + GAP_ROWS as i32, ..block.cells };
                    if !reach.overlaps(&span.cells) {
                        // A block that no later row can reach must be worth a rectangle.
                        return block.gain >= BLOCK_GAIN_MIN || reach.y2 > row;
                    }
                    span = Block {
                        cells: span.cells.bound(&block.cells),
                        gain: span.gain + block.gain,
                    };
                    false
                });
                if self.blocks.len() < BLOCKS_MAX {
                    self.blocks.push(span);
                }
            }
        }
        self.blocks.retain(|block| block.gain >= BLOCK_GAIN_MIN);
    }

    /// The pixels of a block without margins in which the COPY damages more than it explains, and
    /// the gain.
    fn trim(&mut self, block: &Block, scene: &Scene<'_>) -> Option<(Rect, i32)> {
        let columns = scene.changes.grid.columns;
        let Rect { x1, y1, x2, y2 } = block.cells;
        let (width, height) = (block.cells.width() as usize, block.cells.height() as usize);
        for (column, row) in
            (y1..y2).flat_map(|row| (x1..x2).map(move |column| (column as usize, row as usize)))
        {
            let index = row * columns + column;
            if scene.changes.cells[index].is_empty() {
                let cell = scene
                    .changes
                    .grid
                    .cell(column, row)
                    .intersect(&scene.snapshot.region().extents());
                self.gains[index] = match self.after[index].wrong {
                    true if scene.snapshot.contains(&cell) => -scene.weight(&cell),
                    true => -DETAIL,
                    false => 0,
                };
            }
        }
        let gain = |column: usize, row: usize| {
            i32::from(self.gains[(y1 as usize + row) * columns + x1 as usize + column])
        };
        self.sums.clear();
        self.sums
            .extend((0..width).map(|column| (0..height).map(|row| gain(column, row)).sum::<i32>()));
        let (left, right, _) = best_span(&self.sums);
        self.sums.clear();
        self.sums.extend(
            (0..height).map(|row| (left..right).map(|column| gain(column, row)).sum::<i32>()),
        );
        let (top, bottom, gained) = best_span(&self.sums);
        if gained < BLOCK_GAIN_MIN {
            return None;
        }
        let cells = (top..bottom).flat_map(|row| (left..right).map(move |column| (column, row)));
        let explained = cells.filter(|&(column, row)| gain(column, row) > 0);
        let rect = explained.fold(Rect::default(), |rect, (column, row)| {
            rect.bound(&scene.changes.cells[(y1 as usize + row) * columns + x1 as usize + column])
        });
        Some((rect, gained))
    }
}

impl Scene<'_> {
    /// True if a COPY may write this rectangle.
    fn is_writable(&self, rect: &Rect, vector: Vector) -> bool {
        let source = rect.translate(-vector.dx, -vector.dy);
        let certain = match self.certain.rects() {
            [all] => all.contains(&source),
            _ => self.certain.contains_rect(&source),
        };
        certain && self.snapshot.contains(rect)
    }

    /// True if a COPY may write it and would make it equal to the snapshot.
    fn is_explained(&self, rect: &Rect, vector: Vector) -> bool {
        let Vector { dx, dy } = vector;
        self.is_writable(rect, vector)
            && self
                .snapshot
                .rows(rect)
                .zip(self.shadow.rows(&rect.translate(-dx, -dy)))
                .all(|(a, b)| !differ(a, b))
    }

    /// Cost of sending a rectangle without the COPY.
    fn weight(&self, rect: &Rect) -> i8 {
        let mut rows = self.snapshot.rows(rect);
        let color = rows.clone().next().map_or(0, |row| row[0]);
        if rows.all(|row| uniform(row, color)) { 1 } else { DETAIL }
    }

    /// True if enough of a sample of the changed cells moved by this vector.
    fn is_plausible(&self, vector: Vector) -> bool {
        let changed = self.changes.cells.iter().filter(|cell| !cell.is_empty());
        let every = (changed.clone().count() / TESTED_CELLS).max(1);
        let agreed = changed
            .step_by(every)
            .filter(|cell| self.is_explained(cell, vector) && self.weight(cell) == DETAIL);
        agreed.take(AGREED_MIN).count() == AGREED_MIN
    }

    /// Grows a rectangle to the edges of the move, which lie within one cell of its own.
    fn grown(&self, rect: &Rect, vector: Vector) -> Rect {
        let mut rect = *rect;
        rect.y1 -= self.gained_rows(
            &Rect { y1: rect.y1 - CELL, y2: rect.y1, ..rect },
            vector,
            Toward::Start,
        );
        rect.y2 += self.gained_rows(
            &Rect { y1: rect.y2, y2: rect.y2 + CELL, ..rect },
            vector,
            Toward::End,
        );
        rect.x1 -= self.gained_columns(
            &Rect { x1: rect.x1 - CELL, x2: rect.x1, ..rect },
            vector,
            Toward::Start,
        );
        rect.x2 += self.gained_columns(
            &Rect { x1: rect.x2, x2: rect.x2 + CELL, ..rect },
            vector,
            Toward::End,
        );
        rect
    }

    /// Number of a strip's rows, from its end or its start, that improve the gain.
    fn gained_rows(&self, strip: &Rect, vector: Vector, toward: Toward) -> i32 {
        let Some(strip) = self.writable_part(strip, vector) else { return 0 };
        let mut gained = [0; CELL as usize];
        for (gained, (y, new)) in
            gained.iter_mut().zip((strip.y1..).zip(self.snapshot.rows(&strip)))
        {
            *gained = self.pixel_gains(&strip, y, new, vector).sum();
        }
        best_reach(&mut gained[..strip.height() as usize], toward)
    }

    fn gained_columns(&self, strip: &Rect, vector: Vector, toward: Toward) -> i32 {
        let Some(strip) = self.writable_part(strip, vector) else { return 0 };
        let mut gained = [0; CELL as usize];
        for (y, new) in (strip.y1..).zip(self.snapshot.rows(&strip)) {
            for (gained, pixel) in gained.iter_mut().zip(self.pixel_gains(&strip, y, new, vector)) {
                *gained += pixel;
            }
        }
        best_reach(&mut gained[..strip.width() as usize], toward)
    }

    /// For each pixel of a row: 1 if the COPY corrects it, -1 if it is wrong after the COPY.
    fn pixel_gains<'a>(
        &'a self,
        strip: &Rect,
        y: i32,
        new: &'a [u32],
        vector: Vector,
    ) -> impl Iterator<Item = i32> + 'a {
        let moved = self.shadow.row(strip.x1 - vector.dx, strip.x2 - vector.dx, y - vector.dy);
        let stayed = self.shadow.row(strip.x1, strip.x2, y);
        let differ = |a: u32, b: u32| i32::from((a ^ b) & RGB != 0);
        new.iter().zip(moved).zip(stayed).map(move |((&new, &moved), &stayed)| {
            let wrong = differ(new, moved);
            (1 - wrong) * differ(new, stayed) - wrong
        })
    }

    /// The part of a strip that a COPY may write.
    fn writable_part(&self, strip: &Rect, vector: Vector) -> Option<Rect> {
        let extents = self.certain.extents();
        let strip = strip.intersect(&extents).intersect(&extents.translate(vector.dx, vector.dy));
        (!strip.is_empty() && self.is_writable(&strip, vector)).then_some(strip)
    }
}

/// The direction in which a rectangle grows into a strip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Toward {
    Start,
    End,
}

/// Number of values, from the near end, that have the largest sum.
fn best_reach(gained: &mut [i32], toward: Toward) -> i32 {
    if toward == Toward::Start {
        gained.reverse();
    }
    let (mut best, mut sum) = ((0, 0), 0);
    for (reach, gained) in (1..).zip(gained) {
        sum += *gained;
        if sum > best.1 {
            best = (reach, sum);
        }
    }
    best.0
}

/// The range with the largest sum, and that sum.
fn best_span(values: &[i32]) -> (usize, usize, i32) {
    let (mut best, mut start, mut sum) = ((0, 0, 0), 0, 0);
    for (i, value) in values.iter().enumerate() {
        if sum <= 0 {
            (start, sum) = (i, 0);
        }
        sum += value;
        if sum > best.2 {
            best = (start, i + 1, sum);
        }
    }
    best
}
