//! What flow.rs and scheduler.rs promise, on paths from a modem's to a loopback's: full, and no fuller.
//! From a screen that never rests, to how long bytes stood in queues and how soon a key was answered.
//! Knows the simulator's public face.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Region, Size};
use thinc_ring::Drawn;
use thinc_sim::{Fill, Ids, Op, Path, World};

const SIZE: Size = Size { width: 320, height: 200 };
const WINDOW: u32 = 0x20_0001;
const OTHER: u32 = 0x20_0002;

struct Run {
    world: World<Ids>,
    step: Micros,
}

impl Run {
    fn new(path: Path, step: Micros) -> Run {
        let mut world = World::<Ids>::new(7, SIZE, 4096, None);
        world.apply(&Op::Join(path)).unwrap();
        world.drain().unwrap();
        Run { world, step }
    }

    fn draw(&mut self, rect: Rect, window: u32) {
        let draw = Op::Draw { region: rect.into(), fill: Fill::Distinct, what: Drawn::Image, window };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world.apply(&op).unwrap();
        }
    }

    fn wait(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            for op in [Op::Shell, Op::Wait(self.step), Op::Shell] {
                self.world.apply(&op).unwrap();
            }
        }
    }

    /// A window that is drawn anew all the time.
    fn video(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.draw(SIZE.rect(), OTHER);
            self.wait(33_000);
        }
    }

    fn sent(&self) -> u64 {
        self.world.session.stats(self.world.viewer_id(0)).unwrap().bytes
    }
}

/// Bytes a second, and the longest that a byte stood in the link's queue, once the path is known.
fn saturate(path: Path, step: Micros) -> (u64, Micros) {
    let mut run = Run::new(path, step);
    run.video(5_000_000);
    run.world.take_queued_max(0);
    let (before, start) = (run.sent(), run.world.now);
    run.video(5_000_000);
    let rate = (run.sent() - before) * 1_000_000 / (run.world.now - start);
    let queued = run.world.take_queued_max(0);
    run.world.drain().unwrap();
    (rate, queued)
}

#[test]
fn a_slow_path_is_full_and_its_queue_short() {
    for delay in [1_000, 20_000, 100_000] {
        let path = Path { bytes_per_second: 125_000, delay, jitter: 1_000 };
        let (rate, queued) = saturate(path, 1_000);
        println!("1 Mbit/s, {delay} us: {rate} B/s, queue {queued} us");
        assert!(rate > 100_000, "with {delay} us the path carries {rate} of 125000 B/s");
        assert!(queued < 200_000, "with {delay} us bytes wait {queued} us");
    }
}

#[test]
fn a_usual_path_is_full_and_its_queue_short() {
    let path = Path { bytes_per_second: 2_500_000, delay: 15_000, jitter: 2_000 };
    let (rate, queued) = saturate(path, 1_000);
    println!("20 Mbit/s, 30 ms: {rate} B/s, queue {queued} us");
    assert!(rate > 2_000_000, "the path carries {rate} of 2500000 B/s");
    assert!(queued < 100_000, "bytes wait {queued} us");
}

#[test]
fn a_loopback_never_waits() {
    let path = Path { bytes_per_second: 1_000_000_000, delay: 30, jitter: 20 };
    let mut run = Run::new(path, 100);
    run.video(300_000);
    // 192 KB a frame at 30 frames a second is nothing here: each is there before the next is drawn.
    for _ in 0..30 {
        run.draw(SIZE.rect(), OTHER);
        run.wait(3_000);
        let screen = &run.world.x.framebuffer().pixels;
        let (_, shown) = run.world.shown(0);
        assert!(shown.iter().zip(screen).all(|(a, b)| a == b), "a frame takes more than 3 ms");
    }
}

#[test]
fn a_key_is_answered_soon_although_a_video_fills_the_path() {
    let delay = 20_000;
    let mut run = Run::new(Path { bytes_per_second: 125_000, delay, jitter: 1_000 }, 1_000);
    run.video(5_000_000);
    let mut worst = 0;
    for key in 0..20 {
        run.world.echoes.clear();
        let start = run.world.now;
        for down in [true, false] {
            run.world.apply(&Op::Input(0, InputEvent::Key { code: 30, keysym: 0, down })).unwrap();
        }
        run.draw(SIZE.rect(), OTHER);
        run.wait(delay + 5_000);
        run.world.apply(&Op::Deliver(WINDOW)).unwrap();
        run.draw(Rect::at(100 + key * 8, 100, 8, 16), WINDOW);
        run.wait(400_000);
        let (at, _) = *run.world.echoes.first().expect("the key is answered");
        worst = worst.max(at - start);
    }
    println!("worst answer after {worst} us");
    // Two ways of 20 ms, what stands in the link's queue, and the answer itself.
    assert!(worst < 200_000, "the slowest answer took {worst} us");
}

#[test]
fn a_viewer_that_never_acknowledges_is_sent_little_and_holds_up_nobody() {
    let path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };
    let mut run = Run::new(path, 1_000);
    run.world.apply(&Op::Join(path)).unwrap();
    run.wait(500_000);
    run.world.apply(&Op::Stall(0)).unwrap();
    let stalled = run.sent();
    for _ in 0..60 {
        run.draw(SIZE.rect(), OTHER);
        run.draw(Rect::at(5, 5, 20, 20), WINDOW);
        run.wait(33_000);
        let scroll = Op::Copy { region: Region::from(Rect::new(0, 0, 320, 190)), dx: 0, dy: -10, window: OTHER };
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
