//! Path 8/13: beside plan.rs, one for each viewer.
//! The viewer's framebuffer as it is after everything sent so far: pixels, and which are known.
//! Knows pixels and regions; never which commands wrote them.

use thinc_region::{Rect, Region, Size};

use crate::Lossy;
use crate::changes::Changes;
use crate::motion::Motion;
use crate::moving::Moving;
use crate::photo::Photos;
use crate::shift::{Recent, Shifts};
use crate::vector_candidates::Vector;

/// What a viewer is known to show.
///
/// In `known` it certainly shows `pixels`. `lossy_region` is the part of `known` that was sent
/// lossy or as video, and never counts as equal to a snapshot. Outside `known` its pixels are
/// unknown.
#[derive(Debug)]
pub struct Shadow {
    size: Size,
    pub(crate) pixels: Vec<u32>,
    pub(crate) known: Region,
    pub(crate) lossy_region: Region,
    /// Working memory of the plan.
    pub(crate) changes: Changes,
    pub(crate) shifts: Shifts,
    pub(crate) photos: Photos,
    /// Detects what changes like a video.
    pub(crate) motion: Motion,
    /// Finds what moves in known frames.
    pub(crate) moving: Moving,
    /// Vectors of committed COPYs: the next one is likely the same.
    pub(crate) recent: Recent,
}

impl Shadow {
    /// Of a framebuffer of this size with unknown pixels.
    pub fn new(size: Size) -> Shadow {
        Shadow {
            size,
            pixels: vec![0; size.area() as usize],
            known: Region::new(),
            lossy_region: Region::new(),
            changes: Changes::default(),
            shifts: Shifts::default(),
            photos: Photos::default(),
            motion: Motion::new(size),
            moving: Moving::default(),
            recent: Recent::default(),
        }
    }

    /// The framebuffer's size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// All pixels, 0x00RRGGBB, rows without padding; valid where known.
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// Areas that changed like videos in the last plans, disjoint and at most four; their
    /// rectangles stay constant as long as they fit. An area ends with the first plan a second
    /// after its last change.
    pub fn video_areas(&self) -> &[Rect] {
        self.motion.areas.rects()
    }

    /// A rectangle of which nearly all pixels were new in the last plan, as in a video's frame:
    /// fewer pixels of text are, and none of scrolled content.
    pub fn fully_changed(&self) -> Option<Rect> {
        self.motion.fully_changed()
    }

    /// What moved in the last plan's known frames: pixels, and bounds. Nothing where something was
    /// scrolled lately.
    pub fn moving(&self) -> (u64, Rect) {
        self.moving.extent()
    }

    /// Where the viewer's pixels are known.
    pub fn known(&self) -> &Region {
        &self.known
    }

    /// The part of `known` that is lossy.
    pub fn lossy(&self) -> &Region {
        &self.lossy_region
    }

    /// Forgets what the viewer shows.
    pub fn reset(&mut self) {
        self.known.clear();
        self.lossy_region.clear();
        self.recent = Recent::default();
    }

    /// Marks pixels as unknown.
    pub fn mark_stale(&mut self, region: &Region) {
        self.known.subtract(region);
        self.lossy_region.subtract(region);
    }

    /// Marks known pixels as lossy.
    pub fn mark_lossy(&mut self, region: &Region) {
        self.lossy_region.add(region);
    }

    /// Applies a committed COPY of this region by this vector: to the pixels and to the known and
    /// lossy regions.
    ///
    /// # Panics
    /// If the source or the destination exceeds the framebuffer.
    pub fn copy(&mut self, region: &Region, dx: i32, dy: i32) {
        let (screen, extents) = (self.size.rect(), region.extents());
        let inside = screen.contains(&extents) && screen.contains(&extents.translate(-dx, -dy));
        assert!(inside, "a copy of {extents:?} by ({dx}, {dy}) must stay inside {screen:?}");
        self.recent.add(Vector { dx, dy });
        self.moving.copied(region);
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
        for set in [&mut self.known, &mut self.lossy_region] {
            let mut moved = region.translated(-dx, -dy);
            moved.intersect(set);
            moved.translate(dx, dy);
            set.subtract(region);
            set.add(&moved);
        }
    }

    /// True if the rectangle is known, and lossless if the policy requires it.
    pub(crate) fn is_certain(&self, rect: &Rect, lossy: Lossy) -> bool {
        self.known.contains_rect(rect)
            && (lossy == Lossy::Photographs || !self.lossy_region.overlaps_rect(rect))
    }

    /// The part of a region for which that is true.
    pub(crate) fn certain_within(&self, region: &Region, lossy: Lossy) -> Region {
        let mut certain = region.intersection(&self.known);
        if lossy == Lossy::Never {
            certain.subtract(&self.lossy_region);
        }
        certain
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
