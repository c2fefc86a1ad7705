//! CLIPBOARD and PRIMARY on a private X server, with xclip, xsel and misbehaving clients. Copied
//! contents are reported and can be fetched; owned ones are requested when pasted, and arrive byte
//! for byte. Skipped, with a message, without Xvfb or xclip.

#[path = "../../clip-convert/tests/hostile/mod.rs"]
mod hostile;
mod xvfb;

use std::io::{Cursor, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use image::{ImageFormat, Rgb, RgbImage};
use thinc_files_disk::Folders;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::file_bundle;
use thinc_x_selection::{XSelectionEvent, XSelections};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode,
    SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

use xvfb::{Ended, xvfb};

/// Longer than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);
/// Long enough for an unexpected event to arrive.
const QUIET: Duration = Duration::from_millis(300);
const LIMIT: usize = 16 << 20;
const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);

/// An X server, and the client under test.
struct Desk {
    selections: XSelections,
    events: Receiver<XSelectionEvent>,
    display: String,
    _server: Ended,
}

fn client(display: &str, limit: usize) -> (XSelections, Receiver<XSelectionEvent>) {
    client_with(display, limit, None)
}

fn client_with(
    display: &str,
    limit: usize,
    folders: Option<Folders>,
) -> (XSelections, Receiver<XSelectionEvent>) {
    let (sender, events) = channel();
    let selections = XSelections::start(Some(display), limit, folders, move |event| {
        let _ = sender.send(event);
    });
    (selections.unwrap(), events)
}

/// The first result of `is` for the next events.
fn wait<T>(
    events: &Receiver<XSelectionEvent>,
    what: &str,
    mut is: impl FnMut(&XSelectionEvent) -> Option<T>,
) -> T {
    let end = Instant::now() + LONG;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event =
            events.recv_timeout(left).unwrap_or_else(|error| panic!("timed out: {what}: {error}"));
        if let Some(found) = is(&event) {
            return found;
        }
    }
}

fn owned(of: Selection, with: ClipFormats) -> impl Fn(&XSelectionEvent) -> Option<()> {
    move |event| {
        matches!(event, XSelectionEvent::Owned { selection, formats, .. }
            if (*selection, *formats) == (of, with))
        .then_some(())
    }
}

fn wanted(event: &XSelectionEvent) -> Option<(u32, Selection, ClipFormat)> {
    match event {
        XSelectionEvent::Wanted { ticket, selection, format } => {
            Some((*ticket, *selection, *format))
        }
        _ => None,
    }
}

fn content(of: u32) -> impl Fn(&XSelectionEvent) -> Option<Result<Vec<u8>, ClipEnd>> {
    move |event| match event {
        XSelectionEvent::Content { id, content } if *id == of => Some(content.clone()),
        _ => None,
    }
}

impl Desk {
    fn start() -> Option<Desk> {
        Desk::with_limit(LIMIT)
    }

    fn with_limit(limit: usize) -> Option<Desk> {
        let (server, display) = xvfb(&["Xvfb", "xclip", "xsel"])?;
        let (selections, events) = client(&display, limit);
        let desk = Desk { selections, events, display, _server: server };
        for selection in Selection::ALL {
            wait(&desk.events, "nobody owns it yet", owned(selection, ClipFormats::NONE));
        }
        Some(desk)
    }

    fn wait<T>(&self, what: &str, is: impl FnMut(&XSelectionEvent) -> Option<T>) -> T {
        wait(&self.events, what, is)
    }

    /// An application that has copied this, and runs until dropped.
    fn copies(&self, arguments: &[&str], bytes: &[u8]) -> Ended {
        let mut child = Command::new("xclip")
            .args(["-quiet", "-in"])
            .args(arguments)
            .env("DISPLAY", &self.display)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        Ended(child)
    }

    /// An application's paste, on a separate thread.
    fn pastes(&self, program: &str, arguments: &[&str]) -> std::thread::JoinHandle<Vec<u8>> {
        let mut command = Command::new(program);
        command.args(arguments).env("DISPLAY", &self.display).stderr(Stdio::null());
        std::thread::spawn(move || command.output().unwrap().stdout)
    }

    fn provides(&self, text: &[u8]) {
        let (ticket, ..) = self.wait("an application pastes", wanted);
        self.selections.provide(ticket, Ok(text.to_vec()));
    }
}

/// Text of this length with distinct lines.
fn long_text(bytes: usize) -> Vec<u8> {
    let mut text = String::new();
    for line in 0.. {
        text.push_str(&format!("line {line} of a long text: grün\n"));
        if text.len() >= bytes {
            return text.into_bytes();
        }
    }
    unreachable!("lines never end")
}

#[test]
fn copies_of_applications_are_reported_and_fetched() {
    let Some(desk) = Desk::start() else { return };
    for (selection, name) in [(Selection::Clipboard, "clipboard"), (Selection::Primary, "primary")]
    {
        for (id, bytes) in [(1, b"a\r\nline".to_vec()), (2, long_text(10 << 20))] {
            let _xclip = desk.copies(&["-selection", name], &bytes);
            desk.wait("xclip owns it", owned(selection, TEXT));
            desk.selections.fetch(id, selection, ClipFormat::Text);
            let text = desk.wait("its content", content(id)).unwrap();
            assert_eq!(
                String::from_utf8(text).unwrap(),
                String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
            );
        }
        desk.wait("xclip has gone", owned(selection, ClipFormats::NONE));
        desk.selections.fetch(3, selection, ClipFormat::Text);
        assert_eq!(desk.wait("nothing", content(3)), Err(ClipEnd::Unavailable));
    }
}

#[test]
fn images_and_html_are_distinguished_from_text() {
    let Some(desk) = Desk::start() else { return };
    let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 300_000]].concat();
    let _png = desk.copies(&["-selection", "clipboard", "-t", "image/png"], &picture);
    desk.wait("an image", owned(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Png)));
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Png);
    assert_eq!(desk.wait("the image", content(1)), Ok(picture));
    let page: Vec<u8> = "<p>grün</p>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let _html = desk.copies(&["-selection", "clipboard", "-t", "text/html"], &page);
    desk.wait("a page", owned(Selection::Clipboard, TEXT.with(ClipFormat::Html)));
    desk.selections.fetch(2, Selection::Clipboard, ClipFormat::Html);
    assert_eq!(desk.wait("the page", content(2)), Ok("<p>grün</p>".as_bytes().to_vec()));
}

/// An image of this format.
fn image(format: ImageFormat) -> (RgbImage, Vec<u8>) {
    let image = RgbImage::from_fn(300, 200, |x, y| Rgb([x as u8, y as u8, (x ^ y) as u8]));
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    (image, bytes)
}

#[test]
fn html_has_a_text_and_images_have_a_png() {
    let Some(desk) = Desk::start() else { return };
    let html = "<p>grün&nbsp;&amp;<br>gut</p><script>x</script>".as_bytes();
    let _html = desk.copies(&["-selection", "clipboard", "-t", "text/html"], html);
    desk.wait("a page", owned(Selection::Clipboard, TEXT.with(ClipFormat::Html)));
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
    assert_eq!(desk.wait("its text", content(1)), Ok("grün &\ngut".as_bytes().to_vec()));
    for (id, (target, format)) in (2..).zip([
        ("image/jpeg", ImageFormat::Jpeg),
        ("image/bmp", ImageFormat::Bmp),
        ("image/x-bmp", ImageFormat::Bmp),
        ("image/x-MS-bmp", ImageFormat::Bmp),
        ("image/tiff", ImageFormat::Tiff),
    ]) {
        let (original, bytes) = image(format);
        let _image = desk.copies(&["-selection", "primary", "-t", target], &bytes);
        desk.wait(target, owned(Selection::Primary, ClipFormats::NONE.with(ClipFormat::Png)));
        desk.selections.fetch(id, Selection::Primary, ClipFormat::Png);
        let png = desk.wait("its PNG", content(id)).unwrap();
        let shown = image::load_from_memory_with_format(&png, ImageFormat::Png).unwrap();
        let expected = match format {
            ImageFormat::Jpeg => image::load_from_memory(&bytes).unwrap().into_rgb8(),
            _ => original,
        };
        assert!(shown.into_rgb8() == expected, "{target}");
    }
}

/// Answers one request, for targets or for a content, and returns the target.
fn answer(owner: &Program, contents: &[(&str, &[u8])]) -> String {
    loop {
        let Event::SelectionRequest(request) = owner.x.wait_for_event().unwrap() else { continue };
        let (window, property) = (request.requestor, request.property);
        let name = owner.x.get_atom_name(request.target).unwrap().reply().unwrap().name;
        let name = String::from_utf8(name).unwrap();
        if name == "TARGETS" {
            let targets: Vec<u32> = contents.iter().map(|(name, _)| owner.atom(name)).collect();
            let replace = PropMode::REPLACE;
            owner.x.change_property32(replace, window, property, AtomEnum::ATOM, &targets).unwrap();
        } else {
            let (_, bytes) = contents.iter().find(|(of, _)| *of == name).unwrap();
            let (replace, target) = (PropMode::REPLACE, request.target);
            owner.x.change_property8(replace, window, property, target, bytes).unwrap();
        }
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: request.property,
        };
        owner.x.send_event(false, request.requestor, EventMask::NO_EVENT, answer).unwrap();
        owner.x.flush().unwrap();
        return name;
    }
}

#[test]
fn nothing_is_read_before_it_is_fetched_and_the_next_image_is_tried_if_one_is_broken() {
    let Some(desk) = Desk::start() else { return };
    let owner = Program::start(&desk);
    let (original, tiff) = image(ImageFormat::Tiff);
    // Targets that are lossless are tried first; JPEG, the last, is not needed.
    let contents =
        [("image/jpeg", &b"never read"[..]), ("image/bmp", b"BM"), ("image/tiff", &tiff)];
    owner.x.set_selection_owner(owner.window, owner.atom("CLIPBOARD"), CURRENT_TIME).unwrap();
    owner.x.flush().unwrap();
    assert_eq!(answer(&owner, &contents), "TARGETS");
    desk.wait("an image", owned(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Png)));
    // Requests of one client arrive in order: had it asked for a content, that would be first.
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Png);
    assert_eq!(answer(&owner, &contents), "image/bmp");
    assert_eq!(answer(&owner, &contents), "image/tiff");
    let png = desk.wait("the PNG of the second", content(1)).unwrap();
    let shown = image::load_from_memory_with_format(&png, ImageFormat::Png).unwrap();
    assert!(shown.into_rgb8() == original);
}

#[test]
fn a_hostile_image_fails_and_delays_no_other_paste() {
    let Some(desk) = Desk::start() else { return };
    // Small to send, and seconds to decode.
    let slow = hostile::progressive(8192, 4096, 60);
    let _slow = desk.copies(&["-selection", "primary", "-t", "image/jpeg"], &slow);
    let png = ClipFormats::NONE.with(ClipFormat::Png);
    desk.wait("an image", owned(Selection::Primary, png));
    let _text = desk.copies(&["-selection", "clipboard"], b"text");
    desk.wait("a text", owned(Selection::Clipboard, TEXT));
    desk.selections.fetch(1, Selection::Primary, ClipFormat::Png);
    desk.selections.fetch(2, Selection::Clipboard, ClipFormat::Text);
    let mut first = None;
    let converted = desk.wait("the image, or its end", |event| {
        if let XSelectionEvent::Content { id, content } = event {
            first.get_or_insert(*id);
            return (*id == 1).then(|| content.clone());
        }
        None
    });
    assert_eq!(first, Some(2), "the text did not wait for the image: {converted:.60?}");
    drop(_slow);
    desk.wait("xclip has gone", owned(Selection::Primary, ClipFormats::NONE));
    let vast = hostile::progressive(65_535, 65_535, 1);
    let _vast = desk.copies(&["-selection", "primary", "-t", "image/jpeg"], &vast);
    desk.wait("another image", owned(Selection::Primary, png));
    desk.selections.fetch(3, Selection::Primary, ClipFormat::Png);
    assert_eq!(desk.wait("its end", content(3)), Err(ClipEnd::Failed));
}

/// A client that exchanges files, with folders of its own.
fn files_client(desk: &Desk, name: &str) -> (XSelections, Receiver<XSelectionEvent>, PathBuf) {
    let home = std::env::temp_dir().join(format!("thinc-x-files-{name}-{}", std::process::id()));
    std::fs::create_dir(&home).unwrap();
    let folders =
        Folders { home: home.clone(), config: home.join("config"), cache: home.join("cache") };
    let (selections, events) = client_with(&desk.display, LIMIT, Some(folders));
    (selections, events, home)
}

#[test]
fn copied_files_are_read_when_they_are_fetched_and_written_when_they_are_pasted() {
    let Some(desk) = Desk::start() else { return };
    let (selections, events, home) = files_client(&desk, "exchange");
    let files = ClipFormats::NONE.with(ClipFormat::Files);
    let file = home.join("a b.txt");
    std::fs::write(&file, "what it says").unwrap();
    let clipboard = Selection::Clipboard;
    let gnome = format!("cut\nfile://{}", file.display().to_string().replace(' ', "%20"));
    let lists =
        [("text/uri-list", &gnome["cut\n".len()..]), ("x-special/gnome-copied-files", &gnome)];
    let mut bundle = Vec::new();
    for (id, (target, list)) in (1..).zip(lists) {
        let _xclip = desk.copies(&["-selection", "clipboard", "-t", target], list.as_bytes());
        wait(&events, "files are copied", owned(clipboard, files));
        selections.fetch(id, clipboard, ClipFormat::Files);
        bundle = wait(&events, "they are read", content(id)).unwrap();
        let whole = file_bundle::decode(&bundle).unwrap();
        let found: Vec<_> = whole.iter().map(|(entry, bytes)| (&*entry.path, *bytes)).collect();
        assert_eq!(found, [("a b.txt", &b"what it says"[..])], "{target}");
    }
    // A program pastes the other side's.
    selections.own(clipboard, files.with(ClipFormat::Text));
    desk.wait("they are offered, to a client without folders as a text", owned(clipboard, TEXT));
    let mut pasted = Vec::new();
    for target in ["text/uri-list", "x-special/gnome-copied-files"] {
        let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard", "-t", target]);
        let (ticket, _, format) = wait(&events, "a program pastes", wanted);
        assert_eq!(format, ClipFormat::Files);
        selections.provide(ticket, Ok(bundle.clone()));
        pasted.push(String::from_utf8(paste.join().unwrap()).unwrap());
    }
    // A gigabyte of the disk stays free, which a machine may not have.
    if !pasted[0].is_empty() {
        let uri = pasted[0].strip_suffix("\r\n").unwrap();
        let path = uri.strip_prefix("file://").unwrap().replace("%20", " ");
        assert!(path.starts_with(home.join("cache").to_str().unwrap()), "{path}");
        assert!(path.ends_with("/a b.txt"), "{path}");
        assert_eq!(std::fs::read(path).unwrap(), b"what it says");
        assert!(pasted[1].starts_with("copy\nfile:///"), "{}", pasted[1]);
    }
    // What is no bundle is refused.
    let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard", "-t", "text/uri-list"]);
    let (ticket, ..) = wait(&events, "a program pastes", wanted);
    selections.provide(ticket, Ok(b"no bundle".to_vec()));
    assert_eq!(paste.join().unwrap(), b"");
    std::fs::remove_dir_all(home).unwrap();
}

#[test]
fn what_is_no_file_of_this_computer_is_not_fetched() {
    let Some(desk) = Desk::start() else { return };
    let (selections, events, home) = files_client(&desk, "others");
    let files = ClipFormats::NONE.with(ClipFormat::Files);
    let lists = ["https://example.org/\r\n".to_owned(), format!("file://{}/none", home.display())];
    for (id, list) in (1..).zip(lists) {
        let arguments = ["-selection", "clipboard", "-t", "text/uri-list"];
        let _xclip = desk.copies(&arguments, list.as_bytes());
        wait(&events, "a list is copied", owned(Selection::Clipboard, files));
        selections.fetch(id, Selection::Clipboard, ClipFormat::Files);
        assert_eq!(wait(&events, "its end", content(id)), Err(ClipEnd::Failed), "{list}");
    }
    std::fs::remove_dir_all(home).unwrap();
}

#[test]
fn a_content_over_the_limit_is_not_read() {
    let Some(desk) = Desk::with_limit(100_000) else { return };
    let _xclip = desk.copies(&["-selection", "clipboard"], &long_text(10 << 20));
    desk.wait("xclip owns it", owned(Selection::Clipboard, TEXT));
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
    let end = desk.wait("a refusal", content(1));
    assert!(matches!(end, Err(ClipEnd::TooLarge { limit: 100_000, .. })), "{end:?}");
}

#[test]
fn an_owned_selection_is_requested_when_it_is_pasted() {
    let Some(desk) = Desk::start() else { return };
    let formats = ClipFormat::ALL.into_iter().collect();
    desk.selections.own(Selection::Clipboard, formats);
    let xclip = |target| ["-o", "-selection", "clipboard", "-t", target];
    let targets =
        String::from_utf8(desk.pastes("xclip", &xclip("TARGETS")).join().unwrap()).unwrap();
    for target in
        ["TIMESTAMP", "MULTIPLE", "UTF8_STRING", "STRING", "TEXT", "text/html", "image/png"]
    {
        assert!(targets.lines().any(|line| line == target), "{targets}");
    }
    assert!(
        matches!(desk.events.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout)),
        "listing targets requests no content"
    );

    let text = "grün 日本\n".as_bytes();
    for (target, pasted) in [
        ("UTF8_STRING", text),
        ("text/plain;charset=utf-8", text),
        ("TEXT", text),
        ("STRING", b"gr\xfcn ??\n".as_slice()),
    ] {
        let paste = desk.pastes("xclip", &xclip(target));
        desk.provides(text);
        assert_eq!(paste.join().unwrap(), pasted, "{target}");
    }
    let paste = desk.pastes("xclip", &xclip("text/html"));
    desk.provides(b"<b>page</b>");
    let page = String::from_utf8(paste.join().unwrap()).unwrap();
    assert!(page.contains("charset=utf-8") && page.ends_with("<b>page</b>"), "{page}");

    for program in [("xclip", xclip("UTF8_STRING").as_slice()), ("xsel", &["-b", "-o"])] {
        let paste = desk.pastes(program.0, program.1);
        desk.provides(&long_text(10 << 20));
        assert!(paste.join().unwrap() == long_text(10 << 20), "{} pastes all of it", program.0);
    }

    let paste = desk.pastes("xclip", &xclip("UTF8_STRING"));
    // It tries another text target before it gives up.
    while !paste.is_finished() {
        if let Ok(XSelectionEvent::Wanted { ticket, .. }) =
            desk.events.recv_timeout(Duration::from_millis(5))
        {
            desk.selections.provide(ticket, Err(ClipEnd::Unavailable));
        }
    }
    assert_eq!(paste.join().unwrap(), b"", "an empty result, not a hang");

    desk.selections.own(Selection::Clipboard, ClipFormats::NONE);
    desk.wait("given up", owned(Selection::Clipboard, ClipFormats::NONE));
    assert_eq!(desk.pastes("xclip", &xclip("UTF8_STRING")).join().unwrap(), b"");
}

#[test]
fn the_selections_are_independent() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Primary, TEXT);
    let _xclip = desk.copies(&["-selection", "clipboard"], b"copied");
    desk.wait("xclip owns one", owned(Selection::Clipboard, TEXT));
    let paste = desk.pastes("xsel", &["-p", "-o"]);
    let (ticket, selection, format) = desk.wait("xsel pastes", wanted);
    assert_eq!((selection, format), (Selection::Primary, ClipFormat::Text));
    desk.selections.provide(ticket, Ok(b"marked".to_vec()));
    assert_eq!(paste.join().unwrap(), b"marked");
}

/// An event about an application was taken for stale while its selection was about to be acquired.
/// If the acquisition is withdrawn, the application still owns it, and must be reported again.
#[test]
fn the_owner_is_reported_again_if_an_acquisition_is_withdrawn() {
    let Some(desk) = Desk::start() else { return };
    let _xclip = desk.copies(&["-selection", "clipboard"], b"theirs");
    desk.wait("xclip owns it", owned(Selection::Clipboard, TEXT));
    for _ in 0..100 {
        desk.selections.own(Selection::Clipboard, TEXT);
    }
    desk.selections.own(Selection::Clipboard, ClipFormats::NONE);
    // After acquiring and giving up, nobody owns it; otherwise xclip does.
    desk.wait("the owner is reported", |event| {
        let owned = matches!(event, XSelectionEvent::Owned { selection: Selection::Clipboard, .. });
        (owned && !desk.selections.is_stale(event)).then_some(())
    });
}

#[test]
fn the_last_owner_wins() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let _xclip = desk.copies(&["-selection", "clipboard"], b"newer");
    let event = desk.wait("xclip owns it", |event| {
        owned(Selection::Clipboard, TEXT)(event).map(|()| event.clone())
    });
    assert!(!desk.selections.is_stale(&event));
    desk.selections.own(Selection::Clipboard, TEXT);
    assert!(desk.selections.is_stale(&event), "it was acquired since");
    let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard"]);
    desk.provides(b"newest");
    assert_eq!(paste.join().unwrap(), b"newest");
}

/// An X client of the test.
struct Program {
    x: RustConnection,
    window: Window,
}

impl Program {
    fn start(desk: &Desk) -> Program {
        let (x, screen) = x11rb::connect(Some(&desk.display)).unwrap();
        let (window, root) = (x.generate_id().unwrap(), x.setup().roots[screen].root);
        let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        let (depth, class, visual) =
            (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT, COPY_FROM_PARENT);
        x.create_window(depth, window, root, 0, 0, 1, 1, 0, class, visual, &aux).unwrap();
        Program { x, window }
    }

    fn atom(&self, name: &str) -> Atom {
        self.x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom
    }

    fn convert(&self, target: Atom, property: Atom) {
        self.x
            .convert_selection(self.window, self.atom("CLIPBOARD"), target, property, CURRENT_TIME)
            .unwrap();
        self.x.flush().unwrap();
    }

    fn owner(&self) -> Window {
        self.x.get_selection_owner(self.atom("CLIPBOARD")).unwrap().reply().unwrap().owner
    }

    fn until_owner(&self, is: impl Fn(Window) -> bool) {
        let end = Instant::now() + LONG;
        while !is(self.owner()) {
            assert!(Instant::now() < end, "the selection's owner never changes");
            std::thread::yield_now();
        }
    }

    fn answer(&self) -> SelectionNotifyEvent {
        loop {
            if let Event::SelectionNotify(notify) = self.x.wait_for_event().unwrap() {
                return notify;
            }
        }
    }

    fn property(&self, property: Atom) -> (Atom, Vec<u8>) {
        let reply = self
            .x
            .get_property(true, self.window, property, AtomEnum::ANY, 0, 1 << 20)
            .unwrap()
            .reply()
            .unwrap();
        (reply.type_, reply.value)
    }
}

#[test]
fn multiple_targets_at_once() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let program = Program::start(&desk);
    // Before the selection is owned, the X server itself would refuse.
    program.until_owner(|owner| owner != NONE);
    let [list, a, b, c, pair] = ["LIST", "A", "B", "C", "ATOM_PAIR"].map(|name| program.atom(name));
    let (utf8, png, stamp) =
        (program.atom("UTF8_STRING"), program.atom("image/png"), program.atom("TIMESTAMP"));
    let pairs = [utf8, a, png, b, stamp, c];
    program.x.change_property32(PropMode::REPLACE, program.window, list, pair, &pairs).unwrap();
    program.convert(program.atom("MULTIPLE"), list);
    desk.provides(b"text");
    assert_eq!(program.answer().property, list);
    let answers: Vec<Atom> = program
        .property(list)
        .1
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&four| u32::from_ne_bytes(four))
        .collect();
    assert_eq!(answers, [utf8, a, png, NONE, stamp, c], "the image is refused, the rest is there");
    assert_eq!(program.property(a), (utf8, b"text".to_vec()));
    assert_eq!(program.property(c).1.len(), 4);
}

#[test]
fn misbehaving_clients_do_not_block_pasting() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let (text, utf8) = (long_text(1 << 20), "UTF8_STRING");
    // A client that never reads the first chunk.
    let stuck = Program::start(&desk);
    // Before the selection is owned, the X server itself would refuse.
    stuck.until_owner(|owner| owner != NONE);
    stuck.convert(stuck.atom(utf8), stuck.atom("A"));
    desk.provides(&text);
    assert_eq!(stuck.property(stuck.answer().property).0, stuck.atom("INCR"));
    // A client that requests more at a time than the limit.
    let greedy = Program::start(&desk);
    (0..100).for_each(|n| greedy.convert(greedy.atom(utf8), greedy.atom(&format!("P{n}"))));
    let refused = (0..100).take_while(|_| greedy.answer().property == NONE).take(50).count();
    assert_eq!(refused, 50, "requests beyond the limit are refused");
    let (ticket, ..) = desk.wait("the others", wanted);
    // Many that vanish while they wait: the caller is told that the content is unwanted.
    drop(greedy);
    let gone = desk.wait("they have gone", |event| match event {
        XSelectionEvent::Unwanted { ticket } => Some(*ticket),
        _ => None,
    });
    assert_eq!(gone, ticket);
    let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard", "-t", utf8]);
    desk.provides(&text);
    assert!(paste.join().unwrap() == text);
}

#[test]
fn an_owner_that_dies_during_a_transfer_ends_the_fetch() {
    let Some(desk) = Desk::start() else { return };
    let owner = Program::start(&desk);
    owner.x.set_selection_owner(owner.window, owner.atom("CLIPBOARD"), CURRENT_TIME).unwrap();
    owner.x.flush().unwrap();
    let mut transfer = None;
    let mut fetched = false;
    // It lists its targets, starts the transfer, and dies.
    while transfer.is_none() {
        let Event::SelectionRequest(request) = owner.x.wait_for_event().unwrap() else { continue };
        if request.target == owner.atom("TARGETS") {
            let targets = [owner.atom("UTF8_STRING")];
            let (window, property) = (request.requestor, request.property);
            owner
                .x
                .change_property32(PropMode::REPLACE, window, property, AtomEnum::ATOM, &targets)
                .unwrap();
        } else {
            let (window, property, type_) =
                (request.requestor, request.property, owner.atom("INCR"));
            owner
                .x
                .change_property32(PropMode::REPLACE, window, property, type_, &[1_000_000])
                .unwrap();
            transfer = Some((window, property));
        }
        let answer = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time: request.time,
            requestor: request.requestor,
            selection: request.selection,
            target: request.target,
            property: request.property,
        };
        owner.x.send_event(false, request.requestor, EventMask::NO_EVENT, answer).unwrap();
        owner.x.flush().unwrap();
        if !fetched {
            desk.wait("the owner is known", owned(Selection::Clipboard, TEXT));
            desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
            fetched = true;
        }
    }
    let (window, property) = transfer.unwrap();
    let other = Program::start(&desk);
    let utf8 = other.atom("UTF8_STRING");
    drop(owner);
    // Each chunk extends the transfer's time-out of 10 s, so only the owner's death can end it.
    let end = Instant::now() + LONG;
    let result = loop {
        match desk.events.recv_timeout(Duration::from_secs(3)) {
            Ok(event) => {
                if let Some(result) = content(1)(&event) {
                    break result;
                }
            }
            Err(_) => {
                assert!(Instant::now() < end, "its death is not detected");
                other.x.change_property8(PropMode::REPLACE, window, property, utf8, b"x").unwrap();
                other.x.flush().unwrap();
            }
        }
    };
    assert_eq!(result, Err(ClipEnd::Failed));
}

#[test]
fn clients_that_tamper_with_the_owners_window_do_not_block_copying() {
    let Some(desk) = Desk::start() else { return };
    let program = Program::start(&desk);
    let [clipboard, clock, utf8] =
        ["CLIPBOARD", "THINC_CLOCK", "UTF8_STRING"].map(|name| program.atom(name));
    desk.selections.own(Selection::Clipboard, TEXT);
    program.until_owner(|owner| owner != NONE);
    let theirs = program.owner();
    // A malicious client pastes into the owner's own window; the clock property is changed to text.
    program.x.convert_selection(theirs, clipboard, utf8, program.atom("A"), CURRENT_TIME).unwrap();
    program
        .x
        .change_property8(PropMode::REPLACE, theirs, clock, AtomEnum::STRING, b"noon")
        .unwrap();
    program.convert(utf8, program.atom("B"));
    desk.provides(b"text");
    assert_eq!(program.property(program.answer().property), (utf8, b"text".to_vec()));
    // It can still acquire a selection from another client.
    program.x.set_selection_owner(program.window, clipboard, CURRENT_TIME).unwrap();
    program.until_owner(|owner| owner == program.window);
    desk.selections.own(Selection::Clipboard, TEXT);
    program.until_owner(|owner| owner == theirs);
}

/// A client that owns every content that is copied, as clipboard managers do.
struct Manager {
    selections: XSelections,
    events: Receiver<XSelectionEvent>,
    change: fn(Vec<u8>) -> Vec<u8>,
    kept: Vec<u8>,
    takings: usize,
}

impl Manager {
    fn start(desk: &Desk, change: fn(Vec<u8>) -> Vec<u8>) -> Manager {
        let (selections, events) = client(&desk.display, LIMIT);
        Manager { selections, events, change, kept: Vec::new(), takings: 0 }
    }

    /// True when there was something to do.
    fn turn(&mut self) -> bool {
        match self.events.try_recv() {
            Ok(XSelectionEvent::Owned { selection: Selection::Clipboard, formats, .. })
                if formats == TEXT =>
            {
                self.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
            }
            Ok(XSelectionEvent::Content { content, .. }) => {
                self.kept = (self.change)(content.unwrap());
                self.takings += 1;
                self.selections.own(Selection::Clipboard, TEXT);
            }
            Ok(XSelectionEvent::Wanted { ticket, .. }) => {
                self.selections.provide(ticket, Ok(self.kept.clone()))
            }
            Ok(_) => {}
            Err(_) => return false,
        }
        true
    }
}

/// Runs a manager until nothing happens any more; returns how often new content was reported. A
/// manager on the other side would copy each of these.
fn run_until_stable(desk: &Desk, manager: &mut Manager) -> usize {
    let (mut news, mut last) = (0, Instant::now());
    let end = Instant::now() + LONG;
    while manager.takings == 0 || last.elapsed() < 3 * QUIET {
        assert!(news < 100, "it does not end");
        assert!(Instant::now() < end, "taken {} times, reported {news} times", manager.takings);
        let mut quiet = !manager.turn();
        match desk.events.recv_timeout(Duration::from_millis(5)) {
            Ok(XSelectionEvent::Wanted { ticket, .. }) => {
                desk.selections.provide(ticket, Ok(b"far text".to_vec()))
            }
            Ok(XSelectionEvent::Owned { formats, .. }) if formats == TEXT => {
                news += 1;
                desk.selections.own(Selection::Clipboard, TEXT);
            }
            Ok(_) => {}
            Err(_) if quiet => continue,
            Err(_) => quiet = false,
        }
        if !quiet {
            last = Instant::now();
        }
    }
    news
}

#[test]
fn a_clipboard_managers_copy_is_not_new_content() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let mut manager = Manager::start(&desk, |text| text);
    assert_eq!(run_until_stable(&desk, &mut manager), 0);
    assert_eq!((manager.takings, manager.kept.as_slice()), (1, b"far text".as_slice()));
    // Once it has gone, the original can still be pasted.
    drop(manager);
    let again = until_pasted(&desk);
    assert_eq!(again, b"far text");
}

#[test]
fn clipboard_managers_that_modify_their_copies_are_stopped() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let mut manager = Manager::start(&desk, |text| [b"kept: ".as_slice(), &text].concat());
    let news = run_until_stable(&desk, &mut manager);
    assert!((1..10).contains(&news), "reported {news} times");
}

/// Pastes until there is a result: ownership returns once the X server has noticed that its owner
/// is gone.
fn until_pasted(desk: &Desk) -> Vec<u8> {
    let end = Instant::now() + LONG;
    loop {
        // xclip waits for good for an owner that ends before it has answered.
        let paste = desk.pastes("timeout", &["5", "xclip", "-o", "-selection", "clipboard"]);
        while !paste.is_finished() {
            if let Ok(XSelectionEvent::Wanted { ticket, .. }) =
                desk.events.recv_timeout(Duration::from_millis(5))
            {
                desk.selections.provide(ticket, Ok(b"far text".to_vec()));
            }
        }
        let pasted = paste.join().unwrap();
        if !pasted.is_empty() || Instant::now() > end {
            return pasted;
        }
    }
}
