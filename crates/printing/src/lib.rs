//! Beside the path: what a session's programs print. From their IPP requests, which thinc-desk
//! receives, to session-server, which sends the document to a viewer.
//! The printer, its jobs and its words; the messages between both processes. Knows bytes, limits
//! and time as an argument; never a socket, a file or a viewer.
#![forbid(unsafe_code)]

mod attributes;
pub mod ipp;
mod job;
pub mod link;
mod media;
mod name;
mod ppd;
mod printer;

pub use job::{Sides, Ticket};
pub use media::{Paper, is_paper};
pub use name::file_name;
pub use ppd::ppd;
pub use printer::{Action, DocumentError, JOBS_WAITING_MAX, Printer, Reply};

/// The printer's name, as programs list it.
pub const PRINTER: &str = "thinc";
/// Largest document: 256 MiB.
pub const JOB_BYTES_MAX: u64 = 256 << 20;
/// A document begins with this, whatever format a program names.
pub const PDF_START: &[u8] = b"%PDF";
