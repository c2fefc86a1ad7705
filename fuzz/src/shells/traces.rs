//! A trace's file: it comes with a bug report and must not be trusted. Beside the path. What is
//! read is written back unchanged; another file is an error, never a panic. Knows the file and its
//! events; the target `records` tests their effect.

use thinc_region::{Rect, Size};
use thinc_trace::{
    Colors, Cursor, End, Event, EventReader, Head, Reader, Redactor, Summary, Writer,
};

/// Reads a file as `thinc trace` does; and the same bytes as an unpacked chunk, because no mutation
/// keeps a packed one valid.
pub fn trace(input: &[u8]) {
    if let Ok(mut reader) = Reader::new(input) {
        let mut events = Vec::new();
        while let Ok(Some(event)) = reader.event() {
            events.push(event);
        }
        assert!(reader.offset() <= input.len() as u64, "the offset passes the end of the file");
        let mut writer =
            Writer::new(Vec::new(), &reader.head()).expect("writing to a vector cannot fail");
        events
            .iter()
            .for_each(|event| writer.event(event).expect("writing to a vector cannot fail"));
        let again = writer.finish().expect("writing to a vector cannot fail");
        let mut reader = Reader::new(&again[..]).expect("the written file is a trace");
        for event in &events {
            assert_eq!(
                reader.event().expect("the written file is complete").as_ref(),
                Some(event),
                "an event changes when it is written and read"
            );
        }
    }
    chunk(input);
}

fn chunk(mut bytes: &[u8]) {
    let (mut reader, mut redactor, mut summary) =
        (EventReader::default(), Redactor::new(Colors::Replaced), Summary::default());
    while let Ok(Some((event, length))) = reader.next(bytes) {
        let mut again = Vec::new();
        event.encode(&mut again);
        assert_eq!(again.len(), length, "an event changes its length when it is written");
        summary.add(&event);
        let left = redactor.event(&event);
        assert!(!matches!(left, Some(Event::Pixels(..))), "a redacted trace has no pixels");
        bytes = &bytes[length..];
    }
}

/// A short trace with every kind of event, and its events without a file.
pub fn trace_seeds() -> Vec<Vec<u8>> {
    let mut record = [0; 64];
    (record[0], record[8]) = (1, 1);
    for (at, value) in [(24, 8u8), (28, 8), (32, 24), (36, 24)] {
        record[at] = value;
    }
    let rect = Rect::new(8, 8, 16, 12);
    let cursor = Cursor {
        serial: 1,
        size: Size { width: 2, height: 2 },
        pixels: vec![7; 4],
        ..Cursor::default()
    };
    let events = [
        Event::Poll(0),
        Event::Geometry { generation: 1, size: Size { width: 64, height: 48 } },
        Event::Cursor(cursor),
        Event::Records(vec![record; 2]),
        Event::Dirty(vec![rect]),
        Event::Pixels(rect, vec![0x00ff_8000; 32]),
        Event::Read(2),
        Event::Poll(1_000),
        Event::Gap { records: 5, rects: vec![rect] },
        Event::Read(9),
        Event::End(End::Requested),
    ];
    let mut writer =
        Writer::new(Vec::new(), &Head::default()).expect("writing to a vector cannot fail");
    let mut unframed = Vec::new();
    for event in &events {
        writer.event(event).expect("writing to a vector cannot fail");
        event.encode(&mut unframed);
    }
    vec![writer.finish().expect("writing to a vector cannot fail"), unframed]
}
