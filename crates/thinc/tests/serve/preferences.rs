//! What a person prefers: kept in a file of theirs, enforced by the session for each viewer of
//! theirs, and for those of later sessions. Knows messages and the file.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::viewer::{KeyboardLayout, ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{Message, Session, TestEnvironment, Viewer, connect_options, wait_until};
use crate::sharing::set_clipboard;

const CAPS: u32 = ViewerCaps::CLIPBOARD | ViewerCaps::CLIP_POLICY;
const BOTH: ClipDirections = ClipDirections { to_session: true, to_viewer: true };
const TO_SESSION: ClipDirections = ClipDirections { to_session: true, to_viewer: false };
const TO_VIEWER: ClipDirections = ClipDirections { to_session: false, to_viewer: true };
const NEITHER: ClipDirections = ClipDirections { to_session: false, to_viewer: false };

fn viewer(session: &Session) -> Viewer {
    Viewer::with_caps(connect(&session.link(), &connect_options()).unwrap(), CAPS)
}

fn file(session: &Session) -> PathBuf {
    session.environment.folder.join("config/thinc/preferences.json")
}

/// All that arrives until this barrier.
fn until_barrier(viewer: &mut Viewer, number: u32) -> Vec<Message> {
    viewer.send(&ViewerMessage::Barrier(number));
    let mut seen = Vec::new();
    while seen.last() != Some(&Message::Barrier(number)) {
        seen.extend(viewer.next());
    }
    seen
}

fn has_offer(seen: &[Message]) -> bool {
    seen.iter().any(|message| matches!(message, Message::Offered(formats) if !formats.is_empty()))
}

#[test]
fn the_clipboards_directions_are_kept_and_enforced_for_all_viewers_of_the_owner() {
    let session = Session::start(&[]);
    let (mut first, mut second) = (viewer(&session), viewer(&session));
    for viewer in [&mut first, &mut second] {
        assert!(until_barrier(viewer, 1).contains(&Message::ClipPolicy(BOTH)));
    }
    set_clipboard(&session, "one");
    for viewer in [&mut first, &mut second] {
        viewer.until(|message| has_offer(std::slice::from_ref(message)));
    }

    // One of them chooses, and both are told once it is kept; nothing is offered to either.
    first.send(&ViewerMessage::ClipPolicy(TO_SESSION));
    for viewer in [&mut first, &mut second] {
        viewer.until(|message| *message == Message::ClipPolicy(TO_SESSION));
    }
    let kept: serde_json::Value =
        serde_json::from_slice(&fs::read(file(&session)).unwrap()).unwrap();
    assert_eq!(kept, serde_json::json!({ "clipboard": "to-session" }));
    set_clipboard(&session, "two");
    let mut third = viewer(&session);
    assert!(until_barrier(&mut third, 1).contains(&Message::ClipPolicy(TO_SESSION)));
    for viewer in [&mut first, &mut second, &mut third] {
        assert!(!has_offer(&until_barrier(viewer, 7)));
    }
    // What nobody can read changes nothing: the last that was read holds.
    fs::write(file(&session), "nonsense").unwrap();
    let mut fourth = viewer(&session);
    assert!(until_barrier(&mut fourth, 1).contains(&Message::ClipPolicy(TO_SESSION)));
    // A choice that cannot be kept changes nothing, and its viewer is told.
    let folder = file(&session);
    let folder = folder.parent().unwrap();
    fs::remove_dir_all(folder).unwrap();
    fs::write(folder, "no folder").unwrap();
    first.send(&ViewerMessage::ClipPolicy(BOTH));
    wait_until("the log has the reason", || {
        session.environment.log(&session.name, "session.log").contains("not kept").then_some(())
    });
    first.until(|message| *message == Message::ClipPolicy(TO_SESSION));
    assert!(!has_offer(&until_barrier(&mut first, 8)));
}

/// What a program prints that reads a property of the session's X server.
fn query(session: &Session, program: &str) -> String {
    let status = session.status();
    let output = Command::new(program)
        .arg("-query")
        .env("DISPLAY", status["display"].as_str().unwrap())
        .env("XAUTHORITY", status["xauthority"].as_str().unwrap())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until the program prints all of these lines, and none of the name `without`.
fn shows(session: &Session, program: &str, lines: &[(&str, &str)], without: &str) {
    wait_until(&format!("{program}: {lines:?}"), || {
        let text = query(session, program);
        let found: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
            .collect();
        let has_all = lines.iter().all(|line| found.contains(line));
        (has_all && !found.iter().any(|(name, _)| *name == without)).then_some(())
    });
}

/// What the owner's part of a broker does once it has changed the file.
fn change(session: &Session, text: &str) {
    fs::write(file(session), text).unwrap();
    let socket = session.environment.folder.join("run/thinc").join(&session.name);
    let mut stream = UnixStream::connect(socket.join("share.sock")).unwrap();
    stream.write_all(b"\"preferences-changed\"\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert_eq!(answer, "\"done\"\n");
}

#[test]
fn layout_and_scale_are_the_owners_while_they_want_that_and_an_unknown_clipboard_is_off() {
    let environment = TestEnvironment::new();
    let folder = environment.folder.join("config/thinc");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("preferences.json"), "nonsense").unwrap();
    let options = ["--clipboard", "to-viewer"];
    let session = Session::start_with(environment, &options, &["sleep", "1000"]);
    let caps = CAPS | ViewerCaps::NOTICE;
    let mut first = Viewer::with_caps(connect(&session.link(), &connect_options()).unwrap(), caps);
    let seen = until_barrier(&mut first, 1);
    assert!(seen.contains(&Message::ClipPolicy(NEITHER)), "{seen:?}");
    let is_notice = |message: &Message| match message {
        Message::Notice(text) => text.contains("cannot be read"),
        _ => false,
    };
    assert!(seen.iter().any(is_notice), "{seen:?}");
    let reported = KeyboardLayout {
        model: "pc105".into(),
        layout: "fr".into(),
        variant: "oss".into(),
        options: "compose:caps".into(),
    };
    first.send(&ViewerMessage::KeyboardLayout(reported));
    let own = [("layout", "fr"), ("variant", "oss"), ("options", "compose:caps")];
    shows(&session, "setxkbmap", &own, "");

    // Fields of another version take nothing away. The session has one direction only.
    change(&session, r#"{"layout":"de","scale":150,"clipboard":"both","other":1}"#);
    first.until(|message| *message == Message::ClipPolicy(TO_VIEWER));
    let wanted = [("layout", "de"), ("model", "pc105"), ("options", "compose:caps")];
    shows(&session, "setxkbmap", &wanted, "variant");
    shows(&session, "xrdb", &[("Xft.dpi", "144")], "");
    // One that comes later has them, whatever it says of itself.
    let mut second = viewer(&session);
    assert!(until_barrier(&mut second, 1).contains(&Message::ClipPolicy(TO_VIEWER)));

    change(&session, "{}");
    shows(&session, "setxkbmap", &own, "");
    shows(&session, "xrdb", &[("Xft.dpi", "96")], "");
}
