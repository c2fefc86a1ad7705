//! Path 10/13 to 12/13, the viewer's threads: from transport's bytes, to viewer-core, to whoever shows the picture.
//! One thread connects and reads, one per connection writes (client/connection.rs), one decodes videos (client/video.rs). The window and
//! the headless viewer look at [`State`] under its lock and are woken by a function they bring. Knows no SDL and no files.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipFormats, Selection};
use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::session::Shows;
use thinc_protocol::viewer::{Display, Displays, InputEvent, Layout, View, ViewerCaps};
use thinc_region::{Rect, Size};
use thinc_transport::{Reached, TransportChoice, Via};
use thinc_viewer_core::{Cache, ClipboardPolicy, Viewer, ViewerConfig, ViewerEvent};

use crate::clipboard::{Clipboard, Desktop, DesktopEvent};
use crate::clock::Clock;
use crate::error::ViewError;
use crate::resize::ResizePacer;
use crate::saved::{CacheFile, CacheOptions};
use crate::target::Target;
use crate::watch::{Watch, slept};
use crate::wire::Writer;

pub use crate::news::{News, Status};

mod connection;
mod rescue;
#[cfg(feature = "h264")]
mod video;

/// A quarter of a frame of a 60 Hz screen: how long a whole picture waits for the window's thread before the next is applied over
/// it. Where that thread waits for the display, pictures mix rather than wait.
const SHOWING_MAX: Duration = Duration::from_millis(4);
/// 0.5 s: longest time a closing viewer waits for its last words to leave.
const LINGER: Duration = Duration::from_millis(500);
/// Most answered barriers nobody has asked about yet; older ones are forgotten.
const BARRIERS_MAX: usize = 64;
/// Most barriers under way at once; viewer-core takes 8.
const BARRIERS_ASKED_MAX: u32 = 6;
/// 96 dots an inch: what a session has unless somebody says otherwise.
const USUAL_SCALE: u16 = 100;

/// Why a connection is given up of which nothing is heard.
const SILENT: &str = "the session does not answer any more";

/// What a client is started with.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where the session is and what opens it.
    pub target: Target,
    /// Where keys of links without a pin are remembered.
    pub known_hosts: Option<PathBuf>,
    /// By which way to connect to a link.
    pub transport: TransportChoice,
    /// Size of the window; 0 × 0 keeps the session's size.
    pub size: Size,
    /// What is to be shown from the beginning; None: all of the screen at its own size.
    pub view: Option<View>,
    /// Longest time one attempt to connect may take; ssh, which may ask the person something, has its own.
    pub connect_timeout: Duration,
    /// What happens when the connection is lost.
    pub reconnect: Reconnect,
    /// What may be kept of what was shown.
    pub cache: CacheOptions,
    /// Which way contents of clipboards may go.
    pub clipboard: ClipboardPolicy,
}

/// Whether a lost session is looked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// The loss is the end.
    Never,
    /// Again and again, until the session is back, says it has ended, or the viewer is closed.
    Always,
}

/// What decoding videos has cost since the viewer was started.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeTimes {
    /// Pictures decoded.
    pub pictures: u64,
    /// Of all of them.
    pub total: Duration,
    /// Of the slowest.
    pub longest: Duration,
}

/// Everything the threads share, behind one lock.
#[derive(Debug)]
pub struct State {
    /// The newest connection that has shown a screen; kept after a loss, so that the old picture can stay.
    pub viewer: Viewer,
    /// How things stand.
    pub status: Status,
    /// What happened since the owner last took it.
    pub news: News,
    /// Times a connection showed a screen.
    pub connections: u32,
    /// The connection that has not shown a screen yet.
    fresh: Option<Viewer>,
    /// What was kept, while no connection is open; none before the first.
    cache: Option<Cache>,
    /// Where it is saved.
    cache_file: Option<CacheFile>,
    session_name: Option<String>,
    /// What carries the connection: quic, tcp or ssh; none before the first.
    pub transport: Option<&'static str>,
    /// How the keyboard here is laid out, where that is known; told to every connection.
    layout: Option<Layout>,
    /// What is to be shown, where that was chosen; told to every connection.
    view: Option<View>,
    /// What the picture shows of the session's screen, where that is not all of it at its own size.
    pub shows: Option<Shows>,
    /// Where the displays lie in the session's screen, once it has said so.
    pub displays: Vec<Rect>,
    /// Pictures that the session has announced.
    pub geometries: u64,
    clipboard: Clipboard,
    clock: Clock,
    pacer: ResizePacer,
    /// How large things are drawn here, and whether this connection's session was told.
    scale_percent: u16,
    scale_said: bool,
    /// The windows here as displays of the session; empty: the one window is all of it.
    arrangement: Vec<Display>,
    /// Barrier sent behind the last resize, unanswered.
    resize_barrier: Option<u32>,
    /// Barriers under way.
    barriers_asked: u32,
    window: Size,
    /// The open connection; ends it, even while its writer waits for a full socket.
    closer: Option<Writer>,
    /// Wakes the writer.
    unsent: Arc<Condvar>,
    /// Wakes the decoders.
    video_due: Arc<Condvar>,
    /// What they have cost.
    pub decode_times: DecodeTimes,
    /// Whoever shows the picture paints videos, on this connection and the next.
    video_layers: bool,
    /// Nothing is applied over a whole picture before its news were taken, for a moment.
    shows_whole: bool,
    /// Wakes the reader when they were.
    taken: Arc<Condvar>,
    /// The connection ends as soon as everything has been said.
    leaving: bool,
    /// Whether the session still answers.
    watch: Watch,
    /// It has not for too long: the path is taken for dead.
    silent: bool,
    /// Connections that have been served.
    serving: u64,
    /// The session was reached by another way already.
    rescue: Option<Reached>,
    /// What this viewer is known by when it comes back.
    instance: [u8; INSTANCE_BYTES],
    /// The connection's writer runs.
    writing: bool,
    retry: bool,
    stop: bool,
    /// The network thread has ended.
    done: bool,
}

struct Shared {
    config: ClientConfig,
    state: Mutex<State>,
    changed: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// A running client; dropping it closes the connection and its threads end.
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl State {
    /// True while input has somewhere to go.
    pub fn is_connected(&self) -> bool {
        matches!(self.status, Status::Connected)
    }

    /// Takes the news out. The next picture may be applied as soon as the lock is free.
    pub fn take_news(&mut self) -> News {
        self.taken.notify_all();
        std::mem::take(&mut self.news)
    }

    /// From here on pictures are shown whole: whoever is woken takes the news at once, and with them what there is to show.
    pub fn show_whole(&mut self) {
        self.shows_whole = true;
    }

    /// Whoever shows the picture paints videos itself from here on, from viewer-core's layers, or does not any more.
    pub fn set_video_layers(&mut self, on: bool) {
        self.video_layers = on;
        self.viewer.set_video_layers(on);
        self.fresh.iter_mut().for_each(|viewer| viewer.set_video_layers(on));
    }

    /// Sends an input event; returns its number, or none while there is no connection: this says nothing later.
    pub fn input(&mut self, event: InputEvent) -> Option<u32> {
        self.check_path();
        self.is_connected().then(|| {
            let seq = self.viewer.handle_input(event, self.clock.now());
            self.flush();
            seq
        })
    }

    /// The same for what a person does, who types on while the connection comes back: that is kept, and sent when it is there.
    pub fn input_or_keep(&mut self, event: InputEvent) -> Option<u32> {
        let seq = self.input(event);
        if seq.is_some() || !matches!(self.status, Status::Lost { .. }) {
            return seq;
        }
        let now = self.clock.now();
        let kept_before = self.active().keeps_input(now);
        let seq = self.active().keep_input(event, now);
        // The words over the picture speak of it.
        self.news.status |= self.active().keeps_input(now) != kept_before;
        self.flush();
        seq
    }

    /// What is typed while the connection is lost will be sent.
    pub fn keeps_input(&mut self) -> bool {
        let now = self.clock.now();
        self.active().keeps_input(now)
    }

    /// The keyboard here is laid out like this; said once, now or when there is a connection.
    pub fn set_layout(&mut self, layout: Layout) {
        if self.layout.as_ref() == Some(&layout) {
            return;
        }
        if self.closer.is_some() || self.fresh.is_some() {
            self.active().set_layout(layout.clone());
            self.flush();
        }
        self.layout = Some(layout);
    }

    /// Asks whether the session is there where nothing is heard or the machine has slept, and says so; gives up a connection that is
    /// silent for too long. The threads that serve the connection end when it does, and say that.
    fn check_path(&mut self) {
        if self.closer.is_none() || self.silent {
            return;
        }
        let now = self.clock.now();
        if self.watch.has_slept(slept()) {
            self.active().handle_doubt(now);
            self.flush();
        }
        if self.quiet_at().is_some_and(|at| at <= now) {
            self.active().handle_quiet(now);
            self.flush();
            self.news.status |= self.watch.handle_quiet(now);
        }
        let since = self.active().unanswered_since();
        if self.watch.ends_at(since).is_some_and(|at| at <= now) {
            self.give_up();
        }
    }

    /// Nothing is heard of the session, though it should have answered.
    pub fn is_quiet(&self) -> bool {
        self.is_connected() && self.watch.is_quiet()
    }

    /// When it is to be asked again, and said that nothing is heard.
    fn quiet_at(&mut self) -> Option<Micros> {
        let viewer = self.active();
        let (since, round_trip) = (viewer.unanswered_since(), viewer.stats().rtt_min_us);
        self.watch.quiet_at(since, round_trip)
    }

    /// How long it is until another way is sought; None where this one speaks.
    fn rescue_in(&self) -> Option<Duration> {
        let at = self.watch.rescue_at(self.transport == Some(Via::Quic.name()))?;
        Some(Duration::from_micros(at.saturating_sub(self.clock.now())))
    }

    /// Ends a connection whose path is dead; what waits to be sent by it is dropped.
    fn give_up(&mut self) {
        self.silent = true;
        if self.is_connected() {
            self.status = Status::Lost { why: SILENT.to_owned(), attempts: 0 };
            self.news.status = true;
        }
        if let Some(closer) = &mut self.closer {
            closer.abort();
        }
    }

    /// This is to be shown from now on; the picture changes when the session has answered. False: nothing changes.
    pub fn set_view(&mut self, view: View) -> bool {
        let changes = self.view != Some(view);
        if changes {
            self.view = Some(view);
            self.active().set_view(view);
            self.flush();
        }
        changes
    }

    /// The window has this size now.
    pub fn resize(&mut self, size: Size) {
        self.window = size;
        if self.is_connected()
            && let Some(size) = self.pacer.handle_window(size)
        {
            self.send_resize(size);
            self.flush();
        }
    }

    /// The windows here are these displays of the session now, the primary one first.
    pub fn arrange(&mut self, displays: Vec<Display>) {
        if self.arrangement == displays {
            return;
        }
        let edge = |far: fn(&Display) -> i32| displays.iter().map(far).max().unwrap_or(0).max(0).cast_unsigned();
        let size = Size { width: edge(|display| display.rect.x2), height: edge(|display| display.rect.y2) };
        self.arrangement = displays;
        self.pacer.forget();
        self.resize(size);
    }

    /// Things are drawn at this scale here, in percent of 96 dots an inch.
    pub fn set_scale(&mut self, percent: u16) {
        if std::mem::replace(&mut self.scale_percent, percent) == percent || !self.is_connected() {
            return;
        }
        self.pacer.forget();
        if self.window.area() > 0 {
            self.say_size(self.window);
            self.flush();
        }
    }

    /// The window's size, and the scale where that is not the usual one or was said before; or the newest arrangement.
    fn say_size(&mut self, size: Size) {
        if !self.arrangement.is_empty() {
            let displays = self.arrangement.clone();
            return self.viewer.set_displays(Displays { scale_percent: self.scale_percent, displays });
        }
        if self.scale_percent == USUAL_SCALE && !self.scale_said {
            return self.viewer.handle_resize(size);
        }
        self.scale_said = true;
        let display = Display { rect: size.rect(), millimetres: Size::default() };
        self.viewer.set_displays(Displays { scale_percent: self.scale_percent, displays: vec![display] });
    }

    /// Asks to be told when everything drawn until now is here; the number turns up in [`News::barriers`]. None while
    /// there is no connection or too many barriers are under way.
    pub fn barrier(&mut self) -> Option<u32> {
        (self.is_connected() && self.barriers_asked < BARRIERS_ASKED_MAX).then(|| {
            self.barriers_asked += 1;
            let id = self.viewer.request_barrier();
            self.flush();
            id
        })
    }

    /// What the session calls itself.
    pub fn session_name(&self) -> Option<&str> {
        self.session_name.as_deref()
    }

    /// From now on this desktop's clipboard and the session's are one.
    pub fn set_desktop(&mut self, desktop: Box<dyn Desktop>) {
        self.clipboard.attach(desktop);
    }

    /// Something happened to the desktop's clipboard.
    pub fn desktop_event(&mut self, event: DesktopEvent) {
        let (connected, now) = (self.is_connected(), self.clock.now());
        let viewer = self.fresh.as_mut().unwrap_or(&mut self.viewer);
        let notice = self.clipboard.handle_desktop(event, viewer, connected, now);
        self.news.notice = notice.or(self.news.notice.take());
        self.flush();
    }

    /// What the session has to paste.
    pub fn session_offers(&self, selection: Selection) -> ClipFormats {
        self.clipboard.offered(selection)
    }

    /// Everything until now is on the screen.
    pub fn presented(&mut self) {
        if self.is_connected() {
            self.viewer.handle_presented(self.clock.now());
            self.flush();
        }
    }

    fn send_resize(&mut self, size: Size) {
        self.say_size(size);
        self.resize_barrier = None;
        if self.barriers_asked < BARRIERS_ASKED_MAX {
            self.barriers_asked += 1;
            self.resize_barrier = Some(self.viewer.request_barrier());
        }
    }

    /// viewer-core may have something to say. It stays there until the writer is free, so that acknowledgements and
    /// motions that wait for a slow network become one.
    fn flush(&self) {
        self.unsent.notify_one();
    }

    /// The viewer of the open connection.
    fn active(&mut self) -> &mut Viewer {
        self.fresh.as_mut().unwrap_or(&mut self.viewer)
    }

    /// Takes viewer-core's events into the news; returns why the session closes, if it does.
    fn absorb(&mut self) -> Option<ViewError> {
        let mut closed = None;
        while let Some(event) = self.viewer.poll_event() {
            match event {
                ViewerEvent::Geometry { size, shows } => {
                    self.news.geometry = Some(size);
                    self.shows = shows;
                    self.geometries += 1;
                    let screen = shows.map_or(size, |shows| shows.screen);
                    if let Some(size) = self.pacer.handle_geometry(screen) {
                        self.send_resize(size);
                    }
                }
                ViewerEvent::Connected { name } => self.session_name = Some(name).filter(|name| !name.is_empty()),
                ViewerEvent::Barrier(id) if self.resize_barrier == Some(id) => {
                    self.barriers_asked = self.barriers_asked.saturating_sub(1);
                    self.resize_barrier = None;
                    if let Some(size) = self.pacer.handle_answer() {
                        self.send_resize(size);
                    }
                }
                ViewerEvent::Barrier(id) => {
                    self.barriers_asked = self.barriers_asked.saturating_sub(1);
                    if self.news.barriers.len() == BARRIERS_MAX {
                        self.news.barriers.remove(0);
                    }
                    self.news.barriers.push(id);
                    self.news.frame_end = true;
                }
                ViewerEvent::FrameEnd => self.news.frame_end = true,
                ViewerEvent::Cursor(image) => self.news.cursor = Some(image),
                ViewerEvent::CursorMove { x, y } => self.news.cursor_move = Some((x, y)),
                ViewerEvent::CursorShow(shown) => self.news.cursor_show = Some(shown),
                ViewerEvent::Closed { code, reason } => closed = Some(ViewError::Closed { code, reason }),
                ViewerEvent::Displays(displays) => {
                    self.displays = displays;
                    self.news.displays = true;
                }
                // Latencies are read from the stats.
                ViewerEvent::Echo { .. } => {}
                event @ (ViewerEvent::ClipOffer { .. }
                | ViewerEvent::ClipWanted { .. }
                | ViewerEvent::ClipReceived { .. }
                | ViewerEvent::ClipEnded { .. }) => {
                    self.news.clipboard = true;
                    let notice = self.clipboard.handle(event, &mut self.viewer, self.clock.now());
                    self.news.notice = notice.or(self.news.notice.take());
                }
            }
        }
        closed
    }
}

impl Client {
    /// Begins to connect; `wake` is called from the client's threads, without the lock held, when there is news.
    pub fn start(config: ClientConfig, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Client> {
        let state = State {
            viewer: new_viewer(config.size, config.clipboard, 0),
            status: Status::Connecting,
            news: News::default(),
            connections: 0,
            fresh: None,
            cache: None,
            cache_file: None,
            session_name: None,
            transport: None,
            layout: None,
            view: config.view,
            shows: None,
            displays: Vec::new(),
            geometries: 0,
            clipboard: Clipboard::default(),
            clock: Clock::start(),
            pacer: ResizePacer::default(),
            scale_percent: USUAL_SCALE,
            scale_said: false,
            arrangement: Vec::new(),
            resize_barrier: None,
            barriers_asked: 0,
            window: config.size,
            closer: None,
            unsent: Arc::default(),
            video_due: Arc::default(),
            decode_times: DecodeTimes::default(),
            video_layers: false,
            shows_whole: false,
            taken: Arc::default(),
            leaving: false,
            watch: Watch::new(slept()),
            silent: false,
            serving: 0,
            rescue: None,
            instance: random_number(),
            writing: false,
            retry: false,
            stop: false,
            done: false,
        };
        let shared =
            Arc::new(Shared { config, state: Mutex::new(state), changed: Condvar::new(), wake: Box::new(wake) });
        #[cfg(feature = "h264")]
        std::thread::Builder::new().name("thinc-video".into()).spawn({
            let shared = shared.clone();
            move || shared.decode_videos()
        })?;
        let thread = std::thread::Builder::new().name("thinc-net".into()).spawn({
            let shared = shared.clone();
            move || {
                shared.run();
                shared.lock().done = true;
                shared.changed.notify_all();
            }
        })?;
        Ok(Client { shared, thread: Some(thread) })
    }

    /// The shared state; held only for moments.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// For a desktop's clipboard, whose events come on threads of its own; nothing happens once the client is gone.
    pub fn desktop_events(&self) -> impl Fn(DesktopEvent) + Send + 'static {
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

    /// After a loss: tries again now.
    pub fn retry_now(&self) {
        self.lock().retry = true;
        self.shared.changed.notify_all();
    }

    /// Waits until `ready` gives something or the deadline has passed.
    pub fn wait_until<T>(&self, deadline: Instant, mut ready: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.shared.changed.wait_timeout(state, left).expect("no holder of this lock can panic").0;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.stop = true;
        // What it owns for the session goes with it.
        state.clipboard = Clipboard::default();
        state.active().handle_close("the viewer was closed");
        // The goodbye and what waits before it go out first, and then the writer ends the connection.
        state.unsent.notify_all();
        state.video_due.notify_all();
        drop(state);
        self.shared.changed.notify_all();
        let ended = self.wait_until(Instant::now() + LINGER, |state| state.done.then_some(()));
        if ended.is_none()
            && let Some(closer) = &mut self.lock().closer
        {
            closer.close();
        }
        let mut state = self.lock();
        if let Some(file) = state.cache_file.take() {
            let cache = state.cache.take().or_else(|| state.active().take_cache());
            drop(state);
            cache.iter().for_each(|cache| file.save(cache));
        } else {
            drop(state);
        }
        let Some(thread) = self.thread.take() else { return };
        if ended.is_some() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the network thread panicked");
        }
        // Else it waits inside the system's resolver or connect, and ends by itself: nobody is left to hear of it.
    }
}

/// A number that nobody guesses.
fn random_number<const BYTES: usize>() -> [u8; BYTES] {
    let mut number = [0; BYTES];
    getrandom::fill(&mut number).expect("the system has random bytes");
    number
}

/// What this shell can do beside viewer-core.
const CAPS: u32 = ViewerCaps::RESIZE
    | ViewerCaps::LOCAL_CURSOR
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

    /// Tells everyone who waits. Called without the lock.
    fn announce(&self) {
        self.changed.notify_all();
        (self.wake)();
    }

    fn set_status(&self, status: Status) {
        let mut state = self.lock();
        state.status = status;
        state.news.status = true;
        drop(state);
        self.announce();
    }

    /// The state, with the last whole picture taken by whoever shows it, or waited for long enough.
    fn lock_for_next(&self) -> MutexGuard<'_, State> {
        let state = self.lock();
        let taken = state.taken.clone();
        let untaken = |state: &mut State| state.shows_whole && state.news.frame_end && !state.stop;
        taken.wait_timeout_while(state, SHOWING_MAX, untaken).expect("no holder of this lock can panic").0
    }
}
