//! The whole way of sound but for the codec, on virtual time: a session's sender, a network, and a
//! player that a device pulls. Each test prints concealed frames a minute and the delay from a
//! sample's time to the ear.

use std::collections::VecDeque;

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::SoundState;
use thinc_sound::decode::OpusDecoder;
use thinc_sound::player::{Player, Report};
use thinc_sound::quality::{Carriage, Quality};
use thinc_sound::redundancy::Redundancy;
use thinc_sound::sender::{CodedFrame, Room, Sender};

type Micros = u64;

const SECOND: Micros = 1_000_000;
const MINUTE: Micros = 60 * SECOND;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Each frame is a constant that tells its number.
#[derive(Default)]
struct Constant {
    last: f32,
}

impl OpusDecoder for Constant {
    fn decode(&mut self, packet: &[u8], out: &mut [f32]) -> Option<usize> {
        let number = u32::from_le_bytes(packet.get(..4)?.try_into().ok()?);
        self.last = (number % 64 + 1) as f32 / 64.0;
        out.fill(self.last);
        Some(480)
    }

    fn conceal(&mut self, out: &mut [f32]) {
        out.fill(self.last);
    }
}

#[derive(Clone, Copy)]
struct Path {
    /// One way, without jitter.
    delay: Micros,
    jitter: Micros,
    /// Share of packets, or of bursts, that are lost.
    loss: f64,
    burst: u64,
    /// Mean time between stalls; 0: none.
    stall_every: Micros,
    stall_max: Micros,
    /// Everything arrives in order, and what is lost later.
    tcp: bool,
}

const LAN: Path =
    Path { delay: 200, jitter: 300, loss: 0.0, burst: 1, stall_every: 0, stall_max: 0, tcp: false };
const WAN: Path = Path { delay: 20_000, jitter: 2000, ..LAN };

#[derive(Default, Debug, Clone, Copy)]
struct Outcome {
    /// Frames concealed a minute.
    concealed: f64,
    /// Microseconds, of the second half of the run.
    delay_mean: f64,
    delay_max: Micros,
    report: Report,
}

struct World {
    random: Random,
    path: Path,
    now: Micros,
    sender: Sender,
    redundancy: Redundancy,
    carriage: Carriage,
    player: Player<Constant>,
    arrivals: VecDeque<(Micros, Vec<u8>)>,
    lost_until: u64,
    stalled: (Micros, Micros),
    in_order_from: Micros,
    sent: u64,
    /// The device's clock runs so much faster, in parts of a million.
    drift: i64,
    pulled: u64,
    /// Sound plays in a part of the time only.
    is_playing: bool,
    out: Vec<f32>,
    delays: Vec<(Micros, Micros)>,
}

impl World {
    fn new(path: Path, seed: u64) -> World {
        World {
            random: Random(seed | 1),
            path,
            now: 0,
            sender: Sender::default(),
            redundancy: Redundancy::default(),
            carriage: if path.tcp { Carriage::Stream } else { Carriage::Datagrams },
            player: Player::new(Constant::default()),
            arrivals: VecDeque::new(),
            lost_until: 0,
            stalled: (0, 0),
            in_order_from: 0,
            sent: 0,
            drift: 0,
            pulled: 0,
            is_playing: true,
            out: vec![0.0; 480],
            delays: Vec::new(),
        }
    }

    /// When what is sent now arrives; None: never.
    fn arrival(&mut self) -> Option<Micros> {
        let path = self.path;
        self.sent += 1;
        // Most packets have little jitter, a few much of it.
        let shape = self.random.share().powi(3);
        let mut at = self.now + path.delay + (shape * path.jitter as f64) as Micros;
        if path.stall_every > 0 && self.now >= self.stalled.1 {
            let wait = self.random.below(2 * path.stall_every);
            let begin = self.stalled.1.max(self.now) + wait;
            let length = 20_000 + self.random.below(path.stall_max - 20_000);
            self.stalled = (begin, begin + length);
        }
        if (self.stalled.0..self.stalled.1).contains(&at) {
            at = self.stalled.1 + self.random.below(1000);
        }
        let is_lost = if self.sent < self.lost_until {
            true
        } else {
            let begins = self.random.share() < path.loss / path.burst as f64;
            if begins {
                self.lost_until = self.sent + path.burst;
            }
            begins
        };
        if path.tcp {
            if is_lost {
                // Detected by three later packets, retransmitted a round trip later.
                at += 2 * path.delay + 30_000;
            }
            at = at.max(self.in_order_from);
            self.in_order_from = at;
            return Some(at);
        }
        (!is_lost).then_some(at)
    }

    /// The session has captured one more frame of 10 ms.
    fn capture(&mut self) {
        let number = (self.now / 10_000) as u32;
        let frame = CodedFrame {
            quality: Quality { plain: false, frame: 480, bitrate: 128_000, channels: 2 },
            time: self.now - 10_000,
            bytes: number.to_le_bytes().into(),
            last: false,
            discontinuity: false,
        };
        self.sender.push(frame, self.carriage);
        self.transmit();
    }

    fn transmit(&mut self) {
        if let Some(format) = self.sender.poll_format() {
            // As a message on the stream, which is reliable.
            self.player.handle_format(format);
        }
        let mut bytes = Vec::new();
        let room = Room { bytes: 1200, rate: None };
        let backs = if self.path.tcp { &[] } else { self.redundancy.backs() };
        while self.sender.poll(room, backs, self.now, &mut bytes).is_some() {
            let bytes = std::mem::take(&mut bytes);
            if let Some(at) = self.arrival() {
                let place = self.arrivals.partition_point(|&(other, _)| other <= at);
                self.arrivals.insert(place, (at, bytes));
            }
        }
    }

    fn run_until(&mut self, end: Micros) {
        while self.now < end {
            self.now += 250;
            if self.now.is_multiple_of(10_000) && self.is_playing {
                self.capture();
            }
            while self.arrivals.front().is_some_and(|&(at, _)| at <= self.now) {
                let (at, bytes) = self.arrivals.pop_front().unwrap();
                let frame = MessageFrame::from_datagram(&bytes).unwrap();
                let Ok(SessionMessage::Sound(packet)) = SessionMessage::decode(&frame) else {
                    panic!("only sound is sent");
                };
                self.player.handle_packet(&packet, at);
            }
            // A device of 240 samples, which is up to 1 ms late.
            let due = (self.pulled * 5_000) as i64;
            let due = due - due / 1_000_000 * self.drift;
            if due as Micros <= self.now {
                self.pulled += 1;
                let now = self.now + self.random.below(1000);
                self.player.pull(&mut self.out, now);
                let report = self.player.report(now, 0);
                if let Some(heard) = report.heard {
                    self.delays.push((self.now, now - heard.min(now)));
                }
            }
            if self.now.is_multiple_of(SECOND) {
                let Report { heard, delay_us, counts } = self.player.report(self.now, 0);
                let state = SoundState {
                    heard: heard.unwrap_or(0),
                    delay_us,
                    received: counts.received,
                    lost: counts.lost,
                    concealed: counts.concealed,
                    runs: counts.runs,
                    lag_us: None,
                };
                self.redundancy.handle_state(&state, self.now);
            }
        }
    }

    /// What was heard from an instant on.
    fn delays_since(&self, since: Micros) -> (f64, Micros) {
        let delays: Vec<Micros> =
            self.delays.iter().filter(|&&(at, _)| at >= since).map(|&(_, delay)| delay).collect();
        let sum: Micros = delays.iter().sum();
        (sum as f64 / delays.len().max(1) as f64, delays.iter().copied().max().unwrap_or(0))
    }

    fn outcome(&self, since: Micros, before: Report) -> Outcome {
        let report = self.player.report(self.now, 0);
        let minutes = (self.now - since) as f64 / MINUTE as f64;
        let concealed = report.counts.concealed - before.counts.concealed;
        let (delay_mean, delay_max) = self.delays_since(since);
        Outcome { concealed: f64::from(concealed) / minutes, delay_mean, delay_max, report }
    }
}

/// Five minutes, of which the last three count.
fn run(name: &str, path: Path) -> Outcome {
    let mut sum = Outcome::default();
    const SEEDS: u64 = 2;
    for seed in 1..=SEEDS {
        let mut world = World::new(path, seed * 0x9e37_79b9);
        world.run_until(2 * MINUTE);
        let before = world.player.report(world.now, 0);
        world.run_until(5 * MINUTE);
        let outcome = world.outcome(2 * MINUTE, before);
        sum.concealed += outcome.concealed / SEEDS as f64;
        sum.delay_mean += outcome.delay_mean / SEEDS as f64;
        sum.delay_max = sum.delay_max.max(outcome.delay_max);
        sum.report = outcome.report;
    }
    println!(
        "{name}: {:.1} concealed a minute, delay {:.1} ms, at most {:.1} ms; {:?}",
        sum.concealed,
        sum.delay_mean / 1000.0,
        sum.delay_max as f64 / 1000.0,
        sum.report.counts
    );
    sum
}

#[test]
fn a_local_network_conceals_nothing_and_waits_for_a_frame() {
    let outcome = run("LAN", LAN);
    assert_eq!(outcome.concealed, 0.0);
    assert!(outcome.delay_mean < 25_000.0, "the frame, and 10 ms and the device's 5 beyond it");
    assert_eq!(outcome.report.counts.jumps, 0);
}

#[test]
fn loss_is_repaired_by_repeats() {
    let outcome = run("WAN, 1 % lost", Path { loss: 0.01, ..WAN });
    assert!(outcome.concealed < 12.0 && outcome.delay_mean < 60_000.0);
    let outcome = run("WAN, 5 % lost", Path { loss: 0.05, ..WAN });
    assert!(outcome.concealed < 30.0, "0.5 % of 6000");
    assert!(outcome.delay_mean < 75_000.0);
    let outcome = run("WAN, 5 % lost in bursts of 3", Path { loss: 0.05, burst: 3, ..WAN });
    assert!(outcome.concealed < 230.0 && outcome.delay_mean < 90_000.0);
}

#[test]
fn stalls_cost_their_own_length() {
    let wifi = Path { delay: 3000, stall_every: 3 * SECOND, stall_max: 90_000, ..WAN };
    let outcome = run("Wi-Fi", wifi);
    assert!(outcome.concealed < 60.0);
    assert!(outcome.delay_mean < 110_000.0);
    assert!(outcome.delay_max < 200_000);
}

#[test]
fn a_stream_is_later_and_never_ever_later() {
    let outcome = run("TCP, 1 % lost", Path { loss: 0.01, tcp: true, ..WAN });
    assert!(outcome.concealed < 60.0);
    assert!(outcome.delay_mean < 150_000.0 && outcome.delay_max < 250_000);
}

#[test]
fn clocks_that_drift_apart_are_followed() {
    for drift in [-200, 200] {
        let mut world = World::new(LAN, 7);
        world.drift = drift;
        world.run_until(2 * MINUTE);
        let before = world.player.report(world.now, 0);
        world.run_until(10 * MINUTE);
        let outcome = world.outcome(2 * MINUTE, before);
        println!("drift {drift} ppm: {outcome:?}");
        assert_eq!(outcome.concealed, 0.0);
        assert_eq!((outcome.report.counts.jumps, outcome.report.counts.starved), (0, 0));
        assert!(outcome.delay_mean < 25_000.0 && outcome.delay_max < 32_000);
    }
}

#[test]
fn the_delay_follows_the_path_in_both_directions() {
    for seed in 1..6 {
        let mut world = World::new(LAN, seed);
        world.run_until(MINUTE);
        let (quick, _) = world.delays_since(MINUTE / 2);
        world.path = Path { delay: 120_000, jitter: 5000, ..LAN };
        let before = world.player.report(world.now, 0).counts;
        world.run_until(MINUTE + 10 * SECOND);
        let after = world.player.report(world.now, 0).counts;
        let concealed = after.concealed - before.concealed;
        assert!(concealed < 30, "sound goes on within 0.3 s: {concealed} concealed, {after:?}");
        let (slow, most) = world.delays_since(MINUTE + 5 * SECOND);
        assert!((130_000.0..175_000.0).contains(&slow), "{slow}, at most {most}");
        world.path = LAN;
        world.run_until(3 * MINUTE);
        let (again, most) = world.delays_since(3 * MINUTE - 20 * SECOND);
        assert!(again < quick + 6000.0, "{quick}, {slow}, {again}: at most {most}");
        let counts = world.player.report(world.now, 0).counts;
        println!("changing path: {quick} {slow} {again}; {counts:?}");
    }
}

#[test]
fn silence_is_no_loss_and_no_delay() {
    let mut world = World::new(LAN, 3);
    world.run_until(10 * SECOND);
    for round in 0..20_u64 {
        // The last packet says that nothing follows.
        let frame = CodedFrame {
            quality: Quality { plain: false, frame: 480, bitrate: 128_000, channels: 2 },
            time: world.now,
            bytes: [0; 4].into(),
            last: true,
            discontinuity: false,
        };
        world.now += 10_000;
        world.sender.push(frame, world.carriage);
        world.transmit();
        world.is_playing = false;
        world.run_until(world.now + 300_000 + round * 70_000);
        assert!(world.player.silence() > 4800, "{}", world.player.silence());
        assert!(world.out.iter().all(|&sample| sample == 0.0));
        // Begin at a whole frame again.
        world.run_until(world.now.next_multiple_of(10_000));
        world.is_playing = true;
        let began = world.now;
        world.run_until(began + 60_000);
        let (_, most) = world.delays_since(began);
        assert!(most < 40_000, "{most} after silence {round}");
        world.run_until(began + 500_000);
    }
    let counts = world.player.report(world.now, 0).counts;
    assert_eq!((counts.concealed, counts.lost), (0, 0), "{counts:?}");
}

#[test]
fn sound_that_waited_for_a_suspended_device_is_played_from_its_beginning() {
    let mut world = World::new(LAN, 3);
    world.is_playing = false;
    world.run_until(SECOND);
    // The device starts 90 ms after the first packet, whose time it has not seen go by.
    let device = world.pulled;
    world.is_playing = true;
    world.pulled = 1_000_000;
    world.run_until(SECOND + 90_000);
    world.player.handle_clock_stopped(world.now);
    world.pulled = device + 18;
    world.run_until(10 * SECOND);
    let counts = world.player.report(world.now, 0).counts;
    assert_eq!((counts.concealed, counts.late), (0, 0), "{counts:?}");
    let skipped = counts.received - counts.played;
    assert!(skipped < 4, "{skipped} frames of {counts:?} were not played");
    let (delay, _) = world.delays_since(9 * SECOND);
    assert!(delay < 30_000.0, "{delay}");
}

#[test]
fn a_lost_end_conceals_what_was_silence_and_no_more() {
    let mut world = World::new(LAN, 3);
    world.run_until(10 * SECOND);
    world.is_playing = false;
    world.run_until(20 * SECOND);
    let counts = world.player.report(world.now, 0).counts;
    assert!((1..=6).contains(&counts.concealed), "{counts:?}");
    world.is_playing = true;
    world.run_until(30 * SECOND);
    let after = world.player.report(world.now, 0).counts;
    assert_eq!((after.concealed, after.late), (counts.concealed, counts.late));
    let played = after.played - counts.played;
    assert!((995..=1000).contains(&played), "{played} of the thousand frames after the silence");
}

#[test]
fn a_session_that_starts_again_is_heard_again() {
    let mut world = World::new(LAN, 3);
    world.run_until(100 * SECOND);
    world.sender = Sender::default();
    world.run_until(102 * SECOND);
    let (_, most) = world.delays_since(101 * SECOND);
    assert!(most > 0 && most < 40_000, "{most}");
}
