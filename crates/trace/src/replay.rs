//! A trace through the whole pipeline: session-core, planning, encoders, a link and viewer-core, in
//! one thread. From file.rs event by event, to statistics and a hash of every frame. Virtual time
//! decides; the real clock, here and in times.rs, only measures the work for the report.

use std::time::{Duration, Instant};

use thinc_codec_enc::Encoder;
use thinc_protocol::Micros;
use thinc_protocol::session::CursorColors;
use thinc_protocol::wire::WireError;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, RecordKind};
use thinc_session_core::{
    Config, CursorData, CursorImageOwned, LossyPolicy, Scheduling, Session, VideoPolicy,
    ViewerStats as Sent, Violation,
};
use thinc_viewer_core::{ViewerError, ViewerStats as Shown};

use crate::canvas::Canvas;
use crate::event::{Cursor, Event, RecordBytes};
use crate::file::Head;
use crate::link::LinkSpec;
use crate::synthetic::SyntheticScreen;
use crate::times::{RecordTimes, Times};
use crate::viewer::Connection;

/// 500 us: how soon a deadline is checked again that has passed without any work; as in
/// session-server.
const DEADLINE_STEP: Micros = 500;
/// 10 min of virtual time: enough to send everything over any reasonable link.
const REST_TIME_MAX: Micros = 600_000_000;
/// Pause between two rounds of a trace: longer than any age limit or hot window.
const ROUND_PAUSE: Micros = 2_000_000;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The link between session and viewer.
    pub link: LinkSpec,
    /// Compare the viewer with the traced screen whenever everything is at rest.
    pub verify: bool,
    /// As `thinc serve --scheduling`.
    pub scheduling: Scheduling,
    /// As `thinc serve --offscreen`.
    pub offscreen: bool,
    /// Stop after so many records.
    pub records_max: u64,
    /// How much of the pipeline runs.
    pub depth: Depth,
}

/// How much of the pipeline is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// All of it.
    #[default]
    Viewer,
    /// Translation, queues and scheduling: jobs are committed but not read. No pixels are sent,
    /// only COPYs.
    Queues,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            link: LinkSpec::default(),
            verify: false,
            scheduling: Scheduling::default(),
            offscreen: true,
            records_max: u64::MAX,
            depth: Depth::default(),
        }
    }
}

/// Why a replay ends early: a bug of ours, or a trace that no session could have recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The viewer differs from the screen.
    #[error(
        "after record {records} the viewer shows {shows:06x} at ({x}, {y}), and the screen \
            {screen:06x}; {count} pixels differ"
    )]
    Differs {
        /// Records replayed.
        records: u64,
        /// First place.
        x: u32,
        /// First place.
        y: u32,
        /// Its pixel in the viewer.
        shows: u32,
        /// Its pixel on the screen.
        screen: u32,
        /// Number of different pixels.
        count: usize,
    },
    /// The viewer has another size than the screen.
    #[error("after record {0} the viewer and the screen have different sizes")]
    Sizes(u64),
    /// The viewer rejected the session's bytes.
    #[error("the viewer rejected the session's bytes: {0}")]
    Viewer(#[from] ViewerError),
    /// The session rejected the viewer's messages.
    #[error("the session rejected the viewer's messages: {0}")]
    Violation(#[from] Violation),
    /// Bytes that are no messages.
    #[error("invalid messages between session and viewer: {0}")]
    Wire(WireError),
    /// The session closed.
    #[error("the session closed the viewer: {0}")]
    Closed(String),
    /// The queues do not drain.
    #[error("the queues did not drain within ten minutes after the last record")]
    NotDrained,
}

/// How often the viewer was compared with the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Successful comparisons at rest.
    pub comparisons: u64,
    /// True if the last one was at the end.
    pub end: bool,
}

/// The results of a replay.
#[derive(Clone, Debug)]
pub struct Report {
    /// Records replayed.
    pub records: u64,
    /// Polls of the ring.
    pub polls: u64,
    /// Rounds through the trace.
    pub rounds: u64,
    /// Virtual time.
    pub duration: Micros,
    /// The session's statistics of its viewer.
    pub sent: Sent,
    /// The viewer's statistics.
    pub shown: Shown,
    /// XXH3 of every frame sent: equal for the same trace and options.
    pub hash: u64,
    /// Comparisons, if requested.
    pub verified: Verified,
    /// Real time from a record's bytes to the queues, without its share of a flush.
    pub translation: Duration,
    /// The same for single records, if enough were replayed.
    pub record_times: Option<RecordTimes>,
}

/// Where the screen's pixels come from.
enum Screen {
    /// From the trace.
    Traced(Canvas),
    /// The trace is redacted: drawn from the records.
    SyntheticScreen(Box<SyntheticScreen>),
}

impl Screen {
    fn canvas(&self) -> &Canvas {
        match self {
            Screen::Traced(canvas) => canvas,
            Screen::SyntheticScreen(synthetic) => &synthetic.screen,
        }
    }
}

/// A replay in progress. Pass every event of a trace, call `begin_round` before repeating them, and
/// `finish` after the last.
pub struct Replay {
    options: Options,
    session: Session,
    connection: Connection,
    screen: Screen,
    encoder: Encoder,
    cursor_serial: Option<u32>,
    cursor_warps: Option<u32>,
    now: Micros,
    /// Virtual time at which this round began.
    round_from: Micros,
    /// Added to every op of this round: op numbers never repeat.
    op_base: u64,
    op_newest: u64,
    /// True if the last record ended its op.
    op_whole: bool,
    begin: u64,
    /// A later round has not reached its geometry yet.
    awaits_geometry: bool,
    /// In a later round: the screen at the end of the last one, until its differences are known.
    last_screen: Option<Vec<u32>>,
    records: u64,
    polls: u64,
    rounds: u64,
    verified: Verified,
    translation: Duration,
    times: Times,
}

impl Replay {
    /// A session with one viewer and no screen yet.
    pub fn new(head: &Head, options: Options) -> Replay {
        let size = Size { width: 1, height: 1 };
        let Options { scheduling, offscreen, link, .. } = options;
        let mut session = Session::new(Config {
            name: "trace".into(),
            size,
            scheduling,
            offscreen,
            lossy: LossyPolicy::Auto,
            video: VideoPolicy::Off,
            max_rate: None,
        });
        session.handle_attach(size);
        let connection = Connection::new(&mut session, link, 0);
        Replay {
            options,
            session,
            connection,
            screen: if head.redacted {
                Screen::SyntheticScreen(Box::default())
            } else {
                Screen::Traced(Canvas::new(size))
            },
            encoder: Encoder::new(),
            cursor_serial: None,
            cursor_warps: None,
            now: 0,
            round_from: 0,
            op_base: 0,
            op_newest: 0,
            op_whole: true,
            begin: 0,
            awaits_geometry: false,
            last_screen: None,
            records: 0,
            polls: 0,
            rounds: 1,
            verified: Verified::default(),
            translation: Duration::ZERO,
            times: Times::new(),
        }
    }

    /// Records replayed so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// True once the requested number of records has been replayed.
    pub fn is_done(&self) -> bool {
        self.records >= self.options.records_max
    }

    /// Starts another round: the screen returns to its first state, and the difference is reported
    /// like dirty tiles after an overflow.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
        self.round_from = self.now + ROUND_PAUSE;
        self.op_base = self.op_newest.max(self.begin);
        self.op_whole = true;
        self.awaits_geometry = true;
        // If no pixels are read, they need not be right.
        if self.options.depth == Depth::Viewer {
            self.last_screen = Some(self.screen.canvas().pixels.clone());
        }
    }

    /// Replays an event.
    ///
    /// # Errors If viewer and screen differ, or one side rejects the other's bytes.
    pub fn handle_event(&mut self, event: &Event) -> Result<(), ReplayError> {
        if self.is_done() {
            return Ok(());
        }
        match event {
            Event::Poll(at) => {
                self.run_until(self.round_from + at)?;
                self.polls += 1;
            }
            Event::Records(records) => self.take_records(records),
            Event::Geometry { size, .. } => self.take_geometry(*size),
            Event::Cursor(cursor) => self.take_cursor(cursor),
            Event::Dirty(rects) => self.take_dirty(rects),
            Event::Pixels(rect, pixels) => {
                if let Screen::Traced(canvas) = &mut self.screen {
                    canvas.put(*rect, pixels);
                }
            }
            Event::Gap { rects, .. } => {
                let record = DrawRecord {
                    op: self.op_newest,
                    more: false,
                    window: 0,
                    kind: RecordKind::Overflow,
                };
                self.session.handle_record(&record, self.now);
                self.op_whole = true;
                self.take_dirty(rects);
            }
            Event::Read(begin) => {
                self.begin = self.begin.max(self.op_base + begin);
                self.report_differences();
                self.serve()?;
                self.verify()?;
            }
            Event::End(_) => {}
        }
        Ok(())
    }

    fn take_records(&mut self, records: &[RecordBytes]) {
        let room = self.options.records_max - self.records;
        let records = &records[..records.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if let (Screen::SyntheticScreen(synthetic), Depth::Viewer) =
            (&mut self.screen, self.options.depth)
        {
            records.iter().for_each(|bytes| synthetic.record(&parse(bytes)));
        }
        let start = Instant::now();
        for bytes in records {
            let record = self.times.record(|| {
                let mut record = parse(bytes);
                record.op += self.op_base;
                self.session.handle_record(&record, self.now);
                record
            });
            self.op_newest = self.op_newest.max(record.op);
            self.op_whole = !record.more;
        }
        self.translation += start.elapsed();
        self.records += records.len() as u64;
    }

    fn take_geometry(&mut self, size: Size) {
        // Repeated at the start of every round; if the size is the same, the viewer need not start
        // again.
        if std::mem::take(&mut self.awaits_geometry) && self.screen.canvas().size == size {
            if let Screen::Traced(canvas) = &mut self.screen {
                canvas.pixels.fill(0);
            }
            return;
        }
        self.last_screen = None;
        match &mut self.screen {
            Screen::Traced(canvas) => *canvas = Canvas::new(size),
            Screen::SyntheticScreen(synthetic) => synthetic.geometry(size),
        }
        self.session.handle_geometry(size);
    }

    /// Reports the differences between the screen at the start of this round and at the end of the
    /// last.
    fn report_differences(&mut self) {
        let Some(old) = self.last_screen.take() else { return };
        let canvas = self.screen.canvas();
        let mut changed = Region::new();
        for (y, (old, new)) in old
            .chunks(canvas.size.width as usize)
            .zip(canvas.pixels.chunks(canvas.size.width as usize))
            .enumerate()
        {
            let differs = |(old, new): (&u32, &u32)| old != new;
            let first = old.iter().zip(new).position(differs);
            let last = old.iter().zip(new).rposition(differs);
            if let (Some(first), Some(last)) = (first, last) {
                changed.add_rect(Rect::new(first as i32, y as i32, last as i32 + 1, y as i32 + 1));
            }
        }
        if !changed.is_empty() {
            let record = DrawRecord {
                op: self.op_newest,
                more: false,
                window: 0,
                kind: RecordKind::Overflow,
            };
            self.session.handle_record(&record, self.now);
            self.session.handle_overflow(&changed.simplified(64));
        }
    }

    fn take_dirty(&mut self, rects: &[Rect]) {
        if let Screen::SyntheticScreen(synthetic) = &mut self.screen {
            synthetic.lost(rects, self.op_newest);
        }
        self.session.handle_overflow(&rects.iter().copied().collect());
    }

    /// As in session-server at the end of a poll.
    fn take_cursor(&mut self, cursor: &Cursor) {
        if let Some((fore, back)) = cursor.two_colors {
            self.session.handle_cursor_colors(CursorColors { fore, back });
        }
        if cursor.serial != 0 && self.cursor_serial.replace(cursor.serial) != Some(cursor.serial) {
            let mut bytes = Vec::new();
            let pixels = if cursor.size.area() == 0 {
                CursorData::Argb(bytes)
            } else if cursor.two_colors.is_none() {
                self.encoder.cursor(&cursor.pixels, &mut bytes);
                CursorData::Argb(bytes)
            } else {
                let fore: Vec<bool> = cursor.pixels.iter().map(|&pixel| pixel == 2).collect();
                let inside: Vec<bool> = cursor.pixels.iter().map(|&pixel| pixel != 0).collect();
                let compression = self.encoder.cursor_planes(
                    cursor.size.width as usize,
                    &fore,
                    &inside,
                    &mut bytes,
                );
                CursorData::TwoColors { compression, planes: bytes }
            };
            let (hot_x, hot_y) = cursor.hot;
            self.session.handle_cursor(CursorImageOwned {
                size: cursor.size,
                hot_x,
                hot_y,
                pixels,
            });
        }
        self.session.handle_cursor_show(cursor.visible);
        if self.cursor_warps.replace(cursor.warps).is_some_and(|warps| warps != cursor.warps) {
            let on_screen = |value: i32| value.clamp(0, i32::from(u16::MAX)) as u16;
            self.session.handle_cursor_move(on_screen(cursor.at.0), on_screen(cursor.at.1));
        }
    }

    fn serve(&mut self) -> Result<(), ReplayError> {
        // There is no X server to execute requests; without input they are only sizes.
        while self.session.poll_request(self.now).is_some() {}
        self.connection.deliver(&mut self.session, self.now, self.options.depth)?;
        let screen = (self.options.depth == Depth::Viewer).then(|| self.screen.canvas());
        self.connection.serve(&mut self.session, screen, self.begin, self.now)
    }

    /// The time of the next event before `end` that happens by itself.
    fn next_at(&self, end: Micros) -> Option<Micros> {
        let deadline =
            self.session.poll_deadline(self.now).map(|at| at.max(self.now + DEADLINE_STEP));
        [self.connection.next_at(), deadline].into_iter().flatten().min().filter(|&at| at < end)
    }

    /// Lets virtual time pass.
    fn run_until(&mut self, end: Micros) -> Result<(), ReplayError> {
        while let Some(at) = self.next_at(end) {
            self.now = self.now.max(at);
            self.serve()?;
            self.verify()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// True if the pixels contain no op whose records are still missing.
    fn is_settled(&self) -> bool {
        self.last_screen.is_none()
            && match self.screen {
                Screen::Traced(_) => self.op_whole && self.begin <= self.op_newest,
                Screen::SyntheticScreen(_) => self.op_whole,
            }
    }

    fn is_at_rest(&self) -> bool {
        self.session.is_drained() && self.connection.next_at().is_none()
    }

    fn verify(&mut self) -> Result<(), ReplayError> {
        if !self.options.verify || !self.is_at_rest() || !self.is_settled() {
            return Ok(());
        }
        self.compare()?;
        self.verified.comparisons += 1;
        Ok(())
    }

    fn compare(&self) -> Result<(), ReplayError> {
        let (shown, screen) = (self.connection.viewer.framebuffer(), self.screen.canvas());
        if shown.size() != screen.size {
            return Err(ReplayError::Sizes(self.records));
        }
        let wrong = |(shows, screen): (&u32, &u32)| (shows ^ screen) & 0x00ff_ffff != 0;
        let count = shown.pixels().iter().zip(&screen.pixels).filter(|&pair| wrong(pair)).count();
        let Some(at) = shown.pixels().iter().zip(&screen.pixels).position(wrong) else {
            return Ok(());
        };
        Err(ReplayError::Differs {
            records: self.records,
            x: at as u32 % screen.size.width,
            y: at as u32 / screen.size.width,
            shows: shown.pixels()[at] & 0x00ff_ffff,
            screen: screen.pixels[at],
            count,
        })
    }

    /// Drains all queues, and returns the results.
    ///
    /// # Errors As `handle_event`; and if the queues do not drain.
    pub fn finish(mut self) -> Result<Report, ReplayError> {
        let end = self.now + REST_TIME_MAX;
        while !self.is_at_rest() {
            if self.now >= end {
                return Err(ReplayError::NotDrained);
            }
            let next = self.next_at(end).unwrap_or(self.now + DEADLINE_STEP);
            self.run_until(next + 1)?;
        }
        if self.options.verify && self.is_settled() && self.polls > 0 {
            self.compare()?;
            self.verified.end = true;
        }
        Ok(Report {
            records: self.records,
            polls: self.polls,
            rounds: self.rounds,
            duration: self.now,
            sent: self.session.stats(self.connection.id()).unwrap_or_default(),
            shown: self.connection.viewer.stats().clone(),
            hash: self.connection.hash(),
            verified: self.verified,
            translation: self.translation,
            record_times: self.times.of_records(),
        })
    }
}

fn parse(bytes: &RecordBytes) -> DrawRecord {
    DrawRecord::parse(bytes).expect("the reader has validated every record")
}
