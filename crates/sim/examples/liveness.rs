//! `cargo run --release -p thinc-sim --example liveness`: when an outage is noticed, how often a
//! path that works is reported, and how soon a connection is tried again, by viewer-core's rules
//! and by those that the shells had (doc/experiments/056-liveness.md). Knows the simulator's public
//! interface.

use thinc_protocol::Micros;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_sim::{CATALOGUE, Conditions, Fill, Full, Losses, Op, Path, Random, World};
use thinc_viewer_core::{AttemptMeans, Attempts, Liveness};

const SIZE: Size = Size { width: 160, height: 128 };
const PAGE_WINDOW: u32 = 0x20_0001;
const KEY_WINDOW: u32 = 0x20_0002;
const STEP: Micros = 1_000;
const MS: Micros = 1_000;
const SECOND: Micros = 1_000_000;
const OUTAGES: u64 = 20;
const FALSE_ALARM_TIME: Micros = 120 * SECOND;

/// What a person does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Types a key each 80 to 400 ms.
    Types,
    /// Watches a picture that changes ten times a second.
    Watches,
}

/// As TCP, or as QUIC on a path that loses so many packets of a thousand.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Stream,
    Datagrams { lost: u64 },
}

/// The rule of pages until 2026-11-28: an input must be answered within two round trips and 170 ms,
/// everything else within 5 s, after which a probe has 1.5 s.
#[derive(Default)]
struct PageBefore {
    due: Option<(Micros, bool)>,
    is_unresponsive: bool,
}

impl PageBefore {
    fn expect(&mut self, at: Micros, is_final: bool) {
        if self.due.is_none_or(|(due, _)| at < due) {
            self.due = Some((at, is_final));
        }
    }

    /// True if the session becomes unresponsive.
    fn step(
        &mut self,
        now: Micros,
        (received, sent, by_person): (bool, bool, bool),
        round_trip: Option<Micros>,
    ) -> bool {
        if received {
            *self = PageBefore::default();
        }
        let round_trip = round_trip.unwrap_or(700 * MS).min(700 * MS);
        if by_person && !self.is_unresponsive {
            self.expect(now + 2 * round_trip + 170 * MS, true);
        } else if sent && !self.is_unresponsive {
            self.expect(now + 5 * SECOND, false);
        }
        match self.due.take_if(|(at, _)| *at <= now) {
            Some((_, true)) => {
                let was = std::mem::replace(&mut self.is_unresponsive, true);
                !was
            }
            Some((_, false)) => {
                self.due = Some((now + 1_500 * MS, true));
                false
            }
            None => false,
        }
    }
}

/// The rule of native viewers until then: whatever was asked must be answered within two round
/// trips and 170 ms. Nothing was asked because a picture stood still.
#[derive(Default)]
struct NativeBefore {
    is_unresponsive: bool,
}

impl NativeBefore {
    /// True if the session becomes unresponsive.
    fn step(
        &mut self,
        now: Micros,
        received: bool,
        since: Option<Micros>,
        round_trip: Option<Micros>,
    ) -> bool {
        self.is_unresponsive &= !received;
        let limit = 2 * round_trip.unwrap_or(SECOND).min(SECOND) + 170 * MS;
        let is_due = since.is_some_and(|since| since + limit <= now);
        is_due && !std::mem::replace(&mut self.is_unresponsive, true)
    }
}

struct Desk {
    world: World<Full>,
    random: Random,
    work: Work,
    /// When the person types or the picture changes next, and when a page is drawn.
    next_at: Micros,
    page_at: Micros,
    cell: i32,
    page_before: PageBefore,
    native_before: NativeBefore,
    bytes: (u64, u64),
    /// When each rule reported.
    reports: [Vec<Micros>; 3],
    /// How often viewer-core found that others were to be tried, and that this one was dead.
    replaceable: usize,
    ends: usize,
}

impl Desk {
    fn new(seed: u64, path: Path, transport: Transport, work: Work) -> Desk {
        let mut world = World::<Full>::new(seed, SIZE, 4096, None);
        world.streams_have_time = true;
        world
            .apply(&match transport {
                Transport::Stream => Op::Join(path),
                Transport::Datagrams { lost } => Op::JoinLossy(path, lost),
            })
            .unwrap();
        world.drain().unwrap();
        let now = world.now;
        Desk {
            world,
            random: Random::new(seed),
            work,
            next_at: now,
            page_at: now + SECOND,
            cell: 0,
            page_before: PageBefore::default(),
            native_before: NativeBefore::default(),
            bytes: (0, 0),
            reports: Default::default(),
            replaceable: 0,
            ends: 0,
        }
    }

    fn draw(&mut self, rect: Rect, window: u32) {
        let (fill, hint) = (Fill::Distinct, DrawHint::Composite);
        let draw = Op::Draw { region: rect.into(), fill, hint, window };
        for op in [draw, Op::Finish, Op::Idle] {
            self.world.apply(&op).unwrap();
        }
    }

    fn draw_cell(&mut self, window: u32) {
        self.cell = (self.cell + 1) % 19;
        self.draw(Rect::at(8 * self.cell, 16, 8, 16), window);
    }

    fn step(&mut self, conditions: &Conditions) {
        let mut by_person = false;
        self.world.set_conditions(0, conditions);
        let before = self.world.pipeline(0).viewer().liveness();
        if self.world.now >= self.next_at {
            match self.work {
                Work::Types => {
                    for down in [true, false] {
                        let key = InputEvent::Key { code: 30, keysym: 0, down };
                        self.world.apply(&Op::Input(0, key)).unwrap();
                    }
                    by_person = true;
                    self.next_at += (80 + self.random.below(320)) * MS;
                }
                Work::Watches => {
                    self.draw_cell(PAGE_WINDOW);
                    self.next_at += 100 * MS;
                }
            }
        }
        if self.work == Work::Types && self.world.now >= self.page_at {
            self.draw(SIZE.rect(), PAGE_WINDOW);
            self.page_at += 2 * SECOND;
        }
        for op in [Op::Shell, Op::Wait(STEP), Op::Shell] {
            self.world.apply(&op).unwrap();
        }
        if self.world.has_input() {
            self.world.apply(&Op::Deliver(KEY_WINDOW)).unwrap();
            self.draw_cell(KEY_WINDOW);
        }
        let (now, viewer) = (self.world.now, self.world.pipeline(0).viewer());
        let stats = viewer.stats();
        let (bytes, round_trip) = ((stats.bytes_in, stats.bytes_out), stats.rtt_min_us);
        let what = (bytes.0 != self.bytes.0, bytes.1 != self.bytes.1, by_person);
        self.bytes = bytes;
        if self.page_before.step(now, what, round_trip) {
            self.reports[0].push(now);
        }
        if self.native_before.step(now, what.0, viewer.unanswered_since(), round_trip) {
            self.reports[1].push(now);
        }
        let liveness = viewer.liveness();
        if liveness > before && before == Liveness::Responsive {
            self.reports[2].push(now);
        }
        let is_worth_another = |liveness| liveness >= Liveness::Replaceable;
        self.replaceable += usize::from(is_worth_another(liveness) && !is_worth_another(before));
        self.ends += usize::from(liveness == Liveness::Dead && before != Liveness::Dead);
    }

    fn run(&mut self, time: Micros, mut at: impl FnMut(Micros) -> Conditions) {
        let (start, mut conditions) = (self.world.now, at(0));
        while self.world.now < start + time {
            let since = self.world.now - start;
            if since % (20 * MS) < STEP {
                conditions = at(since);
            }
            self.step(&conditions);
        }
    }
}

fn path(mbits: u64, round_trip: Micros) -> Path {
    Path { bytes_per_second: mbits * 125_000, delay: round_trip / 2, jitter: 1_000 }
}

fn both(path: Path) -> Conditions {
    Conditions { down: path, up: path, losses: Losses::default() }
}

/// Median and maximum, in ms.
fn summary(mut times: Vec<Micros>) -> String {
    times.sort_unstable();
    match (times.get(times.len() / 2), times.last()) {
        (Some(median), Some(longest)) => format!("{} / {}", median / MS, longest / MS),
        _ => "never".to_owned(),
    }
}

/// From the beginning of an outage to the report.
fn notices() {
    println!("## An outage is reported after, ms, median / longest of {OUTAGES}");
    println!("| path | work | page before | native before | now |\n|---|---|--:|--:|--:|");
    for (name, path) in [
        ("100 Mbit/s, 2 ms", path(100, 2 * MS)),
        ("100 Mbit/s, 66 ms", path(100, 66 * MS)),
        ("6 Mbit/s, 70 ms", path(6, 70 * MS)),
        ("100 Mbit/s, 600 ms", path(100, 600 * MS)),
    ] {
        for work in [Work::Types, Work::Watches] {
            let (mut page, mut native, mut now) = (Vec::new(), Vec::new(), Vec::new());
            for seed in 0..OUTAGES {
                let mut desk = Desk::new(seed, path, Transport::Stream, work);
                desk.run(3 * SECOND + seed * 50 * MS, |_| both(path));
                desk.reports = Default::default();
                let (began, lasts) = (desk.world.now, 8 * SECOND);
                desk.run(lasts, |since| {
                    let delay = path.delay + lasts.saturating_sub(since);
                    both(Path { delay, ..path })
                });
                let first = |reports: &Vec<Micros>| reports.first().map(|at| at - began);
                page.extend(first(&desk.reports[0]));
                // The probe after 5 s is a new one.
                native.extend(first(&desk.reports[1]).filter(|&at| at < 5 * SECOND));
                now.extend(first(&desk.reports[2]));
            }
            let missed = OUTAGES as usize - native.len();
            println!(
                "| {name} | {work:?} | {} | {}{} | {} |",
                summary(page),
                summary(native),
                if missed > 0 { format!(", {missed} never") } else { String::new() },
                summary(now)
            );
        }
    }
}

/// Reports of a path that works.
fn false_alarms() {
    println!("\n## Reports in {} s on a path that works", FALSE_ALARM_TIME / SECOND);
    println!(
        "| path | transport | work | page before | native before | now | others tried | closed |"
    );
    println!("|---|---|---|--:|--:|--:|--:|--:|");
    let wan = path(24, 66 * MS);
    let queued = |queue: Micros| both(Path { delay: wan.delay + queue / 2, ..wan });
    let row = |name: &str, transport, work, at: &dyn Fn(Micros) -> Conditions| {
        let mut desk = Desk::new(3, at(0).down, transport, work);
        desk.run(FALSE_ALARM_TIME, at);
        let [page, native, now] = desk.reports.map(|reports| reports.len());
        let (others, ends) = (desk.replaceable, desk.ends);
        println!(
            "| {name} | {transport:?} | {work:?} | {page} | {native} | {now} | {others} | {ends} |"
        );
    };
    let names = ["jitter", "reordering", "bursts", "competing-flow", "satellite-up", "mobile"];
    for work in [Work::Types, Work::Watches] {
        for transport in [Transport::Stream, Transport::Datagrams { lost: 0 }] {
            row("steady, 66 ms", transport, work, &|_| both(wan));
            // Somebody else's upload fills a queue of a second, slowly or in its slow start.
            row("a queue of 1 s grows in 4 s", transport, work, &|since| {
                queued(since % (4 * SECOND) / 4)
            });
            row("a queue of 1 s grows in 0.3 s", transport, work, &|since| {
                queued(((since % (4 * SECOND)).saturating_sub(2 * SECOND) * 10 / 3).min(SECOND))
            });
            for entry in CATALOGUE.iter().filter(|entry| names.contains(&entry.name)) {
                row(entry.name, transport, work, &|since| match since {
                    0..5_000_000 => entry.before,
                    _ => entry.at(since - 5 * SECOND, 3),
                });
            }
        }
        for lost in [10, 50, 100] {
            let transport = Transport::Datagrams { lost };
            row("losses", transport, work, &|_| both(wan));
        }
    }
}

/// From the path's return to the end of a handshake of three round trips. Its first packet is lost
/// in the outage, and the kernel repeats it after 1, 3 and 7 s, while the attempt is made.
fn reconnect(outage: Micros, round_trip: Micros, browser: bool) -> (Micros, u64) {
    let mut attempts = Attempts::new();
    attempts.handle_loss(0);
    let (mut at, mut count) = (0, 0);
    let mut open: Option<Micros> = None;
    while open.is_none_or(|open| at < open) {
        count += 1;
        let (next, lasts) = if browser {
            let interval = attempts.browser_interval(Some(round_trip), at);
            let interval = interval.expect("the connection was lost");
            (at + interval, interval)
        } else {
            let spacing = Attempts::spacing(Some(round_trip));
            (at + spacing, 4 * Attempts::answer_timeout(Some(round_trip)))
        };
        let first = [0, SECOND, 3 * SECOND, 7 * SECOND]
            .into_iter()
            .map(|after| at + after)
            .find(|&sent| sent >= outage && sent + 3 * round_trip <= at + lasts);
        let opened = first.map(|sent| sent + 3 * round_trip);
        open = open.into_iter().chain(opened).min();
        at = next;
    }
    (open.unwrap_or(at) - outage, count)
}

/// Waits of the page's back-off before: from 0.2 s, doubled up to 8 s.
fn wait_before(failures: u32, random: u64) -> Micros {
    let wait = ((200 * MS) << failures.min(16)).min(8 * SECOND);
    wait / 2 + random % (wait / 2)
}

/// A server that refuses connections for so long: when it is found after that, and the attempts. A
/// browser delays attempts after 14 failures by about 1 s, after 16 by 3 s in the mean.
fn refused(away: Micros, means: AttemptMeans, before: bool, random: &mut Random) -> (Micros, u32) {
    let mut attempts = Attempts::new();
    let (mut now, mut made) = (0, 0);
    loop {
        let wait = if before {
            wait_before(made, random.bits())
        } else {
            attempts.next_wait(means, random.bits() as u32)
        };
        let throttle = match (means, made) {
            (AttemptMeans::Browser, 14..=15) => SECOND,
            (AttemptMeans::Browser, 16..) => 3 * SECOND,
            _ => 0,
        };
        now += wait + throttle;
        made += 1;
        if now >= away {
            return (now - away, made);
        }
    }
}

fn attempts() {
    println!(
        "\n## A connection is open after the path's return, ms, mean of 200 outages (attempts)"
    );
    println!("| outage | round trip | overlapping | one at a time, in a browser |");
    println!("|---|---|--:|--:|");
    let mut random = Random::new(9);
    for outage in [SECOND, 3 * SECOND, 10 * SECOND, 60 * SECOND] {
        for round_trip in [2 * MS, 66 * MS, 600 * MS] {
            let mut mean = |browser| {
                let runs: Vec<_> = (0..200)
                    .map(|_| reconnect(outage + random.below(SECOND), round_trip, browser))
                    .collect();
                let time: Micros = runs.iter().map(|run| run.0).sum();
                let count: u64 = runs.iter().map(|run| run.1).sum();
                format!("{} ({})", time / MS / 200, count / 200)
            };
            println!(
                "| {} s | {} ms | {} | {} |",
                outage / SECOND,
                round_trip / MS,
                mean(false),
                mean(true)
            );
        }
    }
    println!("\n## A server that refused is found after, ms, mean of 200 (attempts)");
    println!("| away | page before | page with 1 s at most | page now | native now | ssh now |");
    println!("|---|--:|--:|--:|--:|--:|");
    for away in [0, 300 * MS, 2 * SECOND, 10 * SECOND, 60 * SECOND] {
        let mut mean = |means, before, cap: bool| {
            let (mut time, mut count) = (0, 0);
            for _ in 0..200 {
                let jittered = away + random.below(away / 4 + 1);
                let (took, made) = if cap {
                    capped(jittered, &mut random)
                } else {
                    refused(jittered, means, before, &mut random)
                };
                time += took;
                count += made;
            }
            format!("{} ({})", time / MS / 200, count / 200)
        };
        println!(
            "| {} ms | {} | {} | {} | {} | {} |",
            away / MS,
            mean(AttemptMeans::Browser, true, false),
            mean(AttemptMeans::Browser, false, true),
            mean(AttemptMeans::Browser, false, false),
            mean(AttemptMeans::Sockets, false, false),
            mean(AttemptMeans::Login, false, false)
        );
    }
}

/// As [`refused`], in a browser with the waits of a native viewer.
fn capped(away: Micros, random: &mut Random) -> (Micros, u32) {
    let mut attempts = Attempts::new();
    let (mut now, mut made) = (0, 0);
    loop {
        now += attempts.next_wait(AttemptMeans::Sockets, random.bits() as u32);
        now += match made {
            0..14 => 0,
            14..16 => SECOND,
            _ => 3 * SECOND,
        };
        made += 1;
        if now >= away {
            return (now - away, made);
        }
    }
}

fn main() {
    notices();
    false_alarms();
    attempts();
}
