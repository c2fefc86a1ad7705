//! What a transport may count on that loses updates and lets them overtake one another.
//! From hand-made records and acknowledgements in any order, to what is sent again and what each update waits for.
//! Knows session-core's public face; the simulator loses thousands of them.

use thinc_protocol::command::Command;
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::session::{ASK, Packed, SessionMessage};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{Arrival, Config, Job, Packer, Scheduling, Session, Unpacked, ViewerId, Violation};

const SIZE: Size = Size { width: 320, height: 200 };
const A: Rect = Rect::at(10, 10, 40, 20);
const B: Rect = Rect::at(100, 10, 40, 20);

struct Shell {
    session: Session,
    viewer: ViewerId,
    now: u64,
    op: u64,
}

impl Shell {
    fn new() -> Shell {
        Shell::by(Arrival::Unordered)
    }

    /// A viewer by such a transport, which shows all there is.
    fn by(arrival: Arrival) -> Shell {
        let scheduling = Scheduling::ShortestFirst;
        let mut session = Session::new(Config { scheduling, offscreen: false, ..Config::new("work", SIZE) });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            frame_bytes_max: 1 << 20,
            name: "test".into(),
        };
        let viewer = session.add_viewer(&hello, 0);
        session.set_arrival(viewer, arrival);
        let mut shell = Shell { session, viewer, now: 1_000, op: 0 };
        shell.settle();
        shell
    }

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 1, kind }, self.now);
    }

    fn draw(&mut self, rect: Rect) {
        self.record(RecordKind::Draw { dst: DrawableId::SCREEN, rect, what: Drawn::Image, alpha: Alpha::Opaque });
    }

    fn copy(&mut self, from: Rect, to: Rect) {
        let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
        let (dx, dy) = (to.x1 - from.x1, to.y1 - from.y1);
        self.record(RecordKind::Copy { src, dst, rect: to, dx, dy, over: false });
    }

    fn jobs(&mut self) -> Vec<Job> {
        self.record(RecordKind::Idle);
        std::iter::from_fn(|| self.session.poll_job(self.viewer, self.now)).collect()
    }

    /// Encodes as one colour what is `seen` of the job's pixels: the rest is equal to what the viewer shows.
    fn encode(&mut self, job: &Job, seen: Rect) {
        let mut region = job.region.clone();
        region.intersect_rect(&seen);
        let mut commands = Vec::new();
        if !region.is_empty() {
            Command::Sfill { region, color: 7 }.encode(&mut commands);
        }
        self.session.handle_snapshot(self.viewer, job.id, None, self.op);
        self.session.handle_encoded(self.viewer, job.id, &commands);
    }

    /// Numbers of the updates that leave, each with what it waits for.
    fn transmit(&mut self) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out);
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        let mut updates = Vec::new();
        while let Some(frame) = deframer.next().unwrap() {
            if let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() {
                updates.push((update.seq, update.after));
            }
        }
        self.session.check_invariants();
        updates
    }

    /// Everything that waits leaves as one update, which waits for another.
    fn send(&mut self) -> (u64, u64) {
        for job in self.jobs() {
            self.encode(&job, SIZE.rect());
        }
        let updates = self.transmit();
        assert_eq!(updates.len(), 1, "{updates:?}");
        updates[0]
    }

    fn applied(&mut self, seq: u64) {
        self.session.handle_applied(self.viewer, seq..=seq, self.now).unwrap();
        self.session.check_invariants();
    }

    fn lost(&mut self, seq: u64) -> Region {
        let lacking = self.session.handle_lost(self.viewer, seq, self.now);
        self.session.check_invariants();
        lacking
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            for job in self.jobs() {
                self.encode(&job, SIZE.rect());
            }
            for (seq, _) in self.transmit() {
                self.applied(seq);
            }
            self.now += 1_000;
        }
        assert!(self.session.is_drained());
    }
}

fn both(a: Rect, b: Rect) -> Region {
    [a, b].into_iter().collect()
}

#[test]
fn an_update_waits_for_the_newest_that_it_meets_and_that_is_under_way() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.draw(B);
    let (two, after) = shell.send();
    assert_eq!(after, 0, "they do not meet");
    shell.copy(A, A.translate(0, 60));
    let (three, after) = shell.send();
    assert_eq!(after, one, "it reads what the first brings");
    shell.applied(three);
    shell.draw(A.translate(0, 50));
    assert_eq!(shell.send().1, 0, "what was applied need not be waited for");
    shell.lost(two);
    assert_eq!(shell.send().1, 0, "what was lost would be waited for in vain");
}

#[test]
fn what_was_lost_is_sent_again_wherever_copies_took_it() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.copy(A, B);
    let (two, _) = shell.send();
    shell.applied(two);
    assert_eq!(shell.lost(one), both(A, B));
    assert_eq!(shell.jobs().iter().map(|job| job.region.area()).sum::<u64>(), A.area() + B.area());
}

#[test]
fn what_was_written_over_it_is_not_lacking_and_what_was_equal_to_it_is() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.draw(A);
    let jobs = shell.jobs();
    assert_eq!(jobs.len(), 1);
    let upper = Rect { y2: A.y1 + 8, ..A };
    // The lower part is what the first update brought: nothing of it is sent.
    shell.encode(&jobs[0], upper);
    let updates = shell.transmit();
    shell.applied(updates[0].0);
    assert_eq!(shell.lost(one), Region::from(Rect { y1: upper.y2, ..A }));
}

#[test]
fn a_copy_that_was_lost_too_carries_nothing_on() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.copy(A, B);
    let (two, _) = shell.send();
    assert_eq!(shell.lost(two), Region::from(B), "what it should have written");
    assert_eq!(shell.lost(one), Region::from(A));
    assert_eq!(shell.lost(one), Region::new(), "once");
}

#[test]
fn what_is_being_encoded_may_be_made_of_what_was_lost() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    let beside = Rect { x2: A.x2 + 30, ..A };
    shell.draw(beside);
    let jobs = shell.jobs();
    assert_eq!(shell.lost(one), Region::from(beside), "its plan may move pixels of A about");
    shell.encode(&jobs[0], SIZE.rect());
    shell.settle();
}

#[test]
fn losses_give_room_back_and_an_acknowledgement_of_nothing_is_a_violation() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    assert!(shell.session.stats(shell.viewer).unwrap().in_flight > 0);
    shell.lost(one);
    let stats = shell.session.stats(shell.viewer).unwrap();
    assert_eq!((stats.in_flight, stats.lost), (0, 1));
    let ahead = shell.session.handle_applied(shell.viewer, one + 1..=one + 1, shell.now);
    assert_eq!(ahead, Err(Violation::AckAhead { acked: one + 1, newest: one }));
}

/// A transport of datagrams beside the stream, which notes what the path is asked.
#[derive(Default)]
struct Asks(u32);

impl Packer for Asks {
    fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Packed> {
        None
    }

    fn datagram_bytes(&self) -> usize {
        // Too small for any update: what is under way goes by the stream.
        10
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        assert_eq!(frame, ASK, "nothing else fits");
        self.0 += 1;
    }
}

#[test]
fn a_path_that_brings_nothing_back_is_asked_until_it_does() {
    let asked_within_a_second = |arrival: Arrival, answers: bool| {
        let mut shell = Shell::by(arrival);
        shell.draw(A);
        let (seq, _) = shell.send();
        if answers {
            shell.applied(seq);
        }
        let (mut asks, mut out) = (Asks::default(), Vec::new());
        let until = shell.now + 1_000_000;
        while let Some(due) = shell.session.poll_deadline(shell.now).filter(|&due| due <= until) {
            shell.now = due.max(shell.now + 1);
            shell.session.poll_transmit(shell.viewer, shell.now, &mut asks, &mut out);
        }
        asks.0
    };
    assert!((5..=12).contains(&asked_within_a_second(Arrival::Mixed, false)));
    assert_eq!(asked_within_a_second(Arrival::Mixed, true), 0, "nothing is under way");
    assert_eq!(asked_within_a_second(Arrival::Ordered, false), 0, "there is no such way");
}

#[test]
fn what_a_stream_brought_last_says_that_all_before_it_has_come() {
    for (arrival, is_known) in [(Arrival::Mixed, true), (Arrival::Unordered, false)] {
        let mut shell = Shell::by(arrival);
        let mut newest = 0;
        for rect in [A, B, A] {
            shell.draw(rect);
            (newest, _) = shell.send();
        }
        shell.applied(newest);
        let in_flight = shell.session.stats(shell.viewer).unwrap().in_flight;
        assert_eq!(
            (in_flight == 0, shell.session.is_drained()),
            (is_known, is_known),
            "{arrival:?}: {in_flight} bytes"
        );
    }
}

/// A transport of datagrams, which keeps them.
#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Packer for Kept {
    fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Packed> {
        None
    }

    fn datagram_bytes(&self) -> usize {
        1_200
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        self.0.push(frame.to_vec());
    }
}

#[test]
fn an_answer_to_a_hand_goes_once_more_unless_it_is_known_to_have_come() {
    for (arrives, times) in [(false, 2), (true, 1)] {
        let mut shell = Shell::by(Arrival::Mixed);
        shell.record(RecordKind::InputDelivered { seq: 1, window: 1 });
        shell.draw(A);
        for job in shell.jobs() {
            shell.encode(&job, SIZE.rect());
        }
        let (mut kept, mut out) = (Kept::default(), Vec::new());
        let until = shell.now + 12_000;
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        let SessionMessage::Update(update) = SessionMessage::decode(&Frame::whole(&kept.0[0]).unwrap()).unwrap() else {
            panic!("{kept:?}", kept = kept.0)
        };
        if arrives {
            shell.applied(update.seq);
        }
        while let Some(due) = shell.session.poll_deadline(shell.now).filter(|&due| due.max(shell.now) < until) {
            shell.now = due.max(shell.now + 1);
            shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        }
        let said: Vec<_> = kept.0.iter().filter(|&frame| *frame != ASK).collect();
        assert_eq!(said.len(), times, "has come: {arrives}");
        assert!(said.iter().all(|&frame| frame == said[0]), "the same again");
    }
}

#[test]
fn what_goes_alone_and_never_comes_is_brought_by_the_stream() {
    let mut shell = Shell::by(Arrival::Mixed);
    let (mut kept, mut lost) = (Kept::default(), 0);
    let came = loop {
        shell.record(RecordKind::InputDelivered { seq: 1, window: 1 });
        shell.draw(A);
        for job in shell.jobs() {
            shell.encode(&job, SIZE.rect());
        }
        let mut out = Vec::new();
        kept.0.clear();
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        if let Some(Ok(SessionMessage::Update(update))) =
            Frame::whole(&out).ok().map(|frame| SessionMessage::decode(&frame))
        {
            break update.seq;
        }
        lost += 1;
        assert!(lost < 20, "nobody ever sees it");
        shell.now += 300_000;
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
    };
    assert!(lost >= 8, "after {lost}");
    shell.applied(came);
    shell.settle();
}
