//! Beside the path: every value that any pixel of the X screen has ever had. From x_server.rs,
//! which writes them, to oracle.rs, which checks that a viewer shows only values that were on the
//! screen. Knows values, not positions: a COPY is sent whole and moves pixels that are pending at
//! its source, so a value may be shown elsewhere for a moment, but X has shown it.

use crate::surface::RGB;

/// A set of values, one bit for each colour.
#[derive(Debug)]
pub(crate) struct History {
    colors: Vec<u64>,
}

impl History {
    /// The history of a black screen.
    pub(crate) fn new() -> History {
        let mut history = History { colors: vec![0; (RGB as usize + 1) / 64] };
        history.note(0);
        history
    }

    /// Records that a pixel of the screen has this value now.
    pub(crate) fn note(&mut self, value: u32) {
        let color = (value & RGB) as usize;
        self.colors[color / 64] |= 1 << (color % 64);
    }

    /// True if any pixel of the screen has ever had this value.
    pub(crate) fn has(&self, value: u32) -> bool {
        let color = (value & RGB) as usize;
        self.colors[color / 64] >> (color % 64) & 1 == 1
    }
}
