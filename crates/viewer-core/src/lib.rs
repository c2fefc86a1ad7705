//! Path 11/13 and 12/13: from transport, to viewer-native/present.rs and web/present.ts.
//! Everything a viewer decides: what bytes mean, what the screen shows, what is acknowledged and measured. Pure.
//! Knows no clock, thread, socket or window: time is an argument, bytes come and go through `handle_*` and `poll_*`.
#![forbid(unsafe_code)]

mod cache;
mod clipboard;
mod decode;
mod early;
mod event;
mod framebuffer;
mod held;
mod inexact;
mod kept;
mod layers;
mod order;
mod outbox;
mod stats;
mod typed;
mod underlay;
mod video;
mod viewer;

pub use thinc_clipboard::ClipboardPolicy;

pub use cache::{CACHE_BYTES_DEFAULT, Cache, CacheError, SavedCacheError};
pub use event::{CursorPixels, ViewerEvent};
pub use framebuffer::Framebuffer;
pub use inexact::Inexact;
pub use kept::{Kept, Urgency};
pub use layers::VideoLayer;
pub use stats::{CommandStats, EchoLatency, KIND_NAMES, VideoStats, ViewerStats};
pub use video::{VideoError, VideoEvent};
pub use viewer::{Viewer, ViewerConfig, ViewerError};
