//! A small picture of the screen, for the list of desktops. Beside the path: from share.rs, which
//! asks, with a copy of the framebuffer's pixels at a fraction of their size. Knows pixels; never
//! who looks.

use thinc_pixels::Resampler;
use thinc_region::{Rect, Scale, Size};

use super::Actor;

/// Longest edge of a thumbnail, in pixels.
const EDGE_MAX: u32 = 256;

/// The picture, four bytes a pixel: blue, green, red, and one that means nothing.
#[derive(Debug)]
pub(crate) struct Thumbnail {
    /// The screen's size.
    pub(crate) screen: Size,
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u32>,
}

/// The largest size that fits, with the screen's proportions; a screen that fits keeps its own.
fn fitted(screen: Size) -> Size {
    let longest = screen.width.max(screen.height);
    if longest <= EDGE_MAX {
        return screen;
    }
    let edge = |edge: u32| (u64::from(edge) * u64::from(EDGE_MAX) / u64::from(longest)).max(1);
    Size { width: edge(screen.width) as u32, height: edge(screen.height) as u32 }
}

impl Actor {
    /// Reads the whole screen once: 0.7 ms at 1024x768.
    pub(super) fn thumbnail(&self) -> Thumbnail {
        let screen = self.driver.size();
        let size = fitted(screen);
        let axis = |source, target| Scale::new(0, source, target);
        let scales = (&axis(screen.width, size.width), &axis(screen.height, size.height));
        let whole = Rect::new(0, 0, size.width as i32, size.height as i32);
        let mut pixels = vec![0; size.area() as usize];
        let stride = size.width as usize;
        Resampler::new().resample(scales, whole, &mut pixels, stride, |rect, dst, stride| {
            self.driver.framebuffer.read_rect(rect, dst, stride);
        });
        Thumbnail { screen, size, pixels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbnail_keeps_the_proportions_and_fits() {
        let fitted = |width, height| {
            let size = fitted(Size { width, height });
            (size.width, size.height)
        };
        assert_eq!(fitted(1024, 768), (256, 192));
        assert_eq!(fitted(2160, 3840), (144, 256));
        assert_eq!(fitted(200, 100), (200, 100));
        assert_eq!(fitted(16384, 1), (256, 1));
    }
}
