//! The native viewer: a window for a person, and the same without one for scripts and tests.
//! Path 13/13: from viewer-core, to the screen; and the first step of the way back.
//! A shell: threads, sockets, SDL and files are here; what bytes mean and what is shown is viewer-core's.
// One call of SDL's in window/keyboard.rs has no safe form; everything else is safe.
#![deny(unsafe_code)]

mod backoff;
pub mod cli;
pub mod client;
mod clock;
#[cfg(feature = "window")]
mod compose;
pub mod error;
#[cfg(feature = "window")]
mod font;
pub mod headless;
pub mod keys;
#[cfg(feature = "window")]
mod overlay;
#[cfg(feature = "window")]
mod place;
pub mod report;
mod resize;
pub mod saved;
pub mod script;
#[cfg(feature = "window")]
mod scroll;
pub mod shot;
#[cfg(feature = "window")]
pub mod window;

pub use cli::command;
pub use error::ViewError;
