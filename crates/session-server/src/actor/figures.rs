//! Beside the path: under actor.rs, what is told to monitoring. Knows numbers; never who asks.

use super::{Actor, VIEWERS_MAX};
use crate::figures::{FrameClock, SessionFigures, VIEWERS_TOLD_MAX, ViewerFigures};

const _: () = assert!(VIEWERS_TOLD_MAX >= VIEWERS_MAX, "all viewers are told of");

impl Actor {
    pub(super) fn figures(&self) -> SessionFigures {
        let screen = self.driver.size();
        let viewers = self.connections.values().filter_map(|connection| {
            let stats = self.core.stats(connection.viewer?)?;
            let is_guest = connection.guest.is_some();
            Some(ViewerFigures { is_guest, round_trip_us: stats.rtt_us })
        });
        SessionFigures {
            screen: (screen.width, screen.height),
            viewers: viewers.collect(),
            counts: self.core.figures().into(),
            frames: FrameClock { rate: self.core.frame_rate(), holds: self.driver.holds() },
        }
    }
}
