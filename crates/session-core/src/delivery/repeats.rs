//! Path 10/13: beside loss_detection.rs, from the input responses that were sent as datagrams, to a
//! second copy of each.
//! On a lossy path an input response is sent twice, a moment apart: if one packet in ten is lost,
//! both copies are lost once in a hundred times. Knows bytes and times; never their meaning.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// An eighth of the round trip, within 2 and 10 ms, between both copies: in one packet they would
/// be lost together.
const DELAY_MIN: Micros = 2_000;
const DELAY_MAX: Micros = 10_000;
/// Longest datagram that is repeated, and how many may wait: a glyph, and as many keystrokes as a
/// fast typist makes in that time.
const BYTES_MAX: usize = 512;
const WAITING_MAX: usize = 8;

#[derive(Debug, Default)]
struct Repeat {
    seq: u64,
    due: Micros,
    bytes: Vec<u8>,
}

/// The repeats that wait for one viewer.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    waiting: VecDeque<Repeat>,
    spare: Vec<Repeat>,
}

impl Repeats {
    /// A datagram was sent: schedules its second copy, if it is short and there is room.
    pub(crate) fn sent(&mut self, seq: u64, bytes: &[u8], rtt: Micros, now: Micros) {
        if bytes.is_empty() || bytes.len() > BYTES_MAX || self.waiting.len() == WAITING_MAX {
            return;
        }
        let mut repeat = self.spare.pop().unwrap_or_default();
        (repeat.seq, repeat.due) = (seq, now + (rtt / 8).clamp(DELAY_MIN, DELAY_MAX));
        repeat.bytes.clear();
        repeat.bytes.extend_from_slice(bytes);
        self.waiting.push_back(repeat);
    }

    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.waiting.front().map(|repeat| repeat.due)
    }

    /// The next copy that is due, if its update is still in flight by `is_in_flight`.
    pub(crate) fn poll(
        &mut self,
        now: Micros,
        is_in_flight: impl Fn(u64) -> bool,
    ) -> Option<&[u8]> {
        while let Some(repeat) = self.waiting.pop_front_if(|repeat| repeat.due <= now) {
            let seq = repeat.seq;
            self.spare.push(repeat);
            if is_in_flight(seq) {
                return self.spare.last().map(|repeat| &repeat.bytes[..]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_datagram_in_flight_is_repeated_a_moment_later() {
        let mut repeats = Repeats::default();
        repeats.sent(1, b"a", 40_000, 0);
        repeats.sent(2, b"b", 40_000, 1_000);
        repeats.sent(3, &[0; BYTES_MAX + 1], 40_000, 1_000);
        assert_eq!(repeats.deadline(), Some(5_000));
        assert_eq!(repeats.poll(4_999, |_| true), None);
        assert_eq!(repeats.poll(6_000, |seq| seq != 1), Some(&b"b"[..]), "the first has arrived");
        assert_eq!(repeats.poll(60_000, |_| true), None, "a long one is sent once");
        assert_eq!(repeats.deadline(), None);
        for seq in 4..100 {
            repeats.sent(seq, b"c", 2_000, 70_000);
        }
        let all = std::iter::from_fn(|| repeats.poll(72_000, |_| true).map(<[u8]>::len)).count();
        assert_eq!((all, repeats.spare.len()), (WAITING_MAX, WAITING_MAX));
    }
}
