//! Beside link.rs: which segments of a stream are lost on a path with bursts, a policer or
//! reordering, and are retransmitted or late because of it. From catalogue.rs. Knows shares, sizes
//! and times; never contents.

use thinc_protocol::Micros;

use crate::random::Random;

/// What a path does to segments beside delaying them. Shares are of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Losses in bursts (Gilbert 1960): segments at which a burst begins, and at which it ends.
    pub bursts: Option<(u64, u64)>,
    /// A token bucket that drops: bytes a second, and bytes at once after a pause.
    pub policer: Option<(u64, u64)>,
    /// Segments that arrive late, and by how much. A stream waits for them.
    pub late: Option<(u64, Micros)>,
}

/// The state of [`Losses`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossState {
    losses: Losses,
    in_burst: bool,
    /// Bytes that may pass, in millionths.
    tokens: u64,
    filled_at: Micros,
}

impl LossState {
    pub(crate) const NONE: LossState = LossState {
        losses: Losses { bursts: None, policer: None, late: None },
        in_burst: false,
        tokens: 0,
        filled_at: 0,
    };

    /// Other losses from now on; a policer starts full.
    pub(crate) fn set(&mut self, losses: Losses, now: Micros) {
        if losses == self.losses {
            return;
        }
        let tokens = losses.policer.map_or(0, |(_, burst)| burst * 1_000_000);
        *self = LossState { losses, in_burst: false, tokens, filled_at: now };
    }

    /// True if a segment of so many bytes that is sent now is lost.
    pub(crate) fn loses(&mut self, bytes: u64, now: Micros, random: &mut Random) -> bool {
        if let Some((begin, end)) = self.losses.bursts {
            self.in_burst ^= random.below(1000) < if self.in_burst { end } else { begin };
        }
        if let Some((rate, burst)) = self.losses.policer {
            let gained = now.saturating_sub(self.filled_at) * rate;
            self.tokens = (self.tokens + gained).min(burst * 1_000_000);
            self.filled_at = self.filled_at.max(now);
            if self.tokens < bytes * 1_000_000 {
                return true;
            }
            self.tokens -= bytes * 1_000_000;
        }
        self.in_burst
    }

    /// By how much a segment is late.
    pub(crate) fn late_by(&self, random: &mut Random) -> Micros {
        match self.losses.late {
            Some((share, by)) if random.below(1000) < share => by,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(losses: Losses) -> LossState {
        let mut state = LossState::NONE;
        state.set(losses, 0);
        state
    }

    #[test]
    fn bursts_have_their_share_and_length() {
        let mut state = state(Losses { bursts: Some((20, 200)), ..Losses::default() });
        let mut random = Random::new(5);
        let lost: Vec<bool> = (0..200_000).map(|_| state.loses(1448, 0, &mut random)).collect();
        let total = lost.iter().filter(|lost| **lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // Two of 22 in bursts of five; five standard deviations of a Markov chain are 1,850.
        assert!(total.abs_diff(18_182) < 1_850, "{total} of 200,000");
        let length = total as f64 / bursts as f64;
        assert!((4.6..5.4).contains(&length), "bursts of {length} segments");
    }

    #[test]
    fn a_policer_passes_its_burst_and_then_its_rate() {
        // 1,500 bytes a millisecond.
        let mut state = state(Losses { policer: Some((1_500_000, 4_500)), ..Losses::default() });
        let mut random = Random::new(5);
        let lost =
            [0, 0, 0, 0, 1, 1, 3, 3, 3].map(|ms| state.loses(1_500, ms * 1_000, &mut random));
        assert_eq!(lost, [false, false, false, true, false, true, false, false, true]);
    }

    #[test]
    fn late_segments_have_their_share() {
        let state = state(Losses { late: Some((100, 5_000)), ..Losses::default() });
        let mut random = Random::new(5);
        let late = (0..10_000).filter(|_| state.late_by(&mut random) == 5_000).count();
        assert!(late.abs_diff(1_000) < 150, "{late} of 10,000");
    }
}
