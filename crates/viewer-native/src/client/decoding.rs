//! Path 11/13: under client.rs; what wakes the decoder's thread (video.rs), how long it has
//! decoded, and by what.
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
    decoder: DecoderReport,
    /// The connection whose person wants chroma of full resolution, as far as the thread knows.
    #[cfg(feature = "h264")]
    full_colour: Option<u32>,
    /// It has been found out whether that is decoded.
    #[cfg(feature = "h264")]
    was_tried: bool,
}

/// What decodes videos.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecoderReport {
    /// What has decoded the last frame: `openh264`, or GStreamer's element and what it is.
    pub decoder: Option<String>,
    /// Why videos are not decoded by a graphics processor; None if they are, while that is tried,
    /// and before there is one.
    pub hardware_failure: Option<String>,
}

impl Decoding {
    /// Time spent decoding since the viewer was started.
    pub(crate) fn times(&self) -> DecodeTimes {
        self.times
    }

    /// What decodes.
    pub(crate) fn decoder(&self) -> &DecoderReport {
        &self.decoder
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

    /// The person of this connection wants chroma of full resolution; true if the thread is to act
    /// on it, or on the end of a trial.
    pub(super) fn has_codec_news(&self, full_colour: Option<u32>) -> bool {
        self.was_tried || self.full_colour != full_colour
    }

    /// The thread acts on that.
    pub(super) fn take_codec_news(&mut self, full_colour: Option<u32>) {
        (self.was_tried, self.full_colour) = (false, full_colour);
    }

    /// It has been found out whether chroma of full resolution is decoded.
    pub(super) fn set_tried(&mut self) {
        self.was_tried = true;
        self.wake();
    }

    /// What decodes has changed.
    pub(super) fn set_decoder(&mut self, decoder: DecoderReport) {
        self.decoder = decoder;
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
