//! The printer: whatever a program sends as IPP, or another server answers, and whatever the desk
//! and the session process say to each other. Beside the path. Knows thinc-printing's public
//! interface.

use thinc_printing::ipp::{
    ANSWER_LIMITS, Attribute, Group, Message, REQUEST_LIMITS, Value, group, tag,
};
use thinc_printing::link::{self, MESSAGE_BYTES_MAX, State};
use thinc_printing::{
    Action, DocumentError, JOBS_WAITING_MAX, Paper, Printer, Reply, Sides, Ticket, file_name,
};

/// Requests of a program, one after the other; what is no request ends them.
pub fn ipp(input: &[u8]) {
    run(input);
}

/// How many documents were accepted.
fn run(input: &[u8]) -> usize {
    let mut now = 1_800_000_000;
    let mut printer = Printer::new(Paper::of_locale("en_US"), now);
    let (mut rest, mut accepted) = (input, 0);
    while let Ok(Some((request, length))) = Message::decode(rest, REQUEST_LIMITS) {
        assert_eq!(request.encode(), rest[..length], "what is read is written back");
        rest = &rest[length..];
        now += 7;
        printer.handle_timeout(now);
        let answer = match printer.handle(&request, now) {
            Reply::Answer(answer) => answer,
            Reply::Document { number, file } => {
                assert_eq!(file_name(&file), file, "a document's name leads nowhere");
                let stored = match number % 3 {
                    0 => Err(DocumentError::NotPdf),
                    _ => Ok(1000),
                };
                printer.handle_document(&request, number, stored, now)
            }
            Reply::Forward => printer.alone(&request, now),
            // What another server would answer is what this program says.
            Reply::Merge => match Message::decode(rest, ANSWER_LIMITS) {
                Ok(Some((theirs, _))) => printer.merge(&request, theirs, now),
                _ => printer.alone(&request, now),
            },
        };
        let bytes = answer.encode();
        let read = Message::decode(&bytes, ANSWER_LIMITS);
        assert_eq!(read, Ok(Some((answer, bytes.len()))), "programs can read the answer");
        while let Some(action) = printer.poll_action() {
            let Action::Tell(message) = action else { continue };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() <= MESSAGE_BYTES_MAX, "the reader's buffer holds it");
            let read = link::Message::decode(&bytes);
            assert_eq!(read, Ok(Some((message.clone(), bytes.len()))), "the session reads it");
            if let link::Message::Job(document) = message {
                accepted += 1;
                if document.number % 2 == 0 {
                    printer.handle_state(document.number, State::Done, "done", now);
                }
            }
        }
        assert!(printer.documents().count() <= JOBS_WAITING_MAX, "jobs are bounded");
    }
    accepted
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.to_owned(), values: vec![value] }
}

fn request(code: u16, uri: (&str, &str), more: Vec<Attribute>) -> Vec<u8> {
    let mut attributes = vec![
        attribute("attributes-charset", Value::text(tag::CHARSET, "utf-8")),
        attribute(uri.0, Value::text(tag::URI, uri.1)),
    ];
    attributes.extend(more);
    let options = vec![
        attribute("copies", Value::number(tag::INTEGER, 2)),
        attribute("sides", Value::text(tag::KEYWORD, "two-sided-long-edge")),
        attribute("media-col", Value { tag: 0x34, bytes: Vec::new() }),
    ];
    let groups = vec![
        Group { tag: group::OPERATION, attributes },
        Group { tag: group::JOB, attributes: options },
    ];
    Message { version: [2, 0], code, request: 1, groups }.encode()
}

/// Each operation; a job from its creation to its end.
pub fn ipp_seeds() -> Vec<Vec<u8>> {
    let to_printer = ("printer-uri", "ipp://localhost/printers/thinc");
    let to_all = ("printer-uri", "ipp://localhost/");
    let first = format!("ipp://localhost/jobs/{}", 1_000_000 + 800_000_001);
    let to_job = ("job-uri", first.as_str());
    let title = || vec![attribute("job-name", Value::text(tag::NAME, "Report"))];
    let mut job = request(0x0005, to_printer, title());
    for code in [0x0006, 0x0009, 0x0008] {
        job.extend(request(code, to_job, Vec::new()));
    }
    assert_eq!(run(&job), 1, "its document must be accepted");
    let mut lists = request(0x4002, to_all, Vec::new());
    for code in [0x4001, 0x4005, 0x000a, 0x000b, 0x0004, 0x0038] {
        lists.extend(request(code, to_all, Vec::new()));
        lists.extend(request(code, to_printer, Vec::new()));
    }
    let mut many = Vec::new();
    for _ in 0..20 {
        many.extend(request(0x0002, to_printer, title()));
    }
    vec![job, lists, many]
}

/// Messages between the desk and the session process.
pub fn print_link(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((message, length))) = link::Message::decode(rest) {
        assert!(length <= MESSAGE_BYTES_MAX, "the reader's buffer holds it");
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        // A colour is any byte that is not 0.
        let again = link::Message::decode(&bytes);
        assert_eq!(again, Ok(Some((message.clone(), bytes.len()))), "it is written as it was read");
        if let link::Message::Job(document) = &message {
            assert_eq!(file_name(&document.file), document.file, "it leads out of the spool");
        }
        rest = &rest[length..];
    }
}

/// Each kind of message.
pub fn print_link_seeds() -> Vec<Vec<u8>> {
    let ticket = Ticket {
        title: "Report".to_owned(),
        copies: 2,
        sides: Sides::LongEdge,
        colour: true,
        media: "iso_a4_210x297mm".to_owned(),
    };
    let file = "Report.pdf".to_owned();
    let job = link::Message::Job(link::Document { number: 7, ticket, file });
    let state = |state| link::Message::State { number: 7, state, words: "words".to_owned() };
    let encode = |messages: &[link::Message]| {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut bytes));
        bytes
    };
    vec![
        encode(&[job, link::Message::Cancel(7)]),
        encode(&[State::Waiting, State::Sending, State::Done].map(state)),
        encode(&[State::Unwanted, State::Failed].map(state)),
    ]
}
