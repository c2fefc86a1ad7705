//! Path 11/13: under client.rs; what wakes the decoder's thread (video.rs), and how long it has
//! decoded.
//! Knows times; never frames.

use std::sync::{Arc, Condvar};
use std::time::Duration;

/// Time spent decoding video since the viewer was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeTimes {
    /// Frames decoded.
    pub frames: u64,
    /// Total decoding time.
    pub total: Duration,
    /// Time of the slowest frame.
    pub longest: Duration,
}

/// The decoder's thread, as the others see it.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    due: Arc<Condvar>,
    times: DecodeTimes,
}

impl Decoding {
    /// Time spent decoding since the viewer was started.
    pub(crate) fn times(&self) -> DecodeTimes {
        self.times
    }

    /// There is something to decode, or the viewer is being closed.
    pub(super) fn wake(&self) {
        self.due.notify_all();
    }
}

#[cfg(feature = "h264")]
impl Decoding {
    /// What the decoder's thread waits for.
    pub(super) fn waits_for(&self) -> Arc<Condvar> {
        self.due.clone()
    }

    /// A frame was decoded.
    pub(super) fn count(&mut self, took: Duration) {
        self.times.frames += 1;
        self.times.total += took;
        self.times.longest = self.times.longest.max(took);
    }
}

#[cfg(all(test, feature = "h264"))]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_frame_stays_the_longest() {
        let mut decoding = Decoding::default();
        [2, 5, 3].into_iter().for_each(|ms| decoding.count(Duration::from_millis(ms)));
        let (total, longest) = (Duration::from_millis(10), Duration::from_millis(5));
        assert_eq!(decoding.times(), DecodeTimes { frames: 3, total, longest });
    }
}
