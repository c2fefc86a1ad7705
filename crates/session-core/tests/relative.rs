//! Relative motion: what is requested of the driver for it, and which viewers are told that an
//! application wants it. From the driver's facts and viewers' input, to requests and messages.
//! Knows session-core's public interface.

use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_ring::{InputMessage, PointerUse};
use thinc_session_core::{Config, Request, Session, Unpacked, ViewerId, Violation};

const SIZE: Size = Size { width: 640, height: 480 };
const SHOWN: PointerUse = PointerUse { hidden: false, grabbed: false, confined: false, raw: false };
const HIDDEN: PointerUse = PointerUse { hidden: true, ..SHOWN };
/// SDL's relative mode.
const GAME: PointerUse = PointerUse { hidden: true, grabbed: true, confined: true, raw: true };

struct Shell {
    session: Session,
    now: u64,
    seq: u32,
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("work", SIZE));
        session.handle_attach(SIZE);
        Shell { session, now: 1_000, seq: 0 }
    }

    fn join(&mut self, caps: u32) -> ViewerId {
        let hello = ViewerHello {
            version: 1,
            caps: caps | ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "t".into(),
        };
        self.session.add_viewer(&hello, self.now)
    }

    fn input(&mut self, id: ViewerId, event: InputEvent) -> Result<(), Violation> {
        self.seq += 1;
        let input = ViewerMessage::Input(Input { seq: self.seq, event });
        self.session.handle_message(id, &input, self.now)
    }

    /// What the driver gets, without numbers.
    fn requests(&mut self) -> Vec<InputMessage> {
        let requests = std::iter::from_fn(|| self.session.poll_request(self.now));
        requests
            .filter_map(|request| match request {
                Request::Input(InputMessage::PointerMoveBy { dx, dy, .. }) => {
                    Some(InputMessage::PointerMoveBy { seq: 0, dx, dy })
                }
                Request::Input(InputMessage::PointerMove { x, y, .. }) => {
                    Some(InputMessage::PointerMove { seq: 0, x, y })
                }
                Request::Input(InputMessage::Button { button, down, .. }) => {
                    Some(InputMessage::Button { seq: 0, button, down })
                }
                _ => None,
            })
            .collect()
    }

    /// What a viewer is told, of these messages.
    fn told(&mut self, id: ViewerId) -> Vec<Told> {
        let (mut bytes, mut deframer) = (Vec::new(), Deframer::new(1 << 24));
        self.session.poll_transmit(id, self.now, &mut Unpacked, &mut bytes);
        deframer.push(&bytes);
        let mut told = Vec::new();
        while let Some(frame) = deframer.next().unwrap() {
            told.extend(match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => {
                    Some(Told::Accepts(hello.caps & SessionCaps::RELATIVE != 0))
                }
                SessionMessage::RelativeWanted(wanted) => Some(Told::Wanted(wanted)),
                SessionMessage::CursorMove { x, y } => Some(Told::Move(x, y)),
                _ => None,
            });
        }
        told
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Accepts(bool),
    Wanted(bool),
    Move(u16, u16),
}

const fn by(dx: i16, dy: i16) -> InputEvent {
    InputEvent::MotionBy { dx, dy }
}

const fn moved_by(dx: i32, dy: i32) -> InputMessage {
    InputMessage::PointerMoveBy { seq: 0, dx, dy }
}

#[test]
fn distances_are_added_in_their_order_and_none_is_dropped() {
    let mut shell = Shell::new();
    let id = shell.join(ViewerCaps::RELATIVE);
    let press = InputEvent::Button { button: 1, down: true };
    let at = InputEvent::Motion { x: 5, y: 6 };
    for event in [by(10, 0), by(-3, 4), press, by(i16::MAX, 0), by(i16::MAX, 1), at, by(1, 1)] {
        shell.input(id, event).unwrap();
    }
    assert_eq!(
        shell.requests(),
        [
            moved_by(7, 4),
            InputMessage::Button { seq: 0, button: 1, down: true },
            moved_by(65_534, 1),
            InputMessage::PointerMove { seq: 0, x: 5, y: 6 },
            moved_by(1, 1),
        ]
    );
    // X takes nothing for a minute, and the mouse goes on.
    let mut sent = 0;
    for _ in 0..60 * 1_000 {
        shell.now += 1_000;
        shell.input(id, by(2, -1)).unwrap();
        sent += 1;
    }
    assert_eq!(shell.requests(), [moved_by(2 * sent, -sent)]);
    // Between clicks they cannot be added. Past the bound the viewer ends, as for clicks.
    let ended = (0..10_000).find_map(|turn| {
        shell.now += 1_000;
        let press = InputEvent::Button { button: 1, down: turn % 2 != 0 };
        shell.input(id, press).and_then(|()| shell.input(id, by(1, 0))).err()
    });
    assert_eq!(ended, Some(Violation::InputBacklog(4096)));
}

#[test]
fn each_viewer_that_understands_it_is_told_once() {
    let mut shell = Shell::new();
    let (one, old) = (shell.join(ViewerCaps::RELATIVE), shell.join(0));
    assert_eq!(shell.told(one), [Told::Accepts(true)]);
    assert_eq!(shell.told(old), [Told::Accepts(false)]);
    shell.session.handle_pointer_use(HIDDEN, 5, 5);
    assert_eq!(shell.told(one), [], "somebody types");
    shell.session.handle_pointer_use(GAME, 5, 5);
    assert_eq!(shell.told(one), [Told::Wanted(true)]);
    shell.session.handle_pointer_use(GAME, 7, 7);
    assert_eq!(shell.told(one), []);
    let late = shell.join(ViewerCaps::RELATIVE);
    assert_eq!(shell.told(late), [Told::Accepts(true), Told::Wanted(true)]);
    shell.session.handle_pointer_use(SHOWN, 5, 5);
    for id in [one, late] {
        assert_eq!(shell.told(id), [Told::Wanted(false)], "nobody has moved it relatively");
    }
    // So short that nobody need know.
    shell.session.handle_pointer_use(GAME, 5, 5);
    shell.session.handle_pointer_use(SHOWN, 5, 5);
    assert_eq!(shell.told(one), []);
    assert_eq!(shell.told(old), [], "it knows no such message");
}

#[test]
fn when_a_program_is_done_viewers_learn_where_the_pointer_is() {
    let mut shell = Shell::new();
    let (one, other) = (shell.join(ViewerCaps::RELATIVE), shell.join(0));
    shell.session.handle_pointer_use(GAME, 320, 240);
    shell.input(one, by(100, 0)).unwrap();
    shell.told(one);
    shell.told(other);
    shell.session.handle_pointer_use(SHOWN, 420, 240);
    assert_eq!(shell.told(one), [Told::Move(420, 240), Told::Wanted(false)]);
    assert_eq!(shell.told(other), [Told::Move(420, 240)]);
    // A user who moves it by positions knows where it is.
    shell.session.handle_pointer_use(GAME, 320, 240);
    shell.input(one, by(100, 0)).unwrap();
    shell.input(one, InputEvent::Motion { x: 9, y: 9 }).unwrap();
    shell.told(one);
    shell.session.handle_pointer_use(SHOWN, 9, 9);
    assert_eq!(shell.told(one), [Told::Wanted(false)]);
}

#[test]
fn a_program_that_puts_the_pointer_back_is_recognised_with_and_without_capture() {
    for event in [InputEvent::Motion { x: 330, y: 240 }, by(10, 0)] {
        let mut shell = Shell::new();
        let id = shell.join(ViewerCaps::RELATIVE);
        shell.session.handle_cursor_move(320, 240);
        shell.session.handle_pointer_use(HIDDEN, 320, 240);
        shell.told(id);
        for _ in 0..3 {
            shell.input(id, event).unwrap();
            shell.session.handle_cursor_move(320, 240);
        }
        assert!(shell.told(id).contains(&Told::Wanted(true)), "{event:?}");
    }
}

#[test]
fn a_click_of_a_viewer_that_moves_by_distances_stays_where_the_pointer_is() {
    let mut shell = Shell::new();
    let (player, other) = (shell.join(ViewerCaps::RELATIVE), shell.join(ViewerCaps::RELATIVE));
    shell.input(player, InputEvent::Motion { x: 50, y: 50 }).unwrap();
    shell.input(player, by(10, 0)).unwrap();
    shell.input(other, InputEvent::Motion { x: 300, y: 300 }).unwrap();
    shell.requests();
    let press = |down| InputEvent::Button { button: 1, down };
    let button = |down| InputMessage::Button { seq: 0, button: 1, down };
    // Its own last position says nothing any more.
    shell.input(player, press(true)).unwrap();
    shell.input(player, press(false)).unwrap();
    assert_eq!(shell.requests(), [button(true), button(false)]);
    shell.input(player, by(5, 5)).unwrap();
    shell.input(other, press(true)).unwrap();
    let back = InputMessage::PointerMove { seq: 0, x: 300, y: 300 };
    assert_eq!(shell.requests(), [moved_by(5, 5), back, button(true)]);
}
