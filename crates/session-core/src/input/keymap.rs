//! Path back, beside input.rs: from session-server's keyboard.rs, to input.rs.
//! The X server's keymap as a table, and what keysyms have to do with each other.
//! Knows keycodes, keysyms and characters; never who presses what.

use xkeysym::Keysym;

/// Keysyms of a keycode that count: plain, Shift, Level3, both.
pub(super) const LEVELS: usize = 4;
/// X's first keycode; evdev's codes lie this much below.
pub(super) const KEYCODE_MIN: u8 = 8;

/// The server's keymap: which keysym a keycode gives at which level.
#[derive(Clone, Debug)]
pub struct Keymap {
    /// `LEVELS` for each keycode, 0 for none.
    keysyms: Vec<[u32; LEVELS]>,
}

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap { keysyms: vec![[0; LEVELS]; 256] }
    }
}

impl Keymap {
    /// From the core protocol's GetKeyboardMapping (X11 protocol, section 5): `per_keycode` keysyms for each keycode from
    /// `first_keycode` on, in the order group 1 (plain, Shift), group 2 (plain, Shift), Level3 (plain, Shift).
    pub fn from_core(first_keycode: u8, per_keycode: usize, keysyms: &[u32]) -> Keymap {
        let mut keymap = Keymap::default();
        if per_keycode == 0 {
            return keymap;
        }
        for (row, keycode) in keysyms.chunks_exact(per_keycode).zip(first_keycode..=255) {
            let at = |i: usize| row.get(i).copied().map_or(0, normal);
            let plain = at(0);
            // A second keysym that is missing is the first, in capitals where it has them.
            let shifted = if at(1) == 0 { upper(plain) } else { at(1) };
            let level3 = if per_keycode > 4 { 4 } else { 2 };
            let third = at(level3);
            let fourth = if at(level3 + 1) == 0 { third } else { at(level3 + 1) };
            keymap.keysyms[keycode as usize] = [plain, shifted, third, fourth];
        }
        keymap
    }

    pub(super) fn level(&self, keycode: u8, level: usize) -> u32 {
        self.keysyms[keycode as usize][level]
    }

    pub(super) fn row(&self, keycode: u8) -> [u32; LEVELS] {
        self.keysyms[keycode as usize]
    }

    pub(super) fn bind(&mut self, keycode: u8, keysyms: [u32; LEVELS]) {
        self.keysyms[keycode as usize] = keysyms;
    }

    pub(super) fn is_spare(&self, keycode: u8) -> bool {
        self.keysyms[keycode as usize] == [0; LEVELS]
    }

    /// Some key gives one of these without any other.
    pub(super) fn has(&self, keysyms: &[u32]) -> bool {
        self.keysyms.iter().any(|row| keysyms.contains(&row[0]))
    }
}

/// One way to write a keysym: a character as Unicode, Latin-1 as itself (X11 protocol, appendix A), whatever older name
/// a keymap has for it. Keys that write nothing, the keypad's and dead ones stay what they are.
pub(super) fn normal(keysym: u32) -> u32 {
    match keysym {
        0x0100_0020..=0x0100_007e | 0x0100_00a0..=0x0100_00ff => keysym & 0xff,
        0..=0xff | 0xfd00..=0xffff | 0x0100_0000.. => keysym,
        _ => Keysym::new(keysym).key_char().and_then(keysym_of).unwrap_or(keysym),
    }
}

/// The keysym that writes a character; of control characters those with a key. None: it cannot be typed.
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

/// The keysym of the one character that `change` makes of this one's; itself where there is no such.
fn changed<I: Iterator<Item = char>>(keysym: u32, change: fn(char) -> I) -> u32 {
    let Some(character) = character_of(keysym) else { return keysym };
    let mut changed = change(character);
    match (changed.next(), changed.next()) {
        (Some(one), None) => keysym_of(one).unwrap_or(keysym),
        // "ß" becomes two letters: no key does that.
        _ => keysym,
    }
}

pub(super) fn upper(keysym: u32) -> u32 {
    changed(keysym, char::to_uppercase)
}

pub(super) fn lower(keysym: u32) -> u32 {
    changed(keysym, char::to_lowercase)
}

pub(super) const SHIFT: [u32; 2] = [0xffe1, 0xffe2];
/// ISO_Level3_Shift, Mode_switch.
pub(super) const LEVEL3: [u32; 2] = [0xfe03, 0xff7e];
pub(super) const CAPS_LOCK: u32 = 0xffe5;
pub(super) const NUM_LOCK: u32 = 0xff7f;

/// Shift, Control, locks, Meta, Alt, Super, Hyper, and the ISO shifts: where they are matters more than what they give.
pub(super) fn is_modifier(keysym: u32) -> bool {
    matches!(keysym, 0xffe1..=0xffee | 0xfe01..=0xfe13 | 0xff7e | 0xff7f | 0xff14)
}

/// Control, Meta, Alt, Super, Hyper: a key pressed with one of them is a command and no text.
pub(super) fn commands(keysym: u32) -> bool {
    matches!(keysym, 0xffe3 | 0xffe4 | 0xffe7..=0xffee)
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
            assert_eq!(normal(keysym), wanted, "{keysym:#x}");
            assert_eq!(normal(wanted), wanted, "{keysym:#x} twice");
        }
        assert_eq!(
            ['€', 'é', '\n', '\u{1b}', '\u{85}'].map(keysym_of),
            [Some(0x0100_20ac), Some(0xe9), Some(0xff0d), None, None]
        );
    }

    #[test]
    fn letters_have_capitals_in_every_script_and_the_rest_has_none() {
        for (small, capital) in [(0x61, 0x41), (0xe9, 0xc9), (0x0100_0430, 0x0100_0410), (0xff, 0x0100_0178)] {
            assert_eq!((upper(small), lower(capital)), (capital, small));
        }
        for keysym in [0x31, 0xdf, 0x0100_4e00, 0xff0d, 0xfe52, 0xffb7] {
            assert_eq!((upper(keysym), lower(keysym)), (keysym, keysym), "{keysym:#x}");
        }
    }
}
