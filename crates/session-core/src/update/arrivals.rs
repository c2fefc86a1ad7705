//! Path 10/13 and back: under update.rs, of what was sent.
//! What is known to be applied or lost of one viewer's updates, and what follows for those that came later.
//! Knows regions and numbers; never pixels, bytes or times.

use std::ops::RangeInclusive;

use thinc_region::Region;

use super::{Arrived, Sent, State, Updates};
use crate::effects::{Arrival, Effects};
use crate::fates::Fate;
use crate::job::JobId;
use crate::mutation::Mutation;
use crate::parts::Touched;

impl Updates {
    /// What leaves next of the update at `at` may be lost, and need not wait for anything under way that comes in order. What a viewer keeps
    /// and streams lean on what went before.
    pub(crate) fn may_go_alone(&self, at: usize, commands_max: usize) -> bool {
        let parts = &self.unsent[at].parts;
        let Some(part) = parts.first().filter(|part| parts.commands(part).len() <= commands_max) else { return false };
        let touched = &part.touched;
        let meets = |sent: &Sent| !sent.alone && sent.fate == Arrived::UnderWay && touched.conflicts(&sent.touched);
        self.arrival == Arrival::Mixed
            && !touched.uses_slots()
            && touched.streams == 0
            && (self.broken.is(Mutation::AloneDoesNotWait) || !self.sent.iter().any(meets))
    }

    /// Rule 5. Update `seq` will not be applied: what the viewer lacks for that, after everything committed. All that it
    /// wrote, and what later ones took from there, less what they wrote over it. Empty where it is known to be applied.
    ///
    /// What was equal to something it wrote, and so not sent by a later update, is in it: only what was sent mends.
    pub(crate) fn lost(&mut self, seq: u64) -> Option<Region> {
        let Ok(at) = self.sent.binary_search_by_key(&seq, |sent| sent.seq) else { return Some(Region::new()) };
        let sent = &mut self.sent[at];
        if sent.fate != Arrived::UnderWay {
            return Some(Region::new());
        }
        sent.fate = Arrived::Lost;
        let writes = sent.touched.writes.clone();
        let (job, known) = (sent.job, seq > self.history_after);
        if let Some(job) = job {
            self.become_void(job);
        }
        self.void_kept(Some(&writes).filter(|_| known), at);
        let lacking = if known { self.follow(&writes, seq) } else { None };
        self.forget_sent();
        lacking
    }

    /// Some of a job, or what a part of it leans on, is lost.
    fn become_void(&mut self, job: JobId) {
        for sent in self.sent.iter_mut().filter(|sent| sent.job == Some(job)) {
            sent.is_last = false;
        }
        match self.unsent.iter_mut().find(|update| update.id == job) {
            Some(update) => update.become_void(&mut self.fates),
            None => self.fates.push(job, Fate::Void),
        }
    }

    /// What the viewer was told to keep after the update at `at`, it has kept as it shows it: without what that wrote. None: nobody
    /// knows where that would be.
    fn void_kept(&mut self, writes: Option<&Region>, at: usize) {
        if !self.fates.is_wanted() {
            return;
        }
        let mut void = Vec::new();
        let mut lacking = writes.cloned();
        for sent in self.sent.iter().skip(at + 1).filter(|sent| sent.fate != Arrived::Lost) {
            let lacks = keeps_of(&sent.touched, &sent.effects, &mut lacking);
            void.extend(sent.job.filter(|_| lacks));
        }
        for update in &self.unsent {
            // What will come of one that is being encoded is not known yet.
            let meets = |lacking: &Region| lacking.overlaps(&update.region);
            let mut lacks = update.state == State::Committed && lacking.as_ref().is_none_or(meets);
            for part in update.parts.iter() {
                lacks |= keeps_of(&part.touched, &part.effects, &mut lacking);
            }
            void.extend(lacks.then_some(update.id));
        }
        void.dedup();
        void.into_iter().for_each(|job| self.become_void(job));
    }

    /// These were applied, in whatever order; `each` is told which of them that was not known of.
    pub(crate) fn applied(&mut self, seqs: &RangeInclusive<u64>, mut each: impl FnMut(u64)) {
        for sent in self.sent.iter_mut().filter(|sent| sent.fate == Arrived::UnderWay && seqs.contains(&sent.seq)) {
            sent.fate = Arrived::Applied;
            if !sent.alone {
                self.acked_in_order = self.acked_in_order.max(sent.seq);
            }
            each(sent.seq);
        }
        self.forget_sent();
    }

    /// What the stream brought before the newest that is known to have come by it has come, too, though the viewer has not said so: it has
    /// words for the newest gaps only. `each` is told which.
    pub(crate) fn implied(&mut self, mut each: impl FnMut(u64)) {
        if self.arrival != Arrival::Mixed {
            return;
        }
        let known = self.acked_in_order;
        let unsaid = |sent: &&mut Sent| sent.fate == Arrived::UnderWay && !sent.alone;
        for sent in self.sent.iter_mut().take_while(|sent| sent.seq < known).filter(unsaid) {
            sent.fate = Arrived::Applied;
            each(sent.seq);
        }
        self.forget_sent();
    }

    /// It left, and nothing is known of it since.
    pub(crate) fn is_under_way(&self, seq: u64) -> bool {
        self.sent.binary_search_by_key(&seq, |sent| sent.seq).is_ok_and(|at| self.sent[at].fate == Arrived::UnderWay)
    }

    /// Nothing can become lacking of what lies before the first that is under way, and only then is a job applied: what it keeps is made
    /// of what went before.
    fn forget_sent(&mut self) {
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.fate != Arrived::UnderWay) {
            self.acked_seq = sent.seq;
            if let Some(job) = sent.job.filter(|_| sent.is_last && sent.fate == Arrived::Applied) {
                self.fates.push(job, Fate::Applied);
            }
            self.forget_effects(&sent);
        }
    }

    fn forget_effects(&mut self, sent: &Sent) {
        if sent.seq > self.history_after {
            self.history_after = sent.seq;
            self.history_rects -= sent.effects.rects();
        }
    }
}

/// Whether commands keep what lacks, before them or after; which they carry on. None: all lacks.
fn keeps_of(touched: &Touched, effects: &Effects, lacking: &mut Option<Region>) -> bool {
    let Some(lacking) = lacking else { return touched.uses_slots() };
    let before = touched.keeps_of(lacking);
    effects.follow(lacking);
    before || touched.keeps_of(lacking)
}
