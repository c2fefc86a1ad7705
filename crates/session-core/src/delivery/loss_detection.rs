//! Path 10/13, and path back: beside ledger.rs, some of whose updates are sent as datagrams, which
//! the transport does not retransmit.
//! Decides which datagrams are lost: by packet threshold and time threshold as in RFC 9002, 6.1.
//! Unlike there, an expired probe timeout also declares a loss, because a lost update is made again
//! from newer pixels and not retransmitted. Knows sequence numbers and times; never what an update
//! changed.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;

use super::repeats::Repeats;

/// An update is lost once this many later ones were acknowledged (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u32 = 3;
/// Time threshold (RFC 9002, section 6.1.2): nine eighths of the round trip after an update was
/// sent, if a later one was acknowledged. The margin is at least 2 ms, since both ends take time.
const TIME_THRESHOLD: (Micros, Micros) = (9, 8);
const TIME_THRESHOLD_MARGIN_MIN: Micros = 2_000;
/// Longest delay of an acknowledgement by the viewer, which waits a moment for the updates that one
/// must follow.
const ACK_DELAY_MAX: Micros = 8_000;
/// Round trip before one was measured.
const RTT_UNKNOWN: Micros = 100_000;
/// 250 ms: longest probe timeout, to find the end of an outage as soon as a person does. Each
/// attempt takes a few hundred bytes.
const PTO_MAX: Micros = 250_000;
/// 150 ms, or two round trips: a path on which data is in flight is probed after so long without an
/// acknowledgement, and every 150 ms from then on. The transport retransmits with exponential
/// backoff, but finds a loss as soon as anything that was sent later is acknowledged.
const PROBE_INTERVAL: Micros = 150_000;
/// Tail loss probe on a lossy path: a quarter of the round trip, at least 4 ms, after the last
/// transmission or acknowledgement, and again with exponential backoff. Otherwise only the
/// transport's own timer would find the loss of the last packet: it takes more than a round trip,
/// and twice that if the retransmission is lost too.
const TAIL_PROBE_PART: Micros = 4;
const TAIL_PROBE_MIN: Micros = 4_000;
/// After so many spurious losses in a row of which only repeated acknowledgements told, the late
/// ones are measured as round trips: the path has become longer.
const SPURIOUS_LOSSES_MAX: u32 = 3;
/// After so many losses in a row without an acknowledged datagram, updates use the stream for 1 s
/// before another datagram is tried: a browser or a middlebox may drop all of them. A path that
/// loses every third packet meets this once in ten thousand times.
const DATAGRAM_BLACKHOLE_LOSSES: u32 = 8;
const DATAGRAM_BLACKHOLE_TIME: Micros = 1_000_000;
/// Most declared losses that are remembered, to recognise spurious ones.
const DECLARED_LOST_MAX: usize = 32;
/// Weight of the newest datagram in the loss rate.
const LOSS_RATE_WEIGHT: f32 = 1.0 / 32.0;
/// Loss rate above which a path is lossy: every update that fits is sent as a datagram, and the
/// tail is probed. Below it, waiting for a retransmission now and then costs less than packing
/// saves.
const LOSSY_PATH_RATE: f32 = 0.005;

/// A datagram in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentDatagram {
    pub(super) seq: u64,
    pub(super) sent_at: Micros,
    /// Updates sent later that were acknowledged.
    pub(super) later_acked: u32,
}

/// What one viewer's path does to datagrams.
#[derive(Debug)]
pub(super) struct LossDetection {
    declared_lost: VecDeque<SentDatagram>,
    /// Smoothed round trip and RTT variance; None before one was measured.
    rtt: Option<(Micros, Micros)>,
    /// Probe timeouts in a row.
    pto_count: u32,
    /// When the last of them expired: datagrams sent before that do not count again.
    pto_at: Micros,
    /// Losses in a row without an acknowledged datagram, and when the last of them was counted.
    consecutive_losses: u32,
    loss_counted_at: Micros,
    last_sent_at: Micros,
    /// Spurious losses in a row that only repeated acknowledgements told of.
    spurious_losses: u32,
    /// When the path was probed last.
    probed_at: Micros,
    loss_rate: f32,
    /// Datagrams that are sent a second time before their loss is known.
    pub(super) repeats: Repeats,
}

impl Default for LossDetection {
    /// A path counts as lossy until it has proved otherwise.
    fn default() -> LossDetection {
        LossDetection {
            declared_lost: VecDeque::new(),
            rtt: None,
            pto_count: 0,
            pto_at: 0,
            consecutive_losses: 0,
            loss_counted_at: 0,
            last_sent_at: 0,
            spurious_losses: 0,
            probed_at: 0,
            loss_rate: LOSS_RATE_WEIGHT,
            repeats: Repeats::default(),
        }
    }
}

impl LossDetection {
    /// A datagram was sent.
    pub(super) fn sent(&mut self, now: Micros) {
        self.last_sent_at = now;
    }

    /// False while the path seems to drop all datagrams.
    pub(super) fn may_send_datagram(&self, now: Micros) -> bool {
        self.consecutive_losses < DATAGRAM_BLACKHOLE_LOSSES
            || self.last_sent_at + DATAGRAM_BLACKHOLE_TIME <= now
    }

    /// These updates were acknowledged, some of them perhaps before; so many datagrams for the
    /// first time, of which the newest was sent then. `prompt`: the acknowledgement was sent as
    /// soon as they arrived, so that it measures the round trip.
    pub(super) fn acknowledged(
        &mut self,
        seqs: &RangeInclusive<u64>,
        datagrams: usize,
        newest_sent_at: Option<Micros>,
        prompt: bool,
        now: Micros,
    ) {
        if let Some(sent_at) = newest_sent_at {
            if prompt {
                self.measure(now.saturating_sub(sent_at).max(1));
                self.spurious_losses = 0;
            }
            self.pto_count = 0;
        }
        for _ in 0..datagrams {
            self.loss_rate -= self.loss_rate * LOSS_RATE_WEIGHT;
            self.consecutive_losses = 0;
        }
        // A spurious loss: the round trip is longer than the estimate.
        while let Some(at) =
            self.declared_lost.iter().position(|datagram| seqs.contains(&datagram.seq))
        {
            if let Some(late) = self.declared_lost.remove(at) {
                self.spurious_losses += u32::from(!prompt);
                if prompt || self.rtt.is_none() || self.spurious_losses >= SPURIOUS_LOSSES_MAX {
                    self.measure(now.saturating_sub(late.sent_at).max(1));
                }
                self.loss_rate = (self.loss_rate - LOSS_RATE_WEIGHT).max(0.0);
                (self.pto_count, self.consecutive_losses) = (0, 0);
            }
        }
    }

    fn measure(&mut self, sample: Micros) {
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((rtt, variance)) => {
                ((rtt * 7 + sample) / 8, (variance * 3 + rtt.abs_diff(sample)) / 4)
            }
        });
    }

    /// When a datagram is declared lost, if no further acknowledgement arrives.
    fn lost_at(&self, datagram: &SentDatagram) -> Micros {
        let sent_at = datagram.sent_at;
        if datagram.later_acked >= PACKET_THRESHOLD {
            return sent_at;
        }
        let (rtt, variance) = self.rtt.unwrap_or((RTT_UNKNOWN, RTT_UNKNOWN / 2));
        if datagram.later_acked > 0 {
            let threshold = rtt * TIME_THRESHOLD.0 / TIME_THRESHOLD.1;
            return sent_at + threshold.max(rtt + TIME_THRESHOLD_MARGIN_MIN);
        }
        let pto = rtt + 4 * variance + ACK_DELAY_MAX;
        sent_at + (pto << self.pto_count.min(8)).min(pto.max(PTO_MAX))
    }

    /// When the next of these is declared lost, if no further acknowledgement arrives.
    pub(super) fn deadline(&self, in_flight: impl Iterator<Item = SentDatagram>) -> Option<Micros> {
        in_flight.map(|datagram| self.lost_at(&datagram)).min()
    }

    /// When the path is to be probed, if nothing was acknowledged since `unacked_since` of the
    /// updates in flight, datagrams or not, the last of which was sent at `sent_at`.
    pub(super) fn probe_due(&self, unacked_since: Micros, sent_at: Micros, rtt: Micros) -> Micros {
        if self.is_path_lossy() {
            let last_activity = unacked_since.max(sent_at);
            let step = (rtt / TAIL_PROBE_PART).clamp(TAIL_PROBE_MIN, PROBE_INTERVAL);
            return match self.probed_at.checked_sub(last_activity) {
                Some(waited) => self.probed_at + waited.clamp(step, PROBE_INTERVAL),
                None => last_activity + step,
            };
        }
        let first = unacked_since + PROBE_INTERVAL.max(2 * rtt);
        if self.probed_at < first { first } else { self.probed_at + PROBE_INTERVAL }
    }

    /// A probe was sent.
    pub(super) fn probe_sent(&mut self, now: Micros) {
        self.probed_at = now;
    }

    /// Declares the first of these lost that is by now.
    pub(super) fn declare_lost(
        &mut self,
        mut in_flight: impl Iterator<Item = SentDatagram>,
        now: Micros,
    ) -> Option<u64> {
        let lost = in_flight.find(|datagram| self.lost_at(datagram) <= now)?;
        if lost.sent_at >= self.loss_counted_at {
            self.consecutive_losses += 1;
            self.loss_counted_at = now;
        }
        if lost.later_acked == 0 && lost.sent_at >= self.pto_at {
            self.pto_count += 1;
            self.pto_at = now;
        }
        self.remember_lost(lost);
        Some(lost.seq)
    }

    fn remember_lost(&mut self, lost: SentDatagram) {
        self.loss_rate += (1.0 - self.loss_rate) * LOSS_RATE_WEIGHT;
        if self.declared_lost.len() == DECLARED_LOST_MAX {
            self.declared_lost.pop_front();
        }
        self.declared_lost.push_back(lost);
    }

    /// The path loses so much that needless repeats cost less than waiting for retransmissions.
    pub(super) fn is_path_lossy(&self) -> bool {
        self.loss_rate > LOSSY_PATH_RATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Micros = 40_000;

    /// A path and its datagrams in flight.
    #[derive(Default)]
    struct TestPath {
        detection: LossDetection,
        in_flight: Vec<SentDatagram>,
    }

    impl TestPath {
        fn sent(&mut self, seq: u64, now: Micros) {
            self.detection.sent(now);
            self.in_flight.push(SentDatagram { seq, sent_at: now, later_acked: 0 });
        }

        fn acknowledged(&mut self, seqs: &RangeInclusive<u64>, prompt: bool, now: Micros) {
            let acked = self.in_flight.extract_if(.., |datagram| seqs.contains(&datagram.seq));
            let acked: Vec<_> = acked.collect();
            for datagram in self.in_flight.iter_mut().filter(|sent| sent.seq < *seqs.start()) {
                datagram.later_acked += acked.len() as u32;
            }
            let newest = acked.last().map(|datagram| datagram.sent_at);
            self.detection.acknowledged(seqs, acked.len(), newest, prompt, now);
        }

        fn deadline(&self) -> Option<Micros> {
            self.detection.deadline(self.in_flight.iter().copied())
        }

        fn poll_lost(&mut self, now: Micros) -> Option<u64> {
            let lost = self.detection.declare_lost(self.in_flight.iter().copied(), now)?;
            self.in_flight.retain(|datagram| datagram.seq != lost);
            Some(lost)
        }
    }

    /// After 20 datagrams that were acknowledged one round trip later.
    fn measured() -> (TestPath, u64, Micros) {
        let mut path = TestPath::default();
        let mut now = 0;
        for seq in 1..=20 {
            path.sent(seq, now);
            now += RTT;
            path.acknowledged(&(1..=seq), true, now);
        }
        assert_eq!((path.in_flight.len(), path.deadline()), (0, None));
        (path, 20, now)
    }

    fn all_lost(path: &mut TestPath, now: Micros) -> Vec<u64> {
        std::iter::from_fn(|| path.poll_lost(now)).collect()
    }

    #[test]
    fn a_repeated_acknowledgement_does_not_measure_the_round_trip() {
        let (mut path, mut seq, mut now) = measured();
        let timeout = |path: &mut TestPath, seq, now| {
            path.sent(seq, now);
            let lost_at = path.deadline().unwrap() - now;
            path.acknowledged(&(seq..=seq), true, now + RTT);
            lost_at
        };
        let before = timeout(&mut path, seq + 1, now);
        for _ in 0..10 {
            seq += 2;
            now += 2 * RTT;
            path.sent(seq, now);
            path.acknowledged(&(1..=seq), false, now + 5 * RTT);
        }
        assert!(
            timeout(&mut path, seq + 1, now) <= before,
            "the first acknowledgement was lost; the path has not become longer"
        );
    }

    #[test]
    fn three_late_acknowledgements_in_a_row_raise_the_rtt_estimate() {
        let (mut path, mut seq, mut now) = measured();
        let mut spurious = 0;
        for _ in 0..20 {
            (seq, now) = (seq + 1, now + 40 * RTT);
            path.sent(seq, now);
            let lost = path.poll_lost(now + 20 * RTT);
            spurious += u32::from(lost.is_some());
            path.acknowledged(&(seq..=seq), false, now + 20 * RTT);
        }
        assert!((SPURIOUS_LOSSES_MAX..10).contains(&spurious), "{spurious} spurious losses");
    }

    #[test]
    fn the_packet_threshold_declares_a_loss_at_once() {
        let (mut path, _, now) = measured();
        (21..=24).for_each(|seq| path.sent(seq, now));
        for later in 22..=23 {
            path.acknowledged(&(later..=later), true, now + RTT);
        }
        assert_eq!(path.poll_lost(now + RTT), None, "a path may reorder by two");
        path.acknowledged(&(24..=24), true, now + RTT);
        assert_eq!(all_lost(&mut path, now + RTT), [21]);
        assert!(path.detection.loss_rate > 0.02);
    }

    #[test]
    fn a_lossy_path_gets_tail_loss_probes() {
        let mut detection = LossDetection { loss_rate: 0.1, ..LossDetection::default() };
        let mut probes = |unacked_since, sent_at, until| {
            let due = std::iter::from_fn(|| {
                let due = detection.probe_due(unacked_since, sent_at, RTT);
                detection.probe_sent(due);
                Some(due)
            });
            due.take_while(|&due| due < until).collect::<Vec<_>>()
        };
        assert_eq!(
            probes(900_000, 1_000_000, 1_100_000),
            [1_010_000, 1_020_000, 1_040_000, 1_080_000],
            "with exponential backoff"
        );
        assert_eq!(
            probes(2_000_000, 1_990_000, 2_030_000),
            [2_010_000, 2_020_000],
            "an acknowledgement resets the backoff"
        );
        let long = probes(3_000_000, 2_000_000, 4_000_000);
        assert!((8..=10).contains(&long.len()), "{long:?}");
    }

    #[test]
    fn a_path_that_drops_all_datagrams_is_tried_once_a_second() {
        let (mut path, mut seq, mut now) = measured();
        let mut tries = Vec::new();
        while now < 10_000_000 {
            if path.detection.may_send_datagram(now) {
                seq += 1;
                path.sent(seq, now);
                tries.push(now);
            }
            now += 300_000;
            while path.poll_lost(now).is_some() {}
        }
        let quick =
            tries.windows(2).filter(|two| two[1] - two[0] < DATAGRAM_BLACKHOLE_TIME).count();
        assert_eq!(quick as u32, DATAGRAM_BLACKHOLE_LOSSES - 1, "{tries:?}");
        assert!(tries.len() > 12, "{tries:?}");
        path.acknowledged(&(seq..=seq), true, now);
        assert!(path.detection.may_send_datagram(now), "one late acknowledgement ends the pause");
        (1..=20).for_each(|later| path.sent(seq + later, now));
        assert_eq!(all_lost(&mut path, now + 60_000_000).len(), 20);
        assert!(path.detection.may_send_datagram(now), "losses of one moment count once");
    }

    #[test]
    fn an_unresponsive_path_is_probed_six_times_a_second() {
        let mut detection = LossDetection { loss_rate: 0.0, ..LossDetection::default() };
        assert_eq!(detection.probe_due(1_000_000, 0, 300_000), 1_600_000, "two round trips");
        let mut due = detection.probe_due(1_000_000, 0, RTT);
        assert_eq!(due, 1_000_000 + PROBE_INTERVAL);
        for _ in 0..6 {
            detection.probe_sent(due);
            due = detection.probe_due(1_000_000, 0, RTT);
        }
        assert_eq!(due, 1_000_000 + 7 * PROBE_INTERVAL);
        assert_eq!(
            detection.probe_due(2_100_000, 0, RTT),
            2_100_000 + PROBE_INTERVAL,
            "an acknowledgement starts the interval again"
        );
    }

    #[test]
    fn the_time_threshold_is_nine_eighths_of_the_round_trip() {
        let (mut path, _, now) = measured();
        path.sent(21, now);
        path.sent(22, now);
        path.acknowledged(&(22..=22), true, now + RTT);
        let lost_at = path.deadline().expect("21 is in flight");
        assert!((now + RTT..=now + RTT * 5 / 4).contains(&lost_at), "after {} us", lost_at - now);
        assert_eq!(path.poll_lost(lost_at - 1), None);
        assert_eq!(path.poll_lost(lost_at), Some(21));
    }

    #[test]
    fn the_probe_timeout_declares_the_last_datagram_lost() {
        let (mut path, _, now) = measured();
        path.sent(21, now);
        let lost_at = path.deadline().expect("21 is in flight");
        assert!((now + RTT..now + 2 * RTT).contains(&lost_at), "after {} us", lost_at - now);
        assert_eq!(path.poll_lost(lost_at), Some(21));
        assert_eq!(path.deadline(), None);
    }

    #[test]
    fn probe_timeouts_back_off_on_an_unresponsive_path() {
        let (mut path, mut seq, mut now) = measured();
        let begun = now;
        let mut attempts = 0;
        while now < begun + 10_000_000 {
            seq += 1;
            path.sent(seq, now);
            now = path.deadline().expect("a datagram is in flight");
            assert_eq!(path.poll_lost(now), Some(seq));
            attempts += 1;
        }
        assert!((38..50).contains(&attempts), "{attempts} in 10 s");
        seq += 1;
        path.sent(seq, now);
        path.acknowledged(&(seq..=seq), true, now + RTT);
        path.sent(seq + 1, now + RTT);
        assert!(path.deadline() < Some(now + 4 * RTT), "an acknowledgement ends the backoff");
    }

    #[test]
    fn a_spurious_loss_raises_the_rtt_estimate_and_lowers_the_loss_rate() {
        let (mut path, _, now) = measured();
        path.sent(21, now);
        let first = path.deadline().expect("21 is in flight") - now;
        assert_eq!(path.poll_lost(now + first), Some(21));
        let loss_rate = path.detection.loss_rate;
        path.acknowledged(&(1..=21), true, now + 4 * RTT);
        assert!(path.detection.loss_rate < loss_rate);
        path.sent(22, now);
        let next = path.deadline().expect("22 is in flight") - now;
        assert!(next > 3 * RTT / 2 + first / 2, "{first} us, and then {next}");
    }
}
