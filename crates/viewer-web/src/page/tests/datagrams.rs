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
fn an_unresponsive_session_is_probed_reported_and_replaced() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    page.collect_output();
    let (mut stages, mut pings) = (vec![page.liveness()], 0);
    while page.liveness() != Liveness::Dead {
        page.timeout(page.deadline());
        if page.liveness() != stages[stages.len() - 1] {
            stages.push(page.liveness());
        }
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        while let Some(frame) = frames.next().unwrap() {
            let message = ViewerMessage::decode(&frame).unwrap();
            pings += u32::from(matches!(message, ViewerMessage::Ping(_)));
        }
    }
    let all = [Liveness::Responsive, Liveness::Unresponsive, Liveness::Replaceable, Liveness::Dead];
    assert_eq!(stages, all);
    assert_eq!(all.map(|liveness| liveness as u32), [0, 1, 2, 3], "as the page numbers them");
    assert!(pings > 10, "{pings}");
}

#[test]
fn attempts_are_counted_until_a_session_answers() {
    let mut page = connected_page(Size { width: 4, height: 3 });
    while page.next_event() != EventKind::None {}
    assert_eq!(page.attempt_interval(1_000), None, "no connection was lost");
    page.begin_attempts(1_000);
    assert_eq!(page.attempt_interval(1_000), Some(300_000));
    assert_eq!([0, 1].map(|_| page.attempt_wait(0)), [0, 50_000]);
    assert_eq!(page.attempts(), 2);
    page.open(0, Size::default());
    let hello =
        SessionHello { version: VERSION, caps: 0, name: String::new(), message_bytes_max: 65536 };
    deliver(&mut page, &SessionMessage::Hello(hello)).unwrap();
    assert_eq!(page.attempts(), 2, "nothing has read it");
    assert_eq!(page.next_event(), EventKind::Connected);
    assert_eq!((page.attempts(), page.attempt_interval(1_000)), (0, None));
}
