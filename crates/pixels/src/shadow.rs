//! Path 8/13: beside plan.rs, one for each viewer.
//! What a viewer shows once it has applied everything sent so far: pixels, and where they are known.
//! Knows pixels and regions; never which commands made them.

use thinc_region::{Rect, Region, Size};

use crate::Lossy;
use crate::anchors::Vector;
use crate::changes::Changes;
use crate::motion::Motion;
use crate::photo::Photos;
use crate::shift::{Recent, Shifts};

/// What a viewer shows.
///
/// `known` is what it surely shows as in `pixels`; `inexact` is the part of it that was sent lossy or as video, which is
/// never taken to be equal. Outside `known` nothing is said.
#[derive(Debug)]
pub struct Shadow {
    size: Size,
    pub(crate) pixels: Vec<u32>,
    pub(crate) known: Region,
    pub(crate) inexact: Region,
    /// Working memory of the plan.
    pub(crate) changes: Changes,
    pub(crate) shifts: Shifts,
    pub(crate) photos: Photos,
    /// What changes like a video.
    pub(crate) motion: Motion,
    /// COPYs that were committed: the next one likely goes as far.
    pub(crate) recent: Recent,
}

impl Shadow {
    /// Of a screen of this size of which nothing is known.
    pub fn new(size: Size) -> Shadow {
        Shadow {
            size,
            pixels: vec![0; size.area() as usize],
            known: Region::new(),
            inexact: Region::new(),
            changes: Changes::default(),
            shifts: Shifts::default(),
            photos: Photos::default(),
            motion: Motion::new(size),
            recent: Recent::default(),
        }
    }

    /// The screen's size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// All pixels, 0x00RRGGBB, rows without gaps; they mean something where they are known.
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// Areas that have changed like videos in the last plans, disjoint and at most four: the same rectangles for as long as
    /// they serve. One is left out with the first plan a second after it has come to rest.
    pub fn moving(&self) -> &[Rect] {
        self.motion.areas.rects()
    }

    /// A rectangle nearly all of which was new in the last plan, as in a film's frame: fewer pixels of text are, and none of what scrolls.
    pub fn new_at_once(&self) -> Option<Rect> {
        self.motion.new_at_once()
    }

    /// What the viewer surely shows.
    pub fn known(&self) -> &Region {
        &self.known
    }

    /// The part of `known` that is only nearly so.
    pub fn inexact(&self) -> &Region {
        &self.inexact
    }

    /// Forgets what the viewer shows.
    pub fn reset(&mut self) {
        self.known.clear();
        self.inexact.clear();
        self.recent = Recent::default();
    }

    /// The viewer lacks these pixels.
    pub fn mark_stale(&mut self, region: &Region) {
        self.known.subtract(region);
        self.inexact.subtract(region);
    }

    /// The viewer shows these only nearly.
    pub fn mark_inexact(&mut self, region: &Region) {
        self.inexact.add(region);
    }

    /// A COPY of this region by this vector was committed: pixels, what is known and what is inexact travel with it.
    ///
    /// # Panics
    /// When source or destination leave the screen.
    pub fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        let (screen, extents) = (self.size.rect(), region.extents());
        let inside = screen.contains(&extents) && screen.contains(&extents.translate(-dx, -dy));
        assert!(inside, "a copy of {extents:?} by ({dx}, {dy}) stays on a screen of {screen:?}");
        self.recent.add(Vector { dx, dy });
        let stride = self.size.width as usize;
        for rect in region.copy_order(dx, dy) {
            let width = rect.width() as usize;
            for i in 0..rect.height() {
                let y = if dy > 0 { rect.y2 - 1 - i } else { rect.y1 + i };
                let target = y as usize * stride + rect.x1 as usize;
                let source = (y - dy) as usize * stride + (rect.x1 - dx) as usize;
                self.pixels.copy_within(source..source + width, target);
            }
        }
        for set in [&mut self.known, &mut self.inexact] {
            let mut moved = region.translated(-dx, -dy);
            moved.intersect(set);
            moved.translate(dx, dy);
            set.subtract(region);
            set.add(&moved);
        }
    }

    /// True when the viewer shows what `pixels` say, or as much of it as a plan is content with.
    pub(crate) fn is_sure(&self, rect: &Rect, lossy: Lossy) -> bool {
        self.known.contains_rect(rect) && (lossy == Lossy::Photographs || !self.inexact.overlaps_rect(rect))
    }

    /// Where in a region that is so.
    pub(crate) fn sure_within(&self, region: &Region, lossy: Lossy) -> Region {
        let mut sure = region.intersection(&self.known);
        if lossy == Lossy::Never {
            sure.subtract(&self.inexact);
        }
        sure
    }

    #[inline]
    pub(crate) fn row(&self, x1: i32, x2: i32, y: i32) -> &[u32] {
        &self.pixels[y as usize * self.size.width as usize..][x1 as usize..x2 as usize]
    }

    /// The rows of a rectangle, top to bottom.
    #[inline]
    pub(crate) fn rows(&self, rect: &Rect) -> impl Iterator<Item = &[u32]> {
        let (stride, width) = (self.size.width as usize, rect.width() as usize);
        let rows = self.pixels[rect.y1 as usize * stride + rect.x1 as usize..].chunks(stride);
        rows.take(rect.height() as usize).map(move |row| &row[..width])
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, x1: i32, x2: i32, y: i32) -> &mut [u32] {
        &mut self.pixels[y as usize * self.size.width as usize..][x1 as usize..x2 as usize]
    }
}
