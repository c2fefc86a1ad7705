//! The clipboard of a session with several viewers, and what a long paste does to a hand on the same path.
//! From programs and viewers that copy and paste, through session-core and each viewer's end, to where contents arrive.
//! Knows session-core's public face; bytes of the display are made up.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_clipboard::{ClipEvent, End, Side};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{ClipRequest, ClipboardPolicy, Config, LossyPolicy, Request, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);
const CLIPBOARD: Selection = Selection::Clipboard;
const WINDOW: u32 = 0x40_0001;

fn session(policy: ClipboardPolicy) -> Session {
    let mut session =
        Session::new(Config { offscreen: false, lossy: LossyPolicy::Never, ..Config::new("clipboard", SIZE) });
    session.set_clipboard(policy);
    session.handle_attach(SIZE);
    session
}

fn hello() -> ViewerHello {
    let (caps, size) = (ViewerCaps::CLIPBOARD, Size::default());
    ViewerHello { version: 1, caps, size, frame_bytes_max: 1 << 24, name: "far".into() }
}

/// A viewer and its end of the channel; the display is acknowledged and not looked at.
struct Far {
    id: ViewerId,
    end: End,
    frames: Deframer,
    caps: u32,
    /// It was told how each selection stands.
    told: [bool; 2],
}

/// What has happened at viewers and in X.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Viewer(usize, ClipEvent),
    X(ClipRequest),
}

/// A session and its viewers on paths that take no time.
struct Office {
    session: Session,
    viewers: Vec<Far>,
    now: u64,
}

impl Office {
    fn new(policy: ClipboardPolicy, viewers: usize) -> Office {
        let mut office = Office { session: session(policy), viewers: Vec::new(), now: 1_000 };
        (0..viewers).for_each(|_| office.join());
        office
    }

    fn join(&mut self) {
        let id = self.session.add_viewer(&hello(), self.now);
        let end = End::new(Side::Viewer, ClipboardPolicy::default());
        self.viewers.push(Far { id, end, frames: Deframer::new(1 << 24), caps: 0, told: [false; 2] });
    }

    fn leave(&mut self, at: usize) {
        self.session.remove_viewer(self.viewers.remove(at).id);
    }

    /// Everything is said and done; what was seen of it.
    fn settle(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for _ in 0..10_000 {
            self.now += 1_000;
            let before = seen.len();
            let mut busy = false;
            while let Some(request) = self.session.poll_clip(self.now) {
                seen.push(Seen::X(request));
            }
            for at in 0..self.viewers.len() {
                busy |= self.exchange(at);
                let far = &mut self.viewers[at];
                while let Some(event) = far.end.poll_event() {
                    // That there is nothing is said to whoever comes, and has a test of its own.
                    let nothing = match &event {
                        ClipEvent::Offered { selection, formats } => {
                            !std::mem::replace(&mut far.told[*selection as usize], true) && formats.is_empty()
                        }
                        _ => false,
                    };
                    if !nothing {
                        seen.push(Seen::Viewer(at, event));
                    }
                }
                far.end.check_invariants();
            }
            self.session.check_invariants();
            if !busy && seen.len() == before {
                return seen;
            }
        }
        panic!("it never comes to rest: {seen:?}");
    }

    /// What both have to say crosses.
    fn exchange(&mut self, at: usize) -> bool {
        let far = &mut self.viewers[at];
        let mut out = Vec::new();
        while let Some(job) = self.session.poll_job(far.id, self.now) {
            self.session.handle_encoded(far.id, job.id, &[]);
        }
        let mut busy = self.session.poll_transmit(far.id, self.now, &mut Unpacked, &mut out);
        let mut said: Vec<ClipMessage> = std::iter::from_fn(|| far.end.poll_control()).collect();
        said.extend(std::iter::from_fn(|| far.end.poll_piece(usize::MAX, self.now)));
        busy |= !said.is_empty();
        for message in said {
            self.session.handle_message(far.id, &ViewerMessage::Clip(message), self.now).unwrap();
        }
        far.frames.push(&out);
        while let Some(frame) = far.frames.next().unwrap() {
            match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => {
                    far.caps = hello.caps;
                    far.end.set_wanted(hello.caps & SessionCaps::CLIPBOARD != 0);
                }
                SessionMessage::Update(update) => {
                    let ack = ViewerMessage::Ack(Ack { update: update.seq, presented: None });
                    self.session.handle_message(far.id, &ack, self.now).unwrap();
                }
                SessionMessage::Clip(message) => far.end.handle(&message, self.now).unwrap(),
                _ => {}
            }
        }
        busy
    }

    fn copies(&mut self, at: usize, formats: ClipFormats) {
        self.viewers[at].end.offer(CLIPBOARD, formats);
    }

    fn pastes(&mut self, at: usize, format: ClipFormat) -> Option<u32> {
        self.viewers[at].end.request(CLIPBOARD, format, self.now)
    }

    /// The viewer is asked for what it copied; gives the number.
    fn asked(seen: &[Seen], viewer: usize) -> u32 {
        let [Seen::Viewer(at, ClipEvent::Wanted { id, .. })] = seen else { panic!("nobody asked: {seen:?}") };
        assert_eq!(*at, viewer);
        *id
    }
}

fn offered(at: usize, formats: ClipFormats) -> Seen {
    Seen::Viewer(at, ClipEvent::Offered { selection: CLIPBOARD, formats })
}

fn owns(formats: ClipFormats) -> Seen {
    Seen::X(ClipRequest::Own { selection: CLIPBOARD, formats })
}

/// No two bytes of a kilobyte alike.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at * 7 % 26) as u8).collect()
}

#[test]
fn what_a_program_copies_is_offered_to_all_and_travels_when_one_pastes() {
    let mut office = Office::new(ClipboardPolicy::default(), 2);
    office.settle();
    office.session.handle_clip_owned(CLIPBOARD, TEXT.with(ClipFormat::Html));
    let formats = TEXT.with(ClipFormat::Html);
    assert_eq!(office.settle(), [offered(0, formats), offered(1, formats)]);
    assert_eq!(office.pastes(1, ClipFormat::Png), None, "there is no picture");
    let id = office.pastes(1, ClipFormat::Html).unwrap();
    let seen = office.settle();
    let [Seen::X(ClipRequest::Fetch { id: fetch, selection: CLIPBOARD, format: ClipFormat::Html })] = seen[..] else {
        panic!("{seen:?}")
    };
    office.session.handle_clip_content(fetch, Ok(content(3_000_000)), office.now);
    assert_eq!(office.settle(), [Seen::Viewer(1, ClipEvent::Received { id, content: content(3_000_000) })]);
    // Somebody who comes later is told as well.
    office.join();
    assert_eq!(office.settle(), [offered(2, formats)]);
    office.session.handle_clip_owned(CLIPBOARD, ClipFormats::NONE);
    assert_eq!(office.settle(), (0..3).map(|at| offered(at, ClipFormats::NONE)).collect::<Vec<_>>());
}

#[test]
fn what_a_viewer_copies_is_for_programs_and_for_other_viewers() {
    let mut office = Office::new(ClipboardPolicy::default(), 2);
    office.settle();
    office.copies(0, TEXT);
    assert_eq!(office.settle(), [offered(1, TEXT), owns(TEXT)]);
    office.session.handle_clip_wanted(7, CLIPBOARD, ClipFormat::Text, office.now);
    let ticket = Office::asked(&office.settle(), 0);
    office.viewers[0].end.provide(ticket, Ok(Arc::new(b"for a program".to_vec())), office.now);
    let provided = |ticket, content| [Seen::X(ClipRequest::Provide { ticket, content })];
    assert_eq!(office.settle(), provided(7, Ok(b"for a program".to_vec())));

    let id = office.pastes(1, ClipFormat::Text).unwrap();
    let ticket = Office::asked(&office.settle(), 0);
    office.viewers[0].end.provide(ticket, Ok(Arc::new(b"for a viewer".to_vec())), office.now);
    assert_eq!(office.settle(), [Seen::Viewer(1, ClipEvent::Received { id, content: b"for a viewer".to_vec() })]);

    // The last who copied owns it: a program, then the other viewer.
    office.session.handle_clip_owned(CLIPBOARD, TEXT);
    assert_eq!(office.settle(), [offered(0, TEXT), offered(1, TEXT)]);
    office.session.handle_clip_wanted(8, CLIPBOARD, ClipFormat::Text, office.now);
    assert_eq!(office.settle(), provided(8, Err(ClipEnd::Gone)), "no viewer owns it any more");
    office.copies(1, TEXT);
    assert_eq!(office.settle(), [owns(TEXT), offered(0, TEXT)]);
}

#[test]
fn of_a_viewer_and_a_program_that_copy_at_once_one_owns_it() {
    for program in [TEXT, ClipFormats::NONE] {
        let mut office = Office::new(ClipboardPolicy::default(), 1);
        office.settle();
        office.copies(0, TEXT.with(ClipFormat::Html));
        // The session has heard of it, X has not.
        office.exchange(0);
        office.session.handle_clip_owned(CLIPBOARD, program);
        let viewers = program.is_empty();
        let expected = if viewers { owns(TEXT.with(ClipFormat::Html)) } else { offered(0, TEXT) };
        assert_eq!(office.settle(), [expected], "a program has {program:?}");
        office.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, office.now);
        let asked = matches!(office.settle()[..], [Seen::Viewer(0, ClipEvent::Wanted { .. })]);
        assert_eq!(asked, viewers, "who owns it is who is asked");
    }
}

#[test]
fn what_a_viewer_owned_goes_with_it() {
    let mut office = Office::new(ClipboardPolicy::default(), 2);
    office.settle();
    office.copies(0, TEXT);
    office.settle();
    office.session.handle_clip_wanted(7, CLIPBOARD, ClipFormat::Text, office.now);
    let id = office.pastes(1, ClipFormat::Text).unwrap();
    office.settle();
    office.leave(0);
    let seen = office.settle();
    let gone = Seen::Viewer(0, ClipEvent::Ended { id, why: ClipEnd::Gone });
    let refused = Seen::X(ClipRequest::Provide { ticket: 7, content: Err(ClipEnd::Gone) });
    for expected in [owns(ClipFormats::NONE), refused, offered(0, ClipFormats::NONE), gone] {
        assert!(seen.contains(&expected), "{expected:?} among {seen:?}");
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn who_no_longer_wants_a_content_stops_it_at_its_source() {
    let mut office = Office::new(ClipboardPolicy::default(), 2);
    office.settle();
    office.session.handle_clip_owned(CLIPBOARD, TEXT);
    office.settle();
    let id = office.pastes(0, ClipFormat::Text).unwrap();
    let seen = office.settle();
    let [Seen::X(ClipRequest::Fetch { id: fetch, .. })] = seen[..] else { panic!("{seen:?}") };
    office.viewers[0].end.cancel(id);
    assert_eq!(office.settle(), [Seen::X(ClipRequest::CancelFetch { id: fetch })]);

    office.copies(1, TEXT);
    office.settle();
    office.session.handle_clip_wanted(3, CLIPBOARD, ClipFormat::Text, office.now);
    let ticket = Office::asked(&office.settle(), 1);
    office.session.handle_clip_unwanted(3);
    let ended = ClipEvent::Ended { id: ticket, why: ClipEnd::Cancelled };
    assert_eq!(office.settle(), [Seen::Viewer(1, ended)]);
    // A viewer that pastes and goes.
    office.session.handle_clip_owned(CLIPBOARD, TEXT);
    office.settle();
    office.pastes(0, ClipFormat::Text).unwrap();
    office.settle();
    office.leave(0);
    assert!(matches!(office.settle()[..], [Seen::X(ClipRequest::CancelFetch { .. })]));
}

#[test]
fn a_content_that_does_not_come_is_given_up() {
    let mut office = Office::new(ClipboardPolicy::default(), 1);
    office.settle();
    office.copies(0, TEXT);
    office.settle();
    office.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, office.now);
    office.settle();
    let deadline = office.session.poll_deadline(office.now).expect("somebody waits");
    office.now = deadline;
    let provide = ClipRequest::Provide { ticket: 1, content: Err(ClipEnd::Failed) };
    assert_eq!(office.session.poll_clip(deadline), Some(provide));
}

#[test]
fn a_forbidden_way_is_not_offered() {
    for (give, take) in [(true, false), (false, true), (false, false)] {
        let mut office = Office::new(ClipboardPolicy { give, take, ..ClipboardPolicy::default() }, 2);
        office.settle();
        let wants = office.viewers[0].caps & SessionCaps::CLIPBOARD != 0;
        assert_eq!(wants, take, "the session says whether it wants offers");
        office.session.handle_clip_owned(CLIPBOARD, TEXT);
        assert_eq!(office.settle().is_empty(), !give);
        // A viewer that offers and asks all the same.
        for viewer in &mut office.viewers {
            viewer.end.set_wanted(true);
        }
        office.copies(0, TEXT);
        let request = ClipMessage::Request { id: 9, selection: CLIPBOARD, serial: 3, format: ClipFormat::Text };
        let id = office.viewers[1].id;
        office.session.handle_message(id, &ViewerMessage::Clip(request), office.now).unwrap();
        let seen = office.settle();
        let owns = seen.contains(&owns(TEXT));
        let fetches = seen.iter().any(|seen| matches!(seen, Seen::X(ClipRequest::Fetch { .. })));
        assert_eq!((owns, fetches), (take, give && !take), "give {give}, take {take}: {seen:?}");
        let passed_on = seen.contains(&offered(1, TEXT));
        assert!(!passed_on, "what one viewer has, another gets where both ways are open");
    }
}

#[test]
fn when_a_viewer_comes_what_it_holds_counts() {
    let mut office = Office::new(ClipboardPolicy::default(), 1);
    office.settle();
    office.session.handle_clip_owned(CLIPBOARD, TEXT);
    office.settle();
    office.join();
    // Before the session has said a word.
    office.copies(1, TEXT.with(ClipFormat::Png));
    let seen = office.settle();
    assert!(seen.contains(&owns(TEXT.with(ClipFormat::Png))), "{seen:?}");
    assert!(!seen.contains(&offered(1, TEXT)), "what crossed it is void: {seen:?}");
    // One that holds nothing has what there is.
    office.join();
    office.copies(2, ClipFormats::NONE);
    assert_eq!(office.settle(), [offered(2, TEXT.with(ClipFormat::Png))]);
}

#[test]
fn who_comes_hears_of_what_there_is_not() {
    let mut office = Office::new(ClipboardPolicy::default(), 0);
    office.session.handle_clip_owned(CLIPBOARD, TEXT);
    office.join();
    office.exchange(0);
    let heard: Vec<ClipEvent> = std::iter::from_fn(|| office.viewers[0].end.poll_event()).collect();
    let told = |selection, formats| ClipEvent::Offered { selection, formats };
    assert_eq!(heard, [told(CLIPBOARD, TEXT), told(Selection::Primary, ClipFormats::NONE)]);
    // One that forbids it says nothing at all.
    let mut office = Office::new(ClipboardPolicy { give: false, ..ClipboardPolicy::default() }, 1);
    office.exchange(0);
    assert_eq!(office.viewers[0].end.poll_event(), None);
}

// ---- a hand and a long paste -----------------------------------------------------------------------------------------

const BYTES_PER_SECOND: u64 = 1_250_000;
/// One way, in microseconds.
const DELAY: u64 = 20_000;

/// A path both ways at 10 Mbit/s, with no bound to its queues: what is sent too early is waited for behind.
struct Path {
    free_at: u64,
    arrives: VecDeque<(u64, Vec<u8>)>,
}

impl Path {
    fn new() -> Path {
        Path { free_at: 0, arrives: VecDeque::new() }
    }

    fn send(&mut self, bytes: Vec<u8>, now: u64) {
        self.free_at = self.free_at.max(now) + bytes.len() as u64 * 1_000_000 / BYTES_PER_SECOND;
        self.arrives.push_back((self.free_at + DELAY, bytes));
    }

    fn poll(&mut self, now: u64) -> Option<Vec<u8>> {
        let arrived = self.arrives.front().is_some_and(|&(at, _)| at <= now);
        if arrived { self.arrives.pop_front().map(|(_, bytes)| bytes) } else { None }
    }
}

/// What a hand does at a viewer, over such paths, and how long until it is seen.
struct Typist {
    session: Session,
    id: ViewerId,
    end: End,
    now: u64,
    op: u64,
    there: Path,
    back: Path,
    from_session: Deframer,
    from_viewer: Deframer,
    /// Letters on their way to be seen: when they were typed.
    typed: VecDeque<u64>,
    letters: u32,
    answers: Vec<u64>,
    /// Bytes of the display that have arrived.
    shown: u64,
    /// Bytes of contents that have.
    clip_bytes: u64,
    received: Option<Vec<u8>>,
    provided: Option<Vec<u8>>,
}

/// A rectangle's rows, so many together as have that many pixels.
fn rows(rect: &Rect, area: u64) -> impl Iterator<Item = Rect> {
    let rows = (area / rect.width() as u64).max(1) as i32;
    let rect = *rect;
    (rect.y1..rect.y2).step_by(rows as usize).map(move |y| Rect { y1: y, y2: rect.y2.min(y + rows), ..rect })
}

impl Typist {
    fn new() -> Typist {
        let mut session = session(ClipboardPolicy::default());
        let id = session.add_viewer(&hello(), 0);
        Typist {
            session,
            id,
            end: End::new(Side::Viewer, ClipboardPolicy::default()),
            now: 0,
            op: 0,
            there: Path::new(),
            back: Path::new(),
            from_session: Deframer::new(1 << 24),
            from_viewer: Deframer::new(1 << 16),
            typed: VecDeque::new(),
            letters: 0,
            answers: Vec::new(),
            shown: 0,
            clip_bytes: 0,
            received: None,
            provided: None,
        }
    }

    fn press(&mut self) {
        self.letters += 1;
        let event = InputEvent::Key { code: 30, keysym: 0x61, down: self.letters % 2 == 1 };
        let mut bytes = Vec::new();
        ViewerMessage::Input(Input { seq: self.letters, event }).encode(&mut bytes);
        self.back.send(bytes, self.now);
        self.typed.push_back(self.now);
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
    }

    fn viewer_says(&mut self) {
        let control: Vec<ClipMessage> = std::iter::from_fn(|| self.end.poll_control()).collect();
        let pieces = std::iter::from_fn(|| self.end.poll_piece(usize::MAX, self.now));
        for message in control.into_iter().chain(pieces) {
            let mut bytes = Vec::new();
            ViewerMessage::Clip(message).encode(&mut bytes);
            self.back.send(bytes, self.now);
        }
    }

    /// A film fills the screen: nothing is ever sent all of which was not replaced by then.
    fn film(&mut self) {
        let rect = SIZE.rect();
        let what = RecordKind::Draw { dst: DrawableId::SCREEN, rect, what: Drawn::Image, alpha: Alpha::Opaque };
        self.record(WINDOW + 1, what);
    }

    /// A millisecond passes.
    fn tick(&mut self) {
        self.now += 1_000;
        while let Some(bytes) = self.back.poll(self.now) {
            self.from_viewer.push(&bytes);
        }
        while let Some(frame) = self.from_viewer.next().unwrap() {
            let message = ViewerMessage::decode(&frame).unwrap();
            self.session.handle_message(self.id, &message, self.now).unwrap();
        }
        while let Some(request) = self.session.poll_request(self.now) {
            // The program with the keyboard draws a letter for each key, pressed or let go.
            let Request::Input(thinc_ring::InputMessage::Key { seq, .. }) = request else { continue };
            self.record(WINDOW, RecordKind::InputDelivered { seq, window: WINDOW });
            let rect = Rect::at((self.letters % 100 * 8).cast_signed(), 100, 8, 16);
            let what = RecordKind::Draw { dst: DrawableId::SCREEN, rect, what: Drawn::Glyphs, alpha: Alpha::Opaque };
            self.record(WINDOW, what);
        }
        self.record(0, RecordKind::Idle);
        while let Some(request) = self.session.poll_clip(self.now) {
            match request {
                ClipRequest::Fetch { id, .. } => self.session.handle_clip_content(id, Ok(content(10 << 20)), self.now),
                ClipRequest::Provide { content, .. } => self.provided = content.ok(),
                _ => {}
            }
        }
        while let Some(job) = self.session.poll_job(self.id, self.now) {
            self.session.handle_snapshot(self.id, job.id, None, self.op);
            let mut commands = Vec::new();
            for rect in job.region.rects().iter().flat_map(|rect| rows(rect, job.hints.piece_area)) {
                let data = vec![0x55; rect.area() as usize];
                Command::Raw { rect, encoding: Encoding::Predicted, data: &data }.encode(&mut commands);
            }
            self.session.handle_encoded(self.id, job.id, &commands);
        }
        // The transport takes the next chunk when the last has left.
        while self.there.free_at <= self.now {
            let mut out = Vec::new();
            if !self.session.poll_transmit(self.id, self.now, &mut Unpacked, &mut out) {
                break;
            }
            self.there.send(out, self.now);
        }
        while let Some(bytes) = self.there.poll(self.now) {
            self.from_session.push(&bytes);
        }
        while let Some(frame) = self.from_session.next().unwrap() {
            match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => self.end.set_wanted(hello.caps & SessionCaps::CLIPBOARD != 0),
                SessionMessage::Update(update) => {
                    self.shown += update.commands.len() as u64;
                    if update.echo.is_some() {
                        let typed = self.typed.pop_front().expect("it was typed");
                        self.answers.push(self.now - typed);
                    }
                    let mut bytes = Vec::new();
                    ViewerMessage::Ack(Ack { update: update.seq, presented: None }).encode(&mut bytes);
                    self.back.send(bytes, self.now);
                }
                SessionMessage::Clip(message) => {
                    if let ClipMessage::Data { bytes, .. } = &message {
                        self.clip_bytes += bytes.len() as u64;
                    }
                    self.end.handle(&message, self.now).unwrap();
                }
                _ => {}
            }
        }
        while let Some(event) = self.end.poll_event() {
            match event {
                ClipEvent::Wanted { id, .. } => self.end.provide(id, Ok(Arc::new(content(10 << 20))), self.now),
                ClipEvent::Received { content, .. } => self.received = Some(content),
                _ => {}
            }
        }
        self.viewer_says();
    }

    /// Types twenty keys a second for a while; gives the longest that one took to be seen, in microseconds.
    fn type_for(&mut self, seconds: u64) -> u64 {
        self.answers.clear();
        let end = self.now + seconds * 1_000_000;
        while self.now < end || !self.typed.is_empty() {
            if self.now < end && self.now.is_multiple_of(50_000) {
                self.press();
            }
            assert!(self.now < end + 5_000_000, "{} letters are never seen", self.typed.len());
            self.tick();
        }
        assert_eq!(self.answers.len() as u64, seconds * 20, "every letter was answered once");
        self.answers.iter().copied().max().unwrap_or_default()
    }
}

#[test]
fn a_paste_of_ten_mebibytes_does_not_keep_a_hand_waiting() {
    let quiet = {
        let mut typist = Typist::new();
        typist.type_for(2);
        typist.type_for(5)
    };
    assert!((2 * DELAY..2 * DELAY + 10_000).contains(&quiet), "alone a letter takes the path's time: {quiet}");

    // What a program copied is pasted at the viewer.
    let mut typist = Typist::new();
    typist.type_for(2);
    typist.session.handle_clip_owned(CLIPBOARD, TEXT);
    (0..100).for_each(|_| typist.tick());
    typist.end.request(CLIPBOARD, ClipFormat::Text, typist.now).expect("it is offered");
    let slowest = typist.type_for(5);
    assert!(typist.received.is_none(), "ten mebibytes take longer than that");
    assert!(slowest < quiet + 15_000, "{slowest} us beside {quiet} us");
    let begun = typist.now;
    while typist.received.is_none() {
        typist.tick();
        assert!(typist.now < begun + 8_000_000, "the path is used");
    }
    assert!(typist.received == Some(content(10 << 20)));

    // What was copied at the viewer is pasted by a program: keys go the same way as pieces.
    let mut typist = Typist::new();
    typist.type_for(2);
    typist.end.offer(CLIPBOARD, TEXT);
    (0..100).for_each(|_| typist.tick());
    typist.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, typist.now);
    let slowest = typist.type_for(5);
    assert!(typist.provided.is_none(), "ten mebibytes take longer than that");
    assert!(slowest < quiet + 30_000, "{slowest} us beside {quiet} us");
    let begun = typist.now;
    while typist.provided.is_none() {
        typist.tick();
        assert!(typist.now < begun + 8_000_000, "the path is used");
    }
    assert!(typist.provided == Some(content(10 << 20)));
}

#[test]
fn a_display_that_never_rests_lets_a_line_of_text_through_and_loses_little() {
    let mut shown = Vec::new();
    for pastes in [false, true] {
        let mut typist = Typist::new();
        typist.session.handle_clip_owned(CLIPBOARD, TEXT);
        // The path is learnt, and full.
        for _ in 0..3_000 {
            if typist.now.is_multiple_of(16_000) {
                typist.film();
            }
            typist.tick();
        }
        let (begun, before) = (typist.now, typist.shown);
        if pastes {
            typist.end.request(CLIPBOARD, ClipFormat::Text, typist.now).expect("it is offered");
        }
        let mut first = None;
        for _ in 0..4_000 {
            if typist.now.is_multiple_of(16_000) {
                typist.film();
            }
            let unconfirmed = typist.clip_bytes;
            typist.tick();
            if typist.clip_bytes > unconfirmed {
                first.get_or_insert(typist.now - begun);
            }
        }
        shown.push(typist.shown - before);
        assert_eq!(first.is_some(), pastes);
        assert!(first.is_none_or(|first| first < 500_000), "the first of it came after {first:?} us");
        assert!(typist.received.is_none(), "ten mebibytes wait for the film's end");
    }
    let lost = 1.0 - shown[1] as f64 / shown[0] as f64;
    assert!(shown[0] > 3 * BYTES_PER_SECOND, "the film fills the path: {}", shown[0]);
    assert!(lost < 0.05, "the film lost {:.1} % to the paste", lost * 100.0);
}
