//! Files between a page and a session's end of the channel, also over a loss of the connection.

use thinc_files::{Endpoint, FileEvent, FilesPolicy, Offer, Start};
use thinc_protocol::file::{FileEntry, FileKind, FilePurpose};
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
        pair.connect();
        pair
    }

    /// A new connection, whose other end knows of no transfer.
    fn connect(&mut self) {
        self.end = Endpoint::new(FilesPolicy::default());
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

#[test]
fn a_page_that_takes_no_files_does_not_announce_it() {
    for takes in [false, true] {
        let mut page = Page::new();
        page.take_files(takes);
        page.open(0, Size::default());
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        let hello = ViewerMessage::decode(&frames.next().unwrap().unwrap()).unwrap();
        let ViewerMessage::Hello(hello) = hello else { panic!("{hello:?} is no hello") };
        assert_eq!(hello.caps & ViewerCaps::FILES != 0, takes);
    }
}
