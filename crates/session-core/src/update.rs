//! Path 7/13 and 10/13: from scheduler.rs, through the shell's snapshot, plan and encoders, to transport.
//! One viewer's updates from commit to acknowledgement: order is fixed at commit, overlapping ones leave in that order.
//! Knows regions, bytes and numbers; never pixels or sockets.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;
use thinc_region::{Region, Size};

use crate::command_queue::{Echo, Lane};
use crate::copies::CopyCommand;
use crate::drawable::Part;
use crate::effects::{Arrival, Effects, spread};
use crate::flow::UPDATES_IN_FLIGHT_MAX;
use crate::mutation::{Broken, Mutation};
use crate::quality::Quality;
use crate::scheduler::Scheduling;

/// Most updates between commit and sending: enough for every worker and the small ones that overtake them.
pub(crate) const UNSENT_MAX: usize = 8;
/// Of these, places that only the real-time lane takes.
pub(crate) const UNSENT_REAL_TIME: usize = 2;
/// Most rectangles remembered of what sent updates do, to follow what turns out to be lacking; past it everything is.
const HISTORY_RECTS_MAX: usize = 4096;
/// Most updates remembered that were sent: all that may be under way, and as many that arrived before one of those.
/// Where the oldest is neither acknowledged nor lost for so long, nothing is sent.
const SENT_MAX: usize = 2 * UPDATES_IN_FLIGHT_MAX;

/// Names a job; grows by one with every commit of a session's viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// What the shell shall do for one update: apply `copies` to the viewer's shadow in order, read the pixels of `region`,
/// say so with `handle_snapshot`, plan and encode them, and give the bytes back with `handle_encoded`.
///
/// Shadows are planned in the order of jobs; encoding may end in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Names it.
    pub id: JobId,
    /// Geometry it is for; where it differs from the job before, the shadow is void.
    pub epoch: u32,
    /// COPYs that go first; session-core encodes them itself.
    pub copies: Vec<CopyCommand>,
    /// Pixels to read; may be empty.
    pub region: Region,
    /// The part of `region` that the viewer shows already, once `copies` are applied, as far as the drawable maps know:
    /// read to be sure. Pixels that differ are sent, and counted with `handle_proposals`.
    pub verify: Region,
    /// What `region` was drawn as, where that is known: disjoint, inside its extents, at most [`PARTS_MAX`].
    pub parts: Vec<Part>,
    /// Newest op that `verify` and `parts` know of. Where the snapshot's tag is later, a proposal may be wrong without
    /// being a fault.
    pub translated: u64,
    /// Estimate of its bytes.
    pub bytes_estimate: u64,
    /// Hints.
    pub hints: JobHints,
}

/// Hints about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHints {
    /// An answer to a hand, or small: encode it at once, where it is.
    pub inline: bool,
    /// The area changes like video: speed before size.
    pub video: bool,
    /// Bytes a second the path carries, 0 when unknown: how much work bytes are worth.
    pub path_bytes_per_second: u64,
    /// Where its bytes are packed, and how nearly its photographs may be sent.
    pub quality: Quality,
}

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The shell has the job.
    Committed,
    /// Its bytes are here.
    Encoded,
}

/// An update that was committed and not yet sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) id: JobId,
    state: State,
    pub(crate) region: Region,
    effects: Effects,
    /// Pixels it writes, COPY destinations included.
    writes: Region,
    /// Pixels its COPYs read.
    reads: Region,
    pub(crate) lane: Lane,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    pub(crate) bytes_estimate: u64,
    /// Dearest kind of its pixels, for the estimate's correction.
    pub(crate) kind: usize,
    pub(crate) area: u64,
    commands: Vec<u8>,
}

impl Unsent {
    /// What is lacking before it, after it.
    fn follow(&self, lacking: &mut Region) {
        self.effects.follow(lacking);
        if self.state == State::Committed {
            // Planned against what the viewer was believed to show, and how is not known before it is encoded.
            spread(lacking, &self.region);
        }
    }

    pub(crate) fn commands(&self) -> &[u8] {
        &self.commands
    }

    pub(crate) fn into_commands(self) -> Vec<u8> {
        self.commands
    }
}

fn conflict(a: (&Region, &Region), b: (&Region, &Region)) -> bool {
    a.0.overlaps(b.0) || a.0.overlaps(b.1) || a.1.overlaps(b.0)
}

/// What is known of an update that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Applied,
    /// It will not be applied. Should it come late all the same, what is sent instead comes after it, or undoes it.
    Lost,
}

/// An update that was sent. It is remembered while one before it, or itself, is under way.
#[derive(Debug)]
struct Sent {
    seq: u64,
    fate: Fate,
    writes: Region,
    reads: Region,
    effects: Effects,
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
    pub(crate) acked_seq: u64,
    /// The last update sent did not end a frame.
    pub(crate) frame_open: bool,
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
    /// Pixels of the region that were not only to be compared.
    pub(crate) area: u64,
    pub(crate) lane: Lane,
    pub(crate) echo: Option<Echo>,
    pub(crate) end_of_frame: bool,
    pub(crate) bytes_estimate: u64,
    pub(crate) kind: usize,
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

    /// Bytes that will want room: known, or estimated.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent
            .iter()
            .map(|update| match update.state {
                State::Committed => update.bytes_estimate,
                State::Encoded => update.commands.len() as u64,
            })
            .sum()
    }

    /// Rule 4. Fixes an update's place.
    pub(crate) fn commit(&mut self, commit: Commit) -> JobId {
        let id = self.next_job();
        self.next_job += 1;
        let mut writes = commit.region.clone();
        let mut reads = Region::new();
        let mut commands = self.spare.pop().unwrap_or_default();
        commands.clear();
        let mut effects = Effects::default();
        for copy in commit.copies {
            writes.add(&copy.region);
            reads.add(&copy.source());
            Command::Copy { region: copy.region.clone(), dx: copy.dx, dy: copy.dy }.encode(&mut commands);
            effects.push_copy(copy);
        }
        let state = if commit.region.is_empty() { State::Encoded } else { State::Committed };
        self.unsent.push_back(Unsent {
            id,
            state,
            region: commit.region,
            effects,
            writes,
            reads,
            lane: commit.lane,
            echo: commit.echo,
            end_of_frame: commit.end_of_frame,
            bytes_estimate: commit.bytes_estimate,
            kind: commit.kind,
            area: commit.area,
            commands,
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

    /// The job's bytes are here. True when the update has something to say; else it is gone, and its echo comes back.
    pub(crate) fn encoded(&mut self, id: JobId, commands: &[u8], screen: Size) -> Result<(), Option<Echo>> {
        let Some(at) = self.position(id) else { return Ok(()) };
        let update = &mut self.unsent[at];
        update.state = State::Encoded;
        update.effects.read(commands, &update.region, screen, self.arrival);
        update.commands.extend_from_slice(commands);
        if !update.commands.is_empty() {
            return Ok(());
        }
        // All of it was equal. The frame's end is said by the update before it, or by this one with nothing else in it.
        let ends_frame = update.end_of_frame;
        if ends_frame && at > 0 {
            self.unsent[at - 1].end_of_frame = true;
        } else if ends_frame && self.frame_open {
            return Ok(());
        }
        let update = self.unsent.remove(at).expect("its place was just found");
        self.recycle(update.commands);
        Err(update.echo)
    }

    /// Takes the job's pixels out of its update, which keeps its COPYs, and gives what the viewer will lack *after
    /// everything committed*: the pixels, followed through what was committed later.
    pub(crate) fn cancelled(&mut self, id: JobId) -> Option<Region> {
        let at = self.position(id)?;
        let mut lacking = self.unsent[at].region.take();
        if self.broken.is(Mutation::StaleDoesNotFollowCopies) {
            return Some(lacking);
        }
        self.unsent.iter().skip(at + 1).for_each(|later| later.follow(&mut lacking));
        Some(lacking)
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
        let later = self.sent.iter().filter(|sent| sent.seq > since && sent.fate != Fate::Lost);
        later.for_each(|sent| sent.effects.follow(&mut lacking));
        self.unsent.iter().for_each(|update| update.follow(&mut lacking));
        Some(lacking)
    }

    /// Pixels as they are once everything sent was applied, as they will be once everything committed was: where COPYs take
    /// them, and without those that are read anew.
    pub(crate) fn settle(&self, region: &mut Region) {
        for update in &self.unsent {
            update.effects.follow(region);
            region.subtract(&update.region);
        }
    }

    /// Rule 5. Update `seq` will not be applied: what the viewer lacks for that, after everything committed. All that it
    /// wrote, and what later ones took from there, less what they wrote over it. Empty where it is known to be applied.
    ///
    /// What was equal to something it wrote, and so not sent by a later update, is in it: only what was sent mends.
    pub(crate) fn lost(&mut self, seq: u64) -> Option<Region> {
        let Ok(at) = self.sent.binary_search_by_key(&seq, |sent| sent.seq) else { return Some(Region::new()) };
        let sent = &mut self.sent[at];
        if sent.fate != Fate::UnderWay {
            return Some(Region::new());
        }
        sent.fate = Fate::Lost;
        let lacking = if seq <= self.history_after { None } else { Some(sent.effects.writes()) };
        let lacking = lacking.and_then(|lacking| self.follow(&lacking, seq));
        self.forget_sent();
        lacking
    }

    /// These were applied, in whatever order.
    pub(crate) fn applied(&mut self, seqs: &RangeInclusive<u64>) {
        for sent in self.sent.iter_mut().filter(|sent| sent.fate == Fate::UnderWay && seqs.contains(&sent.seq)) {
            sent.fate = Fate::Applied;
        }
        self.forget_sent();
    }

    /// Nothing can become lacking of what lies before the first that is under way.
    fn forget_sent(&mut self) {
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.fate != Fate::UnderWay) {
            self.acked_seq = sent.seq;
            self.forget_effects(&sent);
        }
    }

    fn forget_effects(&mut self, sent: &Sent) {
        if sent.seq > self.history_after {
            self.history_after = sent.seq;
            self.history_rects -= sent.effects.rects();
        }
    }

    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        self.arrival = arrival;
    }

    /// Nothing may be sent before the oldest is acknowledged or lost.
    pub(crate) fn is_full(&self) -> bool {
        self.sent.len() >= SENT_MAX
    }

    /// Index of the update that goes next: the first in the order of commits that is encoded and overlaps none before it
    /// that is not; one of the real-time lane first.
    pub(crate) fn next(&self) -> Option<usize> {
        if self.scheduling == Scheduling::Fifo {
            return self.unsent.front().filter(|update| update.state == State::Encoded).map(|_| 0);
        }
        let may_go = |at: usize| {
            let update = &self.unsent[at];
            let free = |earlier: &Unsent| {
                !conflict((&update.writes, &update.reads), (&earlier.writes, &earlier.reads))
                    || self.broken.is(Mutation::OverlappingUpdatesOvertake)
            };
            update.state == State::Encoded && self.unsent.iter().take(at).all(free)
        };
        let mut normal = None;
        for at in 0..self.unsent.len() {
            if self.unsent[at].lane == Lane::RealTime {
                if may_go(at) {
                    return Some(at);
                }
            } else if normal.is_none() && may_go(at) {
                normal = Some(at);
            }
        }
        normal
    }

    pub(crate) fn get(&self, at: usize) -> &Unsent {
        &self.unsent[at]
    }

    /// Takes the update at `at` to be sent: its number, the number it must follow, and itself.
    pub(crate) fn send(&mut self, at: usize) -> (u64, u64, Unsent) {
        let mut update = self.unsent.remove(at).expect("an update is sent once");
        if update.end_of_frame && at > 0 {
            // It overtakes what its frame still lacks: the frame ends with that.
            self.unsent[at - 1].end_of_frame = true;
            update.end_of_frame = false;
        }
        // Small news that overtake a large frame are to be seen now, and not when that has arrived.
        update.end_of_frame |= update.lane == Lane::RealTime;
        self.newest_seq += 1;
        let seq = self.newest_seq;
        let touched = (&update.writes, &update.reads);
        // What was applied need not be waited for, and what was lost would be waited for in vain.
        let under_way = self.sent.iter().rev().filter(|sent| sent.fate == Fate::UnderWay);
        let after = under_way.into_iter().find(|sent| conflict(touched, (&sent.writes, &sent.reads)));
        let after = after.filter(|_| !self.broken.is(Mutation::AfterIsNotTold)).map_or(0, |sent| sent.seq);
        let (writes, reads) = (update.writes.take(), update.reads.take());
        let effects = std::mem::take(&mut update.effects);
        self.remember(Sent { seq, fate: Fate::UnderWay, writes, reads, effects });
        self.frame_open = !update.end_of_frame;
        (seq, after, update)
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
        let (writes, reads, effects) = (Region::new(), Region::new(), Effects::default());
        self.remember(Sent { seq: self.newest_seq, fate: Fate::UnderWay, writes, reads, effects });
        self.newest_seq
    }

    /// Gives a buffer back for the next update.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        // A few small ones: a large one is worth returning.
        if self.spare.len() < UNSENT_MAX && buffer.capacity() <= 64 * 1024 {
            self.spare.push(buffer);
        }
    }

    /// Rule 9. Another geometry: what was not sent never will be.
    pub(crate) fn reset(&mut self) {
        if !self.broken.is(Mutation::EpochsAreIgnored) {
            self.unsent.clear();
        }
        self.frame_open = false;
        for sent in &mut self.sent {
            sent.writes.clear();
            sent.reads.clear();
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
        let oldest = self.sent.front().is_none_or(|sent| sent.fate == Fate::UnderWay);
        assert!(oldest, "the oldest that is remembered is under way");
        assert!(self.acked_seq <= self.newest_seq, "nothing is acknowledged that was not sent");
        let ordered = self.unsent.iter().zip(self.unsent.iter().skip(1)).all(|(a, b)| a.id < b.id);
        assert!(ordered, "updates wait in the order of their commits");
    }
}

/// Whether the shell shall read the pixels once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotVerdict {
    /// Go on with them.
    Keep,
    /// Something was drawn meanwhile: they may be torn. Read them again, once.
    ReadAgain,
}

/// How old a record may get before it is flushed although X has not gone to sleep.
///
/// 3 ms: a fifth of a 60 Hz frame; normally IDLE comes first.
pub const RECORD_AGE_MAX: Micros = 3_000;

#[cfg(test)]
mod tests {
    use thinc_region::Rect;

    use super::*;

    const SCREEN: Size = Size { width: 100, height: 100 };

    /// Commits an update of one rectangle.
    fn commit(updates: &mut Updates, x: i32, lane: Lane, end_of_frame: bool) -> JobId {
        let region = Region::from(Rect::new(x, 0, x + 10, 10));
        let (area, echo) = (region.area(), None);
        updates.commit(Commit { region, copies: vec![], area, lane, echo, end_of_frame, bytes_estimate: 10, kind: 0 })
    }

    /// Sends what may go, and says what each said of its frame.
    fn sent(updates: &mut Updates) -> Vec<bool> {
        std::iter::from_fn(|| updates.next().map(|at| updates.send(at).2.end_of_frame)).collect()
    }

    #[test]
    fn a_frame_ends_with_the_update_that_is_sent_last() {
        let mut updates = Updates::new(Scheduling::default(), Broken::default());
        let large = commit(&mut updates, 0, Lane::Normal, false);
        let middle = commit(&mut updates, 20, Lane::Normal, false);
        let small = commit(&mut updates, 40, Lane::Normal, true);
        updates.encoded(small, b"s", SCREEN).unwrap();
        assert_eq!(sent(&mut updates), [false], "the small one overtakes what its frame lacks");
        updates.encoded(large, b"l", SCREEN).unwrap();
        assert_eq!(sent(&mut updates), [false]);
        updates.encoded(middle, b"m", SCREEN).unwrap();
        assert_eq!(sent(&mut updates), [true]);
        assert!(!updates.frame_open, "the viewer shows what it has");
    }

    #[test]
    fn an_answer_to_a_hand_is_shown_at_once_and_leaves_the_frames_end_to_the_frame() {
        let mut updates = Updates::new(Scheduling::default(), Broken::default());
        let large = commit(&mut updates, 0, Lane::Normal, false);
        let echo = commit(&mut updates, 20, Lane::RealTime, true);
        updates.encoded(echo, b"e", SCREEN).unwrap();
        assert_eq!(sent(&mut updates), [true]);
        updates.encoded(large, b"l", SCREEN).unwrap();
        assert_eq!(sent(&mut updates), [true]);
    }
}
