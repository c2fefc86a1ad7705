//! What is encoded in tests, and how far from it is what was decoded. For the tests of all codecs;
//! knows samples.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;
use thinc_video::Planes;

/// A ramp with a square that moves, 4:2:0.
pub(crate) fn draw(size: Size, number: usize) -> Planes {
    draw_as(SampleLayout::Yuv420, size, number)
}

/// The same in this layout; where chroma has full resolution, its columns take turns.
pub(crate) fn draw_as(layout: SampleLayout, size: Size, number: usize) -> Planes {
    let mut frame = Planes::new();
    frame.reset(size, layout);
    let widths = [0, 1, 2].map(|plane| frame.as_ref().plane_size(plane).width as usize);
    for (plane, samples) in frame.planes_mut().into_iter().enumerate() {
        let width = widths[plane];
        for (y, row) in samples.chunks_exact_mut(width).enumerate() {
            for (x, sample) in row.iter_mut().enumerate() {
                let inside = plane == 0 && (x + 3 * number) % 64 < 16 && y % 64 < 16;
                let turn =
                    if layout == SampleLayout::Yuv444 && plane > 0 { 40 * (x % 2) } else { 0 };
                *sample =
                    if inside { 220 } else { (60 + plane * 20 + turn + x * 80 / width) as u8 };
            }
        }
    }
    frame
}

/// Mean difference of the samples of two frames.
pub(crate) fn difference(one: &Planes, other: &Planes) -> f64 {
    let (one, other) = (one.as_ref(), other.as_ref());
    assert_eq!(one.size(), other.size());
    let (mut sum, mut count) = (0, 0);
    for plane in 0..3 {
        for (one, other) in one.rows(plane).zip(other.rows(plane)) {
            sum += one.iter().zip(other).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
            count += one.len();
        }
    }
    sum as f64 / count as f64
}
