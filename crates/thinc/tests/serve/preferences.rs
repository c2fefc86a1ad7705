//! What a person prefers: kept in a file of theirs, enforced by the session for each viewer of
//! theirs, and for those of later sessions. Knows messages and the file.

use std::fs;
use std::path::PathBuf;

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{Message, Session, Viewer, connect_options, wait_until};
use crate::sharing::set_clipboard;

const CAPS: u32 = ViewerCaps::CLIPBOARD | ViewerCaps::CLIP_POLICY;
const BOTH: ClipDirections = ClipDirections { to_session: true, to_viewer: true };
const TO_SESSION: ClipDirections = ClipDirections { to_session: true, to_viewer: false };

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
    // A choice that cannot be kept changes nothing, and is told.
    let folder = file(&session);
    let folder = folder.parent().unwrap();
    fs::remove_dir_all(folder).unwrap();
    fs::write(folder, "no folder").unwrap();
    first.send(&ViewerMessage::ClipPolicy(BOTH));
    wait_until("the log has the reason", || {
        session.environment.log(&session.name, "session.log").contains("not kept").then_some(())
    });
    assert!(!has_offer(&until_barrier(&mut first, 8)));
}
