//! Path 7/13 and 10/13: from scheduler.rs, through the shell's snapshot, plan and encoders, to transport.
//! One viewer's updates from commit to acknowledgement: order is fixed at commit, overlapping ones leave in that order, each
//! in parts between which others may go. Knows regions, bytes and numbers; never pixels or sockets.

mod arrivals;

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_region::{Region, Size};

use crate::command_queue::{Echo, Lane};
use crate::copies::CopyCommand;
use crate::effects::{Arrival, Effects, spread};
use crate::fates::{Fate, Fates};
use crate::flow::UPDATES_IN_FLIGHT_MAX;
pub use crate::job::{Job, JobHints, JobId, RECORD_AGE_MAX, Shown, SnapshotVerdict};
use crate::mutation::{Broken, Mutation};
use crate::parts::{Cut, Parts, Touched};
use crate::scheduler::{PACKED_BYTES_MIN, PACKED_MIN, Rank, Scheduling};

/// Most updates between commit and sending: enough for every worker and the small ones that overtake them.
pub(crate) const UNSENT_MAX: usize = 8;
/// Of these, places that only the real-time lane takes.
pub(crate) const UNSENT_REAL_TIME: usize = 2;
/// Most rectangles remembered of what sent updates do, to follow what turns out to be lacking; past it everything is.
const HISTORY_RECTS_MAX: usize = 4096;
/// Most updates remembered that were sent: all that may be under way, and as many that arrived before one of those.
/// Where the oldest is neither acknowledged nor lost for so long, nothing is sent.
const SENT_MAX: usize = 2 * UPDATES_IN_FLIGHT_MAX;

/// A frame that takes longer is shown in parts, and what is older and drawn anew goes no more: after a tenth of a second a
/// person waits, and what takes less is one picture.
pub(crate) const FRAME_AGE_MAX: Micros = 100_000;

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The shell has the job, and has given some of its bytes at most.
    Committed,
    /// All its bytes are here.
    Encoded,
}

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// All of it has left, or it was given up.
    Gone,
    /// It is being encoded.
    Encoding,
    /// It waits for the path.
    Encoded,
}

/// An update that was committed and of which not all was sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) id: JobId,
    state: State,
    pub(crate) region: Region,
    /// What it may do, for as long as that is not known.
    whole: Touched,
    parts: Parts,
    pub(crate) lane: Lane,
    /// It is encoded where it is, and not by a thread that may be faster than another.
    inline: bool,
    /// It is a frame of a video: seen at once, and neither waits for what threads encode nor is waited for.
    pub(crate) video: bool,
    pub(crate) echo: Option<Echo>,
    end_of_frame: bool,
    /// Some of it has left.
    begun: bool,
    /// The update that left of it last.
    last_seq: u64,
    /// Some of it will not leave, which was told.
    void: bool,
    committed_at: Micros,
    /// Since when the oldest of its pixels has waited.
    since: Micros,
    /// On the wire.
    bytes_estimate: u64,
    /// Of all commands that came, those that have left too.
    bytes: u64,
    /// Share of its commands' bytes that packing is believed to leave.
    packed: f32,
    /// Dearest kind of its pixels, for the estimate's correction.
    pub(crate) kind: usize,
    pub(crate) area: u64,
}

impl Unsent {
    /// Some of it will not leave.
    fn become_void(&mut self, fates: &mut Fates) {
        if !std::mem::replace(&mut self.void, true) {
            fates.push(self.id, Fate::Void);
        }
    }

    /// What is lacking before it, after it.
    fn follow(&self, lacking: &mut Region) {
        self.parts.iter().for_each(|part| part.effects.follow(lacking));
        if self.state == State::Committed {
            // Planned against what the viewer was believed to show, and how is not known before it is encoded.
            spread(lacking, &self.region);
        }
    }

    /// So many bytes of its commands, on the wire.
    fn on_wire(&self, commands: u64) -> u64 {
        (commands as f32 * self.packed).ceil() as u64
    }

    /// So many bytes of its commands left as so many: the rest is like them, as far as can be told. What others of its kind
    /// packed into says little of a picture that X drew into while it was read.
    fn learn_packed(&mut self, commands: u64, wire: u64) {
        if commands >= PACKED_BYTES_MIN {
            let seen = (wire as f32 / commands as f32).clamp(PACKED_MIN, 1.0);
            self.packed += (seen - self.packed) / 2.0;
        }
    }

    /// All that came of its commands, on the wire.
    pub(crate) fn bytes_on_wire(&self) -> u64 {
        self.on_wire(self.bytes)
    }

    /// Bytes on the wire of what has not left: estimated, or nearly known.
    fn bytes_left(&self) -> u64 {
        let here = self.on_wire(self.parts.bytes_left());
        match self.state {
            State::Committed => self.bytes_estimate.saturating_sub(self.on_wire(self.bytes)).max(here),
            State::Encoded => here,
        }
    }

    fn rank(&self, now: Micros) -> Rank {
        Rank::new(self.lane, self.bytes_left(), self.since, now)
    }

    /// Something that was committed later may not leave before the rest of this.
    fn holds_back(&self, later: &Touched) -> bool {
        match self.state {
            // Which slots of the cache it will fill is not known.
            State::Committed => later.uses_slots() || later.conflicts(&self.whole),
            State::Encoded => self.parts.iter().any(|part| later.conflicts(&part.touched)),
        }
    }

    /// It was committed by then, and could be taken back.
    fn is_late(&self, before: Micros) -> bool {
        self.state == State::Encoded && self.committed_at <= before
    }

    /// What leaves of it next, where that is complete: commands, or nothing but the end of a frame.
    fn next(&self) -> Option<Next<'_>> {
        match self.parts.first() {
            Some(part) => Some(Next::Part(&part.touched)),
            None => (self.state == State::Encoded).then_some(Next::FrameEnd),
        }
    }
}

enum Next<'a> {
    Part(&'a Touched),
    FrameEnd,
}

/// What leaves now.
#[derive(Debug)]
pub(crate) struct Leaving<'a> {
    pub(crate) job: JobId,
    /// The job's last: nothing more leaves of it.
    pub(crate) is_last: bool,
    pub(crate) seq: u64,
    /// The update that it must follow.
    pub(crate) after: u64,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    /// It is the first of an update that goes before an earlier one.
    pub(crate) overtakes: bool,
    /// It is a video's picture, which nothing is found in that packs.
    pub(crate) picture: bool,
    /// Streams of video that it ends, a bit each.
    pub(crate) ends: u16,
    /// Dearest kind of its pixels.
    pub(crate) kind: usize,
    pub(crate) commands: &'a [u8],
}

/// What was committed and will not leave.
#[derive(Debug, Default)]
pub(crate) struct TakenBack {
    /// What will be sent in its stead.
    pub(crate) region: Region,
    /// What the viewer lacks for that after everything committed.
    pub(crate) lacking: Region,
    /// Since when the oldest of it has waited.
    pub(crate) since: Micros,
    /// Input that it was to answer.
    pub(crate) echo: Option<Echo>,
}

/// What is known of an update that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrived {
    UnderWay,
    Applied,
    /// It will not be applied. Should it come late all the same, what is sent instead comes after it, or undoes it.
    Lost,
}

/// An update that was sent. It is remembered while one before it, or itself, is under way.
#[derive(Debug)]
struct Sent {
    seq: u64,
    /// The job that it is of, and whether it is the last of one that is not void.
    job: Option<JobId>,
    is_last: bool,
    fate: Arrived,
    /// It went by itself, and may be lost.
    alone: bool,
    touched: Touched,
    effects: Effects,
}

impl Sent {
    /// An update without commands.
    fn nothing(seq: u64) -> Sent {
        Sent {
            seq,
            job: None,
            is_last: false,
            fate: Arrived::UnderWay,
            alone: false,
            touched: Touched::default(),
            effects: Effects::default(),
        }
    }
}

/// One viewer's updates.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    unsent: VecDeque<Unsent>,
    sent: VecDeque<Sent>,
    /// Updates after this one have their effects in `sent`.
    history_after: u64,
    /// Rectangles of those.
    history_rects: usize,
    arrival: Arrival,
    next_job: u64,
    pub(crate) newest_seq: u64,
    pub(crate) fates: Fates,
    pub(crate) acked_seq: u64,
    /// The newest that is known to be applied of those that do not go alone: so are all of them before it.
    pub(crate) acked_in_order: u64,
    /// The last update sent did not end a frame, whose first was sent then.
    pub(crate) frame_open: bool,
    frame_began: Micros,
    /// Somebody waits for a sign of life, as whoever comes back does: what leaves next is shown by itself.
    pub(crate) is_awaited: bool,
    /// Buffers that were used and are free.
    spare: Vec<Vec<u8>>,
    scheduling: Scheduling,
    broken: Broken,
}

/// What `commit` is told about an update.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) region: Region,
    pub(crate) copies: Vec<CopyCommand>,
    /// Commands about videos, to go behind those and before pixels; the streams that they and the region are about, a bit each; and
    /// whether the region is a frame of one.
    pub(crate) said: Vec<u8>,
    pub(crate) streams: u16,
    pub(crate) video: bool,
    /// Pixels of the region that were not only to be compared.
    pub(crate) area: u64,
    pub(crate) lane: Lane,
    pub(crate) inline: bool,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    /// Since when the oldest of its pixels has waited.
    pub(crate) since: Micros,
    /// On the wire.
    pub(crate) bytes_estimate: u64,
    /// Share of its commands' bytes that packing is believed to leave.
    pub(crate) packed: f32,
    pub(crate) kind: usize,
}

/// How large parts are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartBytes {
    /// What should leave at once, on the wire.
    pub(crate) wanted: u64,
    /// What the viewer takes.
    pub(crate) most: u64,
}

impl Updates {
    pub(crate) fn new(scheduling: Scheduling, broken: Broken) -> Updates {
        Updates { scheduling, broken, ..Updates::default() }
    }

    /// The number the next job will have.
    pub(crate) fn next_job(&self) -> JobId {
        JobId(self.next_job)
    }

    pub(crate) fn unsent(&self) -> impl Iterator<Item = &Unsent> {
        self.unsent.iter()
    }

    pub(crate) fn unsent_len(&self) -> usize {
        self.unsent.len()
    }

    /// Bytes that were committed and have not left.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.unsent.iter().map(Unsent::bytes_left).sum()
    }

    /// Bytes that leave before something of this rank would.
    pub(crate) fn bytes_before(&self, rank: Rank, now: Micros) -> u64 {
        let before = |update: &&Unsent| self.scheduling == Scheduling::Fifo || update.rank(now) <= rank;
        self.unsent.iter().filter(before).map(Unsent::bytes_left).sum()
    }

    /// Rule 4. Fixes an update's place.
    pub(crate) fn commit(&mut self, commit: Commit, screen: Size, now: Micros) -> JobId {
        let id = self.next_job();
        self.next_job += 1;
        let mut parts = Parts::within(self.spare.pop().unwrap_or_default(), self.broken);
        let mut whole = Touched::default();
        whole.writes.add(&commit.region);
        let cut = Cut { region: &commit.region, screen, arrival: self.arrival, bytes: u64::MAX, bytes_max: u64::MAX };
        for copy in commit.copies {
            whole.writes.add(&copy.region);
            whole.reads.add(&copy.source());
            parts.push_copy(copy, cut);
        }
        whole.streams = if self.broken.is(Mutation::StreamsHaveNoOrder) { 0 } else { commit.streams };
        parts.push(&commit.said, cut);
        let mut state = State::Committed;
        if commit.region.is_empty() {
            parts.close();
            state = State::Encoded;
        }
        self.unsent.push_back(Unsent {
            id,
            state,
            region: commit.region,
            whole,
            parts,
            lane: commit.lane,
            inline: commit.inline,
            video: commit.video,
            echo: commit.echo,
            end_of_frame: commit.end_of_frame,
            begun: false,
            last_seq: 0,
            void: false,
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

    /// The update of this job, while it waits for its bytes.
    pub(crate) fn committed(&self, id: JobId) -> Option<&Unsent> {
        self.unsent.iter().find(|update| update.id == id && update.state == State::Committed)
    }

    /// So many of the job's pixels tell nothing of what its kind takes.
    pub(crate) fn leave_out(&mut self, id: JobId, pixels: u64) {
        if let Some(at) = self.position(id) {
            self.unsent[at].area = self.unsent[at].area.saturating_sub(pixels);
        }
    }

    /// Some of the job's bytes are here, more are to come; false, with none of them taken, where the viewer would refuse
    /// one of the commands.
    pub(crate) fn encoding(&mut self, id: JobId, commands: &[u8], screen: Size, bytes: PartBytes) -> bool {
        let Some(at) = self.position(id) else { return true };
        let update = &mut self.unsent[at];
        let PartBytes { wanted, most } = bytes;
        let wanted = (wanted as f32 / update.packed) as u64;
        let cut =
            Cut { region: &update.region, screen, arrival: self.arrival, bytes: wanted.min(most), bytes_max: most };
        update.bytes += commands.len() as u64;
        update.parts.push(commands, cut)
    }

    /// All of the job's bytes are here. An update that has nothing to say is gone, and its echo comes back.
    pub(crate) fn encoded(&mut self, id: JobId) -> Result<(), Option<Echo>> {
        let Some(at) = self.position(id) else { return Ok(()) };
        let update = &mut self.unsent[at];
        update.state = State::Encoded;
        update.parts.close();
        if !update.parts.is_empty() {
            return Ok(());
        }
        // All of it was equal. The frame's end is said by the update before it, or by this one with nothing else in it.
        let ends_frame = update.end_of_frame;
        if ends_frame && at > 0 {
            self.unsent[at - 1].end_of_frame = true;
        } else if ends_frame && self.frame_open {
            return Ok(());
        }
        let Unsent { last_seq, void, echo, .. } = self.remove(at);
        if !void {
            // What has left of it was all there is.
            match self.sent.binary_search_by_key(&last_seq, |sent| sent.seq) {
                Ok(at) => self.sent[at].is_last = true,
                Err(_) => self.fates.push(id, Fate::Applied),
            }
        }
        Err(echo)
    }

    fn remove(&mut self, at: usize) -> Unsent {
        let mut update = self.unsent.remove(at).expect("its place was just found");
        self.recycle(std::mem::take(&mut update.parts).into_buffer());
        update
    }

    /// Takes the job's pixels out of its update, which keeps its COPYs, and gives what the viewer will lack *after
    /// everything committed*: the pixels, followed through what was committed later.
    pub(crate) fn cancelled(&mut self, id: JobId) -> Option<Region> {
        let at = self.position(id)?;
        let update = &mut self.unsent[at];
        update.become_void(&mut self.fates);
        let mut lacking = update.region.take();
        // Its COPYs stay, and what was encoded before it was given up.
        update.whole.writes.clear();
        update.parts.iter().for_each(|part| update.whole.writes.add(&part.touched.writes));
        if self.broken.is(Mutation::StaleDoesNotFollowCopies) {
            return Some(lacking);
        }
        self.unsent.iter().skip(at + 1).for_each(|later| later.follow(&mut lacking));
        Some(lacking)
    }

    /// True when something was committed by `before` that could be taken back.
    pub(crate) fn is_late(&self, before: Micros) -> bool {
        self.unsent.iter().any(|update| update.is_late(before))
    }

    /// Rule 4. Takes back what was committed by `before`, is encoded and has not left, where all of it is drawn anew.
    pub(crate) fn take_back(&mut self, drawn: &Region, before: Micros) -> Option<TakenBack> {
        self.take_back_where(before, |writes| writes.difference(drawn).is_empty())
    }

    /// Rule 4. Takes back what is encoded, has not left, and would hold back an answer to a hand: a few rows around it.
    pub(crate) fn make_way(&mut self, answer: &Region) -> Option<TakenBack> {
        self.take_back_where(Micros::MAX, |writes| writes.overlaps(answer))
    }

    /// The frame of what is taken back ends with what is committed in its stead.
    fn take_back_where(&mut self, before: Micros, needless: impl Fn(&Region) -> bool) -> Option<TakenBack> {
        let mut taken = TakenBack { since: Micros::MAX, ..TakenBack::default() };
        for update in &mut self.unsent {
            if !update.is_late(before) {
                update.follow(&mut taken.lacking);
                continue;
            }
            let region = update.parts.take_back(&needless, &mut taken.lacking);
            if region.is_empty() {
                continue;
            }
            update.become_void(&mut self.fates);
            taken.region.add(&region);
            taken.since = taken.since.min(update.since);
            if update.parts.is_empty() {
                taken.echo = Echo::later(taken.echo, update.echo);
            }
        }
        if taken.region.is_empty() {
            return None;
        }
        while let Some(at) = self.unsent.iter().position(|update| update.is_late(before) && update.parts.is_empty()) {
            self.remove(at);
        }
        Some(taken)
    }

    /// Rule 5. What the viewer lacked after update `since`, followed through everything committed after it.
    /// None: too long ago to tell, so everything.
    pub(crate) fn follow(&self, region: &Region, since: u64) -> Option<Region> {
        if since < self.history_after {
            return None;
        }
        let mut lacking = region.clone();
        if self.broken.is(Mutation::StaleDoesNotFollowCopies) {
            return Some(lacking);
        }
        let later = self.sent.iter().filter(|sent| sent.seq > since && sent.fate != Arrived::Lost);
        later.for_each(|sent| sent.effects.follow(&mut lacking));
        self.unsent.iter().for_each(|update| update.follow(&mut lacking));
        Some(lacking)
    }

    /// How far the update of this job has come.
    pub(crate) fn before(&self, id: JobId) -> Before {
        match self.unsent.iter().find(|update| update.id == id).map(|update| update.state) {
            None => Before::Gone,
            Some(State::Committed) => Before::Encoding,
            Some(State::Encoded) => Before::Encoded,
        }
    }

    /// Rule 5. What the viewer lacks of this job's pixels, followed through everything committed after it. None: too long ago to tell.
    pub(crate) fn follow_job(&self, region: &Region, job: JobId) -> Option<Region> {
        if self.next_job == job.0 + 1 {
            return Some(region.clone());
        }
        if let Some(at) = self.position(job) {
            let mut lacking = region.clone();
            self.unsent.iter().skip(at + 1).for_each(|later| later.follow(&mut lacking));
            return Some(lacking);
        }
        let last = self.sent.iter().rev().find(|sent| sent.job == Some(job))?;
        self.follow(region, last.seq)
    }

    /// Pixels as they are once everything sent was applied, as they will be once everything committed was: where COPYs take
    /// them, and without those that are read anew.
    pub(crate) fn settle(&self, region: &mut Region) {
        for update in &self.unsent {
            for part in update.parts.iter() {
                part.effects.follow(region);
                region.subtract(&part.touched.writes);
            }
            if update.state == State::Committed {
                region.subtract(&update.region);
            }
        }
    }

    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Nothing may be sent before the oldest is acknowledged or lost.
    pub(crate) fn is_full(&self) -> bool {
        self.sent.len() >= SENT_MAX
    }

    /// Index of the update of which something goes next: of those that conflict with none before them, the one of the first
    /// rank, and of those the one that was committed first.
    pub(crate) fn next(&self, now: Micros) -> Option<usize> {
        let free = |at: usize, touched: &Touched| {
            self.broken.is(Mutation::OverlappingUpdatesOvertake)
                || !self.unsent.iter().take(at).any(|earlier| earlier.holds_back(touched))
        };
        // Which thread is faster decides nothing.
        let alone = |update: &Unsent| update.inline || update.video;
        let at_threads = |update: &Unsent| !alone(update) && update.state == State::Committed;
        let may_go = |&at: &usize| match self.unsent[at].next() {
            _ if !alone(&self.unsent[at]) && self.unsent.iter().take(at).any(at_threads) => false,
            Some(Next::Part(touched)) => free(at, touched),
            Some(Next::FrameEnd) => true,
            None => false,
        };
        match self.scheduling {
            Scheduling::Fifo => (!self.unsent.is_empty()).then_some(0).filter(may_go),
            Scheduling::ShortestFirst => {
                (0..self.unsent.len()).filter(may_go).min_by_key(|&at| self.unsent[at].rank(now))
            }
        }
    }

    /// Lane of the update at `at`, and bytes of it that leave next, on the wire.
    pub(crate) fn next_bytes(&self, at: usize) -> (Lane, u64) {
        let update = &self.unsent[at];
        let commands = update.parts.first().map_or(0, |part| update.parts.commands(part).len() as u64);
        (update.lane, update.on_wire(commands))
    }

    /// Hands what leaves next of the update at `at` to `write`, which gives the bytes that its commands take on the wire.
    pub(crate) fn send(&mut self, at: usize, now: Micros, alone: bool, write: impl FnOnce(Leaving<'_>) -> u64) {
        let update = &mut self.unsent[at];
        let part = update.parts.pop();
        let is_last = update.state == State::Encoded && update.parts.is_empty();
        let mut end_of_frame = is_last && update.end_of_frame;
        // Small news that overtake a large frame are to be seen now, and not when that has arrived.
        let small = is_last && (update.lane == Lane::RealTime || update.video);
        if end_of_frame && at > 0 {
            // It overtakes what its frame still lacks: the frame ends with that.
            self.unsent[at - 1].end_of_frame = true;
            end_of_frame = false;
        }
        if !self.frame_open {
            self.frame_began = now;
        }
        let late = now.saturating_sub(self.frame_began) >= FRAME_AGE_MAX;
        end_of_frame |= small || late || std::mem::take(&mut self.is_awaited);
        self.frame_open = !end_of_frame;
        self.newest_seq += 1;
        let seq = self.newest_seq;
        let update = &mut self.unsent[at];
        let (job, kind, echo) = (update.id, update.kind, update.echo.take());
        let overtakes = !std::mem::replace(&mut update.begun, true) && at > 0;
        let (mut after, mut ends, mut picture, mut commands) = (0, 0, false, &[][..]);
        if let Some(part) = &part {
            // What was applied need not be waited for, and what was lost would be waited for in vain.
            let meets = |sent: &&Sent| sent.fate == Arrived::UnderWay && part.touched.conflicts(&sent.touched);
            let newest = self.sent.iter().rev().find(meets);
            after = newest.filter(|_| !self.broken.is(Mutation::AfterIsNotTold)).map_or(0, |sent| sent.seq);
            commands = update.parts.commands(part);
            (ends, picture) = (part.touched.ends, part.picture);
        }
        let bytes = commands.len() as u64;
        let wire =
            write(Leaving { job, is_last, seq, after, echo, end_of_frame, overtakes, ends, picture, kind, commands });
        let nothing = Sent::nothing(seq);
        let sent = match part {
            Some(part) => Sent { touched: part.touched, effects: part.effects, ..nothing },
            None => nothing,
        };
        let update = &mut self.unsent[at];
        update.last_seq = seq;
        update.learn_packed(bytes, wire);
        let is_whole = is_last && !update.void;
        self.remember(Sent { job: Some(job), is_last: is_whole, alone, ..sent });
        if is_last {
            self.remove(at);
        }
    }

    fn remember(&mut self, sent: Sent) {
        self.history_rects += sent.effects.rects();
        self.sent.push_back(sent);
        while self.history_rects > HISTORY_RECTS_MAX {
            let Some(at) = self.sent.iter().position(|sent| sent.seq > self.history_after) else { return };
            let effects = std::mem::take(&mut self.sent[at].effects);
            self.history_rects -= effects.rects();
            self.history_after = self.sent[at].seq;
        }
    }

    /// An update without commands, for its acknowledgement.
    pub(crate) fn send_marker(&mut self) -> u64 {
        self.newest_seq += 1;
        self.remember(Sent::nothing(self.newest_seq));
        self.newest_seq
    }

    /// Gives a buffer back for the next update.
    fn recycle(&mut self, buffer: Vec<u8>) {
        // A few small ones: a large one is worth returning.
        if self.spare.len() < UNSENT_MAX && buffer.capacity() <= 64 * 1024 {
            self.spare.push(buffer);
        }
    }

    /// Rule 9. Another geometry: what was not sent never will be.
    pub(crate) fn reset(&mut self) {
        if !self.broken.is(Mutation::EpochsAreIgnored) {
            self.unsent.iter_mut().for_each(|update| update.become_void(&mut self.fates));
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
    /// When a promise of this file is broken, with the promise in words.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unsent.len() <= UNSENT_MAX, "at most {UNSENT_MAX} updates wait to be sent");
        assert!(
            self.history_rects <= HISTORY_RECTS_MAX,
            "at most {HISTORY_RECTS_MAX} rectangles of effects are remembered"
        );
        let remembered = self.sent.iter().filter(|sent| sent.seq > self.history_after);
        let rects: usize = remembered.map(|sent| sent.effects.rects()).sum();
        assert_eq!(rects, self.history_rects, "effects that are remembered are counted");
        assert!(self.sent.len() <= SENT_MAX + 1, "at most {SENT_MAX} sent updates are remembered, and a marker");
        let oldest = self.sent.front().is_none_or(|sent| sent.fate == Arrived::UnderWay);
        assert!(oldest, "the oldest that is remembered is under way");
        assert!(self.acked_seq <= self.newest_seq, "nothing is acknowledged that was not sent");
        let ordered = self.unsent.iter().zip(self.unsent.iter().skip(1)).all(|(a, b)| a.id < b.id);
        assert!(ordered, "updates wait in the order of their commits");
    }
}

#[cfg(test)]
mod tests;
