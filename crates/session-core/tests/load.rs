//! Input and a screen full of photographs share 10 Mbit/s and 40 ms: which waits for which, and how
//! long. From drawings on virtual time, through the scheduler and a link with one queue, to when
//! each pixel was committed and shown. Knows session-core's public interface; bytes are made up, so
//! only the order of sending is measured.

use std::collections::VecDeque;

use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{Config, JobResult, NoPixels, Scheduling, Session, Unpacked, ViewerId};

const SIZE: Size = Size { width: 1024, height: 768 };
const BYTES_PER_SECOND: u64 = 1_250_000;
/// One way, in microseconds, as all times here.
const DELAY: u64 = 20_000;
/// The transport takes no more while it holds so many unsent bytes (TCP_NOTSENT_LOWAT).
const NOT_SENT_BYTES: u64 = 8 * 1024;
const TERMINAL: Rect = Rect::at(300, 200, 400, 300);
const TERMINAL_WINDOW: u32 = 1;
const IMAGE_WINDOW: u32 = 2;
/// Edge of the squares whose age is measured.
const SQUARE: i32 = 32;

/// Rectangles of an update, and when the pixels in each were committed.
type Brought = Vec<(u64, Rect)>;

struct Load {
    session: Session,
    viewer: ViewerId,
    now: u64,
    op: u64,
    deframer: Deframer,
    free_at: u64,
    /// When an update arrives, its number, and when each of its pixels was committed.
    in_flight: VecDeque<(u64, u64, Brought)>,
    acks: VecDeque<(u64, u64)>,
    /// When each job was committed.
    jobs: Vec<u64>,
    /// Since when each square has waited to be committed.
    waits: Vec<Option<u64>>,
    /// When what each square shows was committed.
    shown: Vec<u64>,
    waited_max: u64,
    /// Glyphs that are not shown yet, and the delays of those that are.
    glyphs: Vec<(u64, Rect)>,
    answers: Vec<u64>,
    /// When the viewer was last told to show its framebuffer, and the longest time without that.
    frame_at: u64,
    without_frame_max: u64,
}

fn squares() -> impl Iterator<Item = (i32, i32)> {
    let (columns, rows) = (SIZE.width as i32 / SQUARE, SIZE.height as i32 / SQUARE);
    (0..rows).flat_map(move |y| {
        (0..columns).map(move |x| (x * SQUARE + SQUARE / 2, y * SQUARE + SQUARE / 2))
    })
}

/// The rows of a rectangle in groups of about so many pixels.
fn pieces(rect: &Rect, area: u64) -> impl Iterator<Item = Rect> {
    let rows = (area / rect.width() as u64).max(1) as i32;
    let rect = *rect;
    (rect.y1..rect.y2).step_by(rows as usize).map(move |y| Rect {
        y1: y,
        y2: rect.y2.min(y + rows),
        ..rect
    })
}

impl Load {
    fn new(scheduling: Scheduling) -> Load {
        let mut session =
            Session::new(Config { scheduling, offscreen: false, ..Config::new("load", SIZE) });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            message_bytes_max: 1 << 24,
            name: "load".into(),
        };
        let viewer = session.add_viewer(&hello, 0);
        let count = squares().count();
        Load {
            session,
            viewer,
            now: 0,
            op: 0,
            deframer: Deframer::new(1 << 24),
            free_at: 0,
            in_flight: VecDeque::new(),
            acks: VecDeque::new(),
            jobs: Vec::new(),
            waits: vec![None; count],
            shown: vec![0; count],
            waited_max: 0,
            glyphs: Vec::new(),
            answers: Vec::new(),
            frame_at: 0,
            without_frame_max: 0,
        }
    }

    fn record(&mut self, window: u32, kind: RecordKind) {
        self.op += 1;
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window, kind }, self.now);
    }

    fn draw(&mut self, window: u32, rect: Rect, what: DrawHint) {
        self.record(
            window,
            RecordKind::Draw { dst: DrawableId::SCREEN, rect, hint: what, alpha: Alpha::Opaque },
        );
    }

    /// The photograph behind the terminal changes.
    fn photograph(&mut self) {
        let mut region = Region::from(SIZE.rect());
        region.subtract_rect(&TERMINAL);
        for rect in region.rects().to_vec() {
            self.draw(IMAGE_WINDOW, rect, DrawHint::Image);
        }
        self.record(0, RecordKind::Idle);
        for ((x, y), waits) in squares().zip(&mut self.waits) {
            if region.contains_point(x, y) {
                waits.get_or_insert(self.now);
            }
        }
    }

    /// A key is delivered, and the terminal draws its glyph.
    fn key(&mut self, key: i32) {
        self.record(
            TERMINAL_WINDOW,
            RecordKind::InputDelivered { seq: 0, window: TERMINAL_WINDOW },
        );
        let glyph = Rect::at(TERMINAL.x1 + key % 48 * 8, TERMINAL.y1 + key / 48 % 18 * 16, 8, 16);
        self.draw(TERMINAL_WINDOW, glyph, DrawHint::Glyphs);
        self.record(0, RecordKind::Idle);
        self.glyphs.push((self.now, glyph));
    }

    /// A millisecond passes.
    fn tick(&mut self) {
        self.now += 1_000;
        while self.acks.front().is_some_and(|&(at, _)| at <= self.now) {
            let (_, update) = self.acks.pop_front().unwrap();
            let ack = ViewerMessage::Ack(Ack { update, presented: None });
            self.session.handle_message(self.viewer, &ack, self.now).unwrap();
        }
        while let Some(job) = self.session.poll_job(self.viewer, self.now) {
            let planned = self.session.render(job, &mut NoPixels { tag: self.op });
            let planned = planned.expect("it is new");
            let job = planned.job();
            let photograph = !TERMINAL.contains(&job.region.extents());
            let mut commands = Commands::default();
            for piece in
                job.region.rects().iter().flat_map(|rect| pieces(rect, job.hints.piece_area))
            {
                let bytes = if photograph { piece.area() * 3 / 2 } else { piece.area() / 2 + 8 };
                // Only the end of this link reads them, which looks for the job.
                let mut data = vec![0; bytes.max(8) as usize];
                data[..8].copy_from_slice(&job.id.0.to_le_bytes());
                Command::Raw { rect: piece, encoding: Encoding::Predicted, data: &data }
                    .append_to(&mut commands);
            }
            for ((x, y), waits) in squares().zip(&mut self.waits) {
                if job.region.contains_point(x, y)
                    && let Some(since) = waits.take()
                {
                    self.waited_max = self.waited_max.max(self.now - since);
                }
            }
            self.jobs.push(self.now);
            assert_eq!(self.jobs.len() as u64, job.id.0 + 1);
            self.session.complete(planned, JobResult::encoded(&commands));
        }
        let mut out = Vec::new();
        while self.free_at.saturating_sub(self.now) * BYTES_PER_SECOND / 1_000_000 < NOT_SENT_BYTES
        {
            out.clear();
            if !self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out) {
                break;
            }
            self.send(&out);
        }
        self.arrive();
    }

    fn send(&mut self, frames: &[u8]) {
        self.deframer.push(frames);
        while let Some(frame) = self.deframer.next().unwrap() {
            self.free_at =
                self.free_at.max(self.now) + frame.body.len() as u64 * 1_000_000 / BYTES_PER_SECOND;
            if let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap() {
                let commands =
                    CommandReader::new(update.commands, SIZE).map(|command| {
                        match command.unwrap() {
                            Command::Raw { rect, data, .. } => {
                                (u64::from_le_bytes(*data.first_chunk().unwrap()), rect)
                            }
                            other => panic!("this shell encodes RAWs, not {other:?}"),
                        }
                    });
                let commands: Brought =
                    commands.map(|(job, rect)| (self.jobs[job as usize], rect)).collect();
                if update.end_of_frame {
                    self.without_frame_max = self.without_frame_max.max(self.now - self.frame_at);
                    self.frame_at = self.now;
                }
                self.in_flight.push_back((self.free_at + DELAY, update.seq, commands));
            }
        }
    }

    fn arrive(&mut self) {
        while self.in_flight.front().is_some_and(|&(at, ..)| at <= self.now) {
            let (at, update, commands) = self.in_flight.pop_front().unwrap();
            self.acks.push_back((at + DELAY, update));
            for (committed, rect) in commands {
                for ((x, y), shown) in squares().zip(&mut self.shown) {
                    if rect.contains_point(x, y) {
                        *shown = (*shown).max(committed);
                    }
                }
                let answers = &mut self.answers;
                self.glyphs.retain(|(typed, glyph)| {
                    let seen = *typed <= committed && rect.contains(glyph);
                    if seen {
                        answers.push(at - typed);
                    }
                    !seen
                });
            }
        }
    }

    /// Types 20 keys a second for ten seconds while the photograph changes twice a second; then
    /// both stop. Returns how long after its last change all of the photograph is shown.
    fn run(&mut self) -> u64 {
        // The rate is known.
        while self.now < 2_000_000 {
            if self.now.is_multiple_of(500_000) {
                self.photograph();
            }
            self.tick();
        }
        self.waited_max = 0;
        let mut changed = 0;
        for ms in 0..10_000 {
            if ms % 500 == 0 {
                self.photograph();
                changed = self.now;
            }
            if ms % 50 == 7 {
                self.key(ms / 50);
            }
            self.tick();
        }
        let mut region = Region::from(SIZE.rect());
        region.subtract_rect(&TERMINAL);
        let old = |load: &Load| {
            squares()
                .zip(&load.shown)
                .any(|((x, y), &shown)| region.contains_point(x, y) && shown <= changed)
        };
        while old(self) {
            self.tick();
            assert!(self.now < changed + 10_000_000, "the photograph is never whole");
        }
        let whole = self.now - changed;
        while !self.glyphs.is_empty() {
            self.tick();
            assert!(
                self.now < changed + 10_000_000,
                "{} glyphs are never shown",
                self.glyphs.len()
            );
        }
        self.answers.sort_unstable();
        whole
    }

    fn answer(&self, percent: usize) -> u64 {
        self.answers[(self.answers.len() - 1) * percent / 100]
    }
}

#[test]
fn input_waits_for_no_photograph_and_no_pixel_waits_without_limit() {
    let mut load = Load::new(Scheduling::ShortestFirst);
    let whole = load.run();
    let (median, p95, waited) = (load.answer(50), load.answer(95), load.waited_max);
    println!(
        "glyphs after {median} us, 95 % after {p95} us; a pixel waits {waited} us at most, whole \
            after {whole} us"
    );
    // A glyph takes 20 ms without other load.
    assert!(median <= 30_000, "half of the glyphs take more than {median} us");
    assert!(p95 <= 50_000, "one glyph in twenty takes more than {p95} us");
    assert!(waited <= 3_000_000, "a pixel waited for {waited} us");
    let area = SIZE.area() - TERMINAL.area();
    let sending = area * 3 / 2 * 1_000_000 / BYTES_PER_SECOND;
    assert!(
        whole <= sending + 2 * DELAY + 50_000,
        "its bytes pass in {sending} us, and it was whole after {whole} us"
    );
}

#[test]
fn a_screen_drawn_faster_than_it_is_sent_is_shown_all_the_time() {
    let mut load = Load::new(Scheduling::ShortestFirst);
    for ms in 0..6_000 {
        if ms == 1_000 {
            // The rate is known.
            load.without_frame_max = 0;
        }
        if ms % 500 == 0 {
            load.photograph();
        }
        load.tick();
    }
    let without = load.without_frame_max.max(load.now - load.frame_at);
    assert!(without <= 150_000, "the viewer was not told to show anything for {without} us");
}

#[test]
fn a_plain_queue_makes_input_wait() {
    let mut load = Load::new(Scheduling::Fifo);
    load.run();
    let (median, p95) = (load.answer(50), load.answer(95));
    println!("oldest first: glyphs after {median} us, 95 % after {p95} us");
    assert!(median > 100_000, "glyphs overtake: half are shown after {median} us");
}
