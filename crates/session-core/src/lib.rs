//! Path 4/13 to 10/13, and path back: from thinc-ring's records to messages for transport, and from
//! a viewer's messages to requests for the driver.
//! Translation, command queue and scheduling: every decision of a session. `doc/scheduling.md` has
//! the rules' reasons. Pure: no clock, thread, socket, file, global or random source; the shell is
//! crates/session-server.
#![forbid(unsafe_code)]

mod clipboard;
mod command_queue;
mod copies;
mod delivery;
mod displays;
mod drawable;
mod effects;
mod figures;
mod input;
mod input_tracker;
mod job;
mod job_outcomes;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
mod mutation;
mod packer;
mod parts;
mod pointer;
mod quality;
mod refresh;
mod relative;
mod rights;
mod scheduler;
mod session;
mod translate;
mod upstream;
mod video;
mod view;
mod viewer;

pub use clipboard::ClipRequest;
pub use copies::CopyCommand;
pub use delivery::flow::PathStats;
pub use delivery::ledger::{Job, JobHints, JobId, RECORD_AGE_MAX, RetainedHashes};
pub use displays::Arrangement;
pub use drawable::{PARTS_MAX, Part, Proposal};
pub use effects::DeliveryOrder;
pub use figures::{BOUNDS_US, COMMAND_KINDS, CommandBytes, Figures, Histogram};
pub use input::{Binding, KEY_LEVELS, Key, Keymap, Modifiers};
pub use job_outcomes::JobOutcome;
pub use packer::{Packer, Unpacked};
pub use pointer::{CursorData, CursorImageOwned};
pub use quality::{Entropy, JpegProfile, LossyPolicy, Quality, VideoPolicy};
pub use rights::Rights;
pub use scheduler::Scheduling;
pub use session::{
    Capture, Config, EncodeTime, JobResult, NoPixels, Plan, PlannedJob, Render, Request, Session,
    Unavailable,
};
pub use thinc_clipboard::ClipboardPolicy;
pub use thinc_files::{FilesPolicy, Printing};
pub use upstream::Upstream;
pub use video::{Coding, VideoFrame, VideoOrigin, VideoStats};
pub use view::Transform;
pub use viewer::{ProposalStats, ViewerId, ViewerStats, Violation};
