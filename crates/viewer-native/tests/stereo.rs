//! Stereo against a fake session: a script sees each eye's picture, and a real window shows both
//! as the user has chosen, whatever puts pixels there. The window's tests are skipped, with a
//! message, without Xvfb.

#[cfg(feature = "window")]
mod desk;
mod fake;

use std::path::Path;

use fake::{Fake, LONG};
use thinc_protocol::command::Command;
use thinc_protocol::session::CloseCode;
use thinc_protocol::video::{Codec, Eye, FrameData, Source, VideoCommand};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::StereoMode;
use thinc_viewer_native::client::Reconnect;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};
use thinc_viewer_native::{script, shot};

const SCREEN: Size = Size { width: 300, height: 200 };
/// Of the stereo program's window, of which a part is covered.
const PLACE: Rect = Rect::at(41, 30, 150, 90);
const COVERED: Rect = Rect::at(60, 20, 30, 50);
/// Some of what is not covered.
const PART: Rect = Rect::at(100, 40, 60, 50);

/// The right eye's pixels: no two neighbours are equal, nor equal to the left eye's.
fn right(seed: u32) -> Vec<u32> {
    let pixel = |at: u32| (at ^ seed).wrapping_mul(0x0005_a0c7) & 0xff_ffff;
    (0..PLACE.area() as u32).map(pixel).collect()
}

/// The session starts a stereo program's stream once it was asked for.
fn begin(fake: &Fake) {
    let wanted = |message: &ViewerMessage| match message {
        ViewerMessage::Stereo(wanted) => Some(*wanted),
        _ => None,
    };
    assert!(fake.wait_for("that stereo is wanted", wanted));
    let size = Size { width: PLACE.width() as u32, height: PLACE.height() as u32 };
    let source = Source { size, crop: size.rect() };
    let (codec, eye) = (Codec::None, Eye::Right);
    let init = VideoCommand::Init { id: 5, codec, eye, source, place: PLACE };
    fake.commands(&[Command::Video(init)]);
}

fn clip() -> Region {
    let mut clip = Region::from(PLACE);
    clip.subtract_rect(&COVERED);
    clip
}

fn show(fake: &Fake, pixels: &[u32]) {
    show_in(fake, clip(), pixels);
}

fn show_in(fake: &Fake, clip: Region, pixels: &[u32]) {
    let data: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
    let frame = FrameData::Pixels { data: &data };
    let next = VideoCommand::Next { id: 5, time: 0, clip, frame };
    fake.commands(&[Command::Video(next)]);
}

/// What the right eye sees.
fn seen_right(left: &[u32], pixels: &[u32]) -> Vec<u32> {
    seen_in(&clip(), left, pixels)
}

fn seen_in(clip: &Region, left: &[u32], pixels: &[u32]) -> Vec<u32> {
    let mut seen = left.to_vec();
    for rect in clip.rects() {
        for (x, y) in (rect.y1..rect.y2).flat_map(|y| (rect.x1..rect.x2).map(move |x| (x, y))) {
            let at = (y - PLACE.y1) * PLACE.width() + x - PLACE.x1;
            seen[y as usize * SCREEN.width as usize + x as usize] = pixels[at as usize];
        }
    }
    seen
}

/// Both pictures as a mode shows them.
fn shown(mode: StereoMode, left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut shown = left.to_vec();
    for y in PLACE.y1..PLACE.y2 {
        let start = y as usize * SCREEN.width as usize;
        let row = start + PLACE.x1 as usize..start + PLACE.x2 as usize;
        mode.compose_row(y, &left[row.clone()], &right[row.clone()], &mut shown[row]);
    }
    shown.into_iter().map(|pixel| pixel & 0xff_ffff).collect()
}

fn read_png(path: &Path) -> Vec<u32> {
    let mut reader = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()))
        .read_info()
        .unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    let pixels = bytes.as_chunks::<3>().0.iter();
    pixels.map(|&[red, green, blue]| u32::from_be_bytes([0, red, green, blue])).collect()
}

#[test]
fn a_script_sees_each_eyes_picture() {
    let fake = Fake::start(SCREEN);
    let options = HeadlessOptions {
        timeout: LONG,
        reconnect: Reconnect::Always,
        ..HeadlessOptions::default()
    };
    let mut viewer = Headless::open(fake.link(), options).unwrap();
    let mut run = |lines: &str| {
        let mut out = Vec::new();
        let result = script::run(&mut viewer, lines.as_bytes(), &mut out);
        (String::from_utf8(out).unwrap(), result.is_ok())
    };
    let (out, _) = run("right-bounds\nwait-right no\nstereo anaglyph\n");
    assert_eq!(out, "ok none\nok\nok\n");
    let (out, is_ok) = run("stereo 3d\n");
    assert!(!is_ok && out.contains("off, anaglyph, side-by-side, interleaved, quad are"), "{out}");
    begin(&fake);
    let pixels = right(7);
    show(&fake, &pixels);
    let (left, seen) = (fake.screen(), seen_right(&fake.screen(), &pixels));
    let file = |name: &str| fake.folder.join(name);
    let files = ["left.png", "right.png", "shown.png"].map(file);
    let at = 100 + 50 * SCREEN.width as usize;
    let lines = format!(
        "wait-right yes\nwait-right-pixel 100 50 {:06x}\nbarrier\nright-bounds\n\
         right-pixel 100 50\npixel 100 50\nscreenshot {}\nscreenshot-right {}\n\
         screenshot-shown {}\nhash\n",
        seen[at],
        files[0].display(),
        files[1].display(),
        files[2].display()
    );
    let (out, _) = run(&lines);
    let expected = format!(
        "ok\nok\nok\nok 150x90+41+30\nok {:06x}\nok {:06x}\nok\nok\nok\nok {:016x}\n",
        seen[at],
        left[at],
        shot::hash(&left)
    );
    assert_eq!(out, expected);
    let written = files.map(|file| read_png(&file));
    let anaglyph = shown(StereoMode::Anaglyph, &left, &seen);
    assert!(written == [left.clone(), seen.clone(), anaglyph], "the three pictures");
    let shot = fake.folder.join("side.png");
    run(&format!("stereo side-by-side\nscreenshot-shown {}\n", shot.display()));
    assert!(read_png(&shot) == shown(StereoMode::SideBySide, &left, &seen));
    // The next connection asks again, since the session forgets.
    fake.close(CloseCode::Restart, "a new version");
    begin(&fake);
    let (out, _) = run("wait-connection 2\nright-bounds\nstereo off\nright-pixel 100 50\n");
    assert_eq!(out, format!("ok\nok none\nok\nok {:06x}\n", left[at]));
    let wish = fake.wait_for("that stereo is not wanted", |message| match message {
        ViewerMessage::Stereo(wanted) => Some(*wanted),
        _ => None,
    });
    assert!(!wish);
}

#[test]
fn after_a_reconnect_the_right_eye_sees_only_what_the_new_connection_sends() {
    let fake = Fake::start(SCREEN);
    let options = HeadlessOptions {
        timeout: LONG,
        reconnect: Reconnect::Always,
        stereo: StereoMode::Anaglyph,
        ..HeadlessOptions::default()
    };
    let mut viewer = Headless::open(fake.link(), options).unwrap();
    let mut run = |lines: &str| {
        let mut out = Vec::new();
        script::run(&mut viewer, lines.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let files = ["right.png", "shown.png"].map(|name| fake.folder.join(name));
    let shots = format!(
        "screenshot-right {}\nscreenshot-shown {}\n",
        files[0].display(),
        files[1].display()
    );
    begin(&fake);
    show(&fake, &right(7));
    run("wait-right yes\n");
    for (connection, seed) in [(2, 8), (3, 9)] {
        match connection {
            2 => fake.close(CloseCode::Restart, "a new version"),
            _ => fake.cut(),
        }
        begin(&fake);
        let lines = format!("wait-connection {connection}\nbarrier\nright-bounds\n{shots}");
        assert_eq!(run(&lines), "ok\nok\nok none\nok\nok\n", "connection {connection}");
        let left = fake.screen();
        let [seen, both] = files.each_ref().map(|file| read_png(file));
        assert!(seen == left && both == left, "nothing is left of the last connection");
        // Less than before is visible.
        let (part, pixels) = (Region::from(PART), right(seed));
        show_in(&fake, part.clone(), &pixels);
        run(&format!("wait-right yes\nbarrier\n{shots}"));
        let expected = seen_in(&part, &left, &pixels);
        let [seen, both] = files.each_ref().map(|file| read_png(file));
        assert!(seen == expected, "what the right eye sees in connection {connection}");
        assert!(both == shown(StereoMode::Anaglyph, &left, &expected));
    }
}

#[test]
fn a_session_without_stereo_is_not_asked() {
    let fake = Fake::start(SCREEN);
    fake.shared.state.lock().unwrap().more_caps = 0;
    let options = HeadlessOptions {
        timeout: LONG,
        stereo: StereoMode::Anaglyph,
        ..HeadlessOptions::default()
    };
    let mut viewer = Headless::open(fake.link(), options).unwrap();
    viewer.barrier().unwrap();
    let mut out = Vec::new();
    assert!(script::run(&mut viewer, &b"stereo interleaved\n"[..], &mut out).is_err());
    assert_eq!(String::from_utf8(out).unwrap(), "error this session has no stereo\n");
    let asked = fake.wait_for("the barrier", |message| match message {
        ViewerMessage::Stereo(_) => Some(true),
        ViewerMessage::Barrier(_) => Some(false),
        _ => None,
    });
    assert!(!asked);
}

#[cfg(feature = "window")]
mod window {
    use super::desk::{Desk, until};
    use super::*;

    impl Desk {
        fn wait_mode(&self, mode: StereoMode, pixels: &[u32]) {
            let left = self.fake.screen();
            let wanted = shown(mode, &left, &seen_right(&left, pixels));
            until(mode.name(), || (self.pixels(SCREEN.rect()) == wanted).then_some(()));
        }

        /// Waits until the window has changed from one picture to another; no pixel is of a third.
        fn wait_between(&self, from: &[u32], to: &[u32]) {
            until("the next picture", || {
                let pixels = self.pixels(SCREEN.rect());
                for (at, pixel) in pixels.iter().enumerate() {
                    let of_both = [from[at], to[at]];
                    assert!(of_both.contains(pixel), "{pixel:06x} at {at}, not {of_both:06x?}");
                }
                (pixels == to).then_some(())
            });
        }

        /// Ctrl+Alt+W.
        fn next_mode(&self) {
            for (key, down) in
                [(29, true), (56, true), (17, true), (17, false), (56, false), (29, false)]
            {
                self.key(key, down);
            }
        }
    }

    fn shows_both(present: &str) {
        let arguments = ["--present", present, "--stereo", "anaglyph"];
        let Some(desk) = Desk::start(SCREEN, &arguments) else { return };
        desk.wait_exact();
        begin(&desk.fake);
        for seed in 0..3 {
            show(&desk.fake, &right(seed));
            desk.wait_mode(StereoMode::Anaglyph, &right(seed));
        }
        // What is drawn in the window, and beside it.
        desk.fake.fill(Rect::at(30, 25, 40, 50), 0x20_8040, None);
        desk.wait_mode(StereoMode::Anaglyph, &right(2));
        // This display has no buffer for each eye.
        for mode in [StereoMode::SideBySide, StereoMode::Interleaved] {
            desk.next_mode();
            // Once the notice is over that names it.
            desk.wait_mode(mode, &right(2));
        }
        desk.next_mode();
        let wish = desk.fake.wait_for("that stereo is not wanted", |message| match message {
            ViewerMessage::Stereo(wanted) => Some(*wanted),
            _ => None,
        });
        assert!(!wish);
        desk.wait_exact();
        desk.close();
        let mut desk = desk;
        let (code, stderr) = desk.end();
        assert_eq!(code, Some(0), "{stderr}");
        if !stderr.is_empty() {
            assert!(present == "gpu" && std::env::var_os("CI").is_none(), "{stderr}");
            eprintln!("skipped: {stderr}");
        }
    }

    #[test]
    fn pixels_that_are_copied_show_both_eyes() {
        shows_both("surface");
    }

    #[test]
    fn pixels_of_a_gpu_show_both_eyes() {
        shows_both("gpu");
    }

    fn shows_no_old_right_eye(present: &str) {
        let arguments = ["--present", present, "--stereo", "anaglyph"];
        let Some(desk) = Desk::start(SCREEN, &arguments) else { return };
        desk.wait_exact();
        begin(&desk.fake);
        show(&desk.fake, &right(1));
        desk.wait_mode(StereoMode::Anaglyph, &right(1));
        desk.fake.cut();
        begin(&desk.fake);
        // The new connection has sent one picture so far.
        desk.wait_exact();
        // Within the stereo program's window: nothing old comes back with it.
        let filled = Rect::at(50, 40, 100, 60);
        let before = desk.fake.screen();
        desk.fake.fill(filled, 0x20_8040, None);
        desk.wait_between(&before, &desk.fake.screen());
        let (left, pixels) = (desk.fake.screen(), right(2));
        let part = Region::from(PART);
        let both = shown(StereoMode::Anaglyph, &left, &seen_in(&part, &left, &pixels));
        show_in(&desk.fake, part, &pixels);
        desk.wait_between(&left, &both);
        desk.close();
    }

    #[test]
    fn pixels_that_are_copied_show_no_old_right_eye_after_a_reconnect() {
        shows_no_old_right_eye("surface");
    }

    #[test]
    fn pixels_of_a_gpu_show_no_old_right_eye_after_a_reconnect() {
        shows_no_old_right_eye("gpu");
    }

    #[test]
    fn a_display_without_a_picture_for_each_eye_says_so_and_shows_one() {
        let Some(mut desk) = Desk::start(SCREEN, &["--stereo", "quad"]) else { return };
        let (ink, paper) = (0xe8_e8e8, 0x18_181c);
        until("a notice at the lower edge", || {
            let pixels = desk.pixels(Rect::at(0, 175, 300, 25));
            let papers = pixels.iter().filter(|pixel| **pixel == paper).count();
            (pixels.contains(&ink) && papers > 500).then_some(())
        });
        // Until it is over.
        desk.wait_exact();
        desk.close();
        let (code, stderr) = desk.end();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stderr.contains("quad-buffered"), "{stderr}");
    }
}
