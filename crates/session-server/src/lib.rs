//! The session process: the driver's ring on one side, viewers on the other.
#![forbid(unsafe_code)]
