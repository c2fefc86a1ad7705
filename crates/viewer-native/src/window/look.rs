//! Path 13/13 and back: under mod.rs, where the picture lies in the window while its size, the zoom or the session's answer changes.
//! From zoom.rs with what is to be seen, to place.rs and to the session.
//! Knows the client and the window's size; never pixels.

use thinc_protocol::viewer::View;
use thinc_region::Rect;

use super::App;
use super::zoom::Zoom;
use crate::client::State;
use crate::place::Placement;

impl App<'_> {
    /// Places the picture as it is, and asks for the one that is to be seen.
    pub(super) fn place(&mut self, state: &mut State) {
        if self.has_displays() {
            self.redraw = true;
            return self.place_displays(state);
        }
        let (picture, window) = (state.viewer.framebuffer().size(), self.panes[0].placement.window);
        let (screen, part) = state.shows.map_or((picture, picture.rect()), |shows| (shows.screen, shows.part));
        let look = self.zoom.look(screen, window);
        self.panes[0].placement = match look {
            Some(look) => Placement::zoomed(picture, part, look.part, window),
            // All of it is to be seen again: until the session has answered, what there is stays where it lies.
            None if state.shows.is_some() && !self.zoom.keeps_screen() => {
                Placement::zoomed(picture, part, screen.rect(), window)
            }
            None => Placement::new(picture, window).showing(part),
        };
        if let Some(look) = look {
            state.set_view(look.view);
        } else if !self.zoom.keeps_screen() && state.shows.is_some() {
            state.set_view(View::default());
        }
        self.redraw = true;
    }

    /// Lets the person's command do something to the zoom, which is told what of the screen is to be seen by now, and where the pointer is.
    pub(super) fn zoom(&mut self, act: impl FnOnce(&mut Zoom, Rect, (i32, i32)) -> bool) {
        let mouse = self.pointer_at();
        let client = self.client;
        let mut state = client.lock();
        let screen = state.shows.map_or(state.viewer.framebuffer().size(), |shows| shows.screen);
        let look = self.zoom.look(screen, self.panes[0].placement.window);
        if act(&mut self.zoom, look.map_or(screen.rect(), |look| look.part), mouse) {
            self.place(&mut state);
        }
    }

    /// The screen's pixel under the pointer.
    fn pointer_at(&self) -> (i32, i32) {
        let (window_id, x, y) = self.mouse_at;
        self.screen_at(window_id, x, y).map_or((0, 0), |(x, y)| (i32::from(x), i32::from(y)))
    }
}
