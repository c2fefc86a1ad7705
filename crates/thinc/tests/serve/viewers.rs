//! Viewers: native and browser on one port, together, and one that misbehaves among them.

use std::io::{Read as _, Write as _};

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::{INSTANCE_BYTES, SESSION_FRAME_BYTES_MAX};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_transport::{ConnectOptions, Scheme, connect};

use crate::harness::{Browser, Place, Said, Session, Viewer, hello, next_websocket_message, websocket_message};

#[test]
fn both_forms_of_a_link_open_the_session_in_a_native_viewer() {
    let session = Session::start(&[]);
    for scheme in [Scheme::Https, Scheme::Thinc] {
        let link = session.link().with_scheme(scheme).to_string();
        let mut viewer = Viewer::new(connect(&link.parse().unwrap(), &ConnectOptions::default()).unwrap());
        assert_eq!(viewer.next(), Some(Said::Hello("t".into())));
        assert_eq!(viewer.whole(), Size { width: 1280, height: 800 });
    }
}

#[test]
fn a_session_key_opens_it_again_and_again() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &ConnectOptions::default()).unwrap());
    for _ in 0..3 {
        viewer.whole();
        let options = ConnectOptions { session_key: Some(viewer.session_key.clone()), ..ConnectOptions::default() };
        viewer = Viewer::new(connect(&link, &options).unwrap());
    }
    viewer.whole();
}

#[test]
fn a_browser_opens_the_websocket_of_its_own_site_only() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    let own = format!("https://{}", session.address());
    assert_eq!(browser.websocket(Some(&own)).0.status, 401, "no cookie yet");
    assert_eq!(browser.login(&session.link()).status, 204);
    for foreign in [Some("https://evil.example"), Some("http://127.0.0.1"), Some("null"), None] {
        assert_eq!(browser.websocket(foreign).0.status, 403, "{foreign:?}");
    }
    let (answer, mut stream) = browser.websocket(Some(&own));
    assert_eq!(answer.status, 101);
    assert_eq!(answer.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "RFC 6455 §1.3");
    let mut message = Vec::new();
    hello().encode(&mut message);
    stream.get_mut().write_all(&websocket_message(&message)).unwrap();
    let mut frames = Deframer::new(1 << 20);
    frames.push(&next_websocket_message(&mut stream).expect("an answer"));
    let frame = frames.next().unwrap().expect("the hello is short");
    assert!(matches!(SessionMessage::decode(&frame).unwrap(), SessionMessage::Hello(hello) if hello.name == "t"));
}

#[test]
fn the_screen_takes_the_size_a_viewer_asks_for() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.whole();
    viewer.say(&ViewerMessage::Resize(Size { width: 333, height: 222 }));
    // Without the capability the wish is none of its business.
    viewer.say(&ViewerMessage::Ping(1));
    assert_eq!(viewer.until(|said| *said == Said::Pong || matches!(said, Said::Geometry(_))), Said::Pong);
    let (mut reader, mut writer) = connect(&session.link(), &ConnectOptions::default()).unwrap().split();
    let ViewerMessage::Hello(mut able) = hello() else { unreachable!() };
    able.caps = thinc_protocol::viewer::ViewerCaps::RESIZE;
    able.size = Size { width: 1001, height: 701 };
    let mut bytes = Vec::new();
    ViewerMessage::Hello(able).encode(&mut bytes);
    writer.write_all(&bytes).unwrap();
    // The other viewer, which asked for nothing, is told as well.
    viewer.until(|said| *said == Said::Geometry(Size { width: 1001, height: 701 }));
    assert!(reader.read(&mut [0; 64]).unwrap() > 0);
}

#[test]
fn a_screen_no_viewer_could_take_is_refused_to_whoever_asks() {
    let script = "xrandr --fb 16384x16384; xsetroot -solid red; sleep 1000";
    let session = Session::start_with(Place::new(), &[], &["sh", "-c", script]);
    let mut viewer = session.viewer();
    let size = viewer.whole();
    assert_eq!((size.width, size.height), (1280, 800));
    // xrandr has had its answer when it says so.
    while !session.place.log("t", "command.log").contains("X Error") {
        viewer.say(&ViewerMessage::Barrier(2));
        viewer.until(|said| *said == Said::Barrier(2));
    }
    assert_eq!(session.viewer().whole(), size);
}

#[test]
fn wishes_without_end_while_x_does_not_answer_end_nothing() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.whole();
    let xorg = Pid::from_raw(i32::try_from(session.pid("xorg")).unwrap()).unwrap();
    kill_process(xorg, Signal::STOP).unwrap();
    // Each viewer may wait for 16 barriers, and leave them behind: more than the socket to a stopped X holds.
    for round in 0..40 {
        let mut guest = session.viewer();
        let mut bytes = Vec::new();
        for number in 0..16 {
            ViewerMessage::Barrier(round * 16 + number).encode(&mut bytes);
        }
        ViewerMessage::Ping(round).encode(&mut bytes);
        guest.writer.write_all(&bytes).unwrap();
        // Whatever was said before the answer to the ping has been taken.
        guest.until(|said| *said == Said::Pong);
    }
    kill_process(xorg, Signal::CONT).unwrap();
    viewer.say(&ViewerMessage::Barrier(2));
    viewer.until(|said| *said == Said::Barrier(2));
    assert_eq!(session.status()["restarts"], 0);
}

/// What was on its way over a connection that a viewer has given up may arrive behind the next one's first words.
#[test]
fn of_a_viewers_connections_the_newest_stays() {
    let session = Session::start(&[]);
    let [mut first, mut second, mut third] = [session.viewer(), session.viewer(), session.viewer()];
    let instance = ViewerMessage::Instance([7; INSTANCE_BYTES]);
    second.say(&instance);
    second.whole();
    first.say(&instance);
    assert_eq!(first.closed(), (CloseCode::Replaced, "a newer connection of this viewer is here".to_owned()));
    third.say(&instance);
    third.whole();
    while second.next().is_some() {}
    third.say(&ViewerMessage::Barrier(2));
    third.until(|said| *said == Said::Barrier(2));
}

/// It types the rest, and nothing twice.
#[test]
fn a_viewer_that_comes_back_hears_what_was_taken_of_it() {
    let session = Session::start(&[]);
    let come = |number| {
        let connection = connect(&session.link(), &ConnectOptions::default()).unwrap();
        let mut viewer = Viewer::with_caps(connection, ViewerCaps::TYPED);
        assert!(matches!(viewer.next(), Some(Said::Hello(_))), "the hello waits for nothing");
        viewer.say(&ViewerMessage::Instance([number; INSTANCE_BYTES]));
        viewer
    };
    let type_to = |viewer: &mut Viewer, seq| {
        viewer.say(&ViewerMessage::Input(Input { seq, event: InputEvent::Char('x') }));
        viewer.say(&ViewerMessage::Ping(seq));
        viewer.until(|said| *said == Said::Pong);
    };
    let mut first = come(7);
    assert!(matches!(first.next(), Some(Said::Geometry(_))), "nobody knows it");
    type_to(&mut first, 1);
    type_to(&mut first, 2);
    // Its older connection is there still.
    let mut second = come(7);
    assert_eq!(second.next(), Some(Said::Seen(2)));
    assert!(matches!(second.next(), Some(Said::Geometry(_))));
    while first.next().is_some() {}
    drop(second);
    // It said nothing there, and has gone.
    let mut third = come(7);
    assert_eq!(third.next(), Some(Said::Seen(2)));
    type_to(&mut third, 9);
    let mut other = come(8);
    assert!(matches!(other.next(), Some(Said::Geometry(_))), "another viewer is another");
    drop(third);
    let mut fourth = come(7);
    assert_eq!(fourth.next(), Some(Said::Seen(9)));
    // Who does not ask is not told.
    let mut plain = session.viewer();
    plain.say(&ViewerMessage::Instance([7; INSTANCE_BYTES]));
    assert!(matches!(plain.until(|said| !matches!(said, Said::Hello(_))), Said::Geometry(_)));
}

/// A proxy may send what a page asks for later down a connection that it opened earlier.
#[test]
fn of_a_pages_connections_the_newest_stays_whatever_carries_it() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login(&session.link()).status, 204);
    let own = format!("https://{}", session.address());
    let mut words = Vec::new();
    hello().encode(&mut words);
    ViewerMessage::Instance([7; INSTANCE_BYTES]).encode(&mut words);
    ViewerMessage::Ping(1).encode(&mut words);
    let joined = |connection| {
        let (answer, mut stream) = browser.websocket_over(connection, Some(&own));
        assert_eq!(answer.status, 101);
        stream.get_mut().write_all(&websocket_message(&words)).unwrap();
        let mut frames = Deframer::new(SESSION_FRAME_BYTES_MAX);
        loop {
            frames.push(&next_websocket_message(&mut stream).expect("an answer to the ping comes first"));
            while let Some(frame) = frames.next().unwrap() {
                if let SessionMessage::Pong(_) = SessionMessage::decode(&frame).unwrap() {
                    return stream;
                }
            }
        }
    };
    let opened_first = browser.connect();
    let mut first = joined(browser.connect());
    let mut second = joined(opened_first);
    while next_websocket_message(&mut first).is_some() {}
    let mut ping = Vec::new();
    ViewerMessage::Ping(2).encode(&mut ping);
    second.get_mut().write_all(&websocket_message(&ping)).unwrap();
    assert!(next_websocket_message(&mut second).is_some());
}

#[test]
fn a_violation_ends_that_viewer_with_the_reason() {
    let session = Session::start(&[]);
    let mut honest = session.viewer();
    honest.whole();
    let mut ahead = session.viewer();
    ahead.say(&ViewerMessage::Ack(Ack { update: 1_000_000, presented: None }));
    let (code, reason) = ahead.closed();
    assert_eq!(code, CloseCode::Protocol);
    assert!(reason.contains("1000000"), "{reason}");

    let mut twice = session.viewer();
    twice.say(&hello());
    assert_eq!(twice.closed().0, CloseCode::Protocol);

    let mut noisy = session.viewer();
    noisy.writer.write_all(&[0xee; 100]).unwrap();
    assert_eq!(noisy.closed().0, CloseCode::Protocol);

    let mut flood = session.viewer();
    let mut bytes = Vec::new();
    for seq in 1..=5000 {
        ViewerMessage::Input(Input { seq, event: InputEvent::Motion { x: 1, y: 1 } }).encode(&mut bytes);
    }
    // The session may hang up before it has taken all of it.
    let _ = flood.writer.write_all(&bytes);
    assert!(flood.closed().1.contains("input events"), "a flood of input");

    honest.say(&ViewerMessage::Barrier(2));
    honest.until(|said| *said == Said::Barrier(2));
}

#[test]
fn one_that_acknowledges_nothing_is_told_and_dropped_and_others_see_everything() {
    // Something moves all the time, so that there is always more to send.
    let script = "while :; do xsetroot -solid red; xsetroot -solid blue; done";
    let session = Session::start_with(Place::new(), &["--size", "640x480"], &["sh", "-c", script]);
    let mut silent = session.viewer();
    silent.acknowledges = false;
    let watcher = std::thread::spawn({
        let mut honest = session.viewer();
        move || {
            let mut updates = 0;
            while let Some(said) = honest.next() {
                updates += u32::from(matches!(said, Said::Update { .. }));
            }
            updates
        }
    });
    let mut held = 0;
    let (code, reason) = loop {
        match silent.next().expect("a reason comes before the end") {
            Said::Close(code, reason) => break (code, reason),
            Said::Update { bytes, .. } => held += bytes,
            _ => {}
        }
    };
    assert_eq!(code, CloseCode::TooSlow, "{reason}");
    assert!(held < 1 << 20, "{held} bytes were sent to a viewer that acknowledged none");
    assert!(session.place.run(&["stop", "t"]).status.success());
    assert!(watcher.join().unwrap() > 10, "the other viewer saw the screen change all the time");
}

#[test]
fn one_that_does_not_read_is_dropped_and_the_session_is_not_held_up() {
    let script = "while :; do xsetroot -mod 7 5 -fg red; xsetroot -mod 9 3 -fg blue; done";
    let session = Session::start_with(Place::new(), &["--size", "640x480"], &["sh", "-c", script]);
    let deaf = session.viewer();
    let mut honest = session.viewer();
    honest.whole();
    // The log names the viewer that was dropped; the honest one keeps both of us awake until then.
    loop {
        honest.until(|said| matches!(said, Said::Update { .. }));
        if session.place.log("t", "session.log").contains("was acknowledged for") {
            break;
        }
    }
    drop(deaf);
    honest.say(&ViewerMessage::Barrier(9));
    honest.until(|said| *said == Said::Barrier(9));
    assert_eq!(session.status()["restarts"], 0);
}
