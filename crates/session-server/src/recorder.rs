//! Beside path 3/13: keeps what the driver published and what it changed, while somebody asks for it (doc/trace.md).
//! From actor.rs, look by look at the ring, through a bounded queue to a thread that compares, packs and writes.
//! The session never waits for it: what does not fit is left out, and the trace says so.

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
use thinc_ring::{CursorState, DrawRecord, DrawableId, Framebuffer, RECORD_BYTES, RecordKind, Ring};
use thinc_trace::{Delta, EVENT_RECORDS_MAX, EVENT_RECTS_MAX, End, Event, Head, Writer};
use tokio::net::UnixListener;
use tracing::{info, warn};

use crate::connection::{self, Events};

/// Looks at the ring that wait to be written, and the bytes of all of them: a second of a full-screen video.
const TURNS_MAX: usize = 1024;
const WAITING_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Looks whose memory waits to be used again.
const SPARE_MAX: usize = 8;
/// Past so many rectangles the next pixels are read in coarser ones: equal pixels are not kept anyway.
const COVERED_RECTS_MAX: usize = 256;
/// 250 ms: what a session that dies takes with it.
const FLUSH_TIME: Micros = 250_000;
/// What a session that ends gives the trace to be written to its own; the supervisor waits for both.
const END_TIME: Duration = Duration::from_secs(1);
/// Traces of one session that was started again and again.
const FILES_MAX: u32 = 100;
/// After an accept that failed for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One look at the ring.
#[derive(Default)]
struct Turn {
    at: Micros,
    events: Vec<Event>,
    records: u64,
    /// What the records cover, as it is after them.
    snapshot: Snapshot,
    begin: u64,
    bytes: u64,
}

enum Message {
    Turn(Box<Turn>),
    /// The last one.
    Stop(End),
}

/// What the trace does not hold and has to tell of.
#[derive(Default)]
struct Lost {
    records: u64,
    region: Region,
    geometry: Option<Event>,
    cursor: Option<Event>,
}

/// A recording under way.
pub(crate) struct Recorder {
    turns: SyncSender<Message>,
    spare: Receiver<Box<Turn>>,
    waiting: Arc<AtomicU64>,
    turn: Box<Turn>,
    covered: Region,
    size: Size,
    lost: Option<Lost>,
    began: Micros,
    /// Says nothing, and ends with the thread.
    done: Receiver<()>,
}

impl Recorder {
    /// Into a file of that name; a session process that was started again takes the next free number behind it.
    pub(crate) fn to_file(path: &Path, now: Micros) -> io::Result<Recorder> {
        for number in 1..=FILES_MAX {
            let mut name = path.as_os_str().to_owned();
            if number > 1 {
                name.push(format!(".{number}"));
            }
            let name = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name) {
                Ok(file) => {
                    info!("tracing into {}", name.display());
                    let last = file.try_clone()?;
                    let (recorder, _) = Recorder::start(file, now, move |result| {
                        if let Err(error) = result.and_then(|()| last.sync_all()) {
                            warn!("the trace ends: {}: {error}", name.display());
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

    /// To whoever is at the other end, until they say that it is enough by closing their half.
    pub(crate) fn to_stream(stream: UnixStream, now: Micros) -> io::Result<Recorder> {
        let (mut ear, last) = (stream.try_clone()?, stream.try_clone()?);
        let (recorder, stop) = Recorder::start(stream, now, move |result| {
            match result {
                Ok(()) => info!("the trace has ended"),
                // They have gone, or their disk is full, as they know themselves.
                Err(error) => info!("the trace ends: {error}"),
            }
            let _ = last.shutdown(Shutdown::Both);
        })?;
        thread::Builder::new().name("trace-ear".into()).spawn(move || {
            // The only thing they can say is that they have enough.
            let _ = ear.read(&mut [0]);
            let _ = stop.send(Message::Stop(End::Asked));
        })?;
        Ok(recorder)
    }

    fn start(
        sink: impl Write + Send + 'static,
        now: Micros,
        ended: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> io::Result<(Recorder, SyncSender<Message>)> {
        let (turns, messages) = sync_channel(TURNS_MAX);
        let (give_back, spare) = sync_channel(SPARE_MAX);
        let waiting = Arc::new(AtomicU64::new(0));
        let counter = waiting.clone();
        let (alive, done) = sync_channel(0);
        thread::Builder::new().name("trace".into()).spawn(move || {
            let _alive: SyncSender<()> = alive;
            ended(write(sink, &messages, &give_back, &counter));
        })?;
        let stop = turns.clone();
        let (turn, covered, size) = (Box::default(), Region::new(), Size::default());
        Ok((Recorder { turns, spare, waiting, turn, covered, size, lost: None, began: now, done }, stop))
    }

    /// Nobody takes it any more, or it was enough.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.done.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// A record of this look at the ring.
    pub(crate) fn record(&mut self, bytes: &[u8; RECORD_BYTES], record: &DrawRecord) {
        match self.turn.events.last_mut() {
            Some(Event::Records(records)) if records.len() < EVENT_RECORDS_MAX => records.push(*bytes),
            _ => self.turn.events.push(Event::Records(vec![*bytes])),
        }
        self.turn.records += 1;
        if let RecordKind::Draw { dst: DrawableId::SCREEN, rect, .. }
        | RecordKind::Copy { dst: DrawableId::SCREEN, rect, .. } = record.kind
        {
            self.cover(rect);
        }
    }

    fn cover(&mut self, rect: Rect) {
        self.covered.add_rect(rect.intersect(&self.size.rect()));
        if self.covered.rect_count() > COVERED_RECTS_MAX {
            self.covered = self.covered.simplified(COVERED_RECTS_MAX / 4);
        }
    }

    /// From here on another framebuffer, of which nothing is known.
    pub(crate) fn geometry(&mut self, framebuffer: &Framebuffer) {
        let (width, height) = framebuffer.size();
        self.size = Size { width, height };
        self.covered = self.size.rect().into();
        self.turn.events.push(Event::Geometry { generation: framebuffer.generation(), size: self.size });
    }

    /// The dirty tiles that were taken at an OVERFLOW.
    pub(crate) fn dirty(&mut self, dirty: &Region) {
        self.turn.events.push(Event::Dirty(rects(dirty)));
        dirty.rects().iter().for_each(|rect| self.cover(*rect));
    }

    /// The cursor as viewers are told of it.
    pub(crate) fn cursor(&mut self, cursor: &CursorState) {
        self.turn.events.push(Event::Cursor(cursor.into()));
    }

    /// The look ends: reads what its records cover. False when nobody takes it any more.
    #[must_use]
    pub(crate) fn end_turn(&mut self, now: Micros, ring: &Ring, framebuffer: &Framebuffer) -> bool {
        if self.turn.events.is_empty() {
            return true;
        }
        let region = match &self.lost {
            // A gap in another geometry: all of this one is read anyway.
            Some(lost) if self.covered.area() < self.size.area() => {
                let mut region = self.covered.clone();
                region.add(&lost.region);
                region.intersect_rect(&self.size.rect());
                region
            }
            _ => self.covered.clone(),
        };
        self.turn.bytes = self.turn.records * RECORD_BYTES as u64 + region.area() * 4;
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 && waiting + self.turn.bytes > WAITING_BYTES_MAX {
            self.lose();
            return true;
        }
        self.tell_of_lost();
        self.turn.at = now - self.began;
        self.turn.snapshot.fill(&region, |rect, dst, stride| framebuffer.read_rect(rect, dst, stride));
        // Loaded after the pixels were read: whatever it counts may be in them.
        self.turn.begin = ring.begin();
        self.covered.clear();
        let next = self.spare.try_recv().unwrap_or_default();
        let turn = std::mem::replace(&mut self.turn, next);
        self.waiting.fetch_add(turn.bytes, Ordering::Relaxed);
        match self.turns.try_send(Message::Turn(turn)) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(Message::Turn(turn))) => {
                self.waiting.fetch_sub(turn.bytes, Ordering::Relaxed);
                self.covered = region;
                self.turn = turn;
                self.lose();
                true
            }
            Err(TrySendError::Full(Message::Stop(_))) => unreachable!("a look at the ring was sent"),
        }
    }

    /// Leaves this look out, and keeps what has to be told of it.
    fn lose(&mut self) {
        let lost = self.lost.get_or_insert_default();
        let mut own_gap = None;
        for event in self.turn.events.drain(..) {
            match event {
                Event::Geometry { .. } => {
                    lost.geometry = Some(event);
                    lost.region.clear();
                }
                Event::Cursor(_) => lost.cursor = Some(event),
                // Told, and not taken.
                Event::Gap { records, rects } => own_gap = Some((records, rects)),
                _ => {}
            }
        }
        if let Some((records, rects)) = own_gap {
            lost.records += records;
            rects.into_iter().for_each(|rect| lost.region.add_rect(rect));
        }
        lost.records += std::mem::take(&mut self.turn.records);
        lost.region.add(&self.covered.take());
        lost.region.intersect_rect(&self.size.rect());
        if lost.region.rect_count() > COVERED_RECTS_MAX {
            lost.region = lost.region.simplified(COVERED_RECTS_MAX / 4);
        }
    }

    /// Puts what was left out before what comes now.
    fn tell_of_lost(&mut self) {
        let Some(lost) = self.lost.take() else { return };
        let gap = Event::Gap { records: lost.records, rects: rects(&lost.region) };
        self.turn.events.splice(0..0, lost.geometry.into_iter().chain([gap]));
        if !self.turn.events.iter().any(|event| matches!(event, Event::Cursor(_))) {
            self.turn.events.extend(lost.cursor);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The thread would go with the process. One whose reader has stopped reading is not waited for.
        if self.turns.try_send(Message::Stop(End::Session)).is_ok() {
            let _ = self.done.recv_timeout(END_TIME);
        }
    }
}

fn rects(region: &Region) -> Vec<Rect> {
    if region.rect_count() > EVENT_RECTS_MAX {
        return region.simplified(EVENT_RECTS_MAX / 4).rects().to_vec();
    }
    region.rects().to_vec()
}

/// The thread: until it is told to stop, the session ends, or nothing more can be written.
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
                writer.event(&Event::Turn(turn.at))?;
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
                if turn.at >= flushed + FLUSH_TIME {
                    flushed = turn.at;
                    writer.flush()?;
                }
                waiting.fetch_sub(turn.bytes, Ordering::Relaxed);
                turn.records = 0;
                // Where enough wait already, this one's memory goes.
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

/// Waits for those who want a trace: each connection to this socket is one.
pub(crate) fn listen(path: &Path, events: Events) -> io::Result<()> {
    // Of a session process that died.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // Others are kept out by the folder's mode; this file's own says the same.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    tokio::spawn(async move {
        let own = rustix::process::geteuid().as_raw();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("nobody can ask for a trace: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let allowed = stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0);
            // Its writer is a thread, which may wait.
            let blocking = || stream.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
            let stream = match allowed.then(blocking) {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    warn!("a trace was asked for: {error}");
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

/// Says why there is no trace, in words that cannot be taken for one.
pub(crate) fn refuse(mut stream: &UnixStream, why: &str) {
    // A few bytes fit into a fresh socket; whoever has gone misses them.
    let _ = stream.write_all(why.as_bytes());
}
