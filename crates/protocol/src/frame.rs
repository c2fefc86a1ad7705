//! Frames: how messages lie in a byte stream, and cutting a stream back into them.
