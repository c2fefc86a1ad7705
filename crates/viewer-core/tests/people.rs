//! Who shows the session: from the session's messages to events, and from the shell's requests to
//! messages. Knows viewer-core's public interface.

use thinc_protocol::framing::Deframer;
use thinc_protocol::people::{People, Person, PersonPointer, Share, ShareAction, Shared};
use thinc_protocol::session::{SessionHello, SessionMessage};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::Size;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerError, ViewerEvent};

fn say(viewer: &mut Viewer, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    viewer.handle_bytes(&bytes, 0)
}

fn connected() -> Viewer {
    let mut viewer = Viewer::new(&ViewerConfig {
        name: "t".into(),
        size: Size::default(),
        caps: 0,
        clipboard: ClipboardPolicy::OFF,
    });
    let hello = SessionHello { version: 1, caps: 0, name: "t".into(), message_bytes_max: 65_536 };
    say(&mut viewer, &SessionMessage::Hello(hello)).unwrap();
    events(&mut viewer);
    sent(&mut viewer);
    viewer
}

fn events(viewer: &mut Viewer) -> Vec<ViewerEvent> {
    std::iter::from_fn(|| viewer.poll_event()).collect()
}

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

fn two() -> People {
    let person = |number| Person { number, ..Person::default() };
    People { own: 1, people: vec![person(1), person(2), person(3)] }
}

#[test]
fn the_newest_list_and_the_newest_place_of_each_pointer_wait_for_the_shell() {
    let mut viewer = connected();
    let at = |number, x| PersonPointer { number, x, y: 0 };
    say(&mut viewer, &SessionMessage::People(People::default())).unwrap();
    say(&mut viewer, &SessionMessage::People(two())).unwrap();
    for pointer in [at(2, 1), at(3, 1), at(2, 2)] {
        say(&mut viewer, &SessionMessage::PersonPointer(pointer)).unwrap();
    }
    assert_eq!(
        events(&mut viewer),
        [
            ViewerEvent::People(two()),
            ViewerEvent::PersonPointer(at(3, 1)),
            ViewerEvent::PersonPointer(at(2, 2)),
        ]
    );
    // Nobody else can fill the queue.
    let nobody = SessionMessage::PersonPointer(at(4, 1));
    assert!(matches!(say(&mut viewer, &nobody), Err(ViewerError::Order(_))));
}

#[test]
fn each_request_is_answered_once_and_few_are_unanswered() {
    let mut viewer = connected();
    let action = ShareAction::GiveControl(1);
    for request in 1..=8 {
        assert!(viewer.share(request, action.clone()));
    }
    assert!(!viewer.share(9, action.clone()) && !viewer.share(1, action.clone()));
    let want: Vec<_> = (1..=8)
        .map(|request| ViewerMessage::Share(Share { request, action: action.clone() }))
        .collect();
    assert_eq!(sent(&mut viewer), want);
    let answer = |request| Shared { request, result: Err("no".into()) };
    for request in [8, 1] {
        say(&mut viewer, &SessionMessage::Shared(answer(request))).unwrap();
    }
    let told = [8, 1].map(|request| ViewerEvent::Shared(answer(request)));
    assert_eq!(events(&mut viewer), told);
    assert!(viewer.share(9, action));
    let again = SessionMessage::Shared(answer(8));
    assert!(matches!(say(&mut viewer, &again), Err(ViewerError::Order(_))));
}
