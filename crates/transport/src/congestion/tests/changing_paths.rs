//! The congestion controller on paths that change while a connection lives, against a connection
//! that was on the changed path from the start: how long a page takes, and what a sender that never
//! rests gets. Knows the simulated bottleneck of tests.rs; virtual time only.

use super::*;

/// Bytes of a page of text in Chromium, of one with photographs, and of a window that opens.
const PAGES: [u64; 3] = [63_000, 250_000, 20_000];
/// Between two pages: the path is idle when the next begins.
const PAUSE: Duration = ms(200);
/// After so long a connection is measured; what happens before is the change itself.
const SETTLED: Duration = ms(2_000);
/// How many times longer a page may take than on a path that never changed.
const PAGE_RATIO_MAX: f64 = 1.5;

/// Properties of the bottleneck.
#[derive(Clone, Copy, Debug)]
struct Bottleneck {
    mbits: f64,
    rtt: Duration,
    /// How long the longest queue takes to drain.
    buffer: Duration,
    loss: f64,
    jitter: Duration,
    overtakes: bool,
    bursts: Option<(f64, f64)>,
    /// Mbit/s and bytes of burst.
    policer: Option<(f64, f64)>,
}

const fn path(mbits: f64, rtt: Duration) -> Bottleneck {
    let jitter = Duration::ZERO;
    let buffer = ms(200);
    Bottleneck {
        mbits,
        rtt,
        buffer,
        loss: 0.0,
        jitter,
        overtakes: false,
        bursts: None,
        policer: None,
    }
}

const LAN: Bottleneck = path(100.0, Duration::from_micros(200));
const WAN: Bottleneck = path(100.0, ms(66));
const SATELLITE: Bottleneck = path(100.0, ms(600));
const DSL: Bottleneck = path(5.0, ms(66));
const BLOATED: Bottleneck = Bottleneck { buffer: ms(1_000), ..DSL };
const JITTER: Bottleneck = Bottleneck { jitter: ms(20), ..WAN };
const REORDERING: Bottleneck = Bottleneck { jitter: ms(3), overtakes: true, ..WAN };
/// One packet in ten is lost, in bursts of five on average.
const BURSTS: Bottleneck = Bottleneck { bursts: Some((0.022, 0.2)), ..path(24.0, ms(66)) };

/// What a provider sells as 20 Mbit/s, with a burst of 100 ms.
const POLICED: Bottleneck = Bottleneck { policer: Some((20.0, 250_000.0)), ..WAN };

const CHANGES: [(&str, Bottleneck, Bottleneck); 18] = [
    ("a cable is left", LAN, WAN),
    ("a satellite from a LAN", LAN, SATELLITE),
    ("a satellite", WAN, SATELLITE),
    ("a slower and longer path", LAN, DSL),
    ("a longer path through a radio link", path(24.0, ms(2)), path(24.0, ms(66))),
    ("a longer path at 6 Mbit/s", path(6.0, ms(2)), path(6.0, ms(66))),
    ("a cable is found", WAN, LAN),
    ("back from a satellite", SATELLITE, WAN),
    ("a slower path", WAN, DSL),
    ("a faster path", DSL, WAN),
    ("a faster and shorter path", DSL, LAN),
    ("a slower path with a second of queue", WAN, BLOATED),
    ("jitter", WAN, JITTER),
    ("jitter on a path that was short", LAN, JITTER),
    ("reordering", WAN, REORDERING),
    ("bursts of losses", path(24.0, ms(66)), BURSTS),
    ("a radio link that gets better", BURSTS, path(24.0, ms(66))),
    ("a policer", WAN, POLICED),
];

impl Link {
    fn with(bottleneck: Bottleneck) -> Link {
        let mut link = Link::new(1.0, ms(1), ms(1), 0.0);
        link.set(bottleneck);
        link.delivery();
        link
    }

    fn set(&mut self, bottleneck: Bottleneck) {
        let Bottleneck { mbits, rtt, buffer, loss, jitter, overtakes, bursts, policer } =
            bottleneck;
        self.rate = mbits * 1e6 / 8.0;
        self.delay = rtt;
        self.buffer = ((self.rate * buffer.as_secs_f64()) as u64).max(4 * MTU);
        (self.loss, self.jitter, self.overtakes, self.bursts) = (loss, jitter, overtakes, bursts);
        self.policer = policer.map(|(mbits, burst)| (mbits * 1e6 / 8.0, burst));
    }

    /// Sends so many bytes at once; returns the time until all of them were acknowledged.
    fn page(&mut self, bytes: u64) -> Duration {
        let (start, bytes) = (self.now, bytes.next_multiple_of(MTU));
        let goal = self.senders[0].acked + bytes;
        self.senders[0].supply = Some(0.0);
        self.senders[0].available += bytes as f64;
        while self.senders[0].acked < goal {
            self.step();
            assert!(self.now < start + ms(60_000), "a page of {bytes} bytes takes a minute");
        }
        self.now - start
    }

    /// So many pages, with a pause after each; their times in ascending order.
    fn pages(&mut self, count: usize, bytes: u64) -> Vec<Duration> {
        let page = |link: &mut Link| {
            let took = link.page(bytes);
            link.run(PAUSE);
            took
        };
        let mut took: Vec<Duration> = (0..count).map(|_| page(self)).collect();
        took.sort_unstable();
        took
    }

    /// Pages until then.
    fn pages_until(&mut self, end: Instant, bytes: u64) {
        while self.now < end {
            self.page(bytes);
            self.run(PAUSE);
        }
    }
}

#[test]
fn pages_take_as_long_as_on_a_path_that_never_changed() {
    for (name, before, after) in CHANGES {
        for bytes in PAGES {
            let mut fresh = Link::with(after);
            fresh.pages_until(fresh.now + SETTLED, bytes);
            let expected = fresh.pages(30, bytes);
            let mut link = Link::with(before);
            link.pages(20, bytes);
            link.set(after);
            let first = link.page(bytes);
            link.pages_until(link.now + SETTLED, bytes);
            let took = link.pages(30, bytes);
            let ratio = |at: usize| took[at].as_secs_f64() / expected[at].as_secs_f64();
            println!(
                "{name}, {bytes} bytes: first {first:?}, median {:?} ({:.2}), p95 {:?} ({:.2})",
                took[15],
                ratio(15),
                took[28],
                ratio(28)
            );
            for at in [15, 28] {
                assert!(
                    ratio(at) <= PAGE_RATIO_MAX,
                    "{name}, {bytes} bytes: {:?}, and {:?} on a path that never changed",
                    took[at],
                    expected[at]
                );
            }
        }
    }
}

/// The share of its path that a sender gets from [`SETTLED`] and six round trips after the change,
/// and that of one that has been there for three round trips less: so long does it take to find out
/// that the path is longer.
fn shares_after(before: Bottleneck, after: Bottleneck, supply: Option<f64>) -> (f64, f64) {
    let settled = SETTLED + 6 * after.rtt;
    let mut fresh = Link::with(after);
    fresh.senders[0].supply = supply;
    fresh.run(settled - 3 * after.rtt);
    let mut link = Link::with(before);
    link.senders[0].supply = supply;
    link.run(ms(3_000));
    link.set(after);
    link.run(settled);
    for link in [&mut fresh, &mut link] {
        // What waited meanwhile is replaced by newer frames.
        link.senders[0].available = 0.0;
    }
    (link.shares(ms(3_000))[0], fresh.shares(ms(3_000))[0])
}

#[test]
fn video_gets_what_it_would_on_a_path_that_never_changed() {
    for (name, before, after) in CHANGES {
        // Six tenths of the path: on the longer ones never idle.
        let (share, expected) = shares_after(before, after, Some(after.mbits * 1e6 / 8.0 * 0.6));
        println!("{name}: {share:.2} of the path; without the change {expected:.2}");
        assert!(share >= 0.8 * expected, "{name}: {share:.2} of the path and not {expected:.2}");
    }
}

#[test]
fn a_full_path_is_full_again_and_its_queue_short() {
    for (name, before, after) in CHANGES {
        let (share, expected) = shares_after(before, after, None);
        println!("{name}: {share:.2} of the path; without the change {expected:.2}");
        assert!(share >= 0.8 * expected, "{name}: {share:.2} of the path and not {expected:.2}");
    }
}

/// Jitter is no queue: a window for the shortest round trip alone would shrink with every round.
#[test]
fn jitter_does_not_empty_the_path() {
    let mut link = Link::with(JITTER);
    link.run(SETTLED);
    let share = link.shares(ms(20_000))[0];
    assert!(share >= 0.5, "{share:.2} of the path");
}

#[test]
fn a_policer_passes_its_rate_and_drops_a_fifth() {
    let mut link = Link::with(POLICED);
    link.run(SETTLED);
    let (acked, lost) = (link.senders[0].acked, link.senders[0].lost);
    link.run(ms(20_000));
    let (acked, lost) = (link.senders[0].acked - acked, link.senders[0].lost - lost);
    let rate = acked as f64 * 8e-6 / 20.0;
    let lost = lost as f64 / (acked + lost) as f64;
    assert!(rate >= 0.9 * 20.0, "{rate:.1} of 20 Mbit/s");
    // 0.21 today: without a queue every round sends a target queueing delay's worth too much, and
    // losses below LOSS_RATE_MAX count as a radio link's.
    assert!(lost <= 0.25, "{lost:.3} of the packets are lost");
}

/// One acknowledgement that a suspended viewer sends late is no longer path; two are.
#[test]
fn a_path_is_longer_after_two_samples_on_an_idle_path() {
    let mut link = Link::with(LAN);
    link.pages(5, PAGES[0]);
    let (mut now, until) = (link.now, link.now + ms(3_000));
    let Algorithm::Delivery(controller) = &mut link.senders[0].algorithm else { unreachable!() };
    assert_eq!(controller.delay.min(), Some(LAN.rtt));
    let mut sample = |rtt: Duration| {
        controller.on_sent(now, MTU, 0);
        let sent = now;
        now += rtt;
        assert!(now < until, "the smallest round trip would expire anyway");
        controller.handle_acked(now, sent, MTU, true);
        controller.on_end_acks(now, 0, true, None);
        (controller.delay.min().expect("it was measured"), controller.window)
    };
    assert_eq!(sample(ms(500)).0, LAN.rtt, "one may be late");
    assert_eq!(sample(LAN.rtt).0, LAN.rtt);
    assert_eq!(sample(ms(500)).0, LAN.rtt, "and another later");
    let (rtt, window) = sample(ms(66));
    assert_eq!(rtt, ms(66), "the smaller of two in a row");
    assert_eq!(window, INITIAL_PACKETS * MTU, "as on a new path");
    assert_eq!(sample(LAN.rtt).0, LAN.rtt, "a shorter one always counts");
}
