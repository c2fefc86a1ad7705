//! A video that a browser plays, on links of several speeds: it must be detected in its pixels
//! soon, and be one video stream for as long as it plays. From drawings through session-core, real
//! plans and a link, to what a viewer has shown and when. Knows no codec: sizes of pixels and
//! frames are modelled on measurements.

use std::collections::HashMap;

use thinc_pixels::{
    Hints, Lossy, PlanSettings, Planned, RGB, Shadow, Snapshot, VideoMask, plan_with, split_pieces,
};
use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{DecoderState, FrameData, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Capture, Coding, Config, CopyCommand, Job, JobResult, JpegProfile, Plan, PlannedJob, Render,
    Session, Unavailable, Unpacked, VideoStats, ViewerId,
};
use thinc_sim::{Link, Path, PathReport, Random};

const SIZE: Size = Size { width: 1024, height: 768 };
const SCREEN: Rect = Rect::new(0, 0, 1024, 768);
/// 24 frames a second.
const FRAME: Micros = 41_667;
/// A frame shown later than this after it was drawn is not on time.
const LATE: Micros = 100_000;
/// Time to create a decoder, and to encode a frame.
const DECODER: Micros = 20_000;
const CODING: Micros = 8_000;
/// A keyframe is so many times as large as another frame.
const KEY: u64 = 5;
const SECOND: Micros = 1_000_000;

const fn link(mbit_s: u64, delay: Micros) -> Path {
    Path { bytes_per_second: mbit_s * 125_000, delay, jitter: 0 }
}

/// The viewer's shadow, and the masks of its streams.
struct Renderer {
    shadow: Shadow,
    snapshot: Snapshot,
    masks: HashMap<u16, VideoMask>,
    areas: Vec<Rect>,
}

/// One job being rendered.
struct Turn<'a> {
    renderer: &'a mut Renderer,
    pixels: &'a [u32],
    op: u64,
    now: Micros,
    planned: Vec<Planned>,
    /// The part of the job's frame that has changed.
    clip: Region,
}

impl Render for Turn<'_> {
    fn reset(&mut self, size: Size) {
        self.renderer.shadow = Shadow::new(size);
    }

    fn forget(&mut self, region: &Region) {
        self.renderer.shadow.mark_stale(region);
    }

    fn copy(&mut self, copy: &CopyCommand) {
        self.renderer.shadow.copy(&copy.region, copy.dx, copy.dy);
    }

    fn read(&mut self, job: &Job) -> Result<Capture, Unavailable> {
        let width = SIZE.width as usize;
        self.renderer.snapshot.fill(&job.region, |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                let from = y as usize * width + rect.x1 as usize;
                to[row * stride..][..rect.width() as usize]
                    .copy_from_slice(&self.pixels[from..][..rect.width() as usize]);
            }
        });
        Ok(Capture { begin_before: None, tag: self.op })
    }

    fn plan(&mut self, job: &Job) -> Plan<'_> {
        let Renderer { shadow, snapshot, masks, areas } = &mut *self.renderer;
        let lossy_frames = job.hints.frames.is_some();
        let lossy_pixels = job.hints.quality.lossy.is_some() || job.video.is_some();
        let lossy = if lossy_pixels { Lossy::Photographs } else { Lossy::Never };
        let mut mask = job.video.map(|frame| {
            let mask = masks.entry(frame.stream).or_insert_with(|| VideoMask::new(frame.place));
            if mask.area() != frame.place {
                *mask = VideoMask::new(frame.place);
            }
            mask.set_takes_text(frame.takes_text);
            mask
        });
        let settings = PlanSettings {
            lossy,
            now: self.now,
            video: mask.as_deref_mut(),
            frames: &job.frames,
            lossy_frames,
            ..PlanSettings::default()
        };
        plan_with(snapshot, shadow, &Hints::NONE, settings, &mut self.planned);
        split_pieces(&mut self.planned, snapshot, (1 << 17).min(job.hints.piece_area));
        areas.clear();
        areas.extend(shadow.video_areas().iter().filter(|area| job.region.overlaps_rect(area)));
        let moving_text = mask.as_ref().map(|mask| mask.moving_text());
        self.clip = mask.map_or_else(Region::new, |mask| mask.clip().clone());
        Plan {
            video_areas: Some(areas),
            fully_changed: shadow.fully_changed(),
            moving: (!job.frames.is_empty()).then(|| shadow.moving()),
            moving_text,
            ..Plan::default()
        }
    }
}

/// A session, its shell, and a viewer behind a link.
struct Desktop {
    session: Session,
    id: ViewerId,
    now: Micros,
    op: u64,
    pixels: Vec<u32>,
    /// When each frame was drawn; the last is the newest.
    drawn: Vec<Micros>,
    renderer: Renderer,
    encoding: Vec<(Micros, PlannedJob, Commands)>,
    down: Link,
    up: Link,
    random: Random,
    deframer: Deframer,
    answers: Vec<(Micros, ViewerMessage)>,
    heard: Deframer,
    /// The frame shown in the first and last corner of the screen, and when each was in both.
    corners: [u32; 2],
    seen: HashMap<u32, Micros>,
    /// Pixels sent lossy as photographs.
    lossy_pixels: u64,
    /// True while the viewer reads nothing.
    stalled: bool,
}

impl Desktop {
    fn new(path: Path) -> Desktop {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("video", SIZE) });
        session.handle_attach(SIZE);
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264 | ViewerCaps::LOSSY;
        let hello = ViewerHello {
            version: 1,
            caps,
            size: SIZE,
            message_bytes_max: 1 << 24,
            name: "video".into(),
        };
        let id = session.add_viewer(&hello, 1);
        let mut desktop = Desktop {
            session,
            id,
            now: 1,
            op: 0,
            pixels: vec![0; SIZE.area() as usize],
            drawn: Vec::new(),
            renderer: Renderer {
                shadow: Shadow::new(SIZE),
                snapshot: Snapshot::new(),
                masks: HashMap::new(),
                areas: Vec::new(),
            },
            encoding: Vec::new(),
            down: Link::new(path),
            up: Link::new(path),
            random: Random::new(1),
            deframer: Deframer::new(1 << 24),
            answers: Vec::new(),
            heard: Deframer::new(1 << 24),
            corners: [0; 2],
            seen: HashMap::new(),
            lossy_pixels: 0,
            stalled: false,
        };
        // The first frame is shown, lossless.
        desktop.frame(SCREEN, SCREEN);
        desktop.drain();
        desktop.drawn.clear();
        desktop.seen.clear();
        desktop
    }

    fn record(&mut self, kind: RecordKind) {
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
    }

    fn draw(&mut self, rect: Rect, hint: DrawHint, pixel: impl Fn(i32, i32) -> u32) {
        for y in rect.y1..rect.y2 {
            let row = &mut self.pixels[(y * SCREEN.x2) as usize..][..SCREEN.x2 as usize];
            (rect.x1..rect.x2).for_each(|x| row[x as usize] = pixel(x, y));
        }
        self.op += 1;
        self.record(RecordKind::Draw { dst: DrawableId::SCREEN, rect, hint, alpha: Alpha::Opaque });
    }

    /// Draws another frame in `place`; only `moving` changes.
    fn frame(&mut self, place: Rect, moving: Rect) {
        let number = self.drawn.len() as u32;
        self.drawn.push(self.now);
        let still = self.pixels.clone();
        self.draw(place, DrawHint::Image, |x, y| {
            let at = (y * SCREEN.x2 + x) as usize;
            if moving.contains_point(x, y) { camera(x, y, number) } else { still[at] }
        });
        self.record(RecordKind::Idle);
    }

    fn text_page(&mut self, rect: Rect, seed: u32) {
        self.draw(rect, DrawHint::Image, |x, y| text(x, y, seed));
        self.record(RecordKind::Idle);
    }

    fn play(&mut self, time: Micros, place: Rect, moving: impl Fn(u32) -> Rect) {
        let (begun, mut frames) = (self.now, 0);
        while frames * FRAME < time {
            self.wait((begun + frames * FRAME).saturating_sub(self.now));
            self.frame(place, moving(frames as u32));
            frames += 1;
        }
        self.wait((begun + time).saturating_sub(self.now));
    }

    fn wait(&mut self, time: Micros) {
        let end = self.now + time;
        loop {
            self.deliver();
            self.shell();
            if self.now >= end {
                return;
            }
            self.now += (end - self.now).min(1_000);
        }
    }

    /// Waits until all queues are empty.
    fn drain(&mut self) {
        let end = self.now + 60 * SECOND;
        while !(self.session.is_drained() && self.encoding.is_empty()) {
            self.wait(50_000);
            assert!(self.now < end, "the queues do not drain");
        }
    }

    fn shell(&mut self) {
        loop {
            self.down.advance(self.now, &mut self.random);
            self.session.handle_path(self.id, self.down.stats(PathReport::Path));
            let ready = self.encoding.iter().position(|(at, ..)| *at <= self.now);
            if let Some((_, job, commands)) = ready.map(|at| self.encoding.remove(at)) {
                self.session.complete(job, JobResult::encoded(&commands));
            }
            let job = self.session.poll_job(self.id, self.now);
            let any = job.is_some() || ready.is_some();
            job.into_iter().for_each(|job| self.render(job));
            let mut out = Vec::new();
            let sent = !self.down.is_full()
                && self.session.poll_transmit(self.id, self.now, &mut Unpacked, &mut out);
            self.down.send(&out, self.now, &mut self.random);
            if !any && !sent {
                return;
            }
        }
    }

    /// Plans a job's pixels, and encodes them into bytes of the size that they would have.
    fn render(&mut self, job: Job) {
        let Desktop { session, id, renderer, pixels, op, now, .. } = self;
        renderer.masks.retain(|&stream, _| session.has_video(*id, stream));
        let (planned, clip) = (Vec::new(), Region::new());
        let mut turn = Turn { renderer, pixels, op: *op, now: *now, planned, clip };
        let Some(planned_job) = session.render(job, &mut turn) else { return };
        let Turn { planned, clip, .. } = turn;
        let job = planned_job.job();
        let quality = job.hints.quality;
        let number = (self.drawn.len() as u32).saturating_sub(1);
        let mut commands = Commands::default();
        for planned in &planned {
            let (rect, encoding, bytes) = match planned {
                Planned::Photo { rect } => {
                    (*rect, Encoding::Jpeg, jpeg(quality.lossy) * rect.area() as f64)
                }
                Planned::Frame { rect } => {
                    (*rect, Encoding::Jpeg, jpeg(job.hints.frames) * rect.area() as f64)
                }
                Planned::Pixels { rect, .. } => {
                    (*rect, Encoding::Residuals, 1.5 * rect.area() as f64)
                }
                Planned::TwoColor { rect, .. } | Planned::Coverage { rect, .. } => {
                    (*rect, Encoding::Predicted, rect.area() as f64 / 16.0)
                }
                Planned::Solid { region, color } => {
                    Command::Sfill { region: region.clone(), color: *color }
                        .append_to(&mut commands);
                    continue;
                }
                Planned::Pattern { rect, .. } => (*rect, Encoding::Predicted, 32.0),
                Planned::Shift { region, dx, dy } => {
                    Command::Copy { region: region.clone(), dx: *dx, dy: *dy }
                        .append_to(&mut commands);
                    continue;
                }
                Planned::Recall { .. } | Planned::Keep { .. } => unreachable!("no cache"),
            };
            let mut data = vec![0; (bytes as usize).max(4)];
            data[..4].copy_from_slice(&number.to_le_bytes());
            self.lossy_pixels += if encoding == Encoding::Jpeg { rect.area() } else { 0 };
            Command::Raw { rect, encoding, data: &data }.append_to(&mut commands);
        }
        let mut takes = if job.hints.inline { 0 } else { CODING };
        if let Some(frame) = job.video
            && let Coding::H264 { bits_per_second, frames_per_second, keyframe } = frame.coding
            && !clip.is_empty()
        {
            takes = CODING;
            let bytes =
                bits_per_second / 8 / u64::from(frames_per_second) * if keyframe { KEY } else { 1 };
            let mut data = vec![0; bytes.max(4) as usize];
            data[..4].copy_from_slice(&number.to_le_bytes());
            let encoded = FrameData::h264(keyframe, &data);
            Command::Video(VideoCommand::Next {
                id: frame.stream,
                time: frame.time,
                clip,
                frame: encoded,
            })
            .append_to(&mut commands);
        }
        self.encoding.push((self.now + takes, planned_job, commands));
    }

    fn deliver(&mut self) {
        self.down.advance(self.now, &mut self.random);
        while !self.stalled
            && let Some(chunk) = self.down.receive(self.now)
        {
            self.deframer.push(&chunk);
            while let Some(frame) = self.deframer.next().unwrap() {
                let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() else {
                    continue;
                };
                for command in CommandReader::new(update.commands, SIZE) {
                    execute(&command.unwrap(), &mut self.corners, &mut self.answers, self.now);
                }
                let [first, last] = self.corners;
                if first == last {
                    self.seen.entry(first).or_insert(self.now);
                }
                self.answers.push((
                    self.now,
                    ViewerMessage::Ack(Ack { update: update.seq, presented: None }),
                ));
            }
        }
        let now = self.now;
        let mut out = Vec::new();
        self.answers
            .extract_if(.., |(at, _)| *at <= now)
            .for_each(|(_, message)| message.encode(&mut out));
        self.up.send(&out, self.now, &mut self.random);
        while let Some(chunk) = self.up.receive(self.now) {
            self.heard.push(&chunk);
            while let Some(frame) = self.heard.next().unwrap() {
                let message = ViewerMessage::decode(&frame).unwrap();
                self.session.handle_message(self.id, &message, self.now).unwrap();
            }
        }
    }

    fn stats(&self) -> VideoStats {
        self.session.stats(self.id).unwrap().video
    }

    /// Share of the drawn frames that were shown in time.
    fn on_time(&self) -> f64 {
        let drawn = self.drawn.iter().enumerate();
        let seen = |(number, &drawn): (usize, &Micros)| {
            self.seen.get(&(number as u32)).is_some_and(|&seen| seen <= drawn + LATE)
        };
        drawn.filter(|frame| seen(*frame)).count() as f64 / self.drawn.len() as f64
    }
}

/// Notes which frame a command shows, and the viewer's answers.
fn execute(
    command: &Command<'_>,
    corners: &mut [u32; 2],
    answers: &mut Vec<(Micros, ViewerMessage)>,
    now: Micros,
) {
    let probes = [Rect::at(0, 0, 16, 16), Rect::at(SCREEN.x2 - 16, SCREEN.y2 - 16, 16, 16)];
    let mut shows = |region: &Region, data: &[u8]| {
        let number = u32::from_le_bytes(data[..4].try_into().unwrap());
        for (corner, probe) in corners.iter_mut().zip(&probes) {
            if region.overlaps_rect(probe) {
                *corner = number;
            }
        }
    };
    match command {
        Command::Raw { rect, data, .. } => shows(&Region::from(*rect), data),
        Command::Video(VideoCommand::Next {
            clip, frame: FrameData::Coded { data, .. }, ..
        }) => shows(clip, data),
        Command::Video(VideoCommand::Init { id, .. }) => {
            let state = VideoStatus { id: *id, decoder: DecoderState::Ready };
            answers.push((now + DECODER, ViewerMessage::Video(state)));
        }
        _ => {}
    }
}

/// Bytes per pixel.
fn jpeg(profile: Option<JpegProfile>) -> f64 {
    match profile {
        Some(JpegProfile::High) => 0.58,
        Some(JpegProfile::Medium) => 0.23,
        Some(JpegProfile::Low) | None => 0.09,
    }
}

/// A soft image with grain, another for each number; 0x00RRGGBB.
fn camera(x: i32, y: i32, number: u32) -> u32 {
    let wave = |at: i32| (at & 255).min(255 - (at & 255));
    let (x1, y1) = (x * 3 / 2 + number as i32 * 5, y + number as i32 * 3);
    let soft = (wave(x1) + wave(y1) + wave((x + y) / 2)) / 3 + 60;
    let mut grain = (x as u32).wrapping_mul(0x9e37_79b9)
        ^ (y as u32).wrapping_mul(0x85eb_ca6b)
        ^ number.wrapping_mul(0xc2b2_ae35);
    grain = (grain ^ grain >> 15).wrapping_mul(0x2c1b_3c6d);
    grain ^= grain >> 12;
    let channel = |shift: u32, more: i32| (soft + more + (grain >> shift & 7) as i32) as u32;
    (channel(3, 0) << 16 | channel(9, 12) << 8 | channel(17, 30)) & RGB
}

/// Text: less than half of its pixels are ink, with hard edges on one background; other text for
/// each seed.
fn text(x: i32, y: i32, seed: u32) -> u32 {
    let glyph = ((x / 8) as u32).wrapping_mul(0x9e37_79b9)
        ^ ((y / 16) as u32).wrapping_mul(0x85eb_ca6b)
        ^ seed;
    let strokes = (glyph ^ glyph >> 13).wrapping_mul(0xc2b2_ae35) | 1;
    let (dx, dy) = (x % 8, y % 16);
    let inside =
        (1..7).contains(&dx) && (3..13).contains(&dy) && strokes >> ((dx * 7 + dy) % 29) & 3 == 0;
    if inside { 0x10_1010 } else { 0xff_ffff }
}

/// Noise in two colours, another pair for each frame.
fn bits(x: i32, y: i32, number: u32) -> u32 {
    if camera(x, y, number) & 1 == 0 { 0x10_1010 } else { 0xb0_b0b0 + (number & 0x3f) }
}

const SLOW: Path = link(5, 10_000);
const FAST: Path = link(100, 1_000);

#[test]
fn a_video_soon_becomes_one_stream_for_as_long_as_it_plays() {
    // Late frames are late in the first second: a slow link shows barely three frames by then, and
    // two must have changed completely.
    for (path, first) in [(SLOW, 0.88), (link(24, 2_000), 0.9), (FAST, 0.97)] {
        let mut desktop = Desktop::new(path);
        desktop.play(8 * SECOND, SCREEN, |_| SCREEN);
        let (on_time, stats) = (desktop.on_time(), desktop.stats());
        assert!(on_time >= first, "{path:?}: {on_time:.3} on time, {stats:?}");
        assert_eq!((stats.begun, stats.ended), (1, 0), "{path:?}");
        desktop.drain();
        assert!(
            desktop.renderer.shadow.lossy().is_empty(),
            "{path:?}: at rest, the screen is lossless"
        );
        assert_eq!(desktop.stats().ended, 1, "{path:?}");
    }
}

#[test]
fn an_outage_of_the_path_does_not_end_the_stream() {
    let mut desktop = Desktop::new(SLOW);
    desktop.play(3 * SECOND, SCREEN, |_| SCREEN);
    for _ in 0..3 {
        desktop.stalled = true;
        desktop.play(900_000, SCREEN, |_| SCREEN);
        desktop.stalled = false;
        desktop.play(2 * SECOND, SCREEN, |_| SCREEN);
    }
    let stats = desktop.stats();
    assert_eq!((stats.begun, stats.ended), (1, 0), "{stats:?}");
}

/// Text that runs through a video is a part of its frames where the path does not carry it, and
/// exact as soon as it rests, while the video goes on.
#[test]
fn running_text_in_a_video_is_coded_on_a_slow_path_until_it_rests() {
    let band = Rect::new(64, 600, 960, 696);
    let run = |x: i32, y: i32, at: i32| {
        // Its background changes a little with each frame, as decoders leave it.
        let ink = text(x + at * 6, y + at, 7) == 0x10_1010;
        if ink { 0x18_1818 } else { 0xe0_e0e0 + (at % 7) as u32 }
    };
    // Text that rests is drawn again with each frame of the video, or not at all.
    for (path, coded, redrawn) in [(SLOW, true, true), (SLOW, true, false), (FAST, false, true)] {
        let mut desktop = Desktop::new(path);
        let play = |desktop: &mut Desktop, seconds: u64, runs: bool| {
            let (mut exact, last) = (0, desktop.drawn.len() as i32 - 1);
            for frame in 0..seconds * 24 {
                let number = desktop.drawn.len() as u32;
                let at = if runs { number as i32 } else { last };
                desktop.drawn.push(desktop.now);
                let whole = [SCREEN];
                let around = [
                    Rect { y2: band.y1, ..SCREEN },
                    Rect { y1: band.y2, ..SCREEN },
                    Rect::new(0, band.y1, band.x1, band.y2),
                    Rect::new(band.x2, band.y1, SCREEN.x2, band.y2),
                ];
                for part in if runs || redrawn { &whole[..] } else { &around } {
                    desktop.draw(*part, DrawHint::Image, |x, y| {
                        if band.contains_point(x, y) { run(x, y, at) } else { camera(x, y, number) }
                    });
                }
                desktop.record(RecordKind::Idle);
                desktop.wait(FRAME);
                let lossy = desktop.renderer.shadow.lossy().intersection(&band.into()).area();
                exact += u64::from(frame >= 24 && lossy * 10 < band.area());
            }
            exact
        };
        play(&mut desktop, 3, true);
        desktop.drawn.clear();
        desktop.seen.clear();
        let exact = play(&mut desktop, 6, true);
        assert_eq!(exact < 6, coded, "{path:?}: {exact} frames with exact text");
        let on_time = desktop.on_time();
        assert!(on_time > 0.95, "{path:?}: {on_time:.3} on time, {:?}", desktop.stats());
        play(&mut desktop, 2, false);
        assert!(
            !desktop.renderer.shadow.lossy().overlaps_rect(&band),
            "{path:?}: text that rests is exact"
        );
        assert_eq!(desktop.stats().ended, 0, "{path:?}: while the video goes on");
    }
}

#[test]
fn fast_text_is_no_video_even_on_a_slow_path() {
    for path in [SLOW, FAST] {
        let mut desktop = Desktop::new(path);
        desktop.text_page(SCREEN, 0);
        desktop.lossy_pixels = 0;
        for page in 1..100 {
            desktop.text_page(SCREEN, page);
            desktop.wait(FRAME);
        }
        assert_eq!((desktop.stats().begun, desktop.lossy_pixels), (0, 0), "{path:?}");
    }
}

#[test]
fn noise_in_two_colours_is_no_video_on_a_path_too_slow_for_it() {
    let mut desktop = Desktop::new(SLOW);
    for number in 0..600 {
        desktop.draw(SCREEN, DrawHint::Image, |x, y| bits(x, y, number));
        desktop.record(RecordKind::Idle);
        desktop.wait(5_000);
    }
    assert_eq!((desktop.stats().begun, desktop.lossy_pixels), (0, 0));
}

#[test]
fn a_page_that_scrolls_is_no_video() {
    for (path, step) in [(SLOW, 5), (SLOW, 40), (FAST, 16)] {
        let mut desktop = Desktop::new(path);
        let page = |x: i32, y: i32| if y / 300 % 2 == 0 { camera(x, y, 0) } else { text(x, y, 7) };
        for frame in 0..90 {
            desktop.draw(SCREEN, DrawHint::Image, |x, y| page(x, y + frame * step));
            desktop.record(RecordKind::Idle);
            desktop.wait(16_667);
        }
        assert_eq!(desktop.stats().begun, 0, "{path:?}, by {step}");
    }
}

#[test]
fn images_that_follow_each_other_slowly_are_no_video() {
    let mut desktop = Desktop::new(SLOW);
    for _ in 0..12 {
        desktop.frame(SCREEN, SCREEN);
        desktop.wait(500_000);
    }
    assert_eq!(desktop.stats().begun, 0);
}
