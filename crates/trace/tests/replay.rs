//! Replays of the traces in traces/, and of small ones that are each wrong in one way. Tests
//! replay.rs and redact.rs; the traced screen is compared with viewer-core's framebuffer.

use std::fs;
use std::path::{Path, PathBuf};

use thinc_region::{Rect, Size};
use thinc_session_core::Scheduling;
use thinc_trace::{
    Colors, Cursor, Depth, End, Event, Head, Options, Reader, RecordBytes, Redactor, Replay,
    ReplayError, Report, Writer,
};

const SIZE: Size = Size { width: 320, height: 200 };

fn traces() -> Vec<(PathBuf, Head, Vec<Event>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "trace"));
    paths.sort();
    assert!(paths.len() >= 2, "traces/ has too few traces: {paths:?}");
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut events = Vec::new();
        while let Some(event) = reader.event().unwrap() {
            events.push(event);
        }
        (path, reader.head(), events)
    };
    paths.into_iter().map(read).collect()
}

fn replay(
    head: &Head,
    events: &[Event],
    options: Options,
    rounds: u32,
) -> Result<Report, ReplayError> {
    let mut replay = Replay::new(head, options);
    for round in 0..rounds {
        if round > 0 {
            replay.begin_round();
        }
        events.iter().try_for_each(|event| replay.handle_event(event))?;
    }
    replay.finish()
}

fn verified() -> Options {
    Options { verify: true, ..Options::default() }
}

#[test]
fn every_trace_is_shown_exactly_with_any_link_and_scheduling() {
    for (path, head, events) in traces() {
        assert!(head.redacted, "{}: traces in the tree must be redacted", path.display());
        let slow = "2mbit,80ms".parse().unwrap();
        for (case, options) in [
            ("near", verified()),
            ("far and slow", Options { link: slow, ..verified() }),
            ("oldest first", Options { scheduling: Scheduling::Fifo, link: slow, ..verified() }),
            ("without pixmaps", Options { offscreen: false, ..verified() }),
        ] {
            let report = replay(&head, &events, options, 1)
                .unwrap_or_else(|error| panic!("{}, {case}: {error}", path.display()));
            assert!(
                report.verified.end && report.verified.comparisons > 0,
                "{}, {case}: {:?}",
                path.display(),
                report.verified
            );
            assert_eq!(
                report.sent.proposals.refuted,
                0,
                "{}, {case}: a hint was wrong",
                path.display()
            );
        }
    }
}

#[test]
fn a_replay_is_the_same_each_time_and_depends_on_its_options() {
    for (path, head, events) in traces() {
        let run = |options| {
            let report = replay(&head, &events, options, 1).unwrap();
            (report.hash, report.sent.bytes, report.sent.updates, report.duration)
        };
        assert_eq!(run(Options::default()), run(Options::default()), "{}", path.display());
        let far = Options { link: "10mbit,40ms".parse().unwrap(), ..Options::default() };
        assert_ne!(
            run(Options::default()),
            run(far),
            "{}: acknowledgements arrive later",
            path.display()
        );
    }
}

#[test]
fn a_trace_can_be_repeated_and_stopped() {
    let (_, head, events) = traces().pop().unwrap();
    let once = replay(&head, &events, verified(), 1).unwrap();
    let thrice = replay(&head, &events, verified(), 3).unwrap();
    assert_eq!((thrice.records, thrice.rounds), (once.records * 3, 3));
    assert!(thrice.verified.end);
    for depth in [Depth::Viewer, Depth::Queues] {
        let records_max = once.records + 7;
        let report =
            replay(&head, &events, Options { records_max, depth, ..Options::default() }, 3)
                .unwrap();
        assert_eq!(report.records, records_max);
    }
}

#[test]
fn scrolls_are_still_scrolls_in_a_redacted_trace() {
    let (_, head, events) =
        traces().into_iter().find(|(path, ..)| path.ends_with("xterm.trace")).unwrap();
    let report = replay(&head, &events, verified(), 1).unwrap();
    assert!(report.sent.copies > 100, "150 lines scrolled, but only {} COPYs", report.sent.copies);
    // The window has 110 × 40 characters and scrolls for each line: as pixels it would be
    // megabytes.
    assert!(report.sent.bytes < 1_000_000, "{} bytes", report.sent.bytes);
}

// ---- small traces -------------------------------------------------------------------------------

fn record(op: u64, kind: u8, what: u8, rect: Rect, window: u32, arg: u32) -> RecordBytes {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&op.to_le_bytes());
    (bytes[8], bytes[10]) = (kind, what);
    bytes[12..16].copy_from_slice(&window.to_le_bytes());
    for (at, edge) in [24, 28, 32, 36].into_iter().zip([rect.x1, rect.y1, rect.x2, rect.y2]) {
        bytes[at..at + 4].copy_from_slice(&edge.to_le_bytes());
    }
    bytes[48..52].copy_from_slice(&arg.to_le_bytes());
    bytes
}

const DRAW: u8 = 1;
const IDLE: u8 = 7;
const INPUT: u8 = 11;
const SOLID: u8 = 1;
const IMAGE: u8 = 4;

fn idle(op: u64) -> RecordBytes {
    record(op, IDLE, 0, Rect::default(), 0, 0)
}

/// Noise that never repeats.
fn noise(rect: Rect, seed: u32) -> Vec<u32> {
    (0..rect.area() as u32).map(|i| (i ^ seed).wrapping_mul(0x9e37_79b1) >> 8).collect()
}

/// An image, then a key and another image a hundred times, at irregular times.
fn images() -> Vec<Event> {
    let (all, rect) = (SIZE.rect(), Rect::at(40, 30, 64, 48));
    let cursor = Cursor {
        serial: 1,
        at: (133, 77),
        size: Size { width: 8, height: 8 },
        visible: true,
        pixels: noise(Rect::at(0, 0, 8, 8), 999),
        ..Cursor::default()
    };
    let mut events =
        vec![Event::Poll(0), Event::Geometry { generation: 1, size: SIZE }, Event::Cursor(cursor)];
    events.extend([
        Event::Records(vec![idle(1)]),
        Event::Pixels(all, noise(all, 0)),
        Event::Read(1),
    ]);
    for i in 1..=100u64 {
        let (op, fill) = (i * 2, Rect::at(200, 100, 30, 20));
        let color = 0x0012_3456 + i as u32;
        events.push(Event::Poll(i * 37_123 + i % 7 * 911));
        events.push(Event::Records(vec![
            record(op, INPUT, 0, Rect::default(), 0x0040_0007, i as u32),
            record(op, DRAW, IMAGE, rect, 0x0040_0007, 0),
            record(op + 1, DRAW, SOLID, fill, 0x0040_0007, color),
            idle(op + 1),
        ]));
        events.push(Event::Pixels(rect, noise(rect, i as u32)));
        events.push(Event::Pixels(fill, vec![color; fill.area() as usize]));
        events.push(Event::Read(op + 1));
    }
    events.push(Event::End(End::Requested));
    events
}

#[test]
fn a_trace_with_its_pixels_is_shown_exactly() {
    let report = replay(&Head::default(), &images(), verified(), 2).unwrap();
    assert!(report.verified.end && report.verified.comparisons > 100, "{:?}", report.verified);
    assert_eq!(report.shown.cursors, 1);
}

#[test]
fn a_changed_pixel_without_a_record_is_found() {
    let mut events = images();
    let at = events.len() - 2;
    events.insert(at, Event::Pixels(Rect::at(5, 7, 1, 1), vec![0x00ff_00ff]));
    let error = replay(&Head::default(), &events, verified(), 1).unwrap_err();
    assert!(
        matches!(error, ReplayError::Differs { x: 5, y: 7, screen: 0x00ff_00ff, count: 1, .. }),
        "{error}"
    );
}

#[test]
fn the_rectangles_of_a_gap_are_read_again() {
    let mut events = images();
    let lost = Rect::at(0, 150, 320, 50);
    let gap = [
        Event::Poll(9_000_000),
        Event::Gap { records: 1000, rects: vec![lost] },
        Event::Pixels(lost, noise(lost, 5000)),
        Event::Read(1_201),
        Event::Poll(9_100_000),
        Event::Records(vec![idle(1_201)]),
        Event::Read(1_201),
    ];
    let at = events.len() - 1;
    events.splice(at..at, gap);
    assert!(replay(&Head::default(), &events, verified(), 1).unwrap().verified.end);
}

// ---- redaction ----------------------------------------------------------------------------------

fn redacted(events: &[Event], colors: Colors) -> Vec<Event> {
    let mut redactor = Redactor::new(colors);
    events.iter().filter_map(|event| redactor.event(event)).collect()
}

fn bytes_of(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    events.iter().for_each(|event| event.encode(&mut bytes));
    bytes
}

#[test]
fn a_redacted_trace_contains_no_eight_bytes_of_the_content() {
    let events = images();
    let mut content = std::collections::HashSet::new();
    for event in &events {
        let pixels = match event {
            // A plain area of one colour has no eight bytes of content of its own: see the colours
            // below.
            Event::Pixels(rect, pixels) if rect.width() != 30 => pixels,
            Event::Cursor(cursor) => &cursor.pixels,
            _ => continue,
        };
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        content.extend(bytes.windows(8).map(<[u8]>::to_vec));
    }
    let left = redacted(&events, Colors::Replaced);
    let mut writer = Writer::new(Vec::new(), &Head { redacted: true, colors_kept: false }).unwrap();
    left.iter().for_each(|event| writer.event(event).unwrap());
    let found = |bytes: &[u8]| {
        bytes.windows(8).find(|window| content.contains(*window)).map(<[u8]>::to_vec)
    };
    assert!(found(&bytes_of(&events)).is_some(), "the original trace has them");
    assert_eq!(found(&bytes_of(&left)), None, "in the events");
    assert_eq!(found(&writer.finish().unwrap()), None, "in the file");
}

#[test]
fn a_redacted_trace_contains_no_windows_keys_colors_or_times() {
    let left = redacted(&images(), Colors::Replaced);
    let bytes = bytes_of(&left);
    assert!(
        !bytes.windows(4).any(|word| word == 0x0040_0007u32.to_le_bytes()),
        "the window's number"
    );
    let mut inputs = 0;
    let mut times = Vec::new();
    for event in &left {
        match event {
            Event::Poll(at) => times.push(*at),
            Event::Records(records) => {
                inputs += records.iter().filter(|record| record[8] == INPUT).count();
                for fill in records.iter().filter(|record| record[8] == DRAW && record[10] == SOLID)
                {
                    let color = u32::from_le_bytes([fill[48], fill[49], fill[50], fill[51]]);
                    assert!(
                        !(0x0012_3456..0x0012_3456 + 200).contains(&color),
                        "{color:06x} was on the screen"
                    );
                }
            }
            _ => {}
        }
    }
    assert_eq!(inputs, 4, "one in each of four seconds, of a hundred keys");
    // Within a second only the order is kept: the steps are equal whatever the rhythm was.
    for pair in times.windows(2).filter(|pair| pair[0] / 1_000_000 == pair[1] / 1_000_000) {
        assert_eq!(pair[1] - pair[0], 1_000);
    }
    let kept = bytes_of(&redacted(&images(), Colors::Kept));
    assert!(
        kept.windows(4).any(|word| word == 0x0012_3457u32.to_le_bytes()),
        "colours are kept on request"
    );
}

#[test]
fn unused_bytes_of_a_record_are_dropped() {
    let mut event = record(1, DRAW, IMAGE, Rect::at(0, 0, 9, 9), 1, 0);
    event[40..64].fill(0xab);
    let left = redacted(&[Event::Records(vec![event])], Colors::Kept);
    assert!(!bytes_of(&left).contains(&0xab), "unused bytes of an image's record are kept");
}

#[test]
fn a_redacted_trace_is_shown_exactly_too() {
    let head = Head { redacted: true, colors_kept: false };
    let report = replay(&head, &redacted(&images(), Colors::Replaced), verified(), 2).unwrap();
    assert!(report.verified.end && report.verified.comparisons > 0);
    assert!(
        report.sent.bytes > 100_000,
        "images must still be images: {} bytes",
        report.sent.bytes
    );
}
