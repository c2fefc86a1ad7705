//! `cargo run -p thinc-sim --example trace -- SEED [OPERATIONS]`: a failing seed's operations, the shortest prefix that fails.
//! From a person with a seed, to a scenario for tests/counterexamples.rs.
//! Knows the simulator's public face.

use thinc_sim::{Divergence, Ids, Op, Workload, World};

fn replay(seed: u64, operations: &[Op], workload: &Workload) -> Result<(), Divergence> {
    let mut world = World::<Ids>::new(seed, workload.size, workload.ring_max, None);
    for op in operations {
        world.apply(op)?;
    }
    world.drain()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let seed = arguments.next().unwrap_or(0);
    let len = arguments.next().unwrap_or(800) as usize;
    let start = Workload::new(seed);
    let mut workload = Workload::new(seed);
    let mut operations: Vec<Op> = (0..len).map(|_| workload.next_op()).collect();
    // The shortest prefix that fails, then without every op that is not needed.
    let Some(end) = (1..=len).find(|&end| replay(seed, &operations[..end], &start).is_err()) else {
        println!("seed {seed} holds for {len} operations");
        return;
    };
    operations.truncate(end);
    let mut i = 0;
    while i < operations.len() {
        let op = operations.remove(i);
        if replay(seed, &operations, &start).is_ok() {
            operations.insert(i, op);
            i += 1;
        }
    }
    println!("screen {:?}, ring of {}", start.size, start.ring_max);
    for op in &operations {
        println!("{op:?}");
    }
    println!("{:?}", replay(seed, &operations, &start));
}
