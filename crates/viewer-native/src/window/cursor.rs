//! Path 13/13: from the session's cursor, to the desktop's own.
//! The local cursor follows the mouse without a round trip. Knows ARGB images; never the pointer's
//! position.

use sdl3::mouse::{Cursor as SdlCursor, MouseUtil, SystemCursor};
use sdl3::pixels::PixelFormat;
use sdl3::surface::Surface;

use thinc_protocol::gamma::GammaTable;
use thinc_viewer_core::CursorPixels;

/// The cursor that SDL shows; it has to live as long as it is shown.
pub(super) struct LocalCursor {
    current: Option<SdlCursor>,
    /// On X, SDL passes ARGB to Xcursor unchanged, which takes premultiplied pixels; elsewhere SDL
    /// multiplies itself.
    premultiplied: bool,
    shown: bool,
    empty: bool,
    /// The session's image, as it is without a table.
    image: Option<CursorPixels>,
    gamma: Option<GammaTable>,
}

impl LocalCursor {
    pub(super) fn new(driver: &str) -> LocalCursor {
        LocalCursor {
            current: None,
            premultiplied: driver == "x11",
            shown: true,
            empty: false,
            image: None,
            gamma: None,
        }
    }

    /// The session's cursor has a new image.
    pub(super) fn set_image(&mut self, mouse: &MouseUtil, image: CursorPixels) {
        self.show(mouse, &image);
        self.image = Some(image);
    }

    /// Its colours are shown as others, or as they are.
    pub(super) fn set_gamma(&mut self, mouse: &MouseUtil, gamma: Option<&GammaTable>) {
        if self.gamma.as_ref() == gamma {
            return;
        }
        self.gamma = gamma.cloned();
        if let Some(image) = self.image.take() {
            self.show(mouse, &image);
            self.image = Some(image);
        }
    }

    fn show(&mut self, mouse: &MouseUtil, image: &CursorPixels) {
        self.empty = image.size.area() == 0;
        if !self.empty {
            match self.create(image) {
                Ok(cursor) => {
                    cursor.set();
                    self.current = Some(cursor);
                }
                // An arrow is better than a stale cursor.
                Err(error) => {
                    eprintln!(
                        "thinc-view: cannot show a cursor of {}x{} pixels: {error}",
                        image.size.width, image.size.height
                    );
                    self.current = SdlCursor::from_system(SystemCursor::Arrow).ok();
                    if let Some(cursor) = &self.current {
                        cursor.set();
                    }
                }
            }
        }
        self.apply(mouse);
    }

    /// The session shows or hides its cursor.
    pub(super) fn set_shown(&mut self, mouse: &MouseUtil, shown: bool) {
        self.shown = shown;
        self.apply(mouse);
    }

    fn apply(&self, mouse: &MouseUtil) {
        mouse.show_cursor(self.shown && !self.empty);
    }

    fn create(&self, image: &CursorPixels) -> Result<SdlCursor, sdl3::Error> {
        let mut bytes = Vec::with_capacity(image.pixels.len() * 4);
        for pixel in &image.pixels {
            let pixel =
                &self.gamma.as_ref().map_or(*pixel, |table| table.apply_premultiplied(*pixel));
            let pixel = if self.premultiplied { *pixel } else { unpremultiplied(*pixel) };
            bytes.extend_from_slice(&pixel.to_ne_bytes());
        }
        let (width, height) = (image.size.width, image.size.height);
        let surface =
            Surface::from_data(&mut bytes, width, height, width * 4, PixelFormat::ARGB8888)?;
        // SDL refuses a hotspot outside the image.
        let hot = |at: u16, edge: u32| i32::from(at).min(edge as i32 - 1);
        SdlCursor::from_surface(&surface, hot(image.hot_x, width), hot(image.hot_y, height))
    }
}

/// A premultiplied pixel without its alpha multiplied in.
fn unpremultiplied(pixel: u32) -> u32 {
    let alpha = pixel >> 24;
    if alpha == 0 {
        return 0;
    }
    let channel =
        |shift: u32| (((pixel >> shift & 0xff) * 255 + alpha / 2) / alpha).min(255) << shift;
    alpha << 24 | channel(16) | channel(8) | channel(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_divided_out_and_multiplying_it_in_again_gives_the_same() {
        assert_eq!(unpremultiplied(0xff12_3456), 0xff12_3456);
        assert_eq!(unpremultiplied(0x0000_0000), 0);
        assert_eq!(unpremultiplied(0x8040_2000), 0x8080_4000);
        for alpha in 1..=255u32 {
            for value in 0..=alpha {
                let back = (unpremultiplied(alpha << 24 | value) & 0xff) * alpha;
                assert_eq!((back + 127) / 255, value, "alpha {alpha} value {value}");
            }
        }
    }
}
