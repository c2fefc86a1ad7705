//! Two endpoints over a link with any delay, and one endpoint that receives arbitrary messages:
//! their invariants hold after every step. Operations of users and applications in any order, from
//! seeds that proptest shrinks. Knows the crate's public interface.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use thinc_clipboard::{ClipEvent, ClipboardPolicy, Endpoint, Side};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::file::{FileEntry, FileKind};
use thinc_protocol::file_bundle;
use thinc_protocol::limits::{CLIP_DATA_BYTES_MAX, CLIP_TRANSFERS_MAX};

/// Small, so that contents are often too long.
const LIMIT: u64 = 200_000;
const POLICY: ClipboardPolicy = ClipboardPolicy {
    take: true,
    give: true,
    take_files: true,
    give_files: true,
    bytes_max: LIMIT,
};

/// One side, and its owner's state.
struct Party {
    end: Endpoint,
    offer: [ClipFormats; 2],
    /// Requests without an answer.
    asked: Vec<u32>,
    /// Requests of the other side that are not answered.
    wanted: Vec<(u32, ClipFormat)>,
    /// Answered requests whose transfer has not ended.
    provided: HashMap<u32, Arc<Vec<u8>>>,
    says: VecDeque<ClipMessage>,
}

impl Party {
    fn new(side: Side) -> Party {
        let mut end = Endpoint::new(side, POLICY);
        end.set_offers_wanted(true);
        let (asked, wanted, provided) = (Vec::new(), Vec::new(), HashMap::new());
        Party { end, offer: [ClipFormats::NONE; 2], asked, wanted, provided, says: VecDeque::new() }
    }

    fn speak(&mut self, now: u64) {
        self.says.extend(std::iter::from_fn(|| self.end.poll_control()));
        self.says.extend(std::iter::from_fn(|| self.end.poll_piece(CLIP_DATA_BYTES_MAX, now)));
        self.end.check_invariants();
    }

    fn listen(&mut self, contents: &mut Vec<Vec<u8>>) {
        while let Some(event) = self.end.poll_event() {
            match event {
                ClipEvent::Offered { selection, formats } => {
                    assert_eq!(self.end.offered(selection), formats);
                    if !formats.is_empty() {
                        self.offer[selection as usize] = ClipFormats::NONE;
                    }
                }
                ClipEvent::Wanted { id, format, .. } => self.wanted.push((id, format)),
                ClipEvent::Received { id, content } => {
                    let at = self
                        .asked
                        .iter()
                        .position(|&asked| asked == id)
                        .expect("a content answers one request");
                    self.asked.swap_remove(at);
                    contents.push(content);
                }
                ClipEvent::Ended { id, .. } => {
                    self.asked.retain(|&asked| asked != id);
                    self.wanted.retain(|&(wanted, _)| wanted != id);
                    self.provided.remove(&id);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Offer {
        side: usize,
        selection: Selection,
        formats: ClipFormats,
    },
    Request {
        side: usize,
        selection: Selection,
        format: ClipFormat,
    },
    Cancel {
        side: usize,
    },
    Provide {
        side: usize,
        bytes: usize,
    },
    Refuse {
        side: usize,
    },
    /// This many messages of this side arrive.
    Deliver {
        side: usize,
        messages: usize,
    },
    Wait {
        us: u64,
    },
}

fn selection() -> impl Strategy<Value = Selection> {
    prop::sample::select(Selection::ALL.to_vec())
}

fn format() -> impl Strategy<Value = ClipFormat> {
    prop::sample::select(ClipFormat::ALL.to_vec())
}

fn formats() -> impl Strategy<Value = ClipFormats> {
    prop::collection::vec(format(), 0..3).prop_map(|formats| formats.into_iter().collect())
}

fn op() -> impl Strategy<Value = Op> {
    let side = || 0..2usize;
    prop_oneof![
        3 => (side(), selection(), formats())
            .prop_map(|(side, selection, formats)| Op::Offer { side, selection, formats }),
        4 => (side(), selection(), format())
            .prop_map(|(side, selection, format)| Op::Request { side, selection, format }),
        1 => side().prop_map(|side| Op::Cancel { side }),
        3 => (side(), 0..300_000usize).prop_map(|(side, bytes)| Op::Provide { side, bytes }),
        1 => side().prop_map(|side| Op::Refuse { side }),
        8 => (side(), 1..8usize).prop_map(|(side, messages)| Op::Deliver { side, messages }),
        2 => (1..100_000u64).prop_map(|us| Op::Wait { us }),
        1 => Just(Op::Wait { us: 31_000_000 }),
    ]
}

/// A valid content of this format, unique within the run.
fn content(format: ClipFormat, bytes: usize, number: usize) -> Vec<u8> {
    if format == ClipFormat::Files {
        let path = format!("file {number}");
        let size = bytes as u64;
        let entry = FileEntry { kind: FileKind::File, size, modified_ms: 0, path };
        let mut content = Vec::new();
        file_bundle::encode_head(&mut content, &[entry]);
        content.resize(content.len() + bytes, number as u8);
        return content;
    }
    let head = if format == ClipFormat::Png { "\u{89}PNG\r\n\u{1a}\n" } else { "" };
    let mut content: Vec<u8> = head.chars().map(|byte| byte as u8).collect();
    content.extend(format!("content {number} ").bytes().cycle().take(bytes));
    content
}

struct World {
    parties: [Party; 2],
    now: u64,
    made: Vec<Arc<Vec<u8>>>,
    received: Vec<Vec<u8>>,
}

impl World {
    fn new() -> World {
        let parties = [Party::new(Side::Session), Party::new(Side::Viewer)];
        World { parties, now: 0, made: Vec::new(), received: Vec::new() }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Offer { side, selection, formats } => {
                let party = &mut self.parties[side];
                party.offer[selection as usize] = formats;
                party.end.offer(selection, formats);
            }
            Op::Request { side, selection, format } => {
                let party = &mut self.parties[side];
                let there = party.end.offered(selection).has(format)
                    && party.asked.len() < CLIP_TRANSFERS_MAX;
                let id = party.end.request(selection, format, self.now);
                assert_eq!(id.is_some(), there, "an offer can be requested, eight times");
                party.asked.extend(id);
            }
            Op::Cancel { side } => {
                let party = &mut self.parties[side];
                if let Some(id) = party.asked.pop() {
                    party.end.cancel(id);
                }
            }
            Op::Provide { side, bytes } => {
                let party = &mut self.parties[side];
                if let Some((id, format)) = party.wanted.pop() {
                    let content = Arc::new(content(format, bytes, self.made.len()));
                    self.made.push(content.clone());
                    party.provided.insert(id, content.clone());
                    party.end.provide(id, Ok(content), self.now);
                }
            }
            Op::Refuse { side } => {
                let party = &mut self.parties[side];
                if let Some((id, _)) = party.wanted.pop() {
                    party.end.provide(id, Err(ClipEnd::Unavailable), self.now);
                }
            }
            Op::Deliver { side, messages } => self.deliver(side, messages),
            Op::Wait { us } => {
                self.now += us;
                for party in &mut self.parties {
                    party.end.handle_timeout(self.now);
                    assert!(
                        party.end.poll_deadline().is_none_or(|at| at > self.now),
                        "transfers past their deadline have ended"
                    );
                }
            }
        }
        for party in &mut self.parties {
            party.speak(self.now);
            party.listen(&mut self.received);
            party.end.check_invariants();
        }
    }

    fn deliver(&mut self, side: usize, messages: usize) {
        for _ in 0..messages {
            let Some(message) = self.parties[side].says.pop_front() else { break };
            self.parties[1 - side]
                .end
                .handle(&message, self.now)
                .expect("both keep to the protocol");
        }
    }

    /// Delivers all messages and answers all requests, until nothing is left to send.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            for side in 0..2 {
                self.step(&Op::Deliver { side, messages: 100 });
                self.step(&Op::Provide { side, bytes: 50_000 });
            }
            self.now += 100;
            if self.parties.iter().all(|party| party.says.is_empty() && party.wanted.is_empty()) {
                return;
            }
        }
        panic!("it never settles");
    }

    fn check_rest(&self) {
        let [session, viewer] = &self.parties;
        assert!(
            session.asked.is_empty() && viewer.asked.is_empty(),
            "every request was answered or has ended"
        );
        assert!(
            session.end.poll_deadline().is_none() && viewer.end.poll_deadline().is_none(),
            "no transfer is active"
        );
        for selection in Selection::ALL {
            let (at_viewer, at_session) =
                (viewer.end.offered(selection), session.end.offered(selection));
            assert!(
                at_viewer.is_empty() || at_session.is_empty(),
                "both agree on who owns a selection"
            );
            let (mine, yours) =
                (session.offer[selection as usize], viewer.offer[selection as usize]);
            assert!(
                at_viewer.is_empty() || at_viewer == mine,
                "the viewer is offered what the session has"
            );
            assert!(
                at_session.is_empty() || at_session == yours,
                "the session is offered what the viewer has"
            );
        }
        for content in &self.received {
            assert!(
                self.made.iter().any(|made| **made == *content),
                "received contents equal provided ones"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn two_endpoints_agree_whatever_messages_cross(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
        }
        world.settle();
        world.check_rest();
        // It still works: the side that copied last owns the selection.
        for side in [0, 1, 0] {
            let formats = ClipFormats::NONE.with(ClipFormat::Text);
            world.step(&Op::Offer { side, selection: Selection::Clipboard, formats });
            world.settle();
            let received = world.received.len();
            let (selection, format) = (Selection::Clipboard, ClipFormat::Text);
            world.step(&Op::Request { side: 1 - side, selection, format });
            world.settle();
            prop_assert_eq!(world.received.len(), received + 1);
            world.check_rest();
        }
    }

    #[test]
    fn an_endpoint_with_arbitrary_messages_keeps_its_bounds(
        side in prop::sample::select(vec![Side::Session, Side::Viewer]),
        messages in prop::collection::vec((message(), any::<bool>(), 0..40_000_000u64), 1..200),
    ) {
        let mut end = Endpoint::new(side, POLICY);
        end.set_offers_wanted(true);
        let (mut now, mut answers) = (0, 0);
        for (message, reads, us) in messages {
            now += us / 100;
            end.offer(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Text));
            for format in ClipFormat::ALL {
                end.request(Selection::Primary, format, now);
            }
            if end.handle(&message, now).is_err() {
                return Ok(());
            }
            end.handle_timeout(now);
            while let Some(event) = end.poll_event() {
                if let ClipEvent::Wanted { id, format, .. } = event {
                    end.provide(id, Ok(Arc::new(content(format, 30_000, 0))), now);
                }
            }
            if reads {
                while end.poll_control().is_some() {}
                answers = 0;
            } else {
                answers += 1;
            }
            while end.poll_piece(CLIP_DATA_BYTES_MAX, now).is_some() {}
            end.check_invariants();
        }
        // If the other side does not read, the queue is bounded; polled here so that the count is
        // visible.
        let waiting = std::iter::from_fn(|| end.poll_control()).count();
        prop_assert!(waiting <= 200 && answers <= 200);
    }
}

/// Any message, with small numbers so that they collide.
fn message() -> impl Strategy<Value = ClipMessage> {
    let id = || 0..6u32;
    let serial = || 0..250u32;
    prop_oneof![
        (selection(), serial(), serial(), formats()).prop_map(
            |(selection, serial, seen, formats)| ClipMessage::Offer {
                selection,
                serial,
                seen,
                formats
            }
        ),
        (id(), selection(), serial(), format()).prop_map(|(id, selection, serial, format)| {
            ClipMessage::Request { id, selection, serial, format }
        }),
        (id(), any::<bool>(), 0..CLIP_DATA_BYTES_MAX)
            .prop_map(|(id, last, bytes)| ClipMessage::Data { id, last, bytes: vec![b'x'; bytes] }),
        (id(), 0..40_000u64).prop_map(|(id, bytes)| ClipMessage::Received { id, bytes }),
        (id(), any::<bool>()).prop_map(|(id, by_requester)| ClipMessage::End {
            id,
            by_requester,
            why: ClipEnd::Cancelled
        }),
    ]
}

#[test]
fn a_content_over_the_limit_ends_on_both_sides() {
    let mut parties = [
        Endpoint::new(Side::Session, ClipboardPolicy { bytes_max: 50_000, ..POLICY }),
        Endpoint::new(Side::Viewer, POLICY),
    ];
    parties.iter_mut().for_each(|end| end.set_offers_wanted(true));
    let text = ClipFormats::NONE.with(ClipFormat::Text);
    let exchange = |parties: &mut [Endpoint; 2], now| {
        for _ in 0..100 {
            for side in 0..2 {
                while let Some(message) =
                    parties[side].poll_control().or_else(|| parties[side].poll_piece(9_000, now))
                {
                    parties[1 - side].handle(&message, now).unwrap();
                }
            }
        }
    };
    parties[1].offer(Selection::Primary, text);
    exchange(&mut parties, 0);
    let asked = parties[0].request(Selection::Primary, ClipFormat::Text, 0).unwrap();
    exchange(&mut parties, 0);
    let Some(ClipEvent::Wanted { id, .. }) = parties[1].poll_event() else {
        panic!("it was asked for")
    };
    parties[1].provide(id, Ok(Arc::new(vec![b'x'; 60_000])), 0);
    exchange(&mut parties, 1);
    let why = ClipEnd::TooLarge { bytes: 0, limit: 50_000 };
    while let Some(event) = parties[0].poll_event() {
        assert!(
            matches!(event, ClipEvent::Offered { .. })
                || event == ClipEvent::Ended { id: asked, why },
            "{event:?}"
        );
    }
    assert_eq!(
        parties[1].poll_event(),
        Some(ClipEvent::Ended { id, why }),
        "the providing side is told as well"
    );
    // A content over the provider's limit is not started.
    let asked = parties[0].request(Selection::Primary, ClipFormat::Text, 2).unwrap();
    exchange(&mut parties, 2);
    let Some(ClipEvent::Wanted { id, .. }) = parties[1].poll_event() else {
        panic!("it was asked for")
    };
    parties[1].provide(id, Ok(Arc::new(vec![b'x'; 300_000])), 2);
    let why = ClipEnd::TooLarge { bytes: 300_000, limit: LIMIT };
    assert_eq!(parties[1].poll_event(), Some(ClipEvent::Ended { id, why }));
    exchange(&mut parties, 2);
    assert_eq!(parties[0].poll_event(), Some(ClipEvent::Ended { id: asked, why }));
}

#[test]
fn requests_without_reading_are_stopped() {
    let request = |id| ClipMessage::Request {
        id,
        selection: Selection::Primary,
        serial: 1,
        format: ClipFormat::Text,
    };
    for offered in [false, true] {
        let mut end = Endpoint::new(Side::Session, POLICY);
        if offered {
            end.offer(Selection::Primary, ClipFormats::NONE.with(ClipFormat::Text));
        }
        let stopped = (0..1_000).position(|id| {
            let stopped = end.handle(&request(id), 0).is_err();
            // The owner refuses what is offered.
            while let Some(event) = end.poll_event() {
                let ClipEvent::Wanted { id, .. } = event else { continue };
                end.provide(id, Err(ClipEnd::Unavailable), 0);
            }
            stopped
        });
        assert!(stopped.is_some_and(|asked| (8..=64).contains(&asked)), "{stopped:?} answers wait");
    }
}

#[test]
fn a_sent_content_is_freed_before_it_is_confirmed() {
    let mut end = Endpoint::new(Side::Session, POLICY);
    end.offer(Selection::Primary, ClipFormats::NONE.with(ClipFormat::Text));
    // More than may be requested at a time: sent ones are not counted.
    for number in 0..2 * CLIP_TRANSFERS_MAX as u32 {
        let request = ClipMessage::Request {
            id: number,
            selection: Selection::Primary,
            serial: 1,
            format: ClipFormat::Text,
        };
        end.handle(&request, 0).unwrap();
        let Some(ClipEvent::Wanted { id, .. }) = end.poll_event() else {
            panic!("it was asked for")
        };
        let content = Arc::new(vec![b'x'; 100]);
        end.provide(id, Ok(content.clone()), 0);
        assert_eq!(Arc::strong_count(&content), 2, "it is queued");
        let Some(ClipMessage::Data { last: true, .. }) = end.poll_piece(CLIP_DATA_BYTES_MAX, 0)
        else {
            panic!("it is sent")
        };
        assert_eq!(Arc::strong_count(&content), 1, "it is freed once sent");
        end.check_invariants();
    }
    for id in 0..2 * CLIP_TRANSFERS_MAX as u32 {
        end.handle(&ClipMessage::Received { id, bytes: 100 }, 1).unwrap();
    }
    end.check_invariants();
    assert_eq!(end.poll_deadline(), None, "all are confirmed");
}

#[test]
fn requesting_and_cancelling_in_a_loop_fills_nothing() {
    let mut end = Endpoint::new(Side::Session, POLICY);
    let formats = ClipFormats::NONE.with(ClipFormat::Text);
    end.handle(
        &ClipMessage::Offer { selection: Selection::Primary, serial: 1, seen: 0, formats },
        0,
    )
    .unwrap();
    let ask = |end: &mut Endpoint| end.request(Selection::Primary, ClipFormat::Text, 0).unwrap();
    let said = ask(&mut end);
    assert!(matches!(end.poll_control(), Some(ClipMessage::Request { id, .. }) if id == said));
    end.cancel(said);
    for _ in 0..1_000 {
        let unsaid = ask(&mut end);
        end.cancel(unsaid);
    }
    let kept = ask(&mut end);
    let says: Vec<ClipMessage> = std::iter::from_fn(|| end.poll_control()).collect();
    let taken_back = ClipMessage::End { id: said, by_requester: true, why: ClipEnd::Cancelled };
    let request = ClipMessage::Request {
        id: kept,
        selection: Selection::Primary,
        serial: 1,
        format: ClipFormat::Text,
    };
    assert_eq!(says, [taken_back, request], "only the request that was sent is cancelled");
}

#[test]
fn offers_are_sent_in_the_order_of_their_serials() {
    let mut end = Endpoint::new(Side::Session, POLICY);
    let text = ClipFormats::NONE.with(ClipFormat::Text);
    end.offer(Selection::Primary, text);
    end.offer(Selection::Clipboard, text);
    end.withdraw_unoffered();
    end.set_offers_wanted(true);
    let said: Vec<ClipMessage> = std::iter::from_fn(|| end.poll_control()).collect();
    let mut other = Endpoint::new(Side::Viewer, POLICY);
    for message in &said {
        other.handle(message, 0).expect("serials increase");
    }
    assert_eq!(
        [Selection::Primary, Selection::Clipboard].map(|of| other.offered(of)),
        [text, text]
    );
    assert_eq!(said.len(), 2, "present offers are not withdrawn");
}

#[test]
fn files_are_exchanged_in_the_directions_that_are_allowed() {
    let both = ClipFormats::NONE.with(ClipFormat::Text).with(ClipFormat::Files);
    let text = both.without(ClipFormat::Files);
    let clipboard = Selection::Clipboard;
    for (gives, takes) in [(true, false), (false, true), (false, false), (true, true)] {
        let policy = ClipboardPolicy { give_files: gives, ..POLICY };
        let mut viewer = Endpoint::new(Side::Viewer, policy);
        let policy = ClipboardPolicy { take_files: takes, ..POLICY };
        let mut session = Endpoint::new(Side::Session, policy);
        viewer.set_offers_wanted(true);
        viewer.offer(clipboard, both);
        let offer = viewer.poll_control().unwrap();
        session.handle(&offer, 0).unwrap();
        let expected = if gives && takes { both } else { text };
        assert_eq!(session.offered(clipboard), expected, "{gives} {takes}");
        // They are no longer allowed: the offer is made again without them.
        viewer.set_policy(ClipboardPolicy { give_files: false, ..POLICY });
        assert_eq!(viewer.poll_control().is_some(), gives);
        session.set_policy(ClipboardPolicy { take_files: false, ..POLICY });
        assert_eq!(session.offered(clipboard), text);
    }
}
