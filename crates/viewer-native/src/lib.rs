//! The native viewer: a window for a person, and the same without one for scripts and tests.
//! Path 13/13: from viewer-core, to the screen; and the first step of the way back.
//! A shell: threads, sockets, SDL and files are here; what bytes mean and what is shown is viewer-core's.
// OpenGL has no safe form: window/gl.rs gives it one; nor has one call of SDL's in window/keyboard.rs. Everything else is safe.
#![deny(unsafe_code)]

#[cfg(feature = "window")]
mod arrange;
mod backoff;
pub mod cli;
pub mod client;
pub mod clipboard;
mod clock;
#[cfg(feature = "window")]
mod compose;
pub mod error;
#[cfg(feature = "window")]
mod font;
pub mod headless;
pub mod keys;
pub mod news;
#[cfg(feature = "window")]
mod overlay;
#[cfg(feature = "window")]
mod place;
mod process;
pub mod report;
mod resize;
pub mod saved;
pub mod script;
#[cfg(feature = "window")]
mod scroll;
pub mod shot;
pub mod ssh;
pub mod target;
pub mod view;
mod watch;
#[cfg(feature = "window")]
pub mod window;
mod wire;

pub use cli::command;
pub use error::ViewError;
