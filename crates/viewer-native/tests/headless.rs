//! The headless viewer against a fake session: over real TLS, by its library, by its script and as a program.

mod fake;

use std::io::Write as _;
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, LONG};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{InputEvent, TouchPhase, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_transport::{Link, SpkiPin};
use thinc_viewer_native::ViewError;
use thinc_viewer_native::client::Reconnect;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};
use thinc_viewer_native::{script, shot};

fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

fn open(fake: &Fake) -> Headless {
    Headless::open(fake.link(), HeadlessOptions { timeout: LONG, ..HeadlessOptions::default() }).unwrap()
}

fn open_to_stay(fake: &Fake) -> Headless {
    let options = HeadlessOptions { timeout: LONG, reconnect: Reconnect::Always, ..HeadlessOptions::default() };
    Headless::open(fake.link(), options).unwrap()
}

#[test]
fn shows_what_the_session_draws() {
    let fake = Fake::start(size(320, 200));
    let mut viewer = open(&fake);
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.size(), size(320, 200));
    assert_eq!(viewer.screen().pixels, fake.screen());
    fake.fill(Rect::at(10, 20, 30, 40), 0x123456, None);
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
    assert_eq!(viewer.screen().pixel(10, 20), Some(0x123456));
    assert_eq!(viewer.screen().pixel(320, 20), None);
    assert_eq!(viewer.hash(), shot::hash(&fake.screen()));
    let report = viewer.report();
    assert_eq!((report.updates, report.commands["sfill"].count, report.commands["raw"].pixels), (2, 1, 64000));
    assert_eq!((report.session.as_deref(), report.status, report.connections), (Some("fake"), "connected", 1));
}

#[test]
fn quiet_is_only_when_a_barrier_brought_nothing() {
    let fake = Fake::start(size(64, 64));
    fake.shared.state.lock().unwrap().hold_barriers = true;
    let mut viewer = open(&fake);
    let waiting = std::thread::spawn(move || {
        viewer.wait_quiet().unwrap();
        viewer
    });
    let barrier = |message: &ViewerMessage| match message {
        ViewerMessage::Barrier(id) => Some(*id),
        _ => None,
    };
    let mut round = fake.wait_for("a barrier", barrier);
    // Three barriers that each bring something: the viewer must ask again each time.
    for color in [1, 2, 3] {
        fake.fill(Rect::at(0, 0, 8, 8), color, None);
        fake.send(&SessionMessage::Barrier(round));
        round = fake.wait_for("another barrier", barrier);
    }
    assert!(!waiting.is_finished(), "it is not quiet before the last barrier is answered");
    fake.send(&SessionMessage::Barrier(round));
    let viewer = waiting.join().unwrap();
    assert_eq!(viewer.screen().pixel(0, 0), Some(3));
}

#[test]
fn input_arrives_in_order_with_codes_and_keysyms() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    viewer.type_text("aB\n").unwrap();
    let expected = [
        (30, 0x61, true),
        (30, 0x61, false),
        (42, 0xffe1, true),
        (48, 0x42, true),
        (48, 0x42, false),
        (42, 0xffe1, false),
    ];
    assert_eq!(fake.keys(6), expected);
    assert_eq!(fake.keys(2), [(28, 0xff0d, true), (28, 0xff0d, false)]);
    viewer.type_text("é").unwrap();
    assert_eq!(fake.keys(2), [(0, 0xe9, true), (0, 0xe9, false)]);
    viewer.chord("ctrl+alt+T").unwrap();
    let codes: Vec<(u16, bool)> = fake.keys(6).iter().map(|(code, _, down)| (*code, *down)).collect();
    assert_eq!(codes, [(29, true), (56, true), (20, true), (20, false), (56, false), (29, false)]);
    assert!(matches!(viewer.chord("ctrl+nosuchkey"), Err(ViewError::Script(_))));
    assert!(matches!(viewer.type_text("\u{1}"), Err(ViewError::Script(_))));
    viewer.move_to(5, 6).unwrap();
    let motion = fake.wait_for("a motion", |message| match message {
        ViewerMessage::Input(input) => Some(input.event),
        _ => None,
    });
    assert_eq!(motion, InputEvent::Motion { x: 5, y: 6 });
    viewer.click(3).unwrap();
    let (first, event) = fake.input();
    assert_eq!(event, InputEvent::Button { button: 3, down: true });
    let (second, event) = fake.input();
    assert_eq!((second, event), (first + 1, InputEvent::Button { button: 3, down: false }));
    viewer.scroll(-5, 240).unwrap();
    assert_eq!(fake.input().1, InputEvent::Scroll { dx: -5, dy: 240 });
}

#[test]
fn the_echo_of_a_key_is_timed() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    viewer.type_text("x").unwrap();
    let (seq, _) = fake.input();
    fake.fill(Rect::at(0, 0, 4, 4), 9, Some(seq));
    viewer.barrier().unwrap();
    let report = viewer.report();
    assert_eq!(report.echoes.len(), 1);
    assert_eq!(report.echoes[0].seq, seq);
    assert!(report.rtt_us.is_some());
}

#[test]
fn resizing_waits_for_the_session() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    viewer.resize(size(123, 77)).unwrap();
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
    assert_eq!(viewer.screen().pixels.len(), 123 * 77);
    fake.shared.state.lock().unwrap().stubborn = true;
    viewer.set_timeout(Duration::from_millis(50));
    assert!(matches!(viewer.resize(size(99, 99)), Err(ViewError::Timeout { .. })), "the session keeps its size");
    viewer.set_timeout(LONG);
    fake.shared.state.lock().unwrap().stubborn = false;
    viewer.resize(size(100, 90)).unwrap();
    assert_eq!(viewer.size(), size(100, 90));
}

#[test]
fn a_size_asked_for_at_the_start_goes_with_the_hello() {
    let fake = Fake::start(size(64, 64));
    let options = HeadlessOptions { timeout: LONG, size: Some(size(300, 150)), ..HeadlessOptions::default() };
    let viewer = Headless::open(fake.link(), options).unwrap();
    assert_eq!(viewer.size(), size(300, 150));
}

#[test]
fn the_cursor_comes_as_it_was_drawn() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    let pixels: Vec<u32> = (0..35).map(|i| 0xff00_0000 | (i * 7)).collect();
    fake.set_cursor(size(7, 5), (3, 2), &pixels);
    fake.send(&SessionMessage::CursorMove { x: 11, y: 12 });
    viewer.barrier().unwrap();
    let cursor = viewer.cursor().expect("a cursor");
    assert_eq!((cursor.size, cursor.hot_x, cursor.hot_y), (size(7, 5), 3, 2));
    assert_eq!(cursor.pixels, pixels);
    assert_eq!(viewer.pointer(), Some((11, 12)));
}

#[test]
fn a_used_token_a_wrong_key_and_a_silent_port_are_told_apart() {
    let fake = Fake::start(size(64, 64));
    drop(open(&fake));
    let options = || HeadlessOptions { timeout: LONG, ..HeadlessOptions::default() };
    let again = Headless::open(fake.link(), options()).err().expect("the token was used");
    assert_eq!((again.exit_code(), again.to_string().contains("used")), (5, true), "{again}");
    let mut link = fake.link();
    link.pin = Some(SpkiPin([7; 32]));
    let wrong = Headless::open(link, options()).err().expect("another key");
    assert_eq!(wrong.exit_code(), 4, "{wrong}");
    let mut link = fake.link();
    link.port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let silent = Headless::open(link, options()).err().expect("nobody listens");
    assert_eq!((silent.exit_code(), silent.to_string().contains("does not answer")), (3, true), "{silent}");
    let none = Headless::connect("http://x").err().expect("no link");
    assert_eq!(none.exit_code(), 2, "{none}");
    let mut link = fake.link();
    link.pin = None;
    let unpinned = Headless::open(link, options()).err().expect("no key and nowhere to remember one");
    assert_eq!(unpinned.exit_code(), 4, "{unpinned}");
}

#[test]
fn a_key_is_remembered_where_a_link_names_none() {
    let fake = Fake::start(size(64, 64));
    let store = fake.folder.join("new").join("known_hosts");
    let options = || HeadlessOptions { timeout: LONG, known_hosts: Some(store.clone()), ..HeadlessOptions::default() };
    let mut link = fake.link();
    link.pin = None;
    drop(Headless::open(link.clone(), options()).unwrap());
    let text = std::fs::read_to_string(&store).unwrap();
    assert!(text.starts_with(&format!("127.0.0.1:{} ", link.port)), "{text}");
    let other = text.replace(text.trim().split_once(' ').unwrap().1, &SpkiPin([9; 32]).to_string());
    std::fs::write(&store, other).unwrap();
    fake.shared.state.lock().unwrap().tokens.push(b"first".to_vec());
    let changed = Headless::open(link, options()).err().expect("another key than remembered");
    assert_eq!(changed.exit_code(), 4, "{changed}");
    assert!(changed.to_string().contains(&store.display().to_string()), "it says which line to remove: {changed}");
}

#[test]
fn every_end_has_its_reason_and_nothing_waits_for_ever() {
    for (code, exit) in [(CloseCode::SessionEnded, 8), (CloseCode::Replaced, 6), (CloseCode::Restart, 6)] {
        let fake = Fake::start(size(64, 64));
        let mut viewer = open(&fake);
        fake.close(code, "because");
        let end = viewer.wait_end().unwrap();
        assert_eq!(end.exit_code(), exit, "{end}");
        assert!(end.to_string().contains("because"), "{end}");
        let again = viewer.wait_quiet().expect_err("it is over");
        assert_eq!(again.exit_code(), exit, "asked once more: {again}");
    }
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    fake.send_bytes(&[0x77, 0x01, 0x00]);
    let end = viewer.wait_end().unwrap();
    assert!(matches!(end, ViewError::Protocol(_)), "{end}");
    let said = fake.wait_for("why it went", |message| match message {
        ViewerMessage::Close(why) => Some(why.clone()),
        _ => None,
    });
    assert!(!said.is_empty());
}

#[test]
fn a_lost_session_is_found_again_with_its_key() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open_to_stay(&fake);
    viewer.wait_quiet().unwrap();
    fake.shared.state.lock().unwrap().pixels.fill(0x00ab_cdef);
    let began = Instant::now();
    fake.cut();
    viewer.wait_connection(2).unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "the first try is at once");
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
    viewer.type_text("q").unwrap();
    assert_eq!(fake.keys(2)[0].0, 16, "input goes to the new connection");
    fake.close(CloseCode::Restart, "a new version");
    viewer.wait_connection(3).unwrap();
    viewer.barrier().unwrap();
    // A session that no longer knows the key is another session.
    fake.shared.state.lock().unwrap().session_key = b"another".to_vec();
    fake.cut();
    let end = viewer.wait_end().unwrap();
    assert_eq!(end.exit_code(), 5, "{end}");
}

#[test]
fn a_session_that_answers_nothing_is_left_and_found_again_by_the_same_viewer() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open_to_stay(&fake);
    viewer.wait_quiet().unwrap();
    let instance = |message: &ViewerMessage| match message {
        ViewerMessage::Instance(number) => Some(*number),
        _ => None,
    };
    let first = fake.wait_for("which viewer it is", instance);
    fake.shared.state.lock().unwrap().deaf = true;
    viewer.type_text("w").unwrap();
    assert_eq!(fake.keys(2)[0].0, 17);
    viewer.wait_silence().unwrap();
    assert_eq!(viewer.report().status, "quiet", "the picture stays, and nobody is told that all is well");
    assert_eq!(fake.wait_for("that it is the same", instance), first);
    fake.shared.state.lock().unwrap().deaf = false;
    viewer.wait_connection(2).unwrap();
    assert_eq!(viewer.report().status, "connected");
    assert!(fake.shared.state.lock().unwrap().open_most >= 2, "another way is sought before the first is given up");
    viewer.type_text("q").unwrap();
    assert_eq!(fake.keys(2)[0].0, 16, "and not once more what was typed before");
}

#[test]
fn what_a_session_did_not_take_is_typed_again_when_the_viewer_is_back() {
    for (seen, again) in [(0, vec![17, 16]), (2, vec![16]), (1, vec![16])] {
        let fake = Fake::start(size(64, 64));
        let mut viewer = open_to_stay(&fake);
        viewer.wait_quiet().unwrap();
        {
            let mut state = fake.shared.state.lock().unwrap();
            (state.deaf, state.seen) = (true, Some(seen));
        }
        viewer.type_text("w").unwrap();
        assert_eq!(fake.keys(2)[0].0, 17);
        viewer.wait_connection(2).unwrap();
        fake.shared.state.lock().unwrap().deaf = false;
        viewer.type_text("q").unwrap();
        let pressed: Vec<u16> = fake.keys(2 * again.len()).iter().step_by(2).map(|key| key.0).collect();
        assert_eq!(pressed, again, "{seen} were taken; a key goes up where it went down");
    }
}

#[test]
fn a_session_is_found_where_it_was_and_where_its_name_says() {
    let fake = Fake::start(size(64, 64));
    let link = Link { host: "localhost".to_owned(), ..fake.link() };
    let options = HeadlessOptions { timeout: LONG, reconnect: Reconnect::Always, ..HeadlessOptions::default() };
    let mut viewer = Headless::open(link, options).unwrap();
    viewer.wait_quiet().unwrap();
    fake.cut();
    viewer.wait_connection(2).unwrap();
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
}

#[test]
fn dropping_the_viewer_says_goodbye() {
    let fake = Fake::start(size(64, 64));
    let viewer = open(&fake);
    let began = Instant::now();
    drop(viewer);
    assert!(began.elapsed() < Duration::from_millis(400), "it waited for its threads: {:?}", began.elapsed());
    fake.wait_for("goodbye", |message| matches!(message, ViewerMessage::Close(_)).then_some(()));
}

#[test]
fn a_script_does_what_it_says_and_answers_every_line() {
    let fake = Fake::start(size(80, 60));
    let mut viewer = open(&fake);
    let shot = fake.folder.join("shot.png");
    let stats = fake.folder.join("stats.json");
    let text = format!(
        "# a comment\n\nwait-quiet\nsize\ntype hi\\n\nkey Control_L+c\nmove 3 4\nclick 1\nscroll 0 -120\n\
         touch 2 begin 7 8\nrelease\npixel 1 0\nresize 90x70\nbarrier\nhash\nnonsense\npixel 900 0\ncursor\n\
         screenshot {}\nstats {}\nquit\ntype never\n",
        shot.display(),
        stats.display()
    );
    let mut out = Vec::new();
    let result = script::run(&mut viewer, text.as_bytes(), &mut out);
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    let hash = format!("ok {:016x}", shot::hash(&fake.screen()));
    let expected = [
        "ok",
        "ok 80x60",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok 091f35",
        "ok",
        "ok",
        &hash,
        "error no such command: \"nonsense\"",
        "error 900,0 is outside the screen",
        "ok none",
        "ok",
        "ok",
        "ok",
    ];
    assert_eq!(lines, expected);
    assert!(matches!(result, Err(ViewError::Script(ref what)) if what.starts_with("line 16:")), "{result:?}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(json["width"], 90);
    assert_eq!(json["commands"]["raw"]["count"], 2);
    let head = std::fs::read(&shot).unwrap();
    assert_eq!(head[16..24], [0, 0, 0, 90, 0, 0, 0, 70], "the PNG's size");
    assert_eq!(fake.keys(6).len(), 6);
    let touch = fake.wait_for("a finger", |message| match message {
        ViewerMessage::Input(input) if matches!(input.event, InputEvent::Touch { .. }) => Some(input.event),
        _ => None,
    });
    assert_eq!(touch, InputEvent::Touch { id: 2, phase: TouchPhase::Begin, x: 7, y: 8 });
}

#[test]
fn the_program_takes_a_picture_when_it_is_quiet() {
    let fake = Fake::start(size(200, 100));
    fake.fill(Rect::at(0, 0, 200, 50), 0x00ff00, None);
    let (shot, stats) = (fake.folder.join("a.png"), fake.folder.join("a.json"));
    let output = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .arg(fake.link().to_string())
        .args(["--headless", "--when-quiet", "--screenshot"])
        .arg(&shot)
        .arg("--stats-json")
        .arg(&stats)
        .env_remove("DISPLAY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&shot).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    let pixels: Vec<u32> = bytes.chunks_exact(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]])).collect();
    assert_eq!(pixels, fake.screen());
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(json["framebuffer_xxh3"], format!("{:016x}", shot::hash(&fake.screen())));
}

#[test]
fn the_program_is_driven_over_standard_input_and_fails_in_words() {
    let fake = Fake::start(size(200, 100));
    let mut program = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .arg(fake.link().to_string())
        .args(["--headless", "--script", "-"])
        .env_remove("DISPLAY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    program.stdin.take().unwrap().write_all(b"type ab\nwait-quiet\nsize\n").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ok\nok\nok 200x100\n");
    assert_eq!(fake.keys(4).iter().filter(|(.., down)| *down).count(), 2);
    for (link, code, words) in [
        (fake.link().to_string(), 5, "used"),
        ("nonsense".to_owned(), 2, "link"),
        ("thinc://127.0.0.1:1/#t=Zmlyc3Q&k=damaged".to_owned(), 2, "damaged"),
    ] {
        let output = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
            .args([&link, "--headless", "--when-quiet"])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{link}: {said}");
        assert!(said.starts_with("thinc-view: ") && said.contains(words), "{link}: {said}");
    }
}

#[test]
fn without_a_display_the_window_says_what_it_wants() {
    let fake = Fake::start(size(200, 100));
    let output = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .arg(fake.link().to_string())
        .env_remove("DISPLAY")
        .env("SDL_VIDEO_DRIVER", "x11")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("DISPLAY") && said.contains("--headless"), "{said}");
}
