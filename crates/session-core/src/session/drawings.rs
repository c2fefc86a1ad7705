//! Path 4/13: under session.rs, from screen/translate.rs, to the queue of each viewer.
//! Drawings that the queues have not taken yet: those of one window are merged, since most
//! applications draw a rectangle at a time. Knows rectangles and windows; never viewers.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region};

use crate::queue::command_queue::Kinds;
use crate::video::PortFrame;

/// Most rectangles of the pending drawing before the queues take it.
const RECTS_MAX: usize = 64;

/// Drawings of one window.
#[derive(Debug)]
pub(super) struct PendingDrawing {
    pub(super) region: Region,
    pub(super) kinds: Kinds,
    pub(super) window: u32,
    pub(super) since: Micros,
    /// The frame of XVideo, if all of it is one.
    pub(super) frame: Option<PortFrame>,
}

/// What waits for the queues.
#[derive(Debug, Default)]
pub(super) struct Drawings {
    pending: Option<PendingDrawing>,
    /// Drawn without a change, if the drawable maps are right.
    unchanged: Region,
    /// Memory for the next pending drawing, so that no record allocates.
    scratch: Region,
}

impl Drawings {
    /// Merges a drawing into the pending one. None if that is of another window or frame;
    /// otherwise whether the queues should take it now.
    pub(super) fn merge(
        &mut self,
        rect: Rect,
        kinds: Kinds,
        window: u32,
        frame: Option<PortFrame>,
    ) -> Option<bool> {
        let pending = self.pending.as_mut()?;
        if (pending.window, pending.frame) != (window, frame) {
            return None;
        }
        pending.region.add_rect(rect);
        pending.kinds = pending.kinds.with(kinds);
        Some(pending.region.rect_count() > RECTS_MAX)
    }

    /// The next pending drawing, once the queues have taken the one before.
    pub(super) fn begin(
        &mut self,
        rect: Rect,
        kinds: Kinds,
        window: u32,
        frame: Option<PortFrame>,
        since: Micros,
    ) {
        let mut region = self.scratch.take();
        region.add_rect(rect);
        self.pending = Some(PendingDrawing { region, kinds, window, since, frame });
    }

    /// These pixels were drawn without a change. True if the queues should take them now.
    pub(super) fn add_unchanged(&mut self, rect: Rect) -> bool {
        self.unchanged.add_rect(rect);
        self.unchanged.rect_count() > RECTS_MAX
    }

    /// What was drawn without a change, for the queues to take.
    pub(super) fn unchanged(&self) -> &Region {
        &self.unchanged
    }

    /// The queues have taken it.
    pub(super) fn clear_unchanged(&mut self) {
        self.unchanged.clear();
    }

    /// The pending drawing, for the queues; [`Drawings::give_back`] follows.
    pub(super) fn take(&mut self) -> Option<PendingDrawing> {
        self.pending.take()
    }

    /// Its memory is used again.
    pub(super) fn give_back(&mut self, mut region: Region) {
        region.clear();
        self.scratch = region;
    }

    /// Since when the pending drawing waits.
    pub(super) fn pending_since(&self) -> Option<Micros> {
        self.pending.as_ref().map(|pending| pending.since)
    }

    /// A new geometry: nothing of the old one is shown.
    pub(super) fn clear(&mut self) {
        self.pending = None;
        self.unchanged.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(at: i32) -> Rect {
        Rect::at(10 * at, 0, 5, 5)
    }

    #[test]
    fn drawings_of_one_window_are_merged_up_to_a_bound() {
        let mut drawings = Drawings::default();
        assert_eq!(drawings.merge(rect(0), Kinds::OTHER, 1, None), None, "there is none");
        drawings.begin(rect(0), Kinds::OTHER, 1, None, 7);
        assert_eq!(drawings.merge(rect(1), Kinds::OTHER, 2, None), None, "of another window");
        for at in 1..RECTS_MAX as i32 {
            assert_eq!(drawings.merge(rect(at), Kinds::OTHER, 1, None), Some(false));
        }
        assert_eq!(drawings.merge(rect(64), Kinds::OTHER, 1, None), Some(true));
        assert_eq!(drawings.pending_since(), Some(7));
        let taken = drawings.take().expect("one is pending");
        assert_eq!(taken.region.rect_count(), RECTS_MAX + 1);
        drawings.give_back(taken.region);
        drawings.begin(rect(3), Kinds::OTHER, 2, None, 8);
        assert_eq!(drawings.take().map(|drawing| drawing.region), Some(rect(3).into()));
    }

    #[test]
    fn a_new_geometry_forgets_all() {
        let mut drawings = Drawings::default();
        drawings.begin(rect(0), Kinds::OTHER, 1, None, 7);
        assert!(!drawings.add_unchanged(rect(1)));
        drawings.clear();
        assert!(drawings.take().is_none() && drawings.unchanged().is_empty());
    }
}
