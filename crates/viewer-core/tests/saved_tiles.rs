//! Tiles of the framebuffer that are saved for a reloaded page: lossless ones at rest, once; and
//! they are restored unchanged. From a connection's updates, to a shell's store and back. Knows
//! viewer-core's public interface.

use thinc_protocol::command::Command;
use thinc_protocol::session::{Geometry, ScreenPart, SessionHello, SessionMessage, Update};
use thinc_protocol::video::{Codec, Eye, Source, VideoCommand};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Size};
use thinc_viewer_core::{ClipboardPolicy, SavedTiles, Urgency, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 300, height: 140 };
const SECOND: u64 = 1_000_000;
/// The first tile; the first row has three, and the second row is 12 pixels high.
const FIRST: Rect = Rect::new(0, 0, 128, 128);

fn receive(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, 0).expect("a valid message");
}

fn opened(size: Size, shown: Option<ScreenPart>) -> Viewer {
    let config = ViewerConfig {
        name: "test".into(),
        size: Size::default(),
        caps: ViewerCaps::VIDEO,
        clipboard: ClipboardPolicy::OFF,
    };
    let mut viewer = Viewer::new(&config);
    greet(&mut viewer, size, shown);
    viewer
}

fn greet(viewer: &mut Viewer, size: Size, shown: Option<ScreenPart>) {
    let hello = SessionHello { version: 1, caps: 0, name: "demo".into(), message_bytes_max: 65536 };
    receive(viewer, &SessionMessage::Hello(hello));
    receive(viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size, shown }));
}

fn draw(viewer: &mut Viewer, seq: u64, command: &Command<'_>) {
    let mut commands = Vec::new();
    command.encode(&mut commands);
    let update = Update {
        seq,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &commands,
    };
    receive(viewer, &SessionMessage::Update(update));
}

fn fill(viewer: &mut Viewer, seq: u64, rect: Rect, color: u32) {
    draw(viewer, seq, &Command::Sfill { region: rect.into(), color });
}

fn present(saved: &mut SavedTiles, viewer: &mut Viewer, now: u64) {
    let damage = viewer.take_damage();
    viewer.handle_presented(now);
    saved.handle_damage(viewer, damage.rects().iter().copied(), now);
}

fn tiles(
    saved: &mut SavedTiles,
    viewer: &Viewer,
    urgency: Urgency,
    now: u64,
) -> Vec<(Rect, Vec<u8>)> {
    let mut bytes = Vec::new();
    std::iter::from_fn(|| {
        saved.poll(viewer, urgency, now, &mut bytes).map(|rect| (rect, bytes.clone()))
    })
    .collect()
}

fn places(tiles: &[(Rect, Vec<u8>)]) -> Vec<Rect> {
    tiles.iter().map(|(rect, _)| *rect).collect()
}

#[test]
fn tiles_at_rest_are_saved_once_and_changing_ones_ever_more_rarely() {
    let mut viewer = opened(SIZE, None);
    let mut saved = SavedTiles::NONE;
    assert_eq!(saved.deadline(&viewer), None);
    fill(&mut viewer, 1, SIZE.rect(), 0x11_2233);
    present(&mut saved, &mut viewer, 0);
    assert_eq!(saved.deadline(&viewer), Some(SECOND));
    assert!(tiles(&mut saved, &viewer, Urgency::AtRest, SECOND - 1).is_empty());
    let all = tiles(&mut saved, &viewer, Urgency::AtRest, SECOND);
    assert_eq!(all.iter().map(|(rect, _)| rect.area()).sum::<u64>(), SIZE.area());
    assert!(
        all.iter().all(|(rect, bytes)| bytes == &[0x33, 0x22, 0x11].repeat(rect.area() as usize))
    );
    assert_eq!(saved.deadline(&viewer), None);

    // One tile changes ten times a second.
    let mut when = Vec::new();
    for tenth in 20..=200 {
        let now = tenth * SECOND / 10;
        fill(&mut viewer, tenth, Rect::at(5, 5, 1, 1), tenth as u32);
        present(&mut saved, &mut viewer, now);
        let due = tiles(&mut saved, &viewer, Urgency::AtRest, now);
        assert!(due.iter().all(|(rect, _)| *rect == FIRST));
        when.extend(due.iter().map(|_| tenth));
    }
    assert_eq!(when, [70, 171], "in tenths of a second: after five seconds, and then ten");
    assert_eq!(
        places(&tiles(&mut saved, &viewer, Urgency::Final, 20 * SECOND)),
        [FIRST],
        "there may be no later occasion"
    );
    assert!(tiles(&mut saved, &viewer, Urgency::Final, 20 * SECOND).is_empty());
    // It rests, and starts to change again.
    let after = |saved: &mut SavedTiles, viewer: &mut Viewer, seq, at: u64| {
        fill(viewer, seq, Rect::at(5, 5, 1, 1), seq as u32);
        present(saved, viewer, at * SECOND);
        saved.deadline(viewer).map(|due| due - at * SECOND)
    };
    assert_eq!(after(&mut saved, &mut viewer, 300, 30), Some(SECOND));
    assert_eq!(places(&tiles(&mut saved, &viewer, Urgency::AtRest, 31 * SECOND)), [FIRST]);
    for tenth in 0..40 {
        fill(&mut viewer, 301 + tenth, Rect::at(5, 5, 1, 1), tenth as u32);
        present(&mut saved, &mut viewer, 40 * SECOND + tenth * SECOND / 10);
    }
    assert_eq!(after(&mut saved, &mut viewer, 350, 44), Some(SECOND));
    assert_eq!(after(&mut saved, &mut viewer, 351, 45), Some(0), "five seconds, as at first");
    assert_eq!(places(&tiles(&mut saved, &viewer, Urgency::AtRest, 45 * SECOND)), [FIRST]);

    // Painted again with the same pixels.
    fill(&mut viewer, 400, Rect::at(128, 0, 100, 100), 0x11_2233);
    present(&mut saved, &mut viewer, 50 * SECOND);
    assert!(tiles(&mut saved, &viewer, Urgency::AtRest, 52 * SECOND).is_empty());
    saved.forget();
    fill(&mut viewer, 401, Rect::at(128, 0, 100, 100), 0x11_2233);
    present(&mut saved, &mut viewer, 60 * SECOND);
    assert_eq!(
        places(&tiles(&mut saved, &viewer, Urgency::AtRest, 61 * SECOND)),
        [Rect::new(128, 0, 256, 128)]
    );
}

#[test]
fn lossy_tiles_and_videos_are_not_saved() {
    let mut viewer = opened(SIZE, None);
    let mut saved = SavedTiles::NONE;
    let exact = Rect::new(0, 0, 256, 140);
    fill(&mut viewer, 1, exact, 1);
    let source = Source { size: Size { width: 16, height: 16 }, crop: Rect::new(0, 0, 16, 16) };
    let (codec, place) = (Codec::None, Rect::at(0, 0, 32, 32));
    let init = VideoCommand::Init { id: 0, codec, eye: Eye::Left, source, place };
    draw(&mut viewer, 2, &Command::Video(init));
    present(&mut saved, &mut viewer, 0);
    let first = tiles(&mut saved, &viewer, Urgency::Final, 2 * SECOND);
    assert_eq!(
        places(&first),
        [Rect::new(128, 0, 256, 128), Rect::new(0, 128, 128, 140), Rect::new(128, 128, 256, 140)],
        "the rest is lossy, and the video changes on"
    );
    let again = saved.deadline(&viewer).expect("they are checked again later");
    assert_eq!(again, 7 * SECOND, "which is cheap");
    // It ends and its area is lossless: nothing is drawn.
    draw(&mut viewer, 3, &Command::Video(VideoCommand::End { id: 0 }));
    draw(&mut viewer, 4, &Command::Copy { region: SIZE.rect().into(), dx: 0, dy: 0 });
    assert!(!viewer.has_damage());
    let second = tiles(&mut saved, &viewer, Urgency::AtRest, again);
    assert_eq!(
        places(&second),
        [FIRST, Rect::new(256, 0, 300, 128), Rect::new(256, 128, 300, 140)]
    );
}

#[test]
fn a_new_geometry_is_saved_again_and_the_same_one_is_not() {
    let mut viewer = opened(SIZE, None);
    let mut saved = SavedTiles::NONE;
    fill(&mut viewer, 1, SIZE.rect(), 7);
    present(&mut saved, &mut viewer, 0);
    let stored = tiles(&mut saved, &viewer, Urgency::Final, 0);
    assert_eq!(stored.len(), 6);

    // A connection with the same screen.
    let mut next = opened(SIZE, None);
    next.take_damage();
    saved.handle_damage(&Viewer::new(&config()), std::iter::empty(), 1);
    fill(&mut next, 1, SIZE.rect(), 7);
    present(&mut saved, &mut next, 2);
    assert!(tiles(&mut saved, &next, Urgency::Final, 2).is_empty());
    // Another part of the screen, in a framebuffer of the same size.
    let shown =
        ScreenPart { screen: Size { width: 600, height: 140 }, part: Rect::at(300, 0, 300, 140) };
    let mut other = opened(SIZE, Some(shown));
    assert_eq!(saved.deadline(&other), None, "no part of it was presented");
    fill(&mut other, 1, SIZE.rect(), 7);
    assert!(tiles(&mut saved, &other, Urgency::Final, 3).is_empty());
    present(&mut saved, &mut other, 4);
    assert_eq!(tiles(&mut saved, &other, Urgency::Final, 4).len(), 6);
}

fn config() -> ViewerConfig {
    ViewerConfig {
        name: String::new(),
        size: Size::default(),
        caps: 0,
        clipboard: ClipboardPolicy::OFF,
    }
}

#[test]
fn restored_tiles_are_shown_and_not_saved_again() {
    let mut viewer = opened(SIZE, None);
    fill(&mut viewer, 1, SIZE.rect(), 0x20_4060);
    fill(&mut viewer, 2, Rect::new(100, 100, 280, 135), 0x01_0203);
    let mut saved = SavedTiles::NONE;
    present(&mut saved, &mut viewer, 0);
    let stored = tiles(&mut saved, &viewer, Urgency::Final, 0);

    let (mut saved, mut earlier) = SavedTiles::restore(SIZE, SIZE.rect()).expect("a screen");
    assert_eq!(earlier.lossy().pixels(), SIZE.area());
    for (rect, bytes) in &stored {
        assert!(saved.restore_tile(&mut earlier, (rect.x1 as u32, rect.y1 as u32), bytes));
    }
    assert_eq!(earlier.framebuffer().pixels(), viewer.framebuffer().pixels());
    assert!(earlier.lossy().is_empty() && earlier.has_damage());
    assert_eq!(saved.deadline(&earlier), None);

    let mut next = Viewer::new(&config());
    next.continue_from(&mut earlier, [3; 32]);
    greet(&mut next, SIZE, None);
    present(&mut saved, &mut next, 0);
    draw(&mut next, 1, &Command::Copy { region: SIZE.rect().into(), dx: 0, dy: 0 });
    assert!(next.lossy().is_empty(), "the session confirmed it without pixels");
    assert_eq!(next.framebuffer().pixels(), viewer.framebuffer().pixels());
    fill(&mut next, 2, Rect::at(0, 0, 1, 1), 0);
    present(&mut saved, &mut next, 1);
    assert_eq!(places(&tiles(&mut saved, &next, Urgency::AtRest, 10 * SECOND)), [FIRST]);
}
