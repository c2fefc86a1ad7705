//! Path 7/13 and 10/13, and path back: from viewer/commit.rs, to messages for transport.
//! One viewer's updates from commit to fate. Every update is in one ledger; what is learned from
//! its fate about the path goes to flow.rs and loss_detection.rs, which hold no updates of their
//! own. Knows regions, bytes, numbers and times; never pixels or sockets.

pub(crate) mod effects;
pub(crate) mod flow;
pub(crate) mod job;
pub(crate) mod job_outcomes;
pub(crate) mod ledger;
mod loss_detection;
pub(crate) mod packer;
pub(crate) mod parts;
mod rate_limit;
mod repeats;

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_region::{Region, Size};

use crate::delivery::effects::DeliveryOrder;
use crate::queue::scheduler::Scheduling;

use flow::Flow;
use ledger::{InFlight, Ledger, OutgoingPart, Written};
use loss_detection::LossDetection;

/// Largest packing buffer that is kept.
const PACKED_BYTES_KEPT: usize = 256 * 1024;

/// One viewer's updates and its path.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) ledger: Ledger,
    pub(crate) flow: Flow,
    losses: LossDetection,
    scheduling: Scheduling,
    /// Since when the path is stalled: a late update was withdrawn. Nothing is committed ahead
    /// until an acknowledgement arrives, or it would be late too.
    stalled_since: Option<Micros>,
    /// The packer's output, or the newest datagram.
    packed: Vec<u8>,
}

impl Delivery {
    /// Nothing was sent, and nothing is known of the path.
    pub(crate) fn new(scheduling: Scheduling, now: Micros) -> Delivery {
        Delivery {
            ledger: Ledger::new(scheduling),
            flow: Flow::new(now),
            losses: LossDetection::default(),
            scheduling,
            stalled_since: None,
            packed: Vec::new(),
        }
    }

    /// The path loses so much that needless repeats cost less than waiting for retransmissions.
    pub(crate) fn is_path_lossy(&self) -> bool {
        self.losses.is_path_lossy()
    }

    /// False while the path seems to drop all datagrams.
    pub(crate) fn may_send_datagram(&self, now: Micros) -> bool {
        self.losses.may_send_datagram(now)
    }

    /// The order in which what is pending is sent.
    pub(crate) fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    /// A late update was withdrawn.
    pub(crate) fn stalls(&mut self, now: Micros) {
        self.stalled_since.get_or_insert(now);
    }

    /// A late update was withdrawn, and nothing was acknowledged since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    /// An acknowledgement arrived: since when the path had stalled.
    pub(crate) fn progresses(&mut self) -> Option<Micros> {
        self.stalled_since.take()
    }

    /// Gives the next part of the update at `at` and a buffer to `write`. `more`: something else
    /// waits for room, beside unsent updates. Returns its number.
    pub(crate) fn send(
        &mut self,
        at: usize,
        as_datagram: bool,
        more: bool,
        now: Micros,
        write: impl FnOnce(OutgoingPart<'_>, &mut Vec<u8>) -> Written,
    ) -> u64 {
        let Delivery { ledger, packed, .. } = self;
        let (sent, bytes) = ledger.take_part(at, now, |part| write(part, packed));
        if packed.capacity() > PACKED_BYTES_KEPT {
            *packed = Vec::new();
        }
        let seq = sent.seq;
        let more = more || self.ledger.unsent_len() > 0;
        let transmission = self.flow.sent(bytes, more, now);
        if as_datagram {
            self.losses.sent(now);
        }
        self.ledger.remember(sent, InFlight::new(transmission, as_datagram));
        seq
    }

    /// Gives the number of an update without commands to `write`, which returns its bytes: for its
    /// acknowledgement.
    pub(crate) fn send_marker(&mut self, now: Micros, write: impl FnOnce(u64) -> u64) {
        let marker = self.ledger.marker();
        let transmission = self.flow.sent(write(marker.seq), false, now);
        self.ledger.remember(marker, InFlight::new(transmission, false));
    }

    /// Schedules a second copy of the newest datagram, an input response, on a lossy path.
    pub(crate) fn schedule_repeat(&mut self, seq: u64, now: Micros) {
        if self.losses.is_path_lossy() {
            self.losses.repeats.sent(seq, &self.packed, self.flow.rtt(), now);
        }
    }

    /// The next second copy that is due, of an update that is still in flight.
    pub(crate) fn poll_repeat(&mut self, now: Micros) -> Option<&[u8]> {
        let Delivery { ledger, losses, .. } = self;
        losses.repeats.poll(now, |seq| ledger.is_in_flight(seq))
    }

    /// These updates were applied, in any order. `prompt`: the acknowledgement was sent as soon as
    /// they arrived.
    pub(crate) fn applied(&mut self, seqs: &RangeInclusive<u64>, prompt: bool, now: Micros) {
        let Delivery { ledger, flow, losses, .. } = self;
        let (mut acked, mut datagrams, mut newest_sent_at) = (0, 0, None);
        let transmissions = ledger.take_applied(seqs).map(|in_flight| {
            acked += 1;
            if in_flight.is_datagram() {
                datagrams += 1;
                newest_sent_at = Some(in_flight.transmission.sent_at);
            }
            in_flight.transmission
        });
        flow.applied(transmissions, now);
        ledger.count_later(*seqs.start(), acked);
        losses.acknowledged(seqs, datagrams, newest_sent_at, prompt, now);
        ledger.take_implied(|in_flight| flow.remove(in_flight.transmission));
    }

    /// These updates were applied, which was known: only a loss may turn out to be none.
    pub(crate) fn applied_again(&mut self, seqs: &RangeInclusive<u64>, prompt: bool, now: Micros) {
        self.losses.acknowledged(seqs, 0, None, prompt, now);
    }

    /// Rule 5. An update will not be applied. Returns what the viewer lacks without it, after
    /// everything committed; empty if its fate was known.
    pub(crate) fn lost(&mut self, seq: u64, screen: Size) -> Region {
        let Some((in_flight, stale)) = self.ledger.lost(seq) else { return Region::new() };
        self.flow.remove(in_flight.transmission);
        stale.unwrap_or_else(|| Region::from(screen.rect()))
    }

    /// Declares a datagram lost, if one is by now. Returns what the viewer lacks without it.
    pub(crate) fn poll_lost(&mut self, screen: Size, now: Micros) -> Option<Region> {
        let seq = self.losses.declare_lost(self.ledger.datagrams(), now)?;
        Some(self.lost(seq, screen))
    }

    /// When the path is probed, if nothing is acknowledged.
    pub(crate) fn probe_due(&self) -> Option<Micros> {
        let since = self
            .flow
            .unacked_since()
            .filter(|_| self.ledger.delivery_order() == DeliveryOrder::Mixed)?;
        Some(self.losses.probe_due(since, self.ledger.last_sent_at(), self.flow.rtt()))
    }

    /// The path was probed.
    pub(crate) fn probe_sent(&mut self, now: Micros) {
        self.losses.probe_sent(now);
    }

    /// When a datagram is declared lost or sent again, or the path is probed.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        let lost = self.losses.deadline(self.ledger.datagrams());
        let repeat = self.losses.repeats.deadline();
        lost.into_iter().chain(repeat).chain(self.probe_due()).min()
    }

    /// # Panics
    /// If an invariant of these files does not hold; the message states it.
    pub(crate) fn check_invariants(&self) {
        self.ledger.check_invariants();
        self.flow.check_invariants(self.ledger.in_flight().map(|sent| &sent.transmission));
    }
}
