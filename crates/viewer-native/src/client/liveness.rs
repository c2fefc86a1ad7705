//! Path 11/13: beside connection.rs; what viewer-core says of the connection's liveness is done.
//! From the clock, and what the machine does to the connection, to viewer-core; from there to the
//! status, to rescue.rs, and to the end of the connection. Knows no limits.

use std::time::Duration;

use thinc_protocol::Micros;
use thinc_viewer_core::Liveness;

use super::{State, Status};
use crate::machine::time_slept;

/// Reason shown when an unresponsive connection is closed.
pub(super) const UNRESPONSIVE: &str = "the session no longer answers";

impl State {
    /// Passes the time on to viewer-core's liveness, and what this machine does to the connection;
    /// closes a connection that is dead. The threads that serve it end when it does, and report the
    /// reason. True if a deadline has passed or the liveness has changed: there may be news.
    pub(super) fn check_liveness(&mut self) -> bool {
        if !self.served.is_open() || self.unresponsive {
            return false;
        }
        let now = self.clock.now();
        if self.machine.has_slept(time_slept()) {
            self.active().handle_wake(now);
            self.flush();
        }
        if self.machine.has_lost_address(now) {
            self.active().probe_liveness(now);
            self.flush();
        }
        let is_due = self.active().liveness_deadline().is_some_and(|at| at <= now);
        if is_due {
            self.handle_timeout(now);
            self.flush();
        }
        self.follow_liveness();
        if self.liveness == Liveness::Dead {
            self.abort_connection();
        }
        std::mem::take(&mut self.liveness_changed) || is_due
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
        if std::mem::replace(&mut self.liveness, liveness) != liveness {
            self.liveness_changed = true;
            self.news.status = true;
        }
    }

    /// True if the session owes an answer and nothing has arrived.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.is_connected() && self.liveness > Liveness::Responsive
    }

    /// Time until an unresponsive session is worth another connection, or dead; None while it is
    /// responsive.
    pub(super) fn liveness_in(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        let is_responsive = self.liveness == Liveness::Responsive;
        let at = self.active().liveness_deadline().filter(|_| !is_responsive)?;
        Some(Duration::from_micros(at.saturating_sub(now)))
    }

    /// Aborts an unresponsive connection; unsent bytes are dropped.
    pub(super) fn abort_connection(&mut self) {
        self.unresponsive = true;
        if self.is_connected() {
            self.status = Status::Lost { why: UNRESPONSIVE.to_owned(), attempts: 0 };
            self.news.status = true;
        }
        self.served.abort();
    }
}
