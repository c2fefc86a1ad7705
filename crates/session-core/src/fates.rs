//! Path 10/13: beside update.rs, to the shell, which plans what a viewer keeps.
//! What became of jobs: whether the viewer has applied all that came of one.
//! Knows numbers; never what a job did.

use std::collections::VecDeque;

use crate::update::JobId;

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The viewer has applied all that came of it.
    Applied,
    /// Some of it, or all, will not be applied: it was cancelled, taken back, lost, or is for another geometry. Told before
    /// anything is known to be applied that leaves later.
    Void,
}

/// Fates not yet told. As many wait as jobs are under way, where the shell asks after each acknowledgement and before each
/// job; none are remembered for one that never will.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    wanted: bool,
    told: VecDeque<(JobId, Fate)>,
}

impl Fates {
    /// The shell will ask from now on.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn push(&mut self, job: JobId, fate: Fate) {
        if self.wanted {
            self.told.push_back((job, fate));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<(JobId, Fate)> {
        self.told.pop_front()
    }
}
