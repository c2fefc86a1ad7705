//! Beside path 3/13: records a trace of what the driver published and of the pixels it changed
//! (doc/trace.md). From actor.rs, turn by turn, through a bounded queue to a thread that compares,
//! packs and writes. The session never waits for it: turns that do not fit are dropped, and the
//! trace contains a gap event instead.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write};
use std::net::Shutdown;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use thinc_pixels::Snapshot;
use thinc_protocol::Micros;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{
    CursorState, DrawRecord, DrawableId, Framebuffer, RECORD_BYTES, RecordKind, Ring,
};
use thinc_trace::{Delta, EVENT_RECORDS_MAX, EVENT_RECTS_MAX, End, Event, Head, Writer};
use tokio::net::UnixListener;
use tracing::{info, warn};

use crate::connection::{self, Events};

/// Turns that wait to be written, and the bytes of all of them: a second of a full-screen video.
const TURNS_MAX: usize = 1024;
const QUEUED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Turns whose memory is kept for reuse.
const SPARE_MAX: usize = 8;
/// Past so many rectangles the region is simplified to coarser ones: equal pixels are not written
/// anyway.
const DRAWN_RECTS_MAX: usize = 256;
/// 250 ms: what a crash of the session process loses of a trace.
const FLUSH_INTERVAL: Micros = 250_000;
/// How long the end of a session waits for the trace to be finished; the supervisor waits for both.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// Most traces of one session, if its process is restarted again and again.
const FILES_MAX: u32 = 100;
/// Pause after a failed accept: without descriptors the next one would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One turn of the event loop: the records that it read, and the pixels that they drew.
#[derive(Default)]
struct Turn {
    at: Micros,
    events: Vec<Event>,
    records: u64,
    /// The pixels that the records drew, read after them.
    snapshot: Snapshot,
    begin: u64,
    bytes: u64,
}

enum Message {
    Turn(Box<Turn>),
    /// The last message.
    Stop(End),
}

/// What was dropped: the next turn that is written starts with a gap event for it.
#[derive(Default)]
struct Gap {
    records: u64,
    region: Region,
    geometry: Option<Event>,
    cursor: Option<Event>,
}

/// A trace that is being recorded.
pub(crate) struct Recorder {
    turns: SyncSender<Message>,
    spare: Receiver<Box<Turn>>,
    waiting: Arc<AtomicU64>,
    turn: Box<Turn>,
    drawn: Region,
    size: Size,
    gap: Option<Gap>,
    started: Micros,
    /// Disconnects when the thread ends.
    done: Receiver<()>,
}

impl Recorder {
    /// Records to a new file of that name; a restarted session process appends the next free
    /// number.
    pub(crate) fn to_file(path: &Path, now: Micros) -> io::Result<Recorder> {
        for number in 1..=FILES_MAX {
            let mut name = path.as_os_str().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            let name = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name) {
                Ok(file) => {
                    info!("recording a trace to {}", name.display());
                    let last = file.try_clone()?;
                    let (recorder, _) = Recorder::start(file, now, move |result| {
                        if let Err(error) = result.and_then(|()| last.sync_all()) {
                            warn!("the trace {} has ended: {error}", name.display());
                        }
                    })?;
                    return Ok(recorder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Records to a socket, until the reader closes its sending half.
    pub(crate) fn to_stream(stream: UnixStream, now: Micros) -> io::Result<Recorder> {
        let (mut stop_reader, last) = (stream.try_clone()?, stream.try_clone()?);
        let (recorder, stop) = Recorder::start(stream, now, move |result| {
            match result {
                Ok(()) => info!("the trace has ended"),
                // The reader has gone, or its disk is full: it knows itself.
                Err(error) => info!("the trace has ended: {error}"),
            }
            let _ = last.shutdown(Shutdown::Both);
        })?;
        thread::Builder::new().name("trace-stop".into()).spawn(move || {
            // Anything received, even the end, means that the reader wants no more.
            let _ = stop_reader.read(&mut [0]);
            let _ = stop.send(Message::Stop(End::Requested));
        })?;
        Ok(recorder)
    }

    fn start(
        sink: impl Write + Send + 'static,
        now: Micros,
        ended: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> io::Result<(Recorder, SyncSender<Message>)> {
        let (turns, messages) = sync_channel(TURNS_MAX);
        let (spare_sender, spare) = sync_channel(SPARE_MAX);
        let waiting = Arc::new(AtomicU64::new(0));
        let counter = waiting.clone();
        let (running, done) = sync_channel(0);
        thread::Builder::new().name("trace".into()).spawn(move || {
            let _running: SyncSender<()> = running;
            ended(write(sink, &messages, &spare_sender, &counter));
        })?;
        let stop = turns.clone();
        let (turn, drawn, size) = (Box::default(), Region::new(), Size::default());
        Ok((
            Recorder { turns, spare, waiting, turn, drawn, size, gap: None, started: now, done },
            stop,
        ))
    }

    /// True once the trace has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.done.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Adds a record to this turn.
    pub(crate) fn record(&mut self, bytes: &[u8; RECORD_BYTES], record: &DrawRecord) {
        match self.turn.events.last_mut() {
            Some(Event::Records(records)) if records.len() < EVENT_RECORDS_MAX => {
                records.push(*bytes)
            }
            _ => self.turn.events.push(Event::Records(vec![*bytes])),
        }
        self.turn.records += 1;
        if let RecordKind::Draw { dst: DrawableId::SCREEN, rect, .. }
        | RecordKind::Copy { dst: DrawableId::SCREEN, rect, .. } = record.kind
        {
            self.add_drawn(rect);
        }
    }

    fn add_drawn(&mut self, rect: Rect) {
        self.drawn.add_rect(rect.intersect(&self.size.rect()));
        if self.drawn.rect_count() > DRAWN_RECTS_MAX {
            self.drawn = self.drawn.simplified(DRAWN_RECTS_MAX / 4);
        }
    }

    /// Starts a new framebuffer, all of whose pixels are read.
    pub(crate) fn geometry(&mut self, framebuffer: &Framebuffer) {
        let (width, height) = framebuffer.size();
        self.size = Size { width, height };
        self.drawn = self.size.rect().into();
        self.turn
            .events
            .push(Event::Geometry { generation: framebuffer.generation(), size: self.size });
    }

    /// Adds the dirty tiles of an OVERFLOW.
    pub(crate) fn dirty(&mut self, dirty: &Region) {
        self.turn.events.push(Event::Dirty(rects(dirty)));
        dirty.rects().iter().for_each(|rect| self.add_drawn(*rect));
    }

    /// Adds the cursor's state.
    pub(crate) fn cursor(&mut self, cursor: &CursorState) {
        self.turn.events.push(Event::Cursor(cursor.into()));
    }

    /// Ends the turn: reads the pixels that its records drew. False once the trace has ended.
    #[must_use]
    pub(crate) fn end_turn(&mut self, now: Micros, ring: &Ring, framebuffer: &Framebuffer) -> bool {
        if self.turn.events.is_empty() {
            return true;
        }
        let region = match &self.gap {
            // After a change of geometry everything is read anyway.
            Some(gap) if self.drawn.area() < self.size.area() => {
                let mut region = self.drawn.clone();
                region.add(&gap.region);
                region.intersect_rect(&self.size.rect());
                region
            }
            _ => self.drawn.clone(),
        };
        self.turn.bytes = self.turn.records * RECORD_BYTES as u64 + region.area() * 4;
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 && waiting + self.turn.bytes > QUEUED_BYTES_MAX {
            self.drop_turn();
            return true;
        }
        self.insert_gap();
        self.turn.at = now - self.started;
        self.turn
            .snapshot
            .fill(&region, |rect, dst, stride| framebuffer.read_rect(rect, dst, stride));
        // Loaded after the pixels were read: they may contain all operations that it counts.
        self.turn.begin = ring.begin();
        self.drawn.clear();
        let next = self.spare.try_recv().unwrap_or_default();
        let turn = std::mem::replace(&mut self.turn, next);
        self.waiting.fetch_add(turn.bytes, Ordering::Relaxed);
        match self.turns.try_send(Message::Turn(turn)) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(Message::Turn(turn))) => {
                self.waiting.fetch_sub(turn.bytes, Ordering::Relaxed);
                self.drawn = region;
                self.turn = turn;
                self.drop_turn();
                true
            }
            Err(TrySendError::Full(Message::Stop(_))) => {
                unreachable!("only a turn was sent")
            }
        }
    }

    /// Drops this turn, and adds it to the gap.
    fn drop_turn(&mut self) {
        let gap = self.gap.get_or_insert_default();
        let mut undelivered = None;
        for event in self.turn.events.drain(..) {
            match event {
                Event::Geometry { .. } => {
                    gap.geometry = Some(event);
                    gap.region.clear();
                }
                Event::Cursor(_) => gap.cursor = Some(event),
                // A gap event that was not written.
                Event::Gap { records, rects } => undelivered = Some((records, rects)),
                _ => {}
            }
        }
        if let Some((records, rects)) = undelivered {
            gap.records += records;
            rects.into_iter().for_each(|rect| gap.region.add_rect(rect));
        }
        gap.records += std::mem::take(&mut self.turn.records);
        gap.region.add(&self.drawn.take());
        gap.region.intersect_rect(&self.size.rect());
        if gap.region.rect_count() > DRAWN_RECTS_MAX {
            gap.region = gap.region.simplified(DRAWN_RECTS_MAX / 4);
        }
    }

    /// Puts an event for the gap before those of this turn.
    fn insert_gap(&mut self) {
        let Some(gap) = self.gap.take() else { return };
        let event = Event::Gap { records: gap.records, rects: rects(&gap.region) };
        self.turn.events.splice(0..0, gap.geometry.into_iter().chain([event]));
        if !self.turn.events.iter().any(|event| matches!(event, Event::Cursor(_))) {
            self.turn.events.extend(gap.cursor);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The thread ends with the process: wait for it, unless its queue is full because its
        // reader has stopped reading.
        if self.turns.try_send(Message::Stop(End::Session)).is_ok() {
            let _ = self.done.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

fn rects(region: &Region) -> Vec<Rect> {
    if region.rect_count() > EVENT_RECTS_MAX {
        return region.simplified(EVENT_RECTS_MAX / 4).rects().to_vec();
    }
    region.rects().to_vec()
}

/// The thread: writes turns until it is stopped, the session ends, or writing fails.
fn write(
    sink: impl Write,
    messages: &Receiver<Message>,
    spare: &SyncSender<Box<Turn>>,
    waiting: &AtomicU64,
) -> io::Result<()> {
    let mut writer = Writer::new(sink, &Head::default())?;
    let mut delta = Delta::default();
    let mut flushed = 0;
    loop {
        let end = match messages.recv() {
            Ok(Message::Turn(mut turn)) => {
                writer.event(&Event::Poll(turn.at))?;
                for event in turn.events.drain(..) {
                    if let Event::Geometry { size, .. } = event {
                        delta.reset(size);
                    }
                    writer.event(&event)?;
                }
                let mut result = Ok(());
                delta.take(&turn.snapshot, |event| {
                    if result.is_ok() {
                        result = writer.event(&event);
                    }
                });
                result?;
                writer.event(&Event::Read(turn.begin))?;
                if turn.at >= flushed + FLUSH_INTERVAL {
                    flushed = turn.at;
                    writer.flush()?;
                }
                waiting.fetch_sub(turn.bytes, Ordering::Relaxed);
                turn.records = 0;
                // If enough are kept already, this one is freed.
                let _ = spare.try_send(turn);
                continue;
            }
            Ok(Message::Stop(end)) => end,
            Err(_) => End::Session,
        };
        writer.event(&Event::End(end))?;
        return writer.finish().map(drop);
    }
}

/// Listens for trace requests: each connection to this socket is one.
pub(crate) fn listen(path: &Path, events: Events) -> io::Result<()> {
    // A socket of an earlier session process.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder's mode keeps other users out; this mode does so again.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    tokio::spawn(async move {
        let own = rustix::process::geteuid().as_raw();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept a trace request: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let allowed = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
            // The thread that writes it uses blocking calls.
            let blocking = || {
                stream.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream))
            };
            let stream = match allowed.then(blocking) {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    warn!("cannot serve a trace request: {error}");
                    continue;
                }
                None => continue,
            };
            if events.send(connection::Event::Trace(stream)).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Sends the reason why there is no trace, as text that cannot be mistaken for one.
pub(crate) fn refuse(mut stream: &UnixStream, why: &str) {
    // A few bytes fit into a new socket's buffer; a reader that has gone does not need them.
    let _ = stream.write_all(why.as_bytes());
}
