//! The congestion controller on a simulated bottleneck, in virtual time: packets of quinn's size
//! and pacing, a drop-tail queue, random loss, and a competing flow under the kernel's CUBIC.

use std::collections::VecDeque;

use super::bursts::BURST_PACKETS_MIN;
use super::losses::{LOSS_RATE_MAX, LossCause};
use super::*;

mod changing_paths;

const MTU: u64 = 1400;
const STEP: Duration = Duration::from_micros(50);
/// 50 ms: how long the delay of a radio link takes from one value to another that has nothing to do
/// with it, a few of its scheduler's rounds.
const JITTER_TIME: Duration = Duration::from_millis(50);

/// xorshift64*: the same on every machine.
struct Random(u64);

impl Random {
    fn hits(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// From 0, less than 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        value as f64 / (1_u64 << 53) as f64
    }
}

/// CUBIC (RFC 9438), without its Reno-friendly region.
struct Cubic {
    window: f64,
    window_max: f64,
    cut_at: Instant,
    slow_start: bool,
}

impl Cubic {
    fn handle_acked(&mut self, now: Instant) {
        if self.slow_start {
            self.window += 1.0;
            return;
        }
        let since = now.duration_since(self.cut_at).as_secs_f64();
        let back = (self.window_max * 0.3 / 0.4).cbrt();
        let target = 0.4 * (since - back).powi(3) + self.window_max;
        self.window += (target - self.window).max(0.01).min(self.window / 2.0) / self.window;
    }

    fn handle_lost(&mut self, now: Instant, rtt: Duration) {
        if now.duration_since(self.cut_at) > rtt {
            self.slow_start = false;
            self.window_max = self.window;
            self.window = (self.window * 0.7).max(2.0);
            self.cut_at = now;
        }
    }
}

enum Algorithm {
    Delivery(Box<DeliveryController>),
    Cubic(Cubic),
}

struct Packet {
    flow: usize,
    number: u64,
    sent: Instant,
}

struct Sender {
    algorithm: Algorithm,
    /// Sent and neither acknowledged nor lost.
    unacknowledged: VecDeque<(u64, Instant)>,
    next: u64,
    acked: u64,
    lost: u64,
    tokens: f64,
    srtt: Duration,
    /// When the newest packet or probe was sent.
    sent_at: Instant,
    /// Bytes a second that the application produces; `None`: as much as can be sent.
    supply: Option<f64>,
    available: f64,
}

impl Sender {
    fn new(algorithm: Algorithm, now: Instant) -> Sender {
        let (tokens, srtt) = (10.0 * MTU as f64, Duration::from_millis(100));
        Sender {
            algorithm,
            unacknowledged: VecDeque::new(),
            next: 0,
            acked: 0,
            lost: 0,
            tokens,
            srtt,
            sent_at: now,
            supply: None,
            available: 0.0,
        }
    }

    fn window(&self) -> u64 {
        match &self.algorithm {
            Algorithm::Delivery(controller) => controller.window(),
            Algorithm::Cubic(cubic) => (cubic.window * MTU as f64) as u64,
        }
    }

    fn has_data(&self) -> bool {
        self.supply.is_none() || self.available >= MTU as f64
    }
}

/// The path, its senders and the time.
struct Link {
    now: Instant,
    start: Instant,
    /// Bytes a second.
    rate: f64,
    delay: Duration,
    buffer: u64,
    loss: f64,
    /// Largest deviation of the round trip. It goes from one uniformly distributed value to the
    /// next in [`JITTER_TIME`]; if packets overtake each other, each has its own.
    jitter: Duration,
    overtakes: bool,
    deviations: (f64, f64, Instant),
    /// Bytes a second and bytes of burst that pass, and those that may pass now: a token bucket
    /// that drops the rest.
    policer: Option<(f64, f64)>,
    permitted: f64,
    /// Shares of packets at which a burst of losses begins and ends (Gilbert 1960).
    bursts: Option<(f64, f64)>,
    in_burst: bool,
    random: Random,
    senders: Vec<Sender>,
    queue: VecDeque<Packet>,
    credit: f64,
    /// Packets behind the bottleneck, until their acknowledgements arrive.
    in_transit: VecDeque<(Instant, Packet)>,
    /// Summed wait in the queue.
    queued: Duration,
    steps: u32,
}

impl Link {
    fn new(mbits: f64, rtt: Duration, buffer: Duration, loss: f64) -> Link {
        let now = Instant::now();
        let rate = mbits * 1e6 / 8.0;
        Link {
            now,
            start: now,
            rate,
            delay: rtt,
            buffer: ((rate * buffer.as_secs_f64()) as u64).max(4 * MTU),
            loss,
            jitter: Duration::ZERO,
            overtakes: false,
            deviations: (0.0, 0.0, now),
            policer: None,
            permitted: 0.0,
            bursts: None,
            in_burst: false,
            random: Random(0x5EED),
            senders: Vec::new(),
            queue: VecDeque::new(),
            credit: 0.0,
            in_transit: VecDeque::new(),
            queued: Duration::ZERO,
            steps: 0,
        }
    }

    fn delivery(&mut self) -> usize {
        let controller = DeliveryController::new(self.now, MTU as u16, Arc::default());
        let sender = Sender::new(Algorithm::Delivery(Box::new(controller)), self.now);
        self.senders.push(sender);
        self.senders.len() - 1
    }

    fn cubic(&mut self) -> usize {
        let cubic = Cubic { window: 10.0, window_max: 10.0, cut_at: self.now, slow_start: true };
        self.senders.push(Sender::new(Algorithm::Cubic(cubic), self.now));
        self.senders.len() - 1
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Runs for that long; returns the share of the path's rate that each sender had.
    fn shares(&mut self, time: Duration) -> Vec<f64> {
        let before: Vec<u64> = self.senders.iter().map(|sender| sender.acked).collect();
        (self.queued, self.steps) = (Duration::ZERO, 0);
        self.run(time);
        let all = self.rate * time.as_secs_f64();
        self.senders
            .iter()
            .zip(before)
            .map(|(sender, before)| (sender.acked - before) as f64 / all)
            .collect()
    }

    /// Mean queueing delay since the last call of [`Link::shares`].
    fn queue(&self) -> Duration {
        self.queued / self.steps.max(1)
    }

    fn step(&mut self) {
        self.now += STEP;
        if let Some((rate, burst)) = self.policer {
            self.permitted = (self.permitted + rate * STEP.as_secs_f64()).min(burst);
        }
        for flow in 0..self.senders.len() {
            self.send(flow);
        }
        self.credit = (self.credit + self.rate * STEP.as_secs_f64()).min(2.0 * MTU as f64);
        while self.credit >= MTU as f64 && !self.queue.is_empty() {
            self.credit -= MTU as f64;
            let packet = self.queue.pop_front().expect("it was checked not to be empty");
            if !self.loses() {
                let at = self.arrival();
                let place = self.in_transit.partition_point(|&(other, _)| other <= at);
                self.in_transit.insert(place, (at, packet));
            }
        }
        let wait = Duration::from_secs_f64(self.queue.len() as f64 * MTU as f64 / self.rate);
        (self.queued, self.steps) = (self.queued + wait, self.steps + 1);
        while self.in_transit.front().is_some_and(|&(at, _)| at <= self.now) {
            let (_, packet) = self.in_transit.pop_front().expect("it was checked not to be empty");
            self.acknowledge(&packet);
        }
    }

    /// True if the packet that has passed the bottleneck is lost.
    fn loses(&mut self) -> bool {
        if let Some((begin, end)) = self.bursts {
            let turns = self.random.hits(if self.in_burst { end } else { begin });
            self.in_burst ^= turns;
        }
        self.in_burst &= self.bursts.is_some();
        self.in_burst || self.random.hits(self.loss)
    }

    /// When the acknowledgement of a packet arrives that has passed the bottleneck now.
    fn arrival(&mut self) -> Instant {
        if self.jitter.is_zero() {
            return self.now + self.delay;
        }
        if self.overtakes {
            return self.now + self.delay - self.jitter
                + self.jitter.mul_f64(2.0 * self.random.unit());
        }
        while self.now >= self.deviations.2 + JITTER_TIME {
            let next = 2.0 * self.random.unit() - 1.0;
            self.deviations = (self.deviations.1, next, self.deviations.2 + JITTER_TIME);
        }
        let (from, to, since) = self.deviations;
        let share = (self.now - since).as_secs_f64() / JITTER_TIME.as_secs_f64();
        let deviation = from + (to - from) * share;
        let at = self.now + self.delay - self.jitter + self.jitter.mul_f64(1.0 + deviation);
        self.in_transit.back().map_or(at, |&(last, _)| at.max(last))
    }

    /// Sends as much as window and pacer allow; the pacer is quinn's.
    fn send(&mut self, flow: usize) {
        let now = self.now;
        let mut sender = &mut self.senders[flow];
        if let Some(supply) = sender.supply {
            sender.available += supply * STEP.as_secs_f64();
        }
        if sender.window() < WINDOW_WITHOUT_PACING {
            let window = sender.window() as f64;
            let capacity = (window * 0.002 / sender.srtt.as_secs_f64())
                .clamp(10.0 * MTU as f64, 256.0 * MTU as f64);
            let refill = window * 1.25 * STEP.as_secs_f64() / sender.srtt.as_secs_f64();
            sender.tokens = (sender.tokens + refill).min(capacity);
        }
        while sender.has_data()
            && (sender.tokens >= MTU as f64 || sender.window() >= WINDOW_WITHOUT_PACING)
            && (sender.unacknowledged.len() as u64 + 1) * MTU < sender.window()
        {
            sender.tokens = (sender.tokens - MTU as f64).max(0.0);
            sender.available -= MTU as f64;
            self.transmit(flow);
            sender = &mut self.senders[flow];
        }
        // Probe timeout (RFC 9002, 6.2): a packet beyond the window, whose acknowledgement tells
        // which packets before it are lost. Without backoff: the session itself allows probes.
        let pto = 3 * sender.srtt + ms(50);
        if !sender.unacknowledged.is_empty() && now.duration_since(sender.sent_at) > pto {
            self.transmit(flow);
        }
    }

    /// A packet enters the queue, or is dropped where that is full.
    fn transmit(&mut self, flow: usize) {
        let (now, sender) = (self.now, &mut self.senders[flow]);
        sender.unacknowledged.push_back((sender.next, now));
        let packet = Packet { flow, number: sender.next, sent: now };
        sender.next += 1;
        sender.sent_at = now;
        if let Algorithm::Delivery(controller) = &mut sender.algorithm {
            controller.on_sent(now, MTU, packet.number);
        }
        if self.policer.is_some() {
            if self.permitted < MTU as f64 {
                return;
            }
            self.permitted -= MTU as f64;
        }
        if (self.queue.len() as u64 + 1) * MTU <= self.buffer {
            self.queue.push_back(packet);
        }
    }

    /// Every unacknowledged packet before `number` is lost.
    fn declare_lost(sender: &mut Sender, now: Instant, number: u64) {
        let lost = sender.unacknowledged.partition_point(|&(out, _)| out < number);
        if lost == 0 {
            return;
        }
        let newest = sender.unacknowledged[lost - 1].1;
        sender.unacknowledged.drain(..lost);
        sender.lost += lost as u64 * MTU;
        if sender.supply.is_some() {
            // They are sent again.
            sender.available += (lost as u64 * MTU) as f64;
        }
        match &mut sender.algorithm {
            Algorithm::Delivery(controller) => {
                controller.on_congestion_event(now, newest, false, lost as u64 * MTU)
            }
            Algorithm::Cubic(cubic) => cubic.handle_lost(now, sender.srtt),
        }
    }

    fn acknowledge(&mut self, packet: &Packet) {
        let now = self.now;
        let sender = &mut self.senders[packet.flow];
        let Ok(at) =
            sender.unacknowledged.binary_search_by_key(&packet.number, |&(number, _)| number)
        else {
            return;
        };
        sender.unacknowledged.remove(at);
        sender.acked += MTU;
        let rtt = now.duration_since(packet.sent);
        sender.srtt = (sender.srtt * 7 + rtt) / 8;
        let limited = !sender.has_data();
        match &mut sender.algorithm {
            Algorithm::Delivery(controller) => {
                controller.handle_acked(now, packet.sent, MTU, limited)
            }
            Algorithm::Cubic(cubic) => cubic.handle_acked(now),
        }
        // Packet threshold (RFC 9002, 6.1.1): three later packets were acknowledged.
        Self::declare_lost(sender, now, packet.number.saturating_sub(2));
        // Time threshold (6.1.2).
        let late = sender.srtt.max(rtt) * 9 / 8;
        let lost = sender.unacknowledged.partition_point(|&(number, sent)| {
            number < packet.number && now.duration_since(sent) > late
        });
        if lost > 0 {
            Self::declare_lost(sender, now, sender.unacknowledged[lost - 1].0 + 1);
        }
        if let Algorithm::Delivery(controller) = &mut sender.algorithm {
            controller.on_end_acks(
                now,
                sender.unacknowledged.len() as u64 * MTU,
                limited,
                Some(packet.number),
            );
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// (Mbit/s, round trip)
const PATHS: [(f64, u64); 6] =
    [(6.0, 2), (6.0, 66), (24.0, 20), (24.0, 66), (100.0, 10), (100.0, 66)];

#[test]
fn random_loss_costs_little_throughput_and_leaves_no_standing_queue() {
    for (mbits, rtt) in PATHS {
        for loss in [0.0, 0.01, 0.05, 0.1] {
            let mut link = Link::new(mbits, ms(rtt), ms(200), loss);
            link.delivery();
            link.run(ms(4_000));
            let share = link.shares(ms(10_000))[0];
            let queue = link.queue();
            // Lost packets have passed the bottleneck too, and used its rate.
            assert!(
                share >= (1.0 - loss) * 0.85,
                "{mbits} Mbit/s, {rtt} ms, {loss} lost: {share:.2} of the path"
            );
            assert!(queue <= ms(30), "{mbits} Mbit/s, {rtt} ms, {loss} lost: a queue of {queue:?}");
            let Algorithm::Delivery(controller) = &link.senders[0].algorithm else {
                unreachable!()
            };
            // On the shortest paths the queue is the slack.
            assert!(
                rtt > 2 || controller.losses.cause() != LossCause::Congestion,
                "{mbits} Mbit/s, {rtt} ms, {loss} lost"
            );
        }
    }
}

#[test]
fn a_path_that_loses_a_third_of_the_packets_is_still_used() {
    for (mbits, rtt) in PATHS {
        let mut link = Link::new(mbits, ms(rtt), ms(200), 0.3);
        link.delivery();
        link.run(ms(6_000));
        let share = link.shares(ms(10_000))[0];
        assert!(share >= 0.35, "{mbits} Mbit/s, {rtt} ms: {share:.2} of the path");
    }
}

#[test]
fn a_competing_cubic_flow_gets_a_third_and_does_not_starve_us() {
    for (mbits, rtt) in [(6.0, 66), (24.0, 20), (24.0, 66), (100.0, 10)] {
        for buffer in [rtt.max(20) / 2, rtt.max(20), 200] {
            // Who finds which queue depends on when the other flow begins: from 0.06 to 0.31 of one
            // path. So the mean counts.
            let offsets = [0, 3, 10, 37, 100, 333, 1000];
            let mut sums = [0.0; 2];
            for offset in offsets {
                let mut link = Link::new(mbits, ms(rtt), ms(buffer), 0.0);
                let ours = link.delivery();
                link.run(ms(offset));
                let theirs = link.cubic();
                link.run(ms(5_000));
                let shares = link.shares(ms(20_000));
                sums[0] += shares[ours];
                sums[1] += shares[theirs];
            }
            let [ours, theirs] = sums.map(|sum| sum / offsets.len() as f64);
            let what =
                format!("{mbits} Mbit/s, {rtt} ms, {buffer} ms of buffer: {ours:.2}, {theirs:.2}");
            assert!(theirs >= (ours + theirs) / 3.0, "{what}");
            // The aim is a third. Today's shares: the target queueing delay is less than what CUBIC
            // keeps in the queue.
            let least = if buffer == 200 { 0.13 } else { 0.1 };
            assert!(ours >= least, "{what}");
        }
    }
}

#[test]
fn overflow_of_a_short_queue_is_not_classified_as_random_loss() {
    // A little more than a burst of quinn's pacer.
    let mut link = Link::new(20.0, ms(40), ms(8), 0.0);
    link.delivery();
    link.run(ms(5_000));
    let (acked, lost) = (link.senders[0].acked, link.senders[0].lost);
    let share = link.shares(ms(20_000))[0];
    let (acked, lost) = (link.senders[0].acked - acked, link.senders[0].lost - lost);
    let lost = lost as f64 / (acked + lost) as f64;
    assert!(share >= 0.8, "{share:.2} of the path");
    assert!(lost <= LOSS_RATE_MAX, "{lost:.2} of the packets are lost");
}

#[test]
fn the_window_follows_a_path_that_becomes_slower_or_faster() {
    let mut link = Link::new(24.0, ms(40), ms(500), 0.0);
    link.delivery();
    link.run(ms(4_000));
    link.rate /= 4.0;
    link.run(ms(3_000));
    let slow = link.shares(ms(3_000))[0];
    let queue = link.queue();
    assert!(slow >= 0.85 && queue <= ms(40), "slower: {slow:.2}, {queue:?}");
    link.rate *= 8.0;
    link.run(ms(5_000));
    let fast = link.shares(ms(3_000))[0];
    assert!(fast >= 0.8, "faster: {fast:.2}");
}

/// Sends so many bytes into the idle path; returns how long until all are acknowledged.
fn page(link: &mut Link, bytes: u64) -> Duration {
    let begun = link.now;
    link.senders[0].available += bytes as f64;
    while link.senders[0].has_data() || !link.senders[0].unacknowledged.is_empty() {
        link.step();
    }
    let took = link.now - begun;
    link.run(Duration::from_secs(1));
    took
}

#[test]
fn an_initial_window_is_sent_at_once_into_an_idle_path() {
    let mut link = Link::new(100.0, ms(66), ms(100), 0.0);
    let sender = link.delivery();
    link.senders[sender].supply = Some(0.0);
    let window = INITIAL_PACKETS * MTU - MTU;
    for attempt in 0..4 {
        // 3.5 ms of the path's rate.
        let took = page(&mut link, window);
        assert!(took < ms(72), "attempt {attempt}: {took:?}");
    }
    // The rest of a larger page follows at twice the window's rate.
    page(&mut link, 3 * window);
    let took = page(&mut link, 2 * window);
    assert!(took < ms(95), "{took:?}");
}

#[test]
fn a_path_whose_buffer_overflows_gets_shorter_bursts() {
    let mut link = Link::new(20.0, ms(66), ms(0), 0.0);
    link.buffer = 16 * MTU;
    let sender = link.delivery();
    link.senders[sender].supply = Some(0.0);
    for _ in 0..4 {
        page(&mut link, 30 * MTU);
    }
    let lost = link.senders[sender].lost;
    assert!(lost > 0);
    for _ in 0..20 {
        page(&mut link, 30 * MTU);
    }
    assert_eq!(link.senders[sender].lost, lost);
}

#[test]
fn ordinary_losses_of_a_long_transfer_shorten_no_burst() {
    let mut link = Link::new(20.0, ms(66), ms(200), 0.01);
    let sender = link.delivery();
    link.run(Duration::from_secs(20));
    assert!(link.senders[sender].lost > 20 * MTU);
    let Algorithm::Delivery(controller) = &link.senders[sender].algorithm else { unreachable!() };
    assert_eq!(controller.bursts.limit(), INITIAL_PACKETS * MTU);
}

#[test]
fn a_burst_into_a_slow_path_is_no_initial_window() {
    let mut link = Link::new(6.0, ms(66), ms(500), 0.0);
    let sender = link.delivery();
    link.run(Duration::from_secs(5));
    link.senders[sender].supply = Some(0.0);
    link.senders[sender].available = 0.0;
    link.run(Duration::from_secs(1));
    link.senders[sender].available = 30.0 * MTU as f64;
    let mut longest = 0;
    while link.senders[sender].has_data() || !link.senders[sender].unacknowledged.is_empty() {
        link.step();
        longest = longest.max(link.queue.len() as u64);
    }
    // Four packets are 8 ms of the path's rate, and the pacer lets ten go. An initial window is 32.
    assert!(longest <= BURST_PACKETS_MIN + 5, "a queue of {longest} packets");
}

#[test]
fn an_application_limited_phase_does_not_lower_the_measured_rate() {
    let mut link = Link::new(24.0, ms(40), ms(200), 0.01);
    link.delivery();
    link.run(ms(3_000));
    let Algorithm::Delivery(controller) = &link.senders[0].algorithm else { unreachable!() };
    let before = controller.rate();
    link.senders[0].supply = Some(20_000.0);
    link.run(ms(5_000));
    let Algorithm::Delivery(controller) = &link.senders[0].algorithm else { unreachable!() };
    assert!(controller.rate() >= before * 0.8, "{} after {before}", controller.rate());
    link.senders[0].supply = None;
    let share = link.shares(ms(1_000))[0];
    assert!(share >= 0.7, "{share:.2} of the path in the first second");
}

#[test]
fn after_an_outage_the_path_is_filled_within_a_few_round_trips() {
    let mut link = Link::new(24.0, ms(40), ms(200), 0.0);
    link.delivery();
    link.run(ms(3_000));
    link.loss = 1.0;
    link.run(ms(5_000));
    let (now, sender) = (link.now, &mut link.senders[0]);
    if let Algorithm::Delivery(controller) = &mut sender.algorithm {
        controller.on_congestion_event(now, now, true, 0);
        assert_eq!(controller.window(), INITIAL_PACKETS * MTU, "the initial window");
    }
    link.loss = 0.0;
    link.run(ms(500));
    let share = link.shares(ms(500))[0];
    assert!(share >= 0.7, "{share:.2} of the path");
}

/// The smallest and the largest window of 25 s on a full path.
fn windows(link: &mut Link) -> (f64, f64) {
    let (mut window_min, mut window_max) = (f64::MAX, 0.0f64);
    for _ in 0..2_500 {
        link.run(ms(10));
        let window = link.senders[0].window() as f64;
        (window_min, window_max) = (window_min.min(window), window_max.max(window));
    }
    (window_min, window_max)
}

#[test]
fn an_unchanged_short_path_is_neither_overfilled_nor_left_half_empty() {
    let mut link = Link::new(5.0, ms(40), ms(200), 0.0);
    link.delivery();
    link.run(ms(3_000));
    let (window_min, window_max) = windows(&mut link);
    assert!(window_max <= 1.1 * window_min, "{window_min} to {window_max} bytes in flight");
    // The path becomes longer by less than the target queueing delay: it is as full as before.
    link.delay += ms(4);
    link.run(ms(12_000));
    let share = link.shares(ms(3_000))[0];
    assert!(share >= 0.95, "{share:.2} of the path");
    // A long path would find a faster rate too late by its queue alone.
    let mut long = Link::new(5.0, ms(200), ms(400), 0.0);
    long.delivery();
    long.run(ms(5_000));
    let (window_min, window_max) = windows(&mut long);
    assert!(window_max >= 1.2 * window_min, "{window_min} to {window_max} bytes in flight");
}

#[test]
fn the_meter_reports_bytes_in_flight_and_round_trips() {
    let mut link = Link::new(24.0, ms(40), ms(200), 0.02);
    link.delivery();
    link.run(ms(3_000));
    let Algorithm::Delivery(controller) = &link.senders[0].algorithm else { unreachable!() };
    let meter = &controller.meter;
    assert_eq!(meter.in_flight(), link.senders[0].unacknowledged.len() as u64 * MTU);
    assert_eq!(meter.delivered(), link.senders[0].acked);
    let (rtt, rtt_min) = meter.rtt();
    assert!((40_000..41_000).contains(&rtt_min) && rtt >= rtt_min, "{rtt_min} us, smoothed {rtt}");
    assert!(link.now > link.start);
}

#[test]
fn a_probe_and_nothing_else_is_sent_although_the_window_is_full() {
    let (now, meter) = (Instant::now(), Arc::new(Meter::default()));
    let mut controller = DeliveryController::new(now, MTU as u16, meter.clone());
    while controller.deliveries.in_flight() + MTU < controller.window() {
        controller.on_sent(now, MTU, 0);
    }
    let full = controller.window();
    for _ in 0..3 {
        meter.allow_probe();
        assert!(
            controller.deliveries.in_flight() + MTU < controller.window(),
            "one more packet may be sent"
        );
        controller.on_sent(now, MTU, 0);
        assert_eq!(controller.window(), full, "and no other");
    }
    assert_eq!(meter.window(), full, "the reported window does not include the probe");
}

#[test]
fn after_a_suspension_the_pacer_sends_at_the_rate_of_the_path() {
    let mut link = Link::new(5.0, ms(40), ms(200), 0.0);
    link.delivery();
    link.run(ms(3_000));
    let now = link.now + ms(10_000);
    let Algorithm::Delivery(controller) = &mut link.senders[0].algorithm else { unreachable!() };
    let (window, rtt) = (controller.window(), controller.round_trip.smooth());
    let last = controller.deliveries.last_sent().expect("packets left");
    controller.deliveries.set_in_flight(0);
    for _ in 0..20 {
        controller.handle_acked(now, last, MTU, false);
    }
    controller.round_trip.set_pacers(rtt, now - last);
    controller.on_end_acks(now, 0, false, None);
    // An initial window goes without the pacer.
    controller.on_sent(now, INITIAL_PACKETS * MTU, 0);
    controller.on_end_acks(now, MTU, false, None);
    let smooth = controller.round_trip.smooth();
    assert!(smooth <= 2 * rtt, "{smooth:?} after {rtt:?}");
    let (paced, smooth) = (controller.window(), (rtt * 7 + (now - last)) / 8);
    let (rate, before) = (paced as f64 / smooth.as_secs_f64(), window as f64 / rtt.as_secs_f64());
    assert!(
        (0.8..1.3).contains(&(rate / before)),
        "{rate:.0} bytes a second, {before:.0} before the suspension"
    );
    assert!(
        controller.meter.window() <= window,
        "the reported window does not include the pacer's correction"
    );
    // And no more is in flight because of it.
    while controller.deliveries.in_flight() + MTU < controller.window() {
        controller.on_sent(now, MTU, 0);
    }
    assert!(
        controller.deliveries.in_flight() <= window,
        "{} bytes in flight, {window} before",
        controller.deliveries.in_flight()
    );
}
