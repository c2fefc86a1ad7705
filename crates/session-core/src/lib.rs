//! Translation, command queue and scheduling: every decision of a session, pure.
#![forbid(unsafe_code)]
