//! Path 8/13: from session-server with a snapshot, to codec-enc.
//! Drops what the viewer shows already, and says of the rest what kind of pixels it is; writes it into the shadow.
//! Knows one snapshot and one shadow; never how a kind is encoded.

use thinc_region::{Rect, Region};

use crate::changes::{Changes, RECTS_MAX, uniform};
use crate::kind::{self, Colors};
use crate::{RGB, Shadow, Snapshot};

/// Pixels to be sent, by what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// What the viewer shows, moved; before all others.
    Shift {
        /// Where to.
        region: Region,
        /// Rows down; negative is up.
        dy: i32,
    },
    /// One colour.
    Solid {
        /// Where.
        region: Region,
        /// 0xRRGGBB.
        color: u32,
    },
    /// A tile repeated from the rectangle's corner, where its pixels are found.
    Pattern {
        /// Where.
        rect: Rect,
        /// Pixels.
        tile_width: u16,
        /// Pixels.
        tile_height: u16,
    },
    /// Two colours.
    TwoColor {
        /// Where.
        rect: Rect,
        /// The rarer, 0xRRGGBB.
        fg: u32,
        /// The more common, 0xRRGGBB.
        bg: u32,
    },
    /// Two colours and the line between them; `coverage::Line` gives each pixel's place on it.
    Coverage {
        /// Where.
        rect: Rect,
        /// Coverage 255, 0xRRGGBB.
        fg: u32,
        /// Coverage 0, 0xRRGGBB.
        bg: u32,
    },
    /// Anything.
    Pixels {
        /// Where.
        rect: Rect,
    },
}

/// A rectangle of at least this many pixels is looked through for parts of one colour.
const SPLIT_AREA_MIN: u64 = 64 * 64;
/// 32 pixels: edge of those parts.
const SPLIT_CELL: i32 = 32;
/// A tile is found at least this often, or the rectangle is no pattern.
const TIMES_MIN: u64 = 4;
/// Of two colours a pixel costs a bit outside a tile and more inside.
const TWO_COLOR_TIMES_MIN: u64 = 16;
/// Margins are taken off alternately this many times: around a window, then around what the window shows.
const SPLITS_MAX: u32 = 4;
/// Most colours whose parts are gathered into regions in one plan; the others stay where they are.
const SOLIDS_MAX: usize = 64;

/// Appends to `out` what a viewer needs so that it shows the snapshot, and makes the shadow show it.
///
/// COPYs that leave before these pixels must have been applied to the shadow. After it the snapshot's region is known
/// and exact. Every rectangle lies in the snapshot, a shift's source too; a shift comes first, the order of the others
/// means nothing.
pub fn plan(snapshot: &Snapshot, shadow: &mut Shadow, out: &mut Vec<Planned>) {
    let mut changes = std::mem::take(&mut shadow.changes);
    changes.find(snapshot, shadow);
    let mut shifts = std::mem::take(&mut shadow.shifts);
    if let Some((rect, dy)) = shifts.find(&changes.scrolled(snapshot), snapshot, shadow) {
        let region = Region::from(rect);
        shadow.copy(&region, 0, dy);
        out.push(Planned::Shift { region, dy });
        changes.find(snapshot, shadow);
    }
    shadow.shifts = shifts;
    for rect in &changes.rects {
        for (y, row) in (rect.y1..).zip(snapshot.rows(rect)) {
            for (old, new) in shadow.row_mut(rect.x1, rect.x2, y).iter_mut().zip(row) {
                *old = new & RGB;
            }
        }
    }
    if !shadow.known.contains_rect(&snapshot.region().extents()) {
        shadow.known.add(snapshot.region());
    }
    shadow.inexact.subtract(snapshot.region());
    sort(snapshot, &changes, out);
    shadow.changes = changes;
}

/// Sorts what changed into kinds.
fn sort(snapshot: &Snapshot, changes: &Changes, out: &mut Vec<Planned>) {
    let first = out.len();
    for rect in &changes.rects {
        match kind::colors(snapshot, rect) {
            Colors::One(color) => solid(rect, color, first, out),
            Colors::Two(fg, bg) => match kind::tile(snapshot, rect, TWO_COLOR_TIMES_MIN) {
                Some((tile_width, tile_height)) => out.push(Planned::Pattern { rect: *rect, tile_width, tile_height }),
                None => out.push(Planned::TwoColor { rect: *rect, fg, bg }),
            },
            Colors::More if rect.area() >= SPLIT_AREA_MIN && out.len() - first < RECTS_MAX => {
                split(snapshot, rect, SPLITS_MAX, first, out);
            }
            Colors::More => mixed(snapshot, rect, out),
        }
    }
}

/// More than two colours.
fn mixed(snapshot: &Snapshot, rect: &Rect, out: &mut Vec<Planned>) {
    let rect = *rect;
    if let Some((tile_width, tile_height)) = kind::tile(snapshot, &rect, TIMES_MIN) {
        out.push(Planned::Pattern { rect, tile_width, tile_height });
    } else if let Some((fg, bg)) = kind::coverage(snapshot, &rect) {
        out.push(Planned::Coverage { rect, fg, bg });
    } else {
        out.push(Planned::Pixels { rect });
    }
}

/// Adds a rectangle to its colour's region.
fn solid(rect: &Rect, color: u32, first: usize, out: &mut Vec<Planned>) {
    let found = out[first..].iter_mut().rev().take(SOLIDS_MAX).find_map(|planned| match planned {
        Planned::Solid { region, color: of } if *of == color => Some(region),
        _ => None,
    });
    match found {
        Some(region) => region.add_rect(*rect),
        None => out.push(Planned::Solid { region: Region::from(*rect), color }),
    }
}

/// Takes stripes and margins of one colour out of a large rectangle of more than two.
///
/// First runs of rows, at least a cell high, then what is uniform at the left and at the right of each part between
/// them; what is left stays in few large parts, which encode better than many small ones.
fn split(snapshot: &Snapshot, rect: &Rect, depth: u32, first: usize, out: &mut Vec<Planned>) {
    if depth == 0 || rect.area() < SPLIT_AREA_MIN || kind::tile(snapshot, rect, TIMES_MIN).is_some() {
        return mixed(snapshot, rect, out);
    }
    let mut rest = *rect;
    let mut y = rect.y1;
    while y < rect.y2 {
        let color = snapshot.row(rect.x1, rect.x2, y)[0] & RGB;
        let end = (y..rect.y2).find(|&y| !uniform(snapshot.row(rect.x1, rect.x2, y), color)).unwrap_or(rect.y2);
        if end - y >= SPLIT_CELL {
            if y > rest.y1 {
                margins(snapshot, &Rect { y2: y, ..rest }, depth, first, out);
            }
            solid(&Rect { y1: y, y2: end, ..*rect }, color, first, out);
            rest.y1 = end;
        }
        y = end.max(y + 1);
    }
    if !rest.is_empty() {
        margins(snapshot, &rest, depth, first, out);
    }
}

/// Left and right of a part without stripes; what they leave is narrower and may have stripes again.
fn margins(snapshot: &Snapshot, rect: &Rect, depth: u32, first: usize, out: &mut Vec<Planned>) {
    let mut rest = *rect;
    let left_color = snapshot.row(rect.x1, rect.x2, rect.y1)[0] & RGB;
    let right_color = snapshot.row(rect.x2 - 1, rect.x2, rect.y1)[0] & RGB;
    let (mut left, mut right) = (rect.width() as usize, rect.width() as usize);
    for row in snapshot.rows(rect) {
        left = row[..left].iter().position(|p| p & RGB != left_color).unwrap_or(left);
        let tail = &row[row.len() - right..];
        right = tail.iter().rev().position(|p| p & RGB != right_color).unwrap_or(right);
    }
    if left as i32 >= SPLIT_CELL {
        let edge = rect.x1 + left as i32;
        solid(&Rect { x2: edge, ..rest }, left_color, first, out);
        rest.x1 = edge;
    }
    if right as i32 >= SPLIT_CELL && !rest.is_empty() {
        let edge = (rect.x2 - right as i32).max(rest.x1);
        solid(&Rect { x1: edge, ..rest }, right_color, first, out);
        rest.x2 = edge;
    }
    if rest.is_empty() {
        return;
    }
    match kind::colors(snapshot, &rest) {
        Colors::One(color) => solid(&rest, color, first, out),
        Colors::Two(fg, bg) => out.push(Planned::TwoColor { rect: rest, fg, bg }),
        Colors::More if rest != *rect => split(snapshot, &rest, depth - 1, first, out),
        Colors::More => mixed(snapshot, &rest, out),
    }
}
