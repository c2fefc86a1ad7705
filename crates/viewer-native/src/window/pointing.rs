//! Path back, over pointer.rs, pen.rs, capture.rs, cursor.rs and modified_buttons.rs: from SDL's
//! mouse, fingers and pen in the windows, to input events; and from what an application does with
//! the pointer, to the local one.
//! Where the pointer is, what holds it, and what is to be sent. Knows windows; never the keyboard,
//! nor the connection.

use sdl3::event::EventSender;
use sdl3::mouse::{MouseButton, MouseUtil};
use thinc_protocol::viewer::InputEvent;
use thinc_viewer_core::CursorPixels;

use super::capture::Capture;
use super::cursor::LocalCursor;
use super::modified_buttons::{GrabbedPointer, ModifiedButtons};
use super::panes::Windows;
use super::pen::Pen;
use super::pointer::{Finger, Pointer};
use crate::shown_by::CursorColors;

/// A point in a window: the window's number, and SDL's coordinates.
pub(super) type Point = (u32, f32, f32);

/// The pointer, and all that is done with it.
pub(super) struct Pointing {
    pub(super) mouse: MouseUtil,
    cursor: LocalCursor,
    pub(super) pointer: Pointer,
    pub(super) pen: Pen,
    pub(super) capture: Capture,
    modified_buttons: ModifiedButtons,
    /// The mouse's last position reported by SDL.
    at: Point,
}

impl Pointing {
    pub(super) fn new(mouse: MouseUtil, driver: &str, sender: EventSender) -> Pointing {
        Pointing {
            mouse,
            cursor: LocalCursor::new(driver),
            pointer: Pointer::default(),
            pen: Pen::new(driver),
            capture: Capture::default(),
            modified_buttons: ModifiedButtons::start(driver, sender),
            at: (0, 0.0, 0.0),
        }
    }

    /// The session's cursor has a new image.
    pub(super) fn set_cursor(&mut self, image: CursorPixels) {
        self.cursor.set_image(&self.mouse, image);
    }

    /// Its colours are shown like this.
    pub(super) fn set_cursor_gamma(&mut self, colors: &CursorColors<'_>) {
        match colors {
            CursorColors::Plain => self.cursor.set_gamma(&self.mouse, None),
            CursorColors::By(table) => self.cursor.set_gamma(&self.mouse, Some(table)),
            CursorColors::Kept => {}
        }
    }

    /// The session shows or hides its cursor.
    pub(super) fn set_cursor_shown(&mut self, shown: bool) {
        self.cursor.set_shown(&self.mouse, shown);
    }

    /// Takes what has to be sent: of a batch of motions only the final position matters, or the
    /// whole distance.
    pub(super) fn take(&mut self) -> Option<InputEvent> {
        self.pointer.take_motion().or_else(|| self.capture.take())
    }

    /// No button and no finger is down any more, and the pen has left.
    pub(super) fn forget(&mut self) {
        self.pointer.forget();
        self.pen.forget();
    }

    /// The mouse moved to a point, by this distance.
    pub(super) fn handle_motion(&mut self, windows: &Windows, at: Point, by: (f32, f32)) {
        if self.capture.is_on() {
            return self.handle_captured_motion(windows, by);
        }
        let (window_id, x, y) = at;
        self.at = at;
        self.modified_buttons.set_inside(windows.is_inside(window_id, x, y));
        self.pointer.handle_motion(windows.screen_at(window_id, x, y));
    }

    /// The pen is at a point, and will be sent as such: the next drag or menu begins there.
    pub(super) fn follow_pen(&mut self, at: Point) {
        self.at = at;
        self.pointer.forget_position();
    }

    /// The pointer has left its window.
    pub(super) fn handle_leave(&mut self) {
        self.modified_buttons.set_inside(false);
    }

    /// The pointer moved during a drag with a grabbed button.
    pub(super) fn handle_grabbed(&mut self, windows: &Windows, pointer: GrabbedPointer) {
        let GrabbedPointer { x, y, released } = pointer;
        let (window_id, x, y) = windows.in_window(self.at.0, (x, y));
        self.at = (window_id, x, y);
        self.pointer.handle_motion(windows.screen_at(window_id, x, y));
        if released {
            // X has told SDL nothing of a pointer that left meanwhile.
            self.modified_buttons.set_inside(windows.is_inside(window_id, x, y));
        }
    }

    /// A button is about to be handled: returns where it went down or up, which counts even without
    /// a motion to it.
    pub(super) fn handle_button_place(&mut self, windows: &Windows, at: Point) -> Point {
        let dragged_to =
            if self.pointer.is_pressed() { self.modified_buttons.position() } else { None };
        let at = dragged_to.map_or(at, |place| windows.in_window(self.at.0, place));
        if !self.capture.is_on() {
            self.pointer.handle_motion(windows.screen_at(at.0, at.1, at.2));
        }
        at
    }

    /// A button went down or up; `at_ns` is SDL's time of it.
    pub(super) fn handle_button(
        &mut self,
        button: MouseButton,
        down: bool,
        at_ns: u64,
    ) -> Option<InputEvent> {
        self.pointer.handle_button(button, down, at_ns)
    }

    /// The wheel turned.
    pub(super) fn handle_wheel(&mut self, x: f32, y: f32) -> Option<InputEvent> {
        self.pointer.handle_wheel(x, y)
    }

    /// A finger did something, at a point in fractions of the window.
    pub(super) fn handle_finger(
        &mut self,
        windows: &Windows,
        id: u64,
        did: Finger,
        (window_id, x, y): Point,
    ) -> Option<InputEvent> {
        let index = windows.pane_of(window_id).unwrap_or(windows.front_index());
        let placement = windows[index].placement;
        let window = placement.window;
        let at = placement.to_screen(x * window.width as f32, y * window.height as f32);
        self.pointer.handle_finger(id, did, at)
    }

    /// The screen's pixel under the pointer.
    pub(super) fn on_screen(&self, windows: &Windows) -> (i32, i32) {
        let (window_id, x, y) = self.at;
        let at = windows.screen_at(window_id, x, y);
        at.map_or((0, 0), |(x, y)| (i32::from(x), i32::from(y)))
    }

    /// Takes or leaves the buttons as the pointer, the focus and the person want it.
    pub(super) fn take_modified_buttons(&mut self, has_focus: bool) {
        // A captured pointer is nowhere, and its buttons are SDL's.
        self.modified_buttons.update(has_focus && !self.capture.is_on());
    }

    /// Leaves those buttons to the local desktop, or takes them again.
    pub(super) fn toggle_modified_buttons(&mut self) -> &'static str {
        self.modified_buttons.toggle()
    }

    /// An application moved the session's pointer: the local one follows, if it is in a window.
    pub(super) fn warp(&mut self, windows: &Windows, x: u16, y: u16) {
        if self.mouse.focused_window_id().and_then(|id| windows.pane_of(id)).is_none() {
            return;
        }
        self.pointer.handle_warp(x, y);
        let pane = windows.showing(x, y);
        let (x, y) = pane.placement.to_window(x, y);
        let density = pane.window().pixel_density().max(f32::EPSILON);
        self.mouse.warp_mouse_in_window(pane.window(), x / density, y / density);
    }
}
