//! Path 8/13: beside cache.rs.
//! Which of the kept pixels make room for others: those that are wanted again latest, as far as the past tells.
//! Knows names, sizes and the order in which they were wanted; never pixels, slots' states or viewers.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::cache::{EMPTIED_MAX, Hash};

/// 56 Ki: names remembered of what is not kept. As many cells as ninety pictures of 1600 x 1600 have; at 25 bytes each, 1.5 MiB once a
/// screen that never repeats has filled them, and as much as a table of 64 Ki places holds.
const GHOSTS_MAX: usize = 56 * 1024;
/// 4 KiB: unit of a ghost's time. The least that is kept has a quarter of it.
const GHOST_TIME_BITS: u32 = 12;
/// An eighth of the memory is always there for what was never wanted twice, however much else comes again.
const FRESH_SHARE: u64 = 8;
/// Seen so often before, something may replace what was seen once, however lately.
const SIGHTS_PROVEN: u8 = 2;

/// So many that made room for others without having been wanted again, one after the other, say that nothing comes again here: a
/// screen of 1920 x 1200 seven times over.
const IN_VAIN_MAX: u32 = 4096;
/// Of what was never seen, one in so many is kept then all the same: what begins to come again is found by it, and by its ghosts.
const SAMPLE: u32 = 16;

/// What is known of something that is wanted and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Bytes that were wanted since it was wanted last; 0: it never was.
    interval: u64,
    /// How often it was wanted before.
    sights: u8,
}

/// Small: there are many.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    /// In units of [`GHOST_TIME_BITS`].
    last: u32,
    sights: u8,
}

impl Ghost {
    fn time(now: u64) -> u32 {
        (now >> GHOST_TIME_BITS) as u32
    }

    /// Bytes since it was wanted last; never 0, which says that it was not.
    fn interval(&self, now: u64) -> u64 {
        (u64::from(Ghost::time(now).wrapping_sub(self.last)) << GHOST_TIME_BITS).max(1)
    }
}

/// Something that is kept.
#[derive(Clone, Copy, Debug)]
struct Resident {
    bytes: u64,
    last: u64,
    /// From one time it was wanted to the next; 0: it was wanted once.
    interval: u64,
}

impl Resident {
    fn is_fresh(&self) -> bool {
        self.interval == 0
    }

    /// When it is late: it did not come again in twice the time it took before.
    fn due(&self) -> u64 {
        self.last + 2 * self.interval
    }

    /// Where it stands among those of its kind.
    fn rank(&self) -> u64 {
        if self.is_fresh() { self.last } else { self.due() }
    }
}

/// The order in which kept pixels make room.
///
/// Time is counted in bytes that were wanted. Something wanted twice is *proven*: it has an interval, and its next time is
/// expected after another. Something wanted once is *fresh*, and among fresh ones the oldest goes first, as LRU has it.
/// What comes after a known interval is let in only at the cost of what is expected later. So a loop longer than the
/// memory keeps the part that fits: each of its pictures is wanted again before any that waits outside. And what is late
/// twice over protects itself no longer, so that a loop that has ended makes room.
#[derive(Debug)]
pub(crate) struct Reuse {
    capacity: u64,
    now: u64,
    residents: HashMap<u32, Resident>,
    /// Slots by when they were wanted.
    fresh: BTreeSet<(u64, u32)>,
    /// Slots by when they are late.
    proven: BTreeSet<(u64, u32)>,
    proven_bytes: u64,
    /// By half of their names: two that share it are taken for one, which only misjudges when they come again.
    ghosts: HashMap<u64, Ghost>,
    /// Ghosts in the order in which they were first seen.
    ghost_order: VecDeque<u64>,
    /// Fresh ones that had to go since anything came again.
    in_vain: u32,
    /// Asked for since.
    asked: u32,
}

impl Reuse {
    /// For memory of so many bytes.
    pub(crate) fn new(capacity: u64) -> Reuse {
        Reuse {
            capacity,
            now: 0,
            residents: HashMap::new(),
            fresh: BTreeSet::new(),
            proven: BTreeSet::new(),
            proven_bytes: 0,
            ghosts: HashMap::new(),
            ghost_order: VecDeque::new(),
            in_vain: 0,
            asked: 0,
        }
    }

    /// The memory has this size now.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// What is kept in `slot` is wanted.
    pub(crate) fn wanted(&mut self, slot: u32) {
        let Some(mut resident) = self.take(slot) else { return };
        self.in_vain = 0;
        self.now += resident.bytes;
        let interval = self.now - resident.last;
        // Half of what was known, so that one pause does not make a late one of it.
        resident.interval = if resident.is_fresh() { interval } else { (resident.interval + interval).div_ceil(2) };
        resident.last = self.now;
        self.put(slot, resident);
    }

    /// Something that is not kept is wanted: what is known of it.
    pub(crate) fn missed(&mut self, [name, _]: Hash, bytes: u64) -> Past {
        self.now += bytes;
        let last = Ghost::time(self.now);
        if let Some(ghost) = self.ghosts.get_mut(&name) {
            let past = Past { interval: ghost.interval(self.now), sights: ghost.sights };
            *ghost = Ghost { last, sights: ghost.sights.saturating_add(1) };
            self.in_vain = 0;
            return past;
        }
        if self.ghost_order.len() >= GHOSTS_MAX
            && let Some(oldest) = self.ghost_order.pop_front()
        {
            self.ghosts.remove(&oldest);
        }
        self.ghosts.insert(name, Ghost { last, sights: 1 });
        self.ghost_order.push_back(name);
        Past::default()
    }

    /// Whether it is worth a KEEP. Where nothing comes again, as in a video, those of every picture would only take their bytes.
    pub(crate) fn is_worth_keeping(&mut self, past: Past) -> bool {
        self.asked = self.asked.wrapping_add(1);
        past.interval != 0 || self.in_vain < IN_VAIN_MAX || self.asked.is_multiple_of(SAMPLE)
    }

    /// What was missed is kept in `slot` now.
    pub(crate) fn insert(&mut self, slot: u32, bytes: u64, past: Past) {
        self.put(slot, Resident { bytes, last: self.now, interval: past.interval });
    }

    /// It is not kept any more.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.take(slot).is_some_and(|resident| resident.is_fresh()) {
            self.in_vain += 1;
        }
    }

    /// Slots that shall make room for something of this past, until `enough` of them were told; false where too few are
    /// worth less than it. `in_use` ones stay.
    pub(crate) fn victims(
        &self,
        past: Past,
        in_use: impl Fn(u32) -> bool,
        mut enough: impl FnMut(u32) -> bool,
    ) -> bool {
        let mut found = |slots: &mut dyn Iterator<Item = u32>| {
            slots.take(EMPTIED_MAX).filter(|&slot| !in_use(slot)).any(&mut enough)
        };
        let late = self.proven.iter().take_while(|&&(due, _)| self.now > due + self.capacity / 2);
        if found(&mut late.map(|&(_, slot)| slot)) {
            return true;
        }
        let is_new = past.interval == 0;
        let replaces = |last: u64| is_new || past.sights >= SIGHTS_PROVEN || self.now - last > past.interval;
        let fresh = self.fresh.iter().take_while(|&&(last, _)| replaces(last));
        if found(&mut fresh.map(|&(_, slot)| slot)) {
            return true;
        }
        // Those that were wanted last are wanted again latest.
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

    /// Nothing is known any more of what is not kept.
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
        assert!(before.is_none(), "a slot is entered once");
    }
}
