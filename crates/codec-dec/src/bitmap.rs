//! Path 11/13: from lib.rs, for BITMAP.
//! Pixels of two colours from one bit each, and blends of two colours from eight bits of coverage.
//! Knows rows and colours; never compression.

use crate::{OPAQUE, RGB};

/// Writes `colors.0` for each bit that is 1 and `colors.1` for 0; the first pixel is the highest
/// bit.
pub fn choose(bits: &[u8], colors: (u32, u32), row: &mut [u32]) {
    let (fg, bg) = (colors.0 | OPAQUE, colors.1 | OPAQUE);
    let chosen = |byte: u8, i: usize| if byte & (0x80 >> i) != 0 { fg } else { bg };
    let (eights, rest) = row.as_chunks_mut::<8>();
    // The constant length lets the compiler select eight pixels at once.
    for (pixels, &byte) in eights.iter_mut().zip(bits) {
        *pixels = std::array::from_fn(|i| chosen(byte, i));
    }
    if let Some(&byte) = bits.get(eights.len()) {
        rest.iter_mut().enumerate().for_each(|(i, pixel)| *pixel = chosen(byte, i));
    }
}

/// One channel of foreground over background: `(bg × (255 − c) + fg × c) / 255`, rounded to
/// nearest. There are no ties, because 255 is odd.
const fn blend_channel(fg: u32, bg: u32, coverage: u32) -> u32 {
    (bg * (255 - coverage) + fg * coverage + 127) / 255
}

/// A blended pixel, 0x00RRGGBB.
pub const fn blend(fg: u32, bg: u32, coverage: u8) -> u32 {
    let c = coverage as u32;
    let blue = blend_channel(fg & 0xff, bg & 0xff, c);
    let green = blend_channel(fg >> 8 & 0xff, bg >> 8 & 0xff, c);
    let red = blend_channel(fg >> 16 & 0xff, bg >> 16 & 0xff, c);
    red << 16 | green << 8 | blue
}

/// Table of all 256 blends of two colours, computed once per command because text repeats them.
#[derive(Debug)]
pub struct Blend {
    pixels: [u32; 256],
}

impl Blend {
    /// Computes the table of these colours.
    pub fn new(fg: u32, bg: u32) -> Blend {
        let mut pixels = [0; 256];
        for (coverage, pixel) in pixels.iter_mut().enumerate() {
            *pixel = OPAQUE | blend(fg & RGB, bg & RGB, coverage as u8);
        }
        Blend { pixels }
    }

    /// Writes one row.
    pub fn row(&self, coverage: &[u8], row: &mut [u32]) {
        for (pixel, &coverage) in row.iter_mut().zip(coverage) {
            *pixel = self.pixels[usize::from(coverage)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blending_rounds_to_nearest_and_keeps_both_colours() {
        for fg in [0u32, 1, 100, 254, 255] {
            for bg in 0..=255u32 {
                for c in 0..=255u32 {
                    let exact =
                        (f64::from(bg) * f64::from(255 - c) + f64::from(fg) * f64::from(c)) / 255.0;
                    assert_eq!(
                        blend_channel(fg, bg, c),
                        exact.round() as u32,
                        "{fg} over {bg} by {c}"
                    );
                }
            }
        }
        assert_eq!(blend(0x12_3456, 0xab_cdef, 255), 0x12_3456);
        assert_eq!(blend(0x12_3456, 0xab_cdef, 0), 0xab_cdef);
    }

    #[test]
    fn bits_select_from_the_highest() {
        let mut row = [0; 10];
        choose(&[0b1010_0000, 0b0100_0000], (1, 2), &mut row);
        assert_eq!(row.map(|p| p & RGB), [1, 2, 1, 2, 2, 2, 2, 2, 2, 1]);
    }
}
