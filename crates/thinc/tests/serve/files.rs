//! Files of a session: those that viewers send, in the person's folder for downloads, and those
//! that `thinc send` sends. Knows messages, folders and what the command says.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use thinc_files::{Endpoint, FileEvent, FilesPolicy, Offer, Printing, Start};
use thinc_protocol::file::{FileAnswer, FileEnd, FileEntry, FileKind, FilePurpose};
use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_transport::connect;
use x11rb::rust_connection::{DefaultStream, RustConnection};

#[path = "../../../x-selection/tests/drop_program/mod.rs"]
mod drop_program;

use drop_program::{AT, Manners, Received};

use crate::harness::{
    Message, Session, TestEnvironment, Viewer, connect_options, failed, wait_for_end, wait_until,
};

/// A session whose person's folder for downloads is in the test's folder.
fn session(options: &[&str]) -> Session {
    let environment = TestEnvironment::new();
    let config = environment.folder.join("config");
    fs::create_dir(&config).unwrap();
    let line = format!("XDG_DOWNLOAD_DIR=\"{}/downloads\"\n", environment.folder.display());
    fs::write(config.join("user-dirs.dirs"), line).unwrap();
    Session::start_with(environment, options, &["sleep", "1000"])
}

fn downloads(session: &Session) -> PathBuf {
    session.environment.folder.join("downloads")
}

/// A viewer with an end of the files channel.
pub(crate) struct FileViewer {
    pub(crate) viewer: Viewer,
    pub(crate) end: Endpoint,
    notices: Vec<String>,
}

impl FileViewer {
    fn connect(session: &Session, instance: u8) -> FileViewer {
        let caps = ViewerCaps::FILES | ViewerCaps::BRIEF_NOTICE;
        FileViewer::connect_with(session, instance, caps, Printing::Off)
    }

    /// With these capabilities, and this share in printing.
    pub(crate) fn connect_with(
        session: &Session,
        instance: u8,
        caps: u32,
        printing: Printing,
    ) -> FileViewer {
        let link = connect(&session.link(), &connect_options()).unwrap();
        let mut viewer = Viewer::with_caps(link, caps);
        viewer.send(&ViewerMessage::Instance([instance; INSTANCE_BYTES]));
        viewer.until(|message| matches!(message, Message::Hello(_)));
        let policy = FilesPolicy { printing, ..FilesPolicy::default() };
        FileViewer { viewer, end: Endpoint::new(policy), notices: Vec::new() }
    }

    pub(crate) fn speak(&mut self) {
        while let Some(message) =
            self.end.poll_control().or_else(|| self.end.poll_piece(usize::MAX, 0))
        {
            self.viewer.send(&ViewerMessage::File(message));
        }
    }

    /// The next event of the channel.
    pub(crate) fn event(&mut self) -> FileEvent {
        loop {
            self.speak();
            if let Some(event) = self.end.poll_event() {
                return event;
            }
            match self.viewer.next().expect("the connection ended first") {
                Message::File(message) => self.end.handle(&message, 0).unwrap(),
                Message::Notice(text) => self.notices.push(text),
                _ => {}
            }
        }
    }

    /// Sends a file until it is stored, or until so many bytes are sent.
    fn send(&mut self, content: &[u8], until: usize) -> Option<FileEnd> {
        let part = |from: u64, to: u64| content[from as usize..to as usize].to_vec();
        self.send_parts(part, until as u64)
    }

    /// The same of a file that is made when it is wanted, from one offset to another.
    fn send_parts(&mut self, part: impl Fn(u64, u64) -> Vec<u8>, until: u64) -> Option<FileEnd> {
        let mut supplied = 0;
        loop {
            match self.event() {
                FileEvent::Wanted { id, entry, offset, bytes } => {
                    supplied = offset + bytes;
                    self.end.supply(id, entry, offset, &part(offset, supplied), 0);
                }
                FileEvent::Ended { why, .. } => return Some(why),
                FileEvent::Answered {
                    answer: FileAnswer::Yes { .. } | FileAnswer::Asking, ..
                } => {}
                other => panic!("{other:?}"),
            }
            if supplied > until {
                self.speak();
                return None;
            }
        }
    }

    /// Waits until people are told this.
    pub(crate) fn until_told(&mut self, text: &str) {
        while !self.notices.iter().any(|told| told == text) {
            if let Message::Notice(told) = self.viewer.next().expect("the connection ended first") {
                self.notices.push(told);
            }
        }
    }

    /// Waits for an offer, and accepts it.
    pub(crate) fn accept(&mut self, start: Start) -> Offer {
        let FileEvent::Offered { id, offer } = self.event() else { panic!("it is offered") };
        self.end.answer(id, Some(start), 0);
        (*offer).clone()
    }

    /// Receives one file to its end.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        self.receive_parts(|bytes| content.extend(bytes));
        content
    }

    fn receive_parts(&mut self, mut part: impl FnMut(&[u8])) {
        loop {
            let FileEvent::Data { id, bytes, last, .. } = self.event() else {
                panic!("content follows")
            };
            part(&bytes);
            self.end.stored(id, bytes.len());
            if last {
                self.end.finish(id);
                self.speak();
                return;
            }
        }
    }
}

fn offer(name: &str, size: usize) -> Offer {
    offer_for(FilePurpose::Sent, name, size)
}

fn offer_for(purpose: FilePurpose, name: &str, size: usize) -> Offer {
    let path = name.to_owned();
    let entry = FileEntry { kind: FileKind::File, size: size as u64, modified_ms: 1, path };
    Offer::new(purpose, vec![entry]).unwrap()
}

/// An X client of the session.
pub(crate) fn x_client(session: &Session) -> RustConnection {
    let status = session.status();
    let field = |name: &str| status[name].as_str().unwrap().to_owned();
    let display = field("display");
    let list = Command::new("xauth").args(["-f", &field("xauthority"), "list", &display]).output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    let [name, key] = list.split_whitespace().skip(1).collect::<Vec<_>>()[..2] else {
        panic!("{list}")
    };
    let key = (0..key.len() / 2).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16));
    let key = key.collect::<Result<_, _>>().unwrap();
    let socket = format!("/tmp/.X11-unix/X{}", display.trim_start_matches(':'));
    let (stream, _) =
        DefaultStream::from_unix_stream(UnixStream::connect(socket).unwrap()).unwrap();
    let name = name.as_bytes().to_vec();
    RustConnection::connect_to_stream_with_auth_info(stream, 0, name, key).unwrap()
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// A part of a file that is too large for memory: no two places of it are alike.
fn large_content(from: u64, to: u64) -> Vec<u8> {
    let word = |at: u64| (at / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (from..to).map(|at| word(at)[(at % 8) as usize]).collect()
}

/// `thinc send`, while a viewer answers.
fn thinc_send(session: &Session, arguments: &[&str]) -> Child {
    let arguments = [&["send", "--session", session.name.as_str()], arguments].concat();
    let mut command = session.environment.thinc(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end_of(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

#[test]
fn what_a_viewer_sends_is_in_the_downloads_under_a_free_name() {
    let session = session(&[]);
    let mut viewer = FileViewer::connect(&session, 1);
    for name in ["report.bin", "report (2).bin"] {
        let sent = content(300_000);
        viewer.end.offer(offer("report.bin", sent.len()), 0).unwrap();
        assert_eq!(viewer.send(&sent, usize::MAX), Some(FileEnd::Done));
        assert!(fs::read(downloads(&session).join(name)).unwrap() == sent, "{name}");
        let told = format!("Received {name} in {}", downloads(&session).display());
        viewer.until_told(&told);
    }
}

/// `THINC_FILE_BYTES=3000000001` sends 3 GB (`./dev test --long`).
#[test]
fn a_large_file_goes_to_the_session_and_back_and_is_the_same() {
    let bytes = std::env::var("THINC_FILE_BYTES").map_or(30_000_001, |text| text.parse().unwrap());
    let session = session(&[]);
    let mut viewer = FileViewer::connect(&session, 1);
    viewer.end.offer(offer("large.bin", bytes as usize), 0).unwrap();
    assert_eq!(viewer.send_parts(large_content, u64::MAX), Some(FileEnd::Done));
    let path = downloads(&session).join("large.bin");
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let sends = thinc_send(&session, &[path.to_str().unwrap()]);
    assert_eq!(viewer.accept(Start::default()).entries()[0].size, bytes);
    let mut received = 0;
    viewer.receive_parts(|part| {
        let end = received + part.len() as u64;
        assert!(part == large_content(received, end), "between {received} and {end}");
        received = end;
    });
    assert_eq!(received, bytes);
    assert!(end_of(sends).status.success());
}

#[test]
fn what_is_dropped_on_a_window_goes_to_its_program() {
    let session = session(&[]);
    let mut viewer = FileViewer::connect(&session, 1);
    let path = downloads(&session).join("report.bin");
    let told = format!("Received report.bin in {}", downloads(&session).display());
    let place = |(x, y): (i16, i16)| FilePurpose::Dropped { x: x as u16 + 50, y: y as u16 + 50 };
    let (_, received) = drop_program::start(x_client(&session), Manners::Takes(1), 5);
    let sent = content(100_000);
    viewer.end.offer(offer_for(place(AT), "report.bin", sent.len()), 0).unwrap();
    assert_eq!(viewer.send(&sent, usize::MAX), Some(FileEnd::Done));
    assert_eq!(received.recv(), Ok(Received::Entered));
    let Ok(Received::List(list, at, _)) = received.recv() else { panic!("the paths follow") };
    assert_eq!(String::from_utf8(list).unwrap(), format!("file://{}\r\n", path.display()));
    assert_eq!(at, (150, 150));
    assert!(fs::read(&path).unwrap() == sent);
    viewer.until_told(&format!("{told}, and gave it to the window where you dropped it"));
    // Nothing takes it there.
    fs::remove_file(&path).unwrap();
    viewer.end.offer(offer_for(place((400, 400)), "report.bin", 3), 0).unwrap();
    assert_eq!(viewer.send(b"abc", usize::MAX), Some(FileEnd::Done));
    viewer.until_told(&told);
    assert_eq!(fs::read(&path).unwrap(), b"abc");
}

#[test]
fn what_a_viewer_sends_goes_on_after_the_session_process_was_killed() {
    let session = session(&[]);
    let sent = content(8_000_000);
    let mut viewer = FileViewer::connect(&session, 1);
    viewer.end.offer(offer("large.bin", sent.len()), 0).unwrap();
    assert_eq!(viewer.send(&sent, 3_000_000), None);
    let part = || {
        let folders = fs::read_dir(downloads(&session)).ok()?;
        let part = folders.flatten().next()?.path().join("part");
        fs::metadata(part).ok().filter(|part| part.len() > 1_000_000)
    };
    wait_until("a part is there", part);
    let pid = session.pid("session");
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    wait_for_end(pid);
    drop(viewer);
    let mut viewer = FileViewer::connect(&session, 1);
    viewer.end.offer(offer("large.bin", sent.len()), 0).unwrap();
    let mut begins = None;
    while begins.is_none() {
        if let FileEvent::Answered { answer: FileAnswer::Yes { offset, .. }, .. } = viewer.event() {
            begins = Some(offset);
        }
    }
    assert!(begins.is_some_and(|offset| offset > 1_000_000), "it begins at {begins:?}");
    assert_eq!(viewer.send(&sent, usize::MAX), Some(FileEnd::Done));
    assert!(fs::read(downloads(&session).join("large.bin")).unwrap() == sent);
    assert_eq!(fs::read_dir(downloads(&session)).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_program_sends_files_to_whom_the_session_is_shown() {
    let session = session(&[]);
    let file = session.environment.folder.join("notes.txt");
    fs::write(&file, content(200_000)).unwrap();
    let path = file.to_str().unwrap();
    // Nobody is there.
    let words = failed(&end_of(thinc_send(&session, &[path])));
    assert!(words.contains("no viewer of yours that receives files is connected"), "{words}");
    let mut viewer = FileViewer::connect(&session, 1);
    let sends = thinc_send(&session, &[path]);
    let offer = viewer.accept(Start::default());
    assert_eq!(offer.entries()[0].path, "notes.txt");
    assert!(viewer.receive() == content(200_000));
    let output = end_of(sends);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Sent.\n");
    // The person does not want it.
    let sends = thinc_send(&session, &[path]);
    let FileEvent::Offered { id, .. } = viewer.event() else { panic!("it is offered") };
    viewer.end.answer(id, None, 0);
    viewer.speak();
    let words = failed(&end_of(sends));
    assert!(words.contains("the person at the viewer does not want it"), "{words}");
    // The sender gives up.
    let mut sends = thinc_send(&session, &["--notify", path]);
    let FileEvent::Offered { .. } = viewer.event() else { panic!("it is offered") };
    sends.kill().unwrap();
    sends.wait().unwrap();
    assert!(matches!(viewer.event(), FileEvent::Stopped { why: FileEnd::Cancelled, .. }));
    viewer.until_told("Not sent to your computer: the program that sent it has ended");
    // What is in a folder and is not sent.
    let folder = session.environment.folder.join("photos");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "a").unwrap();
    std::os::unix::fs::symlink("/", folder.join("all")).unwrap();
    let sends = thinc_send(&session, &[folder.to_str().unwrap()]);
    viewer.until_told("Sending photos: 1 link or device in it is left out");
    assert_eq!(viewer.accept(Start::default()).entries().len(), 2);
    assert_eq!(viewer.receive(), b"a");
    assert!(end_of(sends).status.success());
    let words = failed(&end_of(thinc_send(&session, &["/none"])));
    assert!(words.contains("/none"), "{words}");
}

#[test]
fn a_viewer_that_comes_back_gets_the_rest() {
    let session = session(&[]);
    let file = session.environment.folder.join("large.bin");
    let sent = content(6_000_000);
    fs::write(&file, &sent).unwrap();
    let mut viewer = FileViewer::connect(&session, 7);
    let sends = thinc_send(&session, &[file.to_str().unwrap()]);
    viewer.accept(Start::default());
    let (mut part, mut start) = (Vec::new(), Start::default());
    while part.len() < 1_000_000 {
        let FileEvent::Data { id, bytes, .. } = viewer.event() else { panic!("content follows") };
        viewer.end.stored(id, bytes.len());
        part.extend(bytes);
    }
    drop(viewer);
    start.offset = part.len() as u64;
    start.hash.update(&part);
    let mut viewer = FileViewer::connect(&session, 7);
    viewer.accept(start);
    part.extend(viewer.receive());
    assert!(part == sent, "both parts are the file");
    assert!(end_of(sends).status.success());
}

#[test]
fn files_may_be_switched_off() {
    let session = session(&["--files", "off"]);
    let mut viewer = FileViewer::connect(&session, 1);
    viewer.end.offer(offer("f", 1), 0).unwrap();
    let answer = viewer.event();
    assert!(matches!(answer, FileEvent::Answered { answer: FileAnswer::Policy, .. }), "{answer:?}");
    let file = session.environment.folder.join("f");
    fs::write(&file, "1").unwrap();
    let words = failed(&end_of(thinc_send(&session, &[file.to_str().unwrap()])));
    assert!(words.contains("this session sends no files (--files)"), "{words}");
    assert!(!downloads(&session).exists());
}
