//! What a shell may rely on, in records and messages, without pixels. From constructed records, to
//! the resulting requests, jobs and messages. Knows session-core's public interface; the simulator
//! asks the harder questions.

use thinc_protocol::command::Encoding;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{Geometry, SessionMessage};
use thinc_protocol::viewer::{
    Ack, Display, Displays, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage,
};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, InputMessage, RecordKind};
use thinc_session_core::{
    Arrangement, Capture, Config, CopyCommand, CursorData, CursorImageOwned, Job, JobResult,
    NoPixels, Plan, RECORD_AGE_MAX, Render, Request, Session, Unavailable, Unpacked, ViewerId,
    Violation,
};

const SIZE: Size = Size { width: 1024, height: 768 };
const TOP: u32 = 0x40_0001;
const OTHER: u32 = 0x40_0002;
const RECT: Rect = Rect::at(100, 100, 8, 16);

struct Shell {
    session: Session,
    now: u64,
    op: u64,
}

fn hello(caps: u32, size: Size) -> ViewerHello {
    ViewerHello { version: 1, caps, size, message_bytes_max: 1 << 20, name: "test".into() }
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config::new("work", SIZE));
        session.handle_attach(SIZE);
        Shell { session, now: 1_000, op: 0 }
    }

    fn join(&mut self) -> ViewerId {
        let id =
            self.session.add_viewer(&hello(ViewerCaps::LOCAL_CURSOR, Size::default()), self.now);
        self.rest(id);
        id
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
        self.session.check_invariants();
    }

    fn draw(&mut self, window: u32, rect: Rect) {
        self.record(
            window,
            RecordKind::Draw {
                dst: DrawableId::SCREEN,
                rect,
                hint: DrawHint::Glyphs,
                alpha: Alpha::Opaque,
            },
        );
    }

    /// The job with so many bytes of commands.
    fn encode(&mut self, job: Job, bytes: usize) {
        let commands = commands(&job, bytes);
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
    }

    /// Sends what may be sent and acknowledges it; returns the kinds of the messages.
    fn transmit(&mut self, id: ViewerId) -> Vec<Received> {
        let mut out = Vec::new();
        self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out);
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        let mut received = Vec::new();
        let mut newest = None;
        while let Some(frame) = deframer.next().unwrap() {
            received.push(match SessionMessage::decode(&frame).unwrap() {
                SessionMessage::Hello(hello) => Received::Hello(hello.name),
                SessionMessage::Geometry(geometry) => Received::Geometry(geometry),
                SessionMessage::Update(update) => {
                    newest = Some(update.seq);
                    Received::Update {
                        echo: update.echo,
                        end_of_frame: update.end_of_frame,
                        after: update.after,
                    }
                }
                SessionMessage::Cursor(_)
                | SessionMessage::CursorBits(_)
                | SessionMessage::CursorColor(_) => Received::Cursor,
                SessionMessage::Cache(_) => panic!("session-core grants no cache"),
                SessionMessage::Clip(message) => {
                    panic!("no viewer here has a clipboard: {message:?}")
                }
                SessionMessage::CursorMove { .. } => Received::CursorMove,
                SessionMessage::CursorShow(shown) => Received::CursorShow(shown),
                SessionMessage::Gamma(_)
                | SessionMessage::RelativeWanted(_)
                | SessionMessage::People(_)
                | SessionMessage::Shared(_)
                | SessionMessage::Invitations(_)
                | SessionMessage::PersonPointer(_)
                | SessionMessage::Name(_)
                | SessionMessage::Graphics(_)
                | SessionMessage::ClipPolicy(_)
                | SessionMessage::File(_)
                | SessionMessage::SoundFormat(_)
                | SessionMessage::Sound(_)
                | SessionMessage::SoundPlayers(_)
                | SessionMessage::MicrophoneWant(_)
                | SessionMessage::Notice(_)
                | SessionMessage::BriefNotice(_) => panic!("no viewer here accepts it"),
                SessionMessage::Pong(number) => Received::Pong(number),
                SessionMessage::Barrier(number) => Received::Barrier(number),
                SessionMessage::Displays(rects) => Received::Displays(rects),
                SessionMessage::InputReceived(input) => Received::InputTaken(input),
                SessionMessage::Close(close) => Received::Close(close.reason.into()),
            });
        }
        if let Some(update) = newest {
            let ack = ViewerMessage::Ack(Ack { update, presented: None });
            self.session.handle_message(id, &ack, self.now + 1_000).unwrap();
        }
        received
    }

    /// Everything is sent.
    fn rest(&mut self, id: ViewerId) -> Vec<Received> {
        self.record(0, RecordKind::Idle);
        let mut received = Vec::new();
        for _ in 0..1_000 {
            while let Some(job) = self.session.poll_job(id, self.now) {
                self.encode(job, 40);
            }
            let more = self.transmit(id);
            if more.is_empty() {
                return received;
            }
            received.extend(more);
            self.now += 1_000;
        }
        panic!("the session sends without limit: {received:?}");
    }

    fn say(&mut self, id: ViewerId, message: ViewerMessage) -> Result<(), Violation> {
        self.session.handle_message(id, &message, self.now)
    }

    fn requests(&mut self) -> Vec<Request> {
        std::iter::from_fn(|| self.session.poll_request(self.now)).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Received {
    Hello(String),
    Geometry(Geometry),
    Update { echo: Option<u32>, end_of_frame: bool, after: u64 },
    Cursor,
    CursorMove,
    CursorShow(bool),
    Pong(u32),
    Barrier(u32),
    Displays(Vec<Rect>),
    InputTaken(u32),
    Close(String),
}

fn echoes(received: &[Received]) -> Vec<u32> {
    received
        .iter()
        .filter_map(
            |received| if let Received::Update { echo, .. } = received { *echo } else { None },
        )
        .collect()
}

#[test]
fn a_viewer_is_sent_everything_in_order() {
    let mut shell = Shell::new();
    let (size, pixels) = (Size { width: 2, height: 2 }, CursorData::Argb(vec![1, 2, 3]));
    shell.session.handle_cursor(CursorImageOwned { size, hot_x: 0, hot_y: 0, pixels });
    let id = shell.session.add_viewer(&hello(ViewerCaps::LOCAL_CURSOR, Size::default()), 0);
    let received = shell.rest(id);
    assert_eq!(received[0], Received::Hello("work".into()));
    assert_eq!(received[1], Received::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }));
    assert_eq!(received[2..4], [Received::Cursor, Received::CursorShow(true)]);
    assert!(
        matches!(received.last(), Some(Received::Update { end_of_frame: true, .. })),
        "{received:?}"
    );
    assert_eq!(
        shell.session.stats(id).unwrap().pixels,
        SIZE.area(),
        "every pixel was committed once"
    );
}

#[test]
fn nothing_but_the_hello_is_sent_before_the_viewer_is_identified() {
    let mut shell = Shell::new();
    let id = shell.session.add_viewer(&hello(ViewerCaps::RESUME_INPUT, Size::default()), 0);
    assert_eq!(shell.rest(id), [Received::Hello("work".into())]);
    assert_eq!(shell.session.poll_deadline(shell.now), None, "and there is no deadline");
    shell.session.set_input_received(id, Some(41));
    let received = shell.rest(id);
    assert_eq!(received[0], Received::InputTaken(41));
    assert_eq!(received[1], Received::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }));
    assert_eq!(shell.session.input_received(id), 41, "until it sends a message");
    let input = Input { seq: 50, event: InputEvent::Char('x') };
    shell.session.handle_message(id, &ViewerMessage::Input(input), shell.now).unwrap();
    assert_eq!(shell.session.input_received(id), 50);
    let other = shell.session.add_viewer(&hello(ViewerCaps::RESUME_INPUT, Size::default()), 0);
    shell.session.set_input_received(other, None);
    assert!(
        !shell.rest(other).iter().any(|received| matches!(received, Received::InputTaken(_))),
        "it was never connected"
    );
    assert_eq!(shell.session.input_received(other), 0);
}

#[test]
fn nothing_follows_the_end_of_a_frame_in_one_chunk() {
    let mut shell = Shell::new();
    let id = shell.join();
    for _ in 0..2 {
        shell.draw(TOP, RECT);
        shell.record(0, RecordKind::Idle);
        let job = shell.session.poll_job(id, shell.now).expect("X sleeps");
        shell.encode(job, 40);
    }
    for _ in 0..2 {
        let received = shell.transmit(id);
        assert!(
            matches!(received[..], [Received::Update { end_of_frame: true, .. }]),
            "one frame at a time: {received:?}"
        );
    }
}

#[test]
fn nothing_is_sent_before_x_sleeps_or_a_record_is_old() {
    let mut shell = Shell::new();
    let id = shell.join();
    shell.draw(TOP, RECT);
    assert_eq!(shell.session.poll_job(id, shell.now), None, "X still draws");
    assert_eq!(shell.session.poll_deadline(shell.now), Some(shell.now + RECORD_AGE_MAX));
    let old = shell.now + RECORD_AGE_MAX;
    let job = shell.session.poll_job(id, old).expect("the record is old");
    assert_eq!(job.region, Region::from(RECT));
    shell.draw(TOP, RECT.translate(50, 0));
    shell.record(0, RecordKind::Idle);
    assert!(shell.session.poll_job(id, shell.now).is_some(), "X sleeps");
    assert_eq!(shell.session.poll_deadline(shell.now), None);
}

#[test]
fn pixels_drawn_a_hundred_times_are_pending_once() {
    let mut shell = Shell::new();
    let id = shell.join();
    let before = shell.session.stats(id).unwrap().pixels;
    for i in 0..100 {
        // Another window in between, so that no pending drawing hides it.
        shell.draw(TOP, RECT);
        shell.draw(OTHER, Rect::at(500 + i % 3, 500, 2, 2));
    }
    shell.rest(id);
    assert_eq!(shell.session.stats(id).unwrap().pixels - before, RECT.area() + 8);
}

#[test]
fn the_first_change_in_the_window_carries_the_key() {
    let mut shell = Shell::new();
    let id = shell.join();
    let key = |seq, down| {
        ViewerMessage::Input(Input { seq, event: InputEvent::Key { code: 30, keysym: 0, down } })
    };
    shell.say(id, key(7, true)).unwrap();
    let Some(Request::Input(InputMessage::Key { seq, keycode: 38, down: true })) =
        shell.session.poll_request(shell.now)
    else {
        panic!("the key goes to the driver");
    };
    shell.draw(TOP, RECT);
    assert_eq!(echoes(&shell.rest(id)), [], "a drawing before the delivery is no echo");
    shell.record(TOP, RecordKind::InputDelivered { seq, window: TOP });
    shell.draw(OTHER, RECT.translate(300, 0));
    assert_eq!(echoes(&shell.rest(id)), [], "another window is no echo");
    shell.draw(TOP, RECT);
    shell.record(0, RecordKind::Idle);
    let job = shell.session.poll_job(id, shell.now).unwrap();
    shell.encode(job, 0);
    assert_eq!(echoes(&shell.rest(id)), [], "a change without a difference is no echo");
    shell.draw(TOP, RECT);
    assert_eq!(echoes(&shell.rest(id)), [7]);
    shell.draw(TOP, RECT);
    assert_eq!(echoes(&shell.rest(id)), [], "once");
}

#[test]
fn a_scroll_is_an_echo_too() {
    let mut shell = Shell::new();
    let id = shell.join();
    let button = InputEvent::Button { button: 1, down: true };
    shell.say(id, ViewerMessage::Input(Input { seq: 3, event: button })).unwrap();
    let Some(Request::Input(InputMessage::Button { seq, .. })) =
        shell.session.poll_request(shell.now)
    else {
        panic!()
    };
    shell.record(TOP, RecordKind::InputDelivered { seq, window: TOP });
    let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
    shell.record(
        TOP,
        RecordKind::Copy { src, dst, rect: Rect::new(0, 0, 200, 200), dx: 0, dy: -10, over: false },
    );
    assert_eq!(echoes(&shell.rest(id)), [3]);
}

#[test]
fn a_barrier_waits_for_earlier_drawings_and_not_for_later_ones() {
    let mut shell = Shell::new();
    let id = shell.join();
    shell.draw(TOP, RECT);
    shell.say(id, ViewerMessage::Barrier(5)).unwrap();
    let [Request::Barrier(driver)] = shell.requests()[..] else { panic!("the driver is asked") };
    assert_eq!(shell.transmit(id), [], "the driver has not answered");
    shell.record(0, RecordKind::Barrier { id: driver });
    assert_eq!(shell.transmit(id), [], "what was drawn has not been sent");
    let job =
        shell.session.poll_job(id, shell.now).expect("a barrier does not wait for X to sleep");
    shell.draw(OTHER, RECT.translate(0, 200));
    assert_eq!(shell.transmit(id), [], "it is not encoded");
    shell.encode(job, 20);
    let received = shell.transmit(id);
    assert!(
        matches!(received[..], [Received::Update { .. }, Received::Barrier(5)]),
        "{received:?}"
    );
}

#[test]
fn barriers_have_a_bound() {
    let mut shell = Shell::new();
    let id = shell.join();
    let results: Vec<_> = (0..17).map(|i| shell.say(id, ViewerMessage::Barrier(i))).collect();
    assert!(results[..16].iter().all(Result::is_ok));
    assert_eq!(results[16], Err(Violation::Barriers(16)));
}

fn resize(size: Size) -> Request {
    Request::Resize(Arrangement::one(size).unwrap())
}

#[test]
fn the_newest_viewer_that_can_resize_controls_the_size() {
    let mut shell = Shell::new();
    let size = |width, height| Size { width, height };
    let one = shell.session.add_viewer(&hello(ViewerCaps::RESIZE, size(800, 600)), 0);
    assert_eq!(shell.requests(), [resize(size(800, 600))]);
    let watcher = shell.session.add_viewer(&hello(0, size(300, 300)), 0);
    assert_eq!(shell.requests(), [], "it cannot");
    let two = shell.session.add_viewer(&hello(ViewerCaps::RESIZE, size(0, 0)), 0);
    assert_eq!(shell.requests(), [], "0 × 0 keeps the size");
    shell.say(one, ViewerMessage::Resize(size(900, 600))).unwrap();
    assert_eq!(shell.requests(), [], "it no longer does");
    shell.now += 100_000;
    shell.say(two, ViewerMessage::Resize(size(10, 20_000))).unwrap();
    assert_eq!(shell.requests(), [resize(size(64, 16_384))], "within the limits");
    shell.now += 100_000;
    shell.session.remove_viewer(two);
    assert_eq!(shell.requests(), [resize(size(900, 600))], "the one before controls it again");
    shell.session.remove_viewer(watcher);
    shell.session.handle_geometry(size(900, 600));
    shell.say(one, ViewerMessage::Resize(size(1, 1))).unwrap();
    shell.say(one, ViewerMessage::Resize(size(900, 600))).unwrap();
    shell.now += 100_000;
    assert_eq!(shell.requests(), [], "only the newest size counts, and the screen has it");
}

#[test]
fn a_window_back_at_its_old_size_undoes_the_request() {
    let mut shell = Shell::new();
    let other = Size { width: 800, height: 600 };
    let one = shell.session.add_viewer(&hello(ViewerCaps::RESIZE, other), shell.now);
    assert_eq!(shell.requests(), [resize(other)]);
    // The driver has not answered, so the screen still has the size that is wanted again now, but
    // not for long.
    shell.now += 100_000;
    shell.say(one, ViewerMessage::Resize(SIZE)).unwrap();
    assert_eq!(shell.requests(), [resize(SIZE)]);
    shell.session.handle_geometry(other);
    shell.session.handle_geometry(SIZE);
    assert_eq!(shell.requests(), []);
}

#[test]
fn the_screen_gets_the_displays_of_the_controlling_viewer() {
    let mut shell = Shell::new();
    let one = shell.session.add_viewer(&hello(ViewerCaps::RESIZE, Size::default()), 0);
    let watcher = shell.session.add_viewer(&hello(0, Size::default()), 0);
    let (_, _) = (shell.rest(one), shell.rest(watcher));
    let pair = [Rect::at(0, 0, 800, 600), Rect::at(800, 0, 400, 600)];
    let displays = |scale_percent, rects: &[Rect]| Displays {
        scale_percent,
        displays: rects
            .iter()
            .map(|&rect| Display { rect, millimetres: Size::default() })
            .collect(),
    };
    // A viewer that does not control the screen is told of it, and requests nothing.
    shell.say(watcher, ViewerMessage::Displays(displays(100, &pair))).unwrap();
    assert_eq!(shell.requests(), []);
    assert_eq!(shell.transmit(watcher), [Received::Displays(vec![SIZE.rect()])]);

    let wanted = Arrangement::of(&displays(150, &pair)).unwrap();
    shell.say(one, ViewerMessage::Displays(displays(150, &pair))).unwrap();
    assert_eq!(shell.requests(), [Request::Resize(wanted.clone())]);
    shell.say(one, ViewerMessage::Displays(displays(150, &pair))).unwrap();
    shell.now += 100_000;
    assert_eq!(shell.requests(), [], "it was asked for");
    shell.session.handle_geometry(wanted.size());
    shell.session.handle_outputs(&pair);
    for viewer in [one, watcher] {
        let received = shell.transmit(viewer);
        assert!(
            matches!(
                &received[..2],
                [Received::Geometry(_), Received::Displays(there)] if *there == pair
            ),
            "{received:?}"
        );
    }
    shell.say(one, ViewerMessage::Displays(displays(150, &pair))).unwrap();
    assert_eq!(shell.requests(), [], "the screen has them");

    // Another scale of the same displays is another request.
    shell.say(one, ViewerMessage::Displays(displays(100, &pair))).unwrap();
    assert_eq!(
        shell.requests(),
        [Request::Resize(Arrangement::of(&displays(100, &pair)).unwrap())]
    );
    // No displays request nothing.
    shell.now += 100_000;
    shell.say(one, ViewerMessage::Displays(displays(100, &[]))).unwrap();
    assert_eq!(shell.requests(), []);
    // An application's own choice of outputs is reported, and stays until the viewer's change.
    let rest = |shell: &mut Shell, id| -> Vec<Received> {
        shell
            .transmit(id)
            .into_iter()
            .filter(|received| matches!(received, Received::Displays(_)))
            .collect()
    };
    rest(&mut shell, watcher);
    shell.session.handle_outputs(&pair[..1]);
    assert_eq!(rest(&mut shell, watcher), [Received::Displays(pair[..1].to_vec())]);
    shell.now += 100_000;
    assert_eq!(shell.requests(), []);
}

#[test]
fn a_flood_of_sizes_reaches_the_driver_ten_times_a_second_and_ends_with_the_last() {
    let mut shell = Shell::new();
    let one = shell.session.add_viewer(&hello(ViewerCaps::RESIZE, Size::default()), shell.now);
    let mut asked = Vec::new();
    for i in 0..1_000 {
        shell.say(one, ViewerMessage::Resize(Size { width: 400 + i, height: 300 })).unwrap();
        asked.extend(shell.requests());
        shell.now += 1_000;
    }
    assert!((9..=11).contains(&asked.len()), "{} sizes in a second", asked.len());
    let at = shell.session.poll_deadline(shell.now).expect("the last one waits for its time");
    assert!(at <= shell.now + 100_000);
    shell.now = at;
    assert_eq!(shell.requests(), [resize(Size { width: 1_399, height: 300 })]);
    assert_eq!(shell.session.poll_deadline(shell.now + 3_000), None, "nothing waits any more");
}

#[test]
fn a_flood_of_resyncs_sends_the_screen_once_a_second_and_delays_no_barrier() {
    let mut shell = Shell::new();
    let id = shell.join();
    let mut area = 0;
    for _ in 0..10_000 {
        shell.say(id, ViewerMessage::Resync).unwrap();
        while let Some(job) = shell.session.poll_job(id, shell.now) {
            area += job.region.area();
            shell.encode(job, 40);
        }
        shell.transmit(id);
        shell.now += 1_000;
    }
    let screens = area / SIZE.area();
    assert!((11..=14).contains(&screens), "{screens} screens in ten seconds");

    shell.now += 1_000_000;
    shell.rest(id);
    shell.now += 2_000_000;
    for _ in 0..2 {
        shell.say(id, ViewerMessage::Resync).unwrap();
        assert!(!shell.rest(id).is_empty() || !shell.session.is_drained());
    }
    shell.say(id, ViewerMessage::Barrier(5)).unwrap();
    let [Request::Barrier(driver)] = shell.requests()[..] else { panic!("the driver is asked") };
    shell.record(0, RecordKind::Barrier { id: driver });
    let received = shell.rest(id);
    assert!(!received.contains(&Received::Barrier(5)), "the last resync still waits: {received:?}");
    assert!(!shell.session.is_drained());
    shell.now = shell.session.poll_deadline(shell.now).expect("the resync waits for its time");
    let received = shell.rest(id);
    assert!(
        matches!(received[..], [Received::Update { .. }, .., Received::Barrier(5)]),
        "{received:?}"
    );
    assert!(shell.session.is_drained());
}

#[test]
fn a_flood_of_messages_ends_the_connection_and_those_of_a_blocked_path_do_not() {
    let mut shell = Shell::new();
    let one = shell.join();
    // Half a minute of everything a person can do, at once.
    for number in 0..100_000 {
        shell.say(one, ViewerMessage::Ping(number)).unwrap();
    }
    let mut number = 0;
    let violation = loop {
        number += 1;
        shell.now += 10;
        match shell.say(one, ViewerMessage::Ping(number)) {
            Ok(()) => {
                assert!(number < 1_000_000, "a hundred thousand a second go on without limit")
            }
            Err(violation) => break violation,
        }
    };
    assert_eq!(violation, Violation::MessageFlood(20_000));
    // A thousand times a second may go on.
    let other = shell.join();
    for number in 0..60_000 {
        shell.now += 1_000;
        shell.say(other, ViewerMessage::Ping(number)).unwrap();
    }
}

#[test]
fn the_largest_screen_has_few_viewers_and_many_viewers_no_larger_screen() {
    let mut shell = Shell::new();
    let largest = Size { width: 8192, height: 8192 };
    for _ in 0..4 {
        assert!(shell.session.has_room());
        shell.session.add_viewer(&hello(ViewerCaps::RESIZE, Size::default()), shell.now);
    }
    let newest = shell.session.controller().unwrap();
    shell.say(newest, ViewerMessage::Resize(largest)).unwrap();
    assert_eq!(shell.requests(), [], "four viewers of it would need 1 GiB");
    shell.session.remove_viewer(newest);
    let newest = shell.session.controller().unwrap();
    shell.say(newest, ViewerMessage::Resize(largest)).unwrap();
    assert_eq!(shell.requests(), [resize(largest)]);
    shell.session.handle_geometry(largest);
    assert!(!shell.session.has_room());
}

/// Commands that fill the job's region and have about so many bytes more; none for none.
fn commands(job: &Job, bytes: usize) -> Commands {
    let mut commands = Commands::default();
    if let Some(&rect) = job.region.rects().first().filter(|_| bytes > 0) {
        let mut writer = commands.writer();
        writer.sfill(&job.region, 7);
        writer.raw(rect, Encoding::Predicted, &vec![7; bytes]);
    }
    commands
}

/// A shell without pixels, and what was drawn when it read them: before and after each read.
#[derive(Debug)]
struct Reads {
    left: Vec<(u64, u64)>,
}

impl Reads {
    fn new(left: Vec<(u64, u64)>) -> Reads {
        Reads { left }
    }
}

impl Render for Reads {
    fn reset(&mut self, _size: Size) {}
    fn forget(&mut self, _region: &Region) {}
    fn copy(&mut self, _copy: &CopyCommand) {}
    fn read(&mut self, _job: &Job) -> Result<Capture, Unavailable> {
        let (before, tag) = self.left.remove(0);
        Ok(Capture { begin_before: Some(before), tag })
    }
    fn plan(&mut self, _job: &Job) -> Plan<'_> {
        Plan::default()
    }
}

#[test]
fn pixels_read_again_may_contain_any_op_in_between() {
    let mut shell = Shell::new();
    let id = shell.join();
    let rect = Rect::at(100, 100, 200, 200);
    shell.draw(TOP, rect);
    shell.record(0, RecordKind::Idle);
    let job = shell.session.poll_job(id, shell.now).expect("something was drawn");
    // X drew while the pixels were read; before they are read again it copies, and draws again
    // where it copied from.
    let op = shell.op;
    let mut reads = Reads::new(vec![(op, op + 1), (op + 3, op + 3)]);
    let planned = shell.session.render(job, &mut reads).expect("it is new");
    assert_eq!(reads.left, [], "a torn capture is read again");
    let commands = commands(planned.job(), 40);
    shell.session.complete(planned, JobResult::encoded(&commands));
    shell.draw(OTHER, RECT.translate(500, 500));
    shell.transmit(id);
    let (dst, to) = (DrawableId::SCREEN, Rect::at(500, 100, 200, 200));
    shell.record(TOP, RecordKind::Copy { src: dst, dst, rect: to, dx: 400, dy: 0, over: false });
    shell.rest(id);
    let stats = shell.session.stats(id).unwrap();
    assert_eq!(stats.copies, 0, "the viewer's source has what was drawn after the copy");
}

#[test]
fn pixels_that_x_changes_during_each_read_are_kept_in_the_end() {
    let mut shell = Shell::new();
    let id = shell.join();
    shell.draw(TOP, Rect::at(100, 100, 200, 200));
    shell.record(0, RecordKind::Idle);
    let job = shell.session.poll_job(id, shell.now).expect("something was drawn");
    let mut reads = Reads::new((shell.op..).take(5).map(|op| (op, op + 1)).collect());
    let planned = shell.session.render(job, &mut reads);
    assert!(planned.is_some() && reads.left.len() == 1, "after three more tries: {reads:?}");
}

#[test]
fn a_driver_with_impossible_ops_costs_pixels_and_nothing_else() {
    let mut shell = Shell::new();
    let id = shell.join();
    for _ in 0..100 {
        shell.draw(TOP, RECT);
        shell.record(0, RecordKind::Idle);
        let job = shell.session.poll_job(id, shell.now).expect("something was drawn");
        let commands = commands(&job, 20);
        let planned = shell.session.render(job, &mut Reads::new(vec![(u64::MAX, u64::MAX)]));
        shell.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
        shell.transmit(id);
        shell.now += 1_000;
    }
    shell.session.check_invariants();
}

#[test]
fn a_viewers_keys_are_released_when_it_leaves() {
    let mut shell = Shell::new();
    let id = shell.join();
    let events = [
        InputEvent::Key { code: 30, keysym: 0, down: true },
        InputEvent::Button { button: 1, down: true },
        InputEvent::Button { button: 1, down: true },
    ];
    for (seq, event) in (1..).zip(events) {
        shell.say(id, ViewerMessage::Input(Input { seq, event })).unwrap();
    }
    assert_eq!(shell.requests().len(), 2, "a pressed button is not pressed again");
    shell.session.remove_viewer(id);
    let requests = shell.requests();
    assert!(
        matches!(
            requests[..],
            [
                Request::Input(InputMessage::Key { keycode: 38, down: false, .. }),
                Request::Input(InputMessage::Button { button: 1, down: false, .. })
            ]
        ),
        "{requests:?}"
    );
}

#[test]
fn motion_keeps_the_newest_position() {
    let mut shell = Shell::new();
    let id = shell.join();
    for x in 0..100 {
        let event = InputEvent::Motion { x: x * 20, y: 5 };
        shell.say(id, ViewerMessage::Input(Input { seq: u32::from(x), event })).unwrap();
    }
    let requests = shell.requests();
    let [Request::Input(InputMessage::PointerMove { x: 1023, y: 5, .. })] = requests[..] else {
        panic!("the last, inside the screen: {requests:?}");
    };
}

#[test]
fn buttons_and_the_wheel_act_where_their_viewers_pointer_is() {
    let mut shell = Shell::new();
    let (first, second) = (shell.join(), shell.join());
    let mut seq = 0;
    let mut requests = |shell: &mut Shell, id, events: &[InputEvent]| -> Vec<InputMessage> {
        for &event in events {
            seq += 1;
            shell.say(id, ViewerMessage::Input(Input { seq, event })).unwrap();
        }
        let inputs = shell.requests().into_iter();
        inputs
            .map(|request| match request {
                Request::Input(InputMessage::PointerMove { x, y, .. }) => {
                    InputMessage::PointerMove { seq: 0, x, y }
                }
                Request::Input(InputMessage::Button { button, down, .. }) => {
                    InputMessage::Button { seq: 0, button, down }
                }
                Request::Input(InputMessage::Scroll { dx, dy, .. }) => {
                    InputMessage::Scroll { seq: 0, dx, dy }
                }
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let to = |x, y| InputMessage::PointerMove { seq: 0, x, y };
    let button = |down| InputMessage::Button { seq: 0, button: 1, down };
    let [press, release] = [true, false].map(|down| InputEvent::Button { button: 1, down });
    let moves = |x, y| InputEvent::Motion { x, y };
    assert_eq!(requests(&mut shell, second, &[press, release]), [button(true), button(false)]);
    assert_eq!(requests(&mut shell, first, &[moves(161, 252)]), [to(161, 252)]);
    assert_eq!(requests(&mut shell, second, &[moves(700, 500)]), [to(700, 500)]);
    assert_eq!(requests(&mut shell, first, &[press]), [to(161, 252), button(true)]);
    assert_eq!(requests(&mut shell, first, &[release]), [button(false)], "it is there already");
    let wheel = InputEvent::Scroll { dx: 0, dy: 120 };
    let notch = InputMessage::Scroll { seq: 0, dx: 0, dy: 120 };
    assert_eq!(requests(&mut shell, second, &[wheel]), [to(700, 500), notch]);
    // An application moves the pointer: it is there for both.
    shell.session.handle_cursor_move(30, 40);
    assert_eq!(requests(&mut shell, first, &[press]), [button(true)]);
    assert_eq!(requests(&mut shell, second, &[moves(5, 6)]), [to(5, 6)]);
    assert_eq!(requests(&mut shell, first, &[release]), [to(30, 40), button(false)]);
    // The viewer that moved it last leaves.
    shell.session.remove_viewer(first);
    assert_eq!(requests(&mut shell, second, &[press]), [to(5, 6), button(true)]);
}

#[test]
fn a_flood_of_input_ends_its_viewer() {
    let mut shell = Shell::new();
    let id = shell.join();
    let event = InputEvent::Motion { x: 1, y: 1 };
    let flood =
        (0..5_000).find_map(|seq| shell.say(id, ViewerMessage::Input(Input { seq, event })).err());
    assert_eq!(flood, Some(Violation::InputFlood(4_000)));
}

/// X takes no input meanwhile, and releases pass the bound.
#[test]
fn a_flood_of_releases_fills_nothing() {
    let mut shell = Shell::new();
    let id = shell.join();
    for seq in 0..10_000 {
        shell.now += 1_000;
        shell.say(id, ViewerMessage::Input(Input { seq, event: InputEvent::ReleaseAll })).unwrap();
    }
    let event = InputEvent::Key { code: 30, keysym: 0x61, down: true };
    shell
        .say(id, ViewerMessage::Input(Input { seq: 10_000, event }))
        .expect("there is room for a key");
}

#[test]
fn an_acknowledgement_of_an_unsent_update_is_a_violation() {
    let mut shell = Shell::new();
    let id = shell.join();
    let newest = shell.session.stats(id).unwrap().updates;
    let ack = ViewerMessage::Ack(Ack { update: newest + 1, presented: None });
    assert_eq!(shell.say(id, ack), Err(Violation::AckAhead { acked: newest + 1, newest }));
}

#[test]
fn a_viewers_requests_to_the_driver_end_with_it() {
    let mut shell = Shell::new();
    let (gone, stays) = (shell.join(), shell.join());
    shell.say(stays, ViewerMessage::Barrier(1)).unwrap();
    for number in 0..16 {
        shell.say(gone, ViewerMessage::Barrier(number)).unwrap();
    }
    shell.session.remove_viewer(gone);
    assert!(matches!(shell.requests()[..], [Request::Barrier(_)]), "that of the viewer that stays");
}

#[test]
fn a_new_driver_gets_the_unanswered_barriers() {
    let mut shell = Shell::new();
    let id = shell.join();
    shell.say(id, ViewerMessage::Barrier(9)).unwrap();
    let asked = shell.requests();
    shell.session.handle_attach(SIZE);
    assert_eq!(shell.requests(), asked);
    let [Request::Barrier(number)] = asked[..] else { panic!("{asked:?}") };
    shell.record(0, RecordKind::Barrier { id: number });
    assert_eq!(shell.rest(id).last(), Some(&Received::Barrier(9)));
}

#[test]
fn pings_are_answered_and_bounded_and_a_close_is_the_last_message() {
    let mut shell = Shell::new();
    let id = shell.join();
    (0..70).for_each(|number| shell.say(id, ViewerMessage::Ping(number)).unwrap());
    let pongs: Vec<Received> = (6..70).map(Received::Pong).collect();
    assert_eq!(shell.transmit(id), pongs);
    shell.draw(TOP, RECT);
    shell.session.close_viewer(
        id,
        thinc_protocol::session::CloseCode::SessionEnded,
        "the command ended",
    );
    assert!(!shell.session.is_closed(id));
    assert_eq!(shell.rest(id), [Received::Close("the command ended".into())]);
    assert!(shell.session.is_closed(id));
}

#[test]
fn a_spinning_cursor_is_acknowledged_too() {
    let mut shell = Shell::new();
    let id = shell.join();
    let mut updates = 0;
    for i in 0..20u8 {
        let (size, pixels) = (Size { width: 32, height: 32 }, CursorData::Argb(vec![i; 1_000]));
        shell.session.handle_cursor(CursorImageOwned { size, hot_x: 0, hot_y: 0, pixels });
        shell.session.handle_cursor_move(5, 5);
        let received = shell.transmit(id);
        assert!(
            received.contains(&Received::Cursor) && received.contains(&Received::CursorMove),
            "{received:?}"
        );
        updates +=
            received.iter().filter(|received| matches!(received, Received::Update { .. })).count();
    }
    assert!((6..=10).contains(&updates), "an update follows every 2 KiB: {updates}");
}

#[test]
fn a_cursor_larger_than_the_budget_does_not_stop_later_messages() {
    let mut shell = Shell::new();
    let id = shell.join();
    let (size, pixels) = (Size { width: 256, height: 256 }, CursorData::Argb(vec![1; 256 * 1024]));
    shell.session.handle_cursor(CursorImageOwned { size, hot_x: 0, hot_y: 0, pixels });
    shell.draw(TOP, RECT);
    let received = shell.rest(id);
    assert!(
        received.iter().filter(|received| matches!(received, Received::Update { .. })).count() >= 2,
        "{received:?}"
    );
    assert_eq!(shell.session.stats(id).unwrap().in_flight, 0);
    assert!(shell.session.is_drained());
}
