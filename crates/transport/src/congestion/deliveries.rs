//! Path 10/13: under congestion.rs, packets in flight and what their acknowledgements say of the
//! path's rate (draft-cheng-iccrg-delivery-rate-estimation). From packets sent and acknowledged, to
//! the controller. Knows bytes and times; decides nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Batches of sent packets that are remembered: more than any window here holds. Past it the oldest
/// is forgotten, and its acknowledgement measures nothing.
const HISTORY_MAX: usize = 16 * 1024;

/// Packets that were sent at the same time.
#[derive(Clone, Copy, Debug)]
struct SentBatch {
    at: Instant,
    /// `delivered` at that time, when it last grew, and when the packet was sent that had been
    /// acknowledged last.
    delivered: u64,
    delivered_at: Instant,
    prev_acked_sent_at: Instant,
    /// Bytes in flight when it was sent, its own not included: what it may have waited for.
    in_flight_before: u64,
    /// It went without the pacer.
    in_burst: bool,
    /// There was nothing more to send: its rate is the application's and not the path's.
    app_limited: bool,
}

/// What the acknowledgement of a packet says of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) sent: Instant,
    /// Bytes that it may have waited for.
    pub(super) in_flight_before: u64,
    /// Bytes that were delivered when it was sent, and that are now.
    pub(super) delivered_before: u64,
    pub(super) delivered: u64,
    /// How long the bytes between took.
    pub(super) took: Duration,
    /// In bytes a second.
    pub(super) rate: f64,
    /// The rate may be the application's and not the path's.
    pub(super) app_limited: bool,
}

/// Packets that were sent, and bytes that arrived.
#[derive(Clone, Debug)]
pub(super) struct Deliveries {
    /// In the order of sending.
    batches: VecDeque<SentBatch>,
    in_flight: u64,
    delivered: u64,
    /// When it last grew.
    delivered_at: Instant,
    /// When the packet was sent that was acknowledged last.
    acked_sent_at: Instant,
    /// The sender was application-limited until so many bytes are delivered.
    app_limited_until: u64,
}

impl Deliveries {
    pub(super) fn new(now: Instant) -> Deliveries {
        Deliveries {
            batches: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: now,
            acked_sent_at: now,
            app_limited_until: 0,
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Corrects the bytes in flight: packets may end in other ways.
    pub(super) fn set_in_flight(&mut self, bytes: u64) {
        self.in_flight = bytes;
    }

    /// There is nothing more to send: what is in flight does not fill the path.
    pub(super) fn set_app_limited(&mut self) {
        self.app_limited_until = self.delivered + self.in_flight.max(1);
    }

    /// Bytes were sent; as part of a burst, they went without the pacer.
    pub(super) fn handle_sent(&mut self, now: Instant, bytes: u64, in_burst: bool) {
        if self.in_flight == 0 {
            // The path was idle: the time before now says nothing about its rate.
            self.delivered_at = now;
            self.acked_sent_at = now;
        }
        if self.batches.len() == HISTORY_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(SentBatch {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            prev_acked_sent_at: self.acked_sent_at,
            in_flight_before: self.in_flight,
            in_burst,
            app_limited: self.app_limited_until > self.delivered,
        });
        self.in_flight += bytes;
    }

    /// Bytes were lost.
    pub(super) fn handle_lost(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Bytes were acknowledged that were sent at that time. Forgets batches older than `age_max`.
    /// `None` if this one was forgotten.
    pub(super) fn handle_acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        age_max: Duration,
    ) -> Option<Delivery> {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.delivered += bytes;
        self.delivered_at = now;
        let at = self.batches.partition_point(|batch| batch.at < sent);
        let entry = self.batches.get_mut(at).filter(|batch| batch.at == sent)?;
        let batch = *entry;
        if batch.in_burst {
            // Packets sent at the same instant are not told apart: the next one of them that is
            // acknowledged has waited for this one too.
            entry.in_flight_before += bytes;
        }
        self.acked_sent_at = self.acked_sent_at.max(sent);
        // Packets sent well before this one were acknowledged or lost.
        while self.batches.front().is_some_and(|batch| batch.at + age_max < now) {
            self.batches.pop_front();
        }
        // The slower of the send rate and the acknowledgement rate: acknowledgements may have been
        // delayed and have arrived all at once.
        let took = (now - batch.delivered_at)
            .max(sent.saturating_duration_since(batch.prev_acked_sent_at));
        Some(Delivery {
            sent,
            in_flight_before: batch.in_flight_before,
            delivered_before: batch.delivered,
            delivered: self.delivered,
            took,
            rate: (self.delivered - batch.delivered) as f64 / took.as_secs_f64().max(1e-6),
            app_limited: batch.app_limited,
        })
    }

    /// When the newest packet was sent, for tests.
    #[cfg(test)]
    pub(super) fn last_sent(&self) -> Option<Instant> {
        self.batches.back().map(|batch| batch.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE_MAX: Duration = ms(10_000);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn acknowledgements_that_arrive_at_once_show_the_rate_of_sending() {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        // 1000 bytes each 10 ms, from an idle path on; all are acknowledged at one time.
        (0..10).for_each(|at| deliveries.handle_sent(start + at * ms(10), 1_000, false));
        let now = start + ms(140);
        let acked = |at, deliveries: &mut Deliveries| {
            deliveries.handle_acked(now, start + at * ms(10), 1_000, AGE_MAX).expect("it was sent")
        };
        let all = (0..10).map(|at| acked(at, &mut deliveries)).last().expect("ten");
        assert_eq!((all.delivered_before, all.delivered, all.took), (0, 10_000, ms(140)));
        assert_eq!(deliveries.in_flight(), 0);
        // The next one was sent when they had arrived.
        deliveries.handle_sent(now, 1_000, false);
        let next = deliveries.handle_acked(now + ms(50), now, 1_000, AGE_MAX).expect("it was sent");
        assert_eq!((next.delivered_before, next.took, next.rate), (10_000, ms(50), 20_000.0));
    }

    #[test]
    fn packets_of_a_burst_wait_for_each_other_and_paced_ones_for_what_is_in_flight() {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        deliveries.handle_sent(start, 3_000, true);
        deliveries.handle_sent(start + ms(1), 1_000, false);
        let mut waited = |sent| {
            let delivery = deliveries.handle_acked(start + ms(40), sent, 1_000, AGE_MAX);
            delivery.expect("it was sent").in_flight_before
        };
        assert_eq!([0; 3].map(|_| waited(start)), [0, 1_000, 2_000]);
        assert_eq!(waited(start + ms(1)), 3_000);
    }

    #[test]
    fn what_the_application_limits_is_marked_until_it_has_arrived() {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        let round_trip = |at, deliveries: &mut Deliveries| {
            let sent = start + ms(at);
            deliveries.handle_sent(sent, 1_000, false);
            let delivery = deliveries.handle_acked(sent + ms(5), sent, 1_000, AGE_MAX);
            delivery.expect("it was sent").app_limited
        };
        assert!(!round_trip(0, &mut deliveries));
        deliveries.set_app_limited();
        assert!(round_trip(10, &mut deliveries));
        assert!(!round_trip(20, &mut deliveries));
    }

    #[test]
    fn a_limited_number_of_batches_is_remembered_for_a_limited_time() {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        let at = |number: usize| start + Duration::from_micros(number as u64);
        (0..=HISTORY_MAX).for_each(|number| deliveries.handle_sent(at(number), 1, false));
        assert_eq!(deliveries.batches.len(), HISTORY_MAX);
        let mut acked = |now, number| {
            let is_known = deliveries.handle_acked(now, at(number), 1, AGE_MAX).is_some();
            (is_known, deliveries.batches.len())
        };
        assert_eq!(acked(start + ms(30), 0), (false, HISTORY_MAX), "it was the oldest");
        assert_eq!(acked(start + ms(30), 1), (true, HISTORY_MAX));
        let last = HISTORY_MAX;
        assert_eq!(acked(start + ms(10_030), last), (true, 0), "the newest is old too");
        assert_eq!(acked(start + ms(10_030), last), (false, 0));
    }
}
