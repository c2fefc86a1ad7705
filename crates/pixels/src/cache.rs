//! Path 8/13: under plan.rs.
//! The session's directory of one viewer's cache: which slot has pixels with a given hash, and
//! which slot is evicted.
//! Knows hashes, sizes and the outcomes of jobs; stores no pixels and knows no viewer.

use std::collections::{BTreeSet, HashMap, VecDeque};

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_region::{Rect, Region};

use crate::changes::RECTS_MAX;
use crate::kind::{self, Colors};
use crate::plan::Planned;
use crate::replacement::{Past, ReplacementPolicy};
use crate::{Shadow, Snapshot};

/// 64 pixels: edge of the cells, aligned to the screen, into which larger changes are split. The
/// same page, image or window at the same position then has the same cells, however it is drawn.
pub const CELL: i32 = 64;
/// 16 Ki pixels: a change up to this size is kept whole at any position: icons, buttons, small
/// animations.
const ENTRY_AREA_MAX: u64 = 16 * 1024;
/// 576 pixels: for smaller changes, most of which never repeat, KEEPs cost more than RECALLs save:
/// while the packed stream's window contains them, RECALL saves nothing (codec-enc's example
/// `repeats`).
pub const ENTRY_AREA_MIN: u64 = 24 * 24;
/// 256 pixels: the same for the edges of larger changes, which repeat with the rest.
const EDGE_AREA_MIN: u64 = 16 * 16;
/// A cell of which less than a quarter changed is not looked up.
const CHANGED_SHARE_MIN: u64 = 4;
/// Most candidates of one plan: 4 Mi pixels of cells. With everything else in a plan they fit into
/// an update.
const CANDIDATES_MAX: usize = 1024;
/// Slots of one viewer's cache, as the protocol numbers them.
const SLOTS_MAX: u32 = 65536;
/// Bytes of a pixel in a viewer's memory.
const PIXEL_BYTES: u64 = 4;
/// No entry is larger than a sixteenth of the cache.
const ENTRY_DIVISOR: u64 = 16;
/// A 128th of the cache is a reserve. A slot whose KEEP may not have arrived is reduced to a pixel,
/// and has one pixel more than before if the KEEP never arrived. Entries have more than 128 pixels,
/// which bounds the number of such slots.
const RESERVE_DIVISOR: u64 = 128;
const _: () = assert!(EDGE_AREA_MIN > RESERVE_DIVISOR && ENTRY_AREA_MIN > RESERVE_DIVISOR);

/// Most slots that are evicted for one entry.
pub(crate) const EVICTED_MAX: usize = 64;

/// Hash of pixels and their size.
pub(crate) type Hash = [u64; 2];

/// Outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The viewer has applied all of it; `update` is the newest that it had applied by then.
    Applied {
        /// Its number.
        update: u64,
    },
    /// Some or all of it will never be applied.
    Discarded,
}

/// Counts since the cache was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Recalled entries.
    pub recalled: u64,
    /// Their pixels.
    pub recalled_pixels: u64,
    /// Candidates that were not in the cache.
    pub missed: u64,
    /// Candidates that were then kept.
    pub kept: u64,
}

/// A KEEP in flight.
#[derive(Clone, Copy, Debug)]
struct PendingKeep {
    job: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// Bytes that the viewer has here, or an upper bound of them.
    bytes_used: u64,
    /// Hash of the pixels that may be recalled, after `pending` has arrived.
    hash: Option<Hash>,
    pending: Option<PendingKeep>,
    /// RECALLs in flight.
    recalls: u32,
    /// Largest `bytes_used` during this connection.
    bytes_used_max: u64,
    /// The update that filled the slot; 0: before this connection.
    since: u64,
}

impl Slot {
    fn in_use(&self) -> bool {
        self.pending.is_some() || self.recalls > 0
    }
}

/// Slots used by a job.
#[derive(Debug, Default)]
struct JobUse {
    job: u64,
    keeps: Vec<u32>,
    recalls: Vec<u32>,
    /// Bytes that it adds to what the viewer has: after its last KEEP, and the maximum in between.
    added: i64,
    added_max: i64,
}

/// Pixels that were looked up and are not in the cache.
#[derive(Clone, Copy, Debug)]
struct Miss {
    rect: Rect,
    hash: Hash,
    past: Past,
}

/// The session's view of one viewer's cache.
///
/// A slot is recalled only after its KEEP is known to be applied, and refilled only while nothing
/// in flight refers to it, so the order in which jobs are sent does not matter. The viewer never
/// has more than it offered, in any order of jobs.
pub struct Cache {
    key: Key,
    bytes_max: u64,
    slots: Vec<Slot>,
    by_hash: HashMap<Hash, u32>,
    /// Slots without a hash and without commands in flight, by the bytes that the viewer has there.
    free: BTreeSet<(u64, u32)>,
    policy: ReplacementPolicy,
    /// Bytes that the viewer has, and that jobs in flight may add.
    bytes_used: u64,
    in_flight: u64,
    jobs: VecDeque<JobUse>,
    planning: JobUse,
    misses: Vec<Miss>,
    /// Working memory: bytes of a candidate; changed pixels of each cell.
    bytes: Vec<u8>,
    cells: Vec<u64>,
    candidates: Vec<Rect>,
    stats: CacheStats,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        write!(
            f,
            "Cache({} entries in {} of {} bytes)",
            self.by_hash.len(),
            self.bytes_used,
            self.bytes_max
        )
    }
}

impl Cache {
    /// Of a viewer that offers so many bytes and has an empty cache. The key is random and secret,
    /// so nobody can construct pixels with equal hashes.
    pub fn new(key: [u64; 4], bytes_max: u64) -> Cache {
        Cache {
            key: Key(key),
            bytes_max,
            slots: Vec::new(),
            by_hash: HashMap::new(),
            free: BTreeSet::new(),
            policy: ReplacementPolicy::new(bytes_max),
            bytes_used: 0,
            in_flight: 0,
            jobs: VecDeque::new(),
            planning: JobUse::default(),
            misses: Vec::new(),
            bytes: Vec::new(),
            cells: Vec::new(),
            candidates: Vec::new(),
            stats: CacheStats::default(),
        }
    }

    /// Bytes that the viewer offered.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Counts of recalls, misses and keeps.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Starts the plan of this job; job numbers increase.
    pub fn begin(&mut self, job: u64) {
        self.end_plan();
        self.planning.job = job;
    }

    /// Ends a job. If it was discarded, later jobs may have kept pixels that depend on it, so their
    /// slots are not recalled.
    pub fn end(&mut self, job: u64, outcome: Outcome) {
        self.end_plan();
        if outcome == Outcome::Discarded {
            for at in self.jobs.partition_point(|used| used.job <= job)..self.jobs.len() {
                for i in 0..self.jobs[at].keeps.len() {
                    self.drop_hash(self.jobs[at].keeps[i]);
                }
            }
        }
        let Ok(at) = self.jobs.binary_search_by_key(&job, |used| used.job) else { return };
        let used = self.jobs.remove(at).expect("its place was just found");
        self.in_flight -= used.added_max as u64;
        for slot in used.keeps {
            self.end_keep(slot, outcome);
        }
        for slot in used.recalls {
            self.slots[slot as usize].recalls -= 1;
            self.set_free(slot);
        }
    }

    /// Invalidates all slots: the viewer's framebuffer is not what the session assumes.
    pub fn invalidate(&mut self) {
        self.end_plan();
        for slot in 0..self.slots.len() as u32 {
            self.drop_hash(slot);
            self.set_free(slot);
        }
    }

    /// Ends the connection. Commands in flight may have arrived or not, so their slots are
    /// invalidated.
    pub fn disconnect(&mut self) {
        self.end_plan();
        self.policy.forget_ghosts();
        while let Some(used) = self.jobs.front() {
            self.end(used.job, Outcome::Discarded);
        }
    }

    /// Resumes for a viewer that has reconnected with the contents after this update of the last
    /// connection, and offers so many bytes. False if that is less than the contents may take.
    #[must_use]
    pub fn resume(&mut self, update: u64, bytes_max: u64) -> bool {
        for slot in 0..self.slots.len() as u32 {
            let resumed = &mut self.slots[slot as usize];
            if std::mem::take(&mut resumed.since) > update {
                // It has older contents of unknown size.
                self.free.remove(&(resumed.bytes_used, slot));
                self.bytes_used += resumed.bytes_used_max - resumed.bytes_used;
                resumed.bytes_used = resumed.bytes_used_max;
                self.drop_hash(slot);
                self.set_free(slot);
            }
            let resumed = &mut self.slots[slot as usize];
            resumed.bytes_used_max = resumed.bytes_used;
        }
        // `bytes_used` is an upper bound, but the contents never exceeded the earlier offer.
        let fits = bytes_max >= self.bytes_max || self.bytes_used <= bytes_max;
        self.bytes_max = bytes_max;
        self.policy.set_capacity(bytes_max);
        fits
    }

    /// Appends a RECALL for each part of `rects` that is in the cache, and removes it from
    /// `rects`. The shadow already has the new pixels.
    pub(crate) fn recall(
        &mut self,
        rects: &mut Vec<Rect>,
        snapshot: &Snapshot,
        shadow: &mut Shadow,
        out: &mut Vec<Planned>,
    ) {
        self.misses.clear();
        self.find_candidates(rects, snapshot);
        let mut recalled = Region::new();
        let candidates = std::mem::take(&mut self.candidates);
        for &rect in &candidates {
            if matches!(kind::colors(snapshot, &rect), Colors::One(_)) {
                // An SFILL is shorter than a RECALL.
                continue;
            }
            let (hash, bytes) = (self.hash(shadow, &rect), rect.area() * PIXEL_BYTES);
            match self.by_hash.get(&hash).copied() {
                Some(slot) if self.slots[slot as usize].pending.is_none() => {
                    self.slots[slot as usize].recalls += 1;
                    self.planning.recalls.push(slot);
                    self.policy.record_hit(slot);
                    self.stats.recalled += 1;
                    self.stats.recalled_pixels += rect.area();
                    recalled.add_rect(rect);
                    out.push(Planned::Recall { rect, slot });
                }
                Some(slot) => self.policy.record_hit(slot),
                None => {
                    let past = self.policy.record_miss(hash, bytes);
                    self.stats.missed += 1;
                    self.misses.push(Miss { rect, hash, past });
                }
            }
        }
        self.candidates = candidates;
        if !recalled.is_empty() {
            shadow.lossy_region.subtract(&recalled);
            for rect in std::mem::take(rects) {
                if recalled.overlaps_rect(&rect) {
                    rects.extend_from_slice(Region::from(rect).difference(&recalled).rects());
                } else {
                    rects.push(rect);
                }
            }
        }
    }

    /// Keeps missed candidates that are lossless after the plan from index `first` on, and worth
    /// more than the entries that they would evict.
    pub(crate) fn keep(&mut self, shadow: &Shadow, first: usize, out: &mut Vec<Planned>) {
        let misses = std::mem::take(&mut self.misses);
        let tiled: Vec<Rect> = out[first..]
            .iter()
            .filter_map(|planned| match planned {
                Planned::Pattern { rect, .. } => Some(*rect),
                _ => None,
            })
            .collect();
        for miss in &misses {
            let is_lossless = !shadow.lossy_region.overlaps_rect(&miss.rect);
            let is_expensive = !tiled.iter().any(|tiled| tiled.contains(&miss.rect));
            // The same pixels may occur twice in a plan.
            if is_lossless
                && is_expensive
                && !self.by_hash.contains_key(&miss.hash)
                && self.policy.is_worth_keeping(miss.past)
            {
                self.admit(miss, out);
            }
        }
        self.misses = misses;
    }

    /// Finds the rectangles to look up: small changes whole; of larger ones the screen cells of
    /// which a quarter or more changed, complete if the snapshot contains them.
    fn find_candidates(&mut self, rects: &[Rect], snapshot: &Snapshot) {
        self.candidates.clear();
        let extents = snapshot.region().extents();
        let (left, top) = (extents.x1.div_euclid(CELL), extents.y1.div_euclid(CELL));
        let columns = ((extents.x2 - 1).div_euclid(CELL) - left + 1).max(0) as usize;
        let rows = ((extents.y2 - 1).div_euclid(CELL) - top + 1).max(0) as usize;
        self.cells.clear();
        self.cells.resize(columns * rows, 0);
        for rect in rects {
            if rect.area() <= ENTRY_AREA_MAX {
                if rect.area() >= ENTRY_AREA_MIN && self.candidates.len() < CANDIDATES_MAX {
                    self.candidates.push(*rect);
                }
                continue;
            }
            for cell in cells(rect) {
                let part = cell.intersect(rect);
                let whole = cell.intersect(&extents);
                if snapshot.contains(&whole) && whole.area() >= EDGE_AREA_MIN {
                    let at = (cell.y1.div_euclid(CELL) - top) as usize * columns
                        + (cell.x1.div_euclid(CELL) - left) as usize;
                    self.cells[at] += part.area();
                } else if part.area() >= EDGE_AREA_MIN && self.candidates.len() < CANDIDATES_MAX {
                    self.candidates.push(part);
                }
            }
        }
        for (at, &changed) in self.cells.iter().enumerate() {
            let (x, y) = (left + (at % columns) as i32, top + (at / columns) as i32);
            let cell = Rect::at(x * CELL, y * CELL, CELL, CELL).intersect(&extents);
            if changed > 0
                && changed * CHANGED_SHARE_MIN >= cell.area()
                && self.candidates.len() < CANDIDATES_MAX
            {
                self.candidates.push(cell);
            }
        }
        debug_assert!(
            self.candidates.len() <= CANDIDATES_MAX && rects.len() <= RECTS_MAX,
            "a plan must fit into an update"
        );
    }

    /// Hash of the shadow's pixels, whose top bytes are 0, and of their size.
    fn hash(&mut self, shadow: &Shadow, rect: &Rect) -> Hash {
        // Row by row, which compiles to a copy; byte by byte it would take longer than the hash.
        self.bytes.resize(rect.area() as usize * size_of::<u32>(), 0);
        for (y, row) in
            (rect.y1..).zip(self.bytes.chunks_exact_mut(rect.width() as usize * size_of::<u32>()))
        {
            for (bytes, pixel) in
                row.as_chunks_mut().0.iter_mut().zip(shadow.row(rect.x1, rect.x2, y))
            {
                *bytes = pixel.to_le_bytes();
            }
        }
        let mut hasher = HighwayHasher::new(self.key);
        hasher.append(&self.bytes);
        hasher.append(&rect.width().to_le_bytes());
        hasher.finalize128()
    }

    /// Finds a slot and memory for a missed candidate, if it is worth more than the entries to
    /// evict.
    fn admit(&mut self, miss: &Miss, out: &mut Vec<Planned>) {
        let bytes = miss.rect.area() * PIXEL_BYTES;
        if bytes > self.bytes_max / ENTRY_DIVISOR || self.planning.keeps.len() >= CANDIDATES_MAX {
            return;
        }
        // Negative if the outcomes of many KEEPs are unknown: then slots are only evicted.
        let room = (self.bytes_max - self.bytes_max / RESERVE_DIVISOR) as i64
            - (self.bytes_used + self.in_flight) as i64;
        let fits =
            |freed: u64, planning: &JobUse| planning.added + bytes as i64 - freed as i64 <= room;
        let mut chosen = Vec::new();
        let mut filled = None;
        let smallest = self.free.first().copied();
        if let Some((_, slot)) =
            smallest.filter(|&(bytes_used, _)| fits(bytes_used, &self.planning))
        {
            filled = Some(slot);
        } else if (self.slots.len() as u32) < SLOTS_MAX && fits(0, &self.planning) {
            filled = Some(self.slots.len() as u32);
            self.slots.push(Slot::default());
        } else {
            let mut freed = 0;
            let mut enough = |slot: u32| {
                if chosen.contains(&slot) {
                    return false;
                }
                // All but the last slot keep one pixel.
                freed += self.slots[slot as usize].bytes_used
                    - if chosen.is_empty() { 0 } else { PIXEL_BYTES };
                chosen.push(slot);
                fits(freed, &self.planning)
            };
            let idle = self
                .free
                .iter()
                .rev()
                .take_while(|&&(bytes_used, _)| bytes_used > PIXEL_BYTES)
                .map(|&(_, slot)| slot);
            let in_use = |slot: u32| self.slots[slot as usize].in_use();
            if idle.take(EVICTED_MAX).any(&mut enough)
                || self.policy.victims(miss.past, in_use, enough)
            {
                filled = chosen.pop();
            } else if room >= 0 {
                return;
            }
        }
        for slot in chosen {
            // A KEEP of a single pixel frees the slot's memory at the viewer.
            self.fill(slot, Rect { x2: miss.rect.x1 + 1, y2: miss.rect.y1 + 1, ..miss.rect }, out);
        }
        if let Some(slot) = filled {
            self.fill(slot, miss.rect, out);
            self.slots[slot as usize].hash = Some(miss.hash);
            self.by_hash.insert(miss.hash, slot);
            self.policy.insert(slot, bytes, miss.past);
            self.stats.kept += 1;
        }
    }

    fn fill(&mut self, slot: u32, rect: Rect, out: &mut Vec<Planned>) {
        let bytes = rect.area() * PIXEL_BYTES;
        let (job, bytes_used) = (self.planning.job, self.slots[slot as usize].bytes_used);
        self.free.remove(&(bytes_used, slot));
        self.drop_hash(slot);
        self.slots[slot as usize].pending = Some(PendingKeep { job, bytes });
        self.planning.keeps.push(slot);
        self.planning.added += bytes as i64 - bytes_used as i64;
        self.planning.added_max = self.planning.added_max.max(self.planning.added);
        out.push(Planned::Keep { rect, slot });
    }

    /// Records the outcome of a KEEP.
    fn end_keep(&mut self, slot: u32, outcome: Outcome) {
        let kept = &mut self.slots[slot as usize];
        let Some(PendingKeep { bytes, .. }) = kept.pending.take() else { return };
        let before = kept.bytes_used;
        match outcome {
            Outcome::Applied { update } => {
                kept.bytes_used = bytes;
                kept.since = update;
            }
            Outcome::Discarded => {
                kept.bytes_used = before.max(bytes);
                self.drop_hash(slot);
            }
        }
        let kept = &mut self.slots[slot as usize];
        kept.bytes_used_max = kept.bytes_used_max.max(kept.bytes_used);
        self.bytes_used = self.bytes_used - before + kept.bytes_used;
        self.set_free(slot);
    }

    /// Drops the slot's hash, so that it is not recalled.
    fn drop_hash(&mut self, slot: u32) {
        if let Some(hash) = self.slots[slot as usize].hash.take() {
            self.by_hash.remove(&hash);
            self.policy.remove(slot);
        }
    }

    /// Marks the slot as free, if it has no hash and no commands in flight.
    fn set_free(&mut self, slot: u32) {
        let free = &self.slots[slot as usize];
        if free.hash.is_none() && !free.in_use() {
            self.free.insert((free.bytes_used, slot));
        }
    }

    /// Ends the current plan.
    fn end_plan(&mut self) {
        let planned = std::mem::take(&mut self.planning);
        if !planned.keeps.is_empty() || !planned.recalls.is_empty() {
            self.in_flight += planned.added_max as u64;
            self.jobs.push_back(planned);
        }
    }

    /// Checks the invariants; for tests.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check_invariants(&self) {
        let bytes_used: u64 = self.slots.iter().map(|slot| slot.bytes_used).sum();
        assert_eq!(bytes_used, self.bytes_used, "`bytes_used` must be the sum over the slots");
        let in_flight: u64 = self.jobs.iter().map(|used| used.added_max as u64).sum();
        assert_eq!(in_flight, self.in_flight, "`in_flight` must be the sum over the jobs");
        for (&hash, &slot) in &self.by_hash {
            assert_eq!(
                self.slots[slot as usize].hash,
                Some(hash),
                "a hash must refer to the slot that has it"
            );
        }
        let named = self.slots.iter().filter(|slot| slot.hash.is_some()).count();
        assert_eq!(named, self.by_hash.len(), "every slot with a hash must be found by it");
        for (slot, state) in (0..).zip(&self.slots) {
            let free = state.hash.is_none() && !state.in_use();
            assert_eq!(
                self.free.contains(&(state.bytes_used, slot)),
                free,
                "slot {slot} must be in `free` if it is free"
            );
            if let Some(PendingKeep { job, .. }) = state.pending {
                let known = self
                    .jobs
                    .iter()
                    .chain([&self.planning])
                    .any(|used| used.job == job && used.keeps.contains(&slot));
                assert!(known, "a pending KEEP must belong to a job");
            }
        }
        assert!(
            self.jobs.iter().zip(self.jobs.iter().skip(1)).all(|(a, b)| a.job < b.job),
            "jobs must be in order"
        );
    }
}

/// The screen cells that a rectangle touches.
fn cells(rect: &Rect) -> impl Iterator<Item = Rect> + use<> {
    let columns = rect.x1.div_euclid(CELL)..=(rect.x2 - 1).div_euclid(CELL);
    let rows = rect.y1.div_euclid(CELL)..=(rect.y2 - 1).div_euclid(CELL);
    rows.flat_map(move |y| columns.clone().map(move |x| Rect::at(x * CELL, y * CELL, CELL, CELL)))
}
