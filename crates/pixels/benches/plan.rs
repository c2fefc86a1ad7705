//! How long does a plan take, compared with comparing or copying all pixels once?
//!
//! `cargo bench -p thinc-pixels --bench plan`. The snapshot has a screen of 1024 x 768, or 12 x 14
//! pixels in the cases with "its rectangle"; the viewer shows the page. Setting up the shadow is
//! not measured. Bytes are those of the snapshot.
//!
//! The second group has screens of 1920 x 1080 that change completely; `valgrind --tool=callgrind
//! --toggle-collect='*Shifts*find'` counts the search for moves alone. No vector is known from
//! earlier moves. `cold` cycles through more screens and shadows than fit into the CPU's cache.

mod screens;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use thinc_pixels::{Planned, Shadow, Snapshot, plan};
use thinc_region::{Rect, Region, Size};

/// The measured code: `./dev bench instructions` makes valgrind count only inside this function.
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
    group.bench_function("compare (reference)", |b| {
        b.iter(|| measured(|| black_box(&page.0) == black_box(&copy.0)))
    });
    let mut target = page.0.clone();
    group.bench_function("copy", |b| {
        b.iter(|| measured(|| black_box(&mut target).copy_from_slice(black_box(&page.0))))
    });
    for (name, after) in [
        ("unchanged screen", page.snapshot()),
        ("one glyph changed", glyph.snapshot()),
        ("one glyph changed, its rectangle", glyph.snapshot_of(&glyph_rect)),
        ("page scrolled", screens::page(120).snapshot()),
        ("terminal over page", screens::terminal(0).snapshot()),
        ("photograph over page", screens::photograph().snapshot()),
    ] {
        // A plan updates the shadow, which is reset to the page before each one.
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

const FULL: Size = Size { width: 1920, height: 1080 };

/// A large screen, drawn pixel by pixel.
fn full(pixel: impl Fn(usize, usize) -> u32) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.fill(&Region::from(FULL.rect()), |_, to, stride| {
        for (y, row) in to.chunks_mut(stride).take(FULL.height as usize).enumerate() {
            row.iter_mut().enumerate().for_each(|(x, to)| *to = pixel(x, y));
        }
    });
    snapshot
}

/// An endless page of text, headings and images in three different columns.
struct Book(Vec<screens::Screen>);

impl Book {
    /// The text of the page in `screens`.
    const TEXT: Rect = Rect::new(204, 80, 1024, 768);

    fn new() -> Book {
        Book((0..7).map(|page| screens::page(page * Book::TEXT.height())).collect())
    }

    fn at(&self, x: usize, y: usize) -> u32 {
        let (width, height) = (Book::TEXT.width() as usize, Book::TEXT.height() as usize);
        let y = y + x / width * 1000;
        let page = &self.0[y / height % self.0.len()];
        let (x, y) = (Book::TEXT.x1 as usize + x % width, Book::TEXT.y1 as usize + y % height);
        page.0[y * screens::SIZE.width as usize + x]
    }
}

fn moves(criterion: &mut Criterion) {
    let book = Book::new();
    let photograph = screens::photograph();
    let photo = |x: usize, y: usize| photograph.0[y % 768 * 1024 + x % 1024];
    let noise = |seed: usize| {
        move |x: usize, y: usize| {
            ((x * 7919 + y) * 2_654_435_761 + seed) as u32 >> 7 ^ (x * y) as u32
        }
    };
    let page = full(|x, y| book.at(x, y));
    let panes =
        |left: usize, right: usize| full(|x, y| book.at(x, y + if x < 960 { left } else { right }));
    let framed = |top: usize| {
        full(|x, y| book.at(x, if x < 300 || !(60..1040).contains(&y) { y } else { y + top }))
    };
    let mut group = criterion.benchmark_group("moves");
    group.throughput(Throughput::Bytes(FULL.area() * 4));
    for (name, before, after, shifts) in [
        ("unchanged", &page, full(|x, y| book.at(x, y)), 0),
        ("scrolled", &page, full(|x, y| book.at(x, y + 120)), 1),
        ("scrolled sideways", &page, full(|x, y| book.at(x + 53, y)), 1),
        ("scrolled beside a sidebar, under a header", &framed(0), framed(120), 1),
        ("two panes by two vectors", &panes(200, 0), panes(320, 77), 2),
        ("another page", &page, full(|x, y| book.at(x, y + 2500) ^ 0x0f_0f0f), 0),
        ("another photograph", &full(photo), full(|x, y| photo(2048 - x, y)), 0),
        ("noise", &full(noise(1)), full(noise(2)), 0),
    ] {
        let mut shadow = Shadow::new(FULL);
        let mut planned: Vec<Planned> = Vec::new();
        plan(before, &mut shadow, &mut planned);
        planned.clear();
        plan(&after, &mut shadow, &mut planned);
        let found =
            planned.iter().filter(|planned| matches!(planned, Planned::Shift { .. })).count();
        assert_eq!(found, shifts, "{name}");
        group.bench_function(name, |b| {
            b.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    // The earlier state, with memory that is already allocated.
                    shadow.reset();
                    plan(before, &mut shadow, &mut planned);
                    planned.clear();
                    let start = Instant::now();
                    measured(|| plan(black_box(&after), &mut shadow, &mut planned));
                    spent += start.elapsed();
                }
                spent
            });
        });
    }
    let mut shadow = Shadow::new(FULL);
    plan(&page, &mut shadow, &mut Vec::new());
    let corner = Region::from(Rect::at(1000, 500, 64, 64));
    group.bench_function("unchanged, 64 x 64 pixels lossy", |b| {
        b.iter(|| {
            shadow.mark_lossy(&corner);
            measured(|| plan(black_box(&page), &mut shadow, &mut Vec::new()));
        });
    });
    let mut many: Vec<(Snapshot, Shadow)> = (0..12)
        .map(|_| {
            let mut shadow = Shadow::new(FULL);
            plan(&page, &mut shadow, &mut Vec::new());
            (full(|x, y| book.at(x, y)), shadow)
        })
        .collect();
    let mut next = 0;
    group.bench_function("unchanged, cold", |b| {
        b.iter(|| {
            next = (next + 1) % many.len();
            let (snapshot, shadow) = &mut many[next];
            measured(|| plan(black_box(snapshot), shadow, &mut Vec::new()));
        });
    });
    group.finish();
}

criterion_group!(plans, benches, moves);
criterion_main!(plans);
