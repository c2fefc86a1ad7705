//! Path 9/13: from pixels/plan.rs, to session-core/update.rs which puts it into an update.
//! Planned pixels to commands: each kind has its command, and where two encodings could carry it the smaller is taken.
//! Knows snapshots and bytes; never viewers, links or time. Whatever it writes, codec-dec turns back into the same pixels.
#![forbid(unsafe_code)]

mod bitmap;
mod columns;
mod cursor;
mod encoder;
mod jpeg;
mod parts;
mod predicted;
mod residuals;
mod settings;
mod stream;

pub use encoder::Encoder;
pub use predicted::Predictor;
pub use settings::{EncodeSettings, Entropy, JpegProfile};
pub use stream::StreamPacker;
