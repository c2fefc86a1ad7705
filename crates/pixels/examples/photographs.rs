//! Which part of a screen would be lossy, how long does its detection take, and does it contain
//! text? `photographs SCREEN.ppm…`. If there is a `NAME-bare.ppm` for a `NAME-text.ppm`, the same
//! screen with transparent text, the pixels in which both differ are text, and the lossy ones are
//! counted.

use std::time::{Duration, Instant};

use thinc_pixels::{Hints, Lossy, PlanSettings, Planned, Shadow, Snapshot, plan_with};
use thinc_region::{Rect, Size};

struct Screen {
    size: Size,
    pixels: Vec<u32>,
}

/// Reads a binary PPM with 8 bits per channel and without comments, as thinc-bench writes them.
fn read(path: &str) -> Screen {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut words = bytes.splitn(5, u8::is_ascii_whitespace);
    let mut word =
        || words.next().and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
    assert_eq!(word(), "P6", "{path} must be a binary PPM");
    let mut number = || word().parse::<u32>().unwrap_or_else(|error| panic!("{path}: {error}"));
    let size = Size { width: number(), height: number() };
    assert_eq!(number(), 255, "{path} must have 8 bits per channel");
    let rgb = words.next().unwrap_or_default().as_chunks::<3>().0.iter();
    let pixels: Vec<u32> = rgb.map(|rgb| u32::from_be_bytes([0, rgb[0], rgb[1], rgb[2]])).collect();
    assert_eq!(
        pixels.len() as u64,
        size.area(),
        "{path} must have {} x {} pixels",
        size.width,
        size.height
    );
    Screen { size, pixels }
}

fn main() {
    let (mut all, mut lossy, mut text) = (0, 0, [0, 0]);
    println!(
        "{:32} {:>8} {:>6} {:>10} {:>10} {:>18}",
        "screen", "lossy", "parts", "plan", "without", "text lossy, of"
    );
    for path in std::env::args().skip(1).filter(|path| !path.ends_with("-bare.ppm")) {
        let screen = read(&path);
        let width = screen.size.width as usize;
        let mut snapshot = Snapshot::new();
        snapshot.fill(&screen.size.rect().into(), |_, to, _| {
            to[..screen.pixels.len()].copy_from_slice(&screen.pixels)
        });
        // The shortest of several measurements, because the machine has other load.
        let plan = |lossy: Lossy| {
            let (mut best, mut planned) = (Duration::MAX, Vec::new());
            for _ in 0..5 {
                let mut shadow = Shadow::new(screen.size);
                planned.clear();
                let settings = PlanSettings { lossy, ..PlanSettings::default() };
                let begin = Instant::now();
                plan_with(&snapshot, &mut shadow, &Hints::NONE, settings, &mut planned);
                best = best.min(begin.elapsed());
            }
            (best, planned)
        };
        let (without, _) = plan(Lossy::Never);
        let (with, planned) = plan(Lossy::Photographs);
        let photo = |planned: &Planned| {
            if let Planned::Photo { rect } = planned { Some(*rect) } else { None }
        };
        let photos: Vec<Rect> = planned.iter().filter_map(photo).collect();
        let area: u64 = photos.iter().map(Rect::area).sum();
        let mut counted = String::new();
        if let Some(name) = path.strip_suffix("-text.ppm") {
            let bare = read(&format!("{name}-bare.ppm"));
            let is_text = |at: usize| screen.pixels[at] != bare.pixels[at];
            let place = |rect: &Rect, y: i32| y as usize * width + rect.x1 as usize;
            let rows = photos.iter().flat_map(|rect| (rect.y1..rect.y2).map(move |y| (rect, y)));
            let spoilt =
                rows.flat_map(|(rect, y)| place(rect, y)..place(rect, y) + rect.width() as usize);
            let found = [
                spoilt.filter(|&at| is_text(at)).count(),
                (0..screen.pixels.len()).filter(|&at| is_text(at)).count(),
            ];
            counted = format!("{} of {}", found[0], found[1]);
            text = [text[0] + found[0], text[1] + found[1]];
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let share = area as f64 * 100.0 / screen.size.area() as f64;
        println!(
            "{name:32} {share:7.1}% {:6} {with:10.2?} {without:10.2?} {counted:>18}",
            photos.len()
        );
        (all, lossy) = (all + screen.size.area(), lossy + area);
    }
    println!(
        "{:32} {:7.1}% {:>47} of {}",
        "all",
        lossy as f64 * 100.0 / all.max(1) as f64,
        text[0],
        text[1]
    );
}
