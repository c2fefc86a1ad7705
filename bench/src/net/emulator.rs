//! One direction of a link as a pure model: a queue with an end, a wire with a rate, a way that takes its time, and loss.
//! Beside the path, under wire.rs, which reads and writes the packets. Knows times and lengths; never a clock, a device
//! or what is in a packet.

use std::collections::VecDeque;
use std::time::Duration;

use crate::net::link::{Link, Outage};
use crate::net::testbed::Direction;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It never arrives.
    Drop(Reason),
    /// It arrives.
    Deliver {
        /// When its last bit is on the wire; until then a cut of the link still loses it.
        departs: Duration,
        /// When it reaches the other end.
        at: Duration,
    },
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue before the bottleneck was full.
    Queue,
    /// By chance.
    Loss,
    /// Nothing passed at that time.
    Outage,
}

/// How long the state of a jittering link lasts: some radio frames, or some packets of crossing traffic. Jitter that
/// changed from packet to packet would, with the order kept, delay every packet of a burst by the worst of them.
const JITTER_TIME: Duration = Duration::from_millis(20);

/// One direction of a link. Times are counted from when the testbed began, and never go back.
#[derive(Clone, Debug)]
pub struct Emulator {
    delay: Duration,
    jitter: Duration,
    rate_bps: Option<u64>,
    queue_bytes: u64,
    loss: f64,
    /// In the testbed's time.
    outages: Vec<Outage>,
    cut: bool,
    /// Packets on the wire or waiting for it: when each departs, and its length.
    queue: VecDeque<(Duration, u32)>,
    queued: u64,
    wire_free: Duration,
    /// Nothing arrives before what was sent before it.
    arrived: Duration,
    /// Deviation from the mean delay, in standard deviations, and when it was that.
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
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: None,
            queue_bytes: 0,
            loss: 0.0,
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

    /// The link is another one from now on. What is under way arrives as it would have; chance goes on where it was.
    pub fn handle_link(&mut self, link: &Link, now: Duration) {
        self.delay = link.rtt / 2;
        self.jitter = link.jitter;
        self.rate_bps = link.rate_bps;
        self.queue_bytes = link.queue_bytes;
        self.loss = link.loss;
        self.outages =
            link.outages.iter().map(|outage| Outage { from: now + outage.from, length: outage.length }).collect();
    }

    /// Nothing passes while it is cut. Who holds the packets under way drops those that have not departed.
    pub fn handle_cut(&mut self, cut: bool, now: Duration) {
        self.cut = cut;
        if cut {
            self.queue.clear();
            self.queued = 0;
            self.wire_free = now;
        }
    }

    /// A packet of `len` bytes comes to the link.
    pub fn handle_packet(&mut self, now: Duration, len: u32) -> Verdict {
        while let Some(&(_, len)) = self.queue.front().filter(|(departs, _)| *departs <= now) {
            self.queue.pop_front();
            self.queued -= u64::from(len);
        }
        if self.cut {
            return Verdict::Drop(Reason::Outage);
        }
        let departs = match self.rate_bps {
            None => self.wire_free.max(now),
            Some(rate) => {
                // A packet longer than the whole queue passes when nothing waits, or it never would.
                if self.queued > 0 && self.queued + u64::from(len) > self.queue_bytes {
                    return Verdict::Drop(Reason::Queue);
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
        // What is lost has used the wire all the same, as on the air.
        let lost = self.random.unit() < self.loss;
        if self.outages.iter().any(|outage| departs >= outage.from && departs < outage.from + outage.length) {
            return Verdict::Drop(Reason::Outage);
        }
        if lost {
            return Verdict::Drop(Reason::Loss);
        }
        let at = (departs + self.delay_at(departs)).max(self.arrived);
        self.arrived = at;
        Verdict::Deliver { departs, at }
    }

    /// The one-way delay of what departs then: normally distributed, cut at three standard deviations and at zero, and
    /// changing no faster than [`JITTER_TIME`] (an Ornstein-Uhlenbeck process read when packets come).
    fn delay_at(&mut self, departs: Duration) -> Duration {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let (then, before) = self.deviation;
        let kept = (-(departs.saturating_sub(then).as_secs_f64() / JITTER_TIME.as_secs_f64())).exp();
        let deviation = (before * kept + self.random.normal() * (1.0 - kept * kept).sqrt()).clamp(-3.0, 3.0);
        self.deviation = (departs, deviation);
        let seconds = self.delay.as_secs_f64() + deviation * self.jitter.as_secs_f64();
        Duration::from_secs_f64(seconds.max(0.0))
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, well mixed, and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        // Streams of one seed begin at unrelated places.
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
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, standard deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
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
        assert_eq!(arrives(wan.handle_packet(10 * MS, 1500)), 12 * MS + 33 * MS, "waits for the one before");
        assert_eq!(arrives(wan.handle_packet(40 * MS, 1500)), 41 * MS + 33 * MS, "the wire was free");
    }

    #[test]
    fn the_queue_has_an_end() {
        let mut slow = emulator("rate=12mbit,queue=4500");
        for n in 1..=3 {
            assert_eq!(arrives(slow.handle_packet(Duration::ZERO, 1500)), n * MS);
        }
        assert_eq!(slow.handle_packet(Duration::ZERO, 1500), Verdict::Drop(Reason::Queue));
        assert_eq!(arrives(slow.handle_packet(MS, 1500)), 4 * MS, "the first has left");
        let mut tiny = emulator("rate=12mbit,queue=100");
        assert_eq!(arrives(tiny.handle_packet(Duration::ZERO, 1500)), MS, "one always passes");
        assert_eq!(tiny.handle_packet(Duration::ZERO, 40), Verdict::Drop(Reason::Queue));
    }

    #[test]
    fn an_outage_loses_what_would_depart_in_it() {
        let mut broken = emulator("rtt=10ms,rate=12mbit,outage=5ms+10ms");
        let verdicts: Vec<Verdict> = (0..8).map(|_| broken.handle_packet(Duration::ZERO, 1500)).collect();
        assert_eq!(arrives(verdicts[3]), 4 * MS + 5 * MS, "had departed");
        assert_eq!(verdicts[4], Verdict::Drop(Reason::Outage), "was waiting");
        assert_eq!(broken.handle_packet(13 * MS, 1500), Verdict::Drop(Reason::Outage));
        assert_eq!(arrives(broken.handle_packet(14 * MS, 1500)), 20 * MS, "the last bit leaves when it is over");
    }

    #[test]
    fn a_cut_lasts_until_it_is_mended() {
        let mut cut = emulator("rate=12mbit");
        cut.handle_packet(Duration::ZERO, 1500);
        cut.handle_cut(true, Duration::ZERO);
        assert_eq!(cut.handle_packet(500 * MS, 1500), Verdict::Drop(Reason::Outage));
        cut.handle_cut(false, 600 * MS);
        assert_eq!(arrives(cut.handle_packet(600 * MS, 1500)), 601 * MS, "nothing of before waits any more");
    }

    #[test]
    fn a_new_link_keeps_the_order_of_what_is_under_way() {
        let mut changing = emulator("rtt=200ms");
        let before = arrives(changing.handle_packet(Duration::ZERO, 100));
        changing.handle_link(&link("rtt=2ms,outage=10ms+1ms"), 50 * MS);
        assert_eq!(arrives(changing.handle_packet(51 * MS, 100)), before);
        assert_eq!(changing.handle_packet(60 * MS, 100), Verdict::Drop(Reason::Outage), "counted from the change");
        assert_eq!(arrives(changing.handle_packet(200 * MS, 100)), 201 * MS);
    }

    #[test]
    fn chance_is_as_often_as_asked_and_the_directions_differ() {
        let share = |text: &str, direction| {
            let mut lossy = Emulator::new(&link(text), direction, Duration::ZERO);
            (0..100_000u32).map(|n| matches!(lossy.handle_packet(MS * n, 100), Verdict::Drop(_))).collect::<Vec<_>>()
        };
        let (down, up) = (share("loss=10%", Direction::Down), share("loss=10%", Direction::Up));
        let lost = down.iter().filter(|lost| **lost).count();
        // Five standard deviations of a binomial of 100,000 at 10 %: 475.
        assert!(lost.abs_diff(10_000) < 475, "{lost} of 100,000 at 10 %");
        assert_ne!(down, up, "one loss in both directions would be one event and not two");
        assert_eq!(down, share("loss=10%", Direction::Down), "the seed tells all");
        assert_ne!(down, share("loss=10%,seed=2", Direction::Down));
        assert!(share("loss=0%", Direction::Up).iter().all(|lost| !lost));
        assert!(share("loss=100%", Direction::Up).iter().all(|lost| *lost));
    }

    #[test]
    fn jitter_has_the_deviation_asked_for_whatever_the_packet_rate() {
        for gap_us in [100u64, 5_000, 100_000] {
            let mut jittery = emulator("rtt=100ms,jitter=4ms");
            let delays: Vec<f64> = (0..200_000u64)
                .map(|n| {
                    let now = Duration::from_micros(n * gap_us);
                    (arrives(jittery.handle_packet(now, 100)) - now).as_secs_f64() * 1e3
                })
                .collect();
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            let deviation = (delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / delays.len() as f64).sqrt();
            // Keeping the order adds to the mean where packets are close together; how much is stated here.
            assert!((49.8..51.5).contains(&mean), "gap {gap_us} µs: mean {mean} ms");
            assert!((3.0..4.3).contains(&deviation), "gap {gap_us} µs: deviation {deviation} ms");
        }
    }

    proptest! {
        /// Whatever comes and whatever the link: order is kept, nothing is early, the rate is never exceeded, what waits
        /// fits the queue, and the same seed decides the same.
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
                .map(|(from, length)| Outage { from: Duration::from_micros(from), length: Duration::from_micros(length) })
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
                prop_assert_eq!(one.queued, one.queue.iter().map(|(_, len)| u64::from(*len)).sum::<u64>());
                prop_assert!(one.queued <= queue || one.queue.len() == 1, "{} bytes wait", one.queued);
                match verdict {
                    Verdict::Deliver { departs, at } => {
                        prop_assert!(at >= arrived && departs >= departed && departs >= now && at >= departs);
                        if jitter_us == 0 {
                            prop_assert!(at >= departs + link.rtt / 2);
                        }
                        if let Some(rate) = rate {
                            let least = Duration::from_nanos(u64::from(len) * 8 * 1_000_000_000 / rate);
                            prop_assert!(departs - departed >= least, "faster than {} bit/s", rate);
                        }
                        for outage in &link.outages {
                            prop_assert!(departs < outage.from || departs >= outage.from + outage.length);
                        }
                        (departed, arrived) = (departs, at);
                    }
                    Verdict::Drop(Reason::Queue) => prop_assert!(rate.is_some()),
                    Verdict::Drop(Reason::Loss) => prop_assert!(loss > 0.0),
                    Verdict::Drop(Reason::Outage) => prop_assert!(!link.outages.is_empty()),
                }
            }
        }
    }
}
