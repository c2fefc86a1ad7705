//! Path 4/13: beside equal.rs.
//! Where and when one drawable changed recently: drawables that held the same pixels check here
//! whether they still do. Knows rectangles and stamps; never who asks, so that a change costs the
//! same for any number of them.

use thinc_region::Rect;

use super::rects;

/// Most changes that are remembered; past it two become one that is larger and newer than either,
/// which may end a valid equality, and never keeps an invalid one.
const CHANGES_MAX: usize = 16;
/// Most rectangles of an answer; past it the smallest count as changed.
const UNCHANGED_RECTS_MAX: usize = 16;

/// Counts the changes of drawables: greater is later, and each change has its own.
pub(super) type Stamp = u64;

#[derive(Clone, Copy, Debug)]
struct Change {
    rect: Rect,
    at: Stamp,
}

/// Where one drawable changed.
#[derive(Debug)]
pub(super) struct Changes {
    /// Oldest first.
    list: Vec<Change>,
    /// Nothing is known of the time before.
    since: Stamp,
    /// No equality refers to this drawable as it was after this.
    referenced_at: Stamp,
}

impl Changes {
    /// For a drawable whose pixels are unknown before `since`.
    pub(super) fn new(since: Stamp) -> Changes {
        Changes { list: Vec::with_capacity(CHANGES_MAX + 1), since, referenced_at: 0 }
    }

    /// All of it changed.
    pub(super) fn forget(&mut self, now: Stamp) {
        self.list.clear();
        self.since = now;
        self.referenced_at = 0;
    }

    /// An equality refers to this drawable as it is at `at`.
    pub(super) fn reference(&mut self, at: Stamp) {
        self.referenced_at = self.referenced_at.max(at);
    }

    /// `rect` changed.
    pub(super) fn note(&mut self, rect: &Rect, now: Stamp) {
        if self.referenced_at == 0 {
            // No equality refers to this drawable; future ones refer to its present pixels.
            return;
        }
        // A change after the last reference ends every equality, whatever its exact stamp.
        for change in self.list.iter_mut().rev() {
            if change.at <= self.referenced_at {
                break;
            }
            let both = change.rect.bound(rect);
            if both.area() <= change.rect.area() + rect.area() {
                change.rect = both;
                return;
            }
        }
        // Changes inside of this one are included in it.
        self.list.retain(|change| !rect.contains(&change.rect));
        self.list.push(Change { rect: *rect, at: now });
        if self.list.len() > CHANGES_MAX {
            self.join_two();
        }
    }

    /// Joins the two that waste the least area, as the newer of them.
    fn join_two(&mut self) {
        let mut best = (u64::MAX, 0, 1);
        for (newer, two) in self.list.iter().enumerate() {
            for (older, one) in self.list[..newer].iter().enumerate() {
                let waste = one
                    .rect
                    .bound(&two.rect)
                    .area()
                    .saturating_sub(one.rect.area() + two.rect.area());
                best = best.min((waste, older, newer));
            }
        }
        let (_, older, newer) = best;
        self.list[newer].rect = self.list[newer].rect.bound(&self.list[older].rect);
        self.list.remove(older);
    }

    /// Leaves in `out` the parts of `rect` that did not change after `at`.
    pub(super) fn unchanged_since(&self, rect: &Rect, at: Stamp, out: &mut Vec<Rect>) {
        out.clear();
        if rect.is_empty() || at < self.since {
            return;
        }
        out.push(*rect);
        for change in self.list.iter().rev().take_while(|change| change.at > at) {
            rects::subtract(out, &change.rect);
        }
        while out.len() > UNCHANGED_RECTS_MAX {
            let smallest = (0..out.len()).min_by_key(|&i| out[i].area()).unwrap_or(0);
            out.swap_remove(smallest);
        }
    }

    /// # Panics
    /// If an invariant of this file does not hold.
    pub(super) fn check_invariants(&self) {
        assert!(self.list.len() <= CHANGES_MAX, "at most {CHANGES_MAX} changes are remembered");
        assert!(self.list.windows(2).all(|pair| pair[0].at <= pair[1].at), "changes are in order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still(changes: &Changes, rect: Rect, at: Stamp) -> u64 {
        let mut out = Vec::new();
        changes.unchanged_since(&rect, at, &mut out);
        out.iter().map(Rect::area).sum()
    }

    #[test]
    fn only_later_changes_count() {
        let mut changes = Changes::new(1);
        changes.reference(2);
        changes.note(&Rect::at(0, 0, 10, 10), 3);
        changes.reference(3);
        changes.note(&Rect::at(10, 0, 10, 10), 4);
        let all = Rect::at(0, 0, 20, 10);
        assert_eq!(still(&changes, all, 0), 0, "before anything is known");
        assert_eq!(still(&changes, all, 2), 0);
        assert_eq!(
            still(&changes, all, 3),
            100,
            "neighbours join only without a reference in between"
        );
        assert_eq!(still(&changes, all, 4), 200);
    }

    #[test]
    fn a_line_of_text_is_one_change() {
        let mut changes = Changes::new(1);
        changes.reference(1);
        (0..100).for_each(|i| changes.note(&Rect::at(i * 8, 0, 8, 16), 2 + i as u64));
        assert_eq!(changes.list.len(), 1);
    }

    #[test]
    fn past_the_bound_more_counts_as_changed_and_never_less() {
        let mut changes = Changes::new(1);
        let mut referenced_at = Vec::new();
        let far = Rect::at(5000, 5000, 10, 10);
        for i in 0..200u64 {
            let now = 2 + i;
            let rect = Rect::at((i as i32 * 37) % 400, (i as i32 * 91) % 300, 5, 5);
            changes.note(&rect, now);
            changes.check_invariants();
            changes.reference(now);
            referenced_at.push((rect, now));
        }
        for &(_, at) in &referenced_at {
            for &(rect, _) in referenced_at.iter().filter(|(_, later)| *later > at) {
                assert_eq!(
                    still(&changes, rect, at),
                    0,
                    "pixels that changed after {at} are not reported as unchanged"
                );
            }
            assert_eq!(still(&changes, far, at), 100);
        }
    }

    /// A fading scrollbar, a fading edge and a caret: dozens of frames, three rectangles.
    #[test]
    fn a_repeated_change_is_remembered_once() {
        let mut changes = Changes::new(1);
        let fading =
            [Rect::new(632, 0, 638, 425), Rect::new(0, 419, 638, 425), Rect::new(109, 38, 112, 56)];
        for i in 0..200usize {
            changes.reference(1 + i as u64);
            changes.note(&fading[i % 3], 2 + i as u64);
        }
        assert_eq!(changes.list.len(), 3);
        assert_eq!(still(&changes, Rect::new(0, 60, 632, 419), 1), 632 * 359);
    }

    #[test]
    fn a_drawable_without_references_remembers_nothing() {
        let mut changes = Changes::new(1);
        changes.note(&Rect::at(0, 0, 10, 10), 2);
        assert!(changes.list.is_empty());
    }
}
