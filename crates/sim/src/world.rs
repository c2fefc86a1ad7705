//! The whole path in one thread on virtual time: X server, session, links and viewers, driven by operations.
//! From workload.rs, to whoever asks whether every viewer's framebuffer equals the X screen.
//! Knows all parts by their public faces; a new feature is a new `Op`.

use std::collections::{HashMap, VecDeque};

use thinc_protocol::Micros;
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::VIEWER_FRAME_BYTES_MAX;
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, DrawableId, InputMessage, RecordKind};
use thinc_session_core::{
    Arrival, Config, CursorData, CursorImageOwned, Job, LossyPolicy, Proposals, Request, Scheduling, Session,
    SnapshotVerdict, ViewerId,
};

use crate::breakage::Breakage;
use crate::datagrams::Lossy;
use crate::link::{Link, Path, Tells};
use crate::op::{Op, draw};
use crate::oracle::{self, Seen, Tally};
use crate::pipeline::{Fate, Heard, Pipeline, halves};
use crate::random::Random;
use crate::x_server::XServer;

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
    /// It lost pixels since the last rest: a barrier promises what was sent, not what it kept.
    lost: bool,
    /// The newest update that it said it has applied, as far as the session has heard.
    acked: u64,
}

/// A viewer's barrier on its way through the driver and back.
#[derive(Clone, Copy, Debug)]
struct BarrierAsked {
    viewer: ViewerId,
    number: u32,
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
            Op::Draw { .. } | Op::Copy { .. } | Op::Paint { .. } | Op::Blit { .. } => draw(&mut self.x, op),
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
                    self.commit(at);
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
            Op::Refresh(viewer) => {
                if let Some(at) = self.at(*viewer) {
                    self.connections[at].pipeline.request_refresh();
                }
            }
            Op::Barrier(viewer) => {
                // A barrier says what was sent; where that may be lost, it says nothing of what is shown.
                if let Some(at) = self.at(*viewer).filter(|&at| self.connections[at].lossy.is_none()) {
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
                if connection.pipeline.takes_any_order() {
                    connection.lossy = Some(Lossy::new(*path, *lost));
                    self.session.set_arrival(connection.id, Arrival::Unordered);
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
        let Connection { id, pipeline, path, .. } = self.connections.remove(at);
        self.tally.add_viewer(&self.session.stats(id).unwrap_or_default());
        self.tally.recalled += pipeline.recalled();
        self.session.remove_viewer(id);
        let connection = self.connection(pipeline.reconnected(self.breakage), path);
        self.connections.push(connection);
    }

    fn connection(&mut self, pipeline: P, path: Path) -> Connection<P> {
        let id = self.session.add_viewer(&pipeline.hello(), self.now);
        Connection {
            id,
            pipeline,
            path,
            down: Link::new(path),
            up: Link::new(path),
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
            lost: false,
            acked: 0,
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
                Request::Input(_) | Request::BindKeysym { .. } | Request::Resize(_) => {}
            }
        }
    }

    fn x_generation(&self) -> u32 {
        self.x.current_generation()
    }

    fn commit(&mut self, at: usize) -> bool {
        let id = self.connections[at].id;
        let Some(job) = self.session.poll_job(id, self.now) else { return false };
        self.connections[at].jobs.push_back(job);
        true
    }

    /// Reads the oldest job's pixels, X writing meanwhile, and plans them against the shadow.
    fn snapshot(&mut self, at: usize, steps: usize, mut meanwhile: Option<&Op>) -> Result<bool, Divergence> {
        self.settle_jobs(at);
        let connection = &mut self.connections[at];
        let Some(job) = connection.jobs.pop_front() else { return Ok(false) };
        let size = self.session.size();
        if job.epoch != self.session.epoch() {
            return Ok(true);
        }
        if connection.shadow_epoch != job.epoch {
            connection.shadow_epoch = job.epoch;
            connection.pipeline.reset_shadow(size);
        }
        if self.breakage != Some(Breakage::ShadowIgnoresLoss) {
            connection.pipeline.forget(&job.forget);
        }
        if self.breakage != Some(Breakage::ShadowIgnoresCopies) {
            job.copies.iter().for_each(|copy| connection.pipeline.copy_shadow(copy));
        }
        self.scratch.resize(size.area() as usize, 0);
        let mut newest = 0;
        if !job.region.is_empty() {
            for _ in 0..2 {
                let before = self.x.begin();
                let rects = job.region.rects();
                // Where there is something to happen meanwhile, it does.
                let last = rects.len() as u64 + u64::from(meanwhile.is_none());
                let half = self.random.below(last) as usize;
                for (i, rect) in rects.iter().enumerate() {
                    for y in rect.y1..rect.y2 {
                        if i == half && y == (rect.y1 + rect.y2) / 2 {
                            if let Some(op) = meanwhile.take() {
                                draw(&mut self.x, op);
                            }
                            self.x.step(steps / 2);
                        }
                        for x in rect.x1..rect.x2 {
                            let place = y as usize * size.width as usize + x as usize;
                            self.scratch[place] = self.x.pixel(self.generation, place);
                        }
                    }
                }
                // After the last pixel was read, and before `begin` is: what X does here is not in the pixels, and counts
                // as if it were, which is safe. The other way round is not.
                self.x.step(steps - steps / 2);
                let tag = if self.breakage == Some(Breakage::TagIsLoadedFirst) { before } else { self.x.begin() };
                newest = tag;
                let verdict = self.session.handle_snapshot(connection.id, job.id, Some(before), tag);
                if verdict == SnapshotVerdict::Keep {
                    break;
                }
            }
        }
        let mut bytes = Vec::new();
        let met = connection.pipeline.encode(&job, &self.scratch, &mut bytes);
        // With a later op in the pixels, what was said of them may be wrong and no fault.
        let late = newest > job.translated;
        oracle::check_shape(&job, size)?;
        if !late {
            oracle::check_parts(&job, self.x.framebuffer(), &mut self.tally)?;
        }
        let (refused, late) = if late { (0, met.refused) } else { (met.refused, 0) };
        let proposals = Proposals { held: met.held, refused, late };
        self.session.handle_proposals(connection.id, proposals);
        self.tally.add_proposals(&proposals);
        if refused > 0 {
            return Err(Divergence(format!("viewer {at} has not {refused} pixels that {job:?} says it has")));
        }
        if self.breakage == Some(Breakage::PixelsAreReadTwice) && !bytes.is_empty() {
            self.x.finish();
            let fb = self.x.generation(self.generation).expect("the session's framebuffer is there");
            bytes.clear();
            connection.pipeline.encode_all(&job, &fb.pixels, &mut bytes);
        }
        connection.encodings.push(Encoding { job, bytes });
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
        let Some(Encoding { job, bytes }) = connection.encodings.get_mut(which) else { return };
        if let Some((first, rest)) = halves(bytes, self.session.size()) {
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
        let region = Region::from(rect.intersect(&self.session.size().rect()));
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
        if let Some(lossy) = &mut connection.lossy {
            let rest = lossy.send(&out, self.now, &mut self.random);
            connection.down.send(&rest, self.now, &mut self.random);
        } else {
            connection.down.send(&out, self.now, &mut self.random);
        }
        any
    }

    /// What came by itself, and what is known by now of what was sent so.
    fn deliver_datagrams(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection { id, pipeline, lossy: Some(lossy), stalled, .. } = &mut self.connections[at] else {
            return Ok(());
        };
        while !*stalled && let Some(update) = lossy.down.receive(self.now) {
            pipeline.handle_datagram(&update, self.now);
        }
        if !*stalled {
            let late_are_applied = self.breakage == Some(Breakage::LateUpdatesAreApplied);
            let fates = pipeline.settle(self.now, late_are_applied).map_err(Divergence)?;
            let known = self.now + lossy.delay;
            lossy.reports.extend(fates.into_iter().map(|(seq, fate)| (known, seq, fate)));
        }
        let now = self.now;
        let mut known: Vec<_> = lossy.reports.extract_if(.., |(at, ..)| *at <= now).collect();
        known.sort_unstable_by_key(|&(at, seq, _)| (at, seq));
        for (_, seq, fate) in known {
            if fate == Fate::Applied || self.breakage == Some(Breakage::DiscardedIsNotLost) {
                let applied = self.session.handle_applied(*id, seq..=seq, now);
                applied.map_err(|violation| Divergence(format!("viewer {at} at {now}: {violation}")))?;
                continue;
            }
            self.session.handle_lost(*id, seq, now);
            self.tally.lost += 1;
        }
        Ok(())
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
                while self.commit(at) {
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
            while let Some(chunk) = connection.up.receive(self.now) {
                connection.deframer.push(&chunk);
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
                        _ => {}
                    }
                    if let ViewerMessage::Barrier(number) = message {
                        let asked = BarrierAsked { viewer: connection.id, number, answer: None };
                        self.barriers.insert(self.next_barrier, asked);
                        self.next_barrier += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// A page may present at any moment.
    fn look(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection { pipeline, seen, .. } = &mut self.connections[at];
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

    /// Every pixel that was drawn before the barrier, and not since, must be there, if it can still be `seen`.
    fn check_barrier(&mut self, at: usize, number: u32, seen: bool) -> Result<(), Divergence> {
        let id = self.connections[at].id;
        let found = self.barriers.iter().find(|(_, asked)| asked.viewer == id && asked.number == number);
        let Some((&key, &BarrierAsked { answer, .. })) = found else {
            return Err(Divergence(format!("viewer {at} was answered a barrier {number} that it did not ask for")));
        };
        let Some((op, generation)) = answer else {
            return Err(Divergence(format!(
                "viewer {at}'s barrier {number} was answered before the driver answered it"
            )));
        };
        self.barriers.remove(&key);
        let (size, shown) = self.connections[at].pipeline.shown();
        if !seen || self.connections[at].lost || generation != self.x_generation() || size != self.x.framebuffer().size
        {
            return Ok(());
        }
        let screen = &self.x.framebuffer().pixels;
        for (i, &changed) in self.x.changed().iter().enumerate() {
            let (x, y) = (i % size.width as usize, i / size.width as usize);
            // A barrier says that all was sent, and not that it was sent exactly.
            let exact = !self.connections[at].pipeline.is_inexact((x, y));
            if changed <= op && exact && (shown[i] ^ screen[i]) & 0x00ff_ffff != 0 {
                return Err(Divergence(format!(
                    "barrier {number} of viewer {at} came before ({x}, {y}), drawn by op {changed} of {op}"
                )));
            }
        }
        self.tally.barriers += 1;
        Ok(())
    }

    /// Lets everything come to rest, and compares.
    ///
    /// # Errors
    /// A viewer whose framebuffer is not the X screen, or a world that does not come to rest.
    pub fn drain(&mut self) -> Result<(), Divergence> {
        self.x.finish();
        for connection in &mut self.connections {
            connection.stalled = false;
        }
        for _ in 0..20_000 {
            if self.x.unread() == 0 {
                self.x.publish_surely(RecordKind::Idle);
            }
            self.apply(&Op::Shell)?;
            self.deliver()?;
            self.apply(&Op::Shell)?;
            let next =
                |c: &Connection<P>| [c.down.next_at(), c.up.next_at(), c.lossy.as_ref().and_then(Lossy::next_at)];
            let next = self.connections.iter().flat_map(next).flatten().min();
            match next {
                Some(at) => self.now = self.now.max(at),
                None if self.at_rest() => {
                    self.connections.iter_mut().for_each(|connection| connection.lost = false);
                    return self.compare();
                }
                None => self.now += 1_000,
            }
        }
        Err(Divergence(format!("the world does not come to rest: {}", self.unrest())))
    }

    fn at_rest(&self) -> bool {
        self.x.unread() == 0
            && self.connections.iter().all(|c| {
                let stats = self.session.stats(c.id).unwrap_or_default();
                c.jobs.is_empty() && c.encodings.is_empty() && c.inbox.is_empty() && stats.in_flight == 0
            })
            && self.session.is_drained()
    }

    fn unrest(&self) -> String {
        let viewers = self.connections.iter().map(|c| format!("{:?}", self.session.stats(c.id)));
        viewers.collect::<Vec<_>>().join("; ")
    }

    fn compare(&self) -> Result<(), Divergence> {
        let screen = self.x.framebuffer();
        for (at, connection) in self.connections.iter().enumerate() {
            let (size, shown) = connection.pipeline.shown();
            if size != screen.size {
                return Err(Divergence(format!("viewer {at} shows {size:?}, the screen is {:?}", screen.size)));
            }
            let wrong = |(a, b): (&u32, &u32)| (a ^ b) & 0x00ff_ffff != 0;
            let count = shown.iter().zip(&screen.pixels).filter(|&pair| wrong(pair)).count();
            if let Some(i) = shown.iter().zip(&screen.pixels).position(wrong) {
                let (x, y) = (i as u32 % size.width, i as u32 / size.width);
                return Err(Divergence(format!(
                    "viewer {at} differs from the screen in {count} pixels, first ({x}, {y}): {:06x}, not {:06x}",
                    shown[i] & 0x00ff_ffff,
                    screen.pixels[i] & 0x00ff_ffff
                )));
            }
            let inexact = connection.pipeline.inexact_len();
            if inexact > 0 {
                return Err(Divergence(format!("viewer {at} is told that {inexact} pixels are not exact")));
            }
            if !connection.last_ends_frame && connection.lossy.is_none() {
                return Err(Divergence(format!("viewer {at} still waits for the end of a frame")));
            }
        }
        Ok(())
    }
}
