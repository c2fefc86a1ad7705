//! Path back: from sizes of the window, to as few `Resize` messages as the session can follow.
//! The next size is sent when the previous one has been answered, so that dragging a corner never
//! queues obsolete sizes, and the last size is always requested. Knows sizes; never time.

use thinc_region::Size;

/// Paces the resizes of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResizePacer {
    /// Requested from the session and not answered yet.
    requested: Option<Size>,
    /// The window's newest size since.
    wanted: Option<Size>,
    /// The session's size.
    current: Option<Size>,
    /// The next size is sent even if the session has it already.
    stale: bool,
}

impl ResizePacer {
    /// The window has a new size; returns the size to send now.
    #[must_use]
    pub(crate) fn handle_window(&mut self, size: Size) -> Option<Size> {
        self.wanted = Some(size);
        self.next()
    }

    /// The session has this size now, which answers the request; returns the size to send now.
    #[must_use]
    pub(crate) fn handle_geometry(&mut self, size: Size) -> Option<Size> {
        self.current = Some(size);
        self.handle_answer()
    }

    /// The barrier behind the last resize was answered: the session has handled it, and kept its
    /// size if no geometry came before. Returns the size to send now.
    #[must_use]
    pub(crate) fn handle_answer(&mut self) -> Option<Size> {
        self.requested = None;
        self.next()
    }

    /// The next size is sent even if it is the session's.
    pub(crate) fn forget(&mut self) {
        self.stale = true;
    }

    fn next(&mut self) -> Option<Size> {
        if self.requested.is_some() {
            return None;
        }
        let stale = self.stale;
        let size = self
            .wanted
            .take()
            .filter(|size| (stale || Some(*size) != self.current) && size.area() > 0)?;
        self.stale = false;
        self.requested = Some(size);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32) -> Size {
        Size { width, height: 100 }
    }

    #[test]
    fn a_drag_sends_the_first_and_the_last_size() {
        let mut pacer = ResizePacer::default();
        assert_eq!(pacer.handle_geometry(size(500)), None);
        assert_eq!(pacer.handle_window(size(501)), Some(size(501)));
        for width in 502..600 {
            assert_eq!(pacer.handle_window(size(width)), None);
        }
        assert_eq!(pacer.handle_geometry(size(501)), Some(size(599)));
        assert_eq!(pacer.handle_geometry(size(599)), None);
    }

    #[test]
    fn a_session_that_keeps_its_size_gets_only_later_sizes() {
        let mut pacer = ResizePacer::default();
        assert_eq!(pacer.handle_geometry(size(500)), None);
        assert_eq!(pacer.handle_window(size(600)), Some(size(600)));
        assert_eq!(pacer.handle_window(size(700)), None);
        assert_eq!(
            pacer.handle_answer(),
            Some(size(700)),
            "the barrier was answered without a geometry"
        );
        assert_eq!(pacer.handle_answer(), None);
    }

    #[test]
    fn the_sessions_own_size_is_not_requested() {
        let mut pacer = ResizePacer::default();
        assert_eq!(pacer.handle_geometry(size(500)), None);
        assert_eq!(pacer.handle_window(size(500)), None);
        assert_eq!(pacer.handle_window(size(600)), Some(size(600)));
        assert_eq!(pacer.handle_window(size(500)), None, "back again before the answer");
        assert_eq!(pacer.handle_geometry(size(600)), Some(size(500)));
        assert_eq!(pacer.handle_window(Size::default()), None, "a minimised window has no size");
        assert_eq!(pacer.handle_geometry(size(500)), None);
        pacer.forget();
        assert_eq!(pacer.handle_window(size(500)), Some(size(500)), "it means something else now");
        pacer.forget();
        assert_eq!(pacer.handle_window(size(500)), None, "the same size again before the answer");
        assert_eq!(pacer.handle_geometry(size(500)), Some(size(500)));
        assert_eq!(pacer.handle_answer(), None);
    }
}
