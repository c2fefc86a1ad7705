//! Path back: what of the session's screen the window is to show, and how large: fitted to it, or zoomed, and panned about.
//! From keys and the window's size, to the view that the session is asked for and the place of the picture meanwhile.
//! Knows sizes and places; never SDL, pixels or the connection.
//!
//! The session scales down, so that what is small takes few bytes; what is larger than its own pixels is enlarged here, for larger pixels of
//! the session would say nothing more and take more bytes.

use thinc_protocol::viewer::View;
use thinc_region::{Rect, Size};

use crate::view::ViewChoice;

/// How many times larger than at first things are shown, in percent.
const STEPS: [u32; 9] = [100, 125, 150, 200, 300, 400, 600, 800, 1200];

/// What a key does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    In,
    Out,
    Reset,
}

/// What of the screen is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zoom {
    choice: Option<ViewChoice>,
    /// Index in `STEPS`.
    level: usize,
    /// The screen's point in the middle of the window; no whole pixel, so that it does not wander from step to step.
    centre: (f64, f64),
}

/// What is to be seen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// This part of the screen.
    pub(super) part: Rect,
    /// Asked of the session.
    pub(super) view: View,
}

impl Zoom {
    pub(super) fn new(choice: Option<ViewChoice>) -> Zoom {
        Zoom { choice, level: 0, centre: (0.0, 0.0) }
    }

    /// Only a part of the screen is shown: it can be panned.
    pub(super) fn is_in(&self) -> bool {
        self.level > 0
    }

    /// The session keeps its size, whatever the window's.
    pub(super) fn keeps_screen(&self) -> bool {
        self.choice.is_some()
    }

    /// What is to be seen; None where it is all of the screen at its own size, or what the command line chose.
    pub(super) fn look(&self, screen: Size, window: Size) -> Option<Look> {
        let fits = self.choice == Some(ViewChoice::Fit);
        if !(fits || self.is_in()) || screen.area() == 0 || window.area() == 0 {
            return None;
        }
        let scale = self.scale(screen, window);
        let edge = |of: u32, seen: u32| ((f64::from(seen) / scale).ceil() as u32).clamp(1, of) as i32;
        let (width, height) = (edge(screen.width, window.width), edge(screen.height, window.height));
        let place = |centre: f64, part: i32, of: u32| {
            ((centre - f64::from(part) / 2.0).round() as i32).clamp(0, of as i32 - part)
        };
        let (x, y) = (place(self.centre.0, width, screen.width), place(self.centre.1, height, screen.height));
        let small = |edge: i32| ((f64::from(edge) * scale.min(1.0)).round() as u32).max(1);
        let part = Rect::at(x, y, width, height);
        Some(Look { part, view: View { size: Size { width: small(width), height: small(height) }, part } })
    }

    /// Pixels of the window for one of the screen.
    fn scale(&self, screen: Size, window: Size) -> f64 {
        let ratio = |seen: u32, of: u32| f64::from(seen) / f64::from(of);
        let whole = ratio(window.width, screen.width).min(ratio(window.height, screen.height));
        let first = if self.choice == Some(ViewChoice::Fit) { whole } else { whole.min(1.0) };
        first * f64::from(STEPS[self.level]) / 100.0
    }

    /// Zooms, so that what lies `at` this point of the screen stays where it is. False: there is nothing more to zoom.
    pub(super) fn step(&mut self, step: Step, at: (i32, i32)) -> bool {
        if matches!(self.choice, Some(ViewChoice::Fixed(_))) {
            return false;
        }
        let level = match step {
            Step::In => (self.level + 1).min(STEPS.len() - 1),
            Step::Out => self.level.saturating_sub(1),
            Step::Reset => 0,
        };
        let by = f64::from(STEPS[self.level]) / f64::from(STEPS[level]);
        let moved = |centre: f64, at: i32| f64::from(at) + (centre - f64::from(at)) * by;
        self.centre = (moved(self.centre.0, at.0), moved(self.centre.1, at.1));
        std::mem::replace(&mut self.level, level) != level
    }

    /// Moves what is seen by quarters of it.
    pub(super) fn pan(&mut self, (x, y): (i32, i32), seen: Rect) {
        self.set_centre(seen);
        self.centre.0 += f64::from(x * seen.width()) / 4.0;
        self.centre.1 += f64::from(y * seen.height()) / 4.0;
    }

    /// This is in the middle, as long as all is seen.
    pub(super) fn set_centre(&mut self, seen: Rect) {
        self.centre = (f64::from(seen.x1 + seen.x2) / 2.0, f64::from(seen.y1 + seen.y2) / 2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Placement;

    const SCREEN: Size = Size { width: 1024, height: 768 };

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn all_at_its_own_size_is_no_view() {
        assert_eq!(Zoom::new(None).look(SCREEN, SCREEN), None);
        assert_eq!(Zoom::new(None).look(SCREEN, size(320, 240)), None, "the session follows the window");
        assert_eq!(Zoom::new(Some(ViewChoice::Fit)).look(SCREEN, size(0, 0)), None);
    }

    #[test]
    fn what_fits_is_all_of_it_made_small_by_the_session() {
        let fit = Zoom::new(Some(ViewChoice::Fit));
        let look = fit.look(SCREEN, size(320, 300)).expect("it is scaled");
        assert_eq!(look, Look { part: SCREEN.rect(), view: View { size: size(320, 240), part: SCREEN.rect() } });
        let large = fit.look(SCREEN, size(2048, 1536)).expect("it is scaled");
        assert_eq!(large.view.size, SCREEN, "larger than its pixels it is made here");
    }

    #[test]
    fn zoomed_in_a_part_is_as_large_as_it_is_and_stays_on_the_screen() {
        let mut zoom = Zoom::new(None);
        zoom.set_centre(SCREEN.rect());
        for _ in 0..3 {
            assert!(zoom.step(Step::In, (0, 0)));
        }
        let look = zoom.look(SCREEN, SCREEN).expect("it is zoomed");
        assert_eq!(look.part, Rect::at(0, 0, 512, 384), "at 200 %, the corner stays");
        assert_eq!(look.view.size, size(512, 384));
        zoom.pan((1, 0), look.part);
        assert_eq!(zoom.look(SCREEN, SCREEN).map(|look| look.part), Some(Rect::at(128, 0, 512, 384)));
        for _ in 0..20 {
            zoom.pan((1, 1), zoom.look(SCREEN, SCREEN).expect("it is zoomed").part);
        }
        assert_eq!(zoom.look(SCREEN, SCREEN).map(|look| look.part), Some(Rect::at(512, 384, 512, 384)));
        assert!(zoom.step(Step::Reset, (0, 0)) && !zoom.step(Step::Out, (0, 0)));
    }

    #[test]
    fn at_every_zoom_a_click_on_a_pixel_of_the_session_arrives_at_that_pixel() {
        for choice in [None, Some(ViewChoice::Fit)] {
            for window in [size(1024, 768), size(1280, 800), size(2500, 1000)] {
                let mut zoom = Zoom::new(choice);
                zoom.set_centre(SCREEN.rect());
                while zoom.step(Step::In, (300, 500)) {
                    let look = zoom.look(SCREEN, window).expect("it is zoomed");
                    let placed = Placement::zoomed(look.view.size, look.part, look.part, window);
                    for (x, y) in (look.part.x1..look.part.x2).zip((look.part.y1..look.part.y2).cycle()) {
                        let at = (x as u16, y as u16);
                        let (wx, wy) = placed.to_window(at.0, at.1);
                        assert_eq!(placed.to_screen(wx, wy), Some(at), "{look:?} in {window:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_shown_already_is_shown_larger_at_once_in_its_place() {
        let window = SCREEN;
        let (before, wanted) = (SCREEN.rect(), Rect::at(256, 192, 512, 384));
        let meanwhile = Placement::zoomed(SCREEN, before, wanted, window);
        let then = Placement::zoomed(size(512, 384), wanted, wanted, window);
        for (x, y) in [(256u16, 192u16), (500, 300), (767, 575)] {
            assert_eq!(meanwhile.to_window(x, y), then.to_window(x, y));
        }
        assert!(meanwhile.shown.contains(&window.rect()), "all of the window shows something: {meanwhile:?}");
    }
}
