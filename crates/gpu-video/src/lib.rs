//! Path 9/13 and 11/13: beside the codec libraries, for sessions that encode and viewers that
//! decode by a graphics processor.
//! The work is done by `thinc-gpu-codec` (crates/gpu-codec), a process of its own: what it needs of
//! the system is loaded there, where it is installed; and a GPU's driver that crashes or hangs
//! takes nothing along but its frame. Knows that process, and AV1's headers; never GStreamer,
//! sessions or viewers.
#![forbid(unsafe_code)]

pub mod av1;
pub mod message;
mod process;

pub use message::{Rates, fits};
pub use process::{
    Coded, ELEMENTS, Lost, NotStarted, Process, Purpose, Settings, codec_name, program,
};
