//! A session's printer: answers programs' requests, and follows its jobs from their document to a
//! viewer. From IPP messages and the session's reports, to answers and what the shell shall do
//! (thinc-desk's printing.rs). Knows jobs and words; never a socket, a file or a viewer.
//!
//! Everything is bounded: `JOBS_WAITING_MAX` jobs that have not ended, of which each has one
//! document; `JOBS_ENDED_MAX` that have; a job without a document ends.

use std::collections::VecDeque;

use crate::attributes::{self, DEFAULT_TYPE, PrinterState, Wanted, attribute};
use crate::ipp::{Attribute, Group, Message, Value, group, tag};
use crate::job::{Job, Stage, Ticket, one_line, unsupported};
use crate::link::{self, Document, State};
use crate::media::Paper;
use crate::name::file_name;
use crate::{JOB_BYTES_MAX, PRINTER};

/// Jobs that have not ended; a further one is refused.
pub const JOBS_WAITING_MAX: usize = 8;
/// Jobs that have ended, which programs may ask for.
const JOBS_ENDED_MAX: usize = 32;
/// Numbers of jobs begin here: the system's own server has not counted so far, and so requests
/// about a job go to the right one. The start's seconds are added, so that a number is not given
/// twice in a session.
const NUMBER_MIN: u32 = 1_000_000;
/// 60 s: a program that has created a job sends its document at once.
const DOCUMENT_TIMEOUT: u64 = 60;
/// Longest name of a user, in bytes.
const USER_BYTES_MAX: usize = 255;
/// Until the session has said anything of a job.
const NO_SESSION: &str = "Waiting for the session";

mod operation {
    pub(super) const PRINT_JOB: u16 = 0x0002;
    pub(super) const VALIDATE_JOB: u16 = 0x0004;
    pub(super) const CREATE_JOB: u16 = 0x0005;
    pub(super) const SEND_DOCUMENT: u16 = 0x0006;
    pub(super) const CANCEL_JOB: u16 = 0x0008;
    pub(super) const GET_JOB_ATTRIBUTES: u16 = 0x0009;
    pub(super) const GET_JOBS: u16 = 0x000a;
    pub(super) const GET_PRINTER_ATTRIBUTES: u16 = 0x000b;
    pub(super) const CANCEL_JOBS: u16 = 0x0038;
    pub(super) const CANCEL_MY_JOBS: u16 = 0x0039;
    pub(super) const CLOSE_JOB: u16 = 0x003b;
    pub(super) const GET_DEFAULT: u16 = 0x4001;
    pub(super) const GET_PRINTERS: u16 = 0x4002;
    pub(super) const GET_CLASSES: u16 = 0x4005;
}

/// Of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok = 0x0000,
    Ignored = 0x0001,
    BadRequest = 0x0400,
    NotPossible = 0x0404,
    NotFound = 0x0406,
    TooLarge = 0x0408,
    Format = 0x040a,
    Attributes = 0x040b,
    Compression = 0x040f,
    Internal = 0x0500,
    Operation = 0x0501,
    Unavailable = 0x0502,
    Version = 0x0503,
    Temporary = 0x0505,
    Busy = 0x0507,
    Documents = 0x0509,
}

/// What the shell does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Sends this.
    Answer(Message),
    /// Stores what follows the request as the document of this job, then calls
    /// [`Printer::handle_document`], also if that fails.
    Document {
        /// The job.
        number: u32,
        /// The document's name as a file.
        file: String,
    },
    /// Passes the request to the system's server; [`Printer::alone`] answers if there is none.
    Forward,
    /// Passes the request to the system's server, and sends what [`Printer::merge`] makes of its
    /// answer; [`Printer::alone`] answers if there is none.
    Merge,
}

/// What the shell shall do without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell the session process, if it is connected.
    Tell(link::Message),
    /// Remove the document of this job.
    Remove(u32),
}

/// Why there is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// Nothing follows the request.
    Empty,
    /// It does not begin with `PDF_START`.
    NotPdf,
    /// It exceeds `JOB_BYTES_MAX`.
    TooLarge,
    /// It did not arrive whole.
    Broken,
    /// The job ended before it was there.
    Cancelled,
    /// There is no room for it; with numbers, for people.
    Full(String),
    /// It could not be stored, for this reason.
    Disk(String),
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Printer,
    Job(u32),
    /// The server, or all of its printers or jobs.
    Server,
    /// Another server's printer or job.
    Other,
}

/// A session's printer and its jobs.
#[derive(Debug)]
pub struct Printer {
    paper: Paper,
    jobs: Vec<Job>,
    last: u32,
    actions: VecDeque<Action>,
}

impl Printer {
    /// A printer without jobs; `now` in seconds since 1970, as everywhere here.
    pub fn new(paper: Paper, now: u64) -> Printer {
        let last = NUMBER_MIN + (now % 1_000_000_000) as u32;
        Printer { paper, jobs: Vec::new(), last, actions: VecDeque::new() }
    }

    /// A job of an earlier process of this session, whose document is there. False if there are too
    /// many.
    pub fn restore(&mut self, document: Document, bytes: u64, now: u64) -> bool {
        let Document { number, ticket, file } = document;
        if self.waiting() >= JOBS_WAITING_MAX || self.find(number).is_some() {
            return false;
        }
        self.last = self.last.max(number);
        self.jobs.push(Job {
            number,
            ticket,
            file,
            user: String::new(),
            stage: Stage::Waiting,
            words: NO_SESSION.to_owned(),
            bytes,
            created: now,
            processing: None,
            ended: None,
        });
        true
    }

    /// What the shell shall do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Printer::handle_timeout`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        let deadlines = self.jobs.iter().filter_map(|job| match job.stage {
            Stage::Created { until } => Some(until),
            _ => None,
        });
        deadlines.min()
    }

    /// Ends jobs whose document has not come.
    pub fn handle_timeout(&mut self, now: u64) {
        let late: Vec<u32> = self
            .jobs
            .iter()
            .filter(|job| matches!(job.stage, Stage::Created { until } if until <= now))
            .map(|job| job.number)
            .collect();
        for number in late {
            self.end(number, Stage::Aborted, "No document was sent", now);
        }
    }

    /// Every job that a session process has to know, for one that has just connected.
    pub fn documents(&self) -> impl Iterator<Item = Document> {
        let there = |job: &&Job| matches!(job.stage, Stage::Waiting | Stage::Sending);
        self.jobs.iter().filter(there).map(Job::document)
    }

    /// The jobs that nobody wants any more: a session process that did not hear of it must not
    /// offer them.
    pub fn cancelled(&self) -> impl Iterator<Item = u32> {
        let is_cancelled = |job: &&Job| job.stage == Stage::Canceled;
        self.jobs.iter().filter(is_cancelled).map(|job| job.number)
    }

    /// The job as a session process has to know it, once its document is stored; None if it has
    /// ended.
    pub fn document(&self, number: u32) -> Option<Document> {
        let job = self.find(number).filter(|job| !job.stage.is_final())?;
        Some(job.document())
    }

    /// The session process is gone: jobs wait for the next one.
    pub fn handle_session_gone(&mut self) {
        for job in &mut self.jobs {
            if matches!(job.stage, Stage::Waiting | Stage::Sending) {
                job.stage = Stage::Waiting;
                NO_SESSION.clone_into(&mut job.words);
            }
        }
    }

    /// The session process tells how far a job is.
    pub fn handle_state(&mut self, number: u32, state: State, words: &str, now: u64) {
        let Some(job) = self.find_mut(number) else { return };
        if !matches!(job.stage, Stage::Waiting | Stage::Sending) {
            return;
        }
        match state {
            State::Waiting => job.stage = Stage::Waiting,
            State::Sending => {
                job.stage = Stage::Sending;
                job.processing.get_or_insert(now);
            }
            State::Done => return self.end(number, Stage::Completed, words, now),
            State::Unwanted => return self.end(number, Stage::Canceled, words, now),
            State::Failed => return self.end(number, Stage::Aborted, words, now),
        }
        words.clone_into(&mut job.words);
    }

    // ---- requests

    /// Handles a request; the document is what follows its attributes.
    pub fn handle(&mut self, request: &Message, now: u64) -> Reply {
        if !matches!(request.version[0], 1 | 2) {
            let [major, minor] = request.version;
            let words = format!("IPP {major}.{minor} is not supported; use 1.1 or 2.0");
            return Reply::Answer(refusal(request, Status::Version, &words));
        }
        let target = target(request);
        match (request.code, target) {
            (operation::GET_DEFAULT, _) => Reply::Answer(self.printers(request, now)),
            (operation::GET_PRINTERS, _) | (operation::GET_JOBS, Target::Server) => Reply::Merge,
            (
                operation::CANCEL_JOBS | operation::CANCEL_MY_JOBS,
                Target::Server | Target::Printer,
            ) => self.cancel_jobs(request, target, now),
            (_, Target::Server | Target::Other) => Reply::Forward,
            (operation::GET_PRINTER_ATTRIBUTES, Target::Printer) => {
                Reply::Answer(self.printers(request, now))
            }
            (operation::GET_JOBS, Target::Printer) => Reply::Answer(self.list(request, now)),
            (operation::VALIDATE_JOB, Target::Printer) => {
                let words = unacceptable(request).or_else(|| unknown_format(request));
                Reply::Answer(match words {
                    Some((status, words)) => refusal(request, status, &words),
                    None => accepted(request, Vec::new()),
                })
            }
            (operation::CREATE_JOB | operation::PRINT_JOB, Target::Printer) => {
                self.create(request, now)
            }
            (operation::SEND_DOCUMENT, Target::Job(number)) => {
                self.send_document(request, number, now)
            }
            (operation::CLOSE_JOB, Target::Job(number)) => self.close(request, number, now),
            (operation::CANCEL_JOB, Target::Job(number)) => self.cancel(request, number, now),
            (operation::GET_JOB_ATTRIBUTES, Target::Job(number)) => {
                Reply::Answer(match self.find(number) {
                    Some(job) => {
                        let group = attributes::job(job, now, &Wanted::of(request));
                        answer(request, Status::Ok, vec![group])
                    }
                    None => no_job(request, number),
                })
            }
            (code, Target::Printer | Target::Job(_)) => {
                let words = format!("The printer {PRINTER} has no operation {code:#06x}");
                Reply::Answer(refusal(request, Status::Operation, &words))
            }
        }
    }

    /// The answer where the system has no server.
    pub fn alone(&self, request: &Message, now: u64) -> Message {
        match request.code {
            operation::GET_PRINTERS => {
                let groups = self.for_list(request, now).into_iter().collect();
                answer(request, Status::Ok, groups)
            }
            operation::GET_JOBS if target(request) == Target::Server => self.list(request, now),
            operation::GET_CLASSES => answer(request, Status::Ok, Vec::new()),
            operation::CANCEL_JOBS | operation::CANCEL_MY_JOBS
                if target(request) == Target::Server =>
            {
                match job_ids(request) {
                    Some(_) => refusal(request, Status::NotFound, "There are no such jobs"),
                    None => answer(request, Status::Ok, Vec::new()),
                }
            }
            code => match target(request) {
                Target::Other => {
                    let words = format!("There is no such printer or job, only {PRINTER}");
                    refusal(request, Status::NotFound, &words)
                }
                _ => {
                    let words = format!("There is no operation {code:#06x}");
                    refusal(request, Status::Operation, &words)
                }
            },
        }
    }

    /// The answer where the system's server does not answer, for this reason.
    pub fn without_answer(&self, request: &Message, why: &str, now: u64) -> Message {
        match target(request) {
            Target::Other => refusal(request, Status::Unavailable, why),
            _ => self.alone(request, now),
        }
    }

    /// The answer of the system's server, with the printer or its jobs added.
    pub fn merge(&self, request: &Message, system: Message, now: u64) -> Message {
        // "No destinations" is an error of CUPS.
        if system.code >= 0x0100 {
            return self.alone(request, now);
        }
        let mut merged = Message { request: request.request, ..system };
        if request.code == operation::GET_JOBS {
            merged.groups.extend(self.jobs_for_list(request, now));
            return merged;
        }
        merged.groups.retain(|group| group.text("printer-name") != Some(PRINTER));
        let types = merged.groups.iter_mut().flat_map(|group| &mut group.attributes);
        for value in types
            .filter(|attribute| attribute.name == "printer-type")
            .flat_map(|attribute| &mut attribute.values)
        {
            if let Some(number) = value.as_number() {
                value.bytes = (number & !DEFAULT_TYPE).to_be_bytes().to_vec();
            }
        }
        let at = merged.groups.iter().position(|group| group.tag == group::PRINTER);
        let at = at.unwrap_or(merged.groups.len());
        if let Some(group) = self.for_list(request, now) {
            merged.groups.insert(at, group);
        }
        merged
    }

    /// The document of a job is stored, and has so many bytes, or is not. The answer is that to its
    /// request.
    pub fn handle_document(
        &mut self,
        request: &Message,
        number: u32,
        stored: Result<u64, DocumentError>,
        now: u64,
    ) -> Message {
        let Some(job) = self.find_mut(number) else { return no_job(request, number) };
        if job.stage != Stage::Incoming {
            // Cancelled meanwhile. Its document may have been stored after that.
            self.actions.push_back(Action::Remove(number));
            return refusal(request, Status::NotPossible, "The job has ended");
        }
        let (status, words) = match stored {
            Ok(bytes) => {
                job.bytes = bytes;
                job.stage = Stage::Waiting;
                NO_SESSION.clone_into(&mut job.words);
                let (group, document) = (attributes::new_job(job), job.document());
                self.actions.push_back(Action::Tell(link::Message::Job(document)));
                return accepted(request, vec![group]);
            }
            Err(DocumentError::Empty) => (Status::BadRequest, "The document is empty".to_owned()),
            Err(DocumentError::NotPdf) => {
                let words = "The document is not PDF. Only PDF can be printed here: choose PDF as \
                    the print format, or print to a file and convert it";
                (Status::Format, words.to_owned())
            }
            Err(DocumentError::TooLarge) => {
                let limit = JOB_BYTES_MAX >> 20;
                let words =
                    format!("The document has more than {limit} MiB; print fewer pages at a time");
                (Status::TooLarge, words)
            }
            Err(DocumentError::Broken | DocumentError::Cancelled) => {
                (Status::BadRequest, "The document did not arrive whole".to_owned())
            }
            Err(DocumentError::Full(words)) => (Status::Temporary, words),
            Err(DocumentError::Disk(error)) => {
                (Status::Internal, format!("The document cannot be stored: {error}"))
            }
        };
        self.end(number, Stage::Aborted, &words, now);
        refusal(request, status, &words)
    }

    fn create(&mut self, request: &Message, now: u64) -> Reply {
        if let Some((status, words)) = unacceptable(request) {
            return Reply::Answer(refusal(request, status, &words));
        }
        if self.waiting() >= JOBS_WAITING_MAX {
            let words = format!(
                "{JOBS_WAITING_MAX} jobs wait already: cancel one, or show the session in a \
                    viewer that prints"
            );
            return Reply::Answer(refusal(request, Status::Busy, &words));
        }
        self.last += 1;
        let ticket = Ticket::of_request(request);
        let operation = request.group(group::OPERATION);
        let user = operation.and_then(|group| group.text("requesting-user-name")).unwrap_or("");
        let has_document = request.code == operation::PRINT_JOB;
        let stage = match has_document {
            true => Stage::Incoming,
            false => Stage::Created { until: now + DOCUMENT_TIMEOUT },
        };
        let job = Job {
            number: self.last,
            file: file_name(&ticket.title),
            ticket,
            user: one_line(user, USER_BYTES_MAX),
            stage,
            words: "The document is sent".to_owned(),
            bytes: 0,
            created: now,
            processing: None,
            ended: None,
        };
        let (number, file) = (job.number, job.file.clone());
        let group = attributes::new_job(&job);
        self.jobs.push(job);
        match has_document {
            true => Reply::Document { number, file },
            false => Reply::Answer(accepted(request, vec![group])),
        }
    }

    fn send_document(&mut self, request: &Message, number: u32, now: u64) -> Reply {
        let is_last = request.operation("last-document").and_then(|last| last.values.first());
        let is_last = is_last.is_none_or(|last| last.bytes != [0]);
        let Some(job) = self.find_mut(number) else {
            return Reply::Answer(no_job(request, number));
        };
        let words = "A job has one document here: print the documents one after the other";
        match job.stage {
            Stage::Created { .. } if !is_last => {
                self.end(number, Stage::Aborted, words, now);
                Reply::Answer(refusal(request, Status::Documents, words))
            }
            Stage::Created { .. } => {
                job.stage = Stage::Incoming;
                let file = job.file.clone();
                match unacceptable(request) {
                    Some((status, words)) => {
                        self.end(number, Stage::Aborted, &words, now);
                        Reply::Answer(refusal(request, status, &words))
                    }
                    None => Reply::Document { number, file },
                }
            }
            Stage::Incoming | Stage::Waiting | Stage::Sending => {
                Reply::Answer(refusal(request, Status::Documents, words))
            }
            _ => Reply::Answer(refusal(request, Status::NotPossible, "The job has ended")),
        }
    }

    /// No further document comes.
    fn close(&mut self, request: &Message, number: u32, now: u64) -> Reply {
        let Some(job) = self.find(number) else { return Reply::Answer(no_job(request, number)) };
        if matches!(job.stage, Stage::Created { .. }) {
            self.end(number, Stage::Aborted, "No document was sent", now);
        }
        Reply::Answer(answer(request, Status::Ok, Vec::new()))
    }

    fn cancel(&mut self, request: &Message, number: u32, now: u64) -> Reply {
        let Some(job) = self.find(number) else { return Reply::Answer(no_job(request, number)) };
        if job.stage.is_final() {
            return Reply::Answer(refusal(request, Status::NotPossible, "The job has ended"));
        }
        self.cancel_job(number, now);
        Reply::Answer(answer(request, Status::Ok, Vec::new()))
    }

    /// Those that the request names, or all of the printer's; if one of those named cannot be
    /// cancelled, none is (PWG 5100.11, section 5.1).
    fn cancel_jobs(&mut self, request: &Message, target: Target, now: u64) -> Reply {
        let Some(numbers) = job_ids(request) else {
            let waiting = self.jobs.iter().filter(|job| !job.stage.is_final());
            let numbers: Vec<u32> = waiting.map(|job| job.number).collect();
            numbers.into_iter().for_each(|number| self.cancel_job(number, now));
            return match target {
                Target::Server => Reply::Forward,
                _ => Reply::Answer(answer(request, Status::Ok, Vec::new())),
            };
        };
        let is_theirs = |number: &u32| *number < NUMBER_MIN && target == Target::Server;
        if numbers.iter().all(is_theirs) {
            return Reply::Forward;
        }
        let is_waiting = |number: u32| self.find(number).is_some_and(|job| !job.stage.is_final());
        let wrong: Vec<u32> = numbers.iter().copied().filter(|&n| !is_waiting(n)).collect();
        if let Some(first) = wrong.first() {
            let status = match self.find(*first) {
                Some(_) => Status::NotPossible,
                None => Status::NotFound,
            };
            let words = format!(
                "Nothing is cancelled: the printer {PRINTER} has no job {first} that waits"
            );
            let values = wrong.iter().map(|&number| Value::number(tag::INTEGER, number)).collect();
            let mut refused = refusal(request, status, &words);
            let attributes = vec![attribute("job-ids", values)];
            refused.groups.push(Group { tag: group::UNSUPPORTED, attributes });
            return Reply::Answer(refused);
        }
        numbers.into_iter().for_each(|number| self.cancel_job(number, now));
        Reply::Answer(answer(request, Status::Ok, Vec::new()))
    }

    fn cancel_job(&mut self, number: u32, now: u64) {
        let stage = self.find(number).map(|job| job.stage);
        if matches!(stage, Some(Stage::Waiting | Stage::Sending)) {
            self.actions.push_back(Action::Tell(link::Message::Cancel(number)));
        }
        self.end(number, Stage::Canceled, "Cancelled by a program of the session", now);
    }

    // ---- answers

    /// The printer, for a request about it alone.
    fn printers(&self, request: &Message, now: u64) -> Message {
        answer(request, Status::Ok, vec![self.group(request, now)])
    }

    /// The printer, if the request is for printers like it.
    fn for_list(&self, request: &Message, now: u64) -> Option<Group> {
        attributes::has_type(request).then(|| self.group(request, now))
    }

    fn group(&self, request: &Message, now: u64) -> Group {
        let newest = self.jobs.iter().rev().find(|job| !job.stage.is_final());
        let state = PrinterState {
            paper: self.paper,
            is_sending: self.jobs.iter().any(|job| job.stage == Stage::Sending),
            words: newest.map_or("", |job| job.words.as_str()),
            jobs: self.waiting(),
            now,
            is_accepting: true,
        };
        attributes::printer(&state, &Wanted::of(request))
    }

    fn list(&self, request: &Message, now: u64) -> Message {
        answer(request, Status::Ok, self.jobs_for_list(request, now))
    }

    fn jobs_for_list(&self, request: &Message, now: u64) -> Vec<Group> {
        let operation = request.group(group::OPERATION);
        let limit = operation.and_then(|group| group.number("limit")).filter(|limit| *limit > 0);
        let which = operation.and_then(|group| group.text("which-jobs"));
        let wanted = Wanted::of(request);
        let is_listed = |job: &&Job| match which {
            Some("completed") => job.stage.is_final(),
            Some("all") => true,
            _ => !job.stage.is_final(),
        };
        let jobs = self.jobs.iter().filter(is_listed);
        let jobs = jobs.take(limit.unwrap_or(u32::MAX) as usize);
        jobs.map(|job| attributes::job(job, now, &wanted)).collect()
    }

    // ---- jobs

    fn find(&self, number: u32) -> Option<&Job> {
        self.jobs.iter().find(|job| job.number == number)
    }

    fn find_mut(&mut self, number: u32) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.number == number)
    }

    fn waiting(&self) -> usize {
        self.jobs.iter().filter(|job| !job.stage.is_final()).count()
    }

    fn end(&mut self, number: u32, stage: Stage, words: &str, now: u64) {
        let Some(job) = self.find_mut(number) else { return };
        (job.stage, job.ended) = (stage, Some(now));
        words.clone_into(&mut job.words);
        self.actions.push_back(Action::Remove(number));
        let ended = self.jobs.iter().filter(|job| job.stage.is_final());
        if ended.count() > JOBS_ENDED_MAX {
            let oldest = self.jobs.iter().position(|job| job.stage.is_final());
            self.jobs.remove(oldest.expect("more than one has ended"));
        }
    }
}

/// What a request is about, by its printer or job.
fn target(request: &Message) -> Target {
    let Some(operation) = request.group(group::OPERATION) else { return Target::Server };
    let of_job = |number| match number {
        NUMBER_MIN.. => Target::Job(number),
        _ => Target::Other,
    };
    if let Some(uri) = operation.text("job-uri") {
        let number = path(uri).rsplit('/').next().and_then(|number| number.parse().ok());
        return number.map_or(Target::Other, of_job);
    }
    // 0 stands for all.
    let by_number = operation.number("job-id").filter(|number| *number > 0).map(of_job);
    let path = operation.text("printer-uri").map_or("/", path);
    match path.trim_matches('/') {
        "" | "jobs" | "printers" => by_number.unwrap_or(Target::Server),
        path if path.strip_prefix("printers/") == Some(PRINTER) => {
            by_number.unwrap_or(Target::Printer)
        }
        _ => Target::Other,
    }
}

/// The path of an address.
fn path(uri: &str) -> &str {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    path.split(['?', '#']).next().unwrap_or(path)
}

/// The jobs that a request names; None if it names none.
fn job_ids(request: &Message) -> Option<Vec<u32>> {
    let named = request.operation("job-ids")?;
    Some(named.values.iter().filter_map(Value::as_number).collect())
}

/// Why a request with a document, or for a job, cannot be carried out.
fn unacceptable(request: &Message) -> Option<(Status, String)> {
    let operation = request.group(group::OPERATION)?;
    if let Some(compression) = operation.text("compression").filter(|name| *name != "none") {
        let words = format!("Documents compressed by {compression:?} cannot be printed");
        return Some((Status::Compression, words));
    }
    let fidelity = operation.find("ipp-attribute-fidelity").and_then(|all| all.values.first());
    let wants_all = fidelity.is_some_and(|value| value.bytes == [1]);
    let first = unsupported(request).into_iter().next().filter(|_| wants_all)?;
    Some((Status::Attributes, format!("The printer {PRINTER} does not do {:?}", first.name)))
}

/// The options of a request that are not done, for its answer.
fn unsupported_group(request: &Message) -> Option<Group> {
    let attributes = unsupported(request);
    (!attributes.is_empty()).then_some(Group { tag: group::UNSUPPORTED, attributes })
}

/// The answer to a request that is carried out, maybe without some of its options.
fn accepted(request: &Message, groups: Vec<Group>) -> Message {
    match unsupported_group(request) {
        None => answer(request, Status::Ok, groups),
        Some(ignored) => {
            answer(request, Status::Ignored, std::iter::once(ignored).chain(groups).collect())
        }
    }
}

/// For a program that asks before it prints. The document itself decides later.
fn unknown_format(request: &Message) -> Option<(Status, String)> {
    let format = request.group(group::OPERATION)?.text("document-format")?;
    let is_known = matches!(
        format,
        "application/pdf" | "application/vnd.cups-pdf" | "application/octet-stream"
    );
    (!is_known).then(|| (Status::Format, format!("Only PDF can be printed here, not {format:?}")))
}

fn no_job(request: &Message, number: u32) -> Message {
    refusal(request, Status::NotFound, &format!("There is no job {number}"))
}

fn refusal(request: &Message, status: Status, words: &str) -> Message {
    let mut message = answer(request, status, Vec::new());
    let words = Value::text(tag::TEXT, &one_line(words, 255));
    message.groups[0].attributes.push(attribute("status-message", vec![words]));
    if status == Status::Attributes {
        message.groups.extend(unsupported_group(request));
    }
    message
}

fn answer(request: &Message, status: Status, groups: Vec<Group>) -> Message {
    let head: Vec<Attribute> = vec![
        attribute("attributes-charset", vec![Value::text(tag::CHARSET, "utf-8")]),
        attribute("attributes-natural-language", vec![Value::text(tag::LANGUAGE, "en")]),
    ];
    let operation = Group { tag: group::OPERATION, attributes: head };
    Message {
        version: request.version,
        code: status as u16,
        request: request.request,
        groups: std::iter::once(operation).chain(groups).collect(),
    }
}
