//! Encoded pixels to pixels, for viewers.
#![forbid(unsafe_code)]
