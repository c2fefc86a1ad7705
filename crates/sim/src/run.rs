//! Over world.rs: seeds by the thousand, on as many threads as there are cores.
//! From main.rs and the tests with a range of seeds, to a tally and what failed.
//! Knows that every run is its seed's alone.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::breakage::Breakage;
use crate::oracle::Tally;
use crate::pipeline::Pipeline;
use crate::workload::Workload;
use crate::world::{Divergence, World};

/// Runs a seed: so many operations, with a rest after every quarter of them.
///
/// # Errors
/// How the world came apart. A broken invariant panics.
pub fn run_seed<P: Pipeline>(seed: u64, operations: usize, breakage: Option<Breakage>) -> Result<Tally, Divergence> {
    let mut workload = Workload::new(seed);
    let mut world = World::<P>::new(seed, workload.size, workload.ring_max, breakage);
    for op in workload.operations(operations) {
        world.apply(&op)?;
    }
    Ok(world.tally())
}

/// Runs every seed of a range; the seeds that failed, in order, with how.
pub fn run_seeds<P: Pipeline>(seeds: Range<u64>, operations: usize) -> (Tally, Vec<(u64, String)>) {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Tally::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = catch_unwind(AssertUnwindSafe(|| run_seed::<P>(seed, operations, None)));
                    let mut found = found.lock().expect("nobody panics while holding it");
                    match result {
                        Ok(Ok(tally)) => found.0.add(&tally),
                        Ok(Err(divergence)) => found.1.push((seed, divergence.0)),
                        Err(panic) => found.1.push((seed, words_of(&*panic))),
                    }
                }
            });
        }
    });
    let (tally, mut failed) = found.into_inner().expect("nobody panics while holding it");
    failed.sort_unstable();
    (tally, failed)
}

/// What a broken invariant said.
pub fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("broken: {}", words.unwrap_or("a promise without words"))
}
