//! A viewer fed by hand: what it applies, says, drops and measures.

use thinc_protocol::command::{BitmapDepth, Command, Encoding, Packing};
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::session::{Close, CloseCode, CursorImage, Geometry, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{Ack, Input, InputEvent, Presented, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{ClipboardPolicy, CursorPixels, Viewer, ViewerConfig, ViewerError, ViewerEvent};

const SIZE: Size = Size { width: 40, height: 30 };

fn new_viewer() -> Viewer {
    Viewer::new(&ViewerConfig {
        name: "test".into(),
        size: Size { width: 800, height: 600 },
        caps: 3,
        clipboard: ClipboardPolicy::OFF,
    })
}

fn say(viewer: &mut Viewer, message: &SessionMessage<'_>, now: u64) -> Result<(), ViewerError> {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, now)
}

fn hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello { version: 1, caps: 0, name: "demo".into(), frame_bytes_max: 65536 })
}

/// A viewer that has been greeted and has said what it says at first.
fn greeted() -> Viewer {
    let mut viewer = new_viewer();
    say(&mut viewer, &hello(), 0).unwrap();
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shows: None }), 0).unwrap();
    said(&mut viewer);
    while viewer.poll_event().is_some() {}
    viewer.take_damage();
    viewer
}

fn said(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(65536);
    deframer.push(&out);
    let mut messages = Vec::new();
    while let Some(frame) = deframer.next().unwrap() {
        messages.push(ViewerMessage::decode(&frame).unwrap());
    }
    messages
}

fn events(viewer: &mut Viewer) -> Vec<ViewerEvent> {
    std::iter::from_fn(|| viewer.poll_event()).collect()
}

fn update(seq: u64, epoch: u32, commands: &[u8]) -> SessionMessage<'_> {
    SessionMessage::Update(Update { seq, after: 0, epoch, echo: None, end_of_frame: false, packed: None, commands })
}

fn bytes_of(commands: &[Command<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut out));
    out
}

fn at(viewer: &Viewer, x: usize, y: usize) -> u32 {
    viewer.framebuffer().row(y)[x]
}

#[test]
fn a_whole_picture_can_be_shown_before_the_next_is_applied_over_it() {
    let mut viewer = greeted();
    let fill = |seq, color, end_of_frame| {
        let commands = bytes_of(&[Command::Sfill { region: Rect::at(0, 0, 8, 8).into(), color }]);
        let mut out = Vec::new();
        let head = Update { seq, after: 0, epoch: 1, echo: None, end_of_frame, packed: None, commands: &commands };
        SessionMessage::Update(head).encode(&mut out);
        out
    };
    let all = [fill(1, 0x11, false), fill(2, 0x22, true), fill(3, 0x33, false), fill(4, 0x44, true)].concat();
    let (first, rest) = all.split_at(all.len() - 3);
    assert_eq!(viewer.handle_picture(first, 0), Ok(true));
    assert_eq!((at(&viewer, 0, 0), events(&mut viewer)), (0xff00_0022, vec![ViewerEvent::FrameEnd]));
    assert_eq!(viewer.handle_picture(&[], 0), Ok(false), "the second is not here yet");
    assert_eq!((at(&viewer, 0, 0), events(&mut viewer)), (0xff00_0033, vec![]));
    assert_eq!(viewer.handle_picture(rest, 0), Ok(true));
    assert_eq!((at(&viewer, 0, 0), viewer.handle_picture(&[], 0)), (0xff00_0044, Ok(false)));
}

#[test]
fn hello_comes_first_on_both_sides() {
    let mut viewer = new_viewer();
    let said_first = said(&mut viewer);
    let [ViewerMessage::Hello(hello_of_ours)] = said_first.as_slice() else { panic!("{said_first:?}") };
    assert_eq!(hello_of_ours.size.width, 800);
    // What the shell decides, and what viewer-core can do whatever the shell says.
    assert_eq!(hello_of_ours.caps, 3 | ViewerCaps::PACKED | ViewerCaps::LOSSY);
    let error = say(&mut viewer, &SessionMessage::CursorShow(true), 0).unwrap_err();
    assert!(matches!(error, ViewerError::Order(_)));
    assert!(matches!(said(&mut viewer).as_slice(), [ViewerMessage::Close(reason)] if reason.contains("hello")));
    assert_eq!(say(&mut viewer, &hello(), 0), Err(ViewerError::Ended));

    let mut viewer = new_viewer();
    let newer = SessionHello { version: 2, caps: 0, name: String::new(), frame_bytes_max: 0 };
    let error = say(&mut viewer, &SessionMessage::Hello(newer), 0).unwrap_err();
    assert_eq!(error, ViewerError::Version { theirs: 2, ours: 1 });
}

#[test]
fn every_command_is_applied_and_damages_what_it_wrote() {
    let mut viewer = greeted();
    let bits = [0b1010_0000u8, 0b0100_0000];
    let commands = bytes_of(&[
        Command::Sfill { region: SIZE.rect().into(), color: 0x00aa_bbcc },
        Command::Pfill {
            rect: Rect::at(1, 1, 5, 3),
            tile_width: 2,
            tile_height: 1,
            encoding: Encoding::Plain,
            data: &[1, 0, 0, 2, 0, 0],
        },
        Command::Bitmap {
            rect: Rect::at(10, 10, 3, 2),
            depth: BitmapDepth::One,
            fg: 0x00ff_0000,
            bg: 0x0000_00ff,
            packing: Packing::Plain,
            data: &bits,
        },
        Command::Bitmap {
            rect: Rect::at(20, 10, 3, 1),
            depth: BitmapDepth::Eight,
            fg: 0,
            bg: 0x00ff_ffff,
            packing: Packing::Plain,
            data: &[0, 128, 255],
        },
        Command::Raw { rect: Rect::at(39, 29, 1, 1), encoding: Encoding::Plain, data: &[3, 2, 1] },
        Command::Copy { region: Rect::at(12, 11, 3, 2).into(), dx: 2, dy: 1 },
    ]);
    say(&mut viewer, &update(1, 1, &commands), 0).unwrap();
    assert_eq!(at(&viewer, 0, 0), 0xffaa_bbcc);
    assert_eq!(
        viewer.framebuffer().row(1)[1..7],
        [0xff00_0001, 0xff00_0002, 0xff00_0001, 0xff00_0002, 0xff00_0001, 0xffaa_bbcc]
    );
    assert_eq!(viewer.framebuffer().row(10)[10..13], [0xffff_0000, 0xff00_00ff, 0xffff_0000]);
    assert_eq!(viewer.framebuffer().row(11)[12..15], [0xffff_0000, 0xff00_00ff, 0xffff_0000]);
    assert_eq!(viewer.framebuffer().row(12)[12..15], [0xff00_00ff, 0xffff_0000, 0xff00_00ff]);
    assert_eq!(viewer.framebuffer().row(10)[20..23], [0xffff_ffff, 0xff7f_7f7f, 0xff00_0000]);
    assert_eq!(at(&viewer, 39, 29), 0xff01_0203);
    assert_eq!(viewer.take_damage(), Region::from(SIZE.rect()));
    assert!(!viewer.has_damage());

    let commands = bytes_of(&[Command::Sfill { region: Rect::at(3, 4, 5, 6).into(), color: 0 }]);
    say(&mut viewer, &update(2, 1, &commands), 0).unwrap();
    assert_eq!(viewer.take_damage(), Region::from(Rect::at(3, 4, 5, 6)));
    let stats = viewer.stats();
    assert_eq!(stats.commands.map(|c| c.count), [1, 2, 1, 2, 1, 0, 0, 0]);
    assert_eq!(stats.commands[1].pixels, 40 * 30 + 30);
    assert_eq!(stats.updates, 2);
}

#[test]
fn updates_are_acknowledged_together_and_dropped_ones_too() {
    let mut viewer = greeted();
    let white = bytes_of(&[Command::Sfill { region: Rect::at(0, 0, 4, 4).into(), color: 0x00ff_ffff }]);
    say(&mut viewer, &update(1, 1, &white), 0).unwrap();
    say(&mut viewer, &update(2, 1, &white), 0).unwrap();
    assert_eq!(said(&mut viewer), [ViewerMessage::Ack(Ack { update: 2, presented: None })]);
    // Made for the size before: dropped, and what it holds is not even looked at.
    say(
        &mut viewer,
        &SessionMessage::Geometry(Geometry { epoch: 2, size: Size { width: 8, height: 8 }, shows: None }),
        0,
    )
    .unwrap();
    say(&mut viewer, &update(3, 1, &[0xff]), 0).unwrap();
    assert_eq!(
        (at(&viewer, 0, 0), at(&viewer, 7, 7)),
        (0xffff_ffff, 0xff00_0000),
        "what was shown stays until it is written"
    );
    assert_eq!(said(&mut viewer), [ViewerMessage::Ack(Ack { update: 3, presented: None })]);
    assert_eq!((viewer.stats().updates, viewer.stats().updates_dropped), (2, 1));
}

#[test]
fn presents_are_said_apart_from_applying() {
    let mut viewer = greeted();
    viewer.handle_presented(5);
    assert!(said(&mut viewer).is_empty(), "nothing new was shown");
    say(&mut viewer, &update(1, 1, &[]), 1000).unwrap();
    said(&mut viewer);
    say(&mut viewer, &update(2, 1, &[]), 2000).unwrap();
    viewer.handle_presented(4000);
    let presented = Presented { update: 2, delay_us: 3000 };
    assert_eq!(said(&mut viewer), [ViewerMessage::Ack(Ack { update: 2, presented: Some(presented) })]);
}

#[test]
fn echoes_are_measured_from_the_input() {
    let mut viewer = greeted();
    let key = InputEvent::Key { code: 30, keysym: 0x61, down: true };
    let first = viewer.handle_input(key, 10_000);
    let second = viewer.handle_input(key, 11_000);
    assert_eq!((first, second), (1, 2));
    let echo =
        Update { seq: 1, after: 0, epoch: 1, echo: Some(second), end_of_frame: true, packed: None, commands: &[] };
    say(&mut viewer, &SessionMessage::Update(echo), 15_000).unwrap();
    assert_eq!(events(&mut viewer), [ViewerEvent::Echo { seq: 2, latency_us: 4000 }, ViewerEvent::FrameEnd]);
    viewer.handle_presented(16_500);
    let latency = viewer.stats().echoes[0];
    assert_eq!((latency.seq, latency.applied_us, latency.presented_us), (2, 4000, Some(5500)));
    // An echo of something never said, or said again, measures nothing.
    for (seq, echo) in [(2, 2), (3, 1), (4, 77)] {
        let again =
            Update { seq, after: 0, epoch: 1, echo: Some(echo), end_of_frame: false, packed: None, commands: &[] };
        say(&mut viewer, &SessionMessage::Update(again), 20_000).unwrap();
    }
    assert_eq!(viewer.stats().echoes.len(), 1);
}

#[test]
fn waiting_motions_become_one_and_keys_stay_in_order() {
    let mut viewer = greeted();
    let motion = |x| InputEvent::Motion { x, y: 0 };
    let button = InputEvent::Button { button: 1, down: true };
    for event in [motion(1), motion(2), button, motion(3), motion(4), motion(5)] {
        viewer.handle_input(event, 0);
    }
    let inputs: Vec<_> = said(&mut viewer)
        .into_iter()
        .filter_map(|m| if let ViewerMessage::Input(input) = m { Some(input) } else { None })
        .collect();
    let want = [(2, motion(2)), (3, button), (6, motion(5))].map(|(seq, event)| Input { seq, event });
    assert_eq!(inputs, want);
}

#[test]
fn a_link_that_stands_still_costs_bounded_memory() {
    let mut viewer = greeted();
    for _ in 0..200_000 {
        viewer.handle_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0);
    }
    let key = viewer.handle_input(InputEvent::Key { code: 1, keysym: 1, down: true }, 0);
    assert!(viewer.stats().inputs_dropped > 100_000);
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    assert!(out.len() < 70_000);
    let mut tail = Vec::new();
    let event = InputEvent::Key { code: 1, keysym: 1, down: true };
    ViewerMessage::Input(Input { seq: key, event }).encode(&mut tail);
    assert!(out.ends_with(&tail), "the key was not lost");
}

#[test]
fn a_ping_goes_with_what_happens_once_a_second() {
    let mut viewer = new_viewer();
    said(&mut viewer);
    say(&mut viewer, &hello(), 1_000_000).unwrap();
    assert_eq!(said(&mut viewer), [ViewerMessage::Ping(1)]);
    say(&mut viewer, &SessionMessage::Pong(1), 1_000_700).unwrap();
    assert_eq!(viewer.stats().rtt_us, Some(700));
    viewer.handle_input(InputEvent::ReleaseAll, 1_900_000);
    assert_eq!(said(&mut viewer).len(), 1);
    viewer.handle_input(InputEvent::ReleaseAll, 2_000_000);
    assert!(said(&mut viewer).contains(&ViewerMessage::Ping(2)));
    assert!(say(&mut viewer, &SessionMessage::Pong(1), 2_000_001).is_err());
}

#[test]
fn what_a_person_does_owes_an_answer_and_without_one_the_session_is_asked() {
    let press = InputEvent::Button { button: 1, down: true };
    let release = InputEvent::Button { button: 1, down: false };
    let mut viewer = greeted();
    say(&mut viewer, &SessionMessage::Pong(1), 10_000).unwrap();
    // It is answered by what it does: nothing is asked.
    viewer.handle_input(press, 100_000);
    assert_eq!(said(&mut viewer).len(), 1);
    assert_eq!(viewer.poll_deadline(), Some(210_000), "a round trip and a bit later");
    let barrier = viewer.request_barrier();
    say(&mut viewer, &SessionMessage::Barrier(barrier), 150_000).unwrap();
    said(&mut viewer);
    assert_eq!(viewer.poll_deadline(), Some(1_000_000), "the ping that goes once a second");
    // It is not: the answer has been due since it was made.
    viewer.handle_input(release, 300_000);
    assert_eq!((said(&mut viewer).len(), viewer.unanswered_since()), (1, None));
    viewer.handle_timeout(410_000);
    assert_eq!(said(&mut viewer).len(), 1);
    assert_eq!(viewer.unanswered_since(), Some(300_000));
    viewer.handle_quiet(500_000);
    assert_eq!(said(&mut viewer).len(), 1, "and once more");
    assert_eq!(viewer.unanswered_since(), Some(300_000));
}

/// While a key is held pings leave every half second, and after an outage a session may be told many at once.
#[test]
fn a_pong_answers_all_pings_before_its_own() {
    let mut viewer = greeted();
    viewer.handle_input(InputEvent::Key { code: 42, keysym: 0xffe1, down: true }, 1_000_000);
    for half_second in 1..=10 {
        viewer.handle_timeout(1_000_000 + half_second * 500_000);
    }
    let pings =
        said(&mut viewer).into_iter().filter(|message| matches!(message, ViewerMessage::Ping(_))).count() as u32;
    assert!(pings >= 10, "{pings} pings in 5 s");
    say(&mut viewer, &SessionMessage::Pong(pings - 1), 6_100_000).unwrap();
    say(&mut viewer, &SessionMessage::Pong(pings), 6_100_000).unwrap();
    assert!(say(&mut viewer, &SessionMessage::Pong(1), 6_100_000).is_err(), "it has been answered");
}

#[test]
fn barriers_answer_what_was_asked() {
    let mut viewer = greeted();
    let id = viewer.request_barrier();
    assert_eq!(said(&mut viewer), [ViewerMessage::Barrier(id)]);
    say(&mut viewer, &SessionMessage::Barrier(id), 0).unwrap();
    assert_eq!(events(&mut viewer), [ViewerEvent::Barrier(id)]);
    assert!(say(&mut viewer, &SessionMessage::Barrier(id), 0).is_err());
}

#[test]
fn cursors_are_decoded_and_only_the_newest_waits() {
    let mut viewer = greeted();
    let image: Vec<u8> = (0..32).collect();
    let mut packed = [0; 100];
    let len = zstd_safe::compress(&mut packed[..], &image, 1).unwrap();
    let cursor = CursorImage { size: Size { width: 4, height: 2 }, hot_x: 1, hot_y: 1, pixels: &packed[..len] };
    let hidden = CursorImage { size: Size::default(), hot_x: 0, hot_y: 0, pixels: &[] };
    say(&mut viewer, &SessionMessage::Cursor(hidden), 0).unwrap();
    say(&mut viewer, &SessionMessage::Cursor(cursor), 0).unwrap();
    let events = events(&mut viewer);
    let [ViewerEvent::Cursor(pixels)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((pixels.pixels[0], pixels.pixels[7]), (0x0302_0100, 0x1f1e_1d1c));
    let wrong = CursorImage { size: Size { width: 4, height: 3 }, ..cursor };
    assert!(say(&mut viewer, &SessionMessage::Cursor(wrong), 0).is_err());
}

/// The bytes of `doc/protocol.md`, as a session sends them: a cursor of 9 x 2, recoloured, then replaced.
#[test]
fn a_cursor_of_two_colours_takes_others() {
    let mut viewer = greeted();
    #[rustfmt::skip]
    let image = [
        0x0b, 19, 9, 2, 3, 1, 0xff, 0, 0, 0, 0, 0xff, 0,
        0b1100_0000, 0b1000_0000, 0b0000_0000, 0b0000_0000,
        0b1110_0000, 0b1000_0000, 0b0000_0001, 0b0111_1111,
    ];
    let (blue, red, green) = (0xff00_00ff, 0xffff_0000, 0xff00_ff00);
    viewer.handle_bytes(&image, 0).unwrap();
    let shown = |fore, back| {
        let pixels = vec![fore, fore, back, 0, 0, 0, 0, 0, fore, 0, 0, 0, 0, 0, 0, 0, back, 0];
        ViewerEvent::Cursor(CursorPixels { size: Size { width: 9, height: 2 }, hot_x: 3, hot_y: 1, pixels })
    };
    assert_eq!(events(&mut viewer), [shown(blue, red)]);
    viewer.handle_bytes(&[0x0c, 6, 0, 0xff, 0, 0, 0, 0xff], 0).unwrap();
    assert_eq!(events(&mut viewer), [shown(green, red)]);
    // Equal colours lose nothing: the planes are kept.
    viewer.handle_bytes(&[0x0c, 6, 0, 0xff, 0, 0, 0xff, 0], 0).unwrap();
    viewer.handle_bytes(&[0x0c, 6, 0, 0, 0xff, 0xff, 0, 0], 0).unwrap();
    assert_eq!(events(&mut viewer), [shown(red, blue)], "only the newest waits");
    let argb = CursorImage { size: Size::default(), hot_x: 0, hot_y: 0, pixels: &[] };
    say(&mut viewer, &SessionMessage::Cursor(argb), 0).unwrap();
    let error = viewer.handle_bytes(&[0x0c, 6, 0, 0, 0xff, 0xff, 0, 0], 0).unwrap_err();
    assert!(error.to_string().contains("of two"), "{error}");
}

#[test]
fn planes_of_another_size_are_refused() {
    for (name, image) in [
        ("short", &[0x0b, 12, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]),
        ("long", &[0x0b, 14, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]),
        ("no frame", &[0x0b, 13, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2]),
    ] {
        assert!(greeted().handle_bytes(image, 0).is_err(), "{name}");
    }
}

#[test]
fn a_close_is_the_end() {
    let mut viewer = greeted();
    say(&mut viewer, &SessionMessage::Close(Close { code: CloseCode::Replaced, reason: "another" }), 0).unwrap();
    assert_eq!(events(&mut viewer), [ViewerEvent::Closed { code: CloseCode::Replaced, reason: "another".into() }]);
    assert!(viewer.is_closed());
    assert_eq!(viewer.handle_bytes(&[0], 0), Err(ViewerError::Ended));
}

#[test]
fn numbers_out_of_order_end_the_connection() {
    for (seq, after) in [(1, 0), (5, 4)] {
        let mut viewer = greeted();
        say(&mut viewer, &update(1, 1, &[]), 0).unwrap();
        let wrong = Update { seq, after, epoch: 1, echo: None, end_of_frame: false, packed: None, commands: &[] };
        assert!(matches!(say(&mut viewer, &SessionMessage::Update(wrong), 0), Err(ViewerError::Order(_))));
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// What a command means, pixel by pixel.
    #[derive(Clone, Debug)]
    enum Op {
        Copy(Vec<Rect>, i32, i32),
        Fill(Vec<Rect>, u32),
        Tile(Rect, u16, u16, u32),
        Bits(Rect, u32, u32, u32),
        Pixels(Rect, u32),
    }

    fn rect() -> impl Strategy<Value = Rect> {
        (0i32..40, 0i32..30).prop_flat_map(|(x, y)| {
            (1..=40 - x, 1..=30 - y).prop_map(move |(width, height)| Rect::at(x, y, width, height))
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        let rects = || proptest::collection::vec(rect(), 1..4);
        prop_oneof![
            (rects(), -9i32..9, -9i32..9).prop_map(|(rects, dx, dy)| Op::Copy(rects, dx, dy)),
            (rects(), 0u32..0x0100_0000).prop_map(|(rects, color)| Op::Fill(rects, color)),
            (rect(), 1u16..9, 1u16..9, any::<u32>()).prop_map(|(rect, w, h, seed)| Op::Tile(rect, w, h, seed)),
            (rect(), 0u32..0x0100_0000, 0u32..0x0100_0000, any::<u32>())
                .prop_map(|(rect, fg, bg, seed)| Op::Bits(rect, fg, bg, seed)),
            (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Pixels(rect, seed)),
        ]
    }

    fn noise(seed: u32, i: u32) -> u32 {
        (seed ^ i.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b) >> 5
    }

    fn bgr(pixels: impl Iterator<Item = u32>) -> Vec<u8> {
        pixels.flat_map(|p| p.to_le_bytes().into_iter().take(3)).collect()
    }

    fn points(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
        let rect = *rect;
        (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
    }

    /// Applies an op to a plain screen and gives its command's bytes.
    fn model(op: &Op, screen: &mut [u32], out: &mut Vec<u8>) {
        let at = |x: i32, y: i32| (y * 40 + x) as usize;
        match op {
            Op::Copy(rects, dx, dy) => {
                let mut region: Region = rects.iter().copied().collect();
                region.intersect_rect(&SIZE.rect().translate(*dx, *dy));
                if region.is_empty() {
                    return;
                }
                let before = screen.to_vec();
                for (x, y) in region.rects().iter().flat_map(points) {
                    screen[at(x, y)] = before[at(x - dx, y - dy)];
                }
                Command::Copy { region, dx: *dx, dy: *dy }.encode(out);
            }
            Op::Fill(rects, color) => {
                let region: Region = rects.iter().copied().collect();
                region.rects().iter().flat_map(points).for_each(|(x, y)| screen[at(x, y)] = *color);
                Command::Sfill { region, color: *color }.encode(out);
            }
            Op::Tile(rect, width, height, seed) => {
                let (w, h) = (i32::from(*width), i32::from(*height));
                let tile: Vec<u32> = (0..(w * h) as u32).map(|i| noise(*seed, i) & 0x00ff_ffff).collect();
                for (x, y) in points(rect) {
                    screen[at(x, y)] = tile[((y - rect.y1) % h * w + (x - rect.x1) % w) as usize];
                }
                let data = bgr(tile.into_iter());
                Command::Pfill {
                    rect: *rect,
                    tile_width: *width,
                    tile_height: *height,
                    encoding: Encoding::Plain,
                    data: &data,
                }
                .encode(out);
            }
            Op::Bits(rect, fg, bg, seed) => {
                let row_len = (rect.width() as usize).div_ceil(8);
                let mut data = vec![0; row_len * rect.height() as usize];
                for (x, y) in points(rect) {
                    let bit = noise(*seed, at(x, y) as u32) & 1 == 1;
                    screen[at(x, y)] = if bit { *fg } else { *bg };
                    let column = (x - rect.x1) as usize;
                    data[(y - rect.y1) as usize * row_len + column / 8] |= u8::from(bit) << (7 - column % 8);
                }
                let (depth, packing) = (BitmapDepth::One, Packing::Plain);
                Command::Bitmap { rect: *rect, depth, fg: *fg, bg: *bg, packing, data: &data }.encode(out);
            }
            Op::Pixels(rect, seed) => {
                for (x, y) in points(rect) {
                    screen[at(x, y)] = noise(*seed, at(x, y) as u32) & 0x00ff_ffff;
                }
                let data = bgr(points(rect).map(|(x, y)| screen[at(x, y)]));
                Command::Raw { rect: *rect, encoding: Encoding::Plain, data: &data }.encode(out);
            }
        }
    }

    fn stream(ops: &[Op]) -> (Vec<u8>, Vec<u32>) {
        let mut screen = vec![0; 40 * 30];
        let mut stream = Vec::new();
        for (i, ops) in ops.chunks(3).enumerate() {
            let mut commands = Vec::new();
            ops.iter().for_each(|op| model(op, &mut screen, &mut commands));
            update(i as u64 + 1, 1, &commands).encode(&mut stream);
        }
        (stream, screen)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_framebuffer_is_what_the_commands_mean(ops in proptest::collection::vec(op(), 1..20), chunk in 1usize..5000) {
            let (stream, screen) = stream(&ops);
            let mut viewer = greeted();
            let mut before = viewer.framebuffer().pixels().to_vec();
            for bytes in stream.chunks(chunk) {
                viewer.handle_bytes(bytes, 0).unwrap();
                // Damage covers every pixel that changed.
                let damage = viewer.take_damage();
                damage.check_invariants();
                for (i, (old, new)) in before.iter_mut().zip(viewer.framebuffer().pixels()).enumerate() {
                    prop_assert!(old == new || damage.contains_point(i as i32 % 40, i as i32 / 40));
                    *old = *new;
                }
            }
            for (got, want) in viewer.framebuffer().pixels().iter().zip(&screen) {
                prop_assert_eq!(*got, want | 0xff00_0000);
            }
        }

        #[test]
        fn damaged_streams_end_the_connection_or_are_understood(
            ops in proptest::collection::vec(op(), 1..8),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            chunk in 1usize..5000,
        ) {
            let (mut stream, _) = stream(&ops);
            for (index, value) in flips {
                let at = index.index(stream.len());
                stream[at] = value;
            }
            let mut viewer = greeted();
            for bytes in stream.chunks(chunk) {
                if let Err(error) = viewer.handle_bytes(bytes, 0) {
                    prop_assert!(viewer.is_closed());
                    let said = said(&mut viewer);
                    prop_assert_eq!(said.last(), Some(&ViewerMessage::Close(error.to_string())));
                    break;
                }
            }
        }

        #[test]
        fn garbage_after_the_hello(kind in 2u8..12, body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut viewer = greeted();
            let mut bytes = Vec::new();
            thinc_protocol::frame::put_frame(&mut bytes, kind, |out| out.extend_from_slice(&body));
            let understood = SessionMessage::decode(&Frame { kind, body: &body }).is_ok();
            let handled = viewer.handle_bytes(&bytes, 0);
            prop_assert!(understood || handled.is_err());
        }
    }
}

#[test]
fn a_connection_after_another_shows_its_picture_until_the_session_draws() {
    let mut earlier = greeted();
    let rect = Rect::at(5, 6, 7, 8);
    let mut commands = Vec::new();
    Command::Sfill { region: rect.into(), color: 0x20_4060 }.encode(&mut commands);
    say(&mut earlier, &update(1, 1, &commands), 0).unwrap();
    let mut viewer = new_viewer();
    viewer.lie_over(&mut earlier, [1; 32]);
    assert_eq!(viewer.framebuffer().size(), Size::default(), "there is no screen before the session has said so");
    say(&mut viewer, &hello(), 0).unwrap();
    let size = Size { width: 50, height: 20 };
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 9, size, shows: None }), 0).unwrap();
    assert_eq!((at(&viewer, 5, 6), at(&viewer, 11, 13), at(&viewer, 4, 6)), (0xff20_4060, 0xff20_4060, 0xff00_0000));
    assert_eq!(viewer.inexact().pixels(), size.area(), "none of it is known to be what the screen shows");
    assert_eq!(viewer.take_damage(), Region::from(size.rect()));
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 10, size: SIZE, shows: None }), 0).unwrap();
    assert_eq!((at(&viewer, 5, 6), at(&viewer, 0, 25)), (0xff20_4060, 0xff00_0000));
}
