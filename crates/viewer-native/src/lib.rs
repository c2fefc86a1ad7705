//! The native viewer.
#![forbid(unsafe_code)]
