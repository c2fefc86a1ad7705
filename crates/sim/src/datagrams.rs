//! Between the session and a viewer that accepts updates in any order: each arrives at any time, or
//! never. From world.rs, to world.rs at a later time. Knows whole updates and when they arrive;
//! never their contents.

use thinc_protocol::Micros;
use thinc_protocol::framing::{Deframer, put_message};
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::session::SessionMessage;
use thinc_session_core::DeliveryOrder;

use crate::link::{Link, Path};
use crate::pipeline::Fate;
use crate::random::Random;

/// 20 ms: how long the viewer waits for the update that another names as its predecessor.
pub(crate) const WAIT_MAX: Micros = 20_000;

/// One direction of a path that loses and reorders.
#[derive(Debug)]
pub(crate) struct Datagrams {
    path: Path,
    /// Lost datagrams of a thousand.
    lost: u64,
    /// When the last accepted byte has left.
    free_at: Micros,
    /// Some are duplicated.
    duplicates: bool,
    /// In flight, in no order.
    in_flight: Vec<(Micros, Vec<u8>)>,
}

impl Datagrams {
    /// An idle path that loses so many of a thousand.
    pub(crate) fn new(path: Path, lost: u64, duplicates: bool) -> Datagrams {
        Datagrams { path, lost, free_at: 0, duplicates, in_flight: Vec::new() }
    }

    /// Sends one update. If it is lost: when the sender knows.
    pub(crate) fn send(
        &mut self,
        update: Vec<u8>,
        now: Micros,
        random: &mut Random,
    ) -> Option<Micros> {
        self.free_at = self.free_at.max(now)
            + update.len() as u64 * 1_000_000 / self.path.bytes_per_second.max(1);
        // Up to a little later than the viewer waits.
        let at = self.free_at
            + self.path.delay
            + random.below(self.path.jitter + WAIT_MAX + WAIT_MAX / 4);
        if random.below(1000) < self.lost {
            return Some(at + self.path.delay);
        }
        if self.duplicates && random.one_in(16) {
            self.in_flight.push((at + random.below(2 * WAIT_MAX), update.clone()));
        }
        self.in_flight.push((at, update));
        None
    }

    /// The next datagram that has arrived.
    pub(crate) fn receive(&mut self, now: Micros) -> Option<Vec<u8>> {
        let first = (0..self.in_flight.len()).min_by_key(|&i| self.in_flight[i].0)?;
        (self.in_flight[first].0 <= now).then(|| self.in_flight.swap_remove(first).1)
    }

    /// When the next one arrives.
    pub(crate) fn next_at(&self) -> Option<Micros> {
        self.in_flight.iter().map(|(at, _)| *at).min()
    }
}

/// The path of a viewer's updates if they are lost and reordered; everything else uses the stream.
#[derive(Debug)]
pub(crate) struct DatagramPath {
    pub(crate) delivery_order: DeliveryOrder,
    pub(crate) down: Datagrams,
    /// Datagrams of a viewer, if only small updates are datagrams.
    pub(crate) up: Datagrams,
    pub(crate) delay: Micros,
    /// Fates of updates, and when the session learns them.
    pub(crate) reports: Vec<(Micros, u64, Fate)>,
}

impl DatagramPath {
    pub(crate) fn new(delivery_order: DeliveryOrder, path: Path, lost: u64) -> DatagramPath {
        let duplicates = delivery_order == DeliveryOrder::Mixed;
        let [down, up] = [(); 2].map(|()| Datagrams::new(path, lost, duplicates));
        DatagramPath { delivery_order, down, up, delay: path.delay, reports: Vec::new() }
    }

    /// Changes the path in both directions; what is in flight arrives as before.
    pub(crate) const fn set_paths(&mut self, down: Path, up: Path) {
        self.down.path = down;
        self.up.path = up;
        self.delay = down.delay;
    }

    /// A new path with the same properties, for a new connection.
    pub(crate) fn for_reconnect(&self) -> DatagramPath {
        DatagramPath::new(self.delivery_order, self.down.path, self.down.lost)
    }

    /// The stream next to it, of one direction. If only small updates are datagrams, the stream has
    /// the same losses, and waits for retransmissions.
    pub(crate) fn stream(&self) -> Link {
        let Datagrams { path, lost, .. } = self.down;
        if self.delivery_order == DeliveryOrder::Mixed {
            Link::losing(path, lost)
        } else {
            Link::new(path)
        }
    }

    /// Sends each update as a datagram, and returns all other messages.
    pub(crate) fn send(&mut self, frames: &[u8], now: Micros, random: &mut Random) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut deframer = Deframer::new(SESSION_MESSAGE_BYTES_MAX);
        deframer.push(frames);
        while let Some(frame) = deframer.next().expect("a session's frames are well-formed") {
            let seq = match SessionMessage::decode(&frame).expect("a session's messages decode") {
                SessionMessage::Update(update) => Some(update.seq),
                _ => None,
            };
            let mut bytes = Vec::new();
            put_message(&mut bytes, frame.kind, |out| out.extend_from_slice(frame.body));
            match seq {
                Some(seq) => {
                    if let Some(known_at) = self.down.send(bytes, now, random) {
                        self.reports.push((known_at, seq, Fate::Discarded));
                    }
                }
                None => rest.append(&mut bytes),
            }
        }
        rest
    }

    pub(crate) fn next_at(&self) -> Option<Micros> {
        self.reports
            .iter()
            .map(|(at, ..)| *at)
            .chain(self.down.next_at())
            .chain(self.up.next_at())
            .min()
    }
}
