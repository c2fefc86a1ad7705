//! An outage and its end, as viewer-core's liveness sees them: a person types, the path carries
//! nothing for a while, and what was typed meanwhile arrives. Knows the simulator's public
//! interface.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_sim::{Conditions, Entry, Fill, Full, Losses, Op, Path, World};
use thinc_viewer_core::Liveness;

const SIZE: Size = Size { width: 160, height: 128 };
const KEY_WINDOW: u32 = 0x20_0002;
const STEP: Micros = 1_000;
const SECOND: Micros = 1_000_000;
const KEY_INTERVAL: Micros = 200_000;
const PATH: Path = Path { bytes_per_second: 12_500_000, delay: 33_000, jitter: 1_000 };
/// The longest round trip of a small message, with the step in which each end handles it.
const ROUND_TRIP: Micros = 2 * (PATH.delay + PATH.jitter) + 4 * STEP;

/// As QUIC, whose probes wait for no packet, and as TCP.
const TRANSPORTS: [Op; 2] = [Op::JoinLossy(PATH, 0), Op::Join(PATH)];

/// A person in front of a viewer, whose path may be gone for a while.
struct Desk {
    world: World<Full>,
    outage_until: Micros,
    /// How the path has changed, and since when.
    entry: Option<(Entry, Micros)>,
    cell: i32,
    /// When the liveness changed, and to what.
    changes: Vec<(Micros, Liveness)>,
}

impl Desk {
    fn new(seed: u64, join: &Op) -> Desk {
        let mut world = World::<Full>::new(seed, SIZE, 4096, None);
        world.streams_have_time = true;
        world.apply(join).unwrap();
        world.drain().unwrap();
        let mut desk = Desk { world, outage_until: 0, entry: None, cell: 0, changes: Vec::new() };
        desk.work(2 * SECOND);
        assert_eq!(desk.changes, [], "the path works");
        desk
    }

    fn liveness(&self) -> Liveness {
        self.world.pipeline(0).viewer().liveness()
    }

    /// Nothing passes from now on; what is sent meanwhile arrives after it.
    fn step(&mut self) {
        let outage = self.outage_until.saturating_sub(self.world.now);
        let path = Path { delay: PATH.delay + outage, ..PATH };
        self.world
            .set_conditions(0, &Conditions { down: path, up: path, losses: Losses::default() });
        let before = self.liveness();
        for op in [Op::Shell, Op::Wait(STEP), Op::Shell] {
            self.world.apply(&op).unwrap();
        }
        if self.world.has_input() {
            self.world.apply(&Op::Deliver(KEY_WINDOW)).unwrap();
            self.draw();
        }
        if self.liveness() != before {
            self.changes.push((self.world.now, self.liveness()));
        }
    }

    /// Draws what answers a key.
    fn draw(&mut self) {
        self.cell = (self.cell + 1) % 19;
        let draw = Op::Draw {
            region: Rect::at(8 * self.cell, 16, 8, 16).into(),
            fill: Fill::Distinct,
            hint: DrawHint::Composite,
            window: KEY_WINDOW,
        };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world.apply(&op).unwrap();
        }
    }

    /// Does nothing for so long.
    fn rest(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.step();
        }
    }

    /// Types five keys a second for so long.
    fn work(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            for down in [true, false] {
                let key = InputEvent::Key { code: 30, keysym: 0, down };
                self.world.apply(&Op::Input(0, key)).unwrap();
            }
            self.rest(KEY_INTERVAL.min(end - self.world.now));
        }
    }

    /// Nothing passes for so long, while the person types on; when that began.
    fn outage(&mut self, time: Micros) -> Micros {
        let began = self.world.now;
        self.outage_until = began + time;
        self.work(time);
        began
    }

    fn is_exact(&mut self) -> bool {
        self.world.drain().unwrap();
        let (_, shown) = self.world.shown(0);
        shown.iter().zip(&self.world.x.framebuffer().pixels).all(|(a, b)| (a ^ b) << 8 == 0)
    }
}

#[test]
fn an_outage_is_noticed_at_once_and_so_is_its_end() {
    for (seed, join) in (0..4).zip(TRANSPORTS.iter().cycle()) {
        let mut desk = Desk::new(seed, join);
        let began = desk.outage(600_000);
        let ended = desk.world.now;
        desk.work(SECOND);
        let [(noticed, first), (recovered, second)] = desk.changes[..] else {
            panic!("seed {seed}: {:?}", desk.changes);
        };
        assert_eq!((first, second), (Liveness::Unresponsive, Liveness::Responsive));
        // The answer to an earlier key arrives, the next key is typed, and its answer is due.
        let notice = noticed - began;
        assert!(notice <= 3 * ROUND_TRIP + KEY_INTERVAL + 171_000, "seed {seed}: {notice} us");
        // What was sent meanwhile is answered first.
        let recovery = recovered - ended;
        assert!(recovery <= ROUND_TRIP, "seed {seed}: {recovery} us");
        assert!(desk.is_exact(), "seed {seed}");
    }
}

#[test]
fn a_path_that_is_gone_is_worth_another_and_then_ends() {
    for join in &TRANSPORTS {
        let mut desk = Desk::new(5, join);
        let began = desk.outage(8 * SECOND);
        let stages: Vec<Liveness> = desk.changes.iter().map(|&(_, liveness)| liveness).collect();
        assert_eq!(stages, [Liveness::Unresponsive, Liveness::Replaceable, Liveness::Dead]);
        let [noticed, replaceable, dead] = [0, 1, 2].map(|at| desk.changes[at].0 - began);
        // The simulator's viewers announce datagrams on either.
        let replaced_after = 2 * SECOND..2 * SECOND + 2 * STEP;
        assert!(replaced_after.contains(&(replaceable - noticed)), "{noticed}, {replaceable} us");
        assert!((5 * SECOND..5 * SECOND + 300_000).contains(&dead), "{dead} us");
        // As the shell does then.
        desk.world.apply(&Op::Reconnect(0)).unwrap();
        desk.changes.clear();
        desk.work(SECOND);
        assert_eq!(desk.liveness(), Liveness::Responsive);
        assert!(desk.is_exact());
    }
}

#[test]
fn an_outage_is_noticed_by_a_person_who_only_watches() {
    for join in &TRANSPORTS {
        let mut desk = Desk::new(7, join);
        desk.rest(2 * SECOND);
        desk.draw();
        // Long enough for everything that follows from it.
        desk.rest(SECOND / 2);
        assert_eq!(desk.changes, []);
        let began = desk.world.now;
        desk.outage_until = began + 9 * SECOND;
        desk.rest(7 * SECOND);
        let [(noticed, Liveness::Unresponsive), ..] = desk.changes[..] else {
            panic!("{:?}", desk.changes);
        };
        let notice = noticed - began;
        // Five seconds after the last arrival a probe, which has 1.5 s.
        let expected = 6 * SECOND..13 * SECOND / 2 + 2 * STEP;
        assert!(expected.contains(&notice), "{notice} us");
    }
}

#[test]
fn typing_on_an_unsteady_path_raises_no_alarm() {
    for entry in thinc_sim::CATALOGUE {
        if !["jitter", "reordering", "competing-flow"].contains(&entry.name) {
            continue;
        }
        for join in &TRANSPORTS {
            let mut desk = Desk::new(6, join);
            desk.entry = Some((*entry, desk.world.now));
            desk.work(20 * SECOND);
            assert_eq!(desk.changes, [], "{}", entry.name);
        }
    }
}
