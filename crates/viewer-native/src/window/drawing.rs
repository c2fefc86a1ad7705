//! Path 13/13: from the framebuffer's damage and the panels over it, to the rectangles that a
//! window draws.
//! What has to be drawn again: all of it, or the damage and the panels that have changed. Knows
//! places; never who draws, nor the words on the panels.

use thinc_region::{Rect, Region};

use crate::overlay::Panel;
use crate::place::Placement;

/// A panel, and where its upper left corner is in the window.
pub(super) type Placed = (Panel, i32, i32);

/// What is drawn over and around the framebuffer.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    /// The window that has the focus shows them; later ones are on top. Drawn when they change.
    panels: Vec<Placed>,
    /// All windows have to be drawn as a whole.
    whole: bool,
    /// The framebuffer is stale and drawn dimmed.
    dimmed: bool,
    /// Lossy pixels are marked.
    marks_lossy: bool,
    /// Where a presenter composes one row of pixels.
    row: Vec<u32>,
}

impl Drawing {
    /// Before anything was drawn.
    pub(super) fn new() -> Drawing {
        Drawing { whole: true, ..Drawing::default() }
    }

    /// Something has changed that is not the framebuffer.
    pub(super) fn redraw(&mut self) {
        self.whole = true;
    }

    /// The same, if it has.
    pub(super) fn redraw_if(&mut self, changed: bool) {
        self.whole |= changed;
    }

    /// All windows have to be drawn as a whole.
    pub(super) fn is_due(&self) -> bool {
        self.whole
    }

    /// True once after that: they are drawn now.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.whole)
    }

    /// The framebuffer is stale, or shows the session's screen.
    pub(super) fn set_dimmed(&mut self, stale: bool) {
        self.whole |= std::mem::replace(&mut self.dimmed, stale) != stale;
    }

    pub(super) fn is_dimmed(&self) -> bool {
        self.dimmed
    }

    /// The user wants to see which pixels are lossy, or no longer.
    pub(super) fn toggle_lossy_marks(&mut self) {
        self.marks_lossy = !self.marks_lossy;
        self.whole = true;
    }

    pub(super) fn marks_lossy(&self) -> bool {
        self.marks_lossy
    }

    /// The panels are these from now on; returns what the old and the new ones cover.
    pub(super) fn set_panels(&mut self, panels: Vec<Placed>) -> Region {
        let before = std::mem::replace(&mut self.panels, panels);
        let mut covered = Region::default();
        for (panel, x, y) in before.iter().chain(&self.panels) {
            covered.add_rect(panel.size.rect().translate(*x, *y));
        }
        covered
    }

    /// The panels, and a buffer for a row of pixels.
    pub(super) fn panels_and_row(&mut self) -> (&[Placed], &mut Vec<u32>) {
        (&self.panels, &mut self.row)
    }
}

/// The rectangles of a window that are drawn; `whole`, or what the damage and the panels cover.
pub(super) fn due_in(
    placement: &Placement,
    whole: bool,
    damage: &Region,
    panels: Option<&Region>,
) -> Vec<Rect> {
    let window = placement.window.rect();
    let due: Region = if whole {
        window.into()
    } else {
        let mut due: Region = damage.rects().iter().map(|rect| placement.cover(rect)).collect();
        panels.iter().flat_map(|panels| panels.rects()).for_each(|rect| due.add_rect(*rect));
        due
    };
    let visible = due.rects().iter().map(|rect| rect.intersect(&window));
    visible.filter(|rect| !rect.is_empty()).collect()
}

/// Where something of this length begins in the middle of an edge; at 0 if it is longer.
pub(super) fn in_middle(edge: u32, length: u32) -> i32 {
    (edge as i32 - length as i32).max(0) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_region::Size;

    const WINDOW: Size = Size { width: 800, height: 600 };

    #[test]
    fn everything_is_drawn_once_and_again_when_the_framebuffer_becomes_stale() {
        let mut drawing = Drawing::new();
        assert!(drawing.take_due() && !drawing.is_due());
        drawing.redraw_if(false);
        drawing.set_dimmed(false);
        assert!(!drawing.is_due());
        drawing.set_dimmed(true);
        assert!(drawing.is_dimmed() && drawing.take_due());
        drawing.toggle_lossy_marks();
        assert!(drawing.marks_lossy() && drawing.take_due());
    }

    #[test]
    fn a_panel_that_has_gone_leaves_pixels_to_draw() {
        let mut drawing = Drawing::new();
        let panel = Panel::draw("words", 1);
        let place = panel.size.rect().translate(8, 8);
        let covered = drawing.set_panels(vec![(panel, 8, 8)]);
        assert_eq!(covered, place.into());
        assert_eq!(drawing.panels_and_row().0.len(), 1);
        assert_eq!(drawing.set_panels(Vec::new()), place.into());
        assert!(drawing.set_panels(Vec::new()).rects().is_empty());
    }

    #[test]
    fn a_window_draws_its_part_of_the_damage_and_the_panels_if_it_has_them() {
        let placement = Placement::new(WINDOW, WINDOW);
        let damage = Region::from(Rect::at(10, 10, 20, 20));
        let panels = Region::from(Rect::at(700, 0, 400, 50));
        assert_eq!(due_in(&placement, false, &damage, None), [Rect::at(10, 10, 20, 20)]);
        let due = due_in(&placement, false, &damage, Some(&panels));
        assert_eq!(due.iter().map(Rect::area).sum::<u64>(), 20 * 20 + 100 * 50);
        assert_eq!(due_in(&placement, true, &damage, None), [WINDOW.rect()]);
        assert_eq!(due_in(&placement, false, &Region::default(), None), []);
    }

    #[test]
    fn what_is_too_long_begins_at_the_edge() {
        assert_eq!((in_middle(800, 200), in_middle(800, 900)), (300, 0));
    }
}
