//! Path 5/13 to 6/13: from screen/, to viewer/commit.rs.
//! What waits to be sent to one viewer, and what goes first. Knows rectangles; never pixels.

pub(crate) mod command_queue;
pub(crate) mod copies;
pub(crate) mod scheduler;
