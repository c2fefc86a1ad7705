//! Path 1/13, simulated: memory that X draws into, a screen or a pixmap, and the effect of a
//! drawing on one pixel.
//! From x_server.rs, to x_server.rs; oracle.rs looks up what drew a pixel. Knows pixels; never
//! records, time or viewers.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint};

/// Colour without alpha.
pub(crate) const RGB: u32 = 0x00ff_ffff;
/// Shown in place of pixels that a viewer lost.
pub(crate) const LOST: u32 = 0x00_dead;
const OPAQUE: u32 = 0xff00_0000;

/// What fills a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every pixel has a value that was never drawn before.
    Distinct,
    /// One colour.
    Solid(u32),
    /// A repeating pattern.
    Pattern(u32),
    /// Neighbouring pixels differ a little, as in a photograph.
    Photograph(u32),
    /// Two colours without order.
    Text(u32),
    /// One colour in the shape of glyphs; pixels between them stay.
    Ink(u32),
    /// One half-transparent colour, blended over the existing pixels.
    Blend(u32),
    /// One half-transparent colour, replacing the existing pixels.
    Translucent(u32),
}

impl Fill {
    /// Its effect on the alpha of every pixel of its rectangle, as recorded by the driver.
    pub fn alpha(self) -> Alpha {
        match self {
            Fill::Distinct
            | Fill::Solid(_)
            | Fill::Pattern(_)
            | Fill::Photograph(_)
            | Fill::Text(_) => Alpha::Opaque,
            Fill::Ink(_) | Fill::Blend(_) => Alpha::Kept,
            Fill::Translucent(_) => Alpha::Unknown,
        }
    }

    /// The new value of the pixel at `(x, y)`; None if it stays.
    pub(crate) fn pixel(self, (x, y): (i32, i32), under: u32, next: &mut u32) -> Option<u32> {
        let ink = (x * 7 + y * 13 + (x * y) % 5) % 3 == 0;
        match self {
            Fill::Distinct => {
                *next = (*next + 1) & RGB;
                Some(*next | OPAQUE)
            }
            Fill::Solid(color) => Some(color | OPAQUE),
            Fill::Pattern(color) => Some((color ^ (x as u32 & 3) << 8) | OPAQUE),
            Fill::Photograph(seed) => Some(photograph(x as u32, y as u32, seed) | OPAQUE),
            Fill::Text(color) => Some(if ink { color } else { !color & RGB } | OPAQUE),
            Fill::Ink(color) => ink.then_some(color | OPAQUE),
            Fill::Blend(color) => Some(over(half(color), under)),
            Fill::Translucent(color) => Some(half(color)),
        }
    }
}

/// The colour at half its opacity, premultiplied.
fn half(color: u32) -> u32 {
    0x8000_0000 | (color >> 1 & 0x007f_7f7f)
}

/// Three gentle slopes and a little noise.
fn photograph(x: u32, y: u32, seed: u32) -> u32 {
    let channel = |at: u32, shift: u32| {
        let (slope, noise) =
            (at % 360, (at ^ seed.wrapping_add(x << 9)).wrapping_mul(0x9e37_79b1) >> 30);
        (20 + if slope < 180 { slope } else { 360 - slope } + noise) << shift
    };
    channel(2 * x + 3 * y + seed % 97, 0)
        | channel(3 * x + y + seed % 89, 8)
        | channel(x + 4 * y + seed % 83, 16)
}

/// RENDER's Over, of premultiplied colours.
pub(crate) fn over(src: u32, under: u32) -> u32 {
    let rest = 255 - (src >> 24);
    let channel =
        |shift: u32| ((src >> shift & 255) + (under >> shift & 255) * rest / 255).min(255) << shift;
    channel(0) | channel(8) | channel(16) | channel(24)
}

/// What drew a pixel: a set, because text under a blend is still text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made(u32);

impl Made {
    /// Contents of a pixmap before any drawing.
    pub(crate) const UNDEFINED: Made = Made(1 << 0);
    /// Text.
    pub const GLYPHS: Made = Made(1 << 1);
    /// Pixels sent by an X client.
    pub const IMAGE: Made = Made(1 << 2);
    /// A tile or stipple.
    pub const PATTERN: Made = Made(1 << 3);

    /// Drawn with this hint.
    pub fn by(hint: DrawHint) -> Made {
        match hint {
            DrawHint::Glyphs => Made::GLYPHS,
            DrawHint::Image | DrawHint::Stereo { .. } => Made::IMAGE,
            DrawHint::Pattern => Made::PATTERN,
            DrawHint::Solid(_) => Made(1 << 4),
            DrawHint::Composite => Made(1 << 5),
            DrawHint::Other => Made(1 << 6),
            DrawHint::Video { port, .. } => Made::video(port),
        }
    }

    /// A frame of XVideo.
    pub fn video(port: u16) -> Made {
        Made(1 << (16 + (port & 15)))
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: Made) -> Made {
        Made(self.0 | other.0)
    }

    /// True if any of `other` is included.
    pub fn has(self, other: Made) -> bool {
        self.0 & other.0 != 0
    }
}

/// A screen or a pixmap.
#[derive(Clone, Debug)]
pub struct Surface {
    /// In pixels.
    pub size: Size,
    /// Rows of `size.width`: 0xRRGGBB, and alpha above it where the surface has one.
    pub pixels: Vec<u32>,
    /// What drew each of them.
    pub made: Vec<Made>,
    /// True if it has no alpha.
    opaque: bool,
}

impl Surface {
    /// A black screen.
    pub(crate) fn screen(size: Size) -> Surface {
        let area = size.area() as usize;
        Surface { size, pixels: vec![0; area], made: vec![Made::default(); area], opaque: true }
    }

    /// A pixmap with arbitrary contents.
    pub(crate) fn pixmap(id: u32, size: Size, opaque: bool) -> Surface {
        let area = size.area() as usize;
        let noise = |i: usize| (i as u32).wrapping_add(id << 12).wrapping_mul(0x9e37_79b9);
        let pixels = (0..area).map(|i| if opaque { noise(i) & RGB } else { noise(i) }).collect();
        Surface { size, pixels, made: vec![Made::UNDEFINED; area], opaque }
    }

    pub(crate) fn rect(&self) -> Rect {
        self.size.rect()
    }

    pub(crate) fn at(&self, x: i32, y: i32) -> usize {
        y as usize * self.size.width as usize + x as usize
    }

    /// The pixel with its alpha.
    pub(crate) fn read(&self, at: usize) -> u32 {
        if self.opaque { self.pixels[at] | OPAQUE } else { self.pixels[at] }
    }

    pub(crate) fn write(&mut self, at: usize, pixel: u32, made: Made) {
        self.pixels[at] = if self.opaque { pixel & RGB } else { pixel };
        self.made[at] = made;
    }
}

/// The pixels of a rectangle, row by row.
pub(crate) fn pixels(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
    let rect = *rect;
    (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
}
