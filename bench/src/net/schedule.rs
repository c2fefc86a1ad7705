//! How a link changes with time: steps, gradual changes, and a synthetic mobile link. Beside the
//! path, from catalogue.rs to emulator.rs. Knows figures and times; never packets or clocks.

use std::time::Duration;

use crate::Error;
use crate::net::emulator::Random;
use crate::net::link::Link;

/// How often a gradual change makes a step: ten in the second that a rate takes on Wi-Fi.
const STEP: Duration = Duration::from_millis(100);

/// Links by the time from which each is in force, counted from the start of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule(Vec<(Duration, Link)>);

impl Schedule {
    /// # Errors
    /// Without a step, or with steps that are not in the order of their times.
    pub fn new(steps: Vec<(Duration, Link)>) -> Result<Schedule, Error> {
        if steps.is_empty() {
            return Err("a schedule has one step at least".into());
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 > pair[1].0) {
            return Err(format!(
                "a schedule's steps are in the order of their times: {:?} stands before {:?}",
                pair[0].0, pair[1].0
            )
            .into());
        }
        Ok(Schedule(steps))
    }

    /// The path is another one from now on.
    pub fn at_once(link: &Link) -> Schedule {
        Schedule(vec![(Duration::ZERO, link.clone())])
    }

    /// Rate and round trip go from those of one link to those of the other in equal ratios; all
    /// else is the other's from the first step on.
    pub fn gradually(from: &Link, to: &Link, within: Duration) -> Schedule {
        let steps = (within.as_nanos() / STEP.as_nanos()).max(1) as u32;
        let between = |from: f64, to: f64, share: f64| from * (to / from).powf(share);
        let step = |n: u32| {
            let share = f64::from(n) / f64::from(steps);
            let mut link = to.clone();
            if let (Some(from), Some(to)) = (from.rate_bps, to.rate_bps)
                && n < steps
            {
                link.rate_bps = Some(between(from as f64, to as f64, share) as u64);
            }
            if n < steps && !from.rtt.is_zero() && !to.rtt.is_zero() {
                let seconds = between(from.rtt.as_secs_f64(), to.rtt.as_secs_f64(), share);
                link.rtt = Duration::from_secs_f64(seconds);
            }
            (within * n / steps, link)
        };
        Schedule((1..=steps).map(step).collect())
    }

    /// `link` with the rate of a mobile network, for so long, from its seed: synthetic, by the
    /// model with which Winstein, Sivaraman and Balakrishnan forecast LTE and 3G networks (Sprout,
    /// NSDI 2013, section 3). Full packets arrive as a Poisson process whose rate does a Brownian
    /// motion of 200 packets a second and root second between 0 and 1000 packets a second (11
    /// Mbit/s). At 0 it stays until an outage ends, a second in the mean. The rate is held for the
    /// paper's tick of 20 ms; in an outage it is [`OUTAGE_BPS`], since a packet's departure is
    /// fixed when it is queued.
    pub fn mobile(link: &Link, length: Duration) -> Schedule {
        let mut random = Random::new(link.seed, 2);
        // A line in the middle of its range.
        let mut packets_s = PACKETS_S_MAX / 2.0;
        let tick = TICK.as_secs_f64();
        let ticks = (length.as_nanos() / TICK.as_nanos()).max(1) as u32;
        let step = |n: u32| {
            let stays = packets_s == 0.0 && random.unit() >= 1.0 - (-ESCAPE_PER_S * tick).exp();
            let motion = NOISE * tick.sqrt() * random.normal();
            let next = if packets_s == 0.0 { motion.abs() } else { packets_s + motion };
            packets_s = if stays { 0.0 } else { next.clamp(0.0, PACKETS_S_MAX) };
            let mut link = link.clone();
            let bps = packets_s * PACKET_BITS;
            link.rate_bps = Some((bps as u64).max(OUTAGE_BPS));
            link.queue_bytes = link.queue_of(crate::net::testbed::Direction::Down);
            (TICK * n, link)
        };
        Schedule((0..ticks).map(step).collect())
    }

    /// The steps, in the order of their times.
    pub fn steps(&self) -> &[(Duration, Link)] {
        &self.0
    }

    /// The link that remains when the schedule has ended.
    pub fn last(&self) -> &Link {
        &self.0.last().expect("a schedule has one step at least").1
    }
}

/// Sprout's tick, noise power, largest rate and rate of outages that end; bits of its packets.
const TICK: Duration = Duration::from_millis(20);
const NOISE: f64 = 200.0;
const PACKETS_S_MAX: f64 = 1000.0;
const ESCAPE_PER_S: f64 = 1.0;
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// 100 kbit/s: a full packet takes 120 ms.
const OUTAGE_BPS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Link {
        text.parse().unwrap()
    }

    #[test]
    fn a_gradual_change_ends_at_the_other_link() {
        let (fast, slow) = (link("rate=100mbit,rtt=66ms"), link("rate=5mbit,rtt=66ms,loss=1%"));
        let change = Schedule::gradually(&fast, &slow, Duration::from_secs(1));
        let rates: Vec<u64> = change.steps().iter().filter_map(|(_, link)| link.rate_bps).collect();
        assert_eq!(rates.len(), 10);
        // In equal ratios: the twentieth part in ten steps.
        assert_eq!(rates[4], 22_360_679);
        assert!(
            rates.windows(2).all(|pair| (pair[0] as f64 / pair[1] as f64 - 1.349).abs() < 1e-3)
        );
        assert_eq!(change.last(), &slow);
        assert_eq!(change.steps()[9].0, Duration::from_secs(1));
        assert_eq!(change.steps()[0].1.loss, 0.01);
    }

    #[test]
    fn a_schedule_is_in_order() {
        let step = |ms: u64| (Duration::from_millis(ms), link("lan"));
        assert!(Schedule::new(vec![]).unwrap_err().to_string().contains("one step"));
        let error = Schedule::new(vec![step(2), step(1)]).unwrap_err().to_string();
        assert!(error.contains("2ms") && error.contains("1ms"), "{error}");
    }

    /// A bounded Brownian motion is as often at each rate; outages add some time at 0.
    #[test]
    fn a_mobile_link_has_the_published_statistics() {
        let mobile = Schedule::mobile(&link("4g,queue=1s"), Duration::from_secs(4_000));
        let rates: Vec<f64> = mobile
            .steps()
            .iter()
            .map(|(_, link)| link.rate_bps.expect("it has a rate") as f64 / PACKET_BITS)
            .collect();
        assert_eq!(rates.len(), 200_000);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((280.0..400.0).contains(&mean), "{mean} packets a second in the mean");
        assert!(rates.iter().all(|rate| *rate <= PACKETS_S_MAX));
        // 200 packets a second in a second, away from the bounds.
        let inside = |pair: &&[f64]| pair.iter().all(|rate| (50.0..950.0).contains(rate));
        let moves: Vec<f64> =
            rates.windows(2).filter(inside).map(|pair| pair[1] - pair[0]).collect();
        let power = (moves.iter().map(|m| m * m).sum::<f64>() / moves.len() as f64 / 0.02).sqrt();
        assert!((195.0..205.0).contains(&power), "{power} packets a second and root second");
        let floor = OUTAGE_BPS as f64 / PACKET_BITS;
        let out = rates.iter().filter(|rate| **rate <= floor).count() as f64 / rates.len() as f64;
        assert!((0.2..0.4).contains(&out), "{out} of the time is an outage");
        let again = Schedule::mobile(&link("4g,queue=1s"), Duration::from_secs(4_000));
        assert_eq!(mobile, again, "the seed decides");
        let other = Schedule::mobile(&link("4g,queue=1s,seed=2"), Duration::from_secs(1));
        assert_ne!(mobile.steps()[49].1.rate_bps, other.steps()[49].1.rate_bps);
    }
}
