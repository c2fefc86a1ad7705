//! What a person at the client would see and what the machines spend on it, read from outside of the systems under test.
//! Pictures, changes with their times, frames, input by hand, and accounts of CPU and memory; beside the path.
//! Knows X servers, pixels and processes; never which system shows them, or why.

pub mod account;
pub mod barcode;
pub mod cells;
mod changes;
pub mod clock;
mod connection;
pub mod cpustat;
mod damage;
pub mod frames;
pub mod input;
pub mod picture;
pub mod screen;
pub mod slides;
pub mod stamps;
pub mod tcbench;
pub mod watch;

pub use connection::{connect, connect_screen};
