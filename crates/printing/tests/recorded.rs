//! What real programs send, recorded from CUPS 2.4's `lp`, LibreOffice 7.4, GTK 3.24, Chromium 156
//! and Firefox 153 and replayed. Beside the path. Knows the recordings: requests one after the
//! other, without HTTP and documents.

use thinc_printing::ipp::{ANSWER_LIMITS, Message, REQUEST_LIMITS, group};
use thinc_printing::link;
use thinc_printing::{Action, Paper, Printer, Reply, Sides, Ticket};

const A4: &str = "iso_a4_210x297mm";

/// Replays a recording; what the session process is told to print.
fn replay(bytes: &[u8]) -> Ticket {
    let mut requests = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (request, length) =
            Message::decode(rest, REQUEST_LIMITS).unwrap().expect("the recording is whole");
        assert_eq!(request.encode(), rest[..length]);
        requests.push(request);
        rest = &rest[length..];
    }
    // Its job gets the number that it had.
    let number = |request: &Message| request.group(group::OPERATION)?.number("job-id");
    let recorded = requests.iter().find_map(number).unwrap_or(1_000_001);
    let now = u64::from(recorded) - 1_000_001;
    let mut printer = Printer::new(Paper::of_locale("de_DE"), now);
    let mut told = Vec::new();
    for request in &requests {
        let answer = match printer.handle(request, now) {
            Reply::Answer(answer) => answer,
            Reply::Document { number, .. } => {
                printer.handle_document(request, number, Ok(1000), now)
            }
            Reply::Forward | Reply::Merge => printer.alone(request, now),
        };
        // 1: Chromium sends what the printer said of itself among its options.
        assert!(answer.code <= 1, "{:#x} is refused: {answer:?}", request.code);
        let bytes = answer.encode();
        assert!(Message::decode(&bytes, ANSWER_LIMITS).unwrap().is_some());
        told.extend(std::iter::from_fn(|| printer.poll_action()));
    }
    match told.as_slice() {
        [Action::Tell(link::Message::Job(document))] => document.ticket.clone(),
        other => panic!("one document is printed, not {other:?}"),
    }
}

#[test]
fn real_programs_print() {
    let lp = replay(include_bytes!("recorded/lp.ipp"));
    assert_eq!((lp.title.as_str(), lp.copies, lp.sides), ("My report", 2, Sides::LongEdge));
    assert_eq!(lp.media, "iso_a5_148x210mm");
    let office = replay(include_bytes!("recorded/libreoffice.ipp"));
    assert_eq!((office.title.as_str(), office.copies), ("doc.txt", 1));
    assert_eq!((office.sides, office.media.as_str()), (Sides::One, A4));
    let gtk = replay(include_bytes!("recorded/gtk.ipp"));
    assert_eq!((gtk.title.as_str(), gtk.copies), ("GTK page", 2));
    let chromium = replay(include_bytes!("recorded/chromium.ipp"));
    assert_eq!((chromium.title.as_str(), chromium.copies), ("Chromium page", 1));
    let firefox = replay(include_bytes!("recorded/firefox.ipp"));
    assert_eq!((firefox.title.as_str(), firefox.media.as_str()), ("Firefox page", A4));
}
