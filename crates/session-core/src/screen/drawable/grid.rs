//! Path 4/13: under map.rs.
//! What every tile of one drawable was drawn as: one value while all tiles are the same, 4 bytes
//! each once they differ. Knows tiles and rectangles; never other drawables. All grids share a
//! bound, past which a drawable is unknown.

use thinc_region::{Rect, Size};

use super::tile::{Brush, TILE, TILE_SHIFT, Tile};

/// Most tiles of all drawables: 8 MiB, sixty screens of 4 K.
const TILES_MAX: usize = 2 << 20;
/// Most spare buffers.
const SPARE_MAX: usize = 32;
/// Columns of tiles joined at a time: a screen's width.
const STRIP: usize = 64;

/// The tiles of all grids: buffers are reused, so that a toolkit's short-lived pixmaps allocate
/// nothing.
#[derive(Debug, Default)]
pub(super) struct TilePool {
    spare: Vec<Vec<Tile>>,
    /// Capacity of all buffers, including spare ones.
    tiles: usize,
}

impl TilePool {
    /// Capacity of all buffers, including spare ones.
    #[cfg(test)]
    pub(super) fn tiles_held(&self) -> usize {
        self.tiles
    }

    /// A buffer of so many tiles; None past the bound.
    fn take(&mut self, len: usize, value: Tile) -> Option<Vec<Tile>> {
        let fits =
            |buffer: &Vec<Tile>| buffer.capacity() >= len && buffer.capacity() / 4 <= len.max(64);
        if let Some(at) = self.spare.iter().position(fits) {
            let mut buffer = self.spare.swap_remove(at);
            buffer.resize(len, value);
            return Some(buffer);
        }
        let capacity = len.next_power_of_two();
        while self.tiles + capacity > TILES_MAX {
            self.tiles -= self.spare.pop()?.capacity();
        }
        let mut buffer = Vec::with_capacity(capacity);
        self.tiles += buffer.capacity();
        buffer.resize(len, value);
        Some(buffer)
    }

    fn put(&mut self, mut buffer: Vec<Tile>) {
        if self.spare.len() >= SPARE_MAX {
            self.tiles -= buffer.capacity();
            return;
        }
        buffer.clear();
        self.spare.push(buffer);
    }
}

#[derive(Debug)]
enum TileStorage {
    Uniform(Tile),
    /// Row by row.
    Each(Vec<Tile>),
}

/// The tiles of one drawable.
#[derive(Debug)]
pub(super) struct Grid {
    bounds: Rect,
    columns: usize,
    tiles: TileStorage,
}

/// Tiles `from..to` meet the pixels `low..high`; `whole_from..whole_to` lie inside of them, or end
/// with the drawable.
struct TileSpan {
    from: usize,
    to: usize,
    whole_from: usize,
    whole_to: usize,
}

impl TileSpan {
    fn new(low: i32, high: i32, edge: i32) -> TileSpan {
        let whole_from = (low + TILE - 1) >> TILE_SHIFT;
        let to = (high + TILE - 1) >> TILE_SHIFT;
        let whole_to = if high >= edge { to } else { high >> TILE_SHIFT };
        TileSpan {
            from: (low >> TILE_SHIFT) as usize,
            to: to as usize,
            whole_from: whole_from as usize,
            whole_to: whole_to.max(whole_from) as usize,
        }
    }

    fn is_whole(&self, at: usize) -> bool {
        self.whole_from <= at && at < self.whole_to
    }
}

/// Tiles `first..=last` of the source lie under tile `at` of the destination, within pixels
/// `low..high`.
fn under(at: usize, low: i32, high: i32, moved: i32) -> (usize, usize) {
    let start = (at as i32) << TILE_SHIFT;
    let first = (start.max(low) - moved) >> TILE_SHIFT;
    let last = ((start + TILE).min(high) - 1 - moved) >> TILE_SHIFT;
    (first as usize, last as usize)
}

/// Sets each of `tiles` to what lies under it in two rows of the source, or joins it with that.
/// `beside` is 1 if two columns lie under each, and 0 if one does: a scroll is by whole tiles in at
/// least one direction.
fn gather(
    tiles: &mut [Tile],
    top: &[Tile],
    bottom: &[Tile],
    beside: usize,
    replace: bool,
    strip: &mut [Tile; STRIP + 1],
) {
    for (at, tiles) in tiles.chunks_mut(STRIP).enumerate() {
        let under = at * STRIP..at * STRIP + tiles.len() + beside;
        let (top, bottom) = (&top[under.clone()], &bottom[under.clone()]);
        // Most rows of a page are like the next, and comparing is cheaper than joining.
        let differ =
            top.iter().zip(bottom).fold(Tile::NOTHING, |differ, (a, b)| differ | a.difference(*b));
        let came = if differ == Tile::NOTHING {
            top
        } else {
            let strip = &mut strip[..under.len()];
            strip
                .iter_mut()
                .zip(top.iter().zip(bottom))
                .for_each(|(tile, (a, b))| *tile = a.join(*b));
            strip
        };
        match (replace, beside) {
            (true, 0) => tiles.copy_from_slice(came),
            (true, _) => {
                let under = came.iter().zip(&came[1..]);
                tiles.iter_mut().zip(under).for_each(|(tile, (a, b))| *tile = a.join(*b));
            }
            (false, _) => {
                let under = came.iter().zip(&came[beside..]);
                tiles
                    .iter_mut()
                    .zip(under)
                    .for_each(|(tile, (a, b))| *tile = tile.join(a.join(*b)));
            }
        }
    }
}

impl Grid {
    /// A drawable of which nothing is known.
    pub(super) fn new(size: Size) -> Grid {
        let columns = (size.width as usize).div_ceil(TILE as usize);
        Grid { bounds: size.rect(), columns, tiles: TileStorage::Uniform(Tile::OTHER) }
    }

    pub(super) fn bounds(&self) -> Rect {
        self.bounds
    }

    fn tile_count(&self) -> usize {
        self.columns * (self.bounds.y2 as usize).div_ceil(TILE as usize)
    }

    /// Forgets everything, and returns the buffer.
    pub(super) fn forget(&mut self, pool: &mut TilePool) {
        self.become_uniform(Tile::OTHER, pool);
    }

    fn become_uniform(&mut self, tile: Tile, pool: &mut TilePool) {
        if let TileStorage::Each(buffer) =
            std::mem::replace(&mut self.tiles, TileStorage::Uniform(tile))
        {
            pool.put(buffer);
        }
    }

    /// The tile at a column and row of tiles.
    #[cfg(test)]
    pub(super) fn at(&self, column: usize, row: usize) -> Tile {
        match &self.tiles {
            TileStorage::Uniform(tile) => *tile,
            TileStorage::Each(tiles) => tiles[row * self.columns + column],
        }
    }

    /// Tiles of row `row` from column `from` to column `to`; or the value of all tiles.
    pub(super) fn row(&self, row: usize, from: usize, to: usize) -> Result<&[Tile], Tile> {
        match &self.tiles {
            TileStorage::Uniform(tile) => Err(*tile),
            TileStorage::Each(tiles) => {
                Ok(&tiles[row * self.columns + from..row * self.columns + to])
            }
        }
    }

    /// The value of all tiles, if it is known to be one.
    pub(super) fn uniform(&self) -> Option<Tile> {
        match self.tiles {
            TileStorage::Uniform(tile) => Some(tile),
            TileStorage::Each(_) => None,
        }
    }

    /// Tiles with a value each; None past the bound of all grids, and then all are unknown.
    fn each(&mut self, pool: &mut TilePool) -> Option<&mut [Tile]> {
        if let TileStorage::Uniform(tile) = self.tiles {
            let Some(buffer) = pool.take(self.tile_count(), tile) else {
                self.tiles = TileStorage::Uniform(Tile::OTHER);
                return None;
            };
            self.tiles = TileStorage::Each(buffer);
        }
        match &mut self.tiles {
            TileStorage::Each(tiles) => Some(tiles),
            TileStorage::Uniform(_) => None,
        }
    }

    /// A drawing in `rect`, which lies inside.
    pub(super) fn draw(&mut self, rect: &Rect, brush: Brush, pool: &mut TilePool) {
        match brush.replaces() {
            Some(ink) => self.replace(rect, ink, pool),
            None => self.mark(rect, brush, pool),
        }
    }

    /// Some of the earlier content stays.
    fn mark(&mut self, rect: &Rect, brush: Brush, pool: &mut TilePool) {
        if let TileStorage::Uniform(tile) = &mut self.tiles {
            let marked = brush.over(*tile);
            // More text on a page of text.
            if marked == *tile || rect.contains(&self.bounds) {
                *tile = marked;
                return;
            }
        }
        let (columns, rows) =
            (TileSpan::new(rect.x1, rect.x2, 0), TileSpan::new(rect.y1, rect.y2, 0));
        let width = self.columns;
        let Some(tiles) = self.each(pool) else { return };
        for row in tiles[rows.from * width..rows.to * width].chunks_exact_mut(width) {
            for tile in &mut row[columns.from..columns.to] {
                *tile = brush.over(*tile);
            }
        }
    }

    /// Every pixel of `rect` is replaced by `tile`.
    fn replace(&mut self, rect: &Rect, tile: Tile, pool: &mut TilePool) {
        if matches!(self.tiles, TileStorage::Uniform(all) if all == tile) {
            return;
        }
        if rect.contains(&self.bounds) {
            return self.become_uniform(tile, pool);
        }
        let rows = TileSpan::new(rect.y1, rect.y2, self.bounds.y2);
        let columns = TileSpan::new(rect.x1, rect.x2, self.bounds.x2);
        let width = self.columns;
        let Some(tiles) = self.each(pool) else { return };
        let join =
            |tiles: &mut [Tile]| tiles.iter_mut().for_each(|before| *before = before.join(tile));
        for (row, tiles) in
            (rows.from..).zip(tiles[rows.from * width..rows.to * width].chunks_exact_mut(width))
        {
            if !rows.is_whole(row) || columns.whole_from >= columns.whole_to {
                join(&mut tiles[columns.from..columns.to]);
                continue;
            }
            join(&mut tiles[columns.from..columns.whole_from]);
            tiles[columns.whole_from..columns.whole_to].fill(tile);
            join(&mut tiles[columns.whole_to..columns.to]);
        }
    }

    /// `rect` now has what `from` has at `rect` less the vector.
    pub(super) fn copy(
        &mut self,
        rect: &Rect,
        from: &TileSource<'_>,
        dx: i32,
        dy: i32,
        pool: &mut TilePool,
    ) {
        let (source, origin, stride) = match from.tiles {
            Err(tile) => return self.replace(rect, tile, pool),
            Ok(tiles) => (tiles, from.origin, from.stride),
        };
        let rows = TileSpan::new(rect.y1, rect.y2, self.bounds.y2);
        let columns = TileSpan::new(rect.x1, rect.x2, self.bounds.x2);
        // Columns whose 16 pixels are all copied: under each lie one or two columns of the source,
        // the same number for all.
        let inner = columns.whole_from..((rect.x2 >> TILE_SHIFT) as usize).max(columns.whole_from);
        // At most one partial column on each side.
        let column_under = |column: usize| {
            let (left, right) = under(column, rect.x1, rect.x2, dx);
            (left - origin.0, right - origin.0)
        };
        let edges = [
            (columns.from < inner.start).then(|| (columns.from, column_under(columns.from))),
            (inner.end < columns.to).then(|| (inner.end, column_under(inner.end))),
        ];
        let inner_under = (!inner.is_empty()).then(|| column_under(inner.start));
        let mut strip = [Tile::NOTHING; STRIP + 1];
        let width = self.columns;
        let Some(tiles) = self.each(pool) else { return };
        for row in rows.from..rows.to {
            let tiles = &mut tiles[row * width..][..width];
            let whole_row = rows.is_whole(row);
            let (top, bottom) = under(row, rect.y1, rect.y2, dy);
            let top = &source[(top - origin.1) * stride..];
            let bottom = &source[(bottom - origin.1) * stride..];
            if let Some((left, right)) = inner_under {
                let under = left..right + inner.len();
                let beside = right - left;
                gather(
                    &mut tiles[inner.clone()],
                    &top[under.clone()],
                    &bottom[under],
                    beside,
                    whole_row,
                    &mut strip,
                );
            }
            for &(column, (left, right)) in edges.iter().flatten() {
                let came = top[left].join(top[right]).join(bottom[left].join(bottom[right]));
                let tile = &mut tiles[column];
                *tile = if whole_row && columns.is_whole(column) { came } else { tile.join(came) };
            }
        }
    }

    /// All tiles, to copy from.
    pub(super) fn source(&self) -> TileSource<'_> {
        let tiles = match &self.tiles {
            TileStorage::Uniform(tile) => Err(*tile),
            TileStorage::Each(tiles) => Ok(tiles.as_slice()),
        };
        TileSource { tiles, origin: (0, 0), stride: self.columns }
    }

    /// The current tiles under `rect`, to copy from while this grid changes.
    pub(super) fn before<'a>(&self, rect: &Rect, kept: &'a mut Vec<Tile>) -> TileSource<'a> {
        let (columns, rows) =
            (TileSpan::new(rect.x1, rect.x2, i32::MAX), TileSpan::new(rect.y1, rect.y2, i32::MAX));
        let stride = columns.to - columns.from;
        kept.clear();
        for row in rows.from..rows.to {
            match self.row(row, columns.from, columns.to) {
                Ok(tiles) => kept.extend_from_slice(tiles),
                Err(tile) => return TileSource { tiles: Err(tile), origin: (0, 0), stride },
            }
        }
        TileSource { tiles: Ok(kept), origin: (columns.from, rows.from), stride }
    }

    /// # Panics
    /// If the number of tiles is not the drawable's.
    pub(super) fn check_invariants(&self) {
        if let TileStorage::Each(tiles) = &self.tiles {
            assert_eq!(tiles.len(), self.tile_count(), "a grid has the drawable's number of tiles");
        }
    }
}

/// The pixels of the tiles from one column and row to another.
pub(super) fn tile_rect(column: usize, row: usize, to_column: usize, to_row: usize) -> Rect {
    let pixels = |tile: usize| (tile as i32) << TILE_SHIFT;
    Rect::new(pixels(column), pixels(row), pixels(to_column), pixels(to_row))
}

/// Tiles to copy from.
pub(super) struct TileSource<'a> {
    tiles: Result<&'a [Tile], Tile>,
    /// Column and row of the first.
    origin: (usize, usize),
    stride: usize,
}

impl TileSource<'_> {
    /// The kinds of all tiles under `rect`.
    pub(super) fn all(&self, rect: &Rect) -> Tile {
        let tiles = match self.tiles {
            Err(tile) => return tile,
            Ok(tiles) => tiles,
        };
        let (columns, rows) =
            (TileSpan::new(rect.x1, rect.x2, i32::MAX), TileSpan::new(rect.y1, rect.y2, i32::MAX));
        let mut all = Tile::NOTHING;
        for row in rows.from..rows.to {
            let row = (row - self.origin.1) * self.stride;
            let from = row + columns.from - self.origin.0;
            tiles[from..from + (columns.to - columns.from)]
                .iter()
                .for_each(|&tile| all = all | tile);
        }
        // A ground of several colours is no ground.
        all.parts()
    }
}
