//! How good pictures are that move: from the viewer's menu to the session's messages. Knows
//! viewer-core's public interface.

use thinc_protocol::framing::Deframer;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::{SessionCaps, SessionHello, SessionMessage};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

fn viewer() -> Viewer {
    Viewer::new(&ViewerConfig {
        name: "t".into(),
        size: Size::default(),
        caps: 0,
        clipboard: ClipboardPolicy::OFF,
    })
}

fn greet(viewer: &mut Viewer, caps: u32) {
    let hello = SessionHello { version: 1, caps, name: "t".into(), message_bytes_max: 65_536 };
    let mut bytes = Vec::new();
    SessionMessage::Hello(hello).encode(&mut bytes);
    viewer.handle_bytes(&bytes, 0).unwrap();
}

/// What it has sent of quality.
fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let (mut bytes, mut frames) = (Vec::new(), Deframer::new(65_536));
    viewer.poll_transmit(&mut bytes);
    frames.push(&bytes);
    let mut messages = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        messages.push(ViewerMessage::decode(&frame).unwrap());
    }
    messages.retain(|message| {
        matches!(message, ViewerMessage::PictureQuality(_) | ViewerMessage::ExactFrame)
    });
    messages
}

#[test]
fn a_choice_is_told_once_the_session_takes_it_and_when_it_changes() {
    let mut viewer = viewer();
    viewer.choose_quality(PictureQuality::Low);
    assert!(!viewer.request_exact_frame());
    assert_eq!(sent(&mut viewer), []);
    greet(&mut viewer, SessionCaps::QUALITY);
    assert!(viewer.takes_quality());
    assert_eq!(sent(&mut viewer), [ViewerMessage::PictureQuality(PictureQuality::Low)]);
    viewer.choose_quality(PictureQuality::Low);
    assert_eq!(sent(&mut viewer), []);
    viewer.choose_quality(PictureQuality::Auto);
    assert!(viewer.request_exact_frame());
    assert_eq!(
        sent(&mut viewer),
        [ViewerMessage::PictureQuality(PictureQuality::Auto), ViewerMessage::ExactFrame]
    );
}

#[test]
fn a_session_that_sends_nothing_lossy_is_told_nothing() {
    let mut viewer = viewer();
    greet(&mut viewer, 0);
    viewer.choose_quality(PictureQuality::Exact);
    assert!(!viewer.request_exact_frame() && !viewer.takes_quality());
    assert_eq!(sent(&mut viewer), []);
}

#[test]
fn who_chooses_nothing_says_nothing() {
    let mut viewer = viewer();
    greet(&mut viewer, SessionCaps::QUALITY);
    assert_eq!(sent(&mut viewer), []);
}
