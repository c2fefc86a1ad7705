//! Path 6/13 and 10/13: under lib.rs; a rate limit that delays nothing itself: when a link of that
//! rate would have sent what was sent (virtual scheduling, ITU-T I.371 A.1). Who asks first how
//! much may be sent builds no queue. For session-core/delivery/rate_limit.rs and
//! broker/front/uplink/division.rs. Knows bytes and microseconds; never what was sent, nor a clock.

/// Bytes that one packet carries of a stream, and those of its headers: Ethernet's, IP's, those of
/// UDP and QUIC, or of TCP and TLS.
const PACKET_BYTES: u64 = 1_300;
const HEADER_BYTES: u64 = 92;

/// Bytes that a link carries for so many of a stream, or of a datagram.
pub fn wire_bytes(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(PACKET_BYTES) * HEADER_BYTES
}

/// The queue of a link that there is only as a number. Rates are in bytes a second, times in
/// microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualQueue {
    /// When the link has sent everything, in nanoseconds: 92 bytes take 74 ns at 10 Gbit/s.
    drained_at_ns: u64,
}

impl VirtualQueue {
    /// So many bytes are sent.
    pub fn send(&mut self, bytes: u64, rate: u64, now: u64) {
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        let from = self.drained_at_ns.max(now.saturating_mul(1_000));
        self.drained_at_ns = from.saturating_add(takes);
    }

    /// How long what is sent now would wait.
    pub fn delay(&self, now: u64) -> u64 {
        self.drained_at_ns.div_ceil(1_000).saturating_sub(now)
    }

    /// Bytes that may be sent so that nothing waits longer than `delay_max`.
    pub fn room(&self, delay_max: u64, rate: u64, now: u64) -> u64 {
        let free = delay_max.saturating_sub(self.delay(now));
        u64::try_from(u128::from(free) * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
    }

    /// When there is room for so many bytes, at most those of `delay_max`; it may be past.
    pub fn room_at(&self, bytes: u64, delay_max: u64, rate: u64) -> u64 {
        let takes = (u128::from(bytes) * 1_000_000).div_ceil(u128::from(rate.max(1)));
        let takes = u64::try_from(takes).unwrap_or(u64::MAX).min(delay_max);
        (self.drained_at_ns.div_ceil(1_000).saturating_add(takes)).saturating_sub(delay_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mbit/s: a byte each microsecond.
    const RATE: u64 = 1_000_000;

    #[test]
    fn a_burst_waits_until_the_link_would_have_sent_it() {
        let mut queue = VirtualQueue::default();
        assert_eq!(queue.room(6_000, RATE, 1_000), 6_000);
        queue.send(8_000, RATE, 1_000);
        assert_eq!((queue.delay(1_000), queue.room(6_000, RATE, 1_000)), (8_000, 0));
        let at = queue.room_at(2_000, 6_000, RATE);
        assert_eq!((at, queue.room(6_000, RATE, at)), (5_000, 2_000));
        assert_eq!(queue.delay(20_000), 0, "an idle link gains nothing by a pause");
        assert_eq!(queue.room(6_000, RATE, 20_000), 6_000);
    }

    #[test]
    fn a_moment_with_room_exists_for_any_number_of_bytes() {
        let mut queue = VirtualQueue::default();
        queue.send(10_000, RATE, 0);
        let at = queue.room_at(1 << 30, 6_000, RATE);
        assert_eq!((at, queue.room(6_000, RATE, at)), (10_000, 6_000));
    }

    #[test]
    fn small_packets_add_up_at_any_rate() {
        let (mut queue, rate) = (VirtualQueue::default(), 1_250_000_000);
        (0..1_000).for_each(|_| queue.send(1_250, rate, 0));
        assert_eq!(queue.delay(0), 1_000);
    }

    #[test]
    fn each_packet_has_headers() {
        assert_eq!(wire_bytes(0), 0);
        assert_eq!(wire_bytes(1), 93);
        assert_eq!(wire_bytes(13_000), 13_000 + 10 * 92);
    }
}
