//! Path back: from mouse, wheel and touch, to input events in screen coordinates.
//! Motions of one batch are merged; every press or touch reported to the session is released
//! exactly once. Knows positions on the screen; place.rs maps a window's point to them.

use sdl3::mouse::MouseButton;
use thinc_protocol::viewer::{InputEvent, TouchPhase};

use crate::scroll::Scroll;

/// 16: touches that the protocol has numbers for.
const FINGERS: usize = 16;

/// What a touch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finger {
    Down,
    Move,
    Up,
}

/// All input but the keyboard's.
#[derive(Debug, Default)]
pub(super) struct Pointer {
    /// The newest position, not sent yet.
    pending: Option<(u16, u16)>,
    /// The position last sent to the session.
    sent: Option<(u16, u16)>,
    scroll: Scroll,
    /// Bit n: button n is down.
    buttons: u16,
    /// The last button released, and when (SDL's nanoseconds).
    released: Option<(u8, u64)>,
    fingers: [Option<u64>; FINGERS],
}

/// 15 ms: nobody presses a button again so soon, but SDL 3.4 on X reports a short click twice: from
/// the physical device, and again from the master pointer when the window manager, which grabs
/// every click first, has replayed it.
const REPRESS_NS_MIN: u64 = 15_000_000;

impl Pointer {
    /// The pointer is over this pixel of the screen.
    pub(super) fn handle_motion(&mut self, at: Option<(u16, u16)>) {
        self.pending = at.or(self.pending);
    }

    /// Takes the motion to send.
    pub(super) fn take_motion(&mut self) -> Option<InputEvent> {
        let at = self.pending.take()?;
        (self.sent != Some(at)).then(|| {
            self.sent = Some(at);
            InputEvent::Motion { x: at.0, y: at.1 }
        })
    }

    /// An application moved the pointer: SDL's motion event for it is not sent back.
    pub(super) fn handle_warp(&mut self, x: u16, y: u16) {
        self.pending = None;
        self.sent = Some((x, y));
    }

    /// A button went down or up; `at_ns` is SDL's time of it.
    pub(super) fn handle_button(
        &mut self,
        button: MouseButton,
        down: bool,
        at_ns: u64,
    ) -> Option<InputEvent> {
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
        if down
            && self.released.is_some_and(|(last, then)| {
                last == button && at_ns.saturating_sub(then) < REPRESS_NS_MIN
            })
        {
            return None;
        }
        self.buttons ^= bit;
        self.released = (!down).then_some((button, at_ns));
        Some(InputEvent::Button { button, down })
    }

    /// Whether a button is down.
    pub(super) fn is_pressed(&self) -> bool {
        self.buttons != 0
    }

    /// The wheel turned, in SDL's notches: positive is right and away from the user.
    pub(super) fn handle_wheel(&mut self, x: f32, y: f32) -> Option<InputEvent> {
        self.scroll.add(x, -y).map(|(dx, dy)| InputEvent::Scroll { dx, dy })
    }

    /// A touch began, moved or ended; the seventeenth at a time is ignored.
    pub(super) fn handle_finger(
        &mut self,
        id: u64,
        did: Finger,
        at: Option<(u16, u16)>,
    ) -> Option<InputEvent> {
        let (x, y) = at?;
        let slot = self.fingers.iter().position(|finger| *finger == Some(id));
        let (slot, phase) = match (did, slot) {
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

    /// A button is down.
    pub(super) fn holds_button(&self) -> bool {
        self.buttons != 0
    }

    /// The session's pointer position is unknown.
    pub(super) fn forget_position(&mut self) {
        (self.pending, self.sent) = (None, None);
    }

    /// Nothing is pressed any more, and the session's pointer position is unknown.
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
    fn motions_are_merged_and_sent_once() {
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
        assert_eq!(pointer.handle_button(MouseButton::Left, false, 0), None, "pressed elsewhere");
        let event = |button, down| Some(InputEvent::Button { button, down });
        assert_eq!(pointer.handle_button(MouseButton::X2, true, 1), event(9, true));
        assert_eq!(pointer.handle_button(MouseButton::X2, true, 2), None);
        assert_eq!(pointer.handle_button(MouseButton::X2, false, 3), event(9, false));
    }

    #[test]
    fn a_click_reported_twice_is_one_and_a_double_click_is_two() {
        let mut pointer = Pointer::default();
        let mut clicks = |times_ms: &[(bool, u64)]| {
            let said = times_ms.iter().filter_map(|&(down, ms)| {
                pointer.handle_button(MouseButton::Left, down, ms * 1_000_000)
            });
            said.count()
        };
        assert_eq!(
            clicks(&[(true, 100), (false, 100), (true, 101), (false, 101)]),
            2,
            "one press, one release"
        );
        assert_eq!(
            clicks(&[(true, 200), (false, 201), (true, 260), (false, 261)]),
            4,
            "two of each"
        );
        assert!(
            pointer.handle_button(MouseButton::Right, true, 262_000_000).is_some(),
            "another button"
        );
    }

    #[test]
    fn the_wheel_towards_the_user_is_down() {
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
