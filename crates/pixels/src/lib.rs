//! A snapshot against what a viewer shows: what differs, and what kind of pixels it is.
#![forbid(unsafe_code)]
