//! The one clock of this crate: microseconds since the viewer began, for viewer-core, which has
//! none of its own.

use std::time::Instant;

use thinc_protocol::Micros;

/// Counts from its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts to count.
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Microseconds since the start.
    pub(crate) fn now(&self) -> Micros {
        self.start.elapsed().as_micros() as Micros
    }
}
