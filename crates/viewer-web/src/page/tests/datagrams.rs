//! Datagrams, and probes of an unresponsive session.

use thinc_protocol::session::SessionCaps;

use super::*;

#[test]
fn datagram_updates_are_applied_and_acknowledged_if_the_connection_has_datagrams() {
    let mut page = Page::new();
    let mut commands = Vec::new();
    Command::Sfill { region: Rect::new(0, 0, 4, 3).into(), color: 0x11_22_33 }
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
    let mut datagrams = Vec::new();
    SessionMessage::Update(update).encode(&mut datagrams);
    for carries in [true, false] {
        page.set_datagrams(carries);
        page.open(0, Size::default());
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        let hello = ViewerMessage::decode(&frames.next().unwrap().unwrap()).unwrap();
        let ViewerMessage::Hello(hello) = hello else { panic!("{hello:?} is no hello") };
        assert_eq!(hello.caps & ViewerCaps::DATAGRAMS != 0, carries);
        let caps = SessionCaps::DATAGRAMS;
        let hello =
            SessionHello { version: VERSION, caps, name: String::new(), message_bytes_max: 65536 };
        deliver(&mut page, &SessionMessage::Hello(hello)).unwrap();
        let size = Size { width: 4, height: 3 };
        deliver(&mut page, &SessionMessage::Geometry(Geometry { epoch: 1, size, shown: None }))
            .unwrap();
        assert!(page.collect_datagram().is_empty());
        page.buffer(datagrams.len());
        page.buffer[..datagrams.len()].copy_from_slice(&datagrams);
        assert_eq!(page.datagram(datagrams.len(), 1_000).is_ok(), carries, "{}", page.text());
        assert_eq!(!page.collect_datagram().is_empty(), carries);
        assert_eq!(
            page.collect_stats()[..2],
            [f64::from(u8::from(carries)); 2],
            "updates, and those that arrived as datagrams"
        );
    }
}

#[test]
fn an_unresponsive_session_is_probed_again() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    page.collect_output();
    page.repeat_liveness_probe(400_000);
    page.repeat_liveness_probe(600_000);
    let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
    frames.push(page.collect_output());
    let mut pings = 0;
    while let Some(frame) = frames.next().unwrap() {
        pings +=
            u32::from(matches!(ViewerMessage::decode(&frame).unwrap(), ViewerMessage::Ping(_)));
    }
    assert_eq!(pings, 2);
}
