//! Path 6/13: under viewer.rs, from frames that are drawn and updates that are committed, to
//! session.rs and the driver's clock.
//! How many frames a second one viewer takes: a frame is taken if nothing of it is pending any more
//! when the next one is drawn. Knows rectangles and times; never pixels.

use thinc_protocol::Micros;
use thinc_region::Rect;
use thinc_ring::{FRAME_RATE_MAX, FRAME_RATE_MIN};

/// 500 ms: within it single late commits do not count, and a path that has changed is followed
/// before a person has looked twice.
const WINDOW: Micros = 500_000;
/// Fewest frames that tell something.
const FRAMES_MIN: u32 = 8;
/// After this long without a frame counting begins again.
const PAUSE: Micros = 1_000_000;

/// Frames of one viewer, whole images that applications have drawn.
#[derive(Debug)]
pub(crate) struct FrameRate {
    /// Frames a second.
    rate: u32,
    /// The newest frame, in the view, while some of it is not committed.
    waits: Option<Rect>,
    /// When counting began, and when the newest frame was drawn.
    began: Micros,
    newest: Micros,
    drawn: u32,
    taken: u32,
}

impl FrameRate {
    /// As fast as the clock goes, until the viewer turns out to be slower.
    pub(super) fn new() -> FrameRate {
        FrameRate { rate: FRAME_RATE_MAX, waits: None, began: 0, newest: 0, drawn: 0, taken: 0 }
    }

    /// Frames a second that the viewer takes, or can be tried with.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    /// A frame was drawn, here in the view. The one before was taken by now, or never will be.
    pub(super) fn drawn(&mut self, rect: Rect, now: Micros) {
        if now.saturating_sub(self.newest) >= PAUSE {
            self.begin(now);
        } else if now.saturating_sub(self.began) >= WINDOW && self.drawn >= FRAMES_MIN {
            self.decide();
            self.begin(now);
        }
        self.newest = now;
        self.drawn += 1;
        self.waits = Some(rect);
    }

    /// The frame of which some is not committed.
    pub(super) fn waits(&self) -> Option<Rect> {
        self.waits
    }

    /// All of that is committed.
    pub(super) fn taken(&mut self) {
        if self.waits.take().is_some() {
            self.taken += 1;
        }
    }

    fn begin(&mut self, now: Micros) {
        (self.began, self.drawn, self.taken) = (now, 0, 0);
    }

    /// If more than a fifth of the frames was not taken, an eighth more are drawn than were, so
    /// that a viewer that has become faster is noticed, and at least two thirds of what it was, as
    /// one stall says little. More are tried while at most a sixteenth is lost. Between the two the
    /// rate stays.
    fn decide(&mut self) {
        let lost = self.drawn - self.taken.min(self.drawn);
        let rate = if lost * 5 > self.drawn {
            // Of all programs that draw, each is held to the rate.
            let taken = self.rate * self.taken / self.drawn;
            (taken + taken / 8 + 1).clamp(self.rate * 2 / 3, self.rate)
        } else if lost == 0 {
            self.rate + self.rate / 4 + 1
        } else if lost * 16 <= self.drawn {
            self.rate + self.rate / 8 + 1
        } else {
            self.rate
        };
        self.rate = rate.clamp(FRAME_RATE_MIN, FRAME_RATE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Rect = Rect { x1: 0, y1: 0, x2: 400, y2: 300 };

    /// A program that is held to the viewer's rate draws for so long; the viewer takes at most
    /// `takes` frames a second. Returns the rate after each second.
    fn seconds(frames: &mut FrameRate, from: Micros, count: u64, takes: u64) -> Vec<u32> {
        let (mut now, mut ready, mut rates) = (from, from, Vec::new());
        for second in 1..=count {
            while now < from + second * 1_000_000 {
                frames.drawn(FRAME, now);
                if now >= ready {
                    frames.taken();
                    ready = now.max(ready + 1_000_000 / takes);
                }
                now += 1_000_000 / u64::from(frames.rate());
            }
            rates.push(frames.rate());
        }
        rates
    }

    #[test]
    fn the_rate_is_that_of_the_viewer_and_an_eighth_more() {
        for takes in [12, 20, 30, 45] {
            let mut frames = FrameRate::new();
            let rates = seconds(&mut frames, 0, 20, takes);
            let within = takes as u32..=takes as u32 * 3 / 2 + 2;
            assert!(rates[4..].iter().all(|rate| within.contains(rate)), "{takes}: {rates:?}");
        }
    }

    #[test]
    fn a_fast_viewer_gets_all_and_the_slowest_ten() {
        let mut frames = FrameRate::new();
        assert_eq!(seconds(&mut frames, 0, 5, 100), [FRAME_RATE_MAX; 5]);
        let slow = seconds(&mut frames, 5_000_000, 6, 2);
        assert_eq!(slow[3..], [FRAME_RATE_MIN; 3]);
        // A path that has become better.
        let fast = seconds(&mut frames, 11_000_000, 12, 100);
        assert!(fast.windows(2).all(|pair| pair[0] <= pair[1]), "{fast:?}");
        assert_eq!(fast[11], FRAME_RATE_MAX);
    }

    #[test]
    fn several_programs_are_held_to_what_is_taken_of_all() {
        let mut frames = FrameRate::new();
        let (mut now, mut ready) = (0, 0);
        while now < 5_000_000 {
            // Two programs, and a viewer that takes 30 frames a second of both together.
            for _ in 0..2 {
                frames.drawn(FRAME, now);
                if now >= ready {
                    frames.taken();
                    ready = now.max(ready + 1_000_000 / 30);
                }
            }
            now += 1_000_000 / u64::from(frames.rate());
        }
        assert!((12..=23).contains(&frames.rate()), "{}", frames.rate());
    }

    #[test]
    fn a_few_frames_and_a_pause_tell_nothing() {
        let mut frames = FrameRate::new();
        for at in 0..40 {
            frames.drawn(FRAME, at * PAUSE);
        }
        assert_eq!(frames.rate(), FRAME_RATE_MAX);
        for at in 0..7 {
            frames.drawn(FRAME, 50 * PAUSE + at * 90_000);
        }
        assert_eq!(frames.rate(), FRAME_RATE_MAX);
    }

    #[test]
    fn a_frame_is_taken_once() {
        let mut frames = FrameRate::new();
        frames.taken();
        frames.drawn(FRAME, 0);
        assert_eq!(frames.waits(), Some(FRAME));
        frames.taken();
        frames.taken();
        assert_eq!((frames.waits(), frames.taken, frames.drawn), (None, 1, 1));
    }
}
