//! What programs of a session print: it arrives at a viewer as it was printed, also when a process
//! between them was killed; the printers of the system stay. Knows `lp`, IPP and messages.

use std::fs;
use std::io::{BufReader, Read, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use thinc_files::{FileEvent, Offer, Printing, Start};
use thinc_printing::ipp::{ANSWER_LIMITS, Attribute, Group, Message as Ipp, Value, group, tag};
use thinc_protocol::file::{FileAnswer, FileEnd, FilePurpose};
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerMessage};

use crate::files::FileViewer;
use crate::harness::{Message, Session, TestEnvironment, wait_for_end, wait_until};

const PRINTER_URI: &str = "ipp://localhost/printers/thinc";

/// A session whose command writes its environment to a file.
fn session_with(environment: TestEnvironment, options: &[&str]) -> Session {
    let file = environment.folder.join("environment");
    let script = format!("env > {0}.new; mv {0}.new {0}; sleep 1000", file.display());
    let session = Session::start_with(environment, options, &["sh", "-c", script.as_str()]);
    wait_until("the command runs", || file.exists().then_some(()));
    session
}

fn session(options: &[&str]) -> Session {
    session_with(TestEnvironment::new(), options)
}

/// The print server that programs find.
fn server(session: &Session) -> Option<PathBuf> {
    let text = fs::read_to_string(session.environment.folder.join("environment")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("CUPS_SERVER=")).map(PathBuf::from)
}

fn spool(session: &Session) -> PathBuf {
    session.environment.folder.join("state/thinc/print/t")
}

/// A program of CUPS' with the environment of the session's command.
fn cups(session: &Session, name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(name);
    command.args(arguments).env("CUPS_SERVER", server(session).unwrap());
    command.env("HOME", &session.environment.folder).env("LC_ALL", "C.UTF-8");
    command.output().expect("the package cups-client is installed")
}

fn viewer(session: &Session, instance: u8) -> FileViewer {
    FileViewer::connect_with(
        session,
        instance,
        ViewerCaps::PRINTS | ViewerCaps::NOTICE | ViewerCaps::BRIEF_NOTICE,
        Printing::Receives,
    )
}

fn pdf(bytes: usize) -> Vec<u8> {
    let content = (0..bytes).map(|at| (at % 253) as u8);
    b"%PDF-1.7\n".iter().copied().chain(content).collect()
}

/// Receives the next printed document.
fn receive(viewer: &mut FileViewer) -> (PrintTicket, String, Vec<u8>) {
    let offer = viewer.accept(Start::default());
    let content = viewer.receive();
    (ticket(&offer), offer.entries()[0].path.clone(), content)
}

fn ticket(offer: &Offer) -> PrintTicket {
    match offer.purpose() {
        FilePurpose::Printed(ticket) => (**ticket).clone(),
        other => panic!("it is printed, not {other:?}"),
    }
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.to_owned(), values: vec![value] }
}

/// A request to the printer, or with a number to a job.
fn request(code: u16, number: Option<u32>, more: Vec<Attribute>) -> Ipp {
    let target = match number {
        None => attribute("printer-uri", Value::text(tag::URI, PRINTER_URI)),
        Some(number) => {
            let uri = format!("ipp://localhost/jobs/{number}");
            attribute("job-uri", Value::text(tag::URI, &uri))
        }
    };
    let mut attributes = vec![
        attribute("attributes-charset", Value::text(tag::CHARSET, "utf-8")),
        attribute("attributes-natural-language", Value::text(tag::LANGUAGE, "en")),
        target,
    ];
    attributes.extend(more);
    let groups = vec![Group { tag: group::OPERATION, attributes }];
    Ipp { version: [2, 0], code, request: 9, groups }
}

/// Sends a request with a document in chunks; returns the answer.
fn post(session: &Session, request: &Ipp, document: impl Read) -> Ipp {
    let mut stream = UnixStream::connect(server(session).unwrap()).unwrap();
    let head = "POST /printers/thinc HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
                application/ipp\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let request = request.encode();
    let mut body = request.as_slice().chain(document).bytes_in_chunks();
    while let Some(chunk) = body() {
        write!(stream, "{:x}\r\n", chunk.len()).unwrap();
        stream.write_all(&chunk).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let (head, body) = read_http(&mut BufReader::new(stream));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Ipp::decode(&body, ANSWER_LIMITS).unwrap().expect("it is whole").0
}

trait Chunks {
    fn bytes_in_chunks(self) -> impl FnMut() -> Option<Vec<u8>>;
}

impl<R: Read> Chunks for R {
    fn bytes_in_chunks(mut self) -> impl FnMut() -> Option<Vec<u8>> {
        move || {
            let mut chunk = vec![0; 64 << 10];
            let read = self.read(&mut chunk).unwrap();
            chunk.truncate(read);
            (read > 0).then_some(chunk)
        }
    }
}

/// A message of HTTP with a length or in chunks.
fn read_http(reader: &mut impl std::io::BufRead) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "it ends too early: {head}");
    }
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let mut body = Vec::new();
    if let Some(length) = field("content-length") {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).unwrap();
    } else if field("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).unwrap() + 2];
            reader.read_exact(&mut chunk).unwrap();
            chunk.truncate(chunk.len() - 2);
            if chunk.is_empty() {
                break;
            }
            body.extend(chunk);
        }
    }
    (head, body)
}

fn words(answer: &Ipp) -> &str {
    answer.group(group::OPERATION).unwrap().text("status-message").unwrap_or("")
}

/// The job of an answer that has one.
fn number(answer: &Ipp) -> u32 {
    assert_eq!(answer.code, 0, "{}", words(answer));
    answer.group(group::JOB).unwrap().number("job-id").unwrap()
}

/// State and message of a job.
fn state(session: &Session, number: u32) -> (u32, String) {
    let answer = post(session, &request(0x0009, Some(number), Vec::new()), std::io::empty());
    let job = answer.group(group::JOB).unwrap_or_else(|| panic!("{}", words(&answer)));
    let words = job.text("job-state-message").unwrap().to_owned();
    (job.number("job-state").unwrap(), words)
}

fn wait_for_state(session: &Session, number: u32, wanted: u32) -> String {
    wait_until("the job's state", || {
        let (state, words) = state(session, number);
        (state == wanted).then_some(words)
    })
}

fn wait_for_words(session: &Session, number: u32, wanted: &str) {
    wait_until(wanted, || (state(session, number).1 == wanted).then_some(()));
}

fn print(session: &Session, title: &str, document: &[u8]) -> Ipp {
    let title = attribute("job-name", Value::text(tag::NAME, title));
    post(session, &request(0x0002, None, vec![title]), document)
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn what_lp_prints_arrives_as_it_was_printed() {
    let session = session(&[]);
    let default = cups(&session, "lpstat", &["-d"]);
    let text = String::from_utf8_lossy(&default.stdout).into_owned();
    assert_eq!(text, "system default destination: thinc\n", "{default:?}");
    let file = session.environment.folder.join("input");
    fs::write(&file, pdf(900_000)).unwrap();
    let mut viewer = viewer(&session, 1);
    let options = ["-n", "2", "-o", "sides=two-sided-long-edge", "-o", "media=A5"];
    let title = ["-t", "../Quarterly report", file.to_str().unwrap()];
    let output = cups(&session, "lp", &[&options[..], &title].concat());
    assert!(output.status.success(), "{output:?}");
    let (ticket, name, content) = receive(&mut viewer);
    assert!(content == pdf(900_000), "these bytes and no others");
    let wanted = PrintTicket {
        title: "../Quarterly report".to_owned(),
        copies: 2,
        sides: PrintSides::LongEdge,
        colour: true,
        media: "iso_a5_148x210mm".to_owned(),
    };
    assert_eq!((ticket, name.as_str()), (wanted, "Quarterly report.pdf"));
    wait_until("the job is not listed any more", || {
        cups(&session, "lpstat", &["-o"]).stdout.is_empty().then_some(())
    });
    wait_until("its document is removed", || {
        fs::read_dir(spool(&session)).unwrap().next().is_none().then_some(())
    });
}

#[test]
fn a_job_waits_for_a_viewer_that_prints_and_the_person_may_refuse_it() {
    let session = session(&[]);
    // Another viewer, which prints nothing, is there.
    let mut other = FileViewer::connect_with(&session, 1, ViewerCaps::FILES, Printing::Off);
    let job = number(&print(&session, "Report", &pdf(1000)));
    wait_for_words(&session, job, "Waiting for a viewer that prints");
    let mut viewer = viewer(&session, 2);
    let FileEvent::Offered { id, .. } = viewer.event() else { panic!("it is offered") };
    assert_eq!(wait_for_state(&session, job, 5), "Sent to the viewer, which asks there");
    viewer.end.answer(id, None, 0);
    viewer.speak();
    let words = wait_for_state(&session, job, 7);
    assert_eq!(words, "the person at the viewer does not want it");
    // The viewer leaves in the middle: the next gets all of it.
    let job = number(&print(&session, "Report", &pdf(3_000_000)));
    viewer.accept(Start::default());
    let FileEvent::Data { .. } = viewer.event() else { panic!("content follows") };
    drop(viewer);
    wait_for_state(&session, job, 3);
    let mut next = self::viewer(&session, 3);
    assert!(receive(&mut next).2 == pdf(3_000_000));
    wait_for_state(&session, job, 9);
    // The program does not want it any more.
    let job = number(&print(&session, "Report", &pdf(1000)));
    let FileEvent::Offered { .. } = next.event() else { panic!("it is offered") };
    assert_eq!(post(&session, &request(0x0008, Some(job), Vec::new()), std::io::empty()).code, 0);
    assert!(matches!(next.event(), FileEvent::Stopped { why: FileEnd::Cancelled, .. }));
    assert_eq!(state(&session, job).0, 7);
    // Nobody else was offered anything.
    other.viewer.send(&ViewerMessage::Ping(1));
    let answer = other.viewer.until(|m| matches!(m, Message::Pong | Message::File(_)));
    assert_eq!(answer, Message::Pong);
}

#[test]
fn a_job_that_no_viewer_takes_now_waits_and_lpstat_says_why() {
    let session = session(&[]);
    let mut first = viewer(&session, 1);
    let job = number(&print(&session, "Report", &pdf(1000)));
    let FileEvent::Offered { id, .. } = first.event() else { panic!("it is offered") };
    first.end.refuse(id, FileAnswer::Busy);
    first.speak();
    let why = "too many transfers wait at the viewer; try again later";
    first.until_told(&format!("Not printed yet: Report waits: {why}"));
    let waits = format!("Waiting for a viewer that prints: {why}");
    wait_for_words(&session, job, &waits);
    assert_eq!(state(&session, job).0, 3, "it is pending");
    let listed = cups(&session, "lpstat", &["-l", "-o"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains(&waits) && text.contains("resources-are-not-ready"), "{listed:?}");
    // The next viewer gets it, and leaves it unanswered: it waits again.
    let mut second = viewer(&session, 2);
    let FileEvent::Offered { id, .. } = second.event() else { panic!("it is offered") };
    wait_for_state(&session, job, 5);
    second.end.stop(id, FileEnd::Failed);
    second.speak();
    wait_for_state(&session, job, 3);
    let mut third = viewer(&session, 3);
    assert!(receive(&mut third).2 == pdf(1000));
    wait_for_state(&session, job, 9);
}

#[test]
fn a_cancelled_upload_ends_at_once_and_nothing_of_it_stays() {
    let session = session(&[]);
    let mut stream = UnixStream::connect(server(&session).unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: l\r\nContent-Type: application/ipp\r\nContent-Length: \
                100000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&request(0x0002, None, Vec::new()).encode()).unwrap();
    stream.write_all(&pdf(1000)).unwrap();
    let job = wait_until("the document arrives", || {
        let jobs = post(&session, &request(0x000a, None, Vec::new()), std::io::empty());
        jobs.group(group::JOB)?.number("job-id")
    });
    assert_eq!(post(&session, &request(0x0008, Some(job), Vec::new()), std::io::empty()).code, 0);
    // The program hears of it while it has most of the document still to send.
    let (_, body) = read_http(&mut BufReader::new(&stream));
    let answer = Ipp::decode(&body, ANSWER_LIMITS).unwrap().unwrap().0;
    assert_eq!((answer.code, words(&answer)), (0x0404, "The job has ended"));
    let ended = (&stream).read(&mut [0]);
    let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!matches!(ended, Ok(1)) && !ended.as_ref().is_err_and(is_late), "{ended:?}");
    wait_until("nothing of it stays", || {
        fs::read_dir(spool(&session)).unwrap().next().is_none().then_some(())
    });
}

#[test]
fn it_is_printed_where_the_person_types() {
    let session = session(&[]);
    let (mut first, mut second) = (viewer(&session, 1), viewer(&session, 2));
    number(&print(&session, "to the newest", &pdf(10)));
    assert_eq!(receive(&mut second).0.title, "to the newest");
    for (seq, down) in [(1, true), (2, false)] {
        let event = InputEvent::Key { code: 30, keysym: 0x61, down };
        first.viewer.send(&ViewerMessage::Input(Input { seq, event }));
    }
    first.viewer.wait_complete();
    number(&print(&session, "to the typist", &pdf(10)));
    assert_eq!(receive(&mut first).0.title, "to the typist");
}

#[test]
fn what_is_not_pdf_or_too_large_is_refused_and_nothing_of_it_stays() {
    let session = session(&[]);
    let file = session.environment.folder.join("text");
    fs::write(&file, "only text\n").unwrap();
    let output = cups(&session, "lp", &[file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("not PDF"), "{said}");
    let answer = print(&session, "empty", b"");
    assert_eq!((answer.code, words(&answer)), (0x0400, "The document is empty"));
    let start = pdf(0);
    let large = start.as_slice().chain(std::io::repeat(b' ').take(256 << 20));
    let answer = post(&session, &request(0x0002, None, Vec::new()), large);
    assert_eq!(answer.code, 0x0408, "{}", words(&answer));
    // A program that dies in the middle.
    let mut stream = UnixStream::connect(server(&session).unwrap()).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: l\r\nContent-Type: application/ipp\r\nContent-Length: \
                100000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&request(0x0002, None, Vec::new()).encode()).unwrap();
    stream.write_all(&pdf(1000)).unwrap();
    drop(stream);
    let all = vec![attribute("which-jobs", Value::text(tag::KEYWORD, "all"))];
    wait_until("all four jobs have ended", || {
        let jobs = post(&session, &request(0x000a, None, all.clone()), std::io::empty());
        let ended = jobs.groups.iter().filter(|group| group.number("job-state") == Some(8));
        (ended.count() == 4).then_some(())
    });
    wait_until("nothing of them stays", || {
        fs::read_dir(spool(&session)).unwrap().next().is_none().then_some(())
    });
    // Eight wait; the ninth is refused.
    let jobs: Vec<u32> = (0..8).map(|_| number(&print(&session, "a", &pdf(10)))).collect();
    let answer = print(&session, "a", &pdf(10));
    assert_eq!(answer.code, 0x0507, "{}", words(&answer));
    assert_eq!(fs::read_dir(spool(&session)).unwrap().count(), jobs.len());
}

#[test]
fn a_job_outlives_the_desk_and_the_session_process() {
    let session = session(&[]);
    let job = number(&print(&session, "Report", &pdf(100_000)));
    for part in ["desk", "session"] {
        let pid = session.pid(part);
        kill(pid);
        wait_for_end(pid);
    }
    wait_for_words(&session, job, "Waiting for a viewer that prints");
    let mut viewer = viewer(&session, 1);
    let (ticket, _, content) = receive(&mut viewer);
    assert_eq!(ticket.title, "Report");
    assert!(content == pdf(100_000));
    wait_for_state(&session, job, 9);
    // While it is sent: the viewer is not offered it twice.
    let job = number(&print(&session, "Second", &pdf(100_000)));
    viewer.accept(Start::default());
    let pid = u32::try_from(session.status()["pids"]["desk"].as_u64().unwrap()).unwrap();
    kill(pid);
    wait_for_end(pid);
    wait_for_state(&session, job, 5);
    assert!(viewer.receive() == pdf(100_000));
    wait_for_state(&session, job, 9);
    let folder = spool(&session);
    drop(session);
    assert!(!folder.exists(), "documents end with the session");
}

/// A print server that has the printer "office" and the job 12, and tells what it was asked.
fn office(path: &std::path::Path) -> std::sync::mpsc::Receiver<(u16, usize)> {
    let listener = UnixListener::bind(path).unwrap();
    let (tell, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let (_, body) = read_http(&mut stream);
            let (request, length) = Ipp::decode(&body, ANSWER_LIMITS).unwrap().unwrap();
            if tell.send((request.code, body.len() - length)).is_err() {
                return;
            }
            let printer = Group {
                tag: group::PRINTER,
                attributes: vec![
                    attribute("printer-name", Value::text(tag::NAME, "office")),
                    attribute("printer-type", Value::number(tag::ENUM, 0x2_0004)),
                ],
            };
            let operation = request.groups[0].clone();
            let groups = match request.code {
                0x4002 => vec![operation, printer],
                _ => vec![operation],
            };
            let answer = Ipp { code: 0, groups, ..request }.encode();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/ipp\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            let stream = stream.get_mut();
            stream.write_all(&[head.as_bytes(), &answer].concat()).unwrap();
        }
    });
    asked
}

#[test]
fn the_printers_of_the_system_stay() {
    let mut environment = TestEnvironment::new();
    let path = environment.folder.join("office.sock");
    let asked = office(&path);
    environment.variables.push(("CUPS_SERVER".to_owned(), path.display().to_string()));
    let session = session_with(environment, &[]);
    assert_ne!(server(&session), Some(path));
    let listed = cups(&session, "lpstat", &["-e"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "office\nthinc\n", "{listed:?}");
    while asked.try_recv().is_ok() {}
    // What is for another printer goes there, document and all.
    let uri = attribute("printer-uri", Value::text(tag::URI, "ipp://localhost/printers/office"));
    let mut other = request(0x0002, None, Vec::new());
    other.groups[0].attributes[2] = uri;
    assert_eq!(post(&session, &other, &pdf(300_000)[..]).code, 0);
    assert_eq!(asked.recv().unwrap(), (0x0002, pdf(300_000).len()));
    assert_eq!(post(&session, &request(0x0008, Some(12), Vec::new()), std::io::empty()).code, 0);
    assert_eq!(asked.recv().unwrap(), (0x0008, 0));
    // What is for the session's does not.
    number(&print(&session, "a", &pdf(10)));
    assert!(asked.try_recv().is_err());
}

#[test]
fn printing_may_be_switched_off() {
    let mut environment = TestEnvironment::new();
    environment.variables.push(("CUPS_SERVER".to_owned(), "print.example.org".to_owned()));
    let session = session_with(environment, &["--printing", "off", "--sound", "off"]);
    assert_eq!(server(&session), Some("print.example.org".into()), "the user's own printers stay");
    assert_eq!(session.status()["pids"]["desk"], 0, "no process without a service");
    assert!(!spool(&session).exists());
}

#[test]
fn there_is_a_printer_without_sound() {
    let session = session(&["--sound", "off"]);
    let mut viewer = viewer(&session, 1);
    number(&print(&session, "quiet", &pdf(10)));
    assert_eq!(receive(&mut viewer).0.title, "quiet");
}
