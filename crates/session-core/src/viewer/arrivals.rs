//! Path 10/13 and back: under viewer.rs, between update.rs and losses.rs.
//! Which updates go alone, and what a viewer says has become of them; what is lost is lacking, and drawn anew.
//! Knows one viewer; never pixels or sockets.

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_protocol::session::{ASK, SessionCaps};
use thinc_region::Region;

use super::{UPDATE_HEAD_BYTES, Viewer, Violation};
use crate::command_queue::Lane;
use crate::effects::Arrival;
use crate::packer::Packer;

impl Viewer {
    /// What the transport does with updates, told before the first.
    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        self.updates.set_arrival(arrival);
        self.quality.set_arrival(arrival);
        self.videos.set_arrival(arrival);
    }

    /// What leaves next of the update at `at` goes by itself, in a frame of so many bytes at most: nothing of it waits for what is lost of
    /// others, and it is never sent again as it was.
    pub(super) fn goes_alone(&self, at: usize, lane: Lane, frame_max: usize, now: Micros) -> bool {
        let may = (lane == Lane::RealTime || self.losses.is_lossy()) && self.losses.come_through(now);
        may && frame_max > UPDATE_HEAD_BYTES && self.updates.may_go_alone(at, frame_max - UPDATE_HEAD_BYTES)
    }

    pub(super) fn went_alone(&mut self, seq: u64, lane: Lane, now: Micros) {
        self.losses.sent(seq, now);
        if lane == Lane::RealTime && self.losses.is_lossy() {
            self.losses.repeats.sent(seq, &self.packed, self.flow.rtt(), now);
        }
        self.stats.alone += 1;
    }

    /// These updates were applied, in whatever order.
    pub(crate) fn applied(&mut self, seqs: &RangeInclusive<u64>, at_once: bool, now: Micros) -> Result<(), Violation> {
        if *seqs.end() > self.updates.newest_seq {
            return Err(Violation::AckAhead { acked: *seqs.end(), newest: self.updates.newest_seq });
        }
        let losses = &mut self.losses;
        self.updates.applied(seqs, |seq| losses.passed(seq));
        losses.arrived(seqs, at_once, now);
        self.flow.applied(seqs, now);
        let Viewer { updates, losses, flow, .. } = self;
        updates.implied(|seq| {
            losses.passed(seq);
            flow.gone(seq);
        });
        self.path_moves(now);
        Ok(())
    }

    /// What a viewer says of updates of which some go alone: `at_once`, or again when it may have been lost.
    pub(crate) fn arrived(&mut self, arrived: &Arrived, at_once: bool, now: Micros) -> Result<(), Violation> {
        for run in arrived.applied.iter().rev() {
            let first = (self.updates.acked_seq + 1).max(*run.start());
            // Of what was taken for lost before it came, only losses.rs wants to hear.
            let known = *run.end() < first;
            if known {
                self.losses.arrived(run, at_once, now);
            } else {
                self.applied(&(first..=*run.end()), at_once, now)?;
            }
        }
        self.videos.acked(self.updates.acked_in_order);
        for &seq in &arrived.discarded {
            if self.updates.is_under_way(seq) {
                self.losses.discarded(seq);
                self.lost(seq, now);
            }
        }
        self.take_lost(now);
        Ok(())
    }

    /// When the path is asked whether it carries, if nothing comes back by it.
    pub(super) fn ask_due(&self) -> Option<Micros> {
        let since = self.flow.waits_since().filter(|_| self.updates.arrival() == Arrival::Mixed)?;
        Some(self.losses.ask_due(since, self.flow.last_sent(), self.flow.rtt()))
    }

    /// Says once more what is due, of which nothing is known.
    pub(super) fn repeat(&mut self, packer: &mut dyn Packer, now: Micros) {
        let Viewer { losses, updates, flow, stats, .. } = self;
        while let Some(bytes) = losses.repeats.poll(now, |seq| updates.is_under_way(seq)) {
            if bytes.len() <= packer.datagram_bytes() {
                packer.put_datagram(bytes);
                flow.control_sent(bytes.len() as u64);
                stats.bytes += bytes.len() as u64;
            }
        }
    }

    /// What its hello says of this, for a viewer that takes updates alone.
    pub(super) fn alone_caps(&self) -> u32 {
        if self.updates.arrival() == Arrival::Mixed { SessionCaps::ALONE | SessionCaps::EARLY } else { 0 }
    }

    /// Asks it where that is due: any packet that arrives now is answered, and the answer tells what did not arrive before it.
    pub(super) fn ask_path(&mut self, packer: &mut dyn Packer, now: Micros) {
        if self.ask_due().is_some_and(|due| due <= now) {
            self.losses.asked(now);
            if packer.datagram_bytes() > 0 {
                packer.put_datagram(&ASK);
            }
        }
    }

    /// What counts as lost by now.
    pub(super) fn take_lost(&mut self, now: Micros) {
        while let Some(seq) = self.losses.poll(now) {
            self.lost(seq, now);
        }
    }

    /// An update will not be applied: what the viewer lacks for that, of what it would show after everything committed.
    pub(crate) fn lost(&mut self, seq: u64, now: Micros) -> Region {
        self.flow.gone(seq);
        let lacking = self.updates.lost(seq).unwrap_or_else(|| Region::from(self.queue.size().rect()));
        self.stats.lost += 1;
        self.lacks(&lacking, now);
        lacking
    }
}
