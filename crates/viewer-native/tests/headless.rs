//! The headless viewer against a fake session: over real TLS, through its library, its script and
//! as a program.

mod fake;

use std::io::{BufRead as _, Write as _};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, LONG};
use thinc_protocol::session::{CloseCode, Geometry, SessionMessage};
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
    Headless::open(fake.link(), HeadlessOptions { timeout: LONG, ..HeadlessOptions::default() })
        .unwrap()
}

fn open_reconnecting(fake: &Fake) -> Headless {
    let options = HeadlessOptions {
        timeout: LONG,
        reconnect: Reconnect::Always,
        ..HeadlessOptions::default()
    };
    Headless::open(fake.link(), options).unwrap()
}

#[test]
fn the_viewer_shows_the_sessions_drawing() {
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
    assert_eq!(
        (report.updates, report.commands["sfill"].count, report.commands["raw"].pixels),
        (2, 1, 64000)
    );
    assert_eq!(
        (report.session.as_deref(), report.status, report.connections),
        (Some("fake"), "connected", 1)
    );
}

#[test]
fn the_screen_is_at_rest_when_a_barrier_brings_no_update() {
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
    // Three barriers that each bring an update: the viewer must request another each time.
    for color in [1, 2, 3] {
        fake.fill(Rect::at(0, 0, 8, 8), color, None);
        fake.send(&SessionMessage::Barrier(round));
        round = fake.wait_for("another barrier", barrier);
    }
    assert!(!waiting.is_finished(), "it is not at rest before the last barrier is answered");
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
    let codes: Vec<(u16, bool)> =
        fake.keys(6).iter().map(|(code, _, down)| (*code, *down)).collect();
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
fn the_echo_latency_of_a_key_is_measured() {
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
    assert!(
        matches!(viewer.resize(size(99, 99)), Err(ViewError::Timeout { .. })),
        "the session keeps its size"
    );
    viewer.set_timeout(LONG);
    fake.shared.state.lock().unwrap().stubborn = false;
    viewer.resize(size(100, 90)).unwrap();
    assert_eq!(viewer.size(), size(100, 90));
}

#[test]
fn the_initial_size_is_sent_in_the_hello() {
    let fake = Fake::start(size(64, 64));
    let options =
        HeadlessOptions { timeout: LONG, size: Some(size(300, 150)), ..HeadlessOptions::default() };
    let viewer = Headless::open(fake.link(), options).unwrap();
    assert_eq!(viewer.size(), size(300, 150));
}

#[test]
fn the_cursors_image_arrives_unchanged() {
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
fn a_used_token_a_wrong_key_and_an_unresponsive_port_are_distinguished() {
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
    let unresponsive = Headless::open(link, options()).err().expect("the port does not answer");
    assert_eq!(
        (unresponsive.exit_code(), unresponsive.to_string().contains("does not answer")),
        (3, true),
        "{unresponsive}"
    );
    let none = Headless::connect("http://x").err().expect("an invalid link");
    assert_eq!(none.exit_code(), 2, "{none}");
    let mut link = fake.link();
    link.pin = None;
    let unpinned =
        Headless::open(link, options()).err().expect("no key and no file to remember one");
    assert_eq!(unpinned.exit_code(), 4, "{unpinned}");
}

#[test]
fn a_key_is_remembered_if_a_link_names_none() {
    let fake = Fake::start(size(64, 64));
    let store = fake.folder.join("new").join("known_hosts");
    let options = || HeadlessOptions {
        timeout: LONG,
        known_hosts: Some(store.clone()),
        ..HeadlessOptions::default()
    };
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
    assert!(
        changed.to_string().contains(&store.display().to_string()),
        "the message names the line to remove: {changed}"
    );
}

#[test]
fn a_new_key_is_told_where_nobody_can_be_asked() {
    let fake = Fake::start(size(64, 64));
    let mut link = fake.link();
    let key: String = link.pin.take().unwrap().0.iter().map(|byte| format!("{byte:02x}")).collect();
    for is_new in [true, false] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_thinc-view"))
            .args(["--headless", "--pin-store"])
            .arg(fake.folder.join("keys"))
            .env("THINC_LINK", link.to_string())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words}");
        assert_eq!(words.contains("Nobody has confirmed the key of 127.0.0.1:"), is_new, "{words}");
        assert_eq!(words.contains(&key), is_new, "{words}");
        fake.shared.state.lock().unwrap().tokens.push(b"first".to_vec());
    }
}

#[test]
fn every_end_has_its_reason_and_no_wait_is_endless() {
    for (code, exit) in
        [(CloseCode::SessionEnded, 8), (CloseCode::Replaced, 6), (CloseCode::Restart, 6)]
    {
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
    let stderr = fake.wait_for("why it went", |message| match message {
        ViewerMessage::Close(why) => Some(why.clone()),
        _ => None,
    });
    assert!(!stderr.is_empty());
}

#[test]
fn a_lost_session_is_reconnected_with_its_key() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open_reconnecting(&fake);
    viewer.wait_quiet().unwrap();
    fake.shared.state.lock().unwrap().pixels.fill(0x00ab_cdef);
    // A busy machine may add time, but not each time; a wait before the attempt would.
    let is_at_once = (0..10).any(|_| {
        let (connections, cut_at) = (viewer.report().connections, Instant::now());
        fake.cut();
        viewer.wait_connection(connections + 1).unwrap();
        cut_at.elapsed() < Duration::from_secs(2)
    });
    assert!(is_at_once, "the first attempt is at once");
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
    viewer.type_text("q").unwrap();
    assert_eq!(fake.keys(2)[0].0, 16, "input goes to the new connection");
    let connections = viewer.report().connections;
    fake.close(CloseCode::Restart, "a new version");
    viewer.wait_connection(connections + 1).unwrap();
    viewer.barrier().unwrap();
    // A session that no longer knows the key is another session.
    fake.shared.state.lock().unwrap().session_credential = b"another".to_vec();
    fake.cut();
    let end = viewer.wait_end().unwrap();
    assert_eq!(end.exit_code(), 5, "{end}");
}

#[test]
fn an_unresponsive_session_is_disconnected_and_reconnected() {
    let fake = Fake::start(size(64, 64));
    let mut viewer = open_reconnecting(&fake);
    viewer.wait_quiet().unwrap();
    let instance = |message: &ViewerMessage| match message {
        ViewerMessage::Instance(number) => Some(*number),
        _ => None,
    };
    let first = fake.wait_for("which viewer it is", instance);
    {
        let mut state = fake.shared.state.lock().unwrap();
        (state.deaf, state.hold_handshakes) = (true, true);
    }
    viewer.type_text("w").unwrap();
    assert_eq!(fake.keys(2)[0].0, 17);
    viewer.wait_unresponsive().unwrap();
    assert_eq!(
        viewer.report().status,
        "unresponsive",
        "the framebuffer stays, and the status is unresponsive"
    );
    fake.shared.state.lock().unwrap().hold_handshakes = false;
    assert_eq!(fake.wait_for("that it is the same", instance), first);
    viewer.wait_connection(2).unwrap();
    assert_eq!(viewer.report().status, "connected");
    assert!(
        fake.shared.state.lock().unwrap().open_most >= 2,
        "a replacement is sought before the first connection is closed"
    );
    viewer.type_text("q").unwrap();
    assert_eq!(fake.keys(2)[0].0, 16, "and earlier input is not repeated");
}

#[test]
fn input_that_a_session_did_not_take_is_resent_after_reconnecting() {
    for (seen, again) in [(0, vec![17, 16]), (2, vec![16]), (1, vec![16])] {
        let fake = Fake::start(size(64, 64));
        let mut viewer = open_reconnecting(&fake);
        viewer.wait_quiet().unwrap();
        {
            let mut state = fake.shared.state.lock().unwrap();
            (state.deaf, state.seen) = (true, Some(seen));
        }
        viewer.type_text("w").unwrap();
        assert_eq!(fake.keys(2)[0].0, 17);
        viewer.wait_connection(2).unwrap();
        viewer.type_text("q").unwrap();
        let pressed: Vec<u16> =
            fake.keys(2 * again.len()).iter().step_by(2).map(|key| key.0).collect();
        assert_eq!(pressed, again, "{seen} were taken; a key goes up where it went down");
    }
}

#[test]
fn a_session_is_found_at_its_old_address_and_by_its_name() {
    let fake = Fake::start(size(64, 64));
    let link = Link { host: "localhost".to_owned(), ..fake.link() };
    let options = HeadlessOptions {
        timeout: LONG,
        reconnect: Reconnect::Always,
        ..HeadlessOptions::default()
    };
    let mut viewer = Headless::open(link, options).unwrap();
    viewer.wait_quiet().unwrap();
    fake.cut();
    viewer.wait_connection(2).unwrap();
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, fake.screen());
}

#[test]
fn dropping_the_viewer_sends_a_close_message() {
    // A busy machine may add time, but not each time; LINGER, half a second, would.
    let ends_by_itself = (0..10).any(|_| {
        let fake = Fake::start(size(64, 64));
        let viewer = open(&fake);
        let began = Instant::now();
        drop(viewer);
        let took = began.elapsed();
        fake.wait_for("goodbye", |message| {
            matches!(message, ViewerMessage::Close(_)).then_some(())
        });
        took < Duration::from_millis(400)
    });
    assert!(ends_by_itself, "it waited in vain for its threads");
}

#[test]
fn a_script_runs_its_commands_and_answers_every_line() {
    let fake = Fake::start(size(80, 60));
    let mut viewer = open(&fake);
    let shot = fake.folder.join("shot.png");
    let stats = fake.folder.join("stats.json");
    let text = format!(
        "# a comment\n\nwait-quiet\nsize\ntype hi\\n\nkey Control_L+c\nmove 3 4\nclick 1\n\
         scroll 0 -120\ntouch 2 begin 7 8\nrelease\npixel 1 0\nresize 90x70\nbarrier\nhash\n\
         nonsense\npixel 900 0\ncursor\n\
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
    assert!(
        matches!(result, Err(ViewError::Script(ref what)) if what.starts_with("line 16:")),
        "{result:?}"
    );
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(json["width"], 90);
    assert_eq!(json["commands"]["raw"]["count"], 2);
    let head = std::fs::read(&shot).unwrap();
    assert_eq!(head[16..24], [0, 0, 0, 90, 0, 0, 0, 70], "the PNG's size");
    assert_eq!(fake.keys(6).len(), 6);
    let touch = fake.wait_for("a finger", |message| match message {
        ViewerMessage::Input(input) if matches!(input.event, InputEvent::Touch { .. }) => {
            Some(input.event)
        }
        _ => None,
    });
    assert_eq!(touch, InputEvent::Touch { id: 2, phase: TouchPhase::Begin, x: 7, y: 8 });
}

#[test]
fn the_program_takes_a_screenshot_when_the_screen_is_at_rest() {
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
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&shot).unwrap()))
            .read_info()
            .unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    let pixels: Vec<u32> =
        bytes.chunks_exact(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]])).collect();
    assert_eq!(pixels, fake.screen());
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(json["framebuffer_xxh3"], format!("{:016x}", shot::hash(&fake.screen())));
}

#[test]
fn the_program_runs_commands_from_standard_input_and_explains_errors() {
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
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{link}: {stderr}");
        assert!(stderr.starts_with("thinc-view: ") && stderr.contains(words), "{link}: {stderr}");
    }
}

#[test]
fn a_link_comes_from_everywhere_and_stands_in_no_arguments() {
    let program = || {
        let mut program = Program::new(env!("CARGO_BIN_EXE_thinc-view"));
        program.env_remove("DISPLAY").env_remove("THINC_LINK");
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        program
    };
    let script = ["--headless", "--script", "-"];
    for source in ["an argument", "standard input", "a file", "the environment"] {
        let fake = Fake::start(size(200, 100));
        let link = fake.link().to_string();
        let mut program = program();
        let mut input = String::new();
        match source {
            "an argument" => _ = program.arg(&link),
            "standard input" => {
                program.arg("-");
                input = format!("{link}\n");
            }
            "a file" => {
                let file = fake.folder.join("link");
                std::fs::write(&file, format!("{link}\nanother line\n")).unwrap();
                program.arg("--link-file").arg(file);
            }
            _ => _ = program.env("THINC_LINK", &link),
        }
        let mut viewer = program.args(script).spawn().unwrap();
        let mut commands = viewer.stdin.take().unwrap();
        writeln!(commands, "{input}size").unwrap();
        let mut answers = std::io::BufReader::new(viewer.stdout.take().unwrap());
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ok 200x100\n", "{source}");
        let arguments = std::fs::read(format!("/proc/{}/cmdline", viewer.id())).unwrap();
        let arguments = String::from_utf8_lossy(&arguments);
        assert!(arguments.contains("--headless"), "{source}: {arguments}");
        assert!(!arguments.contains("#t="), "{source}: {arguments}");
        drop(commands);
        assert!(viewer.wait().unwrap().success(), "{source}");
    }
    for (argument, input, words) in
        [("", "", "THINC_LINK"), ("-", "\nsize\n", "standard input"), ("-", "x\n", "link")]
    {
        let mut program = program();
        program.args(Some(argument).filter(|argument| !argument.is_empty())).args(script);
        let mut viewer = program.stderr(Stdio::piped()).spawn().unwrap();
        viewer.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = viewer.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn what_an_argument_holds_controls_no_terminal() {
    let wrong = "thinc://\u{1b}]0;mine\u{7}\u{202e}/";
    for arguments in [[wrong, "--headless"], ["--timeout", wrong]] {
        let mut program = Program::new(env!("CARGO_BIN_EXE_thinc-view"));
        let output = program.args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(!stderr.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{stderr:?}");
    }
}

#[test]
fn a_time_out_ends_a_wait_whatever_work_a_session_makes() {
    // More than a second's work, whatever the machine.
    const COUNT: u32 = 4_000;
    let fake = Fake::start(size(64, 64));
    let mut viewer = open(&fake);
    viewer.wait_quiet().unwrap();
    fake.shared.state.lock().unwrap().hold_barriers = true;
    let before = viewer.report().geometries;
    let largest = |epoch| Geometry { epoch, size: size(8192, 8192), shown: None };
    let mut bomb = Vec::new();
    for epoch in 2..2 + COUNT {
        SessionMessage::Geometry(largest(epoch)).encode(&mut bomb);
    }
    fake.send_bytes(&bomb);
    viewer.set_timeout(Duration::from_millis(300));
    assert!(matches!(viewer.wait_quiet(), Err(ViewError::Timeout { .. })));
    let applied = viewer.report().geometries - before;
    assert!(applied < u64::from(COUNT / 4), "it waited until {applied} were applied");
}

#[test]
fn without_a_display_the_window_explains_what_is_missing() {
    let fake = Fake::start(size(200, 100));
    let output = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .arg(fake.link().to_string())
        .env_remove("DISPLAY")
        .env("SDL_VIDEO_DRIVER", "x11")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("DISPLAY") && stderr.contains("--headless"), "{stderr}");
}
