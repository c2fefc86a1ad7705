//! Pixels to encoded pixels, for the session.
#![forbid(unsafe_code)]
