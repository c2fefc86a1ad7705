//! How much does an update cost a viewer, from the connection's bytes to pixels, compared with
//! copying those pixels?
//!
//! `cargo bench -p thinc-viewer-core --bench apply`. Updates are what the session's plan and
//! encoder make of the screens; framing, acknowledging and damage tracking are included.

#[path = "../../pixels/benches/screens/mod.rs"]
mod screens;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use screens::{SIZE, Screen};
use thinc_codec_enc::Encoder;
use thinc_pixels::{Shadow, plan};
use thinc_protocol::VERSION;
use thinc_protocol::session::{Geometry, SessionHello, SessionMessage, Update};
use thinc_region::Rect;
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig};

/// A connected viewer, and the number of the last update.
struct Shown {
    viewer: Viewer,
    seq: u64,
    frame: Vec<u8>,
    answer: Vec<u8>,
}

impl Shown {
    fn new() -> Shown {
        let mut viewer = Viewer::new(&ViewerConfig {
            name: "bench".into(),
            size: SIZE,
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        });
        let mut frame = Vec::new();
        let hello = SessionHello {
            version: VERSION,
            caps: 0,
            name: "bench".into(),
            message_bytes_max: 1 << 16,
        };
        SessionMessage::Hello(hello).encode(&mut frame);
        SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }).encode(&mut frame);
        viewer.handle_bytes(&frame, 0).expect("a valid hello");
        Shown { viewer, seq: 0, frame, answer: Vec::new() }
    }

    /// Update numbers increase, so each message is encoded again: a copy of its bytes, as a
    /// socket's read would be.
    fn take(&mut self, commands: &[u8]) {
        self.seq += 1;
        self.frame.clear();
        let (seq, epoch) = (self.seq, 1);
        SessionMessage::Update(Update {
            seq,
            after: 0,
            epoch,
            echo: None,
            end_of_frame: true,
            packed: None,
            commands,
        })
        .encode(&mut self.frame);
        self.viewer.handle_bytes(&self.frame, seq).expect("an update of ours");
        self.answer.clear();
        self.viewer.poll_transmit(&mut self.answer);
        while self.viewer.poll_event().is_some() {}
        black_box(self.viewer.take_damage());
    }
}

/// What is counted: `./dev bench instructions` tells valgrind to look inside this function alone.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Commands that turn one screen into the other, or show a part of a screen of which nothing is
/// known.
fn commands(before: Option<&Screen>, after: &Screen, part: Rect) -> Vec<u8> {
    let (mut shadow, mut planned, mut out) = (Shadow::new(SIZE), Vec::new(), Vec::new());
    if let Some(before) = before {
        plan(&before.snapshot(), &mut shadow, &mut planned);
    }
    planned.clear();
    let snapshot = after.snapshot_of(&part);
    plan(&snapshot, &mut shadow, &mut planned);
    Encoder::new().encode(&planned, &snapshot, &mut out);
    out
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Bytes(SIZE.area() * 4));
    let page = screens::page(0);
    let mut target = page.0.clone();
    group.bench_function("copy (reference)", |b| {
        b.iter(|| measured(|| black_box(&mut target).copy_from_slice(black_box(&page.0))))
    });
    let (line, screen) = (Rect::at(2, 0, 900, 10), SIZE.rect());
    for (name, before, after, part) in [
        ("terminal", None, screens::terminal(0), screen),
        ("line of a terminal", None, screens::terminal(0), line),
        ("terminal scrolled", Some(screens::terminal(0)), screens::terminal(3), screen),
        ("page", None, page.clone(), screen),
        ("page scrolled", Some(page.clone()), screens::page(120), screen),
        ("photograph", None, screens::photograph(), screen),
    ] {
        let commands = commands(before.as_ref(), &after, part);
        group.throughput(Throughput::Bytes(part.area() * 4));
        let mut shown = Shown::new();
        group.bench_function(name, |b| b.iter(|| measured(|| shown.take(black_box(&commands)))));
    }
    group.finish();
}

criterion_group!(applies, benches);
criterion_main!(applies);
