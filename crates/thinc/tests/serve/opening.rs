//! A person opens a session that is shown at another viewer of theirs: which of both shows it then,
//! and who comes back by itself. Knows hellos and closes.

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{Message, Session, Viewer, connect_options};

const OPENS: u32 = ViewerCaps::OPENS;
const TAKES_OVER: u32 = OPENS | ViewerCaps::TAKES_OVER;
const JOINS: u32 = OPENS | ViewerCaps::JOINS;
/// A viewer that lost its connection.
const RECONNECTS: u32 = 0;

/// The viewer with this number, which wants this.
fn viewer(session: &Session, number: u8, caps: u32) -> Viewer {
    let connection = connect(&session.link(), &connect_options()).unwrap();
    let mut viewer = Viewer::with_caps(connection, caps);
    viewer.send(&ViewerMessage::Instance([number; INSTANCE_BYTES]));
    viewer
}

/// Its screen is complete.
fn opened(session: &Session, number: u8, caps: u32) -> Viewer {
    let mut viewer = viewer(session, number, caps);
    viewer.wait_complete();
    viewer
}

/// It is still served.
fn answers(viewer: &mut Viewer) -> bool {
    viewer.send(&ViewerMessage::Ping(7));
    viewer.until(|message| *message == Message::Pong);
    true
}

#[test]
fn who_was_taken_over_comes_back_only_when_its_person_wants_that() {
    let session = Session::start(&["--opening", "take-over"]);
    let mut first = opened(&session, 1, OPENS);
    let mut second = opened(&session, 2, OPENS);
    let (code, reason) = first.closed();
    assert_eq!(code, CloseCode::Replaced);
    assert!(reason.contains("another viewer of its owner"), "{reason}");
    // An outage, and a page that was loaded again, are no wish of the person's.
    assert_eq!(viewer(&session, 1, RECONNECTS).closed().0, CloseCode::Replaced);
    assert!(answers(&mut second));
    // One that the session does not know was at no time taken over.
    let mut third = opened(&session, 3, RECONNECTS);
    assert!(answers(&mut second) && answers(&mut third));
    // Nor does one come back that had left before.
    drop(third);
    let mut first = opened(&session, 1, TAKES_OVER);
    assert_eq!(second.closed().0, CloseCode::Replaced);
    assert_eq!(viewer(&session, 2, RECONNECTS).closed().0, CloseCode::Replaced);
    assert_eq!(viewer(&session, 3, RECONNECTS).closed().0, CloseCode::Replaced);
    // The first one may come back now.
    assert!(answers(&mut first));
    drop(first);
    let mut first = opened(&session, 1, RECONNECTS);
    // Both see it, if the person says so.
    let mut second = opened(&session, 2, JOINS);
    assert!(answers(&mut first) && answers(&mut second));
}

#[test]
fn viewers_join_unless_their_person_says_otherwise() {
    let session = Session::start(&[]);
    let mut first = opened(&session, 1, OPENS);
    let mut second = opened(&session, 2, OPENS);
    assert!(answers(&mut first) && answers(&mut second));
    let mut third = opened(&session, 3, TAKES_OVER);
    assert_eq!(first.closed().0, CloseCode::Replaced);
    assert_eq!(second.closed().0, CloseCode::Replaced);
    assert!(answers(&mut third));
}

#[test]
fn a_person_is_asked_only_while_the_session_is_shown_elsewhere() {
    let session = Session::start(&["--opening", "ask"]);
    let mut first = opened(&session, 1, OPENS);
    let (code, reason) = viewer(&session, 2, OPENS).closed();
    assert_eq!(code, CloseCode::Elsewhere);
    assert!(reason.contains("take it over"), "{reason}");
    let mut second = opened(&session, 2, JOINS);
    assert!(answers(&mut first) && answers(&mut second));
    // A preference goes before the command line; it holds from the next opening on.
    let config = session.environment.folder.join("config/thinc");
    std::fs::create_dir_all(&config).unwrap();
    let file = config.join("preferences.json");
    std::fs::write(&file, r#"{"opening":"take-over"}"#).unwrap();
    let mut third = opened(&session, 3, OPENS);
    assert_eq!(first.closed().0, CloseCode::Replaced);
    assert_eq!(second.closed().0, CloseCode::Replaced);
    // What nobody can read changes nothing; without a file the command line holds again.
    std::fs::write(&file, "nonsense").unwrap();
    let mut fourth = opened(&session, 4, OPENS);
    assert_eq!(third.closed().0, CloseCode::Replaced);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(viewer(&session, 5, OPENS).closed().0, CloseCode::Elsewhere);
    assert!(answers(&mut fourth));
}
