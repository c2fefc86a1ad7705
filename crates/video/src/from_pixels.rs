//! Path 9/13: from session-server/video.rs, whose video areas are pixels of the screen, to an
//! encoder.
//! Converts pixels to samples, BT.601 of limited range, with chroma at half the width and height,
//! the mean of four pixels; or of each pixel.
//! Knows colours; never screens.

use thinc_protocol::video::SampleLayout;
use thinc_region::{Rect, Size};

use crate::planes::Planes;

/// Sets `out` to the frame of `size` with these pixels, 0x..RRGGBB, rows `stride` apart, in this
/// layout: 4:2:0 or 4:4:4.
pub fn from_pixels(
    pixels: &[u32],
    stride: usize,
    size: Size,
    layout: SampleLayout,
    out: &mut Planes,
) {
    out.reset(size, layout);
    update_from_pixels(pixels, stride, &size.rect(), out);
}

/// The same for a part of the frame, whose edges are moved to even ones; the samples of the rest
/// stay, and so does the layout. `pixels` are those of the whole frame.
///
/// # Panics
/// If the part exceeds the frame, or the frame is 4:2:2.
pub fn update_from_pixels(pixels: &[u32], stride: usize, part: &Rect, out: &mut Planes) {
    let size = out.size();
    let (width, height) = (size.width as usize, size.height as usize);
    if part.is_empty() {
        return;
    }
    assert!(size.rect().contains(part), "{part:?} is a part of a frame of {size:?}");
    let layout = out.layout();
    assert!(layout != SampleLayout::Yuv422, "no encoder has such frames of pixels");
    assert!(
        stride >= width && pixels.len() >= (height - 1) * stride + width,
        "pixels are as many as {size:?} has"
    );
    let even = |edge: i32| edge as usize / 2 * 2;
    let (x1, y1) = (even(part.x1), even(part.y1));
    let (x2, y2) = (even(part.x2 + 1).min(width), even(part.y2 + 1).min(height));
    let row = |y: usize| &pixels[y * stride..][x1..x2];
    let [lumas, blues, reds] = out.planes_mut();
    for (y, out) in (y1..y2).zip(lumas.chunks_exact_mut(width).skip(y1)) {
        luma(row(y), &mut out[x1..x2]);
    }
    if layout == SampleLayout::Yuv444 {
        let rows = blues.chunks_exact_mut(width).zip(reds.chunks_exact_mut(width)).skip(y1);
        for (y, (blue, red)) in (y1..y2).zip(rows) {
            full_colour(row(y), &mut blue[x1..x2], &mut red[x1..x2]);
        }
        return;
    }
    let half = width.div_ceil(2);
    let rows = blues.chunks_exact_mut(half).zip(reds.chunks_exact_mut(half)).skip(y1 / 2);
    for (y, (blue, red)) in (y1..y2).step_by(2).zip(rows) {
        let part = x1 / 2..x2.div_ceil(2);
        let below = (y + 1).min(height - 1);
        colour(row(y), row(below), &mut blue[part.clone()], &mut red[part]);
    }
}

fn luma(pixels: &[u32], out: &mut [u8]) {
    for (out, &pixel) in out.iter_mut().zip(pixels) {
        let (red, green, blue) = (pixel >> 16 & 0xff, pixel >> 8 & 0xff, pixel & 0xff);
        *out = (((66 * red + 129 * green + 25 * blue + 128) >> 8) + 16) as u8;
    }
}

/// Blue and red difference of each pixel.
fn full_colour(pixels: &[u32], blue: &mut [u8], red: &mut [u8]) {
    for ((&pixel, blue), red) in pixels.iter().zip(blue).zip(red) {
        let [r, g, b] = [16, 8, 0].map(|shift| (pixel >> shift & 0xff) as i32);
        *blue = (((112 * b - 38 * r - 74 * g + 128) >> 8) + 128) as u8;
        *red = (((112 * r - 94 * g - 18 * b + 128) >> 8) + 128) as u8;
    }
}

fn colour(above: &[u32], below: &[u32], blue: &mut [u8], red: &mut [u8]) {
    let (above_pairs, above_rest) = above.as_chunks::<2>();
    let (below_pairs, below_rest) = below.as_chunks::<2>();
    for (((above, below), blue), red) in
        above_pairs.iter().zip(below_pairs).zip(&mut *blue).zip(&mut *red)
    {
        (*blue, *red) = mean(above[0], above[1], below[0], below[1]);
    }
    if let ([above], [below], [.., blue], [.., red]) = (above_rest, below_rest, blue, red) {
        (*blue, *red) = mean(*above, *above, *below, *below);
    }
}

/// Blue and red difference of the mean of four pixels.
fn mean(a: u32, b: u32, c: u32, d: u32) -> (u8, u8) {
    // Four times the mean, so that it is rounded once, at the end; red and blue are summed in the
    // halves of one word.
    let red_blue = (a & 0xff_00ff) + (b & 0xff_00ff) + (c & 0xff_00ff) + (d & 0xff_00ff);
    let green = ((a >> 8 & 0xff) + (b >> 8 & 0xff) + (c >> 8 & 0xff) + (d >> 8 & 0xff)) as i32;
    let (red, blue) = ((red_blue >> 16) as i32, (red_blue & 0xffff) as i32);
    // Between -114240 and 114240.
    (
        (((112 * blue - 38 * red - 74 * green + 512) >> 10) + 128) as u8,
        (((112 * red - 94 * green - 18 * blue + 512) >> 10) + 128) as u8,
    )
}
