//! What a session sends for videos, to viewers of every kind: when streams begin, wait, are refused
//! and end, and what is no video. From records and reports, through the public interface, to
//! commands on the wire. Knows no pixels: jobs are answered with made-up commands.

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{DecoderState, FrameCodec, FrameData, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind, VideoLayout};
use thinc_session_core::{
    Coding, Config, Job, JobResult, NoPixels, PlannedJob, Session, Unpacked, VideoFrame,
    VideoOrigin, ViewerId,
};

const SIZE: Size = Size { width: 640, height: 480 };
const PLACE: Rect = Rect::at(100, 100, 320, 240);
const SCREEN: DrawableId = DrawableId::SCREEN;
const VIDEO: u32 = ViewerCaps::VIDEO | ViewerCaps::H264;

struct Shell {
    session: Session,
    now: Micros,
    op: u64,
}

impl Shell {
    fn new() -> Shell {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("video", SIZE) });
        session.handle_attach(SIZE);
        Shell { session, now: 1_000, op: 0 }
    }

    fn join(&mut self, caps: u32) -> ViewerId {
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "tests".into(),
        };
        let id = self.session.add_viewer(&hello, self.now);
        self.turn(id);
        id
    }

    fn record(&mut self, kind: RecordKind) {
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
        self.session.check_invariants();
    }

    fn frame(&mut self) {
        self.op += 1;
        let size = Size { width: 160, height: 120 };
        let (layout, crop, place) = (VideoLayout::Yuv420, size.rect(), PLACE);
        let what = DrawHint::Video { port: 2, layout, size, crop, place };
        self.record(RecordKind::Draw {
            dst: SCREEN,
            rect: PLACE,
            hint: what,
            alpha: Alpha::Opaque,
        });
        self.record(RecordKind::Idle);
    }

    fn draw(&mut self, rect: Rect) {
        self.op += 1;
        self.record(RecordKind::Draw {
            dst: SCREEN,
            rect,
            hint: DrawHint::Image,
            alpha: Alpha::Opaque,
        });
        self.record(RecordKind::Idle);
    }

    /// Everything for a viewer is sent and acknowledged: returns the jobs, and the video commands.
    fn turn(&mut self, id: ViewerId) -> (Vec<Finished>, Vec<String>) {
        let (mut jobs, mut received) = (Vec::new(), Vec::new());
        loop {
            let job = self.session.poll_job(id, self.now);
            let has_job = job.is_some();
            jobs.extend(job.map(|job| self.finish(job)));
            let mut out = Vec::new();
            let any = self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out);
            self.hear(id, &out, &mut received);
            if !has_job && !any {
                return (jobs, received);
            }
        }
    }

    fn render(&mut self, job: Job) -> PlannedJob {
        self.session.render(job, &mut NoPixels { tag: self.op }).expect("it is new")
    }

    fn finish(&mut self, job: Job) -> Finished {
        let planned = self.render(job);
        let Job { region, forget, video, .. } = planned.job();
        let finished = Finished { region: region.clone(), forget: forget.clone(), video: *video };
        let commands = answer(planned.job());
        self.session.complete(planned, JobResult::encoded(&commands));
        finished
    }

    fn hear(&mut self, id: ViewerId, bytes: &[u8], received: &mut Vec<String>) {
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(bytes);
        let mut newest = None;
        while let Some(frame) = deframer.next().unwrap() {
            let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() else {
                continue;
            };
            newest = Some(update.seq);
            received.extend(
                CommandReader::new(update.commands, SIZE)
                    .filter_map(|command| words(&command.unwrap())),
            );
        }
        if let Some(update) = newest {
            self.say(id, &ViewerMessage::Ack(Ack { update, presented: None }));
        }
    }

    fn say(&mut self, id: ViewerId, message: &ViewerMessage) {
        self.session.handle_message(id, message, self.now + 1_000).unwrap();
        self.now += 1_000;
    }

    fn video(&mut self, id: ViewerId, stream: u16, decoder: DecoderState) {
        self.say(id, &ViewerMessage::Video(VideoStatus { id: stream, decoder }));
    }

    /// A frame is drawn and everything is sent: returns the commands, and how the frame was coded.
    fn play(&mut self, id: ViewerId) -> (Option<Coding>, Vec<String>) {
        self.now += 40_000;
        self.frame();
        let (jobs, received) = self.turn(id);
        (jobs.iter().find_map(|job| job.video).map(|frame| frame.coding), received)
    }

    /// The area is drawn and reported to move so often: returns the commands.
    fn move_area(&mut self, id: ViewerId, area: Rect, times: u32) -> (Vec<Finished>, Vec<String>) {
        let (mut jobs, mut received) = (Vec::new(), Vec::new());
        for _ in 0..times {
            self.now += 40_000;
            self.draw(area);
            let (more_jobs, more) = self.turn(id);
            jobs.extend(more_jobs);
            received.extend(more);
            self.session.handle_video_areas(id, &[area], self.now);
        }
        let (more_jobs, more) = self.turn(id);
        jobs.extend(more_jobs);
        received.extend(more);
        (jobs, received)
    }
}

/// What a job was about.
struct Finished {
    region: Region,
    forget: Region,
    video: Option<VideoFrame>,
}

/// What an encoder would make of a job.
fn answer(job: &Job) -> Commands {
    let mut out = Commands::default();
    if let Some(frame) = job.video {
        let data = [0; 400];
        let picture = match frame.coding {
            Coding::Plain => FrameData::Plain {
                layout: thinc_protocol::video::SampleLayout::Yuv420,
                data: &data,
            },
            Coding::H264 { keyframe: key, .. } => FrameData::h264(key, &data),
        };
        let (id, time, clip) = (frame.stream, frame.time, job.region.clone());
        Command::Video(VideoCommand::Next { id, time, clip, frame: picture }).append_to(&mut out);
    } else if !job.region.is_empty() {
        Command::Sfill { region: job.region.clone(), color: 0 }.append_to(&mut out);
    }
    out
}

fn words(command: &Command<'_>) -> Option<String> {
    let Command::Video(command) = command else { return None };
    let id = command.id();
    Some(match command {
        VideoCommand::Init { place, .. } => {
            format!("init {id} {}x{}", place.width(), place.height())
        }
        VideoCommand::Next {
            frame: FrameData::Plain { .. } | FrameData::Pixels { .. }, ..
        } => {
            format!("plain {id}")
        }
        VideoCommand::Next { frame: FrameData::Coded { keyframe: key, .. }, .. } => {
            format!("{} {id}", if key.is_some() { "key" } else { "next" })
        }
        VideoCommand::Move { .. } => format!("move {id}"),
        VideoCommand::SourceSize { .. } => format!("source {id}"),
        VideoCommand::PlaceSize { .. } => format!("size {id}"),
        VideoCommand::End { .. } => format!("end {id}"),
    })
}

#[test]
fn a_viewer_without_video_gets_pixels() {
    let mut shell = Shell::new();
    let id = shell.join(0);
    for _ in 0..10 {
        assert_eq!(shell.play(id), (None, vec![]));
    }
    shell.move_area(id, PLACE, 40);
    shell.video(id, 3, DecoderState::Ready);
    assert_eq!(shell.play(id), (None, vec![]), "and its late report is no error");
}

#[test]
fn a_stream_is_offered_becomes_ready_and_ends_when_the_port_stops() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    assert_eq!(
        shell.play(id),
        (None, vec!["init 0 320x240".into()]),
        "it is pixels until it is ready"
    );
    assert_eq!(shell.play(id), (None, vec![]));
    shell.video(id, 0, DecoderState::Ready);
    let (coding, received) = shell.play(id);
    assert!(coding.is_some() && received.len() == 1, "{coding:?} {received:?}");
    shell.record(RecordKind::VideoStopped { port: 2 });
    // Its number is not reused before the viewer has received the end.
    let mut out = Vec::new();
    while shell.session.poll_job(id, shell.now).is_some() {}
    shell.session.poll_transmit(id, shell.now, &mut Unpacked, &mut out);
    shell.frame();
    while let Some(job) = shell.session.poll_job(id, shell.now) {
        shell.finish(job);
    }
    shell.session.poll_transmit(id, shell.now, &mut Unpacked, &mut out);
    let mut received = Vec::new();
    shell.hear(id, &out, &mut received);
    assert_eq!(received, ["end 0", "init 1 320x240"]);
    shell.record(RecordKind::VideoStopped { port: 2 });
    shell.turn(id);
    assert_eq!(shell.play(id).1, ["init 0 320x240"], "once it has, it may be");
}

#[test]
fn frames_say_whether_their_viewer_decodes_av1_now() {
    let mut shell = Shell::new();
    let (one, other) = (shell.join(VIDEO), shell.join(VIDEO));
    for id in [one, other] {
        shell.play(id);
        shell.video(id, 0, DecoderState::Ready);
        shell.play(id);
    }
    let steps = [
        (None, 0, false),
        (Some(4), 0, true),
        (Some(0), 0, false),
        // What was taken back is not sent again at once. Nobody has chosen 4:4:4.
        (Some(15), 0, false),
        (None, 5_000_000, true),
        (None, 0, true),
    ];
    for (codecs, pause, takes) in steps {
        shell.now += pause;
        if let Some(codecs) = codecs {
            shell.say(one, &ViewerMessage::VideoCodecs(codecs));
        }
        shell.now += 40_000;
        shell.frame();
        for (id, takes) in [(one, takes), (other, false)] {
            let (jobs, _) = shell.turn(id);
            let frames: Vec<_> = jobs.iter().filter_map(|job| job.video).collect();
            let [frame] = frames[..] else { panic!("one frame of the video: {frames:?}") };
            let expected = if takes { FrameCodec::Av1.bit() } else { 0 };
            assert_eq!(frame.codecs, expected, "{codecs:?}");
        }
    }
}

/// Sound is synchronised by the time at which frames were drawn, on one clock for all streams,
/// however long they waited.
#[test]
fn frames_carry_the_time_at_which_they_were_drawn() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    let area = Rect::at(440, 300, 160, 120);
    shell.play(id);
    shell.video(id, 0, DecoderState::Ready);
    shell.move_area(id, area, 40);
    shell.video(id, 1, DecoderState::Ready);
    shell.move_area(id, area, 2);
    for _ in 0..3 {
        shell.now += 40_000;
        let drawn = shell.now;
        shell.frame();
        shell.now += 7_000;
        shell.draw(area);
        shell.now += 20_000;
        let mut times: Vec<(u16, Micros)> = shell
            .turn(id)
            .0
            .iter()
            .filter_map(|job| job.video.map(|frame| (frame.stream, frame.time)))
            .collect();
        times.sort();
        assert_eq!(times, [(0, drawn), (1, drawn + 7_000)]);
        shell.session.handle_video_areas(id, &[area], shell.now);
    }
}

#[test]
fn a_refusal_ends_a_stream_for_a_while_and_longer_each_time() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    let mut pauses = Vec::new();
    shell.play(id);
    for _ in 0..3 {
        let stream =
            (0..16).find(|&stream| shell.session.has_video(id, stream)).expect("it was begun");
        let refused = shell.now;
        shell.video(id, stream, DecoderState::Refused);
        while !(0..16).any(|stream| shell.session.has_video(id, stream)) {
            shell.play(id);
        }
        pauses.push((shell.now - refused) / 1_000_000);
    }
    assert_eq!(pauses, [2, 4, 8], "seconds");
}

#[test]
fn the_frame_of_a_failed_stream_is_sent_as_pixels() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    shell.play(id);
    shell.video(id, 0, DecoderState::Ready);
    shell.now += 40_000;
    shell.frame();
    let job = shell.session.poll_job(id, shell.now).expect("the frame is sent");
    let planned = shell.render(job);
    shell.session.complete(planned, JobResult::VideoFailed);
    let (jobs, received) = shell.turn(id);
    assert_eq!(received, ["end 0"]);
    let all: Region = jobs.iter().flat_map(|job| job.region.rects().to_vec()).collect();
    let forgotten: Region = jobs.iter().flat_map(|job| job.forget.rects().to_vec()).collect();
    assert_eq!((all, forgotten), (PLACE.into(), PLACE.into()));
}

#[test]
fn each_viewer_has_streams_of_its_own() {
    let mut shell = Shell::new();
    let (one, two) = (shell.join(VIDEO), shell.join(VIDEO));
    shell.play(one);
    shell.turn(two);
    shell.video(one, 0, DecoderState::Ready);
    shell.now += 40_000;
    shell.frame();
    let is_frame = |jobs: &[Finished]| jobs.iter().any(|job| job.video.is_some());
    assert!(is_frame(&shell.turn(one).0));
    assert!(!is_frame(&shell.turn(two).0), "its decoder is not ready");
    shell.video(two, 0, DecoderState::Refused);
    assert!(shell.session.has_video(one, 0) && !shell.session.has_video(two, 0));
}

#[test]
fn an_area_that_moves_for_long_enough_is_a_stream_until_it_is_at_rest() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    let (_, received) = shell.move_area(id, PLACE, 6);
    assert_eq!(received, [""; 0], "a quarter of a second is too short");
    let (_, received) = shell.move_area(id, PLACE, 6);
    assert_eq!(received, ["init 0 320x240"]);
    shell.video(id, 0, DecoderState::Ready);
    let (jobs, received) = shell.move_area(id, PLACE, 3);
    assert_eq!(
        received,
        ["key 0", "next 0", "next 0"],
        "never plain: its samples are made of pixels"
    );
    let areas =
        jobs.iter().filter_map(|job| job.video).filter(|frame| frame.origin == VideoOrigin::Area);
    assert_eq!(areas.count(), 3);
    let deadline = shell.session.poll_deadline(shell.now).expect("it is at rest for some time");
    assert!(deadline > shell.now && deadline <= shell.now + 500_000, "{} us", deadline - shell.now);
    shell.now += 600_000;
    let (_, received) = shell.turn(id);
    assert_eq!(received, ["end 0"]);
    assert!(!shell.session.has_video(id, 0));
}

#[test]
fn a_small_scrolling_or_pausing_area_is_no_video() {
    let mut shell = Shell::new();
    let id = shell.join(VIDEO);
    assert_eq!(
        shell.move_area(id, Rect::at(10, 10, 400, 20), 60).1,
        [""; 0],
        "a line that is typed"
    );
    assert_eq!(shell.move_area(id, Rect::at(10, 10, 60, 60), 60).1, [""; 0], "a spinner");
    for _ in 0..20 {
        assert_eq!(shell.move_area(id, PLACE, 3).1, [""; 0], "a blinking area");
        shell.now += 300_000;
    }
    for _ in 0..30 {
        let above = Rect { y2: PLACE.y2 - 20, ..PLACE };
        shell.op += 1;
        shell.record(RecordKind::Copy {
            src: SCREEN,
            dst: SCREEN,
            rect: above,
            dx: 0,
            dy: -20,
            over: false,
        });
        assert_eq!(shell.move_area(id, PLACE, 2).1, [""; 0], "a scrolled area");
    }
}
