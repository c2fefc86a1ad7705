//! The file: what is written is read back; damage and truncation are reported with their offset,
//! and everything before is used. Tests file.rs and event.rs through their public interfaces.

use proptest::prelude::*;
use thinc_region::{Rect, Size};
use thinc_trace::{Cursor, End, Event, Head, Reader, RecordBytes, TraceError, Unreadable, Writer};

const SIZE: Size = Size { width: 200, height: 100 };

fn record(op: u64, rect: [u8; 4]) -> RecordBytes {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&op.to_le_bytes());
    (bytes[8], bytes[10]) = (1, 4);
    for (at, edge) in [24, 28, 32, 36].into_iter().zip(rect) {
        bytes[at] = edge;
    }
    bytes
}

fn rects() -> impl Strategy<Value = Rect> {
    (0..199i32, 0..99i32, 1..40i32, 1..40i32)
        .prop_map(|(x, y, width, height)| Rect::at(x, y, width, height).intersect(&SIZE.rect()))
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (1..200u64, 1..9u8).prop_map(|(op, edge)| Event::Records(vec![
            record(op, [0, 0, edge, 7]);
            usize::from(edge)
        ])),
        (rects(), any::<u32>()).prop_map(|(rect, pixel)| {
            Event::Pixels(
                rect,
                (0..rect.area() as u32).map(|i| pixel.wrapping_mul(i) & 0x00ff_ffff).collect(),
            )
        }),
        prop::collection::vec(rects(), 0..5).prop_map(Event::Dirty),
        (any::<u64>(), prop::collection::vec(rects(), 0..5))
            .prop_map(|(records, rects)| Event::Gap { records, rects }),
        any::<u64>().prop_map(Event::Read),
        (any::<(u32, u32, bool)>(), any::<Option<(u32, u32)>>()).prop_map(
            |((serial, warps, visible), two_colors)| {
                let size = Size { width: 3, height: 2 };
                let (at, hot, pixels) = ((-5, 7), (1, 2), vec![serial, 1, 2, 0, 0, warps]);
                Event::Cursor(Cursor { serial, warps, at, hot, size, visible, two_colors, pixels })
            }
        ),
    ];
    prop::collection::vec(event, 0..40).prop_map(|events| {
        let first = [Event::Poll(5), Event::Geometry { generation: 1, size: SIZE }];
        first.into_iter().chain(events).chain([Event::End(End::Session)]).collect()
    })
}

fn write(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Head::default()).unwrap();
    events.iter().for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap()
}

/// Every event before the first error, and the error.
fn read(bytes: &[u8]) -> (Vec<Event>, Option<TraceError>) {
    let mut events = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (events, Some(error)),
    };
    loop {
        match reader.event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

/// Three chunks: the middle one is larger than a writer's buffer.
fn three_chunks() -> (Vec<u8>, Vec<Event>) {
    let size = Size { width: 1024, height: 1024 };
    let noise = |i: u32| i.wrapping_mul(2_654_435_761) & 0x00ff_ffff;
    let strip = |y| Event::Pixels(Rect::at(0, y, 1024, 200), (0..1024 * 200).map(noise).collect());
    let mut events = vec![Event::Poll(0), Event::Geometry { generation: 1, size }];
    events.extend([strip(0), strip(200), strip(400), Event::Read(1), Event::End(End::Requested)]);
    (write(&events), events)
}

proptest! {
    #[test]
    fn written_events_are_read_back(events in events()) {
        let (read, fault) = read(&write(&events));
        prop_assert!(fault.is_none(), "{:?}", fault);
        prop_assert_eq!(read, events);
    }

    #[test]
    fn a_truncated_file_gives_all_events_before_its_end(
        events in events(),
        part in 0.0..1.0f64,
    ) {
        let bytes = write(&events);
        let cut = (bytes.len() as f64 * part) as usize;
        let (read, fault) = read(&bytes[..cut]);
        let fault = fault.expect("truncation is detected");
        prop_assert!(fault.offset <= cut as u64);
        prop_assert_eq!(&read[..], &events[..read.len()]);
    }

    #[test]
    fn a_changed_byte_is_detected_or_has_no_effect(
        events in events(),
        part in 0.0..1.0f64,
        bit in 0..8u32,
    ) {
        let mut bytes = write(&events);
        let at = (bytes.len() as f64 * part) as usize;
        bytes[at] ^= 1 << bit;
        let (read, fault) = read(&bytes);
        // The previous ABI is read as well, by its own rules.
        prop_assume!(fault.is_some() || !(12..16).contains(&at));
        // The head's flags and its spare word do not affect events.
        prop_assert!(fault.is_some() || (16..24).contains(&at), "the change of byte {} was not \
            noticed", at);
        prop_assert_eq!(&read[..], &events[..read.len()]);
    }
}

#[test]
fn events_before_a_damaged_chunk_are_used() {
    let (mut bytes, events) = three_chunks();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let (read, fault) = read(&bytes);
    let fault = fault.unwrap();
    assert!(matches!(fault.why, Unreadable::Damaged), "{fault}");
    assert_eq!(read, events[..4], "two strips are in the first chunk");
    assert!(
        fault.to_string().starts_with(&format!("at byte {}: a chunk is damaged", fault.offset)),
        "{fault}"
    );
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let why = |bytes: &[u8]| read(bytes).1.unwrap().to_string();
    assert_eq!(why(b""), "at byte 0: this is not a trace of thinc");
    assert_eq!(
        why(b"\x7fELF and more of it, longer than a head"),
        "at byte 0: this is not a trace of thinc"
    );
    assert_eq!(why(b"THINCTRC\x01\0"), "at byte 10: the file ends in the middle of its head");
    let head = write(&[])[..24].to_vec();
    assert_eq!(why(&head), "at byte 24: the recording is incomplete: it has no end");
    let other = |at: usize| {
        let mut bytes = head.clone();
        bytes[at] = 99;
        why(&bytes)
    };
    assert!(other(8).starts_with("at byte 8: the trace has format 99;"), "{}", other(8));
    assert!(
        other(12).starts_with("at byte 12: its records have version 99 of the driver's ABI;"),
        "{}",
        other(12)
    );
    let mut long = head.clone();
    long.extend([0xff; 16]);
    assert!(why(&long).contains("invalid lengths"), "{}", why(&long));
}

#[test]
fn invalid_events_are_refused() {
    let geometry = Event::Geometry { generation: 1, size: SIZE };
    let outside = Event::Pixels(Rect::at(199, 0, 2, 1), vec![1, 2]);
    let mut wrong = record(1, [9, 0, 8, 7]);
    wrong[16] = 0;
    for (events, words) in [
        (vec![outside.clone()], "a rectangle is empty or outside the screen"),
        (vec![geometry.clone(), outside], "a rectangle is empty or outside the screen"),
        (vec![Event::Poll(2), Event::Poll(1)], "a poll is earlier than the one before"),
        (vec![Event::End(End::Requested), Event::Read(1)], "an event follows the end"),
        (vec![geometry, Event::Records(vec![record(1, [0, 0, 8, 7]), wrong])], "record 1 of a run"),
    ] {
        let (_, fault) = read(&write(&events));
        let fault = fault.unwrap().to_string();
        assert!(fault.contains(words), "{fault}");
    }
}
