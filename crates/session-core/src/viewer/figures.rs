//! Path 10/13: under viewer.rs, to session.rs.
//! What is told of a viewer: its state now, and what is counted since it connected. Knows numbers.

use super::{Viewer, ViewerStats};
use crate::figures::Figures;

impl Viewer {
    pub(crate) fn stats(&self) -> ViewerStats {
        ViewerStats {
            rtt_us: self.delivery.flow.rtt(),
            bytes_per_second: self.delivery.flow.rate(),
            in_flight: self.delivery.flow.in_flight(),
            budget: self.delivery.flow.budget(),
            video: self.videos.stats(),
            ..self.stats
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            round_trip: *self.delivery.flow.round_trips(),
            sent_bytes: self.stats.bytes,
            updates: self.stats.updates,
            ..self.figures
        }
    }
}
