//! What guests of a session may do. From the messages of viewers with fewer rights than the owner,
//! to requests for the driver, of which there must be none. Knows session-core's public interface;
//! typing.rs and clipboard.rs have the tests of keys held and of contents in transfer.

use thinc_protocol::pen::PenSample;
use thinc_protocol::viewer::{
    Display, Displays, Input, InputEvent, KeyboardLayout, TouchPhase, View, ViewerCaps,
    ViewerHello, ViewerMessage,
};
use thinc_region::{Rect, Size};
use thinc_ring::InputMessage;
use thinc_session_core::{Arrangement, Config, Request, Rights, Session, ViewerId, Violation};

const SIZE: Size = Size { width: 1024, height: 768 };
const GUEST: Rights = Rights { input: true, ..Rights::VIEW };

struct World {
    session: Session,
    now: u64,
    seq: u32,
}

fn hello(size: Size) -> ViewerHello {
    let name = "guest".into();
    ViewerHello { version: 1, caps: ViewerCaps::RESIZE, size, message_bytes_max: 1 << 20, name }
}

impl World {
    fn new() -> World {
        let mut session = Session::new(Config::new("rights", SIZE));
        session.handle_attach(SIZE);
        World { session, now: 1_000, seq: 0 }
    }

    fn say(&mut self, id: ViewerId, message: &ViewerMessage) -> Result<(), Violation> {
        let result = self.session.handle_message(id, message, self.now);
        self.session.check_invariants();
        result
    }

    fn input(&mut self, id: ViewerId, event: InputEvent) {
        self.seq += 1;
        self.say(id, &ViewerMessage::Input(Input { seq: self.seq, event })).unwrap();
    }

    /// What the shell is asked for within the next second.
    fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for _ in 0..10 {
            self.now += 100_000;
            requests.extend(std::iter::from_fn(|| self.session.poll_request(self.now)));
        }
        requests
    }
}

/// Every kind of input.
fn inputs() -> Vec<InputEvent> {
    let touch = |phase| InputEvent::Touch { id: 1, phase, x: 5, y: 5 };
    let pen = |buttons| InputEvent::Pen(PenSample { buttons, near: true, ..PenSample::default() });
    vec![
        pen(1),
        pen(0),
        InputEvent::Locks { caps: true, num: true },
        InputEvent::Key { code: 30, keysym: 0x61, down: true },
        InputEvent::Key { code: 30, keysym: 0x61, down: false },
        InputEvent::Char('é'),
        InputEvent::Motion { x: 10, y: 20 },
        InputEvent::Button { button: 1, down: true },
        InputEvent::Button { button: 1, down: false },
        InputEvent::Scroll { dx: 0, dy: 120 },
        touch(TouchPhase::Begin),
        touch(TouchPhase::Update),
        touch(TouchPhase::End),
        InputEvent::ReleaseAll,
    ]
}

fn layout() -> ViewerMessage {
    ViewerMessage::KeyboardLayout(KeyboardLayout { layout: "de".into(), ..Default::default() })
}

#[test]
fn no_input_of_a_guest_without_that_right_reaches_the_session() {
    let mut world = World::new();
    let guest = world.session.add_guest(&hello(Size::default()), Rights::VIEW, world.now);
    world.say(guest, &layout()).unwrap();
    inputs().into_iter().for_each(|event| world.input(guest, event));
    assert_eq!(world.requests(), []);
    assert_eq!(world.session.input_received(guest), world.seq, "it does not send it again");

    // The same from a guest with the right has an effect, kind by kind.
    let mut world = World::new();
    let guest = world.session.add_guest(&hello(Size::default()), GUEST, world.now);
    for event in inputs() {
        if matches!(event, InputEvent::Key { .. } | InputEvent::Char(_) | InputEvent::ReleaseAll) {
            // These need a keymap, or have nothing to release: typing.rs has them.
            continue;
        }
        world.input(guest, event);
        assert_ne!(world.requests(), [], "{event:?}");
    }
}

#[test]
fn input_without_effect_is_counted_as_a_flood_all_the_same() {
    let mut world = World::new();
    let guest = world.session.add_guest(&hello(Size::default()), Rights::VIEW, world.now);
    let motion = ViewerMessage::Input(Input { seq: 1, event: InputEvent::Motion { x: 1, y: 1 } });
    let flood = (0..100_000).find_map(|_| world.say(guest, &motion).err());
    assert!(matches!(flood, Some(Violation::InputFlood(_))), "{flood:?}");
}

#[test]
fn a_guest_never_controls_the_size() {
    for rights in [Rights::VIEW, GUEST] {
        let mut world = World::new();
        let size = |width, height| Size { width, height };
        let guest = world.session.add_guest(&hello(size(640, 480)), rights, world.now);
        let rect = Rect::at(0, 0, 700, 500);
        let displays = Displays {
            scale_percent: 200,
            displays: vec![Display { rect, millimetres: Size::default() }],
        };
        let alone = |world: &mut World| {
            world.say(guest, &ViewerMessage::Resize(size(800, 600))).unwrap();
            world.say(guest, &ViewerMessage::Displays(displays.clone())).unwrap();
            world.say(guest, &ViewerMessage::View(View::default())).unwrap();
            world.requests()
        };
        assert_eq!(alone(&mut world), [], "it is alone");
        let owner = world.session.add_viewer(&hello(size(900, 700)), world.now);
        let owners = Request::Resize(Arrangement::one(size(900, 700)).unwrap());
        assert_eq!(world.requests(), [owners]);
        assert_eq!(alone(&mut world), [], "it is not");
        // An owner who scales its view keeps control: there is no other.
        let view = View { size: size(450, 350), ..View::default() };
        world.say(owner, &ViewerMessage::View(view)).unwrap();
        assert_eq!(world.session.controller(), Some(owner));
        world.session.remove_viewer(owner);
        assert_eq!(world.requests(), [], "the screen keeps the owner's size");
    }
}

#[test]
fn a_guest_that_may_no_longer_type_holds_no_button_and_no_finger() {
    let mut world = World::new();
    let guest = world.session.add_guest(&hello(Size::default()), GUEST, world.now);
    world.input(guest, InputEvent::Motion { x: 10, y: 20 });
    world.input(guest, InputEvent::Button { button: 1, down: true });
    world.input(guest, InputEvent::Touch { id: 1, phase: TouchPhase::Begin, x: 5, y: 5 });
    assert_eq!(world.requests().len(), 3);
    world.session.set_rights(guest, Rights::VIEW);
    assert_eq!(world.session.rights(guest), Some(Rights::VIEW));
    let released = world.requests();
    let button = |request: &Request| {
        matches!(request, Request::Input(InputMessage::Button { button: 1, down: false, .. }))
    };
    let finger = |request: &Request| {
        matches!(
            request,
            Request::Input(InputMessage::Touch { phase: thinc_ring::TouchPhase::End, .. })
        )
    };
    assert!(released.iter().any(button) && released.iter().any(finger), "{released:?}");
    inputs().into_iter().for_each(|event| world.input(guest, event));
    assert_eq!(world.requests(), []);
}

#[test]
fn the_keyboard_that_a_guest_reported_counts_once_it_may_type() {
    let mut world = World::new();
    let guest = world.session.add_guest(&hello(Size::default()), Rights::VIEW, world.now);
    world.say(guest, &layout()).unwrap();
    world.input(guest, InputEvent::Locks { caps: true, num: false });
    assert_eq!(world.requests(), []);
    world.session.set_rights(guest, GUEST);
    world.input(guest, InputEvent::Key { code: 30, keysym: 0x61, down: true });
    let requests = world.requests();
    let is_layout = |request: &Request| match request {
        Request::SetLayout(Some(layout)) => layout.layout == "de",
        _ => false,
    };
    let is_locks =
        |request: &Request| matches!(request, Request::SetLocks { caps: true, num: false });
    assert!(requests.iter().any(is_layout) && requests.iter().any(is_locks), "{requests:?}");
}
