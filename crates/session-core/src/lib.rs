//! Path 4/13 to 10/13: from thinc-ring's records to frames for transport, and a viewer's messages back to the driver.
//! Translation, command queue and scheduling: every decision of a session. `doc/scheduling.md` has the rules' reasons.
//! Pure: no clock, thread, socket, file, global or random source; the shell is crates/session-server.
#![forbid(unsafe_code)]

mod clipboard;
pub mod command_queue;
mod copies;
mod displays;
pub mod drawable;
mod effects;
mod fates;
pub mod flow;
mod hand;
mod input;
mod job;
mod losses;
pub mod mutation;
mod packer;
mod parts;
mod pointer;
mod quality;
mod refresh;
mod repeats;
pub mod scheduler;
mod session;
mod translate;
mod update;
mod upstream;
mod video;
mod view;
mod viewer;

pub use clipboard::ClipRequest;
pub use copies::{CopyCommand, Proof, Taken};
pub use displays::Arrangement;
pub use drawable::{Part, Proposal};
pub use effects::Arrival;
pub use fates::Fate;
pub use flow::PathFigures;
pub use input::{Binding, Keymap};
pub use packer::{Packer, Unpacked};
pub use pointer::{CursorData, CursorImageOwned};
pub use quality::{Entropy, JpegProfile, LossyPolicy, Quality, VideoPolicy};
pub use scheduler::Scheduling;
pub use session::{Config, Request, Session};
pub use thinc_clipboard::ClipboardPolicy;
pub use update::{Job, JobHints, JobId, RECORD_AGE_MAX, Shown, SnapshotVerdict};
pub use upstream::Upstream;
pub use video::{Coding, VideoFrame, VideoOrigin, VideoStats};
pub use view::Transform;
pub use viewer::{Proposals, ViewerId, ViewerStats, Violation};
