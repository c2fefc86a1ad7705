//! Path back: under client.rs; from the window's size and scale, the view and the arrangement of
//! monitors, to viewer-core's requests.
//! What the viewer asks of the session's screen: no more often than the session answers, and again
//! on each connection. Knows sizes and barriers; never windows, threads or the network.

use thinc_protocol::viewer::{Display, Displays, View};
use thinc_region::Size;
use thinc_viewer_core::Viewer;

use crate::resize::ResizePacer;

/// 6: most unanswered barriers; viewer-core takes 8.
const BARRIERS_PENDING_MAX: u32 = 6;
/// 96 dots an inch: a session's default scale.
const SCALE_DEFAULT: u16 = 100;

/// The wishes of the window, which outlast a connection, and what this connection's session has
/// been told of them.
#[derive(Debug)]
pub(super) struct ScreenRequests {
    window: Size,
    /// The requested view, if one was chosen; sent on every connection.
    view: Option<View>,
    /// The local display scale, and whether this connection's session has been told.
    scale_percent: u16,
    scale_sent: bool,
    /// The windows as monitors of the session; empty: one window shows the whole session.
    arrangement: Vec<Display>,
    pacer: ResizePacer,
    /// Unanswered barrier behind the last resize.
    resize_barrier: Option<u32>,
    /// Count of unanswered barriers.
    barriers_pending: u32,
}

impl ScreenRequests {
    pub(super) fn new(window: Size, view: Option<View>) -> ScreenRequests {
        ScreenRequests {
            window,
            view,
            scale_percent: SCALE_DEFAULT,
            scale_sent: false,
            arrangement: Vec::new(),
            pacer: ResizePacer::default(),
            resize_barrier: None,
            barriers_pending: 0,
        }
    }

    /// What a new connection's viewer asks for in its hello and directly behind it.
    pub(super) fn window(&self) -> Size {
        self.window
    }

    pub(super) fn view(&self) -> Option<View> {
        self.view
    }

    /// The connection has a screen, of the viewer's size unless it was resized meanwhile.
    pub(super) fn begin_connection(&mut self, viewer: &mut Viewer) {
        self.pacer = ResizePacer::default();
        self.scale_sent = false;
        if self.scale_percent == SCALE_DEFAULT && self.arrangement.is_empty() {
            let _ = self.pacer.handle_geometry(viewer.framebuffer().size());
        }
        // The window may have been resized since the hello was sent.
        if self.window.area() > 0
            && let Some(size) = self.pacer.handle_window(self.window)
        {
            self.send_resize(size, viewer);
        }
    }

    /// The connection has ended: nothing of it is answered any more.
    pub(super) fn end_connection(&mut self) {
        self.pacer = ResizePacer::default();
        self.resize_barrier = None;
        self.barriers_pending = 0;
    }

    /// Another view is wanted; false if it is that already.
    pub(super) fn set_view(&mut self, view: View) -> bool {
        self.view.replace(view) != Some(view)
    }

    /// The window has a new size. True if the viewer of an open connection requests it now.
    pub(super) fn set_window(&mut self, size: Size, viewer: Option<&mut Viewer>) -> bool {
        self.window = size;
        let Some(viewer) = viewer else { return false };
        let Some(size) = self.pacer.handle_window(size) else { return false };
        self.send_resize(size, viewer);
        true
    }

    /// The windows are these monitors of the session now, the primary one first. True as above.
    pub(super) fn arrange(&mut self, displays: Vec<Display>, viewer: Option<&mut Viewer>) -> bool {
        if self.arrangement == displays {
            return false;
        }
        let edge = |far: fn(&Display) -> i32| {
            displays.iter().map(far).max().unwrap_or(0).max(0).cast_unsigned()
        };
        let size = Size {
            width: edge(|display| display.rect.x2),
            height: edge(|display| display.rect.y2),
        };
        self.arrangement = displays;
        self.pacer.forget();
        self.set_window(size, viewer)
    }

    /// The local display scale, in percent of 96 dots an inch. True as above.
    pub(super) fn set_scale(&mut self, percent: u16, viewer: Option<&mut Viewer>) -> bool {
        let changes = std::mem::replace(&mut self.scale_percent, percent) != percent;
        let Some(viewer) = viewer.filter(|_| changes) else { return false };
        self.pacer.forget();
        let is_known = self.window.area() > 0;
        if is_known {
            self.send_size(self.window, viewer);
        }
        is_known
    }

    /// The session's screen has this size now.
    pub(super) fn handle_geometry(&mut self, screen: Size, viewer: &mut Viewer) {
        if let Some(size) = self.pacer.handle_geometry(screen) {
            self.send_resize(size, viewer);
        }
    }

    /// A barrier was answered; true if it was that of a resize, which nobody else waits for.
    pub(super) fn handle_barrier(&mut self, id: u32, viewer: &mut Viewer) -> bool {
        self.barriers_pending = self.barriers_pending.saturating_sub(1);
        let is_own = self.resize_barrier.take_if(|barrier| *barrier == id).is_some();
        if is_own && let Some(size) = self.pacer.handle_answer() {
            self.send_resize(size, viewer);
        }
        is_own
    }

    /// Requests a barrier for everything drawn until now. None with too many unanswered ones.
    pub(super) fn request_barrier(&mut self, viewer: &mut Viewer) -> Option<u32> {
        (self.barriers_pending < BARRIERS_PENDING_MAX).then(|| {
            self.barriers_pending += 1;
            viewer.request_barrier()
        })
    }

    fn send_resize(&mut self, size: Size, viewer: &mut Viewer) {
        self.send_size(size, viewer);
        self.resize_barrier = self.request_barrier(viewer);
    }

    /// Sends the window's size, and the scale unless it is and was the default; or the newest
    /// arrangement.
    fn send_size(&mut self, size: Size, viewer: &mut Viewer) {
        let scale_percent = self.scale_percent;
        if !self.arrangement.is_empty() {
            let displays = self.arrangement.clone();
            return viewer.set_displays(Displays { scale_percent, displays });
        }
        if scale_percent == SCALE_DEFAULT && !self.scale_sent {
            return viewer.handle_resize(size);
        }
        self.scale_sent = true;
        let display = Display { rect: size.rect(), millimetres: Size::default() };
        viewer.set_displays(Displays { scale_percent, displays: vec![display] });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{connected, sent};
    use super::*;
    use thinc_protocol::viewer::ViewerMessage;
    use thinc_region::Rect;

    const SCREEN: Size = Size { width: 800, height: 600 };

    fn size(width: u32) -> Size {
        Size { width, height: 600 }
    }

    fn display(x: i32) -> Display {
        Display { rect: Rect::at(x, 0, 400, 600), millimetres: Size::default() }
    }

    /// The only barrier among these messages.
    fn barrier(messages: &[ViewerMessage]) -> u32 {
        let barriers = messages.iter().filter_map(|message| match message {
            ViewerMessage::Barrier(id) => Some(*id),
            _ => None,
        });
        let barriers: Vec<u32> = barriers.collect();
        assert_eq!(barriers.len(), 1, "{messages:?}");
        barriers[0]
    }

    #[test]
    fn a_window_of_the_sessions_size_asks_for_nothing_and_another_one_for_its_own() {
        let mut viewer = connected(SCREEN);
        let mut requests = ScreenRequests::new(SCREEN, None);
        requests.begin_connection(&mut viewer);
        assert_eq!(sent(&mut viewer), []);
        assert!(!requests.set_window(size(700), None), "there is no connection");
        requests.begin_connection(&mut viewer);
        let messages = sent(&mut viewer);
        assert_eq!(messages[0], ViewerMessage::Resize(size(700)));
        // The next size is sent once the barrier behind this one is answered.
        assert!(!requests.set_window(size(640), Some(&mut viewer)));
        assert!(requests.handle_barrier(barrier(&messages), &mut viewer));
        assert_eq!(sent(&mut viewer)[0], ViewerMessage::Resize(size(640)));
    }

    #[test]
    fn a_scale_is_sent_with_the_size_and_from_then_on_the_default_too() {
        let mut viewer = connected(SCREEN);
        let mut requests = ScreenRequests::new(SCREEN, None);
        requests.begin_connection(&mut viewer);
        let scaled = |scale_percent| {
            let display = Display { rect: SCREEN.rect(), millimetres: Size::default() };
            ViewerMessage::Displays(Displays { scale_percent, displays: vec![display] })
        };
        assert!(!requests.set_scale(SCALE_DEFAULT, Some(&mut viewer)), "it is that already");
        assert!(requests.set_scale(200, Some(&mut viewer)));
        assert_eq!(sent(&mut viewer), [scaled(200)]);
        assert!(requests.set_scale(SCALE_DEFAULT, Some(&mut viewer)));
        assert_eq!(sent(&mut viewer), [scaled(SCALE_DEFAULT)]);
        // Another session knows nothing of it.
        assert!(!requests.set_scale(150, None));
        let mut next = connected(SCREEN);
        requests.end_connection();
        requests.begin_connection(&mut next);
        assert!(sent(&mut next).contains(&scaled(150)), "though the session has the size");
    }

    #[test]
    fn an_arrangement_takes_the_place_of_the_size_and_goes_to_each_session() {
        let mut viewer = connected(SCREEN);
        let mut requests = ScreenRequests::new(SCREEN, None);
        requests.begin_connection(&mut viewer);
        let two = vec![display(0), display(400)];
        let told = ViewerMessage::Displays(Displays {
            scale_percent: SCALE_DEFAULT,
            displays: two.clone(),
        });
        assert!(requests.arrange(two.clone(), Some(&mut viewer)), "though it is as large");
        assert!(sent(&mut viewer).contains(&told));
        assert!(!requests.arrange(two, Some(&mut viewer)), "it is that already");
        assert_eq!(requests.window(), SCREEN);
        let mut next = connected(SCREEN);
        requests.end_connection();
        requests.begin_connection(&mut next);
        assert!(sent(&mut next).contains(&told));
    }

    #[test]
    fn few_barriers_are_unanswered_and_a_lost_connection_answers_none() {
        let mut viewer = connected(SCREEN);
        let mut requests = ScreenRequests::new(SCREEN, None);
        let ids: Vec<u32> =
            std::iter::from_fn(|| requests.request_barrier(&mut viewer)).take(99).collect();
        assert_eq!(ids.len(), BARRIERS_PENDING_MAX as usize);
        assert!(!requests.handle_barrier(ids[0], &mut viewer), "somebody else waits for it");
        assert!(requests.request_barrier(&mut viewer).is_some());
        assert!(requests.request_barrier(&mut viewer).is_none());
        requests.end_connection();
        assert!(requests.request_barrier(&mut connected(SCREEN)).is_some());
    }

    #[test]
    fn a_view_is_requested_once() {
        let view = View { size: size(400), part: SCREEN.rect() };
        let mut requests = ScreenRequests::new(SCREEN, None);
        assert!(requests.set_view(view) && !requests.set_view(view));
        assert_eq!(requests.view(), Some(view));
    }
}
