//! A number as black and white bars that identifies a frame by its pixels. Drawn by applications at
//! the top and the bottom edge of each frame; read from the client's screen. Knows bars; never
//! frames. Survives JPEG at quality 30 with halved colour, and any scaling that keeps bars at 8
//! pixels.

use super::picture::{Picture, Rect, channels};

/// 32 of the number and 8 of its check.
pub const BARS: u32 = 40;
/// Rows of one code: two blocks of JPEG, or one with halved colour.
pub const HEIGHT: u32 = 16;
/// Pixels of a bar where it is narrowest: one block of JPEG.
const BAR_WIDTH_MIN: u32 = 8;
/// Narrowest area that can hold a code.
pub const WIDTH_MIN: u32 = BARS * BAR_WIDTH_MIN;
/// Least contrast between black and white, in levels of 255; with less there is no code.
const CONTRAST_MIN: i32 = 96;

/// Position of the upper code of a frame.
pub fn top(frame: Rect) -> Rect {
    Rect { height: HEIGHT, ..frame }
}

/// Position of the lower code of a frame.
pub fn bottom(frame: Rect) -> Rect {
    Rect { y: frame.bottom() - HEIGHT as i32, height: HEIGHT, ..frame }
}

/// Draws `number` over `rect` of a picture whose rows are `stride` pixels apart.
///
/// # Panics If `rect` is narrower than [`WIDTH_MIN`] or does not lie within the picture.
pub fn draw(number: u32, pixels: &mut [u32], stride: usize, rect: Rect) {
    assert!(
        rect.width >= WIDTH_MIN,
        "a bar code needs {WIDTH_MIN} pixels of width, not {}",
        rect.width
    );
    let left = usize::try_from(rect.x).expect("a bar code lies within its picture");
    assert!(left + rect.width as usize <= stride, "a bar code lies within its picture");
    let code = with_check(number);
    for y in rect.y..rect.bottom() {
        let row = usize::try_from(y).expect("a bar code lies within its picture") * stride + left;
        for bar in 0..BARS {
            let (from, to) = span(rect.width, bar);
            let pixel = if code >> (BARS - 1 - bar) & 1 == 1 { 0xff_ffff } else { 0 };
            pixels[row + from as usize..row + to as usize].fill(pixel);
        }
    }
}

/// The white bars of a code over black as first and last pixel, exclusive: for callers that draw
/// rectangles.
pub fn white_bars(number: u32, width: u32) -> Vec<(u32, u32)> {
    assert!(width >= WIDTH_MIN, "a bar code needs {WIDTH_MIN} pixels of width, not {width}");
    let code = with_check(number);
    (0..BARS).filter(|bar| code >> (BARS - 1 - bar) & 1 == 1).map(|bar| span(width, bar)).collect()
}

/// The number in `rect` of a picture; None if it has no code or half of one.
pub fn read(picture: &Picture, rect: Rect) -> Option<u32> {
    if rect.width < WIDTH_MIN || rect.height < 4 || rect.intersect(&picture.rect()) != Some(rect) {
        return None;
    }
    let at = |x: u32, y: i32| {
        luma(picture.pixels[y as usize * picture.width as usize + rect.x as usize + x as usize])
    };
    let middle = |bar: u32| {
        let (from, to) = span(rect.width, bar);
        (from + to) / 2
    };
    // One pixel of each bar is enough to refuse most pictures without a code.
    let y = rect.y + rect.height as i32 / 2;
    let sample = |bar: u32| at(middle(bar), y);
    let (low, high) = (0..BARS)
        .map(sample)
        .fold((i32::MAX, i32::MIN), |(low, high), l| (low.min(l), high.max(l)));
    if high - low < CONTRAST_MIN {
        return None;
    }
    let threshold = (low + high) / 2;
    let code = (0..BARS).fold(0, |code, bar| code << 1 | u64::from(sample(bar) > threshold));
    let number = (code >> 8) as u32;
    if with_check(number) != code {
        return None;
    }
    // The rest of each bar, without the edges that a lossy encoding smears, must have the same
    // colour: halves of two codes are no code.
    let whole = (0..BARS).all(|bar| {
        let (from, to) = span(rect.width, bar);
        let (inset, white) = ((to - from) / 4, code >> (BARS - 1 - bar) & 1 == 1);
        let edge = rect.height as i32 / 8;
        (rect.y + edge..rect.bottom() - edge)
            .all(|y| (from + inset..to - inset).all(|x| (at(x, y) > threshold) == white))
    });
    whole.then_some(number)
}

/// First and last pixel, exclusive, of a bar.
fn span(width: u32, bar: u32) -> (u32, u32) {
    (bar * width / BARS, (bar + 1) * width / BARS)
}

/// Luminance, 0 to 255; the weights are 256ths.
fn luma(pixel: u32) -> i32 {
    let [red, green, blue] = channels(pixel).map(i32::from);
    (77 * red + 150 * green + 29 * blue) >> 8
}

/// The number followed by its CRC-8 (polynomial 0x2f, of AUTOSAR: detects every error of up to
/// three bars).
fn with_check(number: u32) -> u64 {
    let byte = |crc: u8, byte: u8| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x2f })
    };
    // The initial value and the final XOR keep bars of one colour from being a code.
    let crc = number.to_be_bytes().into_iter().fold(0xff, byte) ^ 0xff;
    u64::from(number) << 8 | u64::from(crc)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NUMBERS: [u32; 8] = [0, 1, u32::MAX, 833, 0x5555_5555, 0xaaaa_aaaa, 0xdead_beef, 1 << 31];

    fn code(number: u32, width: u32) -> Picture {
        let mut picture = Picture::new(width, HEIGHT, 0x80_80_80);
        draw(number, &mut picture.pixels, width as usize, Rect::new(0, 0, width, HEIGHT));
        picture
    }

    /// The effect of JPEG on luminance: blocks of 8x8 in frequencies, rounded to the steps of
    /// `quality`.
    fn jpeg(picture: &Picture, quality: u32) -> Picture {
        // Table K.1 of ITU-T T.81, scaled as libjpeg does.
        const STEPS: [u32; 64] = [
            16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57,
            69, 56, 14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55,
            64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100,
            103, 99,
        ];
        let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
        let wave = |x: usize, u: usize| {
            let norm = if u == 0 { (0.125_f64).sqrt() } else { 0.5 };
            norm * ((2 * x + 1) as f64 * u as f64 * std::f64::consts::PI / 16.0).cos()
        };
        let (width, height) = (picture.width as usize, picture.height as usize);
        let mut result = picture.clone();
        for (left, top) in
            (0..height).step_by(8).flat_map(|y| (0..width).step_by(8).map(move |x| (x, y)))
        {
            let value = |x: usize, y: usize| {
                let (x, y) = ((left + x).min(width - 1), (top + y).min(height - 1));
                f64::from(luma(picture.pixels[y * width + x])) - 128.0
            };
            let mut waves = [0.0; 64];
            for (i, amount) in waves.iter_mut().enumerate() {
                let (u, v) = (i % 8, i / 8);
                let sum: f64 =
                    (0..64).map(|p| value(p % 8, p / 8) * wave(p % 8, u) * wave(p / 8, v)).sum();
                let step = f64::from((STEPS[i] * scale + 50) / 100).clamp(1.0, 255.0);
                *amount = (sum / step).round() * step;
            }
            for (x, y) in (0..64)
                .map(|p| (p % 8, p / 8))
                .filter(|&(x, y)| left + x < width && top + y < height)
            {
                let sum: f64 = waves
                    .iter()
                    .enumerate()
                    .map(|(i, a)| a * wave(x, i % 8) * wave(y, i / 8))
                    .sum();
                let level = (sum + 128.0).round().clamp(0.0, 255.0) as u32;
                result.pixels[(top + y) * width + left + x] = level * 0x01_01_01;
            }
        }
        result
    }

    #[test]
    fn a_code_lies_at_the_edge_of_its_frame() {
        let frame = Rect::new(10, 20, 352, 240);
        assert_eq!(
            (top(frame), bottom(frame)),
            (Rect::new(10, 20, 352, 16), Rect::new(10, 244, 352, 16))
        );
    }

    #[test]
    fn jpeg_at_quality_30_leaves_codes_readable_wherever_its_blocks_lie() {
        for (number, shift) in NUMBERS.into_iter().zip(0..8) {
            let mut picture = Picture::new(WIDTH_MIN + 32, 40, 0x30_80_30);
            let rect = Rect::new(shift, 8 + shift, WIDTH_MIN, HEIGHT);
            draw(number, &mut picture.pixels, picture.width as usize, rect);
            for quality in [95, 60, 30] {
                assert_eq!(
                    read(&jpeg(&picture, quality), rect),
                    Some(number),
                    "quality {quality}, off by {shift}"
                );
            }
        }
    }

    #[test]
    fn narrow_levels_and_scaling_leave_codes_readable() {
        for number in NUMBERS {
            // Black and white of video are 16 and 235 where a player forgets to stretch them.
            let mut small = code(number, 352);
            for pixel in &mut small.pixels {
                *pixel = if *pixel == 0 { 0x10_10_10 } else { 0xeb_eb_eb };
            }
            assert_eq!(read(&small, small.rect()), Some(number));
            for (width, height) in [(1024, 46), (640, 32), (353, 17)] {
                let at = |i: u32| {
                    small.pixels
                        [(i / width * HEIGHT / height * 352 + i % width * 352 / width) as usize]
                };
                let scaled =
                    Picture { width, height, pixels: (0..width * height).map(at).collect() };
                assert_eq!(read(&scaled, top(scaled.rect())), Some(number), "{width}x{height}");
            }
        }
    }

    #[test]
    fn bars_that_are_filled_one_by_one_are_the_same_code() {
        for number in NUMBERS {
            let mut picture = Picture::new(400, HEIGHT, 0);
            for (from, to) in white_bars(number, 400) {
                for row in picture.pixels.chunks_mut(400) {
                    row[from as usize..to as usize].fill(0xff_ffff);
                }
            }
            assert_eq!(picture, code(number, 400));
        }
    }

    #[test]
    fn half_of_one_code_and_half_of_another_is_none() {
        let (a, b) = (code(833, 400), code(834, 400));
        for rows in 3..=13 {
            let cut = rows * 400;
            let mixed = [&a.pixels[..cut], &b.pixels[cut..]].concat();
            assert_eq!(
                read(&Picture { pixels: mixed, ..a.clone() }, a.rect()),
                None,
                "torn after {rows} rows"
            );
        }
    }

    #[test]
    fn plain_areas_and_areas_too_small_are_no_codes() {
        for pixel in [0, 0xff_ffff, 0x80_80_80] {
            assert_eq!(read(&Picture::new(400, 16, pixel), Rect::new(0, 0, 400, 16)), None);
        }
        let picture = code(5, 400);
        assert_eq!(read(&picture, Rect::new(1, 0, 400, 16)), None, "it sticks out");
        assert_eq!(read(&picture, Rect::new(0, 0, WIDTH_MIN - 1, 16)), None);
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_read(number: u32, width in WIDTH_MIN..2000) {
            let picture = code(number, width);
            prop_assert_eq!(read(&picture, picture.rect()), Some(number));
        }

        #[test]
        fn noise_of_a_camera_changes_nothing(
            number: u32,
            noise in prop::collection::vec(-40_i32..=40, 352 * 16),
        ) {
            let mut picture = code(number, 352);
            for (pixel, noise) in picture.pixels.iter_mut().zip(noise) {
                let level = (luma(*pixel) + noise).clamp(0, 255) as u32;
                *pixel = level * 0x01_01_01;
            }
            prop_assert_eq!(read(&picture, picture.rect()), Some(number));
        }

        #[test]
        fn random_pixels_are_no_code(pixels in prop::collection::vec(0_u32..1 << 24, 352 * 16)) {
            let picture = Picture { width: 352, height: 16, pixels };
            prop_assert_eq!(read(&picture, picture.rect()), None);
        }

        #[test]
        fn up_to_three_wrong_bars_are_found(
            number: u32,
            bars in prop::collection::btree_set(0..BARS, 1..=3),
        ) {
            let wrong = bars.iter().fold(with_check(number), |code, bar| code ^ 1 << bar);
            prop_assert_ne!(with_check((wrong >> 8) as u32), wrong);
        }

        #[test]
        fn bars_of_one_colour_are_never_a_code(number: u32) {
            let code = with_check(number);
            prop_assert!(code != 0 && code != (1 << BARS) - 1);
        }
    }
}
