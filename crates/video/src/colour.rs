//! Beside paint.rs: converts one line of samples to pixels, BT.601 of limited range. The
//! specification's sums are written so that each fits into 16 bits, eight lanes of a 128-bit
//! vector. Knows samples and pixels; never where they are.

/// Pixels per block, which the compiler vectorises.
const BLOCK: usize = 16;

/// Converts as many samples of each plane as `out` has pixels.
pub(crate) fn to_pixels(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [u32]) {
    let (lumas, luma_rest) = luma.as_chunks::<BLOCK>();
    let (blues, blue_rest) = blue.as_chunks::<BLOCK>();
    let (reds, red_rest) = red.as_chunks::<BLOCK>();
    let (outs, out_rest) = out.as_chunks_mut::<BLOCK>();
    for (((luma, blue), red), out) in lumas.iter().zip(blues).zip(reds).zip(outs) {
        block(luma, blue, red, out);
    }
    if !out_rest.is_empty() {
        let fill = |rest: &[u8]| {
            let mut whole = [0; BLOCK];
            whole[..rest.len()].copy_from_slice(rest);
            whole
        };
        let mut whole = [0; BLOCK];
        block(&fill(luma_rest), &fill(blue_rest), &fill(red_rest), &mut whole);
        out_rest.copy_from_slice(&whole[..out_rest.len()]);
    }
}

/// `(298 c + k) >> 8` equals `c + ((42 c + k) >> 8)`, and multiples of 256 are split off each `k`
/// in the same way: with c from -16 to 239 and d, e from -128 to 127 every sum fits into 16 bits
/// (red's are the widest, -20128 and 29597).
fn block(luma: &[u8; BLOCK], blue: &[u8; BLOCK], red: &[u8; BLOCK], out: &mut [u32; BLOCK]) {
    let (mut low, mut high) = ([0u16; BLOCK], [0u16; BLOCK]);
    for i in 0..BLOCK {
        let c = i16::from(luma[i]) - 16;
        let d = i16::from(blue[i]) - 128;
        let e = i16::from(red[i]) - 128;
        let base = 42 * c + 128;
        let r = c + e + ((base + 153 * e) >> 8);
        let g = c - e + ((base - 100 * d + 48 * e) >> 8);
        let b = c + 2 * d + ((base + 4 * d) >> 8);
        low[i] = (b.clamp(0, 255) | g.clamp(0, 255) << 8) as u16;
        high[i] = r.clamp(0, 255) as u16 | 0xff00;
    }
    for i in 0..BLOCK {
        out[i] = u32::from(low[i]) | u32::from(high[i]) << 16;
    }
}

#[cfg(test)]
mod tests {
    use super::to_pixels;

    /// The conversion as the specification writes it.
    fn pixel(y: u8, u: u8, v: u8) -> u32 {
        let (c, d, e) = (298 * (i32::from(y) - 16) + 128, i32::from(u) - 128, i32::from(v) - 128);
        let [red, green, blue] = [c + 409 * e, c - 100 * d - 208 * e, c + 516 * d]
            .map(|value| (value >> 8).clamp(0, 255) as u32);
        0xff00_0000 | red << 16 | green << 8 | blue
    }

    #[test]
    fn every_colour_equals_the_specification() {
        let all: Vec<u8> = (0..=255).collect();
        let mut line = [0; 256];
        for blue in 0..=255 {
            for red in 0..=255 {
                to_pixels(&all, &[blue; 256], &[red; 256], &mut line);
                let expected: Vec<u32> = all.iter().map(|&luma| pixel(luma, blue, red)).collect();
                assert_eq!(line[..], expected[..], "with {blue} and {red}");
            }
        }
    }

    #[test]
    fn lines_of_any_length_are_converted_completely() {
        let samples: Vec<u8> = (0..40).map(|i| (i * 7) as u8).collect();
        for len in 0..samples.len() {
            let mut line = vec![0; len];
            to_pixels(&samples[..len], &samples[..len], &samples[..len], &mut line);
            let expected: Vec<u32> =
                samples[..len].iter().map(|&sample| pixel(sample, sample, sample)).collect();
            assert_eq!(line, expected);
        }
    }
}
