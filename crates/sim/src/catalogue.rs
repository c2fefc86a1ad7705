//! Beside link.rs: the catalogue of paths that change while a viewer is connected, in virtual time.
//! From a name and a seed, to the conditions of a connection at any time after the change. Knows
//! figures; never sessions or viewers. The link emulator of thinc-bench has the same names in
//! bench/src/net/catalogue.rs.

use thinc_protocol::Micros;

use crate::link::Path;
use crate::loss::Losses;
use crate::random::Random;

/// Both directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// From the session to the viewer.
    pub down: Path,
    /// From the viewer to the session.
    pub up: Path,
    /// What is lost and late, in both.
    pub losses: Losses,
}

impl Conditions {
    const fn both(mbits: u64, rtt: Micros) -> Conditions {
        let path = Path { bytes_per_second: mbits * MBIT, delay: rtt / 2, jitter: 0 };
        let losses = Losses { bursts: None, policer: None, late: None };
        Conditions { down: path, up: path, losses }
    }

    const fn jitter(mut self, jitter: Micros) -> Conditions {
        self.down.jitter = jitter;
        self.up.jitter = jitter;
        self
    }
}

/// What happens to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The next segment takes the other path.
    AtOnce,
    /// The rate goes to the other path's in equal ratios, within so long.
    Within(Micros),
    /// Nothing passes for so long, as packets still go to the old address.
    Outage(Micros),
    /// Half of the rate, and a queue that grows from nothing to so long and is then cut to 7/10, as
    /// CUBIC keeps it (RFC 9438), in a period of so many round trips.
    CompetingFlow { queue: Micros, period: Micros },
    /// The rate does a random walk; see [`mobile_rate`].
    Mobile,
}

/// One path that changes.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, as in thinc-bench.
    pub name: &'static str,
    /// In words.
    pub about: &'static str,
    /// The path before.
    pub before: Conditions,
    after: Conditions,
    change: Change,
}

/// Bytes a second of one Mbit/s.
const MBIT: u64 = 125_000;
const MS: Micros = 1_000;
const LAN: Conditions = Conditions::both(100, 200);
const WAN: Conditions = Conditions::both(100, 66 * MS);
const SATELLITE: Conditions = Conditions::both(100, 600 * MS);
const DSL: Conditions = Conditions::both(5, 66 * MS);
const RADIO: Conditions = Conditions::both(24, 66 * MS);
const SHARED: Conditions = Conditions::both(24, 40 * MS);
const MOBILE: Conditions = Conditions::both(6, 70 * MS);

const fn entry(
    name: &'static str,
    about: &'static str,
    before: Conditions,
    after: Conditions,
    change: Change,
) -> Entry {
    Entry { name, about, before, after, change }
}

const fn losing(mut conditions: Conditions, losses: Losses) -> Conditions {
    conditions.losses = losses;
    conditions
}

const NO_LOSSES: Losses = Losses { bursts: None, policer: None, late: None };

/// Every entry.
pub const CATALOGUE: &[Entry] = &[
    entry("delay-up", "a cable is left: 0.2 to 66 ms", LAN, WAN, Change::AtOnce),
    entry("delay-down", "a cable is found: 66 to 0.2 ms", WAN, LAN, Change::AtOnce),
    entry("satellite-up", "66 to 600 ms", WAN, SATELLITE, Change::AtOnce),
    entry("satellite-down", "600 to 66 ms", SATELLITE, WAN, Change::AtOnce),
    entry("rate-down", "100 to 5 Mbit/s", WAN, DSL, Change::Within(1_000 * MS)),
    entry("rate-up", "5 to 100 Mbit/s", DSL, WAN, Change::Within(1_000 * MS)),
    entry("new-address", "packets are lost for 200 ms", WAN, WAN, Change::Outage(200 * MS)),
    // Each way half of the 20 ms above and below the mean.
    entry("jitter", "20 ms more or less", WAN, WAN.jitter(20 * MS), Change::AtOnce),
    entry(
        "reordering",
        "one segment in fifty is 5 ms late",
        WAN,
        losing(WAN, Losses { late: Some((20, 5 * MS)), ..NO_LOSSES }),
        Change::AtOnce,
    ),
    entry(
        "bursts",
        "one segment in eleven is lost, five in a row in the mean",
        RADIO,
        losing(RADIO, Losses { bursts: Some((20, 200)), ..NO_LOSSES }),
        Change::AtOnce,
    ),
    // A second of queue: this transport's window never fills it, so the rate alone changes.
    entry("bufferbloat", "5 Mbit/s at once, with a deep queue", WAN, DSL, Change::AtOnce),
    entry(
        "policer",
        "20 Mbit/s and bursts of 100 ms, the rest is dropped",
        WAN,
        losing(WAN, Losses { policer: Some((20 * MBIT, 250_000)), ..NO_LOSSES }),
        Change::AtOnce,
    ),
    entry(
        "competing-flow",
        "half of 24 Mbit/s, behind a queue of up to 40 ms",
        SHARED,
        SHARED,
        Change::CompetingFlow { queue: 40 * MS, period: 2_000 * MS },
    ),
    entry(
        "asymmetric",
        "10 Mbit/s down, 0.5 up",
        WAN,
        Conditions {
            down: Path { bytes_per_second: 10 * MBIT, delay: 20 * MS, jitter: 0 },
            up: Path { bytes_per_second: MBIT / 2, delay: 20 * MS, jitter: 0 },
            losses: NO_LOSSES,
        },
        Change::AtOnce,
    ),
    entry("mobile", "0 to 12 Mbit/s at random", WAN, MOBILE, Change::Mobile),
];

impl Entry {
    /// The conditions so long after the change.
    pub fn at(&self, since: Micros, seed: u64) -> Conditions {
        let mut now = self.after;
        match self.change {
            Change::AtOnce => {}
            Change::Within(time) if since < time => {
                let ratio = |from: u64, to: u64| {
                    let share = since as f64 / time as f64;
                    (from as f64 * (to as f64 / from as f64).powf(share)) as u64
                };
                let [before, after] = [&self.before, &self.after].map(|c| c.down.bytes_per_second);
                now.down.bytes_per_second = ratio(before, after);
                now.up.bytes_per_second = ratio(before, after);
            }
            Change::Outage(time) if since < time => {
                // What is sent meanwhile arrives after it.
                now.down.delay += time - since;
                now.up.delay += time - since;
            }
            Change::Within(_) | Change::Outage(_) => {}
            Change::CompetingFlow { queue, period } => {
                let least = queue * 7 / 10;
                now.down.bytes_per_second /= 2;
                now.down.delay += least + (queue - least) * (since % period) / period;
            }
            Change::Mobile => {
                let rate = mobile_rate(since, seed);
                now.down.bytes_per_second = rate;
                now.up.bytes_per_second = rate;
            }
        }
        now
    }

    /// The conditions for a viewer that connects after the change: an outage and a gradual change
    /// are over.
    pub fn after(&self, since: Micros, seed: u64) -> Conditions {
        match self.change {
            Change::Within(time) | Change::Outage(time) => self.at(time + since, seed),
            _ => self.at(since, seed),
        }
    }
}

/// How long a rate holds, as in Sprout.
const MOBILE_TICK: Micros = 20 * MS;
/// 0.1 Mbit/s in an outage: when a segment leaves is decided when it is sent.
const MOBILE_RATE_MIN: u64 = MBIT / 10;

/// Bytes a second of a mobile link: full packets of a rate that does a Brownian motion of 200
/// packets a second and root second between 0 and 1000, and stays at 0 for a second in the mean
/// (Winstein, Sivaraman and Balakrishnan, Sprout, NSDI 2013, section 3).
fn mobile_rate(since: Micros, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut packets: f64 = 500.0;
    for _ in 0..since / MOBILE_TICK {
        // The sum of twelve uniform numbers has a variance of 1.
        let normal = (0..12).map(|_| random.below(1 << 20) as f64).sum::<f64>() / (1 << 20) as f64;
        let motion = 200.0 * 0.02_f64.sqrt() * (normal - 6.0);
        let escapes = random.below(1000) < 20;
        packets = match packets {
            0.0 if !escapes => 0.0,
            0.0 => motion.abs(),
            _ => (packets + motion).clamp(0.0, 1_000.0),
        };
    }
    ((packets * 1_500.0) as u64).max(MOBILE_RATE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Entry {
        CATALOGUE.iter().find(|entry| entry.name == name).expect("the catalogue has it")
    }

    #[test]
    fn a_gradual_change_goes_in_equal_ratios() {
        let rates = [0, 500 * MS, 1_000 * MS, 9_000 * MS]
            .map(|since| named("rate-down").at(since, 0).down.bytes_per_second);
        assert_eq!(rates, [12_500_000, 2_795_084, 625_000, 625_000]);
        assert_eq!(named("rate-down").after(0, 0), DSL);
    }

    #[test]
    fn what_is_sent_in_an_outage_arrives_when_it_is_over() {
        let entry = named("new-address");
        assert_eq!(entry.at(50 * MS, 0).down.delay, 33 * MS + 150 * MS);
        assert_eq!(entry.at(200 * MS, 0), WAN);
        assert_eq!(entry.after(0, 0), WAN);
    }

    #[test]
    fn a_competing_flow_keeps_half_and_a_queue() {
        let entry = named("competing-flow");
        let delays = [0, 1_999 * MS, 2_000 * MS].map(|since| entry.at(since, 0).down.delay);
        assert_eq!(delays, [48 * MS, 59_994, 48 * MS]);
        assert_eq!(entry.at(0, 0).down.bytes_per_second, 12 * MBIT);
    }

    #[test]
    fn a_mobile_link_follows_its_seed() {
        let rates = |seed| (0..500).map(|n| mobile_rate(n * 100 * MS, seed)).collect::<Vec<_>>();
        let first = rates(1);
        assert_eq!(first, rates(1));
        assert_ne!(first, rates(2));
        let all: Vec<u64> = (1..20).flat_map(rates).collect();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64 / 1_500.0;
        assert!((280.0..450.0).contains(&mean), "{mean} packets a second in the mean");
        assert!(all.iter().all(|rate| (MOBILE_RATE_MIN..=1_500_000).contains(rate)));
    }
}
