//! Updates in datagrams: in any order, twice or never, beside the stream.

use thinc_protocol::arrived::Arrived;
use thinc_protocol::command::Command;
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::session::{Geometry, PROBE, SessionCaps, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerError, ViewerEvent};

const SIZE: Size = Size { width: 40, height: 30 };
/// Longer than any wait for a predecessor.
const LONG: u64 = 30_000;

fn new_viewer() -> Viewer {
    let caps = ViewerCaps::DATAGRAMS;
    let config =
        ViewerConfig { name: "test".into(), size: SIZE, caps, clipboard: ClipboardPolicy::OFF };
    let mut viewer = Viewer::new(&config);
    viewer.poll_transmit(&mut Vec::new());
    viewer
}

fn bytes_of(message: &SessionMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn say(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    viewer.handle_bytes(&bytes_of(message), 0).unwrap();
}

fn greet(viewer: &mut Viewer, caps: u32) {
    say(
        viewer,
        &SessionMessage::Hello(SessionHello {
            version: 1,
            caps,
            name: String::new(),
            message_bytes_max: 65536,
        }),
    );
}

fn show(viewer: &mut Viewer, epoch: u32) {
    say(viewer, &SessionMessage::Geometry(Geometry { epoch, size: SIZE, shown: None }));
}

fn connected() -> Viewer {
    let mut viewer = new_viewer();
    greet(&mut viewer, SessionCaps::DATAGRAMS);
    show(&mut viewer, 1);
    while viewer.poll_event().is_some() {}
    viewer.poll_transmit(&mut Vec::new());
    viewer
}

/// An update that fills a square of four pixels.
fn fill((seq, after): (u64, u64), epoch: u32, x: i32, color: u32) -> Vec<u8> {
    let mut commands = Vec::new();
    Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color }.encode(&mut commands);
    of(seq, after, epoch, &commands)
}

fn of(seq: u64, after: u64, epoch: u32, commands: &[u8]) -> Vec<u8> {
    let update =
        Update { seq, after, epoch, echo: None, end_of_frame: false, packed: None, commands };
    bytes_of(&SessionMessage::Update(update))
}

/// The acknowledgement, if there is a new one.
fn arrived(viewer: &mut Viewer) -> Option<Arrived> {
    let mut out = Vec::new();
    viewer.poll_datagram(&mut out).then(|| {
        match ViewerMessage::decode(&MessageFrame::from_datagram(&out).unwrap()) {
            Ok(ViewerMessage::Arrived(arrived)) => arrived,
            other => panic!("{other:?}"),
        }
    })
}

fn at(viewer: &Viewer, x: usize) -> u32 {
    viewer.framebuffer().row(0)[x] & 0xff_ffff
}

#[test]
fn a_datagram_update_is_applied_acknowledged_and_presented() {
    let mut viewer = connected();
    viewer.handle_datagram(&fill((1, 0), 1, 0, 7), 0).unwrap();
    assert_eq!(at(&viewer, 0), 7);
    assert_eq!(arrived(&mut viewer), Some(Arrived { applied: vec![1..=1], discarded: vec![] }));
    assert_eq!(arrived(&mut viewer), None);
    assert!(
        std::iter::from_fn(|| viewer.poll_event()).any(|event| event == ViewerEvent::FrameEnd),
        "it is presented"
    );
    let mut said = Vec::new();
    assert!(!viewer.poll_transmit(&mut said), "nothing else acknowledges it");
    viewer.handle_timeout(
        viewer.poll_deadline().expect("the acknowledgement is repeated if nothing follows"),
    );
    viewer.poll_transmit(&mut said);
    let mut deframer = Deframer::new(1000);
    deframer.push(&said);
    let again = deframer.next().unwrap().map(|frame| ViewerMessage::decode(&frame).unwrap());
    assert!(matches!(again, Some(ViewerMessage::Arrived(_))), "{again:?}");
    assert_eq!(viewer.poll_deadline(), viewer.liveness_deadline(), "nothing else is due");
}

#[test]
fn updates_of_the_stream_are_acknowledged_too() {
    let mut viewer = connected();
    viewer.handle_datagram(&fill((2, 0), 1, 10, 8), 0).unwrap();
    viewer.handle_bytes(&fill((1, 0), 1, 0, 7), 0).unwrap();
    viewer.handle_bytes(&fill((4, 3), 1, 20, 9), 0).unwrap();
    assert_eq!(
        (at(&viewer, 0), at(&viewer, 10), at(&viewer, 20)),
        (7, 8, 9),
        "the stream's updates do not wait"
    );
    assert_eq!(arrived(&mut viewer).map(|arrived| arrived.applied), Some(vec![4..=4, 1..=2]));
}

#[test]
fn a_burst_whose_end_arrived_first_ends_with_the_missing_update() {
    let mut viewer = connected();
    let mut shows = |bytes: &[u8], alone: bool| {
        if alone {
            viewer.handle_datagram(bytes, 0).unwrap()
        } else {
            viewer.handle_bytes(bytes, 0).unwrap()
        }
        let frames = std::iter::from_fn(|| viewer.poll_event())
            .filter(|event| *event == ViewerEvent::FrameEnd)
            .count();
        if frames > 0 {
            viewer.handle_presented(0);
        }
        (frames, viewer.is_in_frame())
    };
    let mut end = Vec::new();
    Command::Sfill { region: Rect::at(30, 0, 4, 4).into(), color: 9 }.encode(&mut end);
    let end = Update {
        seq: 4,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &end,
    };
    assert_eq!(shows(&fill((1, 0), 1, 0, 7), false), (0, true), "more of the burst is to come");
    assert_eq!(
        shows(&bytes_of(&SessionMessage::Update(end)), true),
        (1, false),
        "a datagram update is presented at once"
    );
    assert_eq!(shows(&fill((2, 0), 1, 10, 7), false), (0, true));
    assert_eq!(
        shows(&fill((3, 0), 1, 20, 7), false),
        (1, false),
        "nothing is missing now, and nothing else would end the burst"
    );
    assert_eq!(shows(&fill((5, 0), 1, 20, 8), false), (0, true), "the next burst is another one");
}

#[test]
fn a_key_is_repeated_in_a_datagram_if_the_session_takes_it() {
    for (caps, said) in
        [(SessionCaps::DATAGRAMS, false), (SessionCaps::DATAGRAMS | SessionCaps::EARLY, true)]
    {
        let mut viewer = new_viewer();
        greet(&mut viewer, caps);
        show(&mut viewer, 1);
        let mut stream = Vec::new();
        viewer.poll_transmit(&mut stream);
        viewer.handle_input(InputEvent::Key { code: 38, keysym: 0x61, down: true }, 1_000);
        viewer.poll_transmit(&mut stream);
        assert!(!viewer.poll_datagram(&mut Vec::new()), "not in the packet that holds the key");
        viewer.handle_timeout(11_000);
        let mut datagram = Vec::new();
        assert_eq!(viewer.poll_datagram(&mut datagram), said);
        if said {
            let early =
                match ViewerMessage::decode(&MessageFrame::from_datagram(&datagram).unwrap()) {
                    Ok(ViewerMessage::Early(early)) => early,
                    other => panic!("{other:?}"),
                };
            assert_eq!(early.offset, 0, "the whole of a short stream");
            assert!(early.bytes.ends_with(&stream), "{early:?} does not end as {stream:?}");
        }
        assert!(!viewer.poll_datagram(&mut Vec::new()), "once");
    }
}

#[test]
fn datagrams_before_the_hello_are_queued() {
    let mut viewer = new_viewer();
    viewer.handle_datagram(&fill((1, 0), 1, 0, 7), 0).unwrap();
    greet(&mut viewer, SessionCaps::DATAGRAMS);
    assert_eq!(arrived(&mut viewer), None);
    show(&mut viewer, 1);
    assert_eq!(at(&viewer, 0), 7);
    viewer.handle_datagram(&fill((2, 0), 2, 0, 8), LONG).unwrap();
    assert_eq!(at(&viewer, 0), 7, "it is for the next geometry");
    show(&mut viewer, 2);
    assert_eq!(at(&viewer, 0), 8);
    viewer.handle_datagram(&fill((3, 0), 1, 0, 9), LONG).unwrap();
    assert_eq!(at(&viewer, 0), 8, "it is for the previous geometry");
    assert_eq!(arrived(&mut viewer).map(|arrived| arrived.applied), Some(vec![1..=3]));
}

#[test]
fn an_update_waits_for_its_predecessor_but_not_forever() {
    let mut viewer = connected();
    viewer.handle_datagram(&fill((2, 1), 1, 0, 8), 0).unwrap();
    assert_eq!((at(&viewer, 0), arrived(&mut viewer)), (0, None));
    viewer.handle_datagram(&fill((1, 0), 1, 0, 7), 500).unwrap();
    assert_eq!(at(&viewer, 0), 8);
    viewer.handle_datagram(&fill((4, 3), 1, 0, 9), 1_000).unwrap();
    let due = viewer.poll_deadline().expect("it has a deadline");
    assert!(due <= 1_000 + LONG);
    viewer.handle_timeout(due);
    assert_eq!(at(&viewer, 0), 9);
    viewer.handle_datagram(&fill((3, 0), 1, 0, 10), LONG).unwrap();
    assert_eq!(at(&viewer, 0), 9, "a late update does not overwrite a newer one");
    assert_eq!(
        arrived(&mut viewer),
        Some(Arrived { applied: vec![4..=4, 1..=2], discarded: vec![3] })
    );
    viewer.handle_datagram(&fill((3, 0), 1, 0, 10), LONG).unwrap();
    viewer.handle_datagram(&fill((4, 0), 1, 0, 11), LONG).unwrap();
    assert_eq!(
        (at(&viewer, 0), viewer.stats().updates_late),
        (9, 1),
        "a duplicate is acknowledged once"
    );
}

#[test]
fn commands_that_need_order_are_refused_in_datagrams() {
    let keep = {
        let mut commands = Vec::new();
        Command::Keep { rect: Rect::at(0, 0, 4, 4), slot: 0 }.encode(&mut commands);
        of(1, 0, 1, &commands)
    };
    let packed = {
        let packed = Some(thinc_protocol::session::Packed { len: 1, reset: true });
        let update = Update {
            seq: 1,
            after: 0,
            epoch: 1,
            echo: None,
            end_of_frame: false,
            packed,
            commands: &[1],
        };
        bytes_of(&SessionMessage::Update(update))
    };
    let cut = fill((1, 0), 1, 0, 7)[..9].to_vec();
    let outside = fill((1, 0), 1, 38, 7);
    for wrong in [keep, packed, cut, outside, bytes_of(&SessionMessage::Pong(1)), vec![], vec![1]] {
        let mut viewer = connected();
        assert!(viewer.handle_datagram(&wrong, 0).is_err(), "{wrong:?}");
        assert!(viewer.is_closed());
        let mut said = Vec::new();
        assert!(viewer.poll_transmit(&mut said), "it sends the reason");
        assert_eq!(viewer.handle_datagram(&fill((1, 0), 1, 0, 7), 0), Err(ViewerError::Ended));
    }
    let mut viewer = connected();
    assert_eq!(viewer.handle_datagram(&PROBE, 0), Ok(()), "a path probe needs no reply");
    assert!(!viewer.poll_datagram(&mut Vec::new()), "the transport has acknowledged it");
    let mut viewer = new_viewer();
    greet(&mut viewer, 0);
    assert!(
        viewer.handle_datagram(&fill((1, 0), 1, 0, 7), 0).is_err(),
        "the session has not announced datagrams"
    );
}
