//! Path 6/13: beside scheduler.rs, whose real-time lane is for answers to a hand.
//! Which small changes look like one: near the pointer, or where a window that got a key or button changes because of it.
//! Knows rectangles, windows and times; never viewers, or what was drawn.

use thinc_protocol::Micros;
use thinc_region::Rect;

/// Most windows remembered for a key or button.
const WINDOWS_MAX: usize = 8;
/// Most areas of one window told apart; past it the one that changed longest ago is forgotten.
const AREAS_MAX: usize = 8;
/// How long after a key or button the changes of its window may be the hand's: a menu that opens, an editor's reflow.
const HOT_TIME: Micros = 500_000;
/// How near to the pointer a change is the hand's: a button's or a menu entry's height.
const NEAR_POINTER_PIXELS: i32 = 32;
/// How near to an area a change is one of it: the next letter of a word.
const NEAR_AREA_PIXELS: i32 = 16;
/// An area rests when it has not changed for so long; a cursor that blinks does between its changes.
const REST_TIME: Micros = 300_000;
/// Changes of one area that answer one input: the letter, the cursor's old place and its new one, and a line that moves.
const ANSWERS_MAX: u8 = 4;
/// Changes that nobody asked for, with no rest between, after which an area moves by itself: three frames of a video.
const UNASKED_MAX: u8 = 3;

/// A part of a window that changes.
#[derive(Clone, Copy, Debug)]
struct Area {
    rect: Rect,
    changed: Micros,
    /// The input it answered last, and how often.
    answered: u32,
    answers: u8,
    /// Changes without one, since it rested.
    unasked: u8,
}

/// A window that got a key or button.
#[derive(Debug)]
struct Window {
    id: u32,
    /// Counts its inputs.
    input: u32,
    input_at: Micros,
    areas: Vec<Area>,
}

/// Where the hands of all viewers are.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    pointer: (i32, i32),
    windows: Vec<Window>,
}

impl Hand {
    pub(crate) fn pointer(&self) -> (i32, i32) {
        self.pointer
    }

    pub(crate) fn point(&mut self, x: i32, y: i32) {
        self.pointer = (x, y);
    }

    /// A key or button reached a window.
    pub(crate) fn delivered(&mut self, window: u32, now: Micros) {
        let at = self.windows.iter().position(|known| known.id == window);
        let mut known = match at {
            Some(at) => self.windows.remove(at),
            None => Window { id: window, input: 0, input_at: 0, areas: Vec::new() },
        };
        known.input = known.input.wrapping_add(1);
        known.input_at = now;
        if self.windows.len() == WINDOWS_MAX {
            self.windows.remove(0);
        }
        self.windows.push(known);
    }

    /// Whether a change looks like the answer to one. Every change is asked about, so that what moves by itself is known.
    pub(crate) fn is_answered_by(&mut self, window: u32, bounds: &Rect, now: Micros) -> bool {
        let (x, y) = self.pointer;
        let near = Rect::at(x, y, 1, 1).grow(NEAR_POINTER_PIXELS).overlaps(bounds);
        let known = self.windows.iter_mut().find(|known| known.id == window);
        known.is_some_and(|known| known.is_answered_by(bounds, now)) || near
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.windows.len() <= WINDOWS_MAX, "at most {WINDOWS_MAX} windows are remembered for their inputs");
        let few = self.windows.iter().all(|window| window.areas.len() <= AREAS_MAX);
        assert!(few, "at most {AREAS_MAX} areas of a window are told apart");
    }
}

impl Window {
    fn is_answered_by(&mut self, bounds: &Rect, now: Micros) -> bool {
        let hot = now < self.input_at + HOT_TIME;
        let near = |area: &Area| area.rect.grow(NEAR_AREA_PIXELS).overlaps(bounds);
        let at = self.areas.iter().position(near).unwrap_or_else(|| {
            if self.areas.len() == AREAS_MAX {
                let oldest = (0..AREAS_MAX).min_by_key(|&i| self.areas[i].changed);
                self.areas.swap_remove(oldest.expect("there are some"));
            }
            let answered = self.input.wrapping_sub(1);
            self.areas.push(Area { rect: *bounds, changed: now, answered, answers: 0, unasked: 0 });
            self.areas.len() - 1
        });
        let area = &mut self.areas[at];
        if now > area.changed + REST_TIME {
            area.unasked = 0;
        }
        // Where it changes now: a line of text is an area that goes along.
        area.rect = *bounds;
        area.changed = now;
        if area.answered != self.input {
            area.answered = self.input;
            area.answers = 0;
        }
        let asked = hot && area.answers < ANSWERS_MAX;
        if asked {
            area.answers += 1;
        } else {
            area.unasked = area.unasked.saturating_add(1);
        }
        asked && area.unasked < UNASKED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 7;
    const LETTER: Rect = Rect::at(200, 300, 8, 16);
    const ANIMATION: Rect = Rect::at(600, 20, 64, 64);

    #[test]
    fn what_a_key_changes_is_its_answer_wherever_the_line_goes() {
        let mut hand = Hand::default();
        let mut now = 0;
        assert!(!hand.is_answered_by(WINDOW, &LETTER, now), "nobody asked");
        for key in 0..40 {
            now += 50_000;
            hand.delivered(WINDOW, now);
            let letter = LETTER.translate(key * 8, 0);
            for part in [letter, letter.translate(8, 0)] {
                assert!(hand.is_answered_by(WINDOW, &part, now + 2_000), "key {key}");
            }
            assert!(!hand.is_answered_by(WINDOW + 1, &letter, now), "another window");
        }
        assert!(!hand.is_answered_by(WINDOW, &LETTER, now + HOT_TIME), "long after");
        hand.check_invariants();
    }

    /// Frames of an animation that ride, and letters that do, with a key this often.
    fn typed_beside_an_animation(key_ms: u64, plays_before_ms: u64) -> (u32, u32) {
        let mut hand = Hand::default();
        hand.delivered(WINDOW, 0);
        let start = 10_000_000;
        let (mut frames, mut letters) = (0, 0);
        for ms in 0..3_000u64 {
            let now = start + ms * 1_000;
            if ms >= plays_before_ms && (ms - plays_before_ms).is_multiple_of(key_ms) {
                hand.delivered(WINDOW, now);
                letters += u32::from(hand.is_answered_by(WINDOW, &LETTER, now + 500));
            }
            if ms.is_multiple_of(33) {
                frames += u32::from(hand.is_answered_by(WINDOW, &ANIMATION, now));
            }
        }
        (frames, letters)
    }

    #[test]
    fn an_animation_in_the_window_typed_into_is_nobody_s_answer() {
        assert_eq!(typed_beside_an_animation(50, 1_000), (0, 40), "it played before");
        let (frames, letters) = typed_beside_an_animation(200, 0);
        assert_eq!(letters, 15);
        assert!(frames < 10, "{frames} frames of 91 rode in the lane before it was seen that nobody asks for them");
    }

    #[test]
    fn a_cursor_that_blinks_in_vain_is_answered_when_it_is_asked() {
        let mut hand = Hand::default();
        hand.delivered(WINDOW, 0);
        for blink in 0..100 {
            hand.is_answered_by(WINDOW, &LETTER, 1_000_000 + blink * 500_000);
        }
        hand.delivered(WINDOW, 60_000_000);
        assert!(hand.is_answered_by(WINDOW, &LETTER, 60_001_000));
    }

    #[test]
    fn what_lies_at_the_pointer_is_answered() {
        let mut hand = Hand::default();
        hand.point(100, 100);
        assert!(hand.is_answered_by(WINDOW, &Rect::at(120, 110, 60, 20), 5));
        assert!(!hand.is_answered_by(WINDOW, &Rect::at(140, 110, 60, 20), 5));
    }
}
