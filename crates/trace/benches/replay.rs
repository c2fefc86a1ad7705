//! What does a record of a real application cost, from its bytes to the queues, and with everything a viewer gets of it?
//!
//! `cargo bench -p thinc-trace --bench replay`: each of traces/, once through. "records" stops at the queues; "whole" goes
//! on to a viewer on a link of 10 Mbit/s and 40 ms, both on virtual time. Throughput is records a second; what a case
//! executes for all its records, `./dev bench instructions replay` counts.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thinc_protocol::viewer::ViewerHello;
use thinc_region::Size;
use thinc_ring::DrawRecord;
use thinc_session_core::{Config, Scheduling, Session};
use thinc_trace::{Event, Head, Options, Reader, RecordBytes, Replay};

/// What is counted: `./dev bench instructions` tells valgrind to look inside this function alone.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn read(path: &Path) -> (Head, Vec<Event>) {
    let bytes = fs::read(path).expect("a trace of the tree can be read");
    let mut reader = Reader::new(&bytes[..]).expect("a trace of the tree is a trace");
    let mut events = Vec::new();
    while let Some(event) = reader.event().expect("a trace of the tree is whole") {
        events.push(event);
    }
    (reader.head(), events)
}

/// A session with one viewer that is never asked for anything: its queue holds rectangles, as behind a link that stalls.
fn session(size: Size) -> Session {
    let scheduling = Scheduling::ShortestFirst;
    let mut session = Session::new(Config { name: "bench".into(), size, scheduling, offscreen: true });
    session.handle_attach(size);
    let hello =
        ViewerHello { version: 1, caps: 0, size: Size::default(), frame_bytes_max: 1 << 24, name: String::new() };
    session.add_viewer(&hello, 0);
    session
}

fn translate(session: &mut Session, records: &[RecordBytes]) {
    for bytes in records {
        let record = DrawRecord::parse(bytes).expect("the trace's reader has parsed every record");
        session.handle_record(black_box(&record), 0);
    }
}

fn benches(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("traces/ is there").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    paths.sort();
    let mut group = criterion.benchmark_group("replay");
    group.sample_size(20);
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (head, events) = read(&path);
        let mut records = Vec::new();
        let mut size = Size::default();
        for event in &events {
            match event {
                Event::Records(run) => records.extend_from_slice(run),
                Event::Geometry { size: new, .. } => size = *new,
                _ => {}
            }
        }
        group.throughput(Throughput::Elements(records.len() as u64));
        let mut alone = session(size);
        group.bench_function(format!("{name}, {} records", records.len()), |b| {
            b.iter(|| measured(|| translate(&mut alone, &records)));
        });
        group.bench_function(format!("{name}, whole"), |b| {
            b.iter(|| {
                let link = "10mbit,40ms".parse().expect("this is a link");
                measured(|| {
                    let mut replay = Replay::new(&head, Options { link, ..Options::default() });
                    events
                        .iter()
                        .try_for_each(|event| replay.handle_event(event))
                        .expect("a trace of the tree replays");
                    replay.finish().expect("a trace of the tree comes to rest").hash
                })
            });
        });
    }
    group.finish();
}

criterion_group!(replay, benches);
criterion_main!(replay);
