//! Path 10/13: under congestion.rs, what a controller knows about its path, for the code that
//! decides how much to write.
//! From the controller, to quic.rs in any thread, and through relay.rs to a session in another
//! process. Knows numbers; decides nothing.

#[cfg(feature = "server")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "server")]
use crate::relay::Publication;

/// Bytes of a full packet that are not stream data: packet header, frame header, AEAD tag.
const PACKET_OVERHEAD_BYTES: u64 = 36;

/// What the controller knows about a connection's path, for the code that decides how much to
/// write.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    in_flight: AtomicU64,
    /// Written and not yet sent: an estimate, corrected whenever everything was sent.
    unsent: AtomicU64,
    delivered: AtomicU64,
    window: AtomicU64,
    rate: AtomicU64,
    rtt_us: AtomicU64,
    rtt_min_us: AtomicU64,
    /// The next packet is a probe and may be sent although the window is full.
    probe_allowed: AtomicBool,
    /// For a session in another process.
    #[cfg(feature = "server")]
    publication: OnceLock<Publication>,
}

impl Meter {
    /// Lets the next packet be sent although the window is full, like a packet of QUIC's probe
    /// timer.
    pub(crate) fn allow_probe(&self) {
        self.probe_allowed.store(true, Ordering::Relaxed);
    }

    /// Estimate of the bytes that were written and not yet sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Counts bytes that were handed to quinn.
    pub(crate) fn add_unsent(&self, bytes: u64) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Everything that was written is sent.
    pub(super) fn clear_unsent(&self) {
        self.unsent.store(0, Ordering::Relaxed);
    }

    /// The next packet may be sent although the window is full.
    pub(super) fn allows_probe(&self) -> bool {
        self.probe_allowed.load(Ordering::Relaxed)
    }

    pub(super) fn set_in_flight(&self, bytes: u64) {
        self.in_flight.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_delivered(&self, bytes: u64) {
        self.delivered.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_window(&self, bytes: u64) {
        self.window.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    pub(super) fn set_rtt(&self, smooth: Duration, smallest: Duration) {
        self.rtt_us.store(smooth.as_micros() as u64, Ordering::Relaxed);
        self.rtt_min_us.store(smallest.as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts packets that were sent, and subtracts what they hold from the unsent bytes. One of
    /// them may have been the probe.
    pub(super) fn handle_sent(&self, bytes: u64, mtu: u64) {
        self.probe_allowed.store(false, Ordering::Relaxed);
        let overhead = PACKET_OVERHEAD_BYTES * bytes.div_ceil(mtu.max(1));
        let content = bytes.saturating_sub(overhead);
        self.unsent.store(self.unsent().saturating_sub(content), Ordering::Relaxed);
        #[cfg(feature = "server")]
        if self.publication().is_some_and(|publication| publication.handle_sent(content)) {
            self.publish();
        }
    }

    /// Tells a session in another process what has changed. Packets that were sent change nothing:
    /// their bytes were unacknowledged before.
    pub(super) fn changed(&self) {
        #[cfg(feature = "server")]
        self.publish();
    }
}

#[cfg(feature = "server")]
impl Meter {
    /// What a session in another process reads, if there is one.
    pub(crate) fn publication(&self) -> Option<&Publication> {
        self.publication.get()
    }

    /// The connection belongs to a session in another process from now on.
    pub(crate) fn set_publication(&self, publication: Publication) {
        assert!(self.publication.set(publication).is_ok(), "a connection has one session");
    }

    /// Writes what that session reads.
    pub(crate) fn publish(&self) {
        if let Some(publication) = self.publication() {
            publication.publish(crate::quic::path_info(self));
        }
    }

    /// Bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Bytes that the other end has acknowledged.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// Measured bandwidth in bytes a second; 0 before the first measurement.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Smoothed and smallest round trip, in microseconds; 0 before the first measurement.
    pub(crate) fn rtt(&self) -> (u64, u64) {
        (self.rtt_us.load(Ordering::Relaxed), self.rtt_min_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_packets_are_not_unsent_bytes() {
        let meter = Meter::default();
        meter.add_unsent(5_000);
        meter.handle_sent(2 * 1_400, 1_400);
        assert_eq!(meter.unsent(), 5_000 - 2 * (1_400 - PACKET_OVERHEAD_BYTES));
        meter.handle_sent(10_000, 1_400);
        assert_eq!(meter.unsent(), 0, "the estimate was too low");
    }

    #[test]
    fn one_packet_is_the_probe() {
        let meter = Meter::default();
        assert!(!meter.allows_probe());
        meter.allow_probe();
        assert!(meter.allows_probe());
        meter.handle_sent(40, 1_400);
        assert!(!meter.allows_probe());
    }
}
