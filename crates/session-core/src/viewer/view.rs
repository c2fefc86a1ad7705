//! Path 4/13 to 5/13: from session.rs with the drawings on the screen, to this viewer's queue,
//! through view.rs if its view is not the whole screen.
//! Which view a viewer asked for, when it gets it, and what becomes stale with the view before.
//! Knows one viewer; never pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::session::{Geometry, ScreenPart};
use thinc_protocol::viewer::View;
use thinc_region::{Region, Size};

use super::{SessionContext, Viewer};
use crate::queue::command_queue::{Lane, Origin};
use crate::queue::copies::{CopyCommand, Proof};
use crate::queue::scheduler::REAL_TIME_BYTES_MAX;
use crate::screen::view::Transform;

/// Shortest interval between two views that a viewer requests: each is sent whole. Panning shows
/// ten a second, and the last one when it stops.
const VIEW_INTERVAL_MIN: Micros = 100_000;

/// A viewer's view of the screen.
#[derive(Debug)]
pub(super) struct ViewState {
    /// Identifies it; grows with each.
    pub(super) epoch: u32,
    /// None if the view is the screen.
    pub(super) transform: Option<Transform>,
    /// The view that the viewer asked for, if any; and the one it requested since, which it gets at
    /// `next_at`.
    chosen: Option<View>,
    requested: Option<View>,
    next_at: Micros,
}

impl ViewState {
    pub(super) fn new() -> ViewState {
        ViewState { epoch: 1, transform: None, chosen: None, requested: None, next_at: 0 }
    }

    /// The viewer requested another view, and has to wait.
    pub(super) fn is_change_pending(&self) -> bool {
        self.requested.is_some()
    }

    /// When it gets the requested view.
    pub(super) fn due(&self) -> Option<Micros> {
        self.requested.map(|_| self.next_at)
    }

    /// It shows a view that it chose, not just the screen.
    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some_and(|chosen| chosen != View::default())
    }
}

impl Viewer {
    /// Rule 9. A new geometry, or the same again: unsent updates are stale.
    pub(crate) fn reset(&mut self, screen: Size, now: Micros) {
        self.next_geometry();
        let ViewState { epoch, transform, chosen, .. } = &mut self.view;
        let (size, by) =
            chosen.map_or((screen, None), |chosen| Transform::for_view(&chosen, screen));
        #[cfg(feature = "mutations")]
        let by = by.map(|by| by.with_mutation(self.mutation));
        *transform = by;
        *epoch += 1;
        self.delivery.ledger.reset();
        self.quality.reset();
        self.refresh.reset();
        self.videos.reset(self.delivery.ledger.newest_seq);
        self.queue.reset(size, now);
        self.frames.reset();
        self.forget.clear();
        self.resync.cancel();
        self.control.geometry = true;
        self.barriers.reset(&size.rect().into(), self.delivery.ledger.next_job());
    }

    /// The viewer requests this view.
    pub(crate) fn want_view(&mut self, view: View, screen: Size, now: Micros) {
        self.view.requested = Some(view);
        self.take_view(screen, now);
    }

    pub(super) fn take_view(&mut self, screen: Size, now: Micros) {
        if self.view.requested.is_none() || now < self.view.next_at {
            return;
        }
        let view = self.view.requested.take();
        if view == self.view.chosen {
            return;
        }
        self.view.chosen = view;
        self.view.next_at = now + VIEW_INTERVAL_MIN;
        // The sequence of records continues.
        let passed = self.queue.passed_op();
        self.reset(screen, now);
        self.queue.passed(passed);
    }

    /// The geometry message of its view.
    pub(super) fn geometry(&self, screen: &SessionContext<'_>) -> Geometry {
        let part = self.view.transform.map_or(screen.size.rect(), |by| by.part());
        let shown = self.view.is_chosen().then_some(ScreenPart { screen: screen.size, part });
        Geometry { epoch: self.view.epoch, size: self.queue.size(), shown }
    }

    /// Identifies its view.
    pub(crate) fn epoch(&self) -> u32 {
        self.view.epoch
    }

    /// The transform from the screen to its view; None if the view is the screen.
    pub(crate) fn transform(&self) -> Option<&Transform> {
        self.view.transform.as_ref()
    }

    /// It shows a view that it chose, so its window does not have the screen's size.
    pub(crate) fn chooses_view(&self) -> bool {
        self.view.is_chosen()
    }

    /// Takes a drawing on the screen; `is_response` if it looks like an input response.
    pub(crate) fn draw(&mut self, region: &Region, origin: Origin, is_response: bool) {
        match &self.view.transform {
            None => self.draw_in_view(region, origin, is_response),
            Some(by) => {
                let touched = by.touched(region);
                self.draw_in_view(&touched, origin, is_response);
            }
        }
    }

    /// Takes a drawing in view coordinates. An empty one consumes no echo.
    pub(super) fn draw_in_view(&mut self, region: &Region, mut origin: Origin, is_response: bool) {
        if region.is_empty() {
            return;
        }
        if is_response && self.estimate.bytes(origin.kinds, region.area()) <= REAL_TIME_BYTES_MAX {
            origin.lane = Lane::RealTime;
        }
        origin.echo = self.echoes.take(origin.window, origin.since);
        self.frames.drawn(region);
        self.queue_drawing(region, origin);
    }

    /// Takes a COPY on the screen.
    pub(crate) fn copy(&mut self, copy: &CopyCommand, op: u64, proof: Proof, mut origin: Origin) {
        let Some(by) = &self.view.transform else {
            origin.echo = self.echoes.take(origin.window, origin.since);
            self.videos.copied(copy, self.queue.size().rect());
            return self.queue.copy(copy.clone(), op, proof, origin);
        };
        let (moved, rest) = by.moved(copy);
        // A COPY that moves by a fraction of a view pixel is redrawn, but counts as scrolling all
        // the same.
        let (dx, dy) = moved.as_ref().map_or((0, 0), |moved| (moved.dx, moved.dy));
        self.videos.copied(
            &CopyCommand { region: by.touched(&copy.region), dx, dy },
            self.queue.size().rect(),
        );
        if let Some(moved) = moved {
            origin.echo = self.echoes.take(origin.window, origin.since);
            self.queue.copy(moved, op, proof, origin);
        }
        self.draw_in_view(&rest, origin, false);
    }

    /// These pixels of the screen were redrawn unchanged, if the drawable maps are right.
    pub(crate) fn doubt(&mut self, region: &Region, now: Micros) {
        match &self.view.transform {
            None => self.queue.doubt(region, now),
            Some(by) => self.queue.doubt(&by.touched(region), now),
        }
    }

    /// Rule 9. Records are missing, and this part of the screen changed meanwhile.
    pub(crate) fn overflow(&mut self, dirty: &Region, now: Micros) {
        match &self.view.transform {
            None => self.queue.overflow(dirty, now),
            Some(by) => self.queue.overflow(&by.touched(dirty), now),
        }
        let uncertain = self.videos.overflowed(&mut self.queue);
        self.mark_uncertain_stale(&uncertain, now);
    }
}
