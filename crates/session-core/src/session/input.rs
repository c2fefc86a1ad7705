//! Path back: under session.rs, from a viewer's input, to requests for the driver.
//! Checks the input, numbers it so that its delivery can be recognised, and releases keys that a
//! viewer can no longer release. Knows viewers' keys, buttons and fingers, and their order;
//! ../input.rs knows what a key means.

use thinc_protocol::Micros;
use thinc_protocol::viewer::{Input, InputEvent, KeyboardLayout, TouchPhase};
use thinc_ring::InputMessage;

use super::{DELIVERIES_MAX, Delivery, REQUESTS_MAX, Request, Session};
use crate::input::{BATCH_MAX, KeyAction, Locks};
use crate::viewer::{InputState, Viewer, ViewerId, Violation};

/// 50 ms: shortest time between two messages to the driver about the same held key, half of a
/// viewer's interval (doc/protocol.md, section 4.1).
const STILL_HELD_INTERVAL: Micros = 50_000;
/// 1 s: after so long without a message a viewer that holds a key is unresponsive, and keys that
/// repeat are released.
const UNRESPONSIVE_TIME: Micros = 1_000_000;
/// 10 s: then Shift, Control and other modifiers are released too. They do not repeat, and what is
/// typed with them after a short outage should keep its meaning.
const UNRESPONSIVE_TIME_MODIFIERS: Micros = 10_000_000;

/// Requests in order. The meaning of a key is decided when its turn comes: by then the layout and
/// the locks are those that were requested before it.
#[derive(Clone, Debug)]
pub(super) enum QueuedRequest {
    /// A request without further decisions.
    Ready(Request),
    /// A key; `seq` is the driver's number of it.
    Key { viewer: ViewerId, seq: u32, code: u16, keysym: u32, down: bool },
    /// A character.
    Char { viewer: ViewerId, seq: u32, character: char },
    /// From here on this viewer's keyboard has these locks.
    Locks { viewer: ViewerId, locks: Locks },
    /// From here on this viewer's keyboard has this layout.
    Layout { viewer: ViewerId, layout: KeyboardLayout },
    /// Release all keys that this viewer holds.
    ReleaseKeys { viewer: ViewerId, seq: u32 },
    /// From here on this viewer has no keyboard: it is gone.
    ForgetKeyboard { viewer: ViewerId },
}

impl Session {
    pub(super) fn handle_input(
        &mut self,
        at: usize,
        input: Input,
        now: Micros,
    ) -> Result<(), Violation> {
        self.viewers[at].count_input(now)?;
        let full = self.requests.len() >= REQUESTS_MAX;
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
                let seq = self.expect_delivery(id, input.seq);
                let (dx, dy) = (i32::from(dx), i32::from(dy));
                self.push_request(Request::Input(InputMessage::Scroll { seq, dx, dy }));
                return Ok(());
            }
            InputEvent::ReleaseAll => {
                // A release passes the bound, so it is queued only if it has an effect: repeats
                // fill nothing.
                let holds =
                    self.viewers[at].input.buttons != 0 || self.viewers[at].input.fingers != 0;
                if holds || !self.has_released_all(id) {
                    self.release_all(at);
                }
                return Ok(());
            }
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => {}
        }
        match input.event {
            InputEvent::Key { code, keysym, down } => {
                let seq = self.expect_delivery(id, input.seq);
                self.requests.push_back(QueuedRequest::Key { viewer: id, seq, code, keysym, down });
            }
            InputEvent::Char(character) => {
                let seq = self.expect_delivery(id, input.seq);
                self.requests.push_back(QueuedRequest::Char { viewer: id, seq, character });
            }
            InputEvent::Locks { caps, num } => {
                let locks = Locks { caps, num };
                self.requests.push_back(QueuedRequest::Locks { viewer: id, locks });
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
                let seq = self.expect_delivery(id, input.seq);
                self.push_request(Request::Input(InputMessage::Button { seq, button, down }));
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
                let seq = self.expect_delivery(id, input.seq);
                let phase = match phase {
                    TouchPhase::Begin => thinc_ring::TouchPhase::Begin,
                    TouchPhase::Update => thinc_ring::TouchPhase::Update,
                    TouchPhase::End => thinc_ring::TouchPhase::End,
                };
                let message = InputMessage::Touch { seq, id: finger_id(id, finger), phase, x, y };
                self.push_request(Request::Input(message));
            }
            InputEvent::Motion { .. }
            | InputEvent::MotionBy { .. }
            | InputEvent::Scroll { .. }
            | InputEvent::ReleaseAll => {}
        }
        Ok(())
    }

    /// Moves X's pointer so far from where it is. Each distance counts, so none is dropped: those
    /// that follow one another are added.
    fn move_pointer_by(&mut self, at: usize, (dx, dy): (i32, i32)) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        viewer.input.pointer_at = None;
        self.moved_by = Some(viewer.id);
        self.pointer.at = None;
        self.pointer.moved_by_distance = true;
        let pixels = u64::from(dx.unsigned_abs()) + u64::from(dy.unsigned_abs());
        self.pointer.relative.handle_motion(pixels, self.size);
        let inside = |at: i32, by: i32, edge: u32| (at + by).clamp(0, edge.cast_signed() - 1);
        let (x, y) = self.input_tracker.pointer();
        let (x, y) = (inside(x, dx, self.size.width), inside(y, dy, self.size.height));
        self.input_tracker.set_pointer(x, y);
        let sum = |one: i32, two: i32| one.checked_add(two);
        if let Some(QueuedRequest::Ready(Request::Input(InputMessage::PointerMoveBy {
            dx: last_dx,
            dy: last_dy,
            ..
        }))) = self.requests.back_mut()
            && let (Some(x), Some(y)) = (sum(*last_dx, dx), sum(*last_dy, dy))
        {
            (*last_dx, *last_dy) = (x, y);
            return Ok(());
        }
        if self.requests.len() >= REQUESTS_MAX {
            return Err(Violation::InputBacklog(REQUESTS_MAX));
        }
        let seq = self.next_input();
        self.push_request(Request::Input(InputMessage::PointerMoveBy { seq, dx, dy }));
        Ok(())
    }

    /// Moves X's one pointer to where a viewer has it.
    fn move_pointer(&mut self, viewer: ViewerId, (x, y): (u16, u16)) {
        let (x, y) = self.clamp(x, y);
        let (from_x, from_y) = self.input_tracker.pointer();
        let pixels = u64::from(x.abs_diff(from_x)) + u64::from(y.abs_diff(from_y));
        self.pointer.relative.handle_motion(pixels, self.size);
        self.input_tracker.set_pointer(x, y);
        // The position that an application chose is no longer the newest.
        self.pointer.at = None;
        self.pointer.moved_by_distance = false;
        self.moved_by = Some(viewer);
        let seq = self.next_input();
        let message = QueuedRequest::Ready(Request::Input(InputMessage::PointerMove { seq, x, y }));
        let full = self.requests.len() >= REQUESTS_MAX;
        match self.requests.back_mut() {
            // A position that nobody saw is not needed.
            Some(last @ QueuedRequest::Ready(Request::Input(InputMessage::PointerMove { .. }))) => {
                *last = message;
            }
            _ if full => {}
            _ => self.requests.push_back(message),
        }
    }

    /// Before a viewer's button or wheel: what it does, it does where this viewer's pointer is,
    /// though another viewer has moved X's since. Where an application has moved it, it stays.
    fn place_pointer(&mut self, at: usize) {
        let Viewer { id, input: InputState { pointer_at, .. }, .. } = self.viewers[at];
        if let Some(place) = pointer_at
            && self.pointer.at.is_none()
            && self.moved_by.is_some_and(|mover| mover != id)
        {
            self.move_pointer(id, place);
        }
    }

    fn clamp(&self, x: u16, y: u16) -> (i32, i32) {
        let edge =
            |value: u16, edge: u32| u32::from(value).min(edge.saturating_sub(1)).cast_signed();
        (edge(x, self.size.width), edge(y, self.size.height))
    }

    fn next_input(&mut self) -> u32 {
        let seq = self.next_input;
        // 0 is the driver's number for an unknown input.
        self.next_input = self.next_input.wrapping_add(1).max(1);
        seq
    }

    /// A number for an input that may get an echo.
    fn expect_delivery(&mut self, viewer: ViewerId, viewer_seq: u32) -> u32 {
        let seq = self.next_input();
        if self.deliveries.len() == DELIVERIES_MAX {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(Delivery { seq, viewer, viewer_seq });
        seq
    }

    /// From here on a viewer's keyboard has this layout.
    pub(super) fn handle_layout(
        &mut self,
        at: usize,
        layout: &KeyboardLayout,
    ) -> Result<(), Violation> {
        let viewer = self.viewers[at].id;
        let full = self.requests.len() >= REQUESTS_MAX;
        match self.requests.back_mut() {
            // A layout on which nothing was typed is not needed.
            Some(QueuedRequest::Layout { viewer: of, layout: last }) if *of == viewer => {
                last.clone_from(layout)
            }
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => self.requests.push_back(QueuedRequest::Layout { viewer, layout: layout.clone() }),
        }
        Ok(())
    }

    pub(super) fn push_request(&mut self, request: Request) {
        self.requests.push_back(QueuedRequest::Ready(request));
    }

    /// The next request for the shell. None: there is none, or the next one has to wait until
    /// `keys_from`.
    pub(super) fn next_request(&mut self, now: Micros) -> Option<Request> {
        self.release_unresponsive(now);
        while self.ready.is_empty() {
            match self.requests.pop_front()? {
                QueuedRequest::Ready(request) => return Some(request),
                QueuedRequest::Key { viewer, seq, code, keysym, down } => {
                    if down && let Some(change) = self.keyboard_of(viewer) {
                        self.requests.push_front(QueuedRequest::Key {
                            viewer,
                            seq,
                            code,
                            keysym,
                            down,
                        });
                        self.ready.push_back(change);
                        continue;
                    }
                    let mut actions = std::mem::take(&mut self.key_actions);
                    self.keyboard.key(viewer, code, keysym, down, &mut actions);
                    self.push_actions(actions, seq);
                }
                QueuedRequest::Char { viewer, seq, character } => {
                    self.requests.push_front(QueuedRequest::Char { viewer, seq, character });
                    match self.keyboard_of(viewer) {
                        Some(change) => self.ready.push_back(change),
                        None => self.type_characters(viewer, now),
                    }
                }
                QueuedRequest::Locks { viewer, locks } => {
                    if self.keyboard.set_locks(viewer, locks) {
                        return Some(set_locks(locks));
                    }
                }
                QueuedRequest::Layout { viewer, layout } => {
                    self.keyboard.set_layout(viewer, layout);
                    if let Some(layout) = self.keyboard.take_reported_layout(viewer) {
                        self.ready.push_back(Request::SetLayout(layout));
                    }
                }
                QueuedRequest::ForgetKeyboard { viewer } => {
                    if self.keyboard.remove_viewer(viewer) {
                        self.ready.push_back(Request::SetLayout(None));
                    }
                }
                QueuedRequest::ReleaseKeys { viewer, seq } => {
                    let mut actions = std::mem::take(&mut self.key_actions);
                    self.keyboard.release_all(viewer, &mut actions);
                    self.push_actions(actions, seq);
                }
            }
        }
        let from = match self.ready.front() {
            Some(Request::Bind { bindings, .. }) => self.keyboard.bindings_allowed_at(bindings),
            Some(Request::SetLayout(_)) => self.keyboard.layout_change_allowed_at(),
            Some(Request::Input(InputMessage::Key { keycode, down: true, .. })) => {
                self.keyboard.pressed(*keycode, now);
                0
            }
            _ => 0,
        };
        self.keys_from = (from > now).then_some(from);
        if self.keys_from.is_some() {
            return None;
        }
        self.ready.pop_front()
    }

    /// What has to change before this viewer types, if anything: the session's keyboard is that of
    /// the viewer that types.
    fn keyboard_of(&mut self, viewer: ViewerId) -> Option<Request> {
        if let Some(locks) = self.keyboard.take_locks(viewer) {
            return Some(set_locks(locks));
        }
        self.keyboard.take_layout(viewer).map(|layout| Request::SetLayout(Some(layout)))
    }

    /// Types the characters of a viewer at the front of the queue, as many as the keymap has room
    /// for at once.
    fn type_characters(&mut self, viewer: ViewerId, now: Micros) {
        let (characters, seqs): (Vec<char>, Vec<u32>) = self
            .requests
            .iter()
            .map_while(|queued| match *queued {
                QueuedRequest::Char { viewer: of, seq, character } if of == viewer => {
                    Some((character, seq))
                }
                _ => None,
            })
            .take(BATCH_MAX)
            .unzip();
        let mut actions = Vec::new();
        let count = self.keyboard.characters(&characters, now, &mut actions);
        self.requests.drain(..count);
        self.ready.extend(actions.into_iter().map(|(place, action)| request(action, seqs[place])));
    }

    /// Turns key actions into requests; all carry the number of their input.
    fn push_actions(&mut self, mut actions: Vec<KeyAction>, seq: u32) {
        self.ready.extend(actions.drain(..).map(|action| request(action, seq)));
        self.key_actions = actions;
    }

    /// A message of this viewer has arrived: X may go on repeating the keys that it holds. While
    /// requests wait X is busy, and repeats nothing.
    pub(super) fn confirm_held_keys(&mut self, at: usize) {
        let viewer = &mut self.viewers[at];
        let is_due = self.now >= viewer.input.held_at + STILL_HELD_INTERVAL;
        if !is_due || !self.requests.is_empty() || !self.ready.is_empty() {
            return;
        }
        viewer.input.held_at = self.now;
        self.ready.extend(
            self.keyboard
                .repeating(viewer.id)
                .map(|keycode| Request::Input(InputMessage::StillHeld { keycode })),
        );
    }

    /// Releases the keys of unresponsive viewers.
    fn release_unresponsive(&mut self, now: Micros) {
        for at in 0..self.viewers.len() {
            let (id, heard) = (self.viewers[at].id, self.viewers[at].input.heard_at);
            let (holds, repeats) = self.keyboard.holds(id);
            let mut actions = std::mem::take(&mut self.key_actions);
            if holds && now >= heard + UNRESPONSIVE_TIME_MODIFIERS {
                self.keyboard.release_all(id, &mut actions);
            } else if repeats && now >= heard + UNRESPONSIVE_TIME {
                self.keyboard.release_repeating(id, &mut actions);
            }
            let seq = if actions.is_empty() { 0 } else { self.next_input() };
            self.push_actions(actions, seq);
        }
    }

    /// When waiting keys may continue, and when an unresponsive viewer's keys are released.
    pub(super) fn keys_deadline(&self) -> Option<Micros> {
        let unresponsive = self.viewers.iter().filter_map(|viewer| {
            let (holds, repeats) = self.keyboard.holds(viewer.id);
            let time = if repeats { UNRESPONSIVE_TIME } else { UNRESPONSIVE_TIME_MODIFIERS };
            holds.then_some(viewer.input.heard_at + time)
        });
        unresponsive.chain(self.keys_from).min()
    }

    /// The newest queued key request of this viewer is a release of all keys.
    fn has_released_all(&self, id: ViewerId) -> bool {
        let newest = self.requests.iter().rev().find_map(|queued| match queued {
            QueuedRequest::Key { viewer, .. } if *viewer == id => Some(false),
            QueuedRequest::ReleaseKeys { viewer, .. } if *viewer == id => Some(true),
            _ => None,
        });
        newest == Some(true)
    }

    /// Releases what a viewer holds. These requests pass the bound: there are no more than keys,
    /// buttons and fingers.
    pub(super) fn release_all(&mut self, at: usize) {
        let id = self.viewers[at].id;
        let seq = self.next_input();
        self.requests.push_back(QueuedRequest::ReleaseKeys { viewer: id, seq });
        let buttons = std::mem::take(&mut self.viewers[at].input.buttons);
        let held_by_others = self.viewers.iter().fold(0, |all, viewer| all | viewer.input.buttons);
        for button in (0..32).filter(|button| buttons & !held_by_others & (1 << button) != 0) {
            let seq = self.next_input();
            self.push_request(Request::Input(InputMessage::Button { seq, button, down: false }));
        }
        let fingers = std::mem::take(&mut self.viewers[at].input.fingers);
        let (x, y) = self.input_tracker.pointer();
        for finger in (0..16u8).filter(|finger| fingers & (1 << finger) != 0) {
            let seq = self.next_input();
            let (id, phase) = (finger_id(id, finger), thinc_ring::TouchPhase::End);
            self.push_request(Request::Input(InputMessage::Touch { seq, id, phase, x, y }));
        }
    }
}

fn set_locks(Locks { caps, num }: Locks) -> Request {
    Request::SetLocks { caps, num }
}

fn request(action: KeyAction, seq: u32) -> Request {
    match action {
        KeyAction::Bind(number, bindings) => Request::Bind { number, bindings },
        KeyAction::Key { keycode, down } => {
            Request::Input(InputMessage::Key { seq, keycode, down })
        }
    }
}

/// The driver's number of a finger: the fingers of two viewers are different fingers.
fn finger_id(viewer: ViewerId, finger: u8) -> u32 {
    viewer.0.wrapping_mul(16) + u32::from(finger)
}
