//! Path 8/13: under shift.rs.
//! Proposes vectors by which pixels may have moved: runs of pixels that occur in the snapshot and
//! in the viewer's shadow at different positions.
//! Knows a sample of rows. shift.rs verifies each candidate, so a hash collision only costs time.

use thinc_region::{Rect, Region};

use crate::{RGB, Shadow, Snapshot};

/// A displacement of pixels: to the right and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    pub(crate) dx: i32,
    pub(crate) dy: i32,
}

/// 32 differences between neighbouring pixels are hashed to a run's key: about four characters,
/// which few lines share.
const RUN: usize = 32;
/// 8 differences decide whether a run is sampled. The decision depends on content and not on
/// position, so both images are sampled at corresponding positions before the vector is known.
const WINDOW: usize = 8;
/// One row in 16 of the snapshot is sampled.
const ROW_STEP: i32 = 16;
/// 256 Ki pixels: most of the shadow that is searched. Of a larger change only every second, third
/// … band of `ROW_STEP` rows is; whatever the vector, each band contains a sampled row.
const SOURCE_PIXELS_MAX: u64 = 256 * 1024;
/// One window in 2^4 is sampled at first; fewer if that yields too many.
const LEVEL_MIN: u32 = 4;
const LEVEL_MAX: u32 = 20;
/// Most runs of the snapshot, and of the shadow; a photograph has enough at a higher level.
const SAMPLES_MAX: usize = 4096;
const SOURCES_MAX: usize = 8192;
/// A run that occurs at more positions of the shadow is ambiguous.
const POSITIONS_MAX: usize = 2;
/// Most candidates, and the runs that must agree on one.
const CANDIDATES_MAX: usize = 6;
const VOTES_MIN: usize = 3;

/// A sampled run of pixels in a row of the snapshot.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Hash of its window, whose upper bits decide whether it is sampled.
    window: u32,
    /// Hash of the whole run.
    key: u32,
    x: i32,
    y: i32,
}

/// Positions of a run in the shadow.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    key: u32,
    /// Used entries of `positions`; a larger number means too many positions.
    count: u32,
    positions: [(i16, i16); POSITIONS_MAX],
}

/// Finds candidates; it reuses its working memory.
#[derive(Debug, Default)]
pub(crate) struct VectorCandidates {
    windows: Windows,
    samples: Vec<Sample>,
    /// Hash table by key with linear probing; its length is a power of two and at least twice the
    /// number of entries.
    sources: Vec<Source>,
    votes: Vec<u32>,
    ranks: Vec<(usize, u32)>,
}

impl VectorCandidates {
    /// Sets `candidates` to vectors by which pixels within the rectangles, which lie in the
    /// snapshot, may have moved; the likeliest first. Sources lie in `certain`.
    pub(crate) fn find(
        &mut self,
        rects: &[Rect],
        certain: &Region,
        snapshot: &Snapshot,
        shadow: &Shadow,
        candidates: &mut Vec<Vector>,
    ) {
        candidates.clear();
        let wide = || rects.iter().filter(|rect| rect.width() as usize > RUN);
        let area: u64 = wide().map(Rect::area).sum();
        let every = area.div_ceil(SOURCE_PIXELS_MAX).max(1) as i32;
        let mut level = self.sample(wide(), snapshot);
        // The shadow is expected to have as many runs, scaled by the number of searched rows.
        let mut expected = self.samples.len() * ROW_STEP as usize / every as usize;
        while expected > SOURCES_MAX {
            level += 1;
            expected /= 2;
        }
        self.index(wide(), certain, every, level, shadow);
        self.vote();
        candidates.extend(self.ranks.iter().map(|&(_, packed)| Vector::unpacked(packed)));
    }

    /// Samples the snapshot's runs; returns the level at which they are few enough.
    fn sample<'a>(&mut self, rects: impl Iterator<Item = &'a Rect>, snapshot: &Snapshot) -> u32 {
        let mut level = LEVEL_MIN;
        self.samples.clear();
        for rect in rects {
            for y in (rect.y1..rect.y2).filter(|y| y % ROW_STEP == 0) {
                self.windows.sample(snapshot.row(rect.x1, rect.x2, y), level, |x, window, key| {
                    self.samples.push(Sample { window, key, x: rect.x1 + x as i32, y });
                });
                while self.samples.len() > SAMPLES_MAX && level < LEVEL_MAX {
                    level += 1;
                    self.samples.retain(|sample| is_sampled(sample.window, level));
                }
                if self.samples.len() > SAMPLES_MAX {
                    // The same window repeats: no level reduces them.
                    self.samples.truncate(SAMPLES_MAX);
                    return level;
                }
            }
        }
        level
    }

    /// Indexes the runs of the shadow at that level.
    fn index<'a>(
        &mut self,
        rects: impl Iterator<Item = &'a Rect>,
        certain: &Region,
        every: i32,
        level: u32,
        shadow: &Shadow,
    ) {
        let slots = (self.samples.len() * ROW_STEP as usize * 4)
            .clamp(64, SOURCES_MAX * 2)
            .next_power_of_two();
        let mut free = slots / 2;
        self.sources.clear();
        self.sources.resize(slots, Source::default());
        for rect in rects {
            for rect in certain
                .rects()
                .iter()
                .map(|part| part.intersect(rect))
                .filter(|rect| !rect.is_empty())
            {
                for y in (rect.y1..rect.y2).filter(|y| y / ROW_STEP % every == 0) {
                    self.windows.sample(shadow.row(rect.x1, rect.x2, y), level, |x, _, key| {
                        let slot = probe(&self.sources, key);
                        let source = &mut self.sources[slot];
                        if source.count == 0 {
                            if free == 0 {
                                return;
                            }
                            free -= 1;
                            source.key = key;
                        }
                        if let Some(position) = source.positions.get_mut(source.count as usize) {
                            *position = ((rect.x1 + x as i32) as i16, y as i16);
                        }
                        source.count = (source.count + 1).min(POSITIONS_MAX as u32 + 1);
                    });
                }
            }
        }
    }

    /// Ranks the vectors from runs of the shadow to equal runs of the snapshot.
    fn vote(&mut self) {
        self.votes.clear();
        for sample in &self.samples {
            let source = &self.sources[probe(&self.sources, sample.key)];
            if let Some(positions) = source.positions.get(..source.count as usize) {
                let vectors = positions
                    .iter()
                    .map(|&(x, y)| (sample.x - i32::from(x), sample.y - i32::from(y)));
                let moved = vectors.filter(|&vector| vector != (0, 0));
                self.votes.extend(moved.map(|(dx, dy)| Vector { dx, dy }.packed()));
            }
        }
        self.votes.sort_unstable();
        self.ranks.clear();
        let ranked = self.votes.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0]));
        self.ranks.extend(ranked.filter(|&(votes, _)| votes >= VOTES_MIN));
        self.ranks.sort_unstable_by(|a, b| b.cmp(a));
        self.ranks.truncate(CANDIDATES_MAX);
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

/// The entry of a key, or the free one where it belongs. At least half of the entries are free.
fn probe(sources: &[Source], key: u32) -> usize {
    let mask = sources.len() - 1;
    let mut slot = key as usize & mask;
    while sources[slot].count != 0 && sources[slot].key != key {
        slot = (slot + 1) & mask;
    }
    slot
}

/// True if a window is sampled at this level; then it is at every lower one. Flat windows are never
/// sampled, because they are everywhere.
fn is_sampled(window: u32, level: u32) -> bool {
    window.wrapping_sub(1) >> (32 - level) == 0
}

/// Rolling hashes of all windows of a row, computed by doubling: of two differences between
/// neighbouring pixels, of four, of eight. Differences make the hash of a flat window 0.
#[derive(Debug, Default)]
struct Windows {
    twos: Vec<u32>,
    fours: Vec<u32>,
    eights: Vec<u32>,
}

impl Windows {
    /// Calls `take(x, window, key)` for each sampled run.
    fn sample(&mut self, row: &[u32], level: u32, mut take: impl FnMut(usize, u32, u32)) {
        if row.len() <= RUN {
            return;
        }
        self.hash(row);
        let starts = &self.eights[..row.len() - RUN];
        let (blocks, tail) = starts.as_chunks::<16>();
        let mut take_block = |first: usize, windows: &[u32]| {
            for (x, &window) in
                (first..).zip(windows).filter(|(_, window)| is_sampled(**window, level))
            {
                take(x, window, self.key(x));
            }
        };
        for (block, windows) in blocks.iter().enumerate() {
            // Most blocks have none, which is found without a branch per pixel.
            if windows.iter().fold(0, |any, &window| any | u32::from(is_sampled(window, level)))
                != 0
            {
                take_block(block * 16, windows);
            }
        }
        take_block(starts.len() - tail.len(), tail);
    }

    fn hash(&mut self, row: &[u32]) {
        let steps = row
            .iter()
            .zip(&row[1..])
            .zip(&row[2..])
            .map(|((a, b), c)| ((a ^ b) & RGB, (b ^ c) & RGB));
        self.twos.clear();
        self.twos.extend(steps.map(|(a, b)| joined(a, b, 5)));
        self.fours.clear();
        self.fours.extend(self.twos.iter().zip(&self.twos[2..]).map(|(&a, &b)| joined(a, b, 11)));
        self.eights.clear();
        self.eights
            .extend(self.fours.iter().zip(&self.fours[4..]).map(|(&a, &b)| joined(a, b, 19)));
    }

    /// Hash of the run that begins at `x`.
    fn key(&self, x: usize) -> u32 {
        let windows = self.eights[x..=x + RUN - WINDOW].iter().step_by(WINDOW);
        let key = windows
            .fold(0u32, |key, &window| (key ^ window).rotate_left(13).wrapping_mul(0x85eb_ca6b));
        key ^ key >> 15
    }
}

/// Combines two hashes: the first is multiplied by an odd number, as a shift and an addition.
#[inline]
fn joined(a: u32, b: u32, shift: u32) -> u32 {
    a.wrapping_add(a << shift).wrapping_add(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_largest_screen_pack_into_32_bits() {
        for (dx, dy) in [(16383, -16383), (-1, 1), (0, -16383), (-16383, 0)] {
            assert_eq!(Vector::unpacked(Vector { dx, dy }.packed()), Vector { dx, dy });
        }
    }

    #[test]
    fn sampling_ignores_positions_and_each_level_samples_a_subset() {
        let row: Vec<u32> = (0..2000u32).map(|x| (x / 7).wrapping_mul(0x9e37_79b1) >> 8).collect();
        let sampled = |row: &[u32], level| {
            let mut found = Vec::new();
            Windows::default().sample(row, level, |x, window, key| found.push((x, window, key)));
            found
        };
        let mut more = sampled(&row, LEVEL_MIN);
        assert!(!more.is_empty());
        let moved: Vec<_> = sampled(&row[13..], LEVEL_MIN)
            .into_iter()
            .map(|(x, window, key)| (x + 13, window, key))
            .collect();
        assert!(
            more.ends_with(&moved) && moved.len() * 10 >= more.len() * 9,
            "13 pixels to the left"
        );
        for level in LEVEL_MIN + 1..LEVEL_MAX {
            let fewer = sampled(&row, level);
            assert!(
                fewer.iter().all(|sample| more.contains(sample)),
                "level {level} samples a subset of the one below"
            );
            more = fewer;
        }
        assert!(sampled(&[0x12_3456; 500], LEVEL_MIN).is_empty(), "flat rows have no runs");
    }
}
