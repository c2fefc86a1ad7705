//! One viewer on virtual time: a job's pixels from the traced screen, planned and encoded; a link
//! in each direction; viewer-core. From replay.rs, to replay.rs: bytes to the viewer and
//! acknowledgements back. Knows the public interfaces of the parts, like session-server; never a
//! trace's events.

use std::collections::VecDeque;

use thinc_codec_enc::{EncodeSettings, Encoder};
use thinc_pixels::{Claim, Hint, Hints, PlanSettings, Planned, Shadow, Snapshot, plan_with};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{SESSION_MESSAGE_BYTES_MAX, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Region, Size};
use thinc_session_core::{
    Capture, CopyCommand, Job, JobResult, NoPixels, Part, Plan, PlannedJob, Proposal, Render,
    Session, Unavailable, Unpacked, ViewerId,
};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerEvent};
use xxhash_rust::xxh3::Xxh3Default;

use crate::canvas::Canvas;
use crate::link::{Link, LinkSpec};
use crate::replay::{Depth, ReplayError};

const NAME: &str = "trace";

/// A viewer that decodes no pixels and only acknowledges updates that have arrived.
#[derive(Debug)]
struct AckOnlyViewer {
    frames: Deframer,
    sent: u64,
    arrived: u64,
    /// Updates, each with the number of bytes after which it has arrived.
    updates: VecDeque<(u64, u64)>,
}

impl AckOnlyViewer {
    fn sent(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.sent += bytes.len() as u64;
        self.frames.push(bytes);
        while let Some(frame) = self.frames.next().map_err(ReplayError::Wire)? {
            if let SessionMessage::Update(update) =
                SessionMessage::decode(&frame).map_err(ReplayError::Wire)?
            {
                self.updates.push_back((self.sent, update.seq));
            }
        }
        Ok(())
    }
}

/// The viewer's shadow, and the plan of its newest job.
struct Renderer {
    shadow: Shadow,
    snapshot: Snapshot,
    hints: Vec<Hint>,
    planned: Vec<Planned>,
}

/// One job being rendered. `begin` was loaded after the traced pixels were read, and they do not
/// change meanwhile.
struct Turn<'a> {
    renderer: &'a mut Renderer,
    screen: &'a Canvas,
    begin: u64,
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
        self.renderer.snapshot.fill(&job.region, |rect, to, stride| {
            for (y, line) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
                line[..rect.width() as usize].copy_from_slice(self.screen.row(rect.x1, rect.x2, y));
            }
        });
        Ok(Capture { begin_before: None, tag: self.begin })
    }

    fn plan(&mut self, job: &Job) -> Plan<'_> {
        let Renderer { shadow, snapshot, hints, planned } = &mut *self.renderer;
        planned.clear();
        hints.clear();
        hints.extend(job.parts.iter().map(hint));
        let hints = Hints { shown: &job.verify, parts: hints };
        let verdict = plan_with(snapshot, shadow, &hints, PlanSettings::default(), planned);
        let (confirmed, refuted) = (verdict.confirmed, verdict.refuted);
        Plan { confirmed, refuted, ..Plan::default() }
    }
}

/// Both ends of one connection, and the path between them.
pub(crate) struct Connection {
    id: ViewerId,
    renderer: Renderer,
    encoder: Encoder,
    commands: Commands,
    down: Link,
    up: Link,
    deframer: Deframer,
    bytes: Vec<u8>,
    /// Of every frame sent.
    hash: Xxh3Default,
    /// Used if no pixels are sent.
    ack_only: AckOnlyViewer,
    pub(crate) viewer: Viewer,
}

impl Connection {
    /// A viewer that has just sent its hello.
    pub(crate) fn new(session: &mut Session, link: LinkSpec, now: Micros) -> Connection {
        let caps = ViewerCaps::LOCAL_CURSOR;
        let config = ViewerConfig {
            name: NAME.into(),
            size: Size::default(),
            caps,
            clipboard: ClipboardPolicy::OFF,
        };
        let hello = ViewerHello {
            version: VERSION,
            caps,
            size: Size::default(),
            message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
            name: NAME.into(),
        };
        Connection {
            id: session.add_viewer(&hello, now),
            renderer: Renderer {
                shadow: Shadow::new(Size::default()),
                snapshot: Snapshot::new(),
                hints: Vec::new(),
                planned: Vec::new(),
            },
            encoder: Encoder::new(),
            commands: Commands::default(),
            down: Link::new(link),
            up: Link::new(link),
            deframer: Deframer::new(VIEWER_MESSAGE_BYTES_MAX),
            bytes: Vec::new(),
            hash: Xxh3Default::new(),
            ack_only: AckOnlyViewer {
                frames: Deframer::new(SESSION_MESSAGE_BYTES_MAX),
                sent: 0,
                arrived: 0,
                updates: VecDeque::new(),
            },
            viewer: Viewer::new(&config),
        }
    }

    pub(crate) fn id(&self) -> ViewerId {
        self.id
    }

    /// Of every byte sent so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.digest()
    }

    /// Does everything that may be sent to the viewer now: jobs, then frames.
    pub(crate) fn serve(
        &mut self,
        session: &mut Session,
        screen: Option<&Canvas>,
        begin: u64,
        now: Micros,
    ) -> Result<(), ReplayError> {
        while let Some(job) = session.poll_job(self.id, now) {
            self.commands.clear();
            let planned = match screen {
                Some(screen) => self.render(session, job, screen, begin),
                // Treated as if the viewer showed all of it already.
                None => session.render(job, &mut NoPixels { tag: begin }),
            };
            if let Some(planned) = planned {
                session.complete(planned, JobResult::encoded(&self.commands));
            }
        }
        self.bytes.clear();
        if session.poll_transmit(self.id, now, &mut Unpacked, &mut self.bytes) {
            self.hash.update(&self.bytes);
            self.down.send(&self.bytes, now);
            if screen.is_none() {
                self.ack_only.sent(&self.bytes)?;
            }
        }
        Ok(())
    }

    /// Plans the job's pixels and encodes them into `commands`, as session-server's render.rs.
    fn render(
        &mut self,
        session: &mut Session,
        job: Job,
        screen: &Canvas,
        begin: u64,
    ) -> Option<PlannedJob> {
        let renderer = &mut self.renderer;
        let job = session.render(job, &mut Turn { renderer, screen, begin })?;
        let Renderer { planned, snapshot, .. } = &self.renderer;
        let settings = EncodeSettings::default();
        self.encoder.write(planned, snapshot, &settings, &mut self.commands.writer());
        Some(job)
    }

    /// Delivers what has arrived to both ends: to the viewer, or to the one that only acknowledges.
    pub(crate) fn deliver(
        &mut self,
        session: &mut Session,
        now: Micros,
        depth: Depth,
    ) -> Result<(), ReplayError> {
        self.bytes.clear();
        match depth {
            Depth::Viewer => self.run_viewer(now)?,
            Depth::Queues => {
                while let Some(chunk) = self.down.receive(now) {
                    self.ack_only.arrived += chunk.len() as u64;
                }
                while let Some((_, update)) =
                    self.ack_only.updates.pop_front_if(|(at, _)| *at <= self.ack_only.arrived)
                {
                    ViewerMessage::Ack(Ack { update, presented: None }).encode(&mut self.bytes);
                }
            }
        }
        self.up.send(&self.bytes, now);
        while let Some(chunk) = self.up.receive(now) {
            self.deframer.push(&chunk);
            while let Some(frame) = self.deframer.next().map_err(ReplayError::Wire)? {
                match ViewerMessage::decode(&frame).map_err(ReplayError::Wire)? {
                    // `add_viewer` has processed it.
                    ViewerMessage::Hello(_) => {}
                    message => session.handle_message(self.id, &message, now)?,
                }
            }
        }
        Ok(())
    }

    /// The viewer reads what has arrived and answers into `bytes`.
    fn run_viewer(&mut self, now: Micros) -> Result<(), ReplayError> {
        while let Some(chunk) = self.down.receive(now) {
            self.viewer.handle_bytes(&chunk, now)?;
            while let Some(event) = self.viewer.poll_event() {
                match event {
                    ViewerEvent::FrameEnd => self.viewer.handle_presented(now),
                    ViewerEvent::Closed { reason, .. } => return Err(ReplayError::Closed(reason)),
                    _ => {}
                }
            }
        }
        while self.viewer.poll_transmit(&mut self.bytes) {}
        Ok(())
    }

    /// When the next bytes arrive.
    pub(crate) fn next_at(&self) -> Option<Micros> {
        [self.down.next_at(), self.up.next_at()].into_iter().flatten().min()
    }
}

fn hint(part: &Part) -> Hint {
    let claim = match part.what {
        Proposal::Solid(color) => Claim::Solid(color),
        Proposal::Pattern => Claim::Pattern,
        Proposal::Text(_) => Claim::Text,
        Proposal::Image => Claim::Image,
        Proposal::Video(_) => Claim::Video,
    };
    Hint { rect: part.rect, claim }
}
