//! Beside the path: all of it in one thread, on virtual time, from a seed.
//! A made-up X server and made-up links drive session-core and a viewer; after the queues drain, the viewer's framebuffer
//! equals the X screen byte for byte, for every seed.
//! Knows every part by its public face; never a clock, a socket or real chance.
#![forbid(unsafe_code)]

mod full;
mod ids;
mod link;
mod pipeline;
mod random;
mod workload;
mod world;
mod x_server;

pub use full::Full;
pub use ids::Ids;
pub use link::{Link, Path};
pub use pipeline::{Heard, Pipeline};
pub use random::Random;
pub use workload::Workload;
pub use world::{Breakage, Divergence, Op, World};
pub use x_server::{Fill, Framebuffer, XServer};

/// Runs a seed: so many operations, then a drain, several times over.
///
/// # Errors
/// How the world came apart. A broken invariant panics.
pub fn run_seed<P: Pipeline>(seed: u64, operations: usize, breakage: Option<Breakage>) -> Result<u64, Divergence> {
    let mut workload = Workload::new(seed);
    let mut world = World::<P>::new(seed, workload.size, workload.ring_max, breakage);
    // Whether the pixels are right is asked in the middle too: what is wrong may be drawn over before the end.
    for _ in 0..4 {
        for _ in 0..operations / 4 {
            let op = workload.next_op();
            world.apply(&op)?;
        }
        world.drain()?;
    }
    Ok(world.barriers_checked)
}
