//! Path beside the pixels, both ways: under end.rs, which asks whether another piece may leave.
//! How many bytes of contents may be unconfirmed: as many as keep the path busy, and hardly any that stand in a queue.
//! Knows byte counts and how long a piece took to be confirmed; never what it held.
//!
//! The path is shared with what a person waits for: what stands in a queue here, a keystroke stands behind. So this is
//! LEDBAT's idea (RFC 6817) rather than TCP's: the delay of a piece that went alone is the path's own, and where pieces
//! take [`QUEUE_MAX`] longer than that, there are too many.

use thinc_protocol::Micros;

/// 4 KiB: most pastes are a line of text, and leave at once.
const FIRST: u64 = 4 * 1024;
/// 2 KiB: least that may be unconfirmed, 16 ms of 1 Mbit/s.
const LEAST: u64 = 2 * 1024;
/// 2 MiB: 160 ms of 100 Mbit/s; more than the path can hold is memory.
const MOST: u64 = 2 * 1024 * 1024;
/// 20 ms: how much longer than the path's own delay a piece may take. A keystroke behind it is that much late, at worst.
const QUEUE_MAX: Micros = 20_000;
/// 10 s: the path's own delay is measured anew after this long, with a piece that goes alone (as BBR does).
const DELAY_AGE_MAX: Micros = 10_000_000;

#[derive(Debug)]
pub(crate) struct Window {
    bytes: u64,
    unconfirmed: u64,
    /// The path's own delay and when it was measured; `None` where nothing was confirmed yet.
    own_delay: Option<(Micros, Micros)>,
    /// A half more in each round until a queue begins to show, then an eighth: what is too much is known a round late, and
    /// stands in the queue until then.
    opening: bool,
    /// Pieces sent before this moment say nothing of the window as it is now.
    shrunk_at: Micros,
}

/// What is remembered of a piece until it is confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    at: Micros,
    alone: bool,
    /// It left no room behind it, so that a wider window would have been used.
    filled: bool,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window { bytes: FIRST, unconfirmed: 0, own_delay: None, opening: true, shrunk_at: 0 }
    }

    /// Bytes that the next piece may have; 0 while enough is under way.
    pub(crate) fn room(&self, now: Micros) -> u64 {
        let stale = self.own_delay.is_some_and(|(_, at)| now.saturating_sub(at) >= DELAY_AGE_MAX);
        if stale && self.unconfirmed > 0 {
            return 0;
        }
        let room = self.bytes.saturating_sub(self.unconfirmed);
        // Several in a full window: they leave as others are confirmed, and none stands long behind its own beginning.
        let piece = (self.bytes / 8).max(LEAST / 2);
        if room >= piece { piece } else { 0 }
    }

    pub(crate) fn sent(&mut self, bytes: u64, now: Micros) -> Sent {
        let alone = self.unconfirmed == 0;
        self.unconfirmed += bytes;
        Sent { bytes, at: now, alone, filled: self.unconfirmed * 2 >= self.bytes }
    }

    /// The piece will not be confirmed: whoever asked for it no longer wants it.
    pub(crate) fn forget(&mut self, piece: Sent) {
        self.unconfirmed -= piece.bytes;
    }

    pub(crate) fn confirmed(&mut self, piece: Sent, now: Micros) {
        self.unconfirmed -= piece.bytes;
        let delay = now.saturating_sub(piece.at);
        let own = match self.own_delay {
            Some((own, at)) if delay >= own && !(piece.alone && now.saturating_sub(at) >= DELAY_AGE_MAX) => own,
            _ => {
                self.own_delay = Some((delay, now));
                delay
            }
        };
        self.opening &= delay <= own + QUEUE_MAX / 4;
        if delay > own + QUEUE_MAX {
            if piece.at >= self.shrunk_at {
                self.shrunk_at = now;
                self.bytes = (self.bytes / 2).max(LEAST);
            }
        } else if piece.filled && piece.at >= self.shrunk_at {
            let more = if self.opening { piece.bytes / 2 } else { piece.bytes / 8 };
            self.bytes = (self.bytes + more).min(MOST);
        }
    }

    pub(crate) fn check_invariants(&self, pieces: impl Iterator<Item = u64>) {
        assert_eq!(self.unconfirmed, pieces.sum::<u64>(), "unconfirmed is what the pieces under way hold");
        assert!((LEAST..=MOST).contains(&self.bytes), "the window keeps within its bounds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A path of a rate and a delay; gives the bytes that passed in `time`, and the longest a byte stood in its queue.
    fn run(bytes_per_second: u64, delay: Micros, time: Micros) -> (u64, Micros) {
        let (mut window, mut now, mut free_at) = (Window::new(), 1_000, 0);
        let mut under_way: VecDeque<(Micros, Sent)> = VecDeque::new();
        let (mut passed, mut longest) = (0, 0);
        while now < time {
            loop {
                let room = window.room(now).min(16 * 1024);
                if room == 0 {
                    break;
                }
                let begins = free_at.max(now);
                longest = longest.max(begins - now);
                free_at = begins + room * 1_000_000 / bytes_per_second;
                under_way.push_back((free_at + delay, window.sent(room, now)));
            }
            let (at, piece) = under_way.pop_front().expect("a window has room for a piece, or one is under way");
            now = at.max(now);
            passed += piece.bytes;
            window.confirmed(piece, now);
            window.check_invariants(under_way.iter().map(|(_, piece)| piece.bytes));
        }
        (passed, longest)
    }

    #[test]
    fn paths_are_used_and_their_queues_stay_short() {
        for (mbits, delay) in [(1, 20_000), (10, 5_000), (10, 100_000), (100, 1_000), (100, 40_000), (1_000, 100)] {
            let rate = mbits * 125_000;
            let (passed, longest) = run(rate, delay, 30_000_000);
            let used = passed as f64 / (rate * 30) as f64;
            // What the most that may be unconfirmed can carry over a long fast path is less than the path's rate.
            let able = (MOST as f64 / (rate as f64 * delay as f64 / 1e6)).min(1.0);
            assert!(used > able * 0.5, "{mbits} Mbit/s, {delay} us: used to {used:.2}");
            assert!(longest < 2 * QUEUE_MAX + delay / 2, "{mbits} Mbit/s, {delay} us: {longest} us");
        }
    }

    #[test]
    fn a_path_that_becomes_longer_is_measured_anew() {
        let mut window = Window::new();
        let mut now = 0;
        for delay in [10_000, 200_000] {
            for _ in 0..100 {
                let piece = window.sent(window.room(now).min(1_000), now);
                now += delay;
                window.confirmed(piece, now);
            }
        }
        assert_eq!(window.own_delay.map(|(own, _)| own), Some(200_000));
    }
}
