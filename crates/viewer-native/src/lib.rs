//! The native viewer: a window, or none for scripts and tests.
//! Path 13/13: from viewer-core, to the screen. Path back: from the desktop's events, to
//! viewer-core.
//! A shell: threads, sockets, SDL and files are here; viewer-core decides what bytes mean and what
//! is shown.
// OpenGL has no safe interface: window/gl.rs wraps it; nor has one SDL call in window/keyboard.rs.
// Everything else is safe.
#![deny(unsafe_code)]

pub mod address;
#[cfg(feature = "window")]
mod arrange;
pub mod cli;
pub mod client;
mod clipboard;
mod clock;
#[cfg(feature = "window")]
mod compose;
pub mod decoder_choice;
pub mod desktops;
pub mod device_key;
pub mod error;
pub mod files;
#[cfg(feature = "window")]
mod font;
pub mod gamma;
pub mod headless;
pub mod install;
pub mod keys;
mod machine;
#[cfg(feature = "window")]
mod microphone;
mod news;
#[cfg(feature = "window")]
mod overlay;
mod people;
#[cfg(feature = "window")]
mod place;
pub mod printing;
mod process;
mod question;
mod report;
mod resize;
mod saved;
pub mod script;
#[cfg(feature = "window")]
mod scroll;
pub mod shot;
#[cfg(feature = "window")]
mod shown_by;
mod ssh;
mod target;
#[cfg(feature = "h264")]
pub mod video_decoder;
#[cfg(feature = "h264")]
pub mod video_decoding;
pub mod view;
#[cfg(feature = "window")]
pub mod window;
mod wire;

pub use error::ViewError;
pub use ssh::uninstall;
pub use target::Target;
