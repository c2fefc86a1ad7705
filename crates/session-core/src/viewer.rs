//! Path 5/13 to 10/13: one viewer's queue, updates and flow, and its other messages.
//! From session.rs, to transport.
//! Knows one viewer; never another viewer, records, pixels or sockets.

mod background;
mod barriers;
mod commit;
mod delivery;
mod echoes;
mod figures;
mod frames;
mod limits;
mod microphone;
mod people;
mod received;
mod resync;
mod retained;
mod sizes;
mod sound;
mod video;
mod view;

use std::collections::VecDeque;

use thinc_clipboard::{ClipError, ClipboardPolicy, Endpoint, Side};
use thinc_files::{FileError, FilesPolicy};
use thinc_protocol::commands::Commands;
use thinc_protocol::limits::{NAME_BYTES_MAX, PINGS_MAX, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::{
    CacheGrant, Close, CloseCode, SessionCaps, SessionHello, SessionMessage, Update,
};
use thinc_protocol::viewer::{KeyboardLayout, Presented, ViewerCaps, ViewerHello};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Rect, Region, Size};

use crate::delivery::Delivery;
use crate::delivery::ledger::{JobId, PartBytes, Written};
use crate::delivery::packer::Packer;
use crate::figures::Figures;
use crate::input::keyboard::Locks;
use crate::input::pointer::{CursorChanges, Pointer};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::quality::refresh::Refresh;
use crate::quality::{Adaptation, LossyPolicy, VideoPolicy};
use crate::queue::command_queue::{CommandQueue, Echo, Lane};
use crate::queue::scheduler::{ITEM_AGE_MAX, Scheduling, SizeEstimate};
use crate::rights::Rights;
use crate::screen::displays::Arrangement;
use crate::screen::drawable::Drawables;
use crate::session::Rendered;
use crate::video::{VideoStats, Videos};

use background::Background;
pub(crate) use barriers::BARRIERS_MAX;
use barriers::Barriers;
use echoes::Echoes;
use frames::Frames;
use limits::Limits;
use microphone::MicrophoneLane;
pub(crate) use people::PeopleNews;
use people::Told;
use resync::Resync;
use retained::Retained;
use sizes::Sizes;
use sound::SoundLane;
use view::ViewState;

/// Identifies a viewer of a session; never reused in one session process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewerId(pub u32);

/// Why a viewer is disconnected: it broke the protocol or a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no such viewer: it has left, and its message arrived late.
    #[error("viewer {0} is not connected")]
    Unknown(u32),
    /// A second hello, or a message that only datagrams may carry.
    #[error("a second hello, or a message that belongs in a datagram")]
    OutOfPlace,
    /// An acknowledgement of an update that was not sent.
    #[error("update {acked} was acknowledged, but the newest sent is {newest}")]
    AckAhead {
        /// The acknowledged update.
        acked: u64,
        /// The newest update that was sent.
        newest: u64,
    },
    /// More input than a person can make.
    #[error("more than {0} input events in a second")]
    InputFlood(u32),
    /// More messages than a viewer has reason to send.
    #[error("more than {0} messages in a second, for seconds")]
    MessageFlood(u32),
    /// Input that the X server does not take.
    #[error("{0} input events wait for the X server")]
    InputBacklog(usize),
    /// Too many barriers.
    #[error("more than {0} barriers wait")]
    Barriers(usize),
    /// Messages of sound in a session without it, or by a viewer without it.
    #[error("a message of sound, which was not announced")]
    Sound,
    /// A microphone that the session does not want.
    #[error("a message of a microphone, which is not wanted")]
    Microphone,
    /// More of it than one that is heard.
    #[error("more than {0} packets of a microphone in a second, for seconds")]
    MicrophoneFlood(u32),
    /// A clipboard error.
    #[error(transparent)]
    Clipboard(#[from] ClipError),
    /// Wrong messages about files.
    #[error(transparent)]
    Files(#[from] FileError),
}

/// How a job's `verify` and `parts` compare with its pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProposalStats {
    /// Pixels for which the proposal was right.
    pub confirmed: u64,
    /// Pixels for which it was wrong although no later op can have changed them: a fault of the
    /// maps or the driver.
    pub refuted: u64,
    /// Pixels for which it was wrong, but a later op may have changed them.
    pub late: u64,
}

/// Statistics of one viewer, since it connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewerStats {
    /// Updates sent.
    pub updates: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// COPYs sent.
    pub copies: u64,
    /// Pixels committed.
    pub pixels: u64,
    /// Pixels that the viewer retained from an earlier connection.
    pub retained_pixels: u64,
    /// COPYs that no application made: derived from the contents of pixmaps.
    pub derived_copies: u64,
    /// Proposals compared with pixels.
    pub proposals: ProposalStats,
    /// Jobs whose pixels were all equal.
    pub equal_jobs: u64,
    /// Updates that were the first response to an input.
    pub echoes: u64,
    /// Updates that overtook an earlier one.
    pub overtakes: u64,
    /// Updates sent as datagrams.
    pub datagrams: u64,
    /// Updates lost on the path.
    pub lost: u64,
    /// Jobs cancelled or too large, whose pixels were committed again.
    pub cancelled: u64,
    /// Times that committed updates were withdrawn: late and redrawn, or in the way of an input
    /// response.
    pub withdrawn: u64,
    /// Smoothed round trip in microseconds, including the viewer's work.
    pub rtt_us: u64,
    /// Best recent rate, in bytes a second.
    pub bytes_per_second: u64,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
    /// Most bytes that may be in flight.
    pub budget: u64,
    /// The viewer's last report about presenting.
    pub presented: Option<Presented>,
    /// Its videos.
    pub video: VideoStats,
    /// Packets of sound sent.
    pub sounds: u64,
}

/// Bytes of an update beside its commands, of a message beside its body, and of the longer first
/// command of a part.
const UPDATE_HEAD_BYTES: usize = 192;
/// Largest packing buffer that is kept.
const PACKED_BYTES_KEPT: usize = 256 * 1024;
/// Most rectangles that the shadow is to forget. Past it they become coarser, which sends some
/// equal pixels.
const FORGET_RECTS_MAX: usize = 128;

/// Messages that wait beside updates; of replaceable ones only the newest.
#[derive(Debug, Default)]
struct Control {
    hello: bool,
    geometry: bool,
    /// The newest arrangement that was not sent.
    displays: Option<Vec<Rect>>,
    cache: Option<CacheGrant>,
    cursor: CursorChanges,
    pongs: VecDeque<u32>,
    close: Option<(CloseCode, String)>,
    closed: bool,
}

/// What session.rs knows and a viewer needs.
pub(crate) struct SessionContext<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: Size,
    pub(crate) idle: bool,
    pub(crate) pointer: &'a Pointer,
    pub(crate) drawables: &'a Drawables,
    pub(crate) scheduling: Scheduling,
    pub(crate) lossy: LossyPolicy,
    pub(crate) video: VideoPolicy,
    pub(crate) has_sound: bool,
    pub(crate) wants_microphones: bool,
    /// Estimated encoding time of the jobs of all viewers.
    pub(crate) encode_work: Micros,
    pub(crate) clipboard: ClipboardPolicy,
    pub(crate) files: FilesPolicy,
    #[cfg(feature = "mutations")]
    pub(crate) mutation: Option<Mutation>,
}

/// What a viewer's input devices do.
#[derive(Debug)]
pub(crate) struct InputState {
    /// Buttons it holds, one bit each; fingers likewise.
    pub(crate) buttons: u32,
    pub(crate) fingers: u32,
    /// What it reported of its keyboard last.
    pub(crate) layout: Option<KeyboardLayout>,
    pub(crate) locks: Option<Locks>,
    /// Where its pointer is, pixels of the screen; None until it has moved.
    pub(crate) pointer_at: Option<(u16, u16)>,
    /// When it last sent a message.
    pub(crate) heard_at: Micros,
    /// When the driver was last told which keys it still holds.
    pub(crate) held_at: Micros,
}

#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) id: ViewerId,
    pub(crate) rights: Rights,
    /// Its program can control the size, if its rights allow it.
    pub(crate) resizes: bool,
    local_cursor: bool,
    /// What it is told of the session and the others.
    pub(crate) told: Told,
    /// The screen it asks for, by its displays or its window.
    pub(crate) wanted: Option<Arrangement>,
    /// It has reported displays, and is told the session's.
    pub(crate) has_displays: bool,
    view: ViewState,
    /// What it retained from an earlier connection.
    retained: Retained,
    version: u16,
    sizes: Sizes,
    pub(crate) queue: CommandQueue,
    pub(crate) delivery: Delivery,
    pub(crate) quality: Adaptation,
    refresh: Refresh,
    pub(crate) videos: Videos,
    pub(crate) clipboard: Endpoint,
    /// If it plays the session's sound.
    sound: Option<SoundLane>,
    /// If it may give a microphone.
    pub(crate) microphone: Option<MicrophoneLane>,
    /// Its end of the files channel, and what else is sent behind the display.
    pub(crate) background: Background,
    estimate: SizeEstimate,
    /// The packer's output.
    packed: Vec<u8>,
    scheduling: Scheduling,
    control: Control,
    barriers: Barriers,
    echoes: Echoes,
    frames: Frames,
    resync: Resync,
    limits: Limits,
    /// What the shadow must forget before the next job: planned pixels that the viewer will not
    /// show.
    forget: Region,
    /// Since when the path is stalled: a late update was withdrawn. Nothing is committed ahead
    /// until an acknowledgement arrives, or it would be late too.
    stalled_since: Option<Micros>,
    pub(crate) rendered: Rendered,
    pub(crate) input: InputState,
    stats: ViewerStats,
    figures: Figures,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Viewer {
    pub(crate) fn new(
        id: ViewerId,
        hello: &ViewerHello,
        screen: &SessionContext<'_>,
        rights: Rights,
        now: Micros,
    ) -> Viewer {
        let sizes = Sizes::new(hello.message_bytes_max);
        let mut queue = CommandQueue::new(screen.size, sizes.copies_rects_max());
        queue.reset(screen.size, now);
        let mut viewer = Viewer {
            id,
            rights,
            resizes: hello.caps & ViewerCaps::RESIZE != 0,
            local_cursor: hello.caps & ViewerCaps::LOCAL_CURSOR != 0,
            told: Told::new(hello.caps),
            wanted: Arrangement::one(hello.size),
            has_displays: false,
            view: ViewState::new(),
            retained: Retained::new(hello.caps, now),
            version: hello.version.min(VERSION),
            sizes,
            queue,
            delivery: Delivery::new(screen.scheduling, now),
            quality: Adaptation::new(hello.caps, screen.lossy),
            refresh: Refresh::default(),
            videos: Videos::new(hello.caps, screen.video, sizes.frame_bytes_max()),
            clipboard: Endpoint::new(Side::Session, rights.clipboard(screen.clipboard)),
            sound: SoundLane::new(hello.caps, screen.has_sound && rights.sound),
            microphone: MicrophoneLane::new(
                hello.caps,
                screen.wants_microphones && rights.microphone,
            ),
            background: Background::new(rights.files(screen.files, hello.caps), hello.caps),
            estimate: SizeEstimate::default(),
            packed: Vec::new(),
            scheduling: screen.scheduling,
            control: Control {
                hello: true,
                geometry: true,
                cursor: CursorChanges::all(),
                ..Control::default()
            },
            barriers: Barriers::default(),
            echoes: Echoes::default(),
            frames: Frames::default(),
            resync: Resync::new(now),
            limits: Limits::new(now),
            forget: Region::new(),
            stalled_since: None,
            rendered: Rendered::default(),
            input: InputState {
                buttons: 0,
                fingers: 0,
                layout: None,
                locks: None,
                pointer_at: None,
                heard_at: now,
                held_at: now,
            },
            stats: ViewerStats::default(),
            figures: Figures::default(),
            #[cfg(feature = "mutations")]
            mutation: screen.mutation,
        };
        #[cfg(feature = "mutations")]
        viewer.set_mutation(screen.mutation);
        viewer.clipboard.set_offers_wanted(hello.caps & ViewerCaps::CLIPBOARD != 0);
        if hello.version == 0 {
            viewer.close(
                CloseCode::Version,
                "protocol version 0 does not exist; this session speaks 1",
            );
        }
        viewer
    }

    #[cfg(feature = "mutations")]
    fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.queue.set_mutation(mutation);
        self.delivery.ledger.set_mutation(mutation);
        self.refresh.set_mutation(mutation);
        self.videos.set_mutation(mutation);
    }

    pub(crate) fn close(&mut self, code: CloseCode, reason: &str) {
        if self.control.close.is_none() {
            self.control.close = Some((code, reason.to_owned()));
        }
    }

    pub(crate) fn grant_cache(&mut self, grant: CacheGrant) {
        self.control.cache = Some(grant);
        self.delivery.ledger.outcomes.want();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.control.closed
    }

    /// Queues the session's displays, for a viewer that reported displays.
    pub(crate) fn queue_displays(&mut self, displays: impl Iterator<Item = Rect>) {
        if self.has_displays {
            self.control.displays = Some(displays.collect());
        }
    }

    /// An input of this viewer reached a window: the first change in it is its echo.
    pub(crate) fn await_echo(&mut self, echo: Echo) {
        self.echoes.await_echo(echo);
    }

    /// The cursor changes to be sent.
    pub(crate) fn cursor_changes(&mut self) -> &mut CursorChanges {
        &mut self.control.cursor
    }

    pub(crate) fn pong(&mut self, number: u32) {
        if self.control.pongs.len() == PINGS_MAX {
            self.control.pongs.pop_front();
        }
        self.control.pongs.push_back(number);
    }

    pub(crate) fn acked(
        &mut self,
        update: u64,
        presented: Option<Presented>,
        now: Micros,
    ) -> Result<(), Violation> {
        if update > self.delivery.ledger.acked_seq {
            self.applied(&(0..=update), true, now)?;
            self.videos.acked(update);
        }
        if presented.is_some() {
            self.stats.presented = presented;
        }
        Ok(())
    }

    /// An acknowledgement arrived. After a long stall the rest of a partly sent area no longer goes
    /// first: the next one is sent whole.
    fn path_progressed(&mut self, now: Micros) {
        let long = |since: Micros| now.saturating_sub(since) >= ITEM_AGE_MAX;
        if self.stalled_since.take().is_some_and(long)
            && !mutated!(self.mutation, WithdrawnStaysFirst)
        {
            self.queue.forget_withdrawn();
        }
    }

    /// Something of the screen waits to be sent, other than the refresh of lossy pixels.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.queue.is_empty() || self.delivery.ledger.unsent_len() > 0
    }

    /// Something waits to be sent or acknowledged, so the transport's statistics are of use.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_unsent()
            || self.delivery.flow.in_flight() > 0
            || !self.refresh.is_empty()
            || self.background.waits()
            || self.sound.as_ref().is_some_and(SoundLane::has_waiting)
    }

    /// Counts a message.
    pub(crate) fn count_message(&mut self, now: Micros) -> Result<(), Violation> {
        self.limits.count_message(now)
    }

    /// Counts an input event.
    pub(crate) fn count_input(&mut self, now: Micros) -> Result<(), Violation> {
        self.limits.count_input(now)
    }

    /// It lacks pixels and does not name them. Repeating this costs nothing.
    pub(crate) fn request_resync(&mut self) {
        self.resync.request();
    }

    fn take_resync(&mut self, now: Micros) {
        if !self.resync.take(now) {
            return;
        }
        self.control.cursor = CursorChanges::all();
        let screen = Region::from(self.queue.size().rect());
        self.retained.forget();
        // COPYs within the whole screen leave it the whole screen.
        self.queue.stale(&screen, now);
        self.forget.add(&screen);
        self.barriers.wait_for(&screen);
    }

    /// The job's pixels were read; they may contain every op up to `tag`.
    pub(crate) fn snapshot(&mut self, job: JobId, tag: u64, now: Micros) {
        let Some(update) = self.delivery.ledger.committed(job) else { return };
        let uncertain = self.videos.read(job, &update.region, tag, self.queue.passed_op());
        self.mark_uncertain_stale(&uncertain, now);
        self.queue.read_done(job.0, tag);
    }

    pub(crate) fn proposals(&mut self, proposals: ProposalStats) {
        self.stats.proposals.confirmed += proposals.confirmed;
        self.stats.proposals.refuted += proposals.refuted;
        self.stats.proposals.late += proposals.late;
    }

    pub(crate) fn encode_took(&mut self, job: JobId, pixels: u64, took: Micros) {
        self.figures.encode.observe(took);
        let update = self.delivery.ledger.committed(job);
        if update.is_some_and(|update| update.video) {
            // The time for a frame of a video tells nothing about pixels.
            return;
        }
        self.quality.encode_took(pixels, took);
        if let Some(update) = update {
            self.quality.work_took(update.region.area(), took);
        }
    }

    /// Some of the job's commands; more follow. False if the viewer would refuse one of them.
    pub(crate) fn encoding(&mut self, job: JobId, commands: &Commands, now: Micros) -> bool {
        let Some(update) = self.delivery.ledger.committed(job) else { return true };
        let video = update.video;
        let most = self.sizes.commands_bytes_max();
        let bytes = PartBytes { wanted: self.delivery.flow.update_bytes(), most };
        let taken = self.delivery.ledger.encoding(job, commands, bytes);
        if taken && video {
            self.videos.frame_encoded(job, commands, now);
        }
        if !taken {
            if !video {
                // The same pixels again, in smaller jobs.
                self.sizes.halve_area();
            }
            self.cancelled(job, now);
            if video {
                self.videos.too_long(job, &mut self.queue, now);
            }
        }
        taken
    }

    /// The job's last commands.
    pub(crate) fn encoded(&mut self, job: JobId, commands: &Commands, now: Micros) {
        if !self.encoding(job, commands, now) {
            return;
        }
        let Some(update) = self.delivery.ledger.committed(job) else { return };
        let (area, bytes) = (update.area, update.bytes_on_wire());
        self.estimate.learn(update.kind, area, bytes);
        if update.video {
            self.videos.encoded(job);
        } else {
            self.refresh.encoded(job, bytes);
        }
        self.quality.work_ends(job);
        if let Err(echo) = self.delivery.ledger.encoded(job) {
            self.stats.equal_jobs += u64::from(area > 0);
            self.refresh.done(job);
            // Nothing visible changed, so the echo is still to come.
            if let Some(echo) = echo {
                self.await_echo(echo);
            }
        }
    }

    /// The job's pixels are unavailable: they are stale, and its COPYs are sent all the same.
    pub(crate) fn cancelled(&mut self, job: JobId, now: Micros) {
        if self.delivery.ledger.committed(job).is_none() {
            return;
        }
        self.queue.read_cancelled(job.0);
        self.quality.work_ends(job);
        self.videos.cancelled(job);
        if let Some(stale) = self.delivery.ledger.cancelled(job) {
            self.stats.cancelled += 1;
            self.mark_stale(&stale, now);
        }
        if let Err(Some(echo)) = self.delivery.ledger.encoded(job) {
            self.await_echo(echo);
        }
    }

    /// The viewer lacks `region` of what it showed after update `since`.
    pub(crate) fn stale(&mut self, region: &Region, since: u64, now: Micros) {
        self.forget_retained(region);
        let stale = self
            .delivery
            .ledger
            .follow(region, since)
            .unwrap_or_else(|| Region::from(self.queue.size().rect()));
        self.mark_stale(&stale, now);
    }

    /// The viewer lacks these pixels of what it would show after everything committed.
    fn mark_stale(&mut self, stale: &Region, now: Micros) {
        self.forget.add(stale);
        if self.forget.rect_count() > FORGET_RECTS_MAX {
            self.forget = self.forget.simplified(FORGET_RECTS_MAX / 4);
        }
        self.queue.stale_before_copies(stale, now);
        if self.barriers.is_empty() {
            return;
        }
        self.barriers.sent_again(&self.queue.pending());
    }

    fn transmit_control(&mut self, screen: &SessionContext<'_>, now: Micros, out: &mut Vec<u8>) {
        let geometry = self.geometry(screen);
        let control = &mut self.control;
        if std::mem::take(&mut control.hello) {
            let mut name = screen.name.to_owned();
            name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
            let clipboard = if screen.clipboard.take { SessionCaps::CLIPBOARD } else { 0 };
            let relative = if self.told.relative.is_some() { SessionCaps::RELATIVE } else { 0 };
            let files = self.rights.files_caps(screen.files, self.background.caps());
            let sound = self.sound_caps() | self.microphone_caps();
            let caps = clipboard | relative | self.datagram_caps() | sound | files;
            let hello = SessionHello {
                version: self.version,
                caps,
                name,
                message_bytes_max: VIEWER_MESSAGE_BYTES_MAX as u32,
            };
            SessionMessage::Hello(hello).encode(out);
        }
        self.transmit_input_received(out);
        if self.awaits_resumption(now) {
            return;
        }
        let control = &mut self.control;
        if std::mem::take(&mut control.geometry) {
            SessionMessage::Geometry(geometry).encode(out);
            self.first_geometry(
                geometry.size,
                geometry.shown.map_or(geometry.size.rect(), |shown| shown.part),
            );
        }
        let control = &mut self.control;
        if let Some(displays) = control.displays.take() {
            SessionMessage::Displays(displays).encode(out);
        }
        // Before the first update that fills the cache, which is planned after the grant.
        if let Some(grant) = control.cache.take() {
            SessionMessage::Cache(grant).encode(out);
        }
        while let Some(number) = control.pongs.pop_front() {
            SessionMessage::Pong(number).encode(out);
        }
        // The cursor is replaceable: while the path is full, the newest waits here.
        if self.local_cursor && self.delivery.flow.may_send_real_time() {
            control.cursor.transmit(screen.pointer, out);
        }
        let is_path_free = self.delivery.flow.may_send_real_time();
        self.told.transmit(screen.pointer.relative.is_wanted(), is_path_free, out);
        self.transmit_microphone(out);
        self.transmit_background_control(out);
    }

    /// Appends whole messages within the budget; true if there were any.
    pub(crate) fn poll_transmit(
        &mut self,
        screen: &SessionContext<'_>,
        now: Micros,
        packer: &mut dyn Packer,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        if self.control.closed {
            return false;
        }
        self.transmit_control(screen, now, out);
        self.delivery.flow.control_sent((out.len() - start) as u64);
        if let Some((code, reason)) = self.control.close.take() {
            SessionMessage::Close(Close { code, reason: &reason }).encode(out);
            self.control.closed = true;
            return true;
        }
        if self.awaits_resumption(now) {
            return out.len() > start;
        }
        self.transmit_sound(packer, now, out);
        self.transmit_late_piece(now, out);
        self.repeat(packer, now);
        self.probe_path(packer, now);
        let (epoch, mut datagram_bytes_sent) = (self.view.epoch, 0);
        while let Some(at) =
            self.delivery.ledger.next(now).filter(|_| !self.delivery.ledger.is_full())
        {
            let (lane, bytes) = self.delivery.ledger.next_bytes(at);
            let may_go = self.delivery.flow.may_send(bytes, now);
            if !(may_go || lane == Lane::RealTime && self.delivery.flow.may_send_real_time()) {
                break;
            }
            if out.len() - start >= self.delivery.flow.chunk_bytes() {
                // The shell returns once this was sent; until then urgent updates can overtake the
                // rest.
                break;
            }
            let as_datagram = self.use_datagram(at, lane, packer.datagram_bytes(), now);
            let more = !self.queue.is_empty();
            let Viewer { delivery, refresh, videos, stats, figures, estimate, packed, .. } = self;
            let mut ends_frame = false;
            let seq = delivery.send(at, as_datagram, more, now, |outgoing| {
                ends_frame = outgoing.end_of_frame;
                stats.updates += 1;
                stats.echoes += u64::from(outgoing.echo.is_some());
                if let Some(echo) = outgoing.echo {
                    figures.echo.observe(now.saturating_sub(echo.delivered));
                }
                figures.add_commands(&outgoing.command_bytes);
                stats.overtakes += u64::from(outgoing.overtakes);
                videos.ended(outgoing.ends, outgoing.seq);
                refresh.sent(outgoing.job, outgoing.painted(), now);
                if outgoing.is_last {
                    refresh.done(outgoing.job);
                }
                packed.clear();
                let update = Update {
                    seq: outgoing.seq,
                    after: outgoing.after,
                    epoch,
                    echo: outgoing.echo.map(|echo| echo.seq),
                    end_of_frame: outgoing.end_of_frame,
                    packed: None,
                    commands: outgoing.commands,
                };
                if as_datagram {
                    SessionMessage::Update(update).encode(packed);
                    packer.put_datagram(packed);
                    datagram_bytes_sent += packed.len();
                    return Written {
                        commands: outgoing.commands.len() as u64,
                        message: packed.len() as u64,
                    };
                }
                // An empty update does not use the packing stream.
                let packs = !outgoing.commands.is_empty() && !outgoing.is_frame;
                let how = if packs { packer.pack(outgoing.commands, packed) } else { None };
                let commands = if how.is_some() { packed } else { outgoing.commands };
                estimate.learn_packed(
                    outgoing.kind,
                    outgoing.commands.len() as u64,
                    commands.len() as u64,
                );
                let before = out.len();
                SessionMessage::Update(Update { packed: how, commands, ..update }).encode(out);
                Written { commands: commands.len() as u64, message: (out.len() - before) as u64 }
            });
            if self.packed.capacity() > PACKED_BYTES_KEPT {
                self.packed = Vec::new();
            }
            if as_datagram {
                self.datagram_sent(seq, lane, now);
            } else if ends_frame {
                // Nothing after the end of a frame: in one TLS record, the next frame's first part
                // would delay it.
                break;
            }
        }
        self.transmit_pieces(now, start, out);
        if self.delivery.flow.wants_marker() {
            let end_of_frame = !self.delivery.ledger.frame_open;
            self.delivery.send_marker(now, |seq| {
                let before = out.len();
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
                (out.len() - before) as u64
            });
        }
        // A refresh shows what was drawn before any barrier that waits.
        if !self.barriers.is_empty()
            && !self.videos.is_uncertain()
            && !self.resync.is_pending()
            && !self.view.is_change_pending()
        {
            let before = out.len();
            self.finish_barriers(out);
            self.delivery.flow.control_sent((out.len() - before) as u64);
        }
        let bytes = out.len() - start + datagram_bytes_sent;
        self.stats.bytes += bytes as u64;
        bytes > 0
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
            && self.queue.in_doubt().is_empty()
            && !self.resync.is_pending()
            && !self.videos.has_pending_commands()
            && !self.view.is_change_pending()
            && self.refresh.is_empty()
            && self.delivery.ledger.unsent_len() == 0
            && self.delivery.flow.in_flight() == 0
    }

    pub(crate) fn check_invariants(&self) {
        self.queue.check_invariants();
        self.delivery.check_invariants();
        self.refresh.check_invariants();
        self.videos.check_invariants(&self.queue);
        assert!(self.barriers.len() <= BARRIERS_MAX, "at most {BARRIERS_MAX} barriers wait");
        self.echoes.check_invariants();
        assert!(self.control.pongs.len() <= PINGS_MAX, "at most {PINGS_MAX} pongs wait");
    }
}
