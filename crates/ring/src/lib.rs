//! The driver's records and framebuffer, read from shared memory.
