//! Path 4/13: beside changes.rs.
//! Which rectangles of other drawables had identical pixels at a given stamp. Knows its own
//! drawable's changes, which end an equality; those of the other are checked in its changes.rs.

use thinc_region::Rect;

use super::changes::Stamp;
use super::rects;

/// Most equalities of a drawable with the screen, and with pixmaps: the panes of a window, or the
/// windows in a compositor's pixmap. Past it the smallest is forgotten.
const EQUALITIES_MAX: usize = 8;

/// Two rectangles that held the same pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Equality<T> {
    /// The rectangle in this drawable.
    pub(super) rect: Rect,
    /// The other drawable.
    pub(super) other: T,
    /// Offset of the other's rectangle.
    pub(super) dx: i32,
    /// Offset down.
    pub(super) dy: i32,
    /// When they were equal.
    pub(super) at: Stamp,
}

impl<T: Copy> Equality<T> {
    /// The part inside of `rect`.
    pub(super) fn within(&self, rect: &Rect) -> Equality<T> {
        Equality { rect: self.rect.intersect(rect), ..*self }
    }

    /// The rectangle in the other drawable.
    pub(super) fn there(&self) -> Rect {
        self.rect.translate(self.dx, self.dy)
    }

    /// The equality of pixels that were moved by a vector in this drawable.
    pub(super) fn moved(&self, dx: i32, dy: i32) -> Equality<T> {
        Equality { rect: self.rect.translate(dx, dy), dx: self.dx - dx, dy: self.dy - dy, ..*self }
    }
}

/// The equalities of one drawable.
#[derive(Debug)]
pub(super) struct KnownCopies<T> {
    list: Vec<Equality<T>>,
}

impl<T: Copy + PartialEq> KnownCopies<T> {
    pub(super) fn new() -> KnownCopies<T> {
        KnownCopies { list: Vec::with_capacity(EQUALITIES_MAX) }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// In no order; none overlaps another with the same drawable.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Equality<T>> {
        self.list.iter()
    }

    /// By index, for callers that change something else meanwhile.
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
        // A remaining piece may be appended after this index, and is skipped: it does not overlap
        // `rect`.
        let mut i = 0;
        while i < self.list.len() {
            let equality = self.list[i];
            if !which(&equality) || !equality.rect.overlaps(rect) {
                i += 1;
                continue;
            }
            self.list.swap_remove(i);
            rects::for_each_piece(&equality.rect, rect, |piece| {
                self.insert(Equality { rect: piece, ..equality })
            });
        }
    }

    /// A newer one replaces older ones with the same drawable.
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
        if let Some(smallest) = smallest.filter(|smallest| smallest.rect.area() <= new.rect.area())
        {
            *smallest = new;
        }
    }

    /// # Panics
    /// If an invariant of this file does not hold.
    pub(super) fn check_invariants(&self) {
        assert!(
            self.list.len() <= EQUALITIES_MAX,
            "at most {EQUALITIES_MAX} equalities a drawable"
        );
        for (i, a) in self.list.iter().enumerate() {
            assert!(!a.rect.is_empty(), "an equality has pixels");
            for b in &self.list[i + 1..] {
                assert!(
                    a.other != b.other || !a.rect.overlaps(&b.rect),
                    "equalities with one drawable are disjoint"
                );
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
    fn a_drawing_ends_an_equality_where_it_drew() {
        let mut equalities = KnownCopies::new();
        equalities.add(equality(Rect::new(0, 0, 30, 30), 1, 1));
        equalities.cut(&Rect::new(10, 10, 20, 20));
        equalities.check_invariants();
        assert_eq!(equalities.iter().map(|e| e.rect.area()).sum::<u64>(), 800);
        assert!(equalities.iter().all(|e| !e.rect.overlaps(&Rect::new(10, 10, 20, 20))));
    }

    #[test]
    fn the_newest_of_one_drawable_and_the_largest_of_all_stay() {
        let mut equalities = KnownCopies::new();
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
        assert!(
            equalities.iter().any(|e| (e.other, e.rect.area()) == (2, 900)),
            "the largest stays"
        );
    }

    #[test]
    fn moved_pixels_stay_equal_to_those_that_did_not_move() {
        let moved = equality(Rect::new(0, 0, 8, 8), 1, 1).moved(5, 6);
        assert_eq!(
            (moved.rect, moved.there()),
            (Rect::new(5, 6, 13, 14), Rect::new(100, 0, 108, 8))
        );
    }
}
