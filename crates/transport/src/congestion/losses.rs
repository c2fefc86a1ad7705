//! Path 10/13: under congestion.rs, how many packets a path loses, and why. From packets
//! acknowledged and lost, to the window. Knows bytes and rounds; never round trips.
//!
//! Losses count only if they are many, and then only if a smaller window reduces them: it does if
//! a short queue overflows, and does not if a radio link loses packets at random.

use std::time::{Duration, Instant};

/// Loss rate above which the cause is determined. Wi-Fi at the edge of its range loses less; an
/// overflowing queue soon loses more.
pub(super) const LOSS_RATE_MAX: f64 = 0.15;
/// The same while there is a standing queue, which then is the cause.
const LOSS_RATE_WITH_QUEUE_MAX: f64 = 0.01;
/// Fewest packets that a loss rate is computed from.
const LOSS_SAMPLE_PACKETS_MIN: u64 = 40;
/// How long a loss cause remains valid once it was determined.
const LOSS_CAUSE_LIFETIME: Duration = Duration::from_secs(5);
/// Loss rate up to which a larger window compensates for losses. Beyond it half of what is sent
/// would be lost, and a third of the path has to suffice.
const LOSS_COMPENSATION_MAX: f64 = 0.35;
const CONGESTION_COMPENSATION_MAX: f64 = 0.05;

/// Why many packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossCause {
    /// There are few losses.
    None,
    /// A queue overflows: the window is limited to the bandwidth-delay product.
    Congestion,
    /// The loss rate does not depend on the window (a radio link): a larger window compensates for
    /// it.
    Random,
}

/// Bytes that were acknowledged and lost in some rounds.
#[derive(Clone, Copy, Debug, Default)]
struct LossSample {
    acked: u64,
    lost: u64,
}

impl LossSample {
    fn loss_rate(self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }
}

/// The loss rate of the last rounds, and its cause.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    sample: LossSample,
    /// The round in which the sample began.
    sample_round: u64,
    cause: LossCause,
    cause_until: Instant,
    /// Loss rate before the window was reduced to find out whether that reduces the losses.
    probing: Option<f64>,
    /// Packets sent before this count as overtaken and not as lost: their path was longer than the
    /// one that later packets took.
    overtaken_before: Instant,
}

impl Losses {
    /// Of a path that has lost nothing yet.
    pub(super) fn new(now: Instant) -> Losses {
        Losses {
            sample: LossSample::default(),
            sample_round: 0,
            cause: LossCause::None,
            cause_until: now,
            probing: None,
            overtaken_before: now,
        }
    }

    /// Counts bytes that were acknowledged.
    pub(super) fn handle_acked(&mut self, bytes: u64) {
        self.sample.acked += bytes;
    }

    /// Counts bytes that were lost, the newest of them sent at that time.
    pub(super) fn handle_lost(&mut self, sent: Instant, bytes: u64) {
        if sent >= self.overtaken_before {
            self.sample.lost += bytes;
        }
    }

    /// The path has become much shorter: packets from now on overtake those before.
    pub(super) fn handle_shorter_path(&mut self, now: Instant) {
        self.overtaken_before = now;
    }

    /// The window in bytes that the losses ask for, from the bandwidth-delay product and from a
    /// full window; `None` if there are few.
    pub(super) fn window(&self, bdp: f64, full: f64) -> Option<u64> {
        let lost = self.sample.loss_rate();
        let window = match self.cause {
            _ if self.probing.is_some() => bdp,
            LossCause::Congestion => bdp / (1.0 - lost.min(CONGESTION_COMPENSATION_MAX)),
            LossCause::Random => full / (1.0 - lost.clamp(LOSS_RATE_MAX, LOSS_COMPENSATION_MAX)),
            LossCause::None => return None,
        };
        Some(window as u64)
    }

    /// The round before this one has ended: determines why packets are lost, once enough were sent
    /// for a loss rate. True if the losses show that the path is full.
    pub(super) fn end_round(
        &mut self,
        now: Instant,
        round: u64,
        mtu: u64,
        has_standing_queue: bool,
    ) -> bool {
        if now >= self.cause_until && self.probing.is_none() {
            self.cause = LossCause::None;
        }
        // Packets that are lost in the first round were sent before the sample began.
        if round == self.sample_round + 1 && self.cause != LossCause::Random {
            self.sample = LossSample::default();
            return false;
        }
        let packets = (self.sample.acked + self.sample.lost) / mtu.max(1);
        if packets < LOSS_SAMPLE_PACKETS_MIN || round < self.sample_round + 3 {
            return false;
        }
        let lost = self.sample.loss_rate();
        let mut begins_probe = false;
        let cause = match self.probing.take() {
            Some(before) if lost < before / 2.0 => Some(LossCause::Congestion),
            Some(_) if lost > LOSS_RATE_MAX => Some(LossCause::Random),
            Some(_) => Some(LossCause::None),
            None if lost > LOSS_RATE_WITH_QUEUE_MAX && has_standing_queue => {
                Some(LossCause::Congestion)
            }
            None if lost <= LOSS_RATE_MAX => None,
            None if self.cause == LossCause::None => {
                self.probing = Some(lost);
                begins_probe = true;
                None
            }
            // The smaller window has not reduced the losses.
            None if self.cause == LossCause::Congestion => Some(LossCause::Random),
            None => None,
        };
        if let Some(cause) = cause {
            self.cause = cause;
            self.cause_until = now + LOSS_CAUSE_LIFETIME;
        }
        if cause != Some(LossCause::Random) && self.cause != LossCause::Random {
            self.sample = LossSample::default();
        } else {
            // Half of the old sample stays, so that the compensation changes slowly.
            self.sample = LossSample { acked: self.sample.acked / 2, lost: self.sample.lost / 2 };
        }
        self.sample_round = round;
        begins_probe || cause.is_some()
    }

    /// What causes the losses, for tests.
    #[cfg(test)]
    pub(super) fn cause(&self) -> LossCause {
        self.cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;
    const ROUND: Duration = Duration::from_millis(40);

    /// Losses on a path, round by round.
    struct Path {
        losses: Losses,
        now: Instant,
        round: u64,
    }

    impl Path {
        fn new() -> Path {
            let now = Instant::now();
            Path { losses: Losses::new(now), now, round: 0 }
        }

        /// So many rounds of a hundred packets, of which so many are lost. True if any of the
        /// rounds showed that the path is full.
        fn rounds(&mut self, count: u64, lost: u64, has_standing_queue: bool) -> bool {
            let mut is_full = false;
            for _ in 0..count {
                self.losses.handle_acked((100 - lost) * MTU);
                self.losses.handle_lost(self.now, lost * MTU);
                self.now += ROUND;
                self.round += 1;
                is_full |= self.losses.end_round(self.now, self.round, MTU, has_standing_queue);
            }
            is_full
        }

        /// The windows that the losses ask for, of 100 and of 120 bytes.
        fn window(&self) -> Option<u64> {
            self.losses.window(100_000.0, 120_000.0)
        }
    }

    #[test]
    fn few_losses_ask_for_nothing() {
        let mut path = Path::new();
        assert!(!path.rounds(30, 14, false), "a radio link");
        assert_eq!((path.losses.cause(), path.window()), (LossCause::None, None));
    }

    #[test]
    fn losses_with_a_standing_queue_are_the_queues() {
        let mut path = Path::new();
        assert!(path.rounds(4, 2, true));
        assert_eq!(path.losses.cause(), LossCause::Congestion);
        let window = path.window().expect("it is limited");
        assert!((100_000..106_000).contains(&window), "no more than the path holds: {window}");
    }

    #[test]
    fn a_smaller_window_tells_a_short_queue_from_a_radio_link() {
        let mut queue = Path::new();
        assert!(queue.rounds(3, 30, false), "a path that loses so many is full");
        assert_eq!(queue.window(), Some(100_000), "the window is reduced to find out");
        queue.rounds(3, 5, false);
        assert_eq!(queue.losses.cause(), LossCause::Congestion);
        let mut radio = Path::new();
        radio.rounds(6, 30, false);
        assert_eq!(radio.losses.cause(), LossCause::Random);
        let window = radio.window().expect("it compensates for the losses");
        assert!((160_000..=172_000).contains(&window), "{window}");
    }

    #[test]
    fn a_window_compensates_for_a_third_and_no_more() {
        let mut path = Path::new();
        path.rounds(30, 80, false);
        assert_eq!(path.losses.cause(), LossCause::Random);
        assert_eq!(path.window(), Some((120_000.0 / (1.0 - LOSS_COMPENSATION_MAX)) as u64));
    }

    #[test]
    fn a_cause_is_forgotten_when_its_time_is_over() {
        let mut path = Path::new();
        path.rounds(3, 2, true);
        assert_eq!(path.losses.cause(), LossCause::Congestion);
        path.rounds(LOSS_CAUSE_LIFETIME.as_millis() as u64 / ROUND.as_millis() as u64, 0, false);
        assert_eq!(path.losses.cause(), LossCause::None);
    }

    #[test]
    fn packets_that_are_overtaken_on_a_shorter_path_are_not_lost() {
        let mut path = Path::new();
        path.rounds(1, 0, false);
        for _ in 0..5 {
            path.losses.handle_shorter_path(path.now + ROUND);
            assert!(!path.rounds(1, 90, true));
        }
        assert_eq!(path.losses.cause(), LossCause::None);
    }
}
