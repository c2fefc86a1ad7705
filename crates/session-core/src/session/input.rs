//! Path back: under session.rs, from a viewer's input, to requests.rs.
//! Checks the input, and releases what a viewer can no longer release. Knows viewers' buttons,
//! fingers and pens, and the one pointer.

use thinc_protocol::Micros;
use thinc_protocol::pen::{PEN_FRACTION, PenSample};
use thinc_protocol::viewer::{Input, InputEvent, TouchPhase};
use thinc_region::Size;
use thinc_ring::InputMessage;

use super::requests::{REQUESTS_MAX, UNRESPONSIVE_TIME, ViewerKey};
use super::{Request, Session};
use crate::input::keyboard::Locks;
use crate::viewer::{InputState, Viewer, ViewerId, Violation};

/// 50 ms: shortest time between two messages to the driver about the same held key, half of a
/// viewer's interval (doc/protocol.md, section 4.1).
const STILL_HELD_INTERVAL: Micros = 50_000;
impl Session {
    pub(super) fn handle_input(
        &mut self,
        at: usize,
        input: Input,
        now: Micros,
    ) -> Result<(), Violation> {
        self.viewers[at].count_input(now)?;
        let full = self.requests.is_full();
        let id = self.viewers[at].id;
        match input.event {
            InputEvent::Motion { x, y } => {
                self.viewers[at].input.pointer_at = Some((x, y));
                self.move_pointer(id, (x, y));
                return Ok(());
            }
            InputEvent::MotionBy { dx, dy } => {
                return self.move_pointer_by(at, (dx.into(), dy.into()));
            }
            InputEvent::Scroll { dx, dy } => {
                if full {
                    return Ok(());
                }
                self.place_pointer(at);
                let seq = self.requests.expect_delivery(id, input.seq);
                let (dx, dy) = (i32::from(dx), i32::from(dy));
                self.requests.push(Request::Input(InputMessage::Scroll { seq, dx, dy }));
                return Ok(());
            }
            InputEvent::ReleaseAll => {
                // A release passes the bound, so it is queued only if it has an effect: repeats
                // fill nothing.
                let held = &self.viewers[at].input;
                let holds = held.buttons != 0 || held.fingers != 0 || held.pen.is_some();
                if holds || !self.requests.has_released_all(id) {
                    self.release_all(at);
                }
                return Ok(());
            }
            InputEvent::Pen(sample) => return self.handle_pen(at, input.seq, sample),
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => {}
        }
        match input.event {
            InputEvent::Key { code, keysym, down } => {
                self.requests.push_key(id, input.seq, ViewerKey { code, keysym, down });
            }
            InputEvent::Char(character) => {
                self.requests.push_character(id, input.seq, character);
            }
            InputEvent::Locks { caps, num } => {
                self.requests.push_locks(id, Locks { caps, num });
            }
            InputEvent::Button { button, down } => {
                // 4 to 7 would be the wheel, which is `Scroll`.
                if !matches!(button, 1..=3 | 8..=31) {
                    return Ok(());
                }
                let bit = 1 << button;
                let viewer = &mut self.viewers[at];
                if (viewer.input.buttons & bit != 0) == down {
                    return Ok(());
                }
                viewer.input.buttons ^= bit;
                self.place_pointer(at);
                let seq = self.requests.expect_delivery(id, input.seq);
                self.requests.push(Request::Input(InputMessage::Button { seq, button, down }));
            }
            InputEvent::Touch { id: finger, phase, x, y } => {
                let finger = finger & 15;
                let bit = 1 << finger;
                let viewer = &mut self.viewers[at];
                let touches = viewer.input.fingers & bit != 0;
                if touches == (phase == TouchPhase::Begin) {
                    return Ok(());
                }
                if phase != TouchPhase::Update {
                    viewer.input.fingers ^= bit;
                }
                let (x, y) = self.clamp(x, y);
                let seq = self.requests.expect_delivery(id, input.seq);
                let phase = match phase {
                    TouchPhase::Begin => thinc_ring::TouchPhase::Begin,
                    TouchPhase::Update => thinc_ring::TouchPhase::Update,
                    TouchPhase::End => thinc_ring::TouchPhase::End,
                };
                let message = InputMessage::Touch { seq, id: finger_id(id, finger), phase, x, y };
                self.requests.push(Request::Input(message));
            }
            InputEvent::Motion { .. }
            | InputEvent::MotionBy { .. }
            | InputEvent::Scroll { .. }
            | InputEvent::Pen(_)
            | InputEvent::ReleaseAll => {}
        }
        Ok(())
    }

    /// X has one pen. The viewer whose pen holds its tip or a button down draws on; samples of
    /// others are dropped meanwhile, unless one presses and the first one's path seems dead.
    fn handle_pen(&mut self, at: usize, seq: u32, sample: PenSample) -> Result<(), Violation> {
        if sample.buttons != 0 {
            self.release_unresponsive_pens(at);
        }
        if self.others_draw(at) {
            self.viewers[at].input.pen.take_if(|_| !sample.near);
            return Ok(());
        }
        let before = self.viewers[at].input.pen;
        if !sample.near && before.is_none() {
            return Ok(());
        }
        // As with the pointer, positions may be lost, and what is pressed may not.
        if self.requests.is_half_full() && before.is_some_and(|pen| pen.has_state_of(&sample)) {
            return Ok(());
        }
        if self.requests.is_full() {
            return Err(Violation::InputBacklog(REQUESTS_MAX));
        }
        let held = before.map_or(0, |pen| pen.buttons);
        let id = self.viewers[at].id;
        let sample = self.clamp_pen(sample);
        self.viewers[at].input.pen = sample.near.then_some(sample);
        if sample.near {
            let (x, y) = sample.pixel();
            self.viewers[at].input.pointer_at = Some((x, y));
            self.note_position(id, (i32::from(x), i32::from(y)));
        }
        let seq = if sample.buttons & !held != 0 {
            self.requests.expect_delivery(id, seq)
        } else {
            self.requests.next_input()
        };
        self.requests.push(Request::Input(InputMessage::Pen { seq, sample: for_driver(sample) }));
        Ok(())
    }

    /// The pens of other viewers leave that are pressed and whose viewers have sent nothing for so
    /// long that their keys would not repeat any more.
    fn release_unresponsive_pens(&mut self, at: usize) {
        for other in (0..self.viewers.len()).filter(|other| *other != at) {
            let input = &mut self.viewers[other].input;
            let is_over = self.now >= input.heard_at + UNRESPONSIVE_TIME;
            if let Some(pen) = input.pen.take_if(|pen| pen.buttons != 0 && is_over) {
                self.push_leaving(pen);
            }
        }
    }

    /// The pen leaves; this passes the bound, at most once for each sample that was near.
    fn push_leaving(&mut self, pen: PenSample) {
        let seq = self.requests.next_input();
        let sample = for_driver(pen.leaving());
        self.requests.push(Request::Input(InputMessage::Pen { seq, sample }));
    }

    /// Another viewer's pen holds its tip or a button down.
    fn others_draw(&self, at: usize) -> bool {
        let draws = |viewer: &Viewer| viewer.input.pen.is_some_and(|pen| pen.buttons != 0);
        self.viewers.iter().enumerate().any(|(other, viewer)| other != at && draws(viewer))
    }

    fn clamp_pen(&self, sample: PenSample) -> PenSample {
        let inside = |at: u32, edge: u32| at.min((edge * PEN_FRACTION).saturating_sub(1));
        let Size { width, height } = self.screen.size;
        PenSample { x: inside(sample.x, width), y: inside(sample.y, height), ..sample }
    }

    /// Moves X's pointer so far from where it is.
    fn move_pointer_by(&mut self, at: usize, (dx, dy): (i32, i32)) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        viewer.input.pointer_at = None;
        self.pointer.moved_by = Some(viewer.id);
        self.pointer.at = None;
        self.pointer.moved_by_distance = true;
        let pixels = u64::from(dx.unsigned_abs()) + u64::from(dy.unsigned_abs());
        self.pointer.relative.handle_motion(pixels, self.screen.size);
        let inside = |at: i32, by: i32, edge: u32| (at + by).clamp(0, edge.cast_signed() - 1);
        let (x, y) = self.input_tracker.pointer();
        let (x, y) =
            (inside(x, dx, self.screen.size.width), inside(y, dy, self.screen.size.height));
        self.input_tracker.set_pointer(x, y);
        self.requests.push_move_by(dx, dy)
    }

    /// Moves X's one pointer to where a viewer has it.
    fn move_pointer(&mut self, viewer: ViewerId, (x, y): (u16, u16)) {
        let (x, y) = self.clamp(x, y);
        self.note_position(viewer, (x, y));
        self.requests.push_move(x, y);
    }

    /// A viewer's pointer or pen takes X's pointer to this position.
    fn note_position(&mut self, viewer: ViewerId, (x, y): (i32, i32)) {
        let (from_x, from_y) = self.input_tracker.pointer();
        let pixels = u64::from(x.abs_diff(from_x)) + u64::from(y.abs_diff(from_y));
        self.pointer.relative.handle_motion(pixels, self.screen.size);
        self.input_tracker.set_pointer(x, y);
        // The position that an application chose is no longer the newest.
        self.pointer.at = None;
        self.pointer.moved_by_distance = false;
        self.pointer.moved_by = Some(viewer);
    }

    /// Before a viewer's button or wheel: what it does, it does where this viewer's pointer is,
    /// though another viewer has moved X's since. Where an application has moved it, it stays.
    fn place_pointer(&mut self, at: usize) {
        let Viewer { id, input: InputState { pointer_at, .. }, .. } = self.viewers[at];
        if let Some(place) = pointer_at
            && self.pointer.at.is_none()
            && self.pointer.moved_by.is_some_and(|mover| mover != id)
        {
            self.move_pointer(id, place);
        }
    }

    fn clamp(&self, x: u16, y: u16) -> (i32, i32) {
        let edge =
            |value: u16, edge: u32| u32::from(value).min(edge.saturating_sub(1)).cast_signed();
        (edge(x, self.screen.size.width), edge(y, self.screen.size.height))
    }

    /// A message of this viewer has arrived: X may go on repeating the keys that it holds.
    pub(super) fn confirm_held_keys(&mut self, at: usize) {
        let viewer = &mut self.viewers[at];
        let is_due = self.now >= viewer.input.held_at + STILL_HELD_INTERVAL;
        if is_due && self.requests.confirm_held(viewer.id) {
            viewer.input.held_at = self.now;
        }
    }

    /// Releases the keys of unresponsive viewers.
    pub(super) fn release_unresponsive(&mut self, now: Micros) {
        for viewer in self.viewers.iter() {
            self.requests.release_unresponsive(viewer.id, viewer.input.heard_at, now);
        }
    }

    /// When waiting keys may continue, and when an unresponsive viewer's keys are released.
    pub(super) fn keys_deadline(&self) -> Option<Micros> {
        let released =
            |viewer: &Viewer| self.requests.released_at(viewer.id, viewer.input.heard_at);
        self.viewers.iter().filter_map(released).chain(self.requests.keys_from()).min()
    }

    /// Releases what a viewer holds. These requests pass the bound: there are no more than keys,
    /// buttons and fingers, and one pen.
    pub(super) fn release_all(&mut self, at: usize) {
        let id = self.viewers[at].id;
        self.requests.push_release(id);
        let buttons = std::mem::take(&mut self.viewers[at].input.buttons);
        let held_by_others = self.viewers.iter().fold(0, |all, viewer| all | viewer.input.buttons);
        for button in (0..32).filter(|button| buttons & !held_by_others & (1 << button) != 0) {
            let seq = self.requests.next_input();
            self.requests.push(Request::Input(InputMessage::Button { seq, button, down: false }));
        }
        let fingers = std::mem::take(&mut self.viewers[at].input.fingers);
        let (x, y) = self.input_tracker.pointer();
        for finger in (0..16u8).filter(|finger| fingers & (1 << finger) != 0) {
            let seq = self.requests.next_input();
            let (id, phase) = (finger_id(id, finger), thinc_ring::TouchPhase::End);
            self.requests.push(Request::Input(InputMessage::Touch { seq, id, phase, x, y }));
        }
        let others_draw = self.others_draw(at);
        if let Some(pen) = self.viewers[at].input.pen.take().filter(|_| !others_draw) {
            self.push_leaving(pen);
        }
    }
}

fn for_driver(sample: PenSample) -> thinc_ring::PenSample {
    let PenSample { x, y, pressure, tilt_x, tilt_y, buttons, eraser, near } = sample;
    thinc_ring::PenSample { x, y, pressure, tilt_x, tilt_y, buttons, eraser, near }
}

/// The driver's number of a finger: the fingers of two viewers are different fingers.
fn finger_id(viewer: ViewerId, finger: u8) -> u32 {
    viewer.0.wrapping_mul(16) + u32::from(finger)
}
