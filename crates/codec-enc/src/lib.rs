//! Path 9/13: from pixels/plan.rs, to session-core/delivery/ledger.rs, which puts commands into an
//! update.
//! Encodes planned pixels as commands: each kind has its command, and of two possible encodings the
//! smaller is chosen. codec-dec decodes everything to the same pixels.
//! Knows snapshots and bytes; never viewers, paths or time.
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
pub use jpeg::thumbnail;
pub use predicted::Predictor;
pub use settings::{EncodeSettings, Entropy, JpegProfile};
pub use stream::StreamPacker;
