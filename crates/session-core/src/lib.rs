//! Path 4/13 to 10/13, and path back: from thinc-ring's records to messages for transport, and from
//! a viewer's messages to requests for the driver.
//! Translation, command queue and scheduling: every decision of a session. `doc/scheduling.md` has
//! the rules' reasons. Pure: no clock, thread, socket, file, global or random source; the shell is
//! crates/session-server.
#![forbid(unsafe_code)]

mod clipboard;
mod delivery;
mod figures;
mod input;
#[cfg(feature = "mutations")]
pub mod mutation;
#[cfg(not(feature = "mutations"))]
mod mutation;
mod quality;
mod queue;
mod rights;
mod screen;
mod session;
mod video;
mod viewer;

pub use clipboard::ClipRequest;
pub use delivery::effects::DeliveryOrder;
pub use delivery::flow::PathStats;
pub use delivery::job_outcomes::JobOutcome;
pub use delivery::ledger::{Job, JobHints, JobId, RECORD_AGE_MAX, RetainedHashes};
pub use delivery::packer::{Packer, Unpacked};
pub use figures::{BOUNDS_US, COMMAND_KINDS, CommandBytes, Figures, Histogram};
pub use input::keyboard::{Binding, KEY_LEVELS, Key, Keymap, Modifiers};
pub use input::pointer::{CursorData, CursorImageOwned};
pub use input::upstream::Upstream;
pub use quality::{Entropy, JpegProfile, LossyPolicy, Quality, VideoPolicy};
pub use queue::copies::CopyCommand;
pub use queue::scheduler::Scheduling;
pub use rights::Rights;
pub use screen::displays::Arrangement;
pub use screen::drawable::{PARTS_MAX, Part, Proposal};
pub use screen::view::Transform;
pub use session::{
    Capture, Config, EncodeTime, JobResult, NoPixels, Plan, PlannedJob, Render, Request, Session,
    Unavailable,
};
pub use thinc_clipboard::ClipboardPolicy;
pub use thinc_files::{FilesPolicy, Printing};
pub use video::{Coding, RightEyeFrame, VideoFrame, VideoOrigin, VideoStats};
pub use viewer::{ProposalStats, ViewerId, ViewerStats, Violation};
