//! Path 8/13: under plan.rs, in areas that are known to be frames of a program.
//! Finds the cells of a frame that move: those may be sent lossy, everything else is exact. A frame
//! may be a whole user interface, so being one proves nothing. Knows one area, which of its cells
//! changed lately, and which pixels beside edges rest; in doubt it decides for text, which costs
//! bytes.
//!
//! What rests may be read. A cell that stood still lately holds a glyph, a menu or a list that has
//! just appeared. In a cell that moves, an edge that stays while its cell changes is of text in
//! front of what moves, and a plain ground that was not there in the frame before is a menu's. The
//! silhouette of something that moves has edges too, also on a plain ground, but in another place
//! each time, and most of that ground was there before; and beside them pixels that differ a little
//! from each other, as lit surfaces do and glyphs seldom do.

use thinc_region::{Rect, Region};

use crate::changes::{CELL, Changes};
use crate::hint::{Claim, Hint, Hints};
use crate::kind::{self, Colors};
use crate::video_mask::{EDGE, is_smooth};
use crate::{Planned, RGB, Snapshot};

/// Most areas at a time; further ones are sent exact.
pub const FRAME_AREAS_MAX: usize = 4;
/// A cell moves if it changed in so many of its last 16 plans.
const CHANGES_MIN: u32 = 4;
/// 4 plans: an edge that was there in so many plans in which its cell changed, beside a pixel that
/// did not, is at rest. A silhouette along its own direction stays for fewer.
const RESTING_MIN: u8 = 4;
/// A third of a cell's pairs of neighbours: if more are equal, its edges are those of text and
/// lines, as in `video_mask.rs`, unless it is shaded.
const EQUAL: (u32, u32) = (1, 3);
/// Shaded: twice as many pairs differ by less than an edge as by an edge. Of glyphs, whose blends
/// are a pixel or two wide, far fewer do.
const SHADED: (u32, u32) = (2, 1);
/// The same where an edge was in the frame before and is elsewhere now.
const SHADED_MOVING: (u32, u32) = (1, 2);
/// A fourth of a cell: with fewer pixels of a colour, or equal pairs, it has no plain ground. Bold
/// or blurred text of 12 pixels leaves a third.
const GROUND: u32 = 4;
/// Three fourths of its pixels: if so many are new, the ground is.
const GROUND_NEW: (u32, u32) = (3, 4);
/// Of the ground's colour in the cells around, of each fourth row: if so many were there, something
/// has moved off it.
const GROUND_AROUND: usize = 32;
/// 16 Ki pixels, as in `motion.rs`: if fewer are found elsewhere, that may be by chance.
const SCROLLED_MIN: u64 = 16 * 1024;
/// 8 plans: what was scrolled shortly before is scrolled again.
const STEADY_MIN: u64 = 8;
/// 0.5 s: what moved before a longer pause may rest now.
const PAUSE_MAX: u64 = 500_000;
/// Most rectangles of an area; further moving cells are exact.
const RECTS_MAX: usize = 1024;
/// Half: least share of moving cells in a rectangle that is sent as one.
const MOVING_SHARE: usize = 2;
/// The newest 4 plans: a cell that changed in none of them had rested, and its edges with it.
const RESTED: u16 = 0xf;
const EDGE_CELL: usize = CELL as usize;

/// What is known of a cell in the current plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Nothing: it did not change, or is not in the snapshot.
    Unknown,
    Moves,
    /// It has no edge and did not change, or has one colour: it may be sent with its neighbours.
    Smooth,
    /// It did not change, and has edges.
    Rests,
    /// It changed, and may hold something to read.
    Exact,
    /// It is in one of the rectangles.
    Taken,
}

/// An area of known frames, for as long as its frames come.
#[derive(Debug)]
struct MovingCells {
    area: Rect,
    columns: usize,
    /// When it was planned last, and how often since it was scrolled.
    planned: u64,
    steady: u64,
    /// For each pixel, row by row: plans in which its cell changed, it did not, and it was beside
    /// an edge.
    resting: Vec<u8>,
    /// For each cell: in which of its last 16 plans it changed; the newest is the lowest bit.
    changed: Vec<u16>,
    /// For each cell, in the current plan.
    cells: Vec<Cell>,
    /// What is drawn as text, in the current plan.
    texts: Vec<Rect>,
    /// Working memory of `component`.
    seen: Vec<bool>,
    open: Vec<usize>,
    /// Runs of exact cells, in units of cells.
    runs: Vec<Rect>,
    /// The current plan's rectangles of moving cells; they do not overlap.
    rects: Vec<Rect>,
    /// Parts of these that are sent exact, rectangle by rectangle, in the order of rows; and how
    /// many each has.
    exact: Vec<Rect>,
    exact_counts: Vec<usize>,
}

/// What moves in all areas.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    areas: Vec<MovingCells>,
    region: Region,
}

impl Moving {
    /// Finds what moves in these areas, of which the plan has found `shifts`, before the shadow
    /// (`old`) is updated.
    pub(crate) fn find<'a>(
        &mut self,
        areas: &[Rect],
        (changes, snapshot, hints): (&Changes, &Snapshot, &Hints<'_>),
        shifts: &[Planned],
        old: impl Fn(i32, i32, i32) -> &'a [u32],
        now: u64,
    ) {
        for known in &mut self.areas {
            known.rects.clear();
            known.exact.clear();
            known.exact_counts.clear();
        }
        for &area in areas.iter().take(FRAME_AREAS_MAX) {
            let known = self.known(area, now);
            let moved = |shift| match shift {
                &Planned::Shift { ref region, dx, dy } if (dx, dy) != (0, 0) => Some(region),
                _ => None,
            };
            let shifted = shifts.iter().filter_map(moved);
            let scrolls =
                |moved: &Region| moved.area() >= SCROLLED_MIN && moved.overlaps_rect(&area);
            if shifted.clone().any(scrolls) {
                known.scrolled();
                continue;
            }
            known.steady += 1;
            let is_shifted = |cell: &Rect| shifted.clone().any(|moved| moved.overlaps_rect(cell));
            known.find((changes, snapshot, hints), is_shifted, &old);
        }
        self.region = self.areas.iter().flat_map(|known| &known.rects).copied().collect();
    }

    /// A COPY was committed: its cells hold something else now.
    pub(crate) fn copied(&mut self, region: &Region) {
        for known in self.areas.iter_mut().filter(|known| region.overlaps_rect(&known.area)) {
            known.scrolled();
        }
    }

    /// What is known of this area.
    fn known(&mut self, area: Rect, now: u64) -> &mut MovingCells {
        let continues = |known: &MovingCells| {
            known.area == area && now.saturating_sub(known.planned) <= PAUSE_MAX
        };
        let at = match self.areas.iter().position(continues) {
            Some(at) => at,
            None => {
                self.areas.retain(|known| !known.area.overlaps(&area));
                let oldest = self.areas.iter().enumerate().min_by_key(|(_, known)| known.planned);
                if let Some((oldest, _)) = oldest.filter(|_| self.areas.len() >= FRAME_AREAS_MAX) {
                    self.areas.swap_remove(oldest);
                }
                self.areas.push(MovingCells::new(area));
                self.areas.len() - 1
            }
        };
        self.areas[at].planned = now;
        &mut self.areas[at]
    }

    /// Pixels of what moves, and their bounds; none where something was scrolled lately.
    pub(crate) fn extent(&self) -> (u64, Rect) {
        let steady = self.areas.iter().filter(|known| known.steady >= STEADY_MIN);
        let rects = steady.flat_map(|known| &known.rects);
        rects.fold((0, Rect::default()), |(pixels, bounds), rect| {
            (pixels + rect.area(), if bounds.is_empty() { *rect } else { bounds.bound(rect) })
        })
    }

    /// Parts of what moves that must be exact.
    pub(crate) fn exact(&self) -> impl Iterator<Item = &Rect> {
        self.areas.iter().flat_map(|known| &known.exact)
    }

    /// Rectangles of what moves, which do not overlap, each with its parts that must be
    /// exact, to be sent after it and with it.
    pub(crate) fn rects_with_exact(&self) -> impl Iterator<Item = (&Rect, &[Rect])> {
        self.areas.iter().flat_map(MovingCells::rects_with_exact)
    }

    /// All of the rectangles.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }
}

/// What the neighbouring pixels of a cell have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    all: u32,
    /// Different, and by an edge; and by less.
    edges: u32,
    shaded: u32,
}

/// Which pixels of a cell are beside an edge: 1, else 0; rows of one length, for loops without
/// branches.
#[derive(Default)]
struct Edges([[u8; EDGE_CELL]; EDGE_CELL]);

/// Bytes of a row of a cell, and of one more pixel.
type Row = [u8; EDGE_CELL * 4 + 4];

impl Edges {
    /// Finds them in the rows of a cell. The last pixel of a narrow row repeats, and so does the
    /// first row: what repeats counts as equal pairs, which are not counted.
    fn find<'a>(&mut self, rows: impl Iterator<Item = &'a [u32]>, pairs: &mut Pairs) {
        let mut above: Option<Row> = None;
        for (y, row) in rows.enumerate() {
            let mut bytes: Row = [0; EDGE_CELL * 4 + 4];
            let (pixels, _) = bytes.as_chunks_mut::<4>();
            for (bytes, pixel) in pixels.iter_mut().zip(row) {
                *bytes = (pixel & RGB).to_le_bytes();
            }
            let last = (row[row.len() - 1] & RGB).to_le_bytes();
            pixels[row.len()..].fill(last);
            let before = above.unwrap_or(bytes);
            let (mut across, mut down) = ([0u8; EDGE_CELL * 4], [0u8; EDGE_CELL * 4]);
            for i in 0..EDGE_CELL * 4 {
                across[i] = bytes[i].abs_diff(bytes[i + 4]);
                down[i] = bytes[i].abs_diff(before[i]);
            }
            let (right, up) = (pairs.add(&across), pairs.add(&down));
            pairs.all += row.len() as u32 - 1 + above.map_or(0, |_| row.len() as u32);
            for (x, edge) in self.0[y].iter_mut().enumerate() {
                let left = if x > 0 { right[x - 1] } else { 0 };
                *edge |= (left | right[x] | up[x]) as u8;
            }
            if y > 0 {
                self.0[y - 1].iter_mut().zip(up).for_each(|(edge, up)| *edge |= up as u8);
            }
            above = Some(bytes);
        }
    }
}

/// The colour of more than half of a cell's equal pairs, if any is; else any of its colours.
fn ground(cell: &Rect, snapshot: &Snapshot) -> u32 {
    let (mut ground, mut votes) = (0, 0u32);
    for row in snapshot.rows(cell) {
        for pair in row.windows(2).filter(|pair| (pair[0] ^ pair[1]) & RGB == 0) {
            match (pair[0] ^ ground) & RGB {
                0 => votes += 1,
                _ if votes > 0 => votes -= 1,
                _ => (ground, votes) = (pair[0], 1),
            }
        }
    }
    ground
}

/// This colour is a cell's plain ground, and was not there in the frame before. A ground that fades
/// from frame to frame is no new one.
fn is_new_ground<'a>(
    ground: u32,
    cell: &Rect,
    snapshot: &Snapshot,
    old: &impl Fn(i32, i32, i32) -> &'a [u32],
) -> bool {
    let is_ground = |pixel: u32| (pixel ^ ground) & RGB == 0;
    let is_far = |pixel: u32| {
        let channels = pixel.to_le_bytes().into_iter().zip(ground.to_le_bytes());
        channels.take(3).any(|(a, b)| a.abs_diff(b) >= EDGE)
    };
    let (mut all, mut new) = (0, 0);
    for (y, row) in (cell.y1..).zip(snapshot.rows(cell)) {
        let old = old(cell.x1, cell.x2, y);
        for (x, _) in row.iter().enumerate().filter(|(_, pixel)| is_ground(**pixel)) {
            all += 1;
            let beside = old[if x > 0 { x - 1 } else { (x + 1).min(old.len() - 1) }];
            new += u32::from(is_far(old[x]) || (old[x] ^ beside) & RGB != 0 && !is_ground(old[x]));
        }
    }
    new * GROUND_NEW.1 >= all * GROUND_NEW.0 && all * GROUND >= cell.area() as u32
}

impl Pairs {
    fn equal(&self) -> u32 {
        self.all - self.shaded - self.edges
    }

    fn has_ground(&self) -> bool {
        self.equal() * GROUND >= self.all
    }

    fn is_text(&self, shaded: (u32, u32)) -> bool {
        let is_plain = self.equal() * EQUAL.1 > self.all * EQUAL.0;
        self.edges > 0 && is_plain && self.shaded * shaded.1 < self.edges * shaded.0
    }
}

impl MovingCells {
    /// Of an area that has not changed yet.
    fn new(area: Rect) -> MovingCells {
        let cells = |from: i32, to: i32| (to - 1).div_euclid(CELL) - from.div_euclid(CELL) + 1;
        let columns = cells(area.x1, area.x2) as usize;
        let count = columns * cells(area.y1, area.y2) as usize;
        MovingCells {
            area,
            columns,
            planned: 0,
            steady: 0,
            resting: vec![0; area.area() as usize],
            changed: vec![0; count],
            cells: vec![Cell::Unknown; count],
            texts: Vec::new(),
            seen: Vec::new(),
            open: Vec::new(),
            runs: Vec::new(),
            rects: Vec::new(),
            exact: Vec::new(),
            exact_counts: Vec::new(),
        }
    }

    /// Nothing moves until it is seen again: what is new beside what was scrolled is the next line
    /// of a text.
    fn scrolled(&mut self) {
        self.changed.fill(0);
        self.steady = 0;
    }

    /// Finds the moving cells among the changes, before the shadow (`old`) is updated.
    fn find<'a>(
        &mut self,
        (changes, snapshot, hints): (&Changes, &Snapshot, &Hints<'_>),
        is_shifted: impl Fn(&Rect) -> bool,
        old: &impl Fn(i32, i32, i32) -> &'a [u32],
    ) {
        self.cells.fill(Cell::Unknown);
        let grid = &changes.grid;
        let area = self.area;
        let is_text = |hint: &&Hint| hint.claim == Claim::Text && hint.rect.overlaps(&area);
        self.texts.clear();
        self.texts.extend(hints.parts.iter().filter(is_text).map(|hint| hint.rect));
        for (at, bounds) in changes.cells.iter().enumerate() {
            let cell = grid.cell(at % grid.columns, at / grid.columns).intersect(&self.area);
            if cell.is_empty() || !snapshot.contains(&cell) {
                continue;
            }
            let index = self.index(&cell);
            if is_shifted(&cell) {
                // The shadow's pixels are not those of the frame before: nothing is known to rest.
                let (mut edges, mut pairs) = (Edges::default(), Pairs::default());
                edges.find(snapshot.rows(&cell), &mut pairs);
                self.ground_appears(&cell, (&edges, &pairs), snapshot, old);
                self.cells[index] = Cell::Exact;
                continue;
            }
            let rested = self.changed[index] & RESTED == 0;
            self.changed[index] <<= 1;
            if bounds.is_empty() {
                continue;
            }
            self.changed[index] |= 1;
            let is_picture = self.look(&cell, snapshot, old, rested)
                && self.moves(index)
                && !self.texts.iter().any(|text| text.overlaps(&cell));
            self.cells[index] = match is_picture {
                false => Cell::Exact,
                // A colour is exact, and takes fewer bytes, unless it is between what moves.
                true if matches!(kind::colors(snapshot, &cell), Colors::One(_)) => Cell::Smooth,
                true => Cell::Moves,
            };
        }
        self.join(snapshot);
    }

    /// The cell moves, or one beside it does: what moves is about to come here.
    fn moves(&self, index: usize) -> bool {
        let (row, column) = (index / self.columns, index % self.columns);
        let last = (self.changed.len() / self.columns - 1, self.columns - 1);
        (row.saturating_sub(1)..=(row + 1).min(last.0)).any(|row| {
            self.changed[row * self.columns..][column.saturating_sub(1)..=(column + 1).min(last.1)]
                .iter()
                .any(|plans| plans.count_ones() >= CHANGES_MIN)
        })
    }

    fn index(&self, cell: &Rect) -> usize {
        let row = (cell.y1.div_euclid(CELL) - self.area.y1.div_euclid(CELL)) as usize;
        row * self.columns + (cell.x1.div_euclid(CELL) - self.area.x1.div_euclid(CELL)) as usize
    }

    /// Looks at the pixels of a cell that has changed, and had `rested` before. False if it may
    /// hold something to read.
    fn look<'a>(
        &mut self,
        cell: &Rect,
        snapshot: &Snapshot,
        old: &impl Fn(i32, i32, i32) -> &'a [u32],
        rested: bool,
    ) -> bool {
        let (stride, width) = (self.area.width() as usize, cell.width() as usize);
        let first = (cell.y1 - self.area.y1) as usize * stride + (cell.x1 - self.area.x1) as usize;
        let smooth = is_smooth(cell, snapshot);
        let (mut edges, mut pairs) = (Edges::default(), Pairs::default());
        if !smooth {
            edges.find(snapshot.rows(cell), &mut pairs);
        }
        let mut before = Edges::default();
        if rested && !smooth {
            let rows = (cell.y1..cell.y2).map(|y| old(cell.x1, cell.x2, y));
            before.find(rows, &mut Pairs::default());
        }
        let (mut most, mut moved) = (0, 0);
        for (y, new) in snapshot.rows(cell).enumerate() {
            let old = old(cell.x1, cell.x2, cell.y1 + y as i32);
            let resting = &mut self.resting[first + y * stride..][..width];
            let edges = edges.0[y].iter().zip(&before.0[y]);
            for (((plans, (&edge, &before)), new), old) in
                resting.iter_mut().zip(edges).zip(new).zip(old)
            {
                // An edge may be gone for a moment where a glyph's ground has its colour; along a
                // silhouette it comes and goes.
                let rests = (*plans + 2 * edge).saturating_sub(1).min(RESTING_MIN);
                let rests = rests.max(before * RESTING_MIN);
                let is_same = (new ^ old) & RGB == 0;
                *plans = if is_same { rests } else { 0 };
                most = most.max(*plans * edge);
                moved |= u8::from(!is_same) & edge;
            }
        }
        if smooth {
            return true;
        }
        if self.ground_appears(cell, (&edges, &pairs), snapshot, old) {
            return false;
        }
        // Where no edge has moved, the shadow had forgotten the cell, or only its ground moves.
        if most >= RESTING_MIN || moved == 0 {
            return false;
        }
        if !pairs.is_text(SHADED) {
            return true;
        }
        // A cell that had an edge in the frame before: that of something shaded has moved.
        if rested || pairs.is_text(SHADED_MOVING) {
            return false;
        }
        let mut pairs_before = Pairs::default();
        let rows = (cell.y1..cell.y2).map(|y| old(cell.x1, cell.x2, y));
        Edges::default().find(rows, &mut pairs_before);
        pairs_before.edges > 0
    }

    /// A plain ground has appeared in a cell, and not because something has moved off it: that of a
    /// menu or a list. What is on it rests from now on, until it moves.
    fn ground_appears<'a>(
        &mut self,
        cell: &Rect,
        (edges, pairs): (&Edges, &Pairs),
        snapshot: &Snapshot,
        old: &impl Fn(i32, i32, i32) -> &'a [u32],
    ) -> bool {
        if !pairs.has_ground() {
            return false;
        }
        let ground = ground(cell, snapshot);
        // Most grounds were around: that is found out with few pixels.
        if self.is_around(cell, ground, snapshot, old)
            || !is_new_ground(ground, cell, snapshot, old)
        {
            return false;
        }
        let (stride, width) = (self.area.width() as usize, cell.width() as usize);
        let first = (cell.y1 - self.area.y1) as usize * stride + (cell.x1 - self.area.x1) as usize;
        for (y, edges) in edges.0[..cell.height() as usize].iter().enumerate() {
            let resting = &mut self.resting[first + y * stride..][..width];
            resting.iter_mut().zip(edges).for_each(|(plans, edge)| *plans = edge * RESTING_MIN);
        }
        true
    }

    /// A colour was in the cells around this one in the frame before: something has moved off it.
    fn is_around<'a>(
        &self,
        cell: &Rect,
        color: u32,
        snapshot: &Snapshot,
        old: &impl Fn(i32, i32, i32) -> &'a [u32],
    ) -> bool {
        let mut pixels = 0;
        for (dx, dy) in (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx, dy))) {
            let beside = cell.translate(dx * CELL, dy * CELL).intersect(&self.area);
            if (dx, dy) == (0, 0) || beside.is_empty() || !snapshot.contains(&beside) {
                continue;
            }
            for y in (beside.y1..beside.y2).step_by(4) {
                let row = old(beside.x1, beside.x2, y);
                pixels += row.iter().filter(|&&pixel| (pixel ^ color) & RGB == 0).count();
                if pixels >= GROUND_AROUND {
                    return true;
                }
            }
        }
        false
    }

    /// Joins moving cells to few rectangles, with smooth cells between them.
    fn join(&mut self, snapshot: &Snapshot) {
        self.runs.clear();
        self.seen.clear();
        self.seen.resize(self.cells.len(), false);
        for at in 0..self.cells.len() {
            if self.cells[at] == Cell::Moves {
                let cells = self.component(at);
                self.split(cells, snapshot);
            }
        }
        let exact = self.runs.iter().map(|run| self.pixels(run)).collect();
        self.exact = exact;
    }

    fn rects_with_exact(&self) -> impl Iterator<Item = (&Rect, &[Rect])> {
        let mut rest = &self.exact[..];
        self.rects.iter().zip(&self.exact_counts).map(move |(rect, &count)| {
            let (exact, after) = rest.split_at(count);
            rest = after;
            (rect, exact)
        })
    }

    /// Bounds of the moving cells that are connected with this one, in units of cells.
    fn component(&mut self, first: usize) -> Rect {
        let mut bounds = Rect::default();
        self.open.clear();
        self.open.push(first);
        self.seen[first] = true;
        while let Some(at) = self.open.pop() {
            let (x, y) = ((at % self.columns) as i32, (at / self.columns) as i32);
            let cell = Rect::at(x, y, 1, 1);
            bounds = if bounds.is_empty() { cell } else { bounds.bound(&cell) };
            let rows = self.cells.len() / self.columns;
            let beside = [
                (x > 0).then(|| at - 1),
                (x as usize + 1 < self.columns).then(|| at + 1),
                (y > 0).then(|| at - self.columns),
                (y as usize + 1 < rows).then(|| at + self.columns),
            ];
            for next in beside.into_iter().flatten() {
                if self.cells[next] == Cell::Moves && !self.seen[next] {
                    self.seen[next] = true;
                    self.open.push(next);
                }
            }
        }
        bounds
    }

    /// Appends the moving cells of a rectangle, in units of cells: as one rectangle if most of its
    /// cells move and none must be exact, else in two parts.
    fn split(&mut self, cells: Rect, snapshot: &Snapshot) {
        let bounds = self.moving_bounds(&cells).filter(|_| self.rects.len() < RECTS_MAX);
        let Some(bounds) = bounds else { return };
        let (across, down) = (bounds.width(), bounds.height());
        let count = self.row_cells(&bounds).filter(|&at| self.cells[at] == Cell::Moves).count();
        if count * MOVING_SHARE >= (across * down) as usize && self.may_join(&bounds, snapshot) {
            return self.take(&bounds);
        }
        if across >= down {
            let x = bounds.x1 + across / 2;
            self.split(Rect { x2: x, ..bounds }, snapshot);
            self.split(Rect { x1: x, ..bounds }, snapshot);
        } else {
            let y = bounds.y1 + down / 2;
            self.split(Rect { y2: y, ..bounds }, snapshot);
            self.split(Rect { y1: y, ..bounds }, snapshot);
        }
    }

    /// Appends a rectangle of cells, and what in it is exact.
    fn take(&mut self, cells: &Rect) {
        self.rects.push(self.pixels(cells));
        let runs = self.runs.len();
        for y in cells.y1..cells.y2 {
            let first = y as usize * self.columns;
            let row = &mut self.cells[first + cells.x1 as usize..first + cells.x2 as usize];
            let mut x = cells.x1;
            for run in row.chunk_by(|a, b| (*a == Cell::Exact) == (*b == Cell::Exact)) {
                let end = x + run.len() as i32;
                if run[0] == Cell::Exact {
                    self.runs.push(Rect::new(x, y, end, y + 1));
                }
                x = end;
            }
            row.fill(Cell::Taken);
        }
        self.exact_counts.push(self.runs.len() - runs);
    }

    /// The pixels of a rectangle of cells.
    fn pixels(&self, cells: &Rect) -> Rect {
        let (x, y) = (self.area.x1.div_euclid(CELL), self.area.y1.div_euclid(CELL));
        let cells = cells.translate(x, y);
        Rect::new(cells.x1 * CELL, cells.y1 * CELL, cells.x2 * CELL, cells.y2 * CELL)
            .intersect(&self.area)
    }

    /// Indices of the cells in a rectangle of cells.
    fn row_cells(&self, cells: &Rect) -> impl Iterator<Item = usize> + use<> {
        let (cells, columns) = (*cells, self.columns);
        (cells.y1..cells.y2)
            .flat_map(move |y| (cells.x1..cells.x2).map(move |x| y as usize * columns + x as usize))
    }

    fn moving_bounds(&self, cells: &Rect) -> Option<Rect> {
        let mut bounds = Rect::default();
        for y in cells.y1..cells.y2 {
            let row =
                &self.cells[y as usize * self.columns..][cells.x1 as usize..cells.x2 as usize];
            let moves = |cell: &Cell| *cell == Cell::Moves;
            if let (Some(first), Some(last)) =
                (row.iter().position(moves), row.iter().rposition(moves))
            {
                let (x1, x2) = (cells.x1 + first as i32, cells.x1 + last as i32 + 1);
                let part = Rect::new(x1, y, x2, y + 1);
                bounds = if bounds.is_empty() { part } else { bounds.bound(&part) };
            }
        }
        (!bounds.is_empty()).then_some(bounds)
    }

    /// True if all cells of a rectangle of cells move, are smooth, or are sent anyway.
    fn may_join(&mut self, cells: &Rect, snapshot: &Snapshot) -> bool {
        for at in self.row_cells(cells) {
            if self.cells[at] == Cell::Unknown {
                let (x, y) = ((at % self.columns) as i32, (at / self.columns) as i32);
                let cell = self.pixels(&Rect::at(x, y, 1, 1));
                let smooth = snapshot.contains(&cell)
                    && is_smooth(&cell, snapshot)
                    && !self.texts.iter().any(|text| text.overlaps(&cell));
                self.cells[at] = if smooth { Cell::Smooth } else { Cell::Rests };
            }
            if matches!(self.cells[at], Cell::Rests | Cell::Taken) {
                return false;
            }
        }
        true
    }
}

impl Pairs {
    /// Adds the differences of a row of pairs; 1 where one is an edge.
    #[inline(always)]
    fn add(&mut self, differences: &[u8; EDGE_CELL * 4]) -> [u32; EDGE_CELL] {
        let mut edges = [0; EDGE_CELL];
        let (mut differ, mut high) = (0, 0);
        for (edge, difference) in edges.iter_mut().zip(differences.as_chunks::<4>().0) {
            let above = difference.map(|level| level.saturating_sub(EDGE - 1));
            *edge = u32::from(u32::from_le_bytes(above) != 0);
            high += *edge;
            differ += u32::from(u32::from_le_bytes(*difference) != 0);
        }
        self.edges += high;
        self.shaded += differ - high;
        edges
    }
}
