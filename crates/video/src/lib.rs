//! Path 9/13 and 12/13: converts between the samples of a video's frames and pixels, for
//! session-server and the viewers. `paint` implements the specification (`doc/protocol.md`, section
//! 9), bit for bit as driver/src/video_convert.c draws. Knows planes, rectangles and colours; never
//! streams, codecs, time or threads.
#![forbid(unsafe_code)]

mod colour;
mod from_pixels;
mod grid;
mod halve;
mod paint;
mod planes;
#[cfg(feature = "shrink")]
mod shrink;
mod taps;

pub use from_pixels::{from_pixels, update_from_pixels};
pub use grid::Grid;
pub use halve::to_420;
pub use paint::Painter;
pub use planes::{Planes, PlanesRef};
#[cfg(feature = "shrink")]
pub use shrink::Shrinker;
pub use thinc_protocol::video::{SampleLayout, Source};
