//! A trace's file: somebody sends it with a bug report, and whoever reads it must not trust it.
//! Beside the path. What is read is written back the same; a file that is no trace is an answer, never a panic.
//! Knows the file and its events; what they lead to, the target for records asks.

use thinc_region::{Rect, Size};
use thinc_trace::{Colors, Cursor, End, Event, EventReader, Head, Reader, Redactor, Summary, Writer};

/// A file as `thinc trace` opens it; and the same bytes as the unpacked chunk that no mutation would keep whole.
pub fn trace(input: &[u8]) {
    if let Ok(mut reader) = Reader::new(input) {
        let mut events = Vec::new();
        while let Ok(Some(event)) = reader.event() {
            events.push(event);
        }
        assert!(reader.offset() <= input.len() as u64, "more was read than there is");
        let mut writer = Writer::new(Vec::new(), &reader.head()).expect("a vector takes everything");
        events.iter().for_each(|event| writer.event(event).expect("a vector takes everything"));
        let again = writer.finish().expect("a vector takes everything");
        let mut reader = Reader::new(&again[..]).expect("what we write is a trace");
        for event in &events {
            assert_eq!(
                reader.event().expect("what we write is whole").as_ref(),
                Some(event),
                "an event reads back as another"
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
        assert_eq!(again.len(), length, "an event is written with another length");
        summary.add(&event);
        let left = redactor.event(&event);
        assert!(!matches!(left, Some(Event::Pixels(..))), "a redacted trace has no pixels");
        bytes = &bytes[length..];
    }
}

/// A short trace with every kind of event; and its events alone.
pub fn trace_seeds() -> Vec<Vec<u8>> {
    let mut record = [0; 64];
    (record[0], record[8]) = (1, 1);
    for (at, value) in [(24, 8u8), (28, 8), (32, 24), (36, 24)] {
        record[at] = value;
    }
    let rect = Rect::new(8, 8, 16, 12);
    let cursor = Cursor { serial: 1, size: Size { width: 2, height: 2 }, pixels: vec![7; 4], ..Cursor::default() };
    let events = [
        Event::Turn(0),
        Event::Geometry { generation: 1, size: Size { width: 64, height: 48 } },
        Event::Cursor(cursor),
        Event::Records(vec![record; 2]),
        Event::Dirty(vec![rect]),
        Event::Pixels(rect, vec![0x00ff_8000; 32]),
        Event::Read(2),
        Event::Turn(1_000),
        Event::Gap { records: 5, rects: vec![rect] },
        Event::Read(9),
        Event::End(End::Asked),
    ];
    let mut writer = Writer::new(Vec::new(), &Head::default()).expect("a vector takes everything");
    let mut alone = Vec::new();
    for event in &events {
        writer.event(event).expect("a vector takes everything");
        event.encode(&mut alone);
    }
    vec![writer.finish().expect("a vector takes everything"), alone]
}
