//! Pens: what is requested of the driver for their samples, and what is released when a viewer can
//! no longer do so. From viewers' input, to requests. Knows session-core's public interface.

use thinc_protocol::framing::Deframer;
use thinc_protocol::pen::{PEN_FRACTION, PenSample};
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::viewer::{Input, InputEvent, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_ring::InputMessage;
use thinc_session_core::{Config, Request, Session, Unpacked, ViewerId, Violation};

const SIZE: Size = Size { width: 640, height: 480 };

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

    fn join(&mut self) -> ViewerId {
        let hello = ViewerHello {
            version: 1,
            caps: 0,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "t".into(),
        };
        self.session.add_viewer(&hello, self.now)
    }

    fn try_input(&mut self, id: ViewerId, event: InputEvent) -> Result<(), Violation> {
        self.seq += 1;
        let input = ViewerMessage::Input(Input { seq: self.seq, event });
        let outcome = self.session.handle_message(id, &input, self.now);
        self.session.check_invariants();
        outcome
    }

    fn input(&mut self, id: ViewerId, event: InputEvent) {
        self.try_input(id, event).unwrap();
    }

    fn pen(&mut self, id: ViewerId, sample: PenSample) {
        self.input(id, InputEvent::Pen(sample));
    }

    /// What the driver gets of the pen: position, buttons, near.
    fn samples(&mut self) -> Vec<(u32, u32, u8, bool)> {
        let requests = std::iter::from_fn(|| self.session.poll_request(self.now));
        requests
            .filter_map(|request| match request {
                Request::Input(InputMessage::Pen { sample, .. }) => {
                    Some((sample.x, sample.y, sample.buttons, sample.near))
                }
                Request::Input(other) => panic!("{other:?}"),
                _ => None,
            })
            .collect()
    }
}

fn at(x: u32, y: u32, buttons: u8) -> PenSample {
    PenSample { x, y, buttons, near: true, ..PenSample::default() }
}

#[test]
fn every_sample_reaches_the_driver_in_order() {
    let mut shell = Shell::new();
    let id = shell.join();
    let mut bytes = Vec::new();
    shell.session.poll_transmit(id, shell.now, &mut Unpacked, &mut bytes);
    let mut deframer = Deframer::new(1 << 20);
    deframer.push(&bytes);
    let hello = deframer.next().unwrap().unwrap();
    let Ok(SessionMessage::Hello(hello)) = SessionMessage::decode(&hello) else { panic!() };
    assert_ne!(hello.caps & SessionCaps::PEN, 0);

    let sample = PenSample {
        x: 101,
        y: 202,
        pressure: 303,
        tilt_x: -4,
        tilt_y: 5,
        buttons: 3,
        eraser: true,
        near: true,
    };
    shell.pen(id, sample);
    let requests: Vec<Request> =
        std::iter::from_fn(|| shell.session.poll_request(shell.now)).collect();
    let wanted = thinc_ring::PenSample {
        x: 101,
        y: 202,
        pressure: 303,
        tilt_x: -4,
        tilt_y: 5,
        buttons: 3,
        eraser: true,
        near: true,
    };
    assert!(
        requests.iter().any(|request| {
            matches!(request, Request::Input(InputMessage::Pen { sample, .. }) if *sample == wanted)
        }),
        "{requests:?}"
    );
    // Unlike positions of the pointer, none replaces another.
    for step in 0..100 {
        shell.pen(id, at(step, step, 1));
    }
    let wanted: Vec<_> = (0..100).map(|step| (step, step, 1, true)).collect();
    assert_eq!(shell.samples(), wanted);
    // Beside the screen it is at its edge.
    shell.pen(id, at(10_000 * PEN_FRACTION, 10_000 * PEN_FRACTION, 0));
    assert_eq!(shell.samples(), [(640 * 64 - 1, 480 * 64 - 1, 0, true)]);
    shell.pen(id, at(7, 7, 0).leaving());
    shell.pen(id, at(7, 7, 0).leaving());
    assert_eq!(shell.samples(), [(7, 7, 0, false)], "it leaves once");
}

#[test]
fn the_pen_of_a_viewer_that_is_gone_or_lost_its_focus_leaves() {
    let mut shell = Shell::new();
    let (first, second) = (shell.join(), shell.join());
    shell.pen(first, at(10, 10, 1));
    shell.input(first, InputEvent::ReleaseAll);
    assert_eq!(shell.samples(), [(10, 10, 1, true), (10, 10, 0, false)]);
    shell.input(first, InputEvent::ReleaseAll);
    assert_eq!(shell.samples(), []);
    shell.pen(second, at(20, 20, 0));
    shell.session.remove_viewer(second);
    assert_eq!(shell.samples(), [(20, 20, 0, true), (20, 20, 0, false)]);
}

#[test]
fn two_viewers_never_draw_one_stroke() {
    let mut shell = Shell::new();
    let (first, second) = (shell.join(), shell.join());
    shell.pen(second, at(50, 50, 0));
    shell.pen(first, at(10, 10, 1));
    shell.pen(second, at(60, 60, 1));
    shell.pen(first, at(11, 10, 1));
    assert_eq!(shell.samples(), [(50, 50, 0, true), (10, 10, 1, true), (11, 10, 1, true)]);
    // That the other one leaves does not lift the tip.
    shell.session.remove_viewer(second);
    assert_eq!(shell.samples(), []);
    shell.pen(first, at(11, 10, 0));
    let third = shell.join();
    shell.pen(third, at(70, 70, 1));
    assert_eq!(shell.samples(), [(11, 10, 0, true), (70, 70, 1, true)]);
}

#[test]
fn the_pointer_goes_with_the_pen() {
    let mut shell = Shell::new();
    let (pen, mouse) = (shell.join(), shell.join());
    shell.input(mouse, InputEvent::Motion { x: 100, y: 100 });
    shell.pen(pen, at(20 * PEN_FRACTION, 30 * PEN_FRACTION, 0));
    while shell.session.poll_request(shell.now).is_some() {}
    // What the mouse clicks, it clicks where its viewer shows it.
    shell.input(mouse, InputEvent::Button { button: 1, down: true });
    let moved = std::iter::from_fn(|| shell.session.poll_request(shell.now)).find_map(|request| {
        match request {
            Request::Input(InputMessage::PointerMove { x, y, .. }) => Some((x, y)),
            _ => None,
        }
    });
    assert_eq!(moved, Some((100, 100)));
}

#[test]
fn past_the_bound_positions_are_dropped_and_presses_are_a_violation() {
    let mut shell = Shell::new();
    let id = shell.join();
    let mut sent = 0;
    // X reads nothing. 4000 inputs a second is what a viewer may send.
    let violation = loop {
        shell.now += 1_000;
        let press = if sent < 5_000 { 1 } else { sent as u8 & 1 };
        match shell.try_input(id, InputEvent::Pen(at(sent % 640, 0, press))) {
            Ok(()) => sent += 1,
            Err(violation) => break violation,
        }
        assert!(sent < 10_000);
    };
    assert!(matches!(violation, Violation::InputBacklog(_)), "{violation:?}");
    let samples = shell.samples();
    assert!(samples.len() <= 4_096);
    let changes = samples.windows(2).filter(|pair| pair[0].2 != pair[1].2).count();
    assert_eq!(changes, sent as usize - 5_000, "all that were not refused");
}

#[test]
fn one_viewers_strokes_take_no_place_of_another_ones_keys() {
    let mut shell = Shell::new();
    let (pen, keys) = (shell.join(), shell.join());
    shell.pen(pen, at(0, 0, 1));
    for x in 1..10_000 {
        shell.now += 1_000;
        shell.pen(pen, at(x, 0, 1));
    }
    shell.input(keys, InputEvent::Key { code: 30, keysym: 0x61, down: true });
    shell.pen(pen, at(0, 0, 0));
    shell.pen(pen, at(0, 0, 0).leaving());
}

#[test]
fn the_pen_of_a_viewer_whose_path_died_gives_way_to_the_next_press() {
    let mut shell = Shell::new();
    let (lost, next) = (shell.join(), shell.join());
    shell.pen(next, at(50, 50, 0));
    shell.pen(lost, at(10, 10, 1));
    shell.now += 999_999;
    shell.pen(next, at(60, 60, 1));
    assert_eq!(shell.samples(), [(50, 50, 0, true), (10, 10, 1, true)], "it may go on");
    shell.now += 1;
    shell.pen(next, at(61, 61, 0));
    assert_eq!(shell.samples(), [], "hovering ends no stroke");
    shell.pen(next, at(62, 62, 1));
    assert_eq!(shell.samples(), [(10, 10, 0, false), (62, 62, 1, true)]);
}

#[test]
fn a_pen_that_left_while_another_drew_is_not_near() {
    let mut shell = Shell::new();
    let (drawing, leaving) = (shell.join(), shell.join());
    shell.pen(leaving, at(50, 50, 0));
    shell.pen(drawing, at(10, 10, 1));
    shell.pen(leaving, at(50, 50, 0).leaving());
    shell.pen(drawing, at(10, 10, 0));
    shell.session.remove_viewer(leaving);
    assert_eq!(shell.samples(), [(50, 50, 0, true), (10, 10, 1, true), (10, 10, 0, true)]);
}
