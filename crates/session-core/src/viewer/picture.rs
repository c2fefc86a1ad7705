//! Path 4/13 to 5/13: from session.rs with what was done to the screen, to this viewer's queue, through view.rs where it shows something
//! else than all of the screen.
//! What a viewer wishes to see, from when on it does, and what becomes void with the picture before.
//! Knows one viewer; never pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::session::{Geometry, Shows};
use thinc_protocol::viewer::View;
use thinc_region::{Region, Size};

use super::{BarrierState, Screen, Viewer};
use crate::command_queue::{Lane, Origin};
use crate::copies::{CopyCommand, Proof};
use crate::mutation::Broken;
use crate::scheduler::REAL_TIME_BYTES_MAX;
use crate::view::Transform;

/// Least time between two pictures that a viewer asks for: each is sent whole. A hand that pans sees ten a second, and the last one when it
/// rests.
const VIEW_PAUSE: Micros = 100_000;

/// What a viewer shows of the screen.
#[derive(Debug)]
pub(super) struct Picture {
    /// Names it; grows with each.
    pub(super) epoch: u32,
    /// None where it is the screen.
    pub(super) transform: Option<Transform>,
    /// What the viewer asked for, if anything; and what it asked for since, which it gets at `from`.
    wish: Option<View>,
    waits: Option<View>,
    from: Micros,
    broken: Broken,
}

impl Picture {
    pub(super) fn new(broken: Broken) -> Picture {
        Picture { epoch: 1, transform: None, wish: None, waits: None, from: 0, broken }
    }

    /// The viewer asks for another, and has to wait.
    pub(super) fn is_awaited(&self) -> bool {
        self.waits.is_some()
    }

    /// When it gets what it waits for.
    pub(super) fn due(&self) -> Option<Micros> {
        self.waits.map(|_| self.from)
    }

    /// It shows what it asked for, and not just the screen.
    pub(super) fn is_chosen(&self) -> bool {
        self.wish.is_some_and(|wish| wish != View::default())
    }
}

impl Viewer {
    /// Rule 9. Another geometry, or the same anew: what was not sent is void.
    pub(crate) fn reset(&mut self, screen: Size, now: Micros) {
        self.next_geometry();
        let Picture { epoch, transform, wish, broken, .. } = &mut self.picture;
        let (size, by) = wish.map_or((screen, None), |wish| Transform::of_wish(&wish, screen, *broken));
        *transform = by;
        *epoch += 1;
        self.updates.reset();
        self.quality.reset();
        self.refresh.reset();
        self.videos.reset(self.updates.newest_seq);
        self.queue.reset(size, now);
        self.frame_lacks.clear();
        self.forget.clear();
        self.refresh_waits = false;
        self.control.geometry = true;
        for barrier in &mut self.barriers {
            if let BarrierState::Draining { region, copies, job_end } = &mut barrier.state {
                *region = size.rect().into();
                *copies = false;
                *job_end = self.updates.next_job();
            }
        }
    }

    /// It wishes to see this from now on.
    pub(crate) fn want_view(&mut self, view: View, screen: Size, now: Micros) {
        self.picture.waits = Some(view);
        self.take_view(screen, now);
    }

    pub(super) fn take_view(&mut self, screen: Size, now: Micros) {
        if self.picture.waits.is_none() || now < self.picture.from {
            return;
        }
        let view = self.picture.waits.take();
        if view == self.picture.wish {
            return;
        }
        self.picture.wish = view;
        self.picture.from = now + VIEW_PAUSE;
        // The records go on as they were.
        let passed = self.queue.passed_op();
        self.reset(screen, now);
        self.queue.passed(passed);
    }

    /// What it is told of its picture.
    pub(super) fn geometry(&self, screen: &Screen<'_>) -> Geometry {
        let part = self.picture.transform.map_or(screen.size.rect(), |by| by.part());
        let shows = self.picture.is_chosen().then_some(Shows { screen: screen.size, part });
        Geometry { epoch: self.picture.epoch, size: self.queue.size(), shows }
    }

    /// Names its picture.
    pub(crate) fn epoch(&self) -> u32 {
        self.picture.epoch
    }

    /// What makes its picture of the screen; None where it is the screen.
    pub(crate) fn transform(&self) -> Option<&Transform> {
        self.picture.transform.as_ref()
    }

    /// It shows what it asked for: the screen's size is not that of its window.
    pub(crate) fn chooses_view(&self) -> bool {
        self.picture.is_chosen()
    }

    /// Takes a drawing on the screen; `hand` says whether it looks like the answer to one.
    pub(crate) fn draw(&mut self, region: &Region, origin: Origin, hand: bool) {
        match &self.picture.transform {
            None => self.draw_own(region, origin, hand),
            Some(by) => {
                let touched = by.touched(region);
                self.draw_own(&touched, origin, hand);
            }
        }
    }

    /// Takes a drawing in its picture; where that is none, it answers nothing.
    pub(super) fn draw_own(&mut self, region: &Region, mut origin: Origin, hand: bool) {
        if region.is_empty() {
            return;
        }
        if hand && self.estimate.bytes(origin.kinds, region.area()) <= REAL_TIME_BYTES_MAX {
            origin.lane = Lane::RealTime;
        }
        origin.echo = self.take_echo(origin.window, origin.since);
        self.frame_is_mixed |= self.frame_lacks.overlaps(region);
        self.draw_beside_videos(region, origin);
    }

    /// Takes a COPY on the screen.
    pub(crate) fn copy(&mut self, copy: &CopyCommand, op: u64, proof: Proof, mut origin: Origin) {
        let Some(by) = &self.picture.transform else {
            origin.echo = self.take_echo(origin.window, origin.since);
            self.videos.copied(copy, self.queue.size().rect());
            return self.queue.copy(copy.clone(), op, proof, origin);
        };
        let (moved, rest) = by.moved(copy);
        // What moves by no whole pixels is drawn anew, and scrolls all the same.
        let (dx, dy) = moved.as_ref().map_or((0, 0), |moved| (moved.dx, moved.dy));
        self.videos.copied(&CopyCommand { region: by.touched(&copy.region), dx, dy }, self.queue.size().rect());
        if let Some(moved) = moved {
            origin.echo = self.take_echo(origin.window, origin.since);
            self.queue.copy(moved, op, proof, origin);
        }
        self.draw_own(&rest, origin, false);
    }

    /// These pixels of the screen were drawn as they were, if the drawable maps are right.
    pub(crate) fn doubt(&mut self, region: &Region, now: Micros) {
        match &self.picture.transform {
            None => self.queue.doubt(region, now),
            Some(by) => self.queue.doubt(&by.touched(region), now),
        }
    }

    /// Rule 9. Records are missing, and this is where the screen changed meanwhile.
    pub(crate) fn overflow(&mut self, dirty: &Region, now: Micros) {
        match &self.picture.transform {
            None => self.queue.overflow(dirty, now),
            Some(by) => self.queue.overflow(&by.touched(dirty), now),
        }
        let early = self.videos.overflowed(&mut self.queue);
        self.stale_early(&early, now);
    }
}
