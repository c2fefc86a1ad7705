//! Path 10/13: beside connection.rs; the connection that is served, for the threads that serve it.
//! How it is closed, who writes to it, and which of all connections it is. Knows no messages, and
//! not whether the session answers.

use std::sync::{Arc, Condvar};

use crate::wire::Writer;

/// The connection that is served, or the login that comes before it.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Count of connections served, to tell one from the next.
    number: u64,
    /// Closes the open connection, even while its writer blocks on a full socket.
    closer: Option<Writer>,
    /// Wakes the writer.
    unsent: Arc<Condvar>,
    /// The connection's writer thread runs.
    writing: bool,
    /// The connection ends once everything is sent.
    leaving: bool,
    /// It has shown a whole drawing burst.
    has_picture: bool,
    /// Bytes lost on the paths of all connections that were computed from parities.
    repaired_bytes: u64,
}

impl Served {
    /// A login is in progress, which the user may end.
    pub(super) fn log_in(&mut self, login: Writer) {
        self.closer = Some(login);
    }

    /// A connection is served from now on, and its writer is started.
    pub(super) fn begin(&mut self, closer: Writer) {
        self.number += 1;
        self.closer = Some(closer);
        self.writing = true;
        self.has_picture = false;
    }

    /// It has ended, and so does its writer.
    pub(super) fn end(&mut self) {
        self.leaving = false;
        self.closer = None;
        self.unsent.notify_all();
    }

    /// Which connection is served, or was last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// A connection or a login is open.
    pub(super) fn is_open(&self) -> bool {
        self.closer.is_some()
    }

    /// This connection is served.
    pub(super) fn is(&self, number: u64) -> bool {
        self.number == number && self.is_open()
    }

    /// viewer-core may have bytes to send. They stay there until the writer is free, so that
    /// acknowledgements and motions are merged while a slow network blocks.
    pub(super) fn wake_writer(&self) {
        self.unsent.notify_one();
    }

    /// What the writer waits for.
    pub(super) fn writer_waits_for(&self) -> Arc<Condvar> {
        self.unsent.clone()
    }

    /// The writer's thread runs.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// It has ended, or could not be started.
    pub(super) fn handle_writer_ended(&mut self) {
        self.writing = false;
    }

    /// What viewer-core still has to send is sent, then the writer ends.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
        self.unsent.notify_all();
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Bytes written until now arrive, and the reader ends.
    pub(super) fn close(&mut self) {
        self.closer.iter_mut().for_each(Writer::close);
    }

    /// Bytes that have not arrived are dropped, and the reader ends.
    pub(super) fn abort(&mut self) {
        self.closer.iter_mut().for_each(Writer::abort);
    }

    /// A whole drawing burst was shown.
    pub(super) fn handle_picture(&mut self) {
        self.has_picture = true;
    }

    pub(super) fn has_picture(&self) -> bool {
        self.has_picture
    }

    /// Over TCP: segments of this end that the path has lost.
    pub(super) fn lost_segments(&self) -> Option<u64> {
        self.closer.as_ref().and_then(Writer::lost_segments)
    }

    /// So many bytes of what has arrived had been lost, and were computed from parities.
    pub(super) fn count_repaired(&mut self, bytes: u64) {
        self.repaired_bytes += bytes;
    }

    pub(super) fn repaired_bytes(&self) -> u64 {
        self.repaired_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::ssh::{Attempt, Login};

    /// The writing half of a program that ends at once.
    fn writer() -> Writer {
        let Ok(Target::Ssh(mut target)) = "ssh://host".parse() else { panic!("an address") };
        target.program = vec!["true".to_owned()];
        let attempt = Attempt { is_reconnect: true, unshared: false, wants_offer: false };
        Writer::Ssh(Login::start(&target, attempt).expect("`true` starts").writer())
    }

    #[test]
    fn a_connection_is_known_by_its_number_while_it_is_served() {
        let mut served = Served::default();
        served.log_in(writer());
        assert!(served.is_open(), "the login can be ended");
        served.begin(writer());
        let first = served.number();
        assert!(served.is(first) && served.is_writing());
        served.handle_picture();
        served.end();
        assert!(!served.is(first) && !served.is_open());
        served.begin(writer());
        assert!(!served.is(first) && served.is(first + 1));
        assert!(!served.has_picture(), "that was the other");
    }

    #[test]
    fn a_connection_that_was_left_does_not_make_the_next_one_leave() {
        let mut served = Served::default();
        served.begin(writer());
        served.leave();
        assert!(served.is_leaving() && served.is_writing());
        served.handle_writer_ended();
        served.end();
        served.begin(writer());
        assert!(!served.is_leaving() && served.is_writing());
    }

    #[test]
    fn repaired_bytes_are_counted_over_all_connections() {
        let mut served = Served::default();
        for _ in 0..2 {
            served.begin(writer());
            served.count_repaired(3);
            served.end();
        }
        assert_eq!(served.repaired_bytes(), 6);
        assert_eq!(served.lost_segments(), None, "of no connection");
    }
}
