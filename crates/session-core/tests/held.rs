//! A viewer that comes back with what it still shows: until when it is waited for, and what of it its jobs may believe.
//! From HELLO and HELD, to jobs and frames.
//! Knows session-core's public face; that pictures come out right, the simulator shows.

use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::held::Held;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{View, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{Config, Job, Session, SnapshotVerdict, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
const EDGE: i32 = 64;

struct Shell {
    session: Session,
    id: ViewerId,
    now: u64,
    op: u64,
}

fn held(size: Size) -> ViewerMessage {
    let tiles = Held::rects(size, 6).enumerate().map(|(at, _)| at as u64 + 1).collect();
    ViewerMessage::Held(Held { size, part: size.rect(), edge_log: 6, key: [3; 32], tiles })
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("held", SIZE));
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::HELD,
            size: Size::default(),
            frame_bytes_max: 1 << 24,
            name: "test".into(),
        };
        let id = session.add_viewer(&hello, 1_000);
        Shell { session, id, now: 1_000, op: 0 }
    }

    fn say(&mut self, message: &ViewerMessage) {
        self.session.handle_message(self.id, message, self.now).expect("it may say that");
    }

    fn draw(&mut self, rect: Rect) {
        self.op += 1;
        let kind = RecordKind::Draw { dst: DrawableId::SCREEN, rect, what: Drawn::Image, alpha: Alpha::Opaque };
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 1, kind }, self.now);
    }

    fn job(&mut self) -> Option<Job> {
        let idle = DrawRecord { op: self.op, more: false, window: 0, kind: RecordKind::Idle };
        self.session.handle_record(&idle, self.now);
        self.session.poll_job(self.id, self.now)
    }

    fn done(&mut self, job: &Job) {
        assert_eq!(self.session.handle_snapshot(self.id, job.id, None, self.op), SnapshotVerdict::Keep);
        self.session.handle_encoded(self.id, job.id, &[]);
    }

    /// Everything that is to be read, job by job: which tiles may be shown already, and what else is read.
    fn rest(&mut self) -> (Vec<Rect>, u64) {
        let (mut tiles, mut pixels) = (Vec::new(), 0);
        while let Some(job) = self.job() {
            pixels += job.region.area();
            let shown = job.shown.iter().flat_map(|shown| shown.tiles.iter());
            for &(tile, hash) in shown {
                assert!(job.region.contains_rect(&tile), "it is read with the job");
                assert_eq!(hash, (tile.y1 / EDGE * SIZE.width as i32 / EDGE + tile.x1 / EDGE) as u64 + 1);
                tiles.push(tile);
            }
            self.done(&job);
        }
        (tiles, pixels)
    }

    /// What leaves now of updates: whether each ends a frame.
    fn frame_ends(&mut self) -> Vec<bool> {
        let mut out = Vec::new();
        while self.session.poll_transmit(self.id, self.now, &mut Unpacked, &mut out) {}
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        let mut ends = Vec::new();
        while let Some(frame) = deframer.next().unwrap() {
            if let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() {
                ends.push(update.end_of_frame);
            }
        }
        ends
    }

    fn transmit(&mut self) -> Vec<&'static str> {
        let mut out = Vec::new();
        self.session.poll_transmit(self.id, self.now, &mut Unpacked, &mut out);
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        let name = |message: SessionMessage<'_>| match message {
            SessionMessage::Hello(_) => "hello",
            SessionMessage::Geometry(_) => "geometry",
            _ => "more",
        };
        std::iter::from_fn(|| deframer.next().unwrap().map(|frame| name(SessionMessage::decode(&frame).unwrap())))
            .collect()
    }
}

#[test]
fn nothing_is_sent_before_it_has_said_what_it_shows() {
    let mut shell = Shell::new();
    assert_eq!(shell.job(), None);
    assert_eq!(shell.transmit(), ["hello"]);
    let until = shell.session.poll_deadline(shell.now).expect("it is not waited for without end");
    assert!(until > shell.now && !shell.session.is_drained());
    shell.say(&held(SIZE));
    let (tiles, pixels) = shell.rest();
    assert_eq!((tiles.len() as u64, pixels), (SIZE.area() / 4096, SIZE.area()), "each tile once, in whichever job");
    assert_eq!(shell.transmit()[0], "geometry");
    // Once it was read it is sent like anything else.
    shell.draw(Rect::new(0, 0, 128, 128));
    assert_eq!(shell.rest(), (Vec::new(), 128 * 128));
}

#[test]
fn whoever_comes_back_is_shown_the_first_that_leaves() {
    let frames = |comes_back: bool| {
        let mut shell = Shell::new();
        if comes_back {
            shell.say(&held(SIZE));
        } else {
            shell.now = shell.session.poll_deadline(shell.now).expect("a deadline");
        }
        let mut ends = Vec::new();
        while let Some(job) = shell.job() {
            shell.session.handle_snapshot(shell.id, job.id, None, shell.op);
            let mut commands = Vec::new();
            for rect in job.region.rects() {
                for y in rect.y1..rect.y2 {
                    let (rect, data) = (Rect { y1: y, y2: y + 1, ..*rect }, vec![7; rect.width() as usize]);
                    Command::Raw { rect, encoding: Encoding::Predicted, data: &data }.encode(&mut commands);
                }
            }
            shell.session.handle_encoded(shell.id, job.id, &commands);
            ends.extend(shell.frame_ends());
        }
        ends
    };
    let (comes_back, comes) = (frames(true), frames(false));
    assert!(comes.len() > 2 && comes_back.len() > 2, "in parts: {comes:?}, {comes_back:?}");
    assert!(comes_back[0] && !comes_back[1], "a sign of life, and then whole pictures: {comes_back:?}");
    assert!(!comes[0], "nothing is known of this one's old picture: {comes:?}");
}

#[test]
fn one_that_says_nothing_is_not_waited_for_long() {
    let mut shell = Shell::new();
    assert_eq!(shell.job(), None);
    shell.now = shell.session.poll_deadline(shell.now).expect("a deadline");
    let job = shell.job().expect("it is sent everything");
    assert_eq!(job.shown, None);
    shell.done(&job);
    shell.say(&held(SIZE));
    assert_eq!(shell.rest().0, [], "too late");
}

#[test]
fn what_is_written_before_it_was_read_is_not_believed() {
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    // A small drawing goes first, and takes a corner of four tiles.
    let corner = Rect::new(120, 120, 136, 136);
    shell.draw(corner);
    let first = shell.job().expect("the drawing");
    assert_eq!((&first.region, &first.shown), (&Region::from(corner), &None));
    shell.done(&first);
    let (tiles, _) = shell.rest();
    assert_eq!(tiles.len() as u64, SIZE.area() / 4096 - 4);
    assert!(tiles.iter().all(|tile| !tile.overlaps(&corner)));
}

#[test]
fn what_it_lost_or_lost_track_of_is_not_believed() {
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_stale(shell.id, &Region::from(Rect::new(0, 0, 65, 10)), 0);
    assert_eq!(shell.rest().0.len() as u64, SIZE.area() / 4096 - 2);
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.say(&ViewerMessage::Refresh);
    assert_eq!(shell.rest().0, []);
}

#[test]
fn another_picture_than_it_speaks_of_changes_what_it_shows() {
    let other = Size { width: 1000, height: 768 };
    let mut shell = Shell::new();
    shell.say(&held(other));
    assert_eq!(shell.rest().0, [], "the screen has another size by now");
    // What it was told of and what came back are two pictures, with a third between.
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_geometry(other);
    assert!(shell.transmit().contains(&"geometry"));
    shell.session.handle_geometry(SIZE);
    assert_eq!(shell.rest().0, []);
    // One that it was not told of changes nothing.
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_geometry(other);
    shell.session.handle_geometry(SIZE);
    assert_eq!(shell.rest().0.len() as u64, SIZE.area() / 4096);
    // A view that is asked for first decides which picture it is.
    let mut shell = Shell::new();
    shell.say(&ViewerMessage::View(View { size: Size { width: 512, height: 384 }, part: Rect::default() }));
    shell.say(&held(SIZE));
    assert_eq!(shell.rest().0, []);
}
