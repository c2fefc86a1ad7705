//! What does it cost to find out what a viewer has to be told, against comparing or copying all pixels once?
//!
//! `cargo bench -p thinc-pixels --bench plan`. A screen of 1024 x 768 is in the snapshot, or 12 x 14 pixels where the case
//! says "its rectangle"; the viewer shows the page. Setting up the shadow is not measured.

mod screens;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use thinc_pixels::{Planned, Shadow, Snapshot, plan};
use thinc_region::Rect;

/// What is counted: `./dev bench instructions` tells valgrind to look inside this function alone.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn shadow_of(snapshot: &Snapshot) -> Shadow {
    let mut shadow = Shadow::new(screens::SIZE);
    plan(snapshot, &mut shadow, &mut Vec::new());
    shadow
}

fn benches(criterion: &mut Criterion) {
    let page = screens::page(0);
    let before = page.snapshot();
    let glyph = screens::page_with_glyph();
    let glyph_rect = Rect::at(699, 299, 12, 16);
    let mut group = criterion.benchmark_group("plan");
    group.throughput(Throughput::Bytes(screens::SIZE.area() * 4));
    let copy = page.clone();
    group.bench_function("compare (reference)", |b| b.iter(|| measured(|| black_box(&page.0) == black_box(&copy.0))));
    let mut target = page.0.clone();
    group
        .bench_function("copy", |b| b.iter(|| measured(|| black_box(&mut target).copy_from_slice(black_box(&page.0)))));
    for (name, after) in [
        ("unchanged screen", page.snapshot()),
        ("one glyph changed", glyph.snapshot()),
        ("one glyph changed, its rectangle", glyph.snapshot_of(&glyph_rect)),
        ("page scrolled", screens::page(120).snapshot()),
        ("terminal over page", screens::terminal(0).snapshot()),
        ("photograph over page", screens::photograph().snapshot()),
    ] {
        // A plan makes the shadow show the snapshot: before each one it has to show the page again.
        let mut planned: Vec<Planned> = Vec::new();
        group.throughput(Throughput::Bytes(after.region().area() * 4));
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || shadow_of(&before),
                |shadow| {
                    planned.clear();
                    measured(|| plan(black_box(&after), shadow, &mut planned));
                },
                BatchSize::PerIteration,
            );
        });
    }
    let after = page.snapshot();
    group.bench_function("page, nothing known", |b| {
        b.iter_batched_ref(
            || Shadow::new(screens::SIZE),
            |shadow| measured(|| plan(black_box(&after), shadow, &mut Vec::new())),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(plans, benches);
criterion_main!(plans);
