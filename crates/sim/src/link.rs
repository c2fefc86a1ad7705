//! Between the session and a viewer: an ordered stream of bytes with a rate, a delay, jitter and losses, on virtual time.
//! From world.rs, to world.rs at a later moment; a transport in between that sends no more at once than its window.
//! Knows chunks and when they arrive; never what they say.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_session_core::PathFigures;

use crate::random::Random;

/// Bytes of a full segment, of the first window, and those the transport takes though it cannot send them yet.
const SEGMENT_BYTES: u64 = 1448;
const WINDOW_INITIAL_BYTES: u64 = 10 * SEGMENT_BYTES;
const NOT_SENT_BYTES: usize = 8 * 1024;
/// How long after a round trip a loss is noticed, and how often a segment is lost at most.
const NOTICED: Micros = 5_000;
const LOST_TIMES_MAX: u64 = 8;

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

/// What the session is told of its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Nothing: acknowledgements alone decide.
    Nothing,
    /// What the transport sees of the path.
    Path,
    /// What it sees of the way to a proxy in the next room, which takes whatever comes.
    FirstHop,
}

/// Sent, and confirmed at a later moment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    bytes: u64,
    sent_at: Micros,
    confirmed_at: Micros,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Link {
    path: Path,
    /// Segments of a thousand that have to be sent again. What follows them has come, is confirmed by itself, as QUIC has it, and waits.
    lost: u64,
    /// Handed over and not sent.
    unsent: VecDeque<u8>,
    segments: VecDeque<Segment>,
    in_flight: u64,
    delivered: u64,
    window: u64,
    rtt: Micros,
    rtt_min: Micros,
    /// When the last byte sent will have left.
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
        Link::losing(path, 0)
    }

    /// An idle link that loses so many segments of a thousand.
    pub(crate) const fn losing(path: Path, lost: u64) -> Link {
        Link {
            path,
            lost,
            unsent: VecDeque::new(),
            segments: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            window: WINDOW_INITIAL_BYTES,
            rtt: 0,
            rtt_min: Micros::MAX,
            free_at: 0,
            last_at: 0,
            chunks: VecDeque::new(),
            queued_max: 0,
        }
    }

    /// It is like this from now on; what is under way arrives as it would have.
    pub(crate) const fn set_path(&mut self, path: Path) {
        self.path = path;
    }

    /// True while the transport takes no more: whoever hands over a chunk at a time keeps the next.
    pub fn is_full(&self) -> bool {
        self.unsent.len() >= NOT_SENT_BYTES
    }

    /// Hands bytes over; they arrive in chunks that know nothing of frames.
    pub fn send(&mut self, bytes: &[u8], now: Micros, random: &mut Random) {
        self.unsent.extend(bytes);
        self.advance(now, random);
    }

    /// Everything that has happened by now: confirmations make room for what waits.
    pub fn advance(&mut self, now: Micros, random: &mut Random) {
        while let Some(&segment) = self.segments.front().filter(|segment| segment.confirmed_at <= now) {
            self.segments.pop_front();
            // Grows by what was confirmed while it was the limit, to twice what the path holds, as BBR's does.
            let holds = self.path.bytes_per_second * 2 * self.path.delay / 1_000_000;
            if self.in_flight + SEGMENT_BYTES > self.window && self.window < (2 * holds).max(WINDOW_INITIAL_BYTES) {
                self.window += segment.bytes;
            }
            self.in_flight -= segment.bytes;
            self.delivered += segment.bytes;
            let rtt = segment.confirmed_at - segment.sent_at;
            self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
            self.rtt_min = self.rtt_min.min(rtt);
            self.transmit(segment.confirmed_at, random);
        }
        self.transmit(now, random);
    }

    fn transmit(&mut self, now: Micros, random: &mut Random) {
        while !self.unsent.is_empty() && self.in_flight < self.window {
            let len = if random.below(4) == 0 { 1 + random.below(16) } else { SEGMENT_BYTES };
            let chunk: Vec<u8> = self.unsent.drain(..self.unsent.len().min(len as usize)).collect();
            let bytes = chunk.len() as u64;
            self.free_at = self.free_at.max(now) + bytes * 1_000_000 / self.path.bytes_per_second.max(1);
            self.queued_max = self.queued_max.max(self.free_at - now);
            let again = self.again(random);
            let at = self.free_at + again + self.path.delay + random.below(self.path.jitter + 1);
            self.last_at = self.last_at.max(at);
            self.chunks.push_back((self.last_at, chunk));
            self.in_flight += bytes;
            let arrives = if self.lost == 0 { self.last_at } else { at };
            let segment = Segment { bytes, sent_at: now + again, confirmed_at: arrives + self.path.delay };
            let place = self.segments.partition_point(|other| other.confirmed_at <= segment.confirmed_at);
            self.segments.insert(place, segment);
        }
    }

    /// Until a segment is sent for the last time.
    fn again(&self, random: &mut Random) -> Micros {
        let lost = (0..LOST_TIMES_MAX).take_while(|_| self.lost > 0 && random.below(1000) < self.lost).count() as u64;
        lost * (2 * self.path.delay + NOTICED)
    }

    /// What the transport says of itself.
    pub fn figures(&self, tells: Tells) -> Option<PathFigures> {
        match tells {
            Tells::Nothing => None,
            Tells::Path => Some(PathFigures {
                in_flight: self.in_flight + self.unsent.len() as u64,
                delivered: self.delivered,
                window: self.window,
                // Who counts packets knows what the path carries.
                rate: if self.lost == 0 { 0 } else { self.path.bytes_per_second },
                rtt: self.rtt,
                rtt_min: self.rtt_min.min(self.rtt),
            }),
            Tells::FirstHop => Some(PathFigures {
                in_flight: 0,
                delivered: self.delivered + self.in_flight + self.unsent.len() as u64,
                window: u64::MAX / 2,
                rate: 0,
                rtt: 50,
                rtt_min: 30,
            }),
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

    /// When something next happens: a chunk arrives, or one that waits may go.
    pub fn next_at(&self) -> Option<Micros> {
        let confirmed = self.segments.front().filter(|_| !self.unsent.is_empty()).map(|segment| segment.confirmed_at);
        self.chunks.front().map(|(at, _)| *at).into_iter().chain(confirmed).min()
    }

    /// Longest that a byte waited to leave, since this was last called.
    pub fn take_queued_max(&mut self) -> Micros {
        std::mem::take(&mut self.queued_max)
    }
}
