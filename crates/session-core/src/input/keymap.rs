//! Path back, beside input.rs: from session-server's keyboard.rs, to input.rs.
//! The X server's keymap as a table, and the relations between keysyms.
//! Knows keycodes, keysyms and characters; never who presses what.

use xkeysym::Keysym;

/// Levels of a spare keycode: plain, Shift, Level3, both.
pub(super) const LEVELS: usize = 4;
/// Levels of a key of the server's keymap: with Level5 as well. A level is a set of shifts.
pub const KEY_LEVELS: usize = 8;
/// X's first keycode; evdev's codes are lower by this.
pub(super) const KEYCODE_MIN: u8 = 8;

/// What a key does while it is held, whatever keysym it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers(pub(super) u8);

impl Modifiers {
    /// Shift.
    pub const SHIFT: Modifiers = Modifiers(1);
    /// ISO_Level3_Shift: AltGr.
    pub const LEVEL3: Modifiers = Modifiers(2);
    /// ISO_Level5_Shift.
    pub const LEVEL5: Modifiers = Modifiers(4);
    /// Control, Alt, Super and others: a key pressed with one of them is a command and no text.
    pub const COMMAND: Modifiers = Modifiers(8);

    /// These and those.
    pub const fn and(self, other: Modifiers) -> Modifiers {
        Modifiers(self.0 | other.0)
    }

    /// The shifts among them: a level.
    pub(super) fn level(self) -> usize {
        usize::from(self.0) % KEY_LEVELS
    }

    pub(super) fn is_command(self) -> bool {
        self.0 & Modifiers::COMMAND.0 != 0
    }
}

/// A key of the server's keymap, in the group that is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The X keysym at each level, 0 for none: bit 0 of the level is Shift, bit 1 Level3, bit 2
    /// Level5.
    pub keysyms: [u32; KEY_LEVELS],
    /// What it does while it is held.
    pub modifiers: Modifiers,
    /// It has keysyms in a group that is not active, or does something without any.
    pub taken: bool,
}

/// The server's keymap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    pub(super) keys: Vec<Key>,
    /// How many levels of a spare keycode the server can tell apart.
    spare_levels: usize,
    /// The last `Request::Bind` that was carried out before this keymap was read, 0 for none.
    pub(super) bindings: u64,
}

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap { keys: vec![Key::default(); 256], spare_levels: LEVELS, bindings: 0 }
    }
}

impl Keymap {
    /// A keymap of these keys, in the order of their keycodes; the first has `first_keycode`. A
    /// spare keycode can be bound to `spare_levels` different keysyms. `bindings` is the number of
    /// the last `Request::Bind` that was carried out before the keymap was read.
    pub fn new(
        first_keycode: u8,
        keys: impl IntoIterator<Item = Key>,
        spare_levels: usize,
        bindings: u64,
    ) -> Keymap {
        let mut keymap = Keymap { spare_levels, bindings, ..Keymap::default() };
        for (key, keycode) in keys.into_iter().zip(first_keycode..=255) {
            keymap.keys[usize::from(keycode)] = Key { keysyms: key.keysyms.map(normalize), ..key };
        }
        keymap
    }

    pub(super) fn spare_levels(&self) -> usize {
        self.spare_levels
    }

    pub(super) fn level(&self, keycode: u8, level: usize) -> u32 {
        self.keys[usize::from(keycode)].keysyms[level]
    }

    pub(super) fn modifiers(&self, keycode: u8) -> Modifiers {
        self.keys[usize::from(keycode)].modifiers
    }

    /// The keysyms of a spare keycode.
    pub(super) fn binding(&self, keycode: u8) -> [u32; LEVELS] {
        std::array::from_fn(|level| self.level(keycode, level))
    }

    pub(super) fn has_keysym(&self, keycode: u8, keysym: u32) -> bool {
        self.keys[usize::from(keycode)].keysyms.contains(&keysym)
    }

    pub(super) fn bind(&mut self, keycode: u8, keysyms: [u32; LEVELS]) {
        let keysyms = std::array::from_fn(|level| keysyms[level % LEVELS]);
        self.keys[usize::from(keycode)] = Key { keysyms, ..Key::default() };
    }

    pub(super) fn is_spare(&self, keycode: u8) -> bool {
        self.keys[usize::from(keycode)] == Key::default()
    }

    /// The first key that does this and nothing else while it is held.
    pub(super) fn modifier(&self, modifiers: Modifiers) -> Option<u8> {
        (KEYCODE_MIN..=255).find(|&keycode| self.modifiers(keycode) == modifiers)
    }
}

/// One form for each keysym: a character as Unicode, Latin-1 as itself (X11 protocol, appendix A),
/// whatever older name a keymap has for it. Keys without a character, the keypad's and dead ones
/// are unchanged.
pub(super) fn normalize(keysym: u32) -> u32 {
    match keysym {
        0x0100_0020..=0x0100_007e | 0x0100_00a0..=0x0100_00ff => keysym & 0xff,
        0..=0xff | 0xfd00..=0xffff | 0x0100_0000.. => keysym,
        _ => Keysym::new(keysym).key_char().and_then(keysym_of).unwrap_or(keysym),
    }
}

/// The keysym of a character; of control characters only those with a key. None: it cannot be
/// typed.
pub(super) fn keysym_of(character: char) -> Option<u32> {
    match character {
        '\n' | '\r' => Some(0xff0d),
        '\t' => Some(0xff09),
        '\u{8}' => Some(0xff08),
        ' '..='~' | '\u{a0}'..='\u{ff}' => Some(u32::from(character)),
        '\0'..='\u{9f}' => None,
        _ => Some(0x0100_0000 | u32::from(character)),
    }
}

fn character_of(keysym: u32) -> Option<char> {
    match keysym {
        0x20..=0x7e | 0xa0..=0xff => char::from_u32(keysym),
        0x0100_0100..=0x0110_ffff => char::from_u32(keysym - 0x0100_0000),
        _ => None,
    }
}

/// The keysym of the one character into which `change` turns this one's; itself if there is none.
fn change_case<I: Iterator<Item = char>>(keysym: u32, change: fn(char) -> I) -> u32 {
    let Some(character) = character_of(keysym) else { return keysym };
    let mut changed = change(character);
    match (changed.next(), changed.next()) {
        (Some(one), None) => keysym_of(one).unwrap_or(keysym),
        // "ß" becomes two characters, which no key has.
        _ => keysym,
    }
}

pub(super) fn upper(keysym: u32) -> u32 {
    change_case(keysym, char::to_uppercase)
}

pub(super) fn lower(keysym: u32) -> u32 {
    change_case(keysym, char::to_lowercase)
}

pub(super) const CAPS_LOCK: u32 = 0xffe5;
pub(super) const NUM_LOCK: u32 = 0xff7f;

/// Shift, Control, locks, Meta, Alt, Super, Hyper, and the ISO shifts: their place matters more
/// than their keysym.
pub(super) fn is_modifier(keysym: u32) -> bool {
    matches!(keysym, 0xffe1..=0xffee | 0xfe01..=0xfe13 | 0xff7e | 0xff7f | 0xff14)
}

/// Digits and the decimal point of the keypad, which Num Lock shifts.
pub(super) fn is_keypad_digit(keysym: u32) -> bool {
    matches!(keysym, 0xffac..=0xffae | 0xffb0..=0xffb9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_has_one_keysym_whatever_the_keymap_calls_it() {
        for (keysym, wanted) in [
            (0x61, 0x61),
            (0x0100_00e9, 0xe9),
            (0x20ac, 0x0100_20ac),
            (0x06c1, 0x0100_0430),
            (0x04b1, 0x0100_30a2),
            (0x1008_ff11, 0x1008_ff11),
            (0xfe52, 0xfe52),
            (0xffb7, 0xffb7),
            (0xff0d, 0xff0d),
        ] {
            assert_eq!(normalize(keysym), wanted, "{keysym:#x}");
            assert_eq!(normalize(wanted), wanted, "{keysym:#x} twice");
        }
        assert_eq!(
            ['€', 'é', '\n', '\u{1b}', '\u{85}'].map(keysym_of),
            [Some(0x0100_20ac), Some(0xe9), Some(0xff0d), None, None]
        );
    }

    #[test]
    fn cased_characters_have_capitals_in_every_script_and_others_have_none() {
        for (small, capital) in
            [(0x61, 0x41), (0xe9, 0xc9), (0x0100_0430, 0x0100_0410), (0xff, 0x0100_0178)]
        {
            assert_eq!((upper(small), lower(capital)), (capital, small));
        }
        for keysym in [0x31, 0xdf, 0x0100_4e00, 0xff0d, 0xfe52, 0xffb7] {
            assert_eq!((upper(keysym), lower(keysym)), (keysym, keysym), "{keysym:#x}");
        }
    }
}
