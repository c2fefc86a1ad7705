//! Path 9/13: from session-server/video.rs, whose streams begin as pixels of the screen, to an encoder.
//! Pixels become samples, BT.601 of limited range, colour at half the width and height: the mean of four.
//! Knows colours; never screens.

use thinc_protocol::video::Layout;
use thinc_region::Size;

use crate::planes::Planes;

/// `out` becomes the picture of `size` whose pixels are 0x..RRGGBB, rows beginning `stride` apart.
pub fn to_yuv420(pixels: &[u32], stride: usize, size: Size, out: &mut Planes) {
    let (width, height) = (size.width as usize, size.height as usize);
    out.reset(size, Layout::Yuv420);
    if size.area() == 0 {
        return;
    }
    assert!(stride >= width && pixels.len() >= (height - 1) * stride + width, "pixels are as many as {size:?} has");
    let row = |y: usize| &pixels[y * stride..][..width];
    let [lumas, blues, reds] = out.planes_mut();
    for (y, out) in lumas.chunks_exact_mut(width).enumerate() {
        luma(row(y), out);
    }
    let half = width.div_ceil(2);
    for (y, (blue, red)) in blues.chunks_exact_mut(half).zip(reds.chunks_exact_mut(half)).enumerate() {
        colour(row(2 * y), row((2 * y + 1).min(height - 1)), blue, red);
    }
}

/// Red, green and blue.
fn parts(pixel: u32) -> [u16; 3] {
    [(pixel >> 16 & 0xff) as u16, (pixel >> 8 & 0xff) as u16, (pixel & 0xff) as u16]
}

fn luma(pixels: &[u32], out: &mut [u8]) {
    for (out, &pixel) in out.iter_mut().zip(pixels) {
        let [r, g, b] = parts(pixel);
        // At most 56228.
        *out = (((66 * r + 129 * g + 25 * b + 128) >> 8) + 16) as u8;
    }
}

fn colour(above: &[u32], below: &[u32], blue: &mut [u8], red: &mut [u8]) {
    let (above_pairs, above_rest) = above.as_chunks::<2>();
    let (below_pairs, below_rest) = below.as_chunks::<2>();
    for (((above, below), blue), red) in above_pairs.iter().zip(below_pairs).zip(&mut *blue).zip(&mut *red) {
        (*blue, *red) = mean(above[0], above[1], below[0], below[1]);
    }
    if let ([above], [below], [.., blue], [.., red]) = (above_rest, below_rest, blue, red) {
        (*blue, *red) = mean(*above, *above, *below, *below);
    }
}

fn mean(a: u32, b: u32, c: u32, d: u32) -> (u8, u8) {
    let [a, b, c, d] = [a, b, c, d].map(parts);
    // Four times the mean: rounded once, at the end.
    let part = |i: usize| i32::from(a[i] + b[i] + c[i] + d[i]);
    let (r, g, b) = (part(0), part(1), part(2));
    // Between -114240 and 114240.
    let (blue, red) = ((112 * b - 38 * r - 74 * g + 512) >> 10, (112 * r - 94 * g - 18 * b + 512) >> 10);
    ((blue + 128) as u8, (red + 128) as u8)
}
