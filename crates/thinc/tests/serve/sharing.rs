//! Guests: invited by `thinc share`, over native connections and as pages. What they may not do
//! never arrives in the session, and what ends, ends with a reason.

use std::io::Write as _;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::clip::{ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::pen::{PEN_FRACTION, PenSample};
use thinc_protocol::people::{
    Invite, InviteRights, OpenInvitation, People, PersonPointer, Share, ShareAction, Shared,
};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::sound::{SoundCodec, SoundWant};
use thinc_protocol::viewer::{Input, InputEvent, KeyboardLayout, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_transport::{ConnectError, ConnectOptions, Connection, GuestLogin, Link, connect};

use crate::harness::{
    Browser, Message, Session, TestEnvironment, Viewer, connect_options, failed, hello,
    next_websocket_message, wait_until, websocket_message,
};

const KEY_A: u16 = 30;
const KEY_B: u16 = 48;
const KEY_C: u16 = 46;
const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);

/// A session in which xev writes down what arrives in a window at the screen's corner.
struct Watched {
    session: Session,
    log: PathBuf,
}

impl Watched {
    fn start() -> Watched {
        let environment = TestEnvironment::new();
        let log = environment.folder.join("events");
        // Line by line, so that each event is in the file once it has arrived.
        let command = format!(
            "exec stdbuf -oL xev -geometry 200x200+0+0 -event keyboard -event mouse > {}",
            log.display()
        );
        let session = Session::start_with(environment, &[], &["sh", "-c", &command]);
        Watched { session, log }
    }

    fn events(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until this key was pressed; returns all events until then.
    fn until_key(&self, keysym: &str) -> String {
        wait_until(keysym, || {
            let events = self.events();
            events.contains(&format!("{keysym})")).then_some(events)
        })
    }

    /// The owner's viewer, whose pointer is in the window, so that keys go there.
    fn owner(&self, caps: u32) -> Viewer {
        let connection = connect(&self.session.link(), &connect_options()).unwrap();
        let mut owner = Viewer::with_caps(connection, caps);
        owner.wait_complete();
        let mut seq = 0;
        wait_until("the pointer is in the window", || {
            seq += 1;
            let (x, y) = (40 + (seq % 2) as u16, 40);
            owner.send(&input(seq, InputEvent::Motion { x, y }));
            owner.send(&ViewerMessage::Ping(seq));
            owner.until(|message| *message == Message::Pong);
            self.events().contains("MotionNotify").then_some(())
        });
        owner
    }
}

fn input(seq: u32, event: InputEvent) -> ViewerMessage {
    ViewerMessage::Input(Input { seq, event })
}

fn key(seq: u32, code: u16, down: bool) -> ViewerMessage {
    let keysym = match code {
        KEY_A => 0x61,
        KEY_B => 0x62,
        _ => 0x63,
    };
    input(seq, InputEvent::Key { code, keysym, down })
}

/// Everything that a guest who only sees the screen may try.
pub(crate) fn attempts() -> Vec<ViewerMessage> {
    let layout = KeyboardLayout { layout: "de".into(), ..KeyboardLayout::default() };
    let at = 77 * PEN_FRACTION;
    let drawing = PenSample { x: at, y: at, buttons: 1, near: true, ..PenSample::default() };
    vec![
        ViewerMessage::KeyboardLayout(layout),
        input(1, InputEvent::Locks { caps: true, num: true }),
        input(2, InputEvent::Motion { x: 77, y: 77 }),
        input(3, InputEvent::Button { button: 1, down: true }),
        input(4, InputEvent::Button { button: 1, down: false }),
        input(5, InputEvent::Scroll { dx: 0, dy: 240 }),
        input(6, InputEvent::Char('b')),
        key(7, KEY_B, true),
        key(8, KEY_B, false),
        input(9, InputEvent::Pen(drawing)),
        input(10, InputEvent::Pen(drawing.leaving())),
        ViewerMessage::Resize(Size { width: 333, height: 222 }),
        ViewerMessage::Clip(ClipMessage::Offer {
            selection: Selection::Clipboard,
            serial: 1,
            seen: 0,
            formats: TEXT,
        }),
    ]
}

fn share(session: &Session, arguments: &[&str]) -> String {
    let output = session.environment.run(&[&["share", "t"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

pub(crate) fn invite(session: &Session, arguments: &[&str]) -> Link {
    share(session, arguments).parse().unwrap()
}

/// An invitation with a password, which is given on standard input.
fn invite_with_password(session: &Session, password: &str) -> Link {
    let mut command = session.environment.thinc(&["share", "t", "--password", "--uses", "9"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

fn list(session: &Session) -> serde_json::Value {
    serde_json::from_str(&share(session, &["--list", "--json"])).unwrap()
}

/// The guests' numbers and names, and whether they have control; the owner's have no number.
fn viewers(session: &Session) -> Vec<(Option<u64>, Option<String>, bool)> {
    let list = list(session);
    let viewers = list["viewers"].as_array().unwrap().iter().map(|viewer| {
        let name = viewer["name"].as_str().map(str::to_owned);
        (viewer["guest"].as_u64(), name, viewer["control"].as_bool().unwrap())
    });
    viewers.collect()
}

pub(crate) fn as_guest(
    link: &Link,
    name: &str,
    password: &str,
) -> Result<Connection, ConnectError> {
    let guest = Some(GuestLogin { name: name.into(), password: password.into() });
    connect(&Link { guest, ..link.clone() }, &connect_options())
}

fn with_credential(link: &Link, credential: &[u8]) -> Result<Connection, ConnectError> {
    let session_credential = Some(credential.to_vec());
    connect(link, &ConnectOptions { session_credential, ..connect_options() })
}

pub(crate) fn refusal(result: Result<Connection, ConnectError>) -> String {
    match result.map(drop) {
        Err(ConnectError::Refused { code: CloseCode::Unauthorized, reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Sends messages, and waits until the session has handled them.
pub(crate) fn send_all(viewer: &mut Viewer, messages: &[ViewerMessage]) {
    messages.iter().for_each(|message| viewer.send(message));
    viewer.send(&ViewerMessage::Ping(1));
    viewer.until(|message| *message == Message::Pong);
}

/// A page's connection: what it receives until a message of this kind, and all that it sends.
struct Page {
    stream: std::io::BufReader<crate::harness::Tls>,
    frames: Deframer,
}

impl Page {
    fn open(browser: &Browser, caps: u32) -> Page {
        let own = format!("https://{}", browser.address);
        let (answer, stream) = browser.websocket(Some(&own));
        assert_eq!(answer.status, 101);
        let mut page = Page { stream, frames: Deframer::new(SESSION_MESSAGE_BYTES_MAX) };
        let ViewerMessage::Hello(hello) = hello() else { unreachable!() };
        page.send(&ViewerMessage::Hello(thinc_protocol::viewer::ViewerHello { caps, ..hello }));
        page
    }

    fn send(&mut self, message: &ViewerMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.stream.get_mut().write_all(&websocket_message(&bytes)).unwrap();
    }

    /// The messages until one for which `wanted` is true; the formats that were offered.
    fn until(&mut self, wanted: impl Fn(&SessionMessage<'_>) -> bool) -> Vec<ClipFormats> {
        let mut offered = Vec::new();
        loop {
            while let Some(frame) = self.frames.next().unwrap() {
                let message = SessionMessage::decode(&frame).unwrap();
                if let SessionMessage::Clip(ClipMessage::Offer { formats, .. }) = message {
                    offered.push(formats);
                }
                if wanted(&message) {
                    return offered;
                }
            }
            self.frames.push(&next_websocket_message(&mut self.stream).expect("it ended"));
        }
    }
}

fn browser_of(session: &Session, link: &Link, name: &str) -> Browser {
    let mut browser = Browser::new(session);
    assert_eq!(browser.login_as(link, name, "").status, 200);
    browser
}

pub(crate) fn set_clipboard(session: &Session, text: &str) {
    let status = session.status();
    let set = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" | xclip -selection clipboard", "sh", text])
        .env("DISPLAY", status["display"].as_str().unwrap())
        .env("XAUTHORITY", status["xauthority"].as_str().unwrap())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(set.success());
}

#[test]
fn nothing_that_a_guest_without_control_does_arrives_in_the_session() {
    let watched = Watched::start();
    let session = &watched.session;
    let caps = ViewerCaps::RESIZE | ViewerCaps::CLIPBOARD;
    let mut owner = watched.owner(ViewerCaps::CLIPBOARD);
    let link = invite(session, &["--uses", "2"]);
    let mut guest = Viewer::with_caps(as_guest(&link, "Ada", "").unwrap(), caps);
    assert_eq!(guest.wait_complete(), Size { width: 1280, height: 800 }, "it sees the screen");
    let mut page = Page::open(&browser_of(session, &link, "Bob"), caps);
    page.until(|message| matches!(message, SessionMessage::Geometry(_)));
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        viewers(session),
        [(None, None, true), (Some(1), named("Ada"), false), (Some(2), named("Bob"), false)]
    );

    // What was copied in the session is offered to the owner, and neither guest.
    set_clipboard(session, "secret");
    owner.until(|message| matches!(message, Message::Offered(formats) if !formats.is_empty()));
    send_all(&mut guest, &attempts());
    attempts().iter().for_each(|message| page.send(message));
    page.send(&ViewerMessage::Ping(1));
    let offered = page.until(|message| matches!(message, SessionMessage::Pong(_)));
    assert!(offered.iter().all(|formats| formats.is_empty()), "{offered:?}");
    guest.send(&ViewerMessage::Barrier(7));
    let mut seen = Vec::new();
    while seen.last() != Some(&Message::Barrier(7)) {
        seen.extend(guest.next());
    }
    let is_offer =
        |message: &Message| matches!(message, Message::Offered(formats) if !formats.is_empty());
    assert!(!seen.iter().any(is_offer), "{seen:?}");

    // The owner's next key is the first event since.
    let before = watched.events();
    owner.send(&key(1_000, KEY_C, true));
    owner.send(&key(1_001, KEY_C, false));
    let events = watched.until_key("c");
    let new = &events[before.len()..];
    for event in ["ButtonPress", "MotionNotify", "(77,77)", "keysym 0x62"] {
        assert!(!new.contains(event), "{event} has arrived:\n{new}");
    }
    assert!(new.contains("state 0x0,"), "neither lock is on:\n{new}");
    assert_eq!(session.viewer().wait_complete(), Size { width: 1280, height: 800 });
}

#[test]
fn control_is_given_and_taken_while_a_guest_is_connected() {
    let watched = Watched::start();
    let session = &watched.session;
    let _owner = watched.owner(0);
    let link = invite(session, &["--view"]);
    let mut guest = Viewer::new(as_guest(&link, "Ada", "").unwrap());
    guest.wait_complete();
    share(session, &["--give-control", "1"]);
    send_all(&mut guest, &[key(1, KEY_A, true)]);
    let pressed = watched.until_key("a");
    assert!(!pressed.contains("KeyRelease"), "{pressed}");
    share(session, &["--take-control", "1"]);
    wait_until("the key is released", || watched.events().contains("KeyRelease").then_some(()));
    assert_eq!(viewers(session)[1], (Some(1), Some("Ada".into()), false));
    send_all(&mut guest, &[key(2, KEY_B, true)]);
    share(session, &["--give-control", "1"]);
    send_all(&mut guest, &[key(3, KEY_C, true), key(4, KEY_C, false)]);
    let events = watched.until_key("c");
    assert!(!events.contains("keysym 0x62"), "{events}");
    let error = session.environment.fails(&["share", "t", "--give-control", "2"]);
    assert!(error.contains("there is no guest 2"), "{error}");
}

#[test]
fn invitations_end_and_with_them_the_visits_of_their_guests() {
    let session = Session::start(&[]);
    // Used up.
    let link = invite(&session, &[]);
    let mut guest = Viewer::new(as_guest(&link, "Ada", "").unwrap());
    guest.wait_complete();
    let reason = refusal(as_guest(&link, "Bob", ""));
    assert!(reason.contains("ask the owner"), "{reason}");
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login_as(&link, "Bob", "").status, 401);
    // A reconnecting guest uses nothing.
    let credential = guest.session_credential.clone();
    Viewer::new(with_credential(&link, &credential).unwrap()).wait_complete();

    // Thrown out, and revoked.
    let other = invite(&session, &["--uses", "5", "--control"]);
    let mut thrown_out = Viewer::new(as_guest(&other, "Bob", "").unwrap());
    thrown_out.wait_complete();
    let page_browser = browser_of(&session, &other, "Eve");
    let mut page = Page::open(&page_browser, 0);
    page.until(|message| matches!(message, SessionMessage::Geometry(_)));
    share(&session, &["--throw-out", "2"]);
    let (code, reason) = thrown_out.closed();
    assert_eq!(
        (code, reason.as_str()),
        (CloseCode::Unauthorized, "the owner of this session has ended your visit")
    );
    assert_eq!(viewers(&session).last().unwrap().1.as_deref(), Some("Eve"), "the other stays");
    share(&session, &["--revoke", "2"]);
    page.until(|message| match message {
        SessionMessage::Close(close) => close.reason.contains("has ended the invitation"),
        _ => false,
    });
    refusal(with_credential(&other, &thrown_out.session_credential));
    refusal(as_guest(&other, "Bob", ""));
    let own = format!("https://{}", session.address());
    assert_eq!(page_browser.websocket(Some(&own)).0.status, 401);
    assert_eq!(page_browser.get("/index.html").status, 401);
    guest.send(&ViewerMessage::Ping(1));
    guest.until(|message| *message == Message::Pong);

    // Expired: long enough for a busy machine to connect before.
    let short = invite(&session, &["--for", "20s"]);
    let mut expiring = Viewer::new(as_guest(&short, "Joe", "").unwrap());
    expiring.wait_complete();
    let (code, reason) = expiring.closed();
    assert_eq!(code, CloseCode::Unauthorized);
    assert_eq!(reason, "the invitation to this session has expired");
    refusal(with_credential(&short, &expiring.session_credential));
    refusal(as_guest(&short, "Joe", ""));
    let states: Vec<String> = list(&session)["invitations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|invitation| invitation["state"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["used", "revoked", "expired"]);
}

#[test]
fn a_restarted_session_process_knows_invitations_guests_and_their_rights() {
    let session = Session::start(&[]);
    let (used, open) = (invite(&session, &[]), invite(&session, &["--uses", "2", "--control"]));
    let revoked = invite(&session, &[]);
    share(&session, &["--revoke", "3"]);
    let mut guest = Viewer::new(as_guest(&used, "Ada", "").unwrap());
    guest.wait_complete();
    let mut thrown_out = Viewer::new(as_guest(&open, "Bob", "").unwrap());
    thrown_out.wait_complete();
    share(&session, &["--throw-out", "2"]);
    thrown_out.closed();
    let pid = i32::try_from(session.pid("session")).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    while guest.next().is_some() {}
    refusal(as_guest(&used, "Eve", ""));
    refusal(as_guest(&revoked, "Eve", ""));
    refusal(with_credential(&open, &thrown_out.session_credential));
    let mut guest = Viewer::new(with_credential(&used, &guest.session_credential).unwrap());
    guest.wait_complete();
    let mut last = Viewer::new(as_guest(&open, "Joe", "").unwrap());
    last.wait_complete();
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(viewers(&session), [(Some(1), named("Ada"), false), (Some(3), named("Joe"), true)]);
    refusal(as_guest(&open, "Eve", ""));
    // What is revoked with all links includes the guests.
    let output = session.environment.run(&["link", "--revoke", "t"]);
    assert!(output.status.success());
    while guest.next().is_some() {}
    refusal(with_credential(&used, &guest.session_credential));
    assert_eq!(list(&session)["invitations"].as_array().unwrap().len(), 0);
}

#[test]
fn a_password_is_needed_and_wrong_ones_end_the_invitation() {
    let session = Session::start(&[]);
    let link = invite_with_password(&session, "correct horse");
    assert!(link.invitation().unwrap().password);
    let mut guest = Viewer::new(as_guest(&link, "Ada", "correct horse").unwrap());
    guest.wait_complete();
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login_as(&link, "Bob", "correct horse").status, 200);
    assert_eq!(Browser::new(&session).login_as(&link, "Eve", "wrong").status, 401);
    assert_eq!(Browser::new(&session).login(&link).status, 401, "a page that knows no guests");
    // The same answer as for a link that was never valid.
    let mut foreign = link.clone();
    foreign.token.as_mut().unwrap()[30] ^= 1;
    let invalid = refusal(as_guest(&foreign, "Eve", "correct horse"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(refusal(as_guest(&link, "Eve", "wrong")), invalid));
        }
    });
    assert_eq!(refusal(as_guest(&link, "Eve", "correct horse")), invalid, "ten were wrong");
    assert_eq!(list(&session)["invitations"][0]["state"], "locked");
    Viewer::new(with_credential(&link, &guest.session_credential).unwrap()).wait_complete();
    assert!(!session.environment.log("t", "session.log").contains("correct horse"));
    for wrong in ["", "x\u{1b}y"] {
        let mut command = session.environment.thinc(&["share", "t", "--password"]);
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{wrong}\n").as_bytes()).unwrap();
        let error = failed(&child.wait_with_output().unwrap());
        assert!(error.contains("a password has 1 to 256 bytes"), "{error}");
    }
}

#[test]
fn a_guests_credentials_open_a_guests_connection_only() {
    let session = Session::start(&[]);
    let link = invite(&session, &["--uses", "3"]);
    let native = as_guest(&link, "Ada", "").unwrap();
    let credential = native.session_credential.clone();
    drop(native);
    let guest = browser_of(&session, &link, "Bob");
    let mut owner = Browser::new(&session);
    assert_eq!(owner.login(&session.link()).status, 200);

    // A cookie is known on every port of the host: with a guest's secret it is not the owner's.
    let address = session.address();
    let mixed = |cookie: &Browser, secret: &Browser| Browser {
        cookie: cookie.cookie.clone(),
        secret: secret.secret.clone(),
        ..Browser::at(address)
    };
    let browsers = [mixed(&guest, &guest), mixed(&owner, &guest), mixed(&guest, &owner)];
    for (at, browser) in browsers.iter().enumerate() {
        let mut page = Page::open(browser, 0);
        page.until(|message| matches!(message, SessionMessage::Geometry(_)));
        assert_eq!(viewers(&session), [(Some(2), Some("Bob".into()), false)], "{at}");
        drop(page);
        wait_until("it has left", || viewers(&session).is_empty().then_some(()));
    }
    let mut again = Viewer::new(with_credential(&link, &credential).unwrap());
    again.wait_complete();
    assert_eq!(viewers(&session), [(Some(1), Some("Ada".into()), false)]);
    assert_eq!(again.session_credential, credential, "it got no other");

    // No credential of one kind is one of another.
    let value = |cookie: &str| cookie.split_once('=').unwrap().1.to_owned();
    let cookie = value(guest.cookie.as_deref().unwrap());
    let name = guest.cookie.as_deref().unwrap().split_once('=').unwrap().0;
    for other in [&cookie, guest.secret.as_ref().unwrap()] {
        let bytes = thinc_transport::base64url::decode(other).unwrap();
        refusal(with_credential(&link, &bytes));
    }
    let as_cookie = thinc_transport::base64url::encode(&credential);
    for cookie in [as_cookie, guest.secret.clone().unwrap()] {
        let cookie = Some(format!("{name}={cookie}"));
        let thief = Browser { cookie, ..Browser::at(address) };
        assert_eq!(thief.get("/index.html").status, 401);
    }
    // A viewer that knows no invitations is a guest without a name.
    let bare = Link { guest: None, ..link.clone() };
    let mut bare = Viewer::new(connect(&bare, &connect_options()).unwrap());
    bare.wait_complete();
    assert_eq!(viewers(&session)[1], (Some(3), Some("guest".into()), false));
}

/// The newest list that a viewer is told until one for which `wanted` is true.
pub(crate) fn people(viewer: &mut Viewer, wanted: impl Fn(&People) -> bool) -> People {
    let is_wanted = |message: &Message| matches!(message, Message::People(list) if wanted(list));
    match viewer.until(is_wanted) {
        Message::People(list) => list,
        other => panic!("{other:?}"),
    }
}

/// The owner's newest list of invitations until one for which `wanted` is true.
pub(crate) fn invitations(
    viewer: &mut Viewer,
    wanted: impl Fn(&[OpenInvitation]) -> bool,
) -> Vec<OpenInvitation> {
    let is_wanted =
        |message: &Message| matches!(message, Message::Invitations(list) if wanted(list));
    match viewer.until(is_wanted) {
        Message::Invitations(list) => list,
        other => panic!("{other:?}"),
    }
}

/// Guests' names, whether they have control, and whether they have the pointer; the owner's have
/// no name.
pub(crate) fn names(people: &People) -> Vec<(&str, bool, bool)> {
    let people = people.people.iter();
    people.map(|one| (one.name.as_str(), one.has_control, one.has_pointer)).collect()
}

/// The answer to a viewer's request.
pub(crate) fn answer(
    viewer: &mut Viewer,
    request: u32,
    action: ShareAction,
) -> Result<String, String> {
    viewer.send(&ViewerMessage::Share(Share { request, action }));
    let is_answer =
        |message: &Message| matches!(message, Message::Shared(answer) if answer.request == request);
    match viewer.until(is_answer) {
        Message::Shared(Shared { result, .. }) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn everybody_is_told_who_is_there_and_the_owners_viewer_changes_it() {
    let watched = Watched::start();
    let session = &watched.session;
    let mut owner = watched.owner(ViewerCaps::PEOPLE);
    let invite = Invite {
        life_s: 3600,
        uses: 1,
        name: "review".into(),
        password: "correct horse".into(),
        ..Invite::default()
    };
    let link = answer(&mut owner, 1, ShareAction::Invite(invite.clone())).unwrap();
    assert!(link.starts_with("https://"), "{link}");
    let link: Link = link.parse().unwrap();
    refusal(as_guest(&link, "Ada", "wrong"));
    let connection = as_guest(&link, "Ada", "correct horse").unwrap();
    let mut guest = Viewer::with_caps(connection, ViewerCaps::PEOPLE);
    let seen = people(&mut guest, |list| list.people.len() == 2);
    assert_eq!(names(&seen), [("", true, true), ("Ada", false, false)]);
    assert_eq!(seen.own, seen.people[1].number, "it knows which it is");
    let told = people(&mut owner, |list| list.people.len() == 2);
    assert_eq!((told.own, told.people == seen.people), (seen.people[0].number, true));
    let number = told.people[1].guest;

    // Both see the other's pointer; that of a guest without control moves nothing.
    send_all(&mut guest, &[input(1, InputEvent::Motion { x: 77, y: 78 })]);
    let pointer = owner.until(|message| matches!(message, Message::Pointer(_)));
    let at = PersonPointer { number: seen.own, x: 77, y: 78 };
    assert_eq!(pointer, Message::Pointer(at));
    send_all(&mut owner, &[input(2_000, InputEvent::Motion { x: 50, y: 51 })]);
    let pointer = guest.until(|message| matches!(message, Message::Pointer(_)));
    assert_eq!(pointer, Message::Pointer(PersonPointer { number: told.own, x: 50, y: 51 }));
    assert!(!watched.events().contains("(77,78)"));

    // What a guest asks for has no effect.
    let wishes = [
        ShareAction::Invite(invite.clone()),
        ShareAction::GiveControl(number),
        ShareAction::EndVisit(number),
    ];
    for (request, wish) in (1..).zip(wishes) {
        let refused = answer(&mut guest, request, wish).unwrap_err();
        assert!(refused.contains("only the owner"), "{refused}");
    }
    assert_eq!(viewers(session)[1], (Some(number.into()), Some("Ada".into()), false));
    assert_eq!(list(session)["invitations"].as_array().unwrap().len(), 1);

    // Control, and with it the pointer.
    assert_eq!(answer(&mut owner, 2, ShareAction::GiveControl(number)), Ok(String::new()));
    send_all(&mut guest, &[input(2, InputEvent::Motion { x: 60, y: 61 })]);
    let told = people(&mut owner, |list| list.people[1].has_pointer);
    assert_eq!(names(&told), [("", true, false), ("Ada", true, true)]);
    assert_eq!(answer(&mut owner, 3, ShareAction::TakeControl(number)), Ok(String::new()));
    people(&mut guest, |list| !list.people[1].has_control);
    let unknown = answer(&mut owner, 4, ShareAction::TakeControl(99)).unwrap_err();
    assert!(unknown.contains("there is no guest 99"), "{unknown}");
    let forever = Invite { life_s: u32::MAX, ..invite };
    let refused = answer(&mut owner, 5, ShareAction::Invite(forever)).unwrap_err();
    assert!(refused.contains("30 days"), "{refused}");

    // What has changed is told before the answer.
    let end = Share { request: 6, action: ShareAction::EndVisit(number) };
    owner.send(&ViewerMessage::Share(end));
    people(&mut owner, |list| list.people.len() == 1);
    let done = Shared { request: 6, result: Ok(String::new()) };
    assert_eq!(owner.until(|message| matches!(message, Message::Shared(_))), Message::Shared(done));
    assert_eq!(guest.closed().0, CloseCode::Unauthorized);
}

#[test]
fn a_guest_by_the_owners_menu_may_do_what_the_invitation_says() {
    let session = Session::start(&[]);
    let mut owner = Viewer::with_caps(
        connect(&session.link(), &connect_options()).unwrap(),
        ViewerCaps::PEOPLE,
    );
    owner.wait_complete();
    let rights = InviteRights { control: true, ..InviteRights::default() };
    let invite = Invite { rights, native: true, life_s: 60, uses: 1, ..Invite::default() };
    let link = answer(&mut owner, 7, ShareAction::Invite(invite)).unwrap();
    assert!(link.starts_with("thinc://"), "{link}");
    let link: Link = link.parse().unwrap();
    let mut guest = Viewer::new(as_guest(&link, "Bob", "").unwrap());
    guest.wait_complete();
    assert_eq!(viewers(&session)[1], (Some(1), Some("Bob".into()), true));
    people(&mut owner, |list| list.people.len() == 2);
    // It leaves by itself.
    drop(guest);
    people(&mut owner, |list| list.people.len() == 1);
    refusal(as_guest(&link, "Eve", ""));
}

#[test]
fn guests_hear_the_session_unless_the_invitation_says_otherwise() {
    let session = Session::start(&[]);
    let guest = |options: &[&str]| {
        let connection = as_guest(&invite(&session, options), "Bob", "").unwrap();
        let mut guest = Viewer::with_caps(connection, ViewerCaps::SOUND);
        let want = SoundWant { codecs: SoundCodec::Opus.bit(), ..SoundWant::default() };
        guest.send(&ViewerMessage::SoundWant(want));
        guest
    };
    guest(&[]).until(|message| matches!(message, Message::Players(_)));
    // For this guest the session has none: one that asks all the same is disconnected.
    let (code, reason) = guest(&["--sound", "off"]).closed();
    assert_eq!(code, CloseCode::Protocol, "{reason}");
}

/// Both lists of a viewer that accepts them.
pub(crate) const LISTS: u32 = ViewerCaps::PEOPLE | ViewerCaps::INVITATIONS;

#[test]
fn the_owners_viewer_is_told_of_invitations_and_revokes_them() {
    let session = Session::start(&[]);
    // Of a version that knows no lists of invitations.
    let mut before = Viewer::with_caps(
        connect(&session.link(), &connect_options()).unwrap(),
        ViewerCaps::PEOPLE,
    );
    before.wait_complete();
    let mut owner = Viewer::with_caps(connect(&session.link(), &connect_options()).unwrap(), LISTS);
    assert_eq!(invitations(&mut owner, |_| true), []);
    let rights = InviteRights { control: true, ..InviteRights::default() };
    let invite = Invite {
        rights,
        life_s: 3600,
        uses: 2,
        name: "talk".into(),
        password: "open sesame".into(),
        ..Invite::default()
    };
    let link: Link = answer(&mut owner, 1, ShareAction::Invite(invite)).unwrap().parse().unwrap();
    // Those of `thinc share` too.
    let other: Link = share(&session, &["--uses", "1"]).parse().unwrap();
    let told = invitations(&mut owner, |list| list.len() == 2);
    let first = OpenInvitation { expiry_s: 0, ..told[0].clone() };
    let want = OpenInvitation {
        number: 1,
        rights,
        has_password: true,
        uses: 2,
        name: "talk".into(),
        ..OpenInvitation::default()
    };
    assert_eq!(first, want);
    let listed = list(&session);
    assert_eq!(listed["invitations"][0]["expiry_s"], told[0].expiry_s);

    // A guest's viewer is told of none, whatever it accepts, and its requests have no effect.
    let connection = as_guest(&link, "Ada", "open sesame").unwrap();
    let mut guest = Viewer::with_caps(connection, LISTS);
    people(&mut guest, |list| list.people.len() == 3);
    let refused = answer(&mut guest, 1, ShareAction::Revoke(2)).unwrap_err();
    assert!(refused.contains("only the owner"), "{refused}");
    let told = invitations(&mut owner, |list| list[0].used == 1);
    assert_eq!((told[0].uses, told[1].used), (2, 0));

    // Used up, it is listed still: its guests are there.
    let mut bob = Viewer::new(as_guest(&other, "Bob", "").unwrap());
    bob.wait_complete();
    let told = invitations(&mut owner, |list| list[1].used == 1);
    assert_eq!(told[1].uses, 1);

    // What has changed is told before the answer.
    owner.send(&ViewerMessage::Share(Share { request: 2, action: ShareAction::Revoke(1) }));
    let told = invitations(&mut owner, |list| list.len() == 1);
    assert_eq!(told[0].number, 2);
    let done = Shared { request: 2, result: Ok(String::new()) };
    assert_eq!(owner.until(|message| matches!(message, Message::Shared(_))), Message::Shared(done));
    let is_list = |message: &Message| {
        assert!(!matches!(message, Message::Invitations(_)), "a guest was told of invitations");
        matches!(message, Message::Close(..))
    };
    let Message::Close(code, reason) = guest.until(is_list) else { unreachable!() };
    assert_eq!(code, CloseCode::Unauthorized);
    assert!(reason.contains("has ended the invitation"), "{reason}");
    refusal(as_guest(&link, "Eve", "open sesame"));
    let unknown = answer(&mut owner, 3, ShareAction::Revoke(99)).unwrap_err();
    assert!(unknown.contains("there is no invitation 99"), "{unknown}");

    // One that expires leaves the list without anybody's doing.
    let brief = Invite { life_s: 2, uses: 1, ..Invite::default() };
    owner.send(&ViewerMessage::Share(Share { request: 4, action: ShareAction::Invite(brief) }));
    invitations(&mut owner, |list| list.len() == 2);
    let told = invitations(&mut owner, |list| list.len() == 1);
    assert_eq!(told[0].number, 2);

    let is_list = |message: &Message| {
        assert!(!matches!(message, Message::Invitations(_)), "it did not accept them");
        matches!(message, Message::People(list) if list.people.len() == 3)
    };
    before.until(is_list);
}
