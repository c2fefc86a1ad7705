//! Pictures with the statistics of a photograph, made from a seed: smooth gradients, soft edges,
//! texture and grain. Each seed gives another picture, the same on every machine; no file is read.
//! Knows pixels (0x00RRGGBB); never X.

/// Noise at the corners of a lattice, from a seed: 0 to 1.
fn lattice(seed: u64, x: u32, y: u32) -> f32 {
    let mixed = mix(seed ^ (u64::from(x) << 32 | u64::from(y)));
    // An f32 holds 24 bits exactly.
    (mixed >> 40) as f32 / (1 << 24) as f32
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each bit of the input flips half of
/// the output's.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Smooth noise with features of `size` pixels: bilinear between corners, with ends made level.
fn smooth(seed: u64, x: f32, y: f32, size: f32) -> f32 {
    let (x, y) = (x / size, y / size);
    let (cell_x, cell_y) = (x.floor(), y.floor());
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (along, down) = (ease(x - cell_x), ease(y - cell_y));
    let (column, row) = (cell_x as u32, cell_y as u32);
    let top = lattice(seed, column, row) * (1.0 - along) + lattice(seed, column + 1, row) * along;
    let bottom =
        lattice(seed, column, row + 1) * (1.0 - along) + lattice(seed, column + 1, row + 1) * along;
    top * (1.0 - down) + bottom * down
}

/// Amplitude of the grain of a camera, levels of 255.
const GRAIN: f32 = 3.0;

/// A photo-like picture of this size. Its luminance is a sum of octaves, each half as strong as the
/// one twice its size (the 1/f spectrum of natural images), with a horizon that makes an edge; its
/// colours change slowly.
pub fn photo(seed: u64, width: u32, height: u32) -> Vec<u32> {
    let seed = mix(seed);
    let largest = width.max(height) as f32 / 2.0;
    let mut pixels = Vec::with_capacity((width * height) as usize);
    for y in 0..height {
        for x in 0..width {
            let (along, down) = (x as f32, y as f32);
            let mut luminance = 0.0;
            let (mut size, mut weight) = (largest, 0.5);
            for octave in 0..6 {
                luminance += weight * smooth(mix(seed + octave), along, down, size);
                (size, weight) = ((size / 2.0).max(1.5), weight / 2.0);
            }
            // The upper part of most photographs is a brighter, smoother sky.
            let horizon =
                height as f32 * (0.3 + 0.2 * smooth(mix(seed + 7), along, 0.0, largest / 2.0));
            let light =
                if down < horizon { 0.55 + 0.35 * luminance } else { 0.1 + 0.8 * luminance };
            let warm = smooth(mix(seed + 8), along, down, largest) - 0.5;
            let green = smooth(mix(seed + 9), along, down, largest / 1.5) - 0.5;
            let grain = (lattice(mix(seed + 10), x, y) - 0.5) * 2.0 * GRAIN;
            let channel =
                |tint: f32| (255.0 * (light + 0.35 * tint) + grain).clamp(0.0, 255.0) as u32;
            pixels.push(channel(warm) << 16 | channel(green * 0.7) << 8 | channel(-warm));
        }
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luma(pixel: u32) -> f64 {
        let [_, red, green, blue] = pixel.to_be_bytes();
        0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)
    }

    #[test]
    fn a_seed_gives_one_picture_and_another_seed_another() {
        let first = photo(1, 64, 48);
        assert_eq!(first, photo(1, 64, 48));
        let other = photo(2, 64, 48);
        let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(
            same * 50 < first.len(),
            "{same} of {} pixels are the same for two seeds",
            first.len()
        );
    }

    #[test]
    fn neighbours_are_alike_but_not_equal_as_in_a_photograph() {
        let picture = photo(3, 320, 240);
        let mean = picture.iter().map(|&pixel| luma(pixel)).sum::<f64>() / picture.len() as f64;
        let variance = picture.iter().map(|&pixel| (luma(pixel) - mean).powi(2)).sum::<f64>()
            / picture.len() as f64;
        let pairs = picture.chunks(320).flat_map(|row| row.windows(2));
        let step = pairs.clone().map(|pair| (luma(pair[0]) - luma(pair[1])).abs()).sum::<f64>()
            / pairs.count() as f64;
        let equal = picture.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64
            / picture.len() as f64;
        assert!(variance.sqrt() > 20.0, "contrast {}", variance.sqrt());
        assert!(
            step > 1.0 && step < variance.sqrt() / 3.0,
            "step {step}, contrast {}",
            variance.sqrt()
        );
        assert!(equal < 0.1, "{equal} of the neighbours are equal");
        let clipped = picture.iter().filter(|&&pixel| pixel == 0 || pixel == 0xff_ffff).count();
        assert!(clipped * 100 < picture.len(), "{clipped} pixels are clipped");
    }
}
