//! Path 4/13: beside translate.rs, which asks it about every record.
//! What each part of the screen and of every pixmap was drawn as, and where the same pixels are shown already.
//! Knows records and rectangles; never pixels, so everything it says is to be verified against them.

use thinc_region::Rect;

/// Most parts of one job's region that are told apart.
pub const PARTS_MAX: usize = 64;

/// What a part of the screen was drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// On the screen.
    pub rect: Rect,
    /// What it was drawn as.
    pub what: Proposal,
}

/// A proposal of how to send pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A tile or stipple, and nothing else.
    Pattern,
    /// Text is in it, over this 0xRRGGBB where that is all: never to be sent lossy.
    Text(Option<u32>),
    /// A client's pixels, and nothing else.
    Image,
    /// A frame of XVideo, from this port.
    Video(u16),
}
