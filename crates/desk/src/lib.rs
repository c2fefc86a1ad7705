//! What a session's programs find in place of devices, `thinc desk`. A sound server: they play and
//! record over PulseAudio's protocol, and the session process gets what they play as frames, and
//! brings what the viewer's microphone hears. A printer: they print over IPP (thinc-printing), and
//! the session process gets the documents. From programs, over sockets in the session's own runtime
//! folder, to session-server/src/sound.rs and printing.rs, and back. Knows programs, samples and
//! jobs; never viewers, codecs or the network.
#![forbid(unsafe_code)]

mod commands;
mod devices;
mod format;
pub mod link;
mod message;
mod microphone;
mod mixer;
mod playback;
mod printing;
mod process;
mod queue;
mod record;
mod resample;
mod server;
mod sockets;
mod spool;
mod system_printers;

pub use process::{DeskError, main, run};
pub use server::{ClientId, Server};
pub use sockets::{ServiceSockets, Sockets};
