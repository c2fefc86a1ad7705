//! Path beside the pixels, in both directions: under endpoint.rs and thinc-files, which ask whether
//! another chunk may be sent.
//! Congestion window of what is sent behind the display: enough bytes in flight to keep the path
//! busy, and a short queue. Knows byte counts and how long a chunk took to be confirmed; never its
//! content.
//!
//! User input and its echo share the path and wait behind whatever is queued. So this follows
//! LEDBAT (RFC 6817) rather than TCP: a chunk sent with no other in flight measures the path's base
//! delay, and if chunks take [`QUEUE_MAX`] longer than that, the window shrinks.

use thinc_protocol::Micros;

/// 4 KiB: the first window. Most pastes are a line of text and are sent at once.
const WINDOW_FIRST: u64 = 4 * 1024;
/// 2 KiB: smallest window, 16 ms of 1 Mbit/s.
const WINDOW_MIN: u64 = 2 * 1024;
/// 2 MiB: largest window, 160 ms of 100 Mbit/s; a bound on memory.
const WINDOW_MAX: u64 = 2 * 1024 * 1024;
/// 10 ms: queueing delay that a piece may have; a keystroke behind it is delayed by at most that
/// much.
const QUEUE_MAX: Micros = 10_000;
/// 10 s: the base delay is measured again after this long, with a piece that is alone in flight (as
/// BBR's PROBE_RTT does).
const DELAY_AGE_MAX: Micros = 10_000_000;

/// How many bytes of contents may be in flight.
#[derive(Debug)]
pub struct Window {
    bytes: u64,
    unconfirmed: u64,
    /// The path's base delay and when it was measured; `None` before the first confirmation.
    base_delay: Option<(Micros, Micros)>,
    /// Slow start: the window grows by a half per round until queueing delay appears, then by an
    /// eighth, since excess is noticed only a round later.
    slow_start: bool,
    /// Pieces sent before this time do not measure the present window.
    shrunk_at: Micros,
}

/// An unconfirmed piece.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its length.
    pub bytes: u64,
    at: Micros,
    /// No other piece was in flight when it was sent.
    only_in_flight: bool,
    /// It filled at least half of the window, so a larger window would have been used.
    filled: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window::new()
    }
}

impl Window {
    /// A window that has measured nothing yet.
    pub fn new() -> Window {
        Window {
            bytes: WINDOW_FIRST,
            unconfirmed: 0,
            base_delay: None,
            slow_start: true,
            shrunk_at: 0,
        }
    }

    /// Bytes that the next piece may have; 0 while enough is in flight.
    pub fn room(&self, now: Micros) -> u64 {
        let stale = self.base_delay.is_some_and(|(_, at)| now.saturating_sub(at) >= DELAY_AGE_MAX);
        if stale && self.unconfirmed > 0 {
            return 0;
        }
        let room = self.bytes.saturating_sub(self.unconfirmed);
        // Several pieces fill a window, so that they are sent as others are confirmed, and the
        // queue stays short.
        let piece = (self.bytes / 8).max(WINDOW_MIN / 2);
        if room >= piece { piece } else { 0 }
    }

    /// A piece of this length is sent now.
    pub fn sent(&mut self, bytes: u64, now: Micros) -> Sent {
        let only_in_flight = self.unconfirmed == 0;
        self.unconfirmed += bytes;
        Sent { bytes, at: now, only_in_flight, filled: self.unconfirmed * 2 >= self.bytes }
    }

    /// The piece will not be confirmed: its transfer was cancelled.
    pub fn forget(&mut self, piece: Sent) {
        self.unconfirmed -= piece.bytes;
    }

    /// The other side has received the piece.
    pub fn confirmed(&mut self, piece: Sent, now: Micros) {
        self.unconfirmed -= piece.bytes;
        let delay = now.saturating_sub(piece.at);
        let again = piece.only_in_flight
            && self.base_delay.is_some_and(|(_, at)| now.saturating_sub(at) >= DELAY_AGE_MAX);
        if again {
            // The path has drained, and a whole window at once would queue.
            self.bytes = (self.bytes / 2).max(WINDOW_MIN);
            self.slow_start = true;
        }
        let base = match self.base_delay {
            Some((base, _)) if delay >= base && !again => base,
            _ => {
                self.base_delay = Some((delay, now));
                delay
            }
        };
        self.slow_start &= delay <= base + QUEUE_MAX / 4;
        if delay > base + QUEUE_MAX {
            if piece.at >= self.shrunk_at {
                self.shrunk_at = now;
                // What would have queued half as much as it may; delays are of a path and a
                // machine that differ from one piece to the next, so one is not trusted further
                // than to halve it.
                let fitting = self.bytes * (base + QUEUE_MAX / 2) / delay;
                self.bytes = fitting.max(self.bytes / 2).max(WINDOW_MIN);
            }
        } else if piece.filled && piece.at >= self.shrunk_at {
            let more = if self.slow_start { piece.bytes / 2 } else { piece.bytes / 8 };
            self.bytes = (self.bytes + more).min(WINDOW_MAX);
        }
    }

    /// Checks the invariants, given the lengths of the pieces in flight; for tests.
    ///
    /// # Panics
    /// If one is violated, with the invariant in words.
    pub fn check_invariants(&self, pieces: impl Iterator<Item = u64>) {
        assert_eq!(
            self.unconfirmed,
            pieces.sum::<u64>(),
            "unconfirmed bytes are those of the pieces in flight"
        );
        assert!((WINDOW_MIN..=WINDOW_MAX).contains(&self.bytes), "the window is within its bounds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Simulates a path with this rate and delay; returns the bytes that passed in `time`, and the
    /// longest queueing delay.
    fn run(bytes_per_second: u64, delay: Micros, time: Micros) -> (u64, Micros) {
        let (mut window, mut now, mut free_at) = (Window::new(), 1_000, 0);
        let mut in_flight: VecDeque<(Micros, Sent)> = VecDeque::new();
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
                in_flight.push_back((free_at + delay, window.sent(room, now)));
            }
            let (at, piece) =
                in_flight.pop_front().expect("a window has room for a piece, or one is in flight");
            now = at.max(now);
            passed += piece.bytes;
            window.confirmed(piece, now);
            window.check_invariants(in_flight.iter().map(|(_, piece)| piece.bytes));
        }
        (passed, longest)
    }

    #[test]
    fn transfers_use_the_path_and_keep_its_queue_short() {
        for (mbits, delay) in
            [(1, 20_000), (10, 5_000), (10, 100_000), (100, 1_000), (100, 40_000), (1_000, 100)]
        {
            let rate = mbits * 125_000;
            let (passed, longest) = run(rate, delay, 30_000_000);
            let used = passed as f64 / (rate * 30) as f64;
            // The largest window limits the rate on a long fast path.
            let reachable = (WINDOW_MAX as f64 / (rate as f64 * delay as f64 / 1e6)).min(1.0);
            assert!(used > reachable * 0.5, "{mbits} Mbit/s, {delay} us: used to {used:.2}");
            assert!(
                longest < 2 * QUEUE_MAX + delay / 2,
                "{mbits} Mbit/s, {delay} us: {longest} us"
            );
        }
    }

    #[test]
    fn a_longer_path_is_measured_again() {
        let mut window = Window::new();
        let mut now = 0;
        for delay in [10_000, 200_000] {
            for _ in 0..100 {
                let piece = window.sent(window.room(now).min(1_000), now);
                now += delay;
                window.confirmed(piece, now);
            }
        }
        assert_eq!(window.base_delay.map(|(base, _)| base), Some(200_000));
    }
}
