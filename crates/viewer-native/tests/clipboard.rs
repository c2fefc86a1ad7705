//! Copy and paste between the viewer's desktop and a fake session: by the script, and by real
//! applications (xclip) on an X server with the viewer's window. The session's end of the channel
//! is thinc-clipboard's, driven by the test. With a real session: tests/tests/clipboard.rs.

#[cfg(feature = "window")]
mod desk;
mod fake;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fake::{Fake, LONG};
use thinc_clipboard::{ClipEvent, ClipboardPolicy, Endpoint, Side};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::Size;
use thinc_viewer_native::client::Reconnect;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};

const WORDS: &str = "Grüße 😀 漢字\ntwo lines\tand a tab\n";
const HTML: &str = "<p>Grüße <b>😀</b></p>";
/// A PNG of one pixel.
/// A bundle without entries.
const NO_FILES: &[u8] = &[0];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\
    :~\x9bU\0\0\0\nIDATx\x9cch\0\0\0\x82\0\x81w\xcdr\xb6\0\0\0\0IEND\xaeB`\x82";

fn formats(of: &[ClipFormat]) -> ClipFormats {
    of.iter().copied().collect()
}

/// The session's side of one connection.
struct Session<'a> {
    fake: &'a Fake,
    end: Endpoint,
    began: Instant,
    /// Contents received from the viewer, whatever the pieces' sizes.
    seen: Vec<ClipMessage>,
}

impl<'a> Session<'a> {
    /// A session after the hello of a viewer with a clipboard.
    fn connected(fake: &'a Fake) -> Session<'a> {
        let caps = fake.wait_for("hello", |message| match message {
            ViewerMessage::Hello(hello) => Some(hello.caps),
            _ => None,
        });
        let mut end = Endpoint::new(Side::Session, ClipboardPolicy::default());
        end.set_offers_wanted(caps & ViewerCaps::CLIPBOARD != 0);
        Session { fake, end, began: Instant::now(), seen: Vec::new() }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Sends what is queued.
    fn say(&mut self) {
        let now = self.now();
        while let Some(message) =
            self.end.poll_control().or_else(|| self.end.poll_piece(16 * 1024, now))
        {
            self.fake.send(&SessionMessage::Clip(message));
        }
    }

    fn offer(&mut self, selection: Selection, formats: ClipFormats) {
        self.end.offer(selection, formats);
        self.say();
    }

    /// The next event of the session's clipboard.
    fn next(&mut self, what: &str) -> ClipEvent {
        loop {
            self.say();
            if let Some(event) = self.end.poll_event() {
                return event;
            }
            let message = self.fake.wait_for(what, |message| match message {
                ViewerMessage::Clip(message) => Some(message.clone()),
                _ => None,
            });
            let now = self.now();
            self.end.handle(&message, now).unwrap();
            self.seen.push(message);
        }
    }

    fn offered(&mut self, selection: Selection, formats: ClipFormats) {
        loop {
            if self.next("an offer") == (ClipEvent::Offered { selection, formats }) {
                return;
            }
        }
    }

    /// An application in the session pastes.
    fn paste(&mut self, selection: Selection, format: ClipFormat) -> Result<Vec<u8>, ClipEnd> {
        let now = self.now();
        let asked = self.end.request(selection, format, now).expect("it is offered");
        loop {
            match self.next("a content") {
                ClipEvent::Received { id, content } if id == asked => return Ok(content),
                ClipEvent::Ended { id, why } if id == asked => return Err(why),
                _ => {}
            }
        }
    }

    /// Answers the next request to the session.
    fn give(&mut self, format: ClipFormat, content: Result<&[u8], ClipEnd>) {
        loop {
            if let ClipEvent::Wanted { id, format: wanted, .. } = self.next("a request") {
                assert_eq!(wanted, format);
                let now = self.now();
                self.end.provide(id, content.map(|content| Arc::new(content.to_vec())), now);
                return self.say();
            }
        }
    }

    /// Sends until the whole content has arrived.
    fn give_all(&mut self, content: &[u8]) {
        let all = content.len() as u64;
        loop {
            self.say();
            let done = self.fake.wait_for("the content's arrival", |message| match message {
                ViewerMessage::Clip(message) => Some(message.clone()),
                _ => None,
            });
            let now = self.now();
            self.end.handle(&done, now).unwrap();
            if matches!(done, ClipMessage::Received { bytes, .. } if bytes == all) {
                return;
            }
        }
    }
}

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("thinc-view-clip-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn headless(fake: &Fake, clipboard: ClipboardPolicy) -> Headless {
    let options = HeadlessOptions {
        timeout: LONG,
        clipboard,
        reconnect: Reconnect::Always,
        ..HeadlessOptions::default()
    };
    Headless::open(fake.link(), options).unwrap()
}

fn size() -> Size {
    Size { width: 64, height: 64 }
}

#[test]
fn a_script_copies_and_pastes_every_format_in_both_selections() {
    let fake = Fake::start(size());
    let mut viewer = headless(&fake, ClipboardPolicy::default());
    let mut session = Session::connected(&fake);
    let contents = [
        (ClipFormat::Text, WORDS.as_bytes()),
        (ClipFormat::Html, HTML.as_bytes()),
        (ClipFormat::Png, PNG),
        (ClipFormat::Files, NO_FILES),
    ];
    for selection in Selection::ALL {
        viewer.copy(selection, ClipFormat::Text, WORDS.into());
        session.offered(selection, formats(&[ClipFormat::Text]));
        viewer.add_copied(selection, ClipFormat::Html, HTML.into());
        viewer.add_copied(selection, ClipFormat::Png, PNG.to_vec());
        viewer.add_copied(selection, ClipFormat::Files, NO_FILES.to_vec());
        session.offered(selection, formats(&ClipFormat::ALL));
        assert!(
            !session.seen.iter().any(|m| matches!(m, ClipMessage::Data { .. })),
            "nothing is requested before a paste"
        );
        for (format, content) in contents {
            assert_eq!(session.paste(selection, format).unwrap(), content);
        }
        session.seen.clear();

        session.offer(selection, formats(&ClipFormat::ALL));
        viewer.wait_copied(selection, formats(&ClipFormat::ALL)).unwrap();
        for (format, content) in contents {
            std::thread::scope(|scope| {
                let pasted = scope.spawn(|| viewer.paste(selection, format).unwrap());
                session.give(format, Ok(content));
                session.give_all(content);
                assert_eq!(pasted.join().unwrap(), content);
            });
        }
        session.offer(selection, ClipFormats::NONE);
        viewer.wait_copied(selection, ClipFormats::NONE).unwrap();
        let error = viewer.paste(selection, ClipFormat::Text).unwrap_err().to_string();
        assert!(error.contains("does not offer this format"), "{error}");
    }
}

#[test]
fn the_viewer_enforces_the_clipboard_policy() {
    let both = ClipboardPolicy::default();
    for policy in [
        ClipboardPolicy { take: false, ..both },
        ClipboardPolicy { give: false, ..both },
        ClipboardPolicy { give: false, take: false, ..both },
    ] {
        let fake = Fake::start(size());
        let mut viewer = headless(&fake, policy);
        let mut session = Session::connected(&fake);
        // A session that ignores the capability, and offers all the same.
        session.end.set_offers_wanted(true);
        session.offer(Selection::Primary, formats(&[ClipFormat::Text]));
        viewer.copy(Selection::Clipboard, ClipFormat::Text, b"mine".to_vec());
        if policy.give {
            session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
            assert_eq!(session.paste(Selection::Clipboard, ClipFormat::Text).unwrap(), b"mine");
        }
        // An offer before this barrier has arrived after it.
        viewer.barrier().unwrap();
        let takes = if policy.take { formats(&[ClipFormat::Text]) } else { ClipFormats::NONE };
        viewer.wait_copied(Selection::Primary, takes).unwrap();
        if !policy.give {
            let said = fake
                .said
                .try_iter()
                .filter(|m| matches!(m, ViewerMessage::Clip(ClipMessage::Offer { .. })));
            assert_eq!(said.count(), 0, "{policy:?}");
        }
        if !policy.take {
            assert!(viewer.paste(Selection::Primary, ClipFormat::Text).is_err());
        }
    }
}

#[test]
fn a_content_over_the_limit_is_refused_with_the_reason_on_either_side() {
    let fake = Fake::start(size());
    let mut viewer =
        headless(&fake, ClipboardPolicy { bytes_max: 1 << 20, ..ClipboardPolicy::default() });
    let mut session = Session::connected(&fake);
    session.offer(Selection::Clipboard, formats(&[ClipFormat::Text]));
    viewer.wait_copied(Selection::Clipboard, formats(&[ClipFormat::Text])).unwrap();
    let large = vec![b'x'; 3 << 20];
    std::thread::scope(|scope| {
        let pasted = scope.spawn(|| {
            viewer.paste(Selection::Clipboard, ClipFormat::Text).unwrap_err().to_string()
        });
        session.give(ClipFormat::Text, Ok(&large));
        while !pasted.is_finished() {
            session.say();
            if let Ok(ViewerMessage::Clip(message)) =
                fake.said.recv_timeout(std::time::Duration::from_millis(5))
            {
                let now = session.now();
                session.end.handle(&message, now).unwrap();
            }
        }
        let words = pasted.join().unwrap();
        assert!(words.contains("the limit of 1 MiB"), "{words}");
    });
    viewer.copy(Selection::Clipboard, ClipFormat::Text, large);
    session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
    let why = session.paste(Selection::Clipboard, ClipFormat::Text).unwrap_err();
    assert_eq!(why, ClipEnd::TooLarge { bytes: 3 << 20, limit: 1 << 20 });
}

#[test]
fn a_paste_survives_a_loss_of_the_connection() {
    let fake = Fake::start(size());
    let mut viewer = headless(&fake, ClipboardPolicy::default());
    let mut session = Session::connected(&fake);
    let large: Vec<u8> = (0..1_000_000u32).map(|i| b'a' + (i % 23) as u8).collect();

    // Into the session: local offers are repeated.
    viewer.copy(Selection::Clipboard, ClipFormat::Text, large.clone());
    session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
    let now = session.now();
    session.end.request(Selection::Clipboard, ClipFormat::Text, now).unwrap();
    session.say();
    fake.wait_for("the first piece", |message| {
        matches!(message, ViewerMessage::Clip(ClipMessage::Data { .. })).then_some(())
    });
    fake.close(CloseCode::Restart, "again");
    let mut session = Session::connected(&fake);
    session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
    assert!(session.paste(Selection::Clipboard, ClipFormat::Text).unwrap() == large);

    // Out of it: a waiting application gets the session's content after reconnecting.
    session.offer(Selection::Clipboard, formats(&[ClipFormat::Text]));
    viewer.wait_copied(Selection::Clipboard, formats(&[ClipFormat::Text])).unwrap();
    std::thread::scope(|scope| {
        let pasted = scope.spawn(|| viewer.paste(Selection::Clipboard, ClipFormat::Text).unwrap());
        session.give(ClipFormat::Text, Ok(&large));
        fake.wait_for("the first piece's arrival", |message| {
            matches!(message, ViewerMessage::Clip(ClipMessage::Received { .. })).then_some(())
        });
        fake.close(CloseCode::Restart, "again");
        let mut session = Session::connected(&fake);
        session.offer(Selection::Clipboard, formats(&[ClipFormat::Text]));
        session.give(ClipFormat::Text, Ok(&large));
        session.give_all(&large);
        assert!(pasted.join().unwrap() == large);
    });
}

#[test]
fn a_paste_ends_if_the_session_no_longer_offers_the_content() {
    let fake = Fake::start(size());
    let mut viewer = headless(&fake, ClipboardPolicy::default());
    let mut session = Session::connected(&fake);
    session.offer(Selection::Clipboard, formats(&[ClipFormat::Text]));
    viewer.wait_copied(Selection::Clipboard, formats(&[ClipFormat::Text])).unwrap();
    std::thread::scope(|scope| {
        let pasted = scope.spawn(|| {
            viewer.paste(Selection::Clipboard, ClipFormat::Text).unwrap_err().to_string()
        });
        while !matches!(session.next("a request"), ClipEvent::Wanted { .. }) {}
        fake.close(CloseCode::Restart, "again");
        let mut session = Session::connected(&fake);
        session.offer(Selection::Clipboard, formats(&[ClipFormat::Html]));
        let words = pasted.join().unwrap();
        assert!(words.contains("does not offer this format"), "{words}");
    });
}

#[test]
fn a_paste_ends_with_the_session() {
    let fake = Fake::start(size());
    let mut viewer = headless(&fake, ClipboardPolicy::default());
    let mut session = Session::connected(&fake);
    session.offer(Selection::Clipboard, formats(&[ClipFormat::Text]));
    viewer.wait_copied(Selection::Clipboard, formats(&[ClipFormat::Text])).unwrap();
    std::thread::scope(|scope| {
        let pasted = scope.spawn(|| viewer.paste(Selection::Clipboard, ClipFormat::Text));
        while !matches!(session.next("a request"), ClipEvent::Wanted { .. }) {}
        fake.close(CloseCode::SessionEnded, "the command ended");
        assert!(pasted.join().unwrap().is_err());
    });
}

#[cfg(feature = "window")]
mod window {
    use std::path::Path;
    use std::process::{Command as Program, Stdio};

    use thinc_protocol::viewer::InputEvent;
    use thinc_region::Rect;

    use super::*;
    use crate::desk::{Desk, Ended, until, xvfb};

    /// xclip on the viewer's X server.
    struct Programs {
        display: String,
        folder: Folder,
        owners: Vec<Ended>,
    }

    /// An X server where applications can copy and paste.
    fn server() -> Option<(Ended, String)> {
        if let Err(error) = Program::new("xclip").arg("-version").stderr(Stdio::null()).status() {
            assert!(std::env::var_os("CI").is_none(), "the clipboard's tests need xclip: {error}");
            eprintln!("skipped: no xclip ({error})");
            return None;
        }
        xvfb()
    }

    fn start(name: &str, arguments: &[&str]) -> Option<(Desk, Programs)> {
        let (server, display) = server()?;
        let desk = Desk::start_on(server, &display, desk::size(400, 300), arguments);
        desk.wait_exact();
        Some((desk, Programs { display, folder: Folder::new(name), owners: Vec::new() }))
    }

    impl Programs {
        fn xclip(&self, selection: Selection, target: &str) -> Program {
            let mut program = Program::new("xclip");
            let name = ["clipboard", "primary"][selection as usize];
            program
                .args(["-selection", name, "-target", target, "-display", &self.display])
                .stderr(Stdio::null());
            program
        }

        /// An application copies something, and keeps running to provide it.
        fn copy(&mut self, selection: Selection, target: &str, content: &[u8]) {
            let file = self.folder.file("copied");
            std::fs::write(&file, content).unwrap();
            self.owners.push(Ended(
                self.xclip(selection, target).args(["-in", "-quiet"]).arg(&file).spawn().unwrap(),
            ));
        }

        /// An application that pastes into a file.
        fn pasting(&self, selection: Selection, target: &str, into: &Path) -> Ended {
            let out = std::fs::File::create(into).unwrap();
            Ended(self.xclip(selection, target).arg("-out").stdout(out).spawn().unwrap())
        }

        /// What it has pasted, once it has ended.
        fn pasted(program: &mut Ended, from: &Path) -> Vec<u8> {
            until("xclip has pasted", || program.0.try_wait().unwrap());
            std::fs::read(from).unwrap()
        }

        /// The targets that applications can paste.
        fn targets(&self, selection: Selection) -> String {
            let output = self.xclip(selection, "TARGETS").arg("-out").output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
    }

    /// A person presses a key in the window, as for a paste.
    fn press(desk: &Desk) {
        const LEFT_SHIFT: u16 = 42;
        desk.point(50, 50);
        for down in [true, false] {
            desk.key(LEFT_SHIFT, down);
        }
        desk.fake.wait_for("the key", |message| match message {
            ViewerMessage::Input(input) => {
                matches!(input.event, InputEvent::Key { down: false, .. }).then_some(())
            }
            _ => None,
        });
    }

    /// Noise, which does not compress.
    fn noise_png(edge: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, edge, edge);
        encoder.set_color(png::ColorType::Rgb);
        let mut noise = 1u32;
        let data: Vec<u8> = (0..edge * edge * 3)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            })
            .collect();
        encoder.write_header().unwrap().write_image_data(&data).unwrap();
        bytes
    }

    /// HTML has a text, into which it is converted.
    fn offered_as(format: ClipFormat) -> ClipFormats {
        match format {
            ClipFormat::Html => formats(&[ClipFormat::Text, ClipFormat::Html]),
            other => formats(&[other]),
        }
    }

    #[test]
    fn what_is_no_format_of_the_protocol_is_converted_for_the_session() {
        let Some((desk, mut programs)) = start("converted", &[]) else { return };
        let mut session = Session::connected(&desk.fake);
        programs.copy(Selection::Clipboard, "text/html", b"<p>one<p>two &gt; one");
        session.offered(Selection::Clipboard, offered_as(ClipFormat::Html));
        press(&desk);
        let text = session.paste(Selection::Clipboard, ClipFormat::Text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "one\n\ntwo > one");
        // A bitmap of two pixels, green and red, with rows padded to four bytes.
        let header = [54, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0];
        let bmp = [&b"BM\x3e\0\0\0\0\0\0\0"[..], &header, &[0; 24], &[0, 255, 0, 0, 0, 255, 0, 0]];
        programs.copy(Selection::Clipboard, "image/bmp", &bmp.concat());
        session.offered(Selection::Clipboard, formats(&[ClipFormat::Png]));
        press(&desk);
        let bytes = session.paste(Selection::Clipboard, ClipFormat::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [0, 255, 0, 255, 0, 0]);
    }

    #[test]
    fn local_applications_and_the_session_paste_each_others_copies() {
        let Some((desk, mut programs)) = start("programs", &[]) else { return };
        let mut session = Session::connected(&desk.fake);
        let (picture, text) = (noise_png(400), WORDS.repeat(110_000));
        assert!(
            picture.len() > 300_000 && text.len() > 4_000_000,
            "too long for one property: INCR"
        );
        let contents: [(ClipFormat, &str, &[u8]); 4] = [
            (ClipFormat::Text, "UTF8_STRING", WORDS.as_bytes()),
            (ClipFormat::Html, "text/html", HTML.as_bytes()),
            (ClipFormat::Png, "image/png", &picture),
            (ClipFormat::Text, "UTF8_STRING", text.as_bytes()),
        ];
        let file = programs.folder.file("pasted");
        for selection in Selection::ALL {
            for (format, target, content) in contents {
                programs.copy(selection, target, content);
                session.offered(selection, offered_as(format));
                press(&desk);
                assert!(
                    session.paste(selection, format).unwrap() == content,
                    "{target} into the session"
                );

                session.offer(selection, formats(&[format]));
                // xclip itself has no TIMESTAMP.
                let seen =
                    |targets: String| targets.contains("TIMESTAMP") && targets.contains(target);
                until("programs here see it", || seen(programs.targets(selection)).then_some(()));
                session.seen.clear();
                let mut pasting = programs.pasting(selection, target, &file);
                session.give(format, Ok(content));
                session.give_all(content);
                // HTML declares its encoding there, as X clients expect.
                assert!(
                    Programs::pasted(&mut pasting, &file).ends_with(content),
                    "{target} out of the session"
                );
            }
        }
    }

    #[test]
    fn a_session_gets_nothing_that_a_person_copied_before_something_is_pressed() {
        let Some((desk, mut programs)) = start("unpressed", &[]) else { return };
        let mut session = Session::connected(&desk.fake);
        for (selection, format, target) in [
            (Selection::Clipboard, ClipFormat::Text, "UTF8_STRING"),
            (Selection::Primary, ClipFormat::Html, "text/html"),
        ] {
            programs.copy(selection, target, b"a password");
            session.offered(selection, offered_as(format));
            if selection == Selection::Clipboard {
                // The pointer may rest in the window, and move.
                desk.point(60, 60);
                desk.motion((60, 60));
                assert_eq!(session.paste(selection, format), Err(ClipEnd::Unavailable));
                press(&desk);
            }
            assert_eq!(session.paste(selection, format).unwrap(), b"a password");
        }
    }

    #[test]
    fn a_selection_copied_before_connecting_is_offered_to_the_session() {
        // Copied before the viewer starts.
        let Some((server, display)) = server() else { return };
        let mut programs = Programs { display, folder: Folder::new("first"), owners: Vec::new() };
        programs.copy(Selection::Clipboard, "UTF8_STRING", b"copied before");
        until("xclip owns it", || {
            programs.targets(Selection::Clipboard).contains("UTF8_STRING").then_some(())
        });
        let desk = Desk::start_on(server, &programs.display, desk::size(400, 300), &[]);
        let mut session = Session::connected(&desk.fake);
        session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
        press(&desk);
        assert_eq!(
            session.paste(Selection::Clipboard, ClipFormat::Text).unwrap(),
            b"copied before"
        );
        // After a loss it is offered again, still by the desktop's application.
        desk.fake.close(CloseCode::Restart, "again");
        let mut session = Session::connected(&desk.fake);
        session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
        press(&desk);
        assert_eq!(
            session.paste(Selection::Clipboard, ClipFormat::Text).unwrap(),
            b"copied before"
        );
        // The selections of local applications end with them.
        programs.owners.clear();
        session.offered(Selection::Clipboard, ClipFormats::NONE);
    }

    #[test]
    fn one_direction_and_off_keep_each_sides_selections() {
        for (word, gives, takes) in
            [("to-session", true, false), ("from-session", false, true), ("off", false, false)]
        {
            let Some((desk, mut programs)) = start(word, &["--clipboard", word]) else { return };
            let mut session = Session::connected(&desk.fake);
            session.end.set_offers_wanted(true);
            programs.copy(Selection::Clipboard, "UTF8_STRING", b"from here");
            if gives {
                session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
                press(&desk);
                assert_eq!(
                    session.paste(Selection::Clipboard, ClipFormat::Text).unwrap(),
                    b"from here"
                );
            }
            until("it is copied", || {
                programs.targets(Selection::Clipboard).contains("UTF8_STRING").then_some(())
            });
            session.offer(Selection::Primary, formats(&[ClipFormat::Text]));
            session.offer(Selection::Clipboard, formats(&[ClipFormat::Html]));
            if takes {
                until("the session's", || {
                    programs.targets(Selection::Primary).contains("UTF8_STRING").then_some(())
                });
                until("and its HTML", || {
                    programs.targets(Selection::Clipboard).contains("text/html").then_some(())
                });
            } else {
                // An update that was drawn after the offers is shown after them.
                desk.fake.fill(Rect::at(0, 0, 400, 300), 0x12_3456, None);
                desk.wait_exact();
                assert_eq!(programs.targets(Selection::Primary), "", "{word}");
                assert!(programs.targets(Selection::Clipboard).contains("UTF8_STRING"), "{word}");
            }
            if !gives {
                let said = desk
                    .fake
                    .said
                    .try_iter()
                    .filter(|m| matches!(m, ViewerMessage::Clip(ClipMessage::Offer { .. })));
                assert_eq!(said.count(), 0, "{word}");
            }
        }
    }

    #[test]
    fn a_content_over_the_limit_shows_a_notice_that_expires() {
        let Some((desk, mut programs)) = start("limit", &["--clipboard-max", "1M"]) else { return };
        let mut session = Session::connected(&desk.fake);
        programs.copy(Selection::Clipboard, "UTF8_STRING", &vec![b'x'; 3 << 20]);
        session.offered(Selection::Clipboard, formats(&[ClipFormat::Text]));
        press(&desk);
        let why = session.paste(Selection::Clipboard, ClipFormat::Text).unwrap_err();
        assert!(matches!(why, ClipEnd::TooLarge { limit: 0x10_0000, .. }), "{why:?}");
        let edge = Rect::at(0, 280, 400, 20);
        let (ink, paper) = (0xe8_e8e8, 0x18_181c);
        until("words at the lower edge", || {
            let pixels = desk.pixels(edge);
            (pixels.contains(&ink) && pixels.iter().filter(|pixel| **pixel == paper).count() > 500)
                .then_some(())
        });
        let picture = desk.fake.screen();
        assert_eq!(
            desk.pixels(Rect::at(0, 0, 400, 250)),
            picture[..400 * 250],
            "the rest is not covered"
        );
        desk.wait_exact();
    }
}
