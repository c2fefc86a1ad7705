//! The viewer's menu over the framebuffer: what sound, microphone, files and the like do now, the
//! window's commands, and keys that the local desktop would intercept.
//! Path back, beside keyboard.rs: while the menu is open, keys select from it and none is sent to
//! the session. Knows rows, names of keys and commands; the states' words are entries.rs'.

use sdl3::keyboard::{Keycode, Mod};
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};

use super::App;
use super::drawing::{Placed, in_middle};
use super::entries::{self, Entry};
use super::people::{self, PeoplePage};
use super::shortcuts::{Command, FilesCommand, is_modifier};
use super::zoom::Step;
use crate::client::State;
use crate::keys;
use crate::overlay::Panel;
use crate::people::PeopleList;

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

impl Choice {
    /// Whether the menu stays, and shows the new state.
    fn keeps_menu(self) -> bool {
        matches!(
            self,
            Choice::Do(
                Command::Mute
                    | Command::Volume(_)
                    | Command::Microphone
                    | Command::Copying
                    | Command::Quality
                    | Command::Stereo
            )
        )
    }
}

/// A row of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// How something is now; choosing it does nothing.
    Says(Entry),
    /// What belongs to the row before, and is never another.
    Note(&'static str),
    /// A heading, which cannot be selected.
    Head(&'static str),
    /// A key, its words and its effect.
    Key(char, &'static str, Choice),
    /// F1 to F12 send.
    Functions,
}

const TITLE: &str = "Menu: arrows and Enter, a key or a click. Esc closes it";

/// In the order of the page's menu (web/index.html).
const ROWS: &[Row] = &[
    Row::Says(Entry::Sound),
    Row::Key('v', "Mute, or hear it again", Choice::Do(Command::Mute)),
    Row::Key(',', "Softer", Choice::Do(Command::Volume(-1))),
    Row::Key('.', "Louder", Choice::Do(Command::Volume(1))),
    Row::Says(Entry::Microphone),
    Row::Key('k', "Off at once, or on again", Choice::Do(Command::Microphone)),
    Row::Note("Webcams are not supported: programs of the session find none"),
    Row::Says(Entry::Files),
    Row::Key('t', "How far transfers are", Choice::Do(Command::Files(FilesCommand::Show))),
    Row::Key('y', "Receive what the session sends", Choice::Do(Command::Files(FilesCommand::Take))),
    Row::Key('x', "Refuse it, or cancel all", Choice::Do(Command::Files(FilesCommand::Stop))),
    Row::Says(Entry::Printing),
    Row::Says(Entry::Sharing),
    Row::Key('u', "People in this session; invite somebody", Choice::Do(Command::People)),
    Row::Says(Entry::Copying),
    Row::Key('c', "Change what is copied", Choice::Do(Command::Copying)),
    Row::Says(Entry::Quality),
    Row::Key('h', "Change how good moving pictures are", Choice::Do(Command::Quality)),
    Row::Key('a', "Show exactly what is there now", Choice::Do(Command::ExactFrame)),
    Row::Says(Entry::Stereo),
    Row::Key('w', "Change how stereo programs are shown", Choice::Do(Command::Stereo)),
    Row::Head("View and input; these keys also work with Ctrl+Alt, without the menu"),
    Row::Key('f', "Toggle fullscreen", Choice::Do(Command::Fullscreen)),
    Row::Key('g', "Toggle keyboard grab", Choice::Do(Command::Grab)),
    Row::Key(
        'p',
        "Let an application capture the pointer, or release it",
        Choice::Do(Command::Capture),
    ),
    Row::Key(
        'b',
        "Alt and Super with the mouse: for the session, or your desktop",
        Choice::Do(Command::ModifiedButtons),
    ),
    Row::Key('s', "Toggle statistics", Choice::Do(Command::Statistics)),
    Row::Key('e', "Show lossy areas", Choice::Do(Command::LossyAreas)),
    Row::Key(
        'i',
        "Zoom in at the pointer; also Ctrl+Alt and +, arrows pan",
        Choice::Do(Command::Zoom(Step::In)),
    ),
    Row::Key('o', "Zoom out; also -", Choice::Do(Command::Zoom(Step::Out))),
    Row::Key('n', "Reset zoom; also 0", Choice::Do(Command::Zoom(Step::Reset))),
    Row::Head("Send keys to the session"),
    Row::Key('1', "Ctrl+Alt+Del", Choice::Send(&["Control_L", "Alt_L", "Delete"])),
    Row::Key('2', "Alt+Tab", Choice::Send(&["Alt_L", "Tab"])),
    Row::Key('3', "Alt+F4", Choice::Send(&["Alt_L", "F4"])),
    Row::Key('4', "Super", Choice::Send(&["Super_L"])),
    Row::Key('5', "Print", Choice::Send(&["Print"])),
    Row::Key('6', "Ctrl+Esc", Choice::Send(&["Control_L", "Escape"])),
    Row::Functions,
    Row::Key('q', "Close the viewer; the session goes on", Choice::Do(Command::Quit)),
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

impl Row {
    /// It is of no use without stereo programs, which are rare.
    fn is_of_stereo(self) -> bool {
        matches!(self, Row::Says(Entry::Stereo) | Row::Key(_, _, Choice::Do(Command::Stereo)))
    }

    fn choice(self) -> Option<Choice> {
        match self {
            Row::Key(_, _, choice) => Some(choice),
            Row::Says(_) | Row::Note(_) | Row::Head(_) | Row::Functions => None,
        }
    }

    /// Where its words begin, and the words.
    fn text(self, say: &impl Fn(Entry) -> String) -> (String, String) {
        let indent = |key: &str| format!(" {key:<2} ");
        match self {
            Row::Says(entry) => (indent(""), format!("{}: {}", entry.name(), say(entry))),
            Row::Note(words) => (indent("") + "  ", words.to_owned()),
            Row::Head(words) => (" ".to_owned(), words.to_owned()),
            Row::Key(key, words, _) => {
                (indent(&key.to_ascii_uppercase().to_string()) + "  ", words.to_owned())
            }
            Row::Functions => {
                (indent("Fn") + "  ", "F1 to F12: Ctrl+Alt+F1 to Ctrl+Alt+F12".to_owned())
            }
        }
    }
}

/// A key that was pressed while the menu is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// A key with this character.
    Character(char),
    /// F1 is 1.
    Function(usize),
    /// To another row, by so many.
    Move(isize),
    /// The selected row.
    Enter,
    /// Escape, or any other.
    Other,
}

/// What a line of the drawn menu belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Row(usize),
    /// Rows before or after those that are shown, as `Pressed::Move` counts.
    More(isize),
    Title,
}

/// 8 rows: how far a press on a line that stands for more goes.
const MORE: isize = 8;

/// The open menu.
#[derive(Debug, Default)]
pub(super) struct Menu {
    /// The selected row.
    at: usize,
    /// Stereo programs are, or were, shown since it was opened.
    has_stereo: bool,
    /// Where it was drawn, in pixels of the window, and with which dots.
    place: Rect,
    dot: u32,
    /// Its lines.
    targets: Vec<Target>,
}

impl Menu {
    fn is_shown(&self, row: Row) -> bool {
        self.has_stereo || !row.is_of_stereo()
    }

    /// The choice of a key. None: no choice, and the menu stays open.
    pub(super) fn handle(&mut self, pressed: Pressed) -> Option<Choice> {
        match pressed {
            Pressed::Character(character) => {
                let is_it = |row: &&Row| match row {
                    Row::Key(key, ..) => *key == character.to_ascii_lowercase(),
                    _ => false,
                };
                let row = ROWS.iter().find(is_it).filter(|row| self.is_shown(**row));
                row.and_then(|row| row.choice())
            }
            Pressed::Function(number) => {
                FUNCTION_KEYS.get(number.wrapping_sub(1)).map(|keys| Choice::Send(keys.as_slice()))
            }
            Pressed::Move(rows) => {
                let last = ROWS.len() - 1;
                let mut at = self.at.saturating_add_signed(rows).min(last);
                while matches!(ROWS[at], Row::Head(_)) || !self.is_shown(ROWS[at]) {
                    // Neither the first row nor the last is a heading, or may be missing.
                    at = at.saturating_add_signed(rows.signum());
                }
                self.at = at;
                None
            }
            Pressed::Enter => ROWS[self.at].choice(),
            Pressed::Other => Some(Choice::Close),
        }
    }

    /// The choice of a press at a point of the window.
    fn press(&mut self, x: i32, y: i32) -> Option<Choice> {
        if !self.place.contains_point(x, y) {
            return Some(Choice::Close);
        }
        let line = Panel::line_at(self.dot, y - self.place.y1)?;
        match *self.targets.get(line)? {
            Target::Row(at) => {
                if !matches!(ROWS[at], Row::Head(_)) {
                    self.at = at;
                }
                ROWS[at].choice()
            }
            Target::More(rows) => self.handle(Pressed::Move(rows)),
            Target::Title => None,
        }
    }

    /// What the selected row says: its key, if it has one, and its words.
    pub(super) fn selected(&self, say: &impl Fn(Entry) -> String) -> String {
        let (indent, words) = ROWS[self.at].text(say);
        match indent.trim() {
            "" => words,
            key => format!("{key}: {words}"),
        }
    }

    /// The menu in this many columns and lines: where it does not fit, the part round the selected
    /// row.
    fn lines(
        &self,
        say: &impl Fn(Entry) -> String,
        columns: usize,
        lines: usize,
    ) -> Vec<(Target, String)> {
        let wrapped = |target, indent: &str, words: &str| {
            let lines = wrap(indent, words, columns).into_iter();
            lines.map(move |line| (target, line)).collect::<Vec<_>>()
        };
        let mut shown = wrapped(Target::Title, "", TITLE);
        let (mut all, mut selected) = (Vec::new(), 0..0);
        for (at, row) in ROWS.iter().enumerate().filter(|(_, row)| self.is_shown(**row)) {
            let first = all.len();
            let (mut indent, words) = row.text(say);
            if at == self.at {
                indent.replace_range(..1, ">");
            }
            all.extend(wrapped(Target::Row(at), &indent, &words));
            if at == self.at {
                selected = first..all.len();
            }
        }
        let room = lines.saturating_sub(shown.len()).max(1);
        if all.len() > room {
            // A line at each end that is cut says so, and the selected row is between them.
            let most = all.len() - room;
            let middle = selected.start + selected.len().div_ceil(2);
            let first = middle.saturating_sub(room / 2).min(most);
            if first > 0 {
                all[first] = (Target::More(-MORE), " ^  more".to_owned());
            }
            if first < most {
                all[first + room - 1] = (Target::More(MORE), " v  more".to_owned());
            }
            all = all.split_off(first);
            all.truncate(room);
        }
        shown.extend(all);
        shown
    }
}

/// Lines of at most so many columns, broken between words; the later ones begin where the words of
/// the first do.
fn wrap(indent: &str, words: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line, mut is_begun) = (Vec::new(), indent.to_owned(), false);
    for word in words.split(' ') {
        if is_begun && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent.chars().count())));
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    lines.push(line);
    lines
}

/// Whether this key selects another row of the menu.
pub(super) fn moves(keycode: Option<Keycode>) -> bool {
    matches!(
        keycode,
        Some(Keycode::Up | Keycode::Down | Keycode::Left | Keycode::Right | Keycode::Tab)
    )
}

/// The menu and its page of people, while they are open.
#[derive(Debug, Default)]
pub(super) struct Menus {
    menu: Option<Menu>,
    page: Option<PeoplePage>,
}

impl Menus {
    pub(super) fn is_open(&self) -> bool {
        self.menu.is_some()
    }

    /// Opens the menu, with a page of it.
    pub(super) fn open(&mut self, page: Option<PeoplePage>) {
        *self = Menus { menu: Some(Menu::default()), page };
    }

    pub(super) fn close(&mut self) {
        *self = Menus::default();
    }

    /// The windows have lost the focus. An answer to what the page has asked for still counts.
    pub(super) fn hide(&mut self) {
        self.menu = None;
    }

    /// The page, if there is one.
    pub(super) fn page(&mut self) -> Option<&mut PeoplePage> {
        self.page.as_mut()
    }

    /// The choice of a key.
    fn handle(&mut self, pressed: Pressed) -> Option<Choice> {
        self.menu.as_mut()?.handle(pressed)
    }

    /// The choice of a press at a point of the window; None: of one elsewhere.
    fn press(&mut self, at: Option<(i32, i32)>) -> Option<Choice> {
        let menu = self.menu.as_mut()?;
        at.map_or(Some(Choice::Close), |(x, y)| menu.press(x, y))
    }

    /// Draws what is open; returns the panel, and what it says of itself.
    fn draw(
        &mut self,
        people: &PeopleList,
        (say, has_stereo): (&impl Fn(Entry) -> String, bool),
        window: Size,
        dot: u32,
    ) -> Option<(Placed, String)> {
        let menu = self.menu.as_mut()?;
        menu.has_stereo |= has_stereo;
        let (lines, said) = match &self.page {
            Some(page) => {
                let text = page.text(people, people::since_1970_s());
                (vec![(Target::Title, text)], "People in this session".to_owned())
            }
            None => {
                let columns = Panel::columns(dot, window.width);
                let lines = menu.lines(say, columns, Panel::lines(dot, window.height));
                (lines, menu.selected(say))
            }
        };
        let (targets, lines): (_, Vec<String>) = lines.into_iter().unzip();
        let panel = Panel::draw_within(&lines.join("\n"), dot, window.width);
        let x = in_middle(window.width, panel.size.width);
        let y = in_middle(window.height, panel.size.height);
        let place = panel.size.rect().translate(x, y);
        *menu = Menu { place, dot, targets, ..*menu };
        Some(((panel, x, y), said))
    }
}

impl App<'_> {
    /// A key was pressed while the menu is open.
    pub(super) fn choose(&mut self, keycode: Option<Keycode>, keymod: Mod) {
        let number = keycode.map_or(0, |keycode| keycode as i32).cast_unsigned();
        let function = keys::by_scancode((number & 0xffff) as u16)
            .and_then(|key| key.name.strip_prefix('F')?.parse().ok());
        let back = keymod.intersects(Mod::LSHIFTMOD | Mod::RSHIFTMOD);
        let pressed = match (keycode, function) {
            (Some(keycode), _) if is_modifier(keycode) => return,
            (Some(Keycode::Up | Keycode::Left), _) => Pressed::Move(-1),
            (Some(Keycode::Down | Keycode::Right), _) => Pressed::Move(1),
            (Some(Keycode::Tab), _) => Pressed::Move(if back { -1 } else { 1 }),
            (Some(Keycode::Home), _) => Pressed::Move(-(ROWS.len() as isize)),
            (Some(Keycode::End), _) => Pressed::Move(ROWS.len() as isize),
            (Some(Keycode::Return | Keycode::KpEnter | Keycode::Space), _) => Pressed::Enter,
            (_, Some(function)) if keys::is_scancode(number) => Pressed::Function(function),
            _ => char::from_u32(number)
                .filter(|character| character.is_ascii_graphic())
                .map_or(Pressed::Other, Pressed::Character),
        };
        if self.menus.page().is_some() {
            return self.choose_people(pressed);
        }
        self.drawing.redraw();
        if let Some(choice) = self.menus.handle(pressed) {
            self.carry_out(choice);
        }
    }

    /// A mouse button or a finger was pressed at a point of a window while the menu is open.
    pub(super) fn press_menu(&mut self, window_id: u32, x: f32, y: f32) {
        let is_front = self.windows.pane_of(window_id) == Some(self.windows.front_index());
        let density = self.windows.front().window().pixel_density();
        let (x, y) = ((x * density) as i32, (y * density) as i32);
        self.drawing.redraw();
        if let Some(choice) = self.menus.press(is_front.then_some((x, y))) {
            self.carry_out(choice);
        }
    }

    fn carry_out(&mut self, choice: Choice) {
        if !choice.keeps_menu() {
            self.menus.close();
        }
        match choice {
            Choice::Send(names) => {
                let keys: Vec<_> = names.iter().filter_map(|name| keys::by_name(name)).collect();
                let event = |key: &keys::Key, down| InputEvent::Key {
                    code: key.code,
                    keysym: key.keysym,
                    down,
                };
                keys.iter().for_each(|key| self.send(event(key, true)));
                keys.iter().rev().for_each(|key| self.send(event(key, false)));
            }
            Choice::Do(command) => self.handle_command(command),
            Choice::Close => {}
        }
    }

    /// Draws the menu, and says its selected row in the window's title, which screen readers read.
    pub(super) fn draw_menu(&mut self, state: &State, window: Size, dot: u32) -> Option<Placed> {
        let say = |entry| entries::words_of(entry, state).to_string();
        let drawn = if self.messages.hides_others() {
            None
        } else {
            let said = (&say, state.offers_stereo());
            self.menus.draw(state.session.people(), said, window, dot)
        };
        let (panel, said) = drawn.unzip();
        if self.titles.set_menu(&said.unwrap_or_default()) {
            self.windows.set_titles(&self.titles);
        }
        panel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(entry: Entry) -> String {
        format!("the state of {entry:?}")
    }

    fn with_stereo() -> Menu {
        Menu { has_stereo: true, ..Menu::default() }
    }

    fn text(menu: &Menu, columns: usize, lines: usize) -> String {
        let lines = menu.lines(&say, columns, lines);
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_row_is_in_the_menu_in_order_and_its_keys_exist() {
        let mut menu = with_stereo();
        let text = text(&menu, 100, 42);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], TITLE);
        assert_eq!(lines.len(), 1 + ROWS.len(), "one line each: {text}");
        assert_eq!(lines[1], ">   Sound: the state of Sound");
        assert_eq!(lines[2], " V    Mute, or hear it again");
        let says: Vec<Entry> = ROWS
            .iter()
            .filter_map(|row| if let Row::Says(entry) = row { Some(*entry) } else { None })
            .collect();
        assert_eq!(says, Entry::ALL, "the order of the page's menu");
        for (row, line) in ROWS.iter().zip(&lines[1..]) {
            let Row::Key(key, words, choice) = row else { continue };
            assert_eq!(*line, format!(" {}    {words}", key.to_ascii_uppercase()));
            let pressed = Pressed::Character(key.to_ascii_uppercase());
            assert_eq!(menu.handle(pressed), Some(*choice));
            assert_ne!(*choice, Choice::Close, "Escape closes");
            if let Choice::Send(names) = choice {
                assert!(names.iter().all(|name| keys::by_name(name).is_some()), "{names:?}");
            }
        }
        for number in 1..=12 {
            let Some(Choice::Send(names)) = menu.handle(Pressed::Function(number)) else {
                panic!("F{number}")
            };
            assert_eq!(names.last(), Some(&format!("F{number}").as_str()));
        }
        assert_eq!(menu.handle(Pressed::Function(13)), None);
        assert_eq!(menu.handle(Pressed::Character('z')), None);
        assert_eq!(menu.handle(Pressed::Other), Some(Choice::Close));
    }

    #[test]
    fn without_stereo_programs_nothing_is_said_of_them() {
        let mut menu = Menu::default();
        let (all, fewer) = (text(&with_stereo(), 100, 42), text(&menu, 100, 42));
        let missing: Vec<&str> = all.lines().filter(|line| !fewer.contains(line)).collect();
        let words = " W    Change how stereo programs are shown";
        assert_eq!(missing, ["    Stereo: the state of Stereo", words]);
        assert_eq!(menu.handle(Pressed::Character('w')), None);
        let before = ROWS.iter().position(|row| row.is_of_stereo()).unwrap() - 1;
        menu.at = before;
        menu.handle(Pressed::Move(1));
        assert!(menu.selected(&say).contains("Toggle fullscreen"), "{}", menu.selected(&say));
        menu.handle(Pressed::Move(-1));
        assert_eq!(menu.at, before);
    }

    #[test]
    fn arrows_reach_every_row_and_enter_chooses_it() {
        let mut menu = with_stereo();
        let selectable: Vec<Row> =
            ROWS.iter().copied().filter(|row| !matches!(row, Row::Head(_))).collect();
        for row in &selectable {
            let (_, words) = row.text(&say);
            assert!(menu.selected(&say).ends_with(&words), "{words}");
            assert_eq!(menu.handle(Pressed::Enter), row.choice());
            assert_eq!(menu.handle(Pressed::Move(1)), None);
        }
        assert_eq!(menu.selected(&say), "Q: Close the viewer; the session goes on", "the last");
        for row in selectable.iter().rev() {
            assert_eq!(menu.handle(Pressed::Enter), row.choice());
            menu.handle(Pressed::Move(-1));
        }
        assert_eq!(menu.selected(&say), "Sound: the state of Sound", "the first");
        menu.handle(Pressed::Move(1000));
        assert_eq!(menu.handle(Pressed::Enter), Some(Choice::Do(Command::Quit)));
        menu.handle(Pressed::Move(-1000));
        assert_eq!(menu.at, 0);
    }

    #[test]
    fn a_small_window_shows_the_part_round_the_selected_row() {
        for (columns, lines) in [(28, 31), (28, 12), (100, 12), (60, 37), (100, 42)] {
            let mut menu = with_stereo();
            for at in 0..ROWS.len() {
                let text = text(&menu, columns, lines);
                let shown: Vec<&str> = text.lines().collect();
                assert!(shown.len() <= lines, "{columns} {lines}: {text}");
                let widest = shown.iter().map(|line| line.chars().count()).max();
                assert!(widest <= Some(columns), "{columns} {lines}: {text}");
                let marked: Vec<&&str> = shown.iter().filter(|l| l.starts_with('>')).collect();
                assert_eq!(marked.len(), 1, "{at} in {columns} {lines}: {text}");
                let (_, words) = ROWS[menu.at].text(&say);
                let words: Vec<&str> = words.split(' ').collect();
                assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
                menu.handle(Pressed::Move(1));
            }
        }
        let text = text(&Menu::default(), 100, 12);
        assert!(!text.contains("^  more") && text.ends_with(" v  more"), "{text}");
    }

    #[test]
    fn a_press_chooses_the_row_under_it_and_beside_the_menu_it_closes() {
        let mut menu = Menu { place: Rect::at(10, 20, 300, 120), dot: 2, ..Menu::default() };
        menu.targets = menu.lines(&say, 100, 5).into_iter().map(|(target, _)| target).collect();
        // The margin has 4 dots, and a line 10.
        let line = |number: i32| 20 + 2 * (4 + 10 * number) + 1;
        assert_eq!(menu.press(12, line(0)), None, "the title");
        assert_eq!(menu.press(12, line(2)), Some(Choice::Do(Command::Mute)));
        assert_eq!(menu.at, 1);
        assert_eq!(menu.press(12, line(1)), None);
        assert_eq!(menu.at, 0, "it says a state");
        assert_eq!(menu.press(12, line(4)), None);
        assert_eq!(menu.at, MORE as usize, "more");
        assert_eq!(menu.press(12, 21), None, "the margin");
        for (x, y) in [(9, 30), (310, 30), (12, 19), (12, 140)] {
            assert_eq!(menu.press(x, y), Some(Choice::Close), "{x}, {y}");
        }
    }

    #[test]
    fn what_has_a_state_stays_to_show_it() {
        for row in ROWS {
            let Row::Key(key, _, choice) = row else { continue };
            assert_eq!(
                choice.keeps_menu(),
                ['v', ',', '.', 'k', 'c', 'h', 'w'].contains(key),
                "{key}"
            );
        }
    }
}
