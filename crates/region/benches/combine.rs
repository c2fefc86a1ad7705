//! How long do operations on typical regions take, compared with copying their rectangles?
//!
//! `cargo bench -p thinc-region --bench combine`. "text" has the glyphs of a page, line by line,
//! about 900 rectangles; "windows" is the visible background behind twelve overlapping windows. A
//! glyph is added to, removed from and looked up in both.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use thinc_region::{Rect, Region};

const SCREEN: Rect = Rect::new(0, 0, 1024, 768);

/// Words of one to nine glyphs on forty lines.
fn text() -> Region {
    let mut region = Region::new();
    for line in 0..40 {
        let (mut x, mut word) = (20, line);
        while x < 900 {
            let width = 7 * (1 + word * 5 % 9);
            region.add_rect(Rect::at(x, 16 + line * 18, width, 12 + word % 3));
            x += width + 7;
            word += 1;
        }
    }
    region
}

/// The area not covered by windows, each 24 pixels to the right and 17 below the previous one.
fn windows() -> Region {
    let mut region = Region::from(SCREEN);
    for i in 0..12 {
        region.subtract_rect(&Rect::at(
            40 + i * 61 % 500,
            30 + i * 83 % 400,
            180 + i * 9,
            140 + i * 7,
        ));
    }
    region
}

/// The measured code: `./dev bench instructions` makes valgrind count only inside this function.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn benches(criterion: &mut Criterion) {
    let glyph = Rect::at(431, 377, 8, 14);
    let all = Region::from(Rect::at(300, 200, 400, 300));
    for (name, region) in [("text", text()), ("windows", windows())] {
        let mut moved = region.clone();
        moved.translate(3, 5);
        println!("{name}: {} rectangles", region.rect_count());
        let mut group = criterion.benchmark_group(format!("region of {name}"));
        group.bench_function("clone (reference)", |b| {
            b.iter(|| measured(|| black_box(&region).clone()))
        });
        let mut change = |what: &str, change: &dyn Fn(&mut Region)| {
            group.bench_function(what, |b| {
                b.iter_batched_ref(
                    || region.clone(),
                    |r| measured(|| change(r)),
                    BatchSize::SmallInput,
                )
            });
        };
        change("add glyph", &|r| r.add_rect(black_box(glyph)));
        change("subtract glyph", &|r| r.subtract_rect(black_box(&glyph)));
        change("add a window", &|r| r.add(black_box(&all)));
        change("add itself moved", &|r| r.add(black_box(&moved)));
        change("subtract itself moved", &|r| r.subtract(black_box(&moved)));
        change("intersect with itself moved", &|r| r.intersect(black_box(&moved)));
        group.bench_function("contains glyph", |b| {
            b.iter(|| measured(|| region.contains_rect(black_box(&glyph))))
        });
        group.bench_function("overlaps itself moved", |b| {
            b.iter(|| measured(|| region.overlaps(black_box(&moved))))
        });
        group.finish();
    }
    let mut group = criterion.benchmark_group("region built");
    let rects = text().rects().to_vec();
    group.bench_function("copy (reference)", |b| b.iter(|| measured(|| black_box(&rects).clone())));
    group.bench_function("text, in the order of drawing", |b| b.iter(|| measured(text)));
    group.bench_function("windows", |b| b.iter(|| measured(windows)));
    group.finish();
}

criterion_group!(combine, benches);
criterion_main!(combine);
