//! Path back: under viewer.rs, beside the stream: what a person has just done, once more.
//! From the stream's newest bytes, to a datagram a moment later. Where the stream's packet is lost, this says the same a good while before
//! that is sent again.
//! Knows bytes and times; never what they say.

use thinc_protocol::Micros;
use thinc_protocol::limits::EARLY_BYTES_MAX;
use thinc_protocol::viewer::Early;

/// An eighth of a round trip, within 2 and 10 ms, from the stream's packet to the datagram: in one packet they would be lost together.
const DELAY_MIN: Micros = 2_000;
const DELAY_MAX: Micros = 10_000;

/// The end of a stream, of which some is worth saying twice.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The session takes them.
    pub(crate) is_on: bool,
    /// Bytes written to the stream, and the newest of them.
    written: u64,
    newest: Vec<u8>,
    /// When they are said again.
    due: Option<Micros>,
    is_due: bool,
}

impl Repeats {
    /// The stream goes on with these.
    pub(crate) fn written(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        let fresh = &bytes[bytes.len().saturating_sub(EARLY_BYTES_MAX)..];
        let excess = (self.newest.len() + fresh.len()).saturating_sub(EARLY_BYTES_MAX);
        self.newest.drain(..excess);
        self.newest.extend_from_slice(fresh);
    }

    /// A person waits for what this does, which the stream brings, too.
    pub(crate) fn want(&mut self, rtt: Option<u64>, now: Micros) {
        if self.is_on {
            self.due.get_or_insert(now + rtt.map_or(DELAY_MIN, |rtt| (rtt / 8).clamp(DELAY_MIN, DELAY_MAX)));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.due
    }

    pub(crate) fn handle_timeout(&mut self, now: Micros) {
        self.is_due |= self.due.take_if(|due| *due <= now).is_some();
    }

    /// What is to be said again now.
    pub(crate) fn poll(&mut self) -> Option<Early> {
        let due = std::mem::take(&mut self.is_due) && !self.newest.is_empty();
        due.then(|| Early { offset: self.written - self.newest.len() as u64, bytes: self.newest.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_stream_is_said_once_more_a_moment_later() {
        let mut repeats = Repeats { is_on: true, ..Repeats::default() };
        repeats.written(&[7; 300]);
        repeats.written(b"a key");
        repeats.want(Some(40_000), 1_000);
        repeats.want(Some(40_000), 3_000);
        assert_eq!(repeats.deadline(), Some(6_000), "the first of several decides");
        repeats.handle_timeout(5_999);
        assert_eq!(repeats.poll(), None);
        repeats.handle_timeout(6_000);
        let early = repeats.poll().expect("it is time");
        assert_eq!((early.offset, early.bytes.len()), (305 - EARLY_BYTES_MAX as u64, EARLY_BYTES_MAX));
        assert!(early.bytes.ends_with(b"a key"));
        assert_eq!((repeats.poll(), repeats.deadline()), (None, None));
    }

    #[test]
    fn a_session_that_takes_none_is_told_none() {
        let mut repeats = Repeats::default();
        repeats.written(b"a key");
        repeats.want(None, 0);
        assert_eq!(repeats.deadline(), None);
    }
}
