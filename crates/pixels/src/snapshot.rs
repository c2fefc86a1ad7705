//! Path 8/13: from session-server, which reads the framebuffer into it, to plan.rs and codec-enc.
//! The pixels of one region, copied once out of shared memory and never read there again.
//! Knows where each pixel lies; never which application drew it.

use thinc_region::{Rect, Region};

/// Pixels of a region.
///
/// They lie in one plane of the size of the region's extents if that wastes little memory,
/// otherwise in one plane per rectangle. Reading outside the region is a bug; within the single
/// plane it yields pixels of an earlier snapshot.
#[derive(Debug, Default)]
pub struct Snapshot {
    region: Region,
    planes: Vec<Plane>,
    pixels: Vec<u32>,
}

/// The pixels of one rectangle, rows without padding.
#[derive(Clone, Copy, Debug)]
struct Plane {
    rect: Rect,
    start: usize,
}

impl Snapshot {
    /// An empty snapshot; allocates nothing.
    pub const fn new() -> Snapshot {
        Snapshot { region: Region::new(), planes: Vec::new(), pixels: Vec::new() }
    }

    /// Replaces the contents with this region's pixels: `read(rect, dst, stride)` writes those of
    /// one rectangle, the first to `dst[0]`, rows `stride` pixels apart. Reuses the memory.
    pub fn fill(&mut self, region: &Region, mut read: impl FnMut(Rect, &mut [u32], usize)) {
        self.region.clone_from(region);
        self.planes.clear();
        let extents = region.extents();
        // Up to twice the region's area costs less than many small planes, and lets rectangles join
        // across their edges.
        if extents.area() <= region.area() * 2 + 4096 {
            self.planes.push(Plane { rect: extents, start: 0 });
        } else {
            let mut start = 0;
            for &rect in region.rects() {
                self.planes.push(Plane { rect, start });
                start += rect.area() as usize;
            }
        }
        let len = self.planes.last().map_or(0, |plane| plane.start + plane.rect.area() as usize);
        if self.pixels.len() < len {
            self.pixels.resize(len, 0);
        } else if self.pixels.len() / 8 > len.max(KEPT_PIXELS) {
            // A full screen long ago must not keep its memory allocated.
            self.pixels.truncate(len.max(KEPT_PIXELS));
            self.pixels.shrink_to_fit();
        }
        for (i, &rect) in region.rects().iter().enumerate() {
            let plane = self.planes[i.min(self.planes.len() - 1)];
            let stride = plane.rect.width() as usize;
            read(rect, &mut self.pixels[plane.offset(rect.x1, rect.y1)..], stride);
        }
    }

    /// The region whose pixels it contains.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// True if it contains every pixel of the rectangle within one plane, so that its rows can be
    /// read.
    pub fn contains(&self, rect: &Rect) -> bool {
        match (self.planes.as_slice(), self.region.rects()) {
            ([_], [all]) => all.contains(rect),
            ([_], _) => self.region.contains_rect(rect),
            _ => self.plane(rect.x1, rect.y1).is_some_and(|plane| plane.rect.contains(rect)),
        }
    }

    /// The pixels `x1 .. x2` of a row.
    ///
    /// # Panics
    /// If they do not lie in one plane; `contains` tells.
    #[inline]
    pub fn row(&self, x1: i32, x2: i32, y: i32) -> &[u32] {
        let plane = self.plane(x1, y).expect("a row must lie inside the snapshot");
        &self.pixels[plane.offset(x1, y)..][..(x2 - x1) as usize]
    }

    /// The rows of a rectangle, top to bottom.
    pub fn rows(&self, rect: &Rect) -> impl ExactSizeIterator<Item = &[u32]> + Clone {
        debug_assert!(self.contains(rect), "a rectangle must lie inside the snapshot: {rect:?}");
        let plane =
            *self.plane(rect.x1, rect.y1).expect("a rectangle must lie inside the snapshot");
        let width = rect.width() as usize;
        let rows =
            self.pixels[plane.offset(rect.x1, rect.y1)..].chunks(plane.rect.width() as usize);
        rows.take(rect.height() as usize).map(move |row| &row[..width])
    }

    fn plane(&self, x: i32, y: i32) -> Option<&Plane> {
        match self.planes.as_slice() {
            [plane] => Some(plane),
            planes => {
                let below = &planes[planes.partition_point(|plane| plane.rect.y2 <= y)..];
                below
                    .iter()
                    .take_while(|plane| plane.rect.y1 <= y)
                    .find(|plane| plane.rect.contains_point(x, y))
            }
        }
    }
}

/// 256 Ki pixels, 1 MiB: memory that is always kept.
const KEPT_PIXELS: usize = 256 * 1024;

impl Plane {
    #[inline]
    fn offset(&self, x: i32, y: i32) -> usize {
        self.start
            + (y - self.rect.y1) as usize * self.rect.width() as usize
            + (x - self.rect.x1) as usize
    }
}
