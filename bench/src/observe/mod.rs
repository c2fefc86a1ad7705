//! What a person at the client would see and what it costs, measured from outside of the systems
//! under test: pictures, changes with their times, frames, synthetic input, and accounts of CPU and
//! memory. Beside the path. Knows X servers, pixels and processes; never which system shows them,
//! or why.

pub mod account;
pub mod barcode;
pub mod cells;
mod changes;
pub mod clock;
mod connection;
mod damage;
pub mod ear;
pub mod frames;
pub mod heard;
pub mod input;
pub mod picture;
pub mod screen;
pub mod slides;
pub mod stamps;
pub mod tcbench;
pub mod watch;

pub use connection::{connect, connect_screen};
