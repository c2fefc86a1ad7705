//! Beside paint.rs, for those who paint with other means, as a graphics processor: the same places between samples, as numbers.
//! Knows one picture and one place; never colours.

use thinc_protocol::video::{Layout, Source};
use thinc_region::Rect;

use crate::taps;

/// Where the columns and rows of a part of a place lie between the samples of a picture.
///
/// Each number is 256 times the sample before, and of 256 the weight of the one behind it, which is there where its weight is not 0. First
/// those of luma, then those of colour. A sample of a pixel is then, of its column and row (`doc/protocol.md`, section 9),
/// `((a (256 - x) + b x) (256 - y) + (c (256 - x) + d x) y + 32768) >> 16`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// From the part's left edge on.
    pub columns: [Vec<u32>; 2],
    /// From its upper edge on.
    pub rows: [Vec<u32>; 2],
}

impl Grid {
    /// Of what lies in `area`, a part of `place`.
    pub fn new(layout: Layout, source: &Source, place: Rect, area: Rect) -> Grid {
        assert!(!place.is_empty() && place.contains(&area), "{area:?} is a part of {place:?}");
        let (across, down) = taps::axes(layout, source, &place);
        let number = |axis: taps::Axis, at: i32| {
            let tap = axis.tap(i64::from(at));
            u32::from(tap.first) << 8 | u32::from(tap.weight)
        };
        let (x, y) = (area.x1 - place.x1..area.x2 - place.x1, area.y1 - place.y1..area.y2 - place.y1);
        Grid {
            columns: across.map(|axis| x.clone().map(|at| number(axis, at)).collect()),
            rows: down.map(|axis| y.clone().map(|at| number(axis, at)).collect()),
        }
    }
}
