//! Path 4/13 to 10/13: from thinc-ring's records to frames for transport, and a viewer's messages back to the driver.
//! Translation, command queue and scheduling: every decision of a session. `doc/scheduling.md` has the rules' reasons.
//! Pure: no clock, thread, socket, file, global or random source; the shell is crates/session-server.
#![forbid(unsafe_code)]

pub mod command_queue;
mod copies;
pub mod drawable;
mod effects;
mod fates;
pub mod flow;
mod hand;
mod input;
pub mod mutation;
mod packer;
mod parts;
mod pointer;
mod quality;
mod refresh;
pub mod scheduler;
mod session;
mod translate;
mod update;
mod viewer;

pub use copies::{CopyCommand, Proof, Taken};
pub use drawable::{Part, Proposal};
pub use effects::Arrival;
pub use fates::Fate;
pub use flow::PathFigures;
pub use input::Keymap;
pub use packer::{Packer, Unpacked};
pub use pointer::{CursorData, CursorImageOwned};
pub use quality::{Entropy, JpegProfile, LossyPolicy, Quality};
pub use scheduler::Scheduling;
pub use session::{Config, Request, Session};
pub use update::{Job, JobHints, JobId, RECORD_AGE_MAX, SnapshotVerdict};
pub use viewer::{Proposals, ViewerId, ViewerStats, Violation};
