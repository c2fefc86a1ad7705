//! Path 4/13: beside grid.rs.
//! Where one drawable may be translucent: there an Over blend from it is no copy. Knows rectangles,
//! exactly while they are few; past the bound more counts as translucent, never less.

use thinc_region::Rect;
use thinc_ring::Alpha;

use super::rects;

/// Most rectangles: a window's shadow has four, its round corners four more.
const RECTS_MAX: usize = 16;

/// The part of a drawable that may be translucent.
#[derive(Debug)]
pub(super) struct Translucent {
    /// They may overlap.
    rects: Vec<Rect>,
    /// The drawable has no alpha.
    never: bool,
}

impl Translucent {
    /// For a drawable with unknown pixels.
    pub(super) fn new(bounds: Rect, opaque: bool) -> Translucent {
        let mut translucent =
            Translucent { rects: Vec::with_capacity(RECTS_MAX + 8), never: opaque };
        translucent.add(&bounds);
        translucent
    }

    /// For another drawable, in the same memory.
    pub(super) fn reuse(&mut self, bounds: Rect, opaque: bool) {
        self.rects.clear();
        self.never = opaque;
        self.add(&bounds);
    }

    /// A drawing.
    #[inline]
    pub(super) fn draw(&mut self, rect: &Rect, alpha: Alpha) {
        match alpha {
            Alpha::Opaque => self.remove(rect),
            Alpha::Kept => {}
            Alpha::Unknown => self.add(rect),
        }
    }

    /// All of `rect` is opaque now.
    pub(super) fn remove(&mut self, rect: &Rect) {
        if !self.rects.is_empty() {
            rects::subtract(&mut self.rects, rect);
            self.bound();
        }
    }

    /// `rect` may be anything now.
    pub(super) fn add(&mut self, rect: &Rect) {
        if self.never || rect.is_empty() || self.rects.iter().any(|known| known.contains(rect)) {
            return;
        }
        self.rects.retain(|known| !rect.contains(known));
        self.rects.push(*rect);
        self.bound();
    }

    /// Joins those that waste the least area.
    fn bound(&mut self) {
        while self.rects.len() > RECTS_MAX {
            let mut best = (u64::MAX, 0, 1);
            for (a, one) in self.rects.iter().enumerate() {
                for (b, two) in self.rects.iter().enumerate().skip(a + 1) {
                    let waste = one.bound(two).area().saturating_sub(one.area() + two.area());
                    best = best.min((waste, a, b));
                }
            }
            let (_, a, b) = best;
            let two = self.rects.swap_remove(b);
            self.rects[a] = self.rects[a].bound(&two);
        }
    }

    /// Puts the possibly translucent parts of `rect` into `translucent`, and the rest into
    /// `opaque`.
    pub(super) fn split(&self, rect: &Rect, opaque: &mut Vec<Rect>, translucent: &mut Vec<Rect>) {
        opaque.clear();
        opaque.push(*rect);
        for known in
            self.rects.iter().map(|known| known.intersect(rect)).filter(|known| !known.is_empty())
        {
            rects::subtract(opaque, &known);
            translucent.push(known);
        }
    }

    /// Where it may be translucent.
    pub(super) fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// # Panics
    /// If an invariant of this file does not hold.
    pub(super) fn check_invariants(&self) {
        assert!(self.rects.len() <= RECTS_MAX, "at most {RECTS_MAX} rectangles are remembered");
        assert!(!self.never || self.rects.is_empty(), "a drawable without alpha is opaque");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_and_filled_page_is_opaque_to_the_pixel() {
        let mut page = Translucent::new(Rect::new(0, 0, 100, 100), false);
        page.draw(&Rect::new(0, 0, 100, 100), Alpha::Opaque);
        let lines = Rect::new(3, 37, 91, 55);
        page.draw(&lines, Alpha::Unknown);
        page.draw(&lines, Alpha::Opaque);
        page.draw(&lines, Alpha::Kept);
        assert!(page.rects().is_empty());
    }

    #[test]
    fn past_the_bound_more_is_translucent_and_never_less() {
        let mut page = Translucent::new(Rect::new(0, 0, 1000, 1000), false);
        page.draw(&Rect::new(0, 0, 1000, 1000), Alpha::Opaque);
        let icons: Vec<Rect> =
            (0..60).map(|i| Rect::at(i * 37 % 900, i * 91 % 900, 10, 10)).collect();
        icons.iter().for_each(|icon| page.draw(icon, Alpha::Unknown));
        page.check_invariants();
        let (mut opaque, mut translucent) = (Vec::new(), Vec::new());
        for icon in &icons {
            page.split(icon, &mut opaque, &mut translucent);
            assert!(opaque.is_empty(), "{icon:?} may be anything");
        }
    }
}
