//! A video of 1280 x 720 over paths that are slow, long, growing and stalled: how many of its
//! frames are shown on time, and what waits for it. From frames on virtual time, through the
//! session and a transport with a window, to when each was shown. Knows session-core's public
//! interface; frames are sizes, like those of OpenH264 for a video with cuts.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{DecoderState, FrameData, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind, VideoLayout};
use thinc_session_core::{
    Coding, Config, Job, JobResult, NoPixels, PathStats, PlannedJob, Session, Unpacked, VideoStats,
    ViewerId,
};

const VIDEO: Size = Size { width: 1280, height: 720 };
/// The video, and lines of text under it.
const SIZE: Size = Size { width: 1280, height: 800 };
const GLYPHS_Y: i32 = 740;
const TEXT_WINDOW: u32 = 1;
const VIDEO_WINDOW: u32 = 2;
const INTERVAL: Micros = 33_333;
/// Frames from one cut of the video to the next.
const SHOT: u64 = 70;
const STEP: Micros = 500;
/// Time to encode a frame, and to show it.
const ENCODING: Micros = 7_000;
const DECODING: Micros = 4_000;
/// A frame that is later than this on the video's own clock is not on time.
const ON_TIME: Micros = 100_000;
const SEGMENT: u64 = 1448;
const WINDOW_INITIAL: u64 = 10 * SEGMENT;
/// The kernel takes no more while it holds so many unsent bytes.
const NOT_SENT: u64 = 8 * 1024;

/// What a congestion window does beside growing by the acknowledged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// After a pause it starts again, as in Linux.
    Restarts,
    /// No restart, but every ten seconds four segments for a fifth of a second: BBR.
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

/// The sending half of TCP over one link.
struct Tcp {
    path: Path,
    window: u64,
    /// The window after a probe, and when the probe ends.
    probe: Option<(u64, Micros)>,
    probed_at: Micros,
    handed: u64,
    sent: u64,
    arrived: u64,
    confirmed: u64,
    free_at: Micros,
    /// (time of arrival, all bytes with it), and how it was sent.
    in_flight: VecDeque<(Micros, u64)>,
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
            in_flight: VecDeque::new(),
            confirming: VecDeque::new(),
            sent_at: 0,
            rtt: 2 * path.delay,
        }
    }

    fn holds(&self) -> u64 {
        self.path.bytes_per_second * 2 * self.path.delay / 1_000_000
    }

    fn advance(&mut self, now: Micros) {
        while let Some((_, total)) = self.in_flight.pop_front_if(|(at, _)| *at <= now) {
            self.arrived = total;
        }
        while let Some((at, total, sent_at)) = self.confirming.pop_front_if(|(at, ..)| *at <= now) {
            // As Linux does in slow start.
            let limited = 2 * (self.sent - self.confirmed) > self.window;
            if limited && self.probe.is_none() && self.window < 2 * self.holds().max(WINDOW_INITIAL)
            {
                self.window += total - self.confirmed;
            }
            self.confirmed = total;
            self.rtt = (self.rtt * 7 + at - sent_at) / 8;
        }
        match self.path.window {
            // Linux waits for its retransmission time-out, 200 ms more than a round trip.
            Window::Restarts
                if self.sent == self.confirmed && now > self.sent_at + self.rtt + 200_000 =>
            {
                self.window = self.window.min(WINDOW_INITIAL);
            }
            Window::Probes if self.probe.is_some_and(|(_, end)| now >= end) => {
                self.window = self.probe.take().map_or(self.window, |(window, _)| window);
            }
            Window::Probes if now >= self.probed_at + 10_000_000 => {
                self.probed_at = now;
                // When no more than that will be in flight.
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
            self.in_flight.push_back((self.free_at + self.path.delay, self.sent));
            self.confirming.push_back((self.free_at + 2 * self.path.delay, self.sent, now));
        }
    }

    /// Nothing passes for so long, and what was in flight is retransmitted.
    fn stall(&mut self, time: Micros) {
        self.free_at += time;
        self.in_flight.iter_mut().for_each(|(at, _)| *at += time);
        self.confirming.iter_mut().for_each(|(at, ..)| *at += time);
    }

    /// Almost all that was handed over was sent.
    fn is_full(&self) -> bool {
        self.handed - self.sent >= NOT_SENT
    }

    fn figures(&self) -> PathStats {
        PathStats {
            unacknowledged: self.handed - self.confirmed,
            delivered: self.confirmed,
            window: self.window,
            rate: 0,
            rtt: self.rtt,
            rtt_min: 2 * self.path.delay,
            share: None,
        }
    }
}

/// Frame sizes of OpenH264: it aims at its bitrate over eight frames, and changes its quantizer by
/// -3 to +5 from one to the next. The shell makes a keyframe at half the bitrate for a new scene.
/// Checked against the sizes of a real video at 1 to 7 Mbit/s.
struct Codec {
    quantizer: f64,
    known: f64,
    /// Of its last eight.
    left: f64,
    count: u32,
    number: Option<u64>,
}

/// Bytes of a frame at quantizer 30 that refers to an earlier one, and of a keyframe; and by what 6
/// more divide them.
const LEANING: f64 = 5_000.0;
const ALONE: f64 = 33_000.0;
const BY_SIX: f64 = 2.2;
/// A keyframe of a new scene takes so many times the bytes of others.
const CUT: f64 = 2.8;

impl Codec {
    fn new() -> Codec {
        Codec { quantizer: 32.0, known: LEANING, left: 0.0, count: 0, number: None }
    }

    fn picture(&mut self, number: u64, coding: Coding) -> (u64, bool) {
        let Coding::H264 { bits_per_second, frames_per_second, keyframe: key } = coding else {
            return (VIDEO.area() * 3 / 2, false);
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
            // By the bits per sample, as in its table.
            let bits = usual * 8.0 / VIDEO.area() as f64;
            let table = [(0.01, 36.0), (0.03, 34.0), (0.06, 32.0), (0.1, 30.0)];
            table.iter().find(|&&(most, _)| bits <= most).map_or(28.0, |&(_, quantizer)| quantizer)
        } else {
            (30.0 + by_six(self.known / target)).clamp(self.quantizer - 3.0, self.quantizer + 5.0)
        };
        self.quantizer = quantizer.clamp(10.0, 51.0);
        let bytes =
            if key || cut { alone } else { leaning } * BY_SIX.powf((30.0 - self.quantizer) / 6.0);
        self.left -= bytes;
        self.known = 0.2 * self.known + 0.8 * leaning;
        (bytes as u64, key || cut)
    }
}

/// The content of an update.
#[derive(Default)]
struct Brought {
    begun: Option<u16>,
    frame: Option<u64>,
    glyphs: Vec<u64>,
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
    /// The frame of each job.
    jobs: Vec<u64>,
    /// When the encoder has finished a frame.
    encoding: Option<(Micros, PlannedJob, Commands)>,
    /// (when all its bytes were handed over, number, what)
    updates: VecDeque<(u64, u64, Brought)>,
    to_session: VecDeque<(Micros, ViewerMessage)>,
    /// When frame n was drawn, and shown.
    drawn: Vec<Micros>,
    shown: Vec<Option<Micros>>,
    next_frame: Option<Micros>,
    glyphs: Vec<Option<Micros>>,
    answers: Vec<Micros>,
    keys: u64,
    /// The viewer refuses streams; when each was offered.
    refuses: bool,
    offered: Vec<Micros>,
    /// When something happened, or will happen.
    woken: bool,
    wakes_at: Option<Micros>,
}

impl Run {
    fn new(path: Path) -> Run {
        let mut session = Session::new(Config { offscreen: false, ..Config::new("pace", SIZE) });
        session.handle_attach(SIZE);
        let caps = ViewerCaps::VIDEO | ViewerCaps::H264 | ViewerCaps::LOSSY;
        let hello = ViewerHello {
            version: 1,
            caps,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "pace".into(),
        };
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
            glyphs: Vec::new(),
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
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
    }

    fn draw(&mut self, window: u32, rect: Rect, what: DrawHint) {
        self.op += 1;
        self.record(
            window,
            RecordKind::Draw { dst: DrawableId::SCREEN, rect, hint: what, alpha: Alpha::Opaque },
        );
        self.record(0, RecordKind::Idle);
    }

    fn frame(&mut self) {
        let (layout, place) = (VideoLayout::Yuv420, VIDEO.rect());
        let what = DrawHint::Video { port: 2, layout, size: VIDEO, crop: VIDEO.rect(), place };
        self.draw(VIDEO_WINDOW, place, what);
        self.drawn.push(self.now);
        self.shown.push(None);
    }

    /// A key is delivered, and a glyph drawn under the video.
    fn glyph(&mut self) {
        self.record(TEXT_WINDOW, RecordKind::InputDelivered { seq: 0, window: TEXT_WINDOW });
        let number = self.glyphs.len() as i32;
        self.glyphs.push(Some(self.now));
        self.draw(TEXT_WINDOW, Rect::at(number % 100 * 10, GLYPHS_Y, 8, 16), DrawHint::Glyphs);
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
        while let Some((_, seq, what)) =
            self.updates.pop_front_if(|(end, ..)| *end <= self.tcp.arrived)
        {
            self.arrives(seq, &what);
        }
        while let Some((_, message)) = self.to_session.pop_front_if(|(at, _)| *at <= self.now) {
            self.session
                .handle_message(self.viewer, &message, self.now)
                .expect("a viewer may send that");
            self.woken = true;
        }
        if let Some((_, job, commands)) = self.encoding.take_if(|(at, ..)| *at <= self.now) {
            self.session.complete(job, JobResult::encoded(&commands));
            self.woken = true;
        }
        if std::mem::take(&mut self.woken) {
            self.session.handle_path(self.viewer, Some(self.tcp.figures()));
            self.work();
            self.session.check_invariants();
            self.wakes_at = self.session.poll_deadline(self.now).map(|at| at.max(self.now + STEP));
        }
    }

    /// Like the shell: jobs are read at once, and a chunk is handed over when the kernel has all of
    /// the last.
    fn work(&mut self) {
        loop {
            while let Some(job) = self.session.poll_job(self.viewer, self.now) {
                self.job(job);
            }
            let mut out = Vec::new();
            if self.tcp.is_full()
                || !self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out)
            {
                return;
            }
            self.hand_over(&out);
            self.tcp.advance(self.now);
            self.session.handle_path(self.viewer, Some(self.tcp.figures()));
        }
    }

    fn job(&mut self, job: Job) {
        let Some(planned) = self.session.render(job, &mut NoPixels { tag: self.op }) else {
            return;
        };
        let job = planned.job();
        let frame = self.drawn.len().saturating_sub(1) as u64;
        assert_eq!(self.jobs.len() as u64, job.id.0);
        self.jobs.push(frame);
        let mut commands = Commands::default();
        if let Some(video) = job.video {
            let (bytes, key) = self.codec.picture(frame, video.coding);
            self.keys += u64::from(key);
            let mut data = vec![0; bytes.max(8) as usize];
            data[..8].copy_from_slice(&frame.to_le_bytes());
            let picture = match video.coding {
                Coding::Plain => FrameData::Plain {
                    layout: thinc_protocol::video::SampleLayout::Yuv420,
                    data: &data,
                },
                Coding::H264 { .. } => FrameData::h264(key, &data),
            };
            let (id, time, clip) = (video.stream, video.time, job.region.clone());
            Command::Video(VideoCommand::Next { id, time, clip, frame: picture })
                .append_to(&mut commands);
            if matches!(video.coding, Coding::H264 { .. }) {
                assert!(self.encoding.is_none(), "a stream has one encoder");
                self.encoding = Some((self.now + ENCODING, planned, commands));
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
                Command::Raw { rect: piece, encoding, data: &data }.append_to(&mut commands);
            }
        }
        self.session.complete(planned, JobResult::encoded(&commands));
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        self.deframer.push(bytes);
        let mut end = self.tcp.handed;
        while let Some(frame) = self.deframer.next().expect("whole messages") {
            end += frame.body.len() as u64 + 8;
            let SessionMessage::Update(update) = SessionMessage::decode(&frame).expect("a message")
            else {
                continue;
            };
            let mut brought = Brought::default();
            for command in CommandReader::new(update.commands, SIZE) {
                match command.expect("a command") {
                    Command::Video(VideoCommand::Init { id, .. }) => brought.begun = Some(id),
                    Command::Video(VideoCommand::Next { frame: picture, .. }) => {
                        let number = *picture.data().first_chunk().expect("a number");
                        brought.frame = Some(u64::from_le_bytes(number));
                        brought.key = matches!(picture, FrameData::Coded { keyframe: Some(_), .. });
                    }
                    Command::Raw { rect, data, .. } => {
                        let job = u64::from_le_bytes(*data.first_chunk().expect("a number"));
                        if rect.y2 == VIDEO.height as i32 {
                            brought.frame = Some(self.jobs[job as usize]);
                        }
                        if rect.y2 == GLYPHS_Y + 16 {
                            brought.glyphs.push(rect.x1 as u64 / 10);
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
            self.say(id, if self.refuses { DecoderState::Refused } else { DecoderState::Ready });
        }
        if let Some(frame) = what.frame {
            // What was sent before the video began is not part of it.
            if let Some(shown) = self.shown.get_mut(frame as usize) {
                shown.get_or_insert(self.now + DECODING);
            }
        }
        for &glyph in &what.glyphs {
            // Again for a frame that was shown lossy first.
            if let Some(typed) = self.glyphs.get_mut(glyph as usize).and_then(Option::take) {
                self.answers.push(self.now - typed);
            }
        }
        self.to_session.push_back((back, ViewerMessage::Ack(Ack { update: seq, presented: None })));
    }

    fn say(&mut self, id: u16, decoder: DecoderState) {
        let back = self.now + self.tcp.path.delay;
        self.to_session.push_back((back, ViewerMessage::Video(VideoStatus { id, decoder })));
    }

    fn wait(&mut self, time: Micros) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// So much of the video, from its current position.
    fn play(&mut self, time: Micros) {
        self.next_frame.get_or_insert(self.now + STEP);
        self.wait(time);
    }

    /// Like players: the first frame is shown for a while before the video plays.
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
        self.session.stats(self.viewer).expect("it was just pushed").video
    }

    /// Percent of the frames from `first` on that were no later than allowed on the clock of half
    /// of them; those of the last half second are not known yet.
    fn on_time(&self, first: usize) -> f64 {
        let frames = first..self.drawn.len().saturating_sub(15);
        let late = |frame: usize| self.shown[frame].map(|at| at - self.drawn[frame]);
        let mut delays: Vec<Micros> = frames.clone().filter_map(late).collect();
        delays.sort_unstable();
        let clock = delays.get(delays.len() / 2).copied().unwrap_or(0);
        let on_time = delays.iter().filter(|&&delay| delay <= clock + ON_TIME).count();
        on_time as f64 * 100.0 / frames.len() as f64
    }

    /// Delays of glyphs that are typed twenty times a second.
    fn type_beside(&mut self, time: Micros) -> Vec<Micros> {
        let end = self.now + time;
        while self.now < end {
            self.glyph();
            self.play(50_000);
        }
        self.play(500_000);
        assert_eq!(self.answers.len(), self.glyphs.len(), "each glyph is shown");
        let mut answers = std::mem::take(&mut self.answers);
        answers.sort_unstable();
        answers
    }

    fn report(&self, what: &str) -> f64 {
        let on_time = self.on_time(0);
        let missed = self.shown.iter().filter(|shown| shown.is_none()).count();
        let (keys, now, stats) = (self.keys, self.now / 1000, self.stats());
        let rate = self.tcp.handed * 8 / 1000;
        println!(
            "{what}: {on_time:.1} % on time, {missed} not shown, {keys} keyframes, {rate} kbit in \
                {now} ms, {stats:?}"
        );
        on_time
    }
}

#[test]
fn a_video_is_on_time_on_a_long_path() {
    let mut run = Run::ready(WAN);
    run.play(10_000_000);
    assert_eq!(run.report("100 Mbit/s, 66 ms").round(), 100.0);
    assert_eq!(run.stats().keyframes, 1);
}

#[test]
fn a_video_is_on_time_if_the_window_is_closed_for_a_while() {
    let mut run = Run::ready(Path { window: Window::Probes, ..WAN });
    run.play(20_000_000);
    // What is drawn while the window is closed is late or dropped: 0.3 s of ten.
    assert!(run.report("100 Mbit/s, 66 ms, BBR") >= 97.5);
    assert_eq!(run.stats().keyframes, 1);
}

#[test]
fn a_video_is_on_time_on_a_slow_path() {
    for window in [Window::Restarts, Window::Probes] {
        let mut run = Run::ready(Path { window, ..SLOW });
        let before = run.tcp.handed;
        run.play(20_000_000);
        assert!(run.report("5 Mbit/s, 20 ms") >= 96.0);
        assert_eq!(run.stats().keyframes, 1);
        let used = (run.tcp.handed - before) / 20;
        assert!(used > SLOW.bytes_per_second * 2 / 3, "it takes {used} bytes a second of the path");
    }
}

#[test]
fn glyphs_beside_a_video_wait_for_no_more_than_the_frame_being_sent() {
    let mut run = Run::ready(SLOW);
    run.play(3_000_000);
    let answers = run.type_beside(5_000_000);
    run.report("5 Mbit/s, 20 ms, with typing");
    let at = |percent: usize| answers[(answers.len() - 1) * percent / 100];
    println!("glyphs after {} us, 90 % after {} us, all after {} us", at(50), at(90), at(100));
    assert!(at(50) < 35_000 && at(90) < 60_000, "{answers:?}");
}

/// Which frames of the ten that a stall delays are late depends on where the video's cuts fall: so
/// the mean of stalls at so many moments.
const STALLS: u64 = 20;

#[test]
fn after_a_stall_a_video_continues_within_a_second_without_a_keyframe() {
    for path in [SLOW, WAN] {
        let mut on_time = 0.0;
        for number in 0..STALLS {
            let mut run = Run::ready(path);
            run.play(5_000_000 + number * 130_000);
            let VideoStats { keyframes, bits_per_second: before, .. } = run.stats();
            run.tcp.stall(3_000_000);
            run.play(3_000_000);
            let first = run.drawn.len();
            run.play(1_000_000);
            let after = run.stats().bits_per_second;
            run.play(5_000_000);
            assert_eq!(run.stats().keyframes, keyframes);
            assert!(after * 3 >= before, "{before} bits a second before, {after} a second after");
            on_time += run.on_time(first) / STALLS as f64;
        }
        println!("{on_time} % on time from then on");
        assert!(on_time >= 94.0, "{on_time} % on time from then on");
    }
}

#[test]
fn a_long_lived_stream_resets_the_backoff_of_refused_ones() {
    let mut run = Run::new(SLOW);
    run.refuses = true;
    run.play(9_000_000);
    run.refuses = false;
    // Its pause is the third.
    run.play(10_000_000);
    let stream = |run: &Run| {
        (0..16).find(|&id| run.session.has_video(run.viewer, id)).expect("the stream exists")
    };
    run.play(35_000_000);
    run.say(stream(&run), DecoderState::Refused);
    let refused = run.now;
    run.play(4_000_000);
    let pauses: Vec<Micros> =
        run.offered.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert_eq!(pauses[..3], [2, 4, 8], "seconds");
    let pause = run.offered.last().map_or(0, |at| at.saturating_sub(refused));
    assert!(
        (2_000_000..3_000_000).contains(&pause),
        "{pause} us, where 16 s would be next: {:?}",
        run.offered
    );
}
