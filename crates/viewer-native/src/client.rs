//! Path 10/13 to 12/13, the viewer's threads: from transport's bytes, to viewer-core, to the window
//! or the headless viewer.
//! One thread connects and reads, one per connection writes (client/connection.rs), one decodes
//! videos (client/video.rs). The window and the headless viewer read [`State`] under its lock and
//! are woken by a callback that they pass in. Knows no SDL and no files.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipFormats, Selection};
use thinc_protocol::people::ShareAction;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::viewer::{Display, InputEvent, KeyboardLayout, TouchPhase, View, ViewerCaps};
use thinc_region::{Region, Size};
use thinc_transport::TransportChoice;
use thinc_viewer_core::{ClipboardPolicy, StereoMode, Viewer, ViewerConfig, ViewerEvent};

use crate::clipboard::{Clipboard, Desktop, DesktopEvent};
use crate::clock::Clock;
use crate::decoder_choice::DecoderChoice;
use crate::desktops::DesktopChoice;
use crate::device_key::DeviceOptions;
use crate::error::ViewError;
use crate::files::{Files, FilesChoice};
use crate::gamma::GammaChoice;
use crate::printing::PrintChoice;
use crate::saved::CacheOptions;
use crate::target::Target;

pub use crate::news::{News, Status};
use decoding::Decoding;
pub use decoding::{DecodeTimes, DecoderReport};
use hello_options::HelloOptions;
use lifecycle::Lifecycle;
use liveness::ConnectionWatch;
pub use microphone::MicrophoneChoice;
#[cfg(feature = "window")]
pub(crate) use microphone::MicrophoneSide;
use presenting::{PRESENT_WAIT_MAX, Presenting};
pub use quality::name_of;
use screen::ScreenRequests;
use served::Served;
use session_info::{SessionInfo, words_of_copying};
pub use sound::SoundChoice;
#[cfg(feature = "window")]
pub(crate) use sound::{SharedPlayer, SoundSide};
use stereo::StereoChoice;
use transports::Transports;
use viewers::Viewers;

mod connection;
mod decoding;
mod files;
mod hello_options;
mod lifecycle;
mod liveness;
mod microphone;
mod presenting;
mod quality;
mod rechoose;
mod rescue;
mod screen;
mod served;
mod session_info;
mod sign_in;
mod sound;
mod stereo;
mod switch;
#[cfg(test)]
mod testing;
mod transports;
#[cfg(feature = "h264")]
mod video;
mod viewers;

/// 0.5 s: how long a closing viewer waits until its last messages are sent.
const LINGER: Duration = Duration::from_millis(500);

/// What happens with a server's key that nobody has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKeys {
    /// The person is asked, where there is a terminal; else as `Tell`.
    Ask,
    /// It is remembered, and the person is told.
    Tell,
}

/// How a client is started.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Address of the session and the credentials for it.
    pub target: Target,
    /// File of remembered server keys, for links without a pin.
    pub known_hosts: Option<PathBuf>,
    /// What happens with a key that neither the link nor that file names.
    pub new_keys: NewKeys,
    /// Transport to use for a link.
    pub transport: TransportChoice,
    /// Size of the window; 0 × 0 keeps the session's size.
    pub size: Size,
    /// The initial view; None: the whole screen at its own size.
    pub view: Option<View>,
    /// Time-out of one connection attempt; ssh, which may prompt the user, has its own.
    pub connect_timeout: Duration,
    /// Which of a person's desktops behind a broker is opened.
    pub desktop: DesktopChoice,
    /// What happens where the session is shown elsewhere.
    pub opening: Opening,
    /// How a server remembers this device.
    pub devices: DeviceOptions,
    /// Whether to reconnect after a loss.
    pub reconnect: Reconnect,
    /// The pixel cache: its size and folder.
    pub cache: CacheOptions,
    /// In which directions the clipboard is shared.
    pub clipboard: ClipboardPolicy,
    /// In which directions files are sent.
    pub files: FilesChoice,
    /// What is done with what its programs print.
    pub prints: PrintChoice,
    /// How good pictures that move are, until the user chooses.
    pub quality: PictureQuality,
    /// Whether night colours and gamma of the session are shown.
    pub gamma: GammaChoice,
    /// How stereo programs are shown, until the user chooses.
    pub stereo: StereoMode,
    /// What sound is played.
    pub sound: SoundChoice,
    /// Whether programs of the session may hear the microphone.
    pub microphone: MicrophoneChoice,
    /// The `thinc-view` that is started to decode videos; [`this_program`] if it is that itself.
    pub decoder: PathBuf,
    /// What decodes videos.
    pub decoding: DecoderChoice,
}

/// What the user wants where the session is shown at another viewer of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// As the session's policy says.
    Default,
    /// The other viewers are closed.
    TakeOver,
    /// They stay.
    Join,
}

impl Opening {
    /// As the hello says it.
    fn caps(self) -> u32 {
        ViewerCaps::OPENS
            | match self {
                Opening::Default => 0,
                Opening::TakeOver => ViewerCaps::TAKES_OVER,
                Opening::Join => ViewerCaps::JOINS,
            }
    }
}

/// The running program, even if its file has been replaced.
pub fn this_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Whether the viewer reconnects after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// The viewer ends.
    Never,
    /// It retries until it has reconnected, the session says that it has ended, or the viewer is
    /// closed.
    Always,
}

/// The state that the threads share, behind one lock.
#[derive(Debug)]
pub struct State {
    /// The viewer-cores of the last connection and of the next.
    pub(crate) viewers: Viewers,
    /// State of the connection.
    pub status: Status,
    /// What has happened since the owner last took it.
    pub news: News,
    /// The connection that is served.
    served: Served,
    /// Which transport is used, and what takes its place.
    pub(crate) transports: Transports,
    /// What each connection's hello says.
    hello: HelloOptions,
    /// How stereo programs are shown.
    stereo: StereoChoice,
    /// What the window asks of the session's screen.
    screen: ScreenRequests,
    /// What the session has told of itself.
    pub(crate) session: SessionInfo,
    clipboard: Clipboard,
    files: Files,
    /// Sound, and its player.
    pub(crate) sound: sound::Sound,
    microphone: microphone::Microphone,
    clock: Clock,
    /// The decoder's thread.
    pub(crate) decoding: Decoding,
    /// The wait for the window.
    presenting: Presenting,
    /// Whether the session answers on it.
    watch: ConnectionWatch,
    /// Whether the threads go on.
    lifecycle: Lifecycle,
}

struct Shared {
    config: ClientConfig,
    state: Mutex<State>,
    changed: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// A running client; dropping it closes the connection and ends its threads.
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl State {
    /// True if a connection can take input.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.status, Status::Connected) && !self.transports.is_switching()
    }

    /// The viewer-core of the newest connection that has shown a screen; after a loss its
    /// framebuffer stays visible.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewers.shown
    }

    /// What has to be presented.
    pub(crate) fn take_damage(&mut self) -> Region {
        self.viewers.shown.take_damage()
    }

    /// Takes the news. The next drawing burst may be applied once the lock is free.
    pub(crate) fn take_news(&mut self) -> News {
        self.presenting.handle_taken();
        std::mem::take(&mut self.news)
    }

    /// From now on only whole drawing bursts are presented: the window takes the news, and presents
    /// them, as soon as it is woken.
    pub(crate) fn present_whole_bursts(&mut self) {
        self.presenting.present_whole_bursts();
    }

    /// Sets whether the window paints video frames itself, from viewer-core's layers.
    pub fn set_video_layers(&mut self, on: bool) {
        self.viewers.set_video_layers(on);
    }

    /// Sends an input event; returns its number, or None without a connection: then the event is
    /// dropped.
    pub fn input(&mut self, event: InputEvent) -> Option<u32> {
        // The writer may be waiting for the network; the threads hear of it later.
        if self.check_liveness() {
            self.watch.keep_change();
        }
        (self.is_connected() || self.transports.is_switching()).then(|| {
            let now = self.clock.now();
            if is_press(&event) {
                self.clipboard.pressed(now);
            }
            let seq = self.active().handle_input(event, now);
            self.flush();
            seq
        })
    }

    /// Whether the session takes samples of a pen; otherwise the pen is a mouse.
    pub(crate) fn takes_pen(&mut self) -> bool {
        self.active().takes_pen()
    }

    /// As [`State::input`], for a user who types on while the viewer reconnects: the input is
    /// buffered and sent later.
    pub(crate) fn input_or_buffer(&mut self, event: InputEvent) -> Option<u32> {
        let seq = self.input(event);
        if seq.is_some() || !matches!(self.status, Status::Lost { .. }) {
            return seq;
        }
        let now = self.clock.now();
        if is_press(&event) {
            self.clipboard.pressed(now);
        }
        let was_buffering = self.active().can_buffer_input(now);
        let seq = self.active().buffer_input(event, now);
        // The message over the framebuffer mentions it.
        self.news.status |= self.active().can_buffer_input(now) != was_buffering;
        self.flush();
        seq
    }

    /// True if input typed while the connection is lost will be sent.
    pub fn can_buffer_input(&mut self) -> bool {
        let now = self.clock.now();
        self.active().can_buffer_input(now)
    }

    /// Sets the local keyboard's layout; sent once, now or on connecting.
    pub fn set_layout(&mut self, layout: KeyboardLayout) {
        let changes = self.hello.set_layout(layout.clone());
        if changes && (self.served.is_open() || self.viewers.is_pending()) {
            self.active().set_layout(layout);
            self.flush();
        }
    }

    /// Requests a view; the framebuffer changes when the session has answered. False if that view
    /// is requested already.
    pub fn set_view(&mut self, view: View) -> bool {
        let changes = self.screen.set_view(view);
        if changes {
            self.active().set_view(view);
            self.flush();
        }
        changes
    }

    /// The window has a new size.
    pub fn resize(&mut self, size: Size) {
        self.ask_screen(|screen, viewer| screen.set_window(size, viewer));
    }

    /// The windows are these monitors of the session now, the primary one first.
    pub(crate) fn arrange(&mut self, displays: Vec<Display>) {
        self.ask_screen(|screen, viewer| screen.arrange(displays, viewer));
    }

    /// Sets the local display scale, in percent of 96 dots an inch.
    pub fn set_scale(&mut self, percent: u16) {
        self.ask_screen(|screen, viewer| screen.set_scale(percent, viewer));
    }

    /// Changes what is asked of the session's screen; `ask` returns true if there is a request to
    /// send.
    fn ask_screen(&mut self, ask: impl FnOnce(&mut ScreenRequests, Option<&mut Viewer>) -> bool) {
        let is_connected = self.is_connected();
        if ask(&mut self.screen, is_connected.then_some(&mut self.viewers.shown)) {
            self.flush();
        }
    }

    /// Requests a barrier for everything drawn until now; its number appears in [`News::barriers`].
    /// None without a connection or with too many unanswered barriers.
    pub fn barrier(&mut self) -> Option<u32> {
        if !self.is_connected() {
            return None;
        }
        let barrier = self.screen.request_barrier(&mut self.viewers.shown)?;
        self.flush();
        Some(barrier)
    }

    /// Asks to share the session, or to change what a guest may do; the answer is in
    /// [`News::shared`]. False without a connection, or if too much is unanswered.
    pub(crate) fn share(&mut self, action: ShareAction) -> bool {
        let request = self.session.next_request();
        let is_sent = self.is_connected() && self.viewers.shown.share(request, action);
        self.flush();
        is_sent
    }

    /// Asks the session for the next choice of what is copied to and from it, for all viewers of
    /// the user's; returns it in words.
    pub(crate) fn choose_copying(&mut self) -> &'static str {
        let is_connected = self.is_connected();
        let Some(next) = is_connected.then(|| self.session.choose_copying()).flatten() else {
            return "The owner of the session decides what is copied";
        };
        self.viewers.shown.set_clip_policy(next);
        self.flush();
        words_of_copying(next)
    }

    /// From now on the clipboard is shared with this desktop.
    pub(crate) fn set_desktop(&mut self, desktop: Box<dyn Desktop>) {
        self.clipboard.attach(desktop);
    }

    /// Something happened to the desktop's clipboard.
    pub(crate) fn desktop_event(&mut self, event: DesktopEvent) {
        let (connected, now) = (self.is_connected(), self.clock.now());
        let viewer = self.viewers.active();
        let notice = self.clipboard.handle_desktop(event, viewer, connected, now);
        self.news.tell(notice);
        self.flush();
    }

    /// Formats that the session offers to paste.
    pub(crate) fn session_offers(&self, selection: Selection) -> ClipFormats {
        self.clipboard.offered(selection)
    }

    /// Everything applied until now has been presented.
    pub fn presented(&mut self) {
        if self.is_connected() {
            self.viewers.shown.handle_presented(self.clock.now());
            self.flush();
        }
    }

    /// viewer-core may have bytes to send.
    fn flush(&self) {
        self.served.wake_writer();
    }

    /// The viewer of the newest connection.
    fn active(&mut self) -> &mut Viewer {
        self.viewers.active()
    }

    /// Bytes lost on the path that were computed from parities.
    pub(crate) fn repaired_bytes(&self) -> u64 {
        self.served.repaired_bytes()
    }

    /// Moves viewer-core's events into the news; returns the reason if the session closes.
    fn take_events(&mut self) -> Option<ViewError> {
        let mut closed = None;
        while let Some(event) = self.viewers.shown.poll_event() {
            match event {
                ViewerEvent::Geometry { size, shown } => {
                    let screen = self.session.set_geometry(size, shown, &mut self.news);
                    self.screen.handle_geometry(screen, &mut self.viewers.shown);
                }
                ViewerEvent::Connected { name } => {
                    self.session.set_name(name);
                    self.begin_files();
                }
                ViewerEvent::Barrier(id) => {
                    if !self.screen.handle_barrier(id, &mut self.viewers.shown) {
                        self.news.answer_barrier(id);
                    }
                }
                ViewerEvent::FrameEnd => {
                    self.news.frame_end = true;
                    self.served.handle_picture();
                    // The application may have ended while there was no connection.
                    let wanted = self.viewers.shown.relative_wanted();
                    self.session.set_relative_wanted(wanted, &mut self.news);
                }
                ViewerEvent::RelativeWanted(_) => {
                    let wanted = self.viewers.shown.relative_wanted();
                    self.session.set_relative_wanted(wanted, &mut self.news);
                }
                ViewerEvent::Gamma(areas) => self.session.set_gamma(areas, &mut self.news),
                ViewerEvent::People(people) => self.session.set_people(people, &mut self.news),
                ViewerEvent::Invitations(invitations) => {
                    self.session.set_invitations(invitations, &mut self.news);
                }
                ViewerEvent::Shared(answer) => self.news.shared.push(answer),
                ViewerEvent::Notice(text) => self.session.announce(&text, &mut self.news),
                ViewerEvent::BriefNotice(text) => self.news.tell(Some(text)),
                ViewerEvent::Renamed(name) => {
                    self.session.set_name(name);
                    self.news.renamed = true;
                }
                ViewerEvent::Graphics(line) => self.session.set_graphics(line),
                ViewerEvent::ClipPolicy(policy) => self.session.set_clip_policy(policy),
                ViewerEvent::Players(players) => {
                    self.sound.players = players;
                    self.news.players = true;
                }
                ViewerEvent::MicrophoneWanted(want) => self.handle_microphone_wanted(want),
                ViewerEvent::PersonPointer(pointer) => {
                    self.news.move_pointer(pointer);
                }
                ViewerEvent::Cursor(image) => self.news.cursor = Some(image),
                ViewerEvent::CursorMove { x, y } => self.news.cursor_move = Some((x, y)),
                ViewerEvent::CursorShow(shown) => self.news.cursor_show = Some(shown),
                ViewerEvent::Closed { code, reason } => {
                    closed = Some(ViewError::Closed { code, reason })
                }
                ViewerEvent::Displays(displays) => {
                    self.session.set_displays(displays, &mut self.news);
                }
                // The statistics have the latencies.
                ViewerEvent::Echo { .. } => {}
                event @ (ViewerEvent::ClipOffer { .. }
                | ViewerEvent::ClipWanted { .. }
                | ViewerEvent::ClipReceived { .. }
                | ViewerEvent::ClipEnded { .. }) => {
                    self.news.clipboard = true;
                    let notice =
                        self.clipboard.handle(event, &mut self.viewers.shown, self.clock.now());
                    self.news.tell(notice);
                }
            }
        }
        self.take_file_events();
        closed
    }
}

impl Client {
    /// Starts to connect; `wake` is called from the client's threads, without the lock held, when
    /// there is news.
    pub fn start(
        config: ClientConfig,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Client> {
        let clock = Clock::start();
        let state = State {
            viewers: Viewers::new(new_viewer(config.size, config.clipboard, 0)),
            status: Status::Connecting,
            news: News::default(),
            served: Served::default(),
            transports: Transports::default(),
            hello: HelloOptions::new(random_number(), config.opening, config.quality, config.gamma),
            stereo: StereoChoice::new(config.stereo),
            screen: ScreenRequests::new(config.size, config.view),
            session: SessionInfo::default(),
            clipboard: Clipboard::default(),
            files: Files::new(config.files, config.prints.clone()),
            sound: sound::Sound::new(config.sound, clock),
            microphone: microphone::Microphone::new(config.microphone),
            clock,
            decoding: Decoding::default(),
            presenting: Presenting::default(),
            watch: ConnectionWatch::new(),
            lifecycle: Lifecycle::default(),
        };
        let shared = Arc::new(Shared {
            config,
            state: Mutex::new(state),
            changed: Condvar::new(),
            wake: Box::new(wake),
        });
        if let Err(error) = shared.start_disk() {
            crate::error::report(format_args!("files are neither sent nor received: {error}"));
        }
        #[cfg(feature = "h264")]
        std::thread::Builder::new().name("thinc-video".into()).spawn({
            let shared = shared.clone();
            move || shared.decode_videos()
        })?;
        let thread = std::thread::Builder::new().name("thinc-net".into()).spawn({
            let shared = shared.clone();
            move || {
                shared.run();
                shared.lock().lifecycle.handle_end();
                shared.changed.notify_all();
            }
        })?;
        Ok(Client { shared, thread: Some(thread) })
    }

    /// Locks the shared state; hold it only briefly.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// A callback for the desktop's clipboard, whose events come on other threads; it does nothing
    /// once the client is gone.
    pub(crate) fn desktop_events(&self) -> impl Fn(DesktopEvent) + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move |event| {
            let Some(shared) = shared.upgrade() else { return };
            let mut state = shared.lock();
            state.desktop_event(event);
            let wake = state.news.is_worth_waking();
            drop(state);
            if wake {
                shared.announce();
            }
        }
    }

    /// After a loss: retries at once. After the session was opened elsewhere: takes it back.
    pub(crate) fn retry_now(&self) {
        self.lock().lifecycle.retry();
        self.shared.changed.notify_all();
    }

    /// Waits until `ready` returns something or the deadline has passed, and the time in which the
    /// user was asked whether to copy thinc to a host, or it was copied.
    pub fn wait_until<T>(
        &self,
        deadline: Instant,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        let held_before = state.lifecycle.held(Instant::now());
        loop {
            if let Some(found) = ready(&mut state) {
                return Some(found);
            }
            let now = Instant::now();
            let deadline = deadline + (state.lifecycle.held(now) - held_before);
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return None;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .expect("no holder of this lock can panic")
                .0;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.lifecycle.stop();
        // The desktop's clipboard no longer offers the session's selections.
        state.clipboard = Clipboard::default();
        state.active().handle_close("the viewer was closed");
        // The close message and all bytes before it are sent, then the writer closes the
        // connection.
        state.served.wake_writer();
        state.decoding.wake();
        drop(state);
        self.shared.changed.notify_all();
        let has_ended = |state: &mut State| state.lifecycle.has_ended().then_some(());
        let ended = self.wait_until(Instant::now() + LINGER, has_ended);
        if ended.is_none() {
            self.lock().served.close();
        }
        // Other threads may go on meanwhile.
        let saved = self.lock().viewers.take_saved();
        if let Some((file, cache)) = saved {
            cache.iter().for_each(|cache| file.save(cache));
        }
        let Some(thread) = self.thread.take() else { return };
        if ended.is_some() {
            assert!(
                thread.join().is_ok() || std::thread::panicking(),
                "the network thread panicked"
            );
        }
        // Otherwise the thread waits inside the system's resolver or connect, and ends later;
        // nobody waits for it.
    }
}

/// An unpredictable number.
fn random_number<const BYTES: usize>() -> [u8; BYTES] {
    let mut number = [0; BYTES];
    getrandom::fill(&mut number).expect("the system has random bytes");
    number
}

/// Whether a person can paste with it.
fn is_press(event: &InputEvent) -> bool {
    matches!(
        event,
        InputEvent::Key { down: true, .. }
            | InputEvent::Button { down: true, .. }
            | InputEvent::Touch { phase: TouchPhase::Begin, .. }
            | InputEvent::Char(_)
    ) || matches!(event, InputEvent::Pen(sample) if sample.buttons != 0)
}

/// Capabilities of this shell besides viewer-core's.
const CAPS: u32 = ViewerCaps::RESIZE
    | ViewerCaps::LOCAL_CURSOR
    | ViewerCaps::RELATIVE
    | ViewerCaps::PEOPLE
    | ViewerCaps::INVITATIONS
    | ViewerCaps::NOTICE
    | ViewerCaps::BRIEF_NOTICE
    | ViewerCaps::NAME
    | ViewerCaps::GRAPHICS
    | ViewerCaps::CLIP_POLICY
    | ViewerCaps::VIDEO
    | if cfg!(feature = "h264") { ViewerCaps::H264 } else { 0 };

fn new_viewer(size: Size, clipboard: ClipboardPolicy, caps: u32) -> Viewer {
    Viewer::new(&ViewerConfig {
        name: concat!("thinc-view ", env!("CARGO_PKG_VERSION")).to_owned(),
        size,
        caps: CAPS | caps,
        clipboard,
    })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    /// Wakes everyone who waits. Call it without the lock.
    fn announce(&self) {
        self.changed.notify_all();
        (self.wake)();
    }

    fn set_status(&self, status: Status) {
        let mut state = self.lock();
        // Whatever has ended the connection, nobody hears the microphone any more.
        state.end_microphone();
        state.status = status;
        state.news.status = true;
        drop(state);
        self.announce();
    }

    /// Locks the state once the window has taken the last whole drawing burst, or after
    /// [`PRESENT_WAIT_MAX`].
    fn lock_for_next(&self) -> MutexGuard<'_, State> {
        let state = self.lock();
        let taken = state.presenting.waits_for();
        let untaken = |state: &mut State| {
            state.presenting.waits(state.news.frame_end) && !state.lifecycle.is_stopped()
        };
        taken
            .wait_timeout_while(state, PRESENT_WAIT_MAX, untaken)
            .expect("no holder of this lock can panic")
            .0
    }
}
