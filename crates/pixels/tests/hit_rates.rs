//! What is the cache's hit rate for repeated content, compared with LRU (least recently used)?
//! `cargo test --release -p thinc-pixels --test hit_rates -- --nocapture` prints the tables of
//! doc/experiments/015-cache-replacement.md. Wong & Seltzer (1999) measured that a terminal's LRU
//! cache keeps nothing of a loop that is longer than the cache.

use std::collections::VecDeque;

use thinc_pixels::cache::{CELL, Outcome};
use thinc_pixels::{Cache, Hints, PlanSettings, Planned, Shadow, Snapshot, plan_with};
use thinc_region::{Rect, Region, Size};

/// A cell of the screen is one image.
const FRAME_BYTES: u64 = (CELL * CELL * 4) as u64;
const SIZE: Size = Size { width: 4 * CELL as u32, height: CELL as u32 };

/// A viewer and its session; every job is applied before the next is planned.
struct Pair {
    cache: Cache,
    shadow: Shadow,
    job: u64,
    planned: Vec<Planned>,
}

impl Pair {
    fn with_room_for(frames: u64) -> Pair {
        // A 128th stays free.
        let cache = Cache::new([1, 2, 3, 4], (frames * FRAME_BYTES * 128).div_ceil(127));
        Pair { cache, shadow: Shadow::new(SIZE), job: 0, planned: Vec::new() }
    }

    /// Shows image `id` in a cell; true if the viewer had it.
    fn show(&mut self, id: u64, column: i32) -> bool {
        let rect = Rect::at(column * CELL, 0, CELL, CELL);
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(rect), |_, dst, _| {
            // Every pixel depends on the image, so that all of them change.
            dst.iter_mut().zip(0u64..).for_each(|(pixel, i)| {
                *pixel = ((id * 4096 + i).wrapping_mul(0x9e37_79b9) & 0xff_ffff) as u32
            });
        });
        self.job += 1;
        self.planned.clear();
        self.cache.begin(self.job);
        let settings = PlanSettings { cache: Some(&mut self.cache), ..PlanSettings::default() };
        plan_with(&snapshot, &mut self.shadow, &Hints::NONE, settings, &mut self.planned);
        self.cache.end(self.job, Outcome::Applied { update: self.job });
        self.cache.check_invariants();
        self.planned.iter().any(|planned| matches!(planned, Planned::Recall { .. }))
    }
}

/// The usual policy, for comparison.
struct Lru {
    frames: usize,
    order: VecDeque<u64>,
}

impl Lru {
    fn show(&mut self, id: u64) -> bool {
        let found = self.order.iter().position(|&kept| kept == id);
        found.and_then(|at| self.order.remove(at));
        self.order.push_back(id);
        if self.order.len() > self.frames {
            self.order.pop_front();
        }
        found.is_some()
    }
}

/// Hit rates for `wanted` in percent: this cache's, LRU's.
fn rates(frames: u64, warm: usize, wanted: &[u64]) -> (u32, u32) {
    let mut pair = Pair::with_room_for(frames);
    let mut lru = Lru { frames: frames as usize, order: VecDeque::new() };
    let (mut ours, mut theirs) = (0, 0);
    for (at, &id) in wanted.iter().enumerate() {
        // Alternating between two cells, because an unchanged image is not looked up.
        let hit = pair.show(id, (at % 2) as i32);
        let lru_hit = lru.show(id);
        if at >= warm {
            ours += u32::from(hit);
            theirs += u32::from(lru_hit);
        }
    }
    let all = (wanted.len() - warm) as u32;
    (ours * 100 / all, theirs * 100 / all)
}

fn rounds(frames: u64, times: usize) -> Vec<u64> {
    (0..times).flat_map(|_| 0..frames).collect()
}

#[test]
fn a_loop_longer_than_the_cache_keeps_what_fits() {
    println!(
        "{:>10} {:>10} {:>14} {:>14} {:>14} {:>6}",
        "images", "room", "second round", "third", "tenth", "LRU"
    );
    for frames in [25, 50, 75, 100] {
        for room in [16, 32, 48, 64, 96, 128] {
            let nth = |n: usize| rates(room, frames as usize * (n - 1), &rounds(frames, n));
            let ((second, _), (third, _), (tenth, lru)) = (nth(2), nth(3), nth(10));
            println!(
                "{frames:>10} {room:>10} {second:>12} % {third:>12} % {tenth:>12} % {lru:>4} %"
            );
            let fits = (room * 100 / frames).min(100) as u32;
            assert!(
                second + 8 >= fits && tenth + 4 >= fits,
                "{frames} images, room for {room}: {second} %, {tenth} %"
            );
            assert_eq!(
                lru,
                if frames <= room { 100 } else { 0 },
                "{frames} images, room for {room}"
            );
        }
    }
}

/// Reproducible random numbers.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A user who browses pages of 8 cells each: mostly new ones, often one of the last few again.
fn browsing(pages: usize, first: u64, noise: &mut Noise) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::new();
    let mut wanted = Vec::new();
    for new in 0..pages as u64 {
        let back = !seen.is_empty() && noise.below(10) < 5;
        let page = if back {
            seen[seen.len() - 1 - noise.below(seen.len().min(5) as u64) as usize]
        } else {
            first + new
        };
        seen.push(page);
        wanted.extend((0..8).map(|cell| page * 8 + cell));
    }
    wanted
}

#[test]
fn browsing_has_the_hit_rate_of_lru_also_after_a_loop() {
    let mut noise = Noise(7);
    let pages = browsing(200, 1_000, &mut noise);
    let alone = rates(64, 0, &pages);
    let mut after = rounds(100, 20);
    let looped = after.len();
    after.extend(&pages);
    let after_loop = rates(64, looped, &after);
    println!("browsing, room for 64 cells: {} %, LRU {} %", alone.0, alone.1);
    println!("the same after 20 rounds of 100 images: {} %, LRU {} %", after_loop.0, after_loop.1);
    assert!(alone.0 + 5 >= alone.1, "{alone:?}");
    assert!(after_loop.0 + 8 >= after_loop.1, "an old loop must be evicted: {after_loop:?}");
}

#[test]
fn a_loop_beside_browsing_is_kept_as_far_as_it_fits() {
    let mut noise = Noise(9);
    let pages = browsing(400, 1_000, &mut noise);
    let mut images = (0..50).cycle();
    let mut wanted = Vec::new();
    // Three images of the loop for each cell of a page.
    for cell in pages {
        wanted.extend(images.by_ref().take(3));
        wanted.push(cell);
    }
    let (ours, lru) = rates(64, 400, &wanted);
    println!("50 images and browsing, room for 64: {ours} %, LRU {lru} %");
    let (ours_tight, lru_tight) = rates(40, 400, &wanted);
    println!("the same with room for 40: {ours_tight} %, LRU {lru_tight} %");
    assert!(ours >= 70, "{ours} %");
    assert!(ours_tight >= 45 && ours_tight > lru_tight + 20, "{ours_tight} %, LRU {lru_tight} %");
}

#[test]
fn images_used_once_do_not_evict_repeated_ones() {
    // A video, in which nothing repeats; every twentieth image is from a loop of 12.
    let mut once = 1_000..;
    let mut images = (0..12).cycle();
    let wanted: Vec<u64> = (0..6_000u64)
        .filter_map(|at| if at % 20 == 0 { images.next() } else { once.next() })
        .collect();
    let mut pair = Pair::with_room_for(64);
    let mut lru = Lru { frames: 64, order: VecDeque::new() };
    let (mut ours, mut theirs, mut all) = (0, 0, 0);
    for (at, &id) in wanted.iter().enumerate() {
        let (hit, lru_hit) = (pair.show(id, (at % 2) as i32), lru.show(id));
        if id < 12 && at > 2_000 {
            (ours, theirs, all) = (ours + u32::from(hit), theirs + u32::from(lru_hit), all + 1);
        }
    }
    println!("a loop of 12 in a video: {} %, LRU {} %", ours * 100 / all, theirs * 100 / all);
    assert!(ours * 100 / all >= 90 && theirs == 0, "{ours} and {theirs} of {all}");
}
