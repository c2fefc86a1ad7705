//! Path 10/13: from session.rs, which hears of the cursor, to viewer.rs, which sends what is new of it.
//! The cursor as all viewers of a session show it, and what one viewer is still to be told; of everything only the newest.
//! Knows images packed by the shell; never pixels, nor where a hand holds the pointer.

use thinc_protocol::command::Packing;
use thinc_protocol::session::{CursorBits, CursorColors, CursorImage, SessionMessage};
use thinc_region::Size;

/// A cursor's image as the shell made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorImageOwned {
    /// Pixels.
    pub size: Size,
    /// The pixel that is the pointer's position.
    pub hot_x: u16,
    /// The pixel that is the pointer's position.
    pub hot_y: u16,
    /// What it looks like.
    pub pixels: CursorData,
}

/// A cursor's pixels as `codec-enc` gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorData {
    /// For `CursorImage`: premultiplied ARGB, compressed.
    Argb(Vec<u8>),
    /// For `CursorBits`; the colours come by `Session::handle_cursor_colors`.
    TwoColors {
        /// How the planes are packed.
        packing: Packing,
        /// The two planes.
        planes: Vec<u8>,
    },
}

/// The session's cursor.
#[derive(Debug, Default)]
pub(crate) struct Pointer {
    pub(crate) image: Option<CursorImageOwned>,
    /// Of an image of two colours.
    pub(crate) colors: CursorColors,
    /// Where an application has moved the pointer, until a hand moves it on.
    pub(crate) at: Option<(u16, u16)>,
    pub(crate) shown: bool,
}

impl Pointer {
    fn put_image(&self, image: &CursorImageOwned, out: &mut Vec<u8>) {
        let (size, hot_x, hot_y) = (image.size, image.hot_x, image.hot_y);
        match &image.pixels {
            CursorData::Argb(pixels) => SessionMessage::Cursor(CursorImage { size, hot_x, hot_y, pixels }),
            CursorData::TwoColors { packing, planes } => {
                let (colors, packing) = (self.colors, *packing);
                SessionMessage::CursorBits(CursorBits { size, hot_x, hot_y, colors, packing, planes })
            }
        }
        .encode(out);
    }
}

/// What of the cursor one viewer has not been told.
#[derive(Debug, Default)]
pub(crate) struct CursorNews {
    pub(crate) image: bool,
    pub(crate) colors: bool,
    pub(crate) at: bool,
    pub(crate) show: bool,
}

impl CursorNews {
    /// For a viewer that knows nothing, or has lost what it knew.
    pub(crate) fn all() -> CursorNews {
        CursorNews { image: true, colors: false, at: true, show: true }
    }

    /// Appends it, as it is now. Of an image that is not there yet nothing is said but where it will be.
    pub(crate) fn transmit(&mut self, pointer: &Pointer, out: &mut Vec<u8>) {
        if let Some(image) = &pointer.image {
            let colors = std::mem::take(&mut self.colors) && matches!(image.pixels, CursorData::TwoColors { .. });
            if std::mem::take(&mut self.image) {
                // It says its colours itself.
                pointer.put_image(image, out);
            } else if colors {
                SessionMessage::CursorColor(pointer.colors).encode(out);
            }
            if std::mem::take(&mut self.show) {
                SessionMessage::CursorShow(pointer.shown).encode(out);
            }
        }
        if std::mem::take(&mut self.at)
            && let Some((x, y)) = pointer.at
        {
            SessionMessage::CursorMove { x, y }.encode(out);
        }
    }
}
