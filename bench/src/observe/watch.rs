//! Every change of a screen with its time: a thread that is woken by damage reads the rows that changed.
//! From the framebuffer file of an Xvfb to a log that answers when the first pixel changed and when the last one was right.
//! Knows pixels and times; never why they changed.

use std::time::Instant;

use super::picture::{Picture, Rect};
use crate::Error;

/// A recording that runs; dropped, it ends.
pub struct Watch {}

impl Watch {
    /// When the last change was seen so far.
    pub fn last_change(&self) -> Option<Instant> {
        None
    }

    /// Whether anything has changed so far.
    pub fn changed(&self) -> bool {
        self.last_change().is_some()
    }

    /// What the screen shows now, by what was recorded.
    pub fn picture(&self) -> Picture {
        Picture { width: 0, height: 0, pixels: Vec::new() }
    }

    /// Ends it, after everything that the X server has drawn until now is recorded.
    pub fn finish(self) -> Result<Changes, Error> {
        Err("not yet".into())
    }
}

/// What changed while a [`Watch`] ran, of the whole screen or of a part of it.
#[derive(Clone)]
pub struct Changes {}

impl Changes {
    /// The same recording, seen through `rect` alone.
    pub fn within(&self, rect: Rect) -> Changes {
        let _ = rect;
        self.clone()
    }

    /// The same recording, blind to `rect`: a clock, or a pointer that a viewer draws itself.
    pub fn without(&self, rect: Rect) -> Changes {
        let _ = rect;
        self.clone()
    }

    /// How often something changed.
    pub fn count(&self) -> usize {
        0
    }

    /// When the first pixel changed.
    pub fn first(&self) -> Option<Instant> {
        None
    }

    /// When the last pixel changed.
    pub fn last(&self) -> Option<Instant> {
        None
    }

    /// From when on at least 99 % of the pixels stay within 16 levels, in each channel, of the final picture.
    pub fn visible(&self) -> Option<Instant> {
        None
    }

    /// From when on every pixel equals `reference`, whose top left pixel lies at `offset` of the screen; nothing where
    /// it never does, or where it did before the recording began.
    pub fn exact(&self, reference: &Picture, offset: (i32, i32)) -> Option<Instant> {
        let _ = (reference, offset);
        None
    }

    /// What the screen showed at the end.
    pub fn picture(&self) -> Picture {
        Picture { width: 0, height: 0, pixels: Vec::new() }
    }

    /// Whether the log outgrew its memory and gave up its oldest pixels: times are then bounds, see each.
    pub fn truncated(&self) -> bool {
        false
    }
}
