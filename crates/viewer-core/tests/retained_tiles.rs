//! A viewer that reconnects announces the tiles it still shows, but no lossy ones. From an earlier
//! connection's framebuffer, to the first messages of the next. Knows viewer-core's public
//! interface; session-core's and the simulator's tests cover what a session does with the hashes.

use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::framing::Deframer;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::session::{Geometry, ScreenPart, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{View, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

const SIZE: Size = Size { width: 80, height: 40 };
const KEY: [u8; 32] = [7; 32];

fn viewer() -> Viewer {
    let clipboard = ClipboardPolicy::OFF;
    Viewer::new(&ViewerConfig { name: "test".into(), size: Size::default(), caps: 0, clipboard })
}

fn receive(viewer: &mut Viewer, message: &SessionMessage<'_>) {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, 0).expect("a valid message");
}

fn greet(viewer: &mut Viewer, shown: Option<ScreenPart>) {
    receive(
        viewer,
        &SessionMessage::Hello(SessionHello {
            version: 1,
            caps: 0,
            name: "demo".into(),
            message_bytes_max: 65536,
        }),
    );
    receive(viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown }));
}

fn draw(viewer: &mut Viewer, seq: u64, commands: &[Command<'_>]) {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut bytes));
    let update = Update {
        seq,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &bytes,
    };
    receive(viewer, &SessionMessage::Update(update));
}

fn fill(rect: Rect, color: u32) -> Command<'static> {
    Command::Sfill { region: rect.into(), color }
}

fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(65536);
    deframer.push(&out);
    std::iter::from_fn(|| {
        deframer.next().unwrap().map(|frame| ViewerMessage::decode(&frame).unwrap())
    })
    .collect()
}

/// The tiles that the next connection announces after this one.
fn announced(earlier: &mut Viewer) -> Option<RetainedTiles> {
    let mut next = viewer();
    next.continue_from(earlier, KEY);
    let sent = sent(&mut next);
    let ViewerMessage::Hello(hello) = &sent[0] else { panic!("the hello is first: {sent:?}") };
    let announced = sent.iter().find_map(|sent| {
        if let ViewerMessage::RetainedTiles(announced) = sent {
            Some(announced.clone())
        } else {
            None
        }
    });
    assert_eq!(
        hello.caps & ViewerCaps::RETAINED != 0,
        announced.is_some(),
        "the hello has the capability if tiles follow"
    );
    announced
}

#[test]
fn lossless_tiles_are_announced_by_hashes_of_their_pixels() {
    let mut earlier = viewer();
    assert_eq!(announced(&mut earlier), None, "nothing is shown yet");
    greet(&mut earlier, None);
    assert_eq!(announced(&mut earlier), None, "all of it is lossy");
    draw(
        &mut earlier,
        1,
        &[fill(Rect::new(0, 0, 64, 40), 0x20_4060), fill(Rect::new(16, 0, 32, 16), 0x11_1111)],
    );
    let first = announced(&mut earlier).expect("three quarters are lossless");
    assert_eq!((first.size, first.part, first.key), (SIZE, SIZE.rect(), KEY));
    let tiles: Vec<Rect> = RetainedTiles::rects(SIZE, first.edge_log).collect();
    assert_eq!((tiles.len(), first.tiles.len()), (15, 15), "of 16 pixels");
    for (tile, hash) in tiles.iter().zip(&first.tiles) {
        assert_eq!(*hash != 0, tile.x2 <= 64, "{tile:?}");
    }
    assert_eq!(first.tiles[0], first.tiles[2], "equal pixels have equal hashes");
    assert_ne!(first.tiles[0], first.tiles[1]);
    assert_ne!(first.tiles[0], first.tiles[10], "a smaller tile has fewer pixels");
    // One changed pixel, and one lossy one.
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
                frames: None,
            },
            &mut data,
        );
        data
    };
    let update = Update {
        seq: 3,
        after: 0,
        epoch: 1,
        echo: None,
        end_of_frame: true,
        packed: None,
        commands: &photo,
    };
    receive(&mut earlier, &SessionMessage::Update(update));
    let lossy = earlier.lossy().overlaps(&Rect::at(48, 0, 16, 16));
    let second = announced(&mut earlier).expect("most of it is lossless");
    let differ: Vec<usize> = (0..15).filter(|&at| first.tiles[at] != second.tiles[at]).collect();
    assert_eq!(differ, [0, 3]);
    assert_eq!(second.tiles[3] == 0, lossy, "lossy tiles are not announced");
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
fn tiles_are_sent_after_the_messages_that_decide_the_geometry() {
    let mut earlier = viewer();
    let shown =
        ScreenPart { screen: Size { width: 160, height: 80 }, part: Rect::new(0, 0, 160, 80) };
    greet(&mut earlier, Some(shown));
    draw(&mut earlier, 1, &[fill(SIZE.rect(), 1)]);
    let mut next = viewer();
    next.continue_from(&mut earlier, KEY);
    next.set_view(View { size: SIZE, part: shown.part });
    let sent = sent(&mut next);
    assert!(
        matches!(
            &sent[..],
            [
                ViewerMessage::Hello(_),
                ViewerMessage::View(_),
                ViewerMessage::RetainedTiles(announced),
            ] if announced.part == shown.part
        ),
        "{sent:?}"
    );
    // A connection without a geometry shows the earlier framebuffer, and announces its tiles.
    let mut third = viewer();
    third.continue_from(&mut next, KEY);
    let again = self::sent(&mut third);
    assert_eq!(again.last(), sent.last());
}

#[test]
fn retained_tiles_are_lossless_once_the_session_confirms_them() {
    let mut earlier = viewer();
    greet(&mut earlier, None);
    draw(&mut earlier, 1, &[fill(SIZE.rect(), 0x20_4060)]);
    let mut next = viewer();
    next.continue_from(&mut earlier, KEY);
    greet(&mut next, None);
    assert_eq!(next.lossy().pixels(), SIZE.area(), "it may or may not equal the session's screen");
    next.take_damage();
    let stays = Rect::new(0, 0, 64, 32);
    draw(&mut next, 1, &[Command::Copy { region: stays.into(), dx: 0, dy: 0 }]);
    assert_eq!(next.lossy().pixels(), SIZE.area() - stays.area());
    assert!(!next.has_damage(), "nothing has to be redrawn");
    assert!(next.framebuffer().pixels().iter().all(|&pixel| pixel == 0xff20_4060));
    let rest = Command::Raw {
        rect: Rect::new(64, 0, 80, 32),
        encoding: Encoding::Plain,
        data: &[9; 16 * 32 * 3],
    };
    draw(&mut next, 2, &[rest, fill(Rect::new(0, 32, 80, 40), 5)]);
    assert!(next.lossy().is_empty());
}
