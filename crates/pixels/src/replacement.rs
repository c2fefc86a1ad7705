//! Path 8/13: beside cache.rs.
//! The replacement policy of the cache: evicts the entries whose next use is expected latest,
//! judging by past uses.
//! Knows hashes, sizes and the order of uses; never pixels, slots' states or viewers.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::cache::{EVICTED_MAX, Hash};

/// 56 Ki: ghosts (hashes of what is not kept), as many as the cells of ninety screens of 1600 x
/// 1600. At 25 bytes each they take 1.5 MiB when a screen that never repeats has filled them, the
/// capacity of a hash table with 64 Ki buckets.
const GHOSTS_MAX: usize = 56 * 1024;
/// 4 KiB: unit of a ghost's time. The smallest entry has a quarter of it.
const GHOST_TIME_BITS: u32 = 12;
/// An eighth of the memory is reserved for entries used once, however many others repeat.
const FRESH_SHARE: u64 = 8;
/// An entry used so often before may replace one used once, however recently.
const USES_PROVEN: u8 = 2;

/// After so many consecutive evictions of entries that were never used again, the content counts as
/// not repeating: seven screens of 1920 x 1200.
const UNUSED_EVICTIONS_MAX: u32 = 4096;
/// One in 16 new entries is kept even then: they and the ghosts detect content that repeats again.
const SAMPLE: u32 = 16;

/// Past uses of an entry that is used and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Bytes used since its last use; 0: it was never used.
    interval: u64,
    /// Number of earlier uses.
    uses: u8,
}

/// Past uses of an entry that is not kept; small because there are many.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    /// In units of [`GHOST_TIME_BITS`].
    last: u32,
    uses: u8,
}

impl Ghost {
    fn time(now: u64) -> u32 {
        (now >> GHOST_TIME_BITS) as u32
    }

    /// Bytes used since its last use; at least 1, because 0 means none.
    fn interval(&self, now: u64) -> u64 {
        (u64::from(Ghost::time(now).wrapping_sub(self.last)) << GHOST_TIME_BITS).max(1)
    }
}

/// An entry that is kept.
#[derive(Clone, Copy, Debug)]
struct Resident {
    bytes: u64,
    last: u64,
    /// Bytes between its uses; 0: it was used once.
    interval: u64,
}

impl Resident {
    fn is_fresh(&self) -> bool {
        self.interval == 0
    }

    /// When it is overdue: not used again within twice its interval.
    fn due(&self) -> u64 {
        self.last + 2 * self.interval
    }

    /// Its eviction order among proven or fresh entries.
    fn rank(&self) -> u64 {
        if self.is_fresh() { self.last } else { self.due() }
    }
}

/// The replacement policy.
///
/// Time is counted in bytes used. An entry used twice is *proven*: it has an interval, and its next
/// use is expected after another interval. An entry used once is *fresh*; among fresh ones the
/// oldest is evicted first, as in LRU. An entry with a known interval is admitted only at the cost
/// of entries whose next use is expected later. So a loop that is longer than the memory keeps the
/// part that fits: each kept image is used before any that is not kept. Overdue entries lose their
/// protection, so a loop that has ended makes room.
#[derive(Debug)]
pub(crate) struct ReplacementPolicy {
    capacity: u64,
    now: u64,
    residents: HashMap<u32, Resident>,
    /// Fresh slots by their last use.
    fresh: BTreeSet<(u64, u32)>,
    /// Proven slots by when they are overdue.
    proven: BTreeSet<(u64, u32)>,
    proven_bytes: u64,
    /// By half of their hashes: two that share it count as one, which only misjudges their
    /// intervals.
    ghosts: HashMap<u64, Ghost>,
    /// Ghosts in the order of their first use.
    ghost_order: VecDeque<u64>,
    /// Evictions of fresh entries since anything was used again.
    unused_evictions: u32,
    /// New entries considered.
    considered: u32,
}

impl ReplacementPolicy {
    /// For a cache of so many bytes.
    pub(crate) fn new(capacity: u64) -> ReplacementPolicy {
        ReplacementPolicy {
            capacity,
            now: 0,
            residents: HashMap::new(),
            fresh: BTreeSet::new(),
            proven: BTreeSet::new(),
            proven_bytes: 0,
            ghosts: HashMap::new(),
            ghost_order: VecDeque::new(),
            unused_evictions: 0,
            considered: 0,
        }
    }

    /// Changes the size of the cache.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// Records a use of the entry in `slot`.
    pub(crate) fn record_hit(&mut self, slot: u32) {
        let Some(mut resident) = self.take(slot) else { return };
        self.unused_evictions = 0;
        self.now += resident.bytes;
        let interval = self.now - resident.last;
        // The mean with the old interval, so that one pause does not make it overdue.
        resident.interval =
            if resident.is_fresh() { interval } else { (resident.interval + interval).div_ceil(2) };
        resident.last = self.now;
        self.put(slot, resident);
    }

    /// Records a use of something that is not kept; returns its past uses.
    pub(crate) fn record_miss(&mut self, [name, _]: Hash, bytes: u64) -> Past {
        self.now += bytes;
        let last = Ghost::time(self.now);
        if let Some(ghost) = self.ghosts.get_mut(&name) {
            let past = Past { interval: ghost.interval(self.now), uses: ghost.uses };
            *ghost = Ghost { last, uses: ghost.uses.saturating_add(1) };
            self.unused_evictions = 0;
            return past;
        }
        if self.ghost_order.len() >= GHOSTS_MAX
            && let Some(oldest) = self.ghost_order.pop_front()
        {
            self.ghosts.remove(&oldest);
        }
        self.ghosts.insert(name, Ghost { last, uses: 1 });
        self.ghost_order.push_back(name);
        Past::default()
    }

    /// True if it is worth a KEEP. If nothing repeats, as in a video, KEEPs only cost their bytes.
    pub(crate) fn is_worth_keeping(&mut self, past: Past) -> bool {
        self.considered = self.considered.wrapping_add(1);
        past.interval != 0
            || self.unused_evictions < UNUSED_EVICTIONS_MAX
            || self.considered.is_multiple_of(SAMPLE)
    }

    /// Records that the missed entry is kept in `slot` now.
    pub(crate) fn insert(&mut self, slot: u32, bytes: u64, past: Past) {
        self.put(slot, Resident { bytes, last: self.now, interval: past.interval });
    }

    /// Records that the entry in `slot` is no longer kept.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.take(slot).is_some_and(|resident| resident.is_fresh()) {
            self.unused_evictions += 1;
        }
    }

    /// Offers slots to evict for an entry with these past uses, until `enough` returns true; false
    /// if too few are worth less than it. Slots `in_use` stay.
    pub(crate) fn victims(
        &self,
        past: Past,
        in_use: impl Fn(u32) -> bool,
        mut enough: impl FnMut(u32) -> bool,
    ) -> bool {
        let mut found = |slots: &mut dyn Iterator<Item = u32>| {
            slots.take(EVICTED_MAX).filter(|&slot| !in_use(slot)).any(&mut enough)
        };
        let late = self.proven.iter().take_while(|&&(due, _)| self.now > due + self.capacity / 2);
        if found(&mut late.map(|&(_, slot)| slot)) {
            return true;
        }
        let is_new = past.interval == 0;
        let replaces =
            |last: u64| is_new || past.uses >= USES_PROVEN || self.now - last > past.interval;
        let fresh = self.fresh.iter().take_while(|&&(last, _)| replaces(last));
        if found(&mut fresh.map(|&(_, slot)| slot)) {
            return true;
        }
        // Those that are overdue last are used again latest.
        let next = self.now + past.interval + past.interval / 4;
        let later = |slot: &u32| {
            let resident = &self.residents[slot];
            if is_new {
                self.proven_bytes > self.capacity - self.capacity / FRESH_SHARE
            } else {
                resident.last + resident.interval > next
            }
        };
        found(&mut self.proven.iter().rev().map(|&(_, slot)| slot).take_while(later))
    }

    /// Forgets the past uses of everything that is not kept.
    pub(crate) fn forget_ghosts(&mut self) {
        self.ghosts = HashMap::new();
        self.ghost_order = VecDeque::new();
    }

    fn take(&mut self, slot: u32) -> Option<Resident> {
        let resident = self.residents.remove(&slot)?;
        if resident.is_fresh() {
            self.fresh.remove(&(resident.rank(), slot));
        } else {
            self.proven.remove(&(resident.rank(), slot));
            self.proven_bytes -= resident.bytes;
        }
        Some(resident)
    }

    fn put(&mut self, slot: u32, resident: Resident) {
        if resident.is_fresh() {
            self.fresh.insert((resident.rank(), slot));
        } else {
            self.proven.insert((resident.rank(), slot));
            self.proven_bytes += resident.bytes;
        }
        let before = self.residents.insert(slot, resident);
        assert!(before.is_none(), "a slot must have one entry");
    }
}
