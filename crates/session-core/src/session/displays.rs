//! Path back, beside session.rs: whose displays the screen follows, and when the driver is asked for others.
//! From viewers' RESIZE and DISPLAYS, to requests for the driver; and from what it made of them, to viewers that have displays.
//! Knows who controls the size; what can be asked for, displays.rs knows.

use thinc_protocol::Micros;
use thinc_region::{Rect, Size};

use super::{Request, Session, Wish};
use crate::displays::Arrangement;
use crate::viewer::{Viewer, ViewerId};

/// Least time between two screens the driver is asked for: each costs every application a new layout and every viewer a new
/// picture. A window that is dragged follows ten times a second, and the last size comes when it rests.
const RESIZE_PAUSE: Micros = 100_000;

/// The screen's outputs, and those it shall have.
#[derive(Debug)]
pub(super) struct Outputs {
    /// As far as is known; what an application chose has no millimetres here.
    current: Arrangement,
    /// What the driver was asked for last, until the screen has it.
    asked: Option<Arrangement>,
    /// Before this moment nothing else is asked for; a wish that waits for it is looked up when it comes.
    from: Micros,
    waits: bool,
}

impl Outputs {
    pub(super) fn new(size: Size) -> Outputs {
        Outputs { current: Arrangement::found(&[], size, 0), asked: None, from: 0, waits: false }
    }

    pub(super) fn deadline(&self) -> Option<Micros> {
        self.waits.then_some(self.from)
    }

    /// What was asked for is there, or something else is.
    fn found(&mut self, is: impl Fn(&Arrangement) -> bool, else_: impl Fn(u16) -> Arrangement) {
        if self.asked.as_ref().is_some_and(&is) {
            self.current = self.asked.take().expect("it was just looked at");
        } else if !is(&self.current) {
            self.current = else_(self.current.scale_percent());
        }
    }
}

impl Session {
    /// The viewer that controls the size: the newest that can. One that shows what it chose has a window of another size than its
    /// screen, and leaves the screen to the others, where there are any.
    pub fn controller(&self) -> Option<ViewerId> {
        let alone = self.viewers.len() == 1;
        let may = |viewer: &&Viewer| viewer.resizes && (alone || !viewer.chooses_view());
        self.viewers.iter().rev().find(may).map(|viewer| viewer.id)
    }

    /// The outputs as the driver's geometry block has them, at each GEOMETRY record: also where the screen's size stayed.
    pub fn handle_outputs(&mut self, outputs: &[Rect]) {
        let size = self.size;
        let same = |arrangement: &Arrangement| arrangement.rects().eq(outputs.iter().copied());
        self.outputs.found(same, |scale| Arrangement::found(outputs, size, scale));
        for viewer in &mut self.viewers {
            viewer.tell_displays(self.outputs.current.rects());
        }
    }

    /// The screen has this size; its outputs are told apart.
    pub(super) fn outputs_of_size(&mut self, size: Size) {
        self.outputs.found(|arrangement| arrangement.size() == size, |scale| Arrangement::found(&[], size, scale));
    }

    /// A viewer has other displays, or none but its window.
    pub(super) fn handle_displays(&mut self, at: usize, wanted: Option<Arrangement>, has_displays: bool) {
        let viewer = &mut self.viewers[at];
        viewer.wanted = wanted;
        viewer.has_displays |= has_displays;
        viewer.tell_displays(self.outputs.current.rects());
        let id = viewer.id;
        if self.controller() == Some(id) {
            self.request_size();
        }
    }

    /// Somebody wishes for another screen, or no longer does. Only the newest wish counts.
    pub(super) fn request_size(&mut self) {
        self.outputs.waits = true;
        self.ask_for_size();
    }

    pub(super) fn ask_for_size(&mut self) {
        if !self.outputs.waits || self.now < self.outputs.from {
            return;
        }
        self.outputs.waits = false;
        let Some(wanted) = self.controller().and_then(|id| self.viewer(id)).and_then(|viewer| viewer.wanted.clone())
        else {
            return;
        };
        if wanted == *self.outputs.asked.as_ref().unwrap_or(&self.outputs.current) {
            return;
        }
        self.outputs.from = self.now + RESIZE_PAUSE;
        self.outputs.asked = Some(wanted.clone());
        self.requests.retain(|wish| !matches!(wish, Wish::Ready(Request::Resize(_))));
        self.ask(Request::Resize(wanted));
    }
}
