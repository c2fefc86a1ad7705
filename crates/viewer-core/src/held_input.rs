//! Path back: beside viewer.rs; the keys, buttons, fingers and pen that are down on this
//! connection.
//! From input, to the keepalive and to a change of transports, which would release them. Knows
//! input events; never bytes, nor time.

use thinc_protocol::viewer::{InputEvent, TouchPhase};

/// 64: most keys tracked as down.
const KEYS_MAX: usize = 64;

/// What is down. Buttons and fingers are bounded by their numbers.
#[derive(Debug, Default)]
pub(crate) struct HeldInput {
    /// Code, and keysym if the code is unknown.
    keys: Vec<(u16, u32)>,
    buttons: Vec<u8>,
    touches: Vec<u8>,
    /// The pen's, one bit each.
    pen: u8,
}

impl HeldInput {
    /// Handles an input. False if it releases a key that is not down: the session released keys of
    /// an earlier connection when that ended.
    pub(crate) fn handle(&mut self, event: InputEvent) -> bool {
        match event {
            InputEvent::Key { code, keysym, down } => {
                let same =
                    |&(of, was): &(u16, u32)| if code != 0 { of == code } else { was == keysym };
                if !down && self.keys.len() < KEYS_MAX && !self.keys.iter().any(same) {
                    return false;
                }
                self.keys.retain(|key| !same(key));
                if down && self.keys.len() < KEYS_MAX {
                    self.keys.push((code, keysym));
                }
            }
            InputEvent::Button { button, down } => set(&mut self.buttons, button, down),
            InputEvent::Touch { id, phase, .. } => {
                set(&mut self.touches, id, phase != TouchPhase::End)
            }
            InputEvent::Pen(sample) => self.pen = sample.buttons,
            InputEvent::ReleaseAll => *self = HeldInput::default(),
            _ => {}
        }
        true
    }

    /// This input presses something that an application answers: a key, a button, the pen's tip.
    pub(crate) fn is_press(&self, event: InputEvent) -> bool {
        match event {
            InputEvent::Key { .. } | InputEvent::Button { .. } | InputEvent::Char(_) => true,
            InputEvent::Pen(sample) => sample.buttons & !self.pen != 0,
            _ => false,
        }
    }

    /// A key is down, or the pen: the session takes a silent viewer's from it.
    pub(crate) fn is_kept_alive(&self) -> bool {
        !self.keys.is_empty() || self.pen != 0
    }

    /// Anything is down.
    pub(crate) fn is_any(&self) -> bool {
        self.is_kept_alive() || !self.buttons.is_empty() || !self.touches.is_empty()
    }
}

fn set(held: &mut Vec<u8>, number: u8, down: bool) {
    held.retain(|other| *other != number);
    if down {
        held.push(number);
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::pen::PenSample;

    use super::*;

    #[test]
    fn whatever_is_pressed_is_held_until_it_is_released() {
        let key = |down| InputEvent::Key { code: 30, keysym: 0x61, down };
        let button = |down| InputEvent::Button { button: 1, down };
        let touch = |phase| InputEvent::Touch { id: 3, phase, x: 0, y: 0 };
        let pen =
            |buttons| InputEvent::Pen(PenSample { buttons, near: true, ..PenSample::default() });
        for (press, release) in [
            (key(true), key(false)),
            (button(true), button(false)),
            (touch(TouchPhase::Begin), touch(TouchPhase::End)),
            (touch(TouchPhase::Update), InputEvent::ReleaseAll),
            (button(true), InputEvent::ReleaseAll),
            (pen(1), pen(0)),
            (pen(2), InputEvent::ReleaseAll),
        ] {
            let mut held = HeldInput::default();
            assert!(!held.is_any());
            assert!(held.handle(press) && held.handle(press));
            assert!(held.is_any(), "{press:?}");
            assert!(held.handle(release));
            assert!(!held.is_any(), "{release:?}");
        }
    }

    #[test]
    fn the_release_of_a_key_that_is_not_down_is_not_passed_on() {
        let mut held = HeldInput::default();
        assert!(!held.handle(InputEvent::Key { code: 30, keysym: 0x61, down: false }));
        assert!(held.handle(InputEvent::Motion { x: 1, y: 1 }));
        assert!(!held.is_any());
    }
}
