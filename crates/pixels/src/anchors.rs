//! Path 8/13: from shift.rs and back.
//! Guesses by which vectors pixels moved: stretches of rows that the snapshot and the viewer show at different places.
//! Knows a sample of rows; whether a guess is right is for shift.rs to see, so a hash that lies costs time alone.

use thinc_region::{Rect, Region};

use crate::{RGB, Shadow, Snapshot};

/// How far pixels moved: to the right and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    pub(crate) dx: i32,
    pub(crate) dy: i32,
}

/// 32 steps from a pixel to the next are compared by their hash: four characters or so, which few lines share.
const REACH: usize = 32;
/// 8 steps decide whether such a stretch is looked at. They do so on both sides alike, wherever they lie: that is how two
/// pictures are sampled at the same places before anybody knows what moved where.
const WINDOW: usize = 8;
/// One row in so many is looked at in the snapshot.
const STEP: i32 = 16;
/// 256 Ki pixels: most that are looked at of what the viewer shows. Of a larger change every second, third … band of `STEP`
/// rows; whatever the vector, as many of the snapshot's rows fall into one.
const SHOWN_PIXELS_MAX: u64 = 256 * 1024;
/// Of all windows one in 2^4 is chosen at first; fewer where that is too many.
const LEVEL_MIN: u32 = 4;
const LEVEL_MAX: u32 = 20;
/// Most stretches of the snapshot, and of what the viewer shows; what a photograph has of them at a higher level is plenty.
const FOUND_MAX: usize = 4096;
const SHOWN_MAX: usize = 8192;
/// A stretch that is shown at more places says nothing about where it came from.
const PLACES_MAX: usize = 2;
/// Most guesses, and stretches that must agree on one.
const GUESSES_MAX: usize = 6;
const VOTES_MIN: usize = 3;

/// A stretch of a row of the snapshot.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// Hash of its window, whose upper bits choose it.
    window: u32,
    /// Hash of all of it.
    key: u32,
    x: i32,
    y: i32,
}

/// Where a stretch is shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    key: u32,
    /// How many of `places` are one; more than there are: too many.
    count: u32,
    places: [(i16, i16); PLACES_MAX],
}

/// Finds guesses; its working memory is kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    windows: Windows,
    found: Vec<Anchor>,
    /// By key, with linear probing; as many slots as a power of two, at least twice as many as entries.
    shown: Vec<Shown>,
    votes: Vec<u32>,
    ranks: Vec<(usize, u32)>,
}

impl Anchors {
    /// Leaves in `guesses` vectors by which pixels within the rectangles, which lie in the snapshot, may have moved; the
    /// likeliest first. Only what lies in `sure` can have been moved.
    pub(crate) fn guess(
        &mut self,
        rects: &[Rect],
        sure: &Region,
        snapshot: &Snapshot,
        shadow: &Shadow,
        guesses: &mut Vec<Vector>,
    ) {
        guesses.clear();
        let wide = || rects.iter().filter(|rect| rect.width() as usize > REACH);
        let area: u64 = wide().map(Rect::area).sum();
        let every = area.div_ceil(SHOWN_PIXELS_MAX).max(1) as i32;
        let mut level = self.look(wide(), snapshot);
        // As many of them are to be expected in the other picture as there are rows to look at.
        let mut expected = self.found.len() * STEP as usize / every as usize;
        while expected > SHOWN_MAX {
            level += 1;
            expected /= 2;
        }
        self.remember(wide(), sure, every, level, shadow);
        self.vote();
        guesses.extend(self.ranks.iter().map(|&(_, packed)| Vector::unpacked(packed)));
    }

    /// Collects the snapshot's stretches; returns the level at which they are few enough.
    fn look<'a>(&mut self, rects: impl Iterator<Item = &'a Rect>, snapshot: &Snapshot) -> u32 {
        let mut level = LEVEL_MIN;
        self.found.clear();
        for rect in rects {
            for y in (rect.y1..rect.y2).filter(|y| y % STEP == 0) {
                self.windows.choose(snapshot.row(rect.x1, rect.x2, y), level, |x, window, key| {
                    self.found.push(Anchor { window, key, x: rect.x1 + x as i32, y });
                });
                while self.found.len() > FOUND_MAX && level < LEVEL_MAX {
                    level += 1;
                    self.found.retain(|anchor| chosen(anchor.window, level));
                }
                if self.found.len() > FOUND_MAX {
                    // One window again and again: no level parts them.
                    self.found.truncate(FOUND_MAX);
                    return level;
                }
            }
        }
        level
    }

    /// Enters where stretches of that level are shown.
    fn remember<'a>(
        &mut self,
        rects: impl Iterator<Item = &'a Rect>,
        sure: &Region,
        every: i32,
        level: u32,
        shadow: &Shadow,
    ) {
        let slots = (self.found.len() * STEP as usize * 4).clamp(64, SHOWN_MAX * 2).next_power_of_two();
        let mut free = slots / 2;
        self.shown.clear();
        self.shown.resize(slots, Shown::default());
        for rect in rects {
            for rect in sure.rects().iter().map(|sure| sure.intersect(rect)).filter(|rect| !rect.is_empty()) {
                for y in (rect.y1..rect.y2).filter(|y| y / STEP % every == 0) {
                    self.windows.choose(shadow.row(rect.x1, rect.x2, y), level, |x, _, key| {
                        let slot = probe(&self.shown, key);
                        let shown = &mut self.shown[slot];
                        if shown.count == 0 {
                            if free == 0 {
                                return;
                            }
                            free -= 1;
                            shown.key = key;
                        }
                        if let Some(place) = shown.places.get_mut(shown.count as usize) {
                            *place = ((rect.x1 + x as i32) as i16, y as i16);
                        }
                        shown.count = (shown.count + 1).min(PLACES_MAX as u32 + 1);
                    });
                }
            }
        }
    }

    /// Ranks the vectors that take stretches from where they are shown to where the snapshot has them.
    fn vote(&mut self) {
        self.votes.clear();
        for anchor in &self.found {
            let shown = &self.shown[probe(&self.shown, anchor.key)];
            if let Some(places) = shown.places.get(..shown.count as usize) {
                let vectors = places.iter().map(|&(x, y)| (anchor.x - i32::from(x), anchor.y - i32::from(y)));
                let moved = vectors.filter(|&vector| vector != (0, 0));
                self.votes.extend(moved.map(|(dx, dy)| Vector { dx, dy }.packed()));
            }
        }
        self.votes.sort_unstable();
        self.ranks.clear();
        let ranked = self.votes.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0]));
        self.ranks.extend(ranked.filter(|&(votes, _)| votes >= VOTES_MIN));
        self.ranks.sort_unstable_by(|a, b| b.cmp(a));
        self.ranks.truncate(GUESSES_MAX);
    }
}

impl Vector {
    /// A screen's edge is at most 16384 pixels.
    fn packed(self) -> u32 {
        u32::from(self.dx as i16 as u16) << 16 | u32::from(self.dy as i16 as u16)
    }

    fn unpacked(packed: u32) -> Vector {
        Vector { dx: i32::from((packed >> 16) as i16), dy: i32::from(packed as i16) }
    }
}

/// The slot of a key, or where it belongs. One slot in two is free at least.
fn probe(shown: &[Shown], key: u32) -> usize {
    let mask = shown.len() - 1;
    let mut slot = key as usize & mask;
    while shown[slot].count != 0 && shown[slot].key != key {
        slot = (slot + 1) & mask;
    }
    slot
}

/// A window chosen at one level is chosen at every lower one; what is flat never, or it would be everywhere.
fn chosen(window: u32, level: u32) -> bool {
    window.wrapping_sub(1) >> (32 - level) == 0
}

/// Hashes of each window of a row, a sum of products that is made by doubling: of two steps from a pixel to the next, of
/// four, of eight. Steps, so that of what is flat the hash is 0.
#[derive(Debug, Default)]
struct Windows {
    twos: Vec<u32>,
    fours: Vec<u32>,
    eights: Vec<u32>,
}

impl Windows {
    /// Calls `take(x, window, key)` for each stretch that is chosen.
    fn choose(&mut self, row: &[u32], level: u32, mut take: impl FnMut(usize, u32, u32)) {
        if row.len() <= REACH {
            return;
        }
        self.hash(row);
        let starts = &self.eights[..row.len() - REACH];
        let (blocks, tail) = starts.as_chunks::<16>();
        let mut look = |first: usize, windows: &[u32]| {
            for (x, &window) in (first..).zip(windows).filter(|(_, window)| chosen(**window, level)) {
                take(x, window, self.key(x));
            }
        };
        for (block, windows) in blocks.iter().enumerate() {
            // In most blocks none is, and no branch a pixel to see it.
            if windows.iter().fold(0, |any, &window| any | u32::from(chosen(window, level))) != 0 {
                look(block * 16, windows);
            }
        }
        look(starts.len() - tail.len(), tail);
    }

    fn hash(&mut self, row: &[u32]) {
        let steps = row.iter().zip(&row[1..]).zip(&row[2..]).map(|((a, b), c)| ((a ^ b) & RGB, (b ^ c) & RGB));
        self.twos.clear();
        self.twos.extend(steps.map(|(a, b)| joined(a, b, 5)));
        self.fours.clear();
        self.fours.extend(self.twos.iter().zip(&self.twos[2..]).map(|(&a, &b)| joined(a, b, 11)));
        self.eights.clear();
        self.eights.extend(self.fours.iter().zip(&self.fours[4..]).map(|(&a, &b)| joined(a, b, 19)));
    }

    /// Hash of the stretch from `x`.
    fn key(&self, x: usize) -> u32 {
        let windows = self.eights[x..=x + REACH - WINDOW].iter().step_by(WINDOW);
        let key = windows.fold(0u32, |key, &window| (key ^ window).rotate_left(13).wrapping_mul(0x85eb_ca6b));
        key ^ key >> 15
    }
}

/// Two hashes in one: the first times an odd number, which a shift and an addition make.
#[inline]
fn joined(a: u32, b: u32, shift: u32) -> u32 {
    a.wrapping_add(a << shift).wrapping_add(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_over_the_largest_screen_fits_its_half_words() {
        for (dx, dy) in [(16383, -16383), (-1, 1), (0, -16383), (-16383, 0)] {
            assert_eq!(Vector::unpacked(Vector { dx, dy }.packed()), Vector { dx, dy });
        }
    }

    #[test]
    fn the_same_stretches_are_chosen_wherever_they_lie_and_fewer_at_each_level() {
        let row: Vec<u32> = (0..2000u32).map(|x| (x / 7).wrapping_mul(0x9e37_79b1) >> 8).collect();
        let chosen = |row: &[u32], level| {
            let mut found = Vec::new();
            Windows::default().choose(row, level, |x, window, key| found.push((x, window, key)));
            found
        };
        let mut more = chosen(&row, LEVEL_MIN);
        assert!(!more.is_empty());
        let moved: Vec<_> =
            chosen(&row[13..], LEVEL_MIN).into_iter().map(|(x, window, key)| (x + 13, window, key)).collect();
        assert!(more.ends_with(&moved) && moved.len() * 10 >= more.len() * 9, "13 pixels further left");
        for level in LEVEL_MIN + 1..LEVEL_MAX {
            let fewer = chosen(&row, level);
            assert!(fewer.iter().all(|anchor| more.contains(anchor)), "level {level} chooses of those before it");
            more = fewer;
        }
        assert!(chosen(&[0x12_3456; 500], LEVEL_MIN).is_empty(), "what is flat has no stretches");
    }
}
