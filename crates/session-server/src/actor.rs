//! Path 3/13 to 10/13: the event loop of a session, around session-core: records and messages in,
//! jobs and frames out.
//! From the driver's ring and the viewers' connections, to both; woken by events and by
//! session-core's own deadline only. Knows when to call session-core and who gets its results;
//! decides nothing that session-core could decide.

mod closing;
mod connections;
mod datagrams;
mod driver;
mod figures;
mod files;
mod graphics;
mod guests;
mod instances;
mod job_encoder;
mod notices;
mod opening;
mod people;
mod preferences;
mod records;
mod requests;
mod sound;
pub(crate) mod thumbnail;

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::Size;
use thinc_ring::{Attachment, Framebuffer};
use thinc_session_core::{Config, DeliveryOrder, LossyPolicy, Rights, Scheduling, Session};
use thinc_transport::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tracing::{info, warn};

use crate::caches::Caches;
use crate::clipboard::{self, Clipboard};
use crate::connection::{ConnectionId, Event, Events, Opened};
use crate::expiry::Expiry;
use crate::files::Files;
use crate::keyboard::KeyboardHandle;
use crate::opening::Opening;
use crate::preferences::keeper::Keeper;
use crate::recorder::Recorder;
use crate::share::Sharing;
use crate::typed::Attention;
use crate::worker::Encoded;
use crate::xsettings;
use crate::{SessionConfig, SessionError};

use connections::{Connections, ViewerConnection};
use driver::Driver;
use graphics::GraphicsLine;
use instances::DepartedViewers;
use job_encoder::JobEncoder;
use notices::NoticeState;
use opening::OpeningState;
use people::PeopleState;
use preferences::{DesktopScale, PreferencesState};
use requests::Requests;
use sound::SoundState;

/// Viewers of one session at a time.
const VIEWERS_MAX: usize = 16;
/// Events handled before the ring gets its turn.
const EVENTS_PER_TURN: usize = 64;
/// After this long no further viewer is served before events and the ring get their turn.
const SERVE_TIME_PER_TURN: Duration = Duration::from_millis(2);
/// How long a viewer may take to read why its connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same when the whole session ends; the supervisor waits for this process.
const CLOSE_TIMEOUT_AT_END: Duration = Duration::from_secs(1);
/// Longest wait, after the driver is gone, for the supervisor's SIGTERM that says that the X server
/// has ended: the supervisor reads the rest of its log for 0.3 s.
const TERMINATION_TIMEOUT: Duration = Duration::from_millis(600);
/// A deadline that has passed without work to do is checked again after this long, not at once.
const DEADLINE_RETRY: Duration = Duration::from_micros(500);

/// Calls its parts in turn; each owns what it decides by.
pub(crate) struct Actor {
    core: Session,
    driver: Driver,
    requests: Requests,
    scale: DesktopScale,
    clipboard: Clipboard,
    files: Files,
    connections: Connections,
    caches: Caches,
    departed: DepartedViewers,
    people: PeopleState,
    notices: NoticeState,
    opening: OpeningState,
    preferences: PreferencesState,
    expiry: Expiry,
    attention: Option<Attention>,
    encoder: JobEncoder,
    graphics: GraphicsLine,
    sound: SoundState,
    start: Instant,
}

// tokio deprecated it because some types report a wrong descriptor; an OwnedFd cannot, and the
// successor is unsafe to call.
#[expect(deprecated)]
fn watch(fd: io::Result<OwnedFd>, interest: Interest) -> Result<AsyncFd<OwnedFd>, SessionError> {
    // A duplicate of the descriptor: the ring keeps its own, and both refer to the same open file.
    fd.and_then(|fd| AsyncFd::with_interest(fd, interest))
        .map_err(|error| SessionError::System("watch the driver", error))
}

impl Actor {
    pub(crate) fn new(
        config: &SessionConfig,
        attachment: Attachment,
        keyboard: KeyboardHandle,
        sharing: Arc<Sharing>,
        events: Events,
    ) -> Result<Actor, SessionError> {
        let mut driver = Driver::new(attachment, config.offscreen)?;
        let size = driver.size();
        let mut core = Session::new(Config {
            name: config.title.as_ref().unwrap_or(&config.name).clone(),
            size,
            scheduling: if config.fifo { Scheduling::Fifo } else { Scheduling::ShortestFirst },
            offscreen: config.offscreen,
            lossy: if config.lossless { LossyPolicy::Never } else { LossyPolicy::Auto },
            video: config.video.policy(config.lossless),
            max_rate: config.max_rate,
        });
        let clipboard = clipboard::start(
            &config.clipboard,
            &config.files,
            &config.display,
            &mut core,
            events.clone(),
        );
        let files = crate::files::start(config, &mut core, events.clone());
        let start = Instant::now();
        let (socket, microphone) = (config.desk_socket.as_deref(), config.microphone);
        let sound = SoundState::start(socket, microphone, &mut core, start, &events);
        let graphics = GraphicsLine::new(config.graphics.clone(), &mut core);
        core.handle_attach(size);
        core.handle_leds(driver.leds());
        let mut encoder = JobEncoder::new(config, events.clone());
        if let Some(path) = &config.trace {
            match Recorder::to_file(path, since(start)) {
                Ok(recorder) => driver.start_recording(recorder),
                Err(error) => warn!("cannot write the trace {}: {error}", path.display()),
            }
        }
        driver.handle_cursor(&mut core, encoder.encoder());
        driver.handle_gamma(&mut core);
        Ok(Actor {
            core,
            driver,
            requests: Requests::new(keyboard),
            scale: DesktopScale::new(xsettings::start(&config.display)),
            clipboard,
            files,
            connections: Connections::new(),
            caches: Caches::default(),
            departed: DepartedViewers::default(),
            people: PeopleState::new(sharing),
            notices: NoticeState::default(),
            opening: OpeningState::new(config.opening),
            preferences: PreferencesState::new(Keeper::start(events)),
            expiry: Expiry::new(config.end_idle, config.end_disconnected, 0),
            attention: config.priority.then(|| Attention::start(&config.display)),
            encoder,
            graphics,
            sound,
            start,
        })
    }

    fn now(&self) -> Micros {
        since(self.start)
    }

    /// Runs until the process is asked to end (`Ok`) or the driver is gone.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Event>,
    ) -> Result<(), SessionError> {
        let mut term = signal(SignalKind::terminate())
            .map_err(|error| SessionError::System("wait for signals", error))?;
        if let Err(error) = self.run_until_terminated(&mut inbox, &mut term).await {
            if let SessionError::Unused(why) = &error {
                self.close_all(&mut inbox, &format!("the session ended: {why}")).await;
                return Err(error);
            }
            // If the X server died, the session ends with it, and the supervisor sends SIGTERM
            // shortly: viewers must be told, or they would try to reconnect without limit.
            // Otherwise the supervisor starts another process, which attaches to the driver.
            let session_ends = matches!(error, SessionError::Driver(_))
                && timeout(TERMINATION_TIMEOUT, term.recv()).await.is_ok();
            if !session_ends {
                return Err(error);
            }
            warn!("{error}");
        }
        self.close_all(&mut inbox, "the session ended").await;
        Ok(())
    }

    async fn run_until_terminated(
        &mut self,
        inbox: &mut mpsc::Receiver<Event>,
        term: &mut Signal,
    ) -> Result<(), SessionError> {
        // Reset only if it would fire too late: time-outs of seconds change with every update and
        // every acknowledgement, and setting a timer costs as much as sending.
        let mut watchdog = pin!(sleep_until(self.start.into()));
        let mut watchdog_at: Option<Instant> = None;
        loop {
            for _ in 0..EVENTS_PER_TURN {
                let Ok(event) = inbox.try_recv() else { break };
                self.handle_event(event);
            }
            let encoder = self.encoder.encoder();
            let behind = self.driver.drain_ring(&mut self.core, encoder, self.start)?;
            self.driver.drain_readable(behind)?;
            self.execute_requests()?;
            self.admit_waiting();
            let now = self.now();
            self.clipboard.execute_requests(&mut self.core, now);
            self.serve_files();
            self.tell_people();
            let more = self.serve_viewers();
            self.driver.set_frame_rate(self.core.frame_rate());
            if self.core.wants_full_colour() {
                self.encoder.try_full_colour(now);
            }
            // The reason of what it closes is sent in the next turn, and not at the next event.
            let more = self.enforce_time_outs() || more;
            if let Some(attention) = &mut self.attention {
                attention.handle_time(now);
            }
            if let Some(why) = self.unused() {
                return Err(SessionError::Unused(why));
            }
            if behind || more || !inbox.is_empty() || !self.driver.prepare_sleep() {
                // Lets the other tasks of this thread run: they bring the input and send the
                // frames.
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
                ready = self.driver.wakeups().records() => {
                    ready.map_err(SessionError::Driver)?;
                    self.driver.clear_wake();
                }
                ready = self.driver.wakeups().messages() => {
                    ready.map_err(SessionError::Driver)?;
                    self.driver.set_readable();
                }
                ready = self.requests.writable() => {
                    ready.map_err(SessionError::Driver)?;
                    self.requests.unblock_socket();
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

    /// The next moments at which work is due without an event: session-core's deadline, and the
    /// earliest time-out.
    fn deadlines(&self) -> (Option<Instant>, Option<Instant>) {
        let now = self.now();
        let least = Duration::from_micros(now) + DEADLINE_RETRY;
        let instant = |at: Micros| self.start + Duration::from_micros(at).max(least);
        let connections = self.connections.values().filter_map(ViewerConnection::deadline);
        (
            self.core.poll_deadline(now).map(instant),
            connections
                .chain(self.requests.deadline())
                .chain(self.clipboard.deadline())
                .chain(self.people.deadline())
                .chain(self.expiry.deadline())
                .chain(self.attention.as_ref().and_then(Attention::deadline))
                .chain(self.files_deadline())
                .min()
                .map(instant),
        )
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Opened(opened) => self.handle_opened(opened),
            Event::Bytes(id, bytes) => {
                self.handle_bytes(id, &bytes);
                self.update_listening();
            }
            Event::Datagram(id, bytes) => self.handle_datagram(id, &bytes),
            Event::ChunkSent(id, chunk) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.handle_chunk_sent(chunk);
                }
            }
            Event::Closed(id, reason) => {
                self.handle_closed(id, &reason);
                self.update_listening();
            }
            Event::Encoded(encoded) => self.handle_encoded(encoded),
            Event::GuestsChanged(done) => {
                let _ = self.check_guests();
                let _ = done.send(());
            }
            Event::ShareAnswered(id, answer) => self.handle_share_answered(id, answer),
            Event::ListViewers(answer) => drop(answer.send(self.viewer_statuses())),
            Event::Thumbnail(answer) => drop(answer.send(self.thumbnail())),
            Event::Renamed(title) => self.core.rename(&title),
            Event::Graphics(line) => self.graphics.set_drawing(line, &mut self.core),
            Event::VideoEncoder(codec, name) => {
                self.graphics.set_encoding(codec, name, &mut self.core);
            }
            Event::PreferencesChanged => self.handle_preferences_changed(),
            Event::PreferencesRead(reading) => self.handle_preferences_read(reading),
            Event::Figures(answer) => drop(answer.send(self.figures())),
            Event::Notice(text, done) => drop(done.send(self.handle_notice(text))),
            Event::Files(event) => self.handle_files(event),
            Event::Trace(stream) => {
                let now = self.now();
                self.driver.start_trace(stream, now);
            }
            Event::Sound(frame) => {
                let now = self.now();
                if let Some(attention) = &mut self.attention {
                    attention.handle_sound(now);
                }
                self.handle_sound(&frame);
            }
            Event::Recorded(is_recorded) => self.handle_recorded(is_recorded),
            Event::Players(players) => self.core.handle_players(players),
            Event::Selection(event) => {
                let now = self.now();
                self.clipboard.handle(event, &mut self.core, now);
            }
            Event::Keymap(keymap) => self.core.handle_keymap(keymap),
            Event::KeyboardChanged => self.requests.handle_keyboard_changed(),
        }
    }

    fn handle_opened(&mut self, opened: Opened) {
        let id = opened.id;
        info!(connection = id.0, "{}: connected", opened.label);
        self.handle_reading_of_connection(opened.reading.clone());
        let now = self.now();
        if let Some(attention) = &mut self.attention {
            attention.handle_person(now);
        }
        let connection = ViewerConnection::new(opened, self.encoder.renderer(), now);
        let full = self.connections.len() >= VIEWERS_MAX;
        self.connections.insert(id, connection);
        if full {
            self.close(
                id,
                CloseCode::Protocol,
                &format!("the session has {VIEWERS_MAX} viewers already, which is the limit"),
            );
        }
    }

    /// Starts to serve viewers once the owners of the session's selections are known.
    fn admit_waiting(&mut self) {
        let now = self.now();
        if self.clipboard.ends_wait(now) {
            self.connections.ids().into_iter().for_each(|id| self.handle_bytes(id, &[]));
        }
    }

    fn handle_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.open_mut(id) else { return };
        if let Some(viewer) = connection.viewer {
            connection.update_path(&mut self.core, viewer);
        }
        let new_bytes = connection.upstream.from_stream(bytes);
        self.handle_stream(id, new_bytes);
    }

    /// Handles the next bytes of a viewer's stream, which arrived on the stream or as a datagram.
    fn handle_stream(&mut self, id: ConnectionId, bytes: &[u8]) {
        let now = self.now();
        let is_new = self.connections.open(id).is_some_and(|open| open.viewer.is_none());
        let Some(rights) = (if is_new { self.rights_of(id) } else { Some(Rights::ALL) }) else {
            return;
        };
        let Some(mut connection) = self.connections.open_mut(id) else { return };
        connection.frames.push(bytes);
        if self.clipboard.is_awaited() {
            return;
        }
        let end = loop {
            let message = match connection.frames.next() {
                Ok(None) => return,
                Ok(Some(frame)) => ViewerMessage::decode(&frame),
                Err(error) => Err(error),
            };
            let message = match message {
                Ok(message) => message,
                Err(error) => break (CloseCode::Protocol, error.to_string()),
            };
            let Some(viewer) = connection.viewer else {
                match message {
                    ViewerMessage::Hello(hello) if hello.version == 0 => {
                        break (
                            CloseCode::Version,
                            format!(
                                "protocol version 0 is invalid; this session speaks version \
                                    {VERSION}"
                            ),
                        );
                    }
                    ViewerMessage::Hello(_) if !self.core.has_room() => {
                        break (
                            CloseCode::Protocol,
                            "the session's screen is too large for another viewer".to_owned(),
                        );
                    }
                    ViewerMessage::Hello(hello) => {
                        let opening = self.opening_of(id, hello.caps);
                        if opening == Some(Opening::Ask) && self.is_shown_elsewhere(id) {
                            break (CloseCode::Elsewhere, opening::ELSEWHERE.to_owned());
                        }
                        if opening == Some(Opening::TakeOver) {
                            self.take_over(id);
                        }
                        let Some(again) = self.connections.get_mut(id) else { return };
                        connection = again;
                        connection.opens = opening.is_some();
                        info!(
                            connection = id.0,
                            "{}: {}, window {} × {}",
                            connection.label,
                            hello.name,
                            hello.size.width,
                            hello.size.height
                        );
                        let viewer =
                            *connection.viewer.insert(self.core.add_guest(&hello, rights, now));
                        if hello.caps & ViewerCaps::DATAGRAMS != 0
                            && connection.packer.has_datagrams()
                        {
                            self.core.set_delivery_order(viewer, DeliveryOrder::Mixed);
                            if hello.caps & ViewerCaps::PARITY != 0 {
                                connection.packer.enable_parity();
                            }
                        }
                        self.people.set_changed();
                        if connection.guest.is_none() {
                            self.notices.tell(&mut self.core, viewer);
                        }
                        connection.takes_video = hello.caps & ViewerCaps::VIDEO != 0;
                        if connection.takes_video && self.encoder.sends_videos() {
                            self.driver.set_want_video(true);
                        }
                        self.apply_preferences_to(id, viewer);
                        let Some(again) = self.connections.get_mut(id) else { return };
                        connection = again;
                        continue;
                    }
                    _ => {
                        break (CloseCode::Protocol, "the first message must be Hello".to_owned());
                    }
                }
            };
            let message = match message {
                ViewerMessage::KeyboardLayout(reported) if connection.guest.is_none() => {
                    let layout = self.preferences.layout_for(&reported);
                    connection.reported_layout = Some(reported);
                    ViewerMessage::KeyboardLayout(layout)
                }
                other => other,
            };
            match &message {
                // The viewer does not know what it shows, and so this process does not either.
                ViewerMessage::Resync => {
                    connection.renderer.invalidate();
                    self.caches.invalidate(id);
                }
                ViewerMessage::Cache(offer) => match self.caches.offer(id, offer, now, random) {
                    Ok(grant) => {
                        grant.into_iter().for_each(|grant| self.core.grant_cache(viewer, grant))
                    }
                    Err(wrong) => break (CloseCode::Protocol, wrong.to_owned()),
                },
                ViewerMessage::Close(reason) => {
                    let label = &connection.label;
                    info!(connection = id.0, "{label}: closed by the viewer: {reason}");
                }
                ViewerMessage::Instance(_) if connection.instance.is_some() => {
                    break (CloseCode::Protocol, "a second instance number".to_owned());
                }
                ViewerMessage::Instance(number) => {
                    self.close_older_connections(id, *number);
                    if self.refuse_taken_over(id, *number) {
                        return;
                    }
                    // What follows, the cache offer first, is handled after that.
                    return self.handle_stream(id, &[]);
                }
                _ => {}
            }
            if let Err(violation) = self.core.handle_message(viewer, &message, now) {
                break (CloseCode::Protocol, violation.to_string());
            }
            let message = match message {
                ViewerMessage::Microphone(packet) => {
                    if let Err(violation) = self.handle_microphone(viewer, &packet) {
                        break (CloseCode::Protocol, violation.to_string());
                    }
                    let Some(again) = self.connections.get_mut(id) else { return };
                    connection = again;
                    continue;
                }
                ViewerMessage::Input(input) => {
                    self.people.handle_input(&mut self.core, viewer, input.event);
                    self.expiry.handle_input(now);
                    if let Some(attention) = &mut self.attention {
                        attention.handle_input(&input.event, now);
                    }
                    continue;
                }
                ViewerMessage::ClipPolicy(directions) => {
                    self.handle_clip_policy(id, directions);
                    let Some(again) = self.connections.get_mut(id) else { return };
                    connection = again;
                    continue;
                }
                ViewerMessage::Share(share) => {
                    self.handle_share(id, viewer, share);
                    let Some(again) = self.connections.get_mut(id) else { return };
                    connection = again;
                    continue;
                }
                other => other,
            };
            let applied = match message {
                ViewerMessage::Ack(ack) if ack.update > 0 => Some(ack.update),
                ViewerMessage::Arrived(_) => Some(self.core.acked_in_order(viewer)),
                _ => None,
            };
            if let Some(update) = applied {
                self.caches.acked(id, viewer, update, &mut self.core);
                let more = self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0);
                connection.handle_acknowledged(more, now);
            }
        };
        let (code, reason) = end;
        self.close(id, code, &reason);
    }

    /// Serves each viewer once, starting where the last turn stopped: a fast viewer's jobs must not
    /// delay the others, nor input. True if there may be more to do at once.
    fn serve_viewers(&mut self) -> bool {
        let started = Instant::now();
        let mut more = false;
        for id in self.connections.turn() {
            if started.elapsed() >= SERVE_TIME_PER_TURN {
                self.connections.stop_turn(id);
                return true;
            }
            more |= self.serve(id);
        }
        more
    }

    /// Commits, reads, plans and encodes one job of a viewer, and sends its frames. True if another
    /// job may follow.
    fn serve(&mut self, id: ConnectionId) -> bool {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let Some(viewer) = connection.viewer else { return false };
        connection.update_path(&mut self.core, viewer);
        let mut more = false;
        if let Some(job) = self.core.poll_job(viewer, now) {
            let cache = self.caches.get(id, viewer, &mut self.core);
            let screen = self.driver.screen();
            self.encoder.run(&mut self.core, &mut connection.renderer, job, screen, cache, now);
            more = true;
        }
        // Also while a chunk is being sent: it overtakes the stream.
        self.core.poll_sound(viewer, now, &mut connection.packer);
        // One chunk at a time is being sent: everything else waits in session-core, where newer
        // updates can still replace it.
        let (Some(outgoing), Some(mut chunk)) = (&connection.outgoing, connection.chunk.take())
        else {
            return more;
        };
        connection.packer.set_entropy(self.core.entropy(viewer));
        let has_output = self.core.poll_transmit(viewer, now, &mut connection.packer, &mut chunk);
        let took = connection.packer.take_pack_time().as_micros() as Micros;
        if took > 0 {
            self.core.handle_pack_time(viewer, took);
        }
        if has_output && chunk.is_empty() {
            // All of it was sent as datagrams, and there may be more.
            connection.chunk = Some(chunk);
            connection.unacknowledged.get_or_insert(now);
            more = true;
        } else if has_output {
            connection.chunk_bytes = chunk.len() as u64;
            connection.packer.written(&chunk);
            // The channel has one place, which is free: the last chunk was sent.
            let _ = outgoing.try_send(chunk);
            if connection.unacknowledged.is_none()
                && self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0)
            {
                connection.unacknowledged = Some(now);
            }
        } else {
            connection.chunk = Some(chunk);
            if !self.core.has_unsent(viewer) {
                let path = connection.path.as_ref().and_then(Path::info);
                connection.packer.protect_tail(path);
            }
        }
        if self.core.is_closed(viewer) {
            // The connection ends once the last chunk was sent.
            connection.outgoing = None;
        }
        more
    }

    fn handle_encoded(&mut self, encoded: Encoded) {
        let job = encoded.job.clone();
        match self.connections.of_viewer(job.viewer) {
            Some(connection) => connection.renderer.handle_encoded(&mut self.core, encoded),
            None => drop(encoded),
        }
        self.encoder.take_back(job);
    }
}

/// Unpredictable bytes.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes");
}

/// The time since the session process began, which session-core counts in.
fn since(start: Instant) -> Micros {
    start.elapsed().as_micros() as Micros
}

fn size_of(framebuffer: &Framebuffer) -> Size {
    let (width, height) = framebuffer.size();
    Size { width, height }
}

/// Never returns without a moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
