//! What does a record cost, against one boxed value allocated and freed?
//!
//! `cargo bench -p thinc-session-core --bench hot_path`. A flush is 40 records, fills and glyphs of a line of text, through
//! `handle_record`, then `poll_job`, `handle_snapshot`, `handle_encoded` and `poll_transmit` for each viewer, which
//! acknowledges at once. "records alone" stops before `poll_job`: what is measured is translation and the queue.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{Config, Scheduling, Session, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
/// Records between two flushes: a line of text is a fill and some glyph runs.
const RECORDS: i32 = 40;
/// Bytes that a line of text encodes to.
const COMMANDS: [u8; 60] = [0x55; 60];

struct Bench {
    session: Session,
    viewers: Vec<ViewerId>,
    now: u64,
    op: u64,
    flush: i32,
    out: Vec<u8>,
}

impl Bench {
    fn new(viewers: usize) -> Bench {
        let mut session = Session::new(Config {
            name: "bench".into(),
            size: SIZE,
            scheduling: Scheduling::ShortestFirst,
            offscreen: true,
        });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            frame_bytes_max: 1 << 24,
            name: String::new(),
        };
        let viewers = (0..viewers).map(|_| session.add_viewer(&hello, 0)).collect();
        let mut bench = Bench { session, viewers, now: 1_000, op: 0, flush: 0, out: Vec::new() };
        // The whole screen goes out first.
        bench.send();
        bench
    }

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
    }

    fn line(&mut self) {
        let y = self.flush % 40 * 18;
        self.flush += 1;
        self.glyphs(y);
    }

    fn glyphs(&mut self, y: i32) {
        for i in 0..RECORDS {
            let what = if i % 2 == 0 { Drawn::Solid(0xff_ffff) } else { Drawn::Glyphs };
            let rect = Rect::at(i / 2 * 40, y, 40, 18);
            self.record(RecordKind::Draw { dst: DrawableId::SCREEN, rect, what, alpha: Alpha::Opaque });
        }
    }

    fn scroll(&mut self) {
        let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
        self.record(RecordKind::Copy { src, dst, rect: Rect::new(0, 0, 800, 700), dx: 0, dy: -18, over: false });
        self.glyphs(700);
    }

    /// Sends and acknowledges everything; gives how many jobs that took.
    fn send(&mut self) -> u64 {
        self.record(RecordKind::Idle);
        let mut jobs = 0;
        for &id in &self.viewers {
            while let Some(job) = self.session.poll_job(id, self.now) {
                self.session.handle_snapshot(id, job.id, None, self.op);
                self.session.handle_encoded(id, job.id, &COMMANDS);
                jobs += 1;
            }
            self.out.clear();
            if self.session.poll_transmit(id, self.now, &mut self.out) {
                let update = self.session.stats(id).expect("it is connected").updates;
                let ack = ViewerMessage::Ack(Ack { update, presented: None });
                self.session.handle_message(id, &ack, self.now).expect("the update was sent");
            }
        }
        self.now += 1_000;
        jobs
    }
}

/// What is counted: `./dev bench instructions` tells valgrind to look inside this function alone.
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
    let mut alone = Bench::new(1);
    group.bench_function("records alone", |b| b.iter(|| measured(|| alone.line())));
    for viewers in [1, 4] {
        let mut bench = Bench::new(viewers);
        group.bench_function(format!("text to {viewers}"), |b| {
            b.iter(|| {
                let jobs = measured(|| {
                    bench.line();
                    bench.send()
                });
                assert_eq!(jobs, bench.viewers.len() as u64, "every flush is a job for every viewer");
            });
        });
    }
    let mut bench = Bench::new(1);
    group.bench_function("text that scrolls to 1", |b| {
        b.iter(|| {
            measured(|| {
                bench.scroll();
                bench.send()
            })
        });
    });
    let mut bench = Bench::new(1);
    group.bench_function("nothing to do", |b| {
        b.iter(|| measured(|| bench.session.poll_job(bench.viewers[0], bench.now).is_none()))
    });
    group.finish();
}

criterion_group!(hot_path, benches);
criterion_main!(hot_path);
