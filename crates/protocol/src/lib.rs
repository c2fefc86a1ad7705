//! thinc's wire protocol, version 1: messages, limits, and the byte layout of each message.
//! `doc/protocol.md` is the specification; each parser here stands beside the layout that it reads.
//! Knows bytes and geometry; never sockets, time or the pixels of a screen.
#![forbid(unsafe_code)]

pub mod arrived;
pub mod auth;
pub mod clip;
pub mod clip_policy;
pub mod command;
pub mod commands;
pub mod device_auth;
pub mod file;
pub mod file_bundle;
pub mod framing;
pub mod gamma;
pub mod limits;
pub mod microphone;
pub mod parity;
pub mod pen;
pub mod people;
pub mod picture_quality;
pub mod print;
pub mod retained;
pub mod session;
pub mod sound;
pub mod video;
pub mod viewer;
pub mod wire;

/// Microseconds since a fixed instant of the process that counts them. The pure cores know no other
/// clock.
pub type Micros = u64;

/// Version of the protocol that these types implement.
pub const VERSION: u16 = 1;
