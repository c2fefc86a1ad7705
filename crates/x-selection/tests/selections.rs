//! Both selections on an X server of their own, with xclip, xsel and programs that behave badly.
//! What is copied is told and can be fetched; what is owned is asked for when it is pasted, and arrives byte for byte.
//! Skipped, and said so, where there is no Xvfb or no xclip.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_x_selection::{XSelectionEvent, XSelections};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, SELECTION_NOTIFY_EVENT,
    SelectionNotifyEvent, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

/// Longer than any of this takes on a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(30);
/// Long enough for what must not come to have come.
const QUIET: Duration = Duration::from_millis(300);
const LIMIT: usize = 16 << 20;
const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);

/// Ended when the test ends, however it does.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An X server, and the client under test.
struct Desk {
    selections: XSelections,
    events: Receiver<XSelectionEvent>,
    display: String,
    _server: Ended,
}

fn xvfb() -> Option<(Ended, String)> {
    let needed = ["Xvfb", "xclip", "xsel"];
    let missing = needed.iter().find(|name| Command::new(name).arg("-version").output().is_err());
    if let Some(name) = missing {
        assert!(std::env::var_os("CI").is_none(), "these tests need {name}");
        eprintln!("skipped: no {name}");
        return None;
    }
    let mut child = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut number = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        number.push(byte[0] as char);
    }
    Some((Ended(child), format!(":{number}")))
}

fn client(display: &str, limit: usize) -> (XSelections, Receiver<XSelectionEvent>) {
    let (sender, events) = channel();
    let selections = XSelections::start(Some(display), limit, move |event| {
        let _ = sender.send(event);
    });
    (selections.unwrap(), events)
}

/// The next event of which the answer is something.
fn wait<T>(events: &Receiver<XSelectionEvent>, what: &str, mut is: impl FnMut(&XSelectionEvent) -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events.recv_timeout(left).unwrap_or_else(|error| panic!("it never came to this: {what}: {error}"));
        if let Some(found) = is(&event) {
            return found;
        }
    }
}

fn owned(of: Selection, with: ClipFormats) -> impl Fn(&XSelectionEvent) -> Option<()> {
    move |event| {
        matches!(event, XSelectionEvent::Owned { selection, formats, .. } if (*selection, *formats) == (of, with))
            .then_some(())
    }
}

fn wanted(event: &XSelectionEvent) -> Option<(u32, Selection, ClipFormat)> {
    match event {
        XSelectionEvent::Wanted { ticket, selection, format } => Some((*ticket, *selection, *format)),
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
        let (server, display) = xvfb()?;
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

    /// A program that has copied this, and stays as long as it is held.
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

    /// What a program pastes, asked for on a thread of its own.
    fn pastes(&self, program: &str, arguments: &[&str]) -> std::thread::JoinHandle<Vec<u8>> {
        let mut command = Command::new(program);
        command.args(arguments).env("DISPLAY", &self.display).stderr(Stdio::null());
        std::thread::spawn(move || command.output().unwrap().stdout)
    }

    fn provides(&self, text: &[u8]) {
        let (ticket, ..) = self.wait("somebody pastes", wanted);
        self.selections.provide(ticket, Ok(text.to_vec()));
    }
}

/// Text of so many bytes, no two lines alike.
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
fn what_programs_copy_is_told_and_fetched() {
    let Some(desk) = Desk::start() else { return };
    for (selection, name) in [(Selection::Clipboard, "clipboard"), (Selection::Primary, "primary")] {
        for (id, bytes) in [(1, b"a\r\nline".to_vec()), (2, long_text(10 << 20))] {
            let _xclip = desk.copies(&["-selection", name], &bytes);
            desk.wait("xclip owns it", owned(selection, TEXT));
            desk.selections.fetch(id, selection, ClipFormat::Text);
            let text = desk.wait("its content", content(id)).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), String::from_utf8(bytes).unwrap().replace("\r\n", "\n"));
        }
        desk.wait("xclip has gone", owned(selection, ClipFormats::NONE));
        desk.selections.fetch(3, selection, ClipFormat::Text);
        assert_eq!(desk.wait("nothing", content(3)), Err(ClipEnd::Gone));
    }
}

#[test]
fn pictures_and_pages_are_told_apart_from_text() {
    let Some(desk) = Desk::start() else { return };
    let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 300_000]].concat();
    let _png = desk.copies(&["-selection", "clipboard", "-t", "image/png"], &picture);
    desk.wait("a picture", owned(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Png)));
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Png);
    assert_eq!(desk.wait("the picture", content(1)), Ok(picture));
    let page: Vec<u8> = "<p>grün</p>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let _html = desk.copies(&["-selection", "clipboard", "-t", "text/html"], &page);
    desk.wait("a page", owned(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Html)));
    desk.selections.fetch(2, Selection::Clipboard, ClipFormat::Html);
    assert_eq!(desk.wait("the page", content(2)), Ok("<p>grün</p>".as_bytes().to_vec()));
}

#[test]
fn what_is_too_long_is_not_read() {
    let Some(desk) = Desk::with_limit(100_000) else { return };
    let _xclip = desk.copies(&["-selection", "clipboard"], &long_text(10 << 20));
    desk.wait("xclip owns it", owned(Selection::Clipboard, TEXT));
    desk.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
    let end = desk.wait("a refusal", content(1));
    assert!(matches!(end, Err(ClipEnd::TooLarge { limit: 100_000, .. })), "{end:?}");
}

#[test]
fn what_is_owned_is_asked_for_when_it_is_pasted() {
    let Some(desk) = Desk::start() else { return };
    let formats = ClipFormat::ALL.into_iter().collect();
    desk.selections.own(Selection::Clipboard, formats);
    let xclip = |target| ["-o", "-selection", "clipboard", "-t", target];
    let targets = String::from_utf8(desk.pastes("xclip", &xclip("TARGETS")).join().unwrap()).unwrap();
    for target in ["TIMESTAMP", "MULTIPLE", "UTF8_STRING", "STRING", "TEXT", "text/html", "image/png"] {
        assert!(targets.lines().any(|line| line == target), "{targets}");
    }
    assert!(matches!(desk.events.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout)), "names cost nothing");

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
    // It tries another form of text before it gives up.
    while !paste.is_finished() {
        if let Ok(XSelectionEvent::Wanted { ticket, .. }) = desk.events.recv_timeout(Duration::from_millis(5)) {
            desk.selections.provide(ticket, Err(ClipEnd::Gone));
        }
    }
    assert_eq!(paste.join().unwrap(), b"", "nothing, but not never");

    desk.selections.own(Selection::Clipboard, ClipFormats::NONE);
    desk.wait("given up", owned(Selection::Clipboard, ClipFormats::NONE));
    assert_eq!(desk.pastes("xclip", &xclip("UTF8_STRING")).join().unwrap(), b"");
}

#[test]
fn both_selections_are_two() {
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

/// What was said of a program while its selection was to be taken over was taken for stale. Given up before it came to that,
/// the program owns it still, and nobody else would say so.
#[test]
fn who_owns_it_is_said_again_where_it_is_not_taken_over_after_all() {
    let Some(desk) = Desk::start() else { return };
    let _xclip = desk.copies(&["-selection", "clipboard"], b"theirs");
    desk.wait("xclip owns it", owned(Selection::Clipboard, TEXT));
    for _ in 0..100 {
        desk.selections.own(Selection::Clipboard, TEXT);
    }
    desk.selections.own(Selection::Clipboard, ClipFormats::NONE);
    // Taken over and given up, it is nobody's; else it is xclip's.
    desk.wait("it is said who owns it", |event| {
        let owned = matches!(event, XSelectionEvent::Owned { selection: Selection::Clipboard, .. });
        (owned && !desk.selections.is_stale(event)).then_some(())
    });
}

#[test]
fn the_last_owner_wins() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let _xclip = desk.copies(&["-selection", "clipboard"], b"newer");
    let event = desk.wait("xclip owns it", |event| owned(Selection::Clipboard, TEXT)(event).map(|()| event.clone()));
    assert!(!desk.selections.is_stale(&event));
    desk.selections.own(Selection::Clipboard, TEXT);
    assert!(desk.selections.is_stale(&event), "it was taken over since");
    let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard"]);
    desk.provides(b"newest");
    assert_eq!(paste.join().unwrap(), b"newest");
}

/// An X program of the test's own.
struct Program {
    x: RustConnection,
    window: Window,
}

impl Program {
    fn start(desk: &Desk) -> Program {
        let (x, screen) = x11rb::connect(Some(&desk.display)).unwrap();
        let (window, root) = (x.generate_id().unwrap(), x.setup().roots[screen].root);
        let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        let (depth, class, visual) = (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT, COPY_FROM_PARENT);
        x.create_window(depth, window, root, 0, 0, 1, 1, 0, class, visual, &aux).unwrap();
        Program { x, window }
    }

    fn atom(&self, name: &str) -> Atom {
        self.x.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom
    }

    fn convert(&self, target: Atom, property: Atom) {
        self.x.convert_selection(self.window, self.atom("CLIPBOARD"), target, property, CURRENT_TIME).unwrap();
        self.x.flush().unwrap();
    }

    fn owner(&self) -> Window {
        self.x.get_selection_owner(self.atom("CLIPBOARD")).unwrap().reply().unwrap().owner
    }

    fn until_owner(&self, is: impl Fn(Window) -> bool) {
        let end = Instant::now() + LONG;
        while !is(self.owner()) {
            assert!(Instant::now() < end, "the selection never passes on");
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
        let reply =
            self.x.get_property(true, self.window, property, AtomEnum::ANY, 0, 1 << 20).unwrap().reply().unwrap();
        (reply.type_, reply.value)
    }
}

#[test]
fn several_forms_at_once() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let program = Program::start(&desk);
    // Asked before, X itself would refuse.
    program.until_owner(|owner| owner != NONE);
    let [list, a, b, c, pair] = ["LIST", "A", "B", "C", "ATOM_PAIR"].map(|name| program.atom(name));
    let (utf8, png, stamp) = (program.atom("UTF8_STRING"), program.atom("image/png"), program.atom("TIMESTAMP"));
    let wishes = [utf8, a, png, b, stamp, c];
    program.x.change_property32(PropMode::REPLACE, program.window, list, pair, &wishes).unwrap();
    program.convert(program.atom("MULTIPLE"), list);
    desk.provides(b"text");
    assert_eq!(program.answer().property, list);
    let answers: Vec<Atom> =
        program.property(list).1.as_chunks::<4>().0.iter().map(|&four| u32::from_ne_bytes(four)).collect();
    assert_eq!(answers, [utf8, a, png, NONE, stamp, c], "the picture is refused, all else is there");
    assert_eq!(program.property(a), (utf8, b"text".to_vec()));
    assert_eq!(program.property(c).1.len(), 4);
}

#[test]
fn programs_that_behave_badly_keep_nobody_from_pasting() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let (text, utf8) = (long_text(1 << 20), "UTF8_STRING");
    // One that takes the first chunk never.
    let stuck = Program::start(&desk);
    // Asked before, X itself would refuse.
    stuck.until_owner(|owner| owner != NONE);
    stuck.convert(stuck.atom(utf8), stuck.atom("A"));
    desk.provides(&text);
    assert_eq!(stuck.property(stuck.answer().property).0, stuck.atom("INCR"));
    // One that asks for more at a time than anybody is given.
    let greedy = Program::start(&desk);
    (0..100).for_each(|n| greedy.convert(greedy.atom(utf8), greedy.atom(&format!("P{n}"))));
    let refused = (0..100).take_while(|_| greedy.answer().property == NONE).take(50).count();
    assert_eq!(refused, 50, "many are refused at once");
    let (ticket, ..) = desk.wait("the others", wanted);
    // Many that go while they wait: whoever fetches is told that nobody does.
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
fn an_owner_that_dies_in_the_middle_ends_the_fetch() {
    let Some(desk) = Desk::start() else { return };
    let owner = Program::start(&desk);
    owner.x.set_selection_owner(owner.window, owner.atom("CLIPBOARD"), CURRENT_TIME).unwrap();
    owner.x.flush().unwrap();
    let mut incr = false;
    let mut fetched = false;
    // It answers what it has, begins to give it, and is gone.
    while !incr {
        let Event::SelectionRequest(request) = owner.x.wait_for_event().unwrap() else { continue };
        if request.target == owner.atom("TARGETS") {
            let targets = [owner.atom("UTF8_STRING")];
            let (window, property) = (request.requestor, request.property);
            owner.x.change_property32(PropMode::REPLACE, window, property, AtomEnum::ATOM, &targets).unwrap();
        } else {
            let (window, property, type_) = (request.requestor, request.property, owner.atom("INCR"));
            owner.x.change_property32(PropMode::REPLACE, window, property, type_, &[1_000_000]).unwrap();
            incr = true;
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
    let died = Instant::now();
    drop(owner);
    assert_eq!(desk.wait("the end", content(1)), Err(ClipEnd::Failed));
    assert!(died.elapsed() < Duration::from_secs(9), "its death was noticed, not waited out");
}

#[test]
fn what_programs_do_to_the_owners_window_keeps_nobody_from_copying() {
    let Some(desk) = Desk::start() else { return };
    let program = Program::start(&desk);
    let [clipboard, clock, utf8] = ["CLIPBOARD", "THINC_CLOCK", "UTF8_STRING"].map(|name| program.atom(name));
    desk.selections.own(Selection::Clipboard, TEXT);
    program.until_owner(|owner| owner != NONE);
    let theirs = program.owner();
    // Pasted into the owner's own window, by a program that means no good; its clock is made one of letters.
    program.x.convert_selection(theirs, clipboard, utf8, program.atom("A"), CURRENT_TIME).unwrap();
    program.x.change_property8(PropMode::REPLACE, theirs, clock, AtomEnum::STRING, b"noon").unwrap();
    program.convert(utf8, program.atom("B"));
    desk.provides(b"text");
    assert_eq!(program.property(program.answer().property), (utf8, b"text".to_vec()));
    // It can still take over what another program has.
    program.x.set_selection_owner(program.window, clipboard, CURRENT_TIME).unwrap();
    program.until_owner(|owner| owner == program.window);
    desk.selections.own(Selection::Clipboard, TEXT);
    program.until_owner(|owner| owner == theirs);
}

/// A program that owns whatever is copied, as clipboard managers do.
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
            Ok(XSelectionEvent::Owned { selection: Selection::Clipboard, formats, .. }) if formats == TEXT => {
                self.selections.fetch(1, Selection::Clipboard, ClipFormat::Text);
            }
            Ok(XSelectionEvent::Content { content, .. }) => {
                self.kept = (self.change)(content.unwrap());
                self.takings += 1;
                self.selections.own(Selection::Clipboard, TEXT);
            }
            Ok(XSelectionEvent::Wanted { ticket, .. }) => self.selections.provide(ticket, Ok(self.kept.clone())),
            Ok(_) => {}
            Err(_) => return false,
        }
        true
    }
}

/// Lets a manager do as it likes until nothing happens any more; gives how often the desk was told that it has something
/// new. A manager on the other side takes all of that, too, and owns it.
fn pass_to_and_fro(desk: &Desk, manager: &mut Manager) -> usize {
    let (mut news, mut last) = (0, Instant::now());
    while manager.takings == 0 || last.elapsed() < 3 * QUIET {
        assert!(news < 100, "it goes on without end");
        let mut quiet = !manager.turn();
        match desk.events.recv_timeout(Duration::from_millis(5)) {
            Ok(XSelectionEvent::Wanted { ticket, .. }) => desk.selections.provide(ticket, Ok(b"far text".to_vec())),
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
fn a_clipboard_manager_that_keeps_a_copy_has_nothing_new() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let mut manager = Manager::start(&desk, |text| text);
    assert_eq!(pass_to_and_fro(&desk, &mut manager), 0);
    assert_eq!((manager.takings, manager.kept.as_slice()), (1, b"far text".as_slice()));
    // Once it has gone, what is far away can still be had.
    drop(manager);
    let again = until_pasted(&desk);
    assert_eq!(again, b"far text");
}

#[test]
fn clipboard_managers_that_change_what_they_keep_come_to_rest() {
    let Some(desk) = Desk::start() else { return };
    desk.selections.own(Selection::Clipboard, TEXT);
    let mut manager = Manager::start(&desk, |text| [b"kept: ".as_slice(), &text].concat());
    let news = pass_to_and_fro(&desk, &mut manager);
    assert!((1..10).contains(&news), "told {news} times");
}

/// Pastes until there is something: ownership passes back when the X server has noticed that its owner is gone.
fn until_pasted(desk: &Desk) -> Vec<u8> {
    let end = Instant::now() + LONG;
    loop {
        let paste = desk.pastes("xclip", &["-o", "-selection", "clipboard"]);
        while !paste.is_finished() {
            if let Ok(XSelectionEvent::Wanted { ticket, .. }) = desk.events.recv_timeout(Duration::from_millis(5)) {
                desk.selections.provide(ticket, Ok(b"far text".to_vec()));
            }
        }
        let pasted = paste.join().unwrap();
        if !pasted.is_empty() || Instant::now() > end {
            return pasted;
        }
    }
}
