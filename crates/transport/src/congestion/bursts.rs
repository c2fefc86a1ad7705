//! Path 10/13: under congestion.rs, the bytes that go at once into an idle path. From packets sent
//! and lost, to the window that quinn's pacer is told. Knows times and sizes; never the path's
//! rate.

use std::time::Instant;

/// The pacer lets so many packets go at once (quinn's MIN_BURST_SIZE); an initial window may go at
/// once into an idle path, until a path drops this part of one.
pub(super) const BURST_PACKETS_MIN: u64 = 10;
const BURST_LOST_PART: u64 = 4;

/// The burst that goes on or was the last, and how long the next may be.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    /// Bytes that may go at once into an idle path. It only falls: it halves, to the pacer's own
    /// burst, whenever a path drops too much of one.
    limit: u64,
    /// Bytes that are left of this burst.
    left: u64,
    /// When the first and the last packets of this burst were sent.
    begun_at: Instant,
    last_at: Instant,
    lost: u64,
}

impl Bursts {
    /// A burst of so many bytes may go now.
    pub(super) fn new(limit: u64, now: Instant) -> Bursts {
        Bursts { limit, left: limit, begun_at: now, last_at: now, lost: 0 }
    }

    /// Bytes that may go at once into an idle path, whatever its rate.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that may go without the pacer.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The path is idle, and so many bytes may go at once now.
    pub(super) fn begin(&mut self, now: Instant, bytes: u64) {
        self.left = bytes;
        (self.begun_at, self.lost) = (now, 0);
    }

    /// Counts bytes that were sent. True if they were part of the burst.
    pub(super) fn handle_sent(&mut self, now: Instant, bytes: u64) -> bool {
        let in_burst = self.left > 0;
        if in_burst {
            self.last_at = now;
        }
        self.left = self.left.saturating_sub(bytes);
        in_burst
    }

    /// Bytes were lost, the newest of them sent at that time.
    pub(super) fn handle_lost(&mut self, sent: Instant, bytes: u64, mtu: u64) {
        if !(self.begun_at..=self.last_at).contains(&sent) {
            return;
        }
        self.lost += bytes;
        if self.lost * BURST_LOST_PART > self.limit {
            self.limit = (self.limit / 2).max(BURST_PACKETS_MIN * mtu);
            self.lost = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MTU: u64 = 1_000;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_ends_with_its_bytes() {
        let start = Instant::now();
        let mut bursts = Bursts::new(32 * MTU, start);
        bursts.begin(start, 2 * MTU);
        assert!(bursts.handle_sent(start, MTU));
        assert!(bursts.handle_sent(start, 5 * MTU), "it began within the burst");
        assert!(!bursts.handle_sent(start, MTU));
        assert_eq!((bursts.left(), bursts.limit()), (0, 32 * MTU));
    }

    #[test]
    fn a_path_that_drops_more_than_a_quarter_halves_the_next_bursts() {
        let start = Instant::now();
        let mut bursts = Bursts::new(32 * MTU, start);
        bursts.handle_sent(start, 32 * MTU);
        bursts.handle_lost(start, 8 * MTU, MTU);
        assert_eq!(bursts.limit(), 32 * MTU, "a quarter");
        bursts.handle_lost(start, 1, MTU);
        assert_eq!(bursts.limit(), 16 * MTU);
        for _ in 0..8 {
            bursts.begin(start, bursts.limit());
            bursts.handle_sent(start, MTU);
            bursts.handle_lost(start, 16 * MTU, MTU);
        }
        assert_eq!(bursts.limit(), BURST_PACKETS_MIN * MTU, "the pacer sends as many");
    }

    #[test]
    fn losses_of_other_packets_count_for_nothing() {
        let start = Instant::now();
        let mut bursts = Bursts::new(32 * MTU, start);
        bursts.handle_sent(start, 32 * MTU);
        bursts.handle_sent(at(start, 5), MTU);
        bursts.handle_lost(at(start, 5), 30 * MTU, MTU);
        assert_eq!(bursts.limit(), 32 * MTU, "it was sent after the burst");
        bursts.handle_lost(start, 7 * MTU, MTU);
        bursts.begin(at(start, 9), bursts.limit());
        bursts.handle_sent(at(start, 9), MTU);
        bursts.handle_lost(start, 7 * MTU, MTU);
        bursts.handle_lost(at(start, 9), 7 * MTU, MTU);
        assert_eq!(bursts.limit(), 32 * MTU, "each burst has its own losses");
    }
}
