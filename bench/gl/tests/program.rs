//! The program on a real X server with whatever renders there: each mode draws the frames that are
//! asked for, with their numbers, and no others. Nothing here measures how fast it is.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::apps::gl::{KEY_NEXT, KEY_START, drawn_in, motion_of, renderer_in};
use thinc_bench::observe::frames::FrameWatch;
use thinc_bench::observe::input::Input;
use thinc_bench::observe::picture::{Picture, Rect};
use thinc_bench::observe::screen::ClientScreen;
use thinc_bench::process::{Folder, Running, wait_for};

const SIZE: (u32, u32) = (640, 480);
/// Longest wait for an event, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The program on a screen of its own, with its first frame shown.
struct Shown {
    running: Running,
    screen: ClientScreen,
    watch: FrameWatch,
    log: PathBuf,
    _folder: Folder,
}

impl Shown {
    fn start(name: &str, options: &[&str]) -> Result<Shown, Error> {
        let folder = Folder::new(&format!("gl-{name}"))?;
        let log = folder.path().join("log");
        let screen = ClientScreen::alone(&format!("gl-{name}"), SIZE)?;
        let watch = FrameWatch::start(&screen, Rect::new(0, 0, SIZE.0, SIZE.1))?;
        let file = File::create(&log)?;
        let (width, height) = (SIZE.0.to_string(), SIZE.1.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_thinc-bench-gl"));
        command.args(["--width", &width, "--height", &height]).args(options);
        command.env("DISPLAY", screen.display()).env_remove("WAYLAND_DISPLAY");
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let running = Running::start("thinc-bench-gl", &mut command)?;
        let mut shown = Shown { running, screen, watch, log, _folder: folder };
        shown.wait("its first frame", |watch| watch.last().is_some())?;
        Ok(shown)
    }

    fn wait(&mut self, what: &str, done: impl Fn(&FrameWatch) -> bool) -> Result<(), Error> {
        wait_for(what, LIMIT, || {
            if let Err(error) = self.running.check() {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                return Some(Err(format!("{what}: {error}: {log}").into()));
            }
            done(&self.watch).then_some(Ok(()))
        })?
    }

    fn wait_number(&mut self, number: u32) -> Result<(), Error> {
        let is_shown = |watch: &FrameWatch| watch.last().is_some_and(|last| last.1 == number);
        self.wait(&format!("frame {number}"), is_shown)
    }

    fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// How many colours a picture has, and the share of its most frequent one.
fn colours(picture: &Picture) -> (usize, f64) {
    let mut pixels = picture.pixels.clone();
    pixels.sort_unstable();
    let runs = pixels.chunk_by(|a, b| a == b);
    let (count, most) = runs.fold((0, 0), |(count, most), run| (count + 1, run.len().max(most)));
    (count, most as f64 / pixels.len() as f64)
}

#[test]
fn a_word_and_a_key_are_a_frame_each() -> Result<(), Error> {
    let mut shown = Shown::start("step", &["--mode", "step"])?;
    assert!(renderer_in(&shown.output()).is_some_and(|name| !name.is_empty()));
    let mut words = shown.running.take_stdin().ok_or("it has no input")?;
    writeln!(words, "one two")?;
    shown.wait_number(2)?;
    writeln!(words, "three")?;
    shown.wait_number(3)?;
    // The end of words is no end of the program.
    drop(words);
    let input = Input::new(&shown.screen)?;
    input.focus_viewer()?.ok_or("there is no window")?;
    input.key(KEY_NEXT)?;
    shown.wait_number(4)?;
    let before = shown.screen.picture()?;
    input.key(KEY_NEXT)?;
    shown.wait_number(5)?;
    let after = shown.screen.picture()?;
    let moved = before.pixels.iter().zip(&after.pixels).filter(|(a, b)| a != b).count();
    assert!(moved > 1000, "only {moved} pixels move");
    let (count, ground) = colours(&after);
    assert!(count > 500 && (0.3..0.95).contains(&ground), "{count} colours, {ground} ground");
    let frames = shown.watch.finish()?;
    let numbers: Vec<u32> = frames.seen.iter().map(|frame| frame.1).collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&5), "{numbers:?}");
    Ok(())
}

#[test]
fn every_motion_is_answered_with_its_column() -> Result<(), Error> {
    let mut shown = Shown::start("motion", &["--mode", "interactive", "--scene", "spheres"])?;
    let input = Input::new(&shown.screen)?;
    for (frames, column) in (1_u32..).zip([40, 300, 41, 639]) {
        input.move_to(column, 200)?;
        let answers = |watch: &FrameWatch| {
            watch.last().is_some_and(|last| motion_of(last.1).1 == column.cast_unsigned())
        };
        shown.wait(&format!("the frame of the motion to {column}"), answers)?;
        let number = shown.watch.last().map_or(0, |last| motion_of(last.1).0);
        // The window may have been entered by a motion of its own.
        assert!((frames..=frames + 1).contains(&number), "{number} frames for {frames} motions");
    }
    Ok(())
}

#[test]
fn a_run_draws_as_many_frames_as_it_says_and_then_rests() -> Result<(), Error> {
    for options in [
        &["--mode", "free", "--seconds", "1", "--scene", "wireframe"] as &[&str],
        &["--mode", "step", "--rate", "20", "--seconds", "1"],
    ] {
        let mut shown = Shown::start("run", options)?;
        let input = Input::new(&shown.screen)?;
        input.focus_viewer()?.ok_or("there is no window")?;
        shown.wait_number(0)?;
        input.key(KEY_START)?;
        let log = shown.log.clone();
        let drawn = wait_for("the end of the run", LIMIT, || {
            drawn_in(&std::fs::read_to_string(&log).ok()?)
        })?;
        assert!(drawn > 0);
        if options.contains(&"20") {
            assert!(drawn <= 21, "{drawn} frames in a second at 20 a second");
        }
        shown.wait_number(drawn)?;
        // A second run goes on from there.
        input.key(KEY_START)?;
        shown.wait("a frame of the next run", |watch| {
            watch.last().is_some_and(|last| last.1 > drawn)
        })?;
    }
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_refused_in_words() -> Result<(), Error> {
    for (options, words) in [
        (&["--width", "100"] as &[&str], "no room for bar codes"),
        (&["--rate", "60"], "--rate needs --mode step"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_thinc-bench-gl")).args(options).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{options:?}: {said}");
    }
    Ok(())
}
