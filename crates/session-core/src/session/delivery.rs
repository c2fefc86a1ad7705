//! Path 10/13, and path back: under session.rs, for transports that lose or reorder updates.
//! From the shell, to one viewer. Knows numbers; never what an update changed.

use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_region::Region;

use super::Session;
use crate::delivery::effects::DeliveryOrder;
use crate::viewer::{ViewerId, Violation};

impl Session {
    /// How a viewer's transport delivers updates; called before the first is sent.
    pub fn set_delivery_order(&mut self, id: ViewerId, arrival: DeliveryOrder) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.set_delivery_order(arrival);
        }
    }

    /// The newest update on the stream that the viewer is known to have applied, and so all of them
    /// before it.
    pub fn acked_in_order(&self, id: ViewerId) -> u64 {
        self.viewer(id).map_or(0, |viewer| viewer.delivery.ledger.acked_in_order)
    }

    /// A viewer has applied these updates, in any order; for transports that lose some. Ordered
    /// transports need only the viewer's `Ack` messages.
    ///
    /// # Errors
    /// One of them was not sent.
    pub fn handle_applied(
        &mut self,
        id: ViewerId,
        seqs: RangeInclusive<u64>,
        now: Micros,
    ) -> Result<(), Violation> {
        self.now = self.now.max(now);
        self.viewer_mut(id)
            .map_or(Err(Violation::Unknown(id.0)), |viewer| viewer.applied(&seqs, true, now))
    }

    /// An acknowledgement in a datagram, sent as soon as updates arrive. The copy on the stream is
    /// a message like any other.
    ///
    /// # Errors
    /// It names an update that was not sent.
    pub fn handle_arrived(
        &mut self,
        id: ViewerId,
        arrived: &Arrived,
        now: Micros,
    ) -> Result<(), Violation> {
        self.now = self.now.max(now);
        self.flush_drawings();
        let Some(viewer) = self.viewers.iter_mut().find(|viewer| viewer.id == id) else {
            return Err(Violation::Unknown(id.0));
        };
        viewer.input.heard_at = self.now;
        viewer.arrived(arrived, true, now)
    }

    /// An update will not be applied, because it was lost, reset, or discarded by the viewer as
    /// older than one it had applied. What it wrote, and what later updates copied from there, is
    /// sent again. Returns that region, as it is after all jobs handed out.
    pub fn handle_lost(&mut self, id: ViewerId, seq: u64, now: Micros) -> Region {
        self.now = self.now.max(now);
        let now = self.now;
        self.flush_drawings();
        self.viewer_mut(id).map_or_else(Region::new, |viewer| viewer.lost(seq, now))
    }
}
