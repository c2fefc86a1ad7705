//! Beside the path: all of it in one thread, on virtual time, from a seed.
//! A made-up X server and made-up links drive session-core and a viewer; after the queues drain, the viewer's framebuffer
//! equals the X screen byte for byte, for every seed.
//! Knows every part by its public face; never a clock, a socket or real chance.
#![forbid(unsafe_code)]

mod apps;
mod breakage;
mod datagrams;
mod full;
mod history;
mod ids;
mod link;
mod op;
mod oracle;
mod pipeline;
mod players;
mod random;
mod run;
mod surface;
mod view;
mod workload;
mod world;
mod x_server;

pub use breakage::Breakage;
pub use full::Full;
pub use ids::Ids;
pub use link::{Link, Path, Tells};
pub use op::Op;
pub use oracle::Tally;
pub use pipeline::{Heard, Pipeline};
pub use random::Random;
pub use run::{run_seed, run_seeds, words_of};
pub use surface::{Fill, Made, Surface};
pub use workload::Workload;
pub use world::{Divergence, World};
pub use x_server::{Blit, XServer};
