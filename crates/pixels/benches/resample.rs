//! How long does scaling take, compared with copying the screen?
//!
//! `cargo bench -p thinc-pixels --bench resample`. A screen of 1024 × 768 to usual sizes of
//! viewers, completely and for the rectangle of one glyph; "copied" only reads the screen.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use thinc_pixels::Resampler;
use thinc_region::{Rect, Scale, Size};

const SCREEN: Size = Size { width: 1024, height: 768 };

/// Reads the screen as a framebuffer is read.
fn read(screen: &[u32]) -> impl FnMut(Rect, &mut [u32], usize) {
    |rect, to, stride| {
        for (y, line) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
            let from = y as usize * SCREEN.width as usize + rect.x1 as usize;
            line[..rect.width() as usize].copy_from_slice(&screen[from..][..rect.width() as usize]);
        }
    }
}

fn resample(c: &mut Criterion) {
    let screen: Vec<u32> =
        (0..SCREEN.area() as u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 8).collect();
    let mut group = c.benchmark_group("1024x768");
    group.throughput(Throughput::Elements(SCREEN.area()));
    let mut copied = vec![0; SCREEN.area() as usize];
    group.bench_function("copied (reference)", |b| {
        b.iter(|| read(&screen)(SCREEN.rect(), black_box(&mut copied), SCREEN.width as usize));
    });
    for (width, height) in [(320, 240), (640, 480), (800, 600), (1366, 1024)] {
        let (x, y) = (Scale::new(0, SCREEN.width, width), Scale::new(0, SCREEN.height, height));
        let view = Size { width, height };
        let mut to = vec![0; view.area() as usize];
        let mut resampler = Resampler::new();
        group.bench_function(format!("to {width}x{height}"), |b| {
            b.iter(|| {
                resampler.resample(
                    (&x, &y),
                    view.rect(),
                    black_box(&mut to),
                    width as usize,
                    read(&screen),
                );
            });
        });
        if width == 320 {
            let glyph = Rect::at(100, 120, 5, 6);
            group.bench_function(format!("to {width}x{height}, a glyph"), |b| {
                b.iter_batched(
                    || vec![0; glyph.area() as usize],
                    |mut to| {
                        resampler.resample((&x, &y), glyph, black_box(&mut to), 5, read(&screen))
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, resample);
criterion_main!(benches);
