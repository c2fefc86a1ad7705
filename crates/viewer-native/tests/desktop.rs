//! The window among a desktop's others, on a private X server, mostly with openbox: its icon, drags
//! with Alt, and errors that nobody would see on standard error. Checks the X server's windows and
//! properties, and the messages that the fake session received. Skipped, with a message, without
//! Xvfb or openbox.
#![cfg(feature = "window")]

mod desk;
mod fake;

use std::process::{Command as Program, Stdio};

use desk::{Desk, Ended, find_windows, until, xvfb};
use fake::Fake;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{InputEvent, ViewerMessage};
use thinc_region::Rect;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ButtonIndex, ClientMessageEvent,
    ConnectionExt as _, CreateWindowAux, EventMask, GrabMode, InputFocus, MOTION_NOTIFY_EVENT,
    ModMask, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

const KEY_ESC: u16 = 1;
const KEY_LEFTCTRL: u16 = 29;
const KEY_B: u16 = 48;
const KEY_LEFTALT: u16 = 56;
const KEY_LEFTMETA: u16 = 125;

/// A property of 32-bit values; empty if the window has none.
fn property(x: &RustConnection, window: Window, name: &str) -> Vec<u32> {
    let atom = x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom;
    let cookie = x.get_property(false, window, atom, AtomEnum::ANY, 0, 1 << 20).unwrap();
    let reply = cookie.reply().ok();
    reply.and_then(|reply| Some(reply.value32()?.collect())).unwrap_or_default()
}

/// A desk with openbox as its window manager; None if the test cannot run.
fn managed() -> Option<(Desk, Ended)> {
    let (server, display) = xvfb()?;
    let openbox = Program::new("openbox")
        .args(["--sm-disable"])
        .env("DISPLAY", &display)
        .env("HOME", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let openbox = match openbox {
        Ok(openbox) => Ended(openbox),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "these tests need openbox: {error}");
            eprintln!("skipped: no openbox ({error})");
            return None;
        }
    };
    let (x, screen) = x11rb::connect(Some(&display)).unwrap();
    let root = x.setup().roots[screen].root;
    until("openbox manages windows", || {
        (!property(&x, root, "_NET_SUPPORTING_WM_CHECK").is_empty()).then_some(())
    });
    let mut desk = Desk::start_on(server, &display, desk::size(400, 300), &[]);
    // The window itself, in openbox's frame.
    desk.window = until("the window is managed", || {
        property(&desk.x, root, "_NET_CLIENT_LIST").first().copied()
    });
    activate(&desk);
    desk.wait_exact();
    Some((desk, openbox))
}

/// Makes the viewer's window the active one, as a task bar does.
fn activate(desk: &Desk) {
    let atom = desk.x.intern_atom(false, b"_NET_ACTIVE_WINDOW").unwrap().reply().unwrap().atom;
    let events = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    until("the window is active", || {
        let event = ClientMessageEvent::new(32, desk.window, atom, [2, 0, 0, 0, 0]);
        desk.x.send_event(false, desk.root, events, event).unwrap();
        desk.x.flush().unwrap();
        let focus = desk.x.get_input_focus().unwrap().reply().unwrap().focus;
        // SDL has the focus on a child of its window.
        let parent = desk.x.query_tree(focus).ok().and_then(|tree| tree.reply().ok());
        let parent = parent.map_or(x11rb::NONE, |tree| tree.parent);
        [focus, parent].contains(&desk.window).then_some(())
    });
}

/// Waits until openbox has handled all events so far: it answers a request that comes after them.
fn openbox_has_handled_all(desk: &Desk) {
    let window = desk.x.generate_id().unwrap();
    let (class, aux) = (WindowClass::INPUT_OUTPUT, CreateWindowAux::new());
    desk.x.create_window(0, window, desk.root, 0, 0, 10, 10, 0, class, 0, &aux).unwrap();
    let name = b"_NET_REQUEST_FRAME_EXTENTS";
    let atom = desk.x.intern_atom(false, name).unwrap().reply().unwrap().atom;
    let events = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    let event = ClientMessageEvent::new(32, window, atom, [0; 5]);
    desk.x.send_event(false, desk.root, events, event).unwrap();
    desk.x.flush().unwrap();
    until("openbox answers", || {
        (!property(&desk.x, window, "_NET_FRAME_EXTENTS").is_empty()).then_some(())
    });
    desk.x.destroy_window(window).unwrap();
}

fn place(desk: &Desk, window: Window) -> (i16, i16) {
    let at = desk.x.translate_coordinates(window, desk.root, 0, 0).unwrap().reply().unwrap();
    (at.dst_x, at.dst_y)
}

/// Waits until the viewer has left the buttons to the desktop: X gives them to one client only. It
/// has taken them when the session gets a motion.
fn wait_buttons_left(desk: &Desk) {
    let (mode, none, alt) = (GrabMode::ASYNC, x11rb::NONE, ModMask::M1);
    let (events, button) = (EventMask::BUTTON_PRESS, ButtonIndex::ANY);
    until("the buttons are left to the desktop", || {
        desk.x
            .grab_button(false, desk.root, events, mode, mode, none, none, button, alt)
            .unwrap()
            .check()
            .ok()
    });
    desk.x.ungrab_button(button, desk.root, alt).unwrap().check().unwrap();
}

/// Drags from a point of a window with this key and button, and ends after `to`.
fn drag(desk: &Desk, window: Window, (key, button): (u16, u8), from: (i16, i16), to: (i16, i16)) {
    let at = place(desk, window);
    let move_to = |(x, y): (i16, i16)| {
        desk.test_input(MOTION_NOTIFY_EVENT, 0, at.0 + x, at.1 + y);
    };
    move_to(from);
    desk.key(key, true);
    desk.test_input(BUTTON_PRESS_EVENT, button, 0, 0);
    openbox_has_handled_all(desk);
    // The first motion of more than a few pixels begins the move, and what follows is the move;
    // openbox takes all motions that it finds as one.
    for step in 1..=4 {
        move_to((from.0 + (to.0 - from.0) * step / 4, from.1 + (to.1 - from.1) * step / 4));
        openbox_has_handled_all(desk);
    }
    desk.test_input(BUTTON_RELEASE_EVENT, button, 0, 0);
    desk.key(key, false);
    openbox_has_handled_all(desk);
}

/// The session gets a drag that ends here: the button goes down, once, and up there.
fn session_gets_drag(desk: &Desk, button: u8, to: (u16, u16)) {
    let (mut last, mut pressed) = (None, 0);
    desk.fake.wait_for(&format!("a drag to {to:?}"), |message| {
        let ViewerMessage::Input(input) = message else { return None };
        match input.event {
            InputEvent::Motion { x, y } => last = Some((x, y)),
            InputEvent::Button { button: of, down: true } if of == button => pressed += 1,
            InputEvent::Button { button: of, down: false } if of == button => return Some(()),
            _ => {}
        }
        None
    });
    assert_eq!((pressed, last), (1, Some(to)));
}

fn press_ctrl_alt_b(desk: &Desk) {
    for (key, down) in [
        (KEY_LEFTCTRL, true),
        (KEY_LEFTALT, true),
        (KEY_B, true),
        (KEY_B, false),
        (KEY_LEFTALT, false),
        (KEY_LEFTCTRL, false),
    ] {
        desk.key(key, down);
    }
    // Alt goes up in the session after the shortcut was handled.
    desk.fake.wait_for("the keys are up", |message| {
        let ViewerMessage::Input(input) = message else { return None };
        (input.event == InputEvent::Key { code: KEY_LEFTCTRL, keysym: 0xffe3, down: false })
            .then_some(())
    });
}

#[test]
fn a_drag_with_alt_or_super_is_the_sessions_until_the_person_leaves_it_to_the_desktop() {
    let Some((desk, _openbox)) = managed() else { return };
    let before = place(&desk, desk.window);
    desk.point(100, 80);
    desk.motion((100, 80));
    // Another button each time: one that is pressed again within 15 ms is taken for an echo of X's.
    for (key, button, to) in [
        (KEY_LEFTALT, 1, (200, 150)),
        (KEY_LEFTMETA, 3, (210, 140)),
        (KEY_LEFTALT, 2, (30, 20)),
        (KEY_LEFTALT, 3, (130, 120)),
    ] {
        drag(&desk, desk.window, (key, button), (100, 80), to);
        session_gets_drag(&desk, button, (to.0 as u16, to.1 as u16));
        assert_eq!(place(&desk, desk.window), before, "the window stays");
        assert_eq!(desk.window_size(), desk::size(400, 300), "and keeps its size");
    }
    press_ctrl_alt_b(&desk);
    wait_buttons_left(&desk);
    drag(&desk, desk.window, (KEY_LEFTALT, 1), (100, 80), (160, 110));
    assert_ne!(place(&desk, desk.window), before, "the desktop moves the window");
    activate(&desk);
    press_ctrl_alt_b(&desk);
    desk.point(50, 60);
    desk.motion((50, 60));
    let moved = place(&desk, desk.window);
    drag(&desk, desk.window, (KEY_LEFTALT, 2), (50, 60), (90, 70));
    session_gets_drag(&desk, 2, (90, 70));
    assert_eq!(place(&desk, desk.window), moved);
}

#[test]
fn other_windows_are_moved_as_ever() {
    let Some((desk, _openbox)) = managed() else { return };
    let other = desk.x.generate_id().unwrap();
    let (class, aux) =
        (WindowClass::INPUT_OUTPUT, CreateWindowAux::new().background_pixel(0x888888));
    desk.x.create_window(0, other, desk.root, 10, 10, 150, 100, 0, class, 0, &aux).unwrap();
    desk.x.map_window(other).unwrap();
    desk.x.flush().unwrap();
    until("it is managed", || {
        property(&desk.x, desk.root, "_NET_CLIENT_LIST").contains(&other).then_some(())
    });
    // The pointer was in the viewer's window, which takes the buttons only while it is there: after
    // a plain motion, and after a drag that ended outside.
    for end in [(100, 80), (-150, -90)] {
        activate(&desk);
        desk.point(90, 70);
        desk.motion((90, 70));
        let before = place(&desk, desk.window);
        drag(&desk, desk.window, (KEY_LEFTALT, 1), (90, 70), end);
        desk.fake.wait_for("the button is up", |message| {
            let ViewerMessage::Input(input) = message else { return None };
            (input.event == InputEvent::Button { button: 1, down: false }).then_some(())
        });
        assert_eq!(place(&desk, desk.window), before, "that was the session's");
        let at = place(&desk, other);
        desk.test_input(MOTION_NOTIFY_EVENT, 0, at.0 + 60, at.1 + 50);
        wait_buttons_left(&desk);
        drag(&desk, other, (KEY_LEFTALT, 1), (60, 50), (80, 65));
        assert_ne!(place(&desk, other), at, "the other window is moved");
    }
}

#[test]
fn buttons_that_another_program_holds_are_named_once_and_the_others_are_the_sessions() {
    let Some((mut desk, _openbox)) = managed() else { return };
    desk.point(100, 80);
    desk.motion((100, 80));
    press_ctrl_alt_b(&desk);
    wait_buttons_left(&desk);
    let (mode, none) = (GrabMode::ASYNC, x11rb::NONE);
    for modifiers in [ModMask::M1, ModMask::M1 | ModMask::SHIFT] {
        let (events, button) = (EventMask::BUTTON_PRESS, ButtonIndex::M1);
        let x = &desk.x;
        x.grab_button(false, desk.root, events, mode, mode, none, none, button, modifiers)
            .unwrap()
            .check()
            .unwrap();
    }
    press_ctrl_alt_b(&desk);
    drag(&desk, desk.window, (KEY_LEFTMETA, 3), (100, 80), (210, 140));
    session_gets_drag(&desk, 3, (210, 140));
    desk.close();
    let (code, said) = desk.end();
    assert_eq!((code, said.matches("another program has taken").count()), (Some(0), 1), "{said}");
}

#[test]
fn windows_have_the_viewers_icon() {
    let Some(desk) = Desk::start(desk::size(400, 300), &[]) else { return };
    let icon = until("an icon", || {
        Some(property(&desk.x, desk.window, "_NET_WM_ICON")).filter(|icon| !icon.is_empty())
    });
    assert_eq!((icon[0], icon[1], icon.len()), (128, 128, 2 + 128 * 128));
    // A corner is transparent, the play sign is orange, as packaging/desktop/thinc-view.svg has it.
    let pixel = |x: usize, y: usize| icon[2 + y * 128 + x];
    assert_eq!(pixel(0, 0) >> 24, 0);
    assert_eq!(pixel(76, 56), 0xffe8_833a);
}

/// A viewer without a terminal.
fn without_terminal(display: &str, arguments: &[&str]) -> Ended {
    let viewer = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .args(arguments)
        .env("DISPLAY", display)
        .env_remove("WAYLAND_DISPLAY")
        .env("SDL_VIDEO_DRIVER", "x11")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ended(viewer.unwrap())
}

#[test]
fn an_error_has_a_window_where_the_desktop_entry_started_the_viewer() {
    let Some((_server, display)) = xvfb() else { return };
    let (x, screen) = x11rb::connect(Some(&display)).unwrap();
    let root = x.setup().roots[screen].root;
    let fake = Fake::start(desk::size(64, 64));
    let mut used = fake.link();
    used.token = Some(b"unknown".to_vec());
    let used = used.to_string();
    // A link that is none, an option that is none, a token that the session does not know.
    for (arguments, code) in
        [(["nonsense"].as_slice(), 2), (&["--no-such-option"], 2), (&[used.as_str()], 5)]
    {
        let mut silent = without_terminal(&display, arguments);
        assert_eq!(silent.0.wait().unwrap().code(), Some(code), "{arguments:?}");
        let arguments = [&["--clipboard", "from-session", "--error-window"], arguments].concat();
        let mut viewer = without_terminal(&display, &arguments);
        let window = until("a window", || find_windows(&x, root).first().copied());
        x.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME).unwrap();
        let geometry = x.get_geometry(window).unwrap().reply().unwrap();
        // Light text on a dark ground.
        until("the error", || {
            let format = x11rb::protocol::xproto::ImageFormat::Z_PIXMAP;
            let (width, height) = (geometry.width, geometry.height);
            let cookie = x.get_image(format, window, 0, 0, width, height, !0).unwrap();
            let data = cookie.reply().unwrap().data;
            let inked = data.chunks_exact(4).filter(|pixel| pixel[0] == 0xe8).count();
            (inked > 1000 && inked < data.len() / 16).then_some(())
        });
        assert!(viewer.0.try_wait().unwrap().is_none(), "it stays until somebody has read it");
        let escape = |kind| {
            use x11rb::protocol::xtest::ConnectionExt as _;
            let key = (KEY_ESC + 8) as u8;
            x.xtest_fake_input(kind, key, x11rb::CURRENT_TIME, root, 0, 0, 0).unwrap();
            x.flush().unwrap();
        };
        let status = until("Escape closes it", || {
            escape(x11rb::protocol::xproto::KEY_PRESS_EVENT);
            escape(x11rb::protocol::xproto::KEY_RELEASE_EVENT);
            viewer.0.try_wait().unwrap()
        });
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn an_error_that_the_viewers_window_has_shown_has_no_other_window() {
    let Some(mut desk) = Desk::start(desk::size(400, 300), &["--error-window"]) else { return };
    desk.wait_exact();
    desk.fake.close(CloseCode::Protocol, "a frame of 99 bytes");
    until("the reason", || {
        let top = desk.pixels(Rect::at(0, 0, 400, 40));
        top.contains(&0x18_181c).then_some(())
    });
    desk.close();
    assert_eq!(desk.end().0, Some(6));
}
