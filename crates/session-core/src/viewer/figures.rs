//! Path 10/13: under viewer.rs, to session.rs.
//! What is told of a viewer: its state now, and what is counted since it connected. Knows numbers.

use thinc_protocol::Micros;

use super::commit::NextCommit;
use super::{Viewer, ViewerStats};
use crate::delivery::ledger::OutgoingPart;
use crate::figures::Figures;

/// What is counted of a viewer.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stats: ViewerStats,
    pub(super) figures: Figures,
}

impl Counts {
    /// An update was committed. Returns how many of its pixels were drawn.
    pub(super) fn committed(&mut self, next: &NextCommit, copies: u64, derived: u64) -> u64 {
        let drawn = next.drawn_area();
        self.stats.pixels += drawn;
        self.stats.copies += copies;
        self.stats.derived_copies += derived;
        drawn
    }

    /// A part of an update was sent.
    pub(super) fn sent(&mut self, outgoing: &OutgoingPart<'_>, now: Micros) {
        self.stats.updates += 1;
        self.stats.overtakes += u64::from(outgoing.overtakes);
        self.figures.add_commands(&outgoing.command_bytes);
        if let Some(echo) = outgoing.echo {
            self.stats.echoes += 1;
            self.figures.echo.observe(now.saturating_sub(echo.delivered));
        }
    }
}

impl Viewer {
    pub(crate) fn stats(&self) -> ViewerStats {
        ViewerStats {
            rtt_us: self.delivery.flow.rtt(),
            bytes_per_second: self.delivery.flow.rate(),
            in_flight: self.delivery.flow.in_flight(),
            budget: self.delivery.flow.budget(),
            video: self.pending.videos.stats(),
            ..self.counts.stats
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            round_trip: *self.delivery.flow.round_trips(),
            sent_bytes: self.counts.stats.bytes,
            updates: self.counts.stats.updates,
            ..self.counts.figures
        }
    }
}
