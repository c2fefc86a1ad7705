//! Path 8/13: under plan.rs.
//! Classifies the pixels of a rectangle: one colour, two, a repeated tile, blends of two colours.
//! Knows one rectangle of a snapshot. Every answer is exact; most negative ones need a few pixels.

use thinc_region::Rect;

use crate::changes::{differ, uniform};
use crate::coverage::Line;
use crate::{RGB, Snapshot};

/// 64: longest edge of a tile that is searched for without a hint.
pub(crate) const TILE_EDGE: usize = 64;
/// 256: the same if a pattern was drawn; wallpapers have such tiles.
pub(crate) const TILE_EDGE_CLAIMED: usize = 256;
/// Least pixels of a rectangle for which a tile is worth its encoding.
const TILED_AREA_MIN: u64 = 256;
/// 64 Ki pixels: in a larger rectangle text is mixed with other content, and blends are not
/// searched for.
const COVERAGE_AREA_MAX: u64 = 64 * 1024;

/// Colours of a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colors {
    One(u32),
    /// The rarer one and the more common one.
    Two(u32, u32),
    More,
}

/// Counts the colours of a rectangle, up to three.
pub(crate) fn colors(snapshot: &Snapshot, rect: &Rect) -> Colors {
    let mut rows = snapshot.rows(rect);
    let first = rows.next().map_or(0, |row| row[0]) & RGB;
    let mut other = None;
    let mut firsts = 0u64;
    for row in snapshot.rows(rect) {
        if other.is_none() {
            // Rows of one colour are the most common.
            if uniform(row, first) {
                firsts += row.len() as u64;
                continue;
            }
            other = row.iter().map(|p| p & RGB).find(|&p| p != first);
        }
        let second = other.unwrap_or(first);
        // Without a branch per pixel: the colours of text are unpredictable.
        for part in row.chunks(64) {
            let (strange, same) = part.iter().fold((0, 0), |(strange, same), pixel| {
                let (a, b) = (pixel & RGB == first, pixel & RGB == second);
                (strange | u32::from(!a & !b), same + u32::from(a))
            });
            if strange != 0 {
                return Colors::More;
            }
            firsts += u64::from(same);
        }
    }
    match other {
        None => Colors::One(first),
        Some(second) if firsts * 2 >= rect.area() => Colors::Two(second, first),
        Some(second) => Colors::Two(first, second),
    }
}

/// The smallest tile whose repetition from the upper left corner yields the rectangle, if the
/// rectangle contains it at least `times_min` times and its edges are at most `edge_max`.
pub(crate) fn tile(
    snapshot: &Snapshot,
    rect: &Rect,
    times_min: u64,
    edge_max: usize,
) -> Option<(u16, u16)> {
    if rect.area() < TILED_AREA_MIN {
        return None;
    }
    let (width, height) = (rect.width() as usize, rect.height() as usize);
    let row = |y: usize| snapshot.row(rect.x1, rect.x2, rect.y1 + y as i32);
    // Height first: it compares few whole rows, and bounds the rows that the search for the width
    // compares. The row that refuted one candidate is tested first for the next: most fail within a
    // few pixels.
    let mut probe = 0;
    let mut tile_height = height;
    'heights: for candidate in 1..=edge_max.min(height / 2) {
        let repeats = |y: usize| !differ(row(y), row(y - candidate));
        if probe >= candidate && !repeats(probe) {
            continue;
        }
        for y in candidate..height {
            if !repeats(y) {
                probe = y;
                continue 'heights;
            }
        }
        tile_height = candidate;
        break;
    }
    if tile_height > edge_max {
        return None;
    }
    probe = 0;
    let mut tile_width = width;
    'widths: for candidate in 1..=edge_max.min(width / 2) {
        let repeats = |y: usize| !differ(&row(y)[candidate..], &row(y)[..width - candidate]);
        if !repeats(probe) {
            continue;
        }
        for y in 0..tile_height {
            if !repeats(y) {
                probe = y;
                continue 'widths;
            }
        }
        tile_width = candidate;
        break;
    }
    let small =
        tile_width <= edge_max && (tile_width * tile_height) as u64 * times_min <= rect.area();
    small.then_some((tile_width as u16, tile_height as u16))
}

/// Foreground and background, if every pixel is exactly a blend of both.
pub(crate) fn coverage(snapshot: &Snapshot, rect: &Rect) -> Option<(u32, u32)> {
    if rect.area() > COVERAGE_AREA_MAX {
        return None;
    }
    // The two colours are the darkest and the lightest pixel.
    let light = |pixel: u32| (pixel & 0xff) + (pixel >> 8 & 0xff) + (pixel >> 16 & 0xff);
    let corner = snapshot.rows(rect).next()?[0] & RGB;
    let (mut dark, mut bright) = (corner, corner);
    for &pixel in snapshot.rows(rect).flatten() {
        let pixel = pixel & RGB;
        if light(pixel) < light(dark) {
            dark = pixel;
        }
        if light(pixel) > light(bright) {
            bright = pixel;
        }
    }
    let (fg, bg) = if corner == dark { (bright, dark) } else { (dark, bright) };
    let line = Line::new(fg, bg);
    let mut before = bg;
    for &pixel in snapshot.rows(rect).flatten() {
        if pixel & RGB != before {
            before = pixel & RGB;
            line.coverage(before)?;
        }
    }
    Some((fg, bg))
}
