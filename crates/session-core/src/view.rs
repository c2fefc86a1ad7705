//! Path 4/13 to 5/13: from session.rs with what was done to the screen, to the queue of a viewer that shows a part of it, scaled.
//! What a viewer wishes to see, and what drawings and COPYs of the screen are in its picture.
//! Knows rectangles; never pixels, which the shell resamples, nor what any of them weighs.
//!
//! A viewer's queue, updates, refresh and shadow live in the pixels of its picture, so the sentence that the rules keep true
//! (command_queue.rs) is about its picture: **V equals P(n) on every pixel that is neither pending nor inside a read tagged
//! later than n**, with P(n) what S(n) is resampled to. Why the rules keep it:
//!
//! - A pixel of P is made of the screen's pixels in its support, by weights that only its place decides. An op that changes R of
//!   the screen changes no pixel of P but those whose support meets R: `touched`. Those become pending (rules 1, 9: of a drawing,
//!   an overflow, doubt).
//! - A COPY by d moves pixels of P by k where k is d in whole pixels of P: then the weights of the two are the same (`Scale::vector`).
//!   Where all of a pixel's support was copied, P(n) there is P(n − 1) at k before: it is a COPY of P (`moved`), and rules 2 and 3
//!   are about it as they are about one of the screen. All others that the op touches become pending, after the COPY, which could
//!   otherwise carry that on.
//! - A read of pixels of P reads their support, and loads `begin` when it has all of it. So its tag bounds what is in every
//!   pixel of P that came of it, as rule 3 wants; that one screen pixel may be read for two of P, at two moments, is no more than a read that is torn.
//! - What is forgotten with the screen's epoch may be forgotten with the viewer's own. Reads: their pixels are pending again.
//!   The tag of an overflow's tiles: a COPY that is older than it finds its source pending, or read since, under a later tag.

use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
use thinc_protocol::viewer::View;
use thinc_region::{Rect, Region, Scale, Size};

use crate::copies::CopyCommand;
use crate::drawable::{PARTS_MAX, Part, Proposal};
use crate::mutation::{Broken, Mutation};

/// Most screen pixels of an edge that one pixel of a picture stands for. More would make one pixel worth reading a whole screen.
const SHRINK_MAX: u32 = 32;
/// Largest picture that is more than a viewer's whole screen would be: one of 3840 × 2160, as memory and time go.
const MAGNIFIED_AREA_MAX: u64 = 3840 * 2160;
/// Most rectangles of the screen that are looked at one by one; past it they become coarser, which costs equal pixels that
/// are not sent.
const RECTS_MAX: usize = 256;

/// From a part of the screen to a viewer's picture of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    /// From left to right.
    pub x: Scale,
    /// From top to bottom.
    pub y: Scale,
    broken: Broken,
}

impl Transform {
    /// The part is shown as a picture of this size; neither is empty.
    pub fn new(part: Rect, picture: Size) -> Transform {
        Transform {
            x: Scale::new(part.x1, part.width().unsigned_abs(), picture.width),
            y: Scale::new(part.y1, part.height().unsigned_abs(), picture.height),
            broken: Broken::default(),
        }
    }

    /// What `wish` comes to on a screen of this size: the picture's size, and what makes it, which is nothing where the picture is the
    /// screen.
    pub(crate) fn of_wish(wish: &View, screen: Size, broken: Broken) -> (Size, Option<Transform>) {
        let cut = wish.part.intersect(&screen.rect());
        // What lies outside by now shows nothing: better all than that.
        let part = if cut.is_empty() { screen.rect() } else { cut };
        let own = Size { width: part.width().unsigned_abs(), height: part.height().unsigned_abs() };
        let size = if wish.size.area() == 0 { own } else { bounded(wish.size, own, screen) };
        let whole = part == screen.rect() && size == screen;
        (size, (!whole).then(|| Transform { broken, ..Transform::new(part, size) }))
    }

    /// The picture's size.
    pub const fn size(&self) -> Size {
        Size { width: self.x.target(), height: self.y.target() }
    }

    /// The part of the screen.
    pub const fn part(&self) -> Rect {
        Rect::at(self.x.start(), self.y.start(), self.x.source() as i32, self.y.source() as i32)
    }

    /// The screen's pixels are the picture's.
    pub const fn is_whole(&self) -> bool {
        self.x.is_whole() && self.y.is_whole()
    }

    /// Pixels of the picture that are made of about so many of the screen's.
    pub(crate) fn picture_area(&self, screen_area: u64) -> u64 {
        let picture = u128::from(screen_area) * u128::from(self.size().area());
        u64::try_from(picture / u128::from(self.part().area())).unwrap_or(u64::MAX)
    }

    /// The screen's pixels that those of a rectangle of the picture are made of.
    pub fn source(&self, rect: &Rect) -> Rect {
        if rect.is_empty() {
            return Rect::default();
        }
        Rect {
            x1: self.x.support(rect.x1).0,
            y1: self.y.support(rect.y1).0,
            x2: self.x.support(rect.x2 - 1).1,
            y2: self.y.support(rect.y2 - 1).1,
        }
    }

    /// The pixels of the picture that are made of any of these of the screen.
    pub fn touched_rect(&self, rect: &Rect) -> Rect {
        if self.broken.is(Mutation::ViewForgetsSupport) {
            return self.place(rect).intersect(&self.size().rect());
        }
        let ((x1, x2), (y1, y2)) = (self.x.touched(rect.x1, rect.x2), self.y.touched(rect.y1, rect.y2));
        Rect { x1, y1, x2, y2 }
    }

    /// The pixels of the picture that are made of any of these of the screen.
    pub fn touched(&self, region: &Region) -> Region {
        let coarse = (region.rect_count() > RECTS_MAX).then(|| region.simplified(RECTS_MAX / 4));
        let mut touched = Region::new();
        for rect in coarse.as_ref().unwrap_or(region).rects() {
            touched.add_rect(self.touched_rect(rect));
        }
        touched
    }

    /// The pixels of the picture that are made of these of the screen and no others.
    pub fn covered(&self, region: &Region) -> Region {
        let mut others = Region::from(self.part());
        others.subtract(region);
        let mut covered = Region::from(self.size().rect());
        covered.subtract(&self.touched(&others));
        covered
    }

    /// Where a rectangle of the screen lies in the picture, to the nearest pixel; it may reach beyond it. What is `covered` of the
    /// rectangle lies inside.
    pub fn place(&self, rect: &Rect) -> Rect {
        Rect {
            x1: self.x.nearest_edge(rect.x1),
            y1: self.y.nearest_edge(rect.y1),
            x2: self.x.nearest_edge(rect.x2),
            y2: self.y.nearest_edge(rect.y2),
        }
    }

    /// What a COPY of the screen is in the picture: a COPY, where its pixels move by whole ones, and pixels that changed otherwise.
    pub(crate) fn moved(&self, copy: &CopyCommand) -> (Option<CopyCommand>, Region) {
        let mut rest = self.touched(&copy.region);
        let Some((dx, dy)) = self.vector(copy) else { return (None, rest) };
        // Of what lies beyond the part, the picture has nothing.
        let mut copied = copy.region.clone();
        copied.intersect_rect(&self.part());
        copied.intersect_rect(&self.part().translate(copy.dx, copy.dy));
        let mut region = if self.broken.is(Mutation::ViewCopiesEdges) { rest.clone() } else { self.covered(&copied) };
        let ((x1, x2), (y1, y2)) = (self.x.inner(), self.y.inner());
        let inner = Rect { x1, y1, x2, y2 };
        region.intersect_rect(&inner);
        region.intersect_rect(&inner.translate(dx, dy));
        if region.is_empty() || (dx, dy) == (0, 0) {
            return (None, rest);
        }
        rest.subtract(&region);
        if self.broken.is(Mutation::ViewForgetsCopyEdges) {
            rest.clear();
        }
        (Some(CopyCommand { region, dx, dy }), rest)
    }

    fn vector(&self, copy: &CopyCommand) -> Option<(i32, i32)> {
        if self.broken.is(Mutation::ViewIgnoresPhase) {
            let nearest = |scale: &Scale, by: i32| scale.nearest_edge(scale.start() + by);
            return Some((nearest(&self.x, copy.dx), nearest(&self.y, copy.dy)));
        }
        Some((self.x.vector(copy.dx)?, self.y.vector(copy.dy)?))
    }

    /// What parts of the screen were drawn as, in the picture and `within` it: text spreads to all that it touches, so that none of it
    /// goes lossy, and of the rest what nothing else had a hand in stays what it was. Disjoint, as they were.
    pub(crate) fn map_parts(&self, parts: &mut Vec<Part>, within: &Rect) {
        let mut mapped: Vec<Part> = Vec::with_capacity(parts.len());
        let mut text = Region::new();
        for part in parts.iter().filter(|part| matches!(part.what, Proposal::Text(_))) {
            let mut new = Region::from(self.touched_rect(&part.rect).intersect(within));
            new.subtract(&text);
            text.add(&new);
            mapped.extend(new.rects().iter().map(|&rect| Part { rect, what: Proposal::Text(None) }));
        }
        for part in parts.iter() {
            // A pattern that is shrunk repeats no more, and a video's pixels have been through another filter.
            if let Proposal::Solid(_) | Proposal::Image = part.what {
                let mut inside = self.covered(&Region::from(part.rect));
                inside.intersect_rect(within);
                inside.subtract(&text);
                mapped.extend(inside.rects().iter().map(|&rect| Part { rect, what: part.what }));
            }
        }
        mapped.truncate(PARTS_MAX);
        *parts = mapped;
    }
}

/// The picture that a viewer gets which asks for `wanted`: as large as that where it is neither so small that each of its pixels is made of
/// very many, nor so large that it costs more than any screen it could show.
fn bounded(wanted: Size, own: Size, screen: Size) -> Size {
    let most = screen.area().clamp(MAGNIFIED_AREA_MAX, SCREEN_AREA_MAX);
    let least = |edge: u32| edge.div_ceil(SHRINK_MAX).max(1);
    let edge = |wanted: u32, own: u32| wanted.clamp(least(own), SCREEN_EDGE_MAX);
    let size = Size { width: edge(wanted.width, own.width), height: edge(wanted.height, own.height) };
    if size.area() <= most {
        return size;
    }
    let shrunk = (most as f64 / size.area() as f64).sqrt();
    let edge = |edge: u32, own: u32| ((f64::from(edge) * shrunk) as u32).clamp(least(own), SCREEN_EDGE_MAX);
    let width = edge(size.width, own.width);
    Size { width, height: edge(size.height, own.height).min((most / u64::from(width)).max(1) as u32) }
}
