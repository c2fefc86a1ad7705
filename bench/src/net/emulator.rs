//! One direction of a link as a pure model: a finite queue, a rate, a propagation delay, loss.
//! Beside the path, under wire.rs, which reads and writes the packets. Knows times and lengths;
//! never a clock, a device or the content of a packet.

use std::collections::VecDeque;
use std::time::Duration;

use crate::net::impairment::{Bucket, Bursts, Reordering};
use crate::net::link::{Link, Outage};
use crate::net::schedule::Schedule;
use crate::net::testbed::Direction;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is dropped.
    Drop(DropReason),
    /// It arrives.
    Deliver {
        /// When its last bit is on the wire; a cut of the link before that drops it.
        departs: Duration,
        /// When it reaches the other end.
        at: Duration,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue before the bottleneck was full.
    Queue,
    /// Random loss, alone or in a burst.
    Loss,
    /// The token bucket was empty.
    Policer,
    /// The link had an outage or was cut.
    Outage,
}

/// Correlation time of jitter: some radio frames, or some packets of cross traffic. The order of
/// packets is kept, so jitter that was independent for each packet would delay every packet of a
/// burst by the largest jitter among them.
const JITTER_TIME: Duration = Duration::from_millis(20);

/// One direction of a link. Times are counted from the start of the testbed and never decrease.
#[derive(Clone, Debug)]
pub struct Emulator {
    direction: Direction,
    /// Links that replace this one, each from its time in the testbed's time on.
    schedule: VecDeque<(Duration, Link)>,
    delay: Duration,
    jitter: Duration,
    rate_bps: Option<u64>,
    queue_bytes: u64,
    loss: f64,
    bursts: Option<Bursts>,
    /// The state of [`Bursts`]: the link is bad.
    in_burst: bool,
    reordering: Option<Reordering>,
    bucket: Option<Bucket>,
    /// In the testbed's time.
    outages: Vec<Outage>,
    cut: bool,
    /// Packets that are queued or being sent: departure time and length.
    queue: VecDeque<(Duration, u32)>,
    queued: u64,
    wire_free: Duration,
    /// Arrival of the last packet that was not held back: later packets arrive no earlier.
    arrived: Duration,
    /// Deviation from the mean delay in standard deviations, and the time that it applies to.
    deviation: (Duration, f64),
    random: Random,
}

impl Emulator {
    /// One direction of `link`, from `now` on.
    pub fn new(link: &Link, direction: Direction, now: Duration) -> Emulator {
        let stream = match direction {
            Direction::Down => 0,
            Direction::Up => 1,
        };
        let mut random = Random::new(link.seed, stream);
        let deviation = (now, random.normal());
        let mut emulator = Emulator {
            direction,
            schedule: VecDeque::new(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: None,
            queue_bytes: 0,
            loss: 0.0,
            bursts: None,
            in_burst: false,
            reordering: None,
            bucket: None,
            outages: vec![],
            cut: false,
            queue: VecDeque::new(),
            queued: 0,
            wire_free: now,
            arrived: Duration::ZERO,
            deviation,
            random,
        };
        emulator.handle_link(link, now);
        emulator
    }

    /// Changes the link from now on. Packets in flight arrive as before the change; the random
    /// sequence continues, and a schedule ends.
    pub fn handle_link(&mut self, link: &Link, now: Duration) {
        self.schedule.clear();
        self.set(link, now);
    }

    /// The link changes from now on as the schedule says, whose times count from now.
    pub fn handle_schedule(&mut self, schedule: &Schedule, now: Duration) {
        self.schedule =
            schedule.steps().iter().map(|(at, link)| (now + *at, link.clone())).collect();
        self.follow_schedule(now);
    }

    fn follow_schedule(&mut self, now: Duration) {
        while let Some((at, link)) = self.schedule.pop_front_if(|(at, _)| *at <= now) {
            self.set(&link, at);
        }
    }

    fn set(&mut self, link: &Link, now: Duration) {
        self.delay = link.rtt / 2;
        self.jitter = link.jitter;
        self.rate_bps = link.rate_of(self.direction);
        self.queue_bytes = link.queue_of(self.direction);
        self.loss = link.loss;
        self.in_burst &= link.bursts.is_some();
        self.bursts = link.bursts;
        self.reordering = link.reordering;
        self.bucket = link.policer.map(|policer| Bucket::new(policer, now));
        self.outages = link
            .outages
            .iter()
            .map(|outage| Outage { from: now + outage.from, length: outage.length })
            .collect();
    }

    /// Cuts or restores the link. The caller holds the packets in flight and drops those that have
    /// not departed.
    pub fn handle_cut(&mut self, cut: bool, now: Duration) {
        self.cut = cut;
        if cut {
            self.queue.clear();
            self.queued = 0;
            self.wire_free = now;
        }
    }

    /// Decides the fate of a packet of `len` bytes that is sent now.
    pub fn handle_packet(&mut self, now: Duration, len: u32) -> Verdict {
        self.follow_schedule(now);
        while let Some(&(_, len)) = self.queue.front().filter(|(departs, _)| *departs <= now) {
            self.queue.pop_front();
            self.queued -= u64::from(len);
        }
        if self.cut {
            return Verdict::Drop(DropReason::Outage);
        }
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.passes(now, len)) {
            return Verdict::Drop(DropReason::Policer);
        }
        let departs = match self.rate_bps {
            None => self.wire_free.max(now),
            Some(rate) => {
                // A packet longer than the whole queue passes if the queue is empty; otherwise it
                // never could.
                if self.queued > 0 && self.queued + u64::from(len) > self.queue_bytes {
                    return Verdict::Drop(DropReason::Queue);
                }
                // Rounded up, so that the rate is never exceeded.
                let ns = (u64::from(len) * 8 * 1_000_000_000).div_ceil(rate);
                let departs = self.wire_free.max(now) + Duration::from_nanos(ns);
                self.wire_free = departs;
                self.queue.push_back((departs, len));
                self.queued += u64::from(len);
                departs
            }
        };
        // A lost packet has used the wire, as on a radio link.
        let lost = (self.random.unit() < self.loss) | self.loses_in_burst();
        if self
            .outages
            .iter()
            .any(|outage| departs >= outage.from && departs < outage.from + outage.length)
        {
            return Verdict::Drop(DropReason::Outage);
        }
        if lost {
            return Verdict::Drop(DropReason::Loss);
        }
        let at = (departs + self.delay_at(departs)).max(self.arrived);
        let held_back = self.reordering.filter(|held| self.random.unit() < held.share);
        if let Some(Reordering { by, .. }) = held_back {
            return Verdict::Deliver { departs, at: at + by };
        }
        self.arrived = at;
        Verdict::Deliver { departs, at }
    }

    /// The state for this packet, and whether it is lost in it (Gilbert and Elliott).
    fn loses_in_burst(&mut self) -> bool {
        let Some(bursts) = self.bursts else { return false };
        let turns = if self.in_burst { bursts.end } else { bursts.begin };
        self.in_burst ^= self.random.unit() < turns;
        self.in_burst && self.random.unit() < bursts.loss
    }

    /// The one-way delay of a packet that departs then: normally distributed, clamped to three
    /// standard deviations and to zero, with the correlation time [`JITTER_TIME`] (an
    /// Ornstein-Uhlenbeck process sampled at each packet).
    fn delay_at(&mut self, departs: Duration) -> Duration {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let (then, before) = self.deviation;
        let kept =
            (-(departs.saturating_sub(then).as_secs_f64() / JITTER_TIME.as_secs_f64())).exp();
        let deviation =
            (before * kept + self.random.normal() * (1.0 - kept * kept).sqrt()).clamp(-3.0, 3.0);
        self.deviation = (departs, deviation);
        let seconds = self.delay.as_secs_f64() + deviation * self.jitter.as_secs_f64();
        Duration::from_secs_f64(seconds.max(0.0))
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, well mixed, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        // Streams of one seed begin at unrelated states.
        Random(random.next() ^ Random(stream).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0, less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, standard deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn link(text: &str) -> Link {
        text.parse().unwrap()
    }

    fn emulator(text: &str) -> Emulator {
        Emulator::new(&link(text), Direction::Down, Duration::ZERO)
    }

    fn arrives(verdict: Verdict) -> Duration {
        match verdict {
            Verdict::Deliver { at, .. } => at,
            Verdict::Drop(reason) => panic!("dropped: {reason:?}"),
        }
    }

    #[test]
    fn delay_is_half_of_the_round_trip_and_the_time_on_the_wire() {
        let mut wan = emulator("rtt=66ms,rate=12mbit");
        assert_eq!(arrives(wan.handle_packet(10 * MS, 1500)), 10 * MS + MS + 33 * MS);
        assert_eq!(
            arrives(wan.handle_packet(10 * MS, 1500)),
            12 * MS + 33 * MS,
            "waits for the packet before"
        );
        assert_eq!(
            arrives(wan.handle_packet(40 * MS, 1500)),
            41 * MS + 33 * MS,
            "the wire was free"
        );
    }

    #[test]
    fn the_queue_is_finite() {
        let mut slow = emulator("rate=12mbit,queue=4500");
        for n in 1..=3 {
            assert_eq!(arrives(slow.handle_packet(Duration::ZERO, 1500)), n * MS);
        }
        assert_eq!(slow.handle_packet(Duration::ZERO, 1500), Verdict::Drop(DropReason::Queue));
        assert_eq!(arrives(slow.handle_packet(MS, 1500)), 4 * MS, "the first has left");
        let mut tiny = emulator("rate=12mbit,queue=100");
        assert_eq!(arrives(tiny.handle_packet(Duration::ZERO, 1500)), MS, "one always passes");
        assert_eq!(tiny.handle_packet(Duration::ZERO, 40), Verdict::Drop(DropReason::Queue));
    }

    #[test]
    fn an_outage_drops_packets_that_would_depart_in_it() {
        let mut broken = emulator("rtt=10ms,rate=12mbit,outage=5ms+10ms");
        let verdicts: Vec<Verdict> =
            (0..8).map(|_| broken.handle_packet(Duration::ZERO, 1500)).collect();
        assert_eq!(arrives(verdicts[3]), 4 * MS + 5 * MS, "had departed");
        assert_eq!(verdicts[4], Verdict::Drop(DropReason::Outage), "was waiting");
        assert_eq!(broken.handle_packet(13 * MS, 1500), Verdict::Drop(DropReason::Outage));
        assert_eq!(
            arrives(broken.handle_packet(14 * MS, 1500)),
            20 * MS,
            "the last bit leaves when it is over"
        );
    }

    #[test]
    fn a_cut_lasts_until_the_link_is_restored() {
        let mut cut = emulator("rate=12mbit");
        cut.handle_packet(Duration::ZERO, 1500);
        cut.handle_cut(true, Duration::ZERO);
        assert_eq!(cut.handle_packet(500 * MS, 1500), Verdict::Drop(DropReason::Outage));
        cut.handle_cut(false, 600 * MS);
        assert_eq!(
            arrives(cut.handle_packet(600 * MS, 1500)),
            601 * MS,
            "no earlier packet is queued"
        );
    }

    #[test]
    fn a_new_link_keeps_the_order_of_packets_in_flight() {
        let mut changing = emulator("rtt=200ms");
        let before = arrives(changing.handle_packet(Duration::ZERO, 100));
        changing.handle_link(&link("rtt=2ms,outage=10ms+1ms"), 50 * MS);
        assert_eq!(arrives(changing.handle_packet(51 * MS, 100)), before);
        assert_eq!(
            changing.handle_packet(60 * MS, 100),
            Verdict::Drop(DropReason::Outage),
            "counted from the change"
        );
        assert_eq!(arrives(changing.handle_packet(200 * MS, 100)), 201 * MS);
    }

    #[test]
    fn loss_has_the_given_share_and_the_directions_differ() {
        let share = |text: &str, direction| {
            let mut lossy = Emulator::new(&link(text), direction, Duration::ZERO);
            (0..100_000u32)
                .map(|n| matches!(lossy.handle_packet(MS * n, 100), Verdict::Drop(_)))
                .collect::<Vec<_>>()
        };
        let (down, up) = (share("loss=10%", Direction::Down), share("loss=10%", Direction::Up));
        let lost = down.iter().filter(|lost| **lost).count();
        // Five standard deviations of a binomial of 100,000 at 10 %: 475.
        assert!(lost.abs_diff(10_000) < 475, "{lost} of 100,000 at 10 %");
        assert_ne!(down, up, "one loss in both directions would be one event and not two");
        assert_eq!(down, share("loss=10%", Direction::Down), "the seed decides every loss");
        assert_ne!(down, share("loss=10%,seed=2", Direction::Down));
        assert!(share("loss=0%", Direction::Up).iter().all(|lost| !lost));
        assert!(share("loss=100%", Direction::Up).iter().all(|lost| *lost));
    }

    #[test]
    fn bursts_have_the_given_share_and_length() {
        let mut bad = emulator("bursts=2%/20%");
        let lost: Vec<bool> = (0..200_000u32)
            .map(|n| matches!(bad.handle_packet(MS * n, 100), Verdict::Drop(DropReason::Loss)))
            .collect();
        let total = lost.iter().filter(|lost| **lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // 2/22 of 200,000 packets in bursts of five. The variance of a share is (1 + r)/(1 - r)
        // times a binomial's, with the correlation r = 1 - 2% - 20%: five deviations are 1,850.
        assert!(total.abs_diff(18_182) < 1_850, "{total} of 200,000 are lost");
        let length = total as f64 / bursts as f64;
        assert!((4.6..5.4).contains(&length), "bursts of {length} packets");
        let mut half = emulator("bursts=100%/0.001%/50%");
        let lost = (0..10_000u32)
            .filter(|n| matches!(half.handle_packet(MS * *n, 100), Verdict::Drop(_)))
            .count();
        assert!(lost.abs_diff(5_000) < 250, "{lost} of 10,000 in one burst of half");
    }

    #[test]
    fn packets_that_are_held_back_are_overtaken() {
        let mut all = emulator("rtt=20ms,reorder=100%+5ms");
        assert_eq!(arrives(all.handle_packet(Duration::ZERO, 100)), 15 * MS);
        let mut some = emulator("rtt=20ms,reorder=10%+5ms");
        let arrivals: Vec<Duration> =
            (0..1_000u32).map(|n| arrives(some.handle_packet(MS * n, 100)) - MS * n).collect();
        let late = arrivals.iter().filter(|delay| **delay == 15 * MS).count();
        assert!(arrivals.iter().all(|delay| [10 * MS, 15 * MS].contains(delay)), "no other delay");
        // Five standard deviations: 47.
        assert!(late.abs_diff(100) < 47, "{late} of 1,000 at 10 %");
    }

    #[test]
    fn a_policer_drops_and_never_delays() {
        let mut policed = emulator("rtt=20ms,policer=12mbit+3000b");
        let fate = |policed: &mut Emulator, ms: u32| policed.handle_packet(MS * ms, 1500);
        assert_eq!(arrives(fate(&mut policed, 0)), 10 * MS);
        assert_eq!(arrives(fate(&mut policed, 0)), 10 * MS);
        assert_eq!(fate(&mut policed, 0), Verdict::Drop(DropReason::Policer));
        assert_eq!(arrives(fate(&mut policed, 1)), 11 * MS);
    }

    #[test]
    fn directions_have_their_own_rates_and_queues() {
        let line = link("rate=12mbit,rate-up=1.2mbit,queue=10ms");
        let [mut down, mut up] =
            [Direction::Down, Direction::Up].map(|d| Emulator::new(&line, d, Duration::ZERO));
        assert_eq!(arrives(down.handle_packet(Duration::ZERO, 1500)), MS);
        assert_eq!(arrives(up.handle_packet(Duration::ZERO, 1500)), 10 * MS);
        // 15,000 bytes down; up 1,500, of which a packet takes all.
        let passed = (0..20).filter(|_| {
            matches!(down.handle_packet(Duration::ZERO, 1500), Verdict::Deliver { .. })
        });
        assert_eq!(passed.count(), 9);
        assert_eq!(up.handle_packet(Duration::ZERO, 40), Verdict::Drop(DropReason::Queue));
    }

    #[test]
    fn a_schedule_changes_the_link_at_its_times() {
        let steps = [(0, "rtt=20ms"), (10, "rtt=40ms"), (30, "rtt=2ms,policer=12mbit+1500b")];
        let steps = steps.map(|(ms, text)| (MS * ms, link(text)));
        let schedule = Schedule::new(steps.to_vec()).unwrap();
        let mut changing = emulator("rtt=200ms");
        assert_eq!(arrives(changing.handle_packet(100 * MS, 100)), 200 * MS);
        changing.handle_schedule(&schedule, 1_000 * MS);
        for (sent, arrival) in [(1_000, 1_010), (1_009, 1_019), (1_010, 1_030), (1_029, 1_049)] {
            assert_eq!(arrives(changing.handle_packet(MS * sent, 100)), MS * arrival);
        }
        assert_eq!(
            arrives(changing.handle_packet(MS * 1_030, 1500)),
            MS * 1_049,
            "packets in flight are not overtaken"
        );
        assert_eq!(
            changing.handle_packet(MS * 1_030, 1500),
            Verdict::Drop(DropReason::Policer),
            "with all of its properties"
        );
        changing.handle_schedule(&schedule, 2_000 * MS);
        changing.handle_link(&link("rtt=10ms"), 2_001 * MS);
        assert_eq!(
            arrives(changing.handle_packet(2_040 * MS, 1500)),
            2_045 * MS,
            "a new link ends the schedule"
        );
    }

    #[test]
    fn jitter_has_the_given_deviation_at_any_packet_rate() {
        for gap_us in [100u64, 5_000, 100_000] {
            let mut jittery = emulator("rtt=100ms,jitter=4ms");
            let delays: Vec<f64> = (0..200_000u64)
                .map(|n| {
                    let now = Duration::from_micros(n * gap_us);
                    (arrives(jittery.handle_packet(now, 100)) - now).as_secs_f64() * 1e3
                })
                .collect();
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            let deviation = (delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>()
                / delays.len() as f64)
                .sqrt();
            // Keeping the order increases the mean if packets are close together; these bounds
            // state by how much.
            assert!((49.8..51.5).contains(&mean), "gap {gap_us} µs: mean {mean} ms");
            assert!((3.0..4.3).contains(&deviation), "gap {gap_us} µs: deviation {deviation} ms");
        }
    }

    proptest! {
        /// For any traffic and link: the order is kept, no packet is early, the rate is never
        /// exceeded, the waiting packets fit the queue, and the same seed gives the same result.
        #[test]
        fn any_traffic_obeys_the_link(
            rate in prop::option::of(1_000u64..2_000_000_000),
            rtt_us in 0u64..500_000,
            jitter_us in 0u64..20_000,
            queue in 1u64..200_000,
            loss in 0.0f64..0.5,
            seed: u64,
            outage in prop::option::of((0u64..50_000, 0u64..20_000)),
            packets in prop::collection::vec((0u64..3_000, 20u32..65_535), 1..300),
        ) {
            let mut link = Link::unlimited();
            link.rate_bps = rate;
            link.rtt = Duration::from_micros(rtt_us);
            link.jitter = Duration::from_micros(jitter_us);
            link.queue_bytes = queue;
            link.loss = loss;
            link.seed = seed;
            link.outages = outage
                .map(|times| <[u64; 2]>::from(times).map(Duration::from_micros))
                .map(|[from, length]| Outage { from, length })
                .into_iter()
                .collect();
            let mut one = Emulator::new(&link, Direction::Up, Duration::ZERO);
            let mut other = one.clone();
            let mut now = Duration::ZERO;
            let (mut departed, mut arrived) = (Duration::ZERO, Duration::ZERO);
            for (gap_us, len) in packets {
                now += Duration::from_micros(gap_us);
                let verdict = one.handle_packet(now, len);
                prop_assert_eq!(verdict, other.handle_packet(now, len));
                let waiting: u64 = one.queue.iter().map(|(_, len)| u64::from(*len)).sum();
                prop_assert_eq!(one.queued, waiting);
                let fits = one.queued <= queue || one.queue.len() == 1;
                prop_assert!(fits, "{} bytes wait", one.queued);
                match verdict {
                    Verdict::Deliver { departs, at } => {
                        prop_assert!(at >= arrived && departs >= departed);
                        prop_assert!(departs >= now && at >= departs);
                        if jitter_us == 0 {
                            prop_assert!(at >= departs + link.rtt / 2);
                        }
                        if let Some(rate) = rate {
                            let least = u64::from(len) * 8 * 1_000_000_000 / rate;
                            let least = Duration::from_nanos(least);
                            prop_assert!(departs - departed >= least, "faster than {} bit/s", rate);
                        }
                        for outage in &link.outages {
                            let end = outage.from + outage.length;
                            prop_assert!(departs < outage.from || departs >= end);
                        }
                        (departed, arrived) = (departs, at);
                    }
                    Verdict::Drop(DropReason::Queue) => prop_assert!(rate.is_some()),
                    Verdict::Drop(DropReason::Loss) => prop_assert!(loss > 0.0),
                    Verdict::Drop(DropReason::Policer) => prop_assert!(false, "no policer"),
                    Verdict::Drop(DropReason::Outage) => prop_assert!(!link.outages.is_empty()),
                }
            }
        }
    }
}
