//! What is typed is what an application reads, in order, whatever is held, locked or bound meanwhile.
//! A session against a model of an X server and of an application that looks up late what a key means, as those of real
//! ones do. The model knows XKB's levels; of session-core it knows only what a shell sees.

use std::collections::VecDeque;

use proptest::prelude::*;
use thinc_protocol::viewer::{Input, InputEvent, Layout, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_ring::InputMessage;
use thinc_session_core::{Config, Keymap, LossyPolicy, Request, Session, ViewerId};

const SHIFT: u8 = 50;
const CONTROL: u8 = 37;
const ALTGR: u8 = 108;
const CAPS: u8 = 66;
const A: u8 = 38;

const KEY_LEFTSHIFT: u16 = 42;
const KEY_LEFTCTRL: u16 = 29;
const KEY_RIGHTALT: u16 = 100;
const KEY_CAPSLOCK: u16 = 58;
const KEY_A: u16 = 30;

/// One key, as the core protocol has it: plain, Shift, -, -, Level3, Level3 with Shift.
type Row = [u32; 6];

/// A small keyboard: letters, a few digits with what Shift makes of them, AltGr characters, and so many spare keycodes.
fn keymap(layout: &str, spares: usize) -> Vec<Row> {
    // Keys of no interest here, so that they are not spare.
    let mut rows = vec![[0xffc8, 0, 0, 0, 0, 0]; 248];
    let mut set = |keycode: u8, row: Row| rows[usize::from(keycode) - 8] = row;
    let letter = |character: char| [u32::from(character), u32::from(character.to_ascii_uppercase()), 0, 0, 0, 0];
    for (keycode, character) in (24u8..).zip("qwertyuiop".chars()).chain((38..).zip("asdfghjkl".chars())) {
        set(keycode, letter(character));
    }
    for (keycode, character) in (52u8..).zip("zxcvbnm".chars()) {
        set(keycode, letter(character));
    }
    set(36, [0xff0d; 6]);
    set(65, [0x20; 6]);
    set(SHIFT, [0xffe1, 0, 0, 0, 0, 0]);
    set(CONTROL, [0xffe3, 0, 0, 0, 0, 0]);
    set(ALTGR, [0xfe03, 0, 0, 0, 0, 0]);
    set(CAPS, [0xffe5, 0, 0, 0, 0, 0]);
    match layout {
        "de" => {
            set(29, letter('z'));
            set(52, letter('y'));
            set(24, [0x71, 0x51, 0, 0, 0x40, 0x40]);
            set(26, [0x65, 0x45, 0, 0, 0x20ac, 0x20ac]);
            set(11, [0x32, 0x22, 0, 0, 0xb2, 0]);
            set(34, [0xfc, 0xdc, 0, 0, 0, 0]);
        }
        // Cyrillic by its old names.
        "ru" => set(38, [0x06c6, 0x06e6, 0, 0, 0, 0]),
        _ => set(11, [0x32, 0x40, 0, 0, 0, 0]),
    }
    for spare in 0..spares {
        set(255 - 2 * spare as u8, [0; 6]);
    }
    rows
}

/// What an application has not looked up yet.
struct Pressed {
    at: u64,
    keycode: u8,
    shift: bool,
    level3: bool,
    control: bool,
    caps: bool,
}

/// An X server, a shell that carries out requests at once, and the application with the keyboard.
struct World {
    session: Session,
    viewer: ViewerId,
    seq: u32,
    now: u64,
    rows: Vec<Row>,
    spares: usize,
    down: Vec<u8>,
    caps: bool,
    caps_was_on: bool,
    unread: VecDeque<Pressed>,
    /// How late the application looks up what was pressed.
    lag: u64,
    /// How often bindings and layouts are told to session-core.
    told: bool,
    text: String,
    commands: String,
    bindings: usize,
    /// The layouts that were asked for.
    layouts: Vec<String>,
}

fn character(keysym: u32) -> Option<char> {
    match keysym {
        0xff0d => Some('\n'),
        0x20..=0x7e | 0xa0..=0xff => char::from_u32(keysym),
        0x20ac => Some('€'),
        0x06c6 => Some('ф'),
        0x06e6 => Some('Ф'),
        0x0100_0100.. => char::from_u32(keysym - 0x0100_0000),
        _ => None,
    }
}

impl World {
    fn new(layout: &str, spares: usize, lag: u64) -> World {
        let mut session =
            Session::new(Config { lossy: LossyPolicy::Never, ..Config::new("typing", Size { width: 64, height: 64 }) });
        session.handle_attach(Size { width: 64, height: 64 });
        let hello =
            ViewerHello { version: 1, caps: 0, size: Size::default(), frame_bytes_max: 1 << 20, name: "hand".into() };
        let viewer = session.add_viewer(&hello, 0);
        let rows = keymap(layout, spares);
        let (text, commands) = (String::new(), String::new());
        let mut world = World {
            session,
            viewer,
            seq: 0,
            now: 0,
            rows,
            spares,
            down: Vec::new(),
            caps: false,
            caps_was_on: false,
            unread: VecDeque::new(),
            lag,
            told: true,
            text,
            commands,
            bindings: 0,
            layouts: Vec::new(),
        };
        world.tell();
        world
    }

    fn tell(&mut self) {
        self.session.handle_keymap(Keymap::from_core(8, 6, self.rows.as_flattened()));
    }

    fn say(&mut self, event: InputEvent) {
        self.seq += 1;
        let message = ViewerMessage::Input(Input { seq: self.seq, event });
        self.session.handle_message(self.viewer, &message, self.now).expect("a hand breaks no rule");
    }

    fn key(&mut self, code: u16, keysym: u32, down: bool) {
        self.say(InputEvent::Key { code, keysym, down });
    }

    fn row(&self, keycode: u8) -> Row {
        self.rows[usize::from(keycode) - 8]
    }

    fn wait(&mut self, until: u64) {
        while self.unread.front().is_some_and(|pressed| pressed.at + self.lag <= until) {
            let pressed = self.unread.pop_front().unwrap();
            self.read(&pressed);
        }
        self.now = self.now.max(until);
    }

    /// The application looks a key up in the keymap as it is now.
    fn read(&mut self, pressed: &Pressed) {
        let [plain, shifted, _, _, third, fourth] = self.row(pressed.keycode);
        let shifted = if shifted == 0 { plain } else { shifted };
        let fourth = if fourth == 0 { third } else { fourth };
        let (plain, shifted) = if pressed.level3 && third != 0 { (third, fourth) } else { (plain, shifted) };
        let (Some(plain), Some(shifted)) = (character(plain), character(shifted)) else { return };
        let alphabetic = plain != shifted && plain.to_uppercase().eq([shifted]);
        let written = match (pressed.shift != (pressed.caps && alphabetic), pressed.caps && !alphabetic) {
            (true, false) => shifted,
            (false, false) => plain,
            (shift, true) => {
                let one = if shift { shifted } else { plain };
                let mut capital = one.to_uppercase();
                capital.next().filter(|_| capital.next().is_none()).unwrap_or(one)
            }
        };
        if pressed.control { self.commands.push(written) } else { self.text.push(written) }
    }

    /// Carries out what session-core asks for, and waits where it wants to.
    fn rest(&mut self) {
        loop {
            // The viewer is there.
            self.session.handle_message(self.viewer, &ViewerMessage::Ping(0), self.now).expect("a ping breaks no rule");
            while let Some(request) = self.session.poll_request(self.now) {
                self.carry_out(request);
                // A round trip to the X server.
                self.wait(self.now + 200);
            }
            let Some(deadline) = self.session.poll_deadline(self.now).filter(|&at| at < self.now + 500_000) else {
                break;
            };
            self.wait(deadline.max(self.now + 1));
        }
        self.wait(self.now + self.lag);
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::Bind(bindings) => {
                self.bindings += 1;
                for binding in bindings {
                    let [plain, shifted, third, fourth] = binding.keysyms;
                    self.rows[usize::from(binding.keycode) - 8] = [plain, shifted, 0, 0, third, fourth];
                }
                if self.told {
                    self.tell();
                }
            }
            Request::SetLayout(layout) => {
                self.rows = keymap(&layout.layout, self.spares);
                self.layouts.push(layout.layout);
                self.tell();
            }
            Request::SetLocks { caps, .. } => self.caps = caps,
            Request::Input(InputMessage::Key { keycode, down, .. }) => self.press(keycode, down),
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn press(&mut self, keycode: u8, down: bool) {
        if down {
            assert!(!self.down.contains(&keycode), "{keycode} is pressed twice");
            let holds = |row: &dyn Fn(u32) -> bool| self.down.iter().any(|&down| row(self.row(down)[0]));
            let pressed = Pressed {
                at: self.now,
                keycode,
                shift: holds(&|keysym| keysym == 0xffe1),
                level3: holds(&|keysym| keysym == 0xfe03),
                control: holds(&|keysym| keysym == 0xffe3),
                caps: self.caps,
            };
            self.unread.push_back(pressed);
            self.down.push(keycode);
            if keycode == CAPS {
                self.caps_was_on = std::mem::replace(&mut self.caps, true);
            }
        } else {
            assert!(self.down.contains(&keycode), "{keycode} is released and was not pressed");
            self.down.retain(|&down| down != keycode);
            if keycode == CAPS && self.caps_was_on {
                self.caps = false;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Char(char),
    Many(String),
    Shift(bool),
    Control(bool),
    AltGr(bool),
    Locks(bool),
    CapsLock,
    /// The key at the place of "a", which is held or let go.
    A(bool),
    Layout(&'static str),
    /// Everything until now is carried out.
    Rest,
}

fn any_char() -> impl Strategy<Value = char> {
    prop_oneof![
        3 => proptest::char::range(' ', '~'),
        1 => Just('\n'),
        2 => proptest::sample::select("éÉßüÜ€@ñ–фФщЩ😀".chars().collect::<Vec<_>>()),
        2 => proptest::char::range('\u{4e00}', '\u{4e80}'),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any_char().prop_map(Op::Char),
        2 => proptest::collection::vec(any_char(), 0..60).prop_map(|text| Op::Many(text.into_iter().collect())),
        1 => any::<bool>().prop_map(Op::Shift),
        1 => any::<bool>().prop_map(Op::Control),
        1 => any::<bool>().prop_map(Op::AltGr),
        1 => any::<bool>().prop_map(Op::Locks),
        1 => Just(Op::CapsLock),
        1 => any::<bool>().prop_map(Op::A),
        1 => proptest::sample::select(vec!["us", "de", "ru"]).prop_map(Op::Layout),
        2 => Just(Op::Rest),
    ]
}

fn run(layout: &str, spares: usize, lag: u64, told: bool, ops: &[Op]) -> World {
    let mut world = World::new(layout, spares, lag);
    world.told = told;
    for op in ops {
        match op {
            Op::Char(character) => world.say(InputEvent::Char(*character)),
            Op::Many(text) => text.chars().for_each(|character| world.say(InputEvent::Char(character))),
            Op::Shift(down) => world.key(KEY_LEFTSHIFT, 0xffe1, *down),
            Op::Control(down) => world.key(KEY_LEFTCTRL, 0xffe3, *down),
            Op::AltGr(down) => world.key(KEY_RIGHTALT, 0xfe03, *down),
            Op::Locks(caps) => world.say(InputEvent::Locks { caps: *caps, num: false }),
            Op::CapsLock => {
                world.key(KEY_CAPSLOCK, 0xffe5, true);
                world.key(KEY_CAPSLOCK, 0xffe5, false);
            }
            Op::A(down) => world.key(KEY_A, 0, *down),
            Op::Layout(layout) => {
                let layout = Layout { layout: (*layout).into(), ..Layout::default() };
                let viewer = world.viewer;
                world.session.handle_message(viewer, &ViewerMessage::Layout(layout), world.now).unwrap();
            }
            Op::Rest => world.rest(),
        }
    }
    world.say(InputEvent::ReleaseAll);
    world.rest();
    assert_eq!(world.down, [], "something is still held");
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn characters_arrive_whole_and_in_order(
        layout in proptest::sample::select(vec!["us", "de", "ru"]),
        spares in 1usize..19,
        lag in 0u64..400_000,
        told in any::<bool>(),
        ops in proptest::collection::vec(any_op(), 0..24),
    ) {
        // What the key at the place of "a" writes depends on more than this property says.
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::A(_))).collect();
        let world = run(layout, spares, lag, told, &ops);
        let wanted: String = ops.iter().map(|op| match op {
            Op::Char(character) => character.to_string(),
            Op::Many(text) => text.clone(),
            _ => String::new(),
        }).collect();
        prop_assert_eq!(world.text, wanted);
        prop_assert_eq!(world.commands, "");
    }

    #[test]
    fn keys_that_are_held_among_characters_stay_held_and_are_let_go(
        spares in 1usize..19,
        ops in proptest::collection::vec(any_op(), 0..24),
    ) {
        let world = run("de", spares, 1_000, true, &ops);
        let typed = ops.iter().map(|op| match op {
            Op::Char(_) => 1,
            Op::Many(text) => text.chars().count(),
            _ => 0,
        }).sum::<usize>();
        let mut held = false;
        let pressed = ops.iter().filter(|op| if let Op::A(down) = op { !std::mem::replace(&mut held, *down) && *down } else { false });
        let read = world.text.chars().count() + world.commands.chars().count();
        prop_assert_eq!(read, typed + pressed.count());
    }
}

/// 200 different characters in one commit.
fn commit() -> String {
    (0..200).filter_map(|i| char::from_u32(0x4e00 + i)).collect()
}

#[test]
fn a_long_text_arrives_in_order_with_few_keycodes_and_a_slow_application() {
    for (spares, bindings_max) in [(18, 3), (4, 13), (1, 50)] {
        let world = run("us", spares, 390_000, true, &[Op::Many(commit())]);
        assert_eq!(world.text, commit());
        assert!(world.bindings <= bindings_max, "{spares} spare keycodes: bound {} times", world.bindings);
    }
}

#[test]
fn characters_of_the_keymap_take_no_spare_keycode() {
    let world = run("de", 4, 0, true, &[Op::Many("Grüe 2 € @ home\n".into())]);
    assert_eq!((world.text.as_str(), world.bindings), ("Grüe 2 € @ home\n", 0));
    let world = run("ru", 4, 0, true, &[Op::Many("фФ".into())]);
    assert_eq!((world.text.as_str(), world.bindings), ("фФ", 0));
}

#[test]
fn the_layout_is_there_before_the_first_key_and_that_of_who_types() {
    let mut world = World::new("us", 4, 0);
    let de = Layout { layout: "de".into(), ..Layout::default() };
    world.session.handle_message(world.viewer, &ViewerMessage::Layout(de), 0).unwrap();
    // At the place of "y" a German keyboard has "z".
    world.key(21, u32::from('z'), true);
    world.key(21, u32::from('z'), false);
    world.rest();
    assert_eq!((world.text.as_str(), world.row(29)[0]), ("z", u32::from('z')));

    let hello =
        ViewerHello { version: 1, caps: 0, size: Size::default(), frame_bytes_max: 1 << 20, name: "other".into() };
    let (first, other) = (world.viewer, world.session.add_viewer(&hello, world.now));
    let us = Layout { layout: "us".into(), ..Layout::default() };
    world.session.handle_message(other, &ViewerMessage::Layout(us), world.now).unwrap();
    world.rest();
    assert_eq!(world.row(29)[0], u32::from('z'), "who only looks changes nothing");
    world.viewer = other;
    world.key(21, u32::from('y'), true);
    world.key(21, u32::from('y'), false);
    world.rest();
    assert_eq!((world.text.as_str(), world.row(29)[0]), ("zy", u32::from('y')));
    world.viewer = first;
    world.say(InputEvent::Char('z'));
    world.rest();
    assert_eq!((world.text.as_str(), world.row(29)[0]), ("zyz", u32::from('z')));
}

#[test]
fn each_key_is_typed_on_the_layout_said_before_it() {
    let mut world = World::new("us", 4, 0);
    for (name, key, written) in [("de", 21, 'z'), ("us", 21, 'y'), ("de", 44, 'y')] {
        // The first of two that nobody typed between is never asked for.
        for layout in ["fr", name] {
            let layout = Layout { layout: layout.into(), ..Layout::default() };
            world.session.handle_message(world.viewer, &ViewerMessage::Layout(layout), 0).unwrap();
        }
        world.key(key, u32::from(written), true);
        world.key(key, u32::from(written), false);
    }
    world.rest();
    assert_eq!(world.text, "zyy");
    assert_eq!(world.layouts, ["de", "us", "de"]);
}

#[test]
fn the_keys_of_a_viewer_that_cannot_be_reached_are_let_go() {
    let mut world = World::new("us", 4, 0);
    world.key(KEY_A, 0x61, true);
    world.key(KEY_LEFTCTRL, 0xffe3, true);
    world.rest();
    assert_eq!(world.down, [A, CONTROL]);
    // As long as it says anything, it is there.
    for number in 0..5 {
        world.wait(world.now + 500_000);
        let viewer = world.viewer;
        world.session.handle_message(viewer, &ViewerMessage::Ping(number), world.now).unwrap();
        while let Some(request) = world.session.poll_request(world.now) {
            world.carry_out(request);
        }
    }
    assert_eq!(world.down, [A, CONTROL]);
    let heard = world.now;
    assert_eq!(world.session.poll_deadline(world.now), Some(heard + 1_000_000));
    world.wait(heard + 1_000_000);
    while let Some(request) = world.session.poll_request(world.now) {
        world.carry_out(request);
    }
    assert_eq!(world.down, [CONTROL], "what repeats first");
    assert_eq!(world.session.poll_deadline(world.now), Some(heard + 10_000_000));
    world.wait(heard + 10_000_000);
    while let Some(request) = world.session.poll_request(world.now) {
        world.carry_out(request);
    }
    assert_eq!(world.down, []);
    assert_eq!(world.session.poll_deadline(world.now), None);
    // When it comes back, what it lets go is not held.
    world.key(KEY_A, 0x61, false);
    world.rest();
    assert_eq!(world.down, []);
}

#[test]
fn locks_become_the_viewers_and_are_asked_for_only_where_they_differ() {
    let mut world = World::new("us", 4, 0);
    let requests = |world: &mut World| -> Vec<Request> {
        let now = world.now;
        std::iter::from_fn(|| world.session.poll_request(now)).collect()
    };
    world.say(InputEvent::Locks { caps: false, num: false });
    assert_eq!(requests(&mut world), []);
    world.say(InputEvent::Locks { caps: true, num: true });
    assert_eq!(requests(&mut world), [Request::SetLocks { caps: true, num: true }]);
    world.session.handle_leds(3);
    world.say(InputEvent::Locks { caps: true, num: true });
    assert_eq!(requests(&mut world), []);
    // Another one has it otherwise.
    world.say(InputEvent::Locks { caps: false, num: true });
    assert_eq!(requests(&mut world), [Request::SetLocks { caps: false, num: true }]);
}
