//! Path 1/13, made up: memory that X draws into, a screen or a pixmap, and what a drawing does to one of its pixels.
//! From x_server.rs, to x_server.rs; oracle.rs looks up what a pixel was made by.
//! Knows pixels; never records, time or viewers.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, Drawn};

/// Colour without alpha.
pub(crate) const RGB: u32 = 0x00ff_ffff;
/// What is shown in place of pixels that a viewer lost.
pub(crate) const LOST: u32 = 0x00_dead;
const OPAQUE: u32 = 0xff00_0000;

/// What fills a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every pixel different from every other ever drawn.
    Distinct,
    /// One colour.
    Solid(u32),
    /// Rows that repeat.
    Pattern(u32),
    /// Neighbours that differ a little, as in a photograph.
    Photograph(u32),
    /// Two colours in no order.
    Text(u32),
    /// One colour, where letters are; what is between them stays.
    Ink(u32),
    /// One colour, blended by half over what was there.
    Glass(u32),
    /// One colour that is half transparent, in place of what was there.
    Sheer(u32),
}

impl Fill {
    /// What it does to the alpha of every pixel of its rectangle, as the driver tells it.
    pub fn alpha(self) -> Alpha {
        match self {
            Fill::Distinct | Fill::Solid(_) | Fill::Pattern(_) | Fill::Photograph(_) | Fill::Text(_) => Alpha::Opaque,
            Fill::Ink(_) | Fill::Glass(_) => Alpha::Kept,
            Fill::Sheer(_) => Alpha::Unknown,
        }
    }

    /// What the pixel at `(x, y)` becomes; None where it stays as it is.
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
            Fill::Glass(color) => Some(over(half(color), under)),
            Fill::Sheer(color) => Some(half(color)),
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
        let (slope, noise) = (at % 360, (at ^ seed.wrapping_add(x << 9)).wrapping_mul(0x9e37_79b1) >> 30);
        (20 + if slope < 180 { slope } else { 360 - slope } + noise) << shift
    };
    channel(2 * x + 3 * y + seed % 97, 0) | channel(3 * x + y + seed % 89, 8) | channel(x + 4 * y + seed % 83, 16)
}

/// RENDER's Over, of premultiplied colours.
pub(crate) fn over(src: u32, under: u32) -> u32 {
    let rest = 255 - (src >> 24);
    let channel = |shift: u32| ((src >> shift & 255) + (under >> shift & 255) * rest / 255).min(255) << shift;
    channel(0) | channel(8) | channel(16) | channel(24)
}

/// What a pixel was made by: a set, for what is blended over text is text still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made(u32);

impl Made {
    /// Contents of a pixmap that nobody has drawn in.
    pub const UNDEFINED: Made = Made(1 << 0);
    /// Text.
    pub const GLYPHS: Made = Made(1 << 1);
    /// A client's pixels.
    pub const IMAGE: Made = Made(1 << 2);
    /// A tile or stipple.
    pub const PATTERN: Made = Made(1 << 3);

    /// Made by a drawing.
    pub fn by(what: Drawn) -> Made {
        match what {
            Drawn::Glyphs => Made::GLYPHS,
            Drawn::Image => Made::IMAGE,
            Drawn::Pattern => Made::PATTERN,
            Drawn::Solid(_) => Made(1 << 4),
            Drawn::Composite => Made(1 << 5),
            Drawn::Other => Made(1 << 6),
            Drawn::Video { port, .. } => Made::video(port),
        }
    }

    /// A frame of XVideo.
    pub fn video(port: u16) -> Made {
        Made(1 << (16 + (port & 15)))
    }

    /// By both.
    #[must_use]
    pub fn and(self, other: Made) -> Made {
        Made(self.0 | other.0)
    }

    /// True when `other` had a hand in it.
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
    /// What each of them was made by.
    pub made: Vec<Made>,
    /// It has no alpha.
    opaque: bool,
}

impl Surface {
    /// All black, as a screen is.
    pub(crate) fn screen(size: Size) -> Surface {
        let area = size.area() as usize;
        Surface { size, pixels: vec![0; area], made: vec![Made::default(); area], opaque: true }
    }

    /// Holding anything, as a pixmap does.
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
