//! What does a record cost, against one boxed value allocated and freed?
//!
//! `cargo bench -p thinc-session-core --bench hot_path`. A flush is 40 records, fills and glyphs of
//! a line of text, through `handle_record`, then `poll_job`, `render`, `complete`
//! and `poll_transmit` for each viewer, which acknowledges at once. "records alone" stops before
//! `poll_job`: what is measured is translation and the queue.
//!
//! A toolkit's frame (GTK 3 as recorded: doc/scheduling.md) is a pixmap made, filled, copied to
//! from a cache, written on, copied to the screen and destroyed: 40 records too. "drawn" shows new
//! pixels each time; "scrolled" what the cache holds at another place, which becomes a COPY;
//! "composed" passes through a window's pixmap and a compositor's picture.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thinc_protocol::command::Encoding;
use thinc_protocol::commands::Commands;
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, JobResult, NoPixels, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
/// Records between two flushes: a line of text is a fill and some glyph runs.
const RECORDS: i32 = 40;
/// Bytes that a line of text encodes to.
const LINE: [u8; 56] = [0x55; 56];

const CACHE: DrawableId = DrawableId(1);
const WINDOW: DrawableId = DrawableId(2);
const PICTURE: DrawableId = DrawableId(3);

/// What a toolkit's frame does to the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    DrawHint,
    Scrolled,
    Composed,
}

struct Bench {
    session: Session,
    viewers: Vec<ViewerId>,
    now: u64,
    op: u64,
    flush: i32,
    commands: Commands,
    out: Vec<u8>,
}

impl Bench {
    fn new(viewers: usize) -> Bench {
        let mut session = Session::new(Config::new("bench", SIZE));
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: String::new(),
        };
        let viewers = (0..viewers).map(|_| session.add_viewer(&hello, 0)).collect();
        let mut commands = Commands::default();
        commands.writer().raw(Rect::at(0, 0, 400, 16), Encoding::Predicted, &LINE);
        let (now, op, flush, out) = (1_000, 0, 0, Vec::new());
        let mut bench = Bench { session, viewers, now, op, flush, commands, out };
        // The whole screen is sent first.
        bench.send();
        bench
    }

    /// After a warm-up, when buffers have their size.
    fn warm(mut self, work: impl Fn(&mut Bench)) -> Bench {
        for _ in 0..16 {
            work(&mut self);
            self.send();
        }
        self
    }

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
    }

    fn line(&mut self) {
        let y = self.flush % 40 * 18;
        self.flush += 1;
        self.glyphs(y);
    }

    fn glyphs(&mut self, y: i32) {
        for i in 0..RECORDS {
            let what = if i % 2 == 0 { DrawHint::Solid(0xff_ffff) } else { DrawHint::Glyphs };
            let rect = Rect::at(i / 2 * 40, y, 40, 18);
            self.record(RecordKind::Draw {
                dst: DrawableId::SCREEN,
                rect,
                hint: what,
                alpha: Alpha::Opaque,
            });
        }
    }

    fn scroll(&mut self) {
        let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
        self.record(RecordKind::Copy {
            src,
            dst,
            rect: Rect::new(0, 0, 800, 700),
            dx: 0,
            dy: -18,
            over: false,
        });
        self.glyphs(700);
    }

    fn create(&mut self, id: DrawableId, width: u32, height: u32) {
        self.record(RecordKind::PixmapCreate { id, width, height, opaque: false });
    }

    fn copy(
        &mut self,
        src: DrawableId,
        dst: DrawableId,
        rect: Rect,
        (dx, dy): (i32, i32),
        over: bool,
    ) {
        self.record(RecordKind::Copy { src, dst, rect, dx, dy, over });
    }

    fn fill(&mut self, dst: DrawableId, rect: Rect, rgb: u32) {
        self.record(RecordKind::Draw {
            dst,
            rect,
            hint: DrawHint::Solid(rgb),
            alpha: Alpha::Opaque,
        });
    }

    /// A scrolled view's cache, and a compositor's pixmaps.
    fn create_cache(&mut self) {
        self.create(CACHE, 662, 637);
        self.fill(CACHE, Rect::new(0, 0, 662, 637), 0xff_ffff);
        self.create(WINDOW, 700, 540);
        self.fill(WINDOW, Rect::new(0, 0, 700, 540), 0xff_ffff);
        self.create(PICTURE, SIZE.width, SIZE.height);
        self.fill(PICTURE, SIZE.rect(), 0x40_4040);
    }

    /// One frame of a toolkit.
    fn frame(&mut self, kind: Frame) {
        self.flush += 1;
        let id = DrawableId(1_000 + self.flush.cast_unsigned());
        let view = Rect::new(0, 0, 638, 425);
        self.create(id, 638, 425);
        self.fill(id, view, 0);
        self.fill(id, view, 0xf6_f5f4);
        // The cache is redrawn, or the frame has one more ground.
        self.fill(
            if kind == Frame::DrawHint { CACHE } else { id },
            view,
            self.flush.cast_unsigned() & 0xff_ffff,
        );
        let scrolled = if kind == Frame::DrawHint { 0 } else { self.flush % 2 * 40 };
        self.copy(CACHE, id, view, (0, -scrolled), true);
        let written = if kind == Frame::DrawHint { 425 } else { 20 };
        let glyphs = if kind == Frame::Composed { RECORDS - 9 } else { RECORDS - 7 };
        for i in 0..glyphs {
            let rect = Rect::at(i % 8 * 75, i / 8 * 85 * written / 425, 70, 18.min(written));
            self.record(RecordKind::Draw {
                dst: id,
                rect,
                hint: DrawHint::Glyphs,
                alpha: Alpha::Kept,
            });
        }
        if kind == Frame::Composed {
            self.copy(id, WINDOW, view.translate(2, 72), (2, 72), false);
            self.copy(WINDOW, PICTURE, view.translate(102, 172), (100, 100), true);
            self.copy(PICTURE, DrawableId::SCREEN, view.translate(102, 172), (0, 0), false);
        } else {
            self.copy(id, DrawableId::SCREEN, view.translate(193, 203), (193, 203), false);
        }
        self.record(RecordKind::PixmapDestroy { id });
    }

    /// Sends and acknowledges everything; returns the number of jobs.
    fn send(&mut self) -> u64 {
        self.record(RecordKind::Idle);
        let mut jobs = 0;
        for &id in &self.viewers {
            while let Some(job) = self.session.poll_job(id, self.now) {
                let planned = self.session.render(job, &mut NoPixels { tag: self.op });
                let planned = planned.expect("the job is new");
                self.session.complete(planned, JobResult::encoded(&self.commands));
                jobs += 1;
            }
            self.out.clear();
            if self.session.poll_transmit(id, self.now, &mut Unpacked, &mut self.out) {
                let update = self.session.stats(id).expect("the viewer is connected").updates;
                let ack = ViewerMessage::Ack(Ack { update, presented: None });
                self.session.handle_message(id, &ack, self.now).expect("the update was sent");
            }
        }
        self.now += 1_000;
        jobs
    }
}

/// What is counted: `./dev bench instructions` tells valgrind to count inside this function only.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("session, 40 records");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function("box (reference)", |b| {
        b.iter(|| measured(|| (0..RECORDS).for_each(|i| drop(black_box(Box::new([i; 16]))))));
    });
    let mut alone = Bench::new(1).warm(Bench::line);
    group.bench_function("records alone", |b| b.iter(|| measured(|| alone.line())));
    for viewers in [1, 4] {
        let mut bench = Bench::new(viewers).warm(Bench::line);
        group.bench_function(format!("text to {viewers}"), |b| {
            b.iter(|| {
                let jobs = measured(|| {
                    bench.line();
                    bench.send()
                });
                assert_eq!(
                    jobs,
                    bench.viewers.len() as u64,
                    "every flush is a job for every viewer"
                );
            });
        });
    }
    let mut bench = Bench::new(1).warm(Bench::scroll);
    group.bench_function("text that scrolls to 1", |b| {
        b.iter(|| {
            measured(|| {
                bench.scroll();
                bench.send()
            })
        });
    });
    let frames =
        [("drawn", Frame::DrawHint), ("scrolled", Frame::Scrolled), ("composed", Frame::Composed)];
    for (name, frame) in frames {
        let mut alone = Bench::new(1);
        alone.create_cache();
        let mut alone = alone.warm(|bench| bench.frame(frame));
        group.bench_function(format!("a frame {name}, records alone"), |b| {
            b.iter(|| measured(|| alone.frame(frame)))
        });
    }
    for (name, frame) in frames {
        let mut bench = Bench::new(1);
        bench.create_cache();
        let mut bench = bench.warm(|bench| bench.frame(frame));
        group.bench_function(format!("a frame {name}, to 1"), |b| {
            b.iter(|| {
                measured(|| {
                    bench.frame(frame);
                    bench.send()
                })
            });
        });
    }
    let mut bench = Bench::new(1);
    group.bench_function("nothing to do", |b| {
        b.iter(|| measured(|| bench.session.poll_job(bench.viewers[0], bench.now).is_none()))
    });
    group.finish();
}

criterion_group!(hot_path, benches);
criterion_main!(hot_path);
