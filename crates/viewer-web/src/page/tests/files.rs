//! Files between a page and a session's end of the channel, also over a loss of the connection.

use thinc_files::{Endpoint, FileEvent, FilesPolicy, Offer, Printing, Start};
use thinc_protocol::file::{
    FileAnswer, FileEnd, FileEntry, FileKind, FileMessage, FileOffer, FilePurpose,
};
use thinc_protocol::limits::PRINT_BYTES_MAX;
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_protocol::session::SessionCaps;

use super::super::files::FileEventKind;
use super::*;

/// A page, and the session's end of its channel.
struct Pair {
    page: Page,
    end: Endpoint,
    /// Kinds and numbers of the page's events that were not expected yet.
    events: Vec<(FileEventKind, [f64; 5])>,
    received: Vec<u8>,
}

impl Pair {
    fn connected() -> Pair {
        let end = Endpoint::new(FilesPolicy::default());
        let mut pair = Pair { page: Page::new(), end, events: Vec::new(), received: Vec::new() };
        pair.page.take_files(true);
        pair.page.take_prints(true);
        pair.connect();
        pair
    }

    /// A new connection, whose other end knows of no transfer.
    fn connect(&mut self) {
        let printing = Printing::Sends;
        self.end = Endpoint::new(FilesPolicy { printing, ..FilesPolicy::default() });
        self.page.buffer(32);
        self.page.open(0, Size::default());
        let (caps, name) = (SessionCaps::FILES, String::new());
        let hello = SessionHello { version: VERSION, caps, name, message_bytes_max: 65536 };
        deliver(&mut self.page, &SessionMessage::Hello(hello)).unwrap();
    }

    /// Exchanges messages until nothing is left to say, or so often.
    fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
            frames.push(self.page.collect_output());
            while let Some(frame) = frames.next().unwrap() {
                if let ViewerMessage::File(message) = ViewerMessage::decode(&frame).unwrap() {
                    self.end.handle(&message, 0).unwrap();
                }
            }
            while let Some(message) =
                self.end.poll_control().or_else(|| self.end.poll_piece(usize::MAX, 0))
            {
                deliver(&mut self.page, &SessionMessage::File(message)).unwrap();
            }
            self.take_events();
        }
    }

    fn take_events(&mut self) {
        loop {
            let kind = self.page.next_file_event(0);
            let numbers = self.page.event()[..5].try_into().unwrap();
            match kind {
                FileEventKind::None => break,
                FileEventKind::Data => {
                    let [id, _, offset, ..]: [f64; 5] = numbers;
                    assert_eq!(offset as usize, self.received.len(), "nothing is missing");
                    let bytes = self.page.file_bytes().to_vec();
                    self.page.stored_files(id as u32, 1, bytes.len(), 0);
                    self.received.extend(bytes);
                }
                _ => {}
            }
            self.events.push((kind, numbers));
        }
    }

    /// The next event of this kind; those before it are dropped.
    fn event(&mut self, kind: FileEventKind) -> [f64; 5] {
        self.settle(4);
        let at = self.events.iter().position(|(found, _)| *found == kind);
        let at = at.unwrap_or_else(|| panic!("no {kind:?} in {:?}", self.events));
        self.events.drain(..=at).next_back().unwrap().1
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.page.buffer(bytes.len());
        self.page.buffer[..bytes.len()].copy_from_slice(bytes);
    }
}

fn offer(size: usize) -> Offer {
    let path = "notes.txt".to_owned();
    let entry = FileEntry { kind: FileKind::File, size: size as u64, modified_ms: 9, path };
    Offer::new(FilePurpose::Sent, vec![entry]).unwrap()
}

#[test]
fn what_a_page_lists_is_offered_and_read() {
    let mut pair = Pair::connected();
    assert!(pair.page.gives_files());
    let list = b"1\t0\t0\tphotos\n0\t6\t7\tphotos/a\tb.jpg\n";
    pair.fill(list);
    assert_eq!(pair.page.offer_files(list.len(), None, 0), 0, "no path has a tab");
    assert!(pair.page.text().contains("photos/a"), "{}", pair.page.text());
    let list = "1\t0\t0\tphotos\n0\t6\t7\tphotos/é.jpg\n";
    pair.fill(list.as_bytes());
    let id = pair.page.offer_files(list.len(), Some((3, 4)), 0);
    pair.settle(2);
    let Some(FileEvent::Offered { id: offered, offer }) = pair.end.poll_event() else {
        panic!("it is offered")
    };
    assert_eq!(offered, id);
    assert_eq!(offer.purpose(), &FilePurpose::Dropped { x: 3, y: 4 });
    let FileEntry { kind, size, modified_ms, path } = &offer.entries()[1];
    let expected = (FileKind::File, 6, 7, "photos/é.jpg");
    assert_eq!((*kind, *size, *modified_ms, path.as_str()), expected);
    pair.end.answer(id, Some(Start::default()), 0);
    assert_eq!(pair.event(FileEventKind::Answered)[1], 1.0, "yes");
    let [wanted, entry, offset, bytes, done] = pair.event(FileEventKind::Wanted);
    assert_eq!([wanted, entry, offset, bytes, done], [f64::from(id), 1.0, 0.0, 6.0, 0.0]);
    pair.fill(b"pixels");
    pair.page.supply_file(id, 1, 0, 6, 0);
    pair.settle(2);
    let data = FileEvent::Data { id, entry: 1, offset: 0, bytes: b"pixels".to_vec(), last: true };
    assert_eq!(pair.end.poll_event(), Some(data));
    pair.end.stored(id, 6);
    pair.end.finish(id);
    assert_eq!(pair.event(FileEventKind::Ended)[1], 0.0, "done");
}

#[test]
fn what_arrives_goes_on_over_another_connection() {
    let content: Vec<u8> = (0..900_000).map(|at| (at % 251) as u8).collect();
    let supply = |pair: &mut Pair| {
        for _ in 0..200 {
            while let Some(event) = pair.end.poll_event() {
                if let FileEvent::Wanted { id, entry, offset, bytes } = event {
                    let wanted = &content[offset as usize..(offset + bytes) as usize];
                    pair.end.supply(id, entry, offset, wanted, 0);
                }
            }
            pair.settle(1);
        }
    };
    let mut pair = Pair::connected();
    pair.end.offer(offer(content.len()), 0).unwrap();
    let [id, total, ..] = pair.event(FileEventKind::Offered);
    assert_eq!(total, content.len() as f64);
    let identity = offer(content.len()).identity();
    let digits: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(pair.page.text(), format!("{digits}\n0\t{}\t9\tnotes.txt", content.len()));
    assert!(!pair.page.accept_files(id as u32 + 1, Accepts::Begin, 0), "no such offer");
    assert!(pair.page.accept_files(id as u32, Accepts::Begin, 0));
    pair.settle(2);
    // Only the first part is read before the connection is lost.
    while let Some(event) = pair.end.poll_event() {
        if let FileEvent::Wanted { id, entry, offset, bytes } = event {
            pair.end.supply(id, entry, offset, &content[..bytes as usize], 0);
            break;
        }
    }
    pair.settle(40);
    let arrived = pair.received.len();
    assert!(arrived > 0 && arrived < content.len(), "{arrived}");
    pair.page.lost();
    // A connection on which nothing is offered takes nothing away.
    pair.connect();
    pair.connect();
    pair.end.offer(offer(content.len()), 0).unwrap();
    let [id, ..] = pair.event(FileEventKind::Offered);
    assert!(pair.page.accept_files(id as u32, Accepts::Continue, 0));
    supply(&mut pair);
    assert!(pair.received == content, "both parts are the file");
    pair.page.finish_files(id as u32, 0);
    // What was finished does not go on again.
    pair.connect();
    pair.end.offer(offer(content.len()), 0).unwrap();
    let [id, ..] = pair.event(FileEventKind::Offered);
    assert!(!pair.page.accept_files(id as u32, Accepts::Continue, 0));
}

fn printed(size: u64) -> Offer {
    let ticket = PrintTicket {
        title: "Quarterly report".to_owned(),
        copies: 2,
        sides: PrintSides::ShortEdge,
        colour: false,
        media: "iso_a4_210x297mm".to_owned(),
    };
    let path = "report.pdf".to_owned();
    let entry = FileEntry { kind: FileKind::File, size, modified_ms: 9, path };
    Offer::new(FilePurpose::Printed(Box::new(ticket)), vec![entry]).unwrap()
}

#[test]
fn a_printed_document_comes_with_what_its_program_wants() {
    let mut pair = Pair::connected();
    pair.end.offer(printed(4), 0).unwrap();
    let [id, total, ..] = pair.event(FileEventKind::Offered);
    assert_eq!(total, 4.0);
    let (first, entries) = pair.page.text().split_once('\n').unwrap();
    assert_eq!(entries, "0\t4\t9\treport.pdf");
    let (digits, wanted) = first.split_once('\t').unwrap();
    assert_eq!(digits.len(), 64);
    assert_eq!(wanted, "2\t2\t0\tQuarterly report");
    assert!(pair.page.accept_files(id as u32, Accepts::Begin, 0));
    pair.settle(2);
    loop {
        match pair.end.poll_event().expect("the content is wanted") {
            FileEvent::Wanted { id, entry, offset, .. } => {
                pair.end.supply(id, entry, offset, b"%PDF", 0);
                break;
            }
            FileEvent::Answered { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pair.event(FileEventKind::Data)[3], 1.0, "all of it");
    assert_eq!(pair.received, b"%PDF");
    // The person does not want it on paper.
    pair.page.stop_files(id as u32, 1, 0);
    pair.settle(2);
    let ended = FileEvent::Ended { id: id as u32, why: FileEnd::Cancelled };
    assert_eq!(pair.end.poll_event(), Some(ended));
}

#[test]
fn a_document_over_the_limit_is_refused_with_the_limit() {
    let mut pair = Pair::connected();
    // This implementation's sessions offer none: the bytes of another one.
    let message = offer_message(&printed(PRINT_BYTES_MAX + 1));
    deliver(&mut pair.page, &SessionMessage::File(message)).unwrap();
    let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
    frames.push(pair.page.collect_output());
    let mut answers = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        if let ViewerMessage::File(FileMessage::Answer { id: 9, answer }) =
            ViewerMessage::decode(&frame).unwrap()
        {
            answers.push(answer);
        }
    }
    assert_eq!(answers, [FileAnswer::TooLarge { limit: PRINT_BYTES_MAX }]);
    assert_eq!(pair.page.next_file_event(0), FileEventKind::None, "nobody is asked");
}

/// The whole offer as one message.
fn offer_message(offer: &Offer) -> FileMessage {
    FileMessage::Offer(FileOffer {
        id: 9,
        first: 0,
        count: 1,
        total: offer.total(),
        purpose: offer.purpose().clone(),
        entries: offer.entries().to_vec(),
    })
}

#[test]
fn a_page_announces_what_it_takes() {
    for (takes, prints) in [(false, false), (true, false), (false, true)] {
        let mut page = Page::new();
        page.take_files(takes);
        page.take_prints(prints);
        page.open(0, Size::default());
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        let hello = ViewerMessage::decode(&frames.next().unwrap().unwrap()).unwrap();
        let ViewerMessage::Hello(hello) = hello else { panic!("{hello:?} is no hello") };
        assert_eq!(hello.caps & ViewerCaps::FILES != 0, takes);
        assert_eq!(hello.caps & ViewerCaps::PRINTS != 0, prints);
        let (caps, name) = (SessionCaps::PRINTS, String::new());
        let hello = SessionHello { version: VERSION, caps, name, message_bytes_max: 65536 };
        deliver(&mut page, &SessionMessage::Hello(hello)).unwrap();
        assert_eq!(page.prints(), prints);
    }
}
