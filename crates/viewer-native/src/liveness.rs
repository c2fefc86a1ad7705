//! Liveness of a connection: a session answers within a round trip, so one that is unresponsive for
//! long has lost its path. After the machine has slept, the limit is shorter, and a connection
//! whose address this machine no longer has is probed. From client.rs. Knows durations; every time
//! is an argument except the clocks that detect sleep.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thinc_protocol::Micros;

/// 0.17 s beyond two round trips: by then a retransmitted answer has arrived on a lossy path; a
/// user learns of it after about 0.2 s.
const ANSWER_TIMEOUT: Micros = 170_000;
/// 1 s: assumed before a round trip is measured, and the maximum: one measured across an outage is
/// meaningless.
const ROUND_TRIP_MAX: Micros = 1_000_000;
/// 0.2 s: interval of liveness probes to an unresponsive session.
const PROBE_INTERVAL: Micros = 200_000;
/// 0.5 s: an unresponsive TCP connection gets a replacement sought beside it.
const RESCUE_AFTER: Micros = 500_000;
/// 2 s: the same for QUIC, whose probes are not held up by earlier packets, so the old connection
/// recovers as soon as a new one would.
const RESCUE_AFTER_QUIC: Micros = 2_000_000;
/// 5 s: an unresponsive connection is closed; longer than a change of networks and than outages
/// that a path recovers from, short enough that nobody types a sentence into it.
const UNRESPONSIVE_MAX: Micros = 5_000_000;
/// 2 s: the same after the machine has slept; the connection is most likely lost, and the user
/// waits.
const UNRESPONSIVE_MAX_AFTER_SLEEP: Micros = 2_000_000;
/// 1 s: a smaller difference is not sleep but the time between reading two clocks.
const SLEEP_MIN: Duration = Duration::from_secs(1);

/// 1 s: how often it is looked whether this machine has the connection's address still. Over TCP
/// nothing arrives through another one; a viewer whose user only watches would notice by the
/// kernel's keepalive, after 10 s.
const ADDRESS_INTERVAL: Micros = 1_000_000;

/// Liveness of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// The address that the connection needs, if it cannot move to another one, and when it is
    /// looked for.
    address: Option<IpAddr>,
    address_at: Micros,
    /// Total sleep of this machine at the last check.
    slept: Duration,
    slept_since_received: bool,
    /// When the session became unresponsive, and when the last probe was sent.
    unresponsive: Option<(Micros, Micros)>,
}

impl Liveness {
    /// The state of a new connection, which needs this address.
    pub(crate) fn new(slept: Duration, address: Option<IpAddr>) -> Liveness {
        let address = address.filter(|address| !address.is_loopback());
        let slept_since_received = false;
        Liveness { address, address_at: 0, slept, slept_since_received, unresponsive: None }
    }

    /// When [`Liveness::has_lost_address`] looks again.
    pub(crate) fn address_at(&self) -> Option<Micros> {
        self.address.map(|_| self.address_at)
    }

    /// True if this machine was found to lack the connection's address: a liveness probe is due.
    pub(crate) fn has_lost_address(&mut self, now: Micros) -> bool {
        let Some(address) = self.address.filter(|_| now >= self.address_at) else { return false };
        self.address_at = now + ADDRESS_INTERVAL;
        !has_address(address)
    }

    /// True if the machine has slept since the last call: a liveness probe is due.
    pub(crate) fn has_slept(&mut self, slept: Duration) -> bool {
        let sleep = slept.saturating_sub(self.slept);
        self.slept = slept;
        self.slept_since_received |= sleep >= SLEEP_MIN;
        sleep >= SLEEP_MIN
    }

    /// Something arrived from the session. True if it was unresponsive.
    pub(crate) fn handle_received(&mut self) -> bool {
        self.slept_since_received = false;
        self.unresponsive.take().is_some()
    }

    /// An answer is due and nothing has arrived; the path may be gone.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.unresponsive.is_some()
    }

    /// When [`Liveness::handle_unresponsive`] is due, if an answer is outstanding. `round_trip` is
    /// the shortest one measured, which excludes queueing delay.
    pub(crate) fn unresponsive_at(
        &self,
        unanswered_since: Option<Micros>,
        round_trip: Option<Micros>,
    ) -> Option<Micros> {
        let round_trip = round_trip.unwrap_or(ROUND_TRIP_MAX).min(ROUND_TRIP_MAX);
        let begins = unanswered_since? + 2 * round_trip + ANSWER_TIMEOUT;
        Some(self.unresponsive.map_or(begins, |(_, probed_at)| probed_at + PROBE_INTERVAL))
    }

    /// When a replacement connection is sought, if the session is unresponsive.
    pub(crate) fn rescue_at(&self, is_quic: bool) -> Option<Micros> {
        let (since, _) = self.unresponsive?;
        Some(since + if is_quic { RESCUE_AFTER_QUIC } else { RESCUE_AFTER })
    }

    /// The deadline has passed: the caller sends a probe. True if the session becomes unresponsive
    /// now.
    pub(crate) fn handle_unresponsive(&mut self, now: Micros) -> bool {
        let since = self.unresponsive.map_or(now, |(since, _)| since);
        self.unresponsive.replace((since, now)).is_none()
    }

    /// When the connection is closed if nothing arrives.
    pub(crate) fn ends_at(&self, unanswered_since: Option<Micros>) -> Option<Micros> {
        let limit =
            if self.slept_since_received { UNRESPONSIVE_MAX_AFTER_SLEEP } else { UNRESPONSIVE_MAX };
        unanswered_since.map(|since| since + limit)
    }
}

/// The kernel binds a socket to its own addresses only. Any other failure says nothing of them.
fn has_address(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    !bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

/// Total sleep of this machine since boot: CLOCK_BOOTTIME counts it, CLOCK_MONOTONIC does not.
pub(crate) fn time_slept() -> Duration {
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unresponsive_connection_ends_sooner_after_the_machine_has_slept() {
        let mut watch = Liveness::new(Duration::from_secs(100), None);
        assert_eq!(watch.ends_at(None), None, "nothing was asked");
        assert_eq!(watch.ends_at(Some(7)), Some(7 + UNRESPONSIVE_MAX));
        assert!(
            !watch.has_slept(Duration::from_millis(100_300)),
            "two clocks are never read at the same time"
        );
        assert!(watch.has_slept(Duration::from_secs(130)));
        assert!(!watch.has_slept(Duration::from_secs(130)), "it is reported once");
        assert_eq!(watch.ends_at(Some(7)), Some(7 + UNRESPONSIVE_MAX_AFTER_SLEEP));
        watch.handle_received();
        assert_eq!(watch.ends_at(Some(7)), Some(7 + UNRESPONSIVE_MAX));
    }

    #[test]
    fn an_address_that_this_machine_lacks_is_missed_once_a_second() {
        // TEST-NET-1 (RFC 5737).
        let mut gone = Liveness::new(Duration::ZERO, Some([192, 0, 2, 1].into()));
        assert!(gone.has_lost_address(7));
        assert_eq!(gone.address_at(), Some(7 + ADDRESS_INTERVAL));
        assert!(!gone.has_lost_address(6 + ADDRESS_INTERVAL), "it was looked for");
        assert!(gone.has_lost_address(7 + ADDRESS_INTERVAL));
        for address in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            assert!(has_address(address.into()));
            let mut local = Liveness::new(Duration::ZERO, Some(address.into()));
            assert!(!local.has_lost_address(7));
            assert_eq!(local.address_at(), None, "nothing takes it away");
        }
        assert_eq!(Liveness::new(Duration::ZERO, None).address_at(), None);
    }

    #[test]
    fn a_session_is_unresponsive_after_two_round_trips_until_something_arrives() {
        let mut watch = Liveness::new(Duration::ZERO, None);
        assert_eq!(watch.unresponsive_at(None, Some(66_000)), None, "nothing was asked");
        assert_eq!(watch.unresponsive_at(Some(7), Some(66_000)), Some(7 + 302_000));
        assert_eq!(
            watch.unresponsive_at(Some(7), None),
            Some(7 + 2_170_000),
            "the round trip is unknown"
        );
        assert_eq!(
            watch.unresponsive_at(Some(7), Some(30_000_000)),
            Some(7 + 2_170_000),
            "the round trip was measured across an outage"
        );
        assert!(watch.handle_unresponsive(302_007));
        assert_eq!(watch.unresponsive_at(Some(7), Some(66_000)), Some(502_007));
        assert!(!watch.handle_unresponsive(502_007), "it is reported once");
        assert_eq!(
            watch.rescue_at(false),
            Some(302_007 + RESCUE_AFTER),
            "counted from when it was reported"
        );
        assert_eq!(watch.rescue_at(true), Some(302_007 + RESCUE_AFTER_QUIC));
        assert!(watch.is_unresponsive());
        assert!(watch.handle_received());
        assert!(
            !watch.is_unresponsive()
                && !watch.handle_received()
                && watch.rescue_at(false).is_none()
        );
    }

    #[test]
    fn a_running_machine_does_not_sleep() {
        // A busy machine may take its time between two clocks, but not each time.
        assert!((0..10).any(|_| {
            let before = time_slept();
            time_slept().saturating_sub(before) < SLEEP_MIN
        }));
    }
}
