//! Path 11/13: from lib.rs, for RAW and PFILL; the inverse of codec-enc/residuals.rs, which shares
//! the rules below.
//! Lossless photographs: each pixel's difference from a prediction, grouped by the prediction
//! errors in the row above.
//! Knows 24-bit pixels and a width; every index is checked, and no input panics.
//!
//! ```text
//! prediction   u8: 0 the median of left, above and left + above - corner;
//!              1 half the median and a quarter of left and above
//! counts       6 varints: number of pixels with grade 0 .. 5; the others have 6
//! zstd         one frame: for each of the grades 0 .. 3 one symbol per pixel; for each of the
//!              other grades, and finally for all pixels whose symbol is ESCAPE, the differences
//!              of green, then those of red minus green's, then those of blue minus the mean of
//!              red's and green's; in reading order
//! ```
//!
//! A pixel's grade measures the prediction errors of the three pixels above it. Grouping by grade
//! gives smooth and busy areas their own bytes, and so their own entropy codes in zstd. In smooth
//! areas one code for three small differences is shorter than three codes.

use thinc_protocol::wire::Reader;

use crate::{DecodeError, OPAQUE, exact_len};

/// Number of grades, from smooth to busy.
pub const GRADES: usize = 7;
/// Grades below this one have one symbol per pixel.
pub const SMOOTH: usize = 4;
/// Largest weighted error of each grade, four times a pixel's error: powers of two minus one.
const GRADE_LIMITS: [u16; GRADES - 1] = [3, 7, 15, 31, 63, 127];
/// Grade of the first row, and of rows that are too narrow for neighbours on both sides.
const GRADE_UNKNOWN: u8 = 3;

/// How a pixel is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// The median, which follows edges.
    Median = 0,
    /// Half the median, a quarter of left and of above, which averages a sensor's noise.
    Even = 1,
}

/// Blue, green, red and the top byte.
pub type Channels = [i16; 4];

/// A pixel's channels, wide enough for sums.
#[inline(always)]
pub fn channels(pixel: u32) -> Channels {
    pixel.to_le_bytes().map(i16::from)
}

/// The prediction of a pixel, `Prediction::Even` if `EVEN`.
#[inline(always)]
pub fn predict<const EVEN: bool>(left: Channels, above: Channels, corner: Channels) -> Channels {
    let mut out = [0; 4];
    for i in 0..4 {
        let (low, high) = (left[i].min(above[i]), left[i].max(above[i]));
        let median = (left[i] + above[i] - corner[i]).min(high).max(low);
        out[i] = if EVEN { (2 * median + left[i] + above[i]) >> 2 } else { median };
    }
    out
}

/// The mean of two differences, rounded down; differences are modulo 256, from -128 to 127.
#[inline(always)]
pub fn mean(a: u8, b: u8) -> u8 {
    ((i16::from(a as i8) + i16::from(b as i8)) >> 1) as u8
}

/// The prediction error of these differences.
#[inline(always)]
pub fn error(differences: [u8; 3]) -> u16 {
    differences.iter().map(|&d| u16::from((d as i8).unsigned_abs())).sum()
}

/// Writes the grades of a row's pixels from the errors of the row above.
pub fn grade(errors: &[u16], grades: &mut [u8]) {
    let one = |weighed: u16| GRADE_LIMITS.iter().map(|&limit| u8::from(weighed >= limit)).sum();
    let width = errors.len();
    if width < 3 {
        return grades.fill(GRADE_UNKNOWN);
    }
    for (grade, errors) in grades[1..width - 1].iter_mut().zip(errors.windows(3)) {
        *grade = one(errors[0] + 2 * errors[1] + errors[2]);
    }
    grades[0] = one(3 * errors[0] + errors[1]);
    grades[width - 1] = one(errors[width - 2] + 3 * errors[width - 1]);
}

/// The grades of the first row.
pub fn grade_first(grades: &mut [u8]) {
    grades.fill(GRADE_UNKNOWN);
}

/// The symbol of differences without a symbol of their own.
pub const ESCAPE: u8 = 255;
/// Symbols encode differences of green and red from -3 to 3, and of blue from -2 to 2.
const SYMBOL_COUNT: usize = 7 * 7 * 5;

/// The symbol of three differences as they are sent; `ESCAPE` if one is too large.
#[inline(always)]
pub fn symbol([green, red_more, blue_more]: [u8; 3]) -> u8 {
    let (green, red_more, blue_more) =
        (green.wrapping_add(3), red_more.wrapping_add(3), blue_more.wrapping_add(2));
    if green < 7 && red_more < 7 && blue_more < 5 {
        (green * 7 + red_more) * 5 + blue_more
    } else {
        ESCAPE
    }
}

/// The differences of each symbol, green in the lowest byte.
const SYMBOLS: [u32; SYMBOL_COUNT] = {
    let mut symbols = [0; SYMBOL_COUNT];
    let mut symbol = 0;
    while symbol < SYMBOL_COUNT {
        let (green, red_more, blue_more) = (symbol / 35, symbol / 5 % 7, symbol % 5);
        symbols[symbol] = u32::from_le_bytes([
            (green as u8).wrapping_sub(3),
            (red_more as u8).wrapping_sub(3),
            (blue_more as u8).wrapping_sub(2),
            0,
        ]);
        symbol += 1;
    }
    symbols
};

/// The bytes of a grade: symbols, or green's differences from `at` on, red's and blue's each
/// `count` further on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section {
    /// Position of the next one.
    pub at: usize,
    /// Pixels of this grade.
    pub count: usize,
}

/// The sections of all grades, and of the pixels whose symbol is `ESCAPE`. There are eight, so that
/// three bits always index one.
pub fn sections(counts: [usize; GRADES]) -> [Section; 8] {
    let mut sections = [Section::default(); 8];
    let mut at = 0;
    for (grade, (section, count)) in sections.iter_mut().zip(counts).enumerate() {
        *section = Section { at, count };
        at += if grade < SMOOTH { count } else { 3 * count };
    }
    sections[GRADES].at = at;
    sections
}

/// The fields before the zstd frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    prediction: Prediction,
    counts: [usize; GRADES],
    /// Length of the head in bytes.
    pub(crate) len: usize,
}

impl Head {
    /// Reads it for `area` pixels.
    pub(crate) fn read(data: &[u8], area: usize) -> Result<Head, DecodeError> {
        let mut reader = Reader::new(data);
        let truncated = |_| DecodeError::Truncated;
        let prediction = match reader.u8("a prediction").map_err(truncated)? {
            0 => Prediction::Median,
            1 => Prediction::Even,
            other => return Err(DecodeError::Operation(other)),
        };
        let (mut counts, mut left) = ([0; GRADES], area as u64);
        for count in &mut counts[..GRADES - 1] {
            let value = reader.varint("a grade's count").map_err(truncated)?;
            left = left.checked_sub(value).ok_or(DecodeError::Run)?;
            *count = value as usize;
        }
        counts[GRADES - 1] = left as usize;
        Ok(Head { prediction, counts, len: data.len() - reader.rest_len() })
    }
}

/// Most bytes of a pixel in the frame: an escape and three differences.
pub(crate) const PIXEL_BYTES_MAX: usize = 4;

/// Rows of working memory.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    grades: Vec<u8>,
    errors: Vec<u16>,
    differences: Vec<u32>,
    black: Vec<u32>,
}

impl Rows {
    /// Fills `pixels`, rows of `width` without padding, from the frame's content.
    ///
    /// # Errors
    /// If bytes or grades do not match the counts, or a symbol is not defined.
    pub(crate) fn decode(
        &mut self,
        head: &Head,
        bytes: &[u8],
        width: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        match head.prediction {
            Prediction::Median => self.rebuild::<false>(head.counts, bytes, width, pixels),
            Prediction::Even => self.rebuild::<true>(head.counts, bytes, width, pixels),
        }
    }

    fn rebuild<const EVEN: bool>(
        &mut self,
        counts: [usize; GRADES],
        bytes: &[u8],
        width: usize,
        pixels: &mut [u32],
    ) -> Result<(), DecodeError> {
        let mut sections = sections(counts);
        let escapes = sections[GRADES].at;
        let symbols = bytes.get(..sections[SMOOTH].at).ok_or(DecodeError::Truncated)?;
        sections[GRADES].count = symbols.iter().map(|&symbol| usize::from(symbol == ESCAPE)).sum();
        exact_len(bytes, escapes + 3 * sections[GRADES].count)?;
        let ends = sections.map(|section| section.at + section.count);
        self.grades.resize(width, 0);
        self.errors.resize(width, 0);
        self.differences.resize(width, 0);
        self.black.resize(width, OPAQUE);
        grade_first(&mut self.grades);
        let (mut above, mut rest) = (&self.black[..], pixels);
        while !rest.is_empty() {
            for (&grade, differences) in self.grades.iter().zip(&mut self.differences) {
                let mut grade = usize::from(grade & 7);
                if grade < SMOOTH {
                    let at = sections[grade].at;
                    if at == ends[grade] {
                        return Err(DecodeError::Run);
                    }
                    sections[grade].at = at + 1;
                    let symbol = bytes[at];
                    if let Some(&known) = SYMBOLS.get(usize::from(symbol)) {
                        *differences = known;
                        continue;
                    }
                    if symbol != ESCAPE {
                        return Err(DecodeError::Operation(symbol));
                    }
                    grade = GRADES;
                }
                let Section { at, count } = sections[grade];
                if at == ends[grade] {
                    return Err(DecodeError::Run);
                }
                sections[grade].at = at + 1;
                *differences =
                    u32::from_le_bytes([bytes[at], bytes[at + count], bytes[at + 2 * count], 0]);
            }
            for (differences, off) in self.differences.iter_mut().zip(&mut self.errors) {
                let [green, red_more, blue_more, _] = differences.to_le_bytes();
                let red = red_more.wrapping_add(green);
                let blue = blue_more.wrapping_add(mean(red, green));
                *off = error([blue, green, red]);
                *differences = u32::from_le_bytes([blue, green, red, 0]);
            }
            let (row, below) = rest.split_at_mut(width);
            let mut left = channels(above[0]);
            let mut corner = left;
            for ((pixel, above), differences) in row.iter_mut().zip(above).zip(&self.differences) {
                let (above, differences) = (channels(*above), channels(*differences));
                let predicted = predict::<EVEN>(left, above, corner);
                for i in 0..4 {
                    left[i] = (predicted[i] + differences[i]) & 0xff;
                }
                *pixel = OPAQUE | u32::from_le_bytes(left.map(|channel| channel as u8));
                corner = above;
            }
            grade(&self.errors, &mut self.grades);
            (above, rest) = (row, below);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_weigh_the_three_errors_above() {
        let mut grades = [9; 6];
        grade(&[0, 0, 4, 0, 100, 40], &mut grades);
        // 0, 4, 8, 104, 240, 220.
        assert_eq!(grades, [0, 1, 2, 5, 6, 6]);
        let mut narrow = [9; 2];
        grade(&[100, 100], &mut narrow);
        assert_eq!(narrow, [GRADE_UNKNOWN; 2]);
    }

    #[test]
    fn the_largest_errors_fit_their_types() {
        let mut grades = [0; 3];
        let largest = error([128, 128, 128]);
        assert_eq!(largest, 384);
        grade(&[largest; 3], &mut grades);
        assert_eq!(grades, [6; 3]);
    }

    #[test]
    fn the_mean_of_differences_rounds_down() {
        for (a, b, expected) in
            [(2i8, 3i8, 2i8), (-2, -3, -3), (-128, 127, -1), (127, 127, 127), (-128, -128, -128)]
        {
            assert_eq!(mean(a as u8, b as u8), expected as u8, "{a} and {b}");
        }
    }

    #[test]
    fn symbols_round_trip() {
        for (symbol, differences) in SYMBOLS.iter().enumerate() {
            let [green, red_more, blue_more, _] = differences.to_le_bytes();
            assert_eq!(super::symbol([green, red_more, blue_more]), symbol as u8);
        }
        for large in [[4, 0, 0], [252, 0, 0], [0, 4, 0], [0, 252, 0], [0, 0, 3], [0, 0, 253]] {
            assert_eq!(symbol(large), ESCAPE, "{large:?}");
        }
    }

    fn decoded(
        head: &[u8],
        bytes: &[u8],
        width: usize,
        len: usize,
    ) -> Result<Vec<u32>, DecodeError> {
        let mut pixels = vec![0; len];
        Rows::default().decode(&Head::read(head, len)?, bytes, width, &mut pixels)?;
        Ok(pixels)
    }

    #[test]
    fn a_constructed_image_decodes() {
        // 3 x 1, grade 3: two symbols; one escape, its difference of green, of red minus green's,
        // of blue minus their mean.
        let bytes = [ESCAPE, symbol([1, 0, 0]), symbol([0, 0, 255]), 10, 2, 1];
        assert_eq!(
            decoded(&[0, 0, 0, 0, 3, 0, 0], &bytes, 3, 3),
            Ok(vec![0xff0c_0a0c, 0xff0d_0b0d, 0xff0d_0b0c])
        );
    }

    #[test]
    fn data_that_does_not_match_the_grades_is_refused() {
        for (head, error) in [
            (&[][..], DecodeError::Truncated),
            (&[2, 0, 0, 0, 3, 0, 0], DecodeError::Operation(2)),
            (&[0, 0, 0, 0, 3, 0], DecodeError::Truncated),
            (&[0, 0, 0, 0, 4, 0, 0], DecodeError::Run),
            (&[0, 1, 1, 0, 1, 1, 0], DecodeError::Run),
        ] {
            assert_eq!(decoded(head, &[0; 3], 3, 3), Err(error), "{head:?}");
        }
        let all_third = [0, 0, 0, 0, 3, 0, 0];
        for (head, bytes, error) in [
            (all_third, &[9; 2][..], DecodeError::Truncated),
            (all_third, &[9; 4], DecodeError::Trailing),
            (all_third, &[9, 9, ESCAPE, 1, 2], DecodeError::Truncated),
            (all_third, &[9, 9, ESCAPE, 1, 2, 3, 4], DecodeError::Trailing),
            (all_third, &[9, 9, SYMBOL_COUNT as u8], DecodeError::Operation(SYMBOL_COUNT as u8)),
            (all_third, &[9, 9, ESCAPE - 1], DecodeError::Operation(ESCAPE - 1)),
            // The first row is of grade 3, of which there are only two here.
            ([1, 1, 0, 0, 2, 0, 0], &[9; 3], DecodeError::Run),
            ([1, 0, 0, 0, 2, 0, 0], &[9; 5], DecodeError::Run),
        ] {
            assert_eq!(decoded(&head, bytes, 3, 3), Err(error), "{head:?} {bytes:?}");
        }
    }
}
