//! Path 8/13: from session-server, with what session-core knows of a job's pixels, to plan.rs.
//! Hints: what pixels were drawn as, and which of them the viewer should show already. Each is
//! verified against the pixels.
//! Knows rectangles and claims; never the source of a hint.

use thinc_region::{Rect, Region};

use crate::changes::uniform;
use crate::kind::{TILE_EDGE, TILE_EDGE_CLAIMED};
use crate::{RGB, Shadow, Snapshot};

/// What pixels were drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Unknown, or several kinds.
    Unknown,
    /// Contains text: must not be sent lossy.
    Text,
    /// Only pixels that an X client supplied as an image.
    Image,
    /// Frames of a video, or what changes like one: the next one follows soon, so encoding time
    /// counts more than bytes.
    Video,
}

/// What a hint claims about a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A repeated tile.
    Pattern,
    /// It contains text.
    Text,
    /// It has only pixels that an X client supplied as an image.
    Image,
    /// Frames of a video.
    Video,
}

/// A claim and where it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Where it holds.
    pub rect: Rect,
    /// What it claims.
    pub claim: Claim,
}

/// All hints about a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Hints<'a> {
    /// Expected to be shown already, given the COPYs that are sent before these pixels.
    pub shown: &'a Region,
    /// Claims, disjoint.
    pub parts: &'a [Hint],
}

/// Pixels for which hints were verified: those in `shown`, and those in solid parts of the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintStats {
    /// As claimed.
    pub confirmed: u64,
    /// Not as claimed.
    pub refuted: u64,
}

/// 4096 pixels: a solid part of at least this size is sent as a command of its own; smaller ones
/// cost less within their surroundings.
const SOLID_AREA_MIN: u64 = 64 * 64;
/// A quarter: least share of its rectangle, because the rest becomes up to four parts, which encode
/// worse than one.
const SOLID_SHARE_MIN: u64 = 4;

impl Hints<'_> {
    /// No hints.
    pub const NONE: Hints<'static> = Hints { shown: &Region::new(), parts: &[] };

    /// Compares `shown` with the shadow; `changed` contains every pixel that differs.
    pub(crate) fn check_shown(
        &self,
        changed: &[Rect],
        snapshot: &Snapshot,
        shadow: &Shadow,
        stats: &mut HintStats,
    ) {
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
                if !shadow.known.contains_rect(&part) || shadow.lossy_region.overlaps_rect(&part) {
                    // Unknown or lossy: the hint cannot be verified.
                    unknown += part.area();
                    continue;
                }
                for (y, new) in (part.y1..).zip(snapshot.rows(&part)) {
                    let old = shadow.row(part.x1, part.x2, y);
                    differs +=
                        new.iter().zip(old).filter(|(new, old)| (*new ^ *old) & RGB != 0).count()
                            as u64;
                }
            }
        }
        stats.confirmed += self.shown.area().saturating_sub(differs + unknown);
        stats.refuted += differs;
    }

    /// Compares the parts of a changed rectangle that are claimed to be solid with its pixels.
    pub(crate) fn check_solids(&self, rect: &Rect, snapshot: &Snapshot, stats: &mut HintStats) {
        for (part, color) in self.solids(rect) {
            for row in snapshot.rows(&part) {
                if uniform(row, color) {
                    stats.confirmed += row.len() as u64;
                } else {
                    let same = row.iter().filter(|&&pixel| pixel & RGB == color).count();
                    stats.confirmed += same as u64;
                    stats.refuted += (row.len() - same) as u64;
                }
            }
        }
    }

    fn solids(&self, rect: &Rect) -> impl Iterator<Item = (Rect, u32)> {
        let rect = *rect;
        self.parts.iter().filter_map(move |hint| match hint.claim {
            Claim::Solid(color) => {
                Some((hint.rect.intersect(&rect), color)).filter(|(part, _)| !part.is_empty())
            }
            _ => None,
        })
    }

    /// The largest part of a rectangle that is claimed to be solid, is solid, and is worth a
    /// command.
    pub(crate) fn largest_solid(&self, rect: &Rect, snapshot: &Snapshot) -> Option<(Rect, u32)> {
        let area_min = SOLID_AREA_MIN.max(rect.area() / SOLID_SHARE_MIN);
        let large = self.solids(rect).filter(|(part, _)| part.area() >= area_min);
        large
            .filter(|(part, color)| snapshot.rows(part).all(|row| uniform(row, *color)))
            .max_by_key(|(part, _)| part.area())
    }

    /// Longest edge of a tile to search for in this rectangle; 0 if it contains text, which has
    /// none.
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

    /// What a rectangle contains; text anywhere in it makes it text.
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
