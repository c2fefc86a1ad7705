//! Input typed during a loss of the connection is sent once, in order, and completely or not at
//! all. From input on one connection, to the messages of the next. Knows viewer-core's public
//! interface, and a session that takes what the test says.

use thinc_protocol::framing::Deframer;
use thinc_protocol::pen::PenSample;
use thinc_protocol::session::{Geometry, SessionCaps, SessionHello, SessionMessage};
use thinc_protocol::viewer::{Input, InputEvent, TouchPhase, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 80, height: 40 };
const SECOND: u64 = 1_000_000;
const SHIFT: u16 = 42;
const CONTROL: u16 = 29;

fn viewer() -> Viewer {
    let clipboard = ClipboardPolicy::OFF;
    let mut viewer =
        Viewer::new(&ViewerConfig { name: "test".into(), size: SIZE, caps: 0, clipboard });
    viewer.set_instance([7; 16]);
    viewer
}

/// The next connection of the same viewer.
fn next(earlier: &mut Viewer) -> Viewer {
    let mut next = viewer();
    next.continue_from(earlier, [1; 32]);
    next
}

fn receive(viewer: &mut Viewer, message: &SessionMessage<'_>, now: u64) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, now).expect("a valid message");
}

fn hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: 0,
        name: "demo".into(),
        message_bytes_max: 65536,
    })
}

fn geometry() -> SessionMessage<'static> {
    SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None })
}

/// A first connection, established.
fn open() -> Viewer {
    let mut viewer = viewer();
    receive(&mut viewer, &hello(), 0);
    receive(&mut viewer, &geometry(), 0);
    viewer
}

fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(1 << 20);
    deframer.push(&out);
    std::iter::from_fn(|| {
        deframer.next().unwrap().map(|frame| ViewerMessage::decode(&frame).unwrap())
    })
    .collect()
}

fn inputs(viewer: &mut Viewer) -> Vec<Input> {
    let sent = sent(viewer);
    sent.into_iter()
        .filter_map(|sent| if let ViewerMessage::Input(input) = sent { Some(input) } else { None })
        .collect()
}

fn events(viewer: &mut Viewer) -> Vec<InputEvent> {
    inputs(viewer).into_iter().map(|input| input.event).collect()
}

fn key(code: u16, down: bool) -> InputEvent {
    InputEvent::Key { code, keysym: 0, down }
}

fn char(character: char) -> InputEvent {
    InputEvent::Char(character)
}

fn text(events: &[InputEvent]) -> String {
    events
        .iter()
        .filter_map(
            |event| if let InputEvent::Char(character) = event { Some(*character) } else { None },
        )
        .collect()
}

fn type_text(viewer: &mut Viewer, text: &str, now: u64) {
    for character in text.chars() {
        viewer.handle_input(char(character), now);
    }
}

fn buffer_text(viewer: &mut Viewer, text: &str, now: u64) {
    text.chars().for_each(|character| assert!(viewer.buffer_input(char(character), now).is_some()));
}

#[test]
fn input_not_taken_is_resent_before_input_typed_since() {
    let mut first = open();
    type_text(&mut first, "abcdef", 0);
    let numbers: Vec<u32> = inputs(&mut first).iter().map(|input| input.seq).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    buffer_text(&mut first, "gh", SECOND);
    let mut second = next(&mut first);
    let begun = sent(&mut second);
    let (ViewerMessage::Hello(hello_of_ours), ViewerMessage::Instance(number)) =
        (&begun[0], &begun[1])
    else {
        panic!("the instance directly follows the hello: {begun:?}");
    };
    assert_eq!((hello_of_ours.caps & ViewerCaps::RESUME_INPUT != 0, *number), (true, [7; 16]));
    buffer_text(&mut second, "i", 2 * SECOND);
    receive(&mut second, &hello(), 2 * SECOND);
    type_text(&mut second, "j", 2 * SECOND);
    assert_eq!(inputs(&mut second), [], "not known yet what was taken");
    receive(&mut second, &SessionMessage::InputReceived(4), 2 * SECOND);
    type_text(&mut second, "k", 2 * SECOND);
    let again = inputs(&mut second);
    assert_eq!(text(&again.iter().map(|input| input.event).collect::<Vec<_>>()), "efghijk");
    assert!(
        again.is_sorted_by(|one, other| one.seq < other.seq) && again[0].seq > 10,
        "numbers continue: {again:?}"
    );
    receive(&mut second, &geometry(), 2 * SECOND);
    assert_eq!(inputs(&mut second), [], "and nothing is sent twice");
}

#[test]
fn an_answered_ping_acknowledges_input() {
    let mut first = open();
    let ping = |viewer: &mut Viewer| {
        let sent = sent(viewer);
        sent.into_iter()
            .find_map(|sent| if let ViewerMessage::Ping(id) = sent { Some(id) } else { None })
    };
    let of_the_hello = ping(&mut first).expect("a ping accompanies the first messages");
    receive(&mut first, &SessionMessage::Pong(of_the_hello), 0);
    type_text(&mut first, "ab", 2 * SECOND);
    // It was sent with the first keystroke: later ones may be in flight.
    let asked = ping(&mut first).expect("input is accompanied by a ping");
    receive(&mut first, &SessionMessage::Pong(asked), 2 * SECOND);
    buffer_text(&mut first, "cd", 2 * SECOND);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 3 * SECOND);
    receive(&mut second, &SessionMessage::InputReceived(0), 3 * SECOND);
    assert_eq!(text(&events(&mut second)), "bcd");
}

#[test]
fn a_session_that_does_not_report_gets_no_old_input() {
    let mut first = open();
    type_text(&mut first, "ab", 0);
    buffer_text(&mut first, "cd", 0);
    let mut second = next(&mut first);
    buffer_text(&mut second, "e", 0);
    receive(&mut second, &hello(), 0);
    type_text(&mut second, "in sight", 0);
    receive(&mut second, &geometry(), 0);
    type_text(&mut second, "!", 0);
    assert_eq!(text(&events(&mut second)), "in sight!");
    // Nor does the next connection, whose session reports.
    let mut third = next(&mut second);
    receive(&mut third, &hello(), 0);
    receive(&mut third, &SessionMessage::InputReceived(0), 0);
    assert_eq!(text(&events(&mut third)), "in sight!");
}

#[test]
fn a_second_loss_before_the_first_is_recovered_changes_nothing() {
    let mut first = open();
    type_text(&mut first, "abc", 0);
    buffer_text(&mut first, "de", 0);
    // One connection without a report, one lost after its hello, one of whose messages some arrive.
    let mut second = next(&mut first);
    buffer_text(&mut second, "f", 0);
    let mut third = next(&mut second);
    receive(&mut third, &hello(), 0);
    buffer_text(&mut third, "g", 0);
    let mut fourth = next(&mut third);
    receive(&mut fourth, &hello(), 0);
    receive(&mut fourth, &SessionMessage::InputReceived(2), 0);
    let once = inputs(&mut fourth);
    assert_eq!(text(&once.iter().map(|input| input.event).collect::<Vec<_>>()), "cdefg");
    buffer_text(&mut fourth, "h", 0);
    let mut fifth = next(&mut fourth);
    receive(&mut fifth, &hello(), 0);
    receive(&mut fifth, &SessionMessage::InputReceived(once[1].seq), 0);
    assert_eq!(text(&events(&mut fifth)), "efgh", "two of the second attempt had arrived");
    // And none of them.
    let mut sixth = next(&mut fifth);
    receive(&mut sixth, &hello(), 0);
    receive(&mut sixth, &SessionMessage::InputReceived(once[1].seq), 0);
    assert_eq!(text(&events(&mut sixth)), "efgh");
}

#[test]
fn a_connection_that_ends_before_its_first_geometry_returns_the_input() {
    let mut first = open();
    buffer_text(&mut first, "a", 0);
    let mut fresh = next(&mut first);
    buffer_text(&mut fresh, "b", 0);
    first.take_unacked_input(&mut fresh);
    buffer_text(&mut first, "c", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(0), 0);
    assert_eq!(text(&events(&mut second)), "abc");
}

#[test]
fn modifiers_are_restored_for_each_key() {
    let mut first = open();
    for event in [key(SHIFT, true), key(CONTROL, true), key(CONTROL, false), key(30, true)] {
        first.handle_input(event, 0);
    }
    for event in [
        key(30, false),
        key(31, true),
        key(31, false),
        key(SHIFT, false),
        key(32, true),
        key(32, false),
    ] {
        assert!(first.buffer_input(event, 0).is_some());
    }
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(4), 0);
    let wanted = [
        key(SHIFT, true),
        key(31, true),
        key(31, false),
        key(SHIFT, false),
        key(32, true),
        key(32, false),
    ];
    assert_eq!(
        events(&mut second),
        wanted,
        "a key pressed on the previous connection was released with it"
    );

    let mut first = open();
    first.handle_input(key(SHIFT, true), 0);
    assert!(first.buffer_input(InputEvent::ReleaseAll, 0).is_some(), "the window lost the focus");
    buffer_text(&mut first, "x", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(1), 0);
    assert_eq!(events(&mut second), [key(SHIFT, true), InputEvent::ReleaseAll, char('x')]);
}

#[test]
fn input_beyond_the_bound_is_not_sent_at_all() {
    for (count, sent) in [(1024, true), (1025, false)] {
        let mut first = open();
        (0..count).for_each(|_| assert!(first.buffer_input(char('x'), 0).is_some()));
        assert_eq!(first.can_buffer_input(0), sent);
        let mut second = next(&mut first);
        receive(&mut second, &hello(), 0);
        receive(&mut second, &SessionMessage::InputReceived(0), 0);
        assert_eq!(events(&mut second).len(), if sent { count } else { 0 });
        // From here on it is like any other connection.
        buffer_text(&mut second, "new", 0);
        assert!(second.can_buffer_input(0) != sent, "input in flight counts");
        let mut third = next(&mut second);
        receive(&mut third, &hello(), 0);
        receive(&mut third, &SessionMessage::InputReceived(0), 0);
        assert_eq!(text(&events(&mut third)), if sent { "" } else { "new" });
    }
}

#[test]
fn input_older_than_half_a_minute_is_not_sent_at_all() {
    for (typed, back, sent) in [(29, 30, "ab"), (29, 31, ""), (31, 31, "")] {
        let mut first = open();
        buffer_text(&mut first, "a", 0);
        buffer_text(&mut first, "b", typed * SECOND);
        let mut second = next(&mut first);
        receive(&mut second, &hello(), back * SECOND);
        receive(&mut second, &SessionMessage::InputReceived(0), back * SECOND);
        assert_eq!(
            text(&events(&mut second)),
            sent,
            "typed at 0 and {typed} s, back after {back} s"
        );
    }
}

#[test]
fn resent_input_keeps_its_age() {
    let mut first = open();
    buffer_text(&mut first, "a", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 20 * SECOND);
    receive(&mut second, &SessionMessage::InputReceived(0), 20 * SECOND);
    assert_eq!(text(&events(&mut second)), "a");
    let mut third = next(&mut second);
    receive(&mut third, &hello(), 40 * SECOND);
    receive(&mut third, &SessionMessage::InputReceived(0), 40 * SECOND);
    assert_eq!(events(&mut third), []);
}

#[test]
fn an_exceeded_bound_is_forgotten_once_all_input_has_arrived() {
    let mut first = open();
    for _ in 0..1100 {
        first.handle_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0);
    }
    assert!(!first.can_buffer_input(0));
    buffer_text(&mut first, "a", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(1100), 0);
    assert_eq!(text(&events(&mut second)), "a");
}

#[test]
fn a_click_on_a_stale_screen_discards_buffered_input() {
    let mut first = open();
    assert_eq!(first.buffer_input(InputEvent::Motion { x: 1, y: 1 }, 0), None);
    assert_eq!(first.buffer_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0), None);
    buffer_text(&mut first, "a", 0);
    assert!(first.can_buffer_input(0), "motion and scrolling do not matter");
    assert_eq!(first.buffer_input(InputEvent::Button { button: 1, down: true }, 0), None);
    assert!(!first.can_buffer_input(0));
    buffer_text(&mut first, "b", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(0), 0);
    assert_eq!(events(&mut second), []);
}

#[test]
fn buttons_pressed_before_the_loss_are_released_after_it() {
    let button = |down| InputEvent::Button { button: 1, down };
    let touch = |phase| InputEvent::Touch { id: 3, phase, x: 5, y: 6 };
    let mut first = open();
    for event in [button(true), touch(TouchPhase::Begin)] {
        first.handle_input(event, 0);
    }
    assert!(first.buffer_input(button(false), 0).is_some(), "a press needs its release");
    assert_eq!(first.buffer_input(button(false), 0), None);
    buffer_text(&mut first, "a", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(0), 0);
    let wanted =
        [button(true), touch(TouchPhase::Begin), button(false), char('a'), touch(TouchPhase::End)];
    assert_eq!(events(&mut second), wanted);
}

#[test]
fn a_report_of_unsent_input_or_a_late_report_is_a_violation() {
    let seen = |viewer: &mut Viewer, input| {
        let mut out = Vec::new();
        SessionMessage::InputReceived(input).encode(&mut out);
        viewer.handle_bytes(&out, 0)
    };
    let mut first = open();
    type_text(&mut first, "abc", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    assert!(seen(&mut second, 4).is_err());
    let mut third = next(&mut second);
    receive(&mut third, &hello(), 0);
    receive(&mut third, &geometry(), 0);
    assert!(seen(&mut third, 3).is_err(), "it has to follow the hello");
    let mut fourth = next(&mut third);
    receive(&mut fourth, &hello(), 0);
    assert_eq!(seen(&mut fourth, 3), Ok(()));
    assert!(seen(&mut fourth, 3).is_err(), "only once");
}

#[test]
fn a_closed_viewer_leaves_no_input_to_the_next() {
    let mut first = open();
    type_text(&mut first, "a", 0);
    first.handle_close("the viewer was closed");
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(0), 0);
    assert_eq!(events(&mut second), []);
}

#[test]
fn a_reloaded_page_continues_the_sessions_input_numbers() {
    // 500 keys were sent under its instance number before the page was reloaded.
    for seen in [Some(500), Some(0), Some(u32::MAX), None] {
        let mut first = viewer();
        first.set_reloaded();
        type_text(&mut first, "ab", 0);
        assert_eq!(inputs(&mut first), [], "the next number is not known yet");
        receive(&mut first, &hello(), 0);
        seen.into_iter()
            .for_each(|seen| receive(&mut first, &SessionMessage::InputReceived(seen), 0));
        receive(&mut first, &geometry(), 0);
        type_text(&mut first, "c", 0);
        let sent = inputs(&mut first);
        assert_eq!(
            text(&sent.iter().map(|input| input.event).collect::<Vec<_>>()),
            "abc",
            "after {seen:?}"
        );
        if let Some(seen) = seen {
            assert_eq!(sent[0].seq, seen.wrapping_add(1));
        }
        // From now on it is like any other connection.
        let mut second = next(&mut first);
        receive(&mut second, &hello(), 0);
        receive(&mut second, &SessionMessage::InputReceived(sent[1].seq), 0);
        assert_eq!(text(&events(&mut second)), "c");
    }
    // The connection ends before the session's report.
    let mut first = viewer();
    first.set_reloaded();
    receive(&mut first, &hello(), 0);
    buffer_text(&mut first, "d", 0);
    let mut second = next(&mut first);
    receive(&mut second, &hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(500), 0);
    assert_eq!(text(&events(&mut second)), "d");
}

/// A session that accepts distances.
fn relative_hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: SessionCaps::RELATIVE,
        name: "demo".into(),
        message_bytes_max: 65536,
    })
}

#[test]
fn every_distance_counts_once_whatever_the_session_took() {
    let by = |dx: i16| InputEvent::MotionBy { dx, dy: 0 };
    let distance = |input: &Input| match input.event {
        InputEvent::MotionBy { dx, .. } => i32::from(dx),
        _ => 0,
    };
    // Three are sent one by one, the last two together.
    for taken in 0..=4 {
        let mut first = viewer();
        receive(&mut first, &relative_hello(), 0);
        receive(&mut first, &geometry(), 0);
        let mut all = Vec::new();
        for dx in [1, 10, 100] {
            first.handle_input(by(dx), 0);
            all.extend(inputs(&mut first));
        }
        first.handle_input(by(1_000), 0);
        first.handle_input(by(10_000), 0);
        all.extend(inputs(&mut first));
        assert_eq!(all.len(), 4);
        let received = if taken == 0 { 0 } else { all[taken - 1].seq };
        let mut second = next(&mut first);
        receive(&mut second, &relative_hello(), SECOND);
        receive(&mut second, &SessionMessage::InputReceived(received), SECOND);
        receive(&mut second, &geometry(), SECOND);
        let again: i32 = inputs(&mut second).iter().map(distance).sum();
        let before: i32 = all[..taken].iter().map(distance).sum();
        assert_eq!(before + again, 11_111, "{taken} were taken");
    }
}

#[test]
fn distances_take_no_place_of_keys() {
    let mut first = viewer();
    receive(&mut first, &relative_hello(), 0);
    receive(&mut first, &geometry(), 0);
    type_text(&mut first, "abc", 0);
    for _ in 0..5_000 {
        first.handle_input(InputEvent::MotionBy { dx: 1, dy: 0 }, 0);
        inputs(&mut first);
    }
    let mut second = next(&mut first);
    receive(&mut second, &relative_hello(), SECOND);
    receive(&mut second, &SessionMessage::InputReceived(0), SECOND);
    receive(&mut second, &geometry(), SECOND);
    let again = events(&mut second);
    assert_eq!(text(&again), "abc");
    let moved: i32 = again
        .iter()
        .map(|event| if let InputEvent::MotionBy { dx, .. } = event { (*dx).into() } else { 0 })
        .sum();
    assert_eq!(moved, 512, "the newest of them");
}

fn pen(x: u32, buttons: u8) -> InputEvent {
    InputEvent::Pen(PenSample { x, buttons, near: true, ..PenSample::default() })
}

fn pen_hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: SessionCaps::PEN,
        name: "demo".into(),
        message_bytes_max: 65536,
    })
}

fn open_with_pen() -> Viewer {
    let mut viewer = viewer();
    receive(&mut viewer, &pen_hello(), 0);
    receive(&mut viewer, &geometry(), 0);
    viewer
}

#[test]
fn a_session_that_takes_no_pens_gets_none() {
    let mut viewer = open();
    assert!(!viewer.takes_pen());
    viewer.handle_input(pen(1, 1), 0);
    assert_eq!(events(&mut viewer), []);
    let mut viewer = open_with_pen();
    assert!(viewer.takes_pen());
    viewer.handle_input(pen(1, 1), 0);
    assert_eq!(events(&mut viewer), [pen(1, 1)]);
}

#[test]
fn a_viewer_whose_tip_rests_is_not_silent() {
    let mut viewer = open_with_pen();
    viewer.handle_input(pen(1, 1), SECOND);
    sent(&mut viewer);
    let is_ping = |message: &ViewerMessage| matches!(message, ViewerMessage::Ping(_));
    for step in 1..=10 {
        let now = SECOND + step * SECOND / 10;
        assert!(viewer.poll_deadline().is_some_and(|due| due <= now));
        viewer.handle_timeout(now);
        assert!(sent(&mut viewer).iter().any(is_ping), "{step}");
    }
}

#[test]
fn the_rest_of_a_stroke_is_sent_once_and_ends() {
    for taken in 0..=5 {
        let mut first = open_with_pen();
        // Of what hovers, only the newest position counts once it has to be sent again.
        let made: Vec<InputEvent> =
            [pen(1, 0), pen(2, 0), pen(3, 1), pen(4, 1), pen(5, 1)].to_vec();
        let mut sent = Vec::new();
        for event in &made {
            first.handle_input(*event, 0);
            sent.extend(inputs(&mut first));
        }
        assert_eq!(sent.iter().map(|input| input.event).collect::<Vec<_>>(), made);
        let received = if taken == 0 { 0 } else { sent[taken - 1].seq };
        let mut second = next(&mut first);
        receive(&mut second, &pen_hello(), SECOND);
        receive(&mut second, &SessionMessage::InputReceived(received), SECOND);
        receive(&mut second, &geometry(), SECOND);
        // The session lifted a tip that it had seen down, with the connection: nobody presses it
        // again.
        let left = InputEvent::Pen(PenSample { x: 5, ..PenSample::default() });
        let wanted = match taken {
            0 | 1 => vec![pen(2, 0), pen(3, 1), pen(4, 1), pen(5, 1), left],
            2 => vec![pen(3, 1), pen(4, 1), pen(5, 1), left],
            3 => vec![pen(4, 0), pen(5, 0)],
            4 => vec![pen(5, 0)],
            _ => vec![],
        };
        assert_eq!(events(&mut second), wanted, "{taken} were taken");
    }
}

#[test]
fn the_tip_on_a_stale_screen_discards_keys_and_its_release_is_not_lost() {
    let mut first = open_with_pen();
    buffer_text(&mut first, "ab", 0);
    assert_eq!(first.buffer_input(pen(1, 0), 0), None, "it hovers");
    assert!(first.can_buffer_input(0));
    assert_eq!(first.buffer_input(pen(1, 1), 0), None);
    assert!(!first.can_buffer_input(0), "it could be a click elsewhere");

    let mut first = open_with_pen();
    first.handle_input(pen(1, 1), 0);
    assert_eq!(first.buffer_input(pen(2, 1), 0), None);
    assert!(first.buffer_input(pen(2, 0), 0).is_some(), "a press needs its release");
    buffer_text(&mut first, "a", 0);
    let mut second = next(&mut first);
    receive(&mut second, &pen_hello(), 0);
    receive(&mut second, &SessionMessage::InputReceived(0), 0);
    assert_eq!(events(&mut second), [pen(1, 1), pen(2, 0), char('a')]);
}

/// The next connection of a viewer, whose session took the input up to this one.
fn next_with_pen(first: &mut Viewer, received: u32) -> Viewer {
    let mut second = next(first);
    receive(&mut second, &pen_hello(), SECOND);
    receive(&mut second, &SessionMessage::InputReceived(received), SECOND);
    receive(&mut second, &geometry(), SECOND);
    second
}

#[test]
fn a_tip_that_the_session_has_lifted_is_not_pressed_again() {
    let mut first = open_with_pen();
    let press = first.handle_input(pen(1, 1), 0);
    inputs(&mut first);
    let mut second = next_with_pen(&mut first, press);
    // The pen is still down, and then a button of its barrel too.
    for event in [pen(2, 1), pen(3, 3), pen(4, 1), pen(5, 0), pen(6, 1)] {
        second.handle_input(event, SECOND);
    }
    let wanted = [pen(2, 0), pen(3, 2), pen(4, 0), pen(5, 0), pen(6, 1)];
    assert_eq!(events(&mut second), wanted);
}

#[test]
fn the_tip_is_lifted_where_it_was_lifted() {
    let mut first = open_with_pen();
    for event in [pen(1, 0), pen(2, 0), pen(3, 1), pen(4, 0), pen(50, 0), pen(60, 0)] {
        first.handle_input(event, 0);
        inputs(&mut first);
    }
    let mut second = next_with_pen(&mut first, 0);
    assert_eq!(events(&mut second), [pen(2, 0), pen(3, 1), pen(4, 0), pen(60, 0)]);
}

#[test]
fn a_stalled_path_drops_what_only_moves_the_pen() {
    let mut viewer = open_with_pen();
    let samples = |from: u32, to: u32, buttons| (from..to).map(move |x| pen(x, buttons));
    // 64 KiB are full with fewer than 10,000 samples.
    let strokes = [samples(0, 30_000, 0), samples(30_000, 30_010, 1), samples(30_010, 30_020, 0)];
    for event in strokes.into_iter().flatten() {
        viewer.handle_input(event, 0);
    }
    let sent = events(&mut viewer);
    assert!(sent.len() < 10_000, "what hovers is dropped too: {}", sent.len());
    assert_eq!(sent[sent.len() - 2..], [pen(30_000, 1), pen(30_010, 0)]);
}

#[test]
fn a_stroke_that_continues_on_a_stale_screen_discards_nothing() {
    for is_taken in [false, true] {
        let mut first = open_with_pen();
        let press = first.handle_input(pen(1, 1), 0);
        inputs(&mut first);
        buffer_text(&mut first, "ab", 0);
        first.buffer_input(pen(2, 1), 0);
        assert!(first.can_buffer_input(0));
        let mut second = next(&mut first);
        receive(&mut second, &pen_hello(), 0);
        receive(&mut second, &SessionMessage::InputReceived(if is_taken { press } else { 0 }), 0);
        second.buffer_input(pen(3, 1), 0);
        assert!(second.can_buffer_input(0), "{is_taken}: it goes on");
        second.buffer_input(pen(3, 0), 0);
        assert_eq!(second.buffer_input(pen(4, 1), 0), None);
        assert!(!second.can_buffer_input(0), "{is_taken}: it could be a click elsewhere");
        assert_eq!(text(&events(&mut second)), "ab");
    }
}

#[test]
fn a_tap_outlives_the_samples_after_it() {
    let mut first = open_with_pen();
    for event in [pen(1, 1), pen(2, 0), key(30, true), key(30, false), pen(3, 1)] {
        first.handle_input(event, 0);
    }
    for x in 10..5_000 {
        first.handle_input(pen(x, 1), 0);
        inputs(&mut first);
    }
    let mut second = next_with_pen(&mut first, 0);
    let again = events(&mut second);
    let wanted = [pen(1, 1), pen(2, 0), key(30, true), key(30, false), pen(3, 1)];
    assert_eq!(again[..5], wanted);
    assert_eq!(again.len(), 2 + 512 + 1);
}

#[test]
fn strokes_take_no_place_of_keys() {
    let mut first = open_with_pen();
    type_text(&mut first, "abc", 0);
    for x in 0..5_000 {
        first.handle_input(pen(x, 1), 0);
        inputs(&mut first);
    }
    let mut second = next(&mut first);
    receive(&mut second, &pen_hello(), SECOND);
    receive(&mut second, &SessionMessage::InputReceived(0), SECOND);
    let again = events(&mut second);
    assert_eq!(text(&again), "abc");
    let samples = again.iter().filter(|event| matches!(event, InputEvent::Pen(_))).count();
    assert_eq!(samples, 512 + 1, "the newest of them, and the tip is lifted");
}
