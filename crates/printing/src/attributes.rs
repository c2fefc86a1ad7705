//! Attributes of the printer and its jobs, as programs ask for them. Under printer.rs. Knows IPP's
//! names (RFC 8011, CUPS' own); decides nothing.

use crate::PRINTER;
use crate::ipp::{Attribute, Group, Message, Value, group, tag};
use crate::job::{COPIES_MAX, Job, Stage};
use crate::media::{PAPERS, Paper};

/// Where programs find the printer on their server.
pub(crate) const PRINTER_URI: &str = "ipp://localhost/printers/thinc";
/// What people see beside the printer's name.
const INFO: &str = "Printer of the computer that shows this session";
/// CUPS' bits: colour, two-sided, copies, collated, small, medium and large paper, any size, and
/// the default, without which GTK does not choose it.
const TYPE: u32 = 0x8 | 0x10 | 0x40 | 0x80 | 0x200 | 0x400 | 0x800 | 0x1000 | DEFAULT_TYPE;
/// CUPS' bit of the default printer.
pub(crate) const DEFAULT_TYPE: u32 = 0x2_0000;
/// What the printer does.
const OPERATIONS: [u32; 14] = [
    0x0002, 0x0004, 0x0005, 0x0006, 0x0008, 0x0009, 0x000a, 0x000b, 0x0038, 0x0039, 0x003b, 0x4001,
    0x4002, 0x4005,
];

pub(crate) fn attribute(name: &str, values: Vec<Value>) -> Attribute {
    Attribute { name: name.to_owned(), values }
}

fn texts(tag: u8, texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| Value::text(tag, text)).collect()
}

fn range(from: u32, to: u32) -> Value {
    let bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
    Value { tag: tag::RANGE, bytes }
}

/// Which attributes a request wants.
pub(crate) struct Wanted<'a>(Option<Vec<&'a str>>);

impl<'a> Wanted<'a> {
    pub(crate) fn of(request: &'a Message) -> Wanted<'a> {
        let names = request.operation("requested-attributes").map(|attribute| {
            attribute.values.iter().filter_map(Value::as_text).collect::<Vec<&str>>()
        });
        let is_group = |name: &&str| {
            matches!(*name, "all" | "job-template")
                || matches!(*name, "printer-description" | "job-description")
        };
        Wanted(names.filter(|names| !names.iter().any(is_group)))
    }

    fn filter(&self, tag: u8, mut attributes: Vec<Attribute>) -> Group {
        if let Wanted(Some(names)) = self {
            attributes.retain(|attribute| names.contains(&attribute.name.as_str()));
        }
        Group { tag, attributes }
    }
}

/// What changes about the printer.
pub(crate) struct PrinterState<'a> {
    pub(crate) paper: Paper,
    pub(crate) is_sending: bool,
    pub(crate) words: &'a str,
    pub(crate) jobs: usize,
    /// Seconds since 1970.
    pub(crate) now: u64,
    pub(crate) is_accepting: bool,
}

/// True if a request for printers with these bits of their type includes this one.
pub(crate) fn has_type(request: &Message) -> bool {
    let operation = request.group(group::OPERATION);
    let number = |name| operation.and_then(|group| group.number(name)).unwrap_or(0);
    let mask = number("printer-type-mask");
    TYPE & mask == number("printer-type") & mask
}

pub(crate) fn printer(state: &PrinterState<'_>, wanted: &Wanted<'_>) -> Group {
    let integer = |number| vec![Value::number(tag::INTEGER, number)];
    let number = |number| vec![Value::number(tag::ENUM, number)];
    let keyword = |text| vec![Value::text(tag::KEYWORD, text)];
    let yes = |yes| vec![Value::boolean(yes)];
    let now = u32::try_from(state.now).unwrap_or(u32::MAX);
    let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.pwg).collect();
    let sides = ["one-sided", "two-sided-long-edge", "two-sided-short-edge"];
    let operations = OPERATIONS.map(|operation| Value::number(tag::ENUM, operation)).to_vec();
    let formats = ["application/pdf", "application/vnd.cups-pdf", "application/octet-stream"];
    let uri = |uri| vec![Value::text(tag::URI, uri)];
    let name = |text| vec![Value::text(tag::NAME, text)];
    let attributes = vec![
        attribute("printer-uri-supported", uri(PRINTER_URI)),
        attribute("uri-security-supported", keyword("none")),
        attribute("uri-authentication-supported", keyword("requesting-user-name")),
        attribute("printer-name", name(PRINTER)),
        attribute("printer-info", texts(tag::TEXT, &[INFO])),
        attribute("printer-location", texts(tag::TEXT, &[""])),
        attribute("printer-make-and-model", texts(tag::TEXT, &["thinc"])),
        attribute("printer-type", number(TYPE)),
        attribute("printer-state", number(if state.is_sending { 4 } else { 3 })),
        attribute("printer-state-reasons", keyword("none")),
        attribute("printer-state-message", texts(tag::TEXT, &[state.words])),
        attribute("printer-state-change-time", integer(now)),
        attribute("printer-is-accepting-jobs", yes(state.is_accepting)),
        attribute("printer-is-shared", yes(false)),
        attribute("printer-is-temporary", yes(false)),
        attribute("printer-up-time", integer(now)),
        attribute("queued-job-count", integer(state.jobs as u32)),
        // libcups fetches a PPD of a printer only that looks like another server's.
        attribute("device-uri", uri(PRINTER_URI)),
        attribute("charset-configured", texts(tag::CHARSET, &["utf-8"])),
        attribute("charset-supported", texts(tag::CHARSET, &["utf-8"])),
        attribute("natural-language-configured", texts(tag::LANGUAGE, &["en"])),
        attribute("generated-natural-language-supported", texts(tag::LANGUAGE, &["en"])),
        attribute("ipp-versions-supported", texts(tag::KEYWORD, &["1.0", "1.1", "2.0", "2.1"])),
        attribute("operations-supported", operations),
        attribute("multiple-document-jobs-supported", yes(false)),
        attribute("document-format-default", texts(tag::MIME_TYPE, &["application/pdf"])),
        attribute("document-format-supported", texts(tag::MIME_TYPE, &formats)),
        attribute("compression-supported", keyword("none")),
        attribute("pdl-override-supported", keyword("not-attempted")),
        attribute("color-supported", yes(true)),
        attribute("pages-per-minute", integer(60)),
        attribute("copies-default", integer(1)),
        attribute("copies-supported", vec![range(1, COPIES_MAX.into())]),
        attribute("sides-default", keyword(sides[0])),
        attribute("sides-supported", texts(tag::KEYWORD, &sides)),
        attribute("print-color-mode-default", keyword("color")),
        attribute("print-color-mode-supported", texts(tag::KEYWORD, &["color", "monochrome"])),
        attribute("media-default", keyword(state.paper.pwg)),
        attribute("media-supported", texts(tag::KEYWORD, &papers)),
        attribute("media-ready", keyword(state.paper.pwg)),
        attribute("job-sheets-default", name("none")),
        attribute("job-sheets-supported", name("none")),
    ];
    wanted.filter(group::PRINTER, attributes)
}

/// Where programs find a job.
fn job_uri(number: u32) -> String {
    format!("ipp://localhost/jobs/{number}")
}

/// What the answer to a request that creates a job tells.
pub(crate) fn new_job(job: &Job) -> Group {
    let (state, reason) = job.stage.words();
    let attributes = vec![
        attribute("job-uri", vec![Value::text(tag::URI, &job_uri(job.number))]),
        attribute("job-id", vec![Value::number(tag::INTEGER, job.number)]),
        attribute("job-state", vec![Value::number(tag::ENUM, state)]),
        attribute("job-state-reasons", texts(tag::KEYWORD, &[reason])),
        attribute("job-state-message", texts(tag::TEXT, &[&job.words])),
    ];
    Group { tag: group::JOB, attributes }
}

pub(crate) fn job(job: &Job, now: u64, wanted: &Wanted<'_>) -> Group {
    let seconds = |at: u64| Value::number(tag::INTEGER, u32::try_from(at).unwrap_or(u32::MAX));
    let moment = |at: Option<u64>| match at {
        Some(at) => vec![seconds(at)],
        None => vec![Value { tag: tag::NO_VALUE, bytes: Vec::new() }],
    };
    let name = |text: &str| vec![Value::text(tag::NAME, text)];
    let colour = if job.ticket.colour { "color" } else { "monochrome" };
    let kilobytes = u32::try_from(job.bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    let Group { mut attributes, .. } = new_job(job);
    let impressions = u32::from(job.stage == Stage::Completed);
    attributes.extend([
        attribute("job-printer-uri", vec![Value::text(tag::URI, PRINTER_URI)]),
        attribute("job-name", name(&job.ticket.title)),
        attribute("job-originating-user-name", name(&job.user)),
        // What `lpstat -l` shows.
        attribute("job-printer-state-message", texts(tag::TEXT, &[&job.words])),
        attribute("job-k-octets", vec![Value::number(tag::INTEGER, kilobytes)]),
        attribute("job-priority", vec![Value::number(tag::INTEGER, 50)]),
        attribute("job-media-sheets-completed", vec![Value::number(tag::INTEGER, impressions)]),
        attribute("job-printer-up-time", vec![seconds(now)]),
        attribute("time-at-creation", vec![seconds(job.created)]),
        attribute("time-at-processing", moment(job.processing)),
        attribute("time-at-completed", moment(job.ended)),
        attribute("document-format", texts(tag::MIME_TYPE, &["application/pdf"])),
        attribute("copies", vec![Value::number(tag::INTEGER, job.ticket.copies.into())]),
        attribute("sides", texts(tag::KEYWORD, &[job.ticket.sides.keyword()])),
        attribute("print-color-mode", texts(tag::KEYWORD, &[colour])),
    ]);
    if !job.ticket.media.is_empty() {
        attributes.push(attribute("media", texts(tag::KEYWORD, &[&job.ticket.media])));
    }
    wanted.filter(group::JOB, attributes)
}
