//! Path back: under viewer.rs, from a viewer's RESIZE and DISPLAYS, to session/displays.rs.
//! Which screen a viewer asks for. Knows one viewer's wish; never whether it is granted.

use thinc_protocol::viewer::{ViewerCaps, ViewerHello};

use crate::rights::Rights;
use crate::screen::displays::Arrangement;

/// What one viewer asks of the screen.
#[derive(Debug)]
pub(crate) struct DisplayWish {
    /// Its program can control the size, if its rights allow it.
    resizes: bool,
    /// By its displays or its window.
    wanted: Option<Arrangement>,
    /// It has reported displays, and is told the session's.
    has_displays: bool,
}

impl DisplayWish {
    pub(super) fn new(hello: &ViewerHello) -> DisplayWish {
        DisplayWish {
            resizes: hello.caps & ViewerCaps::RESIZE != 0,
            wanted: Arrangement::one(hello.size),
            has_displays: false,
        }
    }

    /// It controls the size, unless another viewer does.
    pub(crate) fn may_control(&self, rights: &Rights) -> bool {
        self.resizes && rights.size
    }

    pub(crate) fn wanted(&self) -> Option<&Arrangement> {
        self.wanted.as_ref()
    }

    /// It has told the session its displays, and is told the session's.
    pub(super) fn has_displays(&self) -> bool {
        self.has_displays
    }

    /// Its displays, or else its window. A viewer that has told displays once has displays.
    pub(crate) fn set(&mut self, wanted: Option<Arrangement>, are_displays: bool) {
        self.wanted = wanted;
        self.has_displays |= are_displays;
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Size;

    use super::super::tests::hello;
    use super::*;

    #[test]
    fn a_wish_counts_with_the_program_and_the_right_for_it() {
        let guest = Rights { size: false, ..Rights::ALL };
        let wish = DisplayWish::new(&hello(ViewerCaps::RESIZE));
        assert!(wish.may_control(&Rights::ALL) && !wish.may_control(&guest));
        assert!(!DisplayWish::new(&hello(0)).may_control(&Rights::ALL));
    }

    #[test]
    fn a_window_after_displays_takes_none_of_them_away() {
        let mut wish = DisplayWish::new(&hello(0));
        assert!(!wish.has_displays());
        wish.set(None, true);
        let window = Arrangement::one(Size { width: 640, height: 480 });
        wish.set(window.clone(), false);
        assert!(wish.has_displays());
        assert_eq!(wish.wanted(), window.as_ref());
    }
}
