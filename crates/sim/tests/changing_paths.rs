//! The catalogue of paths that change while a viewer is connected: two seconds after the change a
//! page, an echo and a frame of a video take at most half as long again as for a viewer that was on
//! that path from the start, two thirds as many frames are on time, and at rest the viewer shows
//! the screen exactly. Knows the simulator's public interface.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_sim::{CATALOGUE, Entry, Fill, Ids, Op, PathReport, World};

/// As many numbers for pixels as a page of text in Chromium has bytes: 60 KB.
const SIZE: Size = Size { width: 160, height: 128 };
const PAGE_WINDOW: u32 = 0x20_0001;
const KEY_WINDOW: u32 = 0x20_0002;
const VIDEO_WINDOW: u32 = 0x20_0003;
const PORT: u16 = 3;
/// Of a video over the whole screen. Its samples are as many bytes as the simulator's plain frame
/// has, so that the session's arithmetic holds: 12 Mbit/s.
const SOURCE: Size = Size { width: 320, height: 128 };
/// 24 frames a second, for 3 seconds.
const FRAME: Micros = 41_667;
const FRAMES: u64 = 72;
/// On time is a frame no later than this after the video's clock, by which half of its frames are
/// no later, as in thinc-bench.
const ON_TIME_MAX: Micros = 100_000;
/// How long a frame that is late is waited for.
const LATE_MAX: Micros = 4_000_000;
const STEP: Micros = 1_000;
/// How long the connection is used before the change, and what follows it before it is measured.
const USED: Micros = 1_000_000;
const SETTLED: Micros = 2_000_000;
const COUNT: usize = 7;
const PAUSE: Micros = 100_000;
const SEED: u64 = 1;

struct Desk {
    world: World<Ids>,
    entry: Entry,
    seed: u64,
    /// When the path changed; None: it has been the changed one from the start.
    changed_at: Option<Micros>,
    is_fresh: bool,
    cell: i32,
}

impl Desk {
    fn new(entry: &Entry, seed: u64, path_report: PathReport, is_fresh: bool) -> Desk {
        let mut world = World::<Ids>::new(seed, SIZE, 4096, None);
        world.path_report = path_report;
        let path = if is_fresh { entry.after(0, seed) } else { entry.before }.down;
        world.apply(&Op::Join(path)).unwrap();
        let mut desk = Desk { world, entry: *entry, seed, changed_at: None, is_fresh, cell: 0 };
        desk.follow();
        desk.world.drain().unwrap();
        desk.use_for(USED);
        desk
    }

    /// The path is what the catalogue says for this time.
    fn follow(&mut self) {
        let conditions = match self.changed_at {
            Some(since) => self.entry.at(self.world.now - since, self.seed),
            None if self.is_fresh => self.entry.after(self.world.now, self.seed),
            None => self.entry.before,
        };
        self.world.set_conditions(0, &conditions);
    }

    fn wait(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.follow();
            for op in [Op::Shell, Op::Wait(STEP), Op::Shell] {
                self.world.apply(&op).unwrap();
            }
        }
    }

    fn draw(&mut self, rect: Rect, window: u32) {
        let draw = Op::Draw {
            region: rect.into(),
            fill: Fill::Distinct,
            hint: DrawHint::Composite,
            window,
        };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world.apply(&op).unwrap();
        }
    }

    /// Time until the viewer shows a new page.
    fn page(&mut self) -> Micros {
        let start = self.world.now;
        self.draw(SIZE.rect(), PAGE_WINDOW);
        while !self.is_exact() {
            self.wait(STEP);
            assert!(
                self.world.now < start + 60_000_000,
                "{}: no page in a minute",
                self.entry.name
            );
        }
        self.world.now - start
    }

    fn is_exact(&self) -> bool {
        let (_, shown) = self.world.shown(0);
        shown == self.world.x.framebuffer().pixels.as_slice()
    }

    /// Time from a key to its echo on the viewer's screen; the X client needs 3 ms.
    fn key(&mut self) -> Micros {
        self.cell = (self.cell + 1) % 19;
        let cell = Rect::at(8 * self.cell, 16, 8, 16);
        self.world.echoes.clear();
        let start = self.world.now;
        for down in [true, false] {
            self.world.apply(&Op::Input(0, InputEvent::Key { code: 30, keysym: 0, down })).unwrap();
        }
        let late = |desk: &Desk| {
            assert!(
                desk.world.now < start + 60_000_000,
                "{}: no echo in a minute",
                desk.entry.name
            );
        };
        while !self.world.has_input() {
            self.wait(STEP);
            late(self);
        }
        self.wait(3_000);
        self.world.apply(&Op::Deliver(KEY_WINDOW)).unwrap();
        self.draw(cell, KEY_WINDOW);
        while self.world.echoes.is_empty() {
            self.wait(STEP);
            late(self);
        }
        self.world.echoes[0].0 - start
    }

    /// Draws so many frames of a video.
    fn play(&mut self, frames: u64) {
        let frame = Op::Frame {
            port: PORT,
            source: SOURCE,
            place: SIZE.rect(),
            region: SIZE.rect().into(),
            window: VIDEO_WINDOW,
        };
        for _ in 0..frames {
            for op in [frame.clone(), Op::Finish, Op::Idle] {
                self.world.apply(&op).unwrap();
            }
            self.wait(FRAME);
        }
    }

    /// A video that has played for so long already. For how long a frame is on its way in the
    /// median, and the share of the frames that is on time.
    fn video(&mut self, played: Micros) -> (Micros, f64) {
        self.play(played / FRAME);
        let start = self.world.now;
        self.world.frames.clear();
        self.play(FRAMES);
        let (newest, end) = (self.world.now - FRAME, self.world.now + LATE_MAX);
        while self.world.now < end
            && self.world.frames.last().is_none_or(|(_, drawn_at)| *drawn_at < newest)
        {
            self.wait(STEP);
        }
        let mut took: Vec<Micros> = (self.world.frames.iter())
            .filter(|(_, drawn_at)| *drawn_at >= start)
            .map(|(shown_at, drawn_at)| shown_at - drawn_at)
            .collect();
        took.sort_unstable();
        let median = took.get(took.len() / 2).copied().unwrap_or(LATE_MAX);
        let on_time = took.iter().filter(|&&took| took <= median + ON_TIME_MAX).count();
        (median, on_time as f64 / FRAMES as f64)
    }

    fn use_for(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.page();
            self.wait(PAUSE);
        }
    }

    /// Medians of a page and an echo.
    fn measure(&mut self) -> (Micros, Micros) {
        let mut take = |what: fn(&mut Desk) -> Micros| {
            let mut took: Vec<Micros> = (0..COUNT)
                .map(|_| {
                    let took = what(self);
                    self.wait(PAUSE);
                    took
                })
                .collect();
            took.sort_unstable();
            took[COUNT / 2]
        };
        (take(Desk::page), take(Desk::key))
    }
}

/// Of the time on a path that never changed, and of the share that is on time there.
const MOST: f64 = 1.5;
const LEAST: f64 = 1.0 / MOST;

#[test]
fn pages_and_echoes_are_as_soon_as_on_a_path_that_never_changed() {
    let mut failed = Vec::new();
    for entry in CATALOGUE {
        for path_report in [PathReport::Path, PathReport::Nothing] {
            let expected = Desk::new(entry, SEED, path_report, true).measure();
            let mut desk = Desk::new(entry, SEED, path_report, false);
            desk.changed_at = Some(desk.world.now);
            desk.use_for(SETTLED);
            let took = desk.measure();
            let ratio = |took: Micros, expected: Micros| took as f64 / expected as f64;
            let (page, echo) = (ratio(took.0, expected.0), ratio(took.1, expected.1));
            let line = format!(
                "{}, {path_report:?}: page {} us ({page:.2}), echo {} us ({echo:.2})",
                entry.name, took.0, took.1
            );
            println!("{line}");
            if page.max(echo) > MOST {
                failed.push(line);
            }
            desk.world.drain().unwrap();
            assert!(desk.is_exact(), "{}: not exact at rest", entry.name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn videos_are_as_soon_and_as_even_as_on_a_path_that_never_changed() {
    compare_videos(PathReport::Path);
}

#[test]
fn videos_are_as_soon_and_as_even_where_only_acknowledgements_tell() {
    compare_videos(PathReport::Nothing);
}

fn compare_videos(path_report: PathReport) {
    let mut failed = Vec::new();
    for entry in CATALOGUE {
        let (expected, expected_on_time) = Desk::new(entry, SEED, path_report, true).video(SETTLED);
        let mut desk = Desk::new(entry, SEED, path_report, false);
        // Half a second of it before the change.
        desk.play(500_000 / FRAME);
        desk.changed_at = Some(desk.world.now);
        let (took, on_time) = desk.video(SETTLED);
        let line = format!(
            "{}, {path_report:?}: {took} us ({:.2}), on time {:.1} % ({:.1} %)",
            entry.name,
            took as f64 / expected as f64,
            on_time * 100.0,
            expected_on_time * 100.0
        );
        println!("{line}");
        if took as f64 > MOST * expected as f64 || on_time < LEAST * expected_on_time {
            failed.push(line);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
