//! What programs of a session print, in the viewer: it asks, unless a printer was named, and keeps
//! exactly what was printed. The program against a fake session, with an `lp` that writes down how
//! it was called.

mod fake;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, LONG};
use thinc_files::{Endpoint, FileEvent, FilesPolicy, Offer, Printing};
use thinc_protocol::file::{FileAnswer, FileEnd, FileEntry, FileKind, FilePurpose};
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::Size;

const SIZE: Size = Size { width: 64, height: 64 };
const DOCUMENT: &[u8] = b"%PDF-1.7 a document";

/// A viewer with these arguments, whose user is at `folder`, and whose programs are those in `bin`.
fn viewer(fake: &Fake, arguments: &[&str]) -> Child {
    let bin = fake.folder.join("bin");
    let path = std::env::var("PATH").unwrap();
    Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .arg(fake.link().to_string())
        .args(["--headless", "--script", "-"])
        .args(arguments)
        .env_remove("DISPLAY")
        .env("HOME", &fake.folder)
        .env("XDG_CACHE_HOME", fake.folder.join("cache"))
        .env("PATH", format!("{}:{path}", bin.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn capabilities(fake: &Fake) -> u32 {
    fake.wait_for("a hello", |message| match message {
        ViewerMessage::Hello(hello) => Some(hello.caps),
        _ => None,
    })
}

/// Offers a printed document, and sends it if it is accepted; how that ended.
fn print(fake: &Fake, title: &str) -> Result<(), FileAnswer> {
    let ticket = PrintTicket {
        title: title.to_owned(),
        copies: 2,
        sides: PrintSides::LongEdge,
        colour: true,
        media: "iso_a4_210x297mm".to_owned(),
    };
    let entry = FileEntry {
        kind: FileKind::File,
        size: DOCUMENT.len() as u64,
        modified_ms: 1,
        path: "Report.pdf".to_owned(),
    };
    let printing = Printing::Sends;
    let mut end = Endpoint::new(FilesPolicy { printing, ..FilesPolicy::OFF });
    let purpose = FilePurpose::Printed(Box::new(ticket));
    end.offer(Offer::new(purpose, vec![entry]).unwrap(), 0).unwrap();
    loop {
        while let Some(message) = end.poll_control().or_else(|| end.poll_piece(usize::MAX, 0)) {
            fake.send(&SessionMessage::File(message));
        }
        match end.poll_event() {
            Some(FileEvent::Wanted { id, entry, offset, .. }) => {
                end.supply(id, entry, offset, DOCUMENT, 0);
                continue;
            }
            Some(FileEvent::Ended { why, .. }) => {
                assert_eq!(why, FileEnd::Done);
                return Ok(());
            }
            Some(FileEvent::Answered { answer, .. }) => match answer {
                FileAnswer::Asking | FileAnswer::Yes { .. } => continue,
                refusal => return Err(refusal),
            },
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        let message = fake.wait_for("a message about files", |message| match message {
            ViewerMessage::File(message) => Some(message.clone()),
            _ => None,
        });
        end.handle(&message, 0).unwrap();
    }
}

fn say(viewer: &mut Child, commands: &str) {
    viewer.stdin.as_mut().unwrap().write_all(commands.as_bytes()).unwrap();
}

fn answers(viewer: Child) -> String {
    let output = viewer.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn wait_until<T>(what: &str, mut result: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A printer's program: writes its arguments, each in a line, and the document into files.
fn fake_lp(folder: &Path) -> PathBuf {
    let (bin, called) = (folder.join("bin"), folder.join("called"));
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >'{0}.new'\nfor last; do :; done\n\
         cp \"$last\" '{0}.pdf'\nmv '{0}.new' '{0}'\n",
        called.display()
    );
    fs::write(bin.join("lp"), script).unwrap();
    fs::set_permissions(bin.join("lp"), fs::Permissions::from_mode(0o755)).unwrap();
    called
}

#[test]
fn the_user_is_asked_before_a_document_is_received() {
    let fake = Fake::start(SIZE);
    let mut viewer = viewer(&fake, &[]);
    assert_ne!(capabilities(&fake) & ViewerCaps::PRINTS, 0);
    say(&mut viewer, "files-question\nfiles-answer no\n");
    assert_eq!(print(&fake, "Report"), Err(FileAnswer::No));
    say(&mut viewer, "files-question\nfiles-answer yes\nquit\n");
    assert_eq!(print(&fake, "Report"), Ok(()));
    let answers = answers(viewer);
    let question = "A program of the session prints \"Report\" (19 bytes, 2 copies).";
    assert!(answers.contains(question), "{answers}");
    let folder = fake.folder.join("cache/thinc/printed");
    assert!(answers.contains(&format!("Received Report.pdf in {}", folder.display())), "{answers}");
    assert_eq!(fs::read(folder.join("Report.pdf")).unwrap(), DOCUMENT);
    let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "nobody else reads it");
}

#[test]
fn a_named_printer_prints_without_a_question() {
    let fake = Fake::start(SIZE);
    let called = fake_lp(&fake.folder);
    let mut viewer = viewer(&fake, &["--printer", "office"]);
    assert_ne!(capabilities(&fake) & ViewerCaps::PRINTS, 0);
    assert_eq!(print(&fake, "-o raw; $(reboot)"), Ok(()));
    let arguments = wait_until("lp was called", || fs::read_to_string(&called).ok());
    let lines: Vec<&str> = arguments.lines().collect();
    assert_eq!(lines[..6], ["-d", "office", "-n", "2", "-t", "-o raw; $(reboot)"]);
    assert_eq!(lines[6..10], ["-o", "sides=two-sided-long-edge", "-o", "media=iso_a4_210x297mm"]);
    assert_eq!(fs::read(called.with_extension("pdf")).unwrap(), DOCUMENT);
    let document = Path::new(lines[10]);
    wait_until("the viewer's copy is removed", || (!document.exists()).then_some(()));
    say(&mut viewer, "quit\n");
    answers(viewer);
}

#[test]
fn a_viewer_may_be_no_printer() {
    let fake = Fake::start(SIZE);
    let mut viewer = viewer(&fake, &["--printing", "off"]);
    assert_eq!(capabilities(&fake) & ViewerCaps::PRINTS, 0);
    assert_eq!(print(&fake, "Report"), Err(FileAnswer::Policy));
    say(&mut viewer, "quit\n");
    answers(viewer);
}
