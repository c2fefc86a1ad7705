//! What this machine does to a connection: it sleeps, or loses the address that the connection
//! needs. From the system, to client.rs, which tells viewer-core's liveness of it. Knows clocks and
//! addresses; never whether the session answers.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thinc_protocol::Micros;

/// 1 s: a smaller difference is not sleep but the time between reading two clocks.
const SLEEP_MIN: Duration = Duration::from_secs(1);

/// 1 s: how often it is looked whether this machine has the connection's address still. Over TCP
/// nothing arrives through another one; a viewer whose user only watches would notice by the
/// kernel's keepalive, after 10 s.
const ADDRESS_INTERVAL: Micros = 1_000_000;

/// This machine, as one connection needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The address that the connection needs, if it cannot move to another one, and when it is
    /// looked for.
    address: Option<IpAddr>,
    address_at: Micros,
    /// Total sleep of this machine at the last check.
    slept: Duration,
}

impl Machine {
    /// For a new connection, which needs this address.
    pub(crate) fn new(slept: Duration, address: Option<IpAddr>) -> Machine {
        let address = address.filter(|address| !address.is_loopback());
        Machine { address, address_at: 0, slept }
    }

    /// When [`Machine::has_lost_address`] looks again.
    pub(crate) fn address_at(&self) -> Option<Micros> {
        self.address.map(|_| self.address_at)
    }

    /// True if this machine was found to lack the connection's address: a liveness probe is due.
    pub(crate) fn has_lost_address(&mut self, now: Micros) -> bool {
        let Some(address) = self.address.filter(|_| now >= self.address_at) else { return false };
        self.address_at = now + ADDRESS_INTERVAL;
        !has_address(address)
    }

    /// True if the machine has slept since the last call.
    pub(crate) fn has_slept(&mut self, slept: Duration) -> bool {
        let sleep = slept.saturating_sub(self.slept);
        self.slept = slept;
        sleep >= SLEEP_MIN
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
    fn a_sleep_is_reported_once() {
        let mut machine = Machine::new(Duration::from_secs(100), None);
        assert!(
            !machine.has_slept(Duration::from_millis(100_300)),
            "two clocks are never read at the same time"
        );
        assert!(machine.has_slept(Duration::from_secs(130)));
        assert!(!machine.has_slept(Duration::from_secs(130)));
    }

    #[test]
    fn an_address_that_this_machine_lacks_is_missed_once_a_second() {
        // TEST-NET-1 (RFC 5737).
        let mut gone = Machine::new(Duration::ZERO, Some([192, 0, 2, 1].into()));
        assert!(gone.has_lost_address(7));
        assert_eq!(gone.address_at(), Some(7 + ADDRESS_INTERVAL));
        assert!(!gone.has_lost_address(6 + ADDRESS_INTERVAL), "it was looked for");
        assert!(gone.has_lost_address(7 + ADDRESS_INTERVAL));
        for address in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            assert!(has_address(address.into()));
            let mut local = Machine::new(Duration::ZERO, Some(address.into()));
            assert!(!local.has_lost_address(7));
            assert_eq!(local.address_at(), None, "nothing takes it away");
        }
        assert_eq!(Machine::new(Duration::ZERO, None).address_at(), None);
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
