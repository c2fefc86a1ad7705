//! Beside the path: what page.rs answers to a page's script. Knows messages; never a browser.

use thinc_protocol::VERSION;
use thinc_protocol::command::Command;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{Close, CloseCode, Geometry, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{Input, ViewerMessage};

use super::*;

mod datagrams;
mod files;

/// Delivers a message as the page's script would: into the buffer, then the call.
fn deliver(page: &mut Page, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    page.buffer(bytes.len());
    page.buffer[..bytes.len()].copy_from_slice(&bytes);
    page.bytes(bytes.len(), 1_000)
}

fn connected_page(size: Size) -> Page {
    let mut page = Page::new();
    page.buffer(4);
    page.buffer[..4].copy_from_slice(b"test");
    page.open(4, Size::default());
    let name = "a session".to_owned();
    let hello = SessionHello { version: VERSION, caps: 0, name, message_bytes_max: 65536 };
    deliver(&mut page, &SessionMessage::Hello(hello)).unwrap();
    deliver(&mut page, &SessionMessage::Geometry(Geometry { epoch: 1, size, shown: None }))
        .unwrap();
    page
}

#[test]
fn a_fill_becomes_damage_and_pixels_in_the_order_of_a_canvas() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    assert_eq!(page.next_event(), EventKind::Connected);
    assert_eq!(page.text(), "a session");
    assert_eq!(page.next_event(), EventKind::Geometry);
    assert_eq!(page.event()[..2], [4.0, 3.0]);
    assert_eq!(page.take_damage(), [[0, 0, 4, 3]]);

    let mut commands = Vec::new();
    Command::Sfill { region: Rect::new(1, 1, 3, 2).into(), color: 0x11_22_33 }
        .encode(&mut commands);
    let update = Update {
        seq: 1,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &commands,
    };
    deliver(&mut page, &SessionMessage::Update(update)).unwrap();
    assert!(page.is_damaged());
    assert_eq!(page.take_damage(), [[1, 1, 2, 1]]);
    assert!(!page.is_damaged());
    assert_eq!(page.rgba(Rect::new(0, 1, 2, 2)), [0xff00_0000, 0xff33_2211]);
    assert_eq!(page.screen()[5], 0xff11_2233);
    assert_eq!(page.collect_stats()[0], 1.0, "one update");
    assert_eq!(
        page.collect_stats().len(),
        19 + 3 * thinc_viewer_core::KIND_NAMES.len(),
        "no input was echoed"
    );
}

#[test]
fn a_part_outside_the_screen_gives_no_pixels() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    assert!(page.rgba(Rect::new(2, 0, 5, 1)).is_empty());
    assert!(page.rgba(Rect::new(0, 0, 4, 4)).is_empty());
    assert_eq!(page.rgba(Rect::new(0, 0, 4, 3)).len(), 12);
}

#[test]
fn the_first_output_is_the_hello_and_nothing_follows() {
    let mut page = Page::new();
    assert!(page.collect_output().is_empty(), "no connection, no output");
    page.open(0, Size { width: 640, height: 480 });
    assert!(!page.collect_output().is_empty());
    assert!(page.collect_output().is_empty());
}

#[test]
fn every_connection_sends_the_pages_identifier_right_after_the_hello() {
    let mut page = Page::new();
    page.buffer(INSTANCE_BYTES);
    page.buffer.fill(7);
    page.set_instance();
    for _ in 0..2 {
        page.open(0, Size::default());
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        let hello = frames.next().unwrap().expect("a hello");
        assert!(matches!(ViewerMessage::decode(&hello).unwrap(), ViewerMessage::Hello(_)));
        let second = frames.next().unwrap().expect("the message after it");
        assert_eq!(
            ViewerMessage::decode(&second).unwrap(),
            ViewerMessage::Instance([7; INSTANCE_BYTES])
        );
    }
}

#[test]
fn input_between_two_connections_is_sent_on_the_second() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    page.next_event();
    page.collect_output();
    page.lost();
    assert_ne!(page.input(InputEvent::Char('a'), 0), 0);
    assert_eq!(page.input(InputEvent::Motion { x: 1, y: 1 }, 0), 0);
    assert!(page.can_buffer_input(0));
    page.buffer(32);
    page.open(0, Size::default());
    assert_ne!(page.input(InputEvent::Char('b'), 0), 0);
    let hello = SessionHello { version: 1, caps: 0, name: String::new(), message_bytes_max: 65536 };
    deliver(&mut page, &SessionMessage::Hello(hello)).unwrap();
    page.collect_output();
    deliver(&mut page, &SessionMessage::InputReceived(0)).unwrap();
    let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
    frames.push(page.collect_output());
    let mut typed = String::new();
    while let Some(frame) = frames.next().unwrap() {
        if let ViewerMessage::Input(Input { event: InputEvent::Char(character), .. }) =
            ViewerMessage::decode(&frame).unwrap()
        {
            typed.push(character);
        }
    }
    assert_eq!(typed, "ab");
    assert_eq!(
        page.input(InputEvent::Button { button: 1, down: true }, 0),
        0,
        "a button is not buffered"
    );
    assert!(!page.can_buffer_input(0));
    while page.next_event() != EventKind::None {}
    assert_ne!(page.input(InputEvent::Button { button: 1, down: true }, 0), 0);
}

#[test]
fn garbage_ends_the_connection_with_an_error_text() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    page.buffer(3);
    page.buffer[..3].copy_from_slice(&[0xee, 1, 0]);
    assert!(page.bytes(3, 0).is_err());
    assert!(!page.text().is_empty());
}

#[test]
fn a_close_carries_its_code_and_reason() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    let close = Close { code: CloseCode::Replaced, reason: "another viewer" };
    deliver(&mut page, &SessionMessage::Close(close)).unwrap();
    let kinds = [(); 4].map(|()| page.next_event());
    assert_eq!(
        kinds,
        [EventKind::Connected, EventKind::Geometry, EventKind::Closed, EventKind::None]
    );
    assert_eq!(page.event()[0], f64::from(CloseCode::Replaced as u8));
    assert_eq!(page.text(), "another viewer");
}

#[test]
fn alpha_is_divided_out_once_and_within_one_step() {
    assert_eq!(straight_rgba(0), 0);
    assert_eq!(straight_rgba(0xff11_2233), 0xff33_2211);
    for alpha in 1..=255u32 {
        for color in [0, 1, 77, 128, 254, 255] {
            let premultiplied = (color * alpha + 127) / 255;
            let back = straight_rgba(alpha << 24 | premultiplied) >> 16 & 0xff;
            let again = (back * alpha + 127) / 255;
            assert_eq!(again, premultiplied, "alpha {alpha}, colour {color}");
        }
    }
}
