//! Path back: from SDL's pen events, to samples in screen coordinates.
//! SDL tells of position, axes and buttons in events of their own; what the tablet reported at one
//! instant becomes one sample again. SDL also makes mouse events of them: for menus, and for
//! sessions that take no pens. Knows one pen; place.rs maps a window's point to the screen.

use std::collections::VecDeque;

use sdl3::event::Event;
use sdl3::pen::PenAxis;
use thinc_protocol::pen::{PEN_TILT_MAX, PenSample};
use thinc_protocol::viewer::InputEvent;

use super::App;

/// SDL's mouse that is a pen (`SDL_PEN_MOUSEID`).
const PEN_MOUSE: u32 = u32::MAX - 1;
/// On X11 SDL 3.4 reports tilt in fractions of the axis, which the drivers wacom and libinput let
/// end at these degrees; elsewhere in degrees.
const X11_TILT_DEGREES: (f32, f32) = (64.0, 63.0);

/// A button of a pen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PenButton {
    /// Whether it is the tip of an eraser.
    Tip { eraser: bool },
    /// As SDL numbers the barrel's, from 1.
    Barrel(u8),
}

/// The pen, and what it has done and was not sent.
#[derive(Debug)]
pub(super) struct Pen {
    /// What SDL has told so far.
    now: PenSample,
    /// SDL's number of the pen that is an eraser.
    eraser: Option<u32>,
    /// `now` is a sample that does not wait to be sent yet, because more of it may follow.
    is_open: bool,
    /// A button changed in it.
    has_button: bool,
    /// What is pressed belongs to an earlier connection, or to a menu.
    is_stale: bool,
    /// The session has the pen near: the last sample that was taken said so.
    is_sent_near: bool,
    out: VecDeque<PenSample>,
    /// Degrees of a negative and of a positive 1.
    tilt_degrees: (f32, f32),
    /// X11: see [`Pen::handle_motion`].
    lags: bool,
    /// Parts of the window's points in the last position that SDL told.
    fraction: (f32, f32),
}

/// A point of a window, as SDL has it.
type Place = (f32, f32);
/// What is there, in parts of the screen's pixels; None: there is no screen.
type ToScreen<'a> = &'a dyn Fn(Place) -> Option<(u32, u32)>;

impl Pen {
    /// For a video driver of SDL.
    pub(super) fn new(driver: &str) -> Pen {
        Pen {
            now: PenSample::default(),
            eraser: None,
            is_open: false,
            has_button: false,
            is_stale: false,
            is_sent_near: false,
            out: VecDeque::new(),
            tilt_degrees: if driver == "x11" { X11_TILT_DEGREES } else { (1.0, 1.0) },
            lags: driver == "x11",
            fraction: (0.0, 0.0),
        }
    }

    /// The pen is here. On X11 SDL reads events of the pen itself, and X writes them before it has
    /// moved the pointer: their whole points are those of the event before, their fractions and
    /// axes their own. So a sample is complete, and sent, with the next event, unless a button
    /// changes in it.
    pub(super) fn handle_motion(&mut self, which: u32, place: Place, to_screen: ToScreen<'_>) {
        let (x, y) = place;
        if self.lags {
            let before = std::mem::replace(&mut self.fraction, (x - x.floor(), y - y.floor()));
            if self.is_open
                && let Some(at) = to_screen((x.floor() + before.0, y.floor() + before.1))
            {
                (self.now.x, self.now.y) = at;
            }
        }
        self.close();
        self.set_position(which, to_screen(place));
    }

    /// An axis has this value. Pressure is 0 to 1.
    pub(super) fn handle_axis(&mut self, axis: PenAxis, value: f32) {
        let tilt = |(negative, positive): (f32, f32)| {
            let degrees = if value < 0.0 { negative } else { positive };
            let most = f32::from(PEN_TILT_MAX);
            (value * degrees).round().clamp(-most, most) as i8
        };
        match axis {
            PenAxis::Pressure => {
                self.now.pressure = (value.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16;
            }
            PenAxis::XTilt => self.now.tilt_x = tilt(self.tilt_degrees),
            PenAxis::YTilt => self.now.tilt_y = tilt(self.tilt_degrees),
            _ => return,
        }
        self.is_open |= self.now.near;
    }

    /// A button went down or up here.
    pub(super) fn handle_button(
        &mut self,
        which: u32,
        button: PenButton,
        down: bool,
        at: Option<(u32, u32)>,
    ) {
        let bit = match button {
            PenButton::Tip { eraser } => {
                if eraser {
                    self.eraser = Some(which);
                }
                1
            }
            PenButton::Barrel(1) => 2,
            PenButton::Barrel(2) => 4,
            PenButton::Barrel(_) => return,
        };
        if self.has_button {
            self.close();
        }
        self.set_position(which, at);
        self.now.buttons = if down { self.now.buttons | bit } else { self.now.buttons & !bit };
        if self.now.buttons & 1 == 0 {
            self.now.pressure = 0;
        }
        self.has_button = true;
    }

    /// The pen left the tablet, or the window.
    pub(super) fn handle_leave(&mut self) {
        self.close();
        self.now = self.now.leaving();
        self.is_stale = false;
        if self.out.back().map_or(self.is_sent_near, |sample| sample.near) {
            self.out.push_back(self.now);
        }
    }

    /// Takes the next sample to send; call it once SDL has no more events.
    pub(super) fn take(&mut self) -> Option<PenSample> {
        if !self.lags || self.has_button {
            self.close();
        }
        let sample = self.out.pop_front()?;
        self.is_sent_near = sample.near;
        Some(sample)
    }

    /// What is pressed now, or will be by SDL's next event, has another meaning. SDL tells of the
    /// pen's press before it makes one of the mouse: the open sample may hold it already.
    pub(super) fn ignore_press(&mut self) {
        self.out.clear();
        (self.is_open, self.has_button) = (false, false);
        self.is_stale = true;
    }

    /// The pen's samples do not count now. Returns the one to send if the session has it near; what
    /// is pressed is not sent until it is released.
    pub(super) fn withdraw(&mut self) -> Option<PenSample> {
        let is_near = self.is_sent_near;
        let is_stale = self.is_stale;
        self.forget();
        self.is_stale |= is_stale;
        is_near.then(|| self.now.leaving())
    }

    /// The session has the pen no more; what is pressed is not sent until it is released.
    pub(super) fn forget(&mut self) {
        self.is_stale = self.now.buttons != 0;
        (self.is_open, self.has_button, self.is_sent_near) = (false, false, false);
        self.out.clear();
    }

    fn set_position(&mut self, which: u32, at: Option<(u32, u32)>) {
        let Some((x, y)) = at else { return };
        let eraser = self.eraser == Some(which);
        self.now = PenSample { x, y, near: true, eraser, ..self.now };
        self.is_open = true;
    }

    /// The next event belongs to another sample.
    fn close(&mut self) {
        self.has_button = false;
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        self.is_stale &= self.now.buttons != 0;
        if !self.is_stale {
            self.out.push_back(self.now);
        }
    }
}

impl App<'_> {
    /// The pen did something.
    pub(super) fn handle_pen(&mut self, event: &Event) {
        let (windows, pen) = (&self.windows, &mut self.pointing.pen);
        let at = |window, x, y| windows.screen_parts_at(window, x, y);
        let tip = |eraser| PenButton::Tip { eraser };
        match *event {
            Event::PenMotion { which, window, x, y, .. } => {
                pen.handle_motion(which, (x, y), &|(x, y)| at(window, x, y));
            }
            Event::PenAxis { axis, value, .. } => pen.handle_axis(axis, value),
            Event::PenDown { which, window, x, y, eraser, .. } => {
                pen.handle_button(which, tip(eraser), true, at(window, x, y));
            }
            Event::PenUp { which, window, x, y, eraser, .. } => {
                pen.handle_button(which, tip(eraser), false, at(window, x, y));
            }
            Event::PenButtonDown { which, window, x, y, button, .. } => {
                pen.handle_button(which, PenButton::Barrel(button), true, at(window, x, y));
            }
            Event::PenButtonUp { which, window, x, y, button, .. } => {
                pen.handle_button(which, PenButton::Barrel(button), false, at(window, x, y));
            }
            Event::PenProximityOut { .. } => pen.handle_leave(),
            _ => {}
        }
    }

    /// SDL has made this mouse event of a pen's, and the pen's counts: there is no menu, and the
    /// session takes pens.
    pub(super) fn is_of_pen(&mut self, event: &Event) -> bool {
        let (Event::MouseMotion { which, .. }
        | Event::MouseButtonDown { which, .. }
        | Event::MouseButtonUp { which, .. }) = *event
        else {
            return false;
        };
        if which != PEN_MOUSE {
            return false;
        }
        if self.menus.is_open() && matches!(event, Event::MouseButtonDown { .. }) {
            self.pointing.pen.ignore_press();
        }
        self.pen_draws()
    }

    fn pen_draws(&self) -> bool {
        !self.menus.is_open() && !self.pointing.capture.is_on() && self.client.lock().takes_pen()
    }

    /// Sends the samples of a batch, every one. While a menu is open or the pointer is captured,
    /// the session has no pen.
    pub(super) fn flush_pen(&mut self) {
        if !self.pen_draws() {
            if let Some(leaves) = self.pointing.pen.withdraw() {
                self.send(InputEvent::Pen(leaves));
            }
            return;
        }
        while let Some(sample) = self.pointing.pen.take() {
            self.send(InputEvent::Pen(sample));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIP: PenButton = PenButton::Tip { eraser: false };

    /// One point of the window is one pixel of the screen.
    fn move_to(pen: &mut Pen, which: u32, x: f32, y: f32) {
        let parts = |at: f32| (at * 64.0) as u32;
        pen.handle_motion(which, (x, y), &|(x, y)| Some((parts(x), parts(y))));
    }

    fn taken(pen: &mut Pen) -> Vec<PenSample> {
        std::iter::from_fn(|| pen.take()).collect()
    }

    #[test]
    fn what_the_tablet_reported_at_once_is_one_sample() {
        let mut pen = Pen::new("wayland");
        // As Wayland has them: the axes follow the button of the same instant.
        move_to(&mut pen, 1, 10.0, 5.0);
        pen.handle_button(1, TIP, true, Some((640, 320)));
        pen.handle_axis(PenAxis::Pressure, 0.5);
        pen.handle_axis(PenAxis::XTilt, -30.2);
        pen.handle_axis(PenAxis::YTilt, 120.0);
        move_to(&mut pen, 1, 11.0, 5.0);
        pen.handle_axis(PenAxis::Pressure, 1.5);
        let first = PenSample {
            x: 640,
            y: 320,
            pressure: 32768,
            tilt_x: -30,
            tilt_y: 90,
            buttons: 1,
            eraser: false,
            near: true,
        };
        let second = PenSample { x: 704, pressure: 65535, ..first };
        assert_eq!(taken(&mut pen), [first, second]);
        assert_eq!(taken(&mut pen), [], "each is sent once");
        pen.handle_button(1, TIP, false, Some((704, 320)));
        pen.handle_leave();
        let lifted = PenSample { buttons: 0, pressure: 0, ..second };
        assert_eq!(taken(&mut pen), [lifted, lifted.leaving()]);
        pen.handle_leave();
        assert_eq!(taken(&mut pen), [], "it has left");
    }

    #[test]
    fn a_tap_within_one_batch_is_a_press_and_a_release() {
        let mut pen = Pen::new("x11");
        move_to(&mut pen, 1, 1.0, 1.0);
        pen.handle_axis(PenAxis::XTilt, -0.5);
        pen.handle_button(1, TIP, true, Some((64, 64)));
        pen.handle_button(1, TIP, false, Some((64, 64)));
        pen.handle_button(1, PenButton::Barrel(1), true, Some((64, 64)));
        pen.handle_button(1, PenButton::Barrel(2), true, Some((64, 64)));
        pen.handle_button(1, PenButton::Barrel(3), true, Some((64, 64)));
        let samples = taken(&mut pen);
        assert_eq!(samples.iter().map(|pen| pen.buttons).collect::<Vec<_>>(), [1, 0, 2, 6]);
        assert!(samples.iter().all(|pen| pen.tilt_x == -32));
    }

    #[test]
    fn an_eraser_is_one_from_its_first_touch_on() {
        let mut pen = Pen::new("wayland");
        move_to(&mut pen, 7, 1.0, 1.0);
        pen.handle_button(7, PenButton::Tip { eraser: true }, true, Some((64, 64)));
        pen.handle_button(7, PenButton::Tip { eraser: true }, false, Some((64, 64)));
        move_to(&mut pen, 7, 2.0, 1.0);
        move_to(&mut pen, 1, 2.0, 1.0);
        let erasers: Vec<bool> = taken(&mut pen).iter().map(|pen| pen.eraser).collect();
        assert_eq!(erasers, [true, true, true, false]);
    }

    #[test]
    fn what_is_pressed_on_an_earlier_connection_is_not_sent() {
        let mut pen = Pen::new("wayland");
        pen.handle_button(1, TIP, true, Some((64, 64)));
        assert_eq!(taken(&mut pen).len(), 1);
        pen.forget();
        move_to(&mut pen, 1, 2.0, 1.0);
        pen.handle_axis(PenAxis::Pressure, 0.5);
        assert_eq!(taken(&mut pen), []);
        pen.handle_button(1, TIP, false, Some((128, 64)));
        let hovers = PenSample { x: 128, y: 64, near: true, ..PenSample::default() };
        assert_eq!(taken(&mut pen), [hovers]);
        pen.forget();
        pen.handle_leave();
        assert_eq!(taken(&mut pen), [], "the session has it no more");
    }

    #[test]
    fn a_press_on_a_menu_is_not_sent() {
        for driver in ["wayland", "x11"] {
            let mut pen = Pen::new(driver);
            // SDL tells of the pen, and then of the mouse that it makes of it.
            move_to(&mut pen, 1, 1.0, 1.0);
            pen.handle_button(1, TIP, true, Some((64, 64)));
            pen.ignore_press();
            assert_eq!(taken(&mut pen), [], "{driver}");
            pen.handle_button(1, TIP, false, Some((64, 64)));
            let hovers = PenSample { x: 64, y: 64, near: true, ..PenSample::default() };
            assert_eq!(taken(&mut pen), [hovers], "{driver}");
        }
    }

    #[test]
    fn a_pen_that_counts_no_more_leaves_the_session_once() {
        let mut pen = Pen::new("wayland");
        move_to(&mut pen, 1, 1.0, 1.0);
        assert_eq!(pen.withdraw(), None, "the session has not heard of it");
        pen.handle_button(1, TIP, true, Some((64, 64)));
        pen.handle_button(1, TIP, false, Some((64, 64)));
        pen.handle_button(1, TIP, true, Some((64, 64)));
        let pressed = *taken(&mut pen).last().expect("a press");
        assert_eq!(pressed.buttons, 1);
        move_to(&mut pen, 1, 2.0, 1.0);
        let leaves = PenSample { x: 128, ..pressed }.leaving();
        assert_eq!(pen.withdraw(), Some(leaves));
        assert_eq!((pen.withdraw(), taken(&mut pen)), (None, vec![]));
        // It counts again, and what is still pressed does not.
        move_to(&mut pen, 1, 3.0, 1.0);
        assert_eq!(taken(&mut pen), []);
        pen.handle_leave();
        assert_eq!(taken(&mut pen), [], "it has left already");
        move_to(&mut pen, 1, 4.0, 1.0);
        pen.handle_leave();
        assert_eq!(taken(&mut pen).len(), 1 + 1, "within one batch");
    }

    #[test]
    fn axes_before_the_first_position_are_part_of_it() {
        let mut pen = Pen::new("wayland");
        pen.handle_axis(PenAxis::Pressure, 1.0);
        assert_eq!(taken(&mut pen), []);
        pen.handle_motion(1, (0.0, 0.0), &|_| None);
        assert_eq!(taken(&mut pen), [], "there is no screen");
        move_to(&mut pen, 1, 0.0, 0.0);
        assert_eq!(taken(&mut pen).len(), 1);
    }

    #[test]
    fn on_x11_the_whole_points_of_a_position_come_with_the_next_event() {
        let mut pen = Pen::new("x11");
        // The pen is at (10.5, 5.25), (12.75, 5), (13, 6), where it is lifted; the mouse was at
        // (300, 200).
        let mut got = Vec::new();
        for (place, pressure) in
            [((300.5, 200.25), 0.0), ((10.75, 5.0), 0.5), ((12.0, 5.0), 1.0), ((13.0, 6.0), 0.0)]
        {
            move_to(&mut pen, 1, place.0, place.1);
            pen.handle_axis(PenAxis::Pressure, pressure);
            got.extend(taken(&mut pen));
        }
        let seen: Vec<_> = got.iter().map(|pen| (pen.x, pen.y, pen.pressure)).collect();
        assert_eq!(seen, [(672, 336, 0), (816, 320, 32768), (832, 384, 65535)]);
        // What is pressed does not wait, and is where the pen was last.
        pen.handle_button(1, TIP, true, Some((832, 384)));
        let pressed = taken(&mut pen);
        assert_eq!(pressed.len(), 1);
        assert_eq!((pressed[0].x, pressed[0].buttons), (832, 1));
    }
}
