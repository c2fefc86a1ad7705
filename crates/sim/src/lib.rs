//! Beside the path: the whole path in one thread, on virtual time, from a seed. A simulated X
//! server and simulated links drive session-core and a viewer. After the queues drain, the viewer's
//! framebuffer must equal the X screen byte for byte, for every seed. Knows every part by its
//! public interface; never a clock, a socket or an entropy source.
#![forbid(unsafe_code)]

mod apps;
mod breakage;
mod catalogue;
mod datagrams;
mod full;
mod history;
mod ids;
mod link;
mod loss;
mod model_viewer;
mod op;
mod oracle;
mod pipeline;
mod players;
mod random;
mod run;
mod surface;
mod tcp;
mod workload;
mod world;
mod x_server;

pub use breakage::Breakage;
pub use catalogue::{CATALOGUE, Conditions, Entry};
pub use full::Full;
pub use ids::Ids;
pub use link::{Link, Path, PathReport, Sender};
pub use loss::Losses;
pub use op::Op;
pub use oracle::Tally;
pub use pipeline::{Notice, Pipeline};
pub use random::Random;
pub use run::{panic_message, run_seed, run_seeds};
pub use surface::{Fill, Made, Surface};
pub use tcp::Congestion;
pub use workload::Workload;
pub use world::{Divergence, World};
pub use x_server::{Blit, XServer};
