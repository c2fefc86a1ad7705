//! The testbed: two network namespaces, a link between them made of two TUN devices and an emulator that delays, limits
//! and drops packet by packet, and a trace of everything that passed.
//! Beside the path. Knows packets and their sizes; never what is in them, nor which system sends them.

mod capture;
pub mod command;
pub mod emulator;
pub mod end;
pub mod link;
mod netem;
pub mod nettest;
pub mod testbed;
mod trace;
mod wire;

pub use capture::Captured;
pub use end::as_user_namespace;
