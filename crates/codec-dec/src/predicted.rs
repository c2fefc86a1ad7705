//! Path 11/13: from lib.rs, for RAW and PFILL; the inverse of codec-enc/predicted.rs, which shares
//! the rules below.
//! Byte operations on pixels in reading order: runs, a cache of colours, differences.
//! Knows 24-bit pixels and a width; every index is checked, and no input panics.
//!
//! ```text
//! 00iiiiii             pixel i of the cache
//! 01rrggbb             differences from the median, -2 .. 1 each, stored + 2
//! 10gggggg rrrrbbbb    green differs by -32 .. 31 (+ 32); red and blue by that plus -8 .. 7 (+ 8)
//! 0xc0 .. 0xd7         the expected pixels (context.rs), 1 .. 24 of them
//! 0xd8 .. 0xe7         the previous pixel, 1 .. 16 times
//! 0xe8 .. 0xf7         the pixels one row above, 1 .. 16 of them
//! 0xf8 n varint        the expected pixels, n + 25 of them
//! 0xf9 n varint        the previous pixel, n + 17 times
//! 0xfa n varint        the pixels one row above, n + 17 of them
//! 0xff g r' b'         green's difference; red's and blue's minus green's; each modulo 256
//! ```
//!
//! The pixels before the first one and the initial cache are black. Every pixel that is coded as a
//! difference is stored in the cache at its hash. Differences are modulo 256, from the median of
//! left, above, and left + above - corner.

use crate::context::{Contexts, Key, Neighbours, padding_len, right_step};
use crate::{DecodeError, OPAQUE, RGB};

/// Most bytes of one pixel.
pub const PIXEL_BYTES_MAX: usize = 4;

/// Operations by their first byte, and the lengths at which the short forms end.
pub mod op {
    /// From the cache.
    pub const CACHE: u8 = 0x00;
    /// Small differences.
    pub const SMALL: u8 = 0x40;
    /// Middle differences.
    pub const MIDDLE: u8 = 0x80;
    /// Short run of expected pixels.
    pub const EXPECTED: u8 = 0xc0;
    /// Short run of the previous pixel.
    pub const LEFT: u8 = 0xd8;
    /// Short run of the row above.
    pub const ABOVE: u8 = 0xe8;
    /// Long run of expected pixels.
    pub const EXPECTED_LONG: u8 = 0xf8;
    /// Long run of the previous pixel.
    pub const LEFT_LONG: u8 = 0xf9;
    /// Long run of the row above.
    pub const ABOVE_LONG: u8 = 0xfa;
    /// Full differences.
    pub const FULL: u8 = 0xff;
    /// Longest short run of expected pixels.
    pub const EXPECTED_MAX: usize = 24;
    /// Longest short run of the previous pixel.
    pub const LEFT_MAX: usize = 16;
    /// Longest short run of the row above.
    pub const ABOVE_MAX: usize = 16;
}

/// Index of a pixel in the cache.
#[inline(always)]
pub const fn hash(pixel: u32) -> usize {
    ((pixel & RGB).wrapping_mul(0x9e37_79b1) >> 26) as usize
}

/// Entries of the cache.
pub const CACHE_LEN: usize = 64;

/// The median edge detector: left + above − corner, clamped between left and above, in each of four
/// channels.
///
/// It uses minima and maxima, because branches would be unpredictable for photographs.
#[inline(always)]
pub fn median(left: u32, above: u32, corner: u32) -> [u8; 4] {
    let wide = |pixel: u32| pixel.to_le_bytes().map(i16::from);
    let (left, above, corner) = (wide(left), wide(above), wide(corner));
    let mut out = [0; 4];
    for i in 0..4 {
        let (low, high) = (left[i].min(above[i]), left[i].max(above[i]));
        out[i] = (left[i] + above[i] - corner[i]).min(high).max(low) as u8;
    }
    out
}

/// Fills `pixels` with 0xFFRRGGBB from `data`: rows of `width` without padding, after
/// `padding_len(width)` pixels, which it fills with black. Clears `contexts`.
///
/// # Errors
/// If the data is not exactly so many pixels, or has invalid operations.
pub fn decode(
    data: &[u8],
    width: usize,
    contexts: &mut Contexts,
    pixels: &mut [u32],
) -> Result<(), DecodeError> {
    let start = padding_len(width);
    pixels[..start].fill(OPAQUE);
    contexts.begin(pixels.len() - start);
    let mut cache = [OPAQUE; CACHE_LEN];
    let mut input = Input { data, at: 0 };
    let mut at = start;
    while at < pixels.len() {
        let first = input.byte()?;
        let differences = match first {
            op::CACHE..op::SMALL => {
                let around = Neighbours::at(pixels, at, width);
                put(pixels, at, cache[usize::from(first)], &around, contexts);
                at += 1;
                continue;
            }
            op::SMALL..op::MIDDLE => {
                let bits = |shift: u8| (first >> shift & 3).wrapping_sub(2);
                [bits(0), bits(2), bits(4)]
            }
            op::MIDDLE..op::EXPECTED => {
                let green = (first & 63).wrapping_sub(32);
                let others = input.byte()?;
                let red = green.wrapping_add((others >> 4).wrapping_sub(8));
                let blue = green.wrapping_add((others & 15).wrapping_sub(8));
                [blue, green, red]
            }
            op::FULL => {
                let green = input.byte()?;
                let red = green.wrapping_add(input.byte()?);
                let blue = green.wrapping_add(input.byte()?);
                [blue, green, red]
            }
            op::EXPECTED..op::LEFT | op::EXPECTED_LONG => {
                let len = input.len(first, op::EXPECTED, op::EXPECTED_LONG, op::EXPECTED_MAX)?;
                run(pixels, &mut at, len, width, contexts, Contexts::expect)?;
                continue;
            }
            op::LEFT..op::ABOVE | op::LEFT_LONG => {
                let len = input.len(first, op::LEFT, op::LEFT_LONG, op::LEFT_MAX)?;
                run(pixels, &mut at, len, width, contexts, |_, _, around| around.left)?;
                continue;
            }
            op::ABOVE..op::EXPECTED_LONG | op::ABOVE_LONG => {
                let len = input.len(first, op::ABOVE, op::ABOVE_LONG, op::ABOVE_MAX)?;
                run(pixels, &mut at, len, width, contexts, |_, _, around| around.above)?;
                continue;
            }
            other => return Err(DecodeError::Operation(other)),
        };
        let around = Neighbours::at(pixels, at, width);
        let [blue, green, red, _] = median(around.left, around.above, around.corner);
        let pixel = u32::from_le_bytes([
            blue.wrapping_add(differences[0]),
            green.wrapping_add(differences[1]),
            red.wrapping_add(differences[2]),
            0xff,
        ]);
        cache[hash(pixel)] = pixel;
        put(pixels, at, pixel, &around, contexts);
        at += 1;
    }
    if input.at != data.len() {
        return Err(DecodeError::Trailing);
    }
    Ok(())
}

#[inline(always)]
fn put(pixels: &mut [u32], at: usize, pixel: u32, around: &Neighbours, contexts: &mut Contexts) {
    if !around.are_flat() {
        contexts.learn(Key::new(around), pixel);
    }
    pixels[at] = pixel;
}

/// Writes `len` pixels from `at` on and advances `at`; `choose` computes each from its neighbours.
fn run(
    pixels: &mut [u32],
    at: &mut usize,
    len: usize,
    width: usize,
    contexts: &mut Contexts,
    choose: impl Fn(&Contexts, Key, &Neighbours) -> u32,
) -> Result<(), DecodeError> {
    if len > pixels.len() - *at {
        return Err(DecodeError::Run);
    }
    let end = *at + len;
    while *at < end {
        // Among so many pixels none has another as its right neighbour.
        let len = (end - *at).min(width.max(2) - 1);
        let (before, now) = pixels.split_at_mut(*at);
        let now = &mut now[..len];
        let rights = &before[*at - width + right_step(width)..][..len];
        let higher = &before[*at - 2 * width..][..len];
        let mut around = Neighbours::at(before, *at, width);
        let mut i = 0;
        while i < len {
            (around.right, around.higher) = (rights[i], higher[i]);
            if around.are_flat() {
                // Any choice yields this colour while the row above has no other.
                let flat = equal_len(&rights[i..], around.left);
                now[i..i + flat].fill(around.left);
                around.step(around.left);
                i += flat;
                continue;
            }
            let key = Key::new(&around);
            let pixel = choose(contexts, key, &around);
            contexts.learn(key, pixel);
            now[i] = pixel;
            around.step(pixel);
            i += 1;
        }
        *at += len;
    }
    Ok(())
}

/// Number of leading pixels of this colour.
#[inline(always)]
fn equal_len(pixels: &[u32], color: u32) -> usize {
    let (blocks, _) = pixels.as_chunks::<16>();
    let same = |block: &&[u32; 16]| block.iter().fold(0, |all, pixel| all | (pixel ^ color)) == 0;
    let far = blocks.iter().take_while(same).count() * 16;
    far + pixels[far..].iter().take_while(|pixel| **pixel == color).count()
}

struct Input<'a> {
    data: &'a [u8],
    at: usize,
}

impl Input<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.data.get(self.at).ok_or(DecodeError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// The length of a run whose first byte was `first`.
    #[inline(always)]
    fn len(
        &mut self,
        first: u8,
        short: u8,
        long: u8,
        short_max: usize,
    ) -> Result<usize, DecodeError> {
        if first == long { self.long(short_max) } else { Ok(usize::from(first - short) + 1) }
    }

    /// The length of a long run: a varint beyond the longest short one.
    fn long(&mut self, short_max: usize) -> Result<usize, DecodeError> {
        let mut value = 0usize;
        // Four groups hold 2^28, more than the pixels of any rectangle.
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value + short_max + 1);
            }
        }
        Err(DecodeError::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(data: &[u8], width: usize, len: usize) -> Result<Vec<u32>, DecodeError> {
        let mut pixels = vec![0; padding_len(width) + len];
        decode(data, width, &mut Contexts::default(), &mut pixels)?;
        assert!(pixels.iter().all(|p| p & OPAQUE == OPAQUE));
        Ok(pixels[padding_len(width)..].iter().map(|p| p & RGB).collect())
    }

    #[test]
    fn golden_bytes_of_every_operation() {
        // Full: from black by (+0x34 green, red 0x12 = green - 0x22, blue 0x56 = green + 0x22).
        let whole = [0xff, 0x34, 0xde, 0x22];
        assert_eq!(decoded(&whole, 4, 1), Ok(vec![0x12_3456]));
        // Small: red +1, green -2, blue 0. Middle: green +31, red 7 more, blue 8 less.
        assert_eq!(
            decoded(&[&whole[..], &[0b0111_0010]].concat(), 4, 2),
            Ok(vec![0x12_3456, 0x13_3256])
        );
        assert_eq!(
            decoded(&[&whole[..], &[0xbf, 0xf0]].concat(), 4, 2),
            Ok(vec![0x12_3456, 0x38_536d])
        );
        // Cache: the pixel of a difference is found by its hash.
        let index = hash(0x12_3456) as u8;
        assert_eq!(
            decoded(&[&whole[..], &[0x70, index]].concat(), 4, 3).map(|p| p[2]),
            Ok(0x12_3456)
        );
        // Runs, short and long, of the previous pixel and of the row above, which is black at
        // first.
        assert_eq!(decoded(&[&whole[..], &[0xda]].concat(), 4, 4), Ok(vec![0x12_3456; 4]));
        assert_eq!(
            decoded(&[&whole[..], &[0xf9, 0x80, 0x02]].concat(), 4, 274),
            Ok(vec![0x12_3456; 274])
        );
        assert_eq!(
            decoded(&[0xe9, 0xff, 1, 0, 0, 0xd8, 0xe9], 2, 6),
            Ok([[0; 2], [0x01_0101; 2], [0x01_0101; 2]].concat())
        );
        let above = decoded(&[&whole[..], &[0xff, 1, 1, 1, 0xfa, 0x03]].concat(), 2, 22).unwrap();
        assert!(above.chunks_exact(2).all(|row| row == &above[..2]));
        // Expected among neighbours of one colour: that colour.
        assert_eq!(decoded(&[0xf8, 0x07], 4, 32), Ok(vec![0; 32]));
        // The second row is differences from the median of its three neighbours.
        assert_eq!(
            decoded(&[0xff, 10, 0, 0, 0xff, 10, 0, 0, 0xe8, 0x6a], 2, 4).map(|p| p[3]),
            Ok(0x14_1414)
        );
    }

    /// Two equal glyphs side by side: the pixels below the first one's top row are expected below
    /// the second's.
    #[test]
    fn repeated_pixels_are_expected() {
        let grey = |value: u32| value * 0x01_0101;
        let cached = |value: u32| hash(grey(value)) as u8;
        let whole = |difference: i8| [0xff, difference as u8, 0, 0];
        let operations = [
            // 1 2 3 9, from the previous pixel
            &[whole(1), whole(1), whole(1), whole(6)].concat()[..],
            &[1, 2, 3, 9].map(cached),
            &[whole(-4), whole(1), whole(1), whole(0)].concat(), // 5 6 7 9, from the median
            &[cached(5), 0xc2], // 5, which is not expected, and 3 expected pixels
        ];
        let pixels = decoded(&operations.concat(), 8, 16).unwrap();
        assert_eq!(pixels, [1, 2, 3, 9, 1, 2, 3, 9, 5, 6, 7, 9, 5, 6, 7, 9].map(grey));
    }

    #[test]
    fn the_median_is_that_of_the_document() {
        for (left, above, corner, expected) in [
            (10, 20, 25, 10),
            (10, 20, 5, 20),
            (10, 20, 15, 15),
            (10, 20, 20, 10),
            (10, 20, 10, 20),
            (255, 0, 128, 127),
        ] {
            let document = |left: i32, above: i32, corner: i32| {
                if corner >= left.max(above) {
                    left.min(above)
                } else if corner <= left.min(above) {
                    left.max(above)
                } else {
                    left + above - corner
                }
            };
            assert_eq!(document(left, above, corner), expected);
            let pixel = |value: i32| value as u32 * 0x0101_0101;
            assert_eq!(median(pixel(left), pixel(above), pixel(corner)), [expected as u8; 4]);
            assert_eq!(median(pixel(above), pixel(left), pixel(corner)), [expected as u8; 4]);
        }
    }

    #[test]
    fn malformed_data_is_refused() {
        for (data, error) in [
            (&[][..], DecodeError::Truncated),
            (&[0xff, 1, 2], DecodeError::Truncated),
            (&[0x80], DecodeError::Truncated),
            (&[0xf8], DecodeError::Truncated),
            (&[0xc4], DecodeError::Run),
            (&[0xdc], DecodeError::Run),
            (&[0xec], DecodeError::Run),
            (&[0xf9, 0xff, 0xff, 0xff, 0x7f], DecodeError::Run),
            (&[0xf9, 0xff, 0xff, 0xff, 0xff, 0x7f], DecodeError::Run),
            (&[0xc1, 0xeb], DecodeError::Run),
            (&[0xfb], DecodeError::Operation(0xfb)),
            (&[0xfe], DecodeError::Operation(0xfe)),
            (&[0xc3, 0], DecodeError::Trailing),
        ] {
            assert_eq!(decoded(data, 2, 4), Err(error), "{data:02x?}");
        }
    }
}
