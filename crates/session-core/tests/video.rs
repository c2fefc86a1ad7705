//! What a session says of videos, to viewers of every kind: when streams begin, wait, are refused and end, and what is none.
//! From records and reports, through the public face, to commands on the wire.
//! Knows no pixels: jobs are answered with made-up commands.

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::frame::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{Picture, Readiness, VideoCommand, VideoState};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind, VideoLayout};
use thinc_session_core::{Coding, Config, Job, Session, Unpacked, VideoOrigin, ViewerId};

const SIZE: Size = Size { width: 640, height: 480 };
const PLACE: Rect = Rect::at(100, 100, 320, 240);
const SCREEN: DrawableId = DrawableId::SCREEN;
const VIDEO: u32 = ViewerCaps::VIDEO | ViewerCaps::H264;

struct Desk {
    session: Session,
    now: Micros,
    op: u64,
}

impl Desk {
    fn new() -> Desk {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("video", SIZE) });
        session.handle_attach(SIZE);
        Desk { session, now: 1_000, op: 0 }
    }

    fn join(&mut self, caps: u32) -> ViewerId {
        let hello =
            ViewerHello { version: 1, caps, size: Size::default(), frame_bytes_max: 1 << 24, name: "tests".into() };
        let id = self.session.add_viewer(&hello, self.now);
        self.turn(id);
        id
    }

    fn record(&mut self, kind: RecordKind) {
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
        self.session.check_invariants();
    }

    fn frame(&mut self) {
        self.op += 1;
        let size = Size { width: 160, height: 120 };
        let (layout, crop, place) = (VideoLayout::Yuv420, size.rect(), PLACE);
        let what = Drawn::Video { port: 2, layout, size, crop, place };
        self.record(RecordKind::Draw { dst: SCREEN, rect: PLACE, what, alpha: Alpha::Opaque });
        self.record(RecordKind::Idle);
    }

    fn draw(&mut self, rect: Rect) {
        self.op += 1;
        self.record(RecordKind::Draw { dst: SCREEN, rect, what: Drawn::Image, alpha: Alpha::Opaque });
        self.record(RecordKind::Idle);
    }

    /// All that a viewer has to be sent goes, and is acknowledged: the jobs, and what was said of videos.
    fn turn(&mut self, id: ViewerId) -> (Vec<Job>, Vec<String>) {
        let (mut jobs, mut said) = (Vec::new(), Vec::new());
        loop {
            let job = self.session.poll_job(id, self.now);
            if let Some(job) = &job {
                self.session.handle_snapshot(id, job.id, None, self.op);
                self.session.handle_encoded(id, job.id, &answer(job));
                jobs.push(job.clone());
            }
            let mut out = Vec::new();
            let any = self.session.poll_transmit(id, self.now, &mut Unpacked, &mut out);
            self.hear(id, &out, &mut said);
            if job.is_none() && !any {
                return (jobs, said);
            }
        }
    }

    fn hear(&mut self, id: ViewerId, bytes: &[u8], said: &mut Vec<String>) {
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(bytes);
        let mut newest = None;
        while let Some(frame) = deframer.next().unwrap() {
            let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() else { continue };
            newest = Some(update.seq);
            said.extend(CommandReader::new(update.commands, SIZE).filter_map(|command| words(&command.unwrap())));
        }
        if let Some(update) = newest {
            self.say(id, &ViewerMessage::Ack(Ack { update, presented: None }));
        }
    }

    fn say(&mut self, id: ViewerId, message: &ViewerMessage) {
        self.session.handle_message(id, message, self.now + 1_000).unwrap();
        self.now += 1_000;
    }

    fn video(&mut self, id: ViewerId, stream: u16, readiness: Readiness) {
        self.say(id, &ViewerMessage::Video(VideoState { id: stream, readiness }));
    }

    /// A frame is drawn and all of it goes: what was said, and how the picture was coded.
    fn play(&mut self, id: ViewerId) -> (Option<Coding>, Vec<String>) {
        self.now += 40_000;
        self.frame();
        let (jobs, said) = self.turn(id);
        (jobs.iter().find_map(|job| job.video).map(|frame| frame.coding), said)
    }

    /// The area is drawn, and told to move, so often: what was said.
    fn move_area(&mut self, id: ViewerId, area: Rect, times: u32) -> (Vec<Job>, Vec<String>) {
        let (mut jobs, mut said) = (Vec::new(), Vec::new());
        for _ in 0..times {
            self.now += 40_000;
            self.draw(area);
            let (more_jobs, more) = self.turn(id);
            jobs.extend(more_jobs);
            said.extend(more);
            self.session.handle_moving(id, &[area], self.now);
        }
        let (more_jobs, more) = self.turn(id);
        jobs.extend(more_jobs);
        said.extend(more);
        (jobs, said)
    }
}

/// What an encoder would make of a job.
fn answer(job: &Job) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(frame) = job.video {
        let data = [0; 400];
        let picture = match frame.coding {
            Coding::Plain => Picture::Plain { layout: thinc_protocol::video::Layout::Yuv420, data: &data },
            Coding::H264 { key, .. } => Picture::Coded { key, data: &data },
        };
        let (id, time, clip) = (frame.stream, frame.time, job.region.clone());
        Command::Video(VideoCommand::Next { id, time, clip, picture }).encode(&mut out);
    } else if !job.region.is_empty() {
        Command::Sfill { region: job.region.clone(), color: 0 }.encode(&mut out);
    }
    out
}

fn words(command: &Command<'_>) -> Option<String> {
    let Command::Video(command) = command else { return None };
    let id = command.id();
    Some(match command {
        VideoCommand::Init { place, .. } => format!("init {id} {}x{}", place.width(), place.height()),
        VideoCommand::Next { picture: Picture::Plain { .. }, .. } => format!("plain {id}"),
        VideoCommand::Next { picture: Picture::Coded { key, .. }, .. } => {
            format!("{} {id}", if *key { "key" } else { "next" })
        }
        VideoCommand::Move { .. } => format!("move {id}"),
        VideoCommand::SourceSize { .. } => format!("source {id}"),
        VideoCommand::PlaceSize { .. } => format!("size {id}"),
        VideoCommand::End { .. } => format!("end {id}"),
    })
}

#[test]
fn a_viewer_that_takes_no_videos_gets_pixels() {
    let mut desk = Desk::new();
    let id = desk.join(0);
    for _ in 0..10 {
        assert_eq!(desk.play(id), (None, vec![]));
    }
    desk.move_area(id, PLACE, 40);
    desk.video(id, 3, Readiness::Ready);
    assert_eq!(desk.play(id), (None, vec![]), "and what it says of streams is no error");
}

#[test]
fn a_stream_is_offered_then_ready_and_ends_when_nothing_is_shown() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    assert_eq!(desk.play(id), (None, vec!["init 0 320x240".into()]), "until it is ready it is pixels");
    assert_eq!(desk.play(id), (None, vec![]));
    desk.video(id, 0, Readiness::Ready);
    let (coding, said) = desk.play(id);
    assert!(coding.is_some() && said.len() == 1, "{coding:?} {said:?}");
    desk.record(RecordKind::VideoStopped { port: 2 });
    // It is not begun again by its number before the viewer has heard the end.
    let mut out = Vec::new();
    while desk.session.poll_job(id, desk.now).is_some() {}
    desk.session.poll_transmit(id, desk.now, &mut Unpacked, &mut out);
    desk.frame();
    while let Some(job) = desk.session.poll_job(id, desk.now) {
        desk.session.handle_encoded(id, job.id, &answer(&job));
    }
    desk.session.poll_transmit(id, desk.now, &mut Unpacked, &mut out);
    let mut said = Vec::new();
    desk.hear(id, &out, &mut said);
    assert_eq!(said, ["end 0", "init 1 320x240"]);
    desk.record(RecordKind::VideoStopped { port: 2 });
    desk.turn(id);
    assert_eq!(desk.play(id).1, ["init 0 320x240"], "once it has, it may be");
}

/// Sound is put beside pictures by when they were drawn, on one clock for all streams, whatever they waited for.
#[test]
fn pictures_tell_when_they_were_drawn() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    let area = Rect::at(440, 300, 160, 120);
    desk.play(id);
    desk.video(id, 0, Readiness::Ready);
    desk.move_area(id, area, 40);
    desk.video(id, 1, Readiness::Ready);
    desk.move_area(id, area, 2);
    for _ in 0..3 {
        desk.now += 40_000;
        let drawn = desk.now;
        desk.frame();
        desk.now += 7_000;
        desk.draw(area);
        desk.now += 20_000;
        let mut times: Vec<(u16, Micros)> =
            desk.turn(id).0.iter().filter_map(|job| job.video.map(|frame| (frame.stream, frame.time))).collect();
        times.sort();
        assert_eq!(times, [(0, drawn), (1, drawn + 7_000)]);
        desk.session.handle_moving(id, &[area], desk.now);
    }
}

#[test]
fn a_refusal_ends_a_stream_for_a_while_and_longer_each_time() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    let mut pauses = Vec::new();
    desk.play(id);
    for _ in 0..3 {
        let stream = (0..16).find(|&stream| desk.session.has_video(id, stream)).expect("it was begun");
        let refused = desk.now;
        desk.video(id, stream, Readiness::Refused);
        while !(0..16).any(|stream| desk.session.has_video(id, stream)) {
            desk.play(id);
        }
        pauses.push((desk.now - refused) / 1_000_000);
    }
    assert_eq!(pauses, [2, 4, 8], "seconds");
}

#[test]
fn a_stream_that_fails_leaves_what_it_was_to_show_to_pixels() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    desk.play(id);
    desk.video(id, 0, Readiness::Ready);
    desk.now += 40_000;
    desk.frame();
    let job = desk.session.poll_job(id, desk.now).expect("the frame goes");
    desk.session.handle_snapshot(id, job.id, None, desk.op);
    desk.session.handle_encoded(id, job.id, &[]);
    desk.session.handle_video_failed(id, 0);
    let (jobs, said) = desk.turn(id);
    assert_eq!(said, ["end 0"]);
    let all: Region = jobs.iter().flat_map(|job| job.region.rects().to_vec()).collect();
    let forgotten: Region = jobs.iter().flat_map(|job| job.forget.rects().to_vec()).collect();
    assert_eq!((all, forgotten), (PLACE.into(), PLACE.into()));
}

#[test]
fn each_viewer_has_streams_of_its_own() {
    let mut desk = Desk::new();
    let (one, two) = (desk.join(VIDEO), desk.join(VIDEO));
    desk.play(one);
    desk.turn(two);
    desk.video(one, 0, Readiness::Ready);
    desk.now += 40_000;
    desk.frame();
    let is_frame = |jobs: &[Job]| jobs.iter().any(|job| job.video.is_some());
    assert!(is_frame(&desk.turn(one).0));
    assert!(!is_frame(&desk.turn(two).0), "its decoder is not ready");
    desk.video(two, 0, Readiness::Refused);
    assert!(desk.session.has_video(one, 0) && !desk.session.has_video(two, 0));
}

#[test]
fn an_area_that_moves_for_long_enough_is_a_stream_and_is_none_when_it_rests() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    let (_, said) = desk.move_area(id, PLACE, 6);
    assert_eq!(said, [""; 0], "a quarter of a second is too short");
    let (_, said) = desk.move_area(id, PLACE, 6);
    assert_eq!(said, ["init 0 320x240"]);
    desk.video(id, 0, Readiness::Ready);
    let (jobs, said) = desk.move_area(id, PLACE, 3);
    assert_eq!(said, ["key 0", "next 0", "next 0"], "never plain: its samples are made of pixels");
    let areas = jobs.iter().filter_map(|job| job.video).filter(|frame| frame.origin == VideoOrigin::Area);
    assert_eq!(areas.count(), 3);
    let deadline = desk.session.poll_deadline(desk.now).expect("it rests some time");
    assert!(deadline > desk.now && deadline <= desk.now + 500_000, "{} us", deadline - desk.now);
    desk.now += 600_000;
    let (_, said) = desk.turn(id);
    assert_eq!(said, ["end 0"]);
    assert!(!desk.session.has_video(id, 0));
}

#[test]
fn what_is_small_scrolls_or_pauses_is_no_video() {
    let mut desk = Desk::new();
    let id = desk.join(VIDEO);
    assert_eq!(desk.move_area(id, Rect::at(10, 10, 400, 20), 60).1, [""; 0], "a line that is typed");
    assert_eq!(desk.move_area(id, Rect::at(10, 10, 60, 60), 60).1, [""; 0], "a spinner");
    for _ in 0..20 {
        assert_eq!(desk.move_area(id, PLACE, 3).1, [""; 0], "what blinks");
        desk.now += 300_000;
    }
    for _ in 0..30 {
        let above = Rect { y2: PLACE.y2 - 20, ..PLACE };
        desk.op += 1;
        desk.record(RecordKind::Copy { src: SCREEN, dst: SCREEN, rect: above, dx: 0, dy: -20, over: false });
        assert_eq!(desk.move_area(id, PLACE, 2).1, [""; 0], "what is scrolled");
    }
}
