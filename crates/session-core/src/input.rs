//! Path back: from a viewer's message, through session.rs and the shell, to driver/src/input.c.
//! What a key becomes: the keycode that gives the viewer's keysym in the server's keymap, with what it takes around it.
//! Knows keycodes, keysyms and who holds what; never sockets or windows.

use crate::viewer::ViewerId;

/// Most keys that all viewers together may hold: every keycode there is.
const HELD_MAX: usize = 248;
/// Keysyms of a keycode that count: plain, Shift, Level3, both.
const LEVELS: usize = 4;
/// X's first keycode; evdev's codes lie this much below.
const KEYCODE_MIN: u8 = 8;

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

    fn level(&self, keycode: u8, level: usize) -> u32 {
        self.keysyms[keycode as usize][level]
    }

    fn bind(&mut self, keycode: u8, keysym: u32) {
        self.keysyms[keycode as usize] = [keysym; LEVELS];
    }

    fn is_spare(&self, keycode: u8) -> bool {
        self.keysyms[keycode as usize] == [0; LEVELS]
    }
}

/// One way to write a keysym: Latin-1 is written as itself, not as Unicode (X11 protocol, appendix A).
fn normal(keysym: u32) -> u32 {
    match keysym {
        0x0100_0020..=0x0100_007e | 0x0100_00a0..=0x0100_00ff => keysym & 0xff,
        _ => keysym,
    }
}

fn upper(keysym: u32) -> u32 {
    match keysym {
        0x61..=0x7a | 0xe0..=0xf6 | 0xf8..=0xfe => keysym - 0x20,
        _ => keysym,
    }
}

const SHIFT: [u32; 2] = [0xffe1, 0xffe2];
/// ISO_Level3_Shift, Mode_switch.
const LEVEL3: [u32; 2] = [0xfe03, 0xff7e];

/// Shift, Control, locks, Meta, Alt, Super, Hyper, and the ISO shifts: where they are matters more than what they give.
fn is_modifier(keysym: u32) -> bool {
    matches!(keysym, 0xffe1..=0xffee | 0xfe01..=0xfe13 | 0xff7e | 0xff7f | 0xff14)
}

/// Digits and the decimal point of the keypad, which Num Lock shifts.
fn is_keypad_digit(keysym: u32) -> bool {
    matches!(keysym, 0xffac..=0xffae | 0xffb0..=0xffb9)
}

/// What to do with the X keyboard, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// Make a spare keycode give this keysym at every level, before it is pressed.
    Bind {
        /// X keycode.
        keycode: u8,
        /// X keysym.
        keysym: u32,
    },
    /// Press or release.
    Key {
        /// X keycode.
        keycode: u8,
        /// Pressed.
        down: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Held {
    viewer: ViewerId,
    code: u16,
    keysym: u32,
    keycode: u8,
}

/// A spare keycode in use.
#[derive(Clone, Copy, Debug)]
struct Bound {
    keycode: u8,
    keysym: u32,
    /// The server's keymap has had it.
    seen: bool,
}

/// Which levels a keymap is read at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shifts {
    shift: bool,
    level3: bool,
}

/// The session's one X keyboard, as all viewers use it together.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    keymap: Keymap,
    /// `keymap` is the server's: it comes a moment after the session has begun, and later where a client holds X grabbed.
    keymap_known: bool,
    held: Vec<Held>,
    /// Spare keycodes in use, the longest unused first.
    bound: Vec<Bound>,
    caps_lock: bool,
    num_lock: bool,
}

impl Keyboard {
    /// The server's keymap, as it is now. A binding that was in it and is no more has been undone (`setxkbmap`); one that
    /// never was is on its way and counts.
    pub(crate) fn set_keymap(&mut self, keymap: Keymap) {
        self.keymap_known = true;
        self.keymap = keymap;
        let keymap = &mut self.keymap;
        self.bound.retain_mut(|bound| {
            let there = keymap.level(bound.keycode, 0) == bound.keysym;
            if !there && !bound.seen {
                keymap.bind(bound.keycode, bound.keysym);
            }
            let undone = bound.seen && !there;
            bound.seen |= there;
            !undone
        });
    }

    /// Lock keys as X's keyboard shows them: bit 0 caps, bit 1 num.
    pub(crate) fn set_leds(&mut self, leds: u32) {
        self.caps_lock = leds & 1 != 0;
        self.num_lock = leds & 2 != 0;
    }

    /// A viewer's key, with the physical code and the keysym of its layout, each 0 when unknown.
    pub(crate) fn key(&mut self, viewer: ViewerId, code: u16, keysym: u32, down: bool, out: &mut Vec<KeyAction>) {
        let keysym = normal(keysym);
        // The keysym of a release depends on what was let go before; the place does not.
        let same =
            |held: &Held| held.viewer == viewer && if code != 0 { held.code == code } else { held.keysym == keysym };
        if !down {
            if let Some(at) = self.held.iter().position(same) {
                let held = self.held.remove(at);
                self.release(held.keycode, out);
            }
            return;
        }
        if self.held.iter().any(same) || self.held.len() >= HELD_MAX {
            return;
        }
        let Some((keycode, around)) = self.choose(code, keysym, out) else { return };
        self.held.push(Held { viewer, code, keysym, keycode });
        for &(keycode, down) in &around {
            out.push(KeyAction::Key { keycode, down });
        }
        out.push(KeyAction::Key { keycode, down: true });
        for &(keycode, down) in around.iter().rev() {
            out.push(KeyAction::Key { keycode, down: !down });
        }
    }

    /// Lets go of everything this viewer holds.
    pub(crate) fn release_all(&mut self, viewer: ViewerId, out: &mut Vec<KeyAction>) {
        while let Some(at) = self.held.iter().position(|held| held.viewer == viewer) {
            let held = self.held.remove(at);
            self.release(held.keycode, out);
        }
    }

    fn release(&self, keycode: u8, out: &mut Vec<KeyAction>) {
        // Another viewer, or another place of this one, may hold the same key.
        if !self.is_held(keycode) {
            out.push(KeyAction::Key { keycode, down: false });
        }
    }

    fn is_held(&self, keycode: u8) -> bool {
        self.held.iter().any(|held| held.keycode == keycode)
    }

    fn shifts(&self) -> Shifts {
        let any = |of: &[u32]| self.held.iter().any(|held| of.contains(&self.keymap.level(held.keycode, 0)));
        Shifts { shift: any(&SHIFT), level3: any(&LEVEL3) }
    }

    /// The keysym that a keycode gives under these shifts and the locks.
    fn gives(&self, keycode: u8, shifts: Shifts) -> u32 {
        let base = if shifts.level3 && self.keymap.level(keycode, 2) != 0 { 2 } else { 0 };
        let (plain, shifted) = (self.keymap.level(keycode, base), self.keymap.level(keycode, base + 1));
        let turned = if is_keypad_digit(shifted) {
            self.num_lock
        } else {
            self.caps_lock && plain != shifted && upper(plain) == shifted
        };
        if shifts.shift != turned { shifted } else { plain }
    }

    /// The keycode for a key, and what to press (true) or release (false) around it.
    fn choose(&mut self, code: u16, keysym: u32, out: &mut Vec<KeyAction>) -> Option<(u8, Vec<(u8, bool)>)> {
        let physical = u8::try_from(code).ok().filter(|&c| c != 0).and_then(|c| c.checked_add(KEYCODE_MIN));
        if !self.keymap_known {
            // Every keycode looks spare: to bind one would take a key away.
            return physical.map(|keycode| (keycode, Vec::new()));
        }
        let now = self.shifts();
        if let Some(keycode) = physical {
            let known = (0..LEVELS).any(|level| self.keymap.level(keycode, level) != 0);
            if keysym == 0 || known && self.gives(keycode, now) == keysym {
                return Some((keycode, Vec::new()));
            }
        }
        if keysym == 0 {
            return None;
        }
        if is_modifier(keysym)
            && let Some(keycode) = self.modifier(physical, keysym)
        {
            return Some((keycode, Vec::new()));
        }
        // As the shifts are, then with as little change as possible.
        let mut ways = [
            now,
            Shifts { shift: !now.shift, ..now },
            Shifts { level3: !now.level3, ..now },
            Shifts { shift: !now.shift, level3: !now.level3 },
        ];
        if is_modifier(keysym) {
            ways = [now; 4];
        }
        for way in ways {
            let found = (KEYCODE_MIN..=255).find(|&keycode| self.gives(keycode, way) == keysym);
            if let Some(keycode) = found
                && let Some(around) = self.around(now, way)
            {
                return Some((keycode, around));
            }
        }
        let keycode = self.bind(keysym, out)?;
        Some((keycode, Vec::new()))
    }

    /// The keycode for a modifier. Its place where that is the same modifier at any level (Shift makes Meta of Alt), else
    /// whichever key is: to hold Alt where the viewer holds AltGr would make a shortcut of every letter typed with it.
    fn modifier(&self, place: Option<u8>, keysym: u32) -> Option<u8> {
        let place = place.filter(|&keycode| is_modifier(self.keymap.level(keycode, 0)));
        let gives = |keycode: u8| (0..LEVELS).any(|level| self.keymap.level(keycode, level) == keysym);
        let elsewhere = || (KEYCODE_MIN..=255).find(|&keycode| self.keymap.level(keycode, 0) == keysym);
        // A modifier that this keymap has not at all is still one, and its place the best guess.
        place.filter(|&keycode| gives(keycode)).or_else(elsewhere).or(place)
    }

    /// What turns the shifts from one state to another. None: the keymap has no key for it.
    fn around(&self, now: Shifts, wanted: Shifts) -> Option<Vec<(u8, bool)>> {
        let mut around = Vec::new();
        let pairs = [(now.shift, wanted.shift, &SHIFT), (now.level3, wanted.level3, &LEVEL3)];
        for (now, wanted, of) in pairs {
            let is = |keycode: u8| of.contains(&self.keymap.level(keycode, 0));
            match (now, wanted) {
                (true, false) => {
                    let held = (KEYCODE_MIN..=255).filter(|&keycode| is(keycode) && self.is_held(keycode));
                    around.extend(held.map(|keycode| (keycode, false)));
                }
                (false, true) => around.push(((KEYCODE_MIN..=255).find(|&keycode| is(keycode))?, true)),
                _ => {}
            }
        }
        Some(around)
    }

    /// A spare keycode that gives this keysym. None: there is none, or all are held.
    fn bind(&mut self, keysym: u32, out: &mut Vec<KeyAction>) -> Option<u8> {
        // From the top: evdev's keys lie at the bottom.
        let unused = (KEYCODE_MIN..=255).rev().find(|&keycode| self.keymap.is_spare(keycode) && !self.is_held(keycode));
        let keycode = match unused {
            Some(keycode) => keycode,
            None => {
                let at = self.bound.iter().position(|bound| !self.is_held(bound.keycode))?;
                self.bound.remove(at).keycode
            }
        };
        self.bound.push(Bound { keycode, keysym, seen: false });
        self.keymap.bind(keycode, keysym);
        out.push(KeyAction::Bind { keycode, keysym });
        Some(keycode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ViewerId = ViewerId(1);
    const YOU: ViewerId = ViewerId(2);
    const KEY_A: u16 = 30;
    const KEY_2: u16 = 3;
    const KEY_LEFTSHIFT: u16 = 42;
    const SHIFT_L: u32 = 0xffe1;

    /// A little German keymap: a A, 2 ", q Q @ (Level3), keypad 7, Shift, AltGr; keycode 200 is spare.
    fn keyboard() -> Keyboard {
        let mut rows = vec![[0u32; 7]; 248];
        let mut set = |keycode: usize, row: [u32; 6]| rows[keycode - 8][..6].copy_from_slice(&row);
        set(38, [0x61, 0x41, 0, 0, 0, 0]);
        set(11, [0x32, 0x22, 0, 0, 0xb2, 0]);
        set(24, [0x71, 0x51, 0, 0, 0x40, 0]);
        set(79, [0xff95, 0xffb7, 0, 0, 0, 0]);
        set(50, [SHIFT_L, 0, 0, 0, 0, 0]);
        set(108, [0xfe03, 0, 0, 0, 0, 0]);
        for (keycode, row) in rows.iter_mut().enumerate() {
            if *row == [0; 7] && keycode + 8 != 200 {
                *row = [0xfeed; 7];
            }
        }
        let mut keyboard = Keyboard::default();
        keyboard.set_keymap(Keymap::from_core(8, 7, rows.as_flattened()));
        keyboard
    }

    fn press(keyboard: &mut Keyboard, code: u16, keysym: u32) -> Vec<KeyAction> {
        let mut out = Vec::new();
        keyboard.key(ME, code, keysym, true, &mut out);
        out
    }

    fn release(keyboard: &mut Keyboard, code: u16, keysym: u32) -> Vec<KeyAction> {
        let mut out = Vec::new();
        keyboard.key(ME, code, keysym, false, &mut out);
        out
    }

    const fn down(keycode: u8) -> KeyAction {
        KeyAction::Key { keycode, down: true }
    }

    const fn up(keycode: u8) -> KeyAction {
        KeyAction::Key { keycode, down: false }
    }

    #[test]
    fn the_place_is_used_where_it_gives_the_keysym_or_none_is_known() {
        let mut keyboard = keyboard();
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(38)]);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(press(&mut keyboard, KEY_2, 0), [down(11)]);
    }

    #[test]
    fn before_the_keymap_is_known_the_place_counts_and_nothing_is_bound() {
        let mut keyboard = Keyboard::default();
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(38)]);
        assert_eq!(press(&mut keyboard, 0, 0x20ac), [], "no place, and no key is known to give it");
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(release(&mut keyboard, 0, 0x20ac), []);
    }

    #[test]
    fn another_layout_finds_its_keysym_elsewhere() {
        // AZERTY: the key at the place of q gives a.
        assert_eq!(press(&mut keyboard(), 16, 0x61), [down(38)]);
    }

    #[test]
    fn shift_is_pressed_or_released_around_a_key_that_needs_it() {
        let mut keyboard = keyboard();
        assert_eq!(press(&mut keyboard, KEY_A, 0x41), [down(50), down(38), up(50)]);
        release(&mut keyboard, KEY_A, 0x41);
        assert_eq!(press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L), [down(50)]);
        // A layout where Shift gives the digit.
        assert_eq!(press(&mut keyboard, KEY_2, 0x32), [up(50), down(11), down(50)]);
        // On US, Shift-2 gives @, which is AltGr-q here.
        release(&mut keyboard, KEY_2, 0x32);
        assert_eq!(press(&mut keyboard, KEY_2, 0x40), [down(108), down(24), up(108)]);
    }

    #[test]
    fn altgr_is_level3_also_where_the_session_has_alt_in_its_place() {
        // A US keymap: Right Alt is Alt_R, and ISO_Level3_Shift lies on a key of its own.
        const ALTGR: u32 = 0xfe03;
        let mut rows = vec![[0u32; 7]; 248];
        rows[11 - 8][..2].copy_from_slice(&[0x32, 0x40]);
        rows[50 - 8][0] = SHIFT_L;
        rows[64 - 8][..2].copy_from_slice(&[0xffe9, 0xffe7]);
        rows[66 - 8][0] = 0xffe5;
        rows[37 - 8][0] = 0xffe3;
        rows[92 - 8][0] = ALTGR;
        rows[108 - 8][0] = 0xffea;
        let mut keyboard = Keyboard::default();
        keyboard.set_keymap(Keymap::from_core(8, 7, rows.as_flattened()));
        // The viewer's keyboard is German: AltGr-q is @.
        assert_eq!(press(&mut keyboard, 100, ALTGR), [down(92)]);
        assert_eq!(press(&mut keyboard, 16, 0x40), [down(50), down(11), up(50)], "no Alt is held");
        release(&mut keyboard, 16, 0x40);
        assert_eq!(release(&mut keyboard, 100, ALTGR), [up(92)]);
        // Shift makes Meta of Alt, and the key stays.
        assert_eq!(press(&mut keyboard, 56, 0xffe7), [down(64)]);
        // Control where Caps Lock was.
        assert_eq!(press(&mut keyboard, 58, 0xffe3), [down(37)]);
        // A group switch, which this keymap has not: the place.
        assert_eq!(press(&mut keyboard, 42, 0xfe08), [down(50)]);
    }

    #[test]
    fn locks_count() {
        let mut keyboard = keyboard();
        keyboard.set_leds(1);
        assert_eq!(press(&mut keyboard, KEY_A, 0x41), [down(38)]);
        release(&mut keyboard, KEY_A, 0x41);
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(50), down(38), up(50)]);
        keyboard.set_leds(2);
        assert_eq!(press(&mut keyboard, 71, 0xffb7), [down(79)]);
    }

    #[test]
    fn a_keysym_no_key_gives_takes_a_spare_keycode_once() {
        let mut keyboard = keyboard();
        let euro = 0x20ac;
        assert_eq!(press(&mut keyboard, 0, euro), [KeyAction::Bind { keycode: 200, keysym: euro }, down(200)]);
        assert_eq!(press(&mut keyboard, 0, 0x0100_2603), [], "the only spare keycode is held");
        assert_eq!(release(&mut keyboard, 0, euro), [up(200)]);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "it is bound already");
        release(&mut keyboard, 0, euro);
        let snowman = 0x0100_2603;
        assert_eq!(press(&mut keyboard, 0, snowman), [KeyAction::Bind { keycode: 200, keysym: snowman }, down(200)]);
    }

    #[test]
    fn a_binding_that_another_layout_undid_is_made_again() {
        let mut keyboard = keyboard();
        let (euro, bind) = (0x20ac, |keysym| KeyAction::Bind { keycode: 200, keysym });
        press(&mut keyboard, 0, euro);
        let keymap = self::keyboard().keymap;
        keyboard.set_keymap(keymap.clone());
        release(&mut keyboard, 0, euro);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "read before the binding was made");
        release(&mut keyboard, 0, euro);
        let mut bound = keymap.clone();
        bound.bind(200, euro);
        keyboard.set_keymap(bound);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "the server says that it is there");
        keyboard.set_keymap(keymap);
        assert_eq!(press(&mut keyboard, 0, 0x0100_2603), [], "the spare keycode is held, whatever it gives");
        release(&mut keyboard, 0, euro);
        assert_eq!(press(&mut keyboard, 0, euro), [bind(euro), down(200)], "it was undone");
    }

    #[test]
    fn a_release_finds_its_key_whatever_it_means_by_then() {
        let mut keyboard = keyboard();
        press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        press(&mut keyboard, KEY_A, 0x41);
        release(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [], "nothing is released twice");
    }

    #[test]
    fn what_a_viewer_holds_is_released_with_it_and_not_what_another_holds() {
        let mut keyboard = keyboard();
        let mut out = Vec::new();
        keyboard.key(ME, KEY_A, 0x61, true, &mut out);
        keyboard.key(ME, KEY_LEFTSHIFT, SHIFT_L, true, &mut out);
        keyboard.key(YOU, KEY_A, 0x61, true, &mut out);
        out.clear();
        keyboard.release_all(ME, &mut out);
        assert_eq!(out, [up(50)]);
        out.clear();
        keyboard.release_all(YOU, &mut out);
        assert_eq!(out, [up(38)]);
    }
}
