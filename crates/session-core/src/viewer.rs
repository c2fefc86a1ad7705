//! Path 5/13 to 10/13: one viewer's queue, updates and flow, and its other messages.
//! From session.rs, to transport.
//! Knows one viewer; never another viewer, records, pixels or sockets.

mod background;
mod barriers;
mod channels;
mod commit;
mod control;
mod delivery;
mod displays;
mod echoes;
mod figures;
mod frame_rate;
mod frames;
mod limits;
mod microphone;
mod pending;
mod people;
mod received;
mod resync;
mod retained;
mod sizes;
mod sound;
mod transmit;
mod video;
mod view;

use thinc_clipboard::{ClipError, ClipboardPolicy};
use thinc_files::{FileError, FilesPolicy};
use thinc_protocol::Micros;
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::pen::PenSample;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::{CacheGrant, CloseCode};
use thinc_protocol::viewer::{KeyboardLayout, Presented, ViewerHello};
use thinc_region::{Rect, Region, Size};

use crate::delivery::Delivery;
use crate::delivery::ledger::{Job, JobId, PartBytes};
use crate::input::keyboard::Locks;
use crate::input::pointer::{CursorChanges, Pointer};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::quality::{Adaptation, LossyPolicy, VideoPolicy};
use crate::queue::scheduler::{ITEM_AGE_MAX, Scheduling};
use crate::rights::Rights;
use crate::screen::drawable::Drawables;
use crate::screen::gamma::ScreenGamma;
use crate::screen::stereo::RightEyes;
use crate::session::Rendered;
use crate::video::VideoStats;

use channels::Channels;
use control::Control;
use displays::DisplayWish;
use figures::Counts;
use frame_rate::FrameRate;
use limits::Limits;
use pending::Pending;
pub(crate) use people::PeopleNews;
use people::Told;
use retained::Retained;
use sizes::Sizes;

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

/// What session.rs knows and a viewer needs.
pub(crate) struct SessionContext<'a> {
    pub(crate) name: &'a str,
    pub(crate) graphics: Option<&'a str>,
    pub(crate) encodes_full_colour: bool,
    pub(crate) size: Size,
    pub(crate) idle: bool,
    pub(crate) pointer: &'a Pointer,
    pub(crate) gamma: &'a ScreenGamma,
    pub(crate) drawables: &'a Drawables,
    pub(crate) right_eyes: &'a RightEyes,
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
    /// Where its pen was last, while it is near.
    pub(crate) pen: Option<PenSample>,
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

impl InputState {
    /// Nothing is held, and nothing was reported.
    fn new(now: Micros) -> InputState {
        InputState {
            buttons: 0,
            fingers: 0,
            pen: None,
            layout: None,
            locks: None,
            pointer_at: None,
            heard_at: now,
            held_at: now,
        }
    }
}

/// One viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) id: ViewerId,
    pub(crate) rights: Rights,
    pub(crate) wish: DisplayWish,
    /// What it is told of the session and the others.
    pub(crate) told: Told,
    control: Control,
    /// What it retained from an earlier connection.
    retained: Retained,
    sizes: Sizes,
    pub(crate) pending: Pending,
    pub(crate) quality: Adaptation,
    pub(crate) delivery: Delivery,
    pub(crate) rendered: Rendered,
    pub(crate) frame_rate: FrameRate,
    pub(crate) channels: Channels,
    pub(crate) input: InputState,
    limits: Limits,
    counts: Counts,
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
        let viewer = Viewer {
            id,
            rights,
            wish: DisplayWish::new(hello),
            told: Told::new(hello.caps, screen.graphics),
            control: Control::new(hello),
            retained: Retained::new(hello.caps, now),
            sizes,
            pending: Pending::new(hello, screen, &sizes, now),
            quality: Adaptation::new(hello.caps, screen.lossy),
            delivery: Delivery::new(screen.scheduling, now),
            rendered: Rendered::default(),
            frame_rate: FrameRate::new(),
            channels: Channels::new(hello, screen, &rights),
            input: InputState::new(now),
            limits: Limits::new(now),
            counts: Counts::default(),
            #[cfg(feature = "mutations")]
            mutation: screen.mutation,
        };
        #[cfg(feature = "mutations")]
        let viewer = viewer.with_mutation(screen.mutation);
        viewer
    }

    #[cfg(feature = "mutations")]
    fn with_mutation(mut self, mutation: Option<Mutation>) -> Viewer {
        self.pending.set_mutation(mutation);
        self.delivery.ledger.set_mutation(mutation);
        self.quality.refresh.set_mutation(mutation);
        self
    }

    pub(crate) fn close(&mut self, code: CloseCode, reason: &str) {
        self.control.close(code, reason);
    }

    pub(crate) fn grant_cache(&mut self, grant: CacheGrant) {
        self.control.grant_cache(grant);
        self.delivery.ledger.outcomes.want();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.control.is_closed()
    }

    /// Queues the session's displays, for a viewer that reported displays.
    pub(crate) fn queue_displays(&mut self, displays: impl Iterator<Item = Rect>) {
        if self.wish.has_displays() {
            self.control.set_displays(displays);
        }
    }

    /// The cursor changes to be sent.
    pub(crate) fn cursor_changes(&mut self) -> &mut CursorChanges {
        &mut self.control.cursor
    }

    pub(crate) fn pong(&mut self, number: u32) {
        self.control.pong(number);
    }

    pub(crate) fn acked(
        &mut self,
        update: u64,
        presented: Option<Presented>,
        now: Micros,
    ) -> Result<(), Violation> {
        if update > self.delivery.ledger.acked_seq {
            self.applied(&(0..=update), true, now)?;
            self.pending.videos.acked(update);
        }
        if presented.is_some() {
            self.counts.stats.presented = presented;
        }
        Ok(())
    }

    /// An acknowledgement arrived. After a long stall the rest of a partly sent area no longer goes
    /// first: the next one is sent whole.
    fn path_progressed(&mut self, now: Micros) {
        let long = |since: Micros| now.saturating_sub(since) >= ITEM_AGE_MAX;
        if self.delivery.progresses().is_some_and(long)
            && !mutated!(self.mutation, WithdrawnStaysFirst)
        {
            self.pending.queue.forget_withdrawn();
        }
    }

    /// An application has drawn a frame, here on the screen.
    pub(crate) fn frame_drawn(&mut self, rect: &Rect, now: Micros) {
        let rect = self.pending.transform().map_or(*rect, |by| by.touched_rect(rect));
        self.frame_rate.drawn(rect, now);
    }

    /// The same in a pixmap that may be shown anywhere on the screen. Perhaps nobody sees it: then
    /// nothing is committed for any of its frames.
    pub(crate) fn frame_hidden(&mut self, screen: &Rect, now: Micros) {
        self.take_frame();
        self.frame_drawn(screen, now);
    }

    /// A new frame is on the screen here, drawn there or copied from pixmaps.
    pub(crate) fn frame_shown(&mut self, rect: &Rect, now: Micros) {
        let rect = self.pending.transform().map_or(*rect, |by| by.touched_rect(rect));
        let rect = rect.intersect(&self.pending.queue.size().rect());
        if !rect.is_empty() {
            self.pending.videos.frame_drawn(&rect, now);
        }
    }

    /// A plan found so many moving pixels in these areas of frames, within these bounds.
    pub(crate) fn frames_moved(&mut self, areas: &[Rect], moving: (u64, Rect), now: Micros) {
        let rate = self.delivery.flow.measured_rate();
        let Pending { videos, queue, .. } = &mut self.pending;
        videos.frames_moved(areas, moving, rate, queue, now);
    }

    /// Commands of a job were encoded.
    pub(crate) fn frames_encoded(&mut self, job: &Job, commands: &Commands) {
        if job.hints.frames.is_none() {
            return;
        }
        let picture = |(command, len): (Command<'_>, usize)| match command {
            Command::Raw { encoding: Encoding::Jpeg, .. } => len as u64,
            _ => 0,
        };
        let bytes = commands.iter().map(picture).sum();
        self.pending.videos.frames_encoded(&job.frames, bytes);
    }

    /// Something was committed: it may have been the last of a frame.
    fn take_frame(&mut self) {
        if let Some(rect) = self.frame_rate.waits()
            && !self.pending.queue.pending().overlaps_rect(&rect)
        {
            self.frame_rate.taken();
        }
    }

    /// Something of the screen waits to be sent, other than the refresh of lossy pixels.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.pending.queue.is_empty() || self.delivery.ledger.unsent_len() > 0
    }

    /// Something waits to be sent or acknowledged, so the transport's statistics are of use.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_unsent()
            || self.delivery.flow.in_flight() > 0
            || !self.quality.refresh.is_empty()
            || self.channels.have_waiting()
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
        self.pending.resync.request();
    }

    /// The person at the viewer has chosen how good pictures that move are.
    pub(crate) fn choose_quality(&mut self, quality: PictureQuality) {
        self.quality.choice.choose(quality);
    }

    /// They want to see exactly what is shown now, also if it moves.
    pub(crate) fn want_exact_frame(&mut self) {
        self.quality.choice.want_exact_frame();
    }

    fn take_resync(&mut self, now: Micros) {
        if !self.pending.resync.take(now) {
            return;
        }
        self.control.cursor = CursorChanges::all();
        self.retained.forget();
        self.pending.resync(now);
    }

    /// The job's pixels were read; they may contain every op up to `tag`.
    pub(crate) fn snapshot(&mut self, job: JobId, tag: u64, now: Micros) {
        let Some(update) = self.delivery.ledger.committed(job) else { return };
        let uncertain =
            self.pending.videos.read(job, &update.region, tag, self.pending.queue.passed_op());
        self.pending.mark_uncertain_stale(&uncertain, now);
        self.pending.queue.read_done(job.0, tag);
    }

    pub(crate) fn proposals(&mut self, proposals: ProposalStats) {
        self.counts.stats.proposals.confirmed += proposals.confirmed;
        self.counts.stats.proposals.refuted += proposals.refuted;
        self.counts.stats.proposals.late += proposals.late;
    }

    pub(crate) fn encode_took(&mut self, job: JobId, pixels: u64, took: Micros) {
        self.counts.figures.encode.observe(took);
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
            self.pending.videos.frame_encoded(job, commands, now);
        }
        if !taken {
            if !video {
                // The same pixels again, in smaller jobs.
                self.sizes.halve_area();
            }
            self.cancelled(job, now);
            if video {
                self.pending.videos.too_long(job, &mut self.pending.queue, now);
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
        self.pending.estimate.learn(update.kind, area, bytes);
        if update.video {
            self.pending.videos.encoded(job);
        } else {
            self.quality.refresh.encoded(job, bytes);
        }
        self.quality.work_ends(job);
        if let Err(echo) = self.delivery.ledger.encoded(job) {
            self.counts.stats.equal_jobs += u64::from(area > 0);
            self.quality.refresh.done(job);
            // Nothing visible changed, so the echo is still to come.
            if let Some(echo) = echo {
                self.pending.await_echo(echo);
            }
        }
    }

    /// The job's pixels are unavailable: they are stale, and its COPYs are sent all the same.
    pub(crate) fn cancelled(&mut self, job: JobId, now: Micros) {
        if self.delivery.ledger.committed(job).is_none() {
            return;
        }
        self.pending.queue.read_cancelled(job.0);
        self.quality.work_ends(job);
        self.pending.videos.cancelled(job);
        if let Some(stale) = self.delivery.ledger.cancelled(job) {
            self.counts.stats.cancelled += 1;
            self.quality.choice.not_sent(&stale);
            self.pending.mark_stale(&stale, now);
        }
        if let Err(Some(echo)) = self.delivery.ledger.encoded(job) {
            self.pending.await_echo(echo);
        }
    }

    /// The viewer lacks `region` of what it showed after update `since`.
    pub(crate) fn stale(&mut self, region: &Region, since: u64, now: Micros) {
        self.forget_retained(region);
        let stale = self
            .delivery
            .ledger
            .follow(region, since)
            .unwrap_or_else(|| Region::from(self.pending.queue.size().rect()));
        self.pending.mark_stale(&stale, now);
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.pending.is_drained()
            && self.quality.refresh.is_empty()
            && self.delivery.ledger.unsent_len() == 0
            && self.delivery.flow.in_flight() == 0
    }

    pub(crate) fn check_invariants(&self) {
        self.pending.check_invariants();
        self.delivery.check_invariants();
        self.quality.refresh.check_invariants();
        self.control.check_invariants();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SCREEN: Size = Size { width: 640, height: 480 };

    /// What a viewer of a small window says first.
    pub(crate) fn hello(caps: u32) -> ViewerHello {
        ViewerHello {
            version: 1,
            caps,
            size: Size { width: 64, height: 48 },
            message_bytes_max: 1 << 20,
            name: "test".to_owned(),
        }
    }

    /// Calls `work` with what a session of this screen tells its viewers.
    pub(crate) fn with_context<T>(work: impl FnOnce(&SessionContext<'_>) -> T) -> T {
        work(&SessionContext {
            name: "test",
            graphics: None,
            encodes_full_colour: false,
            size: SCREEN,
            idle: false,
            pointer: &Pointer::default(),
            gamma: &ScreenGamma::default(),
            drawables: &Drawables::new(SCREEN),
            right_eyes: &RightEyes::default(),
            scheduling: Scheduling::ShortestFirst,
            lossy: LossyPolicy::Never,
            video: VideoPolicy::Auto,
            has_sound: false,
            wants_microphones: false,
            encode_work: 0,
            clipboard: ClipboardPolicy::OFF,
            files: FilesPolicy::OFF,
            #[cfg(feature = "mutations")]
            mutation: None,
        })
    }

    /// A viewer that was sent nothing yet.
    pub(crate) fn viewer(id: u32) -> Viewer {
        with_context(|screen| Viewer::new(ViewerId(id), &hello(0), screen, Rights::ALL, 0))
    }

    #[test]
    fn frames_in_a_pixmap_that_nobody_sees_say_nothing_of_a_viewer() {
        let mut viewer = viewer(1);
        viewer.pending.commit_all();
        let (all, most) = (SCREEN.rect(), thinc_ring::FRAME_RATE_MAX);
        for frame in 0..100 {
            viewer.frame_hidden(&all, frame * 20_000);
        }
        assert_eq!(viewer.frame_rate.rate(), most);
        // Those that are shown, and never committed, do.
        for frame in 100..200 {
            viewer.frame_drawn(&all, frame * 20_000);
        }
        assert!(viewer.frame_rate.rate() < most);
    }
}
