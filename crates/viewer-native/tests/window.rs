//! The window itself, on an X server of its own, against a fake session: what is seen is what was drawn, and what a
//! person does arrives. Looks only at pixels and cursors of the X server and at what the session was told.
//! Skipped, and said so, where there is no Xvfb.
#![cfg(feature = "window")]

mod fake;

use std::io::Read as _;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, LONG};
use thinc_protocol::command::Packing;
use thinc_protocol::session::{CloseCode, CursorBits, CursorColors, SessionMessage};
use thinc_protocol::viewer::{InputEvent, ViewerMessage};
use thinc_region::{Rect, Size};
use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ConfigureWindowAux, ConnectionExt as _, ImageFormat, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, MOTION_NOTIFY_EVENT,
    MapState, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

/// Ended when the test ends, however it does.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An X server, a fake session and a viewer in its window.
struct Desk {
    viewer: Ended,
    fake: Fake,
    x: RustConnection,
    root: Window,
    window: Window,
    _server: Ended,
}

fn xvfb() -> Option<(Ended, String)> {
    let mut child = match Program::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "1000x800x24", "-nolisten", "tcp", "-noreset"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "the window's tests need Xvfb: {error}");
            eprintln!("skipped: no Xvfb ({error})");
            return None;
        }
    };
    let mut number = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        number.push(byte[0] as char);
    }
    Some((Ended(child), format!(":{number}")))
}

/// Asks until it is so; for what the X server shows, which sends nobody an event.
fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The viewer's window: the only large one.
fn find_window(x: &RustConnection, parent: Window) -> Option<Window> {
    let tree = x.query_tree(parent).ok()?.reply().ok()?;
    tree.children.into_iter().find(|window| {
        let attributes = x.get_window_attributes(*window).ok().and_then(|cookie| cookie.reply().ok());
        let geometry = x.get_geometry(*window).ok().and_then(|cookie| cookie.reply().ok());
        attributes.is_some_and(|attributes| attributes.map_state == MapState::VIEWABLE)
            && geometry.is_some_and(|geometry| geometry.width > 50)
    })
}

impl Desk {
    fn start(screen: Size, arguments: &[&str]) -> Option<Desk> {
        let (server, display) = xvfb()?;
        Some(Desk::start_on(server, &display, screen, arguments))
    }

    fn start_on(server: Ended, display: &str, screen: Size, arguments: &[&str]) -> Desk {
        let fake = Fake::start(screen);
        let viewer = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
            .arg(fake.link().to_string())
            .args(arguments)
            .env("DISPLAY", display)
            .env_remove("WAYLAND_DISPLAY")
            .env("SDL_VIDEO_DRIVER", "x11")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let viewer = Ended(viewer);
        let (x, number) = x11rb::connect(Some(display)).unwrap();
        x.xfixes_query_version(5, 0).unwrap().reply().unwrap();
        let root = x.setup().roots[number].root;
        let window = until("a window", || find_window(&x, root));
        // Without a window manager nobody else gives a window the keyboard.
        x.set_input_focus(x11rb::protocol::xproto::InputFocus::PARENT, window, x11rb::CURRENT_TIME).unwrap();
        x.flush().unwrap();
        Desk { viewer, fake, x, root, window, _server: server }
    }

    fn window_size(&self) -> Size {
        let geometry = self.x.get_geometry(self.window).unwrap().reply().unwrap();
        size(geometry.width.into(), geometry.height.into())
    }

    /// What the window shows.
    fn pixels(&self, rect: Rect) -> Vec<u32> {
        let (x, y) = (rect.x1 as i16, rect.y1 as i16);
        let (width, height) = (rect.width() as u16, rect.height() as u16);
        let cookie = self.x.get_image(ImageFormat::Z_PIXMAP, self.window, x, y, width, height, !0).unwrap();
        // The window may have another size by now; then nothing is shown there.
        let Ok(reply) = cookie.reply() else { return Vec::new() };
        let data = reply.data;
        data.chunks_exact(4).map(|p| u32::from_le_bytes(p.try_into().unwrap()) & 0xff_ffff).collect()
    }

    /// Waits until the window shows exactly the session's picture.
    fn wait_exact(&self) {
        until("the window shows the session's picture", || {
            let shown = self.window_size();
            let (screen, pixels) = {
                let state = self.fake.shared.state.lock().unwrap();
                (state.size, state.pixels.clone())
            };
            (shown == screen && self.pixels(shown.rect()) == pixels).then_some(())
        });
    }

    fn test_input(&self, kind: u8, detail: u8, x: i16, y: i16) {
        self.x.xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, self.root, x, y, 0).unwrap();
        self.x.flush().unwrap();
    }

    fn key(&self, evdev: u16, down: bool) {
        let kind = if down { KEY_PRESS_EVENT } else { KEY_RELEASE_EVENT };
        self.test_input(kind, (evdev + 8) as u8, 0, 0);
    }

    /// Moves the pointer to a place in the window.
    fn point(&self, x: i16, y: i16) {
        let at = self.x.translate_coordinates(self.window, self.root, x, y).unwrap().reply().unwrap();
        self.test_input(MOTION_NOTIFY_EVENT, 0, at.dst_x, at.dst_y);
    }

    fn motion(&self, wanted: (u16, u16)) {
        self.fake.wait_for(&format!("a motion to {wanted:?}"), |message| match message {
            ViewerMessage::Input(input) if input.event == (InputEvent::Motion { x: wanted.0, y: wanted.1 }) => Some(()),
            _ => None,
        });
    }

    /// The viewer's exit code and what it said.
    fn end(&mut self) -> (Option<i32>, String) {
        let status = until("the viewer ends", || self.viewer.0.try_wait().unwrap());
        let mut said = String::new();
        self.viewer.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }
}

#[test]
fn the_window_shows_exactly_what_the_session_draws() {
    for present in ["surface", "renderer"] {
        let Some(mut desk) = Desk::start(size(400, 300), &["--present", present]) else { return };
        // SDL makes the window anew when a renderer wants another visual: the one that stays is the one to look at.
        until("the first picture", || {
            desk.window = find_window(&desk.x, desk.root)?;
            (desk.pixels(Rect::at(0, 0, 400, 300)) == desk.fake.screen()).then_some(())
        });
        for step in 0..20 {
            desk.fake.fill(Rect::at(step * 13, step * 7, 40, 30), 0x30_1000 + step as u32 * 0x010305, None);
            desk.wait_exact();
        }
    }
}

#[test]
fn resizing_the_window_resizes_the_session_and_a_stubborn_one_is_shown_whole() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    for (width, height) in [(500, 350), (640, 480), (320, 200)] {
        let change = ConfigureWindowAux::new().width(width).height(height);
        desk.x.configure_window(desk.window, &change).unwrap();
        desk.x.flush().unwrap();
        desk.fake
            .wait_for("the new size", |message| (*message == ViewerMessage::Resize(size(width, height))).then_some(()));
        desk.wait_exact();
    }
    // The session changes its size on its own: smaller is centred and exact, with a border.
    desk.fake.shared.state.lock().unwrap().stubborn = true;
    desk.fake.set_size(size(200, 100));
    let screen = desk.fake.screen();
    until("the smaller screen in the middle", || (desk.pixels(Rect::at(60, 50, 200, 100)) == screen).then_some(()));
    let border = desk.pixels(Rect::at(0, 0, 320, 50));
    assert!(border.iter().all(|pixel| *pixel == border[0]), "one colour all round");
    // Larger is scaled down, whole: the pointer's places follow.
    desk.fake.set_size(size(640, 400));
    desk.fake.fill(Rect::at(0, 0, 640, 400), 0x4080c0, None);
    until("one colour everywhere", || {
        desk.pixels(Rect::at(0, 0, 320, 200)).iter().all(|pixel| *pixel == 0x4080c0).then_some(())
    });
    desk.point(100, 50);
    desk.motion((200, 100));
}

#[test]
fn keys_and_pointer_arrive_with_the_right_codes() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.point(150, 120);
    desk.motion((150, 120));
    // a, Shift+a, Return, F5, cursor up, keypad 7 without Num Lock, Control and Super
    desk.key(30, true);
    desk.key(30, false);
    assert_eq!(desk.fake.keys(2), [(30, 0x61, true), (30, 0x61, false)]);
    desk.key(42, true);
    desk.key(30, true);
    desk.key(42, false);
    desk.key(30, false);
    let expected = [(42, 0xffe1, true), (30, 0x41, true), (42, 0xffe1, false), (30, 0x41, false)];
    assert_eq!(desk.fake.keys(4), expected, "a release has the keysym of its press");
    for (code, keysym) in [(28, 0xff0d), (63, 0xffc2), (103, 0xff52), (71, 0xff95), (97, 0xffe4), (125, 0xffeb)] {
        desk.key(code, true);
        desk.key(code, false);
        assert_eq!(desk.fake.keys(2), [(code, keysym, true), (code, keysym, false)]);
    }
    // Buttons, with what lies between: X's 4 to 7 are the wheel.
    for (button, wanted) in [(1, 1), (2, 2), (3, 3), (8, 8), (9, 9)] {
        desk.test_input(x11rb::protocol::xproto::BUTTON_PRESS_EVENT, button, 0, 0);
        desk.test_input(x11rb::protocol::xproto::BUTTON_RELEASE_EVENT, button, 0, 0);
        assert_eq!(desk.fake.input().1, InputEvent::Button { button: wanted, down: true });
        assert_eq!(desk.fake.input().1, InputEvent::Button { button: wanted, down: false });
    }
    for (button, dx, dy) in [(4, 0, -120), (5, 0, 120), (6, -120, 0), (7, 120, 0)] {
        desk.test_input(x11rb::protocol::xproto::BUTTON_PRESS_EVENT, button, 0, 0);
        desk.test_input(x11rb::protocol::xproto::BUTTON_RELEASE_EVENT, button, 0, 0);
        assert_eq!(desk.fake.input().1, InputEvent::Scroll { dx, dy }, "button {button}");
    }
}

#[test]
fn a_held_key_is_pressed_once_and_losing_the_keyboard_releases_all() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.key(31, true);
    assert_eq!(desk.fake.keys(1), [(31, 0x73, true)]);
    // Longer than X waits before it repeats a key (0.66 s), and a few repeats.
    std::thread::sleep(Duration::from_millis(900));
    let elsewhere = desk.x.generate_id().unwrap();
    desk.x
        .create_window(
            0,
            elsewhere,
            desk.root,
            900,
            700,
            10,
            10,
            0,
            x11rb::protocol::xproto::WindowClass::INPUT_OUTPUT,
            0,
            &x11rb::protocol::xproto::CreateWindowAux::new().override_redirect(1),
        )
        .unwrap();
    desk.x.map_window(elsewhere).unwrap();
    desk.x.set_input_focus(x11rb::protocol::xproto::InputFocus::PARENT, elsewhere, x11rb::CURRENT_TIME).unwrap();
    desk.x.flush().unwrap();
    let mut downs = 0;
    desk.fake.wait_for("everything released", |message| match message {
        ViewerMessage::Input(input) => {
            downs += u32::from(matches!(input.event, InputEvent::Key { down: true, .. }));
            (input.event == InputEvent::ReleaseAll).then_some(())
        }
        _ => None,
    });
    assert_eq!(downs, 0, "a repeat is the session's work");
    desk.key(31, false);
}

#[test]
fn the_cursor_is_the_sessions_and_warps_are_followed() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.point(50, 60);
    desk.motion((50, 60));
    // Half-transparent white next to solid red: premultiplied, as X wants it.
    let pixels: Vec<u32> = (0..16 * 16).map(|i| if i % 2 == 0 { 0x8080_8080 } else { 0xffff_0000 }).collect();
    desk.fake.set_cursor(size(16, 16), (5, 7), &pixels);
    let image = until("the session's cursor", || {
        let image = desk.x.xfixes_get_cursor_image().unwrap().reply().unwrap();
        (image.xhot == 5 && image.yhot == 7).then_some(image)
    });
    assert_eq!((image.width, image.height), (16, 16));
    assert_eq!(image.cursor_image, pixels);
    // Two colours, then two others for the same planes: the left half, over a right half that ends after 12 pixels.
    let planes = [[0xff, 0x00].repeat(16), [0xff, 0xf0].repeat(16)].concat();
    let (red_on_blue, green_on_red) =
        (CursorColors { fore: 0xff_0000, back: 0xff }, CursorColors { fore: 0xff00, back: 0xff_0000 });
    let (size, packing) = (size(16, 16), Packing::Plain);
    for colors in [red_on_blue, green_on_red] {
        if colors == red_on_blue {
            desk.fake.send(&SessionMessage::CursorBits(CursorBits {
                size,
                hot_x: 1,
                hot_y: 2,
                colors,
                packing,
                planes: &planes,
            }));
        } else {
            desk.fake.send(&SessionMessage::CursorColor(colors));
        }
        let (fore, back) = (0xff00_0000 | colors.fore, 0xff00_0000 | colors.back);
        until("a cursor of two colours", || {
            let image = desk.x.xfixes_get_cursor_image().unwrap().reply().unwrap();
            let row = [vec![fore; 8], vec![back; 4], vec![0; 4]].concat();
            ((image.xhot, image.yhot) == (1, 2) && image.cursor_image == row.repeat(16)).then_some(())
        });
    }
    desk.fake.send(&SessionMessage::CursorMove { x: 222, y: 111 });
    until("the pointer where the application put it", || {
        let pointer = desk.x.query_pointer(desk.window).unwrap().reply().unwrap();
        ((pointer.win_x, pointer.win_y) == (222, 111)).then_some(())
    });
    desk.fake.send(&SessionMessage::CursorShow(false));
    until("a hidden cursor", || {
        let image = desk.x.xfixes_get_cursor_image().unwrap().reply().unwrap();
        image.cursor_image.iter().all(|pixel| *pixel == 0).then_some(())
    });
}

#[test]
fn statistics_are_shown_on_a_key_and_go_without_a_trace() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    let chord = || {
        for (code, down) in [(29, true), (56, true), (31, true), (31, false), (56, false), (29, false)] {
            desk.key(code, down);
        }
    };
    chord();
    until("a panel in the corner", || {
        let pixels = desk.pixels(Rect::at(8, 8, 60, 60));
        (pixels.contains(&0xe8_e8e8) && pixels.iter().filter(|pixel| **pixel == 0x18_181c).count() > 1500).then_some(())
    });
    let keys: Vec<u16> = desk.fake.keys(4).iter().map(|(code, ..)| *code).collect();
    assert_eq!(keys, [29, 56, 56, 29], "the letter is the viewer's own");
    // What is drawn meanwhile is there when the panel goes.
    desk.fake.fill(Rect::at(0, 0, 100, 100), 0x00ff00, None);
    chord();
    desk.wait_exact();
}

#[test]
fn a_lost_session_is_dimmed_and_comes_back() {
    let Some(mut desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.fake.close(CloseCode::Restart, "a new version");
    until("back by itself", || (desk.fake.shared.state.lock().unwrap().connections == 2).then_some(()));
    desk.wait_exact();
    desk.fake.fill(Rect::at(0, 0, 400, 300), 0x8040c0, None);
    desk.wait_exact();
    desk.key(16, true);
    desk.key(16, false);
    assert_eq!(desk.fake.keys(2)[0].0, 16, "input goes to the new connection");
    desk.fake.close(CloseCode::Replaced, "another viewer took over");
    until("an old picture, darker", || (desk.pixels(Rect::at(2, 2, 1, 1)) == [0x201030]).then_some(()));
    until("what happened, in words", || desk.pixels(Rect::at(0, 0, 400, 300)).contains(&0xe8_e8e8).then_some(()));
    for (code, down) in [(29, true), (56, true), (16, true)] {
        desk.key(code, down);
    }
    let (code, said) = desk.end();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("another viewer took over"), "{said}");
}

#[test]
fn the_end_of_the_session_closes_the_window_in_words() {
    let Some(mut desk) = Desk::start(size(400, 300), &["--stats"]) else { return };
    until("a picture", || (desk.fake.shared.state.lock().unwrap().connections == 1).then_some(()));
    desk.fake.close(CloseCode::SessionEnded, "the command ended");
    let (code, said) = desk.end();
    assert_eq!((code, said.trim()), (Some(0), "thinc-view: the command ended"));
}

#[test]
fn a_viewer_that_shows_a_resting_screen_sleeps() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    // Times any of its threads went to sleep, which is how often one woke.
    let sleeps = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", desk.viewer.0.id())).unwrap();
        let of_task = |task: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        tasks.map(of_task).sum()
    };
    std::thread::sleep(Duration::from_millis(300));
    let before = sleeps();
    std::thread::sleep(Duration::from_secs(2));
    let woken = sleeps() - before;
    assert!(woken <= 4, "it woke {woken} times in two seconds in which nothing happened");
}

#[test]
fn letters_beyond_ascii_come_with_the_keysym_of_the_layout() {
    let Some((server, display)) = xvfb() else { return };
    let set = |layout: &str| Program::new("setxkbmap").args(["-display", &display, layout]).status();
    match set("de,ru") {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "the keyboard's tests need setxkbmap: {error}");
            eprintln!("skipped: no setxkbmap ({error})");
            return;
        }
    }
    let desk = Desk::start_on(server, &display, size(400, 300), &[]);
    desk.wait_exact();
    let press = |code: u16| {
        desk.key(code, true);
        desk.key(code, false);
    };
    // German: where US has [ is ü, where it has Y is z; AltGr+q is @; Shift+ß is ?.
    press(26);
    assert_eq!(desk.fake.keys(2), [(26, 0xfc, true), (26, 0xfc, false)]);
    press(21);
    assert_eq!(desk.fake.keys(2)[0], (21, 0x7a, true));
    desk.key(100, true);
    press(16);
    desk.key(100, false);
    let keys = desk.fake.keys(4);
    assert_eq!((keys[0].0, keys[1], keys[3].0), (100, (16, 0x40, true), 100), "{keys:?}");
    desk.key(54, true);
    press(12);
    desk.key(54, false);
    assert_eq!(desk.fake.keys(4)[1], (12, 0x3f, true));
    // Dead keys: ^ left of 1, and right of ß the acute accent, with Shift the grave one.
    press(41);
    assert_eq!(desk.fake.keys(2), [(41, 0xfe52, true), (41, 0xfe52, false)]);
    press(13);
    assert_eq!(desk.fake.keys(2)[0], (13, 0xfe51, true));
    desk.key(42, true);
    press(13);
    desk.key(42, false);
    assert_eq!(desk.fake.keys(4)[1], (13, 0xfe50, true));
    assert!(set("ru").unwrap().success());
    // The new layout reaches SDL as an event of its own: ask until it has.
    until("Cyrillic", || {
        press(16);
        (desk.fake.keys(2)[0] == (16, 0x0100_0439, true)).then_some(())
    });
}

#[test]
fn asked_by_a_signal_it_writes_its_figures_and_says_goodbye() {
    let folder = std::env::temp_dir().join(format!("thinc-view-signal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let stats = folder.join("stats.json");
    let Some(mut desk) = Desk::start(size(400, 300), &["--stats-json", stats.to_str().unwrap()]) else { return };
    desk.wait_exact();
    let sent = Program::new("kill").arg(desk.viewer.0.id().to_string()).status().unwrap();
    assert!(sent.success());
    let (code, said) = desk.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    desk.fake.wait_for("goodbye", |message| matches!(message, ViewerMessage::Close(_)).then_some(()));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!((&json["width"], &json["session"]), (&400.into(), &"fake".into()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn fullscreen_takes_the_whole_screen() {
    let Some(desk) = Desk::start(size(400, 300), &["--fullscreen"]) else { return };
    desk.fake
        .wait_for("the screen's size", |message| (*message == ViewerMessage::Resize(size(1000, 800))).then_some(()));
    desk.wait_exact();
}
