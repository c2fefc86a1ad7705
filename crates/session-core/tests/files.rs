//! Files of a session with viewers: who may send and who is offered them, and the effect of a large
//! file on input and on the display over the same path. From programs and viewers that send,
//! through session-core and each viewer's end, to where contents arrive. Knows session-core's
//! public interface; bytes of the display are made up.

use std::collections::VecDeque;

use thinc_files::{Endpoint, FileEvent, Offer, OfferError, Start};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::file::{
    FileAnswer, FileEnd, FileEntry, FileKind, FileMessage, FileOffer, FilePurpose,
};
use thinc_protocol::framing::Deframer;
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_protocol::session::{SessionCaps, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Config, FilesPolicy, JobResult, LossyPolicy, NoPixels, Printing, Request, Rights, Session,
    Unpacked, ViewerId,
};

const SIZE: Size = Size { width: 1024, height: 768 };
const WINDOW: u32 = 0x40_0001;
/// A path of 10 Mbit/s, and half of its round trip in microseconds. Its queues are unbounded:
/// whatever is sent too early delays the rest.
const BYTES_PER_SECOND: u64 = 1_250_000;
const DELAY: u64 = 20_000;
/// More than the path carries in the time of a test.
const LARGE: u64 = 64 << 20;

fn session(policy: FilesPolicy) -> Session {
    let mut session = Session::new(Config {
        offscreen: false,
        lossy: LossyPolicy::Never,
        ..Config::new("files", SIZE)
    });
    session.set_files(policy);
    session.handle_attach(SIZE);
    session
}

fn hello(caps: u32) -> ViewerHello {
    let size = Size::default();
    ViewerHello { version: 1, caps, size, message_bytes_max: 1 << 24, name: "far".into() }
}

fn offer(size: u64) -> Offer {
    let path = "f".to_owned();
    let entry = FileEntry { kind: FileKind::File, size, modified_ms: 0, path };
    Offer::new(FilePurpose::Sent, vec![entry]).unwrap()
}

/// One direction of a path, which delivers bytes in order.
struct Path {
    free_at: u64,
    in_flight: VecDeque<(u64, Vec<u8>)>,
}

impl Path {
    fn new() -> Path {
        Path { free_at: 0, in_flight: VecDeque::new() }
    }

    fn send(&mut self, bytes: Vec<u8>, now: u64) {
        self.free_at = self.free_at.max(now) + bytes.len() as u64 * 1_000_000 / BYTES_PER_SECOND;
        self.in_flight.push_back((self.free_at + DELAY, bytes));
    }

    fn poll(&mut self, now: u64) -> Option<Vec<u8>> {
        self.in_flight.front().filter(|(at, _)| *at <= now)?;
        self.in_flight.pop_front().map(|(_, bytes)| bytes)
    }
}

/// A session, and a viewer whose user types, on one path.
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
    /// When each keystroke without an echo was made.
    typed: VecDeque<u64>,
    keystrokes: u32,
    echoes: Vec<u64>,
    /// Bytes of the display that have arrived.
    shown: u64,
    /// Bytes of files that have arrived at either end.
    stored: u64,
    ended: Vec<FileEnd>,
}

impl Typist {
    fn new() -> Typist {
        let mut session = session(FilesPolicy::default());
        let id = session.add_viewer(&hello(ViewerCaps::FILES), 0);
        Typist {
            session,
            id,
            end: Endpoint::new(FilesPolicy::default()),
            now: 0,
            op: 0,
            there: Path::new(),
            back: Path::new(),
            from_session: Deframer::new(1 << 24),
            from_viewer: Deframer::new(1 << 16),
            typed: VecDeque::new(),
            keystrokes: 0,
            echoes: Vec::new(),
            shown: 0,
            stored: 0,
            ended: Vec::new(),
        }
    }

    fn press(&mut self) {
        self.keystrokes += 1;
        let event = InputEvent::Key { code: 30, keysym: 0x61, down: self.keystrokes % 2 == 1 };
        self.viewer_says(&ViewerMessage::Input(Input { seq: self.keystrokes, event }));
        self.typed.push_back(self.now);
    }

    fn viewer_says(&mut self, message: &ViewerMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.back.send(bytes, self.now);
    }

    fn draw(&mut self, window: u32, rect: Rect, hint: DrawHint) {
        let (dst, alpha) = (DrawableId::SCREEN, Alpha::Opaque);
        self.record(window, RecordKind::Draw { dst, rect, hint, alpha });
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        let record = DrawRecord { op: self.op, more: false, window, kind };
        self.session.handle_record(&record, self.now);
    }

    /// Accepts, reads and stores whatever an end asks for; the content is zeros.
    fn serve(end: &mut Endpoint, event: FileEvent, now: u64) -> (u64, Option<FileEnd>) {
        match event {
            FileEvent::Offered { id, .. } => end.answer(id, Some(Start::default()), now),
            FileEvent::Wanted { id, entry, offset, bytes } => {
                end.supply(id, entry, offset, &vec![0; bytes as usize], now);
            }
            FileEvent::Data { id, bytes, last, .. } => {
                end.stored(id, bytes.len());
                if last {
                    end.finish(id);
                }
                return (bytes.len() as u64, None);
            }
            FileEvent::Ended { why, .. } | FileEvent::Stopped { why, .. } => return (0, Some(why)),
            FileEvent::Answered { .. } => {}
        }
        (0, None)
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
            self.draw(WINDOW, rect, DrawHint::Glyphs);
        }
        self.record(0, RecordKind::Idle);
        while let Some((id, event)) = self.session.poll_file_event(self.now) {
            let end = self.session.files(id).expect("it is connected");
            let (stored, ended) = Typist::serve(end, event, self.now);
            self.stored += stored;
            self.ended.extend(ended);
        }
        self.encode();
        self.deliver();
        while let Some(event) = self.end.poll_event() {
            let (stored, ended) = Typist::serve(&mut self.end, event, self.now);
            self.stored += stored;
            self.ended.extend(ended);
        }
        while let Some(message) =
            self.end.poll_control().or_else(|| self.end.poll_piece(usize::MAX, self.now))
        {
            self.viewer_says(&ViewerMessage::File(message));
        }
    }

    fn encode(&mut self) {
        while let Some(job) = self.session.poll_job(self.id, self.now) {
            let planned = self.session.render(job, &mut NoPixels { tag: self.op });
            let planned = planned.expect("it is new");
            let job = planned.job();
            let mut commands = Commands::default();
            for rect in job.region.rects() {
                let height = (job.hints.piece_area / rect.width() as u64).max(1) as i32;
                for y1 in (rect.y1..rect.y2).step_by(height as usize) {
                    let rect = Rect { y1, y2: rect.y2.min(y1 + height), ..*rect };
                    let data = vec![0x55; rect.area() as usize];
                    let encoding = Encoding::Predicted;
                    Command::Raw { rect, encoding, data: &data }.append_to(&mut commands);
                }
            }
            self.session.complete(planned, JobResult::encoded(&commands));
        }
    }

    fn deliver(&mut self) {
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
                SessionMessage::Hello(hello) => assert!(hello.caps & SessionCaps::FILES != 0),
                SessionMessage::Update(update) => {
                    self.shown += update.commands.len() as u64;
                    if update.echo.is_some() {
                        let typed = self.typed.pop_front().expect("it was typed");
                        self.echoes.push(self.now - typed);
                    }
                    let mut bytes = Vec::new();
                    let ack = Ack { update: update.seq, presented: None };
                    ViewerMessage::Ack(ack).encode(&mut bytes);
                    self.back.send(bytes, self.now);
                }
                SessionMessage::File(message) => self.end.handle(&message, self.now).unwrap(),
                _ => {}
            }
        }
    }

    /// Types twenty keys a second for a while; returns the longest delay of an echo in
    /// microseconds.
    fn type_for(&mut self, seconds: u64) -> u64 {
        self.echoes.clear();
        let end = self.now + seconds * 1_000_000;
        while self.now < end || !self.typed.is_empty() {
            if self.now < end && self.now.is_multiple_of(50_000) {
                self.press();
            }
            assert!(self.now < end + 5_000_000, "{} keystrokes got no echo", self.typed.len());
            self.tick();
        }
        assert_eq!(self.echoes.len() as u64, seconds * 20, "every keystroke has one echo");
        self.echoes.iter().copied().max().unwrap_or_default()
    }

    fn offer(&mut self, from_session: bool, size: u64) {
        if from_session {
            let files = self.session.files(self.id).expect("it is connected");
            files.offer(offer(size), self.now).expect("the viewer takes files");
        } else {
            self.end.offer(offer(size), self.now).expect("nothing else is offered");
        }
    }
}

#[test]
fn a_large_file_does_not_delay_input_in_either_direction() {
    let quiet = {
        let mut typist = Typist::new();
        typist.type_for(2);
        typist.type_for(5)
    };
    assert!((2 * DELAY..2 * DELAY + 10_000).contains(&quiet), "{quiet} us without other load");
    for (from_session, late_max) in [(true, 15_000), (false, 30_000)] {
        let mut typist = Typist::new();
        typist.type_for(2);
        typist.offer(from_session, LARGE);
        let slowest = typist.type_for(5);
        assert!(typist.ended.is_empty(), "it takes longer than that");
        assert!(slowest < quiet + late_max, "{slowest} us with a file, {quiet} us without");
        // What keystrokes leave of the path is used.
        let (begun, before) = (typist.now, typist.stored);
        while typist.now < begun + 5_000_000 {
            typist.tick();
        }
        let rate = (typist.stored - before) / 5;
        assert!(rate > BYTES_PER_SECOND * 7 / 10, "{rate} bytes a second from {from_session}");
    }
}

#[test]
fn a_file_arrives_in_either_direction() {
    for from_session in [true, false] {
        let mut typist = Typist::new();
        typist.offer(from_session, 3_000_000);
        for _ in 0..5_000 {
            typist.tick();
        }
        assert_eq!(typist.stored, 3_000_000);
        assert_eq!(typist.ended, [FileEnd::Done], "the side that sent it is told");
    }
}

#[test]
fn a_busy_display_loses_little_to_a_file() {
    let mut shown = Vec::new();
    for sends in [false, true] {
        let mut typist = Typist::new();
        let play = |typist: &mut Typist, milliseconds: u64| {
            for _ in 0..milliseconds {
                if typist.now.is_multiple_of(16_000) {
                    typist.draw(WINDOW + 1, SIZE.rect(), DrawHint::Image);
                }
                typist.tick();
            }
        };
        // The rate is known, and the path is full.
        play(&mut typist, 3_000);
        let before = typist.shown;
        if sends {
            typist.offer(true, LARGE);
        }
        play(&mut typist, 4_000);
        shown.push(typist.shown - before);
        assert_eq!(typist.stored > 0, sends, "{} bytes got through", typist.stored);
    }
    let lost = 1.0 - shown[1] as f64 / shown[0] as f64;
    assert!(shown[0] > 3 * BYTES_PER_SECOND, "the video fills the path: {}", shown[0]);
    assert!(lost < 0.05, "the video lost {:.1} % to the file", lost * 100.0);
}

/// The session's messages to a viewer about files, and the capabilities in its hello.
fn told(session: &mut Session, id: ViewerId) -> (Vec<FileMessage>, u32) {
    let (mut deframer, mut messages, mut caps) = (Deframer::new(1 << 24), Vec::new(), 0);
    for now in 0..10 {
        let mut out = Vec::new();
        session.poll_transmit(id, now, &mut Unpacked, &mut out);
        deframer.push(&out);
        while let Some(frame) = deframer.next().unwrap() {
            match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => caps = hello.caps,
                SessionMessage::File(message) => messages.push(message),
                _ => {}
            }
        }
    }
    (messages, caps)
}

fn offered(id: u32) -> ViewerMessage {
    let entries = offer(10).entries().to_vec();
    let purpose = FilePurpose::Sent;
    ViewerMessage::File(FileMessage::Offer(FileOffer {
        id,
        first: 0,
        count: 1,
        total: 10,
        purpose,
        entries,
    }))
}

#[test]
fn policy_and_capabilities_say_who_sends() {
    for (take, give) in [(false, false), (true, false), (false, true), (true, true)] {
        for caps in [0, ViewerCaps::FILES] {
            let mut session = session(FilesPolicy { take, give, ..FilesPolicy::default() });
            let id = session.add_viewer(&hello(caps), 0);
            let (messages, announced) = told(&mut session, id);
            assert_eq!((messages, announced & SessionCaps::FILES != 0), (Vec::new(), take));
            let offers = session.files(id).unwrap().offer(offer(10), 0);
            let may = give && caps != 0;
            assert_eq!(offers.is_ok(), may, "{offers:?}");
            assert!(may || offers == Err(OfferError::Policy));
            session.handle_message(id, &offered(1), 0).unwrap();
            let events: Vec<_> = std::iter::from_fn(|| session.poll_file_event(0)).collect();
            assert_eq!(events.len(), usize::from(take), "{events:?}");
            let refused = FileMessage::Answer { id: 1, answer: FileAnswer::Policy };
            let (messages, _) = told(&mut session, id);
            assert_eq!(messages.contains(&refused), !take);
        }
    }
}

#[test]
fn a_guest_neither_sends_nor_receives_files() {
    let mut session = session(FilesPolicy::default());
    let guest = session.add_guest(&hello(ViewerCaps::FILES), Rights::VIEW, 0);
    assert_eq!(session.files(guest).unwrap().offer(offer(10), 0), Err(OfferError::Policy));
    session.handle_message(guest, &offered(1), 0).unwrap();
    assert!(session.poll_file_event(0).is_none());
    let refused = FileMessage::Answer { id: 1, answer: FileAnswer::Policy };
    assert_eq!(told(&mut session, guest).0, [refused]);
    // With the right it may; without it again, what is in progress ends.
    session.set_rights(guest, Rights::ALL);
    session.files(guest).unwrap().offer(offer(10), 0).unwrap();
    session.handle_message(guest, &offered(2), 0).unwrap();
    assert!(matches!(session.poll_file_event(0), Some((_, FileEvent::Offered { id: 1, .. }))));
    told(&mut session, guest);
    session.set_rights(guest, Rights::VIEW);
    let why = FileEnd::Policy;
    let events: Vec<_> = std::iter::from_fn(|| session.poll_file_event(0)).collect();
    let ended = FileEvent::Ended { id: 1, why };
    assert_eq!(events, [(guest, ended), (guest, FileEvent::Stopped { id: 1, why })]);
    // Its own offer still waited behind the display.
    let end = FileMessage::End { id: 2, by_receiver: true, why };
    assert_eq!(told(&mut session, guest).0, [end]);
}

/// A document that a program prints.
fn printed(entries: usize) -> Result<Offer, OfferError> {
    let ticket = PrintTicket {
        title: "Report".to_owned(),
        copies: 2,
        sides: PrintSides::One,
        colour: true,
        media: String::new(),
    };
    let entries = (0..entries).map(|at| FileEntry {
        kind: FileKind::File,
        size: 10,
        modified_ms: 0,
        path: format!("{at}.pdf"),
    });
    Offer::new(FilePurpose::Printed(Box::new(ticket)), entries.collect())
}

#[test]
fn only_an_owners_viewer_that_prints_is_offered_what_is_printed() {
    let printing = Printing::Sends;
    let policy = FilesPolicy { printing, ..FilesPolicy::OFF };
    for (policy, caps, rights, prints) in [
        (policy, ViewerCaps::PRINTS, Rights::ALL, true),
        (policy, ViewerCaps::PRINTS, Rights::VIEW, false),
        (policy, ViewerCaps::FILES, Rights::ALL, false),
        (FilesPolicy::default(), ViewerCaps::PRINTS, Rights::ALL, false),
    ] {
        let mut session = session(policy);
        let id = session.add_guest(&hello(caps), rights, 0);
        assert_eq!(session.prints(id), prints);
        let (_, announced) = told(&mut session, id);
        assert_eq!(announced & SessionCaps::PRINTS != 0, prints);
        let offered = session.files(id).unwrap().offer(printed(1).unwrap(), 0);
        assert_eq!(offered.is_ok(), prints, "{offered:?}");
    }
    // Files are another thing, and what a viewer prints is not for a session.
    let mut session = session(policy);
    let id = session.add_viewer(&hello(ViewerCaps::PRINTS | ViewerCaps::FILES), 0);
    assert_eq!(session.files(id).unwrap().offer(offer(10), 0), Err(OfferError::Policy));
    let offer = printed(1).unwrap();
    let message = FileMessage::Offer(FileOffer {
        id: 1,
        first: 0,
        count: 1,
        total: 10,
        purpose: offer.purpose().clone(),
        entries: offer.entries().to_vec(),
    });
    session.handle_message(id, &ViewerMessage::File(message), 0).unwrap();
    let refused = FileMessage::Answer { id: 1, answer: FileAnswer::Policy };
    assert_eq!(told(&mut session, id).0, [refused]);
    assert_eq!(printed(2), Err(OfferError::Printed));
}

#[test]
fn a_transfer_without_progress_ends() {
    let mut session = session(FilesPolicy::default());
    let id = session.add_viewer(&hello(ViewerCaps::FILES), 0);
    told(&mut session, id);
    session.files(id).unwrap().offer(offer(10), 0).unwrap();
    told(&mut session, id);
    let due = session.poll_deadline(10).expect("an offer has a deadline");
    assert!(due <= 61_000_000, "{due}");
    assert!(session.poll_file_event(59_000_000).is_none());
    let why = FileEnd::Failed;
    assert_eq!(session.poll_file_event(61_000_000), Some((id, FileEvent::Ended { id: 1, why })));
}
