//! Between the session and a viewer: an ordered stream of bytes with a rate, a delay and jitter, on virtual time.
//! From world.rs, to world.rs at a later moment.
//! Knows chunks and when they arrive; never what they say.

use std::collections::VecDeque;

use thinc_protocol::Micros;

use crate::random::Random;

/// What a path is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// One way.
    pub delay: Micros,
    /// Most that a chunk is later than that; order is kept.
    pub jitter: Micros,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Link {
    path: Path,
    /// When the last byte handed over will have left.
    free_at: Micros,
    /// When the last chunk arrives: none arrives before it.
    last_at: Micros,
    chunks: VecDeque<(Micros, Vec<u8>)>,
    /// Longest that a byte waited for its turn to leave, since asked last.
    queued_max: Micros,
}

impl Link {
    /// An idle link.
    pub const fn new(path: Path) -> Link {
        Link { path, free_at: 0, last_at: 0, chunks: VecDeque::new(), queued_max: 0 }
    }

    /// Hands bytes over; they arrive in chunks that know nothing of frames.
    pub fn send(&mut self, bytes: &[u8], now: Micros, random: &mut Random) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = match random.below(4) {
                0 => rest.len(),
                1 => 1 + random.below(16) as usize,
                _ => 1448,
            };
            let (chunk, after) = rest.split_at(len.min(rest.len()));
            rest = after;
            let starts = self.free_at.max(now);
            self.free_at = starts + chunk.len() as u64 * 1_000_000 / self.path.bytes_per_second.max(1);
            self.queued_max = self.queued_max.max(self.free_at - now);
            let at = self.free_at + self.path.delay + random.below(self.path.jitter + 1);
            self.last_at = self.last_at.max(at);
            self.chunks.push_back((self.last_at, chunk.to_vec()));
        }
    }

    /// The next chunk that has arrived.
    pub fn receive(&mut self, now: Micros) -> Option<Vec<u8>> {
        let (at, _) = self.chunks.front()?;
        if *at > now {
            return None;
        }
        self.chunks.pop_front().map(|(_, chunk)| chunk)
    }

    /// When the next chunk arrives.
    pub fn next_at(&self) -> Option<Micros> {
        self.chunks.front().map(|(at, _)| *at)
    }

    /// Longest that a byte waited to leave, since this was last called.
    pub fn take_queued_max(&mut self) -> Micros {
        std::mem::take(&mut self.queued_max)
    }
}
