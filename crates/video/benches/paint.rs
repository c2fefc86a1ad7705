//! How long does painting a frame take on one core? Targets: 1280x720 unscaled in 1.5 ms, 352x240
//! scaled to 1024x768 in 3 ms.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes, SampleLayout, Source, from_pixels, to_420};

fn frame(size: Size, layout: SampleLayout) -> Planes {
    let mut planes = Planes::new();
    planes.reset(size, layout);
    for (i, sample) in planes.data_mut().iter_mut().enumerate() {
        *sample = (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    }
    planes
}

fn paint(c: &mut Criterion) {
    let cases = [
        ("720p unscaled", (1280, 720), SampleLayout::Yuv420, (1280, 720), 1),
        ("720p unscaled, 4:2:2", (1280, 720), SampleLayout::Yuv422, (1280, 720), 1),
        ("720p unscaled, under a menu", (1280, 720), SampleLayout::Yuv420, (1280, 720), 2),
        ("1080p as it is", (1920, 1080), SampleLayout::Yuv420, (1920, 1080), 1),
        ("352x240 on 704x480", (352, 240), SampleLayout::Yuv420, (704, 480), 1),
        ("352x240 on 1024x768", (352, 240), SampleLayout::Yuv420, (1024, 768), 1),
        ("720p on 1024x576", (1280, 720), SampleLayout::Yuv420, (1024, 576), 1),
        ("720p on 1920x1080", (1280, 720), SampleLayout::Yuv420, (1920, 1080), 1),
    ];
    for (name, source, layout, place, parts) in cases {
        let size = Size { width: source.0, height: source.1 };
        let planes = frame(size, layout);
        let place = Rect::at(0, 0, place.0, place.1);
        let mut clip = Region::from(place);
        if parts > 1 {
            clip.subtract_rect(&Rect::at(500, 0, 200, 400));
        }
        let mut screen = vec![0; place.area() as usize];
        let mut painter = Painter::new();
        let source = Source { size, crop: size.rect() };
        c.bench_function(name, |b| {
            b.iter(|| {
                painter.paint(
                    black_box(&planes.as_ref()),
                    &source,
                    place,
                    &clip,
                    &mut screen,
                    place.width() as usize,
                );
            });
        });
    }
}

fn convert(c: &mut Criterion) {
    let size = Size { width: 1280, height: 720 };
    let pixels: Vec<u32> =
        (0..size.area()).map(|i| (i as u32).wrapping_mul(2_654_435_761)).collect();
    let mut out = Planes::new();
    c.bench_function("720p from pixels", |b| {
        b.iter(|| from_pixels(black_box(&pixels), 1280, size, SampleLayout::Yuv420, &mut out))
    });
    let full = frame(size, SampleLayout::Yuv422);
    c.bench_function("720p of 4:2:2 to 4:2:0", |b| {
        b.iter(|| to_420(black_box(&full.as_ref()), &mut out))
    });
    #[cfg(feature = "shrink")]
    {
        let planes = frame(size, SampleLayout::Yuv420);
        let mut shrinker = thinc_video::Shrinker::new();
        let small = Size { width: 320, height: 180 };
        c.bench_function("720p to 320x180", |b| {
            b.iter(|| shrinker.shrink(black_box(&planes.as_ref()), &size.rect(), small, &mut out));
        });
    }
}

criterion_group!(benches, paint, convert);
criterion_main!(benches);
