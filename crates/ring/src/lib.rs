//! Path 3/13: from the driver's shared memory, to session-core.
//! Attaches to the driver, reads its records, framebuffer, cursor, geometry and gamma, and sends it
//! input and requests. Knows bytes and descriptors; never what a viewer, a command or an encoding
//! is.

mod abi;
mod control;
mod framebuffer;
mod gamma;
mod input;
mod mapping;
mod record;
mod ring;
mod video;
mod xorg_conf;

pub use abi::{
    ABI_VERSION, FRAME_RATE_MAX, FRAME_RATE_MIN, GAMMA_ENTRIES, RECORD_BYTES, VIDEO_EDGE_MAX,
};
pub use control::{AttachError, Attachment, Control, ControlEvent, OutputRequest, attach};
pub use framebuffer::Framebuffer;
pub use gamma::OutputGamma;
pub use input::{InputMessage, InputSender, PEN_FRACTION, PenSample, TouchPhase};
pub use record::{Alpha, DrawHint, DrawRecord, DrawableId, RecordError, RecordKind, VideoLayout};
pub use ring::{
    CursorImage, CursorPixel, CursorState, Geometry, Output, PointerUse, Ring, RingStats,
};
pub use video::VideoInfo;
pub use xorg_conf::XorgConf;
