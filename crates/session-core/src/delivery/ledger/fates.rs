//! Path 10/13, and path back: under ledger.rs, for updates that were sent.
//! Which updates are known to be applied or lost, and what follows for later ones. Knows regions
//! and numbers; never pixels, bytes or times.

use std::ops::RangeInclusive;

use thinc_region::Region;

use super::{EncodeState, Fate, InFlight, Ledger, SentUpdate};
use crate::delivery::effects::{DeliveryOrder, Effects};
use crate::delivery::job::JobId;
use crate::delivery::job_outcomes::JobOutcome;
use crate::delivery::parts::Touched;
use crate::mutation::mutated;

impl Ledger {
    /// The next part of the update at `at` may be sent as a datagram: it may be lost and waits for
    /// nothing in flight on the stream. Cached content and video streams depend on earlier updates,
    /// so they may not.
    pub(crate) fn fits_datagram(&self, at: usize, commands_max: usize) -> bool {
        let parts = &self.unsent[at].parts;
        let Some(part) = parts.first().filter(|part| parts.commands(part).len() <= commands_max)
        else {
            return false;
        };
        let touched = &part.touched;
        let meets = |sent: &SentUpdate| {
            sent.in_flight().is_some_and(|in_flight| !in_flight.is_datagram())
                && touched.conflicts(&sent.touched)
        };
        self.order == DeliveryOrder::Mixed
            && !touched.uses_slots()
            && touched.streams == 0
            && (mutated!(self.mutation, DatagramDoesNotWait) || !self.sent.iter().any(meets))
    }

    /// Rule 5. Update `seq` will not be applied. Returns what the viewer lacks, after everything
    /// committed: all that it wrote, and what later updates copied from there, except what they
    /// wrote over it; the whole screen if that is None. None if its fate is known.
    ///
    /// Pixels that were equal to what it wrote, and so not sent by a later update, are included:
    /// only sent pixels repair.
    pub(in crate::delivery) fn lost(&mut self, seq: u64) -> Option<(InFlight, Option<Region>)> {
        let at = self.sent.binary_search_by_key(&seq, |sent| sent.seq).ok()?;
        let sent = &mut self.sent[at];
        let in_flight = sent.decide(Fate::Lost)?;
        self.datagrams -= usize::from(in_flight.is_datagram());
        let writes = sent.touched.writes.clone();
        let (job, known) = (sent.job, seq > self.history_after);
        if let Some(job) = job {
            self.discard(job);
        }
        self.discard_kept(Some(&writes).filter(|_| known), at);
        let stale = if known { self.follow(&writes, seq) } else { None };
        self.forget_sent();
        Some((in_flight, stale))
    }

    /// Some of a job, or something that a part of it refers to, is lost.
    fn discard(&mut self, job: JobId) {
        for sent in self.sent.iter_mut().filter(|sent| sent.job == Some(job)) {
            sent.is_last = false;
        }
        match self.unsent.iter_mut().find(|update| update.id == job) {
            Some(update) => update.discard(&mut self.outcomes),
            None => self.outcomes.push(job, JobOutcome::Discarded),
        }
    }

    /// Discards jobs whose KEEPs, after the update at `at`, stored pixels without what that wrote.
    /// None: any of them may have.
    fn discard_kept(&mut self, writes: Option<&Region>, at: usize) {
        if !self.outcomes.is_wanted() {
            return;
        }
        let mut discarded = Vec::new();
        let mut stale = writes.cloned();
        for sent in self.sent.iter().skip(at + 1).filter(|sent| !matches!(sent.fate, Fate::Lost)) {
            let keeps = keeps_stale(&sent.touched, &sent.effects, &mut stale);
            discarded.extend(sent.job.filter(|_| keeps));
        }
        for update in &self.unsent {
            // The commands of a job that is being encoded are not known yet.
            let meets = |stale: &Region| stale.overlaps(&update.region);
            let mut keeps =
                update.state == EncodeState::Committed && stale.as_ref().is_none_or(meets);
            for part in update.parts.iter() {
                keeps |= keeps_stale(&part.touched, &part.effects, &mut stale);
            }
            discarded.extend(keeps.then_some(update.id));
        }
        discarded.dedup();
        discarded.into_iter().for_each(|job| self.discard(job));
    }

    /// These updates were applied, in any order: those that were in flight, from the oldest.
    /// [`Ledger::take_implied`] follows.
    pub(in crate::delivery) fn take_applied(
        &mut self,
        seqs: &RangeInclusive<u64>,
    ) -> impl Iterator<Item = InFlight> {
        let from = self.sent.partition_point(|sent| sent.seq < *seqs.start());
        let to = self.sent.partition_point(|sent| sent.seq <= *seqs.end()).max(from);
        let Ledger { sent, acked_in_order, datagrams, .. } = self;
        sent.range_mut(from..to).filter_map(|sent| {
            let in_flight = sent.decide(Fate::Applied)?;
            if in_flight.is_datagram() {
                *datagrams -= 1;
            } else {
                *acked_in_order = sent.seq.max(*acked_in_order);
            }
            Some(in_flight)
        })
    }

    /// So many updates from this one on were acknowledged for the first time: they count towards
    /// the packet threshold of the datagrams sent before.
    pub(in crate::delivery) fn count_later(&mut self, seq: u64, acked: u32) {
        if acked == 0 || self.datagrams == 0 {
            return;
        }
        for sent in self.sent.iter_mut().take_while(|sent| sent.seq < seq) {
            if let Fate::InFlight(InFlight { datagram: Some(later_acked), .. }) = &mut sent.fate {
                *later_acked += acked;
            }
        }
    }

    /// All updates on the stream before the newest one known to be applied are applied too, though
    /// the viewer reports only the newest gaps. `each` is called for them.
    pub(in crate::delivery) fn take_implied(&mut self, mut each: impl FnMut(InFlight)) {
        if self.order == DeliveryOrder::Mixed {
            let before = self.sent.partition_point(|sent| sent.seq < self.acked_in_order);
            let mut later = 0;
            for sent in self.sent.range_mut(..before).rev() {
                match &mut sent.fate {
                    Fate::InFlight(InFlight { datagram: Some(later_acked), .. }) => {
                        *later_acked += later;
                    }
                    Fate::InFlight(_) => {
                        sent.decide(Fate::Applied).into_iter().for_each(&mut each);
                        later += 1;
                    }
                    Fate::Applied | Fate::Lost => {}
                }
            }
        }
        self.forget_sent();
    }

    /// It was sent, and is neither applied nor lost.
    pub(crate) fn is_in_flight(&self, seq: u64) -> bool {
        self.sent
            .binary_search_by_key(&seq, |sent| sent.seq)
            .is_ok_and(|at| self.sent[at].in_flight().is_some())
    }

    /// Pixels before the first update in flight cannot become stale. Only then is a job applied,
    /// since what it keeps is made of earlier pixels.
    fn forget_sent(&mut self) {
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.in_flight().is_none()) {
            self.acked_seq = sent.seq;
            if let Some(job) =
                sent.job.filter(|_| sent.is_last && matches!(sent.fate, Fate::Applied))
            {
                self.outcomes.push(job, JobOutcome::Applied);
            }
            self.forget_effects(&sent);
        }
    }

    fn forget_effects(&mut self, sent: &SentUpdate) {
        if sent.seq > self.history_after {
            self.history_after = sent.seq;
            self.history_rects -= sent.effects.rects();
        }
    }
}

/// Whether the commands KEEP stale pixels, before or after their COPYs move them. None: everything
/// is stale.
fn keeps_stale(touched: &Touched, effects: &Effects, stale: &mut Option<Region>) -> bool {
    let Some(stale) = stale else { return touched.uses_slots() };
    let before = touched.keeps_any_of(stale);
    effects.follow(stale);
    before || touched.keeps_any_of(stale)
}
