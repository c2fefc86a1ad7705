//! Path 10/13 and back: beside update.rs, of whose updates some go alone, as datagrams that nobody sends again once they are lost.
//! Which of them are lost: what the viewer says has arrived of the others tells, and else the time (RFC 9002 in small).
//! Knows numbers and times; never what an update did.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;

use crate::repeats::Repeats;

/// Updates that arrived of those sent later, by which one is lost (RFC 9002, §6.1.1): a path reorders by less.
const REORDERING: u32 = 3;
/// Nine eighths of a round trip, after which one is lost before which a later one has arrived (§6.1.2), and 2 ms at least: both ends
/// take their time.
const PATIENCE: (Micros, Micros) = (9, 8);
const PATIENCE_MIN: Micros = 2_000;
/// What a viewer may take before it says that something has arrived, beside what was measured: it waits for a moment for what an update
/// must follow.
const ANSWER_TIME: Micros = 8_000;
/// Round trip before one was measured.
const RTT_UNKNOWN: Micros = 100_000;
/// 250 ms: longest time between two attempts on a path that brings nothing back. A few hundred bytes each, and they find the end of an
/// outage as soon as a person does.
const SILENCE_MAX: Micros = 250_000;
/// 150 ms, or two round trips: where nothing has come back for so long of what is under way, the path is asked, and every 150 ms from
/// then on. What was sent in order is sent again ever more rarely by itself, and is missed as soon as anything sent later has arrived.
const ASK_INTERVAL: Micros = 150_000;
/// A quarter of a round trip, and 4 ms at least: where the path loses some, it is asked so long after what left or came back last, and
/// again after twice that and so on. Of what left last, nothing else would tell that it is lost but the transport's own timer, which
/// waits for longer than a round trip and for twice that when what it sends again is lost too.
const TAIL_PART: Micros = 4;
const TAIL_MIN: Micros = 4_000;
/// Where this many in a row were taken for lost, and only what the viewer says again tells that they were not, its words come late, and
/// are not lost: the path is longer than was believed.
const BELATED_MAX: u32 = 3;
/// Where so many attempts in a row were lost, and nothing came alone, what is to leave goes by the stream for 1 s before another tries:
/// a browser or a box on the way may swallow all of them. One in ten thousand on a path that loses every third.
const UNHEARD_MAX: u32 = 8;
const UNHEARD_TIME: Micros = 1_000_000;
/// Lost ones remembered: where one of them comes all the same, the path has become longer, and none was lost.
const REGRETTED_MAX: usize = 32;
/// Weight of the newest in the share that is lost.
const SHARE_WEIGHT: f32 = 1.0 / 32.0;
/// Share of what goes alone that is lost, above which all goes alone that fits and what has left is asked about: below it the few that
/// are waited for cost less than what packing saves.
const LOSSY_SHARE: f32 = 0.005;

#[derive(Clone, Copy, Debug)]
struct Alone {
    seq: u64,
    at: Micros,
    /// Later updates that have arrived.
    passed: u32,
}

/// One viewer's updates that went alone and of which nothing is known.
#[derive(Debug)]
pub(crate) struct Losses {
    under_way: VecDeque<Alone>,
    lost: VecDeque<Alone>,
    /// Smoothed round trip, and how far it goes from that; None before one was measured.
    rtt: Option<(Micros, Micros)>,
    /// Attempts in a row that nothing came of.
    silences: u32,
    /// When the last of them ended: what had left by then tells nothing more of the path.
    silenced_at: Micros,
    /// Attempts in a row that were lost where none came, when the last of them ended, and when the last of all left.
    unheard: u32,
    unheard_at: Micros,
    sent_at: Micros,
    /// Those in a row that were taken for lost and of which it was said again that they were not.
    belated: u32,
    /// When the path was asked last.
    asked_at: Micros,
    share: f32,
    /// What goes once more before anything is known of it.
    pub(crate) repeats: Repeats,
}

impl Default for Losses {
    /// A path that is taken for a bad one until it has shown otherwise.
    fn default() -> Losses {
        let (under_way, lost) = (VecDeque::new(), VecDeque::new());
        Losses {
            under_way,
            lost,
            rtt: None,
            silences: 0,
            silenced_at: 0,
            unheard: 0,
            unheard_at: 0,
            sent_at: 0,
            belated: 0,
            asked_at: 0,
            share: SHARE_WEIGHT,
            repeats: Repeats::default(),
        }
    }
}

impl Losses {
    /// It left.
    pub(crate) fn sent(&mut self, seq: u64, now: Micros) {
        self.under_way.push_back(Alone { seq, at: now, passed: 0 });
        self.sent_at = now;
    }

    /// Something may go alone, as far as is known of how the path treats those.
    pub(crate) fn come_through(&self, now: Micros) -> bool {
        self.unheard < UNHEARD_MAX || self.sent_at + UNHEARD_TIME <= now
    }

    /// These have arrived; some of them may have been said before. `at_once`: that is said as soon as they have, and tells how long the path is.
    pub(crate) fn arrived(&mut self, seqs: &RangeInclusive<u64>, at_once: bool, now: Micros) {
        let newest = self.under_way.iter().rev().find(|alone| seqs.contains(&alone.seq)).copied();
        if let Some(newest) = newest {
            if at_once {
                self.measure(now.saturating_sub(newest.at).max(1));
                self.belated = 0;
            }
            self.silences = 0;
        }
        let before = self.under_way.len();
        self.under_way.retain(|alone| !seqs.contains(&alone.seq));
        for _ in self.under_way.len()..before {
            self.share -= self.share * SHARE_WEIGHT;
            self.unheard = 0;
        }
        // It was not lost, but late: what is measured now is longer than what was believed.
        while let Some(at) = self.lost.iter().position(|alone| seqs.contains(&alone.seq)) {
            if let Some(late) = self.lost.remove(at) {
                self.belated += u32::from(!at_once);
                if at_once || self.rtt.is_none() || self.belated >= BELATED_MAX {
                    self.measure(now.saturating_sub(late.at).max(1));
                }
                self.share = (self.share - SHARE_WEIGHT).max(0.0);
                (self.silences, self.unheard) = (0, 0);
            }
        }
    }

    /// Update `seq`, alone or not, has arrived, which was not known: those sent before it should have, too.
    pub(crate) fn passed(&mut self, seq: u64) {
        for alone in self.under_way.iter_mut().take_while(|alone| alone.seq < seq) {
            alone.passed += 1;
        }
    }

    fn measure(&mut self, sample: Micros) {
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((rtt, far)) => ((rtt * 7 + sample) / 8, (far * 3 + rtt.abs_diff(sample)) / 4),
        });
    }

    /// When it counts as lost, if nothing else comes.
    fn due(&self, alone: &Alone) -> Micros {
        if alone.passed >= REORDERING {
            return alone.at;
        }
        let (rtt, far) = self.rtt.unwrap_or((RTT_UNKNOWN, RTT_UNKNOWN / 2));
        if alone.passed > 0 {
            return alone.at + (rtt * PATIENCE.0 / PATIENCE.1).max(rtt + PATIENCE_MIN);
        }
        let patience = rtt + 4 * far + ANSWER_TIME;
        alone.at + (patience << self.silences.min(8)).min(patience.max(SILENCE_MAX))
    }

    /// When one of them counts as lost, if nothing else comes.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.under_way.iter().map(|alone| self.due(alone)).min()
    }

    /// When the path is to be asked whether it carries, where nothing has come back `since` then of what is under way, alone or not, and
    /// the last of it left at `sent`.
    pub(crate) fn ask_due(&self, since: Micros, sent: Micros, rtt: Micros) -> Micros {
        if self.is_lossy() {
            let (stirred, step) = (since.max(sent), (rtt / TAIL_PART).clamp(TAIL_MIN, ASK_INTERVAL));
            return match self.asked_at.checked_sub(stirred) {
                Some(quiet) => self.asked_at + quiet.clamp(step, ASK_INTERVAL),
                None => stirred + step,
            };
        }
        let first = since + ASK_INTERVAL.max(2 * rtt);
        if self.asked_at < first { first } else { self.asked_at + ASK_INTERVAL }
    }

    /// It is asked now.
    pub(crate) fn asked(&mut self, now: Micros) {
        self.asked_at = now;
    }

    /// The oldest of which nothing is known.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|alone| alone.seq)
    }

    /// One that is lost by now.
    pub(crate) fn poll(&mut self, now: Micros) -> Option<u64> {
        let at = self.under_way.iter().position(|alone| self.due(alone) <= now)?;
        let lost = self.under_way.remove(at)?;
        if lost.at >= self.unheard_at {
            self.unheard += 1;
            self.unheard_at = now;
        }
        if lost.passed == 0 && lost.at >= self.silenced_at {
            self.silences += 1;
            self.silenced_at = now;
        }
        self.remember(lost);
        Some(lost.seq)
    }

    /// The viewer will not apply it.
    pub(crate) fn discarded(&mut self, seq: u64) {
        self.under_way.retain(|alone| alone.seq != seq);
    }

    fn remember(&mut self, lost: Alone) {
        self.share += (1.0 - self.share) * SHARE_WEIGHT;
        if self.lost.len() == REGRETTED_MAX {
            self.lost.pop_front();
        }
        self.lost.push_back(lost);
    }

    /// So many are lost that it costs less to send some in vain than to wait for those that are.
    pub(crate) fn is_lossy(&self) -> bool {
        self.share > LOSSY_SHARE
    }

    #[cfg(test)]
    fn share(&self) -> f32 {
        self.share
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.under_way.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Micros = 40_000;

    /// After some that arrived a round trip later.
    fn measured() -> (Losses, u64, Micros) {
        let mut losses = Losses::default();
        let mut now = 0;
        for seq in 1..=20 {
            losses.sent(seq, now);
            now += RTT;
            losses.arrived(&(1..=seq), true, now);
        }
        assert_eq!((losses.len(), losses.deadline()), (0, None));
        (losses, 20, now)
    }

    fn all_lost(losses: &mut Losses, now: Micros) -> Vec<u64> {
        std::iter::from_fn(|| losses.poll(now)).collect()
    }

    #[test]
    fn what_is_said_again_later_tells_nothing_of_the_path() {
        let (mut losses, mut seq, mut now) = measured();
        let patience = |losses: &mut Losses, seq, now| {
            losses.sent(seq, now);
            let due = losses.deadline().unwrap() - now;
            losses.arrived(&(seq..=seq), true, now + RTT);
            due
        };
        let before = patience(&mut losses, seq + 1, now);
        for _ in 0..10 {
            seq += 2;
            now += 2 * RTT;
            losses.sent(seq, now);
            losses.arrived(&(1..=seq), false, now + 5 * RTT);
        }
        assert!(patience(&mut losses, seq + 1, now) <= before, "its first word was lost, and not the path longer");
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_when_words_come_late_three_times_in_a_row() {
        let (mut losses, mut seq, mut now) = measured();
        let mut spurious = 0;
        for _ in 0..20 {
            (seq, now) = (seq + 1, now + 40 * RTT);
            losses.sent(seq, now);
            let lost = losses.poll(now + 20 * RTT);
            spurious += u32::from(lost.is_some());
            losses.arrived(&(seq..=seq), false, now + 20 * RTT);
        }
        assert!((BELATED_MAX..10).contains(&spurious), "{spurious} were taken for lost that were not");
    }

    #[test]
    fn three_that_were_sent_later_say_so_at_once() {
        let (mut losses, _, now) = measured();
        (21..=24).for_each(|seq| losses.sent(seq, now));
        for later in 22..=23 {
            losses.arrived(&(later..=later), true, now + RTT);
            losses.passed(later);
        }
        assert_eq!(losses.poll(now + RTT), None, "a path reorders");
        losses.arrived(&(24..=24), true, now + RTT);
        losses.passed(24);
        assert_eq!(all_lost(&mut losses, now + RTT), [21]);
        assert!(losses.share() > 0.02);
    }

    #[test]
    fn what_left_last_is_asked_about_where_some_are_lost() {
        let mut losses = Losses { share: 0.1, ..Losses::default() };
        let mut asks = |since, sent, until| {
            let due = std::iter::from_fn(|| {
                let due = losses.ask_due(since, sent, RTT);
                losses.asked(due);
                Some(due)
            });
            due.take_while(|&due| due < until).collect::<Vec<_>>()
        };
        assert_eq!(
            asks(900_000, 1_000_000, 1_100_000),
            [1_010_000, 1_020_000, 1_040_000, 1_080_000],
            "ever more rarely"
        );
        assert_eq!(asks(2_000_000, 1_990_000, 2_030_000), [2_010_000, 2_020_000], "something came back");
        let long = asks(3_000_000, 2_000_000, 4_000_000);
        assert!((8..=10).contains(&long.len()), "{long:?}");
    }

    #[test]
    fn where_none_come_through_one_tries_once_a_second() {
        let (mut losses, mut seq, mut now) = measured();
        let mut tries = Vec::new();
        while now < 10_000_000 {
            if losses.come_through(now) {
                seq += 1;
                losses.sent(seq, now);
                tries.push(now);
            }
            now += 300_000;
            while losses.poll(now).is_some() {}
        }
        let quick = tries.windows(2).filter(|two| two[1] - two[0] < UNHEARD_TIME).count();
        assert_eq!(quick as u32, UNHEARD_MAX - 1, "{tries:?}");
        assert!(tries.len() > 12, "{tries:?}");
        losses.arrived(&(seq..=seq), true, now);
        assert!(losses.come_through(now), "one that comes late ends that");
        (1..=20).for_each(|later| losses.sent(seq + later, now));
        assert_eq!(all_lost(&mut losses, now + 60_000_000).len(), 20);
        assert!(losses.come_through(now), "many at once are one attempt");
    }

    #[test]
    fn a_path_that_brings_nothing_back_is_asked_six_times_a_second() {
        let mut losses = Losses { share: 0.0, ..Losses::default() };
        assert_eq!(losses.ask_due(1_000_000, 0, 300_000), 1_600_000, "two round trips");
        let mut due = losses.ask_due(1_000_000, 0, RTT);
        assert_eq!(due, 1_000_000 + ASK_INTERVAL);
        for _ in 0..6 {
            losses.asked(due);
            due = losses.ask_due(1_000_000, 0, RTT);
        }
        assert_eq!(due, 1_000_000 + 7 * ASK_INTERVAL);
        assert_eq!(losses.ask_due(2_100_000, 0, RTT), 2_100_000 + ASK_INTERVAL, "something came back");
    }

    #[test]
    fn one_that_was_sent_later_leaves_an_eighth_of_a_round_trip() {
        let (mut losses, _, now) = measured();
        losses.sent(21, now);
        losses.sent(22, now);
        losses.arrived(&(22..=22), true, now + RTT);
        losses.passed(22);
        let due = losses.deadline().expect("21 is waited for");
        assert!((now + RTT..=now + RTT * 5 / 4).contains(&due), "after {} us", due - now);
        assert_eq!(losses.poll(due - 1), None);
        assert_eq!(losses.poll(due), Some(21));
    }

    #[test]
    fn where_nothing_follows_the_time_says_so() {
        let (mut losses, _, now) = measured();
        losses.sent(21, now);
        let due = losses.deadline().expect("21 is waited for");
        assert!((now + RTT..now + 2 * RTT).contains(&due), "after {} us", due - now);
        assert_eq!(losses.poll(due), Some(21));
        assert_eq!(losses.deadline(), None);
    }

    #[test]
    fn on_a_path_that_brings_nothing_back_attempts_become_rare() {
        let (mut losses, mut seq, mut now) = measured();
        let begun = now;
        let mut attempts = 0;
        while now < begun + 10_000_000 {
            seq += 1;
            losses.sent(seq, now);
            now = losses.deadline().expect("it is waited for");
            assert_eq!(losses.poll(now), Some(seq));
            attempts += 1;
        }
        assert!((38..50).contains(&attempts), "{attempts} in 10 s");
        seq += 1;
        losses.sent(seq, now);
        losses.arrived(&(seq..=seq), true, now + RTT);
        losses.sent(seq + 1, now + RTT);
        assert!(losses.deadline() < Some(now + 4 * RTT), "and one that arrives ends that");
    }

    #[test]
    fn what_was_only_late_makes_patient() {
        let (mut losses, _, now) = measured();
        losses.sent(21, now);
        let first = losses.deadline().expect("21 is waited for") - now;
        assert_eq!(losses.poll(now + first), Some(21));
        let share = losses.share();
        losses.arrived(&(1..=21), true, now + 4 * RTT);
        assert!(losses.share() < share);
        losses.sent(22, now);
        let next = losses.deadline().expect("22 is waited for") - now;
        assert!(next > 3 * RTT / 2 + first / 2, "{first} us, and then {next}");
    }
}
