//! Which jobs use memory without measure while it is short. Beside the path: from plan.rs, and back
//! to it. Knows pages and the machine's memory as arguments; never who types.
//!
//! Who takes the last of the memory pages out what a person will need next. So a job that has a
//! large part of the machine is held while memory is short, and pages out itself (memory.high). A
//! job is measured, as in hogs.rs: a browser is many processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::paged::Machine;
use crate::table::{Job, Table};

/// Memory is short while less than this is available, in percent of all: what programs need next
/// must come from swap, or from files that were just read.
const SHORT_PERCENT: u64 = 10;
/// It is so no more once this much is available: what a job that is held gives back does not end
/// its being held at once.
const ENOUGH_PERCENT: u64 = 20;
/// A job uses memory without measure that has so much of all memory, in percent. On a machine with
/// 4 GiB it is 1 GiB, as a large browser has.
const MUCH_PERCENT: u64 = 25;

/// The jobs that are held, and what each has of the machine's memory in percent.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    is_short: bool,
    held: BTreeMap<Job, u32>,
}

impl Holds {
    /// `machine` is `None`, or has no memory, where nothing is known: nobody is held.
    pub(crate) fn measure(&mut self, table: &Table, machine: Option<Memory>) {
        let Some(Memory { machine, page_bytes }) = machine.filter(|it| it.machine.total > 0) else {
            (self.is_short, self.held) = (false, BTreeMap::new());
            return;
        };
        let of_all = |bytes: u64| {
            u64::try_from(u128::from(bytes) * 100 / u128::from(machine.total)).unwrap_or(u64::MAX)
        };
        let enough = if self.is_short { ENOUGH_PERCENT } else { SHORT_PERCENT };
        self.is_short = of_all(machine.available) < enough;
        let mut pages = BTreeMap::<Job, u64>::new();
        for process in table.iter() {
            let own = pages.entry(process.job()).or_default();
            *own = own.saturating_add(process.resident_pages);
        }
        let held = std::mem::take(&mut self.held);
        if !self.is_short {
            return;
        }
        let percents =
            pages.into_iter().map(|(job, pages)| (job, of_all(pages.saturating_mul(page_bytes))));
        // One that is held stays so until memory is no longer short: by then it is smaller.
        let is_held =
            |(job, percent): &(Job, u64)| *percent >= MUCH_PERCENT || held.contains_key(job);
        let percents = percents.filter(is_held);
        self.held = percents.map(|(job, percent)| (job, percent.min(999) as u32)).collect();
    }

    /// What a job that is held has of the machine's memory, in percent; `None` for all others.
    pub(crate) fn percent(&self, job: Job, exempt: &BTreeSet<Job>) -> Option<u32> {
        self.held.get(&job).copied().filter(|_| !exempt.contains(&job))
    }
}

/// The machine's memory, and in which pages processes have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What /proc/meminfo says.
    pub machine: Machine,
    /// Bytes of a page.
    pub page_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Process;

    /// Of a machine with 1000 pages.
    fn memory(available: u64) -> Option<Memory> {
        let machine = Machine { total: 4_096_000, available: available * 4096, swap_used: 0 };
        Some(Memory { machine, page_bytes: 4096 })
    }

    fn table(pages: [u64; 3]) -> Table {
        let [browser, renderer, other] = pages;
        Table::new([
            Process::new(1, 0).in_job(1, 1).resident(browser),
            Process::new(2, 1).in_job(1, 1).resident(renderer),
            Process::new(3, 0).resident(other),
        ])
    }

    fn held(holds: &Holds) -> Vec<u32> {
        holds.held.values().copied().collect()
    }

    #[test]
    fn a_job_is_held_that_has_a_quarter_while_memory_is_short() {
        let mut holds = Holds::default();
        holds.measure(&table([200, 100, 249]), memory(100));
        assert_eq!(held(&holds), [], "a tenth is available");
        holds.measure(&table([200, 100, 249]), memory(99));
        assert_eq!(held(&holds), [30], "the processes of a job count together");
        let job = Process::new(1, 0).in_job(1, 1).job();
        assert_eq!(holds.percent(job, &BTreeSet::new()), Some(30));
        assert_eq!(holds.percent(job, &BTreeSet::from([job])), None);
        assert_eq!(holds.percent(Process::new(3, 0).job(), &BTreeSet::new()), None);
    }

    #[test]
    fn what_is_held_stays_so_until_memory_is_enough() {
        let mut holds = Holds::default();
        holds.measure(&table([300, 0, 0]), memory(50));
        holds.measure(&table([10, 0, 0]), memory(199));
        assert_eq!(held(&holds), [1]);
        holds.measure(&table([300, 0, 0]), memory(200));
        assert_eq!(held(&holds), []);
        holds.measure(&table([300, 0, 0]), memory(199));
        assert_eq!(held(&holds), [], "it is short again below a tenth");
    }

    #[test]
    fn one_that_has_ended_is_forgotten_and_without_a_measure_nobody_is_held() {
        let mut holds = Holds::default();
        holds.measure(&table([300, 0, 0]), memory(50));
        holds.measure(&Table::new([]), memory(50));
        assert_eq!(held(&holds), []);
        holds.measure(&table([300, 0, 0]), memory(50));
        for unknown in [None, Some(Memory { machine: Machine::default(), page_bytes: 4096 })] {
            holds.measure(&table([300, 0, 0]), unknown);
            assert_eq!(held(&holds), []);
        }
    }

    #[test]
    fn numbers_at_their_limits_do_not_overflow() {
        let mut holds = Holds::default();
        let machine = Machine { total: 1, available: 0, swap_used: 0 };
        let memory = Memory { machine, page_bytes: u64::MAX };
        holds.measure(&table([u64::MAX, u64::MAX, 1]), Some(memory));
        assert_eq!(held(&holds), [999, 999]);
    }
}
