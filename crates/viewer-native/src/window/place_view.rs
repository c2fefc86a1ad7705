//! Path 13/13, and path back: under mod.rs; from zoom.rs with the part to show, to place.rs and to
//! the session.
//! Places the framebuffer in the window while the window's size, the zoom or the session's geometry
//! changes. Knows client.rs and the window's size; never pixels.

use thinc_protocol::viewer::View;
use thinc_region::Rect;

use super::App;
use super::zoom::Zoom;
use crate::client::State;
use crate::place::Placement;

impl App<'_> {
    /// Places the present framebuffer, and requests the view that is to be shown.
    pub(super) fn place(&mut self, state: &mut State) {
        if self.windows.has_displays() {
            self.drawing.redraw();
            return self.windows.place_displays(state);
        }
        let (picture, window) =
            (state.viewer().framebuffer().size(), self.windows[0].placement.window);
        let (screen, part) = state
            .session
            .shown()
            .map_or((picture, picture.rect()), |shown| (shown.screen, shown.part));
        let shown = self.zoom.shown(screen, window);
        self.windows[0].placement = match shown {
            Some(shown) => Placement::zoomed(picture, part, shown.part, window),
            // Zoomed out to the whole screen: until the session has answered, the present part
            // stays where it is.
            None if state.session.shown().is_some() && !self.zoom.keeps_screen() => {
                Placement::zoomed(picture, part, screen.rect(), window)
            }
            None => Placement::new(picture, window).showing(part),
        };
        if let Some(shown) = shown {
            state.set_view(shown.view);
        } else if !self.zoom.keeps_screen() && state.session.shown().is_some() {
            state.set_view(View::default());
        }
        self.drawing.redraw();
    }

    /// Applies a command of the user to the zoom; `act` gets the part of the screen that is shown
    /// and the pointer's position.
    pub(super) fn zoom(&mut self, act: impl FnOnce(&mut Zoom, Rect, (i32, i32)) -> bool) {
        let mouse = self.pointing.on_screen(&self.windows);
        let client = self.client;
        let mut state = client.lock();
        let screen =
            state.session.shown().map_or(state.viewer().framebuffer().size(), |shown| shown.screen);
        let shown = self.zoom.shown(screen, self.windows[0].placement.window);
        if act(&mut self.zoom, shown.map_or(screen.rect(), |shown| shown.part), mouse) {
            self.place(&mut state);
        }
    }
}
