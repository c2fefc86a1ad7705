//! Beside paint.rs: sampling positions as numbers, for shaders that paint on a GPU.
//! Knows one frame and one place; never colours.

use thinc_protocol::video::{SampleLayout, Source};
use thinc_region::Rect;

use crate::taps;

/// Positions of the columns and rows of a part of a place between the samples of a frame.
///
/// Each number is 256 times the index of the first sample plus the weight, of 256, of the next one,
/// which exists if its weight is not 0. First those of luma, then those of chroma. With the weights
/// x and y of its column and row, a pixel's sample is (`doc/protocol.md`, section 9) `((a (256 - x)
/// + b x) (256 - y) + (c (256 - x) + d x) y + 32768) >> 16`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// From the part's left edge.
    pub columns: [Vec<u32>; 2],
    /// From its upper edge.
    pub rows: [Vec<u32>; 2],
}

impl Grid {
    /// Computes the positions for `area`, a part of `place`.
    pub fn new(layout: SampleLayout, source: &Source, place: Rect, area: Rect) -> Grid {
        assert!(!place.is_empty() && place.contains(&area), "{area:?} must lie inside {place:?}");
        let (across, down) = taps::axes(layout, source, &place);
        let number = |axis: taps::Axis, at: i32| {
            let tap = axis.tap(i64::from(at));
            u32::from(tap.first) << 8 | u32::from(tap.weight)
        };
        let (x, y) =
            (area.x1 - place.x1..area.x2 - place.x1, area.y1 - place.y1..area.y2 - place.y1);
        Grid {
            columns: across.map(|axis| x.clone().map(|at| number(axis, at)).collect()),
            rows: down.map(|axis| y.clone().map(|at| number(axis, at)).collect()),
        }
    }
}
