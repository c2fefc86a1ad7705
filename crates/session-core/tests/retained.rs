//! A viewer that reconnects with retained tiles: how long its report is awaited, and which tiles
//! its jobs may use. From HELLO and RETAINED, to jobs and messages. Knows session-core's public
//! interface; the simulator checks the resulting pixels.

use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::retained::RetainedTiles;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{View, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, Job, JobResult, NoPixels, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
const EDGE: i32 = 64;

struct Shell {
    session: Session,
    id: ViewerId,
    now: u64,
    op: u64,
}

fn held(size: Size) -> ViewerMessage {
    let tiles = RetainedTiles::rects(size, 6).enumerate().map(|(at, _)| at as u64 + 1).collect();
    ViewerMessage::RetainedTiles(RetainedTiles {
        size,
        part: size.rect(),
        edge_log: 6,
        key: [3; 32],
        tiles,
    })
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("held", SIZE));
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::RETAINED,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "test".into(),
        };
        let id = session.add_viewer(&hello, 1_000);
        Shell { session, id, now: 1_000, op: 0 }
    }

    fn say(&mut self, message: &ViewerMessage) {
        self.session.handle_message(self.id, message, self.now).expect("a viewer may send that");
    }

    fn draw(&mut self, rect: Rect) {
        self.op += 1;
        let kind = RecordKind::Draw {
            dst: DrawableId::SCREEN,
            rect,
            hint: DrawHint::Image,
            alpha: Alpha::Opaque,
        };
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 1, kind }, self.now);
    }

    fn job(&mut self) -> Option<Job> {
        let idle = DrawRecord { op: self.op, more: false, window: 0, kind: RecordKind::Idle };
        self.session.handle_record(&idle, self.now);
        self.session.poll_job(self.id, self.now)
    }

    fn done(&mut self, job: Job) {
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session
            .complete(planned.expect("it is new"), JobResult::encoded(&Commands::default()));
    }

    /// Everything that is to be read, job by job: the tiles that may be shown already, and the
    /// rest.
    fn rest(&mut self) -> (Vec<Rect>, u64) {
        let (mut tiles, mut pixels) = (Vec::new(), 0);
        while let Some(job) = self.job() {
            pixels += job.region.area();
            let shown = job.retained.iter().flat_map(|shown| shown.tiles.iter());
            for &(tile, hash) in shown {
                assert!(job.region.contains_rect(&tile), "it is read with the job");
                assert_eq!(
                    hash,
                    (tile.y1 / EDGE * SIZE.width as i32 / EDGE + tile.x1 / EDGE) as u64 + 1
                );
                tiles.push(tile);
            }
            self.done(job);
        }
        (tiles, pixels)
    }

    /// Sends what updates may be sent: whether each ends a frame.
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
        std::iter::from_fn(|| {
            deframer.next().unwrap().map(|frame| name(SessionMessage::decode(&frame).unwrap()))
        })
        .collect()
    }
}

#[test]
fn nothing_is_sent_before_the_viewer_has_reported_its_tiles() {
    let mut shell = Shell::new();
    assert_eq!(shell.job(), None);
    assert_eq!(shell.transmit(), ["hello"]);
    let until = shell.session.poll_deadline(shell.now).expect("the wait is bounded");
    assert!(until > shell.now && !shell.session.is_drained());
    shell.say(&held(SIZE));
    let (tiles, pixels) = shell.rest();
    assert_eq!(
        (tiles.len() as u64, pixels),
        (SIZE.area() / 4096, SIZE.area()),
        "each tile once, in any job"
    );
    assert_eq!(shell.transmit()[0], "geometry");
    // Once it was read it is sent like anything else.
    shell.draw(Rect::new(0, 0, 128, 128));
    assert_eq!(shell.rest(), (Vec::new(), 128 * 128));
}

#[test]
fn a_reconnected_viewer_shows_the_first_update_at_once() {
    let frames = |comes_back: bool| {
        let mut shell = Shell::new();
        if comes_back {
            shell.say(&held(SIZE));
        } else {
            shell.now = shell.session.poll_deadline(shell.now).expect("a deadline");
        }
        let mut ends = Vec::new();
        while let Some(job) = shell.job() {
            let planned = shell.session.render(job, &mut NoPixels { tag: shell.op });
            let planned = planned.expect("it is new");
            let job = planned.job();
            let mut commands = Commands::default();
            for rect in job.region.rects() {
                for y in rect.y1..rect.y2 {
                    let (rect, data) =
                        (Rect { y1: y, y2: y + 1, ..*rect }, vec![7; rect.width() as usize]);
                    Command::Raw { rect, encoding: Encoding::Predicted, data: &data }
                        .append_to(&mut commands);
                }
            }
            shell.session.complete(planned, JobResult::encoded(&commands));
            ends.extend(shell.frame_ends());
        }
        ends
    };
    let (comes_back, comes) = (frames(true), frames(false));
    assert!(comes.len() > 2 && comes_back.len() > 2, "in parts: {comes:?}, {comes_back:?}");
    assert!(
        comes_back[0] && !comes_back[1],
        "one update at once, and then whole frames: {comes_back:?}"
    );
    assert!(!comes[0], "without a report, parts: {comes:?}");
}

#[test]
fn a_missing_report_is_not_awaited_for_long() {
    let mut shell = Shell::new();
    assert_eq!(shell.job(), None);
    shell.now = shell.session.poll_deadline(shell.now).expect("a deadline");
    let job = shell.job().expect("it is sent everything");
    assert_eq!(job.retained, None);
    shell.done(job);
    shell.say(&held(SIZE));
    assert_eq!(shell.rest().0, [], "too late");
}

#[test]
fn tiles_written_over_before_they_were_read_are_not_used() {
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    // A small drawing goes first, and takes a corner of four tiles.
    let corner = Rect::new(120, 120, 136, 136);
    shell.draw(corner);
    let first = shell.job().expect("the drawing");
    assert_eq!((&first.region, &first.retained), (&Region::from(corner), &None));
    shell.done(first);
    let (tiles, _) = shell.rest();
    assert_eq!(tiles.len() as u64, SIZE.area() / 4096 - 4);
    assert!(tiles.iter().all(|tile| !tile.overlaps(&corner)));
}

#[test]
fn tiles_that_were_lost_or_resynced_are_not_used() {
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_stale(shell.id, &Region::from(Rect::new(0, 0, 65, 10)), 0);
    assert_eq!(shell.rest().0.len() as u64, SIZE.area() / 4096 - 2);
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.say(&ViewerMessage::Resync);
    assert_eq!(shell.rest().0, []);
}

#[test]
fn another_geometry_than_the_reports_invalidates_the_tiles() {
    let other = Size { width: 1000, height: 768 };
    let mut shell = Shell::new();
    shell.say(&held(other));
    assert_eq!(shell.rest().0, [], "the screen has another size by now");
    // The report is for another geometry than the first one sent, and there was a third in between.
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_geometry(other);
    assert!(shell.transmit().contains(&"geometry"));
    shell.session.handle_geometry(SIZE);
    assert_eq!(shell.rest().0, []);
    // A geometry that it was not sent changes nothing.
    let mut shell = Shell::new();
    shell.say(&held(SIZE));
    shell.session.handle_geometry(other);
    shell.session.handle_geometry(SIZE);
    assert_eq!(shell.rest().0.len() as u64, SIZE.area() / 4096);
    // A view that is requested first decides the geometry.
    let mut shell = Shell::new();
    shell.say(&ViewerMessage::View(View {
        size: Size { width: 512, height: 384 },
        part: Rect::default(),
    }));
    shell.say(&held(SIZE));
    assert_eq!(shell.rest().0, []);
}
