//! What passes beside the stream, and questions to a session that says nothing.

use thinc_protocol::session::SessionCaps;

use super::*;

#[test]
fn what_comes_alone_is_applied_and_said_so_on_connections_that_carry_it() {
    let mut page = Page::new();
    let mut commands = Vec::new();
    Command::Sfill { region: Rect::new(0, 0, 4, 3).into(), color: 0x11_22_33 }.encode(&mut commands);
    let update =
        Update { seq: 1, after: 0, epoch: 1, echo: None, end_of_frame: true, packed: None, commands: &commands };
    let mut alone = Vec::new();
    SessionMessage::Update(update).encode(&mut alone);
    for carries in [true, false] {
        page.set_alone(carries);
        page.open(0, Size::default());
        let mut frames = Deframer::new(VIEWER_FRAME_BYTES_MAX);
        frames.push(page.collect_output());
        let hello = ViewerMessage::decode(&frames.next().unwrap().unwrap()).unwrap();
        assert!(matches!(hello, ViewerMessage::Hello(hello) if (hello.caps & ViewerCaps::ALONE != 0) == carries));
        let caps = SessionCaps::ALONE;
        let hello = SessionHello { version: VERSION, caps, name: String::new(), frame_bytes_max: 65536 };
        say(&mut page, &SessionMessage::Hello(hello)).unwrap();
        let size = Size { width: 4, height: 3 };
        say(&mut page, &SessionMessage::Geometry(Geometry { epoch: 1, size, shows: None })).unwrap();
        assert!(page.collect_datagram().is_empty());
        page.buffer(alone.len());
        page.buffer[..alone.len()].copy_from_slice(&alone);
        assert_eq!(page.datagram(alone.len(), 1_000).is_ok(), carries, "{}", page.text());
        assert_eq!(!page.collect_datagram().is_empty(), carries);
        assert_eq!(page.collect_stats()[..2], [f64::from(u8::from(carries)); 2], "updates, and those alone");
    }
}

#[test]
fn a_session_that_says_nothing_is_asked_again() {
    let mut page = greeted(Size { width: 4, height: 3 });
    page.collect_output();
    page.quiet(400_000);
    page.quiet(600_000);
    let mut frames = Deframer::new(VIEWER_FRAME_BYTES_MAX);
    frames.push(page.collect_output());
    let mut pings = 0;
    while let Some(frame) = frames.next().unwrap() {
        pings += u32::from(matches!(ViewerMessage::decode(&frame).unwrap(), ViewerMessage::Ping(_)));
    }
    assert_eq!(pings, 2);
}
