//! A film of 1280 x 720 through paths that are slow, long, growing and stalled: how many of its frames are seen on time, and who waits for it.
//! From frames on virtual time, through the session and a transport with a window, to when each was shown.
//! Knows session-core's public face; pictures are sizes, as OpenH264 makes them of a film with cuts.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{Picture, Readiness, VideoCommand, VideoState};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawRecord, DrawableId, Drawn, RecordKind, VideoLayout};
use thinc_session_core::{Coding, Config, Job, JobId, PathFigures, Session, Unpacked, VideoStats, ViewerId};

const FILM: Size = Size { width: 1280, height: 720 };
/// The film, and lines of text under it.
const SIZE: Size = Size { width: 1280, height: 800 };
const LETTERS: i32 = 740;
const TEXT_WINDOW: u32 = 1;
const FILM_WINDOW: u32 = 2;
const INTERVAL: Micros = 33_333;
/// Frames from one cut of the film to the next.
const SHOT: u64 = 70;
const STEP: Micros = 500;
/// What one picture takes an encoder, and a viewer.
const ENCODING: Micros = 7_000;
const DECODING: Micros = 4_000;
/// Later than this behind the film's own clock is not on time.
const ON_TIME: Micros = 100_000;
const SEGMENT: u64 = 1448;
const WINDOW_INITIAL: u64 = 10 * SEGMENT;
/// The kernel takes no more while it holds so many bytes unsent.
const NOT_SENT: u64 = 8 * 1024;

/// How a congestion window behaves beside growing by what was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// After a pause it begins anew, as Linux has it.
    Restarts,
    /// It does not, but every ten seconds it is four segments for a fifth of a second: BBR.
    Probes,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    bytes_per_second: u64,
    /// One way.
    delay: Micros,
    window: Window,
}

const WAN: Path = Path { bytes_per_second: 12_500_000, delay: 33_000, window: Window::Restarts };
const SLOW: Path = Path { bytes_per_second: 625_000, delay: 10_000, window: Window::Restarts };

/// A sender's half of TCP over one link.
struct Tcp {
    path: Path,
    window: u64,
    /// What it is again after a probe, and when that ends.
    probe: Option<(u64, Micros)>,
    probed_at: Micros,
    handed: u64,
    sent: u64,
    arrived: u64,
    confirmed: u64,
    free_at: Micros,
    /// (when it arrives, all bytes with it), and how it was sent.
    under_way: VecDeque<(Micros, u64)>,
    confirming: VecDeque<(Micros, u64, Micros)>,
    sent_at: Micros,
    rtt: Micros,
}

impl Tcp {
    fn new(path: Path) -> Tcp {
        Tcp {
            path,
            window: WINDOW_INITIAL,
            probe: None,
            probed_at: 0,
            handed: 0,
            sent: 0,
            arrived: 0,
            confirmed: 0,
            free_at: 0,
            under_way: VecDeque::new(),
            confirming: VecDeque::new(),
            sent_at: 0,
            rtt: 2 * path.delay,
        }
    }

    fn holds(&self) -> u64 {
        self.path.bytes_per_second * 2 * self.path.delay / 1_000_000
    }

    fn advance(&mut self, now: Micros) {
        while let Some((_, total)) = self.under_way.pop_front_if(|(at, _)| *at <= now) {
            self.arrived = total;
        }
        while let Some((at, total, sent_at)) = self.confirming.pop_front_if(|(at, ..)| *at <= now) {
            // As Linux has it in slow start.
            let limited = 2 * (self.sent - self.confirmed) > self.window;
            if limited && self.probe.is_none() && self.window < 2 * self.holds().max(WINDOW_INITIAL) {
                self.window += total - self.confirmed;
            }
            self.confirmed = total;
            self.rtt = (self.rtt * 7 + at - sent_at) / 8;
        }
        match self.path.window {
            // Linux waits for its retransmission time, 200 ms more than a round trip.
            Window::Restarts if self.sent == self.confirmed && now > self.sent_at + self.rtt + 200_000 => {
                self.window = self.window.min(WINDOW_INITIAL);
            }
            Window::Probes if self.probe.is_some_and(|(_, end)| now >= end) => {
                self.window = self.probe.take().map_or(self.window, |(window, _)| window);
            }
            Window::Probes if now >= self.probed_at + 10_000_000 => {
                self.probed_at = now;
                // From when no more than that is under way.
                self.probe = Some((self.window, now + 200_000 + 2 * self.path.delay));
                self.window = 4 * SEGMENT;
            }
            _ => {}
        }
        while self.sent < self.handed && self.sent - self.confirmed < self.window {
            let bytes = SEGMENT.min(self.handed - self.sent);
            self.sent += bytes;
            self.sent_at = now;
            self.free_at = self.free_at.max(now) + bytes * 1_000_000 / self.path.bytes_per_second;
            self.under_way.push_back((self.free_at + self.path.delay, self.sent));
            self.confirming.push_back((self.free_at + 2 * self.path.delay, self.sent, now));
        }
    }

    /// Nothing passes for so long, and what was under way is sent again.
    fn stall(&mut self, time: Micros) {
        self.free_at += time;
        self.under_way.iter_mut().for_each(|(at, _)| *at += time);
        self.confirming.iter_mut().for_each(|(at, ..)| *at += time);
    }

    /// It has not yet sent what it was handed, but for a little.
    fn is_full(&self) -> bool {
        self.handed - self.sent >= NOT_SENT
    }

    fn figures(&self) -> PathFigures {
        PathFigures {
            in_flight: self.handed - self.confirmed,
            delivered: self.confirmed,
            window: self.window,
            rate: 0,
            rtt: self.rtt,
            rtt_min: 2 * self.path.delay,
        }
    }
}

/// Sizes of OpenH264's pictures: it aims at its rate over eight of them, and moves its quantizer by at most 3 down and 5 up from one to the next.
/// The shell makes a key of half the rate of what begins another scene. Held against sizes of our film at 1 to 7 Mbit/s.
struct Codec {
    quantizer: f64,
    known: f64,
    /// Of its last eight.
    left: f64,
    count: u32,
    number: Option<u64>,
}

/// Bytes of a picture at quantizer 30 that leans on one before it, and on none; and what 6 more divide them by.
const LEANING: f64 = 5_000.0;
const ALONE: f64 = 33_000.0;
const BY_SIX: f64 = 2.2;
/// A key behind another scene takes so many times the bytes of others.
const CUT: f64 = 2.8;

impl Codec {
    fn new() -> Codec {
        Codec { quantizer: 32.0, known: LEANING, left: 0.0, count: 0, number: None }
    }

    fn picture(&mut self, number: u64, coding: Coding) -> (u64, bool) {
        let Coding::H264 { bits_per_second, frames_per_second, key } = coding else {
            return (FILM.area() * 3 / 2, false);
        };
        let usual = bits_per_second as f64 / 8.0 / f64::from(frames_per_second);
        let before = self.number.replace(number);
        let cut = before.is_some_and(|before| number / SHOT != before / SHOT);
        // Made up, but the same for the same frame.
        let share = |of: u64| (of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as f64 / 256.0;
        let (noise, shot) = (0.75 + share(number) / 2.0, 0.7 + share(number / SHOT));
        let by_six = |bytes: f64| 6.0 * bytes.ln() / BY_SIX.ln();
        if key || cut || self.count == 0 {
            (self.count, self.left) = (8, self.left.min(0.0) + 8.0 * usual);
        }
        let target = (self.left / f64::from(self.count)).clamp(0.55 * usual, 1.5 * usual);
        self.count -= 1;
        let (alone, leaning) = (ALONE * noise * shot, LEANING * noise * shot);
        let quantizer = if cut {
            30.0 + by_six(alone / (CUT * usual * noise))
        } else if key {
            // By the bits that a sample has, as its table has it.
            let bits = usual * 8.0 / FILM.area() as f64;
            let table = [(0.01, 36.0), (0.03, 34.0), (0.06, 32.0), (0.1, 30.0)];
            table.iter().find(|&&(most, _)| bits <= most).map_or(28.0, |&(_, quantizer)| quantizer)
        } else {
            (30.0 + by_six(self.known / target)).clamp(self.quantizer - 3.0, self.quantizer + 5.0)
        };
        self.quantizer = quantizer.clamp(10.0, 51.0);
        let bytes = if key || cut { alone } else { leaning } * BY_SIX.powf((30.0 - self.quantizer) / 6.0);
        self.left -= bytes;
        self.known = 0.2 * self.known + 0.8 * leaning;
        (bytes as u64, key || cut)
    }
}

/// What an update brings.
#[derive(Default)]
struct Brought {
    begun: Option<u16>,
    frame: Option<u64>,
    letters: Vec<u64>,
    key: bool,
}

struct Run {
    session: Session,
    viewer: ViewerId,
    now: Micros,
    op: u64,
    tcp: Tcp,
    codec: Codec,
    deframer: Deframer,
    /// Of which frame each job was.
    jobs: Vec<u64>,
    /// A picture at the encoder: when it is done.
    encoding: Option<(Micros, JobId, Vec<u8>)>,
    /// (when all its bytes were handed over, number, what)
    updates: VecDeque<(u64, u64, Brought)>,
    to_session: VecDeque<(Micros, ViewerMessage)>,
    /// When frame n was drawn, and shown.
    drawn: Vec<Micros>,
    shown: Vec<Option<Micros>>,
    next_frame: Option<Micros>,
    letters: Vec<Option<Micros>>,
    answers: Vec<Micros>,
    keys: u64,
    /// The viewer refuses streams; when each was offered.
    refuses: bool,
    offered: Vec<Micros>,
    /// Something happened, or will by then.
    woken: bool,
    wakes_at: Option<Micros>,
}

impl Run {
    fn new(path: Path) -> Run {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("pace", SIZE) });
        session.handle_attach(SIZE);
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264 | ViewerCaps::LOSSY;
        let hello =
            ViewerHello { version: 1, caps, size: Size::default(), frame_bytes_max: 1 << 24, name: "pace".into() };
        let viewer = session.add_viewer(&hello, 0);
        Run {
            session,
            viewer,
            now: 0,
            op: 0,
            tcp: Tcp::new(path),
            codec: Codec::new(),
            deframer: Deframer::new(1 << 24),
            jobs: Vec::new(),
            encoding: None,
            updates: VecDeque::new(),
            to_session: VecDeque::new(),
            drawn: Vec::new(),
            shown: Vec::new(),
            next_frame: None,
            letters: Vec::new(),
            answers: Vec::new(),
            keys: 0,
            refuses: false,
            offered: Vec::new(),
            woken: true,
            wakes_at: None,
        }
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.woken = true;
        self.session.handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
    }

    fn draw(&mut self, window: u32, rect: Rect, what: Drawn) {
        self.op += 1;
        self.record(window, RecordKind::Draw { dst: DrawableId::SCREEN, rect, what, alpha: Alpha::Opaque });
        self.record(0, RecordKind::Idle);
    }

    fn frame(&mut self) {
        let (layout, place) = (VideoLayout::Yuv420, FILM.rect());
        let what = Drawn::Video { port: 2, layout, size: FILM, crop: FILM.rect(), place };
        self.draw(FILM_WINDOW, place, what);
        self.drawn.push(self.now);
        self.shown.push(None);
    }

    /// A key is delivered, and a letter drawn under the film.
    fn letter(&mut self) {
        self.record(TEXT_WINDOW, RecordKind::InputDelivered { seq: 0, window: TEXT_WINDOW });
        let number = self.letters.len() as i32;
        self.letters.push(Some(self.now));
        self.draw(TEXT_WINDOW, Rect::at(number % 100 * 10, LETTERS, 8, 16), Drawn::Glyphs);
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.next_frame.is_some_and(|at| self.now >= at) {
            self.next_frame = self.next_frame.map(|at| at + INTERVAL);
            self.frame();
        }
        let full = self.tcp.is_full();
        self.tcp.advance(self.now);
        self.woken |= full && !self.tcp.is_full() || self.wakes_at.is_some_and(|at| self.now >= at);
        while let Some((_, seq, what)) = self.updates.pop_front_if(|(end, ..)| *end <= self.tcp.arrived) {
            self.arrives(seq, &what);
        }
        while let Some((_, message)) = self.to_session.pop_front_if(|(at, _)| *at <= self.now) {
            self.session.handle_message(self.viewer, &message, self.now).expect("what a viewer may say");
            self.woken = true;
        }
        if let Some((_, job, commands)) = self.encoding.take_if(|(at, ..)| *at <= self.now) {
            self.session.handle_encoded(self.viewer, job, &commands);
            self.woken = true;
        }
        if std::mem::take(&mut self.woken) {
            self.session.handle_path(self.viewer, Some(self.tcp.figures()));
            self.work();
            self.session.check_invariants();
            self.wakes_at = self.session.poll_deadline(self.now).map(|at| at.max(self.now + STEP));
        }
    }

    /// As the shell has it: jobs are read at once, and a chunk is handed over when the kernel has all of the last.
    fn work(&mut self) {
        loop {
            while let Some(job) = self.session.poll_job(self.viewer, self.now) {
                self.job(&job);
            }
            let mut out = Vec::new();
            if self.tcp.is_full() || !self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out) {
                return;
            }
            self.hand_over(&out);
            self.tcp.advance(self.now);
            self.session.handle_path(self.viewer, Some(self.tcp.figures()));
        }
    }

    fn job(&mut self, job: &Job) {
        self.session.handle_snapshot(self.viewer, job.id, None, self.op);
        let frame = self.drawn.len().saturating_sub(1) as u64;
        assert_eq!(self.jobs.len() as u64, job.id.0);
        self.jobs.push(frame);
        let mut commands = Vec::new();
        if let Some(video) = job.video {
            let (bytes, key) = self.codec.picture(frame, video.coding);
            self.keys += u64::from(key);
            let mut data = vec![0; bytes.max(8) as usize];
            data[..8].copy_from_slice(&frame.to_le_bytes());
            let picture = match video.coding {
                Coding::Plain => Picture::Plain { layout: thinc_protocol::video::Layout::Yuv420, data: &data },
                Coding::H264 { .. } => Picture::Coded { key, data: &data },
            };
            let (id, time, clip) = (video.stream, video.time, job.region.clone());
            Command::Video(VideoCommand::Next { id, time, clip, picture }).encode(&mut commands);
            if matches!(video.coding, Coding::H264 { .. }) {
                assert!(self.encoding.is_none(), "a stream has one encoder");
                self.encoding = Some((self.now + ENCODING, job.id, commands));
                return;
            }
        }
        let lossy = job.hints.quality.lossy.is_some();
        for rect in job.region.rects().iter().filter(|_| job.video.is_none()) {
            for y in (rect.y1..rect.y2).step_by(8) {
                let piece = Rect { y1: y, y2: rect.y2.min(y + 8), ..*rect };
                let mut data = vec![0; (piece.area() / if lossy { 8 } else { 1 }).max(8) as usize];
                data[..8].copy_from_slice(&job.id.0.to_le_bytes());
                let encoding = if lossy { Encoding::Jpeg } else { Encoding::Predicted };
                Command::Raw { rect: piece, encoding, data: &data }.encode(&mut commands);
            }
        }
        self.session.handle_encoded(self.viewer, job.id, &commands);
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        self.deframer.push(bytes);
        let mut end = self.tcp.handed;
        while let Some(frame) = self.deframer.next().expect("whole frames") {
            end += frame.body.len() as u64 + 8;
            let SessionMessage::Update(update) = SessionMessage::decode(&frame).expect("a message") else { continue };
            let mut brought = Brought::default();
            for command in CommandReader::new(update.commands, SIZE) {
                match command.expect("a command") {
                    Command::Video(VideoCommand::Init { id, .. }) => brought.begun = Some(id),
                    Command::Video(VideoCommand::Next { picture, .. }) => {
                        let (Picture::Plain { data, .. } | Picture::Coded { data, .. }) = picture;
                        brought.frame = Some(u64::from_le_bytes(*data.first_chunk().expect("a number")));
                        brought.key = matches!(picture, Picture::Coded { key: true, .. });
                    }
                    Command::Raw { rect, data, .. } => {
                        let job = u64::from_le_bytes(*data.first_chunk().expect("a number"));
                        if rect.y2 == FILM.height as i32 {
                            brought.frame = Some(self.jobs[job as usize]);
                        }
                        if rect.y2 == LETTERS + 16 {
                            brought.letters.push(rect.x1 as u64 / 10);
                        }
                    }
                    _ => {}
                }
            }
            self.updates.push_back((end, update.seq, brought));
        }
        self.tcp.handed = end;
    }

    fn arrives(&mut self, seq: u64, what: &Brought) {
        let back = self.now + self.tcp.path.delay;
        if let Some(id) = what.begun {
            self.offered.push(self.now);
            self.say(id, if self.refuses { Readiness::Refused } else { Readiness::Ready });
        }
        if let Some(frame) = what.frame {
            // What came before the film began is not of it.
            if let Some(shown) = self.shown.get_mut(frame as usize) {
                shown.get_or_insert(self.now + DECODING);
            }
        }
        for &letter in &what.letters {
            // Once more where it was shown nearly first.
            if let Some(typed) = self.letters.get_mut(letter as usize).and_then(Option::take) {
                self.answers.push(self.now - typed);
            }
        }
        self.to_session.push_back((back, ViewerMessage::Ack(Ack { update: seq, presented: None })));
    }

    fn say(&mut self, id: u16, readiness: Readiness) {
        let back = self.now + self.tcp.path.delay;
        self.to_session.push_back((back, ViewerMessage::Video(VideoState { id, readiness })));
    }

    fn wait(&mut self, time: Micros) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// So much of the film, from where it stands.
    fn play(&mut self, time: Micros) {
        self.next_frame.get_or_insert(self.now + STEP);
        self.wait(time);
    }

    /// As players do it: the first frame stands for a while before the film is played.
    fn ready(path: Path) -> Run {
        let mut run = Run::new(path);
        run.wait(1_000_000);
        run.frame();
        run.wait(4_000_000);
        run.drawn.clear();
        run.shown.clear();
        run
    }

    fn stats(&self) -> VideoStats {
        self.session.stats(self.viewer).expect("it is here").video
    }

    /// Frames from `first` on that came no later than they may behind the clock of half of them, of a hundred; those of the
    /// last half second are not known yet.
    fn on_time(&self, first: usize) -> f64 {
        let frames = first..self.drawn.len().saturating_sub(15);
        let late = |frame: usize| self.shown[frame].map(|at| at - self.drawn[frame]);
        let mut delays: Vec<Micros> = frames.clone().filter_map(late).collect();
        delays.sort_unstable();
        let clock = delays.get(delays.len() / 2).copied().unwrap_or(0);
        let on_time = delays.iter().filter(|&&delay| delay <= clock + ON_TIME).count();
        on_time as f64 * 100.0 / frames.len() as f64
    }

    /// How long letters took that are typed twenty times a second.
    fn type_beside(&mut self, time: Micros) -> Vec<Micros> {
        let end = self.now + time;
        while self.now < end {
            self.letter();
            self.play(50_000);
        }
        self.play(500_000);
        assert_eq!(self.answers.len(), self.letters.len(), "each letter is seen");
        let mut answers = std::mem::take(&mut self.answers);
        answers.sort_unstable();
        answers
    }

    fn report(&self, what: &str) -> f64 {
        let on_time = self.on_time(0);
        let missed = self.shown.iter().filter(|shown| shown.is_none()).count();
        let (keys, now, stats) = (self.keys, self.now / 1000, self.stats());
        let rate = self.tcp.handed * 8 / 1000;
        println!("{what}: {on_time:.1} % on time, {missed} not shown, {keys} keys, {rate} kbit in {now} ms, {stats:?}");
        on_time
    }
}

#[test]
fn a_film_is_on_time_where_the_path_is_long() {
    let mut run = Run::ready(WAN);
    run.play(10_000_000);
    assert_eq!(run.report("100 Mbit/s, 66 ms").round(), 100.0);
    assert_eq!(run.stats().keys, 1);
}

#[test]
fn a_film_is_on_time_where_the_window_is_closed_for_a_while() {
    let mut run = Run::ready(Path { window: Window::Probes, ..WAN });
    run.play(20_000_000);
    // What is drawn while it is closed comes late, or not at all: 0.3 s of ten.
    assert!(run.report("100 Mbit/s, 66 ms, BBR") >= 97.5);
    assert_eq!(run.stats().keys, 1);
}

#[test]
fn a_film_is_on_time_where_the_path_is_slow() {
    for window in [Window::Restarts, Window::Probes] {
        let mut run = Run::ready(Path { window, ..SLOW });
        let before = run.tcp.handed;
        run.play(20_000_000);
        assert!(run.report("5 Mbit/s, 20 ms") >= 96.0);
        assert_eq!(run.stats().keys, 1);
        let used = (run.tcp.handed - before) / 20;
        assert!(used > SLOW.bytes_per_second * 2 / 3, "it takes {used} bytes a second of the path");
    }
}

#[test]
fn letters_beside_a_film_wait_for_no_more_than_the_picture_that_is_leaving() {
    let mut run = Run::ready(SLOW);
    run.play(3_000_000);
    let answers = run.type_beside(5_000_000);
    run.report("5 Mbit/s, 20 ms, with typing");
    let at = |percent: usize| answers[(answers.len() - 1) * percent / 100];
    println!("letters after {} us, 90 % after {} us, all after {} us", at(50), at(90), at(100));
    assert!(at(50) < 35_000 && at(90) < 60_000, "{answers:?}");
}

#[test]
fn after_a_stall_a_film_goes_on_within_a_second_without_a_key() {
    for path in [SLOW, WAN] {
        let mut run = Run::ready(path);
        run.play(5_000_000);
        let VideoStats { keys, bits_per_second: before, .. } = run.stats();
        run.tcp.stall(3_000_000);
        run.play(3_000_000);
        let first = run.drawn.len();
        run.play(1_000_000);
        let after = run.stats().bits_per_second;
        run.play(5_000_000);
        run.report("after a stall");
        println!("{before} bits a second before, {after} a second after");
        assert_eq!(run.stats().keys, keys);
        assert!(run.on_time(first) >= 95.0, "{} % on time from then on", run.on_time(first));
        assert!(after * 3 >= before, "{before} bits a second before, {after} a second after");
    }
}

#[test]
fn a_stream_that_lived_well_makes_good_for_those_that_were_refused() {
    let mut run = Run::new(SLOW);
    run.refuses = true;
    run.play(9_000_000);
    run.refuses = false;
    // Its pause is the third.
    run.play(10_000_000);
    let stream = |run: &Run| (0..16).find(|&id| run.session.has_video(run.viewer, id)).expect("it lives");
    run.play(35_000_000);
    run.say(stream(&run), Readiness::Refused);
    let refused = run.now;
    run.play(4_000_000);
    let pauses: Vec<Micros> = run.offered.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert_eq!(pauses[..3], [2, 4, 8], "seconds");
    let pause = run.offered.last().map_or(0, |at| at.saturating_sub(refused));
    assert!((2_000_000..3_000_000).contains(&pause), "{pause} us, where 16 s would be next: {:?}", run.offered);
}
