//! In the session, beside sender.rs: which earlier frames a packet repeats.
//! By what the viewer reports of the last seconds. Knows counts; never frames.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::sound::SoundState;

/// Loss is that of so long.
const WINDOW: Micros = 5_000_000;
/// Loss from which the last frame is repeated, and from which an earlier one too, in parts of
/// 1000.
const LOSS_SOME: u64 = 3;
const LOSS_MUCH: u64 = 30;
/// A single lost packet of five seconds at 50 a second is no rate: two are.
const LOST_MIN: u64 = 2;
/// One step less after so long without loss.
const CALM: Micros = 30_000_000;
/// Most reports kept: a viewer may send them often.
const REPORTS_MAX: usize = 64;

/// Which frames before its own a packet repeats, by step: the third before survives a burst of two
/// that takes the packet and the next.
const BACKS: [&[u8]; 3] = [&[], &[1], &[1, 3]];

/// The redundancy of one viewer's packets.
#[derive(Debug, Default)]
pub struct Redundancy {
    reports: VecDeque<(Micros, SoundState)>,
    step: usize,
    /// Since when nothing was lost, or since the last step down.
    calm_since: Micros,
}

impl Redundancy {
    /// The path is known to lose packets: begins with one repeat.
    pub fn expect_loss(&mut self, now: Micros) {
        if self.step == 0 {
            (self.step, self.calm_since) = (1, now);
        }
    }

    /// What the viewer has received.
    pub fn handle_state(&mut self, state: &SoundState, now: Micros) {
        let before = self.reports.back().map_or_else(SoundState::default, |&(_, before)| before);
        while self.reports.len() >= REPORTS_MAX
            // One report from before the window is what the others are compared with.
            || self.reports.get(1).is_some_and(|&(at, _)| at + WINDOW < now)
        {
            self.reports.pop_front();
        }
        self.reports.push_back((now, *state));
        if state.lost > before.lost {
            self.calm_since = now;
        }
        let first = self.reports.front().map_or(*state, |&(_, first)| first);
        let since = |newest: u32, oldest: u32| u64::from(newest.saturating_sub(oldest));
        let (lost, runs) = (since(state.lost, first.lost), since(state.runs, first.runs));
        let sent = lost + since(state.received, first.received);
        let wanted = if lost < LOST_MIN || lost * 1000 < sent * LOSS_SOME {
            0
        } else if lost * 1000 >= sent * LOSS_MUCH || runs > 1 {
            2
        } else {
            1
        };
        if wanted > self.step {
            (self.step, self.calm_since) = (wanted, now);
        } else if self.step > 0 && now >= self.calm_since + CALM {
            (self.step, self.calm_since) = (self.step - 1, now);
        }
    }

    /// How many frames before its own a packet repeats, nearest first.
    pub fn backs(&self) -> &'static [u8] {
        BACKS[self.step]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(redundancy: &mut Redundancy, second: u64, received: u32, lost: u32, runs: u32) {
        let state = SoundState { received, lost, runs, ..SoundState::default() };
        redundancy.handle_state(&state, second * 1_000_000);
    }

    #[test]
    fn it_follows_the_loss_and_goes_down_step_by_step() {
        let mut redundancy = Redundancy::default();
        for second in 0..10 {
            report(&mut redundancy, second, second as u32 * 100, 0, 0);
            assert_eq!(redundancy.backs(), &[] as &[u8]);
        }
        report(&mut redundancy, 10, 999, 1, 0);
        assert!(redundancy.backs().is_empty(), "one packet is no loss rate");
        report(&mut redundancy, 11, 1095, 5, 0);
        assert_eq!(redundancy.backs(), [1], "5 of 500");
        report(&mut redundancy, 12, 1180, 20, 0);
        assert_eq!(redundancy.backs(), [1, 3], "20 of 500");
        for second in 13..42 {
            report(&mut redundancy, second, second as u32 * 100, 20, 0);
            assert_eq!(redundancy.backs(), [1, 3]);
        }
        report(&mut redundancy, 42, 4200, 20, 0);
        assert_eq!(redundancy.backs(), [1]);
        report(&mut redundancy, 71, 7000, 20, 0);
        assert_eq!(redundancy.backs(), [1]);
        report(&mut redundancy, 72, 7000, 20, 0);
        assert!(redundancy.backs().is_empty());
    }

    #[test]
    fn runs_of_lost_packets_want_an_earlier_frame() {
        let mut redundancy = Redundancy::default();
        report(&mut redundancy, 1, 100, 0, 0);
        report(&mut redundancy, 2, 294, 6, 2);
        assert_eq!(redundancy.backs(), [1, 3]);
    }

    #[test]
    fn any_report_is_harmless() {
        let mut redundancy = Redundancy::default();
        for n in 0..1000_u32 {
            let odd = n.wrapping_mul(2_654_435_761);
            report(&mut redundancy, u64::from(n % 7), odd, odd.rotate_left(9), odd.rotate_left(17));
            assert!(redundancy.reports.len() <= REPORTS_MAX);
        }
    }
}
