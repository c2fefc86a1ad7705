//! Path 10/13: under viewer.rs, from its queue and its unsent updates, to its messages.
//! When a viewer's barrier is answered: once everything that was drawn before it has been sent.
//! Knows regions and numbers; never pixels.

use thinc_protocol::session::SessionMessage;

use super::{BarrierState, Viewer};

impl Viewer {
    pub(super) fn finish_barriers(&mut self, out: &mut Vec<u8>) {
        let oldest_unsent = self.delivery.ledger.unsent().next().map(|update| update.id);
        let nothing_copies = self.queue.copies().next().is_none();
        let (newest, datagram) =
            (self.delivery.ledger.newest_seq, self.delivery.ledger.oldest_datagram());
        let mut pending = None;
        self.barriers.retain_mut(|barrier| {
            let BarrierState::Draining { region, copies, job_end } = &mut barrier.state else {
                return true;
            };
            *copies &= !nothing_copies;
            if !*copies && !region.is_empty() {
                // Pixels that a COPY has covered since are no longer needed.
                region.intersect(pending.get_or_insert_with(|| {
                    let mut pending = self.queue.pending();
                    pending.add(self.queue.in_doubt());
                    pending
                }));
            }
            let has_left = region.is_empty()
                && !*copies
                && oldest_unsent.is_none_or(|oldest| oldest >= *job_end);
            barrier.sent_by = has_left.then(|| barrier.sent_by.unwrap_or(newest));
            let done = barrier
                .sent_by
                .is_some_and(|newest| datagram.is_none_or(|datagram| datagram > newest));
            if done {
                SessionMessage::Barrier(barrier.viewer_number).encode(out);
            }
            !done
        });
    }
}
