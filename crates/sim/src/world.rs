//! The whole path in one thread on virtual time: X server, session, links and viewers, driven by operations.
//! From workload.rs, to whoever asks whether every viewer's framebuffer equals the X screen.
//! Knows all parts by their public faces; a new feature is a new `Op`.

use std::collections::{HashMap, VecDeque};

use thinc_pixels::Verdict;
use thinc_protocol::Micros;
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::VIEWER_FRAME_BYTES_MAX;
use thinc_protocol::video::Readiness;
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, DrawableId, InputMessage, RecordKind};
use thinc_session_core::{
    Arrival, Config, CursorData, CursorImageOwned, Job, LossyPolicy, Proposals, Request, Scheduling, Session,
    SnapshotVerdict, Upstream, VideoPolicy, ViewerId,
};

use crate::breakage::Breakage;
use crate::datagrams::Lossy;
use crate::link::{Link, Path, Tells};
use crate::op::{Op, draw};
use crate::oracle::{self, Seen, Tally};
use crate::pipeline::{Heard, Pipeline, halves};
use crate::random::Random;
use crate::x_server::XServer;

mod alone;
mod picture;
mod rest;

use picture::Plane;
mod video;

/// How videos travel, by seeds.
const POLICIES: [VideoPolicy; 5] =
    [VideoPolicy::Auto, VideoPolicy::H264, VideoPolicy::Auto, VideoPolicy::Plain, VideoPolicy::H264];

/// What must not be: how the world came apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence(pub String);

struct Encoding {
    job: Job,
    bytes: Vec<u8>,
}

struct Connection<P> {
    id: ViewerId,
    pipeline: P,
    path: Path,
    down: Link,
    up: Link,
    upstream: Upstream,
    deframer: Deframer,
    stalled: bool,
    inbox: VecDeque<Vec<u8>>,
    /// Its updates do not come by `down`.
    lossy: Option<Lossy>,
    tells: Tells,
    shadow_epoch: u32,
    /// Handed out and not read.
    jobs: VecDeque<Job>,
    /// Read and not encoded.
    encodings: Vec<Encoding>,
    last_ends_frame: bool,
    seen: Seen,
    /// It has asked for a view: what it shows was never on the screen.
    chose: bool,
    /// It lost pixels since the last rest: a barrier promises what was sent, not what it kept.
    lost: bool,
    /// The newest update that it said it has applied, as far as the session has heard.
    acked: u64,
    /// Streams of which the session has heard that the viewer is lost, a bit each: what is committed next leans on nothing.
    lost_streams: u16,
}

impl<P> Connection<P> {
    fn lose(&mut self, lossy: Lossy) {
        (self.down, self.up) = (lossy.stream(), lossy.stream());
        self.lossy = Some(lossy);
    }

    /// All of its updates may be lost: what was sent says nothing of what is shown.
    fn loses_all(&self) -> bool {
        self.lossy.as_ref().is_some_and(|lossy| lossy.arrival == Arrival::Unordered)
    }
}

/// A viewer's barrier on its way through the driver and back.
#[derive(Clone, Copy, Debug)]
struct BarrierAsked {
    viewer: ViewerId,
    number: u32,
    /// The picture that the viewer was sent when the session heard of it.
    epoch: u32,
    /// Newest op and framebuffer when the driver answered.
    answer: Option<(u64, u32)>,
}

/// All of it.
pub struct World<P> {
    /// Virtual time in microseconds.
    pub now: Micros,
    /// The X server and its driver.
    pub x: XServer,
    /// The session.
    pub session: Session,
    random: Random,
    breakage: Option<Breakage>,
    /// The framebuffer that the session has mapped.
    generation: u32,
    connections: Vec<Connection<P>>,
    /// Pixels read for a job, where they stand on the screen.
    scratch: Vec<u32>,
    /// The same where they stand in a viewer's picture.
    resampled: Vec<u32>,
    /// Inputs on their way to a window.
    inputs: VecDeque<u32>,
    /// By the number the driver was asked with.
    barriers: HashMap<u32, BarrierAsked>,
    next_barrier: u32,
    /// What the session is told of the transports of viewers that come from now on.
    pub tells: Tells,
    /// What was checked so far.
    pub tally: Tally,
    /// Inputs answered: when the viewer saw it, and which.
    pub echoes: Vec<(Micros, u32)>,
}

impl<P: Pipeline> World<P> {
    /// A session with no viewers on a black screen.
    pub fn new(seed: u64, size: Size, ring_max: usize, breakage: Option<Breakage>) -> World<P> {
        let mutation = match breakage {
            Some(Breakage::Core(mutation)) => Some(mutation),
            _ => None,
        };
        let mut session = Session::with_broken_rule(
            Config {
                name: "sim".into(),
                size,
                scheduling: Scheduling::ShortestFirst,
                offscreen: true,
                lossy: if seed.is_multiple_of(2) { LossyPolicy::Always } else { LossyPolicy::Auto },
                video: POLICIES[(seed / 2 % POLICIES.len() as u64) as usize],
            },
            mutation,
        );
        session.handle_attach(size);
        World {
            now: 1,
            x: XServer::new(size, ring_max),
            session,
            random: Random::new(seed),
            breakage,
            generation: 1,
            connections: Vec::new(),
            scratch: Vec::new(),
            resampled: Vec::new(),
            inputs: VecDeque::new(),
            barriers: HashMap::new(),
            next_barrier: 1,
            tells: [Tells::Path, Tells::Nothing, Tells::FirstHop][(seed % 3) as usize],
            tally: Tally::default(),
            echoes: Vec::new(),
        }
    }

    /// Viewers that are connected.
    pub fn viewers_len(&self) -> usize {
        self.connections.len()
    }

    /// The session's name of a viewer.
    pub fn viewer_id(&self, at: usize) -> ViewerId {
        self.connections[at].id
    }

    /// What was checked so far, the viewers' own counts included.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        for connection in &self.connections {
            tally.add_viewer(&self.session.stats(connection.id).unwrap_or_default());
            tally.recalled += connection.pipeline.recalled();
        }
        tally
    }

    /// A viewer's pixels.
    pub fn shown(&self, at: usize) -> (Size, &[u32]) {
        self.connections[at].pipeline.shown()
    }

    /// A viewer's path is another from now on.
    pub fn set_path(&mut self, at: usize, path: Path) {
        self.connections[at].path = path;
        self.connections[at].down.set_path(path);
        self.connections[at].up.set_path(path);
    }

    /// Longest that bytes to a viewer waited to leave, since this was last called.
    pub fn take_queued_max(&mut self, at: usize) -> Micros {
        self.connections[at].down.take_queued_max()
    }

    /// Makes one thing happen, and checks every invariant after it.
    ///
    /// # Errors
    /// What came apart.
    pub fn apply(&mut self, op: &Op) -> Result<(), Divergence> {
        match op {
            Op::Draw { .. } | Op::Copy { .. } | Op::Paint { .. } | Op::Blit { .. } | Op::Frame { .. } => {
                draw(&mut self.x, op);
            }
            Op::StopPort(port) => self.x.stop_port(*port),
            Op::Moving(area) => {
                for connection in &self.connections {
                    self.session.handle_moving(connection.id, &[*area], self.now);
                }
            }
            Op::Say(viewer, readiness) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].pipeline.say(*readiness);
                }
            }
            Op::CreatePixmap { id, size, opaque } => self.x.create_pixmap(DrawableId(*id), *size, *opaque),
            Op::FreePixmap(id) => self.x.free_pixmap(DrawableId(*id)),
            Op::Step(pixels) => self.x.step(*pixels),
            Op::Finish => self.x.finish(),
            Op::Idle => self.x.publish_other(RecordKind::Idle),
            Op::Yield => self.x.publish_other(RecordKind::Yield),
            Op::Resize(size) => self.x.resize(*size),
            Op::Attach => {
                let (generation, size) = self.x.attach();
                self.generation = generation;
                self.inputs.clear();
                self.session.handle_attach(size);
            }
            Op::Read(records) => self.read(*records),
            Op::Commit(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.commit(at)?;
                }
            }
            Op::Snapshot(viewer, steps, meanwhile) => {
                if let Some(at) = self.at(*viewer) {
                    self.snapshot(at, *steps, meanwhile.as_deref())?;
                }
            }
            Op::Encode(viewer, which) => {
                if let Some(at) = self.at(*viewer) {
                    self.encode(at, *which);
                }
            }
            Op::EncodeHalf(viewer, which) => {
                if let Some(at) = self.at(*viewer) {
                    self.encode_half(at, *which);
                }
            }
            Op::Cancel(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.cancel(at);
                }
            }
            Op::Transmit(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.transmit(at);
                }
            }
            Op::Wait(time) => {
                self.now += time;
                self.deliver()?;
            }
            Op::Shell => self.shell()?,
            Op::Rest => self.drain()?,
            Op::Stall(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].stalled = true;
                }
            }
            Op::Resume(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].stalled = false;
                }
            }
            Op::Lose(viewer, rect) => {
                if let Some(at) = self.at(*viewer).filter(|&at| self.connections[at].lossy.is_none()) {
                    self.lose(at, rect);
                }
            }
            Op::View(viewer, view) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].pipeline.request_view(*view);
                    self.connections[at].chose = true;
                }
            }
            Op::Refresh(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].pipeline.request_refresh();
                }
            }
            Op::Barrier(viewer) => {
                // A barrier says what was sent; where all of that may be lost, it says nothing of what is shown.
                if let Some(at) = self.at(*viewer).filter(|&at| !self.connections[at].loses_all()) {
                    self.connections[at].pipeline.request_barrier();
                }
            }
            Op::Input(viewer, event) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].pipeline.handle_input(*event, self.now);
                }
            }
            Op::Deliver(window) => {
                if let Some(seq) = self.inputs.pop_front() {
                    self.x.publish_other(RecordKind::InputDelivered { seq, window: *window });
                }
            }
            Op::Cursor(edge) => {
                let size = Size { width: u32::from(*edge), height: u32::from(*edge) };
                let argb: Vec<u32> = (0..u32::from(*edge) * u32::from(*edge)).map(|i| 0xff00_0000 | i).collect();
                let mut pixels = Vec::new();
                if *edge > 0 {
                    thinc_codec_enc::Encoder::new().cursor(&argb, &mut pixels);
                }
                let pixels = CursorData::Argb(pixels);
                self.session.handle_cursor(CursorImageOwned { size, hot_x: 0, hot_y: 0, pixels });
            }
            Op::Join(path) => self.join(*path),
            Op::JoinLossy(path, lost) => {
                self.join(*path);
                let connection = self.connections.last_mut().expect("it has just come");
                let arrival = connection.pipeline.arrival();
                if arrival != Arrival::Ordered {
                    connection.lose(Lossy::new(arrival, *path, *lost));
                    self.session.set_arrival(connection.id, arrival);
                }
            }
            Op::Reconnect(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.reconnect(at);
                }
            }
            Op::Leave(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    let connection = self.connections.remove(at);
                    self.tally.add_viewer(&self.session.stats(connection.id).unwrap_or_default());
                    self.tally.recalled += connection.pipeline.recalled();
                    self.session.remove_viewer(connection.id);
                }
            }
        }
        self.requests();
        self.session.check_invariants();
        Ok(())
    }

    fn at(&self, viewer: usize) -> Option<usize> {
        (!self.connections.is_empty()).then(|| viewer % self.connections.len())
    }

    fn join(&mut self, path: Path) {
        let connection = self.connection(P::new(self.breakage), path);
        self.connections.push(connection);
    }

    /// A viewer's connection breaks, with all that was on its way, and it comes back.
    fn reconnect(&mut self, at: usize) {
        let Connection { id, pipeline, path, chose, lossy, .. } = self.connections.remove(at);
        self.tally.add_viewer(&self.session.stats(id).unwrap_or_default());
        self.tally.recalled += pipeline.recalled();
        self.session.remove_viewer(id);
        let mut connection = self.connection(pipeline.reconnected(self.breakage), path);
        if let Some(lossy) = lossy {
            self.session.set_arrival(connection.id, lossy.arrival);
            connection.lose(lossy.again());
        }
        self.connections.push(Connection { chose, ..connection });
    }

    fn connection(&mut self, pipeline: P, path: Path) -> Connection<P> {
        let id = self.session.add_viewer(&pipeline.hello(), self.now);
        Connection {
            id,
            pipeline,
            path,
            down: Link::new(path),
            up: Link::new(path),
            upstream: Upstream::default(),
            deframer: Deframer::new(VIEWER_FRAME_BYTES_MAX),
            stalled: false,
            inbox: VecDeque::new(),
            lossy: None,
            tells: self.tells,
            shadow_epoch: 0,
            jobs: VecDeque::new(),
            encodings: Vec::new(),
            last_ends_frame: true,
            seen: Seen::default(),
            chose: false,
            lost: false,
            acked: 0,
            lost_streams: 0,
        }
    }

    fn read(&mut self, records: usize) {
        for _ in 0..records {
            let Some(record) = self.x.read() else { return };
            self.record(&record);
        }
    }

    fn record(&mut self, record: &DrawRecord) {
        self.session.handle_record(record, self.now);
        match record.kind {
            RecordKind::Overflow => {
                let dirty = self.x.take_dirty();
                self.session.handle_overflow(&dirty);
            }
            RecordKind::Geometry { generation } => {
                if let Some(fb) = self.x.generation(generation) {
                    self.generation = generation;
                    self.session.handle_geometry(fb.size);
                }
            }
            _ => {}
        }
    }

    fn requests(&mut self) {
        while let Some(request) = self.session.poll_request(self.now) {
            match request {
                Request::Barrier(id) => {
                    self.x.publish_surely(RecordKind::Barrier { id });
                    let now = (self.x.begin(), self.x_generation());
                    if let Some(asked) = self.barriers.get_mut(&id) {
                        asked.answer = Some(now);
                    }
                }
                Request::Input(
                    InputMessage::Key { seq, down: true, .. } | InputMessage::Button { seq, down: true, .. },
                ) => {
                    self.inputs.push_back(seq);
                }
                Request::Input(_) | Request::Resize(_) => {}
                // This X server has no keymap.
                Request::Bind(_) | Request::SetLayout(_) | Request::SetLocks { .. } => {}
            }
        }
    }

    fn x_generation(&self) -> u32 {
        self.x.current_generation()
    }

    fn commit(&mut self, at: usize) -> Result<bool, Divergence> {
        let connection = &mut self.connections[at];
        let Some(job) = self.session.poll_job(connection.id, self.now) else { return Ok(false) };
        connection.check_frame(&job).map_err(|Divergence(words)| Divergence(format!("viewer {at}: {words}")))?;
        connection.jobs.push_back(job);
        Ok(true)
    }

    /// Reads the oldest job's pixels, X writing meanwhile, and plans them against the shadow.
    fn snapshot(&mut self, at: usize, steps: usize, mut meanwhile: Option<&Op>) -> Result<bool, Divergence> {
        self.settle_jobs(at);
        let connection = &mut self.connections[at];
        let id = connection.id;
        let Some(job) = connection.jobs.pop_front() else { return Ok(false) };
        let size = self.session.size();
        let picture = job.view.map_or(size, |by| by.size());
        if job.epoch != self.session.epoch(connection.id) {
            return Ok(true);
        }
        if connection.shadow_epoch != job.epoch {
            connection.shadow_epoch = job.epoch;
            connection.pipeline.reset_shadow(picture);
        }
        if self.breakage != Some(Breakage::ShadowIgnoresLoss) {
            connection.pipeline.forget(&job.forget);
        }
        if self.breakage != Some(Breakage::ShadowIgnoresCopies) {
            job.copies.iter().for_each(|copy| connection.pipeline.copy_shadow(copy));
        }
        self.scratch.resize(size.area() as usize, 0);
        self.resampled.resize(picture.area() as usize, 0);
        let (mut newest, mut samples) = (0, None);
        if !job.region.is_empty() {
            for _ in 0..2 {
                let before = self.x.begin();
                let rects = job.region.rects();
                // Where there is something to happen meanwhile, it does.
                let last = rects.len() as u64 + u64::from(meanwhile.is_none());
                let half = self.random.below(last) as usize;
                for (i, rect) in rects.iter().enumerate() {
                    let source = job.view.map_or(*rect, |by| by.source(rect));
                    for y in source.y1..source.y2 {
                        if i == half && y == (source.y1 + source.y2) / 2 {
                            if let Some(op) = meanwhile.take() {
                                draw(&mut self.x, op);
                            }
                            self.x.step(steps / 2);
                        }
                        for x in source.x1..source.x2 {
                            let place = y as usize * size.width as usize + x as usize;
                            self.scratch[place] = self.x.pixel(self.generation, place);
                        }
                    }
                    if let Some(by) = &job.view {
                        let screen = Plane { pixels: &self.scratch, width: size.width as usize };
                        picture::resample(by, screen, *rect, &mut self.resampled);
                    }
                }
                samples = job.video.and_then(|frame| self.samples(&job, &frame));
                // After the last pixel was read, and before `begin` is: what X does here is not in the pixels, and counts
                // as if it were, which is safe. The other way round is not.
                self.x.step(steps - steps / 2);
                let tag = if self.breakage == Some(Breakage::TagIsLoadedFirst) { before } else { self.x.begin() };
                newest = tag;
                let verdict = self.session.handle_snapshot(id, job.id, Some(before), tag);
                if verdict == SnapshotVerdict::Keep {
                    break;
                }
            }
        }
        let mut bytes = Vec::new();
        let read = if job.view.is_some() { &self.resampled } else { &self.scratch };
        let connection = &mut self.connections[at];
        let met = match (&job.video, samples) {
            (None, _) => {
                let met = connection.pipeline.encode(&job, read, &mut bytes);
                self.session.handle_shown(id, job.id, connection.pipeline.take_shown());
                met
            }
            (Some(frame), Some(samples)) => {
                connection.pipeline.encode_frame(&job, frame, &samples, read, &mut bytes);
                Verdict::default()
            }
            (Some(_), None) => {
                // The port has another picture by now, or none.
                self.session.handle_cancelled(id, job.id);
                return Ok(true);
            }
        };
        // With a later op in the pixels, what was said of them may be wrong and no fault.
        let late = newest > job.translated;
        oracle::check_shape(&job, picture)?;
        if !late {
            picture::check_parts(&job, self.x.framebuffer(), &mut self.tally)?;
            self.check_made(&job)?;
        }
        let (refused, late) = if late { (0, met.refused) } else { (met.refused, 0) };
        let proposals = Proposals { held: met.held, refused, late };
        self.session.handle_proposals(id, proposals);
        self.tally.add_proposals(&proposals);
        if refused > 0 {
            return Err(Divergence(format!("viewer {at} has not {refused} pixels that {job:?} says it has")));
        }
        if self.breakage == Some(Breakage::PixelsAreReadTwice) && !bytes.is_empty() {
            self.x.finish();
            let fb = self.x.generation(self.generation).expect("the session's framebuffer is there");
            bytes.clear();
            let (_, again) = picture::expected(job.view.as_ref(), size, &fb.pixels);
            self.connections[at].pipeline.encode_all(&job, &again, &mut bytes);
        }
        self.connections[at].encodings.push(Encoding { job, bytes });
        Ok(true)
    }

    /// What became of jobs is asked before the next is planned.
    fn settle_jobs(&mut self, at: usize) {
        let Connection { id, pipeline, acked, .. } = &mut self.connections[at];
        while let Some((job, fate)) = self.session.poll_fate(*id) {
            pipeline.settle_job(job, fate, *acked);
        }
    }

    fn encode(&mut self, at: usize, which: usize) -> bool {
        let connection = &mut self.connections[at];
        if connection.encodings.is_empty() {
            return false;
        }
        let which = which % connection.encodings.len();
        let encoding = connection.encodings.remove(which);
        self.session.handle_encoded(connection.id, encoding.job.id, &encoding.bytes);
        true
    }

    /// Gives the session a stretch of a job's bytes; the rest comes another time.
    fn encode_half(&mut self, at: usize, which: usize) {
        let connection = &mut self.connections[at];
        let which = which % connection.encodings.len().max(1);
        let screen = self.session.size();
        let Some(Encoding { job, bytes }) = connection.encodings.get_mut(which) else { return };
        let picture = job.view.map_or(screen, |by| by.size());
        if let Some((first, rest)) = halves(bytes, picture) {
            if self.session.handle_encoding(connection.id, job.id, &first) {
                *bytes = rest;
            } else {
                connection.encodings.remove(which);
            }
        }
    }

    fn cancel(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if let Some(job) = connection.jobs.front() {
            // Not read: its COPYs go all the same.
            if connection.shadow_epoch == job.epoch {
                connection.pipeline.forget(&job.forget);
                job.copies.iter().for_each(|copy| connection.pipeline.copy_shadow(copy));
            }
            let id = job.id;
            connection.jobs.pop_front();
            self.session.handle_cancelled(connection.id, id);
        } else if !connection.encodings.is_empty() {
            let encoding = connection.encodings.remove(0);
            self.session.handle_cancelled(connection.id, encoding.job.id);
        }
    }

    fn lose(&mut self, at: usize, rect: &Rect) {
        let connection = &mut self.connections[at];
        let Some(since) = connection.pipeline.lose(rect) else { return };
        connection.lost = true;
        let picture = self.session.view(connection.id).map_or(self.session.size(), |by| by.size());
        let region = Region::from(rect.intersect(&picture.rect()));
        self.session.handle_stale(connection.id, &region, since);
    }

    fn transmit(&mut self, at: usize) -> bool {
        self.tell(at);
        let connection = &mut self.connections[at];
        if connection.down.is_full() {
            return false;
        }
        let mut out = Vec::new();
        let entropy = self.session.entropy(connection.id);
        let packer = connection.pipeline.packer(entropy);
        let any = self.session.poll_transmit(connection.id, self.now, packer, &mut out);
        match &mut connection.lossy {
            Some(lossy) if lossy.arrival == Arrival::Unordered => {
                let rest = lossy.send(&out, self.now, &mut self.random);
                connection.down.send(&rest, self.now, &mut self.random);
            }
            lossy => {
                connection.down.send(&out, self.now, &mut self.random);
                while let Some((lossy, update)) = lossy.as_mut().zip(connection.pipeline.poll_alone()) {
                    lossy.down.send(update, self.now, &mut self.random);
                }
            }
        }
        any
    }

    fn tell(&mut self, at: usize) {
        let Connection { id, down, tells, .. } = &mut self.connections[at];
        down.advance(self.now, &mut self.random);
        self.session.handle_path(*id, down.figures(*tells));
    }

    fn shell(&mut self) -> Result<(), Divergence> {
        self.read(usize::MAX);
        for at in 0..self.connections.len() {
            loop {
                let mut any = false;
                while self.commit(at)? {
                    any = true;
                }
                while self.snapshot(at, 0, None)? {
                    any = true;
                }
                // As the shell does it: what is small is encoded at once, and what is large on the side.
                let small = self.connections[at].encodings.iter().position(|encoding| encoding.job.hints.inline);
                any |= self.encode(at, small.unwrap_or(0));
                any |= self.transmit(at);
                if !any {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What the links have brought by now.
    fn deliver(&mut self) -> Result<(), Divergence> {
        for at in 0..self.connections.len() {
            self.tell(at);
            let connection = &mut self.connections[at];
            while let Some(chunk) = connection.down.receive(self.now) {
                connection.inbox.push_back(chunk);
            }
            if !connection.stalled {
                while let Some(chunk) = self.connections[at].inbox.pop_front() {
                    let result = self.connections[at].pipeline.handle_bytes(&chunk, self.now);
                    result.map_err(|error| Divergence(format!("viewer {at} at {}: {error}", self.now)))?;
                    self.hear(at)?;
                    self.look(at)?;
                }
            }
            self.deliver_datagrams(at)?;
            self.hear(at)?;
            self.look(at)?;
            let connection = &mut self.connections[at];
            let mut out = Vec::new();
            if !connection.stalled {
                connection.pipeline.poll_transmit(&mut out);
            }
            connection.up.send(&out, self.now, &mut self.random);
            // What came beside the stream goes before what it brings.
            loop {
                while let Some(frame) = connection.deframer.next().map_err(|error| Divergence(error.to_string()))? {
                    let message = ViewerMessage::decode(&frame).map_err(|error| Divergence(error.to_string()))?;
                    if matches!(message, ViewerMessage::Hello(_)) {
                        continue;
                    }
                    self.session
                        .handle_message(connection.id, &message, self.now)
                        .map_err(|violation| Divergence(format!("viewer {at} at {}: {violation}", self.now)))?;
                    match &message {
                        ViewerMessage::Refresh => connection.pipeline.distrust_cache(),
                        ViewerMessage::Cache(offer) => {
                            let grant = connection.pipeline.grant_cache(offer);
                            grant.into_iter().for_each(|grant| self.session.grant_cache(connection.id, grant));
                        }
                        ViewerMessage::Ack(ack) => connection.acked = connection.acked.max(ack.update),
                        ViewerMessage::Arrived(_) => connection.acked = self.session.acked_in_order(connection.id),
                        ViewerMessage::Video(state) if state.readiness == Readiness::Lost => {
                            let lives = self.session.has_video(connection.id, state.id);
                            connection.lost_streams |= u16::from(lives) << state.id;
                        }
                        _ => {}
                    }
                    if let ViewerMessage::Barrier(number) = message {
                        let epoch = self.session.epoch(connection.id);
                        let asked = BarrierAsked { viewer: connection.id, number, epoch, answer: None };
                        self.barriers.insert(self.next_barrier, asked);
                        self.next_barrier += 1;
                    }
                }
                let Some(chunk) = connection.up.receive(self.now) else { break };
                connection.deframer.push(connection.upstream.by_stream(&chunk));
            }
        }
        Ok(())
    }

    /// A page may present at any moment.
    fn look(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection { pipeline, seen, chose, .. } = &mut self.connections[at];
        if *chose {
            return Ok(());
        }
        let seen = seen.check(pipeline.shown(), self.x.history(), |place| pipeline.is_inexact(place), &mut self.tally);
        seen.map_err(|Divergence(words)| Divergence(format!("viewer {at} at {} {words}", self.now)))
    }

    fn hear(&mut self, at: usize) -> Result<(), Divergence> {
        let all_heard = self.connections[at].pipeline.poll_heard();
        for (i, &heard) in all_heard.iter().enumerate() {
            match heard {
                Heard::Update { end_of_frame } => self.connections[at].last_ends_frame = end_of_frame,
                Heard::Echo(seq) => self.echoes.push((self.now, seq)),
                Heard::Barrier(number) => {
                    // One chunk may bring the answer and another geometry, and then nobody saw what was shown between.
                    let seen = !all_heard[i..].contains(&Heard::Geometry);
                    self.check_barrier(at, number, seen)?;
                }
                Heard::Geometry => {}
            }
        }
        Ok(())
    }
}
