//! From which size on is it worth keeping a piece? Compares the bytes of sending it again, within
//! and beyond the packed stream's window, with those of RECALL, and of KEEP the first time. `cargo
//! run --release -p thinc-codec-enc --example repeats`. Mean bytes of one piece, each in its own
//! update; from a page, a terminal and a photograph.

#[path = "../../pixels/benches/screens/mod.rs"]
mod screens;

use thinc_codec_enc::{EncodeSettings, Encoder, Entropy, StreamPacker};
use thinc_pixels::{Hints, PlanSettings, Planned, Shadow, plan_with};
use thinc_protocol::command::CommandWriter;
use thinc_region::Rect;

/// Pieces between a piece and its repetition: within the window, and beyond it.
const SOON: usize = 32;
const LATE_BYTES: usize = 8 << 20;

struct Sizes {
    first: usize,
    keep: usize,
    soon: usize,
    late: usize,
    recall: usize,
    pieces: usize,
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

/// Length of an update with these commands, without its head.
fn sent(packer: &mut StreamPacker, commands: &[u8]) -> usize {
    let mut out = Vec::new();
    packer.pack(commands, &mut out).map_or(commands.len(), |_| out.len())
}

fn commands(screen: &screens::Screen, rect: &Rect, keep: Option<u32>) -> Vec<u8> {
    let snapshot = screen.snapshot_of(rect);
    let mut planned: Vec<Planned> = Vec::new();
    plan_with(
        &snapshot,
        &mut Shadow::new(screens::SIZE),
        &Hints::NONE,
        PlanSettings::default(),
        &mut planned,
    );
    planned.extend(keep.map(|slot| Planned::Keep { rect: *rect, slot }));
    let mut out = Vec::new();
    let settings = EncodeSettings { entropy: Entropy::Stream, ..EncodeSettings::default() };
    Encoder::new().encode_with(&planned, &snapshot, &settings, &mut out);
    out
}

fn measure(screen: &screens::Screen, width: i32, height: i32) -> Sizes {
    let mut noise = Noise(7);
    let mut place = || {
        let (x, y) = (noise.below((1024 - width) as u64), noise.below((768 - height) as u64));
        Rect::at(x as i32, y as i32, width, height)
    };
    let pieces: Vec<(Rect, u32)> = (0..200).map(|i| (place(), i * 37 % 4096)).collect();
    let mut all = Sizes { first: 0, keep: 0, soon: 0, late: 0, recall: 0, pieces: pieces.len() };
    let (mut plain, mut keeping) = (StreamPacker::new(1), StreamPacker::new(1));
    for (rect, slot) in &pieces {
        let first = sent(&mut plain, &commands(screen, rect, None));
        all.first += first;
        all.keep += sent(&mut keeping, &commands(screen, rect, Some(*slot))).saturating_sub(first);
    }
    let mut stream = StreamPacker::new(1);
    for (i, (rect, _)) in pieces.iter().enumerate() {
        sent(&mut stream, &commands(screen, rect, None));
        if let Some((again, _)) = i.checked_sub(SOON).map(|before| &pieces[before]) {
            all.soon += sent(&mut stream, &commands(screen, again, None));
        }
    }
    let mut other = vec![0; LATE_BYTES];
    let mut filler = Noise(9);
    other.iter_mut().for_each(|byte| *byte = filler.below(64) as u8);
    sent(&mut stream, &other);
    for (rect, slot) in &pieces {
        all.late += sent(&mut stream, &commands(screen, rect, None));
        let mut recall = Vec::new();
        CommandWriter::new(&mut recall).recall(*rect, *slot);
        all.recall += sent(&mut keeping, &recall);
    }
    all.soon = all.soon * pieces.len() / (pieces.len() - SOON);
    all
}

fn main() {
    println!(
        "{:<12}{:>10}{:>10}{:>8}{:>14}{:>12}{:>9}",
        "piece", "from", "first", "KEEP", "again, soon", "late", "RECALL"
    );
    let screens = [
        ("page", screens::page(0)),
        ("terminal", screens::terminal(0)),
        ("photograph", screens::photograph()),
    ];
    for (width, height) in [(8, 16), (16, 20), (24, 24), (32, 32), (48, 48), (64, 64), (128, 128)] {
        for (name, screen) in &screens {
            let Sizes { first, keep, soon, late, recall, pieces } = measure(screen, width, height);
            let mean = |bytes: usize| format!("{:.1}", bytes as f64 / pieces as f64);
            println!(
                "{:<12}{:>10}{:>10}{:>8}{:>14}{:>12}{:>9}",
                format!("{width}x{height}"),
                name,
                mean(first),
                mean(keep),
                mean(soon),
                mean(late),
                mean(recall)
            );
        }
    }
}
