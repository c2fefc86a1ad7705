//! Path back: under viewer.rs, beside the stream, to the transport's datagrams.
//! Repeats the stream's newest bytes in a datagram a moment later: if the stream's packet is lost,
//! the session gets the input well before the retransmission. Knows bytes and times; never their
//! meaning.

use thinc_protocol::Micros;
use thinc_protocol::limits::EARLY_BYTES_MAX;
use thinc_protocol::viewer::Early;

/// Delay from the stream's packet to the datagram: RTT/8, within 2 and 10 ms. In one packet both
/// would be lost together.
const DELAY_MIN: Micros = 2_000;
const DELAY_MAX: Micros = 10_000;

/// The newest bytes written to the stream.
#[derive(Debug, Default)]
pub(crate) struct StreamTail {
    /// The session accepts EARLY datagrams.
    pub(crate) is_on: bool,
    /// Count of bytes written to the stream, and the newest of them.
    written: u64,
    newest: Vec<u8>,
    /// When the datagram is due.
    due: Option<Micros>,
    is_due: bool,
}

impl StreamTail {
    /// These bytes were written to the stream.
    pub(crate) fn written(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        let added = &bytes[bytes.len().saturating_sub(EARLY_BYTES_MAX)..];
        let excess = (self.newest.len() + added.len()).saturating_sub(EARLY_BYTES_MAX);
        self.newest.drain(..excess);
        self.newest.extend_from_slice(added);
    }

    /// The newest bytes hold an input that expects an echo: schedules the datagram.
    pub(crate) fn schedule(&mut self, rtt: Option<u64>, now: Micros) {
        if self.is_on {
            self.due.get_or_insert(
                now + rtt.map_or(DELAY_MIN, |rtt| (rtt / 8).clamp(DELAY_MIN, DELAY_MAX)),
            );
        }
    }

    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.due
    }

    pub(crate) fn handle_timeout(&mut self, now: Micros) {
        self.is_due |= self.due.take_if(|due| *due <= now).is_some();
    }

    /// The datagram that is due now.
    pub(crate) fn poll(&mut self) -> Option<Early> {
        let due = std::mem::take(&mut self.is_due) && !self.newest.is_empty();
        due.then(|| Early {
            offset: self.written - self.newest.len() as u64,
            bytes: self.newest.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_of_the_stream_are_repeated_after_the_delay() {
        let mut tail = StreamTail { is_on: true, ..StreamTail::default() };
        tail.written(&[7; 300]);
        tail.written(b"a key");
        tail.schedule(Some(40_000), 1_000);
        tail.schedule(Some(40_000), 3_000);
        assert_eq!(tail.deadline(), Some(6_000), "the first request sets the deadline");
        tail.handle_timeout(5_999);
        assert_eq!(tail.poll(), None);
        tail.handle_timeout(6_000);
        let early = tail.poll().expect("the datagram is due");
        assert_eq!(
            (early.offset, early.bytes.len()),
            (305 - EARLY_BYTES_MAX as u64, EARLY_BYTES_MAX)
        );
        assert!(early.bytes.ends_with(b"a key"));
        assert_eq!((tail.poll(), tail.deadline()), (None, None));
    }

    #[test]
    fn nothing_is_repeated_for_a_session_without_the_capability() {
        let mut tail = StreamTail::default();
        tail.written(b"a key");
        tail.schedule(None, 0);
        assert_eq!(tail.deadline(), None);
    }
}
