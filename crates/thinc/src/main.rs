//! thinc: serve, list, link and stop sessions.
#![forbid(unsafe_code)]
fn main() {}
