//! VirtualGL's transport plugin, called as VirtualGL calls it (driver/test/vgl.c), in a real Xorg
//! and in one without the driver: a frame of one picture is in its window to the bit, and of two
//! the left one, whose right one the session gets. Knows pixels and records; VirtualGL itself is
//! not there.

mod coverage;
mod xserver;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use thinc_region::{Rect, Size};
use thinc_ring::{DrawHint, DrawRecord, RecordKind, VideoLayout};

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer, make};

const WINDOW: Rect = Rect::at(40, 30, 200, 100);

/// The program that calls the plugin.
struct Program {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(server: &XServer, at: Rect) -> Program {
        make(&["vgl"]);
        let build = make(&["test/vgl"]).join("build");
        let mut child = Command::new(build.join("vgl"))
            .arg(plugin(&build))
            .args([at.x1, at.y1, at.width(), at.height()].map(|number| number.to_string()))
            .env("DISPLAY", format!(":{}", server.display))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = Program { child, commands, answers: BufReader::new(answers) };
        let answer = program.answer();
        assert!(answer.starts_with("ok 0x"), "{answer}");
        program
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    fn say(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").expect("it reads");
        self.answer()
    }

    /// It does this.
    fn run(&mut self, command: &str) {
        let answer = self.say(command);
        let word = command.split_whitespace().next().unwrap_or_default();
        assert_eq!(answer, format!("ok {word}"), "{command}");
    }

    fn finish(mut self) {
        drop(self.commands);
        assert!(self.child.wait().unwrap().success());
    }
}

fn plugin(build: &Path) -> PathBuf {
    build.join("libvgltrans_thinc.so")
}

/// The same as in driver/test/vgl.c.
fn color(seed: u32, x: u32, y: u32) -> u32 {
    let at = (x / 4).wrapping_mul(0x01_0305).wrapping_add((y / 4).wrapping_mul(0x05_0100));
    at.wrapping_add(seed.wrapping_mul(0x2b_1d47)) & 0xff_ffff
}

fn shows(reader: &Reader, at: Rect, seed: u32) -> bool {
    let pixels = reader.pixels();
    let pixel = |x: i32, y: i32| pixels[(at.y1 + y) as usize * 640 + (at.x1 + x) as usize];
    let mut all = (0..at.height()).flat_map(|y| (0..at.width()).map(move |x| (x, y)));
    all.all(|(x, y)| pixel(x, y) & 0xff_ffff == color(seed, x as u32, y as u32))
}

fn hints(records: &[DrawRecord]) -> Vec<DrawHint> {
    let hint = |record: &DrawRecord| match record.kind {
        RecordKind::Draw { hint, .. } => Some(hint),
        _ => None,
    };
    records.iter().filter_map(hint).collect()
}

#[test]
fn frames_are_in_the_window_and_the_right_eye_is_the_sessions() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut program = Program::start(&server, WINDOW);
    reader.drain();
    program.run("mono 3");
    assert_eq!(hints(&reader.drain()), [DrawHint::Image]);
    assert!(shows(&reader, WINDOW, 3), "the top row first");
    let mut data = Vec::new();
    for (seed, at) in [(10, WINDOW), (20, Rect::at(40, 30, 333, 111)), (30, WINDOW)] {
        let (width, height) = (at.width() as u32, at.height() as u32);
        program.run(&format!("size {width} {height}"));
        program.run(&format!("stereo {seed}"));
        let records = reader.drain();
        let size = Size { width, height };
        let stereo = |hint: &DrawHint| matches!(hint, DrawHint::Stereo { .. });
        let found: Vec<_> = hints(&records).into_iter().filter(stereo).collect();
        let [DrawHint::Stereo { port, size: of, crop, place }] = found[..] else {
            panic!("{records:?}")
        };
        assert_eq!((of, crop, place), (size, size.rect(), at));
        assert!(shows(&reader, at, seed), "the left eye's, in {size:?}");
        let kept = reader.attachment.ring.video_frame(port, &mut data).expect("it is kept");
        assert_eq!((kept.layout, kept.size), (VideoLayout::RightEye, size));
        let right = |(at, pixel): (u32, &[u8; 4])| {
            let rgb = u32::from_le_bytes(*pixel) & 0xff_ffff;
            rgb == color(seed + 1, at % width, at / width)
        };
        assert!((0..).zip(data.as_chunks().0).all(right), "the right eye's, in {size:?}");
        assert_eq!(data.len() as u32, 4 * width * height);
    }
    // Three are in flight: the fourth waits for the first.
    for seed in 40..50 {
        program.run(&format!("queue {seed}"));
    }
    program.run("ready");
    reader.drain();
    assert!(shows(&reader, WINDOW, 49));
    // The window may go while frames are sent.
    program.run("destroy");
    program.run("stereo 50");
    program.run("mono 51");
    program.finish();
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn another_x_server_shows_the_left_eye() {
    let server = XServer::start_xvfb(640, 480);
    let mut program = Program::start(&server, WINDOW);
    program.run("stereo 3");
    program.run("image 3");
    program.run("mono 4");
    program.run("image 4");
    assert!(program.say("image 3").starts_with("error"), "the comparison can fail");
    program.finish();
}

#[test]
fn all_ports_in_use_leave_the_left_eye() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut programs: Vec<Program> =
        (0..17).map(|at| Program::start(&server, Rect::at(at * 30, 20, 24, 16))).collect();
    for (at, program) in programs.iter_mut().enumerate() {
        reader.drain();
        program.run(&format!("stereo {at}"));
        let is_stereo =
            hints(&reader.drain()).iter().any(|hint| matches!(hint, DrawHint::Stereo { .. }));
        assert_eq!(is_stereo, at < 16, "program {at}");
        assert!(shows(&reader, Rect::at(at as i32 * 30, 20, 24, 16), at as u32));
    }
    // It asks again once a port may be free.
    let mut last = programs.pop().unwrap();
    programs.into_iter().for_each(Program::finish);
    let deadline = Instant::now() + TIMEOUT;
    for seed in 20.. {
        reader.drain();
        last.run(&format!("stereo {seed}"));
        assert!(shows(&reader, Rect::at(16 * 30, 20, 24, 16), seed));
        if hints(&reader.drain()).iter().any(|hint| matches!(hint, DrawHint::Stereo { .. })) {
            break;
        }
        assert!(Instant::now() < deadline, "the last window stays with one eye");
    }
    last.finish();
    assert!(server.stop(), "X exits cleanly");
}

/// Its timer interrupts the kernel a thousand times a second, and a frame is so large that its
/// memory takes longer than that. Not every kernel breaks off then, so the program stands for one
/// that does.
#[test]
fn a_program_with_an_interval_timer_draws() {
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_video(true);
    let mut program = Program::start(&server, WINDOW);
    program.run("timer 1000");
    program.run("size 3000 2000");
    program.run("interrupt 3");
    for seed in 0..4 {
        program.run(&format!("stereo {seed}"));
        program.run(&format!("mono {seed}"));
    }
    program.run("interrupt 0");
    // Windows of such a size are not all on the screen, and X has no image of them.
    program.run("size 200 100");
    program.run("stereo 4");
    reader.drain();
    assert!(shows(&reader, WINDOW, 4));
    program.finish();
    assert!(server.stop(), "X exits cleanly");
}
