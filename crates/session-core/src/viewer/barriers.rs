//! Path 10/13: under viewer.rs, from its queue and its delivery, to its messages.
//! When a viewer's barrier is answered: once everything that was drawn before it has been sent.
//! Knows regions and numbers; never pixels.

use thinc_protocol::session::SessionMessage;
use thinc_region::Region;

use super::pending::Pending;
use super::{Viewer, Violation};
use crate::delivery::ledger::JobId;

/// Most barriers that wait.
pub(crate) const BARRIERS_MAX: usize = 16;

#[derive(Debug)]
enum State {
    /// The driver has the barrier and has not answered.
    Requested,
    /// The driver has answered: this is what must still be committed, and the job before which
    /// everything must be sent.
    Draining { region: Region, copies: bool, job_end: JobId },
}

#[derive(Debug)]
struct Barrier {
    viewer_number: u32,
    driver_number: u32,
    state: State,
    /// The newest update when everything it waits for had been sent: of those, the datagrams must
    /// be known to have arrived.
    sent_by: Option<u64>,
}

/// How far what was drawn has come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// COPYs wait to be committed.
    copies_wait: bool,
    oldest_unsent: Option<JobId>,
    newest_seq: u64,
    oldest_datagram: Option<u64>,
}

/// One viewer's barriers that wait, in the order of its requests.
#[derive(Debug, Default)]
pub(super) struct Barriers(Vec<Barrier>);

impl Barriers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, viewer_number: u32, driver_number: u32) -> Result<(), Violation> {
        if self.0.len() >= BARRIERS_MAX {
            return Err(Violation::Barriers(BARRIERS_MAX));
        }
        let state = State::Requested;
        self.0.push(Barrier { viewer_number, driver_number, state, sent_by: None });
        Ok(())
    }

    /// Those that the driver has not answered, by its numbers.
    fn requested(&self) -> impl Iterator<Item = u32> {
        let requested = |barrier: &&Barrier| matches!(barrier.state, State::Requested);
        self.0.iter().filter(requested).map(|barrier| barrier.driver_number)
    }

    /// The driver's records up to one of them have arrived.
    pub(super) fn is_draining(&self) -> bool {
        self.0.iter().any(|barrier| matches!(barrier.state, State::Draining { .. }))
    }

    /// The driver's records up to this one have arrived, after which this waits to be committed by
    /// `next_job` or later.
    pub(super) fn reached(
        &mut self,
        driver_number: u32,
        waiting: &Region,
        copies: bool,
        next_job: JobId,
    ) {
        for barrier in self.0.iter_mut().filter(|barrier| barrier.driver_number == driver_number) {
            if matches!(barrier.state, State::Requested) {
                barrier.state =
                    State::Draining { region: waiting.clone(), copies, job_end: next_job };
            }
        }
    }

    /// Those that drain also wait for these pixels.
    pub(super) fn wait_for(&mut self, pixels: &Region) {
        for barrier in &mut self.0 {
            if let State::Draining { region, .. } = &mut barrier.state {
                region.add(pixels);
            }
        }
    }

    /// Pixels that were sent will be sent again, and are among these that are pending: COPYs may
    /// have moved them anywhere.
    pub(super) fn sent_again(&mut self, pending: &Region) {
        self.0.iter_mut().for_each(|barrier| barrier.sent_by = None);
        self.wait_for(pending);
    }

    /// A job was committed, with this region and all COPYs.
    pub(super) fn committed(&mut self, job: JobId, region: &Region) {
        for barrier in &mut self.0 {
            if let State::Draining { region: wanted, copies, job_end } = &mut barrier.state {
                // It may wait for any of this: a job too many costs its transfer time.
                if *copies || wanted.overlaps(region) {
                    *job_end = JobId(job.0 + 1);
                    *copies = false;
                    wanted.subtract(region);
                }
            }
        }
    }

    /// A new geometry: all of this screen is committed by `next_job` or later.
    pub(super) fn reset(&mut self, screen: &Region, next_job: JobId) {
        for barrier in &mut self.0 {
            if let State::Draining { region, copies, job_end } = &mut barrier.state {
                (*copies, *job_end) = (false, next_job);
                region.clone_from(screen);
            }
        }
    }

    /// Calls `done` with the viewer's number of each that has come to its end. `pending` is what
    /// waits to be committed or compared.
    fn finish(
        &mut self,
        progress: Progress,
        pending: impl FnOnce() -> Region,
        mut done: impl FnMut(u32),
    ) {
        let Progress { copies_wait, oldest_unsent, newest_seq, oldest_datagram } = progress;
        let (mut pending, mut known) = (Some(pending), Region::new());
        self.0.retain_mut(|barrier| {
            let State::Draining { region, copies, job_end } = &mut barrier.state else {
                return true;
            };
            *copies &= copies_wait;
            if !*copies && !region.is_empty() {
                if let Some(pending) = pending.take() {
                    known = pending();
                }
                // Pixels that a COPY has covered since are no longer needed.
                region.intersect(&known);
            }
            let is_sent = region.is_empty()
                && !*copies
                && oldest_unsent.is_none_or(|oldest| oldest >= *job_end);
            barrier.sent_by = is_sent.then(|| barrier.sent_by.unwrap_or(newest_seq));
            let is_done = barrier
                .sent_by
                .is_some_and(|newest| oldest_datagram.is_none_or(|datagram| datagram > newest));
            if is_done {
                done(barrier.viewer_number);
            }
            !is_done
        });
    }
}

impl Viewer {
    pub(crate) fn barrier(
        &mut self,
        viewer_number: u32,
        driver_number: u32,
    ) -> Result<(), Violation> {
        self.pending.barriers.push(viewer_number, driver_number)
    }

    /// Barriers that the driver has not answered, for a new driver.
    pub(crate) fn barriers_requested(&self) -> impl Iterator<Item = u32> {
        self.pending.barriers.requested()
    }

    /// The driver's records up to this barrier have arrived.
    pub(crate) fn driver_barrier(&mut self, driver_number: u32) {
        self.pending.driver_barrier(driver_number, self.delivery.ledger.next_job());
    }

    pub(super) fn finish_barriers(&mut self, out: &mut Vec<u8>) {
        let Viewer { pending: Pending { barriers, queue, .. }, delivery, .. } = self;
        let progress = Progress {
            copies_wait: queue.copies().next().is_some(),
            oldest_unsent: delivery.ledger.unsent().next().map(|update| update.id),
            newest_seq: delivery.ledger.newest_seq,
            oldest_datagram: delivery.ledger.oldest_datagram(),
        };
        let pending = || {
            let mut pending = queue.pending();
            pending.add(queue.in_doubt());
            pending
        };
        barriers.finish(progress, pending, |number| SessionMessage::Barrier(number).encode(out));
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Rect;

    use super::*;

    /// Everything is sent and has arrived.
    const AT_REST: Progress =
        Progress { copies_wait: false, oldest_unsent: None, newest_seq: 9, oldest_datagram: None };

    fn pixels(x: i32) -> Region {
        Region::from(Rect::at(x, 0, 10, 10))
    }

    fn done(barriers: &mut Barriers, progress: Progress, pending: &Region) -> Vec<u32> {
        let mut done = Vec::new();
        barriers.finish(progress, || pending.clone(), |number| done.push(number));
        done
    }

    #[test]
    fn a_barrier_waits_for_the_driver_and_then_for_the_job_with_its_pixels() {
        let (mut barriers, nothing) = (Barriers::default(), Region::new());
        barriers.push(7, 1).unwrap();
        assert_eq!(done(&mut barriers, AT_REST, &nothing), [], "the driver has not answered");
        barriers.reached(2, &pixels(0), false, JobId(3));
        assert_eq!(barriers.requested().collect::<Vec<_>>(), [1], "that was another barrier");
        barriers.reached(1, &pixels(0), false, JobId(3));
        assert!(barriers.is_draining() && barriers.requested().next().is_none());
        assert_eq!(done(&mut barriers, AT_REST, &pixels(0)), [], "they are pending");
        barriers.committed(JobId(3), &pixels(20));
        barriers.committed(JobId(4), &pixels(0));
        let unsent = |job| Progress { oldest_unsent: Some(JobId(job)), ..AT_REST };
        assert_eq!(done(&mut barriers, unsent(4), &nothing), []);
        assert_eq!(done(&mut barriers, unsent(5), &nothing), [7]);
        assert!(barriers.is_empty());
    }

    #[test]
    fn datagrams_must_have_arrived_that_were_sent_by_then() {
        let (mut barriers, nothing) = (Barriers::default(), Region::new());
        barriers.push(7, 1).unwrap();
        barriers.reached(1, &nothing, false, JobId(0));
        let datagram = |seq| Progress { oldest_datagram: Some(seq), ..AT_REST };
        assert_eq!(done(&mut barriers, datagram(8), &nothing), []);
        // It is lost and its pixels are pending again.
        barriers.sent_again(&pixels(0));
        assert_eq!(done(&mut barriers, AT_REST, &pixels(0)), []);
        barriers.committed(JobId(1), &pixels(0));
        let later = Progress { newest_seq: 12, ..datagram(12) };
        assert_eq!(done(&mut barriers, later, &nothing), [], "12 replaces it");
        assert_eq!(done(&mut barriers, datagram(13), &nothing), [7]);
    }

    #[test]
    fn pixels_that_a_copy_has_covered_are_no_longer_waited_for() {
        let mut barriers = Barriers::default();
        barriers.push(7, 1).unwrap();
        barriers.reached(1, &pixels(0), true, JobId(0));
        let copies = Progress { copies_wait: true, ..AT_REST };
        assert_eq!(done(&mut barriers, copies, &pixels(0)), []);
        barriers.committed(JobId(0), &Region::new());
        assert_eq!(done(&mut barriers, AT_REST, &pixels(20)), [7]);
    }

    #[test]
    fn a_new_geometry_is_waited_for_as_a_whole() {
        let mut barriers = Barriers::default();
        barriers.push(7, 1).unwrap();
        barriers.reached(1, &Region::new(), true, JobId(0));
        barriers.reset(&pixels(0), JobId(5));
        assert_eq!(done(&mut barriers, AT_REST, &pixels(0)), []);
        barriers.committed(JobId(5), &pixels(0));
        let unsent = Progress { oldest_unsent: Some(JobId(5)), ..AT_REST };
        assert_eq!(done(&mut barriers, unsent, &Region::new()), []);
        assert_eq!(done(&mut barriers, AT_REST, &Region::new()), [7]);
    }

    #[test]
    fn there_is_a_limit() {
        let mut barriers = Barriers::default();
        (0..BARRIERS_MAX as u32).for_each(|number| barriers.push(number, number).unwrap());
        assert_eq!(barriers.push(99, 99), Err(Violation::Barriers(BARRIERS_MAX)));
        assert_eq!(barriers.len(), BARRIERS_MAX);
    }
}
