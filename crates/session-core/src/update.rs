//! Path 7/13 and 10/13: from scheduler.rs, through the shell's snapshot, plan and encoders, to transport.
//! One viewer's updates from commit to acknowledgement: order is fixed at commit, overlapping ones leave in that order.
//! Knows regions, bytes and numbers; never pixels or sockets.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;
use thinc_region::Region;

use crate::command_queue::{Echo, Lane};
use crate::copies::CopyCommand;
use crate::drawable::Part;
use crate::mutation::{Broken, Mutation};

/// Most updates between commit and sending: enough for every worker and the small ones that overtake them.
pub(crate) const UNSENT_MAX: usize = 8;
/// Of these, places that only the real-time lane takes.
pub(crate) const UNSENT_REAL_TIME: usize = 2;
/// Most COPYs remembered after they were sent, to follow what turns out to be lacking; past it everything is lacking.
const HISTORY_MAX: usize = 256;

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
    copies: Vec<CopyCommand>,
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

/// An update that was sent and not yet acknowledged.
#[derive(Debug)]
struct Sent {
    seq: u64,
    writes: Region,
    reads: Region,
}

/// One viewer's updates.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    unsent: VecDeque<Unsent>,
    sent: VecDeque<Sent>,
    /// COPYs of sent updates that a later `stale` must follow, with the update's number.
    history: VecDeque<(u64, CopyCommand)>,
    /// Updates after this one have their COPYs in `history`.
    history_after: u64,
    next_job: u64,
    pub(crate) newest_seq: u64,
    pub(crate) acked_seq: u64,
    /// The last update sent did not end a frame.
    pub(crate) frame_open: bool,
    /// Buffers that were used and are free.
    spare: Vec<Vec<u8>>,
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
    pub(crate) fn new(broken: Broken) -> Updates {
        Updates { broken, ..Updates::default() }
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
        for copy in &commit.copies {
            writes.add(&copy.region);
            reads.add(&copy.source());
            Command::Copy { region: copy.region.clone(), dx: copy.dx, dy: copy.dy }.encode(&mut commands);
        }
        let state = if commit.region.is_empty() { State::Encoded } else { State::Committed };
        self.unsent.push_back(Unsent {
            id,
            state,
            region: commit.region,
            copies: commit.copies,
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
    pub(crate) fn encoded(&mut self, id: JobId, commands: &[u8]) -> Result<(), Option<Echo>> {
        let Some(at) = self.position(id) else { return Ok(()) };
        let update = &mut self.unsent[at];
        update.state = State::Encoded;
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
    /// everything committed*: the pixels, followed through the COPYs committed later.
    pub(crate) fn cancelled(&mut self, id: JobId) -> Option<Region> {
        let at = self.position(id)?;
        let mut lacking = self.unsent[at].region.take();
        if self.broken.is(Mutation::StaleDoesNotFollowCopies) {
            return Some(lacking);
        }
        for later in self.unsent.iter().skip(at + 1) {
            for copy in &later.copies {
                lacking = copy.follow(&lacking);
            }
        }
        Some(lacking)
    }

    /// Rule 5. What the viewer lacked after update `since`, followed through every COPY committed after it.
    /// None: too long ago to tell, so everything.
    pub(crate) fn follow(&self, region: &Region, since: u64) -> Option<Region> {
        if since < self.history_after {
            return None;
        }
        let mut lacking = region.clone();
        if self.broken.is(Mutation::StaleDoesNotFollowCopies) {
            return Some(lacking);
        }
        let sent = self.history.iter().filter(|(seq, _)| *seq > since).map(|(_, copy)| copy);
        for copy in sent.chain(self.unsent.iter().flat_map(|update| &update.copies)) {
            lacking = copy.follow(&lacking);
        }
        Some(lacking)
    }

    /// Index of the update that goes next: the first in the order of commits that is encoded and overlaps none before it
    /// that is not; one of the real-time lane first.
    pub(crate) fn next(&self) -> Option<usize> {
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
        let after = self.sent.iter().rev().find(|sent| conflict(touched, (&sent.writes, &sent.reads)));
        let after = after.map_or(0, |sent| sent.seq);
        for copy in update.copies.drain(..) {
            if self.history.len() == HISTORY_MAX
                && let Some((oldest, _)) = self.history.pop_front()
            {
                self.history_after = oldest;
            }
            self.history.push_back((seq, copy));
        }
        self.sent.push_back(Sent { seq, writes: update.writes.take(), reads: update.reads.take() });
        self.frame_open = !update.end_of_frame;
        (seq, after, update)
    }

    /// An update without commands, for its acknowledgement.
    pub(crate) fn send_marker(&mut self) -> u64 {
        self.newest_seq += 1;
        self.sent.push_back(Sent { seq: self.newest_seq, writes: Region::new(), reads: Region::new() });
        self.newest_seq
    }

    /// Gives a buffer back for the next update.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        // A few small ones: a large one is worth returning.
        if self.spare.len() < UNSENT_MAX && buffer.capacity() <= 64 * 1024 {
            self.spare.push(buffer);
        }
    }

    /// Everything up to `seq` was applied.
    pub(crate) fn acked(&mut self, seq: u64) {
        self.acked_seq = seq;
        while self.sent.front().is_some_and(|sent| sent.seq <= seq) {
            self.sent.pop_front();
        }
        while self.history.front().is_some_and(|(sent, _)| *sent <= seq) {
            self.history.pop_front();
        }
        self.history_after = self.history_after.max(seq);
    }

    /// Rule 9. Another geometry: what was not sent never will be.
    pub(crate) fn reset(&mut self) {
        if !self.broken.is(Mutation::EpochsAreIgnored) {
            self.unsent.clear();
        }
        self.history.clear();
        self.history_after = self.newest_seq;
        self.frame_open = false;
        for sent in &mut self.sent {
            sent.writes.clear();
            sent.reads.clear();
        }
    }

    /// # Panics
    /// When a promise of this file is broken, with the promise in words.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unsent.len() <= UNSENT_MAX, "at most {UNSENT_MAX} updates wait to be sent");
        assert!(self.history.len() <= HISTORY_MAX, "at most {HISTORY_MAX} sent COPYs are remembered");
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
        let mut updates = Updates::new(Broken::default());
        let large = commit(&mut updates, 0, Lane::Normal, false);
        let middle = commit(&mut updates, 20, Lane::Normal, false);
        let small = commit(&mut updates, 40, Lane::Normal, true);
        updates.encoded(small, b"s").unwrap();
        assert_eq!(sent(&mut updates), [false], "the small one overtakes what its frame lacks");
        updates.encoded(large, b"l").unwrap();
        assert_eq!(sent(&mut updates), [false]);
        updates.encoded(middle, b"m").unwrap();
        assert_eq!(sent(&mut updates), [true]);
        assert!(!updates.frame_open, "the viewer shows what it has");
    }

    #[test]
    fn an_answer_to_a_hand_is_shown_at_once_and_leaves_the_frames_end_to_the_frame() {
        let mut updates = Updates::new(Broken::default());
        let large = commit(&mut updates, 0, Lane::Normal, false);
        let echo = commit(&mut updates, 20, Lane::RealTime, true);
        updates.encoded(echo, b"e").unwrap();
        assert_eq!(sent(&mut updates), [true]);
        updates.encoded(large, b"l").unwrap();
        assert_eq!(sent(&mut updates), [true]);
    }
}
