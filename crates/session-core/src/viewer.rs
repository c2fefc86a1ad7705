//! Path 5/13 to 10/13: one viewer's queue, updates and flow, and the messages beside them.
//! From session.rs, to transport.
//! Knows one viewer; never another, nor records, pixels or sockets.

mod arrivals;
mod clipboard;
mod commit;
mod held;
mod picture;
mod seen;
mod video;

use std::collections::VecDeque;

use thinc_clipboard::{ClipError, ClipboardPolicy, End, Side};
use thinc_protocol::limits::{NAME_BYTES_MAX, PINGS_MAX, SESSION_FRAME_BYTES_MAX, VIEWER_FRAME_BYTES_MAX};
use thinc_protocol::session::{CacheGrant, Close, CloseCode, SessionCaps, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{Presented, ViewerCaps, ViewerHello};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Rect, Region, Size};

use crate::command_queue::{CommandQueue, Echo, Lane};
use crate::displays::Arrangement;
use crate::drawable::Drawables;
use crate::flow::Flow;
use crate::job::Rereads;
use crate::losses::Losses;
use crate::mutation::{Broken, Mutation};
use crate::packer::Packer;
use crate::pointer::{CursorNews, Pointer};
use crate::quality::{Adaptation, LossyPolicy, VideoPolicy};
use crate::refresh::Refresh;
use crate::scheduler::{Estimate, ITEM_AGE_MAX, JOB_AREA_MAX, Scheduling};
use crate::update::{JobId, PartBytes, SnapshotVerdict, Updates};
use crate::video::{VideoStats, Videos};

use held::Holding;
use picture::Picture;

/// Names a viewer of a session; never used twice in one session process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewerId(pub u32);

/// Why a viewer must go: it broke the protocol or a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no such viewer (it went, and its messages came late).
    #[error("viewer {0} is not connected")]
    Unknown(u32),
    /// A second hello, or what comes beside a stream and never on it.
    #[error("a second hello, or bytes of the stream on the stream")]
    OutOfPlace,
    /// An acknowledgement of what was not sent.
    #[error("update {acked} was acknowledged, but the newest sent is {newest}")]
    AckAhead {
        /// What it said.
        acked: u64,
        /// What was sent.
        newest: u64,
    },
    /// More input than a hand can make.
    #[error("more than {0} input events in a second")]
    InputFlood(u32),
    /// Input that the X server does not take.
    #[error("{0} input events wait for the X server")]
    InputBacklog(usize),
    /// Barriers without end.
    #[error("more than {0} barriers wait")]
    Barriers(usize),
    /// Its use of the clipboard.
    #[error(transparent)]
    Clipboard(#[from] ClipError),
}

/// What became of a job's `verify` and `parts` when they met its pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposals {
    /// Pixels of which the proposal was true.
    pub held: u64,
    /// Pixels of which it was not, although nothing later can have been in them: a fault of the maps or the driver.
    pub refused: u64,
    /// Pixels of which it was not, where something later may have been drawn.
    pub late: u64,
}

/// Figures of one viewer, since it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewerStats {
    /// Updates sent.
    pub updates: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// COPYs sent.
    pub copies: u64,
    /// Pixels committed.
    pub pixels: u64,
    /// Pixels that it showed already when it came back.
    pub held_pixels: u64,
    /// COPYs among them that no client asked for: found in what pixmaps hold.
    pub derived_copies: u64,
    /// Proposals that met their pixels.
    pub proposals: Proposals,
    /// Jobs whose pixels were all equal.
    pub equal_jobs: u64,
    /// Updates that were the first answer to an input.
    pub echoes: u64,
    /// Updates that overtook an earlier one.
    pub overtakes: u64,
    /// Updates that went alone, and all that were lost on the way.
    pub alone: u64,
    /// See there.
    pub lost: u64,
    /// Jobs given up or too large, whose pixels went again.
    pub cancelled: u64,
    /// Times that something committed was taken back: late and drawn anew, or in the way of an answer to a hand.
    pub taken_back: u64,
    /// Smoothed round trip in microseconds, the viewer's work included.
    pub rtt_us: u64,
    /// Best rate lately, in bytes a second.
    pub bytes_per_second: u64,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes that may be.
    pub budget: u64,
    /// What the viewer said last about presenting.
    pub presented: Option<Presented>,
    /// Its videos.
    pub video: VideoStats,
}

/// Most barriers that wait.
pub(crate) const BARRIERS_MAX: usize = 16;
/// Most inputs whose echo is awaited; past it the oldest goes without.
const ARMED_MAX: usize = 16;
/// Least time between two screens that one viewer has sent again because it asked: one that asks without end would
/// otherwise keep a core, and the others waiting.
const REFRESH_PAUSE: Micros = 100_000;
/// How long after its delivery an input may still be answered.
const ECHO_AGE_MAX: Micros = 1_000_000;
/// Least frame limit that is believed; a viewer that says less could not take a COPY.
const FRAME_BYTES_MIN: usize = 16 * 1024;
/// Bytes of an update beside its commands, of a frame beside its body, and what a command takes more that begins a part.
const UPDATE_HEAD_BYTES: usize = 192;
/// Most memory that stays for what is packed next.
const PACKED_BYTES_KEPT: usize = 256 * 1024;
/// Most rectangles that the shadow is to forget; past it they become coarser, which costs equal pixels that are sent.
const FORGET_RECTS_MAX: usize = 128;

#[derive(Debug)]
enum BarrierState {
    /// The driver was asked, and has not answered.
    Asked,
    /// It has: this is what must still be committed, and the job before which all must be sent.
    Draining { region: Region, copies: bool, job_end: JobId },
}

#[derive(Debug)]
struct Barrier {
    viewer_number: u32,
    driver_number: u32,
    state: BarrierState,
    /// The newest update when all that it waits for had left: what of those went alone must be known to have arrived.
    left: Option<u64>,
}

/// What waits beside updates; of everything that has a newest, only the newest.
#[derive(Debug, Default)]
struct Control {
    hello: bool,
    geometry: bool,
    /// The newest that was not said.
    displays: Option<Vec<Rect>>,
    cache: Option<CacheGrant>,
    cursor: CursorNews,
    pongs: VecDeque<u32>,
    close: Option<(CloseCode, String)>,
    closed: bool,
}

/// What session.rs knows and a viewer needs.
pub(crate) struct Screen<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: Size,
    pub(crate) idle: bool,
    pub(crate) pointer: &'a Pointer,
    pub(crate) drawables: &'a Drawables,
    pub(crate) scheduling: Scheduling,
    pub(crate) lossy: LossyPolicy,
    pub(crate) video: VideoPolicy,
    /// Work that waits for the encoders, of all viewers.
    pub(crate) encode_work: Micros,
    pub(crate) clipboard: ClipboardPolicy,
    pub(crate) broken: Broken,
}

#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) id: ViewerId,
    pub(crate) resizes: bool,
    local_cursor: bool,
    /// The screen that it would have, by its displays or its window.
    pub(crate) wanted: Option<Arrangement>,
    /// It has told of displays, and is told of the session's.
    pub(crate) has_displays: bool,
    picture: Picture,
    /// What it still shows of an earlier connection.
    held: Holding,
    version: u16,
    frame_bytes_max: usize,
    area_max: u64,
    pub(crate) queue: CommandQueue,
    pub(crate) updates: Updates,
    pub(crate) flow: Flow,
    losses: Losses,
    pub(crate) quality: Adaptation,
    refresh: Refresh,
    pub(crate) videos: Videos,
    pub(crate) clipboard: End,
    /// Since when a piece of a clipboard's content may leave and has not.
    clip_waits_since: Option<Micros>,
    estimate: Estimate,
    /// What leaves, as the packer made it.
    packed: Vec<u8>,
    scheduling: Scheduling,
    control: Control,
    barriers: Vec<Barrier>,
    armed: VecDeque<Echo>,
    /// It asked for everything again, which it gets at `refresh_from`.
    refresh_waits: bool,
    refresh_from: Micros,
    /// What waited when the open frame began and still does, and when that was; nothing where no frame is open.
    frame_lacks: Region,
    frame_since: Micros,
    /// Some of what it lacked was drawn anew: it will show two pictures in parts, however long it is held back.
    frame_is_mixed: bool,
    /// What the shadow must forget before the next job: of what was planned, what will not be shown.
    forget: Region,
    /// Since when the path has stood: something was late and taken back, and nothing is committed ahead before it moves, or it would
    /// be late too.
    stands_since: Option<Micros>,
    /// A part of the open frame may be sent lossy: the rest is then no sharper.
    frame_is_lossy: bool,
    rereads: Rereads,
    pub(crate) input_second: Micros,
    pub(crate) input_count: u32,
    /// Buttons it holds, one bit each; fingers likewise.
    pub(crate) buttons: u32,
    pub(crate) fingers: u32,
    /// When it last said anything.
    pub(crate) heard: Micros,
    stats: ViewerStats,
    broken: Broken,
}

impl Viewer {
    pub(crate) fn new(id: ViewerId, hello: &ViewerHello, screen: &Screen<'_>, now: Micros) -> Viewer {
        let frame_bytes_max = (hello.frame_bytes_max as usize).clamp(FRAME_BYTES_MIN, SESSION_FRAME_BYTES_MAX);
        // A quarter of the frame for COPYs at 16 bytes a rectangle, the rest for pixels at 4 bytes each.
        let copies_rects_max = frame_bytes_max / 64;
        let mut queue =
            CommandQueue::new(screen.size, copies_rects_max.min(thinc_protocol::limits::RECTS_MAX), screen.broken);
        queue.reset(screen.size, now);
        let mut viewer = Viewer {
            id,
            resizes: hello.caps & ViewerCaps::RESIZE != 0,
            local_cursor: hello.caps & ViewerCaps::LOCAL_CURSOR != 0,
            wanted: Arrangement::one(hello.size),
            has_displays: false,
            picture: Picture::new(screen.broken),
            held: Holding::new(hello.caps, now),
            version: hello.version.min(VERSION),
            frame_bytes_max,
            area_max: JOB_AREA_MAX.min((frame_bytes_max - frame_bytes_max / 4) as u64 / 4),
            queue,
            updates: Updates::new(screen.scheduling, screen.broken),
            flow: Flow::new(now),
            losses: Losses::default(),
            quality: Adaptation::new(hello.caps, screen.lossy),
            refresh: Refresh::new(screen.broken),
            videos: Videos::new(hello.caps, screen.video, frame_bytes_max as u64 / 8 * 7, screen.broken),
            clipboard: End::new(Side::Session, screen.clipboard),
            clip_waits_since: None,
            estimate: Estimate::default(),
            packed: Vec::new(),
            scheduling: screen.scheduling,
            control: Control { hello: true, geometry: true, cursor: CursorNews::all(), ..Control::default() },
            barriers: Vec::new(),
            armed: VecDeque::new(),
            refresh_waits: false,
            refresh_from: now,
            frame_lacks: Region::new(),
            frame_since: now,
            frame_is_mixed: false,
            forget: Region::new(),
            stands_since: None,
            frame_is_lossy: false,
            rereads: Rereads::default(),
            input_second: now,
            input_count: 0,
            buttons: 0,
            fingers: 0,
            heard: now,
            stats: ViewerStats::default(),
            broken: screen.broken,
        };
        viewer.clipboard.set_wanted(hello.caps & ViewerCaps::CLIPBOARD != 0);
        if hello.version == 0 {
            viewer.close(CloseCode::Version, "protocol version 0 does not exist; this session speaks 1");
        }
        viewer
    }

    pub(crate) fn close(&mut self, code: CloseCode, reason: &str) {
        if self.control.close.is_none() {
            self.control.close = Some((code, reason.to_owned()));
        }
    }

    pub(crate) fn grant_cache(&mut self, grant: CacheGrant) {
        self.control.cache = Some(grant);
        self.updates.fates.want();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.control.closed
    }

    /// Where the session's displays lie now, for a viewer that has displays.
    pub(crate) fn tell_displays(&mut self, displays: impl Iterator<Item = Rect>) {
        if self.has_displays {
            self.control.displays = Some(displays.collect());
        }
    }

    /// An input of this viewer reached a window: the first change in it will say so.
    pub(crate) fn arm(&mut self, echo: Echo) {
        if self.armed.len() == ARMED_MAX {
            self.armed.pop_front();
        }
        self.armed.push_back(echo);
    }

    /// The newest input delivered to `window`, once; older ones to it are answered by the same change.
    fn take_echo(&mut self, window: u32, now: Micros) -> Option<Echo> {
        if self.armed.is_empty() {
            return None;
        }
        self.armed.retain(|echo| now.saturating_sub(echo.delivered) <= ECHO_AGE_MAX);
        let answers = |echo: &Echo| echo.window == window || echo.window == 0;
        let newest = self.armed.iter().rev().copied().find(answers)?;
        self.armed.retain(|echo| !answers(echo));
        Some(newest)
    }

    /// What has changed of the cursor, to be told as soon as it may go.
    pub(crate) fn cursor_news(&mut self) -> &mut CursorNews {
        &mut self.control.cursor
    }

    pub(crate) fn pong(&mut self, number: u32) {
        if self.control.pongs.len() == PINGS_MAX {
            self.control.pongs.pop_front();
        }
        self.control.pongs.push_back(number);
    }

    pub(crate) fn acked(&mut self, update: u64, presented: Option<Presented>, now: Micros) -> Result<(), Violation> {
        if update > self.updates.newest_seq {
            return Err(Violation::AckAhead { acked: update, newest: self.updates.newest_seq });
        }
        if presented.is_some() {
            self.stats.presented = presented;
        }
        if update > self.updates.acked_seq {
            self.updates.applied(&(0..=update), |_| {});
            self.videos.acked(update);
            self.flow.acked(update, now);
            self.path_moves(now);
        }
        Ok(())
    }

    /// Something was acknowledged. After a long stand nobody waits any more for the rest of a picture that has left in part: the next
    /// goes whole.
    fn path_moves(&mut self, now: Micros) {
        let long = |since: Micros| now.saturating_sub(since) >= ITEM_AGE_MAX;
        if self.stands_since.take().is_some_and(long) && !self.broken.is(Mutation::PathNeverMoves) {
            self.queue.forget_taken_back();
        }
    }

    /// Something waits to be sent or acknowledged: what the path's transport knows is worth asking for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
            || self.updates.unsent_len() > 0
            || self.flow.in_flight() > 0
            || !self.refresh.is_empty()
            || self.clip_waits_since.is_some()
    }

    /// It lacks pixels and does not say which. However often it says so, it costs one mark.
    pub(crate) fn refresh(&mut self) {
        self.refresh_waits = true;
    }

    fn take_refresh(&mut self, now: Micros) {
        if !self.refresh_waits || now < self.refresh_from {
            return;
        }
        self.refresh_waits = false;
        self.refresh_from = now + REFRESH_PAUSE;
        self.control.cursor = CursorNews::all();
        let screen = Region::from(self.queue.size().rect());
        self.held.forget();
        // Wherever COPYs take it, all of the screen stays all of the screen.
        self.queue.stale(&screen, now);
        self.forget.add(&screen);
        for barrier in &mut self.barriers {
            if let BarrierState::Draining { region, .. } = &mut barrier.state {
                region.add(&screen);
            }
        }
    }

    pub(crate) fn barrier(&mut self, viewer_number: u32, driver_number: u32) -> Result<(), Violation> {
        if self.barriers.len() >= BARRIERS_MAX {
            return Err(Violation::Barriers(BARRIERS_MAX));
        }
        self.barriers.push(Barrier { viewer_number, driver_number, state: BarrierState::Asked, left: None });
        Ok(())
    }

    /// Barriers the driver has not answered, for a driver that is new.
    pub(crate) fn barriers_asked(&self) -> impl Iterator<Item = u32> {
        self.barriers
            .iter()
            .filter(|barrier| matches!(barrier.state, BarrierState::Asked))
            .map(|barrier| barrier.driver_number)
    }

    /// The driver's records up to this barrier are here: what waits now must be sent first.
    pub(crate) fn driver_barrier(&mut self, driver_number: u32) {
        let mut waiting = self.queue.pending();
        // What it shows if the drawable maps are right, it shows for sure once that has been compared.
        waiting.add(self.queue.in_doubt());
        for copy in self.queue.copies() {
            // Should the COPYs be given up, their destinations are pixels to wait for.
            waiting.add(&copy.region);
        }
        for barrier in &mut self.barriers {
            if barrier.driver_number == driver_number && matches!(barrier.state, BarrierState::Asked) {
                barrier.state = BarrierState::Draining {
                    region: waiting.clone(),
                    copies: self.queue.copies().next().is_some(),
                    job_end: self.updates.next_job(),
                };
            }
        }
    }

    pub(crate) fn snapshot(&mut self, job: JobId, begin_before: Option<u64>, tag: u64, now: Micros) -> SnapshotVerdict {
        let Some(update) = self.updates.committed(job) else { return SnapshotVerdict::Keep };
        // Torn pixels are not wrong for long: the op that tore them is still to be translated.
        let moved = begin_before.is_some_and(|before| before != tag);
        // Until then nothing is known of what will be in them.
        if moved && self.rereads.again(job) {
            return SnapshotVerdict::ReadAgain;
        }
        let early = self.videos.read(job, &update.region, tag, self.queue.passed_op());
        self.stale_early(&early, now);
        self.queue.read_done(job.0, tag);
        SnapshotVerdict::Keep
    }

    pub(crate) fn proposals(&mut self, proposals: Proposals) {
        self.stats.proposals.held += proposals.held;
        self.stats.proposals.refused += proposals.refused;
        self.stats.proposals.late += proposals.late;
    }

    pub(crate) fn encode_took(&mut self, job: JobId, pixels: u64, took: Micros) {
        let update = self.updates.committed(job);
        if update.is_some_and(|update| update.video) {
            // A picture's work says nothing of what pixels take.
            return;
        }
        self.quality.encode_took(pixels, took);
        if let Some(update) = update {
            self.quality.work_took(update.region.area(), took);
        }
    }

    /// Some of the job's commands, more are to come. False when the viewer would refuse one of them.
    pub(crate) fn encoding(&mut self, job: JobId, commands: &[u8], now: Micros) -> bool {
        let Some(update) = self.updates.committed(job) else { return true };
        let video = update.video;
        // What does not pack becomes a little longer by it (zstd: a 256th).
        let most = (self.frame_bytes_max - self.frame_bytes_max / 128 - UPDATE_HEAD_BYTES) as u64;
        let bytes = PartBytes { wanted: self.flow.update_bytes(), most };
        let taken = self.updates.encoding(job, commands, self.queue.size(), bytes);
        if taken && video {
            self.videos.came(job, commands, self.queue.size(), now);
        }
        if !taken {
            if !video {
                // The same pixels again, in smaller parts.
                self.area_max = (self.area_max / 2).max(64);
            }
            self.cancelled(job, now);
            if video {
                self.videos.too_long(job, &mut self.queue, now);
            }
        }
        taken
    }

    /// The job's last commands. False when the viewer would refuse one of them.
    pub(crate) fn encoded(&mut self, job: JobId, commands: &[u8], now: Micros) -> bool {
        if !self.encoding(job, commands, now) {
            return false;
        }
        let Some(update) = self.updates.committed(job) else { return true };
        let (area, bytes) = (update.area, update.bytes_on_wire());
        self.estimate.learn(update.kind, area, bytes);
        if update.video {
            self.videos.encoded(job);
        } else {
            self.refresh.encoded(job, bytes);
        }
        self.quality.work_ends(job);
        if let Err(echo) = self.updates.encoded(job) {
            self.stats.equal_jobs += u64::from(area > 0);
            self.refresh.done(job);
            // Nothing changed that could be seen, so the answer to the hand is still to come.
            if let Some(echo) = echo {
                self.arm(echo);
            }
        }
        true
    }

    /// The job's pixels could not be had: they are lacking, and its COPYs go all the same.
    pub(crate) fn cancelled(&mut self, job: JobId, now: Micros) {
        if self.updates.committed(job).is_none() {
            return;
        }
        self.queue.read_cancelled(job.0);
        self.quality.work_ends(job);
        self.videos.cancelled(job);
        if let Some(lacking) = self.updates.cancelled(job) {
            self.stats.cancelled += 1;
            self.lacks(&lacking, now);
        }
        if let Err(Some(echo)) = self.updates.encoded(job) {
            self.arm(echo);
        }
    }

    /// The viewer lacks `region` of what it showed after update `since`.
    pub(crate) fn stale(&mut self, region: &Region, since: u64, now: Micros) {
        self.forget_held(region);
        let lacking = self.updates.follow(region, since).unwrap_or_else(|| Region::from(self.queue.size().rect()));
        self.lacks(&lacking, now);
    }

    /// It lacks this of what it would show after everything committed.
    fn lacks(&mut self, lacking: &Region, now: Micros) {
        self.forget.add(lacking);
        if self.forget.rect_count() > FORGET_RECTS_MAX {
            self.forget = self.forget.simplified(FORGET_RECTS_MAX / 4);
        }
        self.queue.stale_before_copies(lacking, now);
        if self.barriers.is_empty() {
            return;
        }
        let pending = self.queue.pending();
        for barrier in &mut self.barriers {
            // What is sent instead has not left.
            barrier.left = None;
            if let BarrierState::Draining { region, .. } = &mut barrier.state {
                // Wherever it was taken, it is pending now.
                region.add(&pending);
            }
        }
    }

    fn transmit_control(&mut self, screen: &Screen<'_>, now: Micros, out: &mut Vec<u8>) {
        let geometry = self.geometry(screen);
        let control = &mut self.control;
        if std::mem::take(&mut control.hello) {
            let mut name = screen.name.to_owned();
            name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
            let clipboard = if screen.clipboard.take { SessionCaps::CLIPBOARD } else { 0 };
            let caps = clipboard | self.alone_caps();
            let hello =
                SessionHello { version: self.version, caps, name, frame_bytes_max: VIEWER_FRAME_BYTES_MAX as u32 };
            SessionMessage::Hello(hello).encode(out);
        }
        self.transmit_seen(out);
        if self.says_nothing_yet(now) {
            return;
        }
        let control = &mut self.control;
        if std::mem::take(&mut control.geometry) {
            SessionMessage::Geometry(geometry).encode(out);
            self.first_geometry(geometry.size, geometry.shows.map_or(geometry.size.rect(), |shows| shows.part));
        }
        let control = &mut self.control;
        if let Some(displays) = control.displays.take() {
            SessionMessage::Displays(displays).encode(out);
        }
        // Before the first update that keeps anything, which is planned after the grant.
        if let Some(grant) = control.cache.take() {
            SessionMessage::Cache(grant).encode(out);
        }
        while let Some(number) = control.pongs.pop_front() {
            SessionMessage::Pong(number).encode(out);
        }
        // The cursor is replaceable: while the path is full, the newest waits here.
        if self.local_cursor && self.flow.may_send_real_time() {
            control.cursor.transmit(screen.pointer, out);
        }
        self.transmit_clip_control(out);
    }

    /// Appends whole frames as far as the budget goes; true when there were any.
    pub(crate) fn poll_transmit(
        &mut self,
        screen: &Screen<'_>,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        if self.control.closed {
            return false;
        }
        self.transmit_control(screen, now, out);
        self.flow.control_sent((out.len() - start) as u64);
        if let Some((code, reason)) = self.control.close.take() {
            SessionMessage::Close(Close { code, reason: &reason }).encode(out);
            self.control.closed = true;
            return true;
        }
        if self.says_nothing_yet(now) {
            return out.len() > start;
        }
        self.transmit_late_clip(now, out);
        self.repeat(packer, now);
        self.ask_path(packer, now);
        let (epoch, size, mut gone_alone) = (self.picture.epoch, self.queue.size(), 0);
        while let Some(at) = self.updates.next(now).filter(|_| !self.updates.is_full()) {
            let (lane, bytes) = self.updates.next_bytes(at);
            let may_go = self.flow.may_send(bytes, now);
            if !(may_go || lane == Lane::RealTime && self.flow.may_send_real_time()) {
                break;
            }
            if out.len() - start >= self.flow.chunk_bytes() {
                // The shell comes back when this has left; until then it can be overtaken.
                break;
            }
            let before = out.len();
            let alone = self.goes_alone(at, lane, packer.datagram_bytes(), now);
            let Viewer { updates, refresh, videos, stats, estimate, packed, .. } = self;
            let (mut seq, mut ends_frame, mut alone_bytes) = (0, false, 0);
            updates.send(at, now, alone, |leaving| {
                (seq, ends_frame) = (leaving.seq, leaving.end_of_frame);
                stats.updates += 1;
                stats.echoes += u64::from(leaving.echo.is_some());
                stats.overtakes += u64::from(leaving.overtakes);
                videos.ended(leaving.ends, leaving.seq);
                refresh.sent(leaving.job, leaving.commands, size, now);
                if leaving.is_last {
                    refresh.done(leaving.job);
                }
                packed.clear();
                let update = Update {
                    seq,
                    after: leaving.after,
                    epoch,
                    echo: leaving.echo.map(|echo| echo.seq),
                    end_of_frame: leaving.end_of_frame,
                    packed: None,
                    commands: leaving.commands,
                };
                if alone {
                    SessionMessage::Update(update).encode(packed);
                    packer.put_datagram(packed);
                    alone_bytes = packed.len();
                    return leaving.commands.len() as u64;
                }
                // What has nothing to say leans on nothing either.
                let said = !leaving.commands.is_empty() && !leaving.picture;
                let how = if said { packer.pack(leaving.commands, packed) } else { None };
                let commands = if how.is_some() { packed } else { leaving.commands };
                estimate.learn_packed(leaving.kind, leaving.commands.len() as u64, commands.len() as u64);
                SessionMessage::Update(Update { packed: how, commands, ..update }).encode(out);
                commands.len() as u64
            });
            if self.packed.capacity() > PACKED_BYTES_KEPT {
                self.packed = Vec::new();
            }
            let more = !self.queue.is_empty() || self.updates.unsent_len() > 0;
            self.flow.sent(seq, (out.len() - before + alone_bytes) as u64, more, now);
            if alone {
                self.went_alone(seq, lane, now);
                gone_alone += alone_bytes;
            } else if ends_frame {
                // Nothing behind it: what waits in one record for the next frame's first part is seen later, and with that.
                break;
            }
        }
        self.transmit_clips(now, start, out);
        if self.flow.wants_marker() {
            let before = out.len();
            let seq = self.updates.send_marker();
            let end_of_frame = !self.updates.frame_open;
            SessionMessage::Update(Update {
                seq,
                after: 0,
                epoch,
                echo: None,
                end_of_frame,
                packed: None,
                commands: &[],
            })
            .encode(out);
            self.flow.sent(seq, (out.len() - before) as u64, false, now);
        }
        // What a refresh will bring was drawn before any barrier that waits.
        if !self.barriers.is_empty() && !self.videos.is_early() && !self.refresh_waits && !self.picture.is_awaited() {
            let before = out.len();
            self.finish_barriers(out);
            self.flow.control_sent((out.len() - before) as u64);
        }
        let bytes = out.len() - start + gone_alone;
        self.stats.bytes += bytes as u64;
        bytes > 0
    }

    fn finish_barriers(&mut self, out: &mut Vec<u8>) {
        let oldest_unsent = self.updates.unsent().next().map(|update| update.id);
        let nothing_copies = self.queue.copies().next().is_none();
        let (newest, alone) = (self.updates.newest_seq, self.losses.oldest());
        let mut pending = None;
        self.barriers.retain_mut(|barrier| {
            let BarrierState::Draining { region, copies, job_end } = &mut barrier.state else { return true };
            *copies &= !nothing_copies;
            if !*copies && !region.is_empty() {
                // What a COPY has covered since is no longer wanted.
                region.intersect(pending.get_or_insert_with(|| {
                    let mut pending = self.queue.pending();
                    pending.add(self.queue.in_doubt());
                    pending
                }));
            }
            let has_left = region.is_empty() && !*copies && oldest_unsent.is_none_or(|oldest| oldest >= *job_end);
            barrier.left = has_left.then(|| barrier.left.unwrap_or(newest));
            let done = barrier.left.is_some_and(|left| alone.is_none_or(|alone| alone > left));
            if done {
                SessionMessage::Barrier(barrier.viewer_number).encode(out);
            }
            !done
        });
    }

    pub(crate) fn stats(&self) -> ViewerStats {
        ViewerStats {
            rtt_us: self.flow.rtt(),
            bytes_per_second: self.flow.rate(),
            in_flight: self.flow.in_flight(),
            budget: self.flow.budget(),
            video: self.videos.stats(),
            ..self.stats
        }
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
            && self.queue.in_doubt().is_empty()
            && !self.refresh_waits
            && !self.videos.has_news()
            && !self.picture.is_awaited()
            && self.refresh.is_empty()
            && self.updates.unsent_len() == 0
            && self.flow.in_flight() == 0
    }

    pub(crate) fn check_invariants(&self) {
        self.queue.check_invariants();
        self.updates.check_invariants();
        self.flow.check_invariants();
        self.refresh.check_invariants();
        self.videos.check_invariants(&self.queue);
        assert!(self.barriers.len() <= BARRIERS_MAX, "at most {BARRIERS_MAX} barriers wait");
        assert!(self.armed.len() <= ARMED_MAX, "at most {ARMED_MAX} echoes are awaited");
        assert!(self.control.pongs.len() <= PINGS_MAX, "at most {PINGS_MAX} pongs wait");
    }
}
