//! A program that puts whole windows, as OpenGL programs and toolkits do, with real components:
//! what moves is sent as lossy pictures, what may be read is exact at every moment, and all is
//! exact once the program rests. Frames are drawn until a condition holds, not for a time.

use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::{Desktop, EVENT_TIMEOUT, Image};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, Gcontext, ImageFormat, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

type Outcome = Result<(), Error>;

const SIZE: &str = "640x480";
const WIDTH: u16 = 480;
const HEIGHT: u16 = 360;
/// Where the window is.
const AT: (i16, i16) = (70, 60);
/// 60 frames a second.
const FRAME: Duration = Duration::from_micros(16_667);
const GROUND: u32 = 0x30_343c;
/// A line of glyphs in the window, in front of what moves.
const LABEL: (i32, i32, i32, i32) = (40, 166, 400, 16);

/// Draws balls that go round on a plain ground, and a label before them.
struct Program {
    conn: RustConnection,
    window: Window,
    gc: Gcontext,
    frame: i32,
    next: Instant,
}

impl Program {
    fn new(desktop: &Desktop) -> Result<Program, Error> {
        let conn = desktop.connect_x()?;
        let (window, gc) = (conn.generate_id()?, conn.generate_id()?);
        let root = conn.setup().roots[0].root;
        let settings = CreateWindowAux::new().override_redirect(1).background_pixel(GROUND);
        let (x, y) = AT;
        let class = WindowClass::INPUT_OUTPUT;
        conn.create_window(0, window, root, x, y, WIDTH, HEIGHT, 0, class, 0, &settings)?;
        conn.create_gc(gc, window, &CreateGCAux::new())?;
        conn.map_window(window)?;
        conn.sync()?;
        Ok(Program { conn, window, gc, frame: 0, next: Instant::now() })
    }

    /// The next frame, which X has drawn when this returns.
    fn draw(&mut self) -> Outcome {
        let mut data = Vec::with_capacity(usize::from(WIDTH) * usize::from(HEIGHT) * 4);
        let balls = (0..5).map(|ball| self.ball(ball));
        let balls: Vec<(i32, i32, i32)> = balls.collect();
        for y in 0..i32::from(HEIGHT) {
            for x in 0..i32::from(WIDTH) {
                let lit = balls.iter().find_map(|&ball| light(ball, (x, y), self.frame));
                let pixel = glyph(x, y).or(lit).unwrap_or(GROUND);
                data.extend(pixel.to_le_bytes());
            }
        }
        let (format, of) = (ImageFormat::Z_PIXMAP, (WIDTH, HEIGHT));
        self.conn.put_image(format, self.window, self.gc, of.0, of.1, 0, 0, 0, 24, &data)?;
        self.conn.sync()?;
        self.frame += 1;
        let now = Instant::now();
        self.next = self.next.max(now) + FRAME;
        std::thread::sleep(self.next - now);
        Ok(())
    }

    /// Its place and radius.
    fn ball(&self, ball: i32) -> (i32, i32, i32) {
        let angle = f64::from(self.frame) * 0.05 + f64::from(ball) * 1.3;
        let (x, y) = (240.0 + 150.0 * angle.cos(), 180.0 + 110.0 * angle.sin());
        (x as i32, y as i32, 34 + 3 * ball)
    }
}

/// The colour of a ball that is lit from above and turns, if it is there.
fn light((x, y, radius): (i32, i32, i32), at: (i32, i32), turned: i32) -> Option<u32> {
    let (dx, dy) = (at.0 - x, at.1 - y);
    let inside = radius * radius - dx * dx - dy * dy;
    let grain = (at.0 * 3 + at.1 * 5 + turned * 7) % 11;
    let level = 60 + (f64::from(inside.max(0)).sqrt() as i32 - dy / 2) * 120 / radius + grain;
    let level = level.clamp(20, 250) as u32;
    (inside > 0).then_some(level << 16 | (level * 3 / 4) << 8 | (level / 3))
}

/// The colour of the label's glyphs, where there is one.
fn glyph(x: i32, y: i32) -> Option<u32> {
    let (left, top, width, height) = LABEL;
    let (x, y) = (x - left, y - top);
    if !(0..width).contains(&x) || !(0..height).contains(&y) {
        return None;
    }
    let (dx, dy, which) = (x % 9, y % 16, x / 9 % 3);
    let stem = dx == 2 + which && (3..13).contains(&dy);
    let bar = (1..8).contains(&dx) && (dy == 3 + 4 * which || dy == 12);
    (stem || bar).then_some(0xf0_f0f0)
}

/// The glyphs' pixels of a picture of the screen.
fn glyphs(picture: &Image) -> Vec<u32> {
    let (left, top, width, height) = LABEL;
    let places = (top..top + height).flat_map(|y| (left..left + width).map(move |x| (x, y)));
    let at = |(x, y): (i32, i32)| {
        let (x, y) = (x + i32::from(AT.0), y + i32::from(AT.1));
        picture.pixels[y as usize * picture.width + x as usize]
    };
    places.filter(|&(x, y)| glyph(x, y).is_some()).map(at).collect()
}

#[test]
fn frames_under_a_compositor_are_pictures_too() -> Outcome {
    let compositor = ["picom", "--backend", "xrender", "--config", "/dev/null"];
    let mut desktop = Desktop::start("composited", SIZE, &compositor)?;
    let conn = desktop.connect_x()?;
    let name = conn.intern_atom(false, b"_NET_WM_CM_S0")?.reply()?.atom;
    wait_for("the compositor is there", EVENT_TIMEOUT, || {
        let owner = conn.get_selection_owner(name).ok()?.reply().ok()?.owner;
        (owner != 0).then_some(())
    })?;
    assert_choices(&mut desktop)
}

#[test]
fn what_moves_is_lossy_what_may_be_read_is_exact_and_all_is_at_rest() -> Outcome {
    let mut desktop = Desktop::start("frames", SIZE, &["sleep", "infinity"])?;
    let mut program = Program::new(&desktop)?;
    let begun = Instant::now();
    while desktop.stats()?["lossy_pixels"] == 0 {
        for _ in 0..4 {
            program.draw()?;
        }
        assert!(begun.elapsed() < EVENT_TIMEOUT, "nothing is lossy: {}", desktop.stats()?);
    }
    for round in 0..8 {
        for _ in 0..3 {
            program.draw()?;
        }
        desktop.viewer.say("barrier")?;
        let (screen, view) = (desktop.screen()?, desktop.view()?);
        assert_eq!(glyphs(&view), glyphs(&screen), "the label is exact, round {round}");
    }
    assert_eq!(desktop.stats()?["video"]["streams"], 0, "they are pictures, and no stream");
    wait_for("the viewer's screen is exact", EVENT_TIMEOUT, || {
        desktop.viewer.say("wait-quiet").ok()?;
        (desktop.stats().ok()?["lossy_pixels"] == 0).then_some(())
    })?;
    desktop.assert_identical("once the program rests")
}

#[test]
fn nothing_is_lossy_where_the_session_may_not_be() -> Outcome {
    let options = ["--lossy", "never"];
    let mut desktop = Desktop::start_with("exact", SIZE, &options, &["sleep", "infinity"])?;
    let mut program = Program::new(&desktop)?;
    for _ in 0..12 {
        for _ in 0..4 {
            program.draw()?;
        }
        assert_eq!(desktop.stats()?["lossy_pixels"], 0);
    }
    desktop.assert_identical("after its frames")
}

/// Frames until `holds`, at least one in between.
fn draw_until(
    (desktop, program): (&mut Desktop, &mut Program),
    what: &str,
    mut holds: impl FnMut(&serde_json::Value) -> bool,
) -> Outcome {
    let begun = Instant::now();
    loop {
        for _ in 0..4 {
            program.draw()?;
        }
        let stats = desktop.stats()?;
        if holds(&stats) {
            return Ok(());
        }
        assert!(begun.elapsed() < EVENT_TIMEOUT, "{what}: {stats}");
    }
}

/// Bytes that the next 60 frames take.
fn bytes_of_frames(desktop: &mut Desktop, program: &mut Program) -> Result<u64, Error> {
    desktop.viewer.say("barrier")?;
    let bytes = |stats: &serde_json::Value| stats["bytes_in"].as_u64().unwrap();
    let before = bytes(&desktop.stats()?);
    for _ in 0..60 {
        program.draw()?;
    }
    desktop.viewer.say("barrier")?;
    Ok(bytes(&desktop.stats()?) - before)
}

#[test]
fn a_viewer_chooses_how_good_what_moves_is() -> Outcome {
    let mut desktop = Desktop::start("quality", SIZE, &["sleep", "infinity"])?;
    assert_choices(&mut desktop)?;
    let error = desktop.viewer.say("quality best").expect_err("there is none");
    assert!(error.to_string().contains("auto, exact, high, medium and low"), "{error}");
    Ok(())
}

/// Only known frames are sent as it is chosen.
fn assert_choices(desktop: &mut Desktop) -> Outcome {
    let mut program = Program::new(desktop)?;
    let is_lossy = |stats: &serde_json::Value| stats["lossy_pixels"] != 0;
    let mut bytes = Vec::new();
    for choice in ["high", "medium", "low"] {
        desktop.viewer.say(&format!("quality {choice}"))?;
        draw_until((desktop, &mut program), choice, is_lossy)?;
        bytes.push(bytes_of_frames(desktop, &mut program)?);
    }
    let [high, medium, low] = bytes[..] else { unreachable!("three choices") };
    assert!(medium * 4 < high * 3 && low * 4 < medium * 3, "{bytes:?}");
    desktop.viewer.say("quality exact")?;
    let is_exact = |stats: &serde_json::Value| stats["lossy_pixels"] == 0;
    draw_until((desktop, &mut program), "exact", is_exact)?;
    for _ in 0..12 {
        for _ in 0..4 {
            program.draw()?;
        }
        desktop.viewer.say("barrier")?;
        assert_eq!(desktop.stats()?["lossy_pixels"], 0, "what moves is exact");
    }
    Ok(())
}

#[test]
fn a_choice_is_that_of_one_viewer() -> Outcome {
    let mut desktop = Desktop::start("two", SIZE, &["sleep", "infinity"])?;
    let mut exact = desktop.another_viewer_with(&["--quality", "exact"])?;
    let mut program = Program::new(&desktop)?;
    let is_lossy = |stats: &serde_json::Value| stats["lossy_pixels"] != 0;
    draw_until((&mut desktop, &mut program), "nothing is lossy", is_lossy)?;
    let folder = Folder::new("e2e-one-viewers-choice")?;
    let file = folder.path().join("stats.json");
    for _ in 0..8 {
        for _ in 0..4 {
            program.draw()?;
        }
        exact.say("barrier")?;
        exact.say(&format!("stats {}", file.display()))?;
        let stats: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        assert_eq!(stats["lossy_pixels"], 0, "{stats}");
    }
    draw_until((&mut desktop, &mut program), "nothing is lossy", is_lossy)
}

#[test]
fn one_moment_is_exact_while_it_moves() -> Outcome {
    let mut desktop = Desktop::start("moment", SIZE, &["sleep", "infinity"])?;
    let mut program = Program::new(&desktop)?;
    let is_lossy = |stats: &serde_json::Value| stats["lossy_pixels"] != 0;
    draw_until((&mut desktop, &mut program), "nothing is lossy", is_lossy)?;
    let is_exact = |stats: &serde_json::Value| stats["lossy_pixels"] == 0;
    let begun = Instant::now();
    // What rests is exact too: this is while so many frames are drawn that they are known. On a
    // busy machine they may take longer than the moment.
    loop {
        desktop.viewer.say("exact")?;
        draw_until((&mut desktop, &mut program), "nothing is exact", is_exact)?;
        let mut stays = true;
        for _ in 0..3 {
            for _ in 0..4 {
                program.draw()?;
            }
            desktop.viewer.say("barrier")?;
            stays &= is_exact(&desktop.stats()?);
        }
        if stays {
            break;
        }
        assert!(begun.elapsed() < EVENT_TIMEOUT, "nothing stays exact: {}", desktop.stats()?);
    }
    draw_until((&mut desktop, &mut program), "it stays exact", is_lossy)
}
