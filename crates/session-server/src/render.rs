//! Path 7/13 and 8/13: one viewer's jobs, from the framebuffer's pixels to a plan against what that viewer shows.
//! From actor.rs with a job of session-core, to worker.rs or the encoder in place.
//! Knows the framebuffer, shadows and regions; never bytes of commands.

use thinc_pixels::{Shadow, plan};
use thinc_region::Size;
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{Job, Session, SnapshotVerdict, ViewerId};

use crate::worker::Work;

/// What one viewer shows, as far as the session knows.
#[derive(Debug)]
pub(crate) struct View {
    epoch: u32,
    shadow: Shadow,
    /// `ViewerStats::cancelled` when it was last looked at.
    cancelled: u64,
}

impl View {
    pub(crate) fn new() -> View {
        View { epoch: 0, shadow: Shadow::new(Size { width: 0, height: 0 }), cancelled: 0 }
    }

    /// The viewer has lost track of what it shows.
    pub(crate) fn forget(&mut self) {
        self.shadow.reset();
    }

    /// Reads the job's pixels into `work` and plans them.
    pub(crate) fn render(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        (ring, framebuffer): (&Ring, &Framebuffer),
        work: &mut Work,
    ) {
        if self.epoch != job.epoch {
            self.epoch = job.epoch;
            self.shadow = Shadow::new(core.size());
        }
        for copy in &job.copies {
            self.shadow.copy(&copy.region, copy.dx, copy.dy);
        }
        (work.viewer, work.job) = (viewer, job.id);
        loop {
            let before = ring.begin();
            work.snapshot.fill(&job.region, |rect, dst, stride| framebuffer.read_rect(rect, dst, stride));
            // Loaded after the pixels were read: whatever it counts may be in them.
            let tag = ring.begin();
            match core.handle_snapshot(viewer, job.id, Some(before), tag) {
                SnapshotVerdict::Keep => break,
                SnapshotVerdict::ReadAgain => {}
            }
        }
        work.planned.clear();
        plan(&work.snapshot, &mut self.shadow, &mut work.planned);
    }

    /// Gives the job's bytes to session-core. Where that gives the job up (its frame was too long for the viewer), the
    /// shadow shows pixels that were never sent; it is cheaper to forget them all than to follow them.
    pub(crate) fn encoded(&mut self, core: &mut Session, work: &Work) {
        core.handle_encoded(work.viewer, work.job, &work.commands);
        let cancelled = core.stats(work.viewer).map_or(0, |stats| stats.cancelled);
        if self.cancelled != cancelled {
            self.cancelled = cancelled;
            self.forget();
        }
    }
}
