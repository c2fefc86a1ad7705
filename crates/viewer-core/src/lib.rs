//! Message to pixels, in order: every decision of a viewer, pure.
#![forbid(unsafe_code)]
