//! Path 8/13: from session-server, with what session-core knows of a job's pixels, to plan.rs.
//! What pixels were drawn as, and which of them the viewer should show already; all of it to be looked up in the pixels.
//! Knows rectangles and their claims; never who made them.

use thinc_region::{Rect, Region};

use crate::changes::uniform;
use crate::kind::{TILE_EDGE, TILE_EDGE_CLAIMED};
use crate::{RGB, Shadow, Snapshot};

/// What pixels were drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nobody knows, or several things.
    Unknown,
    /// There is text in it: never to be sent lossy.
    Text,
    /// A client's pixels and nothing else.
    Image,
    /// Frames of a video, or what changes like one: the next follows soon, so time counts for more than bytes.
    Video,
}

/// What one part of a snapshot is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A repeated tile.
    Pattern,
    /// There is text in it.
    Text,
    /// A client's pixels and nothing else.
    Image,
    /// Frames of a video.
    Video,
}

/// A claim and where it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Where.
    pub rect: Rect,
    /// What.
    pub claim: Claim,
}

/// All that is said of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Hints<'a> {
    /// What the viewer shows already, with the COPYs that leave before these pixels.
    pub shown: &'a Region,
    /// Claims, disjoint.
    pub parts: &'a [Hint],
}

/// How many pixels of what was said were so: of `shown`, and of the solid parts among what changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// As said.
    pub held: u64,
    /// Not as said.
    pub refused: u64,
}

/// 4096 pixels: a solid part at least this large is sent by itself; smaller ones cost more as commands than as pixels.
const SOLID_AREA_MIN: u64 = 64 * 64;
/// And at least this share of what it is taken out of: the rest falls into up to four parts, which pack worse than one.
const SOLID_SHARE_MIN: u64 = 4;

impl Hints<'_> {
    /// Nothing is known.
    pub const NONE: Hints<'static> = Hints { shown: &Region::new(), parts: &[] };

    /// Holds `shown` against what the viewer shows; `changed` has every pixel that differs.
    pub(crate) fn check_shown(&self, changed: &[Rect], snapshot: &Snapshot, shadow: &Shadow, verdict: &mut Verdict) {
        if self.shown.is_empty() {
            return;
        }
        let (mut differs, mut unknown) = (0, 0);
        for change in changed {
            for shown in self.shown.rects() {
                let part = shown.intersect(change);
                if part.is_empty() {
                    continue;
                }
                if !shadow.known.contains_rect(&part) || shadow.inexact.overlaps_rect(&part) {
                    // Lost or lossy: nothing that was said of it can be looked up.
                    unknown += part.area();
                    continue;
                }
                for (y, new) in (part.y1..).zip(snapshot.rows(&part)) {
                    let old = shadow.row(part.x1, part.x2, y);
                    differs += new.iter().zip(old).filter(|(new, old)| (*new ^ *old) & RGB != 0).count() as u64;
                }
            }
        }
        verdict.held += self.shown.area().saturating_sub(differs + unknown);
        verdict.refused += differs;
    }

    /// Holds what is said to be solid of a changed rectangle against its pixels.
    pub(crate) fn check_solids(&self, rect: &Rect, snapshot: &Snapshot, verdict: &mut Verdict) {
        for (part, color) in self.solids(rect) {
            for row in snapshot.rows(&part) {
                if uniform(row, color) {
                    verdict.held += row.len() as u64;
                } else {
                    let same = row.iter().filter(|&&pixel| pixel & RGB == color).count();
                    verdict.held += same as u64;
                    verdict.refused += (row.len() - same) as u64;
                }
            }
        }
    }

    fn solids(&self, rect: &Rect) -> impl Iterator<Item = (Rect, u32)> {
        let rect = *rect;
        self.parts.iter().filter_map(move |hint| match hint.claim {
            Claim::Solid(color) => Some((hint.rect.intersect(&rect), color)).filter(|(part, _)| !part.is_empty()),
            _ => None,
        })
    }

    /// The largest part of a rectangle that is said to be solid, is, and is worth a command.
    pub(crate) fn largest_solid(&self, rect: &Rect, snapshot: &Snapshot) -> Option<(Rect, u32)> {
        let area_min = SOLID_AREA_MIN.max(rect.area() / SOLID_SHARE_MIN);
        let large = self.solids(rect).filter(|(part, _)| part.area() >= area_min);
        large
            .filter(|(part, color)| snapshot.rows(part).all(|row| uniform(row, *color)))
            .max_by_key(|(part, _)| part.area())
    }

    /// How long the edge of a tile may be that is looked for in this rectangle; 0 where text makes the search vain.
    pub(crate) fn tile_edge(&self, rect: &Rect) -> usize {
        let mut edge = TILE_EDGE;
        for hint in self.parts.iter().filter(|hint| hint.rect.overlaps(rect)) {
            match hint.claim {
                Claim::Text => return 0,
                Claim::Pattern => edge = TILE_EDGE_CLAIMED,
                Claim::Solid(_) | Claim::Image | Claim::Video => {}
            }
        }
        edge
    }

    /// What a rectangle holds. Text anywhere in it makes it text.
    pub(crate) fn content(&self, rect: &Rect) -> Content {
        let (mut images, mut videos) = (0, 0);
        for hint in self.parts.iter().filter(|hint| hint.rect.overlaps(rect)) {
            match hint.claim {
                Claim::Text => return Content::Text,
                Claim::Image => images += hint.rect.intersect(rect).area(),
                Claim::Video => videos += hint.rect.intersect(rect).area(),
                Claim::Solid(_) | Claim::Pattern => {}
            }
        }
        match rect.area() {
            area if videos == area => Content::Video,
            area if images + videos == area => Content::Image,
            _ => Content::Unknown,
        }
    }
}
