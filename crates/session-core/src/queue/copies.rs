//! Path 5/13: beside command_queue.rs, which decides what may be a COPY.
//! The queued COPYs of one viewer, merged if fewer have the same effect, and the effect of a COPY
//! on stale pixels. Knows regions and vectors; never pixels, ages or sockets.

use std::collections::VecDeque;

use thinc_region::Region;

#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;

/// Most queued COPYs: more than the lines of a screen of text, after which no old line is left to
/// move.
pub(crate) const COPIES_MAX: usize = 64;
/// How many COPYs a new one may pass to merge with an earlier one: as many windows may scroll at
/// once.
const PASSED_MAX: usize = 4;

/// One COPY: a region and a vector, never clipped or split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// The destination.
    pub region: Region,
    /// Pixels moved right.
    pub dx: i32,
    /// Pixels moved down.
    pub dy: i32,
}

impl CopyCommand {
    /// The source region.
    pub fn source(&self) -> Region {
        self.region.translated(-self.dx, -self.dy)
    }

    /// Maps pixels that are stale before this COPY to those after it: copies of stale pixels are
    /// stale, overwritten ones no longer are.
    pub(crate) fn follow(&self, stale: &Region) -> Region {
        let mut derived = stale.translated(self.dx, self.dy);
        derived.intersect(&self.region);
        let mut after = stale.difference(&self.region);
        after.add(&derived);
        after
    }

    /// Neither reads or overwrites what the other writes: they may be applied in any order.
    fn commutes(&self, other: &CopyCommand) -> bool {
        !self.region.overlaps(&other.region)
            && !self.source().overlaps(&other.region)
            && !self.region.overlaps(&other.source())
    }
}

/// How it is known that a COPY has the effect of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A record of the screen's pixels moving.
    Recorded,
    /// The drawable maps: the drawn pixels are elsewhere on the screen. To be compared when there
    /// is time.
    Derived,
}

#[derive(Debug)]
struct QueuedCopy {
    copy: CopyCommand,
    proof: Proof,
}

/// What `Copies::take` returns.
#[derive(Debug, Default)]
pub(crate) struct TakenCopies {
    /// The COPYs, oldest first.
    pub(crate) copies: Vec<CopyCommand>,
    /// How many of them no record mentioned.
    pub(crate) derived: u64,
}

/// The queued COPYs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    queue: VecDeque<QueuedCopy>,
    /// Rectangles of all of them, which one update must contain.
    rects: usize,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Copies {
    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn rects(&self) -> usize {
        self.rects
    }

    /// Pixels that all of them write.
    pub(crate) fn area(&self) -> u64 {
        self.queue.iter().map(|queued| queued.copy.region.area()).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CopyCommand> {
        self.queue.iter().map(|queued| &queued.copy)
    }

    /// Never done outside the simulator.
    pub(crate) fn clip(&mut self, over: &Region) {
        for queued in &mut self.queue {
            self.rects -= queued.copy.region.rect_count();
            queued.copy.region.subtract(over);
            self.rects += queued.copy.region.rect_count();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.rects = 0;
    }

    /// Appends a COPY, or merges it with a queued one. `unwanted`: pixels whose value after all
    /// COPYs does not matter, because they are pending.
    pub(crate) fn push(&mut self, copy: CopyCommand, proof: Proof, unwanted: &[&Region]) {
        if mutated!(self.mutation, CopyIsSplit) {
            let (dx, dy) = (copy.dx, copy.dy);
            for &rect in copy.region.rects() {
                self.append(CopyCommand { region: rect.into(), dx, dy }, proof);
            }
            return;
        }
        for at in (0..self.queue.len()).rev().take(PASSED_MAX) {
            let between = self.queue.range(at + 1..).map(|queued| &queued.copy);
            let earlier = &self.queue[at].copy;
            let merged = self
                .together(earlier, &copy)
                .or_else(|| self.chained(earlier, &copy, between, unwanted));
            if let Some(merged) = merged {
                self.rects -= earlier.region.rect_count();
                let before = self.queue.remove(at).expect("the index was just used");
                let proof = if before.proof == Proof::Derived { Proof::Derived } else { proof };
                if merged.region.is_empty() || (merged.dx, merged.dy) == (0, 0) {
                    // Nothing is left to move.
                } else if at == self.queue.len() {
                    // The merged COPY may merge with the one before.
                    self.push(merged, proof, unwanted);
                } else {
                    self.rects += merged.region.rect_count();
                    self.queue.insert(at, QueuedCopy { copy: merged, proof });
                }
                return;
            }
            if !copy.commutes(&self.queue[at].copy) {
                break;
            }
        }
        self.append(copy, proof);
    }

    fn append(&mut self, copy: CopyCommand, proof: Proof) {
        self.rects += copy.region.rect_count();
        self.queue.push_back(QueuedCopy { copy, proof });
    }

    /// Takes all COPYs except those without a visible effect: `unwanted` is drawn over afterwards.
    pub(crate) fn take(&mut self, unwanted: Region) -> TakenCopies {
        let mut queue = std::mem::take(&mut self.queue);
        self.rects = 0;
        // From last to first: `dead` are the pixels that nothing reads after the COPY at hand. Kept
        // for each COPY that stays, last first.
        let mut dead = unwanted;
        let mut dead_after = Vec::with_capacity(queue.len());
        let mut i = queue.len();
        while i > 0 {
            i -= 1;
            let copy = &queue[i].copy;
            let mut wanted = copy.region.difference(&dead);
            if wanted.is_empty() {
                queue.remove(i);
                continue;
            }
            dead_after.push(dead.clone());
            wanted.translate(-copy.dx, -copy.dy);
            dead.add(&copy.region);
            dead.subtract(&wanted);
        }
        if queue.len() > 1 {
            // More pixels are unwanted now than when the COPYs were queued.
            for QueuedCopy { copy, proof } in queue.drain(..) {
                let unwanted = dead_after.pop().expect("each remaining COPY has an entry");
                self.push(copy, proof, &[&unwanted]);
            }
            std::mem::swap(&mut queue, &mut self.queue);
            self.rects = 0;
        }
        let derived = queue.iter().filter(|queued| queued.proof == Proof::Derived).count() as u64;
        let copies = queue.drain(..).map(|queued| queued.copy).collect();
        self.queue = queue;
        TakenCopies { copies, derived }
    }

    /// Two COPYs by one vector are one if the second reads nothing that the first writes and their
    /// regions are neighbours. Those of two windows stay apart, since one may scroll on without the
    /// other.
    fn together(&self, one: &CopyCommand, two: &CopyCommand) -> Option<CopyCommand> {
        if (one.dx, one.dy) != (two.dx, two.dy) {
            return None;
        }
        if one.region.overlaps(&two.source()) && !mutated!(self.mutation, MergeIgnoresOverlap) {
            return None;
        }
        let mut region = one.region.clone();
        region.add(&two.region);
        let simpler = region.rect_count() < one.region.rect_count() + two.region.rect_count();
        simpler.then_some(CopyCommand { region, ..*one })
    }

    /// A COPY to D and one from D are one by the sum of both vectors, if nothing else that the two
    /// write is wanted, and no COPY between them reads what the first wrote.
    fn chained<'a>(
        &self,
        one: &CopyCommand,
        two: &CopyCommand,
        mut between: impl Iterator<Item = &'a CopyCommand>,
        unwanted: &[&Region],
    ) -> Option<CopyCommand> {
        let mut region = one.region.translated(two.dx, two.dy);
        region.intersect(&two.region);
        if region.is_empty() && !one.region.overlaps(&two.region) {
            // They are unrelated.
            return None;
        }
        if region.rect_count() > one.region.rect_count() + two.region.rect_count() {
            // Columns that meet rows: merged they would have more rectangles, perhaps more than an
            // update may contain.
            return None;
        }
        let mut besides = one.region.clone();
        besides.add(&two.region);
        besides.subtract(&region);
        for unwanted in unwanted {
            besides.subtract(unwanted);
        }
        let lost = !besides.is_empty() || between.any(|copy| copy.source().overlaps(&one.region));
        if lost && !mutated!(self.mutation, ChainForgetsItsMiddle) {
            return None;
        }
        Some(CopyCommand { region, dx: one.dx + two.dx, dy: one.dy + two.dy })
    }
}
