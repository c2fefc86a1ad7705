//! Path 6/13: under flow.rs, what this viewer may be sent however fast its path is: its share of
//! `--max-rate`, and of what the host may send.
//! A limit is a link with a queue that there is only as a number, so nothing waits for it: what may
//! not be sent yet is not decided yet. Knows rates, bytes and times; never what the bytes mean.

use thinc_path_model::{VirtualQueue, wire_bytes};
use thinc_protocol::Micros;

use super::flow::{BUDGET_MIN_BYTES, QUEUE_TIME, REAL_TIME_RESERVE_BYTES};

/// A rate that is set, and what was sent under it.
#[derive(Debug)]
pub(super) struct RateLimit {
    /// Bytes a second that the session gives this viewer, and the host this connection.
    by_session: Option<u64>,
    by_host: Option<u64>,
    /// Everything that was sent.
    queue: VirtualQueue,
    /// The real-time lane and sound alone, which wait for nothing else.
    real_time: VirtualQueue,
    /// Bytes of packets since they were last taken.
    spent: u64,
}

impl RateLimit {
    /// No limit.
    pub(super) fn new() -> RateLimit {
        RateLimit {
            by_session: None,
            by_host: None,
            queue: VirtualQueue::default(),
            real_time: VirtualQueue::default(),
            spent: 0,
        }
    }

    /// Bytes a second, of packets; None without a limit.
    pub(super) fn rate(&self) -> Option<u64> {
        self.by_session.into_iter().chain(self.by_host).min().map(|rate| rate.max(1))
    }

    pub(super) fn set_by_session(&mut self, rate: Option<u64>) {
        self.by_session = rate;
    }

    pub(super) fn set_by_host(&mut self, rate: Option<u64>) {
        self.by_host = rate;
    }

    /// So much was sent.
    pub(super) fn sent(&mut self, bytes: u64, now: Micros) {
        let Some(rate) = self.rate() else { return };
        let bytes = wire_bytes(bytes);
        self.queue.send(bytes, rate, now);
        self.spent += bytes;
    }

    /// Of what was sent, so much is of the real-time lane, or sound.
    pub(super) fn sent_in_real_time(&mut self, bytes: u64, now: Micros) {
        let Some(rate) = self.rate() else { return };
        self.real_time.send(wire_bytes(bytes), rate, now);
    }

    /// Bytes of packets since the last call.
    pub(super) fn take_spent(&mut self) -> u64 {
        std::mem::take(&mut self.spent)
    }

    /// As long as bytes may wait in the queues of a path of this rate.
    fn queue_time(rate: u64) -> Micros {
        QUEUE_TIME.max(BUDGET_MIN_BYTES * 1_000_000 / rate)
    }

    /// Bytes that may be sent now.
    pub(super) fn room(&self, now: Micros) -> u64 {
        let Some(rate) = self.rate() else { return u64::MAX };
        self.queue.room(RateLimit::queue_time(rate), rate, now)
    }

    /// When there is room for so many; None without a limit.
    pub(super) fn room_at(&self, bytes: u64) -> Option<Micros> {
        let rate = self.rate()?;
        Some(self.queue.room_at(bytes, RateLimit::queue_time(rate), rate))
    }

    /// How long what is sent behind so many unsent bytes will wait.
    pub(super) fn delay(&self, bytes: u64, now: Micros) -> Micros {
        let Some(rate) = self.rate() else { return 0 };
        let takes = u128::from(wire_bytes(bytes)) * 1_000_000 / u128::from(rate);
        self.queue.delay(now) + Micros::try_from(takes).unwrap_or(Micros::MAX / 2)
    }

    /// False once the real-time lane alone is ahead of the limit by its reserve. A large frame that
    /// is sent whole is no reason to let an input response wait: it goes first, and what follows
    /// waits longer.
    pub(super) fn allows_real_time(&self, now: Micros) -> bool {
        let Some(rate) = self.rate() else { return true };
        let reserve = QUEUE_TIME.max(REAL_TIME_RESERVE_BYTES * 1_000_000 / rate);
        self.real_time.delay(now) < reserve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mbit/s: a byte each microsecond.
    const RATE: u64 = 1_000_000;

    fn limited() -> RateLimit {
        let mut limit = RateLimit::new();
        limit.set_by_session(Some(2 * RATE));
        limit.set_by_host(Some(RATE));
        limit
    }

    #[test]
    fn the_lower_of_two_limits_counts_and_none_is_none() {
        assert_eq!(limited().rate(), Some(RATE));
        let mut none = RateLimit::new();
        none.sent(1 << 40, 0);
        assert_eq!((none.rate(), none.room(0), none.room_at(1)), (None, u64::MAX, None));
        assert!(none.allows_real_time(0) && none.take_spent() == 0 && none.delay(1, 0) == 0);
    }

    #[test]
    fn no_more_is_sent_than_a_link_of_that_rate_carries() {
        let (mut limit, mut sent) = (limited(), 0);
        for now in (0..1_000_000).step_by(100) {
            while limit.room(now) >= 2_000 {
                limit.sent(2_000, now);
                sent += wire_bytes(2_000);
            }
        }
        assert!(sent <= RATE + QUEUE_TIME && sent > RATE - QUEUE_TIME, "{sent} bytes in a second");
        assert_eq!(limit.take_spent(), sent);
    }

    #[test]
    fn a_large_frame_delays_what_follows_and_no_input_response() {
        let mut limit = limited();
        limit.sent(100_000, 0);
        assert!(limit.room(0) == 0 && limit.delay(0, 0) >= 100_000);
        assert!(limit.allows_real_time(0));
        let at = limit.room_at(2_000).unwrap();
        assert!(at > 95_000 && limit.room(at) >= 2_000);
        while limit.allows_real_time(0) {
            limit.sent(1_000, 0);
            limit.sent_in_real_time(1_000, 0);
        }
        assert!(limit.room_at(2_000).unwrap() >= at + REAL_TIME_RESERVE_BYTES);
    }
}
