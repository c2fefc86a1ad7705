//! Rectangles and banded regions: the geometry every step of the path speaks in.
//! Stands under all other crates; knows integers, never pixels, time or commands.
#![forbid(unsafe_code)]

mod copy_order;
mod rect;
mod region;
mod scale;

pub use rect::{Rect, Size};
pub use region::Region;
pub use scale::Scale;
