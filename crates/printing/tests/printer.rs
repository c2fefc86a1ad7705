//! The printer as programs and the session process see it: requests, jobs from their document to
//! their end, limits, and the printers of the system beside it. Knows IPP by thinc-printing's
//! public interface.

use thinc_printing::ipp::{Attribute, Group, Message, Value, group, tag};
use thinc_printing::link::{self, State};
use thinc_printing::{Action, DocumentError, JOBS_WAITING_MAX, Paper, Printer, Reply, Sides};

const PRINTER_URI: &str = "ipp://localhost/printers/thinc";
const NOW: u64 = 1_800_000_000;

const PRINT_JOB: u16 = 0x0002;
const VALIDATE_JOB: u16 = 0x0004;
const CREATE_JOB: u16 = 0x0005;
const SEND_DOCUMENT: u16 = 0x0006;
const CANCEL_JOB: u16 = 0x0008;
const CANCEL_JOBS: u16 = 0x0038;
const CANCEL_MY_JOBS: u16 = 0x0039;
const GET_JOB_ATTRIBUTES: u16 = 0x0009;
const GET_JOBS: u16 = 0x000a;
const GET_PRINTER_ATTRIBUTES: u16 = 0x000b;
const GET_DEFAULT: u16 = 0x4001;
const GET_PRINTERS: u16 = 0x4002;
const GET_CLASSES: u16 = 0x4005;

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.to_owned(), values: vec![value] }
}

fn request(code: u16, operation: Vec<Attribute>, options: Vec<Attribute>) -> Message {
    let mut attributes = vec![
        attribute("attributes-charset", Value::text(tag::CHARSET, "utf-8")),
        attribute("attributes-natural-language", Value::text(tag::LANGUAGE, "en")),
    ];
    attributes.extend(operation);
    let mut groups = vec![Group { tag: group::OPERATION, attributes }];
    if !options.is_empty() {
        groups.push(Group { tag: group::JOB, attributes: options });
    }
    Message { version: [2, 0], code, request: 5, groups }
}

fn to_printer(code: u16) -> Message {
    let uri = attribute("printer-uri", Value::text(tag::URI, PRINTER_URI));
    request(code, vec![uri], Vec::new())
}

fn to_job(code: u16, number: u32) -> Message {
    let uri = format!("ipp://localhost/jobs/{number}");
    request(code, vec![attribute("job-uri", Value::text(tag::URI, &uri))], Vec::new())
}

fn named(mut message: Message, name: &str, value: Value) -> Message {
    message.groups[0].attributes.push(attribute(name, value));
    message
}

fn printer() -> Printer {
    Printer::new(Paper::of_locale("de_DE"), NOW)
}

fn answered(printer: &mut Printer, request: &Message) -> Message {
    match printer.handle(request, NOW) {
        Reply::Answer(answer) => {
            assert_eq!((answer.request, answer.version), (5, [2, 0]));
            answer
        }
        other => panic!("it is answered at once, not {other:?}"),
    }
}

fn actions(printer: &mut Printer) -> Vec<Action> {
    std::iter::from_fn(|| printer.poll_action()).collect()
}

/// A job whose document is there, and its number.
fn print(printer: &mut Printer, title: &str) -> u32 {
    let title = Value::text(tag::NAME, title);
    let request = named(to_printer(PRINT_JOB), "job-name", title);
    let Reply::Document { number, .. } = printer.handle(&request, NOW) else {
        panic!("the document is wanted")
    };
    let answer = printer.handle_document(&request, number, Ok(1000), NOW);
    assert_eq!(answer.code, 0);
    number
}

/// State and message of a job.
fn state(printer: &mut Printer, number: u32) -> (u32, String) {
    let answer = answered(printer, &to_job(GET_JOB_ATTRIBUTES, number));
    let job = answer.group(group::JOB).expect("there is such a job");
    let words = job.text("job-state-message").unwrap().to_owned();
    (job.number("job-state").unwrap(), words)
}

#[test]
fn programs_find_the_printer_as_the_default() {
    let mut printer = printer();
    for code in [GET_DEFAULT, GET_PRINTER_ATTRIBUTES] {
        let answer = answered(&mut printer, &to_printer(code));
        let found = answer.group(group::PRINTER).unwrap();
        assert_eq!(found.text("printer-name"), Some("thinc"));
        assert_eq!(found.text("printer-uri-supported"), Some(PRINTER_URI));
        assert_eq!(found.text("media-default"), Some("iso_a4_210x297mm"));
        let bits = found.number("printer-type").unwrap();
        assert_eq!(bits & 0x2_0000, 0x2_0000, "GTK chooses it for this bit");
    }
    // Only what is asked for.
    let wanted = Value::text(tag::KEYWORD, "printer-state");
    let few = named(to_printer(GET_PRINTER_ATTRIBUTES), "requested-attributes", wanted);
    let answer = answered(&mut printer, &few);
    let names: Vec<&str> =
        answer.group(group::PRINTER).unwrap().attributes.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["printer-state"]);
}

#[test]
fn a_document_goes_to_the_session_with_its_options() {
    let mut printer = printer();
    let mut create =
        named(to_printer(CREATE_JOB), "job-name", Value::text(tag::NAME, "../../Quarterly report"));
    create.groups.push(Group {
        tag: group::JOB,
        attributes: vec![
            attribute("copies", Value::number(tag::INTEGER, 2)),
            attribute("Duplex", Value::text(tag::KEYWORD, "DuplexTumble")),
            attribute("PageSize", Value::text(tag::KEYWORD, "Letter")),
        ],
    });
    let created = answered(&mut printer, &create);
    let number = created.group(group::JOB).unwrap().number("job-id").unwrap();
    assert_eq!(state(&mut printer, number).0, 4, "its document is awaited");
    let send = to_job(SEND_DOCUMENT, number);
    let Reply::Document { file, .. } = printer.handle(&send, NOW) else {
        panic!("the document is wanted")
    };
    assert_eq!(file, "Quarterly report.pdf");
    assert_eq!(state(&mut printer, number).0, 3);
    assert_eq!(actions(&mut printer), []);
    assert_eq!(printer.handle_document(&send, number, Ok(5000), NOW).code, 0);
    let told = actions(&mut printer);
    let [Action::Tell(link::Message::Job(document))] = told.as_slice() else {
        panic!("the session is told: {told:?}")
    };
    assert_eq!((document.number, document.file.as_str()), (number, file.as_str()));
    let ticket = &document.ticket;
    assert_eq!((ticket.copies, ticket.sides, ticket.colour), (2, Sides::ShortEdge, true));
    assert_eq!(ticket.media, "na_letter_8.5x11in");
    // Its way through the session, as programs see it.
    for (told, state_is) in [(State::Waiting, 3), (State::Sending, 5)] {
        printer.handle_state(number, told, "words", NOW);
        assert_eq!(state(&mut printer, number), (state_is, "words".to_owned()));
        assert_eq!(actions(&mut printer), []);
    }
    printer.handle_session_gone();
    assert_eq!(state(&mut printer, number).0, 3, "it waits for the next session process");
    assert_eq!(printer.documents().next().as_ref(), Some(document));
    printer.handle_state(number, State::Done, "The viewer has it", NOW);
    assert_eq!(state(&mut printer, number), (9, "The viewer has it".to_owned()));
    assert_eq!(actions(&mut printer), [Action::Remove(number)]);
    printer.handle_state(number, State::Failed, "too late", NOW);
    assert_eq!(state(&mut printer, number).0, 9, "an end is one");
    assert_eq!(printer.documents().count(), 0);
}

#[test]
fn what_cannot_be_printed_is_refused_in_words() {
    for (error, status, says) in [
        (DocumentError::NotPdf, 0x040a, "not PDF"),
        (DocumentError::Empty, 0x0400, "empty"),
        (DocumentError::TooLarge, 0x0408, "256 MiB"),
        (DocumentError::Broken, 0x0400, "whole"),
        (DocumentError::Disk("read-only".to_owned()), 0x0500, "read-only"),
        (DocumentError::Full("1 GiB stays free".to_owned()), 0x0505, "1 GiB stays free"),
    ] {
        let mut printer = printer();
        let request = to_printer(PRINT_JOB);
        let Reply::Document { number, .. } = printer.handle(&request, NOW) else {
            panic!("the document is wanted")
        };
        let answer = printer.handle_document(&request, number, Err(error), NOW);
        assert_eq!(answer.code, status);
        let words = answer.group(group::OPERATION).unwrap().text("status-message").unwrap();
        assert!(words.contains(says), "{words}");
        assert_eq!(state(&mut printer, number), (8, words.to_owned()));
        assert_eq!(actions(&mut printer), [Action::Remove(number)]);
    }
    let mut printer = printer();
    let compressed = named(to_printer(PRINT_JOB), "compression", Value::text(tag::KEYWORD, "gzip"));
    assert_eq!(answered(&mut printer, &compressed).code, 0x040f);
    let text = Value::text(tag::MIME_TYPE, "text/plain");
    let validate = named(to_printer(VALIDATE_JOB), "document-format", text);
    assert_eq!(answered(&mut printer, &validate).code, 0x040a);
    assert_eq!(answered(&mut printer, &to_printer(VALIDATE_JOB)).code, 0);
    assert_eq!(answered(&mut printer, &to_printer(0x3fff)).code, 0x0501);
    assert_eq!(answered(&mut printer, &to_job(GET_JOB_ATTRIBUTES, 1_000_000)).code, 0x0406);
    let mut old = to_printer(PRINT_JOB);
    old.version = [3, 0];
    let Reply::Answer(answer) = printer.handle(&old, NOW) else { panic!("it is refused") };
    assert_eq!(answer.code, 0x0503);
}

#[test]
fn jobs_are_bounded_and_a_job_has_one_document_in_time() {
    let mut printer = printer();
    let numbers: Vec<u32> = (0..JOBS_WAITING_MAX).map(|_| print(&mut printer, "a")).collect();
    let refused = answered(&mut printer, &to_printer(PRINT_JOB));
    assert_eq!(refused.code, 0x0507);
    printer.handle_state(numbers[0], State::Done, "", NOW);
    let created = answered(&mut printer, &to_printer(CREATE_JOB));
    let number = created.group(group::JOB).unwrap().number("job-id").unwrap();
    assert_eq!(answered(&mut printer, &to_printer(CREATE_JOB)).code, 0x0507);
    let deadline = printer.deadline().expect("its document is awaited");
    printer.handle_timeout(deadline - 1);
    assert_eq!(state(&mut printer, number).0, 4);
    printer.handle_timeout(deadline);
    assert_eq!(state(&mut printer, number), (8, "No document was sent".to_owned()));
    assert_eq!(printer.deadline(), None);
    // A second document, and one of several.
    assert_eq!(answered(&mut printer, &to_job(SEND_DOCUMENT, numbers[1])).code, 0x0509);
    let created = answered(&mut printer, &to_printer(CREATE_JOB));
    let number = created.group(group::JOB).unwrap().number("job-id").unwrap();
    let first = named(to_job(SEND_DOCUMENT, number), "last-document", Value::boolean(false));
    assert_eq!(answered(&mut printer, &first).code, 0x0509);
    assert_eq!(state(&mut printer, number).0, 8);
    // Those that have ended are forgotten one after the other.
    for _ in 0..100 {
        let number = print(&mut printer, "b");
        printer.handle_state(number, State::Done, "", NOW);
    }
    let all = named(to_printer(GET_JOBS), "which-jobs", Value::text(tag::KEYWORD, "all"));
    let listed = answered(&mut printer, &all);
    let jobs = listed.groups.iter().filter(|group| group.tag == group::JOB).count();
    assert_eq!(jobs, JOBS_WAITING_MAX - 1 + 32);
}

#[test]
fn a_program_cancels_its_job() {
    let mut printer = printer();
    let number = print(&mut printer, "a");
    actions(&mut printer);
    assert_eq!(answered(&mut printer, &to_job(CANCEL_JOB, number)).code, 0);
    let wanted = [Action::Tell(link::Message::Cancel(number)), Action::Remove(number)];
    assert_eq!(actions(&mut printer), wanted);
    assert_eq!(state(&mut printer, number).0, 7);
    assert_eq!(answered(&mut printer, &to_job(CANCEL_JOB, number)).code, 0x0404);
    // All of them, as `cancel -a` says it.
    let numbers = [print(&mut printer, "a"), print(&mut printer, "b")];
    let all = named(to_printer(CANCEL_JOBS), "job-id", Value::number(tag::INTEGER, 0));
    assert_eq!(answered(&mut printer, &all).code, 0);
    assert_eq!(numbers.map(|number| state(&mut printer, number).0), [7, 7]);
    actions(&mut printer);
    // While its document arrives, which is removed then as well.
    let request = to_printer(PRINT_JOB);
    let Reply::Document { number, .. } = printer.handle(&request, NOW) else {
        panic!("the document is wanted")
    };
    assert_eq!(answered(&mut printer, &to_job(CANCEL_JOB, number)).code, 0);
    assert_eq!(printer.document(number), None);
    assert_eq!(printer.handle_document(&request, number, Ok(1000), NOW).code, 0x0404);
    assert_eq!(actions(&mut printer), [Action::Remove(number), Action::Remove(number)]);
}

#[test]
fn a_program_cancels_the_jobs_that_it_names_and_no_others() {
    let mut printer = printer();
    let [a, b, c] = ["a", "b", "c"].map(|title| print(&mut printer, title));
    actions(&mut printer);
    let server = || {
        let uri = attribute("printer-uri", Value::text(tag::URI, "ipp://localhost/"));
        request(CANCEL_JOBS, vec![uri], Vec::new())
    };
    let name = |mut request: Message, numbers: &[u32]| {
        let values = numbers.iter().map(|&number| Value::number(tag::INTEGER, number)).collect();
        let ids = Attribute { name: "job-ids".to_owned(), values };
        request.groups[0].attributes.push(ids);
        request
    };
    assert_eq!(answered(&mut printer, &name(to_printer(CANCEL_JOBS), &[b])).code, 0);
    assert_eq!([a, b, c].map(|number| state(&mut printer, number).0), [3, 7, 3]);
    assert_eq!(printer.cancelled().collect::<Vec<_>>(), [b]);
    // One that has ended, one that never was, one of another server: nothing is cancelled.
    for (wrong, code) in [(b, 0x0404), (c + 1, 0x0406), (12, 0x0406)] {
        for request in [to_printer(CANCEL_MY_JOBS), server()] {
            let refused = answered(&mut printer, &name(request, &[a, wrong]));
            assert_eq!(refused.code, code, "{wrong}");
            assert_eq!(refused.group(5).unwrap().number("job-ids"), Some(wrong));
        }
    }
    assert_eq!([a, c].map(|number| state(&mut printer, number).0), [3, 3]);
    let theirs = name(server(), &[12, 13]);
    assert_eq!(printer.handle(&theirs, NOW), Reply::Forward);
    assert_eq!(printer.alone(&theirs, NOW).code, 0x0406);
    assert_eq!([a, c].map(|number| state(&mut printer, number).0), [3, 3]);
    assert_eq!(answered(&mut printer, &name(server(), &[c, a])).code, 0);
    assert_eq!([a, c].map(|number| state(&mut printer, number).0), [7, 7]);
}

#[test]
fn options_that_are_not_done_are_told_and_the_job_is_kept() {
    let mut printer = printer();
    let range = [1_u32.to_be_bytes(), 2_u32.to_be_bytes()].concat();
    let range = Value { tag: tag::RANGE, bytes: range };
    let options = vec![
        attribute("copies", Value::number(tag::INTEGER, 2)),
        attribute("page-ranges", range),
        attribute("number-up", Value::number(tag::INTEGER, 4)),
        attribute("sides", Value::text(tag::KEYWORD, "tumbled")),
        attribute("job-sheets", Value::text(tag::NAME, "none")),
    ];
    let uri = || vec![attribute("printer-uri", Value::text(tag::URI, PRINTER_URI))];
    let check = |answer: &Message| {
        let told = &answer.groups[1];
        assert_eq!(told.tag, group::UNSUPPORTED);
        let names: Vec<&str> = told.attributes.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["page-ranges", "number-up", "sides"]);
        let tags: Vec<u8> = told.attributes.iter().map(|a| a.values[0].tag).collect();
        assert_eq!(tags, [tag::UNSUPPORTED, tag::UNSUPPORTED, tag::KEYWORD]);
    };
    for code in [CREATE_JOB, VALIDATE_JOB] {
        let answer = answered(&mut printer, &request(code, uri(), options.clone()));
        assert_eq!(answer.code, 0x0001);
        check(&answer);
    }
    let print = request(PRINT_JOB, uri(), options);
    let Reply::Document { number, .. } = printer.handle(&print, NOW) else {
        panic!("the document is wanted")
    };
    let answer = printer.handle_document(&print, number, Ok(1000), NOW);
    assert_eq!((answer.code, answer.groups[2].number("job-id")), (0x0001, Some(number)));
    check(&answer);
    assert_eq!(printer.documents().next().unwrap().ticket.copies, 2);
    // A program that wants all of it or nothing.
    let exact = named(print, "ipp-attribute-fidelity", Value::boolean(true));
    let refused = answered(&mut printer, &exact);
    assert_eq!(refused.code, 0x040b);
    check(&refused);
    let offered = answered(&mut printer, &to_printer(GET_PRINTER_ATTRIBUTES));
    let offered = offered.group(group::PRINTER).unwrap();
    for name in ["page-ranges-supported", "number-up-supported"] {
        assert_eq!(offered.find(name), None);
    }
}

#[test]
fn printers_and_jobs_of_the_system_stay() {
    let mut printer = printer();
    let number = print(&mut printer, "a");
    let theirs = |name: &str| Group {
        tag: group::PRINTER,
        attributes: vec![
            attribute("printer-name", Value::text(tag::NAME, name)),
            attribute("printer-type", Value::number(tag::ENUM, 0x2_0004)),
            attribute("odd", Value { tag: 0x7f, bytes: vec![1, 2, 3] }),
        ],
    };
    let list = request(GET_PRINTERS, Vec::new(), Vec::new());
    assert_eq!(printer.handle(&list, NOW), Reply::Merge);
    let system = Message { groups: vec![theirs("office"), theirs("thinc")], ..list.clone() };
    let merged = printer.merge(&list, Message { code: 0, ..system }, NOW);
    let names: Vec<&str> =
        merged.groups.iter().filter_map(|group| group.text("printer-name")).collect();
    assert_eq!(names, ["thinc", "office"], "each name once");
    assert_eq!(merged.groups[1].number("printer-type"), Some(4), "there is one default");
    assert_eq!(merged.groups[1].attributes[2], theirs("office").attributes[2]);
    // None there, or none of this kind asked for.
    let none = Message { code: 0x0406, ..list.clone() };
    let alone = printer.merge(&list, none, NOW);
    assert_eq!(alone, printer.alone(&list, NOW));
    let kind = Value::number(tag::ENUM, 1);
    let classes = named(named(list, "printer-type", kind.clone()), "printer-type-mask", kind);
    assert_eq!(printer.alone(&classes, NOW).group(group::PRINTER), None);
    // Jobs of all printers, and those of another's.
    let server = attribute("printer-uri", Value::text(tag::URI, "ipp://localhost/"));
    let jobs = request(GET_JOBS, vec![server], Vec::new());
    assert_eq!(printer.handle(&jobs, NOW), Reply::Merge);
    let job = Group {
        tag: group::JOB,
        attributes: vec![attribute("job-id", Value::number(tag::INTEGER, 12))],
    };
    let system = Message { code: 0, groups: vec![job], ..jobs.clone() };
    let merged = printer.merge(&jobs, system, NOW);
    let numbers: Vec<u32> =
        merged.groups.iter().filter_map(|group| group.number("job-id")).collect();
    assert_eq!(numbers, [12, number]);
    assert_eq!(printer.handle(&to_job(CANCEL_JOB, 12), NOW), Reply::Forward);
    for uri in ["ipp://localhost/printers/office", "ipp://localhost:631/printers/thinc2"] {
        let uri = attribute("printer-uri", Value::text(tag::URI, uri));
        let other = request(PRINT_JOB, vec![uri], Vec::new());
        assert_eq!(printer.handle(&other, NOW), Reply::Forward);
        assert_eq!(printer.alone(&other, NOW).code, 0x0406);
        assert_eq!(printer.without_answer(&other, "it is away", NOW).code, 0x0502);
    }
    let classes = request(GET_CLASSES, Vec::new(), Vec::new());
    assert_eq!(printer.handle(&classes, NOW), Reply::Forward);
    assert_eq!(printer.alone(&classes, NOW).code, 0);
}

#[test]
fn documents_of_an_earlier_process_are_told_again() {
    let mut first = printer();
    let number = print(&mut first, "a");
    let document = first.documents().next().unwrap();
    let mut second = Printer::new(Paper::of_locale(""), NOW - 100);
    assert!(second.restore(document.clone(), 1000, NOW));
    assert!(!second.restore(document.clone(), 1000, NOW), "once");
    assert_eq!(second.documents().collect::<Vec<_>>(), [document]);
    assert!(print(&mut second, "b") > number, "numbers are not given twice");
}
