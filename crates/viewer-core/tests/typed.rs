//! What a person types while the connection is gone is typed once, in order, and all of it or nothing.
//! From input on one connection, to what the next one says.
//! Knows viewer-core's public face, and a session that takes what it is told to.

use thinc_protocol::frame::Deframer;
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage};
use thinc_protocol::viewer::{Input, InputEvent, TouchPhase, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 80, height: 40 };
const SECOND: u64 = 1_000_000;
const SHIFT: u16 = 42;
const CONTROL: u16 = 29;

fn viewer() -> Viewer {
    let clipboard = ClipboardPolicy::OFF;
    let mut viewer = Viewer::new(&ViewerConfig { name: "test".into(), size: SIZE, caps: 0, clipboard });
    viewer.set_instance([7; 16]);
    viewer
}

/// The next connection of the same viewer.
fn next(earlier: &mut Viewer) -> Viewer {
    let mut next = viewer();
    next.lie_over(earlier, [1; 32]);
    next
}

fn hear(viewer: &mut Viewer, message: &SessionMessage<'_>, now: u64) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, now).expect("what a session says");
}

fn hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello { version: 1, caps: 0, name: "demo".into(), frame_bytes_max: 65536 })
}

fn picture() -> SessionMessage<'static> {
    SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shows: None })
}

/// A first connection, under way.
fn open() -> Viewer {
    let mut viewer = viewer();
    hear(&mut viewer, &hello(), 0);
    hear(&mut viewer, &picture(), 0);
    viewer
}

fn said(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(1 << 20);
    deframer.push(&out);
    std::iter::from_fn(|| deframer.next().unwrap().map(|frame| ViewerMessage::decode(&frame).unwrap())).collect()
}

fn inputs(viewer: &mut Viewer) -> Vec<Input> {
    let said = said(viewer);
    said.into_iter()
        .filter_map(|said| if let ViewerMessage::Input(input) = said { Some(input) } else { None })
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
        .filter_map(|event| if let InputEvent::Char(character) = event { Some(*character) } else { None })
        .collect()
}

fn write(viewer: &mut Viewer, text: &str, now: u64) {
    for character in text.chars() {
        viewer.handle_input(char(character), now);
    }
}

fn keep(viewer: &mut Viewer, text: &str, now: u64) {
    text.chars().for_each(|character| assert!(viewer.keep_input(char(character), now).is_some()));
}

#[test]
fn what_was_not_taken_is_said_again_and_what_was_typed_meanwhile_follows() {
    let mut first = open();
    write(&mut first, "abcdef", 0);
    let numbers: Vec<u32> = inputs(&mut first).iter().map(|input| input.seq).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    keep(&mut first, "gh", SECOND);
    let mut second = next(&mut first);
    let begun = said(&mut second);
    let (ViewerMessage::Hello(hello_of_ours), ViewerMessage::Instance(number)) = (&begun[0], &begun[1]) else {
        panic!("which viewer it is comes right after the hello: {begun:?}");
    };
    assert_eq!((hello_of_ours.caps & ViewerCaps::TYPED != 0, *number), (true, [7; 16]));
    keep(&mut second, "i", 2 * SECOND);
    hear(&mut second, &hello(), 2 * SECOND);
    write(&mut second, "j", 2 * SECOND);
    assert_eq!(inputs(&mut second), [], "nobody knows yet what was taken");
    hear(&mut second, &SessionMessage::Seen(4), 2 * SECOND);
    write(&mut second, "k", 2 * SECOND);
    let again = inputs(&mut second);
    assert_eq!(text(&again.iter().map(|input| input.event).collect::<Vec<_>>()), "efghijk");
    assert!(again.is_sorted_by(|one, other| one.seq < other.seq) && again[0].seq > 10, "numbers go on: {again:?}");
    hear(&mut second, &picture(), 2 * SECOND);
    assert_eq!(inputs(&mut second), [], "and nothing twice");
}

#[test]
fn an_answered_ping_is_word_enough() {
    let mut first = open();
    let ping = |viewer: &mut Viewer| {
        let said = said(viewer);
        said.into_iter().find_map(|said| if let ViewerMessage::Ping(id) = said { Some(id) } else { None })
    };
    let of_the_hello = ping(&mut first).expect("a ping goes with the first words");
    hear(&mut first, &SessionMessage::Pong(of_the_hello), 0);
    write(&mut first, "ab", 2 * SECOND);
    // It went with the first letter: what followed that may be on its way.
    let asked = ping(&mut first).expect("input takes a ping along");
    hear(&mut first, &SessionMessage::Pong(asked), 2 * SECOND);
    keep(&mut first, "cd", 2 * SECOND);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 3 * SECOND);
    hear(&mut second, &SessionMessage::Seen(0), 3 * SECOND);
    assert_eq!(text(&events(&mut second)), "bcd");
}

#[test]
fn a_session_that_knows_nothing_of_it_gets_nothing_of_it() {
    let mut first = open();
    write(&mut first, "ab", 0);
    keep(&mut first, "cd", 0);
    let mut second = next(&mut first);
    keep(&mut second, "e", 0);
    hear(&mut second, &hello(), 0);
    write(&mut second, "in sight", 0);
    hear(&mut second, &picture(), 0);
    write(&mut second, "!", 0);
    assert_eq!(text(&events(&mut second)), "in sight!");
    // Nor does the next, which knows this one.
    let mut third = next(&mut second);
    hear(&mut third, &hello(), 0);
    hear(&mut third, &SessionMessage::Seen(0), 0);
    assert_eq!(text(&events(&mut third)), "in sight!");
}

#[test]
fn a_second_cut_before_the_first_has_healed_changes_nothing() {
    let mut first = open();
    write(&mut first, "abc", 0);
    keep(&mut first, "de", 0);
    // One connection that says nothing, one that is cut behind its hello, one of whose words some arrive.
    let mut second = next(&mut first);
    keep(&mut second, "f", 0);
    let mut third = next(&mut second);
    hear(&mut third, &hello(), 0);
    keep(&mut third, "g", 0);
    let mut fourth = next(&mut third);
    hear(&mut fourth, &hello(), 0);
    hear(&mut fourth, &SessionMessage::Seen(2), 0);
    let once = inputs(&mut fourth);
    assert_eq!(text(&once.iter().map(|input| input.event).collect::<Vec<_>>()), "cdefg");
    keep(&mut fourth, "h", 0);
    let mut fifth = next(&mut fourth);
    hear(&mut fifth, &hello(), 0);
    hear(&mut fifth, &SessionMessage::Seen(once[1].seq), 0);
    assert_eq!(text(&events(&mut fifth)), "efgh", "of the second time two had arrived");
    // And none of it.
    let mut sixth = next(&mut fifth);
    hear(&mut sixth, &hello(), 0);
    hear(&mut sixth, &SessionMessage::Seen(once[1].seq), 0);
    assert_eq!(text(&events(&mut sixth)), "efgh");
}

#[test]
fn a_connection_that_ends_before_it_shows_anything_gives_back_what_it_took_over() {
    let mut first = open();
    keep(&mut first, "a", 0);
    let mut fresh = next(&mut first);
    keep(&mut fresh, "b", 0);
    first.take_typed(&mut fresh);
    keep(&mut first, "c", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(0), 0);
    assert_eq!(text(&events(&mut second)), "abc");
}

#[test]
fn modifiers_are_as_they_were_when_each_key_was_pressed() {
    let mut first = open();
    for event in [key(SHIFT, true), key(CONTROL, true), key(CONTROL, false), key(30, true)] {
        first.handle_input(event, 0);
    }
    for event in [key(30, false), key(31, true), key(31, false), key(SHIFT, false), key(32, true), key(32, false)] {
        assert!(first.keep_input(event, 0).is_some());
    }
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(4), 0);
    let wanted = [key(SHIFT, true), key(31, true), key(31, false), key(SHIFT, false), key(32, true), key(32, false)];
    assert_eq!(events(&mut second), wanted, "a key that went down on the connection before went up with it");

    let mut first = open();
    first.handle_input(key(SHIFT, true), 0);
    assert!(first.keep_input(InputEvent::ReleaseAll, 0).is_some(), "the window lost the keyboard");
    keep(&mut first, "x", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(1), 0);
    assert_eq!(events(&mut second), [key(SHIFT, true), InputEvent::ReleaseAll, char('x')]);
}

#[test]
fn more_than_anybody_types_is_not_sent_at_all() {
    for (count, sent) in [(1024, true), (1025, false)] {
        let mut first = open();
        (0..count).for_each(|_| assert!(first.keep_input(char('x'), 0).is_some()));
        assert_eq!(first.keeps_input(0), sent);
        let mut second = next(&mut first);
        hear(&mut second, &hello(), 0);
        hear(&mut second, &SessionMessage::Seen(0), 0);
        assert_eq!(events(&mut second).len(), if sent { count } else { 0 });
        // From here on it is as any other connection.
        keep(&mut second, "new", 0);
        assert!(second.keeps_input(0) != sent, "what is under way counts");
        let mut third = next(&mut second);
        hear(&mut third, &hello(), 0);
        hear(&mut third, &SessionMessage::Seen(0), 0);
        assert_eq!(text(&events(&mut third)), if sent { "" } else { "new" });
    }
}

#[test]
fn what_is_older_than_half_a_minute_is_not_sent_at_all() {
    for (typed, back, sent) in [(29, 30, "ab"), (29, 31, ""), (31, 31, "")] {
        let mut first = open();
        keep(&mut first, "a", 0);
        keep(&mut first, "b", typed * SECOND);
        let mut second = next(&mut first);
        hear(&mut second, &hello(), back * SECOND);
        hear(&mut second, &SessionMessage::Seen(0), back * SECOND);
        assert_eq!(text(&events(&mut second)), sent, "typed at 0 and {typed} s, back after {back} s");
    }
}

#[test]
fn what_is_typed_again_is_no_younger_for_it() {
    let mut first = open();
    keep(&mut first, "a", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 20 * SECOND);
    hear(&mut second, &SessionMessage::Seen(0), 20 * SECOND);
    assert_eq!(text(&events(&mut second)), "a");
    let mut third = next(&mut second);
    hear(&mut third, &hello(), 40 * SECOND);
    hear(&mut third, &SessionMessage::Seen(0), 40 * SECOND);
    assert_eq!(events(&mut third), []);
}

#[test]
fn a_bound_that_was_passed_while_all_arrived_is_forgotten() {
    let mut first = open();
    for _ in 0..1100 {
        first.handle_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0);
    }
    assert!(!first.keeps_input(0));
    keep(&mut first, "a", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(1100), 0);
    assert_eq!(text(&events(&mut second)), "a");
}

#[test]
fn a_click_into_an_old_picture_goes_nowhere_and_what_is_typed_with_it() {
    let mut first = open();
    assert_eq!(first.keep_input(InputEvent::Motion { x: 1, y: 1 }, 0), None);
    assert_eq!(first.keep_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0), None);
    keep(&mut first, "a", 0);
    assert!(first.keeps_input(0), "a hand on the mouse says nothing");
    assert_eq!(first.keep_input(InputEvent::Button { button: 1, down: true }, 0), None);
    assert!(!first.keeps_input(0));
    keep(&mut first, "b", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(0), 0);
    assert_eq!(events(&mut second), []);
}

#[test]
fn what_was_pressed_before_the_cut_is_let_go_behind_it() {
    let button = |down| InputEvent::Button { button: 1, down };
    let touch = |phase| InputEvent::Touch { id: 3, phase, x: 5, y: 6 };
    let mut first = open();
    for event in [button(true), touch(TouchPhase::Begin)] {
        first.handle_input(event, 0);
    }
    assert!(first.keep_input(button(false), 0).is_some(), "what went down has to go up");
    assert_eq!(first.keep_input(button(false), 0), None);
    keep(&mut first, "a", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(0), 0);
    let wanted = [button(true), touch(TouchPhase::Begin), button(false), char('a'), touch(TouchPhase::End)];
    assert_eq!(events(&mut second), wanted);
}

#[test]
fn a_session_may_not_have_seen_what_nobody_typed_nor_say_so_later() {
    let seen = |viewer: &mut Viewer, input| {
        let mut out = Vec::new();
        SessionMessage::Seen(input).encode(&mut out);
        viewer.handle_bytes(&out, 0)
    };
    let mut first = open();
    write(&mut first, "abc", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    assert!(seen(&mut second, 4).is_err());
    let mut third = next(&mut second);
    hear(&mut third, &hello(), 0);
    hear(&mut third, &picture(), 0);
    assert!(seen(&mut third, 3).is_err(), "it follows the hello");
    let mut fourth = next(&mut third);
    hear(&mut fourth, &hello(), 0);
    assert_eq!(seen(&mut fourth, 3), Ok(()));
    assert!(seen(&mut fourth, 3).is_err(), "once");
}

#[test]
fn goodbye_takes_what_was_typed_along() {
    let mut first = open();
    write(&mut first, "a", 0);
    first.handle_close("the viewer was closed");
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(0), 0);
    assert_eq!(events(&mut second), []);
}

#[test]
fn a_viewer_that_begins_anew_counts_on_from_what_the_session_saw_before_it() {
    // Under its number somebody typed 500 keys, and then its page was loaded again.
    for seen in [Some(500), Some(0), Some(u32::MAX), None] {
        let mut first = viewer();
        first.begin_anew();
        write(&mut first, "ab", 0);
        assert_eq!(inputs(&mut first), [], "nobody knows yet from where to count");
        hear(&mut first, &hello(), 0);
        seen.into_iter().for_each(|seen| hear(&mut first, &SessionMessage::Seen(seen), 0));
        hear(&mut first, &picture(), 0);
        write(&mut first, "c", 0);
        let said = inputs(&mut first);
        assert_eq!(text(&said.iter().map(|input| input.event).collect::<Vec<_>>()), "abc", "after {seen:?}");
        if let Some(seen) = seen {
            assert_eq!(said[0].seq, seen.wrapping_add(1));
        }
        // From now on it is like any other.
        let mut second = next(&mut first);
        hear(&mut second, &hello(), 0);
        hear(&mut second, &SessionMessage::Seen(said[1].seq), 0);
        assert_eq!(text(&events(&mut second)), "c");
    }
    // The connection ends before the session has said what it saw.
    let mut first = viewer();
    first.begin_anew();
    hear(&mut first, &hello(), 0);
    keep(&mut first, "d", 0);
    let mut second = next(&mut first);
    hear(&mut second, &hello(), 0);
    hear(&mut second, &SessionMessage::Seen(500), 0);
    assert_eq!(text(&events(&mut second)), "d");
}
