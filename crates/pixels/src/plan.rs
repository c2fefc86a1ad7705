//! Path 8/13: from session-server with a snapshot, to codec-enc.
//! Drops what the viewer shows already, and says of the rest what kind of pixels it is; writes it into the shadow.
//! Knows one snapshot and one shadow; never how a kind is encoded.

use thinc_region::{Rect, Region};

use crate::changes::{RECTS_MAX, uniform};
use crate::hint::{Content, Hints, Verdict};
use crate::kind::{self, Colors};
use crate::motion::Motion;
use crate::photo::Photos;
use crate::{Cache, Film, RGB, Shadow, Snapshot};

/// Pixels to be sent, by what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// What the viewer shows, moved; before all others. By nothing: the viewer is told that what it shows there is exact.
    Shift {
        /// Where to.
        region: Region,
        /// Columns to the right; negative is left.
        dx: i32,
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
    /// Anything, exactly.
    Pixels {
        /// Where.
        rect: Rect,
        /// What it is, as far as anybody knows.
        content: Content,
    },
    /// What the viewer keeps in a slot. No other planned pixels lie here.
    Recall {
        /// Where.
        rect: Rect,
        /// From where.
        slot: u32,
    },
    /// The viewer keeps what it shows here once what is planned before this is there.
    Keep {
        /// What.
        rect: Rect,
        /// Where.
        slot: u32,
    },
    /// A photograph and nothing else, which may be sent lossy; the shadow takes it for inexact.
    Photo {
        /// Where.
        rect: Rect,
    },
}

/// Whether anything may be sent that is only nearly what the session shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lossy {
    /// All is sent exactly. What the viewer shows only nearly is sent again even where its source did not change.
    #[default]
    Never,
    /// Photographs may be sent lossy. What the viewer shows only nearly, and whose source did not change, is left for
    /// later.
    Photographs,
}

/// What a plan may do for the viewer and the link at hand.
#[derive(Debug, Default)]
pub struct PlanSettings<'a> {
    /// What need not be exact.
    pub lossy: Lossy,
    /// What the viewer keeps, where it keeps anything.
    pub cache: Option<&'a mut Cache>,
    /// When, in microseconds from any moment: what changes like a video is told by it.
    pub now: u64,
    /// A moving area that is sent as a video, and what is left of it for the plan. Nothing of it comes again: no cache is asked.
    pub film: Option<&'a mut Film>,
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
/// Most rectangles of what is inexact; beyond it more is taken for inexact than is.
const INEXACT_RECTS_MAX: usize = 1024;

/// Appends to `out` what a viewer needs so that it shows the snapshot, and makes the shadow show it.
///
/// COPYs that leave before these pixels must have been applied to the shadow. After it the snapshot's region is known
/// and exact. Every rectangle lies in the snapshot, a shift's source too; shifts come first, KEEPs last, the order of the
/// others means nothing.
pub fn plan(snapshot: &Snapshot, shadow: &mut Shadow, out: &mut Vec<Planned>) {
    plan_with(snapshot, shadow, &Hints::NONE, PlanSettings::default(), out);
}

/// The same where something is known of what was drawn; says how much of it the pixels confirmed.
///
/// Hints choose between ways to send pixels. What they say is looked up in the pixels first: a wrong one costs bytes. With
/// `Lossy::Photographs` not all of the snapshot's region is exact afterwards: what is not is in the shadow's `inexact`.
pub fn plan_with(
    snapshot: &Snapshot,
    shadow: &mut Shadow,
    hints: &Hints<'_>,
    settings: PlanSettings<'_>,
    out: &mut Vec<Planned>,
) -> Verdict {
    let PlanSettings { lossy, cache, now, mut film } = settings;
    let mut cache = cache.filter(|_| film.is_none());
    let mut verdict = Verdict::default();
    let mut changes = std::mem::take(&mut shadow.changes);
    changes.find(snapshot, shadow, lossy);
    hints.check_shown(&changes.rects, snapshot, shadow, &mut verdict);
    let mut shifts = std::mem::take(&mut shadow.shifts);
    let planned_before = out.len();
    shifts.find(&mut changes, snapshot, shadow, lossy, out);
    shadow.shifts = shifts;
    if let Some(film) = &mut film {
        film.note(&changes, snapshot, |x1, x2, y| shadow.row(x1, x2, y));
    }
    let mut motion = std::mem::take(&mut shadow.motion);
    for rect in &changes.rects {
        for (y, row) in (rect.y1..).zip(snapshot.rows(rect)) {
            let old = shadow.row_mut(rect.x1, rect.x2, y);
            motion.count(rect.x1, y, row, old);
            for (old, new) in old.iter_mut().zip(row) {
                *old = new & RGB;
            }
        }
    }
    let place = film.as_ref().map(|film| film.place());
    motion.note(snapshot, &changes.rects, &out[planned_before..], place, now);
    shadow.motion = motion;
    if !shadow.known.contains_rect(&snapshot.region().extents()) {
        shadow.known.add(snapshot.region());
    }
    // With photographs, what did not change stays as inexact as it was.
    match lossy {
        Lossy::Never => shadow.inexact.subtract(snapshot.region()),
        Lossy::Photographs => shadow.inexact.subtract(&changes.rects.iter().copied().collect()),
    }
    if let Some(cache) = &mut cache {
        cache.recall(&mut changes.rects, snapshot, shadow, out);
    }
    let first = out.len();
    let photos = (lossy == Lossy::Photographs).then_some(&mut shadow.photos);
    let clip = film.map(|film| film.find(&changes, snapshot, hints)).filter(|clip| !clip.is_empty());
    let mut sorter = Sorter { snapshot, hints, motion: &shadow.motion, photos, first, out };
    for rect in &changes.rects {
        hints.check_solids(rect, snapshot, &mut verdict);
        match clip.filter(|clip| clip.overlaps_rect(rect)) {
            Some(clip) => {
                let rest = Region::from(*rect).difference(clip);
                rest.rects().iter().for_each(|rect| sorter.sort(rect, SPLITS_MAX));
            }
            None => sorter.sort(rect, SPLITS_MAX),
        }
    }
    if let Some(clip) = clip {
        shadow.inexact.add(clip);
    }
    for planned in &out[first..] {
        if let Planned::Photo { rect } = planned {
            shadow.inexact.add_rect(*rect);
        }
    }
    if shadow.inexact.rect_count() > INEXACT_RECTS_MAX {
        shadow.inexact = shadow.inexact.simplified(INEXACT_RECTS_MAX / 2);
    }
    if let Some(cache) = cache {
        cache.keep(shadow, first, out);
    }
    shadow.changes = changes;
    verdict
}

/// Sorts what changed into kinds.
struct Sorter<'a> {
    snapshot: &'a Snapshot,
    hints: &'a Hints<'a>,
    motion: &'a Motion,
    /// Where photographs may be sent lossy.
    photos: Option<&'a mut Photos>,
    /// Index in `out` of the first kind.
    first: usize,
    out: &'a mut Vec<Planned>,
}

impl Sorter<'_> {
    fn sort(&mut self, rect: &Rect, depth: u32) {
        match kind::colors(self.snapshot, rect) {
            Colors::One(color) => self.solid(rect, color),
            Colors::Two(fg, bg) => match self.tile(rect, TWO_COLOR_TIMES_MIN) {
                Some((tile_width, tile_height)) => {
                    self.out.push(Planned::Pattern { rect: *rect, tile_width, tile_height });
                }
                None => self.out.push(Planned::TwoColor { rect: *rect, fg, bg }),
            },
            Colors::More if rect.area() >= SPLIT_AREA_MIN && self.out.len() - self.first < RECTS_MAX => {
                match self.hints.largest_solid(rect, self.snapshot).filter(|_| depth > 0) {
                    Some((part, color)) => self.around(rect, &part, color, depth),
                    None => self.split(rect, depth),
                }
            }
            Colors::More => self.mixed(rect),
        }
    }

    /// Takes a part of one colour out of a rectangle: above, below and beside it are rectangles again.
    fn around(&mut self, rect: &Rect, part: &Rect, color: u32, depth: u32) {
        self.solid(part, color);
        let rest = [
            Rect { y2: part.y1, ..*rect },
            Rect { y1: part.y2, ..*rect },
            Rect { y1: part.y1, y2: part.y2, x2: part.x1, ..*rect },
            Rect { y1: part.y1, y2: part.y2, x1: part.x2, ..*rect },
        ];
        for rest in rest.iter().filter(|rest| !rest.is_empty()) {
            self.sort(rest, depth - 1);
        }
    }

    fn tile(&self, rect: &Rect, times_min: u64) -> Option<(u16, u16)> {
        kind::tile(self.snapshot, rect, times_min, self.hints.tile_edge(rect))
    }

    /// What a rectangle holds, as it is said and as it has changed of late.
    fn content(&self, rect: &Rect) -> Content {
        match self.hints.content(rect) {
            Content::Text => Content::Text,
            _ if self.motion.is_video(rect) => Content::Video,
            content => content,
        }
    }

    /// More than two colours.
    fn mixed(&mut self, rect: &Rect) {
        let (snapshot, rect) = (self.snapshot, *rect);
        let content = self.content(&rect);
        if self.photographs(&rect) {
            return;
        }
        if matches!(content, Content::Image | Content::Video) {
            // Neither a tile nor a line between two colours is looked for in a photograph or a frame.
            self.out.push(Planned::Pixels { rect, content });
        } else if let Some((tile_width, tile_height)) = self.tile(&rect, TIMES_MIN) {
            self.out.push(Planned::Pattern { rect, tile_width, tile_height });
        } else if let Some((fg, bg)) = kind::coverage(snapshot, &rect) {
            self.out.push(Planned::Coverage { rect, fg, bg });
        } else {
            self.out.push(Planned::Pixels { rect, content });
        }
    }

    /// Takes the photographs out of a rectangle, if there are any, and sorts what is left.
    fn photographs(&mut self, rect: &Rect) -> bool {
        let Some(photos) = self.photos.take() else { return false };
        photos.find(self.snapshot, rect, self.hints);
        let found = !photos.rects.is_empty();
        if found {
            self.out.extend(photos.rects.iter().map(|&rect| Planned::Photo { rect }));
            let rest = Region::from(*rect).difference(&photos.rects.iter().copied().collect());
            for &rect in rest.rects() {
                match kind::colors(self.snapshot, &rect) {
                    Colors::One(color) => self.solid(&rect, color),
                    Colors::Two(fg, bg) => self.out.push(Planned::TwoColor { rect, fg, bg }),
                    Colors::More => self.out.push(Planned::Pixels { rect, content: self.content(&rect) }),
                }
            }
        }
        self.photos = Some(photos);
        found
    }

    /// Adds a rectangle to its colour's region.
    fn solid(&mut self, rect: &Rect, color: u32) {
        let found = self.out[self.first..].iter_mut().rev().take(SOLIDS_MAX).find_map(|planned| match planned {
            Planned::Solid { region, color: of } if *of == color => Some(region),
            _ => None,
        });
        match found {
            Some(region) => region.add_rect(*rect),
            None => self.out.push(Planned::Solid { region: Region::from(*rect), color }),
        }
    }

    /// Takes stripes and margins of one colour out of a large rectangle of more than two.
    ///
    /// First runs of rows, at least a cell high, then what is uniform at the left and at the right of each part between
    /// them; what is left stays in few large parts, which encode better than many small ones.
    fn split(&mut self, rect: &Rect, depth: u32) {
        let snapshot = self.snapshot;
        if depth == 0 || rect.area() < SPLIT_AREA_MIN || self.tile(rect, TIMES_MIN).is_some() {
            return self.mixed(rect);
        }
        let mut rest = *rect;
        let mut y = rect.y1;
        while y < rect.y2 {
            let color = snapshot.row(rect.x1, rect.x2, y)[0] & RGB;
            let end = (y..rect.y2).find(|&y| !uniform(snapshot.row(rect.x1, rect.x2, y), color)).unwrap_or(rect.y2);
            if end - y >= SPLIT_CELL {
                if y > rest.y1 {
                    self.margins(&Rect { y2: y, ..rest }, depth);
                }
                self.solid(&Rect { y1: y, y2: end, ..*rect }, color);
                rest.y1 = end;
            }
            y = end.max(y + 1);
        }
        if !rest.is_empty() {
            self.margins(&rest, depth);
        }
    }

    /// Left and right of a part without stripes; what they leave is narrower and may have stripes again.
    fn margins(&mut self, rect: &Rect, depth: u32) {
        let snapshot = self.snapshot;
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
            self.solid(&Rect { x2: edge, ..rest }, left_color);
            rest.x1 = edge;
        }
        if right as i32 >= SPLIT_CELL && !rest.is_empty() {
            let edge = (rect.x2 - right as i32).max(rest.x1);
            self.solid(&Rect { x1: edge, ..rest }, right_color);
            rest.x2 = edge;
        }
        if rest.is_empty() {
            return;
        }
        match kind::colors(snapshot, &rest) {
            Colors::One(color) => self.solid(&rest, color),
            Colors::Two(fg, bg) => self.out.push(Planned::TwoColor { rect: rest, fg, bg }),
            Colors::More if rest != *rect => self.split(&rest, depth - 1),
            Colors::More => self.mixed(&rest),
        }
    }
}
