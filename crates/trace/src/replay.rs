//! A trace through the whole pipeline: session-core, planning, encoders, a link and viewer-core, in one thread.
//! From file.rs event by event, to figures and a hash of every frame.
//! Virtual time decides; the clock here and in times.rs measures how long the work took and nothing reads it but the report.

use std::time::{Duration, Instant};

use thinc_codec_enc::Encoder;
use thinc_protocol::Micros;
use thinc_protocol::session::CursorColors;
use thinc_protocol::wire::WireError;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, RecordKind};
use thinc_session_core::{
    Config, CursorData, CursorImageOwned, LossyPolicy, Scheduling, Session, VideoPolicy, ViewerStats as Sent, Violation,
};
use thinc_viewer_core::{ViewerError, ViewerStats as Shown};

use crate::canvas::Canvas;
use crate::event::{Cursor, Event, RecordBytes};
use crate::file::Head;
use crate::link::LinkSpec;
use crate::stand_in::StandIn;
use crate::times::{RecordTimes, Times};
use crate::viewer::Connection;

/// A deadline that has passed without making work ripe is looked at again after this long; session-server does the same.
const DEADLINE_STEP: Micros = 500;
/// 10 min of virtual time: by then everything has been sent over any link that is worth a replay.
const REST_TIME_MAX: Micros = 600_000_000;
/// Between two rounds of one trace: longer than an age bound or a hot window reaches.
const ROUND_PAUSE: Micros = 2_000_000;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Between session and viewer.
    pub link: LinkSpec,
    /// Compare what the viewer shows with the traced screen whenever everything is at rest.
    pub verify: bool,
    /// As `thinc serve --scheduling`.
    pub scheduling: Scheduling,
    /// As `thinc serve --offscreen`.
    pub offscreen: bool,
    /// Stop after so many records.
    pub records_max: u64,
    /// How far the records go.
    pub depth: Depth,
}

/// How much of the pipeline is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// All of it.
    #[default]
    Viewer,
    /// Translation, queues and scheduling: jobs are committed, and not read. No pixel is sent, only COPYs.
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

/// Why a replay ends early: always a bug of ours, or a trace of something that no session has met.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The viewer shows something else than the screen.
    #[error(
        "after record {records} the viewer shows {shows:06x} at ({x}, {y}), the screen {screen:06x}; {count} pixels differ"
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
        /// How many places.
        count: usize,
    },
    /// The viewer has another size than the screen.
    #[error("after record {0} viewer and screen have different sizes")]
    Sizes(u64),
    /// The viewer found the session's bytes wrong.
    #[error("the viewer gave up: {0}")]
    Viewer(#[from] ViewerError),
    /// The session found the viewer's messages wrong.
    #[error("the session gave up: {0}")]
    Violation(#[from] Violation),
    /// The viewer's bytes are no messages.
    #[error("the viewer's bytes are wrong: {0}")]
    Wire(WireError),
    /// The session closed.
    #[error("the session closed the viewer: {0}")]
    Closed(String),
    /// Something waits for ever.
    #[error("ten minutes after the last record the viewer has still not everything")]
    NoRest,
}

/// How often the viewer was held against the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Moments at which nothing was under way, and all was equal.
    pub moments: u64,
    /// The last of them was the end.
    pub end: bool,
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Records replayed.
    pub records: u64,
    /// Looks at the ring that brought them.
    pub turns: u64,
    /// Times through the trace.
    pub rounds: u64,
    /// On virtual time.
    pub duration: Micros,
    /// The session's figures of its viewer.
    pub sent: Sent,
    /// The viewer's own.
    pub shown: Shown,
    /// XXH3 of every frame sent: the same trace and options give the same.
    pub hash: u64,
    /// Comparisons, where they were asked for.
    pub verified: Verified,
    /// Real time spent from a record's bytes to the queues; its share of a flush is not in it.
    pub translation: Duration,
    /// The same of single records, where enough were replayed.
    pub record_times: Option<RecordTimes>,
}

/// Where the screen's pixels come from.
enum Screen {
    /// They are in the trace.
    Traced(Canvas),
    /// They were redacted: drawn from the records.
    StandIn(Box<StandIn>),
}

impl Screen {
    fn canvas(&self) -> &Canvas {
        match self {
            Screen::Traced(canvas) => canvas,
            Screen::StandIn(stand_in) => &stand_in.screen,
        }
    }
}

/// A replay under way. Give it every event of a trace, `begin_round` before they come again, `finish` after the last.
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
    /// Added to every op of this round: numbers of ops never come twice.
    op_base: u64,
    op_newest: u64,
    /// The last record ended its op.
    op_whole: bool,
    begin: u64,
    /// A later round has not come to its geometry.
    begins_again: bool,
    /// In a later round: the screen as the last one left it, until it is known what has changed since.
    left_over: Option<Vec<u32>>,
    records: u64,
    turns: u64,
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
        });
        session.handle_attach(size);
        let connection = Connection::new(&mut session, link, 0);
        Replay {
            options,
            session,
            connection,
            screen: if head.redacted { Screen::StandIn(Box::default()) } else { Screen::Traced(Canvas::new(size)) },
            encoder: Encoder::new(),
            cursor_serial: None,
            cursor_warps: None,
            now: 0,
            round_from: 0,
            op_base: 0,
            op_newest: 0,
            op_whole: true,
            begin: 0,
            begins_again: false,
            left_over: None,
            records: 0,
            turns: 0,
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

    /// True when as many records were replayed as were asked for.
    pub fn is_done(&self) -> bool {
        self.records >= self.options.records_max
    }

    /// The trace begins again: the screen goes back to what it was, which is told as what an overflow loses.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
        self.round_from = self.now + ROUND_PAUSE;
        self.op_base = self.op_newest.max(self.begin);
        self.op_whole = true;
        self.begins_again = true;
        // Where no pixel is read, none has to be right.
        if self.options.depth == Depth::Viewer {
            self.left_over = Some(self.screen.canvas().pixels.clone());
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// Where viewer and screen differ, or one of the two gives up.
    pub fn handle_event(&mut self, event: &Event) -> Result<(), ReplayError> {
        if self.is_done() {
            return Ok(());
        }
        match event {
            Event::Turn(at) => {
                self.run_until(self.round_from + at)?;
                self.turns += 1;
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
                let record = DrawRecord { op: self.op_newest, more: false, window: 0, kind: RecordKind::Overflow };
                self.session.handle_record(&record, self.now);
                self.op_whole = true;
                self.take_dirty(rects);
            }
            Event::Read(begin) => {
                self.begin = self.begin.max(self.op_base + begin);
                self.take_left_over();
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
        if let (Screen::StandIn(stand_in), Depth::Viewer) = (&mut self.screen, self.options.depth) {
            records.iter().for_each(|bytes| stand_in.record(&parse(bytes)));
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
        // Told again at the begin of every round; where it is the same, the viewer need not begin anew.
        if std::mem::take(&mut self.begins_again) && self.screen.canvas().size == size {
            if let Screen::Traced(canvas) = &mut self.screen {
                canvas.pixels.fill(0);
            }
            return;
        }
        self.left_over = None;
        match &mut self.screen {
            Screen::Traced(canvas) => *canvas = Canvas::new(size),
            Screen::StandIn(stand_in) => stand_in.geometry(size),
        }
        self.session.handle_geometry(size);
    }

    /// What the screen is at the start of another round, against what it was at the end of the last.
    fn take_left_over(&mut self) {
        let Some(old) = self.left_over.take() else { return };
        let canvas = self.screen.canvas();
        let mut changed = Region::new();
        for (y, (old, new)) in
            old.chunks(canvas.size.width as usize).zip(canvas.pixels.chunks(canvas.size.width as usize)).enumerate()
        {
            let differs = |(old, new): (&u32, &u32)| old != new;
            let first = old.iter().zip(new).position(differs);
            let last = old.iter().zip(new).rposition(differs);
            if let (Some(first), Some(last)) = (first, last) {
                changed.add_rect(Rect::new(first as i32, y as i32, last as i32 + 1, y as i32 + 1));
            }
        }
        if !changed.is_empty() {
            let record = DrawRecord { op: self.op_newest, more: false, window: 0, kind: RecordKind::Overflow };
            self.session.handle_record(&record, self.now);
            self.session.handle_overflow(&changed.simplified(64));
        }
    }

    fn take_dirty(&mut self, rects: &[Rect]) {
        if let Screen::StandIn(stand_in) = &mut self.screen {
            stand_in.lost(rects, self.op_newest);
        }
        self.session.handle_overflow(&rects.iter().copied().collect());
    }

    /// As session-server does it at the end of a look at the ring.
    fn take_cursor(&mut self, cursor: &Cursor) {
        if let Some((fore, back)) = cursor.two_colors {
            self.session.handle_cursor_colors(CursorColors { fore, back });
        }
        if self.cursor_serial.replace(cursor.serial) != Some(cursor.serial) {
            let mut bytes = Vec::new();
            let pixels = if cursor.size.area() == 0 {
                CursorData::Argb(bytes)
            } else if cursor.two_colors.is_none() {
                self.encoder.cursor(&cursor.pixels, &mut bytes);
                CursorData::Argb(bytes)
            } else {
                let fore: Vec<bool> = cursor.pixels.iter().map(|&pixel| pixel == 2).collect();
                let inside: Vec<bool> = cursor.pixels.iter().map(|&pixel| pixel != 0).collect();
                let packing = self.encoder.cursor_planes(cursor.size.width as usize, &fore, &inside, &mut bytes);
                CursorData::TwoColors { packing, planes: bytes }
            };
            let (hot_x, hot_y) = cursor.hot;
            self.session.handle_cursor(CursorImageOwned { size: cursor.size, hot_x, hot_y, pixels });
        }
        self.session.handle_cursor_show(cursor.visible);
        if self.cursor_warps.replace(cursor.warps).is_some_and(|warps| warps != cursor.warps) {
            let on_screen = |value: i32| value.clamp(0, i32::from(u16::MAX)) as u16;
            self.session.handle_cursor_move(on_screen(cursor.at.0), on_screen(cursor.at.1));
        }
    }

    fn serve(&mut self) -> Result<(), ReplayError> {
        // Nobody is there who could carry out a request; without a hand at the viewer only sizes are asked for.
        while self.session.poll_request(self.now).is_some() {}
        self.connection.deliver(&mut self.session, self.now, self.options.depth)?;
        let screen = (self.options.depth == Depth::Viewer).then(|| self.screen.canvas());
        self.connection.serve(&mut self.session, screen, self.begin, self.now)
    }

    /// The next moment before `end` at which something happens by itself.
    fn next_at(&self, end: Micros) -> Option<Micros> {
        let deadline = self.session.poll_deadline(self.now).map(|at| at.max(self.now + DEADLINE_STEP));
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

    /// Pixels and records are of one moment: no op is in the pixels whose records are still to come.
    fn is_settled(&self) -> bool {
        self.left_over.is_none()
            && match self.screen {
                Screen::Traced(_) => self.op_whole && self.begin <= self.op_newest,
                Screen::StandIn(_) => self.op_whole,
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
        self.verified.moments += 1;
        Ok(())
    }

    fn compare(&self) -> Result<(), ReplayError> {
        let (shown, screen) = (self.connection.viewer.framebuffer(), self.screen.canvas());
        if shown.size() != screen.size {
            return Err(ReplayError::Sizes(self.records));
        }
        let wrong = |(shows, screen): (&u32, &u32)| (shows ^ screen) & 0x00ff_ffff != 0;
        let count = shown.pixels().iter().zip(&screen.pixels).filter(|&pair| wrong(pair)).count();
        let Some(at) = shown.pixels().iter().zip(&screen.pixels).position(wrong) else { return Ok(()) };
        Err(ReplayError::Differs {
            records: self.records,
            x: at as u32 % screen.size.width,
            y: at as u32 / screen.size.width,
            shows: shown.pixels()[at] & 0x00ff_ffff,
            screen: screen.pixels[at],
            count,
        })
    }

    /// Lets everything come to rest, and says what it came to.
    ///
    /// # Errors
    /// As `handle_event`; and when it does not come to rest.
    pub fn finish(mut self) -> Result<Report, ReplayError> {
        let end = self.now + REST_TIME_MAX;
        while !self.is_at_rest() {
            if self.now >= end {
                return Err(ReplayError::NoRest);
            }
            let next = self.next_at(end).unwrap_or(self.now + DEADLINE_STEP);
            self.run_until(next + 1)?;
        }
        if self.options.verify && self.is_settled() && self.turns > 0 {
            self.compare()?;
            self.verified.end = true;
        }
        Ok(Report {
            records: self.records,
            turns: self.turns,
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
    DrawRecord::parse(bytes).expect("the trace's reader has parsed every record")
}
