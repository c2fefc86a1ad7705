//! Path back: from SDL's key events, to key codes and keysyms; and which keys are down.
//! Every press has one release with the same code and keysym, whatever happens to layout or
//! modifiers in between. Knows SDL's scancodes; the tables are keys.rs's.

use std::collections::HashMap;

use sdl3::keyboard::{Mod, Scancode};
use sdl3::video::Window;
use thinc_protocol::viewer::InputEvent;

use super::layout::Layout;
use crate::keys;

/// 64: most keys down at once; more than any keyboard reports.
const KEYS_DOWN_MAX: usize = 64;

/// 150 ms: no keyboard repeats a key so soon after the press (200 ms is the shortest delay that
/// people set, 500 ms is usual). SDL 3.4 on X also reports a repeat, and drops the release, if an X
/// server that was not scheduled stamps a release and the next press of the same key with the same
/// time: without this, the second "l" of "ll" would be lost.
const REPEAT_NS_MIN: u64 = 150_000_000;

/// 2000: most characters of one text. Each is a separate input, and a session closes a connection
/// that sends more than 4000 in a second.
const TEXT_CHARS_MAX: usize = 2000;

/// Identifies a key while it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum KeyId {
    Scancode(i32),
    /// A key that SDL has no scancode for.
    Raw(u16),
}

/// A key that is down, as it was sent to the session.
struct KeyDown {
    code: u16,
    keysym: u32,
    /// Time of the press, SDL's nanoseconds.
    at_ns: u64,
}

/// Whether a local input method may turn keys into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextInput {
    /// Only keys: the session's applications compose.
    None,
    /// Text of an input method or a dead key follows directly after the last of its keys.
    Follow,
}

/// A text too long to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too long to type: copy and paste it instead.")]
pub(super) struct TooLong;

/// State of the viewer's keyboard.
pub(super) struct Keyboard {
    down_keys: HashMap<KeyId, KeyDown>,
    texts: TextInput,
    /// A press that may produce text, until it is known whether its own text follows or composed
    /// text.
    undecided: Option<(KeyId, InputEvent)>,
    /// A key repeated: text directly after it belongs to the repeat.
    repeated: bool,
    /// The locks last sent to the session.
    locks: Option<(bool, bool)>,
    /// Difference between a raw keycode and evdev's; None if raw codes are something else.
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
            down_keys: HashMap::new(),
            texts: TextInput::None,
            undecided: None,
            repeated: false,
            locks: None,
            raw_offset,
            layout: Layout::new(driver),
            grabbed: false,
        }
    }

    /// Sets whether text follows keys.
    pub(super) fn set_texts(&mut self, texts: TextInput) {
        self.texts = texts;
    }

    /// A key went down; the events for the session are appended to `out`.
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
        let place = place(scancode, raw)
            .filter(|_| self.texts == TextInput::Follow && !keymod.intersects(commands));
        match place {
            Some(place) if may_produce_text(&event) => self.undecided = Some((place, event)),
            _ => out.push(event),
        }
    }

    /// A key that is down was reported pressed again, at SDL's time: if that is too soon for a
    /// repeat, it was released and pressed in between. The session generates repeats itself.
    pub(super) fn key_repeat(
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
            // Its keysym may have changed: Shift may have been pressed in between.
            self.key_down(scancode, raw, keymod, at_ns, out);
        }
    }

    /// Text arrived. If it is not that of the key directly before it, an input method or a dead key
    /// composed it: then it is sent as text, and the key that ended it is not.
    ///
    /// # Errors
    /// It is too long to type, and none of it is sent.
    pub(super) fn text(&mut self, text: &str, out: &mut Vec<InputEvent>) -> Result<(), TooLong> {
        match self.undecided.take() {
            Some((_, event)) if produces(&event, text) => {
                out.push(event);
                return Ok(());
            }
            Some((place, _)) => {
                self.down_keys.remove(&place);
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

    /// Another event, or none, followed the last key: no text belongs to it.
    pub(super) fn decide(&mut self, out: &mut Vec<InputEvent>) {
        self.repeated = false;
        out.extend(self.undecided.take().map(|(_, event)| event));
    }

    /// Sends this keyboard's locks if they differ from those last sent.
    pub(super) fn sync_locks(&mut self, keymod: Mod, out: &mut Vec<InputEvent>) {
        let (caps, num) = (keymod.contains(Mod::CAPSMOD), keymod.contains(Mod::NUMMOD));
        if self.locks.replace((caps, num)) != Some((caps, num)) {
            out.push(InputEvent::Locks { caps, num });
        }
    }

    /// A key went down, at SDL's time; None if it is down already or has no code in Linux.
    fn press(
        &mut self,
        scancode: Option<Scancode>,
        raw: u16,
        keymod: Mod,
        at_ns: u64,
    ) -> Option<InputEvent> {
        let scancode = scancode.filter(|scancode| !self.is_virtual_modifier(*scancode, raw));
        let place = place(scancode, raw)?;
        if self.down_keys.contains_key(&place) || self.down_keys.len() >= KEYS_DOWN_MAX {
            return None;
        }
        let (code, keysym) = match (place, scancode) {
            (KeyId::Scancode(number), Some(scancode)) => {
                let key = u16::try_from(number).ok().and_then(keys::by_scancode);
                let keycode = keycode_of(scancode, keymod);
                let keysym = if key.is_some_and(keys::Key::produces_character)
                    && keys::is_scancode(keycode)
                {
                    // SDL has no character for this key: a dead key, or a keysym from before
                    // Unicode. If the X server cannot be asked, the key code has to do.
                    self.layout.keysym(raw, keymod).unwrap_or(0)
                } else {
                    keys::keysym_of_keycode(keycode, keypad_is_numeric(keymod))
                };
                (key.map_or(0, |key| key.code), keysym)
            }
            // Not a key of a keyboard, such as one that an on-screen keyboard binds for a moment:
            // its keysym counts.
            _ => (raw.checked_sub(self.raw_offset?)?, self.layout.keysym(raw, keymod).unwrap_or(0)),
        };
        if code == 0 && keysym == 0 {
            return None;
        }
        self.down_keys.insert(place, KeyDown { code, keysym, at_ns });
        Some(InputEvent::Key { code, keysym, down: true })
    }

    /// Whether this is a modifier on a keycode that no keyboard has, which an X server's keymap has
    /// for virtual modifiers, and on which programs press AltGr where the right Alt key is not it.
    /// SDL gives such a key the scancode of another key by its keysym.
    fn is_virtual_modifier(&self, scancode: Scancode, raw: u16) -> bool {
        let code = u16::try_from(scancode as i32).ok().and_then(keys::by_scancode).map(|k| k.code);
        let (Some(offset), Some(code)) = (self.raw_offset, code) else { return false };
        raw != 0
            && raw != code + offset
            && self.layout.keysym(raw, Mod::NOMOD).is_some_and(keys::is_modifier)
    }

    /// The key that is down, with the scancode or the raw code that its press had.
    fn down_key(&self, scancode: Option<Scancode>, raw: u16) -> Option<KeyId> {
        let ids = [Some(KeyId::Raw(raw)), place(scancode, raw)];
        ids.into_iter().flatten().find(|id| self.down_keys.contains_key(id))
    }

    /// Whether a repeated press is a repeat of a key that stays down.
    fn repeats(&mut self, scancode: Option<Scancode>, raw: u16, at_ns: u64) -> bool {
        let Some(key) =
            self.down_key(scancode, raw).and_then(|place| self.down_keys.get_mut(&place))
        else {
            return true;
        };
        if at_ns.saturating_sub(key.at_ns) < REPEAT_NS_MIN {
            return false;
        }
        // Only the first repeat is checked: later ones follow faster than any delay.
        key.at_ns = 0;
        true
    }

    /// A key went up; None if its press was not sent to the session.
    pub(super) fn release(&mut self, scancode: Option<Scancode>, raw: u16) -> Option<InputEvent> {
        let KeyDown { code, keysym, .. } = self.down_keys.remove(&self.down_key(scancode, raw)?)?;
        Some(InputEvent::Key { code, keysym, down: false })
    }

    /// No key is down any more.
    pub(super) fn forget(&mut self) {
        self.down_keys.clear();
        self.undecided = None;
        self.repeated = false;
        self.forget_locks();
    }

    /// The session's locks are no longer known.
    pub(super) fn forget_locks(&mut self) {
        self.locks = None;
    }

    /// Grabs the keyboard, or ends the grab.
    pub(super) fn set_grab(&mut self, window: &mut Window, on: bool) {
        // Not every desktop grants a grab; that is no reason to stop.
        self.grabbed = on && window.set_keyboard_grab(true);
        if !on {
            window.set_keyboard_grab(false);
        }
    }

    pub(super) fn is_grabbed(&self) -> bool {
        self.grabbed
    }
}

/// A key that may produce text: others have keysyms in their own range.
fn may_produce_text(event: &InputEvent) -> bool {
    matches!(event, InputEvent::Key { keysym, .. }
        if !(0xfe00..=0xffff).contains(keysym) || is_dead(*keysym))
}

/// Dead keys: if text follows keys, they are reported only if nothing composes locally.
fn is_dead(keysym: u32) -> bool {
    (0xfe50..=0xfe93).contains(&keysym)
}

/// Whether this is the key's own text. Caps Lock may have produced a capital that is on no key.
fn produces(event: &InputEvent, text: &str) -> bool {
    let InputEvent::Key { keysym, .. } = event else { return false };
    let character = match keysym {
        0x20..=0xff => char::from_u32(*keysym),
        0x0100_0000.. => char::from_u32(keysym - 0x0100_0000),
        _ => None,
    };
    character.is_some_and(|character| text.to_lowercase().chars().eq(character.to_lowercase()))
}

fn place(scancode: Option<Scancode>, raw: u16) -> Option<KeyId> {
    match scancode {
        Some(scancode) if scancode as i32 != 0 => Some(KeyId::Scancode(scancode as i32)),
        _ => (raw != 0).then_some(KeyId::Raw(raw)),
    }
}

/// Whether the keypad's keys are digits: Shift inverts Num Lock (XKB protocol, section 13.1, key
/// type KEYPAD).
fn keypad_is_numeric(keymod: Mod) -> bool {
    keymod.contains(Mod::NUMMOD) != keymod.intersects(Mod::LSHIFTMOD | Mod::RSHIFTMOD)
}

/// The SDL keycode of a key with these modifiers in the viewer's layout; 0 for none.
///
/// The sdl3 crate's `Keycode` has only the keycodes that SDL has a name for, and no characters
/// beyond ASCII, so SDL itself is called.
fn keycode_of(scancode: Scancode, keymod: Mod) -> u32 {
    let (caps, shift) = (keymod.contains(Mod::CAPSMOD), Mod::LSHIFTMOD | Mod::RSHIFTMOD);
    let base = keymod - (shift | Mod::CAPSMOD);
    let (plain, shifted) = (query_sdl(scancode, base), query_sdl(scancode, base | shift));
    // With Shift under Caps Lock, SDL 3.4 produces capitals and X lower case.
    let inverted = caps && plain != shifted && capital(plain) == Some(shifted);
    if keymod.intersects(shift) != inverted { shifted } else { plain }
}

fn capital(keycode: u32) -> Option<u32> {
    let mut capital = char::from_u32(keycode)?.to_uppercase();
    let one = capital.next()?;
    capital.next().is_none().then_some(u32::from(one))
}

fn query_sdl(scancode: Scancode, keymod: Mod) -> u32 {
    let modifiers = sdl3::sys::keycode::SDL_Keymod(keymod.bits());
    let scancode = sdl3::sys::scancode::SDL_Scancode(scancode as i32);
    // SAFETY: a function of three numbers that reads SDL's current keymap. SDL is initialised (an
    // event came from it) and this is its main thread: `Keyboard` lives in the event loop, which
    // owns the `EventPump`.
    #[allow(unsafe_code)]
    let keycode =
        unsafe { sdl3::sys::keyboard::SDL_GetKeyFromScancode(scancode, modifiers, false) };
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
        // 159 to 221 are keys of terminals and calculators (Oper, CrSel, Kp00, KpMemStore…) that
        // Linux does not have.
        for number in (4..=158).chain(224..=286) {
            let Some(scancode) = Scancode::from_i32(number) else { continue };
            if keys::by_scancode(number as u16).is_none() && !NO_LINUX_KEY.contains(&scancode) {
                missing.push(scancode);
            }
        }
        assert_eq!(missing, []);
    }

    /// A keyboard on which "e" (18) or a dead key went down and no text has followed yet.
    fn undecided(keysym: u32) -> (Keyboard, KeyId) {
        let mut keyboard = Keyboard::new("dummy");
        keyboard.set_texts(TextInput::Follow);
        let key = place(Some(Scancode::E), 0).unwrap();
        keyboard.down_keys.insert(key, KeyDown { code: 18, keysym, at_ns: 1 });
        keyboard.undecided = Some((key, InputEvent::Key { code: 18, keysym, down: true }));
        (keyboard, key)
    }

    #[test]
    fn a_keys_own_text_is_the_key_and_composed_text_is_text() {
        let e = InputEvent::Key { code: 18, keysym: 0x65, down: true };
        for (text, sent, is_down) in [
            ("e", vec![e], true),
            ("E", vec![e], true),
            ("ê", vec![InputEvent::Char('ê')], false),
            ("家に", vec![InputEvent::Char('家'), InputEvent::Char('に')], false),
        ] {
            let (mut keyboard, key) = undecided(0x65);
            let mut out = Vec::new();
            keyboard.text(text, &mut out).unwrap();
            assert_eq!((out, keyboard.down_keys.contains_key(&key)), (sent, is_down), "{text}");
            // Text without a key before it comes from the input method.
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
    fn text_of_repeats_is_dropped() {
        let (mut keyboard, _) = undecided(0x65);
        let mut out = Vec::new();
        keyboard.decide(&mut out);
        out.clear();
        keyboard.key_repeat(Some(Scancode::E), 0, Mod::NOMOD, 1_000_000_000, &mut out);
        keyboard.text("e", &mut out).unwrap();
        assert_eq!(out, []);
    }

    #[test]
    fn a_text_too_long_to_type_is_not_sent_at_all() {
        let (mut keyboard, _) = undecided(0x65);
        let mut out = Vec::new();
        assert_eq!(keyboard.text(&"に".repeat(TEXT_CHARS_MAX + 1), &mut out), Err(TooLong));
        assert_eq!(out, []);
        assert_eq!(keyboard.text(&"に".repeat(TEXT_CHARS_MAX), &mut out), Ok(()));
        assert_eq!(out.len(), TEXT_CHARS_MAX);
    }

    #[test]
    fn locks_are_sent_only_when_they_may_have_changed() {
        let mut keyboard = Keyboard::new("dummy");
        let mut out = Vec::new();
        for keymod in [Mod::CAPSMOD, Mod::CAPSMOD | Mod::LSHIFTMOD, Mod::NUMMOD] {
            keyboard.sync_locks(keymod, &mut out);
        }
        assert_eq!(
            out,
            [
                InputEvent::Locks { caps: true, num: false },
                InputEvent::Locks { caps: false, num: true }
            ]
        );
        keyboard.forget();
        keyboard.sync_locks(Mod::NUMMOD, &mut out);
        assert_eq!(out.len(), 3, "after the focus was lost");
    }

    #[test]
    fn a_key_typed_twice_is_distinguished_from_a_repeat() {
        let mut keyboard = Keyboard::new("dummy");
        let key = place(Some(Scancode::L), 0).unwrap();
        let ms = |ms: u64| ms * 1_000_000;
        keyboard.down_keys.insert(key, KeyDown { code: 38, keysym: 0x6c, at_ns: ms(1000) });
        assert!(!keyboard.repeats(Some(Scancode::L), 0, ms(1000)), "its release was dropped");
        assert!(!keyboard.repeats(Some(Scancode::L), 0, ms(1120)), "and once more");
        assert!(keyboard.repeats(Some(Scancode::L), 0, ms(1620)), "down for half a second");
        assert!(keyboard.repeats(Some(Scancode::L), 0, ms(1650)), "it stays down");
        assert!(keyboard.repeats(Some(Scancode::A), 0, 0), "never pressed: nothing to send");
    }

    #[test]
    fn shift_inverts_num_lock() {
        assert!(keypad_is_numeric(Mod::NUMMOD) && keypad_is_numeric(Mod::RSHIFTMOD));
        assert!(!keypad_is_numeric(Mod::NOMOD) && !keypad_is_numeric(Mod::NUMMOD | Mod::LSHIFTMOD));
    }

    #[test]
    fn our_scancodes_equal_sdls() {
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
