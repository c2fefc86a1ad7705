//! XVideo in a real Xorg, observed through the ring: every frame is converted as in
//! doc/protocol.md, to the bit; its records say where; and its samples reach the session complete
//! and unchanged, whatever its client does. Also writes the golden file of crates/video:
//! `THINC_TEST_WRITE=1` renews crates/video/tests/golden.bin.

mod coverage;
mod player;
mod xdraw;
mod xserver;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawHint, DrawRecord, DrawableId, RecordKind, VideoLayout};
use x11rb::cookie::VoidCookie;
use x11rb::protocol::composite::{self, ConnectionExt as _};
use x11rb::protocol::xproto::*;
use x11rb::protocol::xv::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use player::{Picture, Player, convert, hash};
use xdraw::Random;
use xserver::{Options, XServer};

const FORMATS: [&[u8; 4]; 5] = [b"YV12", b"I420", b"NV12", b"YUY2", b"UYVY"];

fn frames(records: &[DrawRecord]) -> Vec<(DrawableId, Rect, DrawHint)> {
    let frame = |record: &DrawRecord| match record.kind {
        RecordKind::Draw { dst, rect, hint: hint @ DrawHint::Video { .. }, .. } => {
            Some((dst, rect, hint))
        }
        _ => None,
    };
    records.iter().filter_map(frame).collect()
}

fn stops(records: &[DrawRecord]) -> Vec<u16> {
    let stop = |record: &DrawRecord| match record.kind {
        RecordKind::VideoStopped { port } => Some(port),
        _ => None,
    };
    records.iter().filter_map(stop).collect()
}

fn size(width: u32, height: u32) -> Size {
    Size { width, height }
}

// ---- drawing, records and samples ---------------------------------------------------------------

#[test]
fn every_format_is_converted_recorded_and_kept() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    let mut player = Player::new(&server, Rect::at(40, 30, 400, 300));
    // A window above, so that the clip matters.
    let hidden = Rect::at(100, 80, 50, 40);
    player.cover(hidden, 0xaa_bbcc);
    reader.drain();
    let (mut random, mut data) = (Random::new(5), Vec::new());
    for wanted in [true, false] {
        reader.attachment.ring.set_want_video(wanted);
        for name in FORMATS {
            for (image, crop, place) in [
                (size(64, 48), Rect::at(0, 0, 64, 48), Rect::at(10, 20, 64, 48)),
                (size(64, 48), Rect::at(0, 0, 64, 48), Rect::at(10, 20, 200, 150)),
                (size(64, 48), Rect::at(7, 5, 33, 29), Rect::at(-30, -11, 128, 96)),
                (size(63, 47), Rect::at(1, 1, 62, 46), Rect::at(10, 20, 33, 21)),
                (size(5, 3), Rect::at(0, 0, 5, 3), Rect::at(300, 250, 500, 400)),
                (size(1, 1), Rect::at(0, 0, 1, 1), Rect::at(10, 20, 30, 20)),
            ] {
                player.clear();
                reader.drain();
                let picture = Picture::random(name, image, &mut random);
                player.put(3, &picture, crop, place);
                let records = reader.drain();
                let on_screen = place.translate(40, 30);
                let expected = DrawHint::Video {
                    port: 3,
                    layout: picture.layout,
                    size: image,
                    crop,
                    place: on_screen,
                };
                let mut seen = Region::from(on_screen.intersect(&Rect::at(40, 30, 400, 300)));
                seen.subtract_rect(&hidden);
                let mut covered = Region::new();
                for (dst, rect, hint) in frames(&records) {
                    assert_eq!((dst, hint), (DrawableId::SCREEN, expected));
                    covered.add_rect(rect);
                }
                assert_eq!(covered, seen, "the visible part of {}", picture.name());
                assert!(
                    records
                        .iter()
                        .all(|record| record.window == 0 || record.window == player.window)
                );
                let pixels = reader.pixels();
                let truth = convert(&picture.planes, picture.layout, image, crop, on_screen);
                for (x, y) in (40..440).flat_map(|x| (30..330).map(move |y| (x, y))) {
                    let pixel = pixels[y as usize * 640 + x as usize];
                    if hidden.contains_point(x, y) {
                        assert_eq!(pixel, 0xaa_bbcc, "the window above is unchanged");
                    } else if on_screen.contains_point(x, y) {
                        let at = (y - on_screen.y1) * on_screen.width() + x - on_screen.x1;
                        assert_eq!(
                            pixel,
                            truth[at as usize],
                            "{} at {x}, {y} of {on_screen:?}",
                            picture.name()
                        );
                    } else {
                        assert_eq!(pixel, player::BACKGROUND, "outside the place at {x}, {y}");
                    }
                }
                let kept = reader.attachment.ring.video_frame(3, &mut data);
                assert!(
                    reader.attachment.ring.video_playing(3)
                        && !reader.attachment.ring.video_playing(2)
                );
                if !wanted {
                    assert_eq!(kept, None, "no samples were requested");
                    continue;
                }
                let kept = kept.expect("the frame's samples are available");
                assert_eq!((kept.layout, kept.size, kept.crop), (picture.layout, image, crop));
                assert_eq!((kept.dst, kept.place), (DrawableId::SCREEN, on_screen));
                let drawn = records
                    .iter()
                    .find(|record| matches!(record.kind, RecordKind::Draw { .. }))
                    .unwrap();
                assert_eq!(kept.op, drawn.op, "the block names the frame's op");
                assert_eq!(
                    data,
                    picture.planes.concat(),
                    "the samples of {} are unchanged",
                    picture.name()
                );
            }
        }
    }
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn frames_in_shared_memory_are_drawn_the_same() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut player = Player::new(&server, Rect::at(0, 0, 640, 480));
    let (mut random, mut data) = (Random::new(6), Vec::new());
    for name in FORMATS {
        let picture = Picture::random(name, size(176, 144), &mut random);
        let crop = Rect::at(0, 0, 176, 144);
        player.put_shared(0, &picture, crop, Rect::at(0, 0, 640, 480));
        reader.drain();
        assert!(reader.attachment.ring.video_frame(0, &mut data).is_some());
        assert_eq!(data, picture.planes.concat());
        let truth =
            convert(&picture.planes, picture.layout, picture.size, crop, Rect::at(0, 0, 640, 480));
        assert_eq!(hash(&reader.pixels()), hash(&truth), "{}", picture.name());
    }
    assert!(server.stop(), "X exits cleanly");
}

/// A paused player draws its picture again and again.
#[test]
fn a_picture_that_is_drawn_again_is_recorded_once() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    let mut player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let (crop, place) = (Rect::at(0, 0, 64, 48), Rect::at(10, 20, 200, 150));
    let (mut random, mut data) = (Random::new(12), Vec::new());
    for wanted in [true, false] {
        reader.attachment.ring.set_want_video(wanted);
        let mut picture = Picture::random(b"I420", size(64, 48), &mut random);
        player.clear();
        player.put(3, &picture, crop, place);
        assert!(!frames(&reader.drain()).is_empty());
        let kept = reader.attachment.ring.video_frame(3, &mut data);
        for _ in 0..3 {
            player.put(3, &picture, crop, place);
            player.put_shared(3, &picture, crop, place);
        }
        let drawn = |record: &DrawRecord| matches!(record.kind, RecordKind::Draw { .. });
        assert!(!reader.drain().iter().any(drawn), "nothing has changed");
        assert_eq!(reader.attachment.ring.video_frame(3, &mut data), kept);
        assert!(reader.attachment.ring.video_playing(3), "it is not over");
        // Something was drawn over its last pixel.
        player.conn.clear_area(false, player.window, 209, 169, 1, 1).unwrap();
        player.sync();
        reader.drain();
        player.put(3, &picture, crop, place);
        assert!(!frames(&reader.drain()).is_empty(), "it is whole again");
        let last = picture.planes[0].last_mut().unwrap();
        *last = last.wrapping_add(128);
        player.put(3, &picture, crop, place);
        assert!(!frames(&reader.drain()).is_empty(), "its last sample is another");
        let truth = convert(&picture.planes, picture.layout, picture.size, crop, place);
        let pixels = reader.pixels();
        assert_eq!(pixels[(30 + 169) * 640 + 40 + 209], truth[149 * 200 + 199]);
    }
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn a_frame_that_no_viewer_could_show_is_recorded_as_pixels() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut player = Player::new(&server, Rect::at(0, 0, 640, 480));
    let mut random = Random::new(7);
    let picture = Picture::random(b"I420", size(64, 48), &mut random);
    let whole = Rect::at(0, 0, 64, 48);
    for (crop, place) in [
        (Rect::at(-1, 0, 10, 10), Rect::at(0, 0, 64, 48)),
        (Rect::at(60, 40, 5, 8), Rect::at(0, 0, 64, 48)),
        (Rect::at(-300, 30_000, 500, 9000), Rect::at(-20, -20, 300, 300)),
        (Rect::at(30_000, -30_000, 1, 1), Rect::at(5, 5, 1, 1)),
    ] {
        player.put(1, &picture, crop, place);
        let records = reader.drain();
        assert_eq!(frames(&records), [], "a crop that is not in the image: {crop:?}");
        let image = |record: &DrawRecord| {
            matches!(record.kind, RecordKind::Draw { hint: DrawHint::Image, .. })
        };
        assert!(records.iter().any(image), "its pixels are recorded");
    }
    // A place of which one pixel is visible, and one that is fully outside.
    player.put(1, &picture, whole, Rect::at(-32_000, -32_000, 32_767, 32_767));
    assert_eq!(frames(&reader.drain()).len(), 1);
    player.put(1, &picture, whole, Rect::at(-9000, 0, 8999, 100));
    assert_eq!(frames(&reader.drain()), []);
    // More clip rectangles than an op keeps: bounding boxes would claim pixels that were not drawn.
    for i in 0..40 {
        player.cover(Rect::at(i % 8 * 80 + 10, i / 8 * 90 + 10 + i % 8, 20, 20), 0x00_4400);
    }
    reader.drain();
    player.put(1, &picture, whole, Rect::at(0, 0, 640, 480));
    let records = reader.drain();
    assert!(!records.is_empty() && frames(&records).is_empty());
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn frames_in_a_redirected_window_are_recorded_for_its_pixmap() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    reader.attachment.ring.set_want_offscreen(true);
    let mut player = Player::new(&server, Rect::at(40, 30, 200, 150));
    player.conn.composite_query_version(0, 4).unwrap().reply().unwrap();
    player.conn.composite_redirect_window(player.window, composite::Redirect::MANUAL).unwrap();
    player.clear();
    reader.drain();
    let picture = Picture::random(b"YUY2", size(32, 24), &mut Random::new(8));
    player.put(2, &picture, Rect::at(0, 0, 32, 24), Rect::at(-10, 20, 100, 80));
    let records = reader.drain();
    let [(dst, rect, DrawHint::Video { place, port: 2, .. })] = frames(&records)[..] else {
        panic!("{records:?}")
    };
    assert_ne!(dst, DrawableId::SCREEN);
    assert_eq!(
        (rect, place),
        (Rect::at(0, 20, 90, 80), Rect::at(-10, 20, 100, 80)),
        "the place is relative to the pixmap"
    );
    let kept = reader.attachment.ring.video_frame(2, &mut Vec::new()).unwrap();
    assert_eq!((kept.dst, kept.place), (dst, place));
    // Without records of pixmaps the session cannot know where it is shown: nothing is recorded or
    // kept.
    reader.attachment.ring.set_want_offscreen(false);
    player.put(2, &picture, Rect::at(0, 0, 32, 24), Rect::at(-10, 20, 100, 80));
    assert_eq!(frames(&reader.drain()), []);
    assert!(server.stop(), "X exits cleanly");
}

// ---- two eyes -----------------------------------------------------------------------------------

/// A picture for each eye, as bytes of one image, and their pixels.
struct TwoEyes {
    size: Size,
    bytes: Vec<u8>,
}

impl TwoEyes {
    fn random(size: Size, random: &mut Random) -> TwoEyes {
        let bytes = (0..size.area() * 8).map(|_| random.within(0, 255) as u8).collect();
        TwoEyes { size, bytes }
    }

    /// The left eye sees the window's background, and the right eye something else.
    fn background(size: Size, random: &mut Random) -> TwoEyes {
        let mut eyes = TwoEyes::random(size, random);
        for pixel in eyes.bytes[..size.area() as usize * 4].as_chunks_mut().0 {
            *pixel = player::BACKGROUND.to_le_bytes();
        }
        eyes
    }

    fn left(&self, x: i32, y: i32) -> u32 {
        let at = (y as usize * self.size.width as usize + x as usize) * 4;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) & 0xff_ffff
    }

    fn right(&self) -> &[u8] {
        &self.bytes[self.bytes.len() / 2..]
    }

    fn put<'a>(
        &self,
        player: &'a Player,
        crop: Rect,
        place: Rect,
    ) -> VoidCookie<'a, RustConnection> {
        let image = Size { height: self.size.height * 2, ..self.size };
        player.put_bytes(4, (b"TSR0", image), &self.bytes, crop, place)
    }
}

fn stereo(records: &[DrawRecord]) -> Vec<(Rect, DrawHint, u64)> {
    let frame = |record: &DrawRecord| match record.kind {
        RecordKind::Draw { rect, hint: hint @ DrawHint::Stereo { .. }, .. } => {
            Some((rect, hint, record.op))
        }
        _ => None,
    };
    records.iter().filter_map(frame).collect()
}

#[test]
fn the_left_eye_is_drawn_and_the_right_one_kept() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    let player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let hidden = Rect::at(100, 80, 50, 40);
    player.cover(hidden, 0xaa_bbcc);
    let (mut random, mut data) = (Random::new(21), Vec::new());
    for (wanted, image, crop, at) in [
        (true, size(64, 48), Rect::at(0, 0, 64, 48), (10, 20)),
        (true, size(63, 47), Rect::at(3, 5, 60, 41), (30, 30)),
        (true, size(401, 301), Rect::at(0, 0, 401, 301), (-1, -1)),
        (true, size(1, 1), Rect::at(0, 0, 1, 1), (10, 20)),
        (false, size(64, 48), Rect::at(0, 0, 64, 48), (10, 20)),
    ] {
        reader.attachment.ring.set_want_video(wanted);
        player.clear();
        reader.drain();
        let eyes = TwoEyes::random(image, &mut random);
        let place = Rect::at(at.0, at.1, crop.width(), crop.height());
        eyes.put(&player, crop, place).check().unwrap();
        let on_screen = place.translate(40, 30);
        let expected = DrawHint::Stereo { port: 4, size: image, crop, place: on_screen };
        let mut covered = Region::new();
        let records = reader.drain();
        for (rect, hint, _) in stereo(&records) {
            assert_eq!(hint, expected);
            covered.add_rect(rect);
        }
        let mut seen = Region::from(on_screen.intersect(&Rect::at(40, 30, 400, 300)));
        seen.subtract_rect(&hidden);
        assert_eq!(covered, seen, "the visible part of {image:?}");
        let pixels = reader.pixels();
        for (x, y) in (40..440).flat_map(|x| (30..330).map(move |y| (x, y))) {
            let pixel = pixels[y as usize * 640 + x as usize];
            if hidden.contains_point(x, y) {
                assert_eq!(pixel, 0xaa_bbcc, "the window above is unchanged");
            } else if on_screen.contains_point(x, y) {
                let (left, top) = (on_screen.x1 - crop.x1, on_screen.y1 - crop.y1);
                assert_eq!(pixel, eyes.left(x - left, y - top), "at {x}, {y} of {image:?}");
            } else {
                assert_eq!(pixel, player::BACKGROUND, "outside the place at {x}, {y}");
            }
        }
        let kept = reader.attachment.ring.video_frame(4, &mut data);
        if !wanted {
            assert_eq!(kept, None, "nobody wants it");
            continue;
        }
        let kept = kept.expect("the right eye's picture is kept");
        let layout = VideoLayout::RightEye;
        assert_eq!(
            (kept.layout, kept.size, kept.crop, kept.place),
            (layout, image, crop, on_screen)
        );
        assert_eq!(kept.op, stereo(&records)[0].2, "both eyes' pictures are of one op");
        assert_eq!(data, eyes.right());
    }
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn a_stereo_frame_that_changes_for_neither_eye_is_recorded_once() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let (crop, place) = (Rect::at(0, 0, 64, 48), Rect::at(10, 20, 64, 48));
    let mut eyes = TwoEyes::random(size(64, 48), &mut Random::new(22));
    let frames_of = |reader: &mut Reader, eyes: &TwoEyes| {
        eyes.put(&player, crop, place).check().unwrap();
        stereo(&reader.drain()).len()
    };
    assert_eq!(frames_of(&mut reader, &eyes), 1);
    assert_eq!(frames_of(&mut reader, &eyes), 0, "it is at rest");
    let last = eyes.bytes.len() - 2;
    eyes.bytes[last] ^= 1;
    assert_eq!(frames_of(&mut reader, &eyes), 1, "the right eye sees something else");
    eyes.bytes[3] ^= 1;
    assert_eq!(frames_of(&mut reader, &eyes), 0, "the left eye sees no alpha");
    eyes.bytes[2] ^= 1;
    assert_eq!(frames_of(&mut reader, &eyes), 1);
    player.conn.clear_area(false, player.window, 73, 67, 1, 1).unwrap();
    assert_eq!(frames_of(&mut reader, &eyes), 1, "something was drawn over its last pixel");
    player.conn.unmap_window(player.window).unwrap();
    player.sync();
    assert_eq!(stops(&reader.drain()), [4], "it ends with its window");
    assert_eq!(reader.attachment.ring.video_frame(4, &mut Vec::new()), None);
    assert!(server.stop(), "X exits cleanly");
}

/// The session takes what is drawn over a stereo frame, of whatever pixels, for the end of the
/// right eye's picture there.
#[test]
fn a_stereo_frame_is_recorded_again_after_anything_was_drawn_over_it() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let crop = Rect::at(0, 0, 64, 48);
    let eyes = TwoEyes::background(size(64, 48), &mut Random::new(24));
    let put = |reader: &mut Reader, crop: Rect, place: Rect| {
        eyes.put(&player, crop, place).check().unwrap();
        let frames = stereo(&reader.drain());
        frames.iter().map(|(rect, ..)| rect.area()).sum::<u64>()
    };
    let place = Rect::at(10, 20, 64, 48);
    let again = |reader: &mut Reader, why: &str| {
        assert_eq!(put(reader, crop, place), place.area(), "{why}");
        assert_eq!(put(reader, crop, place), 0, "it is at rest, {why}");
    };
    again(&mut reader, "the first");
    let clear = |x, y| player.conn.clear_area(false, player.window, x, y, 5, 4).unwrap();
    clear(30, 40);
    again(&mut reader, "its own background was drawn over it");
    clear(9 + 64, 19 + 48);
    again(&mut reader, "its last pixel was drawn over");
    for (x, y) in [(5, 20), (10, 16), (74, 20), (10, 68)] {
        clear(x, y);
        assert_eq!(put(&mut reader, crop, place), 0, "what was drawn only touches it: {x}, {y}");
    }
    let (window, gc) = (player.window, player.gc());
    player.conn.copy_area(window, window, gc, 200, 200, 20, 30, 9, 9).unwrap();
    again(&mut reader, "something of the same colour was copied into it");
    player.conn.copy_area(window, window, gc, 10, 20, 200, 200, 64, 48).unwrap();
    again(&mut reader, "all of it was copied elsewhere");
    let menu = player.cover(Rect::at(60, 60, 20, 20), player::BACKGROUND);
    assert_eq!(put(&mut reader, crop, place), place.area() - 400, "a menu is in front");
    player.conn.destroy_window(menu).unwrap();
    player.sync();
    again(&mut reader, "a menu of the same colour is gone");
    // The same pixels, but not the same for the right eye.
    let part = Rect::at(0, 0, 60, 40);
    let (moved, at) = (Rect::at(4, 8, 60, 40), Rect::at(10, 20, 60, 40));
    assert_eq!(put(&mut reader, part, at), part.area());
    assert_eq!(put(&mut reader, moved, at), moved.area(), "another part of it");
    assert_eq!(put(&mut reader, moved, at.translate(1, 0)), moved.area(), "at another place");
    again(&mut reader, "another part of it was shown");
    // More records than the ring holds, none of them near it.
    for at in (0..10).cycle().take(40_000) {
        let (x, y) = (300 + at % 7 * 10, 200 + at % 5 * 10);
        player.conn.clear_area(false, player.window, x, y, 3, 3).unwrap();
    }
    player.sync();
    assert!(reader.attachment.ring.stats().overflows > 0, "the ring overflowed");
    reader.drain();
    again(&mut reader, "records are missing");
    // Another session process.
    drop(reader);
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    again(&mut reader, "another reader has come");
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn a_program_that_draws_one_stereo_frame_again_and_again_is_held_to_the_rate() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let eyes = TwoEyes::random(size(256, 256), &mut Random::new(25));
    let put = || eyes.put(&player, Rect::at(0, 0, 256, 256), Rect::at(0, 0, 256, 256));
    put().check().unwrap();
    assert_eq!(stereo(&reader.drain()).len(), 1);
    let deadline = Instant::now() + TIMEOUT;
    let before = reader.attachment.ring.stats().holds;
    while reader.attachment.ring.stats().holds == before {
        assert!(Instant::now() < deadline, "the program is not held");
        put().check().unwrap();
    }
    assert_eq!(stereo(&reader.drain()), [], "all of them are left out");
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn a_stereo_frame_is_never_scaled_and_lies_inside_its_image() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let player = Player::new(&server, Rect::at(40, 30, 400, 300));
    let eyes = TwoEyes::random(size(64, 48), &mut Random::new(23));
    for (crop, place) in [
        (Rect::at(0, 0, 64, 48), Rect::at(0, 0, 65, 48)),
        (Rect::at(0, 0, 64, 48), Rect::at(0, 0, 64, 24)),
        (Rect::at(0, 0, 64, 96), Rect::at(0, 0, 64, 96)),
        (Rect::at(0, 1, 64, 48), Rect::at(0, 0, 64, 48)),
        (Rect::at(-1, 0, 64, 48), Rect::at(0, 0, 64, 48)),
        (Rect::at(32_000, 0, 64, 48), Rect::at(0, 0, 64, 48)),
    ] {
        let refused = eyes.put(&player, crop, place).check();
        assert!(refused.is_err(), "{crop:?} to {place:?}");
        assert_eq!(stereo(&reader.drain()), [], "{crop:?} to {place:?}");
    }
    assert!(server.stop(), "X exits cleanly");
}

// ---- the end of a video -------------------------------------------------------------------------

#[test]
fn the_end_of_a_video_is_recorded_at_once() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let picture = Picture::random(b"NV12", size(320, 240), &mut Random::new(9));
    let (crop, place) = (Rect::at(0, 0, 320, 240), Rect::at(0, 0, 200, 150));
    let begin = |reader: &mut Reader, player: &mut Player| {
        player.put(5, &picture, crop, place);
        reader.drain();
        assert!(reader.attachment.ring.video_playing(5));
        assert!(reader.attachment.ring.video_frame(5, &mut Vec::new()).is_some());
        assert!(video_memory(&server) > 0, "samples take memory");
    };
    let ended = |reader: &mut Reader, how: &str| {
        assert_eq!(stops(&reader.drain()), [5], "{how}");
        assert!(!reader.attachment.ring.video_playing(5), "{how}");
        assert_eq!(reader.attachment.ring.video_frame(5, &mut Vec::new()), None, "{how}");
        assert_eq!(video_memory(&server), 0, "{how}: its memory is released");
    };
    let mut player = Player::new(&server, Rect::at(40, 30, 200, 150));
    let watcher = Player::new(&server, Rect::at(600, 400, 9, 9));

    begin(&mut reader, &mut player);
    player.conn.xv_stop_video(player.port(5), player.window).unwrap();
    player.sync();
    ended(&mut reader, "the client stops it");

    begin(&mut reader, &mut player);
    player.conn.unmap_window(player.window).unwrap();
    player.sync();
    ended(&mut reader, "the window is unmapped");
    player.conn.map_window(player.window).unwrap();

    begin(&mut reader, &mut player);
    let above = player.cover(Rect::at(30, 20, 300, 200), 0x12_3456);
    player.put(5, &picture, crop, place);
    ended(&mut reader, "the window is fully obscured when a frame arrives");
    player.conn.destroy_window(above).unwrap();

    // A menu that opens and closes does not end it.
    begin(&mut reader, &mut player);
    let menu = player.cover(Rect::at(60, 50, 30, 20), 0x65_4321);
    player.put(5, &picture, crop, place);
    player.conn.destroy_window(menu).unwrap();
    player.conn.configure_window(player.window, &ConfigureWindowAux::new().x(-50).y(60)).unwrap();
    player.sync();
    assert_eq!(stops(&reader.drain()), []);
    assert!(reader.attachment.ring.video_playing(5));

    // As after a crash: the server closes the client's resources.
    begin(&mut reader, &mut player);
    drop(player);
    let gone =
        reader.read_until(|record| matches!(record.kind, RecordKind::VideoStopped { port: 5 }));
    assert!(stops(&gone).is_empty());
    watcher.sync();
    reader.drain();
    assert_eq!(reader.attachment.ring.video_frame(5, &mut Vec::new()), None);
    assert_eq!(video_memory(&server), 0);

    // If samples are no longer requested, the memory is released at the next frame.
    let mut player = Player::new(&server, Rect::at(40, 30, 200, 150));
    begin(&mut reader, &mut player);
    reader.attachment.ring.set_want_video(false);
    player.put(5, &picture, crop, place);
    reader.drain();
    assert_eq!(video_memory(&server), 0);
    assert!(reader.attachment.ring.video_playing(5));
    // Or when X turns to other work, if the client has paused.
    reader.attachment.ring.set_want_video(true);
    begin(&mut reader, &mut player);
    reader.attachment.ring.set_want_video(false);
    // X answers before it sleeps and releases memory when it sleeps: a few answers may come before
    // that.
    let is_released = || {
        watcher.sync();
        video_memory(&server) == 0
    };
    assert!((0..100).any(|_| is_released()), "{} bytes are still allocated", video_memory(&server));
    assert_eq!(reader.attachment.ring.video_frame(5, &mut Vec::new()), None);
    assert!(reader.attachment.ring.video_playing(5));
    // Another session attaches while a video plays.
    drop(reader);
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    begin(&mut reader, &mut player);
    assert!(server.stop(), "X exits cleanly");
}

/// Bytes allocated by X for frames.
fn video_memory(server: &XServer) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", server.pid())).unwrap();
    let mut of_video = false;
    let mut kib = 0;
    for line in smaps.lines() {
        if line.contains("thinc-video") {
            of_video = true;
        } else if let Some(rss) = line.strip_prefix("Rss:")
            && std::mem::take(&mut of_video)
        {
            kib += rss.trim_end_matches("kB").trim().parse::<u64>().unwrap();
        }
    }
    kib * 1024
}

// ---- concurrency --------------------------------------------------------------------------------

/// A client sends frames of changing sizes as fast as X accepts them, stops and starts, while a
/// session reads: every frame read is complete.
#[test]
fn no_frame_is_torn() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let done = AtomicBool::new(false);
    let wanted = if std::env::var_os("THINC_TEST_SANITIZED").is_some() { 300 } else { 3000 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut player = Player::new(&server, Rect::at(0, 0, 64, 48));
            let mut random = Random::new(10);
            for n in 0u32.. {
                if done.load(Ordering::Acquire) {
                    break;
                }
                let name = FORMATS[random.within(0, 4) as usize];
                // Mostly of one size, so that frames follow each other as fast as possible.
                let (width, height) = if n.is_multiple_of(50) {
                    (random.within(1, 900), random.within(1, 700))
                } else {
                    (640, 360)
                };
                let picture = Picture::plain(name, size(width as u32, height as u32), n as u8);
                let crop = Rect::at(0, 0, width as i32, height as i32);
                // A small place: X copies much and converts little, which is the hardest case for a
                // reader.
                player.put(7, &picture, crop, Rect::at(0, 0, 2, 2));
                if n % 400 == 399 {
                    player.conn.xv_stop_video(player.port(7), player.window).unwrap();
                }
            }
        });
        // Ends the client even if this thread fails.
        let _end = End(&done);
        let (mut data, mut newest, mut deadline) = (Vec::new(), None, Instant::now() + TIMEOUT);
        let (mut read, mut missed, mut sizes) = (0u32, 0u32, HashSet::new());
        while read < wanted || sizes.len() < 3 {
            assert!(
                Instant::now() < deadline,
                "{read} frames of {} sizes, {missed} reads without one",
                sizes.len()
            );
            while reader.attachment.ring.poll().is_some() {}
            let Some(info) = reader.attachment.ring.video_frame(7, &mut data) else {
                missed += 1;
                std::thread::yield_now();
                continue;
            };
            assert_eq!(data.len(), info.layout.bytes(info.size));
            let (luma, color) = data.split_at((info.size.width * info.size.height) as usize);
            let (blue, red) = color.split_at(color.len() / 2);
            let first = luma[0];
            assert!(luma.iter().all(|&sample| sample == first), "luma of one frame only");
            assert!(blue.iter().all(|&sample| sample == first.wrapping_add(1)), "blue of the same");
            assert!(red.iter().all(|&sample| sample == first.wrapping_add(2)), "red of the same");
            assert!(newest.is_none_or(|op| info.op >= op), "no frame is older than the one before");
            if newest != Some(info.op) {
                read += 1;
                deadline = Instant::now() + TIMEOUT;
            }
            newest = Some(info.op);
            sizes.insert((info.size.width, info.size.height));
        }
        println!("{read} frames of {} sizes, {missed} reads without one", sizes.len());
    });
    assert!(server.stop(), "X exits cleanly");
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn frames_past_the_memory_limit_are_recorded_as_pixels() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut player = Player::new(&server, Rect::at(0, 0, 64, 48));
    let mut data = Vec::new();
    let picture = Picture::plain(b"UYVY", size(8192, 8192), 77);
    let (crop, place) = (Rect::at(0, 0, 8192, 8192), Rect::at(0, 0, 64, 48));
    player.put_shared(0, &picture, crop, place);
    reader.drain();
    let info = reader
        .attachment
        .ring
        .video_frame(0, &mut data)
        .expect("the samples of the largest frame are available");
    assert_eq!(
        (info.size, info.layout, data.len()),
        (size(8192, 8192), VideoLayout::Yuv422, 128 << 20)
    );
    assert!(
        data.iter()
            .zip(
                [77, 78, 79].iter().flat_map(|&v| std::iter::repeat_n(
                    v,
                    if v == 77 { 64 << 20 } else { 32 << 20 }
                ))
            )
            .all(|(a, b)| *a == b)
    );
    // Two such frames, with both their buffers, reach the limit.
    player.put_shared(1, &picture, crop, place);
    assert_eq!(frames(&reader.drain()).len(), 1);
    let small = Picture::plain(b"I420", size(352, 288), 5);
    player.put(2, &small, Rect::at(0, 0, 352, 288), place);
    let records = reader.drain();
    assert_eq!(frames(&records), [], "past the limit a frame is recorded as pixels");
    let image =
        |record: &DrawRecord| matches!(record.kind, RecordKind::Draw { hint: DrawHint::Image, .. });
    assert!(records.iter().any(image));
    assert_eq!(reader.attachment.ring.video_frame(2, &mut data), None);
    // If one stops, there is room again.
    player.conn.xv_stop_video(player.port(1), player.window).unwrap();
    player.put(2, &small, Rect::at(0, 0, 352, 288), place);
    assert_eq!(frames(&reader.drain()).len(), 1);
    assert!(reader.attachment.ring.video_frame(2, &mut data).is_some());
    assert!(server.stop(), "X exits cleanly");
}

// ---- the golden file of viewers -----------------------------------------------------------------

/// Pictures, crops and places, and the driver's result: crates/video must produce the same.
#[test]
fn the_driver_reproduces_the_golden_file() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    let mut player = Player::new(&server, Rect::at(0, 0, 640, 480));
    let mut random = Random::new(11);
    let cases = [
        (size(32, 24), Rect::at(0, 0, 32, 24), Rect::at(0, 0, 32, 24)),
        (size(32, 24), Rect::at(0, 0, 32, 24), Rect::at(3, 5, 93, 70)),
        (size(33, 25), Rect::at(0, 0, 33, 25), Rect::at(-7, -9, 64, 48)),
        (size(33, 25), Rect::at(5, 3, 17, 11), Rect::at(10, 10, 40, 30)),
        (size(48, 36), Rect::at(0, 0, 48, 36), Rect::at(1, 1, 20, 15)),
        (size(48, 36), Rect::at(1, 1, 47, 35), Rect::at(0, 0, 47, 35)),
        (size(7, 5), Rect::at(3, 2, 1, 1), Rect::at(0, 0, 9, 9)),
        (size(1, 1), Rect::at(0, 0, 1, 1), Rect::at(0, 0, 5, 5)),
        (size(9, 1), Rect::at(0, 0, 9, 1), Rect::at(0, 0, 30, 4)),
        (size(1, 9), Rect::at(0, 0, 1, 9), Rect::at(0, 0, 4, 30)),
    ];
    let mut golden = Vec::new();
    let put = |out: &mut Vec<u8>, words: &[i32]| {
        words.iter().for_each(|word| out.extend(word.to_le_bytes()))
    };
    for (layout, name) in [(0, b"I420"), (1, b"UYVY")] {
        for (image, crop, place) in cases {
            let picture = Picture::random(name, image, &mut random);
            player.clear();
            player.put(0, &picture, crop, place);
            reader.drain();
            let (screen, shown) = (reader.pixels(), place.intersect(&Rect::at(0, 0, 640, 480)));
            let layout = if image.height == 1 { 0 } else { layout };
            put(&mut golden, &[layout, image.width as i32, image.height as i32]);
            for rect in [crop, place, shown] {
                put(&mut golden, &[rect.x1, rect.y1, rect.width(), rect.height()]);
            }
            golden.extend(picture.planes.concat());
            for y in shown.y1..shown.y2 {
                let row = &screen[(y * 640 + shown.x1) as usize..(y * 640 + shown.x2) as usize];
                row.iter().for_each(|pixel| golden.extend(pixel.to_le_bytes()));
            }
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden.bin");
    if std::env::var_os("THINC_TEST_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &golden).unwrap();
    }
    assert!(
        std::fs::read(&path).unwrap() == golden,
        "the driver's output differs from {}",
        path.display()
    );
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
