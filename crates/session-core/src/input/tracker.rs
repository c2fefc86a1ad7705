//! Path 6/13: beside scheduler.rs, whose real-time lane carries input responses.
//! Tells which small changes look like an input response: near the pointer, or in a window that
//! just received a key or button. Knows rectangles, windows and times; never viewers or pixels.

use thinc_protocol::Micros;
use thinc_region::Rect;

/// Most windows whose inputs are remembered.
const WINDOWS_MAX: usize = 8;
/// Most areas of a window; past it the one that changed longest ago is forgotten.
const AREAS_MAX: usize = 8;
/// How long after a key or button a change of its window may be the response: a menu that opens, an
/// editor's reflow.
const RESPONSE_TIME_MAX: Micros = 500_000;
/// How near to the pointer a change is a response: the height of a button or a menu entry.
const NEAR_POINTER_PIXELS: i32 = 32;
/// How near to an area a change belongs to it: the next glyph of a word.
const NEAR_AREA_PIXELS: i32 = 16;
/// An area is idle once it has not changed for so long. A blinking text cursor is, between its
/// changes.
const IDLE_TIME: Micros = 300_000;
/// Most changes of one area that respond to one input: the glyph, the cursor's old and new place,
/// and a line that moves.
const RESPONSES_MAX: u8 = 4;
/// After so many unprompted changes without an idle time, an area is an animation: three frames of
/// a video.
const UNPROMPTED_MAX: u8 = 3;

/// A part of a window that changes.
#[derive(Clone, Copy, Debug)]
struct Area {
    rect: Rect,
    changed_at: Micros,
    /// The input that it responded to last, and how often it did.
    input: u32,
    responses: u8,
    /// Changes without an input since it was idle.
    unprompted: u8,
}

/// A window that received a key or button.
#[derive(Debug)]
struct InputWindow {
    id: u32,
    /// Counts its inputs.
    input: u32,
    input_at: Micros,
    areas: Vec<Area>,
}

/// The recent inputs of all viewers.
#[derive(Debug, Default)]
pub(crate) struct InputTracker {
    pointer: (i32, i32),
    windows: Vec<InputWindow>,
}

impl InputTracker {
    pub(crate) fn pointer(&self) -> (i32, i32) {
        self.pointer
    }

    pub(crate) fn set_pointer(&mut self, x: i32, y: i32) {
        self.pointer = (x, y);
    }

    /// A key or button reached a window.
    pub(crate) fn input_delivered(&mut self, window: u32, now: Micros) {
        let at = self.windows.iter().position(|tracked| tracked.id == window);
        let mut tracked = match at {
            Some(at) => self.windows.remove(at),
            None => InputWindow { id: window, input: 0, input_at: 0, areas: Vec::new() },
        };
        tracked.input = tracked.input.wrapping_add(1);
        tracked.input_at = now;
        if self.windows.len() == WINDOWS_MAX {
            self.windows.remove(0);
        }
        self.windows.push(tracked);
    }

    /// Whether a change looks like an input response. To be called for every change, so that
    /// animations are recognised.
    pub(crate) fn is_input_response(&mut self, window: u32, bounds: &Rect, now: Micros) -> bool {
        let (x, y) = self.pointer;
        let near = Rect::at(x, y, 1, 1).grow(NEAR_POINTER_PIXELS).overlaps(bounds);
        let tracked = self.windows.iter_mut().find(|tracked| tracked.id == window);
        tracked.is_some_and(|tracked| tracked.is_input_response(bounds, now)) || near
    }

    pub(crate) fn check_invariants(&self) {
        assert!(
            self.windows.len() <= WINDOWS_MAX,
            "the inputs of at most {WINDOWS_MAX} windows are remembered"
        );
        let few = self.windows.iter().all(|window| window.areas.len() <= AREAS_MAX);
        assert!(few, "at most {AREAS_MAX} areas of a window are remembered");
    }
}

impl InputWindow {
    fn is_input_response(&mut self, bounds: &Rect, now: Micros) -> bool {
        let recent = now < self.input_at + RESPONSE_TIME_MAX;
        let near = |area: &Area| area.rect.grow(NEAR_AREA_PIXELS).overlaps(bounds);
        let at = self.areas.iter().position(near).unwrap_or_else(|| {
            if self.areas.len() == AREAS_MAX {
                let oldest = (0..AREAS_MAX).min_by_key(|&i| self.areas[i].changed_at);
                self.areas.swap_remove(oldest.expect("a full list has an oldest area"));
            }
            let input = self.input.wrapping_sub(1);
            self.areas.push(Area {
                rect: *bounds,
                changed_at: now,
                input,
                responses: 0,
                unprompted: 0,
            });
            self.areas.len() - 1
        });
        let area = &mut self.areas[at];
        if now > area.changed_at + IDLE_TIME {
            area.unprompted = 0;
        }
        // The area follows its changes, as along a line of text.
        area.rect = *bounds;
        area.changed_at = now;
        if area.input != self.input {
            area.input = self.input;
            area.responses = 0;
        }
        let prompted = recent && area.responses < RESPONSES_MAX;
        if prompted {
            area.responses += 1;
        } else {
            area.unprompted = area.unprompted.saturating_add(1);
        }
        prompted && area.unprompted < UNPROMPTED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 7;
    const GLYPH: Rect = Rect::at(200, 300, 8, 16);
    const ANIMATION: Rect = Rect::at(600, 20, 64, 64);

    #[test]
    fn a_change_after_a_key_is_its_response_along_the_line() {
        let mut tracker = InputTracker::default();
        let mut now = 0;
        assert!(!tracker.is_input_response(WINDOW, &GLYPH, now), "no input yet");
        for key in 0..40 {
            now += 50_000;
            tracker.input_delivered(WINDOW, now);
            let glyph = GLYPH.translate(key * 8, 0);
            for part in [glyph, glyph.translate(8, 0)] {
                assert!(tracker.is_input_response(WINDOW, &part, now + 2_000), "key {key}");
            }
            assert!(!tracker.is_input_response(WINDOW + 1, &glyph, now), "another window");
        }
        let long_after = now + RESPONSE_TIME_MAX;
        assert!(!tracker.is_input_response(WINDOW, &GLYPH, long_after), "long after");
        tracker.check_invariants();
    }

    /// Frames of an animation and glyphs that count as responses, with a key this often.
    fn typed_beside_an_animation(key_ms: u64, plays_before_ms: u64) -> (u32, u32) {
        let mut tracker = InputTracker::default();
        tracker.input_delivered(WINDOW, 0);
        let start = 10_000_000;
        let (mut frames, mut glyphs) = (0, 0);
        for ms in 0..3_000u64 {
            let now = start + ms * 1_000;
            if ms >= plays_before_ms && (ms - plays_before_ms).is_multiple_of(key_ms) {
                tracker.input_delivered(WINDOW, now);
                glyphs += u32::from(tracker.is_input_response(WINDOW, &GLYPH, now + 500));
            }
            if ms.is_multiple_of(33) {
                frames += u32::from(tracker.is_input_response(WINDOW, &ANIMATION, now));
            }
        }
        (frames, glyphs)
    }

    #[test]
    fn an_animation_in_a_window_that_gets_keys_is_no_response() {
        assert_eq!(typed_beside_an_animation(50, 1_000), (0, 40), "it played before");
        let (frames, glyphs) = typed_beside_an_animation(200, 0);
        assert_eq!(glyphs, 15);
        assert!(
            frames < 10,
            "{frames} frames of 91 used the real-time lane before the animation was recognised"
        );
    }

    #[test]
    fn a_blinking_cursor_responds_again_once_there_is_input() {
        let mut tracker = InputTracker::default();
        tracker.input_delivered(WINDOW, 0);
        for blink in 0..100 {
            tracker.is_input_response(WINDOW, &GLYPH, 1_000_000 + blink * 500_000);
        }
        tracker.input_delivered(WINDOW, 60_000_000);
        assert!(tracker.is_input_response(WINDOW, &GLYPH, 60_001_000));
    }

    #[test]
    fn a_change_at_the_pointer_is_a_response() {
        let mut tracker = InputTracker::default();
        tracker.set_pointer(100, 100);
        assert!(tracker.is_input_response(WINDOW, &Rect::at(120, 110, 60, 20), 5));
        assert!(!tracker.is_input_response(WINDOW, &Rect::at(140, 110, 60, 20), 5));
    }
}
