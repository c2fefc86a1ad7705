//! The testbed: two network namespaces, a link between them made of two TUN devices and an emulator
//! that delays, limits and drops packet by packet, and a trace of all traffic. Beside the path.
//! Knows packets and their sizes; never their content, nor which system sends them.

mod capture;
pub mod catalogue;
pub mod command;
pub mod emulator;
pub mod end;
pub mod impairment;
pub mod link;
pub mod nettest;
pub mod schedule;
pub mod testbed;
mod trace;
mod wire;

pub use capture::Captured;
pub use end::as_user_namespace;
