//! Path back: sizes of the window, to as few `Resize` messages as the session can follow.
//! A new one is sent when the one before has been answered, so dragging a corner never queues sizes nobody will see,
//! and the last size is always asked for. Knows sizes; never time: the answer is the pace.

use thinc_region::Size;

/// Paces the resizes of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResizePacer {
    /// Asked of the session and not answered yet.
    asked: Option<Size>,
    /// What the window has become since.
    wanted: Option<Size>,
    /// What the session has.
    current: Option<Size>,
    /// What it has is not what is wanted, though the size may be the same.
    stale: bool,
}

impl ResizePacer {
    /// The window has this size; returns what to send now.
    #[must_use]
    pub(crate) fn handle_window(&mut self, size: Size) -> Option<Size> {
        self.wanted = Some(size);
        self.next()
    }

    /// The session has this size now, which answers what was asked; returns what to send now.
    #[must_use]
    pub(crate) fn handle_geometry(&mut self, size: Size) -> Option<Size> {
        self.current = Some(size);
        self.handle_answer()
    }

    /// The barrier behind the last resize came back: the session has dealt with it, and kept its size if no geometry
    /// came before. Returns what to send now.
    #[must_use]
    pub(crate) fn handle_answer(&mut self) -> Option<Size> {
        self.asked = None;
        self.next()
    }

    /// What the session has is no longer what matters: the next size is sent whatever it is.
    pub(crate) fn forget(&mut self) {
        self.stale = true;
    }

    fn next(&mut self) -> Option<Size> {
        if self.asked.is_some() {
            return None;
        }
        let stale = self.stale;
        let size = self.wanted.take().filter(|size| (stale || Some(*size) != self.current) && size.area() > 0)?;
        self.stale = false;
        self.asked = Some(size);
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
    fn a_session_that_keeps_its_size_is_not_asked_for_ever_nor_never_again() {
        let mut pacer = ResizePacer::default();
        assert_eq!(pacer.handle_geometry(size(500)), None);
        assert_eq!(pacer.handle_window(size(600)), Some(size(600)));
        assert_eq!(pacer.handle_window(size(700)), None);
        assert_eq!(pacer.handle_answer(), Some(size(700)), "the barrier came back with no geometry");
        assert_eq!(pacer.handle_answer(), None);
    }

    #[test]
    fn the_size_the_session_has_is_not_asked_for() {
        let mut pacer = ResizePacer::default();
        assert_eq!(pacer.handle_geometry(size(500)), None);
        assert_eq!(pacer.handle_window(size(500)), None);
        assert_eq!(pacer.handle_window(size(600)), Some(size(600)));
        assert_eq!(pacer.handle_window(size(500)), None, "back again while the answer is under way");
        assert_eq!(pacer.handle_geometry(size(600)), Some(size(500)));
        assert_eq!(pacer.handle_window(Size::default()), None, "a minimised window has no size");
        assert_eq!(pacer.handle_geometry(size(500)), None);
        pacer.forget();
        assert_eq!(pacer.handle_window(size(500)), Some(size(500)), "it means something else now");
        pacer.forget();
        assert_eq!(pacer.handle_window(size(500)), None, "another one of the same size, while one is under way");
        assert_eq!(pacer.handle_geometry(size(500)), Some(size(500)));
        assert_eq!(pacer.handle_answer(), None);
    }
}
