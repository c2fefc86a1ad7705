//! The controller on a bottleneck of its own, in virtual time: packets of quinn's size, paced as quinn paces, a queue that drops
//! at its end, random loss, and another flow beside it that does as the kernel's cubic does.

use super::*;

const MTU: u64 = 1400;
const STEP: Duration = Duration::from_micros(50);

/// xorshift64*: the same on every machine.
struct Random(u64);

impl Random {
    fn hits(&mut self, share: f64) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (value as f64 / (1_u64 << 53) as f64) < share
    }
}

/// RFC 9438, without its friendliness to Reno.
struct Cubic {
    window: f64,
    most: f64,
    cut_at: Instant,
    slow_start: bool,
}

impl Cubic {
    fn acked(&mut self, now: Instant) {
        if self.slow_start {
            self.window += 1.0;
            return;
        }
        let since = now.duration_since(self.cut_at).as_secs_f64();
        let back = (self.most * 0.3 / 0.4).cbrt();
        let target = 0.4 * (since - back).powi(3) + self.most;
        self.window += (target - self.window).max(0.01).min(self.window / 2.0) / self.window;
    }

    fn lost(&mut self, now: Instant, rtt: Duration) {
        if now.duration_since(self.cut_at) > rtt {
            self.slow_start = false;
            self.most = self.window;
            self.window = (self.window * 0.7).max(2.0);
            self.cut_at = now;
        }
    }
}

enum Law {
    Delivery(Box<DeliveryController>),
    Cubic(Cubic),
}

struct Packet {
    flow: usize,
    number: u64,
    sent: Instant,
}

struct Sender {
    law: Law,
    /// Sent and neither acknowledged nor lost.
    outstanding: VecDeque<(u64, Instant)>,
    next: u64,
    acked: u64,
    lost: u64,
    tokens: f64,
    srtt: Duration,
    /// Bytes a second that there are to send, where it is not as much as can be.
    supply: Option<f64>,
    owed: f64,
}

impl Sender {
    fn new(law: Law) -> Sender {
        let (tokens, srtt) = (10.0 * MTU as f64, Duration::from_millis(100));
        Sender { law, outstanding: VecDeque::new(), next: 0, acked: 0, lost: 0, tokens, srtt, supply: None, owed: 0.0 }
    }

    fn window(&self) -> u64 {
        match &self.law {
            Law::Delivery(controller) => controller.window(),
            Law::Cubic(cubic) => (cubic.window * MTU as f64) as u64,
        }
    }

    fn has_data(&self) -> bool {
        self.supply.is_none() || self.owed >= MTU as f64
    }
}

/// The path, its senders and the time.
struct World {
    now: Instant,
    start: Instant,
    /// Bytes a second.
    rate: f64,
    delay: Duration,
    buffer: u64,
    loss: f64,
    random: Random,
    senders: Vec<Sender>,
    queue: VecDeque<Packet>,
    credit: f64,
    /// On the way there and, as an acknowledgement, back.
    flying: VecDeque<(Instant, Packet)>,
    /// Summed wait in the queue.
    queued: Duration,
    steps: u32,
}

impl World {
    fn new(mbits: f64, rtt: Duration, buffer: Duration, loss: f64) -> World {
        let now = Instant::now();
        let rate = mbits * 1e6 / 8.0;
        World {
            now,
            start: now,
            rate,
            delay: rtt,
            buffer: ((rate * buffer.as_secs_f64()) as u64).max(4 * MTU),
            loss,
            random: Random(0x5EED),
            senders: Vec::new(),
            queue: VecDeque::new(),
            credit: 0.0,
            flying: VecDeque::new(),
            queued: Duration::ZERO,
            steps: 0,
        }
    }

    fn delivery(&mut self) -> usize {
        let controller = DeliveryController::new(self.now, MTU as u16, Arc::default());
        self.senders.push(Sender::new(Law::Delivery(Box::new(controller))));
        self.senders.len() - 1
    }

    fn cubic(&mut self) -> usize {
        let cubic = Cubic { window: 10.0, most: 10.0, cut_at: self.now, slow_start: true };
        self.senders.push(Sender::new(Law::Cubic(cubic)));
        self.senders.len() - 1
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Runs for that long and says how much of the path each sender had meanwhile.
    fn shares(&mut self, time: Duration) -> Vec<f64> {
        let before: Vec<u64> = self.senders.iter().map(|sender| sender.acked).collect();
        (self.queued, self.steps) = (Duration::ZERO, 0);
        self.run(time);
        let all = self.rate * time.as_secs_f64();
        self.senders.iter().zip(before).map(|(sender, before)| (sender.acked - before) as f64 / all).collect()
    }

    /// Mean wait in the queue since [`World::shares`] was asked.
    fn queue(&self) -> Duration {
        self.queued / self.steps.max(1)
    }

    fn step(&mut self) {
        self.now += STEP;
        for flow in 0..self.senders.len() {
            self.send(flow);
        }
        self.credit = (self.credit + self.rate * STEP.as_secs_f64()).min(2.0 * MTU as f64);
        while self.credit >= MTU as f64 && !self.queue.is_empty() {
            self.credit -= MTU as f64;
            let packet = self.queue.pop_front().expect("it is not empty");
            if !self.random.hits(self.loss) {
                self.flying.push_back((self.now + self.delay, packet));
            }
        }
        let wait = Duration::from_secs_f64(self.queue.len() as f64 * MTU as f64 / self.rate);
        (self.queued, self.steps) = (self.queued + wait, self.steps + 1);
        while self.flying.front().is_some_and(|&(at, _)| at <= self.now) {
            let (_, packet) = self.flying.pop_front().expect("it is not empty");
            self.acknowledge(&packet);
        }
    }

    /// As much as window and pacer let go, as quinn's pacer does.
    fn send(&mut self, flow: usize) {
        let now = self.now;
        let sender = &mut self.senders[flow];
        if let Some(supply) = sender.supply {
            sender.owed += supply * STEP.as_secs_f64();
        }
        let window = sender.window() as f64;
        let capacity = (window * 0.002 / sender.srtt.as_secs_f64()).clamp(10.0 * MTU as f64, 256.0 * MTU as f64);
        let refill = window * 1.25 * STEP.as_secs_f64() / sender.srtt.as_secs_f64();
        sender.tokens = (sender.tokens + refill).min(capacity);
        // A timer: nothing came back for long, and all that is out counts as lost.
        if let Some(&(_, sent)) = sender.outstanding.front()
            && now.duration_since(sent) > 3 * sender.srtt + Duration::from_millis(50)
        {
            Self::lose(sender, now, sender.next);
        }
        while sender.has_data()
            && sender.tokens >= MTU as f64
            && (sender.outstanding.len() as u64 + 1) * MTU < sender.window()
        {
            sender.tokens -= MTU as f64;
            sender.owed -= MTU as f64;
            sender.outstanding.push_back((sender.next, now));
            let packet = Packet { flow, number: sender.next, sent: now };
            sender.next += 1;
            if let Law::Delivery(controller) = &mut sender.law {
                controller.on_sent(now, MTU, packet.number);
            }
            if (self.queue.len() as u64 + 1) * MTU <= self.buffer {
                self.queue.push_back(packet);
            }
        }
    }

    /// Everything out before `number` is lost.
    fn lose(sender: &mut Sender, now: Instant, number: u64) {
        let lost = sender.outstanding.partition_point(|&(out, _)| out < number);
        if lost == 0 {
            return;
        }
        let newest = sender.outstanding[lost - 1].1;
        sender.outstanding.drain(..lost);
        sender.lost += lost as u64 * MTU;
        match &mut sender.law {
            Law::Delivery(controller) => controller.on_congestion_event(now, newest, false, lost as u64 * MTU),
            Law::Cubic(cubic) => cubic.lost(now, sender.srtt),
        }
    }

    fn acknowledge(&mut self, packet: &Packet) {
        let now = self.now;
        let sender = &mut self.senders[packet.flow];
        let Ok(at) = sender.outstanding.binary_search_by_key(&packet.number, |&(number, _)| number) else { return };
        sender.outstanding.remove(at);
        sender.acked += MTU;
        sender.srtt = (sender.srtt * 7 + now.duration_since(packet.sent)) / 8;
        let limited = !sender.has_data();
        match &mut sender.law {
            Law::Delivery(controller) => controller.acked(now, packet.sent, MTU, limited),
            Law::Cubic(cubic) => cubic.acked(now),
        }
        // Three packets behind it have come: RFC 9002's threshold.
        Self::lose(sender, now, packet.number.saturating_sub(2));
        if let Law::Delivery(controller) = &mut sender.law {
            controller.on_end_acks(now, sender.outstanding.len() as u64 * MTU, limited, Some(packet.number));
        }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// (Mbit/s, round trip)
const PATHS: [(f64, u64); 6] = [(6.0, 2), (6.0, 66), (24.0, 20), (24.0, 66), (100.0, 10), (100.0, 66)];

#[test]
fn random_loss_costs_little_and_no_queue_stands() {
    for (mbits, rtt) in PATHS {
        for loss in [0.0, 0.01, 0.05, 0.1] {
            let mut world = World::new(mbits, ms(rtt), ms(200), loss);
            world.delivery();
            world.run(ms(4_000));
            let share = world.shares(ms(10_000))[0];
            let queue = world.queue();
            // What is lost has passed the bottleneck too, and used it.
            assert!(share >= (1.0 - loss) * 0.85, "{mbits} Mbit/s, {rtt} ms, {loss} lost: {share:.2} of the path");
            assert!(queue <= ms(30), "{mbits} Mbit/s, {rtt} ms, {loss} lost: a queue of {queue:?}");
            let Law::Delivery(controller) = &world.senders[0].law else { unreachable!() };
            // There, what stands is the slack.
            assert!(rtt > 2 || controller.verdict != Verdict::Overflow, "{mbits} Mbit/s, {rtt} ms, {loss} lost");
        }
    }
}

#[test]
fn a_path_that_loses_a_third_is_still_one() {
    for (mbits, rtt) in PATHS {
        let mut world = World::new(mbits, ms(rtt), ms(200), 0.3);
        world.delivery();
        world.run(ms(6_000));
        let share = world.shares(ms(10_000))[0];
        assert!(share >= 0.35, "{mbits} Mbit/s, {rtt} ms: {share:.2} of the path");
    }
}

#[test]
fn another_flow_gets_its_third_and_leaves_us_some() {
    for (mbits, rtt) in [(6.0, 66), (24.0, 20), (24.0, 66), (100.0, 10)] {
        for buffer in [rtt.max(20) / 2, rtt.max(20), 200] {
            let mut world = World::new(mbits, ms(rtt), ms(buffer), 0.0);
            let (ours, theirs) = (world.delivery(), world.cubic());
            world.run(ms(5_000));
            let shares = world.shares(ms(40_000));
            let what = format!("{mbits} Mbit/s, {rtt} ms, {buffer} ms of buffer: {shares:.2?}");
            assert!(shares[theirs] >= 1.0 / 3.0 * (shares[ours] + shares[theirs]), "{what}");
            assert!(shares[ours] >= 0.02, "{what}");
        }
    }
}

#[test]
fn a_short_queue_that_overflows_is_not_taken_for_a_radio() {
    // A little more than a burst of quinn's pacer.
    let mut world = World::new(20.0, ms(40), ms(8), 0.0);
    world.delivery();
    world.run(ms(5_000));
    let (acked, lost) = (world.senders[0].acked, world.senders[0].lost);
    let share = world.shares(ms(20_000))[0];
    let (acked, lost) = (world.senders[0].acked - acked, world.senders[0].lost - lost);
    let lost = lost as f64 / (acked + lost) as f64;
    assert!(share >= 0.8, "{share:.2} of the path");
    assert!(lost <= LOSS_MAX, "{lost:.2} of what is sent is thrown away");
}

#[test]
fn a_path_that_slows_down_or_speeds_up_is_found_out() {
    let mut world = World::new(24.0, ms(40), ms(500), 0.0);
    world.delivery();
    world.run(ms(4_000));
    world.rate /= 4.0;
    world.run(ms(3_000));
    let slow = world.shares(ms(3_000))[0];
    let queue = world.queue();
    assert!(slow >= 0.85 && queue <= ms(40), "slower: {slow:.2}, {queue:?}");
    world.rate *= 8.0;
    world.run(ms(5_000));
    let fast = world.shares(ms(3_000))[0];
    assert!(fast >= 0.8, "faster: {fast:.2}");
}

#[test]
fn a_little_traffic_does_not_make_the_path_look_slow() {
    let mut world = World::new(24.0, ms(40), ms(200), 0.01);
    world.delivery();
    world.run(ms(3_000));
    let Law::Delivery(controller) = &world.senders[0].law else { unreachable!() };
    let before = controller.rate();
    world.senders[0].supply = Some(20_000.0);
    world.run(ms(5_000));
    let Law::Delivery(controller) = &world.senders[0].law else { unreachable!() };
    assert!(controller.rate() >= before * 0.8, "{} after {before}", controller.rate());
    world.senders[0].supply = None;
    let share = world.shares(ms(1_000))[0];
    assert!(share >= 0.7, "{share:.2} of the path in the first second");
}

#[test]
fn after_an_outage_the_path_is_filled_within_a_few_round_trips() {
    let mut world = World::new(24.0, ms(40), ms(200), 0.0);
    world.delivery();
    world.run(ms(3_000));
    world.loss = 1.0;
    world.run(ms(5_000));
    let (now, sender) = (world.now, &mut world.senders[0]);
    if let Law::Delivery(controller) = &mut sender.law {
        controller.on_congestion_event(now, now, true, 0);
        assert_eq!(controller.window(), INITIAL_PACKETS * MTU, "as a path that is not known");
    }
    world.loss = 0.0;
    world.run(ms(500));
    let share = world.shares(ms(500))[0];
    assert!(share >= 0.7, "{share:.2} of the path");
}

/// The smallest and the largest window of 25 s on a full path.
fn windows(world: &mut World) -> (f64, f64) {
    let (mut least, mut most) = (f64::MAX, 0.0f64);
    for _ in 0..2_500 {
        world.run(ms(10));
        let window = world.senders[0].window() as f64;
        (least, most) = (least.min(window), most.max(window));
    }
    (least, most)
}

#[test]
fn a_short_path_that_stays_as_it_is_is_neither_overfilled_nor_left_half_empty() {
    let mut world = World::new(5.0, ms(40), ms(200), 0.0);
    world.delivery();
    world.run(ms(3_000));
    let (least, most) = windows(&mut world);
    assert!(most <= 1.1 * least, "{least} to {most} bytes under way");
    // Longer by less than may stand in its queue: it is as full as before.
    world.delay += ms(4);
    world.run(ms(12_000));
    let share = world.shares(ms(3_000))[0];
    assert!(share >= 0.95, "{share:.2} of the path");
    // A long one would find a faster path too late by its queue alone.
    let mut long = World::new(5.0, ms(200), ms(400), 0.0);
    long.delivery();
    long.run(ms(5_000));
    let (least, most) = windows(&mut long);
    assert!(most >= 1.2 * least, "{least} to {most} bytes under way");
}

#[test]
fn the_meter_says_what_is_under_way() {
    let mut world = World::new(24.0, ms(40), ms(200), 0.02);
    world.delivery();
    world.run(ms(3_000));
    let Law::Delivery(controller) = &world.senders[0].law else { unreachable!() };
    let meter = &controller.meter;
    assert_eq!(meter.in_flight(), world.senders[0].outstanding.len() as u64 * MTU);
    assert_eq!(meter.delivered(), world.senders[0].acked);
    let (rtt, least) = meter.rtt();
    assert!((40_000..41_000).contains(&least) && rtt >= least, "{least} us, lately {rtt}");
    assert!(world.now > world.start);
}

#[test]
fn what_asks_a_path_leaves_though_the_window_is_full_and_nothing_else_with_it() {
    let (now, meter) = (Instant::now(), Arc::new(Meter::default()));
    let mut controller = DeliveryController::new(now, MTU as u16, meter.clone());
    while controller.in_flight + MTU < controller.window() {
        controller.on_sent(now, MTU, 0);
    }
    let full = controller.window();
    for _ in 0..3 {
        meter.ask();
        assert!(controller.in_flight + MTU < controller.window(), "one more may leave");
        controller.on_sent(now, MTU, 0);
        assert_eq!(controller.window(), full, "and no other");
    }
    assert_eq!(meter.window(), full, "whoever asks how much may be under way is told of the path");
}

#[test]
fn after_a_stop_the_pacer_lets_go_what_the_path_carries() {
    let mut world = World::new(5.0, ms(40), ms(200), 0.0);
    world.delivery();
    world.run(ms(3_000));
    let now = world.now + ms(10_000);
    let Law::Delivery(controller) = &mut world.senders[0].law else { unreachable!() };
    let (window, rtt) = (controller.window(), controller.rtt);
    let last = controller.history.back().expect("packets left").at;
    controller.in_flight = 0;
    for _ in 0..20 {
        controller.acked(now, last, MTU, false);
    }
    controller.smoothed(rtt, now - last);
    controller.on_end_acks(now, 0, false, None);
    assert!(controller.rtt <= 2 * rtt, "{:?} after {rtt:?}", controller.rtt);
    let (told, smooth) = (controller.window(), (rtt * 7 + (now - last)) / 8);
    let (rate, before) = (told as f64 / smooth.as_secs_f64(), window as f64 / rtt.as_secs_f64());
    assert!((0.8..1.3).contains(&(rate / before)), "{rate:.0} bytes a second, before the stop {before:.0}");
    assert!(controller.meter.window() <= window, "whoever asks how much may be under way is told of the path");
    // And no more is under way for that.
    while controller.in_flight + MTU < controller.window() {
        controller.on_sent(now, MTU, 0);
    }
    assert!(controller.in_flight <= window, "{} bytes under way, {window} before", controller.in_flight);
}
