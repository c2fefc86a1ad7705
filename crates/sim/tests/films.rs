//! A film that a browser plays, on links of several speeds: found in its pixels, a stream soon, and one stream for as long as it plays.
//! From drawings through session-core, real plans and a link, to what a viewer has seen and when.
//! Knows no codec: what pixels and pictures take is made up, as it was measured.

use std::collections::HashMap;

use thinc_pixels::{Film, Hints, Lossy, PlanSettings, Planned, RGB, Shadow, Snapshot, cut, plan_with};
use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{Picture, Readiness, VideoCommand, VideoState};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{Coding, Config, Job, JobId, JpegProfile, Session, Unpacked, VideoStats, ViewerId};
use thinc_sim::{Link, Path, Random, Tells};

const SIZE: Size = Size { width: 1024, height: 768 };
const SCREEN: Rect = Rect::new(0, 0, 1024, 768);
/// 24 frames a second.
const FRAME: Micros = 41_667;
/// Later than this after it was drawn a frame is not on time.
const LATE: Micros = 100_000;
/// A decoder is made, and a picture coded, in so long.
const DECODER: Micros = 20_000;
const CODING: Micros = 8_000;
/// A picture that leans on none is so many times as large.
const KEY: u64 = 5;
const SECOND: Micros = 1_000_000;

const fn link(mbit_s: u64, delay: Micros) -> Path {
    Path { bytes_per_second: mbit_s * 125_000, delay, jitter: 0 }
}

/// A session, its shell, and a viewer behind a link.
struct Cinema {
    session: Session,
    id: ViewerId,
    now: Micros,
    op: u64,
    pixels: Vec<u32>,
    /// The newest frame, and when each was drawn.
    drawn: Vec<Micros>,
    shadow: Shadow,
    snapshot: Snapshot,
    films: HashMap<u16, Film>,
    encoding: Vec<(Micros, JobId, Vec<u8>)>,
    down: Link,
    up: Link,
    random: Random,
    deframer: Deframer,
    answers: Vec<(Micros, ViewerMessage)>,
    heard: Deframer,
    /// Which frame is seen in the first and last corner of the screen, and when each was in both.
    corners: [u32; 2],
    seen: HashMap<u32, Micros>,
    /// Pixels of photographs that were sent nearly.
    nearly: u64,
    /// The viewer reads nothing.
    stands: bool,
}

impl Cinema {
    fn new(path: Path) -> Cinema {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("films", SIZE) });
        session.handle_attach(SIZE);
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264 | ViewerCaps::LOSSY;
        let hello = ViewerHello { version: 1, caps, size: SIZE, frame_bytes_max: 1 << 24, name: "films".into() };
        let id = session.add_viewer(&hello, 1);
        let mut cinema = Cinema {
            session,
            id,
            now: 1,
            op: 0,
            pixels: vec![0; SIZE.area() as usize],
            drawn: Vec::new(),
            shadow: Shadow::new(SIZE),
            snapshot: Snapshot::new(),
            films: HashMap::new(),
            encoding: Vec::new(),
            down: Link::new(path),
            up: Link::new(path),
            random: Random::new(1),
            deframer: Deframer::new(1 << 24),
            answers: Vec::new(),
            heard: Deframer::new(1 << 24),
            corners: [0; 2],
            seen: HashMap::new(),
            nearly: 0,
            stands: false,
        };
        // The first frame stands there, and all of it is exact.
        cinema.frame(SCREEN, SCREEN);
        cinema.rest();
        cinema.drawn.clear();
        cinema.seen.clear();
        cinema
    }

    fn record(&mut self, kind: RecordKind) {
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window: 7, kind }, self.now);
    }

    fn draw(&mut self, rect: Rect, what: Drawn, pixel: impl Fn(i32, i32) -> u32) {
        for y in rect.y1..rect.y2 {
            let row = &mut self.pixels[(y * SCREEN.x2) as usize..][..SCREEN.x2 as usize];
            (rect.x1..rect.x2).for_each(|x| row[x as usize] = pixel(x, y));
        }
        self.op += 1;
        self.record(RecordKind::Draw { dst: DrawableId::SCREEN, rect, what, alpha: Alpha::Opaque });
    }

    /// Another picture in `place`, of which `moving` moves.
    fn frame(&mut self, place: Rect, moving: Rect) {
        let number = self.drawn.len() as u32;
        self.drawn.push(self.now);
        let still = self.pixels.clone();
        self.draw(place, Drawn::Image, |x, y| {
            let at = (y * SCREEN.x2 + x) as usize;
            if moving.contains_point(x, y) { camera(x, y, number) } else { still[at] }
        });
        self.record(RecordKind::Idle);
    }

    fn letters(&mut self, rect: Rect, seed: u32) {
        self.draw(rect, Drawn::Image, |x, y| letters(x, y, seed));
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

    /// Until there is nothing more to say.
    fn rest(&mut self) {
        let end = self.now + 60 * SECOND;
        while !(self.session.is_drained() && self.encoding.is_empty()) {
            self.wait(50_000);
            assert!(self.now < end, "it comes to an end");
        }
    }

    fn shell(&mut self) {
        loop {
            self.down.advance(self.now, &mut self.random);
            self.session.handle_path(self.id, self.down.figures(Tells::Path));
            let ready = self.encoding.iter().position(|(at, ..)| *at <= self.now);
            if let Some((_, job, commands)) = ready.map(|at| self.encoding.remove(at)) {
                self.session.handle_encoded(self.id, job, &commands);
            }
            let job = self.session.poll_job(self.id, self.now);
            let any = job.is_some() || ready.is_some();
            job.iter().for_each(|job| self.render(job));
            let mut out = Vec::new();
            let sent = !self.down.is_full() && self.session.poll_transmit(self.id, self.now, &mut Unpacked, &mut out);
            self.down.send(&out, self.now, &mut self.random);
            if !any && !sent {
                return;
            }
        }
    }

    /// As the shell does it.
    fn render(&mut self, job: &Job) {
        let Cinema { session, id, shadow, snapshot, films, .. } = self;
        films.retain(|&stream, _| session.has_video(*id, stream));
        shadow.mark_stale(&job.forget);
        job.copies.iter().for_each(|copy| shadow.copy(&copy.region, copy.dx, copy.dy));
        let (pixels, width) = (&self.pixels, SIZE.width as usize);
        snapshot.fill(&job.region, |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                let from = y as usize * width + rect.x1 as usize;
                to[row * stride..][..rect.width() as usize].copy_from_slice(&pixels[from..][..rect.width() as usize]);
            }
        });
        session.handle_snapshot(*id, job.id, None, self.op);
        let quality = job.hints.quality;
        let nearly = quality.lossy.is_some() || job.video.is_some();
        let lossy = if nearly { Lossy::Photographs } else { Lossy::Never };
        let mut film = job.video.map(|frame| {
            let film = films.entry(frame.stream).or_insert_with(|| Film::new(frame.place));
            if film.place() != frame.place {
                *film = Film::new(frame.place);
            }
            film
        });
        let settings = PlanSettings { lossy, now: self.now, film: film.as_deref_mut(), ..PlanSettings::default() };
        let mut planned = Vec::new();
        plan_with(snapshot, shadow, &Hints::NONE, settings, &mut planned);
        cut(&mut planned, snapshot, (1 << 17).min(job.hints.piece_area));
        let told: Vec<Rect> = shadow.moving().iter().filter(|area| job.region.overlaps_rect(area)).copied().collect();
        session.handle_moving(*id, &told, self.now);
        shadow.new_at_once().iter().for_each(|new| session.handle_new_at_once(*id, new, self.now));
        let clip = film.map_or_else(Region::new, |film| film.clip().clone());
        let number = (self.drawn.len() as u32).saturating_sub(1);
        let mut commands = Vec::new();
        for planned in &planned {
            let (rect, encoding, bytes) = match planned {
                Planned::Photo { rect } => (*rect, Encoding::Jpeg, jpeg(quality.lossy) * rect.area() as f64),
                Planned::Pixels { rect, .. } => (*rect, Encoding::Residuals, 1.5 * rect.area() as f64),
                Planned::TwoColor { rect, .. } | Planned::Coverage { rect, .. } => {
                    (*rect, Encoding::Predicted, rect.area() as f64 / 16.0)
                }
                Planned::Solid { region, color } => {
                    Command::Sfill { region: region.clone(), color: *color }.encode(&mut commands);
                    continue;
                }
                Planned::Pattern { rect, .. } => (*rect, Encoding::Predicted, 32.0),
                Planned::Shift { region, dx, dy } => {
                    Command::Copy { region: region.clone(), dx: *dx, dy: *dy }.encode(&mut commands);
                    continue;
                }
                Planned::Recall { .. } | Planned::Keep { .. } => unreachable!("no cache"),
            };
            let mut data = vec![0; (bytes as usize).max(4)];
            data[..4].copy_from_slice(&number.to_le_bytes());
            self.nearly += if encoding == Encoding::Jpeg { rect.area() } else { 0 };
            Command::Raw { rect, encoding, data: &data }.encode(&mut commands);
        }
        let mut takes = if job.hints.inline { 0 } else { CODING };
        if let Some(frame) = job.video
            && let Coding::H264 { bits_per_second, frames_per_second, key } = frame.coding
            && !clip.is_empty()
        {
            takes = CODING;
            let bytes = bits_per_second / 8 / u64::from(frames_per_second) * if key { KEY } else { 1 };
            let mut data = vec![0; bytes.max(4) as usize];
            data[..4].copy_from_slice(&number.to_le_bytes());
            let picture = Picture::Coded { key, data: &data };
            Command::Video(VideoCommand::Next { id: frame.stream, time: frame.time, clip, picture })
                .encode(&mut commands);
        }
        self.encoding.push((self.now + takes, job.id, commands));
    }

    fn deliver(&mut self) {
        self.down.advance(self.now, &mut self.random);
        while !self.stands
            && let Some(chunk) = self.down.receive(self.now)
        {
            self.deframer.push(&chunk);
            while let Some(frame) = self.deframer.next().unwrap() {
                let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() else { continue };
                for command in CommandReader::new(update.commands, SIZE) {
                    see(&command.unwrap(), &mut self.corners, &mut self.answers, self.now);
                }
                let [first, last] = self.corners;
                if first == last {
                    self.seen.entry(first).or_insert(self.now);
                }
                self.answers.push((self.now, ViewerMessage::Ack(Ack { update: update.seq, presented: None })));
            }
        }
        let now = self.now;
        let mut out = Vec::new();
        self.answers.extract_if(.., |(at, _)| *at <= now).for_each(|(_, message)| message.encode(&mut out));
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

    /// Share of the frames drawn that were seen in time.
    fn on_time(&self) -> f64 {
        let drawn = self.drawn.iter().enumerate();
        let seen = |(number, &drawn): (usize, &Micros)| {
            self.seen.get(&(number as u32)).is_some_and(|&seen| seen <= drawn + LATE)
        };
        drawn.filter(|frame| seen(*frame)).count() as f64 / self.drawn.len() as f64
    }
}

/// What a command shows of a frame, and what the viewer says to it.
fn see(command: &Command<'_>, corners: &mut [u32; 2], answers: &mut Vec<(Micros, ViewerMessage)>, now: Micros) {
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
        Command::Video(VideoCommand::Next { clip, picture: Picture::Coded { data, .. }, .. }) => shows(clip, data),
        Command::Video(VideoCommand::Init { id, .. }) => {
            let state = VideoState { id: *id, readiness: Readiness::Ready };
            answers.push((now + DECODER, ViewerMessage::Video(state)));
        }
        _ => {}
    }
}

/// Bytes of a pixel.
fn jpeg(profile: Option<JpegProfile>) -> f64 {
    match profile {
        Some(JpegProfile::High) => 0.58,
        Some(JpegProfile::Medium) => 0.23,
        Some(JpegProfile::Low) | None => 0.09,
    }
}

/// A soft picture with grain, another for each number; 0x00RRGGBB.
fn camera(x: i32, y: i32, number: u32) -> u32 {
    let wave = |at: i32| (at & 255).min(255 - (at & 255));
    let (x1, y1) = (x * 3 / 2 + number as i32 * 5, y + number as i32 * 3);
    let soft = (wave(x1) + wave(y1) + wave((x + y) / 2)) / 3 + 60;
    let mut grain =
        (x as u32).wrapping_mul(0x9e37_79b9) ^ (y as u32).wrapping_mul(0x85eb_ca6b) ^ number.wrapping_mul(0xc2b2_ae35);
    grain = (grain ^ grain >> 15).wrapping_mul(0x2c1b_3c6d);
    grain ^= grain >> 12;
    let channel = |shift: u32, more: i32| (soft + more + (grain >> shift & 7) as i32) as u32;
    (channel(3, 0) << 16 | channel(9, 12) << 8 | channel(17, 30)) & RGB
}

/// Letters: less than half of their pixels are ink, with hard edges on one ground; others for each seed.
fn letters(x: i32, y: i32, seed: u32) -> u32 {
    let letter = ((x / 8) as u32).wrapping_mul(0x9e37_79b9) ^ ((y / 16) as u32).wrapping_mul(0x85eb_ca6b) ^ seed;
    let strokes = (letter ^ letter >> 13).wrapping_mul(0xc2b2_ae35) | 1;
    let (dx, dy) = (x % 8, y % 16);
    let inside = (1..7).contains(&dx) && (3..13).contains(&dy) && strokes >> ((dx * 7 + dy) % 29) & 3 == 0;
    if inside { 0x10_1010 } else { 0xff_ffff }
}

/// Noise in two colours, another pair for each picture.
fn bits(x: i32, y: i32, number: u32) -> u32 {
    if camera(x, y, number) & 1 == 0 { 0x10_1010 } else { 0xb0_b0b0 + (number & 0x3f) }
}

const SLOW: Path = link(5, 10_000);
const FAST: Path = link(100, 1_000);

#[test]
fn a_film_is_a_stream_soon_and_one_stream_for_as_long_as_it_plays() {
    // What is late is late in the first second: of a slow link's hardly three frames are seen, and two have to be all new.
    for (path, first) in [(SLOW, 0.88), (link(24, 2_000), 0.9), (FAST, 0.97)] {
        let mut cinema = Cinema::new(path);
        cinema.play(8 * SECOND, SCREEN, |_| SCREEN);
        let (on_time, stats) = (cinema.on_time(), cinema.stats());
        assert!(on_time >= first, "{path:?}: {on_time:.3} on time, {stats:?}");
        assert_eq!((stats.begun, stats.ended), (1, 0), "{path:?}");
        cinema.rest();
        assert!(cinema.shadow.inexact().is_empty(), "{path:?}: it rests, and is exact");
        assert_eq!(cinema.stats().ended, 1, "{path:?}");
    }
}

#[test]
fn a_path_that_stands_ends_no_film() {
    let mut cinema = Cinema::new(SLOW);
    cinema.play(3 * SECOND, SCREEN, |_| SCREEN);
    for _ in 0..3 {
        cinema.stands = true;
        cinema.play(900_000, SCREEN, |_| SCREEN);
        cinema.stands = false;
        cinema.play(2 * SECOND, SCREEN, |_| SCREEN);
    }
    let stats = cinema.stats();
    assert_eq!((stats.begun, stats.ended), (1, 0), "{stats:?}");
}

#[test]
fn text_is_none_however_fast_it_comes_and_however_slow_the_path_is() {
    for path in [SLOW, FAST] {
        let mut cinema = Cinema::new(path);
        cinema.letters(SCREEN, 0);
        cinema.nearly = 0;
        for page in 1..100 {
            cinema.letters(SCREEN, page);
            cinema.wait(FRAME);
        }
        assert_eq!((cinema.stats().begun, cinema.nearly), (0, 0), "{path:?}");
    }
}

#[test]
fn noise_in_two_colours_is_none_on_a_path_too_slow_for_it() {
    let mut cinema = Cinema::new(SLOW);
    for number in 0..600 {
        cinema.draw(SCREEN, Drawn::Image, |x, y| bits(x, y, number));
        cinema.record(RecordKind::Idle);
        cinema.wait(5_000);
    }
    assert_eq!((cinema.stats().begun, cinema.nearly), (0, 0));
}

#[test]
fn a_page_that_scrolls_is_none() {
    for (path, step) in [(SLOW, 5), (SLOW, 40), (FAST, 16)] {
        let mut cinema = Cinema::new(path);
        let page = |x: i32, y: i32| if y / 300 % 2 == 0 { camera(x, y, 0) } else { letters(x, y, 7) };
        for frame in 0..90 {
            cinema.draw(SCREEN, Drawn::Image, |x, y| page(x, y + frame * step));
            cinema.record(RecordKind::Idle);
            cinema.wait(16_667);
        }
        assert_eq!(cinema.stats().begun, 0, "{path:?}, by {step}");
    }
}

#[test]
fn pictures_that_follow_each_other_slowly_are_none() {
    let mut cinema = Cinema::new(SLOW);
    for _ in 0..12 {
        cinema.frame(SCREEN, SCREEN);
        cinema.wait(500_000);
    }
    assert_eq!(cinema.stats().begun, 0);
}
