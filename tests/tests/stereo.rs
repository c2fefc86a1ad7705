//! Stereo with real components: a program that draws for two eyes through VirtualGL's transport
//! plugin, called as VirtualGL does (driver/test/vgl.c), and under `vglrun` where that is
//! installed. The left eye's picture is the screen, byte for byte; the right eye's is what a
//! headless viewer shows to the right eye, once it rests; windows in front hide both.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use thinc_bench::Error;
use thinc_bench::process::{Folder, Headless, binary, wait_for};
use thinc_e2e::EVENT_TIMEOUT;
use thinc_e2e::{Desktop, Image};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateWindowAux, Window, WindowClass};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

type Outcome = Result<(), Error>;

/// x, y, width, height.
type Place = (usize, usize, usize, usize);

const SIZE: &str = "640x480";
const WINDOW: Place = (60, 50, 400, 300);

fn driver() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver")
}

/// Makes a program or library of the driver's folder, and returns where these are.
fn make(what: &[&str]) -> Result<PathBuf, Error> {
    // One make at a time, also of other tests.
    let lock = File::create(driver().join(".build-lock"))?;
    lock.lock()?;
    if !Command::new("make").arg("-s").arg("-C").arg(driver()).args(what).status()?.success() {
        return Err(format!("make {what:?} fails").into());
    }
    Ok(driver().join("build"))
}

/// A program that obeys lines, and answers each.
struct Program {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(mut command: Command) -> Result<Program, Error> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let commands = child.stdin.take().ok_or("it has an input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("it has an output")?);
        let mut program = Program { child, commands, answers };
        program.expect_ok("its window")?;
        Ok(program)
    }

    fn expect_ok(&mut self, what: &str) -> Outcome {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.starts_with("ok") {
            return Ok(());
        }
        Err(format!("{what}: {line:?}").into())
    }

    fn run(&mut self, command: &str) -> Outcome {
        writeln!(self.commands, "{command}")?;
        self.expect_ok(command)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments((x, y, width, height): Place) -> [String; 4] {
    [x, y, width, height].map(|number| number.to_string())
}

/// The program that calls the plugin.
fn start_plugin(desktop: &Desktop, place: Place) -> Result<Program, Error> {
    let build = make(&["vgl", "test/vgl"])?;
    let program = build.join("vgl");
    let mut command = desktop.client(program.to_str().ok_or("its path is text")?);
    command.arg(build.join("libvgltrans_thinc.so")).args(arguments(place));
    Program::start(command)
}

/// The same as in driver/test/vgl.c.
fn color(seed: u32, x: usize, y: usize) -> u32 {
    let (x, y) = (x as u32 / 4, y as u32 / 4);
    let at = x.wrapping_mul(0x01_0305).wrapping_add(y.wrapping_mul(0x05_0100));
    at.wrapping_add(seed.wrapping_mul(0x2b_1d47)) & 0xff_ffff
}

struct Eyes {
    folder: Folder,
}

impl Eyes {
    fn new(name: &str) -> Result<Eyes, Error> {
        Ok(Eyes { folder: Folder::new(&format!("e2e-{name}-eyes"))? })
    }

    /// What the right eye sees.
    fn right(&self, viewer: &mut Headless) -> Result<Image, Error> {
        let file = self.folder.path().join("right.png");
        viewer.say(&format!("screenshot-right {}", file.display()))?;
        Image::read_png(&file)
    }

    /// Waits until the right eye sees these pixels in the place, and the left eye's elsewhere.
    fn await_right(
        &self,
        desktop: &mut Desktop,
        place: Place,
        seed: u32,
        is_hidden: impl Fn(usize, usize) -> bool,
    ) -> Outcome {
        let (left, top, width, height) = place;
        let mut wrong = 0;
        let outcome = wait_for("the right eye's picture is exact", EVENT_TIMEOUT, || {
            desktop.viewer.say("wait-quiet").ok()?;
            let (right, view) = (self.right(&mut desktop.viewer).ok()?, desktop.view().ok()?);
            let expected = |x: usize, y: usize| {
                let (dx, dy) = (x.wrapping_sub(left), y.wrapping_sub(top));
                let inside = dx < width && dy < height && !is_hidden(x, y);
                if inside { color(seed, dx, dy) } else { view.pixels[y * view.width + x] }
            };
            let all = (0..right.height).flat_map(|y| (0..right.width).map(move |x| (x, y)));
            wrong =
                all.filter(|&(x, y)| right.pixels[y * right.width + x] != expected(x, y)).count();
            (wrong == 0).then_some(())
        });
        outcome.map_err(|error| format!("{error}: {wrong} pixels differ").into())
    }
}

fn open_window(conn: &RustConnection, place: Place, color: u32) -> Result<Window, Error> {
    let (window, root) = (conn.generate_id()?, conn.setup().roots[0].root);
    let settings = CreateWindowAux::new().override_redirect(1).background_pixel(color);
    let (x, y, width, height) = place;
    let (x, y) = (i16::try_from(x)?, i16::try_from(y)?);
    let (width, height) = (u16::try_from(width)?, u16::try_from(height)?);
    let class = WindowClass::INPUT_OUTPUT;
    conn.create_window(0, window, root, x, y, width, height, 0, class, 0, &settings)?;
    conn.map_window(window)?;
    conn.sync()?;
    Ok(window)
}

const NOTHING: fn(usize, usize) -> bool = |_, _| false;

#[test]
fn both_eyes_see_their_pictures_and_a_window_in_front() -> Outcome {
    let mut desktop = Desktop::start("stereo", SIZE, &["sleep", "infinity"])?;
    let eyes = Eyes::new("stereo")?;
    let mut other = desktop.another_viewer()?;
    desktop.viewer.say("barrier")?;
    let mut program = start_plugin(&desktop, WINDOW)?;
    program.run("stereo 10")?;
    desktop.assert_identical("the left eye's picture")?;
    assert_eq!(desktop.viewer.say("right-bounds")?, "none", "nobody has asked for it");
    // Of a program that rests already.
    desktop.viewer.say("stereo anaglyph")?;
    desktop.viewer.say("wait-right yes")?;
    eyes.await_right(&mut desktop, WINDOW, 11, NOTHING)?;
    for seed in 20..60 {
        program.run(&format!("stereo {seed}"))?;
    }
    eyes.await_right(&mut desktop, WINDOW, 60, NOTHING)?;
    desktop.assert_identical("the left eye's picture after some frames")?;
    let view = desktop.view()?;
    let (x, y, ..) = WINDOW;
    assert_eq!(view.pixels[y * view.width + x], color(59, 0, 0));

    let conn = desktop.connect_x()?;
    let menu = (200, 150, 100, 80);
    let window = open_window(&conn, menu, 0x12_3456)?;
    let hidden =
        |x: usize, y: usize| x.wrapping_sub(menu.0) < menu.2 && y.wrapping_sub(menu.1) < menu.3;
    eyes.await_right(&mut desktop, WINDOW, 60, hidden)?;
    program.run("stereo 70")?;
    eyes.await_right(&mut desktop, WINDOW, 71, hidden)?;
    conn.destroy_window(window)?;
    conn.sync()?;
    // The same frame as before; and again after a picture for both eyes that the left one equals.
    program.run("stereo 70")?;
    eyes.await_right(&mut desktop, WINDOW, 71, NOTHING)?;
    program.run("mono 70")?;
    desktop.viewer.say("wait-right no")?;
    program.run("stereo 70")?;
    eyes.await_right(&mut desktop, WINDOW, 71, NOTHING)?;
    program.run("stereo 80")?;
    eyes.await_right(&mut desktop, WINDOW, 81, NOTHING)?;
    desktop.assert_identical("without the menu")?;

    // A frame of one picture is seen by both eyes.
    program.run("mono 90")?;
    desktop.viewer.say("wait-right no")?;
    program.run("stereo 92")?;
    desktop.viewer.say("wait-right yes")?;
    eyes.await_right(&mut desktop, WINDOW, 93, NOTHING)?;
    program.run("destroy")?;
    desktop.viewer.say("wait-right no")?;
    assert_eq!(other.say("right-bounds")?, "none", "a viewer that has not asked gets nothing");
    other.finish()?;
    desktop.assert_identical("without the window")
}

#[test]
fn a_viewer_may_change_its_mind_and_its_view() -> Outcome {
    let mut desktop = Desktop::start("stereo-again", SIZE, &["sleep", "infinity"])?;
    let eyes = Eyes::new("stereo-again")?;
    // The driver keeps pictures for the right eye while a viewer takes videos.
    desktop.viewer.say("barrier")?;
    let mut program = start_plugin(&desktop, WINDOW)?;
    program.run("stereo 10")?;
    for _ in 0..3 {
        desktop.viewer.say("stereo side-by-side")?;
        desktop.viewer.say("wait-right yes")?;
        desktop.viewer.say("stereo off")?;
        desktop.viewer.say("wait-right no")?;
    }
    desktop.viewer.say("stereo anaglyph")?;
    eyes.await_right(&mut desktop, WINDOW, 11, NOTHING)?;
    // Half as large: the session sends it in that size.
    desktop.viewer.say("view 320x240")?;
    wait_for("the scaled picture of the right eye", EVENT_TIMEOUT, || {
        (desktop.viewer.say("right-bounds").ok()? == "200x150+30+25").then_some(())
    })?;
    Ok(())
}

#[test]
fn a_stereo_program_outlives_its_session_process() -> Outcome {
    let mut desktop = Desktop::start("stereo-killed", SIZE, &["sleep", "infinity"])?;
    let eyes = Eyes::new("stereo-killed")?;
    desktop.viewer.say("stereo anaglyph")?;
    desktop.viewer.say("barrier")?;
    let mut program = start_plugin(&desktop, WINDOW)?;
    program.run("stereo 10")?;
    eyes.await_right(&mut desktop, WINDOW, 11, NOTHING)?;
    let session = desktop.session.pid("session")?.to_string();
    Command::new("kill").args(["-KILL", &session]).status()?;
    // It goes on drawing meanwhile, the same picture.
    program.run("stereo 10")?;
    let name = desktop.session.name.clone();
    let link = wait_for("`thinc link` answers", EVENT_TIMEOUT, || {
        let output = Command::new(binary("thinc").ok()?).args(["link", &name]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split_whitespace().find(|word| word.contains("#t=")).map(str::to_owned)
    })?;
    desktop.viewer =
        wait_for("a viewer connects again", EVENT_TIMEOUT, || Headless::start(&link).ok())?;
    desktop.viewer.say("stereo anaglyph")?;
    desktop.viewer.say("barrier")?;
    assert_eq!(desktop.viewer.say("right-bounds")?, "none", "nobody has kept it");
    // From its next frame on, of whatever picture.
    program.run("stereo 10")?;
    eyes.await_right(&mut desktop, WINDOW, 11, NOTHING)?;
    desktop.assert_identical("the left eye's picture after a reconnect")
}

// ---- VirtualGL itself ---------------------------------------------------------------------------

fn vglrun() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/opt/VirtualGL/bin")]);
    folders.find_map(|folder| Some(folder.join("vglrun")).filter(|program| program.is_file()))
}

#[test]
fn a_stereo_program_under_vglrun_is_seen_by_both_eyes() -> Outcome {
    let Some(vglrun) = vglrun() else {
        eprintln!("skipped: no vglrun");
        return Ok(());
    };
    let mut desktop = Desktop::start("stereo-vglrun", SIZE, &["sleep", "infinity"])?;
    let eyes = Eyes::new("stereo-vglrun")?;
    let build = make(&["vgl", "test/gl_stereo"])?;
    let mut command = desktop.client(vglrun.to_str().ok_or("its path is text")?);
    command.args(["-d", "egl0"]).arg(build.join("gl_stereo")).args(arguments(WINDOW));
    command.env("VGL_TRANSPORT", "thinc").env("LD_LIBRARY_PATH", &build);
    let mut program = Program::start(command)?;
    desktop.viewer.say("stereo anaglyph")?;
    desktop.viewer.say("barrier")?;
    for (left, right) in [(0x20_4060, 0x80_2040), (0x30_2010, 0x10_7030)] {
        program.run(&format!("{left} {right}"))?;
        let (x, y, width, height) = WINDOW;
        desktop.viewer.say(&format!("wait-right-pixel {x} {y} {right:06x}"))?;
        desktop.assert_identical("the left eye's picture")?;
        let (view, right_view) = (desktop.view()?, eyes.right(&mut desktop.viewer)?);
        assert_eq!(view.pixels[y * view.width + x], left);
        // Each eye's triangle is at its own place.
        let at = |image: &Image, x: usize, y: usize| image.pixels[y * image.width + x];
        let row = y + height / 2;
        let (of_left, of_right) = (x + width * 7 / 20, x + width * 13 / 20);
        assert_eq!((at(&view, of_left, row), at(&view, of_right, row)), (0xff_ffff, left));
        assert_eq!(
            (at(&right_view, of_left, row), at(&right_view, of_right, row)),
            (right, 0xff_ffff)
        );
    }
    Ok(())
}
