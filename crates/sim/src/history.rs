//! Beside the path: every value that a pixel of the X screen has ever had.
//! From x_server.rs, which writes them, to oracle.rs, which asks whether what a viewer shows was ever on the screen.
//! Knows values; never places, for a COPY leaves whole and takes along what is pending at its source: that stands
//! elsewhere for a moment, but it is what X showed.

use crate::surface::RGB;

/// A set of values: a bit for each colour.
#[derive(Debug)]
pub(crate) struct History {
    colors: Vec<u64>,
}

impl History {
    /// Of a screen that is black.
    pub(crate) fn new() -> History {
        let mut history = History { colors: vec![0; (RGB as usize + 1) / 64] };
        history.note(0);
        history
    }

    /// A pixel of the screen has this value now.
    pub(crate) fn note(&mut self, value: u32) {
        let color = (value & RGB) as usize;
        self.colors[color / 64] |= 1 << (color % 64);
    }

    /// True when a pixel of the screen has ever had this value.
    pub(crate) fn has(&self, value: u32) -> bool {
        let color = (value & RGB) as usize;
        self.colors[color / 64] >> (color % 64) & 1 == 1
    }
}
