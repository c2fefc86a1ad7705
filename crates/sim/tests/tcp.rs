//! How soon a page is shown behind a kernel's TCP: its slow start, which begins again after each
//! pause, is the only one. From pages drawn two seconds apart, to when the viewer showed all of
//! each, beside what the same sender takes for as many bytes that wait from the start. Knows the
//! simulator's public interface.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_sim::{Congestion, Fill, Ids, Link, Op, Path, PathReport, Random, Sender, World};

const SIZE: Size = Size { width: 640, height: 400 };
/// 136,000 pixels that do not compress.
const PAGE: Rect = Rect::at(40, 30, 400, 340);
const PAGE_BYTES: usize = 4 * 400 * 340;
const WINDOW: u32 = 0x20_0001;
const KEY_WINDOW: u32 = 0x20_0002;
const CELL: Rect = Rect::at(8, 8, 8, 16);
const WAN: Path = Path { bytes_per_second: 12_500_000, delay: 33_000, jitter: 1_000 };
const LAN: Path = Path { bytes_per_second: 12_500_000, delay: 100, jitter: 20 };
const ROUND_TRIP: Micros = 2 * WAN.delay;
const STEP: Micros = 1_000;
const PAUSE: Micros = 2_000_000;
const PAGES: usize = 5;
const SEED: u64 = 7;

const SENDERS: [Congestion; 5] = [
    Congestion::Cubic { restarts: true },
    Congestion::Cubic { restarts: false },
    Congestion::Reno { restarts: true },
    Congestion::Reno { restarts: false },
    Congestion::Bbr,
];

fn sender(congestion: Congestion) -> Sender {
    Sender { congestion, queue_max: 100_000 }
}

fn median(mut times: Vec<Micros>) -> Micros {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A sender that always has what it may send.
struct Alone {
    link: Link,
    random: Random,
    now: Micros,
}

impl Alone {
    fn new(congestion: Congestion, path: Path) -> Alone {
        let link = Link::with_sender(path, sender(congestion));
        Alone { link, random: Random::new(SEED), now: 0 }
    }

    /// What it takes for the bytes of a page, after as long a pause.
    fn page(&mut self) -> Micros {
        self.now += PAUSE;
        self.link.advance(self.now, &mut self.random);
        let start = self.now;
        let (mut left, mut arrived) = (PAGE_BYTES, 0);
        while arrived < PAGE_BYTES {
            while left > 0 && !self.link.is_full() {
                let bytes = left.min(4096);
                self.link.send(&vec![0; bytes], self.now, &mut self.random);
                left -= bytes;
            }
            self.now += STEP / 10;
            self.link.advance(self.now, &mut self.random);
            while let Some(chunk) = self.link.receive(self.now) {
                arrived += chunk.len();
            }
        }
        self.now - start
    }

    fn pages(&mut self) -> Micros {
        median((0..PAGES).map(|_| self.page()).collect())
    }
}

struct Run {
    world: World<Ids>,
}

impl Run {
    fn new(congestion: Congestion, path: Path, path_report: PathReport) -> Run {
        let mut world = World::<Ids>::new(SEED, SIZE, 4096, None);
        world.path_report = path_report;
        world.sender = sender(congestion);
        world.apply(&Op::Join(path)).unwrap();
        world.drain().unwrap();
        Run { world }
    }

    fn wait(&mut self, time: Micros) {
        for op in [Op::Shell, Op::Wait(time), Op::Shell] {
            self.world.apply(&op).unwrap();
        }
    }

    fn draw(&mut self, rect: Rect, window: u32) {
        let (fill, hint) = (Fill::Distinct, DrawHint::Composite);
        let draw = Op::Draw { region: rect.into(), fill, hint, window };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world.apply(&op).unwrap();
        }
    }

    fn draw_page_after_pause(&mut self) {
        for _ in 0..PAUSE / 20_000 {
            self.wait(20_000);
        }
        self.draw(PAGE, WINDOW);
    }

    /// Draws a page after a pause; returns the time until the viewer shows all of it.
    fn page(&mut self) -> Micros {
        self.draw_page_after_pause();
        let start = self.world.now;
        loop {
            self.wait(STEP);
            let took = self.world.now - start;
            if self.world.shown(0).1 == self.world.x.framebuffer().pixels.as_slice() {
                return took;
            }
            assert!(took < 60_000_000, "the page is not shown after a minute");
        }
    }

    /// Time from a key, pressed a while after a page was drawn, to its echo.
    fn echo_beside_page(&mut self, after: Micros) -> Micros {
        self.draw_page_after_pause();
        for _ in 0..after / STEP {
            self.wait(STEP);
        }
        let start = self.world.now;
        self.world.echoes.clear();
        for down in [true, false] {
            let key = InputEvent::Key { code: 30, keysym: 0, down };
            self.world.apply(&Op::Input(0, key)).unwrap();
        }
        while !self.world.has_input() {
            self.wait(STEP);
        }
        self.world.apply(&Op::Deliver(KEY_WINDOW)).unwrap();
        self.draw(CELL, KEY_WINDOW);
        while self.world.echoes.is_empty() {
            self.wait(STEP);
            assert!(self.world.now < start + 60_000_000, "no echo in a minute");
        }
        self.world.now - start
    }

    fn pages(&mut self) -> Micros {
        median((0..PAGES).map(|_| self.page()).collect())
    }
}

#[test]
fn through_ssh_an_echo_beside_a_page_takes_two_round_trips_at_most() {
    for congestion in SENDERS {
        let mut run = Run::new(congestion, WAN, PathReport::Nothing);
        run.pages();
        let echoes = [0, 1, 2, 3].map(|rounds| run.echo_beside_page(rounds * ROUND_TRIP));
        println!("{congestion:?}: echoes after {echoes:?} us");
        assert!(echoes.iter().all(|&took| took <= 2 * ROUND_TRIP), "{congestion:?}: {echoes:?}");
    }
}

#[test]
fn a_page_takes_as_long_as_the_kernels_own_slow_start() {
    // Through ssh only acknowledgements tell.
    for (report, more) in [(PathReport::Path, ROUND_TRIP / 2), (PathReport::Nothing, ROUND_TRIP)] {
        for congestion in SENDERS {
            let alone = Alone::new(congestion, WAN).pages();
            let took = Run::new(congestion, WAN, report).pages();
            println!("{congestion:?} {report:?}: {took} us, the sender alone {alone} us");
            assert!(took <= alone + more, "{congestion:?} {report:?}: {took} us, alone {alone} us");
        }
    }
}

#[test]
fn a_page_takes_as_long_if_the_delay_grew_after_the_viewer_had_connected() {
    for congestion in SENDERS {
        let mut alone = Alone::new(congestion, LAN);
        alone.pages();
        alone.link.set_path(WAN);
        alone.page();
        let alone = alone.pages();
        let mut run = Run::new(congestion, LAN, PathReport::Path);
        run.pages();
        run.world.set_path(0, WAN);
        run.page();
        let took = run.pages();
        println!("{congestion:?}: {took} us, the sender alone {alone} us");
        assert!(took <= alone + 2 * ROUND_TRIP, "{congestion:?}: {took} us, alone {alone} us");
    }
}
