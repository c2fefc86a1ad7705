//! Path 9/13: from encoder.rs, for RAW; to residuals.rs and predicted.rs.
//! Finds the parts of a rectangle that are cheaper as residuals than as operations: photographs,
//! and nothing that repeats.
//! Knows one rectangle of a snapshot; estimates from every fourth row, and a wrong estimate only
//! costs bytes.

use std::ops::Range;

use thinc_codec_dec::OPAQUE;
use thinc_codec_dec::residuals::{channels, predict};
use thinc_pixels::Snapshot;
use thinc_region::Rect;

/// 32 pixels: least edge of the tiles, the unit of the estimate.
const TILE: usize = 32;
/// One row in 4 is sampled.
const SAMPLED: usize = 4;
/// 4 Ki pixels: smaller photographs do not pay for a command and code tables of their own.
const AREA_MIN: u64 = 4096;
/// 8 pixels: in narrower rectangles most pixels have no neighbours to predict from.
const EDGE_MIN: usize = 8;
/// 500 bytes in quarters of a bit, for the sampled rows: the rest around a photograph is split, and
/// each part starts with empty contexts.
const GAIN_MIN: i32 = 500 * 8 * 4 / SAMPLED as i32;
/// Most photographs of one rectangle.
const PHOTOGRAPHS_MAX: usize = 16;
/// 1 Ki tiles take a tenth of a millisecond; larger rectangles have larger tiles.
const TILES_MAX: usize = 1024;
/// Gain of a tile that lies in a photograph already.
const ASSIGNED: i32 = i32::MIN / 4;

/// Cost of a pixel as an operation, in quarters of a bit, fitted to screens after zstd: the first
/// of a run (the others are free), equal to a neighbour, a small difference, and any other, which
/// in text has mostly occurred before.
const RUN: u32 = 12;
const LIKE: u32 = 8;
const SMALL: u32 = 36;
const OTHER: u32 = 52;

/// Cost of a pixel as a residual, in quarters of a bit, by the bits of its error.
const RESIDUAL: [u32; 11] = [4, 8, 16, 28, 41, 53, 64, 74, 84, 92, 96];

/// Finds photographs; it reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Cost of each tile as operations, minus its cost as residuals.
    gains: Vec<i32>,
    /// Sums of gains over a range of columns, row by row.
    sums: Vec<i32>,
    /// A row and the two rows above it.
    rows: [Vec<u32>; 3],
    photographs: Vec<Rect>,
}

impl Parts {
    /// The photographs in a rectangle; they are disjoint.
    pub(crate) fn photographs(&mut self, snapshot: &Snapshot, rect: &Rect) -> &[Rect] {
        self.photographs.clear();
        let (width, height) = (rect.width() as usize, rect.height() as usize);
        if rect.area() < AREA_MIN || width < EDGE_MIN || height < EDGE_MIN {
            return &[];
        }
        let mut tile = TILE;
        while width.div_ceil(tile) * height.div_ceil(tile) > TILES_MAX {
            tile *= 2;
        }
        let columns = width.div_ceil(tile);
        self.gains.clear();
        self.gains.resize(columns * height.div_ceil(tile), 0);
        for y in (SAMPLED / 2..height).step_by(SAMPLED) {
            for (row, up) in self.rows.iter_mut().zip(0..) {
                row.clear();
                let pixels = snapshot.row(rect.x1, rect.x2, rect.y1 + y as i32 - up);
                row.extend(pixels.iter().map(|pixel| pixel | OPAQUE));
            }
            let gains = &mut self.gains[y / tile * columns..][..columns];
            for (column, gain) in gains.iter_mut().enumerate() {
                let from = (column * tile).max(2);
                let to = ((column + 1) * tile).min(width - 1);
                *gain += gain_of(from, to, &self.rows);
            }
        }
        while self.photographs.len() < PHOTOGRAPHS_MAX
            && let Some((x, y)) = self.best(columns)
        {
            for gains in self.gains.chunks_mut(columns).take(y.end).skip(y.start) {
                gains[x.clone()].fill(ASSIGNED);
            }
            let edges = |tiles: Range<usize>, from: i32, to: i32| {
                (from + (tiles.start * tile) as i32, to.min(from + (tiles.end * tile) as i32))
            };
            let ((x1, x2), (y1, y2)) = (edges(x, rect.x1, rect.x2), edges(y, rect.y1, rect.y2));
            self.photographs.push(Rect { x1, y1, x2, y2 });
        }
        self.photographs.retain(|photograph| photograph.area() >= AREA_MIN);
        &self.photographs
    }

    /// The rectangle of tiles with the largest gain, as columns and rows; `None` if it is too
    /// small.
    ///
    /// For each pair of left and right edges, the best range of rows is found in one pass.
    fn best(&mut self, columns: usize) -> Option<(Range<usize>, Range<usize>)> {
        let rows = self.gains.len() / columns;
        let mut best = (GAIN_MIN, None);
        for left in 0..columns {
            self.sums.clear();
            self.sums.resize(rows, 0);
            for right in left..columns {
                let (mut gain, mut top) = (0i32, 0);
                for (y, sum) in self.sums.iter_mut().enumerate() {
                    *sum = sum.saturating_add(self.gains[y * columns + right]);
                    if gain <= 0 {
                        (gain, top) = (0, y);
                    }
                    gain = gain.saturating_add(*sum);
                    if gain > best.0 {
                        best = (gain, Some((left..right + 1, top..y + 1)));
                    }
                }
            }
        }
        best.1
    }
}

/// Gain of residuals for the pixels `from..to` of a row.
fn gain_of(from: usize, to: usize, [row, above, higher]: &[Vec<u32>; 3]) -> i32 {
    if row[from - 1..to] == above[from - 1..to] {
        // The common case, and no photograph.
        return -((to - from) as i32 * RESIDUAL[0] as i32);
    }
    let (mut operations, mut residuals) = (0, 0);
    let mut before = false;
    for x in from..to {
        let (pixel, left, up, corner) = (row[x], row[x - 1], above[x], above[x - 1]);
        let run = pixel == left || pixel == up;
        let starts = run && !before;
        before = run;
        if pixel == up && left == corner {
            operations += if starts { RUN } else { 0 };
            residuals += RESIDUAL[0];
            continue;
        }
        let is_similar =
            pixel == corner || pixel == above[x + 1] || pixel == row[x - 2] || pixel == higher[x];
        let predicted = predict::<false>(channels(left), channels(up), channels(corner));
        let pixel = channels(pixel);
        let error: u16 = (0..3).map(|i| (pixel[i] - predicted[i]).unsigned_abs()).sum();
        residuals += RESIDUAL[(16 - error.leading_zeros()) as usize];
        operations += match (run, is_similar) {
            (true, _) if starts => RUN,
            (true, _) => 0,
            (_, true) => LIKE,
            _ if error <= 5 => SMALL,
            _ => OTHER,
        };
    }
    operations as i32 - residuals as i32
}

#[cfg(test)]
mod tests {
    use thinc_region::{Region, Size};

    use super::*;

    fn noise(x: i32, y: i32) -> u32 {
        let mut n = (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
        n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
        n ^ (n >> 12)
    }

    fn photograph(x: i32, y: i32) -> u32 {
        let channel =
            |from: i32| (120 + (x + y * from) / 8 % 90) as u32 + (noise(x, y) >> (from * 3) & 3);
        channel(1) << 16 | channel(2) << 8 | channel(3)
    }

    /// Antialiased text on white.
    fn text(x: i32, y: i32) -> u32 {
        if x % 9 < 7 && y % 14 < 10 && noise(x % 9, y % 14) % 5 < 2 {
            noise(x % 9, y % 14 + 50) % 8 * 0x0020_2020
        } else {
            0x00ff_ffff
        }
    }

    fn found(size: Size, pixel: impl Fn(i32, i32) -> u32) -> Vec<Rect> {
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(size.rect()), |rect, dst, stride| {
            for (y, row) in (0..rect.height()).zip(dst.chunks_mut(stride)) {
                row.iter_mut().zip(0..rect.width()).for_each(|(dst, x)| *dst = pixel(x, y));
            }
        });
        Parts::default().photographs(&snapshot, &size.rect()).to_vec()
    }

    const SIZE: Size = Size { width: 640, height: 480 };

    #[test]
    fn a_photograph_is_one_part_and_text_is_none() {
        assert_eq!(found(SIZE, photograph), [SIZE.rect()]);
        assert_eq!(found(SIZE, text), []);
        assert_eq!(found(SIZE, |_, y| y as u32 / 2 * 0x0001_0101), [], "a gradient");
        assert_eq!(found(SIZE, |x, y| (x + y) as u32 % 2 * 0x00ff_ffff), [], "a chess board");
        assert_eq!(found(Size { width: 20, height: 20 }, photograph), [], "too small");
    }

    #[test]
    fn photographs_within_text_are_located() {
        let photographs =
            [Rect::at(64, 96, 256, 192), Rect::at(384, 96, 192, 128), Rect::at(96, 320, 128, 96)];
        let inside = |x: i32, y: i32| {
            photographs.iter().any(|p| (p.x1..p.x2).contains(&x) && (p.y1..p.y2).contains(&y))
        };
        let mut rects =
            found(SIZE, |x, y| if inside(x, y) { photograph(x, y) } else { text(x, y) });
        rects.sort_by_key(|rect| (rect.y1, rect.x1));
        assert_eq!(rects, photographs);
    }

    #[test]
    fn photographs_of_large_screens_are_disjoint_and_inside() {
        for size in [
            Size { width: 3840, height: 2160 },
            Size { width: 16384, height: 40 },
            Size { width: 37, height: 5000 },
        ] {
            let rects = found(size, |x, y| {
                if (x / 512 + y / 384) % 2 == 0 { photograph(x, y) } else { text(x, y) }
            });
            let mut all = Region::new();
            rects.iter().for_each(|rect| all.add_rect(*rect));
            assert_eq!(
                all.area(),
                rects.iter().map(Rect::area).sum::<u64>(),
                "none overlaps another"
            );
            assert!(size.rect().contains(&all.extents()));
        }
    }
}
