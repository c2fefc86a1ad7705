//! Path back: under session/, from viewers' input, to requests for the driver.
//! The one keyboard, pointer and pen that all viewers share. Knows keys, positions and windows;
//! never pixels.

pub(crate) mod keyboard;
mod keymap;
pub(crate) mod pointer;
pub(crate) mod relative;
pub(crate) mod tracker;
pub(crate) mod upstream;
