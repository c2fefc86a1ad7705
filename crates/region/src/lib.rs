//! Rectangles and banded regions: the geometry of every step of the path.
//! Beneath all other crates. Knows integers; never pixels, time or commands.
#![forbid(unsafe_code)]

mod copy_order;
mod rect;
mod region;
mod scale;

pub use rect::{Rect, Size};
pub use region::Region;
pub use scale::Scale;
