//! Path 10/13: beside viewer.rs: answers to a hand that went alone, once more.
//! From what has left, to a second datagram a moment later, where the path loses some: where one in ten is lost, both are once in a hundred
//! times.
//! Knows bytes and times; never what they say.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// An eighth of a round trip, within 2 and 10 ms, from the first to the second: in one packet they would be lost together.
const DELAY_MIN: Micros = 2_000;
const DELAY_MAX: Micros = 10_000;
/// Longest that is said twice, and how many wait for it: a letter, and what a fast hand does in that time.
const BYTES_MAX: usize = 512;
const WAITING_MAX: usize = 8;

#[derive(Debug, Default)]
struct Repeat {
    seq: u64,
    due: Micros,
    bytes: Vec<u8>,
}

/// One viewer's.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    waiting: VecDeque<Repeat>,
    spare: Vec<Repeat>,
}

impl Repeats {
    /// It left.
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

    /// The next that goes once more now, where it `may` go: what has arrived, or is known to be lost, need not.
    pub(crate) fn poll(&mut self, now: Micros, may: impl Fn(u64) -> bool) -> Option<&[u8]> {
        while let Some(repeat) = self.waiting.pop_front_if(|repeat| repeat.due <= now) {
            let seq = repeat.seq;
            self.spare.push(repeat);
            if may(seq) {
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
    fn what_is_not_known_to_have_arrived_goes_once_more_a_moment_later() {
        let mut repeats = Repeats::default();
        repeats.sent(1, b"a", 40_000, 0);
        repeats.sent(2, b"b", 40_000, 1_000);
        repeats.sent(3, &[0; BYTES_MAX + 1], 40_000, 1_000);
        assert_eq!(repeats.deadline(), Some(5_000));
        assert_eq!(repeats.poll(4_999, |_| true), None);
        assert_eq!(repeats.poll(6_000, |seq| seq != 1), Some(&b"b"[..]), "the first has arrived");
        assert_eq!(repeats.poll(60_000, |_| true), None, "what is long goes once");
        assert_eq!(repeats.deadline(), None);
        for seq in 4..100 {
            repeats.sent(seq, b"c", 2_000, 70_000);
        }
        let all = std::iter::from_fn(|| repeats.poll(72_000, |_| true).map(<[u8]>::len)).count();
        assert_eq!((all, repeats.spare.len()), (WAITING_MAX, WAITING_MAX));
    }
}
