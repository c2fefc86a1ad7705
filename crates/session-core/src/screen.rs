//! Path 4/13 to 5/13: from session.rs, to the queue of each viewer.
//! What records mean for the screen and for a viewer's view of it, and which screens a session can
//! have. Knows rectangles; never pixels.

pub(crate) mod displays;
pub(crate) mod drawable;
pub(crate) mod gamma;
pub(crate) mod stereo;
pub(crate) mod translate;
pub(crate) mod view;
