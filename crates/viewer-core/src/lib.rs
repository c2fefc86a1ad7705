//! Path 11/13 and 12/13: from transport, to viewer-native/present.rs and web/display/present.ts.
//! Everything that a viewer decides: it decodes messages, applies updates, acknowledges and
//! measures. A pure core: `handle_*` takes bytes and events in, `poll_*` gives work out, time is an
//! argument. Knows no clock, thread, socket or window.
#![forbid(unsafe_code)]

mod attempts;
mod cache;
mod clipboard;
mod datagram_order;
mod decode;
mod event;
mod files;
mod framebuffer;
mod held_input;
mod layers;
mod lip_sync;
mod liveness;
mod lossy_mask;
mod microphone;
mod outbox;
mod path_watch;
mod picture_quality;
mod retained_tiles;
mod right_eye;
mod saved_tiles;
mod sound;
mod stats;
mod stereo;
mod stream_tail;
mod unacked_input;
mod underlay;
mod video;
mod video_codecs;
mod viewer;

pub use thinc_clipboard::ClipboardPolicy;
pub use thinc_files::{FileEvent, OfferError, Progress, Start};

pub use attempts::{ATTEMPTS_MAX, AttemptMeans, Attempts, SLOW_ATTEMPT_FACTOR};
pub use cache::{CACHE_BYTES_DEFAULT, Cache, CacheError, SavedCacheError};
pub use event::{CursorPixels, ViewerEvent};
pub use framebuffer::Framebuffer;
pub use layers::VideoLayer;
pub use liveness::{Liveness, REPLACED_HELLO_MAX};
pub use lossy_mask::LossyMask;
pub use microphone::MICROPHONE_BITRATE;
pub use path_watch::{PathChange, REPLACEMENT_FAILURES_MAX, REPLACEMENT_WAIT_MAX};
pub use right_eye::RightEye;
pub use saved_tiles::{SavedTiles, Urgency};
pub use sound::SoundEvent;
pub use stats::{CommandStats, EchoLatency, KIND_NAMES, VideoStats, ViewerStats};
pub use stereo::StereoMode;
pub use video::{VideoError, VideoEvent};
pub use viewer::{Viewer, ViewerConfig, ViewerError};
