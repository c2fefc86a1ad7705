//! Path 8/13: from plan.rs and back.
//! What one viewer keeps of pixels it was shown, by a hash of them: which slot shows them again, and which makes room.
//! Knows hashes, sizes and jobs' fates; never pixels longer than a hash takes, nor what a viewer is.

use std::collections::{BTreeSet, HashMap, VecDeque};

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_region::{Rect, Region};

use crate::changes::RECTS_MAX;
use crate::kind::{self, Colors};
use crate::plan::Planned;
use crate::reuse::{Past, Reuse};
use crate::{Shadow, Snapshot};

/// 64 pixels: edge of the cells, aligned on the screen, that larger changes are taken apart into. The same page, picture
/// or window at its place then has the same cells, whatever part of it is drawn with what else.
pub const CELL: i32 = 64;
/// 16 Ki pixels: a change up to it is kept as it is, wherever it lies: icons, buttons, small animations.
pub const PIECE_AREA_MAX: u64 = 16 * 1024;
/// 576 pixels: what KEEP costs for smaller changes, most of which never come again, is more than RECALL saves where they do:
/// as long as the stream's context remembers them, nothing (codec-enc's example `repeats`).
pub const PIECE_AREA_MIN: u64 = 24 * 24;
/// 256 pixels: the same for the edges of larger changes, which come again with the rest.
const EDGE_AREA_MIN: u64 = 16 * 16;
/// A cell of which less than a quarter changed is sent as it is.
const CHANGED_SHARE_MIN: u64 = 4;
/// Most pieces of one plan: a little more than 2 Mi pixels of cells. With what else a plan may hold, they fit an update.
const PIECES_MAX: usize = 1024;
/// Slots of one viewer's cache, as the protocol numbers them.
const SLOTS_MAX: u32 = 65536;
/// What a pixel takes in a viewer's memory.
const PIXEL_BYTES: u64 = 4;
/// No piece takes more than a sixteenth of the cache.
const PIECE_SHARE: u64 = 16;
/// A 128th of the cache stays free: a slot of which it is not known whether its KEEP came is emptied to a pixel, and holds
/// that pixel more than before where it never came. A piece is larger than 128 pixels, so there are not more such slots.
const SPARE_SHARE: u64 = 128;
const _: () = assert!(EDGE_AREA_MIN > SPARE_SHARE && PIECE_AREA_MIN > SPARE_SHARE);

/// Most slots that make room for one piece.
pub(crate) const EMPTIED_MAX: usize = 64;

/// Names pixels and their size.
pub(crate) type Hash = [u64; 2];

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The viewer has applied all of it; `update` is the newest it had applied when it said so.
    Applied {
        /// Its number.
        update: u64,
    },
    /// Some of it, or all, never will be.
    Void,
}

/// Counts since the cache began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Pieces shown again.
    pub recalled: u64,
    /// Their pixels.
    pub recalled_pixels: u64,
    /// Pieces that were not there.
    pub missed: u64,
    /// Those of them that are kept from then on.
    pub kept: u64,
}

/// A KEEP on its way.
#[derive(Clone, Copy, Debug)]
struct Coming {
    job: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// What the viewer holds here, as far as it is known; never less.
    held: u64,
    /// What may be shown from here, once `coming` has come.
    hash: Option<Hash>,
    coming: Option<Coming>,
    /// RECALLs on their way.
    recalls: u32,
    /// The most it held in this connection.
    held_max: u64,
    /// The update after which the viewer holds what it holds; 0: since before this connection.
    since: u64,
}

impl Slot {
    fn in_use(&self) -> bool {
        self.coming.is_some() || self.recalls > 0
    }
}

/// What a job does with slots.
#[derive(Debug, Default)]
struct JobUse {
    job: u64,
    keeps: Vec<u32>,
    recalls: Vec<u32>,
    /// Bytes that it adds to what the viewer holds, by the last of its KEEPs, and at most on the way there.
    added: i64,
    added_max: i64,
}

/// Pixels that were looked for and are not kept.
#[derive(Clone, Copy, Debug)]
struct Miss {
    rect: Rect,
    hash: Hash,
    past: Past,
}

/// One viewer's cache, seen from the session.
///
/// A slot is shown again only where its KEEP is known to have been applied, and filled anew only where nothing on its way
/// names it: so it does not matter in which order jobs leave. What the viewer holds never exceeds what it offered, in
/// whatever order they do.
pub struct Cache {
    key: Key,
    bytes_max: u64,
    slots: Vec<Slot>,
    by_hash: HashMap<Hash, u32>,
    /// Slots that show nothing and that nothing on its way names, by what the viewer holds there.
    free: BTreeSet<(u64, u32)>,
    reuse: Reuse,
    /// What the viewer holds, and what jobs on their way may add.
    held: u64,
    coming: u64,
    jobs: VecDeque<JobUse>,
    planning: JobUse,
    misses: Vec<Miss>,
    /// Working memory: pixels of a piece; changed pixels of each cell.
    bytes: Vec<u8>,
    cells: Vec<u64>,
    pieces: Vec<Rect>,
    stats: CacheStats,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        write!(f, "Cache({} pieces in {} of {} bytes)", self.by_hash.len(), self.held, self.bytes_max)
    }
}

impl Cache {
    /// Of a viewer that offers so many bytes and holds nothing. The key is random, and tells nobody which pixels have
    /// equal hashes.
    pub fn new(key: [u64; 4], bytes_max: u64) -> Cache {
        Cache {
            key: Key(key),
            bytes_max,
            slots: Vec::new(),
            by_hash: HashMap::new(),
            free: BTreeSet::new(),
            reuse: Reuse::new(bytes_max),
            held: 0,
            coming: 0,
            jobs: VecDeque::new(),
            planning: JobUse::default(),
            misses: Vec::new(),
            bytes: Vec::new(),
            cells: Vec::new(),
            pieces: Vec::new(),
            stats: CacheStats::default(),
        }
    }

    /// What the viewer offered.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Counts.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// What is planned next is this job's; its number is greater than those before it.
    pub fn begin(&mut self, job: u64) {
        self.end_plan();
        self.planning.job = job;
    }

    /// A job is over. Those that began later may have been planned on pixels that the viewer now lacks: what they keep is
    /// not to be relied on.
    pub fn settle(&mut self, job: u64, fate: Fate) {
        self.end_plan();
        if fate == Fate::Void {
            for at in self.jobs.partition_point(|used| used.job <= job)..self.jobs.len() {
                for i in 0..self.jobs[at].keeps.len() {
                    self.disown(self.jobs[at].keeps[i]);
                }
            }
        }
        let Ok(at) = self.jobs.binary_search_by_key(&job, |used| used.job) else { return };
        let used = self.jobs.remove(at).expect("its place was just found");
        self.coming -= used.added_max as u64;
        for slot in used.keeps {
            self.kept(slot, fate);
        }
        for slot in used.recalls {
            self.slots[slot as usize].recalls -= 1;
            self.set_free(slot);
        }
    }

    /// Nothing that the viewer holds is to be relied on: it has lost track of what it shows.
    pub fn distrust(&mut self) {
        self.end_plan();
        for slot in 0..self.slots.len() as u32 {
            self.disown(slot);
            self.set_free(slot);
        }
    }

    /// The connection has ended. What was on its way may have come or not, so its slots show nothing.
    pub fn disconnect(&mut self) {
        self.end_plan();
        self.reuse.forget_ghosts();
        while let Some(used) = self.jobs.front() {
            self.settle(used.job, Fate::Void);
        }
    }

    /// A viewer comes back that holds what it held after this update of the connection that has ended, and offers so many
    /// bytes. False where that is less than it holds.
    #[must_use]
    pub fn resume(&mut self, update: u64, bytes_max: u64) -> bool {
        for slot in 0..self.slots.len() as u32 {
            let resumed = &mut self.slots[slot as usize];
            if std::mem::take(&mut resumed.since) > update {
                // It holds something older, of no known size.
                self.free.remove(&(resumed.held, slot));
                self.held += resumed.held_max - resumed.held;
                resumed.held = resumed.held_max;
                self.disown(slot);
                self.set_free(slot);
            }
            let resumed = &mut self.slots[slot as usize];
            resumed.held_max = resumed.held;
        }
        // What is known of it may be more than there is, but it never was more than it offered before.
        let fits = bytes_max >= self.bytes_max || self.held <= bytes_max;
        self.bytes_max = bytes_max;
        self.reuse.set_capacity(bytes_max);
        fits
    }

    /// Takes out of `rects`, which the shadow shows and the viewer shall, what the viewer can show again by itself.
    pub(crate) fn recall(
        &mut self,
        rects: &mut Vec<Rect>,
        snapshot: &Snapshot,
        shadow: &mut Shadow,
        out: &mut Vec<Planned>,
    ) {
        self.misses.clear();
        self.find_pieces(rects, snapshot);
        let mut recalled = Region::new();
        let pieces = std::mem::take(&mut self.pieces);
        for &rect in &pieces {
            if matches!(kind::colors(snapshot, &rect), Colors::One(_)) {
                // A fill is shorter than anything.
                continue;
            }
            let (hash, bytes) = (self.hash(shadow, &rect), rect.area() * PIXEL_BYTES);
            match self.by_hash.get(&hash).copied() {
                Some(slot) if self.slots[slot as usize].coming.is_none() => {
                    self.slots[slot as usize].recalls += 1;
                    self.planning.recalls.push(slot);
                    self.reuse.wanted(slot);
                    self.stats.recalled += 1;
                    self.stats.recalled_pixels += rect.area();
                    recalled.add_rect(rect);
                    out.push(Planned::Recall { rect, slot });
                }
                Some(slot) => self.reuse.wanted(slot),
                None => {
                    let past = self.reuse.missed(hash, bytes);
                    self.stats.missed += 1;
                    self.misses.push(Miss { rect, hash, past });
                }
            }
        }
        self.pieces = pieces;
        if !recalled.is_empty() {
            shadow.inexact.subtract(&recalled);
            for rect in std::mem::take(rects) {
                if recalled.overlaps_rect(&rect) {
                    rects.extend_from_slice(Region::from(rect).difference(&recalled).rects());
                } else {
                    rects.push(rect);
                }
            }
        }
    }

    /// Keeps what was missed, where the viewer shows it exactly after what was planned from `first` on, and where it is
    /// worth more than what would have to go.
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
            let exact = !shadow.inexact.overlaps_rect(&miss.rect);
            let dear = !tiled.iter().any(|tiled| tiled.contains(&miss.rect));
            // The same pixels may be in a plan twice.
            if exact && dear && !self.by_hash.contains_key(&miss.hash) && self.reuse.is_worth_keeping(miss.past) {
                self.admit(miss, out);
            }
        }
        self.misses = misses;
    }

    /// Pieces that may be shown again: small changes as they are; of larger ones the cells of the screen that changed by a
    /// quarter or more, whole where the snapshot holds them.
    fn find_pieces(&mut self, rects: &[Rect], snapshot: &Snapshot) {
        self.pieces.clear();
        let extents = snapshot.region().extents();
        let (left, top) = (extents.x1.div_euclid(CELL), extents.y1.div_euclid(CELL));
        let columns = ((extents.x2 - 1).div_euclid(CELL) - left + 1).max(0) as usize;
        let rows = ((extents.y2 - 1).div_euclid(CELL) - top + 1).max(0) as usize;
        self.cells.clear();
        self.cells.resize(columns * rows, 0);
        for rect in rects {
            if rect.area() <= PIECE_AREA_MAX {
                if rect.area() >= PIECE_AREA_MIN && self.pieces.len() < PIECES_MAX {
                    self.pieces.push(*rect);
                }
                continue;
            }
            for cell in cells(rect) {
                let part = cell.intersect(rect);
                let whole = cell.intersect(&extents);
                if snapshot.holds(&whole) && whole.area() >= EDGE_AREA_MIN {
                    let at = (cell.y1.div_euclid(CELL) - top) as usize * columns
                        + (cell.x1.div_euclid(CELL) - left) as usize;
                    self.cells[at] += part.area();
                } else if part.area() >= EDGE_AREA_MIN && self.pieces.len() < PIECES_MAX {
                    self.pieces.push(part);
                }
            }
        }
        for (at, &changed) in self.cells.iter().enumerate() {
            let (x, y) = (left + (at % columns) as i32, top + (at / columns) as i32);
            let cell = Rect::at(x * CELL, y * CELL, CELL, CELL).intersect(&extents);
            if changed > 0 && changed * CHANGED_SHARE_MIN >= cell.area() && self.pieces.len() < PIECES_MAX {
                self.pieces.push(cell);
            }
        }
        debug_assert!(self.pieces.len() <= PIECES_MAX && rects.len() <= RECTS_MAX, "a plan fits an update");
    }

    /// Of the pixels that the shadow shows, whose top bytes are 0, and of their size.
    fn hash(&mut self, shadow: &Shadow, rect: &Rect) -> Hash {
        // In rows, which is a copy; byte by byte it takes longer than the hash.
        self.bytes.resize(rect.area() as usize * size_of::<u32>(), 0);
        for (y, row) in (rect.y1..).zip(self.bytes.chunks_exact_mut(rect.width() as usize * size_of::<u32>())) {
            for (bytes, pixel) in row.as_chunks_mut().0.iter_mut().zip(shadow.row(rect.x1, rect.x2, y)) {
                *bytes = pixel.to_le_bytes();
            }
        }
        let mut hasher = HighwayHasher::new(self.key);
        hasher.append(&self.bytes);
        hasher.append(&rect.width().to_le_bytes());
        hasher.finalize128()
    }

    /// Finds a slot and memory for what was missed, where that is worth more than what would have to go.
    fn admit(&mut self, miss: &Miss, out: &mut Vec<Planned>) {
        let bytes = miss.rect.area() * PIXEL_BYTES;
        if bytes > self.bytes_max / PIECE_SHARE || self.planning.keeps.len() >= PIECES_MAX {
            return;
        }
        // Less than nothing where many KEEPs have no known fate: then what is there comes first.
        let room = (self.bytes_max - self.bytes_max / SPARE_SHARE) as i64 - (self.held + self.coming) as i64;
        let fits = |freed: u64, planning: &JobUse| planning.added + bytes as i64 - freed as i64 <= room;
        let mut chosen = Vec::new();
        let mut filled = None;
        let smallest = self.free.first().copied();
        if let Some((_, slot)) = smallest.filter(|&(held, _)| fits(held, &self.planning)) {
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
                // All but the last keep a pixel.
                freed += self.slots[slot as usize].held - if chosen.is_empty() { 0 } else { PIXEL_BYTES };
                chosen.push(slot);
                fits(freed, &self.planning)
            };
            let idle = self.free.iter().rev().take_while(|&&(held, _)| held > PIXEL_BYTES).map(|&(_, slot)| slot);
            let in_use = |slot: u32| self.slots[slot as usize].in_use();
            if idle.take(EMPTIED_MAX).any(&mut enough) || self.reuse.victims(miss.past, in_use, enough) {
                filled = chosen.pop();
            } else if room >= 0 {
                return;
            }
        }
        for slot in chosen {
            // A single pixel is left, which is how a slot gives its memory back.
            self.fill(slot, Rect { x2: miss.rect.x1 + 1, y2: miss.rect.y1 + 1, ..miss.rect }, out);
        }
        if let Some(slot) = filled {
            self.fill(slot, miss.rect, out);
            self.slots[slot as usize].hash = Some(miss.hash);
            self.by_hash.insert(miss.hash, slot);
            self.reuse.insert(slot, bytes, miss.past);
            self.stats.kept += 1;
        }
    }

    fn fill(&mut self, slot: u32, rect: Rect, out: &mut Vec<Planned>) {
        let bytes = rect.area() * PIXEL_BYTES;
        let (job, held) = (self.planning.job, self.slots[slot as usize].held);
        self.free.remove(&(held, slot));
        self.disown(slot);
        self.slots[slot as usize].coming = Some(Coming { job, bytes });
        self.planning.keeps.push(slot);
        self.planning.added += bytes as i64 - held as i64;
        self.planning.added_max = self.planning.added_max.max(self.planning.added);
        out.push(Planned::Keep { rect, slot });
    }

    /// A KEEP is over, or its fate unknown.
    fn kept(&mut self, slot: u32, fate: Fate) {
        let kept = &mut self.slots[slot as usize];
        let Some(Coming { bytes, .. }) = kept.coming.take() else { return };
        let before = kept.held;
        match fate {
            Fate::Applied { update } => {
                kept.held = bytes;
                kept.since = update;
            }
            Fate::Void => {
                kept.held = before.max(bytes);
                self.disown(slot);
            }
        }
        let kept = &mut self.slots[slot as usize];
        kept.held_max = kept.held_max.max(kept.held);
        self.held = self.held - before + kept.held;
        self.set_free(slot);
    }

    /// What the slot holds, or will, is not shown from it.
    fn disown(&mut self, slot: u32) {
        if let Some(hash) = self.slots[slot as usize].hash.take() {
            self.by_hash.remove(&hash);
            self.reuse.remove(slot);
        }
    }

    /// It may be filled, where nothing speaks against that.
    fn set_free(&mut self, slot: u32) {
        let free = &self.slots[slot as usize];
        if free.hash.is_none() && !free.in_use() {
            self.free.insert((free.held, slot));
        }
    }

    /// The plan at hand is complete.
    fn end_plan(&mut self) {
        let planned = std::mem::take(&mut self.planning);
        if !planned.keeps.is_empty() || !planned.recalls.is_empty() {
            self.coming += planned.added_max as u64;
            self.jobs.push_back(planned);
        }
    }

    /// Checks what this file promises; for tests.
    ///
    /// # Panics
    /// When a promise is broken, with the promise in words.
    pub fn check_invariants(&self) {
        let held: u64 = self.slots.iter().map(|slot| slot.held).sum();
        assert_eq!(held, self.held, "what the viewer holds is counted");
        let coming: u64 = self.jobs.iter().map(|used| used.added_max as u64).sum();
        assert_eq!(coming, self.coming, "what is coming is counted");
        for (&hash, &slot) in &self.by_hash {
            assert_eq!(self.slots[slot as usize].hash, Some(hash), "a hash names the slot that holds it");
        }
        let named = self.slots.iter().filter(|slot| slot.hash.is_some()).count();
        assert_eq!(named, self.by_hash.len(), "a slot that shows something is found");
        for (slot, state) in (0..).zip(&self.slots) {
            let free = state.hash.is_none() && !state.in_use();
            assert_eq!(self.free.contains(&(state.held, slot)), free, "slot {slot} is free or not");
            if let Some(Coming { job, .. }) = state.coming {
                let known =
                    self.jobs.iter().chain([&self.planning]).any(|used| used.job == job && used.keeps.contains(&slot));
                assert!(known, "what comes, comes with a job");
            }
        }
        assert!(self.jobs.iter().zip(self.jobs.iter().skip(1)).all(|(a, b)| a.job < b.job), "jobs are in order");
    }
}

/// Cells of the screen that a rectangle touches.
fn cells(rect: &Rect) -> impl Iterator<Item = Rect> + use<> {
    let columns = rect.x1.div_euclid(CELL)..=(rect.x2 - 1).div_euclid(CELL);
    let rows = rect.y1.div_euclid(CELL)..=(rect.y2 - 1).div_euclid(CELL);
    rows.flat_map(move |y| columns.clone().map(move |x| Rect::at(x * CELL, y * CELL, CELL, CELL)))
}
