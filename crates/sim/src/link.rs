//! Between the session and a viewer: an ordered byte stream with a rate, a delay, jitter and
//! losses, on virtual time. From world.rs, to world.rs at a later time, through a transport that
//! sends no more than its window. Knows chunks and when they arrive; never their contents.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_session_core::PathStats;

use crate::loss::{LossState, Losses};
use crate::random::Random;
use crate::tcp::{Congestion, SEGMENT_BYTES, Window};

/// The most that the transport accepts beyond its window.
const NOT_SENT_BYTES: usize = 8 * 1024;
/// How long after a round trip a loss is detected, and how often a segment is lost at most.
const LOSS_DETECTION: Micros = 5_000;
const LOST_TIMES_MAX: u64 = 8;

/// Properties of a network path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// One-way delay.
    pub delay: Micros,
    /// Largest extra delay of a chunk; chunks stay in order.
    pub jitter: Micros,
}

/// The sender's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// How its window grows.
    pub congestion: Congestion,
    /// Longest time that a segment may wait in the path's queue; one that would wait longer is
    /// dropped, and sent again a round trip later.
    pub queue_max: Micros,
}

impl Sender {
    /// A sender that knows the path, in front of a queue without end.
    pub const BBR: Sender = Sender { congestion: Congestion::Bbr, queue_max: Micros::MAX };
}

/// What the transport reports to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathReport {
    /// Nothing: only acknowledgements count.
    Nothing,
    /// Statistics of the path.
    Path,
    /// Statistics of the first hop only: a nearby proxy that accepts everything.
    FirstHop,
}

/// A segment that was sent and is acknowledged later.
#[derive(Clone, Copy, Debug)]
struct Segment {
    bytes: u64,
    sent_at: Micros,
    acked_at: Micros,
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Link {
    path: Path,
    /// Segments of a thousand that are lost and retransmitted. Those behind a lost one arrive, are
    /// acknowledged individually, as in QUIC, and wait.
    lost: u64,
    /// Losses in bursts, by a policer, and segments that are late.
    losses: LossState,
    /// Accepted and not sent.
    unsent: VecDeque<u8>,
    segments: VecDeque<Segment>,
    in_flight: u64,
    delivered: u64,
    window: Window,
    queue_max: Micros,
    rtt: Micros,
    rtt_min: Micros,
    /// When the last sent byte has left.
    free_at: Micros,
    /// When the last chunk arrives; no later chunk arrives before it.
    last_at: Micros,
    chunks: VecDeque<(Micros, Vec<u8>)>,
    /// Longest time that a byte waited to leave, since the last call of take_queued_max().
    queued_max: Micros,
}

impl Link {
    /// An idle link.
    pub const fn new(path: Path) -> Link {
        Link::losing(path, 0)
    }

    /// An idle link behind this sender.
    pub const fn with_sender(path: Path, sender: Sender) -> Link {
        let mut link = Link::new(path);
        link.window = Window::new(sender.congestion);
        link.queue_max = sender.queue_max;
        link
    }

    /// An idle link that loses so many segments of a thousand.
    pub(crate) const fn losing(path: Path, lost: u64) -> Link {
        Link {
            path,
            lost,
            losses: LossState::NONE,
            unsent: VecDeque::new(),
            segments: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            window: Window::new(Congestion::Bbr),
            queue_max: Micros::MAX,
            rtt: 0,
            rtt_min: Micros::MAX,
            free_at: 0,
            last_at: 0,
            chunks: VecDeque::new(),
            queued_max: 0,
        }
    }

    /// Changes the path; data in flight arrives as before.
    pub const fn set_path(&mut self, path: Path) {
        self.path = path;
    }

    /// Changes what is lost from now on.
    pub(crate) fn set_losses(&mut self, losses: Losses, now: Micros) {
        self.losses.set(losses, now);
    }

    /// True while the transport accepts no more bytes.
    pub fn is_full(&self) -> bool {
        self.unsent.len() >= NOT_SENT_BYTES
    }

    /// Sends bytes; they arrive in chunks that ignore message boundaries.
    pub fn send(&mut self, bytes: &[u8], now: Micros, random: &mut Random) {
        self.unsent.extend(bytes);
        self.advance(now, random);
    }

    /// Processes all events up to now: acknowledgements make room for waiting bytes.
    pub fn advance(&mut self, now: Micros, random: &mut Random) {
        while let Some(&segment) = self.segments.front().filter(|segment| segment.acked_at <= now) {
            self.segments.pop_front();
            let capacity = self.path.bytes_per_second * 2 * self.path.delay / 1_000_000;
            let rtt = segment.acked_at - segment.sent_at;
            if self.in_flight + SEGMENT_BYTES > self.window.bytes {
                self.window.limit();
            }
            self.window.acked(segment.bytes, rtt, capacity, segment.acked_at);
            self.in_flight -= segment.bytes;
            self.delivered += segment.bytes;
            self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
            self.rtt_min = self.rtt_min.min(rtt);
            self.transmit(segment.acked_at, random);
        }
        self.transmit(now, random);
    }

    fn transmit(&mut self, now: Micros, random: &mut Random) {
        if !self.unsent.is_empty() {
            self.window.before_sending(self.in_flight, now);
        }
        while !self.unsent.is_empty() && self.in_flight < self.window.bytes {
            let len = if random.below(4) == 0 { 1 + random.below(16) } else { SEGMENT_BYTES };
            let chunk: Vec<u8> = self.unsent.drain(..self.unsent.len().min(len as usize)).collect();
            let bytes = chunk.len() as u64;
            self.free_at =
                self.free_at.max(now) + bytes * 1_000_000 / self.path.bytes_per_second.max(1);
            self.queued_max = self.queued_max.max(self.free_at - now);
            let mut retransmission = self.retransmission_delay(bytes, now, random);
            if self.free_at - now > self.queue_max {
                self.free_at -= bytes * 1_000_000 / self.path.bytes_per_second.max(1);
                retransmission += 2 * self.path.delay + LOSS_DETECTION;
            }
            if retransmission > 0 {
                self.window.lost(self.window.sent_bytes(), now);
            }
            let at = self.free_at
                + retransmission
                + self.losses.late_by(random)
                + self.path.delay
                + random.below(self.path.jitter + 1);
            self.last_at = self.last_at.max(at);
            self.chunks.push_back((self.last_at, chunk));
            self.in_flight += bytes;
            self.window.sent(bytes, self.in_flight, now);
            let arrives = if self.lost == 0 { self.last_at } else { at };
            let segment = Segment {
                bytes,
                sent_at: now + retransmission,
                acked_at: arrives + self.path.delay,
            };
            let place = self.segments.partition_point(|other| other.acked_at <= segment.acked_at);
            self.segments.insert(place, segment);
        }
        if !self.unsent.is_empty() {
            self.window.limit();
        }
    }

    /// Time until a segment is sent for the last time.
    fn retransmission_delay(&mut self, bytes: u64, now: Micros, random: &mut Random) -> Micros {
        let detection = 2 * self.path.delay + LOSS_DETECTION;
        let mut delay = 0;
        while delay < LOST_TIMES_MAX * detection {
            let lost = self.lost > 0 && random.below(1000) < self.lost;
            if !self.losses.loses(bytes, now + delay, random) && !lost {
                break;
            }
            delay += detection;
        }
        delay
    }

    /// The transport's statistics.
    pub fn stats(&self, path_report: PathReport) -> Option<PathStats> {
        match path_report {
            PathReport::Nothing => None,
            PathReport::Path => Some(PathStats {
                unacknowledged: self.in_flight + self.unsent.len() as u64,
                delivered: self.delivered,
                window: self.window.bytes,
                // A transport that counts packets knows the path's rate.
                rate: if self.lost == 0 { 0 } else { self.path.bytes_per_second },
                rtt: self.rtt,
                rtt_min: self.rtt_min.min(self.rtt),
                share: None,
            }),
            PathReport::FirstHop => Some(PathStats {
                unacknowledged: 0,
                delivered: self.delivered + self.in_flight + self.unsent.len() as u64,
                window: u64::MAX / 2,
                rate: 0,
                rtt: 50,
                rtt_min: 30,
                share: None,
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

    /// When the next event is due: a chunk arrives, or a waiting one may be sent.
    pub fn next_at(&self) -> Option<Micros> {
        let acked = self
            .segments
            .front()
            .filter(|_| !self.unsent.is_empty())
            .map(|segment| segment.acked_at);
        self.chunks.front().map(|(at, _)| *at).into_iter().chain(acked).min()
    }

    /// Longest time that a byte waited to leave, since this was last called.
    pub fn take_queued_max(&mut self) -> Micros {
        std::mem::take(&mut self.queued_max)
    }
}
