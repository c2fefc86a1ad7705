//! Path 4/13 to 10/13, and path back: the object that a shell drives: events are handled by
//! `handle_*`, results are taken by `poll_*`.
//! Distributes the screen's drawings to the viewers' queues and the viewers' requests to the
//! driver. Knows all viewers and the order of the records; never pixels, sockets or clocks.
//!
//! The shell's loop: drain the ring into [`Session::handle_record`]; carry out
//! [`Session::poll_request`]; for each viewer, while [`Session::poll_job`] returns a job: pass it
//! to [`Session::render`], encode the plan, [`Session::complete`]; write what
//! [`Session::poll_transmit`] returns; wait for an event or for [`Session::poll_deadline`].

mod clipboard;
mod delivery;
mod displays;
mod files;
mod frame_rate;
mod input;
mod jobs;
mod max_rate;
mod microphone;
mod people;
mod requests;
mod rights;
mod screen;
mod sound;
mod viewers;

use thinc_clipboard::ClipboardPolicy;
use thinc_files::FilesPolicy;
use thinc_protocol::Micros;
use thinc_protocol::clip::ClipMessage;
use thinc_protocol::file::FileMessage;
use thinc_protocol::gamma::GammaArea;
use thinc_protocol::limits::SCREEN_AREA_MAX;
use thinc_protocol::session::{CacheGrant, CloseCode, CursorColors};
use thinc_protocol::viewer::{KeyboardLayout, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, InputMessage, PointerUse, RecordKind};

use crate::clipboard::ClipboardHub;
use crate::delivery::flow::PathStats;
use crate::delivery::job_outcomes::JobOutcome;
use crate::delivery::ledger::{Job, JobId};
use crate::delivery::packer::Packer;
use crate::figures::Figures;
use crate::input::keyboard::{Binding, Keymap};
use crate::input::pointer::{CursorImageOwned, Pointer};
use crate::input::tracker::InputTracker;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::quality::{Entropy, LossyPolicy, VideoPolicy};
use crate::queue::command_queue::Echo;
use crate::queue::scheduler::Scheduling;
use crate::rights::Rights;
use crate::screen::displays::Arrangement;
use crate::screen::gamma::ScreenGamma;
use crate::screen::view::Transform;
use crate::viewer::{SessionContext, Viewer, ViewerId, ViewerStats, Violation};

pub(crate) use jobs::Rendered;
pub use jobs::{Capture, EncodeTime, JobResult, NoPixels, Plan, PlannedJob, Render, Unavailable};

use displays::Outputs;
use frame_rate::FrameRecords;
use max_rate::MaxRate;
use requests::Requests;
use screen::{Audience, Screen};
use sound::SessionSound;
use viewers::Viewers;

/// Shorter chunks of a clipboard's content or of a file count as messages.
const CHUNK_BYTES_MIN: usize = 1024;
/// Pixels that the viewers of a session show together: for each, the session process keeps what it
/// shows, 768 MiB in all. 16 viewers of 4096 x 3072, and three of the largest screen.
const PICTURES_AREA_MAX: u64 = 3 * SCREEN_AREA_MAX;

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// The session's name, as viewers see it.
    pub name: String,
    /// Size of the screen until the driver is attached.
    pub size: Size,
    /// The order in which pixels are sent.
    pub scheduling: Scheduling,
    /// Follow drawings into pixmaps (THINC §2.4). Otherwise a copy from a pixmap is new pixels.
    pub offscreen: bool,
    /// Whether photographs may be sent lossy and refreshed once they are idle.
    pub lossy: LossyPolicy,
    /// Whether videos are sent as streams.
    pub video: VideoPolicy,
    /// Bytes a second that all viewers together are sent at most, headers included; None: as many
    /// as their paths carry.
    pub max_rate: Option<u64>,
}

impl Config {
    /// The default configuration of a session with this name.
    pub fn new(name: &str, size: Size) -> Config {
        Config {
            name: name.to_owned(),
            size,
            scheduling: Scheduling::ShortestFirst,
            offscreen: true,
            lossy: LossyPolicy::Auto,
            video: VideoPolicy::Auto,
            max_rate: None,
        }
    }
}

/// What the shell shall do at the driver or the X server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send this message on the input socket.
    Input(InputMessage),
    /// Bind keysyms to spare keycodes before the next request.
    Bind {
        /// 1 for the first such request, 2 for the next.
        number: u64,
        /// The keysyms.
        bindings: Vec<Binding>,
    },
    /// Set the layout of the X keyboard to a viewer's, or (None) back to the session's own, and, if
    /// that succeeded, call `handle_keymap` before the next request.
    SetLayout(Option<KeyboardLayout>),
    /// Lock or unlock the lock keys of the X keyboard before the next request.
    SetLocks {
        /// Caps Lock is on.
        caps: bool,
        /// Num Lock is on.
        num: bool,
    },
    /// Give the screen these outputs, and tell the desktop its scale.
    Resize(Arrangement),
    /// Send the driver a barrier with this number; its record arrives through `handle_record`.
    Barrier(u32),
}

/// One session: a screen and its viewers.
#[derive(Debug)]
pub struct Session {
    config: Config,
    /// What draws 3D programs, for people.
    graphics: Option<String>,
    /// A GPU encodes videos with chroma of full resolution.
    encodes_full_colour: bool,
    screen: Screen,
    viewers: Viewers,
    pointer: Pointer,
    gamma: ScreenGamma,
    input_tracker: InputTracker,
    clipboard: ClipboardHub,
    files: FilesPolicy,
    requests: Requests,
    outputs: Outputs,
    /// The newest time that a call named, for calls that name none.
    now: Micros,
    sound: SessionSound,
    max_rate: Option<MaxRate>,
    frame_records: FrameRecords,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

/// A chunk of a clipboard's content or of a file: how many of them come is limited by the content
/// and by what was confirmed.
fn is_chunk(message: &ViewerMessage) -> bool {
    matches!(message, ViewerMessage::Clip(ClipMessage::Data { bytes, .. })
        | ViewerMessage::File(FileMessage::Data { bytes, .. })
        if bytes.len() >= CHUNK_BYTES_MIN)
}

impl Session {
    /// A session that breaks one rule of the core.
    #[cfg(feature = "mutations")]
    pub fn with_mutation(config: Config, mutation: Option<Mutation>) -> Session {
        let mut session = Session::new(config);
        session.mutation = mutation;
        session.screen.set_mutation(mutation);
        session
    }

    /// A session whose driver is not attached yet.
    pub fn new(config: Config) -> Session {
        Session {
            graphics: None,
            encodes_full_colour: false,
            screen: Screen::new(config.size, config.offscreen),
            outputs: Outputs::new(config.size),
            max_rate: config.max_rate.map(MaxRate::new),
            config,
            viewers: Viewers::new(),
            pointer: Pointer { shown: true, ..Pointer::default() },
            gamma: ScreenGamma::default(),
            input_tracker: InputTracker::default(),
            clipboard: ClipboardHub::new(ClipboardPolicy::OFF),
            files: FilesPolicy::OFF,
            requests: Requests::default(),
            now: 0,
            sound: SessionSound::default(),
            frame_records: FrameRecords::default(),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// Size of the screen.
    pub fn size(&self) -> Size {
        self.screen.size
    }

    /// The epoch of a viewer's view; jobs of other epochs are stale. 0 if there is no such viewer.
    pub fn epoch(&self, id: ViewerId) -> u32 {
        self.viewer(id).map_or(0, |viewer| viewer.pending.epoch())
    }

    /// The transform from the screen to a viewer's view; None if the view is the screen.
    pub fn view(&self, id: ViewerId) -> Option<Transform> {
        self.viewer(id)?.pending.transform().copied()
    }

    /// The viewers, oldest first.
    pub fn viewers(&self) -> impl Iterator<Item = ViewerId> {
        self.viewers.iter().map(|viewer| viewer.id)
    }

    // ---- the front end

    /// A driver has attached with a new ring: the session knows nothing of its earlier records.
    pub fn handle_attach(&mut self, size: Size) {
        self.screen.sleeps();
        self.outputs = Outputs::new(size);
        self.handle_geometry(size);
        // The driver that received these barriers is gone.
        let barriers: Vec<u32> = self.viewers.iter().flat_map(Viewer::barriers_requested).collect();
        self.requests.begin_again(&barriers);
    }

    /// The screen has this size now, in a new framebuffer that the shell reads from here on.
    pub fn handle_geometry(&mut self, size: Size) {
        self.screen.reset(size);
        self.outputs_of_size(size);
        for viewer in self.viewers.iter_mut() {
            viewer.reset(size, self.now);
        }
    }

    /// Takes one record of the ring. For `Overflow`, `Geometry`, `Gamma` and `Cursor` records the
    /// shell makes their own calls as well.
    pub fn handle_record(&mut self, record: &DrawRecord, now: Micros) {
        self.now = self.now.max(now);
        let (screen, mut to) = self.screen();
        screen.handle(record, &mut to);
        self.count_frame(record, now);
        match record.kind {
            RecordKind::Idle => self.screen.sleeps(),
            RecordKind::VideoStopped { port } => {
                self.flush_drawings();
                self.screen.port_stopped(port);
                for viewer in self.viewers.iter_mut() {
                    viewer.pending.video_stopped(port);
                }
            }
            RecordKind::Barrier { id } => {
                self.flush_drawings();
                for viewer in self.viewers.iter_mut() {
                    viewer.driver_barrier(id);
                }
            }
            RecordKind::InputDelivered { seq, window } => self.input_delivered(seq, window),
            RecordKind::Draw { .. }
            | RecordKind::Copy { .. }
            | RecordKind::PixmapCreate { .. }
            | RecordKind::PixmapDestroy { .. }
            | RecordKind::Cursor
            | RecordKind::Geometry { .. }
            | RecordKind::Gamma
            | RecordKind::Yield
            | RecordKind::Overflow => {}
        }
    }

    /// At an `Overflow` record: the part of the screen that changed while no records were written.
    pub fn handle_overflow(&mut self, dirty: &Region) {
        let (screen, mut to) = self.screen();
        screen.overflow(dirty, &mut to);
    }

    /// The cursor has a new image; size 0 × 0 hides it.
    pub fn handle_cursor(&mut self, image: CursorImageOwned) {
        self.pointer.image = Some(image);
        self.viewers.iter_mut().for_each(|viewer| viewer.cursor_changes().image = true);
    }

    /// The colours of the cursor's two-colour image. Called before `handle_cursor` if both change.
    pub fn handle_cursor_colors(&mut self, colors: CursorColors) {
        if self.pointer.colors != colors {
            self.pointer.colors = colors;
            self.viewers.iter_mut().for_each(|viewer| viewer.cursor_changes().colors = true);
        }
    }

    /// An application moved the pointer.
    pub fn handle_cursor_move(&mut self, x: u16, y: u16) {
        self.pointer.relative.handle_warp(self.now);
        self.tell_position(x, y);
    }

    /// What X clients do with the pointer, which is at this position. Called after
    /// `handle_cursor_move` if both change.
    pub fn handle_pointer_use(&mut self, used: PointerUse, x: u16, y: u16) {
        let was_wanted = self.pointer.relative.is_wanted();
        self.pointer.relative.handle_use(used);
        if was_wanted && !self.pointer.relative.is_wanted() && self.pointer.moved_by_distance {
            // From here on positions count, and viewers begin with this one.
            self.tell_position(x, y);
        }
    }

    fn tell_position(&mut self, x: u16, y: u16) {
        self.pointer.at = Some((x, y));
        self.pointer.moved_by_distance = false;
        self.input_tracker.set_pointer(i32::from(x), i32::from(y));
        for viewer in self.viewers.iter_mut() {
            viewer.input.pointer_at = Some((x, y));
            viewer.cursor_changes().at = true;
        }
    }

    /// The monitors' colours are shown by these tables, one for each monitor, or none if no monitor
    /// changes a colour: at the start, and after each change.
    pub fn handle_gamma(&mut self, monitors: Vec<GammaArea>) {
        self.gamma.set(monitors);
    }

    /// The cursor is shown or hidden.
    pub fn handle_cursor_show(&mut self, shown: bool) {
        if self.pointer.shown != shown {
            self.pointer.shown = shown;
            self.viewers.iter_mut().for_each(|viewer| viewer.cursor_changes().show = true);
        }
    }

    /// The X server's keymap, at the start and after each change.
    pub fn handle_keymap(&mut self, keymap: Keymap) {
        self.requests.keyboard.set_keymap(keymap);
    }

    /// The lock keys as X's keyboard shows them (`leds` of the geometry block).
    pub fn handle_leds(&mut self, leds: u32) {
        self.requests.keyboard.set_leds(leds);
    }

    /// The screen, and who is told what happens on it.
    fn screen(&mut self) -> (&mut Screen, Audience<'_>) {
        let Session { screen, viewers, input_tracker, now, .. } = self;
        (screen, Audience { viewers: viewers.all_mut(), tracker: input_tracker, now: *now })
    }

    /// Gives what was drawn to every queue.
    fn flush_drawings(&mut self) {
        let (screen, mut to) = self.screen();
        screen.flush(&mut to);
    }

    fn input_delivered(&mut self, seq: u32, window: u32) {
        // What was drawn before the delivery is no response to it.
        self.flush_drawings();
        if window != 0 {
            self.input_tracker.input_delivered(window, self.now);
        }
        let Some(input) = self.requests.delivered(seq) else { return };
        let echo = Echo { seq: input.viewer_seq, window, delivered: self.now };
        if let Some(viewer) = self.viewer_mut(input.viewer) {
            viewer.pending.await_echo(echo);
        }
    }

    // ---- viewers

    fn viewer(&self, id: ViewerId) -> Option<&Viewer> {
        self.viewers.get(id)
    }

    fn viewer_mut(&mut self, id: ViewerId) -> Option<&mut Viewer> {
        self.viewers.get_mut(id)
    }

    /// Calls `work` with the viewers and the part of the session that each may know.
    fn with_context<T>(&mut self, work: impl FnOnce(&mut [Viewer], &SessionContext<'_>) -> T) -> T {
        let screen = SessionContext {
            name: &self.config.name,
            graphics: self.graphics.as_deref(),
            encodes_full_colour: self.encodes_full_colour,
            size: self.screen.size,
            idle: self.screen.is_idle(),
            pointer: &self.pointer,
            gamma: &self.gamma,
            drawables: self.screen.drawables(),
            right_eyes: self.screen.right_eyes(),
            scheduling: self.config.scheduling,
            lossy: self.config.lossy,
            video: self.config.video,
            has_sound: self.sound.is_on,
            wants_microphones: self.sound.microphone.is_on,
            encode_work: self.viewers.encode_work(),
            clipboard: self.clipboard.policy,
            files: self.files,
            #[cfg(feature = "mutations")]
            mutation: self.mutation,
        };
        work(self.viewers.all_mut(), &screen)
    }

    /// Calls `work` with a viewer and the part of the session that it may know.
    fn with_viewer<T>(
        &mut self,
        id: ViewerId,
        work: impl FnOnce(&mut Viewer, &SessionContext<'_>) -> T,
    ) -> Option<T> {
        self.with_context(|viewers, screen| {
            viewers.iter_mut().find(|viewer| viewer.id == id).map(|viewer| work(viewer, screen))
        })
    }

    /// An authenticated viewer. It is sent the whole screen, and the newest viewer that can resize
    /// controls the size.
    pub fn add_viewer(&mut self, hello: &ViewerHello, now: Micros) -> ViewerId {
        self.add_guest(hello, Rights::ALL, now)
    }

    /// The same for a viewer that may not do everything. Whatever it sends beyond its rights is
    /// ignored.
    pub fn add_guest(&mut self, hello: &ViewerHello, rights: Rights, now: Micros) -> ViewerId {
        self.now = self.now.max(now);
        self.flush_drawings();
        let id = self.viewers.next_id();
        let mut viewer = self.with_context(|_, screen| Viewer::new(id, hello, screen, rights, now));
        self.clipboard.add_viewer(&mut viewer.channels.clipboard);
        let resizes = viewer.wish.may_control(&rights);
        self.viewers.push(viewer);
        self.limit_rate(id);
        if resizes {
            self.request_size();
        }
        id
    }

    /// False if another viewer of this screen would need too much memory.
    pub fn has_room(&self) -> bool {
        self.pictures_fit(self.viewers.len() + 1, self.screen.size)
    }

    fn pictures_fit(&self, viewers: usize, size: Size) -> bool {
        viewers as u64 * size.area() <= PICTURES_AREA_MAX
    }

    /// The viewer's connection ended: its keys and buttons are released.
    pub fn remove_viewer(&mut self, id: ViewerId) {
        let Some(at) = self.viewers.position(id) else { return };
        self.release_all(at);
        let controlled = self.controller() == Some(id);
        let barriers: Vec<u32> = self.viewers[at].barriers_requested().collect();
        self.requests.drop_barriers(&barriers);
        self.requests.push_forget_keyboard(id);
        self.viewers.remove(at);
        self.forget_rate(id);
        self.clipboard.remove_viewer(id, self.viewers.all_mut(), self.now);
        self.requests.forget_viewer(id);
        self.update_microphone();
        if controlled {
            self.request_size();
        }
    }

    /// Ends a viewer's connection with a reason. `is_closed` is true once that was sent.
    pub fn close_viewer(&mut self, id: ViewerId, code: CloseCode, reason: &str) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.close(code, reason);
        }
    }

    /// Answers the cache that a viewer offered, before the next update. From now on the outcomes of
    /// its jobs are reported.
    pub fn grant_cache(&mut self, id: ViewerId, grant: CacheGrant) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.grant_cache(grant);
        }
    }

    /// The shell has identified the viewer; `received` is the newest input that earlier connections
    /// received, None if there were none. A viewer that asked for it is told. Until then only the
    /// hello is sent.
    pub fn set_input_received(&mut self, id: ViewerId, received: Option<u32>) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.set_input_received(received);
        }
    }

    /// The newest input received from this viewer; 0 for none.
    pub fn input_received(&self, id: ViewerId) -> u32 {
        self.viewer(id).map_or(0, Viewer::input_received)
    }

    /// The outcomes of the viewer's jobs, in the order in which they became known. Only for viewers
    /// with a granted cache whose updates arrive in order. To be polled until None after each
    /// acknowledgement and before each job is planned.
    pub fn poll_outcome(&mut self, id: ViewerId) -> Option<(JobId, JobOutcome)> {
        self.viewer_mut(id)?.delivery.ledger.outcomes.poll()
    }

    /// True once the viewer's last message was given to the transport.
    pub fn is_closed(&self, id: ViewerId) -> bool {
        self.viewer(id).is_none_or(Viewer::is_closed)
    }

    /// Takes a message of a viewer. A violation ends that viewer's connection and nothing else.
    pub fn handle_message(
        &mut self,
        id: ViewerId,
        message: &ViewerMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        self.now = self.now.max(now);
        let Some(at) = self.viewers.position(id) else {
            return Err(Violation::Unknown(id.0));
        };
        self.viewers[at].input.heard_at = self.now;
        if !is_chunk(message) {
            self.viewers[at].count_message(self.now)?;
        }
        self.confirm_held_keys(at);
        self.update_microphone();
        self.remember_keyboard(at, message);
        match message {
            // It is received all the same, so that the viewer does not repeat it.
            ViewerMessage::Input(input) if self.is_forbidden(at, message) => {
                self.viewers[at].count_input(now)?;
                self.viewers[at].take_input(input.seq);
                Ok(())
            }
            _ if self.is_forbidden(at, message) => Ok(()),
            ViewerMessage::Hello(_) | ViewerMessage::Early(_) => Err(Violation::OutOfPlace),
            ViewerMessage::Ack(ack) => self.viewers[at].acked(ack.update, ack.presented, now),
            ViewerMessage::Arrived(arrived) => {
                self.flush_drawings();
                self.viewers[at].arrived(arrived, false, now)
            }
            ViewerMessage::Input(input) => {
                self.handle_input(at, *input, now)?;
                self.viewers[at].take_input(input.seq);
                Ok(())
            }
            ViewerMessage::Ping(number) => {
                self.viewers[at].pong(*number);
                Ok(())
            }
            ViewerMessage::Resize(size) => {
                self.handle_displays(at, Arrangement::one(*size), false);
                Ok(())
            }
            ViewerMessage::Barrier(number) => {
                self.viewers[at].barrier(*number, self.requests.next_barrier())?;
                self.requests.push_barrier();
                Ok(())
            }
            ViewerMessage::Resync => {
                self.viewers[at].request_resync();
                Ok(())
            }
            ViewerMessage::PictureQuality(quality) => {
                self.viewers[at].choose_quality(*quality);
                Ok(())
            }
            ViewerMessage::ExactFrame => {
                self.viewers[at].want_exact_frame();
                Ok(())
            }
            ViewerMessage::KeyboardLayout(layout) => {
                self.requests.push_layout(self.viewers[at].id, layout)
            }
            ViewerMessage::Stereo(wanted) => {
                self.viewers[at].pending.want_right_eyes(*wanted);
                Ok(())
            }
            ViewerMessage::VideoCodecs(codecs) => {
                self.viewers[at].pending.set_video_codecs(*codecs, now);
                Ok(())
            }
            // The shell's plans know the cache's content, and the shell knows instances and people.
            ViewerMessage::Cache(_)
            | ViewerMessage::Instance(_)
            | ViewerMessage::Share(_)
            | ViewerMessage::ClipPolicy(_) => Ok(()),
            ViewerMessage::View(view) => {
                let before = self.controller();
                self.flush_drawings();
                self.viewers[at].want_view(*view, self.screen.size, self.now);
                if self.controller() != before {
                    self.request_size();
                }
                Ok(())
            }
            ViewerMessage::Video(state) => {
                self.viewers[at].pending.video_status(*state, now);
                Ok(())
            }
            ViewerMessage::Displays(displays) => {
                self.handle_displays(at, Arrangement::of(displays), true);
                Ok(())
            }
            ViewerMessage::RetainedTiles(tiles) => {
                self.viewers[at].set_retained(tiles);
                Ok(())
            }
            ViewerMessage::Clip(message) => self.handle_clip(at, message, now),
            ViewerMessage::File(message) => self.handle_file(at, message, now),
            ViewerMessage::SoundWant(_)
            | ViewerMessage::SoundState(_)
            | ViewerMessage::Microphone(_)
            | ViewerMessage::MicrophoneState(_) => self.handle_sound_message(at, message, now),
            // The shell reads the reason, and the end of the stream follows.
            ViewerMessage::Close(_) => Ok(()),
        }
    }

    /// The next request for the shell to carry out, in this order.
    pub fn poll_request(&mut self, now: Micros) -> Option<Request> {
        self.now = self.now.max(now);
        self.request_pending_size();
        self.release_unresponsive(now);
        self.requests.next(now)
    }

    /// Commits an update. None: nothing is due, or there is no room.
    pub fn poll_job(&mut self, id: ViewerId, now: Micros) -> Option<Job> {
        self.now = self.now.max(now);
        self.flush_drawings();
        self.with_viewer(id, |viewer, screen| viewer.poll_job(screen, now))?
    }

    /// These parts of a viewer's view, at most four and disjoint, change like a video; plans report
    /// theirs by themselves ([`Plan::video_areas`]). An area that is reported repeatedly becomes a
    /// stream, which ends when the reports do.
    pub fn handle_video_areas(&mut self, id: ViewerId, areas: &[Rect], now: Micros) {
        self.now = self.now.max(now);
        if let Some(viewer) = self.viewer_mut(id) {
            let rate = viewer.delivery.flow.rate();
            viewer.pending.report_video_areas(areas, rate, now);
        }
    }

    /// True while this stream of the viewer exists; otherwise its encoder is no longer needed.
    pub fn has_video(&self, id: ViewerId, stream: u16) -> bool {
        self.viewer(id).is_some_and(|viewer| viewer.pending.has_video(stream))
    }

    /// The viewer lacks `region` of what it showed after update `since`: it is sent again, wherever
    /// COPYs have moved it since.
    pub fn handle_stale(&mut self, id: ViewerId, region: &Region, since: u64) {
        let now = self.now;
        self.flush_drawings();
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.stale(region, since, now);
        }
    }

    /// Appends whole messages for a viewer, in order and within its budget; true if there were any.
    /// `packer` belongs to this viewer's connection and is called once for each update with
    /// commands.
    pub fn poll_transmit(
        &mut self,
        id: ViewerId,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> bool {
        self.now = self.now.max(now);
        self.flush_drawings();
        let has_output = self
            .with_viewer(id, |viewer, screen| viewer.poll_transmit(screen, now, packer, out))
            .unwrap_or(false);
        self.count_rate(id, now);
        has_output
    }

    /// How a viewer's connection packs bytes now; to be read before `poll_transmit`. A new level
    /// restarts the packing stream.
    pub fn entropy(&self, id: ViewerId) -> Entropy {
        self.viewer(id).map_or(Entropy::None, |viewer| viewer.quality.entropy())
    }

    /// Packing for a viewer took so long.
    pub fn handle_pack_time(&mut self, id: ViewerId, took: Micros) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.quality.encode_took(0, took);
        }
    }

    /// True while a viewer has something to send or to be acknowledged, so that
    /// [`Session::handle_path`] is worth a call.
    pub fn is_busy(&self, id: ViewerId) -> bool {
        self.viewer(id).is_some_and(Viewer::is_busy)
    }

    /// True while more of a viewer's screen is to be sent, other than the refresh of lossy pixels.
    pub fn has_unsent(&self, id: ViewerId) -> bool {
        self.viewer(id).is_some_and(Viewer::has_unsent)
    }

    /// What a viewer's transport knows of its path, with everything from `poll_transmit` counted;
    /// None if it knows nothing. Called before the viewer's acknowledgements, `poll_job` and
    /// `poll_transmit`.
    pub fn handle_path(&mut self, id: ViewerId, figures: Option<PathStats>) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.delivery.flow.handle_path(figures);
        }
    }

    /// The next time at which `poll_job` or `poll_request` may return something without an event.
    pub fn poll_deadline(&self, now: Micros) -> Option<Micros> {
        let pending = self.screen.deadline().filter(|_| !self.viewers.is_empty());
        let resize = self.outputs.deadline();
        let idle = self.screen.is_idle();
        let viewers = self.viewers.iter().filter_map(|viewer| viewer.deadline(idle, now));
        viewers.chain(pending).chain(resize).chain(self.keys_deadline()).min()
    }

    /// Statistics of a viewer.
    pub fn stats(&self, id: ViewerId) -> Option<ViewerStats> {
        self.viewer(id).map(Viewer::stats)
    }

    /// What is counted of all viewers, also of those that have left.
    pub fn figures(&self) -> Figures {
        self.viewers.figures()
    }

    /// True once every viewer was sent everything and has acknowledged it.
    pub fn is_drained(&self) -> bool {
        self.viewers.is_empty()
            || self.screen.is_flushed() && self.viewers.iter().all(Viewer::is_drained)
    }

    /// Checks the invariants of session-core; for tests.
    ///
    /// # Panics
    /// If an invariant does not hold; the message states it.
    pub fn check_invariants(&self) {
        self.requests.check_invariants();
        self.input_tracker.check_invariants();
        self.clipboard.check_invariants(self.viewers.all());
        self.screen.drawables().check_invariants();
        for viewer in self.viewers.iter() {
            viewer.check_invariants();
        }
    }
}
