//! The viewer's own menu, over the picture: keys that the desktop here would keep, and what the window can do.
//! Beside the first step back: while it is open, keys choose from it and none goes to the session.
//! Knows names of keys and commands; never SDL, the connection or pixels.

use super::Command;
use super::zoom::Step;

/// What a choice does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// These keys are pressed in the session, and released.
    Send(&'static [&'static str]),
    /// The viewer does it.
    Do(Command),
    /// The menu closes.
    Close,
}

/// The key that chooses, what the menu says, and what happens.
const CHOICES: &[(char, &str, Choice)] = &[
    ('1', "Ctrl+Alt+Del", Choice::Send(&["Control_L", "Alt_L", "Delete"])),
    ('2', "Alt+Tab", Choice::Send(&["Alt_L", "Tab"])),
    ('3', "Alt+F4", Choice::Send(&["Alt_L", "F4"])),
    ('4', "Super", Choice::Send(&["Super_L"])),
    ('5', "Print", Choice::Send(&["Print"])),
    ('6', "Ctrl+Esc", Choice::Send(&["Control_L", "Escape"])),
    ('f', "fullscreen on and off", Choice::Do(Command::Fullscreen)),
    ('g', "the desktop's keys go to the session, or no longer", Choice::Do(Command::Grab)),
    ('s', "statistics on and off", Choice::Do(Command::Statistics)),
    ('e', "hatch what is not exact yet", Choice::Do(Command::Hatch)),
    ('i', "zoom in, at the pointer; Ctrl+Alt and + as well, and arrows pan", Choice::Do(Command::Zoom(Step::In))),
    ('o', "zoom out; -", Choice::Do(Command::Zoom(Step::Out))),
    ('n', "as large as it is; 0", Choice::Do(Command::Zoom(Step::Reset))),
    ('q', "close the viewer; the session goes on", Choice::Do(Command::Quit)),
];

/// Ctrl+Alt+F1 to F12, which switch between the consoles of a machine.
const FUNCTION_KEYS: [[&str; 3]; 12] = [
    ["Control_L", "Alt_L", "F1"],
    ["Control_L", "Alt_L", "F2"],
    ["Control_L", "Alt_L", "F3"],
    ["Control_L", "Alt_L", "F4"],
    ["Control_L", "Alt_L", "F5"],
    ["Control_L", "Alt_L", "F6"],
    ["Control_L", "Alt_L", "F7"],
    ["Control_L", "Alt_L", "F8"],
    ["Control_L", "Alt_L", "F9"],
    ["Control_L", "Alt_L", "F10"],
    ["Control_L", "Alt_L", "F11"],
    ["Control_L", "Alt_L", "F12"],
];

/// A key that was pressed while the menu is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// A key with this character.
    Character(char),
    /// F1 is 1.
    Function(usize),
    /// Escape, or any other.
    Other,
}

/// What the menu says.
pub(super) fn text() -> String {
    let mut text = "Keys for the session\n".to_owned();
    for (key, words, choice) in CHOICES {
        if *key == 'f' {
            text += " F1 to F12  Ctrl+Alt+F1 to Ctrl+Alt+F12\n\nThe viewer, also with Ctrl+Alt\n";
        }
        debug_assert!(*choice != Choice::Close, "Escape closes");
        text += &format!(" {}  {words}\n", key.to_ascii_uppercase());
    }
    text + "\n Esc  closes this menu"
}

/// What a key chooses. None: nothing, and the menu stays.
pub(super) fn choose(pressed: Pressed) -> Option<Choice> {
    match pressed {
        Pressed::Character(character) => {
            let found = CHOICES.iter().find(|(key, ..)| *key == character.to_ascii_lowercase());
            found.map(|(.., choice)| *choice)
        }
        Pressed::Function(number) => {
            FUNCTION_KEYS.get(number.wrapping_sub(1)).map(|keys| Choice::Send(keys.as_slice()))
        }
        Pressed::Other => Some(Choice::Close),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn every_choice_stands_in_the_menu_once_and_its_keys_exist() {
        let text = text();
        for (key, words, choice) in CHOICES {
            assert!(text.contains(&format!(" {}  {words}\n", key.to_ascii_uppercase())), "{words}");
            assert_eq!(choose(Pressed::Character(key.to_ascii_uppercase())), Some(*choice));
            if let Choice::Send(names) = choice {
                assert!(names.iter().all(|name| keys::by_name(name).is_some()), "{names:?}");
            }
        }
        for number in 1..=12 {
            let Some(Choice::Send(names)) = choose(Pressed::Function(number)) else { panic!("F{number}") };
            assert_eq!(names.last(), Some(&format!("F{number}").as_str()));
        }
        assert_eq!(choose(Pressed::Function(13)), None);
        assert_eq!(choose(Pressed::Character('z')), None);
        assert_eq!(choose(Pressed::Other), Some(Choice::Close));
    }
}
