//! What thinc says on the wire, version 1: messages, limits, and the byte picture of each.
//! `doc/protocol.md` is the norm; each parser here stands beside the picture it follows.
//! Knows bytes and geometry; never sockets, time or pixels of a screen.
#![forbid(unsafe_code)]

pub mod arrived;
pub mod auth;
pub mod clip;
pub mod command;
pub mod frame;
pub mod held;
pub mod limits;
pub mod session;
pub mod video;
pub mod viewer;
pub mod wire;

/// Microseconds since some fixed moment of the process that counts them; the pure cores know no other clock.
pub type Micros = u64;

/// Version of the protocol these types speak.
pub const VERSION: u16 = 1;
