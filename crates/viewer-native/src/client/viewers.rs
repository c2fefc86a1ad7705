//! Path 11/13 and 12/13: under client.rs; the viewer-cores of the connection that is shown and of
//! one that has no screen yet.
//! What one connection leaves to the next: unacknowledged input, what is still shown, and the pixel
//! cache, which is at one place at a time. Knows viewer-core; never threads, transports or news.

use thinc_protocol::limits::RETAINED_KEY_BYTES;
use thinc_viewer_core::{Cache, StereoMode, Viewer, ViewerEvent};

use crate::error::ViewError;
use crate::saved::CacheFile;

/// The viewer-cores of the last connection and of the next.
#[derive(Debug)]
pub(crate) struct Viewers {
    /// The newest connection that has shown a screen; kept after a loss, so that its framebuffer
    /// stays visible.
    pub(super) shown: Viewer,
    /// A new connection that has not shown a screen yet.
    pending: Option<Viewer>,
    /// Times a connection showed a screen.
    connections: u32,
    /// The pixel cache, while no connection is open; None before the first connection.
    cache: Option<Cache>,
    /// The file that the cache is saved in.
    cache_file: Option<CacheFile>,
    /// The window paints video frames itself, on this connection and the next.
    video_layers: bool,
}

impl Viewers {
    /// Before the first connection; `shown` has an empty screen.
    pub(super) fn new(shown: Viewer) -> Viewers {
        Viewers {
            shown,
            pending: None,
            connections: 0,
            cache: None,
            cache_file: None,
            video_layers: false,
        }
    }

    /// Times a connection showed a screen.
    pub(crate) fn connections(&self) -> u32 {
        self.connections
    }

    /// The viewer of the newest connection.
    pub(super) fn active(&mut self) -> &mut Viewer {
        self.pending.as_mut().unwrap_or(&mut self.shown)
    }

    /// A new connection has not shown a screen yet.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Sets whether the window paints video frames itself, from viewer-core's layers.
    pub(super) fn set_video_layers(&mut self, on: bool) {
        self.video_layers = on;
        self.shown.set_video_layers(on);
        self.pending.iter_mut().for_each(|viewer| viewer.set_video_layers(on));
    }

    /// How stereo programs are shown: what is on the screen, and on the connection that takes its
    /// place.
    pub(super) fn choose_stereo(&mut self, mode: StereoMode) {
        self.shown.choose_stereo(mode);
        self.pending.iter_mut().for_each(|viewer| viewer.choose_stereo(mode));
    }

    /// No connection had a cache yet.
    pub(super) fn lacks_cache(&self) -> bool {
        self.cache.is_none()
    }

    /// The first connection offers this cache, which is saved in that file in the end.
    pub(super) fn set_cache(&mut self, cache: Cache, file: Option<CacheFile>) {
        (self.cache, self.cache_file) = (Some(cache), file);
    }

    /// A connection is opened with this viewer, which continues from the last.
    pub(super) fn begin(&mut self, mut viewer: Viewer, key: [u8; RETAINED_KEY_BYTES]) {
        viewer.set_video_layers(self.video_layers);
        viewer.continue_from(&mut self.shown, key);
        if let Some(cache) = self.cache.take() {
            viewer.offer_cache(cache);
        }
        self.pending = Some(viewer);
    }

    /// The connection that is being opened is shown from now on, if it has a screen. True if so.
    pub(super) fn show_pending(&mut self) -> bool {
        let has_screen = |viewer: &mut Viewer| viewer.framebuffer().size().area() > 0;
        let Some(viewer) = self.pending.take_if(has_screen) else { return false };
        self.shown = viewer;
        self.connections += 1;
        true
    }

    /// The connection has ended; what the next continues from is kept.
    pub(super) fn end(&mut self) {
        self.cache = self.active().take_cache();
        if let Some(mut pending) = self.pending.take() {
            self.shown.take_unacked_input(&mut pending);
        }
    }

    /// Why the session has closed the connection that is being opened, if it has.
    pub(super) fn refusal(&mut self) -> Option<ViewError> {
        // Its other events are repeated after the geometry, or are stale with it.
        let viewer = self.pending.as_mut().filter(|viewer| viewer.is_closed())?;
        std::iter::from_fn(|| viewer.poll_event()).find_map(|event| match event {
            ViewerEvent::Closed { code, reason } => Some(ViewError::Closed { code, reason }),
            _ => None,
        })
    }

    /// What has to be saved in the end: the cache, wherever it is.
    pub(super) fn take_saved(&mut self) -> Option<(CacheFile, Option<Cache>)> {
        let file = self.cache_file.take()?;
        Some((file, self.cache.take().or_else(|| self.active().take_cache())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{connect, connected, hello, new_viewer, tell};
    use super::*;
    use thinc_protocol::session::{Close, CloseCode, SessionMessage};
    use thinc_protocol::viewer::InputEvent;
    use thinc_region::Size;

    const SCREEN: Size = Size { width: 800, height: 600 };
    const KEY: [u8; RETAINED_KEY_BYTES] = [7; RETAINED_KEY_BYTES];

    #[test]
    fn a_connection_is_shown_once_it_has_a_screen() {
        let mut viewers = Viewers::new(new_viewer());
        assert!(!viewers.show_pending());
        viewers.begin(new_viewer(), KEY);
        assert!(!viewers.show_pending() && viewers.is_pending(), "it has no screen");
        connect(viewers.active(), SCREEN);
        assert_eq!(viewers.shown.framebuffer().size().area(), 0);
        assert!(viewers.show_pending() && !viewers.is_pending());
        assert_eq!((viewers.shown.framebuffer().size(), viewers.connections()), (SCREEN, 1));
        viewers.end();
        assert_eq!(viewers.shown.framebuffer().size(), SCREEN, "a lost screen stays visible");
    }

    #[test]
    fn the_cache_goes_from_connection_to_connection() {
        let mut viewers = Viewers::new(new_viewer());
        assert!(viewers.lacks_cache());
        viewers.set_cache(Cache::new(1 << 20), None);
        viewers.begin(new_viewer(), KEY);
        assert!(viewers.cache.is_none() && viewers.active().cache().is_some());
        viewers.end();
        assert!(!viewers.lacks_cache(), "the attempt failed");
        viewers.begin(new_viewer(), KEY);
        viewers.cache_file = CacheFile::new(
            &crate::saved::CacheOptions { bytes: 1 << 20, dir: Some("/nonexistent".into()) },
            "demo",
        );
        assert!(viewers.take_saved().is_some_and(|(_, cache)| cache.is_some()));
        assert!(viewers.take_saved().is_none(), "once");
    }

    #[test]
    fn input_that_a_failed_attempt_has_not_sent_goes_to_the_next() {
        let mut viewers = Viewers::new(connected(SCREEN));
        viewers.begin(new_viewer(), KEY);
        viewers.active().handle_input(InputEvent::Button { button: 1, down: true }, 0);
        viewers.end();
        viewers.begin(new_viewer(), KEY);
        assert_eq!(viewers.active().newest_input(), 1);
    }

    #[test]
    fn a_refusal_has_the_sessions_reason() {
        let mut viewers = Viewers::new(new_viewer());
        viewers.begin(new_viewer(), KEY);
        tell(viewers.active(), &hello());
        assert!(viewers.refusal().is_none());
        let close = SessionMessage::Close(Close { code: CloseCode::Elsewhere, reason: "there" });
        tell(viewers.active(), &close);
        let refusal = viewers.refusal();
        assert!(matches!(refusal, Some(ViewError::Closed { code: CloseCode::Elsewhere, .. })));
    }
}
