//! Which share of the changed pixels between two screens do moves explain, and how long does a plan
//! take? `moves SCREEN…`: each file has width and height as two 32-bit numbers, then the pixels,
//! 0x00RRGGBB, little endian.
//! Knows files and plans; never where the screens are from.

use std::time::{Duration, Instant};

use thinc_pixels::{Planned, RGB, Shadow, Snapshot, plan};
use thinc_region::{Rect, Region, Size};

struct Screen {
    size: Size,
    pixels: Vec<u32>,
}

fn read(path: &str) -> Screen {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let (Some(width), Some(height)) = (words.next(), words.next()) else {
        panic!("{path} has no size")
    };
    let size = Size { width, height };
    let pixels: Vec<u32> = words.map(|pixel| pixel & RGB).collect();
    assert_eq!(pixels.len() as u64, size.area(), "{path} must have {width} x {height} pixels");
    Screen { size, pixels }
}

fn differing(a: &[u32], b: &[u32]) -> u64 {
    a.iter().zip(b).filter(|(a, b)| (*a ^ *b) & RGB != 0).count() as u64
}

/// The shortest of several measurements of a plan, because the machine has other load.
fn timed(shadow_of: &Screen, snapshot: &Snapshot) -> (Vec<Planned>, Duration) {
    let mut best = Duration::MAX;
    let mut planned = Vec::new();
    for _ in 0..3 {
        let mut shadow = Shadow::new(shadow_of.size);
        plan(&taken(shadow_of), &mut shadow, &mut Vec::new());
        planned.clear();
        let start = Instant::now();
        plan(snapshot, &mut shadow, &mut planned);
        best = best.min(start.elapsed());
    }
    (planned, best)
}

fn taken(screen: &Screen) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.fill(&Region::from(screen.size.rect()), |_, to, _| {
        to[..screen.pixels.len()].copy_from_slice(&screen.pixels)
    });
    snapshot
}

/// Applies a COPY: all pixels are read before any is written.
fn moved(screen: &Screen, region: &Region, dx: i32, dy: i32) -> Screen {
    let width = screen.size.width as usize;
    let mut pixels = screen.pixels.clone();
    for &Rect { x1, y1, x2, y2 } in region.rects() {
        for y in y1..y2 {
            let from = (y - dy) as usize * width + (x1 - dx) as usize;
            pixels[y as usize * width..][x1 as usize..x2 as usize]
                .copy_from_slice(&screen.pixels[from..from + (x2 - x1) as usize]);
        }
    }
    Screen { size: screen.size, pixels }
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let (mut all, mut left) = (0, 0);
    for pair in paths.windows(2) {
        let (before, after) = (read(&pair[0]), read(&pair[1]));
        let (planned, time) = timed(&before, &taken(&after));
        let changed = differing(&before.pixels, &after.pixels);
        let mut shown = before;
        let mut said = String::new();
        for planned in &planned {
            if let Planned::Shift { region, dx, dy } = planned {
                shown = moved(&shown, region, *dx, *dy);
                said +=
                    &format!(" ({dx}, {dy}) in {} of {} px", region.rect_count(), region.area());
            }
        }
        let rest = differing(&shown.pixels, &after.pixels);
        (all, left) = (all + changed, left + rest);
        let share = 100.0 - 100.0 * rest as f64 / changed.max(1) as f64;
        println!(
            "{:>8} changed, {share:5.1} % moved, {:7.0} µs:{said}",
            changed,
            time.as_secs_f64() * 1e6
        );
    }
    println!(
        "together {:.1} % of {all} pixels that changed",
        100.0 - 100.0 * left as f64 / all.max(1) as f64
    );
}
