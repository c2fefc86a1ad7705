//! Path 4/13 to 5/13: under viewer.rs, from a viewer's request, to pending.rs.
//! Which view a viewer asked for, when it gets it, and what becomes stale with the view before.
//! Knows one viewer; never pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::session::{Geometry, ScreenPart};
use thinc_protocol::viewer::View;
use thinc_region::Size;

use super::{SessionContext, Viewer};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::screen::view::Transform;

/// Shortest interval between two views that a viewer requests: each is sent whole. Panning shows
/// ten a second, and the last one when it stops.
const INTERVAL_MIN: Micros = 100_000;

/// A viewer's view of the screen.
#[derive(Debug)]
pub(super) struct ViewState {
    epoch: u32,
    transform: Option<Transform>,
    /// The view that the viewer asked for, if any; and the one it requested since, which it gets at
    /// `next_at`.
    chosen: Option<View>,
    requested: Option<View>,
    next_at: Micros,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl ViewState {
    /// The screen.
    pub(super) fn new() -> ViewState {
        ViewState {
            epoch: 1,
            transform: None,
            chosen: None,
            requested: None,
            next_at: 0,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(super) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    /// Identifies it; grows with each.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// None if the view is the screen.
    pub(super) fn transform(&self) -> Option<&Transform> {
        self.transform.as_ref()
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

    /// The viewer requests this view; of several the newest counts.
    pub(super) fn request(&mut self, view: View) {
        self.requested = Some(view);
    }

    /// True if the requested view is due and another than the one before: a new epoch follows.
    pub(super) fn take(&mut self, now: Micros) -> bool {
        if self.requested.is_none() || now < self.next_at {
            return false;
        }
        let view = self.requested.take();
        if view == self.chosen {
            return false;
        }
        self.chosen = view;
        self.next_at = now + INTERVAL_MIN;
        true
    }

    /// A new epoch, of a screen of this size. Returns the size of the view.
    pub(super) fn next_epoch(&mut self, screen: Size) -> Size {
        let (size, by) =
            self.chosen.map_or((screen, None), |chosen| Transform::for_view(&chosen, screen));
        #[cfg(feature = "mutations")]
        let by = by.map(|by| by.with_mutation(self.mutation));
        self.transform = by;
        self.epoch += 1;
        size
    }
}

impl Viewer {
    /// Rule 9. A new geometry, or the same again: unsent updates are stale.
    pub(crate) fn reset(&mut self, screen: Size, now: Micros) {
        self.next_geometry();
        self.delivery.ledger.reset();
        self.quality.reset();
        let (newest_seq, next_job) =
            (self.delivery.ledger.newest_seq, self.delivery.ledger.next_job());
        self.pending.reset(screen, newest_seq, next_job, now);
        self.control.geometry = true;
    }

    /// The viewer requests this view.
    pub(crate) fn want_view(&mut self, view: View, screen: Size, now: Micros) {
        self.pending.view.request(view);
        self.take_view(screen, now);
    }

    pub(super) fn take_view(&mut self, screen: Size, now: Micros) {
        if self.pending.view.take(now) {
            // The sequence of records continues.
            let passed = self.pending.queue.passed_op();
            self.reset(screen, now);
            self.pending.queue.passed(passed);
        }
    }

    /// The geometry message of its view.
    pub(super) fn geometry(&self, screen: &SessionContext<'_>) -> Geometry {
        let view = &self.pending.view;
        let part = view.transform.map_or(screen.size.rect(), |by| by.part());
        let shown = view.is_chosen().then_some(ScreenPart { screen: screen.size, part });
        Geometry { epoch: view.epoch, size: self.pending.queue.size(), shown }
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Rect;

    use super::*;

    const SCREEN: Size = Size { width: 640, height: 480 };

    fn view(width: u32) -> View {
        View { part: Rect::at(0, 0, 64, 48), size: Size { width, height: 48 } }
    }

    #[test]
    fn of_many_requests_the_newest_is_granted_ten_times_a_second() {
        let mut state = ViewState::new();
        let mut granted = Vec::new();
        for now in (0..1_000_000).step_by(10_000) {
            state.request(view((now / 10_000) as u32 + 1));
            if state.take(now) {
                granted.push(now);
                assert_eq!(state.chosen, Some(view((now / 10_000) as u32 + 1)));
            }
        }
        assert_eq!(granted, (0..10).map(|nth| nth * INTERVAL_MIN).collect::<Vec<_>>());
        assert_eq!(state.due(), Some(1_000_000), "the last one comes when it stops");
    }

    #[test]
    fn the_same_view_again_is_no_new_epoch() {
        let mut state = ViewState::new();
        state.request(view(32));
        assert!(state.take(0));
        assert_eq!(state.next_epoch(SCREEN), Size { width: 32, height: 48 });
        assert!(state.is_chosen() && state.transform().is_some());
        assert_eq!(state.epoch(), 2);
        state.request(view(32));
        assert!(!state.take(INTERVAL_MIN) && !state.is_change_pending());
    }
}
