//! What a peer's messages about files may do to an end of the files channel: nothing but an error.
//! Beside the path. What is accepted was offered, in order and no more of it. Knows thinc-files'
//! public interface; the disk is a table of lengths.

use std::collections::HashMap;
use std::sync::Arc;

use thinc_files::{Endpoint, FileEvent, FilesPolicy, Offer, Start};
use thinc_protocol::file::{
    FileAnswer, FileEnd, FileEntry, FileKind, FileMessage, FileOffer, FilePurpose,
};
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_protocol::viewer::ViewerMessage;

use crate::parsers::each_frame;

/// Time between two messages: a second, so that deadlines pass.
const STEP: u64 = 1_000_000;
/// Length of the files that this side offers.
const OFFERED_BYTES: u64 = 3000;
/// Length of those that the peer of a seed sends.
const SENT_BYTES: u64 = 130;

/// What was accepted, and how many bytes of each entry have arrived.
type Received = HashMap<u32, (Arc<Offer>, HashMap<u32, u64>)>;

/// Messages of a peer, to an end that offers two files and accepts everything.
pub fn channel(input: &[u8]) {
    run(input);
}

/// How many bytes of the peer's files were stored.
fn run(input: &[u8]) -> u64 {
    let mut end = Endpoint::new(FilesPolicy::default());
    let mut received = Received::new();
    let (mut now, mut stored) = (0, 0);
    let mut broken = false;
    each_frame(input, VIEWER_MESSAGE_BYTES_MAX, |frame| {
        let Ok(ViewerMessage::File(message)) = ViewerMessage::decode(frame) else { return };
        if broken {
            return;
        }
        now += STEP;
        // Refused once eight are offered.
        let _ = end.offer(own_offer(), now);
        broken = end.handle(&message, now).is_err();
        end.handle_timeout(now);
        stored += serve(&mut end, &mut received, now);
        end.check_invariants();
    });
    stored
}

fn serve(end: &mut Endpoint, received: &mut Received, now: u64) -> u64 {
    let mut stored = 0;
    while let Some(event) = end.poll_event() {
        match event {
            FileEvent::Offered { id, offer } => {
                let sum: u64 = offer.entries().iter().map(|entry| entry.size).sum();
                assert_eq!(sum, offer.total(), "an offer's total is wrong");
                received.insert(id, (offer, HashMap::new()));
                end.answer(id, Some(Start::default()), now);
            }
            FileEvent::Data { id, entry, offset, bytes, last } => {
                let (offer, lengths) = received.get_mut(&id).expect("content was not accepted");
                let file = &offer.entries()[entry as usize];
                assert!(file.kind == FileKind::File, "content of a folder");
                let length = lengths.entry(entry).or_default();
                assert_eq!(*length, offset, "content is not in order");
                *length += bytes.len() as u64;
                assert!(*length <= file.size, "more content than was offered");
                assert!(!last || *length == file.size, "a file ends early");
                end.stored(id, bytes.len());
                stored += bytes.len() as u64;
            }
            FileEvent::Wanted { id, entry, offset, bytes } => {
                end.supply(id, entry, offset, &vec![7; bytes as usize], now);
            }
            FileEvent::Stopped { id, .. } => {
                received.remove(&id);
            }
            FileEvent::Answered { .. } | FileEvent::Ended { .. } => {}
        }
    }
    while end.poll_control().is_some() || end.poll_piece(usize::MAX, now).is_some() {}
    stored
}

fn entry(path: &str, size: u64) -> FileEntry {
    FileEntry { kind: FileKind::File, size, modified_ms: 1, path: path.to_owned() }
}

fn own_offer() -> Offer {
    let entries = vec![entry("a", OFFERED_BYTES), entry("b", 0)];
    Offer::new(FilePurpose::Sent, entries).expect("two files are an offer")
}

/// A peer that sends a folder, one that receives, one that cancels.
pub fn channel_seeds() -> Vec<Vec<u8>> {
    let sending = sending();
    assert_eq!(run(&sending), SENT_BYTES, "the seed must be received");
    vec![sending, receiving()]
}

fn encode(messages: &[FileMessage]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    bytes
}

/// What the sending side says of a transfer, recorded, so that its hashes are right.
pub(crate) fn sending() -> Vec<u8> {
    let mut entries =
        vec![entry("d", 0), entry("d/a", 40), entry("d/b", 0), entry("c", SENT_BYTES - 40)];
    entries[0].kind = FileKind::Folder;
    let purpose = FilePurpose::Dropped { x: 300, y: 5 };
    let offer = Offer::new(purpose, entries).expect("a folder and its files are an offer");
    let mut sender = Endpoint::new(FilesPolicy::default());
    let mut receiver = Endpoint::new(FilesPolicy::default());
    sender.offer(offer, 0).expect("nothing else is offered");
    let mut said = Vec::new();
    for _ in 0..20 {
        // Small pieces, so that a mutation hits each part.
        while let Some(message) = sender.poll_control().or_else(|| sender.poll_piece(100, 0)) {
            message.encode(&mut said);
            receiver.handle(&message, 0).expect("both keep to the protocol");
        }
        while let Some(event) = receiver.poll_event() {
            match event {
                FileEvent::Offered { id, .. } => receiver.answer(id, Some(Start::default()), 0),
                FileEvent::Data { id, bytes, .. } => receiver.stored(id, bytes.len()),
                _ => {}
            }
        }
        while let Some(message) = receiver.poll_control() {
            sender.handle(&message, 0).expect("both keep to the protocol");
        }
        while let Some(event) = sender.poll_event() {
            if let FileEvent::Wanted { id, entry, offset, bytes } = event {
                sender.supply(id, entry, offset, &vec![7; bytes as usize], 0);
            }
        }
    }
    said
}

/// What the receiving side says while the target offers its files.
fn receiving() -> Vec<u8> {
    let answer = |id, answer| FileMessage::Answer { id, answer };
    let end = |id, why| FileMessage::End { id, by_receiver: true, why };
    encode(&[
        // Nothing is offered before the first message.
        FileMessage::Taken { id: 9, bytes: 1 },
        answer(1, FileAnswer::Asking),
        answer(1, FileAnswer::Yes { entry: 0, offset: 1000 }),
        FileMessage::Taken { id: 1, bytes: 130 },
        FileMessage::Taken { id: 1, bytes: 1100 },
        FileMessage::Taken { id: 1, bytes: 2194 },
        end(1, FileEnd::Done),
        answer(2, FileAnswer::Space { free: 10 }),
        answer(3, FileAnswer::Yes { entry: 2, offset: 0 }),
        end(3, FileEnd::Cancelled),
        FileMessage::Offer(FileOffer {
            id: 1,
            first: 0,
            count: 2,
            total: 0,
            purpose: FilePurpose::Sent,
            entries: vec![entry("x", 0)],
        }),
        FileMessage::End { id: 1, by_receiver: false, why: FileEnd::Changed },
    ])
}
