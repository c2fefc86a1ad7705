//! What viewers are told about the cursor: its newest image, colours, position and visibility, each
//! of them once. From the contents of the driver's cursor block, to the messages that are sent.
//! Knows session-core's public interface; images are bytes without a meaning here.

use thinc_protocol::command::{Compression, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{CursorColors, SessionMessage};
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Config, CursorData, CursorImageOwned, Job, JobResult, NoPixels, Session, Unpacked, ViewerId,
};

const SIZE: Size = Size { width: 640, height: 480 };
const BLACK: CursorColors = CursorColors { fore: 0, back: 0xff_ffff };
const RED: CursorColors = CursorColors { fore: 0xff_0000, back: 0xff_ffff };

#[derive(Clone, Debug, PartialEq)]
enum Received {
    /// Its bytes.
    Argb(Vec<u8>),
    /// Its planes and colours.
    Bits(Vec<u8>, CursorColors),
    Color(CursorColors),
    Show(bool),
    Move(u16, u16),
    /// An update with so many bytes of commands.
    Update(usize),
}

struct Shell {
    session: Session,
    now: u64,
    op: u64,
    /// The newest update each viewer was sent.
    newest: Vec<(ViewerId, u64)>,
}

impl Shell {
    fn new() -> Shell {
        let config = Config { offscreen: false, ..Config::new("work", SIZE) };
        let mut session = Session::new(config);
        session.handle_attach(SIZE);
        Shell { session, now: 1_000, op: 0, newest: Vec::new() }
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

    fn record(&mut self, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
        self.session.check_invariants();
    }

    fn image(&mut self, pixels: CursorData) {
        self.session.handle_cursor(CursorImageOwned {
            size: Size { width: 4, height: 4 },
            hot_x: 1,
            hot_y: 2,
            pixels,
        });
    }

    fn planes(&mut self, planes: &[u8]) {
        self.image(CursorData::TwoColors {
            compression: Compression::Plain,
            planes: planes.into(),
        });
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
                SessionMessage::Cursor(cursor) => Received::Argb(cursor.pixels.into()),
                SessionMessage::CursorBits(cursor) => {
                    Received::Bits(cursor.planes.into(), cursor.colors)
                }
                SessionMessage::CursorColor(colors) => Received::Color(colors),
                SessionMessage::CursorShow(shown) => Received::Show(shown),
                SessionMessage::CursorMove { x, y } => Received::Move(x, y),
                SessionMessage::Update(update) => {
                    self.newest.retain(|(viewer, _)| *viewer != id);
                    self.newest.push((id, update.seq));
                    Received::Update(update.commands.len())
                }
                _ => continue,
            });
        }
        received
    }

    fn acknowledge(&mut self, id: ViewerId) {
        let newest =
            self.newest.iter().find(|(viewer, _)| *viewer == id).map_or(0, |(_, seq)| *seq);
        self.now += 1_000;
        let ack = ViewerMessage::Ack(Ack { update: newest, presented: None });
        self.session.handle_message(id, &ack, self.now).unwrap();
    }

    /// Draws the whole screen and commits what there is room for, at four bytes a pixel.
    fn flood(&mut self, id: ViewerId) {
        let rect = Rect { x1: 0, y1: 0, x2: SIZE.width as i32, y2: SIZE.height as i32 };
        self.record(RecordKind::Draw {
            dst: DrawableId::SCREEN,
            rect,
            hint: DrawHint::Image,
            alpha: Alpha::Opaque,
        });
        self.record(RecordKind::Idle);
        while let Some(job) = self.session.poll_job(id, self.now) {
            let bytes = job.region.area() as usize * 4;
            self.finish(job, bytes);
        }
    }

    /// A viewer that was sent everything and shows everything.
    fn rested(&mut self) -> ViewerId {
        let id = self.join(ViewerCaps::LOCAL_CURSOR);
        self.flood(id);
        for _ in 0..10_000 {
            let received = self.sent(id);
            self.acknowledge(id);
            if received.is_empty()
                && self.session.stats(id).is_some_and(|stats| stats.in_flight == 0)
            {
                return id;
            }
            self.flood_rest(id);
        }
        panic!("the viewer never gets all of it");
    }

    fn flood_rest(&mut self, id: ViewerId) {
        while let Some(job) = self.session.poll_job(id, self.now) {
            self.finish(job, 64);
        }
    }

    fn finish(&mut self, job: Job, bytes: usize) {
        let mut commands = Commands::default();
        let mut writer = commands.writer();
        for rect in job.region.rects() {
            writer.raw(*rect, Encoding::Predicted, &vec![7; bytes / job.region.rect_count()]);
        }
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
    }
}

#[test]
fn a_new_colour_is_sent_as_colours_and_an_image_contains_its_own() {
    let mut shell = Shell::new();
    let id = shell.rested();
    shell.session.handle_cursor_colors(BLACK);
    shell.planes(&[1, 2]);
    assert_eq!(shell.sent(id), [Received::Bits(vec![1, 2], BLACK), Received::Show(true)]);
    shell.session.handle_cursor_colors(RED);
    assert_eq!(shell.sent(id), [Received::Color(RED)]);
    shell.session.handle_cursor_colors(RED);
    assert_eq!(shell.sent(id), []);
    // Both are new: one message contains both.
    shell.session.handle_cursor_colors(BLACK);
    shell.planes(&[3, 4]);
    assert_eq!(shell.sent(id), [Received::Bits(vec![3, 4], BLACK)]);
    // An image with its own colours needs no others.
    shell.image(CursorData::Argb(vec![9]));
    shell.session.handle_cursor_colors(RED);
    assert_eq!(shell.sent(id), [Received::Argb(vec![9])]);
    shell.session.handle_cursor_colors(BLACK);
    assert_eq!(shell.sent(id), []);
    // And the next one without them gets them.
    shell.planes(&[5, 6]);
    assert_eq!(shell.sent(id), [Received::Bits(vec![5, 6], BLACK)]);
}

#[test]
fn on_a_full_path_only_the_newest_cursor_waits_and_it_goes_first() {
    let mut shell = Shell::new();
    let id = shell.rested();
    // Without acknowledgements: cursors alone use up the budget and the reserve of the real-time
    // lane.
    let mut images = 0u32;
    loop {
        images += 1;
        assert!(images < 10_000, "a path without acknowledgements fills up");
        shell.flood(id);
        shell.image(CursorData::Argb(images.to_le_bytes().repeat(2_000)));
        if !shell.sent(id).iter().any(|received| matches!(received, Received::Argb(_))) {
            break;
        }
    }
    for image in [[1u8; 8], [2; 8], [3; 8]] {
        shell.image(CursorData::Argb(image.into()));
        shell.session.handle_cursor_show(image[0] != 2);
        shell.session.handle_cursor_move(image[0].into(), 5);
        assert!(
            !shell.sent(id).iter().any(|received| !matches!(received, Received::Update(_))),
            "nothing more fits"
        );
    }
    shell.acknowledge(id);
    let received = shell.sent(id);
    assert_eq!(
        received[..3],
        [Received::Argb(vec![3; 8]), Received::Show(true), Received::Move(3, 5)],
        "before any update"
    );
    assert!(
        received[3..].iter().all(|received| matches!(received, Received::Update(_))),
        "{received:?}"
    );
}

#[test]
fn a_new_viewer_and_one_that_resyncs_are_told_everything() {
    let mut shell = Shell::new();
    let first = shell.rested();
    shell.session.handle_cursor_colors(RED);
    shell.planes(&[1, 2]);
    shell.session.handle_cursor_show(false);
    shell.session.handle_cursor_move(30, 40);
    let all = [Received::Bits(vec![1, 2], RED), Received::Show(false), Received::Move(30, 40)];
    assert_eq!(shell.sent(first), all);
    let second = shell.join(ViewerCaps::LOCAL_CURSOR);
    assert_eq!(shell.sent(second)[..3], all);
    shell.now += 1_000_000;
    shell.session.handle_message(first, &ViewerMessage::Resync, shell.now).unwrap();
    shell.flood_rest(first);
    assert_eq!(shell.sent(first)[..3], all);
    // A viewer without a local cursor is told nothing.
    let blind = shell.join(0);
    assert!(shell.sent(blind).iter().all(|received| matches!(received, Received::Update(_))));
}

#[test]
fn a_position_is_sent_until_a_user_moves_the_pointer() {
    let mut shell = Shell::new();
    let (holder, watcher) = (shell.rested(), shell.rested());
    shell.image(CursorData::Argb(vec![1]));
    shell.session.handle_cursor_move(30, 40);
    assert_eq!(
        shell.sent(holder),
        [Received::Argb(vec![1]), Received::Show(true), Received::Move(30, 40)]
    );
    // Before the watcher was told, a user moved the pointer away: following now would move it back.
    let motion = Input { seq: 1, event: InputEvent::Motion { x: 31, y: 40 } };
    shell.session.handle_message(holder, &ViewerMessage::Input(motion), shell.now).unwrap();
    assert_eq!(shell.sent(watcher), [Received::Argb(vec![1]), Received::Show(true)]);
    assert_eq!(shell.sent(holder), [], "a user's own move is never sent back");
    let late = shell.join(ViewerCaps::LOCAL_CURSOR);
    assert!(!shell.sent(late).iter().any(|received| matches!(received, Received::Move(..))));
}
