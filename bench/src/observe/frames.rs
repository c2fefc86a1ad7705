//! Frames as they reach a screen: on each damage the bar codes at the top and the bottom edge are read.
//! From the framebuffer file of an Xvfb to the numbers and times of whole frames.
//! Knows bar codes and times; never what plays.

use std::time::Instant;

use super::picture::Rect;
use super::screen::ClientScreen;
use crate::Error;

/// A count that runs; dropped, it ends.
pub struct FrameWatch {}

impl FrameWatch {
    /// Begins to count frames that are shown at `area` with codes at [`super::barcode::top`] and
    /// [`super::barcode::bottom`] of it.
    pub fn start(screen: &ClientScreen, area: Rect) -> Result<FrameWatch, Error> {
        let _ = (screen, area);
        Err("not yet".into())
    }

    /// When the last new whole frame was seen so far, and its number.
    pub fn last(&self) -> Option<(Instant, u32)> {
        None
    }

    /// Ends it.
    pub fn finish(self) -> Result<Frames, Error> {
        Err("not yet".into())
    }
}

/// What a [`FrameWatch`] saw.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// Each whole frame (both codes equal) when its number was first seen after another one.
    pub seen: Vec<(Instant, u32)>,
    /// Numbers that were seen at one edge and never at both.
    pub torn: usize,
    /// Damage that left the frame as it was.
    pub repeated: usize,
}
