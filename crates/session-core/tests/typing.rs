//! What is typed is what an application reads, in order, whatever is held, locked or bound
//! meanwhile. A session against a model of an X server and of an application that looks up keys
//! late, as real ones do. The model knows XKB's levels; of session-core it knows only the shell's
//! interface.

use std::collections::VecDeque;

use proptest::prelude::*;
use thinc_protocol::viewer::{Input, InputEvent, KeyboardLayout, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_ring::InputMessage;
use thinc_session_core::{
    Config, KEY_LEVELS, Key, Keymap, LossyPolicy, Modifiers, Request, Rights, Session, ViewerId,
};

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

/// One key in the core protocol: plain, Shift, -, -, Level3, Level3 with Shift.
type Row = [u32; 6];

/// A small keyboard: alphabetic keys, a few digits with their Shift level, AltGr characters, and so
/// many spare keycodes.
fn keymap(layout: &str, spares: usize) -> Vec<Row> {
    // Unused keys, so that they are not spare.
    let mut rows = vec![[0xffc8, 0, 0, 0, 0, 0]; 248];
    let mut set = |keycode: u8, row: Row| rows[usize::from(keycode) - 8] = row;
    let alphabetic = |character: char| {
        [u32::from(character), u32::from(character.to_ascii_uppercase()), 0, 0, 0, 0]
    };
    for (keycode, character) in
        (24u8..).zip("qwertyuiop".chars()).chain((38..).zip("asdfghjkl".chars()))
    {
        set(keycode, alphabetic(character));
    }
    for (keycode, character) in (52u8..).zip("zxcvbnm".chars()) {
        set(keycode, alphabetic(character));
    }
    set(36, [0xff0d; 6]);
    set(65, [0x20; 6]);
    set(SHIFT, [0xffe1, 0, 0, 0, 0, 0]);
    set(CONTROL, [0xffe3, 0, 0, 0, 0, 0]);
    set(ALTGR, [0xfe03, 0, 0, 0, 0, 0]);
    set(CAPS, [0xffe5, 0, 0, 0, 0, 0]);
    match layout {
        "de" => {
            set(29, alphabetic('z'));
            set(52, alphabetic('y'));
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

/// Keys that the application has not looked up yet.
struct Pressed {
    at: u64,
    keycode: u8,
    shift: bool,
    level3: bool,
    control: bool,
    caps: bool,
}

/// An X server, a shell that carries out requests at once, and the application with the focus.
struct World {
    session: Session,
    viewer: ViewerId,
    seq: u32,
    now: u64,
    rows: Vec<Row>,
    spares: usize,
    down: Vec<u8>,
    still_held: Vec<u8>,
    caps: bool,
    caps_was_on: bool,
    unread: VecDeque<Pressed>,
    /// How late the application looks up pressed keys.
    lag: u64,
    /// How often session-core is told of bindings and layouts.
    told: bool,
    text: String,
    commands: String,
    bindings: usize,
    /// The number of the last of them.
    last_binding: u64,
    /// The layout of the session's own.
    own: &'static str,
    /// The layouts that were requested.
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

fn hello() -> ViewerHello {
    ViewerHello {
        version: 1,
        caps: 0,
        size: Size::default(),
        message_bytes_max: 1 << 20,
        name: "typist".into(),
    }
}

impl World {
    fn new(layout: &'static str, spares: usize, lag: u64) -> World {
        let mut session = Session::new(Config {
            lossy: LossyPolicy::Never,
            ..Config::new("typing", Size { width: 64, height: 64 })
        });
        session.handle_attach(Size { width: 64, height: 64 });
        let viewer = session.add_viewer(&hello(), 0);
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
            still_held: Vec::new(),
            caps: false,
            caps_was_on: false,
            unread: VecDeque::new(),
            lag,
            told: true,
            text,
            commands,
            bindings: 0,
            last_binding: 0,
            own: layout,
            layouts: Vec::new(),
        };
        world.tell();
        world
    }

    fn tell(&mut self) {
        let keys = self.rows.iter().map(|&[plain, shifted, _, _, third, fourth]| {
            let or = |keysym: u32, other: u32| if keysym == 0 { other } else { keysym };
            let shifted = or(shifted, plain);
            let (third, fourth) =
                if third == 0 { (plain, shifted) } else { (third, or(fourth, third)) };
            let levels = [plain, shifted, third, fourth];
            let modifiers = match plain {
                0xffe1 => Modifiers::SHIFT,
                0xfe03 => Modifiers::LEVEL3,
                0xffe3 => Modifiers::COMMAND,
                _ => Modifiers::default(),
            };
            let keysyms: [u32; KEY_LEVELS] = std::array::from_fn(|level| levels[level % 4]);
            Key { keysyms, modifiers, taken: false }
        });
        self.session.handle_keymap(Keymap::new(8, keys, 4, self.last_binding));
    }

    fn say(&mut self, event: InputEvent) {
        self.seq += 1;
        let message = ViewerMessage::Input(Input { seq: self.seq, event });
        self.session
            .handle_message(self.viewer, &message, self.now)
            .expect("this input is no violation");
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

    /// The application looks a key up in the current keymap.
    fn read(&mut self, pressed: &Pressed) {
        let [plain, shifted, _, _, third, fourth] = self.row(pressed.keycode);
        let shifted = if shifted == 0 { plain } else { shifted };
        let fourth = if fourth == 0 { third } else { fourth };
        let (plain, shifted) =
            if pressed.level3 && third != 0 { (third, fourth) } else { (plain, shifted) };
        let (Some(plain), Some(shifted)) = (character(plain), character(shifted)) else { return };
        let alphabetic = plain != shifted && plain.to_uppercase().eq([shifted]);
        let written =
            match (pressed.shift != (pressed.caps && alphabetic), pressed.caps && !alphabetic) {
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

    /// Carries out session-core's requests, and waits when it has to.
    fn rest(&mut self) {
        loop {
            // The viewer sends a message.
            self.session
                .handle_message(self.viewer, &ViewerMessage::Ping(0), self.now)
                .expect("a ping is no violation");
            while let Some(request) = self.session.poll_request(self.now) {
                self.carry_out(request);
                // A round trip to the X server.
                self.wait(self.now + 200);
            }
            let Some(deadline) =
                self.session.poll_deadline(self.now).filter(|&at| at < self.now + 500_000)
            else {
                break;
            };
            self.wait(deadline.max(self.now + 1));
        }
        self.wait(self.now + self.lag);
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::Bind { number, bindings } => {
                self.bindings += 1;
                self.last_binding = number;
                for binding in bindings {
                    let [plain, shifted, third, fourth] = binding.keysyms;
                    self.rows[usize::from(binding.keycode) - 8] =
                        [plain, shifted, 0, 0, third, fourth];
                }
                if self.told {
                    self.tell();
                }
            }
            Request::SetLayout(layout) => {
                let layout = layout.map_or_else(|| self.own.to_owned(), |layout| layout.layout);
                self.rows = keymap(&layout, self.spares);
                self.layouts.push(layout);
                self.tell();
            }
            Request::SetLocks { caps, .. } => self.caps = caps,
            Request::Input(InputMessage::Key { keycode, down, .. }) => self.press(keycode, down),
            Request::Input(InputMessage::StillHeld { keycode }) => self.still_held.push(keycode),
            other => panic!("the session requested {other:?}"),
        }
    }

    fn press(&mut self, keycode: u8, down: bool) {
        if down {
            assert!(!self.down.contains(&keycode), "{keycode} is pressed twice");
            let holds =
                |row: &dyn Fn(u32) -> bool| self.down.iter().any(|&down| row(self.row(down)[0]));
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
    /// The key at the place of "a" is pressed or released.
    A(bool),
    Layout(&'static str),
    /// Somebody in the session sets this layout.
    SetInSession(&'static str),
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
        2 => proptest::collection::vec(any_char(), 0..60)
            .prop_map(|text| Op::Many(text.into_iter().collect())),
        1 => any::<bool>().prop_map(Op::Shift),
        1 => any::<bool>().prop_map(Op::Control),
        1 => any::<bool>().prop_map(Op::AltGr),
        1 => any::<bool>().prop_map(Op::Locks),
        1 => Just(Op::CapsLock),
        1 => any::<bool>().prop_map(Op::A),
        1 => proptest::sample::select(vec!["us", "de", "ru"]).prop_map(Op::Layout),
        1 => proptest::sample::select(vec!["us", "de", "ru"]).prop_map(Op::SetInSession),
        2 => Just(Op::Rest),
    ]
}

fn run(layout: &'static str, spares: usize, lag: u64, told: bool, ops: &[Op]) -> World {
    let mut world = World::new(layout, spares, lag);
    world.told = told;
    for op in ops {
        match op {
            Op::Char(character) => world.say(InputEvent::Char(*character)),
            Op::Many(text) => {
                text.chars().for_each(|character| world.say(InputEvent::Char(character)))
            }
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
                let layout =
                    KeyboardLayout { layout: (*layout).into(), ..KeyboardLayout::default() };
                let viewer = world.viewer;
                world
                    .session
                    .handle_message(viewer, &ViewerMessage::KeyboardLayout(layout), world.now)
                    .unwrap();
            }
            Op::SetInSession(layout) => {
                // Keys that an application has not looked up yet would be looked up in the new
                // keymap, as they are on a keyboard of the machine's own.
                world.rest();
                world.own = layout;
                world.rows = keymap(layout, spares);
                world.tell();
            }
            Op::Rest => world.rest(),
        }
    }
    world.say(InputEvent::ReleaseAll);
    world.rest();
    assert_eq!(world.down, [], "a key is still held");
    world
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn characters_arrive_whole_and_in_order(
        layout in proptest::sample::select(vec!["us", "de", "ru"]),
        spares in 1usize..19,
        lag in 0u64..400_000,
        told in any::<bool>(),
        ops in proptest::collection::vec(any_op(), 0..24),
    ) {
        // What the key at the place of "a" writes depends on more than this property states.
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
    fn held_keys_among_characters_stay_held_until_they_are_released(
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
        let pressed = ops.iter().filter(|op| match op {
            Op::A(down) => !std::mem::replace(&mut held, *down) && *down,
            _ => false,
        });
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
        assert!(
            world.bindings <= bindings_max,
            "{spares} spare keycodes: bound {} times",
            world.bindings
        );
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
fn the_layout_is_set_before_the_first_key_of_the_viewer_that_types() {
    let mut world = World::new("us", 4, 0);
    let de = KeyboardLayout { layout: "de".into(), ..KeyboardLayout::default() };
    world.session.handle_message(world.viewer, &ViewerMessage::KeyboardLayout(de), 0).unwrap();
    // At the place of "y" a German keyboard has "z".
    world.key(21, u32::from('z'), true);
    world.key(21, u32::from('z'), false);
    world.rest();
    assert_eq!((world.text.as_str(), world.row(29)[0]), ("z", u32::from('z')));

    let hello = ViewerHello {
        version: 1,
        caps: 0,
        size: Size::default(),
        message_bytes_max: 1 << 20,
        name: "other".into(),
    };
    let (first, other) = (world.viewer, world.session.add_viewer(&hello, world.now));
    let us = KeyboardLayout { layout: "us".into(), ..KeyboardLayout::default() };
    world.session.handle_message(other, &ViewerMessage::KeyboardLayout(us), world.now).unwrap();
    world.rest();
    assert_eq!(world.row(29)[0], u32::from('z'), "a viewer without keys changes nothing");
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
fn each_key_is_typed_on_the_layout_reported_before_it() {
    let mut world = World::new("us", 4, 0);
    for (name, key, written) in [("de", 21, 'z'), ("us", 21, 'y'), ("de", 44, 'y')] {
        // The first of two layouts without a key in between is never requested.
        for layout in ["fr", name] {
            let layout = KeyboardLayout { layout: layout.into(), ..KeyboardLayout::default() };
            world
                .session
                .handle_message(world.viewer, &ViewerMessage::KeyboardLayout(layout), 0)
                .unwrap();
        }
        world.key(key, u32::from(written), true);
        world.key(key, u32::from(written), false);
    }
    world.rest();
    assert_eq!(world.text, "zyy");
    assert_eq!(world.layouts, ["de", "us", "de"]);
}

#[test]
fn a_viewers_layout_leaves_with_it_and_after_what_it_typed() {
    let mut world = World::new("us", 4, 0);
    let layout = |name: &str| {
        ViewerMessage::KeyboardLayout(KeyboardLayout { layout: name.into(), ..Default::default() })
    };
    let (first, second) = (world.viewer, world.session.add_viewer(&hello(), 0));
    world.session.handle_message(first, &layout("de"), 0).unwrap();
    world.session.handle_message(second, &layout("ru"), 0).unwrap();
    world.say(InputEvent::Char('ü'));
    world.key(KEY_LEFTSHIFT, 0xffe1, true);
    // It goes before any of that was carried out.
    world.session.remove_viewer(first);
    world.viewer = second;
    world.rest();
    assert_eq!((world.text.as_str(), world.down.as_slice()), ("ü", [].as_slice()));
    assert_eq!(world.layouts, ["de", "us"], "one that types nothing changes nothing");
    world.say(InputEvent::Char('ф'));
    world.rest();
    // A keyboard that it does not know any more is not one.
    world.session.handle_message(second, &layout(""), world.now).unwrap();
    world.rest();
    assert_eq!((world.text.as_str(), world.bindings), ("üф", 0));
    assert_eq!(world.layouts, ["de", "us", "ru", "us"]);
    world.session.remove_viewer(second);
    world.viewer = world.session.add_viewer(&hello(), world.now);
    world.rest();
    assert_eq!(world.layouts.len(), 4, "it was the session's own already");
}

#[test]
fn a_guest_types_while_it_has_the_right_and_then_holds_no_key() {
    let mut world = World::new("us", 4, 0);
    let (owner, rights) = (world.viewer, Rights { input: true, ..Rights::VIEW });
    world.viewer = world.session.add_guest(&hello(), rights, 0);
    world.say(InputEvent::Char('ü'));
    world.key(KEY_A, 0x61, true);
    world.key(KEY_LEFTSHIFT, 0xffe1, true);
    world.rest();
    assert_eq!((world.text.as_str(), world.down.as_slice()), ("üa", [A, SHIFT].as_slice()));
    // What it has typed and X has not received is dropped.
    world.say(InputEvent::Char('b'));
    world.key(KEY_A, 0x61, false);
    world.session.set_rights(world.viewer, Rights::VIEW);
    world.say(InputEvent::Char('c'));
    world.key(KEY_A, 0x61, true);
    world.rest();
    assert_eq!((world.text.as_str(), world.down.as_slice()), ("üa", [].as_slice()));
    let guest = std::mem::replace(&mut world.viewer, owner);
    world.say(InputEvent::Char('d'));
    world.rest();
    world.viewer = guest;
    world.session.set_rights(guest, rights);
    world.say(InputEvent::Char('e'));
    world.rest();
    assert_eq!(world.text, "üade");
}

#[test]
fn a_layout_that_somebody_sets_in_the_session_stays_while_the_same_viewer_types() {
    let mut world = World::new("us", 4, 0);
    let de = KeyboardLayout { layout: "de".into(), ..KeyboardLayout::default() };
    world.session.handle_message(world.viewer, &ViewerMessage::KeyboardLayout(de), 0).unwrap();
    world.say(InputEvent::Char('z'));
    world.rest();
    world.rows = keymap("ru", 4);
    world.tell();
    world.say(InputEvent::Char('ф'));
    world.say(InputEvent::Char('z'));
    world.rest();
    assert_eq!(world.text, "zфz");
    assert_eq!(world.layouts, ["de"]);
}

#[test]
fn the_keys_of_an_unresponsive_viewer_are_released() {
    let mut world = World::new("us", 4, 0);
    world.key(KEY_A, 0x61, true);
    world.key(KEY_LEFTCTRL, 0xffe3, true);
    world.rest();
    assert_eq!(world.down, [A, CONTROL]);
    // While it sends messages, it is responsive, and X may repeat the key that is no modifier.
    world.still_held.clear();
    for number in 0..5 {
        world.wait(world.now + 500_000);
        let viewer = world.viewer;
        world.session.handle_message(viewer, &ViewerMessage::Ping(number), world.now).unwrap();
        while let Some(request) = world.session.poll_request(world.now) {
            world.carry_out(request);
        }
    }
    assert_eq!(world.down, [A, CONTROL]);
    assert_eq!(world.still_held, [A; 5]);
    world.wait(world.now + 49_999);
    let viewer = world.viewer;
    world.session.handle_message(viewer, &ViewerMessage::Ping(5), world.now).unwrap();
    assert_eq!(world.session.poll_request(world.now), None, "too soon after the last one");
    let heard = world.now;
    assert_eq!(world.session.poll_deadline(world.now), Some(heard + 1_000_000));
    world.wait(heard + 1_000_000);
    while let Some(request) = world.session.poll_request(world.now) {
        world.carry_out(request);
    }
    assert_eq!(world.down, [CONTROL], "repeating keys first");
    assert_eq!(world.session.poll_deadline(world.now), Some(heard + 10_000_000));
    world.wait(heard + 10_000_000);
    while let Some(request) = world.session.poll_request(world.now) {
        world.carry_out(request);
    }
    assert_eq!(world.down, []);
    assert_eq!(world.session.poll_deadline(world.now), None);
    // After it reconnects, its releases find no held key.
    world.key(KEY_A, 0x61, false);
    world.rest();
    assert_eq!(world.down, []);
}

#[test]
fn lock_keys_follow_the_viewer_and_are_requested_only_if_they_differ() {
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
    // An application or another viewer has changed them.
    world.session.handle_leds(2);
    world.say(InputEvent::Locks { caps: true, num: true });
    assert_eq!(requests(&mut world), [Request::SetLocks { caps: true, num: true }]);
}

#[test]
fn every_viewer_types_with_its_own_locks() {
    let mut world = World::new("us", 4, 0);
    let first = world.viewer;
    let second = world.session.add_viewer(&hello(), 0);
    let press_a = |world: &mut World, viewer| {
        world.viewer = viewer;
        world.key(KEY_A, 0, true);
        world.key(KEY_A, 0, false);
    };
    world.say(InputEvent::Locks { caps: false, num: false });
    press_a(&mut world, first);
    // The second viewer's locks change nothing until it types.
    world.viewer = second;
    world.say(InputEvent::Locks { caps: true, num: false });
    press_a(&mut world, first);
    press_a(&mut world, second);
    press_a(&mut world, second);
    // A viewer says its locks once, and has them even if another typed in between.
    press_a(&mut world, first);
    press_a(&mut world, second);
    world.rest();
    assert_eq!(world.text, "aaAAaA");
    // What an application sets stays while the same viewer types.
    world.caps = false;
    world.session.handle_leds(0);
    press_a(&mut world, second);
    world.rest();
    assert_eq!(world.text, "aaAAaAa");
    // The lock that a key changes is not reported, and counts all the same.
    press_a(&mut world, first);
    world.key(KEY_CAPSLOCK, 0xffe5, true);
    world.key(KEY_CAPSLOCK, 0xffe5, false);
    press_a(&mut world, first);
    press_a(&mut world, second);
    press_a(&mut world, first);
    world.rest();
    assert_eq!(world.text, "aaAAaAaaAAA");
}
