//! Path 10/13, and path back: under viewer.rs, between update.rs and loss_detection.rs.
//! Which updates are sent as datagrams, and which the viewer has acknowledged; the pixels of a lost
//! update are stale and committed again. Knows one viewer; never pixels or sockets.

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_protocol::session::{PROBE, SessionCaps};
use thinc_region::Region;

use super::{UPDATE_HEAD_BYTES, Viewer, Violation};
use crate::command_queue::Lane;
use crate::effects::DeliveryOrder;
use crate::packer::Packer;

impl Viewer {
    /// How the transport delivers updates; called before the first is sent.
    pub(crate) fn set_delivery_order(&mut self, arrival: DeliveryOrder) {
        self.updates.set_delivery_order(arrival);
        self.quality.set_delivery_order(arrival);
        self.videos.set_delivery_order(arrival);
    }

    /// The next part of the update at `at` is sent as a datagram of at most so many bytes: it waits
    /// for no retransmission of other updates, and is never retransmitted itself.
    pub(super) fn use_datagram(
        &self,
        at: usize,
        lane: Lane,
        frame_max: usize,
        now: Micros,
    ) -> bool {
        let may = (lane == Lane::RealTime || self.loss_detection.is_path_lossy())
            && self.loss_detection.may_send_datagram(now);
        may && frame_max > UPDATE_HEAD_BYTES
            && self.updates.fits_datagram(at, frame_max - UPDATE_HEAD_BYTES)
    }

    pub(super) fn datagram_sent(&mut self, seq: u64, lane: Lane, now: Micros) {
        self.loss_detection.sent(seq, now);
        if lane == Lane::RealTime && self.loss_detection.is_path_lossy() {
            self.loss_detection.repeats.sent(seq, &self.packed, self.flow.rtt(), now);
        }
        self.stats.datagrams += 1;
    }

    /// These updates were applied, in any order.
    pub(crate) fn applied(
        &mut self,
        seqs: &RangeInclusive<u64>,
        at_once: bool,
        now: Micros,
    ) -> Result<(), Violation> {
        if *seqs.end() > self.updates.newest_seq {
            return Err(Violation::AckAhead {
                acked: *seqs.end(),
                newest: self.updates.newest_seq,
            });
        }
        let detection = &mut self.loss_detection;
        self.updates.applied(seqs, |seq| detection.later_acked(seq));
        detection.acknowledged(seqs, at_once, now);
        self.flow.applied(seqs, now);
        let Viewer { updates, loss_detection, flow, .. } = self;
        updates.apply_implied(|seq| {
            loss_detection.later_acked(seq);
            flow.remove(seq);
        });
        self.path_progressed(now);
        Ok(())
    }

    /// A viewer's acknowledgement of updates of which some are datagrams: `at_once`, or repeated
    /// because the first may be lost.
    pub(crate) fn arrived(
        &mut self,
        arrived: &Arrived,
        at_once: bool,
        now: Micros,
    ) -> Result<(), Violation> {
        for run in arrived.applied.iter().rev() {
            let first = (self.updates.acked_seq + 1).max(*run.start());
            // Only loss_detection.rs uses acknowledgements of updates that were declared lost.
            let known = *run.end() < first;
            if known {
                self.loss_detection.acknowledged(run, at_once, now);
            } else {
                self.applied(&(first..=*run.end()), at_once, now)?;
            }
        }
        self.videos.acked(self.updates.acked_in_order);
        for &seq in &arrived.discarded {
            if self.updates.is_in_flight(seq) {
                self.loss_detection.discarded(seq);
                self.lost(seq, now);
            }
        }
        self.take_lost(now);
        Ok(())
    }

    /// When the path is probed, if nothing is acknowledged.
    pub(super) fn probe_due(&self) -> Option<Micros> {
        let since = self
            .flow
            .unacked_since()
            .filter(|_| self.updates.delivery_order() == DeliveryOrder::Mixed)?;
        Some(self.loss_detection.probe_due(since, self.flow.last_sent(), self.flow.rtt()))
    }

    /// Sends second copies that are due, of updates that are still in flight.
    pub(super) fn repeat(&mut self, packer: &mut dyn Packer, now: Micros) {
        let Viewer { loss_detection, updates, flow, stats, .. } = self;
        while let Some(bytes) = loss_detection.repeats.poll(now, |seq| updates.is_in_flight(seq)) {
            if bytes.len() <= packer.datagram_bytes() {
                packer.put_datagram(bytes);
                flow.control_sent(bytes.len() as u64);
                stats.bytes += bytes.len() as u64;
            }
        }
    }

    /// The capabilities for datagrams in the hello, for a viewer that takes them.
    pub(super) fn datagram_caps(&self) -> u32 {
        if self.updates.delivery_order() == DeliveryOrder::Mixed {
            SessionCaps::DATAGRAMS | SessionCaps::EARLY
        } else {
            0
        }
    }

    /// Probes the path if that is due: the viewer acknowledges any packet at once, and that shows
    /// which earlier ones are missing.
    pub(super) fn probe_path(&mut self, packer: &mut dyn Packer, now: Micros) {
        if self.probe_due().is_some_and(|due| due <= now) {
            self.loss_detection.probe_sent(now);
            if packer.datagram_bytes() > 0 {
                packer.put_datagram(&PROBE);
            }
        }
    }

    /// Handles updates that are lost by now.
    pub(super) fn take_lost(&mut self, now: Micros) {
        while let Some(seq) = self.loss_detection.poll_lost(now) {
            self.lost(seq, now);
        }
    }

    /// An update will not be applied. Marks as stale what the viewer lacks without it, after
    /// everything committed, and returns that region.
    pub(crate) fn lost(&mut self, seq: u64, now: Micros) -> Region {
        self.flow.remove(seq);
        let stale =
            self.updates.lost(seq).unwrap_or_else(|| Region::from(self.queue.size().rect()));
        self.stats.lost += 1;
        self.mark_stale(&stale, now);
        stale
    }
}
