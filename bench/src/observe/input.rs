//! Keyboard and mouse of the client's user, through XTEST on the client's own X server. From names
//! of keys to keycodes by the server's keyboard mapping; returns the time of each input. Knows keys
//! and buttons; never the client that receives them.

use std::path::Path;
use std::time::Instant;

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConnectionExt as _, InputFocus, KEY_PRESS_EVENT,
    KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT, MapState,
};
use x11rb::protocol::xtest::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::screen::{ClientScreen, need};
use crate::Error;

/// Windows with fewer pixels than this are helpers, tooltips or icons, not the viewer.
const VIEWER_AREA_MIN: u32 = 10_000;
const SHIFT: u32 = 0xffe1;
const WHEEL_UP: u8 = 4;
const WHEEL_DOWN: u8 = 5;

/// Keyboard and mouse of one X display.
pub struct Input {
    x: RustConnection,
    root: u32,
    keys: Keys,
}

/// One keycode, and whether the character needs Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    code: u8,
    shift: bool,
}

/// The keys by keysym.
struct Keys {
    first: u8,
    per_key: usize,
    keysyms: Vec<u32>,
}

impl Input {
    /// Input of the client's screen.
    pub fn new(screen: &ClientScreen) -> Result<Input, Error> {
        Input::on(screen.display(), None)
    }

    /// Input of any display.
    pub fn on(display: &str, xauthority: Option<&Path>) -> Result<Input, Error> {
        let (x, screen) = super::connect_screen(display, xauthority)?;
        need(&x, xtest::X11_EXTENSION_NAME)?;
        x.xtest_get_version(2, 2)?.reply()?;
        let root = x.setup().roots[screen].root;
        let keys = Keys::of(&x)?;
        Ok(Input { x, root, keys })
    }

    /// Presses and releases one key: a character ("a", "A", "%"), a name ("Return", "Next",
    /// "Control_L", "F5"), or several held at once ("Control_L+Shift_L+t"). Returns the time just
    /// before the press was sent.
    pub fn key(&self, name: &str) -> Result<Instant, Error> {
        let chord = self.chord(name)?;
        self.press(&chord)?;
        self.release(&chord)?;
        self.send()
    }

    /// Types a text, one key after another without a pause. A line feed is Return.
    pub fn text(&self, text: &str) -> Result<Instant, Error> {
        // All keys are looked up before the first one is pressed, so that an error types nothing.
        let keys: Vec<Key> = text
            .chars()
            .map(|c| self.find(keysym_of(c), &c.to_string()))
            .collect::<Result<_, _>>()?;
        for key in keys {
            self.press(&[key])?;
            self.release(&[key])?;
        }
        self.send()
    }

    /// Moves the pointer.
    pub fn move_to(&self, x: i32, y: i32) -> Result<Instant, Error> {
        let wrong = |_| format!("the pointer cannot go to {x},{y}");
        let (x, y) = (i16::try_from(x).map_err(wrong)?, i16::try_from(y).map_err(wrong)?);
        self.x.xtest_fake_input(MOTION_NOTIFY_EVENT, 0, 0, self.root, x, y, 0)?;
        self.send()
    }

    /// Presses and releases a button: 1 left, 2 middle, 3 right.
    pub fn click(&self, button: u8) -> Result<Instant, Error> {
        self.button(BUTTON_PRESS_EVENT, button)?;
        self.button(BUTTON_RELEASE_EVENT, button)?;
        self.send()
    }

    /// Presses a button.
    pub fn button_down(&self, button: u8) -> Result<Instant, Error> {
        self.button(BUTTON_PRESS_EVENT, button)?;
        self.send()
    }

    /// Releases a button.
    pub fn button_up(&self, button: u8) -> Result<Instant, Error> {
        self.button(BUTTON_RELEASE_EVENT, button)?;
        self.send()
    }

    /// Turns the wheel, down if `lines` is positive.
    pub fn scroll(&self, lines: i32) -> Result<Instant, Error> {
        let button = if lines > 0 { WHEEL_DOWN } else { WHEEL_UP };
        for _ in 0..lines.unsigned_abs() {
            self.button(BUTTON_PRESS_EVENT, button)?;
            self.button(BUTTON_RELEASE_EVENT, button)?;
        }
        self.send()
    }

    /// Sets the keyboard focus to the largest window and moves the pointer to its centre. Returns
    /// the window; None if no window is shown yet.
    pub fn focus_viewer(&self) -> Result<Option<u32>, Error> {
        let children = self.x.query_tree(self.root)?.reply()?.children;
        let shown = |&window: &u32| {
            // A window may be destroyed between the requests.
            let attributes = self.x.get_window_attributes(window).ok()?.reply().ok()?;
            let place = self.x.get_geometry(window).ok()?.reply().ok()?;
            let area = u32::from(place.width) * u32::from(place.height);
            (attributes.map_state == MapState::VIEWABLE && area > VIEWER_AREA_MIN)
                .then_some((area, window, place))
        };
        // The topmost of equally large ones: QueryTree lists children from the bottom of the stack.
        let Some((_, window, place)) =
            children.iter().filter_map(shown).max_by_key(|found| found.0)
        else {
            return Ok(None);
        };
        let (x, y) = (place.x + (place.width / 2) as i16, place.y + (place.height / 2) as i16);
        self.x.xtest_fake_input(MOTION_NOTIFY_EVENT, 0, 0, self.root, x, y, 0)?;
        let focus =
            self.x.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME)?;
        focus.check().map_err(|error| format!("the largest window takes no keyboard: {error}"))?;
        Ok(Some(window))
    }

    fn chord(&self, name: &str) -> Result<Vec<Key>, Error> {
        chord_names(name).into_iter().map(|part| self.find(named_keysym(part)?, part)).collect()
    }

    fn find(&self, keysym: u32, name: &str) -> Result<Key, Error> {
        Ok(self
            .keys
            .find(keysym)
            .ok_or_else(|| format!("the client's keyboard has no key for `{name}`"))?)
    }

    fn press(&self, keys: &[Key]) -> Result<(), Error> {
        if keys.iter().any(|key| key.shift) {
            self.fake_key(KEY_PRESS_EVENT, self.find(SHIFT, "Shift_L")?.code)?;
        }
        keys.iter().try_for_each(|key| self.fake_key(KEY_PRESS_EVENT, key.code))
    }

    fn release(&self, keys: &[Key]) -> Result<(), Error> {
        keys.iter().rev().try_for_each(|key| self.fake_key(KEY_RELEASE_EVENT, key.code))?;
        if keys.iter().any(|key| key.shift) {
            self.fake_key(KEY_RELEASE_EVENT, self.find(SHIFT, "Shift_L")?.code)?;
        }
        Ok(())
    }

    fn fake_key(&self, event: u8, code: u8) -> Result<(), Error> {
        self.x.xtest_fake_input(event, code, 0, x11rb::NONE, 0, 0, 0)?;
        Ok(())
    }

    fn button(&self, event: u8, button: u8) -> Result<(), Error> {
        self.x.xtest_fake_input(event, button, 0, x11rb::NONE, 0, 0, 0)?;
        Ok(())
    }

    /// Flushes the requests that were buffered until here.
    fn send(&self) -> Result<Instant, Error> {
        let at = Instant::now();
        self.x.flush()?;
        Ok(at)
    }
}

impl Keys {
    fn of(x: &RustConnection) -> Result<Keys, Error> {
        let (first, last) = (x.setup().min_keycode, x.setup().max_keycode);
        let map = x.get_keyboard_mapping(first, last - first + 1)?.reply()?;
        Ok(Keys {
            first,
            per_key: usize::from(map.keysyms_per_keycode).max(1),
            keysyms: map.keysyms,
        })
    }

    /// The key that gives `keysym` by itself or with Shift: the first two columns of the core
    /// protocol's mapping.
    fn find(&self, keysym: u32) -> Option<Key> {
        let keys = || self.keysyms.chunks(self.per_key);
        let key = |index: usize, shift| {
            Some(Key { code: self.first.checked_add(u8::try_from(index).ok()?)?, shift })
        };
        let plain = keys().position(|key| key[0] == keysym);
        let shifted = || keys().position(|key| key.get(1) == Some(&keysym));
        plain.map_or_else(|| key(shifted()?, true), |index| key(index, false))
    }
}

/// The parts of "Control_L+plus"; a plus sign in the place of a key is that key.
pub(crate) fn chord_names(name: &str) -> Vec<&str> {
    match name.strip_suffix('+') {
        Some("") => vec!["+"],
        Some(rest) if rest.ends_with('+') => {
            rest[..rest.len() - 1].split('+').chain(["+"]).collect()
        }
        _ => name.split('+').collect(),
    }
}

pub(crate) fn keysym_of(character: char) -> u32 {
    match character {
        '\n' | '\r' => 0xff0d,
        '\t' => 0xff09,
        '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{ff}' => u32::from(character),
        other => 0x0100_0000 | u32::from(other),
    }
}

/// Named keys without a character, from X11/keysymdef.h.
const NAMED: [(&str, u32); 49] = [
    ("BackSpace", 0xff08),
    ("Tab", 0xff09),
    ("Return", 0xff0d),
    ("Pause", 0xff13),
    ("Scroll_Lock", 0xff14),
    ("Escape", 0xff1b),
    ("Home", 0xff50),
    ("Left", 0xff51),
    ("Up", 0xff52),
    ("Right", 0xff53),
    ("Down", 0xff54),
    ("Prior", 0xff55),
    ("Page_Up", 0xff55),
    ("Next", 0xff56),
    ("Page_Down", 0xff56),
    ("End", 0xff57),
    ("Print", 0xff61),
    ("Insert", 0xff63),
    ("Menu", 0xff67),
    ("Num_Lock", 0xff7f),
    ("KP_Enter", 0xff8d),
    ("KP_Add", 0xffab),
    ("KP_Subtract", 0xffad),
    ("F1", 0xffbe),
    ("F2", 0xffbf),
    ("F3", 0xffc0),
    ("F4", 0xffc1),
    ("F5", 0xffc2),
    ("F6", 0xffc3),
    ("F7", 0xffc4),
    ("F8", 0xffc5),
    ("F9", 0xffc6),
    ("F10", 0xffc7),
    ("F11", 0xffc8),
    ("F12", 0xffc9),
    ("Shift_L", SHIFT),
    ("Shift_R", 0xffe2),
    ("Control_L", 0xffe3),
    ("Control_R", 0xffe4),
    ("Caps_Lock", 0xffe5),
    ("Alt_L", 0xffe9),
    ("Alt_R", 0xffea),
    ("Super_L", 0xffeb),
    ("Super_R", 0xffec),
    ("Delete", 0xffff),
    ("space", 0x20),
    ("plus", 0x2b),
    ("minus", 0x2d),
    ("equal", 0x3d),
];

/// The keysym of a character or of a named key.
pub(crate) fn named_keysym(name: &str) -> Result<u32, Error> {
    let mut characters = name.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Ok(keysym_of(character));
    }
    let found = NAMED.iter().find(|(known, _)| *known == name);
    Ok(found
        .ok_or_else(|| {
            format!("no key is named `{name}`: write a character, or a name such as Return or F5")
        })?
        .1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_split_at_plus_signs_that_join() {
        assert_eq!(chord_names("a"), ["a"]);
        assert_eq!(chord_names("Control_L+Shift_L+t"), ["Control_L", "Shift_L", "t"]);
        assert_eq!(chord_names("+"), ["+"]);
        assert_eq!(chord_names("Control_L++"), ["Control_L", "+"]);
    }

    #[test]
    fn names_and_characters_become_keysyms() {
        let keysym = |name: &str| named_keysym(name).unwrap();
        assert_eq!(
            (keysym("a"), keysym("%"), keysym("é"), keysym("€")),
            (0x61, 0x25, 0xe9, 0x0100_20ac)
        );
        assert_eq!(
            (keysym("Next"), keysym("Page_Down"), keysym("F5"), keysym("\n")),
            (0xff56, 0xff56, 0xffc2, 0xff0d)
        );
        assert!(named_keysym("Enter key").is_err() && named_keysym("").is_err());
    }

    #[test]
    fn a_key_is_found_by_itself_first_and_with_shift_else() {
        let keys = Keys { first: 8, per_key: 2, keysyms: vec![0x31, 0x21, 0x61, 0x41, 0x21, 0] };
        assert_eq!(keys.find(0x61), Some(Key { code: 9, shift: false }));
        assert_eq!(keys.find(0x41), Some(Key { code: 9, shift: true }));
        assert_eq!(keys.find(0x21), Some(Key { code: 10, shift: false }));
        assert_eq!(keys.find(0x7a), None);
    }
}
