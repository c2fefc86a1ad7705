//! Path 4/13 to 5/13: from session.rs with the drawings on the screen, to the queue of a viewer
//! whose view is scaled or a part of the screen.
//! What drawings and COPYs of the screen are in a view. Knows rectangles; never pixels, which the
//! shell resamples, nor their cost.
//!
//! A viewer's queue, updates, refresh and shadow use the pixels of its view, so the invariant of
//! the rules (command_queue.rs) is about the view: **V equals P(n) on every pixel that is neither
//! pending nor inside a read tagged later than n**, with P(n) the resampled S(n). Why the rules
//! keep it:
//!
//! - A pixel of P depends on the screen's pixels in its support, with weights that depend only on
//!   its place. An op that changes R of the screen changes only pixels of P whose support meets R:
//!   `touched`. Those become pending (rules 1 and 9: drawings, overflows, doubt).
//! - A COPY by d moves pixels of P by k if d is k whole pixels of P: then both places have the same
//!   weights (`Scale::vector`). If all of a pixel's support was copied, P(n) there equals P(n − 1)
//!   at k before: it is a COPY of P (`moved`), to which rules 2 and 3 apply as to one of the
//!   screen. All other touched pixels become pending after the COPY, which could otherwise move
//!   them along.
//! - A read of pixels of P reads their support, and loads `begin` after all of it. So its tag
//!   bounds the ops in every pixel of P that it produced, as rule 3 requires. One screen pixel may
//!   be read for two pixels of P at two times, which is no more than a torn read.
//! - What is forgotten with the screen's epoch may be forgotten with the viewer's own: the pixels
//!   of reads are pending again, and for the tag of an overflow's tiles, an older COPY finds its
//!   source pending, or read since under a later tag.

use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
use thinc_protocol::viewer::View;
use thinc_region::{Rect, Region, Scale, Size};

#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::copies::CopyCommand;
use crate::screen::drawable::{PARTS_MAX, Part, Proposal};

/// Most screen pixels of an edge for one pixel of a view. With more, one pixel could require
/// reading the whole screen.
const SHRINK_MAX: u32 = 32;
/// Largest view, if the screen is smaller: 3840 × 2160, a limit of memory and time.
const MAGNIFIED_AREA_MAX: u64 = 3840 * 2160;
/// Most rectangles of the screen that are mapped one by one. Past it they become coarser, so that
/// equal pixels are read and not sent.
const RECTS_MAX: usize = 256;

/// The transform from a part of the screen to a viewer's view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    /// From left to right.
    pub x: Scale,
    /// From top to bottom.
    pub y: Scale,
    #[cfg(feature = "mutations")]
    pub(crate) mutation: Option<Mutation>,
}

impl Transform {
    /// Shows the part in a view of this size; neither is empty.
    pub(crate) fn new(part: Rect, view: Size) -> Transform {
        Transform {
            x: Scale::new(part.x1, part.width().unsigned_abs(), view.width),
            y: Scale::new(part.y1, part.height().unsigned_abs(), view.height),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// The view for `wanted` on a screen of this size: its size, and the transform, None if the
    /// view is the screen.
    pub(crate) fn for_view(wanted: &View, screen: Size) -> (Size, Option<Transform>) {
        let cut = wanted.part.intersect(&screen.rect());
        // If the part lies outside the screen by now, the view shows all of it.
        let part = if cut.is_empty() { screen.rect() } else { cut };
        let own = Size { width: part.width().unsigned_abs(), height: part.height().unsigned_abs() };
        let size = if wanted.size.area() == 0 { own } else { bounded(wanted.size, own, screen) };
        let whole = part == screen.rect() && size == screen;
        (size, (!whole).then(|| Transform::new(part, size)))
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn with_mutation(self, mutation: Option<Mutation>) -> Transform {
        Transform { mutation, ..self }
    }

    /// Size of the view.
    pub const fn size(&self) -> Size {
        Size { width: self.x.target(), height: self.y.target() }
    }

    /// The part of the screen.
    pub const fn part(&self) -> Rect {
        Rect::at(self.x.start(), self.y.start(), self.x.source() as i32, self.y.source() as i32)
    }

    /// The view is not scaled.
    pub const fn is_whole(&self) -> bool {
        self.x.is_whole() && self.y.is_whole()
    }

    /// Pixels of the view that depend on about so many of the screen's.
    pub(crate) fn view_area(&self, screen_area: u64) -> u64 {
        let pixels = u128::from(screen_area) * u128::from(self.size().area());
        u64::try_from(pixels / u128::from(self.part().area())).unwrap_or(u64::MAX)
    }

    /// The screen pixels on which a rectangle of the view depends.
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

    /// The view pixels that depend on any of these screen pixels.
    pub(crate) fn touched_rect(&self, rect: &Rect) -> Rect {
        if mutated!(self.mutation, ViewIgnoresSupport) {
            return self.place(rect).intersect(&self.size().rect());
        }
        let ((x1, x2), (y1, y2)) =
            (self.x.touched(rect.x1, rect.x2), self.y.touched(rect.y1, rect.y2));
        Rect { x1, y1, x2, y2 }
    }

    /// The view pixels that depend on any of these screen pixels.
    pub(crate) fn touched(&self, region: &Region) -> Region {
        let coarse = (region.rect_count() > RECTS_MAX).then(|| region.simplified(RECTS_MAX / 4));
        let mut touched = Region::new();
        for rect in coarse.as_ref().unwrap_or(region).rects() {
            touched.add_rect(self.touched_rect(rect));
        }
        touched
    }

    /// The view pixels that depend on these screen pixels only.
    pub(crate) fn covered(&self, region: &Region) -> Region {
        let mut others = Region::from(self.part());
        others.subtract(region);
        let mut covered = Region::from(self.size().rect());
        covered.subtract(&self.touched(&others));
        covered
    }

    /// Place of a screen rectangle in the view, to the nearest pixel; it may reach beyond the view.
    /// The `covered` part of the rectangle lies inside.
    pub fn place(&self, rect: &Rect) -> Rect {
        Rect {
            x1: self.x.nearest_edge(rect.x1),
            y1: self.y.nearest_edge(rect.y1),
            x2: self.x.nearest_edge(rect.x2),
            y2: self.y.nearest_edge(rect.y2),
        }
    }

    /// A COPY of the screen in the view: a COPY, if pixels move by whole view pixels, and the
    /// pixels that change otherwise.
    pub(crate) fn moved(&self, copy: &CopyCommand) -> (Option<CopyCommand>, Region) {
        let mut rest = self.touched(&copy.region);
        let Some((dx, dy)) = self.vector(copy) else { return (None, rest) };
        // The view has no pixels from outside its part.
        let mut copied = copy.region.clone();
        copied.intersect_rect(&self.part());
        copied.intersect_rect(&self.part().translate(copy.dx, copy.dy));
        let mut region = if mutated!(self.mutation, ViewCopiesEdges) {
            rest.clone()
        } else {
            self.covered(&copied)
        };
        let ((x1, x2), (y1, y2)) = (self.x.inner(), self.y.inner());
        let inner = Rect { x1, y1, x2, y2 };
        region.intersect_rect(&inner);
        region.intersect_rect(&inner.translate(dx, dy));
        if region.is_empty() || (dx, dy) == (0, 0) {
            return (None, rest);
        }
        rest.subtract(&region);
        if mutated!(self.mutation, ViewIgnoresCopyEdges) {
            rest.clear();
        }
        (Some(CopyCommand { region, dx, dy }), rest)
    }

    fn vector(&self, copy: &CopyCommand) -> Option<(i32, i32)> {
        if mutated!(self.mutation, ViewIgnoresPhase) {
            let nearest = |scale: &Scale, by: i32| scale.nearest_edge(scale.start() + by);
            return Some((nearest(&self.x, copy.dx), nearest(&self.y, copy.dy)));
        }
        Some((self.x.vector(copy.dx)?, self.y.vector(copy.dy)?))
    }

    /// Maps what parts of the screen were drawn as to the view, `within` a rectangle: text includes
    /// all pixels that it touches, so that none of it is sent lossy; other parts only the pixels
    /// that depend on nothing else. The result is disjoint too.
    pub(crate) fn map_parts(&self, parts: &mut Vec<Part>, within: &Rect) {
        let mut mapped: Vec<Part> = Vec::with_capacity(parts.len());
        let mut text = Region::new();
        for part in parts.iter().filter(|part| matches!(part.what, Proposal::Text(_))) {
            let mut new = Region::from(self.touched_rect(&part.rect).intersect(within));
            new.subtract(&text);
            text.add(&new);
            mapped
                .extend(new.rects().iter().map(|&rect| Part { rect, what: Proposal::Text(None) }));
        }
        for part in parts.iter() {
            // A shrunk pattern does not repeat, and a video's pixels passed another filter.
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

/// Size of the view for a viewer that asks for `wanted`: limited so that no pixel depends on too
/// many screen pixels, and that it costs no more than the largest screen.
fn bounded(wanted: Size, own: Size, screen: Size) -> Size {
    let most = screen.area().clamp(MAGNIFIED_AREA_MAX, SCREEN_AREA_MAX);
    let least = |edge: u32| edge.div_ceil(SHRINK_MAX).max(1);
    let edge = |wanted: u32, own: u32| wanted.clamp(least(own), SCREEN_EDGE_MAX);
    let size =
        Size { width: edge(wanted.width, own.width), height: edge(wanted.height, own.height) };
    if size.area() <= most {
        return size;
    }
    let shrunk = (most as f64 / size.area() as f64).sqrt();
    let edge = |edge: u32, own: u32| {
        ((f64::from(edge) * shrunk) as u32).clamp(least(own), SCREEN_EDGE_MAX)
    };
    let width = edge(size.width, own.width);
    Size {
        width,
        height: edge(size.height, own.height).min((most / u64::from(width)).max(1) as u32),
    }
}
