//! Changes of a framebuffer relative to a copy of it: the pixels that a trace must keep. From
//! session-server's recorder, which read the pixels that the records cover; to event.rs. Knows
//! pixels and rectangles; never when or why they were read.

use thinc_pixels::Snapshot;
use thinc_region::{Rect, Size};

use crate::event::{EVENT_PIXELS_MAX, Event};

/// 64 × 8 pixels: the unit of comparison. Smaller cells save nothing after compression, and each
/// costs an event's head.
const CELL_WIDTH: i32 = 64;
const CELL_HEIGHT: i32 = 8;

/// A copy of the framebuffer as recorded so far.
#[derive(Debug, Default)]
pub struct Delta {
    size: Size,
    pixels: Vec<u32>,
}

impl Delta {
    /// Starts with a new framebuffer, all black.
    pub fn reset(&mut self, size: Size) {
        self.size = size;
        self.pixels = vec![0; size.area() as usize];
    }

    /// Emits the differences of a snapshot, cell by cell, and updates the copy.
    pub fn take(&mut self, snapshot: &Snapshot, mut changed: impl FnMut(Event)) {
        for rect in snapshot.region().rects() {
            let rect = rect.intersect(&self.size.rect());
            for y1 in (rect.y1..rect.y2).step_by(CELL_HEIGHT as usize) {
                let band = Rect { y1, y2: rect.y2.min(y1 + CELL_HEIGHT), ..rect };
                self.take_band(snapshot, band, &mut changed);
            }
        }
    }

    /// One rectangle for each run of cells that changed.
    fn take_band(&mut self, snapshot: &Snapshot, band: Rect, changed: &mut impl FnMut(Event)) {
        let mut run: Option<Rect> = None;
        for x1 in (band.x1..band.x2).step_by(CELL_WIDTH as usize) {
            let cell = Rect { x1, x2: band.x2.min(x1 + CELL_WIDTH), ..band };
            if self.differs(snapshot, &cell) {
                run = Some(run.map_or(cell, |run| run.bound(&cell)));
            } else if let Some(run) = run.take() {
                self.keep(snapshot, run, changed);
            }
        }
        if let Some(run) = run {
            self.keep(snapshot, run, changed);
        }
    }

    fn row(&mut self, rect: &Rect, y: i32) -> &mut [u32] {
        let at = y as usize * self.size.width as usize;
        &mut self.pixels[at + rect.x1 as usize..at + rect.x2 as usize]
    }

    fn differs(&mut self, snapshot: &Snapshot, cell: &Rect) -> bool {
        (cell.y1..cell.y2).any(|y| self.row(cell, y) != snapshot.row(cell.x1, cell.x2, y))
    }

    fn keep(&mut self, snapshot: &Snapshot, rect: Rect, changed: &mut impl FnMut(Event)) {
        let mut pixels = Vec::with_capacity(rect.area() as usize);
        for y in rect.y1..rect.y2 {
            let row = snapshot.row(rect.x1, rect.x2, y);
            self.row(&rect, y).copy_from_slice(row);
            pixels.extend_from_slice(row);
        }
        changed(Event::Pixels(rect, pixels));
    }
}

// A band across the widest screen fits into one event.
const _: () = assert!(
    CELL_HEIGHT as usize * thinc_protocol::limits::SCREEN_EDGE_MAX as usize <= EVENT_PIXELS_MAX
);
