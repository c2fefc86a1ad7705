//! Path 10/13: from session.rs, which receives cursor changes, to viewer.rs, which sends them.
//! The session's cursor, and for one viewer the newest cursor state not yet sent. Knows images
//! packed by the shell; never pixels, nor where users move the pointer.

use thinc_protocol::command::Compression;
use thinc_protocol::session::{CursorBits, CursorColors, CursorImage, SessionMessage};
use thinc_region::Size;

use crate::input::relative::RelativeWish;
use crate::viewer::ViewerId;

/// A cursor's image as the shell made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorImageOwned {
    /// Size in pixels.
    pub size: Size,
    /// The pixel at the pointer's position.
    pub hot_x: u16,
    /// The pixel at the pointer's position.
    pub hot_y: u16,
    /// The packed image.
    pub pixels: CursorData,
}

/// A cursor's pixels as `codec-enc` returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorData {
    /// For `CursorImage`: premultiplied ARGB, compressed.
    Argb(Vec<u8>),
    /// For `CursorBits`; `Session::handle_cursor_colors` sets the colours.
    TwoColors {
        /// How the planes are packed.
        compression: Compression,
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
    /// Where an application has moved the pointer, until a user moves it.
    pub(crate) at: Option<(u16, u16)>,
    /// The user last moved it by a distance: no viewer knows where it is.
    pub(crate) moved_by_distance: bool,
    pub(crate) shown: bool,
    pub(crate) relative: RelativeWish,
    /// The viewer that moved X's pointer last.
    pub(crate) moved_by: Option<ViewerId>,
}

impl Pointer {
    fn put_image(&self, image: &CursorImageOwned, out: &mut Vec<u8>) {
        let (size, hot_x, hot_y) = (image.size, image.hot_x, image.hot_y);
        match &image.pixels {
            CursorData::Argb(pixels) => {
                SessionMessage::Cursor(CursorImage { size, hot_x, hot_y, pixels })
            }
            CursorData::TwoColors { compression, planes } => {
                let (colors, compression) = (self.colors, *compression);
                SessionMessage::CursorBits(CursorBits {
                    size,
                    hot_x,
                    hot_y,
                    colors,
                    compression,
                    planes,
                })
            }
        }
        .encode(out);
    }
}

/// The cursor changes that one viewer has not been sent.
#[derive(Debug, Default)]
pub(crate) struct CursorChanges {
    pub(crate) image: bool,
    pub(crate) colors: bool,
    pub(crate) at: bool,
    pub(crate) show: bool,
}

impl CursorChanges {
    /// For a viewer that knows nothing, or has lost what it knew.
    pub(crate) fn all() -> CursorChanges {
        CursorChanges { image: true, colors: false, at: true, show: true }
    }

    /// Appends the changes, as they are now. Before the first image, only its position is sent.
    pub(crate) fn transmit(&mut self, pointer: &Pointer, out: &mut Vec<u8>) {
        if let Some(image) = &pointer.image {
            let colors = std::mem::take(&mut self.colors)
                && matches!(image.pixels, CursorData::TwoColors { .. });
            if std::mem::take(&mut self.image) {
                // The image message contains the colours.
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
