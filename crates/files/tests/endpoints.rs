//! Two endpoints over a link that is cut and made again, and one endpoint that receives arbitrary
//! messages: their invariants hold after every step, and what was stored is what was offered.
//! Beside the path. Operations in any order, from seeds that proptest shrinks. Knows the crate's
//! public interface.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use thinc_files::{Endpoint, EntryHash, FileEvent, FilesPolicy, Offer, OfferError, Start};
use thinc_protocol::file::{
    FileAnswer, FileEnd, FileEntry, FileKind, FileMessage, FileOffer, FilePurpose,
};
use thinc_protocol::limits::{FILE_DATA_BYTES_MAX, FILE_TRANSFERS_MAX};

/// Files that are offered together, as their owner has them.
#[derive(Debug)]
struct Source {
    offer: Offer,
    contents: Vec<Vec<u8>>,
}

impl Source {
    /// Folders are given no size; contents differ by `number`.
    fn new(entries: &[(&str, Option<usize>)], number: usize) -> Arc<Source> {
        let contents: Vec<Vec<u8>> = entries
            .iter()
            .map(|(path, size)| {
                let text = format!("{path} of {number}, ");
                text.bytes().cycle().take(size.unwrap_or(0)).collect()
            })
            .collect();
        let entries = entries.iter().zip(&contents).map(|((path, size), content)| FileEntry {
            kind: if size.is_some() { FileKind::File } else { FileKind::Folder },
            size: content.len() as u64,
            modified_ms: number as u64,
            path: (*path).to_owned(),
        });
        let offer = Offer::new(FilePurpose::Sent, entries.collect()).unwrap();
        Arc::new(Source { offer, contents })
    }
}

/// What a receiver has of an offer on its disk, which outlives connections.
#[derive(Debug, Default)]
struct Stored {
    complete: BTreeMap<u32, Vec<u8>>,
    part: Vec<u8>,
    finished: bool,
}

impl Stored {
    fn start(&self, offer: &Offer) -> Start {
        let files = (0..).zip(offer.entries()).filter(|(_, entry)| entry.kind == FileKind::File);
        let missing = files.map(|(at, _)| at).find(|at| !self.complete.contains_key(at));
        let Some(entry) = missing else {
            return Start { entry: offer.entries().len() as u32, ..Start::default() };
        };
        let mut hash = EntryHash::default();
        hash.update(&self.part);
        Start { entry, offset: self.part.len() as u64, hash }
    }
}

type Disk = HashMap<[u8; 32], Stored>;

/// One side: its end and its owner.
struct Party {
    end: Endpoint,
    disk: Disk,
    sources: HashMap<u32, Arc<Source>>,
    receives: HashMap<u32, Arc<Offer>>,
    /// Offers that wait for a decision.
    asked: Vec<u32>,
    finished: Vec<Arc<Offer>>,
    /// Offers of this side that have ended, with the reason.
    ended: Vec<(Arc<Source>, FileEnd)>,
    answered: Vec<FileAnswer>,
    says: VecDeque<FileMessage>,
    /// Positions at which transfers went on.
    resumed: Vec<(u32, u64)>,
}

impl Party {
    fn new(policy: FilesPolicy) -> Party {
        Party {
            end: Endpoint::new(policy),
            disk: Disk::new(),
            sources: HashMap::new(),
            receives: HashMap::new(),
            asked: Vec::new(),
            finished: Vec::new(),
            ended: Vec::new(),
            answered: Vec::new(),
            says: VecDeque::new(),
            resumed: Vec::new(),
        }
    }

    /// The connection is lost: only what is on the disk stays, and what this side still offers.
    fn cut(&mut self, policy: FilesPolicy) -> Vec<Arc<Source>> {
        self.end = Endpoint::new(policy);
        self.receives.clear();
        self.asked.clear();
        self.says.clear();
        self.sources.drain().map(|(_, source)| source).collect()
    }

    fn speak(&mut self, now: u64) {
        self.says.extend(std::iter::from_fn(|| self.end.poll_control()));
        self.says.extend(std::iter::from_fn(|| self.end.poll_piece(usize::MAX, now)));
        self.end.check_invariants();
    }

    fn accept(&mut self, id: u32, now: u64) {
        let Some(offer) = self.receives.get(&id).cloned() else { return };
        let stored = self.disk.entry(offer.identity()).or_default();
        let start = stored.start(&offer);
        self.resumed.push((start.entry, start.offset));
        let is_complete = start.entry as usize == offer.entries().len();
        self.end.answer(id, Some(start), now);
        if is_complete {
            self.finish(id);
        }
    }

    fn finish(&mut self, id: u32) {
        let offer = self.receives.remove(&id).expect("it is received");
        let stored = self.disk.get_mut(&offer.identity()).expect("it is stored");
        stored.finished = true;
        self.end.finish(id);
        self.finished.push(offer);
    }

    fn listen(&mut self, now: u64, accepts: bool) {
        while let Some(event) = self.end.poll_event() {
            match event {
                FileEvent::Offered { id, offer } => {
                    self.receives.insert(id, offer);
                    if accepts {
                        self.accept(id, now);
                    } else {
                        self.asked.push(id);
                    }
                }
                FileEvent::Data { id, entry, offset, bytes, last } => {
                    let offer = self.receives[&id].clone();
                    let stored = self.disk.get_mut(&offer.identity()).expect("it is stored");
                    assert_eq!(stored.part.len() as u64, offset, "chunks are in order");
                    stored.part.extend_from_slice(&bytes);
                    self.end.stored(id, bytes.len());
                    if last {
                        let content = std::mem::take(&mut stored.part);
                        assert!(stored.complete.insert(entry, content).is_none());
                        let start = stored.start(&offer);
                        if start.entry as usize == offer.entries().len() {
                            self.finish(id);
                        }
                    }
                }
                FileEvent::Stopped { id, .. } => {
                    self.receives.remove(&id);
                    self.asked.retain(|&asked| asked != id);
                }
                FileEvent::Answered { id, answer } => {
                    self.answered.push(answer);
                    if !matches!(answer, FileAnswer::Yes { .. } | FileAnswer::Asking) {
                        self.sources.remove(&id);
                    }
                }
                FileEvent::Wanted { id, entry, offset, bytes } => {
                    let source = &self.sources[&id];
                    let content = &source.contents[entry as usize];
                    let wanted = &content[offset as usize..(offset + bytes) as usize];
                    self.end.supply(id, entry, offset, wanted, now);
                }
                FileEvent::Ended { id, why } => {
                    let source = self.sources.remove(&id).expect("it was offered");
                    self.ended.push((source, why));
                }
            }
        }
    }
}

struct World {
    parties: [Party; 2],
    now: u64,
    sources: Vec<Arc<Source>>,
}

impl World {
    fn new() -> World {
        let parties = [Party::new(FilesPolicy::default()), Party::new(FilesPolicy::default())];
        World { parties, now: 0, sources: Vec::new() }
    }

    fn offer(&mut self, side: usize, source: Arc<Source>) -> Result<u32, OfferError> {
        let party = &mut self.parties[side];
        let id = party.end.offer(source.offer.clone(), self.now)?;
        party.sources.insert(id, source);
        Ok(id)
    }

    /// Delivers up to so many messages of this side; returns how many there were.
    fn deliver(&mut self, side: usize, messages: usize) -> usize {
        let count = messages.min(self.parties[side].says.len());
        let said: Vec<FileMessage> = self.parties[side].says.drain(..count).collect();
        for message in said {
            let to = &mut self.parties[1 - side].end;
            to.handle(&message, self.now).expect("both keep to the protocol");
            to.check_invariants();
        }
        count
    }

    fn live(&mut self, accepts: bool) {
        for party in &mut self.parties {
            party.listen(self.now, accepts);
            party.speak(self.now);
        }
    }

    /// Delivers everything until nothing is left to send; `messages` limits how many.
    fn settle(&mut self, messages: usize) -> usize {
        let mut delivered = 0;
        loop {
            self.live(true);
            let before = delivered;
            for side in 0..2 {
                delivered += self.deliver(side, 1.min(messages - delivered));
            }
            self.now += 100;
            if delivered == before {
                return delivered;
            }
        }
    }

    /// The connection is lost and made again; each side offers again what has not ended.
    fn cut(&mut self) {
        for side in 0..2 {
            let sources = self.parties[side].cut(FilesPolicy::default());
            for source in sources {
                self.offer(side, source).expect("a new connection has room");
            }
        }
    }

    fn check_stored(&self) {
        for party in &self.parties {
            for offer in &party.finished {
                let source = self.sources.iter().find(|source| source.offer == **offer);
                let contents = &source.expect("only what was offered is received").contents;
                let stored = &party.disk[&offer.identity()];
                for (entry, content) in &stored.complete {
                    assert!(*content == contents[*entry as usize], "a file is what was sent");
                }
            }
        }
    }
}

const TREE: &[(&str, Option<usize>)] = &[
    ("empty", Some(0)),
    ("d", None),
    ("d/a", Some(40_000)),
    ("d/e", None),
    ("d/e/b", Some(1)),
    ("c", Some(300_000)),
    ("last", Some(0)),
    ("z", None),
];

#[test]
fn a_tree_arrives_as_it_was_sent() {
    let mut world = World::new();
    let source = Source::new(TREE, 1);
    world.sources.push(source.clone());
    world.offer(0, source.clone()).unwrap();
    world.settle(usize::MAX);
    let [sender, receiver] = &world.parties;
    assert_eq!(sender.ended.len(), 1);
    assert_eq!(sender.ended[0].1, FileEnd::Done);
    assert_eq!(receiver.finished.len(), 1);
    assert_eq!(receiver.disk[&source.offer.identity()].complete.len(), 5, "every file is stored");
    world.check_stored();
}

/// Cuts the connection after each number of messages, and once more later.
#[test]
fn a_transfer_that_is_cut_at_any_stage_goes_on() {
    let source = Source::new(TREE, 1);
    let mut whole = World::new();
    whole.offer(0, source.clone()).unwrap();
    let messages = whole.settle(usize::MAX);
    assert!(messages > 50, "{messages} messages are too few stages");
    let mut went_on = 0;
    for stage in 0..=messages {
        let mut world = World::new();
        world.sources.push(source.clone());
        world.offer(0, source.clone()).unwrap();
        world.settle(stage);
        world.cut();
        world.settle(stage / 2);
        world.cut();
        world.settle(usize::MAX);
        let [sender, receiver] = &world.parties;
        assert_eq!(sender.ended.len(), 1, "cut after {stage} messages");
        assert_eq!(sender.ended[0].1, FileEnd::Done, "cut after {stage} messages");
        let stored = &receiver.disk[&source.offer.identity()];
        assert!(stored.finished && stored.complete.len() == 5, "cut after {stage} messages");
        world.check_stored();
        went_on += usize::from(receiver.resumed.iter().any(|&(_, offset)| offset > 0));
    }
    assert!(went_on > messages / 2, "{went_on} transfers of {messages} went on within a file");
}

#[test]
fn a_part_that_is_not_what_was_sent_is_detected() {
    let source = Source::new(&[("f", Some(50_000))], 1);
    let mut world = World::new();
    let receiver = &mut world.parties[1];
    let part = vec![b'x'; 10_000];
    let stored = Stored { part, ..Stored::default() };
    receiver.disk.insert(source.offer.identity(), stored);
    world.offer(0, source).unwrap();
    world.settle(usize::MAX);
    assert_eq!(world.parties[0].ended[0].1, FileEnd::Mismatch);
    assert!(world.parties[1].finished.is_empty());
}

#[test]
fn a_file_that_changes_while_it_is_read_ends_its_transfer() {
    for supplied in [&b"short"[..], &[b'x'; 200_001][..]] {
        let mut world = World::new();
        let source = Source::new(&[("f", Some(200_000))], 1);
        let id = world.offer(0, source).unwrap();
        world.parties[0].speak(0);
        world.deliver(0, 10);
        world.parties[1].listen(0, true);
        world.parties[1].speak(0);
        world.deliver(1, 10);
        let end = &mut world.parties[0].end;
        assert!(matches!(end.poll_event(), Some(FileEvent::Answered { .. })));
        let wanted = end.poll_event();
        assert_eq!(wanted, Some(FileEvent::Wanted { id, entry: 0, offset: 0, bytes: 200_000 }));
        end.supply(id, 0, 0, supplied, 0);
        assert_eq!(end.poll_event(), Some(FileEvent::Ended { id, why: FileEnd::Changed }));
        let told = FileMessage::End { id, by_receiver: false, why: FileEnd::Changed };
        assert_eq!(end.poll_control(), Some(told));
    }
}

#[test]
fn a_long_offer_is_sent_in_messages_that_share_the_path() {
    let names: Vec<String> = (0..9_000).map(|n| format!("picture number {n}.jpg")).collect();
    let entries: Vec<(&str, Option<usize>)> =
        names.iter().map(|name| (name.as_str(), Some(0))).collect();
    let source = Source::new(&entries, 1);
    let mut world = World::new();
    world.sources.push(source.clone());
    world.offer(0, source).unwrap();
    world.parties[0].speak(0);
    let first = world.parties[0].says.len();
    assert!(first < 10, "{first} messages are sent before one is taken");
    world.settle(usize::MAX);
    assert_eq!(world.parties[0].ended[0].1, FileEnd::Done);
    world.check_stored();
}

#[test]
fn a_ninth_offer_waits_for_its_owner_and_is_no_error() {
    let mut world = World::new();
    for number in 0..FILE_TRANSFERS_MAX {
        world.offer(0, Source::new(&[("f", Some(10))], number)).unwrap();
    }
    let ninth = world.offer(0, Source::new(&[("f", Some(10))], 9));
    assert_eq!(ninth, Err(OfferError::Busy(FILE_TRANSFERS_MAX)));
    // A side that offers more all the same is told.
    let mut end = Endpoint::new(FilesPolicy::default());
    let offer = |id| {
        let path = "f".to_owned();
        let entry = FileEntry { kind: FileKind::File, size: 0, modified_ms: 0, path };
        let (purpose, entries) = (FilePurpose::Sent, vec![entry]);
        FileMessage::Offer(FileOffer { id, first: 0, count: 1, total: 0, purpose, entries })
    };
    for id in 0..=FILE_TRANSFERS_MAX as u32 {
        end.handle(&offer(id), 0).unwrap();
    }
    let busy = FileMessage::Answer { id: FILE_TRANSFERS_MAX as u32, answer: FileAnswer::Busy };
    assert_eq!(end.poll_control(), Some(busy));
    assert!(end.handle(&offer(0), 0).is_err(), "a number in use is an error");
}

#[test]
fn a_side_that_takes_nothing_says_so() {
    let mut world = World::new();
    let limits = [
        (FilesPolicy { take: false, ..FilesPolicy::default() }, FileAnswer::Policy),
        (FilesPolicy { bytes_max: 9, ..FilesPolicy::default() }, FileAnswer::TooLarge { limit: 9 }),
    ];
    for (policy, answer) in limits {
        world.parties[1] = Party::new(policy);
        world.offer(0, Source::new(&[("f", Some(10))], 1)).unwrap();
        world.settle(usize::MAX);
        assert_eq!(world.parties[0].answered.pop(), Some(answer));
        assert!(world.parties[0].sources.is_empty() && world.parties[1].receives.is_empty());
    }
    let mut end = Endpoint::new(FilesPolicy { give: false, ..FilesPolicy::default() });
    let source = Source::new(&[("f", Some(10))], 1);
    assert_eq!(end.offer(source.offer.clone(), 0), Err(OfferError::Policy));
}

#[test]
fn a_policy_that_changes_ends_transfers_at_both_sides() {
    for side in 0..2 {
        let mut world = World::new();
        let source = Source::new(&[("f", Some(900_000))], 1);
        world.offer(0, source).unwrap();
        world.settle(40);
        assert_eq!(world.parties[1].receives.len(), 1, "it is in progress");
        world.parties[side].end.set_policy(FilesPolicy::OFF);
        world.settle(usize::MAX);
        assert_eq!(world.parties[0].ended[0].1, FileEnd::Policy);
        assert!(world.parties[1].receives.is_empty());
    }
}

#[test]
fn a_question_gives_a_person_time() {
    let mut world = World::new();
    world.offer(0, Source::new(&[("f", Some(10))], 1)).unwrap();
    for _ in 0..3 {
        world.live(false);
        world.deliver(0, 10);
    }
    world.live(false);
    let id = world.parties[1].asked[0];
    world.parties[1].end.ask(id, world.now);
    world.live(false);
    world.deliver(1, 10);
    world.live(false);
    assert_eq!(world.parties[0].answered, [FileAnswer::Asking]);
    world.now += 500_000_000;
    world.parties.iter_mut().for_each(|party| party.end.handle_timeout(world.now));
    world.parties[1].accept(id, world.now);
    world.settle(usize::MAX);
    assert_eq!(world.parties[0].ended[0].1, FileEnd::Done);
    // Without one, an offer that nobody answers ends sooner.
    world.offer(0, Source::new(&[("f", Some(10))], 2)).unwrap();
    world.live(false);
    world.now += 61_000_000;
    world.parties[0].end.handle_timeout(world.now);
    world.live(false);
    assert_eq!(world.parties[0].ended[1].1, FileEnd::Failed);
    assert_eq!(world.parties[0].end.poll_deadline(), None);
}

/// xpra's holes of 2026-07 (#4952): what was accepted is what is received, and nothing else.
#[test]
fn content_that_was_not_accepted_ends_the_connection() {
    let offered = |size: u64, count: u32| {
        let path = "f".to_owned();
        let entry = FileEntry { kind: FileKind::File, size, modified_ms: 0, path };
        let (purpose, entries) = (FilePurpose::Sent, vec![entry]);
        FileMessage::Offer(FileOffer { id: 1, first: 0, count, total: size, purpose, entries })
    };
    let data = |entry, offset, last: bool, bytes: usize| FileMessage::Data {
        id: 1,
        entry,
        offset,
        hash: last.then_some([0; 32]),
        bytes: vec![0; bytes],
    };
    let accepted = || {
        let mut end = Endpoint::new(FilesPolicy::default());
        end.handle(&offered(100, 1), 0).unwrap();
        assert!(end.handle(&data(0, 0, false, 10), 0).is_err(), "nobody has accepted it");
        assert!(matches!(end.poll_event(), Some(FileEvent::Offered { id: 1, .. })));
        end.answer(1, Some(Start::default()), 0);
        end
    };
    for wrong in [
        data(0, 0, false, 101),
        data(0, 0, true, 101),
        data(0, 0, true, 99),
        data(0, 0, false, 100),
        data(0, 0, false, 0),
        data(0, 1, false, 10),
        data(1, 0, false, 10),
        offered(100, 1),
        FileMessage::End { id: 1, by_receiver: false, why: FileEnd::Done },
    ] {
        assert!(accepted().handle(&wrong, 0).is_err(), "{wrong:?}");
    }
    let mut end = accepted();
    end.handle(&data(0, 0, false, 60), 0).unwrap();
    assert!(end.handle(&data(0, 50, false, 10), 0).is_err(), "nothing is written again");
    // A wrong hash is a file that was damaged, not an error of the protocol.
    end.handle(&data(0, 60, true, 40), 0).unwrap();
    let why = FileEnd::Mismatch;
    assert_eq!(end.poll_event(), Some(FileEvent::Stopped { id: 1, why }));
    // An offer whose sizes do not add up, or that its second message does not continue.
    let mut end = Endpoint::new(FilesPolicy::default());
    let FileMessage::Offer(lies) = offered(100, 1) else { unreachable!() };
    let lies = FileMessage::Offer(FileOffer { total: 99, ..lies });
    assert!(end.handle(&lies, 0).is_err(), "the total is wrong");
    let mut end = Endpoint::new(FilesPolicy::default());
    end.handle(&offered(0, 2), 0).unwrap();
    let FileMessage::Offer(next) = offered(0, 2) else { unreachable!() };
    let twice = FileMessage::Offer(FileOffer { first: 1, ..next.clone() });
    assert!(end.handle(&twice, 0).is_err(), "a name occurs twice");
    let mut end = Endpoint::new(FilesPolicy::default());
    end.handle(&offered(0, 3), 0).unwrap();
    let skips = FileMessage::Offer(FileOffer { first: 2, count: 3, ..next });
    assert!(end.handle(&skips, 0).is_err(), "an entry is missing");
}

/// A disk answers late.
#[test]
fn a_number_that_is_used_again_names_another_transfer() {
    let offered = |name: &str| {
        let path = name.to_owned();
        let entry = FileEntry { kind: FileKind::File, size: 100, modified_ms: 0, path };
        let (purpose, entries) = (FilePurpose::Sent, vec![entry]);
        FileMessage::Offer(FileOffer { id: 7, first: 0, count: 1, total: 100, purpose, entries })
    };
    let mut end = Endpoint::new(FilesPolicy::default());
    let accept = |end: &mut Endpoint, name| {
        end.handle(&offered(name), 0).unwrap();
        let Some(FileEvent::Offered { id, .. }) = end.poll_event() else { panic!("offered") };
        end.answer(id, Some(Start::default()), 0);
        id
    };
    let first = accept(&mut end, "first");
    let bytes = vec![1; 60];
    let data = FileMessage::Data { id: 7, entry: 0, offset: 0, hash: None, bytes };
    end.handle(&data, 0).unwrap();
    let why = FileEnd::Cancelled;
    end.handle(&FileMessage::End { id: 7, by_receiver: false, why }, 0).unwrap();
    assert_eq!(end.poll_event(), Some(FileEvent::Stopped { id: first, why }));
    let second = accept(&mut end, "second");
    assert_ne!(first, second);
    end.stored(first, 60);
    end.finish(first);
    end.refuse(first, FileAnswer::No);
    end.stop(first, FileEnd::Failed);
    assert_eq!(end.receiving(first), None);
    assert_eq!(end.receiving(second).map(|progress| progress.done), Some(0));
    end.check_invariants();
    let said: Vec<FileMessage> = std::iter::from_fn(|| end.poll_control()).collect();
    assert!(!said.iter().any(|message| matches!(message, FileMessage::End { .. })), "{said:?}");
}

/// A read that an earlier connection wanted is answered after the same files were offered again.
#[test]
fn bytes_from_elsewhere_in_a_file_do_not_end_its_transfer() {
    let mut world = World::new();
    let content = Source::new(&[("f", Some(300_000))], 1);
    let id = world.offer(0, content.clone()).unwrap();
    world.parties[0].speak(0);
    world.deliver(0, 10);
    world.parties[1].listen(0, true);
    world.parties[1].speak(0);
    world.deliver(1, 10);
    let end = &mut world.parties[0].end;
    let wanted = std::iter::from_fn(|| end.poll_event()).last();
    assert!(matches!(wanted, Some(FileEvent::Wanted { offset: 0, .. })), "{wanted:?}");
    end.supply(id, 0, 262_144, &content.contents[0][262_144..], 0);
    assert_eq!(end.poll_event(), None, "it goes on waiting");
    end.supply(id, 0, 0, &content.contents[0][..262_144], 0);
    assert!(matches!(end.poll_event(), Some(FileEvent::Wanted { offset: 262_144, .. })));
}

#[test]
fn content_that_is_not_taken_is_limited() {
    let mut end = Endpoint::new(FilesPolicy::default());
    let (size, path) = (1 << 30, "f".to_owned());
    let entry = FileEntry { kind: FileKind::File, size, modified_ms: 0, path };
    let (purpose, entries) = (FilePurpose::Sent, vec![entry]);
    let offer = FileOffer { id: 1, first: 0, count: 1, total: size, purpose, entries };
    end.handle(&FileMessage::Offer(offer), 0).unwrap();
    end.answer(1, Some(Start::default()), 0);
    let bytes = FILE_DATA_BYTES_MAX;
    let stopped = (0..1000).position(|chunk| {
        let data = FileMessage::Data {
            id: 1,
            entry: 0,
            offset: chunk * bytes as u64,
            hash: None,
            bytes: vec![0; bytes],
        };
        end.handle(&data, 0).is_err()
    });
    assert!(stopped.is_some_and(|chunks| (200..=256).contains(&chunks)), "{stopped:?}");
}

#[derive(Clone, Debug)]
enum Op {
    Offer { side: usize, sizes: Vec<usize> },
    Accept { side: usize },
    Refuse { side: usize },
    Withdraw { side: usize },
    Stop { side: usize },
    Deliver { side: usize, messages: usize },
    Cut,
    Wait { us: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let side = || 0..2usize;
    let sizes = prop::collection::vec(prop_oneof![Just(0), 0..9_000usize, 0..90_000usize], 1..6);
    prop_oneof![
        3 => (side(), sizes).prop_map(|(side, sizes)| Op::Offer { side, sizes }),
        4 => side().prop_map(|side| Op::Accept { side }),
        1 => side().prop_map(|side| Op::Refuse { side }),
        1 => side().prop_map(|side| Op::Withdraw { side }),
        1 => side().prop_map(|side| Op::Stop { side }),
        12 => (side(), 1..12usize).prop_map(|(side, messages)| Op::Deliver { side, messages }),
        1 => Just(Op::Cut),
        2 => (1..100_000u64).prop_map(|us| Op::Wait { us }),
    ]
}

impl World {
    fn step(&mut self, op: &Op) {
        match op {
            Op::Offer { side, sizes } => {
                let names: Vec<String> = (0..sizes.len()).map(|n| format!("file {n}")).collect();
                let entries: Vec<(&str, Option<usize>)> = names
                    .iter()
                    .zip(sizes)
                    .map(|(name, &size)| (name.as_str(), Some(size)))
                    .collect();
                let source = Source::new(&entries, self.sources.len());
                let room = self.parties[*side].sources.len() < FILE_TRANSFERS_MAX;
                let offered = self.offer(*side, source.clone());
                assert_eq!(offered.is_ok(), room, "eight transfers are offered");
                self.sources.push(source);
            }
            Op::Accept { side } => {
                if let Some(id) = self.parties[*side].asked.pop() {
                    self.parties[*side].accept(id, self.now);
                }
            }
            Op::Refuse { side } => {
                let party = &mut self.parties[*side];
                if let Some(id) = party.asked.pop() {
                    party.receives.remove(&id);
                    party.end.answer(id, None, self.now);
                }
            }
            Op::Withdraw { side } => {
                let party = &mut self.parties[*side];
                if let Some(&id) = party.sources.keys().min() {
                    party.sources.remove(&id);
                    party.end.withdraw(id, FileEnd::Cancelled);
                }
            }
            Op::Stop { side } => {
                let party = &mut self.parties[*side];
                if let Some(&id) = party.receives.keys().min() {
                    party.receives.remove(&id);
                    party.asked.retain(|&asked| asked != id);
                    party.end.stop(id, FileEnd::Cancelled);
                }
            }
            Op::Deliver { side, messages } => {
                self.deliver(*side, *messages);
            }
            Op::Cut => self.cut(),
            Op::Wait { us } => self.now += us,
        }
        self.live(false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn what_is_stored_was_offered_whatever_happens(ops in prop::collection::vec(op(), 1..150)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
            world.check_stored();
        }
        // In the end everything that was not refused or cancelled arrives.
        for side in 0..2 {
            while let Some(id) = world.parties[side].asked.pop() {
                world.parties[side].accept(id, world.now);
            }
        }
        world.settle(usize::MAX);
        world.check_stored();
        for party in &world.parties {
            prop_assert!(party.sources.is_empty(), "every transfer has ended");
            prop_assert!(party.receives.is_empty(), "at both sides");
            prop_assert_eq!(party.end.poll_deadline(), None);
            let whys = party.ended.iter().map(|(_, why)| why);
            for why in whys {
                prop_assert!(matches!(why, FileEnd::Done | FileEnd::Cancelled), "{why:?}");
            }
        }
    }

    #[test]
    fn an_endpoint_with_arbitrary_messages_keeps_its_bounds(
        messages in prop::collection::vec((message(), any::<bool>(), 0..700_000_000u64), 1..200),
    ) {
        let mut end = Endpoint::new(FilesPolicy { bytes_max: 100_000, ..FilesPolicy::default() });
        let source = Source::new(&[("f", Some(30_000))], 1);
        let mut now = 0;
        for (message, decides, us) in messages {
            now += us / 100;
            // It may be busy.
            let _ = end.offer(source.offer.clone(), now);
            if end.handle(&message, now).is_err() {
                return Ok(());
            }
            end.handle_timeout(now);
            while let Some(event) = end.poll_event() {
                match event {
                    FileEvent::Offered { id, .. } if decides => {
                        end.answer(id, Some(Start::default()), now);
                    }
                    FileEvent::Data { id, bytes, .. } if decides => end.stored(id, bytes.len()),
                    FileEvent::Wanted { id, entry, offset, bytes } => {
                        let content = &source.contents[entry as usize];
                        let wanted = &content[offset as usize..][..bytes as usize];
                        end.supply(id, entry, offset, wanted, now);
                    }
                    _ => {}
                }
            }
            if decides {
                while end.poll_control().is_some() {}
            }
            while end.poll_piece(FILE_DATA_BYTES_MAX, now).is_some() {}
            end.check_invariants();
        }
        let waiting = std::iter::from_fn(|| end.poll_control()).count();
        prop_assert!(waiting <= 500, "{waiting} answers wait");
    }
}

/// Any message, with small numbers so that they collide.
fn message() -> impl Strategy<Value = FileMessage> {
    let id = || 0..4u32;
    let answer = prop_oneof![
        Just(FileAnswer::No),
        (0..3u32, 0..40_000u64).prop_map(|(entry, offset)| FileAnswer::Yes { entry, offset }),
        Just(FileAnswer::Asking),
        Just(FileAnswer::Busy),
    ];
    let entry = (0..3usize, 0..3_000u64).prop_map(|(name, size)| FileEntry {
        kind: FileKind::File,
        size,
        modified_ms: 0,
        path: format!("f{name}"),
    });
    let offer = (id(), 0..2u32, 1..3u32, prop::collection::vec(entry, 1..3)).prop_map(
        |(id, first, count, entries)| {
            let total = entries.iter().map(|entry| entry.size).sum();
            let purpose = FilePurpose::Sent;
            FileMessage::Offer(FileOffer { id, first, count, total, purpose, entries })
        },
    );
    let data = (id(), 0..2u32, 0..3_000u64, any::<bool>(), 0..3_000usize).prop_map(
        |(id, entry, offset, last, bytes)| FileMessage::Data {
            id,
            entry,
            offset,
            hash: last.then_some([0; 32]),
            bytes: vec![b'x'; bytes],
        },
    );
    let why = prop::sample::select(FileEnd::ALL.to_vec());
    prop_oneof![
        4 => offer,
        3 => (id(), answer).prop_map(|(id, answer)| FileMessage::Answer { id, answer }),
        4 => data,
        2 => (id(), 0..40_000u64).prop_map(|(id, bytes)| FileMessage::Taken { id, bytes }),
        2 => (id(), any::<bool>(), why)
            .prop_map(|(id, by_receiver, why)| FileMessage::End { id, by_receiver, why }),
    ]
}
