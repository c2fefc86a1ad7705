//! Between the session and a viewer that takes updates in any order: each arrives when it will, or never.
//! From world.rs, to world.rs at a later moment.
//! Knows whole updates and when they arrive; never what they say.

use thinc_protocol::Micros;
use thinc_protocol::frame::{Deframer, put_frame};
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::SessionMessage;
use thinc_session_core::Arrival;

use crate::link::{Link, Path};
use crate::pipeline::Fate;
use crate::random::Random;

/// How long the viewer waits for what an update names as applied before it: a small window, for what is only late.
pub(crate) const WAIT_MAX: Micros = 20_000;

/// One direction of a connection that loses and reorders.
#[derive(Debug)]
pub(crate) struct Datagrams {
    path: Path,
    /// Of a thousand.
    lost: u64,
    /// When the last byte handed over will have left.
    free_at: Micros,
    /// Some come twice.
    twice: bool,
    /// Under way, in no order.
    flying: Vec<(Micros, Vec<u8>)>,
}

impl Datagrams {
    /// An idle link that loses so many of a thousand.
    pub(crate) fn new(path: Path, lost: u64, twice: bool) -> Datagrams {
        Datagrams { path, lost, free_at: 0, twice, flying: Vec::new() }
    }

    /// Hands one update over. When it is lost: the moment at which the sender knows.
    pub(crate) fn send(&mut self, update: Vec<u8>, now: Micros, random: &mut Random) -> Option<Micros> {
        self.free_at = self.free_at.max(now) + update.len() as u64 * 1_000_000 / self.path.bytes_per_second.max(1);
        // As late as the small window is long, and a little later at times.
        let at = self.free_at + self.path.delay + random.below(self.path.jitter + WAIT_MAX + WAIT_MAX / 4);
        if random.below(1000) < self.lost {
            return Some(at + self.path.delay);
        }
        if self.twice && random.one_in(16) {
            self.flying.push((at + random.below(2 * WAIT_MAX), update.clone()));
        }
        self.flying.push((at, update));
        None
    }

    /// One that has arrived.
    pub(crate) fn receive(&mut self, now: Micros) -> Option<Vec<u8>> {
        let first = (0..self.flying.len()).min_by_key(|&i| self.flying[i].0)?;
        (self.flying[first].0 <= now).then(|| self.flying.swap_remove(first).1)
    }

    /// When the next arrives.
    pub(crate) fn next_at(&self) -> Option<Micros> {
        self.flying.iter().map(|(at, _)| *at).min()
    }
}

/// The way of a viewer's updates, where they are lost and overtake one another; all else goes by the stream.
#[derive(Debug)]
pub(crate) struct Lossy {
    pub(crate) arrival: Arrival,
    pub(crate) down: Datagrams,
    /// What a viewer says that may be lost, where only small updates go alone.
    pub(crate) up: Datagrams,
    pub(crate) delay: Micros,
    /// What became of updates, and when the session hears of it.
    pub(crate) reports: Vec<(Micros, u64, Fate)>,
}

impl Lossy {
    pub(crate) fn new(arrival: Arrival, path: Path, lost: u64) -> Lossy {
        let twice = arrival == Arrival::Mixed;
        let [down, up] = [(); 2].map(|()| Datagrams::new(path, lost, twice));
        Lossy { arrival, down, up, delay: path.delay, reports: Vec::new() }
    }

    /// The same for the connection that follows.
    pub(crate) fn again(&self) -> Lossy {
        Lossy::new(self.arrival, self.down.path, self.down.lost)
    }

    /// The stream beside it, of one direction. Where only small updates go alone it loses as much, and then waits while they go on.
    pub(crate) fn stream(&self) -> Link {
        let Datagrams { path, lost, .. } = self.down;
        if self.arrival == Arrival::Mixed { Link::losing(path, lost) } else { Link::new(path) }
    }

    /// Sends each update by itself, and gives back what is no update.
    pub(crate) fn send(&mut self, frames: &[u8], now: Micros, random: &mut Random) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut deframer = Deframer::new(SESSION_FRAME_BYTES_MAX);
        deframer.push(frames);
        while let Some(frame) = deframer.next().expect("what a session says is well-formed") {
            let seq = match SessionMessage::decode(&frame).expect("what a session says can be read") {
                SessionMessage::Update(update) => Some(update.seq),
                _ => None,
            };
            let mut bytes = Vec::new();
            put_frame(&mut bytes, frame.kind, |out| out.extend_from_slice(frame.body));
            match seq {
                Some(seq) => {
                    if let Some(known) = self.down.send(bytes, now, random) {
                        self.reports.push((known, seq, Fate::Discarded));
                    }
                }
                None => rest.append(&mut bytes),
            }
        }
        rest
    }

    pub(crate) fn next_at(&self) -> Option<Micros> {
        self.reports.iter().map(|(at, ..)| *at).chain(self.down.next_at()).chain(self.up.next_at()).min()
    }
}
