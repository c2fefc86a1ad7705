//! The way back: under session.rs, from a viewer's input, to requests for the driver.
//! Checks what a viewer says its hand did, gives it a number that comes back with the delivery, and lets go of what is held.
//! Knows viewers' keys, buttons and fingers; ../input.rs knows what a key means.

use thinc_protocol::Micros;
use thinc_protocol::limits::INPUT_EVENTS_PER_SECOND_MAX;
use thinc_protocol::viewer::{Input, InputEvent, TouchPhase};
use thinc_ring::InputMessage;

use super::{DELIVERIES_MAX, Delivery, REQUESTS_MAX, Request, Session};
use crate::input::KeyAction;
use crate::viewer::{ViewerId, Violation};

impl Session {
    pub(super) fn handle_input(&mut self, at: usize, input: Input, now: Micros) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        if now.saturating_sub(viewer.input_second) >= 1_000_000 {
            viewer.input_second = now;
            viewer.input_count = 0;
        }
        viewer.input_count += 1;
        if viewer.input_count > INPUT_EVENTS_PER_SECOND_MAX {
            return Err(Violation::InputFlood(INPUT_EVENTS_PER_SECOND_MAX));
        }
        let full = self.requests.len() >= REQUESTS_MAX;
        let id = viewer.id;
        match input.event {
            InputEvent::Motion { x, y } => {
                let (x, y) = self.clamp(x, y);
                self.hand.point(x, y);
                // Where an application had put it is over: nobody's pointer goes back there.
                self.pointer.at = None;
                let seq = self.next_input();
                let message = Request::Input(InputMessage::PointerMove { seq, x, y });
                // Where the pointer was and nobody looked is nowhere.
                if let Some(Request::Input(InputMessage::PointerMove { .. })) = self.requests.back() {
                    self.requests.pop_back();
                } else if full {
                    return Ok(());
                }
                self.requests.push_back(message);
                return Ok(());
            }
            InputEvent::Scroll { dx, dy } => {
                if full {
                    return Ok(());
                }
                let seq = self.expect_delivery(id, input.seq);
                let (dx, dy) = (i32::from(dx), i32::from(dy));
                self.requests.push_back(Request::Input(InputMessage::Scroll { seq, dx, dy }));
                return Ok(());
            }
            InputEvent::ReleaseAll => {
                self.release_all(at);
                return Ok(());
            }
            _ if full => return Err(Violation::InputBacklog(REQUESTS_MAX)),
            _ => {}
        }
        match input.event {
            InputEvent::Key { code, keysym, down } => {
                let seq = self.expect_delivery(id, input.seq);
                let mut actions = std::mem::take(&mut self.key_actions);
                self.keyboard.key(id, code, keysym, down, &mut actions);
                self.carry(&mut actions, seq);
                self.key_actions = actions;
            }
            InputEvent::Button { button, down } => {
                // 4 to 7 would be the wheel, which is `Scroll`.
                if !matches!(button, 1..=3 | 8..=31) {
                    return Ok(());
                }
                let bit = 1 << button;
                let viewer = &mut self.viewers[at];
                if (viewer.buttons & bit != 0) == down {
                    return Ok(());
                }
                viewer.buttons ^= bit;
                let seq = self.expect_delivery(id, input.seq);
                self.requests.push_back(Request::Input(InputMessage::Button { seq, button, down }));
            }
            InputEvent::Touch { id: finger, phase, x, y } => {
                let finger = finger & 15;
                let bit = 1 << finger;
                let viewer = &mut self.viewers[at];
                let touches = viewer.fingers & bit != 0;
                if touches == (phase == TouchPhase::Begin) {
                    return Ok(());
                }
                if phase != TouchPhase::Update {
                    viewer.fingers ^= bit;
                }
                let (x, y) = self.clamp(x, y);
                let seq = self.expect_delivery(id, input.seq);
                let phase = match phase {
                    TouchPhase::Begin => thinc_ring::TouchPhase::Begin,
                    TouchPhase::Update => thinc_ring::TouchPhase::Update,
                    TouchPhase::End => thinc_ring::TouchPhase::End,
                };
                let message = InputMessage::Touch { seq, id: finger_id(id, finger), phase, x, y };
                self.requests.push_back(Request::Input(message));
            }
            InputEvent::Motion { .. } | InputEvent::Scroll { .. } | InputEvent::ReleaseAll => {}
        }
        Ok(())
    }

    fn clamp(&self, x: u16, y: u16) -> (i32, i32) {
        let edge = |value: u16, edge: u32| u32::from(value).min(edge.saturating_sub(1)).cast_signed();
        (edge(x, self.size.width), edge(y, self.size.height))
    }

    fn next_input(&mut self) -> u32 {
        let seq = self.next_input;
        // 0 is what the driver says where it knows no input.
        self.next_input = self.next_input.wrapping_add(1).max(1);
        seq
    }

    /// A number for an input that may be answered.
    fn expect_delivery(&mut self, viewer: ViewerId, viewer_seq: u32) -> u32 {
        let seq = self.next_input();
        if self.deliveries.len() == DELIVERIES_MAX {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(Delivery { seq, viewer, viewer_seq });
        seq
    }

    /// Turns key actions into requests; all of them carry the number of the input they came from.
    fn carry(&mut self, actions: &mut Vec<KeyAction>, seq: u32) {
        self.requests.extend(actions.drain(..).map(|action| match action {
            KeyAction::Bind { keycode, keysym } => Request::BindKeysym { keycode, keysym },
            KeyAction::Key { keycode, down } => Request::Input(InputMessage::Key { seq, keycode, down }),
        }));
    }

    /// Lets go of what a viewer holds. These requests pass the bound: there are no more than keys, buttons and fingers.
    pub(super) fn release_all(&mut self, at: usize) {
        let id = self.viewers[at].id;
        let mut actions = std::mem::take(&mut self.key_actions);
        self.keyboard.release_all(id, &mut actions);
        let seq = self.next_input();
        self.carry(&mut actions, seq);
        self.key_actions = actions;
        let buttons = std::mem::take(&mut self.viewers[at].buttons);
        let held_by_others = self.viewers.iter().fold(0, |all, viewer| all | viewer.buttons);
        for button in (0..32).filter(|button| buttons & !held_by_others & (1 << button) != 0) {
            let seq = self.next_input();
            self.requests.push_back(Request::Input(InputMessage::Button { seq, button, down: false }));
        }
        let fingers = std::mem::take(&mut self.viewers[at].fingers);
        let (x, y) = self.hand.pointer();
        for finger in (0..16u8).filter(|finger| fingers & (1 << finger) != 0) {
            let seq = self.next_input();
            let (id, phase) = (finger_id(id, finger), thinc_ring::TouchPhase::End);
            self.requests.push_back(Request::Input(InputMessage::Touch { seq, id, phase, x, y }));
        }
    }
}

/// The driver's number of a finger: fingers of two viewers are two fingers.
fn finger_id(viewer: ViewerId, finger: u8) -> u32 {
    viewer.0.wrapping_mul(16) + u32::from(finger)
}
