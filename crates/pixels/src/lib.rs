//! Path 8/13: from session-server's snapshot of the framebuffer, to codec-enc.
//! Compares a snapshot with what a viewer shows: which pixels differ, and of what kind they are.
//! Every answer is exact.
//! Knows pixels, 0x00RRGGBB with the top byte ignored; never the bytes of commands, nor viewers.
#![forbid(unsafe_code)]

pub mod cache;
mod changes;
pub mod coverage;
mod hint;
mod kind;
mod motion;
mod moving;
mod photo;
mod plan;
mod replacement;
mod resample;
mod retained;
mod shadow;
mod shift;
mod snapshot;
mod split;
mod vector_candidates;
mod video_areas;
mod video_mask;

pub use cache::Cache;
pub use hint::{Claim, Content, Hint, HintStats, Hints};
pub use moving::FRAME_AREAS_MAX;
pub use plan::{Lossy, PlanSettings, Planned, plan, plan_with};
pub use resample::Resampler;
pub use retained::confirm_retained;
pub use shadow::Shadow;
pub use snapshot::Snapshot;
pub use split::split_pieces;
pub use video_areas::VIDEO_AREAS_MAX;
pub use video_mask::VideoMask;

/// Mask of the significant bits of a pixel.
pub const RGB: u32 = 0x00ff_ffff;
