//! Path back: from keys and the window's size, to the view requested from the session and the
//! framebuffer's place meanwhile.
//! Which part of the session's screen the window shows, and how large: fitted to it, or zoomed and
//! panned. Knows sizes and places; never SDL, pixels or the connection.
//!
//! The session scales down, so that a small view costs few bytes; the viewer scales up, since more
//! pixels from the session would add no information.

use thinc_protocol::viewer::View;
use thinc_region::{Rect, Size};

use crate::view::ViewChoice;

/// Zoom levels in percent of the initial size.
const STEPS: [u32; 9] = [100, 125, 150, 200, 300, 400, 600, 800, 1200];

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    In,
    Out,
    Reset,
}

/// The zoom of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zoom {
    choice: Option<ViewChoice>,
    /// Index in `STEPS`.
    level: usize,
    /// The screen's point in the centre of the window; not rounded, so that it does not drift from
    /// step to step.
    centre: (f64, f64),
}

/// What the window is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The visible part of the screen.
    pub(super) part: Rect,
    /// The view requested from the session.
    pub(super) view: View,
}

impl Zoom {
    pub(super) fn new(choice: Option<ViewChoice>) -> Zoom {
        Zoom { choice, level: 0, centre: (0.0, 0.0) }
    }

    /// True if only a part of the screen is shown, so that it can be panned.
    pub(super) fn is_in(&self) -> bool {
        self.level > 0
    }

    /// True if the session keeps its size, whatever the window's.
    pub(super) fn keeps_screen(&self) -> bool {
        self.choice.is_some()
    }

    /// What to show; None for the whole screen at its own size, and for a view chosen on the
    /// command line.
    pub(super) fn shown(&self, screen: Size, window: Size) -> Option<Shown> {
        let fits = self.choice == Some(ViewChoice::Fit);
        if !(fits || self.is_in()) || screen.area() == 0 || window.area() == 0 {
            return None;
        }
        let scale = self.scale(screen, window);
        let edge = |of: u32, visible: u32| {
            ((f64::from(visible) / scale).ceil() as u32).clamp(1, of) as i32
        };
        let (width, height) =
            (edge(screen.width, window.width), edge(screen.height, window.height));
        let place = |centre: f64, part: i32, of: u32| {
            ((centre - f64::from(part) / 2.0).round() as i32).clamp(0, of as i32 - part)
        };
        let (x, y) = (
            place(self.centre.0, width, screen.width),
            place(self.centre.1, height, screen.height),
        );
        let small = |edge: i32| ((f64::from(edge) * scale.min(1.0)).round() as u32).max(1);
        let part = Rect::at(x, y, width, height);
        Some(Shown {
            part,
            view: View { size: Size { width: small(width), height: small(height) }, part },
        })
    }

    /// Pixels of the window per pixel of the screen.
    fn scale(&self, screen: Size, window: Size) -> f64 {
        let ratio = |visible: u32, of: u32| f64::from(visible) / f64::from(of);
        let whole = ratio(window.width, screen.width).min(ratio(window.height, screen.height));
        let first = if self.choice == Some(ViewChoice::Fit) { whole } else { whole.min(1.0) };
        first * f64::from(STEPS[self.level]) / 100.0
    }

    /// Zooms so that the point `at` of the screen keeps its position. False if the zoom is at its
    /// limit.
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

    /// Pans by quarters of the visible part.
    pub(super) fn pan(&mut self, (x, y): (i32, i32), visible: Rect) {
        self.set_centre(visible);
        self.centre.0 += f64::from(x * visible.width()) / 4.0;
        self.centre.1 += f64::from(y * visible.height()) / 4.0;
    }

    /// Centres the view on this visible part.
    pub(super) fn set_centre(&mut self, visible: Rect) {
        self.centre =
            (f64::from(visible.x1 + visible.x2) / 2.0, f64::from(visible.y1 + visible.y2) / 2.0);
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
    fn the_whole_screen_at_its_own_size_needs_no_view() {
        assert_eq!(Zoom::new(None).shown(SCREEN, SCREEN), None);
        assert_eq!(
            Zoom::new(None).shown(SCREEN, size(320, 240)),
            None,
            "the session follows the window"
        );
        assert_eq!(Zoom::new(Some(ViewChoice::Fit)).shown(SCREEN, size(0, 0)), None);
    }

    #[test]
    fn a_fitted_view_is_scaled_down_by_the_session() {
        let fit = Zoom::new(Some(ViewChoice::Fit));
        let shown = fit.shown(SCREEN, size(320, 300)).expect("it is scaled");
        assert_eq!(
            shown,
            Shown { part: SCREEN.rect(), view: View { size: size(320, 240), part: SCREEN.rect() } }
        );
        let large = fit.shown(SCREEN, size(2048, 1536)).expect("it is scaled");
        assert_eq!(large.view.size, SCREEN, "the viewer scales it up");
    }

    #[test]
    fn a_zoomed_part_stays_inside_the_screen() {
        let mut zoom = Zoom::new(None);
        zoom.set_centre(SCREEN.rect());
        for _ in 0..3 {
            assert!(zoom.step(Step::In, (0, 0)));
        }
        let shown = zoom.shown(SCREEN, SCREEN).expect("it is zoomed");
        assert_eq!(shown.part, Rect::at(0, 0, 512, 384), "at 200 %, the corner stays");
        assert_eq!(shown.view.size, size(512, 384));
        zoom.pan((1, 0), shown.part);
        assert_eq!(
            zoom.shown(SCREEN, SCREEN).map(|shown| shown.part),
            Some(Rect::at(128, 0, 512, 384))
        );
        for _ in 0..20 {
            zoom.pan((1, 1), zoom.shown(SCREEN, SCREEN).expect("it is zoomed").part);
        }
        assert_eq!(
            zoom.shown(SCREEN, SCREEN).map(|shown| shown.part),
            Some(Rect::at(512, 384, 512, 384))
        );
        assert!(zoom.step(Step::Reset, (0, 0)) && !zoom.step(Step::Out, (0, 0)));
    }

    #[test]
    fn at_every_zoom_level_a_click_maps_to_the_pixel_under_it() {
        for choice in [None, Some(ViewChoice::Fit)] {
            for window in [size(1024, 768), size(1280, 800), size(2500, 1000)] {
                let mut zoom = Zoom::new(choice);
                zoom.set_centre(SCREEN.rect());
                while zoom.step(Step::In, (300, 500)) {
                    let shown = zoom.shown(SCREEN, window).expect("it is zoomed");
                    let placed = Placement::zoomed(shown.view.size, shown.part, shown.part, window);
                    for (x, y) in
                        (shown.part.x1..shown.part.x2).zip((shown.part.y1..shown.part.y2).cycle())
                    {
                        let at = (x as u16, y as u16);
                        let (wx, wy) = placed.to_window(at.0, at.1);
                        assert_eq!(placed.to_screen(wx, wy), Some(at), "{shown:?} in {window:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn present_pixels_are_scaled_up_in_place_until_the_session_answers() {
        let window = SCREEN;
        let (before, wanted) = (SCREEN.rect(), Rect::at(256, 192, 512, 384));
        let meanwhile = Placement::zoomed(SCREEN, before, wanted, window);
        let then = Placement::zoomed(size(512, 384), wanted, wanted, window);
        for (x, y) in [(256u16, 192u16), (500, 300), (767, 575)] {
            assert_eq!(meanwhile.to_window(x, y), then.to_window(x, y));
        }
        assert!(
            meanwhile.shown.contains(&window.rect()),
            "the whole window shows pixels: {meanwhile:?}"
        );
    }
}
