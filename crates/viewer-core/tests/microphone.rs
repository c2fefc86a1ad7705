//! A viewer's microphone: given when the session wants it, and never in the way of input. Knows
//! viewer-core's public interface.

use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::microphone::{MicrophoneState, MicrophoneWant};
use thinc_protocol::session::{SessionCaps, SessionHello, SessionMessage};
use thinc_protocol::viewer::{InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerError, ViewerEvent};

const WANT: MicrophoneWant =
    MicrophoneWant { generation: 1, wanted: true, channels: 1, frame: 480 };

fn handle(viewer: &mut Viewer, message: &SessionMessage<'_>, now: u64) -> Result<(), ViewerError> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    viewer.handle_bytes(&bytes, now)
}

/// A connected viewer; with `datagrams` or on a stream alone.
fn viewer(datagrams: bool, caps: u32) -> Viewer {
    let (of_viewer, of_session) = match datagrams {
        true => (ViewerCaps::DATAGRAMS, SessionCaps::DATAGRAMS),
        false => (0, 0),
    };
    let mut viewer = Viewer::new(&ViewerConfig {
        name: "t".into(),
        size: Size::default(),
        caps: caps | of_viewer,
        clipboard: ClipboardPolicy::OFF,
    });
    let caps = SessionCaps::MICROPHONE | of_session;
    let hello = SessionHello { version: 1, caps, name: "t".into(), message_bytes_max: 65_536 };
    handle(&mut viewer, &SessionMessage::Hello(hello), 0).unwrap();
    // The first ping is answered: the path is not blocked.
    for message in sent(&mut viewer) {
        if let ViewerMessage::Ping(number) = message {
            handle(&mut viewer, &SessionMessage::Pong(number), 0).unwrap();
        }
    }
    viewer
}

/// What it has sent on the stream.
fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let (mut bytes, mut frames) = (Vec::new(), Deframer::new(65_536));
    viewer.poll_transmit(&mut bytes);
    frames.push(&bytes);
    let mut messages = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        messages.push(ViewerMessage::decode(&frame).unwrap());
    }
    messages
}

/// The numbers of the packets' frames, and the packets' times, in the datagrams that wait.
fn datagrams(viewer: &mut Viewer) -> Vec<(Vec<u32>, u64)> {
    let (mut found, mut bytes) = (Vec::new(), Vec::new());
    while viewer.poll_datagram(&mut bytes) {
        let frame = MessageFrame::from_datagram(&bytes).unwrap();
        let Ok(ViewerMessage::Microphone(sound)) = ViewerMessage::decode(&frame) else {
            panic!("only sound is here")
        };
        let packet = sound.packet();
        assert_eq!(packet.generation, 1);
        let numbers = packet.frames.iter().map(|f| packet.number - u32::from(f.back));
        found.push((numbers.collect(), packet.time));
        bytes.clear();
    }
    found
}

fn want(viewer: &mut Viewer, want: MicrophoneWant, now: u64) -> Option<MicrophoneWant> {
    handle(viewer, &SessionMessage::MicrophoneWant(want), now).unwrap();
    let event = std::iter::from_fn(|| viewer.poll_event()).last();
    let Some(ViewerEvent::MicrophoneWanted(wanted)) = event else { panic!("{event:?}") };
    assert_eq!(viewer.microphone_wanted(), wanted);
    wanted
}

#[test]
fn it_sends_what_is_wanted_and_given_and_nothing_else() {
    let mut viewer = viewer(true, ViewerCaps::MICROPHONE);
    viewer.give_microphone(true);
    viewer.handle_microphone_frame(&[1], 0, 0);
    assert_eq!((sent(&mut viewer), datagrams(&mut viewer)), (vec![], vec![]), "nobody asks");
    assert_eq!(want(&mut viewer, WANT, 0), Some(WANT));
    viewer.handle_microphone_frame(&[1], 0, 0);
    assert!(datagrams(&mut viewer).is_empty(), "the person has not answered");
    viewer.give_microphone(true);
    let given = |generation, given| {
        vec![ViewerMessage::MicrophoneState(MicrophoneState { generation, given })]
    };
    assert_eq!(sent(&mut viewer), given(1, true));
    for n in 0..3 {
        viewer.handle_microphone_frame(&[1; 80], n * 10_000, n * 10_000);
    }
    let expected = [(vec![0], 10_000), (vec![1, 0], 20_000)];
    assert_eq!(datagrams(&mut viewer), expected, "the oldest does not wait");
    viewer.handle_microphone_frame(&[1; 80], 30_000, 30_000);
    assert_eq!(datagrams(&mut viewer), [(vec![2, 1], 30_000)]);
    viewer.give_microphone(false);
    viewer.handle_microphone_frame(&[1; 80], 40_000, 40_000);
    assert!(datagrams(&mut viewer).is_empty(), "the person has closed it");
    assert_eq!(sent(&mut viewer), given(1, false));
    viewer.give_microphone(true);
    let over = MicrophoneWant { generation: 2, wanted: false, ..WANT };
    assert_eq!(want(&mut viewer, over, 0), None);
    viewer.handle_microphone_frame(&[1; 80], 50_000, 50_000);
    assert!(datagrams(&mut viewer).is_empty(), "nobody records");
}

#[test]
fn on_a_stream_it_goes_behind_input_and_is_dropped_while_the_path_is_blocked() {
    let mut viewer = viewer(false, ViewerCaps::MICROPHONE);
    want(&mut viewer, WANT, 0);
    viewer.give_microphone(true);
    sent(&mut viewer);
    let frame = |viewer: &mut Viewer, now| viewer.handle_microphone_frame(&[1; 80], now, now);
    frame(&mut viewer, 2_000_000);
    viewer.handle_input(InputEvent::Char('x'), 2_000_000);
    let messages = sent(&mut viewer);
    let at = |wanted: fn(&ViewerMessage) -> bool| messages.iter().position(wanted).unwrap();
    let key = at(|message| matches!(message, ViewerMessage::Input(_)));
    let sound = at(|message| matches!(message, ViewerMessage::Microphone(_)));
    let ping = at(|message| matches!(message, ViewerMessage::Ping(_)));
    assert!(key < sound && ping < sound, "{messages:?}");
    assert!(datagrams(&mut viewer).is_empty());
    // The ping stays unanswered: soon nothing is written that would wait before a key.
    let mut packets = 0;
    for n in 1..100u64 {
        frame(&mut viewer, 2_000_000 + n * 10_000);
        packets += sent(&mut viewer).len();
    }
    assert_eq!(packets, 20, "those of 0.2 s");
    let ViewerMessage::Ping(number) = messages[ping] else { unreachable!() };
    handle(&mut viewer, &SessionMessage::Pong(number), 3_000_000).unwrap();
    frame(&mut viewer, 3_000_000);
    let sound = sent(&mut viewer).into_iter().find_map(|message| match message {
        ViewerMessage::Microphone(sound) => Some(sound.packet().discontinuity),
        _ => None,
    });
    assert_eq!(sound, Some(true), "it goes on, and says that some is missing");
}

#[test]
fn a_session_cannot_want_a_microphone_that_was_not_announced() {
    let mut viewer = viewer(false, 0);
    let result = handle(&mut viewer, &SessionMessage::MicrophoneWant(WANT), 0);
    assert!(matches!(result, Err(ViewerError::Order(_))), "{result:?}");
}
