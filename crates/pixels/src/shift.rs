//! Path 8/13: from plan.rs and back.
//! Moves found by looking: where the snapshot shows what the viewer shows elsewhere. Each becomes a COPY at once.
//! Knows cells of changed pixels and vectors; a wrong one costs bytes, never pixels: after it all is compared again.

use thinc_region::{Rect, Region};

use crate::anchors::{Anchors, Vector};
use crate::changes::{CELL, Changes, differ, uniform};
use crate::{Lossy, Planned, RGB, Shadow, Snapshot};

/// 12288 pixels in changed rectangles: less is encoded sooner than searched.
const AREA_MIN: u64 = 128 * 96;
/// Most COPYs that one plan finds.
const SHIFTS_MAX: usize = 8;
/// Cells of more than one colour weigh this much, since what is of one colour is cheap to send again.
const DETAIL: i8 = 4;
/// 16 cells of detail, or 64 x 64 pixels: what a vector must win, about the price of a line of text.
const GAIN_MIN: i32 = 16 * DETAIL as i32;
/// 3 cells of detail: what each of its rectangles must.
const BLOCK_GAIN_MIN: i32 = 3 * DETAIL as i32;
/// Cells that moved belong together over a gap of so many that did not change: words, lines and paragraphs.
const GAP_COLUMNS: usize = 3;
const GAP_ROWS: usize = 3;
/// Most rectangles of one COPY.
const BLOCKS_MAX: usize = 32;
/// Pairs of rectangles, of what may be written and of the snapshot: in a screen so torn nothing large has moved.
const PIECES_MAX: usize = 4096;
/// Of the cells changed so many are asked about a vector before all are, and so many must have moved by it.
const ASKED: usize = 128;
const AGREED_MIN: usize = 2;

/// Finds moves; its working memory is kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    anchors: Anchors,
    guesses: Vec<Vector>,
    /// Of each cell of the grid, what a COPY by the vector at hand makes of it, and what that wins.
    after: Vec<After>,
    gains: Vec<i8>,
    blocks: Vec<Block>,
    sums: Vec<i32>,
}

/// A cell after a COPY.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// Pixels that the COPY may write.
    pixels: i16,
    /// One of them at least is not what the snapshot has.
    wrong: bool,
}

/// Cells that moved together.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// In columns and rows of the grid.
    cells: Rect,
    gain: i32,
}

/// Vectors that worked, the newest first.
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

/// A snapshot, what the viewer shows, and how the two differ.
struct Scene<'a> {
    snapshot: &'a Snapshot,
    shadow: &'a mut Shadow,
    changes: &'a mut Changes,
    lossy: Lossy,
    /// Where the snapshot has pixels and the viewer surely shows what the shadow says. Sources lie here and so in the
    /// snapshot: the update that carries the COPY overlaps every update that it could depend on.
    sure: Region,
}

impl Shifts {
    /// Looks for moves in what changed; appends each, applies it to the shadow, and leaves in `changes` what still differs.
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
        let sure = shadow.sure_within(snapshot.region(), lossy);
        if sure.is_empty() {
            return;
        }
        let mut scene = Scene { snapshot, shadow, changes, lossy, sure };
        let before = out.len();
        for vector in scene.shadow.recent.vectors.into_iter().flatten() {
            out.extend(self.find_one(vector, &mut scene));
        }
        if scene.changes.area() < AREA_MIN {
            return;
        }
        let mut guesses = std::mem::take(&mut self.guesses);
        self.anchors.guess(&scene.changes.rects, &scene.sure, snapshot, scene.shadow, &mut guesses);
        for &vector in &guesses {
            if out.len() - before >= SHIFTS_MAX || scene.changes.area() < AREA_MIN {
                break;
            }
            out.extend(self.find_one(vector, &mut scene));
        }
        self.guesses = guesses;
    }

    /// Makes a COPY where the vector wins enough.
    fn find_one(&mut self, vector: Vector, scene: &mut Scene<'_>) -> Option<Planned> {
        let region = self.weigh(vector, scene)?;
        let Vector { dx, dy } = vector;
        scene.shadow.copy(&region, dx, dy);
        scene.changes.find_again(&region, scene.snapshot, scene.shadow, scene.lossy);
        Some(Planned::Shift { region, dx, dy })
    }

    /// Where the vector wins, if that is enough.
    fn weigh(&mut self, vector: Vector, scene: &Scene<'_>) -> Option<Region> {
        if !scene.agree(vector) {
            return None;
        }
        let mut target = scene.sure.translated(vector.dx, vector.dy);
        target.intersect(scene.snapshot.region());
        // Beside what changed there is nothing to win.
        target.intersect_rect(&scene.changes.rects.iter().fold(Rect::default(), |all, rect| all.bound(rect)));
        if target.rect_count() * scene.snapshot.region().rect_count() > PIECES_MAX {
            return None;
        }
        self.look_ahead(&target, vector, scene);
        if self.enter_gains(vector, scene) < GAIN_MIN {
            return None;
        }
        self.gather(scene.changes.grid.columns);
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut region = Region::new();
        let mut gain = 0;
        for block in &blocks {
            let Some((rect, won)) = self.settle(block, scene) else { continue };
            region.add_rect(scene.grown(&rect, vector));
            gain += won;
        }
        blocks.clear();
        self.blocks = blocks;
        // Blocks are rectangles, and what may be read and written need not be.
        region.intersect(&target);
        (gain >= GAIN_MIN && region.rect_count() <= BLOCKS_MAX * 2).then_some(region)
    }

    /// Compares the snapshot with what the viewer would show after a COPY to all of `target`.
    fn look_ahead(&mut self, target: &Region, vector: Vector, scene: &Scene<'_>) {
        self.after.clear();
        self.after.resize(scene.changes.cells.len(), After::default());
        let after = &mut self.after;
        // By the snapshot's own rectangles, since each may lie in a plane of its own.
        for rect in scene.snapshot.region().rects() {
            for rect in target.rects().iter().map(|target| target.intersect(rect)).filter(|rect| !rect.is_empty()) {
                for part in scene.changes.grid.parts(&rect) {
                    after[scene.changes.grid.index(part.x1, part.y1)].pixels += part.area() as i16;
                }
                let source = rect.translate(-vector.dx, -vector.dy);
                for (y, (new, old)) in (rect.y1..).zip(scene.snapshot.rows(&rect).zip(scene.shadow.rows(&source))) {
                    if differ(new, old) {
                        scene.changes.grid.each_differing(rect.x1, y, new, old, |cell, _, new, old| {
                            after[cell].wrong |= differ(new, old);
                        });
                    }
                }
            }
        }
    }

    /// Enters which changed cells the vector explains; returns what that wins.
    fn enter_gains(&mut self, vector: Vector, scene: &Scene<'_>) -> i32 {
        const WHOLE: i16 = (CELL * CELL) as i16;
        self.gains.clear();
        self.gains.extend(scene.changes.cells.iter().zip(&self.after).map(|(cell, after)| {
            // At the edge of what moved, of a cell only what changed is asked for.
            let moved = !cell.is_empty() && (after.pixels == WHOLE && !after.wrong || scene.moved(cell, vector));
            if moved { scene.weight(cell) } else { 0 }
        }));
        self.gains.iter().map(|&gain| i32::from(gain)).sum()
    }

    /// Gathers the cells that the vector explains into blocks, from the top row of cells to the bottom.
    fn gather(&mut self, columns: usize) {
        for (row, gains) in (0i32..).zip(self.gains.chunks_exact(columns)) {
            let mut column = 0;
            while let Some(start) = gains[column..].iter().position(|&gain| gain == DETAIL).map(|next| column + next) {
                let (mut end, mut gain) = (start, 0);
                while let Some(next) =
                    gains[end..columns.min(end + GAP_COLUMNS + 1)].iter().position(|&gain| gain == DETAIL)
                {
                    gain += i32::from(gains[end + next]);
                    end += next + 1;
                }
                column = end;
                let mut span = Block { cells: Rect::new(start as i32, row, end as i32, row + 1), gain };
                // All blocks that it meets become one with it.
                self.blocks.retain(|block| {
                    let reach = Rect { y2: block.cells.y2 + GAP_ROWS as i32, ..block.cells };
                    if !reach.overlaps(&span.cells) {
                        // What nothing below can join must be worth a rectangle by itself.
                        return block.gain >= BLOCK_GAIN_MIN || reach.y2 > row;
                    }
                    span = Block { cells: span.cells.bound(&block.cells), gain: span.gain + block.gain };
                    false
                });
                if self.blocks.len() < BLOCKS_MAX {
                    self.blocks.push(span);
                }
            }
        }
        self.blocks.retain(|block| block.gain >= BLOCK_GAIN_MIN);
    }

    /// The pixels of a block, without margins in which the COPY spoils more than it explains, and what it wins.
    fn settle(&mut self, block: &Block, scene: &Scene<'_>) -> Option<(Rect, i32)> {
        let columns = scene.changes.grid.columns;
        let Rect { x1, y1, x2, y2 } = block.cells;
        let (width, height) = (block.cells.width() as usize, block.cells.height() as usize);
        for (column, row) in (y1..y2).flat_map(|row| (x1..x2).map(move |column| (column as usize, row as usize))) {
            let index = row * columns + column;
            if scene.changes.cells[index].is_empty() {
                let cell = scene.changes.grid.cell(column, row).intersect(&scene.snapshot.region().extents());
                self.gains[index] = match self.after[index].wrong {
                    true if scene.snapshot.holds(&cell) => -scene.weight(&cell),
                    true => -DETAIL,
                    false => 0,
                };
            }
        }
        let gain =
            |column: usize, row: usize| i32::from(self.gains[(y1 as usize + row) * columns + x1 as usize + column]);
        self.sums.clear();
        self.sums.extend((0..width).map(|column| (0..height).map(|row| gain(column, row)).sum::<i32>()));
        let (left, right, _) = best_span(&self.sums);
        self.sums.clear();
        self.sums.extend((0..height).map(|row| (left..right).map(|column| gain(column, row)).sum::<i32>()));
        let (top, bottom, won) = best_span(&self.sums);
        if won < BLOCK_GAIN_MIN {
            return None;
        }
        let cells = (top..bottom).flat_map(|row| (left..right).map(move |column| (column, row)));
        let explained = cells.filter(|&(column, row)| gain(column, row) > 0);
        let rect = explained.fold(Rect::default(), |rect, (column, row)| {
            rect.bound(&scene.changes.cells[(y1 as usize + row) * columns + x1 as usize + column])
        });
        Some((rect, won))
    }
}

impl Scene<'_> {
    /// Whether a COPY may write this rectangle.
    fn may_move(&self, rect: &Rect, vector: Vector) -> bool {
        let source = rect.translate(-vector.dx, -vector.dy);
        let sure = match self.sure.rects() {
            [all] => all.contains(&source),
            _ => self.sure.contains_rect(&source),
        };
        sure && self.snapshot.holds(rect)
    }

    /// Whether a COPY may write it, and would make the viewer show what the snapshot has.
    fn moved(&self, rect: &Rect, vector: Vector) -> bool {
        let Vector { dx, dy } = vector;
        self.may_move(rect, vector)
            && self.snapshot.rows(rect).zip(self.shadow.rows(&rect.translate(-dx, -dy))).all(|(a, b)| !differ(a, b))
    }

    /// What it costs to send a rectangle.
    fn weight(&self, rect: &Rect) -> i8 {
        let mut rows = self.snapshot.rows(rect);
        let color = rows.clone().next().map_or(0, |row| row[0]);
        if rows.all(|row| uniform(row, color)) { 1 } else { DETAIL }
    }

    /// Whether a few of the cells that changed say that they moved by this vector.
    fn agree(&self, vector: Vector) -> bool {
        let changed = self.changes.cells.iter().filter(|cell| !cell.is_empty());
        let every = (changed.clone().count() / ASKED).max(1);
        let agreed = changed.step_by(every).filter(|cell| self.moved(cell, vector) && self.weight(cell) == DETAIL);
        agreed.take(AGREED_MIN).count() == AGREED_MIN
    }

    /// Grows a rectangle to where the move ends, which is within a cell of each of its edges.
    fn grown(&self, rect: &Rect, vector: Vector) -> Rect {
        let mut rect = *rect;
        rect.y1 -= self.rows_won(&Rect { y1: rect.y1 - CELL, y2: rect.y1, ..rect }, vector, Toward::Start);
        rect.y2 += self.rows_won(&Rect { y1: rect.y2, y2: rect.y2 + CELL, ..rect }, vector, Toward::End);
        rect.x1 -= self.columns_won(&Rect { x1: rect.x1 - CELL, x2: rect.x1, ..rect }, vector, Toward::Start);
        rect.x2 += self.columns_won(&Rect { x1: rect.x2, x2: rect.x2 + CELL, ..rect }, vector, Toward::End);
        rect
    }

    /// How many rows of a strip are worth taking along, from its end or its start.
    fn rows_won(&self, strip: &Rect, vector: Vector, toward: Toward) -> i32 {
        let Some(strip) = self.allowed(strip, vector) else { return 0 };
        let mut won = [0; CELL as usize];
        for (won, (y, new)) in won.iter_mut().zip((strip.y1..).zip(self.snapshot.rows(&strip))) {
            *won = self.pixels_won(&strip, y, new, vector).sum();
        }
        best_reach(&mut won[..strip.height() as usize], toward)
    }

    fn columns_won(&self, strip: &Rect, vector: Vector, toward: Toward) -> i32 {
        let Some(strip) = self.allowed(strip, vector) else { return 0 };
        let mut won = [0; CELL as usize];
        for (y, new) in (strip.y1..).zip(self.snapshot.rows(&strip)) {
            for (won, pixel) in won.iter_mut().zip(self.pixels_won(&strip, y, new, vector)) {
                *won += pixel;
            }
        }
        best_reach(&mut won[..strip.width() as usize], toward)
    }

    /// For each pixel of a row: 1 where the COPY makes it right that was wrong, -1 where it is wrong after it.
    fn pixels_won<'a>(
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

    /// As much of a strip as a COPY may write.
    fn allowed(&self, strip: &Rect, vector: Vector) -> Option<Rect> {
        let extents = self.sure.extents();
        let strip = strip.intersect(&extents).intersect(&extents.translate(vector.dx, vector.dy));
        (!strip.is_empty() && self.may_move(&strip, vector)).then_some(strip)
    }
}

/// Where a strip ends that a rectangle grows into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Toward {
    Start,
    End,
}

/// How many values, from the near end, have the largest sum.
fn best_reach(won: &mut [i32], toward: Toward) -> i32 {
    if toward == Toward::Start {
        won.reverse();
    }
    let (mut best, mut sum) = ((0, 0), 0);
    for (reach, won) in (1..).zip(won) {
        sum += *won;
        if sum > best.1 {
            best = (reach, sum);
        }
    }
    best.0
}

/// The stretch with the largest sum, and that sum.
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
