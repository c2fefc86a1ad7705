//! The window's keyboard on a private X server: layouts and groups, locks, the menu, and releases
//! when the focus is lost. Checks only the messages that the fake session received. Skipped, with a
//! message, without Xvfb or setxkbmap.
#![cfg(feature = "window")]

mod desk;
mod fake;

use std::process::Command as Program;

use desk::{Desk, until, xvfb};
use thinc_protocol::people::{Invite, People, Person, PersonPointer, Share, ShareAction, Shared};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{InputEvent, ViewerMessage};
use thinc_region::Rect;
use x11rb::connection::Connection as _;
use x11rb::protocol::xkb::{ConnectionExt as _, Group, ID};
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ConnectionExt as _, InputFocus, ModMask,
};

const KEY_1: u16 = 2;
const KEY_ESC: u16 = 1;
const KEY_A: u16 = 30;
const KEY_D: u16 = 32;
const KEY_ENTER: u16 = 28;
const KEY_M: u16 = 50;
const KEY_C: u16 = 46;
const KEY_PRINT: u16 = 99;
const KEY_UP: u16 = 103;
const KEY_END: u16 = 107;
const KEY_DOWN: u16 = 108;
const KEY_I: u16 = 23;
const KEY_U: u16 = 22;
const KEY_LEFTCTRL: u16 = 29;
const KEY_LEFTALT: u16 = 56;

/// A desk whose X server has this layout; None if the test cannot run.
fn laid_out(layout: &[&str], arguments: &[&str]) -> Option<(Desk, String)> {
    let (server, display) = xvfb()?;
    if let Err(error) = setxkbmap(&display, layout) {
        assert!(std::env::var_os("CI").is_none(), "the keyboard's tests need setxkbmap: {error}");
        eprintln!("skipped: no setxkbmap ({error})");
        return None;
    }
    let desk = Desk::start_on(server, &display, desk::size(400, 300), arguments);
    desk.wait_exact();
    Some((desk, display))
}

fn setxkbmap(display: &str, arguments: &[&str]) -> std::io::Result<()> {
    let status = Program::new("setxkbmap").args(["-display", display]).args(arguments).status()?;
    assert!(status.success(), "setxkbmap {arguments:?}");
    Ok(())
}

/// Sets these locks and no others, and the group, as another application may.
fn lock(desk: &Desk, mods: ModMask, group: Option<Group>) {
    desk.x.xkb_use_extension(1, 0).unwrap().reply().unwrap();
    let (keyboard, none) = (u16::from(ID::USE_CORE_KBD), ModMask::default());
    let all = ModMask::LOCK | ModMask::M2;
    desk.x
        .xkb_latch_lock_state(
            keyboard,
            all,
            mods,
            group.is_some(),
            group.unwrap_or(Group::M1),
            none,
            false,
            0,
        )
        .unwrap()
        .check()
        .unwrap();
}

fn wait_layout(desk: &Desk, layout: &str, variant: &str) {
    desk.fake.wait_for(&format!("the layout {layout}({variant})"), |message| match message {
        ViewerMessage::KeyboardLayout(said) if said.layout == layout && said.variant == variant => {
            assert!(!said.options.contains("grp:"), "switching is the viewer's: {}", said.options);
            Some(())
        }
        _ => None,
    });
}

#[test]
fn the_active_layout_is_sent_and_followed() {
    let switched = [
        "-layout",
        "us,de,fr",
        "-variant",
        ",nodeadkeys,",
        "-option",
        "grp:alt_shift_toggle,compose:caps",
    ];
    let Some((desk, display)) = laid_out(&switched, &[]) else { return };
    wait_layout(&desk, "us", "");
    lock(&desk, ModMask::default(), Some(Group::M2));
    wait_layout(&desk, "de", "nodeadkeys");
    lock(&desk, ModMask::default(), Some(Group::M3));
    wait_layout(&desk, "fr", "");
    setxkbmap(&display, &["-layout", "jp", "-variant", "", "-option", ""]).unwrap();
    wait_layout(&desk, "jp", "");
}

#[test]
fn a_named_layout_is_sent_and_none_with_the_sessions_own() {
    let Some((desk, _)) = laid_out(&["de"], &["--layout", "fr(bepo) compose:caps"]) else { return };
    wait_layout(&desk, "fr", "bepo");
    drop(desk);
    let Some((desk, _)) = laid_out(&["de"], &["--layout", "session"]) else { return };
    desk.key(KEY_A, true);
    desk.key(KEY_A, false);
    desk.fake.wait_for("a key", |message| match message {
        ViewerMessage::KeyboardLayout(layout) => panic!("the session received {layout:?}"),
        ViewerMessage::Input(input) => {
            matches!(input.event, InputEvent::Key { down: false, .. }).then_some(())
        }
        _ => None,
    });
}

#[test]
fn locks_are_sent_before_the_key_that_they_affect() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    let mut told = None;
    for (mods, caps, num) in [
        (ModMask::LOCK, true, false),
        (ModMask::LOCK | ModMask::M2, true, true),
        (ModMask::default(), false, false),
    ] {
        lock(&desk, mods, None);
        until("SDL has received the locks", || {
            desk.key(KEY_A, true);
            desk.key(KEY_A, false);
            loop {
                match desk.fake.input().1 {
                    InputEvent::Locks { caps, num } => told = Some((caps, num)),
                    InputEvent::Key { down: true, .. } => break,
                    _ => {}
                }
            }
            (told == Some((caps, num))).then_some(())
        });
    }
}

#[test]
fn the_open_menu_takes_keys_and_sends_keys_that_the_desktop_intercepts() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    let press = |code| {
        desk.key(code, true);
        desk.key(code, false);
    };
    let open = || {
        desk.key(KEY_LEFTCTRL, true);
        desk.key(KEY_LEFTALT, true);
        press(KEY_M);
        desk.key(KEY_LEFTALT, false);
        desk.key(KEY_LEFTCTRL, false);
        until("the menu", || {
            desk.pixels(Rect::at(0, 0, 400, 300)).contains(&0xe8_e8e8).then_some(())
        });
        // Control and Alt went down; one message releases both.
        let keys: Vec<(u16, bool)> =
            desk.fake.keys(2).iter().map(|(code, _, down)| (*code, *down)).collect();
        assert_eq!(keys, [(KEY_LEFTCTRL, true), (KEY_LEFTALT, true)]);
    };
    open();
    press(KEY_D);
    press(KEY_ESC);
    desk.wait_exact();
    press(KEY_D);
    assert_eq!(desk.fake.keys(2)[0].0, KEY_D, "the first key after the menu is the first one sent");
    open();
    press(KEY_1);
    let keys: Vec<(u16, bool)> =
        desk.fake.keys(6).iter().map(|(code, _, down)| (*code, *down)).collect();
    assert_eq!(keys, [(29, true), (56, true), (111, true), (111, false), (56, false), (29, false)]);
    desk.wait_exact();
}

#[test]
fn arrows_and_enter_choose_from_the_menu_and_the_title_says_what_is_selected() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    let press = |code| {
        desk.key(code, true);
        desk.key(code, false);
    };
    let titled = |what: &str| {
        until(what, || desk.title().starts_with(what).then_some(()));
    };
    desk.key(KEY_LEFTCTRL, true);
    desk.key(KEY_LEFTALT, true);
    press(KEY_M);
    desk.key(KEY_LEFTALT, false);
    desk.key(KEY_LEFTCTRL, false);
    titled("Sound: on, 100 % - nothing plays - ");
    press(KEY_DOWN);
    titled("V: Mute, or hear it again - ");
    // From the last row, by three: to the function keys, Ctrl+Esc, and Print.
    press(KEY_END);
    titled("Q: Close the viewer");
    for _ in 0..3 {
        press(KEY_UP);
    }
    titled("5: Print - ");
    desk.fake.keys(2);
    press(KEY_ENTER);
    let keys: Vec<(u16, bool)> =
        desk.fake.keys(2).iter().map(|(code, _, down)| (*code, *down)).collect();
    assert_eq!(keys, [(KEY_PRINT, true), (KEY_PRINT, false)]);
    until("the menu is closed", || (!desk.title().contains(": ")).then_some(()));
    desk.wait_exact();
}

#[test]
fn a_press_beside_the_menu_closes_it_and_is_not_the_sessions() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    desk.key(KEY_LEFTCTRL, true);
    desk.key(KEY_LEFTALT, true);
    desk.key(KEY_U, true);
    desk.key(KEY_U, false);
    desk.key(KEY_LEFTALT, false);
    desk.key(KEY_LEFTCTRL, false);
    let opened = "People in this session - ";
    until(opened, || desk.title().starts_with(opened).then_some(()));
    let press = || {
        desk.point(2, 298);
        desk.test_input(BUTTON_PRESS_EVENT, 1, 0, 0);
        desk.test_input(BUTTON_RELEASE_EVENT, 1, 0, 0);
    };
    press();
    desk.wait_exact();
    // The next one is the session's.
    press();
    let mut buttons = Vec::new();
    while buttons.len() < 2 {
        if let InputEvent::Button { down, .. } = desk.fake.input().1 {
            buttons.push(down);
        }
    }
    assert_eq!(buttons, [true, false]);
}

#[test]
fn the_owner_gives_control_and_invites_by_the_menu_and_sees_a_guests_pointer() {
    let Some((desk, display)) = laid_out(&["us"], &[]) else { return };
    let press = |code| {
        desk.key(code, true);
        desk.key(code, false);
    };
    let ink = |rect| desk.pixels(rect).contains(&0xe8_e8e8);
    let request = |what: &str| -> Share {
        desk.fake.wait_for(what, |message| match message {
            ViewerMessage::Share(share) => Some(share.clone()),
            ViewerMessage::Input(input) => {
                if let InputEvent::Key { code, .. } = input.event {
                    assert!([KEY_LEFTCTRL, KEY_LEFTALT].contains(&code), "the menu has key {code}");
                }
                None
            }
            _ => None,
        })
    };
    let owner = Person { number: 1, has_control: true, ..Person::default() };
    let guest = Person { number: 2, guest: 7, name: "Ada".into(), ..Person::default() };
    let all = People { own: 1, people: vec![owner.clone(), guest] };
    desk.fake.send(&SessionMessage::People(all));

    // Another's pointer has a name.
    let name = Rect::at(20, 30, 40, 16);
    assert!(!ink(name));
    desk.fake.send(&SessionMessage::PersonPointer(PersonPointer { number: 2, x: 20, y: 30 }));
    until("the name", || ink(name).then_some(()));

    desk.key(KEY_LEFTCTRL, true);
    desk.key(KEY_LEFTALT, true);
    press(KEY_U);
    desk.key(KEY_LEFTALT, false);
    desk.key(KEY_LEFTCTRL, false);
    press(KEY_1);
    press(KEY_C);
    let Share { request: number, action } = request("control is given");
    assert_eq!(action, ShareAction::GiveControl(7));
    desk.fake.send(&SessionMessage::Shared(Shared { request: number, result: Ok(String::new()) }));
    press(KEY_I);
    let Share { request: number, action } = request("an invitation");
    let plain = Invite { life_s: 7200, uses: 1, ..Invite::default() };
    assert_eq!(action, ShareAction::Invite(plain));
    let link = "https://host:1/#t=x";
    desk.fake.send(&SessionMessage::Shared(Shared { request: number, result: Ok(link.into()) }));
    until("the link is copied", || {
        let arguments = ["-selection", "clipboard", "-o", "-display", &display];
        let copied = Program::new("xclip").args(arguments).output().unwrap();
        (copied.stdout == link.as_bytes()).then_some(())
    });
    press(KEY_ESC);
    press(KEY_A);
    assert_eq!(desk.fake.keys(1)[0].0, KEY_A, "the first key after the menu is the next one sent");

    desk.fake.send(&SessionMessage::People(People { own: 1, people: vec![owner] }));
    until("the name is gone", || (!ink(name)).then_some(()));
}

#[test]
fn a_message_of_the_administrator_stays_until_it_is_closed_and_takes_no_keys() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    let press = |code| {
        desk.key(code, true);
        desk.key(code, false);
    };
    let panel = Rect::at(0, 0, 400, 24);
    let ink = || desk.pixels(panel).contains(&0xe8_e8e8);
    assert!(!ink());
    desk.fake.send(&SessionMessage::Notice("This server restarts at six.".into()));
    until("the message", || ink().then_some(()));
    press(KEY_A);
    assert_eq!(desk.fake.keys(1)[0].0, KEY_A);
    desk.key(KEY_LEFTCTRL, true);
    desk.key(KEY_LEFTALT, true);
    press(KEY_ENTER);
    desk.key(KEY_LEFTALT, false);
    desk.key(KEY_LEFTCTRL, false);
    until("no message", || (!ink()).then_some(()));
    // From now on the session gets these keys.
    desk.fake.keys(5);
    desk.key(KEY_LEFTCTRL, true);
    desk.key(KEY_LEFTALT, true);
    press(KEY_ENTER);
    let keys: Vec<u16> = desk.fake.keys(4).iter().map(|key| key.0).collect();
    assert_eq!(keys, [KEY_LEFTCTRL, KEY_LEFTALT, KEY_ENTER, KEY_ENTER]);
    desk.key(KEY_LEFTALT, false);
    desk.key(KEY_LEFTCTRL, false);
}

#[test]
fn pressed_keys_are_released_when_the_focus_is_lost() {
    let Some((desk, _)) = laid_out(&["us"], &[]) else { return };
    desk.key(KEY_A, true);
    desk.fake.keys(1);
    desk.x.set_input_focus(InputFocus::POINTER_ROOT, desk.root, x11rb::CURRENT_TIME).unwrap();
    desk.x.flush().unwrap();
    desk.fake.wait_for("nothing is held", |message| match message {
        ViewerMessage::Input(input) => (input.event == InputEvent::ReleaseAll).then_some(()),
        _ => None,
    });
    desk.key(KEY_A, false);
}
