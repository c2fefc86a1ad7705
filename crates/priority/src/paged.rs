//! Which pages of a process are not in memory but in swap, and in which order they are brought
//! back. Beside the path: from /proc/PID/smaps and pagemap (proc_pid_smaps(5)), which a shell
//! reads, to that shell, which touches the pages. Knows the kernel's text and numbers; never a
//! file.
//!
//! A program names its mappings as it likes. Names are not read: what is swapped is the kernel's.

use std::ops::Range;

/// Of an entry of pagemap, in bytes.
pub const ENTRY_BYTES: usize = 8;
/// Bits of an entry: the page is in memory, and mapped; it is in swap.
const PRESENT: u64 = 1 << 63;
/// See [`PRESENT`].
const SWAPPED: u64 = 1 << 62;
/// Of a page of shared memory that is in swap an entry says nothing, as of one that was never
/// used. Reading the latter would take new memory, so shared memory is brought back only if this
/// much of a mapping, in percent, is used: a framebuffer, and not a large ring that is nearly
/// empty.
const SHARED_USED_PERCENT: u64 = 75;

/// A mapping of which a part is in swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes in memory that this process has mapped.
    pub resident: u64,
    /// Shared with other processes.
    pub is_shared: bool,
}

impl Mapping {
    /// Whether it is brought back.
    fn is_wanted(&self) -> bool {
        let used = self.swapped.saturating_add(self.resident);
        let wanted = u128::from(self.end - self.start) * u128::from(SHARED_USED_PERCENT);
        self.swapped > 0 && (!self.is_shared || u128::from(used) * 100 >= wanted)
    }
}

/// The mappings of /proc/PID/smaps that have pages in swap and are brought back: those with fewest
/// first. Stacks and the data of libraries so come before a heap, of which a part may have to
/// do. Text that is not of that form is left out.
pub fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut open: Option<Mapping> = None;
    for line in smaps.lines() {
        // Lines of values begin in upper case; the kernel escapes line ends in names.
        if let Some(next) = head(line) {
            found.extend(open.replace(next).filter(Mapping::is_wanted));
        } else if let Some(mapping) = &mut open {
            if let Some(bytes) = value(line, "Swap:") {
                mapping.swapped = bytes;
            } else if let Some(bytes) = value(line, "Rss:") {
                mapping.resident = bytes;
            }
        }
    }
    found.extend(open.filter(Mapping::is_wanted));
    found.sort_by_key(|mapping| (mapping.is_shared, mapping.swapped, mapping.start));
    found
}

/// The first line of a mapping: `start-end rwxp …`.
fn head(line: &str) -> Option<Mapping> {
    let mut fields = line.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
    let (start, end) = (start?, end?);
    let is_shared = match fields.next()?.as_bytes() {
        [_, _, _, b'p'] => false,
        [_, _, _, b's'] => true,
        _ => return None,
    };
    (start < end).then_some(Mapping { start, end, swapped: 0, resident: 0, is_shared })
}

/// A line `Swap:   12 kB`, in bytes.
fn value(line: &str, name: &str) -> Option<u64> {
    let number = line.strip_prefix(name)?.trim().strip_suffix(" kB")?;
    number.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// What may still be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pages: u64,
    page_bytes: u64,
}

impl Budget {
    /// So many bytes, in pages of this size.
    ///
    /// # Panics
    /// If a page has no bytes.
    pub fn new(bytes: u64, page_bytes: u64) -> Budget {
        assert!(page_bytes > 0, "a page has bytes");
        Budget { pages: bytes / page_bytes, page_bytes }
    }

    /// Nothing more.
    pub fn is_spent(&self) -> bool {
        self.pages == 0
    }

    /// The pages of a mapping that are brought back, as addresses: those that these entries of
    /// pagemap tell of, the first of which is of the page at `address`. `left` is how many pages of
    /// the mapping are in swap and were not found yet; it and the budget are less by the pages that
    /// are returned.
    pub fn take(
        &mut self,
        mapping: &Mapping,
        address: u64,
        entries: &[u8],
        left: &mut u64,
    ) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let entries = entries.chunks_exact(ENTRY_BYTES);
        for (index, entry) in (0..).zip(entries) {
            if *left == 0 || self.pages == 0 {
                break;
            }
            let entry = u64::from_le_bytes(entry.try_into().expect("8 bytes"));
            let is_away = match mapping.is_shared {
                true => entry & PRESENT == 0,
                false => entry & SWAPPED != 0,
            };
            let bounds = |index: u64| {
                let start = address.checked_add(index.checked_mul(self.page_bytes)?)?;
                let end = start.checked_add(self.page_bytes)?;
                (mapping.start <= start && end <= mapping.end).then_some(start..end)
            };
            let Some(page) = bounds(index).filter(|_| is_away) else { continue };
            (*left, self.pages) = (*left - 1, self.pages - 1);
            match ranges.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => ranges.push(page),
            }
        }
        ranges
    }
}

/// What /proc/meminfo says that matters for swap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// All memory.
    pub total: u64,
    /// What programs could get without anything being paged out.
    pub available: u64,
    /// What is in swap.
    pub swap_used: u64,
}

impl Machine {
    /// Parses /proc/meminfo; what is not there is 0.
    pub fn parse(meminfo: &str) -> Machine {
        let of = |name: &str| meminfo.lines().find_map(|line| value(line, name)).unwrap_or(0);
        let swap_used = of("SwapTotal:").saturating_sub(of("SwapFree:"));
        Machine { total: of("MemTotal:"), available: of("MemAvailable:"), swap_used }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;

    fn lines(head: &str, rss_kb: u64, swap_kb: u64) -> String {
        format!(
            "{head}\nSize:                132 kB\nRss: {rss_kb:>19} kB\nPss: {rss_kb:>19} kB\n\
             Swap: {swap_kb:>18} kB\nSwapPss:               0 kB\nVmFlags: rd wr mr \n"
        )
    }

    fn entries(of: &[u64]) -> Vec<u8> {
        of.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn mappings_with_swap_are_found_with_the_smallest_share_first_and_shared_ones_last() {
        let text = [
            lines("55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0      [heap]", 4, 128),
            lines("7f0000000000-7f0000021000 r-xp 00000000 fe:00 24 /usr/lib/libX11.so", 132, 0),
            lines(
                "7f1000000000-7f1000021000 rw-s 00000000 00:01 24 /memfd:screen (deleted)",
                8,
                92,
            ),
            lines("7f2000000000-7f2000021000 rw-s 00000000 00:01 25 /memfd:ring (deleted)", 8, 90),
            lines("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0      [stack]", 12, 8),
        ]
        .concat();
        let found = mappings(&text);
        let starts: Vec<u64> = found.iter().map(|mapping| mapping.start).collect();
        assert_eq!(starts, [0x7ffc_0000_0000, 0x55d0_c000_0000, 0x7f10_0000_0000]);
        let heap = Mapping {
            start: 0x55d0_c000_0000,
            end: 0x55d0_c002_1000,
            swapped: 128 << 10,
            resident: 4 << 10,
            is_shared: false,
        };
        assert_eq!(found[1], heap);
    }

    #[test]
    fn a_name_of_a_mapping_says_nothing() {
        let name = "1000-2000 rw-p 00000000 00:00 0 /tmp/Swap: 64 kB\\0123000-4000 rw-p";
        assert_eq!(mappings(&lines(name, 4, 0)), []);
        let found = mappings(&lines(name, 4, 4));
        assert_eq!((found.len(), found[0].start, found[0].swapped), (1, 0x1000, 4096));
    }

    #[test]
    fn what_is_no_mapping_is_left_out() {
        for head in
            ["", "2000-1000 rw-p", "1000-1000 rw-p", "1000-2000", "1000-2000 rw-x", "x-y rw-p"]
        {
            assert_eq!(mappings(&lines(head, 4, 4)), [], "{head:?}");
        }
        let huge = lines("0-ffffffffffffffff rw-p", 0, u64::MAX / 1024);
        assert_eq!(mappings(&huge).len(), 1);
        assert_eq!(mappings(&lines("0-1000 rw-p", 0, u64::MAX)), [], "no number of bytes");
    }

    #[test]
    fn pages_in_swap_are_taken_until_all_are_found_or_the_budget_is_spent() {
        let mapping = Mapping {
            start: 0x10_000,
            end: 0x16_000,
            swapped: 4 * PAGE,
            resident: PAGE,
            is_shared: false,
        };
        let map = entries(&[SWAPPED, SWAPPED | 7, PRESENT, 0, SWAPPED, SWAPPED, SWAPPED]);
        let all = [0x10_000..0x12_000, 0x14_000..0x16_000];
        let mut budget = Budget::new(100 * PAGE, PAGE);
        let mut left = 4;
        assert_eq!(budget.take(&mapping, 0x10_000, &map, &mut left), all);
        assert_eq!((left, budget.pages), (0, 96), "the last entry is behind the mapping");
        let mut left = 1;
        let first = budget.take(&mapping, 0x10_000, &map, &mut left);
        assert_eq!((first.len(), &first[0]), (1, &(0x10_000..0x11_000)));
        let mut small = Budget::new(3 * PAGE + 1, PAGE);
        let three = [0x10_000..0x12_000, 0x14_000..0x15_000];
        assert_eq!(small.take(&mapping, 0x10_000, &map, &mut 9), three);
        assert!(small.is_spent());
        assert_eq!(small.take(&mapping, 0x10_000, &map, &mut 9), []);
    }

    #[test]
    fn of_shared_memory_what_is_not_mapped_is_taken() {
        let mapping =
            Mapping { start: 0, end: 3 * PAGE, swapped: 2 * PAGE, resident: PAGE, is_shared: true };
        let mut budget = Budget::new(100 * PAGE, PAGE);
        let map = entries(&[0, PRESENT, 0]);
        assert_eq!(budget.take(&mapping, 0, &map, &mut 2), [0..PAGE, 2 * PAGE..3 * PAGE]);
    }

    #[test]
    fn a_machine_without_swap_has_none_in_use() {
        let text = "MemTotal:       24684044 kB\nMemFree:        20365056 kB\n\
                    MemAvailable:   23642112 kB\nSwapCached:            0 kB\n\
                    SwapTotal:       1048572 kB\nSwapFree:         982840 kB\n";
        let machine = Machine::parse(text);
        assert_eq!(machine.total, 24_684_044 << 10);
        assert_eq!((machine.available, machine.swap_used), (23_642_112 << 10, 65_732 << 10));
        assert_eq!(Machine::parse("SwapTotal: 0 kB\nSwapFree: 4 kB\n"), Machine::default());
    }

    proptest! {
        #[test]
        fn no_page_outside_of_the_mapping_is_taken_and_none_twice(
            start in any::<u64>(),
            length in 0..u64::MAX,
            address in any::<u64>(),
            swapped in any::<u64>(),
            is_shared in any::<bool>(),
            bits in prop::collection::vec(0u64..4, 0..40),
            budget in 0u64..40,
            mut left in 0u64..40,
        ) {
            let end = start.saturating_add(length);
            let mapping = Mapping { start, end, swapped, resident: 0, is_shared };
            let map = entries(&bits.iter().map(|bit| bit << 62).collect::<Vec<_>>());
            let (before, mut spent) = (left, Budget::new(budget * PAGE, PAGE));
            let ranges = spent.take(&mapping, address, &map, &mut left);
            let pages: u64 = ranges.iter().map(|range| (range.end - range.start) / PAGE).sum();
            prop_assert_eq!((before - left, budget - spent.pages), (pages, pages));
            let mut last = start;
            for range in ranges {
                prop_assert!(last <= range.start && range.start < range.end && range.end <= end);
                last = range.end;
            }
        }

        #[test]
        fn any_text_is_read(text in any::<String>()) {
            for mapping in mappings(&text) {
                prop_assert!(mapping.start < mapping.end && mapping.swapped > 0);
            }
        }
    }
}
