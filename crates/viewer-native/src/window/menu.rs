//! The viewer's menu over the framebuffer: keys that the local desktop would intercept, and the
//! window's commands.
//! Path back, beside keyboard.rs: while the menu is open, keys select from it and none is sent to
//! the session. Knows names of keys and commands; never SDL, the connection or pixels.

use super::shortcuts::{Command, FilesCommand};
use super::zoom::Step;

/// Effect of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Presses these keys in the session, and releases them.
    Send(&'static [&'static str]),
    /// Runs a command of the viewer.
    Do(Command),
    /// Closes the menu.
    Close,
}

/// Key, label and effect of each choice.
const CHOICES: &[(char, &str, Choice)] = &[
    ('1', "Ctrl+Alt+Del", Choice::Send(&["Control_L", "Alt_L", "Delete"])),
    ('2', "Alt+Tab", Choice::Send(&["Alt_L", "Tab"])),
    ('3', "Alt+F4", Choice::Send(&["Alt_L", "F4"])),
    ('4', "Super", Choice::Send(&["Super_L"])),
    ('5', "Print", Choice::Send(&["Print"])),
    ('6', "Ctrl+Esc", Choice::Send(&["Control_L", "Escape"])),
    ('f', "Toggle fullscreen", Choice::Do(Command::Fullscreen)),
    ('g', "Toggle keyboard grab", Choice::Do(Command::Grab)),
    ('p', "Let an application capture the pointer, or release it", Choice::Do(Command::Capture)),
    (
        'b',
        "Alt and Super with the mouse: for the session, or your desktop",
        Choice::Do(Command::ModifiedButtons),
    ),
    ('s', "Toggle statistics", Choice::Do(Command::Statistics)),
    ('e', "Show lossy areas", Choice::Do(Command::LossyAreas)),
    (
        'i',
        "Zoom in at the pointer; also Ctrl+Alt and +, arrows pan",
        Choice::Do(Command::Zoom(Step::In)),
    ),
    ('o', "Zoom out; also -", Choice::Do(Command::Zoom(Step::Out))),
    ('n', "Reset zoom; also 0", Choice::Do(Command::Zoom(Step::Reset))),
    ('c', "What is copied to and from the session", Choice::Do(Command::Copying)),
    (
        'y',
        "Receive the files that the session sends",
        Choice::Do(Command::Files(FilesCommand::Take)),
    ),
    (
        'x',
        "Refuse them, or cancel all transfers of files",
        Choice::Do(Command::Files(FilesCommand::Stop)),
    ),
    ('t', "How far transfers of files are", Choice::Do(Command::Files(FilesCommand::Show))),
    ('v', "Mute the session's sound, or hear it again", Choice::Do(Command::Mute)),
    (',', "Softer", Choice::Do(Command::Volume(-1))),
    ('.', "Louder", Choice::Do(Command::Volume(1))),
    (
        'k',
        "Microphone for programs that record: off at once, or on again",
        Choice::Do(Command::Microphone),
    ),
    ('u', "People in this session; invite somebody", Choice::Do(Command::People)),
    ('q', "Close the viewer; the session goes on", Choice::Do(Command::Quit)),
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

/// The menu's text; `players` are the programs that play.
pub(super) fn text(players: &[String]) -> String {
    let mut text = "Send keys to the session\n".to_owned();
    for (key, words, choice) in CHOICES {
        if *key == 'f' {
            text +=
                " F1 to F12  Ctrl+Alt+F1 to Ctrl+Alt+F12\n\nViewer commands, also with Ctrl+Alt\n";
        }
        debug_assert!(*choice != Choice::Close, "Escape closes");
        text += &format!(" {}  {words}\n", key.to_ascii_uppercase());
        if *choice == Choice::Do(Command::Volume(1)) && !players.is_empty() {
            text += &format!("    Playing: {}\n", players.join(", "));
        }
    }
    text + "\n Esc  Close this menu"
}

/// The choice of a key. None: no choice, and the menu stays open.
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
    fn every_choice_is_in_the_menu_and_its_keys_exist() {
        let text = text(&["Firefox".into(), "mpv".into()]);
        assert!(text.contains(" .  Louder\n    Playing: Firefox, mpv\n"));
        for (key, words, choice) in CHOICES {
            assert!(text.contains(&format!(" {}  {words}\n", key.to_ascii_uppercase())), "{words}");
            assert_eq!(choose(Pressed::Character(key.to_ascii_uppercase())), Some(*choice));
            if let Choice::Send(names) = choice {
                assert!(names.iter().all(|name| keys::by_name(name).is_some()), "{names:?}");
            }
        }
        for number in 1..=12 {
            let Some(Choice::Send(names)) = choose(Pressed::Function(number)) else {
                panic!("F{number}")
            };
            assert_eq!(names.last(), Some(&format!("F{number}").as_str()));
        }
        assert_eq!(choose(Pressed::Function(13)), None);
        assert_eq!(choose(Pressed::Character('z')), None);
        assert_eq!(choose(Pressed::Other), Some(Choice::Close));
    }
}
