//! Path 11/13: beside connection.rs; what viewer-core says of the connection's liveness is done.
//! From the clock, and what the machine does to the connection, to viewer-core; from there to the
//! status, to rescue.rs, and to the end of the connection. Knows no limits.

use std::net::IpAddr;
use std::time::Duration;

use thinc_protocol::Micros;
use thinc_viewer_core::{Liveness, Viewer};

use super::{State, Status};
use crate::machine::{Machine, time_slept};

/// Reason shown when an unresponsive connection is closed.
pub(super) const UNRESPONSIVE: &str = "the session no longer answers";

/// What is known of the liveness of the connection that is served.
#[derive(Debug)]
pub(super) struct ConnectionWatch {
    /// Whether the session answers, as viewer-core last said of the connection.
    liveness: Liveness,
    /// It has changed since the threads that serve the connection last looked.
    changed: bool,
    /// What this machine does to the connection.
    machine: Machine,
    /// The session has been unresponsive for too long, or a replacement was found: the connection
    /// is being closed.
    aborted: bool,
}

impl ConnectionWatch {
    /// Before the first connection.
    pub(super) fn new() -> ConnectionWatch {
        ConnectionWatch {
            liveness: Liveness::Responsive,
            changed: false,
            machine: Machine::new(time_slept(), None),
            aborted: false,
        }
    }

    /// A connection is served; `address` is this machine's, if the connection needs it.
    pub(super) fn begin(&mut self, address: Option<IpAddr>) {
        self.liveness = Liveness::Responsive;
        self.machine = Machine::new(time_slept(), address);
    }

    pub(super) fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// When this machine is looked at again, if nothing else happens.
    pub(super) fn machine_deadline(&self) -> Option<Micros> {
        self.machine.address_at()
    }

    /// Tells the connection's viewer what this machine has done; true if it may have something to
    /// send. `slept` is the machine's total sleep.
    fn check_machine(&mut self, slept: Duration, viewer: &mut Viewer, now: Micros) -> bool {
        let (has_slept, has_lost_address) =
            (self.machine.has_slept(slept), self.machine.has_lost_address(now));
        if has_slept {
            viewer.handle_wake(now);
        }
        if has_lost_address {
            viewer.probe_liveness(now);
        }
        has_slept || has_lost_address
    }

    /// True if viewer-core says something else than before.
    fn follow(&mut self, liveness: Liveness) -> bool {
        let changes = std::mem::replace(&mut self.liveness, liveness) != liveness;
        self.changed |= changes;
        changes
    }

    /// The change that was taken is for the threads that serve the connection.
    pub(super) fn keep_change(&mut self) {
        self.changed = true;
    }

    fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The connection is being closed, because the session does not answer on it.
    pub(super) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// The same, once: the connection has ended.
    pub(super) fn take_aborted(&mut self) -> bool {
        std::mem::take(&mut self.aborted)
    }
}

impl State {
    /// Passes the time on to viewer-core's liveness, and what this machine does to the connection;
    /// closes a connection that is dead. The threads that serve it end when it does, and report the
    /// reason. True if a deadline has passed or the liveness has changed: there may be news.
    pub(super) fn check_liveness(&mut self) -> bool {
        if !self.served.is_open() || self.watch.is_aborted() {
            return false;
        }
        let now = self.clock.now();
        if self.watch.check_machine(time_slept(), self.viewers.active(), now) {
            self.flush();
        }
        let is_due = self.active().liveness_deadline().is_some_and(|at| at <= now);
        if is_due {
            self.handle_timeout(now);
            self.flush();
        }
        self.follow_liveness();
        if self.watch.liveness() == Liveness::Dead {
            self.abort_connection();
        }
        self.watch.take_change() || is_due
    }

    /// Deadlines of viewer-core have expired.
    pub(super) fn handle_timeout(&mut self, now: Micros) {
        self.active().handle_timeout(now);
        // They produce events; the session has not closed.
        let _ = if self.is_connected() { self.take_events() } else { None };
    }

    /// Something arrived, or a deadline has passed: the liveness may be another.
    pub(super) fn follow_liveness(&mut self) {
        let liveness = self.active().liveness();
        self.news.status |= self.watch.follow(liveness);
    }

    /// True if the session owes an answer and nothing has arrived.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.is_connected() && self.watch.liveness() > Liveness::Responsive
    }

    /// Time until an unresponsive session is worth another connection, or dead; None while it is
    /// responsive.
    pub(super) fn liveness_in(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        let is_responsive = self.watch.liveness() == Liveness::Responsive;
        let at = self.active().liveness_deadline().filter(|_| !is_responsive)?;
        Some(Duration::from_micros(at.saturating_sub(now)))
    }

    /// Aborts an unresponsive connection; unsent bytes are dropped.
    pub(super) fn abort_connection(&mut self) {
        self.watch.aborted = true;
        if self.is_connected() {
            self.status = Status::Lost { why: UNRESPONSIVE.to_owned(), attempts: 0 };
            self.news.status = true;
        }
        self.served.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::connected;
    use super::*;
    use thinc_region::Size;

    #[test]
    fn a_change_is_taken_once_and_may_be_left_to_others() {
        let mut watch = ConnectionWatch::new();
        assert!(!watch.follow(Liveness::Responsive) && !watch.take_change());
        assert!(watch.follow(Liveness::Replaceable));
        assert!(watch.take_change() && !watch.take_change());
        watch.keep_change();
        assert!(watch.take_change());
        watch.begin(None);
        assert_eq!(watch.liveness(), Liveness::Responsive, "the next connection is another");
    }

    #[test]
    fn an_aborted_connection_is_told_of_once() {
        let mut watch = ConnectionWatch::new();
        watch.aborted = true;
        assert!(watch.is_aborted() && watch.take_aborted());
        assert!(!watch.is_aborted() && !watch.take_aborted());
    }

    #[test]
    fn a_lost_address_and_a_sleep_make_the_viewer_ask_whether_the_session_answers() {
        let mut viewer = connected(Size { width: 800, height: 600 });
        // TEST-NET-1 (RFC 5737).
        let gone = Some([192, 0, 2, 1].into());
        let mut watch = ConnectionWatch::new();
        watch.begin(gone);
        let slept = time_slept();
        assert!(watch.check_machine(slept, &mut viewer, 7));
        assert!(!watch.check_machine(slept, &mut viewer, 8), "it was looked for");
        assert!(watch.machine_deadline().is_some_and(|at| at > 8));
        assert!(watch.check_machine(slept + Duration::from_secs(60), &mut viewer, 9));
        watch.begin(None);
        assert!(!watch.check_machine(time_slept(), &mut viewer, 10));
        assert_eq!(watch.machine_deadline(), None);
    }
}
