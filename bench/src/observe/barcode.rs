//! A number as black and white bars, so that a frame can be told from its pixels.
//! Drawn by applications at the top and the bottom edge of each frame; read from the client's screen.
//! Knows bars; never frames. Survives JPEG at quality 30 with halved colour, and any scaling that keeps bars at 8 pixels.

use super::picture::{Picture, Rect};

/// 32 of the number and 8 of its check.
pub const BARS: u32 = 40;
/// Rows of one code: two blocks of JPEG, or one with halved colour.
pub const HEIGHT: u32 = 16;
/// Narrowest area that can hold a code: 8 pixels a bar.
pub const WIDTH_MIN: u32 = BARS * 8;

/// Where the upper code of a frame lies.
pub fn top(frame: Rect) -> Rect {
    Rect { height: HEIGHT, ..frame }
}

/// Where the lower code of a frame lies.
pub fn bottom(frame: Rect) -> Rect {
    Rect { y: frame.bottom() - HEIGHT as i32, height: HEIGHT, ..frame }
}

/// Draws `number` over `rect` of a picture whose rows are `stride` pixels apart.
///
/// # Panics
/// Where `rect` is narrower than [`WIDTH_MIN`] or does not lie within the picture.
pub fn draw(number: u32, pixels: &mut [u32], stride: usize, rect: Rect) {
    let _ = (number, pixels, stride, rect);
}

/// The number under `rect` of a picture; nothing where no code is, or half of one.
pub fn read(picture: &Picture, rect: Rect) -> Option<u32> {
    let _ = (picture, rect);
    None
}
