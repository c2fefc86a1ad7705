//! Path 3/13 to 10/13: the one loop of a session, round session-core: records and messages in, jobs and frames out.
//! From the driver's ring and the viewers' connections, to both; woken by events and by session-core's own deadline only.
//! Knows when to ask session-core and whom to hand its answers; decides nothing that session-core could decide.

mod alone;
mod instances;
mod records;
mod requests;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_codec_enc::Encoder;
use thinc_h264::Library;
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::{INSTANCE_BYTES, VIEWER_FRAME_BYTES_MAX};
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::Size;
use thinc_ring::{Attachment, Framebuffer};
use thinc_session_core::{
    Arrival, Config, LossyPolicy, PathFigures, Scheduling, Session, Upstream, VideoPolicy, ViewerId,
};
use thinc_transport::path::{Figures, Path};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::caches::Caches;
use crate::clipboard::{self, Clipboard};
use crate::connection::{ConnectionId, Ending, Event, Events, Opened, STALL_TIME};
use crate::cursor::CursorSeen;
use crate::gate::LOGIN_GRACE;
use crate::keyboard::KeyboardHandle;
use crate::memory::{kept, recycle};
use crate::packing::Packing;
use crate::recorder::Recorder;
use crate::render::{self, View};
use crate::worker::{Encoded, Work, Workers};
use crate::xsettings::{self, Desktop};
use crate::{SessionConfig, SessionError};

use instances::Left;
use requests::Held;

/// Viewers of one session at a time.
const VIEWERS_MAX: usize = 16;
/// Events taken before the ring gets its turn.
const EVENTS_PER_TURN: usize = 64;
/// After this long no further viewer is served before events and the ring get their turn.
const SERVING_PER_TURN: Duration = Duration::from_millis(2);
/// How long a viewer that is being closed may take to read why.
const FAREWELL: Duration = Duration::from_secs(5);
/// The same when the whole session ends; the supervisor waits for this process.
const FAREWELL_AT_END: Duration = Duration::from_secs(1);
/// From the driver's end to the supervisor's word that the X server has ended: it reads the last of its log for 0.3 s.
const VERDICT_TIME: Duration = Duration::from_millis(600);
/// How long the first viewers of a session process wait for what its selections hold: their owners are asked, and a client
/// may hold the X server grabbed.
const SELECTIONS_TIME: Duration = Duration::from_millis(300);
/// A deadline that has passed without making work ripe is looked at again after this long, not at once.
const DEADLINE_STEP: Duration = Duration::from_micros(500);
/// Framebuffers that came before the record that names them; past it the oldest goes, which another has replaced.
const NEXT_FRAMEBUFFERS_MAX: usize = 8;

/// One connection that has authenticated, and its viewer once that has said hello.
struct Seat {
    label: String,
    outgoing: Option<mpsc::Sender<Vec<u8>>>,
    path: Option<Path>,
    /// Where the next chunk is written; `None` while one is on its way out.
    chunk: Option<Vec<u8>>,
    /// Length of the one on its way.
    chunk_bytes: u64,
    task: tokio::task::AbortHandle,
    frames: Deframer,
    /// How far `frames` was given what its stream brings, or what came beside it.
    upstream: Upstream,
    viewer: Option<ViewerId>,
    /// Which viewer it is, where it says so.
    instance: Option<[u8; INSTANCE_BYTES]>,
    /// It takes streams of video.
    takes_video: bool,
    view: View,
    packing: Packing,
    opened: Micros,
    /// Since when bytes wait for an acknowledgement with none coming.
    unacknowledged: Option<Micros>,
    /// When it is cut off, read or not.
    cut_at: Option<Micros>,
}

impl Seat {
    /// Tells session-core what is known of the path, when that matters.
    fn tell_path(&self, core: &mut Session, viewer: ViewerId) {
        if core.is_busy(viewer) {
            let figures = self.path.as_ref().and_then(Path::figures);
            core.handle_path(viewer, figures.map(|figures| path_figures(figures, self.chunk_bytes)));
        }
    }
}

/// The path's figures, and the chunk that is on its way to it: part of it may count twice for a moment.
fn path_figures(figures: Figures, chunk_bytes: u64) -> PathFigures {
    let Figures { in_flight, delivered, window, rate, rtt, rtt_min } = figures;
    PathFigures { in_flight: in_flight + chunk_bytes, delivered, window, rate, rtt, rtt_min }
}

pub(crate) struct Actor {
    core: Session,
    ring: thinc_ring::Ring,
    framebuffer: Framebuffer,
    /// Came over the control socket; used from the GEOMETRY record on that names it.
    next_framebuffers: Vec<Framebuffer>,
    input: thinc_ring::InputSender,
    control: thinc_ring::Control,
    ring_ready: AsyncFd<OwnedFd>,
    control_ready: AsyncFd<OwnedFd>,
    /// The control socket may have something to say.
    control_speaks: bool,
    /// The socket that `held` waits for. Watched only then, or every key that X takes would wake us.
    room: Option<AsyncFd<OwnedFd>>,
    keyboard: KeyboardHandle,
    desktop: Desktop,
    clipboard: Clipboard,
    /// Until then viewers wait for what the session's selections hold.
    greet_by: Option<Micros>,
    /// Changes asked for and not answered: more than one where input did not wait for them.
    keyboard_changes: u32,
    held: Held,
    seats: BTreeMap<ConnectionId, Seat>,
    caches: Caches,
    left: Left,
    /// The seat, or the next after it, with which the next turn of serving begins.
    served_first: ConnectionId,
    cursor: CursorSeen,
    encoder: Encoder,
    workers: Workers,
    spare: Vec<Work>,
    /// Commands of the job that is encoded in place.
    commands: Vec<u8>,
    /// While somebody wants a trace.
    recorder: Option<Recorder>,
    /// Whether streams are wanted at all.
    video: VideoPolicy,
    /// Whose encoders make the pictures of streams.
    video_library: Library,
    start: Instant,
}

// tokio deprecated it because some types lie about their descriptor; an OwnedFd cannot, and the successor is unsafe to call.
#[expect(deprecated)]
fn watch(fd: io::Result<OwnedFd>, interest: Interest) -> Result<AsyncFd<OwnedFd>, SessionError> {
    // A copy of the descriptor: the ring keeps its own, and both mean the same open file.
    fd.and_then(|fd| AsyncFd::with_interest(fd, interest))
        .map_err(|error| SessionError::System("watch the driver", error))
}

impl Actor {
    pub(crate) fn new(
        config: &SessionConfig,
        attachment: Attachment,
        keyboard: KeyboardHandle,
        events: Events,
    ) -> Result<Actor, SessionError> {
        let Attachment { ring, framebuffer, input, control } = attachment;
        let size = size_of(&framebuffer);
        let mut core = Session::new(Config {
            name: config.name.clone(),
            size,
            scheduling: if config.fifo { Scheduling::Fifo } else { Scheduling::ShortestFirst },
            offscreen: config.offscreen,
            lossy: if config.lossless { LossyPolicy::Never } else { LossyPolicy::Auto },
            video: config.video.policy(config.lossless),
        });
        let clipboard = clipboard::start(&config.clipboard, &config.display, &mut core, events.clone());
        ring.set_want_offscreen(config.offscreen);
        // Another session process may have ended while a video played.
        ring.set_want_video(false);
        core.handle_attach(size);
        core.handle_leds(ring.leds());
        let mut actor = Actor {
            ring_ready: watch(ring.wake_fd().try_clone_to_owned(), Interest::READABLE)?,
            control_ready: watch(control.fd().try_clone_to_owned(), Interest::READABLE)?,
            control_speaks: true,
            room: None,
            core,
            ring,
            framebuffer,
            next_framebuffers: Vec::new(),
            input,
            control,
            keyboard,
            desktop: xsettings::start(&config.display),
            clipboard,
            greet_by: Some(SELECTIONS_TIME.as_micros() as Micros),
            keyboard_changes: 0,
            held: Held::Free,
            seats: BTreeMap::new(),
            caches: Caches::default(),
            left: Left::default(),
            served_first: ConnectionId(0),
            cursor: CursorSeen::default(),
            encoder: Encoder::new(),
            workers: Workers::new(events),
            spare: Vec::new(),
            commands: Vec::new(),
            recorder: None,
            video: config.video.policy(config.lossless),
            video_library: crate::video::library(&config.video_encoder),
            start: Instant::now(),
        };
        if let Some(path) = &config.trace {
            match Recorder::to_file(path, actor.now()) {
                Ok(recorder) => actor.begin_recording(recorder),
                Err(error) => warn!("no trace is written: {}: {error}", path.display()),
            }
        }
        actor.take_cursor();
        Ok(actor)
    }

    fn now(&self) -> Micros {
        self.start.elapsed().as_micros() as Micros
    }

    /// Runs until the process is asked to end (`Ok`) or the driver is gone.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Event>) -> Result<(), SessionError> {
        let mut term =
            signal(SignalKind::terminate()).map_err(|error| SessionError::System("wait for signals", error))?;
        if let Err(error) = self.attend(&mut inbox, &mut term).await {
            // An X server that died takes the session with it, as the supervisor will say in a moment: viewers should
            // hear of it, or they would look for the session for ever. Else another process attaches to the driver.
            let ending = matches!(error, SessionError::Driver(_)) && timeout(VERDICT_TIME, term.recv()).await.is_ok();
            if !ending {
                return Err(error);
            }
            warn!("{error}");
        }
        self.farewell(&mut inbox).await;
        Ok(())
    }

    async fn attend(&mut self, inbox: &mut mpsc::Receiver<Event>, term: &mut Signal) -> Result<(), SessionError> {
        // Changed only where it would come too late: what waits for seconds changes with every update and every
        // acknowledgement, and to set a timer costs as much as to send.
        let mut watchdog = pin!(sleep_until(self.start.into()));
        let mut watchdog_at: Option<Instant> = None;
        loop {
            for _ in 0..EVENTS_PER_TURN {
                let Ok(event) = inbox.try_recv() else { break };
                self.handle_event(event);
            }
            let behind = self.drain_ring()?;
            if behind || std::mem::take(&mut self.control_speaks) {
                self.drain_control()?;
            }
            self.carry_requests()?;
            self.greet();
            let now = self.now();
            self.clipboard.serve(&mut self.core, now);
            let more = self.serve_viewers();
            self.cut_off();
            if behind || more || !inbox.is_empty() || !self.ring.prepare_sleep() {
                // Others of this thread have a turn: they bring the input and take the frames.
                tokio::task::yield_now().await;
                continue;
            }
            let (soon, late) = self.deadlines();
            if let Some(late) = late.filter(|&late| watchdog_at.is_none_or(|at| late < at)) {
                watchdog.as_mut().reset(late.into());
                watchdog_at = Some(late);
            }
            tokio::select! {
                biased;
                _ = term.recv() => break,
                ready = self.ring_ready.readable() => {
                    ready.map_err(SessionError::Driver)?.clear_ready();
                    self.ring.clear_wake();
                }
                ready = self.control_ready.readable() => {
                    ready.map_err(SessionError::Driver)?.clear_ready();
                    self.control_speaks = true;
                }
                ready = writable(self.room.as_ref()) => {
                    ready.map_err(SessionError::Driver)?;
                    self.room = None;
                }
                event = inbox.recv() => {
                    if let Some(event) = event {
                        self.handle_event(event);
                    }
                }
                () = until(soon) => {}
                () = watchdog.as_mut(), if watchdog_at.is_some() => watchdog_at = None,
            }
        }
        Ok(())
    }

    /// The next moments at which something is to be done though nothing happened: for what was drawn, and for patience
    /// that ends.
    fn deadlines(&self) -> (Option<Instant>, Option<Instant>) {
        let now = self.now();
        let least = Duration::from_micros(now) + DEADLINE_STEP;
        let instant = |at: Micros| self.start + Duration::from_micros(at).max(least);
        let seats = self.seats.values().flat_map(|seat| {
            let stall = STALL_TIME.as_micros() as Micros;
            let hello = seat.viewer.is_none().then(|| seat.opened + LOGIN_GRACE.as_micros() as Micros);
            [hello, seat.cut_at, seat.unacknowledged.map(|since| since + stall)].into_iter().flatten()
        });
        let binding = if let Held::Keyboard(until) = self.held { Some(until) } else { None };
        (self.core.poll_deadline(now).map(instant), seats.chain(binding).chain(self.greet_by).min().map(instant))
    }

    // ---- viewers ---------------------------------------------------------------------------------------------------

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Opened(opened) => self.open(opened),
            Event::Bytes(id, bytes) => self.take_bytes(id, &bytes),
            Event::Datagram(id, bytes) => self.take_datagram(id, &bytes),
            Event::Drained(id, chunk) => {
                if let Some(seat) = self.seats.get_mut(&id) {
                    seat.chunk = Some(kept(chunk));
                    seat.chunk_bytes = 0;
                }
            }
            Event::Gone(id, ending) => self.gone(id, &ending),
            Event::Encoded(encoded) => self.encoded(encoded),
            Event::Trace(stream) => self.record_to(stream),
            Event::Selection(event) => {
                let now = self.now();
                self.clipboard.handle(event, &mut self.core, now);
            }
            Event::Keymap(keymap) => self.core.handle_keymap(keymap),
            Event::KeyboardChanged => {
                self.keyboard_changes = self.keyboard_changes.saturating_sub(1);
                if self.keyboard_changes == 0 && matches!(self.held, Held::Keyboard(_)) {
                    self.held = Held::Free;
                }
            }
        }
    }

    fn open(&mut self, Opened { id, label, outgoing, path, datagrams, task }: Opened) {
        info!("{label}: connected");
        let seat = Seat {
            label,
            outgoing: Some(outgoing),
            path,
            chunk: Some(Vec::new()),
            chunk_bytes: 0,
            task,
            frames: Deframer::new(VIEWER_FRAME_BYTES_MAX),
            upstream: Upstream::default(),
            viewer: None,
            instance: None,
            takes_video: false,
            view: View::new(self.video_library),
            packing: Packing::new(datagrams),
            opened: self.now(),
            unacknowledged: None,
            cut_at: None,
        };
        let full = self.seats.len() >= VIEWERS_MAX;
        self.seats.insert(id, seat);
        if full {
            self.close(id, CloseCode::Protocol, &format!("the session has {VIEWERS_MAX} viewers, which is the most"));
        }
    }

    /// From here on viewers are served: it is known what the session's selections hold. Said later, it would be taken for a
    /// copy made just now, and take over what a viewer's desktop has.
    fn greet(&mut self) {
        let now = self.now();
        if self.greet_by.is_some_and(|by| self.clipboard.is_known() || now >= by) {
            self.greet_by = None;
            let waiting: Vec<ConnectionId> = self.seats.keys().copied().collect();
            waiting.into_iter().for_each(|id| self.take_bytes(id, &[]));
        }
    }

    fn take_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.cut_at.is_none()) else { return };
        if let Some(viewer) = seat.viewer {
            seat.tell_path(&mut self.core, viewer);
        }
        let fresh = seat.upstream.by_stream(bytes);
        self.take_frames(id, fresh);
    }

    /// What comes next on a viewer's stream, whichever way it came.
    fn take_frames(&mut self, id: ConnectionId, bytes: &[u8]) {
        let now = self.now();
        let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.cut_at.is_none()) else { return };
        seat.frames.push(bytes);
        if self.greet_by.is_some() {
            return;
        }
        let end = loop {
            let message = match seat.frames.next() {
                Ok(None) => return,
                Ok(Some(frame)) => ViewerMessage::decode(&frame),
                Err(error) => Err(error),
            };
            let message = match message {
                Ok(message) => message,
                Err(error) => break (CloseCode::Protocol, error.to_string()),
            };
            let Some(viewer) = seat.viewer else {
                match message {
                    ViewerMessage::Hello(hello) if hello.version == 0 => {
                        break (CloseCode::Version, format!("version 0 is none; this session speaks {VERSION}"));
                    }
                    ViewerMessage::Hello(hello) => {
                        info!("{}: {}, window {} × {}", seat.label, hello.name, hello.size.width, hello.size.height);
                        let viewer = *seat.viewer.insert(self.core.add_viewer(&hello, now));
                        if hello.caps & ViewerCaps::ALONE != 0 && seat.packing.has_datagrams() {
                            self.core.set_arrival(viewer, Arrival::Mixed);
                        }
                        seat.takes_video = hello.caps & ViewerCaps::VIDEO != 0;
                        // While somebody takes them the driver keeps each frame's samples.
                        if seat.takes_video && self.video != VideoPolicy::Off {
                            self.ring.set_want_video(true);
                        }
                        continue;
                    }
                    _ => break (CloseCode::Protocol, "the first message must be a hello".to_owned()),
                }
            };
            match &message {
                // It shows nothing it can rely on: neither may we.
                ViewerMessage::Refresh => {
                    seat.view.forget();
                    self.caches.distrust(id);
                }
                ViewerMessage::Cache(offer) => match self.caches.offer(id, offer, now, random) {
                    Ok(grant) => grant.into_iter().for_each(|grant| self.core.grant_cache(viewer, grant)),
                    Err(wrong) => break (CloseCode::Protocol, wrong.to_owned()),
                },
                ViewerMessage::Close(reason) => info!("{}: leaves: {reason}", seat.label),
                ViewerMessage::Instance(_) if seat.instance.is_some() => {
                    break (CloseCode::Protocol, "a viewer says once which it is".to_owned());
                }
                ViewerMessage::Instance(number) => {
                    self.leave_older(id, *number);
                    // What follows, the offer of a cache first, counts once that is done.
                    return self.take_frames(id, &[]);
                }
                _ => {}
            }
            if let Err(violation) = self.core.handle_message(viewer, &message, now) {
                break (CloseCode::Protocol, violation.to_string());
            }
            let applied = match message {
                ViewerMessage::Ack(ack) if ack.update > 0 => Some(ack.update),
                ViewerMessage::Arrived(_) => Some(self.core.acked_in_order(viewer)),
                _ => None,
            };
            if let Some(update) = applied {
                self.caches.acked(id, viewer, update, &mut self.core);
                let more = self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0);
                seat.unacknowledged = more.then_some(now);
            }
        };
        let (code, reason) = end;
        self.close(id, code, &reason);
    }

    /// Says why, and ends the connection once that has left, or when it does not leave.
    fn close(&mut self, id: ConnectionId, code: CloseCode, reason: &str) {
        let cut_at = self.now() + FAREWELL.as_micros() as Micros;
        let Some(seat) = self.seats.get_mut(&id) else { return };
        info!("{}: closing: {reason}", seat.label);
        seat.cut_at.get_or_insert(cut_at);
        match seat.viewer {
            Some(viewer) => self.core.close_viewer(viewer, code, reason),
            None => {
                let mut chunk = seat.chunk.take().unwrap_or_default();
                SessionMessage::Close(Close { code, reason }).encode(&mut chunk);
                if let Some(outgoing) = seat.outgoing.take() {
                    let _ = outgoing.try_send(chunk);
                }
            }
        }
    }

    fn gone(&mut self, id: ConnectionId, ending: &Ending) {
        let Some(seat) = self.seats.remove(&id) else { return };
        if seat.takes_video && !self.seats.values().any(|seat| seat.takes_video) {
            self.ring.set_want_video(false);
        }
        if self.seats.is_empty() {
            // Nobody waits for what is next.
            self.spare = Vec::new();
        }
        self.caches.leave(id, self.now());
        if let Some(viewer) = seat.viewer {
            let stats = self.core.stats(viewer).unwrap_or_default();
            debug!("{}: {stats:?}", seat.label);
            seat.instance.into_iter().for_each(|instance| self.remember_left(instance, self.core.seen(viewer)));
            self.core.remove_viewer(viewer);
        }
        match ending {
            Ending::Closed => info!("{}: gone", seat.label),
            Ending::Stalled => info!("{}: gone: it read nothing for {STALL_TIME:?}", seat.label),
            Ending::Broken(error) => info!("{}: gone: {error}", seat.label),
        }
    }

    /// Ends what has had its time.
    fn cut_off(&mut self) {
        let now = self.now();
        let stall = STALL_TIME.as_micros() as Micros;
        let mut closing = Vec::new();
        let mut cut = Vec::new();
        for (&id, seat) in &self.seats {
            if seat.cut_at.is_some_and(|at| at <= now) {
                cut.push(id);
            } else if seat.cut_at.is_some() {
                // It is being told.
            } else if seat.viewer.is_none() && now >= seat.opened + LOGIN_GRACE.as_micros() as Micros {
                closing.push((id, CloseCode::Protocol, format!("no hello within {LOGIN_GRACE:?}")));
            } else if seat.unacknowledged.is_some_and(|since| now >= since + stall) {
                closing.push((id, CloseCode::TooSlow, format!("no update was acknowledged for {STALL_TIME:?}")));
            }
        }
        for (id, code, reason) in closing {
            self.close(id, code, &reason);
        }
        for id in cut {
            if let Some(seat) = self.seats.get(&id) {
                seat.task.abort();
                self.gone(id, &Ending::Closed);
            }
        }
    }

    /// Serves each viewer once, beginning where the last turn broke off: a fast viewer's jobs must not keep the others, nor
    /// input, waiting. True when there may be more to do at once.
    fn serve_viewers(&mut self) -> bool {
        let begun = Instant::now();
        let first = self.served_first;
        let order: Vec<ConnectionId> =
            self.seats.range(first..).chain(self.seats.range(..first)).map(|(&id, _)| id).collect();
        let mut more = false;
        for id in order {
            if begun.elapsed() >= SERVING_PER_TURN {
                self.served_first = id;
                return true;
            }
            more |= self.serve(id);
        }
        more
    }

    /// Commits, reads, plans and encodes one job of a viewer, and hands its frames out. True when another may follow.
    fn serve(&mut self, id: ConnectionId) -> bool {
        let now = self.now();
        let Some(seat) = self.seats.get_mut(&id) else { return false };
        let Some(viewer) = seat.viewer else { return false };
        seat.tell_path(&mut self.core, viewer);
        let mut more = false;
        if let Some(job) = self.core.poll_job(viewer, now) {
            let mut work = self.spare.pop().unwrap_or_else(Work::new);
            let cache = self.caches.get(id, viewer, &mut self.core);
            let screen = (&self.ring, &self.framebuffer);
            let rendered = seat.view.render(&mut self.core, viewer, &job, screen, cache, &mut work, now);
            if rendered.is_err() {
                recycle(&mut self.spare, work);
            } else if work.is_done_at_once() || job.hints.inline && work.picture.is_none() {
                self.commands = kept(std::mem::take(&mut self.commands));
                let took = work.encode(&mut self.encoder, &mut self.commands);
                render::finish(&mut self.core, &work, 0, &self.commands, took);
                recycle(&mut self.spare, work);
            } else {
                self.workers.submit(work);
            }
            more = true;
        }
        // One chunk at a time is on its way: what waits, waits in session-core, where it can still be replaced.
        let (Some(outgoing), Some(mut chunk)) = (&seat.outgoing, seat.chunk.take()) else { return more };
        seat.packing.choose(self.core.entropy(viewer));
        let anything = self.core.poll_transmit(viewer, now, &mut seat.packing, &mut chunk);
        let took = seat.packing.take_time().as_micros() as Micros;
        if took > 0 {
            self.core.handle_pack_time(viewer, took);
        }
        if anything && chunk.is_empty() {
            // All of it went alone, and there may be more.
            seat.chunk = Some(chunk);
            seat.unacknowledged.get_or_insert(now);
            more = true;
        } else if anything {
            seat.chunk_bytes = chunk.len() as u64;
            // The channel has one place, and the chunk before has left.
            let _ = outgoing.try_send(chunk);
            if seat.unacknowledged.is_none() && self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0) {
                seat.unacknowledged = Some(now);
            }
        } else {
            seat.chunk = Some(chunk);
        }
        if self.core.is_closed(viewer) {
            // The connection ends when the last chunk has left.
            seat.outgoing = None;
        }
        more
    }

    fn encoded(&mut self, encoded: Encoded) {
        let work = encoded.work.clone();
        match self.seats.values_mut().find(|seat| seat.viewer == Some(work.viewer)) {
            Some(seat) => seat.view.gather(&mut self.core, encoded),
            None => drop(encoded),
        }
        // The last stretch of a job brings its memory back.
        if let Some(work) = Arc::into_inner(work) {
            recycle(&mut self.spare, work);
        }
    }

    /// Tells every viewer that the session ends, and gives them a moment to hear it.
    async fn farewell(&mut self, inbox: &mut mpsc::Receiver<Event>) {
        let ids: Vec<ConnectionId> = self.seats.keys().copied().collect();
        for id in ids {
            self.close(id, CloseCode::SessionEnded, "the session ended");
        }
        let all_gone = async {
            loop {
                while self.serve_viewers() {}
                if self.seats.is_empty() {
                    return;
                }
                match inbox.recv().await {
                    Some(event) => self.handle_event(event),
                    None => return,
                }
            }
        };
        let _ = timeout(FAREWELL_AT_END, all_gone).await;
    }
}

/// Bytes that nobody can guess.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes");
}

fn size_of(framebuffer: &Framebuffer) -> Size {
    let (width, height) = framebuffer.size();
    Size { width, height }
}

/// Never returns where there is nothing to wait for.
async fn writable(socket: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match socket {
        Some(socket) => socket.writable().await.map(drop),
        None => std::future::pending().await,
    }
}

/// Never returns where there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
