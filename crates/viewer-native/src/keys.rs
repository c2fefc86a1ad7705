//! Path back: from a physical key of the viewer's keyboard, to the evdev code of the session's
//! keyboard.
//! One table: USB HID usage (which SDL calls a scancode) to evdev code, X keysym and name; used by
//! the window, by scripts and by tests. Knows numbers and names; never a keyboard layout, SDL or a
//! connection.

/// One physical key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// SDL scancode: the USB HID usage of the keyboard page, and SDL's own numbers from 257 on.
    pub scancode: u16,
    /// `KEY_*` of linux/input-event-codes.h.
    pub code: u16,
    /// X keysym of the key's name (keysymdef.h, XF86keysym.h); of a character key, its unshifted
    /// one on a US keyboard.
    pub keysym: u32,
    /// Name of the keysym.
    pub name: &'static str,
}

const fn key(scancode: u16, code: u16, keysym: u32, name: &'static str) -> Key {
    Key { scancode, code, keysym, name }
}

/// Every key that has a place on a Linux keyboard, sorted by scancode.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key(4, 30, 0x61, "a"), key(5, 48, 0x62, "b"), key(6, 46, 0x63, "c"), key(7, 32, 0x64, "d"),
    key(8, 18, 0x65, "e"), key(9, 33, 0x66, "f"), key(10, 34, 0x67, "g"), key(11, 35, 0x68, "h"),
    key(12, 23, 0x69, "i"), key(13, 36, 0x6a, "j"), key(14, 37, 0x6b, "k"), key(15, 38, 0x6c, "l"),
    key(16, 50, 0x6d, "m"), key(17, 49, 0x6e, "n"), key(18, 24, 0x6f, "o"), key(19, 25, 0x70, "p"),
    key(20, 16, 0x71, "q"), key(21, 19, 0x72, "r"), key(22, 31, 0x73, "s"), key(23, 20, 0x74, "t"),
    key(24, 22, 0x75, "u"), key(25, 47, 0x76, "v"), key(26, 17, 0x77, "w"), key(27, 45, 0x78, "x"),
    key(28, 21, 0x79, "y"), key(29, 44, 0x7a, "z"),
    key(30, 2, 0x31, "1"), key(31, 3, 0x32, "2"), key(32, 4, 0x33, "3"), key(33, 5, 0x34, "4"),
    key(34, 6, 0x35, "5"), key(35, 7, 0x36, "6"), key(36, 8, 0x37, "7"), key(37, 9, 0x38, "8"),
    key(38, 10, 0x39, "9"), key(39, 11, 0x30, "0"),
    key(40, 28, 0xff0d, "Return"), key(41, 1, 0xff1b, "Escape"), key(42, 14, 0xff08, "BackSpace"),
    key(43, 15, 0xff09, "Tab"), key(44, 57, 0x20, "space"), key(45, 12, 0x2d, "minus"),
    key(46, 13, 0x3d, "equal"),
    key(47, 26, 0x5b, "bracketleft"), key(48, 27, 0x5d, "bracketright"),
    key(49, 43, 0x5c, "backslash"),
    // The key left of Return on ISO keyboards is the same key to Linux as backslash.
    key(50, 43, 0x5c, "numbersign_iso"),
    key(51, 39, 0x3b, "semicolon"), key(52, 40, 0x27, "apostrophe"), key(53, 41, 0x60, "grave"),
    key(54, 51, 0x2c, "comma"), key(55, 52, 0x2e, "period"), key(56, 53, 0x2f, "slash"),
    key(57, 58, 0xffe5, "Caps_Lock"),
    key(58, 59, 0xffbe, "F1"), key(59, 60, 0xffbf, "F2"), key(60, 61, 0xffc0, "F3"),
    key(61, 62, 0xffc1, "F4"),
    key(62, 63, 0xffc2, "F5"), key(63, 64, 0xffc3, "F6"), key(64, 65, 0xffc4, "F7"),
    key(65, 66, 0xffc5, "F8"),
    key(66, 67, 0xffc6, "F9"), key(67, 68, 0xffc7, "F10"), key(68, 87, 0xffc8, "F11"),
    key(69, 88, 0xffc9, "F12"),
    key(70, 99, 0xff61, "Print"), key(71, 70, 0xff14, "Scroll_Lock"), key(72, 119, 0xff13, "Pause"),
    key(73, 110, 0xff63, "Insert"), key(74, 102, 0xff50, "Home"), key(75, 104, 0xff55, "Prior"),
    key(76, 111, 0xffff, "Delete"), key(77, 107, 0xff57, "End"), key(78, 109, 0xff56, "Next"),
    key(79, 106, 0xff53, "Right"), key(80, 105, 0xff51, "Left"), key(81, 108, 0xff54, "Down"),
    key(82, 103, 0xff52, "Up"),
    key(83, 69, 0xff7f, "Num_Lock"),
    key(84, 98, 0xffaf, "KP_Divide"), key(85, 55, 0xffaa, "KP_Multiply"),
    key(86, 74, 0xffad, "KP_Subtract"),
    key(87, 78, 0xffab, "KP_Add"), key(88, 96, 0xff8d, "KP_Enter"),
    key(89, 79, 0xffb1, "KP_1"), key(90, 80, 0xffb2, "KP_2"), key(91, 81, 0xffb3, "KP_3"),
    key(92, 75, 0xffb4, "KP_4"),
    key(93, 76, 0xffb5, "KP_5"), key(94, 77, 0xffb6, "KP_6"), key(95, 71, 0xffb7, "KP_7"),
    key(96, 72, 0xffb8, "KP_8"),
    key(97, 73, 0xffb9, "KP_9"), key(98, 82, 0xffb0, "KP_0"), key(99, 83, 0xffae, "KP_Decimal"),
    key(100, 86, 0x3c, "less"), key(101, 127, 0xff67, "Menu"),
    key(102, 116, 0x1008ff2a, "XF86PowerOff"),
    key(103, 117, 0xffbd, "KP_Equal"),
    key(104, 183, 0xffca, "F13"), key(105, 184, 0xffcb, "F14"), key(106, 185, 0xffcc, "F15"),
    key(107, 186, 0xffcd, "F16"),
    key(108, 187, 0xffce, "F17"), key(109, 188, 0xffcf, "F18"), key(110, 189, 0xffd0, "F19"),
    key(111, 190, 0xffd1, "F20"),
    key(112, 191, 0xffd2, "F21"), key(113, 192, 0xffd3, "F22"), key(114, 193, 0xffd4, "F23"),
    key(115, 194, 0xffd5, "F24"),
    key(116, 134, 0x1008ff6b, "XF86Open"), key(117, 138, 0xff6a, "Help"),
    key(118, 139, 0x1008ff65, "XF86MenuKB"),
    key(119, 353, 0xff60, "Select"), key(120, 128, 0x1008ff28, "XF86Stop"),
    key(121, 129, 0xff66, "Redo"),
    key(122, 131, 0xff65, "Undo"), key(123, 137, 0x1008ff58, "XF86Cut"),
    key(124, 133, 0x1008ff57, "XF86Copy"),
    key(125, 135, 0x1008ff6d, "XF86Paste"), key(126, 136, 0xff68, "Find"),
    key(127, 113, 0x1008ff12, "XF86AudioMute"), key(128, 115, 0x1008ff13, "XF86AudioRaiseVolume"),
    key(129, 114, 0x1008ff11, "XF86AudioLowerVolume"),
    key(133, 121, 0xffac, "KP_Separator"), key(134, 117, 0xffbd, "KP_Equal"),
    key(135, 89, 0x5c, "backslash_jp"), key(136, 93, 0xff27, "Hiragana_Katakana"),
    key(137, 124, 0xa5, "yen"),
    key(138, 92, 0xff23, "Henkan_Mode"), key(139, 94, 0xff22, "Muhenkan"),
    key(140, 95, 0xffac, "KP_Separator"),
    key(144, 122, 0xff31, "Hangul"), key(145, 123, 0xff34, "Hangul_Hanja"),
    key(146, 90, 0xff26, "Katakana"),
    key(147, 91, 0xff25, "Hiragana"), key(148, 85, 0xff2a, "Zenkaku_Hankaku"),
    key(153, 222, 0, "KEY_ALTERASE"), key(154, 99, 0xff15, "Sys_Req"),
    key(155, 223, 0xff69, "Cancel"),
    key(156, 355, 0xff0b, "Clear"), key(157, 104, 0xff55, "Prior"), key(158, 28, 0xff0d, "Return"),
    key(162, 355, 0xff0b, "Clear"),
    key(182, 179, 0x28, "parenleft"), key(183, 180, 0x29, "parenright"),
    key(215, 118, 0xb1, "plusminus"),
    key(224, 29, 0xffe3, "Control_L"), key(225, 42, 0xffe1, "Shift_L"),
    key(226, 56, 0xffe9, "Alt_L"),
    key(227, 125, 0xffeb, "Super_L"), key(228, 97, 0xffe4, "Control_R"),
    key(229, 54, 0xffe2, "Shift_R"),
    key(230, 100, 0xffea, "Alt_R"), key(231, 126, 0xffec, "Super_R"),
    key(257, 100, 0xfe03, "ISO_Level3_Shift"),
    key(258, 142, 0x1008ff2f, "XF86Sleep"), key(259, 143, 0x1008ff2b, "XF86WakeUp"),
    key(260, 402, 0, "KEY_CHANNELUP"), key(261, 403, 0, "KEY_CHANNELDOWN"),
    key(262, 207, 0x1008ff14, "XF86AudioPlay"), key(263, 201, 0x1008ff31, "XF86AudioPause"),
    key(264, 167, 0x1008ff1c, "XF86AudioRecord"), key(265, 208, 0x1008ff97, "XF86AudioForward"),
    key(266, 168, 0x1008ff3e, "XF86AudioRewind"), key(267, 163, 0x1008ff17, "XF86AudioNext"),
    key(268, 165, 0x1008ff16, "XF86AudioPrev"), key(269, 166, 0x1008ff15, "XF86AudioStop"),
    key(270, 161, 0x1008ff2c, "XF86Eject"), key(271, 164, 0x1008ff14, "XF86AudioPlay"),
    key(272, 226, 0x1008ff32, "XF86AudioMedia"),
    key(273, 181, 0x1008ff68, "XF86New"), key(274, 134, 0x1008ff6b, "XF86Open"),
    key(275, 206, 0x1008ff56, "XF86Close"),
    key(276, 174, 0, "KEY_EXIT"), key(277, 234, 0x1008ff77, "XF86Save"),
    key(278, 210, 0xff61, "Print"),
    key(279, 130, 0x1005ff70, "SunProps"), key(280, 217, 0x1008ff1b, "XF86Search"),
    key(281, 172, 0x1008ff18, "XF86HomePage"), key(282, 158, 0x1008ff26, "XF86Back"),
    key(283, 159, 0x1008ff27, "XF86Forward"), key(284, 128, 0x1008ff28, "XF86Stop"),
    key(285, 173, 0x1008ff73, "XF86Reload"), key(286, 156, 0x1008ff30, "XF86Favorites"),
    key(289, 169, 0x1008ff6e, "XF86Phone"),
];

impl Key {
    /// True for a key of the main block that produces a character in any layout.
    pub(crate) fn produces_character(&self) -> bool {
        matches!(self.scancode, 4..=39 | 45..=56 | 100 | 135 | 137)
    }
}

/// True for an SDL keycode that is only a scancode.
pub(crate) fn is_scancode(keycode: u32) -> bool {
    keycode & SDLK_SCANCODE_MASK != 0
}

/// The key with this SDL scancode.
pub(crate) fn by_scancode(scancode: u16) -> Option<&'static Key> {
    KEYS.binary_search_by_key(&scancode, |k| k.scancode).ok().map(|i| &KEYS[i])
}

/// The key with this name (`Return`, `F5`, `Control_L`, `a`), ignoring case.
pub fn by_name(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name).or_else(|| {
        let short = match name.to_ascii_lowercase().as_str() {
            "ctrl" | "control" => "Control_L",
            "shift" => "Shift_L",
            "alt" => "Alt_L",
            "super" | "win" | "meta" => "Super_L",
            "altgr" => "ISO_Level3_Shift",
            "enter" => "Return",
            "esc" => "Escape",
            "pageup" | "page_up" => "Prior",
            "pagedown" | "page_down" => "Next",
            "del" => "Delete",
            _ => return KEYS.iter().find(|k| k.name.eq_ignore_ascii_case(name)),
        };
        KEYS.iter().find(|k| k.name == short)
    })
}

/// The key of a character on a US keyboard, and whether Shift is needed.
pub(crate) fn us_place(character: char) -> Option<(&'static Key, bool)> {
    /// Shifted characters of keys other than A to Z.
    const SHIFTED: &[(char, char)] = &[
        ('!', '1'),
        ('@', '2'),
        ('#', '3'),
        ('$', '4'),
        ('%', '5'),
        ('^', '6'),
        ('&', '7'),
        ('*', '8'),
        ('(', '9'),
        (')', '0'),
        ('_', '-'),
        ('+', '='),
        ('{', '['),
        ('}', ']'),
        ('|', '\\'),
        (':', ';'),
        ('"', '\''),
        ('~', '`'),
        ('<', ','),
        ('>', '.'),
        ('?', '/'),
    ];
    let (base, shift) = match character {
        '\n' | '\r' => return by_name("Return").map(|k| (k, false)),
        '\t' => return by_name("Tab").map(|k| (k, false)),
        'A'..='Z' => (character.to_ascii_lowercase(), true),
        _ => match SHIFTED.iter().find(|(shifted, _)| *shifted == character) {
            Some((_, base)) => (*base, true),
            None => (character, false),
        },
    };
    let keysym = keysym_of_char(base)?;
    // Scancodes up to 56 are the main block, so that digits are not found on the keypad.
    KEYS.iter()
        .find(|k| k.keysym == keysym && k.scancode <= 56 && k.scancode != 50)
        .map(|k| (k, shift))
}

/// X keysym of a character: Latin-1 is itself, the rest is 0x01000000 + code point (X11 protocol,
/// appendix A). Control characters have none here: their keys have names.
pub(crate) fn keysym_of_char(character: char) -> Option<u32> {
    match character as u32 {
        cp @ (0x20..=0x7e | 0xa0..=0xff) => Some(cp),
        0..=0x9f => None,
        // The euro sign and a few other characters have older keysyms; every X library accepts the
        // Unicode form too.
        cp => Some(0x0100_0000 + cp),
    }
}

/// True for Shift, Control, Alt, Super and others, and for the shifts of ISO 9995.
pub(crate) fn is_modifier(keysym: u32) -> bool {
    matches!(keysym, 0xffe1..=0xffee | 0xfe01..=0xfe13 | 0xff7e)
}

/// Keysyms of the keypad while Num Lock is off.
fn keypad_without_num_lock(keysym: u32) -> u32 {
    match keysym {
        0xffae => 0xff9f, // KP_Decimal → KP_Delete
        0xffb0 => 0xff9e, // KP_Insert
        0xffb1 => 0xff9c, // KP_End
        0xffb2 => 0xff99, // KP_Down
        0xffb3 => 0xff9b, // KP_Next
        0xffb4 => 0xff96, // KP_Left
        0xffb5 => 0xff9d, // KP_Begin
        0xffb6 => 0xff98, // KP_Right
        0xffb7 => 0xff95, // KP_Home
        0xffb8 => 0xff97, // KP_Up
        0xffb9 => 0xff9a, // KP_Prior
        other => other,
    }
}

/// SDL's flag of a keycode that is a scancode, not a character.
const SDLK_SCANCODE_MASK: u32 = 1 << 30;
/// SDL's flag of keycodes that exist in X and not in USB HID.
const SDLK_EXTENDED_MASK: u32 = 1 << 29;

/// The keysym of an SDL keycode under the viewer's layout and modifiers; 0 if it has none.
pub(crate) fn keysym_of_keycode(keycode: u32, num_lock: bool) -> u32 {
    if keycode & SDLK_SCANCODE_MASK != 0 {
        let keysym = by_scancode((keycode & 0xffff) as u16).map_or(0, |k| k.keysym);
        return if num_lock { keysym } else { keypad_without_num_lock(keysym) };
    }
    if keycode & SDLK_EXTENDED_MASK != 0 {
        return match keycode & 0xffff {
            1 => 0xfe20, // ISO_Left_Tab
            2 => 0xfe11, // ISO_Level5_Shift
            3 => 0xff20, // Multi_key
            4 => 0xffe7, // Meta_L
            5 => 0xffe8, // Meta_R
            6 => 0xffed, // Hyper_L
            7 => 0xffee, // Hyper_R
            _ => 0,
        };
    }
    match keycode {
        0x08 => 0xff08,
        0x09 => 0xff09,
        0x0d => 0xff0d,
        0x1b => 0xff1b,
        0x7f => 0xffff,
        _ => char::from_u32(keycode).and_then(keysym_of_char).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn table_is_sorted_and_each_scancode_stands_once() {
        for pair in KEYS.windows(2) {
            assert!(pair[0].scancode < pair[1].scancode, "{:?} before {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn two_scancodes_share_a_code_only_where_linux_has_one_key_for_both() {
        let mut by_code: HashMap<u16, Vec<u16>> = HashMap::new();
        for k in KEYS {
            by_code.entry(k.code).or_default().push(k.scancode);
        }
        let shared: HashSet<Vec<u16>> = by_code.into_values().filter(|s| s.len() > 1).collect();
        let expected: HashSet<Vec<u16>> = [
            vec![49, 50],
            vec![40, 158],
            vec![75, 157],
            vec![70, 154],
            vec![103, 134],
            vec![116, 274],
            vec![120, 284],
            vec![156, 162],
            vec![230, 257],
        ]
        .into();
        assert_eq!(shared, expected);
    }

    #[test]
    fn codes_are_those_of_the_kernels_header() {
        // From linux/input-event-codes.h: one key of each block of the keyboard.
        for (name, code) in [
            ("Escape", 1),
            ("1", 2),
            ("0", 11),
            ("q", 16),
            ("p", 25),
            ("Return", 28),
            ("a", 30),
            ("l", 38),
            ("grave", 41),
            ("z", 44),
            ("slash", 53),
            ("space", 57),
            ("F1", 59),
            ("F10", 68),
            ("F11", 87),
            ("F12", 88),
            ("F24", 194),
            ("KP_7", 71),
            ("KP_Enter", 96),
            ("less", 86),
            ("Home", 102),
            ("Up", 103),
            ("Delete", 111),
            ("Super_L", 125),
            ("Menu", 127),
            ("XF86AudioMute", 113),
        ] {
            assert_eq!(by_name(name).map(|k| k.code), Some(code), "{name}");
        }
    }

    #[test]
    fn every_printable_ascii_character_has_a_place_on_a_us_keyboard() {
        let mut seen = HashSet::new();
        for c in ' '..='~' {
            let (key, shift) = us_place(c).unwrap_or_else(|| panic!("{c:?} has no place"));
            assert!(seen.insert((key.code, shift)), "{c:?} has the key of another character");
        }
        assert_eq!(us_place('A').map(|(k, s)| (k.code, s)), Some((30, true)));
        assert_eq!(us_place('5').map(|(k, s)| (k.code, s)), Some((6, false)), "not the keypad's");
        assert_eq!(us_place('é'), None);
    }

    #[test]
    fn keysyms_follow_the_x_protocol() {
        assert_eq!(keysym_of_char('a'), Some(0x61));
        assert_eq!(keysym_of_char('é'), Some(0xe9));
        assert_eq!(keysym_of_char('й'), Some(0x0100_0439));
        assert_eq!(keysym_of_char('€'), Some(0x0100_20ac));
        assert_eq!(keysym_of_char('\u{7}'), None);
        assert_eq!(keysym_of_keycode('é' as u32, true), 0xe9);
        assert_eq!(keysym_of_keycode(0x0d, true), 0xff0d);
        assert_eq!(keysym_of_keycode(0x7f, true), 0xffff);
        assert_eq!(keysym_of_keycode((1 << 30) | 82, true), 0xff52, "Up");
        assert_eq!(keysym_of_keycode((1 << 30) | 95, true), 0xffb7, "KP_7 with Num Lock");
        assert_eq!(keysym_of_keycode((1 << 30) | 95, false), 0xff95, "KP_Home without");
        assert_eq!(keysym_of_keycode((1 << 29) | 1, true), 0xfe20, "ISO_Left_Tab");
        assert_eq!(keysym_of_keycode(0, true), 0);
    }

    #[test]
    fn names_have_their_everyday_forms() {
        assert_eq!(by_name("ctrl").map(|k| k.code), Some(29));
        assert_eq!(by_name("return").map(|k| k.code), Some(28));
        assert_eq!(by_name("PageDown").map(|k| k.code), Some(109));
        assert_eq!(by_name("nosuchkey"), None);
    }
}
