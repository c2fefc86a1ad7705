//! Videos with real components: XVideo frames and video areas, in a headless viewer that decodes. A
//! plain stream shows the screen byte for byte while it plays, an encoded one once it rests;
//! windows in front of either are always exact. Frames are drawn until a condition holds, not for a
//! time: a busy machine makes them slower, never fewer.

use std::process::Command;
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::process::{Headless, Session, binary, wait_for};
use thinc_e2e::{Desktop, EVENT_TIMEOUT, Image, descendants};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, Gcontext, ImageFormat, Rectangle, Window,
    WindowClass,
};
use x11rb::protocol::xv::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

type Outcome = Result<(), Error>;

const SIZE: &str = "800x600";
/// "I420", as XVideo names it.
const I420: u32 = 0x3032_3449;
/// Size of the frames, in samples; and where they are shown.
const WIDTH: u16 = 320;
const HEIGHT: u16 = 240;
const PLACE: (i16, i16, u16, u16) = (60, 50, 530, 397);
/// 24 frames a second.
const FRAME: Duration = Duration::from_millis(42);
/// A player, and a window that it can open in front of its video.
struct Player {
    conn: RustConnection,
    window: Window,
    gc: Gcontext,
    port: u32,
    frame: u32,
    next: Instant,
}

impl Player {
    fn new(desktop: &Desktop) -> Result<Player, Error> {
        let conn = desktop.connect_x()?;
        let root = conn.setup().roots[0].root;
        let (x, y, width, height) = PLACE;
        let window = open_window(&conn, (x, y, width, height), 0x10_2030)?;
        let gc = conn.generate_id()?;
        conn.create_gc(gc, window, &CreateGCAux::new())?;
        let adaptors = conn.xv_query_adaptors(root)?.reply()?.info;
        let port = adaptors.first().ok_or("the driver has an adaptor for video")?.base_id;
        Ok(Player { conn, window, gc, port, frame: 0, next: Instant::now() })
    }

    /// The next frame through XVideo, scaled to the window, which X has drawn when this returns.
    fn play(&mut self) -> Outcome {
        let (width, height) = (i32::from(WIDTH), i32::from(HEIGHT));
        let n = self.frame as i32;
        let mut data = Vec::new();
        data.extend(
            (0..height).flat_map(|y| {
                (0..width).map(move |x| (40 + gradient(x * 2 + n * 3, y * 2, n)) as u8)
            }),
        );
        for shift in [0, 700] {
            data.extend((0..height / 2).flat_map(|y| {
                (0..width / 2).map(move |x| (64 + gradient(x + shift, y - n, n) / 2) as u8)
            }));
        }
        let (_, _, to_width, to_height) = PLACE;
        let (w, h) = (WIDTH, HEIGHT);
        self.conn.xv_put_image(
            self.port,
            self.window,
            self.gc,
            I420,
            0,
            0,
            w,
            h,
            0,
            0,
            to_width,
            to_height,
            w,
            h,
            &data,
        )?;
        self.pace()
    }

    /// The last frame again, as a paused player draws it.
    fn play_again(&mut self) -> Outcome {
        self.frame -= 1;
        self.play()
    }

    /// The next frame as pixels, as a browser draws it.
    fn paint(&mut self) -> Outcome {
        let (_, _, width, height) = PLACE;
        let n = self.frame as i32;
        let rows = (1 << 17) / usize::from(width) / 4;
        for top in (0..height).step_by(rows) {
            let rows = (height - top).min(rows as u16);
            let mut data = Vec::with_capacity(usize::from(width) * usize::from(rows) * 4);
            for y in i32::from(top)..i32::from(top + rows) {
                for x in 0..i32::from(width) {
                    let grain = (x * 7 + y * 13 + n * 29 + x * y) % 5;
                    let (b, g, r) = (
                        gradient(x + n * 2, y, n),
                        gradient(x, y + n * 3, n + 40),
                        gradient(x - n, y + n, n + 90),
                    );
                    data.extend([b + grain, g + grain, r + grain, 0].map(|channel| channel as u8));
                }
            }
            let (format, top) = (ImageFormat::Z_PIXMAP, top.cast_signed());
            self.conn.put_image(format, self.window, self.gc, width, rows, 0, top, 0, 24, &data)?;
        }
        self.pace()
    }

    fn pace(&mut self) -> Outcome {
        self.conn.sync()?;
        self.frame += 1;
        let now = Instant::now();
        self.next = self.next.max(now) + FRAME;
        std::thread::sleep(self.next - now);
        Ok(())
    }

    /// Opens a menu with text in front of the video.
    fn open_menu(&self, rect: (i16, i16, u16, u16)) -> Result<Window, Error> {
        let menu = open_window(&self.conn, rect, 0xf4_f0e8)?;
        let gc = self.conn.generate_id()?;
        let font = self.conn.generate_id()?;
        self.conn.open_font(font, b"fixed")?;
        self.conn.create_gc(
            gc,
            menu,
            &CreateGCAux::new().font(font).foreground(0x10_1010).background(0xf4_f0e8),
        )?;
        for line in 0..i16::try_from(rect.3 / 16)? {
            self.conn.image_text8(
                menu,
                gc,
                6,
                13 + line * 16,
                format!("{line}: sphinx of quartz").as_bytes(),
            )?;
        }
        let frame = Rectangle { x: 0, y: 0, width: rect.2 - 1, height: rect.3 - 1 };
        self.conn.poly_rectangle(menu, gc, &[frame])?;
        self.conn.sync()?;
        Ok(menu)
    }
}

/// Without edges and plain areas, like a camera's image.
fn gradient(x: i32, y: i32, n: i32) -> i32 {
    let wave = |at: i32, period: i32| ((at.rem_euclid(period) * 2 - period).abs() * 64) / period;
    30 + wave(x + n, 97) + wave(y - n, 71) + wave(x + y + n * 2, 131)
}

fn open_window(
    conn: &RustConnection,
    (x, y, width, height): (i16, i16, u16, u16),
    color: u32,
) -> Result<Window, Error> {
    let (window, root) = (conn.generate_id()?, conn.setup().roots[0].root);
    let settings = CreateWindowAux::new().override_redirect(1).background_pixel(color);
    conn.create_window(
        0,
        window,
        root,
        x,
        y,
        width,
        height,
        0,
        WindowClass::INPUT_OUTPUT,
        0,
        &settings,
    )?;
    conn.map_window(window)?;
    conn.sync()?;
    Ok(window)
}

fn count(desktop: &mut Desktop, what: &str) -> Result<u64, Error> {
    desktop.stats()?["video"][what]
        .as_u64()
        .ok_or_else(|| format!("stats have no video.{what}").into())
}

/// Draws frames until so many more were shown in this form.
fn until_shown(
    desktop: &mut Desktop,
    what: &str,
    more: u64,
    mut draw: impl FnMut() -> Outcome,
) -> Outcome {
    let (before, begun) = (count(desktop, what)?, Instant::now());
    loop {
        for _ in 0..4 {
            draw()?;
        }
        if count(desktop, what)? >= before + more {
            return Ok(());
        }
        if begun.elapsed() > EVENT_TIMEOUT {
            return Err(format!("{more} pictures {what}: {}", desktop.stats()?["video"]).into());
        }
    }
}

/// Waits until the viewer shows nothing lossy.
fn until_exact(desktop: &mut Desktop) -> Outcome {
    wait_for("the viewer's screen is exact", EVENT_TIMEOUT, || {
        desktop.viewer.say("wait-quiet").ok()?;
        (desktop.stats().ok()?["lossy_pixels"] == 0).then_some(())
    })
}

fn part(
    picture: &Image,
    (x, y, width, height): (i16, i16, u16, u16),
) -> impl Iterator<Item = &[u32]> {
    let [x, y, width, height] =
        [x.unsigned_abs(), y.unsigned_abs(), width, height].map(usize::from);
    (y..y + height).map(move |y| &picture.pixels[y * picture.width + x..][..width])
}

#[test]
fn plain_frames_and_a_menu_in_front_are_exact() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-plain", SIZE, &["--video", "plain"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    until_shown(&mut desktop, "plain", 10, || player.play())?;
    desktop.assert_identical("after some frames")?;
    let menu = (200, 150, 180, 120);
    let window = player.open_menu(menu)?;
    until_shown(&mut desktop, "plain", 10, || player.play())?;
    desktop.assert_identical("with a menu before the video")?;
    player.conn.unmap_window(window)?;
    until_shown(&mut desktop, "plain", 3, || player.play())?;
    desktop.assert_identical("and without it")
}

#[test]
fn encoded_frames_become_exact_and_a_menu_in_front_is_exact_at_once() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-coded", SIZE, &["--video", "h264"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    until_shown(&mut desktop, "shown", 10, || player.play())?;
    let menu = (200, 150, 180, 120);
    player.open_menu(menu)?;
    desktop.viewer.say("barrier")?;
    for _ in 0..5 {
        until_shown(&mut desktop, "shown", 2, || player.play())?;
        let (screen, view) = (desktop.screen()?, desktop.view()?);
        assert!(
            part(&screen, menu).eq(part(&view, menu)),
            "the menu is exact while the video plays"
        );
    }
    assert_eq!(count(&mut desktop, "plain")?, 0, "nothing was plain while it played");
    until_exact(&mut desktop)?;
    desktop.assert_identical("once it rests")
}

#[test]
fn an_encoded_picture_that_is_drawn_again_and_again_becomes_exact() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-again", SIZE, &["--video", "h264"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    until_shown(&mut desktop, "shown", 10, || player.play())?;
    let begun = Instant::now();
    loop {
        for _ in 0..12 {
            player.play_again()?;
        }
        desktop.viewer.say("barrier")?;
        if desktop.stats()?["lossy_pixels"] == 0 {
            break;
        }
        assert!(begun.elapsed() < EVENT_TIMEOUT, "it stays lossy");
    }
    player.play_again()?;
    desktop.assert_identical("while the player draws it")
}

#[test]
fn a_video_area_is_encoded_and_a_menu_in_front_stays_exact() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-area", SIZE, &["--video", "h264"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    let menu = (220, 160, 180, 120);
    player.open_menu(menu)?;
    until_shown(&mut desktop, "shown", 20, || player.paint())?;
    for _ in 0..5 {
        until_shown(&mut desktop, "shown", 2, || player.paint())?;
        let (screen, view) = (desktop.screen()?, desktop.view()?);
        assert!(
            part(&screen, menu).eq(part(&view, menu)),
            "the menu is exact while the area moves"
        );
    }
    until_exact(&mut desktop)?;
    desktop.assert_identical("once the area rests")
}

/// GStreamer's element for OpenH264 stands for a GPU's: all but the codec is as there.
#[test]
fn a_video_is_encoded_on_a_gpu_and_goes_on_without_it() -> Outcome {
    let mut thinc = Command::new(binary("thinc")?);
    thinc.env("THINC_VIDEO_ELEMENTS", "openh264/openh264enc");
    let session = Session::start_by(
        thinc,
        "127.0.0.1:0",
        ("video-gpu", SIZE),
        &["--video", "h264"],
        &["sleep", "infinity"],
    )?;
    let mut desktop = Desktop::of(session, "video-gpu")?;
    let mut player = Player::new(&desktop)?;
    let says = |desktop: &mut Desktop| -> Result<bool, Error> {
        let line = desktop.stats()?["graphics"].as_str().unwrap_or_default().to_owned();
        Ok(line.contains("videos are encoded by openh264enc: "))
    };
    let begun = Instant::now();
    while !says(&mut desktop)? {
        assert!(begun.elapsed() < EVENT_TIMEOUT, "the viewer is told of no encoder");
        until_shown(&mut desktop, "shown", 4, || player.play())?;
    }
    let [process] = codecs(&desktop)?[..] else { return Err("one process encodes".into()) };
    until_shown(&mut desktop, "shown", 20, || player.play())?;
    Command::new("kill").args(["-KILL", &process.to_string()]).status()?;
    until_shown(&mut desktop, "shown", 20, || player.play())?;
    assert!(!says(&mut desktop)?, "the viewer is told that it is gone");
    until_exact(&mut desktop)?;
    desktop.assert_identical("once it rests")
}

/// The session's processes that encode on a GPU.
fn codecs(desktop: &Desktop) -> Result<Vec<u32>, Error> {
    let session = desktop.session.pid("session")?;
    let is_codec = |&id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        !name.is_empty() && "thinc-gpu-codec".starts_with(name.trim()) && id != session
    };
    Ok(descendants(session).into_iter().filter(is_codec).collect())
}

/// libaom in the place of both GPUs. A viewer that decodes only H.264 watches beside it.
#[test]
fn a_video_is_av1_for_a_viewer_that_decodes_it_and_goes_on_without_it() -> Outcome {
    let mut thinc = Command::new(binary("thinc")?);
    thinc
        .env("GST_PLUGIN_PATH", binary("thinc")?.with_file_name("examples"))
        .env("THINC_VIDEO_ELEMENTS", "openh264/openh264enc,aom/av1dec,stub/goodav1enc");
    let session = Session::start_by(
        thinc,
        "127.0.0.1:0",
        ("video-av1", SIZE),
        &["--video", "h264"],
        &["sleep", "infinity"],
    )?;
    let mut desktop = Desktop::of(session, "video-av1")?;
    desktop.viewer = desktop.another_viewer_with(&["--decoder", "software"])?;
    let mut viewer = Command::new(binary("thinc-view")?);
    viewer.env("THINC_VIDEO_ELEMENTS", "openh264/openh264dec,aom/av1dec");
    let mut av1 = desktop.another_viewer_by(viewer, &[])?;
    let mut player = Player::new(&desktop)?;
    let menu = (220, 160, 180, 120);
    player.open_menu(menu)?;
    let decoder = |desktop: &mut Desktop| -> Result<String, Error> {
        Ok(desktop.stats()?["video"]["decoder"].as_str().unwrap_or_default().to_owned())
    };
    desktop.with_viewer(&mut av1, |desktop| {
        let begun = Instant::now();
        while !decoder(desktop)?.starts_with("av1dec: ") {
            assert!(begun.elapsed() < EVENT_TIMEOUT, "it is never AV1: {}", decoder(desktop)?);
            until_shown(desktop, "shown", 4, || player.play())?;
        }
        until_shown(desktop, "shown", 20, || player.play())?;
        let (screen, view) = (desktop.screen()?, desktop.view()?);
        assert!(part(&screen, menu).eq(part(&view, menu)), "the menu is exact");
        let line = desktop.stats()?["graphics"].as_str().unwrap_or_default().to_owned();
        assert!(line.contains("videos are encoded by goodav1enc: "), "{line}");
        // One for each codec: both viewers have their own streams.
        for process in codecs(desktop)? {
            Command::new("kill").args(["-KILL", &process.to_string()]).status()?;
        }
        until_shown(desktop, "shown", 20, || player.play())?;
        assert!(!decoder(desktop)?.starts_with("av1dec: "), "the library encodes H.264");
        until_exact(desktop)?;
        desktop.assert_identical("once it rests")
    })?;
    assert_eq!(decoder(&mut desktop)?, "openh264");
    until_exact(&mut desktop)?;
    desktop.assert_identical("the other viewer")
}

/// x264 and FFmpeg in the place of GPUs. The person chooses the high quality, and another one.
#[test]
fn a_video_area_is_4_4_4_while_that_is_chosen() -> Outcome {
    let mut thinc = Command::new(binary("thinc")?);
    let elements = "openh264/openh264enc,libav/avdec_h264,x264/x264enc";
    thinc.env("THINC_VIDEO_ELEMENTS", elements);
    let session = Session::start_by(
        thinc,
        "127.0.0.1:0",
        ("video-colours", SIZE),
        &["--video", "h264"],
        &["sleep", "infinity"],
    )?;
    let mut desktop = Desktop::of(session, "video-colours")?;
    let mut viewer = Command::new(binary("thinc-view")?);
    viewer.env("THINC_VIDEO_ELEMENTS", "libav/avdec_h264");
    desktop.viewer = desktop.another_viewer_by(viewer, &["--quality", "high"])?;
    let mut player = Player::new(&desktop)?;
    let menu = (220, 160, 180, 120);
    player.open_menu(menu)?;
    let decoder = |desktop: &mut Desktop| -> Result<String, Error> {
        Ok(desktop.stats()?["video"]["decoder"].as_str().unwrap_or_default().to_owned())
    };
    for (choice, by) in [("high", "avdec_h264: "), ("auto", "openh264"), ("high", "avdec_h264: ")] {
        desktop.viewer.say(&format!("quality {choice}"))?;
        let begun = Instant::now();
        while !decoder(&mut desktop)?.starts_with(by) {
            assert!(begun.elapsed() < EVENT_TIMEOUT, "{choice}: {}", decoder(&mut desktop)?);
            until_shown(&mut desktop, "shown", 4, || player.paint())?;
        }
        until_shown(&mut desktop, "shown", 10, || player.paint())?;
        assert!(decoder(&mut desktop)?.starts_with(by), "it stays");
        let (screen, view) = (desktop.screen()?, desktop.view()?);
        assert!(part(&screen, menu).eq(part(&view, menu)), "the menu is exact");
    }
    let line = desktop.stats()?["graphics"].as_str().unwrap_or_default().to_owned();
    assert!(line.contains("x264enc: ") && line.contains(" (4:4:4)"), "{line}");
    for process in codecs(&desktop)? {
        Command::new("kill").args(["-KILL", &process.to_string()]).status()?;
    }
    until_shown(&mut desktop, "shown", 20, || player.paint())?;
    assert_eq!(decoder(&mut desktop)?, "openh264", "the library encodes 4:2:0");
    until_exact(&mut desktop)?;
    desktop.assert_identical("once it rests")
}

#[test]
fn a_video_outlives_its_session_process() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-killed", SIZE, &["--video", "plain"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    until_shown(&mut desktop, "plain", 5, || player.play())?;
    Command::new("kill").args(["-KILL", &desktop.session.pid("session")?.to_string()]).status()?;
    player.play()?;
    let name = desktop.session.name.clone();
    let link = wait_for("`thinc link` answers", EVENT_TIMEOUT, || {
        let output = Command::new(binary("thinc").ok()?).args(["link", &name]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split_whitespace().find(|word| word.contains("#t=")).map(str::to_owned)
    })?;
    desktop.viewer =
        wait_for("a viewer connects again", EVENT_TIMEOUT, || Headless::start(&link).ok())?;
    until_shown(&mut desktop, "plain", 5, || player.play())?;
    desktop.assert_identical("played by another session process")
}

#[test]
fn disconnecting_viewers_and_closing_windows_leave_the_screen_complete() -> Outcome {
    let mut desktop =
        Desktop::start_with("video-gone", SIZE, &["--video", "h264"], &["sleep", "infinity"])?;
    let mut player = Player::new(&desktop)?;
    let other = desktop.another_viewer()?;
    until_shown(&mut desktop, "shown", 5, || player.play())?;
    // Whether a frame for it is in flight or not.
    other.finish()?;
    until_shown(&mut desktop, "shown", 5, || player.play())?;
    player.conn.destroy_window(player.window)?;
    player.conn.sync()?;
    until_exact(&mut desktop)?;
    desktop.assert_identical("once the player's window is gone")
}
