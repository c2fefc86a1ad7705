//! Path 5/13: beside command_queue.rs, which decides what may be a COPY at all.
//! The COPYs that wait for one viewer, merged where fewer say the same, and what a COPY does to pixels that are lacking.
//! Knows regions and vectors; never pixels, ages or sockets.

use std::collections::VecDeque;

use thinc_region::Region;

use crate::mutation::{Broken, Mutation};

/// Most COPYs that wait: more lines than a screen of text scrolls by, after which nothing old is left to move.
pub(crate) const COPIES_MAX: usize = 64;
/// How many COPYs a new one may pass on its way to one that it merges with: as many windows may scroll at once.
const PASSED_MAX: usize = 4;

/// One COPY: a region and a vector, never clipped or split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// Where the pixels go.
    pub region: Region,
    /// Pixels moved right.
    pub dx: i32,
    /// Pixels moved down.
    pub dy: i32,
}

impl CopyCommand {
    /// Where the pixels come from.
    pub fn source(&self) -> Region {
        self.region.translated(-self.dx, -self.dy)
    }

    /// `lacking` after this COPY was applied: what came from there lacks as well, what was covered does no more.
    pub fn follow(&self, lacking: &Region) -> Region {
        let mut derived = lacking.translated(self.dx, self.dy);
        derived.intersect(&self.region);
        let mut after = lacking.difference(&self.region);
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

/// How it is known that a COPY shows what was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A record says that the screen's pixels moved.
    Recorded,
    /// The drawable maps say that the pixels drawn are on the screen elsewhere: to be compared when there is time.
    Derived,
}

#[derive(Debug)]
struct Queued {
    copy: CopyCommand,
    proof: Proof,
}

/// What `Copies::take` gives.
#[derive(Debug, Default)]
pub struct Taken {
    /// The COPYs, oldest first.
    pub copies: Vec<CopyCommand>,
    /// How many of them no record told of.
    pub derived: u64,
}

/// The COPYs that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    queue: VecDeque<Queued>,
    /// Rectangles of all of them, which one update must hold.
    rects: usize,
    broken: Broken,
}

impl Copies {
    pub(crate) fn new(broken: Broken) -> Copies {
        Copies { broken, ..Copies::default() }
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CopyCommand> {
        self.queue.iter().map(|queued| &queued.copy)
    }

    /// What no queue may do.
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

    /// Appends a COPY, or makes one that waits do for both. `unwanted`: pixels whose value after all COPYs is nothing to
    /// anybody, because they are pending.
    pub(crate) fn push(&mut self, copy: CopyCommand, proof: Proof, unwanted: &[&Region]) {
        if self.broken.is(Mutation::CopyIsSplit) {
            let (dx, dy) = (copy.dx, copy.dy);
            for &rect in copy.region.rects() {
                self.append(CopyCommand { region: rect.into(), dx, dy }, proof);
            }
            return;
        }
        for at in (0..self.queue.len()).rev().take(PASSED_MAX) {
            let between = self.queue.range(at + 1..).map(|queued| &queued.copy);
            let earlier = &self.queue[at].copy;
            let merged = together(earlier, &copy, self.broken)
                .or_else(|| chained(earlier, &copy, between, unwanted, self.broken));
            if let Some(merged) = merged {
                self.rects -= earlier.region.rect_count();
                let before = self.queue.remove(at).expect("its place is known");
                let proof = if before.proof == Proof::Derived { Proof::Derived } else { proof };
                if merged.region.is_empty() || (merged.dx, merged.dy) == (0, 0) {
                    // Nothing is left to move.
                } else if at == self.queue.len() {
                    // What is one now may be one with what was before.
                    self.push(merged, proof, unwanted);
                } else {
                    self.rects += merged.region.rect_count();
                    self.queue.insert(at, Queued { copy: merged, proof });
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
        self.queue.push_back(Queued { copy, proof });
    }

    /// Takes them all, less those that nobody will see anything of: `unwanted` is what is drawn over afterwards.
    pub(crate) fn take(&mut self, unwanted: Region) -> Taken {
        let mut queue = std::mem::take(&mut self.queue);
        self.rects = 0;
        // Walking back: `dead` is what nobody will look at after the COPY at hand. Kept for each that is wanted, last first.
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
            // More is unwanted now than when they came.
            for Queued { copy, proof } in queue.drain(..) {
                let unwanted = dead_after.pop().expect("there is one for each");
                self.push(copy, proof, &[&unwanted]);
            }
            std::mem::swap(&mut queue, &mut self.queue);
            self.rects = 0;
        }
        let derived = queue.iter().filter(|queued| queued.proof == Proof::Derived).count() as u64;
        let copies = queue.drain(..).map(|queued| queued.copy).collect();
        self.queue = queue;
        Taken { copies, derived }
    }
}

/// Two COPYs by one vector, of which the second reads nothing that the first writes, are one where their regions are
/// neighbours. Those of two windows stay apart: one may scroll on without the other.
fn together(one: &CopyCommand, two: &CopyCommand, broken: Broken) -> Option<CopyCommand> {
    if (one.dx, one.dy) != (two.dx, two.dy) {
        return None;
    }
    if one.region.overlaps(&two.source()) && !broken.is(Mutation::MergeIgnoresOverlap) {
        return None;
    }
    let mut region = one.region.clone();
    region.add(&two.region);
    let simpler = region.rect_count() < one.region.rect_count() + two.region.rect_count();
    simpler.then_some(CopyCommand { region, ..*one })
}

/// A COPY to D and one from D are one by both vectors, where all that the two write besides is unwanted, and no COPY
/// between them reads what the first wrote.
fn chained<'a>(
    one: &CopyCommand,
    two: &CopyCommand,
    mut between: impl Iterator<Item = &'a CopyCommand>,
    unwanted: &[&Region],
    broken: Broken,
) -> Option<CopyCommand> {
    let mut region = one.region.translated(two.dx, two.dy);
    region.intersect(&two.region);
    if region.is_empty() && !one.region.overlaps(&two.region) {
        // They have nothing to do with each other.
        return None;
    }
    if region.rect_count() > one.region.rect_count() + two.region.rect_count() {
        // Columns that meet rows: as one they would be more, and more than an update may hold.
        return None;
    }
    let mut besides = one.region.clone();
    besides.add(&two.region);
    besides.subtract(&region);
    for unwanted in unwanted {
        besides.subtract(unwanted);
    }
    let lost = !besides.is_empty() || between.any(|copy| copy.source().overlaps(&one.region));
    if lost && !broken.is(Mutation::ChainForgetsItsMiddle) {
        return None;
    }
    Some(CopyCommand { region, dx: one.dx + two.dx, dy: one.dy + two.dy })
}
