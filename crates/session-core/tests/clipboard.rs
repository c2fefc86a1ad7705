//! The clipboard of a session with several viewers, and the effect of a long paste on input over
//! the same path. From programs and viewers that copy and paste, through session-core and each
//! viewer's end, to where contents arrive. Knows session-core's public interface; bytes of the
//! display are made up.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_clipboard::{ClipEvent, Endpoint, Side};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    ClipRequest, ClipboardPolicy, Config, JobResult, LossyPolicy, NoPixels, Request, Rights,
    Session, Unpacked, ViewerId,
};

const SIZE: Size = Size { width: 1024, height: 768 };
const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);
const CLIPBOARD: Selection = Selection::Clipboard;
const WINDOW: u32 = 0x40_0001;

fn session(policy: ClipboardPolicy) -> Session {
    let mut session = Session::new(Config {
        offscreen: false,
        lossy: LossyPolicy::Never,
        ..Config::new("clipboard", SIZE)
    });
    session.set_clipboard(policy);
    session.handle_attach(SIZE);
    session
}

fn hello() -> ViewerHello {
    let (caps, size) = (ViewerCaps::CLIPBOARD, Size::default());
    ViewerHello { version: 1, caps, size, message_bytes_max: 1 << 24, name: "far".into() }
}

/// A viewer and its end of the channel; the display is acknowledged and ignored.
struct Far {
    id: ViewerId,
    end: Endpoint,
    frames: Deframer,
    caps: u32,
    /// It was told the state of each selection.
    told: [bool; 2],
}

/// What viewers and X have noticed.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Viewer(usize, ClipEvent),
    X(ClipRequest),
}

/// A session and its viewers on paths without delay.
struct ClipboardWorld {
    session: Session,
    viewers: Vec<Far>,
    now: u64,
}

impl ClipboardWorld {
    fn new(policy: ClipboardPolicy, viewers: usize) -> ClipboardWorld {
        let mut world =
            ClipboardWorld { session: session(policy), viewers: Vec::new(), now: 1_000 };
        (0..viewers).for_each(|_| world.join());
        world
    }

    fn join(&mut self) {
        self.join_as(Rights::ALL);
    }

    fn join_as(&mut self, rights: Rights) {
        let id = self.session.add_guest(&hello(), rights, self.now);
        let end = Endpoint::new(Side::Viewer, ClipboardPolicy::default());
        self.viewers.push(Far {
            id,
            end,
            frames: Deframer::new(1 << 24),
            caps: 0,
            told: [false; 2],
        });
    }

    fn leave(&mut self, at: usize) {
        self.session.remove_viewer(self.viewers.remove(at).id);
    }

    /// Exchanges all messages, and returns what was noticed.
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
                    // Every new viewer is told that there is nothing; another test checks that.
                    let nothing = match &event {
                        ClipEvent::Offered { selection, formats } => {
                            !std::mem::replace(&mut far.told[*selection as usize], true)
                                && formats.is_empty()
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
        panic!("there is always more to send: {seen:?}");
    }

    /// Messages of both sides cross.
    fn exchange(&mut self, at: usize) -> bool {
        let far = &mut self.viewers[at];
        let mut out = Vec::new();
        while let Some(job) = self.session.poll_job(far.id, self.now) {
            let planned = self.session.render(job, &mut NoPixels { tag: 0 });
            self.session
                .complete(planned.expect("it is new"), JobResult::encoded(&Commands::default()));
        }
        let mut busy = self.session.poll_transmit(far.id, self.now, &mut Unpacked, &mut out);
        let mut received: Vec<ClipMessage> =
            std::iter::from_fn(|| far.end.poll_control()).collect();
        received.extend(std::iter::from_fn(|| far.end.poll_piece(usize::MAX, self.now)));
        busy |= !received.is_empty();
        for message in received {
            self.session.handle_message(far.id, &ViewerMessage::Clip(message), self.now).unwrap();
        }
        far.frames.push(&out);
        while let Some(frame) = far.frames.next().unwrap() {
            match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => {
                    far.caps = hello.caps;
                    far.end.set_offers_wanted(hello.caps & SessionCaps::CLIPBOARD != 0);
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

    /// The viewer is asked for what it copied; returns the number.
    fn asked(seen: &[Seen], viewer: usize) -> u32 {
        let [Seen::Viewer(at, ClipEvent::Wanted { id, .. })] = seen else {
            panic!("nobody requested this: {seen:?}")
        };
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

/// Every kilobyte has other bytes.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at * 7 % 26) as u8).collect()
}

#[test]
fn a_programs_copy_is_offered_to_all_and_transferred_on_paste() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 2);
    world.settle();
    world.session.handle_clip_owned(CLIPBOARD, TEXT.with(ClipFormat::Html));
    let formats = TEXT.with(ClipFormat::Html);
    assert_eq!(world.settle(), [offered(0, formats), offered(1, formats)]);
    assert_eq!(world.pastes(1, ClipFormat::Png), None, "there is no image");
    let id = world.pastes(1, ClipFormat::Html).unwrap();
    let seen = world.settle();
    let [Seen::X(ClipRequest::Fetch { id: fetch, selection: CLIPBOARD, format })] = seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(format, ClipFormat::Html);
    world.session.handle_clip_content(fetch, Ok(content(3_000_000)), world.now);
    assert_eq!(
        world.settle(),
        [Seen::Viewer(1, ClipEvent::Received { id, content: content(3_000_000) })]
    );
    // A viewer that connects later is told as well.
    world.join();
    assert_eq!(world.settle(), [offered(2, formats)]);
    world.session.handle_clip_owned(CLIPBOARD, ClipFormats::NONE);
    assert_eq!(world.settle(), (0..3).map(|at| offered(at, ClipFormats::NONE)).collect::<Vec<_>>());
}

#[test]
fn a_viewers_copy_is_for_programs_and_for_other_viewers() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 2);
    world.settle();
    world.copies(0, TEXT);
    assert_eq!(world.settle(), [offered(1, TEXT), owns(TEXT)]);
    world.session.handle_clip_wanted(7, CLIPBOARD, ClipFormat::Text, world.now);
    let ticket = ClipboardWorld::asked(&world.settle(), 0);
    world.viewers[0].end.provide(ticket, Ok(Arc::new(b"for a program".to_vec())), world.now);
    let provided = |ticket, content| [Seen::X(ClipRequest::Provide { ticket, content })];
    assert_eq!(world.settle(), provided(7, Ok(b"for a program".to_vec())));

    let id = world.pastes(1, ClipFormat::Text).unwrap();
    let ticket = ClipboardWorld::asked(&world.settle(), 0);
    world.viewers[0].end.provide(ticket, Ok(Arc::new(b"for a viewer".to_vec())), world.now);
    assert_eq!(
        world.settle(),
        [Seen::Viewer(1, ClipEvent::Received { id, content: b"for a viewer".to_vec() })]
    );

    // The last to copy owns it: a program, then the other viewer.
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    assert_eq!(world.settle(), [offered(0, TEXT), offered(1, TEXT)]);
    world.session.handle_clip_wanted(8, CLIPBOARD, ClipFormat::Text, world.now);
    assert_eq!(
        world.settle(),
        provided(8, Err(ClipEnd::Unavailable)),
        "no viewer owns it any more"
    );
    world.copies(1, TEXT);
    assert_eq!(world.settle(), [owns(TEXT), offered(0, TEXT)]);
}

#[test]
fn of_a_viewer_and_a_program_that_copy_at_once_one_owns_it() {
    for program in [TEXT, ClipFormats::NONE] {
        let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 1);
        world.settle();
        world.copies(0, TEXT.with(ClipFormat::Html));
        // The session knows of it, X does not yet.
        world.exchange(0);
        world.session.handle_clip_owned(CLIPBOARD, program);
        let viewers = program.is_empty();
        let expected = if viewers { owns(TEXT.with(ClipFormat::Html)) } else { offered(0, TEXT) };
        assert_eq!(world.settle(), [expected], "a program has {program:?}");
        world.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, world.now);
        let asked = matches!(world.settle()[..], [Seen::Viewer(0, ClipEvent::Wanted { .. })]);
        assert_eq!(asked, viewers, "the owner is asked");
    }
}

#[test]
fn a_viewers_selection_ends_with_its_connection() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 2);
    world.settle();
    world.copies(0, TEXT);
    world.settle();
    world.session.handle_clip_wanted(7, CLIPBOARD, ClipFormat::Text, world.now);
    let id = world.pastes(1, ClipFormat::Text).unwrap();
    world.settle();
    world.leave(0);
    let seen = world.settle();
    let gone = Seen::Viewer(0, ClipEvent::Ended { id, why: ClipEnd::Unavailable });
    let refused = Seen::X(ClipRequest::Provide { ticket: 7, content: Err(ClipEnd::Unavailable) });
    for expected in [owns(ClipFormats::NONE), refused, offered(0, ClipFormats::NONE), gone] {
        assert!(seen.contains(&expected), "{expected:?} among {seen:?}");
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_cancelled_request_stops_at_its_source() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 2);
    world.settle();
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    world.settle();
    let id = world.pastes(0, ClipFormat::Text).unwrap();
    let seen = world.settle();
    let [Seen::X(ClipRequest::Fetch { id: fetch, .. })] = seen[..] else { panic!("{seen:?}") };
    world.viewers[0].end.cancel(id);
    assert_eq!(world.settle(), [Seen::X(ClipRequest::CancelFetch { id: fetch })]);

    world.copies(1, TEXT);
    world.settle();
    world.session.handle_clip_wanted(3, CLIPBOARD, ClipFormat::Text, world.now);
    let ticket = ClipboardWorld::asked(&world.settle(), 1);
    world.session.handle_clip_unwanted(3);
    let ended = ClipEvent::Ended { id: ticket, why: ClipEnd::Cancelled };
    assert_eq!(world.settle(), [Seen::Viewer(1, ended)]);
    // A viewer that pastes and disconnects.
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    world.settle();
    world.pastes(0, ClipFormat::Text).unwrap();
    world.settle();
    world.leave(0);
    assert!(matches!(world.settle()[..], [Seen::X(ClipRequest::CancelFetch { .. })]));
}

#[test]
fn a_content_that_does_not_arrive_is_given_up() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 1);
    world.settle();
    world.copies(0, TEXT);
    world.settle();
    world.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, world.now);
    world.settle();
    let deadline = world.session.poll_deadline(world.now).expect("somebody waits");
    world.now = deadline;
    let provide = ClipRequest::Provide { ticket: 1, content: Err(ClipEnd::Failed) };
    assert_eq!(world.session.poll_clip(deadline), Some(provide));
}

#[test]
fn a_forbidden_direction_is_not_offered() {
    for (give, take) in [(true, false), (false, true), (false, false)] {
        let mut world =
            ClipboardWorld::new(ClipboardPolicy { give, take, ..ClipboardPolicy::default() }, 2);
        world.settle();
        let wants = world.viewers[0].caps & SessionCaps::CLIPBOARD != 0;
        assert_eq!(wants, take, "the session says whether it wants offers");
        world.session.handle_clip_owned(CLIPBOARD, TEXT);
        assert_eq!(world.settle().is_empty(), !give);
        // A viewer that offers and requests all the same.
        for viewer in &mut world.viewers {
            viewer.end.set_offers_wanted(true);
        }
        world.copies(0, TEXT);
        let request = ClipMessage::Request {
            id: 9,
            selection: CLIPBOARD,
            serial: 3,
            format: ClipFormat::Text,
        };
        let id = world.viewers[1].id;
        world.session.handle_message(id, &ViewerMessage::Clip(request), world.now).unwrap();
        let seen = world.settle();
        let owns = seen.contains(&owns(TEXT));
        let fetches = seen.iter().any(|seen| matches!(seen, Seen::X(ClipRequest::Fetch { .. })));
        assert_eq!((owns, fetches), (take, give && !take), "give {give}, take {take}: {seen:?}");
        let passed_on = seen.contains(&offered(1, TEXT));
        assert!(!passed_on, "one viewer gets another's content if both directions are open");
    }
}

#[test]
fn a_new_viewers_content_becomes_the_selection() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 1);
    world.settle();
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    world.settle();
    world.join();
    // Before the session's first message.
    world.copies(1, TEXT.with(ClipFormat::Png));
    let seen = world.settle();
    assert!(seen.contains(&owns(TEXT.with(ClipFormat::Png))), "{seen:?}");
    assert!(!seen.contains(&offered(1, TEXT)), "what crossed it is stale: {seen:?}");
    // A viewer without content gets what is offered.
    world.join();
    world.copies(2, ClipFormats::NONE);
    assert_eq!(world.settle(), [offered(2, TEXT.with(ClipFormat::Png))]);
}

#[test]
fn a_new_viewer_is_told_of_empty_selections() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 0);
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    world.join();
    world.exchange(0);
    let heard: Vec<ClipEvent> = std::iter::from_fn(|| world.viewers[0].end.poll_event()).collect();
    let told = |selection, formats| ClipEvent::Offered { selection, formats };
    assert_eq!(heard, [told(CLIPBOARD, TEXT), told(Selection::Primary, ClipFormats::NONE)]);
    // A viewer that forbids it sends nothing at all.
    let mut world =
        ClipboardWorld::new(ClipboardPolicy { give: false, ..ClipboardPolicy::default() }, 1);
    world.exchange(0);
    assert_eq!(world.viewers[0].end.poll_event(), None);
}

// ---- input and a long paste

const BYTES_PER_SECOND: u64 = 1_250_000;
/// One way, in microseconds.
const DELAY: u64 = 20_000;

/// A path with 10 Mbit/s in both directions and unbounded queues: whatever is sent too early delays
/// the rest.
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

/// Keystrokes at a viewer over such paths, and how long until each is echoed.
struct Typist {
    session: Session,
    id: ViewerId,
    end: Endpoint,
    now: u64,
    op: u64,
    there: Path,
    back: Path,
    from_session: Deframer,
    from_viewer: Deframer,
    /// Keystrokes without an echo yet: when they were typed.
    typed: VecDeque<u64>,
    keystrokes: u32,
    answers: Vec<u64>,
    /// Bytes of the display that have arrived.
    shown: u64,
    /// Bytes of contents that have arrived.
    clip_bytes: u64,
    received: Option<Vec<u8>>,
    provided: Option<Vec<u8>>,
}

/// The rows of a rectangle in groups of about so many pixels.
fn rows(rect: &Rect, area: u64) -> impl Iterator<Item = Rect> {
    let rows = (area / rect.width() as u64).max(1) as i32;
    let rect = *rect;
    (rect.y1..rect.y2).step_by(rows as usize).map(move |y| Rect {
        y1: y,
        y2: rect.y2.min(y + rows),
        ..rect
    })
}

impl Typist {
    fn new() -> Typist {
        let mut session = session(ClipboardPolicy::default());
        let id = session.add_viewer(&hello(), 0);
        Typist {
            session,
            id,
            end: Endpoint::new(Side::Viewer, ClipboardPolicy::default()),
            now: 0,
            op: 0,
            there: Path::new(),
            back: Path::new(),
            from_session: Deframer::new(1 << 24),
            from_viewer: Deframer::new(1 << 16),
            typed: VecDeque::new(),
            keystrokes: 0,
            answers: Vec::new(),
            shown: 0,
            clip_bytes: 0,
            received: None,
            provided: None,
        }
    }

    fn press(&mut self) {
        self.keystrokes += 1;
        let event = InputEvent::Key { code: 30, keysym: 0x61, down: self.keystrokes % 2 == 1 };
        let mut bytes = Vec::new();
        ViewerMessage::Input(Input { seq: self.keystrokes, event }).encode(&mut bytes);
        self.back.send(bytes, self.now);
        self.typed.push_back(self.now);
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
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

    /// A video fills the screen: each frame is replaced before all of it was sent.
    fn video(&mut self) {
        let rect = SIZE.rect();
        let what = RecordKind::Draw {
            dst: DrawableId::SCREEN,
            rect,
            hint: DrawHint::Image,
            alpha: Alpha::Opaque,
        };
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
            // The program with the focus draws a glyph for each key press and release.
            let Request::Input(thinc_ring::InputMessage::Key { seq, .. }) = request else {
                continue;
            };
            self.record(WINDOW, RecordKind::InputDelivered { seq, window: WINDOW });
            let rect = Rect::at((self.keystrokes % 100 * 8).cast_signed(), 100, 8, 16);
            let what = RecordKind::Draw {
                dst: DrawableId::SCREEN,
                rect,
                hint: DrawHint::Glyphs,
                alpha: Alpha::Opaque,
            };
            self.record(WINDOW, what);
        }
        self.record(0, RecordKind::Idle);
        while let Some(request) = self.session.poll_clip(self.now) {
            match request {
                ClipRequest::Fetch { id, .. } => {
                    self.session.handle_clip_content(id, Ok(content(10 << 20)), self.now)
                }
                ClipRequest::Provide { content, .. } => self.provided = content.ok(),
                _ => {}
            }
        }
        while let Some(job) = self.session.poll_job(self.id, self.now) {
            let planned = self.session.render(job, &mut NoPixels { tag: self.op });
            let planned = planned.expect("it is new");
            let job = planned.job();
            let mut commands = Commands::default();
            for rect in job.region.rects().iter().flat_map(|rect| rows(rect, job.hints.piece_area))
            {
                let data = vec![0x55; rect.area() as usize];
                Command::Raw { rect, encoding: Encoding::Predicted, data: &data }
                    .append_to(&mut commands);
            }
            self.session.complete(planned, JobResult::encoded(&commands));
        }
        // The transport takes the next chunk when the last was sent.
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
                SessionMessage::Hello(hello) => {
                    self.end.set_offers_wanted(hello.caps & SessionCaps::CLIPBOARD != 0)
                }
                SessionMessage::Update(update) => {
                    self.shown += update.commands.len() as u64;
                    if update.echo.is_some() {
                        let typed = self.typed.pop_front().expect("it was typed");
                        self.answers.push(self.now - typed);
                    }
                    let mut bytes = Vec::new();
                    ViewerMessage::Ack(Ack { update: update.seq, presented: None })
                        .encode(&mut bytes);
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
                ClipEvent::Wanted { id, .. } => {
                    self.end.provide(id, Ok(Arc::new(content(10 << 20))), self.now)
                }
                ClipEvent::Received { content, .. } => self.received = Some(content),
                _ => {}
            }
        }
        self.viewer_says();
    }

    /// Types twenty keys a second for a while; returns the longest delay of an echo in
    /// microseconds.
    fn type_for(&mut self, seconds: u64) -> u64 {
        self.answers.clear();
        let end = self.now + seconds * 1_000_000;
        while self.now < end || !self.typed.is_empty() {
            if self.now < end && self.now.is_multiple_of(50_000) {
                self.press();
            }
            assert!(
                self.now < end + 5_000_000,
                "{} keystrokes were never echoed",
                self.typed.len()
            );
            self.tick();
        }
        assert_eq!(self.answers.len() as u64, seconds * 20, "every keystroke was echoed once");
        self.answers.iter().copied().max().unwrap_or_default()
    }
}

#[test]
fn a_paste_of_ten_mebibytes_does_not_delay_input() {
    let quiet = {
        let mut typist = Typist::new();
        typist.type_for(2);
        typist.type_for(5)
    };
    assert!(
        (2 * DELAY..2 * DELAY + 10_000).contains(&quiet),
        "without other load a keystroke takes the path's time: {quiet}"
    );

    // A viewer pastes what a program copied.
    let mut typist = Typist::new();
    typist.type_for(2);
    typist.session.handle_clip_owned(CLIPBOARD, TEXT);
    (0..100).for_each(|_| typist.tick());
    typist.end.request(CLIPBOARD, ClipFormat::Text, typist.now).expect("it is offered");
    let slowest = typist.type_for(5);
    assert!(typist.received.is_none(), "ten mebibytes take longer than that");
    assert!(slowest < quiet + 15_000, "{slowest} us with a paste, {quiet} us without");
    let begun = typist.now;
    while typist.received.is_none() {
        typist.tick();
        assert!(typist.now < begun + 8_000_000, "the path is used");
    }
    assert!(typist.received == Some(content(10 << 20)));

    // A program pastes what the viewer copied: keys use the same path as pieces.
    let mut typist = Typist::new();
    typist.type_for(2);
    typist.end.offer(CLIPBOARD, TEXT);
    (0..100).for_each(|_| typist.tick());
    typist.session.handle_clip_wanted(1, CLIPBOARD, ClipFormat::Text, typist.now);
    let slowest = typist.type_for(5);
    assert!(typist.provided.is_none(), "ten mebibytes take longer than that");
    assert!(slowest < quiet + 30_000, "{slowest} us with a paste, {quiet} us without");
    let begun = typist.now;
    while typist.provided.is_none() {
        typist.tick();
        assert!(typist.now < begun + 8_000_000, "the path is used");
    }
    assert!(typist.provided == Some(content(10 << 20)));
}

#[test]
fn a_busy_display_lets_a_line_of_text_through_and_loses_little() {
    let mut shown = Vec::new();
    for pastes in [false, true] {
        let mut typist = Typist::new();
        typist.session.handle_clip_owned(CLIPBOARD, TEXT);
        // The rate is known, and the path is full.
        for _ in 0..3_000 {
            if typist.now.is_multiple_of(16_000) {
                typist.video();
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
                typist.video();
            }
            let unconfirmed = typist.clip_bytes;
            typist.tick();
            if typist.clip_bytes > unconfirmed {
                first.get_or_insert(typist.now - begun);
            }
        }
        shown.push(typist.shown - before);
        assert_eq!(first.is_some(), pastes);
        assert!(
            first.is_none_or(|first| first < 500_000),
            "the first of it came after {first:?} us"
        );
        assert!(typist.received.is_none(), "ten mebibytes wait for the video's end");
    }
    let lost = 1.0 - shown[1] as f64 / shown[0] as f64;
    assert!(shown[0] > 3 * BYTES_PER_SECOND, "the video fills the path: {}", shown[0]);
    assert!(lost < 0.05, "the video lost {:.1} % to the paste", lost * 100.0);
}

#[test]
fn a_guest_gets_and_gives_what_its_rights_allow_and_nothing_else() {
    let view = Rights { input: true, ..Rights::VIEW };
    for (gives, gets) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 1);
        let rights = Rights { clipboard_to_session: gives, clipboard_to_viewer: gets, ..view };
        world.join_as(rights);
        world.settle();
        world.session.handle_clip_owned(CLIPBOARD, TEXT);
        let seen = world.settle();
        assert!(seen.contains(&offered(0, TEXT)), "the owner is told");
        assert_eq!(seen.contains(&offered(1, TEXT)), gets);
        assert_eq!(world.pastes(1, ClipFormat::Text).is_some(), gets);
        let fetched = world.settle().iter().any(|seen| matches!(seen, Seen::X(_)));
        assert_eq!(fetched, gets);
        world.copies(1, TEXT);
        let seen = world.settle();
        assert_eq!(seen.contains(&owns(TEXT)), gives);
        assert_eq!(seen.contains(&offered(0, TEXT)), gives);
    }
}

#[test]
fn guests_with_the_clipboard_exchange_no_files() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 1);
    world.join_as(Rights { files: false, ..Rights::ALL });
    let both = TEXT.with(ClipFormat::Files);
    world.settle();
    world.session.handle_clip_owned(CLIPBOARD, both);
    assert_eq!(world.settle(), [offered(0, both), offered(1, TEXT)]);
    world.copies(1, both);
    assert_eq!(world.settle(), [owns(TEXT), offered(0, TEXT)]);
}

#[test]
fn a_request_that_names_an_offer_which_a_guest_never_got_is_answered_with_nothing() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 0);
    world.join_as(Rights::VIEW);
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    world.settle();
    for serial in 0..4 {
        let message = ClipMessage::Request {
            id: serial,
            selection: CLIPBOARD,
            serial,
            format: ClipFormat::Text,
        };
        let message = ViewerMessage::Clip(message);
        world.session.handle_message(world.viewers[0].id, &message, world.now).unwrap();
    }
    assert_eq!(world.session.poll_clip(world.now), None, "no program is asked");
}

#[test]
fn a_guest_that_loses_its_rights_loses_what_it_copied_and_what_is_in_transfer() {
    let mut world = ClipboardWorld::new(ClipboardPolicy::default(), 2);
    let guest = world.viewers[1].id;
    world.settle();
    world.copies(1, TEXT);
    assert_eq!(world.settle(), [owns(TEXT), offered(0, TEXT)]);
    world.session.handle_clip_wanted(7, CLIPBOARD, ClipFormat::Text, world.now);
    let ticket = ClipboardWorld::asked(&world.settle(), 1);
    world.session.set_rights(guest, Rights::VIEW);
    world.viewers[1].end.provide(ticket, Ok(Arc::new(b"too late".to_vec())), world.now);
    let seen = world.settle();
    let nothing = Seen::X(ClipRequest::Provide { ticket: 7, content: Err(ClipEnd::Unavailable) });
    assert!(seen.contains(&nothing), "{seen:?}");
    assert!(seen.contains(&owns(ClipFormats::NONE)), "{seen:?}");
    assert!(seen.contains(&offered(0, ClipFormats::NONE)), "{seen:?}");

    // The other direction: a content on its way to the guest.
    world.session.set_rights(guest, Rights::ALL);
    world.session.handle_clip_owned(CLIPBOARD, TEXT);
    assert_eq!(world.settle(), [offered(0, TEXT), offered(1, TEXT)]);
    let paste = world.pastes(1, ClipFormat::Text).unwrap();
    let seen = world.settle();
    let [Seen::X(ClipRequest::Fetch { id: fetch, .. })] = seen[..] else { panic!("{seen:?}") };
    world.session.set_rights(guest, Rights::VIEW);
    world.session.handle_clip_content(fetch, Ok(content(100)), world.now);
    let seen = world.settle();
    let ended =
        |seen: &Seen| matches!(seen, Seen::Viewer(1, ClipEvent::Ended { id, .. }) if *id == paste);
    assert!(seen.iter().any(ended), "{seen:?}");
    assert!(seen.contains(&offered(1, ClipFormats::NONE)), "{seen:?}");
    let received = |seen: &Seen| matches!(seen, Seen::Viewer(_, ClipEvent::Received { .. }));
    assert!(!seen.iter().any(received), "{seen:?}");
}
