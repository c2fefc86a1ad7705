//! Path 10/13: beside ledger.rs, to the shell, which plans what a viewer keeps in its cache.
//! The outcome of each job: whether the viewer has applied all that the job sent.
//! Knows job numbers; never what a job changed.

use std::collections::VecDeque;

use crate::delivery::ledger::JobId;

/// The outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The viewer has applied all of it.
    Applied,
    /// Some or all of it will not be applied: it was cancelled, withdrawn or lost, or belongs to an
    /// earlier geometry. Reported before any later job is reported as applied.
    Discarded,
}

/// Outcomes that the shell has not polled. The shell polls after each acknowledgement and before
/// each job, so there are no more than jobs in flight; without such a shell none are stored.
#[derive(Debug, Default)]
pub(crate) struct JobOutcomes {
    wanted: bool,
    queue: VecDeque<(JobId, JobOutcome)>,
}

impl JobOutcomes {
    /// The shell will poll from now on.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn push(&mut self, job: JobId, outcome: JobOutcome) {
        if self.wanted {
            self.queue.push_back((job, outcome));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<(JobId, JobOutcome)> {
        self.queue.pop_front()
    }
}
