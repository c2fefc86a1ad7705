//! Conversions between pixels and samples, halved chroma and downscaling, compared with plain
//! implementations.

use proptest::prelude::*;
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes, SampleLayout, Source, from_pixels, to_420, update_from_pixels};

fn to_samples(red: f64, green: f64, blue: f64) -> [f64; 3] {
    let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
    let (blue, red) = ((blue - luma) / 1.772, (red - luma) / 1.402);
    [16.0 + luma * 219.0 / 255.0, 128.0 + blue * 224.0 / 255.0, 128.0 + red * 224.0 / 255.0]
}

/// Of frames that are made of pixels.
fn layouts() -> impl Strategy<Value = SampleLayout> {
    prop_oneof![Just(SampleLayout::Yuv420), Just(SampleLayout::Yuv444)]
}

proptest! {
    /// The samples differ by at most one level from BT.601 in floating point, with chroma as the
    /// mean of the covered pixels.
    #[test]
    fn samples_equal_bt_601_within_one_level(
        (width, pixels) in (1..20usize).prop_flat_map(|width| {
            let pixels = (1..20usize)
                .prop_flat_map(move |height| prop::collection::vec(any::<u32>(), width * height));
            (Just(width), pixels)
        }),
        gap in 0..5usize,
        layout in layouts(),
    ) {
        let height = pixels.len() / width;
        let size = Size { width: width as u32, height: height as u32 };
        let stride = width + gap;
        let padded = |row: &[u32]| [row, &vec![0xdead_beef; gap]].concat();
        let apart: Vec<u32> = pixels.chunks(width).flat_map(padded).collect();
        let mut planes = Planes::new();
        from_pixels(&apart, stride, size, layout, &mut planes);
        let parts = |x: usize, y: usize| {
            let pixel = pixels[y.min(height - 1) * width + x.min(width - 1)];
            [16, 8, 0].map(|shift| f64::from(pixel >> shift & 0xff))
        };
        let near = |sample: u8, expected: f64| (f64::from(sample) - expected).abs() <= 1.0;
        let frame = planes.as_ref();
        for (y, row) in frame.rows(0).enumerate() {
            for (x, &sample) in row.iter().enumerate() {
                let [red, green, blue] = parts(x, y);
                prop_assert!(near(sample, to_samples(red, green, blue)[0]));
            }
        }
        for plane in [1, 2] {
            for (y, row) in frame.rows(plane).enumerate() {
                for (x, &sample) in row.iter().enumerate() {
                    let covered = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| match layout {
                        SampleLayout::Yuv444 => parts(x, y),
                        _ => parts(2 * x + dx, 2 * y + dy),
                    });
                    let mean = |part: usize|
                        covered.iter().map(|parts| parts[part]).sum::<f64>() / 4.0;
                    let [red, green, blue] = [0, 1, 2].map(mean);
                    prop_assert!(near(sample, to_samples(red, green, blue)[plane]));
                }
            }
        }
    }

    #[test]
    fn chroma_of_full_resolution_is_averaged(
        width in 1..9u32,
        height in 1..9u32,
        seed in any::<u8>(),
    ) {
        let size = Size { width, height };
        let mut full = Planes::new();
        full.reset(size, SampleLayout::Yuv444);
        for (i, sample) in full.data_mut().iter_mut().enumerate() {
            *sample = (i as u8).wrapping_mul(37).wrapping_add(seed);
        }
        let mut half = Planes::new();
        to_420(&full.as_ref(), &mut half);
        prop_assert_eq!((half.size(), half.layout()), (size, SampleLayout::Yuv420));
        prop_assert!(half.as_ref().rows(0).eq(full.as_ref().rows(0)));
        for plane in [1, 2] {
            for (y, row) in half.as_ref().rows(plane).enumerate() {
                for (x, &sample) in row.iter().enumerate() {
                    let at = |dx: usize, dy: usize| {
                        let y = (2 * y + dy).min(height as usize - 1);
                        let x = (2 * x + dx).min(width as usize - 1);
                        u32::from(full.as_ref().row(plane, y)[x])
                    };
                    let sum = at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1);
                    prop_assert_eq!(u32::from(sample), (sum + 2) / 4);
                }
            }
        }
    }

    #[test]
    fn two_rows_of_chroma_are_averaged(width in 1..9u32, height in 1..9u32, seed in any::<u8>()) {
        let size = Size { width, height };
        let mut full = Planes::new();
        full.reset(size, SampleLayout::Yuv422);
        for (i, sample) in full.data_mut().iter_mut().enumerate() {
            *sample = (i as u8).wrapping_mul(37).wrapping_add(seed);
        }
        let mut half = Planes::new();
        to_420(&full.as_ref(), &mut half);
        prop_assert_eq!((half.size(), half.layout()), (size, SampleLayout::Yuv420));
        prop_assert!(half.as_ref().rows(0).eq(full.as_ref().rows(0)));
        for plane in [1, 2] {
            for (y, row) in half.as_ref().rows(plane).enumerate() {
                let below = (2 * y + 1).min(height as usize - 1);
                for (x, &sample) in row.iter().enumerate() {
                    let [a, b] = [2 * y, below].map(|y| u32::from(full.as_ref().row(plane, y)[x]));
                    prop_assert_eq!(u32::from(sample), (a + b).div_ceil(2));
                }
            }
        }
        let mut again = Planes::new();
        to_420(&half.as_ref(), &mut again);
        prop_assert_eq!(again, half);
    }
}

/// One colour round-trips within three levels, the error of limited range and integer arithmetic.
#[test]
fn colours_round_trip_within_three_levels() {
    let size = Size { width: 3, height: 3 };
    let mut planes = Planes::new();
    for colour in (0..0x0100_0000u32).step_by(9973) {
        let colour = 0xff00_0000 | colour;
        from_pixels(&[colour; 9], 3, size, SampleLayout::Yuv420, &mut planes);
        let mut shown = [0; 9];
        let source = Source { size, crop: size.rect() };
        Painter::new().paint(
            &planes.as_ref(),
            &source,
            size.rect(),
            &Region::from(size.rect()),
            &mut shown,
            3,
        );
        for pixel in shown {
            for shift in [0, 8, 16, 24] {
                let [was, is] = [colour, pixel].map(|pixel| (pixel >> shift & 0xff) as i32);
                assert!((was - is).abs() <= 3, "{colour:08x} became {pixel:08x}");
            }
        }
    }
}

#[cfg(feature = "shrink")]
mod shrink {
    use super::*;
    use thinc_region::Rect;
    use thinc_video::Shrinker;

    fn frame(
        size: Size,
        layout: SampleLayout,
        sample: impl Fn(usize, usize, usize) -> u8,
    ) -> Planes {
        let mut planes = Planes::new();
        planes.reset(size, layout);
        let widths = [0, 1, 2].map(|plane| planes.as_ref().plane_size(plane).width as usize);
        for (plane, data) in planes.planes_mut().into_iter().enumerate() {
            for (i, out) in data.iter_mut().enumerate() {
                *out = sample(plane, i % widths[plane], i / widths[plane]);
            }
        }
        planes
    }

    /// Alternating black and white lines become grey: no line is skipped.
    #[test]
    fn stripes_become_grey() {
        let size = Size { width: 640, height: 480 };
        let stripes =
            frame(size, SampleLayout::Yuv420, |_, _, y| if y % 2 == 0 { 16 } else { 235 });
        let mut out = Planes::new();
        Shrinker::new().shrink(
            &stripes.as_ref(),
            &size.rect(),
            Size { width: 200, height: 100 },
            &mut out,
        );
        assert_eq!(out.size(), Size { width: 200, height: 100 });
        for plane in 0..3 {
            let grey =
                out.as_ref().rows(plane).flatten().all(|&sample| (110..=141).contains(&sample));
            assert!(grey, "plane {plane} must be grey");
        }
    }

    /// A gradient stays the same gradient: chroma is not displaced against luma, with odd sizes and
    /// with any crop.
    #[test]
    fn luma_and_chroma_stay_aligned() {
        for layout in [SampleLayout::Yuv420, SampleLayout::Yuv422] {
            for (size, crop, to) in [
                (
                    Size { width: 201, height: 101 },
                    Rect::at(0, 0, 201, 101),
                    Size { width: 67, height: 33 },
                ),
                (
                    Size { width: 200, height: 100 },
                    Rect::at(20, 10, 160, 80),
                    Size { width: 81, height: 41 },
                ),
            ] {
                // A chroma sample covers two luma samples, whose centre is half a sample to the
                // right.
                let density = |plane: usize| if plane == 0 { 1.0 } else { 2.0 };
                let at = |plane: usize, x: usize| density(plane) * (x as f64 + 0.5);
                let slope = frame(size, layout, |plane, x, _| at(plane, x).min(250.0) as u8);
                let mut out = Planes::new();
                Shrinker::new().shrink(&slope.as_ref(), &crop, to, &mut out);
                let scale = f64::from(crop.width()) / f64::from(to.width);
                for plane in 0..3 {
                    let row =
                        out.as_ref().row(plane, out.as_ref().plane_size(plane).height as usize / 2);
                    for (x, &sample) in row.iter().enumerate().skip(2).take(row.len() - 5) {
                        let expected = f64::from(crop.x1) + scale * at(plane, x);
                        let is = f64::from(sample);
                        assert!(
                            (is - expected).abs() <= 3.5,
                            "{layout:?} plane {plane}, {x}: {is}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    /// A part that is converted has the samples of the whole frame, and nothing outside its even
    /// edges changes.
    #[test]
    fn a_part_has_the_samples_of_the_frame(
        (width, height) in (1..24u32, 1..24u32),
        (x, y, part_width, part_height) in (0..24i32, 0..24i32, 1..24i32, 1..24i32),
        seed in any::<u32>(),
        layout in layouts(),
    ) {
        let size = Size { width, height };
        let pixel = |i: u32, seed: u32| (i ^ seed).wrapping_mul(0x9e37_79b9) >> 3;
        let [before, after] = [seed, seed ^ 0x00ff_1234]
            .map(|seed| (0..width * height).map(|i| pixel(i, seed)).collect::<Vec<u32>>());
        let part = Rect::at(x, y, part_width, part_height).intersect(&size.rect());
        let [mut old, mut new, mut out] = [Planes::new(), Planes::new(), Planes::new()];
        from_pixels(&before, width as usize, size, layout, &mut old);
        from_pixels(&after, width as usize, size, layout, &mut new);
        out.copy_from(&old.as_ref());
        update_from_pixels(&after, width as usize, &part, &mut out);
        let even = |at: i32| at / 2 * 2;
        let moved = Rect::new(even(part.x1), even(part.y1), even(part.x2 + 1), even(part.y2 + 1));
        for plane in 0..3 {
            let density = if plane == 0 || layout == SampleLayout::Yuv444 { 1 } else { 2 };
            for (y, row) in out.as_ref().rows(plane).enumerate() {
                for (x, &sample) in row.iter().enumerate() {
                    let inside = !part.is_empty()
                        && moved.contains_point(x as i32 * density, y as i32 * density);
                    let frame = if inside { &new } else { &old };
                    prop_assert_eq!(sample, frame.as_ref().row(plane, y)[x]);
                }
            }
        }
    }
}
