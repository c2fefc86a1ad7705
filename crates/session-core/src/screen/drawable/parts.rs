//! Path 4/13: to ledger.rs, which asks at commit.
//! What a part of the screen was drawn as, in few rectangles.
//! Knows the screen's tiles and videos; never pixels, so everything it claims is to be verified
//! against them.

use thinc_region::Rect;

use super::grid::{Grid, tile_rect};
use super::rects;
use super::tile::{TILE_SHIFT, Tile};
use super::video::VideoRects;
use super::{PARTS_MAX, Part, Proposal};

/// Puts the parts of `within` with a proposal into `parts`: disjoint, the largest first, at most
/// [`PARTS_MAX`].
pub(super) fn parts(grid: &Grid, videos: &VideoRects, within: &Rect, parts: &mut Vec<Part>) {
    parts.clear();
    let within = within.intersect(&grid.bounds());
    if within.is_empty() {
        return;
    }
    match grid.uniform() {
        Some(tile) => parts.extend(tile.proposal().map(|what| Part { rect: within, what })),
        None => rows(grid, &within, parts),
    }
    for (rect, port) in videos.iter() {
        let rect = rect.intersect(&within);
        if !rect.is_empty() {
            take_out(parts, &rect);
            parts.push(Part { rect, what: Proposal::Video(port) });
        }
    }
    parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.rect.area()));
    parts.truncate(PARTS_MAX);
}

/// Runs of tiles with the same proposal, row by row; a run continues the one above it if they are
/// equally wide.
fn rows(grid: &Grid, within: &Rect, parts: &mut Vec<Part>) {
    let (from, to) =
        ((within.x1 >> TILE_SHIFT) as usize, ((within.x2 - 1) >> TILE_SHIFT) as usize + 1);
    let (top, bottom) =
        ((within.y1 >> TILE_SHIFT) as usize, ((within.y2 - 1) >> TILE_SHIFT) as usize + 1);
    // Parts that reach down to the current row, and those that reach to the next, from left to
    // right.
    let (mut above, mut below): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut before: &[Tile] = &[];
    for row in top..bottom {
        let Ok(tiles) = grid.row(row, from, to) else { return };
        if std::mem::replace(&mut before, tiles) == tiles {
            // Most rows of a page are like the one above.
            let y2 = tile_rect(from, row, to, row + 1).y2.min(within.y2);
            above.iter().for_each(|&at| parts[at].rect.y2 = y2);
            continue;
        }
        let mut column = from;
        let mut candidates = above.iter().copied().peekable();
        for run in tiles.chunk_by(|a, b| a == b || a.proposal() == b.proposal()) {
            let start = column;
            column += run.len();
            let Some(what) = run[0].proposal() else { continue };
            let rect = tile_rect(start, row, column, row + 1).intersect(within);
            while candidates.next_if(|&at| parts[at].rect.x1 < rect.x1).is_some() {}
            let same = |part: &Part| {
                part.what == what && (part.rect.x1, part.rect.x2) == (rect.x1, rect.x2)
            };
            match candidates.next_if(|&at| same(&parts[at])) {
                Some(at) => {
                    parts[at].rect.y2 = rect.y2;
                    below.push(at);
                }
                None => {
                    below.push(parts.len());
                    parts.push(Part { rect, what });
                }
            }
        }
        std::mem::swap(&mut above, &mut below);
        below.clear();
    }
}

fn take_out(parts: &mut Vec<Part>, rect: &Rect) {
    for i in (0..parts.len()).rev() {
        if parts[i].rect.overlaps(rect) {
            let part = parts.swap_remove(i);
            rects::for_each_piece(&part.rect, rect, |piece| {
                parts.push(Part { rect: piece, what: part.what })
            });
        }
    }
}
