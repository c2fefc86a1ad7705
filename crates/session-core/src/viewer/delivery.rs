//! Path 10/13, and path back: under viewer.rs, between its queue and its delivery.
//! Which updates are sent as datagrams, and which the viewer has acknowledged; the pixels of a lost
//! update are stale and committed again. Knows one viewer; never pixels or sockets.

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_protocol::session::{PROBE, SessionCaps};
use thinc_region::Region;

use super::{UPDATE_HEAD_BYTES, Viewer, Violation};
use crate::delivery::effects::DeliveryOrder;
use crate::delivery::packer::Packer;
use crate::queue::command_queue::Lane;

impl Viewer {
    /// How the transport delivers updates; called before the first is sent.
    pub(crate) fn set_delivery_order(&mut self, arrival: DeliveryOrder) {
        self.delivery.ledger.set_delivery_order(arrival);
        self.quality.set_delivery_order(arrival);
        self.pending.videos.set_delivery_order(arrival);
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
        let may = (lane == Lane::RealTime || self.delivery.is_path_lossy())
            && self.delivery.may_send_datagram(now);
        may && frame_max > UPDATE_HEAD_BYTES
            && self.delivery.ledger.fits_datagram(at, frame_max - UPDATE_HEAD_BYTES)
    }

    pub(super) fn datagram_sent(&mut self, seq: u64, lane: Lane, now: Micros) {
        if lane == Lane::RealTime {
            self.delivery.schedule_repeat(seq, now);
        }
        self.counts.stats.datagrams += 1;
    }

    /// These updates were applied, in any order.
    pub(crate) fn applied(
        &mut self,
        seqs: &RangeInclusive<u64>,
        at_once: bool,
        now: Micros,
    ) -> Result<(), Violation> {
        if *seqs.end() > self.delivery.ledger.newest_seq {
            return Err(Violation::AckAhead {
                acked: *seqs.end(),
                newest: self.delivery.ledger.newest_seq,
            });
        }
        self.delivery.applied(seqs, at_once, now);
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
            let first = (self.delivery.ledger.acked_seq + 1).max(*run.start());
            // Only loss_detection.rs uses acknowledgements of updates that were declared lost.
            let known = *run.end() < first;
            if known {
                self.delivery.applied_again(run, at_once, now);
            } else {
                self.applied(&(first..=*run.end()), at_once, now)?;
            }
        }
        self.pending.videos.acked(self.delivery.ledger.acked_in_order);
        for &seq in &arrived.discarded {
            if self.delivery.ledger.is_in_flight(seq) {
                self.lost(seq, now);
            }
        }
        self.take_lost(now);
        Ok(())
    }

    /// Sends second copies that are due, of updates that are still in flight.
    pub(super) fn repeat(&mut self, packer: &mut dyn Packer, now: Micros) {
        while let Some(datagram) = self.delivery.poll_repeat(now) {
            let bytes = datagram.len();
            if bytes <= packer.datagram_bytes() {
                packer.put_datagram(datagram);
                self.delivery.flow.control_sent(bytes as u64, now);
                self.counts.stats.bytes += bytes as u64;
            }
        }
    }

    /// The capabilities for datagrams in the hello, for a viewer that takes them.
    pub(super) fn datagram_caps(&self) -> u32 {
        if self.delivery.ledger.delivery_order() == DeliveryOrder::Mixed {
            SessionCaps::DATAGRAMS | SessionCaps::EARLY
        } else {
            0
        }
    }

    /// Probes the path if that is due: the viewer acknowledges any packet at once, and that shows
    /// which earlier ones are missing.
    pub(super) fn probe_path(&mut self, packer: &mut dyn Packer, now: Micros) {
        if self.delivery.probe_due().is_some_and(|due| due <= now) {
            self.delivery.probe_sent(now);
            if packer.datagram_bytes() > 0 {
                packer.put_datagram(&PROBE);
            }
        }
    }

    /// Handles updates that are lost by now.
    pub(super) fn take_lost(&mut self, now: Micros) {
        while let Some(stale) = self.delivery.poll_lost(self.pending.queue.size(), now) {
            self.made_stale_by_loss(&stale, now);
        }
    }

    /// An update will not be applied. Marks as stale what the viewer lacks without it, after
    /// everything committed, and returns that region.
    pub(crate) fn lost(&mut self, seq: u64, now: Micros) -> Region {
        let stale = self.delivery.lost(seq, self.pending.queue.size());
        self.made_stale_by_loss(&stale, now);
        stale
    }

    fn made_stale_by_loss(&mut self, stale: &Region, now: Micros) {
        self.counts.stats.lost += 1;
        self.quality.choice.not_sent(stale);
        self.pending.mark_stale(stale, now);
    }
}
