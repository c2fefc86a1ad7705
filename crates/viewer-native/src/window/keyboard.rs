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

/// 2000: characters of one text. Each is an input of its own, and a session ends a connection that makes more than 4000 in a
/// second.
const TEXT_CHARS_MAX: usize = 2000;

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

/// Whether an input method here may make texts of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    /// Keys are all there is: the session's programs compose.
    None,
    /// What an input method, or a dead key, makes of keys comes as text right behind the last of them.
    Follow,
}

/// A text that nobody types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too long to type: copy and paste it instead.")]
pub(super) struct TooLong;

/// Keys of the viewer's keyboard.
pub(super) struct Keyboard {
    held: HashMap<Place, Held>,
    texts: Texts,
    /// A press that writes, until it is known whether its own text follows, or another that was made of it.
    undecided: Option<(Place, InputEvent)>,
    /// A key repeated: a text right behind it is only that.
    repeated: bool,
    /// The locks the session was told of.
    locks: Option<(bool, bool)>,
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
        Keyboard {
            held: HashMap::new(),
            texts: Texts::None,
            undecided: None,
            repeated: false,
            locks: None,
            raw_offset,
            layout: Layout::new(driver),
            grabbed: false,
        }
    }

    /// From now on texts follow keys, or no longer.
    pub(super) fn set_texts(&mut self, texts: Texts) {
        self.texts = texts;
    }

    /// A key went down; what the session is told goes into `out`.
    pub(super) fn key_down(
        &mut self,
        scancode: Option<Scancode>,
        raw: u16,
        keymod: Mod,
        at_ns: u64,
        out: &mut Vec<InputEvent>,
    ) {
        self.decide(out);
        if !matches!(scancode, Some(Scancode::CapsLock | Scancode::NumLockClear)) {
            self.sync_locks(keymod, out);
        }
        let Some(event) = self.press(scancode, raw, keymod, at_ns) else { return };
        let commands = Mod::LCTRLMOD | Mod::RCTRLMOD | Mod::LALTMOD | Mod::LGUIMOD | Mod::RGUIMOD;
        let place = place(scancode, raw).filter(|_| self.texts == Texts::Follow && !keymod.intersects(commands));
        match place {
            Some(place) if may_write(&event) => self.undecided = Some((place, event)),
            _ => out.push(event),
        }
    }

    /// A key that is held went down again, at SDL's time: let go and pressed between, where that is too soon for a
    /// repetition. The session repeats keys by itself.
    pub(super) fn key_again(
        &mut self,
        scancode: Option<Scancode>,
        raw: u16,
        keymod: Mod,
        at_ns: u64,
        out: &mut Vec<InputEvent>,
    ) {
        self.decide(out);
        if self.repeats(scancode, raw, at_ns) {
            self.repeated = true;
        } else if let Some(event) = self.release(scancode, raw) {
            out.push(event);
            // It may mean something else by now: Shift may have gone down between.
            self.key_down(scancode, raw, keymod, at_ns, out);
        }
    }

    /// A text came. It is that of the key right before it, or was made by an input method or of a dead key: then it is told
    /// as text, and the key that ended it is not.
    ///
    /// # Errors
    /// It is too long to type, and none of it is told.
    pub(super) fn text(&mut self, text: &str, out: &mut Vec<InputEvent>) -> Result<(), TooLong> {
        match self.undecided.take() {
            Some((_, event)) if writes(&event, text) => {
                out.push(event);
                return Ok(());
            }
            Some((place, _)) => {
                self.held.remove(&place);
            }
            None if std::mem::take(&mut self.repeated) => return Ok(()),
            None => {}
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(TooLong);
        }
        out.extend(text.chars().map(InputEvent::Char));
        Ok(())
    }

    /// Something else happened, or nothing more did: no text follows the last key.
    pub(super) fn decide(&mut self, out: &mut Vec<InputEvent>) {
        self.repeated = false;
        out.extend(self.undecided.take().map(|(_, event)| event));
    }

    /// The session's locks become those of this keyboard, where they may be others.
    pub(super) fn sync_locks(&mut self, keymod: Mod, out: &mut Vec<InputEvent>) {
        let (caps, num) = (keymod.contains(Mod::CAPSMOD), keymod.contains(Mod::NUMMOD));
        if self.locks.replace((caps, num)) != Some((caps, num)) {
            out.push(InputEvent::Locks { caps, num });
        }
    }

    /// A key went down, at SDL's time; none for one that is held already or has no place in Linux.
    fn press(&mut self, scancode: Option<Scancode>, raw: u16, keymod: Mod, at_ns: u64) -> Option<InputEvent> {
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

    /// Whether a key that went down again is only held.
    fn repeats(&mut self, scancode: Option<Scancode>, raw: u16, at_ns: u64) -> bool {
        let Some(held) = place(scancode, raw).and_then(|place| self.held.get_mut(&place)) else { return true };
        if at_ns.saturating_sub(held.at_ns) < REPEAT_NS_MIN {
            return false;
        }
        // Only the first one tells: repetitions follow each other faster than any delay.
        held.at_ns = 0;
        true
    }

    /// A key went up; none for one the session was not told of.
    pub(super) fn release(&mut self, scancode: Option<Scancode>, raw: u16) -> Option<InputEvent> {
        let Held { code, keysym, .. } = self.held.remove(&place(scancode, raw)?)?;
        Some(InputEvent::Key { code, keysym, down: false })
    }

    /// Nothing is held any more.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.undecided = None;
        self.repeated = false;
        self.forget_locks();
    }

    /// The session's locks may be others than it was told.
    pub(super) fn forget_locks(&mut self) {
        self.locks = None;
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

/// A key that writes, or may: what is no character has a keysym of its own.
fn may_write(event: &InputEvent) -> bool {
    matches!(event, InputEvent::Key { keysym, .. } if !(0xfe00..=0xffff).contains(keysym) || is_dead(*keysym))
}

/// Dead keys: where texts follow, they come only if nobody composes here.
fn is_dead(keysym: u32) -> bool {
    (0xfe50..=0xfe93).contains(&keysym)
}

/// Whether this is what the key itself writes. Caps Lock may have made a capital of it that stands on no key.
fn writes(event: &InputEvent, text: &str) -> bool {
    let InputEvent::Key { keysym, .. } = event else { return false };
    let character = match keysym {
        0x20..=0xff => char::from_u32(*keysym),
        0x0100_0000.. => char::from_u32(keysym - 0x0100_0000),
        _ => None,
    };
    character.is_some_and(|character| text.to_lowercase().chars().eq(character.to_lowercase()))
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
    let (caps, shift) = (keymod.contains(Mod::CAPSMOD), Mod::LSHIFTMOD | Mod::RSHIFTMOD);
    let base = keymod - (shift | Mod::CAPSMOD);
    let (plain, shifted) = (asked_of_sdl(scancode, base), asked_of_sdl(scancode, base | shift));
    // SDL 3.4 writes capitals with Shift under Caps Lock, where X writes small letters.
    let turned = caps && plain != shifted && capital(plain) == Some(shifted);
    if keymod.intersects(shift) != turned { shifted } else { plain }
}

fn capital(keycode: u32) -> Option<u32> {
    let mut capital = char::from_u32(keycode)?.to_uppercase();
    let one = capital.next()?;
    capital.next().is_none().then_some(u32::from(one))
}

fn asked_of_sdl(scancode: Scancode, keymod: Mod) -> u32 {
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

    /// A keyboard on which "e" (18) and a dead key went down and no text has followed yet.
    fn undecided(keysym: u32) -> (Keyboard, Place) {
        let mut keyboard = Keyboard::new("dummy");
        keyboard.set_texts(Texts::Follow);
        let key = place(Some(Scancode::E), 0).unwrap();
        keyboard.held.insert(key, Held { code: 18, keysym, at_ns: 1 });
        keyboard.undecided = Some((key, InputEvent::Key { code: 18, keysym, down: true }));
        (keyboard, key)
    }

    #[test]
    fn a_key_and_its_text_are_one_and_what_was_made_of_it_is_another() {
        let e = InputEvent::Key { code: 18, keysym: 0x65, down: true };
        for (text, told, held) in [
            ("e", vec![e], true),
            ("E", vec![e], true),
            ("ê", vec![InputEvent::Char('ê')], false),
            ("家に", vec![InputEvent::Char('家'), InputEvent::Char('に')], false),
        ] {
            let (mut keyboard, key) = undecided(0x65);
            let mut out = Vec::new();
            keyboard.text(text, &mut out).unwrap();
            assert_eq!((out, keyboard.held.contains_key(&key)), (told, held), "{text}");
            // A text with no key before it is the input method's.
            let mut out = Vec::new();
            keyboard.text("e", &mut out).unwrap();
            assert_eq!(out, [InputEvent::Char('e')]);
        }
        let (mut keyboard, _) = undecided(0x65);
        let mut out = Vec::new();
        keyboard.decide(&mut out);
        assert_eq!(out, [e], "no text followed");
    }

    #[test]
    fn texts_of_repetitions_are_the_sessions_own() {
        let (mut keyboard, _) = undecided(0x65);
        let mut out = Vec::new();
        keyboard.decide(&mut out);
        out.clear();
        keyboard.key_again(Some(Scancode::E), 0, Mod::NOMOD, 1_000_000_000, &mut out);
        keyboard.text("e", &mut out).unwrap();
        assert_eq!(out, []);
    }

    #[test]
    fn a_text_that_is_too_long_to_type_is_not_begun() {
        let (mut keyboard, _) = undecided(0x65);
        let mut out = Vec::new();
        assert_eq!(keyboard.text(&"に".repeat(TEXT_CHARS_MAX + 1), &mut out), Err(TooLong));
        assert_eq!(out, []);
        assert_eq!(keyboard.text(&"に".repeat(TEXT_CHARS_MAX), &mut out), Ok(()));
        assert_eq!(out.len(), TEXT_CHARS_MAX);
    }

    #[test]
    fn locks_are_told_when_they_may_have_changed_and_only_then() {
        let mut keyboard = Keyboard::new("dummy");
        let mut out = Vec::new();
        for keymod in [Mod::CAPSMOD, Mod::CAPSMOD | Mod::LSHIFTMOD, Mod::NUMMOD] {
            keyboard.sync_locks(keymod, &mut out);
        }
        assert_eq!(out, [InputEvent::Locks { caps: true, num: false }, InputEvent::Locks { caps: false, num: true }]);
        keyboard.forget();
        keyboard.sync_locks(Mod::NUMMOD, &mut out);
        assert_eq!(out.len(), 3, "after the keyboard was away");
    }

    #[test]
    fn a_letter_typed_twice_is_told_from_one_that_is_held() {
        let mut keyboard = Keyboard::new("dummy");
        let key = place(Some(Scancode::L), 0).unwrap();
        let ms = |ms: u64| ms * 1_000_000;
        keyboard.held.insert(key, Held { code: 38, keysym: 0x6c, at_ns: ms(1000) });
        assert!(!keyboard.repeats(Some(Scancode::L), 0, ms(1000)), "its release was swallowed");
        assert!(!keyboard.repeats(Some(Scancode::L), 0, ms(1120)), "and once more");
        assert!(keyboard.repeats(Some(Scancode::L), 0, ms(1620)), "held for half a second");
        assert!(keyboard.repeats(Some(Scancode::L), 0, ms(1650)), "it goes on being held");
        assert!(keyboard.repeats(Some(Scancode::A), 0, 0), "never pressed: nothing to tell");
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
