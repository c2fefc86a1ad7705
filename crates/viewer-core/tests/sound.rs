//! Sound that a viewer has asked for, and that it has not: from the session's messages to the
//! shell's player. Knows viewer-core's public interface.

use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::session::{SessionCaps, SessionHello, SessionMessage};
use thinc_protocol::sound::{
    SoundCodec, SoundFormat, SoundFrame, SoundPacket, SoundState, SoundWant,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, SoundEvent, Viewer, ViewerConfig, ViewerError};

const WANT: SoundWant = SoundWant { codecs: 2, frame_min: 0, bitrate_max: 0, muted: false };
const FORMAT: SoundFormat =
    SoundFormat { generation: 0, codec: SoundCodec::Opus, channels: 2, frame: 480 };

fn packet(number: u32) -> SessionMessage<'static> {
    SessionMessage::Sound(SoundPacket {
        generation: 0,
        number,
        time: 0,
        silence_follows: false,
        discontinuity: false,
        frames: vec![SoundFrame { back: 0, bytes: &[1, 2, 3] }],
    })
}

fn bytes_of(message: &SessionMessage<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn viewer(caps: u32) -> Viewer {
    Viewer::new(&ViewerConfig {
        name: "t".into(),
        size: Size::default(),
        caps,
        clipboard: ClipboardPolicy::OFF,
    })
}

fn greet(viewer: &mut Viewer, caps: u32) {
    let hello = SessionHello { version: 1, caps, name: "t".into(), message_bytes_max: 65_536 };
    viewer.handle_bytes(&bytes_of(&SessionMessage::Hello(hello)), 0).unwrap();
}

/// What it has sent of sound.
fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let (mut bytes, mut frames) = (Vec::new(), Deframer::new(65_536));
    viewer.poll_transmit(&mut bytes);
    frames.push(&bytes);
    let mut messages = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        messages.push(ViewerMessage::decode(&frame).unwrap());
    }
    messages.retain(|message| {
        matches!(message, ViewerMessage::SoundWant(_) | ViewerMessage::SoundState(_))
    });
    messages
}

#[test]
fn what_is_wanted_is_told_once_the_session_has_sound() {
    let mut viewer = viewer(ViewerCaps::SOUND);
    viewer.want_sound(WANT);
    assert_eq!(sent(&mut viewer), []);
    greet(&mut viewer, SessionCaps::SOUND);
    assert!(viewer.has_sound());
    assert_eq!(sent(&mut viewer), [ViewerMessage::SoundWant(WANT)]);
    viewer.want_sound(WANT);
    assert_eq!(sent(&mut viewer), []);
    let muted = SoundWant { muted: true, ..WANT };
    viewer.want_sound(muted);
    viewer.report_sound(SoundState { received: 5, ..SoundState::default() }, 0);
    assert_eq!(
        sent(&mut viewer),
        [
            ViewerMessage::SoundWant(muted),
            ViewerMessage::SoundState(SoundState { received: 5, ..SoundState::default() })
        ]
    );
}

#[test]
fn a_session_without_sound_is_asked_for_none() {
    let mut viewer = viewer(ViewerCaps::SOUND);
    viewer.want_sound(WANT);
    greet(&mut viewer, 0);
    viewer.report_sound(SoundState::default(), 0);
    assert!(!viewer.has_sound());
    assert_eq!(sent(&mut viewer), []);
}

#[test]
fn sound_that_was_not_asked_for_ends_the_connection() {
    for (caps, wants) in [(0, true), (ViewerCaps::SOUND, false)] {
        let players = SessionMessage::SoundPlayers(Vec::new());
        for message in [SessionMessage::SoundFormat(FORMAT), packet(0), players] {
            let mut viewer = viewer(caps);
            if wants {
                viewer.want_sound(WANT);
            }
            greet(&mut viewer, SessionCaps::SOUND);
            let handled = viewer.handle_bytes(&bytes_of(&message), 0);
            assert!(matches!(handled, Err(ViewerError::Order(_))), "{handled:?}");
        }
    }
}

#[test]
fn packets_come_on_the_stream_and_as_datagrams() {
    let mut viewer = viewer(ViewerCaps::SOUND | ViewerCaps::DATAGRAMS);
    viewer.want_sound(WANT);
    greet(&mut viewer, SessionCaps::SOUND | SessionCaps::DATAGRAMS);
    viewer.handle_bytes(&bytes_of(&SessionMessage::SoundFormat(FORMAT)), 5).unwrap();
    viewer.handle_datagram(&bytes_of(&packet(0)), 6).unwrap();
    viewer.handle_bytes(&bytes_of(&packet(1)), 7).unwrap();
    assert_eq!(viewer.poll_sound(), Some(SoundEvent::Format(FORMAT)));
    for (number, at) in [(0, 6), (1, 7)] {
        let Some(SoundEvent::Packet { message, arrived }) = viewer.poll_sound() else {
            panic!("packet {number} is missing")
        };
        let frame = MessageFrame::from_datagram(&message).unwrap();
        assert_eq!((SessionMessage::decode(&frame), arrived), (Ok(packet(number)), at));
    }
    assert_eq!(viewer.poll_sound(), None);
    // A format is on the stream only.
    let handled = viewer.handle_datagram(&bytes_of(&SessionMessage::SoundFormat(FORMAT)), 8);
    assert!(matches!(handled, Err(ViewerError::Order(_))), "{handled:?}");
}

#[test]
fn a_shell_that_does_not_poll_keeps_the_format_and_the_newest_packets() {
    let mut viewer = viewer(ViewerCaps::SOUND);
    viewer.want_sound(WANT);
    greet(&mut viewer, SessionCaps::SOUND);
    viewer.handle_bytes(&bytes_of(&SessionMessage::SoundFormat(FORMAT)), 0).unwrap();
    for number in 0..1000 {
        viewer.handle_bytes(&bytes_of(&packet(number)), 0).unwrap();
    }
    let events: Vec<SoundEvent> = std::iter::from_fn(|| viewer.poll_sound()).collect();
    assert_eq!(events.len(), 64);
    assert_eq!(events[0], SoundEvent::Format(FORMAT));
    let newest = SoundEvent::Packet { message: bytes_of(&packet(999)), arrived: 0 };
    assert_eq!(events.last(), Some(&newest));
}
