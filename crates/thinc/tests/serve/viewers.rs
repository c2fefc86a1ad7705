//! Viewers: native and browser together on one port, and one among them that misbehaves.

use std::io::{BufReader, ErrorKind, Read as _, Write as _};

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{INSTANCE_BYTES, SESSION_MESSAGE_BYTES_MAX};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_transport::{ConnectOptions, Scheme, connect};

use crate::harness::{
    Browser, Message, Session, TestEnvironment, Tls, Viewer, connect_options, hello,
    next_websocket_message, wait_until, websocket_message,
};

#[test]
fn links_of_both_schemes_open_the_session_in_a_native_viewer() {
    let session = Session::start(&[]);
    for scheme in [Scheme::Https, Scheme::Thinc] {
        let link = session.link().with_scheme(scheme).to_string();
        let mut viewer = Viewer::new(connect(&link.parse().unwrap(), &connect_options()).unwrap());
        assert_eq!(viewer.next(), Some(Message::Hello("t".into())));
        assert_eq!(viewer.wait_complete(), Size { width: 1280, height: 800 });
    }
}

#[test]
fn a_session_credential_opens_the_session_repeatedly() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &connect_options()).unwrap());
    for _ in 0..3 {
        viewer.wait_complete();
        let options = ConnectOptions {
            session_credential: Some(viewer.session_credential.clone()),
            ..connect_options()
        };
        viewer = Viewer::new(connect(&link, &options).unwrap());
    }
    viewer.wait_complete();
}

#[test]
fn a_browser_opens_the_websocket_of_its_own_site_only() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    let own = format!("https://{}", session.address());
    assert_eq!(browser.websocket(Some(&own)).0.status, 401, "no cookie yet");
    assert_eq!(browser.login(&session.link()).status, 200);
    for foreign in [Some("https://evil.example"), Some("http://127.0.0.1"), Some("null"), None] {
        assert_eq!(browser.websocket(foreign).0.status, 403, "{foreign:?}");
    }
    let (answer, mut stream) = browser.websocket(Some(&own));
    assert_eq!(answer.status, 101);
    assert_eq!(
        answer.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "RFC 6455 §1.3"
    );
    assert_eq!(answer.headers["sec-websocket-protocol"], "thinc", "and not the secret");
    let mut message = Vec::new();
    hello().encode(&mut message);
    stream.get_mut().write_all(&websocket_message(&message)).unwrap();
    let mut frames = Deframer::new(1 << 20);
    frames.push(&next_websocket_message(&mut stream).expect("an answer"));
    let frame = frames.next().unwrap().expect("the hello is short");
    let message = SessionMessage::decode(&frame).unwrap();
    assert!(matches!(message, SessionMessage::Hello(hello) if hello.name == "t"));
}

#[test]
fn the_screen_takes_the_size_that_a_viewer_requests() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    viewer.send(&ViewerMessage::Resize(Size { width: 333, height: 222 }));
    // Without the capability the request is ignored.
    viewer.send(&ViewerMessage::Ping(1));
    assert_eq!(
        viewer
            .until(|message| *message == Message::Pong || matches!(message, Message::Geometry(_))),
        Message::Pong
    );
    let (mut reader, mut writer) = connect(&session.link(), &connect_options()).unwrap().split();
    let ViewerMessage::Hello(mut able) = hello() else { unreachable!() };
    able.caps = thinc_protocol::viewer::ViewerCaps::RESIZE;
    able.size = Size { width: 1001, height: 701 };
    let mut bytes = Vec::new();
    ViewerMessage::Hello(able).encode(&mut bytes);
    writer.write_all(&bytes).unwrap();
    // The other viewer, which requested nothing, gets the new size too.
    viewer.until(|message| *message == Message::Geometry(Size { width: 1001, height: 701 }));
    assert!(reader.read(&mut [0; 64]).unwrap() > 0);
}

#[test]
fn a_screen_larger_than_any_viewer_supports_is_refused() {
    let script = "xrandr --fb 16384x16384; xsetroot -solid red; sleep 1000";
    let session = Session::start_with(TestEnvironment::new(), &[], &["sh", "-c", script]);
    let mut viewer = session.viewer();
    let size = viewer.wait_complete();
    assert_eq!((size.width, size.height), (1280, 800));
    // xrandr prints this once it has its answer.
    while !session.environment.log("t", "command.log").contains("X Error") {
        viewer.send(&ViewerMessage::Barrier(2));
        viewer.until(|message| *message == Message::Barrier(2));
    }
    assert_eq!(session.viewer().wait_complete(), size);
}

#[test]
fn endless_requests_while_x_does_not_answer_do_no_harm() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let xorg = Pid::from_raw(i32::try_from(session.pid("xorg")).unwrap()).unwrap();
    kill_process(xorg, Signal::STOP).unwrap();
    // Each viewer may have 16 barriers outstanding when it disconnects: together more than the
    // socket to a stopped X server holds.
    for round in 0..40 {
        let mut guest = session.viewer();
        let mut bytes = Vec::new();
        for number in 0..16 {
            ViewerMessage::Barrier(round * 16 + number).encode(&mut bytes);
        }
        ViewerMessage::Ping(round).encode(&mut bytes);
        guest.writer.write_all(&bytes).unwrap();
        // Everything that was sent before the ping has been handled once it is answered.
        guest.until(|message| *message == Message::Pong);
    }
    kill_process(xorg, Signal::CONT).unwrap();
    viewer.send(&ViewerMessage::Barrier(2));
    viewer.until(|message| *message == Message::Barrier(2));
    assert_eq!(session.status()["restarts"], 0);
}

/// Bytes of a connection that a viewer has given up may arrive after the first ones of the next
/// connection.
#[test]
fn the_newest_connection_of_a_viewer_stays() {
    let session = Session::start(&[]);
    let [mut first, mut second, mut third] = [session.viewer(), session.viewer(), session.viewer()];
    let instance = ViewerMessage::Instance([7; INSTANCE_BYTES]);
    second.send(&instance);
    second.wait_complete();
    first.send(&instance);
    assert_eq!(
        first.closed(),
        (CloseCode::Replaced, "a newer connection of this viewer is here".to_owned())
    );
    third.send(&instance);
    third.wait_complete();
    while second.next().is_some() {}
    third.send(&ViewerMessage::Barrier(2));
    third.until(|message| *message == Message::Barrier(2));
}

/// It sends the rest of its input, and repeats nothing that was received.
#[test]
fn a_viewer_that_reconnects_learns_which_of_its_input_was_received() {
    let session = Session::start(&[]);
    let connect_as = |number| {
        let connection = connect(&session.link(), &connect_options()).unwrap();
        let mut viewer = Viewer::with_caps(connection, ViewerCaps::RESUME_INPUT);
        assert!(matches!(viewer.next(), Some(Message::Hello(_))), "the hello is sent at once");
        viewer.send(&ViewerMessage::Instance([number; INSTANCE_BYTES]));
        viewer
    };
    let type_to = |viewer: &mut Viewer, seq| {
        viewer.send(&ViewerMessage::Input(Input { seq, event: InputEvent::Char('x') }));
        viewer.send(&ViewerMessage::Ping(seq));
        viewer.until(|message| *message == Message::Pong);
    };
    let mut first = connect_as(7);
    assert!(matches!(first.next(), Some(Message::Geometry(_))), "it is unknown");
    type_to(&mut first, 1);
    type_to(&mut first, 2);
    // Its older connection is still open.
    let mut second = connect_as(7);
    assert_eq!(second.next(), Some(Message::Seen(2)));
    assert!(matches!(second.next(), Some(Message::Geometry(_))));
    while first.next().is_some() {}
    drop(second);
    // It sent nothing there, and has disconnected.
    let mut third = connect_as(7);
    assert_eq!(third.next(), Some(Message::Seen(2)));
    type_to(&mut third, 9);
    let mut other = connect_as(8);
    assert!(matches!(other.next(), Some(Message::Geometry(_))), "another viewer has its own count");
    drop(third);
    let mut fourth = connect_as(7);
    assert_eq!(fourth.next(), Some(Message::Seen(9)));
    // A viewer without the capability gets no count.
    let mut plain = session.viewer();
    plain.send(&ViewerMessage::Instance([7; INSTANCE_BYTES]));
    assert!(matches!(
        plain.until(|message| !matches!(message, Message::Hello(_))),
        Message::Geometry(_)
    ));
}

#[test]
fn connections_with_a_cookie_have_a_limit_and_the_newest_work() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    let link = session.link();
    assert_eq!(browser.login(&link).status, 200);
    let open: Vec<_> = (0..200)
        .map(|_| {
            let (answer, connection) = browser.open("GET", &link.base_path, &[], "");
            assert_eq!(answer.status, 200);
            connection
        })
        .collect();
    let is_open = |connection: &BufReader<Tls>| {
        let tcp = &connection.get_ref().sock;
        tcp.set_nonblocking(true).unwrap();
        matches!(tcp.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    wait_until("the oldest to be closed", || {
        (open.iter().filter(|connection| is_open(connection)).count() <= 96).then_some(())
    });
    assert!(open[104..].iter().all(is_open), "the newest were closed");
    assert_eq!(browser.get(&link.base_path).status, 200);
}

/// A proxy may send a page's later request over a connection that it opened earlier.
#[test]
fn the_newest_connection_of_a_page_stays_on_any_tcp_connection() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login(&session.link()).status, 200);
    let own = format!("https://{}", session.address());
    let mut words = Vec::new();
    hello().encode(&mut words);
    ViewerMessage::Instance([7; INSTANCE_BYTES]).encode(&mut words);
    ViewerMessage::Ping(1).encode(&mut words);
    let open_websocket = |connection| {
        let (answer, mut stream) = browser.websocket_over(connection, Some(&own));
        assert_eq!(answer.status, 101);
        stream.get_mut().write_all(&websocket_message(&words)).unwrap();
        let mut frames = Deframer::new(SESSION_MESSAGE_BYTES_MAX);
        loop {
            frames.push(&next_websocket_message(&mut stream).expect("an answer to the ping"));
            while let Some(frame) = frames.next().unwrap() {
                if let SessionMessage::Pong(_) = SessionMessage::decode(&frame).unwrap() {
                    return stream;
                }
            }
        }
    };
    let opened_first = browser.connect();
    let mut first = open_websocket(browser.connect());
    let mut second = open_websocket(opened_first);
    while next_websocket_message(&mut first).is_some() {}
    let mut ping = Vec::new();
    ViewerMessage::Ping(2).encode(&mut ping);
    second.get_mut().write_all(&websocket_message(&ping)).unwrap();
    assert!(next_websocket_message(&mut second).is_some());
}

#[test]
fn a_protocol_violation_disconnects_the_viewer_with_a_reason() {
    let session = Session::start(&[]);
    let mut other = session.viewer();
    other.wait_complete();
    let mut ahead = session.viewer();
    ahead.send(&ViewerMessage::Ack(Ack { update: 1_000_000, presented: None }));
    let (code, reason) = ahead.closed();
    assert_eq!(code, CloseCode::Protocol);
    assert!(reason.contains("1000000"), "{reason}");

    let mut twice = session.viewer();
    twice.send(&hello());
    assert_eq!(twice.closed().0, CloseCode::Protocol);

    let mut noisy = session.viewer();
    noisy.writer.write_all(&[0xee; 100]).unwrap();
    assert_eq!(noisy.closed().0, CloseCode::Protocol);

    let mut flood = session.viewer();
    let mut bytes = Vec::new();
    for seq in 1..=5000 {
        ViewerMessage::Input(Input { seq, event: InputEvent::Motion { x: 1, y: 1 } })
            .encode(&mut bytes);
    }
    // The session may close before it has read everything.
    let _ = flood.writer.write_all(&bytes);
    assert!(flood.closed().1.contains("input events"), "a flood of input");

    other.send(&ViewerMessage::Barrier(2));
    other.until(|message| *message == Message::Barrier(2));
}

#[test]
fn a_viewer_that_acknowledges_nothing_is_dropped_with_a_reason() {
    // The screen changes all the time, so that there is always more to send.
    let script = "while :; do xsetroot -solid red; xsetroot -solid blue; done";
    let session =
        Session::start_with(TestEnvironment::new(), &["--size", "640x480"], &["sh", "-c", script]);
    let mut unresponsive = session.viewer();
    unresponsive.acknowledges = false;
    let watcher = std::thread::spawn({
        let mut other = session.viewer();
        move || {
            let mut updates = 0;
            while let Some(message) = other.next() {
                updates += u32::from(matches!(message, Message::Update { .. }));
            }
            updates
        }
    });
    let mut held = 0;
    let (code, reason) = loop {
        match unresponsive.next().expect("a reason before the end") {
            Message::Close(code, reason) => break (code, reason),
            Message::Update { bytes, .. } => held += bytes,
            _ => {}
        }
    };
    assert_eq!(code, CloseCode::TooSlow, "{reason}");
    assert!(held < 1 << 20, "{held} bytes were sent to a viewer that acknowledged none");
    assert!(session.environment.run(&["stop", "t"]).status.success());
    assert!(watcher.join().unwrap() > 10, "the other viewer saw the screen change all the time");
}

#[test]
fn a_viewer_that_does_not_read_is_dropped_and_does_not_block_the_session() {
    let script = "while :; do xsetroot -mod 7 5 -fg red; xsetroot -mod 9 3 -fg blue; done";
    let session =
        Session::start_with(TestEnvironment::new(), &["--size", "640x480"], &["sh", "-c", script]);
    let stalled = session.viewer();
    let mut other = session.viewer();
    other.wait_complete();
    // The log names the viewer that was dropped; until then the other one keeps the session busy.
    loop {
        other.until(|message| matches!(message, Message::Update { .. }));
        if session.environment.log("t", "session.log").contains("was acknowledged for") {
            break;
        }
    }
    drop(stalled);
    other.send(&ViewerMessage::Barrier(9));
    other.until(|message| *message == Message::Barrier(9));
    assert_eq!(session.status()["restarts"], 0);
}
