//! What flow.rs and scheduler.rs promise, on paths from a modem's to a loopback's: the path is
//! full, and queues are short. From a screen that never rests, to how long bytes waited in queues,
//! how soon a key was answered and how old the shown pixels were. Knows the simulator's public
//! interface.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region, Size};
use thinc_sim::{Ids, Op, Path, PathReport, World};

mod desktop;

use desktop::{Desktop, OTHER, SIZE, WINDOW};

struct Run {
    world: World<Ids>,
    size: Size,
    step: Micros,
}

impl Run {
    fn new(path: Path, step: Micros, path_report: PathReport) -> Run {
        Run::of_size(SIZE, path, step, path_report)
    }

    fn of_size(size: Size, path: Path, step: Micros, path_report: PathReport) -> Run {
        let mut world = World::<Ids>::new(7, size, 4096, None);
        world.path_report = path_report;
        world.apply(&Op::Join(path)).unwrap();
        world.drain().unwrap();
        Run { world, size, step }
    }

    /// A window that is redrawn all the time.
    fn video(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.draw(self.size.rect(), OTHER);
            self.wait(33_000);
        }
    }

    fn sent(&self) -> u64 {
        self.world.session.stats(self.world.viewer_id(0)).unwrap().bytes
    }
}

impl Desktop for Run {
    fn world(&mut self) -> &mut World<Ids> {
        &mut self.world
    }

    fn wait(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            for op in [Op::Shell, Op::Wait(self.step), Op::Shell] {
                self.world.apply(&op).unwrap();
            }
        }
    }
}

/// Bytes per second, and the longest time that a byte waited in the link's queue, once the path is
/// known.
fn saturate(path: Path, step: Micros, path_report: PathReport) -> (u64, Micros) {
    let mut run = Run::new(path, step, path_report);
    run.video(5_000_000);
    run.world.take_queued_max(0);
    let (before, start) = (run.sent(), run.world.now);
    run.video(5_000_000);
    let rate = (run.sent() - before) * 1_000_000 / (run.world.now - start);
    let queued = run.world.take_queued_max(0);
    run.world.drain().unwrap();
    (rate, queued)
}

const PATH_REPORTS: [PathReport; 3] = [PathReport::Path, PathReport::Nothing, PathReport::FirstHop];

#[test]
fn a_slow_path_is_full_and_its_queue_short() {
    for (delay, path_report) in [1_000, 20_000, 100_000]
        .into_iter()
        .flat_map(|delay| PATH_REPORTS.map(|path_report| (delay, path_report)))
    {
        let path = Path { bytes_per_second: 125_000, delay, jitter: 1_000 };
        let (rate, queued) = saturate(path, 1_000, path_report);
        println!("1 Mbit/s, {delay} us, {path_report:?}: {rate} B/s, queue {queued} us");
        assert!(rate > 106_000, "with a delay of {delay} us the path carries {rate} of 125000 B/s");
        // Two updates of 2 KiB and a probe.
        assert!(queued < 100_000, "with a delay of {delay} us bytes wait {queued} us");
    }
}

#[test]
fn a_typical_path_is_full_and_its_queue_short() {
    for (bytes_per_second, delay) in
        [(1_250_000, 20_000), (2_500_000, 15_000), (12_500_000, 33_000)]
    {
        for path_report in PATH_REPORTS {
            let path = Path { bytes_per_second, delay, jitter: 1_000 };
            let (rate, queued) = saturate(path, 500, path_report);
            println!(
                "{} kB/s, {delay} us, {path_report:?}: {rate} B/s, queue {queued} us",
                bytes_per_second / 1000
            );
            assert!(
                rate > bytes_per_second * 85 / 100 || rate > 5_000_000,
                "{rate} of {bytes_per_second} B/s"
            );
            assert!(queued < 30_000, "bytes wait {queued} us");
        }
    }
}

#[test]
fn on_a_loopback_every_frame_is_shown_at_once() {
    let path = Path { bytes_per_second: 1_000_000_000, delay: 30, jitter: 20 };
    for path_report in PATH_REPORTS {
        let mut run = Run::new(path, 100, path_report);
        run.video(300_000);
        // 192 KB per frame at 30 frames a second is little here: each is shown before the next is
        // drawn.
        for _ in 0..30 {
            run.draw(SIZE.rect(), OTHER);
            run.wait(3_000);
            let screen = &run.world.x.framebuffer().pixels;
            let (_, shown) = run.world.shown(0);
            assert!(shown.iter().zip(screen).all(|(a, b)| a == b), "a frame takes more than 3 ms");
        }
    }
}

/// 20 keys a second while a screen of photographs changes all the time, at 10 Mbit/s, 40 ms.
#[test]
fn keys_are_answered_soon_although_photographs_fill_the_path() {
    let path = Path { bytes_per_second: 1_250_000, delay: 20_000, jitter: 500 };
    for path_report in PATH_REPORTS {
        let mut run = Run::new(path, 250, path_report);
        let cell = |key: i32| Rect::at(8 * (key % 30), 16 * (key / 30 % 10), 8, 16);
        let mut unloaded: Vec<Micros> = (0..20).map(|key| run.key(path.delay, cell(key))).collect();
        run.video(3_000_000);
        let (before, start) = (run.sent(), run.world.now);
        let mut loaded: Vec<Micros> = (0..200)
            .map(|key| {
                // Every third key comes with more than the path can send until the next: 192 kB,
                // 154 ms.
                if key % 3 == 0 {
                    run.draw(Rect { y1: 160, ..SIZE.rect() }, OTHER);
                    run.draw(SIZE.rect(), OTHER);
                }
                run.key(path.delay, cell(key))
            })
            .collect();
        let used = (run.sent() - before) as f64 * 1e6
            / (run.world.now - start) as f64
            / path.bytes_per_second as f64;
        unloaded.sort_unstable();
        loaded.sort_unstable();
        let (baseline, median, p95) = (unloaded[10], loaded[100], loaded[190]);
        println!(
            "{path_report:?}: unloaded {baseline} us, median {median} us, p95 {p95} us, \
             {:.1} % used",
            used * 100.0
        );
        assert!(
            median < baseline + 10_000,
            "the median response takes {median} us, and {baseline} us with nothing else to send"
        );
        assert!(p95 < baseline + 30_000, "one in twenty takes {p95} us");
        assert!(used > 0.85, "{used} of the path is used");
    }
}

const REDRAW: Micros = 5_000;

/// An application that redraws its whole screen every 5 ms, with pixel values never used before.
struct Redrawn {
    run: Run,
    drawn: Vec<Micros>,
}

impl Redrawn {
    fn new(size: Size, path: Path, path_report: PathReport) -> Redrawn {
        let mut app =
            Redrawn { run: Run::of_size(size, path, 500, path_report), drawn: Vec::new() };
        // The first two seconds are for finding the rate: acknowledgements of 64 KiB must reveal 1
        // Mbit/s.
        (0..400).for_each(|_| app.redraw());
        app
    }

    fn redraw(&mut self) {
        self.run.draw(self.run.size.rect(), OTHER);
        self.drawn.push(self.run.world.now);
        self.run.wait(REDRAW);
    }

    /// When the oldest pixel that the viewer shows was drawn, and the newest.
    fn shown(&self) -> (Micros, Micros) {
        let (_, shown) = self.run.world.shown(0);
        let screen = &self.run.world.x.framebuffer().pixels;
        // Pixels are numbered in drawing order, in 24 bits.
        let behind =
            |(shown, screen): (&u32, &u32)| u64::from(screen.wrapping_sub(*shown) & 0x00ff_ffff);
        let behind: Vec<u64> = shown.iter().zip(screen).map(behind).collect();
        let drawn = |behind: u64| {
            self.drawn[self.drawn.len() - 1 - (behind / self.run.size.area()) as usize]
        };
        (drawn(*behind.iter().max().unwrap()), drawn(*behind.iter().min().unwrap()))
    }

    fn oldest(&self) -> Micros {
        self.shown().0
    }
}

/// 20 KB redrawn 200 times a second, at 5 Mbit/s, 40 ms.
#[test]
fn shown_pixels_are_never_older_than_a_round_trip_and_two_frames() {
    const CONTENT: Size = Size { width: 128, height: 50 };
    const FRAME: Micros = 32_000;
    let path = Path { bytes_per_second: 625_000, delay: 20_000, jitter: 500 };
    for path_report in PATH_REPORTS {
        let mut app = Redrawn::new(CONTENT, path, path_report);
        let (mut worst, mut pictures, mut last) = (0, 0, 0);
        // A minute, and less if the variants show nothing new.
        let redraws = if path_report == PathReport::Path { 12_000 } else { 2_000 };
        for _ in 0..redraws {
            app.redraw();
            let (oldest, newest) = app.shown();
            worst = worst.max(app.run.world.now - oldest);
            if oldest == newest && newest > last {
                (pictures, last) = (pictures + 1, newest);
            }
        }
        println!(
            "{path_report:?}: shown pixels are at most {worst} us old; {pictures} complete images \
             of {redraws}"
        );
        // An image is complete for a few milliseconds, until the next begins to arrive, and is
        // sampled every five.
        assert!(pictures > redraws / 20, "only {pictures} complete images were seen");
        // If only acknowledgements describe the path, it runs half empty for a round trip once in
        // ten seconds.
        let dry = if path_report == PathReport::Path { 0 } else { 2 * path.delay + 2 * REDRAW };
        assert!(worst <= 2 * path.delay + 2 * FRAME + dry, "shown pixels are {worst} us old");

        app.run.world.apply(&Op::Stall(0)).unwrap();
        (0..2_000).for_each(|_| app.redraw());
        app.run.world.apply(&Op::Resume(0)).unwrap();
        let resumed = app.run.world.now;
        while app.oldest() < resumed {
            app.run.draw(CONTENT.rect(), OTHER);
            app.drawn.push(app.run.world.now);
            for _ in 0..10 {
                app.run.wait(500);
                if app.oldest() >= resumed {
                    break;
                }
            }
        }
        let whole = app.run.world.now - resumed;
        println!("{path_report:?}: complete {whole} us after it reads again");
        assert!(
            whole <= 2 * path.delay + FRAME + REDRAW,
            "complete only {whole} us after it reads again"
        );
    }
}

/// The same if an image takes longer to send than the age limit: the next begins before it is
/// complete.
#[test]
fn every_part_is_shown_though_redraws_exceed_a_slow_path() {
    const CONTENT: Size = Size { width: 128, height: 50 };
    const FRAME: Micros = 157_000;
    let path = Path { bytes_per_second: 125_000, delay: 20_000, jitter: 500 };
    for path_report in PATH_REPORTS {
        let mut app = Redrawn::new(CONTENT, path, path_report);
        let mut worst = 0;
        for _ in 0..2_000 {
            app.redraw();
            worst = worst.max(app.run.world.now - app.oldest());
        }
        println!("1 Mbit/s, {path_report:?}: shown pixels are at most {worst} us old");
        // The round trip is measured again with half as much in flight, which is one update here.
        let dry = if path_report == PathReport::Path { 0 } else { 250_000 };
        assert!(worst <= 2 * path.delay + 2 * FRAME + dry, "shown pixels are {worst} us old");
    }
}

#[test]
fn a_viewer_that_never_acknowledges_is_sent_little_and_delays_no_other() {
    let path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };
    let mut run = Run::new(path, 1_000, PathReport::Path);
    run.world.apply(&Op::Join(path)).unwrap();
    run.wait(500_000);
    run.world.apply(&Op::Stall(0)).unwrap();
    let stalled = run.sent();
    for _ in 0..60 {
        run.draw(SIZE.rect(), OTHER);
        run.draw(Rect::at(5, 5, 20, 20), WINDOW);
        run.wait(33_000);
        let scroll = Op::Copy {
            region: Region::from(Rect::new(0, 0, 320, 190)),
            dx: 0,
            dy: -10,
            window: OTHER,
        };
        for op in [scroll, Op::Finish, Op::Idle] {
            run.world.apply(&op).unwrap();
        }
    }
    let to_stalled = run.sent() - stalled;
    let other = run.world.session.stats(run.world.viewer_id(1)).unwrap();
    assert!(to_stalled < 1_500_000, "a viewer that reads nothing was sent {to_stalled} bytes");
    assert!(other.bytes > 60 * 150_000, "the other viewer was sent {} bytes", other.bytes);
    run.world.drain().unwrap();
}
