//! Path back, beside pointer.rs: from SDL's relative mouse mode, to distances on the screen.
//! The captured pointer: while an application wants to know how far the user moves the pointer, a
//! click lets it have the pointer, which then does not move on the local desktop. Knows SDL's mouse
//! and the window; pointer.rs has buttons and positions.

use thinc_protocol::viewer::InputEvent;

use super::App;
use super::panes::Windows;
use super::pointing::Pointing;
use crate::place::Placement;

/// The notice when an application begins to want the pointer.
const OFFER: &str =
    "An application wants to capture the pointer: click to let it. Ctrl+Alt+P: release it again";
const CAPTURED: &str = "The pointer is captured. Ctrl+Alt+P: release it";
const UNWANTED: &str = "No application wants to capture the pointer";

/// Whether the pointer is captured, and how far it was moved.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// An application wants it.
    wanted: bool,
    /// The window that has it.
    window: Option<usize>,
    /// Moved and not sent yet, in the screen's pixels; after sending, the fractions.
    moved: (f64, f64),
    /// Where the session's pointer is, if an application has moved it meanwhile.
    place: Option<(u16, u16)>,
    /// The application gave it back, and not the user: it gets it again.
    lent: bool,
    /// The user was told how to release it from a drag.
    told: bool,
    /// The window that gets it, with or without a notice, once it has the keyboard.
    awaits: Option<(usize, bool)>,
}

impl Capture {
    pub(super) fn is_on(&self) -> bool {
        self.window.is_some()
    }

    /// The mouse moved by this distance in the window's coordinates.
    fn add(&mut self, placement: &Placement, density: f32, (dx, dy): (f32, f32)) {
        let axis = |moved: &mut f64, by: f32, part: i32, shown: i32| {
            let by = f64::from(by) * f64::from(density);
            if by.is_finite() && shown > 0 {
                *moved += by * f64::from(part) / f64::from(shown);
            }
        };
        axis(&mut self.moved.0, dx, placement.part.width(), placement.shown.width());
        axis(&mut self.moved.1, dy, placement.part.height(), placement.shown.height());
    }

    /// Takes the whole pixels; None if there are none. What has no place in one event follows in
    /// the next.
    pub(super) fn take(&mut self) -> Option<InputEvent> {
        let axis = |moved: &mut f64| {
            let whole = moved.trunc().clamp(f64::from(i16::MIN), f64::from(i16::MAX));
            *moved -= whole;
            whole as i16
        };
        let (dx, dy) = (axis(&mut self.moved.0), axis(&mut self.moved.1));
        (dx != 0 || dy != 0).then_some(InputEvent::MotionBy { dx, dy })
    }
}

/// What the user has to know of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A notice is shown.
    Notice(&'static str),
    /// [`CAPTURED`] is not true any more.
    Released,
}

impl Pointing {
    /// An application wants the pointer, or no longer does. In the middle of a drag it gets it at
    /// once: that is why it wants it. So does a game whose menu was closed.
    pub(super) fn handle_relative_wanted(
        &mut self,
        windows: &Windows,
        wanted: bool,
    ) -> Option<Told> {
        self.capture.wanted = wanted;
        if !wanted {
            let captured = self.capture.is_on();
            let place = self.capture.place;
            let told = self.release(windows);
            self.capture.lent = captured;
            if let Some((x, y)) = place {
                self.warp(windows, x, y);
            }
            told
        } else if self.capture.lent || self.pointer.holds_button() {
            let told = std::mem::replace(&mut self.capture.told, true);
            self.capture(windows, windows.front_index(), !told)
        } else {
            Some(Told::Notice(OFFER))
        }
    }

    /// The user asks for the pointer to be captured, or released.
    pub(super) fn toggle_capture(&mut self, windows: &Windows) -> Option<Told> {
        if self.capture.is_on() {
            self.release(windows)
        } else if self.capture.wanted {
            self.capture(windows, windows.front_index(), true)
        } else {
            Some(Told::Notice(UNWANTED))
        }
    }

    /// The user clicked into this window.
    pub(super) fn handle_click(&mut self, windows: &Windows, window_id: u32) -> Option<Told> {
        if !self.capture.wanted || self.capture.is_on() {
            return None;
        }
        let index = windows.pane_of(window_id)?;
        self.capture(windows, index, true)
    }

    fn capture(&mut self, windows: &Windows, index: usize, tell: bool) -> Option<Told> {
        let window = windows[index].window();
        if !window.has_input_focus() {
            // SDL waits for the keyboard too, but tells neither distances nor positions meanwhile.
            // On X11 it believes a focus after 200 ms, later than the click that has given it.
            self.capture.awaits = Some((index, tell));
            return None;
        }
        self.mouse.set_relative_mouse_mode(window, true);
        if !self.mouse.relative_mouse_mode(window) {
            // Not every desktop allows it; positions remain.
            return None;
        }
        self.capture.window = Some(index);
        self.capture.moved = (0.0, 0.0);
        self.capture.place = None;
        tell.then_some(Told::Notice(CAPTURED))
    }

    /// This window has the keyboard now.
    pub(super) fn handle_focus(&mut self, windows: &Windows, index: usize) -> Option<Told> {
        let (_, tell) = self.capture.awaits.take_if(|(window, _)| *window == index)?;
        self.capture(windows, index, tell)
    }

    /// The pointer is the local desktop's again.
    pub(super) fn release(&mut self, windows: &Windows) -> Option<Told> {
        (self.capture.lent, self.capture.place) = (false, None);
        self.capture.awaits = None;
        let index = self.capture.window.take()?;
        self.mouse.set_relative_mouse_mode(windows[index].window(), false);
        // Where the session's pointer is now, only the session knows.
        self.pointer.forget_position();
        Some(Told::Released)
    }

    /// An application moved the session's pointer. A captured one follows once it is given back.
    pub(super) fn handle_cursor_move(&mut self, windows: &Windows, x: u16, y: u16) {
        if self.capture.is_on() {
            self.capture.place = Some((x, y));
        } else {
            self.warp(windows, x, y);
        }
    }

    /// The captured mouse moved.
    pub(super) fn handle_captured_motion(&mut self, windows: &Windows, by: (f32, f32)) {
        let Some(index) = self.capture.window else { return };
        let pane = &windows[index];
        self.capture.add(&pane.placement, pane.window().pixel_density(), by);
    }
}

impl App<'_> {
    /// The pointer is the local desktop's again.
    pub(super) fn release_pointer(&mut self) {
        let told = self.pointing.release(&self.windows);
        self.tell_of_capture(told);
    }

    /// Tells the user of a change.
    pub(super) fn tell_of_capture(&mut self, told: Option<Told>) {
        match told {
            None => {}
            Some(Told::Notice(words)) => self.show_notice(words.to_owned()),
            Some(Told::Released) => {
                self.drawing.redraw_if(self.messages.withdraw_notice(CAPTURED));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_region::Size;

    fn moved(capture: &mut Capture) -> (i32, i32) {
        match capture.take() {
            Some(InputEvent::MotionBy { dx, dy }) => (dx.into(), dy.into()),
            _ => (0, 0),
        }
    }

    #[test]
    fn a_view_of_the_screens_size_moves_pixel_by_pixel_and_a_smaller_one_further() {
        let size = |width, height| Size { width, height };
        let mut capture = Capture::default();
        let same = Placement::new(size(800, 600), size(800, 600));
        capture.add(&same, 1.0, (10.0, -3.0));
        assert_eq!(moved(&mut capture), (10, -3));
        assert_eq!(capture.take(), None);
        let third = Placement::new(size(900, 600), size(300, 200));
        capture.add(&third, 1.0, (10.0, -3.0));
        assert_eq!(moved(&mut capture), (30, -9));
        // Twice as many pixels as units of the window.
        capture.add(&same, 2.0, (10.0, 0.5));
        assert_eq!(moved(&mut capture), (20, 1));
    }

    #[test]
    fn fractions_and_what_is_too_far_for_one_event_are_kept() {
        let size = |width, height| Size { width, height };
        let mut capture = Capture::default();
        let magnified = Placement::zoomed(
            size(100, 100),
            size(100, 100).rect(),
            size(100, 100).rect(),
            size(300, 300),
        );
        let mut sum = (0, 0);
        for _ in 0..1_000 {
            capture.add(&magnified, 1.0, (1.0, -1.0));
            let (dx, dy) = moved(&mut capture);
            sum = (sum.0 + dx, sum.1 + dy);
        }
        assert!((332..=334).contains(&sum.0) && sum.1 == -sum.0, "{sum:?}");
        let mut capture = Capture::default();
        let same = Placement::new(size(800, 600), size(800, 600));
        capture.add(&same, 1.0, (70_000.0, 0.0));
        assert_eq!(moved(&mut capture), (32_767, 0));
        assert_eq!(moved(&mut capture), (32_767, 0));
        assert_eq!(moved(&mut capture), (4_466, 0));
        capture.add(&same, 1.0, (f32::NAN, f32::INFINITY));
        assert_eq!(capture.take(), None);
        let nothing = Placement::new(size(0, 0), size(800, 600));
        capture.add(&nothing, 1.0, (5.0, 5.0));
        assert_eq!(capture.take(), None);
    }
}
