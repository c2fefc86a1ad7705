//! Path 12/13: under client.rs, between the reader's thread and the window's.
//! Whether a complete drawing burst waits for the window before the next is applied over it. Knows
//! no pixels and no display.

use std::sync::{Arc, Condvar};
use std::time::Duration;

/// 4 ms, a quarter of a 60 Hz refresh: how long a complete drawing burst waits for the window's
/// thread before the next is applied over it. If that thread waits for the display, bursts are
/// merged instead.
pub(super) const PRESENT_WAIT_MAX: Duration = Duration::from_millis(4);

/// The wait for the window.
#[derive(Debug, Default)]
pub(super) struct Presenting {
    /// The window takes the news, and presents them, as soon as it is woken.
    whole_bursts: bool,
    /// Wakes the threads that apply once the news are taken.
    taken: Arc<Condvar>,
}

impl Presenting {
    /// From now on only whole drawing bursts are presented.
    pub(super) fn present_whole_bursts(&mut self) {
        self.whole_bursts = true;
    }

    /// The window has taken the news: it presents them before it frees the lock.
    pub(super) fn handle_taken(&self) {
        self.taken.notify_all();
    }

    /// Whether a burst of which the news tell is presented before anything else is applied.
    pub(super) fn waits(&self, frame_end: bool) -> bool {
        self.whole_bursts && frame_end
    }

    /// What the threads that apply wait for, at most for [`PRESENT_WAIT_MAX`].
    pub(super) fn waits_for(&self) -> Arc<Condvar> {
        self.taken.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_viewer_without_a_window_nor_for_half_a_burst() {
        let mut presenting = Presenting::default();
        assert!(!presenting.waits(true));
        presenting.present_whole_bursts();
        assert!(presenting.waits(true) && !presenting.waits(false));
    }
}
