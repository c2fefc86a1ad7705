//! What viewers are told of night colours and gamma: the newest tables, each of them once, and only
//! who accepts them. From the driver's tables, to the messages that are sent. Knows session-core's
//! public interface.

use thinc_protocol::command::Encoding;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, Job, JobResult, NoPixels, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 640, height: 480 };

#[derive(Clone, Debug, PartialEq)]
enum Received {
    Geometry,
    Gamma(Vec<GammaArea>),
    Update(u64),
}

struct Shell {
    session: Session,
    now: u64,
    op: u64,
}

/// A monitor that shows everything at this level.
fn monitor(x: i32, level: u8) -> GammaArea {
    let table = GammaTable { channels: [[level; 256]; 3] };
    GammaArea { rect: Rect::at(x, 0, 320, 480), table }
}

fn whole(level: u8) -> Vec<GammaArea> {
    vec![GammaArea { rect: WHOLE_SCREEN, ..monitor(0, level) }]
}

impl Shell {
    fn new() -> Shell {
        let config = Config { offscreen: false, ..Config::new("work", SIZE) };
        let mut session = Session::new(config);
        session.handle_attach(SIZE);
        Shell { session, now: 1_000, op: 0 }
    }

    fn join(&mut self, caps: u32) -> ViewerId {
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "t".into(),
        };
        self.session.add_viewer(&hello, self.now)
    }

    /// Both monitors have this level, as night colours set it.
    fn set(&mut self, level: u8) {
        self.session.handle_gamma(vec![monitor(0, level), monitor(320, level)]);
    }

    /// Everything that may be sent, without acknowledgements.
    fn sent(&mut self, id: ViewerId) -> Vec<Received> {
        let mut out = Vec::new();
        self.now += 1_000;
        self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out);
        let mut frames = Deframer::new(1 << 24);
        frames.push(&out);
        let mut received = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            received.push(match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Geometry(_) => Received::Geometry,
                SessionMessage::Gamma(areas) => Received::Gamma(areas),
                SessionMessage::Update(update) => Received::Update(update.seq),
                _ => continue,
            });
        }
        received
    }

    /// The same without updates.
    fn told(&mut self, id: ViewerId) -> Vec<Received> {
        let mut sent = self.sent(id);
        sent.retain(|received| !matches!(received, Received::Update(_)));
        sent
    }

    /// Draws the whole screen and commits what there is room for, at four bytes a pixel.
    fn flood(&mut self, id: ViewerId) {
        for kind in [
            RecordKind::Draw {
                dst: DrawableId::SCREEN,
                rect: SIZE.rect(),
                hint: DrawHint::Image,
                alpha: Alpha::Opaque,
            },
            RecordKind::Idle,
        ] {
            self.op += 1;
            let record = DrawRecord { op: self.op, more: false, window: 7, kind };
            self.session.handle_record(&record, self.now);
        }
        while let Some(job) = self.session.poll_job(id, self.now) {
            self.finish(job);
        }
    }

    fn finish(&mut self, job: Job) {
        let mut commands = Commands::default();
        let mut writer = commands.writer();
        for rect in job.region.rects() {
            writer.raw(*rect, Encoding::Predicted, &vec![7; rect.area() as usize * 4]);
        }
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
    }
}

#[test]
fn who_accepts_tables_is_told_the_newest_once() {
    let mut shell = Shell::new();
    let (first, older) = (shell.join(ViewerCaps::GAMMA), shell.join(0));
    assert_eq!(shell.told(first), [Received::Geometry], "no colour changes");
    assert_eq!(shell.told(older), [Received::Geometry]);
    shell.set(9);
    shell.set(8);
    assert_eq!(shell.told(first), [Received::Gamma(whole(8))]);
    shell.set(8);
    assert_eq!(shell.told(first), [], "the same again");
    let late = shell.join(ViewerCaps::GAMMA);
    assert_eq!(shell.told(late), [Received::Geometry, Received::Gamma(whole(8))]);
    shell.session.handle_gamma(vec![monitor(0, 8), monitor(320, 7)]);
    let both = Received::Gamma(vec![monitor(0, 8), monitor(320, 7)]);
    assert_eq!(shell.told(late), std::slice::from_ref(&both));
    assert_eq!(shell.told(first), [both]);
    shell.session.handle_gamma(Vec::new());
    assert_eq!(shell.told(first), [Received::Gamma(Vec::new())]);
    assert_eq!(shell.told(late), [Received::Gamma(Vec::new())]);
    let last = shell.join(ViewerCaps::GAMMA);
    assert_eq!(shell.told(last), [Received::Geometry], "there is nothing to undo");
    assert_eq!(shell.told(older), [], "it understands none of this");
}

/// The screen's only table is that of every size of it.
#[test]
fn a_new_size_repeats_no_table() {
    let mut shell = Shell::new();
    let id = shell.join(ViewerCaps::GAMMA);
    shell.set(9);
    assert_eq!(shell.told(id), [Received::Geometry, Received::Gamma(whole(9))]);
    shell.session.handle_geometry(Size { width: 800, height: 600 });
    shell.session.handle_gamma(vec![monitor(0, 9), monitor(400, 9)]);
    assert_eq!(shell.told(id), [Received::Geometry]);
}

#[test]
fn on_a_full_path_only_the_newest_tables_wait_and_they_go_first() {
    let mut shell = Shell::new();
    let id = shell.join(ViewerCaps::GAMMA);
    let (mut newest, mut level) = (0, 0u8);
    // Without acknowledgements: they alone use up the budget and the reserve of the real-time lane.
    for tries in 0.. {
        assert!(tries < 10_000, "a path without acknowledgements fills up");
        shell.flood(id);
        level = level.wrapping_add(1);
        shell.set(level);
        let sent = shell.sent(id);
        let updates = sent.iter().filter_map(|received| match received {
            Received::Update(seq) => Some(*seq),
            _ => None,
        });
        newest = updates.max().unwrap_or(newest);
        if !sent.iter().any(|received| matches!(received, Received::Gamma(_))) {
            break;
        }
    }
    for level in [101, 102, 103] {
        shell.set(level);
        assert_eq!(shell.told(id), [], "nothing more fits");
    }
    let ack = ViewerMessage::Ack(Ack { update: newest, presented: None });
    shell.session.handle_message(id, &ack, shell.now).unwrap();
    let sent = shell.sent(id);
    assert_eq!(sent[0], Received::Gamma(whole(103)), "before any update");
    let is_update = |received: &Received| matches!(received, Received::Update(_));
    assert!(sent.len() > 1 && sent[1..].iter().all(is_update), "{sent:?}");
}
