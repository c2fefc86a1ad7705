//! `cargo run --release -p thinc-sim --example trace -- SEED [OPERATIONS] [--full]`: shrinks a
//! failing seed to the fewest operations that still fail. For a person with a seed: a scenario for
//! tests/counterexamples.rs. Knows the simulator's public interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_region::{Region, Size};
use thinc_sim::{Full, Ids, Op, Pipeline, Workload, World, panic_message};

/// The failure message of the operations, if they fail.
fn failure<P: Pipeline>(
    seed: u64,
    operations: &[Op],
    (size, ring_max): (Size, usize),
) -> Option<String> {
    let run = || {
        let mut world = World::<P>::new(seed, size, ring_max, None);
        operations.iter().try_for_each(|op| world.apply(op))?;
        world.drain()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(divergence)) => Some(divergence.0),
        Err(panic) => Some(panic_message(&*panic)),
    }
}

fn region(op: &mut Op) -> Option<&mut Region> {
    match op {
        Op::Draw { region, .. }
        | Op::Copy { region, .. }
        | Op::Paint { region, .. }
        | Op::Blit { region, .. } => Some(region),
        _ => None,
    }
}

fn shrink<P: Pipeline>(seed: u64, len: usize) {
    let mut workload = Workload::new(seed);
    let world = (workload.size, workload.ring_max);
    let mut operations = workload.operations(len);
    let Some(message) = failure::<P>(seed, &operations, world) else {
        println!("seed {seed} passes with {len} operations");
        return;
    };
    println!("seed {seed}: {message}");
    // Leaves out smaller and smaller pieces, until no single operation can be left out.
    let mut piece = operations.len() / 2;
    while piece > 0 {
        let before = operations.len();
        let mut at = operations.len();
        while at > 0 {
            let from = at.saturating_sub(piece);
            let mut fewer = operations[..from].to_vec();
            fewer.extend_from_slice(&operations[at..]);
            if failure::<P>(seed, &fewer, world).is_some() {
                operations = fewer;
            }
            at = from.min(operations.len());
        }
        if piece > 1 || operations.len() == before {
            piece /= 2;
        }
    }
    // Then leaves out rectangles.
    for at in 0..operations.len() {
        let mut i = 0;
        while let Some(region) =
            region(&mut operations[at]).filter(|region| i < region.rect_count())
        {
            let whole = region.clone();
            region.subtract_rect(&whole.rects()[i]);
            if whole.rect_count() == 1 || failure::<P>(seed, &operations, world).is_none() {
                *self::region(&mut operations[at]).expect("the operation has a region") = whole;
                i += 1;
            }
        }
    }
    println!("screen {:?}, ring of {}", world.0, world.1);
    operations.iter().for_each(|op| println!("{op:?}"));
    println!("{}", failure::<P>(seed, &operations, world).unwrap_or_default());
}

fn main() {
    // Panics are expected here, and would be printed hundreds of times.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|word| word.parse::<u64>().ok());
    let (seed, len) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(800) as usize);
    if arguments.iter().any(|word| word == "--full") {
        shrink::<Full>(seed, len)
    } else {
        shrink::<Ids>(seed, len)
    }
}
