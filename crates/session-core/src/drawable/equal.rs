//! Path 4/13: beside changes.rs.
//! Where else one drawable's pixels are: "my rectangle held what the other's held, right after this stamp".
//! Knows its own drawable's changes, which end it here; what ends it there is asked of the other's changes.

use thinc_region::Rect;

use super::changes::Stamp;
use super::rects;

/// Most equalities of a drawable with the screen, and with pixmaps: the panes of a window, or the windows of a compositor's
/// picture. Past it the smallest is forgotten.
const EQUALITIES_MAX: usize = 8;

/// Two rectangles that held the same pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Equality<T> {
    /// Here.
    pub(super) rect: Rect,
    /// The other drawable.
    pub(super) other: T,
    /// The other's rectangle is this one moved by that.
    pub(super) dx: i32,
    /// Down.
    pub(super) dy: i32,
    /// When.
    pub(super) at: Stamp,
}

impl<T: Copy> Equality<T> {
    /// The part inside of `rect`.
    pub(super) fn within(&self, rect: &Rect) -> Equality<T> {
        Equality { rect: self.rect.intersect(rect), ..*self }
    }

    /// The rectangle there.
    pub(super) fn there(&self) -> Rect {
        self.rect.translate(self.dx, self.dy)
    }

    /// Of pixels that were moved here by a vector.
    pub(super) fn moved(&self, dx: i32, dy: i32) -> Equality<T> {
        Equality { rect: self.rect.translate(dx, dy), dx: self.dx - dx, dy: self.dy - dy, ..*self }
    }
}

/// Equalities of one drawable.
#[derive(Debug)]
pub(super) struct Equalities<T> {
    list: Vec<Equality<T>>,
}

impl<T: Copy + PartialEq> Equalities<T> {
    pub(super) fn new() -> Equalities<T> {
        Equalities { list: Vec::with_capacity(EQUALITIES_MAX) }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// In no order; none overlaps another of the same other drawable.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Equality<T>> {
        self.list.iter()
    }

    /// By place in the list, for who must change something else meanwhile.
    pub(super) fn get(&self, at: usize) -> Option<Equality<T>> {
        self.list.get(at).copied()
    }

    /// Forgets those with drawables that are gone.
    pub(super) fn retain(&mut self, keep: impl Fn(T) -> bool) {
        self.list.retain(|equality| keep(equality.other));
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() == EQUALITIES_MAX
    }

    /// These pixels changed here.
    #[inline]
    pub(super) fn cut(&mut self, rect: &Rect) {
        if !self.list.is_empty() {
            self.cut_where(rect, |_| true);
        }
    }

    fn cut_where(&mut self, rect: &Rect, which: impl Fn(&Equality<T>) -> bool) {
        // What is left of one may stand behind it, and is passed over: it has nothing of `rect`.
        let mut i = 0;
        while i < self.list.len() {
            let equality = self.list[i];
            if !which(&equality) || !equality.rect.overlaps(rect) {
                i += 1;
                continue;
            }
            self.list.swap_remove(i);
            rects::for_each_piece(&equality.rect, rect, |piece| self.insert(Equality { rect: piece, ..equality }));
        }
    }

    /// A newer one takes the place of older ones with the same drawable.
    pub(super) fn add(&mut self, equality: Equality<T>) {
        if equality.rect.is_empty() {
            return;
        }
        self.cut_where(&equality.rect, |old| old.other == equality.other);
        self.insert(equality);
    }

    fn insert(&mut self, new: Equality<T>) {
        if self.list.len() < EQUALITIES_MAX {
            return self.list.push(new);
        }
        let smallest = self.list.iter_mut().min_by_key(|equality| equality.rect.area());
        if let Some(smallest) = smallest.filter(|smallest| smallest.rect.area() <= new.rect.area()) {
            *smallest = new;
        }
    }

    /// # Panics
    /// When a promise of this file is broken.
    pub(super) fn check_invariants(&self) {
        assert!(self.list.len() <= EQUALITIES_MAX, "at most {EQUALITIES_MAX} equalities a drawable");
        for (i, a) in self.list.iter().enumerate() {
            assert!(!a.rect.is_empty(), "an equality is of some pixels");
            for b in &self.list[i + 1..] {
                assert!(a.other != b.other || !a.rect.overlaps(&b.rect), "pixels equal another drawable's once");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equality(rect: Rect, other: u32, at: Stamp) -> Equality<u32> {
        Equality { rect, other, dx: 100, dy: 0, at }
    }

    #[test]
    fn a_drawing_ends_it_where_it_drew() {
        let mut equalities = Equalities::new();
        equalities.add(equality(Rect::new(0, 0, 30, 30), 1, 1));
        equalities.cut(&Rect::new(10, 10, 20, 20));
        equalities.check_invariants();
        assert_eq!(equalities.iter().map(|e| e.rect.area()).sum::<u64>(), 800);
        assert!(equalities.iter().all(|e| !e.rect.overlaps(&Rect::new(10, 10, 20, 20))));
    }

    #[test]
    fn the_newest_of_one_drawable_and_the_largest_of_all_stay() {
        let mut equalities = Equalities::new();
        equalities.add(equality(Rect::new(0, 0, 30, 30), 1, 1));
        equalities.add(equality(Rect::new(0, 0, 30, 30), 2, 2));
        equalities.add(equality(Rect::new(0, 0, 30, 10), 1, 3));
        equalities.check_invariants();
        assert_eq!(equalities.iter().count(), 3);
        for i in 0..20 {
            equalities.add(equality(Rect::at(0, 100 + 20 * i, 10 + i, 10), 3, 4));
            equalities.check_invariants();
        }
        assert!(equalities.is_full());
        assert!(equalities.iter().any(|e| (e.other, e.rect.area()) == (2, 900)), "the largest stays");
    }

    #[test]
    fn what_moves_is_still_equal_to_what_did_not() {
        let moved = equality(Rect::new(0, 0, 8, 8), 1, 1).moved(5, 6);
        assert_eq!((moved.rect, moved.there()), (Rect::new(5, 6, 13, 14), Rect::new(100, 0, 108, 8)));
    }
}
