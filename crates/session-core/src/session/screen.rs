//! Path 4/13: under session.rs, from records of the ring, through screen/translate.rs, to the
//! pending pixels of each viewer (viewer/pending.rs).
//! What happens on the screen, in the order of its records. Drawings of one window are merged
//! before the queues take them. Knows rectangles, windows and viewers' queues; never pixels.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, RecordKind};

use crate::delivery::ledger::RECORD_AGE_MAX;
use crate::input::tracker::InputTracker;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::queue::command_queue::{Kinds, Lane, Origin};
use crate::screen::drawable::Drawables;
use crate::screen::stereo::{RightEyes, StereoFrame};
use crate::screen::translate::{Drawing, Translator};
use crate::video::PortFrame;
use crate::viewer::Viewer;

/// Most rectangles of the pending drawing before the queues take it.
const RECTS_MAX: usize = 64;

/// Drawings of one window.
#[derive(Debug)]
struct PendingDrawing {
    region: Region,
    kinds: Kinds,
    window: u32,
    since: Micros,
    /// The frame of XVideo, if all of it is one.
    frame: Option<PortFrame>,
}

/// Drawings that the queues have not taken yet: those of one window are merged, since most
/// applications draw a rectangle at a time.
#[derive(Debug, Default)]
struct Drawings {
    pending: Option<PendingDrawing>,
    /// Drawn without a change, if the drawable maps are right.
    unchanged: Region,
    /// Memory for the next pending drawing, so that no record allocates.
    scratch: Region,
}

impl Drawings {
    /// Merges a drawing into the pending one. None if that is of another window or frame;
    /// otherwise whether the queues should take it now.
    fn merge(
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
    fn begin(
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
    fn add_unchanged(&mut self, rect: Rect) -> bool {
        self.unchanged.add_rect(rect);
        self.unchanged.rect_count() > RECTS_MAX
    }

    /// What was drawn without a change, for the queues to take.
    fn unchanged(&self) -> &Region {
        &self.unchanged
    }

    /// The queues have taken it.
    fn clear_unchanged(&mut self) {
        self.unchanged.clear();
    }

    /// The pending drawing, for the queues; [`Drawings::give_back`] follows.
    fn take(&mut self) -> Option<PendingDrawing> {
        self.pending.take()
    }

    /// Its memory is used again.
    fn give_back(&mut self, mut region: Region) {
        region.clear();
        self.scratch = region;
    }

    /// Since when the pending drawing waits.
    fn pending_since(&self) -> Option<Micros> {
        self.pending.as_ref().map(|pending| pending.since)
    }

    /// A new geometry: nothing of the old one is shown.
    fn clear(&mut self) {
        self.pending = None;
        self.unchanged.clear();
    }
}

/// Who is told what happened on the screen, and when that was.
pub(super) struct Audience<'a> {
    pub(super) viewers: &'a mut [Viewer],
    /// Which drawings are input responses.
    pub(super) tracker: &'a mut InputTracker,
    pub(super) now: Micros,
}

/// The session's screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) size: Size,
    translator: Translator,
    drawings: Drawings,
    right_eyes: RightEyes,
    /// X sleeps, and nothing was drawn since.
    is_idle: bool,
}

impl Screen {
    /// `offscreen`: follow drawings into pixmaps.
    pub(super) fn new(size: Size, offscreen: bool) -> Screen {
        Screen {
            size,
            translator: Translator::new(size, offscreen),
            drawings: Drawings::default(),
            right_eyes: RightEyes::default(),
            is_idle: false,
        }
    }

    #[cfg(feature = "mutations")]
    pub(super) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.translator.set_mutation(mutation);
    }

    /// X sleeps, and nothing was drawn since.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// X sleeps.
    pub(super) fn sleeps(&mut self) {
        self.is_idle = true;
    }

    /// What is known of the screen and of pixmaps.
    pub(super) fn drawables(&self) -> &Drawables {
        self.translator.drawables()
    }

    /// Where the right eye sees another picture.
    pub(super) fn right_eyes(&self) -> &RightEyes {
        &self.right_eyes
    }

    /// This port of XVideo shows nothing any more.
    pub(super) fn port_stopped(&mut self, port: u16) {
        self.right_eyes.stopped(port);
    }

    /// Nothing waits for the queues.
    pub(super) fn is_flushed(&self) -> bool {
        self.drawings.pending_since().is_none()
    }

    /// When the queues should take what waits for them.
    pub(super) fn deadline(&self) -> Option<Micros> {
        self.drawings.pending_since().map(|since| since + RECORD_AGE_MAX)
    }

    /// The screen has this size, and nothing of the old one is shown.
    pub(super) fn reset(&mut self, size: Size) {
        self.size = size;
        self.translator.reset(size);
        self.drawings.clear();
        self.right_eyes.clear();
    }

    /// Takes what a record says of the screen.
    pub(super) fn handle(&mut self, record: &DrawRecord, to: &mut Audience<'_>) {
        self.is_idle = false;
        let drawn = self.translator.record(record);
        self.apply(to);
        if let Some((rect, kinds)) = drawn {
            let frame = match record.kind {
                RecordKind::Draw { hint: what, .. } if kinds == Kinds::VIDEO => {
                    PortFrame::of(what, record.op)
                }
                _ => None,
            };
            self.draw(rect, kinds, record.window, frame, to);
            if let RecordKind::Draw { hint: what, .. } = record.kind
                && let Some(frame) = StereoFrame::of(what, record.op, record.window)
            {
                self.right_eyes.frame(&frame, &rect, record.more, to.now);
            }
            if frame.is_some() && !record.more {
                // Before its op has passed: until then a late read may hold this frame.
                self.flush(to);
            }
        }
        if !record.more {
            // X writes no record of an op after one of a later op, whatever this record says.
            let draws = matches!(record.kind, RecordKind::Draw { .. } | RecordKind::Copy { .. });
            to.viewers.iter_mut().for_each(|viewer| viewer.pending.passed(record.op, draws));
        }
    }

    /// Records are missing; `dirty` changed meanwhile.
    pub(super) fn overflow(&mut self, dirty: &Region, to: &mut Audience<'_>) {
        self.translator.overflow();
        self.apply(to);
        self.flush(to);
        self.right_eyes.overflow(dirty, to.now);
        to.viewers.iter_mut().for_each(|viewer| viewer.pending.overflow(dirty, to.now));
    }

    #[inline]
    fn apply(&mut self, to: &mut Audience<'_>) {
        while let Some((drawing, window)) = self.translator.poll_drawing() {
            match drawing {
                Drawing::Draw { rect, kinds } => self.draw(rect, kinds, window, None, to),
                Drawing::Unchanged(rect) => {
                    if self.drawings.add_unchanged(rect) {
                        self.flush(to);
                    }
                }
                Drawing::Many(region) => {
                    self.flush(to);
                    self.right_eyes.drawn_in(&region, to.now);
                    let (kinds, since) = (Kinds::OTHER, to.now);
                    PendingDrawing { region, kinds, window, since, frame: None }.distribute(to);
                }
                Drawing::Copy { op, copy, proof } => {
                    self.flush(to);
                    self.right_eyes.copied(&copy, window, proof, to.now);
                    let (kinds, lane) = (Kinds::OTHER, Lane::Normal);
                    let origin = Origin { window, kinds, since: to.now, lane, echo: None };
                    for viewer in to.viewers.iter_mut() {
                        let rate = viewer.delivery.flow.rate();
                        viewer.pending.copy(&copy, op, proof, origin, rate);
                    }
                }
            }
        }
    }

    fn draw(
        &mut self,
        rect: Rect,
        kinds: Kinds,
        window: u32,
        frame: Option<PortFrame>,
        to: &mut Audience<'_>,
    ) {
        self.right_eyes.drawn(&rect, to.now);
        match self.drawings.merge(rect, kinds, window, frame) {
            Some(false) => {}
            Some(true) => self.flush(to),
            None => {
                self.flush(to);
                self.drawings.begin(rect, kinds, window, frame, to.now);
            }
        }
    }

    /// Gives what waits to every queue.
    pub(super) fn flush(&mut self, to: &mut Audience<'_>) {
        if !self.drawings.unchanged().is_empty() {
            for viewer in to.viewers.iter_mut() {
                viewer.pending.doubt(self.drawings.unchanged(), to.now);
            }
            self.drawings.clear_unchanged();
        }
        if let Some(drawing) = self.drawings.take() {
            let region = drawing.distribute(to);
            self.drawings.give_back(region);
        }
    }
}

impl PendingDrawing {
    /// Gives it to every queue, and returns its region.
    fn distribute(self, to: &mut Audience<'_>) -> Region {
        let PendingDrawing { region, kinds, window, since, frame } = self;
        let is_response = to.tracker.is_input_response(window, &region.extents(), since);
        let origin = Origin { window, kinds, since, lane: Lane::Normal, echo: None };
        for viewer in to.viewers.iter_mut() {
            let rate = viewer.delivery.flow.rate();
            match &frame {
                Some(frame) => viewer.pending.frame(frame, &region, origin, rate),
                None => viewer.pending.draw(&region, origin, is_response, rate),
            }
        }
        region
    }
}

#[cfg(test)]
mod tests {
    use thinc_ring::{Alpha, DrawHint, DrawableId};

    use super::*;
    use crate::viewer::tests::viewer;

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

    const SCREEN: Size = crate::viewer::tests::SCREEN;

    fn record(op: u64, window: u32, rect: Rect) -> DrawRecord {
        let (dst, hint) = (DrawableId::SCREEN, DrawHint::Other);
        let kind = RecordKind::Draw { dst, rect, hint, alpha: Alpha::Opaque };
        DrawRecord { op, more: false, window, kind }
    }

    /// A screen and a viewer with nothing pending.
    fn screen() -> (Screen, [Viewer; 1], InputTracker) {
        let mut viewers = [viewer(1)];
        viewers[0].pending.commit_all();
        (Screen::new(SCREEN, true), viewers, InputTracker::default())
    }

    #[test]
    fn a_drawing_waits_for_others_of_its_window_and_no_longer() {
        let (mut screen, mut viewers, mut tracker) = screen();
        let mut to = Audience { viewers: &mut viewers, tracker: &mut tracker, now: 9 };
        screen.handle(&record(1, 7, rect(0)), &mut to);
        screen.handle(&record(2, 7, rect(1)), &mut to);
        assert!(!to.viewers[0].has_unsent() && !screen.is_flushed());
        assert_eq!(screen.deadline(), Some(9 + RECORD_AGE_MAX));
        screen.handle(&record(3, 8, rect(2)), &mut to);
        assert!(to.viewers[0].has_unsent(), "that was another window");
        screen.flush(&mut to);
        assert!(screen.is_flushed());
    }

    #[test]
    fn any_record_but_idle_ends_the_sleep_of_x() {
        let (mut screen, mut viewers, mut tracker) = screen();
        screen.sleeps();
        let mut to = Audience { viewers: &mut viewers, tracker: &mut tracker, now: 0 };
        assert!(screen.is_idle());
        screen.handle(&record(1, 7, rect(0)), &mut to);
        assert!(!screen.is_idle());
    }

    #[test]
    fn what_changed_without_records_is_pending_at_once() {
        let (mut screen, mut viewers, mut tracker) = screen();
        let mut to = Audience { viewers: &mut viewers, tracker: &mut tracker, now: 0 };
        screen.overflow(&rect(3).into(), &mut to);
        assert!(to.viewers[0].has_unsent() && screen.is_flushed());
    }
}
