//! Path back: from a viewer's message, through session/input.rs and the shell, to
//! driver/src/input.c.
//! Turns a key or a character into the keycode that produces it in the server's keymap, with the
//! modifier changes around it. Knows keycodes, keysyms and who holds what; never sockets or
//! windows.

use thinc_protocol::Micros;
use thinc_protocol::viewer::KeyboardLayout;

use crate::viewer::ViewerId;

use super::keymap::{
    CAPS_LOCK, KEYCODE_MIN, LEVELS, NUM_LOCK, is_keypad_digit, is_modifier, keysym_of, lower,
    normalize, upper,
};
pub use super::keymap::{KEY_LEVELS, Key, Keymap, Modifiers};

/// Most keys that all viewers together may hold: every keycode there is.
const HELD_MAX: usize = 248;
/// 400 ms: shortest time between pressing a keycode and binding it to another keysym. Applications
/// fetch the new keymap when they look up a key, not when it was pressed, and a busy one does so
/// late; there is no event to wait for. With 18 spare keycodes of four levels 180 different
/// characters a second can be typed.
const REBIND_DELAY: Micros = 400_000;
/// Most characters that are bound together.
pub(crate) const BATCH_MAX: usize = 128;

/// The new keysyms of a spare keycode: plain, with Shift, with Level3, with both.
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
    /// Bind these keysyms to spare keycodes before anything is pressed. The number counts such
    /// actions.
    Bind(u64, Vec<Binding>),
    /// Press or release a key.
    Key {
        /// X keycode.
        keycode: u8,
        /// Pressed.
        down: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct HeldKey {
    viewer: ViewerId,
    code: u16,
    keysym: u32,
    keycode: u8,
    /// What it does, and whether X repeats it: as the keymap was when it was pressed (XKB protocol,
    /// section 6.3: a key that is released undoes what it did).
    modifiers: Modifiers,
    repeats: bool,
}

impl HeldKey {
    fn does(&self, shift: Modifiers) -> bool {
        self.modifiers.level() & shift.level() != 0
    }
}

/// A spare keycode in use.
#[derive(Clone, Copy, Debug)]
struct BoundKeycode {
    keycode: u8,
    /// The action that bound it.
    number: u64,
    /// When it was last pressed; None before the first time.
    pressed: Option<Micros>,
}

/// Which locks are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locks {
    pub(crate) caps: bool,
    pub(crate) num: bool,
}

/// Keys to press (true) or release (false) around a key.
type ShiftChanges = Vec<(u8, bool)>;

/// The session's one X keyboard, which all viewers share.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    keymap: Keymap,
    /// `keymap` is the server's: it arrives shortly after the session begins, and later while
    /// an X client grabs the server.
    keymap_known: bool,
    held: Vec<HeldKey>,
    /// Spare keycodes in use, the longest unused first.
    bound: Vec<BoundKeycode>,
    /// How many bindings were requested.
    bindings: u64,
    /// When a key was last pressed.
    pressed: Option<Micros>,
    /// The locks of the X keyboard.
    x_locks: Locks,
    /// Lock keys that were pressed while they were on, and their keysyms: they turn off when they
    /// are released (XKB protocol, section 6.3).
    unlocking: Vec<(u8, u32)>,
    /// The layouts that viewers reported.
    layouts: Vec<(ViewerId, KeyboardLayout)>,
    /// The layout that was requested last, and whose it is. None: the session's own.
    layout: Option<(ViewerId, KeyboardLayout)>,
    /// The locks that viewers reported.
    locks: Vec<(ViewerId, Locks)>,
    typed_last: Option<ViewerId>,
}

impl Keyboard {
    /// The server's keymap, as it is now. A binding that was carried out before it was read and is
    /// not in it has been undone (`setxkbmap`); one that was not carried out yet is still valid.
    pub(crate) fn set_keymap(&mut self, keymap: Keymap) {
        self.keymap_known = true;
        let before = std::mem::replace(&mut self.keymap, keymap);
        let keymap = &mut self.keymap;
        self.bound.retain(|bound| {
            let keysyms = before.binding(bound.keycode);
            let there = keymap.binding(bound.keycode) == keysyms;
            let expected = bound.number > keymap.bindings;
            if !there && expected {
                keymap.bind(bound.keycode, keysyms);
            }
            there || expected
        });
    }

    /// Lock keys as X's keyboard shows them: bit 0 caps, bit 1 num.
    pub(crate) fn set_leds(&mut self, leds: u32) {
        self.x_locks = Locks { caps: leds & 1 != 0, num: leds & 2 != 0 };
    }

    // ---- locks

    /// A viewer's keyboard has these locks. True if the session's locks change at once, because
    /// no other viewer typed last; otherwise they change with this viewer's next key.
    pub(crate) fn set_locks(&mut self, viewer: ViewerId, locks: Locks) -> bool {
        self.locks.retain(|(of, _)| *of != viewer);
        self.locks.push((viewer, locks));
        self.typed_last.is_none_or(|last| last == viewer) && self.change_locks(locks)
    }

    /// The locks to set before this viewer types: its own, if another viewer typed last and the
    /// session has other ones.
    pub(crate) fn take_locks(&mut self, viewer: ViewerId) -> Option<Locks> {
        if self.typed_last == Some(viewer) {
            return None;
        }
        let (_, locks) = *self.locks.iter().find(|(of, _)| *of == viewer)?;
        self.change_locks(locks).then_some(locks)
    }

    fn change_locks(&mut self, locks: Locks) -> bool {
        std::mem::replace(&mut self.x_locks, locks) != locks
    }

    // ---- layouts

    /// A viewer's keyboard has this layout; one without a name is not known any more.
    pub(crate) fn set_layout(&mut self, viewer: ViewerId, layout: KeyboardLayout) {
        self.layouts.retain(|(of, _)| *of != viewer);
        if !layout.layout.is_empty() {
            self.layouts.push((viewer, layout));
        }
    }

    /// The layout to request at once, and not with this viewer's next key, because no other viewer
    /// typed last: its own, or the session's again if its own is not known any more.
    pub(crate) fn take_reported_layout(
        &mut self,
        viewer: ViewerId,
    ) -> Option<Option<KeyboardLayout>> {
        if !self.layouts.iter().any(|(of, _)| *of == viewer) {
            return self.take_session_layout(viewer).then_some(None);
        }
        if self.typed_last.is_some_and(|last| last != viewer) {
            return None;
        }
        self.take_layout(viewer).map(Some)
    }

    /// The layout to request before this viewer types: its own, if another is in use. It is
    /// requested once, whether or not the X server knows it, and whatever anybody sets afterwards.
    pub(crate) fn take_layout(&mut self, viewer: ViewerId) -> Option<KeyboardLayout> {
        self.typed_last = Some(viewer);
        let (_, layout) = self.layouts.iter().find(|(of, _)| *of == viewer)?;
        let before = self.layout.replace((viewer, layout.clone()));
        before.is_none_or(|(_, before)| before != *layout).then(|| layout.clone())
    }

    /// Whether the session's own layout is to be requested, because that of this viewer is in use
    /// and must not be any more.
    fn take_session_layout(&mut self, viewer: ViewerId) -> bool {
        self.layout.take_if(|(of, _)| *of == viewer).is_some()
    }

    /// A viewer is gone: the current locks stay until another viewer types. True if the session's
    /// own layout is to be requested.
    pub(crate) fn remove_viewer(&mut self, viewer: ViewerId) -> bool {
        self.layouts.retain(|(of, _)| *of != viewer);
        self.locks.retain(|(of, _)| *of != viewer);
        if self.typed_last == Some(viewer) {
            self.typed_last = None;
        }
        self.take_session_layout(viewer)
    }

    /// The viewer that typed last, if it is still connected.
    pub(crate) fn typed_last(&self) -> Option<ViewerId> {
        self.typed_last
    }

    // ---- keys

    /// A viewer's key, with the physical code and the keysym of its layout, each 0 if unknown.
    pub(crate) fn key(
        &mut self,
        viewer: ViewerId,
        code: u16,
        keysym: u32,
        down: bool,
        out: &mut Vec<KeyAction>,
    ) {
        let before = self.x_locks;
        self.press_or_release(viewer, code, keysym, down, out);
        // A viewer does not say what its own key has changed.
        if self.x_locks != before
            && let Some((_, locks)) = self.locks.iter_mut().find(|(of, _)| *of == viewer)
        {
            *locks = self.x_locks;
        }
    }

    fn press_or_release(
        &mut self,
        viewer: ViewerId,
        code: u16,
        keysym: u32,
        down: bool,
        out: &mut Vec<KeyAction>,
    ) {
        let keysym = normalize(keysym);
        // The keysym of a release depends on modifiers released before it; the code does not.
        let same = |held: &HeldKey| {
            held.viewer == viewer
                && if code != 0 { held.code == code } else { held.keysym == keysym }
        };
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
        let (modifiers, plain) = (self.keymap.modifiers(keycode), self.keymap.level(keycode, 0));
        let repeats =
            modifiers == Modifiers::default() && !is_modifier(plain) && !is_modifier(keysym);
        self.held.push(HeldKey { viewer, code, keysym, keycode, modifiers, repeats });
        self.push_with_shifts(out, &around, [KeyAction::Key { keycode, down: true }]);
    }

    /// Appends the changes before, the key, and then the changes undone. A held key that does
    /// something else in the current keymap than when it was pressed stays released: pressed again
    /// it would do that.
    fn push_with_shifts(
        &mut self,
        out: &mut Vec<KeyAction>,
        around: &ShiftChanges,
        middle: impl IntoIterator<Item = KeyAction>,
    ) {
        out.extend(around.iter().map(|&(keycode, down)| KeyAction::Key { keycode, down }));
        out.extend(middle);
        for &(keycode, down) in around.iter().rev() {
            let now = self.keymap.modifiers(keycode);
            let mut held = self.held.iter_mut().filter(|held| held.keycode == keycode).peekable();
            if !down && held.peek().is_some_and(|held| held.modifiers != now) {
                held.for_each(|held| held.modifiers = Modifiers::default());
            } else {
                out.push(KeyAction::Key { keycode, down: !down });
            }
        }
    }

    /// A lock key is pressed: its effect is known before X's LEDs report it.
    fn press_lock(&mut self, keycode: u8) {
        if self.is_held(keycode) {
            return;
        }
        let keysym = self.keymap.level(keycode, 0);
        let Some(lock) = self.lock_of(keysym) else { return };
        if std::mem::replace(lock, true) {
            self.unlocking.push((keycode, keysym));
        }
    }

    fn lock_of(&mut self, keysym: u32) -> Option<&mut bool> {
        match keysym {
            CAPS_LOCK => Some(&mut self.x_locks.caps),
            NUM_LOCK => Some(&mut self.x_locks.num),
            _ => None,
        }
    }

    /// Releases everything this viewer holds.
    pub(crate) fn release_all(&mut self, viewer: ViewerId, out: &mut Vec<KeyAction>) {
        self.release_where(out, |held| held.viewer == viewer);
    }

    /// Releases the keys this viewer holds that X repeats.
    pub(crate) fn release_repeating(&mut self, viewer: ViewerId, out: &mut Vec<KeyAction>) {
        self.release_where(out, |held| held.viewer == viewer && held.repeats);
    }

    fn release_where(&mut self, out: &mut Vec<KeyAction>, which: impl Fn(&HeldKey) -> bool) {
        while let Some(at) = self.held.iter().position(&which) {
            let held = self.held.remove(at);
            self.release(held.keycode, out);
        }
    }

    /// Whether this viewer holds keys, and whether X repeats one of them.
    pub(crate) fn holds(&self, viewer: ViewerId) -> (bool, bool) {
        let mut held = self.held.iter().filter(|held| held.viewer == viewer).peekable();
        (held.peek().is_some(), held.any(|held| held.repeats))
    }

    /// Keycodes of the keys this viewer holds that X repeats.
    pub(crate) fn repeating(&self, viewer: ViewerId) -> impl Iterator<Item = u8> {
        self.held
            .iter()
            .filter(move |held| held.viewer == viewer && held.repeats)
            .map(|held| held.keycode)
    }

    fn release(&mut self, keycode: u8, out: &mut Vec<KeyAction>) {
        // Another viewer, or another key of this one, may hold the same keycode.
        if self.is_held(keycode) {
            return;
        }
        if let Some(at) = self.unlocking.iter().position(|&(of, _)| of == keycode) {
            let (_, keysym) = self.unlocking.remove(at);
            self.lock_of(keysym).into_iter().for_each(|lock| *lock = false);
        }
        out.push(KeyAction::Key { keycode, down: false });
    }

    fn is_held(&self, keycode: u8) -> bool {
        self.held.iter().any(|held| held.keycode == keycode)
    }

    /// The level that the held keys select.
    fn level(&self) -> usize {
        self.held.iter().fold(Modifiers::default(), |all, held| all.and(held.modifiers)).level()
    }

    /// The keysyms of a key without and with Shift, and with the other shifts of this level.
    fn pair(&self, keycode: u8, level: usize) -> (u32, u32) {
        let plain = level & !Modifiers::SHIFT.level();
        let shifted = plain | Modifiers::SHIFT.level();
        (self.keymap.level(keycode, plain), self.keymap.level(keycode, shifted))
    }

    /// The keysym in the keymap for a keycode at this level and under the locks.
    fn keymap_keysym(&self, keycode: u8, level: usize) -> u32 {
        let (plain, shifted) = self.pair(keycode, level);
        let turned = if is_keypad_digit(shifted) {
            self.x_locks.num
        } else {
            self.x_locks.caps && plain != shifted && upper(plain) == shifted
        };
        let shift = level & Modifiers::SHIFT.level() != 0;
        if shift != turned { shifted } else { plain }
    }

    /// The keysym that applications use: if the key itself ignores Caps Lock, they make capitals
    /// all the same (X11 protocol, section 5; libxkbcommon does so too).
    fn effective_keysym(&self, keycode: u8, level: usize) -> u32 {
        let keysym = self.keymap_keysym(keycode, level);
        let (plain, shifted) = self.pair(keycode, level);
        if self.x_locks.caps && !(plain != shifted && upper(plain) == shifted) {
            upper(keysym)
        } else {
            keysym
        }
    }

    /// The keycode for a key, and what to press (true) or release (false) around it.
    fn choose(
        &mut self,
        code: u16,
        keysym: u32,
        out: &mut Vec<KeyAction>,
    ) -> Option<(u8, ShiftChanges)> {
        let physical =
            u8::try_from(code).ok().filter(|&c| c != 0).and_then(|c| c.checked_add(KEYCODE_MIN));
        if !self.keymap_known {
            // Without a keymap every keycode looks spare: a binding would take a key away.
            return physical.map(|keycode| (keycode, Vec::new()));
        }
        let now = self.level();
        if let Some(keycode) = physical {
            let known = !self.keymap.is_spare(keycode);
            // A viewer reports the keysym on its key, or the one under Caps Lock.
            if keysym == 0
                || known
                    && (self.keymap_keysym(keycode, now) == keysym
                        || self.effective_keysym(keycode, now) == keysym)
            {
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
        let candidates =
            if is_modifier(keysym) { [now; KEY_LEVELS] } else { Keyboard::level_candidates(now) };
        for level in candidates {
            let found = (KEYCODE_MIN..=255)
                .find(|&keycode| self.effective_keysym(keycode, level) == keysym);
            if let Some(keycode) = found
                && let Some(around) = self.around(now, level)
            {
                return Some((keycode, around));
            }
        }
        let keycode = self.spares().next()?;
        let binding = self.bind(keycode, Keyboard::row_for(keysym));
        self.bindings += 1;
        out.push(KeyAction::Bind(self.bindings, vec![binding]));
        let level = candidates
            .into_iter()
            .find(|&level| self.effective_keysym(keycode, level) == keysym)?;
        Some((keycode, self.around(now, level)?))
    }

    /// Levels in the order in which they are tried: the current one, then with as little change as
    /// possible.
    fn level_candidates(now: usize) -> [usize; KEY_LEVELS] {
        [0, 1, 2, 3, 4, 5, 6, 7].map(|changed| now ^ changed)
    }

    /// The keycode for a modifier. The one at its physical place if that is the same modifier at
    /// any level (Shift makes Meta of Alt), else any that produces it: holding Alt instead of the
    /// viewer's AltGr would turn every character typed with it into a shortcut.
    fn modifier(&self, place: Option<u8>, keysym: u32) -> Option<u8> {
        let place = place.filter(|&keycode| is_modifier(self.keymap.level(keycode, 0)));
        let gives = |keycode: u8| self.keymap.has_keysym(keycode, keysym);
        let elsewhere =
            || (KEYCODE_MIN..=255).find(|&keycode| self.keymap.level(keycode, 0) == keysym);
        // Without such a modifier in this keymap, its place is the best guess.
        place.filter(|&keycode| gives(keycode)).or_else(elsewhere).or(place)
    }

    /// The keys that change the level. None: the keymap has no key for it.
    fn around(&self, now: usize, wanted: usize) -> Option<ShiftChanges> {
        let mut around = Vec::new();
        for shift in [Modifiers::SHIFT, Modifiers::LEVEL3, Modifiers::LEVEL5] {
            match (now & shift.level() != 0, wanted & shift.level() != 0) {
                (true, false) => {
                    for held in self.held.iter().filter(|held| held.does(shift)) {
                        if !around.contains(&(held.keycode, false)) {
                            around.push((held.keycode, false));
                        }
                    }
                }
                (false, true) => around.push((self.keymap.modifier(shift)?, true)),
                _ => {}
            }
        }
        Some(around)
    }

    // ---- characters

    /// Types characters whatever is held, and returns how many: at least one if there are any; the
    /// rest needs keycodes that these take. `out` begins with the bindings for all of them, if any;
    /// each character's keys carry its index in `characters`, at most [`BATCH_MAX`].
    pub(crate) fn characters(
        &mut self,
        characters: &[char],
        now: Micros,
        out: &mut Vec<(usize, KeyAction)>,
    ) -> usize {
        debug_assert!(
            characters.len() <= BATCH_MAX,
            "{} characters are too many at once",
            characters.len()
        );
        if !self.keymap_known {
            return characters.len();
        }
        let (bindings, count) = self.bind_for(characters, now);
        if !bindings.is_empty() {
            self.bindings += 1;
            out.push((0, KeyAction::Bind(self.bindings, bindings)));
        }
        let mut keys = Vec::new();
        for (place, &character) in characters[..count].iter().enumerate() {
            let Some((keycode, around)) = keysym_of(character).and_then(|keysym| self.find(keysym))
            else {
                continue;
            };
            let press = [true, false].map(|down| KeyAction::Key { keycode, down });
            self.push_with_shifts(&mut keys, &around, press);
            out.extend(keys.drain(..).map(|action| (place, action)));
        }
        count
    }

    /// The key that produces a character, and the changes around it: no held key may change it, or
    /// turn it into a command.
    fn find(&self, keysym: u32) -> Option<(u8, ShiftChanges)> {
        let now = self.level();
        let mut released = ShiftChanges::new();
        for held in self.held.iter().filter(|held| held.modifiers.is_command()) {
            if !released.contains(&(held.keycode, false)) {
                released.push((held.keycode, false));
            }
        }
        for level in Keyboard::level_candidates(now) {
            // A held key cannot be pressed.
            let fits = |keycode: u8| {
                self.effective_keysym(keycode, level) == keysym && !self.is_held(keycode)
            };
            if let Some(keycode) = (KEYCODE_MIN..=255).find(|&keycode| fits(keycode))
                && let Some(around) = self.around(now, level)
            {
                return Some((keycode, [released, around].concat()));
            }
        }
        None
    }

    /// Binds spare keycodes for characters that no key produces: as many of the first ones as there
    /// is room for.
    fn bind_for(&mut self, characters: &[char], now: Micros) -> (Vec<Binding>, usize) {
        let keysyms: Vec<u32> =
            characters.iter().map(|&character| keysym_of(character).unwrap_or(0)).collect();
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
        let bindable =
            spares.iter().take_while(|&&keycode| self.bindable_at(keycode) <= now).count();
        // Keycodes in their rebind delay would hold up characters that need not wait for them.
        let spares = &spares[..if bindable == 0 { spares.len() } else { bindable }];
        let share = if wanted.len() <= spares.len() { 1 } else { self.levels() };
        let mut bindings: Vec<Binding> = Vec::new();
        let mut room = spares.iter();
        let mut bound = 0;
        while bound < wanted.len() {
            let Some(&keycode) = room.next() else { break };
            // A cased character shares its key with its other case, so that the effect of Caps Lock
            // is known.
            let is_cased = |keysym: u32| upper(keysym) != keysym || lower(keysym) != keysym;
            let together = wanted[bound..]
                .iter()
                .take(share)
                .take_while(|&&keysym| !is_cased(keysym))
                .count()
                .max(1);
            let mut row = Keyboard::row_for(wanted[bound]);
            if together > 1 {
                (0..LEVELS).for_each(|level| row[level] = wanted[bound + level.min(together - 1)]);
            }
            bindings.push(self.bind(keycode, row));
            bound += together;
        }
        let missing = &wanted[bound..];
        let count =
            keysyms.iter().position(|keysym| missing.contains(keysym)).unwrap_or(keysyms.len());
        match count {
            // The character after the first one needs the keycodes that it takes.
            0 if characters.len() > 1 => self.bind_for(&characters[..1], now),
            // Without any room it is given up, or nothing after it would ever be typed.
            0 => (bindings, characters.len()),
            count => (bindings, count),
        }
    }

    /// How many levels of a key can be reached in this keymap.
    fn levels(&self) -> usize {
        let has = |shift| self.keymap.modifier(shift).is_some();
        let reachable = match (has(Modifiers::SHIFT), has(Modifiers::LEVEL3)) {
            (true, true) => 4,
            (true, false) => 2,
            _ => 1,
        };
        reachable.min(self.keymap.spare_levels())
    }

    fn row_for(keysym: u32) -> [u32; LEVELS] {
        let (small, capital) = (lower(keysym), upper(keysym));
        if small != capital { [small, capital, small, capital] } else { [keysym; LEVELS] }
    }

    /// Spare keycodes that nobody holds: unused ones, then those whose use is longest ago.
    fn spares(&self) -> impl Iterator<Item = u8> + '_ {
        // From the top: evdev's keys lie at the bottom.
        let unused = (KEYCODE_MIN..=255).rev().filter(|&keycode| self.keymap.is_spare(keycode));
        unused
            .chain(self.bound.iter().map(|bound| bound.keycode))
            .filter(|&keycode| !self.is_held(keycode))
    }

    fn bind(&mut self, keycode: u8, keysyms: [u32; LEVELS]) -> Binding {
        let at = self.bound.iter().position(|bound| bound.keycode == keycode);
        let pressed = at.and_then(|at| self.bound.remove(at).pressed);
        // The caller makes one action of all its bindings.
        self.bound.push(BoundKeycode { keycode, number: self.bindings + 1, pressed });
        self.keymap.bind(keycode, keysyms);
        Binding { keycode, keysyms }
    }

    fn bindable_at(&self, keycode: u8) -> Micros {
        let bound = self.bound.iter().find(|bound| bound.keycode == keycode);
        bound.and_then(|bound| bound.pressed).map_or(0, |pressed| pressed + REBIND_DELAY)
    }

    /// When these keycodes may be bound again.
    pub(crate) fn bindings_allowed_at(&self, bindings: &[Binding]) -> Micros {
        bindings.iter().map(|binding| self.bindable_at(binding.keycode)).max().unwrap_or(0)
    }

    /// When all keycodes may.
    pub(crate) fn layout_change_allowed_at(&self) -> Micros {
        self.pressed.map_or(0, |pressed| pressed + REBIND_DELAY)
    }

    /// A keycode is being pressed.
    pub(crate) fn pressed(&mut self, keycode: u8, now: Micros) {
        self.pressed = Some(now);
        if let Some(at) = self.bound.iter().position(|bound| bound.keycode == keycode) {
            let bound = self.bound.remove(at);
            self.bound.push(BoundKeycode { pressed: Some(now), ..bound });
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

    /// Keys with these keysyms: plain, Shift, Level3 and both. One that is missing is the first of
    /// its pair, and a missing pair the first one.
    fn keymap_of(keys: &[(u8, &[u32], Modifiers)], spares: &[u8]) -> Keymap {
        let other = Key { keysyms: [0xfeed; KEY_LEVELS], ..Key::default() };
        let mut rows = vec![other; 248];
        for &(keycode, keysyms, modifiers) in keys {
            let at = |level: usize| keysyms.get(level).copied();
            let pair = |level: usize| at(level).or(at(level & 2));
            let keysyms =
                std::array::from_fn(|level| pair(level % LEVELS).or(pair(level & 1)).unwrap_or(0));
            rows[usize::from(keycode) - 8] = Key { keysyms, modifiers, taken: false };
        }
        for &spare in spares {
            rows[usize::from(spare) - 8] = Key::default();
        }
        Keymap::new(8, rows, LEVELS, 0)
    }

    const NONE: Modifiers = Modifiers(0);

    /// A small German keymap: a A, 2 ", q Q @ (Level3), keypad 7, Shift, AltGr; keycode 200 is
    /// spare.
    fn german() -> Keymap {
        keymap_of(
            &[
                (38, &[0x61, 0x41], NONE),
                (11, &[0x32, 0x22, 0xb2], NONE),
                (24, &[0x71, 0x51, 0x40], NONE),
                (79, &[0xff95, 0xffb7], NONE),
                (50, &[SHIFT_L], Modifiers::SHIFT),
                (108, &[0xfe03], Modifiers::LEVEL3),
            ],
            &[200],
        )
    }

    fn keyboard() -> Keyboard {
        let mut keyboard = Keyboard::default();
        keyboard.set_keymap(german());
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

    fn bind(number: u64, keysym: u32) -> KeyAction {
        KeyAction::Bind(number, vec![Binding { keycode: 200, keysyms: [keysym; LEVELS] }])
    }

    #[test]
    fn the_physical_key_is_used_if_it_produces_the_keysym_or_none_is_known() {
        let mut keyboard = keyboard();
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(38)]);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(press(&mut keyboard, KEY_2, 0), [down(11)]);
    }

    #[test]
    fn without_a_keymap_the_physical_key_is_used_and_nothing_is_bound() {
        let mut keyboard = Keyboard::default();
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(38)]);
        assert_eq!(press(&mut keyboard, 0, 0x20ac), [], "no place, and no key is known to give it");
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(release(&mut keyboard, 0, 0x20ac), []);
    }

    #[test]
    fn another_layout_finds_its_keysym_elsewhere() {
        // AZERTY: the key at the place of q produces a.
        assert_eq!(press(&mut keyboard(), 16, 0x61), [down(38)]);
    }

    #[test]
    fn shift_is_pressed_or_released_around_a_key_that_needs_it() {
        let mut keyboard = keyboard();
        assert_eq!(press(&mut keyboard, KEY_A, 0x41), [down(50), down(38), up(50)]);
        release(&mut keyboard, KEY_A, 0x41);
        assert_eq!(press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L), [down(50)]);
        // A layout in which Shift produces the digit.
        assert_eq!(press(&mut keyboard, KEY_2, 0x32), [up(50), down(11), down(50)]);
        // On US, Shift-2 gives @, which is AltGr-q here.
        release(&mut keyboard, KEY_2, 0x32);
        assert_eq!(press(&mut keyboard, KEY_2, 0x40), [down(108), down(24), up(108)]);
    }

    #[test]
    fn altgr_is_level3_even_if_the_session_has_alt_in_its_place() {
        // A US keymap: Right Alt is Alt_R, and ISO_Level3_Shift lies on a key of its own.
        const ALTGR: u32 = 0xfe03;
        let mut keyboard = Keyboard::default();
        keyboard.set_keymap(keymap_of(
            &[
                (11, &[0x32, 0x40], NONE),
                (50, &[SHIFT_L], Modifiers::SHIFT),
                (64, &[0xffe9, 0xffe7], Modifiers::COMMAND),
                (66, &[0xffe5], NONE),
                (37, &[0xffe3], Modifiers::COMMAND),
                (92, &[ALTGR], Modifiers::LEVEL3),
                (108, &[0xffea], Modifiers::COMMAND),
            ],
            &[],
        ));
        // The viewer's keyboard is German: AltGr-q is @.
        assert_eq!(press(&mut keyboard, 100, ALTGR), [down(92)]);
        assert_eq!(press(&mut keyboard, 16, 0x40), [down(50), down(11), up(50)], "no Alt is held");
        release(&mut keyboard, 16, 0x40);
        assert_eq!(release(&mut keyboard, 100, ALTGR), [up(92)]);
        // Shift makes Meta of Alt, and the key stays.
        assert_eq!(press(&mut keyboard, 56, 0xffe7), [down(64)]);
        // Control where Caps Lock was.
        assert_eq!(press(&mut keyboard, 58, 0xffe3), [down(37)]);
        // A group switch, which this keymap does not have: its place is used.
        assert_eq!(press(&mut keyboard, 42, 0xfe08), [down(50)]);
    }

    #[test]
    fn lock_keys_are_considered() {
        let mut keyboard = keyboard();
        keyboard.set_leds(1);
        assert_eq!(press(&mut keyboard, KEY_A, 0x41), [down(38)]);
        release(&mut keyboard, KEY_A, 0x41);
        assert_eq!(press(&mut keyboard, KEY_A, 0x61), [down(50), down(38), up(50)]);
        keyboard.set_leds(2);
        assert_eq!(press(&mut keyboard, 71, 0xffb7), [down(79)]);
    }

    #[test]
    fn a_keysym_without_a_key_takes_a_spare_keycode_once() {
        let mut keyboard = keyboard();
        let euro = 0x0100_20ac;
        assert_eq!(press(&mut keyboard, 0, euro), [bind(1, euro), down(200)]);
        assert_eq!(press(&mut keyboard, 0, 0x0100_2603), [], "the only spare keycode is held");
        assert_eq!(release(&mut keyboard, 0, euro), [up(200)]);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "it is bound already");
        release(&mut keyboard, 0, euro);
        let snowman = 0x0100_2603;
        assert_eq!(press(&mut keyboard, 0, snowman), [bind(2, snowman), down(200)]);
    }

    #[test]
    fn a_binding_that_another_layout_undid_is_made_again() {
        let mut keyboard = keyboard();
        let euro = 0x0100_20ac;
        press(&mut keyboard, 0, euro);
        keyboard.set_keymap(german());
        release(&mut keyboard, 0, euro);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "read before the binding was made");
        release(&mut keyboard, 0, euro);
        let after = |mut keymap: Keymap| {
            keymap.bindings = 1;
            keymap
        };
        let mut bound = after(german());
        bound.bind(200, [euro; LEVELS]);
        keyboard.set_keymap(bound);
        assert_eq!(press(&mut keyboard, 0, euro), [down(200)], "the server says that it is there");
        keyboard.set_keymap(after(german()));
        assert_eq!(
            press(&mut keyboard, 0, 0x0100_2603),
            [],
            "the spare keycode is held, whatever it gives"
        );
        release(&mut keyboard, 0, euro);
        assert_eq!(press(&mut keyboard, 0, euro), [bind(2, euro), down(200)], "it was undone");
    }

    #[test]
    fn a_keycode_that_somebody_else_gave_a_keysym_is_not_spare() {
        let mut keyboard = keyboard();
        let (euro, snowman) = (0x0100_20ac, 0x0100_2603);
        press(&mut keyboard, 0, euro);
        release(&mut keyboard, 0, euro);
        let mut theirs = german();
        theirs.bind(200, [snowman; LEVELS]);
        theirs.bindings = 1;
        keyboard.set_keymap(theirs);
        assert_eq!(press(&mut keyboard, 0, euro), [], "no keycode is spare");
        assert_eq!(press(&mut keyboard, 0, snowman), [down(200)]);
    }

    #[test]
    fn a_key_with_keysyms_in_another_group_is_not_spare() {
        let mut keyboard = keyboard();
        let mut keymap = german();
        keymap.keys[200].taken = true;
        keyboard.set_keymap(keymap);
        assert_eq!(press(&mut keyboard, 0, 0x0100_20ac), []);
    }

    #[test]
    fn keys_held_while_the_keymap_changes_do_and_undo_what_they_did_before() {
        let mut keyboard = keyboard();
        press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        press(&mut keyboard, KEY_A, 0x41);
        // Shift is elsewhere, and "a" and "q" have changed places.
        keyboard.set_keymap(keymap_of(
            &[
                (24, &[0x61, 0x41], NONE),
                (38, &[0x71, 0x51], NONE),
                (62, &[SHIFT_L], Modifiers::SHIFT),
                (50, &[0xffe3], Modifiers::COMMAND),
            ],
            &[],
        ));
        // X has Shift until the key that set it is released; pressed again it would be Control.
        assert_eq!(press(&mut keyboard, 21, 0x61), [up(50), down(24)]);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(release(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L), [up(50)]);
        release(&mut keyboard, 21, 0x61);
        assert_eq!(press(&mut keyboard, 21, 0x41), [down(62), down(24), up(62)]);
    }

    #[test]
    fn a_held_key_that_does_something_else_by_now_is_not_pressed_again() {
        let mut keyboard = keyboard();
        press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        let shift = |keycode| (keycode, &[SHIFT_L][..], Modifiers::SHIFT);
        let (a, control) = ((38, &[0x61, 0x41][..], NONE), (50, &[0xffe3][..], Modifiers::COMMAND));
        keyboard.set_keymap(keymap_of(&[a, shift(50)], &[]));
        let typed = |keyboard: &mut Keyboard, character| {
            let mut out = Vec::new();
            keyboard.characters(&[character], 0, &mut out);
            out.into_iter().map(|(_, action)| action).collect::<Vec<_>>()
        };
        // The same keymap with another key: Shift stays.
        assert_eq!(typed(&mut keyboard, 'a'), [up(50), down(38), up(38), down(50)]);
        keyboard.set_keymap(keymap_of(&[a, control, shift(62)], &[]));
        assert_eq!(typed(&mut keyboard, 'a'), [up(50), down(38), up(38)]);
        // It does nothing any more.
        assert_eq!(typed(&mut keyboard, 'A'), [down(62), down(38), up(38), up(62)]);
        assert_eq!(release(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L), [up(50)]);
    }

    #[test]
    fn characters_on_the_fifth_level_are_typed_there() {
        const PI: u32 = 0x0100_03c0;
        let mut keyboard = Keyboard::default();
        let mut keymap =
            keymap_of(&[(38, &[0x61, 0x41], NONE), (203, &[0xfe11], Modifiers::LEVEL5)], &[]);
        keymap.keys[38].keysyms[4] = PI;
        keyboard.set_keymap(keymap);
        assert_eq!(press(&mut keyboard, 0, PI), [down(203), down(38), up(203)]);
        release(&mut keyboard, 0, PI);
        // The viewer's own key for it is held.
        assert_eq!(press(&mut keyboard, 0, 0xfe11), [down(203)]);
        assert_eq!(press(&mut keyboard, KEY_A, PI), [down(38)]);
    }

    #[test]
    fn a_release_finds_its_key_whatever_its_keysym_is_by_then() {
        let mut keyboard = keyboard();
        press(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        press(&mut keyboard, KEY_A, 0x41);
        release(&mut keyboard, KEY_LEFTSHIFT, SHIFT_L);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [up(38)]);
        assert_eq!(release(&mut keyboard, KEY_A, 0x61), [], "nothing is released twice");
    }

    #[test]
    fn a_viewers_keys_are_released_with_it_but_not_those_of_another() {
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
