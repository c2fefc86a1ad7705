//! Path back, beside session.rs: which viewer's displays the screen follows, and when the driver is
//! asked to change them.
//! From viewers' RESIZE and DISPLAYS, to requests for the driver; and from the driver's outputs, to
//! viewers with displays. Knows who controls the size; displays.rs knows what is possible.

use thinc_protocol::Micros;
use thinc_region::{Rect, Size};

use super::{Request, Session};
use crate::screen::displays::Arrangement;
use crate::viewer::{Viewer, ViewerId};

/// Shortest interval between two screens that the driver is asked for: each costs every application
/// a new layout and every viewer a full update. A window that is resized with the mouse is followed
/// ten times a second, and its last size comes when it stops.
const RESIZE_INTERVAL_MIN: Micros = 100_000;

/// The screen's outputs, and those that it shall have.
#[derive(Debug)]
pub(super) struct Outputs {
    /// As far as is known; if an application chose it, without millimetres.
    current: Arrangement,
    /// What the driver was asked for last, until the screen has it.
    requested: Option<Arrangement>,
    /// Before this time nothing else is asked for; a pending change is looked up then.
    next_at: Micros,
    pending: bool,
}

impl Outputs {
    pub(super) fn new(size: Size) -> Outputs {
        Outputs {
            current: Arrangement::found(&[], size, 0),
            requested: None,
            next_at: 0,
            pending: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Micros> {
        self.pending.then_some(self.next_at)
    }

    /// The screen has what was asked for, or something else.
    fn found(&mut self, is: impl Fn(&Arrangement) -> bool, else_: impl Fn(u16) -> Arrangement) {
        if self.requested.as_ref().is_some_and(&is) {
            self.current =
                self.requested.take().expect("the option was just found to have a value");
        } else if !is(&self.current) {
            self.current = else_(self.current.scale_percent());
        }
    }
}

impl Session {
    /// The viewer that controls the size: the newest that can. A viewer with a chosen view has a
    /// window of another size than its screen, and leaves control to the others, if there are any
    /// with that right.
    pub fn controller(&self) -> Option<ViewerId> {
        let is_only = self.viewers.iter().filter(|viewer| viewer.rights.size).count() == 1;
        let may = |viewer: &&Viewer| {
            viewer.wish.may_control(&viewer.rights) && (is_only || !viewer.pending.chooses_view())
        };
        self.viewers.iter().rev().find(may).map(|viewer| viewer.id)
    }

    /// The outputs in the driver's geometry block, at each GEOMETRY record, even if the screen's
    /// size did not change.
    pub fn handle_outputs(&mut self, outputs: &[Rect]) {
        let size = self.screen.size;
        let same = |arrangement: &Arrangement| arrangement.rects().eq(outputs.iter().copied());
        self.outputs.found(same, |scale| Arrangement::found(outputs, size, scale));
        for viewer in self.viewers.iter_mut() {
            viewer.queue_displays(self.outputs.current.rects());
        }
    }

    /// The screen has this size; `handle_outputs` tells its outputs.
    pub(super) fn outputs_of_size(&mut self, size: Size) {
        self.outputs.found(
            |arrangement| arrangement.size() == size,
            |scale| Arrangement::found(&[], size, scale),
        );
    }

    /// A viewer has other displays, or none but its window.
    pub(super) fn handle_displays(
        &mut self,
        at: usize,
        wanted: Option<Arrangement>,
        has_displays: bool,
    ) {
        let viewer = &mut self.viewers[at];
        viewer.wish.set(wanted, has_displays);
        viewer.queue_displays(self.outputs.current.rects());
        let id = viewer.id;
        if self.controller() == Some(id) {
            self.request_size();
        }
    }

    /// The wanted screen may have changed. Only the newest counts.
    pub(super) fn request_size(&mut self) {
        self.outputs.pending = true;
        self.request_pending_size();
    }

    pub(super) fn request_pending_size(&mut self) {
        if !self.outputs.pending || self.now < self.outputs.next_at {
            return;
        }
        self.outputs.pending = false;
        let Some(wanted) = self
            .controller()
            .and_then(|id| self.viewer(id))
            .and_then(|viewer| viewer.wish.wanted().cloned())
        else {
            return;
        };
        if !self.pictures_fit(self.viewers.len(), wanted.size()) {
            // The viewer shows the screen scaled, as one that does not control its size.
            return;
        }
        if wanted == *self.outputs.requested.as_ref().unwrap_or(&self.outputs.current) {
            return;
        }
        self.outputs.next_at = self.now + RESIZE_INTERVAL_MIN;
        self.outputs.requested = Some(wanted.clone());
        self.requests.push_size(Request::Resize(wanted));
    }
}
