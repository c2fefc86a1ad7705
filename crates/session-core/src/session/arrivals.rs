//! Path 10/13 and back: under session.rs, for transports that lose updates or bring them out of order.
//! From the shell, to one viewer. Knows numbers; never what an update did.

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_region::Region;

use super::Session;
use crate::effects::Arrival;
use crate::viewer::{ViewerId, Violation};

impl Session {
    /// What a viewer's transport does with updates, told before the first leaves.
    pub fn set_arrival(&mut self, id: ViewerId, arrival: Arrival) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.set_arrival(arrival);
        }
    }

    /// The newest update that the viewer is known to have applied of those that do not go alone, and so all of them before it.
    pub fn acked_in_order(&self, id: ViewerId) -> u64 {
        self.viewer(id).map_or(0, |viewer| viewer.updates.acked_in_order)
    }

    /// A viewer has applied these updates, in whatever order; for transports that lose some. Those that deliver in order
    /// need no more than the viewer's `Ack` messages.
    ///
    /// # Errors
    /// One of them was not sent.
    pub fn handle_applied(&mut self, id: ViewerId, seqs: RangeInclusive<u64>, now: Micros) -> Result<(), Violation> {
        self.now = self.now.max(now);
        self.viewer_mut(id).map_or(Err(Violation::Unknown(id.0)), |viewer| viewer.applied(&seqs, true, now))
    }

    /// What a viewer says beside its stream, as soon as updates have arrived; what it says again by the stream is a message like any other.
    ///
    /// # Errors
    /// It names one that was not sent.
    pub fn handle_arrived(&mut self, id: ViewerId, arrived: &Arrived, now: Micros) -> Result<(), Violation> {
        self.now = self.now.max(now);
        self.take_fresh();
        let Some(viewer) = self.viewers.iter_mut().find(|viewer| viewer.id == id) else {
            return Err(Violation::Unknown(id.0));
        };
        viewer.heard = self.now;
        viewer.arrived(arrived, true, now)
    }

    /// An update will not be applied, because it was lost, reset, or discarded by the viewer for coming after something
    /// newer. What it wrote, and what later ones took from there, is sent again. Gives that region, as it is after all
    /// jobs handed out.
    pub fn handle_lost(&mut self, id: ViewerId, seq: u64, now: Micros) -> Region {
        self.now = self.now.max(now);
        let now = self.now;
        self.take_fresh();
        self.viewer_mut(id).map_or_else(Region::new, |viewer| viewer.lost(seq, now))
    }
}
