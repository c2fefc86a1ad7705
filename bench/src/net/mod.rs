//! The testbed: two network namespaces, a link between them made of two TUN devices and an emulator that delays, limits
//! and drops packet by packet, and a trace of everything that passed.
//! Beside the path. Knows packets and their sizes; never what is in them, nor which system sends them.

pub mod link;
pub mod testbed;
