//! The window on a private X server, against a fake session: its pixels equal the session's, and
//! user input arrives. Checks only the X server's pixels and cursors, and the messages that the
//! session received. Skipped, with a message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command as Program, Stdio};
use std::time::Duration;

use desk::{Desk, Ended, find_window, find_windows, size, until, xvfb};
use fake::Fake;
use thinc_protocol::command::{Command, Compression};
use thinc_protocol::file::{FileMessage, FilePurpose};
use thinc_protocol::session::{CloseCode, CursorBits, CursorColors, SessionMessage};
use thinc_protocol::video::{Codec, Eye, FrameData, SampleLayout, Source, VideoCommand};
use thinc_protocol::viewer::{Display, InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_x_selection::Drags;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ChangeWindowAttributesAux, ConfigureWindowAux,
    ConnectionExt as _, EventMask, InputFocus, MOTION_NOTIFY_EVENT, Window,
};

#[test]
fn the_window_equals_the_sessions_screen() {
    for present in ["surface", "renderer", "gpu"] {
        let Some(mut desk) = Desk::start(size(400, 300), &["--present", present]) else { return };
        // SDL recreates the window if a renderer needs another visual: compare with the final one.
        until(&format!("the first update, with --present {present}"), || {
            desk.window = find_window(&desk.x, desk.root)?;
            (desk.pixels(Rect::at(0, 0, 400, 300)) == desk.fake.screen()).then_some(())
        });
        for step in 0..20 {
            desk.fake.fill(
                Rect::at(step * 13, step * 7, 40, 30),
                0x30_1000 + step as u32 * 0x010305,
                None,
            );
            desk.wait_exact();
        }
    }
}

/// Painted by the CPU, or by a GPU, which here may be Mesa's software renderer.
#[test]
fn videos_are_bit_exact_with_every_presenter() {
    for present in ["surface", "gpu"] {
        let screen = size(400, 300);
        let Some(mut desk) = Desk::start(screen, &["--present", present]) else { return };
        desk.wait_exact();
        let (source, place) = (
            Source { size: size(64, 48), crop: Rect::at(3, 2, 60, 45) },
            Rect::at(250, 40, 200, 180),
        );
        let mut planes = Planes::new();
        planes.reset(source.size, SampleLayout::Yuv420);
        let (mut painter, mut expected) = (Painter::new(), desk.fake.screen());
        desk.fake.commands(&[Command::Video(VideoCommand::Init {
            id: 0,
            codec: Codec::None,
            eye: Eye::Left,
            source,
            place,
        })]);
        let shows = |what: &str, expected: &[u32]| {
            until(what, || {
                let shown = desk.pixels(screen.rect());
                let same = |(shown, expected): (&u32, &u32)| *shown == expected & 0xff_ffff;
                (shown.len() == expected.len() && shown.iter().zip(expected).all(same))
                    .then_some(())
            });
        };
        for picture in 0..5_usize {
            planes
                .data_mut()
                .iter_mut()
                .enumerate()
                .for_each(|(at, sample)| *sample = (at * (picture + 3) * 7) as u8);
            // A menu covers part of it, elsewhere with each frame.
            let mut clip = Region::from(place.intersect(&screen.rect()));
            clip.subtract_rect(&Rect::at(260 + 9 * picture as i32, 60, 50, 70));
            let data = FrameData::Plain { layout: SampleLayout::Yuv420, data: planes.data() };
            let next = VideoCommand::Next { id: 0, time: 0, clip: clip.clone(), frame: data };
            desk.fake.commands(&[Command::Video(next)]);
            painter.paint(
                &planes.as_ref(),
                &source,
                place,
                &clip,
                &mut expected,
                screen.width as usize,
            );
            shows("a frame", &expected);
        }
        // A window with a part of the video in it is moved, and its old place is drawn over.
        let (moved, fill) = (Rect::at(100, 30, 160, 150), Rect::at(300, 150, 50, 50));
        let before = expected.clone();
        let at = |x: i32, y: i32| y as usize * screen.width as usize + x as usize;
        for y in moved.y1..moved.y2 {
            for x in moved.x1..moved.x2 {
                expected[at(x, y)] = before[at(x + 140, y + 20)];
            }
        }
        (fill.y1..fill.y2).for_each(|y| expected[at(fill.x1, y)..at(fill.x2, y)].fill(0x30_5070));
        desk.fake.commands(&[
            Command::Copy { region: moved.into(), dx: -140, dy: -20 },
            Command::Sfill { region: fill.into(), color: 0x30_5070 },
        ]);
        shows("pixels copied from a frame", &expected);
        desk.close();
        let (code, stderr) = desk.end();
        assert_eq!(code, Some(0), "{stderr}");
        if !stderr.is_empty() {
            assert!(present == "gpu" && std::env::var_os("CI").is_none(), "{stderr}");
            eprintln!("skipped: {stderr}");
        }
    }
}

#[test]
fn without_a_gpu_the_window_works_and_the_reason_is_reported() {
    // A missing library, which fails before the window exists, and a driver without the needed
    // version, which fails after.
    for (variable, value) in
        [("SDL_OPENGL_LIBRARY", "/nowhere/libGL.so"), ("MESA_GL_VERSION_OVERRIDE", "2.1")]
    {
        let Some((server, display)) = xvfb() else { return };
        let mut desk = Desk::start_in(
            server,
            &display,
            size(400, 300),
            &["--present", "gpu"],
            &[(variable, value)],
        );
        desk.wait_exact();
        desk.fake.fill(Rect::at(30, 30, 90, 80), 0x12_3456, None);
        desk.wait_exact();
        desk.close();
        let (code, stderr) = desk.end();
        let is_said = stderr.contains("presenting without a GPU");
        assert!(code == Some(0) && is_said, "{variable}: {code:?} {stderr}");
    }
}

#[test]
fn resizing_the_window_resizes_the_session_or_scales_its_screen() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    for (width, height) in [(500, 350), (640, 480), (320, 200)] {
        let change = ConfigureWindowAux::new().width(width).height(height);
        desk.x.configure_window(desk.window, &change).unwrap();
        desk.x.flush().unwrap();
        desk.fake.wait_for("the new size", |message| {
            (*message == ViewerMessage::Resize(size(width, height))).then_some(())
        });
        desk.wait_exact();
    }
    // The session changes its size by itself: a smaller screen is centred and unscaled, with a
    // border.
    desk.fake.shared.state.lock().unwrap().stubborn = true;
    desk.fake.set_size(size(200, 100));
    let screen = desk.fake.screen();
    until("the smaller screen in the middle", || {
        (desk.pixels(Rect::at(60, 50, 200, 100)) == screen).then_some(())
    });
    let border = desk.pixels(Rect::at(0, 0, 320, 50));
    assert!(border.iter().all(|pixel| *pixel == border[0]), "one colour all around");
    // A larger one is scaled down: pointer positions are mapped.
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
    for (code, keysym) in
        [(28, 0xff0d), (63, 0xffc2), (103, 0xff52), (71, 0xff95), (97, 0xffe4), (125, 0xffeb)]
    {
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
fn a_key_held_down_is_pressed_once_and_losing_the_focus_releases_all() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.key(31, true);
    assert_eq!(desk.fake.keys(1), [(31, 0x73, true)]);
    // X sends the presses to the viewer and to this client.
    let presses = ChangeWindowAttributesAux::new().event_mask(EventMask::KEY_PRESS);
    desk.x.change_window_attributes(desk.window, &presses).unwrap().check().unwrap();
    let mut repeats = 0;
    until("X repeats the key", || {
        while let Some(event) = desk.x.poll_for_event().unwrap() {
            repeats += u32::from(matches!(event, Event::KeyPress(_)));
        }
        (repeats >= 3).then_some(())
    });
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
    desk.x
        .set_input_focus(
            x11rb::protocol::xproto::InputFocus::PARENT,
            elsewhere,
            x11rb::CURRENT_TIME,
        )
        .unwrap();
    desk.x.flush().unwrap();
    let mut downs = 0;
    desk.fake.wait_for("everything released", |message| match message {
        ViewerMessage::Input(input) => {
            downs += u32::from(matches!(input.event, InputEvent::Key { down: true, .. }));
            (input.event == InputEvent::ReleaseAll).then_some(())
        }
        _ => None,
    });
    assert_eq!(downs, 0, "the session generates repeats");
    desk.key(31, false);
}

#[test]
fn the_cursor_is_the_sessions_and_warps_move_the_pointer() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.point(50, 60);
    desk.motion((50, 60));
    // Half-transparent white next to solid red: premultiplied, as X wants it.
    let pixels: Vec<u32> =
        (0..16 * 16).map(|i| if i % 2 == 0 { 0x8080_8080 } else { 0xffff_0000 }).collect();
    desk.fake.set_cursor(size(16, 16), (5, 7), &pixels);
    let image = until("the session's cursor", || {
        let image = desk.x.xfixes_get_cursor_image().unwrap().reply().unwrap();
        (image.xhot == 5 && image.yhot == 7).then_some(image)
    });
    assert_eq!((image.width, image.height), (16, 16));
    assert_eq!(image.cursor_image, pixels);
    // Two colours, then two others for the same planes: the left half, over a right half that ends
    // after 12 pixels.
    let planes = [[0xff, 0x00].repeat(16), [0xff, 0xf0].repeat(16)].concat();
    let (red_on_blue, green_on_red) = (
        CursorColors { fore: 0xff_0000, back: 0xff },
        CursorColors { fore: 0xff00, back: 0xff_0000 },
    );
    let (size, compression) = (size(16, 16), Compression::Plain);
    for colors in [red_on_blue, green_on_red] {
        if colors == red_on_blue {
            desk.fake.send(&SessionMessage::CursorBits(CursorBits {
                size,
                hot_x: 1,
                hot_y: 2,
                colors,
                compression,
                planes: &planes,
            }));
        } else {
            desk.fake.send(&SessionMessage::CursorColor(colors));
        }
        let (fore, back) = (0xff00_0000 | colors.fore, 0xff00_0000 | colors.back);
        until("a cursor of two colours", || {
            let image = desk.x.xfixes_get_cursor_image().unwrap().reply().unwrap();
            let row = [vec![fore; 8], vec![back; 4], vec![0; 4]].concat();
            ((image.xhot, image.yhot) == (1, 2) && image.cursor_image == row.repeat(16))
                .then_some(())
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
fn statistics_are_toggled_by_a_key_and_leave_no_trace() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    let chord = || {
        for (code, down) in
            [(29, true), (56, true), (31, true), (31, false), (56, false), (29, false)]
        {
            desk.key(code, down);
        }
    };
    chord();
    until("a panel in the corner", || {
        let pixels = desk.pixels(Rect::at(8, 8, 60, 60));
        (pixels.contains(&0xe8_e8e8)
            && pixels.iter().filter(|pixel| **pixel == 0x18_181c).count() > 1500)
            .then_some(())
    });
    let keys: Vec<u16> = desk.fake.keys(4).iter().map(|(code, ..)| *code).collect();
    assert_eq!(keys, [29, 56, 56, 29], "the viewer keeps the shortcut's key");
    // What is drawn meanwhile is visible after the panel is hidden.
    desk.fake.fill(Rect::at(0, 0, 100, 100), 0x00ff00, None);
    chord();
    desk.wait_exact();
}

#[test]
fn a_lost_session_is_dimmed_until_reconnected() {
    let Some(mut desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    desk.fake.close(CloseCode::Restart, "a new version");
    until("back by itself", || {
        (desk.fake.shared.state.lock().unwrap().connections >= 2).then_some(())
    });
    desk.wait_exact();
    desk.fake.fill(Rect::at(0, 0, 400, 300), 0x8040c0, None);
    desk.wait_exact();
    desk.key(16, true);
    desk.key(16, false);
    assert_eq!(desk.fake.keys(2)[0].0, 16, "input goes to the new connection");
    desk.fake.close(CloseCode::Protocol, "a message is too long");
    // All of it stays visible except for a strip at the top.
    until("the stale framebuffer, dimmed", || {
        desk.pixels(Rect::at(0, 100, 400, 200)).iter().all(|pixel| *pixel == 0x402060).then_some(())
    });
    until("what happened, in words", || {
        desk.pixels(Rect::at(0, 0, 400, 100)).contains(&0xe8_e8e8).then_some(())
    });
    for (code, down) in [(29, true), (56, true), (16, true)] {
        desk.key(code, down);
    }
    let (code, stderr) = desk.end();
    assert_eq!(code, Some(6), "{stderr}");
    assert!(stderr.contains("a message is too long"), "{stderr}");
}

#[test]
fn a_key_down_at_a_loss_is_down_after_it_and_released() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    {
        let mut state = desk.fake.shared.state.lock().unwrap();
        (state.deaf, state.seen) = (true, Some(0));
    }
    desk.key(16, true);
    assert_eq!(desk.fake.keys(1)[0].0, 16);
    until("back by itself", || {
        (desk.fake.shared.state.lock().unwrap().connections >= 2).then_some(())
    });
    assert_eq!(desk.fake.keys(1)[0].0, 16, "nothing was taken before the loss");
    desk.wait_exact();
    desk.key(16, false);
    let (code, _, down) = desk.fake.keys(1)[0];
    assert_eq!((code, down), (16, false), "otherwise it would repeat without end");
}

#[test]
fn the_old_pixels_stay_until_a_new_connection_has_drawn() {
    for present in ["surface", "gpu"] {
        let Some(desk) = Desk::start(size(400, 300), &["--present", present]) else { return };
        desk.wait_exact();
        desk.fake.fill(Rect::at(0, 0, 400, 300), 0x8040c0, None);
        desk.wait_exact();
        desk.fake.shared.state.lock().unwrap().hold_picture = true;
        desk.fake.close(CloseCode::Restart, "a new version");
        // Reconnected, and input goes there: the message is gone, and the whole framebuffer is the
        // old one.
        until("the stale framebuffer, dimmed, without a message", || {
            let connected = desk.fake.shared.state.lock().unwrap().connections >= 2;
            let shown = desk.pixels(Rect::at(0, 0, 400, 300));
            (connected && shown.iter().all(|pixel| *pixel == 0x402060)).then_some(())
        });
        desk.fake.fill(Rect::at(0, 0, 200, 300), 0x204060, None);
        until("half of the new screen beside the old one", || {
            let (left, right) =
                (desk.pixels(Rect::at(0, 0, 200, 300)), desk.pixels(Rect::at(200, 0, 200, 300)));
            let all = |pixels: &[u32], color| pixels.iter().all(|pixel| *pixel == color);
            (all(&left, 0x204060) && all(&right, 0x8040c0)).then_some(())
        });
    }
}

#[test]
fn the_end_of_the_session_closes_the_window_with_its_reason() {
    let Some(mut desk) = Desk::start(size(400, 300), &["--stats"]) else { return };
    until("an update", || (desk.fake.shared.state.lock().unwrap().connections >= 1).then_some(()));
    desk.fake.close(CloseCode::SessionEnded, "the command ended");
    let (code, stderr) = desk.end();
    assert_eq!((code, stderr.trim()), (Some(0), "thinc-view: the command ended"));
}

#[test]
fn a_viewer_of_a_screen_at_rest_sleeps() {
    let Some(desk) = Desk::start(size(400, 300), &[]) else { return };
    desk.wait_exact();
    // Voluntary context switches of its threads, which equal its wake-ups.
    let sleeps = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", desk.viewer.0.id())).unwrap();
        let of_task = |task: std::io::Result<std::fs::DirEntry>| {
            // A thread may end meanwhile.
            let status = std::fs::read_to_string(task.unwrap().path().join("status"));
            let Ok(status) = status else { return 0 };
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        tasks.map(of_task).sum()
    };
    // What it still had to do is done after some of these periods; a timer would wake it in each.
    let is_at_rest = (0..10).any(|_| {
        let before = sleeps();
        std::thread::sleep(Duration::from_secs(2));
        // Fewer than before if a thread has ended.
        sleeps().checked_sub(before).is_some_and(|woken| woken <= 4)
    });
    assert!(is_at_rest, "it woke more than 4 times in each period of two seconds");
}

#[test]
fn characters_beyond_ascii_arrive_with_the_layouts_keysyms() {
    let Some((server, display)) = xvfb() else { return };
    let set =
        |layout: &str| Program::new("setxkbmap").args(["-display", &display, layout]).status();
    match set("de,ru") {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "the keyboard's tests need setxkbmap: {error}"
            );
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
    // The new layout reaches SDL by a separate event: poll until it has.
    until("Cyrillic", || {
        press(16);
        (desk.fake.keys(2)[0] == (16, 0x0100_0439, true)).then_some(())
    });
}

#[test]
fn on_a_signal_it_writes_its_statistics_and_closes_the_connection() {
    let folder = std::env::temp_dir().join(format!("thinc-view-signal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let stats = folder.join("stats.json");
    let Some(mut desk) = Desk::start(size(400, 300), &["--stats-json", stats.to_str().unwrap()])
    else {
        return;
    };
    desk.wait_exact();
    let sent = Program::new("kill").arg(desk.viewer.0.id().to_string()).status().unwrap();
    assert!(sent.success());
    let (code, stderr) = desk.end();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    desk.fake
        .wait_for("goodbye", |message| matches!(message, ViewerMessage::Close(_)).then_some(()));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!((&json["width"], &json["session"]), (&400.into(), &"fake".into()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn fullscreen_takes_the_whole_screen() {
    let Some(desk) = Desk::start(size(400, 300), &["--fullscreen"]) else { return };
    desk.fake.wait_for("the screen's size", |message| {
        (*message == ViewerMessage::Resize(size(1000, 800))).then_some(())
    });
    desk.wait_exact();
}

/// Waits until the session is asked for monitors with these rectangles.
fn wait_for_displays(desk: &Desk, wanted: &[Rect]) {
    let wanted: Vec<Display> =
        wanted.iter().map(|&rect| Display { rect, millimetres: Size::default() }).collect();
    desk.fake.wait_for("the displays", |message| match message {
        ViewerMessage::Displays(stderr) => (stderr.displays == wanted).then_some(()),
        _ => None,
    });
}

/// Waits until a window shows exactly this part of the session's screen.
fn wait_shows(desk: &Desk, window: Window, part: Rect) {
    until("a window shows its display", || {
        let (screen, pixels) = {
            let state = desk.fake.shared.state.lock().unwrap();
            (state.size, state.pixels.clone())
        };
        let row = |y: i32| {
            &pixels[(y * screen.width as i32 + part.x1) as usize..][..part.width() as usize]
        };
        if !screen.rect().contains(&part) {
            return None;
        }
        let wanted: Vec<u32> = (part.y1..part.y2).flat_map(row).copied().collect();
        (desk.pixels_of(window, part.translate(-part.x1, -part.y1)) == wanted).then_some(())
    });
}

#[test]
fn two_windows_are_two_monitors() {
    let Some(mut desk) = Desk::start(size(600, 200), &["--windows", "2", "--size", "300x200"])
    else {
        return;
    };
    // Side by side, where the viewer moves them shortly after it has created them.
    let x_of = |window: Window| desk.x.get_geometry(window).unwrap().reply().unwrap().x;
    let windows = until("two windows in a row", || {
        let windows = find_windows(&desk.x, desk.root);
        (windows.len() == 2 && x_of(windows[0]) + 300 == x_of(windows[1])).then_some(windows)
    });
    let place = |window: Window, change: ConfigureWindowAux| {
        desk.x.configure_window(window, &change).unwrap();
        desk.x.flush().unwrap();
    };
    place(windows[0], ConfigureWindowAux::new().x(50).y(20));
    // Below the first, unlike its monitor.
    place(windows[1], ConfigureWindowAux::new().x(150).y(400));
    let (left, right) = (Rect::at(0, 0, 300, 200), Rect::at(300, 0, 300, 200));
    wait_for_displays(&desk, &[left, right]);
    wait_shows(&desk, windows[0], left);
    wait_shows(&desk, windows[1], right);
    desk.fake.fill(Rect::at(280, 20, 40, 30), 0x20c0e0, None);
    wait_shows(&desk, windows[0], left);
    wait_shows(&desk, windows[1], right);

    let pointer = |x: i16, y: i16| desk.test_input(MOTION_NOTIFY_EVENT, 0, x, y);
    pointer(50 + 299, 20 + 7);
    desk.motion((299, 7));
    pointer(150 + 3, 400 + 9);
    desk.motion((303, 9));
    // A drag from one into the other.
    pointer(50 + 100, 20 + 100);
    desk.motion((100, 100));
    desk.test_input(BUTTON_PRESS_EVENT, 1, 0, 0);
    assert_eq!(desk.fake.input().1, InputEvent::Button { button: 1, down: true });
    pointer(150 + 50, 400 + 60);
    desk.motion((350, 60));
    desk.test_input(BUTTON_RELEASE_EVENT, 1, 0, 0);
    assert_eq!(desk.fake.input().1, InputEvent::Button { button: 1, down: false });
    // The window with the focus gets keys.
    for window in [windows[0], windows[1]] {
        desk.x.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME).unwrap();
        desk.key(30, true);
        desk.key(30, false);
        assert_eq!(desk.fake.keys(2), [(30, 0x61, true), (30, 0x61, false)]);
    }

    place(windows[0], ConfigureWindowAux::new().width(250).height(220));
    let (left, right) = (Rect::at(0, 0, 250, 220), Rect::at(250, 0, 300, 200));
    wait_for_displays(&desk, &[left, right]);
    wait_shows(&desk, windows[0], left);
    wait_shows(&desk, windows[1], right);
    // A session with a single monitor: it is in the first window, and the other is empty.
    desk.fake.shared.state.lock().unwrap().stubborn = true;
    desk.fake.send(&SessionMessage::Displays(vec![Rect::at(0, 0, 200, 100)]));
    desk.fake.set_size(size(200, 100));
    let screen = desk.fake.screen();
    until("all of it in the middle of the first window", || {
        (desk.pixels_of(windows[0], Rect::at(25, 60, 200, 100)) == screen).then_some(())
    });
    until("nothing in the other", || {
        let pixels = desk.pixels_of(windows[1], Rect::at(0, 0, 300, 200));
        pixels.iter().all(|pixel| *pixel == pixels[0]).then_some(())
    });
    desk.fake.shared.state.lock().unwrap().stubborn = false;

    // The first is closed: the other is the only monitor, and closing it closes the viewer.
    let close = |window: Window| {
        let atom =
            |name: &str| desk.x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom;
        let data = [atom("WM_DELETE_WINDOW"), 0, 0, 0, 0];
        let event = x11rb::protocol::xproto::ClientMessageEvent::new(
            32,
            window,
            atom("WM_PROTOCOLS"),
            data,
        );
        desk.x
            .send_event(false, window, x11rb::protocol::xproto::EventMask::NO_EVENT, event)
            .unwrap();
        desk.x.flush().unwrap();
    };
    close(windows[0]);
    let only = Rect::at(0, 0, 300, 200);
    wait_for_displays(&desk, &[only]);
    wait_shows(&desk, windows[1], only);
    assert_eq!(find_windows(&desk.x, desk.root), [windows[1]]);
    close(windows[1]);
    assert_eq!(desk.end().0, Some(0));
}

/// What the viewer's next hello says of how its person opens the session.
fn next_opening(desk: &Desk) -> u32 {
    const OPENING: u32 = ViewerCaps::OPENS | ViewerCaps::TAKES_OVER | ViewerCaps::JOINS;
    desk.fake.wait_for("a hello", |message| match message {
        ViewerMessage::Hello(hello) => Some(hello.caps & OPENING),
        _ => None,
    })
}

#[test]
fn a_session_that_was_opened_elsewhere_is_taken_back_or_left_there() {
    let stats = std::env::temp_dir().join(format!("thinc-elsewhere-{}", std::process::id()));
    let arguments = ["--stats-json", stats.to_str().unwrap()];
    let Some(mut desk) = Desk::start(size(400, 300), &arguments) else { return };
    assert_eq!(next_opening(&desk), ViewerCaps::OPENS);
    let replace = |desk: &Desk| {
        desk.wait_exact();
        desk.fake.close(CloseCode::Replaced, "the session was opened elsewhere");
        until("the words", || {
            let top = desk.pixels(Rect::at(0, 0, 400, 40));
            top.contains(&0x18_181c).then_some(())
        });
    };
    replace(&desk);
    // Ctrl+Alt+R
    let keys = [29, 56, 19];
    keys.iter().for_each(|&key| desk.key(key, true));
    keys.iter().rev().for_each(|&key| desk.key(key, false));
    assert_eq!(next_opening(&desk), ViewerCaps::OPENS | ViewerCaps::TAKES_OVER);
    // Who leaves it there has closed the window.
    replace(&desk);
    desk.close();
    let (code, said) = desk.end();
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(&stats).unwrap();
    assert!(text.contains("\"taken over\""), "{text}");
    std::fs::remove_file(&stats).unwrap();
}

#[test]
fn who_wants_to_be_asked_and_cannot_be_is_told_that_the_session_is_shown_elsewhere() {
    let Some(mut desk) = Desk::start(size(400, 300), &[]) else { return };
    assert_eq!(next_opening(&desk), ViewerCaps::OPENS);
    desk.fake.close(CloseCode::Elsewhere, "the session is shown elsewhere");
    assert_eq!(next_opening(&desk), ViewerCaps::OPENS | ViewerCaps::JOINS);
    desk.close();
    let (code, said) = desk.end();
    assert!(code == Some(0) && said.contains("--take-over"), "{code:?} {said}");
}

/// A viewer on a terminal of its own, which has asked a question.
struct Asking {
    terminal: Ended,
    typed: ChildStdin,
    output: BufReader<ChildStdout>,
    question: String,
}

impl Asking {
    fn start(display: &str, arguments: &str) -> Asking {
        Asking::start_until(display, arguments, "[y/N] ")
    }

    /// Until the question, which ends with this.
    fn start_until(display: &str, arguments: &str, end: &str) -> Asking {
        Asking::start_in(&std::env::temp_dir().join("thinc-none"), display, arguments, end)
    }

    /// The same; this device's keys are in this folder.
    fn start_in(state: &Path, display: &str, arguments: &str, end: &str) -> Asking {
        let command = format!("exec {} {arguments}", env!("CARGO_BIN_EXE_thinc-view"));
        // util-linux: gives the command a terminal, and ends with its exit code.
        let mut terminal = Program::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("DISPLAY", display)
            .env("USER", "otto")
            .env("XDG_STATE_HOME", state)
            .env_remove("WAYLAND_DISPLAY")
            .env("SDL_VIDEO_DRIVER", "x11")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let typed = terminal.stdin.take().unwrap();
        let output = BufReader::new(terminal.stdout.take().unwrap());
        let question = String::new();
        let mut asking = Asking { terminal: Ended(terminal), typed, output, question };
        asking.question = asking.read_until(end);
        asking
    }

    /// What the terminal shows, up to this.
    fn read_until(&mut self, end: &str) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(end.as_bytes()) {
            let mut byte = [0];
            let read = self.output.read_exact(&mut byte);
            assert!(read.is_ok(), "no {end:?}: {}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        String::from_utf8(seen).unwrap()
    }
}

#[test]
fn a_person_logs_in_on_the_terminal_and_the_password_is_not_shown() {
    let Some((_server, display)) = xvfb() else { return };
    let fake = Fake::start(size(64, 64));
    let mut link = fake.link();
    link.token = None;
    let arguments = format!("--remember=no '{link}'");

    let mut asking = Asking::start_until(&display, &arguments, "[otto]: ");
    assert!(asking.question.contains(&link.authority()), "{}", asking.question);
    asking.typed.write_all(b"anna\n").unwrap();
    assert!(asking.read_until("Password: ").contains("Be welcome."));
    asking.typed.write_all(b"swordfish\n").unwrap();
    assert_eq!(asking.read_until("\n"), "\r\n", "nothing of it");
    fake.wait_for("a hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    assert_eq!(fake.shared.state.lock().unwrap().account, "anna");
    drop(asking);

    let mut asking = Asking::start_until(&display, &arguments, "[otto]: ");
    asking.typed.write_all(b"\n").unwrap();
    asking.read_until("Password: ");
    asking.typed.write_all(b"wrong\n").unwrap();
    let mut rest = String::new();
    asking.output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("login refused"), "{rest}");
    assert_eq!(fake.shared.state.lock().unwrap().account, "otto");
    assert_eq!(asking.terminal.0.wait().unwrap().code(), Some(5));
}

#[test]
fn a_person_who_stays_signed_in_is_not_asked_again() {
    let Some((_server, display)) = xvfb() else { return };
    let fake = Fake::start(size(64, 64));
    let state = fake.folder.join("state");
    let mut link = fake.link();
    link.token = None;
    let arguments = format!("'{link}'");
    let hello = |fake: &Fake| {
        let is_hello = |message: &ViewerMessage| matches!(message, ViewerMessage::Hello(_));
        fake.wait_for("a hello", |message| is_hello(message).then_some(()));
    };
    let signed_in = || fake.shared.state.lock().unwrap().signed_in;
    let mut asking = Asking::start_in(&state, &display, &arguments, "[otto]: ");
    asking.typed.write_all(b"anna\n").unwrap();
    asking.read_until("Password: ");
    asking.typed.write_all(b"swordfish\n").unwrap();
    asking.read_until("Stay signed in on this device? [y/N] ");
    asking.typed.write_all(b"y\n").unwrap();
    hello(&fake);
    assert!(fake.shared.state.lock().unwrap().device.is_some());

    // The login ends in the middle of work, while the server is busy, and refuses once more: the
    // desktop that was open is wanted all the same.
    {
        let mut state = fake.shared.state.lock().unwrap();
        state.session_credential = b"of another login".to_vec();
        state.refusals = vec![CloseCode::Unauthorized, CloseCode::Restart];
    }
    fake.cut();
    hello(&fake);
    assert_eq!(signed_in(), 1);
    assert_eq!(fake.shared.state.lock().unwrap().earlier, b"the key of this session");
    drop(asking);

    // Without a terminal, in a program that was started again.
    let headless = |more: &[&str]| {
        let mut viewer = Program::new(env!("CARGO_BIN_EXE_thinc-view"));
        viewer.args(["--headless", "--when-quiet"]).args(more).arg(link.to_string());
        viewer.env("XDG_STATE_HOME", &state).stdin(Stdio::null());
        viewer.output().unwrap()
    };
    let output = headless(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(signed_in(), 2);
    // The server has forgotten it.
    let device = fake.shared.state.lock().unwrap().device.take();
    let output = headless(&[]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("login refused"), "{output:?}");
    // Nor does it remember another key: the earlier one stays.
    let mut asking = Asking::start_in(&state, &display, &arguments, "[otto]: ");
    assert!(asking.question.contains("was not signed in: login refused"), "{}", asking.question);
    asking.typed.write_all(b"anna\n").unwrap();
    asking.read_until("Password: ");
    asking.typed.write_all(b"swordfish\n").unwrap();
    asking.read_until("Stay signed in on this device? [y/N] ");
    fake.shared.state.lock().unwrap().refusals = vec![CloseCode::Unauthorized];
    asking.typed.write_all(b"y\n").unwrap();
    asking.read_until("is not remembered: login refused");
    hello(&fake);
    drop(asking);
    fake.shared.state.lock().unwrap().device = device;
    assert!(headless(&[]).status.success(), "it may have been temporary");
    // The person has: the key is deleted.
    assert_eq!(headless(&["--remember=no"]).status.code(), Some(5));
    assert_eq!(headless(&[]).status.code(), Some(5));
    assert_eq!(std::fs::read_dir(state.join("thinc/devices")).unwrap().count(), 0);
}

#[test]
fn a_person_confirms_a_new_key_before_anything_is_sent() {
    let Some((_server, display)) = xvfb() else { return };
    let fake = Fake::start(size(64, 64));
    let store = fake.folder.join("known_hosts");
    let mut link = fake.link();
    let pin = link.pin.take().unwrap();
    let key: String = pin.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let arguments = format!("--pin-store {} '{link}'", store.display());

    let mut asking = Asking::start(&display, &arguments);
    for part in [&key, &link.authority()] {
        assert!(asking.question.contains(part), "{part} in {}", asking.question);
    }
    asking.typed.write_all(b"n\n").unwrap();
    let mut rest = String::new();
    asking.output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("was not confirmed: nothing was sent"), "{rest}");
    assert_eq!(asking.terminal.0.wait().unwrap().code(), Some(4));
    assert!(!store.exists(), "it is not remembered");
    assert_eq!(fake.shared.state.lock().unwrap().tokens.len(), 1, "the token was not used");

    let mut asking = Asking::start(&display, &arguments);
    asking.typed.write_all(b"y\n").unwrap();
    fake.wait_for("a hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    let text = std::fs::read_to_string(&store).unwrap();
    assert_eq!(text, format!("{} {pin}\n", link.authority()));
}

#[test]
fn files_that_are_dropped_on_the_window_are_offered_with_their_place() {
    let Some((server, display)) = xvfb() else { return };
    let desk = Desk::start_on(server, &display, size(400, 300), &[]);
    desk.wait_exact();
    let folder = std::env::temp_dir().join(format!("thinc-dropped-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let paths = ["a b.txt", "c.txt"].map(|name| folder.join(name));
    paths.iter().for_each(|path| std::fs::write(path, "dropped").unwrap());
    let place = desk.x.translate_coordinates(desk.window, desk.root, 50, 70).unwrap();
    let place = place.reply().unwrap();
    let mut drags = Drags::connect(Some(&display)).unwrap();
    let target = drags.find(place.dst_x, place.dst_y).unwrap().expect("the window takes drops");
    assert!(drags.play(target, &paths.each_ref().map(|path| path.as_path())).unwrap());
    let offer = desk.fake.wait_for("an offer of files", |message| match message {
        ViewerMessage::File(FileMessage::Offer(offer)) => Some(offer.clone()),
        _ => None,
    });
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(offer.purpose, FilePurpose::Dropped { x: 50, y: 70 });
    let names: Vec<&str> = offer.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["a b.txt", "c.txt"]);
}
