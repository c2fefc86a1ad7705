//! The first step back: SDL's key events, to physical codes and keysyms; and which keys are held.
//! Every press has one release, with the same code and keysym, whatever the layout or the modifiers did in between.
//! Knows SDL's scancodes; the tables are keys.rs's.

use std::collections::HashMap;

use sdl3::keyboard::{Mod, Scancode};
use sdl3::video::Window;
use thinc_protocol::viewer::InputEvent;

use super::layout::Layout;
use crate::keys;

/// Most keys held at once: more than any keyboard reports.
const HELD_MAX: usize = 64;

/// 150 ms: no keyboard repeats a key so soon after it went down (200 ms is the shortest delay that people set, 500 usual).
/// SDL 3.4 on X says "held again" also where an X server that was kept from running stamps a release and the next press
/// of the same key with one time, and swallows the release: without this, the second letter of "ll" is lost.
const REPEAT_NS_MIN: u64 = 150_000_000;

/// What identifies a key while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Scancode(i32),
    /// A key that SDL has no scancode for.
    Raw(u16),
}

/// What the session was told of a key that is held.
struct Held {
    code: u16,
    keysym: u32,
    /// When it went down, SDL's nanoseconds.
    at_ns: u64,
}

/// Keys of the viewer's keyboard.
pub(super) struct Keyboard {
    held: HashMap<Place, Held>,
    /// What to take off a raw keycode to get evdev's; none where raw codes are something else.
    raw_offset: Option<u16>,
    layout: Layout,
    grabbed: bool,
}

impl Keyboard {
    pub(super) fn new(driver: &str) -> Keyboard {
        let raw_offset = match driver {
            // X keycodes of evdev keyboards are the kernel's plus 8.
            "x11" => Some(8),
            "wayland" => Some(0),
            _ => None,
        };
        Keyboard { held: HashMap::new(), raw_offset, layout: Layout::new(driver), grabbed: false }
    }

    /// A key went down, at SDL's time; none for one that is held already or has no place in Linux.
    pub(super) fn press(
        &mut self,
        scancode: Option<Scancode>,
        raw: u16,
        keymod: Mod,
        at_ns: u64,
    ) -> Option<InputEvent> {
        let place = place(scancode, raw)?;
        if self.held.contains_key(&place) || self.held.len() >= HELD_MAX {
            return None;
        }
        let (code, keysym) = match (place, scancode) {
            (Place::Scancode(number), Some(scancode)) => {
                let key = u16::try_from(number).ok().and_then(keys::by_scancode);
                let keycode = keycode_of(scancode, keymod);
                let keysym = if key.is_some_and(keys::Key::writes) && keys::is_scancode(keycode) {
                    // A key that writes, and SDL has no character for it: a dead key, or one from before Unicode.
                    // Where the X server cannot be asked, the place has to do.
                    self.layout.keysym(raw, keymod).unwrap_or(0)
                } else {
                    keys::keysym_of_keycode(keycode, keypad_writes(keymod))
                };
                (key.map_or(0, |key| key.code), keysym)
            }
            // A key of no keyboard, such as one that a screen keyboard binds for a moment: what it writes counts.
            _ => (raw.checked_sub(self.raw_offset?)?, self.layout.keysym(raw, keymod).unwrap_or(0)),
        };
        if code == 0 && keysym == 0 {
            return None;
        }
        self.held.insert(place, Held { code, keysym, at_ns });
        Some(InputEvent::Key { code, keysym, down: true })
    }

    /// A key that is held went down again, at SDL's time: let go and pressed between, where that is too soon for a
    /// repetition. The session repeats keys by itself.
    pub(super) fn press_again(&mut self, scancode: Option<Scancode>, raw: u16, at_ns: u64) -> Option<[InputEvent; 2]> {
        let held = self.held.get_mut(&place(scancode, raw)?)?;
        let since_ns = at_ns.saturating_sub(std::mem::replace(&mut held.at_ns, at_ns));
        // Only the first one tells: repetitions follow each other faster than any delay.
        if since_ns >= REPEAT_NS_MIN {
            held.at_ns = 0;
            return None;
        }
        let (code, keysym) = (held.code, held.keysym);
        Some([false, true].map(|down| InputEvent::Key { code, keysym, down }))
    }

    /// A key went up; none for one the session was not told of.
    pub(super) fn release(&mut self, scancode: Option<Scancode>, raw: u16) -> Option<InputEvent> {
        let Held { code, keysym, .. } = self.held.remove(&place(scancode, raw)?)?;
        Some(InputEvent::Key { code, keysym, down: false })
    }

    /// Nothing is held any more.
    pub(super) fn forget(&mut self) {
        self.held.clear();
    }

    /// Takes the desktop's own keys, or gives them back.
    pub(super) fn set_grab(&mut self, window: &mut Window, on: bool) {
        // Not every desktop grants it; then its keys stay its own, which is no reason to stop.
        self.grabbed = on && window.set_keyboard_grab(true);
        if !on {
            window.set_keyboard_grab(false);
        }
    }

    pub(super) fn is_grabbed(&self) -> bool {
        self.grabbed
    }
}

fn place(scancode: Option<Scancode>, raw: u16) -> Option<Place> {
    match scancode {
        Some(scancode) if scancode as i32 != 0 => Some(Place::Scancode(scancode as i32)),
        _ => (raw != 0).then_some(Place::Raw(raw)),
    }
}

/// Whether the keypad's keys are digits: Shift turns Num Lock round (XKB protocol, section 13.1, the type KEYPAD).
fn keypad_writes(keymod: Mod) -> bool {
    keymod.contains(Mod::NUMMOD) != keymod.intersects(Mod::LSHIFTMOD | Mod::RSHIFTMOD)
}

/// What the viewer's layout makes of a key with these modifiers, as an SDL keycode; 0 for nothing.
///
/// The sdl3 crate's `Keycode` knows only the keycodes SDL has a name for, which leaves out every letter beyond ASCII;
/// so this one number is asked of SDL itself.
fn keycode_of(scancode: Scancode, keymod: Mod) -> u32 {
    let modifiers = sdl3::sys::keycode::SDL_Keymod(keymod.bits());
    let scancode = sdl3::sys::scancode::SDL_Scancode(scancode as i32);
    // SAFETY: a function of three numbers that reads SDL's current keymap. SDL is initialised (an event came from it)
    // and this is its main thread: `Keyboard` lives in the event loop, which owns the `EventPump`.
    #[allow(unsafe_code)]
    let keycode = unsafe { sdl3::sys::keyboard::SDL_GetKeyFromScancode(scancode, modifiers, false) };
    keycode.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scancodes of SDL that no Linux keyboard has a key for, or whose code X cannot carry.
    const NO_LINUX_KEY: &[Scancode] = &[
        Scancode::Unknown,
        Scancode::International7,
        Scancode::International8,
        Scancode::International9,
        Scancode::Lang6,
        Scancode::Lang7,
        Scancode::Lang8,
        Scancode::Lang9,
    ];

    #[test]
    fn every_key_of_the_main_block_and_every_media_key_sdl_knows_has_a_code() {
        let mut missing = Vec::new();
        // 159 to 221 are keys of terminals and calculators (Oper, CrSel, Kp00, KpMemStore…) that Linux has not.
        for number in (4..=158).chain(224..=286) {
            let Some(scancode) = Scancode::from_i32(number) else { continue };
            if keys::by_scancode(number as u16).is_none() && !NO_LINUX_KEY.contains(&scancode) {
                missing.push(scancode);
            }
        }
        assert_eq!(missing, []);
    }

    #[test]
    fn a_letter_typed_twice_is_told_from_one_that_is_held() {
        let mut keyboard = Keyboard::new("dummy");
        let key = place(Some(Scancode::L), 0).unwrap();
        let ms = |ms: u64| ms * 1_000_000;
        keyboard.held.insert(key, Held { code: 38, keysym: 0x6c, at_ns: ms(1000) });
        let mut again = |at| keyboard.press_again(Some(Scancode::L), 0, at);
        let event = |down| InputEvent::Key { code: 38, keysym: 0x6c, down };
        assert_eq!(again(ms(1000)), Some([event(false), event(true)]), "its release was swallowed");
        assert_eq!(again(ms(1120)), Some([event(false), event(true)]), "and once more");
        assert_eq!(again(ms(1620)), None, "held for half a second");
        assert_eq!(again(ms(1650)), None, "it goes on being held");
        assert_eq!(keyboard.press_again(Some(Scancode::A), 0, 0), None, "never pressed");
    }

    #[test]
    fn shift_turns_num_lock_round() {
        assert!(keypad_writes(Mod::NUMMOD) && keypad_writes(Mod::RSHIFTMOD));
        assert!(!keypad_writes(Mod::NOMOD) && !keypad_writes(Mod::NUMMOD | Mod::LSHIFTMOD));
    }

    #[test]
    fn our_scancodes_are_sdls() {
        for (scancode, name) in [
            (Scancode::A, "a"),
            (Scancode::Return, "Return"),
            (Scancode::NonUsBackslash, "less"),
            (Scancode::KpEnter, "KP_Enter"),
            (Scancode::RGui, "Super_R"),
            (Scancode::F24, "F24"),
        ] {
            assert_eq!(keys::by_scancode(scancode as i32 as u16).map(|key| key.name), Some(name));
        }
    }
}
