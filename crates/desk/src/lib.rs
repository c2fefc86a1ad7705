//! The sound server of a session, `thinc desk`: programs play and record over PulseAudio's
//! protocol, and the session process gets what they play as frames. From programs, over a socket in
//! the session's own runtime folder, to session-server/src/sound.rs. Knows programs and samples;
//! never viewers, codecs or the network.
#![forbid(unsafe_code)]

mod commands;
mod devices;
mod format;
pub mod link;
mod message;
mod mixer;
mod playback;
mod process;
mod queue;
mod record;
mod resample;
mod server;
mod sockets;

pub use process::{DeskError, main, run};
pub use server::{ClientId, Server};
pub use sockets::Sockets;
