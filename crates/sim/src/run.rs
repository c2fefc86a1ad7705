//! Above world.rs: runs thousands of seeds on all cores. From main.rs and the tests with a range of
//! seeds, to a tally and the failed seeds. Knows that every run depends on its seed only.

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

/// Runs a seed: so many operations, draining the queues after every quarter of them.
///
/// # Errors How a viewer diverged from the screen. A broken invariant panics.
pub fn run_seed<P: Pipeline>(
    seed: u64,
    operations: usize,
    breakage: Option<Breakage>,
) -> Result<Tally, Divergence> {
    let mut workload = Workload::new(seed);
    let mut world = World::<P>::new(seed, workload.size, workload.ring_max, breakage);
    for op in workload.operations(operations) {
        world.apply(&op)?;
    }
    Ok(world.tally())
}

/// Runs every seed of a range; returns the failed seeds in order, with their messages.
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
                    let result =
                        catch_unwind(AssertUnwindSafe(|| run_seed::<P>(seed, operations, None)));
                    let mut found = found.lock().expect("no thread panics while it holds the lock");
                    match result {
                        Ok(Ok(tally)) => found.0.add(&tally),
                        Ok(Err(divergence)) => found.1.push((seed, divergence.0)),
                        Err(panic) => found.1.push((seed, panic_message(&*panic))),
                    }
                }
            });
        }
    });
    let (tally, mut failed) = found.into_inner().expect("no thread panics while it holds the lock");
    failed.sort_unstable();
    (tally, failed)
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or(panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", message.unwrap_or("without a message"))
}
