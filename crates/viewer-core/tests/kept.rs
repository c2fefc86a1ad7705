//! What a viewer keeps of its picture for one that begins anew: what rests and is exact, once; and the picture comes back as it was.
//! From a connection's updates, to a shell's store and back.
//! Knows viewer-core's public face.

use thinc_protocol::command::Command;
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Shows, Update};
use thinc_protocol::video::{Codec, Source, VideoCommand};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Size};
use thinc_viewer_core::{ClipboardPolicy, Kept, Urgency, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 300, height: 140 };
const SECOND: u64 = 1_000_000;
/// The first tile; there are three in the first row, and the second has 12 rows of pixels.
const FIRST: Rect = Rect::new(0, 0, 128, 128);

fn hear(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, 0).expect("what a session says");
}

fn opened(size: Size, shows: Option<Shows>) -> Viewer {
    let config = ViewerConfig {
        name: "test".into(),
        size: Size::default(),
        caps: ViewerCaps::VIDEO,
        clipboard: ClipboardPolicy::OFF,
    };
    let mut viewer = Viewer::new(&config);
    greet(&mut viewer, size, shows);
    viewer
}

fn greet(viewer: &mut Viewer, size: Size, shows: Option<Shows>) {
    let hello = SessionHello { version: 1, caps: 0, name: "demo".into(), frame_bytes_max: 65536 };
    hear(viewer, &SessionMessage::Hello(hello));
    hear(viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size, shows }));
}

fn draw(viewer: &mut Viewer, seq: u64, command: &Command<'_>) {
    let mut commands = Vec::new();
    command.encode(&mut commands);
    let update = Update { seq, after: 0, epoch: 1, echo: None, end_of_frame: true, packed: None, commands: &commands };
    hear(viewer, &SessionMessage::Update(update));
}

fn fill(viewer: &mut Viewer, seq: u64, rect: Rect, color: u32) {
    draw(viewer, seq, &Command::Sfill { region: rect.into(), color });
}

fn present(kept: &mut Kept, viewer: &mut Viewer, now: u64) {
    let damage = viewer.take_damage();
    viewer.handle_presented(now);
    kept.handle_damage(viewer, damage.rects().iter().copied(), now);
}

fn tiles(kept: &mut Kept, viewer: &Viewer, urgency: Urgency, now: u64) -> Vec<(Rect, Vec<u8>)> {
    let mut bytes = Vec::new();
    std::iter::from_fn(|| kept.poll(viewer, urgency, now, &mut bytes).map(|rect| (rect, bytes.clone()))).collect()
}

fn places(tiles: &[(Rect, Vec<u8>)]) -> Vec<Rect> {
    tiles.iter().map(|(rect, _)| *rect).collect()
}

#[test]
fn what_rests_is_kept_once_and_what_does_not_ever_more_rarely() {
    let mut viewer = opened(SIZE, None);
    let mut kept = Kept::NOTHING;
    assert_eq!(kept.deadline(&viewer), None);
    fill(&mut viewer, 1, SIZE.rect(), 0x11_2233);
    present(&mut kept, &mut viewer, 0);
    assert_eq!(kept.deadline(&viewer), Some(SECOND));
    assert!(tiles(&mut kept, &viewer, Urgency::Rested, SECOND - 1).is_empty());
    let all = tiles(&mut kept, &viewer, Urgency::Rested, SECOND);
    assert_eq!(all.iter().map(|(rect, _)| rect.area()).sum::<u64>(), SIZE.area());
    assert!(all.iter().all(|(rect, bytes)| bytes == &[0x33, 0x22, 0x11].repeat(rect.area() as usize)));
    assert_eq!(kept.deadline(&viewer), None);

    // One tile changes ten times a second.
    let mut when = Vec::new();
    for tenth in 20..=200 {
        let now = tenth * SECOND / 10;
        fill(&mut viewer, tenth, Rect::at(5, 5, 1, 1), tenth as u32);
        present(&mut kept, &mut viewer, now);
        let due = tiles(&mut kept, &viewer, Urgency::Rested, now);
        assert!(due.iter().all(|(rect, _)| *rect == FIRST));
        when.extend(due.iter().map(|_| tenth));
    }
    assert_eq!(when, [70, 171], "in tenths of a second: after five seconds, and then ten");
    assert_eq!(places(&tiles(&mut kept, &viewer, Urgency::Last, 20 * SECOND)), [FIRST], "there may be no later");
    assert!(tiles(&mut kept, &viewer, Urgency::Last, 20 * SECOND).is_empty());
    // It rests, and begins again.
    let after = |kept: &mut Kept, viewer: &mut Viewer, seq, at: u64| {
        fill(viewer, seq, Rect::at(5, 5, 1, 1), seq as u32);
        present(kept, viewer, at * SECOND);
        kept.deadline(viewer).map(|due| due - at * SECOND)
    };
    assert_eq!(after(&mut kept, &mut viewer, 300, 30), Some(SECOND));
    assert_eq!(places(&tiles(&mut kept, &viewer, Urgency::Rested, 31 * SECOND)), [FIRST]);
    for tenth in 0..40 {
        fill(&mut viewer, 301 + tenth, Rect::at(5, 5, 1, 1), tenth as u32);
        present(&mut kept, &mut viewer, 40 * SECOND + tenth * SECOND / 10);
    }
    assert_eq!(after(&mut kept, &mut viewer, 350, 44), Some(SECOND));
    assert_eq!(after(&mut kept, &mut viewer, 351, 45), Some(0), "five seconds, as at first");
    assert_eq!(places(&tiles(&mut kept, &viewer, Urgency::Rested, 45 * SECOND)), [FIRST]);

    // Painted again, and no different.
    fill(&mut viewer, 400, Rect::at(128, 0, 100, 100), 0x11_2233);
    present(&mut kept, &mut viewer, 50 * SECOND);
    assert!(tiles(&mut kept, &viewer, Urgency::Rested, 52 * SECOND).is_empty());
    kept.forget();
    fill(&mut viewer, 401, Rect::at(128, 0, 100, 100), 0x11_2233);
    present(&mut kept, &mut viewer, 60 * SECOND);
    assert_eq!(places(&tiles(&mut kept, &viewer, Urgency::Rested, 61 * SECOND)), [Rect::new(128, 0, 256, 128)]);
}

#[test]
fn what_is_not_exact_or_plays_is_not_kept() {
    let mut viewer = opened(SIZE, None);
    let mut kept = Kept::NOTHING;
    let exact = Rect::new(0, 0, 256, 140);
    fill(&mut viewer, 1, exact, 1);
    let source = Source { size: Size { width: 16, height: 16 }, crop: Rect::new(0, 0, 16, 16) };
    let init = VideoCommand::Init { id: 0, codec: Codec::None, source, place: Rect::at(0, 0, 32, 32) };
    draw(&mut viewer, 2, &Command::Video(init));
    present(&mut kept, &mut viewer, 0);
    let first = tiles(&mut kept, &viewer, Urgency::Last, 2 * SECOND);
    assert_eq!(
        places(&first),
        [Rect::new(128, 0, 256, 128), Rect::new(0, 128, 128, 140), Rect::new(128, 128, 256, 140)],
        "the rest is not known to be exact, and where the video is it goes on"
    );
    let again = kept.deadline(&viewer).expect("they are looked at again");
    assert_eq!(again, 7 * SECOND, "which costs next to nothing");
    // It ends, and what is there is exact: nothing is drawn.
    draw(&mut viewer, 3, &Command::Video(VideoCommand::End { id: 0 }));
    draw(&mut viewer, 4, &Command::Copy { region: SIZE.rect().into(), dx: 0, dy: 0 });
    assert!(!viewer.has_damage());
    let second = tiles(&mut kept, &viewer, Urgency::Rested, again);
    assert_eq!(places(&second), [FIRST, Rect::new(256, 0, 300, 128), Rect::new(256, 128, 300, 140)]);
}

#[test]
fn another_picture_is_kept_anew_and_the_same_one_is_not() {
    let mut viewer = opened(SIZE, None);
    let mut kept = Kept::NOTHING;
    fill(&mut viewer, 1, SIZE.rect(), 7);
    present(&mut kept, &mut viewer, 0);
    let stored = tiles(&mut kept, &viewer, Urgency::Last, 0);
    assert_eq!(stored.len(), 6);

    // A connection that shows the same.
    let mut next = opened(SIZE, None);
    next.take_damage();
    kept.handle_damage(&Viewer::new(&config()), std::iter::empty(), 1);
    fill(&mut next, 1, SIZE.rect(), 7);
    present(&mut kept, &mut next, 2);
    assert!(tiles(&mut kept, &next, Urgency::Last, 2).is_empty());
    // Another part of the screen, in a picture of the same size.
    let shows = Shows { screen: Size { width: 600, height: 140 }, part: Rect::at(300, 0, 300, 140) };
    let mut other = opened(SIZE, Some(shows));
    assert_eq!(kept.deadline(&other), None, "nothing of it was shown");
    fill(&mut other, 1, SIZE.rect(), 7);
    assert!(tiles(&mut kept, &other, Urgency::Last, 3).is_empty());
    present(&mut kept, &mut other, 4);
    assert_eq!(tiles(&mut kept, &other, Urgency::Last, 4).len(), 6);
}

fn config() -> ViewerConfig {
    ViewerConfig { name: String::new(), size: Size::default(), caps: 0, clipboard: ClipboardPolicy::OFF }
}

#[test]
fn what_was_restored_is_shown_and_is_not_kept_again() {
    let mut viewer = opened(SIZE, None);
    fill(&mut viewer, 1, SIZE.rect(), 0x20_4060);
    fill(&mut viewer, 2, Rect::new(100, 100, 280, 135), 0x01_0203);
    let mut kept = Kept::NOTHING;
    present(&mut kept, &mut viewer, 0);
    let stored = tiles(&mut kept, &viewer, Urgency::Last, 0);

    let (mut kept, mut earlier) = Kept::restore(SIZE, SIZE.rect()).expect("a screen");
    assert_eq!(earlier.inexact().pixels(), SIZE.area());
    for (rect, bytes) in &stored {
        assert!(kept.restore_tile(&mut earlier, (rect.x1 as u32, rect.y1 as u32), bytes));
    }
    assert_eq!(earlier.framebuffer().pixels(), viewer.framebuffer().pixels());
    assert!(earlier.inexact().is_empty() && earlier.has_damage());
    assert_eq!(kept.deadline(&earlier), None);

    let mut next = Viewer::new(&config());
    next.lie_over(&mut earlier, [3; 32]);
    greet(&mut next, SIZE, None);
    present(&mut kept, &mut next, 0);
    draw(&mut next, 1, &Command::Copy { region: SIZE.rect().into(), dx: 0, dy: 0 });
    assert!(next.inexact().is_empty(), "the session had only to say so");
    assert_eq!(next.framebuffer().pixels(), viewer.framebuffer().pixels());
    fill(&mut next, 2, Rect::at(0, 0, 1, 1), 0);
    present(&mut kept, &mut next, 1);
    assert_eq!(places(&tiles(&mut kept, &next, Urgency::Rested, 10 * SECOND)), [FIRST]);
}
