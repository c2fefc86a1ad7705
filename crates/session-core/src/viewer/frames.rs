//! Path 6/13: under viewer.rs, from what is drawn and committed, to commit.rs.
//! Where one frame ends and the next begins. Knows regions and times; never pixels.

use thinc_protocol::Micros;
use thinc_region::Region;

use crate::delivery::ledger::FRAME_AGE_MAX;

/// The open frame of one viewer.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What was pending when it began and still is, and when that was; empty if none is open.
    remaining: Region,
    began: Micros,
    /// Some of that was drawn again: the frame will be shown in parts of two states, however long
    /// it is held back.
    is_torn: bool,
    /// A part of it may be lossy: the rest is then no sharper.
    is_lossy: bool,
}

impl Frames {
    /// Something was drawn.
    pub(super) fn drawn(&mut self, region: &Region) {
        self.is_torn |= self.remaining.overlaps(region);
    }

    /// The open frame has a part that may be lossy.
    pub(super) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Something was committed, the last of its frame or not, lossy or not.
    pub(super) fn committed(&mut self, is_end: bool, is_lossy: bool) {
        self.is_lossy = !is_end && (self.is_lossy || is_lossy);
    }

    /// Whether a commit of this region ends a frame, after which `pending` remains. A frame
    /// contains what was pending when its first update was committed. Later drawings belong to the
    /// next frame, or an application that draws faster than the path carries would never be shown.
    /// A frame that takes long is shown in parts, and so is one that was partly redrawn: holding
    /// its parts back would only make them older.
    pub(super) fn ends(&mut self, committed: &Region, pending: Region, now: Micros) -> bool {
        if self.remaining.is_empty() {
            self.remaining = pending;
            self.began = now;
            self.is_torn = false;
        } else {
            self.remaining.subtract(committed);
            // A COPY may have moved some of it elsewhere.
            self.remaining.intersect(&pending);
        }
        if now.saturating_sub(self.began) >= FRAME_AGE_MAX {
            self.remaining.clear();
        }
        self.remaining.is_empty() || self.is_torn
    }

    /// A new geometry.
    pub(super) fn reset(&mut self) {
        self.remaining.clear();
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Rect;

    use super::*;

    fn pixels(x: i32, width: i32) -> Region {
        Region::from(Rect::at(x, 0, width, 10))
    }

    #[test]
    fn a_frame_ends_with_the_last_of_what_was_pending_at_its_beginning() {
        let mut frames = Frames::default();
        assert!(!frames.ends(&pixels(0, 10), pixels(10, 20), 0));
        frames.drawn(&pixels(50, 10));
        assert!(!frames.ends(&pixels(10, 10), pixels(20, 40), 0));
        assert!(frames.ends(&pixels(20, 10), pixels(50, 10), 0), "what came later is the next one");
        assert!(frames.ends(&pixels(50, 10), Region::new(), 0));
    }

    #[test]
    fn a_frame_that_is_redrawn_or_takes_long_is_shown_in_parts() {
        let mut frames = Frames::default();
        assert!(!frames.ends(&pixels(0, 10), pixels(10, 20), 0));
        frames.drawn(&pixels(15, 1));
        assert!(frames.ends(&pixels(10, 5), pixels(15, 15), 0));
        let mut frames = Frames::default();
        assert!(!frames.ends(&pixels(0, 10), pixels(10, 20), 0));
        assert!(!frames.ends(&pixels(10, 1), pixels(11, 19), FRAME_AGE_MAX - 1));
        assert!(frames.ends(&pixels(11, 1), pixels(12, 18), FRAME_AGE_MAX));
    }

    #[test]
    fn a_lossy_part_makes_the_rest_of_its_frame_lossy() {
        let mut frames = Frames::default();
        frames.committed(false, true);
        frames.committed(false, false);
        assert!(frames.is_lossy());
        frames.committed(true, true);
        assert!(!frames.is_lossy());
    }
}
