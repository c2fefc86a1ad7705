//! A viewer that comes back says what it still shows, and of what it may not be sure it says nothing.
//! From an earlier connection's picture, to the first messages of the next.
//! Knows viewer-core's public face; what a session makes of the hashes, session-core's and the simulator's tests show.

use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::held::Held;
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Shows, Update};
use thinc_protocol::viewer::{View, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 80, height: 40 };
const KEY: [u8; 32] = [7; 32];

fn viewer() -> Viewer {
    let clipboard = ClipboardPolicy::OFF;
    Viewer::new(&ViewerConfig { name: "test".into(), size: Size::default(), caps: 0, clipboard })
}

fn hear(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, 0).expect("what a session says");
}

fn greet(viewer: &mut Viewer, shows: Option<Shows>) {
    hear(
        viewer,
        &SessionMessage::Hello(SessionHello { version: 1, caps: 0, name: "demo".into(), frame_bytes_max: 65536 }),
    );
    hear(viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shows }));
}

fn draw(viewer: &mut Viewer, seq: u64, commands: &[Command<'_>]) {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    let update = Update { seq, after: 0, epoch: 1, echo: None, end_of_frame: true, packed: None, commands: &bytes };
    hear(viewer, &SessionMessage::Update(update));
}

fn fill(rect: Rect, color: u32) -> Command<'static> {
    Command::Sfill { region: rect.into(), color }
}

fn said(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(65536);
    deframer.push(&out);
    std::iter::from_fn(|| deframer.next().unwrap().map(|frame| ViewerMessage::decode(&frame).unwrap())).collect()
}

/// What the next connection says of what this one shows.
fn held(earlier: &mut Viewer) -> Option<Held> {
    let mut next = viewer();
    next.lie_over(earlier, KEY);
    let said = said(&mut next);
    let ViewerMessage::Hello(hello) = &said[0] else { panic!("a hello comes first: {said:?}") };
    let held =
        said.iter().find_map(|said| if let ViewerMessage::Held(held) = said { Some(held.clone()) } else { None });
    assert_eq!(hello.caps & ViewerCaps::HELD != 0, held.is_some(), "the hello says whether it follows");
    held
}

#[test]
fn tiles_that_are_exact_are_told_by_their_pixels() {
    let mut earlier = viewer();
    assert_eq!(held(&mut earlier), None, "nothing is shown yet");
    greet(&mut earlier, None);
    assert_eq!(held(&mut earlier), None, "nothing of it is known");
    draw(&mut earlier, 1, &[fill(Rect::new(0, 0, 64, 40), 0x20_4060), fill(Rect::new(16, 0, 32, 16), 0x11_1111)]);
    let first = held(&mut earlier).expect("three quarters are exact");
    assert_eq!((first.size, first.part, first.key), (SIZE, SIZE.rect(), KEY));
    let tiles: Vec<Rect> = Held::rects(SIZE, first.edge_log).collect();
    assert_eq!((tiles.len(), first.tiles.len()), (15, 15), "of 16 pixels");
    for (tile, hash) in tiles.iter().zip(&first.tiles) {
        assert_eq!(*hash != 0, tile.x2 <= 64, "{tile:?}");
    }
    assert_eq!(first.tiles[0], first.tiles[2], "equal pixels have equal hashes");
    assert_ne!(first.tiles[0], first.tiles[1]);
    assert_ne!(first.tiles[0], first.tiles[10], "a smaller tile has fewer of them");
    // One pixel, and one that is only nearly right.
    draw(&mut earlier, 2, &[fill(Rect::at(3, 3, 1, 1), 0x20_4061)]);
    let photo = {
        let pixels = vec![0x40_5060_u32; 16 * 16];
        let mut data = Vec::new();
        thinc_codec_enc::Encoder::new().encode_with(
            &[thinc_pixels::Planned::Photo { rect: Rect::at(48, 0, 16, 16) }],
            &snapshot(&pixels),
            &thinc_codec_enc::EncodeSettings {
                entropy: thinc_codec_enc::Entropy::None,
                jpeg: Some(thinc_codec_enc::JpegProfile::High),
            },
            &mut data,
        );
        data
    };
    let update = Update { seq: 3, after: 0, epoch: 1, echo: None, end_of_frame: true, packed: None, commands: &photo };
    hear(&mut earlier, &SessionMessage::Update(update));
    let lossy = earlier.inexact().overlaps(&Rect::at(48, 0, 16, 16));
    let second = held(&mut earlier).expect("most of it is exact");
    let differ: Vec<usize> = (0..15).filter(|&at| first.tiles[at] != second.tiles[at]).collect();
    assert_eq!(differ, [0, 3]);
    assert_eq!(second.tiles[3] == 0, lossy, "of what is shown nearly nothing is said");
}

fn snapshot(pixels: &[u32]) -> thinc_pixels::Snapshot {
    let mut snapshot = thinc_pixels::Snapshot::new();
    snapshot.fill(&Region::from(Rect::at(48, 0, 16, 16)), |_, dst, stride| {
        for (row, from) in dst.chunks_mut(stride).zip(pixels.chunks(16)) {
            row[..16].copy_from_slice(from);
        }
    });
    snapshot
}

#[test]
fn it_is_said_behind_what_decides_which_picture_comes() {
    let mut earlier = viewer();
    let shows = Shows { screen: Size { width: 160, height: 80 }, part: Rect::new(0, 0, 160, 80) };
    greet(&mut earlier, Some(shows));
    draw(&mut earlier, 1, &[fill(SIZE.rect(), 1)]);
    let mut next = viewer();
    next.lie_over(&mut earlier, KEY);
    next.set_view(View { size: SIZE, part: shows.part });
    let said = said(&mut next);
    assert!(
        matches!(&said[..], [ViewerMessage::Hello(_), ViewerMessage::View(_), ViewerMessage::Held(held)] if held.part == shows.part),
        "{said:?}"
    );
    // An attempt that came to nothing shows what it lay over, and says so.
    let mut third = viewer();
    third.lie_over(&mut next, KEY);
    let again = self::said(&mut third);
    assert_eq!(again.last(), said.last());
}

#[test]
fn what_stays_is_exact_once_the_session_has_said_so() {
    let mut earlier = viewer();
    greet(&mut earlier, None);
    draw(&mut earlier, 1, &[fill(SIZE.rect(), 0x20_4060)]);
    let mut next = viewer();
    next.lie_over(&mut earlier, KEY);
    greet(&mut next, None);
    assert_eq!(next.inexact().pixels(), SIZE.area(), "it may be what the session shows, or not");
    next.take_damage();
    let stays = Rect::new(0, 0, 64, 32);
    draw(&mut next, 1, &[Command::Copy { region: stays.into(), dx: 0, dy: 0 }]);
    assert_eq!(next.inexact().pixels(), SIZE.area() - stays.area());
    assert!(!next.has_damage(), "nothing is to be shown anew");
    assert!(next.framebuffer().pixels().iter().all(|&pixel| pixel == 0xff20_4060));
    let rest = Command::Raw { rect: Rect::new(64, 0, 80, 32), encoding: Encoding::Plain, data: &[9; 16 * 32 * 3] };
    draw(&mut next, 2, &[rest, fill(Rect::new(0, 32, 80, 40), 5)]);
    assert!(next.inexact().is_empty());
}
