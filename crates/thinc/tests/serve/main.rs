//! `thinc` as a person or a script meets it: the real binary, a real Xorg with the driver, real sockets.
//! Each test has folders of its own, so all may run at once; each waits for what it waits for, never for a time.
//! Knows the outside of the program only.

mod ending;
mod harness;
mod quic;
mod starting;
mod stdio;
mod strangers;
mod tracing;
mod viewers;
