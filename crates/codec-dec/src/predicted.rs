//! Path 11/13: from lib.rs, for RAW and PFILL; the twin of codec-enc/predicted.rs, which shares the rules below.
//! Byte operations on pixels in reading order: runs, rows above, a cache of colours, differences from a prediction.
//! Knows 24-bit pixels and a width; every index is checked, no input panics.
//!
//! ```text
//! 00iiiiii             pixel i of the cache
//! 01rrggbb             differences from the prediction, -2 .. 1 each, stored + 2
//! 10gggggg rrrrbbbb    green differs by -32 .. 31 (+ 32); red and blue by that and -8 .. 7 more (+ 8)
//! 110nnnnn             the pixel before, n + 1 times: 1 .. 32
//! 1110nnnn             the pixels one row above, n + 1 of them: 1 .. 16
//! 11110000 n varint    the pixel before, n + 33 times
//! 11110001 n varint    the pixels one row above, n + 17 of them
//! 11111111 g r' b'     green's difference, red's and blue's less green's, each modulo 256
//! ```
//!
//! At the start the pixel before is black and the cache all black. Every pixel that is coded as a difference goes into
//! the cache at its hash. All differences are modulo 256.

use crate::{DecodeError, OPAQUE, RGB};

/// Most bytes a pixel takes.
pub const PIXEL_BYTES_MAX: usize = 4;

/// Operations by their first byte, and the lengths at which the short forms end.
pub mod op {
    /// From the cache.
    pub const CACHE: u8 = 0x00;
    /// Small differences.
    pub const SMALL: u8 = 0x40;
    /// Middle differences.
    pub const MIDDLE: u8 = 0x80;
    /// Short run.
    pub const RUN: u8 = 0xc0;
    /// Short run of the row above.
    pub const ABOVE: u8 = 0xe0;
    /// Long run.
    pub const RUN_LONG: u8 = 0xf0;
    /// Long run of the row above.
    pub const ABOVE_LONG: u8 = 0xf1;
    /// Whole differences.
    pub const WHOLE: u8 = 0xff;
    /// Longest short run.
    pub const RUN_MAX: usize = 32;
    /// Longest short run of the row above.
    pub const ABOVE_MAX: usize = 16;
}

/// Where a pixel lies in the cache.
#[inline(always)]
pub const fn hash(pixel: u32) -> usize {
    ((pixel & RGB).wrapping_mul(0x9e37_79b1) >> 26) as usize
}

/// Entries of the cache.
pub const CACHE_LEN: usize = 64;

/// The median edge detector: left + above − corner, kept between left and above, in each of four channels.
///
/// Written with minima and maxima of small arrays because photographs make branches here unpredictable.
#[inline(always)]
fn median(left: u32, above: u32, corner: u32) -> [u8; 4] {
    let wide = |pixel: u32| pixel.to_le_bytes().map(i16::from);
    let (left, above, corner) = (wide(left), wide(above), wide(corner));
    let mut out = [0; 4];
    for i in 0..4 {
        let (low, high) = (left[i].min(above[i]), left[i].max(above[i]));
        out[i] = (left[i] + above[i] - corner[i]).min(high).max(low) as u8;
    }
    out
}

/// The channels blue, green, red.
#[inline(always)]
pub const fn channels(pixel: u32) -> [u8; 3] {
    [pixel as u8, (pixel >> 8) as u8, (pixel >> 16) as u8]
}

/// What pixel `i` is expected to be: the median of its neighbours, or the pixel before where there is no row above.
///
/// Neighbours are those of the reading order: left of a row's first pixel is the last pixel of the row before.
#[inline(always)]
pub fn predict(pixels: &[u32], i: usize, width: usize, before: u32) -> [u8; 3] {
    if i < width {
        return channels(before);
    }
    let above_at = i - width;
    let [blue, green, red, _] = median(before, pixels[above_at], pixels[above_at.saturating_sub(1)]);
    [blue, green, red]
}

/// Fills `pixels` (rows of `width`) with 0xFFRRGGBB from `data`.
///
/// # Errors
/// Data that are not exactly as many pixels, or not operations.
pub fn decode(data: &[u8], width: usize, pixels: &mut [u32]) -> Result<(), DecodeError> {
    let mut cache = [OPAQUE; CACHE_LEN];
    let mut before = OPAQUE;
    let mut input = Input { data, at: 0 };
    let mut i = 0;
    while i < pixels.len() {
        let first = input.byte()?;
        let differences = match first {
            op::CACHE..=0x3f => {
                before = cache[usize::from(first)];
                pixels[i] = before;
                i += 1;
                continue;
            }
            op::SMALL..=0x7f => {
                let bits = |shift: u8| (first >> shift & 3).wrapping_sub(2);
                [bits(0), bits(2), bits(4)]
            }
            op::MIDDLE..=0xbf => {
                let green = (first & 63).wrapping_sub(32);
                let others = input.byte()?;
                let red = green.wrapping_add((others >> 4).wrapping_sub(8));
                let blue = green.wrapping_add((others & 15).wrapping_sub(8));
                [blue, green, red]
            }
            op::WHOLE => {
                let green = input.byte()?;
                let red = green.wrapping_add(input.byte()?);
                let blue = green.wrapping_add(input.byte()?);
                [blue, green, red]
            }
            op::RUN..=0xdf | op::RUN_LONG => {
                let len = if first == op::RUN_LONG { input.long(op::RUN_MAX)? } else { usize::from(first & 31) + 1 };
                let run = pixels[i..].get_mut(..len).ok_or(DecodeError::Run)?;
                run.fill(before);
                i += len;
                continue;
            }
            op::ABOVE..=0xef | op::ABOVE_LONG => {
                let long = first == op::ABOVE_LONG;
                let len = if long { input.long(op::ABOVE_MAX)? } else { usize::from(first & 15) + 1 };
                copy_above(pixels, i, len, width)?;
                i += len;
                before = pixels[i - 1];
                continue;
            }
            other => return Err(DecodeError::Operation(other)),
        };
        let [blue, green, red] = predict(pixels, i, width, before);
        before = u32::from_le_bytes([
            blue.wrapping_add(differences[0]),
            green.wrapping_add(differences[1]),
            red.wrapping_add(differences[2]),
            0xff,
        ]);
        cache[hash(before)] = before;
        pixels[i] = before;
        i += 1;
    }
    if input.at != data.len() {
        return Err(DecodeError::Trailing);
    }
    Ok(())
}

/// Copies `len` pixels at `i` from one row above; a run longer than a row repeats it.
fn copy_above(pixels: &mut [u32], mut i: usize, len: usize, width: usize) -> Result<(), DecodeError> {
    if i < width || width == 0 {
        return Err(DecodeError::Above);
    }
    if len > pixels.len() - i {
        return Err(DecodeError::Run);
    }
    let end = i + len;
    while i < end {
        // Never more than a row at once, so that source and destination stay apart.
        let part = (end - i).min(width);
        pixels.copy_within(i - width..i - width + part, i);
        i += part;
    }
    Ok(())
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

    /// The length of a long run: a varint beyond the longest short one.
    fn long(&mut self, short_max: usize) -> Result<usize, DecodeError> {
        let mut value = 0usize;
        // Four groups are 2^28, more than any rectangle has pixels.
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
        let mut pixels = vec![0; len];
        decode(data, width, &mut pixels)?;
        assert!(pixels.iter().all(|p| p & OPAQUE == OPAQUE));
        Ok(pixels.into_iter().map(|p| p & RGB).collect())
    }

    #[test]
    fn golden_bytes_of_every_operation() {
        // Whole: from black by (+0x34 green, red 0x12 = green - 0x22, blue 0x56 = green + 0x22).
        let whole = [0xff, 0x34, 0xde, 0x22];
        assert_eq!(decoded(&whole, 4, 1), Ok(vec![0x12_3456]));
        // Small: red +1, green -2, blue 0. Middle: green +31, red 7 more, blue 8 less.
        assert_eq!(decoded(&[&whole[..], &[0b0111_0010]].concat(), 4, 2), Ok(vec![0x12_3456, 0x13_3256]));
        assert_eq!(decoded(&[&whole[..], &[0xbf, 0xf0]].concat(), 4, 2), Ok(vec![0x12_3456, 0x38_536d]));
        // Cache: the pixel of a difference is found again by its hash.
        let index = hash(0x12_3456) as u8;
        assert_eq!(decoded(&[&whole[..], &[0x70, index]].concat(), 4, 3).map(|p| p[2]), Ok(0x12_3456));
        // Runs, short and long, and rows above.
        assert_eq!(decoded(&[&whole[..], &[0xc2]].concat(), 4, 4), Ok(vec![0x12_3456; 4]));
        assert_eq!(decoded(&[&whole[..], &[0xf0, 0x80, 0x02]].concat(), 4, 290), Ok(vec![0x12_3456; 290]));
        assert_eq!(decoded(&[0xff, 1, 0, 0, 0xc0, 0xe1], 2, 4), Ok(vec![0x01_0101; 4]));
        let above = decoded(&[&whole[..], &[0xff, 1, 1, 1, 0xf1, 0x03]].concat(), 2, 22).unwrap();
        assert!(above.chunks_exact(2).all(|row| row == &above[..2]));
        // The second row predicts from three neighbours: median(left, above, corner).
        assert_eq!(decoded(&[0xff, 10, 0, 0, 0xff, 10, 0, 0, 0xe0, 0x6a], 2, 4).map(|p| p[3]), Ok(0x14_1414));
    }

    #[test]
    fn the_median_is_the_one_of_the_document() {
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
    fn malformed_data_are_refused() {
        for (data, error) in [
            (&[][..], DecodeError::Truncated),
            (&[0xff, 1, 2], DecodeError::Truncated),
            (&[0xf0], DecodeError::Truncated),
            (&[0xc4], DecodeError::Run),
            (&[0xf0, 0xff, 0xff, 0xff, 0x7f], DecodeError::Run),
            (&[0xf0, 0xff, 0xff, 0xff, 0xff, 0x7f], DecodeError::Run),
            (&[0xe0], DecodeError::Above),
            (&[0xc1, 0xe3], DecodeError::Run),
            (&[0xf2], DecodeError::Operation(0xf2)),
            (&[0xfe], DecodeError::Operation(0xfe)),
            (&[0xc3, 0], DecodeError::Trailing),
        ] {
            assert_eq!(decoded(data, 2, 4), Err(error), "{data:02x?}");
        }
    }
}
