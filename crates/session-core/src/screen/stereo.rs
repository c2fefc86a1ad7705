//! Path 4/13: under session/screen.rs, from stereo frames and what is drawn over them, to video.rs.
//! Where the right eye sees another picture than the framebuffer's. The framebuffer has the left
//! eye's: once something else is drawn there, both eyes see that. Knows rectangles, ports and
//! times; never pixels, nor which viewer wants them.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region};
use thinc_ring::DrawHint;

use crate::queue::copies::{CopyCommand, Proof};
use crate::video::{INTERVAL_INITIAL, next_interval};

/// Most rectangles of what is visible of a picture: it has less, and the left eye's is seen there
/// by both.
const VISIBLE_RECTS_MAX: usize = 64;

/// What a record says of the right eye's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StereoFrame {
    port: u16,
    op: u64,
    /// The top-level window that it was drawn in, 0 if unknown.
    window: u32,
    place: Rect,
}

impl StereoFrame {
    /// None if the drawing is no stereo frame.
    pub(crate) fn of(what: DrawHint, op: u64, window: u32) -> Option<StereoFrame> {
        let DrawHint::Stereo { port, place, .. } = what else { return None };
        Some(StereoFrame { port, op, window, place })
    }
}

/// A picture for the right eye.
#[derive(Clone, Debug)]
pub(crate) struct RightEye {
    /// The port of XVideo that has it.
    pub(crate) port: u16,
    /// The op that drew it.
    pub(crate) op: u64,
    /// The top-level window that it is in, 0 if unknown.
    window: u32,
    /// Where all of it would be visible on the screen, and where it is.
    pub(crate) place: Rect,
    pub(crate) visible: Region,
    /// Grows with every change of these.
    pub(crate) revision: u64,
    /// When the newest frame was drawn, and when one of these changed.
    pub(crate) drawn_at: Micros,
    pub(crate) changed_at: Micros,
    /// Average time between its frames.
    pub(crate) interval: f64,
}

impl RightEye {
    fn changed(&mut self, now: Micros) {
        self.revision += 1;
        self.changed_at = now;
        if self.visible.rect_count() > VISIBLE_RECTS_MAX {
            // Each row of rectangles is exact, or missing.
            let rects = self.visible.rects()[..VISIBLE_RECTS_MAX].to_vec();
            self.visible = rects.into_iter().collect();
        }
    }

    fn cut(&mut self, drawn: &Region, now: Micros) {
        if self.visible.overlaps(drawn) {
            self.visible.subtract(drawn);
            self.changed(now);
        }
    }
}

/// All of them, at most one for each port.
#[derive(Debug, Default)]
pub(crate) struct RightEyes {
    eyes: Vec<RightEye>,
    /// What has arrived of the records of one frame.
    arriving: Region,
    revision: u64,
}

impl RightEyes {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RightEye> {
        self.eyes.iter()
    }

    /// Takes a record of a stereo frame that is visible in `rect`, once that was drawn; `more` of
    /// it follow.
    pub(crate) fn frame(&mut self, frame: &StereoFrame, rect: &Rect, more: bool, now: Micros) {
        self.arriving.add_rect(*rect);
        if more {
            return;
        }
        let visible = self.arriving.take();
        self.revision += 1;
        let &StereoFrame { port, op, window, place } = frame;
        let known = self.eyes.iter_mut().find(|eye| eye.port == port);
        let mut eye = RightEye {
            port,
            op,
            window,
            place,
            visible,
            revision: self.revision << 32,
            drawn_at: now,
            changed_at: now,
            interval: known.as_ref().map_or(INTERVAL_INITIAL, |known| {
                next_interval(known.interval, now.saturating_sub(known.drawn_at))
            }),
        };
        eye.changed(now);
        match known {
            Some(known) => *known = eye,
            None => self.eyes.push(eye),
        }
    }

    /// Something was drawn here on the screen.
    #[inline]
    pub(crate) fn drawn(&mut self, rect: &Rect, now: Micros) {
        for eye in &mut self.eyes {
            if eye.visible.overlaps_rect(rect) {
                eye.cut(&Region::from(*rect), now);
            }
        }
    }

    /// The same in a region.
    pub(crate) fn drawn_in(&mut self, region: &Region, now: Micros) {
        self.eyes.iter_mut().for_each(|eye| eye.cut(region, now));
    }

    /// Records are missing; `dirty` changed meanwhile.
    pub(crate) fn overflow(&mut self, dirty: &Region, now: Micros) {
        self.arriving.clear();
        self.drawn_in(dirty, now);
    }

    /// Pixels were copied on the screen, into this top-level window. A window that is moved takes
    /// its picture along. Copies elsewhere, as magnifiers and previews make them, are of the left
    /// eye's picture, and leave the right one where it is.
    pub(crate) fn copied(&mut self, copy: &CopyCommand, window: u32, proof: Proof, now: Micros) {
        if self.eyes.is_empty() {
            return;
        }
        let source = copy.source();
        for eye in &mut self.eyes {
            // X records moves of windows; what is found by the drawable maps is drawn by programs.
            let is_own = proof == Proof::Recorded && eye.window == window && window != 0;
            let is_moved =
                is_own && !eye.visible.is_empty() && eye.visible.difference(&source).is_empty();
            if !is_moved {
                eye.cut(&copy.region, now);
                continue;
            }
            eye.place = eye.place.translate(copy.dx, copy.dy);
            eye.visible.translate(copy.dx, copy.dy);
            eye.visible.intersect(&copy.region);
            eye.changed(now);
        }
    }

    /// The port shows nothing any more.
    pub(crate) fn stopped(&mut self, port: u16) {
        self.eyes.retain(|eye| eye.port != port);
    }

    /// A new screen.
    pub(crate) fn clear(&mut self) {
        self.eyes.clear();
        self.arriving.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Rect = Rect::new(100, 100, 300, 200);
    const WINDOW: u32 = 7;

    fn eyes() -> RightEyes {
        let mut eyes = RightEyes::default();
        eyes.frame(&StereoFrame { port: 3, op: 7, window: WINDOW, place: PLACE }, &PLACE, false, 5);
        eyes
    }

    fn only(eyes: &RightEyes) -> &RightEye {
        let mut all = eyes.iter();
        let eye = all.next().expect("there is one");
        assert!(all.next().is_none());
        eye
    }

    #[test]
    fn what_is_drawn_over_it_hides_it_until_the_next_frame() {
        let mut eyes = eyes();
        let first = only(&eyes).revision;
        eyes.drawn(&Rect::new(0, 0, 100, 100), 6);
        assert_eq!(only(&eyes).revision, first, "it only touches it");
        eyes.drawn(&Rect::new(250, 150, 500, 500), 7);
        let mut left = Region::from(PLACE);
        left.subtract_rect(&Rect::new(250, 150, 500, 500));
        let eye = only(&eyes);
        assert_eq!((&eye.visible, eye.drawn_at, eye.changed_at), (&left, 5, 7));
        assert!(eye.revision > first);
        let again = eye.revision;
        let frame = StereoFrame { port: 3, op: 9, window: WINDOW, place: PLACE };
        let (one, two) = (Rect::new(100, 100, 300, 150), Rect::new(100, 150, 250, 200));
        eyes.frame(&frame, &one, true, 8);
        assert_eq!(only(&eyes).op, 7, "the rest of its records is still to come");
        eyes.frame(&frame, &two, false, 8);
        let eye = only(&eyes);
        assert_eq!((eye.op, eye.visible.area()), (9, one.area() + two.area()));
        assert!(eye.revision > again);
    }

    #[test]
    fn a_window_that_is_moved_takes_it_along_and_a_scroll_over_it_does_not() {
        let mut eyes = eyes();
        let window = Region::from(Rect::new(90, 90, 310, 210));
        let copy = CopyCommand { region: window.translated(40, -20), dx: 40, dy: -20 };
        eyes.copied(&copy, WINDOW, Proof::Recorded, 6);
        let moved = PLACE.translate(40, -20);
        assert_eq!((only(&eyes).place, &only(&eyes).visible), (moved, &Region::from(moved)));
        let part = Region::from(Rect::new(100, 100, 200, 150));
        let scroll = CopyCommand { region: part.clone(), dx: 0, dy: -10 };
        eyes.copied(&scroll, WINDOW, Proof::Recorded, 7);
        let eye = only(&eyes);
        assert_eq!(eye.place, moved);
        assert_eq!(eye.visible, Region::from(moved).difference(&part));
    }

    #[test]
    fn a_copy_of_it_in_another_window_is_the_left_eyes_and_leaves_it() {
        let window = Region::from(Rect::new(90, 90, 310, 210));
        let beside = CopyCommand { region: window.translated(300, 0), dx: 300, dy: 0 };
        let across = CopyCommand { region: window.translated(150, 0), dx: 150, dy: 0 };
        let left = Region::from(PLACE).difference(&across.region);
        for (window, proof) in [(8, Proof::Recorded), (0, Proof::Recorded), (7, Proof::Derived)] {
            let mut eyes = eyes();
            let first = only(&eyes).revision;
            eyes.copied(&beside, window, proof, 6);
            let eye = only(&eyes);
            assert_eq!((eye.place, &eye.visible), (PLACE, &Region::from(PLACE)));
            assert_eq!(eye.revision, first);
            eyes.copied(&across, window, proof, 7);
            let eye = only(&eyes);
            assert_eq!((eye.place, &eye.visible), (PLACE, &left), "the copy covers it");
        }
        // Two unknown windows need not be one.
        let mut eyes = RightEyes::default();
        eyes.frame(&StereoFrame { port: 3, op: 7, window: 0, place: PLACE }, &PLACE, false, 5);
        eyes.copied(&beside, 0, Proof::Recorded, 6);
        assert_eq!(only(&eyes).place, PLACE);
    }

    #[test]
    fn it_ends_with_its_port_and_with_the_screen() {
        let mut eyes = eyes();
        eyes.stopped(2);
        assert!(eyes.iter().next().is_some());
        eyes.stopped(3);
        assert!(eyes.iter().next().is_none());
        let mut eyes = self::eyes();
        eyes.clear();
        assert!(eyes.iter().next().is_none());
    }

    #[test]
    fn what_is_visible_has_a_bound() {
        let mut eyes = eyes();
        for at in 0..100 {
            eyes.drawn(&Rect::at(100 + at * 2, 100 + at, 1, 1), 6);
        }
        let eye = only(&eyes);
        assert!(eye.visible.rect_count() <= VISIBLE_RECTS_MAX);
        assert!(Region::from(PLACE).difference(&eye.visible).area() >= 100, "nothing is added");
    }
}
