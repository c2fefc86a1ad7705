//! Path 11/13: beside decode.rs, between the datagrams that bring updates alone and the order in which they are applied.
//! What has come, what waits for what it must follow, and what was done since by which what comes late is judged.
//! Knows numbers, rectangles and times; never pixels or sockets.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;
use thinc_protocol::arrived::Arrived;
use thinc_protocol::command::Command;
use thinc_protocol::limits::{ARRIVED_DISCARDED_MAX, ARRIVED_RUNS_MAX};
use thinc_protocol::video::VideoCommand;
use thinc_region::Rect;

/// Updates that wait, and all their bytes: more than a path reorders, or goes alone in a round trip. Past it the newest is dropped, which is
/// to say lost.
const HELD_MAX: usize = 128;
const HELD_BYTES_MAX: usize = 256 * 1024;
/// How long one waits for what it must follow, which is late or lost: an eighth of a round trip, within 1 and 20 ms.
const WINDOW_MIN: Micros = 1_000;
const WINDOW_MAX: Micros = 20_000;
/// Taken for it before a round trip was measured.
const WINDOW_UNKNOWN: Micros = 5_000;
/// Updates of which it is known what they did. What is older than all of them comes too late.
const DONE_MAX: usize = 128;
/// Rectangles by which that is said, of what was written and of what was read; past it one holds the rest.
const RECTS_MAX: usize = 16;
/// 40 ms: when nothing has followed for so long, what has arrived is said once more, where nothing is lost.
const REPEAT_TIME: Micros = 40_000;

/// An update that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) seq: u64,
    pub(crate) after: u64,
    pub(crate) epoch: u32,
    since: Micros,
    pub(crate) frame: Vec<u8>,
}

/// What an update did to which pixels.
#[derive(Debug, Default)]
struct Done {
    seq: u64,
    writes: Vec<Rect>,
    reads: Vec<Rect>,
}

/// Adds a rectangle; the last holds what there is no room for.
fn add(rects: &mut Vec<Rect>, rect: Rect) {
    let full = rects.len() == RECTS_MAX;
    match rects.last_mut().filter(|_| full) {
        Some(last) => *last = last.bound(&rect),
        None => rects.push(rect),
    }
}

fn meet(some: &[Rect], others: &[Rect]) -> bool {
    some.iter().any(|rect| others.iter().any(|other| rect.overlaps(other)))
}

impl Done {
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
            Command::Sfill { region, .. } => region.rects().iter().for_each(|rect| add(&mut self.writes, *rect)),
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

    /// The two may not change places.
    fn conflicts(&self, other: &Done) -> bool {
        meet(&self.writes, &other.writes) || meet(&self.writes, &other.reads) || meet(&self.reads, &other.writes)
    }
}

/// What becomes of an update that has come alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is applied now.
    Apply,
    /// It is of a screen that is over.
    Drop,
    /// Something newer was applied over it.
    Discard,
}

/// Order among updates that come in any.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The session has said that it sends some alone.
    pub(crate) is_on: bool,
    held: Vec<Held>,
    held_bytes: usize,
    arrived: Arrived,
    /// What the newest did, in the order in which they were applied; and whatever is older than this number comes too late.
    done: VecDeque<Done>,
    late_before: u64,
    /// What the update that is being applied has done so far.
    doing: Done,
    /// Something has arrived that was not said.
    news: bool,
    /// When it is to be said once more.
    repeat_at: Option<Micros>,
}

impl Order {
    /// How long one waits for another, by the round trip.
    pub(crate) fn window(rtt: Option<u64>) -> Micros {
        rtt.map_or(WINDOW_UNKNOWN, |rtt| (rtt / 8).clamp(WINDOW_MIN, WINDOW_MAX))
    }

    /// An update came alone. One that has come before is no news.
    pub(crate) fn hold(&mut self, seq: u64, after: u64, epoch: u32, frame: &[u8], now: Micros) {
        let Err(at) = self.held.binary_search_by_key(&seq, |held| held.seq) else { return };
        let has_come = self.is_settled(seq);
        if has_come || self.held.len() == HELD_MAX || self.held_bytes + frame.len() > HELD_BYTES_MAX {
            // That it came is said again: the session may not have heard.
            self.news |= has_come;
            return;
        }
        self.held_bytes += frame.len();
        self.held.insert(at, Held { seq, after, epoch, since: now, frame: frame.to_vec() });
    }

    /// It was applied, dropped or discarded, or nobody remembers.
    fn is_settled(&self, seq: u64) -> bool {
        let Arrived { applied, discarded } = &self.arrived;
        applied.iter().any(|run| run.contains(&seq))
            || discarded.contains(&seq)
            || applied.len() == ARRIVED_RUNS_MAX && applied.last().is_some_and(|oldest| seq < *oldest.start())
    }

    /// These were all applied or dropped.
    pub(crate) fn have_come(&self, seqs: RangeInclusive<u64>) -> bool {
        self.arrived.applied.iter().any(|run| run.start() <= seqs.start() && seqs.end() <= run.end())
    }

    /// The next that need not wait, or has waited for long enough: numbers grow, as one may be what the next waits for.
    pub(crate) fn poll(&mut self, epoch: Option<u32>, window: Micros, now: Micros) -> Option<Held> {
        let epoch = epoch.filter(|_| self.is_on)?;
        let ready = |held: &Held| {
            let follows = held.after == 0 || self.is_settled(held.after) || now >= held.since + window;
            held.epoch < epoch || held.epoch == epoch && follows
        };
        let at = self.held.iter().position(ready)?;
        let held = self.held.remove(at);
        self.held_bytes -= held.frame.len();
        Some(held)
    }

    /// When one has waited for long enough, or what has arrived is to be said once more.
    pub(crate) fn deadline(&self, epoch: Option<u32>, window: Micros) -> Option<Micros> {
        let epoch = epoch.filter(|_| self.is_on);
        let of_now = self.held.iter().filter(|held| Some(held.epoch) == epoch);
        of_now.map(|held| held.since + window).chain(self.repeat_at).min()
    }

    /// What becomes of one that came alone and does this.
    pub(crate) fn turn<'a>(&mut self, held: &Held, epoch: u32, commands: impl Iterator<Item = Command<'a>>) -> Turn {
        if held.epoch != epoch {
            return Turn::Drop;
        }
        if held.seq < self.late_before {
            return Turn::Discard;
        }
        self.doing.clear();
        let newer = |done: &&Done| done.seq > held.seq;
        if self.done.iter().any(|done| newer(&done)) {
            commands.for_each(|command| self.doing.note(&command));
            let doing = &self.doing;
            if self.done.iter().filter(newer).any(|done| done.conflicts(doing)) {
                return Turn::Discard;
            }
            self.doing.clear();
        }
        Turn::Apply
    }

    /// The update that is being applied does this.
    pub(crate) fn note(&mut self, command: &Command<'_>) {
        if self.is_on {
            self.doing.note(command);
        }
    }

    /// An update has been applied, or dropped.
    pub(crate) fn applied(&mut self, seq: u64, now: Micros) {
        if !self.is_on {
            return;
        }
        self.add(seq);
        // What is older may still come only where it has not yet.
        let has_gap = self.arrived.applied.iter().find(|run| run.contains(&seq)).is_some_and(|run| *run.start() > 1);
        if has_gap && !(self.doing.writes.is_empty() && self.doing.reads.is_empty()) {
            let mut done = Done::default();
            if self.done.len() == DONE_MAX
                && let Some(oldest) = self.done.pop_front()
            {
                self.late_before = self.late_before.max(oldest.seq);
                done = oldest;
            }
            done.seq = seq;
            std::mem::swap(&mut done.writes, &mut self.doing.writes);
            std::mem::swap(&mut done.reads, &mut self.doing.reads);
            self.done.push_back(done);
        }
        self.doing.clear();
        self.tell(now);
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

    /// An update came too late.
    pub(crate) fn discarded(&mut self, seq: u64, now: Micros) {
        let Arrived { applied, discarded } = &mut self.arrived;
        // All that is said of it is said in front of the newest.
        if applied.first().is_some_and(|newest| seq < *newest.end()) {
            if discarded.len() == ARRIVED_DISCARDED_MAX {
                discarded.remove(0);
            }
            discarded.push(seq);
        }
        self.tell(now);
    }

    fn tell(&mut self, now: Micros) {
        self.news = true;
        self.repeat_at = Some(now + REPEAT_TIME);
    }

    /// Another screen: what was done to the one before is over.
    pub(crate) fn reset(&mut self) {
        self.done.clear();
        self.doing.clear();
    }

    /// What has arrived, where something has.
    pub(crate) fn poll_news(&mut self) -> Option<&Arrived> {
        (std::mem::take(&mut self.news) && !self.arrived.applied.is_empty()).then_some(&self.arrived)
    }

    /// The same, where nothing has followed it for a while.
    pub(crate) fn poll_repeat(&mut self, now: Micros) -> Option<&Arrived> {
        self.repeat_at.take_if(|at| *at <= now)?;
        (!self.arrived.applied.is_empty()).then_some(&self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order { is_on: true, ..Order::default() }
    }

    fn fill(x: i32) -> Command<'static> {
        Command::Sfill { region: Rect::at(x, 0, 4, 4).into(), color: 7 }
    }

    fn apply(order: &mut Order, seq: u64, x: i32) {
        order.note(&fill(x));
        order.applied(seq, 0);
    }

    /// The numbers of those whose turn has come.
    fn polled(order: &mut Order, epoch: u32, now: Micros) -> Vec<u64> {
        std::iter::from_fn(|| {
            let held = order.poll(Some(epoch), 5_000, now)?;
            order.applied(held.seq, now);
            Some(held.seq)
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
        assert_eq!(order.poll_news().map(|arrived| arrived.applied.clone()), Some(vec![1..=7]));
        assert_eq!(order.poll_news(), None, "it was said");
        (5..100).for_each(|seq| order.applied(2 * seq, 0));
        assert_eq!(order.arrived.applied.len(), ARRIVED_RUNS_MAX);
        order.hold(9, 0, 1, &[0; 10], 0);
        assert_eq!(polled(&mut order, 1, 0), [], "nobody remembers whether it has come");
    }

    #[test]
    fn what_must_follow_waits_for_a_moment() {
        let mut order = order();
        order.applied(1, 0);
        order.hold(4, 3, 1, &[0; 10], 1_000);
        order.hold(5, 0, 1, &[0; 10], 1_000);
        assert_eq!(polled(&mut order, 1, 1_000), [5], "what follows nothing waits for nothing");
        assert_eq!(order.deadline(Some(1), 5_000), Some(6_000));
        order.hold(3, 1, 1, &[0; 10], 2_000);
        assert_eq!(polled(&mut order, 1, 2_000), [3, 4]);
        order.hold(8, 7, 1, &[0; 10], 3_000);
        assert_eq!(polled(&mut order, 1, 7_999), []);
        assert_eq!(polled(&mut order, 1, 8_000), [8], "what it waits for is lost");
        order.hold(8, 7, 1, &[0; 10], 9_000);
        assert_eq!(polled(&mut order, 1, 20_000), [], "the same one came twice");
    }

    #[test]
    fn what_is_of_a_screen_to_come_waits_for_it() {
        let mut order = order();
        order.hold(9, 0, 2, &[0; 10], 0);
        assert_eq!(polled(&mut order, 1, 1_000_000), []);
        assert_eq!(order.deadline(Some(1), 5_000), None, "no time helps it");
        assert_eq!(polled(&mut order, 2, 1_000_000), [9]);
        order.hold(10, 0, 1, &[0; 10], 0);
        let held = order.poll(Some(2), 5_000, 0).expect("its screen is over");
        assert_eq!(order.turn(&held, 2, std::iter::empty()), Turn::Drop);
    }

    #[test]
    fn what_is_late_goes_under_nothing_newer() {
        let mut order = order();
        apply(&mut order, 1, 0);
        apply(&mut order, 3, 0);
        apply(&mut order, 5, 40);
        let late = |seq| Held { seq, after: 0, epoch: 1, since: 0, frame: Vec::new() };
        assert_eq!(order.turn(&late(2), 1, [fill(2)].into_iter()), Turn::Discard, "3 lies over it");
        assert_eq!(order.turn(&late(4), 1, [fill(2)].into_iter()), Turn::Apply, "3 is older");
        let copy = |x, dx| Command::Copy { region: Rect::at(x, 0, 4, 4).into(), dx, dy: 0 };
        assert_eq!(order.turn(&late(4), 1, [copy(20, -20)].into_iter()), Turn::Discard, "it would read what 5 wrote");
        order.discarded(4, 7);
        assert_eq!(order.poll_news().map(|arrived| arrived.discarded.clone()), Some(vec![4]));
        order.reset();
        assert_eq!(order.turn(&late(2), 1, [fill(2)].into_iter()), Turn::Apply);
    }

    #[test]
    fn what_nobody_can_judge_any_more_is_too_late() {
        let mut order = order();
        (3..=DONE_MAX as u64 + 4).for_each(|seq| apply(&mut order, seq, 0));
        let held = Held { seq: 2, after: 0, epoch: 1, since: 0, frame: Vec::new() };
        assert_eq!(order.turn(&held, 1, [fill(80)].into_iter()), Turn::Discard);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut order = order();
        (10..1000).for_each(|seq| order.hold(seq, seq - 1, 1, &[0; 10], 0));
        assert_eq!(order.held.len(), HELD_MAX);
        let mut order = Order::default();
        (10..1000).for_each(|seq| order.hold(seq, seq - 1, 1, &[0; 10_000], 0));
        assert!(order.held_bytes <= HELD_BYTES_MAX && order.held.len() < HELD_MAX);
    }

    #[test]
    fn what_has_arrived_is_said_once_more() {
        let mut order = order();
        order.applied(1, 1_000);
        assert_eq!(order.deadline(Some(1), 5_000), Some(41_000));
        assert_eq!(order.poll_repeat(40_999), None, "not so soon");
        assert!(order.poll_repeat(41_000).is_some());
        assert_eq!(order.poll_repeat(90_000), None);
        assert_eq!(order.deadline(Some(1), 5_000), None);
    }
}
