//! Path 10/13: beside connection.rs, rechoose.rs, rescue.rs and switch.rs, whose threads share it.
//! Which transport the connection uses, why not QUIC, and what takes its place. Knows the names of
//! transports and the reasons; never threads, times or messages.

use thinc_transport::{Established, Link};

/// The transport of the connection, and the connection that is to take its place.
#[derive(Debug, Default)]
pub(crate) struct Transports {
    /// quic, tcp or ssh; None before the first connection.
    current: Option<&'static str>,
    /// Why it took the place of another; None if it was the first choice.
    reason: Option<String>,
    /// The same for the connection that is being opened.
    next_reason: Option<String>,
    /// Over ssh or TCP: why that is used and not QUIC, if QUIC was tried.
    quic_failure: Option<String>,
    /// Where a session behind ssh is reached over QUIC, once it was.
    direct: Option<Link>,
    /// A connection that has completed its handshake already.
    replacement: Option<Established>,
    /// The connection is replaced on purpose, and nothing is lost: input is taken, and the next
    /// connection sends it.
    switching: bool,
    /// A replacement waits until nothing is held down on this connection.
    awaits_release: bool,
}

impl Transports {
    /// quic, tcp or ssh; None before the first connection.
    pub(crate) fn current(&self) -> Option<&'static str> {
        self.current
    }

    /// Why the connection's transport took the place of another; None if it was the first choice.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Over ssh or TCP: why that is used and not QUIC, if QUIC was tried.
    pub(crate) fn quic_failure(&self) -> Option<&str> {
        self.quic_failure.as_deref()
    }

    /// A connection was opened over QUIC, or over TCP.
    pub(super) fn handle_opened(&mut self, name: &'static str, is_quic: bool) {
        self.current = Some(name);
        self.reason = self.next_reason.take();
        if is_quic {
            self.quic_failure = None;
        }
    }

    /// A tunnel was opened, and QUIC is tried beside it; or why not, if the host has said so.
    pub(super) fn handle_tunnel(&mut self, offered: Result<(), Option<String>>) {
        self.current = Some("ssh");
        self.quic_failure = match offered {
            Ok(()) => None,
            Err(reason) => reason.or(self.quic_failure.take()),
        };
    }

    /// QUIC was tried beside the connection, and failed.
    pub(super) fn handle_quic_failure(&mut self, why: String) {
        self.quic_failure = Some(why);
    }

    /// A session behind ssh was opened over QUIC.
    pub(super) fn handle_direct(&mut self, link: Link) {
        self.direct = Some(link);
        self.quic_failure = None;
    }

    /// Where a session behind ssh is reached over QUIC.
    pub(super) fn direct(&self) -> Option<&Link> {
        self.direct.as_ref()
    }

    /// The next connection opens the session there.
    pub(super) fn set_direct(&mut self, link: Link) {
        self.direct = Some(link);
    }

    /// Something else answers there: only ssh can tell where the session is.
    pub(super) fn forget_direct(&mut self) {
        self.direct = None;
    }

    /// The next connection's transport has this reason.
    pub(super) fn set_next_reason(&mut self, why: String) {
        self.next_reason = Some(why);
    }

    /// A replacement waits for keys and buttons to be released, or no longer.
    pub(super) fn set_awaits_release(&mut self, waits: bool) {
        self.awaits_release = waits;
    }

    pub(super) fn awaits_release(&self) -> bool {
        self.awaits_release
    }

    /// The connection is unresponsive: this one takes its place.
    pub(super) fn rescue(&mut self, by: Established) {
        self.replacement = Some(by);
    }

    /// This connection takes the place of one that still serves, and nothing is lost; of one that
    /// is lost, as after a rescue.
    pub(super) fn replace(&mut self, by: Established, still_serves: bool) {
        self.replacement = Some(by);
        self.switching = still_serves;
    }

    /// A connection waits to take the place of this one, which is being closed.
    pub(super) fn has_replacement(&self) -> bool {
        self.replacement.is_some()
    }

    pub(super) fn take_replacement(&mut self) -> Option<Established> {
        self.replacement.take()
    }

    /// The connection is replaced on purpose, and nothing is lost.
    pub(super) fn is_switching(&self) -> bool {
        self.switching
    }

    /// The replacement has a screen, or there is none any more; true if one was expected.
    pub(super) fn end_switch(&mut self) -> bool {
        std::mem::take(&mut self.switching)
    }

    /// A replacement over QUIC was reached, and did not open the session.
    pub(super) fn handle_replacement_failure(&mut self, why: &str) {
        self.switching = false;
        self.next_reason = None;
        self.quic_failure = Some(why.to_owned());
    }

    /// The UDP port does not open the session behind ssh. True if it was to replace the tunnel.
    pub(super) fn handle_direct_failure(&mut self, why: &str) -> bool {
        self.direct = None;
        self.quic_failure = Some(why.to_owned());
        self.end_switch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        "thinc://host:7000/".parse().expect("a link")
    }

    #[test]
    fn a_reason_belongs_to_the_next_connection_only() {
        let mut transports = Transports::default();
        transports.handle_opened("tcp", false);
        transports.set_next_reason("the path loses packets".to_owned());
        assert_eq!((transports.current(), transports.reason()), (Some("tcp"), None));
        transports.handle_opened("quic", true);
        assert_eq!(transports.current(), Some("quic"));
        assert_eq!(transports.reason(), Some("the path loses packets"));
        transports.handle_opened("tcp", false);
        assert_eq!(transports.reason(), None);
    }

    #[test]
    fn a_failure_of_quic_is_known_until_quic_is_used() {
        let mut transports = Transports::default();
        transports.handle_opened("tcp", false);
        transports.handle_quic_failure("no answer".to_owned());
        transports.handle_opened("tcp", false);
        assert_eq!(transports.quic_failure(), Some("no answer"));
        transports.handle_opened("quic", true);
        assert_eq!(transports.quic_failure(), None);
    }

    #[test]
    fn a_replacement_that_fails_gives_no_reason_to_the_connection_after_it() {
        let mut transports = Transports { switching: true, ..Transports::default() };
        transports.set_next_reason("the path is long".to_owned());
        transports.handle_replacement_failure("refused");
        assert!(!transports.is_switching());
        transports.handle_opened("tcp", false);
        assert_eq!((transports.reason(), transports.quic_failure()), (None, Some("refused")));
    }

    #[test]
    fn a_host_says_why_its_session_is_not_reached_over_quic_or_the_last_failure_stays() {
        let mut transports = Transports::default();
        transports.set_direct(link());
        assert!(!transports.handle_direct_failure("no answer"), "a loss, and no switch");
        assert!(transports.direct().is_none());
        transports.handle_tunnel(Err(None));
        assert_eq!(transports.quic_failure(), Some("no answer"));
        transports.handle_tunnel(Err(Some("UDP is switched off".to_owned())));
        assert_eq!(transports.quic_failure(), Some("UDP is switched off"));
        transports.handle_tunnel(Ok(()));
        assert_eq!((transports.current(), transports.quic_failure()), (Some("ssh"), None));
        let mut switching = Transports { switching: true, ..Transports::default() };
        assert!(switching.handle_direct_failure("refused") && !switching.is_switching());
    }
}
