//! Path 8/13: from kind.rs, and from codec-enc/bitmap.rs, which encodes coverages.
//! Pixels that are blends of two colours, as antialiased text is, and their coverages; bit-exact or
//! not at all.
//! Knows the rounding of doc/protocol.md: `(bg × (255 − c) + fg × c + 127) / 255`, per channel.

use crate::RGB;

/// The blends of two colours: a line in the colour space.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    fg: u32,
    bg: u32,
    /// Shift of the channel in which they differ most, which distinguishes coverages best.
    shift: u32,
}

impl Line {
    /// From `bg` (coverage 0) to `fg` (coverage 255).
    pub fn new(fg: u32, bg: u32) -> Line {
        let span = |shift: u32| (fg >> shift & 0xff).abs_diff(bg >> shift & 0xff);
        let shift = [8, 16, 0].into_iter().max_by_key(|&shift| span(shift)).unwrap_or(8);
        Line { fg: fg & RGB, bg: bg & RGB, shift }
    }

    /// The pixel of a coverage.
    #[inline]
    pub fn pixel(&self, coverage: u8) -> u32 {
        let c = u32::from(coverage);
        let channel = |shift: u32| {
            let (fg, bg) = (self.fg >> shift & 0xff, self.bg >> shift & 0xff);
            ((bg * (255 - c) + fg * c + 127) / 255) << shift
        };
        channel(0) | channel(8) | channel(16)
    }

    /// The coverage that yields exactly this pixel, if there is one.
    #[inline]
    pub fn coverage(&self, pixel: u32) -> Option<u8> {
        let pixel = pixel & RGB;
        let channel = |color: u32| (color >> self.shift & 0xff) as i32;
        let (fg, bg) = (channel(self.fg), channel(self.bg));
        if fg == bg {
            return (pixel == self.bg).then_some(0);
        }
        let guess = ((channel(pixel) - bg) * 255 + (fg - bg) / 2) / (fg - bg);
        // Similar colours have several coverages with the same value; the other channels decide.
        let reach = (255 / (fg - bg).abs() + 1).min(8);
        (guess - reach..=guess + reach)
            .filter_map(|c| u8::try_from(c).ok())
            .find(|&coverage| self.pixel(coverage) == pixel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_of_a_line_is_found_again() {
        for (fg, bg) in [
            (0, 0xff_ffff),
            (0xff_ffff, 0),
            (0x20_4060, 0xe0_d0c0),
            (0x10_1010, 0x20_2020),
            (7, 7),
            (1, 3),
        ] {
            let line = Line::new(fg, bg);
            for coverage in 0..=255 {
                let pixel = line.pixel(coverage);
                let found = line
                    .coverage(pixel)
                    .unwrap_or_else(|| panic!("{fg:06x} over {bg:06x} at {coverage}"));
                assert_eq!(line.pixel(found), pixel);
            }
        }
    }

    #[test]
    fn a_pixel_beside_the_line_is_not_found() {
        let line = Line::new(0, 0xff_ffff);
        assert_eq!(line.coverage(0x80_8081), None);
        assert_eq!(line.coverage(0xff_0000), None);
        assert_eq!(line.coverage(0x80_8080), Some(127));
        assert_eq!(Line::new(0x10_1010, 0x20_2020).coverage(0x21_2121), None);
    }
}
