//! Path 10/13 to 12/13, the viewer's threads: from transport's bytes, to viewer-core, to whoever shows the picture.
//! One thread connects, reads and comes back after a loss; one per connection writes. The window and the headless
//! viewer look at [`State`] under its lock and are woken by a function they bring. Knows no SDL and no files.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thinc_protocol::viewer::{InputEvent, ViewerCaps};
use thinc_region::Size;
use thinc_transport::pin::SpkiPin;
use thinc_transport::{ConnectOptions, Link, Writer};
use thinc_viewer_core::{Cache, CursorPixels, Viewer, ViewerConfig, ViewerEvent};

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::error::ViewError;
use crate::resize::ResizePacer;
use crate::saved::{CacheFile, CacheOptions};

/// 64 KiB: what is taken from the connection at once; the picture is locked while so much is applied.
const READ_BYTES: usize = 64 * 1024;
/// 0.5 s: longest time a closing viewer waits for its last words to leave.
const LINGER: Duration = Duration::from_millis(500);
/// Most answered barriers nobody has asked about yet; older ones are forgotten.
const BARRIERS_MAX: usize = 64;
/// Most barriers under way at once; viewer-core takes 8.
const BARRIERS_ASKED_MAX: u32 = 6;

/// What a client is started with.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where the session is and what opens it.
    pub link: Link,
    /// Where keys of links without a pin are remembered.
    pub known_hosts: Option<PathBuf>,
    /// Size of the window; 0 × 0 keeps the session's size.
    pub size: Size,
    /// Longest time one attempt to connect may take.
    pub connect_timeout: Duration,
    /// What happens when the connection is lost.
    pub reconnect: Reconnect,
    /// What may be kept of what was shown.
    pub cache: CacheOptions,
}

/// Whether a lost session is looked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// The loss is the end.
    Never,
    /// Again and again, until the session is back, says it has ended, or the viewer is closed.
    Always,
}

/// How things stand with the session.
#[derive(Debug)]
pub enum Status {
    /// First attempt under way.
    Connecting,
    /// The picture is the session's.
    Connected,
    /// The connection was lost; the picture is old.
    Lost {
        /// Why, in words.
        why: String,
        /// Attempts since.
        attempts: u32,
    },
    /// Over; nothing will change any more.
    Ended(ViewError),
}

/// What happened since the owner last looked. Everything but barriers is "newest wins", so it cannot grow.
#[derive(Debug, Default)]
pub struct News {
    /// The status is another one.
    pub status: bool,
    /// The screen has a new size.
    pub geometry: Option<Size>,
    /// The cursor has a new image.
    pub cursor: Option<CursorPixels>,
    /// An application moved the pointer.
    pub cursor_move: Option<(u16, u16)>,
    /// The cursor is shown or hidden.
    pub cursor_show: Option<bool>,
    /// An update completed what was drawn at its time: present now.
    pub frame_end: bool,
    /// Answered barriers.
    pub barriers: Vec<u32>,
}

impl News {
    fn is_worth_waking(&self) -> bool {
        self.status
            || self.frame_end
            || self.geometry.is_some()
            || self.cursor.is_some()
            || self.cursor_move.is_some()
            || self.cursor_show.is_some()
            || !self.barriers.is_empty()
    }
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
    clock: Clock,
    pacer: ResizePacer,
    /// Barrier sent behind the last resize, unanswered.
    resize_barrier: Option<u32>,
    /// Barriers under way.
    barriers_asked: u32,
    window: Size,
    /// The open connection; ends it, even while its writer waits for a full socket.
    closer: Option<Writer>,
    /// Wakes the writer.
    unsent: Arc<Condvar>,
    /// The connection ends as soon as everything has been said.
    leaving: bool,
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

    /// Takes the news out.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Sends an input event; returns its number, or none while there is no connection: input is never kept for later.
    pub fn input(&mut self, event: InputEvent) -> Option<u32> {
        self.is_connected().then(|| {
            let seq = self.viewer.handle_input(event, self.clock.now());
            self.flush();
            seq
        })
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

    /// Everything until now is on the screen.
    pub fn presented(&mut self) {
        if self.is_connected() {
            self.viewer.handle_presented(self.clock.now());
            self.flush();
        }
    }

    fn send_resize(&mut self, size: Size) {
        self.viewer.handle_resize(size);
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
                ViewerEvent::Geometry(size) => {
                    self.news.geometry = Some(size);
                    if let Some(size) = self.pacer.handle_geometry(size) {
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
                // Latencies are read from the stats.
                ViewerEvent::Echo { .. } => {}
            }
        }
        closed
    }
}

impl Client {
    /// Begins to connect; `wake` is called from the client's threads, without the lock held, when there is news.
    pub fn start(config: ClientConfig, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Client> {
        let state = State {
            viewer: new_viewer(config.size),
            status: Status::Connecting,
            news: News::default(),
            connections: 0,
            fresh: None,
            cache: None,
            cache_file: None,
            session_name: None,
            clock: Clock::start(),
            pacer: ResizePacer::default(),
            resize_barrier: None,
            barriers_asked: 0,
            window: config.size,
            closer: None,
            unsent: Arc::default(),
            leaving: false,
            writing: false,
            retry: false,
            stop: false,
            done: false,
        };
        let shared =
            Arc::new(Shared { config, state: Mutex::new(state), changed: Condvar::new(), wake: Box::new(wake) });
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
        state.active().handle_close("the viewer was closed");
        // The goodbye and what waits before it go out first, and then the writer ends the connection.
        state.unsent.notify_all();
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

fn new_viewer(size: Size) -> Viewer {
    Viewer::new(&ViewerConfig {
        name: concat!("thinc-view ", env!("CARGO_PKG_VERSION")).to_owned(),
        size,
        caps: ViewerCaps::RESIZE | ViewerCaps::LOCAL_CURSOR,
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

    /// The network thread: connect, serve, and again.
    fn run(self: &Arc<Self>) {
        let mut options = ConnectOptions {
            timeout: self.config.connect_timeout,
            known_hosts: self.config.known_hosts.clone(),
            session_key: None,
        };
        let mut backoff = Backoff::default();
        loop {
            let error = match thinc_transport::connect(&self.config.link, &options) {
                Ok(connection) => {
                    self.lock().retry = false;
                    options.session_key = Some(connection.session_key.clone());
                    self.open_cache(&connection.pin);
                    let (reader, writer) = connection.split();
                    self.serve(reader, writer, &mut backoff)
                }
                Err(error) => ViewError::Connect(error),
            };
            if self.lock().stop {
                return;
            }
            let come_back =
                self.config.reconnect == Reconnect::Always && options.session_key.is_some() && error.is_passing();
            if !come_back {
                self.set_status(Status::Ended(error));
                return;
            }
            let wait = backoff.next_wait();
            let why = match error {
                // That it is lost, whoever shows it says already.
                ViewError::Lost(why) => why,
                error => error.to_string(),
            };
            self.set_status(Status::Lost { why, attempts: backoff.attempts() });
            if !self.rest(wait) {
                return;
            }
        }
    }

    /// What a server kept here before, when it is first spoken to.
    fn open_cache(&self, pin: &SpkiPin) {
        let options = &self.config.cache;
        let is_first = options.bytes > 0 && self.lock().cache.is_none();
        if is_first {
            let file = CacheFile::new(options, pin, &self.config.link);
            let cache = file.as_ref().map_or_else(|| Cache::new(options.bytes), CacheFile::load);
            let mut state = self.lock();
            (state.cache, state.cache_file) = (Some(cache), file);
        }
    }

    /// Waits out a backoff; false when the viewer was closed meanwhile.
    fn rest(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        while !state.stop {
            if std::mem::take(&mut state.retry) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).expect("no holder of this lock can panic").0;
        }
        false
    }

    /// Serves one connection until it ends, and says why it did.
    fn serve(self: &Arc<Self>, mut reader: impl Read, mut closer: Writer, backoff: &mut Backoff) -> ViewError {
        {
            let mut state = self.lock();
            let mut viewer = new_viewer(state.window);
            if let Some(cache) = state.cache.take() {
                viewer.offer_cache(cache);
            }
            state.fresh = Some(viewer);
            state.closer = Some(closer.clone());
            state.writing = true;
        }
        let writing = std::thread::Builder::new().name("thinc-send".into()).spawn({
            let (shared, writer) = (self.clone(), closer.clone());
            move || shared.write_out(writer)
        });
        let error = match &writing {
            Ok(_) => self.read_in(&mut reader, backoff),
            Err(error) => {
                self.lock().writing = false;
                ViewError::Lost(format!("no thread to write with: {error}"))
            }
        };
        let mut state = self.lock();
        state.leaving = state.stop || matches!(error, ViewError::Protocol(_));
        if state.leaving {
            // Last words wait in viewer-core: goodbye, or what the session did wrong. They go out before the end.
            state.unsent.notify_all();
            let until = Instant::now() + LINGER;
            while state.writing && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                state = self.changed.wait_timeout(state, left).expect("no holder of this lock can panic").0;
            }
        }
        state.leaving = false;
        state.cache = state.active().take_cache();
        state.fresh = None;
        state.closer = None;
        state.resize_barrier = None;
        state.barriers_asked = 0;
        state.pacer = ResizePacer::default();
        state.unsent.notify_all();
        drop(state);
        closer.close();
        if let Ok(thread) = writing {
            assert!(thread.join().is_ok(), "the writer's thread panicked");
        }
        error
    }

    /// Feeds the new connection's viewer; it replaces the old one when it has a screen to show.
    fn read_in(&self, reader: &mut impl Read, backoff: &mut Backoff) -> ViewError {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => return ViewError::Lost("the session closed the connection without a word".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return ViewError::Lost("the connection broke".into());
                }
                Err(error) => return ViewError::Lost(error.to_string()),
            };
            let mut state = self.lock();
            if state.stop {
                return ViewError::Lost("the viewer was closed".into());
            }
            let now = state.clock.now();
            let handled = state.active().handle_bytes(&buffer[..count], now);
            if state.fresh.as_ref().is_some_and(|viewer| viewer.framebuffer().size().area() > 0) {
                state.become_connected();
                backoff.handle_good();
            }
            let closed = if state.fresh.is_some() { state.refused() } else { state.absorb() };
            state.flush();
            let wake = state.news.is_worth_waking();
            drop(state);
            if wake {
                self.announce();
            }
            if let Some(closed) = closed {
                return closed;
            }
            if let Err(error) = handled {
                return ViewError::Protocol(error.to_string());
            }
        }
    }

    /// The writer's thread: says what viewer-core has to say, until the connection is over.
    fn write_out(&self, mut writer: Writer) {
        let mut bytes = Vec::new();
        while self.next_bytes(&mut bytes) && writer.write_all(&bytes).is_ok() {
            bytes.clear();
        }
        // Whatever ended it, the reader must not wait for ever.
        writer.close();
        self.lock().writing = false;
        self.changed.notify_all();
    }

    /// Waits for bytes to send; false when the connection is over, or the viewer closes and has said so.
    fn next_bytes(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        let unsent = state.unsent.clone();
        while state.closer.is_some() {
            if state.active().poll_transmit(into) {
                return true;
            }
            if state.stop || state.leaving {
                return false;
            }
            state = unsent.wait(state).expect("no holder of this lock can panic");
        }
        false
    }
}

impl State {
    /// The fresh connection has a screen: from now on it is the picture.
    fn become_connected(&mut self) {
        self.viewer = self.fresh.take().expect("a fresh connection");
        self.status = Status::Connected;
        self.news.status = true;
        self.connections += 1;
        self.pacer = ResizePacer::default();
        // What the hello asked for may have been overtaken by the window meanwhile.
        let _ = self.pacer.handle_geometry(self.viewer.framebuffer().size());
        if self.window.area() > 0
            && let Some(size) = self.pacer.handle_window(self.window)
        {
            self.send_resize(size);
        }
    }

    /// Why the fresh connection was closed before it had a screen, if it was.
    fn refused(&mut self) -> Option<ViewError> {
        // Its other events are said again by what follows the geometry, or are void with it.
        let viewer = self.fresh.as_mut()?;
        if !viewer.is_closed() {
            return None;
        }
        std::iter::from_fn(|| viewer.poll_event()).find_map(|event| match event {
            ViewerEvent::Closed { code, reason } => Some(ViewError::Closed { code, reason }),
            _ => None,
        })
    }
}
