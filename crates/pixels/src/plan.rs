//! Path 8/13: from session-server with a snapshot, to codec-enc.
//! Drops pixels that the viewer shows already, classifies the rest by kind, and enters it into the
//! shadow.
//! Knows one snapshot and one shadow; never how a kind is encoded.

use thinc_region::{Rect, Region};

use crate::changes::{RECTS_MAX, uniform};
use crate::hint::{Content, HintStats, Hints};
use crate::kind::{self, Colors};
use crate::motion::Motion;
use crate::photo::Photos;
use crate::{Cache, RGB, Shadow, Snapshot, VideoMask};

/// Pixels to send, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Moved pixels: a COPY, before all others. By (0, 0): states that the viewer's pixels are
    /// lossless.
    Shift {
        /// Destination.
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
    /// A tile repeated from the rectangle's upper left corner, where its pixels are.
    Pattern {
        /// Where.
        rect: Rect,
        /// In pixels.
        tile_width: u16,
        /// In pixels.
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
    /// Two colours and blends of them; `coverage::Line` gives each pixel's coverage.
    Coverage {
        /// Where.
        rect: Rect,
        /// Coverage 255, 0xRRGGBB.
        fg: u32,
        /// Coverage 0, 0xRRGGBB.
        bg: u32,
    },
    /// Any pixels, lossless.
    Pixels {
        /// Where.
        rect: Rect,
        /// What was drawn there, as far as is known.
        content: Content,
    },
    /// Pixels from a slot of the viewer's cache. No other planned pixels lie here.
    Recall {
        /// Where.
        rect: Rect,
        /// The slot.
        slot: u32,
    },
    /// The viewer keeps these pixels in a slot, after everything planned before.
    Keep {
        /// The pixels.
        rect: Rect,
        /// The slot.
        slot: u32,
    },
    /// A photograph and nothing else, which may be sent lossy; it is in the shadow's lossy region.
    Photo {
        /// Where.
        rect: Rect,
    },
    /// A part of a program's frame that moves: sent lossy, as another one follows; it is in the
    /// shadow's lossy region. Pixels of it that are exact are the next items, and are to be shown
    /// at the same moment.
    Frame {
        /// Where.
        rect: Rect,
    },
}

/// Whether lossy encodings are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lossy {
    /// Everything is lossless. Lossy pixels of the viewer are sent again even if they did not
    /// change.
    #[default]
    Never,
    /// Photographs may be lossy. Lossy pixels that did not change wait for a refresh.
    Photographs,
}

/// What a plan may use for this viewer and its path.
#[derive(Debug, Default)]
pub struct PlanSettings<'a> {
    /// Whether lossy encodings are allowed.
    pub lossy: Lossy,
    /// The viewer's cache, if it has one.
    pub cache: Option<&'a mut Cache>,
    /// The time in microseconds, for the detection of videos.
    pub now: u64,
    /// The mask of a video area whose frame this snapshot is; the plan handles what the mask
    /// excludes. The cache is not used, because nothing in a video repeats.
    pub video: Option<&'a mut VideoMask>,
    /// Areas that a program puts whole frames into, disjoint; those after the first
    /// `FRAME_AREAS_MAX` count as none. The cache is not used with them.
    pub frames: &'a [Rect],
    /// What moves in them is sent lossy, and lossy pixels that did not change wait for a refresh.
    pub lossy_frames: bool,
}

/// A rectangle of at least this many pixels is searched for parts of one colour.
const SPLIT_AREA_MIN: u64 = 64 * 64;
/// 32 pixels: edge of those parts.
const SPLIT_EDGE_MIN: i32 = 32;
/// A pattern repeats its tile at least this often.
const TIMES_MIN: u64 = 4;
/// The same for two colours, of which a pixel costs a bit, and more inside a tile.
const TWO_COLOR_TIMES_MIN: u64 = 16;
/// Most alternating splits at margins: around a window, then around the window's contents.
const SPLITS_MAX: u32 = 4;
/// Most colours whose parts are joined to regions in one plan.
const SOLIDS_MAX: usize = 64;
/// Most rectangles of the lossy region; beyond it the region becomes larger than necessary.
const LOSSY_RECTS_MAX: usize = 1024;

/// Appends to `out` what a viewer needs to show the snapshot, and updates the shadow.
///
/// COPYs that are sent before these pixels must already be applied to the shadow. Afterwards the
/// snapshot's region is known and lossless. Every rectangle lies in the snapshot, also a shift's
/// source. Shifts are first and KEEPs last; others that overlap are in order.
pub fn plan(snapshot: &Snapshot, shadow: &mut Shadow, out: &mut Vec<Planned>) {
    plan_with(snapshot, shadow, &Hints::NONE, PlanSettings::default(), out);
}

/// The same with hints about what was drawn; returns how many of them the pixels confirmed.
///
/// Hints choose between ways to send pixels and are verified first: a wrong one costs bytes. With
/// `Lossy::Photographs` part of the snapshot's region may be lossy afterwards, in `lossy_region`.
pub fn plan_with(
    snapshot: &Snapshot,
    shadow: &mut Shadow,
    hints: &Hints<'_>,
    settings: PlanSettings<'_>,
    out: &mut Vec<Planned>,
) -> HintStats {
    let PlanSettings { lossy, cache, now, video: mut mask, frames, lossy_frames } = settings;
    let photographs = lossy == Lossy::Photographs;
    let lossy = if lossy_frames { Lossy::Photographs } else { lossy };
    let mut cache = cache.filter(|_| mask.is_none() && frames.is_empty());
    let mut hint_stats = HintStats::default();
    let mut changes = std::mem::take(&mut shadow.changes);
    changes.find(snapshot, shadow, lossy);
    hints.check_shown(&changes.rects, snapshot, shadow, &mut hint_stats);
    // It takes the shifts of the plan as such, and not as COPYs.
    let mut moving = std::mem::take(&mut shadow.moving);
    let mut shifts = std::mem::take(&mut shadow.shifts);
    let planned_before = out.len();
    shifts.find(&mut changes, snapshot, shadow, lossy, out);
    shadow.shifts = shifts;
    if let Some(mask) = &mut mask {
        mask.record(&changes, snapshot, |x1, x2, y| shadow.row(x1, x2, y));
    }
    let row = |x1, x2, y| shadow.row(x1, x2, y);
    moving.find(frames, (&changes, snapshot, hints), &out[planned_before..], row, now);
    // What is known to move needs not be detected.
    let known: &[Rect] = if lossy_frames && moving.extent().0 > 0 { frames } else { &[] };
    shadow.moving = moving;
    let mut motion = std::mem::take(&mut shadow.motion);
    for rect in &changes.rects {
        let counts = !known.iter().any(|frame| frame.contains(rect));
        for (y, row) in (rect.y1..).zip(snapshot.rows(rect)) {
            let old = shadow.row_mut(rect.x1, rect.x2, y);
            if counts {
                motion.count(rect.x1, y, row, old);
            }
            for (old, new) in old.iter_mut().zip(row) {
                *old = new & RGB;
            }
        }
    }
    let area = mask.as_ref().map(|mask| mask.area());
    motion.record(snapshot, &changes.rects, &out[planned_before..], area, now);
    shadow.motion = motion;
    if !shadow.known.contains_rect(&snapshot.region().extents()) {
        shadow.known.add(snapshot.region());
    }
    // With photographs, unchanged pixels stay lossy if they were.
    match lossy {
        Lossy::Never => shadow.lossy_region.subtract(snapshot.region()),
        Lossy::Photographs => {
            shadow.lossy_region.subtract(&changes.rects.iter().copied().collect())
        }
    }
    if let Some(cache) = &mut cache {
        cache.recall(&mut changes.rects, snapshot, shadow, out);
    }
    let first = out.len();
    let size = shadow.size();
    let photos = photographs.then_some(&mut shadow.photos);
    let clip = match mask {
        Some(mask) => {
            let (pixels, width) = (&shadow.pixels, size.width as usize);
            let shown =
                |x1: i32, x2: i32, y: i32| &pixels[y as usize * width..][x1 as usize..x2 as usize];
            Some(mask.find(&changes, snapshot, hints, shown))
        }
        None if lossy_frames => {
            let content = Content::Video;
            for (&rect, exact) in shadow.moving.rects_with_exact() {
                out.push(Planned::Frame { rect });
                out.extend(exact.iter().map(|&rect| Planned::Pixels { rect, content }));
            }
            Some(shadow.moving.region())
        }
        None => None,
    };
    let clip = clip.filter(|clip| !clip.is_empty());
    let mut classifier = Classifier { snapshot, hints, motion: &shadow.motion, photos, first, out };
    for rect in &changes.rects {
        hints.check_solids(rect, snapshot, &mut hint_stats);
        match clip.filter(|clip| clip.overlaps_rect(rect)) {
            Some(clip) => {
                let rest = Region::from(*rect).difference(clip);
                rest.rects().iter().for_each(|rect| classifier.classify(rect, SPLITS_MAX));
            }
            None => classifier.classify(rect, SPLITS_MAX),
        }
    }
    if let Some(clip) = clip {
        shadow.lossy_region.add(clip);
        if lossy_frames {
            let exact: Region = shadow.moving.exact().copied().collect();
            shadow.lossy_region.subtract(&exact);
        }
    }
    for planned in &out[first..] {
        if let Planned::Photo { rect } = planned {
            shadow.lossy_region.add_rect(*rect);
        }
    }
    if shadow.lossy_region.rect_count() > LOSSY_RECTS_MAX {
        shadow.lossy_region = shadow.lossy_region.simplified(LOSSY_RECTS_MAX / 2);
    }
    if let Some(cache) = cache {
        cache.keep(shadow, first, out);
    }
    shadow.changes = changes;
    hint_stats
}

/// Classifies changed pixels by kind.
struct Classifier<'a> {
    snapshot: &'a Snapshot,
    hints: &'a Hints<'a>,
    motion: &'a Motion,
    /// Present if photographs may be sent lossy.
    photos: Option<&'a mut Photos>,
    /// Index in `out` of the first classified pixels.
    first: usize,
    out: &'a mut Vec<Planned>,
}

impl Classifier<'_> {
    fn classify(&mut self, rect: &Rect, depth: u32) {
        match kind::colors(self.snapshot, rect) {
            Colors::One(color) => self.solid(rect, color),
            Colors::Two(fg, bg) => match self.tile(rect, TWO_COLOR_TIMES_MIN) {
                Some((tile_width, tile_height)) => {
                    self.out.push(Planned::Pattern { rect: *rect, tile_width, tile_height });
                }
                None => self.out.push(Planned::TwoColor { rect: *rect, fg, bg }),
            },
            Colors::More
                if rect.area() >= SPLIT_AREA_MIN && self.out.len() - self.first < RECTS_MAX =>
            {
                match self.hints.largest_solid(rect, self.snapshot).filter(|_| depth > 0) {
                    Some((part, color)) => self.split_around(rect, &part, color, depth),
                    None => self.split(rect, depth),
                }
            }
            Colors::More => self.mixed(rect),
        }
    }

    /// Splits a part of one colour off a rectangle; up to four rectangles around it remain.
    fn split_around(&mut self, rect: &Rect, part: &Rect, color: u32, depth: u32) {
        self.solid(part, color);
        let rest = [
            Rect { y2: part.y1, ..*rect },
            Rect { y1: part.y2, ..*rect },
            Rect { y1: part.y1, y2: part.y2, x2: part.x1, ..*rect },
            Rect { y1: part.y1, y2: part.y2, x1: part.x2, ..*rect },
        ];
        for rest in rest.iter().filter(|rest| !rest.is_empty()) {
            self.classify(rest, depth - 1);
        }
    }

    fn tile(&self, rect: &Rect, times_min: u64) -> Option<(u16, u16)> {
        kind::tile(self.snapshot, rect, times_min, self.hints.tile_edge(rect))
    }

    /// What a rectangle contains, by hints and by its recent changes.
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
            // Photographs and frames are not searched for tiles or blends of two colours.
            self.out.push(Planned::Pixels { rect, content });
        } else if let Some((tile_width, tile_height)) = self.tile(&rect, TIMES_MIN) {
            self.out.push(Planned::Pattern { rect, tile_width, tile_height });
        } else if let Some((fg, bg)) = kind::coverage(snapshot, &rect) {
            self.out.push(Planned::Coverage { rect, fg, bg });
        } else {
            self.out.push(Planned::Pixels { rect, content });
        }
    }

    /// Splits photographs off a rectangle, if there are any, and classifies the rest.
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
                    Colors::More => {
                        self.out.push(Planned::Pixels { rect, content: self.content(&rect) })
                    }
                }
            }
        }
        self.photos = Some(photos);
        found
    }

    /// Adds a rectangle to its colour's region.
    fn solid(&mut self, rect: &Rect, color: u32) {
        let found = self.out[self.first..].iter_mut().rev().take(SOLIDS_MAX).find_map(|planned| {
            match planned {
                Planned::Solid { region, color: of } if *of == color => Some(region),
                _ => None,
            }
        });
        match found {
            Some(region) => region.add_rect(*rect),
            None => self.out.push(Planned::Solid { region: Region::from(*rect), color }),
        }
    }

    /// Splits stripes and margins of one colour off a large rectangle of more than two.
    ///
    /// First runs of rows at least a cell high, then uniform columns at the left and right of each
    /// part between them. The rest stays in few large parts, which encode better than many small
    /// ones.
    fn split(&mut self, rect: &Rect, depth: u32) {
        let snapshot = self.snapshot;
        if depth == 0 || rect.area() < SPLIT_AREA_MIN || self.tile(rect, TIMES_MIN).is_some() {
            return self.mixed(rect);
        }
        let mut rest = *rect;
        let mut y = rect.y1;
        while y < rect.y2 {
            let color = snapshot.row(rect.x1, rect.x2, y)[0] & RGB;
            let end = (y..rect.y2)
                .find(|&y| !uniform(snapshot.row(rect.x1, rect.x2, y), color))
                .unwrap_or(rect.y2);
            if end - y >= SPLIT_EDGE_MIN {
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

    /// Splits margins at the left and right off a part without stripes; the narrower rest may have
    /// stripes again.
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
        if left as i32 >= SPLIT_EDGE_MIN {
            let edge = rect.x1 + left as i32;
            self.solid(&Rect { x2: edge, ..rest }, left_color);
            rest.x1 = edge;
        }
        if right as i32 >= SPLIT_EDGE_MIN && !rest.is_empty() {
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
