//! Path back, under keyboard.rs: the X server's keymap, from XKB's form to session-core's.
//! Which keysym each key has in the active group at each level, and which modifiers it sets. Knows
//! XKB's key types and actions; never who asks for a change.

use thinc_session_core::{Binding, KEY_LEVELS, Key, Keymap, Modifiers};
use x11rb::protocol::xkb::{Action, GetMapReply, KeySymMap, KeyType, SAType};
use x11rb::protocol::xproto::ModMask;

const ISO_LEVEL3_SHIFT: u32 = 0xfe03;
const ISO_LEVEL5_SHIFT: u32 = 0xfe11;

/// Types that every keymap begins with (XKB protocol, section 7.2.1).
const ONE_LEVEL: u8 = 0;
const TWO_LEVEL: u8 = 1;
const ALPHABETIC: u8 = 2;

/// The keymap of the X server.
#[derive(Default)]
pub(super) struct Map {
    first: u8,
    keys: Vec<MapKey>,
    types: Vec<KeyType>,
}

/// A key, with everything in it that a change of it would change.
#[derive(Clone, Default, PartialEq, Eq)]
struct MapKey {
    types: [u8; 4],
    group_info: u8,
    width: u8,
    keysyms: Vec<u32>,
    /// Kind and modifiers of the actions, in the order of the keysyms; empty if there are none.
    actions: Vec<(SAType, u8)>,
    /// The modifiers that the core protocol names.
    modmap: u8,
}

/// The real modifiers that select a level.
#[derive(Clone, Copy)]
struct Shifts {
    level3: u8,
    level5: u8,
}

impl Map {
    /// From a reply with key types, keysyms, actions and the modifier map. What is missing in it is
    /// taken as empty.
    pub(super) fn new(reply: GetMapReply) -> Map {
        let syms = reply.map.syms_rtrn.unwrap_or_default();
        let mut keys: Vec<MapKey> = syms
            .into_iter()
            .map(|syms| MapKey {
                types: syms.kt_index,
                group_info: syms.group_info,
                width: syms.width,
                keysyms: syms.syms,
                ..MapKey::default()
            })
            .collect();
        let first = reply.first_key_sym;
        let at = |keycode: u8| keycode.checked_sub(first).map(usize::from);
        if let Some(actions) = reply.map.key_actions {
            let mut all = actions.acts_rtrn_acts.iter().map(kind_and_modifiers);
            for (count, keycode) in actions.acts_rtrn_count.iter().zip(reply.first_key_action..) {
                let actions: Vec<(SAType, u8)> = all.by_ref().take(usize::from(*count)).collect();
                if let Some(key) = at(keycode).and_then(|at| keys.get_mut(at)) {
                    key.actions = actions;
                }
            }
        }
        for entry in reply.map.modmap_rtrn.unwrap_or_default() {
            if let Some(key) = at(entry.keycode).and_then(|at| keys.get_mut(at)) {
                key.modmap = u16::from(entry.mods) as u8;
            }
        }
        Map { first, keys, types: reply.map.types_rtrn.unwrap_or_default() }
    }

    /// The keymap of this group. `bindings` is that of [`Keymap::new`].
    pub(super) fn keymap(&self, group: u8, bindings: u64) -> Keymap {
        let shifts = self.shifts();
        let keys = self.keys.iter().map(|key| Key {
            keysyms: std::array::from_fn(|level| self.keysym(key, group, shifts.mask(level))),
            modifiers: self.modifiers(key, group, shifts),
            taken: key.keysyms.iter().any(|&keysym| keysym != 0)
                || key.modmap != 0
                || key.actions.iter().any(|&(kind, _)| kind != SAType::NO_ACTION),
        });
        let levels = if self.four_level().is_some() { 4 } else { 2 };
        Keymap::new(self.first, keys, levels, bindings)
    }

    /// Whether both have the same keys, apart from these keycodes.
    pub(super) fn has_same_keys(&self, other: &Map, apart: impl Fn(u8) -> bool) -> bool {
        self.first == other.first
            && self.keys.len() == other.keys.len()
            && (self.first..=255)
                .zip(self.keys.iter().zip(&other.keys))
                .all(|(keycode, (one, another))| one == another || apart(keycode))
    }

    /// Whether this spare keycode has the keysyms that it was bound to.
    pub(super) fn is_bound(&self, binding: &Binding) -> bool {
        let at = binding.keycode.checked_sub(self.first).map(usize::from);
        let Some(key) = at.and_then(|at| self.keys.get(at)) else { return false };
        let bound = self.key_of(binding.keysyms);
        (key.group_info, key.width, &key.keysyms) == (bound.group_info, bound.width, &bound.syms)
    }

    /// A key with these keysyms, in a single group, which every group falls back to: of one level
    /// if all are the same, alphabetic, or of four levels.
    pub(super) fn key_of(&self, keysyms: [u32; 4]) -> KeySymMap {
        key_of(keysyms, self.four_level())
    }

    /// The index of the key type with the levels plain, Shift, Level3 and both.
    fn four_level(&self) -> Option<u8> {
        let (shift, level3) = (u16::from(ModMask::SHIFT) as u8, self.shifts().level3);
        let is_four_level = |key_type: &KeyType| {
            let level = |mods| level_of(key_type, mods);
            level3 != 0
                && key_type.num_levels == 4
                && mask(key_type.mods_mask) == shift | level3
                && [level(0), level(shift), level(level3), level(shift | level3)] == [0, 1, 2, 3]
        };
        self.types.iter().position(is_four_level).and_then(|at| u8::try_from(at).ok())
    }

    /// The modifiers of the keys that are named for it: a keymap may use any.
    fn shifts(&self) -> Shifts {
        let mask = |keysym: u32| {
            self.keys
                .iter()
                .filter(|key| key.keysyms.contains(&keysym))
                .find_map(|key| key.held_modifiers(0).filter(|&modifiers| modifiers != 0))
                .unwrap_or(0)
        };
        Shifts { level3: mask(ISO_LEVEL3_SHIFT), level5: mask(ISO_LEVEL5_SHIFT) }
    }

    fn keysym(&self, key: &MapKey, group: u8, modifiers: u8) -> u32 {
        let Some(group) = key.group(group) else { return 0 };
        let key_type = key.types.get(group).and_then(|at| self.types.get(usize::from(*at)));
        let level = key_type.map_or(0, |key_type| level_of(key_type, modifiers));
        let at = group * usize::from(key.width) + level;
        if level >= usize::from(key.width) { 0 } else { key.keysyms.get(at).copied().unwrap_or(0) }
    }

    fn modifiers(&self, key: &MapKey, group: u8, shifts: Shifts) -> Modifiers {
        let held = key.group(group).and_then(|group| key.held_modifiers(group)).unwrap_or(0);
        let shift = mask(ModMask::SHIFT);
        let others = !(shift | mask(ModMask::LOCK) | shifts.level3 | shifts.level5);
        [
            (shift, Modifiers::SHIFT),
            (shifts.level3, Modifiers::LEVEL3),
            (shifts.level5, Modifiers::LEVEL5),
            (others, Modifiers::COMMAND),
        ]
        .into_iter()
        .filter(|(of, _)| held & of != 0)
        .fold(Modifiers::default(), |all, (_, modifiers)| all.and(modifiers))
    }
}

impl MapKey {
    /// The group that counts if this one is active (XKB protocol, section 12.1.1). None: the key
    /// has no groups.
    fn group(&self, active: u8) -> Option<usize> {
        const CLAMP: u8 = 0x40;
        const REDIRECT: u8 = 0x80;
        let count = self.group_info & 0x0f;
        let group = match self.group_info & 0xc0 {
            _ if active < count => active,
            _ if count == 0 => return None,
            CLAMP => count - 1,
            REDIRECT => Some(self.group_info >> 4 & 3).filter(|&to| to < count).unwrap_or(0),
            _ => active % count,
        };
        Some(usize::from(group))
    }

    /// The modifiers that the key sets while it is held; None if it sets none.
    fn held_modifiers(&self, group: usize) -> Option<u8> {
        let (kind, modifiers) = *self.actions.get(group * usize::from(self.width))?;
        matches!(kind, SAType::SET_MODS | SAType::LATCH_MODS).then_some(modifiers)
    }
}

impl Shifts {
    /// The modifiers of a level of session-core.
    fn mask(self, level: usize) -> u8 {
        const { assert!(KEY_LEVELS == 8) };
        [mask(ModMask::SHIFT), self.level3, self.level5]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| level >> bit & 1 != 0)
            .fold(0, |all, (_, modifiers)| all | modifiers)
    }
}

fn mask(modifiers: ModMask) -> u8 {
    u16::from(modifiers) as u8
}

fn kind_and_modifiers(action: &Action) -> (SAType, u8) {
    // Set, latch and lock have their modifiers in the same place; of others only the kind counts.
    let kind = action.as_type();
    match kind {
        SAType::SET_MODS | SAType::LATCH_MODS | SAType::LOCK_MODS => {
            (kind, mask(action.as_setmods().mask))
        }
        _ => (kind, 0),
    }
}

/// The level that these modifiers select (XKB protocol, section 7.2.2).
fn level_of(key_type: &KeyType, modifiers: u8) -> usize {
    let selecting = modifiers & mask(key_type.mods_mask);
    let entry =
        key_type.map.iter().find(|entry| entry.active && mask(entry.mods_mask) == selecting);
    entry.map_or(0, |entry| usize::from(entry.level))
}

fn key_of(keysyms: [u32; 4], four_level: Option<u8>) -> KeySymMap {
    let [plain, shifted, third, fourth] = keysyms;
    let (key_type, levels) = match four_level {
        _ if keysyms == [plain; 4] => (ONE_LEVEL, 1),
        _ if (plain, shifted) == (third, fourth) => (ALPHABETIC, 2),
        Some(four_level) => (four_level, 4),
        None => (TWO_LEVEL, 2),
    };
    KeySymMap {
        kt_index: [key_type, 0, 0, 0],
        group_info: 1,
        width: levels,
        syms: keysyms[..usize::from(levels)].to_vec(),
    }
}

/// A keycode without keysyms.
pub(super) fn empty_key() -> KeySymMap {
    KeySymMap { kt_index: [0; 4], group_info: 0, width: 0, syms: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use x11rb::protocol::xkb::KTMapEntry;

    const SHIFT: u8 = 1;
    const MOD3: u8 = 0x20;
    const MOD5: u8 = 0x80;

    fn key_type(modifiers: u8, entries: &[(u8, u8)], levels: u8) -> KeyType {
        let entry = |&(modifiers, level): &(u8, u8)| KTMapEntry {
            active: true,
            mods_mask: u16::from(modifiers).into(),
            level,
            mods_mods: u16::from(modifiers).into(),
            mods_vmods: 0u16.into(),
        };
        KeyType {
            mods_mask: u16::from(modifiers).into(),
            mods_mods: u16::from(modifiers).into(),
            mods_vmods: 0u16.into(),
            num_levels: levels,
            has_preserve: false,
            map: entries.iter().map(entry).collect(),
            preserve: Vec::new(),
        }
    }

    fn map() -> Map {
        let types = vec![
            key_type(0, &[], 1),
            key_type(SHIFT, &[(SHIFT, 1)], 2),
            key_type(SHIFT | 2, &[(SHIFT, 1), (2, 1)], 2),
            key_type(SHIFT | MOD5, &[(SHIFT, 1), (MOD5, 2), (SHIFT | MOD5, 3)], 4),
            key_type(SHIFT | MOD3, &[(SHIFT, 1), (MOD3, 2)], 3),
        ];
        let key = |types: [u8; 4], group_info: u8, width: u8, keysyms: &[u32]| MapKey {
            types,
            group_info,
            width,
            keysyms: keysyms.to_vec(),
            ..MapKey::default()
        };
        let modifier = |keysym: u32, modifiers: u8| MapKey {
            actions: vec![(SAType::SET_MODS, modifiers)],
            modmap: modifiers,
            ..key([0; 4], 1, 1, &[keysym])
        };
        let keys = vec![
            // Latin and Cyrillic; the second group has fewer levels.
            key([3, 2, 0, 0], 2, 4, &[0x61, 0x41, 0xe6, 0xc6, 0x06c6, 0x06e6, 0, 0]),
            key([4, 0, 0, 0], 1, 3, &[0x31, 0x21, 0xb9]),
            modifier(0xffe1, SHIFT),
            modifier(ISO_LEVEL3_SHIFT, MOD5),
            modifier(ISO_LEVEL5_SHIFT, MOD3),
            modifier(0xffe9, 8),
            key([0; 4], 0, 0, &[]),
            // Only in the second group.
            key([0; 4], 2, 1, &[0, 0x62]),
        ];
        Map { first: 8, keys, types }
    }

    fn levels(group: u8, keycode: u8) -> Vec<u32> {
        let map = map();
        let key = &map.keys[usize::from(keycode - 8)];
        (0..8).map(|level| map.keysym(key, group, map.shifts().mask(level))).collect()
    }

    #[test]
    fn each_level_has_the_keysym_of_the_active_group() {
        let latin = [0x61, 0x41, 0xe6, 0xc6];
        assert_eq!(levels(0, 8), [latin, latin].concat());
        let cyrillic = [0x06c6, 0x06e6, 0x06c6, 0x06e6];
        assert_eq!(levels(1, 8), [cyrillic, cyrillic].concat());
        assert_eq!(levels(2, 8), levels(0, 8), "a group that there is not wraps round");
        // A combination without an entry selects the first level.
        assert_eq!(levels(0, 9), [0x31, 0x21, 0x31, 0x21, 0xb9, 0x31, 0xb9, 0x31]);
        assert_eq!(levels(1, 9), levels(0, 9), "a key with one group has it in every group");
        assert_eq!(levels(0, 14), [0; 8]);
    }

    #[test]
    fn groups_out_of_range_follow_the_keys_rule() {
        let key = |group_info| MapKey { group_info, ..MapKey::default() };
        for (group_info, active, wanted) in [
            (0x02, 1, Some(1)),
            (0x02, 3, Some(1)),
            (0x42, 2, Some(1)),
            (0x90 | 3, 3, Some(1)),
            (0xb0 | 3, 3, Some(0)),
            (0x00, 0, None),
            (0x40, 3, None),
        ] {
            assert_eq!(key(group_info).group(active), wanted, "{group_info:#x}, {active}");
        }
    }

    #[test]
    fn modifiers_are_what_a_key_sets_whatever_it_is_called() {
        let map = map();
        let modifiers = |keycode: usize| map.modifiers(&map.keys[keycode - 8], 0, map.shifts());
        assert_eq!(
            [8, 10, 11, 12, 13].map(modifiers),
            [
                Modifiers::default(),
                Modifiers::SHIFT,
                Modifiers::LEVEL3,
                Modifiers::LEVEL5,
                Modifiers::COMMAND
            ]
        );
    }

    #[test]
    fn a_bound_key_is_recognised_and_others_are_not() {
        let mut map = map();
        let binding = Binding { keycode: 14, keysyms: [0x20ac; 4] };
        assert!(!map.is_bound(&binding));
        let KeySymMap { kt_index, group_info, width, syms } = map.key_of(binding.keysyms);
        map.keys[6] =
            MapKey { types: kt_index, group_info, width, keysyms: syms, ..MapKey::default() };
        assert!(map.is_bound(&binding));
        assert!(!map.is_bound(&Binding { keysyms: [0x20ac, 1, 2, 3], ..binding }));
        assert!(!map.is_bound(&Binding { keycode: 7, ..binding }), "there is no such key");
        let other = self::map();
        assert!(!map.has_same_keys(&other, |_| false));
        assert!(map.has_same_keys(&other, |keycode| keycode == 14));
    }

    #[test]
    fn a_key_has_only_the_levels_it_needs() {
        let key_type = |keysyms| {
            let key = map().key_of(keysyms);
            (key.kt_index[0], key.syms)
        };
        assert_eq!(key_type([7; 4]), (0, vec![7]));
        assert_eq!(key_type([0x61, 0x41, 0x61, 0x41]), (2, vec![0x61, 0x41]));
        assert_eq!(key_type([1, 2, 3, 3]), (3, vec![1, 2, 3, 3]));
        let mut without = map();
        without.types.remove(3);
        assert_eq!(without.key_of([1, 2, 3, 3]).syms, [1, 2]);
    }

    #[test]
    fn a_key_that_does_something_in_another_group_is_taken() {
        let map = map();
        // Without a key for Level3 a spare keycode has two levels.
        let keymap = |keys: Vec<Key>| Keymap::new(8, keys, 2, 0);
        let key = |taken: bool| Key { taken, ..Key::default() };
        let small =
            |at: usize| Map { first: 8, keys: vec![map.keys[at].clone()], types: Vec::new() };
        let with = |at: usize| {
            let small = small(at);
            Map { types: map.types.clone(), ..small }.keymap(0, 0)
        };
        assert_eq!(with(6), keymap(vec![key(false)]).clone());
        assert_eq!(with(7), keymap(vec![key(true)]));
    }
}
