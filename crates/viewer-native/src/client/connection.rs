//! Path 10/13 and 11/13: beside client.rs; from transport's bytes, to viewer-core, and its words back to transport.
//! One thread connects, reads and comes back after a loss; one per connection writes.
//! Knows ways to a session and when one is over; never what is shown, nor by whom.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_protocol::viewer::ViewerCaps;
use thinc_transport::{Came, ConnectOptions};
use thinc_viewer_core::{Cache, ViewerEvent};

use super::{LINGER, Reconnect, SILENT, Shared, State, Status, USUAL_SCALE, new_viewer, random_number};
use crate::backoff::{self, Backoff};
use crate::error::ViewError;
use crate::resize::ResizePacer;
use crate::saved::CacheFile;
use crate::ssh::{Attempt, Login};
use crate::target::Target;
use crate::watch::{Watch, slept};
use crate::wire::{Reader, Writer};

/// What has come of a session.
enum Bytes<'a> {
    Stream(&'a [u8]),
    Datagram(&'a [u8]),
}

/// 64 KiB: what is taken from the connection at once; the picture is locked while so much is applied.
const READ_BYTES: usize = 64 * 1024;

/// What one connection leaves to the next.
#[derive(Default)]
struct Way {
    /// Opens a port again.
    session_key: Option<Vec<u8>>,
    /// Where the session was, where that has a name.
    peer: Option<SocketAddr>,
    /// The session was reached before.
    was_open: bool,
    /// The last connection ended in silence.
    silent: bool,
}

impl Shared {
    /// The network thread: connect, serve, and again.
    pub(super) fn run(self: &Arc<Self>) {
        let mut way = Way::default();
        let mut backoff = Backoff::default();
        loop {
            let error = match self.open(&mut way) {
                Ok((reader, writer)) => {
                    self.lock().retry = false;
                    self.serve(reader, writer, &way, &mut backoff)
                }
                Err(error) => error,
            };
            let mut state = self.lock();
            state.closer = None;
            if state.stop {
                return;
            }
            way.silent = std::mem::take(&mut state.silent);
            if state.rescue.is_some() {
                continue;
            }
            drop(state);
            let come_back = self.config.reconnect == Reconnect::Always && way.was_open && error.is_passing();
            if !come_back {
                self.set_status(Status::Ended(error));
                return;
            }
            // Where nothing answered, other attempts have been made all the while.
            let longest = match self.config.target {
                Target::Link(_) => backoff::LONGEST,
                Target::Ssh(_) => backoff::LONGEST_BY_SSH,
            };
            let wait = if error.is_unanswered() { backoff.count() } else { backoff.next_wait(longest) };
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

    /// Connects, the way that was named.
    fn open(&self, way: &mut Way) -> Result<(Reader, Writer), ViewError> {
        let halves = match &self.config.target {
            Target::Link(link) => {
                let options = self.options(way);
                let rescue = self.lock().rescue.take();
                let reached = match rescue {
                    Some(reached) => reached,
                    None if way.was_open => self.seek(link, &options, |state| !state.stop)?,
                    None => thinc_transport::reach(link, &options)?,
                };
                self.open_cache(&self.config.target.cache_name(Some(&reached.pin())));
                self.begin(reached.takes_datagrams());
                let mut first = Vec::new();
                self.lock().active().poll_transmit(&mut first);
                // A path that has died again is left soon; a session that has just shaken hands may be busy.
                let limit = if way.was_open { self.patience(&options) } else { options.timeout };
                let connection = reached.enter(&first, limit).inspect_err(|_| self.lock().end_connection())?;
                way.session_key = Some(connection.session_key.clone());
                way.peer = link.host.parse::<IpAddr>().is_err().then_some(connection.peer);
                self.lock().transport = Some(connection.via.name());
                let (reader, writer) = connection.split();
                (Reader::Link(Box::new(reader)), Writer::Link(writer))
            }
            Target::Ssh(target) => {
                let login = Login::start(target, Attempt { again: way.was_open, alone: way.silent })?;
                // The person may close the viewer instead of logging in.
                self.lock().closer = Some(Writer::Ssh(login.writer()));
                let (reader, writer) = login.greet()?;
                self.open_cache(&self.config.target.cache_name(None));
                self.begin(false);
                self.lock().transport = Some("ssh");
                (Reader::Ssh(reader), Writer::Ssh(writer))
            }
        };
        way.was_open = true;
        Ok(halves)
    }

    fn options(&self, way: &Way) -> ConnectOptions {
        ConnectOptions {
            timeout: self.config.connect_timeout,
            known_hosts: self.config.known_hosts.clone(),
            address: way.peer,
            session_key: way.session_key.clone(),
            transport: self.config.transport,
            ..ConnectOptions::default()
        }
    }

    /// What was kept here before under this name, when a session is first spoken to.
    fn open_cache(&self, name: &str) {
        let options = &self.config.cache;
        let is_first = options.bytes > 0 && self.lock().cache.is_none();
        if is_first {
            let file = CacheFile::new(options, name);
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

    /// Makes the viewer of the next connection, over the picture of the last.
    fn begin(&self, takes_datagrams: bool) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let alone = if takes_datagrams { ViewerCaps::ALONE } else { 0 };
        let mut viewer = new_viewer(state.window, self.config.clipboard, alone);
        state.clipboard.begin(&mut viewer);
        viewer.set_instance(state.instance);
        viewer.set_video_layers(state.video_layers);
        viewer.lie_over(&mut state.viewer, random_number());
        if let Some(cache) = state.cache.take() {
            viewer.offer_cache(cache);
        }
        if let Some(view) = state.view {
            viewer.set_view(view);
        }
        if let Some(layout) = &state.layout {
            viewer.set_layout(layout.clone());
        }
        state.fresh = Some(viewer);
    }

    /// Serves one connection until it ends, and says why it did.
    fn serve(self: &Arc<Self>, mut reader: Reader, mut closer: Writer, way: &Way, backoff: &mut Backoff) -> ViewError {
        {
            let mut state = self.lock();
            state.watch = Watch::new(slept());
            state.closer = Some(closer.clone());
            state.serving += 1;
            state.writing = true;
        }
        let writing = std::thread::Builder::new().name("thinc-send".into()).spawn({
            let (shared, writer) = (self.clone(), closer.clone());
            move || shared.write_out(writer)
        });
        if let Target::Link(link) = &self.config.target
            && self.config.reconnect == Reconnect::Always
        {
            self.stand_by(link, self.options(way));
        }
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
        state.end_connection();
        state.closer = None;
        state.resize_barrier = None;
        state.barriers_asked = 0;
        state.pacer = ResizePacer::default();
        state.unsent.notify_all();
        drop(state);
        self.changed.notify_all();
        // Where the path has died this has been done more thoroughly.
        closer.close();
        if let Ok(thread) = writing {
            assert!(thread.join().is_ok(), "the writer's thread panicked");
        }
        error
    }

    /// Feeds the new connection's viewer; it replaces the old one when it has a screen to show.
    fn read_in(&self, reader: &mut Reader, backoff: &mut Backoff) -> ViewError {
        let mut buffer = vec![0; READ_BYTES];
        let mut datagram;
        loop {
            let mut came = match reader.next(&mut buffer) {
                Ok(Came::Bytes(count @ 1..)) => Bytes::Stream(&buffer[..count]),
                Ok(Came::Datagram(bytes)) => {
                    datagram = bytes;
                    Bytes::Datagram(&datagram)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(Came::Bytes(0)) => return self.why_lost(Ok(())),
                Err(error) => return self.why_lost(Err(error)),
            };
            loop {
                match self.apply(std::mem::replace(&mut came, Bytes::Stream(&[])), backoff) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return error,
                }
            }
        }
    }

    /// Applies what came, up to the end of a picture; true when there may be more.
    fn apply(&self, came: Bytes<'_>, backoff: &mut Backoff) -> Result<bool, ViewError> {
        let mut state = self.lock_for_next();
        if state.stop {
            return Err(ViewError::Lost("the viewer was closed".into()));
        }
        let now = state.clock.now();
        state.news.status |= state.watch.handle_heard();
        let handled = match came {
            Bytes::Stream(bytes) => state.active().handle_picture(bytes, now),
            Bytes::Datagram(bytes) => state.active().handle_datagram(bytes, now).map(|()| false),
        };
        if state.fresh.as_ref().is_some_and(|viewer| viewer.framebuffer().size().area() > 0) {
            state.become_connected();
            backoff.handle_good();
        }
        let closed = if state.fresh.is_some() { state.refused() } else { state.absorb() };
        state.flush();
        if state.viewer.has_video() {
            state.video_due.notify_one();
        }
        let wake = state.news.is_worth_waking();
        drop(state);
        if wake {
            self.announce();
        }
        match closed {
            Some(closed) => Err(closed),
            None => handled.map_err(|error| ViewError::Protocol(error.to_string())),
        }
    }

    /// Why nothing more comes.
    fn why_lost(&self, ended: io::Result<()>) -> ViewError {
        ViewError::Lost(match ended {
            _ if self.lock().silent => SILENT.to_owned(),
            Ok(()) => "the session closed the connection without a word".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the connection broke".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    /// The writer's thread: says what viewer-core has to say, until the connection is over.
    fn write_out(&self, mut writer: Writer) {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        while self.next_bytes(&mut bytes, &mut datagram) {
            if !datagram.is_empty() {
                writer.send_datagram(&datagram);
                datagram.clear();
            }
            if writer.write_all(&bytes).is_err() {
                break;
            }
            bytes.clear();
        }
        // Whatever ended it, the reader must not wait for ever.
        writer.close();
        self.lock().writing = false;
        self.changed.notify_all();
    }

    /// Waits for bytes to send; false when the connection is over, or the viewer closes and has said so.
    fn next_bytes(&self, into: &mut Vec<u8>, datagram: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        let unsent = state.unsent.clone();
        while state.closer.is_some() {
            let alone = state.active().poll_datagram(datagram);
            if state.active().poll_transmit(into) || alone {
                return true;
            }
            if state.stop || state.leaving {
                return false;
            }
            let was_quiet = state.watch.is_quiet();
            state.check_path();
            if state.silent {
                return false;
            }
            if state.watch.is_quiet() != was_quiet {
                drop(state);
                self.announce();
                state = self.lock();
                continue;
            }
            let now = state.clock.now();
            let since = state.active().unanswered_since();
            let silent_at = state.watch.ends_at(since).into_iter().chain(state.quiet_at());
            let deadline = state.active().poll_deadline();
            state = match deadline.into_iter().chain(silent_at).min() {
                None => unsent.wait(state).expect("no holder of this lock can panic"),
                Some(at) if at <= now => {
                    state.active().handle_timeout(now);
                    // What was waited for in vain is an event; the session has said nothing.
                    let _ = if state.is_connected() { state.absorb() } else { None };
                    if state.news.is_worth_waking() {
                        drop(state);
                        self.announce();
                        self.lock()
                    } else {
                        state
                    }
                }
                Some(at) => {
                    let left = Duration::from_micros(at - now);
                    unsent.wait_timeout(state, left).expect("no holder of this lock can panic").0
                }
            };
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
        self.scale_said = false;
        self.displays.clear();
        if self.scale_percent == USUAL_SCALE && self.arrangement.is_empty() {
            let _ = self.pacer.handle_geometry(self.viewer.framebuffer().size());
        }
        if self.window.area() > 0
            && let Some(size) = self.pacer.handle_window(self.window)
        {
            self.send_resize(size);
        }
    }

    /// What the connection leaves to the next.
    fn end_connection(&mut self) {
        self.cache = self.active().take_cache();
        if let Some(mut fresh) = self.fresh.take() {
            self.viewer.take_typed(&mut fresh);
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
