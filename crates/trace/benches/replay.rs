//! What does a record of a real application cost, from its bytes to the queues, and for everything
//! that a viewer gets?
//!
//! `cargo bench -p thinc-trace --bench replay`: each of traces/, one round. "to the queues"
//! translates, queues and commits, and reads no pixels; "whole" starts with nothing and ends with a
//! viewer that shows the screen. Both use a link of 10 Mbit/s and 40 ms, on virtual time.
//! Throughput is in records per second; `./dev bench instructions replay` counts the instructions
//! for all records of a case.

use std::fs;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thinc_trace::{Depth, Event, Head, Options, Reader, Replay};

/// The measured function: `./dev bench instructions` makes valgrind count inside this function
/// only.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn read(path: &Path) -> (Head, Vec<Event>) {
    let bytes = fs::read(path).expect("a trace of the tree can be read");
    let mut reader = Reader::new(&bytes[..]).expect("a trace of the tree is a trace");
    let mut events = Vec::new();
    while let Some(event) = reader.event().expect("a trace of the tree is complete") {
        events.push(event);
    }
    (reader.head(), events)
}

/// One round.
fn round(replay: &mut Replay, events: &[Event]) {
    events
        .iter()
        .try_for_each(|event| replay.handle_event(event))
        .expect("a trace of the tree replays");
}

fn benches(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("traces/ exists").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    paths.sort();
    let mut group = criterion.benchmark_group("replay");
    group.sample_size(20);
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (head, events) = read(&path);
        let records: usize = events
            .iter()
            .map(|event| if let Event::Records(run) = event { run.len() } else { 0 })
            .sum();
        group.throughput(Throughput::Elements(records as u64));
        let link = "10mbit,40ms".parse().expect("the link is valid");
        let mut queues =
            Replay::new(&head, Options { link, depth: Depth::Queues, ..Options::default() });
        round(&mut queues, &events);
        group.bench_function(format!("{name}, {records} records to the queues"), |b| {
            b.iter(|| {
                queues.begin_round();
                measured(|| round(&mut queues, &events));
            });
        });
        group.bench_function(format!("{name}, whole"), |b| {
            b.iter(|| {
                measured(|| {
                    let mut replay = Replay::new(&head, Options { link, ..Options::default() });
                    events
                        .iter()
                        .try_for_each(|event| replay.handle_event(event))
                        .expect("a trace of the tree replays");
                    replay.finish().expect("a trace of the tree drains").hash
                })
            });
        });
    }
    group.finish();
}

criterion_group!(replay, benches);
criterion_main!(replay);
