//! Transports that lose and reorder updates. From constructed records and acknowledgements in any
//! order, to what is sent again and what each update waits for. Knows session-core's public
//! interface; the simulator loses thousands of updates.

use thinc_protocol::command::Command;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::session::{PROBE, Packed, SessionMessage};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Config, DeliveryOrder, Job, JobResult, NoPixels, Packer, Scheduling, Session, Unpacked,
    ViewerId, Violation,
};

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
        Shell::by(DeliveryOrder::Unordered)
    }

    /// A viewer on such a transport, which shows everything.
    fn by(arrival: DeliveryOrder) -> Shell {
        let scheduling = Scheduling::ShortestFirst;
        let mut session =
            Session::new(Config { scheduling, offscreen: false, ..Config::new("work", SIZE) });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "test".into(),
        };
        let viewer = session.add_viewer(&hello, 0);
        session.set_delivery_order(viewer, arrival);
        let mut shell = Shell { session, viewer, now: 1_000, op: 0 };
        shell.settle();
        shell
    }

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 1, kind }, self.now);
    }

    fn draw(&mut self, rect: Rect) {
        self.record(RecordKind::Draw {
            dst: DrawableId::SCREEN,
            rect,
            hint: DrawHint::Image,
            alpha: Alpha::Opaque,
        });
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

    /// Encodes `seen` of the job's pixels in one colour: the rest is equal to what the viewer
    /// shows.
    fn encode(&mut self, job: Job, seen: Rect) {
        let mut region = job.region.clone();
        region.intersect_rect(&seen);
        let mut commands = Commands::default();
        if !region.is_empty() {
            Command::Sfill { region, color: 7 }.append_to(&mut commands);
        }
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
    }

    /// Numbers of the sent updates, each with the one it waits for.
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

    /// All pending pixels are sent as one update, which waits for another.
    fn send(&mut self) -> (u64, u64) {
        for job in self.jobs() {
            self.encode(job, SIZE.rect());
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
        let stale = self.session.handle_lost(self.viewer, seq, self.now);
        self.session.check_invariants();
        stale
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            for job in self.jobs() {
                self.encode(job, SIZE.rect());
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
fn an_update_waits_for_the_newest_overlapping_one_in_flight() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.draw(B);
    let (two, after) = shell.send();
    assert_eq!(after, 0, "they do not overlap");
    shell.copy(A, A.translate(0, 60));
    let (three, after) = shell.send();
    assert_eq!(after, one, "it reads what the first brings");
    shell.applied(three);
    shell.draw(A.translate(0, 50));
    assert_eq!(shell.send().1, 0, "an applied update need not be waited for");
    shell.lost(two);
    assert_eq!(shell.send().1, 0, "a lost update never comes");
}

#[test]
fn lost_pixels_are_sent_again_wherever_copies_moved_them() {
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
fn overwritten_pixels_are_not_stale_and_equal_ones_are() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    shell.draw(A);
    let mut jobs = shell.jobs();
    assert_eq!(jobs.len(), 1);
    let upper = Rect { y2: A.y1 + 8, ..A };
    // The lower part is what the first update brought: nothing of it is sent.
    shell.encode(jobs.remove(0), upper);
    let updates = shell.transmit();
    shell.applied(updates[0].0);
    assert_eq!(shell.lost(one), Region::from(Rect { y1: upper.y2, ..A }));
}

#[test]
fn a_lost_copy_moves_nothing_along() {
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
fn a_job_being_encoded_may_depend_on_a_lost_update() {
    let mut shell = Shell::new();
    shell.draw(A);
    let (one, _) = shell.send();
    let beside = Rect { x2: A.x2 + 30, ..A };
    shell.draw(beside);
    let mut jobs = shell.jobs();
    assert_eq!(shell.lost(one), Region::from(beside), "its plan may move pixels of A");
    shell.encode(jobs.remove(0), SIZE.rect());
    shell.settle();
}

#[test]
fn losses_free_room_and_an_acknowledgement_of_an_unsent_update_is_a_violation() {
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

/// A transport with datagrams, which records probes.
#[derive(Default)]
struct Asks(u32);

impl Packer for Asks {
    fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Packed> {
        None
    }

    fn datagram_bytes(&self) -> usize {
        // Too small for any update: updates in flight are on the stream.
        10
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        assert_eq!(frame, PROBE, "nothing else fits");
        self.0 += 1;
    }
}

#[test]
fn an_unresponsive_path_is_probed_until_it_responds() {
    let asked_within_a_second = |arrival: DeliveryOrder, answers: bool| {
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
    assert!((5..=12).contains(&asked_within_a_second(DeliveryOrder::Mixed, false)));
    assert_eq!(asked_within_a_second(DeliveryOrder::Mixed, true), 0, "nothing is in flight");
    assert_eq!(asked_within_a_second(DeliveryOrder::Ordered, false), 0, "there are no datagrams");
}

#[test]
fn the_newest_update_on_the_stream_implies_all_before_it() {
    for (arrival, is_known) in [(DeliveryOrder::Mixed, true), (DeliveryOrder::Unordered, false)] {
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

/// A transport with datagrams, which keeps them.
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
fn an_input_response_is_repeated_unless_it_is_known_to_have_arrived() {
    for (arrives, times) in [(false, 2), (true, 1)] {
        let mut shell = Shell::by(DeliveryOrder::Mixed);
        shell.record(RecordKind::InputDelivered { seq: 1, window: 1 });
        shell.draw(A);
        for job in shell.jobs() {
            shell.encode(job, SIZE.rect());
        }
        let (mut kept, mut out) = (Kept::default(), Vec::new());
        let until = shell.now + 12_000;
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        let SessionMessage::Update(update) =
            SessionMessage::decode(&MessageFrame::from_datagram(&kept.0[0]).unwrap()).unwrap()
        else {
            panic!("{kept:?}", kept = kept.0)
        };
        if arrives {
            shell.applied(update.seq);
        }
        while let Some(due) =
            shell.session.poll_deadline(shell.now).filter(|&due| due.max(shell.now) < until)
        {
            shell.now = due.max(shell.now + 1);
            shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        }
        let received: Vec<_> = kept.0.iter().filter(|&frame| *frame != PROBE).collect();
        assert_eq!(received.len(), times, "applied: {arrives}");
        assert!(received.iter().all(|&frame| frame == received[0]), "the same again");
    }
}

#[test]
fn a_datagram_that_never_arrives_is_sent_on_the_stream() {
    let mut shell = Shell::by(DeliveryOrder::Mixed);
    let (mut kept, mut lost) = (Kept::default(), 0);
    let came = loop {
        shell.record(RecordKind::InputDelivered { seq: 1, window: 1 });
        shell.draw(A);
        for job in shell.jobs() {
            shell.encode(job, SIZE.rect());
        }
        let mut out = Vec::new();
        kept.0.clear();
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
        if let Some(Ok(SessionMessage::Update(update))) =
            MessageFrame::from_datagram(&out).ok().map(|frame| SessionMessage::decode(&frame))
        {
            break update.seq;
        }
        lost += 1;
        assert!(lost < 20, "the viewer never sees it");
        shell.now += 300_000;
        shell.session.poll_transmit(shell.viewer, shell.now, &mut kept, &mut out);
    };
    assert!(lost >= 8, "after {lost}");
    shell.applied(came);
    shell.settle();
}
