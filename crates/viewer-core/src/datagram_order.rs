//! Path 11/13: beside decode.rs, from the datagrams that carry updates, to the order in which they
//! are applied.
//! Which updates have arrived, which wait for a predecessor, and the effects of newer updates, to
//! decide whether a reordered update may still be applied. Knows numbers, rectangles and times;
//! never pixels or sockets.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_protocol::command::Command;
use thinc_protocol::limits::{ARRIVED_DISCARDED_MAX, ARRIVED_RUNS_MAX};
use thinc_protocol::video::VideoCommand;
use thinc_region::Rect;

/// 128 updates, 256 KiB: most that wait; more than a path reorders, or than is sent as datagrams in
/// a round trip. Beyond it the newest is dropped, as if the network had lost it.
const WAITING_MAX: usize = 128;
const WAITING_BYTES_MAX: usize = 256 * 1024;
/// RTT/8, within 1 and 20 ms: how long an update waits for its predecessor, which is late or lost.
const WINDOW_MIN: Micros = 1_000;
const WINDOW_MAX: Micros = 20_000;
/// 5 ms: the same before a round trip was measured.
const WINDOW_UNKNOWN: Micros = 5_000;
/// 128: newest updates whose effects are remembered. Updates older than all of them are discarded
/// as too late.
const EFFECTS_MAX: usize = 128;
/// 16: rectangles per update for what it wrote, and for what it read; beyond it the last rectangle
/// covers the rest.
const RECTS_MAX: usize = 16;
/// 40 ms: if no further update arrives for so long, the acknowledgement is repeated on the stream,
/// which loses nothing.
const REPEAT_TIME: Micros = 40_000;

/// An update that waits for its predecessor.
#[derive(Debug)]
pub(crate) struct QueuedUpdate {
    pub(crate) seq: u64,
    pub(crate) after: u64,
    pub(crate) epoch: u32,
    since: Micros,
    pub(crate) frame: Vec<u8>,
}

/// The pixels that an update wrote and read.
#[derive(Debug, Default)]
struct Effects {
    seq: u64,
    writes: Vec<Rect>,
    reads: Vec<Rect>,
}

/// Adds a rectangle; beyond the bound the last one grows to cover it.
fn add(rects: &mut Vec<Rect>, rect: Rect) {
    let full = rects.len() == RECTS_MAX;
    match rects.last_mut().filter(|_| full) {
        Some(last) => *last = last.bound(&rect),
        None => rects.push(rect),
    }
}

fn overlap(some: &[Rect], others: &[Rect]) -> bool {
    some.iter().any(|rect| others.iter().any(|other| rect.overlaps(other)))
}

impl Effects {
    fn clear(&mut self) {
        self.writes.clear();
        self.reads.clear();
    }

    fn note(&mut self, command: &Command<'_>) {
        match command {
            Command::Copy { region, dx, dy } => {
                for rect in region.rects() {
                    add(&mut self.writes, *rect);
                    add(&mut self.reads, rect.translate(-dx, -dy));
                }
            }
            Command::Sfill { region, .. } => {
                region.rects().iter().for_each(|rect| add(&mut self.writes, *rect))
            }
            Command::Pfill { rect, .. }
            | Command::Bitmap { rect, .. }
            | Command::Raw { rect, .. }
            | Command::Recall { rect, .. } => add(&mut self.writes, *rect),
            Command::Keep { rect, .. } => add(&mut self.reads, *rect),
            Command::Video(VideoCommand::Next { clip, .. }) => {
                clip.rects().iter().for_each(|rect| add(&mut self.writes, *rect));
            }
            Command::Video(_) => {}
        }
    }

    /// The two updates do not commute.
    fn conflicts(&self, other: &Effects) -> bool {
        overlap(&self.writes, &other.writes)
            || overlap(&self.writes, &other.reads)
            || overlap(&self.reads, &other.writes)
    }
}

/// The decision on an update that arrived as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Apply it now.
    Apply,
    /// Drop it: its geometry has been replaced.
    Drop,
    /// Discard it: a newer update that conflicts with it was applied.
    Discard,
}

/// Decides in which order updates are applied that arrive in any order.
#[derive(Debug, Default)]
pub(crate) struct DatagramOrder {
    /// The session announced that it sends some updates as datagrams.
    pub(crate) is_on: bool,
    waiting: Vec<QueuedUpdate>,
    waiting_bytes: usize,
    arrived: Arrived,
    /// Effects of the newest updates, in the order of application; an update older than
    /// `late_before` is too late.
    effects: VecDeque<Effects>,
    late_before: u64,
    /// Effects so far of the update that is being applied.
    current: Effects,
    /// Updates have arrived that were not acknowledged yet.
    ack_pending: bool,
    /// When the acknowledgement is repeated.
    repeat_at: Option<Micros>,
}

impl DatagramOrder {
    /// How long an update waits for its predecessor.
    pub(crate) fn window(rtt: Option<u64>) -> Micros {
        rtt.map_or(WINDOW_UNKNOWN, |rtt| (rtt / 8).clamp(WINDOW_MIN, WINDOW_MAX))
    }

    /// An update arrived as a datagram. A duplicate changes nothing.
    pub(crate) fn insert(&mut self, seq: u64, after: u64, epoch: u32, frame: &[u8], now: Micros) {
        let Err(at) = self.waiting.binary_search_by_key(&seq, |waiting| waiting.seq) else {
            return;
        };
        let has_arrived = self.is_settled(seq);
        if has_arrived
            || self.waiting.len() == WAITING_MAX
            || self.waiting_bytes + frame.len() > WAITING_BYTES_MAX
        {
            // Acknowledge it again: the first acknowledgement may have been lost.
            self.ack_pending |= has_arrived;
            return;
        }
        self.waiting_bytes += frame.len();
        self.waiting
            .insert(at, QueuedUpdate { seq, after, epoch, since: now, frame: frame.to_vec() });
    }

    /// It was applied, dropped or discarded, or is too old to be remembered.
    fn is_settled(&self, seq: u64) -> bool {
        let Arrived { applied, discarded } = &self.arrived;
        applied.iter().any(|run| run.contains(&seq))
            || discarded.contains(&seq)
            || applied.len() == ARRIVED_RUNS_MAX
                && applied.last().is_some_and(|oldest| seq < *oldest.start())
    }

    /// All of these were applied or dropped.
    pub(crate) fn have_arrived(&self, seqs: RangeInclusive<u64>) -> bool {
        self.arrived
            .applied
            .iter()
            .any(|run| run.start() <= seqs.start() && seqs.end() <= run.end())
    }

    /// The next update that need not wait, or has waited long enough; lowest number first, since
    /// others may wait for it.
    pub(crate) fn poll(
        &mut self,
        epoch: Option<u32>,
        window: Micros,
        now: Micros,
    ) -> Option<QueuedUpdate> {
        let epoch = epoch.filter(|_| self.is_on)?;
        let ready = |waiting: &QueuedUpdate| {
            let follows = waiting.after == 0
                || self.is_settled(waiting.after)
                || now >= waiting.since + window;
            waiting.epoch < epoch || waiting.epoch == epoch && follows
        };
        let at = self.waiting.iter().position(ready)?;
        let waiting = self.waiting.remove(at);
        self.waiting_bytes -= waiting.frame.len();
        Some(waiting)
    }

    /// When an update has waited long enough, or the acknowledgement is to be repeated.
    pub(crate) fn deadline(&self, epoch: Option<u32>, window: Micros) -> Option<Micros> {
        let epoch = epoch.filter(|_| self.is_on);
        let current_epoch = self.waiting.iter().filter(|waiting| Some(waiting.epoch) == epoch);
        current_epoch.map(|waiting| waiting.since + window).chain(self.repeat_at).min()
    }

    /// Decides on an update that arrived as a datagram and holds these commands.
    pub(crate) fn decide<'a>(
        &mut self,
        waiting: &QueuedUpdate,
        epoch: u32,
        commands: impl Iterator<Item = Command<'a>>,
    ) -> Decision {
        if waiting.epoch != epoch {
            return Decision::Drop;
        }
        if waiting.seq < self.late_before {
            return Decision::Discard;
        }
        self.current.clear();
        let newer = |effects: &&Effects| effects.seq > waiting.seq;
        if self.effects.iter().any(|effects| newer(&effects)) {
            commands.for_each(|command| self.current.note(&command));
            let current = &self.current;
            if self.effects.iter().filter(newer).any(|effects| effects.conflicts(current)) {
                return Decision::Discard;
            }
            self.current.clear();
        }
        Decision::Apply
    }

    /// Records the effect of one command of the update that is being applied.
    pub(crate) fn note(&mut self, command: &Command<'_>) {
        if self.is_on {
            self.current.note(command);
        }
    }

    /// An update was applied or dropped.
    pub(crate) fn applied(&mut self, seq: u64, now: Micros) {
        if !self.is_on {
            return;
        }
        self.add(seq);
        // An older update can still arrive only if there is a gap.
        let has_gap = self
            .arrived
            .applied
            .iter()
            .find(|run| run.contains(&seq))
            .is_some_and(|run| *run.start() > 1);
        if has_gap && !(self.current.writes.is_empty() && self.current.reads.is_empty()) {
            let mut effects = Effects::default();
            if self.effects.len() == EFFECTS_MAX
                && let Some(oldest) = self.effects.pop_front()
            {
                self.late_before = self.late_before.max(oldest.seq);
                effects = oldest;
            }
            effects.seq = seq;
            std::mem::swap(&mut effects.writes, &mut self.current.writes);
            std::mem::swap(&mut effects.reads, &mut self.current.reads);
            self.effects.push_back(effects);
        }
        self.current.clear();
        self.schedule_ack(now);
    }

    fn add(&mut self, seq: u64) {
        let runs = &mut self.arrived.applied;
        // The newest first.
        let at = runs.partition_point(|run| *run.start() > seq);
        let joins_newer = at > 0 && *runs[at - 1].start() == seq + 1;
        let joins_older = at < runs.len() && *runs[at].end() + 1 == seq;
        match (joins_newer, joins_older) {
            _ if at < runs.len() && runs[at].contains(&seq) => {}
            (true, true) => {
                runs[at - 1] = *runs[at].start()..=*runs[at - 1].end();
                runs.remove(at);
            }
            (true, false) => runs[at - 1] = seq..=*runs[at - 1].end(),
            (false, true) => runs[at] = *runs[at].start()..=seq,
            (false, false) => runs.insert(at, seq..=seq),
        }
        runs.truncate(ARRIVED_RUNS_MAX);
    }

    /// An update was discarded as too late.
    pub(crate) fn discarded(&mut self, seq: u64, now: Micros) {
        let Arrived { applied, discarded } = &mut self.arrived;
        // The wire format lists discarded updates only below the newest one.
        if applied.first().is_some_and(|newest| seq < *newest.end()) {
            if discarded.len() == ARRIVED_DISCARDED_MAX {
                discarded.remove(0);
            }
            discarded.push(seq);
        }
        self.schedule_ack(now);
    }

    fn schedule_ack(&mut self, now: Micros) {
        self.ack_pending = true;
        self.repeat_at = Some(now + REPEAT_TIME);
    }

    /// A new geometry: effects on the old framebuffer no longer matter.
    pub(crate) fn reset(&mut self) {
        self.effects.clear();
        self.current.clear();
    }

    /// The acknowledgement, if there is anything new to acknowledge.
    pub(crate) fn poll_ack(&mut self) -> Option<&Arrived> {
        (std::mem::take(&mut self.ack_pending) && !self.arrived.applied.is_empty())
            .then_some(&self.arrived)
    }

    /// The repeated acknowledgement, if it is due.
    pub(crate) fn poll_repeated_ack(&mut self, now: Micros) -> Option<&Arrived> {
        self.repeat_at.take_if(|at| *at <= now)?;
        (!self.arrived.applied.is_empty()).then_some(&self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> DatagramOrder {
        DatagramOrder { is_on: true, ..DatagramOrder::default() }
    }

    fn fill(x: i32) -> Command<'static> {
        Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 }
    }

    fn apply(order: &mut DatagramOrder, seq: u64, x: i32) {
        order.note(&fill(x));
        order.applied(seq, 0);
    }

    /// The numbers of the updates that are ready.
    fn applied_now(order: &mut DatagramOrder, epoch: u32, now: Micros) -> Vec<u64> {
        std::iter::from_fn(|| {
            let waiting = order.poll(Some(epoch), 5_000, now)?;
            order.applied(waiting.seq, now);
            Some(waiting.seq)
        })
        .collect()
    }

    #[test]
    fn runs_join_and_are_bounded() {
        let mut order = order();
        for seq in [1, 2, 5, 4, 7, 3] {
            order.applied(seq, 0);
        }
        assert_eq!(order.arrived.applied, [7..=7, 1..=5]);
        order.applied(6, 0);
        assert_eq!(order.poll_ack().map(|arrived| arrived.applied.clone()), Some(vec![1..=7]));
        assert_eq!(order.poll_ack(), None, "it was acknowledged");
        (5..100).for_each(|seq| order.applied(2 * seq, 0));
        assert_eq!(order.arrived.applied.len(), ARRIVED_RUNS_MAX);
        order.insert(9, 0, 1, &[0; 10], 0);
        assert_eq!(applied_now(&mut order, 1, 0), [], "too old to know whether it has arrived");
    }

    #[test]
    fn an_update_waits_for_its_predecessor_within_the_window() {
        let mut order = order();
        order.applied(1, 0);
        order.insert(4, 3, 1, &[0; 10], 1_000);
        order.insert(5, 0, 1, &[0; 10], 1_000);
        assert_eq!(
            applied_now(&mut order, 1, 1_000),
            [5],
            "an update without a predecessor does not wait"
        );
        assert_eq!(order.deadline(Some(1), 5_000), Some(6_000));
        order.insert(3, 1, 1, &[0; 10], 2_000);
        assert_eq!(applied_now(&mut order, 1, 2_000), [3, 4]);
        order.insert(8, 7, 1, &[0; 10], 3_000);
        assert_eq!(applied_now(&mut order, 1, 7_999), []);
        assert_eq!(applied_now(&mut order, 1, 8_000), [8], "its predecessor is lost");
        order.insert(8, 7, 1, &[0; 10], 9_000);
        assert_eq!(applied_now(&mut order, 1, 20_000), [], "a duplicate is not applied twice");
    }

    #[test]
    fn an_update_for_a_later_geometry_waits_for_it() {
        let mut order = order();
        order.insert(9, 0, 2, &[0; 10], 0);
        assert_eq!(applied_now(&mut order, 1, 1_000_000), []);
        assert_eq!(order.deadline(Some(1), 5_000), None, "it does not wait for a time");
        assert_eq!(applied_now(&mut order, 2, 1_000_000), [9]);
        order.insert(10, 0, 1, &[0; 10], 0);
        let waiting = order.poll(Some(2), 5_000, 0).expect("its geometry has been replaced");
        assert_eq!(order.decide(&waiting, 2, std::iter::empty()), Decision::Drop);
    }

    #[test]
    fn a_late_update_is_discarded_if_it_conflicts_with_a_newer_one() {
        let mut order = order();
        apply(&mut order, 1, 0);
        apply(&mut order, 3, 0);
        apply(&mut order, 5, 40);
        let late = |seq| QueuedUpdate { seq, after: 0, epoch: 1, since: 0, frame: Vec::new() };
        assert_eq!(
            order.decide(&late(2), 1, [fill(2)].into_iter()),
            Decision::Discard,
            "3 overlaps it"
        );
        assert_eq!(order.decide(&late(4), 1, [fill(2)].into_iter()), Decision::Apply, "3 is older");
        let copy = |x, dx| Command::Copy { region: Rect::at(x, 0, 4, 4).into(), dx, dy: 0 };
        assert_eq!(
            order.decide(&late(4), 1, [copy(20, -20)].into_iter()),
            Decision::Discard,
            "it would read what 5 wrote"
        );
        order.discarded(4, 7);
        assert_eq!(order.poll_ack().map(|arrived| arrived.discarded.clone()), Some(vec![4]));
        order.reset();
        assert_eq!(order.decide(&late(2), 1, [fill(2)].into_iter()), Decision::Apply);
    }

    #[test]
    fn an_update_older_than_all_remembered_effects_is_too_late() {
        let mut order = order();
        (3..=EFFECTS_MAX as u64 + 4).for_each(|seq| apply(&mut order, seq, 0));
        let waiting = QueuedUpdate { seq: 2, after: 0, epoch: 1, since: 0, frame: Vec::new() };
        assert_eq!(order.decide(&waiting, 1, [fill(80)].into_iter()), Decision::Discard);
    }

    #[test]
    fn waiting_updates_are_bounded() {
        let mut order = order();
        (10..1000).for_each(|seq| order.insert(seq, seq - 1, 1, &[0; 10], 0));
        assert_eq!(order.waiting.len(), WAITING_MAX);
        let mut order = DatagramOrder::default();
        (10..1000).for_each(|seq| order.insert(seq, seq - 1, 1, &[0; 10_000], 0));
        assert!(order.waiting_bytes <= WAITING_BYTES_MAX && order.waiting.len() < WAITING_MAX);
    }

    #[test]
    fn the_acknowledgement_is_repeated_once() {
        let mut order = order();
        order.applied(1, 1_000);
        assert_eq!(order.deadline(Some(1), 5_000), Some(41_000));
        assert_eq!(order.poll_repeated_ack(40_999), None, "not so soon");
        assert!(order.poll_repeated_ack(41_000).is_some());
        assert_eq!(order.poll_repeated_ack(90_000), None);
        assert_eq!(order.deadline(Some(1), 5_000), None);
    }
}
