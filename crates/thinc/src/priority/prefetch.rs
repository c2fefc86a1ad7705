//! Brings the pages of what answers a person back from swap when they come back, before a key needs
//! them one by one. From priority.rs, which knows when and whose, to /proc/PID/mem, of which a byte
//! of each page is read: the kernel then brings in the page. Knows files; which pages they are says
//! thinc-priority (paged.rs).
//!
//! process_madvise(2) would do it with fewer calls, but takes CAP_SYS_NICE and unsafe code, and
//! leaves a page fault to each page. A supervisor may read its descendants' memory, of its own user
//! (ptrace(2), "ptrace access mode checking"); a process that forbids that is left alone, as those
//! of thinc do.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thinc_priority::paged::{Budget, ENTRY_BYTES, Machine, mappings};

use crate::port::now_s;

/// With less in swap there is nothing to do: what is never used is paged out first.
const SWAP_USED_MIN: u64 = 1 << 20;
/// Most that is brought back at a time, and of the memory that is available this part: what is
/// brought back must not page out something else.
const BYTES_MAX: u64 = 256 << 20;
/// See [`BYTES_MAX`].
const AVAILABLE_PART: u64 = 2;
/// A person who has waited longer has pressed their key meanwhile.
const TIME_MAX: Duration = Duration::from_secs(2);
/// 16 MiB of text are 16 000 mappings or more; a process may have 65 530 (vm.max_map_count). Of one
/// with more, the first ones are brought back.
const SMAPS_BYTES_MAX: u64 = 16 << 20;
/// Entries of pagemap that are read at a time: 16 MiB of a process, in pages of 4 KiB.
const ENTRIES: usize = 4096;
/// Threads that read. A disk answers several at a time; 64 MiB of a swap file take 264 ms with 1,
/// 148 ms with 4, 114 ms with 8, which on compressed memory would only compute
/// (doc/experiments/059).
const THREADS: usize = 4;
/// Pages that a thread takes at a time.
const PIECE_PAGES: u64 = 128;

/// What was brought back, for `thinc top`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BroughtBack {
    /// Seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) bytes: u64,
    pub(crate) ms: u64,
    /// Of which there was something in swap.
    pub(crate) processes: u32,
    /// That the kernel did not let be read.
    pub(crate) refused: u32,
    /// The time was over, or the bytes were spent.
    pub(crate) is_cut: bool,
}

/// At most one thread brings something back.
#[derive(Default)]
pub(super) struct Prefetch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_running: bool,
    last: Option<BroughtBack>,
}

impl Prefetch {
    /// Brings these back, in this order, in a thread of its own. It does nothing where nothing is
    /// in swap, or while it still does so: a program can hold the thread for as long as it likes
    /// (userfaultfd(2)), and keeps its own session's pages away by that.
    pub(super) fn begin(&self, processes: Vec<u32>) {
        let machine = machine();
        if machine.swap_used < SWAP_USED_MIN
            || std::mem::replace(&mut self.state().is_running, true)
        {
            return;
        }
        let state = self.0.clone();
        let started = thread::Builder::new().name("prefetch".to_owned()).spawn(move || {
            let bytes = (machine.available / AVAILABLE_PART).min(BYTES_MAX);
            let brought = bring_back(&processes, bytes);
            *lock(&state) = State { is_running: false, last: Some(brought) };
        });
        if started.is_err() {
            // At a limit of the system: keys bring the pages back.
            self.state().is_running = false;
        }
    }

    pub(super) fn last(&self) -> Option<BroughtBack> {
        self.state().last.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is known of a machine without /proc.
pub(super) fn machine() -> Machine {
    Machine::parse(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// Pages of one process that a thread reads.
struct Piece {
    memory: Arc<File>,
    addresses: Range<u64>,
}

fn bring_back(processes: &[u32], bytes: u64) -> BroughtBack {
    let began = Instant::now();
    let page_bytes = rustix::param::page_size() as u64;
    let mut budget = Budget::new(bytes, page_bytes);
    let (mut found, mut refused, mut read) = (0, 0, 0);
    thread::scope(|scope| {
        let (pieces, received) = sync_channel(THREADS);
        let received = Arc::new(Mutex::new(received));
        let reader = || {
            let received = received.clone();
            scope.spawn(move || read_pieces(&received, page_bytes, began))
        };
        let readers: Vec<_> = (0..THREADS).map(|_| reader()).collect();
        for &pid in processes {
            if budget.is_spent() || began.elapsed() >= TIME_MAX {
                break;
            }
            // A number that was given away meanwhile is another process, mostly not of this user;
            // else its pages come back for nothing.
            match find(pid, &mut budget, began, &mut |piece| pieces.send(piece).is_ok()) {
                Ok(has_swap) => found += u32::from(has_swap),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => refused += 1,
                // It has ended.
                Err(_) => {}
            }
        }
        drop(pieces);
        read = readers.into_iter().filter_map(|reader| reader.join().ok()).sum();
    });
    let took = began.elapsed();
    BroughtBack {
        at_s: now_s(),
        bytes: read * page_bytes,
        ms: took.as_millis() as u64,
        processes: found,
        refused,
        is_cut: budget.is_spent() || took > TIME_MAX,
    }
}

/// Gives away the pages of a process that are in swap, until the budget or the time is over.
fn find(
    pid: u32,
    budget: &mut Budget,
    began: Instant,
    give: &mut impl FnMut(Piece) -> bool,
) -> std::io::Result<bool> {
    let open = |name: &str| File::open(format!("/proc/{pid}/{name}"));
    let page_bytes = rustix::param::page_size() as u64;
    let mut smaps = Vec::new();
    open("smaps")?.take(SMAPS_BYTES_MAX).read_to_end(&mut smaps)?;
    // Names are of any bytes.
    let mappings = mappings(&String::from_utf8_lossy(&smaps));
    if mappings.is_empty() {
        return Ok(false);
    }
    let (pagemap, memory) = (open("pagemap")?, Arc::new(open("mem")?));
    let mut entries = vec![0; ENTRIES * ENTRY_BYTES];
    for mapping in &mappings {
        let mut left = mapping.swapped.div_ceil(page_bytes);
        let mut address = mapping.start;
        while address < mapping.end && left > 0 && !budget.is_spent() && began.elapsed() < TIME_MAX
        {
            let pages = ((mapping.end - address).div_ceil(page_bytes) as usize).min(ENTRIES);
            let entries = &mut entries[..pages * ENTRY_BYTES];
            pagemap.read_exact_at(entries, address / page_bytes * ENTRY_BYTES as u64)?;
            for range in budget.take(mapping, address, entries, &mut left) {
                for start in range.clone().step_by((PIECE_PAGES * page_bytes) as usize) {
                    let end = range.end.min(start + PIECE_PAGES * page_bytes);
                    if !give(Piece { memory: memory.clone(), addresses: start..end }) {
                        return Ok(true);
                    }
                }
            }
            address += pages as u64 * page_bytes;
        }
    }
    Ok(true)
}

/// The number of pages that were read.
fn read_pieces(pieces: &Mutex<Receiver<Piece>>, page_bytes: u64, began: Instant) -> u64 {
    let mut read = 0;
    loop {
        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Piece { memory, addresses }) = next else { return read };
        if began.elapsed() < TIME_MAX {
            let pages = addresses.step_by(page_bytes as usize);
            let bytes = pages.take_while(|_| began.elapsed() < TIME_MAX).filter(|&address| {
                // A page that is gone is an error.
                memory.read_at(&mut [0], address).is_ok_and(|count| count == 1)
            });
            read += bytes.count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, Write as _};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that gets a long text once it is told to, says when it has it, and ends with the
    /// test.
    struct Holder(Child);

    impl Holder {
        fn new(bytes: u64) -> Holder {
            let text = format!("x=$(head -c {bytes} /dev/zero | tr '\\0' x)");
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("read y; {text}; echo ready; read y")]);
            Holder(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
        }

        fn fill(mut self) -> Holder {
            self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            let out = self.0.stdout.take().unwrap();
            std::io::BufReader::new(out).read_line(&mut String::new()).unwrap();
            self
        }

        fn swapped(&self) -> u64 {
            let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
        }
    }

    impl Drop for Holder {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_with_nothing_in_swap_is_left_alone_and_one_that_has_ended_is_nothing() {
        let holder = Holder::new(1 << 20).fill();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        if holder.swapped() == 0 {
            let brought = bring_back(&[holder.0.id(), ended.id()], BYTES_MAX);
            let BroughtBack { bytes, processes, refused, is_cut, .. } = brought;
            assert_eq!((bytes, processes, refused, is_cut), (0, 0, 0, false));
        }
    }

    #[test]
    fn each_page_of_a_childs_piece_is_read_and_those_that_are_not_mapped_are_not() {
        let holder = Holder::new(1 << 20).fill();
        let maps = fs::read_to_string(format!("/proc/{}/maps", holder.0.id())).unwrap();
        let heap = maps.lines().find(|line| line.ends_with("[heap]")).unwrap();
        let (start, rest) = heap.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        let page_bytes = rustix::param::page_size() as u64;
        let memory = Arc::new(File::open(format!("/proc/{}/mem", holder.0.id())).unwrap());
        let (send, received) = sync_channel(2);
        for addresses in [start..end, 0..4 * page_bytes] {
            send.send(Piece { memory: memory.clone(), addresses }).unwrap();
        }
        drop(send);
        let received = Mutex::new(received);
        assert_eq!(read_pieces(&received, page_bytes, Instant::now()), (end - start) / page_bytes);
    }

    /// Where this process may page out another one: a group of version 1 or 2, until it is dropped.
    struct Squeezed {
        group: PathBuf,
        file: &'static str,
        value: &'static str,
    }

    impl Squeezed {
        /// `None`: there is no controller "memory", or this is not root.
        fn new() -> Option<Squeezed> {
            let name = format!("thinc-prefetch-{}", std::process::id());
            let places = [
                ("/sys/fs/cgroup/memory", "memory.force_empty", "0"),
                ("/sys/fs/cgroup", "memory.reclaim", "1G"),
            ];
            places.into_iter().find_map(|(mount, file, value)| {
                let group = Path::new(mount).join(&name);
                fs::create_dir(&group).ok()?;
                let squeezed = Squeezed { group, file, value };
                squeezed.group.join(file).exists().then_some(squeezed)
            })
        }

        fn enter(&self, process: u32) {
            fs::write(self.group.join("cgroup.procs"), process.to_string()).unwrap();
        }

        fn page_out(&self) {
            // Version 1 says nothing of it; in version 2 it is an error to get less.
            let _ = fs::write(self.group.join(self.file), self.value);
        }
    }

    impl Drop for Squeezed {
        fn drop(&mut self) {
            // The kernel refuses it until the process has ended.
            let until = Instant::now() + Duration::from_secs(10);
            while self.group.exists() && Instant::now() < until {
                let _ = fs::remove_dir(&self.group);
                thread::yield_now();
            }
        }
    }

    #[test]
    fn what_was_paged_out_is_back_after_it_was_brought_back() {
        const BYTES: u64 = 8 << 20;
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        if meminfo.lines().any(|line| line.starts_with("SwapTotal:") && line.ends_with(" 0 kB")) {
            return eprintln!("skipped: this machine has no swap");
        }
        let Some(group) = Squeezed::new() else {
            return eprintln!("skipped: a control group for memory needs root and the controller");
        };
        let holder = Holder::new(BYTES);
        // Memory belongs to the group where it was used first.
        group.enter(holder.0.id());
        let holder = holder.fill();
        let until = Instant::now() + Duration::from_secs(60);
        while holder.swapped() < BYTES / 2 {
            assert!(Instant::now() < until, "the kernel pages nothing out");
            group.page_out();
        }
        let before = holder.swapped();
        let small = bring_back(&[holder.0.id()], 1 << 20);
        assert_eq!((small.bytes, small.is_cut), (1 << 20, true), "{small:?}");
        // The kernel brings in neighbours too, without mapping them.
        assert!(holder.swapped() < before, "{small:?}");
        let all = bring_back(&[holder.0.id()], BYTES_MAX);
        assert_eq!((all.processes, all.refused, all.is_cut), (1, 0, false), "{all:?}");
        assert_eq!(small.bytes + all.bytes, before, "{all:?}");
        assert_eq!(holder.swapped(), 0, "{all:?}");
    }
}
