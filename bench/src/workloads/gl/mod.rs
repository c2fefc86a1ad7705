//! OpenGL programs, as the VirtualGL study measured them: real GL through thinc-bench-gl, free,
//! held to a rate, and once for each motion of the pointer. Frames are counted and motions matched
//! by bar codes on the client's screen. Knows the program's keys and numbers; never which peer
//! shows it.

mod motions;
pub mod programs;
pub mod users;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::frame_figures::{self, Run};
use super::threed::{WINDOW, frames, run_seconds, shown_number, wait_for_end, window};
use super::{Effort, Workload, own};
use crate::Error;
use crate::apps::gl::{self, KEY_NEXT, KEY_START, Mode, Options, Scene};
use crate::observe::account::cpu_ms_of;
use crate::observe::frames::{FrameWatch, Frames};
use crate::observe::picture::{Rect, exact_share};
use crate::process::{Running, interrupted, wait_for};
use crate::questions::{Claim, Found};
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Spent, Stage, cost_measures, measures};

/// The workload.
pub struct Gl;

/// Longest from the start of the program to its first frame on the client's screen: a satellite
/// link and a busy machine.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);
/// Longest that a run may take beyond its length.
const RUN_SLACK: Duration = Duration::from_secs(60);
/// After the last frame was drawn, when pixels are compared.
const REST: Duration = Duration::from_secs(1);
/// Longest wait for the answer to the last motion.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// A mouse's reports, as the study has it: 40 to 60 a second.
const MOTION_RATE: u32 = 60;
/// Motions one by one come each 120 to 160 ms: each is answered before the next, by any system on a
/// LAN.
const SINGLE_MS: (u64, u64) = (120, 41);

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Its name in results.
    name: &'static str,
    scene: Scene,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As fast as the X server takes frames.
    Free,
    /// Held to so many frames a second.
    Held(u32),
    /// Motions as a mouse reports them.
    Moving,
    /// Motions one by one.
    Single,
}

const PARTS: [Part; 7] = [
    Part { name: "study free", scene: Scene::Study, kind: Kind::Free },
    Part { name: SINGLE, scene: Scene::Study, kind: Kind::Single },
    Part { name: HELD, scene: Scene::Study, kind: Kind::Held(60) },
    Part { name: MOVING, scene: Scene::Study, kind: Kind::Moving },
    Part { name: FREE_SPHERES, scene: Scene::Spheres, kind: Kind::Free },
    Part { name: "wireframe free", scene: Scene::Wireframe, kind: Kind::Free },
    Part { name: "study at 30 fps", scene: Scene::Study, kind: Kind::Held(30) },
];
/// What the study measured: its program, as fast as it goes.
pub(crate) const FREE_SPHERES: &str = "spheres free";
/// Frame by frame, in slow motion.
const STEP: &str = "study step";
/// The frames that a person can see.
pub(crate) const HELD: &str = "study at 60 fps";
/// The study's interactive case.
pub(crate) const MOVING: &str = "study by motions";
/// Mouse to photon without a queue.
pub(crate) const SINGLE: &str = "study by single motions";

impl Workload for Gl {
    fn name(&self) -> &str {
        "3d-gl"
    }

    fn about(&self) -> &'static str {
        "OpenGL scenes at 1240x900, free, held and by motions of the pointer (VirtualGL study 2008)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        match form {
            Form::SlowMotion => 4.0 + frames(effort) as f64 * 0.8,
            Form::Normal => parts(effort).len() as f64 * (6.0 + length(effort) as f64),
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (width, height) = window(self.name(), stage)?;
        let size = (width, height);
        if form == Form::SlowMotion {
            return step(stage, size, frames(effort));
        }
        let mut measures = Vec::new();
        for part in parts(effort) {
            let found = measure(stage, part, size, effort);
            measures.extend(found.map_err(|error| format!("{}: {error}", part.name))?);
        }
        Ok(measures)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if !peer.starts_with("thinc") {
            return Vec::new();
        }
        claims(found, peer)
    }
}

fn parts(effort: Effort) -> &'static [Part] {
    match effort {
        Effort::Smoke => &PARTS[..2],
        Effort::Quick => &PARTS[..6],
        Effort::Full => &PARTS,
    }
}

/// Seconds of one part: the study measured for twice 30 s.
fn length(effort: Effort) -> u64 {
    match effort {
        Effort::Smoke => 1,
        Effort::Quick | Effort::Full => run_seconds(effort),
    }
}

/// The name of a part, with the window's size where that is not the study's, so that the two are
/// not mistaken for each other.
fn label(name: &str, size: (u32, u32)) -> String {
    if size == WINDOW { name.to_owned() } else { format!("{name}, {}x{}", size.0, size.1) }
}

/// The program on a stage.
struct Shown {
    running: Running,
    log: PathBuf,
    area: Rect,
    /// From its start to its first whole frame on the client's screen.
    start_ms: f64,
}

impl Shown {
    /// Starts it and waits for its first frame, then for quiet.
    fn start(stage: &Stage, options: &Options) -> Result<Shown, Error> {
        let name = "gl";
        let (x, y) = (stage.view.x, stage.view.y);
        let area = Rect { x, y, width: options.width, height: options.height };
        let mut command = stage.gl_command(gl::program()?);
        command.args(options.words());
        let watch = FrameWatch::start(&stage.site.screen, area)?;
        let began = Instant::now();
        let mut running = stage.application(name, command)?;
        let first = loop {
            // What was shown before, if anything, is not its own.
            if let Some((at, _)) = watch.last().filter(|last| last.0 >= began) {
                break at;
            }
            own::check(stage, name, &mut running)?;
            if began.elapsed() > SHOWN_LIMIT {
                let seconds = SHOWN_LIMIT.as_secs();
                let kept = own::kept(stage, name);
                return Err(format!(
                    "no frame of {} is on the client's screen within {seconds} s{kept}",
                    gl::PROGRAM
                )
                .into());
            }
            if interrupted() {
                return Err("interrupted".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        drop(watch);
        stage.settle()?;
        let log = stage.site.folder.path().join(format!("{name}.log"));
        let start_ms = first.saturating_duration_since(began).as_secs_f64() * 1e3;
        Ok(Shown { running, log, area, start_ms })
    }

    fn check(&mut self, stage: &Stage) -> Result<(), Error> {
        own::check(stage, "gl", &mut self.running)
    }

    /// Waits for the end of its run; returns the number of frames that it has drawn.
    fn wait_drawn(&mut self, stage: &Stage, length: Duration) -> Result<u32, Error> {
        let drawn = wait_for("the program ends its run", length + RUN_SLACK, || {
            if let Err(error) = self.check(stage) {
                return Some(Err(error));
            }
            let output = std::fs::read_to_string(&self.log).ok()?;
            gl::drawn_in(&output).map(Ok)
        });
        drawn?
    }
}

/// CPU of the X server and of the session, ms; None where a peer has no such process.
fn parts_cpu_ms(stage: &Stage) -> Result<[Option<f64>; 2], Error> {
    let of = |pid: Option<u32>| pid.map(cpu_ms_of).transpose();
    Ok([of(stage.desk.x_server)?, of(stage.desk.session)?])
}

fn since(now: [Option<f64>; 2], before: [Option<f64>; 2]) -> [Option<f64>; 2] {
    [0, 1].map(|part| Some(now[part]? - before[part]?))
}

fn step(stage: &mut Stage, size: (u32, u32), count: usize) -> Result<Vec<Measure>, Error> {
    let (width, height) = size;
    let (scene, mode) = (Scene::Study, Mode::Step);
    let options = Options { scene, mode, rate: None, width, height, seconds: None };
    let mut shown = Shown::start(stage, &options)?;
    let mut found = vec![];
    for number in 0..=count {
        let done = stage.operation(|input| input.key(KEY_NEXT))?;
        // The first frame is not counted: buffers grow in it.
        if number > 0 {
            found.push(done);
        }
    }
    shown.check(stage)?;
    Ok(measures(&label(STEP, size), &found))
}

fn measure(
    stage: &Stage,
    part: &Part,
    size: (u32, u32),
    effort: Effort,
) -> Result<Vec<Measure>, Error> {
    let (width, height) = size;
    let length = length(effort);
    let (mode, rate, seconds) = match part.kind {
        Kind::Free => (Mode::Free, None, Some(length)),
        Kind::Held(rate) => (Mode::Step, Some(rate), Some(length)),
        Kind::Moving | Kind::Single => (Mode::Interactive, None, None),
    };
    let options = Options { scene: part.scene, mode, rate, width, height, seconds };
    let name = label(part.name, size);
    stage.settle()?;
    let mut shown = Shown::start(stage, &options)?;
    let mut all = vec![Measure::lower("start_ms", &name, "ms", [shown.start_ms])];
    let length = Duration::from_secs(length);
    all.extend(match part.kind {
        Kind::Free | Kind::Held(_) => at_speed(stage, &mut shown, &name, length)?,
        Kind::Moving => moving(stage, &mut shown, &name, length)?,
        Kind::Single => single(stage, &mut shown, &name, length)?,
    });
    Ok(all)
}

/// The figures of a run and its costs.
fn figures(stage: &Stage, part: &str, seen: &Frames, run: &Run<'_>) -> Result<Vec<Measure>, Error> {
    let cores = std::thread::available_parallelism()?.get();
    let rate_bps = stage.site.bed.link().rate_bps;
    let mut all = frame_figures::measures(part, seen, run, cores, rate_bps)?;
    all.extend(cost_measures(part, [run.spent]));
    Ok(all)
}

fn at_speed(
    stage: &Stage,
    shown: &mut Shown,
    part: &str,
    length: Duration,
) -> Result<Vec<Measure>, Error> {
    let watch = FrameWatch::start(&stage.site.screen, shown.area)?;
    let (meter, before) = (stage.meter()?, parts_cpu_ms(stage)?);
    let began = stage.input.key(KEY_START)?;
    let drawn = shown.wait_drawn(stage, length)?;
    let rested = Instant::now();
    std::thread::sleep(REST);
    let exact = exact_share(&stage.server_picture()?, &stage.seen()?);
    wait_for_end(stage, &watch, rested)?;
    let spent = meter.read(stage)?;
    let [x_ms, session_ms] = since(parts_cpu_ms(stage)?, before);
    let seen = watch.finish()?;
    shown.check(stage)?;
    let run = Run { began, drawn, spent: &spent, x_ms, session_ms };
    let mut all = figures(stage, part, &seen, &run)?;
    all.push(Measure::higher("rest_exact_share", part, "share", [exact]));
    Ok(all)
}

/// What a stretch of motions gave.
struct Moved {
    began: Instant,
    drawn: u32,
    seen: Frames,
    spent: Spent,
    cpu_ms: [Option<f64>; 2],
    answers: motions::Answers,
}

/// Moves the pointer so long; `due` says when, from the beginning, the motion of each index is.
fn move_about(
    stage: &Stage,
    shown: &mut Shown,
    length: Duration,
    due: impl Fn(u32) -> Duration,
) -> Result<Moved, Error> {
    let (area, y) = (shown.area, shown.area.y + (shown.area.height / 2) as i32);
    let place = |index: u32| motions::column(index, area.width);
    // Once beforehand, so that the first that counts does not also bring the pointer into the
    // window.
    stage.input.move_to(area.x + place(motions::COLUMNS / 2) as i32, y)?;
    stage.settle()?;
    let first = gl::motion_of(shown_number(stage, area)?).0;
    let watch = FrameWatch::start(&stage.site.screen, area)?;
    let (meter, before) = (stage.meter()?, parts_cpu_ms(stage)?);
    let began = Instant::now();
    let mut made = Vec::new();
    for index in 0.. {
        let at = due(index);
        if at > length {
            break;
        }
        if interrupted() {
            return Err("interrupted".into());
        }
        std::thread::sleep((began + at).saturating_duration_since(Instant::now()));
        let column = place(index);
        made.push((stage.input.move_to(area.x + column as i32, y)?, column));
    }
    // A motion that is never answered is a result, and no error.
    let last = made.last().map(|motion| motion.1);
    let answered = || watch.last().map(|(_, number)| gl::motion_of(number).1) == last;
    let _ = wait_for("the last motion is answered", ANSWER_LIMIT, || answered().then_some(()));
    wait_for_end(stage, &watch, Instant::now())?;
    let spent = meter.read(stage)?;
    let cpu_ms = since(parts_cpu_ms(stage)?, before);
    let drawn = gl::motion_of(shown_number(stage, area)?).0.wrapping_sub(first);
    let seen = watch.finish()?;
    shown.check(stage)?;
    stage.park_pointer()?;
    let answers = motions::answers(&made, &seen.seen);
    if answers.late_ms.is_empty() {
        return Err(format!("none of {} motions was answered by a frame", made.len()).into());
    }
    Ok(Moved { began, drawn, seen, spent, cpu_ms, answers })
}

/// Motions as a mouse reports them: rates, costs, and how late each is seen.
fn moving(
    stage: &Stage,
    shown: &mut Shown,
    part: &str,
    length: Duration,
) -> Result<Vec<Measure>, Error> {
    let moved =
        move_about(stage, shown, length, |index| Duration::from_secs(1) * index / MOTION_RATE)?;
    let [x_ms, session_ms] = moved.cpu_ms;
    let (began, drawn, spent) = (moved.began, moved.drawn, &moved.spent);
    let run = Run { began, drawn, spent, x_ms, session_ms };
    let mut all = figures(stage, part, &moved.seen, &run)?;
    all.extend(photons(part, moved.answers));
    Ok(all)
}

/// Motions one by one: how late each is seen.
fn single(
    stage: &Stage,
    shown: &mut Shown,
    part: &str,
    length: Duration,
) -> Result<Vec<Measure>, Error> {
    let moved = move_about(stage, shown, length, |index| {
        // Intervals differ, so that no clock of a system keeps step with them.
        let (least, more) = SINGLE_MS;
        let index = u64::from(index);
        Duration::from_millis((0..index).map(|i| least + i * 7 % more).sum())
    })?;
    Ok(photons(part, moved.answers))
}

fn photons(part: &str, answers: motions::Answers) -> Vec<Measure> {
    let lost = answers.lost as f64;
    vec![
        Measure::lower(quantity::PHOTON_MS, part, "ms", answers.late_ms),
        Measure::new("lost_motions", part, "motions", Better::Lower, [lost]),
    ]
}

/// thinc's aims at 1240x900 on a machine without a graphics processor.
fn claims(found: &Found<'_>, peer: &str) -> Vec<Claim> {
    let of = |peer: &str, quantity: &str, part: &str| {
        crate::stats::median(found.samples(peer, quantity, part))
    };
    let mut claims = Vec::new();
    if let stepped @ Some(_) = of(peer, quantity::EXACT_SHARE, STEP) {
        claims.push(Claim::at_least("exact pixels of a frame", stepped, 1.0, "of all"));
    }
    if let rate @ Some(_) = of(peer, quantity::FRAME_RATE, HELD) {
        claims.push(Claim::at_least("frames seen of 60", rate, 55.0, "fps"));
        let exact = of(peer, "rest_exact_share", HELD);
        let name = "exact pixels 1 s after the last frame";
        claims.push(Claim::at_least(name, exact, 1.0, "of all"));
    }
    let other = "tigervnc";
    if let Some(theirs) = of(other, "cpu_frame_ms", HELD) {
        let ours = of(peer, "cpu_frame_ms", HELD);
        claims.push(Claim::at_most("the server's CPU for a frame, TigerVNC's", ours, theirs, "ms"));
    }
    if let Some(theirs) = of(other, "frame_bytes", HELD) {
        let ours = of(peer, "frame_bytes", HELD);
        claims.push(Claim::at_most("a frame, half of TigerVNC's", ours, theirs / 2.0, "bytes"));
    }
    if let Some(local) = of("local", quantity::PHOTON_MS, SINGLE) {
        let (ours, limit) = (of(peer, quantity::PHOTON_MS, SINGLE), local + found.rtt_ms() + 15.0);
        claims.push(Claim::at_most("mouse to photon, local and 15 ms", ours, limit, "ms"));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn parts_are_told_apart_and_smaller_windows_say_so() {
        for (index, part) in PARTS.iter().enumerate() {
            assert!(PARTS[..index].iter().all(|other| other.name != part.name), "{}", part.name);
        }
        assert_eq!(label(HELD, WINDOW), HELD);
        assert_eq!(label(HELD, (1024, 768)), "study at 60 fps, 1024x768");
        assert!(parts(Effort::Quick).iter().any(|part| part.name == HELD));
    }

    #[test]
    fn the_aims_are_judged_against_the_same_run() {
        let ours = |fps: f64, exact: f64, ms: f64, bytes: f64, photon: f64| {
            vec![
                Measure::higher(quantity::FRAME_RATE, HELD, "fps", [fps]),
                Measure::higher("rest_exact_share", HELD, "share", [exact]),
                Measure::lower("cpu_frame_ms", HELD, "ms", [ms]),
                Measure::lower("frame_bytes", HELD, "bytes", [bytes]),
                Measure::lower(quantity::PHOTON_MS, SINGLE, "ms", [photon]),
            ]
        };
        let judge = |mine: Vec<Measure>| {
            let peers = vec![
                ("local", ours(60.0, 1.0, 0.0, 0.0, 10.0)),
                ("tigervnc", ours(40.0, 0.9, 7.0, 234_000.0, 64.0)),
                ("thinc", mine),
            ];
            holds(&Gl, "rtt=2ms", peers, "thinc")
        };
        assert_eq!(judge(ours(55.0, 1.0, 7.0, 117_000.0, 27.0)), [true; 5]);
        assert_eq!(judge(ours(54.9, 0.999, 7.1, 117_001.0, 27.1)), [false; 5]);
        // Alone it is judged by what needs no other.
        let alone = vec![("thinc", ours(60.0, 1.0, 1.0, 1.0, 1.0))];
        assert_eq!(holds(&Gl, "lan", alone, "thinc"), [true; 2]);
        // In slow motion each frame is to be exact.
        let stepped = |share: f64| {
            let exact = Measure::higher(quantity::EXACT_SHARE, STEP, "share", [share]);
            holds(&Gl, "lan", vec![("thinc", vec![exact])], "thinc")
        };
        assert_eq!((stepped(1.0), stepped(0.99)), (vec![true], vec![false]));
    }
}
