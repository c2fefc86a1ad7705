//! What does it cost to send a screen, by kind of content: bytes by command, and time to plan, encode and decode?
//!
//! `cargo bench -p thinc-codec-enc` draws its own screens; `-- FILE.ppm…` measures screenshots (P6), each sent whole and
//! then as the change from the one before of its size. Times are medians, with the 95th percentile, against copying the
//! same pixels in the same run.

use std::time::Instant;

use thinc_codec_dec::{Decoder, OPAQUE};
use thinc_codec_enc::Encoder;
use thinc_pixels::coverage::Line;
use thinc_pixels::{Shadow, Snapshot, plan};
use thinc_protocol::command::{Command, CommandReader};
use thinc_region::{Region, Size};

const RUNS: usize = 31;

struct Screen {
    name: String,
    size: Size,
    pixels: Vec<u32>,
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let screens = if files.is_empty() { drawn() } else { files.iter().map(|file| read_ppm(file)).collect() };
    println!(
        "{:<26} {:>9} {:>6} {:>32} {:>18} {:>18} {:>18} {:>9}",
        "screen",
        "bytes",
        "rects",
        "copy/sfill/pfill/bitmap/raw B",
        "plan us (p95)",
        "encode us (p95)",
        "decode us (p95)",
        "copy us"
    );
    for (i, screen) in screens.iter().enumerate() {
        measure(&screen.name, screen, None);
        if let Some(before) = screens[..i].last().filter(|before| before.size == screen.size) {
            measure(&format!("{} -> {}", before.name, screen.name), screen, Some(before));
        }
    }
}

fn measure(name: &str, screen: &Screen, before: Option<&Screen>) {
    let all = Region::from(screen.size.rect());
    let snapshot_of = |pixels: &[u32]| {
        let mut snapshot = Snapshot::new();
        snapshot.fill(&all, |_, dst, _| dst[..pixels.len()].copy_from_slice(pixels));
        snapshot
    };
    let snapshot = snapshot_of(&screen.pixels);
    let start = before.map(|before| snapshot_of(&before.pixels));
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut shadow = Shadow::new(screen.size);
    let (mut planned, mut commands) = (Vec::new(), Vec::new());
    let mut shown = vec![OPAQUE; screen.pixels.len()];
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..RUNS {
        shadow.reset();
        if let Some(start) = &start {
            planned.clear();
            plan(start, &mut shadow, &mut planned);
            shown.iter_mut().zip(start.rows(&screen.size.rect()).flatten()).for_each(|(s, p)| *s = OPAQUE | p);
        }
        planned.clear();
        commands.clear();
        let mut time = |i: usize, work: &mut dyn FnMut()| {
            let begun = Instant::now();
            work();
            times[i].push(begun.elapsed().as_secs_f64() * 1e6);
        };
        time(0, &mut || plan(&snapshot, &mut shadow, &mut planned));
        time(1, &mut || encoder.encode(&planned, &snapshot, &mut commands));
        time(2, &mut || show(&commands, screen.size, &mut shown, &mut decoder));
        let mut copy = std::hint::black_box(vec![1u32; screen.pixels.len()]);
        time(3, &mut || std::hint::black_box(&mut copy).copy_from_slice(&screen.pixels));
        assert!(shown.iter().zip(&screen.pixels).all(|(s, p)| *s == p | OPAQUE), "{name}: decoded is what was encoded");
    }
    let mut kinds = [0; 5];
    let mut reader = CommandReader::new(&commands, screen.size);
    let mut rest = reader.rest_len();
    while let Some(Ok(command)) = reader.next() {
        kinds[kind(&command)] += rest - reader.rest_len();
        rest = reader.rest_len();
    }
    let spread = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        format!("{:.0} ({:.0})", times[times.len() / 2], times[times.len() * 95 / 100])
    };
    let [plan, encode, decode, copy] = times.each_mut().map(spread);
    let kinds = kinds.map(|k| k.to_string()).join("/");
    println!(
        "{name:<26} {:>9} {:>6} {kinds:>32} {plan:>18} {encode:>18} {decode:>18} {copy:>9}",
        commands.len(),
        planned.len()
    );
}

fn kind(command: &Command<'_>) -> usize {
    match command {
        Command::Copy { .. } => 0,
        Command::Sfill { .. } => 1,
        Command::Pfill { .. } => 2,
        Command::Bitmap { .. } => 3,
        Command::Raw { .. } => 4,
    }
}

/// Applies commands as a viewer does.
fn show(commands: &[u8], size: Size, shown: &mut [u32], decoder: &mut Decoder) {
    let stride = size.width as usize;
    let mut tile = Vec::new();
    for command in CommandReader::new(commands, size) {
        match command.expect("commands of ours are read") {
            Command::Copy { region, dx, dy } => {
                let before = shown.to_vec();
                for rect in region.rects() {
                    for y in rect.y1..rect.y2 {
                        let source = (y - dy) as usize * stride + (rect.x1 - dx) as usize;
                        let target = y as usize * stride + rect.x1 as usize;
                        let width = rect.width() as usize;
                        shown[target..target + width].copy_from_slice(&before[source..source + width]);
                    }
                }
            }
            Command::Sfill { region, color } => {
                for rect in region.rects() {
                    for y in rect.y1..rect.y2 {
                        shown[y as usize * stride..][rect.x1 as usize..rect.x2 as usize].fill(OPAQUE | color);
                    }
                }
            }
            Command::Pfill { rect, tile_width, tile_height, encoding, data } => {
                let (width, height) = (usize::from(tile_width), usize::from(tile_height));
                decoder.tile(encoding, data, (width, height), &mut tile).expect("data of ours are decoded");
                for (y, tile) in (rect.y1..rect.y2).zip(tile.chunks_exact(width).cycle()) {
                    for part in shown[y as usize * stride..][rect.x1 as usize..rect.x2 as usize].chunks_mut(width) {
                        part.copy_from_slice(&tile[..part.len()]);
                    }
                }
            }
            Command::Bitmap { rect, depth, fg, bg, packing, data } => {
                let extent = (rect.width() as usize, rect.height() as usize);
                let dst = &mut shown[rect.y1 as usize * stride + rect.x1 as usize..];
                decoder.bitmap(depth, packing, data, (fg, bg), extent, dst, stride).expect("data of ours are decoded");
            }
            Command::Raw { rect, encoding, data } => {
                let extent = (rect.width() as usize, rect.height() as usize);
                let dst = &mut shown[rect.y1 as usize * stride + rect.x1 as usize..];
                decoder.raw(encoding, data, extent, dst, stride).expect("data of ours are decoded");
            }
        }
    }
}

fn read_ppm(file: &str) -> Screen {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut fields = bytes.splitn(4, |b| b.is_ascii_whitespace());
    let mut number = |what: &str| {
        let field = fields.next().and_then(|field| std::str::from_utf8(field).ok());
        field.unwrap_or_else(|| panic!("{file}: no {what}")).to_owned()
    };
    assert_eq!(number("magic"), "P6", "{file} is a P6");
    let [width, height] = ["width", "height"].map(|what| number(what).parse().expect("a number"));
    let size = Size { width, height };
    let body = &bytes[bytes.len() - size.area() as usize * 3..];
    let pixels = body.chunks_exact(3).map(|p| u32::from(p[0]) << 16 | u32::from(p[1]) << 8 | u32::from(p[2])).collect();
    let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".ppm").to_owned();
    Screen { name, size, pixels }
}

fn noise(seed: u32, x: u32, y: u32) -> u32 {
    let mut n = seed ^ x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// Terminal text, grey text, a photograph and noise, 1024 x 768 each.
fn drawn() -> Vec<Screen> {
    let size = Size { width: 1024, height: 768 };
    let gray = Line::new(0x0020_2020, 0x00ff_ffff);
    let glyph = |x: u32, y: u32| (noise(1, x / 6, y / 13) % 40, x % 6, y % 13);
    let text = |x: u32, y: u32| {
        let (letter, gx, gy) = glyph(x, y);
        letter > 6 && gy > 2 && gx < 5 && noise(letter, gx, gy).is_multiple_of(3)
    };
    let wave = |x: u32, y: u32, f: f64| ((f64::from(x) / f).sin() * (f64::from(y) / 90.0).cos() * 100.0 + 128.0) as u32;
    let draw = |name: &str, pixel: &dyn Fn(u32, u32) -> u32| Screen {
        name: name.to_owned(),
        size,
        pixels: (0..768).flat_map(|y| (0..1024).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)).collect(),
    };
    vec![
        draw("terminal", &|x, y| if text(x, y) { 0 } else { 0x00ff_ffff }),
        draw("terminal, one line more", &|x, y| if text(x, y + 13) { 0 } else { 0x00ff_ffff }),
        draw("gray text", &|x, y| {
            let (letter, gx, gy) = glyph(x, y);
            if text(x, y) { gray.pixel(noise(letter, gx, gy) as u8 | 0x40) } else { 0x00ff_ffff }
        }),
        draw("photograph", &|x, y| {
            let grain = noise(3, x, y) & 3;
            (wave(x, y, 70.0) + grain) << 16 | (wave(x, y, 110.0) + grain) << 8 | (wave(x, y, 160.0) + grain)
        }),
        draw("noise", &|x, y| noise(4, x, y) & 0x00ff_ffff),
    ]
}
