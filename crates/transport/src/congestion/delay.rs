//! Path 10/13: under congestion.rs, the delay of a path: its propagation delay, which is the
//! smallest round trip of the last seconds, and the queue, which is what the smallest round trip of
//! a round exceeds it by. From round trips, to the window. Knows times; never rates or bytes.
//!
//! The path is left half empty when the propagation delay has to be measured again (BBR's
//! ProbeRTT), and drains when the round trip jumps: by our own queue if the path became slower, by
//! its propagation delay if it is another path.

use std::time::{Duration, Instant};

/// Target queueing delay, which keeps the bottleneck busy: an eighth of the round trip, no less
/// than the scheduling delay of two machines, and no more than a person could notice.
const QUEUE_RTT_DIVISOR: u32 = 8;
const QUEUEING_DELAY_MIN: Duration = Duration::from_millis(4);
pub(super) const QUEUEING_DELAY_MAX: Duration = Duration::from_millis(12);
/// Age at which the smallest round trip expires and is measured again with the path half full
/// (BBR's ProbeRTT; BBRv2: 5 s and 10 s). Not without a standing queue: a path that has become
/// longer by less is full all the same, and halving the window would only lose throughput.
pub(super) const RTT_AGE_MAX: Duration = Duration::from_secs(10);
/// The same if a queue that is so many times longer than ours persists for so many rounds. A queue
/// that remains while we leave half of the path empty belongs to another flow: its delay counts as
/// the path's own, or nothing would be left to us.
const FOREIGN_QUEUE_RATIO: u32 = 3;
const FOREIGN_QUEUE_ROUNDS: u32 = 16;
/// Samples in a row that must exceed the smallest round trip by a foreign queue's ratio before the
/// path counts as another one: one may be an acknowledgement that was sent late.
const LONGER_SAMPLES: u32 = 2;

/// The delay of a path, and what is done to measure it.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// The smallest round trip: the propagation delay.
    min: Option<Duration>,
    /// When it was measured or confirmed.
    min_at: Instant,
    /// Smallest round trip of this round and of the last one, `Duration::MAX` without any: the
    /// standing queue, without our own bursts.
    round_min: Duration,
    last_round_min: Duration,
    /// Rounds in a row with a queue that is too long to be ours.
    foreign_rounds: u32,
    /// Since when half of the path is left empty.
    probe_since: Option<Instant>,
    /// Since when the path drains.
    drain_since: Option<Instant>,
    /// The smallest of the newest samples in a row that no queue of ours can explain, and their
    /// number.
    longer: Option<(Duration, u32)>,
}

impl Delay {
    /// Of a path without a sample.
    pub(super) fn new(now: Instant) -> Delay {
        Delay {
            min: None,
            min_at: now,
            round_min: Duration::MAX,
            last_round_min: Duration::MAX,
            foreign_rounds: 0,
            probe_since: None,
            drain_since: None,
            longer: None,
        }
    }

    /// The propagation delay.
    pub(super) fn min(&self) -> Option<Duration> {
        self.min
    }

    /// Half of the path is to be left empty.
    pub(super) fn is_probed(&self) -> bool {
        self.probe_since.is_some()
    }

    /// The smallest window is to be used.
    pub(super) fn drains(&self) -> bool {
        self.drain_since.is_some()
    }

    /// The smallest window was used already when a packet was sent at that time.
    pub(super) fn drained_at(&self, sent: Instant) -> bool {
        self.drain_since.is_some_and(|since| sent >= since)
    }

    /// Queueing delay that this connection may cause.
    pub(super) fn target_queueing_delay(&self) -> Duration {
        let min = self.min.unwrap_or_default();
        (min / QUEUE_RTT_DIVISOR).clamp(QUEUEING_DELAY_MIN, QUEUEING_DELAY_MAX)
    }

    /// A queueing delay that is too long to be caused by this connection.
    fn foreign_queueing_delay(&self) -> Duration {
        FOREIGN_QUEUE_RATIO * self.target_queueing_delay()
    }

    /// The queue was longer for the whole last round than the target and `allowance`.
    pub(super) fn has_standing_queue(&self, allowance: Duration) -> bool {
        self.queueing_delay_exceeds(self.target_queueing_delay() + allowance)
    }

    /// The smallest round trip of the last round was longer than the propagation delay by more.
    fn queueing_delay_exceeds(&self, delay: Duration) -> bool {
        let rtt = self.last_round_min;
        self.min.is_some_and(|min| rtt != Duration::MAX && rtt > min + delay)
    }

    /// A round trip that is so much smaller than all before belongs to another path.
    pub(super) fn is_of_shorter_path(&self, rtt: Duration) -> bool {
        self.min.is_some_and(|min| rtt + self.foreign_queueing_delay() < min)
    }

    /// A packet was acknowledged; `smooth` is the mean round trip, this one included.
    pub(super) fn add(
        &mut self,
        rtt: Duration,
        smooth: Duration,
        allowance: Duration,
        now: Instant,
    ) {
        self.round_min = self.round_min.min(rtt);
        let expired = now.duration_since(self.min_at) > RTT_AGE_MAX;
        let probed = self.probe_since.is_some_and(|since| now.duration_since(since) > rtt + smooth);
        if self.min.is_none_or(|min| rtt <= min) || probed {
            self.set_min(rtt, now);
        } else if expired && !self.has_standing_queue(allowance) {
            self.min_at = now;
        } else if (expired || self.foreign_rounds > FOREIGN_QUEUE_ROUNDS)
            && self.probe_since.is_none()
        {
            self.probe_since = Some(now);
        }
    }

    /// A packet was acknowledged that has waited for nothing of ours. True if the path is another
    /// one, and longer: a cable was left, a VPN came up.
    pub(super) fn add_without_queue(&mut self, rtt: Duration, now: Instant) -> bool {
        if rtt <= self.min.unwrap_or(rtt) + self.foreign_queueing_delay() {
            // The jump was a queue, and it has drained.
            self.longer = None;
            self.drain_since = None;
            return false;
        }
        let (before, samples) = self.longer.unwrap_or((rtt, 0));
        let (rtt, samples) = (rtt.min(before), samples + 1);
        self.longer = Some((rtt, samples));
        if samples < LONGER_SAMPLES {
            return false;
        }
        self.set_min(rtt, now);
        self.longer = None;
        true
    }

    fn set_min(&mut self, rtt: Duration, now: Instant) {
        self.min = Some(rtt);
        self.min_at = now;
        self.probe_since = None;
        self.drain_since = None;
        self.foreign_rounds = 0;
    }

    /// A round has ended. `window_time`: how long a full window takes at the path's rate; what it
    /// exceeds the propagation delay by is a queue of ours.
    pub(super) fn end_round(&mut self, window_time: Duration, now: Instant) {
        let before = std::mem::replace(&mut self.last_round_min, self.round_min);
        self.round_min = Duration::MAX;
        let rtt_max = before
            .saturating_add(self.foreign_queueing_delay())
            .saturating_add(window_time.saturating_sub(self.min.unwrap_or_default()));
        if self.last_round_min != Duration::MAX
            && self.last_round_min > rtt_max
            && self.drain_since.is_none()
        {
            self.drain_since = Some(now);
        }
        let is_foreign = self.queueing_delay_exceeds(self.foreign_queueing_delay());
        self.foreign_rounds = if is_foreign { self.foreign_rounds + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = ms(40);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A path that was measured, and the time.
    fn path() -> (Delay, Instant) {
        let now = Instant::now();
        let mut delay = Delay::new(now);
        delay.add(RTT, RTT, ms(0), now);
        (delay, now)
    }

    /// Rounds of one sample each.
    fn rounds(delay: &mut Delay, now: &mut Instant, rtts: impl IntoIterator<Item = Duration>) {
        for rtt in rtts {
            *now += rtt;
            delay.add(rtt, rtt, ms(0), *now);
            delay.end_round(RTT, *now);
        }
    }

    #[test]
    fn the_target_is_an_eighth_within_limits() {
        for (rtt, target) in [(ms(2), ms(4)), (ms(64), ms(8)), (ms(600), ms(12))] {
            let mut delay = Delay::new(Instant::now());
            delay.add(rtt, rtt, ms(0), Instant::now());
            assert_eq!(delay.target_queueing_delay(), target);
        }
    }

    #[test]
    fn a_queue_stands_if_no_packet_of_a_round_has_passed_without_it() {
        let (mut delay, mut now) = path();
        assert!(!delay.has_standing_queue(ms(0)), "no round has ended");
        delay.add(RTT, RTT, ms(0), now);
        rounds(&mut delay, &mut now, [ms(60)]);
        assert!(!delay.has_standing_queue(ms(0)), "one packet has");
        rounds(&mut delay, &mut now, [ms(50)]);
        assert!(delay.has_standing_queue(ms(4)) && !delay.has_standing_queue(ms(5)));
    }

    #[test]
    fn an_expired_delay_is_measured_again_only_with_a_standing_queue() {
        let (mut delay, mut now) = path();
        let expires = now + RTT_AGE_MAX;
        while now <= expires + ms(100) {
            rounds(&mut delay, &mut now, [ms(44)]);
            assert!(!delay.is_probed());
        }
        while now <= expires + RTT_AGE_MAX {
            rounds(&mut delay, &mut now, [ms(50)]);
        }
        rounds(&mut delay, &mut now, [ms(50), ms(50)]);
        assert!(delay.is_probed());
        assert_eq!(delay.min(), Some(RTT));
        rounds(&mut delay, &mut now, [ms(48), ms(48), ms(48)]);
        assert_eq!(delay.min(), Some(ms(48)), "half a path has no queue of ours");
        assert!(!delay.is_probed());
    }

    #[test]
    fn a_queue_of_another_flow_is_measured_before_the_delay_expires() {
        let (mut delay, mut now) = path();
        let expires = now + RTT_AGE_MAX;
        // It grows slowly: a jump would drain the path.
        rounds(&mut delay, &mut now, [ms(50), ms(60)]);
        rounds(&mut delay, &mut now, [ms(60); FOREIGN_QUEUE_ROUNDS as usize]);
        assert!(!delay.is_probed());
        rounds(&mut delay, &mut now, [ms(60)]);
        assert!(delay.is_probed() && now < expires);
    }

    #[test]
    fn the_path_drains_when_a_round_jumps_and_goes_on_when_the_queue_has() {
        let (mut delay, mut now) = path();
        rounds(&mut delay, &mut now, [RTT, RTT + ms(15)]);
        assert!(!delay.drains());
        rounds(&mut delay, &mut now, [RTT + ms(31)]);
        assert!(delay.drains());
        assert!(delay.drained_at(now) && !delay.drained_at(now - ms(1)));
        assert!(!delay.add_without_queue(RTT + ms(15), now));
        assert!(!delay.drains());
    }

    #[test]
    fn two_samples_in_a_row_make_a_longer_path_and_one_a_shorter() {
        let (mut delay, now) = path();
        assert!(!delay.add_without_queue(ms(500), now));
        assert!(!delay.add_without_queue(RTT, now));
        assert!(!delay.add_without_queue(ms(500), now), "another one may be late");
        assert!(delay.add_without_queue(ms(90), now));
        assert_eq!(delay.min(), Some(ms(90)), "the smaller of the two");
        assert!(delay.is_of_shorter_path(ms(50)) && !delay.is_of_shorter_path(ms(57)));
        delay.add(ms(50), ms(50), ms(0), now);
        assert_eq!(delay.min(), Some(ms(50)));
    }
}
