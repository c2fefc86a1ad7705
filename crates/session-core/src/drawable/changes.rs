//! Path 4/13: beside equal.rs.
//! Where and when one drawable changed lately: whoever held the same pixels looks here whether it still does.
//! Knows rectangles and stamps; never who asks, so that a change costs the same however many might.

use thinc_region::Rect;

use super::rects;

/// Most changes told apart; past it two become one that is larger and newer than either, which may end an equality that
/// still holds, and never keeps one that does not.
const CHANGES_MAX: usize = 16;
/// Most rectangles of an answer; past it the smallest are taken for changed.
const STILL_MAX: usize = 16;

/// Counts what happened to drawables: greater is later, and nothing happens twice at one stamp.
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
    /// Nothing is known of what was before.
    since: Stamp,
    /// Nobody was ever told to be equal to it after this.
    told: Stamp,
}

impl Changes {
    /// Of a drawable whose pixels at `since` are the first of which anything is known.
    pub(super) fn new(since: Stamp) -> Changes {
        Changes { list: Vec::with_capacity(CHANGES_MAX + 1), since, told: 0 }
    }

    /// All of it changed.
    pub(super) fn forget(&mut self, now: Stamp) {
        self.list.clear();
        self.since = now;
        self.told = 0;
    }

    /// Somebody is told to be equal to some of it as it is at `at`.
    pub(super) fn tell(&mut self, at: Stamp) {
        self.told = self.told.max(at);
    }

    /// `rect` changed.
    pub(super) fn note(&mut self, rect: &Rect, now: Stamp) {
        if self.told == 0 {
            // Nobody will ask: who is told from now on is told of what it is now.
            return;
        }
        // A change after the last telling ends every equality, whenever after it was: one stamp is as good as another.
        for change in self.list.iter_mut().rev() {
            if change.at <= self.told {
                break;
            }
            let both = change.rect.bound(rect);
            if both.area() <= change.rect.area() + rect.area() {
                change.rect = both;
                return;
            }
        }
        // What ended where this one ends, or within, is ended by this one as well.
        self.list.retain(|change| !rect.contains(&change.rect));
        self.list.push(Change { rect: *rect, at: now });
        if self.list.len() > CHANGES_MAX {
            self.join_two();
        }
    }

    /// Joins the two that lose the least, as the newer of them.
    fn join_two(&mut self) {
        let mut best = (u64::MAX, 0, 1);
        for (newer, two) in self.list.iter().enumerate() {
            for (older, one) in self.list[..newer].iter().enumerate() {
                let waste = one.rect.bound(&two.rect).area().saturating_sub(one.rect.area() + two.rect.area());
                best = best.min((waste, older, newer));
            }
        }
        let (_, older, newer) = best;
        self.list[newer].rect = self.list[newer].rect.bound(&self.list[older].rect);
        self.list.remove(older);
    }

    /// Leaves in `out` the parts of `rect` that did not change after `at`.
    pub(super) fn still(&self, rect: &Rect, at: Stamp, out: &mut Vec<Rect>) {
        out.clear();
        if rect.is_empty() || at < self.since {
            return;
        }
        out.push(*rect);
        for change in self.list.iter().rev().take_while(|change| change.at > at) {
            rects::subtract(out, &change.rect);
        }
        while out.len() > STILL_MAX {
            let smallest = (0..out.len()).min_by_key(|&i| out[i].area()).unwrap_or(0);
            out.swap_remove(smallest);
        }
    }

    /// # Panics
    /// When a promise of this file is broken.
    pub(super) fn check_invariants(&self) {
        assert!(self.list.len() <= CHANGES_MAX, "at most {CHANGES_MAX} changes are told apart");
        assert!(self.list.windows(2).all(|pair| pair[0].at <= pair[1].at), "changes stand in their order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still(changes: &Changes, rect: Rect, at: Stamp) -> u64 {
        let mut out = Vec::new();
        changes.still(&rect, at, &mut out);
        out.iter().map(Rect::area).sum()
    }

    #[test]
    fn only_what_changed_later_counts() {
        let mut changes = Changes::new(1);
        changes.tell(2);
        changes.note(&Rect::at(0, 0, 10, 10), 3);
        changes.tell(3);
        changes.note(&Rect::at(10, 0, 10, 10), 4);
        let all = Rect::at(0, 0, 20, 10);
        assert_eq!(still(&changes, all, 0), 0, "before anything is known");
        assert_eq!(still(&changes, all, 2), 0);
        assert_eq!(still(&changes, all, 3), 100, "neighbours are joined only where nobody was told in between");
        assert_eq!(still(&changes, all, 4), 200);
    }

    #[test]
    fn a_line_of_text_is_one_change() {
        let mut changes = Changes::new(1);
        changes.tell(1);
        (0..100).for_each(|i| changes.note(&Rect::at(i * 8, 0, 8, 16), 2 + i as u64));
        assert_eq!(changes.list.len(), 1);
    }

    #[test]
    fn past_the_bound_more_is_taken_for_changed_and_never_less() {
        let mut changes = Changes::new(1);
        let mut told = Vec::new();
        let far = Rect::at(5000, 5000, 10, 10);
        for i in 0..200u64 {
            let now = 2 + i;
            let rect = Rect::at((i as i32 * 37) % 400, (i as i32 * 91) % 300, 5, 5);
            changes.note(&rect, now);
            changes.check_invariants();
            changes.tell(now);
            told.push((rect, now));
        }
        for &(_, at) in &told {
            for &(rect, _) in told.iter().filter(|(_, later)| *later > at) {
                assert_eq!(still(&changes, rect, at), 0, "what changed after {at} is not still what it was");
            }
            assert_eq!(still(&changes, far, at), 100);
        }
    }

    /// A scrollbar and a view's edge that fade, and a caret: dozens of frames, three rectangles.
    #[test]
    fn what_changes_again_and_again_is_remembered_once() {
        let mut changes = Changes::new(1);
        let fading = [Rect::new(632, 0, 638, 425), Rect::new(0, 419, 638, 425), Rect::new(109, 38, 112, 56)];
        for i in 0..200usize {
            changes.tell(1 + i as u64);
            changes.note(&fading[i % 3], 2 + i as u64);
        }
        assert_eq!(changes.list.len(), 3);
        assert_eq!(still(&changes, Rect::new(0, 60, 632, 419), 1), 632 * 359);
    }

    #[test]
    fn a_drawable_that_nobody_knows_remembers_nothing() {
        let mut changes = Changes::new(1);
        changes.note(&Rect::at(0, 0, 10, 10), 2);
        assert!(changes.list.is_empty());
    }
}
