//! The first step back: mouse, wheel and fingers, to events of the session's screen.
//! Motions of one batch are merged; a button or a finger the session was told of goes up exactly once.
//! Knows places on the screen; placing a window's point there is place.rs's.

use sdl3::mouse::MouseButton;
use thinc_protocol::viewer::{InputEvent, TouchPhase};

use crate::scroll::Scroll;

/// Fingers the protocol has numbers for.
const FINGERS: usize = 16;

/// What a finger did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finger {
    Down,
    Move,
    Up,
}

/// Everything but the keyboard.
#[derive(Debug, Default)]
pub(super) struct Pointer {
    /// Where it is, and not said yet.
    pending: Option<(u16, u16)>,
    /// Where the session knows it to be.
    sent: Option<(u16, u16)>,
    scroll: Scroll,
    /// Bit n: button n is down.
    buttons: u16,
    fingers: [Option<u64>; FINGERS],
}

impl Pointer {
    /// The pointer is over this pixel of the screen.
    pub(super) fn handle_motion(&mut self, at: Option<(u16, u16)>) {
        self.pending = at.or(self.pending);
    }

    /// What is to be said about where it is.
    pub(super) fn take_motion(&mut self) -> Option<InputEvent> {
        let at = self.pending.take()?;
        (self.sent != Some(at)).then(|| {
            self.sent = Some(at);
            InputEvent::Motion { x: at.0, y: at.1 }
        })
    }

    /// An application moved the pointer there: the motion SDL reports for it is nothing new to the session.
    pub(super) fn handle_warp(&mut self, x: u16, y: u16) {
        self.pending = None;
        self.sent = Some((x, y));
    }

    /// A button went down or up.
    pub(super) fn handle_button(&mut self, button: MouseButton, down: bool) -> Option<InputEvent> {
        let button = match button {
            MouseButton::Left => 1,
            MouseButton::Middle => 2,
            MouseButton::Right => 3,
            MouseButton::X1 => 8,
            MouseButton::X2 => 9,
            MouseButton::Unknown => return None,
        };
        let bit = 1u16 << button;
        if (self.buttons & bit != 0) == down {
            return None;
        }
        self.buttons ^= bit;
        Some(InputEvent::Button { button, down })
    }

    /// The wheel turned, in notches as SDL counts them: positive is right and away from the person.
    pub(super) fn handle_wheel(&mut self, x: f32, y: f32) -> Option<InputEvent> {
        self.scroll.add(x, -y).map(|(dx, dy)| InputEvent::Scroll { dx, dy })
    }

    /// A finger touched, moved or left; the seventeenth finger is not there.
    pub(super) fn handle_finger(&mut self, id: u64, did: Finger, at: Option<(u16, u16)>) -> Option<InputEvent> {
        let (x, y) = at?;
        let held = self.fingers.iter().position(|finger| *finger == Some(id));
        let (slot, phase) = match (did, held) {
            (Finger::Down, None) => {
                let slot = self.fingers.iter().position(Option::is_none)?;
                self.fingers[slot] = Some(id);
                (slot, TouchPhase::Begin)
            }
            (Finger::Down | Finger::Move, Some(slot)) => (slot, TouchPhase::Update),
            (Finger::Up, Some(slot)) => {
                self.fingers[slot] = None;
                (slot, TouchPhase::End)
            }
            (Finger::Move | Finger::Up, None) => return None,
        };
        Some(InputEvent::Touch { id: slot as u8, phase, x, y })
    }

    /// Nothing is held any more, and the session may think the pointer is anywhere.
    pub(super) fn forget(&mut self) {
        self.buttons = 0;
        self.fingers = [None; FINGERS];
        self.scroll.reset();
        self.sent = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motions_are_merged_and_said_once() {
        let mut pointer = Pointer::default();
        pointer.handle_motion(Some((1, 1)));
        pointer.handle_motion(Some((2, 3)));
        pointer.handle_motion(None);
        assert_eq!(pointer.take_motion(), Some(InputEvent::Motion { x: 2, y: 3 }));
        assert_eq!(pointer.take_motion(), None);
        pointer.handle_motion(Some((2, 3)));
        assert_eq!(pointer.take_motion(), None, "it is there already");
        pointer.handle_warp(9, 9);
        pointer.handle_motion(Some((9, 9)));
        assert_eq!(pointer.take_motion(), None, "the session put it there");
        pointer.forget();
        pointer.handle_motion(Some((9, 9)));
        assert_eq!(pointer.take_motion(), Some(InputEvent::Motion { x: 9, y: 9 }));
    }

    #[test]
    fn a_button_goes_down_and_up_once() {
        let mut pointer = Pointer::default();
        assert_eq!(pointer.handle_button(MouseButton::Left, false), None, "pressed elsewhere");
        let event = |button, down| Some(InputEvent::Button { button, down });
        assert_eq!(pointer.handle_button(MouseButton::X2, true), event(9, true));
        assert_eq!(pointer.handle_button(MouseButton::X2, true), None);
        assert_eq!(pointer.handle_button(MouseButton::X2, false), event(9, false));
    }

    #[test]
    fn the_wheel_towards_the_person_is_down() {
        let mut pointer = Pointer::default();
        assert_eq!(pointer.handle_wheel(0.0, -1.0), Some(InputEvent::Scroll { dx: 0, dy: 120 }));
        assert_eq!(pointer.handle_wheel(0.5, 0.0), Some(InputEvent::Scroll { dx: 60, dy: 0 }));
    }

    #[test]
    fn fingers_have_small_numbers_and_end_once() {
        let mut pointer = Pointer::default();
        let touch = |id, phase| Some(InputEvent::Touch { id, phase, x: 1, y: 2 });
        let at = Some((1, 2));
        assert_eq!(pointer.handle_finger(1 << 40, Finger::Down, at), touch(0, TouchPhase::Begin));
        assert_eq!(pointer.handle_finger(7, Finger::Down, at), touch(1, TouchPhase::Begin));
        assert_eq!(pointer.handle_finger(1 << 40, Finger::Up, at), touch(0, TouchPhase::End));
        assert_eq!(pointer.handle_finger(1 << 40, Finger::Up, at), None);
        assert_eq!(pointer.handle_finger(7, Finger::Move, at), touch(1, TouchPhase::Update));
        for id in 100..115 {
            assert!(pointer.handle_finger(id, Finger::Down, at).is_some());
        }
        assert_eq!(pointer.handle_finger(999, Finger::Down, at), None, "the seventeenth");
    }
}
