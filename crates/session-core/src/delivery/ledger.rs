//! Path 7/13 and 10/13: under delivery.rs, from scheduler.rs, through the shell's snapshot, plan
//! and encoders, to transport.
//! One viewer's updates from commit to fate: the order is fixed at commit, overlapping updates are
//! sent in that order, and each is sent in parts, between which others may go. fates.rs has what
//! follows. Knows regions, bytes and numbers; never pixels or sockets.

mod fates;

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_region::Region;

use crate::delivery::effects::{DeliveryOrder, Effects, spread};
pub use crate::delivery::job::{Job, JobHints, JobId, RECORD_AGE_MAX, RetainedHashes};
use crate::delivery::job_outcomes::{JobOutcome, JobOutcomes};
use crate::delivery::parts::{Cut, FramesOf, Painted, Parts, Touched, UpdatePart};
use crate::figures::CommandBytes;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::command_queue::{Echo, Lane};
use crate::queue::copies::CopyCommand;
use crate::queue::scheduler::{PACKED_BYTES_MIN, PACKED_MIN, Rank, Scheduling};

use super::flow::{Transmission, UPDATES_IN_FLIGHT_MAX};
use super::loss_detection::SentDatagram;

/// Most updates between commit and sending: one for every worker, and the small ones that overtake
/// them.
pub(crate) const UNSENT_MAX: usize = 8;
/// Places among these that only the real-time lane takes.
pub(crate) const UNSENT_REAL_TIME_MAX: usize = 2;
/// Most rectangles in the effects of sent updates, which are needed to follow stale pixels. Past it
/// the whole screen is stale.
const HISTORY_RECTS_MAX: usize = 4096;
/// Most sent updates that are remembered: all that may be in flight, and as many that arrived
/// before one of those. If the oldest stays unacknowledged for so long, nothing is sent.
const SENT_MAX: usize = 2 * UPDATES_IN_FLIGHT_MAX;

/// A frame that takes longer is shown in parts, and older updates that were redrawn are withdrawn:
/// after a tenth of a second a person notices the wait.
pub(crate) const FRAME_AGE_MAX: Micros = 100_000;

/// State of the encoding of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EncodeState {
    /// The shell has the job, and has returned some of its bytes at most.
    Committed,
    /// All its bytes have arrived.
    Encoded,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobProgress {
    /// All of it was sent, or it was cancelled.
    Done,
    /// It is being encoded.
    Encoding,
    /// It waits for the path.
    Encoded,
}

/// An update that was committed and not completely sent.
#[derive(Debug)]
pub(crate) struct UnsentUpdate {
    pub(crate) id: JobId,
    state: EncodeState,
    pub(crate) region: Region,
    /// Everything it may touch, until its commands are known.
    whole: Touched,
    parts: Parts,
    pub(crate) lane: Lane,
    /// It is encoded at once, not by a worker thread.
    inline: bool,
    /// It is a frame of a video: shown at once, and neither waits for worker threads nor is waited
    /// for.
    pub(crate) video: bool,
    frames: FramesOf,
    pub(crate) echo: Option<Echo>,
    end_of_frame: bool,
    /// Some of it was sent.
    begun: bool,
    /// The sequence number of its newest part that was sent.
    last_seq: u64,
    /// Some of it will not be sent, and that was reported.
    discarded: bool,
    committed_at: Micros,
    /// Since when its oldest pixels have waited.
    since: Micros,
    /// On the wire.
    bytes_estimate: u64,
    /// Of all its commands so far, sent or not.
    bytes: u64,
    /// Estimated share of its commands' bytes after packing.
    packed: f32,
    /// The most expensive kind of its pixels, to correct the estimate.
    pub(crate) kind: usize,
    pub(crate) area: u64,
}

impl UnsentUpdate {
    /// Some of it will not be sent.
    fn discard(&mut self, outcomes: &mut JobOutcomes) {
        if !std::mem::replace(&mut self.discarded, true) {
            outcomes.push(self.id, JobOutcome::Discarded);
        }
    }

    /// Maps pixels that are stale before it to those that are stale after it.
    fn follow(&self, stale: &mut Region) {
        self.parts.iter().for_each(|part| part.effects.follow(stale));
        if self.state == EncodeState::Committed {
            // Planned against what the viewer was believed to show; how is known only after
            // encoding.
            spread(stale, &self.region);
        }
    }

    /// Size on the wire of so many bytes of its commands.
    fn on_wire(&self, commands: u64) -> u64 {
        (commands as f32 * self.packed).ceil() as u64
    }

    /// So many bytes of its commands were packed into so many: the rest is similar. The average of
    /// its kind tells little about a torn capture.
    fn learn_packed_share(&mut self, commands: u64, wire: u64) {
        if commands >= PACKED_BYTES_MIN {
            let sample = (wire as f32 / commands as f32).clamp(PACKED_MIN, 1.0);
            self.packed += (sample - self.packed) / 2.0;
        }
    }

    /// Size on the wire of all its commands so far.
    pub(crate) fn bytes_on_wire(&self) -> u64 {
        self.on_wire(self.bytes)
    }

    /// Bytes on the wire that were not sent: estimated, or nearly known.
    fn bytes_left(&self) -> u64 {
        let here = self.on_wire(self.parts.bytes_left());
        match self.state {
            EncodeState::Committed => {
                self.bytes_estimate.saturating_sub(self.on_wire(self.bytes)).max(here)
            }
            EncodeState::Encoded => here,
        }
    }

    fn rank(&self, now: Micros) -> Rank {
        Rank::new(self.lane, self.bytes_left(), self.since, now)
    }

    /// A later update may not be sent before the rest of this one.
    fn holds_back(&self, later: &Touched) -> bool {
        match self.state {
            // The cache slots that it will fill are not known.
            EncodeState::Committed => later.uses_slots() || later.conflicts(&self.whole),
            EncodeState::Encoded => self.parts.iter().any(|part| later.conflicts(&part.touched)),
        }
    }

    /// It was committed by then, and could be withdrawn.
    fn is_late(&self, before: Micros) -> bool {
        self.state == EncodeState::Encoded && self.committed_at <= before
    }

    /// Its next part, if complete: commands, or only the end of a frame.
    fn next(&self) -> Option<NextPart<'_>> {
        match self.parts.first() {
            Some(part) => Some(NextPart::Part(&part.touched)),
            None => (self.state == EncodeState::Encoded).then_some(NextPart::FrameEnd),
        }
    }
}

enum NextPart<'a> {
    Part(&'a Touched),
    FrameEnd,
}

/// A part that is sent now.
#[derive(Debug)]
pub(crate) struct OutgoingPart<'a> {
    pub(crate) job: JobId,
    /// The last part of the job.
    pub(crate) is_last: bool,
    pub(crate) seq: u64,
    /// The update that must be applied before it.
    pub(crate) after: u64,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    /// It is the first part of an update that overtakes an earlier one.
    pub(crate) overtakes: bool,
    /// It is a frame of a video, which does not compress.
    pub(crate) is_final: bool,
    /// Video streams that it ends, a bit each.
    pub(crate) ends: u16,
    /// The most expensive kind of its pixels.
    pub(crate) kind: usize,
    pub(crate) commands: &'a [u8],
    part: Option<&'a UpdatePart>,
    /// Bytes of each kind of them.
    pub(crate) command_bytes: CommandBytes,
}

impl OutgoingPart<'_> {
    /// What its commands do to lossy pixels, in order.
    pub(crate) fn painted(&self) -> impl Iterator<Item = Painted> {
        self.part.into_iter().flat_map(UpdatePart::painted)
    }
}

/// Updates that were committed and will not be sent.
#[derive(Debug, Default)]
pub(crate) struct Withdrawn {
    /// Pixels that will be sent instead.
    pub(crate) region: Region,
    /// Pixels that the viewer lacks without them, after everything committed.
    pub(crate) stale: Region,
    /// Since when the oldest of them has waited.
    pub(crate) since: Micros,
    /// The input that it was to answer.
    pub(crate) echo: Option<Echo>,
}

/// Bytes of a part that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Of its commands, perhaps packed.
    pub(crate) commands: u64,
    /// Of its message.
    pub(crate) message: u64,
}

/// What an update in flight is known by to the path's estimates.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) transmission: Transmission,
    /// It was sent as a datagram, and may be lost: so many updates sent later were acknowledged.
    datagram: Option<u32>,
}

impl InFlight {
    pub(super) fn new(transmission: Transmission, as_datagram: bool) -> InFlight {
        InFlight { transmission, datagram: as_datagram.then_some(0) }
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.datagram.is_some()
    }
}

/// What is known about a sent update.
#[derive(Debug)]
enum Fate {
    InFlight(InFlight),
    Applied,
    /// It will not be applied. If it arrives late, the viewer applies its replacement after it, or
    /// discards it.
    Lost,
}

/// An update that was sent. It is remembered while it, or one before it, is in flight.
#[derive(Debug)]
struct SentUpdate {
    seq: u64,
    /// Its job, and whether it is the last part of a job that was not discarded.
    job: Option<JobId>,
    is_last: bool,
    fate: Fate,
    touched: Touched,
    effects: Effects,
}

impl SentUpdate {
    fn in_flight(&self) -> Option<&InFlight> {
        match &self.fate {
            Fate::InFlight(in_flight) => Some(in_flight),
            Fate::Applied | Fate::Lost => None,
        }
    }

    /// Decides its fate, unless that is known.
    fn decide(&mut self, fate: Fate) -> Option<InFlight> {
        self.in_flight()?;
        match std::mem::replace(&mut self.fate, fate) {
            Fate::InFlight(in_flight) => Some(in_flight),
            Fate::Applied | Fate::Lost => None,
        }
    }
}

/// An update that is sent now, before it is in flight.
#[derive(Debug)]
#[must_use]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    job: Option<JobId>,
    is_last: bool,
    touched: Touched,
    effects: Effects,
}

/// One viewer's updates.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    unsent: VecDeque<UnsentUpdate>,
    sent: VecDeque<SentUpdate>,
    /// Datagrams of these that are in flight.
    datagrams: usize,
    /// `sent` has the effects of the updates after this one.
    history_after: u64,
    /// Rectangles in these effects.
    history_rects: usize,
    order: DeliveryOrder,
    next_job: u64,
    pub(crate) newest_seq: u64,
    pub(crate) outcomes: JobOutcomes,
    pub(crate) acked_seq: u64,
    /// The newest update on the stream that is known to be applied; so are all before it on the
    /// stream.
    pub(crate) acked_in_order: u64,
    /// The last update sent did not end a frame, whose first part was sent then.
    pub(crate) frame_open: bool,
    frame_began: Micros,
    /// A viewer that reconnects waits for anything at all: the next update is shown by itself.
    pub(crate) show_next_at_once: bool,
    /// Buffers that can be reused.
    spare: Vec<Vec<u8>>,
    scheduling: Scheduling,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

/// The arguments of `commit`.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) region: Region,
    pub(crate) copies: Vec<CopyCommand>,
    /// Video commands to send after the COPYs and before the pixels; the streams that they and the
    /// region belong to, a bit each; and whether the region is a frame of one.
    pub(crate) video_commands: Commands,
    pub(crate) streams: u16,
    pub(crate) video: bool,
    pub(crate) frames: FramesOf,
    /// Pixels of the region beside those that are only compared.
    pub(crate) area: u64,
    pub(crate) lane: Lane,
    pub(crate) inline: bool,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    /// Since when its oldest pixels have waited.
    pub(crate) since: Micros,
    /// On the wire.
    pub(crate) bytes_estimate: u64,
    /// Estimated share of its commands' bytes after packing.
    pub(crate) packed: f32,
    pub(crate) kind: usize,
}

/// Size limits of parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartBytes {
    /// Bytes on the wire that should be sent at once.
    pub(crate) wanted: u64,
    /// The longest message that the viewer takes.
    pub(crate) most: u64,
}

impl Ledger {
    pub(crate) fn new(scheduling: Scheduling) -> Ledger {
        Ledger { scheduling, ..Ledger::default() }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    /// The number of the next job.
    pub(crate) fn next_job(&self) -> JobId {
        JobId(self.next_job)
    }

    pub(crate) fn unsent(&self) -> impl Iterator<Item = &UnsentUpdate> {
        self.unsent.iter()
    }

    pub(crate) fn unsent_len(&self) -> usize {
        self.unsent.len()
    }

    /// Bytes that were committed and not sent.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.unsent.iter().map(UnsentUpdate::bytes_left).sum()
    }

    /// Bytes that will be sent before an update of this rank.
    pub(crate) fn bytes_before(&self, rank: Rank, now: Micros) -> u64 {
        let before = |update: &&UnsentUpdate| {
            self.scheduling == Scheduling::Fifo || update.rank(now) <= rank
        };
        self.unsent.iter().filter(before).map(UnsentUpdate::bytes_left).sum()
    }

    /// Rule 4. Fixes an update's place.
    pub(crate) fn commit(&mut self, commit: Commit, now: Micros) -> JobId {
        let id = self.next_job();
        self.next_job += 1;
        let mut parts = Parts::within(self.spare.pop().unwrap_or_default());
        #[cfg(feature = "mutations")]
        parts.set_mutation(self.mutation);
        let mut whole = Touched::default();
        whole.writes.add(&commit.region);
        let (order, frames) = (self.order, commit.frames);
        let cut = Cut { order, frames, bytes: u64::MAX, bytes_max: u64::MAX };
        for copy in commit.copies {
            whole.writes.add(&copy.region);
            whole.reads.add(&copy.source());
            parts.push_copy(copy, cut);
        }
        whole.streams =
            if mutated!(self.mutation, StreamsHaveNoOrder) { 0 } else { commit.streams };
        parts.push(&commit.video_commands, cut);
        let mut state = EncodeState::Committed;
        if commit.region.is_empty() && commit.frames == FramesOf::Framebuffer {
            parts.close();
            state = EncodeState::Encoded;
        }
        self.unsent.push_back(UnsentUpdate {
            id,
            state,
            region: commit.region,
            whole,
            parts,
            lane: commit.lane,
            inline: commit.inline,
            video: commit.video,
            frames: commit.frames,
            echo: commit.echo,
            end_of_frame: commit.end_of_frame,
            begun: false,
            last_seq: 0,
            discarded: false,
            committed_at: now,
            since: commit.since,
            bytes_estimate: commit.bytes_estimate,
            packed: commit.packed,
            bytes: 0,
            kind: commit.kind,
            area: commit.area,
        });
        id
    }

    fn position(&self, id: JobId) -> Option<usize> {
        self.unsent.iter().position(|update| update.id == id)
    }

    /// The update of this job, while it is being encoded.
    pub(crate) fn committed(&self, id: JobId) -> Option<&UnsentUpdate> {
        self.unsent.iter().find(|update| update.id == id && update.state == EncodeState::Committed)
    }

    /// So many of the job's pixels tell nothing about the cost of their kind.
    pub(crate) fn leave_out(&mut self, id: JobId, pixels: u64) {
        if let Some(at) = self.position(id) {
            self.unsent[at].area = self.unsent[at].area.saturating_sub(pixels);
        }
    }

    /// Takes some of the job's bytes; more follow. False, with none taken, if the viewer would
    /// refuse one of the commands.
    pub(crate) fn encoding(&mut self, id: JobId, commands: &Commands, bytes: PartBytes) -> bool {
        let Some(at) = self.position(id) else { return true };
        let update = &mut self.unsent[at];
        let PartBytes { wanted, most } = bytes;
        let wanted = (wanted as f32 / update.packed) as u64;
        let (order, frames) = (self.order, update.frames);
        let cut = Cut { order, frames, bytes: wanted.min(most), bytes_max: most };
        update.bytes += commands.as_bytes().len() as u64;
        update.parts.push(commands, cut)
    }

    /// All of the job's bytes have arrived. An update without commands is removed, and its echo
    /// returned.
    pub(crate) fn encoded(&mut self, id: JobId) -> Result<(), Option<Echo>> {
        let Some(at) = self.position(id) else { return Ok(()) };
        let update = &mut self.unsent[at];
        update.state = EncodeState::Encoded;
        update.parts.close();
        if !update.parts.is_empty() {
            return Ok(());
        }
        // All of it was equal. The update before it marks the frame's end, or this one with nothing
        // else in it.
        let ends_frame = update.end_of_frame;
        if ends_frame && at > 0 {
            self.unsent[at - 1].end_of_frame = true;
        } else if ends_frame && self.frame_open {
            return Ok(());
        }
        let UnsentUpdate { last_seq, discarded, echo, .. } = self.remove(at);
        if !discarded {
            // The parts that were sent are all of it.
            match self.sent.binary_search_by_key(&last_seq, |sent| sent.seq) {
                Ok(at) => self.sent[at].is_last = true,
                Err(_) => self.outcomes.push(id, JobOutcome::Applied),
            }
        }
        Err(echo)
    }

    fn remove(&mut self, at: usize) -> UnsentUpdate {
        let mut update = self.unsent.remove(at).expect("the index was just found");
        self.recycle(std::mem::take(&mut update.parts).into_buffer());
        update
    }

    /// Removes the job's pixels from its update, which keeps its COPYs. Returns what the viewer
    /// will lack *after everything committed*: the pixels, followed through the later commits.
    pub(crate) fn cancelled(&mut self, id: JobId) -> Option<Region> {
        let at = self.position(id)?;
        let update = &mut self.unsent[at];
        update.discard(&mut self.outcomes);
        let mut stale = update.region.take();
        // Its COPYs stay, and the commands encoded before it was cancelled.
        update.whole.writes.clear();
        update.parts.iter().for_each(|part| update.whole.writes.add(&part.touched.writes));
        if mutated!(self.mutation, StaleDoesNotFollowCopies) {
            return Some(stale);
        }
        self.unsent.iter().skip(at + 1).for_each(|later| later.follow(&mut stale));
        Some(stale)
    }

    /// True if something committed by `before` could be withdrawn.
    pub(crate) fn is_late(&self, before: Micros) -> bool {
        self.unsent.iter().any(|update| update.is_late(before))
    }

    /// Rule 4. Withdraws updates that were committed by `before`, are encoded and not sent, if all
    /// of each is redrawn.
    pub(crate) fn withdraw(&mut self, drawn: &Region, before: Micros) -> Option<Withdrawn> {
        self.withdraw_where(before, |writes| writes.difference(drawn).is_empty())
    }

    /// Rule 4. Withdraws encoded and unsent updates that would hold back an input response: a few
    /// rows around it.
    pub(crate) fn withdraw_overlapping(&mut self, answer: &Region) -> Option<Withdrawn> {
        self.withdraw_where(Micros::MAX, |writes| writes.overlaps(answer))
    }

    /// The frame of withdrawn updates ends with the commit that replaces them.
    fn withdraw_where(
        &mut self,
        before: Micros,
        may_withdraw: impl Fn(&Region) -> bool,
    ) -> Option<Withdrawn> {
        let mut withdrawn = Withdrawn { since: Micros::MAX, ..Withdrawn::default() };
        for update in &mut self.unsent {
            if !update.is_late(before) {
                update.follow(&mut withdrawn.stale);
                continue;
            }
            let region = update.parts.withdraw(&may_withdraw, &mut withdrawn.stale);
            if region.is_empty() {
                continue;
            }
            update.discard(&mut self.outcomes);
            withdrawn.region.add(&region);
            withdrawn.since = withdrawn.since.min(update.since);
            if update.parts.is_empty() {
                withdrawn.echo = Echo::later(withdrawn.echo, update.echo);
            }
        }
        if withdrawn.region.is_empty() {
            return None;
        }
        while let Some(at) =
            self.unsent.iter().position(|update| update.is_late(before) && update.parts.is_empty())
        {
            self.remove(at);
        }
        Some(withdrawn)
    }

    /// Rule 5. Follows what the viewer lacked after update `since` through everything committed
    /// after it. None: too long ago, so the whole screen.
    pub(crate) fn follow(&self, region: &Region, since: u64) -> Option<Region> {
        if since < self.history_after {
            return None;
        }
        let mut stale = region.clone();
        if mutated!(self.mutation, StaleDoesNotFollowCopies) {
            return Some(stale);
        }
        let later =
            self.sent.iter().filter(|sent| sent.seq > since && !matches!(sent.fate, Fate::Lost));
        later.for_each(|sent| sent.effects.follow(&mut stale));
        self.unsent.iter().for_each(|update| update.follow(&mut stale));
        Some(stale)
    }

    /// Progress of this job's update.
    pub(crate) fn progress(&self, id: JobId) -> JobProgress {
        match self.unsent.iter().find(|update| update.id == id).map(|update| update.state) {
            None => JobProgress::Done,
            Some(EncodeState::Committed) => JobProgress::Encoding,
            Some(EncodeState::Encoded) => JobProgress::Encoded,
        }
    }

    /// Rule 5. Follows what the viewer lacks of this job's pixels through everything committed
    /// after it. None: too long ago.
    pub(crate) fn follow_job(&self, region: &Region, job: JobId) -> Option<Region> {
        if self.next_job == job.0 + 1 {
            return Some(region.clone());
        }
        if let Some(at) = self.position(job) {
            let mut stale = region.clone();
            self.unsent.iter().skip(at + 1).for_each(|later| later.follow(&mut stale));
            return Some(stale);
        }
        let last = self.sent.iter().rev().find(|sent| sent.job == Some(job))?;
        self.follow(region, last.seq)
    }

    /// Moves pixels from where they are once everything sent was applied to where they will be once
    /// everything committed was: along COPYs, and without pixels that are read again.
    pub(crate) fn settle(&self, region: &mut Region) {
        for update in &self.unsent {
            for part in update.parts.iter() {
                part.effects.follow(region);
                region.subtract(&part.touched.writes);
            }
            if update.state == EncodeState::Committed {
                region.subtract(&update.region);
            }
        }
    }

    pub(crate) fn set_delivery_order(&mut self, order: DeliveryOrder) {
        self.order = order;
    }

    pub(crate) fn delivery_order(&self) -> DeliveryOrder {
        self.order
    }

    /// Nothing may be sent before the oldest update is acknowledged or lost.
    pub(crate) fn is_full(&self) -> bool {
        self.sent.len() >= SENT_MAX
    }

    /// Index of the update that is sent next: among those that conflict with none before them, the
    /// first by rank and then by commit.
    pub(crate) fn next(&self, now: Micros) -> Option<usize> {
        let free = |at: usize, touched: &Touched| {
            mutated!(self.mutation, OverlappingUpdatesOvertake)
                || !self.unsent.iter().take(at).any(|earlier| earlier.holds_back(touched))
        };
        // The speed of worker threads decides nothing.
        let without_workers = |update: &UnsentUpdate| update.inline || update.video;
        let at_workers = |update: &UnsentUpdate| {
            !without_workers(update) && update.state == EncodeState::Committed
        };
        let may_go = |&at: &usize| match self.unsent[at].next() {
            _ if !without_workers(&self.unsent[at])
                && self.unsent.iter().take(at).any(at_workers) =>
            {
                false
            }
            Some(NextPart::Part(touched)) => free(at, touched),
            Some(NextPart::FrameEnd) => true,
            None => false,
        };
        match self.scheduling {
            Scheduling::Fifo => (!self.unsent.is_empty()).then_some(0).filter(may_go),
            Scheduling::ShortestFirst => {
                (0..self.unsent.len()).filter(may_go).min_by_key(|&at| self.unsent[at].rank(now))
            }
        }
    }

    /// Lane of the update at `at`, and bytes on the wire of its next part.
    pub(crate) fn next_bytes(&self, at: usize) -> (Lane, u64) {
        let update = &self.unsent[at];
        let commands =
            update.parts.first().map_or(0, |part| update.parts.commands(part).len() as u64);
        (update.lane, update.on_wire(commands))
    }

    /// Gives the next part of the update at `at` to `write`. Returns what is to be remembered, and
    /// its bytes.
    pub(super) fn take_part(
        &mut self,
        at: usize,
        now: Micros,
        write: impl FnOnce(OutgoingPart<'_>) -> Written,
    ) -> (Outgoing, u64) {
        let update = &mut self.unsent[at];
        let part = update.parts.pop();
        let is_last = update.state == EncodeState::Encoded && update.parts.is_empty();
        let mut end_of_frame = is_last && update.end_of_frame;
        // A small update that overtakes a large frame is shown now, not with that frame.
        // What the right eye sees is shown with the left eye's.
        let is_frame = update.video && update.frames == FramesOf::Framebuffer;
        let small = is_last && (update.lane == Lane::RealTime || is_frame);
        if end_of_frame && at > 0 {
            // It overtakes the rest of its frame, which ends with that.
            self.unsent[at - 1].end_of_frame = true;
            end_of_frame = false;
        }
        if !self.frame_open {
            self.frame_began = now;
        }
        let late = now.saturating_sub(self.frame_began) >= FRAME_AGE_MAX;
        end_of_frame |= small || late || std::mem::take(&mut self.show_next_at_once);
        self.frame_open = !end_of_frame;
        self.newest_seq += 1;
        let seq = self.newest_seq;
        let update = &mut self.unsent[at];
        let (job, kind, echo) = (update.id, update.kind, update.echo.take());
        let overtakes = !std::mem::replace(&mut update.begun, true) && at > 0;
        let (mut after, mut ends, mut is_final, mut commands) = (0, 0, false, &[][..]);
        let mut command_bytes = CommandBytes::default();
        if let Some(part) = &part {
            // An applied update need not be waited for, and a lost one never comes.
            let meets = |sent: &&SentUpdate| {
                sent.in_flight().is_some() && part.touched.conflicts(&sent.touched)
            };
            let newest = self.sent.iter().rev().find(meets);
            after = newest
                .filter(|_| !mutated!(self.mutation, AfterIsNotSent))
                .map_or(0, |sent| sent.seq);
            commands = update.parts.commands(part);
            (ends, is_final) = (part.touched.ends, part.is_final);
            command_bytes = part.command_bytes;
        }
        let bytes = commands.len() as u64;
        let written = write(OutgoingPart {
            job,
            is_last,
            seq,
            after,
            echo,
            end_of_frame,
            overtakes,
            ends,
            is_final,
            kind,
            commands,
            part: part.as_ref(),
            command_bytes,
        });
        let (touched, effects) = part.map_or_else(
            || (Touched::default(), Effects::default()),
            |part| (part.touched, part.effects),
        );
        let update = &mut self.unsent[at];
        update.last_seq = seq;
        update.learn_packed_share(bytes, written.commands);
        let is_whole = is_last && !update.discarded;
        if is_last {
            self.remove(at);
        }
        (Outgoing { seq, job: Some(job), is_last: is_whole, touched, effects }, written.message)
    }

    /// It is in flight now.
    pub(super) fn remember(&mut self, outgoing: Outgoing, in_flight: InFlight) {
        let Outgoing { seq, job, is_last, touched, effects } = outgoing;
        self.datagrams += usize::from(in_flight.is_datagram());
        let sent =
            SentUpdate { seq, job, is_last, fate: Fate::InFlight(in_flight), touched, effects };
        self.history_rects += sent.effects.rects();
        self.sent.push_back(sent);
        while self.history_rects > HISTORY_RECTS_MAX {
            let Some(at) = self.sent.iter().position(|sent| sent.seq > self.history_after) else {
                return;
            };
            let effects = std::mem::take(&mut self.sent[at].effects);
            self.history_rects -= effects.rects();
            self.history_after = self.sent[at].seq;
        }
    }

    /// An update without commands, for its acknowledgement.
    pub(super) fn marker(&mut self) -> Outgoing {
        self.newest_seq += 1;
        Outgoing {
            seq: self.newest_seq,
            job: None,
            is_last: false,
            touched: Touched::default(),
            effects: Effects::default(),
        }
    }

    /// What is in flight, from the oldest.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &InFlight> + Clone {
        self.sent.iter().filter_map(SentUpdate::in_flight)
    }

    /// When the newest update in flight was sent.
    pub(super) fn last_sent_at(&self) -> Micros {
        let newest = self.sent.iter().rev().find_map(SentUpdate::in_flight);
        newest.map_or(0, |sent| sent.transmission.sent_at)
    }

    /// The datagrams in flight, from the oldest.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = SentDatagram> {
        let datagram = |sent: &SentUpdate| {
            let in_flight = sent.in_flight()?;
            Some(SentDatagram {
                seq: sent.seq,
                sent_at: in_flight.transmission.sent_at,
                later_acked: in_flight.datagram?,
            })
        };
        self.sent.iter().filter_map(datagram).take(self.datagrams)
    }

    /// The oldest datagram in flight.
    pub(crate) fn oldest_datagram(&self) -> Option<u64> {
        self.datagrams().next().map(|datagram| datagram.seq)
    }

    /// Returns a buffer for the next update.
    fn recycle(&mut self, buffer: Vec<u8>) {
        // Only small ones: large ones are freed.
        if self.spare.len() < UNSENT_MAX && buffer.capacity() <= 64 * 1024 {
            self.spare.push(buffer);
        }
    }

    /// Rule 9. A new geometry: unsent updates never will be sent.
    pub(crate) fn reset(&mut self) {
        if !mutated!(self.mutation, EpochsAreIgnored) {
            self.unsent.iter_mut().for_each(|update| update.discard(&mut self.outcomes));
            self.unsent.clear();
        }
        self.frame_open = false;
        for sent in &mut self.sent {
            sent.touched = Touched::default();
            sent.effects = Effects::default();
        }
        self.history_rects = 0;
    }

    /// # Panics
    /// If an invariant of this file does not hold; the message states it.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unsent.len() <= UNSENT_MAX, "at most {UNSENT_MAX} updates wait to be sent");
        assert!(
            self.history_rects <= HISTORY_RECTS_MAX,
            "at most {HISTORY_RECTS_MAX} rectangles of effects are remembered"
        );
        let remembered = self.sent.iter().filter(|sent| sent.seq > self.history_after);
        let rects: usize = remembered.map(|sent| sent.effects.rects()).sum();
        assert_eq!(rects, self.history_rects, "the remembered rectangles are counted");
        assert!(
            self.sent.len() <= SENT_MAX + 1,
            "at most {SENT_MAX} sent updates are remembered, and a marker"
        );
        let oldest = self.sent.front().is_none_or(|sent| sent.in_flight().is_some());
        assert!(oldest, "the oldest remembered update is in flight");
        let datagrams = self.in_flight().filter(|sent| sent.is_datagram()).count();
        assert_eq!(datagrams, self.datagrams, "the datagrams in flight are counted");
        assert!(self.acked_seq <= self.newest_seq, "only sent updates are acknowledged");
        let ordered = self.unsent.iter().zip(self.unsent.iter().skip(1)).all(|(a, b)| a.id < b.id);
        assert!(ordered, "updates wait in the order of their commits");
    }
}

#[cfg(test)]
mod tests;
