//! The whole path in one thread on virtual time: X server, session, links and viewers, driven by
//! operations. From workload.rs, to the check that every viewer's framebuffer equals the X screen.
//! Knows all parts by their public interfaces; a new feature is a new `Op`.

use std::collections::{HashMap, VecDeque};

use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::video::DecoderState;
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, DrawableId, InputMessage, RecordKind};
use thinc_session_core::{
    Config, CursorData, CursorImageOwned, DeliveryOrder, Job, JobResult, LossyPolicy, PlannedJob,
    ProposalStats, Request, Scheduling, Session, Upstream, VideoPolicy, ViewerId,
};

use crate::breakage::Breakage;
use crate::catalogue::Conditions;
use crate::datagrams::DatagramPath;
use crate::link::{Link, Path, PathReport, Sender};
use crate::op::{Op, draw};
use crate::oracle::{self, LastShown, Tally};
use crate::pipeline::{Notice, Pipeline, halves};
use crate::random::Random;
use crate::x_server::XServer;

mod datagrams;
mod render;
mod rest;
mod scaled;
mod video;

use render::{Pixels, Reading, Rendered, Turn};

/// Video policies, chosen by the seed.
const POLICIES: [VideoPolicy; 5] = [
    VideoPolicy::Auto,
    VideoPolicy::H264,
    VideoPolicy::Auto,
    VideoPolicy::Plain,
    VideoPolicy::H264,
];

/// The failure of a run: how a viewer diverged from the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence(pub String);

struct Encoding {
    planned: PlannedJob,
    commands: Commands,
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
    /// Its updates are not sent by `down`.
    datagrams: Option<DatagramPath>,
    path_report: PathReport,
    /// Committed and not read.
    jobs: VecDeque<Job>,
    /// Read and not encoded.
    encodings: Vec<Encoding>,
    last_ends_frame: bool,
    last_shown: LastShown,
    /// It has requested a view: its pixels were never on the screen.
    chose_view: bool,
    /// Its person has chosen that nothing is lossy.
    is_exact: bool,
    /// It lost pixels since the last drain: a barrier covers what was sent, not what the viewer
    /// kept.
    lost: bool,
    /// The newest update acknowledged to the session.
    acked: u64,
    /// Streams whose viewer needs a keyframe, as far as the session knows, one bit each: the next
    /// committed frame must be a keyframe.
    lost_streams: u16,
}

impl<P> Connection<P> {
    fn use_datagrams(&mut self, datagrams: DatagramPath) {
        (self.down, self.up) = (datagrams.stream(), datagrams.stream());
        self.datagrams = Some(datagrams);
    }

    /// True if all of its updates may be lost: what was sent says nothing of what is shown.
    fn loses_all(&self) -> bool {
        self.datagrams
            .as_ref()
            .is_some_and(|datagrams| datagrams.delivery_order == DeliveryOrder::Unordered)
    }
}

/// A viewer's barrier on its way through the driver and back.
#[derive(Clone, Copy, Debug)]
struct BarrierRequest {
    viewer: ViewerId,
    number: u32,
    /// The viewer's epoch when the session received the request.
    epoch: u32,
    /// Newest op and framebuffer generation when the driver answered.
    answer: Option<(u64, u32)>,
}

/// The simulated world.
pub struct World<P> {
    /// Virtual time in microseconds.
    pub now: Micros,
    /// The X server and its driver.
    pub x: XServer,
    /// The session.
    pub session: Session,
    random: Random,
    breakage: Option<Breakage>,
    /// Generation of the framebuffer that the session has mapped.
    generation: u32,
    connections: Vec<Connection<P>>,
    /// Pixels read for a job.
    pixels: Pixels,
    /// Inputs on their way to a window.
    inputs: VecDeque<u32>,
    /// By the number sent to the driver.
    barriers: HashMap<u32, BarrierRequest>,
    next_barrier: u32,
    /// What the transports of future viewers report to the session.
    pub path_report: PathReport,
    /// The transport behind which future viewers are.
    pub sender: Sender,
    /// Viewers handle their deadlines also where nothing is a datagram.
    pub streams_have_time: bool,
    /// Counts of what was checked.
    pub tally: Tally,
    /// Echoes: when the viewer saw each, and its input.
    pub echoes: Vec<(Micros, u32)>,
    /// Frames of videos: when a viewer showed each, and when it was drawn. `Full` notes none.
    pub frames: Vec<(Micros, Micros)>,
}

impl<P: Pipeline> World<P> {
    /// A session with no viewers on a black screen.
    pub fn new(seed: u64, size: Size, ring_max: usize, breakage: Option<Breakage>) -> World<P> {
        let mutation = match breakage {
            Some(Breakage::Core(mutation)) => Some(mutation),
            _ => None,
        };
        let mut session = Session::with_mutation(
            Config {
                name: "sim".into(),
                size,
                scheduling: Scheduling::ShortestFirst,
                offscreen: true,
                lossy: if seed.is_multiple_of(2) { LossyPolicy::Always } else { LossyPolicy::Auto },
                video: POLICIES[(seed / 2 % POLICIES.len() as u64) as usize],
                max_rate: None,
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
            pixels: Pixels::default(),
            inputs: VecDeque::new(),
            barriers: HashMap::new(),
            next_barrier: 1,
            path_report: [PathReport::Path, PathReport::Nothing, PathReport::FirstHop]
                [(seed % 3) as usize],
            sender: Sender::BBR,
            streams_have_time: false,
            tally: Tally::default(),
            echoes: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// The session's identifier of a viewer.
    pub fn viewer_id(&self, at: usize) -> ViewerId {
        self.connections[at].id
    }

    /// Counts of what was checked, including the viewers' statistics.
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

    /// Changes a viewer's path.
    pub fn set_path(&mut self, at: usize, path: Path) {
        self.connections[at].path = path;
        self.connections[at].down.set_path(path);
        self.connections[at].up.set_path(path);
    }

    /// True if an input has reached the X server and no X client has it.
    pub fn has_input(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Changes a viewer's path in both directions, and what is lost on it.
    pub fn set_conditions(&mut self, at: usize, conditions: &Conditions) {
        let connection = &mut self.connections[at];
        connection.path = conditions.down;
        for (link, path) in
            [(&mut connection.down, conditions.down), (&mut connection.up, conditions.up)]
        {
            link.set_path(path);
            link.set_losses(conditions.losses, self.now);
        }
        if let Some(datagrams) = &mut connection.datagrams {
            datagrams.set_paths(conditions.down, conditions.up);
        }
    }

    /// Both ends of a viewer's connection.
    pub fn pipeline(&self, at: usize) -> &P {
        &self.connections[at].pipeline
    }

    /// Longest time that bytes to a viewer waited to leave, since this was last called.
    pub fn take_queued_max(&mut self, at: usize) -> Micros {
        self.connections[at].down.take_queued_max()
    }

    /// Executes one operation, and checks every invariant after it.
    ///
    /// # Errors How a viewer diverged from the screen.
    pub fn apply(&mut self, op: &Op) -> Result<(), Divergence> {
        match op {
            Op::Draw { .. }
            | Op::Copy { .. }
            | Op::Paint { .. }
            | Op::Blit { .. }
            | Op::Frame { .. } => {
                draw(&mut self.x, op);
            }
            Op::StopPort(port) => self.x.stop_port(*port),
            Op::VideoArea(area) => {
                for connection in &self.connections {
                    self.session.handle_video_areas(connection.id, &[*area], self.now);
                }
            }
            Op::Decoder(viewer, decoder) => {
                if let Some(at) = self.index(*viewer) {
                    self.connections[at].pipeline.set_decoder_state(*decoder);
                }
            }
            Op::CreatePixmap { id, size, opaque } => {
                self.x.create_pixmap(DrawableId(*id), *size, *opaque)
            }
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
                if let Some(at) = self.index(*viewer) {
                    self.commit(at)?;
                }
            }
            Op::Snapshot(viewer, steps, meanwhile) => {
                if let Some(at) = self.index(*viewer) {
                    self.snapshot(at, *steps, meanwhile.as_deref())?;
                }
            }
            Op::Encode(viewer, which) => {
                if let Some(at) = self.index(*viewer) {
                    self.encode(at, *which);
                }
            }
            Op::EncodeHalf(viewer, which) => {
                if let Some(at) = self.index(*viewer) {
                    self.encode_half(at, *which);
                }
            }
            Op::Cancel(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.cancel(at);
                }
            }
            Op::Transmit(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.transmit(at);
                }
            }
            Op::Wait(time) => {
                self.now += time;
                self.deliver()?;
            }
            Op::Shell => self.shell()?,
            Op::Drain => self.drain()?,
            Op::Stall(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.connections[at].stalled = true;
                }
            }
            Op::Resume(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.connections[at].stalled = false;
                }
            }
            Op::LosePixels(viewer, rect) => {
                if let Some(at) =
                    self.index(*viewer).filter(|&at| self.connections[at].datagrams.is_none())
                {
                    self.lose(at, rect);
                }
            }
            Op::View(viewer, view) => {
                if let Some(at) = self.index(*viewer) {
                    self.connections[at].pipeline.request_view(*view);
                    self.connections[at].chose_view = true;
                }
            }
            Op::Refresh(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.connections[at].pipeline.request_refresh();
                }
            }
            Op::Quality(viewer, quality) => {
                if let Some(at) = self.index(*viewer) {
                    self.choose_quality(at, *quality)?;
                }
            }
            Op::ExactFrame(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.tell(at, &ViewerMessage::ExactFrame)?;
                }
            }
            Op::Barrier(viewer) => {
                // A barrier covers what was sent; if all of that may be lost, it says nothing of
                // what is shown.
                if let Some(at) =
                    self.index(*viewer).filter(|&at| !self.connections[at].loses_all())
                {
                    self.connections[at].pipeline.request_barrier();
                }
            }
            Op::Input(viewer, event) => {
                if let Some(at) = self.index(*viewer) {
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
                let argb: Vec<u32> =
                    (0..u32::from(*edge) * u32::from(*edge)).map(|i| 0xff00_0000 | i).collect();
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
                let connection = self.connections.last_mut().expect("it has just joined");
                let delivery_order = connection.pipeline.delivery_order();
                if delivery_order != DeliveryOrder::Ordered {
                    connection.use_datagrams(DatagramPath::new(delivery_order, *path, *lost));
                    self.session.set_delivery_order(connection.id, delivery_order);
                }
            }
            Op::Reconnect(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    self.reconnect(at);
                }
            }
            Op::Leave(viewer) => {
                if let Some(at) = self.index(*viewer) {
                    let connection = self.connections.remove(at);
                    self.tally.add_viewer(&self.session.stats(connection.id).unwrap_or_default());
                    self.tally.recalled += connection.pipeline.recalled();
                    self.session.remove_viewer(connection.id);
                }
            }
        }
        self.handle_requests();
        self.session.check_invariants();
        Ok(())
    }

    fn tell(&mut self, at: usize, message: &ViewerMessage) -> Result<(), Divergence> {
        let told = self.session.handle_message(self.connections[at].id, message, self.now);
        told.map_err(|violation| Divergence(format!("viewer {at}: {violation}")))
    }

    fn choose_quality(&mut self, at: usize, quality: PictureQuality) -> Result<(), Divergence> {
        self.connections[at].is_exact = quality == PictureQuality::Exact;
        self.tell(at, &ViewerMessage::PictureQuality(quality))
    }

    fn index(&self, viewer: usize) -> Option<usize> {
        (!self.connections.is_empty()).then(|| viewer % self.connections.len())
    }

    fn join(&mut self, path: Path) {
        let connection = self.connection(P::new(self.breakage), path);
        self.connections.push(connection);
    }

    /// A viewer's connection breaks, with everything in flight, and the viewer reconnects.
    fn reconnect(&mut self, at: usize) {
        let Connection { id, pipeline, path, chose_view, datagrams, .. } =
            self.connections.remove(at);
        self.tally.add_viewer(&self.session.stats(id).unwrap_or_default());
        self.tally.recalled += pipeline.recalled();
        self.session.remove_viewer(id);
        let mut connection = self.connection(pipeline.reconnected(self.breakage), path);
        if let Some(datagrams) = datagrams {
            self.session.set_delivery_order(connection.id, datagrams.delivery_order);
            connection.use_datagrams(datagrams.for_reconnect());
        }
        self.connections.push(Connection { chose_view, ..connection });
    }

    fn connection(&mut self, pipeline: P, path: Path) -> Connection<P> {
        let id = self.session.add_viewer(&pipeline.hello(), self.now);
        Connection {
            id,
            pipeline,
            path,
            down: Link::with_sender(path, self.sender),
            up: Link::with_sender(path, self.sender),
            upstream: Upstream::default(),
            deframer: Deframer::new(VIEWER_MESSAGE_BYTES_MAX),
            stalled: false,
            inbox: VecDeque::new(),
            datagrams: None,
            path_report: self.path_report,
            jobs: VecDeque::new(),
            encodings: Vec::new(),
            last_ends_frame: true,
            last_shown: LastShown::default(),
            chose_view: false,
            is_exact: false,
            lost: false,
            acked: 0,
            lost_streams: 0,
        }
    }

    fn read(&mut self, records: usize) {
        for _ in 0..records {
            let Some(record) = self.x.read() else { return };
            self.handle_record(&record);
        }
    }

    fn handle_record(&mut self, record: &DrawRecord) {
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

    fn handle_requests(&mut self) {
        while let Some(request) = self.session.poll_request(self.now) {
            match request {
                Request::Barrier(id) => {
                    self.x.publish_reliably(RecordKind::Barrier { id });
                    let now = (self.x.begin(), self.x_generation());
                    if let Some(request) = self.barriers.get_mut(&id) {
                        request.answer = Some(now);
                    }
                }
                Request::Input(
                    InputMessage::Key { seq, down: true, .. }
                    | InputMessage::Button { seq, down: true, .. },
                ) => {
                    self.inputs.push_back(seq);
                }
                Request::Input(_) | Request::Resize(_) => {}
                // This X server has no keymap.
                Request::Bind { .. } | Request::SetLayout(_) | Request::SetLocks { .. } => {}
            }
        }
    }

    fn x_generation(&self) -> u32 {
        self.x.current_generation()
    }

    fn commit(&mut self, at: usize) -> Result<bool, Divergence> {
        let connection = &mut self.connections[at];
        let Some(job) = self.session.poll_job(connection.id, self.now) else { return Ok(false) };
        connection
            .check_frame(&job)
            .and_then(|()| connection.check_exact(&job))
            .map_err(|Divergence(message)| Divergence(format!("viewer {at}: {message}")))?;
        connection.jobs.push_back(job);
        Ok(true)
    }

    /// Reads the oldest job's pixels while X writes, and plans them against the shadow.
    fn snapshot(
        &mut self,
        at: usize,
        steps: usize,
        meanwhile: Option<&Op>,
    ) -> Result<bool, Divergence> {
        self.handle_outcomes(at);
        let Some(job) = self.connections[at].jobs.pop_front() else { return Ok(false) };
        let Some((planned, rendered)) = self.render(at, job, Reading::While { steps, meanwhile })
        else {
            return Ok(true);
        };
        let Rendered { tag, verdict, mut commands, .. } = rendered;
        let (job, size) = (planned.job(), self.session.size());
        // If the pixels contain a later op, the hints may be wrong without a fault.
        let late = tag > job.translated;
        oracle::check_shape(job, job.view.map_or(size, |by| by.size()))?;
        if !late {
            scaled::check_parts(job, self.x.framebuffer(), &mut self.tally)?;
            self.check_made(job)?;
        }
        let (refuted, late) = if late { (0, verdict.refuted) } else { (verdict.refuted, 0) };
        let proposals = ProposalStats { confirmed: verdict.confirmed, refuted, late };
        self.tally.add_proposals(&proposals);
        if refuted > 0 {
            return Err(Divergence(format!(
                "viewer {at} lacks {refuted} pixels that {job:?} claims it shows"
            )));
        }
        if self.breakage == Some(Breakage::PixelsAreReadTwice) && !commands.is_empty() {
            self.x.finish();
            let fb = self.x.generation(self.generation).expect("the session's framebuffer exists");
            commands.clear();
            let (_, again) = scaled::expected(job.view.as_ref(), size, &fb.pixels);
            self.connections[at].pipeline.encode_all(job, &again, &mut commands);
        }
        self.connections[at].encodings.push(Encoding { planned, commands });
        Ok(true)
    }

    /// Reads and plans a job's pixels, and encodes them. None: the job is over.
    fn render(
        &mut self,
        at: usize,
        job: Job,
        reading: Reading<'_>,
    ) -> Option<(PlannedJob, Rendered)> {
        let mut turn = Turn {
            x: &mut self.x,
            random: &mut self.random,
            pipeline: &mut self.connections[at].pipeline,
            pixels: &mut self.pixels,
            breakage: self.breakage,
            generation: self.generation,
            size: self.session.size(),
            reading,
            rendered: Rendered::default(),
        };
        let planned = self.session.render(job, &mut turn)?;
        Some((planned, turn.rendered))
    }

    /// Outcomes of jobs are processed before the next job is planned.
    fn handle_outcomes(&mut self, at: usize) {
        let Connection { id, pipeline, acked, .. } = &mut self.connections[at];
        while let Some((job, fate)) = self.session.poll_outcome(*id) {
            pipeline.handle_outcome(job, fate, *acked);
        }
    }

    fn encode(&mut self, at: usize, which: usize) -> bool {
        let connection = &mut self.connections[at];
        if connection.encodings.is_empty() {
            return false;
        }
        let which = which % connection.encodings.len();
        let Encoding { planned, commands } = connection.encodings.remove(which);
        self.session.complete(planned, JobResult::encoded(&commands));
        true
    }

    /// Passes the first part of a job's bytes to the session; the rest follows later.
    fn encode_half(&mut self, at: usize, which: usize) {
        let connection = &mut self.connections[at];
        let which = which % connection.encodings.len().max(1);
        let Some(Encoding { planned, commands }) = connection.encodings.get_mut(which) else {
            return;
        };
        if let Some((first, rest)) = halves(commands) {
            if self.session.handle_part(planned, &first) {
                *commands = rest;
            } else {
                connection.encodings.remove(which);
            }
        }
    }

    fn cancel(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if let Some(job) = connection.jobs.pop_front() {
            // Not read: its COPYs are sent in any case.
            let planned = self.render(at, job, Reading::Fails);
            assert!(planned.is_none(), "pixels that nobody could read are planned");
        } else if !connection.encodings.is_empty() {
            let Encoding { planned, .. } = connection.encodings.remove(0);
            self.session.complete(planned, JobResult::Cancelled);
        }
    }

    fn lose(&mut self, at: usize, rect: &Rect) {
        let connection = &mut self.connections[at];
        let Some(since) = connection.pipeline.lose_pixels(rect) else { return };
        connection.lost = true;
        let picture = self.session.view(connection.id).map_or(self.session.size(), |by| by.size());
        let region = Region::from(rect.intersect(&picture.rect()));
        self.session.handle_stale(connection.id, &region, since);
    }

    fn transmit(&mut self, at: usize) -> bool {
        self.report_path(at);
        let connection = &mut self.connections[at];
        if connection.down.is_full() {
            return false;
        }
        let mut out = Vec::new();
        let entropy = self.session.entropy(connection.id);
        let packer = connection.pipeline.packer(entropy);
        let any = self.session.poll_transmit(connection.id, self.now, packer, &mut out);
        match &mut connection.datagrams {
            Some(datagrams) if datagrams.delivery_order == DeliveryOrder::Unordered => {
                let rest = datagrams.send(&out, self.now, &mut self.random);
                connection.down.send(&rest, self.now, &mut self.random);
            }
            datagrams => {
                connection.down.send(&out, self.now, &mut self.random);
                while let Some((datagrams, update)) =
                    datagrams.as_mut().zip(connection.pipeline.poll_update_datagram())
                {
                    datagrams.down.send(update, self.now, &mut self.random);
                }
            }
        }
        any
    }

    fn report_path(&mut self, at: usize) {
        let Connection { id, down, path_report, .. } = &mut self.connections[at];
        down.advance(self.now, &mut self.random);
        self.session.handle_path(*id, down.stats(*path_report));
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
                // As in the shell: small jobs are encoded at once, large ones by a worker.
                let small = self.connections[at]
                    .encodings
                    .iter()
                    .position(|encoding| encoding.planned.job().hints.inline);
                any |= self.encode(at, small.unwrap_or(0));
                any |= self.transmit(at);
                if !any {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Delivers everything that has arrived by now.
    fn deliver(&mut self) -> Result<(), Divergence> {
        for at in 0..self.connections.len() {
            self.report_path(at);
            let connection = &mut self.connections[at];
            while let Some(chunk) = connection.down.receive(self.now) {
                connection.inbox.push_back(chunk);
            }
            if !connection.stalled {
                while let Some(chunk) = self.connections[at].inbox.pop_front() {
                    let result = self.connections[at].pipeline.handle_bytes(&chunk, self.now);
                    result.map_err(|error| {
                        Divergence(format!("viewer {at} at {}: {error}", self.now))
                    })?;
                    self.check_notices(at)?;
                    self.check_shown(at)?;
                }
            }
            self.deliver_datagrams(at)?;
            self.check_notices(at)?;
            self.check_shown(at)?;
            let connection = &mut self.connections[at];
            let mut out = Vec::new();
            if self.streams_have_time && connection.datagrams.is_none() {
                connection.pipeline.handle_time(self.now);
            }
            if !connection.stalled {
                connection.pipeline.poll_transmit(&mut out);
            }
            connection.up.send(&out, self.now, &mut self.random);
            // Data from datagrams precedes the next chunk of the stream.
            loop {
                while let Some(frame) =
                    connection.deframer.next().map_err(|error| Divergence(error.to_string()))?
                {
                    let message = ViewerMessage::decode(&frame)
                        .map_err(|error| Divergence(error.to_string()))?;
                    if matches!(message, ViewerMessage::Hello(_)) {
                        continue;
                    }
                    self.session.handle_message(connection.id, &message, self.now).map_err(
                        |violation| Divergence(format!("viewer {at} at {}: {violation}", self.now)),
                    )?;
                    match &message {
                        ViewerMessage::Resync => connection.pipeline.distrust_cache(),
                        ViewerMessage::Cache(offer) => {
                            let grant = connection.pipeline.grant_cache(offer);
                            grant
                                .into_iter()
                                .for_each(|grant| self.session.grant_cache(connection.id, grant));
                        }
                        ViewerMessage::Ack(ack) => {
                            connection.acked = connection.acked.max(ack.update)
                        }
                        ViewerMessage::Arrived(_) => {
                            connection.acked = self.session.acked_in_order(connection.id)
                        }
                        ViewerMessage::Video(state)
                            if state.decoder == DecoderState::NeedsKeyframe =>
                        {
                            let lives = self.session.has_video(connection.id, state.id);
                            connection.lost_streams |= u16::from(lives) << state.id;
                        }
                        _ => {}
                    }
                    if let ViewerMessage::Barrier(number) = message {
                        let epoch = self.session.epoch(connection.id);
                        let request =
                            BarrierRequest { viewer: connection.id, number, epoch, answer: None };
                        self.barriers.insert(self.next_barrier, request);
                        self.next_barrier += 1;
                    }
                }
                let Some(chunk) = connection.up.receive(self.now) else { break };
                connection.deframer.push(connection.upstream.from_stream(&chunk));
            }
        }
        Ok(())
    }

    /// A page may present at any time.
    fn check_shown(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection { pipeline, last_shown, chose_view, .. } = &mut self.connections[at];
        if *chose_view {
            return Ok(());
        }
        let checked = last_shown.check(
            pipeline.shown(),
            self.x.history(),
            |place| pipeline.is_lossy(place),
            &mut self.tally,
        );
        checked.map_err(|Divergence(message)| {
            Divergence(format!("viewer {at} at {} {message}", self.now))
        })
    }

    fn check_notices(&mut self, at: usize) -> Result<(), Divergence> {
        let all_heard = self.connections[at].pipeline.poll_notices();
        for (i, &heard) in all_heard.iter().enumerate() {
            match heard {
                Notice::Update { end_of_frame } => {
                    self.connections[at].last_ends_frame = end_of_frame
                }
                Notice::Echo(seq) => self.echoes.push((self.now, seq)),
                Notice::Barrier(number) => {
                    // If one chunk brings the answer and then another geometry, nobody saw the
                    // pixels in between.
                    let seen = !all_heard[i..].contains(&Notice::Geometry);
                    self.check_barrier(at, number, seen)?;
                }
                Notice::Frame(drawn_at) => self.frames.push((self.now, drawn_at)),
                Notice::Geometry => {}
            }
        }
        Ok(())
    }
}
