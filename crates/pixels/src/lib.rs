//! Path 8/13: from session-server's snapshot of the framebuffer, to codec-enc.
//! A snapshot against what a viewer shows: what differs, and what kind of pixels it is. Everything is exact.
//! Knows pixels, 0x00RRGGBB with the top byte ignored; never commands' bytes, viewers or time.
#![forbid(unsafe_code)]

mod anchors;
mod areas;
pub mod cache;
mod changes;
pub mod coverage;
mod film;
mod held;
mod hint;
mod kind;
mod motion;
mod photo;
mod pieces;
mod plan;
mod resample;
mod reuse;
mod shadow;
mod shift;
mod snapshot;

pub use areas::AREAS_MAX;
pub use cache::Cache;
pub use film::Film;
pub use held::shown_already;
pub use hint::{Claim, Content, Hint, Hints, Verdict};
pub use pieces::cut;
pub use plan::{Lossy, PlanSettings, Planned, plan, plan_with};
pub use resample::Resampler;
pub use shadow::Shadow;
pub use snapshot::Snapshot;

/// The bits of a pixel that mean something.
pub const RGB: u32 = 0x00ff_ffff;
