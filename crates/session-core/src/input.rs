//! Path back: from a viewer's message, through session/input.rs and the shell, to driver/src/input.c.
//! What a key or a character becomes: the keycode that gives it in the server's keymap, with what it takes around it.
//! Knows keycodes, keysyms and who holds what; never sockets or windows.

mod keymap;

use thinc_protocol::Micros;
use thinc_protocol::viewer::Layout;

use crate::viewer::ViewerId;

pub use keymap::Keymap;
use keymap::{
    CAPS_LOCK, KEYCODE_MIN, LEVEL3, LEVELS, NUM_LOCK, SHIFT, commands, is_keypad_digit, is_modifier, keysym_of, lower,
    normal, upper,
};

/// Most keys that all viewers together may hold: every keycode there is.
const HELD_MAX: usize = 248;
/// 400 ms: a keycode means something else this long after it was pressed, at the soonest. Applications ask for the
/// new keymap when they look up what a key means, not when it was pressed, and a busy one does so late; there is no
/// event to wait for. With 18 spare keycodes of four levels 180 different characters a second can be typed.
const REST: Micros = 400_000;
/// Most characters that are looked at together.
pub(crate) const BATCH_MAX: usize = 128;

/// What a spare keycode is to give from now on: plain, with Shift, with Level3, with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// X keycode.
    pub keycode: u8,
    /// X keysyms.
    pub keysyms: [u32; LEVELS],
}

/// What to do with the X keyboard, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    /// Make spare keycodes give these keysyms, before anything is pressed.
    Bind(Vec<Binding>),
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
    /// The server's keymap has had it.
    seen: bool,
    /// When it was last pressed; until it is, it has never been.
    pressed: Option<Micros>,
}

/// Which levels a keymap is read at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shifts {
    shift: bool,
    level3: bool,
}

/// What is pressed (true) or released (false) around a key.
type Around = Vec<(u8, bool)>;

/// The session's one X keyboard, as all viewers use it together.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    keymap: Keymap,
    /// `keymap` is the server's: it comes a moment after the session has begun, and later where a client holds X grabbed.
    keymap_known: bool,
    held: Vec<Held>,
    /// Spare keycodes in use, the longest unused first.
    bound: Vec<Bound>,
    /// When a key was last pressed.
    pressed: Option<Micros>,
    caps_lock: bool,
    num_lock: bool,
    /// Lock keys that were pressed while they were on: they go off when they are let go (XKB protocol, section 6.3).
    unlocking: Vec<u8>,
    /// The layouts that viewers said they have.
    layouts: Vec<(ViewerId, Layout)>,
    /// The one that was asked for last.
    layout: Option<Layout>,
    typed_last: Option<ViewerId>,
}

impl Keyboard {
    /// The server's keymap, as it is now. A binding that was in it and is no more has been undone (`setxkbmap`); one that
    /// never was is on its way and counts.
    pub(crate) fn set_keymap(&mut self, keymap: Keymap) {
        self.keymap_known = true;
        let before = std::mem::replace(&mut self.keymap, keymap);
        let keymap = &mut self.keymap;
        self.bound.retain_mut(|bound| {
            let row = before.row(bound.keycode);
            let there = keymap.level(bound.keycode, 0) == row[0];
            if !there && !bound.seen {
                keymap.bind(bound.keycode, row);
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

    /// The locks become these; false when they are already.
    pub(crate) fn lock(&mut self, caps: bool, num: bool) -> bool {
        let changes = (self.caps_lock, self.num_lock) != (caps, num);
        (self.caps_lock, self.num_lock) = (caps, num);
        changes
    }

    // ---- layouts -------------------------------------------------------------------------------------------------

    /// A viewer's keyboard is laid out like this. True when the session's follows at once and not with its next key.
    pub(crate) fn set_layout(&mut self, viewer: ViewerId, layout: Layout) -> bool {
        self.layouts.retain(|(of, _)| *of != viewer);
        if layout.layout.is_empty() {
            return false;
        }
        self.layouts.push((viewer, layout));
        self.typed_last.is_none_or(|last| last == viewer)
    }

    /// The layout to ask for before this viewer types: its own, where another is in use. It is asked for once, whether or
    /// not the X server knows it.
    pub(crate) fn take_layout(&mut self, viewer: ViewerId) -> Option<Layout> {
        self.typed_last = Some(viewer);
        let (_, layout) = self.layouts.iter().find(|(of, _)| *of == viewer)?;
        if self.layout.as_ref() == Some(layout) {
            return None;
        }
        // All that was bound has been by now, and is gone where the next keymap has it not.
        self.bound.iter_mut().for_each(|bound| bound.seen = true);
        Some(self.layout.insert(layout.clone()).clone())
    }

    /// A viewer has gone, and with it what it said; the layout stays until another types.
    pub(crate) fn remove_viewer(&mut self, viewer: ViewerId) {
        self.layouts.retain(|(of, _)| *of != viewer);
        if self.typed_last == Some(viewer) {
            self.typed_last = None;
        }
    }

    // ---- keys ----------------------------------------------------------------------------------------------------

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
        self.press_lock(keycode);
        self.held.push(Held { viewer, code, keysym, keycode });
        Keyboard::put(out, &around, [KeyAction::Key { keycode, down: true }]);
    }

    /// What stands around, then what is in the middle, then what stood around undone.
    fn put(out: &mut Vec<KeyAction>, around: &Around, middle: impl IntoIterator<Item = KeyAction>) {
        out.extend(around.iter().map(|&(keycode, down)| KeyAction::Key { keycode, down }));
        out.extend(middle);
        out.extend(around.iter().rev().map(|&(keycode, down)| KeyAction::Key { keycode, down: !down }));
    }

    /// A lock key goes down: what it does to the locks is known before X's lights say so.
    fn press_lock(&mut self, keycode: u8) {
        if self.is_held(keycode) {
            return;
        }
        let lock = match self.keymap.level(keycode, 0) {
            CAPS_LOCK => &mut self.caps_lock,
            NUM_LOCK => &mut self.num_lock,
            _ => return,
        };
        if std::mem::replace(lock, true) {
            self.unlocking.push(keycode);
        }
    }

    /// Lets go of everything this viewer holds.
    pub(crate) fn release_all(&mut self, viewer: ViewerId, out: &mut Vec<KeyAction>) {
        self.release_where(out, |_, held| held.viewer == viewer);
    }

    /// Lets go of the keys this viewer holds that X repeats.
    pub(crate) fn release_repeating(&mut self, viewer: ViewerId, out: &mut Vec<KeyAction>) {
        self.release_where(out, |keyboard, held| held.viewer == viewer && keyboard.repeats(held));
    }

    fn release_where(&mut self, out: &mut Vec<KeyAction>, which: impl Fn(&Keyboard, &Held) -> bool) {
        while let Some(at) = self.held.iter().position(|held| which(self, held)) {
            let held = self.held.remove(at);
            self.release(held.keycode, out);
        }
    }

    /// This viewer holds keys, and one of them that X repeats.
    pub(crate) fn holds(&self, viewer: ViewerId) -> (bool, bool) {
        let mut held = self.held.iter().filter(|held| held.viewer == viewer).peekable();
        (held.peek().is_some(), held.any(|held| self.repeats(held)))
    }

    fn repeats(&self, held: &Held) -> bool {
        !is_modifier(self.keymap.level(held.keycode, 0)) && !is_modifier(held.keysym)
    }

    fn release(&mut self, keycode: u8, out: &mut Vec<KeyAction>) {
        // Another viewer, or another place of this one, may hold the same key.
        if self.is_held(keycode) {
            return;
        }
        if let Some(at) = self.unlocking.iter().position(|&of| of == keycode) {
            self.unlocking.remove(at);
            match self.keymap.level(keycode, 0) {
                CAPS_LOCK => self.caps_lock = false,
                NUM_LOCK => self.num_lock = false,
                _ => {}
            }
        }
        out.push(KeyAction::Key { keycode, down: false });
    }

    fn is_held(&self, keycode: u8) -> bool {
        self.held.iter().any(|held| held.keycode == keycode)
    }

    fn shifts(&self) -> Shifts {
        let any = |of: &[u32]| self.held.iter().any(|held| of.contains(&self.keymap.level(held.keycode, 0)));
        Shifts { shift: any(&SHIFT), level3: any(&LEVEL3) }
    }

    /// The keysym that stands in the keymap for a keycode under these shifts and the locks.
    fn stands(&self, keycode: u8, shifts: Shifts) -> u32 {
        let base = if shifts.level3 && self.keymap.level(keycode, 2) != 0 { 2 } else { 0 };
        let (plain, shifted) = (self.keymap.level(keycode, base), self.keymap.level(keycode, base + 1));
        let turned = if is_keypad_digit(shifted) {
            self.num_lock
        } else {
            self.caps_lock && plain != shifted && upper(plain) == shifted
        };
        if shifts.shift != turned { shifted } else { plain }
    }

    /// What applications make of it: where the key itself knows nothing of Caps Lock, they write capitals all the same
    /// (X11 protocol, section 5; libxkbcommon does so too).
    fn gives(&self, keycode: u8, shifts: Shifts) -> u32 {
        let keysym = self.stands(keycode, shifts);
        let base = if shifts.level3 && self.keymap.level(keycode, 2) != 0 { 2 } else { 0 };
        let (plain, shifted) = (self.keymap.level(keycode, base), self.keymap.level(keycode, base + 1));
        if self.caps_lock && !(plain != shifted && upper(plain) == shifted) { upper(keysym) } else { keysym }
    }

    /// The keycode for a key, and what to press (true) or release (false) around it.
    fn choose(&mut self, code: u16, keysym: u32, out: &mut Vec<KeyAction>) -> Option<(u8, Around)> {
        let physical = u8::try_from(code).ok().filter(|&c| c != 0).and_then(|c| c.checked_add(KEYCODE_MIN));
        if !self.keymap_known {
            // Every keycode looks spare: to bind one would take a key away.
            return physical.map(|keycode| (keycode, Vec::new()));
        }
        let now = self.shifts();
        if let Some(keycode) = physical {
            let known = !self.keymap.is_spare(keycode);
            // A viewer says what stands on its key, or what became of it under Caps Lock.
            if keysym == 0 || known && (self.stands(keycode, now) == keysym || self.gives(keycode, now) == keysym) {
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
        let ways = if is_modifier(keysym) { [now; 4] } else { Keyboard::ways(now) };
        for way in ways {
            let found = (KEYCODE_MIN..=255).find(|&keycode| self.gives(keycode, way) == keysym);
            if let Some(keycode) = found
                && let Some(around) = self.around(now, way)
            {
                return Some((keycode, around));
            }
        }
        let keycode = self.spares().next()?;
        let binding = self.bind(keycode, Keyboard::row_for(keysym));
        out.push(KeyAction::Bind(vec![binding]));
        let way = ways.into_iter().find(|&way| self.gives(keycode, way) == keysym)?;
        Some((keycode, self.around(now, way)?))
    }

    /// Shifts in the order in which they are tried: as they are, then with as little change as possible.
    fn ways(now: Shifts) -> [Shifts; 4] {
        [
            now,
            Shifts { shift: !now.shift, ..now },
            Shifts { level3: !now.level3, ..now },
            Shifts { shift: !now.shift, level3: !now.level3 },
        ]
    }

    /// The keycode for a modifier. Its place where that is the same modifier at any level (Shift makes Meta of Alt), else
    /// whichever key is: to hold Alt where the viewer holds AltGr would make a shortcut of every letter typed with it.
    fn modifier(&self, place: Option<u8>, keysym: u32) -> Option<u8> {
        let place = place.filter(|&keycode| is_modifier(self.keymap.level(keycode, 0)));
        let gives = |keycode: u8| self.keymap.row(keycode).contains(&keysym);
        let elsewhere = || (KEYCODE_MIN..=255).find(|&keycode| self.keymap.level(keycode, 0) == keysym);
        // A modifier that this keymap has not at all is still one, and its place the best guess.
        place.filter(|&keycode| gives(keycode)).or_else(elsewhere).or(place)
    }

    /// What turns the shifts from one state to another. None: the keymap has no key for it.
    fn around(&self, now: Shifts, wanted: Shifts) -> Option<Around> {
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

    // ---- characters ----------------------------------------------------------------------------------------------

    /// Types characters, each as it is whatever is held: how many of them, at least one where there are any; the rest
    /// needs keycodes that these take. `out` begins with what has to be bound for all of them, if anything; each character's
    /// keys carry its place in `characters`, which are [`BATCH_MAX`] at most.
    pub(crate) fn characters(&mut self, characters: &[char], now: Micros, out: &mut Vec<(usize, KeyAction)>) -> usize {
        debug_assert!(characters.len() <= BATCH_MAX, "{} characters are too many at once", characters.len());
        if !self.keymap_known {
            return characters.len();
        }
        let (bindings, count) = self.bind_for(characters, now);
        if !bindings.is_empty() {
            out.push((0, KeyAction::Bind(bindings)));
        }
        let mut keys = Vec::new();
        for (place, &character) in characters[..count].iter().enumerate() {
            let Some((keycode, around)) = keysym_of(character).and_then(|keysym| self.find(keysym)) else { continue };
            let press = [true, false].map(|down| KeyAction::Key { keycode, down });
            Keyboard::put(&mut keys, &around, press);
            out.extend(keys.drain(..).map(|action| (place, action)));
        }
        count
    }

    /// The key that gives a character, and what it takes around it: nothing that is held may change it, or make a command
    /// of it.
    fn find(&self, keysym: u32) -> Option<(u8, Around)> {
        let now = self.shifts();
        let commanding = |keycode: u8| commands(self.keymap.level(keycode, 0)) && self.is_held(keycode);
        let released: Around = (KEYCODE_MIN..=255).filter(|&keycode| commanding(keycode)).map(|k| (k, false)).collect();
        for way in Keyboard::ways(now) {
            // A key that is held cannot be pressed.
            let fits = |keycode: u8| self.gives(keycode, way) == keysym && !self.is_held(keycode);
            if let Some(keycode) = (KEYCODE_MIN..=255).find(|&keycode| fits(keycode))
                && let Some(around) = self.around(now, way)
            {
                return Some((keycode, [released, around].concat()));
            }
        }
        None
    }

    /// Binds spare keycodes for those characters that no key gives: as many of the first ones as there is room for.
    fn bind_for(&mut self, characters: &[char], now: Micros) -> (Vec<Binding>, usize) {
        let keysyms: Vec<u32> = characters.iter().map(|&character| keysym_of(character).unwrap_or(0)).collect();
        let mut wanted: Vec<u32> = Vec::new();
        let mut used = Vec::new();
        for &keysym in keysyms.iter().filter(|&&keysym| keysym != 0) {
            match self.find(keysym) {
                Some((keycode, _)) => used.push(keycode),
                None if !wanted.contains(&keysym) => wanted.push(keysym),
                None => {}
            }
        }
        let spares: Vec<u8> = self.spares().filter(|keycode| !used.contains(keycode)).collect();
        let rested = spares.iter().take_while(|&&keycode| self.rests_until(keycode) <= now).count();
        // Those that rest would hold up what need not wait for them.
        let spares = &spares[..if rested == 0 { spares.len() } else { rested }];
        let share = if wanted.len() <= spares.len() { 1 } else { self.levels() };
        let mut bindings: Vec<Binding> = Vec::new();
        let mut room = spares.iter();
        let mut bound = 0;
        while bound < wanted.len() {
            let Some(&keycode) = room.next() else { break };
            // A letter takes a key with its capital, as letters have: what Caps Lock makes of it is then known.
            let alone = |keysym: u32| upper(keysym) != keysym || lower(keysym) != keysym;
            let together = wanted[bound..].iter().take(share).take_while(|&&keysym| !alone(keysym)).count().max(1);
            let mut row = Keyboard::row_for(wanted[bound]);
            if together > 1 {
                (0..LEVELS).for_each(|level| row[level] = wanted[bound + level.min(together - 1)]);
            }
            bindings.push(self.bind(keycode, row));
            bound += together;
        }
        let missing = &wanted[bound..];
        let count = keysyms.iter().position(|keysym| missing.contains(keysym)).unwrap_or(keysyms.len());
        match count {
            // What follows the first one uses all there is.
            0 if characters.len() > 1 => self.bind_for(&characters[..1], now),
            // With no room at all it is given up, or nothing after it would ever be typed.
            0 => (bindings, characters.len()),
            count => (bindings, count),
        }
    }

    /// How many levels of a key can be reached in this keymap.
    fn levels(&self) -> usize {
        match (self.keymap.has(&SHIFT), self.keymap.has(&LEVEL3)) {
            (true, true) => 4,
            (true, false) => 2,
            _ => 1,
        }
    }

    fn row_for(keysym: u32) -> [u32; LEVELS] {
        let (small, capital) = (lower(keysym), upper(keysym));
        if small != capital { [small, capital, small, capital] } else { [keysym; LEVELS] }
    }

    /// Spare keycodes that nobody holds: those never used, then those whose use is longest ago.
    fn spares(&self) -> impl Iterator<Item = u8> + '_ {
        // From the top: evdev's keys lie at the bottom.
        let unused = (KEYCODE_MIN..=255).rev().filter(|&keycode| self.keymap.is_spare(keycode));
        unused.chain(self.bound.iter().map(|bound| bound.keycode)).filter(|&keycode| !self.is_held(keycode))
    }

    fn bind(&mut self, keycode: u8, keysyms: [u32; LEVELS]) -> Binding {
        let at = self.bound.iter().position(|bound| bound.keycode == keycode);
        let pressed = at.and_then(|at| self.bound.remove(at).pressed);
        self.bound.push(Bound { keycode, seen: false, pressed });
        self.keymap.bind(keycode, keysyms);
        Binding { keycode, keysyms }
    }

    fn rests_until(&self, keycode: u8) -> Micros {
        let bound = self.bound.iter().find(|bound| bound.keycode == keycode);
        bound.and_then(|bound| bound.pressed).map_or(0, |pressed| pressed + REST)
    }

    /// From when on these keycodes may mean something else.
    pub(crate) fn may_bind_from(&self, bindings: &[Binding]) -> Micros {
        bindings.iter().map(|binding| self.rests_until(binding.keycode)).max().unwrap_or(0)
    }

    /// From when on all keycodes may.
    pub(crate) fn may_lay_out_from(&self) -> Micros {
        self.pressed.map_or(0, |pressed| pressed + REST)
    }

    /// A keycode is being pressed.
    pub(crate) fn pressed(&mut self, keycode: u8, now: Micros) {
        self.pressed = Some(now);
        if let Some(at) = self.bound.iter().position(|bound| bound.keycode == keycode) {
            let bound = self.bound.remove(at);
            self.bound.push(Bound { pressed: Some(now), ..bound });
        }
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

    fn bind(keysym: u32) -> KeyAction {
        KeyAction::Bind(vec![Binding { keycode: 200, keysyms: [keysym; LEVELS] }])
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
        let euro = 0x0100_20ac;
        assert_eq!(press(&mut keyboard, 0, euro), [bind(euro), down(200)]);
        assert_eq!(press(&mut keyboard, 0, 0x0100_2603), [], "the only spare keycode is held");
        assert_eq!(release(&mut keyboard, 0, euro), [up(200)]);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "it is bound already");
        release(&mut keyboard, 0, euro);
        let snowman = 0x0100_2603;
        assert_eq!(press(&mut keyboard, 0, snowman), [bind(snowman), down(200)]);
    }

    #[test]
    fn a_binding_that_another_layout_undid_is_made_again() {
        let mut keyboard = keyboard();
        let euro = 0x0100_20ac;
        press(&mut keyboard, 0, euro);
        let keymap = self::keyboard().keymap;
        keyboard.set_keymap(keymap.clone());
        release(&mut keyboard, 0, euro);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "read before the binding was made");
        release(&mut keyboard, 0, euro);
        let mut bound = keymap.clone();
        bound.bind(200, [euro; LEVELS]);
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
